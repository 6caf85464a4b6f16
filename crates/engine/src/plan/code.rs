//! What there is to know of the code of an Automation before it runs.

use std::collections::HashMap;
use std::sync::Arc;

use model::automation::{Automation, Block, OnError, Runs, Step, Trigger, Verb, WebhookMode};
use script::Module;

use crate::code::module;

/// The code of one Automation.
#[derive(Debug, Default)]
pub(crate) struct CodePlans {
    steps: HashMap<Arc<str>, CodePlan>,
    trigger: Option<Module>,
}

/// The code of one step.
#[derive(Debug)]
pub(crate) struct CodePlan {
    /// What runs; absent for a file that is not there.
    pub(crate) module: Option<Module>,
    /// The loops around it, from the outside in.
    pub(crate) loops: Vec<Loop>,
    /// Whether its result can be the answer to the caller: it ends the steps of a synchronous Automation.
    pub(crate) answers: bool,
}

/// A loop around a step.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    /// The id of its step.
    pub(crate) id: Arc<str>,
    /// What the item of a turn is called; a `repeat` has none.
    pub(crate) item: Option<Arc<str>>,
}

impl CodePlans {
    pub(super) fn of(automation: &Automation) -> Self {
        let mut plans = Self::default();
        if automation.codes().is_empty() {
            return plans;
        }
        if let Trigger::Webhook(webhook) = &automation.trigger {
            plans.trigger = webhook.code.as_ref().and_then(|code| module(code, automation));
        }
        let is_sync =
            matches!(&automation.trigger, Trigger::Webhook(webhook) if webhook.mode == WebhookMode::Sync);
        plans.list(automation, &automation.steps, &[], is_sync && automation.outputs.is_none());
        for block in [&automation.on_error, &automation.finally].into_iter().flatten() {
            plans.list(automation, block, &[], false);
        }
        plans
    }

    pub(crate) fn step(&self, id: &str) -> Option<&CodePlan> {
        self.steps.get(id)
    }

    pub(crate) fn trigger(&self) -> Option<&Module> {
        self.trigger.as_ref()
    }

    /// The code in a list of steps. `ends` tells whether the result of the list is that of the execution.
    fn list(&mut self, automation: &Automation, block: &Block, loops: &[Loop], ends: bool) {
        let last = block.steps.len().saturating_sub(1);
        for (index, step) in block.steps.iter().enumerate() {
            self.inside(automation, step, loops, ends && index == last);
        }
    }

    fn inside(&mut self, automation: &Automation, step: &Step, loops: &[Loop], ends: bool) {
        if let Verb::Code(code) = &step.verb {
            let plan = CodePlan { module: module(code, automation), loops: loops.to_vec(), answers: ends };
            self.steps.insert(step.id.clone(), plan);
        }
        for inner in step.verb.lists() {
            match inner.runs {
                Runs::Turns { item, .. } => {
                    let own = Loop { id: step.id.clone(), item: item.map(Arc::from) };
                    self.list(automation, inner.block, &[loops, &[own]].concat(), false);
                }
                // Of lists side by side none is the last.
                Runs::Beside => self.list(automation, inner.block, loops, false),
                Runs::Case { .. } | Runs::Once => self.list(automation, inner.block, loops, ends),
            }
        }
        if let OnError::Steps(block) = &step.on_error {
            self.list(automation, block, loops, ends);
        }
        if let Some(block) = &step.undo {
            self.list(automation, block, loops, false);
        }
    }
}
