//! A collector of OpenTelemetry: takes traces and logs by OTLP, over HTTP and gRPC, and keeps them.
//!
//! The messages come from the protocol's own definitions, so this collector reads the messages that
//! a real one can read, and no others.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{Span, span, status};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Maximum number of bytes of a request.
const LARGEST_BODY: usize = 64 << 20;
/// The time limit for an expected event.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running collector. Dropping it stops it.
#[derive(Debug)]
pub struct Collector {
    shared: Arc<Shared>,
    http: String,
    grpc: String,
}

#[derive(Debug)]
struct Shared {
    received: Mutex<Received>,
    /// The number of received requests.
    requests: watch::Sender<usize>,
    /// The status of the answers over HTTP.
    status: Mutex<u16>,
    /// The target of redirects.
    redirect: Mutex<Option<String>>,
    stop: CancellationToken,
}

/// The signals received so far.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Spans in order of arrival.
    pub spans: Vec<ReceivedSpan>,
    /// Log records in order of arrival.
    pub logs: Vec<ReceivedLog>,
    /// The `x-team` header or metadata of each request.
    pub teams: Vec<Option<String>>,
}

/// A span as a test looks at it: ids in hexadecimal, values as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedSpan {
    /// Its name.
    pub name: String,
    /// The id of its trace.
    pub trace: String,
    /// Its id.
    pub id: String,
    /// The id of its parent; empty for a root.
    pub parent: String,
    /// The kind, such as `Client`.
    pub kind: String,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// Nanoseconds since 1970.
    pub end: u64,
    /// True if its status is an error.
    pub is_error: bool,
    /// The message of its status.
    pub message: String,
    /// Its attributes.
    pub attributes: BTreeMap<String, String>,
    /// The names of its events.
    pub events: Vec<String>,
    /// Its links: trace, span and the attribute `cogwork.link`.
    pub links: Vec<(String, String, String)>,
    /// The attributes of its resource.
    pub resource: BTreeMap<String, String>,
}

/// A log record as a test looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedLog {
    /// The text.
    pub body: String,
    /// The level: `INFO`.
    pub severity: String,
    /// The id of its trace; empty if it has none.
    pub trace: String,
    /// The id of its span; empty if it has none.
    pub span: String,
    /// Its attributes.
    pub attributes: BTreeMap<String, String>,
}

impl ReceivedSpan {
    /// An attribute; empty if it has none of this name.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

impl Collector {
    /// Listens on two free ports.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn start() -> io::Result<Self> {
        let (http, grpc) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
        let url = |listener: &TcpListener| Ok::<_, io::Error>(format!("http://{}", listener.local_addr()?));
        let (http_url, grpc_url) = (url(&http)?, url(&grpc)?);
        let shared = Arc::new(Shared {
            received: Mutex::default(),
            requests: watch::Sender::new(0),
            status: Mutex::new(200),
            redirect: Mutex::default(),
            stop: CancellationToken::new(),
        });
        tokio::spawn(serve_http(http, shared.clone()));
        let services = Server::builder()
            .add_service(TraceServiceServer::new(Grpc(shared.clone())))
            .add_service(LogsServiceServer::new(Grpc(shared.clone())));
        let stopped = shared.stop.clone().cancelled_owned();
        tokio::spawn(services.serve_with_incoming_shutdown(TcpIncoming::from(grpc), stopped));
        Ok(Self { shared, http: http_url, grpc: grpc_url })
    }

    /// Its address for OTLP over HTTP.
    pub fn http(&self) -> &str {
        &self.http
    }

    /// Its address for OTLP over gRPC.
    pub fn grpc(&self) -> &str {
        &self.grpc
    }

