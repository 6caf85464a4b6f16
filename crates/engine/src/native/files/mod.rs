//! `files.read`, `files.write`, `files.list`: files inside the one folder that the setting `filesDir` names.

mod beneath;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use model::action::{ActionError, ActionSpec, Effect, ErrorKind, InputSpec, InputType, ResultType};
use model::value::{File, JsonLimits, MAX_LOADED_BYTES, Map, Value};

use super::{input, spec};
use crate::run::{Exit, Run};
use beneath::{Existing, Root, names};

/// The most entries of a list.
const MAX_ENTRIES: usize = 10_000;

/// What a file action does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Write,
    List,
}

impl Verb {
    pub(super) fn find(name: &str) -> Option<Self> {
        match name {
            "read" => Some(Self::Read),
            "write" => Some(Self::Write),
            "list" => Some(Self::List),
            _ => None,
        }
    }
}

pub(super) fn specs() -> Vec<ActionSpec> {
    vec![read_spec(), write_spec(), list_spec()]
}

fn path(required: bool, about: &str) -> InputSpec {
    input("path", InputType::Text, required, about)
}

fn choice(name: &str, words: &[&str], about: &str) -> InputSpec {
    let options = words.iter().map(|word| (*word).to_owned()).collect();
    let mut choice = input(name, InputType::Choice { options }, false, about);
    choice.default = words.first().map(|word| Value::from(*word));
    choice
}

fn read_spec() -> ActionSpec {
    let inputs = vec![
        path(true, "The file, inside the folder of files: `reports/today.csv`"),
        choice("as", &["text", "json", "file"], "How to parse the content; `file` accepts any content"),
    ];
    let results = ResultType::object([
        ("path", ResultType::Text),
        ("size", ResultType::Integer),
        ("modifiedAt", ResultType::Text),
        ("content", ResultType::Any),
    ]);
    let example = Map::from_iter([("path", "reports/today.csv")]);
    let gives = ("`{path, size, modifiedAt, content}`, the content as text, JSON or a file", results);
    spec("files.read", "Read a file", Effect::Read, inputs, gives, example)
}

fn write_spec() -> ActionSpec {
    let inputs = vec![
        path(true, "The file, inside the folder of files; missing folders are created"),
        input(
            "content",
            InputType::Any,
            true,
            "The content: text or a file unchanged, anything else as JSON",
        ),
        choice("ifExists", &["replace", "fail"], "What to do if the file exists with another content"),
    ];
    let results = ResultType::object([("path", ResultType::Text), ("size", ResultType::Integer)]);
    let example = Map::from_iter([("path", "reports/today.csv"), ("content", "id,quantity\n17,2\n")]);
    let mut write =
        spec("files.write", "Write a file", Effect::Write, inputs, ("`{path, size}`", results), example);
    write.description = Some(
        "The file is written completely or not at all, and is durable when the step has finished. A repetition after a crash writes the same file."
            .to_owned(),
    );
    write
}

fn list_spec() -> ActionSpec {
    let inputs = vec![path(false, "The folder, inside the folder of files; default: that folder itself")];
    let entry = ResultType::object([
        ("name", ResultType::Text),
        ("path", ResultType::Text),
        ("kind", ResultType::Text),
        ("size", ResultType::Integer),
        ("modifiedAt", ResultType::Text),
    ]);
    let example = Map::from_iter([("path", "reports")]);
    let gives = (
        "the entries by name, each `{name, path, kind, size, modifiedAt}`; the kind is `file`, `folder` or `other`",
        ResultType::list(entry),
    );
    spec("files.list", "List a folder", Effect::Read, inputs, gives, example)
}

