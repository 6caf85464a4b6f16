//! Pairings that all nodes share.

use jiff::{SignedDuration, Timestamp};
use model::automation::TriggerKey;

use crate::{at, folder, open, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pairing_is_closed_once_by_any_node_before_it_expires() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    let id: TriggerKey = "tasks#asana".parse().expect("a key");
    let until = at() + SignedDuration::from_mins(10);
    assert!(!other.close_pairing(&id, at()).await.expect("it is asked"));
    one.open_pairing(&id, at()).await.expect("it is opened");
    one.open_pairing(&id, until).await.expect("it is opened again");
    assert_eq!(other.pairing(&id).await.expect("it is read"), Some(until));
    let (a, b) = tokio::join!(one.close_pairing(&id, at()), other.close_pairing(&id, at()));
    assert!(a.expect("it is asked") != b.expect("it is asked"), "one of two");
    assert_eq!(one.pairing(&id).await.expect("it is read"), None);
    one.open_pairing(&id, until).await.expect("it is opened");
    assert!(!other.close_pairing(&id, until).await.expect("it is asked"), "it is over");
    // The others are deleted once they are old.
    one.open_pairing(&id, Timestamp::UNIX_EPOCH).await.expect("it is opened");
    one.collect_garbage().await.expect("it is cleaned");
    assert_eq!(other.pairing(&id).await.expect("it is read"), None);
}