    /// Answers requests over HTTP with this status from now on.
    pub fn answer(&self, status: u16) {
        *self.shared.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// Redirects requests over HTTP to this address from now on.
    pub fn redirect(&self, to: &str) {
        *self.shared.redirect.lock().unwrap_or_else(PoisonError::into_inner) = Some(to.to_owned());
        self.answer(307);
    }

    /// The number of received requests.
    pub fn requests(&self) -> usize {
        *self.shared.requests.borrow()
    }

    /// The signals received so far.
    pub fn received(&self) -> Received {
        self.shared.received().clone()
    }

    /// Waits until `holds`, and returns everything received.
    ///
    /// # Errors
    /// It does not hold within 30 s; the error has everything received.
    pub async fn wait_for(&self, holds: impl Fn(&Received) -> bool) -> Result<Received, Received> {
        let mut requests = self.shared.requests.subscribe();
        let held = requests.wait_for(|_| holds(&self.shared.received()));
        let held = matches!(tokio::time::timeout(PATIENCE, held).await, Ok(Ok(_)));
        if held { Ok(self.received()) } else { Err(self.received()) }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl Shared {
    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_spans(&self, request: ExportTraceServiceRequest, team: Option<String>) {
        let mut received = self.received();
        received.teams.push(team);
        for of_resource in request.resource_spans {
            let resource =
                attributes(&of_resource.resource.map(|resource| resource.attributes).unwrap_or_default());
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            received.spans.extend(spans.map(|span| read_span(span, resource.clone())));
        }
        drop(received);
        self.requests.send_modify(|count| *count += 1);
    }

    fn take_logs(&self, request: ExportLogsServiceRequest, team: Option<String>) {
        let mut received = self.received();
        received.teams.push(team);
        let scopes = request.resource_logs.into_iter().flat_map(|of_resource| of_resource.scope_logs);
        received.logs.extend(scopes.flat_map(|scope| scope.log_records).map(|record| ReceivedLog {
            body: record.body.as_ref().map(text).unwrap_or_default(),
            severity: record.severity_text,
            trace: hex::encode(record.trace_id),
            span: hex::encode(record.span_id),
            attributes: attributes(&record.attributes),
        }));
        drop(received);
        self.requests.send_modify(|count| *count += 1);
    }
}

fn read_span(span: Span, resource: BTreeMap<String, String>) -> ReceivedSpan {
    let status = span.status.unwrap_or_default();
    let kind = span::SpanKind::try_from(span.kind).unwrap_or_default();
    let links = span.links.iter().map(|link| {
        let kind = attributes(&link.attributes).remove("cogwork.link").unwrap_or_default();
        (hex::encode(&link.trace_id), hex::encode(&link.span_id), kind)
    });
    ReceivedSpan {
        links: links.collect(),
        name: span.name,
        trace: hex::encode(span.trace_id),
        id: hex::encode(span.span_id),
        parent: hex::encode(span.parent_span_id),
        kind: format!("{kind:?}"),
        start: span.start_time_unix_nano,
        end: span.end_time_unix_nano,
        is_error: status.code == status::StatusCode::Error as i32,
        message: status.message,
        attributes: attributes(&span.attributes),
        events: span.events.into_iter().map(|event| event.name).collect(),
        resource,
    }
}

fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    let read = |entry: &KeyValue| (entry.key.clone(), entry.value.as_ref().map(text).unwrap_or_default());
    list.iter().map(read).collect()
}

fn text(value: &AnyValue) -> String {
    match &value.value {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(any_value::Value::BoolValue(truth)) => truth.to_string(),
        Some(any_value::Value::DoubleValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

async fn serve_http(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => return,
        };
        let Ok((stream, _)) = stream else { continue };
        tokio::spawn(connection(stream, shared.clone()));
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let served = shared.clone();
    let service = service_fn(move |request| {
        let shared = served.clone();
        async move { answer(&shared, request).await }
    });
    tokio::select! {
        _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service) => {}
        () = shared.stop.cancelled() => {}
    }
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, LARGEST_BODY).collect().await.map_err(io::Error::other)?.to_bytes();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let is_protobuf = header("content-type") == Some("application/x-protobuf");
    let team = header("x-team").map(str::to_owned);
    let status = *shared.status.lock().unwrap_or_else(PoisonError::into_inner);
    let (status, body) = match (head.method.as_str(), head.uri.path()) {
        _ if status != 200 => {
            shared.requests.send_modify(|count| *count += 1);
            (status, Vec::new())
        }
        ("POST", _) if !is_protobuf => (415, Vec::new()),
        ("POST", "/v1/traces") => {
            shared.take_spans(Message::decode(body).map_err(io::Error::other)?, team);
            (200, ExportTraceServiceResponse::default().encode_to_vec())
        }
        ("POST", "/v1/logs") => {
            shared.take_logs(Message::decode(body).map_err(io::Error::other)?, team);
            (200, ExportLogsServiceResponse::default().encode_to_vec())
        }
        _ => (404, Vec::new()),
    };
    let mut response = Response::builder().status(status).header("content-type", "application/x-protobuf");
    if let Some(to) = &*shared.redirect.lock().unwrap_or_else(PoisonError::into_inner) {
        response = response.header("location", to);
    }
    response.body(Full::new(Bytes::from(body))).map_err(io::Error::other)
}

/// The services over gRPC.
struct Grpc(Arc<Shared>);

fn team<T>(request: &tonic::Request<T>) -> Option<String> {
    request.metadata().get("x-team").and_then(|value| value.to_str().ok()).map(str::to_owned)
}

#[tonic::async_trait]
impl TraceService for Grpc {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let team = team(&request);
        self.0.take_spans(request.into_inner(), team);
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl LogsService for Grpc {
    async fn export(
        &self,
        request: tonic::Request<ExportLogsServiceRequest>,
    ) -> Result<tonic::Response<ExportLogsServiceResponse>, tonic::Status> {
        let team = team(&request);
        self.0.take_logs(request.into_inner(), team);
        Ok(tonic::Response::new(ExportLogsServiceResponse::default()))
    }
}
