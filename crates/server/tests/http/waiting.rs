//! Waiting executions over the API, signals to them, and the state.

use serde_json::{Value, json};
use server::Error;

use crate::support::{Daemon, daemon};

/// Asks a person and waits for an event at the same time.
const BOTH: &str = r#"name: Both
trigger: {manual: {}}
inputs: {order: {type: text, default: "7"}}
steps:
  - parallel:
      one:
        - id: ask
          waitFor:
            approval: {message: "Ship order ${{ inputs.order }}?", form: {reason: {type: text, required: true}}}
          timeout: 1h
      two:
        - id: paid
          waitFor: {event: "paid-${{ inputs.order }}"}
"#;

/// One execution at a time, each with a wait.
const ONE_AT_A_TIME: &str = r#"trigger: {manual: {}}
concurrency: {limit: 1}
steps:
  - {id: rest, wait: 1h}
"#;

/// Stores a value.
const KEEPS: &str = r#"trigger: {manual: {}}
steps:
  - {action: state.increment, with: {key: count}}
  - {action: state.set, with: {key: a/b c, value: {x: 1}, scope: shared}}
"#;

async fn run(daemon: &Daemon, id: &str, inputs: Value) -> String {
    let path = format!("/api/v1/automations/{id}/run");
    let accepted: Value = daemon.client().post(&path, &json!({ "inputs": inputs })).await.unwrap();
    accepted["executionId"].as_str().unwrap().to_owned()
}

/// The wait reasons of an execution, once they match.
async fn waiting(daemon: &Daemon, id: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let mut notices = daemon.engine.subscribe();
    loop {
        let found: Value = daemon.client().get(&format!("/api/v1/executions/{id}")).await.unwrap();
        if fits(&found) {
            return found;
        }
        notices.recv().await.unwrap();
    }
}

fn pauses(count: usize) -> impl Fn(&Value) -> bool {
    move |found| {
        let pauses = found["waiting"]["pauses"].as_array().map_or(0, Vec::len);
        found["status"] == "waiting" && pauses == count
    }
}

async fn signal(daemon: &Daemon, id: &str, body: Value) -> Result<Value, Error> {
    daemon.client().post(&format!("/api/v1/executions/{id}/signal"), &body).await
}

