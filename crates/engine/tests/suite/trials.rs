//! Tests of Automations: how they run and how their results are checked.

use std::sync::Arc;
use std::time::Duration;

use authoring::find_test_files;
use pretty_assertions::assert_eq;
use testing::{TestResult, TestRunner};

use crate::common::{Project, end, soon, stop};
use crate::hooks::post;

/// Returns the result of each test of a file: `passes`, or its findings.
#[track_caller]
fn play(automation: &str, tests: &str) -> Vec<String> {
    verdicts(automation, tests).iter().map(describe).collect()
}

#[track_caller]
fn verdicts(automation: &str, tests: &str) -> Vec<TestResult> {
    let project = Project::with(automation);
    project.write("automations/test.test.yaml", tests);
    let checked = authoring::check_project(project.dir.path(), &[]).expect("the connectors load");
    for report in &checked.reports {
        assert!(!report.has_errors(), "{}", report.render(false));
    }
    let runner = TestRunner::new(Arc::new(checked.catalog), project.dir.path());
    let files = find_test_files(project.dir.path(), runner.catalog(), &[]);
    let [file] = files.as_slice() else { panic!("one file of tests") };
    let suite = file.suite.as_ref().unwrap_or_else(|| panic!("{}", file.report.render(false)));
    suite.cases.iter().map(|case| runner.run(suite, case, None)).collect()
}

fn describe(verdict: &TestResult) -> String {
    let entries = verdict.report.entries();
    let lines = entries.iter().map(|entry| format!("{} {}: {}", entry.code, entry.line, entry.message));
    let told = lines.collect::<Vec<_>>().join("\n");
    if told.is_empty() { "passes".to_owned() } else { told }
}

/// Checks the diagnostics of a test suite: `code line`.
#[track_caller]
fn check(automation: &str, tests: &str, expected: &[&str]) {
    let project = Project::with(automation);
    project.write("automations/test.test.yaml", tests);
    let checked = authoring::check_project(project.dir.path(), &[]).expect("the connectors load");
    let files = find_test_files(project.dir.path(), &checked.catalog, &[]);
    let entries = files[0].report.entries();
    let found: Vec<String> = entries.iter().map(|entry| format!("{} {}", entry.code, entry.line)).collect();
    assert_eq!(found, expected, "\n{}", files[0].report.render(false));
}

const CALLS: &str = "trigger: {manual: {}}\ninputs: {id: {type: integer, default: 1}}\nsteps:\n  - id: ask\n    action: http.request\n    \
                     with: {url: \"https://example.com/${{ inputs.id }}\"}\n    retry: 2\n  - {id: done, set: {name: \"${{ steps.ask.results.body.name }}\"}}\n";

#[test]
fn a_test_gives_inputs_as_a_start_does() {
    let yaml = "trigger: {manual: {}}\ninputs: {n: {type: integer, default: 3}, t: {type: text}}\nsteps:\n  - set: {n: \"${{ inputs.n }}\", t: \"${{ inputs.t }}\"}\n";
    let tests = "tests:\n  - {name: converted, inputs: {n: '5', t: 17}, expect: {result: {n: 5, t: '17'}}}\n  - {name: absent, inputs: {n: null}, expect: {result: {n: 3, t: null}}}\n";
    assert_eq!(play(yaml, tests), ["passes", "passes"]);
}

#[test]
fn a_double_replaces_an_action() {
    let tests = "doubles:\n  http.request: {result: {body: {name: \"page ${{ inputs.url[-1:] }}\"}}}\ntests:\n  - name: as it is\n    \
                 expect: {result: {name: page 1}, calls: [{action: http.request, with: {url: \"https://example.com/1\"}}]}\n  - name: other\n    \
                 inputs: {id: 7}\n    expect: {result: {name: page 7}, calls: {ask: 1}}\n";
    assert_eq!(play(CALLS, tests), ["passes", "passes"]);
}

#[test]
fn a_call_without_a_double_fails_the_test_and_sends_nothing() {
    let told = play(CALLS, "tests:\n  - name: nobody answers\n");
    assert_eq!(
        told,
        [
            "no-double 2: nothing answers the call of `http.request` of the step `ask`: a test calls nothing outside"
        ]
    );
}

#[test]
fn unmet_expectations_are_reported_at_their_position() {
    let tests = "doubles: {ask: {result: {body: {name: seven}}}}\ntests:\n  - name: wrong\n    expect:\n      result: {name: eight}\n      \
                 steps:\n        done: skipped\n      duration: 5s\n      that: result.name == 'nine'\n";
    assert_eq!(
        play(CALLS, tests),
        ["unmet 5: `result.name` is not \"eight\"\nunmet 7: the step `done` is not skipped\n\
          unmet 8: the execution did not take 5s\nunmet 9: this does not hold"]
    );
}

