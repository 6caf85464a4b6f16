//! Defaults: values that `action` and `call` steps take if they have none of their own.
//!
//! [`DeclaredDefaults`] is `defaults` as a file writes it. [`Defaults`] has the values that the steps of one automation take; they are part
//! of its definition, so that executions in flight keep theirs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use text::diagnostic::Span;

use super::{Automation, Level, LeveledWord, NameSetting, OnError, Setting, SpannedName, Step, Verb};
use crate::retry::{RetryOn, RetryPolicy};

/// `defaults` of an automation's file or of `project.yaml`. A key that is `None` is not written.
#[derive(Clone, Debug, Default)]
pub struct DeclaredDefaults {
    /// The span of the key `defaults`.
    pub span: Span,
    /// The connections, with the span of the key; empty for `connection: null`.
    pub connections: Option<(Vec<SpannedName>, Span)>,
    /// The retry policy, with the span of the key.
    pub retry: Option<(DefaultRetry, Span)>,
    /// The timeout of one attempt, with the span of the key.
    pub timeout: Option<(Duration, Span)>,
}

/// A default retry policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DefaultRetry {
    /// The policy.
    pub policy: RetryPolicy,
    /// True if the policy names the errors that it covers. If not, a `call` is retried on every error.
    pub names_errors: bool,
}

/// The place of a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The path of the file, relative to the project folder.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefaultValue<T> {
    /// The value.
    pub value: T,
    /// The place.
    pub origin: Origin,
}

/// The defaults of one automation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Defaults {
    /// The connection of each action that takes a default one, by the name of the action.
    pub connections: BTreeMap<String, DefaultValue<String>>,
    /// The retry policy.
    pub retry: Option<DefaultValue<DefaultRetry>>,
    /// The timeout of one attempt.
    pub timeout: Option<DefaultValue<Duration>>,
}

/// The values of a step that are defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenDefaults {
    /// True if its connection is one.
    pub connection: bool,
    /// True if its retry policy is one.
    pub retry: bool,
    /// True if its timeout is one.
    pub timeout: bool,
}

impl Defaults {
    /// Returns true if there is no default.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.retry.is_none() && self.timeout.is_none()
    }

    /// Returns the values without their places, as text for the hash of a definition: a comment above a default changes no definition.
    pub(super) fn hashed_text(&self) -> String {
        let connections: BTreeMap<&str, &str> =
            self.connections.iter().map(|(action, name)| (action.as_str(), name.value.as_str())).collect();
        let values = (
            connections,
            self.retry.as_ref().map(|retry| &retry.value),
            self.timeout.as_ref().map(|timeout| timeout.value),
        );
        serde_json::to_string(&values).unwrap_or_default()
    }

    /// Fills the missing values of a step, and notes in `used` which ones it took.
    fn fill(&self, step: &mut Step, used: &mut Self) {
        let is_action = match &mut step.verb {
            Verb::Action(call) => {
                if call.connection.is_none()
                    && !call.refuses_default
                    && let Some(found) = self.connections.get(&call.action.name)
                {
                    let name = SpannedName { name: found.value.clone(), span: call.action.span };
                    call.connection = Some(NameSetting::Literal(name));
                    step.taken.connection = true;
                    used.connections.insert(call.action.name.clone(), found.clone());
                }
                true
            }
            Verb::Call(_) => false,
            _ => return,
        };
        if let (None, Some(found)) = (&step.retry, &self.retry) {
            let mut policy = found.value.policy.clone();
            if !is_action && !found.value.names_errors {
                policy.on = vec![RetryOn::All];
            }
            step.retry = Some(Box::new(policy.into()));
            step.taken.retry = true;
            used.retry = Some(found.clone());
        }
        if let (true, None, Some(found)) = (is_action, &step.timeout, &self.timeout) {
            step.timeout = Some(Setting::Literal(found.value));
            step.taken.timeout = true;
            used.timeout = Some(found.clone());
        }
    }
}

impl Automation {
    /// Gives the steps without a value of their own these defaults. Those that a step takes become part of the definition, so a change of
    /// their values changes its hash.
    #[must_use]
    pub fn with_defaults(&self, defaults: &Defaults) -> Self {
        let mut next = self.clone();
        let mut used = Defaults::default();
        next.walk_mut(&mut |step| defaults.fill(step, &mut used));
        if used.is_empty() {
            return next;
        }
        next.leveled_word.get_or_insert_with(|| LeveledWord {
            level: Level::SECOND,
            word: "defaults".to_owned(),
            span: self.id_span,
        });
        next.defaults = Some(Arc::new(used));
        next.definition = next.compute_definition();
        next
    }

    /// Calls `visit` with every step of the file.
    fn walk_mut(&mut self, visit: &mut dyn FnMut(&mut Step)) {
        self.steps.walk_mut(visit);
        for block in [&mut self.on_error, &mut self.finally].into_iter().flatten() {
            block.walk_mut(visit);
        }
    }
}

impl super::Block {
    /// Calls `visit` with every step, also in nested blocks and handlers.
    fn walk_mut(&mut self, visit: &mut dyn FnMut(&mut Step)) {
        for step in &mut self.steps {
            visit(step);
            let inner: Vec<&mut Self> = match &mut step.verb {
                Verb::If(branch) => std::iter::once(&mut branch.then).chain(&mut branch.otherwise).collect(),
                Verb::Switch(switch) => switch.cases.blocks_mut().chain(&mut switch.default).collect(),
                Verb::ForEach(each) => vec![&mut each.steps],
                Verb::Repeat(repeat) => vec![&mut repeat.steps],
                Verb::Parallel(parallel) => parallel.branches.iter_mut().map(|(_, block)| block).collect(),
                Verb::Group(block) => vec![block],
                _ => Vec::new(),
            };
            inner.into_iter().for_each(|block| block.walk_mut(visit));
            if let OnError::Steps(block) = &mut step.on_error {
                block.walk_mut(visit);
            }
            let undo = step.undo.as_mut().map(|undo| &mut undo.steps);
            step.finally.iter_mut().chain(undo).for_each(|block| block.walk_mut(visit));
        }
    }
}
