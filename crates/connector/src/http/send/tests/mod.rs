mod memory;
mod redirects;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pretty_assertions::assert_eq;
use value::{File, Map, Value};

use super::*;
use crate::connection::{Auth, Base, BaseUrl, ConnectionInput, ConnectionType, ResolvedConnection};
use crate::http::testing::{Lines, Names, Server, ServerReply, Waits, context, http, local, reply};
use crate::http::{AllowList, Content, GATE_CHECK, Gate, HttpOptions, LogDetail, Timer as _};
use crate::trace::Trace;

/// 64 KiB of zeros, gzipped to 99 bytes.
const ZEROS: &str = "H4sIAAAAAAACA+3BAQEAAACAkP6v7ggKAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAauuOl9cAAAEA";

/// The `traceparent` of each call.
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn request(method: Method, url: &str) -> Request {
    Request::new(method, Url::parse(url).expect("a URL"))
}

async fn send_with(
    options: HttpOptions,
    request: &Request,
    connection: Option<&ResolvedConnection>,
) -> SendResult {
    let trace = Trace { depth: 2, parent: Some(PARENT.to_owned()), ..Trace::new("chain") };
    let lines = Lines::default();
    let context = RequestContext {
        connection,
        idempotency_key: "execution.step",
        trace: Some(&trace),
        ..context(&lines)
    };
    http(options).send(request, &context).await
}

async fn send(options: HttpOptions, request: &Request) -> SendResult {
    send_with(options, request, None).await
}

#[track_caller]
fn check(sent: SendResult, kind: ErrorKind, words: &str) {
    let error = sent.expect_err("an error");
    assert_eq!(error.kind, kind, "{}", error.message);
    assert!(error.message.contains(words), "{}", error.message);
}

/// Returns bearer credentials bound to a server.
fn connection(server: &Server) -> ResolvedConnection {
    connection_below(server, "")
}

/// Returns bearer credentials bound to a path of a server.
fn connection_below(server: &Server, path: &str) -> ResolvedConnection {
    let input = model::InputSpec {
        name: "token".to_owned(),
        kind: model::InputType::Text,
        required: true,
        default: None,
        description: None,
    };
    let kind = ConnectionType {
        name: "test.bearer".to_owned(),
        title: "Test".to_owned(),
        description: None,
        inputs: vec![ConnectionInput { spec: input, secret: true }],
        base: Base::Fixed(BaseUrl::parse(&server.url(path), None).expect("an address")),
        test: None,
        vocabulary: Vec::new(),
        request_id: None,
        headers: None,
        auth: Auth::Bearer { token: vec!["token".to_owned()] },
    };
    let inputs: Map = [("token", "secret-token")].into_iter().collect();
    kind.resolve("main", &inputs).expect("it resolves")
}

#[tokio::test]
async fn private_addresses_are_blocked_unless_allowed() {
    let server = Server::start(|_, _| reply("200 OK", b"")).await;
    let request = request(Method::GET, &server.url("/"));
    check(send(HttpOptions::default(), &request).await, ErrorKind::Blocked, "outbound.allow");
    assert_eq!(server.requests().len(), 0);
    assert!(send(local(), &request).await.is_ok());
}

