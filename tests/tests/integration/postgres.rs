//! The daemon with its store on PostgreSQL: killed and started again. `cluster` has several daemons.

use pretty_assertions::assert_eq;
use serde_json::json;
use store::conformance::PostgresServer;
use tests::recorder::Recorder;

use crate::site::{Site, posts};

fn server() -> PostgresServer {
    PostgresServer::start()
}

#[tokio::test]
async fn a_killed_daemon_resumes_its_executions_from_the_database() {
    let server = server();
    let url = server.space().url();
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/two");
    let work = format!("trigger: {{webhook: {{}}}}\nsteps:\n{}", posts(&recorder, &["one", "two", "three"]));
    let wait = "trigger: {manual: {}}\nsteps:\n  - wait: 1h\n";
    let mut site = Site::new(&[("work", &work), ("wait", wait)]);
    site.start_with(&["--store", &url]).await;
    let waiting = site.run("wait").await;
    let large = "x".repeat(300 << 10);
    let id = site.post("work", &json!({"large": large})).await.execution();
    recorder.wait_for("/two", 1).await.unwrap();
    while site.ask(&format!("/executions/{waiting}")).await["status"] != json!("waiting") {}
    site.kill().await;
    recorder.release();

    site.start_with(&["--store", &url]).await;
    assert_eq!(site.end_of(&id).await["status"], json!("succeeded"));
    let times = |path: &str| recorder.paths().iter().filter(|found| *found == path).count();
    assert_eq!((times("/one"), times("/three")), (1, 1), "recorded steps are not repeated");
    assert_eq!(site.ask(&format!("/executions/{waiting}")).await["status"], json!("waiting"));
    let listed = site.cogwork(&["executions", "list", "--store", &url]).await;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("succeeded") && listed.contains("waiting"), "{listed}");
    assert!(site.stop().await.success());
}

#[tokio::test]
async fn no_output_contains_the_database_password() {
    let server = server();
    // The server trusts its socket; any password will do.
    let url = server.space().url().replacen("cogwork@", "cogwork:hunter2@", 1);
    let mut site = Site::new(&[("work", "trigger: {manual: {}}\nsteps: []\n")]);
    site.start_with(&["--store", &url, "--log-level", "debug"]).await;
    let id = site.run("work").await;
    site.end_of(&id).await;
    let nodes = site.cogwork(&["nodes"]).await;
    let nodes = String::from_utf8_lossy(&nodes.stdout).into_owned();
    assert!(nodes.contains("alive, answers") && nodes.contains("128"), "{nodes}");
    let status = site.ask("/status").await.to_string();
    assert!(status.contains("PostgreSQL") && status.contains("synchronous standby"), "{status}");
    for text in [nodes, status, site.daemon().output()] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert!(site.stop().await.success());
}
