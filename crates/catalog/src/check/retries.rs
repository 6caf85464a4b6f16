//! Hints at HTTP calls without retries, for which one network failure fails the whole execution, and finds retries that cover
//! nothing.

use connector::{Registry, convert_value};
use expression::Template;
use language::load::{Unreadable, step_key_span};
use model::action::Effect;
use model::automation::setting::in_braces;
use model::automation::{
    ActionStep, Automation, Block, OnError, RetryRule, SpannedName, Step, StepRetry, Verb,
};
use model::retry::RetryOn;
use text::diagnostic::{Diagnostic, Source, Span};

/// Raw request actions: the author controls all of the call, so also its failure handling.
const PLAIN: [&str; 2] = ["rawRequest", "rawGraphqlRequest"];

/// Maximum number of lines listed in the hint.
const MAX_LINES: usize = 8;

/// Checks the retries of a file. Hints at raw calls whose failure is handled neither by the step, nor by enclosing steps, nor by the file.
pub(super) fn check(
    automation: &Automation,
    unreadable: &Unreadable,
    registry: &Registry,
) -> Vec<Diagnostic> {
    let mut found = without_effect(automation, unreadable, registry);
    found.extend(repeated_writes(automation, unreadable, registry));
    found.extend(hints(automation, unreadable, registry));
    found
}

fn hints(automation: &Automation, unreadable: &Unreadable, registry: &Registry) -> Option<Diagnostic> {
    let mut hints = Hints { unreadable, registry, calls: Vec::new() };
    let unread = unreadable.has("retry") || unreadable.has("onError");
    if automation.retry.max == 0 && automation.on_error.is_none() && !unread {
        hints.block(&automation.steps);
        automation.finally.iter().for_each(|block| hints.block(block));
    }
    hints.into_diagnostic(&automation.source)
}

/// Errors that a step can fail with, as far as retry policies distinguish them.
#[derive(Clone, Copy, Default)]
struct Failures {
    /// No answer, or none in time.
    network: bool,
    /// Answers of 5xx and 429.
    statuses: bool,
}

impl Failures {
    const REMOTE: Self = Self { network: true, statuses: true };

    fn or(self, other: Self) -> Self {
        Self { network: self.network || other.network, statuses: self.statuses || other.statuses }
    }

    fn has(self, class: RetryOn) -> bool {
        match class {
            RetryOn::All => true,
            RetryOn::Network => self.network,
            RetryOn::ServerError | RetryOn::TooManyRequests => self.statuses,
        }
    }
}

/// Warns of retries whose `on` names no error that the step can fail with.
fn without_effect(automation: &Automation, unreadable: &Unreadable, registry: &Registry) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    automation.walk(&mut |step| {
        // A default is for all steps, whatever they can fail with.
        let written = step.retry.as_ref().filter(|_| !step.taken.retry);
        let Some(retry) = written.filter(|retry| retry.max() > 0) else { return };
        if !unreadable.is_empty() {
            return;
        }
        let tries_all = |rule: &RetryRule| rule.condition.is_none() && rule.policy.on.contains(&RetryOn::All);
        found.extend(same_failure(automation, step, retry.rules.iter().any(tries_all)));
        let failures = failures(step, registry);
        let Some(policy) = retry.only_policy().filter(|_| !retry.is_list) else {
            found.extend(covers_nothing(automation, step, retry, failures));
            return;
        };
        if policy.on.iter().any(|class| failures.has(*class)) {
            return;
        }
        let span = step_key_span(&automation.source, step.span, "retry").unwrap_or(step.span);
        let what = match &step.verb {
            Verb::Action(call) => format!("`{}` calls no other system", call.action.name),
            verb => format!("nothing in this `{}` calls another system", verb.keyword()),
        };
        let computed = policy.computed.as_ref().and_then(|computed| computed.max.as_ref());
        let max = computed.map_or_else(|| policy.max.to_string(), in_braces);
        let named: Vec<&str> = policy.on.iter().map(|class| class_name(*class)).collect();
        let message = format!("`retry` has no effect: {what}, and only {} is tried again", named.join(", "));
        found.push(
            Diagnostic::warning("unused-setting", message, span)
                .help(format!(
                    "write `retry: {{max: {max}, on: all}}` to try again after every error, or remove it"
                ))
                .step(step.id.as_ref()),
        );
    });
    found
}

