//! The state as code sees it: the keys that it names, read before it runs; what it writes commits together with its step.

use std::sync::Arc;

use model::action::{ActionError, ErrorKind};
use model::value::Value;
use script::{Facts, StateChange};
use store::StateWrite;
use tokio::sync::OwnedMutexGuard;

use super::state::{check_key, check_size, is_alive, lock_name};
use crate::run::{Exit, Run};

/// The values of the keys that a piece of code names, and the locks on those that it may write.
#[derive(Default)]
pub(crate) struct CodeState {
    scope: String,
    values: Vec<(Arc<str>, Option<Value>)>,
    held: Vec<Held>,
}

/// A key that nobody else writes meanwhile.
struct Held {
    key: Arc<str>,
    /// The version that was read.
    expected: Option<u64>,
    lock: OwnedMutexGuard<()>,
}

impl CodeState {
    pub(crate) fn values(&self) -> &[(Arc<str>, Option<Value>)] {
        &self.values
    }
}

impl Run {
    /// Reads what the code names of the Automation's own state.
    pub(crate) async fn code_state(&self, facts: &Facts) -> Result<CodeState, Exit> {
        if facts.state.is_empty() {
            return Ok(CodeState::default());
        }
        let scope = self.state_scope("automation");
        // In one order everywhere, so that nobody waits for one who waits for them.
        let mut named: Vec<(&str, bool)> =
            facts.state.iter().map(|key| (key.key.as_str(), key.written)).collect();
        named.sort_unstable();
        let mut held = Vec::new();
        for (key, written) in &named {
            check_key(key).map_err(|message| Exit::Failed(ActionError::new(ErrorKind::Input, message)))?;
            if *written {
                let lock = self.services.state_locks.lock(&lock_name(&scope, key)).await;
                held.push(Held { key: Arc::from(*key), expected: None, lock });
            }
        }
        let keys: Vec<String> = named.iter().map(|(key, _)| (*key).to_owned()).collect();
        let entries = self.services.store.read_states(&scope, &keys).await;
        let entries = entries.map_err(|error| self.store_failed(error))?;
        let now = self.services.clock.now();
        let mut values = Vec::with_capacity(keys.len());
        for (key, entry) in keys.into_iter().zip(entries) {
            if let Some(held) = held.iter_mut().find(|held| *held.key == *key) {
                held.expected = entry.as_ref().map(|entry| entry.version);
            }
            let value = entry.filter(|entry| is_alive(entry, now)).map(|entry| entry.value);
            values.push((Arc::from(key), value));
        }
        Ok(CodeState { scope, values, held })
    }

    /// Has what the code wrote committed with its step.
    pub(crate) fn write_code_state(
        &self,
        state: CodeState,
        writes: &[script::StateWrite],
    ) -> Result<(), Exit> {
        let CodeState { scope, held, .. } = state;
        for Held { key, expected, lock } in held {
            let Some(write) = writes.iter().find(|write| write.key == key) else { continue };
            let value = match &write.change {
                StateChange::Set(value) => Some(value.clone()),
                StateChange::Delete => None,
            };
            if value.is_none() && expected.is_none() {
                continue;
            }
            if let Some(value) = &value {
                check_size(value)
                    .map_err(|message| Exit::Failed(ActionError::new(ErrorKind::Limit, message)))?;
            }
            let write =
                StateWrite { scope: scope.clone(), key: key.to_string(), expected, value, expires_at: None };
            self.journal.write_state(write, lock);
        }
        Ok(())
    }
}
