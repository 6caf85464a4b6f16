//! Payloads saved by name, and the preview of payloads.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::header::IF_MATCH;
use http::{HeaderMap, StatusCode};
use ingress::{PayloadError, PayloadPreview, PayloadProblem, SavedPayload};
use model::Payload;
use model::automation::TriggerKey;
use model::payload::WebhookPayload;
use serde::{Deserialize, Serialize};
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use value::File;

use crate::admin::extract::{Answer, Body, Segment, Segments, optional_header};
use crate::admin::files::project_files::{quoted, with_etag};
use crate::admin::{Api, Problem, Shared};

/// A payload in the form of its file and of a capture: files in it are marked, so that a start reads them back exactly.
pub(crate) enum StoredPayload {}

impl PartialSchema for StoredPayload {
    fn schema() -> RefOr<Schema> {
        with_marks(&Payload::schema())
    }
}

impl ToSchema for StoredPayload {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Payload::schemas(schemas);
        schemas.push(("StoredWebhookPayload".to_owned(), with_marks(&WebhookPayload::schema())));
        let file = Ref::from_schema_name(File::name());
        let file = ObjectBuilder::new().description(Some("A file with its mark.")).property("$file", file);
        schemas.push(("StoredFile".to_owned(), file.required("$file").into()));
    }
}

/// The schema with marked files.
fn with_marks(schema: &RefOr<Schema>) -> RefOr<Schema> {
    let text = serde_json::to_string(schema).unwrap_or_default();
    let text = text.replace("/WebhookPayload\"", "/StoredWebhookPayload\"");
    serde_json::from_str(&text.replace("/FileValue\"", "/StoredFile\"")).unwrap_or_else(|_| schema.clone())
}

/// A payload to save: a capture by its number, or one written out.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SaveBody {
    /// Its name: letters, digits, `.`, `_` and `-`.
    name: String,
    /// The number of the capture.
    capture: Option<u32>,
    /// The payload of a start with this request.
    #[schema(value_type = Option<crate::admin::triggers::payload::StartPayload>)]
    payload: Option<serde_json::Value>,
}

/// A new name of a saved payload.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RenameBody {
    /// Letters, digits, `.`, `_` and `-`.
    to: String,
}

/// A payload to preview: one written out, a capture by its number, or a saved one by its name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PreviewBody {
    /// As `payload` of a start.
    #[schema(value_type = Option<crate::admin::triggers::payload::StartPayload>)]
    payload: Option<serde_json::Value>,
    /// The number of a capture.
    capture: Option<u32>,
    /// The name of a saved payload.
    saved: Option<String>,
}

/// The payloads that are saved for an automation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Payloads {
    /// By name.
    payloads: Vec<SavedPayload>,
}

impl From<PayloadError> for Problem {
    fn from(error: PayloadError) -> Self {
        let detail = error.to_string();
        match error {
            PayloadError::Missing { .. } => Self::not_found("unknown_payload", detail),
            PayloadError::Changed { .. } => {
                Self::new(StatusCode::PRECONDITION_FAILED, "payload_changed", detail)
            }
            PayloadError::Taken(_) => Self::new(StatusCode::CONFLICT, "name_taken", detail),
            PayloadError::Name(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_name", detail),
            PayloadError::Malformed { .. } | PayloadError::Refused { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_payload", detail)
            }
            PayloadError::Io { .. } => Self::internal(&error),
        }
    }
}

impl Api {
    /// A payload that a client wrote, for this trigger.
    fn payload_of(&self, trigger: &TriggerKey, given: serde_json::Value) -> Result<Payload, Problem> {
        let mount = self.engine.catalog().find_mount(trigger)?;
        super::payload::read(given, &mount, self.engine.clock().now())
    }

    /// The payload of a capture.
    pub(crate) async fn captured_payload(
        &self,
        automation: &TriggerKey,
        number: u32,
    ) -> Result<Payload, Problem> {
        let view = self.captured(automation, number.saturating_sub(1), Duration::ZERO).await?;
        let found = view.captures.into_iter().find(|capture| capture.number == number);
        let found = found.ok_or_else(|| bad_body(format!("there is no capture {number}")))?;
        Ok(Payload::clone(&found.payload))
    }
}

fn bad_body(detail: String) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", detail)
}

/// The version that a change replaces; `None` for any.
fn expected(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let etag = optional_header(headers, IF_MATCH)?;
    let etag = etag.map(|etag| etag.trim().trim_matches('"').to_owned());
    Ok(etag.filter(|etag| etag != "*"))
}

/// The payloads that are saved for an automation
#[utoipa::path(
    get, path = "/api/v1/automations/{id}/payloads", tag = "automations",
    params(("id" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "By name", body = Payloads)),
)]
pub(crate) async fn payloads(State(api): Shared, Segment(id): Segment) -> Result<Answer<Payloads>, Problem> {
    let saved = api.engine.ingress().saved_payloads(&api.key_of(&id)?).await?;
    Ok(Answer::ok(Payloads { payloads: saved }))
}

/// A payload that was saved, as `payload` of a start takes it
#[utoipa::path(
    get, path = "/api/v1/automations/{id}/payloads/{name}", tag = "automations",
    params(
        ("id" = String, Path, description = "The automation's id"),
        ("name" = String, Path, description = "Its name"),
    ),
    responses((status = 200, description = "The payload with its `kind`; its version is the ETag", body = crate::admin::triggers::saved_payloads::StoredPayload)),
)]
pub(crate) async fn payload(State(api): Shared, Segments(id, name): Segments) -> Result<Response, Problem> {
    let found = api.engine.ingress().saved_payload(&api.key_of(&id)?, &name).await?;
    Ok(with_etag(Answer::ok(found.payload), &quoted(&found.version)))
}

