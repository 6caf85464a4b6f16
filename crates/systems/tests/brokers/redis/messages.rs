//! Messages of a stream.

use std::time::Duration;

use connector::{Fate, Message, MessageSource, TakeLimits};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::broker::{Broker, inputs, wait_for_new};
use crate::support::{PATIENCE, take};

const GROUP: [&str; 2] = ["orders", "shop"];

fn bodies(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()).collect()
}

async fn done(source: &mut dyn MessageSource, messages: &[Message]) {
    let fates = messages.iter().map(|message| (message.token, Fate::Done)).collect();
    source.settle(fates).await.expect("they are settled");
}

/// Waits until the source fails, and returns its error.
async fn failure(source: &mut dyn MessageSource) -> String {
    for _ in 0..20 {
        match source.wait(Duration::from_millis(100)).await {
            Err(error) => return error.into_message(),
            Ok(true) => drop(take(source, 100).await),
            Ok(false) => {}
        }
    }
    panic!("it goes on")
}

#[tokio::test]
async fn messages_come_in_order_and_with_all_that_the_server_knows() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    let mut source = broker.open().await;
    assert_eq!(source.lag().await, Ok(Some(0)));
    for body in ["one", "two", "three"] {
        client.add("orders", body.as_bytes());
    }
    let add = json!({"stream": "orders", "body": "four", "fields": {"tenant": "acme"}});
    let id = broker.call("redis.add", add).await.expect("it is added").get("id").expect("an id").to_text();
    client.get(&["XADD", "orders", "9999999999999-1", "id", "17", "state", "open"]);
    assert_eq!(source.lag().await, Ok(Some(5)));
    let messages = take(&mut *source, 10).await;
    assert_eq!(bodies(&messages), ["one", "two", "three", "four", r#"{"id":"17","state":"open"}"#]);
    let fourth = &messages[3];
    assert_eq!(
        (fourth.source.as_str(), fourth.key.as_deref(), &fourth.id),
        ("orders", None, &format!("orders:{id}"))
    );
    assert_eq!(value::Value::from(fourth.headers.clone()).to_json(), r#"{"tenant":"acme"}"#);
    assert_eq!(fourth.properties.get("entryId"), Some(&id.into()));
    assert!(fourth.at.is_some() && !fourth.redelivered && fourth.is_identified);
    assert_eq!(messages[4].at.map(|at| at.as_millisecond()), Some(9_999_999_999_999));
    assert_eq!(source.lag().await, Ok(Some(0)), "the messages under way do not wait");
}

#[tokio::test]
async fn a_settled_message_never_comes_again_and_any_other_does() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    for body in ["done", "later", "left"] {
        client.add("orders", body.as_bytes());
    }
    let mut source = broker.open().await;
    let messages = take(&mut *source, 10).await;
    // Longer than this test has.
    let later = Fate::Later(PATIENCE * 6);
    source.settle(vec![(messages[0].token, Fate::Done), (messages[1].token, later)]).await.expect("settled");
    client.add("orders", b"new");
    let new = take(&mut *source, 10).await;
    assert_eq!(bodies(&new), ["new"], "others go on meanwhile");
    source.settle(vec![(new[0].token, Fate::Later(Duration::ZERO))]).await.expect("settled");
    let again = take(&mut *source, 10).await;
    assert_eq!(
        (bodies(&again), again[0].redelivered, &again[0].id),
        (vec!["new".to_owned()], true, &new[0].id)
    );
    done(&mut *source, &again).await;
    assert_eq!(client.unsettled("orders", "shop"), 2);
    // The process ends, and another one has the consumer.
    let mut source = broker.open().await;
    let left = take(&mut *source, 10).await;
    assert_eq!((bodies(&left), left[0].redelivered), (vec!["later".to_owned(), "left".to_owned()], true));
    done(&mut *source, &left).await;
    assert_eq!(
        (client.unsettled("orders", "shop"), source.wait(Duration::from_millis(50)).await),
        (0, Ok(false))
    );
}

#[tokio::test]
async fn thousands_of_messages_that_were_left_all_come_before_new_ones() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    for number in 0..1200 {
        client.add("orders", number.to_string().as_bytes());
    }
    let mut source = broker.open().await;
    for _ in 0..6 {
        assert_eq!(take(&mut *source, 200).await.len(), 200);
    }
    client.add("orders", b"1200");
    let mut source = broker.open().await;
    let mut got = Vec::new();
    while got.len() < 1201 {
        let messages = take(&mut *source, 200).await;
        done(&mut *source, &messages).await;
        got.extend(bodies(&messages));
    }
    assert_eq!(got, (0..1201).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(client.unsettled("orders", "shop"), 0);
}

#[tokio::test]
async fn messages_of_a_consumer_that_is_gone_are_taken_over_and_those_of_another_are_not() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    let [old, _] = ["old", "fresh"].map(|body| client.add("orders", body.as_bytes()));
    let mut other = inputs();
    other["of"] = json!("cogwork:renamed#messages/0");
    let mut gone = broker.open_as(other).await.expect("it opens");
    assert_eq!(take(&mut *gone, 10).await.len(), 2);
    let [stream, group] = GROUP;
    // As if three minutes had passed.
    client.get(&[
        "XCLAIM",
        stream,
        group,
        "cogwork:renamed#messages/0",
        "0",
        &old,
        "IDLE",
        "180000",
        "JUSTID",
    ]);
    let mut source = broker.open().await;
    assert_eq!(source.lag().await, Ok(Some(2)), "nobody has accepted them");
    // It looks for its own first.
    assert_eq!(source.wait(Duration::from_millis(50)).await, Ok(false));
    let messages = take(&mut *source, 10).await;
    assert_eq!((bodies(&messages), messages[0].redelivered), (vec!["old".to_owned()], true));
    done(&mut *source, &messages).await;
    assert_eq!(client.unsettled(stream, group), 1);
}

