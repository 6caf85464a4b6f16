use pretty_assertions::assert_eq;
use serde_json::json;
use value::Value;

use crate::store::{Store, at};

fn keys(value: &Value) -> Vec<String> {
    let list = value.get("results").expect("a list");
    let key = |record: &Value| record.path("object.key").map(|key| key.to_text()).unwrap_or_default();
    list.as_list().expect("a list").iter().map(key).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_objects_come_by_time_with_an_id_that_changes_with_them() {
    let Some(store) = Store::weed().await else { return };
    for key in ["e/z.pdf", "e/a.pdf", "e/b.txt"] {
        store.call("put", json!({"key": key, "content": key})).await;
    }
    let all = store.call("listChanged", json!({"prefix": "e/", "suffix": ".pdf"})).await;
    let mut found = keys(&all);
    found.sort();
    assert_eq!(found, ["e/a.pdf", "e/z.pdf"]);
    let newest = store.call("listChanged", json!({"prefix": "e/", "newest": true})).await;
    assert_eq!(keys(&newest).len(), 1);
    let modified = at(&newest, "results.0.modified").expect("an instant").to_text();
    assert!(!keys(&store.call("listChanged", json!({"prefix": "e/", "after": modified})).await).is_empty());
    let later = store.call("listChanged", json!({"prefix": "e/", "after": "2999-01-01T00:00:00Z"})).await;
    assert_eq!(keys(&later), Vec::<String>::new());
    let id = |value: &Value| at(value, "results.0.id").map(|id| id.to_text());
    let before = store.call("listChanged", json!({"prefix": "e/a"})).await;
    store.call("put", json!({"key": "e/a.pdf", "content": "changed"})).await;
    let after = store.call("listChanged", json!({"prefix": "e/a"})).await;
    assert!(id(&before).is_some() && id(&before) != id(&after));
}

/// A store that has another page of 1,000 objects, whatever is asked.
async fn endless() -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut page = 0;
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            page += 1;
            let object = |index| {
                format!(
                    "<Contents><Key>{page}/{index}</Key><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
                )
            };
            let objects: String = (0..1_000).map(object).collect();
            let more = format!(
                "<IsTruncated>true</IsTruncated><NextContinuationToken>{page}</NextContinuationToken>"
            );
            let body = format!("<ListBucketResult>{objects}{more}</ListBucketResult>");
            let head =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn a_prefix_with_more_keys_than_a_poll_reads_is_an_error() {
    let registry = crate::store::registry();
    let kind = registry.connection_type("s3.keys").expect("a type");
    let connection = kind.resolve("files", &Store::login(&endless().await, "tests")).expect("a connection");
    let error = crate::store::once(&registry, &connection, "listChanged", json!({}), None).await;
    let error = error.expect_err("too many");
    assert_eq!(error.kind, model::ErrorKind::Limit, "{error:?}");
    assert!(error.message.contains("100000 keys"), "{}", error.message);
}
