//! `files.read`, `files.write`, `files.list`: access to files inside the folder of the setting `filesDir`.

mod sandboxed_dir;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use catalog::FilesAction;
use jiff::Timestamp;
use model::action::{ActionError, ErrorKind};
use value::{File, JsonLimits, MAX_LOADED_BYTES, Map, Reserved, Value, mime};

use crate::run::{Exit, Frame, Run};
use sandboxed_dir::{Existing, SandboxedDir, path_components};

/// Maximum number of entries of a listing.
const MAX_ENTRIES: usize = 10_000;

impl Run {
    pub(super) async fn files_action(
        &self,
        verb: FilesAction,
        inputs: &Map,
        key: &str,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let Some(root) = self.context.settings.files_dir.clone() else {
            let message = "there is no folder of files; name one with the setting `filesDir`";
            return Err(Exit::Failed(ActionError::new(ErrorKind::Blocked, message)));
        };
        let max = self.context.settings.limits.result_bytes;
        // The bytes, their JSON, and the copy that is written.
        let bytes = inputs.get("content").map_or(0, Value::external_bytes).saturating_mul(3);
        let memory = self.reserve_to_load(bytes, key, frame).await?;
        let task = Task { verb, root, inputs: inputs.clone(), max, memory };
        // The test clock advances when no task is runnable; a blocking thread would not count as one.
        if self.context.doubles.is_some() {
            return task.run().map_err(Exit::Failed);
        }
        match tokio::task::spawn_blocking(move || task.run()).await {
            Ok(done) => done.map_err(Exit::Failed),
            Err(error) => Err(Exit::Failed(ActionError::new(ErrorKind::Internal, error.to_string()))),
        }
    }
}

/// A file operation that can run on a blocking thread.
struct Task {
    verb: FilesAction,
    root: PathBuf,
    inputs: Map,
    max: usize,
    /// For the files of the content.
    memory: Reserved,
}

impl Task {
    fn run(self) -> Result<Value, ActionError> {
        let text = |name: &str| self.inputs.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = text("path");
        let names = match (path, self.verb) {
            ("", FilesAction::List) => Vec::new(),
            (path, _) => path_components(path).map_err(|words| ActionError::new(ErrorKind::Input, words))?,
        };
        let failed = |error: io::Error| failure(path, &error);
        let root = SandboxedDir::open(&self.root).map_err(|error| {
            ActionError::new(ErrorKind::Blocked, format!("the folder of files cannot be opened: {error}"))
        })?;
        match self.verb {
            FilesAction::Read => {
                let (content, modified) = root.read(&names, self.max).map_err(failed)?;
                let size = content.len();
                let content = read_as(text("as"), path, content)?;
                Ok(map([
                    ("path", path.into()),
                    ("size", size.into()),
                    ("modifiedAt", instant(modified)),
                    ("content", content),
                ]))
            }
            FilesAction::Write => {
                let content = bytes(self.inputs.get("content").unwrap_or(&Value::Null), &self.memory)?;
                let existing = if text("ifExists") == "fail" { Existing::Keep } else { Existing::Replace };
                match root.write(&names, &content, existing) {
                    // An earlier attempt of this step may have written the same content.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        let there = root.read(&names, content.len()).map(|(there, _)| there);
                        there.ok().filter(|there| *there == content).ok_or_else(|| failed(error))?;
                    }
                    written => written.map_err(failed)?,
                }
                Ok(map([("path", path.into()), ("size", content.len().into())]))
            }
            FilesAction::List => {
                let entries = root.list(&names, MAX_ENTRIES).map_err(failed)?;
                let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
                let entry = |entry: sandboxed_dir::Entry| {
                    map([
                        ("path", format!("{prefix}{}", entry.name).into()),
                        ("name", entry.name.into()),
                        ("kind", entry.kind.into()),
                        ("size", entry.size.into()),
                        ("modifiedAt", instant(entry.modified)),
                    ])
                };
                Ok(Value::from(entries.into_iter().map(entry).collect::<Vec<_>>()))
            }
        }
    }
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::from(Map::from_iter(entries))
}

fn instant(seconds: i64) -> Value {
    Timestamp::from_second(seconds).map_or(Value::Null, |instant| Value::from(instant.to_string()))
}

fn bytes(content: &Value, memory: &Reserved) -> Result<Vec<u8>, ActionError> {
    let content = content
        .load_files(MAX_LOADED_BYTES, memory)
        .map_err(|error| ActionError::new(ErrorKind::Input, format!("`content`: {error}")))?;
    Ok(match &content {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::File(file) => file.data.for_display().to_vec(),
        other => other.to_json().into_bytes(),
    })
}

fn read_as(form: &str, path: &str, content: Vec<u8>) -> Result<Value, ActionError> {
    let wrong = |words: String| ActionError::new(ErrorKind::Response, format!("`{path}` {words}"));
    match form {
        "file" => {
            let name = path.rsplit('/').next().unwrap_or_default();
            let file = File {
                content_type: content_type(name).into(),
                filename: Some(name.into()),
                data: content.into(),
            };
            Ok(Value::File(Arc::new(file)))
        }
        "json" => {
            // In the encoding of its byte-order mark, else in UTF-8.
            let text = mime::decode_exact(&content, None);
            let text = text.ok_or_else(|| wrong("is not valid JSON: it is not UTF-8".to_owned()))?;
            Value::from_json(text.as_bytes(), JsonLimits::default())
                .map_err(|error| wrong(format!("is not valid JSON: {error}")))
        }
        _ => mime::decode_exact(&content, None)
            .map(|text| Value::from(&*text))
            .ok_or_else(|| wrong("is not UTF-8 text; `as: file` takes anything".to_owned())),
    }
}

/// Media type of a file name's extension, for the max common ones.
fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().map(str::to_ascii_lowercase).as_deref() {
        Some("txt" | "log" | "md") => "text/plain; charset=utf-8",
        Some("csv") => "text/csv",
        Some("html" | "htm") => "text/html",
        Some("json") => "application/json",
        Some("xml") => "application/xml",
        Some("pdf") => "application/pdf",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("svg") => "image/svg+xml",
        Some("zip") => "application/zip",
        _ => "application/octet-stream",
    }
}

/// Returns true if a component of the path was a link or not a folder.
fn is_link(error: &io::Error) -> bool {
    let is = |errno: rustix::io::Errno| error.raw_os_error() == Some(errno.raw_os_error());
    is(rustix::io::Errno::LOOP) || is(rustix::io::Errno::NOTDIR)
}

fn failure(path: &str, error: &io::Error) -> ActionError {
    let words = match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::AlreadyExists => "already exists with different content".to_owned(),
        io::ErrorKind::PermissionDenied => "is not accessible to the user that Cogwork runs as".to_owned(),
        _ if is_link(error) => "leads through a link or a file, and links are not followed".to_owned(),
        _ => format!("cannot be used: {error}"),
    };
    let kind = if error.kind() == io::ErrorKind::FileTooLarge { ErrorKind::Limit } else { ErrorKind::Failed };
    let shown = if path.is_empty() { "the folder of files".to_owned() } else { format!("`{path}`") };
    ActionError::new(kind, format!("{shown} {words}"))
}
