//! Creating and updating pages.

use reqwest::Method;
use serde_json::json;
use tests::wiki::{PageSeed, Simulator, SpaceSeed, Status};

use crate::client::{id, send, user, wiki, wiki_with};

#[tokio::test]
async fn create_answers_200_with_version_1_and_the_body_in_storage_form() {
    let wiki = wiki().await;
    let body = json!({"body": {"representation": "storage", "value": "<p>Hi</p>"}});
    let answer = wiki.create("New", body).await;
    answer.is(200);
    assert_eq!(answer.body["status"], "current");
    assert_eq!(answer.body["spaceId"], wiki.space.to_string());
    assert_eq!(answer.body["version"]["number"], 1);
    assert_eq!(answer.body["version"]["message"], "");
    assert_eq!(answer.body["body"], json!({"storage": {"representation": "storage", "value": "<p>Hi</p>"}}));
    assert_eq!(answer.body["_links"]["base"], format!("{}/wiki", wiki.sim.base_url()));
    assert!(id(&answer) > 1 << 32, "ids are above any 32-bit integer");
}

#[tokio::test]
async fn without_a_parent_a_page_goes_under_the_homepage_and_to_the_root_only_on_request() {
    let wiki = wiki().await;
    let under = wiki.create("Under", json!({})).await;
    assert_eq!(under.body["parentId"], wiki.homepage().to_string());
    assert_eq!(under.body["parentType"], "page");
    let body = json!({"spaceId": wiki.space.to_string(), "title": "Root"});
    let root = wiki.post("/pages?root-level=true", body).await;
    assert_eq!((&root.is(200).body["parentId"], &root.body["parentType"]), (&json!(null), &json!(null)));
    let both =
        json!({"spaceId": wiki.space.to_string(), "title": "Both", "parentId": wiki.homepage().to_string()});
    wiki.post("/pages?root-level=true", both).await.is_error(400, "BAD_REQUEST");
}

#[tokio::test]
async fn both_forms_of_a_body_and_all_three_representations_can_be_written() {
    let wiki = wiki().await;
    let nested = json!({"body": {"storage": {"representation": "storage", "value": "<p>a</p>"}}});
    wiki.create("Nested", nested).await.is(200);
    let markup = json!({"body": {"representation": "wiki", "value": "h1. a & b"}});
    let markup = wiki.create("Markup", markup).await;
    assert_eq!(markup.is(200).body["body"]["storage"]["value"], "<p>h1. a &amp; b</p>");
    let document = r#"{"type":"doc","version":1,"content":[{"type":"paragraph","content":[{"type":"text","text":"deep"}]}]}"#;
    let document = json!({"body": {"representation": "wiki_doc_format", "value": document}});
    let document = wiki.create("Document", document).await;
    assert_eq!(document.is(200).body["body"]["storage"]["value"], "<p>deep</p>");
    let unknown = json!({"body": {"representation": "view", "value": "x"}});
    wiki.create("Unknown", unknown).await.is_error(400, "BAD_REQUEST");
}

