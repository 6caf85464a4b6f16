//! The catalog: turns the files of a project into the immutable snapshot of all that is in force.
//!
//! A [`Loader`] scans the project folder, checks each file against its surroundings, and assembles the next [`Catalog`] from
//! the previous one. Nothing here runs an execution.

mod check;
mod code;
mod error;
mod forecast;
mod native;
mod parallel;
mod plan;
mod project_dir;
mod reload;
mod schemas;
mod snapshot;
mod spelling;

pub use check::{
    builtin, connection as check_connection, secret_variable, together as check_together, where_to_set,
};
pub use code::{
    CodeLimits, Verdict, WORKER as CODE_WORKER, Workers, module, serve_code, set_code_limits,
    set_code_program,
};
pub use error::Error;
pub use forecast::{Forecast, GivenFile, automation_ids, forecast_project, project_files};
pub use native::{FilesAction, NativeAction, StateAction, find as find_native};
pub use plan::{BlockGraph, CodePlan, Loop, Plan, Reads};
pub use project_dir::{
    Entry, EntryKind, ProjectFileError, check_project_target, list as list_project_folder, read_project_file,
    read_start,
};
pub use reload::{Assembled, Loader, Successor};

pub use schemas::surroundings;
pub use snapshot::{
    AwaitedEvents, Broken, Catalog, Change, Deployed, Detail, Effect, File, FileChange, FileKind, Folder,
    How, InFlight, Look, Mounted, Parts, Reload, assemble, hooked, stem,
};
pub use spelling::written;
