//! One engine, from its start to its end, its crash, or a commit in doubt.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use jiff::SignedDuration;
use model::execution::Origin;
use model::payload::Payload;
use model::value::{Map, Value};
use tokio::sync::Notify;
use trigger::response::EXECUTION_ID;
use trigger::webhook::Request;

use super::chance::Chance;
use super::desk::Desk;
use super::program::{self, Program};
use super::world::World;
use crate::clock::{Clock as _, ManualClock};
use crate::engine::Engine;
use crate::isolation::Isolation;
use crate::reload::Loader;
use crate::run::Secret;
use crate::scheduler;
use crate::services::{Foundation, Services};
use crate::settings::{Limits, Settings};
use crate::told::Start;

/// How often the clock may move on before a simulation counts as one that never comes to rest.
const MOST_MOVES: u32 = 20_000;

/// How long what was sent is remembered, at the least: less than the window by the steps that the clock may take.
const SURELY_REMEMBERED: SignedDuration = SignedDuration::from_hours(12);

/// What happens to an engine from outside.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    /// Somebody runs an Automation, and may wait for its end.
    Run {
        automation: &'static str,
        waits: bool,
    },
    /// Somebody sends a request that starts `main`, under a name or without.
    Send {
        k: u32,
        name: Option<u32>,
    },
    Cancel(u32),
    Emit,
    /// The clock moves on to the next instants at which somebody wakes.
    Moves(u32),
    /// Somebody sets the clock by so many hours.
    Set(i64),
    Reload,
    Settles,
}

impl Happening {
    pub(super) fn any(start: program::Start, chance: &mut Chance) -> Self {
        match chance.below(20) {
            0..=8 if start == program::Start::Manual => {
                Self::Run { automation: "main", waits: chance.one_in(2) }
            }
            0..=8 => Self::Send { k: chance.below(2), name: chance.one_in(3).then(|| chance.below(2)) },
            9 => Self::Run { automation: "child", waits: false },
            10 | 11 => Self::Cancel(chance.below(8)),
            12 | 13 => Self::Emit,
            14 | 15 => Self::Moves(1 + chance.below(4)),
            16 => Self::Set(chance.pick(&[-3, -1, 1, 3])),
            17 => Self::Reload,
            _ => Self::Settles,
        }
    }
}

/// How an engine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nothing was left to do.
    Well,
    Crashed,
    /// A commit was in doubt.
    Lost,
}

/// What goes on from one engine to the next.
pub(super) struct Story {
    pub(super) world: Arc<World>,
    pub(super) program: Arc<Program>,
    pub(super) clock: ManualClock,
    /// Which version is on the disk.
    pub(super) version: usize,
    /// What is yet to happen, the next last.
    pub(super) happenings: Vec<Happening>,
    pub(super) in_flight: usize,
    /// How often a crash may interrupt the same step.
    pub(super) interruptions: u32,
}

/// Lives the life of one engine on a thread that runs nothing else.
pub(super) fn live(story: &mut Story) -> Ended {
    let idle = Arc::new(Notify::new());
    let told = idle.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_park(move || told.notify_waiters())
        .build()
        .expect("a runtime");
    let world = story.world.clone();
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = world.crash.notified() => Ended::Crashed,
            ended = Life::begin(story, idle).then(Life::go_on) => ended,
        }
    })
}

struct Life<'a> {
    story: &'a mut Story,
    idle: Arc<Notify>,
    services: Arc<Services>,
    engine: Engine,
    /// How many callers wait for something.
    callers: Arc<AtomicUsize>,
}

/// A caller who waits.
struct Caller(Arc<AtomicUsize>);

impl Caller {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<'a> Life<'a> {
    async fn begin(story: &'a mut Story, idle: Arc<Notify>) -> Self {
        let Story { world, program, clock, version, in_flight, interruptions, .. } = &*story;
        let limits = Limits { in_flight: *in_flight, interruptions: *interruptions, ..Limits::default() };
        let settings = Settings { watch: false, limits, ..Settings::new("/nowhere") };
        let desk = Desk { world: world.clone(), clock: clock.clone(), program: program.clone() };
        let services = Services::on(Foundation {
            loader: Loader::new(&settings.dir, program::BUILTIN.clone(), Vec::new()),
            settings,
            store: world.memory.open_with(world.clone()),
            secret: Secret::new([7; 32]),
            isolation: Isolation::in_memory(&world.record),
            clock: Arc::new(clock.clone()),
            http: program::nowhere(),
            catalog: Arc::new(crate::catalog::Catalog::empty(program::BUILTIN.clone())),
            vault: None,
            doubles: Some(Arc::new(desk)),
        });
        let now = &program.versions[*version];
        services.take(now.catalog.clone(), &now.reload);
        let engine = Engine::over(services.clone());
        let life = Self { story, idle, services, engine, callers: Arc::default() };
        // What Engine::start does after it has loaded the folder.
        if life.services.read_back().await.is_ok() {
            if life.story.program.has_schedule {
                life.services.tracker.spawn(scheduler::run(life.services.clone()));
            }
            life.services.tracker.spawn(life.services.clone().dispatch());
            life.services.tracker.spawn(life.services.clone().wake_in_time());
        }
        life
    }

