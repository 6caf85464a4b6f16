//! The state of triggers that all nodes share.

use std::time::Duration;

use futures_util::future::join_all;
use model::AutomationId;
use store::conformance::{PostgresServer, PostgresSpace};
use store::{BucketKind, Letter, LetterState, Recipient, Shard, Store, TokenGrant, TokenRequest};

use crate::{folder, open, server};

const DAY: f64 = 86_400.0;

fn orders() -> AutomationId {
    AutomationId::parse("orders").expect("an id")
}

fn request(burst: u32, per_second: f64, wanted: u32) -> TokenRequest {
    TokenRequest {
        trigger: orders().into(),
        test: false,
        kind: BucketKind::Start,
        per_second,
        burst,
        wanted,
        hold: Duration::from_secs(3600),
    }
}

async fn take(store: &dyn Store, request: &TokenRequest) -> TokenGrant {
    store.take_tokens(request.clone()).await.expect("the bucket is asked")
}

/// Moves the times of all buckets into the past.
fn let_pass(server: &PostgresServer, space: &PostgresSpace, seconds: u64) {
    server.run(&format!(
        "UPDATE {}.buckets SET at_ns = at_ns - {seconds}000000000, full_ns = full_ns - {seconds}000000000, \
         until_ns = ARRAY(SELECT u - {seconds}000000000 FROM unnest(until_ns) u)",
        space.schema()
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_nodes_never_take_more_tokens_than_the_bucket_has() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    let request = request(60, 1.0 / DAY, 7);
    let takes = (0..20).map(|turn| take(if turn % 2 == 0 { &*one } else { &*other }, &request));
    let granted: Vec<u32> = join_all(takes).await.iter().map(|grant| grant.granted).collect();
    assert_eq!(granted.iter().sum::<u32>(), 60, "{granted:?}");
    let test = TokenRequest { test: true, ..request };
    assert_eq!(take(&*one, &test).await.granted, 7, "the test address has its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_bucket_returns_retry_after_and_refills_to_its_burst() {
    let server = server();
    let (space, folder) = (server.space(), folder());
    let store = open(&space, &folder);
    let request = request(3, 0.1, 1);
    for _ in 0..3 {
        assert_eq!(take(&*store, &request).await, TokenGrant { granted: 1, retry_after: Duration::ZERO });
    }
    let empty = take(&*store, &request).await;
    assert_eq!(empty.granted, 0);
    assert!((8.0..=10.0).contains(&empty.retry_after.as_secs_f64()), "{empty:?}");
    let_pass(&server, &space, 10);
    assert_eq!(take(&*store, &request).await.granted, 1);
    assert_eq!(take(&*store, &request).await.granted, 0);
    let_pass(&server, &space, 1000);
    assert_eq!(take(&*store, &TokenRequest { wanted: 9, ..request.clone() }).await.granted, 3);
    // The clock of the database is set back by an hour: that adds no tokens, and later time counts from there.
    server.run(&format!("UPDATE {}.buckets SET at_ns = at_ns + 3600000000000", space.schema()));
    assert_eq!(take(&*store, &request).await.granted, 0);
    let_pass(&server, &space, 10);
    assert_eq!(take(&*store, &request).await.granted, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_held_by_another_node_are_not_refilled() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    // It is full again at once.
    let fast = |wanted| request(16, 1e9, wanted);
    assert_eq!(take(&*one, &fast(8)).await.granted, 8, "one is used, seven are held");
    assert_eq!(take(&*other, &fast(16)).await.granted, 9, "together they have the burst");
    assert_eq!(
        take(&*one, &fast(16)).await.granted,
        8,
        "its own are used up by now, the other one holds eight"
    );
    let_pass(&server, &space, 3 * 3600);
    assert_eq!(take(&*other, &fast(16)).await.granted, 16, "what nobody used in time is lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_collection_deletes_full_buckets_only() {
    let server = server();
    let (space, folder) = (server.space(), folder());
    let store = open(&space, &folder);
    take(&*store, &request(2, 1.0 / 60.0, 1)).await;
    let rows = || server.run(&format!("SELECT count(*) FROM {}.buckets", space.schema()));
    store.collect_garbage().await.expect("it is collected");
    assert_eq!(rows(), "1", "it has one token of two");
    let_pass(&server, &space, 60);
    store.collect_garbage().await.expect("it is collected");
    assert_eq!(rows(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_to_a_shard_is_delivered_to_its_current_owner() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    let shard = Shard::of(&orders());
    let sender = one.node().expect("a number");
    let letter = Letter { id: [7; 16], to: Recipient::Shard(shard), sender, body: b"go".to_vec() };
    one.send_letter(letter.clone()).await.expect("it is sent");
    for store in [&one, &other] {
        assert_eq!(store.letters().await.expect("they are read"), [], "nobody has the shard");
    }
    assert_eq!(one.letter_state(&letter).await.expect("it is read"), LetterState::Open);
    let owned = one.take_shards().await.expect("they are taken").contains(shard);
    other.take_shards().await.expect("they are taken");
    let (owner, guest) = if owned { (&one, &other) } else { (&other, &one) };
    assert_eq!(owner.letters().await.expect("they are read"), std::slice::from_ref(&letter));
    assert_eq!(guest.letters().await.expect("they are read"), []);
    owner.answer_letters(vec![(letter.clone(), b"done".to_vec())]).await.expect("it is answered");
    let state = one.letter_state(&letter).await.expect("it is read");
    assert_eq!(state, LetterState::Answered(b"done".to_vec()));
    assert_eq!(owner.letters().await.expect("they are read"), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_is_in_progress_until_it_ends_or_its_node_leaves() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    let polling = async || other.polling().await.expect("they are read");
    one.set_polling(&orders().into(), true).await.expect("it is noted");
    assert_eq!(polling().await, [orders().into()]);
    other.set_polling(&orders().into(), false).await.expect("it is noted");
    assert_eq!(polling().await, [orders().into()], "another one polls");
    one.set_polling(&orders().into(), false).await.expect("it is noted");
    assert_eq!(polling().await, []);
    one.set_polling(&orders().into(), true).await.expect("it is noted");
    one.close().await.expect("it leaves");
    assert_eq!(polling().await, []);
}
