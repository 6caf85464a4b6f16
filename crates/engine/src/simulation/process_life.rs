//! The life of one engine: from its start to completion, a crash, or a commit with an unknown outcome.

use std::sync::Arc;
use std::time::Duration;

use catalog::{AnnounceReload as _, Successor};
use futures_util::FutureExt as _;
use jiff::SignedDuration;
use tokio::sync::Notify;

use super::callers::Callers;
use super::generator::{RENAMED, SECOND};
use super::program::{self, Program, Version};
use super::random::Random;
use super::stubs::SimulatedActions;
use super::world::{Outside, World};
use crate::engine::Engine;
use runtime::Isolation;
use runtime::ManualClock;
use runtime::Secret;
use runtime::{Limits, Settings};
use runtime::{Runtime, RuntimeParts};

/// Maximum number of clock advances before a simulation counts as a livelock.
const MAX_MOVES: u32 = 20_000;

/// External events of a simulation.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExternalEvent {
    /// A caller runs an Automation and may wait for its end.
    Run {
        automation: &'static str,
        waits: bool,
    },
    /// A caller sends a request that starts `main`, to one of its addresses, with or without a deduplication key.
    Send {
        to: usize,
        k: u32,
        name: Option<u32>,
    },
    Cancel(u32),
    Emit,
    /// The clock advances to the next due times.
    Moves(u32),
    /// The wall clock is changed by this many hours.
    Set(i64),
    ReloadSummary,
    Settles,
}

impl ExternalEvent {
    pub(super) fn any(start: program::Start, random: &mut Random) -> Self {
        match random.below(20) {
            0..=8 if start == program::Start::Manual => {
                Self::Run { automation: "main", waits: random.one_in(2) }
            }
            0..=8 => Self::Send {
                to: random.below(8) as usize,
                k: random.below(2),
                name: random.one_in(3).then(|| random.below(2)),
            },
            9 => Self::Run { automation: "child", waits: false },
            10 | 11 => Self::Cancel(random.below(8)),
            12 | 13 => Self::Emit,
            14 | 15 => Self::Moves(1 + random.below(4)),
            16 => Self::Set(random.pick(&[-3, -1, 1, 3])),
            17 => Self::ReloadSummary,
            _ => Self::Settles,
        }
    }
}

/// The end of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeEnd {
    /// Nothing was left to do.
    Completed,
    Crashed,
    /// A commit has an unknown outcome.
    StoreFailed,
}

/// State that outlives an engine.
pub(super) struct SimulationState {
    pub(super) world: Arc<World>,
    pub(super) program: Arc<Program>,
    pub(super) clock: ManualClock,
    /// Version of the files on disk.
    pub(super) version: usize,
    /// Remaining external events, the next one last.
    pub(super) external_events: Vec<ExternalEvent>,
    pub(super) in_flight: usize,
    /// Maximum number of crashes that may interrupt the same step.
    pub(super) interruptions: u32,
}

/// Runs one engine on a thread of its own.
pub(super) fn live(state: &mut SimulationState, outside: &Outside) -> LifeEnd {
    let idle = Arc::new(Notify::new());
    let told = idle.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_park(move || told.notify_waiters())
        .build()
        .expect("a runtime");
    let world = state.world.clone();
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = world.crash.notified() => LifeEnd::Crashed,
            ended = ProcessLife::begin(state, outside, idle).then(ProcessLife::go_on) => ended,
        }
    })
}

/// Makes an engine without its tasks.
pub(super) fn start(
    state: &SimulationState,
    outside: &Outside,
    store: Arc<dyn store::Store>,
) -> (Arc<Runtime>, Engine) {
    let SimulationState { program, clock, in_flight, interruptions, .. } = state;
    let limits = Limits { in_flight: *in_flight, interruptions: *interruptions, ..Limits::default() };
    let settings = Settings { watch: false, limits, ..Settings::new("/nowhere") };
    let actions =
        SimulatedActions { outside: outside.clone(), clock: clock.clone(), program: program.clone() };
    let runtime = Runtime::from_parts(RuntimeParts {
        settings,
        store,
        secret: Secret::new([7; 32]),
        isolation: Isolation::in_memory(&outside.record()),
        clock: Arc::new(clock.clone()),
        http: program::nowhere(),
        catalog: Arc::new(catalog::Catalog::empty(program::BUILTIN.clone())),
        vault: None,
        doubles: Some(Arc::new(actions)),
    });
    let engine = Engine::from_parts(runtime.clone());
    (runtime, engine)
}

struct ProcessLife<'a> {
    state: &'a mut SimulationState,
    idle: Arc<Notify>,
    runtime: Arc<Runtime>,
    engine: Engine,
    callers: Callers,
}

