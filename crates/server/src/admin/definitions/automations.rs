//! The Automations in force, and starting one.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use catalog::{Catalog, Deployment, MissingSecret};
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use model::automation::{Trigger, TriggerKind, WebhookMode};
use model::{AutomationId, ExecutionId, Origin, Payload};
use runtime::Start;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use value::{Map, Value};

use crate::admin::auth::credential::Credential;
use crate::admin::auth::scope::Scope;
use crate::admin::extract::{Answer, Body, Query, Segment, outside, tagged};
use crate::admin::operations::status::{DiagnosticView, diagnostics};
use crate::admin::{Api, Problem, Shared};

/// Number of next instants of a schedule in an answer.
const NEXT_FIRES: usize = 5;

/// An automation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Automation)]
struct AutomationView {
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    labels: Vec<String>,
    /// True if its trigger is mounted.
    enabled: bool,
    state: catalog::DeploymentState,
    /// The kind of its trigger.
    trigger: TriggerKind,
    /// The trigger in words, such as `sync` of a webhook, `daily at 08:30 (UTC)`, or the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_words: Option<String>,
    /// The file, relative to the project folder.
    path: String,
    /// The hash of the definition in force.
    definition: String,
    /// When this definition came into force in this process of the daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force_since: Option<Timestamp>,
    /// The address that starts it; only for credentials with the scope `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    live_url: Option<String>,
    /// The address that starts a test of it; only for credentials with the scope `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    test_url: Option<String>,
    /// The next instants at which its schedule fires.
    next_fires: Vec<Timestamp>,
    /// Starts of it that were refused or passed over since the daemon began, by reason.
    refused: BTreeMap<String, u64>,
    /// When each key of its `verify` last proved a request since the daemon began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys_used: Vec<KeyUsed>,
    /// The secrets that it or its connections need and that are not set, its trigger's first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_secrets: Vec<MissingSecret>,
    /// Number of errors in its file.
    errors: usize,
    /// Number of warnings in its file.
    warnings: usize,
}

/// A key that proved a request.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct KeyUsed {
    /// Position in `keys`, from 1 in their order.
    key: usize,
    /// When it last did.
    last_at: Timestamp,
}

/// The automations in force, and the files that are not.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Automations {
    /// In force, by id.
    automations: Vec<AutomationView>,
    /// Files that do not load and have no last good version in force.
    broken: Vec<BrokenView>,
}

/// A file that does not load.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Broken)]
struct BrokenView {
    /// Relative to the project folder.
    path: String,
    /// Why.
    diagnostics: Vec<DiagnosticView>,
}

/// One automation with its source.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AutomationDetail {
    #[serde(flatten)]
    automation: AutomationView,
    /// The text of the definition in force.
    source: String,
    /// The diagnostics of its file.
    diagnostics: Vec<DiagnosticView>,
    /// Its steps, list by list, with their verbs and dependencies.
    plan: catalog::Graph,
    /// The inputs of a manual start.
    #[schema(value_type = Vec<model::InputSpec>)]
    inputs: serde_json::Value,
}

impl Api {
    fn automation(
        &self,
        deployment: &Deployment,
        missing: Vec<MissingSecret>,
        now: Timestamp,
    ) -> AutomationView {
        let (automation, base) = (&deployment.automation, self.public_url());
        let stale = deployment.stale.as_ref();
        AutomationView {
            id: automation.id.to_string(),
            name: automation.name.clone(),
            description: automation.description.clone(),
            labels: automation.labels.clone(),
            enabled: automation.enabled,
            state: deployment.state(),
            trigger: automation.trigger.kind(),
            trigger_words: trigger_words(deployment),
            path: automation.source.path().to_owned(),
            definition: automation.definition.to_string(),
            in_force_since: self.engine.deployment_times().since(&automation.id),
            live_url: deployment.live_url(&base),
            test_url: deployment.test_url(&base),
            next_fires: deployment.next_fires(now, NEXT_FIRES),
            refused: self.engine.ingress().rejections_of(&automation.id),
            keys_used: self.keys_used(&automation.id),
            missing_secrets: missing,
            errors: stale.map_or(0, |report| report.error_count()),
            warnings: stale.unwrap_or(&deployment.warnings).warning_count(),
        }
    }
}

impl AutomationView {
    /// Removes the addresses, which start executions without another credential, if this one may not start them.
    fn shown_to(mut self, credential: &Credential) -> Self {
        if !credential.scopes.allow(Scope::Run) {
            (self.live_url, self.test_url) = (None, None);
        }
        self
    }
}

