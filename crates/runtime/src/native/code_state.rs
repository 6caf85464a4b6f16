//! Access of code to the state. The named keys are read before the code runs; its writes commit together with its step.

use std::sync::Arc;

use model::action::{ActionError, ErrorKind};
use script::{ModuleInfo, StateChange};
use store::StateWrite;
use value::Value;

use super::state::{check_key, check_size, is_alive};
use crate::locks::StoreLock;
use crate::run::{Exit, Run};

/// Values of the keys that a piece of code names, and locks on the keys that it may write.
#[derive(Default)]
pub(crate) struct CodeState {
    scope: String,
    values: Vec<(Arc<str>, Option<Value>)>,
    locked: Vec<LockedKey>,
}

/// A locked key.
struct LockedKey {
    key: Arc<str>,
    /// The version that was read; `None` if the key has no value.
    expected: Option<u64>,
    lock: StoreLock,
}

impl CodeState {
    pub(crate) fn values(&self) -> &[(Arc<str>, Option<Value>)] {
        &self.values
    }
}

impl Run {
    /// Reads the keys of the Automation's own state that the code names.
    pub(crate) async fn code_state(&self, facts: &ModuleInfo) -> Result<CodeState, Exit> {
        if facts.state.is_empty() {
            return Ok(CodeState::default());
        }
        let scope = self.state_scope("automation");
        // Sorted, so that all executions lock in the same order and cannot deadlock.
        let mut named: Vec<(&str, bool)> =
            facts.state.iter().map(|key| (key.key.as_str(), key.written)).collect();
        named.sort_unstable();
        let mut locked = Vec::new();
        for (key, written) in &named {
            check_key(key).map_err(|message| Exit::Failed(ActionError::new(ErrorKind::Input, message)))?;
            if *written {
                let lock = self.context.lock_state(&scope, key).await;
                locked.push(LockedKey { key: Arc::from(*key), expected: None, lock });
            }
        }
        let keys: Vec<String> = named.iter().map(|(key, _)| (*key).to_owned()).collect();
        let entries = self.context.store.read_states(&scope, &keys).await;
        let entries = entries.map_err(|error| self.store_failed(error))?;
        let now = self.context.clock.now();
        let mut values = Vec::with_capacity(keys.len());
        for (key, entry) in keys.into_iter().zip(entries) {
            if let Some(locked) = locked.iter_mut().find(|locked| *locked.key == *key) {
                locked.expected = entry.as_ref().map(|entry| entry.version);
            }
            let value = entry.filter(|entry| is_alive(entry, now)).map(|entry| entry.value);
            values.push((Arc::from(key), value));
        }
        Ok(CodeState { scope, values, locked })
    }

    /// Adds the writes of the code to the commit of its step.
    pub(crate) fn write_code_state(
        &self,
        state: CodeState,
        writes: &[script::StateWrite],
    ) -> Result<(), Exit> {
        let CodeState { scope, locked, .. } = state;
        for LockedKey { key, expected, lock } in locked {
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
