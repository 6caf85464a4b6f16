//! Trials: recorded executions, and the tests of a file, on a text that is not saved.

use axum::extract::State;
use engine::{TestOutcome, TestText, TrialOutcome, TrialRequest};
use model::execution::Outcome;
use model::payload::HttpResponse;
use serde::{Deserialize, Serialize};
use testing::{Side, StepDifference, Trial, Verdict};
use utoipa::ToSchema;
use value::{Map, Value};

use crate::admin::extract::{Answer, Body, outside};
use crate::admin::{Problem, Shared};

/// The maximum size of a value in an answer, in bytes.
const VALUE: usize = 16 << 10;

/// The text and the recorded executions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TrialBody {
    /// The path of the automation in the project folder.
    #[schema(example = "automations/order.yaml")]
    path: String,
    /// The text that it would have.
    text: String,
    /// The ids of the executions, 1 to 50. May be empty if `tests` is true.
    #[serde(default)]
    executions: Vec<String>,
    /// True to run the tests of the automation on the text too.
    #[serde(default)]
    tests: bool,
    /// Texts that files of these tests would have, such as those that follow a renamed step. Other files are read as they are.
    #[serde(default)]
    test_files: Vec<TestTextBody>,
}

/// The text that a file of tests would have.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = TestText)]
struct TestTextBody {
    /// Its path in the project folder.
    #[schema(example = "automations/order.test.yaml")]
    path: String,
    text: String,
}

/// The results.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TrialResults {
    /// In the order of the request.
    executions: Vec<TrialView>,
    /// In the order of their file.
    tests: Vec<TestView>,
}

/// The trial of one execution.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TrialView {
    id: String,
    /// `same`, `differs`, `newCall` (it ends at a call that the record has no answer for), `notStarted` (the trigger starts
    /// nothing), `waits` (for something that the record does not have), or `notRun` (the trial could not run).
    verdict: TrialVerdict,
    /// The reason, for `notStarted`, `waits` and `notRun`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The call that the record has no answer for.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_call: Option<NewCallView>,
    /// The recorded outcome and that of the trial, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Pair>,
    /// The recorded response and that of the trial, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Pair>,
    /// The steps that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<StepDifferenceView>,
    /// The number of steps that are the same.
    same_steps: usize,
    /// The number of calls that were answered from the record.
    calls: usize,
}

/// A value of the record and one of the trial.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pair {
    /// Absent if the record has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<value::Json>)]
    recorded: Option<serde_json::Value>,
    /// Absent if the trial has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<value::Json>)]
    trial: Option<serde_json::Value>,
}

/// A call that the record has no answer for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NewCallView {
    /// The step, with its iterations.
    step: String,
    /// The action, or the automation.
    action: String,
    /// The input that its call would receive.
    #[schema(value_type = value::Json)]
    inputs: serde_json::Value,
}

/// A step that differs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StepDifferenceView {
    /// The step, with its iterations.
    step: String,
    /// Absent if it did not run in the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<SideView>,
    /// Absent if it did not run in the trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    trial: Option<SideView>,
}

/// One side of a difference.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SideView {
    /// `succeeded`, `failed` or `skipped`; absent if it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<model::execution::StepProgress>)]
    status: Option<&'static str>,
    /// The action, or the automation, that it called.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    /// The input that its call received, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<value::Json>)]
    inputs: Option<serde_json::Value>,
    #[schema(value_type = value::Json)]
    result: serde_json::Value,
    /// The message of its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The result of a test.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TrialTest)]
pub(crate) struct TestView {
    name: String,
    /// `passed`, `failed` or `skipped`.
    result: TestResult,
    /// The unmet expectations, each with the line and what was found, or the reason for which it was skipped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<String>,
}

/// The result of a trial.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum TrialVerdict {
    Same,
    Differs,
    /// It ends at a call that the record has no answer for.
    NewCall,
    /// The trigger starts nothing.
    NotStarted,
    /// It waits for something that the record does not have.
    Waits,
    /// The trial could not run.
    NotRun,
}

/// The result of a test.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TestOutcome)]
enum TestResult {
    Passed,
    Failed,
    Skipped,
}

impl From<TrialOutcome> for TrialView {
    fn from(found: TrialOutcome) -> Self {
        let TrialOutcome { id, recorded, trial } = found;
        let none = |reason| Self {
            id: id.to_string(),
            verdict: TrialVerdict::NotRun,
            reason: Some(reason),
            new_call: None,
            outcome: None,
            response: None,
            steps: Vec::new(),
            same_steps: 0,
            calls: 0,
        };
        match trial {
            Err(reason) => none(reason),
            Ok(trial) => Self::of_trial(id.to_string(), recorded, trial),
        }
    }
}

