//! Inputs of automations: each start converts them to their declared types, or is refused.

use model::execution::{Event, ExecutionId};
use model::payload::Payload;
use runtime::{Answer, ManualStart, ReplayRequest};

use crate::common::{Project, end, json, manual, rows, show, soon, start_and_suspend, start_with, stop};
use crate::hooks::{post, text, tokens};

const TYPED: &str = "inputs: {n: {type: integer, default: 3}, t: {type: text}, l: {type: list}, m: {type: map}, c: {options: ['1', '2']}, a: {type: any}}\nsteps:\n  - set: {all: \"${{ inputs }}\"}\noutputs: ${{ vars.all }}\n";

/// Values of other types, and the same values as steps read them.
const GIVEN: [(&str, &str); 7] = [
    (r#"{"n":"5","t":17}"#, r#"{"n":5,"t":"17","l":null,"m":null,"c":null,"a":null}"#),
    (r#"{"n":5.0,"t":"5"}"#, r#"{"n":5,"t":"5","l":null,"m":null,"c":null,"a":null}"#),
    (r#"{"n":null,"l":"x"}"#, r#"{"n":3,"t":null,"l":["x"],"m":null,"c":null,"a":null}"#),
    (r#"{"n":"","l":["1",2]}"#, r#"{"n":3,"t":null,"l":["1",2],"m":null,"c":null,"a":null}"#),
    (r#"{"t":"","m":{"x":"1"}}"#, r#"{"n":3,"t":"","l":null,"m":{"x":"1"},"c":null,"a":null}"#),
    (r#"{"c":2,"a":"5"}"#, r#"{"n":3,"t":null,"l":null,"m":null,"c":"2","a":"5"}"#),
    (
        r#"{"t":"2026-03-02T08:00:00Z"}"#,
        r#"{"n":3,"t":"2026-03-02T08:00:00Z","l":null,"m":null,"c":null,"a":null}"#,
    ),
];

/// Values that have no meaning in their type.
const REFUSED: [(&str, &str); 5] = [
    (r#"{"n":"five"}"#, "input `n`: must be a whole number, found text"),
    (r#"{"n":5.5}"#, "input `n`: must be a whole number, found number"),
    (r#"{"t":["a"]}"#, "input `t`: must be text, found list"),
    (r#"{"m":"a"}"#, "input `m`: must be a map of anything, found text"),
    (r#"{"c":3}"#, "input `c`: must be one of"),
];

fn map(text: &str) -> value::Map {
    json(text).as_map().expect("a map").clone()
}

fn sorted(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("it is JSON")
}

fn by_hand() -> String {
    format!("trigger: {{manual: {{}}}}\n{TYPED}")
}

/// The inputs that are stored with an execution, as JSON.
async fn stored(engine: &engine::Engine, id: ExecutionId) -> String {
    let events = engine.store().events(id).await.expect("they are read").expect("it exists");
    let Event::Started { payload, inputs, .. } = &events[0] else { panic!("{events:?}") };
    let inputs = match &**payload {
        Payload::Manual { inputs } => Some(inputs.clone()),
        _ => inputs.as_deref().cloned(),
    };
    value::Value::from(inputs.unwrap_or_default()).to_json()
}

#[tokio::test]
async fn a_start_by_hand_reads_and_stores_converted_inputs() {
    let project = Project::with(&by_hand());
    let engine = project.start().await;
    for (given, expected) in GIVEN {
        let id = start_with(&engine, given).await;
        assert_eq!(sorted(&end(&engine, id).await), sorted(expected), "{given}");
    }
    let id = start_with(&engine, r#"{"n":"5","t":17,"c":null}"#).await;
    assert_eq!(stored(&engine, id).await, r#"{"n":5,"t":"17"}"#, "defaults are not stored");
    end(&engine, id).await;
    let before = rows(&engine).await.len();
    for (given, expected) in REFUSED {
        let start = ManualStart::new(Payload::manual(map(given)), model::Origin::Manual);
        let id = model::AutomationId::parse("test").expect("an id");
        let error = engine.ingress().start(&id.into(), start).await.expect_err("it is refused").to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!(rows(&engine).await.len(), before, "nothing started");
    stop(engine).await;
}

#[tokio::test]
async fn a_webhook_converts_the_inputs_that_it_gives_or_answers_400() {
    const PASSED: &str = "n: '${{ trigger.results.body.data.n | default(null) }}', t: '${{ trigger.results.body.data.t | default(null) }}', l: '${{ trigger.results.body.data.l | default(null) }}', m: '${{ trigger.results.body.data.m | default(null) }}', c: '${{ trigger.results.body.data.c | default(null) }}', a: '${{ trigger.results.body.data.a | default(null) }}'";
    let project = Project::with(&format!(
        "trigger: {{webhook: {{verify: none, mode: sync}}, inputs: {{{PASSED}}}}}\n{TYPED}"
    ));
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    for (given, expected) in GIVEN {
        let answer = text(&soon(engine.ingress().receive(&live, post(given))).await);
        let body = answer.strip_prefix("200 ").unwrap_or_else(|| panic!("{given}: {answer}"));
        assert_eq!(sorted(body), sorted(expected), "{given}");
    }
    let first = rows(&engine).await.last().expect("the first").id;
    assert_eq!(stored(&engine, first).await, r#"{"n":5,"t":"17","a":null}"#);
    let before = rows(&engine).await.len();
    for (given, expected) in REFUSED {
        let answer = text(&soon(engine.ingress().receive(&live, post(given))).await);
        assert!(answer.starts_with(&format!("400 {{\"error\":\"{expected}")), "{answer}");
        assert!(answer.contains("\"code\":\"bad_input\""), "{answer}");
    }
    assert_eq!(rows(&engine).await.len(), before, "nothing started");
    stop(engine).await;
}

#[tokio::test]
async fn a_call_converts_the_inputs_of_its_callee_or_fails_its_step() {
    let project = Project::with(
        "trigger: {manual: {}}\ninputs: {v: {type: any}}\nsteps:\n  - id: a\n    call: typed\n    with: {n: \"${{ inputs.v }}\", t: 17}\n    onError: [{set: {kind: \"${{ error.kind }}\"}}]\noutputs: ${{ steps.a.results }}\n",
    );
    project.write("automations/typed.yaml", &by_hand());
    let engine = project.start().await;
    for (given, expected) in [
        (r#"{"v":"5"}"#, r#"{"n":5,"t":"17","#),
        (r#"{"v":null}"#, r#"{"n":3,"t":"17","#),
        (r#"{"v":"five"}"#, r#"{"kind":"input"}"#),
    ] {
        let id = start_with(&engine, given).await;
        let result = end(&engine, id).await;
        assert!(result.starts_with(expected), "{given}: {result}");
    }
    let children = rows(&engine).await.into_iter().filter(|row| row.automation.as_str() == "typed");
    let first = children.last().expect("the first call").id;
    assert_eq!(stored(&engine, first).await, r#"{"n":5,"t":"17"}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_replay_converts_recorded_inputs_to_the_types_of_its_version() {
    let file = |kind: &str| {
        format!(
            "trigger: {{webhook: {{verify: none}}, inputs: {{v: '${{{{ trigger.results.body.data.v }}}}'}}}}\ninputs: {{v: {{type: {kind}}}}}\nsteps: [{{set: {{v: '${{{{ inputs.v }}}}'}}}}]\n"
        )
    };
    let project = Project::with(&file("integer"));
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    soon(engine.ingress().receive(&live, post(r#"{"v":"5"}"#))).await;
    let id = rows(&engine).await[0].id;
    assert_eq!(end(&engine, id).await, r#"{"v":5}"#);
    for (kind, expected) in
        [("text", r#"{"v":"5"}"#), ("list", r#"{"v":[5]}"#), ("boolean", "must be true or false")]
    {
        project.write("automations/test.yaml", &file(kind));
        engine.reload().await;
        let result = match engine.records().plan_replay(id, ReplayRequest::default()).await {
            Err(error) => error.to_string(),
            Ok(plan) => {
                let new = engine.ingress().replay(plan).await.expect("it is replayed");
                show(&soon(engine.admission().wait(new)).await.expect("it ends"))
            }
        };
        assert!(result.contains(expected), "{kind}: {result}");
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_form_gives_converted_values() {
    let project = Project::with(&manual(
        "  - id: ask\n    waitFor:\n      approval:\n        message: Send?\n        options: [send]\n        form: {copies: {type: integer, required: true}, note: {type: text, default: none}}\n",
    ));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    let answer = |form: &str| Answer { option: "send".to_owned(), form: map(form), by: None };
    let missing = engine.admission().answer(id, None, answer(r#"{"copies":null}"#)).await;
    assert!(missing.expect_err("it is required").to_string().contains("`copies`"));
    engine.admission().answer(id, None, answer(r#"{"copies":"2","note":7}"#)).await.expect("it is taken");
    assert_eq!(end(&engine, id).await, r#"{"option":"send","form":{"copies":2,"note":"7"}}"#);
    stop(engine).await;
}
