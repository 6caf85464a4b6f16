//! `s3.list`, and `s3.listChanged` for events.

use connector::http::Method;
use jiff::Timestamp;
use model::{ActionError, ErrorKind};
use value::Value;

use super::bucket::{Bucket, result};
use super::document::{etag, items, parse, text_at};
use super::input_error;
use super::spec::{MAX_ITEMS, USUAL_ITEMS};
use crate::spec::instant_of;

/// The most that a store gives in one answer.
const PAGE: usize = 1_000;
/// The objects that one call of `listChanged` gives.
const CHANGED: usize = 2_000;
/// The keys that one call of `listChanged` reads.
const MAX_READ: usize = 100_000;

/// The largest number of pages in a row without objects.
const MAX_EMPTY: usize = 100;

/// A page of a list.
struct Page {
    objects: Vec<Value>,
    prefixes: Vec<String>,
    next: Option<String>,
}

async fn page(bucket: &Bucket<'_>, most: usize, cursor: Option<&str>) -> Result<Page, ActionError> {
    let mut request = bucket.bucket_request(Method::GET);
    request.add_query("list-type", &"2".into());
    request.add_query("max-keys", &Value::from(i64::try_from(most).unwrap_or(i64::MAX)));
    for name in ["prefix", "delimiter"] {
        if !bucket.text(name).is_empty() {
            request.add_query(name, &bucket.text(name).into());
        }
    }
    if let Some(cursor) = cursor {
        request.add_query("continuation-token", &cursor.into());
    }
    let document = parse(&bucket.send(&request).await?, bucket.subject)?;
    let root = document.get("ListBucketResult").ok_or_else(|| {
        let message = format!("{} gave an answer that is no list of objects", bucket.subject);
        ActionError::new(ErrorKind::Response, message)
    })?;
    let prefixes = items(&root, "CommonPrefixes");
    let next = text_at(&root, "NextContinuationToken");
    let is_truncated = text_at(&root, "IsTruncated") == "true";
    Ok(Page {
        objects: items(&root, "Contents").iter().map(object).collect(),
        prefixes: prefixes.iter().map(|prefix| text_at(prefix, "Prefix")).collect(),
        next: (is_truncated && !next.is_empty()).then_some(next),
    })
}

fn object(entry: &Value) -> Value {
    let size: i64 = text_at(entry, "Size").parse().unwrap_or_default();
    // The fraction of a second that some stores write is always that of zero.
    let modified = text_at(entry, "LastModified");
    let modified = modified.parse::<Timestamp>().map_or(modified, |at| at.to_string());
    result([
        ("key", Value::from(text_at(entry, "Key"))),
        ("size", Value::from(size)),
        ("etag", Value::from(etag(&text_at(entry, "ETag")))),
        ("modified", Value::from(modified)),
    ])
}

/// Refuses a list that goes on without an end: a page that is the same as the one before, or [`MAX_EMPTY`] pages in a row with nothing in
/// them. Pages with objects are limited by their number.
fn check_progress(
    bucket: &Bucket<'_>,
    page: &Page,
    cursor: Option<&str>,
    empty: &mut usize,
) -> Result<(), ActionError> {
    *empty = if page.objects.is_empty() && page.prefixes.is_empty() { *empty + 1 } else { 0 };
    let is_same = page.next.is_some() && page.next.as_deref() == cursor;
    if !is_same && *empty <= MAX_EMPTY {
        return Ok(());
    }
    let problem =
        if is_same { "the same page of its list again and again" } else { "only empty pages of its list" };
    Err(ActionError::new(ErrorKind::Response, format!("{} gives {problem}", bucket.subject)))
}

