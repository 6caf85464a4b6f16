//! The engine: puts the catalog, the runtime and the ingress together, reloads the project when its files change, and clears
//! away old executions. An [`Engine`] is the handle that the rest of Cogwork uses.
//!
//! Modules, in reading order:
//!
//! * `engine`: the handle
//! * `watch`: reloads when files change
//! * `generations`: definitions that are deployed into a shared store
//! * `project_edit`: changes of files by people, and the reload that follows
//! * `announce`: tells triggers of reloads
//! * `told`: the record of what triggers were told last
//! * `moves`: moves the records of a trigger to another id
//! * `bulk`: replays and cancellations of many executions
//! * `trials`: recorded executions and tests on a text that is not saved
//! * `test_draft`: a test from an execution, as a change of its file
//! * `retention`: deletes old executions
//! * `search`: finds executions by a scan
//! * `stores`: opens stores by their location, and moves them
//! * `transfer`: exports and imports executions as JSON lines
//! * `simulation`: in tests, the whole core by seeds, with crashes

mod announce;
mod bulk;
mod engine;
mod generations;
mod moves;
mod project_edit;
mod retention;
mod search;
pub mod stores;
mod test_draft;
mod told;
pub mod transfer;
mod trials;
mod watch;

#[cfg(test)]
mod simulation;

pub use bulk::{
    BULK_PER_SECOND, Bulk, BulkAction, BulkFailure, BulkPlan, BulkProgress, BulkSelection, BulkState,
    MAX_BULK, MAX_BULK_PER_SECOND,
};
pub use engine::Engine;
pub use generations::{Deploy, DeployError, Deployed, RunningDefinitions, deployable_files};
pub use project_edit::EditError;
pub use search::{Search, SearchResult};
pub use test_draft::TestDraft;
pub use trials::{MAX_TRIALS, TestOutcome, TestText, TrialOutcome, TrialRequest, Trials};
