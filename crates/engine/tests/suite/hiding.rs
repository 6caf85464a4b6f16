//! Secrets stay out of the history, wherever a step puts them.

use engine::Engine;
use model::execution::ExecutionId;
use pretty_assertions::assert_eq;

use crate::common::{Peer, Project, end, open_store, show, soon, start_with, steps_of, stop};

/// A canary: the data folder is searched for it when the project is dropped.
const SECRET: &str = "canary-4471-kettle7";

/// Creates a project whose Automation reads the secret and has these steps.
fn knowing(steps: &str) -> Project {
    let project = Project::with(&format!(
        "trigger: {{manual: {{}}}}\nconfigVars:\n  key: {{value: \"${{{{ secrets.deskKey }}}}\", secret: true}}\nsteps:\n{steps}"
    ));
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    project.write("secrets/deskKey", SECRET);
    project
}

/// Returns the events and log lines of an execution as text.
async fn everything(engine: &Engine, id: ExecutionId) -> String {
    let events = engine.store().events(id).await.expect("events").expect("it exists");
    let logs = engine.store().logs(id, 0, 1000).await.expect("logs");
    format!("{events:?} {logs:?}")
}

#[tokio::test]
async fn a_copied_secret_is_masked_in_the_history_and_for_later_steps() {
    let project = knowing(
        "  - {id: a, set: {header: \"Bearer ${{ configVars.key }}\", length: \"${{ configVars.key | length }}\"}}\n  \
         - {id: b, action: log.info, with: {message: \"the key is ${{ configVars.key }}\"}}\n  \
         - {id: c, set: {again: \"${{ vars.header }}\", coded: \"${{ configVars.key | base64 }}\"}}\n",
    );
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let outcome = soon(engine.admission().wait(id)).await.expect("it ends");
    assert_eq!(show(&outcome), r#"{"again":"Bearer ***","coded":"***"}"#);
    assert_eq!(steps_of(&engine, id).await[0], r#"a={"header":"Bearer ***","length":19}"#);
    let everything = everything(&engine, id).await;
    assert!(!everything.contains(SECRET), "{everything}");
    assert!(everything.contains("the key is ***"), "{everything}");
    stop(engine).await;
}

#[tokio::test]
async fn a_call_sends_the_secret_and_an_echoed_secret_is_masked() {
    let mut peer = Peer::new().await;
    let steps = format!(
        "  - id: ask\n    action: http.request\n    with:\n      method: POST\n      url: \"{}/\"\n      \
         headers: {{x-key: \"${{{{ configVars.key }}}}\"}}\n",
        peer.base
    );
    let project = knowing(&steps);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let asked = peer.next_request().await;
    assert_eq!(asked.header("x-key"), Some(SECRET));
    asked.answer(200, &format!("{{\"echo\": \"<{SECRET}>\"}}")).await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains("<***>") && !outcome.contains(SECRET), "{outcome}");
    assert!(!everything(&engine, id).await.contains(SECRET));
    stop(engine).await;
}

#[tokio::test]
async fn errors_child_inputs_and_state_contain_no_secret() {
    let project = knowing(
        "  - {id: child, call: other, with: {key: \"${{ configVars.key }}\"}}\n  \
         - {id: keep, action: state.set, with: {key: k, value: \"${{ configVars.key }}\"}}\n  \
         - {id: boom, fail: \"not with ${{ configVars.key }}\"}\n",
    );
    project.write(
        "automations/other.yaml",
        "trigger: {manual: {}}\ninputs: {key: {type: text}}\nsteps: [{set: {got: \"${{ inputs.key }}\"}}]\n",
    );
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let outcome = soon(engine.admission().wait(id)).await.expect("it ends");
    assert_eq!(show(&outcome), "failed: not with ***");
    stop(engine).await;
    drop(open_store(&project.settings.data_dir));
    for file in std::fs::read_dir(&project.settings.data_dir).expect("the folder").flatten() {
        let bytes = std::fs::read(file.path()).expect("a file");
        let found = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!found, "{}", file.path().display());
    }
}