/// `s3.list`.
pub(super) async fn list(bucket: &Bucket<'_>) -> Result<Value, ActionError> {
    let reads_all = bucket.flag("fetchAll");
    let most = bucket.call.inputs.get("maxItems").and_then(Value::as_i64);
    let most = most.unwrap_or(if reads_all { USUAL_ITEMS } else { 1_000 }).clamp(1, MAX_ITEMS);
    let most = usize::try_from(most).unwrap_or(PAGE);
    let (mut objects, mut prefixes) = (Vec::new(), Vec::new());
    let mut cursor = Some(bucket.text("cursor").to_owned()).filter(|cursor| !cursor.is_empty());
    let mut empty = 0;
    loop {
        let left = most - (objects.len() + prefixes.len()).min(most);
        let found = page(bucket, left.min(PAGE), cursor.as_deref()).await?;
        check_progress(bucket, &found, cursor.as_deref().filter(|_| reads_all), &mut empty)?;
        objects.extend(found.objects);
        prefixes.extend(found.prefixes.into_iter().map(Value::from));
        cursor = found.next;
        if cursor.is_none() || !reads_all || objects.len() + prefixes.len() >= most {
            break;
        }
    }
    Ok(result([
        ("results", Value::from(objects)),
        ("prefixes", Value::from(prefixes)),
        ("nextCursor", cursor.map_or(Value::Null, Value::from)),
    ]))
}

/// `s3.listChanged`.
pub(super) async fn list_changed(bucket: &Bucket<'_>) -> Result<Value, ActionError> {
    let after = instant_of(bucket.call.inputs, "after")?;
    let position = position(bucket.text("cursor"))?;
    let mut found = changed(bucket, after).await?;
    found.sort_unstable_by(|(one, a), (other, b)| (one, a.key()).cmp(&(other, b.key())));
    if bucket.flag("newest") {
        found.drain(..found.len().saturating_sub(1));
    }
    if let Some((at, key)) = &position {
        found.retain(|(modified, object)| (*modified, object.key()) > (*at, key.clone()));
    }
    let is_more = found.len() > CHANGED;
    found.truncate(CHANGED);
    let next = found.last().filter(|_| is_more).map(|(at, object)| format!("{at} {}", object.key()));
    let records = found.into_iter().map(|(at, object)| {
        let id = format!("{}~{}", object.key(), text_at(&object, "etag"));
        result([("id", Value::from(id)), ("modified", Value::from(at.to_string())), ("object", object)])
    });
    Ok(result([("results", records.collect()), ("nextCursor", next.map_or(Value::Null, Value::from))]))
}

trait Keyed {
    /// The key of a listed object.
    fn key(&self) -> String;
}

impl Keyed for Value {
    fn key(&self) -> String {
        text_at(self, "key")
    }
}

/// Reads the instant and the key of a cursor.
fn position(cursor: &str) -> Result<Option<(Timestamp, String)>, ActionError> {
    if cursor.is_empty() {
        return Ok(None);
    }
    let parts = cursor.split_once(' ').and_then(|(at, key)| Some((at.parse().ok()?, key.to_owned())));
    parts.map(Some).ok_or_else(|| input_error("`cursor` is not one that this action has given"))
}

/// The objects of the prefix that were changed at an instant or later, with the instant of their change. Their keys are in no order of
/// time, so all are read.
async fn changed(
    bucket: &Bucket<'_>,
    after: Option<Timestamp>,
) -> Result<Vec<(Timestamp, Value)>, ActionError> {
    let (mut found, mut read, mut empty) = (Vec::new(), 0, 0);
    let mut cursor: Option<String> = None;
    let is_newest = bucket.flag("newest");
    loop {
        let page = page(bucket, PAGE, cursor.as_deref()).await?;
        check_progress(bucket, &page, cursor.as_deref(), &mut empty)?;
        read += page.objects.len();
        if read > MAX_READ {
            let message = format!(
                "the bucket has more than {MAX_READ} keys with this prefix, the most that one poll reads; name a longer `prefix`"
            );
            return Err(ActionError::new(ErrorKind::Limit, message));
        }
        for object in page.objects {
            let Ok(at) = text_at(&object, "modified").parse::<Timestamp>() else { continue };
            if after.is_none_or(|after| at >= after) && object.key().ends_with(bucket.text("suffix")) {
                found.push((at, object));
            }
        }
        if is_newest && let Some(index) = newest(&found) {
            found.swap(0, index);
            found.truncate(1);
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

fn newest(found: &[(Timestamp, Value)]) -> Option<usize> {
    found.iter().enumerate().max_by_key(|(_, (at, _))| *at).map(|(index, _)| index)
}
