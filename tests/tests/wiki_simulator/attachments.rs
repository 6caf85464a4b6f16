//! Attachments: lists, get, trash and purge, uploads through the older API, downloads.

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;
use tests::wiki::{Permissions, Simulator};

use crate::client::{Answer, Wiki, send, user, wiki, wiki_with};

fn file(name: &str, bytes: &[u8], media_type: &str) -> Form {
    let part = Part::bytes(bytes.to_vec()).file_name(name.to_owned()).mime_str(media_type).unwrap();
    Form::new().part("file", part)
}

async fn upload(wiki: &Wiki, method: Method, page: u64, form: Form) -> Answer {
    let request = wiki.site(method, &format!("/wiki/rest/api/content/{page}/child/attachment"));
    send(request.header("X-Wiki-Token", "no-check").multipart(form)).await
}

#[tokio::test]
async fn an_upload_is_wrapped_in_results_and_can_be_read_back() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let form = file("report.csv", b"a,b\n", "text/csv").text("comment", "monthly").text("minorEdit", "true");
    let answer = upload(&wiki, Method::POST, page, form).await;
    let result = &answer.is(200).body["results"][0];
    assert_eq!((&result["title"], &result["type"]), (&json!("report.csv"), &json!("attachment")));
    assert_eq!(result["extensions"]["fileSize"], 4);
    let id = result["id"].as_str().unwrap();
    assert!(id.starts_with("att"), "{id}");
    let read = wiki.get(&format!("/attachments/{id}")).await;
    assert_eq!(read.is(200).body["mediaType"], "text/csv");
    assert_eq!(read.body["comment"], "monthly");
    assert_eq!(read.body["fileSize"], 4);
    assert_eq!(read.body["pageId"], page.to_string());
    assert_eq!(read.body["version"]["minorEdit"], true);
    assert_eq!(wiki.get(&format!("/attachments/{}", &id[3..])).await.body["id"], id);
}

#[tokio::test]
async fn an_upload_without_the_xsrf_header_is_403_in_the_v1_shape() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let request = wiki.site(Method::POST, &format!("/wiki/rest/api/content/{page}/child/attachment"));
    let answer = send(request.multipart(file("a.txt", b"x", "text/plain"))).await;
    assert_eq!(answer.is(403).body["statusCode"], 403);
    assert!(answer.body["message"].as_str().unwrap().contains("XSRF"));
}

#[tokio::test]
async fn post_refuses_a_name_that_exists_and_put_makes_a_version_of_it() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let first = upload(&wiki, Method::POST, page, file("a.txt", b"one", "text/plain")).await;
    let again = upload(&wiki, Method::POST, page, file("a.txt", b"two", "text/plain")).await;
    assert_eq!(again.is(400).body["statusCode"], 400);
    assert!(again.body["message"].as_str().unwrap().contains("a.txt"));
    assert_eq!(again.body["data"]["successful"], false);
    let second = upload(&wiki, Method::PUT, page, file("a.txt", b"three", "text/plain")).await;
    assert_eq!(second.is(200).body["results"][0]["id"], first.body["results"][0]["id"]);
    assert_eq!(second.body["results"][0]["version"]["number"], 2);
    let id = first.body["results"][0]["id"].as_str().unwrap();
    assert_eq!(wiki.get(&format!("/attachments/{id}?version=1")).await.body["fileSize"], 3);
    assert_eq!(wiki.get(&format!("/attachments/{id}")).await.body["fileSize"], 5);
    wiki.get(&format!("/attachments/{id}?version=3")).await.is_error(404, "NOT_FOUND");
    let other = wiki.page("B");
    upload(&wiki, Method::POST, other, file("a.txt", b"x", "text/plain")).await.is(200);
}

