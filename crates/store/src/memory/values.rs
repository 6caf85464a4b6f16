//! Values that outlive executions.

use std::collections::HashSet;
use std::ops::Bound;

use jiff::Timestamp;

use super::MAX_PAGE;
use super::data::{Data, invalid};
use crate::Error;
use crate::types::{StateEntry, StateRow, StateWrite};

/// The approximate limit of a page in bytes.
const PAGE_BYTES: usize = 8 << 20;

impl Data {
    pub(super) fn state_entry(&self, scope: &str, key: &str) -> Option<StateEntry> {
        self.state.get(&(scope.to_owned(), key.to_owned())).cloned()
    }

    /// Returns an error for invalid writes, or if a stored version differs from the expected one.
    pub(super) fn check_state(&self, writes: &[StateWrite]) -> Result<(), Error> {
        let keys: HashSet<(&str, &str)> =
            writes.iter().map(|write| (write.scope.as_str(), write.key.as_str())).collect();
        if writes.len() > StateWrite::MAX_AT_ONCE || keys.len() < writes.len() {
            return Err(invalid(format!("at most {} values at once, each once", StateWrite::MAX_AT_ONCE)));
        }
        for StateWrite { scope, key, expected, value, .. } in writes {
            let is_name = |name: &str| !name.is_empty() && name.len() <= StateWrite::MAX_NAME_BYTES;
            if !is_name(scope) || !is_name(key) {
                return Err(invalid(format!("a name has from 1 to {} bytes", StateWrite::MAX_NAME_BYTES)));
            }
            let bytes = value.as_ref().map_or(0, |value| value.to_json().len());
            if bytes > StateWrite::MAX_VALUE_BYTES {
                return Err(Error::TooLarge { bytes, limit: StateWrite::MAX_VALUE_BYTES });
            }
            let found = self.state.get(&(scope.clone(), key.clone())).map(|entry| entry.version);
            if found != *expected {
                return Err(Error::StateChanged { scope: scope.clone(), key: key.clone() });
            }
        }
        Ok(())
    }

    /// Writes after a check.
    pub(super) fn put_state(&mut self, writes: Vec<StateWrite>) {
        for StateWrite { scope, key, value, expires_at, .. } in writes {
            self.version += 1;
            match value {
                Some(value) => {
                    let entry = StateEntry { value, version: self.version, expires_at };
                    self.state.insert((scope, key), entry);
                }
                None => {
                    self.state.remove(&(scope, key));
                }
            }
        }
    }

    pub(super) fn list_state(&self, scope: &str, after: Option<&str>, limit: u32) -> Vec<StateRow> {
        let first = (scope.to_owned(), after.unwrap_or_default().to_owned());
        let rows = self.state.range((Bound::Excluded(first), Bound::Unbounded));
        let rows = rows.take_while(|((of, _), _)| of == scope).take(limit.min(MAX_PAGE) as usize);
        let mut bytes = 0;
        let mut page = Vec::new();
        for ((_, key), entry) in rows {
            if bytes >= PAGE_BYTES {
                break;
            }
            bytes += entry.value.to_json().len();
            page.push(StateRow { key: key.clone(), entry: entry.clone() });
        }
        page
    }

    pub(super) fn prune_state(&mut self, before: Timestamp, limit: u32) -> u64 {
        let expired = |entry: &StateEntry| entry.expires_at.is_some_and(|expires| expires < before);
        let gone = self.state.iter().filter(|(_, entry)| expired(entry)).map(|(name, _)| name.clone());
        let gone: Vec<(String, String)> = gone.take(limit as usize).collect();
        for name in &gone {
            self.state.remove(name);
        }
        gone.len() as u64
    }
}