impl Api {
    fn keys_used(&self, automation: &AutomationId) -> Vec<KeyUsed> {
        let used = self.engine.ingress().keys_used(automation).into_iter();
        used.map(|(place, last_at)| KeyUsed { key: place + 1, last_at }).collect()
    }
}

/// The automations in force
///
/// The answer has an `ETag`; with `If-None-Match` an answer that has not changed is 304 without a body.
#[utoipa::path(
    get, path = "/api/v1/automations", tag = "automations",
    responses(
        (status = 200, description = "In force, by id, and the files that are not", body = Automations),
        (status = 304, description = "It is the answer that the client has"),
    ),
)]
pub(crate) async fn list(
    State(api): Shared,
    Extension(credential): Extension<Credential>,
    headers: HeaderMap,
) -> Response {
    let (catalog, now) = (api.engine.catalog(), api.engine.clock().now());
    let broken = catalog.invalid_files().into_iter();
    let in_force = catalog.automations().map(|deployment| &*deployment.automation);
    let missing = api.engine.context().missing_secrets_of(in_force);
    let listed = Automations {
        automations: catalog
            .automations()
            .zip(missing)
            .map(|(deployment, missing)| api.automation(deployment, missing, now).shown_to(&credential))
            .collect(),
        broken: broken
            .map(|broken| BrokenView {
                path: broken.path.clone(),
                diagnostics: diagnostics([&*broken.report]),
            })
            .collect(),
    };
    // A tag of the answer itself: it also has counts and instants that change while the generation of the catalog does not.
    tagged(&listed, &headers)
}

/// One automation with its source, its steps and what there is to say of its file
#[utoipa::path(
    get, path = "/api/v1/automations/{id}", tag = "automations",
    params(("id" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "The automation", body = AutomationDetail)),
)]
pub(crate) async fn show(
    State(api): Shared,
    Extension(credential): Extension<Credential>,
    Segment(id): Segment,
) -> Result<Answer<AutomationDetail>, Problem> {
    let catalog = api.engine.catalog();
    let deployment = catalog.find(&id)?;
    let (automation, now) = (&deployment.automation, api.engine.clock().now());
    let report = deployment.stale.as_ref().unwrap_or(&deployment.warnings);
    let missing = api.engine.context().missing_secrets_of([&**automation]).remove(0);
    Ok(Answer::ok(AutomationDetail {
        automation: api.automation(deployment, missing, now).shown_to(&credential),
        source: automation.source.text().to_owned(),
        diagnostics: diagnostics([&**report]),
        plan: api.graph(deployment),
        inputs: serde_json::to_value(&automation.inputs).unwrap_or_default(),
    }))
}

/// A sender's secret that is waited for.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pairing {
    /// Until when it is waited for; nothing where it is not, or has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    open_until: Option<Timestamp>,
}

/// Wait for the secret that a sender brings along, for ten minutes
#[utoipa::path(
    post, path = "/api/v1/automations/{id}/pair", tag = "automations",
    params(("id" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "It is waited for", body = Pairing)),
)]
pub(crate) async fn pair(State(api): Shared, Segment(id): Segment) -> Result<Answer<Pairing>, Problem> {
    Ok(Answer::ok(Pairing { open_until: Some(api.engine.ingress().pair(&id).await?) }))
}

/// Show if a sender's secret is awaited
#[utoipa::path(
    get, path = "/api/v1/automations/{id}/pair", tag = "automations",
    params(("id" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "Whether it is", body = Pairing)),
)]
pub(crate) async fn pairing(State(api): Shared, Segment(id): Segment) -> Result<Answer<Pairing>, Problem> {
    let automation = id_of(&api.engine.catalog(), &id)?;
    Ok(Answer::ok(Pairing { open_until: api.engine.ingress().pairing(&automation).await? }))
}

/// The data of a start: inputs, a whole payload of an earlier start, or the name of a saved one.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RunBody {
    /// Inputs by name.
    #[serde(default)]
    #[schema(value_type = Option<HashMap<String, value::Json>>)]
    inputs: Option<serde_json::Map<String, serde_json::Value>>,
    /// The payload: for a webhook a request, `{method, headers, query, path, body}`; for a poll or an event `{data}`;
    /// for a schedule `{scheduledAt}`. Each part has a default. Alternatively a whole payload with its `kind`, as it
    /// was saved.
    #[serde(default)]
    #[schema(value_type = Option<crate::admin::triggers::payload::StartPayload>)]
    payload: Option<serde_json::Value>,
    /// The name of a saved payload.
    #[serde(default)]
    saved: Option<String>,
    /// True for a test: listed apart, with a state of its own.
    #[serde(default)]
    test: bool,
}

