//! Own events: their senders, what they start, kept ones, and executions that they started.

use serde_json::{Value, json};

use crate::support::{Daemon, daemon};

const JSON: &str = "content-type: application/json\r\n";
/// Sends an event for each item.
const SENDER: &str = "trigger: {manual: {}}
inputs: {items: {type: list, required: true}}
steps:
  - id: each
    forEach: inputs.items
    steps:
      - {id: send, action: events.emit, with: {name: order.paid, data: {order: \"${{ item }}\"}}}
";
const SHIP: &str = "trigger: {event: order.paid, data: {order: {type: text, required: true}, amount: number}}
steps: [{set: {x: 1}}]
";
const BOOK: &str = "triggers:
  - {id: paid, event: order.paid, data: {order: text, amount: text, kind: {options: [a, b], description: The kind}}, if: event.data.order != '2'}
  - {id: byHand, manual: {}}
steps: [{set: {x: 1}}]
";
const WAITS: &str = "trigger: {manual: {}}
steps: [{waitFor: {event: order.paid}, timeout: 1h}]
";

async fn get(daemon: &Daemon, path: &str) -> Value {
    let answer = daemon.api("GET", path, "", "").await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

/// Reads a list until it has this number of executions.
async fn started(daemon: &Daemon, query: &str, count: usize) -> Vec<Value> {
    for _ in 0..3000 {
        let found = get(daemon, &format!("/api/v1/executions?{query}")).await["executions"].clone();
        let found = found.as_array().unwrap().clone();
        let ended = found.iter().all(|one| one["status"] == "succeeded");
        if found.len() == count && ended {
            return found;
        }
        tokio::task::yield_now().await;
    }
    panic!("{query}: there are no {count} executions");
}

fn ids(executions: &[Value]) -> Vec<&str> {
    executions.iter().map(|one| one["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn own_events_have_their_consumers_data_and_kept_events() {
    let automations = [("sender", SENDER), ("ship", SHIP), ("book", BOOK), ("waits", WAITS)];
    let daemon = daemon(&automations).await;
    let listed = get(&daemon, "/api/v1/own-events").await["events"].clone();
    let text = json!({"kind": "text"});
    let event = json!({
        "name": "order.paid",
        "senders": ["sender"],
        "waiters": ["waits"],
        "starts": ["book/paid", "ship"],
        // Both declare an amount, with different types.
        "data": [
            {"name": "order", "type": text, "required": true},
            {"name": "amount", "type": {"kind": "any"}, "required": false},
            {"name": "kind", "type": {"kind": "choice", "options": ["a", "b"]}, "required": false, "description": "The kind"},
        ],
        "undelivered": 0,
    });
    assert_eq!(listed, json!([event]));
    for order in 0..21 {
        let body = json!({"name": "order.paid", "data": {"order": order.to_string()}, "id": format!("e{order}"), "by": "me"});
        assert_eq!(daemon.api("POST", "/api/v1/events", JSON, &body.to_string()).await.status, 200);
    }
    let first = get(&daemon, "/api/v1/own-events/kept?name=order.paid").await;
    assert_eq!(first["events"].as_array().map(Vec::len), Some(20));
    let one = &first["events"][0];
    assert_eq!((&one["id"], &one["by"], &one["data"]), (&json!("e0"), &json!("me"), &json!({"order": "0"})));
    assert!(one["sentAt"].as_str() < one["until"].as_str(), "{one}");
    let next = first["next"].as_str().unwrap();
    let rest = get(&daemon, &format!("/api/v1/own-events/kept?name=order.paid&after={next}")).await;
    assert_eq!((&rest["events"][0]["id"], rest.get("next")), (&json!("e20"), None), "{rest}");
    assert_eq!(get(&daemon, "/api/v1/own-events/kept?name=other").await, json!({"events": []}));
    // Of the second one `book` starts nothing.
    let found = started(&daemon, "origin=emitted&eventId=e2", 1).await;
    assert_eq!(found[0]["automation"], "ship");
}

#[tokio::test]
async fn executions_that_events_started_are_found_by_sender_and_step() {
    let daemon = daemon(&[("sender", SENDER), ("ship", SHIP), ("book", BOOK)]).await;
    let body = json!({"inputs": {"items": ["1", "2", "3"]}});
    let run: Value = daemon.client().post("/api/v1/automations/sender/run?wait=true", &body).await.unwrap();
    let sender = run["executionId"].as_str().unwrap();
    let all = started(&daemon, &format!("startedBy={sender}&count=true"), 5).await;
    let second = started(&daemon, &format!("startedBy={sender}&startedByStep=send[1]"), 1).await;
    assert_eq!((&second[0]["automation"], &second[0]["origin"]["step"]), (&json!("ship"), &json!("send[1]")));
    let first = get(&daemon, &format!("/api/v1/executions?startedBy={sender}&limit=2")).await;
    let page = format!("startedBy={sender}&cursor={}", first["next"].as_str().unwrap());
    let rest = started(&daemon, &page, 3).await;
    let pages = [first["executions"].as_array().unwrap().clone(), rest].concat();
    assert_eq!(ids(&pages), ids(&all));
    // In both directions.
    let detail = get(&daemon, &format!("/api/v1/executions/{sender}")).await;
    let listed = detail["started"]["executions"].as_array().unwrap();
    assert_eq!((ids(listed), &detail["started"]["total"]["count"]), (ids(&all), &json!(5)));
    assert_eq!(listed[4]["event"], "order.paid");
    let consumer = get(&daemon, &format!("/api/v1/executions/{}", ids(&all)[0])).await;
    assert_eq!((&consumer["origin"]["sender"], consumer.get("started")), (&json!(sender), None));
    for wrong in ["startedBy=x", "startedByStep=send", &format!("startedBy={sender}&replayOf={sender}")] {
        let answer = daemon.api("GET", &format!("/api/v1/executions?{wrong}"), "", "").await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_query"), "{wrong}");
    }
}
