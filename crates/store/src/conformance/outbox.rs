//! Rules of events on their way to triggers.

use model::engine_event::EngineEventName;
use model::{Event, ExecutionId, Status};

use super::Fixture;
use super::sample::{
    accept, append, at, definition, finished, id, new, one, step, success, trigger, with_key,
};
use crate::{
    Accept, AcceptOutcome, Append, Error, InitialEvents, NewExecution, OutboxCount, OutboxRow, Snapshot,
    SnapshotChange, StateWrite, Store, Wait, Watermark,
};

fn row(name: &str, seconds: i64) -> OutboxRow {
    let body = format!(r#"{{"n": {seconds}, "text": "Grüße \u0000 '"}}"#);
    OutboxRow { id: id(seconds, 7), name: name.to_owned(), body, at: at(seconds) }
}

/// The append of a step that sends these.
fn sends(execution: ExecutionId, first: u32, emits: Vec<OutboxRow>) -> Append {
    Append { emits, ..append(execution, first, vec![step("send", first)], Status::Running) }
}

async fn page(store: &dyn Store, name: &str) -> Vec<OutboxRow> {
    store.outbox_page(name, None, 1000).await.expect("it is read")
}

async fn deliver(store: &dyn Store, executions: Vec<NewExecution>, rows: &[OutboxRow]) -> Vec<AcceptOutcome> {
    let delivered = rows.iter().map(|row| row.id).collect();
    let accept = Accept { executions, delivered, ..Accept::default() };
    store.accept(&accept).await.expect("they are accepted")
}

pub(super) async fn with_the_end_of_the_step(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    store.append(&sends(id, 1, vec![row("paid", 1)])).await.expect("it is appended");
    // Refused, and so are its events.
    let refused = store.append(&sends(id, 1, vec![row("paid", 2)])).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    let unknown = store.append(&sends(super::sample::id(9, 9), 1, vec![row("paid", 3)])).await;
    assert!(matches!(unknown, Err(Error::NoSuchExecution(_))), "{unknown:?}");
    assert_eq!(page(&*store, "paid").await, [row("paid", 1)]);
    // With everything that an append may have, and at the end of the execution.
    let wait = Wait { step: "w".to_owned(), until: None, event: None, child: None };
    let waiting = Append {
        waits: Some(vec![wait]),
        snapshot: SnapshotChange::Put(Snapshot { events: 2, body: "{}".to_owned() }),
        status: Status::Waiting,
        ..sends(id, 2, vec![row("paid", 4), row("sent", 5)])
    };
    store.append(&waiting).await.expect("it is appended");
    let last = Append {
        emits: vec![row("paid", 6)],
        ..append(id, 3, vec![finished(7, success())], Status::Succeeded)
    };
    store.append(&last).await.expect("it ends");
    drop(store);
    let store = fixture.open().await;
    assert_eq!(page(&*store, "paid").await, [row("paid", 1), row("paid", 4), row("paid", 6)]);
    assert_eq!(page(&*store, "sent").await, [row("sent", 5)]);
    assert_eq!(page(&*store, "pai").await, []);
}

pub(super) async fn with_an_acceptance(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let with = |new: NewExecution, emits: Vec<OutboxRow>| {
        let events: Vec<Event> = vec![step("send", 1_u32), finished(5, success())];
        NewExecution { initial: InitialEvents { events, emits, ..InitialEvents::default() }, ..new }
    };
    let executions = vec![with(new(&definition, 1, 1), vec![row("paid", 1)])];
    assert_eq!(accept(&*store, executions).await, [AcceptOutcome::New]);
    // Of two with one key the second is not stored, nor is its event.
    let executions = vec![
        with(with_key(&definition, 2, 1, "k"), vec![row("paid", 2)]),
        with(with_key(&definition, 2, 2, "k"), vec![row("paid", 3)]),
    ];
    assert_eq!(accept(&*store, executions).await, [AcceptOutcome::New, AcceptOutcome::Duplicate(id(2, 1))]);
    let mark = Watermark { trigger: trigger("orders"), schedule: "s".to_owned(), instant: at(3) };
    let beside = Accept { watermark: Some(mark), emits: vec![row("paid", 4)], ..Accept::default() };
    store.accept(&beside).await.expect("it is accepted");
    // The id of its execution is taken: all of it is refused.
    let refused = Accept {
        executions: vec![new(&definition, 0, 0)],
        emits: vec![row("paid", 5)],
        delivered: vec![row("paid", 1).id],
        ..Accept::default()
    };
    assert!(matches!(store.accept(&refused).await, Err(Error::AlreadyExists(_))));
    assert_eq!(page(&*store, "paid").await, [row("paid", 1), row("paid", 2), row("paid", 4)]);
}

pub(super) async fn once(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let alone = |row: OutboxRow| Accept { emits: vec![row], ..Accept::default() };
    store.accept(&alone(row("paid", 1))).await.expect("it is sent");
    let again = OutboxRow { body: "other".to_owned(), ..row("paid", 1) };
    store.accept(&alone(again)).await.expect("it is sent again");
    assert_eq!(page(&*store, "paid").await, [row("paid", 1)]);
}

pub(super) async fn until_delivered(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (orders, _) = one(&*store).await;
    let rows = [row("paid", 1), row("paid", 2), row("paid", 3)];
    store.accept(&Accept { emits: rows.to_vec(), ..Accept::default() }).await.expect("they are sent");
    let starts =
        |random| vec![with_key(&orders, 4, random, "event:a"), with_key(&orders, 5, random, "event:b")];
    deliver(&*store, starts(1), &[]).await;
    assert_eq!(page(&*store, "paid").await.len(), 3, "other triggers are to get them");
    // The last acceptance, which is a repetition here, deletes them.
    let taken = deliver(&*store, starts(2), &rows[..2]).await;
    assert_eq!(taken, [AcceptOutcome::Duplicate(id(4, 1)), AcceptOutcome::Duplicate(id(5, 1))]);
    assert_eq!(page(&*store, "paid").await, rows[2..]);
    deliver(&*store, Vec::new(), &rows).await;
    assert_eq!(page(&*store, "paid").await, []);
    // A definition that is not stored: nothing is delivered.
    store.accept(&Accept { emits: rows.to_vec(), ..Accept::default() }).await.expect("they are sent");
    let executions = vec![new(&definition("never-put", "steps: []"), 9, 9)];
    let delivered = vec![rows[0].id];
    let refused = store.accept(&Accept { executions, delivered, ..Accept::default() }).await;
    assert!(matches!(refused, Err(Error::NoSuchDefinition(_))), "{refused:?}");
    assert_eq!(page(&*store, "paid").await, rows);
}

pub(super) async fn pages(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    // Stored in another order than by their ids.
    for seconds in [5, 3, 9, 1, 7] {
        let emits = vec![row("paid", seconds), row("sent", seconds + 1)];
        store.accept(&Accept { emits, ..Accept::default() }).await.expect("they are sent");
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let next = store.outbox_page("paid", after, 2).await.expect("it is read");
        let Some(last) = next.last() else { break };
        assert!(next.len() <= 2);
        after = Some(last.id);
        found.extend(next);
    }
    assert_eq!(found, [1, 3, 5, 7, 9].map(|seconds| row("paid", seconds)));
    let counts = store.outbox_counts().await.expect("they are counted");
    let count = |name: &str, oldest, last| OutboxCount {
        name: name.to_owned(),
        rows: 5,
        oldest: at(oldest),
        last: id(last, 7),
    };
    assert_eq!(counts, [count("paid", 1, 9), count("sent", 2, 10)]);
    // A page of large events ends early, and the next one goes on behind it.
    let large = |seconds: i64| OutboxRow { body: "x".repeat(1 << 20), ..row("large", seconds + 100) };
    for seconds in 0..12 {
        let emits = vec![large(seconds)];
        store.accept(&Accept { emits, ..Accept::default() }).await.expect("it is sent");
    }
    let first = store.outbox_page("large", None, 1000).await.expect("it is read");
    assert!((8..12).contains(&first.len()), "{}", first.len());
    let rest = store.outbox_page("large", first.last().map(|row| row.id), 1000).await.expect("it is read");
    assert_eq!(first.len() + rest.len(), 12);
}

pub(super) async fn with_values(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let write = |expected: Option<u64>, value: u64| StateWrite {
        scope: "told".to_owned(),
        key: "orders".to_owned(),
        expected,
        value: Some(value.into()),
        expires_at: None,
    };
    let told = |value| vec![write(None, value)];
    store.write_state_and_emit(told(1), vec![row("changed", 1)]).await.expect("it is written");
    let refused = store.write_state_and_emit(told(2), vec![row("changed", 2)]).await;
    assert!(matches!(refused, Err(Error::StateChanged { .. })), "{refused:?}");
    let entry = store.read_state("told", "orders").await.expect("it is read").expect("it exists");
    let many = vec![row("changed", 3); OutboxRow::MAX_AT_ONCE + 1];
    let refused = store.write_state_and_emit(vec![write(Some(entry.version), 3)], many).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let next = vec![write(Some(entry.version), 4)];
    store.write_state_and_emit(next, vec![row("changed", 4)]).await.expect("it is written");
    store.write_state_and_emit(Vec::new(), vec![row("changed", 5)]).await.expect("they are sent");
    drop(store);
    let store = fixture.open().await;
    assert_eq!(page(&*store, "changed").await, [1, 4, 5].map(|seconds| row("changed", seconds)));
    let entry = store.read_state("told", "orders").await.expect("it is read").expect("it exists");
    assert_eq!(entry.value, value::Value::from(4_u64));
}

pub(super) async fn moved(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let [alert, paged, other] = ["alert", "alert#paged", "alerts"].map(trigger);
    let name = |event, key| OutboxRow::engine_name(event, key);
    let (failure, changed) = (EngineEventName::Failure, EngineEventName::Changed);
    let names = [name(failure, &alert), name(changed, &alert), name(failure, &other), "alert".to_owned()];
    let rows: Vec<OutboxRow> = names.iter().zip(1..).map(|(name, seconds)| row(name, seconds)).collect();
    let early = row(&name(failure, &paged), 9);
    let emits = rows.iter().cloned().chain([early.clone()]).collect();
    store.accept(&Accept { emits, ..Accept::default() }).await.expect("they are sent");
    // Events are under both keys, which is nothing in the way.
    assert_eq!(store.move_trigger(&alert, &paged).await.expect("they are moved"), 2);
    assert_eq!(store.move_trigger(&alert, &paged).await.expect("nothing is left"), 0);
    let of = async |name: &str| page(&*store, name).await;
    let renamed = |row: &OutboxRow, name: String| OutboxRow { name, ..row.clone() };
    assert_eq!(of(&name(failure, &paged)).await, [renamed(&rows[0], name(failure, &paged)), early]);
    assert_eq!(of(&name(changed, &paged)).await, [renamed(&rows[1], name(changed, &paged))]);
    assert_eq!(of(&names[0]).await, []);
    assert_eq!(of(&names[2]).await, rows[2..3]);
    assert_eq!(of("alert").await, rows[3..]);
}

pub(super) async fn bounded(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, execution) = one(&*store).await;
    let large = OutboxRow { body: "x".repeat(OutboxRow::MAX_BODY + 1), ..row("paid", 1) };
    let many = vec![row("paid", 1); OutboxRow::MAX_AT_ONCE + 1];
    for emits in [vec![large], many] {
        let refused = store.append(&sends(execution, 1, emits.clone())).await;
        assert!(matches!(refused, Err(Error::TooLarge { .. } | Error::Invalid { .. })), "{refused:?}");
        let refused = store.accept(&Accept { emits, ..Accept::default() }).await;
        assert!(matches!(refused, Err(Error::TooLarge { .. } | Error::Invalid { .. })), "{refused:?}");
    }
    assert_eq!(page(&*store, "paid").await, []);
    let long = "n".repeat(3000);
    store.accept(&Accept { emits: vec![row(&long, 1)], ..Accept::default() }).await.expect("it is sent");
    assert_eq!(page(&*store, &long).await, [row(&long, 1)]);
}
