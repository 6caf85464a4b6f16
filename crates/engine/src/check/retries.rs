//! Plain calls over HTTP that one hiccup of the network would fail the whole execution with.

use connector::Registry;
use model::automation::{ActionStep, Automation, Block, OnError, Verb};
use model::diagnostic::Diagnostic;
use model::load::Gaps;

/// The actions that are plain requests: an author says all of what they do, so what to do when they fail as well.
const PLAIN: [&str; 2] = ["rawRequest", "rawGraphqlRequest"];

/// Hints at each plain call for which nobody says what follows its failure: not the step, nothing around it, nor the file.
pub(super) fn check(automation: &Automation, gaps: &Gaps, registry: &Registry) -> Vec<Diagnostic> {
    let mut hints = Hints { gaps, registry, found: Vec::new() };
    let unread = gaps.has("retry") || gaps.has("onError");
    if automation.retry.max == 0 && automation.on_error.is_none() && !unread {
        hints.block(&automation.steps);
        automation.finally.iter().for_each(|block| hints.block(block));
    }
    hints.found
}

struct Hints<'a> {
    gaps: &'a Gaps,
    registry: &'a Registry,
    found: Vec<Diagnostic>,
}

impl Hints<'_> {
    fn block(&mut self, block: &Block) {
        for step in &block.steps {
            let unread = ["retry", "onError"].iter().any(|key| self.gaps.has_in_step(&step.id, key));
            if let OnError::Steps(block) = &step.on_error {
                self.block(block);
            }
            step.undo.iter().for_each(|block| self.block(block));
            if unread || step.retry.is_some() || !matches!(step.on_error, OnError::Fail) {
                continue;
            }
            match &step.verb {
                Verb::Action(call) if self.is_plain(call) => self.hint(call, &step.id),
                // With `failFast: false` a failed turn leaves its error in the list.
                Verb::ForEach(each) if !each.fail_fast => {}
                verb => verb.lists().iter().for_each(|inner| self.block(inner.block)),
            }
        }
    }

    fn is_plain(&self, call: &ActionStep) -> bool {
        let name = call.action.name.as_str();
        let is_raw = name.split_once('.').is_some_and(|(_, action)| PLAIN.contains(&action));
        let retries = |count: &model::Template| count.literal().and_then(model::Value::as_i64) != Some(0);
        let has_own = call.with.iter().any(|(input, value)| input.name == "maxRetryCount" && retries(value));
        (name == "http.request" || (is_raw && !has_own)) && self.registry.action(name).is_some()
    }

    fn hint(&mut self, call: &ActionStep, step: &str) {
        let message = "this call has neither `retry` nor `onError`: one failed try fails the execution";
        self.found.push(
            Diagnostic::hint("no-retry", message, call.action.span)
                .help("add `retry: 3`, or `onError:` with what should happen instead")
                .step(step),
        );
    }
}
