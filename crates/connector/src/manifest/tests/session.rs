//! Tests of logins that give a token, and of clients that prove themselves with an assertion.

use std::sync::Mutex;

use async_trait::async_trait;
use model::ErrorKind;
use pretty_assertions::assert_eq;
use value::Secret;

use super::service::{get_one, manifest_with, ok};
use super::*;
use crate::http::HttpOptions;
use crate::http::testing::{ServerReply, Waits};
use crate::oauth::{OAuthClient, TokenSource};

/// Logs in for each token that is asked for, and keeps it, as the daemon does.
struct Kept {
    client: Arc<OAuthClient>,
    http: crate::http::Http,
    token: Mutex<Option<Secret>>,
}

#[async_trait]
impl TokenSource for Kept {
    async fn token(&self) -> Result<Secret, ActionError> {
        let kept = self.token.lock().expect("not poisoned").clone();
        match kept {
            Some(kept) => Ok(kept),
            None => Ok(self.replacement(&Secret::new("")).await?.expect("a token")),
        }
    }

    async fn replacement(&self, _: &Secret) -> Result<Option<Secret>, ActionError> {
        let tokens = self.client.client_credentials(&self.http).await.map_err(|error| error.error)?;
        *self.token.lock().expect("not poisoned") = Some(tokens.access.clone());
        Ok(Some(tokens.access))
    }
}

fn options() -> HttpOptions {
    let redactor = Redactor::default();
    redactor.add_secret("k-secret");
    HttpOptions { timer: Arc::new(Waits::default()), redactor, ..testing::local() }
}

/// The double of a service with a login, and a connection to it.
struct Double {
    server: Server,
    manifest: Manifest,
    connection: crate::connection::ResolvedConnection,
    http: crate::http::Http,
    log: Lines,
}

impl Double {
    async fn start(auth: &str, respond: impl Fn(usize, &str) -> ServerReply + Send + Sync + 'static) -> Self {
        let server = Server::start(respond).await;
        let text = manifest_with("", auth, &get_one()).replace("https://shop.example/v1", &server.url("/v1"));
        let (manifest, errors) = read_text(&text);
        let manifest = manifest.unwrap_or_else(|| panic!("{errors}"));
        let inputs: Map = [("key", "k-secret"), ("team", "ann")].into_iter().collect();
        let connection = manifest.connections[0].resolve("mine", &inputs).expect("it resolves");
        let client = connection.oauth().expect("a client").clone();
        let tokens = Kept { client, http: testing::http(options()), token: Mutex::default() };
        let connection = connection.with_tokens(Arc::new(tokens), None);
        Self { server, manifest, connection, http: testing::http(options()), log: Lines::default() }
    }

    async fn call(&self) -> Result<Value, ActionError> {
        let inputs: Map = [("id", "1")].into_iter().collect();
        let call = testing::call(&self.http, &inputs, Some(&self.connection), &self.log);
        self.manifest.actions[0].call(crate::action::Call { debug: true, ..call }).await
    }
}

const SESSION: &str = "{session: {request: POST /login, inputs: {team: body user.name, key: body password}, \
                       token: {body: data.token}, expires: data.seconds, send: {header: X-Session}}}";

