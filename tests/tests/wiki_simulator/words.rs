//! The words of a product in the place of the neutral ones, on every way in and out.

use reqwest::Method;
use serde_json::json;
use tests::wiki::{CLOUD_ID, Simulator, Switches, Words};

use crate::client::{Wiki, id, send, wiki_with};

async fn acme() -> Wiki {
    let words =
        Words::parse("product=acme,pathSlug=acme-wiki,documentFormat=acme_doc,uploadHeader=X-Acme-Token")
            .unwrap();
    wiki_with(Simulator::builder().switches(Switches { words, ..Switches::default() })).await
}

const DOCUMENT: &str = r#"{"type":"doc","version":1,"content":[]}"#;

#[tokio::test]
async fn the_document_format_goes_by_the_products_word_alone() {
    let wiki = acme().await;
    let body = json!({"representation": "acme_doc", "value": DOCUMENT});
    let page = id(wiki.create("Document", json!({"body": body})).await.is(200));
    let read = wiki.get(&format!("/pages/{page}?body-format=acme_doc")).await;
    assert_eq!(
        read.is(200).body["body"],
        json!({"acme_doc": {"representation": "acme_doc", "value": DOCUMENT}})
    );
    let listed = wiki.get(&format!("/pages?id={page}&body-format=acme_doc")).await;
    assert_eq!(listed.is(200).body["results"][0]["body"]["acme_doc"]["value"], DOCUMENT);
    let under = json!({"acme_doc": {"representation": "acme_doc", "value": DOCUMENT}});
    wiki.create("Other form", json!({"body": under})).await.is(200);

    let neutral = json!({"representation": "wiki_doc_format", "value": DOCUMENT});
    wiki.create("Neutral", json!({"body": neutral})).await.is(400);
    let refused = wiki.get(&format!("/pages/{page}?body-format=wiki_doc_format")).await;
    assert!(refused.is(400).title().contains("acme_doc"), "{}", refused.text);
}

#[tokio::test]
async fn the_cursor_of_a_list_goes_on_in_the_products_words() {
    let wiki = acme().await;
    wiki.page("A");
    wiki.page("B");
    let first = wiki.get("/pages?limit=1&body-format=acme_doc").await;
    let next = first.is(200).next().unwrap();
    assert!(next.contains("body-format=acme_doc"), "{next}");
    send(wiki.site(Method::GET, &next)).await.is(200);
}

#[tokio::test]
async fn the_gateway_goes_by_the_products_slug_and_scopes() {
    let wiki = acme().await;
    let token = wiki.token();
    let at = |slug: &str| format!("/ex/{slug}/{CLOUD_ID}/wiki/api/v2/pages");
    send(wiki.open(Method::GET, &at("acme-wiki")).bearer_auth(&token)).await.is(200);
    send(wiki.open(Method::GET, &at("wiki")).bearer_auth(&token)).await.is(404);
    let sites = send(wiki.open(Method::GET, "/oauth/token/accessible-resources").bearer_auth(&token)).await;
    let scopes = sites.is(200).body[0]["scopes"].to_string();
    assert!(scopes.contains("read:page:acme") && !scopes.contains("wiki"), "{scopes}");
}

#[tokio::test]
async fn a_consent_to_the_products_scopes_gives_a_token_for_them() {
    let wiki = acme().await;
    for (scope, status) in [("read:page:acme", 200), ("read:page:wiki", 401)] {
        let path = format!(
            "/authorize?client_id=demo-client&redirect_uri=http://x.test/&state=s&response_type=code&scope={scope}"
        );
        let path = path.replace("demo-client", tests::wiki::DEMO_CLIENT_ID);
        let location = send(wiki.open(Method::GET, &path)).await.is(302).header("location").to_owned();
        let code = location.split("code=").nth(1).unwrap().split('&').next().unwrap().to_owned();
        let body = json!({
            "grant_type": "authorization_code", "client_id": tests::wiki::DEMO_CLIENT_ID,
            "client_secret": tests::wiki::DEMO_CLIENT_SECRET, "code": code, "redirect_uri": "http://x.test/"
        });
        let tokens = send(wiki.open(Method::POST, "/oauth/token").json(&body)).await;
        let token = tokens.is(200).body["access_token"].as_str().unwrap().to_owned();
        let path = format!("/ex/acme-wiki/{CLOUD_ID}/wiki/api/v2/pages");
        send(wiki.open(Method::GET, &path).bearer_auth(token)).await.is(status);
    }
}

#[tokio::test]
async fn an_upload_takes_the_products_header() {
    let wiki = acme().await;
    let page = wiki.page("Page");
    let path = format!("/wiki/rest/api/content/{page}/child/attachment");
    let upload = |header: &'static str| {
        let part = reqwest::multipart::Part::text("bytes").file_name("a.txt");
        let form = reqwest::multipart::Form::new().part("file", part);
        send(wiki.site(Method::POST, &path).header(header, "no-check").multipart(form))
    };
    upload("x-wiki-token").await.is(403);
    upload("X-Acme-Token").await.is(200);
}
