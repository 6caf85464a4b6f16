//! Tests with executions that crash the process, and others beside them. A process dies during a call: all tasks are
//! dropped, and the crash record stays as it is at that moment.

use std::pin::pin;
use std::sync::Weak;
use std::sync::atomic::AtomicU32;
use std::task::Waker;

use catalog::{Assembled, Catalog, Folder, Loader, ScanScope};
use connector::{Http, HttpOptions, Transport};
use jiff::Timestamp;
use model::action::ActionError;
use model::execution::{Event, Origin, Outcome};
use model::payload::Payload;
use store::memory::{FaultOutcome, FaultPlan, Faults, Operation};
use store::{ExecutionFilter, Memory, Page};
use tokio::sync::{Notify, watch};
use value::{Map, Value};

use super::*;
use crate::context::RuntimeParts;
use crate::doubles::{Doubles, StubRequest};
use crate::runtime::Runtime;
use crate::{AcceptOptions, ManualClock, Secret, Settings, Start};

/// The behaviour of a call of an automation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It crashes the process.
    Kills,
    /// It waits until the test releases it.
    Waits,
    Ends,
}

/// The state that outlives the processes of a test.
struct Stage {
    folder: tempfile::TempDir,
    memory: Memory,
    record: Arc<RecordMemory>,
    clock: ManualClock,
    double: Arc<Double>,
    deaths: AtomicU32,
}

/// The fate of a step, by its name and the number of the call.
type FateOf = dyn Fn(&str, u32) -> Fate + Send + Sync;

/// Answers `http.request`.
struct Double {
    /// The fate of a call, by automation and the number of the process from 1.
    fate: Box<FateOf>,
    process: AtomicU32,
    record: Arc<RecordMemory>,
    died: Notify,
    is_dead: AtomicBool,
    this: Weak<Self>,
    called: watch::Sender<Vec<String>>,
    released: watch::Sender<bool>,
}

impl Faults for Double {
    fn plan(&self, _: Operation<'_>) -> FaultPlan {
        match self.is_dead.load(Ordering::Relaxed) {
            true => FaultPlan { yields: 0, outcome: FaultOutcome::NeverReturns { is_written: false } },
            false => FaultPlan::NONE,
        }
    }
}

