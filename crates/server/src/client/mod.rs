//! The other end of the admin API, for the command line on the same machine: plain HTTP on a connection of its own
//! for each request, with a deadline and a limit on everything.

mod connection;
mod lines;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use serde::de::DeserializeOwned;
use value::Secret;

use crate::admin::Problem;
use crate::files::{Daemon, existing_token};
use crate::{Error, ServerOptions};
use connection::Connection;
use lines::Lines;

pub use lines::ServerEvent;

/// The most bytes of an answer, and of one event of a stream.
const MOST_BYTES: usize = 64 << 20;
/// How long an answer may take beyond what the daemon may wait itself.
const SLACK: Duration = Duration::from_secs(15);

/// A client of one daemon's admin API.
#[derive(Clone, Debug)]
pub struct Client {
    /// `host:port`.
    authority: String,
    bearer: HeaderValue,
    deadline: Duration,
}

impl Client {
    /// A client of the daemon at `base`, such as `http://127.0.0.1:7071`.
    ///
    /// # Errors
    /// `base` is not a plain `http://host:port`, or the token holds what no header may.
    pub fn new(base: &str, token: &Secret) -> Result<Self, Error> {
        let wrong = || Error::Address(base.to_owned());
        let authority = base.strip_prefix("http://").unwrap_or(base).trim_end_matches('/');
        let parsed: http::uri::Authority = authority.parse().map_err(|_| wrong())?;
        if parsed.port().is_none() || authority.contains('@') {
            return Err(wrong());
        }
        let bearer = HeaderValue::try_from(format!("Bearer {}", token.expose()));
        let mut bearer = bearer.map_err(|_| Error::WeakToken { found: 0, least: 1 })?;
        bearer.set_sensitive(true);
        let deadline = ServerOptions::new("").wait + SLACK;
        Ok(Self { authority: authority.to_owned(), bearer, deadline })
    }

    /// The same client, which waits only this long for an answer.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// A client of the daemon that runs on this data folder, with `token` or else the folder's own; `None` where no
    /// daemon says that it runs there. Whether it still does, the first request shows: [`Error::Unreachable`].
    ///
    /// # Errors
    /// The files in the folder cannot be read.
    pub fn of_folder(data_dir: &Path, token: Option<&Secret>) -> Result<Option<Self>, Error> {
        let Some(daemon) = Daemon::find(data_dir)? else { return Ok(None) };
        let token = token.map_or_else(|| existing_token(data_dir), |token| Ok(token.clone()))?;
        Self::new(&format!("http://{}", daemon.admin), &token).map(Some)
    }