#[test]
fn test_time_advances_only_while_everything_waits() {
    let tests = "doubles:\n  ask:\n    - {error: {status: 503}}\n    - {error: {status: 429, retryAfter: 10m}}\n    \
                 - {result: {body: {name: late}}, takes: 3s}\ntests:\n  - name: third time lucky\n    \
                 expect: {result: {name: late}, steps: {ask: {tries: 3}}, duration: 10m4s, calls: {http.request: 3}}\n";
    assert_eq!(play(CALLS, tests), ["passes"]);
}

const WAITS: &str = "trigger: {manual: {}}\nsteps:\n  - {id: nap, wait: 2h}\n  - id: paid\n    waitFor: {event: order.paid, if: event.data.id == 7}\n    timeout: 1d\n    onTimeout: continue\n  - id: ask\n    if: steps.paid.results is not none\n    waitFor: {approval: {message: Ship it?, form: {note: {type: text}}}}\n    timeout: 2d\noutputs: {paid: \"${{ steps.paid.results }}\", answer: \"${{ steps.ask.results }}\"}\n";

#[test]
fn waits_of_days_take_no_real_time_and_receive_their_events() {
    let tests = "tests:\n  - name: all comes\n    events: [{name: order.paid, data: {id: 8}}, {name: order.paid, data: {id: 7}, after: 5h}]\n    \
                 approvals: [{step: ask, option: approve, form: {note: go}}]\n    \
                 expect: {result: {paid: {id: 7}, answer: {option: approve, form: {note: go}}}, duration: 5h}\n  \
                 - name: nobody pays\n    expect: {result: {paid: null}, steps: {ask: skipped}, duration: 1d2h}\n  \
                 - name: nobody answers\n    events: [{name: order.paid, data: {id: 7}}]\n    \
                 expect: {error: {kind: timeout, step: ask}, duration: 2d2h}\n  \
                 - name: somebody ends it\n    cancel: {after: 3h, reason: no need}\n    expect: {outcome: cancelled, duration: 3h}\n";
    assert_eq!(play(WAITS, tests), ["passes"; 4]);
}

#[test]
fn a_test_without_the_awaited_answer_says_what_is_missing() {
    let automation =
        "trigger: {manual: {}}\nsteps:\n  - {id: ask, waitFor: {approval: {message: Really?}}}\n";
    let verdicts = verdicts(automation, "tests:\n  - name: waits for ever\n");
    assert_eq!(describe(&verdicts[0]), "unmet 2: the execution does not finish");
    let label = "the step `ask` waits for an answer (approve, reject): give it below `approvals:`";
    assert!(verdicts[0].report.render(false).contains(label), "{}", verdicts[0].report.render(false));
}

#[test]
fn a_test_sets_the_initial_state_and_checks_the_final_state() {
    let automation = "trigger: {manual: {}}\nsteps:\n  - {action: state.increment, with: {key: count}}\n  - {action: state.append, with: {key: log, value: \"${{ state.count }}\"}}\n";
    let tests = "tests:\n  - name: first\n    expect: {state: {count: 1, log: [1]}, calls: []}\n  \
                 - name: later\n    state: {count: 41, log: [41]}\n    expect: {state: {count: 42, log: [41, 42]}}\n";
    assert_eq!(play(automation, tests), ["passes", "passes"]);
}

