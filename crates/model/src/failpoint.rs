//! Failpoints: code locations where a test injects a fault into a store or a running daemon.
//!
//! Release builds cannot arm any; [`Failpoints::at`] compiles to nothing there.

use std::fmt;
#[cfg(debug_assertions)]
use std::sync::Arc;
use std::time::Duration;

/// A code location where a test can inject a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failpoint {
    /// Before a transaction commits.
    BeforeCommit,
    /// After a commit, before any caller learns of it.
    AfterCommit,
    /// After a request is stored, before its sender gets the response.
    BeforeAck,
    /// Before an external effect, with everything that it depends on committed.
    BeforeEffect,
    /// After an external effect, before its result is stored.
    AfterEffect,
}

impl Failpoint {
    /// The name in the daemon's test settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeCommit => "beforeCommit",
            Self::AfterCommit => "afterCommit",
            Self::BeforeAck => "beforeAck",
            Self::BeforeEffect => "beforeEffect",
            Self::AfterEffect => "afterEffect",
        }
    }
}

/// The fault to inject at a [`Failpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailpointAction {
    /// Aborts the process, as a crash does.
    Abort,
    /// Fails the operation.
    Error,
    /// Fails the operation with an error that leaves its outcome unknown.
    UnknownOutcome,
    /// Delays the operation by this duration.
    Delay(Duration),
}

/// The armed failpoints. None is armed by default.
#[derive(Clone, Default)]
pub struct Failpoints {
    #[cfg(debug_assertions)]
    hook: Option<Arc<dyn Fn(Failpoint) -> Option<FailpointAction> + Send + Sync>>,
}

impl Failpoints {
    /// Creates failpoints that call `hook` at each failpoint to get the fault to inject, if any.
    #[cfg(debug_assertions)]
    #[must_use]
    pub fn new(hook: impl Fn(Failpoint) -> Option<FailpointAction> + Send + Sync + 'static) -> Self {
        Self { hook: Some(Arc::new(hook)) }
    }

    /// Returns the fault to inject at this failpoint; `None` if it is not armed.
    #[cfg(debug_assertions)]
    #[must_use]
    pub fn at(&self, failpoint: Failpoint) -> Option<FailpointAction> {
        self.hook.as_ref().and_then(|hook| hook(failpoint))
    }

    /// Returns `None`: release builds have no armed failpoints.
    #[cfg(not(debug_assertions))]
    #[inline]
    #[must_use]
    pub fn at(&self, _: Failpoint) -> Option<FailpointAction> {
        None
    }
}

impl fmt::Debug for Failpoints {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Failpoints")
    }
}
