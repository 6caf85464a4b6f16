//! The table of the API: one row registers a route and describes it, so the two cannot part.

use std::sync::Arc;

use axum::routing::{MethodFilter, on};
use serde_json::{Value as Json, json};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate as _, SizeAbove};
use utoipa::Modify;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{OpenApi, RefOr};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::{PathItemExt as _, paste, routes};

use super::{
    Api, Problem, addresses, assist, automations, bulk, connections, connectors, definitions, editing,
    executions, export, files, follow, hosts, input, listening, metrics, notices, plan, polls, problem,
    replay, saved_payloads, secrets, session, state, statistics, status, stream, subscriptions, test_drafts,
    trials, turns, ui, values, waiting,
};

/// The size in bytes above which an answer is compressed, if the client takes that.
const COMPRESSED_FROM: u64 = 1024;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Cogwork",
        description = "The admin API of a Cogwork daemon. Every address takes the admin token as a bearer token; \
            errors are problems as RFC 9457 has them.",
    ),
    tags(
        (name = "status", description = "The daemon itself"),
        (name = "session", description = "Sessions of browsers, for the web UI"),
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

/// Makes the router of a table, and the description of what it routes. A row is what one path leads to; each handler says
/// for itself by which path and with which method. Nobody may ever ask for the description, and it takes more memory than
/// the rest of a small daemon, so it is made apart.
macro_rules! table {
    ($($first_in:ident::$first:ident $(, $more_in:ident::$more:ident)*;)+) => {
        fn routed() -> axum::Router<Arc<Api>> {
            paste! {
                axum::Router::new()$(.route(
                    &<$first_in::[<__path_ $first>] as utoipa::Path>::path(),
                    on(taken::<$first_in::[<__path_ $first>]>(), $first_in::$first)
                        $(.on(taken::<$more_in::[<__path_ $more>]>(), $more_in::$more))*,
                ))+
            }
        }

        fn described() -> OpenApiRouter<Arc<Api>> {
            OpenApiRouter::with_openapi(<Head as utoipa::OpenApi>::openapi())
                $(.routes(routes!($first_in::$first $(, $more_in::$more)*)))+
        }
    };
}

table! {
    status::status;
    status::reload;
    plan::plan, plan::plan_of;
    status::validate;
    automations::list;
    automations::show;
    automations::run;
    definitions::versions;
    definitions::show;
    automations::pair, automations::pairing;
    editing::enable;
    editing::disable;
    statistics::refusals;
    statistics::statistics;
    listening::listen, listening::captures, listening::stop;
    saved_payloads::payloads, saved_payloads::save;
    saved_payloads::preview;
    saved_payloads::payload, saved_payloads::put, saved_payloads::delete;
    saved_payloads::rename;
    addresses::rotate;
    subscriptions::list;
    polls::list;
    polls::show;
    polls::now;
    polls::reset;
    polls::rewind;
    executions::list;
    executions::show;
    values::values;
    input::input;
    export::route;
    turns::turns;
    executions::logs;
    executions::cancel;
    replay::replay;
    bulk::list, bulk::begin;
    bulk::show, bulk::stop;
    trials::run;
    test_drafts::from_execution;
    follow::events;
    stream::stream;
    waiting::signal;
    notices::events, waiting::emit;
    files::list;
    files::show, files::put, files::delete;
    editing::edit;
    assist::complete;
    assist::hover;
    assist::definition;
    assist::schema;
    assist::preview_schedule;
    assist::scaffold;
    session::begin, session::show, session::end;
    session::link;
    state::list;
    state::show, state::put, state::delete;
    secrets::list;
    secrets::put, secrets::delete;
    secrets::rotate;
    connectors::list;
    connectors::show;
    connections::list;
    connections::test;
    connections::begin_login, connections::login_state;
    hosts::list;
    status::description;
    metrics::metrics;
}

/// The methods by which a handler is reached.
fn taken<P: utoipa::Path>() -> MethodFilter {
    let methods = P::methods().into_iter().map(|method| method.to_method_filter());
    // A handler without any would be described as such, which a test forbids.
    methods.reduce(MethodFilter::or).unwrap_or(MethodFilter::TRACE)
}

/// The router.
pub(crate) fn router() -> axum::Router<Arc<Api>> {
    // Fast compression: on the same machine its time matters more than the last bytes. Files of the UI and streams are left
    // as they are.
    let worth_it = DefaultPredicate::new().and(SizeAbove::new(COMPRESSED_FROM));
    let compression = CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(worth_it);
    routed().fallback(ui::serve).layer(compression)
}

/// The table of its routes.
fn api() -> OpenApi {
    let mut api = described().into_openapi();
    env!("CARGO_PKG_VERSION").clone_into(&mut api.info.version);
    add_problems(&mut api);
    name_operations(&mut api);
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

/// The OpenAPI 3.1 description of the admin API, as JSON.
#[must_use]
pub fn openapi() -> String {
    // The description is plain data, which always has a JSON form.
    let mut description = serde_json::to_value(api()).unwrap_or_default();
    without_null_of_absent(&mut description);
    serde_json::to_string_pretty(&description).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The paths that the router itself knows, as its `Debug` form lists them.
    fn routed() -> BTreeSet<String> {
        let text = format!("{:?}", router());
        let quoted = text.split('"').skip(1).step_by(2);
        quoted.filter(|path| path.starts_with("/api/") || *path == "/metrics").map(str::to_owned).collect()
    }

    #[test]
    fn every_route_is_described_and_every_description_is_routed() {
        let described: BTreeSet<String> = api().paths.paths.keys().cloned().collect();
        assert_eq!(routed(), described);
        assert!(described.len() >= 19, "{described:?}");
    }

    #[test]
    fn every_reference_in_the_description_leads_somewhere() {
        let text = openapi();
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
    fn no_two_operations_have_the_same_name() {
        let mut names = BTreeSet::new();
        for item in api().paths.paths.into_values() {
            for operation in [item.get, item.post, item.put, item.delete].into_iter().flatten() {
                let name = operation.operation_id.expect("a name");
                assert!(names.insert(name.clone()), "{name}");
            }
        }
    }

    #[test]
    fn every_operation_says_what_it_does() {
        for (path, item) in api().paths.paths {
            for operation in [item.get, item.post, item.put, item.delete].into_iter().flatten() {
                assert!(operation.summary.is_some_and(|summary| summary.len() > 5), "{path}");
                assert!(operation.tags.is_some_and(|tags| tags.len() == 1), "{path}");
                assert!(operation.responses.responses.contains_key("default"), "{path}");
            }
        }
    }
}
