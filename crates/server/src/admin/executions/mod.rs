//! Executions: lists, one with its history, replays, trials, answers to waiting ones.

pub(crate) mod bulk;
pub(crate) mod caller;
pub(crate) mod delays;
pub(crate) mod execution;
pub(crate) mod execution_list;
pub(crate) mod export;
pub(crate) mod follow;
pub(crate) mod hidden;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod input;
pub(crate) mod large;
pub(crate) mod recorded;
pub(crate) mod replay;
pub(crate) mod started;
pub(crate) mod trials;
pub(crate) mod turns;
pub(crate) mod values;
pub(crate) mod waiting;

/// The path of an execution, before its id.
pub(crate) const PATH: &str = "/api/v1/executions/";
