//! Warns of inner limits that an outer one makes useless: pauses, timeouts and delays that are longer than the timeout around
//! them, the patience of a caller that is longer than the execution, and pauses that are longer than that patience.

use std::fmt;
use std::time::Duration;

use connector::Registry;
use language::load::{PathSegment, Unreadable, span_at_path, step_key_span};
use model::automation::{
    ActionStep, Automation, Block, DeclaredTrigger, Handler, RepeatStep, Setting, Step, StepRetry, Trigger,
    Verb, WaitOn, WaitStep, WebhookMode, WebhookTrigger,
};
use text::diagnostic::{Diagnostic, Source, Span};
use text::units::{format_duration, parse_fixed_period};
use value::Value;

/// The time limit of the file's `onError`, of each `finally`, and of each `undo`.
const CLOSING: Duration = Duration::from_secs(5 * 60);

const CLOSING_HELP: &str = "make it shorter: these steps have five minutes together";

/// Checks all limits of the file.
pub(super) fn check(
    automation: &Automation,
    unreadable: &Unreadable,
    registry: &Registry,
) -> Vec<Diagnostic> {
    let mut check = Check { source: &automation.source, registry, found: Vec::new() };
    let whole = Limit { timeout: automation.timeout, owner: Owner::Execution };
    let whole = Some(&whole).filter(|_| !unreadable.has("timeout"));
    check.block(&automation.steps, Around { execution: whole, steps: None });
    let closing = [("onError", &automation.on_error), ("finally", &automation.finally)];
    closing.into_iter().for_each(|(key, block)| check.closing(key, block.as_ref()));
    let mut shortest: Option<Duration> = None;
    for trigger in &automation.triggers {
        if let Trigger::Webhook(webhook) = &trigger.on
            && webhook.mode == WebhookMode::Sync
        {
            whole.into_iter().for_each(|limit| check.caller(automation, trigger, webhook, limit));
            shortest = Some(shortest.map_or(webhook.timeout, |known| known.min(webhook.timeout)));
        }
    }
    if let Some(timeout) = shortest {
        before_response(&automation.steps, timeout, &mut check.found);
    }
    check.found
}

/// A timeout around steps.
struct Limit<'a> {
    timeout: Duration,
    owner: Owner<'a>,
}

/// The owner of a timeout.
#[derive(Clone, Copy)]
enum Owner<'a> {
    Execution,
    /// The list of steps under this key.
    Closing(&'a str),
    Step(&'a Step),
}

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Execution => f.write_str("the execution"),
            Self::Closing(key) => write!(f, "`{key}`"),
            Self::Step(step) => write!(f, "step `{}`", step.id),
        }
    }
}

/// The shortest timeouts around a step.
#[derive(Clone, Copy)]
struct Around<'a> {
    /// That of the execution, which pauses do not count against.
    execution: Option<&'a Limit<'a>>,
    /// That of a step or a closing list, which pauses count against.
    steps: Option<&'a Limit<'a>>,
}

impl<'a> Around<'a> {
    /// Returns the limit of work without pauses.
    fn work_limit(self) -> Option<&'a Limit<'a>> {
        [self.steps, self.execution].into_iter().flatten().min_by_key(|limit| limit.timeout)
    }

    /// Returns the limit of the whole step.
    fn step_limit(self, pauses: bool) -> Option<&'a Limit<'a>> {
        if pauses { self.steps } else { self.work_limit() }
    }
}

struct Check<'a> {
    source: &'a Source,
    registry: &'a Registry,
    found: Vec<Diagnostic>,
}

