//! The input of a step of an execution, as its call received it.

use axum::extract::State;
use runtime::{DerivedInput, MissingSource};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::recorded::{RecordedWhole, on_thread};
use crate::admin::extract::{Answer, Query, Segment, outside};
use crate::admin::{Problem, Shared};

/// A step and its attempt.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct InputQuery {
    /// The step, with its turns: `copy[2]`.
    #[param(example = "createPage")]
    step: String,
    /// The attempt, from 1; the last one where it is not given.
    #[param(minimum = 1)]
    attempt: Option<u32>,
}

/// The inputs of a step, evaluated again from the log on the definition that the execution ran on. Nothing is called for it,
/// and secrets are masked.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepInput {
    step: String,
    attempt: u32,
    /// Always true: the log has the sources of the inputs, not the inputs themselves.
    derived: bool,
    /// The inputs by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<value::Json>)]
    input: Option<serde_json::Value>,
    /// The error of the evaluation: `kind` and `message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<model::ActionError>)]
    error: Option<serde_json::Value>,
    /// Values that the inputs read and the log does not contain.
    missing: Vec<MissingView>,
}

/// A source of inputs that the log does not have.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MissingSource)]
struct MissingView {
    /// `notStarted`, `definition`, `code`, `nothing`, `state`, `configVars` or `secrets`.
    source: &'static str,
    /// The same in a sentence.
    reason: &'static str,
}

/// The inputs of a step
#[utoipa::path(
    get, path = "/api/v1/executions/{id}/input", tag = "executions",
    params(("id" = String, Path, description = "The execution's id, or a beginning that no other has"), InputQuery),
    responses((status = 200, description = "The inputs", body = StepInput)),
)]
pub(crate) async fn input(
    State(api): Shared,
    Segment(id): Segment,
    Query(query): Query<InputQuery>,
) -> Result<Answer<StepInput>, Problem> {
    let RecordedWhole { row, events, _memory } = api.execution(&id).await?;
    let derived = api.engine.records().step_input(&row, events, &query.step, query.attempt).await;
    on_thread(move || Ok(Answer::ok(StepInput::from(derived)))).await
}

impl From<DerivedInput> for StepInput {
    fn from(derived: DerivedInput) -> Self {
        let missing = derived.missing.iter();
        Self {
            step: derived.step,
            attempt: derived.attempt,
            derived: true,
            input: derived.input.map(|input| input.to_serde()),
            error: derived.error.as_ref().map(outside),
            missing: missing
                .map(|source| MissingView { source: source.as_str(), reason: sentence(*source) })
                .collect(),
        }
    }
}

fn sentence(source: MissingSource) -> &'static str {
    match source {
        MissingSource::NotStarted => "It has not begun, so it was sent nothing.",
        MissingSource::Definition => {
            "The version that it ran on is no longer known, or this version of Cogwork cannot load it."
        }
        MissingSource::Code => "Its code reads the results of all steps before it.",
        MissingSource::Nothing => "A step of this kind has no input.",
        MissingSource::State => "The state that it read is not in the log.",
        MissingSource::ConfigVars => "`configVars` have the values of today.",
        MissingSource::Secrets => "Secrets are masked.",
    }
}
