//! Calls that the simulator lacks, and requests that it rejects.

use reqwest::Method;
use serde_json::json;

use crate::client::{send, wiki};

#[tokio::test]
async fn a_call_that_the_real_service_has_and_the_simulator_has_not_says_so() {
    let wiki = wiki().await;
    let page = wiki.page("Page");
    for path in [
        format!("/pages/{page}/children"),
        format!("/pages/{page}/descendants"),
        format!("/pages/{page}/likes/count"),
        "/blogposts".to_owned(),
        "/tasks".to_owned(),
        "/labels".to_owned(),
    ] {
        let answer = wiki.get(&path).await;
        answer.is_error(501, "NOT_IMPLEMENTED");
        assert!(
            answer.title().starts_with("The simulator does not have GET /wiki/api/v2/"),
            "{}",
            answer.text
        );
    }
    wiki.put(&format!("/pages/{page}/title"), json!({})).await.is_error(501, "NOT_IMPLEMENTED");
    wiki.post("/spaces", json!({})).await.is_error(501, "NOT_IMPLEMENTED");
    send(wiki.site(Method::GET, "/wiki/rest/api/search?cql=x")).await.is_error(501, "NOT_IMPLEMENTED");
    wiki.get("/unheard-of").await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_write_has_to_say_that_its_body_is_json() {
    let wiki = wiki().await;
    let body = json!({"spaceId": wiki.space.to_string(), "title": "Page"}).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"] {
        let request = wiki.v2(Method::POST, "/pages").header("content-type", kind).body(body.clone());
        send(request).await.is_error(415, "UNSUPPORTED_MEDIA_TYPE");
    }
    send(wiki.v2(Method::POST, "/pages").body(body.clone())).await.is_error(415, "UNSUPPORTED_MEDIA_TYPE");
    let kind = "Application/JSON; charset=utf-8";
    send(wiki.v2(Method::POST, "/pages").header("content-type", kind).body(body)).await.is(200);
    assert_eq!(wiki.get("/pages?title=Page").await.ids().len(), 1);
}

#[tokio::test]
async fn the_operations_of_a_page_space_and_attachment_are_a_list_of_that_name() {
    let wiki = wiki().await;
    let page = wiki.page("Page");
    let attachment = wiki.attachment(page, "a.txt");
    for (path, kind) in [
        (format!("/pages/{page}/operations"), "page"),
        (format!("/spaces/{}/operations", wiki.space), "space"),
        (format!("/attachments/att{attachment}/operations"), "attachment"),
    ] {
        let answer = wiki.get(&path).await;
        assert_eq!(answer.is(200).body["operations"][0], json!({"operation": "read", "targetType": kind}));
        assert!(answer.body["results"].is_null() && answer.body["_links"].is_null(), "{}", answer.text);
    }
}
