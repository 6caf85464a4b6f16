//! Infers the types of values that expressions read: step results, variables, inputs, loop items.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use connector::Registry;
use expression::{DirectPath, Expression, Form, Link, Reference, Template};
use language::load::Unreadable;
use model::ResultType;
use model::action::{ObjectType, ResultField};
use model::automation::{
    Automation, Block, BlockKind, DeclaredTrigger, OnError, OnTimeout, Step, Trigger, TriggerId, Verb,
    WaitForStep, WaitOn,
};
use value::Key;

use super::Surroundings;
use super::resolve::resolve;
use super::trigger_data::event_data;
use crate::check::error_kinds;
use crate::check::references;
use crate::check::started_by::StartedBy;

/// Maximum depth of nested inferences. Steps are inferred in file order, so most dependencies are already known.
const MAX_DEPTH: usize = 48;

/// Inferred types of one automation.
pub(in crate::check) struct Types<'a> {
    pub(super) automation: &'a Automation,
    pub(super) unreadable: &'a Unreadable,
    pub(super) registry: &'a Registry,
    /// Types of the bodies inferred from saved payloads, for webhooks without a schema.
    saved: HashMap<TriggerId, ResultType>,
    started_by: StartedBy<'a>,
    /// Trigger of the expression that is checked outside of steps; `None` if any trigger can have started the execution.
    trigger: Option<&'a DeclaredTrigger>,
    /// Types of the results of the called automations, by id.
    called: HashMap<&'a str, ResultType>,
    /// Types of the results of calls whose statements are described, by step.
    described: HashMap<&'a str, ResultType>,
    steps: HashMap<&'a str, NestedStep<'a>>,
    /// Values assigned to each variable, each with its step.
    setters: HashMap<&'a str, Vec<(&'a Template, &'a Step)>>,
    /// Cache of inferred types.
    cache: RefCell<HashMap<TypeKey<'a>, ResultType>>,
    /// Names whose type is being inferred; a cycle yields *unknown*.
    in_progress: RefCell<Vec<TypeKey<'a>>>,
}

