//! The catalog: turns the files of a project into the immutable snapshot of the active definitions.
//!
//! A [`Loader`] scans the project folder, checks each file against its schema_context, and assembles the next [`Catalog`] from
//! the previous one. Nothing here runs an execution.
//!
//! Modules, in reading order:
//!
//! * `snapshot`: scans the folder and assembles the next catalog from the previous one
//! * `reload`: scans, assembles, stores addresses, puts in force
//! * `preview`: the same without putting it in force
//! * `check`: checks a file against the rest of the project
//! * `plan`: the step graph of an automation
//! * `effective`: the settings of a step, each with its place
//! * `graph`: the steps for drawing, with their places in the file
//! * `native`: the specifications of the native actions
//! * `code`: analyses of modules, and the pool of workers
//! * `connector_lock`: the sources of shared connectors
//! * `project_dir`: reads files without following links
//! * `canonical`: the text of a template for comparison
//! * `schemas`: the JSON Schemas of a project
//! * `parallel`: works on files in parallel
//! * `error`: the error of this crate

mod canonical;
mod check;
mod code;
mod connector_lock;
mod effective;
mod error;
mod graph;
mod native;
mod parallel;
mod plan;
mod preview;
mod project_dir;
mod reload;
mod schemas;
mod snapshot;

pub use check::{
    Member, MissingSecret, builtin, connection as check_connection, describe_type, how_to_set_secret,
    is_own_variable, members, merge as check_merge, possible_texts, secret_variable,
};
pub use code::{AnalysisResult, CodeLimits, Workers, module, serve_code, set_code_limits};
pub use connector_lock::{CONNECTOR_LOCK, ConnectorLock, LockedConnector, SHARED_MANIFEST, file_digest};
pub use effective::{EffectiveSetting, SettingSource, effective_settings};
pub use error::Error;
pub use graph::{Graph, GraphBlock, GraphBlockKind, GraphStep, GraphTrigger, LineRange};
pub use native::{FilesAction, NativeAction, StateAction, find as find_native};
pub use plan::{BlockGraph, CodePlan, Loop, Plan, ReadSet};
pub use preview::{PreviewFiles, ProjectFile, ReloadPreview, automation_ids, preview_project, project_files};
pub use project_dir::{
    Entry, EntryKind, FOLDERS as PROJECT_FOLDERS, ProjectFileError, ProjectTarget, check_project_target,
    list as list_project_folder, open_project_file, read_project_file, read_start,
};
pub use reload::{AddressKind, AnnounceReload, Assembled, Loader, Move, Successor};
pub use script::{WORKER as CODE_WORKER, set_worker_program as set_code_program};

pub use canonical::canonical_text;
pub use schemas::schema_context;
pub use snapshot::{
    AssembleInput, AwaitedEvents, Catalog, Change, ChangeKind, Deployment, DeploymentState, Detail, DiffKind,
    EngineFilter, EngineTrigger, EventUses, File, FileChange, FileKind, Folder, InFlightExecutions,
    InvalidFile, MAX_FOLDERS, Mount, MountedTrigger, PollSource, RefusedLevel, ReloadSummary, RenamedTrigger,
    Route, ScanScope, assemble, stem, trigger_hook,
};
pub use systems::{index_of_once, table_of_once};
