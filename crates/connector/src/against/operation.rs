//! An operation of a document, and the comparison of a request with it.

use serde_json::{Map, Value, json};
use value::Value as Plain;

use super::schema::{Direction, Schemas};
use crate::http::decode;
use crate::import::Document;
use crate::manifest::Shown;

/// The operation of a document that an example calls.
pub(super) struct Exchange<'d> {
    pub(super) document: &'d Document<'d>,
    operation: &'d Value,
    /// The parameters of the operation and of its path.
    parameters: Vec<&'d Value>,
}

impl<'d> Exchange<'d> {
    /// Finds the operation of a request: of several matching ones, the operation with the most constant segments.
    pub(super) fn find(document: &'d Document<'d>, shown: &Shown) -> Option<Self> {
        let (method, target) = shown.request.split_once(' ')?;
        let path = target.split('?').next().unwrap_or_default();
        let method = method.to_ascii_lowercase();
        let base = document.base_path();
        let mut best: Option<(usize, &Value, &Value)> = None;
        for (template, item) in document.root["paths"].as_object().into_iter().flatten() {
            let item = document.resolve(item);
            let Some(operation) = item.get(&method) else { continue };
            let score = constant_segments(template, path)
                .or_else(|| constant_segments(template, path.strip_prefix(base.as_str())?))
                .or_else(|| constant_segments(&format!("{base}{template}"), path));
            if let Some(score) = score
                && best.is_none_or(|(most, _, _)| score > most)
            {
                best = Some((score, item, operation));
            }
        }
        let (_, item, operation) = best?;
        let list = |of: &'d Value| of["parameters"].as_array().into_iter().flatten();
        let parameters = list(operation).chain(list(item)).map(|one| document.resolve(one)).collect();
        Some(Self { document, operation, parameters })
    }

    /// Returns the differences between the request of an example and the operation.
    pub(super) fn request_differences(&self, shown: &Shown) -> Vec<String> {
        let mut found = self.query_differences(shown);
        match (&shown.body, self.request_schema(shown)) {
            (None, _) => {}
            (Some(_), None) => found.push("the operation takes no body of this media type".to_owned()),
            (Some(body), Some(schema)) => {
                let schemas = Schemas::new(self.document, Direction::Request);
                let body = match is_form(shown) {
                    true => schemas.typed(&schema, &nested(&body.to_serde())),
                    false => body.to_serde(),
                };
                found.extend(schemas.mismatch(&schema, body).map(|words| format!("the body: {words}")));
            }
        }
        found
    }

