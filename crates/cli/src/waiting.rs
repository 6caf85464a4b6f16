//! Texts that describe why executions wait.

use std::time::Duration;

use jiff::Timestamp;
use model::execution::{CallRecord, DelayReason, ExecutionId, WaitReason};
use runtime::PauseKind;
use serde::Deserialize;

use crate::output::{cut, plain};
use crate::time;

/// Maximum number of characters of a question on one line.
const QUESTION: usize = 120;

/// The waiting reasons of an execution, as `GET /api/v1/executions/{id}` returns them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Waiting {
    pub(crate) queued_behind: Option<usize>,
    pub(crate) for_memory: bool,
    pub(crate) for_store: bool,
    pub(crate) turn: Option<ConcurrencyWait>,
    pub(crate) pauses: Vec<Pending>,
    pub(crate) resume_url: Option<String>,
}

/// The places of a concurrency key.
#[derive(Debug, Deserialize)]
pub(crate) struct ConcurrencyWait {
    pub(crate) key: String,
    pub(crate) holders: Vec<ExecutionId>,
    pub(crate) ahead: usize,
}

/// A step that pauses.
#[derive(Debug, Deserialize)]
pub(crate) struct Pending {
    pub(crate) step: String,
    pub(crate) since: Timestamp,
    pub(crate) until: Option<Timestamp>,
    pub(crate) on: WaitReason,
    #[serde(default)]
    pub(crate) form: Vec<Field>,
}

/// The fields of an approval's form.
#[derive(Debug, Deserialize)]
pub(crate) struct Field {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: FieldKind,
}

/// The type of it.
#[derive(Debug, Deserialize)]
pub(crate) struct FieldKind {
    pub(crate) kind: String,
}

/// For what a step pauses: `an answer`, `the event ...`.
pub(crate) fn what(on: &WaitReason) -> String {
    match on {
        WaitReason::Time => "its end".to_owned(),
        WaitReason::Event { name } => format!("the event `{}`", plain(&cut(name, QUESTION))),
        WaitReason::Approval { .. } => "an answer".to_owned(),
        WaitReason::Call { execution } => format!("execution {execution}"),
        WaitReason::Operation { id, looks } => {
            let times = match looks {
                0 => "not looked yet".to_owned(),
                1 => "looked once".to_owned(),
                looks => format!("looked {looks} times"),
            };
            format!("the operation `{}` ({times})", plain(&cut(id, QUESTION)))
        }
    }
}

/// A call of a step: `GET https://…`, `→ execution …`.
pub(crate) fn call(call: &CallRecord) -> String {
    match call {
        CallRecord::Request { method, url } => format!("{method} {url}"),
        CallRecord::Execution { id } => format!("→ execution {id}"),
    }
}

/// That a step pauses: `waits for an answer`, `waits until 2026-11-22 08:30:00`.
pub(crate) fn waits(on: &WaitReason, until: Option<Timestamp>) -> String {
    match (on, until.map(time::local)) {
        (WaitReason::Time, Some(until)) => format!("waits until {until}"),
        (on @ WaitReason::Operation { .. }, Some(until)) => {
            format!("waits for {}, looks at {until}", what(on))
        }
        (on, Some(until)) => format!("waits for {} until {until}", what(on)),
        (on, None) => format!("waits for {}", what(on)),
    }
}

/// A wait that the execution did not ask for: `waited 1.2 s for a free slot`.
pub(crate) fn delay(reason: &DelayReason, time: Duration) -> String {
    let what = match reason {
        DelayReason::Slot => "for a free slot (`limits.inFlight`)".to_owned(),
        DelayReason::Memory => "for memory (`limits.memory`)".to_owned(),
        DelayReason::Commit => "for the store to commit".to_owned(),
        DelayReason::Host { host } => format!("for the host `{}`", plain(&cut(host, QUESTION))),
        DelayReason::Permit { key, holder } => {
            let key =
                if key.is_empty() { String::new() } else { format!(" of `{}`", plain(&cut(key, QUESTION))) };
            let holder = holder.map_or_else(String::new, |holder| format!(", held by execution {holder}"));
            format!("for the concurrency slot{key}{holder}")
        }
    };
    format!("waited {} {what}", time::took(time))
}

/// A question with its answers, on one line.
pub(crate) fn question(on: &WaitReason) -> Option<String> {
    let WaitReason::Approval { message, options } = on else { return None };
    let message = message.trim();
    Some(format!("{} [{}]", plain(&cut(message, QUESTION)), plain(&options.join(", "))))
}

/// Until when, with the time that is left.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> String {
    let left =
        if at > now { format!(" ({} left)", time::took(time::between(now, at))) } else { String::new() };
    format!("until {}{left}", time::local(at))
}

/// The waiting reason of an execution in a list.
pub(crate) fn short(pauses: &runtime::Pauses) -> String {
    let Some(first) = pauses.first.first() else { return String::new() };
    let what = match (first.kind, &first.event, &first.execution) {
        (PauseKind::Approval, ..) => " for an answer".to_owned(),
        (_, Some(event), _) => format!(" for the event `{event}`"),
        (_, _, Some(execution)) => format!(" for execution {execution}"),
        (PauseKind::Retry, ..) => " for its next try".to_owned(),
        (PauseKind::Operation, ..) => " for the work of a service".to_owned(),
        _ => String::new(),
    };
    let step = if first.step.is_empty() { String::new() } else { format!(" at `{}`", first.step) };
    let until = first.until.map_or_else(String::new, |at| format!(" until {}", time::local(at)));
    let more = match pauses.count - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("waits{what}{step}{until}{more}")
}

#[cfg(test)]
mod tests {
    use runtime::{Pause, Pauses};

    use super::*;

    #[test]
    fn a_row_shows_the_first_pause_and_the_count_of_the_others() {
        let pause =
            |kind, step: &str| Pause { step: step.into(), kind, until: None, event: None, execution: None };
        let check =
            |count, first, expected| assert_eq!(short(&Pauses { count, first: vec![first] }), expected);
        check(1, pause(PauseKind::Approval, "ask[2]"), "waits for an answer at `ask[2]`");
        check(3, pause(PauseKind::Retry, ""), "waits for its next try, and 2 more");
        check(
            1,
            Pause { event: Some("paid".into()), ..pause(PauseKind::Event, "a") },
            "waits for the event `paid` at `a`",
        );
        let until = Some(Timestamp::UNIX_EPOCH);
        let time =
            short(&Pauses { count: 1, first: vec![Pause { until, ..pause(PauseKind::Time, "rest") }] });
        assert!(time.starts_with("waits at `rest` until 19"), "{time}");
        assert_eq!(short(&Pauses { count: 0, first: Vec::new() }), "");
    }
}
