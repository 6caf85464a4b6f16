use std::sync::Arc;

use ::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pretty_assertions::assert_eq;
use serde_json::json;
use value::{File, Map, Value};

use super::*;
use crate::connection::{Auth, Base, BaseUrl, ConnectionInput, ConnectionType, ResolvedConnection};
use crate::http::testing::{Lines, Server, context, http, local, reply};
use crate::http::{Body, HttpOptions, Part, Transport};

const SECRET: &str = "s3cret/töken+1";

/// Returns Basic credentials whose password is the secret.
fn connection(base: &str) -> ResolvedConnection {
    let input = |name: &str, secret| ConnectionInput {
        spec: model::InputSpec {
            name: name.to_owned(),
            kind: model::InputType::Text,
            required: true,
            default: None,
            description: None,
        },
        secret,
    };
    let kind = ConnectionType {
        name: "test.basic".to_owned(),
        title: "Test".to_owned(),
        description: None,
        inputs: vec![input("user", false), input("password", true)],
        base: Base::Fixed(BaseUrl::parse(base, None).expect("an address")),
        test: None,
        vocabulary: Vec::new(),
        request_id: None,
        headers: None,
        auth: Auth::Basic { user: vec!["user".to_owned()], password: vec!["password".to_owned()] },
    };
    let inputs: Map = [("user", "ada"), ("password", SECRET)].into_iter().collect();
    kind.resolve("main", &inputs).expect("it resolves")
}

async fn send(cassette: &Arc<Cassette>, request: &Request, base: &str) -> SendResult {
    let connection = connection(base);
    let lines = Lines::default();
    let context = RequestContext {
        connection: Some(&connection),
        idempotency_key: "execution.step",
        ..context(&lines)
    };
    let transport = Transport::Cassette(cassette.clone());
    http(HttpOptions { transport, ..local() }).send(request, &context).await
}

fn get(url: &str) -> Request {
    Request::new(Method::GET, Url::parse(url).expect("a URL"))
}

fn post(url: &str, body: serde_json::Value) -> Request {
    let mut request = Request::new(Method::POST, Url::parse(url).expect("a URL"));
    request.set_value(&Value::from_serde(body)).expect("a body");
    request
}

/// Records the responses of a server to these requests.
async fn record(server: &Server, requests: &[Request]) -> Recording {
    let cassette = Arc::new(Cassette::for_recording());
    for request in requests {
        send(&cassette, request, &server.url("")).await.expect("it answers");
    }
    let text = serde_json::to_string(&cassette.recording()).expect("JSON");
    serde_json::from_str(&text).expect("it reads back")
}

fn text(response: &Response) -> String {
    format!("{} {}", response.status.as_u16(), response.text())
}

#[tokio::test]
async fn recorded_exchanges_are_replayed_offline_once_each() {
    let server = Server::start(|count, _| {
        reply("200 OK\r\ncontent-type: text/plain", format!("answer {count}").as_bytes())
    })
    .await;
    let (base, request) = (server.url(""), get(&server.url("/a?x=1")));
    let recording = record(&server, &[request.clone(), request.clone(), get(&server.url("/b"))]).await;
    drop(server);
    let cassette = Arc::new(Cassette::for_replay(recording));
    // Identical requests are answered in the order of the recording, others in any order.
    let other = get(&format!("{base}/b"));
    for (request, expected) in
        [(&other, "200 answer 2"), (&request, "200 answer 0"), (&request, "200 answer 1")]
    {
        assert_eq!(text(&send(&cassette, request, &base).await.expect("it is recorded")), expected);
    }
    assert_eq!(cassette.unused_exchanges(), Vec::<String>::new());
    let error = send(&cassette, &request, &base).await.expect_err("it is used up");
    assert_eq!(error.message, format!("the recording has no answer to `GET {base}/a?x=1`"));
}

#[tokio::test]
async fn an_unrecorded_request_is_reported_with_its_differences() {
    let server = Server::start(|_, _| reply("200 OK", b"")).await;
    let base = server.url("");
    let recording =
        record(&server, &[post(&server.url("/pages"), json!({"title": "a", "ids": [1, 2], "old": 1}))]).await;
    let cassette = Arc::new(Cassette::for_replay(recording));
    let sent = post(&format!("{base}/pages?draft=1"), json!({"title": "b", "ids": [1, 3], "new": 1}));
    assert!(send(&cassette, &sent, &base).await.is_err());
    // A repeated request is reported once.
    assert!(send(&cassette, &sent, &base).await.is_err());
    let unrecorded = cassette.unmatched_requests();
    assert_eq!(unrecorded.len(), 1);
    assert_eq!(unrecorded[0].line, format!("POST {base}/pages?draft=1"));
    assert_eq!(
        unrecorded[0].differences,
        [
            format!("the address was recorded as {base}/pages"),
            "`body.title` was recorded as \"a\", and is \"b\"".to_owned(),
            "`body.ids[1]` was recorded as 2, and is 3".to_owned(),
            "`body.old` was recorded as 1, and is not there".to_owned(),
            "`body.new` is 1, and was not recorded".to_owned(),
        ]
    );
    assert_eq!(cassette.unused_exchanges(), [format!("POST {base}/pages")]);
    assert!(send(&cassette, &get(&format!("{base}/other")), &base).await.is_err());
    assert!(cassette.unmatched_requests()[1].differences.is_empty());
}

