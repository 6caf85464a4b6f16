//! The types of what expressions can read: results of steps, variables, inputs, items of loops.

use std::cell::RefCell;
use std::collections::HashMap;

use connector::Registry;
use model::automation::{Automation, Block, OnError, Runs, Step, Trigger, Verb};
use model::expression::{DirectPath, Link, Reference};
use model::load::Gaps;
use model::value::Key;
use model::{Expression, ResultType, Template};

use super::walk::walk;

/// How many types may be worked out inside each other. Steps come in the order of the file, so what one reads is mostly
/// known before it.
const MAX_DEPTH: usize = 48;

/// What is known of everything that expressions can read.
pub(super) struct Types<'a> {
    automation: &'a Automation,
    gaps: &'a Gaps,
    registry: &'a Registry,
    /// What saved payloads say of the body, where nothing else does.
    saved: Option<ResultType>,
    steps: HashMap<&'a str, Placed<'a>>,
    /// The values that each variable is set to, each with its step.
    setters: HashMap<&'a str, Vec<(&'a Template, &'a Step)>>,
    /// What was worked out before.
    known: RefCell<HashMap<Name<'a>, ResultType>>,
    /// What is being worked out: what comes to itself is of no known type.
    open: RefCell<Vec<Name<'a>>>,
}

