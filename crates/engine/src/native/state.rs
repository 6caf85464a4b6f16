//! `state.*`: values that outlive executions, by key. Each write is atomic and commits together with the end of its step,
//! so that it happens once whatever becomes of the process.

use std::sync::Arc;

use jiff::Timestamp;
use model::action::{ActionError, ActionSpec, Effect, ErrorKind, InputSpec, InputType, ResultType};
use model::automation::AutomationId;
use model::value::{Map, Number, Value};
use store::{StateEntry, StateWrite};

use super::{input, spec};
use crate::run::{Exit, Run};

/// What a state action does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Set,
    Increment,
    Append,
    Delete,
}

const VERBS: [(&str, Verb); 5] = [
    ("get", Verb::Get),
    ("set", Verb::Set),
    ("increment", Verb::Increment),
    ("append", Verb::Append),
    ("delete", Verb::Delete),
];

impl Verb {
    pub(super) fn find(name: &str) -> Option<Self> {
        VERBS.iter().find(|(known, _)| *known == name).map(|(_, verb)| *verb)
    }

    fn title(self) -> &'static str {
        match self {
            Self::Get => "Read a value",
            Self::Set => "Store a value",
            Self::Increment => "Add to a number",
            Self::Append => "Add to a list",
            Self::Delete => "Delete a value",
        }
    }

    fn result(self) -> (&'static str, ResultType) {
        match self {
            Self::Get => ("the value, `default` if there is none", ResultType::Any),
            Self::Set => ("the value", ResultType::Any),
            Self::Increment => ("the new number", ResultType::Number),
            Self::Append => ("the new list", ResultType::list(ResultType::Any)),
            Self::Delete => ("`true` if there was a value", ResultType::Boolean),
        }
    }

    fn inputs(self) -> Vec<InputSpec> {
        let text = |name, required, about| input(name, InputType::Text, required, about);
        let key = text("key", true, "The key; `state.<key>` reads it in expressions");
        let options = ["automation", "shared"].map(str::to_owned).to_vec();
        let mut scope = input(
            "scope",
            InputType::Choice { options },
            false,
            "The state of this automation, or the one shared by all",
        );
        scope.default = Some(Value::from("automation"));
        let ttl = text("ttl", false, "The time until it expires, such as `1d`; default: never");
        let own = match self {
            Self::Get => vec![input("default", InputType::Any, false, "The result if there is no value")],
            Self::Set => vec![input("value", InputType::Any, true, "The value"), ttl],
            Self::Increment => {
                let mut by = input("by", InputType::Number, false, "The number to add; may be negative");
                by.default = Some(Value::from(1));
                vec![by, ttl]
            }
            Self::Append => {
                let max = InputType::Integer { min: Some(1), max: Some(100_000) };
                vec![
                    input("value", InputType::Any, true, "The value to append"),
                    input("max", max, false, "The largest length of the list; the oldest items are removed"),
                    ttl,
                ]
            }
            Self::Delete => Vec::new(),
        };
        std::iter::once(key).chain(own).chain([scope]).collect()
    }
}

pub(super) fn specs() -> Vec<ActionSpec> {
    let specs = VERBS.iter().map(|(name, verb)| {
        let effect = if *verb == Verb::Get { Effect::Read } else { Effect::Write };
        let mut example = Map::from_iter([("key", Value::from("lastOrder"))]);
        if matches!(verb, Verb::Set | Verb::Append) {
            example.insert("value", 17);
        }
        spec(&format!("state.{name}"), verb.title(), effect, verb.inputs(), verb.result(), example)
    });
    specs.collect()
}

impl Run {
    /// The values of the Automation's own state with these keys, those that there are.
    pub(crate) async fn read_state(&self, keys: &[String]) -> Result<Value, Exit> {
        let found = self.services.store.read_states(&self.state_scope("automation"), keys).await;
        let found = found.map_err(|error| self.store_failed(error))?;
        let now = self.services.clock.now();
        let mut state = Map::with_capacity(keys.len());
        for (key, entry) in keys.iter().zip(found) {
            if let Some(entry) = entry.filter(|entry| is_alive(entry, now)) {
                state.insert(key.as_str(), entry.value);
            }
        }
        Ok(Value::from(state))
    }

