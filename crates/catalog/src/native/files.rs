//! The descriptions of `files.*`: files inside the one folder that the setting `filesDir` names.

use connector::InputProblem;
use model::action::{ActionSpec, Effect, InputSpec, InputType, ResultType};
use value::{Map, Value};

use super::{input, spec};

/// The actions of `files.*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesAction {
    /// Reads a file.
    Read,
    /// Writes a file.
    Write,
    /// Lists a folder.
    List,
}

impl FilesAction {
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

/// Returns the problem of a path, or of its literal beginning, that leads out of the folder of files.
pub(super) fn path_problem(path: &str) -> Option<InputProblem> {
    let message = match path {
        _ if path.starts_with('/') => "it begins with `/`, but it is a path inside the folder of files",
        _ if path.split('/').any(|name| name == "..") => {
            "it holds `..`, but nothing outside the folder of files can be reached"
        }
        _ if path.contains('\\') => "it holds a `\\`; folders are separated by `/`",
        _ => return None,
    };
    Some(InputProblem::new(
        "path",
        message,
        "write it like `reports/today.csv`; the setting `filesDir` names the folder",
    ))
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
