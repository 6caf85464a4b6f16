//! The daemon is asked to stop: what runs comes to the end of its step, and the rest goes on at the next start.

use pretty_assertions::assert_eq;
use serde_json::json;
use tests::recorder::Recorder;

use crate::site::{Site, posts};

#[tokio::test]
async fn the_step_in_flight_ends_and_the_rest_goes_on_at_the_next_start() {
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
    site.daemon().says("from now on nothing begins").await.unwrap();
    recorder.release();
    assert!(site.ended().await.success());
    assert_eq!(recorder.paths(), ["/down", "/one", "/two"]);

    site.start().await;
    assert_eq!(site.end_of(&id).await["status"], json!("succeeded"));
    assert_eq!(recorder.paths(), ["/down", "/one", "/two", "/three"]);
    assert_eq!(site.ask(&format!("/executions/{waiting}")).await["status"], json!("waiting"));
}

#[tokio::test]
async fn a_synchronous_caller_gets_its_answer_while_the_daemon_stops() {
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
async fn a_daemon_without_work_stops_at_once_and_leaves_no_trace_of_running() {
    let mut site = Site::serving(&[("a", "trigger: {schedule: {every: 1h}}\nsteps: []\n")]).await;
    assert!(site.project.data_dir().join("daemon.json").exists());
    assert!(site.stop().await.success());
    assert!(!site.project.data_dir().join("daemon.json").exists());
}