/// Something that has one type wherever it is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name<'a> {
    Step(&'a str),
    Variable(&'a str),
    Item(&'a str),
    Body,
}

/// A step and the one around it.
struct Placed<'a> {
    step: &'a Step,
    around: Option<&'a Step>,
    /// Whether it runs in the turns of the one around it.
    in_turns: bool,
}

impl<'a> Types<'a> {
    pub(super) fn of(
        automation: &'a Automation,
        gaps: &'a Gaps,
        registry: &'a Registry,
        saved: Option<ResultType>,
    ) -> Self {
        let mut types = Self {
            automation,
            gaps,
            registry,
            saved,
            steps: HashMap::new(),
            setters: HashMap::new(),
            known: RefCell::default(),
            open: RefCell::default(),
        };
        let lists = [Some(&automation.steps), automation.on_error.as_ref(), automation.finally.as_ref()];
        lists.into_iter().flatten().for_each(|block| types.place(block, None, false));
        automation.walk(&mut |step| {
            types.step(&step.id);
        });
        types
    }

    fn place(&mut self, block: &'a Block, around: Option<&'a Step>, in_turns: bool) {
        for step in &block.steps {
            self.steps.insert(&step.id, Placed { step, around, in_turns });
            if let Verb::Set(values) = &step.verb {
                for (name, value) in values {
                    self.setters.entry(name).or_default().push((value, step));
                }
            }
            for inner in step.verb.lists() {
                self.place(inner.block, Some(step), matches!(inner.runs, Runs::Turns { .. }));
            }
            let after = match &step.on_error {
                OnError::Steps(block) => Some(block),
                OnError::Fail | OnError::Continue => None,
            };
            after.into_iter().chain(&step.undo).for_each(|block| self.place(block, Some(step), false));
        }
    }

    /// What is known of what a path reads: the type of its first links, and how many of them that is.
    pub(super) fn base(&self, path: &[Key], at: Option<&'a Step>) -> Option<(ResultType, usize)> {
        let root = path.first()?;
        if let Some(each) = at.and_then(|step| self.loop_of(root, step)) {
            return Some((self.item(each), 1));
        }
        if root == "trigger" {
            return self.body(path).map(|kind| (kind, 4));
        }
        let second = path.get(1).map(|name| name.as_str());
        let kind = match (root.as_str(), second?) {
            ("steps", id) => {
                let placed =
                    self.steps.get(id).filter(|_| path.get(2).is_some_and(|key| key == "results"))?;
                return Some((self.step(&placed.step.id), 3));
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
            _ => return None,
        };
        Some((kind, 2))
    }

    /// Whether what a path reads was put together by the file itself, by a step that names values.
    pub(super) fn is_own(&self, path: &[Key], at: Option<&'a Step>) -> bool {
        let Some(root) = path.first() else { return false };
        match at.and_then(|step| self.loop_of(root, step)) {
            Some(around) => match &around.verb {
                Verb::ForEach(each) => match &each.items {
                    Template::Expression(items) => match items.direct_path() {
                        Some(DirectPath::One(read) | DirectPath::Every(read)) => {
                            self.is_own(&read.path, Some(around))
                        }
                        None => true,
                    },
                    _ => true,
                },
                _ => false,
            },
            None if root == "steps" => {
                let step = path.get(1).and_then(|id| self.steps.get(id.as_str()));
                step.is_some_and(|placed| !matches!(placed.step.verb, Verb::Action(_)))
            }
            None => root != "trigger",
        }
    }

    /// The type at the end of a path; of one that leads nowhere nothing is known.
    pub(super) fn reference(&self, reference: &Reference, at: Option<&'a Step>) -> ResultType {
        let Some((kind, depth)) = self.base(&reference.path, at) else { return ResultType::Any };
        let links: Vec<Link> = reference.links().skip(depth).collect();
        walk(&kind, &links).unwrap_or_default()
    }

    pub(super) fn expression(&self, expression: &Expression, at: Option<&'a Step>) -> ResultType {
        match expression.direct_path() {
            Some(DirectPath::One(reference)) => self.reference(reference, at),
            Some(DirectPath::Every(reference)) => ResultType::list(self.reference(reference, at)),
            None => ResultType::Any,
        }
    }

    pub(super) fn template(&self, template: &Template, at: Option<&'a Step>) -> ResultType {
        match template {
            Template::Literal(value) => ResultType::of_value(value),
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

    /// What is worked out once for a name. It stays within bounds however the file is written.
    fn once(&self, name: Name<'a>, work: impl FnOnce() -> ResultType) -> ResultType {
        if let Some(known) = self.known.borrow().get(&name) {
            return known.clone();
        }
        if self.open.borrow().len() >= MAX_DEPTH || self.open.borrow().contains(&name) {
            return ResultType::Any;
        }
        self.open.borrow_mut().push(name);
        let kind = Some(work()).filter(ResultType::is_bounded).unwrap_or_default();
        self.open.borrow_mut().pop();
        self.known.borrow_mut().insert(name, kind.clone());
        kind
    }

    /// The type of `steps.<id>.results`.
    fn step(&self, id: &'a str) -> ResultType {
        let Some(step) = self.steps.get(id).map(|placed| placed.step) else { return ResultType::Any };
        self.once(Name::Step(id), || {
            if self.gaps.touches(id) {
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
            Verb::Action(call) => self
                .registry
                .action(&call.action.name)
                .map(|action| action.spec().results.clone())
                .unwrap_or_default(),
            Verb::Set(values) => {
                ResultType::object(values.iter().map(|(name, value)| (&**name, self.template(value, at))))
            }
            Verb::If(branch) => {
                let otherwise = branch.otherwise.as_ref().map_or(ResultType::Null, |block| self.block(block));
                ResultType::one_of([self.block(&branch.then), otherwise])
            }
            Verb::ForEach(each) => {
                let turn = self.turn(&each.steps);
                // A turn that fails leaves its error in its place.
                let failed = ResultType::object([("error", ResultType::Any)]);
                ResultType::list(if each.fail_fast { turn } else { ResultType::one_of([turn, failed]) })
            }
            Verb::Parallel(branches) => {
                ResultType::object(branches.iter().map(|(name, block)| (&**name, self.block(block))))
            }
            Verb::Switch(switch) => {
                let default = switch.default.as_ref().map_or(ResultType::Null, |block| self.block(block));
                let cases = switch.cases.iter().map(|(_, block)| self.block(block));
                ResultType::one_of(cases.chain([default]))
            }
            Verb::Repeat(repeat) => self.turn(&repeat.steps).or_null(),
            Verb::Group(block) => self.block(block),
            Verb::Call(call) if call.detached => ResultType::object([("executionId", ResultType::Text)]),
            Verb::Respond(_) | Verb::Wait(_) => ResultType::Null,
            // What another automation gives, code, or whoever answers, is not known here; what ends gives nothing.
            Verb::Call(_)
            | Verb::Code(_)
            | Verb::WaitFor(_)
            | Verb::Break
            | Verb::Continue
            | Verb::Stop { .. }
            | Verb::Fail { .. } => ResultType::Any,
        }
    }

    /// What a list of steps gives: the result of its last step.
    fn block(&self, block: &'a Block) -> ResultType {
        // Which one is the last is unknown where a step could not be read.
        if !self.gaps.is_empty() {
            return ResultType::Any;
        }
        block.steps.last().map_or(ResultType::Null, |step| self.step(&step.id))
    }

    /// What a turn of a loop gives: null where it may be cut short.
    fn turn(&self, block: &'a Block) -> ResultType {
        let mut cut = false;
        block.walk(&mut |step| cut |= matches!(step.verb, Verb::Continue));
        let kind = self.block(block);
        if cut { kind.or_null() } else { kind }
    }

    fn variable(&self, name: &'a str) -> ResultType {
        self.once(Name::Variable(name), || {
            let unsure = self.gaps.may_set(name) || !self.gaps.is_empty();
            let setters = self.setters.get(name).filter(|_| !unsure);
            ResultType::one_of(
                setters.into_iter().flatten().map(|(value, step)| self.template(value, Some(step))),
            )
        })
    }

    /// What a webhook's schema says of `trigger.results.body.data`; without one what saved payloads say.
    fn body(&self, path: &[Key]) -> Option<ResultType> {
        let Trigger::Webhook(webhook) = &self.automation.trigger else { return None };
        let is_body = path.get(1..4).is_some_and(|path| path == ["results", "body", "data"]);
        if !is_body || webhook.code.is_some() || self.gaps.has("trigger") {
            return None;
        }
        match &webhook.schema {
            Some(schema) => Some(self.once(Name::Body, || schema.result_type())),
            None => self.saved.clone(),
        }
    }

    /// What a manual start was given; other starts give nothing.
    fn input(&self, name: &str) -> Option<ResultType> {
        let spec = self.automation.inputs.iter().find(|input| input.name == name)?;
        let given = ResultType::from(&spec.kind);
        let certain =
            spec.default.is_some() || (spec.required && matches!(self.automation.trigger, Trigger::Manual));
        Some(if certain { given } else { given.or_null() })
    }

    /// The innermost loop around a step that calls its items so.
    fn loop_of(&self, name: &str, step: &'a Step) -> Option<&'a Step> {
        let mut placed = self.steps.get(step.id.as_ref())?;
        while let Some(around) = placed.around {
            if let Verb::ForEach(each) = &around.verb
                && placed.in_turns
                && (name == "item" || *each.item == *name)
            {
                return Some(around);
            }
            placed = self.steps.get(around.id.as_ref())?;
        }
        None
    }

    /// What the items of a loop are.
    fn item(&self, around: &'a Step) -> ResultType {
        self.once(Name::Item(&around.id), || {
            let Verb::ForEach(each) = &around.verb else { return ResultType::Any };
            if self.gaps.touches(&around.id) {
                return ResultType::Any;
            }
            walk(&self.template(&each.items, Some(around)), &[Link::Every]).unwrap_or_default()
        })
    }
}
