//! The steps of an automation for drawing: what each box of the graph shows, and the position of its step in the file.

use std::sync::Arc;

use connector::Registry;
use expression::template::Template;
use model::action::Effect;
use model::automation::setting::in_braces;
use model::automation::{
    Automation, Block, BlockKind, Code, DeclaredTrigger, NameSetting, NestedBlock, OnError, Setting, Step,
    StepRetry, SwitchCases, Trigger, TriggerKind, Verb, WaitOn, WaitStep, WebhookMode,
};
use serde::Serialize;
use text::diagnostic::{Source, Span};
use text::units::format_duration;
use trigger::schedule::Schedule;
use utoipa::ToSchema;

use crate::canonical::canonical_text;
use crate::effective::{EffectiveSetting, effective_settings};
use crate::plan::Plan;

/// Maximum number of characters of a label.
const LABEL: usize = 120;

/// The steps of an automation, list by list, for drawing.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Graph {
    /// The trigger.
    pub triggers: Vec<GraphTrigger>,
    /// The steps.
    pub steps: Vec<GraphStep>,
    /// The steps that run if the execution fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<Vec<GraphStep>>,
    /// The steps that run at the end, whatever the outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finally: Option<Vec<GraphStep>>,
}

/// The trigger of an automation.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GraphTrigger {
    /// The id: `main` for the key `trigger`.
    pub id: String,
    /// False if the trigger itself is switched off.
    pub enabled: bool,
    /// `webhook`, `schedule`, `event`, `poll` or `manual`.
    pub kind: TriggerKind,
    /// The mode and the timeout, or the schedule in plain English; empty for a manual start.
    pub label: String,
    /// The text of its condition.
    #[serde(rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The names of the inputs that it gives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// The range of the trigger's kind in the file.
    pub span: LineRange,
}

/// A step of the graph.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphStep {
    /// The id, unique in the file.
    #[schema(value_type = String)]
    pub id: Arc<str>,
    /// The name for people; null if it has none.
    #[schema(required = true)]
    pub name: Option<String>,
    /// The YAML key of its verb: `action`, `if`, `forEach`, `wait` and so on.
    pub verb: &'static str,
    /// The expression, message, duration or names that say what it does, at most 120 characters; may be empty.
    pub label: String,
    /// Its place in the file.
    pub span: LineRange,
    /// The text of its own condition.
    #[serde(rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The action that it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The connection that it calls with; absent if an expression selects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The connections from which an expression selects that of the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<String>,
    /// The automation that it calls; absent if an expression selects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automation: Option<String>,
    /// The automations from which an expression selects the called one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub automations: Vec<String>,
    /// The effect of its action: `pure`, `read` or `write`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The steps that finish before it starts.
    #[schema(value_type = Vec<String>)]
    pub needs: Vec<Arc<str>>,
    /// The steps that the file names under `needs`; absent if it has no such key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_needs: Option<Vec<String>>,
    /// Maximum number of retries; the largest possible one if it is computed.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// The expression that computes its maximum number of retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed_retries: Option<String>,
    /// The expression that computes its timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed_timeout: Option<String>,
    /// The timeout of one attempt, in milliseconds; absent if it is computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The settings that `defaults` can give, each with the place that it comes from. Only of `action` and `call`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effective: Vec<EffectiveSetting>,
    /// The lists of steps inside.
    pub blocks: Vec<GraphBlock>,
    /// The steps that handle its failure; null if there are none.
    #[schema(required = true, no_recursion)]
    pub on_error: Option<Vec<GraphStep>>,
    /// True if the execution continues after its failure, without steps that handle it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub continues_on_error: bool,
    /// The steps that run at its end, however it ended; absent without `finally`.
    #[schema(no_recursion)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finally: Option<Vec<GraphStep>>,
    /// The steps that undo it; null if there are none.
    #[schema(required = true, no_recursion)]
    pub undo: Option<Vec<GraphStep>>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A list of steps inside a step.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GraphBlock {
    /// `then`, `else`, a case or a branch; null for the list of a loop or a group.
    #[schema(required = true)]
    pub name: Option<String>,
    /// `case` (at most one of the lists runs), `loop`, `parallel` or `sequence`.
    pub kind: GraphBlockKind,
    /// The steps.
    #[schema(no_recursion)]
    pub steps: Vec<GraphStep>,
}

