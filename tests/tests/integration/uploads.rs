//! Large files over a restart.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::json;
use tests::recorder::Recorder;

use crate::site::{Site, posts, send};

#[tokio::test]
async fn an_acknowledged_file_survives_a_kill_and_is_passed_on() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/first");
    let work = format!(
        "trigger: {{webhook: {{verify: none}}}}\nsteps:\n{}  - action: http.request\n    with:\n      method: POST\n      \
         url: {}/file\n      body: ${{{{ trigger.results.body.data }}}}\n",
        posts(&recorder, &["first"]),
        recorder.url()
    );
    let mut site = Site::serving(&[("work", &work)]).await;
    let url = site.url("work").await;
    let file = "0123456789abcdef".repeat(20 << 10);
    let sent = site.request(Method::POST, &url).header("content-type", "application/octet-stream");
    let id = send(sent.body(file.clone())).await.execution();
    site.kill().await;
    recorder.release();
    site.start().await;
    assert_eq!(site.end_of(&id).await["status"], json!("succeeded"));
    let arrived = recorder.requests_to("/file");
    assert!(arrived.len() == 1 && arrived[0].body == file, "it arrives once, and not a byte is lost");
    let unnamed = site.project.data_dir().join("blobs/unnamed");
    assert_eq!(std::fs::read_dir(unnamed).map_or(0, Iterator::count), 0);
}
