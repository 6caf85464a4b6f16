//! The resume address, `/resume/<token>[/<step>]`: a person answers an approval there, and another system sends an
//! awaited event.
//!
//! The address alone authorizes an answer: its token is the secret (the engine creates and verifies it), and no log
//! contains it. A GET never answers, since mail scanners open links. The pages contain no script, are not cached, and
//! load no external resources.

mod page;
mod questions;
mod rate_limit;
mod submission;
mod view_model;

use std::borrow::Cow;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use engine::Engine;
use http::header::{self, ACCEPT, ALLOW, CONTENT_TYPE, LOCATION, RETRY_AFTER, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use maud::Markup;
use model::execution::{ExecutionId, WaitReason};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use runtime::{Answer as Answered, SignalError};
use sha2::{Digest as _, Sha256};
use store::FailureKind;
use value::Value;

use crate::net::Outgoing;
use rate_limit::RateLimit;
use submission::{Form, Submission};
use view_model::{Focus, ResumeView};

pub(crate) use submission::BODY_BYTES;

type Answer = Response<Outgoing>;

/// The sender of answers and events from here, for the history.
const SENDER: &str = "the resume address";
/// The accepted methods.
const METHODS: &str = "GET, HEAD, POST";

/// Headers of every response. A page may only use its inline style sheet.
static SECURITY: LazyLock<[(HeaderName, HeaderValue); 9]> = LazyLock::new(|| {
    let digest = STANDARD.encode(Sha256::digest(page::STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    );
    // Base64 contains only characters valid in a header.
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

/// The handler of resume addresses.
pub(crate) struct Resume {
    engine: Engine,
    rate_limit: RateLimit,
}

/// The target of a request.
pub(crate) struct Target {
    id: ExecutionId,
    /// The base of the page's links, relative to its own address.
    base: String,
    step: Option<String>,
}

impl Target {
    /// The execution of the address.
    pub(crate) fn execution(&self) -> ExecutionId {
        self.id
    }
}

/// An error response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResumeError {
    status: StatusCode,
    /// The stable code for programs.
    code: &'static str,
    /// The message for people.
    message: String,
}

/// A response before its conversion to HTTP.
enum Reply {
    Page(StatusCode, Markup),
    Json(StatusCode, serde_json::Value),
    /// A redirect to this address.
    Redirect(String),
}

impl ResumeError {
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
        Self { engine, rate_limit: RateLimit::default() }
    }

    /// The target of a request, or the response to a request without one.
    pub(crate) fn find(&self, head: &Parts, token: &str, step: Option<&str>) -> Result<Target, Box<Answer>> {
        let refuse = |fault: ResumeError| Err(Box::new(answer(failed(&fault, wants_page(head)))));
        if !matches!(head.method, Method::GET | Method::HEAD | Method::POST) {
            let message = format!("this address takes {METHODS}");
            return refuse(ResumeError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message));
        }
        let Some(id) = self.engine.context().resumed_by(token) else { return refuse(ResumeError::unknown()) };
        if !self.rate_limit.try_acquire(id, self.engine.clock().now()) {
            let message = "this address is asked too often; try again in a moment";
            return refuse(ResumeError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message));
        }
        // A page at `/resume/<token>` links to its steps below the token, a page at `/resume/<token>/<step>` to siblings.
        let base = if step.is_some() { String::new() } else { format!("{token}/") };
        let step = step.filter(|step| !step.is_empty());
        let step = step.map(|step| percent_decode_str(step).decode_utf8().map(Cow::into_owned));
        match step.transpose() {
            Ok(step) => Ok(Target { id, base, step }),
            Err(_) => refuse(unknown_step()),
        }
    }

    /// Shows the open questions.
    pub(crate) async fn show(&self, head: &Parts, asking: &Target) -> Answer {
        let reply = match self.view_model(asking).await {
            Ok(view_model) if wants_page(head) => page_of(&view_model, asking, None),
            Ok(view_model) => view_model
                .json(asking.focus())
                .map_or_else(|fault| failed(&fault, false), |found| Reply::Json(StatusCode::OK, found)),
            Err(fault) => failed(&fault, wants_page(head)),
        };
        self.note(head, asking, answer(reply))
    }

    /// Accepts an answer, or an event.
    pub(crate) async fn take(&self, head: &Parts, asking: &Target, body: &[u8]) -> Answer {
        let media_type = media_type(&head.headers);
        let wants_page = media_type == submission::FORM && wants_page(head);
        let submission = Submission::read(&media_type, body);
        let reply = match submission {
            Ok(Submission::Form(form)) if wants_page => self.take_form(asking, form).await,
            Ok(submission) => self.take_json(asking, submission).await,
            Err(fault) => Err(fault),
        };
        let reply = reply.unwrap_or_else(|fault| failed(&fault, wants_page));
        self.note(head, asking, answer(reply))
    }

    /// Accepts the answer of our own page's form; the response is a page.
    async fn take_form(&self, asking: &Target, form: Form) -> Result<Reply, ResumeError> {
        let step = match self.deliver(asking, Submission::Form(form.clone())).await {
            Ok((step, _)) => step,
            Err((fault, step)) => {
                let view_model = self.view_model(asking).await?;
                let draft = page::RejectedSubmission { step, form, fault };
                return Ok(page_of(&view_model, asking, Some(&draft)));
            }
        };
        Ok(Reply::Redirect(asking.link(&step)))
    }

    async fn take_json(&self, asking: &Target, submission: Submission) -> Result<Reply, ResumeError> {
        let (_, status) = self.deliver(asking, submission).await.map_err(|(fault, _)| fault)?;
        Ok(Reply::Json(StatusCode::OK, serde_json::json!({ "status": status })))
    }

    /// Delivers a submission to the waiting step. Returns the step and the effect of the submission. An error names the step too,
    /// if it is known.
    async fn deliver(
        &self,
        asking: &Target,
        submission: Submission,
    ) -> Result<(String, &'static str), (ResumeError, Option<String>)> {
        let nowhere = |fault| (fault, None);
        let view_model = self.view_model(asking).await.map_err(nowhere)?;
        let pending = view_model.single_open(asking.step.as_deref()).map_err(nowhere)?;
        let step = pending.step.clone();
        let at = |fault| (fault, Some(step.clone()));
        let (id, by) = (asking.id, Some(SENDER.to_owned()));
        let submission = match (&pending.on, submission) {
            (WaitReason::Approval { .. }, submission) => {
                let (option, form) = match submission {
                    Submission::Form(form) => view_model::read(pending, form).map_err(at)?,
                    Submission::Json(value) => submission::answer(&value).map_err(at)?,
                    Submission::Nothing => submission::answer(&Value::Null).map_err(at)?,
                };
                let answer = Answered { option, form, by };
                self.engine.admission().answer(id, Some(&step), answer).await.map(|()| "answered")
            }
            (_, Submission::Form(_)) => {
                let message = "this waits for an event, whose data is sent as JSON";
                let fault =
                    ResumeError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message);
                return Err(at(fault));
            }
            (_, Submission::Json(data)) => {
                self.engine.admission().signal(id, Some(&step), data, by).await.map(|()| "delivered")
            }
            (_, Submission::Nothing) => {
                self.engine.admission().signal(id, Some(&step), Value::Null, by).await.map(|()| "delivered")
            }
        };
        match submission {
            Ok(word) => Ok((step, word)),
            Err(error) => Err(at(refused(error))),
        }
    }

    async fn view_model(&self, asking: &Target) -> Result<ResumeView, ResumeError> {
        ResumeView::load(&self.engine, asking.id).await
    }

    /// Writes a line of the access log. The token is a secret, so the line names the execution instead.
    fn note(&self, head: &Parts, asking: &Target, answer: Answer) -> Answer {
        let status = answer.status().as_u16();
        tracing::debug!(execution = %asking.id, method = %head.method, status, "answered at a resume address");
        answer
    }
}

