//! Warns of loops whose `until` reads nothing that the loop changes: it is the same after every iteration.

use expression::Reference;
use language::load::Unreadable;
use model::automation::{Automation, Block, Verb};
use text::diagnostic::Diagnostic;

/// Names that no step changes.
const FIXED: [&str; 5] = ["automation", "configVars", "env", "inputs", "trigger"];

/// Checks all loops of the file.
pub(super) fn check(automation: &Automation, unreadable: &Unreadable) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if !unreadable.is_empty() {
        return found;
    }
    automation.walk(&mut |step| {
        let Verb::Repeat(repeat) = &step.verb else { return };
        let Some(until) = &repeat.until else { return };
        let reads = until.references();
        if reads.is_empty() || until.is_nondeterministic() || !reads.iter().all(|read| is_fixed(read, &repeat.steps)) {
            return;
        }
        let message = "no step of this loop changes what `until` reads, so it is the same after every iteration";
        found.push(
            Diagnostic::warning("constant-condition", message, until.span())
                .help("read the result of a step of the loop, or set the variable in one; without `until` there are `max` iterations")
                .step(step.id.as_ref()),
        );
    });
    found
}

/// True if no iteration changes what a reference reads.
fn is_fixed(read: &Reference, steps: &Block) -> bool {
    let [root, rest @ ..] = &*read.path else { return false };
    let Some(name) = rest.first() else { return FIXED.contains(&root.as_str()) };
    match root.as_str() {
        "vars" => !any_step(steps, &|_, verb| match verb {
            Verb::Set(values) => values.iter().any(|(set, _)| **set == **name),
            _ => false,
        }),
        "steps" => !any_step(steps, &|id, _| *id == **name),
        root => FIXED.contains(&root),
    }
}

fn any_step(steps: &Block, is_it: &dyn Fn(&str, &Verb) -> bool) -> bool {
    let mut found = false;
    steps.walk(&mut |step| found |= is_it(&step.id, &step.verb));
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use text::diagnostic::Source;

    use super::*;

    fn is_reported(until: &str, inner: &str) -> bool {
        let text = format!(
            "trigger: {{manual: {{}}}}\ninputs: {{n: {{type: integer}}}}\nsteps:\n  - {{id: a, set: {{n: 1, done: false}}}}\n  - repeat: {{until: \"{until}\", max: 3}}\n    steps:\n      - {inner}\n"
        );
        let loaded = language::load::automation(Arc::new(Source::new("test.yaml", text)), "test");
        let Some(automation) = loaded.value else { panic!("{}", loaded.report.render(false)) };
        !check(&automation, Unreadable::NONE).is_empty()
    }

    #[test]
    fn an_until_condition_that_the_loop_cannot_change_is_reported() {
        for until in ["vars.done", "inputs.n > 3", "steps.a.results.n == 2", "trigger.results.body.data.n"] {
            assert!(is_reported(until, "action: log.info"), "{until}");
        }
        assert!(is_reported("vars.done", "set: {n: 2}"));
    }

    #[test]
    fn an_until_condition_that_may_change_is_fine() {
        for until in ["state.done", "now() > vars.n", "index > vars.n", "vars", "$..n"] {
            assert!(!is_reported(until, "action: log.info"), "{until}");
        }
        assert!(!is_reported("vars.done", "set: {done: true}"));
        assert!(!is_reported("vars.done", "{if: inputs.n > 1, then: [{set: {done: true}}]}"));
        assert!(!is_reported("vars.done", "{action: log.info, onError: [{set: {done: true}}]}"));
        assert!(!is_reported("steps.b.results.n > inputs.n", "{id: b, set: {n: \"${{ index }}\"}}"));
    }
}
