//! Settings that expressions compute: their ranges, the names that they may select, and their values after a restart.

use std::time::Duration;

use engine::Engine;
use model::action::ErrorKind;
use model::execution::{ExecutionId, Outcome};
use pretty_assertions::assert_eq;

use crate::common::{Peer, Project, pass, rows, show, soon, start_with, steps_of, stop, until_suspended};

const INPUTS: &str = "trigger: {manual: {}}\ninputs: {v: {type: any}}\n";

async fn end(engine: &Engine, id: ExecutionId) -> Outcome {
    soon(engine.admission().wait(id)).await.expect("it ends")
}

fn failure(outcome: &Outcome) -> (ErrorKind, String) {
    match outcome {
        Outcome::Failed { error } => (error.kind.clone(), error.message.clone()),
        other => panic!("it does not fail: {}", show(other)),
    }
}

/// A project with two connections that the step may use, and one with a credential that it may not.
fn project_with_connections(peer: &Peer, steps: &str) -> Project {
    let project = Project::with(&format!("{INPUTS}steps:\n{steps}"));
    for name in ["crmEu", "crmUs"] {
        let text = format!("type: http.open\nwith: {{baseUrl: \"{}/{name}\"}}\n", peer.base);
        project.write(&format!("connections/{name}.yaml"), &text);
    }
    let admin =
        format!("type: http.bearer\nwith: {{baseUrl: \"{}/admin\", token: t-0123456789}}\n", peer.base);
    project.write("connections/admin.yaml", &admin);
    project
}

/// Values from outside that name something that is not in the list, or name it in another way.
const HOSTILE: [&str; 14] = [
    r#""admin""#,
    r#""crmEu ""#,
    r#""CRMEU""#,
    r#""crmEu\u0000""#,
    r#""../connections/admin""#,
    r#""crmEu or admin""#,
    r#""${{ 'admin' }}""#,
    r#""__proto__""#,
    r#""""#,
    "0",
    "true",
    "null",
    r#"["crmEu"]"#,
    r#"{"name": "admin", "of": ["admin"]}"#,
];

