//! Somebody sets the system's clock, forward or back: what lasts a certain time goes on as before, what goes by the
//! calendar follows the clock.

use std::time::Duration;

use engine::Engine;
use jiff::{SignedDuration, Timestamp};
use model::Status;
use runtime::Clock as _;

use crate::common::{
    Peer, Project, call, crash, end, json, manual, settled, soon, start_and_rest, start_with, steps_of, stop,
};

const HOUR: Duration = Duration::from_secs(3600);
/// By how many hours the clock is set: an hour and a year, forward and back.
const STEPS: [i64; 4] = [1, -1, 8760, -8760];

fn set(project: &Project, hours: i64) {
    project.clock.step(SignedDuration::from_hours(hours));
}

/// Waits until somebody sleeps for as long from now.
async fn somebody_sleeps_for(project: &Project, time: Duration) {
    soon(project.clock.somebody_sleeps_until(project.clock.now() + time)).await;
}

async fn is_resting(engine: &Engine) {
    soon(async {
        while engine.runtime().status().resting == 0 || engine.runtime().status().in_flight > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_step_of_the_clock_ends_no_call_that_is_under_way() {
    for hours in STEPS {
        let mut peer = Peer::new().await;
        let steps = call("a", &peer.base, "/a") + "    timeout: 10s\n" + &call("b", &peer.base, "/b");
        let project = Project::with(&format!("timeout: 15m\n{}", manual(&steps)));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        let asked = peer.asked().await;
        somebody_sleeps_for(&project, Duration::from_secs(10)).await;
        set(&project, hours);
        asked.answer(200, "1").await;
        peer.asked().await.answer(200, "2").await;
        assert!(end(&engine, id).await.contains(r#""body":2"#), "set by {hours} h");
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_time_limit_is_as_long_as_it_says_whatever_the_clock_does() {
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
            let _asked = peer.asked().await;
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
async fn a_pause_lasts_as_long_as_it_says_whatever_the_clock_does() {
    for hours in STEPS {
        for length in [1, 3 * 3600] {
            let length = Duration::from_secs(length);
            // The time limit of the whole stands still in a pause, also in one in which the clock was set.
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
async fn who_waits_for_an_event_gives_up_in_time_whatever_the_clock_does() {
    for hours in STEPS {
        let project = Project::with(&manual("  - id: paid\n    waitFor: {event: paid}\n    timeout: 2h\n"));
        let engine = project.start().await;
        let id = start_and_rest(&engine, "{}").await;
        set(&project, hours);
        // An event for another step wakes it and lets it suspend again.
        somebody_sleeps_for(&project, 2 * HOUR).await;
        project.clock.advance(2 * HOUR);
        assert_eq!(end(&engine, id).await, "failed: no event came within 2h", "set by {hours} h");
        stop(engine).await;
    }
}

#[tokio::test]
async fn another_try_comes_after_its_delay_whatever_the_clock_does() {
    for hours in STEPS {
        let mut peer = Peer::new().await;
        let steps = call("a", &peer.base, "/a") + "    retry: {max: 2, delay: 10m}\n";
        let project = Project::with(&manual(&steps));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        peer.asked().await.answer(503, "1").await;
        let delay = Duration::from_secs(600);
        somebody_sleeps_for(&project, delay).await;
        is_resting(&engine).await;
        set(&project, hours);
        somebody_sleeps_for(&project, delay).await;
        assert!(peer.asked_already().is_none());
        project.clock.advance(delay);
        peer.asked().await.answer(200, "2").await;
        assert!(end(&engine, id).await.contains(r#""body":2"#), "set by {hours} h");
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_wait_for_an_instant_follows_the_clock() {
    let project = Project::with(&manual("  - wait: {until: \"'2026-03-02T10:00:00Z'\"}\n"));
    let engine = project.start().await;
    let first = start_and_rest(&engine, "{}").await;
    set(&project, -1);
    settled(&project, "2026-03-02T10:00:00Z").await;
    project.clock.advance(2 * HOUR);
    settled(&project, "2026-03-02T10:00:00Z").await;
    assert_eq!(engine.runtime().status().resting, 1, "the clock shows nine");
    set(&project, 1);
    assert_eq!(end(&engine, first).await, "null");
    stop(engine).await;
}

#[tokio::test]
async fn pauses_that_began_before_and_after_a_step_end_each_in_its_time() {
    for hours in STEPS {
        let project = Project::with(&manual(
            "  - id: both\n    parallel:\n      early:\n        - wait: 5h\n        - set: {early: 1}\n      late:\n        - waitFor: {event: go}\n        - wait: 3h\n        - set: {late: 1}\n",
        ));
        let engine = project.start().await;
        let id = start_and_rest(&engine, "{}").await;
        project.clock.advance(HOUR);
        set(&project, hours);
        assert_eq!(engine.runtime().emit("go", json("1"), None).await.expect("it is sent").delivered, 1);
        somebody_sleeps_for(&project, 3 * HOUR).await;
        is_resting(&engine).await;
        set(&project, -2 * hours);
        somebody_sleeps_for(&project, 3 * HOUR).await;
        project.clock.advance(3 * HOUR);
        somebody_sleeps_for(&project, HOUR).await;
        is_resting(&engine).await;
        assert!(steps_of(&engine, id).await.join(" ").contains("late"), "set by {hours} h");
        project.clock.advance(HOUR);
        assert!(end(&engine, id).await.contains("early"), "set by {hours} h");
        stop(engine).await;
    }
}

#[tokio::test]
async fn after_a_restart_a_pause_is_no_longer_than_it_was_to_be_though_the_clock_was_set_back() {
    let project = Project::with(&manual("  - wait: 3h\n"));
    let engine = project.start().await;
    let id = start_and_rest(&engine, "{}").await;
    crash(engine).await;
    set(&project, -8760);
    let engine = project.start().await;
    somebody_sleeps_for(&project, 3 * HOUR).await;
    project.clock.advance(3 * HOUR);
    assert_eq!(end(&engine, id).await, "null");
    stop(engine).await;
}

#[tokio::test]
async fn a_step_that_was_seen_stays_known_over_a_restart() {
    for hours in STEPS {
        let mut peer = Peer::new().await;
        let steps = format!("  - wait: 3h\n{}  - wait: 1h\n", call("a", &peer.base, "/a"));
        let project = Project::with(&format!("timeout: 10m\n{}", manual(&steps)));
        let engine = project.start().await;
        let id = start_and_rest(&engine, "{}").await;
        set(&project, hours);
        project.clock.advance(3 * HOUR);
        let asked = peer.asked().await;
        crash(engine).await;
        drop(asked);
        let engine = project.start().await;
        // Of the ten minutes nothing is used up: the three hours were a pause, the rest was a step.
        peer.asked().await.answer(200, "1").await;
        is_resting(&engine).await;
        somebody_sleeps_for(&project, HOUR).await;
        project.clock.advance(HOUR);
        assert_eq!(end(&engine, id).await, "null", "set by {hours} h");
        stop(engine).await;
    }
}

const HOURLY: &str = "trigger: {schedule: {cron: '0 * * * *', misfire: MISFIRE, overlap: allow}}\nsteps:\n  - set: {at: '${{ trigger.results.scheduledAt }}'}\n";

async fn ticks(engine: &Engine) -> Vec<String> {
    let page = store::Page { before: None, limit: 100 };
    let mut ticks = Vec::new();
    for row in
        engine.store().executions(&store::ExecutionFilter::default(), page).await.expect("they are read")
    {
        if let model::Origin::Schedule { instant } = row.origin {
            ticks.push(instant.strftime("%d %H:%M").to_string());
        }
    }
    ticks.sort();
    ticks
}

#[tokio::test]
async fn no_instant_of_a_schedule_comes_twice_though_the_clock_is_set_back() {
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
async fn a_clock_that_is_set_forward_passes_over_instants_as_misfire_says() {
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
