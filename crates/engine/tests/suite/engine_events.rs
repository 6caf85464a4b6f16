//! Failures start the triggers on events of the engine that want them, and each counts once.

use std::time::Duration;

use engine::Engine;
use model::engine_event::EngineEventName;
use model::execution::{ExecutionId, Origin};
use model::payload::Payload;
use runtime::{Clock as _, ManualStart};
use store::{ExecutionRow, OutboxRow};
use value::Value;

use crate::common::{Peer, Project, crash, end, json, rows, settled, start_with, stop, until_async};
use crate::crashes::at_each_commit;

const MINUTE: Duration = Duration::from_secs(60);

/// An automation that fails as its input says.
pub(crate) const FAILS: &str = r#"name: Orders
labels: [billing, shop]
trigger: {manual: {}}
inputs: {why: {type: text, default: broken}}
steps:
  - {id: charge, if: inputs.why != 'no', fail: "${{ inputs.why }}"}
"#;

/// A handler whose result is what it heard.
fn handler(with: &str) -> String {
    event_handler("cogwork.failure", with)
}

pub(crate) fn event_handler(event: &str, with: &str) -> String {
    format!(
        "timeout: 24h\ntrigger: {{event: {event}{with}}}\nsteps: [{{set: {{x: 1}}}}]\noutputs: \"${{{{ trigger.results.body.data }}}}\"\n"
    )
}

fn project(handlers: &[(&str, &str)]) -> Project {
    let project = Project::with(FAILS);
    for (name, with) in handlers {
        project.write(&format!("automations/{name}.yaml"), &handler(with));
    }
    project
}

/// Waits until no event is on its way and no execution runs.
pub(crate) async fn quiet(engine: &Engine) {
    until_async(async || {
        // No execution was accepted in between, so nothing was sent.
        let before = rows(engine).await.len();
        let is_quiet = is_idle(engine).await && on_the_way(engine).await == 0 && is_idle(engine).await;
        is_quiet && rows(engine).await.len() == before
    })
    .await;
}

/// Lets time pass, while no execution runs, until no event waits for its minute.
async fn pass_minutes(project: &Project, engine: &Engine) {
    until_async(async || {
        let is_idle = is_idle(engine).await;
        let left = on_the_way(engine).await;
        if is_idle && left > 0 {
            project.clock.advance(Duration::from_secs(1));
        }
        is_idle && left == 0 && self::is_idle(engine).await
    })
    .await;
}

async fn on_the_way(engine: &Engine) -> u64 {
    let counts = engine.store().outbox_counts().await.expect("they are counted");
    counts.iter().map(|count| count.rows).sum()
}

async fn is_idle(engine: &Engine) -> bool {
    engine.store().unfinished_count().await.expect("they are counted") == 0
}

/// The executions of an automation, oldest first.
pub(crate) async fn executions(engine: &Engine, automation: &str) -> Vec<ExecutionRow> {
    let mut found = rows(engine).await;
    found.retain(|row| row.automation.as_str() == automation);
    found.sort_by_key(|row| row.id);
    found
}

/// The events that an automation heard, oldest first.
async fn heard(engine: &Engine, automation: &str) -> Vec<Value> {
    let mut heard = Vec::new();
    for row in executions(engine, automation).await {
        let outcome = end(engine, row.id).await;
        assert!(outcome.starts_with('{'), "{automation}: {outcome}");
        heard.push(json(&outcome));
    }
    heard
}

/// Members of what an automation heard, as texts, oldest first.
pub(crate) async fn told(engine: &Engine, automation: &str, names: &[&str]) -> Vec<String> {
    let member = |data: &Value, path: &str| {
        let found = path.split('.').try_fold(data.clone(), |value, name| value.get(name));
        found.map_or_else(|| "-".to_owned(), |value| value.to_text())
    };
    let heard = heard(engine, automation).await;
    let line = |data: &Value| names.iter().map(|name| member(data, name)).collect::<Vec<_>>().join(" ");
    heard.iter().map(line).collect()
}

async fn counts(engine: &Engine, automation: &str) -> Vec<u64> {
    let counts = told(engine, automation, &["count"]).await;
    counts.iter().map(|count| count.parse().expect("a number")).collect()
}

