//! Rules of snapshots, at which the replay of a long log begins.

use model::Status;

use super::Fixture;
use super::sample::{append, finished, id, one, step, success};
use crate::{Append, Error, Snapshot, SnapshotChange};

fn put(events: u32, body: &str) -> SnapshotChange {
    SnapshotChange::Put(Snapshot { events, body: body.to_owned() })
}

pub(super) async fn replay_begins_there(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, execution) = one(&*store).await;
    let whole = store.replay_log(execution).await.expect("it is read").expect("it is there");
    assert_eq!((whole.snapshot, whole.events.len(), whole.count), (None, 1, 1));
    for first in [1, 2, 3] {
        let snapshot = if first == 1 { SnapshotChange::Keep } else { put(first, &format!("after {first}")) };
        let events = vec![step("a", first)];
        let append = Append { snapshot, ..append(execution, first, events, Status::Running) };
        store.append(&append).await.expect("it is appended");
    }
    drop(store);
    let store = fixture.open().await;
    let all = store.events(execution).await.expect("they are read").expect("it is there");
    let log = store.replay_log(execution).await.expect("it is read").expect("it is there");
    assert_eq!(log.snapshot, Some(Snapshot { events: 3, body: "after 3".to_owned() }));
    assert_eq!(log.events, [all[0].clone(), all[3].clone()]);
    assert_eq!((log.count, all.len()), (4, 4));

    // A snapshot written later than the events it covers.
    let late = append(execution, 4, vec![step("a", 4_u32)], Status::Running);
    store.append(&Append { snapshot: put(3, "late"), ..late }).await.expect("it is appended");
    let log = store.replay_log(execution).await.expect("it is read").expect("it is there");
    assert_eq!(log.snapshot, Some(Snapshot { events: 3, body: "late".to_owned() }));
    assert_eq!((log.count, log.events.len()), (5, 3));

    let end = append(execution, 5, vec![finished(9, success())], Status::Succeeded);
    store.append(&Append { snapshot: SnapshotChange::Delete, ..end }).await.expect("it is appended");
    let log = store.replay_log(execution).await.expect("it is read").expect("it is there");
    assert_eq!((log.snapshot, log.events.len(), log.count), (None, 6, 6));
    assert_eq!(store.replay_log(id(50, 0)).await.expect("it is read"), None);
}

pub(super) async fn refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, execution) = one(&*store).await;
    let running = append(execution, 1, vec![step("a", 0_u32)], Status::Running);
    let elsewhere = Append { snapshot: put(2, "{}"), ..running.clone() };
    let result = store.append(&elsewhere).await;
    assert!(matches!(result, Err(Error::Invalid { .. })), "{result:?}");
    let large = Append { snapshot: put(1, &"x".repeat(Snapshot::MAX_BYTES + 1)), ..running.clone() };
    let result = store.append(&large).await;
    assert!(matches!(result, Err(Error::TooLarge { .. })), "{result:?}");
    store.append(&running).await.expect("nothing was written before");
}