/// Input and options of a start.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct RunQuery {
    /// True to wait for the end, for at most 30 seconds.
    #[serde(default)]
    wait: bool,
}

/// An execution that was started.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Started {
    execution_id: String,
    /// Where it stands, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<model::Status>,
    /// Its end: `outcome` with `result`, `error` or `reason`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<model::Outcome>)]
    outcome: Option<serde_json::Value>,
}

/// Start an automation
#[utoipa::path(
    post, path = "/api/v1/automations/{id}/run", tag = "automations", request_body = Option<RunBody>,
    params(("id" = String, Path, description = "The automation's id"), RunQuery),
    responses(
        (status = 200, description = "It was waited for and has ended", body = Started),
        (status = 202, description = "It was accepted; it runs, or will", body = Started),
    ),
)]
pub(crate) async fn run(
    State(api): Shared,
    Segment(id): Segment,
    Query(query): Query<RunQuery>,
    body: Option<Body<RunBody>>,
) -> Result<Response, Problem> {
    let deployment = api.engine.catalog().find(&id)?.clone();
    let automation = deployment.automation.id.clone();
    let mut body = body.map(|body| body.0).unwrap_or_default();
    let origin = if body.test { Origin::Test } else { Origin::Manual };
    let payload = match body.saved.take() {
        None => payload(body, &deployment, api.engine.clock().now())?,
        Some(name) if body.inputs.is_none() && body.payload.is_none() => {
            api.engine.ingress().saved_payload(&automation, &name).await?.payload
        }
        Some(_) => {
            let detail = "give `inputs`, `payload` or `saved`, one of them".to_owned();
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", detail));
        }
    };
    let (engine, start) = (api.engine.clone(), Start { payload, origin });
    let execution = api.to_its_end(async move { engine.ingress().start(&automation, start).await }).await??;
    if query.wait
        && let Ok(outcome) = tokio::time::timeout(api.wait, api.engine.admission().wait(execution)).await
    {
        let outcome = outcome?;
        let status = Some(outcome.status());
        let execution_id = execution.to_string();
        let started = Started { execution_id, status, outcome: Some(outside(&outcome)) };
        return Ok(located(execution, Answer::ok(started)));
    }
    Ok(located(execution, Answer(StatusCode::ACCEPTED, accepted(execution))))
}

/// An answer that names the address of the execution that was started.
pub(crate) fn located<T: Serialize>(execution: ExecutionId, answer: Answer<T>) -> Response {
    ([(LOCATION, format!("{}{execution}", crate::admin::executions::PATH))], answer).into_response()
}

/// The trigger of a deployment in words; `None` if its kind says it all.
fn trigger_words(deployment: &Deployment) -> Option<String> {
    match &deployment.automation.trigger {
        Trigger::Webhook(webhook) if webhook.mode == WebhookMode::Sync => Some("sync".to_owned()),
        Trigger::Webhook(_) => Some("async".to_owned()),
        Trigger::Schedule(_) => deployment.schedule.as_ref().map(|schedule| schedule.describe()),
        trigger => trigger.call().map(|call| call.action.name.clone()),
    }
}

fn accepted(execution: ExecutionId) -> Started {
    Started { execution_id: execution.to_string(), status: None, outcome: None }
}

fn id_of(catalog: &Catalog, name: &str) -> Result<model::AutomationId, Problem> {
    Ok(catalog.find(name)?.automation.id.clone())
}

fn payload(body: RunBody, deployment: &Deployment, now: Timestamp) -> Result<Payload, Problem> {
    let bad = |detail: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", detail);
    match (body.inputs, body.payload) {
        (Some(_), Some(_)) => Err(bad("give `inputs` or `payload`, not both".to_owned())),
        (None, Some(given)) => crate::admin::triggers::payload::read(given, deployment, now),
        // Steps read when it was due.
        (None, None) if let Some(schedule) = &deployment.schedule => Ok(schedule.payload(now, now)),
        (inputs, None) => {
            let inputs = inputs.unwrap_or_default().into_iter();
            let inputs: Map = inputs.map(|(name, value)| (name, Value::from_serde(value))).collect();
            Ok(Payload::manual(inputs))
        }
    }
}
