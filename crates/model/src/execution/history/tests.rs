use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::action::ErrorKind;
use crate::execution::{DelayReason, Jump, StepOutcome};
use value::Map;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).expect("an instant")
}

fn error() -> ActionError {
    ActionError::new(ErrorKind::Network, "refused")
}

fn accepted() -> Event {
    Event::Started {
        at: at(0),
        automation: AutomationId::parse("a").expect("an id"),
        definition: DefinitionHash::from_bytes([1; 32]),
        origin: Origin::Manual,
        payload: Arc::new(Payload::Manual { inputs: Map::default() }),
        trigger: TriggerId::MAIN,
        inputs: None,
    }
}

fn started(ms: i64, attempt: u32) -> Event {
    Event::StepStarted { at: at(ms), step: "a".to_owned(), attempt }
}

fn retry(ms: i64, attempt: u32, next: i64) -> Event {
    Event::StepRetry {
        at: at(ms),
        step: "a".to_owned(),
        attempt,
        error: error(),
        next_at: at(next),
        policy: None,
    }
}

fn finished(ms: i64, step: &str, outcome: StepOutcome) -> Event {
    Event::StepFinished { at: at(ms), step: step.to_owned(), took_us: 7000, outcome }
}

fn succeeded() -> StepOutcome {
    StepOutcome::Succeeded { result: Value::Null }
}

fn failed() -> StepOutcome {
    StepOutcome::Failed { error: error(), handled: None }
}

/// An attempt: number, start, end and duration in milliseconds, and true if it failed.
type Attempt = (u32, Option<i64>, Option<i64>, Option<u128>, bool);

/// Returns the attempts of the step `a`.
fn attempts(events: &[Event]) -> Vec<Attempt> {
    let history = History::new(events);
    let step = history.step("a").expect("the step");
    let ms = |at: Option<Timestamp>| at.map(Timestamp::as_millisecond);
    let attempts = step.attempts.iter().map(|attempt| {
        let took = attempt.took.map(|took| took.as_millis());
        (attempt.number, ms(attempt.started_at), ms(attempt.finished_at), took, attempt.error.is_some())
    });
    attempts.collect()
}

#[test]
fn each_attempt_has_its_start_its_end_and_its_error() {
    let events = [
        started(0, 1),
        retry(5, 1, 1000),
        started(1000, 2),
        retry(1010, 2, 2000),
        finished(2007, "a", succeeded()),
    ];
    let expected = [
        (1, Some(0), Some(5), Some(5), true),
        (2, Some(1000), Some(1010), Some(10), true),
        (3, Some(2000), Some(2007), Some(7), false),
    ];
    assert_eq!(attempts(&events), expected);
}

#[test]
fn an_attempt_that_pauses_is_one_attempt() {
    let on = WaitReason::Operation { id: "7".to_owned(), looks: 0 };
    let waiting = Event::Waiting { at: at(5), step: "a".to_owned(), until: Some(at(900)), limit: None, on };
    let events = [started(0, 1), waiting, finished(1000, "a", succeeded())];
    assert_eq!(attempts(&events).len(), 1);
    assert_eq!(History::new(&events).step("a").expect("the step").attempt, 1);
}

#[test]
fn a_handled_failure_is_the_end_of_the_last_attempt() {
    let handled = StepOutcome::Failed { error: error(), handled: Some(Value::Null) };
    let failure = Event::StepFailed { at: at(1008), step: "a".to_owned(), error: error() };
    let events = [retry(5, 1, 1000), failure, finished(1500, "a", handled)];
    assert_eq!(
        attempts(&events),
        [(1, None, Some(5), None, true), (2, Some(1000), Some(1008), Some(8), true)]
    );
    let history = History::new(&events);
    let answers: Vec<bool> = history.answers().iter().map(|(_, answer)| answer.is_ok()).collect();
    assert_eq!(answers, [false, false], "its failure counts once");
}

#[test]
fn a_failure_of_an_earlier_run_of_a_step_is_not_in_its_last_run() {
    let handled = StepOutcome::Failed { error: error(), handled: Some(Value::Null) };
    let failure = Event::StepFailed { at: at(1), step: "a".to_owned(), error: error() };
    let left = StepOutcome::Jumped { by: Jump::Break, result: Value::Null };
    let events = [failure, finished(2, "a", handled), finished(9, "a", left)];
    let failures = |count| History::new(&events[..count]).step("a").expect("the step").failure.is_some();
    assert_eq!((failures(2), failures(3)), (true, false));
}

#[test]
fn the_wait_for_a_commit_is_separate_from_the_duration_of_an_attempt() {
    let waited =
        |ms| Event::Waited { at: at(ms), step: Some("a".to_owned()), reason: DelayReason::Commit, ms: 400 };
    let events = [waited(400), started(400, 1), finished(410, "a", succeeded())];
    let history = History::new(&events);
    let attempt = history.step("a").expect("the step").attempts[0];
    assert_eq!(
        (attempt.committing, attempt.took),
        (Duration::from_millis(400), Some(Duration::from_millis(7)))
    );
    let events = [started(0, 1), waited(400), retry(500, 1, 1000)];
    assert_eq!(attempts(&events), [(1, Some(0), Some(500), Some(100), true)]);
}

