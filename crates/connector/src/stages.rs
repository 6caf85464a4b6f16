//! Calls in stages: a call that takes several requests says how far it has come, so that a repetition goes on from there.

use std::time::Duration;

use model::ActionError;
use value::Value;

/// The state of a call after one stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// The call has ended with this result.
    Ended(Value),
    /// The call goes on from here. The caller makes the checkpoint durable before it goes on.
    Reached(Checkpoint),
    /// The work has failed at the service: another attempt has to begin anew.
    Failed(ActionError),
    /// The service knows nothing of the work any more, as the error says: the call begins anew.
    Lost(ActionError),
}

/// The point that a call has reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The data with which [`crate::Action::advance`] goes on.
    pub data: Value,
    /// True if the data give access to something, so that they are stored encrypted.
    pub is_secret: bool,
    /// The pause before the call goes on; `None` to go on at once.
    pub pause: Option<Pause>,
}

/// The pause before the next look at work that goes on at a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The id that the service has given the work.
    pub operation: String,
    /// The length of the pause.
    pub length: Duration,
}

/// The checkpoint from which a call goes on.
#[derive(Clone, Copy, Debug)]
pub struct Reached<'a> {
    /// The data of the checkpoint.
    pub data: &'a Value,
    /// The time since the checkpoint.
    pub age: Duration,
}

/// The last look at the operation that the request of an example starts.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusExample {
    /// The request line.
    pub request: String,
    /// The last response.
    pub answer: Value,
}
