//! Steps of the wall clock, forward and back: durations keep their length, and calendar times follow the clock.

use std::time::Duration;

use engine::Engine;
use jiff::{SignedDuration, Timestamp};
use model::Status;
use runtime::Clock as _;

use crate::common::{
    Peer, Project, call, crash, end, json, manual, rows, settled, soon, start_and_suspend, start_with,
    steps_of, stop, until_suspended,
};

const HOUR: Duration = Duration::from_secs(3600);
/// The clock steps in hours: an hour and a year, forward and back.
const STEPS: [i64; 4] = [1, -1, 8760, -8760];

fn set(project: &Project, hours: i64) {
    project.clock.step(SignedDuration::from_hours(hours));
}

/// Waits until a task sleeps until `time` from now.
async fn somebody_sleeps_for(project: &Project, time: Duration) {
    soon(project.clock.somebody_sleeps_until(project.clock.now() + time)).await;
}

#[tokio::test]
async fn a_clock_step_does_not_end_a_call_in_flight() {
    for hours in STEPS {
        let mut peer = Peer::new().await;
        let steps = call("a", &peer.base, "/a") + "    timeout: 10s\n" + &call("b", &peer.base, "/b");
        let project = Project::with(&format!("timeout: 15m\n{}", manual(&steps)));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        let asked = peer.next_request().await;
        somebody_sleeps_for(&project, Duration::from_secs(10)).await;
        set(&project, hours);
        asked.answer(200, "1").await;
        peer.next_request().await.answer(200, "2").await;
        assert!(end(&engine, id).await.contains(r#""body":2"#), "set by {hours} h");
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_clock_step_does_not_change_a_timeout() {
    for hours in STEPS {
        let mut peer = Peer::new().await;
        for (text, limit, message) in [
            ("", 900, "failed: the execution took longer than its timeout of 15m"),
            ("    timeout: 10s\n", 10, "failed: step `a` took longer than its timeout of 10s"),
        ] {
            let steps = call("a", &peer.base, "/a") + text;
            let project = Project::with(&format!("timeout: 15m\n{}", manual(&steps)));
            let engine = project.start().await;
            let id = start_with(&engine, "{}").await;
            let _asked = peer.next_request().await;
            let limit = Duration::from_secs(limit);
            somebody_sleeps_for(&project, limit).await;
            set(&project, hours);
            somebody_sleeps_for(&project, limit).await;
            project.clock.advance(limit);
            assert_eq!(end(&engine, id).await, message, "set by {hours} h");
            stop(engine).await;
        }
    }
}

#[tokio::test]
async fn a_clock_step_does_not_change_the_length_of_a_wait() {
    for hours in STEPS {
        for length in [1, 3 * 3600] {
            let length = Duration::from_secs(length);
            // The execution timeout is suspended during a wait, even if the clock is set in it.
            let text = format!(
                "timeout: 1m\n{}",
                manual(&format!("  - wait: {}s\n  - set: {{x: 1}}\n", length.as_secs()))
            );
            let project = Project::with(&text);
            let engine = project.start().await;
            let id = start_with(&engine, "{}").await;
            somebody_sleeps_for(&project, length).await;
            set(&project, hours);
            somebody_sleeps_for(&project, length).await;
            let nearly = length - Duration::from_millis(1);
            project.clock.advance(nearly);
            somebody_sleeps_for(&project, length - nearly).await;
            assert_ne!(
                engine.store().execution(id).await.expect("it is read").map(|row| row.status),
                Some(Status::Succeeded)
            );
            project.clock.advance(length - nearly);
            assert_eq!(end(&engine, id).await, r#"{"x":1}"#, "set by {hours} h in a pause of {length:?}");
            stop(engine).await;
        }
    }
}

#[tokio::test]
async fn a_clock_step_does_not_change_the_timeout_of_a_wait_for_an_event() {
    for hours in STEPS {
        let project = Project::with(&manual("  - id: paid\n    waitFor: {event: paid}\n    timeout: 2h\n"));
        let engine = project.start().await;
        let id = start_and_suspend(&engine, "{}").await;
        set(&project, hours);
        // An event for another step wakes it and lets it suspend again.
        somebody_sleeps_for(&project, 2 * HOUR).await;
        project.clock.advance(2 * HOUR);
        assert_eq!(end(&engine, id).await, "failed: no event came within 2h", "set by {hours} h");
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_clock_step_does_not_change_a_retry_delay() {
    for hours in STEPS {
        let mut peer = Peer::new().await;
        let steps = call("a", &peer.base, "/a") + "    retry: {max: 2, delay: 10m}\n";
        let project = Project::with(&manual(&steps));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        peer.next_request().await.answer(503, "1").await;
        let delay = Duration::from_secs(600);
        somebody_sleeps_for(&project, delay).await;
        until_suspended(&engine).await;
        set(&project, hours);
        somebody_sleeps_for(&project, delay).await;
        assert!(peer.pending_request().is_none());
        project.clock.advance(delay);
        peer.next_request().await.answer(200, "2").await;
        assert!(end(&engine, id).await.contains(r#""body":2"#), "set by {hours} h");
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_wait_until_an_instant_follows_the_wall_clock() {
    let project = Project::with(&manual("  - wait: {until: \"'2026-03-02T10:00:00Z'\"}\n"));
    let engine = project.start().await;
    let first = start_and_suspend(&engine, "{}").await;
    set(&project, -1);
    settled(&project, "2026-03-02T10:00:00Z").await;
    project.clock.advance(2 * HOUR);
    settled(&project, "2026-03-02T10:00:00Z").await;
    assert_eq!(engine.status().resting, 1, "the clock shows nine");
    set(&project, 1);
    assert_eq!(end(&engine, first).await, "null");
    stop(engine).await;
}

#[tokio::test]
async fn waits_begun_before_and_after_a_clock_step_keep_their_lengths() {
    for hours in STEPS {
        let project = Project::with(&manual(
            "  - id: both\n    parallel:\n      early:\n        - wait: 5h\n        - set: {early: 1}\n      late:\n        - waitFor: {event: go}\n        - wait: 3h\n        - set: {late: 1}\n",
        ));
        let engine = project.start().await;
        let id = start_and_suspend(&engine, "{}").await;
        project.clock.advance(HOUR);
        set(&project, hours);
        assert_eq!(engine.admission().emit("go", json("1"), None).await.expect("it is sent").delivered, 1);
        somebody_sleeps_for(&project, 3 * HOUR).await;
        until_suspended(&engine).await;
        set(&project, -2 * hours);
        somebody_sleeps_for(&project, 3 * HOUR).await;
        project.clock.advance(3 * HOUR);
        somebody_sleeps_for(&project, HOUR).await;
        until_suspended(&engine).await;
        assert!(steps_of(&engine, id).await.join(" ").contains("late"), "set by {hours} h");
        project.clock.advance(HOUR);
        assert!(end(&engine, id).await.contains("early"), "set by {hours} h");
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_clock_set_back_during_downtime_does_not_prolong_a_wait() {
    let project = Project::with(&manual("  - wait: 3h\n"));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    crash(engine).await;
    set(&project, -8760);
    let engine = project.start().await;
    somebody_sleeps_for(&project, 3 * HOUR).await;
    project.clock.advance(3 * HOUR);
    assert_eq!(end(&engine, id).await, "null");
    stop(engine).await;
}

#[tokio::test]
async fn a_clock_step_during_a_wait_is_remembered_over_a_restart() {
    for hours in STEPS {
        let mut peer = Peer::new().await;
        let steps = format!("  - wait: 3h\n{}  - wait: 1h\n", call("a", &peer.base, "/a"));
        let project = Project::with(&format!("timeout: 10m\n{}", manual(&steps)));
        let engine = project.start().await;
        let id = start_and_suspend(&engine, "{}").await;
        set(&project, hours);
        project.clock.advance(3 * HOUR);
        let asked = peer.next_request().await;
        crash(engine).await;
        drop(asked);
        let engine = project.start().await;
        // None of the ten minutes is used up: three hours were a wait, the rest was the clock step.
        peer.next_request().await.answer(200, "1").await;
        until_suspended(&engine).await;
        somebody_sleeps_for(&project, HOUR).await;
        project.clock.advance(HOUR);
        assert_eq!(end(&engine, id).await, "null", "set by {hours} h");
        stop(engine).await;
    }
}

const HOURLY: &str = "trigger: {schedule: {cron: '0 * * * *', misfire: MISFIRE, overlap: allow}}\nsteps:\n  - set: {at: '${{ trigger.results.scheduledAt }}'}\n";

async fn ticks(engine: &Engine) -> Vec<String> {
    let mut ticks = Vec::new();
    for row in rows(engine).await {
        if let model::Origin::Schedule { instant } = row.origin {
            ticks.push(instant.strftime("%d %H:%M").to_string());
        }
    }
    ticks.sort();
    ticks
}

#[tokio::test]
async fn a_clock_set_back_fires_no_schedule_instant_twice() {
    let project = Project::with(&HOURLY.replace("MISFIRE", "all"));
    let engine = project.start().await;
    for next in ["2026-03-02T09:00:00Z", "2026-03-02T10:00:00Z"] {
        settled(&project, next).await;
        project.clock.advance_to(next.parse::<Timestamp>().expect("an instant"));
    }
    settled(&project, "2026-03-02T11:00:00Z").await;
    project.clock.step(SignedDuration::from_mins(-130));
    for _ in 0..2 {
        project.clock.advance(HOUR);
        settled(&project, "2026-03-02T11:00:00Z").await;
    }
    project.clock.advance_to("2026-03-02T11:00:00Z".parse().expect("an instant"));
    settled(&project, "2026-03-02T12:00:00Z").await;
    assert_eq!(ticks(&engine).await, ["02 09:00", "02 10:00", "02 11:00"]);
    stop(engine).await;
}

#[tokio::test]
async fn instants_skipped_by_a_clock_set_forward_follow_misfire() {
    for (misfire, expected) in [
        ("skip", &[][..]),
        ("latest", &["02 12:00"][..]),
        ("all", &["02 09:00", "02 10:00", "02 11:00", "02 12:00"][..]),
    ] {
        let project = Project::with(&HOURLY.replace("MISFIRE", misfire));
        let engine = project.start().await;
        settled(&project, "2026-03-02T09:00:00Z").await;
        project.clock.advance(HOUR / 2);
        project.clock.step(SignedDuration::from_mins(250));
        settled(&project, "2026-03-02T13:00:00Z").await;
        assert_eq!(ticks(&engine).await, expected, "{misfire}");
        stop(engine).await;
    }
}
