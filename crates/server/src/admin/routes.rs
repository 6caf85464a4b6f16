//! The table of the API: one row registers a route and describes it, so the two cannot part.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::handler::Handler;
use axum::middleware::{Next, from_fn};
use axum::routing::{MethodFilter, MethodRouter, on};
use serde_json::{Value as Json, json};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate as _, SizeAbove};
use utoipa::Modify;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{HttpMethod, OpenApi, RefOr};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::{PathItemExt as _, paste, routes};

use super::auth::guard::{self, Need, Rule};
use super::auth::scope::Scope;
use super::auth::{audit, login, session, tokens};
use super::definitions::{automations, connections, connectors, deployments, plan, versions};
use super::executions::{
    bulk, execution, execution_list, export, follow, import, input, replay, trials, turns, values, waiting,
};
use super::files::{assist, editing, project_files, test_drafts, ui};
use super::operations::{hosts, metrics, nodes, notices, secrets, state, statistics, status, stream};
use super::triggers::{addresses, listening, polls, saved_payloads, subscriptions};
use super::{Api, Problem, problem};

/// The size in bytes above which an answer is compressed, if the client takes that.
const COMPRESSED_FROM: u64 = 1024;

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

/// Makes the router of a table. A row is what one path leads to: each handler after the [`Need`] of its route and, if it changes
/// something, the word for that in the audit log. A handler says for itself by which path and with which method. Nobody may ever ask for the
/// description, and it takes more memory than the rest of a small daemon, so it is made apart.
macro_rules! table {
    ($($need:ident $($act:literal)? $first_in:ident::$first:ident
        $(, $more_need:ident $($more_act:literal)? $more_in:ident::$more:ident)*;)+) => {
        fn routed() -> axum::Router<Arc<Api>> {
            paste! {
                axum::Router::new()$(.route(
                    &<$first_in::[<__path_ $first>] as utoipa::Path>::path(),
                    guarded::<$first_in::[<__path_ $first>], _, _>(rule!($need $($act)?), $first_in::$first)
                        $(.merge(guarded::<$more_in::[<__path_ $more>], _, _>(
                            rule!($more_need $($more_act)?), $more_in::$more,
                        )))*,
                ))+
            }
        }

        fn described() -> OpenApiRouter<Arc<Api>> {
            OpenApiRouter::with_openapi(<Head as utoipa::OpenApi>::openapi())
                $(.routes(routes!($first_in::$first $(, $more_in::$more)*)))+
        }

        /// Each operation with its rule.
        fn rules() -> Vec<(String, Vec<HttpMethod>, Rule)> {
            paste! {
                vec![$(
                    row::<$first_in::[<__path_ $first>]>(rule!($need $($act)?)),
                    $(row::<$more_in::[<__path_ $more>]>(rule!($more_need $($more_act)?)),)*
                )+]
            }
        }
    };
}

macro_rules! rule {
    ($need:ident) => {
        Rule { need: need!($need), action: None }
    };
    ($need:ident $action:literal) => {
        Rule { need: need!($need), action: Some($action) }
    };
}

macro_rules! need {
    (Nothing) => {
        Need::Nothing
    };
    (Credential) => {
        Need::Credential
    };
    ($scope:ident) => {
        Need::Scope(Scope::$scope)
    };
}

