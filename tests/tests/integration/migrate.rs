//! A store that is moved from a file to a server and back, by a command that is killed at each of its commits.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use store::conformance::PostgresServer;
use tests::daemon::cogwork;
use tokio::io::AsyncWriteExt as _;

use crate::site::{Site, send};

const APPROVAL: &str = "trigger: {manual: {}}\nsteps:\n  - {id: go, waitFor: {approval: {message: Go?, options: [send, stop]}}}\n  - {id: out, set: {chosen: \"${{ steps.go.results.option }}\"}}\n";
const COUNT: &str = "trigger: {webhook: {mode: sync}}\nsteps:\n  - {id: count, action: state.increment, with: {key: count}}\n  - respond: {status: 200, body: {count: \"${{ steps.count.results }}\"}}\n";
const LARGE: &str =
    "trigger: {webhook: {}}\nsteps:\n  - set: {got: \"${{ trigger.results.body.data.text }}\"}\n";
const SECRET: &str =
    "trigger: {webhook: {verify: {preset: sharedToken, secret: \"${{ secrets.code }}\"}}}\nsteps: []\n";
const TICK: &str = "trigger: {schedule: {every: 1s}}\nsteps: []\n";

fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs `cogwork migrate` in the project of a site. With a boundary it dies at the next commit.
async fn migrate(site: &Site, arguments: &[&str], dies: Option<(&Path, &str)>) -> Output {
    let mut command = cogwork(&site.project).unwrap();
    command.arg("migrate").args(arguments);
    if let Some((folder, boundary)) = dies {
        std::fs::write(folder.join(boundary), "abort").unwrap();
        command.env("COGWORK_FAILPOINTS", folder);
    }
    command.output().await.unwrap()
}

