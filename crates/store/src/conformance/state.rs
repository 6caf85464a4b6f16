//! Rules of state values and their optimistic locking.

use model::{ExecutionId, Status};
use value::{File, Value};

use super::Fixture;
use super::sample::{append, at, later, one, step};
use crate::{Append, Error, StateEntry, StateWrite, Store, Wait};

/// Stores this value if the key has none.
fn put(scope: &str, key: &str, value: impl Into<Value>) -> StateWrite {
    let (scope, key, value) = (scope.to_owned(), key.to_owned(), Some(value.into()));
    StateWrite { scope, key, expected: None, value, expires_at: None }
}

/// Stores this value if the key has one with this version.
fn over(version: u64, write: StateWrite) -> StateWrite {
    StateWrite { expected: Some(version), ..write }
}

fn delete(scope: &str, key: &str, version: u64) -> StateWrite {
    StateWrite { expected: Some(version), value: None, ..put(scope, key, Value::Null) }
}

fn expiring(seconds: i64, write: StateWrite) -> StateWrite {
    StateWrite { expires_at: Some(at(seconds)), ..write }
}

async fn write(store: &dyn Store, writes: Vec<StateWrite>) {
    store.write_state(writes).await.expect("it is written");
}

async fn read(store: &dyn Store, key: &str) -> Option<StateEntry> {
    store.read_state("orders", key).await.expect("it is read")
}

async fn value(store: &dyn Store, key: &str) -> Option<Value> {
    read(store, key).await.map(|entry| entry.value)
}

async fn version(store: &dyn Store, key: &str) -> u64 {
    read(store, key).await.expect("it is kept").version
}

fn assert_changed(result: &Result<(), Error>, wanted: &str) {
    let Err(Error::StateChanged { scope, key }) = result else { panic!("{wanted} has changed: {result:?}") };
    assert_eq!((scope.as_str(), key.as_str()), ("orders", wanted));
}

pub(super) async fn kept(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let file = File { content_type: "image/png".into(), filename: None, data: vec![0, 255, 7].into() };
    let odd = "Grüße 世界 \u{0} ' \" %";
    let values: [(&str, Value); 5] = [
        ("count", Value::from(u64::MAX)),
        ("file", Value::from(file)),
        ("null", Value::Null),
        (odd, [Value::from(0.1 + 0.2), Value::from(odd)].into_iter().collect()),
        ("cursor", Value::from("abc")),
    ];
    let mut writes: Vec<_> = values.iter().map(|(key, value)| put("orders", key, value.clone())).collect();
    writes.push(put("invoices", "count", 1_u32));
    let time = later(at(30), 7);
    writes.push(StateWrite { expires_at: Some(time), ..put("orders", "token", "t") });
    write(&*store, writes).await;
    drop(store);
    let store = fixture.open().await;
    for (key, wanted) in values {
        let entry = read(&*store, key).await.expect("it is kept");
        assert_eq!((entry.value, entry.expires_at), (wanted, None), "{key}");
    }
    assert_eq!(read(&*store, "token").await.expect("it is kept").expires_at, Some(time));
    let other = store.read_state("invoices", "count").await.expect("it is read").expect("it is kept");
    assert_eq!(other.value, Value::from(1_u32));
    // It has no expiry any more, and no value in the other scope.
    let token = version(&*store, "token").await;
    write(
        &*store,
        vec![over(token, put("orders", "token", 2_u32)), delete("invoices", "count", other.version)],
    )
    .await;
    assert_eq!(read(&*store, "token").await.expect("it is kept").expires_at, None);
    assert_eq!(store.read_state("invoices", "count").await.expect("it is read"), None);
    assert_eq!(value(&*store, "count").await, Some(Value::from(u64::MAX)));

    let keys = ["cursor", "missing", "token", "cursor"].map(str::to_owned);
    let found = store.read_states("orders", &keys).await.expect("they are read");
    let found: Vec<_> = found.into_iter().map(|entry| entry.map(|entry| entry.value)).collect();
    let cursor = Some(Value::from("abc"));
    assert_eq!(found, [cursor.clone(), None, Some(Value::from(2_u32)), cursor]);
    assert_eq!(store.read_states("orders", &[]).await.expect("they are read"), []);
}

