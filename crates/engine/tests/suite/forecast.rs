//! Forecasts of a change on disk; a forecast changes nothing.

use catalog::{Change, ChangeKind, ReloadPreview};
use engine::Engine;
use pretty_assertions::assert_eq;

use crate::common::{Peer, Project, call, soon, start_with, stop};

const SCHEDULED: &str = "trigger:\n  schedule: {daily: {at: \"08:30\"}, timezone: Europe/Berlin}\nsteps:\n  - action: log.info\n    with: {message: hello}\n";
const HOOK: &str = "trigger:\n  webhook: {}\nsteps:\n  - id: first\n    action: log.info\n    with: {message: hello}\n  - id: choice\n    if: trigger.results.body.data.ok\n    then:\n      - id: inner\n        action: log.info\n        with: {message: inner}\n";

async fn forecast(engine: &Engine) -> ReloadPreview {
    soon(engine.preview_reload()).await.expect("a forecast")
}

/// Formats each change as `id effect: summary`.
fn summaries(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|change| format!("{} {:?}: {}", change.id, change.effect, change.summary())).collect()
}

/// Returns the forecast for a file that changes from one text to another.
async fn of_change(before: &str, after: &str) -> String {
    let project = Project::with(before);
    let engine = project.start().await;
    project.write("automations/test.yaml", after);
    let forecast = forecast(&engine).await;
    stop(engine).await;
    summaries(&forecast.changes).join("\n")
}

