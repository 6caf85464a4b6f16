//! Everything that one lock guards, and a call once it has been read.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use super::attachments::Upload;
use super::error::ApiError;
use super::faults::Script;
use super::graphql::Registry;
use super::limits::Limits;
use super::log::Log;
use super::oauth::{OAuth, Site};
use super::query::Query;
use super::state::State;

/// The whole of the simulator but its connections.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) state: State,
    pub(super) oauth: OAuth,
    pub(super) graphql: Registry,
    pub(super) limits: Limits,
    pub(super) script: Script,
    pub(super) log: Log,
    /// The sites of the gateway. The first is the one that the site's own address serves; the others serve the same.
    pub(super) sites: Vec<Site>,
    /// The response of `/oauth/token/accessible-resources`, in place of the sites.
    pub(super) resources: Option<Value>,
    /// The origin that downloads redirect to.
    pub(super) media_url: String,
    /// How many calls are being held.
    pub(super) held: usize,
}

/// A call that has been read whole.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The parts of a multipart body; nothing for any other.
    pub(super) upload: Option<Result<Upload, ApiError>>,
}

impl Call {
    /// True if the body is declared as JSON.
    pub(super) fn has_json(&self) -> bool {
        let whole = self.header("content-type").unwrap_or_default();
        whole.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    }

    /// A header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