impl Doubles for Double {
    fn answer(&self, asked: &StubRequest<'_>) -> Option<BoxFuture<'static, Result<Value, ActionError>>> {
        if asked.called.name() != "http.request" {
            return None;
        }
        self.called.send_modify(|called| called.push(asked.automation.to_string()));
        match (self.fate)(asked.automation.as_str(), self.process.load(Ordering::Relaxed)) {
            Fate::Kills => {
                let double = self.this.upgrade()?;
                Some(
                    async move {
                        double.record.freeze();
                        if !double.is_dead.swap(true, Ordering::Relaxed) {
                            double.died.notify_one();
                        }
                        std::future::pending().await
                    }
                    .boxed(),
                )
            }
            Fate::Waits => {
                let mut released = self.released.subscribe();
                Some(
                    async move {
                        released.wait_for(|released| *released).await.expect("the test goes on");
                        Ok(Value::from(1))
                    }
                    .boxed(),
                )
            }
            Fate::Ends => Some(std::future::ready(Ok(Value::from(1))).boxed()),
        }
    }
}

const CALL: &str = "  - {action: http.request, with: {method: POST, url: \"http://x/y\"}}\n";

impl Stage {
    fn new(
        automations: &[(&str, String)],
        fate: impl Fn(&str, u32) -> Fate + Send + Sync + 'static,
    ) -> Arc<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("automations")).expect("a folder");
        for (name, text) in automations {
            let text = format!("trigger: {{manual: {{}}}}\n{text}");
            std::fs::write(folder.path().join(format!("automations/{name}.yaml")), text)
                .expect("it is written");
        }
        let record: Arc<RecordMemory> = Arc::default();
        let double = Arc::new_cyclic(|this: &Weak<Double>| Double {
            this: this.clone(),
            fate: Box::new(fate),
            process: AtomicU32::new(0),
            record: record.clone(),
            died: Notify::new(),
            is_dead: AtomicBool::new(false),
            called: watch::Sender::default(),
            released: watch::Sender::default(),
        });
        Arc::new(Self {
            folder,
            memory: Memory::default(),
            record,
            clock: ManualClock::new(Timestamp::from_second(1_790_000_000).expect("an instant")),
            double,
            deaths: AtomicU32::new(0),
        })
    }

    /// Runs `what` in a new process; `None` if the process died before it completed.
    fn process<T>(&self, what: impl AsyncFnOnce(Arc<Runtime>) -> T) -> Option<T> {
        self.double.process.fetch_add(1, Ordering::Relaxed);
        self.double.called.send_replace(Vec::new());
        self.double.is_dead.store(false, Ordering::Relaxed);
        self.clock.advance(std::time::Duration::from_millis(1));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let done = runtime.block_on(async {
            let engine = self.start().await;
            tokio::select! {
                biased;
                () = self.double.died.notified() => None,
                done = tokio::time::timeout(std::time::Duration::from_secs(20), what(engine)) => {
                    Some(done.expect("it comes to its end"))
                }
            }
        });
        self.deaths.fetch_add(u32::from(done.is_none()), Ordering::Relaxed);
        done
    }

    async fn start(&self) -> Arc<Runtime> {
        let settings = Settings { watch: false, ..Settings::new(self.folder.path()) };
        let builtin = Arc::new(catalog::builtin().expect("the connectors load"));
        let loader = Loader::new(&settings.dir, builtin.clone(), Vec::new());
        let empty = Arc::new(Catalog::empty(builtin));
        let assembled = loader.assemble(&empty, &mut Folder::new(&settings.dir), &ScanScope::Full).unwrap();
        let Assembled { catalog, .. } = assembled.expect("something is there");
        let broken: Vec<String> =
            catalog.invalid_files().iter().map(|broken| broken.report.render(false)).collect();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
        let options = HttpOptions { transport: Transport::Disabled, ..HttpOptions::default() };
        let runtime = Runtime::from_parts(RuntimeParts {
            settings,
            store: self.memory.open_with(self.double.clone()),
            secret: Secret::new([7; 32]),
            clock: Arc::new(self.clock.clone()),
            http: Http::new(options).expect("HTTP is set up"),
            catalog: Arc::new(catalog),
            isolation: Isolation::in_memory(&self.record),
            vault: None,
            doubles: Some(self.double.clone()),
        });
        runtime.admission.recover_unfinished().await.expect("it is read back");
        runtime.start_tasks();
        runtime
    }

    /// Waits until this process has made a call of the automation.
    async fn called(&self, automation: &str) {
        let mut called = self.double.called.subscribe();
        let is_called = |called: &Vec<String>| called.iter().any(|called| called == automation);
        called.wait_for(is_called).await.expect("the test goes on");
    }

    fn release(&self) {
        self.double.released.send_replace(true);
    }

    fn deaths(&self) -> u32 {
        self.deaths.load(Ordering::Relaxed)
    }
}

async fn run(engine: &Arc<Runtime>, automation: &str) -> ExecutionId {
    let start = Start {
        payload: Payload::manual(Map::new()),
        origin: Origin::Manual,
        by: crate::api::StartedBy::default(),
    };
    let id = model::AutomationId::parse(automation).expect("an id");
    {
        let catalog = engine.context.catalog();
        let deployment = catalog.get(&id).expect("it is in force").clone();
        engine.admission.accept(&deployment, start, AcceptOptions::default()).await.expect("it starts").id
    }
}

async fn status(engine: &Arc<Runtime>, id: ExecutionId) -> &'static str {
    let outcome = engine.admission.wait(id).await.expect("it ends");
    if let Outcome::Stuck { error } = &outcome {
        assert!(error.message.contains("died 5 times"), "{}", error.message);
    }
    outcome.status().as_str()
}

