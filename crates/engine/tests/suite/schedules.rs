//! Instants: each one once, over restarts, changes and outages.

use std::time::Duration;

use engine::Engine;
use store::{ExecutionFilter, Page};

use crate::common::{Peer, Project, call, settled, soon, stop};

/// The instants that were started, oldest first.
async fn instants(engine: &Engine) -> Vec<String> {
    let page = Page { before: None, limit: 1000 };
    let mut rows = engine.store().executions(&ExecutionFilter::default(), page).await.expect("read");
    rows.reverse();
    let instant = |row: &store::ExecutionRow| match &row.origin {
        model::Origin::Schedule { instant } => instant.to_string(),
        other => format!("{other:?}"),
    };
    rows.iter().map(instant).collect()
}

const EVERY: &str =
    "trigger: {schedule: {every: 1m}}\nsteps:\n  - set: {at: \"${{ trigger.results.scheduledAt }}\"}\n";

#[tokio::test]
async fn each_instant_starts_one_execution_over_restarts() {
    let project = Project::with(EVERY);
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    project.clock.advance(Duration::from_secs(60));
    settled(&project, "2026-03-02T08:02:00Z").await;
    stop(engine).await;
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:02:00Z").await;
    assert_eq!(instants(&engine).await, ["2026-03-02T08:01:00Z"]);
    project.clock.advance(Duration::from_secs(60));
    settled(&project, "2026-03-02T08:03:00Z").await;
    assert_eq!(instants(&engine).await, ["2026-03-02T08:01:00Z", "2026-03-02T08:02:00Z"]);
    stop(engine).await;
}

#[tokio::test]
async fn instants_missed_while_nothing_ran_are_caught_up_as_the_file_says() {
    for (misfire, expected) in [("latest", 1), ("skip", 0), ("all", 5)] {
        let project = Project::with(&EVERY.replace("1m", &format!("1m, misfire: {misfire}, overlap: allow")));
        let engine = project.start().await;
        settled(&project, "2026-03-02T08:01:00Z").await;
        stop(engine).await;
        project.clock.advance(Duration::from_secs(5 * 60 + 40));
        let engine = project.start().await;
        settled(&project, "2026-03-02T08:06:00Z").await;
        let found = instants(&engine).await;
        assert_eq!(found.len(), expected, "{misfire}: {found:?}");
        if expected > 0 {
            assert_eq!(found.last().map(String::as_str), Some("2026-03-02T08:05:00Z"));
        }
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_reload_that_leaves_the_schedule_alone_leaves_its_timeline_alone() {
    let project = Project::with(EVERY);
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    project.clock.advance(Duration::from_secs(30));
    project.write("automations/test.yaml", &format!("description: changed\n{EVERY}"));
    engine.reload().await;
    project.clock.advance(Duration::from_secs(30));
    settled(&project, "2026-03-02T08:02:00Z").await;
    assert_eq!(instants(&engine).await, ["2026-03-02T08:01:00Z"]);
    stop(engine).await;
}

#[tokio::test]
async fn a_disabled_or_removed_schedule_does_not_fire() {
    let project = Project::with(EVERY);
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    let mut notices = engine.subscribe();
    project.write("automations/test.yaml", &format!("enabled: false\n{EVERY}"));
    engine.reload().await;
    soon(notices.recv()).await.expect("it is told");
    project.write("automations/other.yaml", &EVERY.replace("1m", "7m"));
    engine.reload().await;
    // Seven minutes of elapsed time, counted from the epoch.
    settled(&project, "2026-03-02T08:04:00Z").await;
    project.clock.advance(Duration::from_secs(4 * 60));
    settled(&project, "2026-03-02T08:11:00Z").await;
    assert_eq!(instants(&engine).await, ["2026-03-02T08:04:00Z"]);
    stop(engine).await;
}

#[tokio::test]
async fn while_the_last_execution_runs_an_instant_is_passed_over_waits_or_runs_beside_it() {
    for (overlap, beside, after) in [("skip", 0, 0), ("queue", 0, 1), ("allow", 1, 0)] {
        let mut peer = Peer::new().await;
        let yaml = format!(
            "trigger: {{schedule: {{every: 1m, overlap: {overlap}}}}}\nsteps:\n{}",
            call("a", &peer.base, "/a")
        );
        let project = Project::with(&yaml);
        let engine = project.start().await;
        settled(&project, "2026-03-02T08:01:00Z").await;
        project.clock.advance(Duration::from_secs(60));
        let held = peer.asked().await;
        settled(&project, "2026-03-02T08:02:00Z").await;
        project.clock.advance(Duration::from_secs(60));
        settled(&project, "2026-03-02T08:03:00Z").await;
        if beside > 0 {
            peer.asked().await.answer(200, "1").await;
        } else {
            assert!(peer.asked_already().is_none(), "{overlap}");
        }
        held.answer(200, "1").await;
        if after > 0 {
            peer.asked().await.answer(200, "1").await;
        }
        let expected = if overlap == "skip" { 1 } else { 2 };
        assert_eq!(instants(&engine).await.len(), expected, "{overlap}");
        stop(engine).await;
    }
}

#[tokio::test]
async fn local_times_follow_the_schedules_zone() {
    let project =
        Project::with("trigger: {schedule: {daily: {at: \"10:30\"}, timezone: Europe/Berlin}}\nsteps: []\n");
    let engine = project.start().await;
    settled(&project, "2026-03-02T09:30:00Z").await;
    stop(engine).await;
}

/// How often anything of an engine with so many schedules wakes while eleven hours pass in which none is due, and then at
/// the instant at which the first of them is.
async fn wakings(schedules: usize) -> (u64, u64) {
    let project = Project::new();
    for number in 0..schedules {
        let at = if number == 0 { "19:30".to_owned() } else { format!("20:{:02}", 1 + number % 59) };
        let yaml = format!("trigger: {{schedule: {{daily: {{at: \"{at}\"}}}}}}\nsteps: []\n");
        project.write(&format!("automations/s{number}.yaml"), &yaml);
    }
    let engine = project.start().await;
    settled(&project, "2026-03-02T19:30:00Z").await;
    let before = project.clock.sleeps();
    for _ in 0..11 * 60 {
        project.clock.advance(Duration::from_secs(60));
        tokio::task::yield_now().await;
    }
    let quiet = project.clock.sleeps() - before;
    project.clock.advance_to("2026-03-02T19:30:00Z".parse().expect("an instant"));
    settled(&project, "2026-03-02T20:01:00Z").await;
    assert_eq!(instants(&engine).await, ["2026-03-02T19:30:00Z"]);
    let due = project.clock.sleeps() - before - quiet;
    stop(engine).await;
    (quiet, due)
}

#[tokio::test]
async fn ten_thousand_schedules_wake_nobody_between_their_instants_and_once_at_each() {
    let (quiet, due) = wakings(10_000).await;
    // Whatever else the engine looks after now and then, a few times an hour at the most: never for the sake of a schedule.
    assert!(quiet <= 20 && due <= 5, "{quiet} wakings in eleven hours, {due} at the instant");
}
