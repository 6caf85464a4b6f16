//! `project.yaml`: what the files of a project share. Keys for limits and calendars get their rows in [`PROJECT`].

use std::sync::Arc;

use model::project::Project;
use text::diagnostic::{Diagnostics, Source};
use text::yaml::{Kind, Node};

use super::defaults::{self, DEFAULTS};
use super::keys::{Choice, Key, Object, Shape};
use super::{Partial, Unreadable};

pub(crate) static PROJECT: Object = Object {
    what: "the project file",
    keys: &[Key::new(
        "defaults",
        Shape::Object(&DEFAULTS),
        "Values that the steps of all automations take if neither the step nor `defaults` of its file has them.",
    )],
    choice: Choice::Any,
};

pub(super) fn read(node: &Node, source: Arc<Source>, diagnostics: &Diagnostics) -> Option<Partial<Project>> {
    let mut unreadable = Unreadable::new();
    let mut value = Project { defaults: model::automation::DeclaredDefaults::default(), source };
    // The file may be empty.
    if matches!(node.kind, Kind::Null) {
        return Some(Partial { value, unreadable });
    }
    let mut reader = PROJECT.open(node, diagnostics)?;
    let span = reader.key_span("defaults");
    if let Some(node) = reader.take("defaults").node() {
        match defaults::read(node, span, diagnostics) {
            Some(defaults) => value.defaults = defaults,
            None => unreadable.note("defaults"),
        }
    }
    reader.finish();
    Some(Partial { value, unreadable })
}
