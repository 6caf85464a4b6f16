//! Content properties, on all three kinds of parents.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::client::{Wiki, id, send, wiki};

/// The property routes of a page, an attachment and a piece of custom content.
fn parents(wiki: &Wiki) -> [String; 3] {
    let page = wiki.page("Parent");
    let attachment = wiki.attachment(page, "a.txt");
    let content = wiki.custom_content(page);
    [
        format!("/pages/{page}/properties"),
        format!("/attachments/att{attachment}/properties"),
        format!("/custom-content/{content}/properties"),
    ]
}

#[tokio::test]
async fn a_property_is_created_read_updated_and_deleted_on_every_kind_of_parent() {
    let wiki = wiki().await;
    for path in parents(&wiki) {
        let made = wiki.post(&path, json!({"key": "k", "value": {"a": [1, null]}})).await;
        assert_eq!(made.is(200).body["version"]["number"], 1);
        let one = format!("{path}/{}", id(&made));
        assert_eq!(wiki.get(&one).await.body["value"], json!({"a": [1, null]}));
        let update = json!({"key": "k", "value": "new", "version": {"number": 2, "message": "why"}});
        let updated = wiki.put(&one, update).await;
        assert_eq!(
            (&updated.is(200).body["value"], &updated.body["version"]["number"]),
            (&json!("new"), &json!(2))
        );
        assert_eq!(updated.body["version"]["message"], "why");
        let deleted = wiki.delete(&one).await;
        assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
        wiki.get(&one).await.is_error(404, "NOT_FOUND");
        let again = wiki.post(&path, json!({"key": "k", "value": 1})).await;
        assert_eq!(again.is(200).body["version"]["number"], 1);
        assert_ne!(id(&again), id(&made));
    }
}

#[tokio::test]
async fn values_of_any_kind_come_back_digit_by_digit() {
    let wiki = wiki().await;
    let [path, ..] = parents(&wiki);
    for (place, value) in
        ["null", "12345678901234567890123", "1.10", "\"\"", "false", "[]"].iter().enumerate()
    {
        let body = format!(r#"{{"key":"k{place}","value":{value}}}"#);
        let request = wiki.v2(Method::POST, &path).header("content-type", "application/json").body(body);
        let made = send(request).await;
        let read = wiki.get(&format!("{path}/{}", id(&made))).await;
        assert!(read.text.contains(&format!("\"value\":{value},")), "{value}: {}", read.text);
    }
}

#[tokio::test]
async fn a_key_that_exists_is_a_conflict_and_another_case_is_another_key() {
    let wiki = wiki().await;
    let [path, ..] = parents(&wiki);
    wiki.post(&path, json!({"key": "k", "value": 1})).await.is(200);
    let answer = wiki.post(&path, json!({"key": "k", "value": 2})).await;
    assert!(answer.is_error(409, "CONFLICT").title().contains("'k' already exists"));
    wiki.post(&path, json!({"key": "K", "value": 2})).await.is(200);
}

#[tokio::test]
async fn what_a_property_needs_is_400_when_it_is_missing_or_too_large() {
    let wiki = wiki().await;
    let [path, ..] = parents(&wiki);
    for body in [
        json!({"value": 1}),
        json!({"key": "", "value": 1}),
        json!({"key": 5, "value": 1}),
        json!({"key": "k"}),
    ] {
        wiki.post(&path, body).await.is_error(400, "BAD_REQUEST");
    }
    wiki.post(&path, json!({"key": "k", "value": "x".repeat(32_766)})).await.is(200);
    wiki.post(&path, json!({"key": "l", "value": "x".repeat(32_767)})).await.is_error(400, "BAD_REQUEST");
}

#[tokio::test]
async fn an_update_needs_the_next_version_and_the_same_key() {
    let wiki = wiki().await;
    let [path, ..] = parents(&wiki);
    let one = format!("{path}/{}", id(&wiki.post(&path, json!({"key": "k", "value": 1})).await));
    for number in [1, 3] {
        let stale = wiki.put(&one, json!({"key": "k", "value": 2, "version": {"number": number}})).await;
        assert!(stale.is_error(409, "CONFLICT").title().contains("[1]"));
    }
    wiki.put(&one, json!({"key": "k", "value": 2})).await.is_error(400, "BAD_REQUEST");
    wiki.put(&one, json!({"key": "other", "value": 2, "version": {"number": 2}}))
        .await
        .is_error(400, "BAD_REQUEST");
    assert_eq!(wiki.get(&one).await.body["value"], 1);
}

#[tokio::test]
async fn a_property_is_found_only_under_its_own_parent() {
    let wiki = wiki().await;
    let [page, attachment, content] = parents(&wiki);
    let property = id(&wiki.post(&page, json!({"key": "k", "value": 1})).await);
    for other in [attachment, content] {
        wiki.get(&format!("{other}/{property}")).await.is_error(404, "NOT_FOUND");
        wiki.delete(&format!("{other}/{property}")).await.is_error(404, "NOT_FOUND");
    }
    wiki.get("/pages/99/properties").await.is_error(404, "NOT_FOUND");
    wiki.get(&format!("{page}/first")).await.is_error(400, "INVALID_REQUEST_PARAMETER");
}

#[tokio::test]
async fn properties_of_a_parent_in_the_trash_cannot_be_reached_until_it_is_restored() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let path = format!("/pages/{page}/properties");
    wiki.post(&path, json!({"key": "k", "value": 1})).await.is(200);
    wiki.delete(&format!("/pages/{page}")).await.is(204);
    wiki.get(&path).await.is_error(404, "NOT_FOUND");
    wiki.update(page, "A", 2, json!({})).await.is(200);
    assert_eq!(wiki.get(&path).await.column("key"), ["k"]);
}

