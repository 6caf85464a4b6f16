//! Generates the description from the table of routes, and checks it.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use serde_json::{Value as Json, json};
use utoipa::Modify;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{HttpMethod, OpenApi, RefOr};

use crate::admin::auth::guard::{Need, Rule};
use crate::admin::auth::scope::Scope;
use crate::admin::routes::{described, router, rules};
use crate::admin::{Problem, problem};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Cogwork",
        description = "The admin API of a Cogwork daemon. Every address takes the admin token as a bearer token, or \
            a token with the scope that the operation names; errors are problems as RFC 9457 has them.",
    ),
    tags(
        (name = "status", description = "The daemon itself"),
        (name = "session", description = "Sessions of browsers, for the web UI"),
        (name = "tokens", description = "Tokens of the API, and the log of what was done with them"),
        (name = "files", description = "The files of the project"),
        (name = "automations", description = "The definitions in force"),
        (name = "executions", description = "Finished and running executions"),
        (name = "state", description = "Values that outlive executions"),
        (name = "secrets", description = "Secrets that connections read; they can be written and never read here"),
        (name = "connectors", description = "Actions that automations can call"),
    ),
    modifiers(&Common),
    security(("token" = [])),
)]
struct Head;

/// The general part of the API's description.
struct Common;

impl Modify for Common {
    fn modify(&self, api: &mut OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        api.components.get_or_insert_default().add_security_scheme("token", scheme);
    }
}

/// Describes the rows of the table.
fn api() -> OpenApi {
    let mut api = described(<Head as utoipa::OpenApi>::openapi()).into_openapi();
    env!("CARGO_PKG_VERSION").clone_into(&mut api.info.version);
    add_problems(&mut api);
    name_operations(&mut api);
    add_scopes(&mut api);
    api
}

/// Names each operation by its method and path: the names of handlers are those of their module only.
fn name_operations(api: &mut OpenApi) {
    for (path, item) in &mut api.paths.paths {
        let words = path.split(['/', '{', '}', '.']).filter(|word| !matches!(*word, "" | "api" | "v1"));
        let words = words.collect::<Vec<_>>().join("-");
        let methods = [("get", &mut item.get), ("post", &mut item.post), ("put", &mut item.put)];
        for (method, operation) in methods.into_iter().chain([("delete", &mut item.delete)]) {
            if let Some(operation) = operation {
                operation.operation_id = Some(format!("{method}-{words}"));
            }
        }
    }
}

/// Removes `null` from the types of properties that may be absent: an answer leaves out what it does not have, and a request
/// may too.
fn without_null_of_absent(description: &mut Json) {
    match description {
        Json::Array(items) => items.iter_mut().for_each(without_null_of_absent),
        Json::Object(entries) => {
            let required = entries.get("required").and_then(Json::as_array).cloned().unwrap_or_default();
            if let Some(Json::Object(properties)) = entries.get_mut("properties") {
                let optional = properties.iter_mut().filter(|(name, _)| !required.contains(&json!(name)));
                optional.for_each(|(_, schema)| remove_null(schema));
            }
            entries.values_mut().for_each(without_null_of_absent);
        }
        _ => {}
    }
}

fn remove_null(schema: &mut Json) {
    let Some(entries) = schema.as_object_mut() else { return };
    if let Some(Json::Array(types)) = entries.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            entries.insert("type".to_owned(), one);
        }
    }
    if let Some(Json::Array(alternatives)) = entries.get_mut("oneOf") {
        alternatives.retain(|one| one.get("type").is_none_or(|kind| kind != "null"));
        if let [Json::Object(one)] = alternatives.as_slice() {
            let one = one.clone();
            entries.remove("oneOf");
            entries.extend(one);
        }
    }
}

/// Every operation may answer with a problem.
fn add_problems(api: &mut OpenApi) {
    let content = utoipa::openapi::ContentBuilder::new()
        .schema(Some(utoipa::openapi::Ref::from_schema_name("Problem")))
        .build();
    let response = utoipa::openapi::ResponseBuilder::new()
        .description("The problem (RFC 9457)")
        .content(problem::MEDIA_TYPE, content)
        .build();
    api.components
        .get_or_insert_default()
        .schemas
        .insert("Problem".to_owned(), <Problem as utoipa::PartialSchema>::schema());
    for item in api.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.delete, &mut item.patch];
        for operation in operations.into_iter().flatten() {
            operation.responses.responses.insert("default".to_owned(), RefOr::T(response.clone()));
        }
    }
}

/// Adds the needed scope to every operation.
fn add_scopes(api: &mut OpenApi) {
    for (path, methods, rule) in rules() {
        let Some(item) = api.paths.paths.get_mut(&path) else { continue };
        for method in methods {
            let operation = match method {
                HttpMethod::Get => &mut item.get,
                HttpMethod::Post => &mut item.post,
                HttpMethod::Put => &mut item.put,
                HttpMethod::Delete => &mut item.delete,
                HttpMethod::Patch => &mut item.patch,
                _ => continue,
            };
            let requirement = match rule.need {
                Need::Nothing => SecurityRequirement::default(),
                need => SecurityRequirement::new("token", need.scope().map(Scope::as_str)),
            };
            if let Some(operation) = operation {
                operation.security = Some(vec![requirement]);
            }
        }
    }
}

