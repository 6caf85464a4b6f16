//! Automations that need a level of the language that an older daemon on the store does not know.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::automation::{Automation, Level};
use text::diagnostic::{Diagnostic, Report};

use super::Catalog;

/// A level that the store could not be raised to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedLevel {
    /// The level.
    pub level: Level,
    /// The error of the store, which names the daemons.
    pub reason: String,
}

impl RefusedLevel {
    /// Returns the error of an automation that needs the level; `None` if it does not.
    pub(crate) fn diagnostic(&self, automation: &Automation) -> Option<Diagnostic> {
        let word = automation.leveled_word.as_ref().filter(|word| word.level >= self.level)?;
        let message =
            format!("`{}` needs level {} of the language: {}", word.word, word.level.number(), self.reason);
        Some(
            Diagnostic::error("older-daemons", message, word.span)
                .help("the file comes into force by itself once all daemons on the store know the level"),
        )
    }
}

impl Catalog {
    /// Returns the level of the language that the automations in force need.
    #[must_use]
    pub fn level(&self) -> Level {
        self.automations().map(|deployment| deployment.automation.level()).max().unwrap_or(Level::FIRST)
    }

    /// Returns the paths of the automation files that have errors.
    pub(crate) fn paths_with_errors(&self) -> BTreeSet<Arc<str>> {
        self.stale.keys().chain(self.invalid_files.keys()).cloned().collect()
    }

    /// Returns the errors of the automations in force that need a refused level, by file.
    #[must_use]
    pub fn refused_by(&self, refused: &RefusedLevel) -> Vec<Report> {
        let report = |automation: &Arc<Automation>| {
            Some(Report::new(automation.source.clone(), [refused.diagnostic(automation)?]))
        };
        self.automations().filter_map(|deployment| report(&deployment.automation)).collect()
    }
}
