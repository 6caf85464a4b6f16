//! Nodes on one store in memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use catalog::{Assembled, Catalog, Folder, Loader, ScanScope};
use connector::{Http, HttpOptions, Transport};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use model::AutomationId;
use model::action::ActionError;
use model::execution::{Event, Origin};
use model::payload::Payload;
use model::value::{Map, Value};
use pretty_assertions::assert_eq;
use store::Memory;
use store::memory::{FaultPlan, Faults, Operation};
use tokio::sync::watch;

use super::*;
use crate::clock::Clock as _;
use crate::context::RuntimeParts;
use crate::doubles::{Doubles, StubRequest};
use crate::{AcceptOptions, Isolation, ManualClock, Secret, Settings, Start};

/// Counts the calls of `http.request`, which wait until the test releases them.
#[derive(Default)]
struct Calls {
    count: AtomicUsize,
    released: watch::Sender<bool>,
}

impl Doubles for Calls {
    fn answer(&self, asked: &StubRequest<'_>) -> Option<BoxFuture<'static, Result<Value, ActionError>>> {
        if asked.called.name() != "http.request" {
            return None;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut released = self.released.subscribe();
        let answer = async move {
            released.wait_for(|released| *released).await.expect("the test goes on");
            Ok(Value::from(1))
        };
        Some(answer.boxed())
    }
}

struct NoFaults;

impl Faults for NoFaults {
    fn plan(&self, _: Operation<'_>) -> FaultPlan {
        FaultPlan::NONE
    }
}

/// The project, the store and the clock that all nodes of a test have.
struct Stage {
    folder: tempfile::TempDir,
    memory: Memory,
    clock: ManualClock,
    calls: Arc<Calls>,
}

impl Stage {
    /// A project with the Automation `work`.
    fn new(work: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("automations")).expect("a folder");
        let text = format!("trigger: {{manual: {{}}}}\n{work}");
        std::fs::write(folder.path().join("automations/work.yaml"), text).expect("it is written");
        let clock = ManualClock::new(Timestamp::from_second(1_790_000_000).expect("an instant"));
        Self { folder, memory: Memory::default(), clock, calls: Arc::default() }
    }

    /// Starts a node with so many slots.
    async fn node(&self, slots: usize) -> Arc<Runtime> {
        self.node_by(slots, &self.clock).await
    }

    /// Starts a node with so many slots and this clock.
    async fn node_by(&self, slots: usize, clock: &ManualClock) -> Arc<Runtime> {
        let mut settings = Settings { watch: false, ..Settings::new(self.folder.path()) };
        settings.limits.in_flight = slots;
        let builtin = Arc::new(catalog::builtin().expect("the connectors load"));
        let loader = Loader::new(&settings.dir, builtin.clone(), Vec::new());
        let empty = Arc::new(Catalog::empty(builtin));
        let assembled = loader.assemble(&empty, &mut Folder::new(&settings.dir), &ScanScope::Full);
        let Assembled { catalog, .. } = assembled.expect("something is there");
        let options = HttpOptions { transport: Transport::Disabled, ..HttpOptions::default() };
        let runtime = Runtime::from_parts(RuntimeParts {
            settings,
            store: self.memory.join(Arc::new(NoFaults)).1,
            secret: Secret::new([7; 32]),
            clock: Arc::new(clock.clone()),
            http: Http::new(options).expect("HTTP is set up"),
            catalog: Arc::new(catalog),
            isolation: Isolation::none(),
            vault: None,
            doubles: Some(self.calls.clone()),
        });
        runtime.join_peers().await.expect("it joins");
        runtime.start_tasks();
        runtime
    }

    /// Lets time pass until a condition holds.
    async fn until(&self, holds: impl Fn() -> bool) {
        while !holds() {
            self.clock.advance(Duration::from_millis(1));
            tokio::task::yield_now().await;
        }
    }
}

async fn run(runtime: &Arc<Runtime>) -> ExecutionId {
    let start = Start { payload: Payload::manual(Map::new()), origin: Origin::Manual };
    let catalog = runtime.catalog.load();
    let deployment =
        catalog.get(&AutomationId::parse("work").expect("an id")).expect("it is in force").clone();
    runtime.accept(&deployment, start, AcceptOptions::default()).await.expect("it starts").id
}

const CALL: &str = "steps:\n  - {action: http.request, with: {method: POST, url: \"http://x/y\"}}\n";

#[tokio::test]
async fn the_end_of_an_execution_that_is_being_loaded_is_told_to_other_nodes() {
    let stage = Stage::new("steps:\n  - wait: 1h\n");
    let node = stage.node(1).await;
    let id = run(&node).await;
    stage.until(|| node.admission.suspended_count() == 1).await;
    assert!(node.admission.cancel(&node, id, "why"));
    assert!(node.admission.watch(id).is_none(), "it is claimed, and on its way into memory");
    assert!(node.decided(id).await);
    node.closing.cancel();
}

#[tokio::test]
async fn an_execution_that_waits_for_a_slot_begins_at_a_node_that_has_one() {
    let stage = Stage::new(CALL);
    let (full, free) = (stage.node(1).await, stage.node(2).await);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(run(&full).await);
    }
    assert_eq!(full.admission.queued(), 3);
    let waiter = tokio::spawn({
        let (full, id) = (full.clone(), ids[1]);
        async move { full.wait(id).await }
    });
    stage.until(|| free.admission.in_flight() == 2).await;
    assert_eq!((full.admission.in_flight(), full.admission.queued()), (1, 1), "one has no slot anywhere");
    let mut owners = Vec::new();
    for id in &ids {
        owners.push(full.store.owner(*id).await.expect("it is read").map(|owner| owner.0));
    }
    assert_eq!(owners, [Some(1), Some(2), Some(2), Some(1)], "the oldest leave first");
    stage.calls.released.send_replace(true);
    stage.until(|| waiter.is_finished()).await;
    let outcome = waiter.await.expect("it goes on").expect("it ends");
    assert_eq!(outcome.status().as_str(), "succeeded");
    stage
        .until(|| full.admission.in_flight() + full.admission.queued() + free.admission.in_flight() == 0)
        .await;
    assert_eq!(stage.calls.count.load(Ordering::Relaxed), 4, "each once");
    let events = full.store.events(ids[1]).await.expect("they are read").expect("it is there");
    let waits = |event: &&Event| matches!(event, Event::Waited { .. });
    assert!(events.iter().filter(waits).count() <= 1, "{events:?}");
    full.closing.cancel();
    free.closing.cancel();
}

