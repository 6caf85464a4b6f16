//! Migration of files of earlier releases.

use std::path::Path;

use crate::common::{self, at};
use jiff::Timestamp;
use model::{Event, ExecutionId, Status, StepOutcome, Value};
use rusqlite::Connection;
use store::{Append, Error, ExecutionFilter, Options, Page, StateWrite, SuspendedExecution, Wait};

/// The numbered execution of [`version_1`].
pub(crate) fn id(number: u8) -> ExecutionId {
    format!("019a9d1c-4c00-7000-8000-0000000000{number:02x}").parse().expect("an id")
}

/// Creates a file of version 1 from literal text, independent of the current code: a failed, a running and a queued
/// execution, and a test that runs.
pub(crate) fn version_1(file: &Path) {
    let sql = include_str!("../../migrations/V1__initial.sql");
    let migration = refinery::Migration::unapplied("V1__initial", sql).expect("it has a version");
    let connection = Connection::open(file).expect("it opens");
    connection.execute_batch(sql).expect("it has tables");
    connection
        .execute_batch(&format!(
            "CREATE TABLE refinery_schema_history (version INTEGER PRIMARY KEY, name VARCHAR(255), \
               applied_on VARCHAR(255), checksum VARCHAR(255)); \
             INSERT INTO refinery_schema_history VALUES (1, 'initial', '2026-11-21T10:00:00Z', '{}');",
            migration.checksum()
        ))
        .expect("it has a history");
    let hash = "ab".repeat(32);
    let started = |origin: &str| {
        format!(
            r#"[{{"event":"started","at":"2026-11-21T09:00:00Z","automation":"orders","definition":"{hash}",
              "origin":{origin},"payload":{{"kind":"manual","inputs":{{}}}}}}]"#
        )
    };
    let schedule = r#"{"kind":"schedule","instant":"2026-11-21T09:00:00Z"}"#;
    let (manual, test) = (r#"{"kind":"manual"}"#, r#"{"kind":"test"}"#);
    connection
        .execute_batch(&format!(
            r#"INSERT INTO definitions VALUES (X'{hash}', 'orders', 1, 4);
            INSERT INTO definition_texts VALUES (1, X'{hash}', 'automations/orders.yaml', 'steps: []');
            INSERT INTO executions VALUES (X'019A9D1C4C0070008000000000000001', 'orders', X'{hash}',
              '{schedule}', 3, 3, 1795251600000000000, 1795251601000000000, 'no', 2, 1);
            INSERT INTO executions VALUES (X'019A9D1C4C0070008000000000000002', 'orders', X'{hash}',
              '{manual}', 1, 0, 1795251600000000000, NULL, NULL, 2, 0);
            INSERT INTO executions VALUES (X'019A9D1C4C0070008000000000000003', 'orders', X'{hash}',
              '{manual}', 0, 0, 1795251600000000000, NULL, NULL, 1, 0);
            INSERT INTO executions VALUES (X'019A9D1C4C0070008000000000000004', 'orders', X'{hash}',
              '{test}', 1, 8, 1795251600000000000, NULL, NULL, 1, 0);
            INSERT INTO events VALUES (1, X'019A9D1C4C0070008000000000000001', 0, '{}');
            INSERT INTO events VALUES (2, X'019A9D1C4C0070008000000000000001', 1,
              '[{{"event":"finished","at":"2026-11-21T09:00:01Z",
                "outcome":{{"outcome":"failed","error":{{"kind":"failed","message":"no"}}}}}}]');
            INSERT INTO events VALUES (3, X'019A9D1C4C0070008000000000000002', 0, '{}');
            INSERT INTO events VALUES (4, X'019A9D1C4C0070008000000000000002', 1,
              '[{{"event":"stepFinished","at":"2026-11-21T09:00:01Z","step":"first","tookUs":5,
                "outcome":{{"outcome":"succeeded","result":7}}}}]');
            INSERT INTO events VALUES (5, X'019A9D1C4C0070008000000000000003', 0, '{}');
            INSERT INTO events VALUES (6, X'019A9D1C4C0070008000000000000004', 0, '{}');
            INSERT INTO logs VALUES (1, X'019A9D1C4C0070008000000000000001', 0,
              '[{{"at":"2026-11-21T09:00:00Z","level":"warn","message":"hm"}}]');
            INSERT INTO watermarks VALUES ('orders', 'hourly', 1795251600000000000);
            INSERT INTO keys VALUES ('orders', 'tick', X'019A9D1C4C0070008000000000000001');
            INSERT INTO addresses VALUES ('orders', 'live', 'test');"#,
            started(schedule),
            started(manual),
            started(manual),
            started(test),
        ))
        .expect("it has rows");
}

