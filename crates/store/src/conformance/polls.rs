//! Rules of polls and subscriptions.

use model::automation::TriggerKey;
use value::{Map, Value};

use super::Fixture;
use super::sample::{at, definition, new, trigger, with_key};
use crate::{
    Accept, AcceptOutcome, Address, Error, PollEntry, PollState, PollWrite, Store, Subscription, Watermark,
};

fn poll_state(cursor: &str) -> PollState {
    PollState {
        source: "wiki.pageChanged".to_owned(),
        cursor: Value::from(cursor),
        polled_at: Some(at(1)),
        found_at: None,
        next_at: at(60),
        failures: 0,
        error: None,
        polls: 1,
        found: 0,
    }
}

fn write(name: &str, cursor: &str, keys: impl IntoIterator<Item = String>, second: i64) -> PollWrite {
    PollWrite {
        trigger: trigger(name),
        state: poll_state(cursor),
        forgets_keys: false,
        keys: keys.into_iter().collect(),
        entry: Some(PollEntry { at: at(second), items: 3, found: 0, error: None }),
    }
}

fn subscription(id: &str, trigger: &TriggerKey) -> Subscription {
    Subscription {
        url: "https://hooks.example.com/trigger/t".to_owned(),
        requested: true,
        id: id.to_owned(),
        trigger: trigger.clone(),
        secret_trigger: None,
        source: "github.push".to_owned(),
        event: "github.push".to_owned(),
        connection: Some("hub".to_owned()),
        inputs: Map::from_iter([("owner", "acme")]),
        remote: Value::Null,
        removing: false,
        test: false,
        failures: 0,
        error: None,
        next_at: Some(at(1)),
        since: at(0),
    }
}

async fn put(store: &dyn Store, write: PollWrite) {
    store.accept(&Accept { poll: Some(write), ..Accept::default() }).await.expect("it is written");
}

async fn seen(store: &dyn Store, trigger: &TriggerKey, keys: &[&str]) -> Vec<bool> {
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    store.known_poll_keys(trigger, &keys).await.expect("it is read")
}

