//! Help for editors: completion, descriptions, definitions, schemas, schedules in words, and new files.

use authoring::{AssistRequest, CompletionItem, TextRange};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use runtime::ExpressionValue;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::admin::executions::recorded::RecordedWhole;
use crate::admin::extract::{Answer, Body, Segment};
use crate::admin::{Api, Problem, Shared};

/// A place in a text of a project file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TextPlace {
    /// The path that the file has, or would have, in the project folder.
    #[schema(example = "automations/order.yaml")]
    path: String,
    /// The text; it need not be valid.
    text: String,
    /// The offset in UTF-16 units from 0.
    offset: usize,
}

/// Items that complete what stands before a place.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Completion {
    /// Start of the range that an item replaces, in UTF-16 units.
    from: usize,
    /// End of the range.
    to: usize,
    /// The items, at most 500.
    items: Vec<ItemView>,
}

/// An item of a completion.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CompletionItem)]
struct ItemView {
    /// The name.
    label: String,
    /// `key`, `value`, `action`, `input`, `connection`, `step`, `member`, `secret`, `function`, `filter`, `test`, `template`.
    kind: &'static str,
    /// A few words beside the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// A description.
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<String>,
    /// The text to insert, if it is not the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    insert: Option<String>,
}

impl From<CompletionItem> for ItemView {
    fn from(item: CompletionItem) -> Self {
        let CompletionItem { label, kind, detail, about, insert } = item;
        Self { label, kind, detail, about, insert }
    }
}

/// A place in a text of a project file, and a recorded execution.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HoverRequest {
    /// The path that the file has, or would have, in the project folder.
    #[schema(example = "automations/order.yaml")]
    path: String,
    /// The text; it need not be valid.
    text: String,
    /// The offset in UTF-16 units from 0.
    offset: usize,
    /// An execution whose values are shown: its id, or a beginning that no other has.
    execution: Option<String>,
}

/// A description of what stands at a place.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HoverView {
    /// Start of the range that is described, in UTF-16 units; absent if nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<usize>,
    /// End of the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<usize>,
    /// A key, an action, an expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The value of an expression in the execution; absent if no execution was named, or its version is no longer known.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<HoverValue>,
}

/// The value of an expression in a recorded execution.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct HoverValue {
    /// The value as JSON, secrets masked, at most 2,000 characters; absent if there is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<String>,
    /// True if the JSON was cut.
    cut: bool,
    /// The error of the evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The step at whose beginning the value is read, with its iterations; absent for the end of the execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
}

/// The maximum number of characters of the JSON of a value.
const VALUE_CHARS: usize = 2000;

impl From<ExpressionValue> for HoverValue {
    fn from(found: ExpressionValue) -> Self {
        let ExpressionValue { value, step } = found;
        let (json, error) = match value {
            Ok(value) => (Some(value.to_json()), None),
            Err(error) => (None, Some(error.message.clone())),
        };
        let end = json.as_ref().and_then(|json| json.char_indices().nth(VALUE_CHARS)).map(|(end, _)| end);
        let json = json.map(|mut json| {
            json.truncate(end.unwrap_or(json.len()));
            json
        });
        Self { json, cut: end.is_some(), error, step }
    }
}

/// The place where a name is defined.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DefinitionView {
    /// The path of its file; absent if the name is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Start of its range in the text, in UTF-16 units; absent if it is in another file.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<usize>,
    /// End of its range.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<usize>,
}

/// Runs a look-up on a blocking thread: it is bounded by the size of the text, but not short.
async fn look_up<T: Send + 'static>(
    api: &Api,
    place: TextPlace,
    look: impl FnOnce(&AssistRequest<'_>) -> T + Send + 'static,
) -> Result<T, Problem> {
    let catalog = api.engine.catalog();
    let secrets: Vec<String> =
        api.engine.context().secrets().into_iter().map(|secret| secret.name.to_string()).collect();
    api.check(move || {
        let TextPlace { path, text, offset } = &place;
        look(&AssistRequest { catalog: &catalog, secrets: &secrets, path, text, offset: *offset })
    })
    .await
}

/// Complete a text at a place
///
/// Keys, actions, inputs, connections, steps, members of results, secrets by name, functions and filters. The text need not be valid.
#[utoipa::path(
    post, path = "/api/v1/complete", tag = "files", request_body = TextPlace,
    responses((status = 200, description = "The possible texts at that place", body = Completion)),
)]
pub(crate) async fn complete(
    State(api): Shared,
    Body(place): Body<TextPlace>,
) -> Result<Answer<Completion>, Problem> {
    let found = look_up(&api, place, authoring::complete).await?;
    let TextRange { from, to } = found.range;
    Ok(Answer::ok(Completion { from, to, items: found.items.into_iter().map(Into::into).collect() }))
}

