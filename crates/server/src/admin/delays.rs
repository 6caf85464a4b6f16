//! The waits of an execution that have ended, each with its cause and the one who ended it.

use jiff::Timestamp;
use model::execution::{History, PastWait, WaitCause, WaitEnd, WaitReason};
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
pub(crate) fn waits(history: &History<'_>) -> Vec<DelayView> {
    let mut waits: Vec<DelayView> =
        history.ended_waits().map(|(wait, end)| DelayView::new(wait, end)).collect();
    waits.sort_by_key(|wait| wait.from);
    waits
}

impl DelayView {
    fn new(wait: &PastWait<'_>, end: &WaitEnd<'_>) -> Self {
        let reason = match wait.cause {
            WaitCause::Delay(reason) => outside(reason),
            WaitCause::Interrupted => json!({"kind": "interrupted"}),
            WaitCause::Retry => json!({"kind": "retry"}),
            WaitCause::Step(on) => waits_for(on),
        };
        Self {
            from: wait.from,
            at: end.at,
            // The delay of a loop's iteration is an entry of its own: `poll[2]#delay`.
            step: wait.step.map(|step| step.split('#').next().unwrap_or_default().to_owned()),
            reason,
            ms: u64::try_from(wait.from.duration_until(end.at).as_millis()).unwrap_or_default(),
            by: end.signal.and_then(|signal| signal.by.clone()),
        }
    }
}

/// The cause of a pause, without the question and the options of an approval, which the step's result tells.
fn waits_for(on: &WaitReason) -> serde_json::Value {
    match on {
        WaitReason::Approval { .. } => json!({"kind": "approval"}),
        on => outside(on),
    }
}

#[cfg(test)]
mod tests {
    use model::action::ErrorKind;
    use model::execution::{DelayReason, Signal};
    use model::{ActionError, Event, StepOutcome};
    use value::Value;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("an instant")
    }

    fn check(events: &[Event], expected: serde_json::Value) {
        let shown = serde_json::to_value(waits(&History::new(events))).expect("JSON");
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
        assert_eq!(History::new(&events).answered, Some(504));
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
