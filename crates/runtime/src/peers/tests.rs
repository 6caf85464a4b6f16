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
use pretty_assertions::assert_eq;
use store::Memory;
use store::memory::{FaultOutcome, FaultPlan, Faults, Operation};
use tokio::sync::watch;
use value::{Map, Value};

use super::*;
use crate::clock::Clock as _;
use crate::context::RuntimeParts;
use crate::doubles::{Doubles, StubRequest};
use crate::runtime::Runtime;
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

/// Finds no room for the appends of one execution.
#[derive(Default)]
struct Refusals(Mutex<Option<ExecutionId>>);

impl Refusals {
    fn refuse(&self, id: ExecutionId) {
        *self.0.lock().expect("nobody panicked") = Some(id);
    }

    fn refuse_nothing(&self) {
        *self.0.lock().expect("nobody panicked") = None;
    }
}

impl Faults for Refusals {
    fn plan(&self, operation: Operation<'_>) -> FaultPlan {
        let refused = *self.0.lock().expect("nobody panicked");
        let is_refused = matches!(operation, Operation::Append(append) if Some(append.execution) == refused);
        let outcome = if is_refused { FaultOutcome::Full } else { FaultOutcome::Succeeds };
        FaultPlan { outcome, ..FaultPlan::NONE }
    }
}

/// The project, the store and the clock that all nodes of a test have.
struct Stage {
    folder: tempfile::TempDir,
    memory: Memory,
    clock: ManualClock,
    calls: Arc<Calls>,
    refusals: Arc<Refusals>,
}

impl Stage {
    /// A project with the Automation `work`.
    fn new(work: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("automations")).expect("a folder");
        let text = format!("trigger: {{manual: {{}}}}\n{work}");
        std::fs::write(folder.path().join("automations/work.yaml"), text).expect("it is written");
        let clock = ManualClock::new(Timestamp::from_second(1_790_000_000).expect("an instant"));
        let (calls, refusals) = Default::default();
        Self { folder, memory: Memory::default(), clock, calls, refusals }
    }

    /// Starts a node with this number of slots.
    async fn node(&self, slots: usize) -> Arc<Runtime> {
        self.node_by(slots, &self.clock).await
    }

    /// Starts a node with this number of slots and this clock.
    async fn node_by(&self, slots: usize, clock: &ManualClock) -> Arc<Runtime> {
        let mut settings = Settings { watch: false, ..Settings::new(self.folder.path()) };
        settings.limits.in_flight = slots;
        let builtin = Arc::new(catalog::builtin().expect("the connectors load"));
        let loader = Loader::new(&settings.dir, builtin.clone(), Vec::new());
        let empty = Arc::new(Catalog::empty(builtin));
        let assembled = loader.assemble(&empty, &mut Folder::new(&settings.dir), &ScanScope::Full).unwrap();
        let Assembled { catalog, .. } = assembled.expect("something is there");
        let options = HttpOptions { transport: Transport::Disabled, ..HttpOptions::default() };
        let runtime = Runtime::from_parts(RuntimeParts {
            settings,
            store: self.memory.join(self.refusals.clone()).1,
            secret: Secret::new([7; 32]),
            clock: Arc::new(clock.clone()),
            http: Http::new(options).expect("HTTP is set up"),
            catalog: Arc::new(catalog),
            isolation: Isolation::none(),
            vault: None,
            doubles: Some(self.calls.clone()),
        });
        runtime.peers.join().await.expect("it joins");
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

    /// Adds the Automation `call`.
    fn with_call(self) -> Self {
        let call = format!("trigger: {{manual: {{}}}}\n{CALL}");
        std::fs::write(self.folder.path().join("automations/call.yaml"), call).expect("it is written");
        self
    }

    fn called(&self) -> usize {
        self.calls.count.load(Ordering::Relaxed)
    }

    /// Lets time pass until a condition holds, or a minute is over.
    async fn within_a_minute(&self, holds: impl Fn() -> bool) {
        let end = self.clock.monotonic_now().after(Duration::from_secs(60));
        self.until(|| holds() || self.clock.monotonic_now() >= end).await;
    }
}

async fn run(runtime: &Arc<Runtime>) -> ExecutionId {
    run_of(runtime, "work", AcceptOptions::default()).await
}

async fn run_of(runtime: &Arc<Runtime>, automation: &str, options: AcceptOptions) -> ExecutionId {
    let start = Start {
        payload: Payload::manual(Map::new()),
        origin: Origin::Manual,
        by: crate::api::StartedBy::default(),
    };
    let catalog = runtime.context.catalog.load();
    let automation = AutomationId::parse(automation).expect("an id");
    let deployment = catalog.get(&automation).expect("it is in force").clone();
    runtime.admission.accept(&deployment, start, options).await.expect("it starts").id
}

/// The status of an execution that a node shows.
fn shown(node: &Runtime, id: ExecutionId) -> Status {
    let row = node.context.store.execution(id).now_or_never().expect("it is in memory");
    node.admission.shown_status(&row.expect("it is read").expect("it is there"))
}

