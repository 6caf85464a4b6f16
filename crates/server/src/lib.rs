//! The only crate that knows HTTP serving. It decides nothing: requests become plain values for the engine, and the
//! engine's plain values become answers.
//!
//! Two listeners share one accept loop with limits and deadlines ([`ServerOptions`]): *hooks* takes
//! `/trigger/<token>` and `/resume/<token>` from anywhere, *admin* carries the API, for whoever holds the token. [`Server::bind`] opens
//! the sockets, so that their addresses are known before an engine exists; [`Bound::serve`] begins to answer.
//! [`Client`] is the other end of the admin API, for the command line.
//!
//! Modules, in reading order:
//!
//! * `net`: the accept loop, its guards, and bodies
//! * `hooks`: the listener of webhooks
//! * `resume`: the page on which people answer
//! * `admin`: the API, a folder a duty and a file a topic; `routes.rs` is the table of routes with their scopes
//! * `callback`: the address to which identity providers return
//! * `client`: the other end of the API, for the command line
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
    Cuts, ExportFormat, ImportedView, Problem, RefusedImport, Scope, Scopes, TotalView, describe,
    describe_row, export, export_lines, openapi,
};
pub use client::{Client, Events, ServerEvent};
pub use error::Error;
pub use files::{Daemon, admin_token};
pub use options::{Addresses, Deadlines, Limits, LoginOptions, ServerOptions};
pub use server::{Bound, ResumeServer, Server};