impl Check<'_> {
    /// Checks a list of steps that has its own time limit.
    fn closing(&mut self, key: &str, block: Option<&Block>) {
        let limit = Limit { timeout: CLOSING, owner: Owner::Closing(key) };
        let around = Around { execution: None, steps: Some(&limit) };
        block.into_iter().for_each(|block| self.block(block, around));
    }

    /// Checks the patience of a caller, who gets the answer when the execution ends at the latest.
    fn caller(
        &mut self,
        automation: &Automation,
        trigger: &DeclaredTrigger,
        webhook: &WebhookTrigger,
        limit: &Limit<'_>,
    ) {
        let runs_on = automation.on_error.is_some() || automation.finally.is_some() || webhook.code.is_some();
        let mut may_last = runs_on;
        automation.steps.walk(&mut |step| {
            may_last |= step.handlers().any(|(handler, _)| handler != Handler::OnError);
            may_last |= step.retry.is_some() || self.pauses(step);
        });
        if webhook.timeout <= limit.timeout || may_last {
            return;
        }
        let key = [PathSegment::Key("timeout".to_owned())];
        if let Some(span) = span_at_path(self.source, trigger.span, &key) {
            self.found.push(useless("timeout", span, &takes(webhook.timeout), limit));
        }
    }

    /// True if a step may pause.
    fn pauses(&self, step: &Step) -> bool {
        let pauses = |verb: &Verb| match verb {
            Verb::Wait(_) | Verb::WaitFor(_) | Verb::Call(_) | Verb::Repeat(_) => true,
            // An unknown action has an error of its own.
            Verb::Action(call) => {
                self.registry.action(&call.action.name).is_none_or(|action| action.has_stages())
            }
            _ => false,
        };
        let mut found = pauses(&step.verb);
        for inner in step.verb.nested_blocks() {
            inner.block.walk(&mut |step| found |= pauses(&step.verb) || step.retry.is_some());
        }
        found
    }

    fn block(&mut self, steps: &Block, around: Around<'_>) {
        steps.steps.iter().for_each(|step| self.step(step, around));
    }

    fn step(&mut self, step: &Step, around: Around<'_>) {
        let is_wait_for = matches!(step.verb, Verb::WaitFor(_));
        let timeout = step.timeout.as_ref().and_then(Setting::literal);
        let too_long =
            timeout.zip(around.step_limit(self.pauses(step))).filter(|(own, limit)| *own > limit.timeout);
        match too_long {
            Some((own, limit)) if is_wait_for => self.outlasts(step, "this waits up to", own, limit),
            // A default is for all steps, whatever is around them.
            Some(_) if step.taken.timeout => {}
            Some((own, limit)) => self.no_effect(step, "timeout", None, &takes(own), limit),
            None => {}
        }
        if let (Some(retry), Some(limit), false) = (&step.retry, around.work_limit(), step.taken.retry) {
            self.retries(step, retry, limit);
        }
        let own = timeout.filter(|own| !is_wait_for && around.steps.is_none_or(|limit| *own < limit.timeout));
        let own = own.map(|timeout| Limit { timeout, owner: Owner::Step(step) });
        let inner = Around { steps: own.as_ref().or(around.steps), ..around };
        if let (Some((length, waits)), Some(limit)) = (own_pause(&step.verb), inner.steps)
            && length > limit.timeout
        {
            self.outlasts(step, waits, length, limit);
        }
        if let (Verb::Action(call), Some(limit)) = (&step.verb, inner.work_limit()) {
            self.inputs(step, call, limit);
        }
        step.verb.nested_blocks().iter().for_each(|nested| self.block(nested.block, inner));
        for (handler, steps) in step.handlers() {
            match handler {
                Handler::OnError => self.block(steps, around),
                Handler::Finally | Handler::Undo => self.closing(handler.key(), Some(steps)),
            }
        }
    }

    /// Checks the first delay of each retry policy, which counts against the timeouts around the step.
    fn retries(&mut self, step: &Step, retry: &StepRetry, limit: &Limit<'_>) {
        let mut policies = retry.rules.iter().map(|rule| &rule.policy);
        if let Some(policy) = policies.find(|policy| policy.max > 0 && policy.delay > limit.timeout) {
            let why = format!(": the first one would begin after {}", format_duration(policy.delay));
            self.no_effect(step, "retry", None, &why, limit);
        }
    }

    /// Checks the literal time inputs of a call that say how it is sent.
    fn inputs(&mut self, step: &Step, call: &ActionStep, limit: &Limit<'_>) {
        let Some(action) = self.registry.action(&call.action.name) else { return };
        for (name, template) in &call.with {
            let length = match name.name.as_str() {
                key if !action.transport_inputs().contains(&key) => None,
                "timeout" => template.literal().and_then(duration),
                "retryDelayMs" => template.literal().and_then(milliseconds),
                _ => None,
            };
            if let Some(length) = length.filter(|length| *length > limit.timeout) {
                self.no_effect(step, &name.name, Some(name.span), &takes(length), limit);
            }
        }
    }

    /// Warns of a setting that the limit makes useless.
    fn no_effect(&mut self, step: &Step, key: &str, at: Option<Span>, why: &str, limit: &Limit<'_>) {
        let span = at.or_else(|| step_key_span(self.source, step.span, key)).unwrap_or(step.span);
        self.report_at_owner(useless(key, span, why, limit), step, limit);
    }

    /// Warns of a pause that the limit cuts off.
    fn outlasts(&mut self, step: &Step, waits: &str, length: Duration, limit: &Limit<'_>) {
        let message = format!(
            "{waits} {}, but the timeout of {} ends it after {}",
            format_duration(length),
            limit.owner,
            format_duration(limit.timeout)
        );
        let help = match limit.owner {
            Owner::Closing(_) => CLOSING_HELP,
            Owner::Execution | Owner::Step(_) => {
                "make that timeout longer than the pause; pauses count against the `timeout` of a step, but not of the execution"
            }
        };
        let warning = Diagnostic::warning("outlasts-timeout", message, step.span).help(help);
        self.report_at_owner(warning, step, limit);
    }

    fn report_at_owner(&mut self, warning: Diagnostic, step: &Step, limit: &Limit<'_>) {
        let place = match limit.owner {
            Owner::Step(outer) if outer.span != step.span => {
                step_key_span(self.source, outer.span, "timeout")
            }
            _ => None,
        };
        let warning = match place {
            Some(place) => warning.related(place, "the timeout around it"),
            None => warning,
        };
        self.found.push(warning.step(step.id.as_ref()));
    }
}

