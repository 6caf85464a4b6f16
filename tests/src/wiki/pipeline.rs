//! The way of a call: read, log, meet the fault script, be answered, and be written, or not.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::admin;
use super::attachments::Upload;
use super::core::{Call, Core};
use super::error::ApiError;
use super::faults::{Fault, When, first_half};
use super::query::Query;
use super::reply::Reply;
use super::routes::without_gateway;
use super::upload;

/// The largest body of any request: an upload may be large, a page is judged at 5 MB later.
pub(super) const LARGEST_BODY: usize = 64 * 1024 * 1024;
/// How long a call is held at most.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// The state that all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    core: Mutex<Core>,
    /// Told whenever something happens that a test may wait for.
    pub(super) activity: watch::Sender<u64>,
    /// Counts the releases of held calls.
    pub(super) release: watch::Sender<u64>,
    pub(super) stop: CancellationToken,
    /// The control API is open.
    pub(super) admin: bool,
}

/// The connection is to be reset without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection was reset by the fault script")]
pub(super) struct Reset;

/// The body breaks off.
#[derive(Debug, thiserror::Error)]
#[error("the body was cut by the fault script")]
pub(super) struct Cut;

type Answer = Response<BoxBody<Bytes, Cut>>;

impl Shared {
    pub(super) fn new(core: Core, admin: bool) -> Self {
        Self {
            core: Mutex::new(core),
            activity: watch::channel(0).0,
            release: watch::channel(0).0,
            stop: CancellationToken::new(),
            admin,
        }
    }

    /// The state, for a short while and never across a wait. A panic of another holder leaves it as it was.
    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stir(&self) {
        self.activity.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Answers one request of a connection. `reset` tells the connection to break off instead of closing.
pub(super) async fn handle(
    shared: &Shared,
    peer: SocketAddr,
    request: Request<Incoming>,
    reset: &AtomicBool,
) -> Result<Answer, Reset> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let raw_query = parts.uri.query().unwrap_or_default();
    let method = parts.method.as_str().to_owned();
    let Some(body) = read_body(body).await else {
        return Ok(write(ApiError::too_large(LARGEST_BODY).reply(), false));
    };
    let query = Query::parse(raw_query);
    if let Some(place) = path.strip_prefix("/_sim/").filter(|_| shared.admin && peer.ip().is_loopback()) {
        return Ok(write(admin::answer(shared, &method, place, &query, &parts.headers, &body), false));
    }
    let (fault, sequence, generation) =
        meet(shared, &method, &path, raw_query, &query, &parts.headers, &body);
    shared.stir();
    if let Some(fault) = &fault {
        wait(shared, fault.wait()).await;
        hold(shared, fault, When::Before, generation).await;
        break_off(fault, When::Before, reset)?;
    }
    let upload = read_upload(&parts.headers, &body).await;
    let words = shared.core().state.switches.words.clone();
    let call = Call {
        upload,
        method,
        path: words.path(&path),
        query: query.map(|name, value| words.query_value(name, value)),
        headers: words.headers(parts.headers),
        body: words.body(body),
    };
    let mut reply = answer(shared, &call, fault.as_ref());
    reply.set("x-request-id", &format!("sim-{sequence:08}"));
    reply.set("x-trace-id", &format!("{sequence:032x}"));
    if let Some(fault) = &fault {
        hold(shared, fault, When::After, generation).await;
        break_off(fault, When::After, reset)?;
    }
    shared.core().log.answered(sequence, reply.status.as_u16());
    shared.stir();
    Ok(write(reply, fault.is_some_and(|fault| fault.truncate)))
}

/// The whole body; nothing when it is larger than the limit or breaks off.
async fn read_body(body: Incoming) -> Option<Bytes> {
    Limited::new(body, LARGEST_BODY).collect().await.ok().map(http_body_util::Collected::to_bytes)
}

/// Counts the call on the fault script and writes it into the log.
fn meet(
    shared: &Shared,
    method: &str,
    path: &str,
    raw_query: &str,
    query: &Query,
    headers: &HeaderMap,
    body: &Bytes,
) -> (Option<Fault>, u64, u64) {
    let mut core = shared.core();
    let neutral = core.state.switches.words.path(path);
    let fault = core.script.hit(method, &[path, without_gateway(&neutral)], raw_query);
    let now = core.state.clock.now();
    let sequence = core.log.add(now, method, path, query.pairs(), headers, body, fault.is_some());
    // Read under the lock: a release that comes later is seen by the hold.
    let generation = *shared.release.borrow();
    (fault, sequence, generation)
}

fn answer(shared: &Shared, call: &Call, fault: Option<&Fault>) -> Reply {
    let mut core = shared.core();
    let scripted = fault.and_then(Fault::scripted);
    let mut reply = match scripted {
        Some(scripted) => {
            if fault.is_some_and(|fault| fault.apply) {
                core.answer(call);
            }
            scripted
        }
        None => {
            let mut reply = core.answer(call);
            core.state.switches.words.dress(&mut reply);
            reply
        }
    };
    if let Some(fault) = fault {
        fault.dress(&mut reply, core.state.clock.now());
    }
    reply
}

async fn read_upload(headers: &HeaderMap, body: &Bytes) -> Option<Result<Upload, ApiError>> {
    let content_type = headers.get("content-type")?.to_str().ok()?;
    if !content_type.starts_with("multipart/form-data") {
        return None;
    }
    Some(upload::read(content_type, body.clone()).await)
}

async fn wait(shared: &Shared, while_: Duration) {
    if !while_.is_zero() {
        // Ending the simulator ends every wait.
        let _ = tokio::time::timeout(while_, shared.stop.cancelled()).await;
    }
}

async fn hold(shared: &Shared, fault: &Fault, when: When, generation: u64) {
    if fault.hold != Some(when) {
        return;
    }
    let held = Held::new(shared);
    let mut released = shared.release.subscribe();
    let over = async {
        tokio::select! {
            _ = released.wait_for(|count| *count != generation) => {}
            () = shared.stop.cancelled() => {}
        }
    };
    let _ = tokio::time::timeout(LONGEST_HOLD, over).await;
    drop(held);
}

/// Counts a held call for as long as it is held, also when its client goes away.
struct Held<'a>(&'a Shared);

impl<'a> Held<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.core().held += 1;
        shared.stir();
        Self(shared)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.core().held -= 1;
        self.0.stir();
    }
}

fn break_off(fault: &Fault, when: When, reset: &AtomicBool) -> Result<(), Reset> {
    if fault.reset == Some(when) {
        reset.store(true, Ordering::Release);
        return Err(Reset);
    }
    Ok(())
}

fn write(reply: Reply, truncate: bool) -> Answer {
    let Reply { status, headers, body } = reply;
    let whole = body.len();
    let body = if truncate {
        let half = stream::once(std::future::ready(Ok(Frame::data(first_half(&body)))));
        // A turn of waiting lets the half go out before the end of the connection takes it away.
        let cut = stream::once(async {
            tokio::task::yield_now().await;
            Err(Cut)
        });
        BodyExt::boxed(StreamBody::new(half.chain(cut)))
    } else {
        Full::new(body).map_err(|never: Infallible| match never {}).boxed()
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if truncate {
        // The length of the whole, so that the client can tell that something is missing.
        response.headers_mut().insert("content-length", whole.into());
    }
    response
}