/// Starts these automations, each after the call of the one before, in a process that dies during the last.
fn begin(stage: &Arc<Stage>, automations: &[&str]) -> Vec<ExecutionId> {
    let ended = stage.process(async |engine| {
        for automation in automations {
            run(&engine, automation).await;
            stage.called(automation).await;
        }
        std::future::pending::<()>().await;
    });
    assert!(ended.is_none(), "the process dies");
    let (store, filter) = (stage.memory.open(), ExecutionFilter::default());
    let rows = store.executions(&filter, Page { before: None, limit: 100 }).now_or_never();
    let rows = rows.expect("nothing waits in memory").expect("they are read");
    assert_eq!(rows.len(), automations.len(), "each of them is accepted");
    rows.iter().rev().map(|row| row.id).collect()
}

fn calls() -> String {
    format!("steps:\n{CALL}")
}

fn fate(automation: &str, _: u32) -> Fate {
    match automation {
        "bystander" => Fate::Waits,
        _ => Fate::Kills,
    }
}

#[test]
fn an_execution_that_awaits_the_network_during_six_crashes_of_another_is_not_stuck() {
    let stage = Stage::new(&[("bystander", calls()), ("poison", calls())], fate);
    let ids = begin(&stage, &["bystander", "poison"]);
    let statuses = loop {
        let ended = stage.process(async |engine| {
            // It resumes at once, independently of the other.
            stage.called("bystander").await;
            let poison = status(&engine, ids[1]).await;
            stage.release();
            let events =
                engine.context.store.events(ids[0]).await.expect("they are read").expect("it is there");
            let counted = events.iter().filter(|event| matches!(event, Event::Resumed { waited: false, .. }));
            assert_eq!(counted.count(), 0, "no crash counts against it");
            [status(&engine, ids[0]).await, poison]
        });
        if let Some(statuses) = ended {
            break statuses;
        }
        assert!(stage.deaths() < 7);
    };
    assert_eq!((statuses, stage.deaths()), (["succeeded", "stuck"], 6));
}

#[test]
fn two_crashing_executions_at_the_same_time_are_both_stuck_and_others_are_not() {
    let stage =
        Stage::new(&[("bystander", calls()), ("poison", calls()), ("venom", calls())], |name, process| {
            // The other one starts in the same process.
            if (name, process) == ("poison", 1) { Fate::Waits } else { fate(name, process) }
        });
    let ids = begin(&stage, &["bystander", "poison", "venom"]);
    let statuses = loop {
        let ended = stage.process(async |engine| {
            stage.called("bystander").await;
            let statuses = (status(&engine, ids[1]).await, status(&engine, ids[2]).await);
            stage.release();
            [status(&engine, ids[0]).await, statuses.0, statuses.1]
        });
        if let Some(statuses) = ended {
            break statuses;
        }
        assert!(stage.deaths() < 12);
    };
    assert_eq!((statuses, stage.deaths()), (["succeeded", "stuck", "stuck"], 11));
}

#[test]
fn a_step_that_awaits_the_network_never_becomes_stuck_by_crashes() {
    let stage = Stage::new(&[("bystander", calls()), ("poison", calls())], fate);
    let ids = begin(&stage, &["bystander", "poison"]);
    // Another poison each time, so that none of them becomes stuck.
    for _ in 0..12 {
        let ended = stage.process(async |engine| {
            stage.called("bystander").await;
            run(&engine, "poison").await;
            std::future::pending::<()>().await;
        });
        assert!(ended.is_none());
    }
    let mut ended = None;
    while ended.is_none() {
        ended = stage.process(async |engine| {
            stage.release();
            status(&engine, ids[0]).await
        });
    }
    assert_eq!(ended, Some("succeeded"));
}

#[test]
fn a_suspect_that_suspends_lets_the_next_one_run() {
    let sleeper = format!("steps:\n{CALL}  - wait: 2h\n{CALL}");
    let stage = Stage::new(&[("sleeper", sleeper), ("next", calls())], |name, process| {
        match (name, process) {
            ("next", 1..=2) => Fate::Waits,
            // The first one crashes the process twice, the second one once before the first crash is counted.
            ("sleeper", 1 | 2) | ("next", 3) => Fate::Kills,
            _ => Fate::Ends,
        }
    });
    let ids = begin(&stage, &["next", "sleeper"]);
    for _ in 0..2 {
        let ended = stage.process(async |engine| status(&engine, ids[0]).await);
        assert!(ended.is_none());
    }
    let ended = stage.process(async |engine| {
        let isolation = engine.context.isolation.clone();
        assert_eq!(isolation.state().suspects.len(), 2, "both are suspects");
        assert_eq!(status(&engine, ids[0]).await, "succeeded");
        while engine.status().resting == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(isolation.alone.load(Ordering::Relaxed), 0, "nobody computes alone any more");
        stage.clock.advance(std::time::Duration::from_secs(7200));
        status(&engine, ids[1]).await
    });
    assert_eq!(ended, Some("succeeded"));
}