#[tokio::test]
async fn what_create_needs_is_400_when_it_is_missing_or_wrong() {
    let wiki = wiki().await;
    send(wiki.v2(Method::POST, "/pages").header("content-type", "application/json").body("not json"))
        .await
        .is_error(400, "BAD_REQUEST");
    wiki.post("/pages", json!([])).await.is_error(400, "BAD_REQUEST");
    wiki.post("/pages", json!({"title": "No space"})).await.is_error(400, "BAD_REQUEST");
    wiki.create("", json!({})).await.is_error(400, "BAD_REQUEST");
    wiki.create("A", json!({"status": "archived"})).await.is_error(400, "BAD_REQUEST");
    wiki.create("A", json!({"spaceId": "TEST"})).await.is_error(400, "INVALID_REQUEST_PARAMETER");
    wiki.create(&"x".repeat(256), json!({})).await.is_error(400, "BAD_REQUEST");
    wiki.create("A", json!({"spaceId": "99"})).await.is_error(404, "NOT_FOUND");
    wiki.create("A", json!({"parentId": "99"})).await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_parent_in_another_space_is_404() {
    let wiki = wiki().await;
    let other = wiki.seed(|state| state.add_space(SpaceSeed::new("OTHER", "Other")));
    wiki.create("A", json!({"parentId": (other + 1).to_string()})).await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn titles_are_unique_in_a_space_by_exact_comparison() {
    let wiki = wiki().await;
    let page = wiki.page("Taken");
    let answer = wiki.create("Taken", json!({})).await;
    answer.is_error(400, "BAD_REQUEST");
    assert!(answer.title().starts_with("A page with this title already exists"), "{}", answer.title());
    wiki.create("taken", json!({})).await.is(200);
    let other = wiki.seed(|state| state.add_space(SpaceSeed::new("OTHER", "Other")));
    wiki.create("Taken", json!({"spaceId": other.to_string()})).await.is(200);
    wiki.delete(&format!("/pages/{page}")).await.is(204);
    wiki.create("Taken", json!({})).await.is(200);
}

#[tokio::test]
async fn archived_titles_count_and_titles_of_drafts_do_not() {
    let wiki = wiki().await;
    let space = wiki.space;
    wiki.seed(|state| state.add_page(PageSeed::new(space, "Archived").status(Status::Archived)));
    wiki.seed(|state| state.add_page(PageSeed::new(space, "Draft").status(Status::Draft)));
    wiki.create("Archived", json!({})).await.is_error(400, "BAD_REQUEST");
    wiki.create("Draft", json!({})).await.is(200);
}

#[tokio::test]
async fn storage_that_is_not_well_formed_is_400_unless_the_check_is_off() {
    let wiki = wiki().await;
    let body = json!({"body": {"representation": "storage", "value": "<p>open"}});
    let answer = wiki.create("A", body.clone()).await;
    assert!(answer.is_error(400, "BAD_REQUEST").title().contains("`p` is not closed"));
    wiki.sim.switch(|switches| switches.check_storage_format = false);
    wiki.create("A", body).await.is(200);
}

#[tokio::test]
async fn a_page_of_more_than_5_megabytes_is_413() {
    let wiki = wiki().await;
    let body = json!({"body": {"representation": "storage", "value": "x".repeat(5 * 1024 * 1024)}});
    wiki.create("Large", body).await.is(413);
    assert_eq!(wiki.get("/pages?title=Large").await.ids().len(), 0);
}

#[tokio::test]
async fn a_private_page_is_seen_by_its_author_only() {
    let wiki = wiki_with(Simulator::builder().user(user("ann"))).await;
    let body = json!({"spaceId": wiki.space.to_string(), "title": "Secret"});
    let page = id(&wiki.post("/pages?private=true", body).await);
    let path = format!("/pages/{page}");
    wiki.get(&path).await.is(200);
    send(wiki.as_user("ann", Method::GET, &path)).await.is_error(404, "NOT_FOUND");
    assert!(!send(wiki.as_user("ann", Method::GET, "/pages")).await.ids().contains(&page.to_string()));
}

#[tokio::test]
async fn update_needs_the_next_version_number_and_says_both_otherwise() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let answer = wiki.update(page, "B", 2, json!({})).await;
    answer.is(200);
    assert_eq!(answer.body["title"], "B");
    assert_eq!(answer.body["version"]["number"], 2);
    assert_eq!(answer.body["version"]["message"], "why");
    assert_eq!(answer.body["body"]["storage"]["value"], "<p>changed</p>");
    for wrong in [1, 2, 4] {
        let stale = wiki.update(page, "C", wrong, json!({})).await;
        stale.is_error(409, "CONFLICT");
        let expected = format!("Current Version: [2]. Provided version: [{wrong}]");
        assert!(stale.title().ends_with(&expected), "{}", stale.title());
    }
    assert_eq!(wiki.get(&format!("/pages/{page}")).await.body["title"], "B");
}

#[tokio::test]
async fn of_two_updates_to_the_same_version_one_is_a_conflict() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let (first, second) =
        tokio::join!(wiki.update(page, "B", 2, json!({})), wiki.update(page, "C", 2, json!({})));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
}

