//! Pages: create, read, update, drafts, trash and purge.

use serde_json::json;
use wiki_simulator::Simulator;

use crate::client::{send, transcripts, wiki, wiki_with};

transcripts! {
    create_answers_200_with_version_1_and_the_body_in_storage_form: r#"
        create A {"body": {"representation": "storage", "value": "<p>Hi</p>"}} -> 200 {"status": "current", "spaceId": "$space"}
        create B {"body": {"storage": {"value": "a"}}} -> 200 {"body": {"storage": {"representation": "storage", "value": "a"}}}
        create C -> 200 {"version.number": 1, "version.message": "", "body.storage.value": ""}"#

    without_a_parent_a_page_goes_under_the_homepage_and_to_the_root_only_on_request: r#"
        create Under -> 200 {"parentId": "$home", "parentType": "page"}
        POST /pages?root-level=true {"spaceId": "$space", "title": "R"} -> 200 {"parentId": null, "parentType": null}
        POST /pages?root-level=true {"spaceId": "$space", "title": "S", "parentId": "$home"} -> 400 BAD_REQUEST"#

    siblings_have_sparse_ascending_positions_and_every_write_a_later_time: r#"
        create A -> 200 {"position": 100, "createdAt": "2026-01-15T09:00:00.004Z"}
        create B -> 200 {"position": 200, "createdAt": "2026-01-15T09:00:00.005Z"}"#

    a_body_is_written_in_either_form_and_any_of_three_representations: r#"
        create 1 {"body": {"representation": "storage", "value": "<p>a</p>"}} -> 200 {"body.storage.value": "<p>a</p>"}
        create 2 {"body": {"storage": {"representation": "storage", "value": "a"}}} -> 200 {"body.storage.value": "a"}
        create 3 {"body": {"storage": {"value": "a"}}} -> 200 {"body.storage.value": "a"}
        create 4 {"body": {"representation": "wiki", "value": "h1. & b"}} -> 200 {"body.storage.value": "<p>h1. &amp; b</p>"}
        create 5 {"body": {"wiki_doc_format": {"value": "{\"text\": \"deep\"}"}}} -> 200 {"body.storage.value": "<p>deep</p>"}
        create 6 {"body": "text"} -> 400 BAD_REQUEST {"errors.0.title": "'body' must be an object"}
        create 6 {"body": {}} -> 400 BAD_REQUEST {"errors.0.title": "'body.representation' is missing"}
        create 6 {"body": {"representation": "view", "value": ""}} -> 400 BAD_REQUEST
        create 6 {"body": {"representation": "storage"}} -> 400 BAD_REQUEST {"errors.0.title": "'body.value' must be a string"}
        create 6 {"body": {"storage": {"value": 3}}} -> 400 BAD_REQUEST {"errors.0.title": "'body.value' must be a string"}
        create 6 {"body": {"representation": "wiki_doc_format", "value": "x"}} -> 400 BAD_REQUEST"#

    storage_must_be_well_formed: r#"
        create 1 {"body": {"storage": {"value": "plain text"}}} -> 200
        create 2 {"body": {"storage": {"value": "<br/><hr /><p class='x > y'>one &amp; two&nbsp;&#160;&#xA0;</p >"}}} -> 200
        create 3 {"body": {"storage": {"value": "<!-- a <comment> --><ac:m ac:name=\"code\"><![CDATA[a < b && c]]></ac:m>"}}} -> 200
        create 4 {"body": {"storage": {"value": "</p>"}}} -> 400 BAD_REQUEST
        create 4 {"body": {"storage": {"value": "<p><b></p></b>"}}} -> 400 BAD_REQUEST
        create 4 {"body": {"storage": {"value": "a < b"}}} -> 400 BAD_REQUEST
        create 4 {"body": {"storage": {"value": "a < b > c"}}} -> 400 BAD_REQUEST
        create 4 {"body": {"storage": {"value": "a & b"}}} -> 400 BAD_REQUEST
        create 4 {"body": {"storage": {"value": "&;"}}} -> 400 BAD_REQUEST
        create 4 {"body": {"storage": {"value": "<p class=x></p>"}}} -> 400 BAD_REQUEST
        create 4 {"body": {"storage": {"value": "<!-- open"}}} -> 400 BAD_REQUEST
        create 4 {"body": {"storage": {"value": "<p"}}} -> 400 BAD_REQUEST
        create 4 {"body": {"storage": {"value": "<p>open"}}} -> 400 BAD_REQUEST {"errors.0.title": "The body in storage format is not well-formed: the element `p` is not closed"}"#

    titles_are_unique_among_the_current_and_archived_pages_of_a_space_by_exact_comparison: r#"
        first = create Taken -> 200
        create Draft {"status": "draft"} -> 200
        old = create Archived -> 200
        archive $old
        create Taken -> 400 BAD_REQUEST {"errors.0.title": "A page with this title already exists in the space: Taken"}
        create Archived -> 400 BAD_REQUEST
        create taken -> 200
        create Draft -> 200
        create Taken {"spaceId": "$other"} -> 200
        update $first 2 {"title": "New"} -> 200
        second = create Taken -> 200
        update $first 3 {"title": "Taken"} -> 400 BAD_REQUEST
        update $second 2 {"title": "New"} -> 400 BAD_REQUEST
        DELETE /pages/$second -> 204
        update $first 3 {"title": "Taken"} -> 200
        update $second 2 -> 400 BAD_REQUEST"#

    an_id_or_a_parameter_of_the_wrong_type_is_400_and_what_is_not_there_404: r#"
        page = create A -> 200
        GET /pages/9223372036854775807 -> 404 NOT_FOUND
        GET /pages/-5 -> 404 NOT_FOUND
        GET /pages/$page?version=3 -> 404 NOT_FOUND
        GET /pages/$page?get-draft=true -> 404 NOT_FOUND
        GET /pages/TEST -> 400 INVALID_REQUEST_PARAMETER
        GET /pages/9223372036854775808 -> 400 INVALID_REQUEST_PARAMETER
        GET /pages/$page?body-format=pdf -> 400 INVALID_REQUEST_PARAMETER
        GET /pages/$page?version=one -> 400 INVALID_REQUEST_PARAMETER
        GET /pages/$page?include-labels=maybe -> 400 INVALID_REQUEST_PARAMETER
        GET /pages/$page?status=lost -> 400 INVALID_REQUEST_PARAMETER
        DELETE /pages/$page?purge=perhaps -> 400 INVALID_REQUEST_PARAMETER"#

    a_read_has_a_body_only_in_the_format_that_is_asked_for: r#"
        page = create A {"body": {"storage": {"value": "<p/>"}}} -> 200
        GET /pages/$page -> 200 {"body": {}}
        GET /pages/$page?body-format=storage -> 200 {"body": {"storage": {"representation": "storage", "value": "<p/>"}}}
        GET /pages/$page?body-format=view -> 200 {"body": {"view": {"representation": "view", "value": "<p/>"}}}
        GET /pages/$page?body-format=export_view -> 200 {"body.export_view.value": "<p/>"}
        GET /pages/$page?body-format=anonymous_export_view -> 200 {"body.anonymous_export_view.value": "<p/>"}
        GET /pages/$page?body-format=styled_view -> 200 {"body.styled_view.value": "<p/>"}
        GET /pages/$page?body-format=editor -> 200 {"body.editor.value": "<p/>"}
        GET /pages/$page?body-format=wiki_doc_format -> 200 {"body.wiki_doc_format.value": "{\"type\":\"doc\",\"version\":1,\"content\":[{\"type\":\"paragraph\",\"content\":[{\"type\":\"text\",\"text\":\"<p/>\"}]}]}"}"#

    a_page_is_found_in_any_status_unless_the_query_insists_on_one: r#"
        old = create old -> 200
        archive $old
        gone = create gone -> 200
        DELETE /pages/$gone -> 204
        draft = create draft {"status": "draft"} -> 200
        GET /pages/$old -> 200 {"status": "archived"}
        GET /pages/$gone?status=current,trashed -> 200 {"status": "trashed"}
        GET /pages/$draft?status=current&status=draft -> 200 {"status": "draft"}
        GET /pages/$old?status=current -> 404 NOT_FOUND
        GET /pages/$gone?status=current -> 404 NOT_FOUND
        GET /pages/$draft?status=current -> 404 NOT_FOUND"#

    earlier_versions_can_be_read_by_number: r#"
        page = create A {"body": {"storage": {"value": "<p>A</p>"}}} -> 200
        update $page 2 -> 200
        GET /pages/$page?version=1 -> 200 {"title": "A", "status": "historical", "version.number": 1}
        GET /pages/$page?version=1&body-format=storage -> 200 {"body.storage.value": "<p>A</p>"}
        GET /pages/$page?version=2 -> 200 {"title": "B", "status": "current"}
        GET /pages/$page/versions -> 200 {"results.0.number": 2, "results.1.number": 1}"#

    the_operations_of_content_are_a_list_without_pages: r#"
        page = create A -> 200
        file = attach $page a.txt
        GET /pages/$page/operations -> 200 {"operations.0": {"operation": "read", "targetType": "page"}, "results": null}
        GET /spaces/$space/operations -> 200 {"operations.0": {"operation": "read", "targetType": "space"}, "_links": null}
        GET /attachments/att$file/operations -> 200 {"operations.0": {"operation": "read", "targetType": "attachment"}}"#

    update_needs_the_next_version_number_and_says_both_otherwise: r#"
        page = create A -> 200
        update $page 2 -> 200 {"title": "B", "version.number": 2, "version.message": "why", "body.storage.value": "<p>changed</p>"}
        update $page 1 -> 409 CONFLICT {"errors.0.title": "The version of a page must be incremented by one on every update. Current Version: [2]. Provided version: [1]"}
        update $page 2 -> 409 CONFLICT {"errors.0.title": "The version of a page must be incremented by one on every update. Current Version: [2]. Provided version: [2]"}
        update $page 4 {"title": "C"} -> 409 CONFLICT
        GET /pages/$page -> 200 {"title": "B", "version.number": 2}"#

    an_update_with_a_field_missing_or_wrong_is_refused: r#"
        page = create A -> 200
        old = create Old -> 200
        archive $old
        update $page 2 {"id": null} -> 400 BAD_REQUEST {"errors.0.title": "'id' is required"}
        update $page 2 {"status": null} -> 400 BAD_REQUEST {"errors.0.title": "'status' is required"}
        update $page 2 {"title": null} -> 400 BAD_REQUEST {"errors.0.title": "'title' is required"}
        update $page 2 {"body": null} -> 400 BAD_REQUEST {"errors.0.title": "'body' is required"}
        update $page 2 {"version": null} -> 400 BAD_REQUEST {"errors.0.title": "'version' is required"}
        update $page 2 {"version": {"number": "two"}} -> 400 BAD_REQUEST
        update $page 2 {"id": "$home"} -> 400 BAD_REQUEST
        update $page 2 {"title": "Test Home"} -> 400 BAD_REQUEST
        update $page 2 {"spaceId": "$other"} -> 400 BAD_REQUEST
        update $page 2 {"spaceId": "99"} -> 404 NOT_FOUND
        update $old 2 -> 400 BAD_REQUEST
        update 99 2 -> 404 NOT_FOUND
        update $page 2 {"spaceId": "$space"} -> 200"#

    a_page_moves_under_another_but_never_below_itself: r#"
        above = create A -> 200
        below = create B -> 200
        update $below 2 {"parentId": "$above"} -> 200 {"parentId": "$above"}
        update $above 2 {"title": "A", "parentId": "$below"} -> 400 BAD_REQUEST
        update $above 2 {"title": "A", "parentId": "$above"} -> 400 BAD_REQUEST
        update $above 2 {"title": "A", "parentId": "99"} -> 404 NOT_FOUND
        update $below 3 -> 200 {"parentId": "$above"}"#

    a_draft_is_unlisted_until_it_is_published_as_version_1_or_deleted_as_a_draft: r#"
        page = create A {"status": "draft", "title": ""} -> 200 {"status": "draft"}
        GET /spaces/$space/pages -> 200 {"results.0.id": "$home", "results.1": null}
        update $page 2 -> 409 CONFLICT
        update $page 1 -> 200 {"status": "current", "version.number": 1}
        update $page 2 -> 200
        gone = create A {"status": "draft"} -> 200
        DELETE /pages/$gone -> 404 NOT_FOUND
        DELETE /pages/$gone?draft=true -> 204
        GET /pages/$gone -> 404 NOT_FOUND"#

    a_draft_of_a_published_page_leaves_it_alone_until_it_is_published: r#"
        page = create A -> 200
        update $page 2 {"status": "draft"} -> 409 CONFLICT
        update $page 1 {"status": "draft", "title": "D1"} -> 200 {"status": "draft", "title": "D1"}
        update $page 1 {"status": "draft", "title": "D2"} -> 200 {"status": "draft", "title": "D2"}
        GET /pages/$page -> 200 {"title": "A", "status": "current"}
        GET /pages/$page?get-draft=true -> 200 {"title": "D2", "version.number": 1}
        update $page 2 -> 200 {"title": "B"}
        GET /pages/$page?get-draft=true -> 404 NOT_FOUND
        DELETE /pages/$page?draft=true -> 404 NOT_FOUND
        update $page 1 {"status": "draft"} -> 200
        DELETE /pages/$page?draft=true -> 204
        GET /pages/$page?get-draft=true -> 404 NOT_FOUND
        GET /pages/$page -> 200 {"title": "B", "status": "current"}"#

    delete_trashes_a_page_and_purge_removes_it_with_its_content: r#"
        page = create A -> 200
        file = attach $page a.txt
        content = content $page
        POST /custom-content/$content/properties {"key": "k", "value": 1} -> 200
        DELETE /pages/$page?purge=true -> 404 NOT_FOUND
        GET /pages/$page -> 200 {"status": "current"}
        DELETE /pages/$page -> 204
        GET /pages/$page -> 200 {"status": "trashed"}
        DELETE /pages/$page -> 404 NOT_FOUND
        GET /attachments -> 200 {"results": []}
        DELETE /pages/$page?purge=true -> 204
        DELETE /pages/$page?purge=true -> 404 NOT_FOUND
        GET /pages/$page -> 404 NOT_FOUND
        GET /attachments/att$file -> 404 NOT_FOUND
        GET /custom-content/$content/properties -> 404 NOT_FOUND"#

    children_of_a_deleted_page_move_up_and_a_page_is_restored_under_the_homepage_as_it_was: r#"
        above = create Above -> 200
        child = create Child {"parentId": "$above"} -> 200
        page = create A {"parentId": "$above", "body": {"storage": {"value": "<p>A</p>"}}} -> 200
        DELETE /pages/$page -> 204
        DELETE /pages/$above -> 204
        GET /pages/$child -> 200 {"parentId": "$home", "version.number": 1}
        update $page 7 -> 409 CONFLICT
        update $page 1 {"status": "draft"} -> 400 BAD_REQUEST
        update $page 2 -> 200 {"title": "A", "status": "current", "parentId": "$home", "body.storage.value": "<p>A</p>"}"#

    a_homepage_cannot_be_deleted_and_an_archived_page_can: r#"
        old = create Old -> 200
        archive $old
        DELETE /pages/$home -> 400 BAD_REQUEST
        DELETE /pages/$old -> 204"#
}