pub(super) async fn not_written_over(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    write(&*store, vec![put("orders", "a", 1_u32), put("orders", "b", 1_u32)]).await;
    let (a, b) = (version(&*store, "a").await, version(&*store, "b").await);
    write(&*store, vec![over(a, put("orders", "a", 2_u32))]).await;
    let newer = version(&*store, "a").await;
    let other = || over(b, put("orders", "b", 2_u32));
    for (refused, key) in [
        (over(a, put("orders", "a", 3_u32)), "a"),
        (put("orders", "a", 3_u32), "a"),
        (delete("orders", "a", a), "a"),
        (over(u64::MAX, put("orders", "a", 3_u32)), "a"),
        (StateWrite { expected: None, ..delete("orders", "a", 0) }, "a"),
        (over(b, put("orders", "none", 3_u32)), "none"),
        (delete("orders", "none", b), "none"),
    ] {
        for writes in [vec![refused.clone(), other()], vec![other(), refused]] {
            assert_changed(&store.write_state(writes).await, key);
        }
    }
    assert_eq!(value(&*store, "a").await, Some(Value::from(2_u32)));
    assert_eq!(version(&*store, "a").await, newer);
    assert_eq!(value(&*store, "b").await, Some(Value::from(1_u32)));
    assert_eq!(version(&*store, "b").await, b);
    // Deleting a missing value is no change.
    write(&*store, vec![StateWrite { expected: None, ..delete("orders", "none", 0) }, other()]).await;
    assert_eq!(value(&*store, "b").await, Some(Value::from(2_u32)));
}

pub(super) async fn versions_are_new(fixture: &dyn Fixture) {
    let mut seen = std::collections::HashSet::new();
    for _ in 0..3 {
        let store = fixture.open().await;
        write(&*store, vec![put("orders", "a", "same")]).await;
        let first = version(&*store, "a").await;
        assert!(seen.insert(first), "{first} came before it was deleted");
        write(&*store, vec![over(first, put("orders", "a", "same"))]).await;
        let second = version(&*store, "a").await;
        assert!(seen.insert(second), "{second} came before");
        write(&*store, vec![expiring(5, over(second, put("orders", "a", "same")))]).await;
        let third = version(&*store, "a").await;
        assert!(seen.insert(third), "{third} came before");
        write(&*store, vec![put("orders", "b", 1_u32)]).await;
        let other = version(&*store, "b").await;
        // Deleted by hand the one time, by age the other: the highest that there was is gone either way.
        write(&*store, vec![delete("orders", "b", other)]).await;
        assert_eq!(store.prune_state(at(10), 10).await.expect("it prunes"), 1);
    }
}

/// An append of one step, with the state writes and waits to commit with it.
fn work(execution: ExecutionId, first: u32, state: Vec<StateWrite>) -> Append {
    let wait = Wait { step: format!("w{first}"), until: None, event: None, child: None };
    let append = append(execution, first, vec![step(&format!("s{first}"), first)], Status::Waiting);
    Append { waits: Some(vec![wait]), state, ..append }
}

pub(super) async fn with_events(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    store.append(&work(id, 1, vec![put("orders", "a", 1_u32)])).await.expect("it is appended");
    let a = version(&*store, "a").await;
    let before = store.waits(id).await.expect("they are read");
    let logs = vec![super::sample::line("late")];
    let refused = Append { logs, ..work(id, 2, vec![put("orders", "b", 1_u32), put("orders", "a", 2_u32)]) };
    assert_changed(&store.append(&refused).await, "a");
    let late = store.append(&work(id, 1, vec![over(a, put("orders", "a", 2_u32))])).await;
    assert!(matches!(late, Err(Error::Conflict { found: 2, .. })), "{late:?}");
    assert_eq!(store.events(id).await.expect("it is read").expect("it is there").len(), 2);
    assert_eq!(store.logs(id, 0, 10).await.expect("they are read"), []);
    assert_eq!(store.waits(id).await.expect("they are read"), before);
    assert_eq!((value(&*store, "a").await, value(&*store, "b").await), (Some(Value::from(1_u32)), None));
    store.append(&work(id, 2, vec![over(a, put("orders", "a", 2_u32))])).await.expect("it is appended");
    drop(store);
    let store = fixture.open().await;
    assert_eq!(value(&*store, "a").await, Some(Value::from(2_u32)));
    assert_eq!(store.events(id).await.expect("it is read").expect("it is there").len(), 3);
    assert_eq!(store.waits(id).await.expect("they are read")[0].step, "w2");
}