#[tokio::test]
async fn what_update_needs_is_400_when_it_is_missing_or_wrong() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    for missing in ["id", "status", "title", "body", "version"] {
        let answer = wiki.update(page, "B", 2, json!({missing: null})).await;
        answer.is_error(400, "BAD_REQUEST");
        assert!(answer.title().contains(missing), "{missing}: {}", answer.title());
    }
    wiki.update(page, "B", 2, json!({"id": wiki.homepage().to_string()})).await.is_error(400, "BAD_REQUEST");
    wiki.update(page, "B", 2, json!({"version": {"number": "two"}})).await.is_error(400, "BAD_REQUEST");
    wiki.update(99, "B", 2, json!({})).await.is_error(404, "NOT_FOUND");
    let home = format!("{} Home", "Test");
    wiki.update(page, &home, 2, json!({})).await.is_error(400, "BAD_REQUEST");
}

#[tokio::test]
async fn a_page_stays_in_its_space_and_an_archived_page_stays_as_it_is() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let other = wiki.seed(|state| state.add_space(SpaceSeed::new("OTHER", "Other")));
    wiki.update(page, "A", 2, json!({"spaceId": other.to_string()})).await.is_error(400, "BAD_REQUEST");
    wiki.update(page, "A", 2, json!({"spaceId": "99"})).await.is_error(404, "NOT_FOUND");
    wiki.update(page, "A", 2, json!({"spaceId": wiki.space.to_string()})).await.is(200);
    let space = wiki.space;
    let archived = wiki.seed(|state| state.add_page(PageSeed::new(space, "Old").status(Status::Archived)));
    wiki.update(archived, "New", 2, json!({})).await.is_error(400, "BAD_REQUEST");
}

#[tokio::test]
async fn a_page_moves_under_another_but_never_below_itself() {
    let wiki = wiki().await;
    let (above, below) = (wiki.page("Above"), wiki.page("Below"));
    let moved = wiki.update(below, "Below", 2, json!({"parentId": above.to_string()})).await;
    assert_eq!(moved.is(200).body["parentId"], above.to_string());
    wiki.update(above, "Above", 2, json!({"parentId": below.to_string()})).await.is_error(400, "BAD_REQUEST");
    wiki.update(above, "Above", 2, json!({"parentId": above.to_string()})).await.is_error(400, "BAD_REQUEST");
    wiki.update(above, "Above", 2, json!({"parentId": "99"})).await.is_error(404, "NOT_FOUND");
    let unchanged = wiki.update(below, "Below", 3, json!({})).await;
    assert_eq!(unchanged.body["parentId"], above.to_string());
}

#[tokio::test]
async fn siblings_have_sparse_ascending_positions() {
    let wiki = wiki().await;
    let first = wiki.create("First", json!({})).await;
    let second = wiki.create("Second", json!({})).await;
    let places = [first, second].map(|page| page.body["position"].as_i64().unwrap());
    assert!(places[1] - places[0] >= 100, "{places:?}");
}

#[tokio::test]
async fn a_page_can_be_given_to_another_owner() {
    let wiki = wiki_with(Simulator::builder().user(user("ann"))).await;
    let page = wiki.page("A");
    let answer = wiki.update(page, "A", 2, json!({"ownerId": "account-ann"})).await;
    assert_eq!(answer.is(200).body["ownerId"], "account-ann");
    assert_eq!(answer.body["lastOwnerId"], answer.body["authorId"]);
    wiki.update(page, "A", 3, json!({"ownerId": "nobody"})).await.is_error(400, "BAD_REQUEST");
}