#[tokio::test]
async fn a_create_with_a_field_missing_or_wrong_is_refused() {
    let wiki = wiki().await;
    for body in ["not json", "[]"] {
        let request = wiki.request("POST /pages").header("content-type", "application/json").body(body);
        send(request).await.is("400 BAD_REQUEST");
    }
    let calls = r#"POST /pages {"title": "No space"} -> 400 BAD_REQUEST
        create A {"title": ""} -> 400 BAD_REQUEST
        create A {"title": {}} -> 400 BAD_REQUEST
        create A {"status": "archived"} -> 400 BAD_REQUEST
        create A {"spaceId": "TEST"} -> 400 INVALID_REQUEST_PARAMETER
        create A {"spaceId": "99"} -> 404 NOT_FOUND
        create A {"parentId": "99"} -> 404 NOT_FOUND
        create A {"parentId": "$elsewhere"} -> 404 NOT_FOUND"#;
    wiki.run(calls).await;
    wiki.create(&"x".repeat(256), json!({})).await.is("400 BAD_REQUEST");
    let large = json!({"storage": {"value": "x".repeat(5 * 1024 * 1024)}});
    wiki.create("Large", json!({"body": large})).await.is("413 PAYLOAD_TOO_LARGE");
    assert_eq!(wiki.get("/pages").await.column("title"), "Test Home,Other Home");
}

