//! `multipart/form-data` (RFC 7578), read in one go: the body is already in memory.

use std::convert::Infallible;
use std::future::ready;

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use model::{File, Map, Value};
use multer::{Field, Multipart};

use super::content_type::{self, Kind};
use super::{body, fields};
use crate::Rejection;

/// The most parts of a body.
const MAX_PARTS: usize = 200;
/// The most bytes of one part's headers, names and values together.
const MAX_PART_HEADERS: usize = 16 * 1024;
/// The most bytes of a part's name.
const MAX_NAME: usize = 256;
/// The most bytes of a boundary (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// The parts of a body by name. A multipart inside a part is a file like any other.
pub(super) fn parse(body: &File) -> Result<Value, Rejection> {
    let boundary = multer::parse_boundary(&*body.content_type)
        .ok()
        .filter(|boundary| (1..=MAX_BOUNDARY).contains(&boundary.len()))
        .ok_or_else(|| bad("multipart content-type has no usable boundary"))?;
    // Every byte is there, so the parser never waits: one look at its future is its end. A body for which it would
    // still wait is one that breaks off.
    parts(body.data.clone(), boundary).now_or_never().unwrap_or_else(|| Err(broken()))
}

async fn parts(data: Bytes, boundary: String) -> Result<Value, Rejection> {
    let mut multipart = Multipart::new(stream::once(ready(Ok::<_, Infallible>(data))), boundary);
    let mut map = Map::new();
    let mut count = 0;
    while let Some(field) = multipart.next_field().await.map_err(|_| broken())? {
        count += 1;
        if count > MAX_PARTS {
            return Err(bad(format!("multipart body has more than {MAX_PARTS} parts")));
        }
        let (name, value) = part(field).await?;
        fields::add(&mut map, &name, value);
    }
    Ok(Value::from(map))
}

async fn part(mut field: Field<'_>) -> Result<(String, Value), Rejection> {
    let headers: usize = field.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers > MAX_PART_HEADERS {
        return Err(bad(format!(
            "multipart body has a part with more than {MAX_PART_HEADERS} bytes of headers"
        )));
    }
    let name = field.name().unwrap_or_default().to_owned();
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(bad(format!("multipart body has a part whose name is not 1 to {MAX_NAME} bytes long")));
    }
    let filename = field.file_name().map(str::to_owned);
    let content_type = field.headers().get(http::header::CONTENT_TYPE);
    let content_type = content_type.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned());
    let content_type = content_type.filter(|sent| !sent.is_empty());
    let mut chunks = Vec::with_capacity(1);
    while let Some(chunk) = field.chunk().await.map_err(|_| broken())? {
        chunks.push(chunk);
    }
    // The parser has the whole body, so a part is one chunk of it, not copied.
    let data = if chunks.len() == 1 { chunks.remove(0) } else { Bytes::from(chunks.concat()) };
    let value = value(&name, filename, content_type, data)?;
    Ok((name, value))
}

/// A part as steps read it: JSON and plain fields as `{data, contentType}`, all else as a file.
fn value(
    name: &str,
    filename: Option<String>,
    content_type: Option<String>,
    data: Bytes,
) -> Result<Value, Rejection> {
    let kind = content_type.as_deref().map_or(Kind::Unknown, content_type::kind);
    let parsed = match (kind, &filename) {
        (Kind::Json, _) => Some(body::json(&data, &format!("part `{name}`"))?),
        (Kind::Text, None) => {
            Some(Value::from(content_type::decode(&data, content_type.as_deref().unwrap_or_default())))
        }
        (Kind::Unknown, None) => Some(Value::from(content_type::decode(&data, ""))),
        _ => None,
    };
    let Some(parsed) = parsed else {
        let content_type = content_type.as_deref().unwrap_or(content_type::UNKNOWN).into();
        return Ok(Value::from(File { content_type, filename: filename.map(Into::into), data }));
    };
    let mut map = Map::with_capacity(3);
    map.insert("data", parsed);
    map.insert("contentType", content_type.unwrap_or_else(|| "text/plain".into()));
    if let Some(filename) = filename {
        map.insert("filename", filename);
    }
    Ok(Value::from(map))
}

fn broken() -> Rejection {
    bad("request body is not valid multipart/form-data")
}

fn bad(message: impl Into<String>) -> Rejection {
    Rejection::bad_request("bad_multipart", message)
}
