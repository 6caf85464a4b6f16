//! Migrations between stores: the resulting data, interruptions and mistakes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::stores::{self, Location, undo_migration};
use jiff::Timestamp;
use model::failpoint::{Failpoint, FailpointAction, Failpoints};
use model::payload::WebhookPayload;
use model::{
    AutomationId, DefinitionHash, Event, ExecutionId, LogLevel, LogLine, Origin, Outcome, Payload, Status,
    StepOutcome,
};
use store::conformance::PostgresServer;
use store::migration::{Kind, Migrated, Progress};
use store::{
    Accept, AcceptOutcome, Address, Append, AwaitedEvent, DedupRecord, Definition, Error, EventKey,
    InitialEvents, NewExecution, Options, OutboxRow, PollEntry, PollState, PollWrite, Snapshot,
    SnapshotChange, StateWrite, Store, Subscription, Wait, Watermark,
};
use tempfile::TempDir;
use value::{Data, File, Map, Value};

/// Larger than what a row keeps.
const LARGE: usize = 100 << 10;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).expect("a time")
}

fn id(number: u8) -> ExecutionId {
    // On different days.
    ExecutionId::new(at(i64::from(number) * 50_000), [number; 10])
}

fn automation(name: &str) -> AutomationId {
    AutomationId::parse(name).expect("an id")
}

fn definition(name: &str, text: &str) -> Definition {
    let automation = automation(name);
    let hash = DefinitionHash::compute(&automation, text);
    Definition { hash, automation, path: format!("automations/{name}.yaml"), text: text.to_owned() }
}

fn new(definition: &Definition, number: u8, payload: Payload) -> NewExecution {
    let started = Event::Started {
        at: at(i64::from(number) * 50_000),
        automation: definition.automation.clone(),
        definition: definition.hash,
        origin: Origin::Manual,
        payload: payload.into(),
        trigger: model::automation::TriggerId::MAIN,
        inputs: None,
    };
    NewExecution {
        id: id(number),
        started,
        key: None,
        dedup: Vec::new(),
        starts_running: true,
        initial: InitialEvents::default(),
        gated: false,
    }
}

fn request(data: Data, filename: Option<&str>) -> Payload {
    let body = File { content_type: "application/json".into(), filename: filename.map(Into::into), data };
    Payload::Webhook(WebhookPayload {
        method: "POST".to_owned(),
        path_fragment: String::new(),
        query_parameters: Map::new(),
        raw_query: String::new(),
        headers: [("host".to_owned(), "a\0b".to_owned())].into(),
        body,
        code_result: None,
    })
}

fn step(name: &str, result: impl Into<Value>) -> Event {
    let outcome = StepOutcome::Succeeded { result: result.into() };
    Event::StepFinished { at: at(1), step: name.to_owned(), took_us: 12, outcome }
}

fn end() -> Event {
    Event::Finished { at: at(9), outcome: Outcome::Succeeded { result: Value::from("done") } }
}

fn line(text: &str) -> LogLine {
    LogLine::new(at(1), LogLevel::Info, Some("first".to_owned()), text)
}

async fn accept(store: &dyn Store, executions: Vec<NewExecution>) {
    let count = executions.len();
    let accepted = store.accept(&Accept { executions, ..Accept::default() }).await.expect("it is accepted");
    assert_eq!(accepted, vec![AcceptOutcome::New; count]);
}

/// Stores something of every kind.
async fn fill(store: &dyn Store) {
    let (orders, polls) = (definition("orders", "steps: []"), definition("polls", "steps: [1]"));
    for definition in [definition("orders", "steps: [0]"), orders.clone(), polls.clone()] {
        store.put_definition(definition).await.expect("it is put");
    }
    // Ended at once, with a key, records and log lines.
    let ended = NewExecution {
        key: Some("call:1:a".to_owned()),
        dedup: vec![
            DedupRecord { key: [1; 32], content: Some([2; 32]), until: at(1_000_000) },
            DedupRecord { key: [3; 32], content: None, until: at(2_000_000) },
        ],
        initial: InitialEvents {
            events: vec![step("a", 1), end()],
            logs: vec![line("one"), line("two")],
            ..InitialEvents::default()
        },
        ..new(&orders, 1, request(Data::from("{\"small\":1}"), None))
    };
    accept(store, vec![ended]).await;
    // Ended in appends, with a large value twice, and with a file.
    let mut file = store.files().create().expect("a file");
    for piece in 0..7_u8 {
        file.write(&vec![piece; 90_000]).expect("it is written");
    }
    let file = file.finish().expect("it is finished");
    accept(store, vec![new(&orders, 2, request(file, Some("photo.png")))]).await;
    let large = "x".repeat(LARGE);
    let events = vec![step("large", &*large), step("again", &*large)];
    let append = Append { events, logs: vec![line("three")], ..Append::new(id(2), 1, Status::Running) };
    store.append(&append).await.expect("it is appended");
    let append = Append { events: vec![end()], ..Append::new(id(2), 3, Status::Succeeded) };
    store.append(&append).await.expect("it ends");
    fill_unfinished(store, &orders, &polls).await;
    fill_values(store).await;
    fill_triggers(store).await;
}

