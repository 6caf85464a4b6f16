//! The same work with actions and with a plain client of the system, in turn: the difference is Cogwork's.

use std::time::Instant;

use super::Terms;
use crate::Error;
use crate::process::{Growth, own_processor_time};
use crate::report::{Report, Row, Target, Unit, mebibytes};
use crate::statistics::median;

/// The number of rounds, each with both.
const ROUNDS: usize = 5;

/// A page of memory in MiB, the least that a process grows by; and the least time is above it.
const PAGE: f64 = 4.0 / 1024.0;

/// A comparison of one work, with the cost of each round.
pub(super) struct Comparison {
    name: String,
    /// The units of work in a round.
    count: u32,
    unit: Unit,
    ours: Vec<Cost>,
    plain: Vec<Cost>,
}

/// The cost of one round.
#[derive(Clone, Copy)]
struct Cost {
    seconds: f64,
    /// The processor time of this process and of the programs that it ran, in seconds.
    processor: f64,
    /// The memory in MiB: the growth of this process, or all that a program had.
    memory: f64,
}

/// The number of rounds of these terms.
pub(super) fn rounds(terms: Terms<'_>) -> usize {
    if terms.options.quick { 1 } else { ROUNDS }
}

impl Comparison {
    /// A comparison of a work of `count` operations, or MiB, in a round.
    pub(super) fn new(name: String, count: u32, unit: Unit) -> Self {
        Self { name, count, unit, ours: Vec::new(), plain: Vec::new() }
    }

    /// Measures a round with actions.
    pub(super) async fn ours<T>(&mut self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let (done, cost) = measure(work, |_| None).await?;
        self.ours.push(cost);
        Ok(done)
    }

    /// Measures a round with the plain client. A program says how much memory it had, in bytes; a library works in this process.
    pub(super) async fn plain(
        &mut self,
        work: impl Future<Output = Result<Option<u64>, Error>>,
    ) -> Result<(), Error> {
        let (_, cost) = measure(work, |program| *program).await?;
        self.plain.push(cost);
        Ok(())
    }

    /// Adds the rate, the processor time of one operation and the memory to the report, beside the plain client.
    pub(super) fn report(
        self,
        report: &mut Report,
        group: &'static str,
        client: &'static str,
        target: Option<Target>,
    ) {
        let Self { name, count, unit, ours, plain } = self;
        let count = f64::from(count);
        let rate = |costs: &[Cost]| count / median(costs.iter().map(|cost| cost.seconds));
        let ratio = median(ours.iter().zip(&plain).map(|(ours, plain)| plain.seconds / ours.seconds));
        let row = Row::new(group, name.clone(), rate(&ours), unit);
        report.add(row.beside(client, rate(&plain), ratio).target(target));
        let micros = |costs: &[Cost]| median(costs.iter().map(|cost| cost.processor)) * 1e6 / count;
        // The allocator keeps memory of a round, and takes less in the next.
        let most = |costs: &[Cost]| costs.iter().map(|cost| cost.memory).fold(0.0, f64::max);
        for (figure, unit, ours, plain) in [
            ("processor time", Unit::Microseconds, micros(&ours), micros(&plain)),
            ("memory", Unit::Mebibytes, most(&ours), most(&plain)),
        ] {
            let row = Row::new(group, format!("… {figure}, {name}"), ours, unit);
            report.add(row.beside(client, plain, ours / plain.max(PAGE)));
        }
    }
}

async fn measure<T>(
    work: impl Future<Output = Result<T, Error>>,
    program: impl Fn(&T) -> Option<u64>,
) -> Result<(T, Cost), Error> {
    let growth = Growth::begin();
    let (began, before) = (Instant::now(), own_processor_time());
    let done = work.await?;
    let seconds = began.elapsed().as_secs_f64();
    let used = before.zip(own_processor_time()).map(|(before, after)| after.saturating_sub(before));
    let memory = program(&done).or_else(|| growth.end()).map_or(f64::NAN, mebibytes);
    let processor = used.map_or(f64::NAN, |used| used.as_secs_f64());
    Ok((done, Cost { seconds, processor, memory }))
}
