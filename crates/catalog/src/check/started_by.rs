//! The triggers that can have started the execution of a step: conditions around it that test `trigger.id` narrow them.

use std::collections::HashMap;
use std::ops::Range;

use expression::{Expression, Reference};
use language::load::Unreadable;
use model::automation::{Automation, Block, DeclaredTrigger, Step, SwitchCases, TriggerId, Verb};
use text::diagnostic::{Diagnostic, Span};
use value::Value;

const ID: [&str; 2] = ["trigger", "id"];

/// The triggers of an automation by step. Empty for an automation with one trigger.
pub(super) struct StartedBy<'a> {
    unreadable: &'a Unreadable,
    all: Vec<&'a DeclaredTrigger>,
    /// The triggers of the steps that fewer than all can have started.
    narrowed: HashMap<&'a str, Vec<&'a DeclaredTrigger>>,
}

impl<'a> StartedBy<'a> {
    pub(super) fn new(automation: &'a Automation, unreadable: &'a Unreadable) -> Self {
        let all: Vec<_> = automation.triggers.iter().collect();
        let mut started = Self { unreadable, all, narrowed: HashMap::new() };
        if started.all.len() > 1 {
            let all = started.all.clone();
            let lists = [Some(&automation.steps), automation.on_error.as_ref(), automation.finally.as_ref()];
            lists.into_iter().flatten().for_each(|block| started.block(block, &all));
        }
        started
    }

    /// Returns the triggers that can have started the execution in which a step runs; without a step, all. None behind a condition that
    /// cannot be read.
    pub(super) fn of(&self, step: Option<&Step>) -> &[&'a DeclaredTrigger] {
        step.and_then(|step| self.narrowed.get(step.id.as_ref())).unwrap_or(&self.all)
    }

    fn block(&mut self, block: &'a Block, around: &[&'a DeclaredTrigger]) {
        for step in &block.steps {
            let is_unread = ["if", "switch"].iter().any(|key| self.unreadable.has_in_step(&step.id, key));
            let triggers = match &step.guard {
                _ if is_unread => Vec::new(),
                Some(guard) => narrow(around, guard, true),
                None => around.to_vec(),
            };
            self.verb(&step.verb, &triggers);
            step.handlers().for_each(|(_, block)| self.block(block, &triggers));
            if triggers.len() < self.all.len() {
                self.narrowed.insert(&step.id, triggers);
            }
        }
    }

    fn verb(&mut self, verb: &'a Verb, around: &[&'a DeclaredTrigger]) {
        match verb {
            Verb::If(branch) => {
                self.block(&branch.then, &narrow(around, &branch.condition, true));
                branch
                    .otherwise
                    .iter()
                    .for_each(|block| self.block(block, &narrow(around, &branch.condition, false)));
            }
            Verb::Switch(switch) => {
                let mut left = around.to_vec();
                match &switch.cases {
                    SwitchCases::Values { value, cases } if value.text() == ID.join(".") => {
                        for (case, block) in cases {
                            let is_case = |trigger: &&DeclaredTrigger| trigger.id.as_str() == case.name;
                            let own: Vec<_> = left.iter().copied().filter(is_case).collect();
                            self.block(block, &own);
                            left.retain(|trigger| !is_case(trigger));
                        }
                    }
                    SwitchCases::Values { cases, .. } => {
                        cases.iter().for_each(|(_, block)| self.block(block, around));
                    }
                    SwitchCases::Conditions(cases) => {
                        for case in cases {
                            self.block(&case.then, &narrow(&left, &case.condition, true));
                            left = narrow(&left, &case.condition, false);
                        }
                    }
                }
                switch.default.iter().for_each(|block| self.block(block, &left));
            }
            verb => verb.nested_blocks().iter().for_each(|nested| self.block(nested.block, around)),
        }
    }
}

/// Returns the triggers for which the condition can be `wanted`.
fn narrow<'a>(
    triggers: &[&'a DeclaredTrigger],
    condition: &Expression,
    wanted: bool,
) -> Vec<&'a DeclaredTrigger> {
    let can_be = |trigger: &&&DeclaredTrigger| {
        condition.truth_if(&ID, trigger.id.as_str()).is_none_or(|is_true| is_true == wanted)
    };
    triggers.iter().filter(can_be).copied().collect()
}

/// Returns true if an expression tests which trigger started the execution, so that it may handle the results of each.
pub(super) fn tests_trigger(expression: &Expression) -> bool {
    expression
        .references()
        .iter()
        .any(|read| matches!(&*read.path, [root, name, ..] if root == ID[0] && name == ID[1]))
}

/// Reports the comparisons of `trigger.id` with a text that is the id of no trigger.
pub(super) fn unknown_ids(
    automation: &Automation,
    expression: &Expression,
    span: impl Fn(Range<usize>) -> Span,
    found: &mut Vec<Diagnostic>,
) {
    let is_id = |path: &Reference| {
        matches!(&*path.path, [root, name] if root == "trigger" && name == "id") && path.suffix.is_empty()
    };
    for compared in expression.comparisons() {
        let [left, right] = &compared.operands;
        for (path, other) in [(left, right), (right, left)] {
            if !path.path.as_ref().is_some_and(is_id) {
                continue;
            }
            for text in other.literals.iter().flatten().filter_map(Value::as_str) {
                let known = TriggerId::parse(text).is_some_and(|id| automation.trigger(&id).is_some());
                if known {
                    continue;
                }
                let ids = automation.triggers.iter().map(|trigger| trigger.id.as_str());
                let message = format!("no trigger of this file has the id `{text}`");
                let error = |at| Diagnostic::error("unknown-trigger", message, span(at));
                found.push(match inside_quotes(expression.text(), &other.at, text) {
                    Some(at) => error(at).expected_names(text, ids),
                    None => error(other.at.clone()).allowed(ids),
                });
            }
        }
    }
}

/// Returns the range of a text within its quotes in an operand; `None` if it is written with escapes.
pub(super) fn inside_quotes(source: &str, operand: &Range<usize>, text: &str) -> Option<Range<usize>> {
    let written = source.get(operand.clone())?;
    let quoted = |quote: char| written.find(&format!("{quote}{text}{quote}"));
    let start = operand.start + quoted('\'').or_else(|| quoted('"'))? + 1;
    Some(start..start + text.len())
}