#[tokio::test]
async fn consumers_of_a_group_share_its_messages() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    let mut other = inputs();
    other["of"] = json!("cogwork:orders#messages/1");
    let (mut one, mut two) = (broker.open().await, broker.open_as(other).await.expect("it opens"));
    for number in 0..4 {
        client.add("orders", number.to_string().as_bytes());
    }
    let mut got = bodies(&take(&mut *one, 2).await);
    got.extend(bodies(&take(&mut *two, 2).await));
    assert_eq!(got, ["0", "1", "2", "3"]);
}

#[tokio::test]
async fn one_request_takes_no_more_messages_and_bytes_than_it_may() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    for _ in 0..5 {
        client.add("orders", &[b'x'; 1000]);
    }
    let mut source = broker.open().await;
    assert_eq!(take(&mut *source, 2).await.len(), 2);
    assert!(source.wait(PATIENCE).await.expect("it waits"));
    let limits = TakeLimits { messages: 10, bytes: 2500, fill: Duration::ZERO };
    assert_eq!(source.take(limits).await.expect("they are taken").len(), 2);
    assert_eq!(take(&mut *source, 10).await.len(), 1);
    client.add("orders", b"first");
    let more = std::thread::spawn(move || {
        std::thread::park_timeout(Duration::from_millis(100));
        client.add("orders", b"second");
    });
    assert!(source.wait(PATIENCE).await.expect("it waits"));
    let limits = TakeLimits { messages: 2, bytes: 2500, fill: PATIENCE };
    assert_eq!(bodies(&source.take(limits).await.expect("they are taken")), ["first", "second"]);
    more.join().expect("it ends");
}

#[tokio::test]
async fn messages_above_the_room_for_them_all_come_and_none_is_held_twice() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    let mut source = broker.open().await;
    wait_for_new(&mut *source).await;
    // A small one lets the source ask for many.
    client.add("orders", b"0");
    for number in 1..=6_u8 {
        client.add("orders", &vec![b'0' + number; 3 << 20]);
    }
    let mut got = Vec::new();
    while got.len() < 7 {
        assert!(source.wait(PATIENCE).await.expect("it waits"));
        let limits = TakeLimits { messages: 100, bytes: 8 << 20, fill: Duration::ZERO };
        let messages = source.take(limits).await.expect("they are taken");
        assert!(messages.iter().map(|message| message.body.len()).sum::<usize>() <= 9 << 20);
        done(&mut *source, &messages).await;
        got.extend(messages.iter().map(|message| (message.body[0], message.body.len())));
    }
    got.sort_unstable();
    let expected: Vec<_> =
        (0..7).map(|number| (b'0' + number, if number == 0 { 1 } else { 3 << 20 })).collect();
    assert_eq!(got, expected);
    assert_eq!(client.unsettled("orders", "shop"), 0);
}