#[test]
fn the_wait_before_the_next_attempt_ends_when_it_is_due() {
    let events = [retry(5, 1, 1000), finished(1500, "a", succeeded())];
    let history = History::new(&events);
    let ended: Vec<_> = history.ended_waits().map(|(wait, end)| (wait.from, end.at)).collect();
    assert_eq!(ended, [(at(5), at(1000))]);
}

#[test]
fn the_failed_step_of_an_execution_includes_its_iteration() {
    let mut error = error();
    error.step = Some("copy".into());
    let end = Event::Finished { at: at(9), outcome: Outcome::Failed { error } };
    let events = [finished(1, "copy[0]", succeeded()), finished(2, "copy[1]", failed()), end];
    assert_eq!(History::new(&events).failed_step(), Some("copy[1]"));
}

#[test]
fn the_index_of_an_event_that_cannot_follow_the_others_is_returned() {
    let end = || Event::Finished { at: at(9), outcome: Outcome::Cancelled { reason: "no".into() } };
    let answer = || Event::Responded { at: at(1), response: HttpResponse::json(200, &Value::Null) };
    let again = Event::Retried { at: at(3), attempt: 1, error: error(), next_at: at(4) };
    let done = || finished(2, "a", succeeded());
    let invalid = |events: &[Event]| History::checked(events).err().map(|invalid| invalid.index);
    assert_eq!(invalid(&[]), Some(0));
    assert_eq!(invalid(&[done()]), Some(0));
    assert_eq!(invalid(&[accepted(), accepted()]), Some(1));
    assert_eq!(invalid(&[accepted(), done(), started(3, 1)]), Some(2));
    assert_eq!(invalid(&[accepted(), done(), done()]), Some(2));
    assert_eq!(invalid(&[accepted(), answer(), answer()]), Some(2));
    assert_eq!(invalid(&[accepted(), end(), done()]), Some(2));
    assert_eq!(invalid(&[accepted(), finished(1, "a", failed()), again.clone(), done(), end()]), None);
    assert_eq!(invalid(&[accepted(), done(), again, done()]), Some(3), "a retried execution keeps successes");
    assert_eq!(
        invalid(&[accepted(), finished(1, "b", failed()), retry(2, 1, 3), finished(4, "b", succeeded())]),
        None
    );
}

#[test]
fn a_step_that_was_cut_off_is_left_and_runs_again_with_the_step_around_it() {
    let outcome = StepOutcome::Jumped { by: Jump::Cut, result: Value::from("enough") };
    let closing = Event::StepClosing { at: at(2), step: "b".to_owned(), outcome: outcome.clone() };
    let log = [accepted(), closing, finished(3, "b", outcome), retry(4, 1, 5), finished(6, "b", succeeded())];
    let progress = |count: usize| History::new(&log[..count]).step("b").map(|step| step.progress);
    assert_eq!(progress(2), Some(StepProgress::Running));
    assert_eq!(progress(3), Some(StepProgress::Left));
    assert_eq!(progress(5), Some(StepProgress::Succeeded));
    assert!(History::checked(&log).is_ok());
}

/// An event of one of three steps, by number.
fn any_event(kind: u8, step: u8, ms: i64) -> Event {
    let step = ["a", "b[0]", "poll[1]#delay"][usize::from(step) % 3].to_owned();
    let (at, next_at) = (at(ms), at(ms + 50));
    match kind % 10 {
        0 => Event::StepStarted { at, step, attempt: 1 },
        1 => Event::StepRetry { at, step, attempt: 1, error: error(), next_at, policy: None },
        2 => Event::StepFailed { at, step, error: error() },
        3 => finished(ms, &step, succeeded()),
        4 => Event::Waiting { at, step, until: Some(next_at), limit: None, on: WaitReason::Time },
        5 => Event::WaitEnded { at, step, signal: None },
        6 => Event::Waited { at, step: Some(step), reason: DelayReason::Commit, ms: 5 },
        7 => Event::Resumed { at, waited: false },
        8 => Event::StepClosing { at, step, outcome: succeeded() },
        _ => Event::Retried { at, attempt: 1, error: error(), next_at },
    }
}

proptest! {
    #[test]
    fn no_step_or_wait_is_open_after_the_end_of_any_log(
        kinds in prop::collection::vec((any::<u8>(), any::<u8>()), 0..40),
    ) {
        let mut events = vec![accepted()];
        events.extend(kinds.iter().zip(1..).map(|((kind, step), ms)| any_event(*kind, *step, ms)));
        events.push(Event::Finished { at: at(100), outcome: Outcome::Cancelled { reason: "no".into() } });
        let history = History::new(&events);
        prop_assert!(history.steps().iter().all(|step| !step.progress.is_open()));
        prop_assert!(history.waits.all().all(|wait| wait.end.is_some()));
        prop_assert_eq!(history.waits.all().count(), history.ended_waits().count());
        prop_assert!(history.ended_waits().all(|(wait, end)| wait.from <= end.at || wait.cause == WaitCause::Interrupted));
    }
}
