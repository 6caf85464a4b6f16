//! The questions of an execution with their outcomes, folded from its events.

use jiff::Timestamp;
use model::execution::{Event, History, PastWait, Signal, WaitReason};
use value::{Map, Value};

/// A question to a person, asked by an approval step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    /// The step, with its loop iterations.
    pub step: String,
    pub(super) message: String,
    /// The outcome and its time; `None` while the question is open.
    pub(super) end: Option<(Timestamp, QuestionOutcome)>,
}

/// The outcome of a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum QuestionOutcome {
    /// A person answered.
    Answered { option: String, form: Map },
    /// The timeout passed without an answer.
    TimedOut,
    /// The execution continued or ended without an answer.
    Superseded,
}

/// All questions, in the order in which they were asked.
pub(super) fn questions(events: &[Event]) -> Vec<Question> {
    let history = History::new(events);
    let questions = history.step_waits().filter_map(|(step, on, wait)| match on {
        WaitReason::Approval { message, .. } => {
            Some(Question { step: step.to_owned(), message: message.clone(), end: end(wait) })
        }
        _ => None,
    });
    questions.collect()
}

/// The outcome of a question: it is answered once the answer has arrived, even before its step resumes.
fn end(wait: &PastWait<'_>) -> Option<(Timestamp, QuestionOutcome)> {
    if let Some((at, signal)) = wait.signals.iter().find(|(_, signal)| is_answer(signal)) {
        return Some((*at, answer(&signal.data)));
    }
    let end = wait.end.as_ref()?;
    Some((end.at, if end.timed_out { QuestionOutcome::TimedOut } else { QuestionOutcome::Superseded }))
}

/// An answer has no name, an event has one.
fn is_answer(signal: &Signal) -> bool {
    signal.name.is_empty()
}

fn answer(data: &Value) -> QuestionOutcome {
    let entry = |name: &str| data.as_map().and_then(|data| data.get(name));
    QuestionOutcome::Answered {
        option: entry("option").map(Value::to_text).unwrap_or_default(),
        form: entry("form").and_then(Value::as_map).cloned().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use model::action::{ActionError, ErrorKind};
    use model::execution::StepOutcome;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("an instant")
    }

    fn asks(second: i64, step: &str) -> Event {
        let on = WaitReason::Approval { message: "Go on?".into(), options: vec!["yes".into()] };
        Event::Waiting { at: at(second), step: step.into(), until: None, limit: None, on }
    }

    fn comes(second: i64, step: &str, name: &str) -> Event {
        let form = Map::from_iter([("reason", Value::from("fine"))]);
        let data = Map::from_iter([("option", Value::from("yes")), ("form", Value::from(form))]);
        let signal = Signal { id: "1".into(), name: name.into(), data: data.into(), by: None };
        Event::Signalled { at: at(second), step: step.into(), signal }
    }

    fn finishes(second: i64, step: &str, outcome: StepOutcome) -> Event {
        Event::StepFinished { at: at(second), step: step.into(), took_us: 1, outcome }
    }

    fn check(events: &[Event], expected: &[(&str, Option<(i64, &str)>)]) {
        let word = |end: &QuestionOutcome| match end {
            QuestionOutcome::Answered { option, form } => {
                format!("{option} {}", Value::from(form.clone()).to_json())
            }
            QuestionOutcome::TimedOut => "timed out".to_owned(),
            QuestionOutcome::Superseded => "over".to_owned(),
        };
        let found = questions(events);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.step.as_str(), one.end.as_ref().map(|(at, end)| (at.as_second(), word(end)))))
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|(step, end)| (*step, end.map(|(at, word)| (at, word.to_owned())))).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_question_is_closed_by_its_answer_before_the_step_resumes() {
        check(&[asks(1, "a")], &[("a", None)]);
        let answered = ("a", Some((2, r#"yes {"reason":"fine"}"#)));
        check(&[asks(1, "a"), comes(2, "a", "")], &[answered]);
        let end = finishes(3, "a", StepOutcome::Succeeded { result: Value::Null });
        check(&[asks(1, "a"), comes(2, "a", ""), end], &[answered]);
    }

    #[test]
    fn an_event_does_not_answer_a_question() {
        check(&[asks(1, "a"), comes(2, "a", "orderPaid")], &[("a", None)]);
    }

    #[test]
    fn an_unanswered_question_ends_by_timeout_or_with_the_execution() {
        let late = ActionError::new(ErrorKind::Timeout, "nobody answered");
        let failed = finishes(5, "a", StepOutcome::Failed { error: late, handled: None });
        check(&[asks(1, "a"), failed], &[("a", Some((5, "timed out")))]);
        let went_on = finishes(5, "a", StepOutcome::Succeeded { result: Value::Null });
        check(&[asks(1, "a"), went_on], &[("a", Some((5, "timed out")))]);
        let outcome = model::Outcome::Cancelled { reason: "no".into() };
        check(&[asks(1, "a"), Event::Finished { at: at(6), outcome }], &[("a", Some((6, "over")))]);
    }

    #[test]
    fn a_retried_approval_step_asks_a_new_question() {
        let again = Event::StepRetry {
            at: at(2),
            step: "a".into(),
            attempt: 1,
            error: ActionError::new(ErrorKind::Timeout, "late"),
            next_at: at(3),
            policy: None,
        };
        check(&[asks(1, "a"), again, asks(3, "a")], &[("a", Some((2, "timed out"))), ("a", None)]);
    }
}
