//! A webhook address stays valid.

use pretty_assertions::{assert_eq, assert_ne};
use reqwest::Method;
use serde_json::json;

use crate::site::{Site, send};

const HOOK: &str = "id: orders\ntrigger: {webhook: {}}\nsteps: [{set: {version: 1}}]\n";

#[tokio::test]
async fn the_token_survives_a_reload_a_rename_a_restart_and_a_kill() {
    let mut site = Site::serving(&[("hook", HOOK)]).await;
    let token = site.token("orders").await;
    assert!(token.len() >= 22, "128 bits at least: {token}");

    let mut changes = site.events("/events").await;
    site.project.automation("hook", &HOOK.replace("version: 1", "version: 2")).unwrap();
    changes.next("catalog").await;
    assert_eq!(site.token("orders").await, token, "after a change");

    site.project.rename("automations/hook.yaml", "automations/intake.yaml").unwrap();
    while site.automation("orders").await["path"] != json!("automations/intake.yaml") {
        changes.next("catalog").await;
    }
    assert_eq!(site.token("orders").await, token, "after a rename");

    assert!(site.stop().await.success());
    site.start().await;
    assert_eq!(site.token("orders").await, token, "after a restart");

    site.kill().await;
    site.start().await;
    assert_eq!(site.token("orders").await, token, "after a kill");
    let url = format!("{}/trigger/{token}", site.daemon().hooks_url());
    let id = send(site.request(Method::POST, &url)).await.execution();
    assert_eq!(site.end_of(&id).await["outcome"]["result"], json!({"version": 2}));
}

#[tokio::test]
async fn a_file_that_is_removed_and_added_again_keeps_its_address() {
    let site = Site::serving(&[("hook", HOOK)]).await;
    let (url, token) = (site.url("orders").await, site.token("orders").await);
    let mut changes = site.events("/events").await;
    site.project.remove("automations/hook.yaml").unwrap();
    changes.next("catalog").await;
    assert_eq!(send(site.request(Method::POST, &url)).await.refusal(), (404, "unknown_trigger".to_owned()));
    site.project.automation("again", HOOK).unwrap();
    while send(site.request(Method::POST, &url)).await.status != 200 {
        changes.next("catalog").await;
    }
    assert_eq!(site.token("orders").await, token);
}

#[tokio::test]
async fn addresses_are_unique() {
    let site = Site::serving(&[
        ("a", "trigger: {webhook: {}}\nsteps: []\n"),
        ("b", "trigger: {webhook: {}}\nsteps: []\n"),
    ]);
    let site = site.await;
    assert_ne!(site.token("a").await, site.token("b").await);
    let automation = site.automation("a").await;
    assert_ne!(automation["liveUrl"], automation["testUrl"]);
}
