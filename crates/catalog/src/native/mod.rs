//! The actions and events that Cogwork itself offers: `state.*`, `files.*`, `events.*` and `cogwork.*`. This module describes them; the runtime
//! executes them.
//!
//! The registry lists them beside those of the connectors, so that they are checked, documented and completed in the same
//! way. To add one: a row in the table of its file.

mod cogwork;
mod events;
mod executions;
mod files;
mod state;

use std::sync::Arc;

use async_trait::async_trait;
use connector::{Action, Call, InputProblem, Registry, StaticInputs};
use model::action::{ActionError, ActionSpec, Effect, ErrorKind, InputSpec, InputType, ResultType};
use model::engine_event::CONNECTOR;
use value::{Map, Value};

pub use files::FilesAction;
pub use state::StateAction;

/// An action that the runtime executes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeAction {
    /// `state.*`.
    State(StateAction),
    /// `files.*`.
    Files(FilesAction),
    /// `events.emit`.
    Emit,
    /// `executions.cancel`.
    CancelExecution,
}

/// Adds the native actions to those of the connectors.
pub(crate) fn add(registry: Registry) -> Registry {
    let actions =
        |specs: Vec<ActionSpec>| specs.into_iter().map(|spec| Arc::new(Described(spec)) as Arc<dyn Action>);
    registry
        .with_native("files", "Files", actions(files::specs()).collect())
        .with_native("state", "State", actions(state::specs()).collect())
        .with_native("events", "Events", actions(events::specs()).collect())
        .with_native("executions", "Executions", actions(executions::specs()).collect())
        .with_native_events(CONNECTOR, "Cogwork", Vec::new(), cogwork::events())
}

/// The native action of this name.
#[must_use]
pub fn find(name: &str) -> Option<NativeAction> {
    match name {
        "events.emit" => Some(NativeAction::Emit),
        "executions.cancel" => Some(NativeAction::CancelExecution),
        name => match name.split_once('.')? {
            ("state", verb) => StateAction::find(verb).map(NativeAction::State),
            ("files", verb) => FilesAction::find(verb).map(NativeAction::Files),
            _ => None,
        },
    }
}

/// An action that is described here and executed by the runtime.
struct Described(ActionSpec);

#[async_trait]
impl Action for Described {
    fn spec(&self) -> &ActionSpec {
        &self.0
    }

    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        let ttl =
            inputs.text_prefix("ttl").filter(|(_, is_whole)| *is_whole && self.0.input("ttl").is_some());
        let ttl = ttl.and_then(|(ttl, _)| {
            let error = text::units::parse_fixed_period(ttl).err()?.to_string();
            Some(InputProblem::new("ttl", error, "write a duration such as `1d`").with_duration(ttl))
        });
        let path = inputs.text_prefix("path").filter(|_| self.0.name.starts_with("files."));
        let path = path.and_then(|(path, _)| files::path_problem(path));
        ttl.into_iter().chain(path).collect()
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
