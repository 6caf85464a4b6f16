//! The events of an execution as people look at them: step by step, with credentials masked.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use model::automation::{Automation, NameSetting, Verb};
use model::execution::{CallRecord, History, Jump, Signal, StepAttempt, StepHistory, StepProgress};
use model::{Event, Payload, StepOutcome};
use serde::Serialize;
use utoipa::ToSchema;
use value::redact::{self, MASK};

use super::large;
use super::recorded::Cuts;
use crate::admin::extract::outside;

/// One step of an execution, or one turn of a step in a loop.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Step)]
pub(crate) struct StepView {
    /// Its step, with the loop turns: `createPage`, `copy[2]`.
    step: String,
    status: StepProgress,
    /// The action that it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    /// The connection that it calls with.
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<String>,
    /// The last request that was sent, as it was sent, or that a rule or the network kept from being sent. A redirect and a
    /// repetition are requests of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<RequestView>,
    /// The automation that a `call` step starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    automation: Option<String>,
    /// The executions that a `call` step started: one for each of its tries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    executions: Vec<String>,
    /// Number of attempts.
    attempts: u32,
    /// Its tries, if there were several or one waited for the store.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tries: Vec<TryView>,
    /// When its last try began.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Timestamp>,
    /// Duration of its last attempt in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<f64>,
    /// When its next try begins, or its pause ends at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<Timestamp>,
    /// For what it pauses, while it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<model::execution::WaitReason>)]
    on: Option<serde_json::Value>,
    /// The signals received so far.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signals: Vec<SignalView>,
    /// The control flow that it started: `break`, `continue` or `stop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<Jump>,
    /// Its result, if it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<value::Json>)]
    result: Option<serde_json::Value>,
    /// Error of its last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<model::ActionError>)]
    error: Option<serde_json::Value>,
    /// The result that `onError` substituted, after which the execution continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<value::Json>)]
    handled: Option<serde_json::Value>,
    /// True if a replay keeps its outcome of the execution that it replays: the step did not run here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    kept: bool,
}

/// A request that an action sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SentRequest)]
pub(crate) struct RequestView {
    method: String,
    /// The address without credentials and query, secrets hidden; at most 300 characters.
    url: String,
}

/// Something that came for a step that paused. What it held is the step's result, if it was what the step waited for.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Signal)]
pub(crate) struct SignalView {
    at: Timestamp,
    /// The event's name; absent for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The sender, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// One try of a step.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Try)]
pub(crate) struct TryView {
    /// Its number, from 1.
    attempt: u32,
    /// When it began; absent if the log does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    /// When it ended; absent while it runs, and if the daemon stopped in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Timestamp>,
    /// Duration of its work in milliseconds: without its waits for commits where the log tells them apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<f64>,
    /// Duration of its waits for commits, before its call and in it, in milliseconds, if that was long.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_ms: Option<u64>,
    /// Its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<model::ActionError>)]
    error: Option<serde_json::Value>,
}

impl From<&StepAttempt<'_>> for TryView {
    fn from(attempt: &StepAttempt<'_>) -> Self {
        let commit_ms = u64::try_from(attempt.committing.as_millis()).unwrap_or(u64::MAX);
        Self {
            attempt: attempt.number,
            started_at: attempt.started_at,
            finished_at: attempt.finished_at,
            took_ms: attempt.took.map(milliseconds),
            commit_ms: Some(commit_ms).filter(|ms| *ms > 0),
            error: attempt.error.map(outside),
        }
    }
}

impl From<&(Timestamp, &Signal)> for SignalView {
    fn from((at, signal): &(Timestamp, &Signal)) -> Self {
        let name = Some(signal.name.clone()).filter(|name| !name.is_empty());
        Self { at: *at, name, by: signal.by.clone() }
    }
}

