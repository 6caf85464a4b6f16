//! The table of the API: one row registers a route and describes it, so the two cannot part.

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use utoipa::Modify;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{OpenApi, RefOr};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{
    Api, Problem, automations, connections, connectors, executions, follow, hosts, listening, notices, plan,
    polls, problem, secrets, state, status, subscriptions, waiting,
};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Cogwork",
        description = "The admin API of a Cogwork daemon. Every address takes the admin token as a bearer token; \
            errors are problems as RFC 9457 has them.",
    ),
    tags(
        (name = "status", description = "The daemon itself"),
        (name = "automations", description = "What is in force"),
        (name = "executions", description = "What ran, and what runs"),
        (name = "state", description = "Values that outlive executions"),
        (name = "secrets", description = "What connections read: written and never read here"),
        (name = "connectors", description = "What automations can call"),
    ),
    modifiers(&Common),
    security(("token" = [])),
)]
struct Head;

/// What holds for the whole API.
struct Common;

impl Modify for Common {
    fn modify(&self, api: &mut OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        api.components.get_or_insert_default().add_security_scheme("token", scheme);
    }
}

/// The router and its description.
pub(crate) fn router() -> (axum::Router<Arc<Api>>, OpenApi) {
    let (router, mut api) = OpenApiRouter::with_openapi(<Head as utoipa::OpenApi>::openapi())
        .routes(routes!(status::status))
        .routes(routes!(status::reload))
        .routes(routes!(plan::plan))
        .routes(routes!(status::validate))
        .routes(routes!(automations::list))
        .routes(routes!(automations::show))
        .routes(routes!(automations::run))
        .routes(routes!(automations::pair, automations::pairing))
        .routes(routes!(listening::listen, listening::captures, listening::stop))
        .routes(routes!(listening::payloads, listening::save))
        .routes(routes!(listening::payload))
        .routes(routes!(subscriptions::list))
        .routes(routes!(polls::list))
        .routes(routes!(polls::show))
        .routes(routes!(polls::now))
        .routes(routes!(polls::reset))
        .routes(routes!(polls::rewind))
        .routes(routes!(executions::list))
        .routes(routes!(executions::show))
        .routes(routes!(executions::logs))
        .routes(routes!(executions::cancel))
        .routes(routes!(follow::events))
        .routes(routes!(waiting::signal))
        .routes(routes!(notices::events, waiting::emit))
        .routes(routes!(state::list))
        .routes(routes!(state::show, state::put, state::delete))
        .routes(routes!(secrets::list))
        .routes(routes!(secrets::put, secrets::delete))
        .routes(routes!(secrets::rotate))
        .routes(routes!(connectors::list))
        .routes(routes!(connectors::show))
        .routes(routes!(connections::list))
        .routes(routes!(connections::test))
        .routes(routes!(connections::begin_login, connections::login_state))
        .routes(routes!(hosts::list))
        .routes(routes!(description))
        .split_for_parts();
    env!("CARGO_PKG_VERSION").clone_into(&mut api.info.version);
    add_problems(&mut api);
    (router.fallback(async || Problem::nothing_here()), api)
}

/// Every operation may answer with a problem.
fn add_problems(api: &mut OpenApi) {
    let content = utoipa::openapi::ContentBuilder::new()
        .schema(Some(utoipa::openapi::Ref::from_schema_name("Problem")))
        .build();
    let response = utoipa::openapi::ResponseBuilder::new()
        .description("What went wrong (RFC 9457)")
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
    router().1.to_pretty_json().unwrap_or_default()
}

/// The description of this API
#[utoipa::path(
    get, path = "/api/openapi.json", tag = "status",
    responses((status = 200, description = "This document", body = Object)),
)]
async fn description(State(_): super::Shared) -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(openapi);
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The paths that the router itself knows, as its `Debug` form lists them.
    fn routed() -> BTreeSet<String> {
        let text = format!("{:?}", router().0);
        let quoted = text.split('"').skip(1).step_by(2);
        quoted.filter(|path| path.starts_with("/api/")).map(str::to_owned).collect()
    }

    #[test]
    fn every_route_is_described_and_every_description_is_routed() {
        let described: BTreeSet<String> = router().1.paths.paths.keys().cloned().collect();
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
    fn every_operation_says_what_it_does() {
        for (path, item) in router().1.paths.paths {
            for operation in [item.get, item.post, item.put, item.delete].into_iter().flatten() {
                assert!(operation.summary.is_some_and(|summary| summary.len() > 5), "{path}");
                assert!(operation.tags.is_some_and(|tags| tags.len() == 1), "{path}");
                assert!(operation.responses.responses.contains_key("default"), "{path}");
            }
        }
    }
}
