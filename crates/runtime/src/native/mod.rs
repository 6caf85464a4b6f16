//! The actions that only the engine itself can do: they need its store and the execution that calls them.

mod code_state;
mod events;
mod executions;
mod files;
mod state;
mod values;

use catalog::NativeAction;
use value::{Map, Value};

use crate::run::{Exit, Frame, Run};

pub(crate) use code_state::CodeState;
pub use values::{StateScope, StateValue};

impl Run {
    /// Does one of the engine's own actions.
    pub(crate) async fn native(
        &self,
        native: NativeAction,
        inputs: &Map,
        key: &str,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        match native {
            NativeAction::State(verb) => self.state_action(verb, inputs).await,
            NativeAction::Files(verb) => self.files_action(verb, inputs, key, frame).await,
            NativeAction::Emit => self.emit_action(inputs, key).await,
            NativeAction::CancelExecution => self.cancel_execution_action(inputs).await,
        }
    }
}
