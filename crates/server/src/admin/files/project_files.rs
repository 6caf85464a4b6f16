//! The files of the project: read and replaced, each change over the version that was read.

use authoring::{ExpectedVersion, FileError};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use catalog::ReloadSummary;
use engine::EditError;
use http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::admin::auth::credential::Credential;
use crate::admin::definitions::deployments;
use crate::admin::extract::{Answer, Body, Query, Segment, optional_header};
use crate::admin::operations::status::{DiagnosticView, diagnostics};
use crate::admin::{Problem, Shared};

/// The files of the project that the daemon reads.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Files {
    /// Their paths, relative to the project folder.
    files: Vec<String>,
}

/// A file of the project as it is on disk, which may be a later version than the one in force.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProjectFile)]
pub(crate) struct FileView {
    /// The path, relative to the project folder.
    path: String,
    /// The text.
    text: String,
    /// The version, for `If-Match`.
    etag: String,
}

/// A new text of a file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FileText {
    /// At most 512 KiB.
    text: String,
}

/// Options of writing a file.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct WriteOptions {
    /// Write a text that has errors too: the last good version stays in force.
    #[serde(default)]
    #[param(required = false)]
    with_errors: bool,
}

/// The result of a change.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FileWritten)]
pub(crate) struct Written {
    /// The new version; absent after a deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    /// The snapshot that is in force since.
    generation: u64,
    /// The diagnostics of the files that the reload has read.
    diagnostics: Vec<DiagnosticView>,
}

/// A text that is not written because it has errors.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FileErrors)]
pub(crate) struct FileErrors {
    #[serde(flatten)]
    problem: Problem,
    /// Its diagnostics.
    diagnostics: Vec<DiagnosticView>,
}

/// A change that came too late: the file is another one by now.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FileChanged)]
pub(crate) struct Changed {
    #[serde(flatten)]
    problem: Problem,
    /// The file as it is now; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<FileView>,
}

/// The files of the project
#[utoipa::path(
    get, path = "/api/v1/files", tag = "files",
    responses((status = 200, description = "By path", body = Files)),
)]
pub(crate) async fn list(State(api): Shared) -> Result<Answer<Files>, Problem> {
    let dir = api.engine.project_dir();
    let listed = tokio::task::spawn_blocking(move || catalog::project_files(&dir)).await;
    let listed = listed.map_err(|error| Problem::internal(&error))?;
    Ok(Answer::ok(Files { files: listed.into_iter().map(|file| file.path).collect() }))
}

/// Read a file of the project
#[utoipa::path(
    get, path = "/api/v1/files/{path}", tag = "files",
    params(("path" = String, Path, description = "Its path; a `/` is written `%2F`")),
    responses((status = 200, description = "As it is on disk", body = FileView)),
)]
pub(crate) async fn show(State(api): Shared, Segment(path): Segment) -> Result<Response, Problem> {
    let found = api.engine.read_file(path.clone()).await.map_err(problem)?;
    let etag = quoted(&found.version);
    let view = FileView { path, text: found.text, etag: etag.clone() };
    Ok(with_etag(Answer::ok(view), &etag))
}

/// Replace or create a file of the project
///
/// `If-Match` names the version that was read; `If-None-Match: *` creates a file. The answer comes after the reload.
#[utoipa::path(
    put, path = "/api/v1/files/{path}", tag = "files", request_body = FileText,
    params(("path" = String, Path, description = "Its path; a `/` is written `%2F`"), WriteOptions),
    responses(
        (status = 200, description = "It is written and reloaded", body = Written),
        (status = 412, description = "It was changed meanwhile", body = Changed),
        (status = 422, description = "It has errors and was not written; or, while deployed definitions are in force, other files would have", body = FileErrors),
    ),
)]
pub(crate) async fn put(
    State(api): Shared,
    Segment(path): Segment,
    Query(options): Query<WriteOptions>,
    Extension(credential): Extension<Credential>,
    headers: HeaderMap,
    Body(FileText { text }): Body<FileText>,
) -> Result<Response, Problem> {
    let expected = expected(&headers)?;
    if !options.with_errors && !model::test_suite::is_test_file(&path) {
        let (catalog, checked_path, checked_text) = (api.engine.catalog(), path.clone(), text.clone());
        let checked = tokio::task::spawn_blocking(move || {
            authoring::check_text(&catalog, &checked_path, &checked_text)
        });
        let report = checked.await.map_err(|error| Problem::internal(&error))?;
        if report.has_errors() {
            let detail = "the text has errors and was not written; `?withErrors=true` writes it, and the last good version stays in force";
            let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "file_has_errors", detail);
            let errors = FileErrors { problem, diagnostics: diagnostics([&report]) };
            return Ok(Answer(StatusCode::UNPROCESSABLE_ENTITY, errors).into_response());
        }
    }
    change(&api, path, Some(text), expected, &credential).await
}

