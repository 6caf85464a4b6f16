//! Warns of pauses that outlast what limits them: the timeout of a step around them, or the patience of a caller.

use std::time::Duration;

use model::automation::{Automation, Block, OnError, Step, Trigger, Verb, WaitOn, WaitStep, WebhookMode};
use model::diagnostic::Diagnostic;
use model::units::format_duration;

/// The time limit of `finally`.
const FINALLY: Duration = Duration::from_secs(5 * 60);

/// Checks all pauses of the file.
pub(super) fn check(automation: &Automation) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    // The timeout of the execution does not count pauses.
    block(&automation.steps, None, &mut found);
    automation.on_error.iter().for_each(|steps| block(steps, None, &mut found));
    let limit = Limit { timeout: FINALLY, owner: "`finally`".to_owned() };
    automation.finally.iter().for_each(|steps| block(steps, Some(&limit), &mut found));
    if let Trigger::Webhook(webhook) = &automation.trigger
        && webhook.mode == WebhookMode::Sync
    {
        before_response(&automation.steps, webhook.timeout, &mut found);
    }
    found
}

/// A timeout around steps.
struct Limit {
    timeout: Duration,
    /// Its owner in words.
    owner: String,
}

/// Checks a list of steps with the shortest timeout around it.
fn block(steps: &Block, around: Option<&Limit>, found: &mut Vec<Diagnostic>) {
    for step in &steps.steps {
        if let (Verb::WaitFor(_), Some(limit), Some(own)) = (&step.verb, around, step.timeout)
            && own > limit.timeout
        {
            found.push(outlasts(step, "this waits up to", own, limit));
        }
        let is_wait_for = matches!(step.verb, Verb::WaitFor(_));
        let own =
            step.timeout.filter(|own| !is_wait_for && around.is_none_or(|around| *own < around.timeout));
        let own = own.map(|timeout| Limit { timeout, owner: format!("step `{}`", step.id) });
        let limit = own.as_ref().or(around);
        if let (Verb::Wait(WaitStep::For(length)), Some(limit)) = (&step.verb, limit)
            && *length > limit.timeout
        {
            found.push(outlasts(step, "this waits", *length, limit));
        }
        step.verb.nested_blocks().iter().for_each(|inner| block(inner.block, limit, found));
        if let OnError::Steps(steps) = &step.on_error {
            block(steps, around, found);
        }
        step.undo.iter().for_each(|steps| block(steps, around, found));
    }
}

fn outlasts(step: &Step, waits: &str, length: Duration, limit: &Limit) -> Diagnostic {
    let message = format!(
        "{waits} {}, but the timeout of {} ends it after {}",
        format_duration(length),
        limit.owner,
        format_duration(limit.timeout)
    );
    Diagnostic::warning("outlasts-timeout", message, step.span)
        .help("make that timeout longer than the pause; pauses count against the `timeout` of a step, but not of the execution")
        .step(step.id.as_ref())
}

/// Checks the pauses before the first `respond`. Returns true once there is one.
fn before_response(steps: &Block, timeout: Duration, found: &mut Vec<Diagnostic>) -> bool {
    for step in &steps.steps {
        let pause = match &step.verb {
            Verb::Respond(_) => return true,
            Verb::Wait(WaitStep::For(length)) if *length > timeout => {
                Some(format!("this waits {}", format_duration(*length)))
            }
            Verb::WaitFor(wait) if matches!(wait.on, WaitOn::Approval(_)) => {
                Some("this waits for a person".to_owned())
            }
            _ => None,
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