/// Says that a setting has no effect because of a limit.
fn useless(key: &str, span: Span, why: &str, limit: &Limit<'_>) -> Diagnostic {
    let (owner, timeout) = (limit.owner, format_duration(limit.timeout));
    let message = format!("`{key}` has no effect{why}, but {owner} ends after {timeout}");
    let help = match limit.owner {
        Owner::Execution => "raise `timeout` at the top of the file, or lower this one",
        Owner::Closing(_) => CLOSING_HELP,
        Owner::Step(_) => "raise the `timeout` of that step, or lower this one",
    };
    Diagnostic::warning("unused-setting", message, span).help(help)
}

/// Returns the shortest length of a step's own pause that is known, and how to say it.
fn own_pause(verb: &Verb) -> Option<(Duration, &'static str)> {
    match verb {
        Verb::Wait(WaitStep::For(length)) => Some((*length, "this waits")),
        Verb::Repeat(repeat) => between_iterations(repeat).map(|length| (length, "this waits")),
        _ => None,
    }
}

/// Returns the sum of the delays of a loop; of one with a condition, the first delay.
fn between_iterations(repeat: &RepeatStep) -> Option<Duration> {
    let (max, delay) = (repeat.max.literal()?, repeat.delay.literal()?);
    let delays = if repeat.until.is_some() { 1 } else { max.saturating_sub(1) };
    Some(delay.saturating_mul(delays)).filter(|length| max > 1 && !length.is_zero())
}

/// Says that a time is too long.
fn takes(length: Duration) -> String {
    format!(": it is {}", format_duration(length))
}

/// Reads a duration, or a number of milliseconds.
fn duration(value: &Value) -> Option<Duration> {
    let text = value.to_text();
    parse_fixed_period(&text).ok().or_else(|| text.parse().ok().map(Duration::from_millis))
}

fn milliseconds(value: &Value) -> Option<Duration> {
    value.as_i64().and_then(|count| u64::try_from(count).ok()).map(Duration::from_millis)
}

