//! The values of `state.*` outside of executions: for a person or a program that looks at them or sets them right.

use std::time::Duration;

use jiff::Timestamp;
use model::automation::AutomationId;
use model::value::Value;
use serde::Serialize;
use store::{StateEntry, StateRow, StateWrite};

use super::state::{check_key, check_size, is_alive, scope_name};
use crate::Error;
use crate::context::Runtime;

/// The word for the values that all Automations share.
const SHARED: &str = "shared";
/// What stands before the id of an Automation that is itself called like that word.
const OWNED: &str = "automation:";

/// Whose values are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateScope {
    owner: Option<AutomationId>,
    test: bool,
}

/// A value with its key.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateValue {
    /// Its key.
    pub key: String,
    /// What is kept.
    #[serde(serialize_with = "outside")]
    pub value: Value,
    /// From when on it counts as absent, if it is not kept for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

fn outside<S: serde::Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    value.to_serde().serialize(serializer)
}

impl StateScope {
    /// `shared`, or the id of an Automation; `automation:shared` for one that is called so. Those of test executions
    /// are kept apart.
    #[must_use]
    pub fn parse(text: &str, test: bool) -> Option<Self> {
        let owner = match text {
            SHARED => None,
            text => Some(AutomationId::parse(text.strip_prefix(OWNED).unwrap_or(text))?),
        };
        Some(Self { owner, test })
    }

    /// What the store calls them.
    #[must_use]
    pub fn name(&self) -> String {
        scope_name(self.owner.as_ref(), self.test)
    }
}

impl StateValue {
    fn of(key: String, entry: StateEntry) -> Self {
        Self { key, value: entry.value, expires_at: entry.expires_at }
    }
}

impl Runtime {
    /// The value with this key, if there is one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn read_state(&self, scope: &StateScope, key: &str) -> Result<Option<StateValue>, Error> {
        let services = self;
        let entry = services.store.read_state(&scope.name(), key).await?;
        let entry = entry.filter(|entry| is_alive(entry, services.clock.now()));
        Ok(entry.map(|entry| StateValue::of(key.to_owned(), entry)))
    }

    /// Values by key, those with keys after `after`, and the key after which there are more. There may be fewer than
    /// `limit` though more follow, where they are large or have expired.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list_state(
        &self,
        scope: &StateScope,
        after: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<StateValue>, Option<String>), Error> {
        let services = self;
        let (name, now) = (scope.name(), services.clock.now());
        let page = services.store.list_state(&name, after, limit).await?;
        let mut next = page.last().map(|last| last.key.clone());
        if let Some(last) = &next
            && services.store.list_state(&name, Some(last), 1).await?.is_empty()
        {
            next = None;
        }
        let alive = page.into_iter().filter(|row| is_alive(&row.entry, now));
        Ok((alive.map(|StateRow { key, entry }| StateValue::of(key, entry)).collect(), next))
    }

    /// Keeps a value, for `ttl` or for ever; durable when this comes back.
    ///
    /// # Errors
    /// The key or the value is beyond the limits, or the store failed.
    pub async fn write_state(
        &self,
        scope: &StateScope,
        key: &str,
        value: Value,
        ttl: Option<Duration>,
    ) -> Result<StateValue, Error> {
        check_key(key).map_err(Error::Input)?;
        check_size(&value).map_err(Error::Input)?;
        let now = self.clock.now();
        let expires_at = ttl.map(|ttl| now.checked_add(ttl)).transpose();
        let expires_at = expires_at.map_err(|error| Error::Input(format!("ttl: {error}")))?;
        self.replace_state(scope, key, Some(value.clone()), expires_at).await?;
        Ok(StateValue { key: key.to_owned(), value, expires_at })
    }

    /// Forgets a value; whether there was one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn delete_state(&self, scope: &StateScope, key: &str) -> Result<bool, Error> {
        self.replace_state(scope, key, None, None).await
    }
}

impl Runtime {
    /// Puts a value, or nothing, in the place of what there is; whether that was something.
    async fn replace_state(
        &self,
        scope: &StateScope,
        key: &str,
        value: Option<Value>,
        expires_at: Option<Timestamp>,
    ) -> Result<bool, Error> {
        if !self.accepting() {
            return Err(Error::Closing);
        }
        let scope = scope.name();
        // In turn with the executions that write this key.
        let _lock = self.state_locks.lock(&super::state::lock_name(&scope, key)).await;
        let entry = self.store.read_state(&scope, key).await?;
        let was_there = entry.as_ref().is_some_and(|entry| is_alive(entry, self.clock.now()));
        if entry.is_none() && value.is_none() {
            return Ok(false);
        }
        let expected = entry.map(|entry| entry.version);
        let write = StateWrite { scope, key: key.to_owned(), expected, value, expires_at };
        self.store.write_state(vec![write]).await.inspect_err(|error| self.lost(error))?;
        Ok(was_there)
    }
}
