//! Attachments: lists, reads, trash and purge, uploads and downloads.

use std::time::Duration;

use reqwest::multipart::{Form, Part};
use serde_json::json;

use crate::client::{send, transcripts, wiki};

transcripts! {
    delete_trashes_and_purge_removes_an_attachment: r#"
        page = create A -> 200
        file = attach $page a.txt
        DELETE /attachments/att$file?purge=true -> 404 NOT_FOUND
        DELETE /attachments/att$file -> 204
        GET /attachments/att$file -> 200 {"status": "trashed"}
        DELETE /attachments/att$file -> 404 NOT_FOUND
        DELETE /attachments/att$file?purge=true -> 204
        GET /attachments/att$file -> 404 NOT_FOUND
        DELETE /attachments/attx -> 400 INVALID_REQUEST_PARAMETER"#

    an_attachment_includes_the_lists_that_are_asked_for: r#"
        page = create A -> 200
        file = attach $page a.txt
        POST /attachments/att$file/properties {"key": "k", "value": 1} -> 200
        GET /attachments/att$file?include-properties=true -> 200 {"properties.results.0.key": "k", "labels": null}
        GET /attachments/att$file?include-versions=true&include-version=false -> 200 {"versions.results.0.number": 1, "version": null}
        GET /attachments/att$file?include-labels=true&include-operations=true -> 200 {"labels.results": []}
        GET /attachments/att$file?include-operations=true -> 200 {"operations.results.0.targetType": "attachment"}"#

    attachments_of_custom_content_name_it_as_their_container: r#"
        page = create A -> 200
        content = content $page
        file = attach $content c.txt
        GET /attachments/att$file -> 200 {"customContentId": "$content", "pageId": null}"#

    post_refuses_a_name_that_exists_and_put_makes_a_version_of_it: r#"
        page = create A -> 200
        file = upload POST $page a.txt one -> 200 {"size": 1, "results.0.title": "a.txt", "results.0.type": "attachment"}
        upload POST $page a.txt two -> 400 {"statusCode": 400, "data.successful": false, "message": "Cannot add a new attachment with same file name as an existing attachment: a.txt"}
        upload PUT $page a.txt three -> 200 {"results.0.id": "att$file", "results.0.version.number": 2}
        GET /attachments/$file?version=1 -> 200 {"id": "att$file", "fileSize": 3, "pageId": "$page"}
        GET /attachments/att$file -> 200 {"id": "att$file", "fileSize": 5, "pageId": "$page"}
        GET /attachments/att$file?version=3 -> 404 NOT_FOUND
        GET /attachments/att$file/versions -> 200 {"results.0.number": 2, "results.1.number": 1}
        elsewhere = create B -> 200
        upload POST $elsewhere a.txt x -> 200
        upload POST 99 a.txt x -> 404 {"statusCode": 404}"#

    a_name_in_the_trash_is_free_again: r#"
        page = create A -> 200
        file = upload POST $page a.txt one -> 200
        DELETE /attachments/att$file -> 204
        upload POST $page a.txt two -> 200 {"results.0.version.number": 1}
        GET /attachments/att$file -> 200 {"status": "trashed", "fileSize": 3}"#

    both_lists_filter_by_name_and_status: r#"
        page = create A -> 200
        one = attach $page one.txt
        old = attach $page old.txt
        gone = attach $page gone.txt
        archive $old
        DELETE /attachments/att$gone -> 204
        GET /attachments -> 200 {"*.title": "one.txt,old.txt"}
        GET /attachments?filename=one.txt -> 200 {"*.title": "one.txt"}
        GET /attachments?status=trashed -> 200 {"*.title": "gone.txt"}
        GET /attachments?sort=-created-date -> 200 {"*.title": "old.txt,one.txt"}
        GET /attachments?sort=title -> 400 INVALID_REQUEST_PARAMETER
        GET /attachments?status=draft -> 400 INVALID_REQUEST_PARAMETER
        GET /pages/$page/attachments -> 200 {"*.title": "one.txt,old.txt"}
        GET /pages/$page/attachments?status=archived -> 200 {"*.title": "old.txt"}
        GET /pages/$page/attachments?mediaType=image/png -> 200 {"*.title": ""}
        GET /pages/$page/attachments?mediaType=text/plain&limit=1 -> 200 {"*.title": "one.txt"}
        GET /pages/$home/attachments -> 200 {"*.title": ""}
        GET /pages/99/attachments -> 404 NOT_FOUND"#
}

