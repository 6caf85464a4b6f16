//! The latest answers of people to approvals that this daemon took, for the inbox: who answered what.
//!
//! The history of each execution has its answers for good. No index of the store finds them there, so the latest ones are kept.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use model::AutomationId;
use model::execution::{ExecutionId, WaitReason};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Pending;

/// The number of answers kept.
pub const MAX_ANSWERS: usize = 100;
/// Maximum number of characters of a question that are kept.
const MAX_QUESTION: usize = 300;

/// A question that a person answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnsweredQuestion {
    /// When it was answered.
    pub at: Timestamp,
    /// The id of the execution that asked.
    #[schema(value_type = String)]
    pub execution: ExecutionId,
    /// The id of its automation.
    #[schema(value_type = String)]
    pub automation: AutomationId,
    /// The display name of the automation.
    pub automation_name: String,
    /// The step, with its loop turns.
    pub step: String,
    /// The question, shortened.
    pub message: String,
    /// The chosen option.
    pub option: String,
    /// The sender of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The latest answered questions.
#[derive(Default)]
pub struct AnswerLog(Mutex<VecDeque<AnsweredQuestion>>);

impl AnswerLog {
    /// Adds an answer to an approval; answers to other waits are left out.
    pub(crate) fn record(&self, at: Timestamp, question: Pending, option: String, by: Option<String>) {
        let WaitReason::Approval { message, .. } = question.on else { return };
        let answered = AnsweredQuestion {
            at,
            execution: question.execution,
            automation: question.automation,
            automation_name: question.automation_name,
            step: question.step,
            message: text::truncate(&message, MAX_QUESTION).into_owned(),
            option,
            by,
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_ANSWERS {
            kept.pop_front();
        }
        kept.push_back(answered);
    }

    /// The answers, newest first.
    #[must_use]
    pub fn latest(&self) -> Vec<AnsweredQuestion> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_answers_are_bounded_and_newest_first() {
        let log = AnswerLog::default();
        for number in 0..=MAX_ANSWERS {
            let question = Pending {
                execution: ExecutionId::from_bytes([1; 16]),
                automation: AutomationId::parse("a").expect("an id"),
                automation_name: "A".to_owned(),
                step: format!("ask[{number}]"),
                since: Timestamp::UNIX_EPOCH,
                until: None,
                on: WaitReason::Approval { message: "é".repeat(400), options: vec!["yes".to_owned()] },
                form: Vec::new(),
            };
            log.record(Timestamp::UNIX_EPOCH, question, "yes".to_owned(), Some("Ada".to_owned()));
        }
        let kept = log.latest();
        assert_eq!(kept.len(), MAX_ANSWERS);
        assert_eq!((kept[0].step.as_str(), kept[99].step.as_str()), ("ask[100]", "ask[1]"));
        assert!(kept[0].message.chars().count() < 310);
    }
}
