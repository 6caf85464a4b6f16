//! Requests repeated after the daemon was killed, with a known or an unknown response (guarantees G2, G3, G15).

use pretty_assertions::assert_eq;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tests::recorder::Recorder;

use crate::site::{Site, post_step, send};

async fn keyed(site: &Site, id: &str, key: &str, body: &Value) -> RequestBuilder {
    let url = site.url(id).await;
    site.request(Method::POST, &url).header("Idempotency-Key", key).json(body)
}

#[tokio::test]
async fn a_duplicate_of_a_request_before_a_kill_starts_nothing() {
    let hook = "trigger: {webhook: {verify: none, dedup: {by: {json: /event}, window: 1h}}}\nsteps: []\n";
    let mut site = Site::serving(&[("events", hook)]).await;
    let mut firsts = Vec::new();
    for event in ["a", "b"] {
        firsts.push(site.post("events", &json!({"event": event})).await.execution());
    }
    for round in 1..=2_u64 {
        site.kill().await;
        site.start().await;
        for (event, first) in ["a", "b"].iter().zip(&firsts) {
            let again = site.post("events", &json!({"event": event, "try": round})).await;
            assert_eq!((again.execution(), again.header("x-duplicate")), (first.clone(), "true"));
        }
        assert_eq!(site.automation("events").await["refused"], json!({"duplicate": 2}));
    }
    assert_eq!(site.executions_of("events").await.len(), 2);
    let other = site.post("events", &json!({"event": "c"})).await;
    assert!(!firsts.contains(&other.execution()));
}

#[tokio::test]
async fn a_caller_that_repeats_an_unanswered_request_gets_the_response_of_its_execution() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/slow");
    let work = format!(
        "trigger: {{webhook: {{mode: sync, verify: none}}}}\nsteps:\n{}",
        post_step(&recorder, "slow")
    );
    let mut site = Site::serving(&[("work", &work)]).await;
    let body = json!({"order": 17});
    let first = keyed(&site, "work", "order-17", &body).await.send();
    let first = tokio::spawn(first);
    recorder.wait_for("/slow", 1).await.unwrap();
    site.kill().await;
    assert!(first.await.unwrap().is_err(), "it got no answer");
    recorder.release();

    site.start().await;
    let again = send(keyed(&site, "work", "order-17", &body).await).await;
    assert_eq!((again.status, again.header("x-duplicate")), (200, "true"), "{}", again.text);
    let stored = send(keyed(&site, "work", "order-17", &body).await).await;
    assert_eq!(stored.text, again.text);
    assert_eq!(stored.header("x-execution-id"), again.header("x-execution-id"));
    let other = send(keyed(&site, "work", "order-17", &json!({"order": 18})).await).await;
    assert_eq!(other.refusal(), (422, "idempotency_mismatch".to_owned()));
    assert_eq!(site.executions_of("work").await.len(), 1);
    // The step in flight was repeated with the same idempotency key.
    let keys: Vec<_> = recorder.requests().into_iter().map(|request| request.idempotency_key).collect();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
}
