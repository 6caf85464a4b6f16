//! The store on PostgreSQL beside what other programs, administrators and failures do to its server.
#![cfg(unix)]
#![expect(clippy::expect_used, reason = "what a test prepares has to work")]

mod conformance;
mod handover;
mod listening;
mod outage;
mod pairing;
mod releases;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::{
    AutomationId, DefinitionHash, Event, ExecutionId, Origin, Outcome, Payload, Status, StepOutcome,
};
use store::conformance::{PostgresServer, PostgresSpace};
use store::{
    Accept, AcceptOutcome, Append, Definition, DeployOutcome, DeployedFile, Durability, Error, ExecutionRow,
    Generation, GenerationSource, InitialEvents, Letter, LetterState, NewExecution, NewGeneration, News,
    Options, Recipient, RunningGeneration, Shard, Store,
};
use store_postgres::Address;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use value::{Map, Value};

fn server() -> PostgresServer {
    PostgresServer::start()
}

fn open_at(url: &str, folder: &TempDir) -> Result<Arc<dyn Store>, Error> {
    let options = Options { local: Some(folder.path().to_owned()), ..Options::default() };
    store_postgres::open(&Address::parse(url)?, options)
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
        trigger: model::automation::TriggerId::MAIN,
        inputs: None,
    };
    let id = ExecutionId::new(at(), random);
    let initial = InitialEvents::default();
    NewExecution { id, started, key: None, dedup: Vec::new(), starts_running: true, initial, gated: false }
}

async fn accept(store: &dyn Store, new: NewExecution) -> Result<Vec<AcceptOutcome>, Error> {
    store.accept(&Accept { executions: vec![new], ..Accept::default() }).await
}