#[test]
fn a_suspect_that_waits_calls_or_is_cancelled_delays_no_other_execution() {
    let steps = calls();
    let automations = [
        ("holder", format!("concurrency: {{limit: 1}}\n{steps}")),
        ("caller", format!("steps:\n{CALL}  - call: called\n")),
        ("called", steps.clone()),
        ("cancelled", steps),
    ];
    let stage = Stage::new(&automations, |name, process| match (name, process) {
        ("holder", 1..=2) => Fate::Kills,
        (_, 1..=2) => Fate::Waits,
        ("caller" | "cancelled", 3..=4) => Fate::Kills,
        ("cancelled", _) => Fate::Waits,
        _ => Fate::Ends,
    });
    let ids = begin(&stage, &["cancelled", "caller", "holder"]);
    for _ in 0..3 {
        let ended = stage.process(async |_| std::future::pending::<()>().await);
        assert!(ended.is_none());
    }
    let ended = stage.process(async |engine| {
        let second = run(&engine, "holder").await;
        stage.called("cancelled").await;
        assert!(engine.admission.cancel(ids[0], "enough").await.expect("it is there"));
        let mut statuses = Vec::new();
        for id in ids.iter().chain([&second]) {
            statuses.push(status(&engine, *id).await);
        }
        statuses
    });
    assert_eq!(ended.expect("it lives"), ["cancelled", "succeeded", "succeeded", "succeeded"]);
}

fn id(number: u8) -> ExecutionId {
    ExecutionId::from_bytes([number; 16])
}

#[test]
fn no_other_execution_computes_while_a_suspect_does() {
    let memory: Arc<RecordMemory> = Arc::default();
    {
        let before = Isolation::in_memory(&memory);
        std::mem::forget(before.record.enter(id(1)));
        std::mem::forget(before.record.enter(id(2)));
    }
    let isolation = Isolation::in_memory(&memory);
    let observations: Vec<Observation> = [1, 2].map(|number| isolation.observe(id(number), 0)).into();
    let mut context = Context::from_waker(Waker::noop());
    let (other, fresh) = (AtomicU32::new(0), AtomicU32::new(0));
    let count = |count: &AtomicU32| count.fetch_add(1, Ordering::Relaxed);
    let counts_other = pin!(async { _ = count(&other) });
    let mut second = Box::pin(isolation.run(Some(&observations[1]), || false, counts_other));
    let counts_fresh = pin!(async { _ = count(&fresh) });
    let mut third = Box::pin(isolation.run(None, || false, counts_fresh));
    // Another thread of the runtime.
    let mut beside = || {
        let mut context = Context::from_waker(Waker::noop());
        (second.as_mut().poll(&mut context).is_ready(), third.as_mut().poll(&mut context).is_ready())
    };
    let mut asked = None;
    let asks = pin!(poll_fn(|_| {
        asked = std::thread::scope(|scope| scope.spawn(&mut beside).join()).ok();
        Poll::Ready(())
    }));
    let first = isolation.run(Some(&observations[0]), || false, asks);
    assert!(pin!(first).poll(&mut context).is_ready());
    assert_eq!(asked, Some((false, false)), "they wait while it computes");
    assert_eq!((other.load(Ordering::Relaxed), fresh.load(Ordering::Relaxed)), (0, 0));
    while second.as_mut().poll(&mut context).is_pending() {}
    while third.as_mut().poll(&mut context).is_pending() {}
    assert_eq!((other.load(Ordering::Relaxed), fresh.load(Ordering::Relaxed)), (1, 1), "then they go on");
}
