//! Test doubles: stubbed actions, secrets and variables for tests of Automations.

use std::sync::Arc;

use connector::secret_provider::ProvidedSecret;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use model::action::{ActionError, ActionSpec};
use model::automation::AutomationId;
use value::{Map, Value};

use crate::error::Error;

/// Replaces the outside world in a test.
pub trait Doubles: Send + Sync + 'static {
    /// Returns the stubbed result of a call; `None` if the call should run for real.
    fn answer(&self, asked: &StubRequest<'_>) -> Option<BoxFuture<'static, Result<Value, ActionError>>>;

    /// Returns the recorded start of a step and the state that it read, in a trial of a recorded execution.
    fn recorded_start(&self, _key: &str) -> Option<(Timestamp, Value)> {
        None
    }

    /// Returns a secret of the test; `None` if it is not set.
    ///
    /// # Errors
    /// Returns an error if a recording, which calls the real system, cannot read the real secret.
    fn secret(&self, _name: &str) -> Result<Option<Arc<ProvidedSecret>>, Error> {
        Ok(None)
    }

    /// Returns an environment variable of the test; `None` if it is not set.
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    /// Returns true if events may start this automation.
    fn receives_events(&self, _automation: &AutomationId) -> bool {
        true
    }

    /// Returns a number from which the bits of ids behind time and sequence are counted up, so that a simulation takes the same
    /// course again; `None` for random ones.
    fn first_id_bits(&self) -> Option<u64> {
        None
    }

    /// Returns true if requests need no verification.
    fn trusts_senders(&self) -> bool {
        true
    }

    /// Returns a guard to hold during a call to the real system; `None` if calls need none.
    fn track_live_call(&self) -> Option<Box<dyn Send>> {
        None
    }

    /// Returns a guard to hold while work runs outside of the test's thread, so that the test clock does not advance.
    fn track_offloaded_work(&self) -> Box<dyn Send> {
        Box::new(())
    }
}

/// A call that may be stubbed.
pub struct StubRequest<'a> {
    /// Automation of the calling step.
    pub automation: &'a AutomationId,
    /// Id of the calling step.
    pub step: &'a str,
    /// Id of the step with its loop indices.
    pub key: &'a str,
    /// Idempotency key, the same in all attempts; empty for a call without effect.
    pub idempotency_key: &'a str,
    /// The called target.
    pub called: CallTarget<'a>,
    /// Inputs, checked and complete.
    pub inputs: &'a Map,
    /// Name of the connection; `None` if the call has none.
    pub connection: Option<&'a str>,
    /// True if the call reaches nothing outside of this program: without an answer it runs for real.
    pub is_local: bool,
}

/// Target of a call.
#[derive(Clone, Copy)]
pub enum CallTarget<'a> {
    /// An action.
    Action(&'a ActionSpec),
    /// Another Automation.
    Automation(&'a str),
}

impl<'a> CallTarget<'a> {
    /// Name of the target.
    pub fn name(self) -> &'a str {
        match self {
            Self::Action(spec) => &spec.name,
            Self::Automation(id) => id,
        }
    }
}