#[tokio::test]
async fn lists_filter_by_exact_key_and_sort_by_key_alone() {
    let wiki = wiki().await;
    for path in parents(&wiki) {
        for key in ["b", "c", "a", "A"] {
            wiki.post(&path, json!({"key": key, "value": 1})).await.is(200);
        }
        assert_eq!(wiki.get(&path).await.column("key"), ["b", "c", "a", "A"]);
        assert_eq!(wiki.get(&format!("{path}?key=a")).await.column("key"), ["a"]);
        assert_eq!(wiki.get(&format!("{path}?sort=key")).await.column("key"), ["A", "a", "b", "c"]);
        assert_eq!(wiki.get(&format!("{path}?sort=-key")).await.column("key"), ["c", "b", "a", "A"]);
        wiki.get(&format!("{path}?sort=id")).await.is_error(400, "INVALID_REQUEST_PARAMETER");
        let first = wiki.get(&format!("{path}?sort=key&limit=3")).await;
        let query = first.next().unwrap().split_once('?').unwrap().1.to_owned();
        assert_eq!(wiki.get(&format!("{path}?{query}")).await.column("key"), ["c"]);
    }
}

#[tokio::test]
async fn the_platform_adds_properties_of_its_own_a_while_after_creation() {
    let wiki = wiki().await;
    wiki.sim.switch(|switches| switches.platform_properties_after_ms = Some(500));
    let page = id(&wiki.create("A", json!({})).await);
    let path = format!("/pages/{page}/properties");
    assert!(wiki.get(&path).await.ids().is_empty());
    wiki.sim.advance(Duration::from_millis(500));
    wiki.post(&path, json!({"key": "editor", "value": "v1"})).await.is_error(409, "CONFLICT");
    let found = wiki.get(&format!("{path}?key=editor")).await;
    let one = format!("{path}/{}", found.ids()[0]);
    wiki.put(&one, json!({"key": "editor", "value": "v1", "version": {"number": 2}})).await.is(200);
    assert_eq!(wiki.get(&path).await.ids().len(), 2);
    wiki.delete(&one).await.is(204);
    assert_eq!(wiki.get(&path).await.ids().len(), 1, "they are added once");
}
