//! The waits of an execution that have ended, each with its cause and the one who ended it.

use jiff::Timestamp;
use model::execution::{DelayReason, History, PastWait, WaitCause, WaitEnd, WaitReason};
use serde::Serialize;
use utoipa::ToSchema;

/// A wait of an execution, or of one of its steps.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delay)]
pub(crate) struct DelayView {
    /// When it began.
    from: Timestamp,
    /// When it ended.
    at: Timestamp,
    /// The step that waited; absent if the whole execution did.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    /// The cause.
    reason: Cause,
    /// Its length in milliseconds.
    ms: u64,
    /// The sender of the signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// Reason for the wait of an execution or a step.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = DelayReason)]
enum Cause {
    Held(DelayReason),
    Paused(PauseReason),
}

/// The cause of a wait that a step asked for, or that the daemon had stopped.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum PauseReason {
    /// The daemon had stopped.
    Interrupted,
    /// A delay before the next attempt.
    Retry,
    /// A time.
    Time,
    /// An event.
    Event {
        /// Its name.
        name: String,
    },
    /// An answer of a person.
    Approval,
    /// The end of a called execution.
    Call {
        /// The called execution.
        execution: String,
    },
    /// Work that goes on at a service.
    Operation {
        /// The id that the service has given it.
        id: String,
    },
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
            WaitCause::Delay(reason) => Cause::Held(reason.clone()),
            WaitCause::Interrupted => Cause::Paused(PauseReason::Interrupted),
            WaitCause::Retry => Cause::Paused(PauseReason::Retry),
            WaitCause::Step(on) => Cause::Paused(waits_for(on)),
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
fn waits_for(on: &WaitReason) -> PauseReason {
    match on {
        WaitReason::Time => PauseReason::Time,
        WaitReason::Event { name } => PauseReason::Event { name: name.clone() },
        WaitReason::Approval { .. } => PauseReason::Approval,
        WaitReason::Call { execution } => PauseReason::Call { execution: execution.to_string() },
        WaitReason::Operation { id, .. } => PauseReason::Operation { id: id.clone() },
    }
}

#[cfg(test)]
mod tests {
    use model::action::ErrorKind;
    use model::execution::Signal;
    use model::{ActionError, Event, StepOutcome};
    use serde_json::json;
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
    fn waits_and_a_504_response_are_part_of_the_history() {
        let reason = DelayReason::Permit { key: "k".to_owned(), holder: None };
        let waited = Event::Waited { at: at(1), step: None, reason, ms: 250 };
        let events = [waited, Event::Answered { at: at(2), status: 504 }];
        let from = Timestamp::from_millisecond(750).expect("an instant");
        let reason = json!({"kind": "permit", "key": "k"});
        check(&events, json!([{"from": from, "at": at(1), "reason": reason, "ms": 250}]));
        assert_eq!(History::new(&events).answered, Some(504));
    }

    #[test]
    fn a_pause_names_its_reason_and_the_sender_of_the_signal() {
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
    fn the_pauses_between_the_looks_at_an_operation_are_one_wait() {
        let waiting = |second, looks| Event::Waiting {
            at: at(second),
            step: "a".into(),
            until: Some(at(second + 2)),
            limit: None,
            on: WaitReason::Operation { id: "7".into(), looks },
        };
        let outcome = StepOutcome::Succeeded { result: Value::Null };
        let finished = Event::StepFinished { at: at(6), step: "a".into(), took_us: 0, outcome };
        let events = [waiting(1, 0), waiting(3, 1), finished];
        let open = History::new(&events[..2]);
        let (_, on, wait) = open.step_waits().last().expect("it waits");
        assert_eq!((on, wait.until), (&WaitReason::Operation { id: "7".into(), looks: 1 }, Some(at(5))));
        let reason = json!({"kind": "operation", "id": "7"});
        check(&events, json!([{"from": at(1), "at": at(6), "step": "a", "reason": reason, "ms": 5000}]));
    }

    #[test]
    fn the_delay_before_a_retry_and_an_interruption_are_waits() {
        let error = ActionError::new(ErrorKind::Network, "refused");
        let retry =
            Event::StepRetry { at: at(1), step: "a".into(), attempt: 1, error, next_at: at(3), policy: None };
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