pub(crate) async fn fail(engine: &Engine, why: &str) -> ExecutionId {
    let id = start_with(engine, &format!(r#"{{"why": "{why}"}}"#)).await;
    end(engine, id).await;
    id
}

async fn start_of(engine: &Engine, id: &str, origin: Origin) -> ExecutionId {
    let start = ManualStart::new(Payload::manual(value::Map::new()), origin);
    let id = model::AutomationId::parse(id).expect("an id");
    engine.ingress().start(&id.into(), start).await.expect("it starts")
}

fn refused(engine: &Engine, reason: &str) -> u64 {
    engine.status().refused.get(reason).copied().unwrap_or_default()
}

#[tokio::test]
async fn handlers_start_one_by_one_if_the_queue_has_less_room_than_they_need() {
    let mut project = project(&[("alert", "")]);
    (project.settings.limits.in_flight, project.settings.limits.queue) = (1, 1);
    let store = project.open_store();
    let key = "alert".parse().expect("a key");
    let row = |number: u8| {
        let id = ExecutionId::new(project.clock.now(), [number; 10]);
        let error = format!(r#"{{"kind": "kind{number}", "message": "broken"}}"#);
        let data = format!(r#"{{"kind": "execution", "title": "a", "count": 1, "error": {error}}}"#);
        let name = OutboxRow::engine_name(EngineEventName::Failure, &key);
        OutboxRow {
            id,
            name,
            body: format!(r#"{{"id": "{number}", "data": {data}}}"#),
            at: project.clock.now(),
        }
    };
    store.write_state_and_emit(Vec::new(), [1, 2, 3].map(row).into()).await.expect("they are stored");
    let engine = project.start_on(store).await;
    pass_minutes(&project, &engine).await;
    assert_eq!(told(&engine, "alert", &["error.kind"]).await, ["kind1", "kind2", "kind3"]);
    assert!(refused(&engine, "busy") > 0);
    stop(engine).await;
}

#[tokio::test]
async fn a_failed_execution_starts_each_trigger_that_wants_it() {
    let mut project = project(&[
        ("all", ""),
        ("billing", ", with: {labels: [billing, other]}"),
        ("named", ", with: {automations: test, kinds: [execution, poll]}"),
        ("polls", ", with: {kinds: [poll]}"),
        ("others", ", with: {labels: [other]}"),
        ("conditional", ", if: trigger.results.error.kind == 'timeout'"),
    ]);
    project.write("automations/off.yaml", &format!("enabled: false\n{}", handler("")));
    project.settings.admin_url = Some("https://cogwork.internal/".to_owned());
    let engine = project.start().await;
    let id = fail(&engine, "no card").await;
    quiet(&engine).await;
    for name in ["all", "billing", "named"] {
        let heard = heard(&engine, name).await;
        assert_eq!(heard.len(), 1, "{name}");
        let started = engine.store().execution(id).await.expect("read").expect("it exists").started_at;
        let expected = format!(
            r#"{{"kind":"execution","title":"Orders failed: no card","automation":{{"id":"test","name":"Orders","labels":["billing","shop"]}},"trigger":"main","error":{{"kind":"failed","message":"no card","step":"charge"}},"execution":{{"id":"{id}","origin":"manual","startedAt":"{started}","attempt":1}},"file":null,"eventName":null,"count":1,"since":"{}","url":"https://cogwork.internal/executions/{id}"}}"#,
            project.clock.now()
        );
        assert_eq!(heard[0].to_json(), expected, "{name}");
    }
    for name in ["polls", "others", "conditional", "off"] {
        assert_eq!(executions(&engine, name).await.len(), 0, "{name}");
    }
    let Origin::Emitted { event, sender, test, .. } = &executions(&engine, "all").await[0].origin else {
        panic!("an event starts it");
    };
    assert_eq!((event.as_str(), *sender, *test), ("cogwork.failure", Some(id), false));
    stop(engine).await;
}

#[tokio::test]
async fn a_success_a_cancellation_and_a_test_raise_nothing() {
    let project = project(&[("all", "")]);
    let engine = project.start().await;
    fail(&engine, "no").await;
    let id = start_of(&engine, "test", Origin::Test).await;
    end(&engine, id).await;
    quiet(&engine).await;
    assert_eq!(executions(&engine, "all").await.len(), 0);
    stop(engine).await;
}

#[tokio::test]
async fn nothing_is_written_if_no_trigger_wants_a_failure() {
    let project = project(&[("polls", ", with: {kinds: [poll]}")]);
    let (engine, watched) = project.start_watched().await;
    fail(&engine, "once").await;
    assert_eq!(on_the_way(&engine).await, 0);
    drop(watched);
    stop(engine).await;
}

#[tokio::test]
async fn further_failures_of_one_step_start_one_a_minute_with_their_count() {
    let project = project(&[("all", "")]);
    let engine = project.start().await;
    fail(&engine, "first").await;
    until_async(async || executions(&engine, "all").await.len() == 1).await;
    for _ in 0..4 {
        fail(&engine, "later").await;
    }
    until_async(async || on_the_way(&engine).await == 4).await;
    project.clock.advance(MINUTE - Duration::from_secs(1));
    assert_eq!(executions(&engine, "all").await.len(), 1);
    project.clock.advance(Duration::from_secs(1));
    quiet(&engine).await;
    assert_eq!(
        told(&engine, "all", &["count", "title"]).await,
        ["1 Orders failed: first", "4 Orders failed: later (4 times)"]
    );
    stop(engine).await;
}

#[tokio::test]
async fn the_minute_between_two_executions_of_a_group_survives_a_restart() {
    let project = project(&[("all", "")]);
    let engine = project.start().await;
    fail(&engine, "first").await;
    quiet(&engine).await;
    fail(&engine, "later").await;
    until_async(async || on_the_way(&engine).await == 1).await;
    crash(engine).await;
    project.clock.advance(Duration::from_secs(30));
    let engine = project.start().await;
    fail(&engine, "later").await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    assert_eq!(counts(&engine, "all").await, [1]);
    project.clock.advance(Duration::from_secs(30));
    quiet(&engine).await;
    assert_eq!(counts(&engine, "all").await, [1, 2]);
    stop(engine).await;
}

#[tokio::test]
async fn a_storm_starts_few_executions_and_counts_each_failure() {
    const AUTOMATIONS: usize = 20;
    const ROUNDS: usize = 12;
    let project = project(&[("all", ""), ("billing", ", with: {labels: billing}")]);
    for number in 0..AUTOMATIONS {
        let text = FAILS.replace("billing", if number % 2 == 0 { "billing" } else { "stock" });
        project.write(&format!("automations/f{number}.yaml"), &text);
    }
    let engine = project.start().await;
    for round in 0..ROUNDS {
        let mut ids = Vec::new();
        for number in 0..AUTOMATIONS {
            ids.push(start_of(&engine, &format!("f{number}"), Origin::Manual).await);
        }
        for id in ids {
            end(&engine, id).await;
        }
        if round == ROUNDS / 2 {
            project.clock.advance(MINUTE);
        }
    }
    project.clock.advance(MINUTE);
    pass_minutes(&project, &engine).await;
    for (name, automations) in [("all", AUTOMATIONS), ("billing", AUTOMATIONS / 2)] {
        let counts = counts(&engine, name).await;
        assert_eq!(counts.iter().sum::<u64>(), (automations * ROUNDS) as u64, "{name}");
        assert!(counts.len() <= automations * 3, "{name}: {}", counts.len());
    }
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failure_counts_once_over_a_crash_at_any_commit() {
    at_each_commit(async |at| {
        let project = project(&[("all", ""), ("billing", ", with: {labels: billing}")]);
        let crashing = at.start(&project).await;
        crashing.arm();
        let engine = &crashing.engine;
        let id = model::AutomationId::parse("test").expect("an id");
        for _ in 0..2 {
            let start = ManualStart::new(Payload::manual(value::Map::new()), Origin::Manual);
            if let Ok(id) = engine.ingress().start(&id.clone().into(), start).await {
                let _ = tokio::time::timeout(Duration::from_millis(200), engine.admission().wait(id)).await;
            }
        }
        let has_crashed = crashing
            .run_until(async || {
                let store = engine.store();
                let is_idle = store.unfinished_count().await.is_ok_and(|count| count == 0);
                let undelivered = store.outbox_counts().await.map(|counts| counts.len());
                // The second failure waits for its minute.
                if is_idle && undelivered.as_ref().is_ok_and(|count| *count > 0) {
                    project.clock.advance(Duration::from_secs(1));
                }
                is_idle && undelivered.is_ok_and(|count| count == 0) && rows(engine).await.len() >= 4
            })
            .await;
        crashing.end().await;
        let engine = project.start().await;
        pass_minutes(&project, &engine).await;
        let failed = executions(&engine, "test").await.len() as u64;
        for name in ["all", "billing"] {
            let counts = counts(&engine, name).await;
            assert_eq!(counts.iter().sum::<u64>(), failed, "{name} after {at:?}: {counts:?}");
        }
        stop(engine).await;
        has_crashed
    })
    .await;
}

#[tokio::test]
async fn a_failing_handler_raises_nothing_and_neither_does_what_it_starts() {
    let project = Project::with(FAILS);
    let broken = "trigger: {event: cogwork.failure}\nsteps:\n  - {id: tell, call: inner, async: true}\n  - {id: wait, call: inner}\n";
    project.write("automations/broken.yaml", broken);
    project.write("automations/inner.yaml", "trigger: {manual: {}}\nsteps: [{fail: gone}]\n");
    project.write("automations/all.yaml", &handler(""));
    let engine = project.start().await;
    fail(&engine, "once").await;
    quiet(&engine).await;
    assert_eq!(executions(&engine, "broken").await.len(), 1);
    assert_eq!(executions(&engine, "inner").await.len(), 2);
    assert_eq!(told(&engine, "all", &["automation.id"]).await, ["test"]);
    // The handler, and the two that it has started.
    assert_eq!(refused(&engine, "handler_failed"), 3);
    // By itself it is an automation as any other.
    let id = start_of(&engine, "inner", Origin::Manual).await;
    end(&engine, id).await;
    quiet(&engine).await;
    assert_eq!(told(&engine, "all", &["automation.id"]).await, ["test", "inner"]);
    stop(engine).await;
}

#[tokio::test]
async fn a_handler_that_a_person_starts_again_raises_nothing() {
    let project = Project::with(FAILS);
    project.write("automations/broken.yaml", "trigger: {event: cogwork.failure}\nsteps: [{fail: gone}]\n");
    let engine = project.start().await;
    let trigger = engine.catalog().find_trigger("broken", |_| true).expect("it is in force");
    let payload = trigger.on().data_payload(json("{}"), project.clock.now());
    let start = ManualStart::new(payload, Origin::Manual);
    let id = engine.ingress().start(&trigger.key(), start).await.expect("it starts");
    end(&engine, id).await;
    quiet(&engine).await;
    assert_eq!(executions(&engine, "broken").await.len(), 1);
    stop(engine).await;
}

#[tokio::test]
async fn after_starts_one_execution_for_each_row_of_failures() {
    let project = project(&[("third", ", with: {after: 3}")]);
    let engine = project.start().await;
    for why in ["a", "b", "no", "c", "d"] {
        fail(&engine, why).await;
        quiet(&engine).await;
    }
    assert_eq!(executions(&engine, "third").await.len(), 0);
    for why in ["e", "f", "g"] {
        fail(&engine, why).await;
        quiet(&engine).await;
    }
    assert_eq!(told(&engine, "third", &["count", "title"]).await, ["3 Orders failed: e (3 times in a row)"]);
    crash(engine).await;
    project.clock.advance(Duration::from_secs(1));
    let engine = project.start().await;
    fail(&engine, "h").await;
    quiet(&engine).await;
    assert_eq!(executions(&engine, "third").await.len(), 1, "the same row of failures");
    for why in ["no", "i", "j", "k"] {
        fail(&engine, why).await;
        quiet(&engine).await;
    }
    assert_eq!(executions(&engine, "third").await.len(), 2);
    stop(engine).await;
}

#[tokio::test]
async fn a_failed_poll_is_raised_with_its_commit() {
    let mut peer = Peer::new().await;
    let project =
        project(&[("polls", ", with: {kinds: [poll]}"), ("twice", ", with: {kinds: [poll], after: 2}")]);
    let poll = format!(
        "trigger: {{poll: {{action: http.request, with: {{url: \"{}/list\"}}, every: 1m, items: result.body}}}}\nsteps: [{{set: {{x: 1}}}}]\n",
        peer.base
    );
    project.write("automations/look.yaml", &poll);
    let engine = project.start().await;
    for failures in 1..=3 {
        peer.next_request().await.answer(500, "{}").await;
        until_async(async || {
            engine.ingress().polls().first().is_some_and(|one| one.poll_state.failures == failures)
        })
        .await;
        let next = engine.ingress().polls()[0].poll_state.next_at;
        quiet_but_throttled(&engine).await;
        if failures < 3 {
            project.clock.advance_to(next);
        }
    }
    assert_eq!(
        told(&engine, "twice", &["kind", "count", "automation.id", "trigger"]).await,
        ["poll 2 look main"]
    );
    // The next poll is due later.
    project.clock.advance(MINUTE);
    quiet(&engine).await;
    assert_eq!(counts(&engine, "polls").await.iter().sum::<u64>(), 3);
    stop(engine).await;
}

/// Waits until only events are on their way that wait for their minute.
async fn quiet_but_throttled(engine: &Engine) {
    until_async(async || {
        let counts = engine.store().outbox_counts().await.expect("they are counted");
        counts.iter().all(|count| count.name.ends_with(":polls")) && is_idle(engine).await
    })
    .await;
}

#[tokio::test]
async fn missed_instants_of_a_schedule_are_raised_with_its_watermark() {
    let project = project(&[("schedules", ", with: {kinds: [schedule]}")]);
    let every = "trigger: {schedule: {every: 1m, misfire: latest}}\nsteps: [{set: {x: 1}}]\n";
    project.write("automations/tick.yaml", every);
    project.write("automations/skip.yaml", &every.replace("latest", "skip"));
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    stop(engine).await;
    project.clock.advance(Duration::from_secs(5 * 60 + 40));
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:06:00Z").await;
    until_async(async || executions(&engine, "schedules").await.len() == 2).await;
    quiet(&engine).await;
    let mut told = told(&engine, "schedules", &["automation.id", "count", "since"]).await;
    told.sort();
    assert_eq!(told, ["skip 5 2026-03-02T08:01:00Z", "tick 4 2026-03-02T08:01:00Z"]);
    crash(engine).await;
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:06:00Z").await;
    quiet(&engine).await;
    assert_eq!(executions(&engine, "schedules").await.len(), 2, "it is stored with the watermark");
    stop(engine).await;
}

#[tokio::test]
async fn an_event_that_starts_nothing_is_raised() {
    let mut project = project(&[("dropped", ", with: {kinds: [event]}")]);
    project.settings.limits.chain = 2;
    project.write(
        "automations/ping.yaml",
        "trigger: {event: ping}\nsteps: [{id: again, action: events.emit, with: {name: ping}}]\n",
    );
    let engine = project.start().await;
    engine.admission().emit("ping", json("null"), None).await.expect("it is sent");
    quiet(&engine).await;
    assert_eq!(
        told(&engine, "dropped", &["kind", "eventName", "automation.id", "error.kind"]).await,
        ["event ping ping limit"]
    );
    stop(engine).await;
}

#[tokio::test]
async fn a_file_that_no_longer_loads_is_told_to_other_files() {
    let project = project(&[("one", ", with: {kinds: [file]}"), ("two", ", with: {kinds: [file]}")]);
    project.write("connections/shop.yaml", "type: http.open\nwith: {baseUrl: http://127.0.0.1:9}\n");
    let engine = project.start().await;
    project.write("automations/one.yaml", "trigger: {event: cogwork.failure}\nsteps: [{sett: {x: 1}}]\n");
    engine.reload().await;
    quiet(&engine).await;
    assert_eq!(executions(&engine, "one").await.len(), 0, "its own file");
    let told_two = told(&engine, "two", &["kind", "automation.id", "file.path", "file.line", "count"]).await;
    assert_eq!(told_two, ["file one automations/one.yaml 2 1"]);
    project.write("connections/shop.yaml", "type: http.open\nwith: {baseUrll: http://127.0.0.1:9}\n");
    project.write("automations/test.yaml", "trigger: {}\n");
    engine.reload().await;
    quiet(&engine).await;
    let mut told_two = told(&engine, "two", &["automation.id", "file.path"]).await;
    told_two.sort();
    assert_eq!(
        told_two,
        ["- connections/shop.yaml", "one automations/one.yaml", "test automations/test.yaml"]
    );
    // The handler is in force in its last good version.
    assert_eq!(executions(&engine, "one").await.len(), 2);
    crash(engine).await;
    // None of the three is in force now, which the start tells once.
    for _ in 0..2 {
        let engine = project.start().await;
        project.clock.advance(MINUTE);
        quiet(&engine).await;
        assert_eq!(executions(&engine, "two").await.len(), 6);
        crash(engine).await;
    }
}

#[track_caller]
fn check(trigger: &str, expected: &[&str]) {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("automations")).expect("a folder");
    std::fs::write(dir.path().join("automations/test.yaml"), FAILS).expect("it is written");
    let catalog = authoring::check_project(dir.path(), &[]).expect("the connectors load").catalog;
    let text = format!("trigger: {{event: {trigger}}}\nsteps: [{{set: {{x: 1}}}}]\n");
    let report = authoring::check_text(&catalog, "automations/alert.yaml", &text);
    assert_eq!(crate::checking::problems(&report), expected, "\n{text}\n{}", report.render(false));
}

#[test]
fn mistakes_in_the_inputs_of_an_engine_event_are_reported() {
    check("cogwork.failure", &[]);
    check(
        "cogwork.failure, with: {kinds: [execution, file], labels: billing, automations: [test], after: 1000}",
        &[],
    );
    check("cogwork.failure, with: {after: 0}", &["wrong-input 0"]);
    check("cogwork.failure, with: {after: 1001}", &["wrong-input 1001"]);
    check("cogwork.failure, with: {kinds: [executoin]}", &["wrong-input executoin"]);
    check("cogwork.failure, with: {kinds: []}", &["wrong-input []"]);
    check("cogwork.failure, with: {kinds: [file, event], after: 3}", &["unused-setting 3"]);
    check("cogwork.failure, with: {kinds: [source], after: 3}", &[]);
    check("cogwork.failure, with: {kinds: [file], after: 1}", &[]);
    check("cogwork.failure, with: {lables: [billing]}", &["unknown-input lables (labels)"]);
    check("cogwork.failure, with: {labels: [biling, shop]}", &["unknown-label biling (billing)"]);
    check("cogwork.failure, with: {automations: tset}", &["unknown-automation tset (test)"]);
    check("cogwork.failure, with: {after: '${{ automation.id }}'}", &["wrong-input '${{ automation.id }}'"]);
    check("cogwork.failure, every: 1m", &["unused-setting every"]);
    check("cogwork.falure", &["unknown-event cogwork.falure (cogwork.failure)"]);
    check("cogwork.changed, with: {labels: [shop]}", &[]);
    check("cogwork.missing, with: {automations: test, within: 26h}", &[]);
    check("cogwork.missing, with: {event: order.paid, within: 7d}", &[]);
    check("cogwork.missing, with: {automations: test}", &["missing-input with"]);
    check("cogwork.missing, with: {within: 1h}", &["missing-input with"]);
    check("cogwork.missing, with: {event: order.paid, within: 8d}", &["wrong-input 8d"]);
    check("cogwork.missing, with: {labels: shop, within: soon}", &["wrong-input soon"]);
    check("cogwork.missing, with: {labels: shop, within: 1ms}", &["wrong-input 1ms"]);
    check("cogwork.missing, with: {labels: shop, event: a.b, within: 1h}", &["wrong-input event"]);
}

#[test]
fn the_results_of_an_engine_event_have_types() {
    check("cogwork.failure, if: trigger.results.error.kind == 'timeout' and trigger.results.count > 1", &[]);
    check("cogwork.failure, if: trigger.results.execution.idd == 'x'", &["unknown-field idd (id)"]);
    check("cogwork.failure, if: \"trigger.results.body.data.automation.labels[0] == 'x'\"", &[]);
    check("cogwork.failure, if: trigger.results.titel == 'x'", &["unknown-member titel (title)"]);
}

#[tokio::test]
async fn a_label_that_is_added_later_ends_the_warning() {
    let project = project(&[("alert", ", with: {labels: [sales], automations: [later]}")]);
    let engine = project.start().await;
    let codes = |engine: &Engine| -> Vec<String> {
        let catalog = engine.catalog();
        let alert =
            model::AutomationId::parse("alert").and_then(|id| catalog.get(&id).cloned()).expect("in force");
        alert.warnings.diagnostics().iter().map(|found| found.code.to_string()).collect()
    };
    assert_eq!(codes(&engine), ["unknown-label", "unknown-automation"]);
    project.write("automations/later.yaml", &FAILS.replace("shop", "sales"));
    engine.reload().await;
    assert_eq!(codes(&engine), Vec::<String>::new());
    project.write("automations/later.yaml", FAILS);
    engine.reload().await;
    assert_eq!(codes(&engine), ["unknown-label"]);
    stop(engine).await;
}
