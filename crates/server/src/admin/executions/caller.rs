//! The answer that the caller of a webhook got, as the API shows it.

use ingress::Caller;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::large;
use super::recorded::Cuts;
use crate::admin::extract::outside;

/// The response that the caller of a webhook received.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Caller)]
pub(crate) struct CallerView {
    /// `answered`, `waits` (a synchronous webhook, no answer yet), or `left` (the daemon stopped before the answer).
    state: CallerState,
    /// The answer that it got.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<AnswerView>,
}

/// The state of the caller of a webhook: `waits` for the answer of a synchronous one, `left` if the daemon stopped before
/// the answer.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum CallerState {
    Answered,
    Waits,
    Left,
}

/// An answer to the caller of a webhook, derived from the log and the definition.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CallerAnswer)]
pub(crate) struct AnswerView {
    /// When it was decided.
    at: Timestamp,
    /// The source of the response: `accepted` (the default of an asynchronous webhook), `static` (its `respond`), `code` (the code of the
    /// trigger), `respond` (a step), `result` or `failure` (the end of the execution), `timeout`.
    by: ingress::AnsweredBy,
    /// The status code.
    status: u16,
    /// The headers in order.
    headers: Vec<(String, String)>,
    /// The body as a file: `contentType`, `size`, `encoding` (`utf8` or `base64`), `data`.
    #[schema(value_type = value::Json)]
    body: serde_json::Value,
}

impl CallerView {
    /// Replaces a large body.
    pub(crate) fn cut(&mut self, cuts: Option<&Cuts>) {
        if let Some(answer) = &mut self.answer {
            large::cut(&mut answer.body, "/caller/answer/body", cuts);
        }
    }
}

impl From<Caller> for CallerView {
    fn from(caller: Caller) -> Self {
        let state = match &caller {
            Caller::Answered(_) => CallerState::Answered,
            Caller::Waits => CallerState::Waits,
            Caller::Left => CallerState::Left,
        };
        let Caller::Answered(answer) = caller else { return Self { state, answer: None } };
        let headers = answer.response.headers.iter();
        let answer = AnswerView {
            at: answer.at,
            by: answer.by,
            status: answer.response.status,
            headers: headers.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            body: outside(&answer.response)["body"].take(),
        };
        Self { state, answer: Some(answer) }
    }
}
