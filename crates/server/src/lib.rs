//! The only crate that implements HTTP serving. It makes no decisions: it converts requests to plain values for the engine, and the
//! engine's plain values to responses.
//!
//! Two listeners share one accept loop with limits and deadlines ([`ServerOptions`]): *hooks* serves
//! `/trigger/<token>` and `/resume/<token>` publicly, *admin* serves the API to holders of a token. [`Server::bind`] opens
//! the sockets, so that their addresses are known before an engine exists; [`Bound::serve`] starts to respond.
//! [`Client`] is the client of the admin API, for the command line.
//!
//! Modules, in reading order:
//!
//! * `net`: the accept loop, its guards, and bodies
//! * `hooks`: the listener of webhooks
//! * `resume`: the page on which people answer approvals
//! * `admin`: the API, a folder per duty and a file per topic; `routes.rs` is the table of routes with their scopes
//! * `callback`: the address to which identity providers return
//! * `client`: the client of the API, for the command line
//! * `files`: the admin token and `daemon.json`
//! * `server`: opens and closes both listeners in order
//! * `audit`: the log of changes
//! * `options`: addresses, limits and names of the listeners
//! * `error`: the error of this crate

mod error;
mod options;

mod net;

mod admin;
mod audit;
mod callback;
mod hooks;
mod resume;

mod files;
mod server;

mod client;

pub use admin::{
    Cuts, ExportFormat, ImportedView, Problem, RefusedImport, Scope, Scopes, StartedView, TotalView,
    describe, describe_row, export, export_lines, openapi,
};
pub use client::{Client, Events, ServerEvent};
pub use error::{Error, how_to_listen};
pub use files::{Daemon, admin_token};
pub use options::{Addresses, Deadlines, Limits, LoginOptions, ServerOptions};
pub use server::{Bound, ResumeServer, Server};
