//! Tests of sent and rejected filters, and of product vocabularies.

use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;
use wiki_simulator::{DEMO_EMAIL, DEMO_PAGE_ID, DEMO_SPACE_ID, DEMO_TOKEN, Simulator, Switches};

use super::{Wiki, id, text, titles};

#[tokio::test]
async fn a_configured_document_format_name_is_used_in_requests() {
    let switches = Switches { document_format: "acme_doc", ..Switches::default() };
    let simulator = Simulator::builder().switches(switches).demo().start().await.expect("it starts");
    let mut wiki = Wiki::new(simulator);
    let document = r#"{"type":"doc","version":1,"content":[]}"#;
    let space = DEMO_SPACE_ID.to_string();
    let new = json!({"spaceId": space, "title": "Doc", "body": {"representation": "wiki_doc_format", "value": document}});
    let error = wiki.fails("createPage", new.clone()).await;
    assert_eq!(error.status, Some(400), "{error}");
    let inputs = [("documentFormat", "acme_doc"), ("host", wiki.simulator.base_url())];
    let inputs = inputs.into_iter().chain([("email", DEMO_EMAIL), ("apiToken", DEMO_TOKEN)]).collect();
    wiki.connection = wiki
        .registry
        .connection_type("wiki.basic")
        .expect("a type")
        .resolve("main", &inputs)
        .expect("it resolves");
    let page = text(&wiki.call("createPage", new).await, "id");
    let read = wiki.call("getPage", json!({"pageId": page, "bodyFormat": "wiki_doc_format"})).await;
    assert_eq!(text(&read, "body.wiki_doc_format.value"), document);
    assert_eq!(text(&read, "body.wiki_doc_format.representation"), "wiki_doc_format");
    let sent = wiki.simulator.requests_to("GET", "*/pages/*").pop().expect("a request");
    assert!(sent.query.iter().any(|(name, value)| name == "body-format" && value == "acme_doc"), "{sent:?}");
}

#[tokio::test]
async fn filters_repeat_parameters_and_an_empty_filter_is_rejected() {
    let wiki = Wiki::start().await;
    let (page, space) = (id(DEMO_PAGE_ID), id(DEMO_SPACE_ID));
    for ids in [json!([page, "1"]), json!(format!("{page}, 1"))] {
        wiki.simulator.clear_requests();
        let found = wiki.call("listPages", json!({"id": ids, "spaceId": space})).await;
        assert_eq!(titles(&found).len(), 1);
        let sent = wiki.simulator.requests_to("GET", "*/pages").pop().expect("a request");
        let sent: Vec<&str> =
            sent.query.iter().filter(|(name, _)| name == "id").map(|(_, value)| value.as_str()).collect();
        assert_eq!(sent, [page.as_str(), "1"]);
    }
    wiki.simulator.clear_requests();
    for inputs in [json!({"id": []}), json!({"spaceId": []}), json!({"status": []}), json!({"title": ""})] {
        let error = wiki.fails("listPages", inputs).await;
        assert_eq!(error.kind, ErrorKind::Input);
        assert!(error.message.contains("which would be no filter"), "{error}");
    }
    wiki.fails("listSpaces", json!({"queryParameters": {"keys": []}})).await;
    assert_eq!(wiki.simulator.requests().len(), 0, "nothing was asked for");
}

#[tokio::test]
async fn a_draft_is_created_without_a_title() {
    let wiki = Wiki::start().await;
    let space = id(DEMO_SPACE_ID);
    let draft =
        wiki.call("createPage", json!({"spaceId": space, "status": "draft", "body": {"value": "a"}})).await;
    assert_eq!(text(&draft, "status"), "draft");
    let error = wiki.fails("createPage", json!({"spaceId": space, "body": {"value": "a"}})).await;
    assert!(error.message.contains("`title` is missing"), "{error}");
}
