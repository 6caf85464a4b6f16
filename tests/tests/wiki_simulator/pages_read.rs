//! Getting one page.

use serde_json::{Value, json};
use tests::wiki::{PageSeed, Parent, Simulator, Status};

use crate::client::{id, wiki, wiki_with};

#[tokio::test]
async fn there_is_no_body_unless_a_format_is_asked_for() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    assert_eq!(wiki.get(&format!("/pages/{page}")).await.body["body"], json!({}));
    for format in ["storage", "view", "export_view", "anonymous_export_view", "styled_view", "editor"] {
        let answer = wiki.get(&format!("/pages/{page}?body-format={format}")).await;
        assert_eq!(answer.body["body"], json!({format: {"representation": format, "value": "<p>A</p>"}}));
    }
    wiki.get(&format!("/pages/{page}?body-format=pdf")).await.is_error(400, "INVALID_REQUEST_PARAMETER");
}

#[tokio::test]
async fn the_document_format_is_json_inside_a_string() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let answer = wiki.get(&format!("/pages/{page}?body-format=wiki_doc_format")).await;
    let text = answer.body["body"]["wiki_doc_format"]["value"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap()["type"], "doc");
}

#[tokio::test]
async fn an_id_that_is_no_number_is_400_and_an_unknown_one_404() {
    let wiki = wiki().await;
    wiki.get("/pages/TEST").await.is_error(400, "INVALID_REQUEST_PARAMETER");
    wiki.get("/pages/9223372036854775808").await.is_error(400, "INVALID_REQUEST_PARAMETER");
    wiki.get("/pages/9223372036854775807").await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn earlier_versions_can_be_read_by_number() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.update(page, "B", 2, json!({})).await.is(200);
    let first = wiki.get(&format!("/pages/{page}?version=1&body-format=storage")).await;
    assert_eq!((&first.body["title"], &first.body["status"]), (&json!("A"), &json!("historical")));
    assert_eq!(first.body["body"]["storage"]["value"], "<p>A</p>");
    assert_eq!(first.body["version"]["number"], 1);
    assert_eq!(wiki.get(&format!("/pages/{page}?version=2")).await.body["status"], "current");
    wiki.get(&format!("/pages/{page}?version=3")).await.is_error(404, "NOT_FOUND");
    wiki.get(&format!("/pages/{page}?version=one")).await.is_error(400, "INVALID_REQUEST_PARAMETER");
}

#[tokio::test]
async fn a_page_is_found_in_any_status_unless_a_status_is_insisted_on() {
    let wiki = wiki().await;
    let space = wiki.space;
    for status in [Status::Archived, Status::Trashed, Status::Draft] {
        let page =
            wiki.seed(|state| state.add_page(PageSeed::new(space, &format!("{status:?}")).status(status)));
        let name = serde_json::to_value(status).unwrap();
        assert_eq!(wiki.get(&format!("/pages/{page}")).await.is(200).body["status"], name);
        let name = name.as_str().unwrap();
        wiki.get(&format!("/pages/{page}?status=current,{name}")).await.is(200);
        wiki.get(&format!("/pages/{page}?status=current&status={name}")).await.is(200);
        wiki.get(&format!("/pages/{page}?status=current")).await.is_error(404, "NOT_FOUND");
    }
    wiki.get(&format!("/pages/{}?status=lost", wiki.homepage())).await.is(400);
}

#[tokio::test]
async fn what_is_not_asked_for_is_absent_and_what_is_asked_for_is_there() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.seed(|state| {
        state.add_label(page, "red")?;
        state.like(page, "account-ann")?;
        state.favourite(page, "557058:demo")?;
        state.add_property(Parent::Page(page), "k", &json!([1]))
    });
    let plain = wiki.get(&format!("/pages/{page}")).await.body;
    for absent in ["labels", "properties", "operations", "likes", "versions", "isFavoritedByCurrentUser"] {
        assert!(plain.get(absent).is_none(), "{absent}");
    }
    assert!(plain.get("version").is_some());
    let path = format!(
        "/pages/{page}?include-labels=true&include-properties=true&include-operations=true&include-likes=true\
         &include-versions=true&include-version=false&include-favorited-by-current-user-status=true"
    );
    let full = wiki.get(&path).await.body;
    assert_eq!(full["labels"]["results"][0]["name"], "red");
    assert_eq!(full["labels"]["results"][0]["prefix"], "global");
    assert_eq!(full["properties"]["results"][0]["value"], json!([1]));
    assert_eq!(full["likes"]["results"][0]["accountId"], "account-ann");
    assert_eq!(full["operations"]["results"][0], json!({"operation": "read", "targetType": "page"}));
    assert_eq!(full["versions"]["results"][0]["number"], 1);
    assert_eq!(full["isFavoritedByCurrentUser"], true);
    assert!(full.get("version").is_none());
    assert_eq!(full["labels"]["meta"]["hasMore"], false);
    wiki.get(&format!("/pages/{page}?include-labels=maybe")).await.is_error(400, "INVALID_REQUEST_PARAMETER");
}

#[tokio::test]
async fn an_included_list_ends_after_50_and_goes_on_at_its_own_address() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.seed(|state| {
        for number in 0..60 {
            state.add_label(page, &format!("label-{number}"))?;
            state.add_property(Parent::Page(page), &format!("key-{number}"), &json!(number))?;
        }
        Ok(())
    });
    let answer = wiki.get(&format!("/pages/{page}?include-labels=true&include-properties=true")).await;
    for (list, field, first) in [("labels", "name", "label-50"), ("properties", "key", "key-50")] {
        let included = &answer.body[list];
        assert_eq!(included["results"].as_array().unwrap().len(), 50);
        assert_eq!(included["meta"]["hasMore"], true);
        let this = included["_links"]["self"].as_str().unwrap().strip_prefix("/wiki/api/v2").unwrap();
        let rest = wiki.get(&format!("{this}?cursor={}", included["meta"]["cursor"].as_str().unwrap())).await;
        assert_eq!(rest.is(200).column(field).len(), 10, "{list}");
        assert_eq!(rest.column(field)[0], first);
        assert_eq!(rest.next(), None);
    }
}

#[tokio::test]
async fn ids_above_2_to_the_53_come_back_digit_by_digit() {
    let wiki = wiki_with(Simulator::builder().first_id(9_007_199_254_740_993)).await;
    assert_eq!(wiki.space, 9_007_199_254_740_993);
    let page = wiki.create("A", json!({})).await;
    assert_eq!(page.is(200).body["spaceId"], "9007199254740993");
    assert_eq!(page.body["id"], "9007199254740995");
    assert_eq!(wiki.get(&format!("/pages/{}", id(&page))).await.body["id"], "9007199254740995");
    assert_eq!(wiki.get("/pages?id=9007199254740995").await.ids(), ["9007199254740995"]);
}
