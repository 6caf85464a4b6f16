//! `state.*`: key-value storage that outlives executions. Each write is atomic and commits together with the end of its
//! step, so it happens exactly once, also after a crash.

use std::sync::Arc;

use catalog::StateAction;
use jiff::Timestamp;
use model::action::{ActionError, ErrorKind};
use model::automation::AutomationId;
use store::{StateEntry, StateWrite};
use value::{Map, Number, Value};

use crate::run::{Exit, Run};

impl Run {
    /// Reads the existing values of these keys from the Automation's own state.
    pub(crate) async fn read_state(&self, keys: &[String]) -> Result<Value, Exit> {
        let found = self.context.store.read_states(&self.state_scope("automation"), keys).await;
        let found = found.map_err(|error| self.store_failed(error))?;
        let now = self.context.clock.now();
        let mut state = Map::with_capacity(keys.len());
        for (key, entry) in keys.iter().zip(found) {
            if let Some(entry) = entry.filter(|entry| is_alive(entry, now)) {
                state.insert(key.as_str(), entry.value);
            }
        }
        Ok(Value::from(state))
    }

    pub(super) async fn state_action(&self, verb: StateAction, inputs: &Map) -> Result<Value, Exit> {
        let text = |name| inputs.get(name).and_then(Value::as_str);
        let (key, scope) = (text("key").unwrap_or_default(), text("scope").unwrap_or("automation"));
        let scope = self.state_scope(scope);
        let failed = |error| Exit::Failed(error);
        check_key(key).map_err(|message| failed(ActionError::new(ErrorKind::Input, message)))?;
        let now = self.context.clock.now();
        let expires_at = text("ttl").map(|ttl| expiry(ttl, now)).transpose().map_err(failed)?;
        // Writers of one key are serialised until their commit.
        let lock = match verb {
            StateAction::Get => None,
            _ => Some(self.context.lock_state(&scope, key).await),
        };
        let entry = self.context.store.read_state(&scope, key).await;
        let entry = entry.map_err(|error| self.store_failed(error))?;
        let expected = entry.as_ref().map(|entry| entry.version);
        let alive = entry.filter(|entry| is_alive(entry, now));
        let kept_until = alive.as_ref().and_then(|entry| entry.expires_at);
        let before = alive.map(|entry| entry.value);
        let (value, result) = match verb {
            StateAction::Get => {
                return Ok(before.or_else(|| inputs.get("default").cloned()).unwrap_or_default());
            }
            StateAction::Set => {
                let value = inputs.get("value").cloned().unwrap_or_default();
                (Some(value.clone()), value)
            }
            StateAction::Increment => {
                let sum = sum(before.as_ref(), inputs.get("by")).map_err(failed)?;
                (Some(sum.clone()), sum)
            }
            StateAction::Append => {
                let list = appended(before, inputs).map_err(failed)?;
                (Some(list.clone()), list)
            }
            StateAction::Delete => (None, Value::from(before.is_some())),
            StateAction::Take => {
                (None, before.or_else(|| inputs.get("default").cloned()).unwrap_or_default())
            }
            StateAction::CompareAndSet => {
                let present = before.unwrap_or_default();
                if inputs.get("expected").cloned().unwrap_or_default() != present {
                    return Ok(compared(false, present));
                }
                let value = inputs.get("value").cloned().unwrap_or_default();
                (Some(value.clone()), compared(true, value))
            }
        };
        if expected.is_none() && value.is_none() {
            return Ok(result);
        }
        if let Some(value) = &value {
            check_size(value).map_err(|message| failed(ActionError::new(ErrorKind::Limit, message)))?;
        }
        // Without a new `ttl`, adding to a number or list keeps the current expiry.
        let expires_at = match verb {
            StateAction::Increment | StateAction::Append => expires_at.or(kept_until),
            _ => expires_at,
        };
        if let Some(lock) = lock {
            let write = StateWrite { scope, key: key.to_owned(), expected, value, expires_at };
            self.journal.write_state(write, lock);
        }
        Ok(result)
    }