/// Stores a waiting execution and a queued one.
async fn fill_unfinished(store: &dyn Store, orders: &Definition, polls: &Definition) {
    // It waits, with a snapshot and a permit.
    accept(store, vec![new(orders, 3, Payload::manual(Map::new()))]).await;
    let waiting = step("before", 5);
    let waits = vec![
        Wait { step: "go".to_owned(), until: Some(at(99)), event: None, child: Some(id(1)) },
        Wait {
            step: "paid".to_owned(),
            until: None,
            event: Some(AwaitedEvent {
                name: "paid".to_owned(),
                key: EventKey { path: "order.id".to_owned(), value: "1\0x".to_owned() },
                condition: Some("true".to_owned()),
            }),
            child: None,
        },
    ];
    let append = Append {
        events: vec![waiting],
        waits: Some(waits),
        keeps_permit: true,
        snapshot: SnapshotChange::Put(Snapshot { events: 1, body: "{\"a\":1}".to_owned() }),
        ..Append::new(id(3), 1, Status::Waiting)
    };
    store.append(&append).await.expect("it waits");
    // It is queued.
    let queued = NewExecution { starts_running: false, ..new(polls, 4, Payload::manual(Map::new())) };
    accept(store, vec![queued]).await;
}

/// Stores state values and deletes the newest, so that no value has the latest version.
async fn fill_values(store: &dyn Store) {
    let write = |key: &str, value: Option<&str>, expected| StateWrite {
        scope: "vault".to_owned(),
        key: key.to_owned(),
        expected,
        value: value.map(Value::from),
        expires_at: value.filter(|value| *value == "c").map(|_| at(5)),
    };
    store
        .write_state(vec![write("a\0", Some("ä"), None), write("b", Some("c"), None)])
        .await
        .expect("written");
    store.write_state(vec![write("gone", Some("d"), None)]).await.expect("it is written");
    let gone = store.read_state("vault", "gone").await.expect("it is read").expect("it is there").version;
    store.write_state(vec![write("gone", None, Some(gone))]).await.expect("it is deleted");
}

/// Stores addresses, a secret, and the progress of triggers.
async fn fill_triggers(store: &dyn Store) {
    let address =
        Address { trigger: automation("orders").into(), live: "live1".to_owned(), test: "test1".to_owned() };
    store.put_addresses(vec![address]).await.expect("they are put");
    store.get_or_init_secret([7; 32]).await.expect("it is kept");
    store.put_subscription(subscription()).await.expect("it is put");
    let watermark = Watermark {
        trigger: automation("orders").into(),
        schedule: "every 1h".to_owned(),
        instant: at(3600),
    };
    let accept = Accept { watermark: Some(watermark), emits: vec![event()], ..Accept::default() };
    store.accept(&accept).await.expect("it is written");
    for turn in 0..3 {
        let keys = vec![format!("item-{turn}"), "same".to_owned()];
        let entry = PollEntry { at: at(turn), items: 2, found: 1, error: None };
        let poll = PollWrite {
            trigger: automation("polls").into(),
            state: poll_state(turn),
            forgets_keys: false,
            keys,
            entry: Some(entry),
        };
        store.accept(&Accept { poll: Some(poll), ..Accept::default() }).await.expect("it is written");
    }
}

fn event() -> OutboxRow {
    OutboxRow { id: id(9), name: "order.paid".to_owned(), body: "{\"a\": \"ü\"}".to_owned(), at: at(9) }
}

