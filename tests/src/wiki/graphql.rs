//! GraphQL: answers registered by operation name or by the text of the query.
//!
//! There is no schema. What is registered is answered, anything else gets HTTP 200 with `errors`, as the real endpoint
//! answers whatever it does not know.

use http::{HeaderMap, StatusCode};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::error::{ApiError, Error};
use super::query::Query;
use super::reply::Reply;
use super::state::State;
use super::users::Who;

/// The most answers that are kept.
const MOST_ANSWERS: usize = 1_000;

/// Makes the `data` of an answer from the state of the wiki, the caller and the variables, or says what is wrong.
pub type Compute = fn(&State, &Who, &Map<String, Value>) -> Result<Value, String>;

/// The response to a GraphQL operation.
#[derive(Clone, Debug)]
pub struct GraphqlAnswer {
    content: Content,
    required_header: Option<String>,
}

#[derive(Clone, Debug)]
enum Content {
    Envelope { data: Value, errors: Vec<Value> },
    Computed(Compute),
}

impl GraphqlAnswer {
    /// Answers this as `data`.
    pub fn data(data: Value) -> Self {
        Self { content: Content::Envelope { data, errors: Vec::new() }, required_header: None }
    }

    /// Answers these `errors` beside `data`.
    pub fn errors(data: Value, errors: Vec<Value>) -> Self {
        Self { content: Content::Envelope { data, errors }, required_header: None }
    }

    /// Answers what a function of the state makes.
    pub fn computed(compute: Compute) -> Self {
        Self { content: Content::Computed(compute), required_header: None }
    }

    /// Answers only when the request has this header, as experimental fields of the real schema ask for an opt-in.
    #[must_use]
    pub fn requires_header(self, name: &str) -> Self {
        Self { required_header: Some(name.to_ascii_lowercase()), ..self }
    }
}

/// The registered answers.
#[derive(Debug, Default)]
pub(super) struct Registry {
    answers: IndexMap<String, GraphqlAnswer>,
}

impl Registry {
    /// Registers an answer under the name of an operation, or under the whole text of a query.
    pub(super) fn register(&mut self, operation: &str, answer: GraphqlAnswer) -> Result<(), Error> {
        let key = normalise(operation);
        if self.answers.len() >= MOST_ANSWERS && !self.answers.contains_key(&key) {
            return Err(Error::TooMany { what: "GraphQL answers", limit: MOST_ANSWERS });
        }
        self.answers.insert(key, answer);
        Ok(())
    }

    fn find(&self, query: &str, name: Option<&str>) -> Option<&GraphqlAnswer> {
        self.answers
            .get(&normalise(query))
            .or_else(|| self.answers.get(name.or_else(|| operation_name(query))?))
    }

    /// Answers one request.
    ///
    /// # Errors
    /// 400 for a body that is not an object with a string `query`, or variables that are not an object.
    pub(super) fn answer(
        &self,
        state: &State,
        who: &Who,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Reply, ApiError> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| ApiError::bad_request(format!("The body is not valid JSON: {error}")))?;
        let query = body.get("query").and_then(Value::as_str);
        let query = query.ok_or_else(|| ApiError::bad_request("'query' must be a string"))?;
        let variables = match body.get("variables") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(variables)) => variables.clone(),
            Some(_) => return Err(ApiError::bad_request("'variables' must be an object")),
        };
        let name = body.get("operationName").and_then(Value::as_str);
        let (data, errors) = match self.find(query, name) {
            None => (
                Value::Null,
                vec![error("no answer is registered for this operation", "OPERATION_NOT_FOUND")],
            ),
            Some(answer) => match &answer.required_header {
                Some(header) if !headers.contains_key(header.as_str()) => {
                    let message = format!("this operation needs the header `{header}`");
                    (Value::Null, vec![error(&message, "OPT_IN_REQUIRED")])
                }
                _ => answer.content.make(state, who, &variables),
            },
        };
        Ok(envelope(data, errors, name.or_else(|| operation_name(query)), headers))
    }
}