/// The kind of a list of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BlockKind)]
pub enum GraphBlockKind {
    /// At most one of the step's lists runs.
    Case,
    /// It runs once per iteration.
    Loop,
    /// It runs beside the step's other lists.
    Parallel,
    /// It runs once.
    Sequence,
}

/// A range of a file. Lines and columns count from 1, columns in Unicode characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineRange {
    /// The first line.
    pub line: usize,
    /// The first column.
    pub column: usize,
    /// The last line.
    pub end_line: usize,
    /// The column after the last character.
    pub end_column: usize,
}

impl LineRange {
    fn new(source: &Source, span: Span) -> Self {
        let text = source.slice(span).trim_end();
        let (start, end) =
            (source.position(span.start as usize), source.position(span.start as usize + text.len()));
        Self { line: start.line, column: start.column, end_line: end.line, end_column: end.column }
    }
}

impl Graph {
    /// Builds the graph of an automation. `registry` provides the effects of its actions; without it they are unknown.
    #[must_use]
    pub fn new(automation: &Automation, plan: &Plan, registry: Option<&Registry>) -> Self {
        let builder = Builder { automation, plan, registry };
        Self {
            triggers: automation.triggers.iter().map(|trigger| graph_trigger(automation, trigger)).collect(),
            steps: builder.block(&automation.steps),
            on_error: automation.on_error.as_ref().map(|block| builder.block(block)),
            finally: automation.finally.as_ref().map(|block| builder.block(block)),
        }
    }
}

fn graph_trigger(automation: &Automation, trigger: &DeclaredTrigger) -> GraphTrigger {
    let inputs = trigger.inputs.iter().flat_map(|(inputs, _)| inputs);
    GraphTrigger {
        id: trigger.id.to_string(),
        enabled: trigger.enabled != Some(false),
        kind: trigger.on.kind(),
        label: shorten(&trigger_label(&trigger.on)),
        condition: trigger.condition.as_ref().map(|condition| shorten(condition.text())),
        inputs: inputs.map(|(name, _)| name.name.clone()).collect(),
        span: LineRange::new(&automation.source, trigger.span),
    }
}

struct Builder<'g> {
    automation: &'g Automation,
    plan: &'g Plan,
    registry: Option<&'g Registry>,
}

impl Builder<'_> {
    fn block(&self, block: &Block) -> Vec<GraphStep> {
        let order = self.plan.block(block);
        let steps = block.steps.iter().enumerate().map(|(index, step)| {
            let needs = order.map_or_else(Vec::new, |order| {
                order.dependencies(index).map(|before| block.steps[before].id.clone()).collect()
            });
            self.step(step, needs)
        });
        steps.collect()
    }

    fn step(&self, step: &Step, needs: Vec<Arc<str>>) -> GraphStep {
        let (mut action, mut connection, mut automation) = (None, None, None);
        match &step.verb {
            Verb::Action(call) => {
                action = Some(call.action.name.clone());
                connection = call.connection.as_ref();
            }
            Verb::Call(call) => automation = Some(&call.automation),
            _ => {}
        }
        let names = |setting: Option<&NameSetting>| -> Vec<String> {
            let selection = setting.and_then(NameSetting::selection);
            selection.iter().flat_map(|selection| &selection.of).map(|name| name.name.clone()).collect()
        };
        let literal = |setting: Option<&NameSetting>| {
            setting.and_then(NameSetting::literal).map(|name| name.name.clone())
        };
        GraphStep {
            id: step.id.clone(),
            name: step.name.clone(),
            verb: step.verb.keyword(),
            label: shorten(&label(&step.verb)),
            span: LineRange::new(&self.automation.source, step.extent),
            condition: step.guard.as_ref().map(|guard| shorten(guard.text())),
            action,
            connections: names(connection),
            connection: literal(connection),
            automations: names(automation),
            automation: literal(automation),
            effect: self.effect(&step.verb),
            needs,
            written_needs: step
                .needs
                .as_ref()
                .map(|needs| needs.iter().map(|need| need.name.clone()).collect()),
            retries: step.retry.as_ref().map_or(0, |retry| retry.max()),
            effective: effective_settings(self.automation, step),
            timeout_ms: step
                .timeout
                .as_ref()
                .and_then(Setting::literal)
                .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            computed_retries: step.retry.as_deref().and_then(computed_retries),
            computed_timeout: step
                .timeout
                .as_ref()
                .and_then(Setting::expression)
                .map(|timeout| shorten(timeout.text())),
            blocks: step.verb.nested_blocks().into_iter().map(|inner| self.nested(inner)).collect(),
            on_error: match &step.on_error {
                OnError::Steps(block) => Some(self.block(block)),
                OnError::Fail | OnError::Continue => None,
            },
            continues_on_error: matches!(step.on_error, OnError::Continue),
            finally: step.finally.as_ref().map(|block| self.block(block)),
            undo: step.undo.as_ref().map(|undo| self.block(&undo.steps)),
        }
    }

    fn nested(&self, inner: NestedBlock<'_>) -> GraphBlock {
        let kind = match inner.kind {
            BlockKind::Case { .. } => GraphBlockKind::Case,
            BlockKind::Loop { .. } => GraphBlockKind::Loop,
            BlockKind::Parallel { .. } => GraphBlockKind::Parallel,
            BlockKind::Sequence => GraphBlockKind::Sequence,
        };
        GraphBlock { name: inner.name.map(str::to_owned), kind, steps: self.block(inner.block) }
    }

    fn effect(&self, verb: &Verb) -> Option<Effect> {
        let Verb::Action(call) = verb else { return None };
        let action = self.registry?.action(&call.action.name)?;
        Some(action.effect(&|name| match call.with.iter().find(|(input, _)| input.name == name) {
            Some((_, template)) => template.literal(),
            None => action.spec().input(name)?.default.as_ref(),
        }))
    }
}

fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text::truncate(&line, LABEL).into_owned()
}

/// Returns how often a step is tried again as its author says it, if an expression computes it; the policies of a list as a sum.
fn computed_retries(retry: &StepRetry) -> Option<String> {
    if !retry.has_computed_max() {
        return None;
    }
    let texts = retry.rules.iter().map(|rule| {
        let computed = rule.policy.computed.as_ref().and_then(|computed| computed.max.as_ref());
        match computed {
            Some(max) if retry.rules.len() == 1 => max.text().to_owned(),
            Some(max) => format!("({})", max.text()),
            None => rule.policy.max.to_string(),
        }
    });
    Some(shorten(&texts.collect::<Vec<_>>().join(" + ")))
}

fn trigger_label(trigger: &Trigger) -> String {
    match trigger {
        Trigger::Webhook(webhook) => match webhook.mode {
            WebhookMode::Async => "async".to_owned(),
            WebhookMode::Sync => format!("sync · {}", format_duration(webhook.timeout)),
        },
        Trigger::Schedule(schedule) => {
            Schedule::compile(schedule).map(|schedule| schedule.describe()).unwrap_or_default()
        }
        Trigger::Event(event) => event.call.action.name.clone(),
        Trigger::Own(own) => own.name.name.clone(),
        Trigger::Poll(poll) => {
            format!("{} · every {}", poll.call.action.name, format_duration(poll.every))
        }
        Trigger::Manual => String::new(),
    }
}

