//! API of the values of `state.*` for people and programs outside of executions: list, read, write and delete.

use std::time::Duration;

use jiff::Timestamp;
use model::automation::AutomationId;
use serde::Serialize;
use store::{StateEntry, StateRow, StateWrite};
use utoipa::ToSchema;
use value::Value;

use super::state::{check_key, check_size, is_alive, scope_name};
use crate::context::Context;
use crate::error::Error;
use crate::locks::StoreLock;

/// Text form of the shared scope.
const SHARED: &str = "shared";
/// Prefix of an Automation whose id is itself `shared`.
const OWNED: &str = "automation:";

/// A state scope: shared or of one Automation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateScope {
    owner: Option<AutomationId>,
    test: bool,
}

/// A value that outlives executions.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateValue {
    /// Its key.
    pub key: String,
    /// The value.
    #[serde(serialize_with = "outside")]
    #[schema(value_type = value::Json)]
    pub value: Value,
    /// When it will be forgotten; absent where it is kept for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

fn outside<S: serde::Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    value.to_serde().serialize(serializer)
}

impl StateScope {
    /// Parses `shared` or the id of an Automation; `automation:shared` means the Automation with that id. `test`
    /// selects the separate scopes of test executions.
    #[must_use]
    pub fn parse(text: &str, test: bool) -> Option<Self> {
        let owner = match text {
            SHARED => None,
            text => Some(AutomationId::parse(text.strip_prefix(OWNED).unwrap_or(text))?),
        };
        Some(Self { owner, test })
    }

    /// Name of the scope in the store.
    #[must_use]
    pub fn name(&self) -> String {
        scope_name(self.owner.as_ref(), self.test)
    }
}

impl StateValue {
    fn new(key: String, entry: StateEntry) -> Self {
        Self { key, value: entry.value, expires_at: entry.expires_at }
    }
}

impl Context {
    /// Reads a value; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn read_state(&self, scope: &StateScope, key: &str) -> Result<Option<StateValue>, Error> {
        let entry = self.store.read_state(&scope.name(), key).await?;
        let entry = entry.filter(|entry| is_alive(entry, self.clock.now()));
        Ok(entry.map(|entry| StateValue::new(key.to_owned(), entry)))
    }

    /// Lists values with keys greater than `after`, sorted by key, and the key to continue from. A page may have fewer
    /// than `limit` values if they are large or some have expired.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn list_state(
        &self,
        scope: &StateScope,
        after: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<StateValue>, Option<String>), Error> {
        let (name, now) = (scope.name(), self.clock.now());
        let page = self.store.list_state(&name, after, limit).await?;
        let mut next = page.last().map(|last| last.key.clone());
        if let Some(last) = &next
            && self.store.list_state(&name, Some(last), 1).await?.is_empty()
        {
            next = None;
        }
        let alive = page.into_iter().filter(|row| is_alive(&row.entry, now));
        Ok((alive.map(|StateRow { key, entry }| StateValue::new(key, entry)).collect(), next))
    }

    /// Stores a value durably, with expiry after `ttl` if given.
    ///
    /// # Errors
    /// Returns an error if the key or the value exceeds its limit, or the store fails.
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

    /// Deletes a value. Returns true if it existed.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn delete_state(&self, scope: &StateScope, key: &str) -> Result<bool, Error> {
        self.replace_state(scope, key, None, None).await
    }
}

impl Context {
    /// Waits until no other writer of a value of the state is between its read and its commit, on any node.
    pub(crate) async fn lock_state(&self, scope: &str, key: &str) -> StoreLock {
        let name = format!("{scope}\n{key}");
        StoreLock::take(&self.state_locks, &self.store, &*self.clock, "state", &name).await
    }

    /// Replaces or deletes a value. Returns true if it existed.
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
        // Serialised with executions that write this key.
        let _lock = self.lock_state(&scope, key).await;
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