fn poll_state(turn: i64) -> PollState {
    PollState {
        source: "{}".to_owned(),
        cursor: Value::from(turn),
        polled_at: Some(at(turn)),
        found_at: None,
        next_at: at(turn + 60),
        failures: 0,
        error: None,
        polls: 1,
        found: 1,
    }
}

fn subscription() -> Subscription {
    Subscription {
        id: "sub-1".to_owned(),
        trigger: automation("orders").into(),
        secret_trigger: None,
        source: "{}".to_owned(),
        event: "shop.paid".to_owned(),
        connection: None,
        inputs: Map::new(),
        url: String::new(),
        requested: true,
        remote: Value::from(17),
        removing: false,
        test: false,
        failures: 0,
        error: None,
        next_at: None,
        since: at(0),
    }
}

/// Checks through the methods of a store that everything of [`fill`] is there.
async fn check(store: &dyn Store) {
    let events = store.events(id(2)).await.expect("they are read").expect("they are there");
    assert_eq!(events.len(), 4);
    let Event::Started { payload, .. } = &events[0] else { panic!("no start") };
    let Payload::Webhook(request) = &**payload else { panic!("no request") };
    let mut sum = 0_u64;
    request
        .body
        .data
        .for_each_chunk(|chunk| sum += chunk.iter().map(|byte| u64::from(*byte)).sum::<u64>())
        .expect("read");
    assert_eq!((request.body.data.len(), sum), (630_000, 90_000 * 21));
    assert_eq!(events[2], step("again", "x".repeat(LARGE)));
    assert_eq!(store.events(id(1)).await.expect("read").expect("there")[1..], [step("a", 1), end()]);
    assert_eq!(store.logs(id(1), 1, 10).await.expect("they are read"), [line("two")]);
    let log = store.replay_log(id(3)).await.expect("it is read").expect("it is there");
    assert_eq!((log.snapshot.map(|snapshot| snapshot.body), log.count), (Some("{\"a\":1}".to_owned()), 2));
    assert_eq!(store.waits(id(3)).await.expect("they are read").len(), 2);
    assert_eq!(store.waiting_for_child(id(1)).await.expect("it is read"), Some((id(3), "go".to_owned())));
    let waiters =
        store.waiting_for_event("paid", "order.id", Some("1\0x"), None, 10).await.expect("they are read");
    assert_eq!(waiters.len(), 1);
    assert_eq!(store.unfinished_count().await.expect("it is read"), 2);
    assert_eq!(store.outbox_page("order.paid", None, 10).await.expect("they are read"), [event()]);
    let row = store.execution(id(4)).await.expect("it is read").expect("it is there");
    assert_eq!((row.status, row.started_at), (Status::Queued, at(200_000)));
    let hit = store.find_dedup(&automation("orders"), [1; 32], at(0)).await.expect("it is read");
    assert_eq!(hit.and_then(|hit| hit.content), Some([2; 32]));
    assert_eq!(store.get_or_init_secret([9; 32]).await.expect("it is read"), [7; 32]);
    assert_eq!(store.subscriptions().await.expect("they are read"), [subscription()]);
    assert_eq!(
        store.poll_states().await.expect("they are read"),
        [(automation("polls").into(), poll_state(2))]
    );
    let entries = store.poll_entries(&automation("polls").into(), 10).await.expect("they are read");
    assert_eq!(entries.iter().map(|entry| entry.at).collect::<Vec<_>>(), [at(2), at(1), at(0)]);
    let keys = ["item-1".to_owned(), "other".to_owned()];
    let known = store.known_poll_keys(&automation("polls").into(), &keys).await.expect("they are read");
    assert_eq!(known, [true, false]);
    let latest = store.definitions(&automation("orders"), 10).await.expect("they are read");
    let uses: Vec<(DefinitionHash, u64)> = latest.iter().map(|used| (used.hash, used.executions)).collect();
    let expected =
        [(definition("orders", "steps: []").hash, 3), (definition("orders", "steps: [0]").hash, 0)];
    assert_eq!(uses, expected, "the one put last comes first");
}