/// The same file as version 2 left it.
fn version_2(file: &Path) {
    version_1(file);
    let sql = include_str!("../../migrations/V2__waits_and_state.sql");
    let migration = refinery::Migration::unapplied("V2__waits_and_state", sql).expect("it has a version");
    let connection = Connection::open(file).expect("it opens");
    connection.execute_batch(sql).expect("it has tables");
    connection
        .execute_batch(&format!(
            "INSERT INTO refinery_schema_history VALUES (2, 'waits_and_state', '2026-11-21T10:00:00Z', '{}');",
            migration.checksum()
        ))
        .expect("it has a history");
}

#[tokio::test]
async fn a_file_of_version_2_remembers_from_now_on_what_is_sent() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cogwork.db");
    version_2(&file);
    let store = common::open(&file, Options::default()).expect("it opens");
    let row = store.execution(id(2)).await.expect("it is read").expect("it is there");
    let Event::Started { at: _, automation, definition, origin, payload } =
        store.events(id(2)).await.expect("they are read").expect("they are there").remove(0)
    else {
        panic!("it has started")
    };
    assert_eq!((row.automation, row.definition), (automation.clone(), definition));
    let sending = store::DedupRecord { key: [1; 32], content: None, until: at(100) };
    let new = |number| store::NewExecution {
        id: id(number),
        started: Event::Started {
            at: at(1),
            automation: automation.clone(),
            definition,
            origin: origin.clone(),
            payload: payload.clone(),
        },
        key: None,
        dedup: vec![sending],
        starts_running: false,
        initial: store::InitialEvents::default(),
        gated: false,
    };
    let accept = store::Accept { executions: vec![new(21), new(22)], ..store::Accept::default() };
    let accepted = store.accept(&accept).await.expect("they are accepted");
    assert_eq!(accepted, [store::AcceptOutcome::New, store::AcceptOutcome::Duplicate(id(21))]);
}

#[tokio::test]
async fn a_file_of_version_1_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cogwork.db");
    version_1(&file);
    let store = common::open(&file, Options::default()).expect("it opens");
    let filter = ExecutionFilter { status: vec![Status::Failed], ..ExecutionFilter::default() };
    let rows = store.executions(&filter, Page { before: None, limit: 10 }).await.expect("it is listed");
    let [row] = rows.as_slice() else { panic!("one execution, not {rows:?}") };
    assert_eq!((row.id, row.error.as_deref(), row.events), (id(1), Some("no"), 2));
    assert_eq!(row.finished_at.map(|at| at.to_string()).as_deref(), Some("2026-11-21T09:00:01Z"));
    for (status, number) in [(Status::Queued, 3), (Status::Running, 2)] {
        let filter =
            ExecutionFilter { status: vec![status], test: Some(false), ..ExecutionFilter::default() };
        let rows = store.executions(&filter, Page { before: None, limit: 10 }).await.expect("it is listed");
        assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [id(number)], "{status:?}");
    }
    let events = store.events(row.id).await.expect("it is read").expect("it is there");
    let execution = model::Execution::from_events(row.id, events).expect("it folds");
    assert_eq!(execution.status(), Status::Failed);
    assert_eq!(store.logs(row.id, 0, 10).await.expect("they are read")[0].message, "hm");
    assert_eq!(
        store.definition(row.definition).await.expect("it is read").expect("it is there").text,
        "steps: []"
    );
    assert_eq!(store.watermarks().await.expect("they are read").len(), 1);
    assert_eq!(store.addresses().await.expect("they are read")[0].live, "live");
}

