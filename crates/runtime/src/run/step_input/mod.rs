//! Derives what a step was sent: its inputs, evaluated again from the log on the definition that the execution ran on.
//!
//! Nothing is called and nothing is written. The variables are rebuilt as the walk has them: from the outcomes of the steps
//! that had finished when the step began, list by list on the way to it. Secrets are masked, not read.

mod expression_value;
mod replay;

use std::sync::Arc;

use catalog::Deployment;
use expression::template::Template;
use expression::{EvalClock, Expression};
use jiff::Timestamp;
use model::action::ActionError;
use model::automation::{RespondBody, RespondStep, Step, SwitchCases, Verb, WaitOn, WaitStep};
use model::execution::{Event, ExecutionId, StepOutcome};
use store::ExecutionRow;
use value::{Budget, Map, Value};

use super::determinism::StepClock;
use super::evaluate::expression_error;
use super::scope::Scope;
use crate::context::Context;
use crate::evaluator::evaluate_url;
use crate::inputs::is_address;
use crate::records::Records;
pub use expression_value::ExpressionValue;
use replay::Replay;

/// The inputs of one attempt of a step, derived from the log.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedInput {
    /// The step, with the index of each iteration around it.
    pub step: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The inputs by name; `None` if they cannot be derived.
    pub input: Option<Value>,
    /// The error of the evaluation, which is that of the step if the step failed before its call.
    pub error: Option<ActionError>,
    /// The sources that the inputs read and that the log does not have.
    pub missing: Vec<MissingSource>,
}

/// A source of values that can no longer be read, or whose value may be another one by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingSource {
    /// The step has not started, or its condition was false.
    NotStarted,
    /// The definition is not in the store, or this version of Cogwork cannot load it.
    Definition,
    /// The step runs code, which reads the results of all steps.
    Code,
    /// The step has no inputs.
    Nothing,
    /// The state that the step read is not in the log.
    State,
    /// Variables of the configuration, which have today's values.
    ConfigVars,
    /// Secrets, which are masked.
    Secrets,
}

impl MissingSource {
    /// Returns the name used in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "notStarted",
            Self::Definition => "definition",
            Self::Code => "code",
            Self::Nothing => "nothing",
            Self::State => "state",
            Self::ConfigVars => "configVars",
            Self::Secrets => "secrets",
        }
    }
}

impl Records {
    /// Derives the inputs of an attempt of a step from the events of its execution, under the budget of an evaluation; of the
    /// last attempt if `attempt` is `None`. `step` has the index of each iteration around it: `copy[2]`.
    pub async fn step_input(
        &self,
        row: &ExecutionRow,
        events: Vec<Event>,
        step: &str,
        attempt: Option<u32>,
    ) -> DerivedInput {
        let unknown = |missing| DerivedInput {
            step: step.to_owned(),
            attempt: attempt.unwrap_or(1),
            input: None,
            error: None,
            missing: vec![missing],
        };
        let Some(began) = began(&events, step, attempt) else {
            return unknown(MissingSource::NotStarted);
        };
        let Ok(deployment) = self.deployment(&row.automation, row.definition).await else {
            return unknown(MissingSource::Definition);
        };
        let context = self.context.clone();
        let (id, key) = (row.id, step.to_owned());
        let work = move |budget: &Budget| {
            let derivation = Derivation { context: &context, deployment: &deployment, id, events: &events };
            derivation.run(&key, &began, budget)
        };
        self.context.evaluator.long(work).await
    }
}

/// The beginning of an attempt.
struct Began {
    attempt: u32,
    /// The index of the first event that belongs to it.
    index: usize,
    at: Timestamp,
}

/// Finds the beginning of an attempt: of the last one if `attempt` is `None`.
fn began(events: &[Event], key: &str, attempt: Option<u32>) -> Option<Began> {
    let (mut found, mut next): (Option<Began>, (u32, Option<Timestamp>)) = (None, (1, None));
    for (index, event) in events.iter().enumerate() {
        let (at, number) = match event {
            Event::StepStarted { at, step, attempt } if step == key => (*at, *attempt),
            Event::StepFinished { step, outcome: StepOutcome::Skipped, .. } if step == key => return None,
            Event::StepContextRecorded { at, step, .. }
            | Event::StepCalled { at, step, .. }
            | Event::Waiting { at, step, .. }
            | Event::StepRetry { at, step, .. }
            | Event::StepFailed { at, step, .. }
            | Event::StepFinished { at, step, .. }
                if step == key =>
            {
                (next.1.unwrap_or(*at), next.0)
            }
            _ => continue,
        };
        let is_new = found.as_ref().is_none_or(|known| known.attempt < number);
        if is_new && attempt.is_none_or(|wanted| number <= wanted) {
            found = Some(Began { attempt: number, index, at });
        }
        match event {
            Event::StepRetry { attempt, next_at, .. } => next = (attempt + 1, Some(*next_at)),
            // Events after it belong to the steps that handle the failure.
            Event::StepFailed { .. } | Event::StepFinished { .. } => next.0 = number,
            _ => {}
        }
    }
    found.filter(|found| attempt.is_none_or(|wanted| wanted == found.attempt))
}