#[tokio::test]
async fn an_execution_that_reads_no_secret_is_not_masked() {
    /// A secret of another Automation, and an ordinary word here.
    const WORD: &str = "kettle-whistle";
    let project = Project::with(
        "trigger: {manual: {}}\ninputs: {text: {type: text}}\nsteps: [{set: {got: \"${{ inputs.text }}\"}}]\n",
    );
    project.settings.redactor.add_secret(WORD);
    let engine = project.start().await;
    let id = start_with(&engine, &format!("{{\"text\": \"{WORD}\"}}")).await;
    let outcome = soon(engine.admission().wait(id)).await.expect("it ends");
    assert_eq!(show(&outcome), format!(r#"{{"got":"{WORD}"}}"#));
    stop(engine).await;
}

#[tokio::test]
async fn a_debugged_graphql_request_shows_its_credentials_unless_the_settings_forbid_it() {
    for allowed in [true, false] {
        let mut peer = Peer::new().await;
        let mut project = Project::with(
            "trigger: {manual: {}}\nsteps:\n  - {id: ask, action: wiki.rawGraphqlRequest, connection: desk, debug: true, \
             with: {query: \"{ x }\"}}\n",
        );
        project.settings.allow_credential_debug = allowed;
        std::fs::create_dir_all(project.path("secrets")).expect("a folder");
        // Not a canary, since it must be found.
        project.write("secrets/shown", "lantern-5518-tin");
        let with = format!(
            "{{email: a@b.example, apiToken: \"${{{{ secrets.shown }}}}\", host: \"{}\"}}",
            peer.base
        );
        project.write("connections/desk.yaml", &format!("type: wiki.basic\nwith: {with}\n"));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        let asked = peer.next_request().await;
        let credentials = asked.header("authorization").expect("credentials").to_owned();
        asked.answer(200, r#"{"data": {"x": 1}}"#).await;
        soon(engine.admission().wait(id)).await.expect("it ends");
        // The peer returns headers in lower case.
        assert_eq!(
            everything(&engine, id).await.to_lowercase().contains(&credentials),
            allowed,
            "{credentials}"
        );
        stop(engine).await;
    }
}

/// Returns the offsets of the secret for which a truncation at `limit` characters falls near it or into it.
fn offsets(limit: usize) -> std::ops::RangeInclusive<usize> {
    limit - SECRET.len() - 2..=limit + 1
}

#[tokio::test]
async fn log_lines_are_truncated_after_masking() {
    let range = offsets(4096);
    let items = format!("\"${{{{ range({}, {}) }}}}\"", range.start(), range.end() + 1);
    let project = knowing(&format!(
        "  - id: lines\n    forEach: {items}\n    steps:\n      \
         - {{id: line, action: log.info, with: {{message: \"${{{{ 'q' * item }}}}${{{{ configVars.key }}}}zz\"}}}}\n"
    ));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let outcome = soon(engine.admission().wait(id)).await.expect("it ends");
    let logs = engine.store().logs(id, 0, 1000).await.expect("logs");
    assert_eq!(logs.len(), range.count(), "{}", show(&outcome));
    for line in &logs {
        assert!(!line.message.contains("can"), "{}", line.message.replace("qq", ""));
    }
    assert!(logs.iter().any(|line| line.message.ends_with("qq…")), "one is truncated before the secret");
    assert!(logs.iter().any(|line| line.message.ends_with("***…")), "one is truncated after it");
    assert!(!everything(&engine, id).await.contains("can"));
    stop(engine).await;
}

#[tokio::test]
async fn log_lines_and_errors_of_code_are_truncated_after_masking() {
    let project = knowing(
        "  - {id: given, set: {at: \"${{ inputs.at }}\"}}\n  - id: code\n    code: |\n      export default (context, stepResults) => {\n        \
         const text = 'q'.repeat(stepResults.given.results.at) + context.configVars.key + 'zz';\n        \
         context.logger.info(text);\n        throw new Error(text);\n      };\n",
    );
    let file = std::fs::read_to_string(project.path("automations/test.yaml")).expect("it is there");
    project.write("automations/test.yaml", &file.replace("steps:", "inputs: {at: {type: integer}}\nsteps:"));
    let engine = project.start().await;
    for at in offsets(4096) {
        let id = start_with(&engine, &format!("{{\"at\": {at}}}")).await;
        let outcome = end(&engine, id).await;
        assert!(outcome.starts_with("failed: qqq") && !outcome.contains("can"), "{at}: {outcome}");
        let logs = engine.store().logs(id, 0, 1000).await.expect("logs");
        assert!(logs[0].message.starts_with("qqq") && logs[0].message.chars().count() <= 4097, "{at}");
        let everything = everything(&engine, id).await;
        assert!(!everything.contains("can"), "{at}: {}", everything.replace("qq", ""));
    }
    stop(engine).await;
}

#[tokio::test]
async fn log_lines_of_trigger_code_are_truncated_after_masking() {
    let project = knowing("  - {id: a, set: {b: 1}}\n");
    project.write(
        "automations/test.yaml",
        "trigger:\n  webhook:\n    verify: none\n    code: |\n      export default (context, payload) => {\n        \
         context.logger.info('q'.repeat(payload.body.data.at) + context.configVars.key + 'zz');\n        \
         return {payload: {}};\n      };\n\
         configVars:\n  key: {value: \"${{ secrets.deskKey }}\", secret: true}\nsteps:\n  - {id: a, set: {b: 1}}\n",
    );
    let engine = project.start().await;
    let (live, _) = crate::hooks::tokens(&engine);
    for at in offsets(4096) {
        let answer =
            soon(engine.ingress().receive(&live, crate::hooks::post(&format!("{{\"at\": {at}}}")))).await;
        let id = answer.header("x-execution-id").expect("it starts").parse().expect("an id");
        soon(engine.admission().wait(id)).await.expect("it ends");
        let everything = everything(&engine, id).await;
        assert!(
            everything.contains("qqq") && !everything.contains("can"),
            "{at}: {}",
            everything.replace("qq", "")
        );
    }
    stop(engine).await;
}

#[tokio::test]
async fn error_responses_are_truncated_after_masking() {
    let mut peer = Peer::new().await;
    let steps = format!(
        "  - id: ask\n    action: http.request\n    with:\n      method: POST\n      url: \"{}/\"\n      \
         headers: {{x-key: \"${{{{ configVars.key }}}}\"}}\n",
        peer.base
    );
    let project = knowing(&steps);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    // A prefix of 7 characters is too short to be masked after truncation.
    let words = format!("{}{SECRET} {}", "q".repeat(400 - 7), "z".repeat(70_000));
    peer.next_request().await.answer(400, &format!("{{\"message\": \"{words}\"}}")).await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains("qqq*** zzz…"), "{outcome}");
    assert!(!everything(&engine, id).await.contains("can"));
    stop(engine).await;
}

#[tokio::test]
async fn a_quoted_invalid_input_contains_no_prefix_of_a_secret() {
    for before in 0..40 {
        let steps = format!(
            "  - {{id: ask, action: http.request, with: {{method: \"{}${{{{ configVars.key }}}}{}\", url: \"http://a.example/\"}}}}\n",
            "Q".repeat(before),
            "Z".repeat(40)
        );
        let project = knowing(&steps);
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        let outcome = end(&engine, id).await;
        assert!(outcome.contains("…`") && !outcome.contains("canary-4"), "{before}: {outcome}");
        assert!(!everything(&engine, id).await.contains("canary-4"));
        stop(engine).await;
    }
}
