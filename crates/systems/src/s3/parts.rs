//! Uploads of large objects in parts, of which the object is made at the end.
//!
//! An attempt that ended in its middle, with the process, leaves an upload whose parts cost storage. The next attempt of the step
//! finds it by the size of its parts, which is that of the step alone: other writers of the key are left alone.

use connector::http::{Method, Request};
use futures_util::{StreamExt as _, TryStreamExt as _};
use model::{ActionError, ErrorKind};
use sha2::{Digest as _, Sha256};
use value::{Data, Value};

use super::bucket::Bucket;
use super::document::{escaped, etag, items, parse, text_at};
use super::write::{Content, describe, refuse_existing, send_for_document, version};

/// The least size of a part, in bytes.
const PART: usize = 8 << 20;
/// The parts that are sent at a time.
const CONCURRENT: usize = 3;
/// The largest number of uploads of a key that are looked at.
const MAX_UPLOADS: usize = 100;

/// Sends an object in parts. Returns its ETag and its version.
pub(super) async fn send(
    bucket: &Bucket<'_>,
    key: &str,
    content: &Content,
) -> Result<(String, Value), ActionError> {
    let size = part_size(bucket.call.idempotency_key);
    abort_earlier(bucket, key, size).await;
    let mut begin = request(bucket, Method::POST, key, "uploads", "")?;
    describe(bucket, &mut begin, content)?;
    let (document, _) = send_for_document(bucket, &begin).await?;
    let upload = text_at(&document, "InitiateMultipartUploadResult.UploadId");
    if upload.is_empty() {
        let message = format!("{} gave an answer without the id of the upload", bucket.subject);
        return Err(ActionError::new(ErrorKind::Response, message));
    }
    let sent = complete(bucket, key, &upload, &content.data, size).await;
    // After a lost answer the object may exist; if it does, there is nothing to abort.
    if sent.is_err() {
        abort(bucket, key, &upload).await;
    }
    sent
}

/// The size of the parts of a step, in bytes: up to 64 KiB above [`PART`].
fn part_size(idempotency_key: &str) -> usize {
    let [first, second, ..] = <[u8; 32]>::from(Sha256::digest(idempotency_key));
    PART + 1 + usize::from(u16::from_le_bytes([first, second]))
}

async fn complete(
    bucket: &Bucket<'_>,
    key: &str,
    upload: &str,
    data: &Data,
    size: usize,
) -> Result<(String, Value), ActionError> {
    let count = data.len().div_ceil(size);
    let sending = (0..count).map(|index| part(bucket, key, upload, (data, size), index));
    let tags: Vec<String> = futures_util::stream::iter(sending).buffered(CONCURRENT).try_collect().await?;
    let mut parts = String::new();
    for (index, tag) in tags.iter().enumerate() {
        let (number, tag) = (index + 1, escaped(tag));
        parts.push_str(&format!(
            "<Part><PartNumber>{number}</PartNumber><ETag>&quot;{tag}&quot;</ETag></Part>"
        ));
    }
    let mut request = request(bucket, Method::POST, key, "uploadId", upload)?;
    refuse_existing(bucket, &mut request)?;
    let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
    request.set_bytes("application/xml", body.into_bytes());
    let (document, response) = send_for_document(bucket, &request).await?;
    Ok((etag(&text_at(&document, "CompleteMultipartUploadResult.ETag")), version(&response)))
}

/// Sends a part, which is read from disk meanwhile. Returns its ETag.
async fn part(
    bucket: &Bucket<'_>,
    key: &str,
    upload: &str,
    (data, size): (&Data, usize),
    index: usize,
) -> Result<String, ActionError> {
    let data = slice(data.clone(), index * size, size).await?;
    let mut request = request(bucket, Method::PUT, key, "uploadId", upload)?;
    request.add_query("partNumber", &Value::from(i64::try_from(index + 1).unwrap_or(i64::MAX)));
    request.set_bytes("application/octet-stream", data);
    let response = bucket.send(&request).await?;
    Ok(etag(response.header("etag").unwrap_or_default()))
}

/// A range of a file with its digest, by which the store knows that it has arrived whole.
async fn slice(data: Data, offset: usize, length: usize) -> Result<Data, ActionError> {
    let failed =
        |error: String| ActionError::new(ErrorKind::Internal, format!("the file cannot be read: {error}"));
    let reading = allocator::large_work(move || {
        let part = data.slice(offset, length, [0; 32]);
        let mut hash = Sha256::new();
        part.for_each_chunk(|chunk| hash.update(chunk))?;
        Ok::<_, std::io::Error>(data.slice(offset, length, hash.finalize().into()))
    });
    let read = reading.await.map_err(|error| failed(error.to_string()))?;
    read.map_err(|error| failed(error.to_string()))
}

/// A request for an object with one parameter.
fn request(
    bucket: &Bucket<'_>,
    method: Method,
    key: &str,
    name: &str,
    value: &str,
) -> Result<Request, ActionError> {
    let mut request = bucket.request(method, "key", key)?;
    request.add_query(name, &value.into());
    Ok(request)
}

/// Aborts an upload. If that fails, the upload is found by the next attempt, and by the rules of the bucket.
async fn abort(bucket: &Bucket<'_>, key: &str, upload: &str) {
    let aborting = async { bucket.send(&request(bucket, Method::DELETE, key, "uploadId", upload)?).await };
    if let Err(error) = aborting.await {
        tracing::warn!(key, error = %error, "an upload in parts was not aborted");
    }
}

/// Aborts the uploads that earlier attempts of the step have left.
async fn abort_earlier(bucket: &Bucket<'_>, key: &str, size: usize) {
    let finding = async {
        let mut request = bucket.bucket_request(Method::GET);
        request.add_query("uploads", &"".into());
        request.add_query("prefix", &key.into());
        let document = parse(&bucket.send(&request).await?, bucket.subject)?;
        let uploads = items(&document, "ListMultipartUploadsResult.Upload").into_iter();
        let own = uploads.filter(|upload| text_at(upload, "Key") == key).take(MAX_UPLOADS);
        for upload in own.map(|upload| text_at(&upload, "UploadId")) {
            if first_part(bucket, key, &upload).await? == Some(size) {
                abort(bucket, key, &upload).await;
            }
        }
        Ok::<_, ActionError>(())
    };
    if let Err(error) = finding.await {
        // A key may be allowed to write and not to list.
        tracing::debug!(key, error = %error, "uploads of earlier attempts cannot be listed");
    }
}

/// The size of the first part of an upload; `None` if it has none.
async fn first_part(bucket: &Bucket<'_>, key: &str, upload: &str) -> Result<Option<usize>, ActionError> {
    let mut request = request(bucket, Method::GET, key, "uploadId", upload)?;
    request.add_query("max-parts", &Value::from(1_i64));
    let document = parse(&bucket.send(&request).await?, bucket.subject)?;
    let parts = items(&document, "ListPartsResult.Part");
    Ok(parts.first().and_then(|part| text_at(part, "Size").parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_parts_is_that_of_the_step() {
        let sizes: std::collections::BTreeSet<usize> =
            (0..100).map(|step| part_size(&format!("execution.step{step}"))).collect();
        assert!(sizes.len() > 95, "{}", sizes.len());
        assert!(sizes.iter().all(|size| (PART + 1..=PART + (64 << 10)).contains(size)));
        assert_eq!(part_size("a"), part_size("a"));
    }
}
