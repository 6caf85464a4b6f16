//! What a test lets happen to reads and writes.

use crate::Error;
use crate::types::{Accept, Append, Room};

/// What writes are told after one whose commit is in doubt.
pub(super) const REASON: &str = "a test lets it fail";

/// Says how reads and writes fare.
pub trait Faults: Send + Sync + 'static {
    /// How this one fares. It is asked when it is made.
    fn fate(&self, asked: Asked<'_>) -> Fate;

    /// How much room there is.
    fn room(&self) -> Room {
        Room::Enough
    }
}

/// What is asked of the store.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// To read something.
    Read,
    /// To accept executions.
    Accept(&'a Accept),
    /// To append to an execution.
    Append(&'a Append),
    /// To write something else.
    Write,
}

/// How a read or a write fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// How often others have their turn before it happens, and once more before it comes back.
    pub turns: u32,
    /// What becomes of it. A read goes well, or never comes back.
    pub end: End,
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It does what it should.
    Goes,
    /// It is refused since the store is full: nothing was written.
    Full,
    /// Its commit fails: it was written all the same, or it was not.
    InDoubt {
        /// Whether it was.
        written: bool,
    },
    /// It never comes back, as in a process that ends meanwhile.
    Never {
        /// Whether it was written.
        written: bool,
    },
}

impl Fate {
    /// It does what it should, at once.
    pub const GOES: Self = Self { turns: 0, end: End::Goes };
}

/// Lets a write fare so.
pub(super) async fn fare<T>(fate: Fate, write: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..fate.turns {
        tokio::task::yield_now().await;
    }
    let in_doubt = || Error::Commit { reason: REASON.to_owned() };
    let done = match fate.end {
        End::Goes => write(),
        End::Full => Err(Error::Full),
        End::InDoubt { written: false } => Err(in_doubt()),
        End::InDoubt { written: true } => write().and_then(|_| Err(in_doubt())),
        End::Never { written } => {
            if written {
                // Nobody hears of it.
                let _ = write();
            }
            std::future::pending().await
        }
    };
    if fate.turns > 0 {
        tokio::task::yield_now().await;
    }
    done
}
