//! Documents of other programs: sheets, HTML and archives. They are read and written in a worker process of their own, which has no
//! rights and little memory: a parser that crashes or takes too much fails a step, and never the daemon.
//!
//! * `spec`: the inputs and results of the actions
//! * `job`: the work of an action, as the worker gets it
//! * `host`: a worker, from the side of the daemon
//! * `run`: the jobs of the actions, and their results
//! * `worker`: what the process does

#[cfg(feature = "documents")]
mod host;
#[cfg(feature = "documents")]
mod job;
#[cfg(feature = "documents")]
mod run;
#[cfg(feature = "documents")]
mod selector;
mod spec;
#[cfg(feature = "documents")]
mod worker;

use std::sync::Arc;

use async_trait::async_trait;
use connector::{Action, Call, InputProblem, Registry, StaticInputs};
use model::{ActionError, ActionSpec};
use value::Value;

#[cfg(feature = "documents")]
pub use worker::read_document;

/// The cargo feature of this family.
const FEATURE: &str = "documents";

/// The tasks of a worker process.
#[cfg(feature = "documents")]
pub(crate) const TASKS: &[script::Task] = &[worker::TASK];
/// The tasks of a worker process.
#[cfg(not(feature = "documents"))]
pub(crate) const TASKS: &[script::Task] = &[];

/// Adds the connectors.
pub(crate) fn register(mut registry: Registry) -> Registry {
    for (name, title, specs) in spec::connectors() {
        if !cfg!(feature = "documents") {
            registry =
                specs.iter().fold(registry, |registry, spec| registry.without_feature(&spec.name, FEATURE));
        }
        let action = |spec| Arc::new(Document { spec }) as Arc<dyn Action>;
        registry = registry.with_native(name, title, specs.into_iter().map(action).collect());
    }
    registry
}

/// An action.
struct Document {
    spec: ActionSpec,
}

#[async_trait]
impl Action for Document {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    fn is_local(&self) -> bool {
        true
    }

    #[cfg(feature = "documents")]
    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        run::check(&self.spec, inputs)
    }

    #[cfg(not(feature = "documents"))]
    fn check_static(&self, _: &StaticInputs<'_>) -> Vec<InputProblem> {
        Vec::new()
    }

    #[cfg(feature = "documents")]
    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        run::run(&self.spec, &call).await
    }

    #[cfg(not(feature = "documents"))]
    async fn call(&self, _: Call<'_>) -> Result<Value, ActionError> {
        let message =
            format!("`{}` is not in this program, which was built without `{FEATURE}`", self.spec.name);
        Err(ActionError::new(model::ErrorKind::Internal, message))
    }
}