impl Run {
    pub(super) async fn files_action(&self, verb: Verb, inputs: &Map) -> Result<Value, Exit> {
        let Some(root) = self.services.settings.files_dir.clone() else {
            let message = "there is no folder of files; name one with the setting `filesDir`";
            return Err(Exit::Failed(ActionError::new(ErrorKind::Blocked, message)));
        };
        let most = self.services.settings.limits.result_bytes;
        let task = Task { verb, root, inputs: inputs.clone(), most };
        // In a test the clock moves on when nothing is under way here, and a thread elsewhere would not count.
        if self.services.doubles.is_some() {
            return task.run().map_err(Exit::Failed);
        }
        match tokio::task::spawn_blocking(move || task.run()).await {
            Ok(done) => done.map_err(Exit::Failed),
            Err(error) => Err(Exit::Failed(ActionError::new(ErrorKind::Internal, error.to_string()))),
        }
    }
}

/// One action, ready to be done where it may wait for the disk.
struct Task {
    verb: Verb,
    root: PathBuf,
    inputs: Map,
    most: usize,
}

impl Task {
    fn run(self) -> Result<Value, ActionError> {
        let text = |name: &str| self.inputs.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = text("path");
        let names = match (path, self.verb) {
            ("", Verb::List) => Vec::new(),
            (path, _) => names(path).map_err(|words| ActionError::new(ErrorKind::Input, words))?,
        };
        let failed = |error: io::Error| failure(path, &error);
        let root = Root::open(&self.root).map_err(|error| {
            ActionError::new(ErrorKind::Blocked, format!("the folder of files cannot be opened: {error}"))
        })?;
        match self.verb {
            Verb::Read => {
                let (content, modified) = root.read(&names, self.most).map_err(failed)?;
                let size = content.len();
                let content = read_as(text("as"), path, content)?;
                Ok(map([
                    ("path", path.into()),
                    ("size", size.into()),
                    ("modifiedAt", instant(modified)),
                    ("content", content),
                ]))
            }
            Verb::Write => {
                let content = bytes(self.inputs.get("content").unwrap_or(&Value::Null))?;
                let existing = if text("ifExists") == "fail" { Existing::Keep } else { Existing::Replace };
                match root.write(&names, &content, existing) {
                    // What an earlier try of this step has written is what was to be written.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        let there = root.read(&names, content.len()).map(|(there, _)| there);
                        there.ok().filter(|there| *there == content).ok_or_else(|| failed(error))?;
                    }
                    written => written.map_err(failed)?,
                }
                Ok(map([("path", path.into()), ("size", content.len().into())]))
            }
            Verb::List => {
                let entries = root.list(&names, MAX_ENTRIES).map_err(failed)?;
                let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
                let entry = |entry: beneath::Entry| {
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

fn bytes(content: &Value) -> Result<Vec<u8>, ActionError> {
    let content = content
        .load_files(MAX_LOADED_BYTES)
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
        "json" => Value::from_json(&content, JsonLimits::default())
            .map_err(|error| wrong(format!("is not JSON that can be read: {error}"))),
        _ => String::from_utf8(content)
            .map(Value::from)
            .map_err(|_| wrong("is not UTF-8 text; `as: file` takes anything".to_owned())),
    }
}

/// The media type that the end of a name stands for, of those that are met most.
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

/// Whether something on the way was a link, or no folder.
fn is_link(error: &io::Error) -> bool {
    let is = |errno: rustix::io::Errno| error.raw_os_error() == Some(errno.raw_os_error());
    is(rustix::io::Errno::LOOP) || is(rustix::io::Errno::NOTDIR)
}

fn failure(path: &str, error: &io::Error) -> ActionError {
    let words = match error.kind() {
        io::ErrorKind::NotFound => "is not there".to_owned(),
        io::ErrorKind::AlreadyExists => "is there already, with another content".to_owned(),
        io::ErrorKind::PermissionDenied => "may not be touched by the user that Cogwork runs as".to_owned(),
        _ if is_link(error) => {
            "leads over a link or a file that is no folder; neither is followed".to_owned()
        }
        _ => format!("cannot be used: {error}"),
    };
    let kind = if error.kind() == io::ErrorKind::FileTooLarge { ErrorKind::Limit } else { ErrorKind::Failed };
    let shown = if path.is_empty() { "the folder of files".to_owned() } else { format!("`{path}`") };
    ActionError::new(kind, format!("{shown} {words}"))
}
