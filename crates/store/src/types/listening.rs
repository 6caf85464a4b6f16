//! Listening at test addresses on any node.

use jiff::Timestamp;
use model::automation::TriggerKey;

/// A session to begin at the test address of a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewListening {
    /// The trigger.
    pub trigger: TriggerKey,
    /// The beginning.
    pub since: Timestamp,
    /// The latest end.
    pub until: Timestamp,
    /// Maximum number of requests to capture.
    pub most: u32,
    /// The maximum number of kept sessions, from 1. Ended sessions are deleted first, then the oldest.
    pub sessions: u32,
}

/// The state of the latest session at a test address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The number of the session at its address.
    pub turn: u64,
    /// The beginning.
    pub since: Timestamp,
    /// The latest end.
    pub until: Timestamp,
    /// Maximum number of requests to capture.
    pub most: u32,
    /// The captured requests that could have started an execution.
    pub count: u32,
    /// The number of the last capture.
    pub last: u32,
}

impl Listening {
    /// Returns true if requests are captured.
    #[must_use]
    pub fn is_active(&self, now: Timestamp) -> bool {
        now < self.until && self.count < self.most
    }
}

/// A request to store in the session at its test address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCapture {
    /// Its id, by which a repetition is recognised.
    pub id: [u8; 16],
    /// The trigger.
    pub trigger: TriggerKey,
    /// The time at which a session must be active.
    pub now: Timestamp,
    /// True if it could not have started an execution. Such requests do not count towards the end of the session.
    pub aside: bool,
    /// Its size in bytes, which counts towards `max_bytes`.
    pub size: u64,
    /// The request with the decision about it, in a form that the engine defines.
    pub body: Vec<u8>,
    /// The maximum number of requests of a session that could not have started an execution; further ones are not stored.
    pub max_asides: u32,
    /// The largest size of all captures of all sessions. Beyond it, the largest session loses its oldest captures.
    pub max_bytes: u64,
}
