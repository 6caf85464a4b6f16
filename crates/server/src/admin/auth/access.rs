//! Access control of the API: the token, the accepted host names, and no requests from pages of other sites.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use subtle::ConstantTimeEq as _;
use value::Secret;

use super::credential::{Credential, Owner};
use super::session::Sessions;
use super::tokens::Tokens;
use crate::admin::Problem;
use crate::admin::files::ui;
use crate::net::split_host;
use crate::options::ServerOptions;

/// The rules, in force on every address of the listener, event streams included.
pub(crate) struct Access {
    token: Secret,
    sessions: Arc<Sessions>,
    tokens: Arc<Tokens>,
    hosts: HashSet<String>,
    /// True if the listener is on all addresses of the machine, so that any of them is its own.
    on_all_addresses: bool,
    public_metrics: bool,
}

/// True if the host is written as an address: `10.0.0.7`, `[fd00::7]`.
fn is_address(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    }
}

impl Access {
    pub(crate) fn new(
        token: Secret,
        address: SocketAddr,
        options: &ServerOptions,
        sessions: Arc<Sessions>,
        tokens: Arc<Tokens>,
    ) -> Self {
        let loopback = ["localhost", "127.0.0.1", "[::1]"].into_iter().map(str::to_owned);
        let configured = options.admin_hosts.iter().map(|name| name.trim().to_ascii_lowercase());
        // A page can have its own name point at us, but not an address: our own, as written, is no attack.
        let own = (!address.ip().is_unspecified()).then(|| match address.ip() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        });
        let hosts = loopback.chain(configured).chain(own).collect();
        let on_all_addresses = address.ip().is_unspecified();
        Self { token, sessions, tokens, hosts, on_all_addresses, public_metrics: options.public_metrics }
    }

    /// True if a request needs no credential: the files of the web UI, the routes that begin a session, and the metrics if
    /// the settings say so. Everything else is denied without one, also if it does not exist.
    fn is_public(&self, head: &Parts) -> bool {
        let (method, path) = (&head.method, head.uri.path());
        let begins_session = match path {
            "/api/v1/session" | "/api/v1/session/provider/return" => method == Method::POST,
            "/api/v1/session/provider" => matches!(*method, Method::GET | Method::POST),
            _ => false,
        };
        let reads_metrics = self.public_metrics && method == Method::GET && path == "/metrics";
        begins_session || reads_metrics || ui::is_page(method, path)
    }

    /// Lets a request through with its credential, which is `None` if it needs none; or says why not.
    pub(crate) async fn check(&self, head: &Parts) -> Result<Option<Credential>, Problem> {
        let headers = &head.headers;
        self.host(headers)?;
        let credential = if self.is_public(head) {
            None
        } else if self.sessions.has_cookie(headers) && !headers.contains_key(AUTHORIZATION) {
            // The browser adds the cookie to the requests of other sites too.
            self.site(headers)?;
            Some(self.sessions.check(headers).await?)
        } else {
            Some(self.token(headers).await?)
        };
        if !matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS) {
            self.site(headers)?;
        }
        Ok(credential)
    }

    /// True if a credential that was accepted earlier would still be accepted.
    pub(crate) async fn is_valid(&self, credential: &Credential) -> Result<bool, Problem> {
        match (&credential.session, &credential.owner) {
            (Some(session), _) => self.sessions.is_valid(session).await,
            (None, Owner::Token { id, .. }) => self.tokens.is_valid(id).await,
            (None, Owner::Admin) => Ok(true),
            // A person acts through a session only.
            (None, Owner::Person { .. }) => Ok(false),
        }
    }

    /// Returns when a token or a session has been revoked since this call.
    pub(crate) fn revocation(&self) -> impl Future<Output = ()> {
        self.tokens.revocation()
    }

    /// A page whose name was made to point at this machine (DNS rebinding) sends that name.
    fn host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if self.is_own_host(host) {
            return Ok(());
        }
        let detail = "the API is not addressed under this name; add it to the names of the admin listener";
        Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", detail))
    }

    fn is_own_host(&self, host: &str) -> bool {
        let name = split_host(host).map(|(name, _)| name.to_ascii_lowercase());
        // No name resolves to an address as it is written, so such a host cannot be a name that was just pointed at this machine.
        name.is_some_and(|name| self.hosts.contains(&name) || (self.on_all_addresses && is_address(&name)))
    }

    /// The credential of a bearer token: the admin token, or one that was created.
    async fn token(&self, headers: &HeaderMap) -> Result<Credential, Problem> {
        let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        let (scheme, token) =
            given.split_at(given.iter().position(|byte| *byte == b' ').unwrap_or(given.len()));
        let token = token.trim_ascii();
        if !scheme.eq_ignore_ascii_case(b"bearer") {
            return Err(Problem::unauthorized());
        }
        if bool::from(token.ct_eq(self.token.expose().as_bytes())) {
            return Ok(Credential::admin());
        }
        let found = match std::str::from_utf8(token) {
            Ok(token) => self.tokens.check(token).await?,
            Err(_) => None,
        };
        let (id, token) = found.ok_or_else(Problem::unauthorized)?;
        Ok(Credential { scopes: token.scopes, owner: Owner::Token { id, name: token.name }, session: None })
    }

    /// Pages of other sites must not send requests that change something, even with credentials of the browser.
    fn site(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let refused = |detail| Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail));
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        if text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return refused("the request comes from another site");
        }
        let Some(origin) = text(ORIGIN.as_str()) else { return Ok(()) };
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        // The same port too: another program of this machine is another site.
        let same = headers.get(HOST).and_then(|host| host.to_str().ok());
        match host {
            Some(host)
                if self.is_own_host(host) && same.is_some_and(|same| same.eq_ignore_ascii_case(host)) =>
            {
                Ok(())
            }
            _ => refused("the request comes from a page of another origin"),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn access(address: [u8; 4]) -> Access {
        let address = SocketAddr::from((address, 7071));
        let store = store::Memory::default().open();
        let clock = Arc::new(runtime::SystemClock);
        let tokens = Tokens::new(store.clone(), clock.clone());
        let sessions = Sessions::new(store, clock, tokens.clone(), 7071, None, &Secret::new(TOKEN));
        let mut options = ServerOptions::new("");
        options.admin_hosts = vec!["Cogwork.Example".to_owned()];
        Access::new(Secret::new(TOKEN), address, &options, sessions, tokens)
    }

    #[tokio::test]
    async fn a_wildcard_listener_accepts_any_ip_address_as_host() {
        let all = access([0, 0, 0, 0]);
        for host in ["10.244.1.7:7071", "10.244.1.7", "[fd00::7]:7071", "cogwork.example"] {
            assert!(all.is_own_host(host), "{host}");
        }
        for host in ["evil.example", "10.244.1.7.evil.example", "[fd00::7", "fd00::7", "0x0a000001", "1"] {
            assert!(!all.is_own_host(host), "{host}");
        }
        assert!(!access([192, 0, 2, 7]).is_own_host("10.244.1.7:7071"));
    }

    async fn check(method: &str, path: &str, fields: &[(&str, &str)], expected: Result<(), &str>) {
        let access = access([192, 0, 2, 7]);
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let found = access.check(&head).await.map(drop).map_err(|problem| problem.code);
        assert_eq!(found, expected.map_err(str::to_owned), "{method} {path} {fields:?}");
    }

    fn with<'a>(fields: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let mut all = vec![("host", "localhost:7071"), ("authorization", "Bearer 0123456789abcdef")];
        all.retain(|(name, _)| !fields.iter().any(|(other, _)| other == name));
        all.extend(fields.iter().filter(|(_, value)| !value.is_empty()));
        all
    }

    #[tokio::test]
    async fn only_the_token_grants_access() {
        check("GET", "/api/x", &with(&[]), Ok(())).await;
        check("GET", "/api/x", &with(&[("authorization", "bearer  0123456789abcdef")]), Ok(())).await;
        for wrong in
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcdeF", "0123456789abcdef", "Basic 0123456789abcdef"]
        {
            check("GET", "/api/x", &with(&[("authorization", wrong)]), Err("unauthorized")).await;
        }
        check("GET", "/", &with(&[("authorization", "")]), Ok(())).await;
        check("GET", "/executions/1", &with(&[("authorization", "")]), Ok(())).await;
        check("POST", "/api/v1/session", &with(&[("authorization", "")]), Ok(())).await;
        check("POST", "/", &with(&[("authorization", "")]), Err("unauthorized")).await;
    }

    #[tokio::test]
    async fn only_own_host_names_are_accepted() {
        let ours =
            ["localhost", "LOCALHOST:1", "127.0.0.1:7071", "[::1]:7071", "192.0.2.7", "cogwork.example"];
        for host in ours {
            check("GET", "/", &with(&[("host", host)]), Ok(())).await;
        }
        for host in ["evil.example", "localhost.evil.example", "192.0.2.8", "[::2]", "127.0.0.2", ""] {
            check("GET", "/", &with(&[("host", host)]), Err("unknown_host")).await;
        }
    }

    #[tokio::test]
    async fn changing_requests_from_another_site_are_rejected() {
        let same = ("origin", "http://localhost:7071");
        check("POST", "/api/x", &with(&[same, ("sec-fetch-site", "same-origin")]), Ok(())).await;
        check("POST", "/api/x", &with(&[]), Ok(())).await;
        for origin in [
            "null",
            "http://evil.example",
            "http://localhost:9999",
            "ftp://localhost:7071",
            "http://127.0.0.1:7071",
        ] {
            check("POST", "/api/x", &with(&[("origin", origin)]), Err("cross_site")).await;
        }
        for site in ["cross-site", "same-site"] {
            check("DELETE", "/api/x", &with(&[("sec-fetch-site", site)]), Err("cross_site")).await;
        }
        check("GET", "/api/x", &with(&[("origin", "null")]), Ok(())).await;
    }
}
