//! Schedules fire each instant once, over restarts, changes and outages.

use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::Engine;

use crate::common::{Peer, Project, call, end, rows, settled, soon, steps_of, stop, until, until_async};

/// Returns the instants of the started executions, oldest first.
async fn instants(engine: &Engine) -> Vec<String> {
    let mut rows = rows(engine).await;
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
async fn instants_missed_during_downtime_follow_misfire() {
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
async fn a_reload_of_an_unchanged_schedule_keeps_its_next_instant() {
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

/// Waits until the store has recorded that the schedule is not active.
async fn not_in_force(engine: &Engine) {
    soon(async {
        loop {
            let watermarks = engine.store().watermarks().await.expect("they are read");
            if watermarks.iter().any(|watermark| watermark.schedule.is_empty()) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn instants_while_a_schedule_was_disabled_or_removed_are_not_caught_up() {
    let yaml = EVERY.replace("1m", "1m, misfire: all, overlap: allow");
    let disabled = format!("enabled: false\n{yaml}");
    for (is_removed, is_running) in [(false, true), (true, true), (false, false), (true, false)] {
        let project = Project::with(&yaml);
        // The project has another file, so that it is not empty.
        project.write("automations/other.yaml", "trigger: {manual: {}}\nsteps: []\n");
        let engine = project.start().await;
        settled(&project, "2026-03-02T08:01:00Z").await;
        let change = || match is_removed {
            true => std::fs::remove_file(project.path("automations/test.yaml")).expect("it is removed"),
            false => project.write("automations/test.yaml", &disabled),
        };
        let engine = if is_running {
            change();
            engine.reload().await;
            engine
        } else {
            stop(engine).await;
            change();
            project.start().await
        };
        not_in_force(&engine).await;
        project.clock.advance(Duration::from_secs(5 * 60));
        stop(engine).await;
        project.write("automations/test.yaml", &yaml);
        let engine = project.start().await;
        settled(&project, "2026-03-02T08:06:00Z").await;
        assert_eq!(instants(&engine).await.len(), 0, "removed: {is_removed}, running: {is_running}");
        project.clock.advance(Duration::from_secs(60));
        settled(&project, "2026-03-02T08:07:00Z").await;
        assert_eq!(instants(&engine).await, ["2026-03-02T08:06:00Z"], "it fires again");
        stop(engine).await;
    }
}

#[tokio::test]
async fn an_instant_refused_by_the_store_stays_due_and_is_retried_with_backoff() {
    let project = Project::with(&EVERY.replace("1m", "1m, misfire: all, overlap: allow"));
    let (engine, store) = project.start_watched().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    store.refused.store(3, Ordering::SeqCst);
    project.clock.advance(Duration::from_secs(60));
    for (next, pause) in [("08:01:01Z", 1), ("08:01:03Z", 2), ("08:01:07Z", 4)] {
        settled(&project, &format!("2026-03-02T{next}")).await;
        assert_eq!(instants(&engine).await.len(), 0);
        project.clock.advance(Duration::from_secs(pause));
    }
    settled(&project, "2026-03-02T08:02:00Z").await;
    assert_eq!(instants(&engine).await, ["2026-03-02T08:01:00Z"]);
    assert_eq!(store.refused.load(Ordering::SeqCst), 0);
    stop(engine).await;
}

#[tokio::test]
async fn a_schedule_with_refused_progress_delays_no_other_and_is_stored_later() {
    let project =
        Project::with("trigger: {schedule: {every: 1m}, if: trigger.results.scheduledAt == ''}\nsteps: []\n");
    let other = EVERY.replace("1m", "1m, overlap: allow");
    project.write("automations/other.yaml", &other);
    let (engine, store) = project.start_watched().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    store.refuses_progress.store(true, Ordering::SeqCst);
    project.clock.advance(Duration::from_secs(60));
    // The pauses grow, and end at the next instant at the latest.
    for (next, pause) in [("08:01:01Z", 1), ("08:01:03Z", 2), ("08:01:07Z", 4), ("08:01:15Z", 8)] {
        settled(&project, &format!("2026-03-02T{next}")).await;
        project.clock.advance(Duration::from_secs(pause));
    }
    settled(&project, "2026-03-02T08:01:23Z").await;
    assert_eq!(instants(&engine).await, ["2026-03-02T08:01:00Z"]);
    // A schedule whose initial progress the store refuses fires too.
    project.write("automations/late.yaml", &other);
    engine.reload().await;
    project.clock.advance_to("2026-03-02T08:02:00Z".parse().expect("an instant"));
    until_async(async || instants(&engine).await.len() >= 3).await;
    assert_eq!(instants(&engine).await[1..], ["2026-03-02T08:02:00Z", "2026-03-02T08:02:00Z"]);
    store.refuses_progress.store(false, Ordering::SeqCst);
    let is_stored = |watermark: &store::Watermark| {
        watermark.trigger.automation.as_str() == "test"
            && watermark.instant.to_string() == "2026-03-02T08:02:00Z"
    };
    soon(async {
        while !engine.store().watermarks().await.expect("they are read").iter().any(is_stored) {
            project.clock.advance(Duration::from_millis(100));
            tokio::task::yield_now().await;
        }
    })
    .await;
    stop(engine).await;
}

#[tokio::test]
async fn a_retried_instant_runs_late_even_with_misfire_skip() {
    let project = Project::with(&EVERY.replace("1m", "1h, misfire: skip"));
    let (engine, store) = project.start_watched().await;
    settled(&project, "2026-03-02T09:00:00Z").await;
    store.refused.store(1, Ordering::SeqCst);
    project.clock.advance_to("2026-03-02T09:00:00Z".parse().expect("an instant"));
    settled(&project, "2026-03-02T09:00:01Z").await;
    project.clock.advance(Duration::from_secs(45));
    settled(&project, "2026-03-02T10:00:00Z").await;
    assert_eq!(instants(&engine).await, ["2026-03-02T09:00:00Z"]);
    stop(engine).await;
}

#[tokio::test]
async fn an_instant_during_a_running_execution_follows_overlap() {
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
        let held = peer.next_request().await;
        settled(&project, "2026-03-02T08:02:00Z").await;
        project.clock.advance(Duration::from_secs(60));
        settled(&project, "2026-03-02T08:03:00Z").await;
        if beside > 0 {
            peer.next_request().await.answer(200, "1").await;
        } else {
            assert!(peer.pending_request().is_none(), "{overlap}");
        }
        held.answer(200, "1").await;
        if after > 0 {
            peer.next_request().await.answer(200, "1").await;
        }
        let expected = if overlap == "skip" { 1 } else { 2 };
        assert_eq!(instants(&engine).await.len(), expected, "{overlap}");
        stop(engine).await;
    }
}

fn refused(engine: &Engine) -> Vec<(String, u64)> {
    engine.ingress().rejections_of(&model::AutomationId::parse("test").expect("an id")).into_iter().collect()
}

#[tokio::test]
async fn skipped_instants_are_counted_by_reason() {
    let mut peer = Peer::new().await;
    let yaml = format!(
        "trigger:\n  if: trigger.results.scheduledAt != '2026-03-02T08:03:00Z'\n  schedule: {{every: 1m}}\nsteps:\n{}",
        call("a", &peer.base, "/a")
    );
    let project = Project::with(&yaml);
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    project.clock.advance(Duration::from_secs(60));
    let held = peer.next_request().await;
    settled(&project, "2026-03-02T08:02:00Z").await;
    project.clock.advance(Duration::from_secs(60));
    settled(&project, "2026-03-02T08:03:00Z").await;
    assert_eq!(refused(&engine), [("overlap".to_owned(), 1)]);
    held.answer(200, "1").await;
    until(|| engine.status().in_flight == 0).await;
    project.clock.advance(Duration::from_secs(60));
    settled(&project, "2026-03-02T08:04:00Z").await;
    // Four instants pass unseen; the last of them runs.
    project.clock.advance(Duration::from_secs(4 * 60));
    peer.next_request().await.answer(200, "1").await;
    settled(&project, "2026-03-02T08:08:00Z").await;
    let expected = [("filtered", 1), ("missed", 3), ("overlap", 1)];
    assert_eq!(refused(&engine), expected.map(|(reason, count)| (reason.to_owned(), count)));
    assert_eq!(engine.status().refused.into_iter().collect::<Vec<_>>(), refused(&engine));
    stop(engine).await;
}

#[tokio::test]
async fn an_instant_refused_by_a_full_queue_starts_once_there_is_room() {
    let mut peer = Peer::new().await;
    let yaml = format!(
        "trigger: {{schedule: {{every: 1m, overlap: allow}}}}\nsteps:\n{}",
        call("a", &peer.base, "/a")
    );
    let mut project = Project::with(&yaml);
    (project.settings.limits.in_flight, project.settings.limits.queue) = (1, 1);
    let engine = project.start().await;
    for next in ["2026-03-02T08:01:00Z", "2026-03-02T08:02:00Z", "2026-03-02T08:03:00Z"] {
        settled(&project, next).await;
        project.clock.advance(Duration::from_secs(60));
    }
    // One runs, one is queued, and the third is retried each second.
    settled(&project, "2026-03-02T08:03:01Z").await;
    assert_eq!(instants(&engine).await.len(), 2);
    assert_eq!(refused(&engine), [("busy".to_owned(), 1)]);
    peer.next_request().await.answer(200, "1").await;
    let second = peer.next_request().await;
    project.clock.advance(Duration::from_secs(1));
    settled(&project, "2026-03-02T08:04:00Z").await;
    assert_eq!(instants(&engine).await.last().map(String::as_str), Some("2026-03-02T08:03:00Z"));
    second.answer(200, "1").await;
    peer.next_request().await.answer(200, "1").await;
    stop(engine).await;
}

#[tokio::test]
async fn local_times_follow_the_schedules_zone() {
    let project =
        Project::with("trigger: {schedule: {daily: {at: \"10:30\"}, timezone: Europe/Berlin}}\nsteps: []\n");
    let engine = project.start().await;
    settled(&project, "2026-03-02T09:30:00Z").await;
    stop(engine).await;
}

/// Starts an engine with this many schedules. Returns its wakeups in eleven hours without a due instant, and then at the
/// first instant.
async fn wakings(schedules: usize) -> (u64, u64) {
    let project = Project::new();
    for number in 0..schedules {
        let at = if number == 0 { "19:30" } else { "20:01" };
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
async fn ten_thousand_schedules_cause_no_wakeups_between_instants_and_one_at_each() {
    let (few, many) = (wakings(2).await, wakings(10_000).await);
    // Other timers of the engine may fire on either side of it.
    let (most_quiet, most_due) = (few.0 + 1, few.1 + 1);
    assert!(many.0 <= most_quiet && many.1 <= most_due, "two: {few:?}, ten thousand: {many:?}");
}

#[tokio::test]
async fn all_schedules_due_at_one_instant_start_at_that_instant() {
    let project = Project::new();
    for number in 0..500 {
        project.write(&format!("automations/s{number}.yaml"), EVERY);
    }
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    project.clock.advance(Duration::from_secs(60));
    settled(&project, "2026-03-02T08:02:00Z").await;
    // The clock has not moved since, so an execution that waited for it would be missing.
    let rows = rows(&engine).await;
    assert_eq!(rows.len(), 500);
    assert!(rows.iter().all(|row| row.started_at.to_string() == "2026-03-02T08:01:00Z"));
    stop(engine).await;
}

#[tokio::test]
async fn an_instant_whose_condition_cannot_be_evaluated_starts_an_execution_that_fails() {
    let yaml = "trigger: {schedule: {every: 1m}, if: \"trigger.results.scheduledAt | int > 5\"}\nsteps: [{set: {a: 1}}]\n\
                onError: [{set: {told: \"${{ error.message }}\"}}]\n";
    let project = Project::with(yaml);
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    project.clock.advance(Duration::from_secs(60));
    settled(&project, "2026-03-02T08:02:00Z").await;
    let rows = rows(&engine).await;
    let id = rows.first().expect("it has started").id;
    let outcome = end(&engine, id).await;
    assert!(outcome.starts_with("failed: trigger.if: "), "{outcome}");
    let steps = steps_of(&engine, id).await;
    assert_eq!(steps.len(), 1, "none of the main steps runs, `onError` does: {steps:?}");
    assert!(engine.status().refused.is_empty(), "{:?}", engine.status().refused);
    stop(engine).await;
}

#[tokio::test]
async fn caught_up_instants_run_one_after_another_unless_they_may_overlap() {
    let mut peer = Peer::new().await;
    let yaml = format!(
        "trigger: {{schedule: {{every: 1m, misfire: all}}}}\nsteps:\n{}",
        call("a", &peer.base, "/${{ trigger.results.scheduledAt }}")
    );
    let project = Project::with(&yaml);
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    stop(engine).await;
    project.clock.advance(Duration::from_secs(5 * 60 + 10));
    let engine = project.start().await;
    for minute in 1..=5 {
        let asked = peer.next_request().await;
        assert!(asked.line.contains(&format!("T08:0{minute}")), "{}", asked.line);
        let again = engine.clock().now() + Duration::from_secs(1);
        if minute < 5 {
            soon(project.clock.somebody_sleeps_until(again)).await;
            assert!(peer.pending_request().is_none(), "the next one waits for the end of this one");
        }
        asked.answer(200, "1").await;
        until(|| engine.status().in_flight == 0).await;
        project.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(instants(&engine).await.len(), 5);
    assert!(engine.status().refused.is_empty(), "{:?}", engine.status().refused);
    stop(engine).await;
}
