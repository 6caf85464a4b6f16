//! The resume address, `/resume/<token>[/<step>]`: a person answers there what an execution asks, and another system sends
//! the event that one waits for.
//!
//! Whoever has the address may answer: its token is the secret (the engine makes and checks it), and it appears in no
//! log. Looking never answers, since machines open the links in mails. The pages carry no script, and nothing of them
//! is kept or loaded from elsewhere.

mod asked;
mod given;
mod pace;
mod page;
mod scene;

use std::borrow::Cow;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use engine::{Answer as Answered, Engine, SignalError};
use http::header::{self, ACCEPT, ALLOW, CONTENT_TYPE, LOCATION, RETRY_AFTER, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use maud::Markup;
use model::execution::{ExecutionId, WaitReason};
use model::value::Value;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use crate::net::Outgoing;
use given::{Form, Given};
use pace::Pace;
use scene::{Focus, Scene};

pub(crate) use given::BODY_BYTES;

type Answer = Response<Outgoing>;

/// Who is told to have answered or sent something, in the history.
const BY: &str = "the resume address";
/// The methods that the address takes.
const METHODS: &str = "GET, HEAD, POST";

/// Sent with every answer. The style sheet is the only thing that a page may use, and it stands in the page.
static SECURITY: LazyLock<[(HeaderName, HeaderValue); 9]> = LazyLock::new(|| {
    let digest = STANDARD.encode(Sha256::digest(page::STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    );
    // Base64 holds nothing that a header may not.
    let policy = HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let fixed = HeaderValue::from_static;
    [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, fixed("no-store")),
        (header::REFERRER_POLICY, fixed("no-referrer")),
        (header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff")),
        (header::X_FRAME_OPTIONS, fixed("DENY")),
        (HeaderName::from_static("x-robots-tag"), fixed("noindex, nofollow")),
        (HeaderName::from_static("cross-origin-opener-policy"), fixed("same-origin")),
        (HeaderName::from_static("cross-origin-resource-policy"), fixed("same-origin")),
        (VARY, fixed("accept")),
    ]
});

/// What answers at resume addresses.
pub(crate) struct Resume {
    engine: Engine,
    pace: Pace,
}

/// What a request is about.
pub(crate) struct Asking {
    id: ExecutionId,
    /// Where the links of a page lead, relative to the page's own address.
    base: String,
    step: Option<String>,
}

/// Why a request is not answered as it wanted to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    status: StatusCode,
    /// Stable, for programs.
    code: &'static str,
    /// For people.
    message: String,
}

/// An answer before it is put into HTTP.
enum Reply {
    Page(StatusCode, Markup),
    Json(StatusCode, serde_json::Value),
    /// Look there next.
    See(String),
}

impl Fault {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    fn unknown() -> Self {
        let message =
            "this address leads to no execution; it may be cut off, or the execution was cleared away";
        Self::new(StatusCode::NOT_FOUND, "unknown_resume", message)
    }
}

impl Resume {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, pace: Pace::default() }
    }

    /// What a request is about, or the answer to one that is about nothing.
    pub(crate) fn find(&self, head: &Parts, token: &str, step: Option<&str>) -> Result<Asking, Box<Answer>> {
        let refuse = |fault: Fault| Err(Box::new(answer(failed(&fault, wants_page(head)))));
        if !matches!(head.method, Method::GET | Method::HEAD | Method::POST) {
            let message = format!("this address takes {METHODS}");
            return refuse(Fault::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message));
        }
        let Some(id) = self.engine.runtime().resumed_by(token) else { return refuse(Fault::unknown()) };
        if !self.pace.lets_through(id, self.engine.clock().now()) {
            let message = "this address is asked too often; try again in a moment";
            return refuse(Fault::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message));
        }
        // A page at `/resume/<token>` reaches its steps below the token, one at `/resume/<token>/<step>` beside its own.
        let base = if step.is_some() { String::new() } else { format!("{token}/") };
        let step = step.filter(|step| !step.is_empty());
        let step = step.map(|step| percent_decode_str(step).decode_utf8().map(Cow::into_owned));
        match step.transpose() {
            Ok(step) => Ok(Asking { id, base, step }),
            Err(_) => refuse(unknown_step()),
        }
    }

    /// Shows what there is to answer.
    pub(crate) async fn look(&self, head: &Parts, asking: &Asking) -> Answer {
        let reply = match self.scene(asking).await {
            Ok(scene) if wants_page(head) => page_of(&scene, asking, None),
            Ok(scene) => scene
                .json(asking.focus())
                .map_or_else(|fault| failed(&fault, false), |found| Reply::Json(StatusCode::OK, found)),
            Err(fault) => failed(&fault, wants_page(head)),
        };
        self.note(head, asking, answer(reply))
    }

    /// Takes an answer, or an event.
    pub(crate) async fn take(&self, head: &Parts, asking: &Asking, body: &[u8]) -> Answer {
        let media_type = media_type(&head.headers);
        let wants_page = media_type == given::FORM && wants_page(head);
        let given = Given::read(&media_type, body);
        let reply = match given {
            Ok(Given::Form(form)) if wants_page => self.take_form(asking, form).await,
            Ok(given) => self.take_json(asking, given).await,
            Err(fault) => Err(fault),
        };
        let reply = reply.unwrap_or_else(|fault| failed(&fault, wants_page));
        self.note(head, asking, answer(reply))
    }

    /// The answer of a person at our own page: what comes back is a page.
    async fn take_form(&self, asking: &Asking, form: Form) -> Result<Reply, Fault> {
        let step = match self.give(asking, Given::Form(form.clone())).await {
            Ok((step, _)) => step,
            Err((fault, step)) => {
                let scene = self.scene(asking).await?;
                let draft = page::Draft { step, form, fault };
                return Ok(page_of(&scene, asking, Some(&draft)));
            }
        };
        Ok(Reply::See(asking.link(&step)))
    }

    async fn take_json(&self, asking: &Asking, given: Given) -> Result<Reply, Fault> {
        let (_, status) = self.give(asking, given).await.map_err(|(fault, _)| fault)?;
        Ok(Reply::Json(StatusCode::OK, serde_json::json!({ "status": status })))
    }

    /// Gives what came to the step that waits for it; the step, with what it is to it. An error names the step too,
    /// where it is known.
    async fn give(
        &self,
        asking: &Asking,
        given: Given,
    ) -> Result<(String, &'static str), (Fault, Option<String>)> {
        let nowhere = |fault| (fault, None);
        let scene = self.scene(asking).await.map_err(nowhere)?;
        let pending = scene.only(asking.step.as_deref()).map_err(nowhere)?;
        let step = pending.step.clone();
        let at = |fault| (fault, Some(step.clone()));
        let (id, by) = (asking.id, Some(BY.to_owned()));
        let given = match (&pending.on, given) {
            (WaitReason::Approval { .. }, given) => {
                let (option, form) = match given {
                    Given::Form(form) => scene::read(pending, form).map_err(at)?,
                    Given::Json(value) => given::answer(&value).map_err(at)?,
                    Given::Nothing => given::answer(&Value::Null).map_err(at)?,
                };
                let answer = Answered { option, form, by };
                self.engine.runtime().answer(id, Some(&step), answer).await.map(|()| "answered")
            }
            (_, Given::Form(_)) => {
                let message = "this waits for an event, whose data is sent as JSON";
                let fault = Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message);
                return Err(at(fault));
            }
            (_, Given::Json(data)) => {
                self.engine.runtime().signal(id, Some(&step), data, by).await.map(|()| "delivered")
            }
            (_, Given::Nothing) => {
                self.engine.runtime().signal(id, Some(&step), Value::Null, by).await.map(|()| "delivered")
            }
        };
        match given {
            Ok(word) => Ok((step, word)),
            Err(error) => Err(at(refused(error))),
        }
    }

    async fn scene(&self, asking: &Asking) -> Result<Scene, Fault> {
        Scene::of(&self.engine, asking.id).await
    }

    /// A line of the access log. The token is a secret, so it names the execution behind it.
    fn note(&self, head: &Parts, asking: &Asking, answer: Answer) -> Answer {
        let status = answer.status().as_u16();
        tracing::debug!(execution = %asking.id, method = %head.method, status, "answered at a resume address");
        answer
    }
}