#[test]
fn a_mistake_in_a_test_file_is_reported_at_its_position() {
    let test = |lines: &str| format!("tests:\n  - name: a\n    {lines}\n");
    check(CALLS, &test("payload: {}"), &["not-of-trigger 3"]);
    check(CALLS, &test("scheduledAt: 2026-01-01T00:00:00Z"), &["not-of-trigger 3"]);
    check(CALLS, &test("inputs: {idd: 1}"), &["unknown-input 3"]);
    check(CALLS, &test("inputs: {id: one}"), &["wrong-input 3"]);
    check(CALLS, &test("doubles: {http.reqest: {result: 1}}"), &["unknown-action 3"]);
    check(CALLS, &test("doubles: {aks: {result: 1}}"), &["unknown-step 3"]);
    check(CALLS, &test("doubles: {done: {result: 1}}"), &["not-of-step 3"]);
    check(CALLS, &test("doubles: {ask: {result: {}, when: {uri: a}}}"), &["unknown-input 3"]);
    check(CALLS, &test("doubles: {ask: {result: \"${{ steps.ask }}\"}}"), &["unknown-name 3"]);
    check(CALLS, &test("expect: {steps: {finished: succeeded}}"), &["unknown-step 3"]);
    check(CALLS, &test("expect: {steps: {ask: {turns: 1}}}"), &["not-of-step 3"]);
    check(CALLS, &test("expect: {steps: {ask: {branch: then}}}"), &["not-of-step 3"]);
    check(CALLS, &test("expect: {calls: {http.fetch: 1}}"), &["unknown-action 3"]);
    check(CALLS, &test("expect: {calls: [{step: ask, with: {uri: a}}]}"), &["unknown-input 3"]);
    check(CALLS, &test("expect: {response: {status: 200}}"), &["not-of-trigger 3"]);
    check(CALLS, &test("expect: {that: resul.name == 'a'}"), &["unknown-name 3"]);
    check(CALLS, &test("cassette: none.yaml"), &["missing-cassette 3"]);
    check(WAITS, &test("events: [{name: order.payed}]"), &["unknown-value 3"]);
    check(WAITS, &test("approvals: [{step: paid, option: approve}]"), &["not-of-step 3"]);
    check(WAITS, &test("approvals: [{step: ask, option: approved}]"), &["unknown-value 3"]);
    check(WAITS, &test("approvals: [{step: ask, option: approve, form: {notes: a}}]"), &["unknown-input 3"]);
    check(CALLS, "automation: tests\ntests: [{name: a}]\n", &["unknown-automation 1"]);
}

#[test]
fn a_double_result_that_the_action_never_returns_is_reported() {
    let automation = "trigger: {manual: {}}\nsteps:\n  - id: page\n    action: wiki.createPage\n    connection: main\n    with: {spaceId: \"1\", title: a, body: {value: a}}\n";
    let doubt = |result: &str, expected: &[&str]| {
        let project = Project::with(automation);
        project.write("connections/main.yaml", "type: wiki.basic\nwith: {email: a@b.c, apiToken: \"${{ secrets.t }}\", host: \"https://x.example.com\"}\n");
        project.write(
            "automations/test.test.yaml",
            &format!("tests:\n  - {{name: a, doubles: {{page: {{result: {result}}}}}}}\n"),
        );
        let checked = authoring::check_project(project.dir.path(), &[]).expect("the connectors load");
        let files = find_test_files(project.dir.path(), &checked.catalog, &[]);
        let messages: Vec<String> =
            files[0].report.entries().into_iter().map(|entry| entry.message).collect();
        assert_eq!(messages, expected, "{result}");
    };
    doubt("{id: \"1\", title: a, version: {number: 2}}", &[]);
    doubt(
        "{titel: a}",
        &["`wiki.createPage` never returns this: there is no `titel` in it; did you mean `title`?"],
    );
    doubt("{title: [a]}", &["`wiki.createPage` never returns this: `title` is a list, not text"]);
    doubt(
        "{title: \"${{ inputs.title }}\", version: {numbr: 1}}",
        &["`wiki.createPage` never returns this: there is no `version.numbr` in it; did you mean `number`?"],
    );
    doubt("[]", &["`wiki.createPage` never returns this: the result is a list, not Page"]);
}

/// Runs the tests of a project in which one Automation calls another.
fn calls(tests: &str) -> Vec<String> {
    let project = Project::with(
        "trigger: {manual: {}}\nsteps:\n  - {id: child, call: child, with: {name: Ada}}\noutputs: {said: \"${{ steps.child.results }}\"}\n",
    );
    project.write("automations/child.yaml", "trigger: {manual: {}}\ninputs: {name: {type: text}}\nsteps:\n  - {wait: 1h}\n  - {id: ask, action: http.request, with: {url: \"https://example.com/${{ inputs.name }}\"}}\n  - stop: {result: \"${{ steps.ask.results.body }}\"}\n");
    project.write("automations/test.test.yaml", tests);
    let checked = authoring::check_project(project.dir.path(), &[]).expect("the connectors load");
    let runner = TestRunner::new(Arc::new(checked.catalog), project.dir.path());
    let files = find_test_files(project.dir.path(), runner.catalog(), &[]);
    let suite = files[0].suite.as_ref().unwrap_or_else(|| panic!("{}", files[0].report.render(false)));
    let mut told: Vec<String> = Vec::new();
    for case in &suite.cases {
        let verdict = runner.run(suite, case, None);
        let ran = verdict.coverage.iter().map(|coverage| coverage.automation.id.to_string());
        told.push(format!("{} ({})", describe(&verdict), ran.collect::<Vec<_>>().join(", ")));
    }
    told
}