/// Key of a cached type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum TypeKey<'a> {
    Step(&'a str),
    Variable(&'a str),
    Item(&'a str),
    Body(&'a str),
}

/// Step with its parent.
struct NestedStep<'a> {
    step: &'a Step,
    parent: Option<&'a Step>,
    /// True if the step runs in iterations of its parent.
    in_loop: bool,
}

impl<'a> Types<'a> {
    pub(in crate::check) fn new(
        automation: &'a Automation,
        unreadable: &'a Unreadable,
        registry: &'a Registry,
        surroundings: Surroundings<'_>,
    ) -> Self {
        let (mut called, mut described) = (HashMap::new(), HashMap::new());
        automation.walk(&mut |step| {
            if let Verb::Action(call) = &step.verb {
                described.extend((surroundings.described)(call).map(|kind| (&*step.id, kind)));
            }
            let Verb::Call(call) = &step.verb else { return };
            for id in call.automation.candidates().iter().map(|callee| callee.name.as_str()) {
                called.extend((surroundings.called)(id).map(|kind| (id, kind)));
            }
        });
        let saved = automation
            .triggers
            .iter()
            .filter_map(|trigger| Some((trigger.id.clone(), (surroundings.saved)(trigger)?)));
        let mut types = Self {
            automation,
            unreadable,
            registry,
            saved: saved.collect(),
            started_by: StartedBy::new(automation, unreadable),
            trigger: None,
            called,
            described,
            steps: HashMap::new(),
            setters: HashMap::new(),
            cache: RefCell::default(),
            in_progress: RefCell::default(),
        };
        let lists = [Some(&automation.steps), automation.on_error.as_ref(), automation.finally.as_ref()];
        lists.into_iter().flatten().for_each(|block| types.collect_steps(block, None, false));
        automation.walk(&mut |step| {
            types.step(&step.id);
        });
        types
    }

    fn collect_steps(&mut self, block: &'a Block, parent: Option<&'a Step>, in_loop: bool) {
        for step in &block.steps {
            self.steps.insert(&step.id, NestedStep { step, parent, in_loop });
            if let Verb::Set(values) = &step.verb {
                for (name, value) in values {
                    self.setters.entry(name).or_default().push((value, step));
                }
            }
            for inner in step.verb.nested_blocks() {
                self.collect_steps(inner.block, Some(step), matches!(inner.kind, BlockKind::Loop { .. }));
            }
            step.handlers().for_each(|(_, block)| self.collect_steps(block, Some(step), false));
        }
    }

    /// Returns the type of the first links of a path, and the number of these links; `None` if unknown.
    pub(in crate::check) fn base(&self, path: &[Key], at: Option<&'a Step>) -> Option<(ResultType, usize)> {
        let root = path.first()?;
        if let Some(each) = at.and_then(|step| self.loop_of(root, step)) {
            return Some((self.item(each), 1));
        }
        if let Some(found) = error_of(path) {
            return Some(found);
        }
        if root == "trigger" {
            if path.get(1).is_some_and(|name| name == "id") {
                return None;
            }
            return self.type_of_triggers(at, |trigger| {
                let kind = self.request_part(trigger, path).or_else(|| self.engine_event(trigger, path));
                let kind =
                    kind.or_else(|| self.own_event(trigger, path)).or_else(|| self.found(trigger, path));
                kind.or_else(|| self.body(trigger, path).map(|kind| (kind, 4)))
            });
        }
        if root == "item" && at.is_none() {
            // The message of which `dedup` reads the identity.
            let Trigger::Event(event) = &self.trigger?.on else { return None };
            return Some((self.message(event)?, 1));
        }
        if root == "event" {
            // A `waitFor` takes any data.
            let event = self.trigger.filter(|_| at.is_none())?.on.own_event()?;
            return match path.get(1)?.as_str() {
                "name" => Some((ResultType::Text, 2)),
                "data" => Some((event_data(event)?, 2)),
                _ => None,
            };
        }
        let second = path.get(1).map(|name| name.as_str());
        let kind = match (root.as_str(), second?) {
            ("steps", id) => {
                let step = self.steps.get(id).map(|nested| nested.step)?;
                match path.get(2).map(|key| key.as_str()) {
                    Some("results") => return Some((self.step(&step.id), 3)),
                    Some("ok") => return Some((ResultType::Boolean, 3)),
                    Some("timedOut") if matches!(step.verb, Verb::WaitFor(_)) => {
                        return Some((ResultType::Boolean, 3));
                    }
                    None => whole_step(step, self.step(&step.id)),
                    Some(_) => return None,
                }
            }
            ("vars", name) => {
                let (name, _) = self.setters.get_key_value(name)?;
                self.variable(name)
            }
            ("inputs", name) => self.input(name)?,
            ("configVars", name) => {
                let variable =
                    self.automation.config_vars.iter().find(|variable| variable.name.name == name)?;
                self.template(&variable.value, None)
            }
            ("outcome", "status") => {
                ResultType::Choice { options: ["succeeded", "failed", "cancelled"].map(str::to_owned).into() }
            }
            _ => return None,
        };
        Some((kind, 2))
    }

    /// Returns true if the file itself builds the value of the path, in a step other than an action.
    pub(super) fn is_own(&self, path: &[Key], at: Option<&'a Step>) -> bool {
        let Some(root) = path.first() else { return false };
        match at.and_then(|step| self.loop_of(root, step)) {
            Some(parent) => match &parent.verb {
                Verb::ForEach(each) => match &each.items {
                    Template::Expression(items) => match items.direct_path() {
                        Some(DirectPath::One(read) | DirectPath::Every(read)) => {
                            self.is_own(&read.path, Some(parent))
                        }
                        None => true,
                    },
                    _ => true,
                },
                _ => false,
            },
            None if root == "steps" => {
                let step = path.get(1).and_then(|id| self.steps.get(id.as_str()));
                step.is_some_and(|nested| !matches!(nested.step.verb, Verb::Action(_)))
            }
            None => root != "trigger",
        }
    }

    /// Returns the type at the end of a path; *unknown* if the path cannot be resolved.
    pub(super) fn reference(&self, reference: &Reference, at: Option<&'a Step>) -> ResultType {
        let Some((kind, depth)) = self.base(&reference.path, at) else { return ResultType::Any };
        let links: Vec<Link> = reference.links().skip(depth).collect();
        resolve(&kind, &links).unwrap_or_default()
    }

    pub(super) fn expression(&self, expression: &Expression, at: Option<&'a Step>) -> ResultType {
        match expression.direct_path() {
            Some(DirectPath::One(reference)) => self.reference(reference, at),
            Some(DirectPath::Every(reference)) => ResultType::list(self.reference(reference, at)),
            None => match expression.form() {
                Form::Unknown => match expression.item_path() {
                    Some(reference) => ResultType::list(self.reference(&reference, at)),
                    None => ResultType::Any,
                },
                Form::Instant | Form::Text | Form::Decimal => ResultType::Text,
                Form::Number => ResultType::Number,
                Form::Boolean => ResultType::Boolean,
                Form::Texts => ResultType::list(ResultType::Text),
                Form::Rows => ResultType::list(ResultType::map(ResultType::Text)),
            },
        }
    }

    /// Returns the step with this id.
    pub(super) fn step_of(&self, id: &str) -> Option<&'a Step> {
        self.steps.get(id).map(|nested| nested.step)
    }

    /// Returns the values that are assigned to a variable, each with its step.
    pub(super) fn setters_of(&self, name: &str) -> Vec<(&'a Template, &'a Step)> {
        self.setters.get(name).cloned().unwrap_or_default()
    }

    /// Returns true if the value of a key of a step could not be read.
    pub(super) fn is_unread(&self, step: &Step, key: &str) -> bool {
        self.unreadable.has_in_step(&step.id, key)
    }

    pub(super) fn template(&self, template: &Template, at: Option<&'a Step>) -> ResultType {
        match template {
            Template::Literal(value) => ResultType::infer(value),
            Template::Expression(expression) => self.expression(expression, at),
            Template::Text(_) => ResultType::Text,
            Template::List(items) => {
                ResultType::list(ResultType::one_of(items.iter().map(|item| self.template(item, at))))
            }
            Template::Map(entries) => {
                ResultType::object(entries.iter().map(|(key, value)| (&**key, self.template(value, at))))
            }
        }
    }

    /// Infers a type once and caches it. Bounds the size of types and the depth of inference.
    fn cached(&self, name: TypeKey<'a>, work: impl FnOnce() -> ResultType) -> ResultType {
        if let Some(known) = self.cache.borrow().get(&name) {
            return known.clone();
        }
        if self.in_progress.borrow().len() >= MAX_DEPTH || self.in_progress.borrow().contains(&name) {
            return ResultType::Any;
        }
        self.in_progress.borrow_mut().push(name);
        let kind = Some(work()).filter(ResultType::is_bounded).unwrap_or_default();
        self.in_progress.borrow_mut().pop();
        self.cache.borrow_mut().insert(name, kind.clone());
        kind
    }

    /// Returns the type of `steps.<id>.results`.
    pub(super) fn results_of(&self, id: &str) -> ResultType {
        self.step_of(id).map_or(ResultType::Any, |step| self.step(&step.id))
    }

    /// Infers the type of `steps.<id>.results`.
    fn step(&self, id: &'a str) -> ResultType {
        let Some(step) = self.steps.get(id).map(|nested| nested.step) else { return ResultType::Any };
        self.cached(TypeKey::Step(id), || {
            if self.unreadable.touches(id) {
                return ResultType::Any;
            }
            let kind = self.verb(step);
            let kind = match &step.on_error {
                OnError::Fail => kind,
                OnError::Continue => kind.or_null(),
                OnError::Steps(block) => ResultType::one_of([kind, self.block(block)]),
            };
            if step.guard.is_some() { kind.or_null() } else { kind }
        })
    }

    fn verb(&self, step: &'a Step) -> ResultType {
        let at = Some(step);
        match &step.verb {
            Verb::Action(call) => {
                let declared = self.registry.action(&call.action.name);
                let declared = declared.map(|action| action.spec().results.clone());
                self.described.get(&*step.id).cloned().or(declared).unwrap_or_default()
            }
            Verb::Set(values) => {
                ResultType::object(values.iter().map(|(name, value)| (&**name, self.template(value, at))))
            }
            Verb::If(branch) => {
                let otherwise = branch.otherwise.as_ref().map_or(ResultType::Null, |block| self.block(block));
                ResultType::one_of([self.block(&branch.then), otherwise])
            }
            Verb::ForEach(each) => {
                let turn = self.turn(&each.steps);
                // A failed iteration yields its error.
                let failed = ResultType::object([("error", error_kinds::error_type())]);
                ResultType::list(if each.fail_fast { turn } else { ResultType::one_of([turn, failed]) })
            }
            Verb::Parallel(parallel) => {
                // A list that was cut off gives null.
                let result = |block| match parallel.enough {
                    Some(_) => self.block(block).or_null(),
                    None => self.block(block),
                };
                ResultType::object(parallel.branches.iter().map(|(name, block)| (&**name, result(block))))
            }
            Verb::Switch(switch) => {
                let default = switch.default.as_ref().map_or(ResultType::Null, |block| self.block(block));
                let cases = switch.cases.blocks().map(|block| self.block(block));
                ResultType::one_of(cases.chain([default]))
            }
            Verb::Repeat(repeat) => self.turn(&repeat.steps).or_null(),
            Verb::Group(block) => self.block(block),
            Verb::Call(call) if call.detached => ResultType::object([("executionId", ResultType::Text)]),
            Verb::Call(call) => ResultType::one_of(
                call.automation
                    .candidates()
                    .iter()
                    .map(|callee| self.called.get(callee.name.as_str()).cloned().unwrap_or_default()),
            ),
            Verb::Respond(_) | Verb::Wait(_) => ResultType::Null,
            Verb::WaitFor(wait) => wait_result(wait),
            // Results of code have no static type; `stop` and `fail` produce none.
            Verb::Code(_) | Verb::Break | Verb::Continue { .. } | Verb::Stop { .. } | Verb::Fail(_) => {
                ResultType::Any
            }
        }
    }

    /// Infers the result of a list of steps: that of its last step.
    fn block(&self, block: &'a Block) -> ResultType {
        // An unparsed step may be the last one.
        if !self.unreadable.is_empty() {
            return ResultType::Any;
        }
        block.steps.last().map_or(ResultType::Null, |step| self.step(&step.id))
    }

    /// Infers the result of an iteration: that of its list, or of a `continue` that ends it early.
    fn turn(&self, block: &'a Block) -> ResultType {
        let mut kinds = vec![self.block(block)];
        block.walk(&mut |step| {
            if let Verb::Continue { result } = &step.verb {
                kinds.push(self.template(result, Some(step)));
            }
        });
        ResultType::one_of(kinds)
    }

    fn variable(&self, name: &'a str) -> ResultType {
        self.cached(TypeKey::Variable(name), || {
            let unsure = self.unreadable.may_set(name) || !self.unreadable.is_empty();
            let setters = self.setters.get(name).filter(|_| !unsure);
            ResultType::one_of(
                setters.into_iter().flatten().map(|(value, step)| self.template(value, Some(step))),
            )
        })
    }

    /// Sets the trigger of the expressions that are checked outside of steps.
    pub(super) fn starts(&mut self, trigger: Option<&'a DeclaredTrigger>) {
        self.trigger = trigger;
    }

    /// Returns the triggers that can have started the execution of a step.
    pub(super) fn triggers(&self, at: Option<&Step>) -> Vec<&'a DeclaredTrigger> {
        match (at, self.trigger) {
            (None, Some(trigger)) => vec![trigger],
            (at, _) => self.started_by.of(at).to_vec(),
        }
    }

    /// Returns one of the types that a value has for each trigger; `None` if it is unknown for one of them.
    fn type_of_triggers(
        &self,
        at: Option<&Step>,
        kind: impl Fn(&'a DeclaredTrigger) -> Option<(ResultType, usize)>,
    ) -> Option<(ResultType, usize)> {
        let kinds: Option<Vec<_>> = self.triggers(at).into_iter().map(kind).collect();
        let kinds = kinds?;
        let depth = kinds.first()?.1;
        Some((ResultType::one_of(kinds.into_iter().map(|(kind, _)| kind)), depth))
    }

    /// Returns the type of `trigger.results.body.data` from the webhook's schema, else from saved payloads.
    fn body(&self, trigger: &'a DeclaredTrigger, path: &[Key]) -> Option<ResultType> {
        let Trigger::Webhook(webhook) = &trigger.on else { return None };
        let is_body = path.get(1..4).is_some_and(|path| path == ["results", "body", "data"]);
        if !is_body || webhook.code.is_some() || self.unreadable.has("trigger") {
            return None;
        }
        match &webhook.schema {
            Some(schema) => {
                Some(self.cached(TypeKey::Body(trigger.id.as_str()), || ResultType::of_schema(schema)))
            }
            None => self.saved.get(&trigger.id).cloned(),
        }
    }

    /// Returns the type of an input. It may be null unless it has a default or a manual start must supply it.
    fn input(&self, name: &str) -> Option<ResultType> {
        let spec = self.automation.inputs.iter().find(|input| input.name == name)?;
        let given = ResultType::from(&spec.kind);
        let gives =
            |trigger: &DeclaredTrigger| matches!(trigger.on, Trigger::Manual) || trigger.inputs.is_some();
        let certain = spec.default.is_some() || (spec.required && self.automation.triggers.iter().all(gives));
        Some(if certain { given } else { given.or_null() })
    }

    /// Returns the innermost `forEach` parent a step whose loop variable has this name.
    fn loop_of(&self, name: &str, step: &'a Step) -> Option<&'a Step> {
        let mut nested = self.steps.get(step.id.as_ref())?;
        while let Some(parent) = nested.parent {
            if let Verb::ForEach(each) = &parent.verb
                && nested.in_loop
                && (name == "item" || *each.item == *name)
            {
                return Some(parent);
            }
            nested = self.steps.get(parent.id.as_ref())?;
        }
        None
    }

    /// Infers the type of a loop's items.
    fn item(&self, parent: &'a Step) -> ResultType {
        self.cached(TypeKey::Item(&parent.id), || {
            let Verb::ForEach(each) = &parent.verb else { return ResultType::Any };
            if self.unreadable.touches(&parent.id) {
                return ResultType::Any;
            }
            resolve(&self.template(&each.items, Some(parent)), &[Link::Every]).unwrap_or_default()
        })
    }
}

/// Returns the type of the error of a step, or of the execution.
fn error_of(path: &[Key]) -> Option<(ResultType, usize)> {
    let error = error_kinds::error_type();
    match path {
        // Another check reports a member that it does not have.
        [root, member, ..] if root == "error" && !references::ERROR.contains(&member.as_str()) => None,
        [root, ..] if root == "error" => Some((error, 1)),
        [root, member, ..] if root == "outcome" && member == "error" => Some((error.or_null(), 2)),
        [root, _, member, ..] if root == "steps" && member == "error" => Some((error.or_null(), 3)),
        _ => None,
    }
}

/// Returns the type of `steps.<id>`.
fn whole_step(step: &Step, results: ResultType) -> ResultType {
    let timed_out = matches!(step.verb, Verb::WaitFor(_)).then_some(("timedOut", ResultType::Boolean));
    let error = error_kinds::error_type().or_null();
    let own = [("results", results), ("error", error), ("ok", ResultType::Boolean)];
    ResultType::object(own.into_iter().chain(timed_out))
}

/// Returns the type of an answer or an event.
fn wait_result(wait: &WaitForStep) -> ResultType {
    let WaitOn::Approval(approval) = &wait.on else { return ResultType::Any };
    let option = ResultType::Choice { options: approval.options.clone().into() };
    let fields = vec![ResultField::new("option", option), ResultField::new("form", ResultType::Any)];
    let answer = ResultType::Object(Arc::new(ObjectType { fields, open: true, ..ObjectType::default() }));
    match wait.on_timeout {
        OnTimeout::Fail => answer,
        OnTimeout::Continue => answer.or_null(),
    }
}
