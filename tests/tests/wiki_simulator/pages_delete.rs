//! Trash, purge, drafts.

use serde_json::json;
use tests::wiki::{PageSeed, Parent, Status};

use crate::client::{id, wiki};

#[tokio::test]
async fn delete_trashes_purge_removes_and_then_nothing_is_left() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let attachment = wiki.attachment(page, "a.txt");
    let content = wiki.custom_content(page);
    wiki.seed(|state| state.add_property(Parent::CustomContent(content), "k", &json!(1)));
    let path = format!("/pages/{page}");
    let deleted = wiki.delete(&path).await;
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    assert_eq!(wiki.get(&path).await.is(200).body["status"], "trashed");
    wiki.delete(&path).await.is_error(404, "NOT_FOUND");
    wiki.delete(&format!("{path}?purge=true")).await.is(204);
    wiki.get(&path).await.is_error(404, "NOT_FOUND");
    wiki.get(&format!("/attachments/att{attachment}")).await.is_error(404, "NOT_FOUND");
    wiki.get(&format!("/custom-content/{content}/properties")).await.is_error(404, "NOT_FOUND");
    wiki.delete(&format!("{path}?purge=true")).await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn purging_what_is_not_in_the_trash_is_404_and_changes_nothing() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.delete(&format!("/pages/{page}?purge=true")).await.is_error(404, "NOT_FOUND");
    assert_eq!(wiki.get(&format!("/pages/{page}")).await.body["status"], "current");
}

#[tokio::test]
async fn children_of_a_deleted_page_move_up_to_its_parent() {
    let wiki = wiki().await;
    let parent = wiki.page("Parent");
    let child = id(&wiki.create("Child", json!({"parentId": parent.to_string()})).await);
    wiki.delete(&format!("/pages/{parent}")).await.is(204);
    let child = wiki.get(&format!("/pages/{child}")).await;
    assert_eq!(child.body["parentId"], wiki.homepage().to_string());
    assert_eq!(child.body["version"]["number"], 1, "a move is no new version");
}

#[tokio::test]
async fn a_page_is_restored_under_the_homepage_when_its_parent_is_gone() {
    let wiki = wiki().await;
    let parent = wiki.page("Parent");
    let child = id(&wiki.create("Child", json!({"parentId": parent.to_string()})).await);
    for page in [child, parent] {
        wiki.delete(&format!("/pages/{page}")).await.is(204);
    }
    let restored = wiki.update(child, "Child", 2, json!({})).await;
    assert_eq!(restored.is(200).body["parentId"], wiki.homepage().to_string());
}

#[tokio::test]
async fn a_draft_is_deleted_only_as_a_draft_and_then_at_once() {
    let wiki = wiki().await;
    let draft = id(&wiki.create("Draft", json!({"status": "draft"})).await);
    let path = format!("/pages/{draft}");
    wiki.delete(&path).await.is_error(404, "NOT_FOUND");
    wiki.delete(&format!("{path}?draft=true")).await.is(204);
    wiki.get(&path).await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn deleting_the_draft_of_a_published_page_leaves_the_page() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let path = format!("/pages/{page}");
    wiki.delete(&format!("{path}?draft=true")).await.is_error(404, "NOT_FOUND");
    wiki.update(page, "Draft", 1, json!({"status": "draft"})).await.is(200);
    wiki.delete(&format!("{path}?draft=true")).await.is(204);
    wiki.get(&format!("{path}?get-draft=true")).await.is_error(404, "NOT_FOUND");
    assert_eq!(wiki.get(&path).await.body["status"], "current");
}

#[tokio::test]
async fn a_homepage_cannot_be_deleted_and_an_archived_page_can() {
    let wiki = wiki().await;
    wiki.delete(&format!("/pages/{}", wiki.homepage())).await.is_error(400, "BAD_REQUEST");
    let space = wiki.space;
    let archived = wiki.seed(|state| state.add_page(PageSeed::new(space, "Old").status(Status::Archived)));
    wiki.delete(&format!("/pages/{archived}")).await.is(204);
    wiki.delete(&format!("/pages/{archived}?purge=perhaps")).await.is_error(400, "INVALID_REQUEST_PARAMETER");
}

#[tokio::test]
async fn an_id_is_never_given_twice() {
    let wiki = wiki().await;
    let first = wiki.page("A");
    wiki.delete(&format!("/pages/{first}")).await.is(204);
    wiki.delete(&format!("/pages/{first}?purge=true")).await.is(204);
    assert!(id(&wiki.create("A", json!({})).await) > first);
}
