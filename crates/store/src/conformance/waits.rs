//! Rules of waits.

use jiff::Timestamp;
use model::{ExecutionId, Origin, Status};

use super::Fixture;
use super::sample::{
    self, accept, append, at, end, finished, id, list, new, one, step, success, with_origin,
};
use crate::{
    Append, AwaitedEvent, Error, EventKey, EventWaiter, ExecutionFilter, Store, SuspendedExecution, Wait,
};

/// A wait for nothing yet.
fn wait(step: &str) -> Wait {
    Wait { step: step.to_owned(), until: None, event: None, child: None }
}

fn until(step: &str, seconds: i64) -> Wait {
    Wait { until: Some(at(seconds)), ..wait(step) }
}

fn event(step: &str, name: &str) -> Wait {
    keyed(step, name, "", "")
}

/// A wait by a key.
fn keyed(step: &str, name: &str, path: &str, value: &str) -> Wait {
    let key = EventKey { path: path.to_owned(), value: value.to_owned() };
    let event = AwaitedEvent { name: name.to_owned(), key, condition: None };
    Wait { event: Some(event), ..wait(step) }
}

fn child(step: &str, child: ExecutionId) -> Wait {
    Wait { child: Some(child), ..wait(step) }
}

/// An append of one step after `first` events, with these waits.
fn pause(execution: ExecutionId, first: u32, waits: Vec<Wait>) -> Append {
    let append = append(execution, first, vec![step(&format!("s{first}"), first)], Status::Waiting);
    Append { waits: Some(waits), ..append }
}

async fn put(store: &dyn Store, append: Append) {
    store.append(&append).await.expect("it is appended");
}

async fn waits(store: &dyn Store, execution: ExecutionId) -> Vec<Wait> {
    store.waits(execution).await.expect("they are read")
}

async fn for_event(store: &dyn Store, name: &str) -> Vec<(ExecutionId, String)> {
    let found = store.waiting_for_event(name, "", Some(""), None, 1000).await.expect("they are read");
    found.into_iter().map(|waiter| (waiter.execution, waiter.step)).collect()
}

async fn parent(store: &dyn Store, child: ExecutionId) -> Option<(ExecutionId, String)> {
    store.waiting_for_child(child).await.expect("it is read")
}

pub(super) async fn replaced(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    assert_eq!(waits(&*store, id).await, []);
    let everything = Wait {
        step: "b[2]".to_owned(),
        until: Some(sample::later(at(40), 7)),
        event: Some(AwaitedEvent {
            name: "Grüße".to_owned(),
            key: EventKey { path: "data.ä".to_owned(), value: "s:ö".to_owned() },
            condition: Some("{}".to_owned()),
        }),
        child: Some(sample::id(9, 9)),
    };
    put(&*store, pause(id, 1, vec![wait("c"), everything.clone(), until("a", 30)])).await;
    // An append without waits leaves them, also while another step runs.
    put(&*store, append(id, 2, vec![step("d", 4_u32)], Status::Running)).await;
    put(&*store, append(id, 3, Vec::new(), Status::Waiting)).await;
    drop(store);
    let store = fixture.open().await;
    assert_eq!(waits(&*store, id).await, [until("a", 30), everything, wait("c")]);
    put(&*store, Append { status: Status::Running, ..pause(id, 3, vec![event("b[2]", "paid")]) }).await;
    assert_eq!(waits(&*store, id).await, [event("b[2]", "paid")]);
    assert_eq!(for_event(&*store, "Grüße").await, []);
    assert_eq!(parent(&*store, sample::id(9, 9)).await, None);
    put(&*store, pause(id, 4, Vec::new())).await;
    assert_eq!(waits(&*store, id).await, []);
    assert_eq!(for_event(&*store, "paid").await, []);
}

pub(super) async fn gone_with_the_end(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, first) = one(&*store).await;
    accept(&*store, vec![new(&definition, 1, 0)]).await;
    let (second, called) = (id(1, 0), id(7, 7));
    let all = || vec![until("a", 30), event("b", "paid"), child("c", called)];
    put(&*store, pause(first, 1, all())).await;
    put(&*store, pause(second, 1, all())).await;
    // It ends while it waits, by a cancellation, or while another of its steps runs.
    put(&*store, append(second, 2, vec![step("d", 1_u32)], Status::Running)).await;
    let late = append(first, 1, vec![finished(3, success())], Status::Succeeded);
    assert!(matches!(store.append(&late).await, Err(Error::Conflict { found: 2, .. })));
    assert_eq!(waits(&*store, first).await, all(), "an end that is refused ends no wait");
    let last = append(first, 2, vec![finished(3, success())], Status::Succeeded);
    put(&*store, Append { waits: Some(vec![event("e", "paid")]), ..last }).await;
    assert_eq!(waits(&*store, first).await, []);
    assert_eq!(for_event(&*store, "paid").await, [(second, "b".to_owned())]);
    assert_eq!(parent(&*store, called).await, Some((second, "c".to_owned())));
    put(&*store, append(second, 3, vec![finished(3, success())], Status::Succeeded)).await;
    drop(store);
    let store = fixture.open().await;
    assert_eq!(waits(&*store, second).await, []);
    assert_eq!(for_event(&*store, "paid").await, []);
    assert_eq!(parent(&*store, called).await, None);
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 0);
    let row = store.execution(first).await.expect("it is read").expect("it is there");
    assert_eq!((row.status, row.finished_at, row.events), (Status::Succeeded, Some(at(3)), 3));
}