/// Checks the pauses before the first `respond`. Returns true once there is one.
fn before_response(steps: &Block, timeout: Duration, found: &mut Vec<Diagnostic>) -> bool {
    for step in &steps.steps {
        let pause = match &step.verb {
            Verb::Respond(_) => return true,
            Verb::WaitFor(wait) if matches!(wait.on, WaitOn::Approval(_)) => {
                Some("this waits for a person".to_owned())
            }
            verb => own_pause(verb)
                .filter(|(length, _)| *length > timeout)
                .map(|(length, waits)| format!("{waits} {}", format_duration(length))),
        };
        if let Some(pause) = pause {
            let message = format!(
                "{pause}, but the caller of this synchronous webhook waits {} and then gets 504",
                format_duration(timeout)
            );
            found.push(
                Diagnostic::warning("outlasts-timeout", message, step.span)
                    .help("answer before the pause with `respond`: the steps after it go on; or write `mode: async`")
                    .step(step.id.as_ref()),
            );
        }
        if step.verb.nested_blocks().iter().any(|inner| before_response(inner.block, timeout, found)) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pretty_assertions::assert_eq;

    use super::*;

    /// The `code text` of each warning about these steps below this head.
    fn warnings(head: &str, steps: &str) -> Vec<String> {
        let text = format!("{head}\nsteps:\n{steps}\n");
        let loaded = language::load::automation(Arc::new(Source::new("test.yaml", text)), "test");
        let Some(automation) = loaded.value else { panic!("{}", loaded.report.render(false)) };
        let registry = crate::check::builtin().expect("the connectors load");
        let found = check(&automation, Unreadable::NONE, &registry);
        found.iter().map(|found| format!("{} {}", found.code, automation.source.slice(found.span))).collect()
    }

    const MANUAL: &str = "trigger: {manual: {}}";

    fn call(keys: &str, input: &str) -> String {
        format!("  - {{action: http.request, {keys} with: {{url: 'https://a.test'{input}}}}}")
    }

    #[test]
    fn a_timeout_equal_to_the_outer_one_is_fine() {
        let none: [&str; 0] = [];
        assert_eq!(warnings(MANUAL, &call("timeout: 15m,", "")), none);
        assert_eq!(warnings(MANUAL, &call("timeout: 30s,", ", timeout: 30s")), none);
        assert_eq!(warnings(MANUAL, "  - {timeout: 1m, steps: [{wait: 1m}]}"), none);
        assert_eq!(warnings(&format!("{MANUAL}\ntimeout: 3h"), &call("timeout: 2h,", "")), none);
        assert_eq!(
            warnings(MANUAL, &format!("  - timeout: 1s\n    steps:\n    {}", call("retry: 9,", ""))),
            none
        );
    }

    #[test]
    fn a_timeout_longer_than_the_outer_one_is_reported_at_its_key() {
        assert_eq!(warnings(MANUAL, &call("timeout: 16m,", "")), ["unused-setting timeout"]);
        assert_eq!(warnings(MANUAL, &call("timeout: 10s,", ", timeout: 11s")), ["unused-setting timeout"]);
        let late = call("retry: {max: 1, delay: 2s},", "");
        let group = |keys: &str, step: &str| format!("  - {keys}\n    steps:\n    {step}");
        assert_eq!(warnings(MANUAL, &group("timeout: 1s", &late)), ["unused-setting retry"]);
        assert_eq!(warnings(&format!("{MANUAL}\ntimeout: 1s"), &late), ["unused-setting retry"]);
    }

    #[test]
    fn waits_count_against_step_timeouts_and_not_against_the_execution_timeout() {
        let none: [&str; 0] = [];
        assert_eq!(warnings(MANUAL, "  - {waitFor: {event: paid}, timeout: 2d}"), none);
        assert_eq!(warnings(MANUAL, "  - {timeout: 2d, steps: [{wait: 1d}]}"), none);
        assert_eq!(warnings(MANUAL, "  - {repeat: {max: 30, delay: 1m}, steps: [{set: {a: 1}}]}"), none);
        let delays = "  - {timeout: 20m, repeat: {max: 30, delay: 1m}, steps: [{set: {a: 1}}]}";
        assert_eq!(warnings(MANUAL, delays).len(), 1);
        let done = "  - {timeout: 20m, repeat: {until: vars.a, max: 30, delay: 1m}, steps: [{set: {a: 1}}]}";
        assert_eq!(warnings(MANUAL, done), none, "the loop may end in time");
    }

    #[test]
    fn on_error_finally_and_undo_lists_always_have_five_minutes() {
        let step = "  - {wait: 6m}";
        let file = format!("{MANUAL}\ntimeout: 1h\nfinally:\n{step}\nonError:\n{step}");
        assert_eq!(warnings(&file, "  - {action: log.info, undo: [{wait: 6m}]}").len(), 3);
        let fine = format!("{MANUAL}\ntimeout: 1m\nfinally:\n  - {{action: log.info, timeout: 5m}}");
        assert_eq!(warnings(&fine, "  - {wait: 6m}").len(), 0);
    }

    #[test]
    fn a_caller_timeout_longer_than_the_execution_is_reported() {
        let none: [&str; 0] = [];
        let head = |wait: &str, more: &str| {
            format!(
                "trigger: {{webhook: {{mode: sync, verify: none, timeout: {wait}}}}}\ntimeout: 1m\n{more}"
            )
        };
        let respond = "  - respond: {status: 200}";
        assert_eq!(warnings(&head("2m", ""), respond), ["unused-setting timeout"]);
        assert_eq!(warnings(&head("1m", ""), respond), none);
        let closing = "finally: [{action: log.info, with: {message: a}}]";
        assert_eq!(warnings(&head("2m", closing), respond), none, "the answer may come after `finally`");
        assert_eq!(
            warnings(&head("2m", ""), &format!("  - {{wait: 90s}}\n{respond}")),
            none,
            "pauses do not count"
        );
        let default = "trigger: {webhook: {mode: sync, verify: none}}\ntimeout: 10s";
        assert_eq!(warnings(default, respond), none);
    }

    #[test]
    fn loop_delays_before_a_response_count_against_the_caller_timeout() {
        let sync = "trigger: {webhook: {mode: sync, verify: none, timeout: 10s}}";
        let steps = |delay: &str| {
            format!(
                "  - {{repeat: {{max: 3, delay: {delay}}}, steps: [{{set: {{a: 1}}}}]}}\n  - respond: {{status: 200}}"
            )
        };
        assert_eq!(warnings(sync, &steps("6s")).len(), 1);
        assert_eq!(warnings(sync, &steps("5s")).len(), 0);
    }
}
