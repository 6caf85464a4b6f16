//! Generates an action from an operation.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::document::{Document, camel, one_line};
use super::schema::{Results, describe, input, is_required, merged};
use super::{free, sample};

/// Headers that the connection or the client sets.
const OWN_HEADERS: [&str; 4] = ["accept", "content-type", "authorization", "host"];
/// The largest number of properties of a body that become separate inputs.
const MAX_PROPERTIES: usize = 60;

/// The generated actions, with their shared inputs and types.
pub(super) struct Operations<'a> {
    document: &'a Document<'a>,
    pub actions: Map<String, Value>,
    pub inputs: Map<String, Value>,
    pub notes: Vec<String>,
    pub results: Results,
}

/// An action under construction.
struct ActionBuilder {
    name: String,
    wires: Map<String, Value>,
    with: Map<String, Value>,
    /// The inputs in the path, by their names in the document.
    path: HashMap<String, String>,
}

/// Returns the name of an operation's action.
pub(super) fn name(operation: &Value, method: &str, path: &str) -> String {
    match operation["operationId"].as_str().filter(|id| !id.trim().is_empty()) {
        Some(id) => camel(id),
        None => camel(&format!("{method} {path}")),
    }
}

impl<'a> Operations<'a> {
    pub(super) fn new(document: &'a Document<'a>) -> Self {
        let (actions, inputs) = (Map::new(), Map::new());
        Self { document, actions, inputs, notes: Vec::new(), results: Results::default() }
    }

    /// Adds the action of an operation.
    pub(super) fn add(&mut self, path: &str, item: &Value, method: &str, operation: &Value) {
        let name = free(&self.actions, &name(operation, method, path));
        let mut draft = ActionBuilder { name, wires: Map::new(), with: Map::new(), path: HashMap::new() };
        let mut encoding = None;
        for parameter in parameters(self.document, item, operation) {
            self.parameter(&mut draft, &parameter);
        }
        if let Some((media, schema, required)) =
            body(self.document, &parameters(self.document, item, operation), operation)
        {
            if matches!(method, "get" | "head") {
                self.notes.push(format!(
                    "`{}`: the body of a {} is left out",
                    draft.name,
                    method.to_uppercase()
                ));
            } else {
                encoding = self.body(&mut draft, &media, &schema, required);
            }
        }
        let mut line = format!("{} {path}", method.to_uppercase());
        for (given, input) in &draft.path {
            line = line.replace(&format!("{{{given}}}"), &format!("{{{input}}}"));
        }
        let summary = operation["summary"].as_str().filter(|summary| !summary.trim().is_empty());
        let title = summary.map_or_else(|| draft.name.clone(), |summary| one_line(summary, 80));
        let mut action = json!({"title": title.trim_end_matches('.')});
        let about = one_line(operation["description"].as_str().unwrap_or_default(), 240);
        if !about.is_empty() && about != title {
            action["description"] = json!(about);
        }
        action["request"] = json!(line);
        if !draft.wires.is_empty() {
            action["inputs"] = Value::Object(draft.wires);
        }
        if let Some(encoding) = encoding {
            action["encoding"] = json!(encoding);
        }
        self.answer(operation, &mut action);
        action["example"] = json!({"with": draft.with, "request": line});
        self.actions.insert(draft.name, action);
    }

    fn parameter(&mut self, draft: &mut ActionBuilder, parameter: &Value) {
        let text = |key: &str| parameter[key].as_str().unwrap_or_default();
        let (given, place) = (text("name"), text("in"));
        let to = match place {
            _ if given.trim().is_empty() => {
                self.notes.push(format!("`{}`: a parameter without a name is left out", draft.name));
                return;
            }
            "path" => "path".to_owned(),
            "query" => format!("query {given}"),
            "header" if OWN_HEADERS.contains(&given.to_ascii_lowercase().as_str()) => return,
            "header" => format!("header {given}"),
            "cookie" => {
                self.notes.push(format!("`{}`: the cookie `{given}` is left out", draft.name));
                return;
            }
            _ => return,
        };
        // In version 2.0 the parameter is its own schema; in 3.x it may be inside a media type.
        let content = parameter["content"].as_object().and_then(|content| content.values().next());
        let schema = match content {
            Some(content) => &content["schema"],
            None if self.document.is_v2 => parameter,
            None => &parameter["schema"],
        };
        let mut made = input(self.document, schema, 0);
        match made["type"].as_str().unwrap_or_default() {
            "object" | "map" if place == "query" => {
                self.notes.push(format!(
                    "`{}`: `{given}` is a map in the query, which manifests do not have; it is left out",
                    draft.name
                ));
                return;
            }
            "object" | "map" | "file" | "any" | "list" if place != "query" => {
                made = Map::from_iter([("type".into(), json!("text"))])
            }
            "list" => {
                if let Some(join) = join(parameter, self.document.is_v2) {
                    made.insert("join".into(), json!(join));
                }
            }
            _ => {}
        }
        let sample = sample::sample_value(self.document, schema, &made, given);
        let sample = [&parameter["example"]]
            .into_iter()
            .find(|own| own.is_string() && made["type"] == "text")
            .cloned()
            .unwrap_or(sample);
        let required = place == "path" || parameter["required"] == true;
        if !required {
            keep_default(self.document, schema, &mut made);
        }
        let about = if parameter["description"].is_string() { parameter } else { schema };
        describe(self.document, about, &mut made);
        let input =
            self.wire(draft, given, made, to, required && place != "path", required.then_some(sample));
        if place == "path" {
            draft.path.insert(given.to_owned(), input);
        }
    }