impl Asking {
    /// The address of a step, relative to that of the request.
    fn link(&self, step: &str) -> String {
        format!("{}{}", self.base, utf8_percent_encode(step, NON_ALPHANUMERIC))
    }

    fn focus(&self) -> Option<&str> {
        self.step.as_deref()
    }
}

fn unknown_step() -> Fault {
    Fault::new(StatusCode::NOT_FOUND, "unknown_step", "the execution asks nothing under this address")
}

/// Why something did not reach a step.
fn refused(error: SignalError) -> Fault {
    let message = error.to_string();
    let fault = |status, code| Fault::new(status, code, message.clone());
    match error {
        SignalError::NotWaiting => fault(StatusCode::CONFLICT, "not_waiting"),
        SignalError::Several(_) => fault(StatusCode::CONFLICT, "several_waiting"),
        SignalError::Answer(_) => fault(StatusCode::BAD_REQUEST, "bad_answer"),
        SignalError::TooMany => fault(StatusCode::TOO_MANY_REQUESTS, "too_many_events"),
        SignalError::Engine(error) => failure(&error),
    }
}

/// A failure of the engine, told to a stranger.
fn failure(error: &engine::Error) -> Fault {
    match error {
        engine::Error::NoSuchExecution(_) => Fault::unknown(),
        engine::Error::Closing => {
            let message = "the daemon is stopping; try again in a moment";
            Fault::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
        }
        error => {
            // What a store or a file says is for the log of the daemon.
            tracing::error!(%error, "a resume address cannot be answered");
            let message = "this cannot be answered at the moment; the daemon's log says why";
            Fault::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
        }
    }
}

