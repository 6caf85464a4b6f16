//! Outages of a store in a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::failpoint::{Failpoint, FailpointAction, Failpoints};
use store::{Capacity, Error, Options, OutageKind, StateWrite};

fn write() -> Vec<StateWrite> {
    vec![StateWrite {
        scope: "shared".to_owned(),
        key: "one".to_owned(),
        expected: None,
        value: Some(value::Value::from(1)),
        expires_at: None,
    }]
}

#[tokio::test]
async fn a_full_disk_is_an_outage_that_ends_once_space_is_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let is_full = Arc::new(AtomicBool::new(false));
    let armed = is_full.clone();
    let failpoints = Failpoints::new(move |point| {
        (point == Failpoint::BeforeCommit && armed.load(Ordering::Relaxed)).then_some(FailpointAction::Error)
    });
    let options = Options { failpoints, ..Options::default() };
    let store = store_sqlite::open(folder.path(), options).expect("it opens");
    store.write_state(write()).await.expect("it is written");
    is_full.store(true, Ordering::Relaxed);
    let refused = store.write_state(write()).await.expect_err("there is no space");
    assert!(matches!(refused, Error::Full), "{refused}");
    let outage = store.outage().expect("it is an outage");
    assert_eq!((outage.kind, outage.refuses_starts()), (OutageKind::Full, true));
    assert_eq!(store.info().await.expect("it is told").capacity, Capacity::Exhausted);
    is_full.store(false, Ordering::Relaxed);
    // There are no writes meanwhile.
    let mut outages = store.outages();
    let over = tokio::time::timeout(Duration::from_secs(20), outages.wait_for(Option::is_none)).await;
    over.expect("it ends in time").expect("the store is open");
    assert_eq!(store.info().await.expect("it is told").capacity, Capacity::Ample);
}
