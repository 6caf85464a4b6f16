//! Decides whether a promise was broken, from the outside alone: from the senders' answers, and from the requests that the sink of
//! effects received. It never asks the daemon.
//!
//! The work it judges: an asynchronous webhook whose execution posts to `/first`, to `/turn/0` and `/turn/1`, and to
//! `/last`; a synchronous one that posts to `/sync` before it answers; a schedule that posts each of its instants to
//! `/tick`. Every body but a tick's carries the sender's number.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::ticks::Ticks;
use crate::recorder::Recorded;

/// The paths of the asynchronous work, in the order in which its steps are.
const STAGES: [&str; 4] = ["/first", "/turn/0", "/turn/1", "/last"];
/// The one step of the synchronous work.
const SYNC: &str = "/sync";
/// The one step of the schedule.
const TICK: &str = "/tick";
/// Maximum number of broken promises that are kept; one is enough to fail.
const MAX_VIOLATIONS: usize = 50;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is answered as soon as it is accepted.
    Async,
    /// It is answered with the result.
    Sync,
}

/// One execution, as far as it can be seen from outside.
#[derive(Debug)]
struct Seen {
    execution: String,
    /// The stage of its latest effect.
    stage: usize,
    ended: bool,
    /// The key of the effect of each stage, and in which life of the daemon it was received last.
    effects: BTreeMap<usize, (String, u32)>,
}

/// The requests and effects of one number.
#[derive(Debug)]
struct Number {
    sent: Sent,
    /// The life of the daemon in which the sender's request was answered as accepted, or done.
    answered: Option<u32>,
    named: Option<String>,
    seen: Option<Seen>,
}

impl Number {
    fn ended(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.ended)
    }

    /// True if an effect with this key was received in this life of the daemon, or a later one was.
    fn is_over(&self, stage: usize, key: &str, life: u32) -> bool {
        self.seen.as_ref().is_some_and(|seen| {
            let same = seen.effects.get(&stage).filter(|(before, _)| before == key);
            same.is_some_and(|(_, before)| *before == life || seen.stage > stage || seen.ended)
        })
    }

    /// True if it is unfinished: it was accepted or has started, and has not ended.
    fn open(&self) -> bool {
        (self.named.is_some() || self.answered.is_some() || self.seen.is_some()) && !self.ended()
    }
}

/// All sent and received requests, and the violations.
#[derive(Debug, Default)]
pub struct Oracle {
    /// The number of starts of the daemon.
    life: u32,
    numbers: BTreeMap<u64, Number>,
    ticks: Ticks,
    acknowledged: u64,
    repeated: u64,
    /// The number of permitted repetitions of effects without a crash: their attempts are made to fail.
    excused: u32,
    /// The effects that a frozen daemon may have been about to send.
    about_to_send: BTreeSet<u64>,
    /// The number of these effects that may still come.
    late_ones: u32,
    late: u32,
    open: usize,
    violations: Vec<String>,
}

impl Oracle {
    /// The daemon was ended: from now on an effect whose result it could not store may be repeated once.
    pub fn next_life(&mut self) {
        self.life += 1;
    }

    /// From now on this many effects may be repeated without a crash.
    pub fn excuse_repeats(&mut self, most: u32) {
        self.excused = most;
    }

    /// A daemon that was declared dead while it was frozen runs again: it may still send this many requests that it was about to write when
    /// it froze, with the same keys, of these numbers.
    pub fn thawed(&mut self, numbers: &[u64], most: u32) {
        self.about_to_send = numbers.iter().copied().collect();
        self.late_ones = most;
    }

    /// The number of late requests of daemons that were declared dead, which are permitted.
    pub fn late(&self) -> u32 {
        self.late
    }

    /// A request is about to be sent.
    pub fn sent(&mut self, number: u64, sent: Sent) {
        self.numbers.insert(number, Number { sent, answered: None, named: None, seen: None });
    }

    /// A sender's request was answered as accepted and running, though it had asked for its result.
    pub fn goes_on(&mut self, number: u64, execution: String) {
        let Some(entry) = self.numbers.get_mut(&number) else { return };
        let was_open = entry.open();
        entry.named = Some(execution);
        let is_open = entry.open();
        self.count(was_open, is_open);
    }