/// Warns of changes that another attempt may make once more, although the action could recognise it.
fn repeated_writes(automation: &Automation, unreadable: &Unreadable, registry: &Registry) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    automation.walk(&mut |step| {
        let retries = step.retry.as_ref().is_some_and(|retry| retry.max() > 0);
        let Verb::Action(call) = &step.verb else { return };
        let Some(action) = registry.action(&call.action.name).filter(|_| retries && unreadable.is_empty())
        else {
            return;
        };
        let known = |name: &str| match call.with.iter().find(|(input, _)| input.name == name) {
            // An input that is computed may be what it has to be.
            Some((_, template)) => template.literal().cloned(),
            None => action.spec().input(name)?.default.clone(),
        };
        // An input that cannot be read has an error of its own.
        let is_unclear = |(input, value): &(SpannedName, Template)| match value.literal() {
            None => input.name == "once",
            Some(value) => {
                !value.is_null()
                    && action
                        .spec()
                        .input(&input.name)
                        .is_some_and(|spec| convert_value(&spec.kind, value).is_err())
            }
        };
        if call.with.iter().any(is_unclear) || !action.repeats_change(&known) {
            return;
        }
        let span = step_key_span(&automation.source, step.span, "retry").unwrap_or(call.action.span);
        let message = format!(
            "if an answer is lost, another attempt of `{}` changes the data once more",
            call.action.name
        );
        let help = match action.spec().input("once") {
            Some(_) => "add `once: true` below `with`, by which a repeated step changes nothing more",
            None => {
                "the service takes no key of a call: look first whether the change is there, and retry both steps together as a group; or \
                 write `# cogwork: allow(repeated-write)` behind `retry` if twice does no harm"
            }
        };
        found.push(
            Diagnostic::warning("repeated-write", message, span).help(help).step(step.id.as_ref()),
        );
    });
    found
}

/// Hints at the first policy of a list that covers no error: the step has no such errors, or the policies before it cover them.
fn covers_nothing(
    automation: &Automation,
    step: &Step,
    retry: &StepRetry,
    failures: Failures,
) -> Option<Diagnostic> {
    let mut covered: Vec<RetryOn> = Vec::new();
    for (index, rule) in retry.rules.iter().enumerate() {
        let is_covered = |class: &RetryOn| covered.contains(class) || covered.contains(&RetryOn::All);
        let is_open = |class: &RetryOn| failures.has(*class) && !is_covered(class);
        let all_before = covered.contains(&RetryOn::All);
        let is_useless =
            if rule.condition.is_some() { all_before } else { !rule.policy.on.iter().any(is_open) };
        if is_useless {
            let span = step_key_span(&automation.source, step.span, "retry").unwrap_or(step.span);
            let has_such =
                rule.condition.is_some() || rule.policy.on.iter().any(|class| failures.has(*class));
            let reason = match has_such {
                true => "the policies before it cover these errors".to_owned(),
                false => {
                    let named: Vec<&str> = rule.policy.on.iter().map(|class| class_name(*class)).collect();
                    format!("this `{}` has no errors of the class {}", step.verb.keyword(), named.join(", "))
                }
            };
            let message = format!("policy {} of `retry` covers nothing: {reason}", index + 1);
            return Some(
                Diagnostic::hint("retry-covers-nothing", message, span)
                    .help("remove it, put it before the others, or select its errors with `if`")
                    .step(step.id.as_ref()),
            );
        }
        if rule.condition.is_none() {
            covered.extend(&rule.policy.on);
        }
    }
    None
}

