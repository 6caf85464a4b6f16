//! The graph of an automation, as the API shows it.

use catalog::{Graph, GraphBlock, GraphStep, GraphTrigger, LineRange};
use serde::Serialize;
use utoipa::ToSchema;

/// The steps of an automation, list by list, for drawing.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Graph)]
pub(crate) struct GraphView {
    trigger: GraphTriggerView,
    steps: Vec<GraphStepView>,
    /// The steps that run if the execution fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_error: Option<Vec<GraphStepView>>,
    /// The steps that run at the end, whatever the outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    finally: Option<Vec<GraphStepView>>,
}

/// The trigger of an automation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphTrigger)]
pub(crate) struct GraphTriggerView {
    /// `webhook`, `schedule`, `event`, `poll` or `manual`.
    kind: model::automation::TriggerKind,
    /// The mode and the timeout, or the schedule in plain English; empty for a manual start.
    label: String,
    /// The text of its condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#if: Option<String>,
    span: RangeView,
}

/// A step of the graph.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphStep)]
pub(crate) struct GraphStepView {
    id: String,
    /// The name for people; null if it has none.
    #[schema(required = true)]
    name: Option<String>,
    /// The YAML key of its verb: `action`, `if`, `forEach`, `wait` and so on.
    verb: &'static str,
    /// The expression, message, duration or names that say what it does, at most 120 characters; may be empty.
    label: String,
    /// Its place in the file.
    span: RangeView,
    /// The text of its own condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#if: Option<String>,
    /// The action that it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    /// The connection that it calls with.
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<String>,
    /// The automation that it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    automation: Option<String>,
    /// The effect of its action: `pure`, `read` or `write`.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<model::action::Effect>,
    /// The steps that finish before it starts.
    needs: Vec<String>,
    /// The steps that the file names under `needs`; absent if it has no such key.
    #[serde(skip_serializing_if = "Option::is_none")]
    written_needs: Option<Vec<String>>,
    /// Maximum number of retries.
    #[serde(skip_serializing_if = "is_zero")]
    retries: u32,
    /// The timeout of one attempt, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    /// The lists of steps inside.
    blocks: Vec<GraphBlockView>,
    /// The steps that handle its failure; null if there are none.
    #[schema(required = true, no_recursion)]
    on_error: Option<Vec<GraphStepView>>,
    /// True if the execution continues after its failure, without steps that handle it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    continues_on_error: bool,
    /// The steps that undo it; null if there are none.
    #[schema(required = true, no_recursion)]
    undo: Option<Vec<GraphStepView>>,
}

/// A list of steps inside a step.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphBlock)]
pub(crate) struct GraphBlockView {
    /// `then`, `else`, a case or a branch; null for the list of a loop or a group.
    #[schema(required = true)]
    name: Option<String>,
    /// `case` (at most one of the lists runs), `loop`, `parallel` or `sequence`.
    kind: catalog::GraphBlockKind,
    #[schema(no_recursion)]
    steps: Vec<GraphStepView>,
}

/// A range of a file. Lines and columns count from 1, columns in Unicode characters.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LineRange)]
pub(crate) struct RangeView {
    line: usize,
    column: usize,
    end_line: usize,
    /// The column after the last character.
    end_column: usize,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn steps(steps: Vec<GraphStep>) -> Vec<GraphStepView> {
    steps.into_iter().map(Into::into).collect()
}

impl From<Graph> for GraphView {
    fn from(graph: Graph) -> Self {
        let GraphTrigger { kind, label, condition, span } = graph.trigger;
        Self {
            trigger: GraphTriggerView { kind, label, r#if: condition, span: span.into() },
            steps: steps(graph.steps),
            on_error: graph.on_error.map(steps),
            finally: graph.finally.map(steps),
        }
    }
}

impl From<GraphStep> for GraphStepView {
    fn from(step: GraphStep) -> Self {
        Self {
            id: step.id.to_string(),
            name: step.name,
            verb: step.verb,
            label: step.label,
            span: step.span.into(),
            r#if: step.condition,
            action: step.action,
            connection: step.connection,
            automation: step.automation,
            effect: step.effect,
            needs: step.needs.iter().map(ToString::to_string).collect(),
            written_needs: step.written_needs,
            retries: step.retries,
            timeout_ms: step.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            blocks: step.blocks.into_iter().map(Into::into).collect(),
            on_error: step.on_error.map(steps),
            continues_on_error: step.continues_on_error,
            undo: step.undo.map(steps),
        }
    }
}

impl From<GraphBlock> for GraphBlockView {
    fn from(block: GraphBlock) -> Self {
        Self { name: block.name, kind: block.kind, steps: steps(block.steps) }
    }
}

impl From<LineRange> for RangeView {
    fn from(range: LineRange) -> Self {
        let LineRange { line, column, end_line, end_column } = range;
        Self { line, column, end_line, end_column }
    }
}
