//! Compensation: runs the `undo` lists of finished steps in reverse order when the execution fails permanently.

use std::sync::{Arc, PoisonError};

use model::LogLevel;
use model::action::ActionError;
use model::automation::Step;
use value::Value;

use super::scope::Scope;
use super::step::Frame;
use super::{Exit, Run};

/// A successful step that may have to be undone.
pub(crate) struct Undo {
    step: Arc<str>,
    /// Position in the order of completion.
    place: u64,
    /// Variables at the end of the step, including the loop item.
    names: Value,
    frame: Frame,
}

impl Run {
    /// Records a successful step with an `undo` list. A replay does not undo the work of the execution that it replays.
    pub(super) fn record_undo(&self, step: &Step, key: &str, scope: &Scope, frame: &Frame) {
        if step.undo.is_none() || frame.closing || self.journal.is_kept(key) {
            return;
        }
        let undo = Undo {
            step: step.id.clone(),
            place: self.journal.finish_order(key),
            names: scope.root().clone(),
            frame: frame.clone(),
        };
        self.undos.lock().unwrap_or_else(PoisonError::into_inner).push(undo);
    }

    /// Returns the steps to undo, the last one first.
    pub(super) fn undos(&self) -> Vec<Undo> {
        let mut undos = std::mem::take(&mut *self.undos.lock().unwrap_or_else(PoisonError::into_inner));
        undos.sort_by_key(|undo| std::cmp::Reverse(undo.place));
        undos
    }

    /// Undoes the steps one by one. A failure does not prevent the others.
    pub(super) async fn undo(&self, undos: Vec<Undo>, error: &ActionError) -> Result<(), Exit> {
        if undos.is_empty() {
            return Ok(());
        }
        let mut steps = std::collections::HashMap::new();
        self.deployment.automation.walk(&mut |step| {
            steps.insert(step.id.clone(), step);
        });
        for undo in undos {
            let Some(block) = steps.get(&undo.step).and_then(|step| step.undo.as_ref()) else { continue };
            let mut scope = Scope::from_root(undo.names);
            scope.bind("error", error.to_value());
            let what = format!("`undo` of `{}`", undo.frame.key(&undo.step));
            let frame = self.closing_frame().in_turns_of(&undo.frame);
            if let Some(error) = self.run_closing(block, &mut scope, &frame, &what).await? {
                let message = format!("{what} failed: {}", error.message);
                self.journal.log(LogLevel::Error, Some(&undo.step), &message);
            }
        }
        Ok(())
    }
}