    /// A sender's request was answered as accepted, or done.
    pub fn answered(&mut self, number: u64, execution: Option<String>) {
        let life = self.life;
        let Some(entry) = self.numbers.get_mut(&number) else { return };
        let was_open = entry.open();
        entry.answered = Some(life);
        entry.named = execution;
        let wrong = match (&entry.named, &entry.seen) {
            (Some(named), Some(seen)) if *named != seen.execution => {
                Some(format!("{number} was acknowledged as {named}, but {} runs for it", seen.execution))
            }
            (_, None) if entry.sent == Sent::Sync => {
                Some(format!("{number} was answered as done before its effect was seen"))
            }
            _ => None,
        };
        let is_open = entry.open();
        self.acknowledged += 1;
        self.count(was_open, is_open);
        self.blame(wrong);
    }

    /// The sink received this.
    pub fn received(&mut self, request: &Recorded) {
        let key = request.idempotency_key.clone().unwrap_or_default();
        let Some((execution, _)) = key.split_once('.') else {
            return self.blame(Some(format!("{} came without a key of its effect", request.path)));
        };
        if request.path == TICK {
            return self.ticked(request, execution);
        }
        let stage = if request.path == SYNC { Some(0) } else { stage(&request.path) };
        let number = request.json()["n"].as_u64();
        let (Some(stage), Some(number)) = (stage, number) else {
            return self.blame(Some(format!("nobody sends {} with {}", request.path, request.body)));
        };
        self.effect(number, stage, execution, key.clone());
    }

    fn effect(&mut self, number: u64, stage: usize, execution: &str, key: String) {
        let life = self.life;
        let may_be_late = self.late_ones > 0 && self.about_to_send.contains(&number);
        let Some(entry) = self.numbers.get_mut(&number) else {
            return self.blame(Some(format!("{execution} runs for {number}, which nobody sent")));
        };
        if may_be_late && entry.is_over(stage, &key, life) {
            self.late_ones -= 1;
            self.late += 1;
            return;
        }
        let was_open = entry.open();
        let last = if entry.sent == Sent::Sync { 0 } else { STAGES.len() - 1 };
        let mut wrong = Vec::new();
        if entry.named.as_deref().is_some_and(|named| named != execution) {
            wrong.push(format!("{execution} runs for {number}, which was acknowledged as {:?}", entry.named));
        }
        if entry.sent == Sent::Sync && entry.answered.is_some() {
            wrong.push(format!("{number} was answered as done, and its step ran again: {key}"));
        }
        let seen = entry.seen.get_or_insert_with(|| Seen {
            execution: execution.to_owned(),
            stage,
            ended: false,
            effects: BTreeMap::new(),
        });
        if seen.execution != execution {
            wrong.push(format!("{number} runs twice: as {} and as {execution}", seen.execution));
        }
        if stage < seen.stage {
            wrong.push(format!("{key} ran again after a later step of {number} had begun"));
        }
        let earlier = seen.effects.insert(stage, (key.clone(), life));
        match &earlier {
            Some((before, _)) if *before != key && seen.execution == execution => {
                wrong.push(format!("an effect of {number} came as {before}, and came again as {key}"));
            }
            Some((_, before)) if *before == life && self.excused > 0 => self.excused -= 1,
            Some((_, before)) if *before == life => {
                wrong.push(format!("{key} of {number} ran twice without a crash between"));
            }
            _ => {}
        }
        seen.stage = seen.stage.max(stage);
        seen.ended |= stage == last;
        let is_open = entry.open();
        self.repeated += u64::from(earlier.is_some());
        self.count(was_open, is_open);
        for text in wrong {
            self.blame(Some(text));
        }
    }

    fn ticked(&mut self, request: &Recorded, execution: &str) {
        let body = request.json();
        let Some(at) = body["at"].as_str().and_then(|at| at.parse::<Timestamp>().ok()) else {
            return self.blame(Some(format!("a tick came with {}", request.body)));
        };
        let of = body["of"].as_str().unwrap_or_default();
        let wrong = self.ticks.received(of, at, execution);
        self.blame(wrong);
    }

    /// The number of executions that were accepted or have begun, and have not ended.
    pub fn open(&self) -> usize {
        self.open
    }