const CALL: &str = "steps:\n  - {action: http.request, with: {method: POST, url: \"http://x/y\"}}\n";

#[tokio::test]
async fn a_cancelled_execution_that_is_loading_counts_as_decided_for_other_nodes() {
    let stage = Stage::new("steps:\n  - wait: 1h\n");
    let node = stage.node(1).await;
    let id = run(&node).await;
    stage.until(|| node.admission.suspended_count() == 1).await;
    assert!(node.admission.cancel_here(id, "why"));
    assert!(node.admission.watch(id).is_none(), "it is claimed, and on its way into memory");
    assert!(node.peers.decided(id).await);
    node.context.closing.cancel();
}

#[tokio::test]
async fn an_execution_that_waits_for_a_slot_starts_at_a_node_with_a_free_one() {
    let stage = Stage::new(CALL);
    let (full, free) = (stage.node(1).await, stage.node(2).await);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(run(&full).await);
    }
    assert_eq!(full.admission.queued(), 3);
    let waiter = tokio::spawn({
        let (full, id) = (full.clone(), ids[1]);
        async move { full.admission.wait(id).await }
    });
    stage.until(|| free.admission.in_flight() == 2).await;
    assert_eq!((full.admission.in_flight(), full.admission.queued()), (1, 1), "one has no slot anywhere");
    let mut owners = Vec::new();
    for id in &ids {
        owners.push(full.context.store.owner(*id).await.expect("it is read").map(|owner| owner.0));
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
    let events = full.context.store.events(ids[1]).await.expect("they are read").expect("it is there");
    let waits = |event: &&Event| matches!(event, Event::Waited { .. });
    assert!(events.iter().filter(waits).count() <= 1, "{events:?}");
    full.context.closing.cancel();
    free.context.closing.cancel();
}

#[tokio::test]
async fn an_execution_moved_to_a_node_with_another_clock_keeps_its_full_timeout() {
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
        let row = full.context.store.execution(given).await.expect("it is read").expect("it is there");
        assert_eq!(row.status, Status::Succeeded, "{hours} hours: {row:?}");
        full.context.closing.cancel();
        free.context.closing.cancel();
    }
}

#[tokio::test]
async fn nodes_without_a_free_slot_keep_their_executions() {
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
    assert_eq!(one.context.metrics.adopted.get() + other.context.metrics.adopted.get(), 0);
    one.context.closing.cancel();
    other.context.closing.cancel();
}

#[tokio::test]
async fn a_reader_gives_up_if_others_hold_the_memory_for_too_long() {
    let stage = Stage::new("steps:\n  - wait: 1h\n");
    let node = stage.node(1).await;
    let all = node.context.reserve_to_read(usize::MAX).await.expect("it is free");
    let mut second = Box::pin(node.context.reserve_to_read(1 << 20));
    assert!(second.as_mut().now_or_never().is_none(), "it waits");
    assert!(node.context.reserve_to_read(1 << 10).await.is_ok(), "a small history needs no memory");
    stage.clock.advance(Duration::from_secs(5));
    assert!(matches!(second.await, Err(Error::ReadersBusy { .. })));
    drop(all);
    assert!(node.context.reserve_to_read(1 << 20).await.is_ok());
    node.context.closing.cancel();
}

#[tokio::test]
async fn all_nodes_show_if_an_execution_waits_for_its_permit_or_holds_it() {
    let stage = Stage::new(&format!("concurrency: {{limit: 1}}\n{CALL}"));
    let (one, other) = (stage.node(4).await, stage.node(4).await);
    let ids = [run(&one).await, run(&one).await];
    let statuses = || ids.map(|id| [&one, &other].map(|node| shown(node, id)));
    let expected = [[Status::Running; 2], [Status::Queued; 2]];
    stage.until(|| statuses() == expected).await;
    for node in [&one, &other] {
        node.admission.cancel_here(ids[0], "the test wants it");
    }
    stage.until(|| statuses() == [[Status::Cancelled; 2], [Status::Running; 2]]).await;
    assert_eq!(stage.calls.count.load(Ordering::Relaxed), 2);
    one.context.closing.cancel();
    other.context.closing.cancel();
}

#[tokio::test]
async fn a_start_is_acknowledged_although_the_store_refuses_later_writes() {
    let stage = Stage::new("steps:\n  - wait: 1h\n");
    let node = stage.node(1).await;
    let id = ExecutionId::from_bytes([1; 16]);
    stage.refusals.refuse(id);
    let starts = tokio::spawn({
        let node = node.clone();
        async move { run_of(&node, "work", AcceptOptions { id: Some(id), ..AcceptOptions::default() }).await }
    });
    stage.within_a_minute(|| starts.is_finished()).await;
    assert!(starts.is_finished(), "it waits for the write of the pause");
    assert_eq!(starts.await.expect("it is accepted"), id);
    assert_eq!(node.admission.suspended_count(), 0, "its pause is not recorded");
    node.context.closing.cancel();
}

