//! The `file` function, which creates files.

use std::borrow::Cow;
use std::sync::Arc;

use value::{Data, File, Value};

use super::arguments::{Arguments, shorten};
use super::encoding::decode_base64;

const TEXT: &str = "text/plain; charset=utf-8";
const BYTES: &str = "application/octet-stream";
/// The longest file name that common file systems support, in bytes.
const MAX_NAME: usize = 255;
const MAX_TYPE: usize = 255;

/// `file(data, filename=, contentType=, encoding=)`.
pub(super) fn file(arguments: &Arguments<'_>) -> Result<Value, String> {
    let encoded = arguments.word("encoding", &["none", "base64"])? == "base64";
    let given = arguments.value("data").as_file();
    let (data, otherwise) = match given {
        _ if encoded => (Data::from(decode_base64(&arguments.document("data")?)?), BYTES),
        Some(file) => (file.data.clone(), file.content_type.as_ref()),
        None => {
            let bytes = match arguments.bytes("data")? {
                Cow::Borrowed(bytes) => Data::from(bytes.to_vec()),
                Cow::Owned(bytes) => Data::from(bytes),
            };
            (bytes, TEXT)
        }
    };
    let content_type = arguments.text("contentType")?.unwrap_or(otherwise);
    if !is_content_type(content_type) {
        return Err(format!(
            "`contentType` is `{}`; it is one such as `text/csv` or `application/pdf`",
            shorten(content_type)
        ));
    }
    let filename: Option<Arc<str>> = match arguments.text("filename")? {
        Some(name) if name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control) => {
            return Err(format!(
                "`filename` is `{}`; it has 1 to {MAX_NAME} bytes and no control characters",
                shorten(name)
            ));
        }
        Some(name) => Some(name.into()),
        None => given.and_then(|file| file.filename.clone()),
    };
    Ok(Value::from(File { content_type: content_type.into(), filename, data }))
}

/// True if a text is `type/subtype` with optional parameters after a `;`, and valid in a header (RFC 9110, 8.3.1).
fn is_content_type(text: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let parts = essence.trim_end().split_once('/');
    text.len() <= MAX_TYPE
        && parts.is_some_and(|(kind, subtype)| token(kind) && token(subtype))
        && parameters.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}
