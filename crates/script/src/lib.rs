//! An author's JavaScript, at full speed, unable to hurt anything: it runs in processes of its own.
//!
//! QuickJS cannot be bounded from inside (a long native call never asks the interrupt handler), so a [`Pool`] keeps
//! worker processes: this same program, started again with a hidden subcommand whose body is [`work`]. A worker
//! has a socket and a pipe, no rights, a bounded heap and a bounded life; whoever overruns is killed and replaced.
//! A [`Module`] is compiled once in a worker; each [`Call`] evaluates it anew between frozen intrinsics, so that no
//! run sees another. [`Pool::check`] says what a module is made of ([`Facts`]) without running it.

mod call;
mod error;
mod facts;
#[doc(hidden)]
pub mod fuzzing;
mod module;
mod pool;
mod protocol;
mod work;

pub use call::{Call, Context, Kind, Level, LogLine, Member, Outcome, Shape, StateChange, StateWrite};
pub use error::{Error, Failure, Frame};
pub use facts::{Export, Facts, Reference, StateKey, SyntaxError};
pub use module::{Digest, Module, Origin, Position};
pub use pool::{Pool, PoolSettings, Sequence};
pub use protocol::MAX_TEXT;
pub use work::work;
