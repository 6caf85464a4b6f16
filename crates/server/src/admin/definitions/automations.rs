//! The Automations in force, and starting one.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use catalog::{Deployment, MissingSecret, Mount};
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use model::automation::{Trigger, TriggerKind, WebhookMode};
use model::{ExecutionId, Origin, Payload};
use runtime::ManualStart;
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
    /// The kind of its first trigger.
    trigger: TriggerKind,
    /// The first trigger in words, such as `sync` of a webhook, `daily at 08:30 (UTC)`, or the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_words: Option<String>,
    /// All triggers, in the order of the file.
    triggers: Vec<TriggerView>,
    /// The file, relative to the project folder.
    path: String,
    /// The hash of the definition in force.
    definition: String,
    /// When this definition came into force in this process of the daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force_since: Option<Timestamp>,
    /// The address of its first webhook, which starts it; only for credentials with the scope `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    live_url: Option<String>,
    /// The address of its first webhook that starts a test of it; only for credentials with the scope `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    test_url: Option<String>,
    /// The next instants at which its schedules fire.
    next_fires: Vec<Timestamp>,
    /// Starts of it that were refused or passed over since the daemon began, by reason.
    refused: BTreeMap<String, u64>,
    /// When each key of the `verify` of its first webhook last proved a request since the daemon began.
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

/// A trigger of an automation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Trigger)]
struct TriggerView {
    /// The id, `main` for the key `trigger`.
    id: String,
    /// The name in addresses of the API and in commands: `orders` for `main`, else `orders/paid`.
    name: String,
    kind: TriggerKind,
    /// As `triggerWords` of the automation.
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<String>,
    /// True if an own event starts it, whose name `words` is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_own_event: bool,
    /// True if it is mounted.
    enabled: bool,
    /// The address that starts it; only for credentials with the scope `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    live_url: Option<String>,
    /// The address that starts a test of it; only for credentials with the scope `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    test_url: Option<String>,
    /// The next instants at which its schedule fires.
    next_fires: Vec<Timestamp>,
    /// When each key of its `verify` last proved a request since the daemon began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys_used: Vec<KeyUsed>,
}

/// A key that proved a request.
#[derive(Clone, Debug, Serialize, ToSchema)]
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
        deployment: &Arc<Deployment>,
        missing: Vec<MissingSecret>,
        now: Timestamp,
    ) -> AutomationView {
        let automation = &deployment.automation;
        let stale = deployment.stale.as_ref();
        let triggers: Vec<TriggerView> = deployment.mounts().map(|mount| self.trigger(&mount, now)).collect();
        let webhook = triggers.iter().find(|trigger| trigger.live_url.is_some());
        let mut next_fires: Vec<_> =
            triggers.iter().flat_map(|trigger| &trigger.next_fires).copied().collect();
        next_fires.sort_unstable();
        next_fires.truncate(NEXT_FIRES);
        AutomationView {
            id: automation.id.to_string(),
            name: automation.name.clone(),
            description: automation.description.clone(),
            labels: automation.labels.clone(),
            enabled: automation.enabled,
            state: deployment.state(),
            trigger: triggers.first().map_or(TriggerKind::Manual, |trigger| trigger.kind),
            trigger_words: triggers.first().and_then(|trigger| trigger.words.clone()),
            path: automation.source.path().to_owned(),
            definition: automation.definition.to_string(),
            in_force_since: self.engine.deployment_times().since(&automation.id),
            live_url: webhook.and_then(|webhook| webhook.live_url.clone()),
            test_url: webhook.and_then(|webhook| webhook.test_url.clone()),
            next_fires,
            refused: self.engine.ingress().rejections_of(&automation.id),
            keys_used: webhook.map(|webhook| webhook.keys_used.clone()).unwrap_or_default(),
            triggers,
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
            for trigger in &mut self.triggers {
                (trigger.live_url, trigger.test_url) = (None, None);
            }
        }
        self
    }
}

impl Api {
    fn trigger(&self, mount: &Mount, now: Timestamp) -> TriggerView {
        let (key, base) = (mount.key(), self.public_url());
        let used = self.engine.ingress().keys_used(&key).into_iter();
        TriggerView {
            id: mount.declared().id.to_string(),
            name: mount.deployment.automation.trigger_key(&mount.declared().id).name(),
            kind: mount.on().kind(),
            words: trigger_words(mount),
            is_own_event: mount.on().own_event().is_some(),
            enabled: mount.is_enabled(),
            live_url: mount.live_url(&base),
            test_url: mount.test_url(&base),
            next_fires: mount.next_fires(now, NEXT_FIRES),
            keys_used: used.map(|(place, last_at)| KeyUsed { key: place + 1, last_at }).collect(),
        }
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
    let trigger = api.key_of(&id)?;
    Ok(Answer::ok(Pairing { open_until: api.engine.ingress().pairing(&trigger).await? }))
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
    /// The id of the trigger. Default: the manual one, else the only one.
    #[serde(default)]
    trigger: Option<String>,
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
    let mut body = body.map(|body| body.0).unwrap_or_default();
    let named = body.trigger.as_ref().map(|trigger| format!("{id}/{trigger}"));
    let mount = api.mount_of(named.as_deref().unwrap_or(&id), Mount::is_manual)?;
    let trigger = mount.key();
    let origin = if body.test { Origin::Test } else { Origin::Manual };
    let start = match body.saved.take() {
        None => start_of(body, &mount, origin, api.engine.clock().now())?,
        Some(name) if body.inputs.is_none() && body.payload.is_none() => {
            let saved = api.engine.ingress().saved_payload(&trigger, &name).await?;
            ManualStart::new(saved.payload, origin)
        }
        Some(_) => {
            let detail = "give `inputs`, `payload` or `saved`, one of them".to_owned();
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", detail));
        }
    };
    let engine = api.engine.clone();
    let execution = api.to_its_end(async move { engine.ingress().start(&trigger, start).await }).await??;
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

/// A trigger in words; `None` if its kind says it all.
fn trigger_words(mount: &Mount) -> Option<String> {
    match mount.on() {
        Trigger::Webhook(webhook) if webhook.mode == WebhookMode::Sync => Some("sync".to_owned()),
        Trigger::Webhook(_) => Some("async".to_owned()),
        Trigger::Schedule(_) => mount.schedule().map(|schedule| schedule.describe()),
        Trigger::Own(event) => Some(event.name.name.clone()),
        trigger => trigger.call().map(|call| call.action.name.clone()),
    }
}

fn accepted(execution: ExecutionId) -> Started {
    Started { execution_id: execution.to_string(), status: None, outcome: None }
}

fn start_of(body: RunBody, mount: &Mount, origin: Origin, now: Timestamp) -> Result<ManualStart, Problem> {
    let bad = |detail: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", detail);
    let inputs = body.inputs.map(|inputs| -> Map {
        inputs.into_iter().map(|(name, value)| (name, Value::from_serde(value))).collect()
    });
    let read = |given| crate::admin::triggers::payload::read(given, mount, now);
    Ok(match (inputs, body.payload) {
        (Some(_), Some(_)) if mount.is_manual() => {
            return Err(bad("give `inputs` or `payload`, not both".to_owned()));
        }
        (inputs, Some(given)) => ManualStart { payload: read(given)?, inputs, origin },
        (inputs, None) => match mount.schedule() {
            // Steps read when it was due.
            Some(schedule) => ManualStart { payload: schedule.payload(now, now), inputs, origin },
            None => ManualStart::new(Payload::manual(inputs.unwrap_or_default()), origin),
        },
    })
}
