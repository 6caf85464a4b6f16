//! Actions implemented by the engine, because they need its store or the calling execution.
//!
//! The registry lists them like those of connectors, so the same checks, documentation and completion apply. To add
//! one, add a row to the table of its file.

mod code_state;
mod events;
mod files;
mod state;
mod values;

use std::sync::Arc;

use async_trait::async_trait;
use connector::{Action, Call, Registry};
use model::action::{ActionError, ActionSpec, Effect, ErrorKind, InputSpec, InputType, ResultType};
use model::value::{Map, Value};

use crate::run::{Exit, Run};

pub(crate) use code_state::CodeState;
pub use values::{StateScope, StateValue};

/// An action of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Native {
    State(state::Verb),
    Files(files::Verb),
    Emit,
}

/// Adds the engine's actions to the registry.
pub(crate) fn add(registry: Registry) -> Registry {
    let actions = |specs: Vec<ActionSpec>| {
        specs.into_iter().map(|spec| Arc::new(NativeAction(spec)) as Arc<dyn Action>)
    };
    registry
        .with_native("files", "Files", actions(files::specs()).collect())
        .with_native("state", "State", actions(state::specs()).collect())
        .with_native("events", "Events", actions(events::specs()).collect())
}

/// Looks up an action of the engine by name.
pub(crate) fn find(name: &str) -> Option<Native> {
    match name {
        "events.emit" => Some(Native::Emit),
        name => match name.split_once('.')? {
            ("state", verb) => state::Verb::find(verb).map(Native::State),
            ("files", verb) => files::Verb::find(verb).map(Native::Files),
            _ => None,
        },
    }
}

impl Run {
    /// Executes an action of the engine.
    pub(crate) async fn native(&self, native: Native, inputs: &Map, key: &str) -> Result<Value, Exit> {
        match native {
            Native::State(verb) => self.state_action(verb, inputs).await,
            Native::Files(verb) => self.files_action(verb, inputs).await,
            Native::Emit => self.emit_action(inputs, key).await,
        }
    }
}

/// Registry entry of an action that the calling execution implements.
struct NativeAction(ActionSpec);

#[async_trait]
impl Action for NativeAction {
    fn spec(&self) -> &ActionSpec {
        &self.0
    }

    async fn call(&self, _: Call<'_>) -> Result<Value, ActionError> {
        let message = format!("`{}` can be called by a step of an execution only", self.0.name);
        Err(ActionError::new(ErrorKind::Internal, message))
    }
}

/// Builds a specification with the defaults of the engine's actions.
fn spec(
    name: &str,
    title: &str,
    effect: Effect,
    inputs: Vec<InputSpec>,
    (result, results): (&str, ResultType),
    example: Map,
) -> ActionSpec {
    ActionSpec {
        name: name.to_owned(),
        title: title.to_owned(),
        description: None,
        effect,
        connections: Vec::new(),
        connection_required: false,
        inputs,
        result: Some(result.to_owned()),
        results,
        example: Value::from(example),
    }
}

fn input(name: &str, kind: InputType, required: bool, about: &str) -> InputSpec {
    InputSpec { name: name.to_owned(), kind, required, default: None, description: Some(about.to_owned()) }
}