impl<'a> ProcessLife<'a> {
    async fn begin(state: &'a mut SimulationState, outside: &Outside, idle: Arc<Notify>) -> Self {
        let SimulationState { world, version, .. } = &*state;
        let store = world.memory.open_with(Arc::new(outside.clone()));
        let (runtime, engine) = start(state, outside, store);
        let now = state.program.versions[*version].clone();
        let callers = Callers::new(world, &state.program, &state.clock, &engine);
        let life = Self { state, idle, runtime, engine, callers };
        // The same steps as `Engine::start`.
        if life.put_in_force(&now).await && life.runtime.admission.recover_unfinished().await.is_ok() {
            if life.state.program.has_schedule {
                life.engine.ingress().start_schedules();
            }
            if life.state.program.has_outbox() {
                life.engine.ingress().start_outbox();
            }
            if life.state.program.has_watch {
                life.engine.ingress().start_watch();
            }
            life.runtime.start_tasks();
        }
        life
    }

    async fn go_on(mut self) -> LifeEnd {
        for _ in 0..MAX_MOVES {
            let turns = self.state.world.state().random.below(12);
            if turns < 6 {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            } else {
                self.idle.notified().await;
            }
            if !self.runtime.context.accepting() {
                self.idle.notified().await;
                return LifeEnd::StoreFailed;
            }
            if let Some(happening) = self.state.external_events.pop() {
                self.state.world.note(format!("{happening:?}"));
                self.let_happen(happening).await;
                continue;
            }
            self.idle.notified().await;
            if !self.runtime.context.accepting() {
                return LifeEnd::StoreFailed;
            }
            if self.state.world.is_done() {
                let callers = self.callers.count();
                assert_eq!(callers, 0, "somebody waits for what has ended");
                return LifeEnd::Completed;
            }
            self.move_on();
        }
        panic!("it does not come to rest: {}", self.left());
    }

    fn move_on(&self) {
        let next = self.state.clock.sleeping_until().into_iter().next();
        let next = next.unwrap_or_else(|| panic!("nothing goes on: {}", self.left()));
        self.state.clock.advance_to(next);
    }

    /// Describes the executions that have not ended, for error messages.
    fn left(&self) -> String {
        let admission = &self.runtime.admission;
        let mut left = format!(
            "{} in flight, {} at rest, {} in the backlog, {} callers",
            admission.in_flight(),
            admission.suspended_count(),
            admission.queued(),
            self.callers.count()
        );
        for row in super::oracle::rows(&self.state.world) {
            if !row.status.is_terminal() {
                let number = self.state.world.state().number(row.id);
                let queue_status = admission.place(row.id).unwrap_or_default();
                left += &format!(
                    "; execution {number} of `{}` is {:?} with {} events, it has {queue_status:?}",
                    row.automation, row.status, row.events
                );
            }
        }
        left
    }

    /// Moves the records of the second schedule to the id that it has in the version that comes into force. A move that a crash or the
    /// store interrupts may not have happened.
    async fn move_records(&self) {
        let (from, to) = match self.state.version {
            0 => (RENAMED, SECOND),
            _ => (SECOND, RENAMED),
        };
        self.state.world.state().unknown_moves += 1;
        if self.engine.move_trigger("clock", from, to).await.is_ok() {
            self.state.world.state().unknown_moves -= 1;
        }
    }

    /// Puts a version of the files in force, and tells of its changes before, as the loader does. Returns false if the store failed.
    async fn put_in_force(&self, version: &Version) -> bool {
        let Version { catalog, reload } = version;
        if self.state.program.has_watch {
            // Two changes at one instant are one.
            self.state.clock.advance(Duration::from_millis(1));
            let (before, after) = (self.engine.catalog(), catalog.clone());
            let next = Successor { before, after, reload: reload.clone() };
            while let Err(error) = self.engine.announcer().announce(&next).await {
                self.runtime.context.lost(&error);
                if !self.runtime.context.accepting() {
                    return false;
                }
            }
        }
        self.engine.put_in_force(catalog.clone(), reload);
        true
    }

    async fn let_happen(&mut self, happening: ExternalEvent) {
        match happening {
            ExternalEvent::Moves(times) => {
                for _ in 0..times {
                    self.idle.notified().await;
                    if let Some(next) = self.state.clock.sleeping_until().into_iter().next() {
                        self.state.clock.advance_to(next);
                    }
                }
            }
            ExternalEvent::Set(hours) => {
                self.state.world.state().is_clock_set = true;
                self.state.clock.step(SignedDuration::from_hours(hours));
            }
            ExternalEvent::ReloadSummary => {
                self.state.version = 1 - self.state.version;
                if self.state.program.renames_schedule {
                    self.move_records().await;
                }
                self.state.world.state().changes += 1;
                let version = self.state.program.versions[self.state.version].clone();
                self.put_in_force(&version).await;
            }
            ExternalEvent::Settles => self.idle.notified().await,
            call => self.callers.call(call),
        }
    }
}
