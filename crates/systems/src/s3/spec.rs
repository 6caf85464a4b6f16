//! The specifications of the actions: inputs, results, effects.

use model::action::ResultField;
use model::{ActionSpec, Effect, InputSpec, InputType, ResultType};

use crate::spec::{choice, defaulted, object, optional, required};

/// The largest number of keys that one call deletes.
pub(super) const MAX_KEYS: usize = 1_000;
/// The largest number of objects in a result.
pub(super) const MAX_ITEMS: i64 = 100_000;
/// The number of objects in a result with `fetchAll` and without `maxItems`.
pub(super) const USUAL_ITEMS: i64 = 10_000;

fn key() -> InputSpec {
    required("key", InputType::Text, "The key of the object: `invoices/2026/17.pdf`.")
}

fn prefix() -> InputSpec {
    optional("prefix", InputType::Text, "The begin of the keys.")
}

fn text_list() -> InputType {
    InputType::List { items: Box::new(InputType::Text) }
}

fn field(name: &str, kind: ResultType, about: &str) -> ResultField {
    ResultField::new(name, kind).with_description(about)
}

fn selected() -> Vec<InputSpec> {
    vec![
        key(),
        optional(
            "version",
            InputType::Text,
            "The version, in a bucket that keeps several; the latest if not given.",
        ),
        optional(
            "range",
            InputType::Text,
            "The bytes to read, counted from 0: `0-99`, `100-`, or `-100` for the last.",
        ),
        optional(
            "ifNoneMatch",
            InputType::Text,
            "The ETag that is known; while it is current, there is no `file` and `notModified` is true.",
        ),
    ]
}

fn described(with_file: bool) -> ResultType {
    let file = field("file", ResultType::File.or_null(), "The object; null if it was not modified.");
    let fields = vec![
        field("key", ResultType::Text, "The key."),
        field("size", ResultType::Integer, "The number of bytes; with `range`, those that were read."),
        field("etag", ResultType::Text, "The mark of the content, which changes with it."),
        field("version", ResultType::Text.or_null(), "The version; null in a bucket that keeps one."),
        field("modified", ResultType::Text.or_null(), "The instant of the last change."),
        field("contentType", ResultType::Text.or_null(), "The media type."),
        field("metadata", ResultType::map(ResultType::Text), "The texts that were stored with the object."),
        field("notModified", ResultType::Boolean, "True if the ETag is that of `ifNoneMatch`."),
    ];
    object(with_file.then_some(file).into_iter().chain(fields))
}

/// `s3.get`.
pub(super) fn get(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Read an object".to_owned(),
        description: Some("Writes the object to a file while it arrives.".to_owned()),
        effect: Effect::Read,
        inputs: selected(),
        result: Some(
            "`{file, key, size, etag, version, modified, contentType, metadata, notModified}`".to_owned(),
        ),
        results: described(true),
        ..spec
    }
}

/// `s3.head`.
pub(super) fn head(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Read what is known of an object".to_owned(),
        description: None,
        effect: Effect::Read,
        inputs: selected(),
        result: Some("`{key, size, etag, version, modified, contentType, metadata, notModified}`".to_owned()),
        results: described(false),
        ..spec
    }
}

/// `s3.put`.
pub(super) fn put(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Write an object".to_owned(),
        description: Some(
            "Writes a text or a file. A file above 16 MiB is sent in parts, read from disk; the object appears when all have arrived.".to_owned(),
        ),
        inputs: vec![
            key(),
            required("content", InputType::Any, "A text or a file."),
            optional("contentType", InputType::Text, "The media type; that of the file if not given."),
            optional("metadata", InputType::Map { values: Box::new(InputType::Text) }, "Texts to store with the object, by name."),
            defaulted("create", InputType::Boolean, false, "True if the object must not exist; a repeated attempt of the step is no error."),
        ],
        result: Some("`{key, etag, version, size, repeated}`".to_owned()),
        results: object([
            field("key", ResultType::Text, "The key."),
            field("etag", ResultType::Text, "The mark of the content."),
            field("version", ResultType::Text.or_null(), "The version; null in a bucket that keeps one."),
            field("size", ResultType::Integer, "The number of bytes."),
            field("repeated", ResultType::Boolean, "True if an earlier attempt of the step had created it."),
        ]),
        ..spec
    }
}

