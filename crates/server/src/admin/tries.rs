//! The tries of one step, from the events of its execution.

use jiff::Timestamp;
use model::execution::DelayReason;
use model::{Event, StepOutcome};
use serde::Serialize;
use utoipa::ToSchema;

use super::described::ErrorInfo;
use super::extract::outside;

/// One try of a step.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Try)]
pub(crate) struct TryView {
    /// Its number, from 1.
    attempt: u32,
    /// When it began; absent if the log does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Timestamp>,
    /// When it ended; absent while it runs, and if the daemon stopped in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    finished_at: Option<Timestamp>,
    /// How long it worked, in milliseconds: without its waits for commits where the log tells them apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<f64>,
    /// How long it waited for commits, before its call and in it, in milliseconds, if that was long.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_ms: Option<u64>,
    /// The part of it after the beginning of the try, which is not work.
    #[serde(skip)]
    inside_ms: u64,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ErrorInfo>)]
    error: Option<serde_json::Value>,
}

/// The tries of a step, folded event by event.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Tries {
    list: Vec<TryView>,
    /// The instant at which the next try is due.
    #[serde(skip)]
    due: Option<Timestamp>,
    /// The waits for commits of a try whose beginning has not been read yet, in milliseconds.
    #[serde(skip)]
    commit_ms: u64,
}

impl Tries {
    /// True if the step's own fields tell everything: one try, which waited for nothing.
    pub(crate) fn are_plain(&self) -> bool {
        match self.list.as_slice() {
            [] => true,
            [one] => one.commit_ms.is_none(),
            _ => false,
        }
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::StepStarted { at, attempt, .. } => self.begin(*attempt, Some(*at)),
            Event::StepRetry { at, attempt, error, next_at, .. } => {
                self.end(*attempt, *at, Some(outside(error)));
                self.due = Some(*next_at);
            }
            Event::StepFailed { at, error, .. } => {
                let attempt = self.open().map_or_else(|| self.next_number(), |open| open.attempt);
                self.end(attempt, *at, Some(outside(error)));
            }
            Event::Waited { reason: DelayReason::Commit, ms, .. } => self.wait_for_commit(*ms),
            // The step is over; `finish` has its duration.
            Event::StepFinished { outcome: StepOutcome::Skipped, .. } => self.list.clear(),
            _ => {}
        }
    }

    /// Records the end of the step: of its last try, unless that has ended with a failure that steps handled.
    pub(crate) fn finish(
        &mut self,
        attempts: u32,
        begun: Timestamp,
        at: Timestamp,
        took_ms: Option<f64>,
        error: Option<&serde_json::Value>,
    ) {
        if self.list.last().is_some_and(|last| last.attempt >= attempts && last.finished_at.is_some()) {
            return;
        }
        if self.open().is_none() {
            self.begin(attempts, Some(begun));
        }
        if let Some(last) = self.list.last_mut() {
            (last.finished_at, last.took_ms, last.error) = (Some(at), took_ms, error.cloned());
        }
    }

    /// Records a wait for a commit: within the open try, or before the next one.
    fn wait_for_commit(&mut self, ms: u64) {
        match self.list.last_mut().filter(|last| last.finished_at.is_none()) {
            Some(open) => {
                open.commit_ms = Some(open.commit_ms.unwrap_or_default() + ms);
                open.inside_ms += ms;
            }
            None => self.commit_ms += ms,
        }
    }

    fn open(&self) -> Option<&TryView> {
        self.list.last().filter(|last| last.finished_at.is_none())
    }

    fn next_number(&self) -> u32 {
        self.list.last().map_or(1, |last| last.attempt + 1)
    }

    fn take_commit(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.commit_ms)).filter(|ms| *ms > 0)
    }

    fn begin(&mut self, attempt: u32, at: Option<Timestamp>) {
        self.due = None;
        let commit_ms = self.take_commit();
        self.list.push(TryView { attempt, started_at: at, commit_ms, ..TryView::default() });
    }

    fn end(&mut self, attempt: u32, at: Timestamp, error: Option<serde_json::Value>) {
        if self.open().is_none_or(|open| open.attempt != attempt) {
            let due = self.due.take();
            self.begin(attempt, due);
        }
        if let Some(last) = self.list.last_mut() {
            let took = last.started_at.map(|start| start.duration_until(at).as_secs_f64() * 1000.0);
            let took = took.map(|took| (took - last.inside_ms as f64).max(0.0));
            (last.finished_at, last.took_ms, last.error) = (Some(at), took, error);
        }
    }
}

#[cfg(test)]
mod tests {
    use model::ActionError;
    use model::action::ErrorKind;
    use serde_json::json;
    use value::Value;

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).expect("an instant")
    }

    fn step() -> String {
        "a".to_owned()
    }

    fn retry(ms: i64, attempt: u32, next: i64) -> Event {
        let error = ActionError::new(ErrorKind::Network, "refused");
        Event::StepRetry { at: at(ms), step: step(), attempt, error, next_at: at(next) }
    }

    fn folded(events: &[Event]) -> serde_json::Value {
        let steps = super::super::history::steps(events, None);
        serde_json::to_value(&steps).expect("JSON")[0]["tries"].clone()
    }

    #[test]
    fn each_try_has_its_beginning_its_end_and_its_error() {
        let error = json!({"kind": "network", "message": "refused"});
        let started = |ms, attempt| Event::StepStarted { at: at(ms), step: step(), attempt };
        let outcome = StepOutcome::Succeeded { result: Value::Null };
        let events = [
            started(0, 1),
            retry(5, 1, 1000),
            started(1000, 2),
            retry(1010, 2, 2000),
            Event::StepFinished { at: at(2007), step: step(), took_us: 7000, outcome },
        ];
        let expected = json!([
            {"attempt": 1, "startedAt": at(0), "finishedAt": at(5), "tookMs": 5.0, "error": error},
            {"attempt": 2, "startedAt": at(1000), "finishedAt": at(1010), "tookMs": 10.0, "error": error},
            {"attempt": 3, "startedAt": at(2000), "finishedAt": at(2007), "tookMs": 7.0},
        ]);
        pretty_assertions::assert_eq!(folded(&events), expected);
    }

    #[test]
    fn a_failure_that_steps_handle_is_the_end_of_the_last_try() {
        let error = ActionError::new(ErrorKind::Network, "refused");
        let handled = StepOutcome::Failed { error: error.clone(), handled: Some(Value::Null) };
        let events = [
            retry(5, 1, 1000),
            Event::StepFailed { at: at(1008), step: step(), error },
            Event::StepFinished { at: at(1500), step: step(), took_us: 8000, outcome: handled },
        ];
        let tries = folded(&events);
        assert_eq!(tries.as_array().map(Vec::len), Some(2));
        assert_eq!((&tries[1]["startedAt"], &tries[1]["tookMs"]), (&json!(at(1000)), &json!(8.0)));
        assert_eq!(tries[0].get("startedAt"), None);
    }

    #[test]
    fn the_wait_for_a_commit_is_told_apart_from_the_work() {
        let waited = Event::Waited { at: at(400), step: Some(step()), reason: DelayReason::Commit, ms: 400 };
        let outcome = StepOutcome::Succeeded { result: Value::Null };
        let events = [
            waited,
            Event::StepStarted { at: at(400), step: step(), attempt: 1 },
            Event::StepFinished { at: at(410), step: step(), took_us: 10_000, outcome },
        ];
        let tries = folded(&events);
        assert_eq!((&tries[0]["commitMs"], &tries[0]["tookMs"]), (&json!(400), &json!(10.0)));
    }
}