/// Checks that the store takes writes as the first one would have.
async fn check_writes(store: &dyn Store) {
    let again = NewExecution {
        key: Some("call:1:a".to_owned()),
        ..new(&definition("orders", "steps: []"), 9, Payload::manual(Map::new()))
    };
    let accepted =
        store.accept(&Accept { executions: vec![again], ..Accept::default() }).await.expect("answered");
    assert_eq!(accepted, [AcceptOutcome::Duplicate(id(1))], "a key stays taken");
    let before = store.read_state("vault", "b").await.expect("it is read").expect("it is there");
    let write = StateWrite {
        scope: "vault".to_owned(),
        key: "new".to_owned(),
        expected: None,
        value: Some(Value::from(1)),
        expires_at: None,
    };
    store.write_state(vec![write]).await.expect("it is written");
    let version = store.read_state("vault", "new").await.expect("it is read").expect("it is there").version;
    assert!(version > before.version + 1, "{version}: no version is given twice");
    let deleted = store.collect_garbage().await.expect("it is collected");
    assert_eq!(deleted, 0, "every large value has its uses");
}

fn open(location: &Location, folder: &TempDir) -> Result<Arc<dyn Store>, Error> {
    let options =
        Options { local: Some(folder.path().join("local")), blob_bytes: 50 << 10, ..Options::default() };
    stores::open(location, options)
}

async fn filled(location: &Location, folder: &TempDir) {
    let store = open(location, folder).expect("it opens");
    fill(&*store).await;
    store.close().await.expect("it closes");
}

async fn migrate(from: &Location, to: &Location, failpoints: Failpoints) -> Result<Migrated, Error> {
    stores::migrate(from, to, at(0), failpoints, &mut |_: Progress| {}).await
}

async fn moved(from: &Location, to: &Location) -> Migrated {
    let moved = migrate(from, to, Failpoints::default()).await.expect("it is moved");
    let different: Vec<_> = moved.kinds.iter().filter(|(_, source, target)| source != target).collect();
    assert!(moved.is_equal(), "{different:?}");
    moved
}

fn server() -> PostgresServer {
    PostgresServer::start()
}

