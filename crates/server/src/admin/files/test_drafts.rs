//! Tests from recorded executions.

use axum::extract::State;
use engine::TestDraft;
use serde::{Deserialize, Serialize};
use testing::Strictness;
use utoipa::ToSchema;

use crate::admin::extract::{Answer, Body};
use crate::admin::{Problem, Shared};

/// The execution that becomes a test.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FromExecution {
    /// The execution's id, or a beginning that no other has.
    id: String,
    /// The name of the test. Default: a name with the id.
    name: Option<String>,
}

/// A test that is not written yet, as a change of its file.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TestDraftView {
    /// The path of the test file, for `PUT /api/v1/files/{path}`.
    path: String,
    /// The name of the test.
    name: String,
    /// The text of the file now; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// The version of that file, for `If-Match`; absent if there is none: then create it with `If-None-Match: *`.
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    /// The text with the test, which passes.
    text: String,
    /// Extent of its expectations: `full`, `endings` (values differ in each execution), or `outcome`.
    expects: Strictness,
}

impl From<TestDraft> for TestDraftView {
    fn from(draft: TestDraft) -> Self {
        let (before, etag) = match draft.before {
            Some(found) => (Some(found.text), Some(super::project_files::quoted(&found.version))),
            None => (None, None),
        };
        Self { path: draft.path, name: draft.name, before, etag, text: draft.text, expects: draft.strictness }
    }
}

/// Make a test from an execution
///
/// The test repeats the execution offline: its start, the recorded answers as doubles, and its outcome as expectations. It
/// has been run and passes. Nothing is written: send the text to the files.
#[utoipa::path(
    post, path = "/api/v1/tests/from-execution", tag = "executions", request_body = FromExecution,
    responses((status = 200, description = "The file with the test", body = TestDraftView)),
)]
pub(crate) async fn from_execution(
    State(api): Shared,
    Body(body): Body<FromExecution>,
) -> Result<Answer<TestDraftView>, Problem> {
    let id = api.execution_id(&body.id).await?;
    let draft = api.engine.test_from_execution(id, body.name).await?;
    Ok(Answer::ok(draft.into()))
}
