//! Tests of the native actions in the registry, against a server of raw bytes.

mod bodies_and_pages;
mod retries;

use std::sync::Arc;
use std::time::Duration;

use model::{ActionError, Effect, ErrorKind};
use pretty_assertions::assert_eq;
use value::{File, JsonLimits, Map, Value};

use crate::connection::ResolvedConnection;
use crate::http::HttpOptions;
use crate::http::testing::{self, Lines, Server, ServerReply, Waits, local, reply};
use crate::input::check_inputs;
use crate::registry::Registry;

fn builtin() -> Registry {
    match Registry::builtin() {
        Ok(registry) => registry,
        Err(reports) => panic!("{}", reports.iter().map(|report| report.render(false)).collect::<String>()),
    }
}

fn map(json: &str) -> Map {
    let value = Value::from_json(json.as_bytes(), JsonLimits::default()).expect("JSON");
    value.as_map().expect("a map").clone()
}

fn connection(kind: &str, inputs: &str) -> ResolvedConnection {
    let registry = builtin();
    registry.connection_type(kind).expect("a type").resolve("main", &map(inputs)).expect("it resolves")
}

fn wiki(server: &Server) -> ResolvedConnection {
    connection(
        "wiki.basic",
        &format!(r#"{{"email": "a@b.c", "apiToken": "secret-token", "host": "{}"}}"#, server.url("/wiki/")),
    )
}

/// Calls an action, and returns its result, the waits between attempts and the log lines.
async fn call_with(
    options: HttpOptions,
    action: &str,
    inputs: Map,
    connection: Option<&ResolvedConnection>,
    debug: bool,
) -> (Result<Value, ActionError>, Vec<Duration>, Vec<String>) {
    let registry = builtin();
    let action = registry.action(action).expect("an action");
    let waits = Arc::new(Waits::default());
    let http = testing::http(HttpOptions { timer: waits.clone(), ..options });
    let lines = Lines::default();
    let result = match check_inputs(action.spec(), &inputs, &value::Reserved::nothing()) {
        Ok(inputs) => {
            let mut call = testing::call(&http, &inputs, connection, &lines);
            call.debug = debug;
            action.call(call).await
        }
        Err(error) => Err(error),
    };
    let waits = waits.0.lock().expect("not poisoned").clone();
    (result, waits, lines.0.into_inner().expect("not poisoned"))
}

async fn call(
    action: &str,
    inputs: &str,
    connection: Option<&ResolvedConnection>,
) -> Result<Value, ActionError> {
    call_with(local(), action, map(inputs), connection, false).await.0
}

const JSON: &str = "200 OK\r\ncontent-type: application/json";

#[tokio::test]
async fn a_raw_request_goes_to_its_path_with_its_inputs() {
    let server =
        Server::start(|_, _| reply(&format!("{JSON}\r\nx-a: 1"), b"{\"id\": 9007199254740993}")).await;
    let inputs = r#"{"url": "/wiki/api/v2/pages?cursor=a%3D&limit=5", "method": "PATCH", "data": {"a": [1]},
        "queryParameters": {"limit": 7, "status": ["x", "y"]}, "headers": {"X-B": "2"}}"#;
    let result = call("wiki.rawRequest", inputs, Some(&wiki(&server))).await.expect("an answer");
    assert_eq!(result.path("statusCode"), Some(Value::from(200_i64)));
    assert_eq!(result.path("headers.x-a"), Some(Value::from("1")));
    assert_eq!(result.path("body").map(|body| body.to_json()).as_deref(), Some(r#"{"id":9007199254740993}"#));
    let request = &server.requests()[0];
    assert!(
        request.starts_with("PATCH /wiki/api/v2/pages?cursor=a%3D&limit=7&status=x&status=y HTTP/1.1"),
        "{request}"
    );
    assert!(
        request.contains("x-b: 2")
            && request.contains("authorization: Basic ")
            && request.ends_with("{\"a\":[1]}")
    );
}

#[tokio::test]
async fn a_raw_request_never_leaves_the_base_url_of_its_connection() {
    let server = Server::start(|_, _| reply(JSON, b"{}")).await;
    let wiki = wiki(&server);
    for url in [
        "https://evil.example/",
        "//evil.example/",
        "/\\\\evil.example",
        "/@evil.example/",
        "wiki/x",
        "/../x",
        "",
    ] {
        let inputs = format!(r#"{{"url": "{url}", "method": "GET"}}"#);
        let error = call("wiki.rawRequest", &inputs, Some(&wiki)).await.expect_err(url);
        assert_eq!(error.kind, ErrorKind::Input, "{url}: {}", error.message);
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn credentials_come_only_from_the_connection() {
    let server = Server::start(|_, _| reply(JSON, b"{}")).await;
    let inputs = r#"{"url": "/x", "method": "GET", "headers": {"AUTHORIZATION": "Basic mine"}}"#;
    let error = call("wiki.rawRequest", inputs, Some(&wiki(&server))).await.expect_err("refused");
    assert_eq!(error.message, "the header `authorization` comes from the connection `main`; leave it out");
    let error =
        call("wiki.rawRequest", r#"{"url": "/x", "method": "GET"}"#, None).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Connection);
    assert_eq!(
        error.message,
        "`wiki.rawRequest` needs a connection; name one of type wiki.basic or wiki.oauth with `connection:`"
    );
    let other = connection("http.bearer", r#"{"baseUrl": "http://127.0.0.1", "token": "t"}"#);
    let error = call("wiki.getPage", r#"{"pageId": "1"}"#, Some(&other)).await.expect_err("refused");
    assert!(
        error.message.contains("is of type `http.bearer`, which `wiki.getPage` does not accept"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_raw_request_sends_a_form_with_files() {
    let server = Server::start(|_, _| reply(JSON, b"{}")).await;
    let mut inputs = map(r#"{"url": "/x", "method": "POST", "formData": {"comment": "hi"},
        "fileDataFileNames": {"file": "named.png"}, "headers": {"Content-Type": "text/plain"}}"#);
    let file = |name: &str| {
        Value::from(File {
            content_type: "image/png".into(),
            filename: Some(name.into()),
            data: vec![1, 2].into(),
        })
    };
    let files: Map = [("file", file("own.png")), ("other", file("other.png"))].into_iter().collect();
    inputs.insert("fileData", files);
    call_with(local(), "wiki.rawRequest", inputs, Some(&wiki(&server)), false).await.0.expect("an answer");
    let request = &server.requests()[0];
    assert!(request.contains("content-type: multipart/form-data; boundary=cogwork-"), "{request}");
    assert_eq!(request.matches("content-type: ").count(), 1, "{request}");
    for part in [
        "name=\"comment\"\r\n\r\nhi",
        "name=\"file\"; filename=\"named.png\"\r\nContent-Type: image/png",
        "filename=\"other.png\"",
    ] {
        assert!(request.contains(part), "{part} in {request}");
    }
}

#[tokio::test]
async fn contradicting_inputs_are_refused_before_sending() {
    let server = Server::start(|_, _| reply(JSON, b"{}")).await;
    let wiki = wiki(&server);
    for (inputs, words) in [
        (r#""data": "x", "formData": {"a": 1}"#, "`data` cannot be given together"),
        (r#""fileData": {"a": "x"}, "fileDataFileNames": {"b": "x"}"#, "`fileDataFileNames.b` names a file"),
        (r#""timeout": 900001"#, "at most 15m"),
        (r#""timeout": 0"#, "must be over 0s"),
        (r#""timeout": "16m""#, "at most 15m"),
        (r#""maxRetryCount": -1"#, "`maxRetryCount` must be"),
        (r#""responseType": "xml""#, "`responseType` must be one of json, text, binary"),
    ] {
        let inputs = format!(r#"{{"url": "/x", "method": "POST", {inputs}}}"#);
        let error = call("wiki.rawRequest", &inputs, Some(&wiki)).await.expect_err(words);
        assert!(error.kind == ErrorKind::Input && error.message.contains(words), "{}", error.message);
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_timeout_of_a_raw_request_without_a_unit_is_in_milliseconds() {
    let silent = Server::start(|_, _| ServerReply::Stall(Vec::new())).await;
    let wiki = wiki(&silent);
    for (timeout, shown) in [("30", "30ms"), (r#""40""#, "40ms"), (r#""50ms""#, "50ms")] {
        let inputs = format!(r#"{{"url": "/x", "method": "GET", "timeout": {timeout}}}"#);
        let error = call("wiki.rawRequest", &inputs, Some(&wiki)).await.expect_err("no answer");
        assert_eq!(error.kind, ErrorKind::Timeout);
        assert!(error.message.ends_with(&format!("did not answer within {shown}")), "{}", error.message);
    }
    let inputs = format!(r#"{{"url": "{}", "timeout": 5000}}"#, silent.url("/"));
    let error = call("http.request", &inputs, None).await.expect_err("no unit");
    assert!(error.message.contains("`5000` has no unit"), "{}", error.message);
}

#[tokio::test]
async fn the_response_type_decides_how_the_body_is_decoded() {
    let server = Server::start(|_, _| reply("200 OK\r\ncontent-type: image/png", b"\x89PNG")).await;
    let wiki = wiki(&server);
    let read = async |response_type: &str| {
        let inputs = format!(r#"{{"url": "/x", "method": "GET", "responseType": "{response_type}"}}"#);
        call("wiki.rawRequest", &inputs, Some(&wiki)).await
    };
    assert_eq!(read("binary").await.expect("a file").path("body").map(|body| body.kind()), Some("file"));
    assert_eq!(read("text").await.expect("text").path("body").map(|body| body.kind()), Some("text"));
    let error = read("json").await.expect_err("no JSON");
    assert_eq!(error.kind, ErrorKind::Response);
    assert!(error.message.starts_with("the wiki answered 200 with something else"), "{}", error.message);
}

/// Returns the waits of a raw request for these response statuses, its outcome and the number of requests.
async fn retried(statuses: &'static [&'static str], inputs: &str) -> (Vec<u128>, String, usize) {
    let server = Server::start(move |count, _| match statuses.get(count) {
        Some(&"reset") => ServerReply::Bytes(Vec::new()),
        Some(status) => reply(status, b""),
        None => reply(JSON, b"{}"),
    })
    .await;
    let inputs = map(&format!(r#"{{"url": "/x", "method": "POST", {inputs}}}"#));
    let (result, waits, lines) =
        call_with(local(), "wiki.rawRequest", inputs, Some(&wiki(&server)), false).await;
    assert_eq!(lines.len(), waits.len(), "each retry is told: {lines:?}");
    let end = result.map_or_else(|error| error.into_message(), |_| "done".to_owned());
    let keys: Vec<_> =
        server.requests().iter().map(|request| request.contains("idempotency-key: execution.step")).collect();
    assert!(keys.iter().all(|same| *same), "every try carries the same key");
    (waits.iter().map(Duration::as_millis).collect(), end, server.requests().len())
}

#[tokio::test]
async fn a_raw_request_retries_as_its_inputs_say() {
    let done = |waits: &[u128], tries| (waits.to_vec(), "done".to_owned(), tries);
    assert_eq!(
        retried(&["500 x", "reset"], r#""maxRetryCount": 2, "retryDelayMs": 7"#).await,
        done(&[7, 7], 3)
    );
    assert_eq!(
        retried(&["500 x"], r#""maxRetryCount": 0"#).await,
        (vec![], "the wiki answered 500 Internal Server Error".to_owned(), 1)
    );
    let (waits, end, tries) = retried(&["503 x", "503 x", "503 x"], r#""maxRetryCount": 2"#).await;
    assert_eq!((waits, tries), (vec![0, 0], 3));
    assert_eq!(end, "the wiki answered 503 Service Unavailable (3 tries)");
    let (waits, end, tries) = retried(&["429 x", "404 x"], r#""maxRetryCount": 5"#).await;
    assert_eq!((waits, end.as_str(), tries), (vec![], "the wiki answered 429 Too Many Requests", 1));
    let all = r#""maxRetryCount": 5, "retryOnAllErrors": true"#;
    assert_eq!(retried(&["429 x\r\nretry-after: 3", "302 x", "404 x"], all).await, done(&[3000, 0, 0], 4));
    let (waits, _, _) = retried(
        &["500 x", "500 x"],
        r#""maxRetryCount": 2, "useExponentialBackoff": true, "retryDelayMs": 9999"#,
    )
    .await;
    assert!((200..=240).contains(&waits[0]) && (400..=480).contains(&waits[1]), "{waits:?}");
}

#[tokio::test]
async fn graphql_returns_data_or_an_error() {
    let server = Server::start(|_, request| {
        if request.contains("good") {
            reply(JSON, br#"{"data": {"x": 1}}"#)
        } else if request.contains("status") {
            reply("403 Forbidden", br#"{"message": "no"}"#)
        } else {
            reply(JSON, br#"{"data": {"x": 1}, "errors": [{"message": "first", "extensions": {"code": "BAD"}}, {"message": "second"}]}"#)
        }
    })
    .await;
    let wiki = wiki(&server);
    let result = call(
        "wiki.rawGraphqlRequest",
        r#"{"query": "{ good }", "variables": {"a": 1}, "headers": {"X-Opt-In": "yes"}}"#,
        Some(&wiki),
    )
    .await;
    assert_eq!(result.expect("data").to_json(), r#"{"x":1}"#);
    let request = &server.requests()[0];
    assert!(
        request.starts_with("POST /gateway/api/graphql ") && request.contains("x-opt-in: yes"),
        "{request}"
    );
    assert!(request.ends_with(r#"{"query":"{ good }","variables":{"a":1}}"#), "{request}");
    let error =
        call("wiki.rawGraphqlRequest", r#"{"query": "{ bad }"}"#, Some(&wiki)).await.expect_err("errors");
    assert_eq!(
        (error.kind.clone(), error.code.as_deref(), error.status),
        (ErrorKind::Response, Some("BAD"), Some(200))
    );
    assert_eq!(error.message, "the wiki answered with GraphQL errors: first; second");
    let error =
        call("wiki.rawGraphqlRequest", r#"{"query": "{ status }"}"#, Some(&wiki)).await.expect_err("403");
    assert_eq!(error.message, "the wiki answered 403 Forbidden: no");
}

#[tokio::test]
async fn debugged_graphql_requests_show_credentials_only_when_allowed() {
    let server = Server::start(|_, _| reply(JSON, br#"{"data": null}"#)).await;
    let wiki = wiki(&server);
    let shown = async |action: &str, inputs: &str, allow_credential_debug| {
        let options = HttpOptions { allow_credential_debug, ..local() };
        call_with(options, action, map(inputs), Some(&wiki), true).await.2.join("\n")
    };
    let query = r#"{"query": "{ x }"}"#;
    let masked = shown("wiki.rawGraphqlRequest", query, false).await;
    assert!(masked.contains("authorization: ***") && masked.contains(r#"{"data": null}"#), "{masked}");
    assert!(shown("wiki.rawGraphqlRequest", query, true).await.contains("authorization: Basic "));
    let raw = shown("wiki.rawRequest", r#"{"url": "/x", "method": "GET"}"#, true).await;
    assert!(raw.contains("authorization: ***"), "{raw}");
}

#[tokio::test]
async fn an_http_request_decodes_the_response_or_its_error() {
    let server = Server::start(|_, request| match () {
        () if request.starts_with("GET /json?q=a%20b&n=1&n=2 ") => reply(JSON, b"[1]"),
        () if request.starts_with("POST /form ") => reply(
            "200 OK\r\ncontent-type: text/plain",
            request.rsplit("\r\n").next().unwrap_or_default().as_bytes(),
        ),
        () => reply(
            "404 Not Found\r\nx-request-id: r-1",
            br#"{"error": {"code": "gone", "message": "no such thing"}}"#,
        ),
    })
    .await;
    let url = |path: &str| server.url(path);
    let inputs = format!(r#"{{"url": "{}", "query": {{"q": "a b", "n": [1, 2]}}}}"#, url("/json#part"));
    let result = call("http.request", &inputs, None).await.expect("an answer");
    assert_eq!(result.path("body").map(|body| body.to_json()).as_deref(), Some("[1]"));
    let inputs = format!(
        r#"{{"url": "{}", "method": "POST", "form": {{"a": "1 2", "b": ["x", "y"]}}}}"#,
        url("/form")
    );
    let result = call("http.request", &inputs, None).await.expect("an answer");
    assert_eq!(result.path("body"), Some(Value::from("a=1%202&b=x&b=y")));
    let error =
        call("http.request", &format!(r#"{{"url": "{}"}}"#, url("/none")), None).await.expect_err("404");
    assert_eq!(error.message, "`127.0.0.1` answered 404 gone: no such thing");
    assert_eq!((error.status, error.request_id.as_deref()), (Some(404), Some("r-1")));
}

#[tokio::test]
async fn an_action_named_after_a_method_sends_that_method_with_the_headers_of_its_connection() {
    let server = Server::start(|_, _| reply(JSON, b"{}")).await;
    let inputs = format!(
        r#"{{"baseUrl": "{}", "headers": {{"accept-language": "de", "x-team": "billing"}}}}"#,
        server.url("/v1")
    );
    let open = connection("http.open", &inputs);
    for (verb, method) in super::http_request::VERBS {
        let action = format!("http.{verb}");
        call(&action, r#"{"url": "/items"}"#, Some(&open)).await.expect("an answer");
        let request = server.requests().pop().expect("a request");
        assert!(request.starts_with(&format!("{method} /v1/items ")), "{request}");
        assert!(request.contains("accept-language: de") && request.contains("x-team: billing"), "{request}");
        let chosen = call(&action, r#"{"url": "/items", "method": "GET"}"#, Some(&open)).await;
        assert_eq!(chosen.expect_err("it has no such input").kind, ErrorKind::Input);
        let own = r#"{"url": "/items", "headers": {"x-team": "mine"}}"#;
        let error = call(&action, own, Some(&open)).await.expect_err("the connection sets it");
        assert!(error.message.contains("comes from the connection"), "{}", error.message);
    }
}

#[tokio::test]
async fn an_http_connection_is_bound_to_its_base_url() {
    let server = Server::start(|_, _| reply(JSON, b"{}")).await;
    let base = server.url("/v1");
    let header =
        connection("http.header", &format!(r#"{{"baseUrl": "{base}", "name": "X-Api-Key", "value": "k"}}"#));
    let call_url =
        async |url: &str| call("http.request", &format!(r#"{{"url": "{url}"}}"#), Some(&header)).await;
    call_url("/items").await.expect("a path below the address");
    call_url(&format!("{base}/items?x=1")).await.expect("an address below the address");
    for request in server.requests() {
        assert!(request.starts_with("GET /v1/items") && request.contains("x-api-key: k"), "{request}");
    }
    for url in [
        server.url("/v2/items"),
        "http://127.0.0.1:1/v1/items".to_owned(),
        "/../v2".to_owned(),
        "items".to_owned(),
    ] {
        assert_eq!(call_url(&url).await.expect_err(&url).kind, ErrorKind::Input, "{url}");
    }
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn bearer_and_basic_connections_send_their_credentials() {
    let server = Server::start(|_, _| reply(JSON, b"{}")).await;
    let base = server.url("");
    let bearer = connection("http.bearer", &format!(r#"{{"baseUrl": "{base}", "token": "t"}}"#));
    let basic =
        connection("http.basic", &format!(r#"{{"baseUrl": "{base}", "username": "u", "password": "p"}}"#));
    for connection in [&bearer, &basic] {
        call("http.request", r#"{"url": "/"}"#, Some(connection)).await.expect("an answer");
    }
    assert!(server.requests()[0].contains("authorization: Bearer t"));
    assert!(server.requests()[1].contains("authorization: Basic dTpw"));
}

#[tokio::test]
async fn log_actions_write_one_line_of_their_level() {
    let (result, _, lines) =
        call_with(local(), "log.warn", map(r#"{"message": "low stock", "data": {"left": 3}}"#), None, false)
            .await;
    assert_eq!(result.expect("it logs"), Value::Null);
    assert_eq!(lines, [r#"Warn low stock {"left":3}"#]);
    let (_, _, lines) = call_with(local(), "log.info", map(r#"{"message": 5}"#), None, false).await;
    assert_eq!(lines, ["Info 5"]);
}

#[tokio::test]
async fn text_split_uses_its_default_separator() {
    let result = call("text.split", r#"{"text": "a/b/c"}"#, None).await.expect("pieces");
    assert_eq!(result.to_json(), r#"["a","b","c"]"#);
    let error =
        call("text.split", r#"{"text": "a", "separator": ""}"#, None).await.expect_err("no separator");
    assert_eq!(error.message, "`separator` must not be empty");
}

#[test]
fn a_request_is_a_read_only_if_its_method_is_known_to_be_safe() {
    let effect = |action: &str, method: Option<&Value>| {
        let registry = builtin();
        let action = registry.action(action).expect("there is one");
        action.effect(&|name| if name == "method" { method } else { None })
    };
    let (get, delete) = (Value::from("GET"), Value::from("DELETE"));
    for action in ["http.request", "wiki.rawRequest"] {
        assert_eq!(effect(action, Some(&get)), Effect::Read, "{action}");
        assert_eq!(effect(action, Some(&delete)), Effect::Write, "{action}");
        assert_eq!(effect(action, None), Effect::Write, "{action}: it may turn out to be any");
    }
}