#[tokio::test]
async fn a_session_logs_in_once_and_again_when_its_token_is_refused() {
    let double = Double::start(SESSION, |count, request| match count {
        0 | 3 => ok(&format!(r#"{{"data": {{"token": "t{count}-secret", "seconds": 60}}}}"#)),
        2 => testing::reply("401 Unauthorized", b""),
        _ if request.contains("secret") => ok("{}"),
        _ => testing::reply("400 Bad Request", b""),
    })
    .await;
    double.call().await.expect("logged in");
    double.call().await.expect("logged in again");
    let requests = double.server.requests();
    assert_eq!(requests.len(), 5, "a login, a call, a refused call, a login, the call");
    assert!(requests[0].starts_with("POST /v1/login "), "{}", requests[0]);
    let body = requests[0].split("\r\n\r\n").nth(1).expect("a body");
    assert_eq!(body, r#"{"user":{"name":"ann"},"password":"k-secret"}"#);
    for (index, token) in [(1, "t0-secret"), (2, "t0-secret"), (4, "t3-secret")] {
        assert!(requests[index].contains(&format!("x-session: {token}\r\n")), "{}", requests[index]);
        assert!(!requests[index].contains("authorization:"), "{}", requests[index]);
    }
    let logged = double.log.0.lock().expect("not poisoned").join("\n");
    assert!(!logged.contains("secret"), "{logged}");
}

#[tokio::test]
async fn a_session_lasts_as_the_answer_to_its_login_says() {
    for (answer, seconds) in [
        (r#"{"data": {"token": "t", "seconds": 60}}"#, Some(60)),
        (r#"{"data": {"token": "t", "seconds": "90"}}"#, Some(90)),
        (r#"{"data": {"token": 7, "seconds": "1970-01-01T00:02:00Z"}}"#, Some(120)),
        (r#"{"data": {"token": "t", "seconds": "1969-01-01T00:02:00Z"}}"#, None),
        (r#"{"data": {"token": "t"}}"#, None),
    ] {
        let double = Double::start(SESSION, move |_, _| ok(answer)).await;
        let client = double.connection.oauth().expect("a client");
        let tokens = client.client_credentials(&double.http).await.expect("a token");
        assert_eq!(tokens.expires_in.map(|lasts| lasts.as_secs()), seconds, "{answer}");
    }
}

#[tokio::test]
async fn a_refused_login_is_an_error_of_the_connection_without_its_credentials() {
    for (reply, kind, words) in [
        ("401 Unauthorized", ErrorKind::Connection, "401"),
        ("503 Service Unavailable", ErrorKind::Status, "503"),
        ("200 OK", ErrorKind::Connection, "no token under `data.token`"),
    ] {
        let double =
            Double::start(SESSION, move |_, _| testing::reply(reply, br#"{"got": "k-secret"}"#)).await;
        let error = double.call().await.expect_err("no token");
        assert_eq!((&error.kind, error.not_sent || reply.starts_with("200")), (&kind, true), "{error:?}");
        assert!(error.message.contains("`mine`") && error.message.contains(words), "{}", error.message);
        assert!(!format!("{error:?}").contains("k-secret"), "{error:?}");
    }
}

#[tokio::test]
async fn a_session_may_come_from_a_form_and_a_header() {
    let auth = "{session: {request: POST /login, encoding: form, inputs: {team: body user, key: header X-Pass}, token: {header: X-Token}}}";
    let double = Double::start(auth, |_, _| testing::reply("204 No Content\r\nx-token: abc", b"")).await;
    double.call().await.expect("logged in");
    let requests = double.server.requests();
    assert!(
        requests[0].contains("x-pass: k-secret\r\n") && requests[0].ends_with("\r\n\r\nuser=ann"),
        "{}",
        requests[0]
    );
    assert!(requests[1].contains("authorization: Bearer abc\r\n"), "{}", requests[1]);
}

#[test]
fn another_password_is_another_client() {
    let text = manifest_with("", SESSION, &get_one());
    let (manifest, errors) = read_text(&text);
    let manifest = manifest.unwrap_or_else(|| panic!("{errors}"));
    let identity = |key: &str| {
        let inputs: Map = [("key", key), ("team", "ann")].into_iter().collect();
        let connection = manifest.connections[0].resolve("mine", &inputs).expect("it resolves");
        connection.oauth().expect("a client").identity()
    };
    assert_eq!(identity("a"), identity("a"));
    assert_ne!(identity("a"), identity("b"));
    assert!(!identity("k-secret").contains("k-secret"));
}

#[test]
fn a_login_has_a_plain_path_a_secret_and_known_places() {
    for (auth, expected) in [
        (SESSION.replace("POST /login", "POST /login?a=1"), "and a plain path"),
        (SESSION.replace("POST /login", "'POST /{team}'"), "and a plain path"),
        (SESSION.replace(", key: body password", ""), "`team` is sent as a credential"),
        (SESSION.replace("body password", "query password"), "a login takes an input at"),
        (SESSION.replace("key: body", "kez: body"), "`kez` is not an input of this connection type"),
        (SESSION.replace("{body: data.token}", "{}"), "needs one of"),
    ] {
        let (_, errors) = read_text(&manifest_with("", &auth, &get_one()));
        assert!(errors.contains(expected), "{auth}\n{errors}");
    }
}