fn label(verb: &Verb) -> String {
    match verb {
        Verb::Action(call) => call.action.name.clone(),
        Verb::Code(Code::Inline { .. }) => "JavaScript".to_owned(),
        Verb::Code(Code::File(file)) => file.name.clone(),
        Verb::Set(values) => values.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(", "),
        Verb::If(branch) => branch.condition.text().to_owned(),
        Verb::Switch(switch) => match &switch.cases {
            SwitchCases::Values { value, .. } => value.text().to_owned(),
            SwitchCases::Conditions(cases) => {
                cases.iter().map(|case| case.condition.text()).collect::<Vec<_>>().join(" · ")
            }
        },
        Verb::ForEach(each) => format!("{} in {}", each.item, readable(&each.items)),
        Verb::Repeat(repeat) => match &repeat.until {
            Some(until) => format!("until {}", until.text()),
            None => format!("{} times", repeat.max.describe(|max| max.to_string())),
        },
        Verb::Call(call) => match call.automation.selection() {
            Some(selection) => in_braces(&selection.name),
            None => call.automation.to_string(),
        },
        Verb::Wait(WaitStep::For(time)) => format_duration(*time),
        Verb::Wait(WaitStep::Computed(template)) => readable(template),
        Verb::Wait(WaitStep::Until(until)) => format!("until {}", until.text()),
        Verb::WaitFor(wait) => match &wait.on {
            WaitOn::Event { name, .. } => readable(name),
            WaitOn::Approval(approval) => readable(&approval.message),
        },
        Verb::Respond(respond) => readable(&respond.status),
        Verb::Stop { result, respond } if is_null(result) => {
            respond.as_ref().map(|respond| readable(&respond.status)).unwrap_or_default()
        }
        Verb::Continue { result } if is_null(result) => String::new(),
        Verb::Stop { result: template, .. } | Verb::Continue { result: template } => readable(template),
        Verb::Fail(fail) => readable(&fail.message),
        Verb::Parallel(parallel) => match parallel.enough {
            Some(enough) => format!("{enough} of {}", parallel.branches.len()),
            None => String::new(),
        },
        Verb::Group(_) | Verb::Break => String::new(),
    }
}

fn is_null(template: &Template) -> bool {
    template.literal().is_some_and(value::Value::is_null)
}

/// The text of a template as its author would say it: an expression without its braces, a text without quotes.
fn readable(template: &Template) -> String {
    match template {
        Template::Expression(expression) => expression.text().to_owned(),
        Template::Literal(value) => value.as_str().map_or_else(|| value.to_json(), str::to_owned),
        other => canonical_text(other),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const TEXT: &str = "\
trigger: {webhook: {mode: sync, timeout: 5s, verify: none}}
steps:
  - id: get
    name: Get the order
    action: http.request
    retry: {max: 3, delay: 1s}
    timeout: 10s
    with:
      method: GET
      url: http://a.example/

  # a comment after the step
  - id: each
    needs: [get]
    forEach: steps.get.results.body.items
    steps:
      - {id: keep, set: {a: 1, b: 2}, onError: continue}
  - {id: answer, respond: {status: 201}}
onError:
  - {id: tell, wait: 5m}
";

    fn graph() -> Graph {
        let loaded = language::load::automation(Arc::new(Source::new("automations/a.yaml", TEXT)), "a");
        let automation = loaded.value.expect("it loads");
        let registry = Registry::builtin().expect("it loads");
        Graph::new(&automation, &Plan::build(&automation).0, Some(&registry))
    }

    #[test]
    fn the_span_of_a_step_reaches_from_its_first_key_to_its_last_value() {
        let graph = graph();
        let range = |line, column, end_line, end_column| LineRange { line, column, end_line, end_column };
        assert_eq!(graph.steps[0].span, range(3, 5, 10, 29));
        assert_eq!(graph.steps[1].span, range(13, 5, 17, 57));
        assert_eq!(graph.steps[1].blocks[0].steps[0].span, range(17, 9, 17, 57));
    }

    #[test]
    fn a_graph_step_has_its_label_effect_and_settings() {
        let graph = graph();
        let get = &graph.steps[0];
        assert_eq!((get.label.as_str(), get.effect), ("http.request", Some(Effect::Read)));
        assert_eq!((get.retries, get.timeout_ms), (3, Some(10_000)));
        assert_eq!((get.written_needs.as_deref(), get.needs.len()), (None, 0));
        let each = &graph.steps[1];
        assert_eq!(each.label, "item in steps.get.results.body.items");
        assert_eq!(
            (&each.needs[0], each.written_needs.as_deref()),
            (&"get".into(), Some(&["get".to_owned()][..]))
        );
        assert_eq!((each.blocks[0].kind, each.blocks[0].name.as_deref()), (GraphBlockKind::Loop, None));
        let keep = &each.blocks[0].steps[0];
        assert_eq!((keep.label.as_str(), keep.continues_on_error), ("a, b", true));
        assert_eq!((graph.steps[2].label.as_str(), graph.triggers[0].label.as_str()), ("201", "sync · 5s"));
        assert_eq!(graph.on_error.expect("it has one")[0].label, "5m");
    }
}