    /// Asks for `path`, such as `/api/v1/status`.
    ///
    /// # Errors
    /// The daemon does not answer, or refuses.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// Sends `body` as JSON to `path`.
    ///
    /// # Errors
    /// The daemon does not answer, or refuses.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        let body = serde_json::to_vec(body).map_err(|error| self.wrong(&error))?;
        self.ask(Method::POST, path, body.into()).await
    }

    /// Sends lines of JSON to `path`.
    ///
    /// # Errors
    /// The daemon does not answer, or refuses.
    pub async fn post_lines<T: DeserializeOwned>(&self, path: &str, lines: Vec<u8>) -> Result<T, Error> {
        let mut request = self.request(Method::POST, path, lines.into())?;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        self.send(request).await
    }

    /// Puts `body` as JSON at `path`.
    ///
    /// # Errors
    /// The daemon does not answer, or refuses.
    pub async fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        let body = serde_json::to_vec(body).map_err(|error| self.wrong(&error))?;
        self.ask(Method::PUT, path, body.into()).await
    }

    /// Puts `body` as JSON at `path` in place of the version `etag`; creates it if `etag` is `None`.
    ///
    /// # Errors
    /// The daemon does not answer, or refuses: there is another version by now, or one already.
    pub async fn put_version<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        etag: Option<&str>,
    ) -> Result<T, Error> {
        let body = serde_json::to_vec(body).map_err(|error| self.wrong(&error))?;
        let mut request = self.request(Method::PUT, path, body.into())?;
        let (name, value) = match etag {
            Some(etag) => (IF_MATCH, HeaderValue::try_from(etag).map_err(|error| self.wrong(&error))?),
            None => (IF_NONE_MATCH, HeaderValue::from_static("*")),
        };
        request.headers_mut().insert(name, value);
        self.send(request).await
    }

    /// Deletes what is at `path`.
    ///
    /// # Errors
    /// The daemon does not answer, or refuses.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.ask(Method::DELETE, path, Bytes::new()).await
    }

    /// Opens a stream of events, such as `/api/v1/executions/{id}/events`.
    ///
    /// # Errors
    /// The daemon does not answer, or refuses.
    pub async fn events(&self, path: &str) -> Result<Events, Error> {
        let mut request = self.request(Method::GET, path, Bytes::new())?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let sent = tokio::time::timeout(self.deadline, Connection::send(&self.authority, request));
        let (status, mut connection) = sent.await.map_err(|_| self.slow())??;
        if status != StatusCode::OK {
            let body = connection.whole(MOST_BYTES).await?;
            return Err(self.refused(status, &body));
        }
        Ok(Events { connection, lines: Lines::new(MOST_BYTES) })
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T, Error> {
        self.send(self.request(method, path, body)?).await
    }

    async fn send<T: DeserializeOwned>(&self, request: Request<Full<Bytes>>) -> Result<T, Error> {
        let whole = async {
            let (status, mut connection) = Connection::send(&self.authority, request).await?;
            connection.whole(MOST_BYTES).await.map(|body| (status, body))
        };
        let (status, body) = tokio::time::timeout(self.deadline, whole).await.map_err(|_| self.slow())??;
        if !status.is_success() {
            return Err(self.refused(status, &body));
        }
        serde_json::from_slice(&body).map_err(|error| self.wrong(&error))
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(AUTHORIZATION, &self.bearer)
            .header(ACCEPT, "application/json");
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(body)).map_err(|error| self.wrong(&error))
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Error {
        match serde_json::from_slice::<Problem>(body) {
            Ok(problem) => Error::Refused(Box::new(problem)),
            Err(_) => self.wrong(&format!("status {status} without a problem")),
        }
    }

    fn slow(&self) -> Error {
        Error::Slow { address: self.authority.clone(), seconds: self.deadline.as_secs() }
    }

    fn wrong(&self, reason: &impl ToString) -> Error {
        Error::Answer { address: self.authority.clone(), reason: reason.to_string() }
    }
}

/// Events as they come.
pub struct Events {
    connection: Connection,
    lines: Lines,
}

impl Events {
    /// The next event; `None` once the daemon has ended the stream. It waits as long as the daemon has nothing to
    /// tell. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The connection broke, or what came is no stream of events.
    pub async fn next(&mut self) -> Result<Option<ServerEvent>, Error> {
        loop {
            let found = self.lines.next().map_err(|reason| self.connection.wrong(reason))?;
            if found.is_some() {
                return Ok(found);
            }
            match self.connection.piece().await? {
                Some(piece) => self.lines.add(&piece),
                None => return Ok(None),
            }
        }
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Events")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_plain_http_with_a_port() {
        let token = Secret::new("0123456789abcdef");
        for base in ["http://127.0.0.1:7071", "http://localhost:7071/", "127.0.0.1:7071", "http://[::1]:7071"]
        {
            assert!(Client::new(base, &token).is_ok(), "{base}");
        }
        for base in ["", "https://a:1", "http://a", "http://a:1/x", "http://u@a:1", "http://a b:1"] {
            assert!(matches!(Client::new(base, &token), Err(Error::Address(_))), "{base}");
        }
    }

    #[test]
    fn a_client_never_shows_its_token() {
        let client = Client::new("http://a:1", &Secret::new("canary-canary-canary")).expect("a client");
        assert!(!format!("{client:?}").contains("canary"));
    }
}