pub(super) async fn one_wins(fixture: &dyn Fixture) {
    const RACERS: u64 = 20;
    let store = fixture.open().await;
    let racers: Vec<_> = (0..RACERS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                // Each increments once, and retries after a conflict: at most once per other task.
                for _ in 0..RACERS {
                    let found = read(&*store, "count").await;
                    let count = match found.as_ref().map(|entry| &entry.value) {
                        Some(Value::Number(count)) => count.as_u64().expect("a count"),
                        _ => 0,
                    };
                    let expected = found.map(|entry| entry.version);
                    let write = StateWrite { expected, ..put("orders", "count", count + 1) };
                    match store.write_state(vec![write]).await {
                        Ok(()) => return,
                        Err(Error::StateChanged { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                panic!("somebody wins each time");
            })
        })
        .collect();
    for racer in racers {
        racer.await.expect("no panic");
    }
    assert_eq!(value(&*store, "count").await, Some(Value::from(RACERS)));
}

pub(super) async fn lists(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let keys: Vec<String> = (0..25).map(|index| format!("key {index:02}")).collect();
    let of = |scope: &str| keys.iter().rev().map(|key| put(scope, key, key.as_str())).collect::<Vec<_>>();
    write(&*store, of("orders")).await;
    write(&*store, of("orders-archive")).await;
    for limit in [1, 7, 25, u32::MAX] {
        let mut found: Vec<String> = Vec::new();
        loop {
            let after = found.last().map(String::as_str);
            let page = store.list_state("orders", after, limit).await.expect("it is listed");
            if page.is_empty() {
                break;
            }
            assert!(page.iter().all(|row| row.entry.value == Value::from(row.key.as_str())));
            found.extend(page.into_iter().map(|row| row.key));
        }
        assert_eq!(found, keys, "pages of {limit}");
    }
    assert_eq!(store.list_state("orders", None, 0).await.expect("it is listed"), []);
    assert_eq!(store.list_state("order", None, 10).await.expect("it is listed"), []);

    let large = "x".repeat(StateWrite::MAX_VALUE_BYTES - 2);
    write(&*store, keys.iter().map(|key| put("large", key, large.as_str())).collect()).await;
    let page = store.list_state("large", None, u32::MAX).await.expect("it is listed");
    assert!(page.len() < 12, "{} values of a mebibyte are no page", page.len());
    assert_eq!(page.last().map(|row| &row.key), keys.get(page.len() - 1));
}

pub(super) async fn pruned(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut writes = vec![put("orders", "stays", 1_u32), expiring(30, put("orders", "later", 1_u32))];
    writes.extend((0..20).map(|second| expiring(second, put("orders", &format!("k{second:02}"), 1_u32))));
    write(&*store, writes).await;
    assert_eq!(value(&*store, "k00").await, Some(Value::from(1_u32)), "the store has no clock");
    for (before, limit, gone) in [(0, 10, 0), (6, 4, 4), (6, 100, 2), (30, 100, 14), (30, 100, 0)] {
        assert_eq!(store.prune_state(at(before), limit).await.expect("it prunes"), gone, "before {before}");
    }
    let left = store.list_state("orders", None, 100).await.expect("it is listed");
    assert_eq!(left.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(), ["later", "stays"]);

    // More than one step of it.
    let many = |first: u32| (first..first + 600).map(|n| expiring(40, put("many", &format!("k{n:04}"), n)));
    for first in [0, 600] {
        write(&*store, many(first).collect()).await;
    }
    assert_eq!(store.prune_state(at(50), 1100).await.expect("it prunes"), 1100);
    assert_eq!(store.prune_state(at(50), 1100).await.expect("it prunes"), 101);
}

pub(super) async fn bounded(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    let (name, value) = ("n".repeat(StateWrite::MAX_NAME_BYTES), "v".repeat(StateWrite::MAX_VALUE_BYTES - 2));
    write(&*store, vec![put(&name, &name, value.as_str())]).await;
    let (longer, larger) = (format!("{name}n"), format!("{value}v"));
    let many =
        |count: usize| (0..count).map(|index| put("orders", &index.to_string(), 1_u32)).collect::<Vec<_>>();
    for writes in [
        vec![put("orders", "", 1_u32)],
        vec![put("", "a", 1_u32)],
        vec![put("orders", &longer, 1_u32)],
        vec![put(&longer, "a", 1_u32)],
        vec![put("orders", "a", 1_u32), put("orders", "b", 1_u32), put("orders", "a", 2_u32)],
        many(StateWrite::MAX_AT_ONCE + 1),
    ] {
        let refused = store.write_state(writes.clone()).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        let refused = store.append(&work(id, 1, writes)).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    let refused = store.write_state(vec![put("orders", "a", larger.as_str())]).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    assert_eq!(store.list_state("orders", None, 10).await.expect("it is listed"), []);
    write(&*store, many(StateWrite::MAX_AT_ONCE)).await;
    write(&*store, Vec::new()).await;
}

pub(super) async fn secret(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let racers: Vec<_> = (1..=8_u8)
        .map(|byte| {
            let store = store.clone();
            tokio::spawn(async move { store.get_or_init_secret([byte; 32]).await })
        })
        .collect();
    let mut kept = std::collections::HashSet::new();
    for racer in racers {
        kept.insert(racer.await.expect("no panic").expect("it is kept"));
    }
    assert_eq!(kept.len(), 1, "all get the one that came first");
    drop(store);
    let store = fixture.open().await;
    assert!(kept.contains(&store.get_or_init_secret([9; 32]).await.expect("it is kept")));
}
