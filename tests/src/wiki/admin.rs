//! The control API of the program: `/_sim/...`, for another process that scripts a running simulator.
//!
//! It answers callers on this machine only, and no page of a browser: a request with an `Origin` header is refused.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::clock::Moment;
use super::core::Core;
use super::demo::{ALL_SCOPES, DEMO_CLIENT_ID, DEMO_EMAIL};
use super::error::ApiError;
use super::faults::Fault;
use super::graphql::GraphqlAnswer;
use super::limits::RateLimit;
use super::pipeline::Shared;
use super::query::Query;
use super::reply::Reply;
use super::seed::SpaceSeed;

/// The overview for `GET /_sim/help`.
const HELP: [(&str, &str); 17] = [
    (
        "GET /_sim/requests",
        "the request log; filter with ?method=, ?path= (a pattern with *), ?after= (a sequence)",
    ),
    ("DELETE /_sim/requests", "forget the request log"),
    ("GET /_sim/faults", "the faults still to come"),
    (
        "POST /_sim/faults",
        "add one fault or an array of them, e.g. {\"method\":\"POST\",\"path\":\"*/pages\",\"status\":500}",
    ),
    ("DELETE /_sim/faults", "forget every fault"),
    ("POST /_sim/release", "release the calls that a fault holds"),
    ("GET /_sim/clock", "what time it is"),
    (
        "POST /_sim/clock",
        "move the clock forwards: {\"advanceMs\":3600000} or {\"to\":\"2026-02-01T00:00:00Z\"}",
    ),
    ("GET /_sim/switches", "the switches"),
    (
        "POST /_sim/switches",
        "change some: {\"listLagMs\":500,\"oldNextLinks\":true}; {\"words\":{\"documentFormat\":\"other\"}}",
    ),
    ("POST /_sim/rate-limit", "set a budget: {\"requests\":5,\"windowMs\":10000}; null lifts it"),
    (
        "POST /_sim/grants",
        "hand out OAuth tokens: {\"email\":\"demo@example.com\",\"scope\":\"read:page:wiki\"}",
    ),
    ("DELETE /_sim/grants", "revoke every consent"),
    (
        "POST /_sim/accessible-resources",
        "what the list of sites answers, any JSON; null goes back to the sites",
    ),
    (
        "POST /_sim/graphql",
        "register an answer: {\"operation\":\"Name\",\"data\":{},\"errors\":[],\"requiresHeader\":\"x-a\"}",
    ),
    ("POST /_sim/spaces", "add a space: {\"key\":\"NEW\",\"name\":\"New\"}"),
    (
        "POST /_sim/custom-content",
        "add custom content to a page: {\"pageId\":\"...\",\"type\":\"ac:a:b\",\"title\":\"...\"}",
    ),
];

/// Carries out a request of the control API. `place` is the path after `/_sim/`.
pub(super) fn answer(
    shared: &Shared,
    method: &str,
    place: &str,
    query: &Query,
    headers: &HeaderMap,
    body: &Bytes,
) -> Reply {
    if headers.contains_key("origin") {
        return refuse(StatusCode::FORBIDDEN, "the control API is not for pages of a browser");
    }
    if place == "release" && method == "POST" {
        shared.release.send_modify(|count| *count = count.wrapping_add(1));
        return Reply::no_content();
    }
    let mut core = shared.core();
    match carry_out(&mut core, method, place, query, body) {
        Ok(reply) => reply,
        Err(Refusal::Unknown) => refuse(StatusCode::NOT_FOUND, "no such control; GET /_sim/help lists them"),
        Err(Refusal::Bad(why)) => refuse(StatusCode::BAD_REQUEST, &why),
    }
}

enum Refusal {
    Unknown,
    Bad(String),
}

impl From<super::Error> for Refusal {
    fn from(error: super::Error) -> Self {
        Self::Bad(error.to_string())
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self::Bad(error.to_string())
    }
}

fn refuse(status: StatusCode, why: &str) -> Reply {
    Reply::json(status, &json!({"error": why}))
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::Bad(format!("cannot read the body: {error}")))
}

fn carry_out(
    core: &mut Core,
    method: &str,
    place: &str,
    query: &Query,
    body: &Bytes,
) -> Result<Reply, Refusal> {
    match (method, place) {
        ("GET", "help") => {
            let lines: Vec<Value> =
                HELP.iter().map(|(call, what)| json!({"call": call, "does": what})).collect();
            Ok(Reply::ok(&lines))
        }
        ("GET", "requests") => requests(core, query),
        ("DELETE", "requests") => {
            core.log.clear();
            Ok(Reply::no_content())
        }
        ("GET", "faults") => Ok(Reply::ok(&json!({"pending": core.script.pending()}))),
        ("POST", "faults") => faults(core, body),
        ("DELETE", "faults") => {
            core.script.clear();
            Ok(Reply::no_content())
        }
        ("GET", "clock") => Ok(clock(core)),
        ("POST", "clock") => move_clock(core, body),
        ("GET", "switches") => Ok(Reply::ok(&core.state.switches)),
        ("POST", "switches") => switches(core, body),
        ("POST", "rate-limit") => {
            let limit: Option<RateLimit> = read(body)?;
            core.limits.set(limit.clone());
            Ok(Reply::ok(&limit))
        }
        ("POST", "grants") => grant(core, body),
        ("DELETE", "grants") => {
            core.oauth.revoke_all();
            Ok(Reply::no_content())
        }
        ("POST", "accessible-resources") => {
            core.resources = Some(read::<Value>(body)?).filter(|answer| !answer.is_null());
            Ok(Reply::no_content())
        }
        ("POST", "graphql") => graphql(core, body),
        ("POST", "spaces") => space(core, body),
        ("POST", "custom-content") => custom_content(core, body),
        _ => Err(Refusal::Unknown),
    }
}

