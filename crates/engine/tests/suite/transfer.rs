//! Exports and imports of executions as JSON lines.

use std::sync::Arc;
use std::time::Duration;

use engine::{
    Engine,
    transfer::{Exported, Imported, TransferError, export_executions, import_executions},
};
use jiff::{SignedDuration, Timestamp};
use model::{Event, ExecutionId, Origin, Outcome, Status};
use pretty_assertions::assert_eq;
use store::{ExecutionFilter, Page, Store};
use trigger::webhook::Request;
use value::{CHUNK_SIZE, Reserved};

use crate::common::{Project, end, open_store, start_and_suspend, start_with, stop, until};
use crate::hooks::tokens;

fn now() -> Timestamp {
    "2026-12-01T08:00:00Z".parse().expect("an instant")
}

async fn export(store: &dyn Store, filter: &ExecutionFilter) -> (String, Exported) {
    let mut out = Vec::new();
    let exported = export_executions(store, filter, "0.1.0", now(), &mut out).await.expect("it is exported");
    (String::from_utf8(out).expect("it is text"), exported)
}

async fn import(store: &Arc<dyn Store>, text: &str) -> Result<Imported, TransferError> {
    import_executions(store, now(), text.as_bytes()).await
}

async fn rows(store: &dyn Store) -> Vec<store::ExecutionRow> {
    store
        .executions(&ExecutionFilter::default(), Page { before: None, limit: 100 })
        .await
        .expect("they are listed")
}

/// Returns the origin of an execution and its events after the first.
async fn log(store: &dyn Store, id: ExecutionId) -> (Origin, Vec<Event>) {
    let mut events = store.events(id).await.expect("they are read").expect("it is there");
    let Event::Started { origin, .. } = events.remove(0) else { panic!("it has started") };
    (origin, events)
}

const STEPS: &str = "  - {action: log.info, with: {message: \"hello ${{ inputs.name }}\"}}\n  \
    - if: inputs.name == 'late'\n    then: [{wait: 1h}]\n  - {set: {size: \"${{ inputs.name | length }}\"}}\n";

#[tokio::test]
async fn an_imported_execution_keeps_its_history_is_marked_and_never_runs() {
    let project = Project::with(&crate::common::manual(STEPS));
    let engine = project.start().await;
    let done = start_with(&engine, "{\"name\": \"Ada\"}").await;
    end(&engine, done).await;
    let waits = start_and_suspend(&engine, "{\"name\": \"late\"}").await;
    let (text, exported) = export(&**engine.store(), &ExecutionFilter::default()).await;
    assert_eq!(exported, Exported { executions: 2, unfinished: 1 });
    let first = text.lines().next().expect("a line");
    assert!(first.starts_with("{\"cogworkExecutions\":1,\"release\":\"0.1.0\""), "{first}");
    assert_eq!(text.matches("{\"definition\"").count(), 1, "a definition is written once");

    let other = Project::with(&crate::common::manual(STEPS));
    let store = other.open_store();
    let imported = import(&store, &text).await.expect("it is imported");
    assert_eq!((imported.executions, imported.cancelled, imported.refused), (2, 1, 0));
    let (origin, events) = log(&*store, done).await;
    assert_eq!(origin, Origin::Imported { at: now(), original: Box::new(Origin::Manual) });
    assert_eq!(events, log(&**engine.store(), done).await.1);
    assert_eq!(
        store.logs(done, 0, 9).await.expect("they are read"),
        engine.store().logs(done, 0, 9).await.expect("they are read")
    );
    let definition = rows(&*store).await[0].definition;
    assert!(store.definition(definition).await.expect("it is read").is_some());
    let (_, events) = log(&*store, waits).await;
    let Some(Event::Finished { outcome: Outcome::Cancelled { reason }, .. }) = events.last() else {
        panic!("it is cancelled: {events:?}")
    };
    assert!(reason.starts_with("imported"), "{reason}");
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 0);

    // A second import adds nothing.
    let again = import(&store, &text).await.expect("it is read");
    assert_eq!((again.executions, again.refused, again.refusals.len()), (0, 2, 2));
    assert!(again.refusals[0].1.contains("already"), "{:?}", again.refusals);

    // A daemon on the store runs none of them, and exporting and importing again keeps the mark.
    let over = other.start_on(store).await;
    assert_eq!((over.status().in_flight, over.status().resting), (0, 0));
    let (text, _) = export(&**over.store(), &ExecutionFilter::default()).await;
    stop(over).await;
    let third = tempfile::tempdir().expect("a folder");
    let store = open_store(third.path());
    import(&store, &text).await.expect("it is imported");
    assert_eq!(
        log(&*store, done).await.0,
        Origin::Imported { at: now(), original: Box::new(Origin::Manual) }
    );
    store.close().await.expect("it closes");
    stop(engine).await;
}

/// Builds a request with a body on disk.
fn upload(engine: &Engine, body: &[u8]) -> Request {
    let mut file = engine.ingress().files().create().expect("it begins");
    file.write(body).expect("it is written");
    let body = file.finish().expect("it is there");
    let headers = vec![("content-type".to_owned(), b"application/octet-stream".to_vec())];
    Request { method: "POST".to_owned(), headers, body, ..Request::default() }
}