    fn query_differences(&self, shown: &Shown) -> Vec<String> {
        let query = shown.request.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let pairs: Vec<(String, String)> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (decode(name), decode(value))
            })
            .collect();
        let mut found = Vec::new();
        for (name, value) in &pairs {
            let bare = name.split('[').next().unwrap_or_default();
            let is_it = |one: &&&Value| {
                let named = one["name"].as_str().unwrap_or_default();
                one["in"] == "query" && (named == name || named.trim_end_matches("[]") == bare)
            };
            match self.parameters.iter().find(is_it) {
                None => found.push(format!("the operation has no parameter `{name}` in its query")),
                Some(parameter) if bare == name => found.extend(self.parameter_mismatch(parameter, value)),
                Some(_) => {}
            }
        }
        let is_given =
            |name: &str| pairs.iter().any(|(given, _)| given.split('[').next() == name.split('[').next());
        let required = self.parameters.iter().filter(|one| one["in"] == "query" && one["required"] == true);
        for name in required.filter_map(|one| one["name"].as_str()).filter(|name| !is_given(name)) {
            found.push(format!("the operation requires the parameter `{name}`"));
        }
        found
    }

    fn parameter_mismatch(&self, parameter: &Value, text: &str) -> Option<String> {
        let schema = if parameter["schema"].is_object() { &parameter["schema"] } else { parameter };
        let schemas = Schemas::new(self.document, Direction::Request);
        let is_list = self.document.resolve(schema)["type"] == "array";
        let given = if is_list { json!([text]) } else { json!(text) };
        let value = schemas.typed(schema, &given);
        let name = parameter["name"].as_str().unwrap_or_default();
        // A list in one parameter has a separator of its own.
        let mismatch = schemas.mismatch(schema, value).filter(|_| !(is_list && text.contains(',')));
        mismatch.map(|words| format!("the parameter `{name}`: {words}"))
    }

    /// Returns the schema of the body in the media type of the example.
    fn request_schema(&self, shown: &Shown) -> Option<Value> {
        if self.document.is_v2 {
            return self.request_schema_v2(shown);
        }
        let sent = media_type(shown);
        let content = self.document.resolve(&self.operation["requestBody"])["content"].as_object()?;
        let found = content.iter().find(|(name, _)| name.split(';').next() == Some(sent.as_str()));
        let fits = |range: &str| {
            range.strip_suffix('*').is_some_and(|kind| kind.ends_with('/') && sent.starts_with(kind))
        };
        let range = || content.iter().find(|(name, _)| fits(name));
        let any = || content.iter().find(|(name, _)| name.as_str() == "*/*");
        Some(found.or_else(range).or_else(any)?.1["schema"].clone())
    }

    fn request_schema_v2(&self, shown: &Shown) -> Option<Value> {
        if let Some(body) = self.parameters.iter().find(|one| one["in"] == "body") {
            return Some(body["schema"].clone()).filter(|_| !is_form(shown));
        }
        let fields = self.parameters.iter().filter(|one| one["in"] == "formData");
        let properties: Map<String, Value> =
            fields.filter_map(|one| Some((one["name"].as_str()?.to_owned(), (*one).clone()))).collect();
        let required: Vec<Value> = properties
            .iter()
            .filter(|(_, field)| field["required"] == true)
            .map(|(name, _)| name.as_str().into())
            .collect();
        (!properties.is_empty())
            .then(|| json!({"type": "object", "properties": properties, "required": required}))
    }

    /// Returns the schema of the response to a call that succeeds; `None` if it has none that is JSON.
    pub(super) fn response_schema(&self) -> Option<&'d Value> {
        let responses = self.operation["responses"].as_object()?;
        let good = ["200", "201", "202", "203", "2XX", "default"];
        let response = good.iter().find_map(|status| responses.get(*status))?;
        let response = self.document.resolve(response);
        if self.document.is_v2 {
            return response.get("schema");
        }
        let content = response["content"].as_object()?;
        let json = content.iter().find(|(name, _)| name.contains("json"));
        json.or_else(|| content.iter().find(|(name, _)| name.as_str() == "*/*"))?.1.get("schema")
    }

    /// Returns the differences between the answer of an example and the response of the operation.
    pub(super) fn answer_differences(&self, answer: Option<&Plain>) -> Vec<String> {
        let Some(answer) = answer else { return Vec::new() };
        let Some(schema) = self.response_schema() else { return Vec::new() };
        let schemas = Schemas::new(self.document, Direction::Response);
        let mismatch = schemas.mismatch(schema, answer.to_serde());
        mismatch.map(|words| format!("the answer: {words}")).into_iter().collect()
    }
}

/// Returns the number of constant segments if a path fits a template: `/repos/{owner}/issues`.
fn constant_segments(template: &str, path: &str) -> Option<usize> {
    let (template, path): (Vec<&str>, Vec<&str>) = (
        template.trim_end_matches('/').split('/').collect(),
        path.trim_end_matches('/').split('/').collect(),
    );
    if template.len() != path.len() {
        return None;
    }
    let mut constant = 0;
    for (expected, given) in template.iter().zip(&path) {
        match expected.split_once('{') {
            None if expected == given || *expected == decode(given) => constant += 1,
            None => return None,
            Some((before, rest)) => {
                let after = rest.rsplit_once('}').map(|(_, after)| after).unwrap_or_default();
                let fits = given.len() > before.len() + after.len()
                    && given.starts_with(before)
                    && given.ends_with(after);
                if !fits {
                    return None;
                }
            }
        }
    }
    Some(constant)
}

fn media_type(shown: &Shown) -> String {
    match shown.headers.get("content-type") {
        Some(header) => header.to_text().split(';').next().unwrap_or_default().trim().to_owned(),
        None => "multipart/form-data".to_owned(),
    }
}

/// True if the values of the body are texts whose types only the description knows.
fn is_form(shown: &Shown) -> bool {
    matches!(media_type(shown).as_str(), "application/x-www-form-urlencoded" | "multipart/form-data")
}

/// Puts the fields of a form with brackets into maps: `items[0][price]` into `items`, `0`, `price`.
fn nested(form: &Value) -> Value {
    let mut whole = Map::new();
    for (name, value) in form.as_object().into_iter().flatten() {
        let keys: Vec<&str> = name.split('[').map(|key| key.trim_end_matches(']')).collect();
        put(&mut whole, &keys, value.clone());
    }
    Value::Object(whole)
}

fn put(map: &mut Map<String, Value>, keys: &[&str], value: Value) {
    let Some((first, rest)) = keys.split_first() else { return };
    if rest.is_empty() {
        map.insert((*first).to_owned(), value);
        return;
    }
    if let Value::Object(inner) = map.entry((*first).to_owned()).or_insert_with(|| json!({})) {
        put(inner, rest, value);
    }
}
