//! The options of the listeners, with their limits.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use value::Secret;

use crate::admin::Scopes;

/// The addresses of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The address of the hook listener.
    pub hooks: SocketAddr,
    /// The address of the API.
    pub admin: SocketAddr,
}

/// The options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The address of the hook listener; port 0 selects a free one.
    pub hooks: SocketAddr,
    /// The address of the API; port 0 selects a free one.
    pub admin: SocketAddr,
    /// The data folder, which contains `admin-token` and `daemon.json`.
    pub data_dir: PathBuf,
    /// The token of the admin API; default: the one in `<data_dir>/admin-token`, created if missing.
    pub admin_token: Option<Secret>,
    /// Additional host names of the admin API, besides this machine's loopback.
    pub admin_hosts: Vec<String>,
    /// The identity provider of the web UI; `None` if only login links start sessions.
    pub login: Option<LoginOptions>,
    /// True if the admin API rejects changes of project files.
    pub read_only: bool,
    /// True if `/metrics` needs no credential.
    pub public_metrics: bool,
    /// The grace period for responses in progress at shutdown.
    pub grace: Duration,
    /// The maximum wait of `POST …/run?wait=true` for the end.
    pub wait: Duration,
    /// The limits of the hook listener.
    pub hook_limits: Limits,
    /// The limits of the admin listener.
    pub admin_limits: Limits,
    /// The time limits of each part of a request.
    pub deadlines: Deadlines,
    /// The maximum number of bytes of request bodies that both listeners hold in memory; beyond it a request gets 503.
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

/// The identity provider of the web UI (OpenID Connect), and the scopes that it grants.
///
/// A user gets the scopes of all matching entries, and is rejected without any.
#[derive(Clone, Debug, Default)]
pub struct LoginOptions {
    /// The issuer identifier of the provider.
    pub issuer: String,
    /// The display name of the provider.
    pub name: String,
    /// The client id of this daemon at the provider.
    pub client_id: String,
    /// The name of the secret with the client secret; `None` for a public client.
    pub client_secret: Option<String>,
    /// The scopes requested from the provider in addition to `openid`.
    pub request_scopes: Vec<String>,
    /// Verified e-mail addresses, or domains (`@example.com`), with the scopes of these users.
    pub emails: Vec<(String, Scopes)>,
    /// Groups with the scopes of their members.
    pub groups: Vec<(String, Scopes)>,
    /// The claim with the groups of a user.
    pub groups_claim: String,
}

/// The limits of one listener. The defaults follow the threat model, section 4.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of connections.
    pub connections: usize,
    /// The maximum number of connections of one IPv4 address or one IPv6 network of 64 bits.
    pub connections_per_peer: usize,
    /// The maximum number of unauthenticated connections. A further one evicts the oldest of them, so that they never block
    /// authenticated ones. `None` if the listener has no authentication.
    pub unauthenticated: Option<usize>,
    /// True if the limit per peer does not apply to this machine, where a reverse proxy forwards all clients from one
    /// address.
    pub loopback_exempt: bool,
    /// The maximum size of a request target, in bytes.
    pub target_bytes: usize,
    /// The maximum size of the names and values of a request's header fields, in bytes.
    pub header_bytes: usize,
    /// The maximum number of header fields of a request.
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

/// The time limits of the parts of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From accepting a connection to the end of its first request's header section.
    pub head: Duration,
    /// From one response to the end of the next request's header section.
    pub keep_alive: Duration,
    /// A whole body.
    pub body: Duration,
    /// The time before the minimum throughput of a body applies.
    pub body_grace: Duration,
    /// The minimum throughput of a body after that, in bytes per second.
    pub body_pace: u32,
    /// The maximum time in which a peer reads no byte of a response.
    pub write_stall: Duration,
    /// The maximum time that a connection is still read after a request was rejected midway, so that the peer receives the
    /// response instead of a reset.
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