/// Reads all pages of a list.
async fn unfinished(store: &dyn Store) -> Vec<ExecutionId> {
    let mut found: Vec<ExecutionId> = Vec::new();
    loop {
        let page = store.unfinished(found.last().copied(), 2).await.expect("it is read");
        if page.is_empty() {
            return found;
        }
        found.extend(page.into_iter().map(|row| row.id));
    }
}

async fn list_suspended(store: &dyn Store) -> Vec<SuspendedExecution> {
    let mut found: Vec<SuspendedExecution> = Vec::new();
    loop {
        let after = found.last().map(|last| last.execution);
        let page = store.list_suspended(after, 2).await.expect("it is read");
        assert!(page.len() <= 2);
        if page.is_empty() {
            return found;
        }
        found.extend(page);
    }
}

pub(super) async fn rest_apart(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, queued) = one(&*store).await;
    accept(&*store, (1..=4).map(|second| new(&definition, second, 0)).collect()).await;
    accept(&*store, [5, 6].map(|second| with_origin(&definition, second, 0, Origin::Test)).to_vec()).await;
    put(&*store, pause(id(1, 0), 1, vec![event("a", "paid"), until("b", 60), until("c", 50)])).await;
    put(&*store, Append { keeps_permit: true, ..pause(id(2, 0), 1, vec![until("a", 70)]) }).await;
    put(&*store, pause(id(3, 0), 1, vec![event("a", "paid")])).await;
    // Ignored unless it waits.
    put(
        &*store,
        Append { keeps_permit: true, status: Status::Running, ..pause(id(4, 0), 1, vec![until("a", 1)]) },
    )
    .await;
    put(&*store, Append { keeps_permit: true, ..pause(id(5, 0), 1, Vec::new()) }).await;
    put(&*store, pause(id(6, 0), 1, vec![until("a", 80)])).await;
    drop(store);

    let store = fixture.open().await;
    let rest = |second: i64, wake_at: Option<i64>, holds: bool| {
        let wake_at: Option<Timestamp> = wake_at.map(at);
        SuspendedExecution { execution: id(second, 0), wake_at, keeps_permit: holds }
    };
    let all = [
        rest(1, Some(50), false),
        rest(2, Some(70), true),
        rest(3, None, false),
        rest(5, None, true),
        rest(6, Some(80), false),
    ];
    assert_eq!(list_suspended(&*store).await, all);
    assert_eq!(unfinished(&*store).await, [queued, id(2, 0), id(4, 0), id(5, 0)]);
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 7);
    let held = store.unfinished(Some(queued), 1).await.expect("it is read");
    assert_eq!(held[0].status, Status::Waiting);
    let filter = ExecutionFilter { status: vec![Status::Waiting], ..ExecutionFilter::default() };
    assert_eq!(list(&*store, &filter).await, [6, 5, 3, 2, 1].map(|second| id(second, 0)));

    // It releases its permit, takes one, continues, and ends.
    put(&*store, append(id(2, 0), 2, Vec::new(), Status::Waiting)).await;
    put(&*store, Append { keeps_permit: true, ..append(id(3, 0), 2, Vec::new(), Status::Waiting) }).await;
    put(&*store, append(id(5, 0), 2, vec![step("b", 1_u32)], Status::Running)).await;
    put(&*store, append(id(6, 0), 2, vec![finished(9, success())], Status::Succeeded)).await;
    let all = [rest(1, Some(50), false), rest(2, Some(70), false), rest(3, None, true)];
    assert_eq!(list_suspended(&*store).await, all);
    assert_eq!(unfinished(&*store).await, [queued, id(3, 0), id(4, 0), id(5, 0)]);
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 6);
    let tests = ExecutionFilter { test: Some(true), ..ExecutionFilter::default() };
    assert_eq!(list(&*store, &tests).await, [id(6, 0), id(5, 0)], "a test stays one");
}