#[tokio::test]
async fn a_refused_upload_of_several_files_stores_none() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.attachment(page, "taken.txt");
    let part = |name: &'static str| Part::bytes(b"x".to_vec()).file_name(name);
    let form = Form::new().part("file", part("new.txt")).part("file", part("taken.txt"));
    upload(&wiki, Method::POST, page, form).await.is(400);
    assert_eq!(wiki.get(&format!("/pages/{page}/attachments")).await.column("title"), ["taken.txt"]);
    let form = Form::new().part("file", part("one.txt")).part("file", part("two.txt"));
    assert_eq!(upload(&wiki, Method::POST, page, form).await.is(200).body["size"], 2);
}

#[tokio::test]
async fn an_upload_that_is_none_is_400() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let path = format!("/wiki/rest/api/content/{page}/child/attachment");
    let json = wiki.site(Method::POST, &path).header("X-Wiki-Token", "nocheck").json(&json!({}));
    send(json).await.is(400);
    upload(&wiki, Method::POST, page, Form::new().text("comment", "no file")).await.is(400);
    upload(&wiki, Method::POST, page, Form::new().text("file", "no file name")).await.is(400);
    let broken = wiki.site(Method::POST, &path).header("X-Wiki-Token", "nocheck");
    let broken = broken.header("content-type", "multipart/form-data; boundary=x").body("--x\r\nnonsense");
    send(broken).await.is(400);
    upload(&wiki, Method::POST, 99, file("a.txt", b"x", "text/plain")).await.is(404);
}

#[tokio::test]
async fn delete_trashes_and_purge_removes_an_attachment() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let path = format!("/attachments/att{}", wiki.attachment(page, "a.txt"));
    wiki.delete(&format!("{path}?purge=true")).await.is_error(404, "NOT_FOUND");
    wiki.delete(&path).await.is(204);
    assert_eq!(wiki.get(&path).await.is(200).body["status"], "trashed");
    wiki.delete(&path).await.is_error(404, "NOT_FOUND");
    wiki.delete(&format!("{path}?purge=true")).await.is(204);
    wiki.get(&path).await.is_error(404, "NOT_FOUND");
    wiki.delete("/attachments/attx").await.is_error(400, "INVALID_REQUEST_PARAMETER");
}

#[tokio::test]
async fn a_name_in_the_trash_is_free_again() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let old = wiki.attachment(page, "a.txt");
    wiki.delete(&format!("/attachments/att{old}")).await.is(204);
    let answer = upload(&wiki, Method::POST, page, file("a.txt", b"x", "text/plain")).await;
    assert_ne!(answer.is(200).body["results"][0]["id"], format!("att{old}"));
}

#[tokio::test]
async fn both_lists_have_50_entries_by_default_and_filter_by_name_type_and_status() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    for number in 0..60 {
        wiki.attachment(page, &format!("{number:02}.txt"));
    }
    wiki.seed(|state| state.add_attachment(page, "x.png", "image/png", "png"));
    let archived = wiki.attachment(page, "archived.txt");
    wiki.seed(|state| state.archive_attachment(archived));
    let trashed = wiki.attachment(page, "trashed.txt");
    wiki.delete(&format!("/attachments/att{trashed}")).await.is(204);
    for path in ["/attachments".to_owned(), format!("/pages/{page}/attachments")] {
        assert_eq!(wiki.get(&path).await.ids().len(), 50);
        assert_eq!(wiki.get(&format!("{path}?limit=250")).await.ids().len(), 62);
        assert_eq!(wiki.get(&format!("{path}?filename=07.txt")).await.column("title"), ["07.txt"]);
        assert_eq!(wiki.get(&format!("{path}?mediaType=image/png")).await.column("title"), ["x.png"]);
        assert_eq!(wiki.get(&format!("{path}?status=archived")).await.column("title"), ["archived.txt"]);
        assert_eq!(wiki.get(&format!("{path}?status=trashed")).await.column("title"), ["trashed.txt"]);
        assert_eq!(
            wiki.get(&format!("{path}?sort=-created-date&limit=1")).await.column("title"),
            ["archived.txt"]
        );
        wiki.get(&format!("{path}?sort=title")).await.is_error(400, "INVALID_REQUEST_PARAMETER");
        wiki.get(&format!("{path}?status=draft")).await.is_error(400, "INVALID_REQUEST_PARAMETER");
    }
    let other = wiki.page("B");
    assert!(wiki.get(&format!("/pages/{other}/attachments")).await.ids().is_empty());
    wiki.get("/pages/99/attachments").await.is_error(404, "NOT_FOUND");
}

