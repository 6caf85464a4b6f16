//! What can be said of the paths through the steps before any runs: which never run, and who is answered when.

use crate::automation::{Block, Inner, OnError, Runs, Step, Trigger, Verb, WebhookMode};
use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use crate::load::Gaps;

/// The ways on which execution can come to a place.
#[derive(Clone, Copy)]
struct Paths {
    /// Whether on some of them the caller is not answered yet.
    open: bool,
    /// Where the caller was answered, on some of them.
    answered: Option<Span>,
}

impl Paths {
    const START: Self = Self { open: true, answered: None };

    fn merge(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(first), Some(second)) => {
                Some(Self { open: first.open || second.open, answered: first.answered.or(second.answered) })
            }
            (first, second) => first.or(second),
        }
    }
}

/// Checks the lists of a file: the steps and, each for itself, `onError` and `finally`. The trigger is absent where it
/// could not be read.
pub(in crate::load) fn check(
    lists: &[&Block],
    trigger: Option<&Trigger>,
    gaps: &Gaps,
    diagnostics: &Diagnostics,
) {
    for list in lists {
        list.walk(&mut |step| caller(step, trigger, diagnostics));
        Flow { gaps, diagnostics }.block(list, Paths::START);
    }
}

/// Reports an answer that nobody waits for.
fn caller(step: &Step, trigger: Option<&Trigger>, diagnostics: &Diagnostics) {
    let (Verb::Respond(_), Some(trigger)) = (&step.verb, trigger) else { return };
    let diagnostic = match trigger {
        Trigger::Webhook(webhook) if webhook.mode == WebhookMode::Sync => return,
        Trigger::Webhook(_) => {
            let message = "nobody waits for this answer: the webhook is asynchronous";
            Diagnostic::warning("respond-without-caller", message, step.span)
                .help("write `mode: sync` in the webhook, or answer with its own `respond`")
        }
        Trigger::Schedule(_) | Trigger::Manual => {
            let message = format!("nobody waits for this answer: the trigger is `{}`", trigger.word());
            Diagnostic::error("respond-without-caller", message, step.span)
                .help("`respond` needs `webhook: {mode: sync}`; give a result with `outputs` or `stop`")
        }
    };
    diagnostics.push(diagnostic.step(step.id.as_ref()));
}

struct Flow<'d> {
    gaps: &'d Gaps,
    diagnostics: &'d Diagnostics,
}

impl Flow<'_> {
    /// The ways out of a list; nothing when none goes on.
    fn block(&self, block: &Block, start: Paths) -> Option<Paths> {
        // With `needs` steps run side by side: none is after another by its place alone.
        let in_order =
            block.steps.iter().all(|step| step.needs.is_none() && !self.gaps.has_in_step(&step.id, "needs"));
        let mut paths = start;
        for (index, step) in block.steps.iter().enumerate() {
            match self.step(step, paths) {
                Some(next) => paths = next,
                None if in_order => {
                    if let Some(next) = block.steps.get(index + 1) {
                        self.diagnostics.push(
                            Diagnostic::warning("never-runs", "this step never runs", next.span)
                                .related(step.span, "the execution always ends here")
                                .help("remove it, or put a condition on what is before it")
                                .step(next.id.as_ref()),
                        );
                    }
                    return None;
                }
                None => {}
            }
        }
        Some(paths)
    }

    fn step(&self, step: &Step, start: Paths) -> Option<Paths> {
        let end = match &step.verb {
            Verb::Respond(_) => {
                if let (false, Some(first)) = (start.open, start.answered) {
                    self.twice(step, first);
                }
                Some(Paths { open: false, answered: Some(step.span) })
            }
            verb if verb.ends() => None,
            verb => self.inside(step, verb, start),
        };
        let end = match &step.on_error {
            // What ends the execution well has no error to handle.
            _ if matches!(step.verb, Verb::Stop { .. }) => end,
            OnError::Fail => end,
            OnError::Continue => Paths::merge(end, Some(start)),
            OnError::Steps(block) => Paths::merge(end, self.block(block, start)),
        };
        // What could not be read may let it go on.
        if step.guard.is_some() || self.gaps.is_unsure(&step.id) {
            Paths::merge(end, Some(start))
        } else {
            end
        }
    }

    /// The ways out of the lists inside a step.
    fn inside(&self, step: &Step, verb: &Verb, start: Paths) -> Option<Paths> {
        let lists = verb.lists();
        let beside = lists.iter().filter(|inner| matches!(inner.runs, Runs::Beside)).map(|inner| inner.block);
        let through = self.parallel(beside, start);
        let cases: Vec<&Inner<'_>> =
            lists.iter().filter(|inner| matches!(inner.runs, Runs::Case { .. })).collect();
        let mut end = if cases.is_empty() || !verb.covers_every_case() { through } else { None };
        for case in cases {
            end = Paths::merge(self.block(case.block, start), end);
        }
        for once in lists.iter().filter(|inner| matches!(inner.runs, Runs::Once)) {
            end = end.and_then(|start| self.block(once.block, start));
        }
        for turns in lists.iter().filter(|inner| matches!(inner.runs, Runs::Turns { .. })) {
            let turn = self.block(turns.block, start);
            if let Some(Paths { open: false, answered: Some(place) }) = turn.filter(|_| start.open) {
                self.in_loop(step, place);
            }
            end = Paths::merge(end, turn);
        }
        end
    }

    fn parallel<'a>(&self, branches: impl Iterator<Item = &'a Block>, start: Paths) -> Option<Paths> {
        let mut end = Some(start);
        for branch in branches {
            let own = self.block(branch, start);
            if let (true, Some(Some(first)), Some(Paths { open: false, answered: Some(second) })) =
                (start.open, end.filter(|end| !end.open).map(|end| end.answered), own)
            {
                self.diagnostics.push(twice(second, first));
            }
            end = end.zip(own).map(|(end, own)| Paths {
                open: end.open && own.open,
                answered: end.answered.or(own.answered),
            });
        }
        end
    }

    fn twice(&self, step: &Step, first: Span) {
        self.diagnostics.push(twice(step.span, first).step(step.id.as_ref()));
    }

    fn in_loop(&self, step: &Step, place: Span) {
        self.diagnostics.push(
            Diagnostic::error("respond-twice", "every turn of the loop would answer the caller", place)
                .related(step.span, "the loop")
                .help("answer after the loop, or end the execution with `stop` after the answer"),
        );
    }
}

fn twice(place: Span, first: Span) -> Diagnostic {
    Diagnostic::error("respond-twice", "the caller is answered a second time", place)
        .related(first, "it is always answered here already")
        .help("keep one of the two, or end the execution with `stop` after the first")
}
