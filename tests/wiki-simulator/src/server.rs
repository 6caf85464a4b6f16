//! The listener, and the way of a request: read, logged, hit by the fault script, answered, written.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::call::{ApiError, Call, Query, Reply};
use super::faults::{Fault, When};
use super::files::read_upload;
use super::model::State;
use super::routes::split_gateway;
use super::traffic::LoggedRequest;

const MAX_BODY: usize = 64 * 1024 * 1024;
const MAX_HOLD: Duration = Duration::from_secs(60);

/// The state that all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// The number of held calls.
    pub(super) held: watch::Sender<usize>,
    /// Counts the releases of held calls.
    pub(super) releases: watch::Sender<u64>,
}

/// The end of a connection without an answer, or in the middle of one.
#[derive(Debug, thiserror::Error)]
#[error("the fault script broke the connection")]
pub(super) struct Broken;

impl Shared {
    pub(super) fn new(state: State) -> Self {
        let (held, releases) = (watch::channel(0).0, watch::channel(0).0);
        Self { state: Mutex::new(state), held, releases }
    }

    /// The state, for a short while. A panic of another holder leaves it as it was.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves until the task is aborted, which ends every connection.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(connection(stream, shared.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    // Small answers must not wait for one another.
    let _ = stream.set_nodelay(true);
    let reset = AtomicBool::new(false);
    let service = service_fn(|request| Box::pin(handle(&shared, request, &reset)));
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // An error is a fault of the script, or the client has gone.
    let _ = (&mut connection).await;
    if reset.load(Ordering::Acquire) {
        // Closing then drops the unsent bytes and sends a reset.
        let _ = connection.into_parts().io.into_inner().set_zero_linger();
    }
}

/// Answers a request. `reset` makes the connection end in a reset.
async fn handle(
    shared: &Shared,
    request: Request<Incoming>,
    reset: &AtomicBool,
) -> Result<Response<BoxBody<Bytes, Broken>>, Broken> {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
        return Ok(write(ApiError::too_large(MAX_BODY).reply(), false));
    };
    let (path, body) = (parts.uri.path().to_owned(), body.to_bytes());
    let mut call = Call {
        method: parts.method.as_str().to_owned(),
        query: Query::parse(parts.uri.query().unwrap_or_default()),
        headers: parts.headers,
        path,
        body,
        ..Call::default()
    };
    if call.header("content-type").starts_with("multipart/form-data") {
        call.upload = Some(read_upload(call.header("content-type"), call.body.clone()).await);
    }
    // A release that comes later ends the hold.
    let releases = *shared.releases.borrow();
    let (number, fault) = log(&mut shared.state(), &call);
    let fault = fault.unwrap_or_default();
    interrupt(shared, &fault, When::Before, releases, reset).await?;
    let mut reply = answer(&mut shared.state(), &mut call, &fault);
    reply.set("x-request-id", &format!("sim-{number:08}"));
    interrupt(shared, &fault, When::After, releases, reset).await?;
    shared.state().log.answered(number, reply.status.as_u16());
    Ok(write(reply, fault.truncate))
}

/// Logs a call, and finds the fault that hits it.
fn log(state: &mut State, call: &Call) -> (u64, Option<Fault>) {
    let fault = state.script.hit(&call.method, [&call.path, split_gateway(&call.path).1]);
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let request = LoggedRequest {
        method: call.method.clone(),
        path: call.path.clone(),
        query: call.query.pairs.clone(),
        headers: call.headers.iter().map(header).collect(),
        body: call.body.clone(),
        status: None,
    };
    (state.log.add(request), fault)
}

fn answer(state: &mut State, call: &mut Call, fault: &Fault) -> Reply {
    let mut reply = fault.scripted().unwrap_or_else(|| state.answer(call));
    fault.add_headers(&mut reply, state.clock.now());
    reply
}

/// Holds the call and resets the connection, where the fault says so for this point.
async fn interrupt(
    shared: &Shared,
    fault: &Fault,
    when: When,
    releases: u64,
    reset: &AtomicBool,
) -> Result<(), Broken> {
    if fault.hold == Some(when) {
        let _held = Held::new(&shared.held);
        let mut released = shared.releases.subscribe();
        let _ = tokio::time::timeout(MAX_HOLD, released.wait_for(|count| *count != releases)).await;
    }
    if fault.reset == Some(when) {
        reset.store(true, Ordering::Release);
        return Err(Broken);
    }
    Ok(())
}

/// Counts a held call, also when its client goes away.
struct Held<'a>(&'a watch::Sender<usize>);

impl<'a> Held<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

fn write(reply: Reply, truncate: bool) -> Response<BoxBody<Bytes, Broken>> {
    let Reply { status, mut headers, body } = reply;
    let whole = body.len();
    let body = if truncate {
        let half = stream::once(std::future::ready(Ok(Frame::data(body.slice(..whole / 2)))));
        // A yield lets the half go out before the connection ends.
        let cut = stream::once(async {
            tokio::task::yield_now().await;
            Err(Broken)
        });
        // From the length of the whole the client detects the missing part.
        headers.insert("content-length", whole.into());
        BodyExt::boxed(StreamBody::new(half.chain(cut)))
    } else {
        Full::new(body).map_err(|never: Infallible| match never {}).boxed()
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
