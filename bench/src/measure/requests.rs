//! Requests on webhooks: how many a second, and how long one takes.

use super::Terms;
use super::contest::{Outcome, What, hold};
use crate::Error;
use crate::baseline::Kind;
use crate::project;
use crate::report::{Report, Row, Target, Unit};

/// How many requests are under way at one time.
const CONNECTIONS: [usize; 3] = [1, 16, 64];
/// Steps of the longer synchronous automation.
const MANY_STEPS: usize = 40;

/// Asynchronous webhooks with one pure step behind them: answers, and executions that have ended.
pub(super) async fn acks(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for connections in CONNECTIONS {
        let baselines = [Kind::Bare, Kind::OneWrite, Kind::TwoWrites];
        let outcome = hold(terms, &baselines, &project::asynchronous(), connections, 200).await?;
        for (place, title) in
            [(0, "bare server"), (1, "server with one write"), (2, "server with two writes")]
        {
            let name = format!("{title}, answers, {connections} conn.");
            let value = outcome.baseline(place, What::Answered);
            report.add(Row::new("baselines", name, value, Unit::PerSecond));
        }
        let busy = connections == 64;
        let name = format!("asynchronous acks, {connections} conn.");
        report.add(
            row(&outcome, "acks", name, (1, "one write"), What::Answered).target(busy, Target::Ratio(0.40)),
        );
        let name = format!("executions finished and stored, {connections} conn.");
        report.add(
            row(&outcome, "acks", name, (2, "two writes"), What::Finished).target(busy, Target::Ratio(0.40)),
        );
        if connections == 1 {
            latency(&outcome, "acks", "asynchronous ack", (1, "one write"), report);
        }
    }
    Ok(())
}

/// Synchronous webhooks, with three and with many pure steps: the answer is the execution's result.
pub(super) async fn synchronous(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for (steps, counts) in [(3, &CONNECTIONS[..]), (MANY_STEPS, &[1, 64])] {
        for &connections in counts {
            let outcome =
                hold(terms, &[Kind::OneWrite], &project::synchronous(steps), connections, 200).await?;
            let target = match (steps, connections) {
                (3, 64) => Some(0.30),
                (MANY_STEPS, 1) => Some(0.45),
                (MANY_STEPS, 64) => Some(0.14),
                _ => None,
            };
            let name = format!("synchronous, {steps} pure steps, {connections} conn.");
            let row = row(&outcome, "synchronous", name, (0, "one write"), What::Answered);
            report.add(row.target(target.is_some(), Target::Ratio(target.unwrap_or_default())));
            if connections == 1 {
                let what = format!("synchronous, {steps} pure steps");
                latency(&outcome, "synchronous", &what, (0, "one write"), report);
            }
        }
    }
    Ok(())
}

fn row(outcome: &Outcome, group: &'static str, name: String, of: (usize, &'static str), what: What) -> Row {
    let (place, baseline) = of;
    Row::new(group, name, outcome.daemon(what), Unit::PerSecond).beside(
        baseline,
        outcome.baseline(place, what),
        outcome.ratio(place, what),
    )
}

fn latency(
    outcome: &Outcome,
    group: &'static str,
    what: &str,
    of: (usize, &'static str),
    report: &mut Report,
) {
    let (place, baseline) = of;
    for (word, share) in [("median", 0.5), ("99th percentile", 0.99)] {
        let ours = outcome.daemon_times().percentile(share).as_secs_f64() * 1e6;
        let theirs = outcome.baseline_times(place).percentile(share).as_secs_f64() * 1e6;
        let name = format!("{what}, {word} of the time, 1 conn.");
        report.add(Row::new(group, name, ours, Unit::Microseconds).beside(baseline, theirs, ours / theirs));
    }
}