fn step(number: u32) -> Event {
    let outcome = StepOutcome::Succeeded { result: Value::from(number) };
    Event::StepFinished { at: at(), step: format!("s{number}"), took_us: 1, outcome }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_daemons_share_a_database_and_each_has_its_own_executions() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    let definition = definition(&*one).await;
    accept(&*one, new(&definition, 1)).await.expect("it is accepted");
    accept(&*other, new(&definition, 2)).await.expect("it is accepted");
    let ids = |rows: Vec<ExecutionRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    let id = |number| new(&definition, number).id;
    assert_eq!(ids(one.unfinished(None, 10).await.expect("they are read")), [id(1)]);
    assert_eq!(ids(other.unfinished(None, 10).await.expect("they are read")), [id(2)]);
    assert_eq!(one.owner(id(2)).await.expect("it is read"), other.node());
    let append = Append { events: vec![step(1)], ..Append::new(id(2), 1, Status::Running) };
    let refused = one.append(&append).await.expect_err("the other one has it");
    assert!(refused.outcome_unknown(), "{refused}");
    let nodes = other.nodes().await.expect("they are read");
    assert_eq!(nodes.iter().map(|node| node.dead).collect::<Vec<_>>(), [false, false]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_executions_of_a_leaving_daemon_are_taken_over() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    let definition = definition(&*one).await;
    for number in 1..4 {
        accept(&*one, new(&definition, number)).await.expect("it is accepted");
    }
    let append = Append { events: vec![step(1)], ..Append::new(new(&definition, 2).id, 1, Status::Waiting) };
    one.append(&append).await.expect("it is appended");
    one.close().await.expect("it closes");
    let last = other.take_over(None).await.expect("it takes over");
    assert_eq!(last, Some(new(&definition, 3).id));
    assert_eq!(other.take_over(last).await.expect("it takes over"), None);
    let handed = other.handed().await.expect("they are read");
    let statuses: Vec<Status> = handed.iter().map(|handed| handed.row.status).collect();
    let begun_first = [Status::Waiting, Status::Running, Status::Running];
    assert_eq!(statuses, begun_first, "the second has events after its start");
    other.confirm_handed(handed.iter().map(|handed| handed.row.id).collect()).await.expect("it is confirmed");
    assert!(other.handed().await.expect("they are read").is_empty());
    let append = Append { events: vec![step(2)], ..Append::new(new(&definition, 2).id, 2, Status::Running) };
    other.append(&append).await.expect("it is its own now");
    assert_eq!(other.nodes().await.expect("they are read").len(), 1, "the other one is forgotten");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gated_execution_runs_on_the_owner_of_its_shard_which_keeps_it_meanwhile() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    assert_eq!(one.take_shards().await.expect("they are taken").len(), 64, "half, with two daemons");
    let rest = other.take_shards().await.expect("they are taken");
    assert_eq!(rest.len(), 64);
    let definition = definition(&*one).await;
    let shard = Shard::of(&definition.automation);
    let (owner, guest) = if rest.contains(shard) { (&other, &one) } else { (&one, &other) };
    let gated = |number| NewExecution { gated: true, starts_running: false, ..new(&definition, number) };
    let outcomes = accept(&**guest, gated(1)).await.expect("it is accepted");
    assert_eq!(outcomes, [AcceptOutcome::Elsewhere]);
    assert_eq!(owner.handed().await.expect("they are read").len(), 1);
    assert_eq!(accept(&**owner, gated(2)).await.expect("it is accepted"), [AcceptOutcome::New]);
    assert!(!owner.give_up_shard(shard).await.expect("it is asked"), "gated executions are unfinished");
    for number in 1..3 {
        let events = vec![Event::Finished { at: at(), outcome: Outcome::Succeeded { result: Value::Null } }];
        let append = Append { events, ..Append::new(gated(number).id, 1, Status::Succeeded) };
        owner.append(&append).await.expect("it ends");
    }
    assert!(owner.give_up_shard(shard).await.expect("it is asked"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_is_kept_until_the_owner_of_its_execution_replies() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    let definition = definition(&*one).await;
    accept(&*one, new(&definition, 1)).await.expect("it is accepted");
    let sender = other.node().expect("a number");
    let letter = Letter {
        id: [7; 16],
        to: Recipient::Execution(new(&definition, 1).id),
        sender,
        body: b"go".to_vec(),
    };
    other.send_letter(letter.clone()).await.expect("it is sent");
    other.send_letter(letter.clone()).await.expect("a repetition changes nothing");
    assert_eq!(other.letter_state(&letter).await.expect("it is read"), LetterState::Open);
    assert_eq!(other.letters().await.expect("they are read"), [], "it is not for this one");
    assert_eq!(one.letters().await.expect("they are read"), std::slice::from_ref(&letter));
    one.answer_letters(vec![(letter.clone(), b"done".to_vec())]).await.expect("it is answered");
    assert_eq!(
        other.letter_state(&letter).await.expect("it is read"),
        LetterState::Answered(b"done".to_vec())
    );
    assert!(one.letters().await.expect("they are read").is_empty());
    other.delete_letter(&letter).await.expect("it is deleted");
    let late = Letter { to: Recipient::Execution(new(&definition, 9).id), ..letter };
    other.send_letter(late.clone()).await.expect("it is sent");
    assert_eq!(
        other.letter_state(&late).await.expect("it is read"),
        LetterState::Ended,
        "there is no such execution"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_has_one_owner_and_notifications_reach_other_daemons() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    assert!(one.try_lock("work").await.expect("it is asked"));
    assert!(!other.try_lock("work").await.expect("it is asked"));
    one.unlock("work");
    while !other.try_lock("work").await.expect("it is asked") {}
    other.unlock("work");
    // News can be lost while a daemon opens its session; they are sent until they come.
    let execution = ExecutionId::new(at(), [7; 10]);
    let heard = async {
        loop {
            if other.next_news().await == (News::Ended { execution }) {
                return;
            }
        }
    };
    tokio::pin!(heard);
    loop {
        one.tell(other.node(), News::Ended { execution });
        tokio::select! {
            () = &mut heard => break,
            () = tokio::task::yield_now() => {}
        }
    }
}

/// A generation of the files `automations/<name>.yaml` with these texts.
fn deployment(id: u8, follows: u64, files: &[(&str, &str)]) -> NewGeneration {
    let file = |(name, text): &(&str, &str)| DeployedFile {
        path: format!("automations/{name}.yaml"),
        text: (*text).to_owned(),
    };
    NewGeneration {
        id: [id; 16],
        follows,
        author: "ann".to_owned(),
        note: "a\0note".to_owned(),
        source: GenerationSource::Push,
        files: files.iter().map(file).collect(),
    }
}

async fn deployed(store: &dyn Store, new: NewGeneration) -> Generation {
    match store.deploy(new).await.expect("it is deployed") {
        DeployOutcome::Deployed(generation) => generation,
        DeployOutcome::Overtaken => panic!("another generation is the newest"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_must_follow_the_newest_one() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    assert_eq!(one.generations(10).await.expect("they are read"), []);
    let new = deployment(1, 0, &[("a", "one"), ("b", "two")]);
    let stored = deployed(&*one, new.clone()).await;
    assert_eq!((stored.number, stored.files, stored.author.as_str()), (1, 2, "ann"));
    assert_eq!((stored.note.as_str(), stored.source), ("a\0note", GenerationSource::Push));
    assert_eq!(deployed(&*other, new.clone()).await, stored, "a repetition of the request is no second one");
    let late = deployment(2, 0, &[("a", "other")]);
    assert_eq!(other.deploy(late).await.expect("it is asked"), DeployOutcome::Overtaken);
    let rounds = (3..7).map(|id| one.deploy(deployment(id, 1, &[("a", "three")])));
    let outcomes = futures_util::future::join_all(rounds).await;
    let won = |outcome: &&Result<DeployOutcome, Error>| matches!(outcome, Ok(DeployOutcome::Deployed(_)));
    assert_eq!(outcomes.iter().filter(won).count(), 1, "{outcomes:?}");
    let numbers: Vec<u64> =
        other.generations(10).await.expect("they are read").iter().map(|one| one.number).collect();
    assert_eq!(numbers, [2, 1], "the newest first");
    let files = other.deployed_files(1).await.expect("they are read").expect("it is kept");
    assert_eq!(files, new.files);
    assert_eq!(other.deployed_files(7).await.expect("they are read"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_is_stored_once_and_the_last_fifty_generations_are_kept() {
    let server = server();
    let (space, folder) = (server.space(), folder());
    let store = open(&space, &folder);
    let large = "x".repeat(400 << 10);
    for number in 0..52_u8 {
        let own = number.to_string();
        let files = [("same", large.as_str()), ("copy", large.as_str()), ("own", own.as_str())];
        deployed(&*store, deployment(number, u64::from(number), &files)).await;
    }
    let kept = store.generations(100).await.expect("they are read");
    assert_eq!((kept.len(), kept[0].number, kept[49].number), (50, 52, 3));
    assert_eq!(store.deployed_files(2).await.expect("they are read"), None);
    assert_eq!(store.deployed_files(3).await.expect("they are read").expect("it is kept").len(), 3);
    let table = format!("{}.deployed_texts", space.schema());
    let texts = || server.run(&format!("SELECT count(*) FROM {table}"));
    assert_eq!(texts(), "53", "the texts of the last hour stay");
    // Files that no generation has are deleted with the first deployment an hour later.
    server.run(&format!("UPDATE {table} SET put_ns = put_ns - 3600000000001"));
    deployed(&*store, deployment(99, 52, &[("own", "51")])).await;
    assert_eq!(texts(), "50", "one of the large text, and those of generations 4 to 52");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_on_an_old_generation_gets_no_shards_while_others_are_current() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    let problem = Some("automations/a.yaml has errors".to_owned());
    let behind = RunningGeneration { number: Some(1), problem };
    one.report_running(behind.clone());
    while other.nodes().await.expect("they are read")[0].running != behind {}
    assert_eq!(other.take_shards().await.expect("they are taken").len(), 128);
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
async fn confirmed_writes_are_stored_exactly_once_despite_lost_connections() {
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
async fn a_daemon_continues_after_a_postgres_restart() {
    let server = server();
    let (space, folder) = (server.space(), folder());
    let store = open(&space, &folder);
    let definition = definition(&*store).await;
    accept(&*store, new(&definition, 1)).await.expect("it is accepted");
    server.restart();
    accept(&*store, new(&definition, 2)).await.expect("it is accepted");
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 2);
}

/// A server with a store whose writes of executions wait for the lock of another session, and one such write.
async fn blocked_write(
    folder: &TempDir,
) -> (PostgresServer, Arc<dyn Store>, Definition, JoinHandle<Result<Vec<AcceptOutcome>, Error>>) {
    let server = PostgresServer::start_with("-c max_prepared_transactions=1");
    let space = server.space();
    let store = open(&space, folder);
    let definition = definition(&*store).await;
    server.run(&format!("BEGIN; LOCK TABLE {}.live; PREPARE TRANSACTION 'held'", space.schema()));
    let (writer, written) = (store.clone(), new(&definition, 1));
    let write = tokio::spawn(async move { accept(&*writer, written).await });
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while server.run(waiting) != "1" {}
    (server, store, definition, write)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_executions_are_rejected_while_a_write_waits_for_a_foreign_lock() {
    let folder = folder();
    let (server, store, definition, write) = blocked_write(&folder).await;
    let mut refusal = None;
    for number in 2..200 {
        let later = accept(&*store, new(&definition, number));
        if let Ok(Err(error)) = tokio::time::timeout(Duration::from_millis(300), later).await {
            refusal = Some(error.to_string());
            break;
        }
    }
    let refusal = refusal.expect("one is refused");
    assert!(
        refusal.contains("a write takes longer than 10 s; the server waits for Lock: relation"),
        "{refusal}"
    );
    server.run("ROLLBACK PREPARED 'held'");
    assert_eq!(write.await.expect("no panic").expect("it is accepted"), [AcceptOutcome::New]);
    while accept(&*store, new(&definition, 1000)).await.is_err() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_closes_although_a_write_waits_for_a_foreign_lock() {
    let folder = folder();
    let (_server, store, _, write) = blocked_write(&folder).await;
    let unfinished = store.close().await.expect_err("a write has not ended").to_string();
    assert!(
        unfinished.contains("a write has not ended; the server waits for Lock: relation"),
        "{unfinished}"
    );
    let lost = write.await.expect("no panic").expect_err("it is not written");
    assert!(lost.outcome_unknown(), "{lost}");
}

#[test]
fn the_documented_privileges_suffice_and_missing_ones_are_named() {
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
fn a_server_with_fsync_off_is_rejected_unless_durability_is_relaxed() {
    let server = PostgresServer::start_with("-c fsync=off");
    let (space, folder) = (server.space(), folder());
    let refused = open_at(&space.url(), &folder).map(drop).expect_err("fsync is off").to_string();
    assert!(
        refused.contains("`fsync` is off on the server") && refused.contains("durability: relaxed"),
        "{refused}"
    );
    let address = Address::parse(&space.url()).expect("an address");
    let relaxed = Options {
        durability: Durability::Relaxed,
        local: Some(folder.path().to_owned()),
        ..Options::default()
    };
    let store = store_postgres::open(&address, relaxed).expect("it opens");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let info = runtime.block_on(store.info()).expect("it is described");
    assert!(info.weakened.iter().any(|line| line.contains("`fsync` is off")), "{info:?}");
}

#[test]
fn tables_of_another_program_are_not_touched() {
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
fn an_unreachable_database_is_named_without_the_password() {
    let url = "postgres://cogwork:hunter2@127.0.0.1:1/flows";
    let refused = open_at(url, &folder()).map(drop).expect_err("nothing listens there").to_string();
    assert!(refused.contains("postgres://127.0.0.1:1/flows") && !refused.contains("hunter2"), "{refused}");
}

#[test]
fn a_store_is_readable_beside_a_daemon_but_not_before_the_first_start() {
    let server = server();
    let (space, folder) = (server.space(), folder());
    let address = Address::parse(&space.url()).expect("an address");
    let refused =
        store_postgres::open_read_only(&address).map(drop).expect_err("there are no tables").to_string();
    assert!(refused.contains("start the daemon once"), "{refused}");
    let store = open(&space, &folder);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let definition = definition(&*store).await;
        accept(&*store, new(&definition, 1)).await.expect("it is accepted");
        let beside = store_postgres::open_read_only(&address).expect("it opens");
        assert_eq!(beside.unfinished_count().await.expect("it is counted"), 1);
        let refused = accept(&*beside, new(&definition, 2)).await.expect_err("it only reads");
        assert!(matches!(refused, Error::ReadOnly), "{refused}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_reads_only_its_own_rows_despite_stale_statistics() {
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
