//! A captured request: the request itself, the decision about it, and the response that its sender got.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use model::payload::{HttpResponse, Payload, WebhookPayload};
use serde::{Deserialize, Serialize};
use trigger::Rejection;
use value::Value;
use value::redact::{self, Redactor};

/// A request that arrived during a capture session.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Number within the session, from 1.
    pub number: u32,
    /// Time of arrival.
    pub at: Timestamp,
    /// Kind of a request that could not have started an execution; `None` for all others.
    pub aside: Option<NonTrigger>,
    /// The decision about the request.
    pub verdict: Verdict,
    /// Code of the rejection; `None` if the request would have been accepted.
    pub refused: Option<Cow<'static, str>>,
    /// Cause of the rejection in words for the author, which the sender does not get.
    pub reason: Option<Arc<str>>,
    /// The response that the sender got, without secrets.
    pub answer: Arc<HttpResponse>,
    /// `trigger.results` as the trigger's code decided them; `None` if they follow from the payload.
    pub results: Option<Value>,
    /// Size of the request's body in bytes, as it was sent.
    pub bytes: usize,
    /// The request without headers that may contain credentials.
    pub payload: Arc<Payload>,
}

/// Decision about a request that was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CaptureVerdict)]
pub enum Verdict {
    /// It would have started an execution.
    #[default]
    Accepted,
    /// The trigger's `if` is false: it would have started nothing.
    Filtered,
    /// The trigger's code decided that no step runs.
    Declined,
    /// It was rejected.
    Refused,
    /// It is of a kind that never starts an execution.
    NonTrigger,
}

/// Kinds of requests that never start an execution. They are shown and do not count towards the limit of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NonTrigger {
    /// A challenge that the sender issues before its first event.
    Challenge,
    /// A request about the address itself: `HEAD`, `OPTIONS`.
    Probe,
    /// A request about an event other than the one that starts the Automation.
    Ignored,
}

impl NonTrigger {
    /// The word in the API: `challenge`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::Probe => "probe",
            Self::Ignored => "ignored",
        }
    }
}

/// Decision about a request that starts no execution.
#[derive(Default)]
pub(crate) struct RequestPreview {
    pub(crate) verdict: Verdict,
    /// The response; `None` for the one to captured requests.
    pub(crate) response: Option<HttpResponse>,
    /// `trigger.results` of the trigger's code.
    pub(crate) results: Option<Value>,
}

/// The parts of a capture other than the request.
pub(crate) struct CaptureOutcome {
    pub(crate) aside: Option<NonTrigger>,
    pub(crate) verdict: Verdict,
    pub(crate) refused: Option<&'static str>,
    pub(crate) reason: Option<Arc<str>>,
    pub(crate) answer: HttpResponse,
    pub(crate) results: Option<Value>,
    /// Size of the request's body as it was sent.
    pub(crate) bytes: usize,
}

impl CaptureOutcome {
    /// The outcome of a request with a body of this size, and this response or rejection. Secrets are removed from both.
    pub(crate) fn new(
        bytes: usize,
        aside: Option<NonTrigger>,
        verdict: Verdict,
        answer: &Result<HttpResponse, Rejection>,
        redactor: &Redactor,
    ) -> Self {
        let rejection = answer.as_ref().err();
        let reason = rejection.map(|found| found.detail.as_deref().unwrap_or(&found.message));
        Self {
            aside,
            verdict,
            refused: rejection.map(|found| found.code),
            reason: reason.map(|reason| redactor.redact_text(reason).into()),
            answer: without_secrets(answer.clone().unwrap_or_else(|found| found.response()), redactor),
            results: None,
            bytes,
        }
    }
}

/// Masks the headers that carry credentials, such as the secret that a challenge echoes, and all known secrets.
fn without_secrets(mut answer: HttpResponse, redactor: &Redactor) -> HttpResponse {
    for (name, value) in &mut answer.headers {
        if redact::is_credential_name(&name.to_ascii_lowercase()) {
            *value = redact::MASK.into();
        } else {
            *value = redactor.redact_text(value).into_owned().into();
        }
    }
    if let Some(masked) = answer.body.in_memory().and_then(|body| redactor.redact_bytes(body)) {
        answer.body = masked.into();
    }
    answer
}

impl Capture {
    pub(super) fn new(number: u32, at: Timestamp, outcome: CaptureOutcome, payload: WebhookPayload) -> Self {
        let CaptureOutcome { aside, verdict, refused, reason, answer, results, bytes } = outcome;
        let (answer, payload) = (Arc::new(answer), Arc::new(Payload::Webhook(payload)));
        let refused = refused.map(Cow::Borrowed);
        Self { number, at, aside, verdict, refused, reason, answer, results, bytes, payload }
    }

    /// Approximate size in memory, in bytes.
    pub(super) fn memory(&self) -> usize {
        let Payload::Webhook(payload) = &*self.payload else { return 0 };
        let headers: usize = payload.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let body = payload.body.data.len();
        // The query is stored raw and decoded. Results of code are about as large as the request.
        let results = if self.results.is_some() { body } else { 0 };
        let answer = self.answer.body.len();
        body + results + answer + headers + 2 * payload.raw_query.len() + payload.path_fragment.len()
    }
}
