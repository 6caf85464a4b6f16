//! Event streams: what was, what is, and how they end.

use serde_json::{Value, json};
use server::{Error, Events, ServerEvent};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::{Answer, Daemon, Gate, MANUAL, MANUAL_GATED, daemon, rest, write};

async fn start(daemon: &Daemon, inputs: Value) -> String {
    let body = json!({ "inputs": inputs });
    let started: Value = daemon.client().post("/api/v1/automations/m/run", &body).await.unwrap();
    started["executionId"].as_str().unwrap().to_owned()
}

async fn follow(daemon: &Daemon, id: &str) -> Events {
    daemon.client().events(&format!("/api/v1/executions/{id}/events")).await.unwrap()
}

async fn all(mut events: Events) -> Vec<ServerEvent> {
    let mut found = Vec::new();
    while let Some(event) = events.next().await.unwrap() {
        found.push(event);
    }
    found
}

fn data(event: &ServerEvent) -> Value {
    serde_json::from_str(&event.data).unwrap()
}

#[tokio::test]
async fn a_finished_execution_is_streamed_from_the_store() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let id = start(&daemon, json!({"name": "Ada"})).await;
    daemon.engine.runtime().wait(id.parse().unwrap()).await.unwrap();
    let found = all(follow(&daemon, &id).await).await;
    let stored = found.iter().filter(|event| event.name == "event").map(data).collect::<Vec<_>>();
    assert_eq!((&stored[0]["event"], &stored[0]["index"]), (&json!("started"), &json!(0)));
    let indices: Vec<_> = stored.iter().map(|event| event["index"].as_u64().unwrap()).collect();
    assert_eq!(indices, (0..stored.len() as u64).collect::<Vec<_>>());
    let logs: Vec<_> = found.iter().filter(|event| event.name == "log").map(data).collect();
    assert_eq!(logs[0]["message"], "Hello Ada");
    let last = found.last().unwrap();
    assert_eq!((last.name.as_str(), data(last)), ("end", json!({"status": "succeeded"})));
}

#[tokio::test]
async fn an_execution_is_followed_to_its_end() {
    let daemon = daemon(&[("m", MANUAL_GATED)]).await;
    let gate = Gate::new().await;
    let id = start(&daemon, json!({"url": gate.url()})).await;
    let visitor = gate.arrival().await;
    let mut events = follow(&daemon, &id).await;
    let first = events.next().await.unwrap().unwrap();
    assert_eq!(data(&first)["event"], "started");
    visitor.let_through().await;
    let found = all(events).await;
    let stored = found.iter().filter(|event| event.name == "event").map(data);
    let mut seen: Vec<_> = stored.filter_map(|event| event["index"].as_u64()).collect();
    assert_eq!(
        seen.len(),
        {
            seen.dedup();
            seen.len()
        },
        "nothing comes twice"
    );
    assert!(found.iter().map(data).any(|event| event["event"] == "stepFinished" && event["step"] == "call"));
    assert_eq!(found.last().unwrap().name, "end");
}

#[tokio::test]
async fn a_reconnecting_reader_resumes_at_its_last_event() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let id = start(&daemon, json!({"name": "Ada"})).await;
    daemon.engine.runtime().wait(id.parse().unwrap()).await.unwrap();
    let whole = all(follow(&daemon, &id).await).await;
    let path = format!("/api/v1/executions/{id}/events");
    for seen in 0..whole.len() - 1 {
        let last = whole[seen].id.clone().unwrap();
        let rest = daemon.api("GET", &path, &format!("last-event-id: {last}\r\n"), "").await;
        assert_eq!(rest.header("content-type"), Some("text/event-stream"));
        assert_eq!(
            rest.body.matches("event: ").count(),
            whole.len() - 1 - seen,
            "after {last}: {}",
            rest.body
        );
    }
}

#[tokio::test]
async fn changes_are_streamed_as_named_events() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let mut events = daemon.client().events("/api/v1/events").await.unwrap();
    write(daemon.folder.path(), "automations/n.yaml", MANUAL);
    daemon.engine.reload().await;
    let change = events.next().await.unwrap().unwrap();
    assert_eq!((change.name.as_str(), data(&change)), ("catalog", json!({"generation": 2})));
    let id = start(&daemon, json!({"name": "canary"})).await;
    loop {
        let change = events.next().await.unwrap().unwrap();
        assert_eq!(change.name, "execution");
        assert!(!change.data.contains("canary"));
        let change = data(&change);
        assert_eq!((&change["id"], &change["automation"]), (&json!(id), &json!("m")));
        if change["status"] == "succeeded" {
            break;
        }
    }
}

#[tokio::test]
async fn streams_end_on_shutdown() {
    let mut daemon = daemon(&[("m", MANUAL_GATED)]).await;
    let gate = Gate::new().await;
    let id = start(&daemon, json!({"url": gate.url()})).await;
    let _visitor = gate.arrival().await;
    let following = follow(&daemon, &id).await;
    let watching = daemon.client().events("/api/v1/events").await.unwrap();
    let (following, watching, ()) = tokio::join!(all(following), all(watching), daemon.shutdown());
    assert_eq!(following.last().unwrap().name, "closing");
    assert_eq!(watching.last().unwrap().name, "closing");
}

#[tokio::test]
async fn the_number_of_streams_is_bounded() {
    let daemon = daemon(&[]).await;
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(daemon.client().events("/api/v1/events").await.unwrap());
    }
    let refused = daemon.client().events("/api/v1/events").await.unwrap_err();
    assert!(matches!(&refused, Error::Refused(problem) if problem.status == 503), "{refused}");
    let ask = format!(
        "GET /api/v1/events HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
        daemon.admin, daemon.token
    );
    let mut refused = TcpStream::connect(daemon.admin).await.unwrap();
    refused.write_all(ask.as_bytes()).await.unwrap();
    let refused = Answer::parse(&rest(&mut refused).await);
    assert_eq!(
        (refused.status, refused.header("connection")),
        (503, Some("close")),
        "the connection is free again"
    );
    open.clear();
    // A stream whose reader has gone gives its place back as soon as that is noticed.
    while daemon.client().events("/api/v1/events").await.is_err() {}
}