#[tokio::test]
async fn what_had_not_ended_in_a_file_of_version_1_goes_on_and_can_wait() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cogwork.db");
    version_1(&file);
    let refused = common::open_read_only(&file).expect_err("a reader may not change the tables");
    assert!(matches!(refused, Error::OlderSchema { found: 1, known: 12, .. }), "{refused}");
    let store = common::open(&file, Options::default()).expect("it opens");
    let rows = store.unfinished(None, 10).await.expect("they are read");
    let found: Vec<_> = rows.iter().map(|row| (row.id, row.status)).collect();
    assert_eq!(found, [(id(2), Status::Running), (id(3), Status::Queued), (id(4), Status::Running)]);
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 3);
    assert_eq!(store.list_suspended(None, 10).await.expect("they are read"), []);

    let wait = Wait { step: "pause".to_owned(), until: Some(at(9)), event: None, child: None };
    let write = StateWrite {
        scope: "orders".to_owned(),
        key: "cursor".to_owned(),
        expected: None,
        value: Some(Value::from(1_u32)),
        expires_at: None,
    };
    let append = Append {
        waits: Some(vec![wait.clone()]),
        state: vec![write],
        ..Append::new(id(2), 2, Status::Waiting)
    };
    store.append(&append).await.expect("it waits");
    let outcome = StepOutcome::Succeeded { result: Value::Null };
    let at_once =
        Event::StepFinished { at: Timestamp::UNIX_EPOCH, step: "a".to_owned(), took_us: 1, outcome };
    store
        .append(&Append { events: vec![at_once], ..Append::new(id(4), 1, Status::Running) })
        .await
        .expect("it goes on");
    let end = Event::Finished { at: at(9), outcome: model::Outcome::Succeeded { result: Value::Null } };
    store
        .append(&Append { events: vec![end], ..Append::new(id(3), 1, Status::Succeeded) })
        .await
        .expect("it ends");
    drop(store);
    let store = common::open(&file, Options::default()).expect("it opens again");
    let suspended = SuspendedExecution { execution: id(2), wake_at: Some(at(9)), keeps_permit: false };
    assert_eq!(store.list_suspended(None, 10).await.expect("they are read"), [suspended]);
    assert_eq!(store.waits(id(2)).await.expect("they are read"), [wait]);
    let rows = store.unfinished(None, 10).await.expect("they are read");
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [id(4)]);
    let state = store.read_state("orders", "cursor").await.expect("it is read").expect("it is kept");
    assert_eq!(state.value, Value::from(1_u32));
}

#[tokio::test]
async fn executions_of_an_earlier_release_are_moved_to_another_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old.db"), folder.path().join("new.db"));
    version_1(&old);
    let store = store::open(&old.as_path().into(), Options::default()).expect("it opens");
    let before = store.events(id(2)).await.expect("they are read").expect("they are there");
    store.close().await.expect("it closes");
    let none = model::failpoint::Failpoints::default();
    let moved =
        store::migration::migrate(&old.as_path().into(), &new.as_path().into(), at(0), none, &mut |_| {})
            .await;
    assert!(moved.expect("it is moved").is_equal());
    let store = store::open(&new.as_path().into(), Options::default()).expect("it opens");
    assert_eq!(store.events(id(2)).await.expect("they are read"), Some(before));
    assert_eq!(store.unfinished(None, 10).await.expect("they are read").len(), 3);
    store.close().await.expect("it closes");
}