fn refused(result: Result<Value, Error>) -> (u16, String) {
    match result {
        Err(Error::Refused(problem)) => (problem.status, problem.code.clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_waiting_execution_shows_its_pauses_and_its_resume_address() {
    let daemon = daemon(&[("both", BOTH)]).await;
    let id = run(&daemon, "both", json!({})).await;
    let found = waiting(&daemon, &id, pauses(2)).await;
    let [ask, paid] = &found["waiting"]["pauses"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&ask["step"], &ask["automationName"]), (&json!("ask"), &json!("Both")));
    let on = json!({"kind": "approval", "message": "Ship order 7?", "options": ["approve", "reject"]});
    assert_eq!((&ask["on"], &ask["form"][0]["name"]), (&on, &json!("reason")));
    assert!(ask["until"].is_string() && paid["until"].is_null(), "{found}");
    assert_eq!(paid["on"], json!({"kind": "event", "name": "paid-7"}));
    let url = daemon.engine.context().resume_url(id.parse().unwrap());
    assert_eq!(found["waiting"]["resumeUrl"], url);
    assert!(found["steps"].as_array().unwrap().iter().any(|step| step["on"]["kind"] == "approval"));

    let listed: Value = daemon.client().get("/api/v1/executions?status=waiting").await.unwrap();
    let row = &listed["executions"][0]["pauses"];
    assert_eq!((&row["count"], &row["first"][0]["kind"]), (&json!(2), &json!("approval")));
    assert_eq!(row["first"][1], json!({"step": "paid", "kind": "event", "event": "paid-7"}));
}

#[tokio::test]
async fn answers_and_events_are_routed_to_the_named_step() {
    let daemon = daemon(&[("both", BOTH)]).await;
    let id = run(&daemon, "both", json!({})).await;
    waiting(&daemon, &id, pauses(2)).await;
    for (body, expected) in [
        (json!({"option": "perhaps", "form": {"reason": "x"}}), (422, "bad_answer")),
        (json!({"option": "approve"}), (422, "bad_answer")),
        (json!({"option": "approve", "data": 1}), (422, "bad_body")),
        (json!({"form": {}}), (422, "bad_body")),
        (json!({"opton": "approve"}), (422, "bad_body")),
        (json!({"step": "paid", "option": "approve", "form": {"reason": "x"}}), (409, "not_waiting")),
        (json!({"step": "ask", "data": 1}), (409, "not_waiting")),
    ] {
        let (status, code) = refused(signal(&daemon, &id, body.clone()).await);
        assert_eq!((status, code.as_str()), expected, "{body}");
    }
    // Each of them is routed to the only step that waits for its kind.
    let answer = json!({"option": "approve", "form": {"reason": "x"}, "by": "Ada"});
    assert_eq!(signal(&daemon, &id, answer.clone()).await.unwrap(), json!({"status": "answered"}));
    assert_eq!(
        signal(&daemon, &id, json!({"data": {"amount": 3}})).await.unwrap(),
        json!({"status": "delivered"})
    );
    daemon.engine.admission().wait(id.parse().unwrap()).await.unwrap();
    let found: Value = daemon.client().get(&format!("/api/v1/executions/{id}")).await.unwrap();
    let result = json!({"one": {"option": "approve", "form": {"reason": "x"}}, "two": {"amount": 3}});
    assert_eq!((&found["outcome"]["result"], &found["waiting"]), (&result, &Value::Null));
    let step = found["steps"].as_array().unwrap().iter().find(|step| step["step"] == "ask").unwrap();
    assert_eq!(step["signals"][0]["by"], "Ada");
    assert_eq!(refused(signal(&daemon, &id, answer).await), (409, "not_waiting".to_owned()));
    let unknown = "0190a0a0-0000-7000-8000-000000000000";
    for id in [unknown, "x"] {
        assert_eq!(refused(signal(&daemon, id, json!({})).await), (404, "unknown_execution".to_owned()));
    }
}

#[tokio::test]
async fn an_event_is_delivered_to_every_waiting_execution() {
    let daemon = daemon(&[("both", BOTH)]).await;
    let mut ids = Vec::new();
    for order in ["1", "1", "2"] {
        let id = run(&daemon, "both", json!({"order": order})).await;
        waiting(&daemon, &id, pauses(2)).await;
        ids.push(id);
    }
    let emit = async |body: Value| daemon.client().post::<Value>("/api/v1/events", &body).await;
    assert_eq!(
        emit(json!({"name": "paid-1", "data": 9, "id": "nine"})).await.unwrap(),
        json!({"delivered": 2, "kept": true, "id": "nine", "starts": [], "repeated": false})
    );
    let none = emit(json!({"name": "paid-3"})).await.unwrap();
    assert_eq!((&none["delivered"], &none["kept"]), (&json!(0), &json!(true)));
    for (name, code) in [("", "bad_event"), (&*"x".repeat(201), "bad_event")] {
        assert_eq!(refused(emit(json!({"name": name})).await), (422, code.to_owned()));
        assert_eq!(refused(emit(json!({"name": "paid-1", "id": name})).await), (422, code.to_owned()));
    }
    assert_eq!(refused(emit(json!({"data": 1})).await), (422, "bad_body".to_owned()));
    let headers = "content-type: application/json\r\nidempotency-key: bestellung-ä\r\n";
    let unreadable = daemon.api("POST", "/api/v1/events", headers, r#"{"name": "paid-1"}"#).await;
    assert_eq!((unreadable.status, unreadable.json()["code"].as_str()), (422, Some("bad_header")));
    for id in &ids[..2] {
        waiting(&daemon, id, pauses(1)).await;
    }
    waiting(&daemon, &ids[2], pauses(2)).await;
}

#[tokio::test]
async fn a_queued_execution_names_the_permit_holders() {
    let daemon = daemon(&[("one", ONE_AT_A_TIME)]).await;
    let first = run(&daemon, "one", json!({})).await;
    waiting(&daemon, &first, pauses(1)).await;
    let mut others = Vec::new();
    for _ in 0..2 {
        let id = run(&daemon, "one", json!({})).await;
        let found = waiting(&daemon, &id, |found| found["waiting"]["turn"].is_object()).await;
        assert_eq!(found["waiting"]["turn"]["holders"], json!([first]));
        assert_eq!(found["waiting"]["turn"]["ahead"], json!(others.len()));
        assert!(found["waiting"]["resumeUrl"].is_null());
        others.push(id);
    }
}

#[tokio::test]
async fn state_values_are_listed_read_written_and_deleted() {
    let daemon = daemon(&[("keeps", KEEPS)]).await;
    let id = run(&daemon, "keeps", json!({})).await;
    daemon.engine.admission().wait(id.parse().unwrap()).await.unwrap();
    let client = daemon.client();
    let get = async |path: &str| client.get::<Value>(&format!("/api/v1/state/{path}")).await;
    assert_eq!(get("keeps").await.unwrap(), json!({"values": [{"key": "count", "value": 1}]}));
    assert_eq!(get("shared/a%2Fb%20c").await.unwrap(), json!({"key": "a/b c", "value": {"x": 1}}));
    assert_eq!(get("keeps?test=true").await.unwrap(), json!({"values": []}));

    let put = json!({"value": 41, "ttl": "1d"});
    let kept: Value = client.put("/api/v1/state/keeps/count", &put).await.unwrap();
    assert!(kept["expiresAt"].is_string() && kept["value"] == 41, "{kept}");
    let id = run(&daemon, "keeps", json!({})).await;
    daemon.engine.admission().wait(id.parse().unwrap()).await.unwrap();
    assert_eq!(get("keeps/count").await.unwrap()["value"], 42);

    for key in ["a", "b"] {
        client.put::<Value>(&format!("/api/v1/state/keeps/{key}"), &json!({"value": key})).await.unwrap();
    }
    let (mut keys, mut path) = (Vec::new(), "keeps?limit=2".to_owned());
    loop {
        let page = get(&path).await.unwrap();
        keys.extend(page["values"].as_array().unwrap().iter().map(|value| value["key"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("keeps?limit=2&after={next}");
    }
    assert_eq!(keys, [json!("a"), json!("b"), json!("count")]);

    let path = "/api/v1/state/keeps/count";
    assert_eq!(client.delete::<Value>(path).await.unwrap(), json!({"deleted": true}));
    assert_eq!(client.delete::<Value>(path).await.unwrap(), json!({"deleted": false}));
    assert_eq!(refused(get("keeps/count").await), (404, "unknown_state".to_owned()));
}

#[tokio::test]
async fn an_invalid_state_value_is_rejected_with_an_explanation() {
    let daemon = daemon(&[]).await;
    let client = daemon.client();
    let put =
        async |path: &str, body: Value| client.put::<Value>(&format!("/api/v1/state/{path}"), &body).await;
    assert_eq!(refused(put("A%20b/x", json!({"value": 1})).await), (404, "unknown_scope".to_owned()));
    assert_eq!(
        refused(put("shared/x", json!({"value": 1, "ttl": "soon"})).await),
        (422, "bad_body".to_owned())
    );
    assert_eq!(refused(put("shared/x", json!({"ttl": "1d"})).await), (422, "bad_body".to_owned()));
    let long = format!("shared/{}", "k".repeat(513));
    assert_eq!(refused(put(&long, json!({"value": 1})).await), (422, "bad_input".to_owned()));
    // An automation named like the shared scope has a scope name of its own.
    put("automation:shared/x", json!({"value": 1})).await.unwrap();
    let shared: Value = client.get("/api/v1/state/shared").await.unwrap();
    assert_eq!(shared, json!({"values": []}));
    let query = client.get::<Value>("/api/v1/state/shared?limit=0").await;
    assert_eq!(refused(query), (400, "bad_query".to_owned()));
}

#[tokio::test]
async fn an_execution_waiting_for_a_permit_is_shown_as_queued() {
    let daemon = daemon(&[("one", ONE_AT_A_TIME)]).await;
    let first = run(&daemon, "one", json!({})).await;
    waiting(&daemon, &first, pauses(1)).await;
    let second = run(&daemon, "one", json!({})).await;
    let found = waiting(&daemon, &second, |found| found["waiting"]["turn"].is_object()).await;
    assert_eq!(found["status"], "queued");
    let list = async |query: &str| {
        let page: Value = daemon.client().get(&format!("/api/v1/executions?{query}")).await.unwrap();
        let rows = page["executions"].as_array().unwrap().iter();
        rows.map(|row| (row["id"].clone(), row["status"].clone())).collect::<Vec<_>>()
    };
    let [queued, pausing] = [(json!(second), json!("queued")), (json!(first), json!("waiting"))];
    assert_eq!(list("").await, [queued.clone(), pausing.clone()]);
    assert_eq!(list("status=queued").await, std::slice::from_ref(&queued));
    assert_eq!(list("status=running").await, []);
    assert_eq!(list("status=queued,waiting&limit=1").await, [queued]);
}

#[tokio::test]
async fn the_latest_answers_name_sender_and_question() {
    let daemon = daemon(&[("both", BOTH)]).await;
    let id = run(&daemon, "both", json!({"order": "8"})).await;
    waiting(&daemon, &id, pauses(2)).await;
    let answers = async || daemon.client().get::<Value>("/api/v1/answers").await.unwrap();
    assert_eq!(answers().await, json!({"answers": []}));
    let refused_one = json!({"option": "perhaps", "form": {"reason": "x"}});
    signal(&daemon, &id, refused_one).await.unwrap_err();
    let answer = json!({"option": "reject", "form": {"reason": "x"}, "by": "Ada"});
    signal(&daemon, &id, answer).await.unwrap();
    signal(&daemon, &id, json!({"data": 1})).await.unwrap();
    let found = answers().await;
    let [one] = &found["answers"].as_array().unwrap()[..] else { panic!("{found}") };
    let shown = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        (shown("message"), shown("option"), shown("by")),
        ("Ship order 8?".into(), "reject".into(), "Ada".into())
    );
    assert_eq!(
        (shown("execution"), shown("step"), shown("automationName")),
        (id, "ask".into(), "Both".into())
    );
}
