//! Deletion of executions: by rule, and when the store reaches its size limit.

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, stores::Location};
use model::execution::Origin;
use model::payload::{HttpResponse, Payload};
use runtime::{AcceptOptions, Start};
use store::{Capacity, Durability, Options, Store};
use value::Map;

use crate::common::{Project, rows, settled, soon, start_with, stop, until, until_async};
use crate::hooks::{post, text, tokens};

const DAY: Duration = Duration::from_secs(86_400);

/// The size limit of the store in these tests, and the size of a request body.
const MAX_BYTES: u64 = 4 << 20;
const BODY: usize = 40_000;

/// Returns the numbers of kept executions without and with an error.
async fn kept(engine: &Engine) -> (usize, usize) {
    let rows = rows(engine).await;
    let failed = rows.iter().filter(|row| row.error.is_some()).count();
    (rows.len() - failed, failed)
}

#[tokio::test]
async fn a_file_sets_the_age_and_the_number_of_kept_executions() {
    let project = Project::with(
        "trigger: {manual: {}}\nretention: {days: 10, failedDays: 20, count: 3}\n\
         inputs: {fails: {type: boolean, required: true}}\n\
         steps:\n  - {if: inputs.fails, then: [{fail: this one does}]}\n",
    );
    let engine = project.start().await;
    settled(&project, "2026-03-02T09:00:00Z").await;
    for fails in [true, false, false, true, false, false, false] {
        let id = start_with(&engine, &format!(r#"{{"fails": {fails}}}"#)).await;
        soon(engine.admission().wait(id)).await.expect("it ends");
    }
    assert_eq!(kept(&engine).await, (5, 2));
    for (wait, next, expected) in [
        (Duration::from_secs(3600), "2026-03-02T10:00:00Z", (3, 2)),
        (10 * DAY, "2026-03-12T10:00:00Z", (0, 2)),
        (10 * DAY, "2026-03-22T10:00:00Z", (0, 0)),
    ] {
        project.clock.advance(wait);
        settled(&project, next).await;
        assert_eq!(kept(&engine).await, expected, "at {next}");
    }
    stop(engine).await;
}

#[tokio::test]
async fn executions_are_kept_for_14_days_by_default() {
    let project = Project::with("trigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n");
    let engine = project.start().await;
    settled(&project, "2026-03-02T09:00:00Z").await;
    let id = start_with(&engine, "{}").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    for (wait, next, expected) in
        [(14 * DAY, "2026-03-16T09:00:00Z", 1), (Duration::from_secs(3600), "2026-03-16T10:00:00Z", 0)]
    {
        project.clock.advance(wait);
        settled(&project, next).await;
        assert_eq!(kept(&engine).await, (expected, 0), "at {next}");
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_schedule_key_outlives_its_execution_for_30_days_after_acceptance() {
    const HOUR: Duration = Duration::from_secs(3600);
    let project = Project::with("trigger: {manual: {}}\nretention: {days: 1}\nsteps: [{set: {a: 1}}]\n");
    let engine = project.start().await;
    settled(&project, "2026-03-02T09:00:00Z").await;
    // As the scheduler starts an instant.
    let start = async || {
        let instant = "2026-03-02T08:00:00Z".parse().expect("an instant");
        let start = Start {
            payload: Payload::manual(Map::new()),
            origin: Origin::Schedule { instant },
            by: runtime::StartedBy::default(),
        };
        let options = AcceptOptions { key: Some("instant".to_owned()), ..AcceptOptions::default() };
        let deployment = engine.catalog().find("test").expect("it is in force").clone();
        engine.admission().accept(&deployment, start, options).await.expect("it is accepted").id
    };
    let pass = async |time: Duration| {
        project.clock.advance(time);
        soon(project.clock.somebody_sleeps_until(engine.clock().now() + HOUR)).await;
    };
    let first = start().await;
    soon(engine.admission().wait(first)).await.expect("it ends");
    pass(DAY + HOUR).await;
    assert_eq!(kept(&engine).await, (0, 0));
    assert_eq!(start().await, first);
    pass(29 * DAY - HOUR).await;
    assert_eq!(start().await, first, "30 days after the acceptance");
    pass(HOUR).await;
    assert_ne!(start().await, first);
    stop(engine).await;
}

async fn small_store(project: &Project) -> (Engine, Arc<dyn Store>) {
    let options =
        Options { max_bytes: Some(MAX_BYTES), durability: Durability::Relaxed, ..Options::default() };
    let location = Location::from(project.settings.data_dir.as_path());
    let store = engine::stores::open(&location, options).expect("it opens");
    (project.start_on(store.clone()).await, store)
}

/// Sends the request with this number.
async fn send(engine: &Engine, number: usize) -> HttpResponse {
    let (live, _) = tokens(engine);
    let request = post(&format!(r#"{{"n": {number}, "text": "{:BODY$}"}}"#, number));
    soon(Box::pin(engine.ingress().receive(&live, request))).await
}

/// Repeats a request until it is accepted, and advances the clock past the pauses between clean-ups.
async fn send_until_taken(project: &Project, engine: &Engine, number: usize) {
    soon(async {
        while send(engine, number).await.status != 200 {
            project.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_full_store_prunes_the_oldest_ended_executions_and_accepts_new_ones() {
    let project = Project::with("trigger: {webhook: {verify: none}}\nsteps: []\n");
    let (engine, store) = small_store(&project).await;
    let first = soon(engine.ingress().receive(&tokens(&engine).0, post("{}"))).await;
    // Four times the size of the store.
    for number in 0..400 {
        send_until_taken(&project, &engine, number).await;
    }
    let info = store.info().await.expect("it is told");
    let file = std::fs::metadata(project.settings.data_dir.join("cogwork.db")).expect("it is there").len();
    assert!(file + info.blob_bytes <= MAX_BYTES, "{info:?}");
    let id = first.header("x-execution-id").expect("it names the execution").parse().expect("an id");
    assert_eq!(store.execution(id).await.expect("it is read"), None, "the oldest is pruned");
    assert!(kept(&engine).await.0 > 20, "no more than necessary");
    stop(engine).await;
}

#[tokio::test]
async fn a_full_store_of_unfinished_executions_refuses_starts_until_one_ends() {
    let project = Project::with("trigger: {webhook: {verify: none}}\nsteps: [{wait: 1d}]\n");
    let (engine, store) = small_store(&project).await;
    let mut taken = 0;
    let refused = loop {
        let answer = send(&engine, taken).await;
        if answer.status != 200 {
            break answer;
        }
        taken += 1;
        assert!(taken < 1000, "the size holds");
    };
    assert!(text(&refused).starts_with("503 ") && text(&refused).contains("full"), "{}", text(&refused));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(store.capacity(), Capacity::Exhausted);
    assert_eq!(
        store.unfinished_count().await.expect("it is counted"),
        taken as u64,
        "none of them is pruned"
    );
    // They finish in the reserved space, and free space for others.
    project.clock.advance(DAY);
    send_until_taken(&project, &engine, taken).await;
    until_async(async || store.unfinished_count().await.expect("it is counted") <= 1).await;
    stop(engine).await;
}

/// A body of about [`BODY`] bytes that cannot be compressed much.
fn random_body(number: u64) -> String {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::with_capacity(BODY);
    while text.len() < BODY {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:016x}", state ^ (state >> 29)));
    }
    format!(r#"{{"n": {number}, "text": "{text}"}}"#)
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nearly_full_database_prunes_only_as_much_as_needed() {
    const SENT: u64 = 300;
    let server = store::conformance::PostgresServer::start();
    let space = server.space();
    let project = Project::with("trigger: {webhook: {verify: none}}\nsteps: []\n");
    let open = |max_bytes| {
        let local = Some(project.settings.data_dir.clone());
        let options = Options { max_bytes, local, ..Options::default() };
        let location = Location::parse(&space.url(), std::path::Path::new("")).expect("an address");
        engine::stores::open(&location, options).expect("it opens")
    };
    let engine = project.start_on(open(None)).await;
    let (live, _) = tokens(&engine);
    for number in 0..SENT {
        let answer = soon(Box::pin(engine.ingress().receive(&live, post(&random_body(number))))).await;
        assert_eq!(answer.status, 200, "{}", text(&answer));
    }
    let bytes = engine.store().info().await.expect("it is measured").bytes;
    stop(engine).await;
    // 92 % of the limit.
    let engine = project.start_on(open(Some(bytes * 100 / 92))).await;
    let store = engine.store().clone();
    until(|| store.capacity() == Capacity::Ample).await;
    let left = kept(&engine).await.0;
    assert!((200..300).contains(&left), "{left} of {SENT} are left");
    // The next executions that end delete no more than a few, also when the size is measured again.
    for number in SENT..SENT + 5 {
        let answer = soon(Box::pin(engine.ingress().receive(&live, post(&random_body(number))))).await;
        assert_eq!(answer.status, 200, "{}", text(&answer));
        store.info().await.expect("it is measured");
    }
    let left = kept(&engine).await.0;
    assert!(left >= 190, "{left} are left");
    stop(engine).await;
}