    /// Adds the body as inputs, and returns its encoding unless it is JSON.
    fn body(
        &mut self,
        draft: &mut ActionBuilder,
        media: &str,
        schema: &Value,
        required: bool,
    ) -> Option<&'static str> {
        let whole = merged(self.document, schema);
        let encoding = match media {
            "application/x-www-form-urlencoded" => Some("form"),
            media if media.starts_with("multipart/") => Some("multipart"),
            _ => None,
        };
        let is_json = media.is_empty() || media == "*/*" || media.contains("json");
        let properties =
            whole["properties"].as_object().filter(|all| !all.is_empty() && all.len() <= MAX_PROPERTIES);
        let plain = |name: &String| !name.is_empty() && !name.contains(['.', ' ']);
        match properties.filter(|all| all.keys().all(plain)) {
            Some(properties) if is_json || encoding.is_some() => {
                for (name, property) in properties {
                    if self.document.resolve(property)["readOnly"] == true {
                        continue;
                    }
                    let mut made = input(self.document, property, 1);
                    if made["type"] == "file" && encoding != Some("multipart") {
                        made = Map::from_iter([("type".into(), json!("text"))]);
                    }
                    let required = required && is_required(&whole, name);
                    let sample = sample::sample_value(self.document, property, &made, name);
                    describe(self.document, property, &mut made);
                    self.wire(
                        draft,
                        name,
                        made,
                        format!("body {name}"),
                        required,
                        required.then_some(sample),
                    );
                }
            }
            _ => {
                let mut made = if is_json {
                    input(self.document, schema, 0)
                } else {
                    Map::from_iter([("type".into(), json!("file"))])
                };
                let sample = sample::sample_value(self.document, schema, &made, "body");
                describe(self.document, schema, &mut made);
                self.wire(draft, "body", made, "body".into(), required, required.then_some(sample));
                return None;
            }
        }
        encoding
    }

    /// Declares an input with its location, and returns its name in the action.
    fn wire(
        &mut self,
        draft: &mut ActionBuilder,
        given: &str,
        made: Map<String, Value>,
        to: String,
        required: bool,
        sample: Option<Value>,
    ) -> String {
        let name = free(&draft.wires, &camel(given));
        let declared = self.declare(&name, made);
        let wire = match (declared == name, required) {
            (true, false) => json!(to),
            (true, true) => json!({"required": true, "to": to}),
            (false, false) => json!({"use": declared, "to": to}),
            (false, true) => json!({"use": declared, "required": true, "to": to}),
        };
        draft.wires.insert(name.clone(), wire);
        if let Some(sample) = sample {
            draft.with.insert(name.clone(), sample);
        }
        name
    }

    /// Declares an input and returns its declared name. Inputs of one name and type share a declaration.
    fn declare(&mut self, name: &str, made: Map<String, Value>) -> String {
        let bare = |made: &Map<String, Value>| {
            let mut bare = made.clone();
            bare.remove("description");
            bare
        };
        let mut free = name.to_owned();
        let mut count = 2;
        while let Some(there) = self.inputs.get(&free).and_then(Value::as_object) {
            if bare(there) == bare(&made) {
                return free;
            }
            free = format!("{name}{count}");
            count += 1;
        }
        self.inputs.insert(free.clone(), Value::Object(made));
        free
    }

    /// Sets the result type of the action from the first success response.
    fn answer(&mut self, operation: &Value, action: &mut Value) {
        let answers = operation["responses"].as_object();
        let Some((status, answer)) =
            answers.into_iter().flatten().find(|(status, _)| status.starts_with('2'))
        else {
            return;
        };
        let answer = self.document.resolve(answer);
        let schema = if self.document.is_v2 {
            Some(&answer["schema"]).filter(|schema| !schema.is_null())
        } else {
            let content = answer["content"].as_object();
            let json = content.and_then(|content| {
                content.iter().find(|(media, _)| media.contains("json") || *media == "*/*")
            });
            match (content.and_then(|content| content.iter().next()), json) {
                (_, Some((_, content))) => Some(&content["schema"]),
                (Some((media, _)), None) => {
                    action["answer"] = json!(if media.starts_with("text/") || media.ends_with("xml") {
                        "text"
                    } else {
                        "binary"
                    });
                    return;
                }
                (None, None) => None,
            }
        };
        match schema {
            Some(schema) => {
                let results = self.results.result_type(self.document, schema);
                if results != "any" {
                    action["results"] =
                        if has_empty(operation, self.document) { nullable(results) } else { results };
                }
            }
            None if status == "204" => action["results"] = json!("null"),
            None => action["answer"] = json!("auto"),
        }
    }
}