pub(super) async fn found_by_event(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    accept(&*store, (1..=5).map(|second| new(&definition, second, 0)).collect()).await;
    for second in 1..=5 {
        let mut waits = vec![event("b", "paid"), event("a[1]", "paid"), event("c", "paid.late"), wait("d")];
        waits.truncate(usize::try_from(second).expect("it fits"));
        put(&*store, pause(id(second, 0), 1, waits)).await;
    }
    end(&*store, id(0, 0), 5, success()).await;
    let mut wanted = Vec::new();
    for second in 1..=5 {
        wanted.extend((second > 1).then(|| (id(second, 0), "a[1]".to_owned())));
        wanted.push((id(second, 0), "b".to_owned()));
    }
    assert_eq!(for_event(&*store, "paid").await, wanted);
    for limit in [1, 2, 3, 4] {
        let found = pages(&*store, "", Some(""), limit).await;
        let found: Vec<_> = found.into_iter().map(|waiter| (waiter.execution, waiter.step)).collect();
        assert_eq!(found, wanted, "pages of {limit}");
    }
    assert_eq!(for_event(&*store, "paid.late").await.len(), 3);
    assert_eq!(for_event(&*store, "pai").await, []);
    assert_eq!(for_event(&*store, "").await, []);
}

/// Reads all pages of the steps that wait for `paid`.
async fn pages(store: &dyn Store, path: &str, value: Option<&str>, limit: u32) -> Vec<EventWaiter> {
    let mut found: Vec<EventWaiter> = Vec::new();
    loop {
        let after = found.last().cloned();
        let page = store.waiting_for_event("paid", path, value, after, limit).await;
        let page = page.expect("they are read");
        if page.is_empty() {
            return found;
        }
        found.extend(page);
    }
}

pub(super) async fn found_by_key(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, first) = one(&*store).await;
    accept(&*store, (1..=3).map(|second| new(&definition, second, 0)).collect()).await;
    let mut with_rest = keyed("c", "paid", "id", "n:2");
    if let Some(event) = &mut with_rest.event {
        event.condition = Some("the rest".to_owned());
    }
    put(&*store, pause(first, 1, vec![keyed("a", "paid", "id", "n:1"), with_rest])).await;
    put(&*store, pause(id(1, 0), 1, vec![keyed("a", "paid", "id", "n:1")])).await;
    put(&*store, pause(id(2, 0), 1, vec![keyed("a", "paid", "name", "s:x"), event("b", "paid")])).await;
    put(&*store, pause(id(3, 0), 1, vec![keyed("a", "paid", "id", "n:0"), keyed("b", "other", "z", "")]))
        .await;
    assert_eq!(store.event_paths("paid").await.expect("they are read"), ["", "id", "name"]);
    assert_eq!(store.event_paths("other").await.expect("they are read"), ["z"]);
    assert_eq!(store.event_paths("nothing").await.expect("they are read"), [""; 0]);
    let waiter = |execution, step: &str, value: &str, condition: Option<&str>| EventWaiter {
        execution,
        step: step.to_owned(),
        value: value.to_owned(),
        condition: condition.map(str::to_owned),
    };
    for limit in [1, 2, 10] {
        let one = [waiter(first, "a", "n:1", None), waiter(id(1, 0), "a", "n:1", None)];
        assert_eq!(pages(&*store, "id", Some("n:1"), limit).await, one, "pages of {limit}");
        let two = [waiter(first, "c", "n:2", Some("the rest"))];
        assert_eq!(pages(&*store, "id", Some("n:2"), limit).await, two);
        let all: Vec<_> = [waiter(id(3, 0), "a", "n:0", None)].into_iter().chain(one).chain(two).collect();
        assert_eq!(pages(&*store, "id", None, limit).await, all, "all in pages of {limit}");
        assert_eq!(pages(&*store, "", Some(""), limit).await, [waiter(id(2, 0), "b", "", None)]);
        assert_eq!(pages(&*store, "id", Some("n:3"), limit).await, []);
        assert_eq!(pages(&*store, "i", None, limit).await, []);
    }
    for ended in [first, id(2, 0)] {
        let last = append(ended, 2, vec![finished(3, success())], Status::Succeeded);
        put(&*store, last).await;
    }
    assert_eq!(store.event_paths("paid").await.expect("they are read"), ["id"]);
}

pub(super) async fn found_by_child(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, first) = one(&*store).await;
    accept(&*store, vec![new(&definition, 1, 0)]).await;
    put(&*store, pause(id(1, 0), 1, vec![child("x", id(8, 0))])).await;
    put(&*store, pause(first, 1, vec![child("a", id(7, 0)), child("b", id(8, 0)), wait("c")])).await;
    assert_eq!(parent(&*store, id(7, 0)).await, Some((first, "a".to_owned())));
    assert_eq!(parent(&*store, id(8, 0)).await, Some((first, "b".to_owned())), "the oldest of the two");
    assert_eq!(parent(&*store, id(9, 0)).await, None);
}

pub(super) async fn bounded(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    let many = |count: usize| (0..count).map(|index| wait(&format!("s[{index}]"))).collect::<Vec<_>>();
    for refused in [many(Wait::MAX + 1), vec![wait("a"), wait("b"), until("a", 5)]] {
        let refused = store.append(&pause(id, 1, refused)).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    put(&*store, pause(id, 1, many(Wait::MAX))).await;
    assert_eq!(waits(&*store, id).await.len(), Wait::MAX);
}
