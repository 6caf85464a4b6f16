//! The engine: the only crate that spawns tasks and reads the clock. It contains no HTTP server, no SQL and nothing
//! vendor-specific.
//!
//! An [`Engine`] is a cheap handle. Its parts: the [`Catalog`] in force (an immutable snapshot, swapped on reload),
//! admission (makes executions durable before their existence is reported), the runner (executes each one along its
//! [`Plan`]), the scheduler, and the file watcher.

mod chance;
mod clock;
mod doubles;
mod error;
mod evaluator;
mod failpoint;
mod isolation;
mod lasting;
mod locks;
mod memory;
mod project_dir;
mod settings;
#[cfg(test)]
mod simulation;
mod spelling;
mod told;

mod catalog;
mod check;
mod code;
mod parallel;
mod plan;
mod poll;
mod refusals;
mod schemas;
mod timer;
mod validate;

mod connections;
mod inputs;
mod intake;
mod listen;
mod native;
mod reload;
mod retention;
mod run;
mod scheduler;
mod secrets;
mod subscribe;
mod vault;
mod waits;
mod watch;

mod forecast;
mod hooks;
mod services;

mod engine;

pub mod trial;

pub use catalog::{Broken, Catalog, Change, Deployed, Detail, Effect, FileChange, How, InFlight, Reload};
pub use clock::{Clock, ManualClock, Steady, SystemClock};
pub use code::{WORKER as CODE_WORKER, serve_code, set_code_program};
pub use connections::{
    ConnectionReport, ConnectionState, ConnectionTest, Health, LoginCallback, LoginState, StartedLogin,
};
pub use connector::http::Pieces;
pub use engine::Engine;
pub use error::Error;
pub use forecast::{Forecast, GivenFile, automation_ids, forecast_project, project_files};
pub use intake::{Answer, SignalError, read_definition};
pub use listen::{
    Capture, ListenView, MAX_CAPTURES, MAX_LISTEN_TIME, NonTrigger, PayloadError, SavedPayload,
};
pub use native::{StateScope, StateValue};
pub use plan::{BlockGraph, Plan};
pub use poll::{PollError, PollView};
pub use project_dir::{ProjectFileError, check_project_target, read_project_file};
pub use schemas::surroundings;
pub use secrets::{ListedSecret, SecretSource, exposed_secret_files, is_secret_set, secret_files};
pub use settings::{Limits, Settings};
pub use told::{Notice, Pending, Standing, Start, Status, Turn};
pub use validate::{Checked, check_project, check_stranger, check_text};
pub use vault::{KeySource, Rotation, StoredSecret, Vault};
pub use waits::{Pause, Pauses};