/// Describe what stands at a place of a text
///
/// With `execution`, an expression has the value that it had where its step began in that execution.
#[utoipa::path(
    post, path = "/api/v1/hover", tag = "files", request_body = HoverRequest,
    responses((status = 200, description = "Its description; empty if nothing is known", body = HoverView)),
)]
pub(crate) async fn hover(
    State(api): Shared,
    Body(request): Body<HoverRequest>,
) -> Result<Answer<HoverView>, Problem> {
    let HoverRequest { path, text, offset, execution } = request;
    let Some(hover) = look_up(&api, TextPlace { path, text, offset }, authoring::hover).await? else {
        return Ok(Answer::ok(HoverView::default()));
    };
    let value = match (execution, &hover.expression) {
        (Some(id), Some(expression)) => {
            let RecordedWhole { row, events, _memory } = api.execution(&id).await?;
            let records = api.engine.records();
            records.expression_value(&row, events, hover.step.as_deref(), expression).await
        }
        _ => None,
    };
    let text = (!hover.text.is_empty()).then_some(hover.text);
    if text.is_none() && value.is_none() {
        return Ok(Answer::ok(HoverView::default()));
    }
    Ok(Answer::ok(HoverView {
        from: Some(hover.range.from),
        to: Some(hover.range.to),
        title: Some(hover.title),
        text,
        value: value.map(HoverValue::from),
    }))
}

/// Find where the name at a place of a text is defined
#[utoipa::path(
    post, path = "/api/v1/definition", tag = "files", request_body = TextPlace,
    responses((status = 200, description = "Its place; empty if the name is not known", body = DefinitionView)),
)]
pub(crate) async fn definition(
    State(api): Shared,
    Body(place): Body<TextPlace>,
) -> Result<Answer<DefinitionView>, Problem> {
    let found = look_up(&api, place, authoring::definition).await?;
    Ok(Answer::ok(found.map_or_else(DefinitionView::default, |found| DefinitionView {
        path: Some(found.path),
        from: found.range.map(|range| range.from),
        to: found.range.map(|range| range.to),
    })))
}

/// Read a JSON Schema of the project's files
#[utoipa::path(
    get, path = "/api/v1/schemas/{name}", tag = "files",
    params(("name" = String, Path, description = "`automation`, `connection`, `connector` or `test`")),
    responses(
        (status = 200, description = "The schema, with the actions and connections in force", body = value::Json),
        (status = 304, description = "It is the one that `If-None-Match` names"),
    ),
)]
pub(crate) async fn schema(
    State(api): Shared,
    Segment(name): Segment,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let catalog = api.engine.catalog();
    // A schema depends on the snapshot and the version of the program alone.
    let etag = format!("\"{}-{}\"", env!("CARGO_PKG_VERSION"), catalog.generation());
    if headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes()) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, etag)]).into_response());
    }
    let work = tokio::task::spawn_blocking(move || authoring::schema(&catalog, &name));
    let found = work.await.map_err(|error| Problem::internal(&error))?;
    let Some(schema) = found else {
        let detail = "there are the schemas `automation`, `connection`, `connector` and `test`";
        return Err(Problem::not_found("unknown_schema", detail));
    };
    let headers = [(CONTENT_TYPE, "application/schema+json".to_owned()), (ETAG, etag)];
    Ok((headers, schema.to_string()).into_response())
}

/// A schedule to explain.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SchedulePreviewRequest {
    /// The value of `schedule` in a trigger.
    #[schema(value_type = value::Json, example = json!({"daily": {"at": "08:30"}, "timezone": "Europe/Berlin"}))]
    schedule: serde_json::Value,
}

/// A schedule in words.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SchedulePreview {
    /// In words; absent if it has errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<String>,
    /// Its time zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    /// The next five instants.
    next_fires: Vec<Timestamp>,
    /// The errors, each in a sentence.
    errors: Vec<String>,
}

/// Explain a schedule
#[utoipa::path(
    post, path = "/api/v1/schedules/preview", tag = "files", request_body = SchedulePreviewRequest,
    responses((status = 200, description = "In words, with the next instants", body = SchedulePreview)),
)]
pub(crate) async fn preview_schedule(
    State(api): Shared,
    Body(request): Body<SchedulePreviewRequest>,
) -> Answer<SchedulePreview> {
    let found = authoring::preview_schedule(&request.schedule, api.engine.clock().now());
    Answer::ok(SchedulePreview {
        words: found.words,
        timezone: found.timezone,
        next_fires: found.next_fires,
        errors: found.errors,
    })
}

/// A new automation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ScaffoldRequest {
    /// Its name for people.
    #[schema(example = "Invoice intake")]
    name: String,
    /// Its id; by default made of the name.
    id: Option<String>,
    /// The kind of its trigger: `webhook`, `schedule`, `poll`, `event` or `manual`.
    #[schema(example = "webhook")]
    trigger: String,
    /// Operations on its text, in the form of `POST /edit`.
    #[serde(default)]
    operations: Vec<language::edit::Operation>,
    /// A payload that has come already: the first step reads its fields, and the first test starts with it.
    from: Option<PayloadSource>,
    /// An action that the one step calls, with the inputs of its example; the first test answers the call. Not with `from`.
    #[schema(example = "wiki.createPage")]
    action: Option<String>,
}