#[tokio::test]
async fn a_read_includes_only_the_requested_lists() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.name("page", page);
    wiki.seed(|state| {
        state.add_label(page, "red")?;
        state.like(page, "account-ann")?;
        state.favourite(page, "557058:demo")?;
        state.add_property(page, "k", &json!([1]))
    });
    let calls = r#"
        GET /pages/$page -> 200 {"version.number": 1, "labels": null, "properties": null, "operations": null, "likes": null}
        GET /pages/$page -> 200 {"versions": null, "isFavoritedByCurrentUser": null}
        GET /pages/$page?include-labels=true&include-version=false -> 200 {"labels.results.0.name": "red", "version": null}
        GET /pages/$page?include-labels=true -> 200 {"labels.results.0.prefix": "global", "labels.meta.hasMore": false}
        GET /pages/$page?include-properties=true&include-likes=true -> 200 {"properties.results.0.value": [1]}
        GET /pages/$page?include-likes=true&include-versions=true -> 200 {"likes.results.0.accountId": "account-ann"}
        GET /pages/$page?include-operations=true -> 200 {"operations.results.0": {"operation": "read", "targetType": "page"}}
        GET /pages/$page?include-versions=true -> 200 {"versions.results.0.number": 1}
        GET /pages/$page?include-favorited-by-current-user-status=true -> 200 {"isFavoritedByCurrentUser": true}
        GET /pages/$page/likes/users -> 200 {"results.0.accountId": "account-ann"}"#;
    wiki.run(calls).await;
}

