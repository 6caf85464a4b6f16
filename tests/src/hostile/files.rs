//! A gigabyte from a service into a file and from the file into another service, and a gigabyte of attachments.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use servers::dovecot::{Server, USER};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use super::rows::execute_each;
use super::{Bounds, Findings, Started, write_others};
use crate::daemon::{self, Daemon};
use crate::project::Project;

const GIGABYTE: u64 = 1 << 30;
/// The bytes of an answer that are sent at a time.
const CHUNK: usize = 64 << 10;
/// The bytes of an attachment as they are sent; a step reads at most 50 MiB of a message.
const ATTACHMENT: usize = 49 << 20;
/// The line of base64 that an attachment repeats, with its end.
const LINE: &str = "QSBsaW5lIG9mIGFuIGF0dGFjaG1lbnQsIHJlcGVhdGVkIHVudGlsIGl0IGlzIGxhcmdlLg==\r\n";
const PASSWORD: &str = "a-password-of-attachments";

/// A service with a large file, which also takes files in pieces, by two protocols.
const DEPOT: &str = r#"
connector: depot
title: Depot
version: "1"
inputs: {file: {type: file, required: true}}
connections:
  site:
    title: Site
    inputs: {address: {type: text, required: true}}
    baseUrl: {input: address}
    auth: {none: true}
actions:
  get:
    title: Get
    request: GET /large
    download: true
    example: {with: {}, request: GET /large}
  google:
    title: Upload as to Google
    request: POST /google
    inputs: {file: upload}
    upload: {protocol: google, location: {header: Location}}
    example: {with: {file: x}, request: POST /google}
  microsoft:
    title: Upload as to Microsoft
    request: POST /microsoft
    inputs: {file: upload}
    upload: {protocol: microsoft, location: {body: uploadUrl}}
    example: {with: {file: x}, request: POST /microsoft}
"#;

/// Passes a gigabyte through a daemon with these further `arguments`, once for each protocol of uploads and once as attachments if
/// there is a mail server, and holds each to `bounds`.
///
/// # Errors
/// The daemon cannot be started, or the system refuses.
pub async fn run_files(
    bounds: Bounds,
    arguments: &[String],
) -> Result<Vec<(&'static str, Findings)>, daemon::Error> {
    let project = Project::new()?;
    let depot = Depot::start().await?;
    std::fs::create_dir(project.path().join("connectors"))?;
    project.write("connectors/depot.yaml", DEPOT)?;
    project.connection(
        "depot",
        &json!({"type": "depot.site", "with": {"address": depot.address}}).to_string(),
    )?;
    write_upload(&project, "google")?;
    write_upload(&project, "microsoft")?;
    let mut rows = vec![
        ("a gigabyte uploaded as to Google", "google"),
        ("a gigabyte uploaded as to Microsoft", "microsoft"),
    ];
    let mail = Server::start(PASSWORD);
    if let Some(mail) = &mail {
        write_mail(&project, mail)?;
        rows.push(("a gigabyte of attachments", "mail"));
    }
    write_others(&project)?;
    let builder = Daemon::builder(&project).argument("--outbound-allow").argument("127.0.0.1");
    let builder = builder.argument("--limits-file-size").argument("2GiB");
    let started = Started::new(builder, arguments).await?;
    let mut found = execute_each(&started, &rows, bounds).await?;
    let taken = depot.taken();
    let expected = (GIGABYTE, depot.digest());
    for (name, findings) in &mut found {
        if name.contains("uploaded") && taken.iter().filter(|taken| **taken == expected).count() != 2 {
            findings.broken.push("the file did not arrive as it was sent".to_owned());
        }
    }
    started.daemon.stop().await?;
    Ok(found)
}

/// An automation that downloads the file, and uploads it.
fn write_upload(project: &Project, protocol: &str) -> io::Result<()> {
    let step = |id: &str, action: &str, with: Value| json!({"id": id, "action": format!("depot.{action}"), "connection": "depot", "timeout": "15m", "with": with});
    let automation = json!({"timeout": "20m", "trigger": {"webhook": {"verify": "none"}}, "steps": [
        step("large", "get", json!({})),
        step("sent", protocol, json!({"file": "${{ steps.large.results }}"})),
    ]});
    project.automation(protocol, &automation.to_string())
}

/// An automation that reads a message with a large attachment until it was a gigabyte.
fn write_mail(project: &Project, server: &Server) -> io::Result<()> {
    let lines = LINE.repeat(ATTACHMENT / LINE.len());
    let message = format!(
        "From: a@example.com\r\nSubject: large\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n\
         --x\r\nContent-Type: application/octet-stream; name=large.bin\r\nContent-Disposition: attachment\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{lines}\r\n--x--\r\n"
    );
    server.deliver("INBOX", message.as_bytes())?;
    let with = json!({
        "host": "127.0.0.1", "port": server.tls_port, "username": USER, "password": PASSWORD, "ca": server.authority()?,
    });
    project.connection("box", &json!({"type": "mail.imap", "with": with}).to_string())?;
    let times = usize::try_from(GIGABYTE).unwrap_or(usize::MAX).div_ceil(ATTACHMENT);
    let message = "${{ steps.found.results.results[0].uid }}";
    let validity = "${{ steps.found.results.results[0].uidValidity }}";
    let get = json!({"id": "got", "action": "mail.get", "connection": "box", "timeout": "5m", "with": {"uid": message, "uidValidity": validity}});
    let is_missing =
        format!("steps.got.results.attachments[0].size < {}", ATTACHMENT / 4 * 3 - ATTACHMENT / 20);
    let automation = json!({"timeout": "20m", "trigger": {"webhook": {"verify": "none"}}, "steps": [
        {"id": "found", "action": "mail.search", "connection": "box", "with": {"limit": 1}},
        {"forEach": format!("range({times})"), "steps": [get, {"if": is_missing, "then": [{"fail": "bytes are missing"}]}]},
    ]});
    project.automation("mail", &automation.to_string())
}