/// Delete a file of the project
#[utoipa::path(
    delete, path = "/api/v1/files/{path}", tag = "files",
    params(("path" = String, Path, description = "Its path; a `/` is written `%2F`")),
    responses(
        (status = 200, description = "It is deleted and the project reloaded", body = Written),
        (status = 412, description = "It was changed meanwhile", body = Changed),
    ),
)]
pub(crate) async fn delete(
    State(api): Shared,
    Segment(path): Segment,
    Extension(credential): Extension<Credential>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let expected = expected(&headers)?;
    change(&api, path, None, expected, &credential).await
}

impl crate::admin::Api {
    /// Refuses changes of project files, if the setting says so.
    pub(crate) fn check_writable(&self) -> Result<(), Problem> {
        if !self.read_only {
            return Ok(());
        }
        let detail =
            "changes of files are refused by the setting `ui.readOnly`; change the file where it is kept";
        Err(Problem::new(StatusCode::FORBIDDEN, "read_only", detail))
    }
}

async fn change(
    api: &crate::admin::Api,
    path: String,
    text: Option<String>,
    expected: ExpectedVersion,
    credential: &Credential,
) -> Result<Response, Problem> {
    api.check_writable()?;
    let (engine, target, author) = (api.engine.clone(), path.clone(), credential.to_string());
    let written =
        api.to_its_end(async move { engine.write_file(target, text, expected, &author).await }).await?;
    answer(path, written)
}

/// The answer to a change: the new version, or the file that was changed meanwhile.
pub(crate) fn answer(
    path: String,
    written: Result<(Option<String>, ReloadSummary), EditError>,
) -> Result<Response, Problem> {
    let (version, ReloadSummary { generation, reports, .. }) = match written {
        Ok(written) => written,
        Err(EditError::File(FileError::Changed(found))) => {
            let detail = "the file was changed on disk meanwhile; read it again and repeat the change";
            let problem = Problem::new(StatusCode::PRECONDITION_FAILED, "file_changed", detail);
            let current = found.map(|found| {
                let etag = quoted(&found.version);
                FileView { path, text: found.text, etag }
            });
            let changed = Changed { problem, current };
            return Ok(Answer(StatusCode::PRECONDITION_FAILED, changed).into_response());
        }
        Err(EditError::Deploy(error)) => return deployments::refused(error),
        Err(error) => return Err(problem(error)),
    };
    let etag = version.as_deref().map(quoted);
    let answer = Written { etag: etag.clone(), generation, diagnostics: diagnostics(&reports) };
    Ok(match etag {
        Some(etag) => with_etag(Answer::ok(answer), &etag),
        None => Answer::ok(answer).into_response(),
    })
}

/// The ETag of a version.
pub(crate) fn quoted(version: &str) -> String {
    format!("\"{version}\"")
}

/// Adds the ETag to a response.
pub(crate) fn with_etag(answer: impl IntoResponse, etag: &str) -> Response {
    let mut response = answer.into_response();
    if let Ok(value) = HeaderValue::try_from(etag) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}

/// The version that a change replaces.
fn expected(headers: &HeaderMap) -> Result<ExpectedVersion, Problem> {
    if optional_header(headers, IF_NONE_MATCH)? == Some("*") {
        return Ok(ExpectedVersion::Missing);
    }
    match optional_header(headers, IF_MATCH)? {
        Some(etag) => Ok(ExpectedVersion::Is(etag.trim().trim_matches('"').to_owned())),
        None => {
            let detail =
                "name the version that was read in `If-Match`, or create a file with `If-None-Match: *`";
            Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, "version_required", detail))
        }
    }
}

pub(crate) fn problem(error: EditError) -> Problem {
    let detail = error.to_string();
    match error {
        EditError::File(error) => file_problem(&error),
        EditError::Deploy(error) => deployments::problem(error),
        EditError::OfFolder(_) => Problem::new(StatusCode::CONFLICT, "deployed_from_folder", detail),
        EditError::Overtaken => Problem::new(StatusCode::CONFLICT, "overtaken", detail),
        EditError::InPlace(error) => super::editing::problem(&error),
        EditError::Unknown(error) => error.into(),
    }
}

pub(crate) fn file_problem(error: &FileError) -> Problem {
    let detail = error.to_string();
    match error {
        FileError::Path(_) => Problem::bad_request("bad_file_path", detail),
        FileError::Missing(_) => Problem::not_found("unknown_file", detail),
        FileError::Changed(_) => Problem::new(StatusCode::PRECONDITION_FAILED, "file_changed", detail),
        FileError::TooLarge(_) => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "file_too_large", detail),
        FileError::Io { .. } => Problem::new(StatusCode::CONFLICT, "file_not_written", detail),
    }
}
