//! What stands in for the outside while an Automation is tested: answers in the place of actions, secrets and variables
//! that are no real ones.

use futures_util::future::BoxFuture;
use model::action::{ActionError, ActionSpec};
use model::automation::AutomationId;
use model::value::{Map, Value};

/// What stands in for the outside.
pub trait Doubles: Send + Sync + 'static {
    /// The answer to a call; `None` lets what is called run itself.
    fn answer(&self, asked: &Asked<'_>) -> Option<BoxFuture<'static, Result<Value, ActionError>>>;

    /// The secret of this name, if there is one.
    fn secret(&self, name: &str) -> Option<String>;

    /// The environment variable of this name, if there is one.
    fn variable(&self, name: &str) -> Option<String>;

    /// Whether whoever sends a request counts as the one that it should be.
    fn trusts_senders(&self) -> bool;

    /// Held while an action calls the real system, where it does.
    fn live(&self) -> Option<Box<dyn Send>>;

    /// Says that code runs in another process, for as long as what is given back lives.
    fn elsewhere(&self) -> Box<dyn Send>;
}

/// A call that a double may answer.
pub struct Asked<'a> {
    /// Of which Automation the step is.
    pub automation: &'a AutomationId,
    /// Which step asks, by its id.
    pub step: &'a str,
    /// The same with the turns of the loops around it.
    pub key: &'a str,
    /// What it says it is over all of its tries, where it has an effect.
    #[cfg_attr(not(test), expect(dead_code, reason = "a simulation holds the engine to it"))]
    pub idempotency_key: &'a str,
    /// What is called.
    pub called: Called<'a>,
    /// With these inputs, checked and complete.
    pub inputs: &'a Map,
}

/// What is called.
#[derive(Clone, Copy)]
pub enum Called<'a> {
    /// An action.
    Action(&'a ActionSpec),
    /// Another Automation.
    Automation(&'a str),
}

impl<'a> Called<'a> {
    /// Its name.
    pub fn name(self) -> &'a str {
        match self {
            Self::Action(spec) => &spec.name,
            Self::Automation(id) => id,
        }
    }
}
