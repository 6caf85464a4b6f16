//! GraphQL, the words of a product, the demo site and the program.

use std::process::Stdio;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use wiki_simulator::{DEMO_EMAIL, DEMO_PAGE_ID, DEMO_SPACE_ID, DEMO_TOKEN, Simulator, Switches};

use crate::client::{send, transcripts, wiki, wiki_with};

transcripts! {
    graphql_answers_two_operations_by_name_and_others_with_errors: r#"
        POST /gateway/api/graphql {"query": "query Spaces { spaces { id } }"} -> 200 {"data.spaces.0.id": "$space", "errors": null}
        POST /gateway/api/graphql {"query": "  query\n Spaces{ x }"} -> 200 {"data.spaces.1.key": "OTHER", "data.spaces.1.pageCount": 1}
        POST /gateway/api/graphql {"query": "query SpaceByKey { x }", "variables": {"key": "TEST"}} -> 200 {"data.spaceByKey.id": "$space"}
        POST /gateway/api/graphql {"query": "query SpaceByKey { x }", "variables": {"key": "NONE"}} -> 200 {"data": {"spaceByKey": null}}
        POST /gateway/api/graphql {"query": "query A { a } query Spaces { x }", "operationName": "Spaces"} -> 200 {"errors": null}
        POST /gateway/api/graphql {"query": "query SpaceByKey { x }"} -> 200 {"data": null, "errors.0.message": "the variable `key` must be a string"}
        POST /gateway/api/graphql {"query": "query Unknown { x }"} -> 200 {"data": null, "errors.0.message": "the operation is unknown"}
        POST /gateway/api/graphql {"query": "{ spaces { id } }"} -> 200 {"data": null, "errors.0.message": "the operation is unknown"}
        POST /gateway/api/graphql {"query": "query { spaces }"} -> 200 {"data": null, "errors.0.message": "the operation is unknown"}
        POST /gateway/api/graphql {} -> 400 BAD_REQUEST
        POST /gateway/api/graphql {"query": 5} -> 400 BAD_REQUEST
        POST /gateway/api/graphql {"query": "{ a }", "variables": [1]} -> 400 BAD_REQUEST"#
}

#[tokio::test]
async fn graphql_needs_basic_auth_on_the_site_and_a_token_on_the_gateway() {
    let wiki = wiki().await;
    let token = wiki.token();
    let body = json!({"query": "query Spaces { spaces { id } }"});
    for (request, outcome) in [
        (wiki.open("POST /graphql").bearer_auth(&token), "200"),
        (wiki.request("POST /graphql"), "401"),
        (wiki.open("POST /gateway/api/graphql").bearer_auth(&token), "401 UNAUTHORIZED"),
        (wiki.open("POST /gateway/api/graphql"), "401 UNAUTHORIZED"),
    ] {
        send(request.json(&body)).await.is(outcome);
    }
}

#[tokio::test]
async fn the_document_format_has_only_the_name_of_the_configured_product() {
    let switches = Switches { document_format: "acme_doc", ..Switches::default() };
    let wiki = wiki_with(Simulator::builder().switches(switches)).await;
    let calls = r#"page = create A {"body": {"representation": "acme_doc", "value": "{}"}} -> 200
        GET /pages/$page?body-format=acme_doc -> 200 {"body": {"acme_doc": {"representation": "acme_doc", "value": "{}"}}}
        create B {"body": {"acme_doc": {"representation": "acme_doc", "value": "{}"}}} -> 200
        GET /pages?id=$page&body-format=acme_doc -> 200 {"results.0.body.acme_doc.value": "{}"}
        create C {"body": {"representation": "wiki_doc_format", "value": "{}"}} -> 400 BAD_REQUEST
        GET /pages/$page?body-format=wiki_doc_format -> 400 INVALID_REQUEST_PARAMETER"#;
    wiki.run(calls).await;
}

#[tokio::test]
async fn the_demo_site_has_samples_of_everything_with_the_same_ids_in_each_run() {
    let (wiki, again) =
        (wiki_with(Simulator::builder().demo()).await, wiki_with(Simulator::builder().demo()).await);
    assert_eq!(wiki.get("/spaces").await.column("key"), "DEMO,ARCH,TEST,OTHER");
    assert_eq!(wiki.get("/attachments").await.column("title"), "notes.txt,pixel.png,components.csv");
    let (pages, same) = (wiki.get("/pages").await, again.get("/pages").await);
    assert!(pages.len() >= 12);
    assert_eq!((pages.column("id"), pages.column("title")), (same.column("id"), same.column("title")));
    let page = wiki.get(&format!("/pages/{DEMO_PAGE_ID}?include-labels=true&include-properties=true")).await;
    page.has(json!({"title": "Welcome", "spaceId": DEMO_SPACE_ID.to_string(), "properties.results.0.key": "reviewed"}));
    let attachment = wiki.get(&format!("/attachments/att{}", wiki_simulator::DEMO_ATTACHMENT_ID)).await;
    attachment.has(json!({"title": "notes.txt"}));
    let content = wiki.get(&format!("/custom-content/{}", wiki_simulator::DEMO_CUSTOM_CONTENT_ID)).await;
    content.has(json!({"type": "ac:demo:task"}));
    wiki.get(&format!("/spaces/{}", wiki_simulator::ARCH_SPACE_ID)).await.has(json!({"key": "ARCH"}));
}

#[tokio::test]
async fn the_program_prints_its_address_and_serves_the_demo_site() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_wiki-simulator"))
        .args(["--listen", "127.0.0.1:0", "--quiet"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let address = lines.next_line().await.unwrap().unwrap();
    let pages = wiki().await.http.get(format!("{address}/wiki/api/v2/pages?title=Welcome"));
    assert_eq!(send(pages.basic_auth(DEMO_EMAIL, Some(DEMO_TOKEN))).await.is("200").len(), 1);
    program.kill().await.unwrap();
}

#[tokio::test]
async fn the_program_names_an_address_that_is_in_use() {
    let wiki = wiki().await;
    let taken = wiki.sim.base_url().strip_prefix("http://").unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_wiki-simulator")).args(["--listen", taken]).output().await.unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains(&format!("cannot listen on `{taken}`")), "{text}");
}
