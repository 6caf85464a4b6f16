//! `kill -9` while executions compute or wait behind a call that has ended: no such call is made again.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::super::rig::{END_WITHIN, Parts, Rig};
use super::super::{Effort, Error, Verdict};
use crate::recorder::Recorder;

/// The executions of each automation in one round: together more than a round needs as proof.
const EACH: usize = 40;
/// The interval at which the history is read.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Computes for 150 ms, so that ends of calls are seen before the ends of executions also on a busy machine.
const COMPUTE: &str = "export default () => { const end = Date.now() + 150; while (Date.now() < end); };";

/// The steps behind the call, by the name of the automation.
fn behind() -> [(&'static str, String); 3] {
    [
        ("code", format!("  - code: |\n      {COMPUTE}\n")),
        ("loop", format!("  - forEach: [1, 2, 3]\n    steps:\n      - code: |\n          {COMPUTE}\n")),
        ("wait", "  - wait: 2s\n".to_owned()),
    ]
}

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let mut rig = Rig::new("finished", effort.seed, Parts::default()).await?;
    let sink = Recorder::start().await?;
    for (name, steps) in behind() {
        let url = format!("{}/{name}", sink.url());
        let call = format!(
            "  - id: called\n    action: http.request\n    with: {{method: POST, url: \"{url}\", body: \"${{{{ execution.id }}}}\"}}\n"
        );
        rig.project()
            .automation(name, &format!("trigger: {{webhook: {{verify: none}}}}\nsteps:\n{call}{steps}"))?;
    }
    rig.start().await?;
    for _ in 0..effort.rounds {
        let mut count = 0;
        for (name, _) in behind() {
            let executions = send(&rig, name).await?;
            count += executions.len();
            let mut seen = 0;
            for id in &executions {
                seen += usize::from(is_stored_before_the_end(&rig, id).await?);
            }
            rig.blame(
                (seen == 0)
                    .then(|| format!("`{name}`: no end of a call is stored before its execution ends")),
            );
        }
        rig.kill().await?;
        rig.verdict().acknowledged += count as u64;
        rig.verdict().rounds += 1;
        rig.start().await?;
        have_ended(&rig).await?;
        let mut calls = BTreeMap::<String, usize>::new();
        for request in sink.drain() {
            *calls.entry(request.idempotency_key.unwrap_or_default()).or_default() += 1;
        }
        for (key, count) in calls.iter().filter(|(_, count)| **count > 1) {
            rig.blame(Some(format!("the call {key} had ended and was made again: {count} times in all")));
        }
        rig.blame(
            (calls.len() != count)
                .then(|| format!("{count} were acknowledged, {} made their call", calls.len())),
        );
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}

/// Starts executions of an automation, and gives their ids.
async fn send(rig: &Rig, name: &str) -> Result<Vec<String>, Error> {
    let url = rig.live_url(name).await?;
    let mut ids = Vec::new();
    for _ in 0..EACH {
        let answer: Value = rig.http().post(&url).json(&json!({})).send().await?.json().await?;
        ids.extend(answer["executionId"].as_str().map(str::to_owned));
    }
    Ok(ids)
}

/// Waits until the history shows the end of the call. True if the execution had not ended by then.
async fn is_stored_before_the_end(rig: &Rig, id: &str) -> Result<bool, Error> {
    let stored = async {
        loop {
            let shown = rig.ask(&format!("/executions/{id}")).await?;
            let has_ended = |step: &Value| step["step"] == "called" && step["status"] == "succeeded";
            if shown["steps"].as_array().is_some_and(|steps| steps.iter().any(has_ended)) {
                return Ok(shown["status"] != "succeeded");
            }
            look_later(rig).await;
        }
    };
    timeout(END_WITHIN, stored).await.unwrap_or(Ok(false))
}

/// Waits for the end of every execution, and blames the daemon if it does not come.
pub(super) async fn have_ended(rig: &Rig) -> Result<(), Error> {
    let deadline = Instant::now() + END_WITHIN;
    loop {
        let left = rig.ask("/executions?status=queued,running,waiting&limit=1").await?;
        if left["executions"].as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            rig.blame(Some("not everything came to its end".to_owned()));
            return Ok(());
        }
        look_later(rig).await;
    }
}

/// Waits for the interval between two reads of the history, or for an effect.
async fn look_later(rig: &Rig) {
    let mut received = rig.shared().sink().count();
    let _ = timeout(CHECK_INTERVAL, received.changed()).await;
}
