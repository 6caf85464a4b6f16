//! The cost of code: a trivial step beside the minimum of any engine of its kind, and the distribution of runs over
//! processors.

use std::cell::Cell;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rquickjs::{Context, Function, Runtime};
use script::{Call, Kind, Module, Origin, Pool, PoolSettings};
use value::{Map, Value};

use super::Terms;
use crate::Error;
use crate::options::SERVE_CODE;
use crate::report::{Report, Row, Target, Unit};
use crate::statistics::median;

/// The number of rounds of each.
const ROUNDS: usize = 9;
/// The number of concurrent runs for each worker.
const ASIDE: usize = 4;
/// The step that does nothing.
const TRIVIAL: &str = "export default (context, stepResults) => ({ data: stepResults.list.length })";
/// The same, as a function of a warm context.
const WARM: &str = "(text) => JSON.stringify({ data: JSON.parse(text).list.length })";
/// A step that computes a little.
const FIBONACCI: &str =
    "const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2)); export default () => ({ data: fib(10) });";
/// A step that computes for about a millisecond.
const BUSY: &str =
    "const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2));\nexport default () => ({ data: fib(18) });";
/// The input of each run.
const GIVEN: &str = r#"{"list":[1,2,3]}"#;

/// Measures a trivial step, and the throughput of one worker and of two.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    trivial(terms, report).await?;
    different(terms, report).await?;
    throughput(terms, report).await
}

/// A trivial step beside a bare round trip over the same pipe and a warm call: the difference is Cogwork's.
async fn trivial(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    // On the caller's processor: to wake a sleeping one takes as long as all the rest, on either side.
    let pool = pool(1)?;
    let module = Module::new(TRIVIAL, Origin::start_of("bench"));
    let given: Map =
        [("list", Value::from(vec![Value::from(1_u32), Value::from(2_u32), Value::from(3_u32)]))]
            .into_iter()
            .collect();
    let given = Value::from(given);
    let runtime = Runtime::new()?;
    let context = Context::full(&runtime)?;
    let round = terms.options.time / 10;
    let (mut ours, mut least) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let step = each(round, async || run(&pool, &module, &given).await).await?;
        let echo = each(round, async || Ok(pool.echo(GIVEN.as_bytes()).await.map(|_| ())?)).await?;
        let warm = context.with(|ctx| {
            let function: Function<'_> = ctx.eval(WARM)?;
            warm(round, &function)
        })?;
        ours.push(step);
        least.push(echo + warm);
    }
    let ratio = median(ours.iter().zip(&least).map(|(ours, least)| least / ours));
    let row = Row::new("code", "a trivial code step".to_owned(), 1e6 / median(ours), Unit::PerSecond);
    let row = row.beside("round trip and warm call", 1e6 / median(least), ratio);
    report.add(row.target(Some(Target::Ratio(0.5))));
    Ok(())
}

/// Runs of many different modules in random order, beside runs of one of them.
async fn different(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for count in [40_u32, 1_000] {
        // A pool for each: a worker is replaced after a number of runs, and compiles its modules again.
        let many_pool = pool(1)?;
        let one_pool = pool(1)?;
        let module =
            |number| Module::new(format!("{FIBONACCI} // automation {number}"), Origin::start_of("bench"));
        let modules: Vec<Module> = (0..count).map(module).collect();
        let given = Value::from(Map::new());
        // Each is compiled once, before anything counts.
        for module in &modules {
            run(&many_pool, module, &given).await?;
        }
        let (round, next) = (terms.options.time / 10, Cell::new(0_usize));
        let (mut many, mut one) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let in_turn = async || {
                // A step that has no factor in common with the number of modules.
                next.set((next.get() + 617) % modules.len());
                run(&many_pool, &modules[next.get()], &given).await
            };
            many.push(each(round, in_turn).await?);
            one.push(each(round, async || run(&one_pool, &modules[0], &given).await).await?);
        }
        let ratio = median(many.iter().zip(&one).map(|(many, one)| one / many));
        let name = format!("code of {count} different texts in turn");
        let row = Row::new("code", name, 1e6 / median(many), Unit::PerSecond);
        let row = row.beside("one text", 1e6 / median(one), ratio);
        report.add(row.target(Some(Target::Ratio(0.5))));
    }
    Ok(())
}

/// Runs that compute, on one worker and on two.
async fn throughput(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let module = Module::new(BUSY, Origin::start_of("bench"));
    // The thread of the pool starts the workers, and inherits the processors of the thread that creates it.
    let (one, two) = terms.processors.on_both(|| Ok::<_, Error>((pool(1)?, pool(2)?)))?;
    let round = terms.options.time / 10;
    let (mut alone, mut both, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let first = rate(&one, &module, ASIDE, round).await?;
        let second = rate(&two, &module, 2 * ASIDE, round).await?;
        alone.push(first);
        both.push(second);
        ratios.push(second / first);
    }
    report.add(Row::new(
        "code",
        "runs of 1 ms, one worker".to_owned(),
        median(alone.iter().copied()),
        Unit::PerSecond,
    ));
    let row = Row::new("code", "runs of 1 ms, two workers".to_owned(), median(both), Unit::PerSecond);
    let row = row.beside("one worker", median(alone), median(ratios));
    report.add(row.target(Some(Target::Ratio(1.8))));
    Ok(())
}

fn pool(workers: usize) -> Result<Pool, Error> {
    let program = std::env::current_exe().map_err(Error::io("this program"))?;
    let settings = PoolSettings { workers, ..PoolSettings::new(program, vec![SERVE_CODE.to_owned()]) };
    let pool = Pool::new(settings);
    pool.warm().map_err(Error::Code)?;
    Ok(pool)
}

async fn run(pool: &Pool, module: &Module, given: &Value) -> Result<(), Error> {
    let config_vars = Value::from(Map::new());
    let context = script::Context {
        config_vars: &config_vars,
        execution_id: "bench",
        step_id: Some("step"),
        started_at: "2026-01-01T00:00:00Z",
        state: &[],
    };
    let deadline = Duration::from_secs(5);
    pool.run(Call { module, kind: Kind::Step, context, argument: given, deadline }).await?;
    Ok(())
}

/// The microseconds of each call, over a time.
async fn each(time: Duration, turn: impl AsyncFn() -> Result<(), Error>) -> Result<f64, Error> {
    let (started, mut turns) = (Instant::now(), 0_u32);
    while started.elapsed() < time || turns == 0 {
        turn().await?;
        turns += 1;
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(turns))
}

/// As [`each`], for the call of a function that is there already.
fn warm(time: Duration, function: &Function<'_>) -> Result<f64, Error> {
    let (started, mut turns) = (Instant::now(), 0_u32);
    while started.elapsed() < time || turns == 0 {
        function.call::<_, String>((GIVEN,))?;
        turns += 1;
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(turns))
}

/// Runs a second, with this many concurrent ones.
async fn rate(pool: &Pool, module: &Module, aside: usize, time: Duration) -> Result<f64, Error> {
    let (given, started) = (Value::from(Map::new()), Instant::now());
    let lanes = (0..aside).map(async |_| {
        let mut runs = 0_u32;
        while started.elapsed() < time {
            run(pool, module, &given).await?;
            runs += 1;
        }
        Ok::<_, Error>(runs)
    });
    let mut runs = 0;
    for lane in join_all(lanes).await {
        runs += lane?;
    }
    Ok(f64::from(runs) / started.elapsed().as_secs_f64())
}