/// Warns of a `fail` inside of a step that is tried again: the steps before it keep their results, so it fails again.
fn same_failure(automation: &Automation, step: &Step, covers_all: bool) -> Option<Diagnostic> {
    let mut failing = None;
    for inner in step.verb.nested_blocks().iter().filter(|_| covers_all) {
        inner.block.walk(&mut |step| {
            let changes = step.guard.as_ref().is_some_and(|guard| {
                guard.is_nondeterministic()
                    || guard
                        .references()
                        .iter()
                        .any(|read| read.path.first().is_some_and(|root| root == "state"))
            });
            if matches!(&step.verb, Verb::Fail(fail) if !matches!(fail.message, Template::Expression(_)))
                && !changes
            {
                failing = failing.or(Some(step));
            }
        });
    }
    let fail = failing?;
    let span = step_key_span(&automation.source, fail.span, "fail").unwrap_or(fail.span);
    let message = format!(
        "another attempt of `{}` does not help here: steps that have succeeded keep their results, so this fails again",
        step.id
    );
    Some(
        Diagnostic::warning("unused-setting", message, span)
            .help("repeat the steps until they are done: `repeat: {until: condition, max: 5, delay: 10s}`")
            .step(fail.id.as_ref()),
    )
}

fn class_name(class: RetryOn) -> &'static str {
    match class {
        RetryOn::Network => "network",
        RetryOn::ServerError => "5xx",
        RetryOn::TooManyRequests => "429",
        RetryOn::All => "all",
    }
}

/// Returns the errors that a step can fail with, beyond the errors of its own inputs.
fn failures(step: &Step, registry: &Registry) -> Failures {
    let timed = Failures { network: step.timeout.is_some(), statuses: false };
    let own = match &step.verb {
        Verb::Action(call) => {
            let is_local = crate::native::find(&call.action.name).is_some()
                || registry
                    .action(&call.action.name)
                    .is_some_and(|action| action.spec().effect == Effect::Pure);
            if is_local { Failures::default() } else { Failures::REMOTE }
        }
        // Code and pauses can exceed their time.
        Verb::Code(_) | Verb::WaitFor(_) => Failures { network: true, statuses: false },
        // The error of another execution may be any error, and so may an error that is passed on.
        Verb::Call(_) => Failures::REMOTE,
        Verb::Fail(fail) if matches!(fail.message, Template::Expression(_)) => Failures::REMOTE,
        Verb::Fail(fail) => Failures { network: false, statuses: fail.status.is_some() },
        _ => Failures::default(),
    };
    let nested = step.verb.nested_blocks();
    let inner = nested.iter().flat_map(|inner| &inner.block.steps).map(|step| failures(step, registry));
    let handlers = match &step.on_error {
        OnError::Steps(block) => block.steps.as_slice(),
        OnError::Fail | OnError::Continue => &[],
    };
    let handled = handlers.iter().map(|step| failures(step, registry));
    inner.chain(handled).fold(own.or(timed), Failures::or)
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
            step.handlers().for_each(|(_, block)| self.block(block));
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
        let retries = |count: &Template| count.literal().and_then(value::Value::as_i64) != Some(0);
        let has_own = call.with.iter().any(|(input, value)| input.name == "maxRetryCount" && retries(value));
        (connector::is_http_call(name) || (is_raw && !has_own)) && self.registry.action(name).is_some()
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
            [] => "this call has neither `retry` nor `onError`: one failed attempt fails the execution"
                .to_owned(),
            others => {
                let line = |(span, _): &(Span, String)| source.position(span.start as usize).line.to_string();
                let shown: Vec<String> = others.iter().take(MAX_LINES).map(line).collect();
                let more = if others.len() > shown.len() { ", …" } else { "" };
                let lines = if others.len() == 1 { "line" } else { "lines" };
                format!(
                    "{} calls of this file have neither `retry` nor `onError` (also {lines} {}{more}): one failed attempt fails the execution",
                    calls.len(),
                    shown.join(", ")
                )
            }
        };
        Some(
            Diagnostic::hint("no-retry", message, *span)
                .help("add `retry: 3`, or `onError:` with what should happen instead; `retry: 0` says that one attempt is meant")
                .step(step.as_str()),
        )
    }
}