#[tokio::test]
async fn an_entry_above_every_limit_is_cut_and_never_copied() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    client.add("orders", &vec![b'x'; 20 << 20]);
    let (half, stream) = ("y".repeat(5 << 20), "orders");
    client.get(&["XADD", stream, "*", "other", &half, "body", &half]);
    client.add("orders", b"small");
    let mut source = broker.open().await;
    let mut got = Vec::new();
    while got.len() < 3 {
        let messages = take(&mut *source, 10).await;
        for message in &messages {
            if message.body.len() > 100 {
                assert!(message.body.len() > 8 << 20, "no `maxBody` allows it");
                let error = source.forward("dead", message, "key", "it is bad").await.expect_err("it is cut");
                assert_eq!(error.kind.to_string(), "limit");
            }
        }
        done(&mut *source, &messages).await;
        got.extend(messages);
    }
    assert_eq!(got.iter().filter(|message| message.body.len() > 100).count(), 2);
    assert_eq!(client.unsettled("orders", "shop"), 0);
}

#[tokio::test]
async fn a_source_with_many_failed_entries_reads_no_new_ones() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    for _ in 0..1100 {
        client.add("orders", b"bad");
    }
    let mut source = broker.open().await;
    let mut held = 0;
    while held < 1000 {
        let messages = take(&mut *source, 100).await;
        held += messages.len();
        let later = messages.iter().map(|message| (message.token, Fate::Later(PATIENCE * 60))).collect();
        source.settle(later).await.expect("they are settled");
    }
    assert_eq!(source.wait(Duration::from_millis(100)).await, Ok(false));
    assert_eq!(source.lag().await, Ok(Some(1100)), "nothing is lost");
}

#[tokio::test]
async fn a_new_group_begins_with_the_next_entry_or_with_the_oldest() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    client.add("orders", b"before");
    let mut new = broker.open_as(json!({"stream": "orders", "group": "new"})).await.expect("it opens");
    let mut all = broker.open().await;
    client.add("orders", b"after");
    assert_eq!(bodies(&take(&mut *new, 10).await), ["after"]);
    assert_eq!(take(&mut *all, 10).await.len(), 2);
}

#[tokio::test]
async fn a_group_that_was_deleted_is_an_error_and_its_successor_misses_nothing() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    let new = json!({"stream": "orders", "group": "shop"});
    client.add("orders", b"before the group");
    for delete in [&["XGROUP", "DESTROY", "orders", "shop"][..], &["DEL", "orders"], &["FLUSHALL"]] {
        let mut source = broker.open_as(new.clone()).await.expect("it opens");
        client.get(delete);
        client.add("orders", b"since");
        let error = failure(&mut *source).await;
        assert!(error.starts_with("the group `shop` of the stream `orders` cannot be read"), "{error}");
        assert!(error.contains("NOGROUP") || error.contains("UNBLOCKED"), "{error}");
        assert!(source.lag().await.is_err());
        let mut source = broker.open_as(new.clone()).await.expect("it opens");
        let messages = take(&mut *source, 10).await;
        assert_eq!(bodies(&messages), ["since"], "{delete:?}");
        done(&mut *source, &messages).await;
    }
    client.get(&["DEL", "orders"]);
    client.get(&["SET", "orders", "x"]);
    let error = broker.open_as(new).await.err().expect("it is no stream");
    assert_eq!((error.kind.to_string().as_str(), error.code.as_deref()), ("response", Some("WRONGTYPE")));
}

