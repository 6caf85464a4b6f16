//! `run`.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{BAD, FAILING, HELLO, ORDER, Project};

fn project() -> Project {
    Project::with(&[
        ("automations/hello.yaml", HELLO),
        ("automations/failing.yaml", FAILING),
        ("automations/order.yaml", ORDER),
        ("automations/tick.yaml", "trigger: {schedule: {every: 5m}}\nsteps: [{set: {a: 1}}]\n"),
    ])
}

#[test]
fn stdout_has_only_the_result() {
    let ran = project().cogwork(&["run", "hello"]).exits(0);
    assert_eq!(ran.json(), json!({"greeting": "Hello, world!", "times": 1}));
    assert_eq!(ran.stderr, "");
}

#[test]
fn inputs_are_parsed_as_their_types() {
    let project = project();
    let ran = project.cogwork(&["run", "hello", "--input", "name=007", "--input", "times=3"]).exits(0);
    assert_eq!(ran.json(), json!({"greeting": "Hello, 007!", "times": 3}));
    project.write("inputs.json", r#"{"name": "Ada", "times": 2}"#);
    let ran = project.cogwork(&["run", "hello", "--payload", "inputs.json", "--input", "times=5"]).exits(0);
    assert_eq!(ran.json(), json!({"greeting": "Hello, Ada!", "times": 5}));
}

#[test]
fn an_invalid_input_is_wrong_usage() {
    let project = project();
    project.cogwork(&["run", "hello", "--input", "nam=Ada"]).exits(2).says("did you mean `name`?");
    project.cogwork(&["run", "hello", "--input", "times=often"]).exits(2).says("times");
    project.cogwork(&["run", "hello", "--input", "name"]).exits(2).says("name=value");
    project.cogwork(&["run", "order", "--input", "id=7"]).exits(2).says("--payload");
    let nothing =
        "a schedule starts with the time alone: it takes no --payload, and --input only for `inputs`";
    project.cogwork(&["run", "tick", "--input", "id=7"]).exits(2).says(nothing);
    project.cogwork_with(&["run", "tick", "--payload", "-"], &[], "{}").exits(2).says(nothing);
    project.cogwork_with(&["run", "order", "--payload", "-"], &[], "{id").exits(2).says("is not JSON");
}

#[test]
fn a_webhook_takes_its_body_from_a_file_or_stdin() {
    let project = project();
    project.write("order.json", r#"{"id": 9007199254740993}"#);
    let ran = project.cogwork(&["run", "order", "--payload", "order.json"]).exits(0);
    assert_eq!(ran.stdout, "{\n  \"order\": 9007199254740993\n}\n");
    let ran = project.cogwork_with(&["run", "order", "--payload", "-"], &[], r#"{"id": "seven"}"#).exits(0);
    assert_eq!(ran.json(), json!({"order": "seven"}));
}

#[test]
fn a_synchronous_webhook_prints_its_response_status_and_body() {
    let project = project();
    let ran = project.cogwork_with(&["run", "order", "--payload", "-"], &[], r#"{"id": 7}"#).exits(0);
    assert_eq!((ran.json(), ran.stderr.as_str()), (json!({"order": 7}), "answers 201 (application/json)\n"));
    let hook = "trigger: {webhook: {mode: sync, verify: none}}\nsteps:\n";
    let text = format!("{hook}  - respond: {{status: 202, contentType: text/plain, body: \"thanks\"}}\n");
    project.write("automations/thanks.yaml", &text);
    let ran = project.cogwork(&["run", "thanks"]).exits(0).says("answers 202 (text/plain)");
    assert_eq!(ran.stdout, "thanks");
    project.write("automations/boom.yaml", &format!("{hook}  - fail: no luck\n"));
    project.cogwork(&["run", "boom"]).exits(1).says("answers 500").says("no luck");
}

#[test]
fn a_scheduled_automation_runs_without_input() {
    assert_eq!(project().cogwork(&["run", "tick"]).exits(0).json(), json!({"a": 1}));
}

#[test]
fn a_failure_exits_1_and_names_the_step() {
    let ran = project().cogwork(&["run", "failing"]).exits(1);
    assert_eq!(ran.stderr, "error: step `boom` failed: 7 is one too many\n");
    assert_eq!(ran.stdout, "");
}

#[test]
fn watch_prints_each_step_in_order() {
    let ran = project().cogwork(&["run", "hello", "--watch"]).exits(0);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let starts = ["hello execution ", "✓ greet  ", "  │ Hello, world!", "✓ note  "];
    assert_eq!(lines.len(), starts.len(), "{}", ran.stderr);
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
    project().cogwork(&["run", "failing", "--watch"]).exits(1).says("✗ boom");
    project().cogwork(&["run", "order", "--watch"]).exits(1).says("error: step `order` failed");
}

#[test]
fn a_missing_or_invalid_automation_is_explained() {
    let project = project();
    project.write("automations/bad.yaml", BAD);
    project.cogwork(&["run", "helo"]).exits(1).says("did you mean `hello`?");
    project.cogwork(&["run", "bad"]).exits(1).says("did you mean `steps`?");
    project.cogwork(&["run", "automations/bad.yaml"]).exits(1).says("automations/bad.yaml:3:1");
    project.cogwork(&["run", "automations/nosuch.yaml"]).exits(1).says("cannot find");
    project.cogwork(&["run", "hello"]).exits(0);
}

#[test]
fn run_accepts_a_file_in_place_of_an_id() {
    let project = project();
    project.cogwork(&["run", "automations/hello.yaml"]).exits(0);
    let path = project.file("automations/hello.yaml").display().to_string();
    Project::empty().cogwork(&["--dir", &project.path().display().to_string(), "run", &path]).exits(0);
}

#[test]
fn a_file_outside_the_project_runs_without_leaving_files() {
    let (project, other) =
        (project(), Project::with(&[("Some File.yaml", &format!("id: try\n{HELLO}")), ("bad.yaml", BAD)]));
    let path = |name: &str| other.file(name).display().to_string();
    let ran = project.cogwork(&["run", &path("Some File.yaml")]).exits(0);
    assert_eq!(ran.json()["greeting"], "Hello, world!");
    project.cogwork(&["run", &path("bad.yaml")]).exits(1).says(&path("bad.yaml"));
    assert!(!project.file(".cogwork").exists() && !other.file(".cogwork").exists());
}

#[test]
fn run_starts_no_other_execution_or_schedule_of_the_project() {
    let project = project();
    project.cogwork(&["run", "tick"]).exits(0);
    project.cogwork(&["run", "hello"]).exits(0);
    let listed = project.cogwork(&["executions", "list", "--json"]).exits(0).json();
    let automations: Vec<_> =
        listed["executions"].as_array().expect("a list").iter().map(|row| &row["automation"]).collect();
    assert_eq!(automations, ["hello", "tick"]);
}

#[cfg(unix)]
#[test]
fn a_debugged_request_is_printed_without_watch_one_header_per_line() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let automation = format!(
        "trigger: {{manual: {{}}}}\nsteps:\n  - id: call\n    action: http.request\n    debug: true\n    with: {{url: \"http://{address}/\", headers: {{x-a: one}}}}\n  - {{action: log.info, with: {{message: quiet}}}}\n"
    );
    let project = Project::with(&[("automations/seen.yaml", &automation)]);
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a call");
        let mut request = [0_u8; 4096];
        let _ = stream.read(&mut request).expect("a request");
        let answer = b"HTTP/1.1 204 No Content\r\nx-b: two\r\nconnection: close\r\n\r\n";
        stream.write_all(answer).expect("an answer");
    });
    let ran = project.cogwork(&["run", "seen", "--outbound-allow", "127.0.0.1"]).exits(0);
    answers.join().expect("it was called");
    assert!(ran.stderr.contains("│ → GET http://"), "{}", ran.stderr);
    assert!(ran.stderr.contains("\n  │ x-a: one\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("│ ← 204 No Content"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("quiet"), "only what was asked for is shown: {}", ran.stderr);
    let logs = project.cogwork(&["executions", "logs", "latest"]).exits(0);
    assert!(logs.stdout.contains("\n    x-a: one\n"), "{}", logs.stdout);
}

#[test]
fn ctrl_c_cancels_the_execution_and_exits_130() {
    // Somebody who takes the call and never answers, so that the step is in flight for sure.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let automation = format!(
        "trigger: {{manual: {{}}}}\nsteps:\n  - id: call\n    action: http.request\n    with: {{url: \"http://{address}/\"}}\n"
    );
    let project = Project::with(&[("automations/slow.yaml", &automation)]);
    let mut command = project.command(&["run", "slow", "--outbound-allow", "127.0.0.1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (_held, _) = listener.accept().expect("a call");
    let sent =
        Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().expect("a shell runs");
    assert!(sent.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = project.cogwork(&["executions", "show", "latest", "--json"]).exits(0).json();
    assert_eq!(shown["status"], "cancelled");
}