#[tokio::test]
async fn a_forecast_reports_added_removed_and_changed_files_and_applies_nothing() {
    let project = Project::with(HOOK);
    project.write("automations/stays.yaml", HOOK);
    project.write("automations/goes.yaml", SCHEDULED);
    project.write("automations/breaks.yaml", HOOK);
    let engine = project.start().await;
    let (generation, addresses) =
        (engine.catalog().generation(), engine.store().addresses().await.expect("read"));
    std::fs::remove_file(project.path("automations/goes.yaml")).expect("removed");
    project.write("automations/test.yaml", &HOOK.replace("id: first", "id: second"));
    project.write("automations/breaks.yaml", &HOOK.replace("log.info", "log.infos"));
    project.write("automations/comes.yaml", SCHEDULED);
    project.write("automations/hook.yaml", HOOK);
    project.write("automations/wrong.yaml", "trigger: [\n");
    project.write("connections/main.yaml", "type: wiki.basic\nwith: {email: a@example.com, apiToken: \"${{ secrets.t }}\", host: \"http://127.0.0.1:1\"}\n");
    for _ in 0..2 {
        let forecast = forecast(&engine).await;
        assert_eq!(
            summaries(&forecast.changes),
            [
                "breaks Stale: ",
                "comes Added: every day at 8:30 (Europe/Berlin): mounted",
                "goes Removed: every day at 8:30 (Europe/Berlin): unmounted",
                "hook Added: webhook: mounted",
                "test Changed: webhook: address kept; steps added: `second`; steps removed: `first`",
                "wrong Broken: ",
            ]
        );
        assert_eq!((forecast.generation, forecast.unchanged), (generation, 1));
        assert_eq!(forecast.files[0].path, "connections/main.yaml");
        assert_eq!(forecast.reports.len(), 2);
    }
    let comes = &forecast(&engine).await.changes[1];
    // Summer time begins on the last Sunday of March; it is the second of the month.
    let fires: Vec<String> = comes.next_fires.iter().map(ToString::to_string).collect();
    assert_eq!((fires.len(), fires[0].as_str()), (5, "2026-03-03T07:30:00Z"));
    assert_eq!(comes.timezone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(engine.catalog().generation(), generation);
    assert_eq!(
        engine.store().addresses().await.expect("read"),
        addresses,
        "no address is created before the reload"
    );
    let reload = engine.reload().await;
    assert_eq!(
        (reload.added.len(), reload.changed.len(), reload.removed.len(), reload.stale.len()),
        (2, 1, 1, 1)
    );
    assert!(forecast(&engine).await.changes.is_empty());
    stop(engine).await;
}

#[tokio::test]
async fn a_forecast_says_if_a_trigger_is_mounted_unmounted_kept_or_changed() {
    let every =
        "trigger: {schedule: {every: 5m}}\nsteps:\n  - action: log.info\n    with: {message: hello}\n";
    let cases = [
        (every.replace("5m", "10m"), "every 5 minutes → every 10 minutes"),
        (
            every.replace("{every: 5m}", "{every: 5m, overlap: allow}"),
            "every 5 minutes: `overlap` changed; every 5 minutes: kept",
        ),
        (format!("enabled: false\n{every}"), "every 5 minutes: unmounted; enabled: true → false"),
        (
            every.replace("schedule: {every: 5m}", "webhook: {}"),
            "every 5 minutes: unmounted; webhook: mounted",
        ),
        (every.replace("schedule: {every: 5m}", "manual: {}"), "every 5 minutes: unmounted"),
        (format!("timeout: 5m\n{every}"), "every 5 minutes: kept; timeout: 5m"),
        (format!("# only a comment\n{every}"), "every 5 minutes: kept"),
    ];
    for (after, expected) in cases {
        let told = of_change(every, &after).await;
        assert!(told.starts_with("test Changed: "), "{told}");
        assert_eq!(told["test Changed: ".len()..].trim_start_matches("trigger: "), expected);
    }
    let webhook = of_change(HOOK, &HOOK.replace("webhook: {}", "webhook: {methods: POST}")).await;
    assert_eq!(webhook, "test Changed: webhook: `methods` changed; webhook: address kept");
}

#[tokio::test]
async fn a_forecast_names_exactly_the_added_removed_changed_and_moved_steps() {
    let cases = [
        // A change inside another step leaves the outer step unchanged.
        (HOOK.replace("message: inner", "message: other"), "steps changed: `inner`"),
        (
            HOOK.replace("if: trigger.results.body.data.ok", "if: trigger.results.body.data.well"),
            "steps changed: `choice`",
        ),
        (
            format!("{HOOK}  - id: last\n    action: log.info\n    with: {{message: bye}}\n"),
            "steps added: `last`",
        ),
        (
            HOOK.replace("  - id: first\n    action: log.info\n    with: {message: hello}\n", "")
                + "  - id: first\n    action: log.info\n    with: {message: hello}\n",
            "steps moved",
        ),
    ];
    for (after, expected) in cases {
        let told = of_change(HOOK, &after).await;
        assert_eq!(told, format!("test Changed: webhook: address kept; {expected}"));
    }
    let other_branch = HOOK
        .replace("    then:", "    then:\n      - action: log.info\n        with: {message: x}\n    else:");
    assert_eq!(
        of_change(HOOK, &other_branch).await,
        "test Changed: webhook: address kept; steps added: `step3`; steps changed: `choice`; steps moved: `inner`"
    );
}

#[tokio::test]
async fn a_forecast_counts_executions_in_flight_by_definition_version() {
    let mut peer = Peer::new().await;
    let text = format!("trigger: {{manual: {{}}}}\nsteps:\n{}", call("ask", &peer.base, "/a"));
    let project = Project::with(&text);
    let engine = project.start().await;
    let (one, two) = (start_with(&engine, "{}").await, start_with(&engine, "{}").await);
    let asked = [peer.next_request().await, peer.next_request().await];
    project.write("automations/test.yaml", &text.replace("/a", "/b"));
    let planned = forecast(&engine).await;
    let change = &planned.changes[0];
    assert_eq!((change.effect, change.executions.len()), (ChangeKind::Changed, 1));
    assert_eq!(Some(&change.executions[0].definition), change.before.as_ref());
    assert_eq!(change.executions[0].count, 2);
    // A third execution runs on the next version and is not counted for the one after that.
    engine.reload().await;
    let three = start_with(&engine, "{}").await;
    let third = peer.next_request().await;
    assert!(third.line.ends_with("/b"));
    project.write("automations/test.yaml", &text);
    let back = forecast(&engine).await;
    assert_eq!(
        back.changes[0].executions,
        [catalog::InFlightExecutions { definition: back.changes[0].before.clone().expect("one"), count: 1 }]
    );
    for asked in asked.into_iter().chain([third]) {
        asked.answer(200, "{}").await;
    }
    for id in [one, two, three] {
        soon(engine.admission().wait(id)).await.expect("it ends");
    }
    assert!(forecast(&engine).await.changes[0].executions.is_empty());
    stop(engine).await;
}

#[tokio::test]
async fn a_forecast_without_a_running_catalog_reports_everything_as_added() {
    let project = Project::with(HOOK);
    let now = "2026-03-02T08:00:00Z".parse().expect("an instant");
    let forecast = catalog::preview_project(project.dir.path(), None, now).await.expect("a forecast");
    assert_eq!(summaries(&forecast.changes), ["test Added: webhook: mounted"]);
    assert_eq!((forecast.generation, forecast.unchanged), (0, 0));
}
