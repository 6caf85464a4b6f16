//! Encoding of `multipart/form-data` (RFC 7578), with names as browsers write them: UTF-8, with the three characters
//! that could end a name percent-encoded. `filename*`, which HTTP clients tend to write, is forbidden by the RFC and
//! unknown to many servers.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use model::ActionError;
use value::{Data, File, Value};

use super::request::{Content, check_files};

/// One part of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Part<C = Content> {
    /// The name of the field.
    pub name: String,
    /// The file name; `None` for a plain field.
    pub file_name: Option<String>,
    /// The media type; `None` for plain text.
    pub content_type: Option<String>,
    /// The content. A file outside of memory is read while it is sent.
    pub content: C,
}

impl<C> Part<C> {
    /// Returns the part with another content.
    pub(super) fn with_content<D>(&self, content: D) -> Part<D> {
        let Self { name, file_name, content_type, .. } = self;
        Part { name: name.clone(), file_name: file_name.clone(), content_type: content_type.clone(), content }
    }
}

impl Part {
    /// Converts a value to a part: a file with its name and type, a list or map as JSON, any other value as text.
    ///
    /// # Errors
    /// Returns an error if the JSON would contain a file that is too large.
    pub fn from_value(name: &str, value: &Value) -> Result<Self, ActionError> {
        let name = name.to_owned();
        Ok(match value {
            Value::File(file) => Self::file(name, file, None),
            Value::List(_) | Value::Map(_) => {
                check_files(value.external_bytes())?;
                let content = match value.has_external_file() {
                    true => Content::Json(value.clone()),
                    false => Content::Bytes(value.to_json().into()),
                };
                Self { name, file_name: None, content_type: Some("application/json".to_owned()), content }
            }
            plain => {
                let content = Content::Bytes(plain.to_text().into());
                Self { name, file_name: None, content_type: None, content }
            }
        })
    }

    /// Converts a file to a part. Its file name is the given one, else that of the file, else the name of the field.
    #[must_use]
    pub fn file(name: String, file: &Arc<File>, file_name: Option<&str>) -> Self {
        let own = file_name.or(file.filename.as_deref()).unwrap_or(&name).to_owned();
        let content_type = Some(file.content_type.to_string());
        Self { name, file_name: Some(own), content_type, content: Content::Bytes(file.data.clone()) }
    }
}

/// Returns an unpredictable boundary, so that no content can end its part.
pub(super) fn boundary() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("cogwork-{:016x}{:016x}", random(), random())
}

/// Encodes the parts as a sequence of body parts: content in memory is joined, files stay outside.
pub(super) fn encode(parts: &[Part<Data>], boundary: &str) -> Vec<Data> {
    let (mut segments, mut body) = (Vec::new(), Vec::new());
    for part in parts {
        let mut head =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(&part.name));
        if let Some(name) = &part.file_name {
            head.push_str(&format!("; filename=\"{}\"", quoted(name)));
        }
        if let Some(content_type) = &part.content_type {
            let plain: String = content_type.chars().filter(|c| !c.is_control()).collect();
            head.push_str(&format!("\r\nContent-Type: {plain}"));
        }
        head.push_str("\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        match part.content.in_memory() {
            Some(bytes) => body.extend_from_slice(bytes),
            None => segments.extend([std::mem::take(&mut body).into(), part.content.clone()]),
        }
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    segments.push(body.into());
    segments
}

/// Quotes a name as the WHATWG form encoding defines it.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_multipart_name_cannot_inject_a_header() {
        let file = Arc::new(File {
            content_type: "text/plain\r\nX-Evil: 1".into(),
            filename: Some("ö \"b\"\r\nX-Evil: 1".into()),
            data: "hello".into(),
        });
        let field = Part::from_value("a\"\r\n", &Value::from(5_i64)).expect("a part");
        let parts = [field, Part::file("file".to_owned(), &file, None)].map(|part| match &part.content {
            Content::Bytes(data) => part.with_content(data.clone()),
            other => panic!("{other:?} has no file"),
        });
        assert_eq!(
            String::from_utf8_lossy(&encode(&parts, "b")[0].for_display()),
            "--b\r\nContent-Disposition: form-data; name=\"a%22%0D%0A\"\r\n\r\n5\r\n\
             --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"ö %22b%22%0D%0AX-Evil: 1\"\r\n\
             Content-Type: text/plainX-Evil: 1\r\n\r\nhello\r\n--b--\r\n"
        );
    }

    #[test]
    fn every_multipart_boundary_is_unique() {
        assert_ne!(boundary(), boundary());
    }

    #[test]
    fn a_file_name_comes_from_the_author_then_the_file_then_the_field() {
        let file = |filename: Option<&str>| {
            Arc::new(File {
                content_type: "a/b".into(),
                filename: filename.map(Into::into),
                data: Data::default(),
            })
        };
        let name = |file: &Arc<File>, given| Part::file("field".to_owned(), file, given).file_name;
        assert_eq!(name(&file(Some("own")), Some("given")).as_deref(), Some("given"));
        assert_eq!(name(&file(Some("own")), None).as_deref(), Some("own"));
        assert_eq!(name(&file(None), None).as_deref(), Some("field"));
    }
}
