//! Encoding of `multipart/form-data` (RFC 7578), with names as browsers write them: UTF-8, with the three characters
//! that could end a name percent-encoded. `filename*`, which HTTP clients tend to write, is forbidden by the RFC and
//! unknown to many servers.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use model::value::{Data, FileLoadError, MAX_LOADED_BYTES, encode_json};
use model::{ActionError, File, Value};

use super::request::check_files;

/// One part of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The name of the field.
    pub name: String,
    /// The file name; `None` for a plain field.
    pub file_name: Option<String>,
    /// The media type; `None` for plain text.
    pub content_type: Option<String>,
    /// The content. A file outside of memory is read while it is sent.
    pub data: Data,
    /// A value with external files whose JSON becomes the content before it is sent.
    pub(super) json: Option<Value>,
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
                let json = value.has_external_file().then(|| value.clone());
                check_files(value.external_bytes())?;
                let data = if json.is_some() { Data::default() } else { value.to_json().into() };
                let content_type = Some("application/json".to_owned());
                Self { name, file_name: None, content_type, data, json }
            }
            plain => {
                Self { name, file_name: None, content_type: None, data: plain.to_text().into(), json: None }
            }
        })
    }

    /// Makes the content of a value with external files. Reads the files, which blocks.
    pub(super) fn encode(mut self) -> Result<Self, FileLoadError> {
        if let Some(value) = self.json.take() {
            self.data = encode_json(&value, MAX_LOADED_BYTES)?;
        }
        Ok(self)
    }

    /// Converts a file to a part. Its file name is the given one, else that of the file, else the name of the field.
    #[must_use]
    pub fn file(name: String, file: &Arc<File>, file_name: Option<&str>) -> Self {
        let own = file_name.or(file.filename.as_deref()).unwrap_or(&name).to_owned();
        let content_type = Some(file.content_type.to_string());
        Self { name, file_name: Some(own), content_type, data: file.data.clone(), json: None }
    }
}

/// Returns an unpredictable boundary, so that no content can end its part.
pub(super) fn boundary() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("cogwork-{:016x}{:016x}", random(), random())
}

/// Encodes the parts as a sequence of body parts: content in memory is joined, files stay outside.
pub(super) fn encode(parts: &[Part], boundary: &str) -> Vec<Data> {
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
        match part.data.in_memory() {
            Some(bytes) => body.extend_from_slice(bytes),
            None => segments.extend([std::mem::take(&mut body).into(), part.data.clone()]),
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
    fn a_name_cannot_end_its_header() {
        let file = Arc::new(File {
            content_type: "text/plain\r\nX-Evil: 1".into(),
            filename: Some("ö \"b\"\r\nX-Evil: 1".into()),
            data: "hello".into(),
        });
        let field = Part::from_value("a\"\r\n", &Value::from(5_i64)).expect("a part");
        let parts = [field, Part::file("file".to_owned(), &file, None)];
        assert_eq!(
            String::from_utf8_lossy(&encode(&parts, "b")[0].for_display()),
            "--b\r\nContent-Disposition: form-data; name=\"a%22%0D%0A\"\r\n\r\n5\r\n\
             --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"ö %22b%22%0D%0AX-Evil: 1\"\r\n\
             Content-Type: text/plainX-Evil: 1\r\n\r\nhello\r\n--b--\r\n"
        );
    }

    #[test]
    fn every_boundary_is_new() {
        assert_ne!(boundary(), boundary());
    }

    #[test]
    fn a_file_is_named_by_the_author_or_itself_or_its_field() {
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