#[tokio::test]
async fn files_are_exported_in_parts_and_imported_whole() {
    let project = Project::with("trigger: {webhook: {verify: none}}\nsteps: [{set: {a: 1}}]\n");
    let engine = project.start().await;
    let body: Vec<u8> = (0..3 * CHUNK_SIZE + 17).map(|at| (at % 251) as u8).collect();
    let (live, _) = tokens(&engine);
    assert_eq!(engine.ingress().receive(&live, upload(&engine, &body)).await.status, 200);
    until(|| engine.status().in_flight == 0).await;
    let (text, exported) = export(&**engine.store(), &ExecutionFilter::default()).await;
    assert_eq!((exported.executions, exported.unfinished), (1, 0));
    assert!(text.lines().all(|line| line.len() < 200 << 10), "no line has a whole file");
    stop(engine).await;

    let folder = tempfile::tempdir().expect("a folder");
    let store = open_store(folder.path());
    import(&store, &text).await.expect("it is imported");
    let id = rows(&*store).await[0].id;
    store.close().await.expect("it closes");
    let store = open_store(folder.path());
    let events = store.events(id).await.expect("they are read").expect("it is there");
    let Event::Started { payload, .. } = &events[0] else { panic!("it has started") };
    let model::Payload::Webhook(request) = &**payload else { panic!("it is a request") };
    assert!(request.body.data.is_external());
    assert!(
        request.body.data.load(1 << 20, &Reserved::uncounted(1 << 20)).expect("it is there")[..] == body[..],
        "not a byte is lost"
    );
    store.close().await.expect("it closes");

    // Without its bytes the execution is refused.
    let cut: Vec<&str> = text.lines().filter(|line| !line.starts_with("{\"bytes\"")).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let store = open_store(folder.path());
    let imported = import(&store, &(cut.join("\n") + "\n")).await.expect("it is read");
    assert_eq!((imported.executions, imported.refused), (0, 1));
    assert!(imported.refusals[0].1.contains("is missing"), "{:?}", imported.refusals);
    store.close().await.expect("it closes");
}

#[tokio::test]
async fn an_export_contains_the_executions_of_its_filter() {
    let project = Project::with(&crate::common::manual(STEPS));
    project.write("automations/other.yaml", "trigger: {manual: {}}\nsteps: [{fail: no}]\n");
    let engine = project.start().await;
    for name in ["a", "b"] {
        let id = start_with(&engine, &format!("{{\"name\": \"{name}\"}}")).await;
        end(&engine, id).await;
        project.clock.advance(Duration::from_secs(60));
    }
    let failed = ExecutionFilter { status: vec![Status::Failed], ..ExecutionFilter::default() };
    assert_eq!(export(&**engine.store(), &failed).await.1.executions, 0);
    let newest = rows(&**engine.store()).await[0].started_at;
    let since = ExecutionFilter { since: Some(newest), ..ExecutionFilter::default() };
    assert_eq!(export(&**engine.store(), &since).await.1.executions, 1);
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_whose_id_is_older_than_its_first_event_is_imported() {
    let project = Project::with(&crate::common::manual(STEPS));
    let engine = project.start().await;
    let id = start_with(&engine, "{\"name\": \"Ada\"}").await;
    end(&engine, id).await;
    let (text, _) = export(&**engine.store(), &ExecutionFilter::default()).await;
    stop(engine).await;
    let created = id.created_at().expect("a time");
    // Trigger code, or a wait for memory, may run between the two.
    for (earlier, imported) in [(1, 1), (35_000, 1), (7_200_000, 0)] {
        let at = created.checked_sub(SignedDuration::from_millis(earlier)).expect("a time");
        let other = text.replace(&id.to_string(), &ExecutionId::new(at, [7; 10]).to_string());
        let folder = tempfile::tempdir().expect("a folder");
        let store = open_store(folder.path());
        let found = import(&store, &other).await.expect("it is read");
        assert_eq!((found.executions, found.refused), (imported, 1 - imported), "{earlier} ms");
        store.close().await.expect("it closes");
    }
}

#[tokio::test]
async fn an_incomplete_or_invalid_export_is_refused_with_the_line() {
    let project = Project::with(&crate::common::manual(STEPS));
    let engine = project.start().await;
    let id = start_with(&engine, "{\"name\": \"Ada\"}").await;
    end(&engine, id).await;
    let (text, _) = export(&**engine.store(), &ExecutionFilter::default()).await;
    stop(engine).await;
    let lines: Vec<&str> = text.lines().collect();
    let &[header, definition, execution, last] = lines.as_slice() else { panic!("four lines: {text}") };
    let later = header.replace("\"cogworkExecutions\":1", "\"cogworkExecutions\":2");
    let forged = definition.replace("hello", "goodbye");
    let other_time = execution.replacen(&id.to_string(), "00000000-0000-7000-8000-000000000000", 1);
    for (lines, expected) in [
        (vec![""], "not an export"),
        (vec!["{\"executions\": []}"], "not an export"),
        (vec![later.as_str(), last], "release 0.1.0 wrote this file in version 2"),
        (vec![header, definition, execution], "cut off"),
        (
            vec![header, forged.as_str(), execution, last],
            "line 2: the `hash` of the definition does not match",
        ),
        (vec![header, "{\"surprise\": 1}", last], "line 2: unknown variant `surprise`"),
        (vec![header, definition, &execution[..execution.len() - 9], last], "line 3: "),
        (vec![header, "{\"bytes\": \"AAAA\"}", last], "line 2: `bytes` without a `file`"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open_store(folder.path());
        let error = import(&store, &(lines.join("\n") + "\n")).await.expect_err("it is refused").to_string();
        assert!(error.contains(expected), "`{expected}` is missing in `{error}`");
        store.close().await.expect("it closes");
    }
    for (lines, expected) in [
        (vec![header, execution, last], "is not stored"),
        (vec![header, definition, other_time.as_str(), last], "the time in its id"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open_store(folder.path());
        let imported = import(&store, &(lines.join("\n") + "\n")).await.expect("it is read");
        assert_eq!((imported.executions, imported.refused), (0, 1));
        assert!(imported.refusals[0].1.contains(expected), "{:?}", imported.refusals);
        assert_eq!(rows(&*store).await, []);
        store.close().await.expect("it closes");
    }
}
