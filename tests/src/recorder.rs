//! An HTTP sink that keeps the requests it receives: the other side of steps whose effects a test counts.
//!
//! A request is noted before it is answered, and in the journal, where there is one, synced before it is answered: what
//! every answered request is on disk. [`Recorder::hold`] keeps answers back, so that a test can kill
//! the sender before them.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The prefix of paths whose requests are answered with their own headers.
const ECHO: &str = "/echo";
/// Maximum number of requests that are kept; further ones are answered 507.
const MAX_REQUESTS: usize = 100_000;
/// Maximum number of bytes of a body.
const LARGEST_BODY: usize = 16 << 20;
/// Maximum number of connections at a time; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 1_024;
/// The time limit for an expected event.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// Upper case.
    pub method: String,
    /// With the query, as it was sent.
    pub path: String,
    /// The sender's id of the effect, the same over all attempts.
    pub idempotency_key: Option<String>,
    /// The span that made the request, in the form of W3C Trace Context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The body, if it is text.
    pub body: String,
}

impl Recorded {
    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}

/// Errors of the recorder itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses.
    #[error("the recorder cannot work: {0}")]
    Io(#[from] io::Error),
    /// An awaited request did not come in time.
    #[error("waited {} s for {what} in vain; {seen} requests came", PATIENCE.as_secs())]
    WaitedInVain {
        /// The awaited request.
        what: String,
        /// The number of received requests.
        seen: usize,
    },
}

/// A running sink. Dropping it stops it.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    url: String,
}

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    journal: Option<Journal>,
    /// The number of kept requests, including removed ones.
    count: watch::Sender<usize>,
    /// The number of open connections and of requests being kept: one is kept although its sender has gone.
    busy: watch::Sender<usize>,
    /// Notified of every change of the gates.
    gates: watch::Sender<u64>,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct Kept {
    requests: Vec<Recorded>,
    held: Vec<String>,
    scripted: Vec<(String, u16, u32)>,
}