table! {
    Read status::status;
    Write "reload" status::reload;
    Read plan::plan, Read plan::plan_of;
    Read status::validate;
    Read automations::list;
    Read automations::show;
    Run "start" automations::run;
    Read versions::versions;
    Read versions::show;
    Secrets "pair" automations::pair, Read automations::pairing;
    Write "enable" editing::enable;
    Write "disable" editing::disable;
    Read statistics::refusals;
    Read statistics::statistics;
    Run "listen" listening::listen, Read listening::captures, Run "stopListening" listening::stop;
    Read saved_payloads::payloads, Write "savePayload" saved_payloads::save;
    Read saved_payloads::preview;
    Read saved_payloads::payload, Write "savePayload" saved_payloads::put, Write "deletePayload" saved_payloads::delete;
    Write "renamePayload" saved_payloads::rename;
    Secrets "rotateAddress" addresses::rotate;
    Read subscriptions::list;
    Run "trySubscription" subscriptions::attempt;
    Write "forgetSubscription" subscriptions::forget;
    Read polls::list;
    Read polls::show;
    Run "poll" polls::now;
    Write "resetPoll" polls::reset;
    Write "rewindPoll" polls::rewind;
    Read execution_list::list;
    Read execution_list::latest;
    Read execution::show;
    Read values::values;
    Read input::input;
    Read export::route;
    Read turns::turns;
    Read execution::logs;
    Run "cancel" execution::cancel;
    Run "replay" replay::replay;
    Read bulk::list, Run "startBulk" bulk::begin;
    Read bulk::show, Run "stopBulk" bulk::stop;
    Admin "importExecutions" import::import;
    Run trials::run;
    Run test_drafts::from_execution;
    Read follow::events;
    Read stream::stream;
    Run "answer" waiting::signal;
    Read waiting::answers;
    Read notices::events, Run "sendEvent" waiting::emit;
    Read project_files::list;
    Read project_files::show, Write "changeFile" project_files::put, Write "deleteFile" project_files::delete;
    Read editing::edit;
    Read assist::complete;
    Read assist::hover;
    Read assist::definition;
    Read assist::schema;
    Read assist::preview_schedule;
    Read assist::scaffold;
    Nothing "logIn" session::begin, Credential session::show, Credential "logOut" session::end;
    Nothing login::provider, Nothing login::begin;
    Nothing "logIn" login::end;
    Credential "createLink" session::link;
    Read state::list;
    Read state::show, Write "changeState" state::put, Write "deleteState" state::delete;
    Secrets secrets::list;
    Secrets "setSecret" secrets::put, Secrets "deleteSecret" secrets::delete;
    Secrets "changeKey" secrets::rotate;
    Read connectors::list;
    Read connectors::show;
    Read connections::list;
    Run "testConnection" connections::test;
    Secrets "connect" connections::begin_login, Read connections::login_state;
    Read hosts::list;
    Read nodes::list;
    Read deployments::list, Write "deploy" deployments::deploy;
    Write "restoreDeployment" deployments::restore;
    Credential status::description;
    Metrics metrics::metrics;
    Admin tokens::list, Admin "createToken" tokens::create;
    Admin "revokeToken" tokens::revoke;
    Admin audit::list;
}

/// A handler behind the rule of its route.
fn guarded<P: utoipa::Path, H, T>(rule: Rule, handler: H) -> MethodRouter<Arc<Api>>
where
    H: Handler<T, Arc<Api>>,
    T: 'static,
{
    behind(rule, on(taken::<P>(), handler))
}

/// A route behind its rule. Not generic, so that the compiler makes the layer once and not for each handler.
fn behind(rule: Rule, route: MethodRouter<Arc<Api>>) -> MethodRouter<Arc<Api>> {
    route.route_layer(from_fn(move |request: Request, next: Next| guard::check(rule, request, next)))
}

fn row<P: utoipa::Path>(rule: Rule) -> (String, Vec<HttpMethod>, Rule) {
    (P::path(), P::methods(), rule)
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
    // The listener has read the body within the limit of the route; that of axum, 2 MB, would refuse larger ones.
    routed().fallback(ui::serve).layer(compression).layer(DefaultBodyLimit::disable())
}

/// The table of its routes.
fn api() -> OpenApi {
    let mut api = described().into_openapi();
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
    fn the_routes_match_the_api_description() {
        let described: BTreeSet<String> = api().paths.paths.keys().cloned().collect();
        assert_eq!(routed(), described);
        assert!(described.len() >= 19, "{described:?}");
    }

    #[test]
    fn every_reference_in_the_description_resolves() {
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
        let api: serde_json::Value = serde_json::from_str(&openapi()).expect("JSON");
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
            assert!(
                !is_secret || matches!(need, Need::Scope(Scope::Secrets | Scope::Admin)),
                "{path} {need:?}"
            );
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
}
