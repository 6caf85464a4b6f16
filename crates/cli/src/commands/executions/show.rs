//! `cogwork executions show`

use anyhow::Context as _;
use model::ActionError;
use model::execution::Origin;
use serde_json::{Value, json};
use server::StartedView;

use super::tree;
use crate::exit::Exit;
use crate::history::{self, Delay, Execution, Outcome, Started, Step};
use crate::output::{self, BAD, GOOD, QUIET, STRONG, WARN, cut, paint, plain};
use crate::settings::Config;
use crate::waiting::{self, Waiting};
use crate::{daemon, time};

/// The maximum length of a payload, in characters.
const PAYLOAD: usize = 200;
/// The maximum number of printed executions that its events started.
const STARTED: usize = 10;
/// The maximum number of printed waiting steps.
const PAUSES: usize = 10;

/// Shows one execution.
pub(super) async fn run(config: &Config, id: &str, json: bool) -> anyhow::Result<Exit> {
    let store = history::require(config)?;
    let row = history::find(&*store, id).await?;
    let (id, origin, definition) = (row.id, row.origin.as_str(), row.definition);
    let has_ended = row.status.is_terminal();
    let (events, cuts) = history::events(&store, id).await?;
    // It determines the order of the steps.
    let automation = history::definition(&*store, definition).await?;
    let waits = store.waits(id).await?;
    let mut value =
        server::describe(row, events, &cuts, &waits, automation.as_ref()).context("the store is damaged")?;
    if let Some(started) = StartedView::read(&*store, id, |row| row.status).await? {
        value["started"] = json!(started);
    }
    if !has_ended {
        // Only a daemon knows the queue, the concurrency waits and the resume address; the store has everything
        // else.
        let told = daemon::get::<Value>(config, &format!("/api/v1/executions/{id}")).await;
        if let Ok(Some(mut told)) = told
            && let Some(waiting) = told.get_mut("waiting").map(Value::take)
        {
            value["waiting"] = waiting;
            value["status"] = told["status"].take();
        }
    }
    if json {
        output::written(move |out| cuts.write(&value, true, out)).await?;
        return Ok(Exit::Done);
    }
    let result = value.pointer("/outcome/result").filter(|result| cuts.are_in(result)).cloned();
    cuts.put_beginnings(&mut value);
    let execution: Execution = serde_json::from_value(value).context("an execution that is none")?;
    head(&execution, origin)?;
    for line in tree::lines(automation.as_ref(), &execution.steps) {
        output::data(line)?;
    }
    tail(&execution, result.is_some())?;
    if let Some(result) = result {
        output::written(move |out| cuts.write(&result, true, out)).await?;
    }
    Ok(Exit::Done)
}

fn head(execution: &Execution, origin: &str) -> anyhow::Result<()> {
    let fact = |name: &str, value: &str| {
        output::data(format_args!("{}  {value}", paint(QUIET, format_args!("{name:<10}"))))
    };
    fact("execution", &paint(STRONG, &execution.id))?;
    fact("automation", &execution.automation)?;
    fact("status", &status(&execution.status))?;
    let took = execution.finished_at.map(|end| time::took(time::between(execution.started_at, end)));
    let took = took.map_or_else(String::new, |took| format!(", took {took}"));
    fact("started", &format!("{} by {origin}{took}", time::local(execution.started_at)))?;
    if let Origin::Call { execution, step, .. } = &execution.origin {
        fact("called by", &format!("execution {execution}, step `{}`", plain(step)))?;
    }
    if let Origin::Emitted { event, id, sender, step, .. } = &execution.origin {
        let sender = match (sender, step) {
            (Some(sender), Some(step)) => format!(" of execution {sender}, step `{}`", plain(step)),
            _ => format!(" with the id `{}`", plain(id)),
        };
        fact("event", &format!("`{}`{sender}", plain(event)))?;
    }
    if let Origin::Replay { of, from, .. } = &execution.origin {
        let from = from.as_deref().map_or_else(String::new, |step| format!(", from step `{}`", plain(step)));
        fact("replay of", &format!("execution {of}{from}"))?;
    }
    if let Origin::Imported { at, original } = &execution.origin {
        fact("imported", &format!("{}, started by {} elsewhere", time::local(*at), original.as_str()))?;
    }
    if execution.attempt > 1 {
        fact("attempt", &execution.attempt.to_string())?;
    }
    if let Some(at) = execution.retry_at {
        fact("next try", &time::local(at))?;
    }
    if let Some(waiting) = &execution.waiting {
        waits_for(waiting, &fact)?;
    }
    delays(&execution.waits, &fact)?;
    if let Some(found) = &execution.started {
        started(&execution.id, found, &fact)?;
    }
    fact("payload", &paint(QUIET, plain(&cut(&payload(&execution.payload), PAYLOAD))))?;
    output::data("")?;
    Ok(())
}

/// Prints the waits that no step requested.
fn delays(waits: &[Delay], fact: &dyn Fn(&str, &str) -> std::io::Result<()>) -> std::io::Result<()> {
    let unasked: Vec<_> = waits.iter().filter_map(|wait| Some((wait, wait.reason()?))).collect();
    for (wait, reason) in unasked.iter().take(PAUSES) {
        let step = wait.step.as_deref().map_or_else(String::new, |step| format!(" at `{}`", plain(step)));
        let text = waiting::delay(reason, std::time::Duration::from_millis(wait.ms));
        fact("delay", &format!("{text}{step}"))?;
    }
    if unasked.len() > PAUSES {
        fact("", &format!("and {} more", unasked.len() - PAUSES))?;
    }
    Ok(())
}