fn requests(core: &Core, query: &Query) -> Result<Reply, Refusal> {
    let (method, path) = (query.get("method").unwrap_or("*"), query.get("path").unwrap_or("*"));
    let after = match query.get("after") {
        Some(text) => {
            text.parse().map_err(|_| Refusal::Bad("`after` must be a sequence number".to_owned()))?
        }
        None => 0_u64,
    };
    let wanted: Vec<_> =
        core.log.requests().filter(|request| request.sequence > after && request.is(method, path)).collect();
    Ok(Reply::ok(&json!({"total": core.log.total(), "requests": wanted})))
}

fn faults(core: &mut Core, body: &Bytes) -> Result<Reply, Refusal> {
    let faults: Vec<Fault> = match read::<Value>(body)? {
        Value::Array(_) => read(body)?,
        _ => vec![read(body)?],
    };
    for fault in faults {
        core.script.add(fault)?;
    }
    Ok(Reply::ok(&json!({"pending": core.script.pending().len()})))
}

fn clock(core: &Core) -> Reply {
    Reply::ok(&json!({"now": core.state.clock.now()}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MoveClock {
    #[serde(default)]
    advance_ms: u64,
    #[serde(default)]
    to: Option<String>,
}

fn move_clock(core: &mut Core, body: &Bytes) -> Result<Reply, Refusal> {
    let wanted: MoveClock = read(body)?;
    let mut by = Duration::from_millis(wanted.advance_ms);
    if let Some(text) = &wanted.to {
        let to =
            Moment::parse(text).ok_or_else(|| Refusal::Bad("`to` must be an ISO 8601 instant".to_owned()))?;
        let ahead = u64::try_from(to.millis() - core.state.clock.now().millis());
        by += Duration::from_millis(
            ahead.map_err(|_| Refusal::Bad("the clock only moves forwards".to_owned()))?,
        );
    }
    core.state.clock.advance(by);
    Ok(clock(core))
}

fn switches(core: &mut Core, body: &Bytes) -> Result<Reply, Refusal> {
    let mut merged = serde_json::to_value(&core.state.switches).unwrap_or_default();
    let changes: serde_json::Map<String, Value> = read(body)?;
    for (name, value) in changes {
        merged[name] = value;
    }
    core.state.switches = serde_json::from_value(merged).map_err(|error| Refusal::Bad(error.to_string()))?;
    Ok(Reply::ok(&core.state.switches))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WantedGrant {
    #[serde(default = "demo_email")]
    email: String,
    #[serde(default = "demo_client")]
    client_id: String,
    #[serde(default = "all_scopes")]
    scope: String,
}

fn demo_email() -> String {
    DEMO_EMAIL.to_owned()
}

fn demo_client() -> String {
    DEMO_CLIENT_ID.to_owned()
}

fn all_scopes() -> String {
    ALL_SCOPES.to_owned()
}

fn grant(core: &mut Core, body: &Bytes) -> Result<Reply, Refusal> {
    let wanted: WantedGrant = read(body)?;
    let account =
        core.state.account_id(&wanted.email).ok_or_else(|| Refusal::Bad("no such user".to_owned()))?;
    let account = account.to_owned();
    let now = core.state.clock.now();
    Ok(Reply::ok(&core.oauth.grant(&wanted.client_id, &account, &wanted.scope, now)))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WantedAnswer {
    operation: String,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    errors: Vec<Value>,
    #[serde(default)]
    requires_header: Option<String>,
}

fn graphql(core: &mut Core, body: &Bytes) -> Result<Reply, Refusal> {
    let wanted: WantedAnswer = read(body)?;
    let answer = GraphqlAnswer::errors(wanted.data, wanted.errors);
    let answer = match &wanted.requires_header {
        Some(name) => answer.requires_header(name),
        None => answer,
    };
    core.graphql.register(&wanted.operation, answer)?;
    Ok(Reply::no_content())
}

#[derive(Serialize)]
struct Made {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WantedSpace {
    key: String,
    name: String,
    #[serde(default)]
    description: String,
}

fn space(core: &mut Core, body: &Bytes) -> Result<Reply, Refusal> {
    let wanted: WantedSpace = read(body)?;
    let seed = SpaceSeed::new(&wanted.key, &wanted.name).description(&wanted.description);
    Ok(Reply::ok(&Made { id: core.state.add_space(seed)?.to_string() }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WantedContent {
    page_id: String,
    #[serde(rename = "type")]
    kind: String,
    title: String,
}

fn custom_content(core: &mut Core, body: &Bytes) -> Result<Reply, Refusal> {
    let wanted: WantedContent = read(body)?;
    let page = super::query::parse_id("pageId", &wanted.page_id)?;
    Ok(Reply::ok(&Made { id: core.state.add_custom_content(page, &wanted.kind, &wanted.title)?.to_string() }))
}