#[tokio::test]
async fn no_credential_is_recorded_in_any_encoding() {
    let leak = format!(
        r#"{{"access_token": "fresh-1", "echo": "{SECRET} again", "next": "{}"}}"#,
        STANDARD.encode(SECRET)
    );
    let head = "200 OK\r\ncontent-type: application/json\r\nset-cookie: session=fresh-2\r\nx-echo: s3cret%2Ft%C3%B6ken%2B1";
    let server = Server::start(move |_, _| reply(head, leak.as_bytes())).await;
    let mut form = Request::new(Method::POST, Url::parse(&server.url("/login")).expect("a URL"));
    form.set_form(&[
        ("user".to_owned(), Value::from("ada")),
        ("password".to_owned(), Value::from("fresh-3")),
        ("x".to_owned(), Value::from(SECRET)),
    ])
    .expect("a form");
    let mut parts = Request::new(Method::POST, Url::parse(&server.url("/form")).expect("a URL"));
    parts.body = Body::Multipart(vec![Part::from_value("note", &Value::from(SECRET)).expect("a part")]);
    let mut query = get(&server.url("/q"));
    query.add_query("note", &Value::from(SECRET));
    query.add_query("apiKey", &Value::from("fresh-4"));
    let body = post(&server.url("/json"), json!({"note": SECRET, "clientSecret": "fresh-5"}));
    let mut header = get(&server.url("/h"));
    header.set_header("x-api-key", &Value::from("fresh-6")).expect("a header");
    let recording = record(&server, &[form, parts, query, body, header]).await;
    let kept = serde_json::to_string_pretty(&recording).expect("JSON");
    for secret in
        [SECRET, "s3cret", "fresh", &STANDARD.encode(SECRET), &STANDARD.encode(format!("ada:{SECRET}"))]
    {
        assert!(!kept.contains(secret), "`{secret}` is in\n{kept}");
    }
    assert_eq!(kept.matches("\"authorization\": \"***\"").count(), 5, "{kept}");
    assert_eq!(recording.exchanges[2].request.url, server.url("/q?note=***&apiKey=***"));
    assert!(!kept.contains("idempotency-key"), "{kept}");
}

#[tokio::test]
async fn a_recording_is_replayed_with_other_credentials() {
    let server = Server::start(|_, _| reply("200 OK", b"welcome")).await;
    let base = server.url("");
    let note = |secret: &str| post(&format!("{base}/x"), json!({"note": format!("for {secret}")}));
    let recording = record(&server, &[note(SECRET)]).await;
    let cassette = Arc::new(Cassette::for_replay(recording));
    cassette.add_secret("another-secret");
    assert_eq!(
        text(&send(&cassette, &note("another-secret"), &base).await.expect("it is recorded")),
        "200 welcome"
    );
}

#[tokio::test]
async fn every_body_round_trips_through_a_recording() {
    let bodies: [(&str, &[u8]); 5] = [
        ("application/json; charset=utf-8", br#"{"id":9007199254740993,"title":"\u00f6"}"#),
        ("application/json", br#"{"sum": 1.10, "huge": 123456789012345678901234567890}"#),
        ("text/html", b"<p>\xc3\xb6</p>"),
        ("image/png", b"\x89PNG\r\n\x00\xff"),
        ("application/json", b"null"),
    ];
    let server = Server::start(move |count, _| {
        reply(
            &format!("201 Created\r\ncontent-type: {}\r\nx-a: 1\r\nx-a: 2", bodies[count].0),
            bodies[count].1,
        )
    })
    .await;
    let base = server.url("");
    let requests: Vec<Request> = (0..bodies.len()).map(|index| get(&format!("{base}/{index}"))).collect();
    let cassette = Arc::new(Cassette::for_replay(record(&server, &requests).await));
    for (request, (media_type, body)) in requests.iter().zip(bodies) {
        let response = send(&cassette, request, &base).await.expect("it is recorded");
        assert_eq!(response.header("content-type"), Some(media_type));
        assert_eq!(response.headers.get_all("x-a").iter().count(), 2);
        match (
            serde_json::from_slice::<serde_json::Value>(&response.body),
            serde_json::from_slice::<serde_json::Value>(body),
        ) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            _ => assert_eq!(response.body, body),
        }
    }
}

#[tokio::test]
async fn a_file_in_a_form_is_compared_by_its_content_not_by_the_boundary() {
    let server = Server::start(|_, _| reply("200 OK", b"")).await;
    let base = server.url("");
    let upload = |data: &'static [u8]| {
        let file = Arc::new(File {
            content_type: "image/png".into(),
            filename: Some("a.png".into()),
            data: data.into(),
        });
        let mut request = Request::new(Method::PUT, Url::parse(&format!("{base}/file")).expect("a URL"));
        request.body = Body::Multipart(vec![Part::file("file".to_owned(), &file, None)]);
        request
    };
    let cassette = Arc::new(Cassette::for_replay(record(&server, &[upload(b"\x89PNG")]).await));
    assert!(send(&cassette, &upload(b"\x89PNX"), &base).await.is_err());
    assert!(send(&cassette, &upload(b"\x89PNG"), &base).await.is_ok());
}

