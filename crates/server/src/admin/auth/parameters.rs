//! The parameters that each operation takes after the question mark; a request with others is refused.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::extract::{MatchedPath, Request};
use http::Method;
use serde::Deserialize;
use text::diagnostic::nearest;

use crate::admin::{Problem, description};

/// The names by path and method in lower case, both as the description has them.
type Names = HashMap<String, HashMap<String, Operation>>;

/// The part of the description that has the parameters. Read when the first request with a parameter comes.
static DESCRIPTION: LazyLock<Description> =
    LazyLock::new(|| serde_json::from_str(description::openapi()).unwrap_or_default());

#[derive(Default, Deserialize)]
struct Description {
    paths: Names,
}

#[derive(Deserialize)]
struct Operation {
    #[serde(default)]
    parameters: Vec<Parameter>,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
    #[serde(rename = "in")]
    location: String,
}

/// Checks the names of a request's parameters.
///
/// # Errors
/// Returns a problem that names the first parameter that the operation does not take.
pub(super) fn check(request: &Request) -> Result<(), Problem> {
    let Some(query) = request.uri().query().filter(|query| !query.is_empty()) else { return Ok(()) };
    let known = match request.extensions().get::<MatchedPath>() {
        Some(path) => taken(path.as_str(), request.method()),
        None => Vec::new(),
    };
    let given: Vec<_> = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name).collect();
    let Some(name) = given.iter().find(|name| !known.contains(&name.as_ref())) else { return Ok(()) };
    let free = known.iter().copied().filter(|known| !given.iter().any(|given| given == known));
    Err(unknown(name, &known, nearest(name, free)))
}

/// The names of the parameters that an operation takes.
fn taken(path: &str, method: &Method) -> Vec<&'static str> {
    // The router answers HEAD by the handler of GET.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let operation =
        DESCRIPTION.paths.get(path).and_then(|path| path.get(&method.as_str().to_ascii_lowercase()));
    let parameters = operation.into_iter().flat_map(|operation| &operation.parameters);
    parameters.filter(|parameter| parameter.location == "query").map(|found| found.name.as_str()).collect()
}

fn unknown(name: &str, known: &[&str], nearest: Option<&str>) -> Problem {
    let takes: Vec<_> = known.iter().map(|known| format!("`{known}`")).collect();
    let takes = if takes.is_empty() { "no parameters".to_owned() } else { takes.join(", ") };
    let hint = nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"));
    let name: String = name.chars().take(64).collect();
    let detail = format!("there is no parameter `{name}` at this address, which takes {takes}{hint}");
    Problem::bad_request("bad_query", detail)
}