impl Target {
    /// The URL of a step, relative to the request's.
    fn link(&self, step: &str) -> String {
        format!("{}{}", self.base, utf8_percent_encode(step, NON_ALPHANUMERIC))
    }

    fn focus(&self) -> Option<&str> {
        self.step.as_deref()
    }
}

fn unknown_step() -> ResumeError {
    ResumeError::new(StatusCode::NOT_FOUND, "unknown_step", "the execution asks nothing under this address")
}

/// The reason why a submission did not reach a step.
fn refused(error: SignalError) -> ResumeError {
    let message = error.to_string();
    let fault = |status, code| ResumeError::new(status, code, message.clone());
    match error {
        SignalError::NotWaiting => fault(StatusCode::CONFLICT, "not_waiting"),
        SignalError::Several(_) => fault(StatusCode::CONFLICT, "several_waiting"),
        SignalError::Answer(_) => fault(StatusCode::BAD_REQUEST, "bad_answer"),
        SignalError::TooMany => fault(StatusCode::TOO_MANY_REQUESTS, "too_many_events"),
        SignalError::Engine(error) => failure(&error),
    }
}

/// The response while the daemon stops.
const STOPPING: &str = "the daemon is stopping; try again in a moment";

/// A failure of the engine, without details for the public.
fn failure(error: &runtime::Error) -> ResumeError {
    let unavailable =
        |message: &str| ResumeError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
    match error {
        runtime::Error::NoSuchExecution(_) => ResumeError::unknown(),
        runtime::Error::Closing => unavailable(STOPPING),
        runtime::Error::Busy { .. } | runtime::Error::ReadersBusy { .. } | runtime::Error::Unanswered => {
            unavailable("this cannot be answered at the moment; try again")
        }
        // The log has one line per outage, not one per request.
        runtime::Error::Store(error) if error.kind() != FailureKind::Other => match error.kind() {
            FailureKind::Closing => unavailable(STOPPING),
            _ => unavailable("this cannot be stored at the moment; try again"),
        },
        error => {
            // Errors of the store or a file are only logged by the daemon.
            tracing::error!(%error, "a resume address cannot be answered");
            unavailable("this cannot be answered at the moment; the daemon's log says why")
        }
    }
}

