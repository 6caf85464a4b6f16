//! Tests of downloads.

use model::ErrorKind;
use pretty_assertions::assert_eq;

use super::service::{Double, get_one, manifest_with};
use super::*;
use crate::http::testing::ServerReply;

fn action(more: &str) -> String {
    get_one().replace("    inputs:", &format!("    download: true\n{more}    inputs:"))
}

async fn double(more: &str, respond: impl Fn(usize, &str) -> ServerReply + Send + Sync + 'static) -> Double {
    Double::start(&manifest_with("", "{bearer: key}", &action(more)), respond).await
}

#[tokio::test]
async fn a_download_may_be_larger_than_other_answers() {
    let body: Vec<u8> = (0..12_000_000_u32).map(|index| index.to_le_bytes()[index as usize % 3]).collect();
    let expected = value::Data::from(body.clone()).digest();
    let head = "200 OK\r\ncontent-type: image/png\r\ncontent-disposition: attachment; filename=\"a.png\"";
    let double = double("", move |_, _| testing::reply(head, &body)).await;
    let file = double.call(r#"{"id": "a"}"#).await.expect("a file");
    let file = file.as_file().expect("a file");
    assert_eq!((&*file.content_type, file.filename.as_deref()), ("image/png", Some("a.png")));
    assert_eq!((file.data.len(), file.data.digest()), (12_000_000, expected));
    assert_eq!(double.header("accept-encoding").as_deref(), Some("identity"));
}

#[tokio::test]
async fn a_download_that_is_cut_off_compressed_or_refused_is_an_error() {
    for (reply, kind) in [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc".to_vec(), ErrorKind::Network),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 3\r\n\r\nabc".to_vec(),
            ErrorKind::Response,
        ),
        (
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 17\r\n\r\n{\"message\": \"no\"}".to_vec(),
            ErrorKind::Status,
        ),
    ] {
        let shown = String::from_utf8_lossy(&reply).into_owned();
        let double = double("", move |_, _| ServerReply::Bytes(reply.clone())).await;
        let error = double.call(r#"{"id": "a"}"#).await.expect_err("no file");
        assert_eq!(error.kind, kind, "{shown}: {error:?}");
    }
}

#[tokio::test]
async fn a_download_follows_to_named_hosts_without_the_credentials() {
    let storage = Server::start(|_, _| testing::reply("200 OK", b"stored")).await;
    let target = storage.url("/object?signature=x");
    let redirects = move |_, _: &str| testing::reply(&format!("302 Found\r\nlocation: {target}"), b"");
    let named = double("    redirect: {hosts: ['127.0.0.1']}\n", redirects.clone()).await;
    let file = named.call(r#"{"id": "a"}"#).await.expect("a file");
    assert_eq!(file.as_file().expect("a file").data.len(), 6);
    let request = storage.requests().remove(0);
    assert!(!request.contains("secret") && !request.contains("authorization"), "{request}");
    let other = double("    redirect: {hosts: ['*.storage.example']}\n", redirects).await;
    let error = other.call(r#"{"id": "a"}"#).await.expect_err("another host");
    assert_eq!(error.kind, ErrorKind::Blocked);
    assert_eq!(storage.requests().len(), 1);
}

#[test]
fn a_download_is_a_get_without_another_result() {
    for (from, to, expected) in [
        (
            "    download: true\n",
            "    download: true\n    answer: text\n",
            "cannot have both `download` and `answer`",
        ),
        (
            "    download: true\n",
            "    download: true\n    results: text\n",
            "cannot have both `download` and `results`",
        ),
        ("GET /items", "POST /items", "a POST downloads nothing"),
    ] {
        let text = manifest_with("", "{bearer: key}", &action("")).replace(from, to);
        let (_, errors) = read_text(&text);
        assert!(errors.contains(expected), "{errors}");
    }
}