#[tokio::test]
async fn includes_of_an_attachment_come_on_request() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let id = wiki.attachment(page, "a.txt");
    wiki.post(&format!("/attachments/att{id}/properties"), json!({"key": "k", "value": 1})).await.is(200);
    let path = format!(
        "/attachments/att{id}?include-properties=true&include-operations=true&include-versions=true&include-version=false&include-labels=true"
    );
    let answer = wiki.get(&path).await;
    assert_eq!(answer.is(200).body["properties"]["results"][0]["key"], "k");
    assert_eq!(answer.body["versions"]["results"][0]["number"], 1);
    assert_eq!(answer.body["operations"]["results"][0]["targetType"], "attachment");
    assert_eq!(answer.body["labels"]["results"], json!([]));
    assert!(answer.body.get("version").is_none());
}

#[tokio::test]
async fn the_download_link_lacks_wiki_and_redirects_to_another_host() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let id = wiki.attachment(page, "my file ü.txt");
    let link =
        wiki.get(&format!("/attachments/att{id}")).await.body["downloadLink"].as_str().unwrap().to_owned();
    assert!(link.starts_with("/download/attachments/"), "{link}");
    let answer = send(wiki.site(Method::GET, &format!("/wiki{link}"))).await;
    let location = answer.is(302).header("location").to_owned();
    let host = reqwest::Url::parse(&location).unwrap().host_str().unwrap().to_owned();
    assert_ne!(format!("http://{host}"), wiki.sim.base_url()[..wiki.sim.base_url().rfind(':').unwrap()]);
    assert_eq!(send(wiki.http.get(&location)).await.is(200).text, "the bytes of my file ü.txt");
    let v1 = format!("/wiki/rest/api/content/{page}/child/attachment/att{id}/download");
    send(wiki.site(Method::GET, &v1)).await.is(302);
    send(wiki.open(Method::GET, &format!("/wiki{link}"))).await.is(401);
}

#[tokio::test]
async fn the_other_host_refuses_a_forwarded_authorization_and_old_signatures() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let id = wiki.attachment(page, "a.txt");
    let v1 = format!("/wiki/rest/api/content/{page}/child/attachment/att{id}/download");
    let location = send(wiki.site(Method::GET, &v1)).await.header("location").to_owned();
    send(wiki.http.get(&location).bearer_auth("leaked")).await.is(400);
    send(wiki.http.get(location.replace("token=", "token=0"))).await.is(403);
    wiki.sim.advance(std::time::Duration::from_secs(301));
    send(wiki.http.get(&location)).await.is(403);
}

#[tokio::test]
async fn an_upload_needs_the_permission_to_create() {
    let wiki = wiki_with(Simulator::builder().user(user("ann").everywhere(Permissions::VIEW))).await;
    let page = wiki.page("A");
    let request = wiki
        .open(Method::POST, &format!("/wiki/rest/api/content/{page}/child/attachment"))
        .basic_auth("ann@example.com", Some("ann-token"))
        .header("X-Wiki-Token", "no-check")
        .multipart(file("a.txt", b"x", "text/plain"));
    assert_eq!(send(request).await.is(404).body["statusCode"], 404);
}

#[tokio::test]
async fn attachments_of_custom_content_name_it_as_their_container() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let content = wiki.custom_content(page);
    let id = wiki.seed(|state| state.add_custom_content_attachment(content, "c.txt", "text/plain", "x"));
    let answer = wiki.get(&format!("/attachments/att{id}")).await;
    assert_eq!(answer.is(200).body["customContentId"], content.to_string());
    assert!(answer.body.get("pageId").is_none());
}