/// Save a capture, or a payload written out, under a name
#[utoipa::path(
    post, path = "/api/v1/automations/{id}/payloads", tag = "automations", request_body = SaveBody,
    params(("id" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "It is saved", body = SavedPayload)),
)]
pub(crate) async fn save(
    State(api): Shared,
    Segment(id): Segment,
    Body(body): Body<SaveBody>,
) -> Result<Answer<SavedPayload>, Problem> {
    api.check_writable()?;
    let automation = api.key_of(&id)?;
    let payload = match (body.capture, body.payload) {
        (Some(number), None) => api.captured_payload(&automation, number).await?,
        (None, Some(given)) => api.payload_of(&automation, given)?,
        _ => return Err(bad_body("give `capture` or `payload`, one of both".to_owned())),
    };
    let saved = api.engine.ingress().save_payload(&automation, &body.name, payload, None).await?;
    Ok(Answer::ok(saved))
}

/// Save a payload under this name, in place of the one that had it
///
/// `If-Match` names the version that was read; without it any version is replaced.
#[utoipa::path(
    put, path = "/api/v1/automations/{id}/payloads/{name}", tag = "automations", request_body = crate::admin::triggers::payload::StartPayload,
    params(
        ("id" = String, Path, description = "The automation's id"),
        ("name" = String, Path, description = "Its name"),
    ),
    responses(
        (status = 200, description = "It is saved", body = SavedPayload),
        (status = 412, description = "It was changed meanwhile", body = Problem),
    ),
)]
pub(crate) async fn put(
    State(api): Shared,
    Segments(id, name): Segments,
    headers: HeaderMap,
    Body(given): Body<serde_json::Value>,
) -> Result<Answer<SavedPayload>, Problem> {
    api.check_writable()?;
    let automation = api.key_of(&id)?;
    let payload = api.payload_of(&automation, given)?;
    let saved = api.engine.ingress().save_payload(&automation, &name, payload, expected(&headers)?).await?;
    Ok(Answer::ok(saved))
}

/// Rename a saved payload
#[utoipa::path(
    post, path = "/api/v1/automations/{id}/payloads/{name}/rename", tag = "automations", request_body = RenameBody,
    params(
        ("id" = String, Path, description = "The automation's id"),
        ("name" = String, Path, description = "Its name"),
    ),
    responses(
        (status = 200, description = "It has the new name", body = SavedPayload),
        (status = 409, description = "Another payload has the new name", body = Problem),
    ),
)]
pub(crate) async fn rename(
    State(api): Shared,
    Segments(id, name): Segments,
    Body(body): Body<RenameBody>,
) -> Result<Answer<SavedPayload>, Problem> {
    api.check_writable()?;
    Ok(Answer::ok(api.engine.ingress().rename_payload(&api.key_of(&id)?, &name, &body.to).await?))
}

/// Show what steps would read of a payload, with all that is wrong with it; starts nothing
#[utoipa::path(
    post, path = "/api/v1/automations/{id}/preview-payload", tag = "automations", request_body = PreviewBody,
    params(("id" = String, Path, description = "The automation's id")),
    responses((status = 200, description = "The results and the problems", body = PayloadPreview)),
)]
pub(crate) async fn preview(
    State(api): Shared,
    Segment(id): Segment,
    Body(body): Body<PreviewBody>,
) -> Result<Answer<PayloadPreview>, Problem> {
    let automation = api.key_of(&id)?;
    let payload = match (body.payload, body.capture, body.saved) {
        (Some(given), None, None) => {
            let mount = api.engine.catalog().find_mount(&automation)?;
            match super::payload::read_all(given, &mount, api.engine.clock().now()) {
                Ok(payload) => payload,
                Err(wrong) => {
                    let problems = wrong.into_iter();
                    let problems =
                        problems.map(|message| PayloadProblem { code: "bad_payload", message }).collect();
                    let view = PayloadPreview { problems, ..PayloadPreview::default() };
                    return Ok(Answer::ok(view));
                }
            }
        }
        (None, Some(number), None) => api.captured_payload(&automation, number).await?,
        (None, None, Some(name)) => api.engine.ingress().saved_payload(&automation, &name).await?.payload,
        _ => return Err(bad_body("give `payload`, `capture` or `saved`, one of them".to_owned())),
    };
    Ok(Answer::ok(api.engine.ingress().preview_payload(&automation, &payload).await?))
}

/// The result of a deletion
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeletedPayload {
    /// False where none was saved under the name.
    deleted: bool,
}

/// Delete a saved payload; `If-Match` names the version that was read
#[utoipa::path(
    delete, path = "/api/v1/automations/{id}/payloads/{name}", tag = "automations",
    params(
        ("id" = String, Path, description = "The automation's id"),
        ("name" = String, Path, description = "Its name"),
    ),
    responses(
        (status = 200, description = "Whether there was one", body = DeletedPayload),
        (status = 412, description = "It was changed meanwhile", body = Problem),
    ),
)]
pub(crate) async fn delete(
    State(api): Shared,
    Segments(id, name): Segments,
    headers: HeaderMap,
) -> Result<Answer<DeletedPayload>, Problem> {
    api.check_writable()?;
    let deleted = api.engine.ingress().delete_payload(&api.key_of(&id)?, &name, expected(&headers)?).await?;
    Ok(Answer::ok(DeletedPayload { deleted }))
}
