//! Edits of texts in an editor, and of the key `enabled`.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::header::IF_MATCH;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use text::yaml::edit::EditError;
use utoipa::ToSchema;

use super::project_files::{Changed, Written};
use crate::admin::auth::credential::Credential;
use crate::admin::extract::{Answer, Body, Segment, optional_header};
use crate::admin::operations::status::{DiagnosticView, diagnostics};
use crate::admin::{Problem, Shared};

/// Operations on a text that is not stored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Edit {
    /// The path that the file has, or would have, in the project folder.
    #[schema(example = "automations/order.yaml")]
    path: String,
    /// The text.
    text: String,
    /// The operations, applied in this order; at most 100.
    operations: Vec<language::edit::Operation>,
}

/// The changes that operations make.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EditChanges)]
pub(crate) struct Edited {
    /// The changes of the text, ascending and disjoint. No other byte changes.
    changes: Vec<ChangeView>,
    /// The diagnostics of the changed text.
    diagnostics: Vec<DiagnosticView>,
}

/// A change of a text.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TextChange)]
struct ChangeView {
    /// Start of the replaced range, in UTF-16 units from 0.
    from: usize,
    /// End of the replaced range.
    to: usize,
    /// The new text.
    insert: String,
}

/// Edit a text in place without writing it
///
/// The data differ exactly by the operations and every comment stays; otherwise the answer is 422 `edit_unsafe`.
#[utoipa::path(
    post, path = "/api/v1/edit", tag = "files", request_body = Edit,
    responses((status = 200, description = "The changes", body = Edited)),
)]
pub(crate) async fn edit(State(api): Shared, Body(request): Body<Edit>) -> Result<Answer<Edited>, Problem> {
    let catalog = api.engine.catalog();
    // Parsing and checking is work for a processor, bounded by the size of the text but not short.
    let work = api.check(move || {
        let (changes, report) =
            authoring::edit_text(&catalog, &request.path, &request.text, &request.operations)?;
        Ok((changes, diagnostics([&report])))
    });
    let (changes, diagnostics) = work.await?.map_err(|error| problem(&error))?;
    let change = |change: authoring::TextChange| ChangeView {
        from: change.from,
        to: change.to,
        insert: change.insert,
    };
    Ok(Answer::ok(Edited { changes: changes.into_iter().map(change).collect(), diagnostics }))
}

/// Mount the trigger of an automation again
///
/// Sets `enabled: true` in its file, for `ID/TRIGGER` in this trigger; no other byte of it changes. `If-Match` may name the version that was read.
#[utoipa::path(
    post, path = "/api/v1/automations/{id}/enable", tag = "automations",
    params(("id" = String, Path, description = "The automation's id, or `ID/TRIGGER`")),
    responses(
        (status = 200, description = "It is written and reloaded", body = Written),
        (status = 412, description = "The file was changed meanwhile", body = Changed),
    ),
)]
pub(crate) async fn enable(
    State(api): Shared,
    Segment(id): Segment,
    Extension(credential): Extension<Credential>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    set_enabled(&api, id, true, &headers, &credential).await
}

/// Unmount the trigger of an automation
///
/// Sets `enabled: false` in its file, for `ID/TRIGGER` in this trigger; no other byte of it changes. Executions that run go on.
/// `If-Match` may name the version that was read.
#[utoipa::path(
    post, path = "/api/v1/automations/{id}/disable", tag = "automations",
    params(("id" = String, Path, description = "The automation's id, or `ID/TRIGGER`")),
    responses(
        (status = 200, description = "It is written and reloaded", body = Written),
        (status = 412, description = "The file was changed meanwhile", body = Changed),
    ),
)]
pub(crate) async fn disable(
    State(api): Shared,
    Segment(id): Segment,
    Extension(credential): Extension<Credential>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    set_enabled(&api, id, false, &headers, &credential).await
}

async fn set_enabled(
    api: &crate::admin::Api,
    id: String,
    enabled: bool,
    headers: &HeaderMap,
    credential: &Credential,
) -> Result<Response, Problem> {
    api.check_writable()?;
    let expected = optional_header(headers, IF_MATCH)?;
    let expected = expected.map(|etag| etag.trim().trim_matches('"').to_owned());
    let automation = id.split_once('/').map_or(id.as_str(), |(automation, _)| automation);
    let path = api.engine.catalog().find(automation)?.automation.source.path().to_owned();
    let (engine, author) = (api.engine.clone(), credential.to_string());
    let written =
        api.to_its_end(async move { engine.set_enabled(&id, enabled, expected, &author).await }).await?;
    super::project_files::answer(path, written.map(|(version, reload)| (Some(version), reload)))
}

/// The problem of an edit that is not possible.
pub(crate) fn problem(error: &EditError) -> Problem {
    let code = match error {
        EditError::Invalid(_) => "edit_invalid",
        EditError::Unsafe(_) => "edit_unsafe",
    };
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, error.to_string())
}