/// Prints the executions that its events started.
fn started(
    sender: &str,
    found: &Started,
    fact: &dyn Fn(&str, &str) -> std::io::Result<()>,
) -> std::io::Result<()> {
    for (index, one) in found.executions.iter().take(STARTED).enumerate() {
        let step = one.step.as_deref().map_or_else(String::new, |step| format!(", step `{}`", plain(step)));
        let event = plain(&one.event);
        let text = format!("{} {}, {}, by `{event}`{step}", one.automation, one.id, status(&one.status));
        fact(if index == 0 { "led to" } else { "" }, &text)?;
    }
    let all = found.total["count"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
    if all > STARTED {
        let more = if found.total["isAtLeast"] == true { "or more " } else { "" };
        let left = all - STARTED;
        fact("", &format!("and {left} {more}more: cogwork executions list --started-by {sender}"))?;
    }
    Ok(())
}

/// Prints the wait reasons and the resume address.
fn waits_for(waiting: &Waiting, fact: &dyn Fn(&str, &str) -> std::io::Result<()>) -> anyhow::Result<()> {
    let now = time::now();
    if waiting.for_store {
        fact("waits for", "the store, which refuses a write of it")?;
    }
    if let Some(before) = waiting.queued_behind {
        let what = if waiting.for_memory { " in the queue for memory" } else { "" };
        fact("queue", &format!("{before} before it{what}"))?;
    }
    if let Some(turn) = &waiting.turn {
        let holders: Vec<String> = turn.holders.iter().map(ToString::to_string).collect();
        let key = if turn.key.is_empty() {
            String::new()
        } else {
            format!(" of `{}`", plain(&cut(&turn.key, PAYLOAD)))
        };
        fact(
            "slot",
            &format!("{} before it; the concurrency slot{key} is held by {}", turn.ahead, holders.join(", ")),
        )?;
    }
    for pending in waiting.pauses.iter().take(PAUSES) {
        let until = pending.until.map_or_else(String::new, |at| format!(", {}", waiting::until(at, now)));
        let (what, step) = (waiting::what(&pending.on), plain(&pending.step));
        fact("waits for", &format!("{what} at `{step}` since {}{until}", time::local(pending.since)))?;
        if let Some(question) = waiting::question(&pending.on) {
            fact("", &question)?;
        }
    }
    if waiting.pauses.len() > PAUSES {
        fact("", &format!("and {} more", waiting.pauses.len() - PAUSES))?;
    }
    if let Some(url) = &waiting.resume_url {
        fact("answer at", url)?;
    }
    Ok(())
}

/// A summary of a payload in one line.
fn payload(payload: &Value) -> String {
    match payload["kind"].as_str() {
        Some("webhook") => {
            let text = payload["body"]["data"].as_str().unwrap_or_default();
            let kind = payload["body"]["contentType"].as_str().unwrap_or_default();
            format!("{} {kind} {text}", payload["method"].as_str().unwrap_or_default())
        }
        Some("manual") => payload["inputs"].to_string(),
        Some("poll" | "emitted") => payload["data"].to_string(),
        _ => payload["scheduledAt"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Prints the end; a large result follows.
fn tail(execution: &Execution, is_large: bool) -> anyhow::Result<()> {
    output::data("")?;
    if let Some(status) = execution.answered {
        output::data(format_args!(
            "{}  {status}, after the timeout of the webhook",
            paint(STRONG, "answered")
        ))?;
    }
    if let Some(response) = &execution.response {
        output::data(format_args!("{}  {}", paint(STRONG, "answered"), response["status"]))?;
    }
    match &execution.outcome {
        None => output::data(paint(QUIET, "it has not come to its end"))?,
        Some(Outcome::Succeeded { .. }) if is_large => output::data(paint(STRONG, "result"))?,
        Some(Outcome::Succeeded { result }) => {
            output::data(format_args!(
                "{}\n{}",
                paint(STRONG, "result"),
                serde_json::to_string_pretty(result)?
            ))?;
        }
        Some(Outcome::Failed { error } | Outcome::Stuck { error }) => {
            let error = in_its_turn(error, &execution.steps);
            output::data(format_args!("{}  {}", paint(BAD.bold(), "error"), history::describe(&error)))?;
        }
        Some(Outcome::Cancelled { reason }) => {
            output::data(format_args!("{}  {}", paint(WARN.bold(), "cancelled"), plain(reason)))?;
        }
    }
    Ok(())
}

/// The error with its step in the failed iteration: `copy[2]`.
fn in_its_turn(error: &ActionError, steps: &[Step]) -> ActionError {
    let mut error = error.clone();
    let is_it = |one: &&Step| {
        one.status == "failed"
            && one.step.split('[').next() == error.step.as_deref()
            && one.error.as_ref().is_some_and(|own| own.message == error.message)
    };
    if let Some(found) = steps.iter().rev().find(is_it) {
        error.step = Some(found.step.clone());
    }
    error
}

fn status(word: &str) -> String {
    let style = match word {
        "succeeded" => GOOD,
        "failed" | "stuck" => BAD,
        "cancelled" => WARN,
        _ => STRONG,
    };
    paint(style, word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_payload_of_each_kind_is_shown() {
        for (payload, shown) in [
            (
                json!({"kind": "webhook", "method": "POST", "body": {"contentType": "text/plain", "data": "a"}}),
                "POST text/plain a",
            ),
            (json!({"kind": "schedule", "scheduledAt": "2026-01-01T00:00:00Z"}), "2026-01-01T00:00:00Z"),
            (json!({"kind": "poll", "data": [1]}), "[1]"),
            (json!({"kind": "emitted", "event": "a", "id": "b", "data": {"c": 1}}), r#"{"c":1}"#),
            (json!({"kind": "manual", "inputs": {"c": 1}}), r#"{"c":1}"#),
        ] {
            assert_eq!(super::payload(&payload), shown);
        }
    }
}
