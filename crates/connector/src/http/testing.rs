//! A TCP server for transport tests: each response is a sequence of raw bytes.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use model::LogLevel;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{AllowList, HostPolicy, Http, HttpOptions, LogDetail, Lookup, RequestContext, Timer};
use crate::action::{Call, FileAccess, UncountedAnswers};
use crate::connection::ResolvedConnection;
use crate::log::LogSink;
use value::Map;

/// The reaction of the server to a request.
pub(crate) enum ServerReply {
    /// Sends these bytes and closes the connection.
    Bytes(Vec<u8>),
    /// Sends these bytes and then nothing, with the connection open.
    Stall(Vec<u8>),
}

pub(crate) fn reply(head: &str, body: &[u8]) -> ServerReply {
    let length = body.len();
    let mut bytes =
        format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    bytes.extend_from_slice(body);
    ServerReply::Bytes(bytes)
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Starts a server that answers request `n`, counted from 0, with the result of `respond`.
    pub(crate) async fn start(respond: impl Fn(usize, &str) -> ServerReply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let received = requests.clone();
        let task = tokio::spawn(async move {
            let mut stalled = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = read_request(&mut stream).await else { continue };
                let count = {
                    let mut received = received.lock().expect("not poisoned");
                    received.push(request.clone());
                    received.len() - 1
                };
                match respond(count, &request) {
                    ServerReply::Bytes(bytes) => {
                        let _ = stream.write_all(&bytes).await;
                        let _ = stream.shutdown().await;
                    }
                    ServerReply::Stall(bytes) => {
                        let _ = stream.write_all(&bytes).await;
                        stalled.push(stream);
                    }
                }
            }
        });
        Self { address, requests, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests so far, head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("not poisoned").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.ok()?;
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")
                    .and_then(|length| length.parse().ok())
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        if count == 0 {
            return None;
        }
    }
}

/// A resolver with names and addresses that a test sets.
#[derive(Default)]
pub(crate) struct Names(pub(crate) HashMap<&'static str, Vec<IpAddr>>);

#[async_trait]
impl Lookup for Names {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.0.get(name).cloned().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such name"))
    }
}

/// A clock that advances only by requested waits and records them.
#[derive(Default)]
pub(crate) struct Waits(pub(crate) Mutex<Vec<Duration>>);

#[async_trait]
impl Timer for Waits {
    fn now(&self) -> Timestamp {
        let waited: Duration = self.0.lock().expect("not poisoned").iter().sum();
        Timestamp::UNIX_EPOCH.checked_add(waited).expect("an instant")
    }

    async fn pause(&self, wait: Duration) {
        self.0.lock().expect("not poisoned").push(wait);
    }
}

/// Recorded log lines.
#[derive(Default)]
pub(crate) struct Lines(pub(crate) Mutex<Vec<String>>);

impl LogSink for Lines {
    fn line(&self, level: LogLevel, message: &str) {
        self.0.lock().expect("not poisoned").push(format!("{level:?} {message}"));
    }
}

/// Returns options that allow the loopback address.
pub(crate) fn local() -> HttpOptions {
    let allow = AllowList::parse(["127.0.0.1"]).expect("an entry");
    HttpOptions { allow, ..HttpOptions::default() }
}

pub(crate) fn http(options: HttpOptions) -> Http {
    Http::new(options).expect("a client")
}

/// Creates the context of a request to `the other` without a connection.
pub(crate) fn context(log: &dyn LogSink) -> RequestContext<'_> {
    RequestContext {
        subject: "the other",
        connection: None,
        idempotency_key: "",
        log_detail: LogDetail::None,
        host_policy: HostPolicy::Full,
        log,
        trace: None,
        answers: &UncountedAnswers,
        body: None,
        is_recorded: true,
    }
}

/// Creates a call with these inputs and no connection.
pub(crate) fn call<'a>(
    http: &'a Http,
    inputs: &'a Map,
    connection: Option<&'a ResolvedConnection>,
    log: &'a Lines,
) -> Call<'a> {
    static NOTHING: value::Reserved = value::Reserved::nothing();
    let idempotency_key = "execution.step";
    Call {
        inputs,
        connection,
        idempotency_key,
        may_repeat: false,
        memory: &NOTHING,
        answers: &UncountedAnswers,
        http,
        debug: false,
        log,
        trace: None,
        files: FileAccess::in_memory(),
        time_left: None,
    }
}
