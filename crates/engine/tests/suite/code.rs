//! Code steps: their inputs, results and failures; the checks of their text; their files.

use std::sync::Arc;
use std::time::Duration;

use authoring::check_text;

use crate::common::{Project, crash, end, outcome_of, rows, soon, start_with, steps_of, stop, workers};
use crate::hooks::{post, tokens};
use crate::watched::Watched;

/// Returns the result of one code step that follows the steps `before`.
async fn result_of(before: &str, code: &str) -> String {
    workers();
    let code: String = code.lines().map(|line| format!("      {line}\n")).collect();
    outcome_of(&format!("trigger: {{manual: {{}}}}\nconfigVars: {{_who: Ada}}\nsteps:\n{before}  - id: it\n    code: |\n{code}")).await
}

fn shown(answer: &model::HttpResponse) -> String {
    format!(
        "{} {} {}",
        answer.status,
        answer.header("content-type").unwrap_or("-"),
        String::from_utf8_lossy(&answer.body.for_display())
    )
}

#[tokio::test]
async fn the_result_of_code_is_its_return_value_or_its_data_member() {
    assert_eq!(
        result_of("", "export default () => ({ data: { a: [1, 'x', null] } });").await,
        r#"{"a":[1,"x",null]}"#
    );
    assert_eq!(result_of("", "export default async () => ({ a: 1, data: 2 });").await, r#"2"#);
    assert_eq!(result_of("", "module.exports = async () => ({ a: 1 });").await, r#"{"a":1}"#);
    assert_eq!(result_of("", "export default () => {};").await, "null");
    assert_eq!(
        result_of("", "// ${{ no.expression }}\nexport default () => ({ data: '${{ x }}' });").await,
        r#""${{ x }}""#
    );
}

#[tokio::test]
async fn code_reads_earlier_steps_its_loops_and_its_context() {
    let read = result_of("  - id: a\n    set: {x: 7}\n", "export default (context, results) => ({ data: [results.a.results.x, context.configVars._who, context.stepId, typeof context.executionId] });").await;
    assert_eq!(read, r#"[7,"Ada","it","string"]"#);
    workers();
    let nested = "trigger: {manual: {}}\nsteps:\n  - id: outer\n    forEach: [a, b]\n    as: one\n    steps:\n      - id: inner\n        forEach: [1, 2]\n        as: two\n        steps:\n          - code: |\n              export default (c, { outer, inner }) => ({ data: `${outer.index}${outer.currentItem}${inner.index}${inner.currentItem}` });\n";
    assert_eq!(outcome_of(nested).await, r#"[["0a01","0a12"],["1b01","1b12"]]"#);
    let manual = "trigger: {manual: {}}\ninputs: {n: {type: integer, default: 3}}\nsteps:\n  - code: |\n      export default (c, all) => ({ data: Object.keys(all).sort() });\n";
    assert_eq!(outcome_of(manual).await, r#"["trigger"]"#, "whoever looks at all of it gets all of it");
}

#[tokio::test]
async fn a_code_error_has_its_line_in_the_file_and_callers_do_not_see_it() {
    workers();
    let yaml = "trigger: {webhook: {mode: sync, verify: none}}\nsteps:\n  - id: it\n    code: |\n      const twice = (x) => x.a.b * 2;\n      export default () => ({ data: twice({}) });\n";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let answer = soon(engine.ingress().receive(&tokens(&engine).0, post("{}"))).await;
    assert_eq!(answer.status, 500);
    assert!(!shown(&answer).contains("test.yaml"), "{}", shown(&answer));
    let id = answer.header("x-execution-id").expect("it names the execution").parse().expect("an id");
    let model::Outcome::Failed { error } = soon(engine.admission().wait(id)).await.expect("it ends") else {
        panic!("it failed")
    };
    let place = error.code_location.as_ref().expect("it has a place");
    assert_eq!((place.file.as_str(), place.line), ("automations/test.yaml", 5));
    assert_eq!(place.text, "const twice = (x) => x.a.b * 2;");
    let rest = yaml.lines().nth(4).and_then(|line| line.get(place.column - 1..)).unwrap_or_default();
    assert!(rest.starts_with("x.a.b"), "{rest}");
    stop(engine).await;
}

#[tokio::test]
async fn code_over_the_timeout_of_its_step_fails_the_step() {
    workers();
    let yaml = "trigger: {manual: {}}\nsteps:\n  - id: it\n    timeout: 200ms\n    onError: [{set: {kind: \"${{ error.kind }}\"}}]\n    code: |\n      export default () => { for (;;) {} };\n";
    assert_eq!(outcome_of(yaml).await, r#"{"kind":"timeout"}"#);
}

/// Starts an engine with a synchronous Automation of one code step, on a store that counts writes.
async fn awaited(code: &str) -> (Project, Arc<Watched>, engine::Engine) {
    workers();
    let head = "trigger: {webhook: {mode: sync, verify: none}}\nsteps:\n  - code: |\n";
    let project = Project::with(&format!("{head}      export default () => {{ {code} }};\n"));
    let (engine, counting) = project.start_watched().await;
    (project, counting, engine)
}

#[tokio::test]
async fn a_synchronous_execution_of_short_code_is_one_write() {
    let (_project, counting, engine) = awaited("return { data: 1 }").await;
    let answer = soon(engine.ingress().receive(&tokens(&engine).0, post("{}"))).await;
    assert_eq!((answer.status, counting.written()), (200, (1, 0)));
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_with_slow_code_is_stored_while_the_code_runs() {
    let (project, counting, engine) = awaited("for (;;) {}").await;
    let (address, hold) = (tokens(&engine).0, Duration::from_millis(50));
    let due = runtime::Clock::now(&project.clock).checked_add(hold).expect("in range");
    let accepted = async {
        project.clock.somebody_sleeps_until(due).await;
        assert_eq!(counting.written(), (0, 0));
        project.clock.advance(hold);
        while counting.written().0 == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        answer = engine.ingress().receive(&address, post("{}")) => panic!("{}", shown(&answer)),
        () = soon(accepted) => {}
    }
    crash(engine).await;
}

#[tokio::test]
async fn state_written_by_code_is_seen_by_the_next_execution() {
    workers();
    let project = Project::with(
        "trigger: {manual: {}}\nsteps:\n  - code: |\n      export default ({ state }) => {\n        const n = (state.get('n') ?? 0) + 1;\n        state.set('n', n);\n        return { data: n };\n      };\n",
    );
    let engine = project.start().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(start_with(&engine, "{}").await);
    }
    let mut seen = Vec::new();
    for id in ids {
        seen.push(end(&engine, id).await);
    }
    seen.sort();
    assert_eq!(seen, ["1", "2", "3", "4", "5"], "no two saw the same value");
    stop(engine).await;
}

#[tokio::test]
async fn code_that_fails_leaves_the_state_as_it_was() {
    workers();
    let project = Project::with(
        "trigger: {manual: {}}\nsteps:\n  - code: |\n      export default ({ state }) => { state.set('n', 1); throw new Error('no'); };\n    onError: continue\n  - set: {n: \"${{ state.n | default('none') }}\"}\n",
    );
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, r#"{"n":"none"}"#);
    stop(engine).await;
}

#[tokio::test]
async fn the_last_step_s_response_object_answers_the_caller() {
    workers();
    let answer = |returned: &str| {
        let yaml = format!(
            "trigger: {{webhook: {{mode: sync, verify: none}}}}\nsteps:\n  - set: {{x: 1}}\n  - if: \"true\"\n    then:\n      - code: |\n          export default () => ({returned});\n"
        );
        async move {
            let project = Project::with(&yaml);
            let engine = project.start().await;
            let answer = soon(engine.ingress().receive(&tokens(&engine).0, post("{}"))).await;
            stop(engine).await;
            shown(&answer)
        }
    };
    assert_eq!(answer("{ statusCode: 201, body: { a: 1 } }").await, r#"201 application/json {"a":1}"#);
    assert_eq!(answer("{ statusCode: 202, contentType: 'text/plain', body: 'x' }").await, "202 text/plain x");
    assert_eq!(answer("{ statusCode: 200, data: { b: 2 } }").await, r#"200 application/json {"b":2}"#);
    assert_eq!(answer("{ data: { statusCode: 404 } }").await, r#"200 application/json {"statusCode":404}"#);
    let wrong = answer("{ statusCode: 99, body: 'x' }").await;
    assert!(wrong.starts_with("500 ") && wrong.contains("statusCode"), "{wrong}");
}

#[tokio::test]
async fn a_response_object_of_an_earlier_step_is_an_ordinary_result() {
    workers();
    let project = Project::with(
        "trigger: {webhook: {mode: sync, verify: none}}\nsteps:\n  - id: a\n    code: |\n      export default () => ({ statusCode: 404, body: 'x' });\n  - set: {s: \"${{ steps.a.results.statusCode }}\"}\n",
    );
    let engine = project.start().await;
    let answer = soon(engine.ingress().receive(&tokens(&engine).0, post("{}"))).await;
    assert_eq!(shown(&answer), r#"200 application/json {"s":404}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_changed_code_file_is_reloaded_and_started_executions_keep_the_old_one() {
    workers();
    let project =
        Project::with("trigger: {manual: {}}\nsteps:\n  - wait: 1h\n  - code: {file: ./lib/it.js}\n");
    std::fs::create_dir_all(project.path("automations/lib")).expect("a folder");
    project.write("automations/lib/it.js", "export default () => ({ data: 'old' });");
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    project.write("automations/lib/it.js", "export default () => ({ data: 'new' });");
    let reload = engine.reload().await;
    assert_eq!(reload.changed.len(), 1, "{reload:?}");
    stop(engine).await;
    let engine = project.start().await;
    let second = start_with(&engine, "{}").await;
    project.clock.advance(Duration::from_secs(3601));
    assert_eq!(end(&engine, first).await, r#""old""#);
    assert_eq!(end(&engine, second).await, r#""new""#);
    project.write("automations/lib/it.js", "export default () => ({ data: ");
    let reload = engine.reload().await;
    assert_eq!(reload.stale.len(), 1, "the last good version stays in force");
    stop(engine).await;
}

#[test]
fn problems_in_code_are_reported_at_their_position_in_the_file() {
    workers();
    let catalog = authoring::check_project(Project::new().dir.path(), &[]).expect("checked").catalog;
    let told = |code: &str| {
        let code: String = code.lines().map(|line| format!("      {line}\n")).collect();
        let yaml = format!(
            "trigger: {{manual: {{}}}}\nsteps:\n  - id: list\n    set: {{x: 1}}\n  - code: |\n{code}"
        );
        let report = check_text(&catalog, "automations/test.yaml", &yaml);
        let entries = report.entries();
        let shown: Vec<String> =
            entries.iter().map(|entry| format!("{} {}:{}", entry.code, entry.line, entry.column)).collect();
        shown.join(", ")
    };
    assert_eq!(told("export default () => ({ data: 1 });"), "");
    assert_eq!(told("export default () => {\n  return { data: 1 + };\n};"), "code-syntax 7:28");
    assert!(told("export const x = 1;").starts_with("code-syntax 6:"), "{}", told("export const x = 1;"));
    assert!(told("export default (a: string) => ({ data: 1 });").starts_with("code-syntax 6:"));
    assert_eq!(told("export default (c, r) => ({ data: r.list.results.hasOwnProperty('x') });"), "");
    assert_eq!(
        told("export default (c, stepResults) => ({ data: stepResults.lst.results.x });"),
        "unknown-step 6:63"
    );
    assert_eq!(told("export default (c, r) => ({ data: r.list.result });"), "unknown-member 6:43");
    assert_eq!(
        told("export default ({ state }) => ({ data: state.get(String(1)) });").split(' ').next(),
        Some("computed-state-key")
    );
}

#[tokio::test]
async fn logger_lines_appear_in_the_execution_log() {
    workers();
    let project = Project::with(
        "trigger: {manual: {}}\nsteps:\n  - id: it\n    code: |\n      export default ({ logger }) => { logger.info('a', { b: 1 }); logger.warn('c'); return { data: 1 }; };\n",
    );
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    assert_eq!(steps_of(&engine, id).await, ["it=1"]);
    let lines = engine.store().logs(id, 0, 10).await.expect("read");
    let shown: Vec<String> = lines.iter().map(|line| format!("{:?} {}", line.level, line.message)).collect();
    assert_eq!(shown, [r#"Info a {"b":1}"#, "Warn c"]);
    stop(engine).await;
}

#[tokio::test]
async fn trigger_code_decides_the_payload_and_the_response_before_the_steps() {
    workers();
    let project = Project::with(
        "trigger:\n  webhook:\n    verify: none\n    code: |\n      export default async ({ logger }, payload) => {\n        const n = payload.body.data.n;\n        logger.info(`n is ${n}`);\n        if (n < 0) throw new Error('too small');\n        return {\n          payload: { n: n * 2 },\n          response: { statusCode: n > 0 ? 201 : 400, body: { n } },\n          run: n > 0,\n        };\n      };\nsteps:\n  - set: {got: \"${{ trigger.results.n }}\"}\n",
    );
    let engine = project.start().await;
    let address = tokens(&engine).0;
    let answer = soon(engine.ingress().receive(&address, post(r#"{"n": 4}"#))).await;
    assert_eq!(shown(&answer), r#"201 application/json {"n":4}"#);
    let id = answer.header("x-execution-id").expect("it names the execution").parse().expect("an id");
    assert_eq!(end(&engine, id).await, r#"{"got":8}"#);
    let lines = engine.store().logs(id, 0, 10).await.expect("read");
    assert_eq!(lines.first().map(|line| line.message.as_str()), Some("n is 4"));

    let declined = soon(engine.ingress().receive(&address, post(r#"{"n": 0}"#))).await;
    assert_eq!(shown(&declined), r#"400 application/json {"n":0}"#);
    let id = declined.header("x-execution-id").expect("it names the execution").parse().expect("an id");
    assert_eq!(end(&engine, id).await, "cancelled: declined by the trigger's code");

    let failed = soon(engine.ingress().receive(&address, post(r#"{"n": -1}"#))).await;
    assert_eq!(failed.status, 500);
    assert!(shown(&failed).contains("trigger_code_failed") && !shown(&failed).contains("too small"));
    assert_eq!(rows(&engine).await.len(), 2, "where the code fails nothing is started");
    stop(engine).await;
}

#[tokio::test]
async fn a_duplicate_request_gets_the_response_that_trigger_code_gave_the_first() {
    workers();
    let project = Project::with(
        "trigger:\n  webhook:\n    verify: none\n    dedup: {by: {header: x-id}}\n    code: |\n      export default (context, payload) => ({ response: { statusCode: 202, body: context.executionId } });\nsteps: []\n",
    );
    let engine = project.start().await;
    let address = tokens(&engine).0;
    let twice = || {
        let mut request = post("{}");
        request.headers.push(("x-id".to_owned(), b"7".to_vec()));
        request
    };
    let first = soon(engine.ingress().receive(&address, twice())).await;
    let second = soon(engine.ingress().receive(&address, twice())).await;
    assert_eq!(first.status, 202, "{}", shown(&first));
    assert_eq!((second.status, &second.body), (202, &first.body));
    stop(engine).await;
}