/// Where a payload comes from: an execution, or a saved payload or a capture of an automation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PayloadSource {
    /// The execution's id, or a beginning that no other has.
    execution: Option<String>,
    /// The automation's id, for `saved` and `capture`.
    automation: Option<String>,
    /// The name of a saved payload.
    saved: Option<String>,
    /// The number of a capture.
    capture: Option<u32>,
}

impl Api {
    /// Reads a payload, and describes it in words.
    async fn payload_from(&self, source: PayloadSource) -> Result<(model::Payload, String), Problem> {
        let PayloadSource { execution, automation, saved, capture } = source;
        match (execution, automation, saved, capture) {
            (Some(id), None, None, None) => {
                let RecordedWhole { row, events, _memory } = self.execution(&id).await?;
                let Some(model::Event::Started { payload, .. }) = events.first() else {
                    return Err(runtime::Error::NoSuchExecution(row.id).into());
                };
                Ok((model::Payload::clone(payload), format!("execution {}", row.id)))
            }
            (None, Some(automation), Some(name), None) => {
                let found = self.engine.ingress().saved_payload(&self.key_of(&automation)?, &name).await?;
                Ok((found.payload, format!("the saved payload {name}")))
            }
            (None, Some(automation), None, Some(number)) => {
                let found = self.captured_payload(&self.key_of(&automation)?, number).await?;
                Ok((found, format!("the captured request {number}")))
            }
            _ => {
                let detail = "`from` is `execution`, or `automation` with `saved` or `capture`";
                Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", detail))
            }
        }
    }
}

/// The texts of a new automation. Nothing is written.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Scaffold)]
pub(crate) struct ScaffoldView {
    /// Its id.
    id: String,
    /// The path of its file.
    path: String,
    /// The text of its file.
    text: String,
    /// The path of its first tests.
    test_path: String,
    /// The text of its first tests.
    test: String,
    /// Connections that it names and that are not there yet.
    connections: Vec<NewFile>,
    /// True if there is a file at its path already.
    exists: bool,
}

/// A file to create.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NewFile {
    /// Its path.
    path: String,
    /// Its text.
    text: String,
}

/// Write the texts of a new automation and of its first tests
///
/// The same texts as `cogwork new`. Nothing is stored; `PUT /files` with `If-None-Match: *` creates them.
#[utoipa::path(
    post, path = "/api/v1/scaffold", tag = "files", request_body = ScaffoldRequest,
    responses((status = 200, description = "The texts", body = ScaffoldView)),
)]
pub(crate) async fn scaffold(
    State(api): Shared,
    Body(request): Body<ScaffoldRequest>,
) -> Result<Answer<ScaffoldView>, Problem> {
    let wrong = |detail: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_scaffold", detail);
    let kind = authoring::scaffold::Kind::find(&request.trigger).ok_or_else(|| {
        let names = authoring::scaffold::KINDS.map(|kind| kind.name).join(", ");
        wrong(format!("`{}` is no kind of trigger: there are {names}", request.trigger))
    })?;
    let name = request.name.trim();
    let id = match &request.id {
        Some(id) => model::AutomationId::parse(id),
        None => authoring::scaffold::suggest_id(name),
    };
    let id = id.ok_or_else(|| {
        wrong("an id has lower-case letters, digits and `-`, and begins with a letter or digit".to_owned())
    })?;
    let catalog = api.engine.catalog();
    let new = match (request.from, request.action) {
        (None, None) => authoring::scaffold::new_automation(&catalog, kind, &id, name),
        (None, Some(action)) => {
            authoring::scaffold::automation_with_action(&catalog, (kind, &id, name), &action)
                .map_err(wrong)?
        }
        (Some(source), None) => {
            let (payload, source) = api.payload_from(source).await?;
            authoring::scaffold::automation_for_payload(&catalog, (kind, &id, name), &source, &payload)
                .map_err(wrong)?
        }
        (Some(_), Some(_)) => return Err(wrong("give `from` or `action`, not both".to_owned())),
    };
    let edited = language::edit::edit_file(&new.path, &new.text, &request.operations)
        .map_err(|error| super::editing::problem(&error))?;
    let exists = api.engine.read_file(new.path.clone()).await.is_ok();
    Ok(Answer::ok(ScaffoldView {
        id: id.to_string(),
        path: new.path,
        text: edited.text,
        test_path: new.test_path,
        test: new.test,
        connections: new.connections.into_iter().map(|(path, text)| NewFile { path, text }).collect(),
        exists,
    }))
}
