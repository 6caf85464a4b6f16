//! A graceful stop: running executions end their current step, and continue after the next start.

use pretty_assertions::assert_eq;
use serde_json::json;
use tests::recorder::Recorder;

use crate::site::{Site, posts};

#[tokio::test]
async fn a_stop_ends_the_step_in_flight_and_the_next_start_runs_the_rest() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/two");
    recorder.answer("/down", 503, 1);
    let work = format!("trigger: {{manual: {{}}}}\nsteps:\n{}", posts(&recorder, &["one", "two", "three"]));
    let wait = format!(
        "trigger: {{manual: {{}}}}\nsteps:\n{}    retry: {{max: 1, delay: 1h}}\n",
        posts(&recorder, &["down"])
    );
    let mut site = Site::new(&[("work", &work), ("wait", &wait)]);
    site.start_with(&["--log-level", "engine=debug"]).await;
    let waiting = site.run("wait").await;
    while site.ask(&format!("/executions/{waiting}")).await["status"] != json!("waiting") {
        recorder.wait_for("/down", 1).await.unwrap();
    }
    let id = site.run("work").await;
    recorder.wait_for("/two", 1).await.unwrap();
    site.terminate();
    site.daemon().wait_for_output("shutting down: no step starts any more").await.unwrap();
    recorder.release();
    assert!(site.ended().await.success());
    assert_eq!(recorder.paths(), ["/down", "/one", "/two"]);

    site.start().await;
    assert_eq!(site.end_of(&id).await["status"], json!("succeeded"));
    assert_eq!(recorder.paths(), ["/down", "/one", "/two", "/three"]);
    assert_eq!(site.ask(&format!("/executions/{waiting}")).await["status"], json!("waiting"));
}

#[tokio::test]
async fn a_synchronous_caller_gets_its_response_while_the_daemon_stops() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/slow");
    let work = format!(
        "trigger: {{webhook: {{mode: sync}}}}\nsteps:\n{}  - set: {{done: true}}\n",
        posts(&recorder, &["slow"])
    );
    let mut site = Site::serving(&[("work", &work)]).await;
    let mut events = site.events("/events").await;
    let body = json!({});
    let call = site.post("work", &body);
    let stop = async {
        recorder.wait_for("/slow", 1).await.unwrap();
        site.terminate();
        events.next("closing").await;
        recorder.release();
    };
    let (answer, ()) = tokio::join!(call, stop);
    assert_eq!((answer.status, answer.text.as_str()), (200, r#"{"done":true}"#));
    drop(events);
    assert!(site.ended().await.success());
}

#[tokio::test]
async fn an_idle_daemon_stops_at_once_and_removes_its_daemon_file() {
    let mut site = Site::serving(&[("a", "trigger: {schedule: {every: 1h}}\nsteps: []\n")]).await;
    assert!(site.project.data_dir().join("daemon.json").exists());
    assert!(site.stop().await.success());
    assert!(!site.project.data_dir().join("daemon.json").exists());
}
