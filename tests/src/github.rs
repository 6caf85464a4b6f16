//! A double of GitHub's REST API, for the calls of the connector. It requires what the public API requires: a bearer token, a
//! user agent, the media type and the version of the API, and bodies of the right shape; and it sends events to webhooks, signed
//! as GitHub signs. Source: <https://docs.github.com/en/rest>, API version 2022-11-28.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The token that is let in.
pub const TOKEN: &str = "ghp_the-double-of-a-token";
/// The version of the API.
const VERSION: &str = "2022-11-28";
/// Maximum number of bytes of a body.
const LARGEST_BODY: usize = 16 << 20;
/// The number of the first issue, and the id of the first hook.
const FIRST: u64 = 1;

/// The fields of a resource's body; those that begin with `*` are required.
type Fields = &'static [&'static str];

const ISSUE: Fields = &["*title", "body", "labels", "assignees", "milestone"];
const ISSUE_CHANGE: Fields = &["title", "body", "state", "state_reason", "labels", "assignees", "milestone"];
const COMMENT: Fields = &["*body"];
const PULL: Fields = &["*title", "*head", "*base", "body", "draft", "maintainer_can_modify"];
const MERGE: Fields = &["merge_method", "commit_title", "commit_message", "sha"];
const RELEASE: Fields =
    &["*tag_name", "target_commitish", "name", "body", "draft", "prerelease", "make_latest"];
const CONTENT: Fields = &["*message", "*content", "sha", "branch", "committer", "author"];
const HOOK: Fields = &["name", "active", "*events", "*config"];
const HOOK_CONFIG: Fields = &["*url", "content_type", "secret", "insecure_ssl"];

/// A running double. Dropping it stops it.
#[derive(Debug)]
pub struct GitHub {
    shared: Arc<Shared>,
    url: String,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The number of answered requests.
    answered: watch::Sender<usize>,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<String>,
    issues: Vec<Value>,
    hooks: Vec<Value>,
    next: u64,
    /// True if the creation of a webhook never gets its response.
    loses_answers: bool,
}

/// A response.
type Answer = (StatusCode, Value);

impl GitHub {
    /// Listens on a free port.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let state = Mutex::new(State { next: FIRST, ..State::default() });
        let shared =
            Arc::new(Shared { state, answered: watch::Sender::new(0), stop: CancellationToken::new() });
        tokio::spawn(serve(listener, shared.clone()));
        Ok(Self { shared, url })
    }

    /// The address of the API.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Method, path and status of every request so far.
    pub fn requests(&self) -> Vec<String> {
        self.shared.state().requests.clone()
    }

    /// The webhooks there are.
    pub fn hooks(&self) -> Vec<Value> {
        self.shared.state().hooks.clone()
    }

    /// From now on webhooks are made without an answer; or again as usual.
    pub fn lose_answers(&self, lose: bool) {
        self.shared.state().loses_answers = lose;
    }

    /// Waits until this many requests have been answered.
    pub async fn answered(&self, count: usize) {
        let mut answered = self.shared.answered.subscribe();
        let _ = answered.wait_for(|answered| *answered >= count).await;
    }

    /// Sends an event to every webhook for it, and returns the statuses of the answers. `forged` signs with another secret.
    ///
    /// # Errors
    /// A webhook does not answer.
    pub async fn send_event(
        &self,
        event: &str,
        delivery: &str,
        payload: &Value,
        forged: bool,
    ) -> io::Result<Vec<u16>> {
        let mut statuses = Vec::new();
        for hook in self.hooks() {
            let wants = |wanted: &Value| wanted == event || event == "ping";
            if !hook["events"].as_array().is_some_and(|events| events.iter().any(wants)) {
                continue;
            }
            let secret =
                if forged { "another" } else { hook["config"]["secret"].as_str().unwrap_or_default() };
            let body = payload.to_string();
            let signature = signature(secret, &body);
            let url = hook["config"]["url"].as_str().unwrap_or_default();
            statuses.push(post(url, event, delivery, &signature, &body).await?);
        }
        Ok(statuses)
    }
}