#[tokio::test]
async fn a_draft_is_made_published_and_then_counts_as_version_1() {
    let wiki = wiki().await;
    let draft = wiki.create("", json!({"status": "draft"})).await;
    assert_eq!(draft.is(200).body["status"], "draft");
    let page = id(&draft);
    assert!(!wiki.get("/pages").await.ids().contains(&page.to_string()), "drafts are never listed");
    wiki.update(page, "Ready", 2, json!({})).await.is_error(409, "CONFLICT");
    let published = wiki.update(page, "Ready", 1, json!({})).await;
    assert_eq!(published.is(200).body["status"], "current");
    assert_eq!(published.body["version"]["number"], 1);
    wiki.update(page, "Ready", 2, json!({})).await.is(200);
}

#[tokio::test]
async fn a_draft_of_a_published_page_leaves_it_alone_until_it_is_published() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.update(page, "Draft", 2, json!({"status": "draft"})).await.is_error(409, "CONFLICT");
    let saved = wiki.update(page, "Draft 1", 1, json!({"status": "draft"})).await;
    assert_eq!((&saved.is(200).body["status"], &saved.body["title"]), (&json!("draft"), &json!("Draft 1")));
    wiki.update(page, "Draft 2", 1, json!({"status": "draft"})).await.is(200);
    assert_eq!(wiki.get(&format!("/pages/{page}")).await.body["title"], "A");
    let draft = wiki.get(&format!("/pages/{page}?get-draft=true")).await;
    assert_eq!((&draft.body["title"], &draft.body["version"]["number"]), (&json!("Draft 2"), &json!(1)));
    wiki.update(page, "B", 2, json!({})).await.is(200);
    wiki.get(&format!("/pages/{page}?get-draft=true")).await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn writing_to_a_page_in_the_trash_restores_it_and_ignores_what_was_sent() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.delete(&format!("/pages/{page}")).await.is(204);
    wiki.update(page, "Ignored", 7, json!({})).await.is_error(409, "CONFLICT");
    wiki.update(page, "Ignored", 1, json!({"status": "draft"})).await.is_error(400, "BAD_REQUEST");
    let restored = wiki.update(page, "Ignored", 2, json!({})).await;
    assert_eq!((&restored.is(200).body["title"], &restored.body["status"]), (&json!("A"), &json!("current")));
    assert_eq!(restored.body["body"]["storage"]["value"], "<p>A</p>");
}

#[tokio::test]
async fn a_page_whose_title_was_taken_meanwhile_cannot_be_restored() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.delete(&format!("/pages/{page}")).await.is(204);
    wiki.page("A");
    wiki.update(page, "A", 2, json!({})).await.is_error(400, "BAD_REQUEST");
}

#[tokio::test]
async fn timestamps_grow_with_every_write() {
    let wiki = wiki().await;
    let mut last = String::new();
    for number in 0..5 {
        let page = wiki.create(&format!("P{number}"), json!({})).await;
        let created = page.body["createdAt"].as_str().unwrap().to_owned();
        assert!(created > last, "{created} after {last}");
        assert!(created.ends_with('Z') && created.len() == "2026-01-15T09:00:00.000Z".len(), "{created}");
        last = created;
    }
}

#[tokio::test]
async fn a_title_is_free_again_after_a_rename_and_taken_back_by_the_rename_back() {
    let wiki = wiki().await;
    let page = wiki.page("Old");
    wiki.update(page, "New", 2, json!({})).await.is(200);
    let other = id(&wiki.create("Old", json!({})).await);
    wiki.update(page, "Old", 3, json!({})).await.is_error(400, "BAD_REQUEST");
    wiki.update(other, "New", 2, json!({})).await.is_error(400, "BAD_REQUEST");
    wiki.delete(&format!("/pages/{other}")).await.is(204);
    wiki.update(page, "Old", 3, json!({})).await.is(200);
}
