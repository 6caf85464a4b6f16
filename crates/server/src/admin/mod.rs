//! The admin API under `/api/v1`, described by OpenAPI generated from the code itself ([`description`]): [`routes`] has its
//! table, a folder the routes of one duty.
#![allow(unused_qualifications, reason = "the macro that describes a route writes them")]

mod api;
mod auth;
mod definitions;
mod description;
mod executions;
mod extract;
mod files;
mod listener;
mod operations;
mod problem;
mod routes;
mod triggers;

pub(crate) use api::{Api, Shared};
pub(crate) use auth::guard::forwarded_for;
pub(crate) use listener::Admin;

pub use auth::scope::{Scope, Scopes};
pub use description::openapi;
pub use executions::execution::{describe, describe_row};
pub use executions::execution_list::TotalView;
pub use executions::export::{ExportFormat, export, export_lines};
pub use executions::import::{ImportedView, RefusedImport};
pub use executions::recorded::Cuts;
pub use executions::started::StartedView;
pub use problem::Problem;