fn listed() -> ResultType {
    object([
        field("key", ResultType::Text, "The key."),
        field("size", ResultType::Integer, "The number of bytes."),
        field("etag", ResultType::Text, "The mark of the content."),
        field("modified", ResultType::Text, "The instant of the last change."),
    ])
}

/// `s3.list`.
pub(super) fn list(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "List objects".to_owned(),
        description: Some("Lists objects in the order of their keys.".to_owned()),
        effect: Effect::Read,
        inputs: vec![
            prefix(),
            optional(
                "delimiter",
                InputType::Text,
                "A text such as `/`: keys that have it behind the prefix are put together in `prefixes`.",
            ),
            optional("cursor", InputType::Text, "The `nextCursor` of the page before."),
            defaulted("fetchAll", InputType::Boolean, false, "True to read all pages."),
            optional(
                "maxItems",
                InputType::Integer { min: Some(1), max: Some(MAX_ITEMS) },
                "The largest number of objects and prefixes: 1,000, which is also the most of a page, and with `fetchAll` 10,000 if not given.",
            ),
        ],
        result: Some("`{results: [{key, size, etag, modified}], prefixes, nextCursor}`".to_owned()),
        results: object([
            field("results", ResultType::list(listed()), "The objects."),
            field("prefixes", ResultType::list(ResultType::Text), "The begins of keys up to the delimiter."),
            field("nextCursor", ResultType::Text.or_null(), "The position behind the last; null at the end."),
        ]),
        ..spec
    }
}

/// `s3.listChanged`.
pub(super) fn list_changed(spec: ActionSpec) -> ActionSpec {
    let record =
        ResultType::object([("id", ResultType::Text), ("modified", ResultType::Text), ("object", listed())]);
    ActionSpec {
        title: "List objects by the time of their last change".to_owned(),
        description: Some(
            "Reads up to 100,000 keys, and gives the objects oldest first. The event `s3.objectChanged` is made of it.".to_owned(),
        ),
        effect: Effect::Read,
        inputs: vec![
            prefix(),
            optional("suffix", InputType::Text, "The end of the keys: `.pdf`."),
            optional("overlap", InputType::Text, "How late an object may become visible, such as `2m`; for the event."),
            optional("after", InputType::Text, "The instant from which objects are given."),
            defaulted("newest", InputType::Boolean, false, "True to give only the newest object."),
            optional("cursor", InputType::Text, "The `nextCursor` of the page before."),
        ],
        result: Some("`{results: [{id, modified, object}], nextCursor}`".to_owned()),
        results: ResultType::object([
            ("results", ResultType::list(record)),
            ("nextCursor", ResultType::Text.or_null()),
        ]),
        ..spec
    }
}

/// `s3.delete`.
pub(super) fn delete(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Delete objects".to_owned(),
        description: Some(
            "Deletes one object or up to 1,000. One that does not exist is no error.".to_owned(),
        ),
        inputs: vec![
            optional("key", InputType::Text, "The key of one object."),
            optional("keys", text_list(), "The keys of up to 1,000 objects."),
        ],
        result: Some("`{deleted}`, the number of keys".to_owned()),
        results: object([field("deleted", ResultType::Integer, "The number of keys that exist no longer.")]),
        ..spec
    }
}

/// `s3.copy`.
pub(super) fn copy(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Copy an object".to_owned(),
        description: Some(
            "Copies an object of up to 5 GB within the bucket; the store moves the bytes.".to_owned(),
        ),
        inputs: vec![
            required("from", InputType::Text, "The key of the object."),
            required("to", InputType::Text, "The key of the copy."),
        ],
        result: Some("`{key, etag}` of the copy".to_owned()),
        results: object([
            field("key", ResultType::Text, "The key of the copy."),
            field("etag", ResultType::Text, "The mark of the content."),
        ]),
        ..spec
    }
}

/// `s3.presign`.
pub(super) fn presign(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Make an address for others".to_owned(),
        description: Some(
            "Makes an address with which anybody may read or write one object for a time. It is as good as a password: give it only to whom it is for.".to_owned(),
        ),
        effect: Effect::Read,
        inputs: vec![
            key(),
            defaulted("method", choice(&["GET", "PUT"]), "GET", "GET to read the object, PUT to write it."),
            defaulted("expires", InputType::Text, "1h", "The time for which the address is good; at most 7d."),
        ],
        result: Some("`{url, expiresAt}`".to_owned()),
        results: object([
            field("url", ResultType::Text, "The address."),
            field("expiresAt", ResultType::Text, "The instant at which it ends."),
        ]),
        ..spec
    }
}
