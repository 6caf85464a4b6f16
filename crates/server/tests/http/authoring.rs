//! The requests of editors: values of a recorded execution, new automations for a payload, tests that follow a rename.

use serde_json::{Value, json};

use crate::replays::{post, run};
use crate::support::{Daemon, ECHO, MANUAL, daemon, daemon_with, write};

const STEPS: &str = "trigger: {manual: {}}
inputs: {name: {type: text}}
steps:
  - id: one
    set: {greeting: \"Hello ${{ inputs.name }}\", parts: [1, 2]}
  - id: each
    forEach: vars.parts
    steps:
      - id: inner
        set: {seen: \"${{ item }}\"}
  - id: two
    if: inputs.name == 'nobody'
    set: {shout: \"${{ vars.greeting | upper }}\"}
";

/// The value that the hover shows for the text between the marks `‹` and `›`, of which the second is the place.
async fn value(daemon: &Daemon, text: &str, execution: &str) -> Value {
    let offset = text.find('›').unwrap();
    let clean = text.replace('›', "");
    let offset = clean[..offset].encode_utf16().count() - 1;
    let body = json!({"path": "automations/m.yaml", "text": clean, "offset": offset, "execution": execution});
    let answer = post(daemon, "/api/v1/hover", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["value"].clone()
}

#[tokio::test]
async fn a_hover_shows_an_expressions_value_at_the_start_of_its_step() {
    let daemon = daemon(&[("m", STEPS)]).await;
    let id = run(&daemon, "m", json!({"name": "Ada"})).await;
    let at = |from: &str, to: &str| STEPS.replacen(from, to, 1);
    let input = value(&daemon, &at("inputs.name }}", "inputs.name› }}"), &id).await;
    assert_eq!(
        (&input["json"], &input["step"], &input["cut"]),
        (&json!("\"Ada\""), &json!("one"), &json!(false))
    );
    let item = value(&daemon, &at("${{ item }}", "${{ item› }}"), &id).await;
    assert_eq!((&item["json"], &item["step"]), (&json!("2"), &json!("inner[1]")));
    // The step did not run, and the text reads a result that the version that ran does not read.
    let unread = at("vars.greeting | upper", "steps.one.results.greeting›");
    let unread = value(&daemon, &unread, &id).await;
    assert_eq!((&unread["json"], &unread["step"]), (&json!("\"Hello Ada\""), &Value::Null));
    let wrong = at("inputs.name }}", "inputs.name.first› }}");
    assert!(value(&daemon, &wrong, &id).await["json"].as_str().is_none_or(|json| json == "null"));
    let body = json!({"path": "automations/m.yaml", "text": STEPS, "offset": 0, "execution": "01a204ee"});
    assert_eq!(post(&daemon, "/api/v1/hover", body).await.status, 200, "no expression needs no execution");
    let place = STEPS.find("inputs.name }}").unwrap() + 8;
    let body = json!({"path": "automations/m.yaml", "text": STEPS, "offset": place, "execution": "01a204ee"});
    let unknown = post(&daemon, "/api/v1/hover", body).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_execution"));
}

#[tokio::test]
async fn a_hover_shows_the_value_of_a_member_of_unknown_type() {
    let text = "trigger: {webhook: {verify: none}}\nsteps:\n  - {id: one, set: {total: \"${{ trigger.results.body.data.total› }}\"}}\n";
    let clean = text.replace('›', "");
    let daemon = daemon(&[("m", &clean)]).await;
    let started =
        post(&daemon, "/api/v1/automations/m/run?wait=true", json!({"payload": {"body": {"total": 12}}}))
            .await;
    let id = started.json()["executionId"].as_str().unwrap().to_owned();
    assert_eq!(value(&daemon, text, &id).await["json"], "12");
    let place = clean.find("total }}").unwrap();
    let body = json!({"path": "automations/m.yaml", "text": clean, "offset": place});
    assert_eq!(
        post(&daemon, "/api/v1/hover", body).await.json(),
        json!({}),
        "nothing is known without an execution"
    );
}

#[tokio::test]
async fn a_scaffold_from_a_recorded_or_saved_payload_passes_its_test() {
    let daemon = daemon(&[("echo", ECHO), ("m", MANUAL)]).await;
    let fields = "content-type: application/json\r\nauthorization: Bearer canary\r\n";
    let body = br#"{"id": 7, "kind": "invoice"}"#;
    assert_eq!(daemon.hook("POST", &daemon.path("echo"), fields, body).await.status, 200);
    let listed = daemon.api("GET", "/api/v1/executions", "", "").await.json();
    let id = listed["executions"][0]["id"].as_str().unwrap().to_owned();
    let scaffold = |trigger: &str, from: Value| {
        let body = json!({"name": "Invoices", "trigger": trigger, "from": from});
        let daemon = &daemon;
        async move { post(daemon, "/api/v1/scaffold", body).await }
    };
    let made = scaffold("webhook", json!({"execution": id})).await;
    assert_eq!(made.status, 200, "{made:?}");
    let made = made.json();
    let (text, test) = (made["text"].as_str().unwrap(), made["test"].as_str().unwrap());
    assert!(text.contains("kind: ${{ trigger.results.body.data.kind }}"), "{text}");
    assert!(!test.contains("canary"), "{test}");
    write(daemon.folder.path(), "automations/invoices.yaml", text);
    write(daemon.folder.path(), "automations/invoices.test.yaml", test);
    daemon.engine.reload().await;
    let body = json!({"path": "automations/invoices.yaml", "text": text, "tests": true});
    let tried = post(&daemon, "/api/v1/trials", body).await.json();
    assert_eq!(tried["tests"][0]["result"], "passed", "{tried}\n{test}");

    let saved = json!({"name": "first", "payload": {"body": {"total": 12}}});
    assert_eq!(post(&daemon, "/api/v1/automations/echo/payloads", saved).await.status, 200);
    let made = scaffold("webhook", json!({"automation": "echo", "saved": "first"})).await.json();
    assert!(
        made["text"].as_str().unwrap().contains("total: ${{ trigger.results.body.data.total }}"),
        "{made}"
    );

    for (trigger, from, status, code) in [
        ("schedule", json!({"execution": id}), 422, "bad_scaffold"),
        ("webhook", json!({"execution": "01a204ee"}), 404, "unknown_execution"),
        ("webhook", json!({"automation": "echo", "saved": "second"}), 404, "unknown_payload"),
        ("webhook", json!({"automation": "echo", "capture": 1}), 409, "not_listening"),
        ("webhook", json!({"saved": "first"}), 422, "bad_body"),
    ] {
        let refused = scaffold(trigger, from.clone()).await;
        assert_eq!((refused.status, refused.code().as_str()), (status, code), "{from}: {refused:?}");
    }
}

#[tokio::test]
async fn a_scaffold_of_each_built_in_action_deploys_and_passes_its_test() {
    let daemon = daemon(&[]).await;
    let listed = daemon.api("GET", "/api/v1/connectors", "", "").await.json();
    let names = listed["connectors"].as_array().unwrap().iter();
    let actions: Vec<&str> =
        names.flat_map(|one| one["actions"].as_array().unwrap()).map(|name| name.as_str().unwrap()).collect();
    assert!(actions.len() > 50, "{actions:?}");
    let mut made = Vec::new();
    for action in actions {
        let id = action.to_lowercase().replace('.', "-");
        let body = json!({"name": action, "id": id, "trigger": "manual", "action": action});
        let scaffold = post(&daemon, "/api/v1/scaffold", body).await;
        assert_eq!(scaffold.status, 200, "{action}: {scaffold:?}");
        let scaffold = scaffold.json();
        let connections = scaffold["connections"].as_array().unwrap();
        for file in connections
            .iter()
            .map(|file| (&file["path"], &file["text"]))
            .chain([(&scaffold["path"], &scaffold["text"]), (&scaffold["testPath"], &scaffold["test"])])
        {
            write(daemon.folder.path(), file.0.as_str().unwrap(), file.1.as_str().unwrap());
        }
        if !connections.is_empty() {
            // The next one finds the connection.
            daemon.engine.reload().await;
        }
        made.push(scaffold);
    }
    daemon.engine.reload().await;
    let status = daemon.api("GET", "/api/v1/status", "", "").await.json();
    assert_eq!(status["broken"], 0, "{status}");
    for scaffold in made {
        let body = json!({"path": scaffold["path"], "text": scaffold["text"], "tests": true});
        let tried = post(&daemon, "/api/v1/trials", body).await.json();
        let tests = tried["tests"].as_array().unwrap();
        assert!(
            !tests.is_empty() && tests.iter().all(|test| test["result"] == "passed"),
            "{tried}\n{scaffold}"
        );
    }
    let both = json!({"name": "x", "trigger": "manual", "action": "log.info", "from": {"execution": "01"}});
    for body in [both, json!({"name": "x", "trigger": "manual", "action": "log.nothing"})] {
        let refused = post(&daemon, "/api/v1/scaffold", body).await;
        assert_eq!((refused.status, refused.code().as_str()), (422, "bad_scaffold"), "{refused:?}");
    }
}

#[tokio::test]
async fn renaming_a_step_updates_its_test_file() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let text = "tests:\n  - name: greets # it does\n    inputs: {name: Ada}\n    expect: {steps: {greet: succeeded}}\n";
    let operations = json!([{"op": "renameStep", "from": "greet", "to": "hail"}]);
    let body = json!({"path": "automations/m.test.yaml", "text": text, "operations": operations});
    let answer = post(&daemon, "/api/v1/edit", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let from = text.find("greet: succeeded").unwrap();
    assert_eq!(answer.json()["changes"], json!([{"from": from, "to": from + 5, "insert": "hail"}]));
}

#[tokio::test]
async fn a_test_is_written_only_over_its_expected_version_and_never_read_only() {
    let put = async |daemon: &Daemon, condition: &str| {
        let body = json!({"text": "tests: []\n"}).to_string();
        let fields = format!("content-type: application/json\r\n{condition}\r\n");
        daemon.api("PUT", "/api/v1/files/automations%2Fm.test.yaml", &fields, &body).await
    };
    let daemon = daemon(&[("m", MANUAL)]).await;
    let id = run(&daemon, "m", json!({"name": "Ada"})).await;
    write(
        daemon.folder.path(),
        "automations/m.test.yaml",
        "tests:\n  - name: one\n    inputs: {name: Eve}\n",
    );
    let draft = post(&daemon, "/api/v1/tests/from-execution", json!({"id": id})).await.json();
    let etag = draft["etag"].as_str().unwrap();
    write(daemon.folder.path(), "automations/m.test.yaml", "tests: []\n");
    let late = put(&daemon, &format!("if-match: {etag}")).await;
    assert_eq!((late.status, late.code().as_str()), (412, "file_changed"));
    let late = put(&daemon, "if-none-match: *").await;
    assert_eq!((late.status, late.code().as_str()), (412, "file_changed"));
    let daemon = daemon_with(&[("m", MANUAL)], |options| options.read_only = true).await;
    let refused = put(&daemon, "if-none-match: *").await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "read_only"));
}

#[tokio::test]
async fn versions_and_rotated_addresses_match_the_api_description() {
    let daemon = daemon(&[("echo", ECHO)]).await;
    let versions = daemon.api("GET", "/api/v1/automations/echo/versions", "", "").await.json();
    assert_eq!(versions["versions"][0]["inForce"], true);
    let previous = daemon.path("echo");
    let rotated = post(&daemon, "/api/v1/automations/echo/rotate-token", json!({"address": "live"})).await;
    assert_eq!(rotated.status, 200, "{rotated:?}");
    assert!(rotated.json()["liveUrl"].as_str().unwrap().ends_with(&daemon.path("echo")));
    assert_ne!(daemon.path("echo"), previous);
}

#[tokio::test]
async fn statistics_can_be_filtered_by_automation() {
    let daemon = daemon(&[("m", MANUAL), ("other", MANUAL)]).await;
    for id in ["m", "other", "other"] {
        run(&daemon, id, json!({"name": "Ada"})).await;
    }
    let found = daemon.api("GET", "/api/v1/stats?automation=other", "", "").await.json();
    let found = found["automations"].as_array().unwrap();
    assert_eq!((found.len(), &found[0]["succeeded"]), (1, &json!(2)));
}
