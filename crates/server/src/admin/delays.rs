//! The waits of an execution that have ended, each with its cause and the one who ended it.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use model::Event;
use model::execution::WaitReason;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::described::DelayReasonInfo;
use super::extract::outside;

/// A wait of an execution, or of one of its steps.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delay)]
pub(crate) struct DelayView {
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    from: Timestamp,
    /// When it ended.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// The step that waited; absent if the whole execution did.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    /// The cause. No step asked for these: `kind` is `slot`, `memory`, `permit` (with `key`, and the `holder`, an execution), `commit`,
    /// `host` (with `host`), or `interrupted` (the daemon had stopped). Steps asked for these: `retry`, `time`, `event` (with
    /// `name`), `approval` or `call` (with `execution`).
    #[schema(value_type = DelayReasonInfo)]
    reason: serde_json::Value,
    /// Its length in milliseconds.
    ms: u64,
    /// The sender of the signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// The waits of an execution that have ended, in the order of their beginning.
pub(crate) fn waits(events: &[Event]) -> Vec<DelayView> {
    let mut fold = Fold::default();
    for (index, event) in events.iter().enumerate() {
        fold.apply(event, index.checked_sub(1).and_then(|before| events.get(before)));
    }
    fold.ended.sort_by_key(|wait| wait.from);
    fold.ended
}

/// The status of the answer that a caller got and that the execution did not decide.
pub(crate) fn answered(events: &[Event]) -> Option<u16> {
    events.iter().find_map(|event| match event {
        Event::Answered { status, .. } => Some(*status),
        _ => None,
    })
}

/// An open wait.
struct Open {
    from: Timestamp,
    reason: serde_json::Value,
    /// The instant at which it ends by itself.
    until: Option<Timestamp>,
    /// The senders of its signals, by the id of the signal.
    senders: HashMap<String, Option<String>>,
}

#[derive(Default)]
struct Fold {
    ended: Vec<DelayView>,
    /// The open waits by step; the empty name is the whole execution.
    open: HashMap<String, Open>,
}

impl Fold {
    fn apply(&mut self, event: &Event, before: Option<&Event>) {
        match event {
            Event::Waited { at, step, reason, ms } => {
                let length = SignedDuration::from_millis(i64::try_from(*ms).unwrap_or(i64::MAX));
                let from = at.checked_sub(length).unwrap_or(*at);
                let reason = outside(reason);
                self.ended.push(DelayView { from, at: *at, step: step.clone(), reason, ms: *ms, by: None });
            }
            Event::Resumed { at, waited: false } => {
                let from = before.map_or(*at, Event::at);
                self.push(from, *at, None, json!({"kind": "interrupted"}), None);
            }
            Event::StepRetry { at, step, next_at, .. } => {
                self.end(step, *at, None);
                self.begin(step, *at, json!({"kind": "retry"}), Some(*next_at));
            }
            Event::Retried { at, next_at, .. } => {
                self.end_all(*at);
                self.begin("", *at, json!({"kind": "retry"}), Some(*next_at));
            }
            // Waits of the same step that go on after a restart are one.
            Event::Waiting { at, step, until, on, .. }
                if self.open.get(step).is_none_or(|open| open.reason["kind"] == "retry") =>
            {
                self.end(step, *at, None);
                self.begin(step, *at, reason(on), *until);
            }
            Event::Signalled { step, signal, .. } => {
                if let Some(open) = self.open.get_mut(step) {
                    open.senders.insert(signal.id.clone(), signal.by.clone());
                }
            }
            Event::WaitEnded { at, step, signal } => self.end(step, *at, signal.as_deref()),
            Event::StepStarted { at, step, .. }
            | Event::StepFailed { at, step, .. }
            | Event::StepFinished { at, step, .. } => {
                self.end("", *at, None);
                self.end(step, *at, None);
            }
            Event::Finished { at, .. } | Event::Failing { at, .. } | Event::Cancelling { at, .. } => {
                self.end_all(*at);
            }
            _ => {}
        }
    }

    fn begin(&mut self, step: &str, from: Timestamp, reason: serde_json::Value, until: Option<Timestamp>) {
        self.open.insert(step.to_owned(), Open { from, reason, until, senders: HashMap::new() });
    }