impl Drop for GitHub {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => return,
        };
        let Ok((stream, _)) = stream else { continue };
        let (served, stop) = (shared.clone(), shared.stop.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(served.clone(), request));
            tokio::select! {
                _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service) => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, LARGEST_BODY).collect().await.map_err(io::Error::other)?.to_bytes();
    let path = head.uri.path().to_owned();
    let is_read = head.method == "GET" || head.method == "DELETE";
    let checked = demanded(&head.headers).and_then(|()| read_body(&head.headers, &body, is_read));
    let (status, value) = match checked {
        Ok(body) => shared.state().route(head.method.as_str(), &path, &body),
        Err(refused) => refused,
    };
    shared.state().requests.push(format!("{} {path} {}", head.method, status.as_u16()));
    if shared.state().loses_answers && head.method == "POST" && path.ends_with("/hooks") {
        shared.answered.send_modify(|count| *count += 1);
        return std::future::pending().await;
    }
    let response =
        Response::builder().status(status).header("content-type", "application/json; charset=utf-8");
    let body = if status == StatusCode::NO_CONTENT { String::new() } else { value.to_string() };
    shared.answered.send_modify(|count| *count += 1);
    response.body(Full::new(Bytes::from(body))).map_err(io::Error::other)
}

/// The headers that every request must have.
fn demanded(headers: &HeaderMap) -> Result<(), Answer> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if header("user-agent").is_empty() {
        return Err(refusal(StatusCode::FORBIDDEN, "Request forbidden by administrative rules."));
    }
    if header("authorization") != format!("Bearer {TOKEN}") {
        return Err(refusal(StatusCode::UNAUTHORIZED, "Bad credentials"));
    }
    if header("accept") != "application/vnd.github+json" {
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Unsupported 'Accept' header"));
    }
    if header("x-github-api-version") != VERSION {
        return Err(refusal(StatusCode::BAD_REQUEST, "The requested API version is not supported"));
    }
    Ok(())
}

fn read_body(headers: &HeaderMap, body: &[u8], is_read: bool) -> Result<Value, Answer> {
    if body.is_empty() || is_read {
        return Ok(json!({}));
    }
    let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/json") {
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be JSON"));
    }
    serde_json::from_slice(body).map_err(|_| refusal(StatusCode::BAD_REQUEST, "Problems parsing JSON"))
}

fn refusal(status: StatusCode, message: &str) -> Answer {
    (status, json!({"message": message, "documentation_url": "https://docs.github.com/rest"}))
}

/// Refuses a body that lacks a required field, or has an unknown one.
fn shape(body: &Value, fields: Fields) -> Result<(), Answer> {
    let empty = Map::new();
    let given = body.as_object().unwrap_or(&empty);
    let wrong = |field: &str, code: &str| {
        let errors = json!([{"field": field, "code": code, "message": format!("{field} is {code}")}]);
        (StatusCode::UNPROCESSABLE_ENTITY, json!({"message": "Validation Failed", "errors": errors}))
    };
    let names = || fields.iter().map(|field| field.trim_start_matches('*'));
    if let Some(stranger) = given.keys().find(|key| !names().any(|name| name == *key)) {
        return Err(wrong(stranger, "unprocessable"));
    }
    let missing =
        fields.iter().filter_map(|field| field.strip_prefix('*')).find(|name| !given.contains_key(*name));
    missing.map_or(Ok(()), |name| Err(wrong(name, "missing_field")))
}

impl State {
    fn route(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let ["repos", "acme", "shop", rest @ ..] = parts.as_slice() else {
            return refusal(StatusCode::NOT_FOUND, "Not Found");
        };
        self.repository(method, rest, body).unwrap_or_else(|refused| refused)
    }

