//! Lists that lag behind writes.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::client::{Wiki, id, send, wiki};

async fn lagging() -> Wiki {
    let wiki = wiki().await;
    wiki.sim.advance(Duration::from_secs(60));
    wiki.sim.switch(|switches| switches.list_lag_ms = 1_000);
    wiki
}

fn later(wiki: &Wiki) {
    wiki.sim.advance(Duration::from_millis(1_000));
}

#[tokio::test]
async fn a_new_page_is_found_by_id_at_once_and_in_lists_later() {
    let wiki = lagging().await;
    let page = id(&wiki.create("A", json!({})).await);
    wiki.get(&format!("/pages/{page}")).await.is(200);
    for path in ["/pages?title=A".to_owned(), format!("/spaces/{}/pages?title=A", wiki.space)] {
        assert!(wiki.get(&path).await.ids().is_empty());
    }
    later(&wiki);
    assert_eq!(wiki.get("/pages?title=A").await.ids(), [page.to_string()]);
}

#[tokio::test]
async fn a_change_and_a_deletion_show_in_lists_later_too() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.sim.advance(Duration::from_secs(60));
    wiki.sim.switch(|switches| switches.list_lag_ms = 1_000);
    wiki.update(page, "B", 2, json!({})).await.is(200);
    let listed = wiki.get(&format!("/pages?id={page}")).await.body["results"][0].clone();
    assert_eq!((&listed["title"], &listed["version"]["number"]), (&json!("A"), &json!(1)));
    later(&wiki);
    assert_eq!(wiki.get(&format!("/pages?id={page}")).await.column("title"), ["B"]);
    wiki.delete(&format!("/pages/{page}")).await.is(204);
    assert_eq!(wiki.get(&format!("/pages?id={page}")).await.column("status"), ["current"]);
    later(&wiki);
    assert!(wiki.get(&format!("/pages?id={page}")).await.ids().is_empty());
    assert_eq!(wiki.get(&format!("/pages?id={page}&status=trashed")).await.column("title"), ["B"]);
}

#[tokio::test]
async fn properties_and_attachments_lag_in_their_lists_as_well() {
    let wiki = lagging().await;
    let page = wiki.page("A");
    let path = format!("/pages/{page}/properties");
    wiki.post(&path, json!({"key": "k", "value": 1})).await.is(200);
    wiki.post(&path, json!({"key": "k", "value": 1})).await.is_error(409, "CONFLICT");
    wiki.attachment(page, "a.txt");
    assert!(wiki.get(&path).await.ids().is_empty());
    assert!(wiki.get("/attachments").await.ids().is_empty());
    later(&wiki);
    assert_eq!(wiki.get(&path).await.column("key"), ["k"]);
    assert_eq!(wiki.get("/attachments").await.column("title"), ["a.txt"]);
}

#[tokio::test]
async fn the_lag_can_be_switched_off_again() {
    let wiki = lagging().await;
    wiki.page("A");
    wiki.sim.switch(|switches| switches.list_lag_ms = 0);
    assert_eq!(send(wiki.v2(Method::GET, "/pages?title=A")).await.ids().len(), 1);
}
