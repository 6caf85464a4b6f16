//! Edits of texts over the API, and of the key `enabled`.

use serde_json::{Value, json};

use crate::support::{Answer, Daemon, MANUAL, daemon};

const JSON: &str = "content-type: application/json\r\n";

async fn post(daemon: &Daemon, path: &str, body: &Value) -> Answer {
    daemon.api("POST", path, JSON, &body.to_string()).await
}

async fn edit(daemon: &Daemon, text: &str, operations: Value) -> Answer {
    let body = json!({"path": "automations/m.yaml", "text": text, "operations": operations});
    post(daemon, "/api/v1/edit", &body).await
}

#[tokio::test]
async fn an_edit_returns_utf16_changes_and_the_diagnostics_of_the_result() {
    let daemon = daemon(&[]).await;
    let text = format!("name: \"😀\" # é\n{MANUAL}");
    let set = json!([{"op": "set", "at": ["steps", 0, "with", "message"], "value": "Hi"}]);
    let answer = edit(&daemon, &text, set).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let changes = answer.json()["changes"].clone();
    let [change] = changes.as_array().unwrap().as_slice() else { panic!("{changes}") };
    let units: Vec<u16> = text.encode_utf16().collect();
    let (from, to) = (change["from"].as_u64().unwrap() as usize, change["to"].as_u64().unwrap() as usize);
    let insert: Vec<u16> = change["insert"].as_str().unwrap().encode_utf16().collect();
    let edited = String::from_utf16(&[&units[..from], &insert, &units[to..]].concat()).unwrap();
    assert_eq!(edited, text.replacen("Hello ${{ inputs.name }}", "Hi", 1));
    assert_eq!(answer.json()["diagnostics"], json!([]));
    let wrong = json!([{"op": "set", "at": ["steps", 0, "actoin"], "value": "x"}]);
    let answer = edit(&daemon, &text, wrong).await.json();
    assert_eq!(answer["diagnostics"][0]["code"], "unknown-key", "{answer}");
}

#[tokio::test]
async fn an_impossible_edit_returns_the_reason() {
    let daemon = daemon(&[]).await;
    let text = "a: &x {b: 1}\nc: *x\n";
    let set = |at: Value| json!([{"op": "set", "at": at, "value": 2}]);
    let shared = edit(&daemon, text, set(json!(["a", "b"]))).await;
    assert_eq!((shared.status, shared.code().as_str()), (422, "edit_unsafe"), "{shared:?}");
    let nowhere = edit(&daemon, text, json!([{"op": "remove", "at": ["steps", 3]}])).await;
    assert_eq!((nowhere.status, nowhere.code().as_str()), (422, "edit_invalid"));
    let unknown = edit(&daemon, text, json!([{"op": "burn", "at": []}])).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (422, "bad_body"));
}

#[tokio::test]
async fn disabling_and_enabling_change_one_key_of_the_file() {
    let text = format!("name: M # mine\n\n{MANUAL}");
    let daemon = daemon(&[("m", &text)]).await;
    let read = daemon.api("GET", "/api/v1/files/automations%2Fm.yaml", "", "").await;
    let etag = read.header("etag").unwrap().to_owned();
    let disabled = post(&daemon, "/api/v1/automations/m/disable", &json!({})).await;
    assert_eq!(disabled.status, 200, "{disabled:?}");
    let shown = daemon.api("GET", "/api/v1/automations/m", "", "").await.json();
    assert_eq!((&shown["state"], &shown["enabled"]), (&json!("disabled"), &json!(false)));
    assert_eq!(shown["source"], text.replace("# mine\n", "# mine\nenabled: false\n"));
    let path = "/api/v1/automations/m/enable";
    let late = daemon.api("POST", path, &format!("{JSON}if-match: {etag}\r\n"), "{}").await;
    assert_eq!((late.status, late.code().as_str()), (412, "file_changed"));
    let etag = disabled.header("etag").unwrap().to_owned();
    let enabled = daemon.api("POST", path, &format!("{JSON}if-match: {etag}\r\n"), "{}").await;
    assert_eq!(enabled.status, 200, "{enabled:?}");
    let again = post(&daemon, path, &json!({})).await;
    assert_eq!((again.status, again.header("etag")), (200, enabled.header("etag")), "nothing to change");
    let none = post(&daemon, "/api/v1/automations/none/enable", &json!({})).await;
    assert_eq!(none.status, 404);
}
