//! Listening at test addresses on any node.

use jiff::{SignedDuration, Timestamp};
use model::AutomationId;
use store::{NewCapture, NewListening, Store};

use crate::{at, folder, open, server};

fn automation(name: &str) -> AutomationId {
    AutomationId::parse(name).expect("an id")
}

fn later(seconds: i64) -> Timestamp {
    at() + SignedDuration::from_secs(seconds)
}

async fn begin(store: &dyn Store, name: &str, seconds: i64, most: u32) -> u64 {
    let new = NewListening {
        trigger: automation(name).into(),
        since: at(),
        until: later(seconds),
        most,
        sessions: 3,
    };
    store.begin_listening(new).await.expect("it begins")
}

fn capture(name: &str, number: u8) -> NewCapture {
    NewCapture {
        id: [number; 16],
        trigger: automation(name).into(),
        now: at(),
        aside: false,
        size: 10,
        body: vec![number],
        max_asides: 2,
        max_bytes: 1000,
    }
}

async fn add(store: &dyn Store, capture: NewCapture) -> bool {
    store.add_capture(capture).await.expect("it is asked")
}

/// The numbers of the captures with their contents.
async fn captured(store: &dyn Store, name: &str) -> Vec<(u32, u8)> {
    let all = store.captures(&automation(name).into(), 0).await.expect("they are read");
    all.into_iter().map(|(number, body)| (number, body[0])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listen_session_captures_on_other_nodes_until_its_count_or_expiry() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    assert!(!add(&*other, capture("orders", 1)).await, "nobody listens");
    assert_eq!(begin(&*one, "orders", 60, 2).await, 0);
    assert!(!add(&*other, NewCapture { now: later(60), ..capture("orders", 1) }).await, "it is over by then");
    assert!(add(&*other, capture("orders", 2)).await);
    assert!(add(&*one, capture("orders", 2)).await, "the same again");
    assert!(add(&*one, capture("orders", 3)).await);
    assert!(!add(&*other, capture("orders", 4)).await, "two were to be captured");
    assert_eq!(captured(&*other, "orders").await, [(1, 2), (2, 3)]);
    let session =
        one.listening(&automation("orders").into()).await.expect("it is read").expect("there is one");
    assert_eq!((session.count, session.last, session.is_active(at())), (2, 2, false));
    assert_eq!(begin(&*other, "orders", 60, 2).await, 1, "a new session");
    assert_eq!(captured(&*one, "orders").await, []);
    one.end_listening(&automation("orders").into(), at()).await.expect("it ends");
    assert!(!add(&*other, capture("orders", 5)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_captures_are_bounded() {
    let server = server();
    let (space, folder) = (server.space(), folder());
    let store = open(&space, &folder);
    begin(&*store, "orders", 60, 100).await;
    for number in 1..4 {
        assert!(add(&*store, NewCapture { aside: true, ..capture("orders", number) }).await);
    }
    assert_eq!(captured(&*store, "orders").await, [(1, 1), (2, 2)], "at most two that start nothing");
    begin(&*store, "other", 60, 100).await;
    assert!(add(&*store, NewCapture { size: 500, ..capture("other", 4) }).await);
    assert!(add(&*store, NewCapture { size: 490, ..capture("orders", 5) }).await);
    assert_eq!(captured(&*store, "orders").await, [(2, 2), (3, 5)], "the largest session loses its oldest");
    assert_eq!(captured(&*store, "other").await, [(1, 4)]);
    // The ended session is deleted first, then the session that ends next.
    store.end_listening(&automation("other").into(), at()).await.expect("it ends");
    begin(&*store, "third", 30, 1).await;
    begin(&*store, "fourth", 60, 1).await;
    assert_eq!(store.listening(&automation("other").into()).await.expect("it is read"), None);
    assert_eq!(captured(&*store, "other").await, []);
    begin(&*store, "fifth", 60, 1).await;
    assert_eq!(store.listening(&automation("third").into()).await.expect("it is read"), None);
    assert!(store.listening(&automation("orders").into()).await.expect("it is read").is_some());
    // All of them ended long ago by the clock of the database.
    server.run(&format!("UPDATE {}.listenings SET until_ns = 0 WHERE automation = 'orders'", space.schema()));
    store.collect_garbage().await.expect("it is collected");
    assert_eq!(captured(&*store, "orders").await, []);
}