    fn end(&mut self, step: &str, at: Timestamp, signal: Option<&str>) {
        let Some(open) = self.open.remove(step) else { return };
        let by = signal.and_then(|id| open.senders.get(id).cloned().flatten());
        // A step may work between the end of its pause and the event that tells of it.
        let ends_by_itself = matches!(open.reason["kind"].as_str(), Some("retry" | "time"));
        let at = open.until.filter(|until| ends_by_itself && *until < at).unwrap_or(at);
        let step = Some(step.to_owned()).filter(|step| !step.is_empty());
        self.push(open.from, at, step, open.reason, by);
    }

    fn end_all(&mut self, at: Timestamp) {
        let mut steps: Vec<String> = self.open.keys().cloned().collect();
        steps.sort_unstable();
        for step in steps {
            self.end(&step, at, None);
        }
    }

    fn push(
        &mut self,
        from: Timestamp,
        at: Timestamp,
        step: Option<String>,
        reason: serde_json::Value,
        by: Option<String>,
    ) {
        let ms = u64::try_from(from.duration_until(at).as_millis()).unwrap_or_default();
        // The pause before a turn of a loop is recorded under `poll[2]#delay`.
        let step = step.map(|step| step.split('#').next().unwrap_or_default().to_owned());
        self.ended.push(DelayView { from, at, step, reason, ms, by });
    }
}

/// The cause of a pause, without the question and the options of an approval, which the step's result tells.
fn reason(on: &WaitReason) -> serde_json::Value {
    match on {
        WaitReason::Approval { .. } => json!({"kind": "approval"}),
        on => outside(on),
    }
}

#[cfg(test)]
mod tests {
    use model::action::ErrorKind;
    use model::execution::{DelayReason, Signal};
    use model::{ActionError, StepOutcome};
    use value::Value;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("an instant")
    }

    fn check(events: &[Event], expected: serde_json::Value) {
        let shown = serde_json::to_value(waits(events)).expect("JSON");
        pretty_assertions::assert_eq!(shown, expected);
    }

    #[test]
    fn waits_and_the_answer_after_a_timeout_are_part_of_an_execution() {
        let reason = DelayReason::Permit { key: "k".to_owned(), holder: None };
        let waited = Event::Waited { at: at(1), step: None, reason, ms: 250 };
        let events = [waited, Event::Answered { at: at(2), status: 504 }];
        let from = Timestamp::from_millisecond(750).expect("an instant");
        let reason = json!({"kind": "permit", "key": "k"});
        check(&events, json!([{"from": from, "at": at(1), "reason": reason, "ms": 250}]));
        assert_eq!(answered(&events), Some(504));
    }

    #[test]
    fn a_pause_names_what_it_was_for_and_who_ended_it() {
        let step = || "a".to_owned();
        let on = WaitReason::Event { name: "paid".into() };
        let waiting = Event::Waiting { at: at(1), step: step(), until: None, limit: None, on };
        let signal =
            Signal { id: "s".into(), name: "paid".into(), data: Value::Null, by: Some("the shop".into()) };
        let events = [
            waiting.clone(),
            Event::Signalled { at: at(4), step: step(), signal },
            waiting,
            Event::WaitEnded { at: at(5), step: step(), signal: Some("s".into()) },
        ];
        let reason = json!({"kind": "event", "name": "paid"});
        check(
            &events,
            json!([{"from": at(1), "at": at(5), "step": "a", "reason": reason, "ms": 4000, "by": "the shop"}]),
        );
    }

    #[test]
    fn the_delay_before_a_retry_and_an_interruption_are_waits() {
        let error = ActionError::new(ErrorKind::Network, "refused");
        let retry = Event::StepRetry { at: at(1), step: "a".into(), attempt: 1, error, next_at: at(3) };
        let outcome = StepOutcome::Succeeded { result: Value::Null };
        let events = [
            retry,
            Event::Resumed { at: at(2), waited: false },
            Event::StepFinished { at: at(9), step: "a".into(), took_us: 0, outcome },
        ];
        check(
            &events,
            json!([
                {"from": at(1), "at": at(2), "reason": {"kind": "interrupted"}, "ms": 1000},
                {"from": at(1), "at": at(3), "step": "a", "reason": {"kind": "retry"}, "ms": 2000},
            ]),
        );
    }
}
