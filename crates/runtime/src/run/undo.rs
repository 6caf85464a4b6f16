//! Compensation: runs the `undo` lists of steps in reverse order when the execution fails permanently, or is cancelled.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use model::action::ActionError;
use model::automation::{Step, Undo};
use value::Value;

use super::scope::Scope;
use super::step::Frame;
use super::{Exit, Run};

/// A step that may have to be undone.
pub(crate) struct PendingUndo {
    step: Arc<str>,
    /// Variables at the end of the step, or at its start while it has not ended; with the loop item.
    names: Value,
    frame: Frame,
}

impl Run {
    /// Records a step with an `undo` once it has succeeded, or with `when: begun` once it has begun. A replay does not undo the work
    /// of the execution that it replays.
    pub(super) fn record_undo(&self, step: &Step, key: &str, scope: &Scope, frame: &Frame, succeeded: bool) {
        let Some(undo) = &step.undo else { return };
        if frame.closing
            || !(succeeded || undo.when_begun && self.journal.has_begun(key))
            || self.journal.is_kept(key)
        {
            return;
        }
        let undo = PendingUndo { step: step.id.clone(), names: scope.root().clone(), frame: frame.clone() };
        self.undos.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), undo);
    }

    /// Returns the steps to undo by key, the last one first.
    pub(super) async fn undos(&self, is_cancelled: bool) -> Result<Vec<(String, PendingUndo)>, Exit> {
        if !self.journal.is_ordered() {
            return Ok(Vec::new());
        }
        let known = self.take_undos();
        if self.journal.keeps_outcomes() {
            let mut scope = self.scope_to_replay().await?;
            // Of the lists that were cut off before a restart, the walk has passed only one.
            self.replay_block(&self.deployment.automation.steps, &mut scope, &self.frame());
        }
        let mut undos = self.take_undos();
        undos.extend(known);
        let undone = self.undo_lists();
        let mut undos: Vec<_> = undos
            .into_iter()
            .filter(|(_, undo)| undone.get(&undo.step).is_some_and(|list| list.on_cancel || !is_cancelled))
            .collect();
        undos.sort_by_cached_key(|(key, _)| std::cmp::Reverse(self.journal.finish_order(key)));
        Ok(undos)
    }

    fn take_undos(&self) -> HashMap<String, PendingUndo> {
        std::mem::take(&mut *self.undos.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn undo_lists(&self) -> HashMap<Arc<str>, &Undo> {
        let mut lists = HashMap::new();
        self.deployment.automation.walk(&mut |step| {
            lists.extend(step.undo.as_ref().map(|undo| (step.id.clone(), undo)));
        });
        lists
    }

    /// Undoes the steps one by one. A failure does not prevent the others.
    pub(super) async fn undo(
        &self,
        undos: Vec<(String, PendingUndo)>,
        error: &ActionError,
    ) -> Result<(), Exit> {
        if undos.is_empty() {
            return Ok(());
        }
        let lists = self.undo_lists();
        for (key, undo) in undos {
            let Some(list) = lists.get(&undo.step) else { continue };
            let mut scope = Scope::from_root(undo.names);
            scope.bind("error", error.to_value());
            let what = format!("`undo` of `{key}`");
            let frame = self.frame_of_closing(&list.steps, &undo.frame);
            self.run_closing(&list.steps, &mut scope, &frame, (&what, Some(&undo.step))).await?;
        }
        Ok(())
    }
}