    pub(super) async fn state_action(&self, verb: Verb, inputs: &Map) -> Result<Value, Exit> {
        let text = |name| inputs.get(name).and_then(Value::as_str);
        let (key, scope) = (text("key").unwrap_or_default(), text("scope").unwrap_or("automation"));
        let scope = self.state_scope(scope);
        let failed = |error| Exit::Failed(error);
        check_key(key).map_err(|message| failed(ActionError::new(ErrorKind::Input, message)))?;
        let now = self.services.clock.now();
        let expires_at = text("ttl").map(|ttl| expiry(ttl, now)).transpose().map_err(failed)?;
        // Writers of one key follow one another, each up to its commit.
        let lock = match verb {
            Verb::Get => None,
            _ => Some(self.services.state_locks.lock(&lock_name(&scope, key)).await),
        };
        let entry = self.services.store.read_state(&scope, key).await;
        let entry = entry.map_err(|error| self.store_failed(error))?;
        let expected = entry.as_ref().map(|entry| entry.version);
        let alive = entry.filter(|entry| is_alive(entry, now));
        let kept_until = alive.as_ref().and_then(|entry| entry.expires_at);
        let before = alive.map(|entry| entry.value);
        let (value, result) = match verb {
            Verb::Get => return Ok(before.or_else(|| inputs.get("default").cloned()).unwrap_or_default()),
            Verb::Set => {
                let value = inputs.get("value").cloned().unwrap_or_default();
                (Some(value.clone()), value)
            }
            Verb::Increment => {
                let sum = sum(before.as_ref(), inputs.get("by")).map_err(failed)?;
                (Some(sum.clone()), sum)
            }
            Verb::Append => {
                let list = appended(before, inputs).map_err(failed)?;
                (Some(list.clone()), list)
            }
            Verb::Delete => (None, Value::from(before.is_some())),
        };
        if expected.is_none() && value.is_none() {
            return Ok(result);
        }
        if let Some(value) = &value {
            check_size(value).map_err(|message| failed(ActionError::new(ErrorKind::Limit, message)))?;
        }
        // A number or a list that is added to lives as long as it was to, unless another time is given.
        let expires_at = match verb {
            Verb::Increment | Verb::Append => expires_at.or(kept_until),
            _ => expires_at,
        };
        if let Some(lock) = lock {
            let write = StateWrite { scope, key: key.to_owned(), expected, value, expires_at };
            self.journal.write_state(write, lock);
        }
        Ok(result)
    }

    /// Whose values are meant. Those of test executions are kept apart.
    pub(super) fn state_scope(&self, scope: &str) -> String {
        let owner = (scope != "shared").then_some(&self.deployed.automation.id);
        scope_name(owner, self.origin.is_test())
    }

    pub(crate) fn store_failed(&self, error: store::Error) -> Exit {
        if error.outcome_unknown() {
            return Exit::Lost(Arc::new(error));
        }
        Exit::Failed(ActionError::new(ErrorKind::Internal, format!("the state cannot be read: {error}")))
    }
}

/// What the store calls the values of an Automation, or those that all share.
pub(super) fn scope_name(owner: Option<&AutomationId>, test: bool) -> String {
    let test = if test { "test:" } else { "" };
    match owner {
        None => format!("{test}shared"),
        Some(id) => format!("{test}automation:{id}"),
    }
}

/// What writers of one value wait for.
pub(super) fn lock_name(scope: &str, key: &str) -> String {
    format!("{scope}\n{key}")
}

/// Whether a value has not expired.
pub(super) fn is_alive(entry: &StateEntry, now: Timestamp) -> bool {
    entry.expires_at.is_none_or(|at| at > now)
}

/// That a key has a length that the store takes.
pub(super) fn check_key(key: &str) -> Result<(), String> {
    if key.is_empty() || key.len() > StateWrite::MAX_NAME_BYTES {
        return Err(format!("a key has from 1 to {} bytes", StateWrite::MAX_NAME_BYTES));
    }
    Ok(())
}

/// That a value is no larger than the store takes.
pub(super) fn check_size(value: &Value) -> Result<(), String> {
    if value.estimated_size(StateWrite::MAX_VALUE_BYTES) > StateWrite::MAX_VALUE_BYTES {
        let limit = model::units::format_size(StateWrite::MAX_VALUE_BYTES as u64);
        return Err(format!("the value would be larger than {limit}; keep less under one key"));
    }
    Ok(())
}

fn expiry(ttl: &str, now: Timestamp) -> Result<Timestamp, ActionError> {
    let wrong = |message: String| ActionError::new(ErrorKind::Input, format!("ttl: {message}"));
    let ttl = model::units::parse_duration(ttl).map_err(|error| wrong(error.to_string()))?;
    now.checked_add(ttl).map_err(|error| wrong(error.to_string()))
}

fn sum(before: Option<&Value>, by: Option<&Value>) -> Result<Value, ActionError> {
    let wrong = |message: String| ActionError::new(ErrorKind::Input, message);
    let number = |value: Option<&Value>, otherwise: i64| match value {
        None | Some(Value::Null) => Ok(Number::from(otherwise)),
        Some(Value::Number(number)) => Ok(number.clone()),
        Some(other) => Err(wrong(format!("the value is {}, which nothing can be added to", other.kind()))),
    };
    let (before, by) = (number(before, 0)?, number(by, 1)?);
    if let (Some(before), Some(by)) = (before.as_i64(), by.as_i64()) {
        let sum = before.checked_add(by).ok_or_else(|| wrong("the sum is beyond 64 bits".to_owned()))?;
        return Ok(Value::from(sum));
    }
    let sum = before.as_f64().unwrap_or_default() + by.as_f64().unwrap_or_default();
    Number::from_f64(sum).map(Value::Number).ok_or_else(|| wrong("the sum is no number".to_owned()))
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
