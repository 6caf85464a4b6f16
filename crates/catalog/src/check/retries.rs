//! Hints at HTTP calls without retries, for which one network failure fails the whole execution.

use connector::Registry;
use model::automation::{ActionStep, Automation, Block, OnError, Verb};
use model::diagnostic::{Diagnostic, Source, Span};
use model::load::Unreadable;

/// Raw request actions: the author controls all of the call, so also its failure handling.
const PLAIN: [&str; 2] = ["rawRequest", "rawGraphqlRequest"];

/// Maximum number of lines listed in the hint.
const MOST_LINES: usize = 8;

/// Hints at raw calls whose failure is handled neither by the step, nor by enclosing steps, nor by the file.
pub(super) fn check(
    automation: &Automation,
    unreadable: &Unreadable,
    registry: &Registry,
) -> Option<Diagnostic> {
    let mut hints = Hints { unreadable, registry, calls: Vec::new() };
    let unread = unreadable.has("retry") || unreadable.has("onError");
    if automation.retry.max == 0 && automation.on_error.is_none() && !unread {
        hints.block(&automation.steps);
        automation.finally.iter().for_each(|block| hints.block(block));
    }
    hints.into_diagnostic(&automation.source)
}

struct Hints<'a> {
    unreadable: &'a Unreadable,
    registry: &'a Registry,
    /// Position and step id of each call.
    calls: Vec<(Span, String)>,
}

impl Hints<'_> {
    fn block(&mut self, block: &Block) {
        for step in &block.steps {
            let unread = ["retry", "onError"].iter().any(|key| self.unreadable.has_in_step(&step.id, key));
            if let OnError::Steps(block) = &step.on_error {
                self.block(block);
            }
            step.undo.iter().for_each(|block| self.block(block));
            if unread || step.retry.is_some() || !matches!(step.on_error, OnError::Fail) {
                continue;
            }
            match &step.verb {
                Verb::Action(call) if self.is_plain(call) => self.hint(call, &step.id),
                // With `failFast: false` a failed iteration adds its error to the list.
                Verb::ForEach(each) if !each.fail_fast => {}
                verb => verb.nested_blocks().iter().for_each(|inner| self.block(inner.block)),
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
        self.calls.push((call.action.span, step.to_owned()));
    }

    /// Builds one hint for the whole file, at the first call.
    fn into_diagnostic(self, source: &Source) -> Option<Diagnostic> {
        let mut calls = self.calls;
        calls.sort_by_key(|(span, _)| span.start);
        let ((span, step), others) = calls.split_first()?;
        let message = match others {
            [] => {
                "this call has neither `retry` nor `onError`: one failed try fails the execution".to_owned()
            }
            others => {
                let line = |(span, _): &(Span, String)| source.position(span.start as usize).line.to_string();
                let shown: Vec<String> = others.iter().take(MOST_LINES).map(line).collect();
                let more = if others.len() > shown.len() { ", …" } else { "" };
                let lines = if others.len() == 1 { "line" } else { "lines" };
                format!(
                    "{} calls of this file have neither `retry` nor `onError` (also {lines} {}{more}): one failed try fails the execution",
                    calls.len(),
                    shown.join(", ")
                )
            }
        };
        Some(
            Diagnostic::hint("no-retry", message, *span)
                .help("add `retry: 3`, or `onError:` with what should happen instead; `retry: 0` says that one try is meant")
                .step(step.as_str()),
        )
    }
}
