//! Every operation that the connector's actions need, once, on both hosts.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::client::{Answer, Wiki, send, wiki};

/// One of the two ways in.
struct Way<'a> {
    wiki: &'a Wiki,
    token: Option<String>,
}

impl Way<'_> {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        match &self.token {
            Some(token) => self.wiki.gateway(method, path, token),
            None => self.wiki.v2(method, path),
        }
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> Answer {
        let request = self.request(method, path);
        send(if body.is_null() { request } else { request.json(&body) }).await
    }
}

async fn properties(way: &Way<'_>, parent: &str) {
    let made =
        way.call(Method::POST, &format!("{parent}/properties"), json!({"key": "k", "value": "v"})).await;
    let one = format!("{parent}/properties/{}", made.is(200).body["id"].as_str().unwrap());
    way.call(Method::GET, &one, Value::Null).await.is(200);
    assert_eq!(way.call(Method::GET, &format!("{parent}/properties"), Value::Null).await.ids().len(), 1);
    let update = json!({"key": "k", "value": "w", "version": {"number": 2, "message": ""}});
    way.call(Method::PUT, &one, update).await.is(200);
    way.call(Method::DELETE, &one, Value::Null).await.is(204);
}

async fn everything(way: &Way<'_>, title: &str) {
    let space = way.wiki.space.to_string();
    way.call(Method::GET, "/spaces", Value::Null).await.is(200);
    way.call(Method::GET, &format!("/spaces/{space}"), Value::Null).await.is(200);
    let body = json!({"representation": "storage", "value": "<p/>"});
    let create = json!({"spaceId": space, "status": "current", "title": title, "body": body});
    let page = way.call(Method::POST, "/pages?embedded=true", create).await.is(200).body["id"].clone();
    let page: u64 = page.as_str().unwrap().parse().unwrap();
    let path = format!("/pages/{page}");
    way.call(Method::GET, &path, Value::Null).await.is(200);
    way.call(Method::GET, "/pages", Value::Null).await.is(200);
    way.call(Method::GET, &format!("/spaces/{space}/pages"), Value::Null).await.is(200);
    let update = json!({
        "id": page.to_string(), "status": "current", "title": format!("{title} 2"), "body": body,
        "version": {"number": 2, "message": "m"}, "spaceId": space,
    });
    way.call(Method::PUT, &path, update).await.is(200);
    let attachment = format!("/attachments/att{}", way.wiki.attachment(page, "a.txt"));
    way.call(Method::GET, &attachment, Value::Null).await.is(200);
    way.call(Method::GET, "/attachments", Value::Null).await.is(200);
    assert_eq!(way.call(Method::GET, &format!("{path}/attachments"), Value::Null).await.ids().len(), 1);
    let content = format!("/custom-content/{}", way.wiki.custom_content(page));
    for parent in [&path, &attachment, &content] {
        properties(way, parent).await;
    }
    for gone in [&attachment, &path] {
        way.call(Method::DELETE, gone, Value::Null).await.is(204);
        way.call(Method::DELETE, &format!("{gone}?purge=true"), Value::Null).await.is(204);
        way.call(Method::GET, gone, Value::Null).await.is(404);
    }
}

#[tokio::test]
async fn every_operation_works_on_the_site_with_an_api_token() {
    let wiki = wiki().await;
    everything(&Way { wiki: &wiki, token: None }, "Site").await;
}

#[tokio::test]
async fn every_operation_works_on_the_gateway_with_the_default_scopes() {
    let wiki = wiki().await;
    let token = Some(wiki.token());
    everything(&Way { wiki: &wiki, token }, "Gateway").await;
}