#[tokio::test]
async fn a_name_is_checked_by_all_its_addresses() {
    let server = Server::start(|_, _| reply("200 OK", b"")).await;
    let port = server.address.port();
    let names = |allow: &'static str| {
        let addresses = [
            ("wiki.test", vec!["127.0.0.1"]),
            ("mixed.test", vec!["8.8.8.8", "127.0.0.2"]),
            ("metadata.test", vec!["169.254.169.254"]),
            ("none.test", vec![]),
        ];
        let addresses = addresses.into_iter().map(|(name, addresses)| {
            (name, addresses.into_iter().map(|text| text.parse().expect("an address")).collect())
        });
        let allow = AllowList::parse([allow]).expect("an entry");
        HttpOptions { allow, lookup: Arc::new(Names(addresses.collect::<HashMap<_, _>>())), ..local() }
    };
    for name in ["wiki.test", "mixed.test", "metadata.test"] {
        let request = request(Method::GET, &format!("http://{name}:{port}/"));
        check(
            send(names("10.0.0.0/8"), &request).await,
            ErrorKind::Blocked,
            &format!("`{name}` may not be called"),
        );
    }
    check(
        send(names("127.0.0.1"), &request(Method::GET, "http://mixed.test/")).await,
        ErrorKind::Blocked,
        "127.0.0.2",
    );
    check(
        send(names("127.0.0.1"), &request(Method::GET, "http://none.test/")).await,
        ErrorKind::Network,
        "no address",
    );
    check(
        send(names("127.0.0.1"), &request(Method::GET, "http://x.test/")).await,
        ErrorKind::Network,
        "no such name",
    );
    assert_eq!(server.requests().len(), 0);
    // If the name or the address is allowed, the checked address is called, under the name.
    for allow in ["wiki.test", "127.0.0.1"] {
        let request = request(Method::GET, &format!("http://wiki.test:{port}/"));
        assert!(send(names(allow), &request).await.is_ok());
    }
    assert!(server.requests()[0].contains(&format!("host: wiki.test:{port}")), "{}", server.requests()[0]);
}

