//! Checks where `break` and `continue` are allowed: in a loop, and not within concurrent steps.

use model::automation::{Block, BlockKind, Handler, Step, Verb};
use text::diagnostic::{Diagnostic, Diagnostics, Span};

/// The nearest enclosing loop, and what lies between.
#[derive(Clone, Copy, Default)]
struct LoopContext {
    /// The loop, and whether its iterations run concurrently.
    each: Option<(Span, bool)>,
    /// The concurrent step inside it that contains the position in one of its lists, if any.
    beside: Option<Span>,
    /// The closing list that contains the position, and its step.
    closing: Option<(Handler, Span)>,
}

pub(super) fn check(block: &Block, diagnostics: &Diagnostics) {
    Leaving { diagnostics }.block(block, LoopContext::default());
}

struct Leaving<'d> {
    diagnostics: &'d Diagnostics,
}

impl Leaving<'_> {
    fn block(&self, block: &Block, around: LoopContext) {
        for step in &block.steps {
            if matches!(step.verb, Verb::Break | Verb::Continue { .. }) {
                self.leaves(step, around);
            }
            for inner in step.verb.nested_blocks() {
                let around = match inner.kind {
                    BlockKind::Loop { in_order, .. } => {
                        LoopContext { each: Some((step.span, !in_order)), ..LoopContext::default() }
                    }
                    BlockKind::Parallel { .. } => LoopContext { beside: Some(step.span), ..around },
                    BlockKind::Case { .. } | BlockKind::Sequence => around,
                };
                self.block(inner.block, around);
            }
            for (handler, block) in step.handlers() {
                let around = match handler {
                    Handler::OnError => around,
                    Handler::Finally | Handler::Undo => {
                        LoopContext { closing: Some((handler, step.span)), ..LoopContext::default() }
                    }
                };
                self.block(block, around);
            }
        }
    }

    fn leaves(&self, step: &Step, around: LoopContext) {
        let word = step.verb.keyword();
        let diagnostic = match around {
            LoopContext { each: None, closing: Some((Handler::Finally, closed)), .. } => {
                let message =
                    format!("`{word}` is outside a loop: `finally` cannot leave the loop around its step");
                Diagnostic::error("outside-loop", message, step.span)
                    .related(closed, "the step that has ended")
            }
            LoopContext { each: None, closing: Some((_, undone)), .. } => {
                let message = format!("`{word}` is outside a loop: undo steps run after the loop has ended");
                Diagnostic::error("outside-loop", message, step.span)
                    .related(undone, "the step that is undone")
            }
            LoopContext { each: None, .. } => {
                let message = format!("`{word}` is outside a loop");
                Diagnostic::error("outside-loop", message, step.span)
                    .help("it leaves the nearest `forEach` or `repeat`; `stop: {}` ends the execution")
            }
            LoopContext { each: Some((each, _)), beside: Some(beside), .. } => {
                let message = format!("`{word}` would cut off the lists that run beside this one");
                Diagnostic::error("leaves-others", message, step.span)
                    .related(beside, "these lists run concurrently")
                    .related(each, "the loop")
                    .help(format!("give a result, and put `{word}` with an `if` behind the `parallel` step"))
            }
            LoopContext { each: Some((each, true)), .. } if matches!(step.verb, Verb::Break) => {
                let message = "`break` would abort iterations that run in parallel";
                Diagnostic::error("leaves-others", message, step.span)
                    .related(each, "the iterations of this loop run in parallel")
                    .help("remove `concurrency`, or end only this iteration with `continue: true`")
            }
            LoopContext { .. } => return,
        };
        self.diagnostics.push(diagnostic.step(step.id.as_ref()));
    }
}