fn file(name: &'static str, media_type: &str) -> Form {
    Form::new().part("file", Part::bytes(b"a,b\n".to_vec()).file_name(name).mime_str(media_type).unwrap())
}

#[tokio::test]
async fn lists_of_attachments_have_50_entries_by_default() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    for number in 0..60 {
        wiki.attachment(page, &format!("{number}.txt"));
    }
    for path in ["/attachments".to_owned(), format!("/pages/{page}/attachments")] {
        assert_eq!(wiki.get(&path).await.len(), 50);
        assert_eq!(wiki.get(&format!("{path}?limit=250")).await.len(), 60);
    }
}

#[tokio::test]
async fn an_upload_can_have_a_comment_and_several_files_and_stores_all_or_none() {
    let wiki = wiki().await;
    wiki.name("page", wiki.page("A"));
    let upload = async |form| wiki.upload("POST", &wiki.named("$page"), form).await;
    let made = upload(file("a.csv", "text/csv").text("comment", "monthly").text("minorEdit", "true")).await;
    made.is("200").has(json!({"results.0.extensions.fileSize": 4, "results.0.version.minorEdit": true}));
    let read = wiki.get(&format!("/attachments/{}", made.body["results"][0]["id"].as_str().unwrap())).await;
    read.has(json!({"mediaType": "text/csv", "comment": "monthly", "version.minorEdit": true}));
    let part = |name: &'static str| Part::bytes(b"x".to_vec()).file_name(name);
    for names in [["b.csv", "a.csv"], ["b.csv", "b.csv"]] {
        upload(Form::new().part("file", part(names[0])).part("file", part(names[1]))).await.is("400");
    }
    wiki.run(r#"GET /attachments -> 200 {"*.title": "a.csv"}"#).await;
    upload(Form::new().part("file", part("b.csv")).part("file", part("c.csv")))
        .await
        .is("200")
        .has(json!({"size": 2}));
    upload(Form::new().text("comment", "no file")).await.is("400");
    upload(Form::new().text("file", "no file name")).await.is("400");
}

#[tokio::test]
async fn an_upload_needs_its_header_and_a_multipart_body() {
    let wiki = wiki().await;
    let line = format!("POST /wiki/rest/api/content/{}/child/attachment", wiki.page("A"));
    let refused = send(wiki.request(&line).multipart(file("a.txt", "text/plain"))).await;
    refused
        .is("403")
        .has(json!({"statusCode": 403, "message": "XSRF check failed", "data.successful": false}));
    let request = || wiki.request(&line).header("X-Wiki-Token", "nocheck");
    send(request().json(&json!({}))).await.is("400");
    send(request().header("content-type", "multipart/form-data; boundary=x").body("--x\r\nnonsense"))
        .await
        .is("400");
}

#[tokio::test]
async fn the_download_link_lacks_wiki_and_redirects_to_another_host() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let id = wiki.attachment(page, "my file ü.txt");
    let attachment = wiki.get(&format!("/attachments/att{id}")).await;
    let link = attachment.field("downloadLink");
    assert!(link.starts_with("/download/attachments/"), "{link}");
    let by_name = wiki.get(&format!("/wiki{link}")).await;
    let location = by_name.is("302").header("location");
    assert!(
        location.starts_with("http://localhost:") && wiki.sim.base_url().starts_with("http://127.0.0.1:")
    );
    assert_eq!(send(wiki.http.get(location)).await.is("200").text, "the bytes of my file ü.txt");
    send(wiki.open(&format!("GET /wiki{link}"))).await.is("401 UNAUTHORIZED");
    let by_id = wiki.get(&format!("/wiki/rest/api/content/{page}/child/attachment/att{id}/download")).await;
    let location = by_id.is("302").header("location");
    // The other host accepts neither a forwarded Authorization nor another or an old signature.
    send(wiki.http.get(location)).await.is("200");
    send(wiki.http.get(location).bearer_auth("leaked")).await.is("400 BAD_REQUEST");
    send(wiki.http.get(location.replace("token=", "token=0"))).await.is("403 FORBIDDEN");
    wiki.sim.advance(Duration::from_secs(301));
    send(wiki.http.get(location)).await.is("403 FORBIDDEN");
}
