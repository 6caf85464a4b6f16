//! Import of OpenAPI documents (2.0, 3.0, 3.1) as manifests that a person can then trim.
//!
//! The normal reader checks the generated manifest, and the interpreter generates the examples, so that they match
//! the actions. The notes report each part that a manifest cannot express.

mod document;
mod operation;
mod sample;
mod schema;
mod security;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use text::diagnostic::Source;

use crate::manifest;
use crate::registry::{NATIVES, builtin_names, is_reserved};
pub(crate) use document::Document;
use document::{camel, one_line};
use operation::Operations;

/// The methods that a manifest supports.
const METHODS: [&str; 7] = ["get", "head", "options", "post", "put", "patch", "delete"];

/// The selection of operations, and the name of the connector.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The connector's name; derived from the title if `None`.
    pub name: Option<String>,
    /// Selects operations with one of these tags; all if empty.
    pub tags: Vec<String>,
    /// Selects operations by action name or `operationId`; all if empty.
    pub operations: Vec<String>,
}

/// A generated manifest.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The connector's name.
    pub name: String,
    /// The manifest, ready to be written as YAML.
    pub manifest: Value,
    /// The number of its actions.
    pub actions: usize,
    /// The parts that were left out, with reasons.
    pub notes: Vec<String>,
}

/// Generates a manifest from an OpenAPI document.
///
/// # Errors
/// Returns a message for people if the document is not OpenAPI, if no operation is selected, or if the manifest would
/// be invalid.
pub fn openapi(document: &Value, options: &ImportOptions) -> Result<Imported, String> {
    let document = Document::new(document)?;
    let info = |key: &str| document.root["info"][key].as_str().unwrap_or_default().trim().to_owned();
    let title = Some(info("title")).filter(|title| !title.is_empty()).unwrap_or_else(|| "Service".to_owned());
    let name = options.name.clone().unwrap_or_else(|| camel(&title));
    let note = check_name(&name, &title, options.name.is_some())?;
    let mut operations = Operations::new(&document);
    operations.notes.extend(note);
    for (path, item) in document.root["paths"].as_object().into_iter().flatten() {
        let item = document.resolve(item);
        for method in METHODS {
            if let Some(operation) =
                item.get(method).filter(|operation| is_wanted(operation, method, path, options))
            {
                operations.add(path, item, method, operation);
            }
        }
    }
    if operations.actions.is_empty() {
        let tags = tags(&document);
        return Err(format!(
            "the document has no operation that is asked for; its tags are: {}",
            tags.join(", ")
        ));
    }
    let mut head = Map::new();
    head.insert("connector".into(), json!(name));
    head.insert("title".into(), json!(one_line(&title, 80)));
    head.insert(
        "version".into(),
        json!(Some(info("version")).filter(|version| !version.is_empty()).unwrap_or_else(|| "1".into())),
    );
    let about = one_line(&info("description"), 300);
    if !about.is_empty() {
        head.insert("description".into(), json!(about));
    }
    security::connections(&document, &mut head, &mut operations.notes);
    head.insert("inputs".into(), Value::Object(operations.inputs.clone()));
    if !operations.results.types.is_empty() {
        head.insert("types".into(), Value::Object(operations.results.types.clone()));
    }
    head.insert("actions".into(), Value::Object(operations.actions.clone()));
    prove(name, head, operations.notes)
}

/// Rejects the name of a built-in connector: the file would be invalid, or silently replace that connector. If the
/// user chose the name, the replacement may be intended and becomes a note.
fn check_name(name: &str, title: &str, is_chosen: bool) -> Result<Option<String>, String> {
    let taken = builtin_names()
        .find(|taken| if is_chosen { *taken == name } else { taken.eq_ignore_ascii_case(name) });
    let Some(taken) = taken else { return Ok(None) };
    let is_reserved = is_reserved(taken);
    if is_chosen && !is_reserved {
        return Ok(Some(format!("`{name}` takes the place of the connector of this name that is built in")));
    }
    let whence = if is_chosen {
        format!("`{name}` is the name of a connector that is built in")
    } else {
        let title = one_line(title, 80);
        format!("the document is titled `{title}`, and `{taken}` is a connector that is built in")
    };
    Err(format!("{whence}; give it another name, such as `--name {taken}Api`"))
}

fn is_wanted(operation: &Value, method: &str, path: &str, options: &ImportOptions) -> bool {
    let of = |wanted: &[String], found: &dyn Fn(&str) -> bool| {
        wanted.is_empty() || wanted.iter().any(|one| found(one))
    };
    let tagged =
        |tag: &str| operation["tags"].as_array().is_some_and(|tags| tags.iter().any(|one| one == tag));
    let named =
        |name: &str| operation["operationId"] == name || operation::name(operation, method, path) == name;
    of(&options.tags, &tagged) && of(&options.operations, &named)
}

fn tags(document: &Document<'_>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let items = document.root["paths"].as_object().into_iter().flat_map(|paths| paths.values());
    for operation in items.flat_map(|item| METHODS.iter().filter_map(|method| item.get(method))) {
        for tag in operation["tags"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !found.iter().any(|one| one == tag) {
                found.push(tag.to_owned());
            }
        }
    }
    found
}

/// Returns the name, with a number appended if it is taken.
fn free(taken: &Map<String, Value>, name: &str) -> String {
    let mut free = name.to_owned();
    let mut count = 2;
    while taken.contains_key(&free) {
        free = format!("{name}{count}");
        count += 1;
    }
    free
}

/// Reads the generated manifest, adds the examples, and removes actions whose examples are invalid.
fn prove(name: String, mut head: Map<String, Value>, mut notes: Vec<String>) -> Result<Imported, String> {
    let source = |head: &Map<String, Value>| {
        Arc::new(Source::new("the manifest", Value::Object(head.clone()).to_string()))
    };
    let examples = manifest::read::examples(source(&head), NATIVES)
        .map_err(|words| format!("{words}; choose what you need with `--tag` or `--operation`"))?;
    let Some(actions) = head.get_mut("actions").and_then(Value::as_object_mut) else {
        return Err("the document has no operation".to_owned());
    };
    for (action, example) in examples {
        match example {
            Ok(shown) => {
                let example = &mut actions[&action]["example"];
                example["request"] = json!(shown.request);
                if let Some(body) = shown.body {
                    example["body"] = body.to_serde();
                }
            }
            Err(words) => {
                actions.remove(&action);
                notes.push(format!("`{action}` is left out: {words}"));
            }
        }
    }
    let count = actions.len();
    if count == 0 {
        return Err(format!("no operation could be made an action: {}", notes.join("; ")));
    }
    let (manifest, report) = manifest::read::read(source(&head), NATIVES);
    if manifest.is_none() {
        let first = report.entries().into_iter().map(|entry| entry.message).next().unwrap_or_default();
        return Err(format!("the manifest would not be a good one: {first}"));
    }
    Ok(Imported { name, manifest: Value::Object(head), actions: count, notes })
}