#[tokio::test]
async fn own_listeners_are_never_called() {
    let server = Server::start(|_, _| reply("200 OK", b"")).await;
    let lookup = Arc::new(Names([("own.test", vec![server.address.ip()])].into()));
    let options = HttpOptions { blocked_own: vec![server.address], lookup, ..local() };
    for url in [server.url("/"), format!("http://own.test:{}/", server.address.port())] {
        check(
            send(options.clone(), &request(Method::GET, &url)).await,
            ErrorKind::Blocked,
            "an address of this daemon",
        );
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn the_server_of_the_store_is_never_called_wherever_its_name_leads_now() {
    let server = Server::start(|_, _| reply("200 OK", b"")).await;
    let (port, address) = (server.address.port(), server.address.ip());
    let elsewhere = "127.0.0.2".parse().expect("an address");
    // At the start the name led elsewhere, and another one cannot be resolved at all.
    let names = Names(
        [("db.test", vec![address]), ("own.test", vec![address]), ("old.test", vec![elsewhere])].into(),
    );
    let blocked_servers = vec![("gone.test".to_owned(), port), ("DB.test.".to_owned(), port)];
    let options = HttpOptions { blocked_servers, lookup: Arc::new(names), ..local() };
    for url in ["db.test", "own.test", "gone.test", "127.0.0.1"] {
        let url = format!("http://{url}:{port}/");
        let (kind, words) = match url.contains("gone") {
            true => (ErrorKind::Network, "no such name"),
            false => (ErrorKind::Blocked, "the server of its store"),
        };
        check(send(options.clone(), &request(Method::GET, &url)).await, kind, words);
    }
    assert_eq!(server.requests().len(), 0);
    let other = Server::start(|_, _| reply("200 OK", b"")).await;
    assert!(send(options, &request(Method::GET, &other.url("/"))).await.is_ok(), "only its port is closed");
}

#[tokio::test]
async fn every_redirect_target_is_checked() {
    for (location, kind) in [
        ("http://10.0.0.1/", ErrorKind::Blocked),
        ("http://169.254.169.254/latest/", ErrorKind::Blocked),
        ("file:///etc/passwd", ErrorKind::Input),
        ("http://a:b@127.0.0.1/", ErrorKind::Input),
    ] {
        let server =
            Server::start(move |_, _| reply(&format!("302 Found\r\nlocation: {location}"), b"")).await;
        check(send(local(), &request(Method::GET, &server.url("/"))).await, kind, "");
    }
}

#[tokio::test]
async fn redirects_are_limited_and_writes_do_not_follow_them() {
    let server = Server::start(|_, _| reply("302 Found\r\nlocation: /again", b"")).await;
    check(
        send(local(), &request(Method::GET, &server.url("/"))).await,
        ErrorKind::Response,
        "more than 5 times",
    );
    assert_eq!(server.requests().len(), 6);
    let response = send(local(), &request(Method::POST, &server.url("/"))).await.expect("an answer");
    assert_eq!(response.status.as_u16(), 302);
    assert_eq!(server.requests().len(), 7);
}

#[tokio::test]
async fn a_response_over_the_size_limit_is_not_read() {
    let options = || HttpOptions { max_response: 1024, ..local() };
    let exact = Server::start(|_, _| reply("200 OK", &[b'a'; 1024])).await;
    let response = send(options(), &request(Method::GET, &exact.url("/"))).await.expect("an answer");
    assert_eq!(response.body.len(), 1024);
    let announced = Server::start(|_, _| reply("200 OK", &[b'a'; 1025])).await;
    check(
        send(options(), &request(Method::GET, &announced.url("/"))).await,
        ErrorKind::Limit,
        "larger than 1KiB",
    );
    let endless = Server::start(|_, _| {
        let mut bytes = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec();
        bytes.extend_from_slice(&[b'a'; 4096]);
        ServerReply::Bytes(bytes)
    })
    .await;
    check(
        send(options(), &request(Method::GET, &endless.url("/"))).await,
        ErrorKind::Limit,
        "larger than 1KiB",
    );
}

#[tokio::test]
async fn a_response_is_limited_to_ten_mebibytes() {
    for (bytes, fits) in [(10 << 20, true), ((10 << 20) + 1, false)] {
        let server = Server::start(move |_, _| reply("200 OK", &vec![b'a'; bytes])).await;
        let sent = send(local(), &request(Method::GET, &server.url("/"))).await;
        if fits {
            assert_eq!(sent.expect("an answer").body.len(), bytes);
        } else {
            check(sent, ErrorKind::Limit, "larger than 10MiB");
        }
    }
}

#[tokio::test]
async fn decompressed_bytes_count_towards_the_size_limit() {
    let server = Server::start(|_, _| {
        reply("200 OK\r\ncontent-encoding: gzip", &STANDARD.decode(ZEROS).expect("base64"))
    })
    .await;
    let request = request(Method::GET, &server.url("/"));
    let response = send(local(), &request).await.expect("an answer");
    assert_eq!(response.body.len(), 65536);
    let options = HttpOptions { max_response: 65535, ..local() };
    check(send(options, &request).await, ErrorKind::Limit, "larger than");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, bytes).expect("written");
    encoder.finish().expect("written")
}

#[tokio::test]
async fn all_members_of_a_gzip_body_are_read() {
    let whole = [gzip(b"id\n1\n"), gzip(b""), gzip(b"2\n3\n")].concat();
    for most in [1, 7, whole.len()] {
        let whole = whole.clone();
        let server = Server::start(move |_, _| {
            let pieces = whole
                .chunks(most)
                .flat_map(|piece| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
            let mut bytes =
                b"HTTP/1.1 200 OK\r\ncontent-encoding: GZIP\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
            bytes.extend(pieces);
            bytes.extend_from_slice(b"0\r\n\r\n");
            ServerReply::Bytes(bytes)
        })
        .await;
        let response = send(local(), &request(Method::GET, &server.url("/"))).await.expect("an answer");
        assert_eq!(&response.body[..], b"id\n1\n2\n3\n", "{most}");
        assert_eq!(response.header("content-encoding"), None);
        assert!(server.requests()[0].contains("accept-encoding: gzip\r\n"), "{:?}", server.requests());
    }
}

#[tokio::test]
async fn a_gzip_body_with_missing_or_trailing_bytes_is_an_error() {
    let member = gzip(&b"1234567890".repeat(100));
    let cuts = [1, 9, 12, member.len() - 8, member.len() - 1].map(|cut| member[..cut].to_vec());
    let second = [member.clone(), member[..member.len() - 3].to_vec()].concat();
    let more = [member.clone(), b"more".to_vec()].concat();
    for body in cuts.into_iter().chain([second, more]) {
        let server = Server::start(move |_, _| reply("200 OK\r\ncontent-encoding: gzip", &body)).await;
        check(
            send(local(), &request(Method::GET, &server.url("/"))).await,
            ErrorKind::Response,
            "cannot be decoded",
        );
    }
    let none = Server::start(|_, _| reply("200 OK\r\ncontent-encoding: gzip", b"")).await;
    let response =
        send(local(), &request(Method::GET, &none.url("/"))).await.expect("an answer without a body");
    assert!(response.body.is_empty());
}

#[tokio::test]
async fn an_unknown_content_encoding_is_an_error_unless_the_author_requested_it() {
    let server = Server::start(|_, _| reply("200 OK\r\ncontent-encoding: br", b"\x0b\x02\x80")).await;
    let mut plain = request(Method::GET, &server.url("/"));
    check(
        send(local(), &plain).await,
        ErrorKind::Response,
        "compressed as `br`, though only `gzip` was asked for",
    );
    plain.headers.insert("accept-encoding", "br".parse().expect("a value"));
    assert_eq!(&send(local(), &plain).await.expect("an answer").body[..], b"\x0b\x02\x80");
    let unknown = Server::start(|_, _| reply("200 OK\r\ncontent-encoding: utf-8", b"text")).await;
    let response = send(local(), &request(Method::GET, &unknown.url("/"))).await.expect("an answer");
    assert_eq!(&response.body[..], b"text");
}

#[tokio::test]
async fn a_body_that_does_not_match_its_content_encoding_is_a_response_error() {
    let server =
        Server::start(|_, _| reply("200 OK\r\ncontent-encoding: gzip", b"this is no gzip at all")).await;
    check(
        send(local(), &request(Method::GET, &server.url("/"))).await,
        ErrorKind::Response,
        "cannot be decoded",
    );
}

#[tokio::test]
async fn response_headers_have_a_size_limit() {
    let server = Server::start(|_, _| reply(&format!("200 OK\r\nx-long: {}", "a".repeat(70_000)), b"")).await;
    check(send(local(), &request(Method::GET, &server.url("/"))).await, ErrorKind::Limit, "bytes of headers");
}

#[tokio::test]
async fn a_silent_server_is_a_timeout() {
    let server = Server::start(|_, _| ServerReply::Stall(Vec::new())).await;
    let mut quick = request(Method::GET, &server.url("/"));
    quick.timeout = Some(Duration::from_millis(50));
    check(send(local(), &quick).await, ErrorKind::Timeout, "the other did not answer within 50ms");
    let half = Server::start(|_, _| {
        ServerReply::Stall(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec())
    })
    .await;
    let options = HttpOptions { idle_timeout: Duration::from_millis(50), ..local() };
    check(send(options, &request(Method::GET, &half.url("/"))).await, ErrorKind::Timeout, "stopped for 50ms");
}

#[tokio::test]
async fn a_broken_connection_is_a_network_failure() {
    let closed = Server::start(|_, _| reply("200 OK", b"")).await;
    let url = closed.url("/secret?token=abc");
    drop(closed);
    let error = send(local(), &request(Method::GET, &url)).await.expect_err("nobody listens");
    assert_eq!(error.kind, ErrorKind::Network);
    assert!(
        error.message.contains("cannot be reached") && !error.message.contains("abc"),
        "{}",
        error.message
    );
    let reset = Server::start(|_, _| ServerReply::Bytes(Vec::new())).await;
    check(send(local(), &request(Method::POST, &reset.url("/"))).await, ErrorKind::Network, "broke");
    assert_eq!(reset.requests().len(), 1, "a POST is not sent twice");
    let cut = Server::start(|_, _| {
        ServerReply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec())
    })
    .await;
    check(send(local(), &request(Method::GET, &cut.url("/"))).await, ErrorKind::Network, "broke");
}

#[tokio::test]
async fn writes_carry_the_idempotency_key() {
    let server = Server::start(|_, _| reply("200 OK", b"")).await;
    for method in [Method::GET, Method::HEAD, Method::POST, Method::DELETE] {
        send(local(), &request(method, &server.url("/"))).await.expect("an answer");
    }
    let mut own = request(Method::PUT, &server.url("/"));
    own.set_header("Idempotency-Key", &"mine".into()).expect("a header");
    send(local(), &own).await.expect("an answer");
    let keys: Vec<_> = server
        .requests()
        .iter()
        .map(|request| {
            let found = request.lines().filter_map(|line| line.strip_prefix("idempotency-key: "));
            found.collect::<Vec<_>>().join(", ")
        })
        .collect();
    assert_eq!(keys, ["", "", "execution.step", "execution.step", "mine"]);
    assert!(server.requests().iter().all(|request| request.contains("x-cogwork-trace: chain;2")));
}

#[tokio::test]
async fn a_request_carries_traceparent_unless_the_author_sets_it() {
    let server = Server::start(|_, _| reply("200 OK", b"")).await;
    send(local(), &request(Method::GET, &server.url("/"))).await.expect("an answer");
    let mut own = request(Method::GET, &server.url("/"));
    own.set_header("Traceparent", &"mine".into()).expect("a header");
    send(local(), &own).await.expect("an answer");
    let sent = server.requests();
    let headers = |request: &String| {
        let names = request.lines().filter_map(|line| line.strip_prefix("traceparent: ")).map(str::to_owned);
        names.collect::<Vec<_>>()
    };
    assert_eq!(sent.iter().map(headers).collect::<Vec<_>>(), [[PARENT], ["mine"]]);
}

#[tokio::test]
async fn debug_logs_the_exchange_without_credentials() {
    let server =
        Server::start(|_, _| reply("200 OK\r\nset-cookie: s=1", b"an answer with secret-token inside")).await;
    let connection = connection(&server);
    let lines = Lines::default();
    let mut sent = request(Method::POST, &server.url("/a?token=abc"));
    sent.set_value(&"a body".into()).expect("a body");
    for log_detail in [LogDetail::None, LogDetail::Masked] {
        let context = RequestContext {
            connection: Some(&connection),
            idempotency_key: "key",
            log_detail,
            ..context(&lines)
        };
        http(local()).send(&sent, &context).await.expect("an answer");
    }
    let lines = lines.0.lock().expect("not poisoned").clone();
    let [out, back] = &lines[..] else { panic!("two lines: {lines:?}") };
    assert!(out.starts_with("Info → POST http://127.0.0.1") && out.ends_with("\n\na body"), "{out}");
    assert!(out.contains("authorization: ***") && out.contains("?token=***"), "{out}");
    assert!(back.contains("set-cookie: ***") && back.ends_with("an answer with *** inside"), "{back}");
}

#[tokio::test]
async fn a_host_that_is_down_is_not_called_until_a_probe_succeeds() {
    let server = Server::start(|count, _| match count {
        0..20 => reply("503 Service Unavailable", b""),
        _ => reply("200 OK", b"up"),
    })
    .await;
    let waits = Arc::new(Waits::default());
    let http = http(HttpOptions { timer: waits.clone(), ..local() });
    let request = request(Method::GET, &server.url("/"));
    let lines = Lines::default();
    for _ in 0..20 {
        assert_eq!(http.send(&request, &context(&lines)).await.expect("an answer").status, 503);
    }
    check(
        http.send(&request, &context(&lines)).await,
        ErrorKind::Network,
        "the last 20 calls failed; the last one: it answered 503",
    );
    assert_eq!(server.requests().len(), 20, "nothing was sent");
    assert_eq!(http.health()[0].failures, 20);
    waits.pause(Duration::from_secs(30)).await;
    assert_eq!(http.send(&request, &context(&lines)).await.expect("an answer").status, 200);
    assert_eq!(http.health()[0].failures, 0);
}

/// Records the requests reported to a log.
#[derive(Default)]
struct Requests(std::sync::Mutex<Vec<String>>);

impl crate::LogSink for Requests {
    fn line(&self, _: model::LogLevel, _: &str) {}

    fn record_request(&self, method: &str, url: &str) {
        self.0.lock().expect("not poisoned").push(format!("{method} {url}"));
    }
}

#[tokio::test]
async fn requests_are_logged_without_query_and_credentials() {
    let log = Requests::default();
    let request = request(Method::POST, "http://user:hush@127.0.0.1:1/a/b%20c?key=hush#hush");
    http(local()).send(&request, &context(&log)).await.expect_err("nobody listens there");
    assert_eq!(*log.0.lock().expect("not poisoned"), ["POST http://127.0.0.1:1/a/b%20c"]);
}

/// A gate that is closed at these calls, counted from 0.
struct Closed {
    asked: std::sync::atomic::AtomicUsize,
    at: &'static [usize],
}

impl Gate for Closed {
    fn is_open(&self) -> bool {
        !self.at.contains(&self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }
}

#[tokio::test]
async fn no_request_or_body_is_sent_while_the_gate_is_closed() {
    // Called before the request, and again before its body.
    for at in [&[0, 1][..], &[1, 2]] {
        let server = Server::start(|_, _| reply("200 OK", b"{}")).await;
        let waits = Arc::new(Waits::default());
        let gate = Closed { asked: 0.into(), at };
        let options = HttpOptions { gate: Some(Arc::new(gate)), timer: waits.clone(), ..local() };
        let mut request = request(Method::POST, &server.url("/"));
        request.body = Body::Whole(Content::Bytes(Data::from(b"{}".to_vec())));
        let sent = send(options, &request).await.expect("an answer");
        assert_eq!(sent.status, 200);
        assert_eq!(*waits.0.lock().expect("not poisoned"), [GATE_CHECK; 2], "{at:?}");
    }
}

/// A file of the store.
#[derive(Debug)]
struct Stored(Vec<u8>);

impl value::Blob for Stored {
    fn digest(&self) -> [u8; 32] {
        Data::from(self.0.clone()).digest()
    }

    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        Data::from(self.0.clone()).read_at(offset, buffer)
    }
}

#[tokio::test]
async fn json_and_forms_stream_their_files_instead_of_loading_them() {
    let server = Server::start(|_, _| reply("200 OK", b"{}")).await;
    let stored = value::ExternalBytes::new(Arc::new(Stored(vec![0xff; 300_000])));
    let file = |data: Data| Value::from(File { content_type: "a/b".into(), filename: None, data });
    let value = |data: Data| Value::from(Map::from_iter([("list", Value::from(vec![file(data)]))]));
    let (external, loaded) = (value(stored.into()), value(vec![0xff; 300_000].into()));
    let mut sent = request(Method::POST, &server.url("/"));
    sent.set_value(&external).expect("it is a body");
    assert!(sent.reads_files(), "its files are not read yet");
    send(local(), &sent).await.expect("an answer");
    sent.set_form(&[("field".to_owned(), external.clone())]).expect("it is a body");
    send(local(), &sent).await.expect("an answer");
    let part = crate::http::Part::from_value("field", &external).expect("a part");
    sent.body = Body::Multipart(vec![part]);
    send(local(), &sent).await.expect("an answer");
    let mut plain = request(Method::POST, &server.url("/"));
    plain.set_form(&[("field".to_owned(), loaded.clone())]).expect("it is a body");
    let Body::Whole(Content::Bytes(form)) = &plain.body else { panic!("a form in memory") };
    let requests = server.requests();
    let bodies: Vec<&str> =
        requests.iter().filter_map(|request| Some(request.split_once("\r\n\r\n")?.1)).collect();
    assert!(bodies[0] == loaded.to_json() && bodies[1].as_bytes() == &form.for_display()[..]);
    assert!(bodies[2].contains(&format!("application/json\r\n\r\n{}\r\n", loaded.to_json())));
}

#[tokio::test]
async fn an_http_1_1_response_is_limited_to_a_hundred_header_fields() {
    let server = Server::start(|count, _| {
        // With the connection and the length.
        let fields: String = (0..98 + count).map(|number| format!("\r\nx-{number}: 1")).collect();
        reply(&format!("200 OK{fields}"), b"")
    })
    .await;
    let response = send(local(), &request(Method::GET, &server.url("/"))).await.expect("an answer");
    assert_eq!(response.headers.len(), 100);
    assert!(send(local(), &request(Method::GET, &server.url("/"))).await.is_err());
}