impl TrialView {
    fn of_trial(id: String, recorded: Option<Outcome>, trial: Trial) -> Self {
        let verdict = match trial.verdict {
            Verdict::Same => TrialVerdict::Same,
            Verdict::Differs => TrialVerdict::Differs,
            Verdict::NewCall => TrialVerdict::NewCall,
            Verdict::NotStarted => TrialVerdict::NotStarted,
            Verdict::Waits => TrialVerdict::Waits,
        };
        Self {
            id,
            verdict,
            reason: trial.reason,
            new_call: trial.new_call.map(|call| NewCallView {
                step: call.step,
                action: call.name,
                inputs: map(call.inputs),
            }),
            outcome: pair(recorded.as_ref().map(ended), trial.outcome.as_ref().map(ended)),
            response: pair(
                trial.recorded_response.as_ref().map(response),
                trial.response.as_ref().map(response),
            ),
            steps: trial.steps.into_iter().map(StepDifferenceView::from).collect(),
            same_steps: trial.same_steps,
            calls: trial.calls,
        }
    }
}

impl From<StepDifference> for StepDifferenceView {
    fn from(step: StepDifference) -> Self {
        let StepDifference { step, recorded, trial } = step;
        Self { step, recorded: recorded.map(SideView::from), trial: trial.map(SideView::from) }
    }
}

impl From<Side> for SideView {
    fn from(side: Side) -> Self {
        let Side { status, result, error, inputs, called } = side;
        Self { status, action: called, inputs: inputs.map(map), result: bounded(&result), error }
    }
}

impl From<TestOutcome> for TestView {
    fn from(test: TestOutcome) -> Self {
        let TestOutcome { name, report, skipped } = test;
        let result = match &skipped {
            Some(_) => TestResult::Skipped,
            None if report.has_errors() => TestResult::Failed,
            None => TestResult::Passed,
        };
        let entries = report.entries().into_iter().zip(report.diagnostics());
        let found = entries.map(|(entry, diagnostic)| match &diagnostic.label {
            Some(label) => format!("line {}: {}, {label}", entry.line, entry.message),
            None => format!("line {}: {}", entry.line, entry.message),
        });
        Self { name, result, messages: skipped.into_iter().chain(found).collect() }
    }
}

/// Both values, unless they are equal.
fn pair(recorded: Option<serde_json::Value>, trial: Option<serde_json::Value>) -> Option<Pair> {
    (recorded != trial).then_some(Pair { recorded, trial })
}

fn ended(outcome: &Outcome) -> serde_json::Value {
    match outcome {
        Outcome::Succeeded { result } => {
            serde_json::json!({"outcome": "succeeded", "result": bounded(result)})
        }
        other => outside(other),
    }
}

fn response(response: &HttpResponse) -> serde_json::Value {
    let mut shown = outside(response);
    let bytes = response.body.len() as u64;
    if bytes > VALUE as u64
        && let Some(members) = shown.as_object_mut()
    {
        members.insert("body".to_owned(), large(bytes));
    }
    shown
}

fn map(values: Map) -> serde_json::Value {
    bounded(&Value::from(values))
}

/// A value, or its size if it is large.
fn bounded(value: &Value) -> serde_json::Value {
    let bytes = value.estimated_size(VALUE + 1);
    if bytes > VALUE { large(bytes as u64) } else { value.to_serde() }
}

fn large(bytes: u64) -> serde_json::Value {
    serde_json::json!({"$large": {"bytes": bytes}})
}

/// Try recorded executions on a text that is not saved
///
/// Nothing is called, and nothing changes: the answers of other systems come from the record.
#[utoipa::path(
    post, path = "/api/v1/trials", tag = "executions", request_body = TrialBody,
    responses((status = 200, description = "The differences between record and trial", body = TrialResults)),
)]
pub(crate) async fn run(
    State(api): Shared,
    Body(body): Body<TrialBody>,
) -> Result<Answer<TrialResults>, Problem> {
    let TrialBody { path, text, executions, tests, test_files } = body;
    let mut ids = Vec::with_capacity(executions.len());
    for id in &executions {
        ids.push(api.execution_id(id).await?);
    }
    let test_files =
        test_files.into_iter().map(|TestTextBody { path, text }| TestText { path, text }).collect();
    let found = api.engine.try_draft(TrialRequest { path, text, executions: ids, tests, test_files }).await?;
    Ok(Answer::ok(TrialResults {
        executions: found.executions.into_iter().map(TrialView::from).collect(),
        tests: found.tests.into_iter().map(TestView::from).collect(),
    }))
}