#[test]
fn a_called_automation_runs_in_the_test_or_has_a_double() {
    let tests = "tests:\n  - name: it runs\n    doubles: {http.request: {result: {body: hello}, when: {url: {$contains: Ada}}}}\n    \
                 expect: {result: {said: hello}, duration: 1h, calls: [{action: http.request}]}\n  - name: it is answered for\n    \
                 doubles: {child: {result: \"${{ inputs.name }} says hello\"}}\n    expect: {result: {said: Ada says hello}, duration: 0s, calls: {child: 1}}\n";
    assert_eq!(calls(tests), ["passes (child, test)", "passes (test)"]);
}

#[test]
fn a_cassette_answers_calls_without_a_double() {
    let exchange = |path: &str| serde_json::json!({"request": {"method": "GET", "url": format!("https://example.com/{path}"), "headers": {"accept": "*/*"}}, "response": {"status": 200, "headers": {"content-type": "application/json"}, "body": {"json": {"name": path}}}});
    let recording = serde_json::from_value(serde_json::json!({"exchanges": [exchange("1"), exchange("2")]}))
        .expect("a recording");
    let project = Project::with(CALLS);
    project.write(
        "automations/test.test.yaml",
        "tests:\n  - {name: a, cassette: a.yaml, expect: {result: {name: \"1\"}, calls: {ask: 1}}}\n",
    );
    let checked = authoring::check_project(project.dir.path(), &[]).expect("the connectors load");
    let runner = TestRunner::new(Arc::new(checked.catalog), project.dir.path());
    let files = find_test_files(project.dir.path(), runner.catalog(), &[]);
    let suite = files[0].suite.as_ref().expect("the file is good");
    assert_eq!(
        describe(&runner.run(suite, &suite.cases[0], None)),
        "cannot-play 2: there is no recording `a.yaml` yet"
    );
    let cassette = Arc::new(connector::Cassette::for_replay(recording));
    let told = describe(&runner.run(suite, &suite.cases[0], Some(cassette)));
    assert_eq!(told, "unused-exchange 2: the recorded `GET https://example.com/2` was not sent");
}

#[test]
fn a_sender_is_verified_only_if_the_test_requests_it() {
    let automation = "trigger: {webhook: {mode: sync, verify: {preset: sharedToken, header: x-key, secret: \"${{ secrets.hook }}\"}}}\nsteps:\n  - respond: {status: 204}\n";
    let test = |name: &str, payload: &str, status: u16, started: bool| {
        format!(
            "  - {{name: {name}, payload: {payload}, expect: {{started: {started}, response: {{status: {status}}}}}}}\n"
        )
    };
    let tests = [
        test("trusted", "{}", 204, true),
        test("stranger", "{verify: true}", 401, false),
        test("wrong", "{verify: true, headers: {x-key: other}}", 401, false),
        test("right", "{verify: true, headers: {x-key: s3cret-key}}", 204, true),
    ];
    let tests = format!("secrets: {{hook: s3cret-key}}\ntests:\n{}", tests.concat());
    assert_eq!(play(automation, &tests), ["passes"; 4]);
}

#[test]
fn a_test_over_its_time_limit_is_stopped_and_fails() {
    let project = Project::with("trigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n");
    project
        .write("automations/test.test.yaml", "tests:\n  - {name: it ends, expect: {outcome: succeeded}}\n");
    let catalog = authoring::check_project(project.dir.path(), &[]).expect("the connectors load").catalog;
    let runner = TestRunner::new(Arc::new(catalog), project.dir.path()).with_time_limit(Duration::ZERO);
    let files = find_test_files(project.dir.path(), runner.catalog(), &[]);
    let suite = files[0].suite.as_ref().expect("a file of tests");
    let told = describe(&runner.run(suite, &suite.cases[0], None));
    assert!(told.contains("did not finish and was stopped after 0s"), "{told}");
}

#[tokio::test]
async fn a_test_of_an_execution_names_its_trigger_where_there_are_several() {
    let yaml = |more: &str| {
        format!(
            "triggers: [{{id: a, webhook: {{verify: none}}}}{more}]\nsteps: [{{set: {{by: \"${{{{ trigger.id }}}}\"}}}}]\n"
        )
    };
    let project = Project::with(&yaml(", {id: b, webhook: {verify: none}}"));
    let engine = project.start().await;
    let catalog = engine.catalog();
    let second = catalog.find_trigger("test/b", |_| true).expect("it is in force");
    let token = second.address().expect("it has an address").live.clone();
    let answer = soon(engine.ingress().receive(&token, post("{}"))).await;
    let id = answer.header("x-execution-id").and_then(|id| id.parse().ok()).expect("it starts");
    end(&engine, id).await;
    let draft = engine.test_from_execution(id, None).await.expect("it is a test that passes");
    assert!(draft.text.contains("trigger: \"b\""), "{}", draft.text);
    project.write("automations/test.yaml", &yaml(""));
    engine.reload().await;
    stop(engine).await;
}