/// A service on a port of loopback, which ends with the process.
struct Depot {
    address: String,
    state: Arc<State>,
}

struct State {
    /// The bytes that the file repeats.
    chunk: Bytes,
    /// The upload under way: the number of its bytes and their digest so far.
    current: Mutex<(u64, Sha256)>,
    /// The uploads that ended: the number of their bytes and their digest.
    taken: Mutex<Vec<(u64, [u8; 32])>>,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

impl Depot {
    async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = format!("http://{}", listener.local_addr()?);
        let chunk = (0..CHUNK).map(|at| u8::try_from(at * 7919 % 251).unwrap_or_default()).collect();
        let state = Arc::new(State { chunk, current: Mutex::default(), taken: Mutex::default() });
        let served = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, own)) = listener.accept().await.and_then(|(stream, _)| {
                let own = format!("http://{}", stream.local_addr()?);
                Ok((stream, own))
            }) {
                let served = served.clone();
                let service = service_fn(move |request| answer(served.clone(), own.clone(), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(Self { address, state })
    }

    fn taken(&self) -> Vec<(u64, [u8; 32])> {
        self.state.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The digest of the file.
    fn digest(&self) -> [u8; 32] {
        let chunks = GIGABYTE / CHUNK as u64;
        (0..chunks).fold(Sha256::new(), |digest, _| digest.chain_update(&self.state.chunk)).finalize().into()
    }
}

async fn answer(state: Arc<State>, own: String, request: Request<Incoming>) -> Result<Answer, hyper::Error> {
    let path = request.uri().path().to_owned();
    Ok(match (request.method(), path.as_str()) {
        (&Method::GET, "/large") => large(&state),
        (&Method::GET, _) => position(&state, StatusCode::OK, &path),
        (&Method::POST, _) => {
            *state.current.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
            let session = format!("{own}{path}/session");
            let mut answer = whole(StatusCode::OK, json!({"uploadUrl": session}).to_string());
            if let Ok(session) = session.parse() {
                answer.headers_mut().insert(http::header::LOCATION, session);
            }
            answer
        }
        _ => take(&state, request, &path).await?,
    })
}

/// The file, of which one chunk at a time is in memory.
fn large(state: &State) -> Answer {
    let chunk = state.chunk.clone();
    let frames = (0..GIGABYTE / CHUNK as u64).map(move |_| Ok(Frame::data(chunk.clone())));
    let mut answer = Response::new(StreamBody::new(stream::iter(frames)).boxed());
    answer.headers_mut().insert(http::header::CONTENT_LENGTH, GIGABYTE.into());
    answer
}

/// Takes a piece of an upload.
async fn take(state: &State, request: Request<Incoming>, path: &str) -> Result<Answer, hyper::Error> {
    let is_last = ends_the_file(request.headers());
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            let mut current = state.current.lock().unwrap_or_else(PoisonError::into_inner);
            current.0 += data.len() as u64;
            current.1.update(&data);
        }
    }
    if !is_last {
        let status =
            if path.starts_with("/google") { StatusCode::PERMANENT_REDIRECT } else { StatusCode::ACCEPTED };
        return Ok(position(state, status, path));
    }
    let (size, digest) = std::mem::take(&mut *state.current.lock().unwrap_or_else(PoisonError::into_inner));
    state.taken.lock().unwrap_or_else(PoisonError::into_inner).push((size, digest.finalize().into()));
    Ok(whole(StatusCode::CREATED, json!({"id": "f"}).to_string()))
}

/// True if the piece is the last one: `bytes 8-9/10`.
fn ends_the_file(headers: &HeaderMap) -> bool {
    let range = headers.get(http::header::CONTENT_RANGE).and_then(|range| range.to_str().ok());
    let range = range.and_then(|range| range.strip_prefix("bytes ")?.split_once('/'));
    range.is_some_and(|(range, size)| {
        let end = range.split_once('-').and_then(|(_, last)| last.parse::<u64>().ok());
        end.map(|last| last + 1) == size.parse().ok() && end.is_some()
    })
}

/// An answer that says how much of an upload is there, by both protocols.
fn position(state: &State, status: StatusCode, path: &str) -> Answer {
    let has = state.current.lock().unwrap_or_else(PoisonError::into_inner).0;
    if !path.starts_with("/google") {
        return whole(status, json!({"nextExpectedRanges": [format!("{has}-")]}).to_string());
    }
    let mut answer = whole(status, String::new());
    if let (1.., Ok(range)) = (has, format!("bytes=0-{}", has.saturating_sub(1)).parse()) {
        answer.headers_mut().insert(http::header::RANGE, range);
    }
    answer
}

fn whole(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)).boxed());
    *answer.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, json);
    answer
}