fn page_of(scene: &Scene, asking: &Asking, draft: Option<&page::Draft>) -> Reply {
    let focus = scene.focus(asking.focus());
    let status = match (&draft, &focus) {
        (Some(draft), _) => draft.fault.status,
        (None, Focus::Unknown) => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    };
    Reply::Page(status, page::scene(scene, &focus, &|step| asking.link(step), draft))
}

fn failed(fault: &Fault, as_page: bool) -> Reply {
    if as_page {
        return Reply::Page(fault.status, page::fault(fault));
    }
    Reply::Json(fault.status, serde_json::json!({ "error": fault.message, "code": fault.code }))
}

/// A page that tells something and asks nothing.
pub(crate) fn notice(status: StatusCode, heading: &str, text: &str) -> Answer {
    answer(Reply::Page(status, page::notice(heading, text)))
}

fn answer(reply: Reply) -> Answer {
    let (status, kind, body) = match reply {
        Reply::Page(status, markup) => (status, "text/html; charset=utf-8", markup.into_string()),
        Reply::Json(status, value) => (status, given::JSON, value.to_string()),
        Reply::See(place) => {
            let mut response = answer(Reply::Json(StatusCode::SEE_OTHER, serde_json::json!({})));
            // It is made of a token and of escapes.
            if let Ok(place) = HeaderValue::try_from(place) {
                response.headers_mut().insert(LOCATION, place);
            }
            return response;
        }
    };
    let mut response = Response::new(Outgoing::from(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in SECURITY.iter() {
        headers.insert(name, value.clone());
    }
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static(METHODS));
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        _ => {}
    }
    response
}

/// Whether whoever asks wants a page, as everybody does who does not ask for JSON.
fn wants_page(head: &Parts) -> bool {
    let accept = head.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let wanted: Vec<&str> = accept.flat_map(|value| value.split(',')).map(media).collect();
    wanted.contains(&"text/html") || !wanted.contains(&given::JSON)
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media(value).to_ascii_lowercase()
}

/// A media type without its parameters.
fn media(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}