fn keys(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Cursor, keys and executions are stored together or not at all.
pub(super) async fn with_executions(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let definition = definition("orders", "steps: []");
    let orders = trigger("orders");
    let refused = store
        .accept(&Accept {
            executions: vec![new(&definition, 1, 0)],
            poll: Some(write("orders", "a", keys(&["one"]), 1)),
            ..Accept::default()
        })
        .await;
    assert!(refused.is_err(), "the definition was not put");
    assert_eq!(store.poll_states().await.expect("they are read"), []);
    assert_eq!(seen(&*store, &orders, &["one"]).await, [false]);
    store.put_definition(definition.clone()).await.expect("it is put");
    let accept = Accept {
        executions: vec![new(&definition, 1, 0), with_key(&definition, 1, 1, "k")],
        poll: Some(write("orders", "b", keys(&["one"]), 1)),
        ..Accept::default()
    };
    assert_eq!(
        store.accept(&accept).await.expect("they are accepted"),
        [AcceptOutcome::New, AcceptOutcome::New]
    );
    store.close().await.expect("it closes");
    let store = fixture.open().await;
    assert_eq!(store.poll_states().await.expect("they are read"), [(orders.clone(), poll_state("b"))]);
    assert_eq!(seen(&*store, &orders, &["two", "one"]).await, [false, true]);
    assert_eq!(store.unfinished_count().await.expect("they are counted"), 2);
}

/// Keys belong to one Automation, can be deleted by a poll, and are bounded: the oldest are deleted first.
pub(super) async fn keys_are_bounded(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (orders, others) = (trigger("orders"), trigger("orders#others"));
    put(&*store, write("orders", "a", keys(&["old", "older"]), 1)).await;
    put(&*store, write("orders#others", "a", keys(&["theirs"]), 1)).await;
    assert_eq!(seen(&*store, &others, &["old"]).await, [false]);
    // A key that is polled again counts as new.
    let many = (0..PollWrite::MAX_KEYS - 1).map(|number| number.to_string());
    put(&*store, write("orders", "b", many.chain(["old".to_owned()]), 2)).await;
    assert_eq!(seen(&*store, &orders, &["old", "older", "0"]).await, [true, false, true]);
    put(&*store, PollWrite { forgets_keys: true, ..write("orders", "c", keys(&["new"]), 3) }).await;
    assert_eq!(seen(&*store, &orders, &["old", "new"]).await, [false, true]);
    assert_eq!(seen(&*store, &others, &["theirs"]).await, [true]);
    let too_many = write("orders", "d", (0..=PollWrite::MAX_KEYS).map(|number| number.to_string()), 4);
    assert!(store.accept(&Accept { poll: Some(too_many), ..Accept::default() }).await.is_err());
    let too_long = write("orders", "d", ["x".repeat(PollWrite::MAX_KEY_BYTES + 1)], 4);
    assert!(store.accept(&Accept { poll: Some(too_long), ..Accept::default() }).await.is_err());
}

/// The log keeps the latest polls of an Automation.
pub(super) async fn log_is_bounded(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let most = i64::from(PollWrite::MAX_ENTRIES);
    for second in 0..most + 5 {
        put(&*store, write("orders", "a", [], second)).await;
    }
    let entries = store.poll_entries(&trigger("orders"), u32::MAX).await.expect("they are read");
    assert_eq!(entries.len(), PollWrite::MAX_ENTRIES as usize);
    assert_eq!(entries[0].at, at(most + 4));
    assert_eq!(entries[entries.len() - 1].at, at(5));
    assert_eq!(store.poll_entries(&trigger("orders"), 2).await.expect("they are read").len(), 2);
    assert_eq!(store.poll_entries(&trigger("orders#others"), 2).await.expect("they are read"), []);
}

/// The rows of a trigger move to a key without rows, all or none.
pub(super) async fn moved_trigger(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let [orders, paid, other] = ["orders", "orders#paid", "orders#other"].map(trigger);
    let address = |key: &TriggerKey| Address {
        trigger: key.clone(),
        live: format!("live of {key}"),
        test: format!("test of {key}"),
    };
    store.put_addresses(vec![address(&orders), address(&other)]).await.expect("they are stored");
    put(&*store, write("orders", "a", keys(&["one", "two"]), 1)).await;
    let watermark = Watermark { trigger: orders.clone(), schedule: "daily".to_owned(), instant: at(5) };
    let accept = Accept { watermark: Some(watermark.clone()), ..Accept::default() };
    store.accept(&accept).await.expect("it is stored");
    let mut subscriptions = [subscription("one", &orders), subscription("two", &other)];
    for subscription in &subscriptions {
        store.put_subscription(subscription.clone()).await.expect("it is stored");
    }
    let refused = store.move_trigger(&orders, &other).await;
    let Err(Error::TriggerHasRows { trigger, what }) = refused else {
        panic!("there is something: {refused:?}")
    };
    assert!(trigger == other && !what.is_empty());
    assert_eq!(store.poll_states().await.expect("they are read"), [(orders.clone(), poll_state("a"))]);
    assert_eq!(store.move_trigger(&orders, &paid).await.expect("it is moved"), 7);
    assert_eq!(store.move_trigger(&orders, &paid).await.expect("nothing is left"), 0);
    store.close().await.expect("it closes");

    let store = fixture.open().await;
    let moved = Address { trigger: paid.clone(), ..address(&orders) };
    assert_eq!(store.addresses().await.expect("they are read"), [address(&other), moved]);
    let moved = Watermark { trigger: paid.clone(), ..watermark };
    assert_eq!(store.watermarks().await.expect("they are read"), [moved]);
    assert_eq!(store.poll_states().await.expect("they are read"), [(paid.clone(), poll_state("a"))]);
    assert_eq!(seen(&*store, &paid, &["one", "two", "three"]).await, [true, true, false]);
    assert_eq!(seen(&*store, &orders, &["one"]).await, [false]);
    assert_eq!(store.poll_entries(&paid, 9).await.expect("they are read").len(), 1);
    subscriptions[0] = subscriptions[0].clone().moved_to(&paid);
    assert_eq!(subscriptions[0].secret_trigger.as_ref(), Some(&orders));
    assert_eq!(store.subscriptions().await.expect("they are read"), subscriptions);
    // The old key is free for another trigger.
    assert_eq!(store.move_trigger(&paid, &orders).await.expect("it is moved back"), 7);
}

/// A subscription stays until it is deleted.
pub(super) async fn subscriptions(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut one = subscription("one", &trigger("orders"));
    store.put_subscription(one.clone()).await.expect("it is kept");
    one.remote = Value::from(17);
    store.put_subscription(one.clone()).await.expect("it is kept");
    store.put_subscription(Subscription { id: "two".to_owned(), ..one.clone() }).await.expect("it is kept");
    store.delete_subscription("two").await.expect("it goes");
    store.close().await.expect("it closes");
    let store = fixture.open().await;
    assert_eq!(store.subscriptions().await.expect("they are read"), [one]);
}
