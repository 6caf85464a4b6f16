use serde_json::json;
use value::{File, Map, Value};

use crate::store::{Store, bytes_of, content, map, on_disk};

/// The unfinished uploads of the bucket, as `key parts`.
fn uploads(store: &Store) -> usize {
    let script = "import sys, boto3; c = boto3.client('s3', endpoint_url=sys.argv[1], region_name='us-east-1', \
                  aws_access_key_id=sys.argv[2], aws_secret_access_key=sys.argv[3]); \
                  print(len(c.list_multipart_uploads(Bucket='tests').get('Uploads', [])))";
    run(store, script, &[]).trim().parse().expect("a number")
}

/// Runs a script of the services' own library.
fn run(store: &Store, script: &str, more: &[&str]) -> String {
    let python = servers::program("python3").expect("it is installed with the stores");
    let mut command = std::process::Command::new(python);
    command.args(["-c", script, &store.endpoint, crate::store::ACCESS, crate::store::SECRET]).args(more);
    let done = command.output().expect("python");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Begins an upload with one part of this size.
fn begin(store: &Store, key: &str, size: usize) {
    let script = "import sys, boto3; c = boto3.client('s3', endpoint_url=sys.argv[1], region_name='us-east-1', \
                  aws_access_key_id=sys.argv[2], aws_secret_access_key=sys.argv[3]); \
                  u = c.create_multipart_upload(Bucket='tests', Key=sys.argv[4])['UploadId']; \
                  c.upload_part(Bucket='tests', Key=sys.argv[4], UploadId=u, PartNumber=1, Body=b'x' * int(sys.argv[5]))";
    run(store, script, &[key, &size.to_string()]);
}

fn large(store: &Store, size: usize) -> (Vec<u8>, Value) {
    let (bytes, path) = (content(size), store.files.0.path().join("large"));
    std::fs::write(&path, &bytes).expect("written");
    let data = on_disk(&path).expect("a file");
    (bytes, Value::from(File { content_type: "text/x-large".into(), filename: None, data }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_object_is_sent_in_parts_and_comes_back_whole() {
    let Some(store) = Store::weed().await else { return };
    let (bytes, file) = large(&store, (40 << 20) + 123);
    let mut inputs = map(json!({"key": "large/one", "metadata": {"a": "b"}}));
    inputs.insert("content", file);
    let put = store.try_map("put", &inputs).await.expect("written");
    assert_eq!(put.path("size").map(|size| size.to_text()), Some(bytes.len().to_string()));
    let got = store.call("get", json!({"key": "large/one"})).await;
    assert!(bytes_of(&got) == bytes, "other bytes");
    assert_eq!(got.path("etag"), put.path("etag"));
    assert_eq!(got.path("metadata.a"), Some("b".into()));
    assert_eq!(got.path("contentType"), Some("text/x-large".into()));
    assert_eq!(uploads(&store), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_of_an_earlier_attempt_is_aborted_and_uploads_of_others_are_not() {
    let Some(store) = Store::weed().await else { return };
    let (_, file) = large(&store, 17 << 20);
    let inputs = Map::from_iter([("key", Value::from("left")), ("content", file)]);
    // The size of the parts of the step `one`, as `part_size` has it.
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest("one");
    let size = (8 << 20) + 1 + usize::from(u16::from_le_bytes([hash[0], hash[1]]));
    begin(&store, "left", size);
    begin(&store, "left", size - 1);
    begin(&store, "left.other", size);
    assert_eq!(uploads(&store), 3);
    store.try_with(&store.connection, "put", &inputs, "one").await.expect("written");
    assert_eq!(uploads(&store), 2, "one of the step, and none of others");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_fails_is_aborted() {
    let Some(store) = Store::weed().await else { return };
    let (_, file) = large(&store, 17 << 20);
    store.call("put", json!({"key": "there", "content": "x"})).await;
    let inputs =
        Map::from_iter([("key", Value::from("there")), ("content", file), ("create", Value::from(true))]);
    let error = store.try_map("put", &inputs).await.expect_err("it exists");
    assert_eq!(error.code.as_deref(), Some("PreconditionFailed"), "{error:?}");
    assert_eq!(uploads(&store), 0);
    assert_eq!(bytes_of(&store.call("get", json!({"key": "there"})).await), b"x");
}
