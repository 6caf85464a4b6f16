//! The descriptions of `state.*`: values that outlive executions, by key.

use model::action::{ActionSpec, Effect, InputSpec, InputType, ResultType};
use value::{Map, Value};

use super::{input, spec};

/// The actions of `state.*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateAction {
    /// Reads a value.
    Get,
    /// Stores a value.
    Set,
    /// Adds to a number.
    Increment,
    /// Appends to a list.
    Append,
    /// Deletes a value.
    Delete,
    /// Reads a value and deletes it.
    Take,
    /// Stores a value if the present one is the expected one.
    CompareAndSet,
}

const ACTIONS: [(&str, StateAction); 7] = [
    ("get", StateAction::Get),
    ("set", StateAction::Set),
    ("increment", StateAction::Increment),
    ("append", StateAction::Append),
    ("delete", StateAction::Delete),
    ("take", StateAction::Take),
    ("compareAndSet", StateAction::CompareAndSet),
];

impl StateAction {
    pub(super) fn find(name: &str) -> Option<Self> {
        ACTIONS.iter().find(|(known, _)| *known == name).map(|(_, action)| *action)
    }

    fn title(self) -> &'static str {
        match self {
            Self::Get => "Read a value",
            Self::Set => "Store a value",
            Self::Increment => "Add to a number",
            Self::Append => "Add to a list",
            Self::Delete => "Delete a value",
            Self::Take => "Read and delete a value",
            Self::CompareAndSet => "Store a value if it is the expected one",
        }
    }

    fn result(self) -> (&'static str, ResultType) {
        match self {
            Self::Get => ("the value, `default` if there is none", ResultType::Any),
            Self::Set => ("the value", ResultType::Any),
            Self::Increment => ("the new number", ResultType::Number),
            Self::Append => ("the new list", ResultType::list(ResultType::Any)),
            Self::Delete => ("`true` if there was a value", ResultType::Boolean),
            Self::Take => ("the value, `default` if there is none", ResultType::Any),
            Self::CompareAndSet => (
                "`{changed, value}`: whether the value was stored, and the value that is there now",
                ResultType::object([("changed", ResultType::Boolean), ("value", ResultType::Any)]),
            ),
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
            Self::Get | Self::Take => {
                vec![input("default", InputType::Any, false, "The result if there is no value")]
            }
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
            Self::CompareAndSet => vec![
                input(
                    "expected",
                    InputType::Any,
                    false,
                    "The value that has to be there; null, the default, if there is to be none",
                ),
                input("value", InputType::Any, true, "The value to store"),
                ttl,
            ],
        };
        std::iter::once(key).chain(own).chain([scope]).collect()
    }
}

pub(super) fn specs() -> Vec<ActionSpec> {
    let specs = ACTIONS.iter().map(|(name, action)| {
        let effect = if *action == StateAction::Get { Effect::Read } else { Effect::Write };
        let mut example = Map::from_iter([("key", Value::from("lastOrder"))]);
        if matches!(action, StateAction::Set | StateAction::Append | StateAction::CompareAndSet) {
            example.insert("value", 17);
        }
        spec(&format!("state.{name}"), action.title(), effect, action.inputs(), action.result(), example)
    });
    specs.collect()
}