fn generated() -> String {
    // The description is plain data, which always has a JSON form.
    let mut description = serde_json::to_value(api()).unwrap_or_default();
    without_null_of_absent(&mut description);
    serde_json::to_string_pretty(&description).unwrap_or_default()
}

// `make schemas` regenerates it.
#[test]
fn the_committed_description_is_up_to_date() {
    let generated = format!("{}\n", generated());
    if env::var_os("COGWORK_REGENERATE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/openapi.json");
        return fs::write(path, generated).expect("the description can be written");
    }
    assert!(generated == super::openapi(), "schemas/openapi.json is not up to date: make schemas");
}

/// The paths that the router itself knows, as its `Debug` form lists them.
fn routed() -> BTreeSet<String> {
    let text = format!("{:?}", router());
    let quoted = text.split('"').skip(1).step_by(2);
    quoted.filter(|path| path.starts_with("/api/") || *path == "/metrics").map(str::to_owned).collect()
}

#[test]
fn the_routes_match_the_api_description() {
    let described: BTreeSet<String> = api().paths.paths.keys().cloned().collect();
    assert_eq!(routed(), described);
    assert!(described.len() >= 19, "{described:?}");
}

#[test]
fn every_reference_in_the_description_resolves() {
    let text = generated();
    let api: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let references = text.split("\"#").skip(1).filter_map(|rest| rest.split('"').next());
    let mut count = 0;
    for reference in references {
        assert!(api.pointer(reference).is_some(), "{reference}");
        count += 1;
    }
    assert!(count > 20, "{count}");
}

#[test]
fn operation_ids_are_unique() {
    let mut names = BTreeSet::new();
    for item in api().paths.paths.into_values() {
        for operation in [item.get, item.post, item.put, item.delete].into_iter().flatten() {
            let name = operation.operation_id.expect("a name");
            assert!(names.insert(name.clone()), "{name}");
        }
    }
}

#[test]
fn every_described_operation_has_an_access_rule_and_names_its_scope() {
    let mut ruled = BTreeSet::new();
    for (path, methods, _) in rules() {
        for method in methods {
            assert!(ruled.insert(format!("{} {path}", key(&method))), "two rules for {path}");
        }
    }
    let api: serde_json::Value = serde_json::from_str(&generated()).expect("JSON");
    let mut described = BTreeSet::new();
    for (path, item) in api["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            described.insert(format!("{method} {path}"));
            let security = operation["security"].as_array().expect("a requirement of its own");
            assert_eq!(security.len(), 1, "{method} {path}");
        }
    }
    assert_eq!(ruled, described);
}

fn key(method: &HttpMethod) -> &'static str {
    match method {
        HttpMethod::Get => "get",
        HttpMethod::Post => "post",
        HttpMethod::Put => "put",
        HttpMethod::Delete => "delete",
        _ => "other",
    }
}

/// Operations that are no `GET` and yet change nothing: they check or describe what is sent to them.
const ONLY_ANSWER: [&str; 12] = [
    "/api/v1/plan",
    "/api/v1/validate",
    "/api/v1/automations/{id}/preview-payload",
    "/api/v1/trials",
    "/api/v1/tests/from-execution",
    "/api/v1/edit",
    "/api/v1/complete",
    "/api/v1/hover",
    "/api/v1/definition",
    "/api/v1/schedules/preview",
    "/api/v1/scaffold",
    "/api/v1/session/provider",
];

#[test]
fn changing_operations_need_more_than_read_and_are_audited() {
    for (path, methods, Rule { need, action }) in rules() {
        let changes = !methods.iter().all(|method| matches!(method, HttpMethod::Get))
            && !ONLY_ANSWER.contains(&path.as_str());
        assert_eq!(action.is_some(), changes, "{path}");
        let is_own_session = path.starts_with("/api/v1/session");
        if changes && !is_own_session {
            assert!(need.scope().is_some_and(|scope| scope >= Scope::Run), "{path} {need:?}");
        }
        let is_secret = ["/secret", "/tokens", "/audit"].iter().any(|part| path.contains(part));
        assert!(!is_secret || matches!(need, Need::Scope(Scope::Secrets | Scope::Admin)), "{path} {need:?}");
        let needs_none = match path.as_str() {
            "/api/v1/session" | "/api/v1/session/provider/return" => methods == [HttpMethod::Post],
            path => path == "/api/v1/session/provider",
        };
        assert_eq!(need == Need::Nothing, needs_none, "{path}");
    }
}

#[test]
fn every_operation_has_a_summary_a_tag_and_an_error_response() {
    for (path, item) in api().paths.paths {
        for operation in [item.get, item.post, item.put, item.delete].into_iter().flatten() {
            assert!(operation.summary.is_some_and(|summary| summary.len() > 5), "{path}");
            assert!(operation.tags.is_some_and(|tags| tags.len() == 1), "{path}");
            assert!(operation.responses.responses.contains_key("default"), "{path}");
        }
    }
}