fn address(server: &PostgresServer) -> Location {
    Location::parse(&server.space().url(), Path::new("")).expect("an address")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_records_migrate_to_postgres_and_back_to_sqlite() {
    let (server, one, other) = (server(), folder(), folder());
    let (file, database) = (Location::from(one.path().join("a")), address(&server));
    filled(&file, &one).await;
    let there = moved(&file, &database).await;
    for (kind, source, _) in &there.kinds {
        assert!(source.count > 0, "the sample has no {kind}");
    }
    // A daemon takes the shards, and has the executions that have not ended then.
    let store = open(&database, &one).expect("it opens");
    check(&*store).await;
    store.take_shards().await.expect("they are taken");
    let handed: BTreeSet<ExecutionId> =
        store.handed().await.expect("they are read").into_iter().map(|handed| handed.row.id).collect();
    assert_eq!(handed, [id(3), id(4)].into_iter().collect());
    store.close().await.expect("it closes");

    let back = Location::from(other.path().join("b.db"));
    let here = moved(&database, &back).await;
    let hashes = |moved: &Migrated| -> Vec<(Kind, String)> {
        moved.kinds.iter().map(|(kind, tally, _)| (*kind, tally.hash())).collect()
    };
    assert_eq!(hashes(&there), hashes(&here));
    let store = open(&back, &other).expect("it opens");
    check(&*store).await;
    check_writes(&*store).await;
    store.close().await.expect("it closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migrated_store_accepts_writes() {
    let (server, one) = (server(), folder());
    let (file, database) = (Location::from(one.path().join("a")), address(&server));
    filled(&file, &one).await;
    moved(&file, &database).await;
    let store = open(&database, &one).expect("it opens");
    check_writes(&*store).await;
    store.take_shards().await.expect("they are taken");
    let append = Append { events: vec![end()], ..Append::new(id(3), 2, Status::Succeeded) };
    store.append(&append).await.expect("it has an owner, and ends");
    store.close().await.expect("it closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_resumes_after_a_failure_at_any_commit() {
    let (server, one, other) = (server(), folder(), folder());
    let (file, database) = (Location::from(one.path().join("a")), address(&server));
    filled(&file, &one).await;
    let failing = |count: u32, boundary: Failpoint| {
        let seen = AtomicU32::new(0);
        Failpoints::new(move |at| {
            (at == boundary && seen.fetch_add(1, Ordering::Relaxed) == count)
                .then_some(FailpointAction::Error)
        })
    };
    let back = Location::from(other.path().join("b"));
    for (from, to) in [(&file, &database), (&database, &back)] {
        let mut failures = 0;
        // Each run commits one page more, and stops before or after the next commit.
        loop {
            let boundary = if failures % 2 == 0 { Failpoint::AfterCommit } else { Failpoint::BeforeCommit };
            match migrate(from, to, failing(failures % 3, boundary)).await {
                Ok(moved) => break assert!(moved.is_equal()),
                // It failed after the last commit.
                Err(Error::Moved { .. }) => break,
                Err(error) => {
                    assert!(matches!(error, Error::Write { .. }), "{error}");
                    failures += 1;
                    // Whatever is open, no daemon starts on both, nor on a part.
                    let started = [open(from, &one), open(to, &other)].into_iter().flatten();
                    let started: Vec<_> = started.collect();
                    assert!(started.len() <= 1, "after {failures} failures");
                    for store in started {
                        store.close().await.expect("it closes");
                    }
                }
            }
        }
        assert!(failures > 10, "{failures}");
        let refused = open(from, &one).expect_err("it was moved");
        assert!(matches!(refused, Error::Moved { .. }), "{refused}");
    }
    let store = open(&back, &other).expect("it opens");
    check(&*store).await;
    store.close().await.expect("it closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nonempty_target_and_a_source_in_use_are_rejected() {
    let (server, one, other) = (server(), folder(), folder());
    let (file, database) = (Location::from(one.path().join("a")), address(&server));
    let occupied = Location::from(other.path().join("b"));
    filled(&file, &one).await;
    filled(&occupied, &other).await;
    let why = |result: Result<Migrated, Error>| result.expect_err("it is refused").to_string();
    let refused = why(migrate(&file, &occupied, Failpoints::default()).await);
    assert!(refused.contains("is not empty"), "{refused}");
    assert!(why(migrate(&file, &file, Failpoints::default()).await).contains("same store"));

    let running = open(&file, &one).expect("it opens");
    assert!(why(migrate(&file, &database, Failpoints::default()).await).contains("another daemon (process"));
    running.close().await.expect("it closes");
    moved(&file, &database).await;
    let refused = why(migrate(&file, &Location::from(other.path().join("c")), Failpoints::default()).await);
    assert!(refused.contains("was moved to"), "{refused}");

    let running = open(&database, &one).expect("it opens");
    let back = Location::from(other.path().join("d"));
    let refused = why(migrate(&database, &back, Failpoints::default()).await);
    assert!(refused.contains("a daemon on") && refused.contains("stop it"), "{refused}");
    running.close().await.expect("it closes");
    moved(&database, &back).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_changed_during_migration_is_detected_and_stays_active() {
    let (server, one) = (server(), folder());
    let (file, database) = (Location::from(one.path().join("a")), address(&server));
    filled(&file, &one).await;
    let late = Failpoints::new({
        let seen = AtomicU32::new(0);
        move |at| {
            (at == Failpoint::BeforeCommit && seen.fetch_add(1, Ordering::Relaxed) == 12)
                .then_some(FailpointAction::Error)
        }
    });
    migrate(&file, &database, late).await.expect_err("it is interrupted");
    let store = open(&file, &one).expect("nothing keeps the source from being used");
    accept(
        &*store,
        vec![new(&definition("orders", "steps: []"), 1, Payload::manual(Map::new()))]
            .into_iter()
            .map(|new| NewExecution { id: ExecutionId::new(at(1), [77; 10]), ..new })
            .collect(),
    )
    .await;
    store.close().await.expect("it closes");
    let moved = migrate(&file, &database, Failpoints::default()).await.expect("it goes on");
    assert!(!moved.is_equal(), "an execution is missing in the target");
    open(&file, &one).expect("it is still the store").close().await.expect("it closes");
    let refused = open(&database, &one).expect_err("it is not complete");
    assert!(refused.to_string().contains("only a part"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_can_be_undone() {
    let (one, other) = (folder(), folder());
    let (file, second) = (Location::from(one.path().join("a")), Location::from(other.path().join("b")));
    filled(&file, &one).await;
    moved(&file, &second).await;
    let refused = open(&file, &one).expect_err("it was moved").to_string();
    assert!(refused.contains("--undo") && refused.contains(&second.to_string()), "{refused}");
    let undone = undo_migration(&file, &mut |_| {}).await.expect("it is undone");
    assert_eq!(undone, Some(second.to_string()));
    let store = open(&file, &one).expect("it opens again");
    check(&*store).await;
    store.close().await.expect("it closes");
    assert_eq!(undo_migration(&file, &mut |_| {}).await.expect("it is asked"), None);
}
