//! A deterministic simulation of the engine's core. A seed decides the Automations, the external events, the behaviour
//! of the store and the actions, the order of tasks, and the moments at which the whole engine is dropped as in a crash
//! and restarted on the same store. An oracle outside of the engine observes every effect and checks the invariants at
//! the end.
//!
//! Not decided by the seed, and irrelevant: the random bits of ids (ids of one instant differ by their count), the
//! ids of events that are sent, and the seeds of hash maps. A test checks that the same seed gives the same trace. An
//! engine runs on one thread, the clock is advanced manually, and no system thread takes part.
//!
//! A failing seed is reported; `SIMULATION_SEED=<seed> cargo nextest run -p engine simulation::replay --no-capture`
//! runs it alone and prints its trace.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    reason = "a simulation that fails says why, and how to repeat it"
)]

mod callers;
mod cluster;
mod generator;
mod loader;
mod oracle;
mod poison;
mod process_life;
mod program;
mod random;
mod stubs;
mod watch;
mod world;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use process_life::{ExternalEvent, LifeEnd, SimulationState, live};
use random::Random;
use world::World;

use runtime::{Clock as _, ManualClock, RecordMemory};

/// Number of seeds between the first ones of two tests.
const SEEDS_APART: u64 = 1_000_000;
/// Maximum number of crashes; after that no faults occur, and everything must end.
const MAX_CRASHES: u32 = 3;

/// Maximum number of trace lines printed for a failing seed.
const MAX_TRACE_LINES: usize = 1000;

/// Message of a panic in an engine task, which no caller would see otherwise.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

fn listen_to_panics() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic.to_string());
            usual(panic);
        }));
    });
}

/// Returns the trace of a seed. Panics if it failed, with the program, the trace, and how to repeat it.
fn trace_of(
    seed: u64,
    world: &World,
    text: &str,
    result: std::thread::Result<Result<(), String>>,
) -> Vec<String> {
    let trace = std::mem::take(&mut world.state().trace);
    let failure = match result {
        Ok(Ok(())) => return trace,
        Ok(Err(failure)) => failure,
        Err(_) => PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default(),
    };
    tell(text, trace);
    panic!("SIMULATION_SEED={seed}: {failure}");
}

/// Prints a program and the trace of its failure.
fn tell(text: &str, trace: Vec<String>) {
    println!("{text}");
    // A livelock repeats the same lines.
    let told = if trace.len() > MAX_TRACE_LINES {
        [&trace[..MAX_TRACE_LINES / 2], &trace[trace.len() - MAX_TRACE_LINES / 2..]].concat()
    } else {
        trace
    };
    println!("{}", told.join("\n"));
}

/// Runs a seed and returns its trace.
fn simulate(seed: u64) -> Vec<String> {
    simulate_with(seed, 0)
}

/// Runs a seed in which the store refuses this many appends of each process, and returns its trace.
fn simulate_with(seed: u64, refusals: u32) -> Vec<String> {
    listen_to_panics();
    *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = None;
    let program = program::generate(seed);
    let mut random = Random::new(seed ^ 0x005e_ed00);
    let (world, record) = (World::new(seed), Arc::<RecordMemory>::default());
    let count = 3 + random.below(8);
    let start = Timestamp::from_second(1_790_000_000).expect("an instant");
    let mut state = SimulationState {
        world: world.clone(),
        clock: ManualClock::new(start),
        version: 0,
        external_events: (0..count).map(|_| ExternalEvent::any(program.start, &mut random)).collect(),
        in_flight: 1 + random.below(3) as usize,
        program: program.clone(),
        interruptions: 1000,
    };
    let crashes = random.below(MAX_CRASHES + 1);
    let result = catch_unwind(AssertUnwindSafe(|| {
        for life in 0.. {
            let crash = (life < crashes).then(|| random.below(90));
            let outside = world.begin_life(crash, life < MAX_CRASHES, record.clone());
            outside.refuse(refusals);
            // A restart takes time: ids within a millisecond are ordered only within one process.
            state.clock.advance(Duration::from_millis(1));
            let ended = live(&mut state, &outside);
            outside.end();
            let panicked = PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(failure) = world.state().violation.clone().or(panicked) {
                return Err(failure);
            }
            if program.has_watch {
                watch::check_writes(&world)?;
            }
            if ended == LifeEnd::Completed && state.external_events.is_empty() {
                return oracle::check_invariants(&world, &program, state.clock.now());
            }
        }
        Ok(())
    }));
    trace_of(seed, &world, &program.text, result)
}

/// Seeds of a test: `count` of them, or as many as `SIMULATION_SEEDS` says.
fn seeds_of(part: u64, count: u64) -> Range<u64> {
    let count = std::env::var("SIMULATION_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(count);
    part * SEEDS_APART..part * SEEDS_APART + count.min(SEEDS_APART)
}

/// Defines the tests of the seeds, in parts that run in parallel.
macro_rules! parts {
    ($($name:ident: $part:literal),*) => {
        $(#[test]
        fn $name() {
            for seed in seeds_of($part, 500) {
                simulate(seed);
            }
        })*
    };
}

parts!(
    seeds_of_part_0: 0, seeds_of_part_1: 1, seeds_of_part_2: 2, seeds_of_part_3: 3, seeds_of_part_4: 4, seeds_of_part_5: 5,
    seeds_of_part_6: 6, seeds_of_part_7: 7
);

#[test]
fn an_execution_with_a_refused_write_resumes_as_after_a_crash() {
    for seed in (0..20_000).step_by(50) {
        simulate_with(seed, 3);
    }
}

/// A seed in which a permit holder was cancelled by its caller while it was read back after a crash. Another execution got the permit
/// before the end of the holder was stored, which one more crash could have undone.
#[test]
fn a_recovered_permit_holder_that_is_cancelled_counts_until_its_end_is_stored() {
    simulate(6_000_304);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in (0..20_000).step_by(1000) {
        assert_eq!(simulate(seed), simulate(seed), "seed {seed}");
    }
}

#[test]
fn replay() {
    let Some(seed) = std::env::var("SIMULATION_SEED").ok().and_then(|seed| seed.parse().ok()) else { return };
    println!("{}\n{}", program::generate(seed).text, simulate(seed).join("\n"));
}
