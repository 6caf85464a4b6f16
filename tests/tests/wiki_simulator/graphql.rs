//! GraphQL on both hosts.

use reqwest::Method;
use serde_json::{Value, json};
use tests::wiki::{DEMO_SPACE_ID, GraphqlAnswer, Simulator};

use crate::client::{Answer, Wiki, bare, send, wiki};

async fn ask(wiki: &Wiki, body: Value) -> Answer {
    send(wiki.site(Method::POST, "/gateway/api/graphql").json(&body)).await
}

#[tokio::test]
async fn the_spaces_of_the_demo_site_are_computed_from_its_state() {
    let wiki = bare(Simulator::builder().demo()).await;
    let all = ask(&wiki, json!({"query": "query Spaces { spaces { id key } }"})).await;
    assert_eq!(all.is(200).body["data"]["spaces"][0]["id"], DEMO_SPACE_ID.to_string());
    assert_eq!(all.body["data"]["spaces"][1]["key"], "ARCH");
    assert!(all.body.get("errors").is_none());
    let query = "query SpaceByKey($key: String!) { spaceByKey(key: $key) { id } }";
    let one = ask(&wiki, json!({"query": query, "variables": {"key": "DEMO"}})).await;
    assert_eq!(one.body["data"]["spaceByKey"]["id"], DEMO_SPACE_ID.to_string());
    let none = ask(&wiki, json!({"query": query, "variables": {"key": "NONE"}})).await;
    assert_eq!(none.body["data"], json!({"spaceByKey": null}));
    assert!(ask(&wiki, json!({"query": query})).await.is(200).body["errors"][0]["message"].is_string());
}

#[tokio::test]
async fn what_is_not_registered_is_200_with_errors_and_no_data() {
    let wiki = wiki().await;
    let answer = ask(&wiki, json!({"query": "query Unknown { x }"})).await;
    assert_eq!(answer.is(200).body["data"], Value::Null);
    assert!(answer.body["errors"][0]["message"].is_string());
}

#[tokio::test]
async fn answers_are_found_by_operation_name_and_by_text() {
    let wiki = wiki().await;
    wiki.sim.graphql("Mine", GraphqlAnswer::data(json!({"a": 1}))).unwrap();
    wiki.sim.graphql("{ b }", GraphqlAnswer::data(json!({"b": 2}))).unwrap();
    let failing = GraphqlAnswer::errors(json!({"c": null}), vec![json!({"message": "half of it"})]);
    wiki.sim.graphql("Half", failing).unwrap();
    assert_eq!(ask(&wiki, json!({"query": "query Mine { a }"})).await.body["data"], json!({"a": 1}));
    assert_eq!(
        ask(&wiki, json!({"query": "query A { a } query Mine { a }", "operationName": "Mine"})).await.body["data"],
        json!({"a": 1})
    );
    assert_eq!(ask(&wiki, json!({"query": "{\n  b\n}"})).await.body["data"], json!({"b": 2}));
    let half = ask(&wiki, json!({"query": "mutation Half { c }"})).await;
    assert_eq!(
        (&half.body["data"], &half.body["errors"][0]["message"]),
        (&json!({"c": null}), &json!("half of it"))
    );
}

#[tokio::test]
async fn headers_come_through_and_can_be_required() {
    let wiki = wiki().await;
    wiki.sim
        .graphql("New", GraphqlAnswer::data(json!({"n": 1})).requires_header("X-ExperimentalApi"))
        .unwrap();
    let refused = ask(&wiki, json!({"query": "query New { n }"})).await;
    assert_eq!(refused.is(200).body["data"], Value::Null);
    let request = wiki.site(Method::POST, "/gateway/api/graphql").json(&json!({"query": "query New { n }"}));
    let answer = send(request.header("X-ExperimentalApi", "new-things")).await;
    assert_eq!(answer.body["data"], json!({"n": 1}));
    assert_eq!(answer.body["extensions"]["requestHeaders"]["x-experimentalapi"], "new-things");
}

#[tokio::test]
async fn a_body_that_is_no_request_is_400() {
    let wiki = wiki().await;
    for body in [json!({}), json!({"query": 5}), json!([]), json!({"query": "{ a }", "variables": [1]})] {
        ask(&wiki, body).await.is(400);
    }
    let request = wiki.site(Method::POST, "/gateway/api/graphql").header("content-type", "application/json");
    send(request.body("{")).await.is(400);
}

#[tokio::test]
async fn the_site_wants_basic_and_the_gateway_a_token() {
    let wiki = wiki().await;
    let token = wiki.token();
    let body = json!({"query": "query Spaces { spaces { id } }"});
    send(wiki.open(Method::POST, "/graphql").bearer_auth(&token).json(&body)).await.is(200);
    send(wiki.site(Method::POST, "/graphql").json(&body)).await.is(401);
    send(wiki.open(Method::POST, "/gateway/api/graphql").bearer_auth(&token).json(&body)).await.is(401);
    send(wiki.open(Method::POST, "/gateway/api/graphql").json(&body)).await.is(401);
}