    /// Name of the state scope. Test executions have their own.
    pub(super) fn state_scope(&self, scope: &str) -> String {
        let owner = (scope != "shared").then_some(&self.deployment.automation.id);
        scope_name(owner, self.origin.is_test())
    }

    pub(crate) fn store_failed(&self, error: store::Error) -> Exit {
        if error.outcome_unknown() {
            return Exit::StoreFailed(Arc::new(error));
        }
        Exit::Failed(ActionError::new(ErrorKind::Internal, format!("the state cannot be read: {error}")))
    }
}

/// Name of a scope in the store: of one Automation, or the shared one if `owner` is `None`.
pub(super) fn scope_name(owner: Option<&AutomationId>, test: bool) -> String {
    let test = if test { "test:" } else { "" };
    match owner {
        None => format!("{test}shared"),
        Some(id) => format!("{test}automation:{id}"),
    }
}

/// Returns true if the value has not expired.
pub(super) fn is_alive(entry: &StateEntry, now: Timestamp) -> bool {
    entry.expires_at.is_none_or(|at| at > now)
}

/// Checks the length of a key.
pub(super) fn check_key(key: &str) -> Result<(), String> {
    if key.is_empty() || key.len() > StateWrite::MAX_NAME_BYTES {
        return Err(format!("a key has from 1 to {} bytes", StateWrite::MAX_NAME_BYTES));
    }
    Ok(())
}

/// Checks the size of a value.
pub(super) fn check_size(value: &Value) -> Result<(), String> {
    if value.estimated_size(StateWrite::MAX_VALUE_BYTES) > StateWrite::MAX_VALUE_BYTES {
        let limit = text::units::format_size(StateWrite::MAX_VALUE_BYTES as u64);
        return Err(format!("the value would be larger than {limit}; keep less under one key"));
    }
    Ok(())
}

/// The result of `state.compareAndSet`.
fn compared(changed: bool, value: Value) -> Value {
    Value::from(Map::from_iter([("changed", Value::from(changed)), ("value", value)]))
}

fn expiry(ttl: &str, now: Timestamp) -> Result<Timestamp, ActionError> {
    let wrong = |message: String| ActionError::new(ErrorKind::Input, format!("ttl: {message}"));
    let ttl = text::units::parse_fixed_period(ttl).map_err(|error| wrong(error.to_string()))?;
    now.checked_add(ttl).map_err(|error| wrong(error.to_string()))
}

fn sum(before: Option<&Value>, by: Option<&Value>) -> Result<Value, ActionError> {
    let wrong = |message: String| ActionError::new(ErrorKind::Input, message);
    let number = |value: Option<&Value>, otherwise: i64| match value {
        None | Some(Value::Null) => Ok(Number::from(otherwise)),
        Some(Value::Number(number)) => Ok(number.clone()),
        Some(other) => Err(wrong(format!("the value is {}, not a number", other.kind()))),
    };
    let (before, by) = (number(before, 0)?, number(by, 1)?);
    if let (Some(before), Some(by)) = (before.as_i64(), by.as_i64()) {
        let sum = before.checked_add(by).ok_or_else(|| wrong("the sum is beyond 64 bits".to_owned()))?;
        return Ok(Value::from(sum));
    }
    let sum = before.as_f64().unwrap_or_default() + by.as_f64().unwrap_or_default();
    Number::from_f64(sum).map(Value::Number).ok_or_else(|| wrong("the sum is not a number".to_owned()))
}

fn appended(before: Option<Value>, inputs: &Map) -> Result<Value, ActionError> {
    let mut list = match before {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::List(list)) => list.0.to_vec(),
        Some(other) => {
            let message = format!("the value is {}, not a list", other.kind());
            return Err(ActionError::new(ErrorKind::Input, message));
        }
    };
    list.push(inputs.get("value").cloned().unwrap_or_default());
    let max = inputs.get("max").and_then(Value::as_i64).and_then(|max| usize::try_from(max).ok());
    if let Some(over) = max.and_then(|max| list.len().checked_sub(max)) {
        list.drain(..over);
    }
    Ok(Value::from(list))
}
