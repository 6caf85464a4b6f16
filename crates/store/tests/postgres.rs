//! The store on PostgreSQL beside what other programs, administrators and failures do to its server.
#![cfg(unix)]
#![expect(clippy::expect_used, reason = "what a test prepares has to work")]

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use model::{
    AutomationId, DefinitionHash, Event, ExecutionId, Map, Origin, Payload, Status, StepOutcome, Value,
};
use store::conformance::{PostgresServer, PostgresSpace};
use store::{
    Accept, AcceptOutcome, Append, Definition, Durability, Error, InitialEvents, Location, NewExecution,
    Options, Store,
};
use tempfile::TempDir;

fn server() -> PostgresServer {
    PostgresServer::start().expect("PostgreSQL is installed")
}

fn open_at(url: &str, folder: &TempDir) -> Result<Arc<dyn Store>, Error> {
    let options = Options { local: Some(folder.path().to_owned()), ..Options::default() };
    store::open(&Location::parse(url, Path::new(""))?, options)
}

fn open(space: &PostgresSpace, folder: &TempDir) -> Arc<dyn Store> {
    open_at(&space.url(), folder).expect("it opens")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn at() -> Timestamp {
    Timestamp::from_second(1_790_000_000).expect("a time")
}

async fn definition(store: &dyn Store) -> Definition {
    let automation = AutomationId::parse("orders").expect("an id");
    let text = "steps: []".to_owned();
    let hash = DefinitionHash::compute(&automation, &text);
    let definition = Definition { hash, automation, path: "automations/orders.yaml".to_owned(), text };
    store.put_definition(definition.clone()).await.expect("it is put");
    definition
}

fn new(definition: &Definition, number: u128) -> NewExecution {
    let mut random = [0; 10];
    random.copy_from_slice(&number.to_be_bytes()[6..]);
    let started = Event::Started {
        at: at(),
        automation: definition.automation.clone(),
        definition: definition.hash,
        origin: Origin::Manual,
        payload: Payload::manual(Map::new()).into(),
    };
    let id = ExecutionId::new(at(), random);
    let initial = InitialEvents::default();
    NewExecution { id, started, key: None, dedup: Vec::new(), starts_running: true, initial }
}

async fn accept(store: &dyn Store, new: NewExecution) -> Result<Vec<AcceptOutcome>, Error> {
    store.accept(&Accept { executions: vec![new], ..Accept::default() }).await
}

fn step(number: u32) -> Event {
    let outcome = StepOutcome::Succeeded { result: Value::from(number) };
    Event::StepFinished { at: at(), step: format!("s{number}"), took_us: 1, outcome }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_daemon_on_the_database_is_refused_and_one_after_it_begins_at_once() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let store = open(&space, &first);
    let url = space.url();
    let refused =
        tokio::task::spawn_blocking(move || open_at(&url, &second).map(drop)).await.expect("no panic");
    let message = refused.expect_err("another daemon uses it").to_string();
    assert!(message.contains("several daemons on one database are not supported yet"), "{message}");
    let definition = definition(&*store).await;
    assert!(accept(&*store, new(&definition, 1)).await.is_ok(), "the first is not disturbed");
    store.close().await.expect("it closes");
    let next = folder();
    let store = open(&space, &next);
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_once_a_lane_is_dead() {
    let server = server();
    let (space, folder) = (server.space(), folder());
    let store = open(&space, &folder);
    let definition = definition(&*store).await;
    accept(&*store, new(&definition, 1)).await.expect("it is accepted");
    server.run(&format!("UPDATE {}.lanes SET dead = true", space.schema()));
    for number in 2..6 {
        let refused = accept(&*store, new(&definition, number)).await.expect_err("the lane is dead");
        assert!(refused.outcome_unknown(), "the daemon ends: {refused}");
    }
    assert!(store.failure().await.to_string().contains("another daemon has taken over"));
    assert_eq!(server.run(&format!("SELECT count(*) FROM {}.live", space.schema())), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_confirmed_is_stored_once_whenever_connections_are_cut() {
    let server = Arc::new(server());
    let (space, folder) = (server.space(), folder());
    let store = open(&space, &folder);
    let definition = definition(&*store).await;
    let writers: Vec<_> = (0..16_u128)
        .map(|writer| {
            let (store, definition) = (store.clone(), definition.clone());
            tokio::spawn(async move {
                for turn in 0..20_u128 {
                    let new = new(&definition, writer << 32 | turn);
                    let id = new.id;
                    accept(&*store, new).await.expect("it is accepted");
                    for first in 1..4 {
                        let append =
                            Append { events: vec![step(first)], ..Append::new(id, first, Status::Running) };
                        store.append(&append).await.expect("it is appended");
                    }
                }
            })
        })
        .collect();
    let cut = server.clone();
    let cutting = tokio::task::spawn_blocking(move || {
        for _ in 0..25 {
            cut.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'cogwork%'");
        }
    });
    for writer in writers {
        writer.await.expect("every write is confirmed");
    }
    cutting.await.expect("no panic");
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 320);
    let rows = server.run(&format!(
        "SELECT count(*), count(DISTINCT (execution, first)), sum(first) FROM {}.events",
        space.schema()
    ));
    assert_eq!(rows, "1280|1280|1920", "each event once");
    let id = new(&definition, 7 << 32 | 3).id;
    assert_eq!(store.events(id).await.expect("they are read").map(|events| events.len()), Some(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_goes_on_after_a_restart_of_the_server_program() {
    let server = server();
    let (space, folder) = (server.space(), folder());
    let store = open(&space, &folder);
    let definition = definition(&*store).await;
    accept(&*store, new(&definition, 1)).await.expect("it is accepted");
    server.restart();
    accept(&*store, new(&definition, 2)).await.expect("it is accepted");
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 2);
}

#[test]
fn a_user_with_the_rights_of_the_manual_is_enough_and_one_without_is_told_which() {
    let server = server();
    let space = server.space();
    server.run("CREATE ROLE least LOGIN; CREATE ROLE nobody LOGIN");
    let folder = folder();
    server.run(&format!("GRANT USAGE ON SCHEMA {} TO nobody", space.schema()));
    let refused = open_at(&space.url_as("nobody"), &folder).map(drop).expect_err("it may not make tables");
    assert!(refused.to_string().contains("GRANT CREATE, USAGE ON SCHEMA"), "{refused}");
    server.run(&format!("GRANT CREATE, USAGE ON SCHEMA {} TO least", space.schema()));
    let store = open_at(&space.url_as("least"), &folder).expect("it opens");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let definition = definition(&*store).await;
        accept(&*store, new(&definition, 1)).await.expect("it is accepted");
        store.collect_garbage().await.expect("it is tidied");
        let info = store.info().await.expect("it is described");
        assert!(info.engine.starts_with("PostgreSQL "), "{info:?}");
        assert!(info.weakened.iter().any(|line| line.contains("synchronous standby")), "{info:?}");
    });
}

#[test]
fn a_server_that_may_lose_writes_is_refused_unless_durability_is_relaxed() {
    let server = PostgresServer::start_with("-c fsync=off").expect("PostgreSQL is installed");
    let (space, folder) = (server.space(), folder());
    let refused = open_at(&space.url(), &folder).map(drop).expect_err("fsync is off").to_string();
    assert!(
        refused.contains("`fsync` is off on the server") && refused.contains("durability: relaxed"),
        "{refused}"
    );
    let location = Location::parse(&space.url(), Path::new("")).expect("an address");
    let relaxed = Options {
        durability: Durability::Relaxed,
        local: Some(folder.path().to_owned()),
        ..Options::default()
    };
    let store = store::open(&location, relaxed).expect("it opens");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let info = runtime.block_on(store.info()).expect("it is described");
    assert!(info.weakened.iter().any(|line| line.contains("`fsync` is off")), "{info:?}");
}

#[test]
fn tables_of_another_program_are_left_alone() {
    let server = server();
    let (space, folder) = (server.space(), folder());
    server.run(&format!("CREATE TABLE {}.events (id int)", space.schema()));
    let refused = open_at(&space.url(), &folder).map(drop).expect_err("it is not ours").to_string();
    assert!(refused.contains("tables of another program"), "{refused}");
    assert_eq!(
        server.run(&format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{}'", space.schema())),
        "1"
    );
}

#[test]
fn a_database_that_does_not_answer_is_named_without_the_password() {
    let url = "postgres://cogwork:hunter2@127.0.0.1:1/flows";
    let refused = open_at(url, &folder()).map(drop).expect_err("nothing listens there").to_string();
    assert!(refused.contains("postgres://127.0.0.1:1/flows") && !refused.contains("hunter2"), "{refused}");
}

#[test]
fn a_store_is_read_beside_a_daemon_and_not_before_one_ran() {
    let server = server();
    let (space, folder) = (server.space(), folder());
    let location = Location::parse(&space.url(), Path::new("")).expect("an address");
    let refused = store::open_read_only(&location).map(drop).expect_err("there are no tables").to_string();
    assert!(refused.contains("start the daemon once"), "{refused}");
    let store = open(&space, &folder);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let definition = definition(&*store).await;
        accept(&*store, new(&definition, 1)).await.expect("it is accepted");
        let beside = store::open_read_only(&location).expect("it opens");
        assert_eq!(beside.unfinished_count().await.expect("it is counted"), 1);
        let refused = accept(&*beside, new(&definition, 2)).await.expect_err("it only reads");
        assert!(matches!(refused, Error::ReadOnly), "{refused}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_reads_the_rows_of_its_executions_only_whatever_the_statistics_say() {
    let server = server();
    let (space, folder) = (server.space(), folder());
    let store = open(&space, &folder);
    let definition = definition(&*store).await;
    // From now on the planner believes that there are no executions.
    server.run(&format!("VACUUM ANALYZE {}.live", space.schema()));
    const COUNT: u128 = 1500;
    let each = |turn: u32| {
        let (store, definition) = (store.clone(), definition.clone());
        async move {
            let writes = (0..COUNT).map(|number| {
                let (store, new) = (store.clone(), new(&definition, number));
                tokio::spawn(async move {
                    let id = new.id;
                    match turn {
                        0 => drop(accept(&*store, new).await.expect("it is accepted")),
                        turn => {
                            let append =
                                Append { events: vec![step(turn)], ..Append::new(id, turn, Status::Running) };
                            store.append(&append).await.expect("it is appended");
                        }
                    }
                })
            });
            for write in writes.collect::<Vec<_>>() {
                write.await.expect("no panic");
            }
        }
    };
    each(0).await;
    let reads = format!(
        "SELECT coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0) FROM pg_stat_user_tables \
         WHERE schemaname = '{}' AND relname = 'live'",
        space.schema()
    );
    // The sessions report what they have done when they have been idle, and when they end.
    let read = || async {
        server.run("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name LIKE 'cogwork%'");
        server.run(&reads).parse::<u128>().expect("a number")
    };
    let before = read().await;
    for turn in 1..3 {
        each(turn).await;
    }
    let rows = read().await - before;
    assert!(rows <= 2 * COUNT + 200, "{rows} rows for {} appends", 2 * COUNT);
}