    /// The executions that were accepted or have begun, and have not ended.
    pub fn open_numbers(&self) -> Vec<u64> {
        self.numbers.iter().filter(|(_, number)| number.open()).map(|(number, _)| *number).collect()
    }

    /// True if each of these has ended.
    pub fn have_ended(&self, numbers: &[u64]) -> bool {
        numbers.iter().all(|number| self.numbers.get(number).is_some_and(Number::ended))
    }

    /// The number of requests that were answered as accepted, or done.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The number of effects that were repeated after a crash, which is permitted.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// The instants of schedules that have run.
    pub fn ticks(&self) -> &Ticks {
        &self.ticks
    }

    /// Blames instants of schedules that never ran, between the first that did and the last one up to `until`.
    pub fn judge_ticks(&mut self, until: Option<Timestamp>) {
        for text in self.ticks.missing(until) {
            self.blame(Some(text));
        }
    }

    /// Notes a broken promise that was seen elsewhere.
    pub fn blame(&mut self, wrong: Option<String>) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.extend(wrong);
        }
    }

    /// The violations.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    fn count(&mut self, was_open: bool, is_open: bool) {
        match (was_open, is_open) {
            (false, true) => self.open += 1,
            (true, false) => self.open -= 1,
            _ => {}
        }
    }
}

