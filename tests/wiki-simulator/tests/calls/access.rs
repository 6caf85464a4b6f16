//! Hosts and authentication, and the calls that there are.

use serde_json::json;
use wiki_simulator::{CLOUD_ID, DEMO_EMAIL, DEMO_SCOPED_TOKEN, DEMO_TOKEN};

use crate::client::{NONE, send, transcripts, wiki};

transcripts! {
    unknown_paths_are_404_other_methods_405_and_calls_that_only_the_real_service_has_501: r#"
        GET /webhook -> 404 NOT_FOUND
        GET /pages/7/unheard-of -> 404 NOT_FOUND
        GET /pages/ -> 404 NOT_FOUND
        GET /pages/%FF -> 404 NOT_FOUND
        GET /wiki/wiki/api/v2/pages -> 404 NOT_FOUND
        GET /api/v2/pages -> 404 NOT_FOUND
        GET /gateway/api/graphql -> 405 METHOD_NOT_ALLOWED
        GET /pages/1/children -> 501 NOT_IMPLEMENTED {"errors.0.title": "The simulator does not have GET /wiki/api/v2/pages/1/children"}
        GET /pages/1/descendants -> 501 NOT_IMPLEMENTED
        GET /pages/1/likes/count -> 501 NOT_IMPLEMENTED
        GET /pages/7/versions/2 -> 501 NOT_IMPLEMENTED
        PUT /pages/7/title {} -> 501 NOT_IMPLEMENTED
        GET /blogposts -> 501 NOT_IMPLEMENTED
        GET /blogposts/1/labels -> 501 NOT_IMPLEMENTED
        GET /tasks/7 -> 501 NOT_IMPLEMENTED
        GET /labels -> 501 NOT_IMPLEMENTED
        GET /spaces/1/properties/2 -> 501 NOT_IMPLEMENTED
        POST /spaces {} -> 501 NOT_IMPLEMENTED
        GET /custom-content/1/children -> 501 NOT_IMPLEMENTED
        GET /wiki/rest/api/search?cql=x -> 501 NOT_IMPLEMENTED"#
}

#[tokio::test]
async fn the_site_accepts_only_api_tokens_and_the_gateway_bearer_and_scoped_tokens() {
    let wiki = wiki().await;
    let (token, gateway) = (wiki.token(), format!("GET /ex/wiki/{CLOUD_ID}/wiki/api/v2/pages"));
    let basic = |line: &str, token| wiki.open(line).basic_auth(DEMO_EMAIL.to_uppercase(), Some(token));
    for (request, outcome) in [
        (wiki.open("GET /pages"), "401 UNAUTHORIZED"),
        (wiki.open("GET /pages").header("authorization", "Basic ???"), "401 UNAUTHORIZED"),
        (wiki.open("GET /pages").header("authorization", "Digest x"), "401 UNAUTHORIZED"),
        (wiki.open("GET /pages").basic_auth("nobody@example.com", Some(DEMO_TOKEN)), "401 UNAUTHORIZED"),
        (basic("GET /pages", "wrong"), "401 UNAUTHORIZED"),
        (basic("GET /pages", DEMO_TOKEN), "200"),
        (basic("GET /pages", DEMO_SCOPED_TOKEN), "401 UNAUTHORIZED"),
        (wiki.open("GET /pages").bearer_auth(&token), "401 UNAUTHORIZED"),
        (wiki.gateway("GET /pages", &token), "200"),
        (wiki.gateway("GET /pages", "unknown"), "401"),
        (wiki.open(&gateway), "401"),
        (basic(&gateway, DEMO_SCOPED_TOKEN), "200"),
        (basic(&gateway, DEMO_TOKEN), "401"),
        (wiki.open("GET /ex/wiki/no-such-cloud/wiki/api/v2/pages").bearer_auth(&token), "404"),
        (wiki.open(&gateway.replace("/ex/wiki", "/ex/other")).bearer_auth(&token), "404 NOT_FOUND"),
    ] {
        send(request).await.is(outcome);
    }
    let answer = send(basic("GET /pages", "demo-password")).await;
    assert!(answer.is("401").header("content-type").starts_with("text/plain"));
    assert!(answer.text.contains("deprecated"));
    assert_eq!(send(wiki.open("GET /_edge/tenant_info")).await.is("200").body, json!({"cloudId": CLOUD_ID}));
}

#[tokio::test]
async fn a_response_has_a_request_id_and_the_allowed_methods_and_head_answers_like_get() {
    let wiki = wiki().await;
    let (first, second) = (wiki.get("/pages").await, wiki.get("/pages/abc").await);
    assert!(!first.header("x-request-id").is_empty() && !second.header("x-request-id").is_empty());
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
    assert_eq!(
        wiki.call("DELETE /pages", NONE).await.is("405 METHOD_NOT_ALLOWED").header("allow"),
        "GET, POST"
    );
    let head = wiki.call("HEAD /pages", NONE).await;
    assert!(head.is("200").text.is_empty() && head.header("link").contains("rel=\"base\""));
}

#[tokio::test]
async fn a_write_has_to_declare_its_body_as_json() {
    let wiki = wiki().await;
    let body = json!({"spaceId": wiki.space.to_string(), "title": "Page"}).to_string();
    for (kind, outcome) in [
        ("text/plain", "415 UNSUPPORTED_MEDIA_TYPE"),
        ("application/x-www-form-urlencoded", "415 UNSUPPORTED_MEDIA_TYPE"),
        ("application/jsonp", "415 UNSUPPORTED_MEDIA_TYPE"),
        ("", "415 UNSUPPORTED_MEDIA_TYPE"),
        ("Application/JSON; charset=utf-8", "200"),
    ] {
        send(wiki.request("POST /pages").header("content-type", kind).body(body.clone())).await.is(outcome);
    }
}