    async fn go_on(mut self) -> Ended {
        for _ in 0..MOST_MOVES {
            let turns = self.story.world.state().chance.below(12);
            if turns < 6 {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            } else {
                self.idle.notified().await;
            }
            if !self.services.accepting() {
                self.idle.notified().await;
                return Ended::Lost;
            }
            if let Some(happening) = self.story.happenings.pop() {
                self.story.world.note(format!("{happening:?}"));
                self.let_happen(happening).await;
                continue;
            }
            self.idle.notified().await;
            if !self.services.accepting() {
                return Ended::Lost;
            }
            let unfinished = self.story.world.memory.open().unfinished_count().now_or_never();
            if let Some(Ok(0)) = unfinished {
                let callers = self.callers.load(Ordering::Relaxed);
                assert_eq!(callers, 0, "somebody waits for what has ended");
                return Ended::Well;
            }
            self.move_on();
        }
        panic!("it does not come to rest: {}", self.left());
    }

    fn move_on(&self) {
        let next = self.story.clock.sleeping_until().into_iter().next();
        let next = next.unwrap_or_else(|| panic!("nothing goes on: {}", self.left()));
        self.story.clock.advance_to(next);
    }

    /// What has not ended, and where the engine has it.
    fn left(&self) -> String {
        let intake = &self.services.intake;
        let mut left = format!(
            "{} in flight, {} at rest, {} in the backlog, {} callers",
            intake.in_flight(),
            intake.resting(),
            intake.queued(),
            self.callers.load(Ordering::Relaxed)
        );
        for row in super::judge::rows(&self.story.world) {
            if !row.status.is_terminal() {
                let number = self.story.world.state().number(row.id);
                let standing = intake.standing(row.id).unwrap_or_default();
                left += &format!(
                    "; execution {number} of `{}` is {:?} with {} events, it has {standing:?}",
                    row.automation, row.status, row.events
                );
            }
        }
        left
    }

    async fn let_happen(&mut self, happening: Happening) {
        match happening {
            Happening::Run { automation, waits } => self.run(automation, waits),
            Happening::Send { k, name } => self.send(k, name),
            Happening::Cancel(which) => {
                let accepted = self.story.world.state().accepted.get(which as usize).copied();
                let (engine, caller) = (self.engine.clone(), Caller::new(&self.callers));
                if let Some(id) = accepted {
                    tokio::spawn(async move {
                        let _caller = caller;
                        let _ = engine.cancel(id, "the simulation wants it so").await;
                    });
                }
            }
            Happening::Emit => {
                let (engine, caller) = (self.engine.clone(), Caller::new(&self.callers));
                tokio::spawn(async move {
                    let _caller = caller;
                    let _ = engine.emit("go", Value::from(2), None).await;
                });
            }
            Happening::Moves(times) => {
                for _ in 0..times {
                    self.idle.notified().await;
                    if let Some(next) = self.story.clock.sleeping_until().into_iter().next() {
                        self.story.clock.advance_to(next);
                    }
                }
            }
            Happening::Set(hours) => self.story.clock.step(SignedDuration::from_hours(hours)),
            Happening::Reload => {
                self.story.version = 1 - self.story.version;
                let version = &self.story.program.versions[self.story.version];
                self.services.take(version.catalog.clone(), &version.reload);
            }
            Happening::Settles => self.idle.notified().await,
        }
    }

    fn run(&self, automation: &'static str, waits: bool) {
        let (engine, world) = (self.engine.clone(), self.story.world.clone());
        let caller = Caller::new(&self.callers);
        tokio::spawn(async move {
            let _caller = caller;
            let start = Start { payload: Payload::manual(Map::new()), origin: Origin::Manual };
            let id = model::AutomationId::parse(automation).expect("an id");
            let Ok(id) = engine.run(&id, start).await else { return };
            world.heard(id, false);
            if waits && let Ok(outcome) = engine.wait(id).await {
                world.state().told.insert(id, outcome);
            }
        });
    }

    fn send(&self, k: u32, name: Option<u32>) {
        let (engine, world) = (self.engine.clone(), self.story.world.clone());
        let (caller, now) = (Caller::new(&self.callers), self.story.clock.now());
        let is_sync = self.story.program.start == program::Start::Sync;
        let name = name.map(|name| format!("{k}-{name}"));
        let mut headers = vec![("content-type".to_owned(), b"application/json".to_vec())];
        headers.extend(name.iter().map(|name| ("idempotency-key".to_owned(), name.clone().into_bytes())));
        let body = format!("{{\"k\":{k}}}").into();
        let request = Request { method: "POST".to_owned(), headers, body, ..Request::default() };
        tokio::spawn(async move {
            let _caller = caller;
            let answer = engine.receive(program::TOKEN, request).await;
            let id = answer.headers.iter().find(|(name, _)| name == EXECUTION_ID);
            let Some(id) = id.and_then(|(_, id)| id.parse().ok()) else {
                if answer.status < 300 {
                    world.violated(format!("{} names no execution", answer.status));
                }
                return;
            };
            world.heard(id, is_sync && answer.status < 300);
            let Some(name) = name else { return };
            let (first, at) = *world.state().sent.entry(name.clone()).or_insert((id, now));
            if first != id && now.duration_since(at).abs() < SURELY_REMEMBERED {
                world.violated(format!("`{name}` was sent twice, and started {first} and {id}"));
            }
        });
    }
}