impl Content {
    fn make(&self, state: &State, who: &Who, variables: &Map<String, Value>) -> (Value, Vec<Value>) {
        match self {
            Self::Envelope { data, errors } => (data.clone(), errors.clone()),
            Self::Computed(compute) => match compute(state, who, variables) {
                Ok(data) => (data, Vec::new()),
                Err(message) => (Value::Null, vec![error(&message, "BAD_USER_INPUT")]),
            },
        }
    }
}

fn error(message: &str, classification: &str) -> Value {
    json!({"message": message, "extensions": {"statusCode": 400, "classification": classification}})
}

/// `extensions` repeats the `x-` headers of the request, so that a test sees which ones came through.
fn envelope(data: Value, errors: Vec<Value>, operation: Option<&str>, headers: &HeaderMap) -> Reply {
    let echoed: Map<String, Value> = headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("x-"))
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()))
        .collect();
    let mut envelope = json!({"data": data});
    if !errors.is_empty() {
        envelope["errors"] = errors.into();
    }
    envelope["extensions"] = json!({"operationName": operation, "requestHeaders": echoed});
    Reply::json(StatusCode::OK, &envelope)
}

/// The text with every run of white space as one blank.
fn normalise(query: &str) -> String {
    query.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The name of the first operation of a document; nothing for an anonymous one.
fn operation_name(query: &str) -> Option<&str> {
    let text = query.trim_start();
    let rest = ["query", "mutation", "subscription"].iter().find_map(|keyword| text.strip_prefix(keyword))?;
    if !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

/// The operations that every simulator knows: `Spaces` and `SpaceByKey(key)`, computed from the state.
pub(super) fn built_in() -> Registry {
    let mut registry = Registry::default();
    let known: [(&str, Compute); 2] = [("Spaces", spaces), ("SpaceByKey", space_by_key)];
    for (name, compute) in known {
        registry.answers.insert(name.to_owned(), GraphqlAnswer::computed(compute));
    }
    registry
}

fn spaces(state: &State, who: &Who, _: &Map<String, Value>) -> Result<Value, String> {
    Ok(json!({"spaces": visible_spaces(state, who)}))
}

fn space_by_key(state: &State, who: &Who, variables: &Map<String, Value>) -> Result<Value, String> {
    let key = variables.get("key").and_then(Value::as_str).ok_or("the variable `key` must be a string")?;
    let space = visible_spaces(state, who).into_iter().find(|space| space["key"] == key);
    Ok(json!({"spaceByKey": space}))
}

fn visible_spaces(state: &State, who: &Who) -> Vec<Value> {
    // 250 at most, as any list of the wiki.
    let listed =
        state.list_spaces(who, &Query::parse("limit=250")).map(|slice| slice.items).unwrap_or_default();
    let shape = |space: super::shapes::SpaceShape| {
        let pages =
            state.all_pages().filter(|page| page.space.to_string() == space.id && state.sees_page(who, page));
        json!({
            "id": space.id,
            "key": space.key,
            "name": space.name,
            "homepageId": space.homepage_id,
            "pageCount": pages.count(),
        })
    };
    listed.into_iter().map(shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_names_are_found_where_there_is_one() {
        assert_eq!(operation_name("query Spaces($a: Int) { x }"), Some("Spaces"));
        assert_eq!(operation_name("  mutation\n  Do_It{ x }"), Some("Do_It"));
        assert_eq!(operation_name("{ spaces { id } }"), None);
        assert_eq!(operation_name("query { x }"), None);
        assert_eq!(operation_name("queryX { x }"), None);
    }

    #[test]
    fn white_space_does_not_matter_for_an_answer_by_text() {
        let mut registry = Registry::default();
        registry.register("{ a {  b } }", GraphqlAnswer::data(json!(1))).unwrap();
        assert!(registry.find("{\n  a { b }\n}", None).is_some());
        assert!(registry.find("{ a { c } }", None).is_none());
    }
}
