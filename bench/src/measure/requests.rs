//! Requests on webhooks: their rate, their time, and their cost.

use super::Terms;
use super::contest::{Automations, Outcome, What, hold};
use crate::Error;
use crate::baseline::Kind;
use crate::project;
use crate::report::{Report, Row, Target, Unit};

/// The numbers of concurrent requests.
const CONNECTIONS: [usize; 3] = [1, 16, 64];
/// The number of connections at which many automations are measured.
const MAX_CONNECTIONS: usize = 64;
/// The number of different automations that take requests in turn, beside the rows with one.
const MANY_AUTOMATIONS: usize = 1000;
/// Steps of the longer synchronous automation.
const MANY_STEPS: usize = 40;

/// Asynchronous webhooks with one pure step behind them: answers, and executions that have ended.
pub(super) async fn acks(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for connections in CONNECTIONS.into_iter().filter(|count| terms.options.wants_connections(*count)) {
        let baselines = [Kind::Bare, Kind::OneWrite, Kind::TwoWrites];
        let text = project::asynchronous();
        let one = Automations { text: &text, count: 1 };
        let outcome = hold(terms, &baselines, one, connections).await?;
        for (place, title) in
            ["bare server", "server with one write", "server with two writes"].iter().enumerate()
        {
            let name = format!("{title}, {connections} conn.");
            let value = outcome.baseline(place).rate(What::Answered);
            report.add(Row::new("baselines", name, value, Unit::PerSecond));
        }
        let target = (connections == 64).then_some(Target::Ratio(0.40));
        let acks = Rows { outcome: &outcome, group: "acks", place: 1, baseline: "one write", connections };
        acks.rate("asynchronous acks", What::Answered, target, report);
        let ends = Rows { place: 2, baseline: "two writes", ..acks };
        ends.rate("asynchronous, finished and stored", What::Finished, target, report);
        ends.costs("asynchronous", report);
        acks.times("asynchronous acks", [Some(1.5), Some(2.0)], report);
        if connections == MAX_CONNECTIONS {
            let many = Automations { count: MANY_AUTOMATIONS, ..one };
            let outcome = hold(terms, &[Kind::OneWrite], many, connections).await?;
            let acks =
                Rows { outcome: &outcome, group: "acks", place: 0, baseline: "one write", connections };
            let name = "asynchronous acks of 1,000 automations";
            acks.rate(name, What::Answered, target, report);
            acks.costs(name, report);
        }
    }
    Ok(())
}

/// Synchronous webhooks, with three and with many pure steps: the answer is the execution's result.
pub(super) async fn synchronous(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for (steps, counts) in [(3, &CONNECTIONS[..]), (MANY_STEPS, &[1, 64])] {
        for &connections in counts.iter().filter(|count| terms.options.wants_connections(**count)) {
            let text = project::synchronous(steps);
            let one = Automations { text: &text, count: 1 };
            let outcome = hold(terms, &[Kind::OneWrite], one, connections).await?;
            let target = match (steps, connections) {
                (3, 64) => Some(0.30),
                (MANY_STEPS, 1) => Some(0.45),
                (MANY_STEPS, 64) => Some(0.14),
                _ => None,
            };
            let name = format!("synchronous, {steps} steps");
            let rows = Rows {
                outcome: &outcome,
                group: "synchronous",
                place: 0,
                baseline: "one write",
                connections,
            };
            rows.rate(&name, What::Answered, target.map(Target::Ratio), report);
            rows.costs(&name, report);
            rows.times(&name, [None, None], report);
            if connections == MAX_CONNECTIONS {
                let many = Automations { count: MANY_AUTOMATIONS, ..one };
                let outcome = hold(terms, &[Kind::OneWrite], many, connections).await?;
                let rows = Rows { outcome: &outcome, ..rows };
                let name = format!("{name}, 1,000 automations");
                rows.rate(&name, What::Answered, target.map(Target::Ratio), report);
                rows.costs(&name, report);
            }
        }
    }
    Ok(())
}

/// The figures of a contest beside one of its baselines.
#[derive(Clone, Copy)]
struct Rows<'contest> {
    outcome: &'contest Outcome,
    group: &'static str,
    /// The baseline's place in the contest, and its name.
    place: usize,
    baseline: &'static str,
    connections: usize,
}

impl Rows<'_> {
    fn rate(self, name: &str, what: What, target: Option<Target>, report: &mut Report) {
        let (ours, theirs) = (self.outcome.daemon().rate(what), self.outcome.baseline(self.place).rate(what));
        let row = self.row(name.to_owned(), ours, Unit::PerSecond);
        report.add(row.beside(self.baseline, theirs, self.outcome.ratio(self.place, what)).target(target));
    }

    /// The processor time of a request: the figure that a busy machine or a slow disk affects least.
    fn costs(self, name: &str, report: &mut Report) {
        let costs = self.outcome.daemon().cost_us().zip(self.outcome.baseline(self.place).cost_us());
        if let Some((ours, theirs)) = costs {
            let row = self.row(format!("{name}, processor time"), ours, Unit::Microseconds);
            report.add(row.beside(self.baseline, theirs, ours / theirs));
        }
    }

    /// The time of an answer, and its largest multiple of the baseline's. Under load it depends on the number of
    /// concurrent requests, so only one request at a time counts.
    fn times(self, name: &str, most: [Option<f64>; 2], report: &mut Report) {
        if self.connections > 1 {
            return;
        }
        for ((word, share), most) in [("median", 0.5), ("99th percentile", 0.99)].into_iter().zip(most) {
            let ours = self.outcome.daemon().percentile_us(share);
            let theirs = self.outcome.baseline(self.place).percentile_us(share);
            let row = self.row(format!("{name}, {word} time"), ours, Unit::Microseconds);
            let row = row.beside(self.baseline, theirs, ours / theirs);
            report.add(row.target(most.map(Target::RatioAtMost)));
        }
    }

    fn row(self, name: String, value: f64, unit: Unit) -> Row {
        Row::new(self.group, format!("{name}, {} conn.", self.connections), value, unit)
    }
}