    fn repository(&mut self, method: &str, rest: &[&str], body: &Value) -> Result<Answer, Answer> {
        let made = |value: Value| Ok((StatusCode::CREATED, value));
        let found = |value: Value| Ok((StatusCode::OK, value));
        match (method, rest) {
            ("GET", ["issues"]) => found(Value::from(self.issues.clone())),
            ("POST", ["issues"]) => {
                shape(body, ISSUE)?;
                let mut issue = body.clone();
                issue["number"] = self.number().into();
                issue["state"] = "open".into();
                self.issues.push(issue.clone());
                made(issue)
            }
            ("GET", ["issues", number]) => found(self.issue(number)?.clone()),
            ("PATCH", ["issues", number]) => {
                shape(body, ISSUE_CHANGE)?;
                let issue = self.issue(number)?;
                for (key, value) in body.as_object().into_iter().flatten() {
                    issue[key] = value.clone();
                }
                found(issue.clone())
            }
            ("POST", ["issues", number, "comments"]) => {
                shape(body, COMMENT)?;
                self.issue(number)?;
                made(json!({"id": 1, "body": body["body"]}))
            }
            ("GET", ["pulls"] | ["releases"]) => found(json!([])),
            ("GET", ["pulls", number]) => found(json!({"number": number.parse::<u64>().unwrap_or_default()})),
            ("POST", ["pulls"]) => {
                shape(body, PULL)?;
                made(json!({"number": self.number(), "title": body["title"]}))
            }
            ("PUT", ["pulls", _, "merge"]) => {
                shape(body, MERGE)?;
                found(json!({"merged": true, "sha": "6dcb09b5"}))
            }
            ("POST", ["releases"]) => {
                shape(body, RELEASE)?;
                made(json!({"id": self.number(), "tag_name": body["tag_name"]}))
            }
            ("GET", ["contents", path]) => {
                found(json!({"path": path.replace("%2F", "/"), "encoding": "base64"}))
            }
            ("PUT", ["contents", path]) => {
                shape(body, CONTENT)?;
                made(json!({"content": {"path": path.replace("%2F", "/")}}))
            }
            ("GET", ["hooks"]) => found(self.hooks.iter().map(masked).collect()),
            ("POST", ["hooks"]) => self.hook(body),
            ("DELETE", ["hooks", id]) => {
                let before = self.hooks.len();
                self.hooks.retain(|hook| hook["id"].as_u64() != id.parse().ok());
                if self.hooks.len() == before {
                    return Err(refusal(StatusCode::NOT_FOUND, "Not Found"));
                }
                Ok((StatusCode::NO_CONTENT, Value::Null))
            }
            _ => Err(refusal(StatusCode::NOT_FOUND, "Not Found")),
        }
    }

    fn hook(&mut self, body: &Value) -> Result<Answer, Answer> {
        shape(body, HOOK)?;
        shape(&body["config"], HOOK_CONFIG)?;
        let same =
            |hook: &Value| hook["config"]["url"] == body["config"]["url"] && hook["events"] == body["events"];
        if self.hooks.iter().any(same) {
            let errors = json!([{"resource": "Hook", "code": "custom", "message": "Hook already exists on this repository"}]);
            let body = json!({"message": "Validation Failed", "errors": errors});
            return Err((StatusCode::UNPROCESSABLE_ENTITY, body));
        }
        let mut hook = body.clone();
        hook["id"] = self.number().into();
        self.hooks.push(hook.clone());
        Ok((StatusCode::CREATED, hook))
    }

    fn issue(&mut self, number: &str) -> Result<&mut Value, Answer> {
        let found = self.issues.iter_mut().find(|issue| issue["number"].as_u64() == number.parse().ok());
        found.ok_or_else(|| refusal(StatusCode::NOT_FOUND, "Not Found"))
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }
}

/// A webhook as it is shown: without its secret.
fn masked(hook: &Value) -> Value {
    let mut shown = hook.clone();
    shown["config"]["secret"] = "********".into();
    shown
}

/// Sends a request as GitHub's webhooks do, and returns the status of the answer.
async fn post(url: &str, event: &str, delivery: &str, signature: &str, body: &str) -> io::Result<u16> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).await?;
    let request = format!(
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nuser-agent: GitHub-Hookshot/044aadd\r\n\
         content-type: application/json\r\nx-github-event: {event}\r\nx-github-delivery: {delivery}\r\n\
         x-hub-signature-256: sha256={signature}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(|| io::Error::other(answer))
}

/// The signature of a message: its HMAC in hexadecimal digits.
#[must_use]
pub fn signature(key: &str, message: &str) -> String {
    hex(&hmac(key.as_bytes(), message.as_bytes()))
}

/// HMAC with SHA-256 (RFC 2104), for keys up to 64 bytes.
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let padded = |byte: u8| {
        let mut block = [byte; 64];
        block.iter_mut().zip(key).for_each(|(block, key)| *block ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_match_the_example_of_the_documentation() {
        let signature = hex(&hmac(b"It's a Secret to Everybody", b"Hello, World!"));
        assert_eq!(signature, "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
    }

    #[test]
    fn a_body_with_other_fields_is_refused() {
        assert!(shape(&json!({"title": "a", "labels": []}), ISSUE).is_ok());
        assert_eq!(shape(&json!({"body": "a"}), ISSUE).map_err(|(status, _)| status.as_u16()), Err(422));
        assert_eq!(
            shape(&json!({"title": "a", "titel": "b"}), ISSUE).map_err(|(status, _)| status.as_u16()),
            Err(422)
        );
    }
}