struct Derivation<'a> {
    context: &'a Context,
    deployment: &'a Deployment,
    id: ExecutionId,
    events: &'a [Event],
}

impl Derivation<'_> {
    fn run(&self, key: &str, began: &Began, budget: &Budget) -> DerivedInput {
        let mut derived = DerivedInput {
            step: key.to_owned(),
            attempt: began.attempt,
            input: None,
            error: None,
            missing: Vec::new(),
        };
        let id = key.split('[').next().unwrap_or_default();
        let mut found = None;
        self.deployment.automation.walk(&mut |step| {
            if *step.id == *id {
                found = Some(step);
            }
        });
        let Some(step) = found else {
            derived.missing.push(MissingSource::Definition);
            return derived;
        };
        if let Some(nothing) = without_inputs(&step.verb) {
            derived.missing.push(nothing);
            return derived;
        }
        match self.evaluate(step, key, began, &mut derived.missing, budget) {
            Ok(input) => {
                derived.input = Some(self.context.settings.redactor.redact_value(input));
            }
            Err(error) => derived.error = Some(error.redacted(&self.context.settings.redactor)),
        }
        derived
    }

    fn evaluate(
        &self,
        step: &Step,
        key: &str,
        began: &Began,
        missing: &mut Vec<MissingSource>,
        budget: &Budget,
    ) -> Result<Value, ActionError> {
        let replay = Replay::new(self.context, self.deployment, self.id, &self.events[..began.index]);
        let mut scope = replay.scope_at(step, key, budget)?;
        self.note_variables(step, missing);
        let reads = self.deployment.plan.reads(&step.id);
        // Recorded within the attempt, or in an earlier one.
        let frame = self.events.iter().find_map(|event| match event {
            Event::StepContextRecorded { at, step, state } if step == key => Some((*at, state)),
            _ => None,
        });
        if reads.is_some_and(|reads| !reads.state.is_empty()) {
            match frame.filter(|(_, state)| !state.is_null()) {
                Some((_, state)) => scope.bind("state", state.clone()),
                None => missing.push(MissingSource::State),
            }
        }
        scope.mask(&self.context.resume_tokens());
        if reads.is_none_or(|reads| !reads.is_nondeterministic) {
            return self.inputs(step, &scope, budget);
        }
        let at = frame.map_or(began.at, |(at, _)| at);
        let clock: Arc<dyn EvalClock> = StepClock::new(self.context.secret.clone(), self.id, key, at);
        scope.set_moment(Some(clock));
        if let Some(guard) = &step.guard {
            // The condition draws its UUIDs before the settings do, and these before the inputs.
            let (root, clock) = scope.names();
            let _ = guard.evaluate_with_clock(root, clock, budget);
        }
        for setting in step.computed_settings() {
            let (root, clock) = scope.names();
            let _ = setting.evaluate_with_clock(root, clock, budget);
        }
        for _ in 1..began.attempt.min(MAX_ATTEMPTS) {
            let _ = self.inputs(step, &scope, budget);
        }
        self.inputs(step, &scope, budget)
    }

    /// Notes the variables whose value is not that of the log.
    fn note_variables(&self, step: &Step, missing: &mut Vec<MissingSource>) {
        let mut reads = false;
        step.expressions(&mut |expression| {
            reads |= expression
                .references()
                .iter()
                .any(|reference| reference.path.first().is_none_or(|root| root.as_str() == "configVars"));
        });
        let variables = &self.deployment.automation.config_vars;
        if !reads || variables.is_empty() {
            return;
        }
        missing.push(MissingSource::ConfigVars);
        if variables.iter().any(|variable| variable.secret) {
            missing.push(MissingSource::Secrets);
        }
    }

    fn inputs(&self, step: &Step, scope: &Scope, budget: &Budget) -> Result<Value, ActionError> {
        let (root, clock) = scope.names();
        let evaluator = Inputs { root, clock, budget };
        match &step.verb {
            Verb::Action(call) => {
                let catalog = self.context.catalog.load_full();
                let action = catalog.registry().action(&call.action.name);
                let spec = action.map(|action| action.spec());
                let mut inputs = Map::with_capacity(call.with.len());
                for (name, template) in &call.with {
                    let place = format!("input `{}`", name.name);
                    let value = if spec.is_some_and(|spec| is_address(spec, &name.name, template)) {
                        evaluate_url(template, root, clock, budget)
                            .map_err(|error| expression_error(&error, &place))?
                    } else {
                        evaluator.template(template, &place)?
                    };
                    inputs.insert(name.name.as_str(), value);
                }
                // With the defaults of the action, as it is called.
                let checked = spec.and_then(|spec| connector::check_inputs(spec, &inputs, budget).ok());
                Ok(Value::from(checked.unwrap_or(inputs)))
            }
            Verb::Call(call) => {
                evaluator.map(call.with.iter().map(|(name, value)| (name.name.as_str(), value)))
            }
            Verb::Set(values) => evaluator.map(values.iter().map(|(name, value)| (&**name, value))),
            Verb::If(branch) => evaluator.one("if", |all| all.expression(&branch.condition, "if")),
            Verb::Switch(switch) => evaluator.one("switch", |all| all.switch(&switch.cases)),
            Verb::ForEach(each) => evaluator.one("forEach", |all| all.template(&each.items, "forEach")),
            Verb::Wait(WaitStep::For(time)) => {
                evaluator.one("wait", |_| Ok(Value::from(text::units::format_duration(*time))))
            }
            Verb::Wait(WaitStep::Computed(time)) => evaluator.one("wait", |all| all.template(time, "wait")),
            Verb::Wait(WaitStep::Until(until)) => {
                evaluator.one("until", |all| all.expression(until, "until"))
            }
            Verb::WaitFor(wait) => match &wait.on {
                WaitOn::Event { name, .. } => evaluator.one("event", |all| all.template(name, "event")),
                WaitOn::Approval(approval) => {
                    evaluator.one("message", |all| all.template(&approval.message, "message"))
                }
            },
            Verb::Respond(respond) => evaluator.response(respond),
            Verb::Stop { result, respond } => {
                let mut inputs = Map::from_iter([("result", evaluator.template(result, "stop")?)]);
                if let Some(respond) = respond {
                    inputs.insert("respond", evaluator.response(respond)?);
                }
                Ok(Value::from(inputs))
            }
            Verb::Continue { result } => evaluator.one("result", |all| all.template(result, "continue")),
            Verb::Fail(fail) => {
                let own = [("message", Some(&fail.message)), ("status", fail.status.as_ref())];
                let own = own.into_iter().chain([("code", fail.code.as_ref()), ("data", fail.data.as_ref())]);
                let parts = own.filter_map(|(name, template)| Some((name, template?)));
                let Value::Map(mut inputs) = evaluator.map(parts)? else { return Ok(Value::Null) };
                if let Some(respond) = &fail.respond {
                    Arc::make_mut(&mut inputs).insert("respond", evaluator.response(respond)?);
                }
                Ok(Value::Map(inputs))
            }
            Verb::Code(_) | Verb::Repeat(_) | Verb::Parallel(_) | Verb::Group(_) | Verb::Break => {
                Ok(Value::Null)
            }
        }
    }
}