impl Recorder {
    /// Listens on a free port and keeps requests in memory.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn start() -> Result<Self, Error> {
        Self::listen(None).await
    }

    /// Listens on a free port and also appends each request to this file, as a line of JSON.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn with_journal(path: &Path) -> Result<Self, Error> {
        let file = File::options().create(true).append(true).open(path)?;
        Self::listen(Some(Journal { file, written: Mutex::new(0), synced: Mutex::new(0) })).await
    }

    async fn listen(journal: Option<Journal>) -> Result<Self, Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            kept: Mutex::default(),
            journal,
            count: watch::Sender::new(0),
            busy: watch::Sender::new(0),
            gates: watch::Sender::new(0),
            stop: CancellationToken::new(),
        });
        tokio::spawn(serve(listener, shared.clone()));
        Ok(Self { shared, url })
    }

    /// Its address, `http://127.0.0.1:port`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The requests so far, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.kept().requests.clone()
    }

    /// Takes the requests so far out, oldest first.
    pub fn drain(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.shared.kept().requests)
    }

    /// The number of received requests, including removed ones; it changes with each.
    pub fn count(&self) -> watch::Receiver<usize> {
        self.shared.count.subscribe()
    }

    /// Waits until no connection is open: all requests of a sender that is gone are kept then.
    ///
    /// # Errors
    /// A connection is still open after 30 s.
    pub async fn idle(&self) -> Result<(), Error> {
        let mut busy = self.shared.busy.subscribe();
        let idle = async {
            // Connections are accepted in their order: once this one is done with, so are all that wait before it.
            let mut last = TcpStream::connect(self.url.trim_start_matches("http://")).await?;
            last.shutdown().await?;
            while last.read(&mut [0; 64]).await? > 0 {}
            drop(last);
            busy.wait_for(|count| *count == 0).await.map(drop).map_err(io::Error::other)
        };
        match tokio::time::timeout(PATIENCE, idle).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(Error::WaitedInVain {
                what: "the last connection to close".to_owned(),
                seen: *self.shared.count.borrow(),
            }),
        }
    }

    /// The requests so far to exactly this path.
    pub fn requests_to(&self, path: &str) -> Vec<Recorded> {
        self.requests().into_iter().filter(|request| request.path == path).collect()
    }

    /// The paths of the requests so far, oldest first.
    pub fn paths(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.path).collect()
    }

    /// Holds back the answers to requests to exactly this path until [`Recorder::release`].
    pub fn hold(&self, path: &str) {
        self.shared.kept().held.push(path.to_owned());
    }

    /// Lets every answer that is held back go, and holds back no more.
    pub fn release(&self) {
        self.shared.kept().held.clear();
        self.shared.gates.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Answers the next `times` requests to exactly this path with `status`.
    pub fn answer(&self, path: &str, status: u16, times: u32) {
        self.shared.kept().scripted.push((path.to_owned(), status, times));
    }

    /// Waits for this many requests to exactly this path, and returns them.
    ///
    /// # Errors
    /// They did not come within 30 s.
    pub async fn wait_for(&self, path: &str, count: usize) -> Result<Vec<Recorded>, Error> {
        let mut news = self.shared.count.subscribe();
        let reached = news.wait_for(|_| self.requests_to(path).len() >= count);
        match tokio::time::timeout(PATIENCE, reached).await {
            Ok(Ok(_)) => Ok(self.requests_to(path)),
            _ => Err(Error::WaitedInVain {
                what: format!("{count} requests to {path}"),
                seen: self.requests().len(),
            }),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

/// A file in which a line counts when it is on disk. Lines that come together share a sync.
#[derive(Debug)]
struct Journal {
    file: File,
    /// The number of written lines.
    written: Mutex<u64>,
    /// The number of lines on disk.
    synced: Mutex<u64>,
}

impl Journal {
    fn append(&self, line: &[u8]) -> io::Result<()> {
        let own = {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            (&self.file).write_all(line)?;
            *written += 1;
            *written
        };
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced < own {
            let written = *self.written.lock().unwrap_or_else(PoisonError::into_inner);
            self.file.sync_data()?;
            *synced = written;
        }
        Ok(())
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a request: synced before its sender gets an answer.
    fn keep(&self, request: Recorded) -> io::Result<bool> {
        if let Some(journal) = &self.journal {
            let mut line = serde_json::to_string(&request).unwrap_or_default();
            line.push('\n');
            journal.append(line.as_bytes())?;
        }
        let mut kept = self.kept();
        if kept.requests.len() >= MAX_REQUESTS {
            return Ok(false);
        }
        kept.requests.push(request);
        drop(kept);
        self.count.send_modify(|count| *count += 1);
        Ok(true)
    }

    fn is_held(&self, path: &str) -> bool {
        self.kept().held.iter().any(|held| held == path)
    }

    fn scripted(&self, path: &str) -> Option<u16> {
        let mut kept = self.kept();
        let entry = kept.scripted.iter_mut().find(|(known, _, times)| known == path && *times > 0)?;
        entry.2 -= 1;
        Some(entry.1)
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let connections = TaskTracker::new();
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => return,
        };
        // Without a file descriptor for it there is no connection; the sender retries or fails its test.
        let Ok((stream, _)) = stream else { continue };
        let (busy, shared) = (Busy::new(&shared), shared.clone());
        connections.spawn(async move {
            connection(stream, shared).await;
            drop((busy, slot));
        });
    }
}

/// Something that [`Recorder::idle`] waits for.
struct Busy(Arc<Shared>);

impl Busy {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.busy.send_modify(|count| *count += 1);
        Self(shared.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.send_modify(|count| *count -= 1);
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let served = shared.clone();
    let service = service_fn(move |request| {
        let shared = served.clone();
        async move { answer(&shared, request).await }
    });
    // These tests are about senders that go away during an answer.
    tokio::select! {
        _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service) => {}
        () = shared.stop.cancelled() => {}
    }
}

async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, LARGEST_BODY).collect().await.map_err(io::Error::other)?.to_bytes();
    let path = head.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
    let header = |name: &str| head.headers.get(name)?.to_str().ok().map(str::to_owned);
    let recorded = Recorded {
        method: head.method.to_string(),
        path: path.clone(),
        idempotency_key: header("idempotency-key"),
        traceparent: header("traceparent"),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let mut gates = shared.gates.subscribe();
    let (busy, keeper) = (Busy::new(shared), shared.clone());
    let keep = move || {
        let kept = keeper.keep(recorded);
        drop(busy);
        kept
    };
    let kept = tokio::task::spawn_blocking(keep).await.map_err(io::Error::other)??;
    // An error here means that the recorder is gone, and all waiting tasks with it.
    let _ = gates.wait_for(|_| !shared.is_held(&path)).await;
    let status = if kept { shared.scripted(&path).unwrap_or(200) } else { 507 };
    let mut body = json!({"path": path, "status": status});
    if path.starts_with(ECHO) {
        // Like services that return the headers of the request.
        let headers = head.headers.iter().map(|(name, value)| {
            (name.to_string(), Value::from(String::from_utf8_lossy(value.as_bytes()).into_owned()))
        });
        body["results"] = json!([{"id": 1, "headers": headers.collect::<serde_json::Map<_, _>>()}]);
    }
    let body = body.to_string();
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Full::new(Bytes::from(body))).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_of_disconnected_clients_are_recorded_once_idle() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::with_journal(&folder.path().join("received.jsonl")).await.unwrap();
        for number in 0..200 {
            let mut stream = TcpStream::connect(recorder.url().trim_start_matches("http://")).await.unwrap();
            stream.write_all(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            drop(stream);
            recorder.idle().await.unwrap();
            assert_eq!(recorder.requests_to("/a").len(), number + 1);
        }
    }

    /// Sends a request over a connection of its own and returns the head of the answer.
    async fn send(recorder: &Recorder, path: &str, key: &str) -> String {
        let mut stream = TcpStream::connect(recorder.url().trim_start_matches("http://")).await.unwrap();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nidempotency-key: {key}\r\n");
        stream.write_all(format!("{head}content-length: 7\r\n\r\n{{\"a\":1}}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn answered_requests_are_in_the_journal() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("received.jsonl");
        let recorder = Recorder::with_journal(&journal).await.unwrap();
        recorder.answer("/b", 503, 1);
        assert_eq!(send(&recorder, "/a?x=1", "k1").await, "HTTP/1.1 200 OK");
        assert_eq!(send(&recorder, "/b", "k2").await, "HTTP/1.1 503 Service Unavailable");
        assert_eq!(send(&recorder, "/b", "k2").await, "HTTP/1.1 200 OK");
        let lines = std::fs::read_to_string(&journal).unwrap();
        assert_eq!(
            lines.lines().next(),
            Some(r#"{"method":"POST","path":"/a?x=1","idempotencyKey":"k1","body":"{\"a\":1}"}"#)
        );
        assert_eq!(lines.lines().count(), 3);
        assert_eq!(recorder.requests_to("/b")[0].json(), json!({"a": 1}));
    }

    #[tokio::test]
    async fn a_gate_delays_the_response_and_not_the_record() {
        let recorder = Recorder::start().await.unwrap();
        recorder.hold("/held");
        let call = send(&recorder, "/held", "k");
        let open = async {
            recorder.wait_for("/held", 1).await.unwrap();
            assert_eq!(send(&recorder, "/other", "k").await, "HTTP/1.1 200 OK");
            recorder.release();
        };
        let (answer, ()) = tokio::join!(call, open);
        assert_eq!(answer, "HTTP/1.1 200 OK");
        assert_eq!(recorder.paths(), ["/held", "/other"]);
    }
}
