//! Runs authors' JavaScript at full speed in confined processes.
//!
//! QuickJS cannot be bounded from inside (a long native call never polls the interrupt handler), so a [`Pool`] keeps
//! worker processes: this same program, started again with a hidden subcommand whose body is [`work`]. A worker has a
//! socket and a pipe, no rights, a bounded heap and a bounded life; the pool kills and replaces one that exceeds its
//! deadline. A worker compiles a [`Module`] once; each [`Call`] evaluates it anew between frozen intrinsics, so that no
//! run sees another. [`Pool::check`] analyses a module ([`ModuleInfo`]) without running it.
//!
//! Modules, in reading order:
//!
//! * `call`: the inputs and the result of a run
//! * `module`: a compiled module
//! * `module_info`: the analysis of a module
//! * `program`: the worker program
//! * `task`: one job on untrusted data, in a worker of its own
//! * `pool`: admission, the workers and their supervisor
//! * `protocol`: the messages between the pool and a worker
//! * `worker`: the confined process
//! * `fuzzing`: entry points of the fuzzer
//! * `error`: the error of this crate

mod call;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod module;
mod module_info;
mod pool;
mod program;
mod protocol;
mod task;
mod worker;

pub use call::{Call, Context, Kind, Level, LogLine, Outcome, SequenceCall, Shape, StateChange, StateWrite};
pub use error::{Error, Failure, Frame};
pub use module::{Digest, MAX_SOURCE, Module, Origin, Position};
pub use module_info::{Export, ModuleInfo, Reference, StateKey, SyntaxError};
pub use pool::{Pool, PoolSettings, PoolStatus, Sequence};
pub use program::{WORKER, set_worker_program, worker_program};
pub use protocol::MAX_TEXT;
pub use task::{Channel, RunningTask, Task, TaskError, TaskStop};
pub use worker::work;
