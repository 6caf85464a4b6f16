use model::ErrorKind;
use serde_json::json;
use value::Map;

use crate::store::{Store, bytes_of, map};

fn workload(endpoint: &str, token: &str) -> Map {
    map(json!({
        "endpoint": endpoint, "tokenService": endpoint, "bucket": "tests", "token": token,
        "roleArn": "arn:aws:iam::123456789012:role/cogwork",
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_gets_keys_for_its_token() {
    let Some(store) = Store::moto().await else { return };
    let connection = store.connect("s3.webIdentity", &workload(&store.endpoint, "canary-token"));
    for content in ["one", "two"] {
        let inputs = map(json!({"key": "w", "content": content}));
        store.try_with(&connection, "put", &inputs, "").await.expect("written");
        let got = store.try_with(&connection, "get", &map(json!({"key": "w"})), "").await.expect("an object");
        assert_eq!(bytes_of(&got), content.as_bytes());
    }
    let lines = store.lines.0.lock().expect("not poisoned").join("\n");
    assert!(!lines.contains("canary-token") && !lines.contains("SecretAccessKey"), "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_ends_with_the_keys_that_signed_it() {
    let Some(store) = Store::moto().await else { return };
    let connection = store.connect("s3.webIdentity", &workload(&store.endpoint, "canary-token"));
    let inputs = map(json!({"key": "w", "expires": "7d"}));
    let made = store.try_with(&connection, "presign", &inputs, "").await.expect("an address");
    let end =
        made.get("expiresAt").expect("an end").to_text().parse::<jiff::Timestamp>().expect("an instant");
    let url = made.get("url").expect("an address").to_text();
    let part = |name: &str| url.split(&format!("{name}=")).nth(1).and_then(|rest| rest.split('&').next());
    let signed = part("X-Amz-Date").expect("an instant");
    let signed = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", signed).expect("an instant");
    let signed = signed.to_zoned(jiff::tz::TimeZone::UTC).expect("an instant").timestamp();
    let lasts = end.duration_since(signed).as_secs();
    assert!((1..=12 * 3600).contains(&lasts), "the keys last an hour, and the address {lasts} s");
    let expires: i64 = part("X-Amz-Expires").and_then(|seconds| seconds.parse().ok()).expect("seconds");
    // The instant of the signature has no fractions.
    assert!((0..=1).contains(&(lasts - expires)), "{lasts} {url}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_goes_over_no_open_network() {
    let registry = crate::store::registry();
    let kind = registry.connection_type("s3.webIdentity").expect("a type");
    let connection = kind.resolve("files", &workload("http://store.example", "canary-token")).expect("one");
    let error =
        crate::store::once(&registry, &connection, "list", json!({}), None).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Connection, "{error:?}");
    assert!(
        error.message.contains("outbound.allow") && !error.message.contains("canary"),
        "{}",
        error.message
    );
}
