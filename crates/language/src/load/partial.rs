//! A file with errors, as far as it was read, so that later checks can report in the same run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use text::yaml::{Kind, Node};

use super::steps::camel_case;

/// A file with errors, as far as it was read: for further checks, never to be run.
///
/// Unreadable parts are absent or have placeholders; [`Unreadable`] lists them, so that a check stays silent about what
/// it cannot know.
#[derive(Clone, Debug)]
pub struct Partial<T> {
    pub(super) value: T,
    pub(super) unreadable: Unreadable,
}

impl<T> Partial<T> {
    /// Wraps the value, with the same unreadable parts.
    pub fn map<U>(self, wrap: impl FnOnce(T) -> U) -> Partial<U> {
        Partial { value: wrap(self.value), unreadable: self.unreadable }
    }
}

/// The parts of a file that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// Keys of the file itself.
    top: BTreeSet<&'static str>,
    /// Keys of steps, by the step's id.
    steps: BTreeMap<Arc<str>, BTreeSet<&'static str>>,
    /// Names that occur in unreadable parts: of steps, variables, inputs.
    names: BTreeSet<String>,
    /// True if any variable may be set.
    variables: bool,
}

impl Unreadable {
    /// The empty list: the file was read completely.
    pub const NONE: &'static Self = &Self::new();

    /// Creates an empty list.
    pub(super) const fn new() -> Self {
        Self { top: BTreeSet::new(), steps: BTreeMap::new(), names: BTreeSet::new(), variables: false }
    }

    /// True if everything was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self == Self::NONE
    }

    /// True if the value of a top-level key, such as `trigger`, is unknown. `steps` means the list of steps, `as`
    /// the names of loop items.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.top.contains(key)
    }

    /// True if the value of a step's key is unknown; `verb` means its verb. Unknown defaults may have the values that steps take from
    /// them.
    #[must_use]
    pub fn has_in_step(&self, step: &str, key: &str) -> bool {
        self.steps.get(step).is_some_and(|keys| keys.contains(key))
            || self.has("defaults") && ["connection", "retry", "timeout"].contains(&key)
    }

    /// True if any part of a step is unknown.
    #[must_use]
    pub fn touches(&self, step: &str) -> bool {
        self.steps.contains_key(step)
    }

    /// True if an unknown part of a step decides whether it runs or what follows.
    #[must_use]
    pub fn is_unsure(&self, step: &str) -> bool {
        ["verb", "if", "onError"].iter().any(|key| self.has_in_step(step, key))
    }

    /// True if a name occurs in an unreadable part, so that its meaning is unknown.
    #[must_use]
    pub fn may_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// True if a variable of this name may exist.
    #[must_use]
    pub fn may_set(&self, name: &str) -> bool {
        self.variables || self.names.contains(name)
    }

    /// Notes a key of the file itself.
    pub(super) fn note(&mut self, key: &'static str) {
        self.top.insert(key);
    }

    /// Notes a key of a step.
    pub(super) fn note_in_step(&mut self, step: &Arc<str>, key: &'static str) {
        self.steps.entry(step.clone()).or_default().insert(key);
    }

    /// Notes that any variable may be set.
    pub(super) fn note_variables(&mut self) {
        self.variables = true;
    }

    /// Records a name, as written and as probably intended.
    pub(super) fn note_name(&mut self, name: &str) {
        self.names.extend(camel_case(name));
        self.names.insert(name.to_owned());
    }

    /// Notes every name below an unread value: keys, and the ids and names of possible steps.
    pub(super) fn note_names(&mut self, node: &Node) {
        match &node.kind {
            Kind::List(items) => items.iter().for_each(|item| self.note_names(item)),
            Kind::Map(map) => {
                for entry in map {
                    self.note_name(&entry.key);
                    match entry.value.as_str() {
                        Some(text) if ["id", "name"].contains(&entry.key.as_str()) => self.note_name(text),
                        Some(_) => {}
                        None => self.note_names(&entry.value),
                    }
                }
            }
            _ => {}
        }
    }
}
