//! The wiki, simulated: a faithful server of the API that the wiki connector talks to, in memory.
//!
//! It is a server in its own right, not a set of canned answers: what is created can be read, listed, updated, trashed
//! and purged under the rules of the real service, for whoever has the permissions and the scopes. What the real
//! service leaves open is decided here, and the module that decides says so. [`Simulator::builder`] starts one inside a
//! test on a free port; the program `wiki-simulator` serves one to people.
//!
//! One address serves three hosts of the real thing, told apart by path: the site (`/wiki/...`,
//! `/gateway/api/graphql`, `/_edge/tenant_info`), the gateway (`/ex/wiki/{cloudId}/wiki/...`, `/graphql`,
//! `/oauth/token/accessible-resources`) and the identity provider (`/authorize`, `/oauth/token`). A fourth, `/_media/`,
//! stands for the store of files that downloads redirect to; it goes by the name `localhost`.
//!
//! Reading order: the state and its rules (`model`, `state`, `pages`, `page_reads`, `attachments`, `properties`,
//! `spaces`), what callers are told (`shapes`, `error`, `paging`), who they are (`users`, `auth`, `oauth`), what goes
//! wrong on purpose (`faults`, `limits`), how a product calls its parts (`words`), and the way of a call through it all (`serve`, `pipeline`, `dispatch`).

mod clock;
mod model;
mod state;
mod users;

mod attachments;
mod page_reads;
mod pages;
mod properties;
mod spaces;
mod storage_format;

mod error;
mod paging;
mod query;
mod reply;
mod shapes;

mod auth;
mod graphql;
mod oauth;

mod faults;
mod limits;
mod log;

mod admin;
mod core;
mod dispatch;
mod pipeline;
mod routes;
mod serve;
mod upload;

mod demo;
mod seed;
mod simulator;
mod words;

pub use clock::{Clock, Moment};
pub use demo::{
    ALL_SCOPES, ARCH_SPACE_ID, CLOUD_ID, DEMO_ATTACHMENT_ID, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET,
    DEMO_CUSTOM_CONTENT_ID, DEMO_EMAIL, DEMO_PAGE_ID, DEMO_SCOPED_TOKEN, DEMO_SPACE_ID, DEMO_TOKEN, FIRST_ID,
    READER_EMAIL, READER_TOKEN,
};
pub use error::{ApiError, Error};
pub use faults::{Fault, When};
pub use graphql::{Compute, GraphqlAnswer};
pub use limits::{RateLimit, RetryAfter};
pub use log::{LoggedRequest, fingerprint};
pub use model::{Parent, Representation, Status};
pub use oauth::{Lifetimes, Site, Tokens};
pub use seed::{PageSeed, SpaceSeed};
pub use simulator::{Builder, Handle, Running, Simulator};
pub use state::{State, Switches};
pub use users::{Permissions, User, Who};
pub use words::Words;
