//! The options of the listeners, with their limits.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use value::Secret;

use crate::admin::Scopes;

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Requests on webhooks.
    pub hooks: SocketAddr,
    /// The API.
    pub admin: SocketAddr,
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where requests on webhooks arrive; port 0 takes a free one.
    pub hooks: SocketAddr,
    /// Where the API is; port 0 takes a free one.
    pub admin: SocketAddr,
    /// The data folder: `admin-token` and `daemon.json` are kept there.
    pub data_dir: PathBuf,
    /// The token of the admin API; where none is given it is the one in `<data_dir>/admin-token`, made at need.
    pub admin_token: Option<Secret>,
    /// Names, besides those of this machine's own loopback, under which the admin API may be addressed.
    pub admin_hosts: Vec<String>,
    /// The identity provider at which people log in to the web UI; `None` if only login links begin sessions.
    pub login: Option<LoginOptions>,
    /// True if the admin API refuses changes of project files.
    pub read_only: bool,
    /// True if `/metrics` needs no credential.
    pub public_metrics: bool,
    /// How long answers that are under way may take to finish when the server stops.
    pub grace: Duration,
    /// How long `POST …/run?wait=true` waits for the end.
    pub wait: Duration,
    /// The limits of the hook listener.
    pub hook_limits: Limits,
    /// The limits of the admin listener.
    pub admin_limits: Limits,
    /// The time limits of each part of a request.
    pub deadlines: Deadlines,
    /// Bytes of request bodies that both listeners hold in memory at one time; beyond it a request gets 503.
    pub body_budget: usize,
}

impl ServerOptions {
    /// The defaults, with this data folder.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Self {
            hooks: local(7070),
            admin: local(7071),
            data_dir: data_dir.into(),
            admin_token: None,
            admin_hosts: Vec::new(),
            login: None,
            read_only: false,
            public_metrics: false,
            grace: Duration::from_secs(10),
            wait: Duration::from_secs(30),
            hook_limits: Limits::default(),
            admin_limits: Limits { connections: 256, unauthenticated: Some(128), ..Limits::default() },
            deadlines: Deadlines::default(),
            body_budget: 32 << 20,
        }
    }
}

/// The identity provider at which people log in to the web UI (OpenID Connect), and the scopes that they get.
///
/// A person gets the scopes of all entries that name them, and is refused without any.
#[derive(Clone, Debug, Default)]
pub struct LoginOptions {
    /// The issuer identifier of the provider.
    pub issuer: String,
    /// The name of the provider for people.
    pub name: String,
    /// The client id of this daemon at the provider.
    pub client_id: String,
    /// The name of the secret that holds the client secret; `None` for a public client.
    pub client_secret: Option<String>,
    /// The scopes that are requested from the provider besides `openid`.
    pub request_scopes: Vec<String>,
    /// Verified e-mail addresses, or domains (`@example.com`), with the scopes of these people.
    pub emails: Vec<(String, Scopes)>,
    /// Groups with the scopes of their members.
    pub groups: Vec<(String, Scopes)>,
    /// The claim with the groups of a person.
    pub groups_claim: String,
}

/// The limits of one listener. The figures are those of the threat model, section 4.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at one time.
    pub connections: usize,
    /// Connections at one time of one IPv4 address or one IPv6 network of 64 bits.
    pub connections_per_peer: usize,
    /// Connections at one time that have shown no credential yet. One more takes the place of the oldest of them, so that
    /// strangers never keep out whoever has one. `None` where nobody shows any.
    pub unauthenticated: Option<usize>,
    /// True if the limit per peer does not apply to this machine, where a reverse proxy forwards all clients from one
    /// address.
    pub loopback_exempt: bool,
    /// Bytes of a request's target.
    pub target_bytes: usize,
    /// Bytes of the names and values of a request's header fields.
    pub header_bytes: usize,
    /// Header fields of a request.
    pub header_fields: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_peer: 64,
            unauthenticated: None,
            loopback_exempt: true,
            target_bytes: 8 << 10,
            header_bytes: 16 << 10,
            header_fields: 64,
        }
    }
}

/// How long each part of a request may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From accepting a connection to the end of its first request's header section.
    pub head: Duration,
    /// From one answer to the end of the next request's header section.
    pub keep_alive: Duration,
    /// A whole body.
    pub body: Duration,
    /// How long a body may take before its pace counts.
    pub body_grace: Duration,
    /// The least pace of a body after that, in bytes a second.
    pub body_pace: u32,
    /// How long a peer may refuse to take a single byte of an answer.
    pub write_stall: Duration,
    /// How long a connection that is refused in the midst of a request is read on, so that the peer gets to see the
    /// answer instead of a reset.
    pub linger: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            keep_alive: Duration::from_secs(15),
            body: Duration::from_secs(30),
            body_grace: Duration::from_secs(5),
            body_pace: 1024,
            write_stall: Duration::from_secs(30),
            linger: Duration::from_secs(5),
        }
    }
}