fn stage(path: &str) -> Option<usize> {
    STAGES.iter().position(|stage| *stage == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(path: &str, key: &str, body: &str) -> Recorded {
        Recorded {
            method: "POST".into(),
            path: path.into(),
            idempotency_key: Some(key.into()),
            traceparent: None,
            body: body.into(),
        }
    }

    fn effect(oracle: &mut Oracle, path: &str, execution: &str) {
        let key = format!("{execution}.{}", path.trim_start_matches('/'));
        oracle.received(&received(path, &key, r#"{"n": 1}"#));
    }

    /// A judge who knows of one asynchronous request.
    fn one_sent() -> Oracle {
        let mut oracle = Oracle::default();
        oracle.sent(1, Sent::Async);
        oracle
    }

    fn only_violation(oracle: &Oracle) -> &str {
        assert_eq!(oracle.violations().len(), 1, "{:?}", oracle.violations());
        &oracle.violations()[0]
    }

    #[test]
    fn a_complete_run_has_no_violation_and_nothing_open() {
        let mut oracle = one_sent();
        oracle.answered(1, Some("e".into()));
        assert_eq!(oracle.open_numbers(), [1]);
        for path in STAGES {
            effect(&mut oracle, path, "e");
        }
        assert_eq!((oracle.open(), oracle.repeated(), oracle.violations()), (0, 0, &[][..]));
        assert!(oracle.have_ended(&[1]) && !oracle.have_ended(&[2]));
    }

    #[test]
    fn an_accepted_execution_is_open_until_its_last_step() {
        let mut oracle = one_sent();
        assert_eq!(oracle.open(), 0, "nobody was told anything");
        effect(&mut oracle, "/first", "e");
        assert_eq!(oracle.open(), 1, "it has begun");
        oracle.answered(1, Some("e".into()));
        assert_eq!(oracle.open(), 1);
        effect(&mut oracle, "/last", "e");
        assert_eq!(oracle.open(), 0);
    }

    #[test]
    fn an_execution_that_continues_after_a_timeout_is_open() {
        let mut oracle = Oracle::default();
        oracle.sent(1, Sent::Sync);
        oracle.goes_on(1, "e".into());
        assert_eq!((oracle.open_numbers(), oracle.acknowledged()), (vec![1], 0));
        effect(&mut oracle, SYNC, "e");
        assert_eq!((oracle.open(), oracle.violations()), (0, &[][..]));
    }

    #[test]
    fn an_effect_may_repeat_only_after_a_crash() {
        let mut oracle = one_sent();
        effect(&mut oracle, "/first", "e");
        oracle.next_life();
        effect(&mut oracle, "/first", "e");
        assert_eq!((oracle.repeated(), oracle.violations()), (1, &[][..]));
        effect(&mut oracle, "/first", "e");
        assert!(only_violation(&oracle).contains("twice without a crash"));
    }

    #[test]
    fn an_attempt_that_is_made_to_fail_may_repeat_its_effect_once() {
        let mut oracle = one_sent();
        oracle.excuse_repeats(1);
        effect(&mut oracle, "/first", "e");
        effect(&mut oracle, "/first", "e");
        assert_eq!((oracle.repeated(), oracle.violations()), (1, &[][..]));
        effect(&mut oracle, "/first", "e");
        assert!(only_violation(&oracle).contains("twice without a crash"));
    }

    #[test]
    fn a_thawed_daemon_may_send_a_limited_number_of_late_requests() {
        let mut oracle = one_sent();
        for path in STAGES {
            effect(&mut oracle, path, "e");
        }
        oracle.thawed(&[1], 1);
        effect(&mut oracle, "/first", "e");
        assert_eq!((oracle.late(), oracle.violations()), (1, &[][..]));
        effect(&mut oracle, "/first", "e");
        assert!(oracle.violations()[0].contains("after a later step"), "only so many");
    }

    #[test]
    fn a_repeated_effect_must_have_the_same_key() {
        let mut oracle = one_sent();
        effect(&mut oracle, "/first", "e");
        oracle.next_life();
        oracle.received(&received("/first", "e.other", r#"{"n": 1}"#));
        assert!(only_violation(&oracle).contains("came again as e.other"));
    }

    #[test]
    fn a_finished_step_never_runs_again() {
        let mut oracle = one_sent();
        effect(&mut oracle, "/first", "e");
        effect(&mut oracle, "/turn/0", "e");
        oracle.next_life();
        effect(&mut oracle, "/first", "e");
        assert!(only_violation(&oracle).contains("after a later step"));
    }

    #[test]
    fn a_request_must_not_run_as_two_executions() {
        let mut oracle = one_sent();
        effect(&mut oracle, "/first", "e");
        oracle.next_life();
        effect(&mut oracle, "/first", "f");
        assert!(only_violation(&oracle).contains("runs twice"));
        let mut oracle = one_sent();
        oracle.answered(1, Some("e".into()));
        effect(&mut oracle, "/first", "f");
        assert!(only_violation(&oracle).contains("was acknowledged as"));
        let mut oracle = one_sent();
        effect(&mut oracle, "/first", "f");
        oracle.answered(1, Some("e".into()));
        assert!(only_violation(&oracle).contains("runs for it"));
    }

    #[test]
    fn a_synchronous_response_must_follow_the_effect_and_end_it() {
        let mut oracle = Oracle::default();
        oracle.sent(1, Sent::Sync);
        effect(&mut oracle, SYNC, "e");
        oracle.answered(1, None);
        assert_eq!((oracle.open(), oracle.violations()), (0, &[][..]));
        oracle.next_life();
        effect(&mut oracle, SYNC, "e");
        assert!(only_violation(&oracle).contains("ran again"));
        let mut oracle = Oracle::default();
        oracle.sent(1, Sent::Sync);
        oracle.answered(1, None);
        assert!(only_violation(&oracle).contains("before its effect"));
    }

    #[test]
    fn each_instant_must_run_once_without_gaps() {
        let mut oracle = Oracle::default();
        let tick = |at: &str, execution: &str| {
            received(TICK, &format!("{execution}.tick"), &format!(r#"{{"at": "2026-01-01T00:00:{at}Z"}}"#))
        };
        oracle.received(&tick("01", "a"));
        oracle.received(&tick("02", "b"));
        oracle.next_life();
        oracle.received(&tick("02", "b"));
        oracle.judge_ticks(oracle.ticks().last());
        assert_eq!((oracle.ticks().len(), oracle.violations()), (2, &[][..]));
        oracle.received(&tick("02", "c"));
        assert!(only_violation(&oracle).contains("ran twice"));
        oracle.received(&tick("05", "d"));
        oracle.judge_ticks(oracle.ticks().last());
        assert!(oracle.violations()[1].contains("no instant ran between"));
    }

    #[test]
    fn a_request_that_nobody_sent_is_a_violation() {
        let mut oracle = one_sent();
        oracle.received(&received("/first", "e.first", r#"{"n": 2}"#));
        oracle.received(&received("/other", "e.other", r#"{"n": 1}"#));
        oracle.received(&received("/first", "", r#"{"n": 1}"#));
        assert_eq!(oracle.violations().len(), 3, "{:?}", oracle.violations());
    }
}
