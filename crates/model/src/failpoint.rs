//! Boundaries at which a test lets something go wrong in a store or a running daemon. In a release build nothing can be
//! armed: asking costs nothing there, and nobody can use it.

use std::fmt;
#[cfg(debug_assertions)]
use std::sync::Arc;
use std::time::Duration;

/// Where something may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failpoint {
    /// Writes are about to be committed.
    BeforeCommit,
    /// Writes are committed, and nobody knows.
    AfterCommit,
    /// What was asked for is stored, and whoever asked does not know.
    BeforeAck,
    /// All that an effect depends on is committed, and the effect is about to happen.
    BeforeEffect,
    /// An effect has happened, and its result is not stored.
    AfterEffect,
}

impl Failpoint {
    /// Its name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::BeforeCommit => "beforeCommit",
            Self::AfterCommit => "afterCommit",
            Self::BeforeAck => "beforeAck",
            Self::BeforeEffect => "beforeEffect",
            Self::AfterEffect => "afterEffect",
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailpointAction {
    /// The process ends on the spot, as in a crash.
    Abort,
    /// What is under way fails.
    Error,
    /// What is under way fails, and by its error it may have happened all the same.
    Doubt,
    /// It takes so much longer.
    Delay(Duration),
}

/// Says what goes wrong where. Nothing does by default.
#[derive(Clone, Default)]
pub struct Failpoints {
    #[cfg(debug_assertions)]
    ask: Option<Arc<dyn Fn(Failpoint) -> Option<FailpointAction> + Send + Sync>>,
}

impl Failpoints {
    /// Asks `ask` whenever a boundary is reached.
    #[cfg(debug_assertions)]
    #[must_use]
    pub fn new(ask: impl Fn(Failpoint) -> Option<FailpointAction> + Send + Sync + 'static) -> Self {
        Self { ask: Some(Arc::new(ask)) }
    }

    /// What goes wrong at this boundary, now that it is reached.
    #[cfg(debug_assertions)]
    #[must_use]
    pub fn at(&self, boundary: Failpoint) -> Option<FailpointAction> {
        self.ask.as_ref().and_then(|ask| ask(boundary))
    }

    /// What goes wrong at this boundary: nothing.
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
