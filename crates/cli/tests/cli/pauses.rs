//! Waiting executions on the command line: `run`, `executions`, `events`, `state`.

#![cfg(unix)]

use serde_json::json;

use crate::daemon::Daemon;
use crate::support::Project;

/// Asks, and is undone when the answer is no.
const ASK: &str = r#"name: Publish
trigger: {manual: {}}
steps:
  - id: draft
    set: {title: Q3}
    undo:
      - id: drop
        action: log.info
        with: {message: dropped}
  - id: ask
    waitFor:
      approval:
        message: Publish it?
        form: {reason: {type: text, required: true}, copies: {type: integer, default: 2}}
    timeout: 2h
  - if: steps.ask.results.option == 'reject'
    then:
      - fail: not this time
outputs: ${{ steps.ask.results.form }}
"#;

/// Waits for an event in a loop that it leaves.
const EVENT: &str = r#"trigger: {manual: {}}
steps:
  - id: poll
    repeat: {max: 3}
    steps:
      - id: paid
        waitFor: {event: orderPaid}
      - id: enough
        if: steps.paid.results.amount > 10
        then:
          - id: leave
            break: true
"#;

/// Keeps a number.
const KEEPS: &str = "trigger: {manual: {}}\nsteps: [{action: state.increment, with: {key: count}}]\n";

fn project() -> Project {
    let project = Project::with(&[
        ("automations/ask.yaml", ASK),
        ("automations/event.yaml", EVENT),
        ("automations/keeps.yaml", KEEPS),
    ]);
    // No port for resume addresses: the tests run side by side.
    project.write("cogwork.yaml", "hooks: 127.0.0.1:0\n");
    project
}

/// Waits until the newest execution pauses in so many steps, and gives what is told of it.
fn waits(project: &Project, id: &str, pauses: usize) -> serde_json::Value {
    for _ in 0..600 {
        let shown = project.cogwork(&["executions", "show", id, "--json"]).exits(0).json();
        let found = shown["waiting"]["pauses"].as_array().map_or(0, Vec::len);
        if shown["status"] == "waiting" && found == pauses {
            return shown;
        }
    }
    panic!("`{id}` does not pause");
}

/// Waits until an execution has come to its end.
fn ends(project: &Project, id: &str) {
    for _ in 0..600 {
        let shown = project.cogwork(&["executions", "show", id, "--json"]).exits(0).json();
        if !shown["outcome"].is_null() {
            return;
        }
    }
    panic!("`{id}` does not end");
}