/// Runs the migration repeatedly, each time killed before or after its next commit, then to its end. Returns its report.
async fn migrate_with_kills(site: &Site, arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    for turn in 0..12 {
        let boundary = if turn % 4 == 1 { "beforeCommit" } else { "afterCommit" };
        let output = migrate(site, arguments, Some((folder.path(), boundary))).await;
        assert_eq!(output.status.signal(), Some(6), "{turn}: {}", output_text(&output));
    }
    let output = migrate(site, arguments, None).await;
    assert!(output.status.success(), "{}", output_text(&output));
    assert!(output_text(&output).contains("going on with the migration"), "{}", output_text(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn hashes(report: &Value) -> Vec<(&Value, &Value)> {
    assert_eq!(report["moved"], json!(true), "{report}");
    report["kinds"].as_array().unwrap().iter().map(|kind| (&kind["kind"], &kind["hash"]["target"])).collect()
}

async fn status_of(site: &Site, execution: &str) -> Value {
    site.ask(&format!("/executions/{execution}")).await["status"].clone()
}

async fn answer(site: &Site, execution: &str) {
    let path = format!("/executions/{execution}/signal");
    let answer = send(site.api(Method::POST, &path).json(&json!({"option": "send"}))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let end = site.end_of(execution).await;
    assert_eq!(end["status"], json!("succeeded"), "{end}");
    assert!(end.to_string().contains(r#""chosen":"send""#), "{end}");
}

async fn set_secret(site: &Site) {
    let mut command = cogwork(&site.project).unwrap();
    command.args(["secrets", "set", "code"]).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"seventeen").await.unwrap();
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn a_store_migrated_to_a_server_and_back_despite_kills_keeps_everything() {
    let server = PostgresServer::start();
    let url = server.space().url();
    let mut site = Site::new(&[
        ("approval", APPROVAL),
        ("count", COUNT),
        ("large", LARGE),
        ("tick", TICK),
        ("secret", SECRET),
    ]);
    site.start().await;
    set_secret(&site).await;
    let (first, second) = (site.run("approval").await, site.run("approval").await);
    for id in [&first, &second] {
        while status_of(&site, id).await != json!("waiting") {}
    }
    for count in 1..=3 {
        assert_eq!(site.post("count", &json!({})).await.json()["count"], json!(count));
    }
    let text = "large ".repeat(60_000);
    let large = site.post("large", &json!({"text": text})).await.execution();
    site.end_of(&large).await;
    while site.executions_of("tick").await.is_empty() {}
    let address = site.token("large").await;
    let refused = migrate(&site, &["--to", &url], None).await;
    assert!(
        !refused.status.success() && output_text(&refused).contains("another daemon (process"),
        "{}",
        output_text(&refused)
    );
    assert!(site.stop().await.success());

    let there = migrate_with_kills(&site, &["--to", &url, "--json"]).await;
    hashes(&there);
    let refused = site.cogwork(&["serve", "--hooks", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(output_text(&refused).contains("was moved to `postgres://"), "{}", output_text(&refused));
    let again = migrate(&site, &["--to", &url], None).await;
    assert!(output_text(&again).contains("was moved to"), "{}", output_text(&again));

    site.start_with(&["--store", &url]).await;
    assert_eq!(site.token("large").await, address, "addresses stay");
    answer(&site, &first).await;
    assert_eq!(site.post("count", &json!({})).await.json()["count"], json!(4));
    let body = site.ask(&format!("/executions/{large}")).await["payload"]["body"].to_string();
    assert!(body.contains(&text[..1000]) && body.len() > text.len(), "{}", body.len());
    for (code, status) in [("eighteen", 401), ("seventeen", 200)] {
        let url = site.url("secret").await;
        let answer = send(site.request(Method::POST, &url).header("x-webhook-token", code).json(&json!({})));
        assert_eq!(answer.await.status, status, "{code}: the secret can be read");
    }
    let back = site.project.path().join("back");
    let back = back.to_str().unwrap();
    let refused = migrate(&site, &["--store", &url, "--to", back], None).await;
    assert!(output_text(&refused).contains("a daemon on"), "{}", output_text(&refused));
    assert!(site.stop().await.success());

    let here = migrate_with_kills(&site, &["--store", &url, "--to", back, "--json"]).await;
    let other = server.space().url();
    // Migrates once more, to compare the hashes of the file with the hashes of a database.
    let once_more = migrate_with_kills(&site, &["--store", back, "--to", &other, "--json"]).await;
    assert_eq!(hashes(&here), hashes(&once_more));
    let undone = migrate(&site, &["--store", back, "--undo"], None).await;
    assert!(output_text(&undone).contains("never run daemons on both"), "{}", output_text(&undone));
    site.start_with(&["--store", back]).await;
    answer(&site, &second).await;
    assert_eq!(site.post("count", &json!({})).await.json()["count"], json!(5));
    assert_eq!(status_of(&site, &first).await, json!("succeeded"));
    assert!(site.stop().await.success());
}

#[tokio::test]
async fn the_report_of_a_migration_names_each_kind_with_its_rows() {
    let mut site = Site::new(&[("approval", APPROVAL)]);
    site.start().await;
    let id = site.run("approval").await;
    while status_of(&site, &id).await != json!("waiting") {}
    assert!(site.stop().await.success());
    let moved = migrate(&site, &["--to", "copy"], None).await;
    assert!(moved.status.success(), "{}", output_text(&moved));
    let table = String::from_utf8_lossy(&moved.stdout).into_owned();
    let row = table.lines().find(|line| line.starts_with("unfinished executions")).unwrap();
    assert!(row.contains(" 1 ") && row.ends_with("yes"), "{table}");
    assert!(output_text(&moved).contains("--undo"), "{}", output_text(&moved));
    // An existing file is not overwritten.
    let undone = migrate(&site, &["--undo"], None).await;
    assert!(undone.status.success(), "{}", output_text(&undone));
    let refused = migrate(&site, &["--to", "copy"], None).await;
    assert!(output_text(&refused).contains("is not empty"), "{}", output_text(&refused));
}