#[tokio::test]
async fn entries_that_are_deleted_while_they_are_pending_are_told_once_and_stop_nothing() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    let gone: Vec<String> = ["a", "b", "c"].map(|body| client.add("orders", body.as_bytes())).into();
    let mut source = broker.open().await;
    let messages = take(&mut *source, 10).await;
    let again = messages.iter().map(|message| (message.token, Fate::Later(Duration::ZERO))).collect();
    source.settle(again).await.expect("they are settled");
    client.get(&["XTRIM", "orders", "MAXLEN", "1"]);
    let rest = take(&mut *source, 10).await;
    assert_eq!(bodies(&rest), ["c"]);
    let error = source.wait(PATIENCE).await.expect_err("two are gone").into_message();
    let start = "2 entries were deleted from the stream `orders` before their acknowledgement";
    assert!(error.starts_with(start) && error.contains(&gone[..2].join(", ")), "{error}");
    // After a restart of the process, with pending entries of a consumer that is gone.
    client.get(&["XDEL", "orders", &gone[2]]);
    let mut source = broker.open().await;
    assert!(failure(&mut *source).await.starts_with("1 entry was deleted"));
    let lost = client.add("orders", b"d");
    client.get(&["XREADGROUP", "GROUP", "shop", "elsewhere", "STREAMS", "orders", ">"]);
    client.get(&["XCLAIM", "orders", "shop", "elsewhere", "0", &lost, "IDLE", "180000", "JUSTID"]);
    client.get(&["XDEL", "orders", &lost]);
    let mut source = broker.open().await;
    assert!(failure(&mut *source).await.contains(&lost));
    let mut source = broker.open().await;
    client.add("orders", b"e");
    let rest = take(&mut *source, 10).await;
    done(&mut *source, &rest).await;
    assert_eq!((bodies(&rest), client.unsettled("orders", "shop")), (vec!["e".to_owned()], 0));
    assert_eq!(source.wait(Duration::from_millis(50)).await, Ok(false));
}

#[tokio::test]
async fn a_copy_of_a_message_has_its_fields_and_the_reason() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    client.get(&["XADD", "orders", "*", "tenant", "acme", "body", "bad"]);
    let mut source = broker.open().await;
    let message = take(&mut *source, 1).await.remove(0);
    source.forward("dead", &message, "key", "it is\nbad").await.expect("it is published");
    let copy = client.get(&["XRANGE", "dead", "-", "+"]);
    assert_eq!(copy[0][1], json!(["tenant", "acme", "body", "bad", "Cogwork-Reason", "it is bad"]));
}

#[tokio::test]
async fn an_entry_with_too_many_fields_is_too_large_and_stops_no_other() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    let mut large = vec!["XADD".to_owned(), "orders".to_owned(), "*".to_owned()];
    large.extend((0..100_020).map(|number| number.to_string()));
    let large: Vec<&str> = large.iter().map(String::as_str).collect();
    client.get(&large);
    client.add("orders", b"small");
    let mut source = broker.open().await;
    let first = take(&mut *source, 10).await;
    assert_eq!((first.len(), first[0].body.len() > 8 << 20, first[0].redelivered), (2, true, false));
    assert_eq!(&*first[1].body, b"small");
    // They are read again one by one, by the ids of pending entries.
    let mut source = broker.open().await;
    let again = take(&mut *source, 10).await;
    assert_eq!((again.len(), again[0].body.len() > 8 << 20, again[0].redelivered), (2, true, true));
    done(&mut *source, &again).await;
    // The group of a stream that begins with it is created again.
    client.get(&["XGROUP", "DESTROY", "orders", "shop"]);
    let mut source = broker.open().await;
    client.add("orders", b"new");
    let last = take(&mut *source, 10).await.pop().expect("a message");
    assert_eq!(&*last.body, b"new");
}

#[tokio::test]
async fn entries_with_many_fields_come_all_although_one_reply_has_no_room_for_them() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    let mut entry = vec!["XADD".to_owned(), "orders".to_owned(), "*".to_owned()];
    entry.extend((0..2000).map(|number| number.to_string()));
    let entry: Vec<&str> = entry.iter().map(String::as_str).collect();
    for _ in 0..100 {
        client.get(&entry);
    }
    let mut source = broker.open().await;
    let mut got = 0;
    while got < 100 {
        let page = take(&mut *source, 100).await;
        assert!(page.iter().all(|message| message.body.len() < 1 << 20 && !message.redelivered));
        done(&mut *source, &page).await;
        got += page.len();
    }
    assert_eq!((got, client.unsettled("orders", "shop")), (100, 0));
}