#[tokio::test]
async fn an_included_list_is_cut_after_50_and_continues_at_its_own_url() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.seed(|state| {
        (0..60).try_for_each(|number| {
            state.add_label(page, &format!("label-{number}"))?;
            state.add_property(page, &format!("key-{number}"), &json!(number)).map(drop)
        })
    });
    let answer = wiki.get(&format!("/pages/{page}?include-labels=true&include-properties=true")).await;
    for (list, field, first) in [("labels", "name", "label-50"), ("properties", "key", "key-50")] {
        let included = &answer.body[list];
        assert_eq!(included["results"].as_array().unwrap().len(), 50);
        assert_eq!(included["meta"]["hasMore"], true);
        let (this, cursor) = (included["_links"]["self"].as_str(), included["meta"]["cursor"].as_str());
        let rest = wiki.get(&format!("{}?cursor={}", this.unwrap(), cursor.unwrap())).await;
        assert!(rest.is("200").len() == 10 && rest.column(field).starts_with(first), "{list}");
        assert_eq!(rest.next(), None);
    }
}

#[tokio::test]
async fn ids_above_2_to_the_53_come_back_digit_by_digit_and_are_never_reused() {
    let wiki = wiki_with(Simulator::builder().first_id(9_007_199_254_740_993)).await;
    let calls = r#"create A -> 200 {"spaceId": "9007199254740993", "id": "9007199254740997"}
        GET /pages/9007199254740997 -> 200 {"id": "9007199254740997"}
        GET /pages?id=9007199254740997 -> 200 {"results.0.id": "9007199254740997"}
        DELETE /pages/9007199254740997 -> 204
        DELETE /pages/9007199254740997?purge=true -> 204
        create A -> 200 {"id": "9007199254740998"}"#;
    wiki.run(calls).await;
}
