//! Messages of a queue.

use std::time::Duration;

use connector::{Fate, MessageSource, TakeLimits};
use pretty_assertions::assert_eq;
use serde_json::json;
use value::Value;

use super::broker::Broker;
use crate::support::{PATIENCE, take};

/// The largest body that is kept: one byte more than the largest `maxBody`.
const MAX_BODY: usize = (8 << 20) + 1;

pub(super) async fn messages_come_in_order_and_with_all_that_the_server_knows(broker: &Broker, queue: &str) {
    let mut client = broker.server.client();
    for body in ["one", "two"] {
        client.publish(queue, body.as_bytes(), Some(&format!("id-{body}")));
    }
    let publish = json!({
        "routingKey": queue, "body": {"n": 3}, "headers": {"Tenant": "acme", "try": 2, "deep": {"a": [true, null]}},
        "correlationId": "c-1", "replyTo": "answers", "type": "order", "priority": 3
    });
    broker.call("amqp.publish", publish).await.expect("it is published");
    let mut source = broker.open(queue).await.expect("it opens");
    let messages = take(&mut *source, 10).await;
    let bodies: Vec<&[u8]> = messages.iter().map(|message| &*message.body).collect();
    assert_eq!(bodies, [b"one".as_slice(), b"two", br#"{"n":3}"#]);
    let last = &messages[2];
    assert_eq!((last.source.as_str(), last.key.as_deref()), (queue, Some(queue)));
    assert_eq!(
        Value::from(last.headers.clone()).to_json(),
        r#"{"Tenant":"acme","deep":{"a":[true,null]},"try":2}"#
    );
    assert_eq!(
        Value::from(last.properties.clone()).to_json(),
        r#"{"exchange":"","contentType":"application/json","persistent":true,"priority":3,"correlationId":"c-1","replyTo":"answers","messageId":"execution.step","type":"order"}"#
    );
    assert!(!last.redelivered && last.is_identified, "{last:?}");
    assert_eq!(last.id, format!("{queue}:execution.step"));
    assert_eq!(source.lag().await, Ok(Some(0)));
}

pub(super) async fn a_settled_message_never_comes_again_and_any_other_does(broker: &Broker, queue: &str) {
    let mut client = broker.server.client();
    for body in ["done", "later", "left"] {
        client.publish(queue, body.as_bytes(), Some(body));
    }
    let mut source = broker.open(queue).await.expect("it opens");
    let messages = take(&mut *source, 10).await;
    let fates = vec![(messages[0].token, Fate::Done), (messages[1].token, Fate::Later(Duration::ZERO))];
    source.settle(fates).await.expect("they are settled");
    let again = take(&mut *source, 10).await;
    assert_eq!((again.len(), &again[0].id, again[0].redelivered), (1, &messages[1].id, true));
    source.settle(vec![(again[0].token, Fate::Done)]).await.expect("it is settled");
    drop(source);
    let mut source = broker.open(queue).await.expect("it opens");
    let left = take(&mut *source, 10).await;
    assert_eq!((left.len(), &*left[0].body), (1, b"left".as_slice()));
}

pub(super) async fn a_message_comes_again_when_its_time_has_come_and_others_go_on(
    broker: &Broker,
    queue: &str,
) {
    let mut client = broker.server.client();
    let count = 600;
    for number in 0..count {
        client.publish(queue, number.to_string().as_bytes(), Some(&number.to_string()));
    }
    let mut source = broker.open(queue).await.expect("it opens");
    // All come, although each of them is to come again much later, and a consumer gets at most 200 at one time.
    let (mut came, mut first) = (0, None);
    while came < count {
        let messages = take(&mut *source, 100).await;
        came += messages.len();
        first.get_or_insert(messages[0].id.clone());
        let pause = if came < 150 { Duration::from_millis(300) } else { Duration::from_secs(600) };
        source
            .settle(messages.iter().map(|message| (message.token, Fate::Later(pause))).collect())
            .await
            .expect("they wait");
    }
    let again = loop {
        if source.wait(PATIENCE).await.expect("it waits") {
            break take(&mut *source, 1).await;
        }
    };
    assert_eq!(Some(&again[0].id), first.as_ref());
}

pub(super) async fn one_request_takes_no_more_messages_and_bytes_than_it_may(broker: &Broker, queue: &str) {
    let mut client = broker.server.client();
    for _ in 0..5 {
        client.publish(queue, &[b'x'; 1000], None);
    }
    client.publish(queue, &[b'x'; 5000], None);
    let mut source = broker.open(queue).await.expect("it opens");
    assert_eq!(take(&mut *source, 2).await.len(), 2);
    let limits = TakeLimits { messages: 10, bytes: 2500, fill: Duration::from_millis(200) };
    let mut sizes = Vec::new();
    for _ in 0..3 {
        assert!(source.wait(PATIENCE).await.expect("it waits"));
        sizes.push(source.take(limits).await.expect("they are taken").len());
    }
    assert_eq!(sizes, [2, 1, 1], "a message above the limit comes alone");
}

/// Takes and settles messages until `count` have come. Returns the bytes of their bodies.
async fn take_all(source: &mut dyn MessageSource, count: usize) -> usize {
    let (mut came, mut bytes) = (0, 0);
    while came < count {
        let messages = take(source, 10).await;
        came += messages.len();
        bytes += messages.iter().map(|message| message.body.len()).sum::<usize>();
        let done = messages.iter().map(|message| (message.token, Fate::Done)).collect();
        source.settle(done).await.expect("they are settled");
    }
    bytes
}

pub(super) async fn messages_above_the_room_for_them_all_come(broker: &Broker, queue: &str) {
    let mut client = broker.server.client();
    let body = vec![b'x'; 1 << 20];
    for number in 0..30 {
        client.publish(queue, &body, Some(&number.to_string()));
    }
    let mut source = broker.open(queue).await.expect("it opens");
    assert_eq!(take_all(&mut *source, 30).await, 30 << 20);
    drop(source);
    assert_eq!(client.count(queue), 0);
}

pub(super) async fn a_body_above_every_limit_is_cut_and_never_copied(broker: &Broker, queue: &str) {
    let mut client = broker.server.client();
    client.publish(queue, &vec![b'x'; 9 << 20], Some("large"));
    let mut source = broker.open(queue).await.expect("it opens");
    let message = take(&mut *source, 1).await.remove(0);
    assert_eq!(message.body.len(), MAX_BODY);
    let error = source.forward(queue, &message, "key", "too large").await.expect_err("only a part is kept");
    assert_eq!(error.message, "it has 9437184 bytes, of which only the first are kept");
}

pub(super) async fn the_identity_is_the_message_id_or_that_of_the_content(broker: &Broker, queue: &str) {
    let mut client = broker.server.client();
    client.publish(queue, b"a", Some("id"));
    client.publish(queue, b"b", Some("id"));
    client.publish(queue, b"a", None);
    client.publish(queue, b"a", None);
    client.publish(queue, b"b", None);
    let mut source = broker.open(queue).await.expect("it opens");
    let messages = take(&mut *source, 10).await;
    let is_identified: Vec<bool> = messages.iter().map(|message| message.is_identified).collect();
    assert_eq!(is_identified, [true, true, false, false, false]);
    assert_eq!(messages[0].id, messages[1].id);
    assert_eq!(messages[2].id, messages[3].id);
    assert_ne!(messages[2].id, messages[4].id);
}

pub(super) async fn properties_that_cannot_be_read_stop_no_message(broker: &Broker, queue: &str) {
    let mut client = broker.server.client();
    // A content type that is not UTF-8, and headers of 20 levels.
    client.publish_raw(queue, b"text", &[&(1_u16 << 15).to_be_bytes()[..], b"\x02\xff\xfe"].concat());
    let deep = (0..20).fold(Vec::new(), |inner: Vec<u8>, _| {
        let size = u32::try_from(inner.len()).expect("a size").to_be_bytes();
        [b"\x01aF", &size[..], &inner].concat()
    });
    let size = u32::try_from(deep.len()).expect("a size").to_be_bytes();
    client.publish_raw(queue, b"deep", &[&(1_u16 << 13).to_be_bytes()[..], &size, &deep].concat());
    client.publish(queue, b"good", None);
    let mut source = broker.open(queue).await.expect("it opens");
    let messages = take(&mut *source, 10).await;
    let bodies: Vec<&[u8]> = messages.iter().map(|message| &*message.body).collect();
    assert_eq!(bodies, [b"text".as_slice(), b"deep", b"good"]);
    assert_eq!(messages[0].properties.get("contentType"), Some(&Value::from("\u{fffd}\u{fffd}")));
    assert_eq!(messages[1].properties.get("problem"), Some(&Value::from("a table has more than 16 levels")));
}

pub(super) async fn several_consumers_share_a_queue(broker: &Broker, queue: &str) {
    let mut client = broker.server.client();
    let (mut one, mut other) =
        (broker.open(queue).await.expect("it opens"), broker.open(queue).await.expect("it opens"));
    for number in 0..10 {
        client.publish(queue, number.to_string().as_bytes(), None);
    }
    let mut bodies = Vec::new();
    for source in [&mut one, &mut other] {
        bodies.extend(take(&mut **source, 10).await.into_iter().map(|message| message.body));
    }
    bodies.sort();
    let expected: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    assert_eq!(bodies, expected);
}

pub(super) async fn a_copy_of_a_message_is_published_with_the_reason(broker: &Broker, queue: &str) {
    let mut client = broker.server.client();
    let dead = format!("{queue}.dead");
    let publish = json!({"routingKey": queue, "body": "bad", "headers": {"Tenant": "acme"}});
    broker.call_as("amqp.publish", publish, "id-1").await.expect("it is published");
    let mut source = broker.open(queue).await.expect("it opens");
    let message = take(&mut *source, 1).await.remove(0);
    let error = source.forward(&dead, &message, "key", "bad").await.expect_err("there is no such queue");
    assert!(error.message.contains(&format!("has no queue `{dead}`; create it")), "{error:?}");
    client.create_queue(&dead);
    source.forward(&dead, &message, "key", "it is\nbad").await.expect("it is published");
    let copy = client.get(&dead).expect("a copy");
    let properties = String::from_utf8_lossy(&copy.properties).into_owned();
    assert_eq!(copy.body, b"bad");
    for part in ["Cogwork-Reason", "it is bad", "Tenant", "acme", "id-1", "text/plain"] {
        assert!(properties.contains(part), "{part}: {properties}");
    }
}

pub(super) async fn a_missing_queue_is_an_error_that_names_it(broker: &Broker, queue: &str) {
    let missing = format!("{queue}.missing");
    let error = broker.open(&missing).await.err().expect("there is no such queue");
    assert_eq!(error.kind.to_string(), "response");
    assert_eq!(error.code.as_deref(), Some("404"));
    let expected = format!(
        "the queue `{missing}` cannot be read: the AMQP server says: NOT_FOUND - no queue '{missing}'"
    );
    assert!(error.message.starts_with(&expected), "{error:?}");
}

pub(super) async fn a_deleted_queue_is_an_error_of_the_source(broker: &Broker, queue: &str) {
    let mut source = broker.open(queue).await.expect("it opens");
    broker.server.client().delete_queue(queue);
    let error = source.wait(PATIENCE).await.expect_err("it is deleted");
    assert!(error.message.contains("has ended the consumer: its queue was deleted"), "{error:?}");
}