#[tokio::test]
async fn an_execution_that_a_node_with_another_clock_gets_has_its_whole_timeout() {
    for hours in [-24, 24] {
        let stage = Stage::new(CALL);
        let other =
            stage.clock.now().checked_add(jiff::SignedDuration::from_hours(hours)).expect("an instant");
        let other = ManualClock::new(other);
        let (full, free) = (stage.node(1).await, stage.node_by(1, &other).await);
        run(&full).await;
        let given = run(&full).await;
        let pass = |holds: bool| {
            other.advance(Duration::from_millis(1));
            holds
        };
        stage.until(|| pass(free.admission.in_flight() == 1)).await;
        stage.calls.released.send_replace(true);
        stage.until(|| pass(full.admission.in_flight() + free.admission.in_flight() == 0)).await;
        let row = full.store.execution(given).await.expect("it is read").expect("it is there");
        assert_eq!(row.status, Status::Succeeded, "{hours} hours: {row:?}");
        full.closing.cancel();
        free.closing.cancel();
    }
}

#[tokio::test]
async fn nodes_without_a_free_slot_keep_what_they_have() {
    let stage = Stage::new(CALL);
    let (one, other) = (stage.node(1).await, stage.node(1).await);
    for node in [&one, &one, &other, &other] {
        run(node).await;
    }
    for _ in 0..5000 {
        stage.clock.advance(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    assert_eq!((one.admission.queued(), other.admission.queued()), (1, 1));
    assert_eq!(one.metrics.adopted.get() + other.metrics.adopted.get(), 0);
    one.closing.cancel();
    other.closing.cancel();
}

#[tokio::test]
async fn a_reader_gives_up_where_others_have_the_memory_for_too_long() {
    let stage = Stage::new("steps:\n  - wait: 1h\n");
    let node = stage.node(1).await;
    let all = node.reserve_to_read(usize::MAX).await.expect("it is free");
    let mut second = Box::pin(node.reserve_to_read(1 << 20));
    assert!(second.as_mut().now_or_never().is_none(), "it waits");
    assert!(node.reserve_to_read(1 << 10).await.is_ok(), "a small history needs no memory");
    stage.clock.advance(Duration::from_secs(5));
    assert!(matches!(second.await, Err(Error::ReadersBusy { .. })));
    drop(all);
    assert!(node.reserve_to_read(1 << 20).await.is_ok());
    node.closing.cancel();
}
