//! Content properties, on all three kinds of owners.

use serde_json::json;

use crate::client::{send, transcripts, wiki};

transcripts! {
    a_property_is_found_only_under_its_own_owner: r#"
        page = create A -> 200
        file = attach $page a.txt
        content = content $page
        one = POST /pages/$page/properties {"key": "k", "value": 1} -> 200
        GET /attachments/att$file/properties/$one -> 404 NOT_FOUND
        DELETE /custom-content/$content/properties/$one -> 404 NOT_FOUND
        GET /pages/99/properties -> 404 NOT_FOUND
        GET /pages/$page/properties/first -> 400 INVALID_REQUEST_PARAMETER
        GET /pages/$page/properties/$one -> 200"#

    properties_of_a_page_in_the_trash_cannot_be_reached_until_it_is_restored: r#"
        page = create A -> 200
        one = POST /pages/$page/properties {"key": "k", "value": 1} -> 200
        DELETE /pages/$page -> 204
        GET /pages/$page/properties -> 404 NOT_FOUND
        GET /pages/$page/properties/$one -> 404 NOT_FOUND
        POST /pages/$page/properties {"key": "l", "value": 1} -> 404 NOT_FOUND
        update $page 2 -> 200
        GET /pages/$page/properties -> 200 {"results.0.key": "k"}"#

    a_create_needs_a_free_key_and_a_value: r#"
        page = create A -> 200
        POST /pages/$page/properties {"key": "k", "value": null} -> 200 {"value": null}
        POST /pages/$page/properties {"key": "k", "value": 2} -> 409 CONFLICT {"errors.0.title": "A content property with the key 'k' already exists"}
        POST /pages/$page/properties {"key": "K", "value": 2} -> 200
        POST /pages/$page/properties {"value": 1} -> 400 BAD_REQUEST
        POST /pages/$page/properties {"key": "", "value": 1} -> 400 BAD_REQUEST
        POST /pages/$page/properties {"key": 5, "value": 1} -> 400 BAD_REQUEST
        POST /pages/$page/properties {"key": "x"} -> 400 BAD_REQUEST"#

    an_update_needs_the_next_version_and_the_same_key: r#"
        page = create A -> 200
        one = POST /pages/$page/properties {"key": "k", "value": 1} -> 200
        PUT /pages/$page/properties/$one {"key": "k", "value": 2, "version": {"number": 1}} -> 409 CONFLICT
        PUT /pages/$page/properties/$one {"key": "k", "value": 2, "version": {"number": 3}} -> 409 CONFLICT
        PUT /pages/$page/properties/$one {"key": "k", "value": 2} -> 400 BAD_REQUEST
        PUT /pages/$page/properties/$one {"key": "l", "value": 2, "version": {"number": 2}} -> 400 BAD_REQUEST
        GET /pages/$page/properties/$one -> 200 {"value": 1}"#
}

#[tokio::test]
async fn properties_are_written_read_and_listed_on_every_kind_of_owner() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let (file, content) = (wiki.attachment(page, "a.txt"), wiki.custom_content(page));
    for owner in
        [format!("pages/{page}"), format!("attachments/att{file}"), format!("custom-content/{content}")]
    {
        wiki.name("owner", format!("/{owner}/properties"));
        let calls = r#"one = POST $owner {"key": "k", "value": {"a": [1, null]}} -> 200 {"version.number": 1}
            GET $owner/$one -> 200 {"value": {"a": [1, null]}}
            PUT $owner/$one {"key": "k", "value": "new", "version": {"number": 2, "message": "why"}} -> 200 {"value": "new"}
            GET $owner/$one -> 200 {"version.number": 2, "version.message": "why"}
            DELETE $owner/$one -> 204
            GET $owner/$one -> 404 NOT_FOUND
            again = POST $owner {"key": "k", "value": 1} -> 200 {"version.number": 1}
            GET $owner/$one -> 404 NOT_FOUND
            DELETE $owner/$again -> 204
            POST $owner {"key": "b", "value": 1} -> 200
            POST $owner {"key": "c", "value": 1} -> 200
            POST $owner {"key": "a", "value": 1} -> 200
            POST $owner {"key": "A", "value": 1} -> 200
            GET $owner -> 200 {"*.key": "b,c,a,A"}
            GET $owner?key=a -> 200 {"*.key": "a"}
            GET $owner?sort=key -> 200 {"*.key": "A,a,b,c"}
            GET $owner?sort=-key -> 200 {"*.key": "c,b,a,A"}
            GET $owner?sort=id -> 400 INVALID_REQUEST_PARAMETER"#;
        wiki.run(calls).await;
        let path = format!("/{owner}/properties");
        let first = wiki.get(&format!("{path}?sort=key&limit=3")).await;
        assert_eq!(wiki.get(&format!("{path}?{}", first.next().unwrap())).await.column("key"), "c");
    }
}

#[tokio::test]
async fn values_of_any_kind_come_back_digit_by_digit_up_to_32_kilobytes() {
    let wiki = wiki().await;
    let path = format!("/pages/{}/properties", wiki.page("A"));
    for value in ["null", "12345678901234567890123", "1.10", "\"\"", "false", "[]"] {
        let key = value.replace('"', "'");
        let request = wiki.request(&format!("POST {path}")).header("content-type", "application/json");
        let made = send(request.body(format!(r#"{{"key":"{key}","value":{value}}}"#))).await;
        for read in [format!("{path}/{}", made.is("200").field("id")), format!("{path}?key={key}")] {
            let read = wiki.get(&read).await;
            assert!(read.text.contains(&format!("\"value\":{value},")), "{value}: {}", read.text);
        }
    }
    for (length, outcome) in [(32_766, "200"), (32_767, "400 BAD_REQUEST")] {
        let body = json!({"key": "long", "value": "x".repeat(length)});
        wiki.call(&format!("POST {path}"), body).await.is(outcome);
    }
}
