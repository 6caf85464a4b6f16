//! The daemon with its store on PostgreSQL: killed, started again, and refused beside another one.

use pretty_assertions::assert_eq;
use serde_json::json;
use store::conformance::PostgresServer;
use tests::recorder::Recorder;

use crate::site::{Site, posts};

fn server() -> PostgresServer {
    PostgresServer::start().expect("PostgreSQL is installed")
}

#[tokio::test]
async fn a_killed_daemon_goes_on_at_its_step_with_the_database() {
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
    assert_eq!((times("/one"), times("/three")), (1, 1), "what was recorded is not repeated");
    assert_eq!(site.ask(&format!("/executions/{waiting}")).await["status"], json!("waiting"));
    let listed = site.cogwork(&["executions", "list", "--store", &url]).await;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("succeeded") && listed.contains("waiting"), "{listed}");
    assert!(site.stop().await.success());
}

#[tokio::test]
async fn a_daemon_on_another_folder_is_refused_while_one_runs_and_no_output_has_the_password() {
    let server = server();
    // The server trusts its socket; any password will do.
    let url = server.space().url().replacen("cogwork@", "cogwork:hunter2@", 1);
    let work = "trigger: {manual: {}}\nsteps: []\n";
    let (mut site, mut other) = (Site::new(&[("work", work)]), Site::new(&[("work", work)]));
    site.start_with(&["--store", &url, "--log-level", "debug"]).await;
    let id = site.run("work").await;
    site.end_of(&id).await;
    let refused =
        other.cogwork(&["serve", "--hooks", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", &url]).await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("several daemons on one database are not supported yet"), "{said}");
    let status = site.ask("/status").await.to_string();
    assert!(status.contains("PostgreSQL") && status.contains("synchronous standby"), "{status}");
    for text in [said, status, site.daemon().output()] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert!(site.stop().await.success());
    other.start_with(&["--store", &url]).await;
    assert_eq!(other.ask(&format!("/executions/{id}")).await["status"], json!("succeeded"));
    assert!(other.stop().await.success());
}