#[tokio::test]
async fn data_choose_no_connection_outside_of_the_list() {
    let mut peer = Peer::new().await;
    let step = "  - {id: a, action: http.post, connection: {name: '${{ inputs.v }}', of: [crmEu, crmUs]}, with: {url: /x}}\n";
    let project = project_with_connections(&peer, step);
    let engine = project.start().await;
    for name in ["crmEu", "crmUs"] {
        let id = start_with(&engine, &format!(r#"{{"v": "{name}"}}"#)).await;
        let asked = peer.next_request().await;
        assert_eq!(asked.line, format!("POST /{name}/x"));
        asked.answer(200, "{}").await;
        assert!(matches!(end(&engine, id).await, Outcome::Succeeded { .. }));
    }
    for value in HOSTILE {
        let id = start_with(&engine, &format!(r#"{{"v": {value}}}"#)).await;
        let (kind, message) = failure(&end(&engine, id).await);
        assert_eq!(kind, ErrorKind::Input, "{value}: {message}");
        assert!(message.starts_with("`connection` must be one of `crmEu`, `crmUs`, found "), "{message}");
    }
    assert!(peer.pending_request().is_none(), "nothing was sent");
    stop(engine).await;
}

#[tokio::test]
async fn data_call_no_automation_outside_of_the_list() {
    let step = "  - {id: a, call: {id: '${{ inputs.v }}', of: [crm-eu, crm-us]}, with: {n: 1}}\n";
    let project = Project::with(&format!("{INPUTS}steps:\n{step}"));
    for id in ["crm-eu", "crm-us", "admin"] {
        let text = format!(
            "trigger: {{manual: {{}}}}\ninputs: {{n: {{type: any}}}}\nsteps: [{{set: {{by: {id}}}}}]\n"
        );
        project.write(&format!("automations/{id}.yaml"), &text);
    }
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"v": "crm-us"}"#).await;
    assert_eq!(show(&end(&engine, id).await), r#"{"by":"crm-us"}"#);
    let before = rows(&engine).await.len();
    for value in HOSTILE {
        let id = start_with(&engine, &format!(r#"{{"v": {value}}}"#)).await;
        let (kind, message) = failure(&end(&engine, id).await);
        assert_eq!(kind, ErrorKind::Input, "{value}: {message}");
    }
    assert_eq!(rows(&engine).await.len(), before + HOSTILE.len(), "no other execution was started");
    stop(engine).await;
}

#[tokio::test]
async fn a_value_out_of_range_fails_the_step_before_anything_is_sent() {
    let mut peer = Peer::new().await;
    let send = format!("action: http.post, with: {{url: \"{}/x\"}}", peer.base);
    let cases = [
        (
            format!("timeout: '${{{{ inputs.v }}}}', {send}"),
            vec!["\"0s\"", "\"soon\"", "5", "null", "\"P1M\""],
        ),
        (format!("retry: {{max: '${{{{ inputs.v }}}}'}}, {send}"), vec!["-1", "101", "\"3\"", "1.5", "null"]),
        (format!("retry: {{max: 1, delay: '${{{{ inputs.v }}}}'}}, {send}"), vec!["\"25h\"", "1"]),
        (format!("retry: {{max: 1, delay: '${{{{ inputs.v }}}}', maxDelay: 1m}}, {send}"), vec!["\"2m\""]),
        (format!("repeat: {{max: '${{{{ inputs.v }}}}'}}, steps: [{{{send}}}]"), vec!["0", "1000001"]),
        (
            format!("repeat: {{max: 2, delay: '${{{{ inputs.v }}}}'}}, steps: [{{{send}}}]"),
            vec!["\"-1s\"", "\"25h\""],
        ),
        (
            format!("forEach: [1, 2], concurrency: '${{{{ inputs.v }}}}', steps: [{{{send}}}]"),
            vec!["0", "101", "[1]"],
        ),
    ];
    for (step, values) in cases {
        let project = Project::with(&format!("{INPUTS}steps:\n  - {{id: a, {step}}}\n"));
        let engine = project.start().await;
        for value in values {
            let id = start_with(&engine, &format!(r#"{{"v": {value}}}"#)).await;
            let (kind, message) = failure(&end(&engine, id).await);
            assert_eq!(kind, ErrorKind::Input, "{step} {value}: {message}");
        }
        assert!(peer.pending_request().is_none(), "{step}: nothing was sent");
        stop(engine).await;
    }
}

#[tokio::test]
async fn an_unusable_setting_is_handled_like_any_failure_of_the_step() {
    let steps = "  - {id: a, timeout: '${{ inputs.v }}', steps: [{set: {x: 1}}], onError: [{set: {kind: '${{ error.kind }}'}}]}\n";
    let project = Project::with(&format!("{INPUTS}steps:\n{steps}"));
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"v": "never"}"#).await;
    assert_eq!(show(&end(&engine, id).await), r#"{"kind":"input"}"#);
    stop(engine).await;
}

#[tokio::test]
async fn computed_retries_and_time_limits_hold() {
    let mut peer = Peer::new().await;
    let step = format!(
        "  - {{id: a, action: http.post, timeout: '${{{{ inputs.v.time }}}}', retry: {{max: '${{{{ inputs.v.tries }}}}', delay: 0s}}, with: {{url: \"{}/x\"}}}}\n",
        peer.base
    );
    let project = Project::with(&format!("{INPUTS}steps:\n{step}"));
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"v": {"tries": 2, "time": "PT30S"}}"#).await;
    for _ in 0..3 {
        peer.next_request().await.answer(503, "{}").await;
    }
    let (kind, _) = failure(&end(&engine, id).await);
    assert_eq!(kind, ErrorKind::Status);
    let id = start_with(&engine, r#"{"v": {"tries": 0, "time": "30s"}}"#).await;
    let held = peer.next_request().await;
    pass(&project, Duration::from_secs(30)).await;
    let (kind, message) = failure(&end(&engine, id).await);
    assert_eq!(
        (kind, message.as_str()),
        (ErrorKind::Timeout, "step `a` took longer than its timeout of 30s")
    );
    drop(held);
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

#[tokio::test]
async fn each_policy_of_a_list_computes_its_own_tries() {
    let mut peer = Peer::new().await;
    let step = format!(
        "  - id: a\n    action: http.post\n    retry: [{{if: error.status == 409, max: '${{{{ inputs.v[0] }}}}', delay: 0s}}, {{on: 5xx, max: '${{{{ inputs.v[1] }}}}', delay: '${{{{ inputs.v[2] }}}}'}}]\n    with: {{url: \"{}/x\"}}\n",
        peer.base
    );
    let project = Project::with(&format!("{INPUTS}steps:\n{step}"));
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"v": [1, 2, "0s"]}"#).await;
    for status in [503, 409, 503, 409] {
        peer.next_request().await.answer(status, "{}").await;
    }
    // The first policy has no further try, though the second one has.
    assert_eq!(failure(&end(&engine, id).await).0, ErrorKind::Status);
    assert!(peer.pending_request().is_none());
    let id = start_with(&engine, r#"{"v": [60, 41, "0s"]}"#).await;
    let expected = "the policies try 101 times together, at most 100 are allowed".to_owned();
    assert_eq!(failure(&end(&engine, id).await), (ErrorKind::Input, expected));
    stop(engine).await;
}

#[tokio::test]
async fn the_settings_of_a_loop_are_those_of_its_beginning_after_a_restart_too() {
    let steps = "  - set: {n: 2, every: 1h}\n  - id: loop\n    timeout: ${{ vars.every ~ '30m' }}\n    repeat: {max: '${{ vars.n }}', delay: '${{ vars.every }}'}\n    steps:\n      - {id: turn, set: {n: 50, every: 1s}}\n";
    let project = Project::with(&format!("{INPUTS}steps:\n{steps}"));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    until_suspended(&engine).await;
    stop(engine).await;
    let engine = project.start().await;
    until_suspended(&engine).await;
    pass(&project, Duration::from_secs(3600)).await;
    assert_eq!(show(&end(&engine, id).await), r#"{"n":50,"every":"1s"}"#);
    let turns = steps_of(&engine, id).await.into_iter().filter(|step| step.starts_with("turn")).count();
    assert_eq!(turns, 2);
    stop(engine).await;
}

#[tokio::test]
async fn a_pause_with_a_computed_time_limit_ends_in_time_after_a_restart() {
    let steps = "  - {id: signed, waitFor: {event: signed}, timeout: '${{ inputs.v }}', onTimeout: continue}\n  - set: {late: '${{ steps.signed.timedOut }}'}\n";
    let project = Project::with(&format!("{INPUTS}steps:\n{steps}"));
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"v": "P2D"}"#).await;
    until_suspended(&engine).await;
    stop(engine).await;
    let engine = project.start().await;
    until_suspended(&engine).await;
    pass(&project, Duration::from_secs(2 * 86_400)).await;
    assert_eq!(show(&end(&engine, id).await), r#"{"late":true}"#);
    stop(engine).await;
}

#[tokio::test]
async fn iterations_beside_each_other_are_as_many_as_computed_and_have_variables_of_their_own() {
    let mut peer = Peer::new().await;
    let step = format!(
        "  - id: all\n    forEach: [0, 1, 2]\n    concurrency: ${{{{ inputs.v }}}}\n    steps: [{{action: http.post, with: {{url: \"{}/${{{{ item }}}}\"}}}}]\n",
        peer.base
    );
    let project = Project::with(&format!("{INPUTS}steps:\n{step}"));
    let engine = project.start().await;
    for width in [1_usize, 2, 3] {
        let id = start_with(&engine, &format!(r#"{{"v": {width}}}"#)).await;
        let mut open = Vec::new();
        for _ in 0..width {
            open.push(peer.next_request().await);
        }
        assert!(peer.pending_request().is_none(), "{width}");
        let mut answered = 0;
        while answered < 3 {
            if open.is_empty() {
                open.push(peer.next_request().await);
            }
            for asked in open.drain(..) {
                asked.answer(200, "1").await;
                answered += 1;
            }
        }
        assert!(matches!(end(&engine, id).await, Outcome::Succeeded { .. }));
    }
    stop(engine).await;
}

#[tokio::test]
async fn the_concurrency_limit_of_the_asking_execution_counts() {
    let mut peer = Peer::new().await;
    let yaml = format!(
        "{INPUTS}concurrency: {{limit: '${{{{ inputs.v }}}}'}}\nsteps: [{{action: http.post, with: {{url: \"{}/x\"}}}}]\n",
        peer.base
    );
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let start = async |limit: &str| start_with(&engine, &format!(r#"{{"v": {limit}}}"#)).await;
    for bad in ["0", "1001", "\"2\"", "null"] {
        let id = start(bad).await;
        let (kind, message) = failure(&end(&engine, id).await);
        assert_eq!(kind, ErrorKind::Input, "{bad}: {message}");
    }
    let first = start("2").await;
    let first_asked = peer.next_request().await;
    let second = start("2").await;
    let second_asked = peer.next_request().await;
    let alone = start("1").await;
    let behind = start("5").await;
    first_asked.answer(200, "1").await;
    end(&engine, first).await;
    assert!(peer.pending_request().is_none(), "the third has to run alone, and the fourth is behind it");
    second_asked.answer(200, "1").await;
    end(&engine, second).await;
    let alone_asked = peer.next_request().await;
    let behind_asked = peer.next_request().await;
    alone_asked.answer(200, "1").await;
    behind_asked.answer(200, "1").await;
    end(&engine, alone).await;
    end(&engine, behind).await;
    stop(engine).await;
}

const CONNECTIONS: [(&str, &str); 3] = [
    (
        "crmEu",
        "type: http.bearer\nwith: {baseUrl: \"https://eu.example\", token: \"${{ secrets.euToken }}\"}\n",
    ),
    (
        "crmUs",
        "type: http.bearer\nwith: {baseUrl: \"https://us.example\", token: \"${{ secrets.usToken }}\"}\n",
    ),
    ("mail", "type: mail.smtp\nwith: {host: mail.example, username: a, password: \"${{ secrets.mail }}\"}\n"),
];

fn checked_project(top: &str, step: &str) -> Project {
    let inputs = "inputs: {text: {type: text, required: true}, n: {type: integer, required: true}, region: {options: [crmEu, crmUs, crmAsia]}}";
    let project = Project::with(&format!(
        "trigger: {{manual: {{}}}}\n{inputs}\n{top}\nsteps:\n  - {{id: a, {step}}}\n"
    ));
    for (name, text) in CONNECTIONS {
        project.write(&format!("connections/{name}.yaml"), text);
    }
    let manual = "trigger: {manual: {}}";
    for (id, text) in [
        (
            "one",
            format!("{manual}\ninputs: {{n: {{type: integer, required: true}}}}\nsteps: [{{wait: 1s}}]\n"),
        ),
        ("two", format!("{manual}\nsteps: [{{wait: 1s}}]\n")),
        ("back", format!("{manual}\nsteps: [{{call: test}}]\n")),
        ("hourly", "trigger: {schedule: {every: 1h}}\nsteps: [{wait: 1s}]\n".to_owned()),
    ] {
        project.write(&format!("automations/{id}.yaml"), &text);
    }
    project
}

/// Returns the codes of the problems of `automations/test.yaml`, each with what it is at.
fn problems(top: &str, step: &str) -> Vec<String> {
    let project = checked_project(top, step);
    let checked = authoring::check_project(project.dir.path(), &[]).expect("the connectors load");
    let mut found = Vec::new();
    for report in checked.reports.iter().filter(|report| report.source().path() == "automations/test.yaml") {
        for diagnostic in report.diagnostics() {
            if !["no-retry", "missing-secret", "unused-value"].contains(&diagnostic.code) {
                found.push(format!("{} {}", diagnostic.code, report.source().slice(diagnostic.span)));
            }
        }
    }
    found
}

#[test]
fn a_call_is_checked_against_each_member_of_its_list() {
    let get = |of: &str| {
        format!(
            "action: http.get, connection: {{name: '${{{{ inputs.text }}}}', of: {of}}}, with: {{url: /x}}"
        )
    };
    let none: [&str; 0] = [];
    assert_eq!(problems("", &get("[crmEu, crmUs]")), none);
    assert_eq!(problems("", &get("[crmEu, mail]")), ["wrong-connection mail"]);
    assert_eq!(problems("", &get("[crmEu, crmAu]")), ["unknown-connection crmAu"]);
    let pure = "action: log.info, connection: {name: '${{ inputs.text }}', of: [crmEu]}, with: {message: a}";
    assert_eq!(problems("", pure).len(), 1);
    let whole = get("[crmEu, crmUs]").replace("/x", "'https://eu.example/x'");
    assert_eq!(problems("", &whole), ["other-host 'https://eu.example/x'"]);
    let call =
        |of: &str, with: &str| format!("call: {{id: '${{{{ inputs.text }}}}', of: {of}}}, with: {with}");
    assert_eq!(problems("", &call("[one]", "{n: 1}")), none);
    assert_eq!(problems("", &call("[one, two]", "{n: 1}")), ["unknown-input n"]);
    assert_eq!(problems("", &call("[two, one]", "{}")), ["missing-input one"]);
    assert_eq!(problems("", &call("[one, hourly]", "{n: 1}")), ["not-callable hourly"]);
    assert_eq!(problems("", &call("[two, back]", "{}")), ["call-circle back"]);
    assert_eq!(problems("", &call("[two, missing]", "{}")), ["unknown-automation missing"]);
}

#[test]
fn the_expressions_of_settings_are_checked_like_those_of_the_step() {
    let none: [&str; 0] = [];
    for (step, expected) in [
        ("wait: 1s, timeout: '${{ inputs.tex }}'", "undeclared-input tex"),
        ("call: two, retry: {max: '${{ steps.a.results }}'}", "later-step a"),
        ("repeat: {max: '${{ vars.x }}'}, steps: [{set: {x: 1}}]", "later-variable x"),
        ("forEach: [1], concurrency: '${{ item }}', steps: [{wait: 1s}]", "name-not-here item"),
        ("wait: 1s, timeout: '${{ inputs.n }}'", "invalid-duration inputs.n"),
        ("wait: 1s, timeout: \"${{ 'soon' }}\"", "invalid-duration 'soon'"),
        ("repeat: {max: '${{ inputs.text }}'}, steps: [{wait: 1s}]", "out-of-range inputs.text"),
        ("repeat: {max: '${{ 0 }}'}, steps: [{wait: 1s}]", "out-of-range 0"),
        ("call: {id: '${{ inputs.region }}', of: [two]}", "not-in-of inputs.region"),
        ("call: {id: \"${{ 'one' }}\", of: [two]}", "not-in-of 'one'"),
    ] {
        assert_eq!(problems("", step), [expected], "{step}");
    }
    let region =
        "action: http.get, connection: {name: '${{ inputs.region }}', of: [crmEu, crmUs]}, with: {url: /x}";
    assert_eq!(problems("", region), ["not-in-of inputs.region"]);
    let limit = |expression: &str| format!("concurrency: {{limit: '${{{{ {expression} }}}}'}}");
    assert_eq!(problems(&limit("inputs.n"), "wait: 1s"), none);
    assert_eq!(problems(&limit("vars.n"), "wait: 1s"), ["name-not-here vars"]);
    assert_eq!(problems(&limit("now() | int"), "wait: 1s"), ["moment-not-here now() | int"]);
    assert_eq!(problems(&limit("2000"), "wait: 1s"), ["out-of-range 2000"]);
}

#[test]
fn a_computed_connection_needs_the_secrets_of_all_that_it_can_be() {
    let step =
        "action: http.get, connection: {name: '${{ inputs.text }}', of: [crmEu, crmUs]}, with: {url: /x}";
    let project = checked_project("", step);
    let checked = authoring::check_project(project.dir.path(), &[]).expect("the connectors load");
    assert_eq!(checked.catalog.users_of("crmEu"), ["test"]);
    assert_eq!(checked.catalog.users_of("crmUs"), ["test"]);
    assert!(checked.catalog.users_of("mail").is_empty());
    let found = checked.catalog.find("test").expect("it is in force");
    let missing = checked.catalog.missing_secrets_of_automation(&found.automation, &|_| false);
    let names: Vec<&str> = missing.iter().map(|secret| secret.name.as_str()).collect();
    assert_eq!(names, ["euToken", "usToken"]);
    let step = found.automation.step("a").expect("it has the step");
    let settings: Vec<String> =
        catalog::effective_settings(&found.automation, step).iter().map(ToString::to_string).collect();
    assert_eq!(settings[0], "connection ${{ inputs.text }}: crmEu or crmUs, from the step");
}

#[test]
fn editors_complete_and_describe_the_members_of_a_list() {
    let step =
        "action: http.get, connection: {name: '${{ inputs.text }}', of: [crmEu, crmUs]}, with: {url: /x}";
    let project = checked_project("", step);
    let checked = authoring::check_project(project.dir.path(), &[]).expect("the connectors load");
    let ask = |text: &str| {
        let text = format!("trigger: {{manual: {{}}}}\nsteps:\n{text}\n");
        let offset = text.find('^').expect("a mark");
        (text.replacen('^', "", 1), offset)
    };
    let labels = |text: &str| -> Vec<String> {
        let (text, offset) = ask(text);
        let path = "automations/test.yaml";
        let request =
            authoring::AssistRequest { catalog: &checked.catalog, secrets: &[], path, text: &text, offset };
        authoring::complete(&request).items.into_iter().map(|item| item.label).collect()
    };
    let connections =
        "  - action: http.get\n    connection:\n      name: ${{ inputs.text }}\n      of:\n        - crm^";
    assert_eq!(labels(connections), ["crmEu", "crmUs"]);
    let calls = "  - call:\n      id: ${{ inputs.text }}\n      of: ^";
    assert_eq!(labels(calls), ["hourly", "one", "test", "two"]);
    let (text, offset) = ask(&connections.replace("crm^", "crm^Eu"));
    let path = "automations/test.yaml";
    let request =
        authoring::AssistRequest { catalog: &checked.catalog, secrets: &[], path, text: &text, offset };
    let hover = authoring::hover(&request).expect("a description");
    assert_eq!(hover.text, "http.bearer in connections/crmEu.yaml");
    let definition = authoring::definition(&request).expect("the connection");
    assert_eq!(definition.path, "connections/crmEu.yaml");
}
