//! The specifications of the actions: inputs, results, effects.

use model::action::ResultField;
use model::{ActionSpec, Effect, InputSpec, InputType, ResultType};

use crate::spec::{defaulted, object, optional, required};

fn path(about: &str) -> InputSpec {
    required("path", InputType::Text, about)
}

fn field(name: &str, kind: ResultType, about: &str) -> ResultField {
    ResultField::new(name, kind).with_description(about)
}

fn known() -> Vec<ResultField> {
    vec![
        field("path", ResultType::Text, "The path."),
        field("name", ResultType::Text, "The last part of the path."),
        field("kind", ResultType::Text, "`file`, `folder`, `link` or `other`."),
        field("size", ResultType::Integer, "The number of bytes."),
        field("modified", ResultType::Text.or_null(), "The instant of the last change, in whole seconds."),
    ]
}

fn selection() -> Vec<InputSpec> {
    vec![
        path("The folder; `.` is that of the account."),
        optional(
            "match",
            InputType::Text,
            "The names to take: `*` stands for any text, `?` for one character.",
        ),
        defaulted(
            "recursive",
            InputType::Boolean,
            false,
            "True to read the folders in it too; links are not followed.",
        ),
    ]
}

/// `sftp.list`.
pub(super) fn list(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "List files".to_owned(),
        description: Some("Lists up to 10,000 files and folders by their paths.".to_owned()),
        effect: Effect::Read,
        inputs: selection(),
        result: Some("`{results: [{path, name, kind, size, modified}]}`".to_owned()),
        results: object([field("results", ResultType::list(object(known())), "The files and folders.")]),
        ..spec
    }
}

/// `sftp.listArrived`.
pub(super) fn list_arrived(spec: ActionSpec) -> ActionSpec {
    let record =
        ResultType::object([("id", ResultType::Text), ("at", ResultType::Text), ("file", object(known()))]);
    let settle = "The time for which size and time of a file must stay the same; at most 1d.";
    let own = [
        defaulted("settle", InputType::Text, "30s", settle),
        optional("after", InputType::Text, "For the event."),
        defaulted("newest", InputType::Boolean, false, "For the event."),
        optional("trigger", InputType::Text, "For the event."),
    ];
    ActionSpec {
        title: "List files that have arrived".to_owned(),
        description: Some(
            "Gives the files that have stayed the same since an earlier call. The event `sftp.fileArrived` is made of it.".to_owned(),
        ),
        effect: Effect::Read,
        inputs: selection().into_iter().chain(own).collect(),
        result: Some("`{results: [{id, at, file}]}`".to_owned()),
        results: ResultType::object([("results", ResultType::list(record))]),
        ..spec
    }
}

/// `sftp.stat`.
pub(super) fn stat(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Read what is known of a file".to_owned(),
        description: None,
        effect: Effect::Read,
        inputs: vec![path("The file or folder; a link is followed.")],
        result: Some("`{path, name, kind, size, modified}`".to_owned()),
        results: object(known()),
        ..spec
    }
}

/// `sftp.get`.
pub(super) fn get(spec: ActionSpec) -> ActionSpec {
    let file = field("file", ResultType::File, "The file.");
    ActionSpec {
        title: "Read a file".to_owned(),
        description: Some("Writes the file to disk while it arrives.".to_owned()),
        effect: Effect::Read,
        inputs: vec![path("The file.")],
        result: Some("`{file, path, name, kind, size, modified}`".to_owned()),
        results: object([file].into_iter().chain(known())),
        ..spec
    }
}

/// `sftp.put`.
pub(super) fn put(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Write a file".to_owned(),
        description: Some(
            "Writes a text or a file under another name, and gives it its own when it is complete."
                .to_owned(),
        ),
        inputs: vec![
            path("The file; its folder must exist."),
            required("content", InputType::Any, "A text or a file."),
            defaulted(
                "replace",
                InputType::Boolean,
                true,
                "False if a file that exists is an error, unless it has the same content.",
            ),
        ],
        result: Some("`{path, size, repeated}`".to_owned()),
        results: object([
            field("path", ResultType::Text, "The path."),
            field("size", ResultType::Integer, "The number of bytes."),
            field(
                "repeated",
                ResultType::Boolean,
                "True if the file was there already, with the same content.",
            ),
        ]),
        ..spec
    }
}

/// `sftp.move`.
pub(super) fn rename(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Move or rename a file".to_owned(),
        description: None,
        inputs: vec![
            required("from", InputType::Text, "The file or folder."),
            required("to", InputType::Text, "Its new path; the folder must exist."),
            defaulted("replace", InputType::Boolean, false, "True to replace a file that exists."),
        ],
        result: Some("`{path, repeated}`".to_owned()),
        results: object([
            field("path", ResultType::Text, "The new path."),
            field("repeated", ResultType::Boolean, "True if an earlier attempt of the step has moved it."),
        ]),
        ..spec
    }
}

/// `sftp.delete`.
pub(super) fn delete(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Delete a file".to_owned(),
        description: Some(
            "Deletes a file, or a folder that is empty. What does not exist is no error.".to_owned(),
        ),
        inputs: vec![path("The file or folder.")],
        result: Some("`{deleted}`".to_owned()),
        results: object([field("deleted", ResultType::Boolean, "False if there was nothing.")]),
        ..spec
    }
}

/// `sftp.makeFolder`.
pub(super) fn make_folder(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Make a folder".to_owned(),
        description: Some(
            "Makes a folder, and the folders above it. One that exists is no error.".to_owned(),
        ),
        inputs: vec![path("The folder.")],
        result: Some("`{path, created}`".to_owned()),
        results: object([
            field("path", ResultType::Text, "The path."),
            field("created", ResultType::Boolean, "False if it existed."),
        ]),
        ..spec
    }
}