fn page_of(view_model: &ResumeView, asking: &Target, draft: Option<&page::RejectedSubmission>) -> Reply {
    let focus = view_model.focus(asking.focus());
    let status = match (&draft, &focus) {
        (Some(draft), _) => draft.fault.status,
        (None, Focus::Unknown) => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    };
    Reply::Page(status, page::view_model(view_model, &focus, &|step| asking.link(step), draft))
}

fn failed(fault: &ResumeError, as_page: bool) -> Reply {
    if as_page {
        return Reply::Page(fault.status, page::fault(fault));
    }
    Reply::Json(fault.status, serde_json::json!({ "error": fault.message, "code": fault.code }))
}

/// A page with a message and no form.
pub(crate) fn notice(status: StatusCode, heading: &str, text: &str) -> Answer {
    answer(Reply::Page(status, page::notice(heading, text)))
}

fn answer(reply: Reply) -> Answer {
    let (status, kind, body) = match reply {
        Reply::Page(status, markup) => (status, "text/html; charset=utf-8", markup.into_string()),
        Reply::Json(status, value) => (status, submission::JSON, value.to_string()),
        Reply::Redirect(place) => {
            let mut response = answer(Reply::Json(StatusCode::SEE_OTHER, serde_json::json!({})));
            // It consists of a token and of escapes.
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

/// True if the client accepts a page: unless it requests JSON.
fn wants_page(head: &Parts) -> bool {
    let accept = head.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let wanted: Vec<&str> = accept.flat_map(|value| value.split(',')).map(media).collect();
    wanted.contains(&"text/html") || !wanted.contains(&submission::JSON)
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media(value).to_ascii_lowercase()
}

/// A media type without its parameters.
fn media(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}
