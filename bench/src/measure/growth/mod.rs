//! The growth of costs: one size of a project or a load is doubled three times while all others stay, and the exponents of
//! processor time, memory and stored bytes are fitted. An exponent of 1 means that twice the size costs twice as much.

mod dimensions;
mod load;
mod projects;

use super::Terms;
use crate::Error;
use crate::report::{Report, Row, Target, Unit};

use dimensions::{DIMENSIONS, MAX_EXPONENT};

pub(super) use load::Run;

/// The number of sizes, each twice the one before.
const SIZES: usize = 4;
/// Processor time, in seconds, below which a difference is noise: the system counts it in steps of 10 ms.
const LEAST_TIME: f64 = 0.03;
/// Memory below this difference is noise of the allocator, in bytes.
const LEAST_MEMORY: f64 = 4e6;

/// The costs of one size.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    /// Processor time of the load, in seconds.
    time: f64,
    /// Memory that the daemon has more than before, in bytes.
    memory: f64,
    /// Bytes that the store has more than before.
    stored: f64,
}

/// Measures the exponents of all dimensions.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for dimension in DIMENSIONS {
        let mut points = Vec::with_capacity(SIZES);
        for doubling in 0..SIZES {
            let size = dimension.first << doubling;
            let costs = load::costs(terms, dimension.load, size).await;
            let costs =
                costs.map_err(|error| Error::Server(format!("{}, {size}: {error}", dimension.name)))?;
            points.push((size, costs));
        }
        let name = |what: &str| {
            let last = dimension.first << (SIZES - 1);
            format!("{} ({} to {last}): exponent of {what}", dimension.name, dimension.first)
        };
        let row = |what: &str, exponent: f64, most: f64| {
            let target = Some(Target::AtMost(most));
            Row::new("growth", name(what), exponent, Unit::Exponent).target(target)
        };
        report.add(row("time", exponent(&points, |costs| costs.time.max(LEAST_TIME)), dimension.most));
        if points.iter().any(|(_, costs)| costs.memory > LEAST_MEMORY) {
            report.add(row(
                "memory",
                exponent(&points, |costs| costs.memory.max(LEAST_MEMORY)),
                MAX_EXPONENT,
            ));
        }
        if points.iter().all(|(_, costs)| costs.stored > 0.0) {
            report.add(row("stored bytes", exponent(&points, |costs| costs.stored), MAX_EXPONENT));
        }
    }
    Ok(())
}

/// The slope of the least-squares line through the logarithms.
fn exponent(points: &[(usize, Costs)], cost: impl Fn(Costs) -> f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
    let logs: Vec<(f64, f64)> =
        points.iter().map(|(size, costs)| ((*size as f64).ln(), cost(*costs).max(1e-6).ln())).collect();
    #[expect(clippy::cast_precision_loss, reason = "there are four")]
    let count = logs.len() as f64;
    let (x, y) = logs.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let covariance: f64 = logs.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let variance: f64 = logs.iter().map(|point| (point.0 - x).powi(2)).sum();
    covariance / variance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_of_a_power_law_is_found() {
        for power in [0.0, 1.0, 2.0] {
            let points: Vec<(usize, Costs)> = [10_usize, 20, 40, 80]
                .map(|size| {
                    let time = f64::from(u32::try_from(size).expect("it is small")).powf(power);
                    (size, Costs { time, ..Costs::default() })
                })
                .to_vec();
            assert!((exponent(&points, |costs| costs.time) - power).abs() < 1e-9, "{power}");
        }
    }
}
