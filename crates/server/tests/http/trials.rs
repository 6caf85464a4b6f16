//! Trials of recorded executions on a text that is not saved, and tests from executions, over the API.

use serde_json::{Value, json};

use crate::replays::{post, run};
use crate::support::{Answer, Daemon, MANUAL, daemon, write};

const FILE: &str = "automations/m.yaml";
const TESTS: &str =
    "tests:\n  - name: greets\n    inputs: {name: Ada}\n    expect: {result: {greeting: Hello Ada}}\n";

async fn try_text(daemon: &Daemon, text: &str, executions: &[&str]) -> Answer {
    let body = json!({"path": FILE, "text": text, "executions": executions, "tests": true});
    post(daemon, "/api/v1/trials", body).await
}

fn refusal(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code())
}

#[tokio::test]
async fn a_trial_compares_executions_runs_tests_and_stores_nothing() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    write(daemon.folder.path(), "automations/m.test.yaml", TESTS);
    let id = run(&daemon, "m", json!({"name": "Ada"})).await;
    let same = try_text(&daemon, MANUAL, &[&id]).await;
    assert_eq!(same.status, 200, "{same:?}");
    let same = same.json();
    assert_eq!(
        (&same["executions"][0]["verdict"], &same["executions"][0]["id"]),
        (&json!("same"), &json!(id))
    );
    assert_eq!(same["tests"], json!([{"name": "greets", "result": "passed"}]));
    let changed =
        try_text(&daemon, &MANUAL.replace("greeting: Hello", "greeting: Goodbye"), &[&id]).await.json();
    let trial = &changed["executions"][0];
    assert_eq!(trial["verdict"], "differs");
    assert_eq!(trial["outcome"]["trial"]["result"], json!({"greeting": "Goodbye Ada"}));
    assert_eq!(trial["steps"][0]["step"], "out");
    let test = &changed["tests"][0];
    let message = "line 4: `result.greeting` is not \"Hello Ada\", found \"Goodbye Ada\"";
    assert_eq!((&test["result"], &test["messages"]), (&json!("failed"), &json!([message])));
    let calls = format!(
        "{MANUAL}  - id: call\n    action: http.request\n    with: {{url: \"https://example.com/\"}}\n"
    );
    let new_call = try_text(&daemon, &calls, &[&id]).await.json();
    let trial = &new_call["executions"][0];
    assert_eq!((&trial["verdict"], &trial["newCall"]["step"]), (&json!("newCall"), &json!("call")));
    assert_eq!(daemon.executions().await, 1);
}

#[tokio::test]
async fn a_trial_skips_executions_of_other_automations() {
    let daemon = daemon(&[("m", MANUAL), ("other", MANUAL)]).await;
    let id = run(&daemon, "other", json!({"name": "Ada"})).await;
    let found = try_text(&daemon, MANUAL, &[&id]).await.json();
    assert_eq!(found["executions"][0]["verdict"], "notRun");
    assert_eq!(found["executions"][0]["reason"], "it is an execution of `other`");
}

#[tokio::test]
async fn an_invalid_trial_is_rejected() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let id = run(&daemon, "m", json!({"name": "Ada"})).await;
    let wrong = try_text(&daemon, &MANUAL.replace("steps:", "stepz:"), &[&id]).await;
    assert_eq!(refusal(&wrong), (422, "bad_input".to_owned()), "{wrong:?}");
    let unknown = try_text(&daemon, MANUAL, &["01a204ee-9cac-7000-99f7-9b490872defa"]).await;
    assert_eq!(refusal(&unknown), (404, "unknown_execution".to_owned()));
    let many = try_text(&daemon, MANUAL, &[id.as_str(); 51]).await;
    assert_eq!(refusal(&many), (422, "bad_input".to_owned()));
    assert!(many.json()["detail"].as_str().unwrap().contains("at most 50"), "{many:?}");
    let path = |path: &str| json!({"path": path, "text": MANUAL, "tests": true});
    for outside in ["../m.yaml", "/etc/m.yaml", "connections/m.yaml", ""] {
        let answer = post(&daemon, "/api/v1/trials", path(outside)).await;
        assert_eq!(refusal(&answer), (422, "bad_input".to_owned()), "{outside}: {answer:?}");
    }
    let key = post(&daemon, "/api/v1/trials", json!({"path": FILE, "text": "", "execution": id})).await;
    assert_eq!(refusal(&key), (422, "bad_body".to_owned()));
}

#[tokio::test]
async fn a_test_from_an_execution_is_returned_with_its_file_and_not_written() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let id = run(&daemon, "m", json!({"name": "Ada"})).await;
    let from = |id: &str, name: Value| {
        post(&daemon, "/api/v1/tests/from-execution", json!({"id": id, "name": name}))
    };
    let draft = from(&id, json!("greets Ada")).await;
    assert_eq!(draft.status, 200, "{draft:?}");
    let draft = draft.json();
    assert_eq!((&draft["path"], &draft["name"]), (&json!("automations/m.test.yaml"), &json!("greets Ada")));
    assert_eq!(draft["before"], Value::Null);
    assert!(draft["text"].as_str().unwrap().contains("Hello Ada"), "{draft}");
    assert!(!daemon.folder.path().join("automations/m.test.yaml").exists());
    assert_eq!(refusal(&from("01a204ee", json!(null)).await), (404, "unknown_execution".to_owned()));
    assert_eq!(refusal(&from(&id, json!("two\nlines")).await), (422, "bad_input".to_owned()));
    let long = "x".repeat(201);
    assert_eq!(refusal(&from(&id, json!(long)).await), (422, "bad_input".to_owned()));
}