/// The steps in the order in which they first appear. `automation` is what the execution runs on, where it is known.
pub(crate) fn steps(history: &History<'_>, automation: Option<&Automation>) -> Vec<StepView> {
    let mut verbs = HashMap::new();
    if let Some(automation) = automation {
        automation.walk(&mut |step| {
            verbs.insert(step.id.clone(), &step.verb);
        });
    }
    history.steps().iter().map(|step| StepView::new(step, verbs.get(step.id()).copied())).collect()
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

impl StepView {
    /// The id of the step without its turns.
    pub(crate) fn id(&self) -> &str {
        self.step.split('[').next().unwrap_or_default()
    }

    /// The step with its turns.
    pub(crate) fn key(&self) -> &str {
        &self.step
    }

    /// The status.
    pub(crate) fn status(&self) -> StepProgress {
        self.status
    }

    /// The duration of the last try, in milliseconds.
    pub(crate) fn took_ms(&self) -> Option<f64> {
        self.took_ms
    }

    /// Replaces large values.
    pub(crate) fn cut(&mut self, cuts: Option<&Cuts>) {
        let at = format!("/steps/{}", large::escape(&self.step));
        let values =
            [("result", &mut self.result), ("error", &mut self.error), ("handled", &mut self.handled)];
        for (name, value) in values {
            value.iter_mut().for_each(|value| large::cut(value, &format!("{at}/{name}"), cuts));
        }
    }

    fn new(step: &StepHistory<'_>, verb: Option<&Verb>) -> Self {
        let (mut action, mut connection, mut automation) = (None, None, None);
        let literal = |setting: &NameSetting| setting.literal().map(|name| name.name.clone());
        match verb {
            Some(Verb::Action(call)) => {
                action = Some(call.action.name.clone());
                connection = call.connection.as_ref().and_then(literal);
            }
            Some(Verb::Call(call)) => automation = literal(&call.automation),
            _ => {}
        }
        let (mut request, mut executions) = (None, Vec::new());
        for call in &step.calls {
            match call {
                CallRecord::Request { method, url } => {
                    request = Some(RequestView { method: method.clone(), url: url.clone() });
                }
                CallRecord::Execution { id } => {
                    let id = id.to_string();
                    if !executions.contains(&id) {
                        executions.push(id);
                    }
                }
            }
        }
        let (mut result, mut handled, mut left) = (None, None, None);
        match step.outcome {
            Some(StepOutcome::Succeeded { result: value }) => result = Some(value.to_serde()),
            Some(StepOutcome::Jumped { by, result: value }) => {
                left = Some(*by);
                result = Some(value.to_serde()).filter(|result| !result.is_null());
            }
            Some(StepOutcome::Failed { handled: value, .. }) => {
                handled = value.as_ref().map(value::Value::to_serde);
            }
            Some(StepOutcome::Skipped) | None => {}
        }
        // The fields of the step tell everything of a single try that waited for nothing.
        let is_plain =
            matches!(step.attempts.as_slice(), [] | [StepAttempt { committing: Duration::ZERO, .. }]);
        Self {
            step: step.key.to_owned(),
            status: step.progress,
            action,
            connection,
            request,
            automation,
            executions,
            attempts: step.attempt,
            tries: if is_plain { Vec::new() } else { step.attempts.iter().map(TryView::from).collect() },
            started_at: step.started_at,
            finished_at: step.finished_at,
            took_ms: step.took.map(milliseconds),
            next_at: step.next_at,
            on: step.waits_for.map(outside),
            signals: step.signals.iter().map(SignalView::from).collect(),
            left,
            result,
            error: step.error.map(outside),
            handled,
            kept: step.is_kept,
        }
    }
}

/// A payload as people may see it: headers that may hold a credential are masked.
pub(crate) fn masked(payload: &Payload) -> serde_json::Value {
    let Payload::Webhook(webhook) = payload else { return outside(payload) };
    let mut webhook = webhook.clone();
    for (name, value) in &mut webhook.headers {
        if redact::is_credential_name(name) {
            MASK.clone_into(value);
        }
    }
    outside(&Payload::Webhook(webhook))
}

/// An event as people may see it, with its number from 0.
pub(crate) fn event(index: usize, event: &Event) -> serde_json::Value {
    let mut shown = outside(event);
    if let Some(entries) = shown.as_object_mut() {
        if let Event::Started { payload, .. } = event {
            entries.insert("payload".to_owned(), masked(payload));
        }
        entries.insert("index".to_owned(), index.into());
    }
    shown
}

#[cfg(test)]
mod tests {
    use model::action::ErrorKind;
    use model::execution::{Signal, WaitReason};
    use model::payload::WebhookPayload;
    use model::{ActionError, ExecutionId};
    use serde_json::json;
    use value::{File, Map, Value};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("an instant")
    }

    fn finished(second: i64, step: &str, outcome: StepOutcome) -> Event {
        Event::StepFinished { at: at(second), step: step.to_owned(), took_us: 1500, outcome }
    }

    fn check(events: &[Event], expected: serde_json::Value) {
        let mut found = serde_json::to_value(steps(&History::new(events), None)).expect("JSON");
        for step in found.as_array_mut().into_iter().flatten().filter_map(serde_json::Value::as_object_mut) {
            // `tries` has tests of its own.
            step.shift_remove("tries");
        }
        pretty_assertions::assert_eq!(found, expected);
    }

    #[test]
    fn a_retried_step_counts_its_attempts() {
        let error = ActionError::new(ErrorKind::Network, "refused");
        let step = || "call".to_owned();
        let retry =
            Event::StepRetry { at: at(1), step: step(), attempt: 1, error, next_at: at(5), policy: None };
        check(
            std::slice::from_ref(&retry),
            json!([{
                "step": "call", "status": "waiting", "attempts": 1, "nextAt": "1970-01-01T00:00:05Z",
                "error": {"kind": "network", "message": "refused"},
            }]),
        );
        let started = Event::StepStarted { at: at(5), step: step(), attempt: 2 };
        let done = finished(6, "call", StepOutcome::Succeeded { result: Value::from(1) });
        let expected = json!([{
            "step": "call", "status": "succeeded", "attempts": 2, "result": 1, "tookMs": 1.5,
            "startedAt": "1970-01-01T00:00:05.9985Z", "finishedAt": "1970-01-01T00:00:06Z",
        }]);
        check(&[retry.clone(), started, done.clone()], expected.clone());
        check(&[retry, done], expected);
    }

    #[test]
    fn a_step_names_its_last_request_and_the_executions_it_started() {
        let text = "\
trigger: {manual: {}}
steps:
  - id: page
    action: wiki.getPage
    connection: main
    with: {pageId: \"7\"}
  - id: sub
    call: other
";
        let source = std::sync::Arc::new(text::Source::new("automations/a.yaml", text));
        let automation = language::load::automation(source, "a").value.expect("it loads");
        let id = ExecutionId::from_bytes([7; 16]);
        let called = |step: &str, call| Event::StepCalled { at: at(1), step: step.to_owned(), call };
        let request =
            |method: &str, url: &str| CallRecord::Request { method: method.into(), url: url.into() };
        let events = [
            called("page[0]", request("GET", "https://a.example/old")),
            called("page[0]", request("GET", "https://a.example/new")),
            called("sub", CallRecord::Execution { id }),
            Event::Waiting {
                at: at(2),
                step: "sub".into(),
                until: None,
                limit: None,
                on: WaitReason::Call { execution: id },
            },
        ];
        let shown = serde_json::to_value(steps(&History::new(&events), Some(&automation))).expect("JSON");
        assert_eq!(
            shown[0],
            json!({
                "step": "page[0]", "status": "running", "attempts": 0, "action": "wiki.getPage", "connection": "main",
                "request": {"method": "GET", "url": "https://a.example/new"},
            })
        );
        assert_eq!((&shown[1]["automation"], &shown[1]["executions"]), (&json!("other"), &json!([id])));
    }

    #[test]
    fn steps_are_listed_in_order_of_first_appearance() {
        let error = ActionError::new(ErrorKind::Failed, "no");
        let events = [
            Event::StepStarted { at: at(1), step: "b".into(), attempt: 1 },
            finished(2, "a[0]", StepOutcome::Skipped),
            finished(3, "b", StepOutcome::Failed { error, handled: Some(Value::Null) }),
        ];
        check(
            &events,
            json!([
                {
                    "step": "b", "status": "failed", "attempts": 1, "tookMs": 1.5, "handled": null,
                    "startedAt": "1970-01-01T00:00:02.9985Z", "finishedAt": "1970-01-01T00:00:03Z",
                    "error": {"kind": "failed", "message": "no"},
                },
                {"step": "a[0]", "status": "skipped", "attempts": 0, "finishedAt": "1970-01-01T00:00:02Z"},
            ]),
        );
    }

    #[test]
    fn a_waiting_step_shows_its_reason_and_received_signals() {
        let on = WaitReason::Event { name: "paid".into() };
        let waits = Event::Waiting { at: at(1), step: "a".into(), until: Some(at(9)), limit: None, on };
        let signal =
            Signal { id: "1".into(), name: "paid".into(), data: Value::from(7), by: Some("the shop".into()) };
        let comes = Event::Signalled { at: at(2), step: "a".into(), signal };
        let signals = json!([{"at": "1970-01-01T00:00:02Z", "name": "paid", "by": "the shop"}]);
        let waiting = json!([{
            "step": "a", "status": "waiting", "attempts": 0, "startedAt": "1970-01-01T00:00:01Z",
            "nextAt": "1970-01-01T00:00:09Z", "on": {"kind": "event", "name": "paid"}, "signals": signals,
        }]);
        check(&[waits.clone(), comes.clone()], waiting);
        let broke = finished(3, "a", StepOutcome::Jumped { by: Jump::Break, result: Value::Null });
        check(
            &[waits.clone(), comes, broke],
            json!([{
                "step": "a", "status": "succeeded", "attempts": 1, "tookMs": 2000.0, "left": "break", "signals": signals,
                "startedAt": "1970-01-01T00:00:01Z", "finishedAt": "1970-01-01T00:00:03Z",
            }]),
        );
        let outcome = model::Outcome::Cancelled { reason: "no".into() };
        check(
            &[waits, Event::Finished { at: at(4), outcome }],
            json!([{"step": "a", "status": "left", "attempts": 0, "startedAt": "1970-01-01T00:00:01Z"}]),
        );
    }

    #[test]
    fn headers_that_may_hold_a_credential_are_masked() {
        let headers =
            ["authorization", "cookie", "x-hub-signature-256", "x-api-key", "x-hmac-hash", "user-agent"];
        let payload = Payload::Webhook(WebhookPayload {
            method: "POST".into(),
            path_fragment: String::new(),
            query_parameters: Map::new(),
            raw_query: String::new(),
            headers: headers.iter().map(|name| ((*name).to_owned(), "canary".to_owned())).collect(),
            code_result: None,
            body: File { content_type: "".into(), filename: None, data: value::Data::default() },
        });
        let shown = masked(&payload);
        assert_eq!(shown["headers"]["user-agent"], "canary");
        assert_eq!(shown.to_string().matches("canary").count(), 1);
        assert_eq!(shown["headers"]["cookie"], MASK);
    }
}
