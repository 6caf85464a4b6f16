//! The callers of an engine: people and programs that start, cancel and wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::SignedDuration;
use model::execution::Origin;
use model::payload::Payload;
use runtime::ManualStart;
use runtime::{Clock as _, ManualClock};
use trigger::response::EXECUTION_ID;
use trigger::webhook::Request;
use value::{Map, Value};

use super::generator::TOLD;
use super::process_life::ExternalEvent;
use super::program::{self, Program};
use super::world::World;
use crate::engine::Engine;

/// Minimum retention of deduplication keys: the window minus the possible clock changes.
const MIN_DEDUP_RETENTION: SignedDuration = SignedDuration::from_hours(12);

/// The callers of an engine. Each runs in a task of its own.
pub(super) struct Callers {
    world: Arc<World>,
    program: Arc<Program>,
    clock: ManualClock,
    engine: Engine,
    /// Number of waiting callers.
    count: Arc<AtomicUsize>,
}

/// A waiting caller.
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

impl Callers {
    pub(super) fn new(
        world: &Arc<World>,
        program: &Arc<Program>,
        clock: &ManualClock,
        engine: &Engine,
    ) -> Self {
        let (world, program, clock) = (world.clone(), program.clone(), clock.clone());
        Self { world, program, clock, engine: engine.clone(), count: Arc::default() }
    }

    /// Number of waiting callers.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Starts a caller. Does nothing for an event of another kind.
    pub(super) fn call(&self, event: ExternalEvent) {
        match event {
            ExternalEvent::Run { automation, waits } => self.run(automation, waits),
            ExternalEvent::Send { to, k, name } => self.send(to, k, name),
            ExternalEvent::Cancel(which) => {
                let accepted = self.world.state().accepted.get(which as usize).copied();
                let (engine, caller) = (self.engine.clone(), Caller::new(&self.count));
                if let Some(id) = accepted {
                    tokio::spawn(async move {
                        let _caller = caller;
                        let _ = engine.admission().cancel(id, "the simulation wants it so").await;
                    });
                }
            }
            ExternalEvent::Emit => {
                let (engine, caller) = (self.engine.clone(), Caller::new(&self.count));
                let (world, tells) = (self.world.clone(), self.program.has_consumers);
                tokio::spawn(async move {
                    let _caller = caller;
                    let _ = engine.admission().emit("go", Value::from(2), None).await;
                    if tells {
                        let id = format!("caller-{}", world.state().next_told());
                        let sent =
                            engine.admission().emit_as(Some(id.clone()), TOLD, Value::from(2), None).await;
                        world.state().told_events.insert(id, sent.is_ok());
                    }
                });
            }
            _ => {}
        }
    }

    fn run(&self, automation: &'static str, waits: bool) {
        let (engine, world) = (self.engine.clone(), self.world.clone());
        let caller = Caller::new(&self.count);
        tokio::spawn(async move {
            let _caller = caller;
            let start = ManualStart::new(Payload::manual(Map::new()), Origin::Manual);
            let id = model::AutomationId::parse(automation).expect("an id");
            let Ok(id) = engine.ingress().start(&id.into(), start).await else { return };
            world.heard(id, false);
            if waits && let Ok(outcome) = engine.admission().wait(id).await {
                world.state().told.insert(id, outcome);
            }
        });
    }

    fn send(&self, to: usize, k: u32, name: Option<u32>) {
        let (engine, world) = (self.engine.clone(), self.world.clone());
        let (caller, now) = (Caller::new(&self.count), self.clock.now());
        let is_sync = self.program.start == program::Start::Sync;
        // Most requests are for the trigger `main`, which every version has.
        let (token, trigger) = program::TOKENS.get(to).copied().unwrap_or(program::TOKENS[0]);
        let name = name.map(|name| format!("{trigger}-{k}-{name}"));
        let mut headers = vec![("content-type".to_owned(), b"application/json".to_vec())];
        headers.extend(name.iter().map(|name| ("idempotency-key".to_owned(), name.clone().into_bytes())));
        let body = format!("{{\"k\":{k}}}").into();
        let request = Request { method: "POST".to_owned(), headers, body, ..Request::default() };
        tokio::spawn(async move {
            let _caller = caller;
            let answer = engine.ingress().receive(token, request).await;
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
            if first != id && now.duration_since(at).abs() < MIN_DEDUP_RETENTION {
                world.violated(format!("`{name}` was sent twice, and started {first} and {id}"));
            }
        });
    }
}