#[tokio::test]
async fn a_disabled_transport_rejects_every_request() {
    let request = get("http://127.0.0.1:1/");
    let lines = Lines::default();
    let sent = http(HttpOptions { transport: Transport::Disabled, ..local() })
        .send(&request, &context(&lines))
        .await;
    let error = sent.expect_err("nothing goes out");
    assert_eq!(
        (error.kind.clone(), error.message.as_str()),
        (ErrorKind::Blocked, "the other is not called: outgoing requests are disabled here")
    );
}

#[tokio::test]
async fn a_recording_is_bounded_in_exchanges() {
    let server = Server::start(|_, _| reply("200 OK", b"")).await;
    let cassette = Arc::new(Cassette::for_recording());
    let request = get(&server.url("/a"));
    send(&cassette, &request, &server.url("")).await.expect("it answers");
    let exchange = cassette.state().exchanges[0].clone();
    cassette.state().exchanges.resize(MAX_EXCHANGES - 1, exchange);
    for expected in [MAX_EXCHANGES, MAX_EXCHANGES] {
        send(&cassette, &request, &server.url("")).await.expect("it answers");
        assert_eq!(cassette.recording().exchanges.len(), expected);
    }
}

#[test]
fn a_call_without_http_is_replayed_once_without_secrets_and_with_the_begin_of_its_files() {
    let file = |size: usize| File {
        content_type: "application/octet-stream".into(),
        filename: None,
        data: vec![b'x'; size].into(),
    };
    let secret = "canary-77ab";
    let inputs: Map =
        [("sql", Value::from("select 1")), ("file", Value::from(file(3)))].into_iter().collect();
    let made = |inputs| MadeCall { action: "sql.query", inputs };
    let recorder = Cassette::for_recording();
    recorder.add_secret(secret);
    let result: Map =
        [("name", Value::from(secret)), ("file", Value::from(file(100_000)))].into_iter().collect();
    recorder.record_call(&made(&inputs), &Ok(Value::from(result)));
    let refused = ActionError::new(ErrorKind::Response, format!("{secret} refused")).with_code("23505");
    recorder.record_call(&made(&inputs), &Err(refused));
    let no_login = ActionError::new(ErrorKind::Connection, "the login is refused".to_owned());
    recorder.record_call(&made(&inputs), &Err(no_login));
    let text = serde_json::to_string(&recorder.recording()).expect("JSON");
    assert!(!text.contains(secret), "{text}");
    let cassette = Cassette::for_replay(serde_json::from_str(&text).expect("it reads back"));
    let first = cassette.replay_call(&made(&inputs)).expect("it is recorded");
    assert_eq!(first.get("name"), Some("***".into()));
    assert_eq!(first.path("file.size"), Some((64 << 10).into()));
    let second = cassette.replay_call(&made(&inputs)).expect_err("it failed");
    assert_eq!((second.message.as_str(), second.code.as_deref()), ("*** refused", Some("23505")));
    assert_eq!(cassette.unused_exchanges(), Vec::<String>::new());
    let other: Map = [("sql", Value::from("select 2"))].into_iter().collect();
    let error = cassette.replay_call(&made(&other)).expect_err("it is used up");
    assert_eq!(error.message, "the recording has no answer to this call of `sql.query`");
    assert_eq!(cassette.unmatched_requests().len(), 1);
}

#[test]
fn a_secret_that_is_known_late_is_removed_from_earlier_entries_too() {
    let cassette = Cassette::for_recording();
    let inputs = Map::from_iter([("key", Value::from("new-canary"))]);
    let made = MadeCall { action: "box.rotate", inputs: &inputs };
    cassette.record_call(&made, &Ok(Value::from("it is new-canary now")));
    cassette.add_secret("new-canary");
    let recording = serde_json::to_string(&cassette.recording()).expect("JSON");
    assert!(recording.contains("it is *** now") && !recording.contains("canary"), "{recording}");
}