/// Maximum number of attempts that are evaluated again for the UUIDs that they drew.
const MAX_ATTEMPTS: u32 = 100;

/// The reason why a verb has no inputs; `None` if it has some.
fn without_inputs(verb: &Verb) -> Option<MissingSource> {
    match verb {
        Verb::Code(_) => Some(MissingSource::Code),
        Verb::Repeat(_) | Verb::Parallel(_) | Verb::Group(_) | Verb::Break => Some(MissingSource::Nothing),
        _ => None,
    }
}

/// Evaluates the inputs of one step.
struct Inputs<'a> {
    root: &'a Value,
    clock: Option<&'a Arc<dyn EvalClock>>,
    budget: &'a Budget,
}

impl Inputs<'_> {
    fn template(&self, template: &Template, place: &str) -> Result<Value, ActionError> {
        let value = template.evaluate_with_clock(self.root, self.clock, self.budget);
        value.map_err(|error| expression_error(&error, place))
    }

    fn expression(&self, expression: &Expression, place: &str) -> Result<Value, ActionError> {
        let value = expression.evaluate_with_clock(self.root, self.clock, self.budget);
        value.map_err(|error| expression_error(&error, place))
    }

    /// The conditions of a `switch` up to the first true one, or its value.
    fn switch(&self, cases: &SwitchCases) -> Result<Value, ActionError> {
        let SwitchCases::Conditions(cases) = cases else {
            let mut values = cases.expressions().map(|value| self.expression(value, "switch"));
            return values.next().unwrap_or(Ok(Value::Null));
        };
        let mut values = Vec::new();
        for case in cases {
            let value = self.expression(&case.condition, "if")?;
            let holds = value.is_truthy();
            values.push(value);
            if holds {
                break;
            }
        }
        Ok(Value::from(values))
    }

    fn response(&self, respond: &RespondStep) -> Result<Value, ActionError> {
        let mut parts = vec![("status", &respond.status), ("headers", &respond.headers)];
        parts.extend(respond.content_type.as_ref().map(|value| ("contentType", value)));
        match &respond.body {
            RespondBody::Empty => {}
            RespondBody::Body(body) => parts.push(("body", body)),
            RespondBody::Json(body) => parts.push(("json", body)),
            RespondBody::File(body) => parts.push(("file", body)),
        }
        self.map(parts.into_iter())
    }

    fn one(
        &self,
        name: &str,
        value: impl FnOnce(&Self) -> Result<Value, ActionError>,
    ) -> Result<Value, ActionError> {
        Ok(Value::from(Map::from_iter([(name, value(self)?)])))
    }

    fn map<'t>(&self, parts: impl Iterator<Item = (&'t str, &'t Template)>) -> Result<Value, ActionError> {
        let mut inputs = Map::new();
        for (name, template) in parts {
            inputs.insert(name, self.template(template, name)?);
        }
        Ok(Value::from(inputs))
    }
}
