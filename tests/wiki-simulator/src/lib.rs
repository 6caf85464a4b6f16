//! An in-memory server of the HTTP API that the wiki connector calls.
//!
//! Created content can be read, listed, updated, trashed and purged under the rules of the real service, by one user
//! with the scopes of its credentials. [`Simulator::builder`] starts a server in a test on a free port; the program
//! `wiki-simulator` serves one to people.
//!
//! One address serves all hosts of the real service, told apart by path: the site (`/wiki/...`, `/gateway/api/graphql`,
//! `/_edge/tenant_info`), the gateway (`/ex/wiki/{cloudId}/wiki/...`, `/graphql`, `/oauth/token/accessible-resources`)
//! and the identity provider (`/authorize`, `/oauth/token`). Downloads redirect to `/_media/` under the name `localhost`.
//!
//! `routes` is the table of all calls: method, path, scopes, handler. `model` holds the stored content, `lists` and
//! `views` the generic reads, `writes` and `files` the writes; `server` runs a call through the fault script.

mod auth;
mod call;
mod faults;
mod files;
mod graphql;
mod lists;
mod model;
mod routes;
mod seed;
mod server;
mod simulator;
mod text;
mod traffic;
mod views;
mod writes;

pub use call::{ApiError, Error};
pub use faults::{Fault, When};
pub use model::{Clock, Moment, State, Status, Switches};
pub use seed::{
    ALL_SCOPES, ARCH_SPACE_ID, CLOUD_ID, DEMO_ATTACHMENT_ID, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET,
    DEMO_CUSTOM_CONTENT_ID, DEMO_EMAIL, DEMO_PAGE_ID, DEMO_SCOPED_TOKEN, DEMO_SPACE_ID, DEMO_TOKEN, FIRST_ID,
    PageSeed, SpaceSeed,
};
pub use simulator::{Builder, Running, Simulator};
pub use traffic::{LoggedRequest, RateLimit};