#[test]
fn a_preset_answer_resumes_an_approval_or_event_wait() {
    let project = project();
    let answer = r#"ask={"option": "approve", "form": {"reason": "checked"}}"#;
    let ran = project.cogwork(&["run", "ask", "--answer", answer]).exits(0);
    assert_eq!(ran.json(), json!({"reason": "checked", "copies": 2}));
    let data = ["run", "event", "--answer", r#"paid={"amount": 11}"#];
    project.cogwork(&data).exits(0);
}

#[test]
fn an_answer_that_does_not_match_the_form_is_wrong_usage() {
    let project = project();
    project.cogwork(&["run", "ask", "--answer", "ask"]).exits(2).says("step=answer");
    project.cogwork(&["run", "ask", "--answer", "ask=perhaps"]).exits(2).says("approve, reject");
    project.cogwork(&["run", "ask", "--answer", "ask=approve"]).exits(2).says("`reason` is required");
    project.cogwork(&["run", "event", "--answer", "paid=paid"]).exits(2).says("JSON");
    // A cancelled execution does not wait for ever.
    let listed = project.cogwork(&["executions", "list", "--status", "waiting", "--json"]).exits(0).json();
    assert_eq!(listed, json!({"executions": []}));
    let whole = r#"ask={"option": "approve", "form": {"reason": "x"}}"#;
    let ran = project.cogwork(&["run", "ask", "--answer", whole, "--answer", "other=1"]).exits(0);
    ran.says("no such step asked for one");
}

#[test]
fn watch_prints_a_pause_and_its_answer() {
    let project = project();
    let answer = r#"ask={"option": "reject", "form": {"reason": "x"}}"#;
    let ran = project.cogwork(&["run", "ask", "--watch", "--answer", answer]).exits(1);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    for start in
        ["◷ ask  waits for an answer until ", "← ask  an answer by the command line", "✓ drop  ", "error: "]
    {
        assert!(lines.iter().any(|line| line.starts_with(start)), "`{start}` in\n{}", ran.stderr);
    }
}

#[test]
fn a_waiting_execution_shows_its_question_and_accepts_the_answer() {
    let project = project();
    let daemon = Daemon::start(&project, &[], "manual");
    let id = daemon.run(&project, "ask");
    let shown = waits(&project, &id, 1);
    let url = shown["waiting"]["resumeUrl"].as_str().expect("an address").to_owned();
    let text = project.cogwork(&["executions", "show", &id]).exits(0).stdout;
    for part in ["an answer at `ask` since ", "left)", "Publish it? [approve, reject]", &url, "◷ ask"] {
        assert!(text.contains(part), "`{part}` in\n{text}");
    }
    let listed = project.cogwork(&["executions", "list", "--status", "waiting"]).exits(0).stdout;
    assert!(listed.contains("waits for an answer at `ask` until "), "{listed}");
    let row = project.cogwork(&["executions", "list", "--json"]).exits(0).json();
    assert_eq!(row["executions"][0]["pauses"]["first"][0]["kind"], "approval");

    let signal = |arguments: &[&str]| {
        let all: Vec<&str> = ["executions", "signal", &id].iter().chain(arguments).copied().collect();
        project.cogwork(&all)
    };
    signal(&[]).exits(2).says("--option");
    signal(&["--option", "reject", "--form", "reason"]).exits(2).says("name=value");
    signal(&["--option", "perhaps", "--form", "reason=x"]).exits(1).says("approve, reject");
    signal(&["--option", "reject", "--form", "copies=many", "--form", "reason=x"])
        .exits(1)
        .says("whole number");
    signal(&["--option", "reject", "--form", "copies=007", "--form", "reason=x"]).exits(1);
    let ended = ["--option", "reject", "--form", "copies=7", "--form", "reason=007"];
    signal(&ended).exits(0).says("answered");
    signal(&ended).exits(1).says("may have been answered already");
    assert_eq!(daemon.stop().0, Some(0));

    // Signals, undone steps and the answer are shown without a daemon too.
    let text = project.cogwork(&["executions", "show", "latest"]).exits(0).stdout;
    for part in ["← answer by the command line", "undo", "✓ drop", r#""reason":"007","copies":7"#] {
        assert!(text.contains(part), "`{part}` in\n{text}");
    }
}

#[test]
fn waiting_steps_are_read_from_the_store_without_a_daemon() {
    let project = project();
    let daemon = Daemon::start(&project, &[], "manual");
    let id = daemon.run(&project, "ask");
    waits(&project, &id, 1);
    assert_eq!(daemon.stop().0, Some(0));
    let shown = project.cogwork(&["executions", "show", &id, "--json"]).exits(0).json();
    let pause = &shown["waiting"]["pauses"][0];
    assert_eq!((&pause["step"], &pause["on"]["message"]), (&"ask".into(), &"Publish it?".into()));
    assert!(shown["waiting"]["resumeUrl"].is_null());
    project.cogwork(&["executions", "signal", &id, "--option", "approve"]).exits(1).says("no daemon runs");
}

#[test]
fn a_signal_resumes_the_execution_waiting_for_its_event() {
    let project = project();
    let daemon = Daemon::start(&project, &[], "manual");
    let id = daemon.run(&project, "event");
    waits(&project, &id, 1);
    let emit = |arguments: &[&str]| {
        let all: Vec<&str> = ["events", "emit"].iter().chain(arguments).copied().collect();
        project.cogwork(&all)
    };
    emit(&["other"]).exits(0).says("nobody waits for it now; starts nothing; not kept: no automation");
    emit(&["orderPaid", "--data", "{"]).exits(2).says("not JSON");
    emit(&["orderPaid", "--data", r#"{"amount": 3}"#])
        .exits(0)
        .says("1 waiting step; starts nothing; kept for 7 days");
    waits(&project, &id, 1);
    project.write("paid.json", r#"{"amount": 11}"#);
    project.cogwork(&["executions", "signal", "latest", "--data", "@paid.json"]).exits(0).says("delivered");
    ends(&project, &id);
    assert_eq!(daemon.stop().0, Some(0));
    let text = project.cogwork(&["executions", "show", &id]).exits(0).stdout;
    for part in ["← event `orderPaid` by the command line", "break"] {
        assert!(text.contains(part), "`{part}` in\n{text}");
    }
}

#[test]
fn an_event_starts_the_triggers_that_are_named_after_it_once_for_its_id() {
    let project = project();
    let ship = "trigger: {event: order.paid}\nsteps: [{set: {x: 1}}]\noutputs: \"${{ trigger.results.body.data }}\"\n";
    project.write("automations/ship.yaml", ship);
    let daemon = Daemon::start(&project, &[], "manual");
    for says in
        ["nobody waits for it now; starts ship\n", "sent before under this id: nothing is sent again\n"]
    {
        let sent = project.cogwork(&["events", "emit", "order.paid", "--data", "[17]", "--id", "invoice-17"]);
        sent.exits(0).says(says);
    }
    let listed = project.cogwork(&["events", "list"]).exits(0).stdout;
    assert!(listed.lines().any(|line| line.starts_with("order.paid") && line.contains("ship")), "{listed}");
    let executions =
        || project.cogwork(&["executions", "list", "--automation", "ship", "--json"]).exits(0).json();
    let started = |list: &serde_json::Value| list["executions"].as_array().map_or(0, Vec::len);
    let list = (0..600).map(|_| executions()).find(|list| started(list) > 0).expect("it starts");
    assert_eq!((started(&list), &list["executions"][0]["origin"]["id"]), (1, &"invoice-17".into()), "{list}");
    assert_eq!(daemon.stop().0, Some(0));
}

#[test]
fn state_values_are_read_and_corrected() {
    let project = project();
    let state = |arguments: &[&str]| {
        let all: Vec<&str> = ["state"].iter().chain(arguments).copied().collect();
        project.cogwork(&all)
    };
    state(&["list", "keeps"]).exits(1).says("there is no store");
    project.cogwork(&["run", "keeps"]).exits(0);
    assert_eq!(state(&["get", "keeps", "count"]).exits(0).json(), json!(1));
    state(&["set", "keeps", "count", "41"]).exits(1).says("no daemon runs");
    state(&["list", "No Such"]).exits(2).says("`shared`");

    let daemon = Daemon::start(&project, &[], "manual");
    state(&["set", "keeps", "count", "-41", "--ttl", "1d"]).exits(0).says("kept");
    state(&["set", "shared", "a/b c", r#"{"x": 1}"#]).exits(0);
    state(&["set", "shared", "x", "text"]).exits(2).says("needs quotes");
    state(&["set", "shared", "x", "1", "--ttl", "soon"]).exits(2).says("--ttl");
    assert_eq!(state(&["get", "keeps", "count"]).exits(0).json(), json!(-41));
    let listed = state(&["list", "shared", "--json"]).exits(0).json();
    assert_eq!(listed, json!({"values": [{"key": "a/b c", "value": {"x": 1}}]}));
    assert!(state(&["list", "keeps"]).exits(0).stdout.contains("count  -41"));
    state(&["delete", "shared", "a/b c"]).exits(0).says("forgotten");
    state(&["delete", "shared", "a/b c"]).exits(1).says("there was none");
    state(&["get", "shared", "a/b c"]).exits(1).says("has no value `a/b c`");
    state(&["list", "keeps", "--test"]).exits(0).says("no value");
    assert_eq!(daemon.stop().0, Some(0));
}
