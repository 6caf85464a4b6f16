//! Replays of executions: one, from its start or from a step.

use std::collections::HashSet;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use model::payload::WebhookPayload;
use model::{Event, Payload, StepOutcome};
use runtime::{RepeatedCall, ReplayPlan, ReplayRequest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use value::redact::MASK;

use crate::admin::auth::guard::DryRun;
use crate::admin::definitions::automations::located;
use crate::admin::extract::{Answer, Body, Segment};
use crate::admin::{Api, Problem, Shared};

/// The maximum of named steps that keep their results.
const MAX_KEPT: usize = 50;

/// The version of the automation that a replay runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Version {
    /// The version in force.
    #[default]
    Current,
    /// The version that the execution ran on.
    Original,
}

/// The options of a replay.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReplayBody {
    /// The step to begin at, with its iteration indices: `save`, `copy[2]`. The steps before it keep their recorded results.
    /// Default: the first step.
    from: Option<String>,
    /// The payload, in the form of a start: a whole payload with its `kind`, or its parts. Parts of a request that are
    /// missing, and headers with the value `***`, are those of the recorded one. Default: the recorded payload.
    #[schema(value_type = Option<crate::admin::triggers::payload::StartPayload>)]
    payload: Option<serde_json::Value>,
    /// The version that it runs on.
    #[serde(default)]
    definition: Version,
    /// True for a test, with a state of its own. Default: as the execution was.
    test: Option<bool>,
    /// True to start nothing, and to return what the replay would do.
    #[serde(default)]
    dry_run: bool,
}

/// A replay, started or planned.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Replay {
    /// The id of the new execution; absent if nothing was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<String>,
    /// The execution that it replays.
    replay_of: String,
    automation: String,
    /// The hash of the version that it runs on.
    definition: String,
    /// True if it is a test.
    test: bool,
    /// The step that it begins at; absent if it is the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// The number of steps that keep their recorded results.
    kept_steps: u32,
    /// The ids of these steps, each once, in the order in which they ended; at most 50.
    kept: Vec<String>,
    /// The steps that call other systems again, or may do so, in the order of the file.
    calls: Vec<RepeatedCall>,
}

/// The ids of the steps that ended in these events, without their turns.
fn kept_ids(events: &[Event]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for event in events {
        let Event::StepFinished { step, outcome, .. } = event else { continue };
        let id = step.split('[').next().unwrap_or_default();
        if ids.len() < MAX_KEPT && *outcome != StepOutcome::Skipped && ids.iter().all(|known| known != id) {
            ids.push(id.to_owned());
        }
    }
    ids
}

impl Replay {
    fn new(replay_of: model::ExecutionId, plan: &ReplayPlan) -> Self {
        let from = match &plan.origin {
            model::Origin::Replay { from, .. } => from.clone(),
            _ => None,
        };
        Self {
            execution_id: None,
            replay_of: replay_of.to_string(),
            automation: plan.deployment.automation.id.to_string(),
            definition: plan.deployment.automation.definition.to_string(),
            test: plan.origin.is_test(),
            from,
            kept_steps: plan.kept_steps,
            kept: kept_ids(&plan.kept),
            calls: plan.calls.clone(),
        }
    }
}

impl Api {
    /// Prepares a replay as a client requests it.
    async fn plan_replay(&self, id: model::ExecutionId, body: ReplayBody) -> Result<ReplayPlan, Problem> {
        let ReplayBody { from, payload, definition, test, dry_run: _ } = body;
        let request = ReplayRequest { from, payload: None, original: definition == Version::Original, test };
        let records = self.engine.records();
        let Some(given) = payload else { return Ok(records.plan_replay(id, request).await?) };
        let store = self.engine.store();
        let row = store.execution(id).await?.ok_or(runtime::Error::NoSuchExecution(id))?;
        let deployment = records.replayed_deployment(&row, request.original).await?;
        let parts: HashSet<String> =
            given.as_object().into_iter().flat_map(|parts| parts.keys().cloned()).collect();
        // The version may lack the trigger that started it.
        let mount = deployment.mount(&row.trigger).map_or_else(|| deployment.default_mount(|_| true), Ok)?;
        let mut payload = crate::admin::triggers::payload::read(given, &mount, self.engine.clock().now())?;
        if let Payload::Webhook(edited) = &mut payload {
            // The memory is free again before the plan asks for its own.
            let recorded = self.engine.context().read_events(&row).await?;
            if let Some(Event::Started { payload: recorded, .. }) =
                recorded.as_ref().and_then(|(events, _)| events.first())
                && let Payload::Webhook(recorded) = &**recorded
            {
                complete(edited, recorded, &parts);
            }
        }
        Ok(records.plan_replay(id, ReplayRequest { payload: Some(payload), ..request }).await?)
    }
}

/// Completes an edited request with the parts of the recorded one that were not given.
fn complete(edited: &mut WebhookPayload, recorded: &WebhookPayload, parts: &HashSet<String>) {
    let has = |names: &[&str]| names.iter().any(|name| parts.contains(*name));
    if !has(&["method"]) {
        edited.method.clone_from(&recorded.method);
    }
    if !has(&["path", "pathFragment"]) {
        edited.path_fragment.clone_from(&recorded.path_fragment);
    }
    if !has(&["query", "queryParameters", "rawQuery"]) {
        edited.query_parameters.clone_from(&recorded.query_parameters);
        edited.raw_query.clone_from(&recorded.raw_query);
    }
    if has(&["headers"]) {
        // A client sees credentials masked, and sends them back so.
        for (name, value) in &mut edited.headers {
            if value == MASK
                && let Some(known) = recorded.headers.get(name)
            {
                value.clone_from(known);
            }
        }
    } else {
        let content_type = edited.headers.remove("content-type");
        edited.headers.clone_from(&recorded.headers);
        if let Some(content_type) = content_type {
            edited.headers.insert("content-type".to_owned(), content_type);
        }
    }
    if !has(&["body"]) {
        edited.body.clone_from(&recorded.body);
        if !has(&["headers"])
            && let Some(content_type) = recorded.headers.get("content-type")
        {
            edited.headers.insert("content-type".to_owned(), content_type.clone());
        }
    }
}

/// Replay an execution
///
/// A replay is a new execution with idempotency keys of its own: it really calls other systems. The answer is sent when it is
/// stored.
#[utoipa::path(
    post, path = "/api/v1/executions/{id}/replay", tag = "executions", request_body = Option<ReplayBody>,
    params(("id" = String, Path, description = "The execution's id, or a beginning that no other has")),
    responses(
        (status = 200, description = "The plan of a replay that was not started (`dryRun`)", body = Replay),
        (status = 202, description = "The replay was accepted; it runs, or will", body = Replay),
    ),
)]
pub(crate) async fn replay(
    State(api): Shared,
    Segment(id): Segment,
    body: Option<Body<ReplayBody>>,
) -> Result<Response, Problem> {
    let (id, body) = (api.execution_id(&id).await?, body.map(|body| body.0).unwrap_or_default());
    let dry_run = body.dry_run;
    let plan = api.plan_replay(id, body).await?;
    let mut view = Replay::new(id, &plan);
    if dry_run {
        return Ok((Extension(DryRun), Answer::ok(view)).into_response());
    }
    let engine = api.engine.clone();
    let new = api.to_its_end(async move { engine.ingress().replay(plan).await }).await??;
    view.execution_id = Some(new.to_string());
    Ok(located(new, Answer(StatusCode::ACCEPTED, view)))
}
