//! Undoing: the `undo` lists of the steps that have ended, the last one's first, when the execution fails for good.

use std::sync::{Arc, PoisonError};

use model::action::ActionError;
use model::automation::Step;
use model::execution::LogLevel;
use model::value::Value;

use super::scope::Scope;
use super::step::Context;
use super::{Exit, Run};

/// A step that has ended well and may have to be undone.
pub(crate) struct Undo {
    step: Arc<str>,
    /// In which place it ended.
    place: u64,
    /// The names in force when it had ended, the item of its turn among them.
    names: Value,
    context: Context,
}

impl Run {
    /// Notes that a step has ended well.
    pub(super) fn note_undo(&self, step: &Step, key: &str, scope: &Scope, context: &Context) {
        if step.undo.is_none() || context.closing {
            return;
        }
        let undo = Undo {
            step: step.id.clone(),
            place: self.journal.finish_order(key),
            names: scope.root().clone(),
            context: context.clone(),
        };
        self.undos.lock().unwrap_or_else(PoisonError::into_inner).push(undo);
    }

    /// What there is to undo, the last first.
    pub(super) fn undos(&self) -> Vec<Undo> {
        let mut undos = std::mem::take(&mut *self.undos.lock().unwrap_or_else(PoisonError::into_inner));
        undos.sort_by_key(|undo| std::cmp::Reverse(undo.place));
        undos
    }

    /// Undoes one step after the other. One that cannot be undone keeps none of the others from it.
    pub(super) async fn undo(&self, undos: Vec<Undo>, error: &ActionError) -> Result<(), Exit> {
        if undos.is_empty() {
            return Ok(());
        }
        let mut steps = std::collections::HashMap::new();
        self.deployed.automation.walk(&mut |step| {
            steps.insert(step.id.clone(), step);
        });
        for undo in undos {
            let Some(block) = steps.get(&undo.step).and_then(|step| step.undo.as_ref()) else { continue };
            let mut scope = Scope::again(undo.names);
            scope.bind("error", error.to_value());
            let what = format!("`undo` of `{}`", undo.context.key(&undo.step));
            let context = self.closing_context().in_turns_of(&undo.context);
            if let Some(error) = self.run_closing(block, &mut scope, &context, &what).await? {
                let message = format!("{what} failed: {}", error.message);
                self.journal.log(LogLevel::Error, Some(&undo.step), &message);
            }
        }
        Ok(())
    }
}