/// True if a success response may have no content.
fn has_empty(operation: &Value, document: &Document<'_>) -> bool {
    let answers = operation["responses"].as_object();
    answers.into_iter().flatten().filter(|(status, _)| status.starts_with('2')).any(|(_, answer)| {
        let answer = document.resolve(answer);
        let schema = if document.is_v2 { &answer["schema"] } else { &answer["content"] };
        schema.is_null()
    })
}

/// Returns the type made nullable.
fn nullable(results: Value) -> Value {
    let mut results = if results.is_string() { json!({"type": results}) } else { results };
    results["nullable"] = json!(true);
    results
}

/// Returns the parameters of an operation: its own, and those of its path without an own one of the same name and
/// location.
fn parameters(document: &Document<'_>, item: &Value, operation: &Value) -> Vec<Value> {
    let list = |of: &Value| -> Vec<Value> {
        of["parameters"].as_array().into_iter().flatten().map(|one| document.resolve(one).clone()).collect()
    };
    let own = list(operation);
    let is_own = |one: &Value| own.iter().any(|mine| mine["name"] == one["name"] && mine["in"] == one["in"]);
    let mut all: Vec<Value> = list(item).into_iter().filter(|one| !is_own(one)).collect();
    all.extend(own);
    all
}

/// Returns the body of an operation: its media type, its schema, and true if it is required.
fn body(document: &Document<'_>, parameters: &[Value], operation: &Value) -> Option<(String, Value, bool)> {
    if !document.is_v2 {
        let body = document.resolve(&operation["requestBody"]);
        let content = body["content"].as_object()?;
        let wanted = ["json", "x-www-form-urlencoded", "multipart/"];
        let found = wanted.iter().find_map(|word| content.iter().find(|(media, _)| media.contains(word)));
        let (media, content) = found.or_else(|| content.iter().next())?;
        let media = media.split(';').next().unwrap_or_default().trim().to_owned();
        return Some((media, content["schema"].clone(), body["required"] == true));
    }
    if let Some(body) = parameters.iter().find(|one| one["in"] == "body") {
        return Some((String::new(), body["schema"].clone(), body["required"] == true));
    }
    let fields: Vec<&Value> = parameters.iter().filter(|one| one["in"] == "formData").collect();
    if fields.is_empty() {
        return None;
    }
    let consumes = [&operation["consumes"], &document.root["consumes"]];
    let consumes = consumes.into_iter().find_map(Value::as_array);
    let is_multipart = fields.iter().any(|field| field["type"] == "file")
        || consumes.is_some_and(|list| list.iter().any(|media| media == "multipart/form-data"));
    let names = |required: bool| fields.iter().filter(move |field| !required || field["required"] == true);
    let properties: Map<String, Value> = names(false)
        .filter_map(|field| Some((field["name"].as_str()?.to_owned(), (*field).clone())))
        .collect();
    let required: Vec<&Value> = names(true).map(|field| &field["name"]).collect();
    let media = if is_multipart { "multipart/form-data" } else { "application/x-www-form-urlencoded" };
    Some((media.to_owned(), json!({"type": "object", "properties": properties, "required": required}), true))
}

/// Returns the separator of list items in one parameter; `None` if the parameter is repeated.
fn join(parameter: &Value, is_v2: bool) -> Option<&'static str> {
    if is_v2 {
        return match parameter["collectionFormat"].as_str() {
            Some("multi") => None,
            Some("ssv") => Some(" "),
            Some("tsv") => Some("\t"),
            Some("pipes") => Some("|"),
            _ => Some(","),
        };
    }
    match (parameter["style"].as_str(), parameter["explode"].as_bool()) {
        (Some("spaceDelimited"), _) => Some(" "),
        (Some("pipeDelimited"), _) => Some("|"),
        (_, Some(false)) => Some(","),
        _ => None,
    }
}

/// Keeps the default of the service for display; it is not sent.
fn keep_default(document: &Document<'_>, schema: &Value, made: &mut Map<String, Value>) {
    let default = merged(document, schema)["default"].clone();
    let fits = match made["type"].as_str().unwrap_or_default() {
        "text" => default.as_str().is_some_and(|text| !text.is_empty()),
        "choice" => made["options"].as_array().is_some_and(|options| options.contains(&default)),
        "integer" => default.as_i64().is_some_and(|number| {
            let bound = |key: &str| made.get(key).and_then(Value::as_i64);
            bound("min").is_none_or(|min| number >= min) && bound("max").is_none_or(|max| number <= max)
        }),
        "boolean" => default.is_boolean(),
        _ => false,
    };
    if fits {
        made.insert("default".into(), default);
        made.insert("omitDefault".into(), json!(true));
    }
}
