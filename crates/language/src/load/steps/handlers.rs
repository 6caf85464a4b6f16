//! The handlers of a step: `onError` and `undo`.

use model::automation::{Block, OnError, Undo};
use text::diagnostic::Diagnostic;
use text::yaml::{Field, Kind, Map, Node};

use super::Steps;
use crate::load::keys::{Choice, Key, Object, Shape};

pub(super) static UNDO: Object = Object {
    what: "an undo",
    keys: &[
        Key::new(
            "when",
            Shape::Enum(&["done", "begun"]),
            "The steps that are undone: one that succeeded (`done`, default), or also one that failed, was cut off or lost its answer \
             (`begun`).",
        ),
        Key::new("onCancel", Shape::Bool, "Whether it also runs after a cancellation. Default: false."),
        Key::required("steps", Shape::Steps, "The steps. They read `error`."),
    ],
    choice: Choice::Any,
};

impl<'d> Steps<'d> {
    /// Lowers `undo`. A mapping that has no key of its own is a step without its list.
    pub(super) fn undo(&mut self, node: &Node) -> Undo {
        let has_own_key = |map: &Map| UNDO.keys.iter().any(|key| map.get(key.name).is_some());
        let mut undo = Undo { when_begun: false, on_cancel: false, is_map: false, steps: Block::default() };
        if !node.as_map().is_some_and(has_own_key) {
            undo.steps = self.block(node, "undo").unwrap_or_default();
            return undo;
        }
        undo.is_map = true;
        let Some(mut reader) = UNDO.open(node, self.diagnostics) else { return undo };
        undo.when_begun = reader.take("when").one_of(&[("done", false), ("begun", true)]).unwrap_or_default();
        undo.on_cancel = reader.take("onCancel").bool().unwrap_or_default();
        let steps = reader.take("steps").node();
        undo.steps = steps.and_then(|node| self.block(node, "steps")).unwrap_or_default();
        reader.finish();
        undo
    }

    /// Lowers `onError`; `None` if it is absent or cannot be read.
    pub(super) fn on_error(&mut self, field: Field<'_, 'd>) -> Option<OnError> {
        let node = field.node()?;
        match &node.kind {
            Kind::List(_) => self.block(node, "onError").map(OnError::Steps),
            Kind::String(text) if ["ignore", "skip", "pass", "resume"].contains(&text.value.as_str()) => {
                let message = format!("unknown value `{}` for `onError`", text.value);
                let diagnostic = Diagnostic::error("unknown-value", message, node.span);
                self.diagnostics.push(
                    diagnostic
                        .allowed(["fail", "continue"])
                        .help(
                            "write `continue`: the result is then null, and `steps.<id>.error` is the error",
                        )
                        .replace(node.span, "continue"),
                );
                Some(OnError::Continue)
            }
            Kind::String(_) => field
                .one_of(&[("fail", OnErrorWord::Fail), ("continue", OnErrorWord::Continue)])
                .map(|word| match word {
                    OnErrorWord::Fail => OnError::Fail,
                    OnErrorWord::Continue => OnError::Continue,
                }),
            _ => {
                let message = format!(
                    "expected `fail`, `continue` or a list of steps for `onError`, found {}",
                    node.kind_name()
                );
                self.diagnostics.push(Diagnostic::error("wrong-type", message, node.head()));
                self.unreadable.note_names(node);
                None
            }
        }
    }
}

#[derive(Clone, Copy)]
enum OnErrorWord {
    Fail,
    Continue,
}