#[tokio::test]
async fn an_execution_that_cannot_resume_after_its_wait_blocks_no_others() {
    let stage = Stage::new("steps:\n  - wait: 1h\n").with_call();
    let node = stage.node(2).await;
    let paused = run(&node).await;
    stage.until(|| node.admission.suspended_count() == 1).await;
    stage.refusals.refuse(paused);
    // Almost until the end of the pause: the calls have a time limit.
    stage.clock.advance(Duration::from_secs(60 * 60 - 1));
    for _ in 0..2 {
        run_of(&node, "call", AcceptOptions::default()).await;
    }
    stage.until(|| node.admission.queued() == 1).await;
    run_of(&node, "call", AcceptOptions::default()).await;
    stage.calls.released.send_replace(true);
    stage.within_a_minute(|| stage.called() == 3).await;
    assert_eq!(stage.called(), 3, "the last one waited behind the paused one");
    node.context.closing.cancel();
}

/// True if the node shows that the execution waits for the store.
fn waits_for_store(node: &Runtime, id: ExecutionId) -> bool {
    node.admission.place(id).is_some_and(|status| status.for_store)
}

#[tokio::test]
async fn an_execution_with_refused_writes_frees_its_slot_and_resumes_afterwards() {
    let stage = Stage::new("steps:\n  - wait: 1h\n").with_call();
    let node = stage.node(1).await;
    let id = ExecutionId::from_bytes([1; 16]);
    stage.refusals.refuse(id);
    run_of(&node, "work", AcceptOptions { id: Some(id), ..AcceptOptions::default() }).await;
    run_of(&node, "call", AcceptOptions::default()).await;
    stage.calls.released.send_replace(true);
    stage.within_a_minute(|| stage.called() == 1).await;
    assert_eq!(stage.called(), 1, "the refused execution keeps the only slot");
    stage.until(|| node.admission.in_flight() == 0).await;
    assert!(waits_for_store(&node, id));
    stage.refusals.refuse_nothing();
    stage.within_a_minute(|| node.admission.suspended_count() == 1).await;
    assert_eq!((node.admission.suspended_count(), waits_for_store(&node, id)), (1, false));
    node.context.closing.cancel();
}

#[tokio::test]
async fn an_execution_with_an_unstored_effect_keeps_its_slot_and_does_not_repeat_it() {
    let stage = Stage::new(CALL).with_call();
    let node = stage.node(1).await;
    let id = run(&node).await;
    stage.until(|| stage.called() == 1).await;
    stage.refusals.refuse(id);
    run_of(&node, "call", AcceptOptions::default()).await;
    stage.calls.released.send_replace(true);
    stage.within_a_minute(|| stage.called() > 1).await;
    assert_eq!((stage.called(), node.admission.in_flight(), node.admission.queued()), (1, 1, 1));
    assert!(waits_for_store(&node, id));
    stage.refusals.refuse_nothing();
    stage.within_a_minute(|| stage.called() == 2 && node.admission.in_flight() == 0).await;
    assert_eq!((stage.called(), shown(&node, id)), (2, Status::Succeeded), "each once");
    node.context.closing.cancel();
}

#[tokio::test]
async fn an_execution_whose_resume_the_store_refuses_frees_its_slot() {
    let stage = Stage::new("steps:\n  - wait: 1h\n").with_call();
    let node = stage.node(1).await;
    let id = run(&node).await;
    stage.until(|| node.admission.suspended_count() == 1).await;
    stage.refusals.refuse(id);
    stage.clock.advance(Duration::from_secs(60 * 60));
    stage.until(|| node.admission.suspended_count() == 0).await;
    run_of(&node, "call", AcceptOptions::default()).await;
    stage.calls.released.send_replace(true);
    stage.within_a_minute(|| stage.called() == 1).await;
    assert_eq!(stage.called(), 1, "the refused execution keeps the only slot");
    stage.refusals.refuse_nothing();
    stage.within_a_minute(|| shown(&node, id) == Status::Succeeded).await;
    assert_eq!(shown(&node, id), Status::Succeeded);
    node.context.closing.cancel();
}

#[tokio::test]
async fn a_cancellation_refused_by_the_store_takes_effect_afterwards() {
    let stage = Stage::new("steps:\n  - wait: 1h\n");
    let node = stage.node(1).await;
    let id = ExecutionId::from_bytes([1; 16]);
    stage.refusals.refuse(id);
    run_of(&node, "work", AcceptOptions { id: Some(id), ..AcceptOptions::default() }).await;
    stage.until(|| node.admission.in_flight() == 0).await;
    assert!(node.admission.cancel_here(id, "why"));
    stage.until(|| waits_for_store(&node, id) && node.admission.in_flight() == 0).await;
    stage.refusals.refuse_nothing();
    stage.within_a_minute(|| shown(&node, id) == Status::Cancelled).await;
    assert_eq!(shown(&node, id), Status::Cancelled);
    node.context.closing.cancel();
}
