//! Static information about an automation's code, computed before it runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::automation::{Automation, Block, BlockKind, Handler, Setting, Step, Trigger, TriggerId, Verb};
use script::Module;

use crate::code::module;

/// Code of one automation.
#[derive(Debug, Default)]
pub struct CodePlans {
    steps: HashMap<Arc<str>, CodePlan>,
    triggers: BTreeMap<TriggerId, Module>,
}

/// Code of one step.
#[derive(Debug)]
pub struct CodePlan {
    /// Module to run; `None` if its file does not exist.
    pub module: Option<Module>,
    /// Enclosing loops, outermost first.
    pub loops: Vec<Loop>,
    /// True if the result may be the response to the caller: the last step of a synchronous automation.
    pub may_respond: bool,
    /// Literal time limit of the step; `None` if it has none.
    pub timeout: Option<Duration>,
    /// Sequence of consecutive code steps that contains the step, and the step's index in it.
    sequence: (Arc<[Arc<str>]>, usize),
}

impl CodePlan {
    /// Returns the code steps that follow directly, whatever this one returns.
    pub fn followers(&self) -> &[Arc<str>] {
        let (row, place) = &self.sequence;
        row.get(place + 1..).unwrap_or_default()
    }
}

/// Loop around a step.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Id of the loop step.
    pub id: Arc<str>,
    /// Name of the loop variable; `None` for `repeat`.
    pub item: Option<Arc<str>>,
}

impl CodePlans {
    pub(super) fn from_automation(automation: &Automation) -> Self {
        let mut plans = Self::default();
        if automation.code_modules().is_empty() {
            return plans;
        }
        for trigger in &automation.triggers {
            if let Trigger::Webhook(webhook) = &trigger.on
                && let Some(module) = webhook.code.as_ref().and_then(|code| module(code, automation))
            {
                plans.triggers.insert(trigger.id.clone(), module);
            }
        }
        let is_sync = automation.has_synchronous_trigger();
        plans.visit_list(automation, &automation.steps, &[], is_sync && automation.outputs.is_none());
        for block in [&automation.on_error, &automation.finally].into_iter().flatten() {
            plans.visit_list(automation, block, &[], false);
        }
        plans
    }

    pub fn step(&self, id: &str) -> Option<&CodePlan> {
        self.steps.get(id)
    }

    pub fn trigger(&self, id: &TriggerId) -> Option<&Module> {
        self.triggers.get(id)
    }

    /// Collects the code in a list of steps. `is_final` is true if the list's result is the execution's result.
    fn visit_list(&mut self, automation: &Automation, block: &Block, loops: &[Loop], is_final: bool) {
        let last = block.steps.len().saturating_sub(1);
        for (index, step) in block.steps.iter().enumerate() {
            self.visit_step(automation, step, loops, is_final && index == last);
        }
        // A condition and computed settings are evaluated before the code runs.
        let runs_next =
            |next: &Step| is_code(next) && next.guard.is_none() && next.computed_settings().is_empty();
        let rows = block.steps.chunk_by(|step, next| is_code(step) && runs_next(next));
        // Steps with `needs` may run concurrently.
        let in_order = block.steps.iter().all(|step| step.needs.is_none());
        for row in rows.filter(|row| in_order && row.len() > 1) {
            let ids: Arc<[Arc<str>]> = row.iter().map(|step| step.id.clone()).collect();
            for (place, step) in row.iter().enumerate() {
                if let Some(plan) = self.steps.get_mut(&step.id) {
                    plan.sequence = (ids.clone(), place);
                }
            }
        }
    }

    fn visit_step(&mut self, automation: &Automation, step: &Step, loops: &[Loop], is_final: bool) {
        if let Verb::Code(code) = &step.verb {
            let plan = CodePlan {
                module: module(code, automation),
                loops: loops.to_vec(),
                may_respond: is_final,
                timeout: step.timeout.as_ref().and_then(Setting::literal),
                sequence: (Arc::default(), 0),
            };
            self.steps.insert(step.id.clone(), plan);
        }
        for inner in step.verb.nested_blocks() {
            match inner.kind {
                BlockKind::Loop { item, .. } => {
                    let own = Loop { id: step.id.clone(), item: item.map(Arc::from) };
                    self.visit_list(automation, inner.block, &[loops, &[own]].concat(), false);
                }
                // No concurrent list is the last one.
                BlockKind::Parallel { .. } => self.visit_list(automation, inner.block, loops, false),
                BlockKind::Case { .. } | BlockKind::Sequence => {
                    self.visit_list(automation, inner.block, loops, is_final)
                }
            }
        }
        for (handler, block) in step.handlers() {
            self.visit_list(automation, block, loops, is_final && handler == Handler::OnError);
        }
    }
}

fn is_code(step: &Step) -> bool {
    matches!(step.verb, Verb::Code(_))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use text::diagnostic::Source;

    use super::*;

    /// Formats the followers of each code step, as `a: b c`.
    fn followers(steps: &str) -> Vec<String> {
        let code = "code: 'export default () => 1'";
        let text = format!("trigger: {{manual: {{}}}}\nsteps:\n{}", steps.replace("CODE", code));
        let loaded = language::load::automation(Arc::new(Source::new("test.yaml", &text)), "test");
        let automation = loaded.value.expect("it loads");
        let plans = CodePlans::from_automation(&automation);
        let mut said: Vec<String> =
            plans.steps.iter().map(|(id, plan)| format!("{id}: {}", plan.followers().join(" "))).collect();
        said.sort();
        said
    }

    #[test]
    fn consecutive_code_steps_without_guards_follow_each_other() {
        let row = "- {id: a, CODE}\n- {id: b, CODE}\n- {id: c, CODE}\n";
        assert_eq!(followers(row), ["a: b c", "b: c", "c: "]);
        let broken = "- {id: a, CODE}\n- {id: b, set: {x: 1}}\n- {id: c, CODE}\n- {id: d, CODE}\n";
        assert_eq!(followers(broken), ["a: ", "c: d", "d: "]);
        let guarded = "- {id: a, CODE}\n- {id: b, if: inputs, CODE}\n- {id: c, CODE}\n";
        assert_eq!(followers(guarded), ["a: ", "b: c", "c: "]);
        let computed = "- {id: a, CODE}\n- {id: b, timeout: '${{ inputs.t }}', CODE}\n- {id: c, CODE}\n";
        assert_eq!(followers(computed), ["a: ", "b: c", "c: "]);
        let named = "- {id: a, CODE}\n- {id: b, CODE}\n- {id: c, needs: [a], CODE}\n";
        assert_eq!(followers(named), ["a: ", "b: ", "c: "]);
        let inside = "- {id: a, CODE}\n- {id: b, steps: [{id: c, CODE}, {id: d, CODE}]}\n- {id: e, CODE}\n";
        assert_eq!(followers(inside), ["a: ", "c: d", "d: ", "e: "]);
    }
}
