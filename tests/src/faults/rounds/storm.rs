//! Automations fail all at once, again and again: the executions of the handler stand for each failure once, and are few.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use reqwest::Client;
use serde_json::Value;

use super::super::rig::{Parts, Rig};
use super::super::{Effort, Error, Verdict};
use super::reload::resident;

/// The number of automations, each of which fails once in a round.
const FAILING: u32 = 1000;
/// The number of starts at one time.
const STARTERS: usize = 16;
/// The name of the handler.
const HANDLER: &str = "alert";
/// The most executions of handlers that start in a minute.
const MOST_IN_A_MINUTE: usize = 600;
const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// The time limit for the last count after the last failure: two starts of a group are a minute apart.
const TOLD_WITHIN: Duration = Duration::from_secs(240);
/// The time between two looks.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The most memory that the storm may cost, in mebibytes.
const MOST_MEMORY: f64 = 128.0;

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let handler = "trigger: {event: cogwork.failure, with: {kinds: [execution]}}\nsteps: [{set: {x: 1}}]\n\
        outputs: \"${{ trigger.results.count }}\"\n";
    let automations = vec![(HANDLER, handler.to_owned())];
    let mut rig = Rig::new("storm", effort.seed, Parts { automations, ..Parts::default() }).await?;
    for number in 0..FAILING {
        let fails = "trigger: {manual: {}}\nsteps: [{id: charge, fail: no card}]\n";
        rig.project().automation(&name_of(number), fails)?;
    }
    rig.start().await?;
    let pid = rig.daemon()?.id()?;
    let before = resident(pid);
    let begun = Instant::now();
    let mut told = Told::default();
    for _ in 0..effort.rounds {
        let next = AtomicU32::new(0);
        let (url, token) = (format!("{}/api/v1", rig.daemon()?.admin_url()), rig.daemon()?.admin_token()?);
        let started = (0..STARTERS).map(|_| fail(rig.http(), &url, &token, &next));
        let refused: u32 = join_all(started).await.into_iter().sum();
        rig.blame((refused > 0).then(|| format!("{refused} starts were refused")));
        told.look(&rig).await?;
        rig.verdict().rounds += 1;
    }
    let failures = u64::from(FAILING * effort.rounds);
    let (failed_within, deadline) = (begun.elapsed(), Instant::now() + TOLD_WITHIN);
    while told.count < failures && Instant::now() < deadline {
        rig.rate(CHECK_INTERVAL).await;
        told.look(&rig).await?;
    }
    let in_a_minute = told.most_in_a_minute();
    let wrong = format!("the handler has counted {} of {failures} failures", told.count);
    rig.blame((told.count != failures).then_some(wrong));
    let wrong = format!("{in_a_minute} executions of the handler started in a minute");
    rig.blame((in_a_minute > MOST_IN_A_MINUTE).then_some(wrong));
    let memory = told.memory.max(resident(pid).unwrap_or_default());
    let wrong = format!("memory grew to {memory:.0} MiB");
    rig.blame(before.filter(|before| memory > before + MOST_MEMORY).map(|_| wrong));
    rig.verdict().acknowledged += failures;
    rig.verdict().notes.push(format!(
        "{failures} failures within {:.0} s, told by {} executions within {:.0} s, at most {in_a_minute} in a minute; memory {:.0} MiB \
         before, {memory:.0} MiB at the most",
        failed_within.as_secs_f64(),
        told.starts.len(),
        begun.elapsed().as_secs_f64(),
        before.unwrap_or_default(),
    ));
    // Executions that have failed are no violation here.
    let violations = rig.shared().oracle().violations().to_vec();
    let acknowledged = rig.verdict().acknowledged;
    let mut verdict = rig.give_up(violations).await?;
    verdict.acknowledged = acknowledged;
    Ok(verdict)
}

/// Returns the name of an automation that fails.
fn name_of(number: u32) -> String {
    format!("fails-{number:04}")
}

/// Starts the automations that are left. Returns the number of automations that could not be started.
async fn fail(http: &Client, url: &str, token: &str, next: &AtomicU32) -> u32 {
    let mut refused = 0;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= FAILING {
            return refused;
        }
        let url = format!("{url}/automations/{}/run", name_of(number));
        let answer = http.post(url).bearer_auth(token).json(&serde_json::json!({})).send().await;
        refused += u32::from(!answer.is_ok_and(|answer| answer.status().is_success()));
    }
}

/// The executions of the handler.
#[derive(Default)]
struct Told {
    known: HashSet<String>,
    /// When each was accepted.
    starts: Vec<Timestamp>,
    /// The number of failures that they stand for.
    count: u64,
    /// The most memory that was seen, in mebibytes.
    memory: f64,
}

impl Told {
    /// Reads the executions that are new.
    async fn look(&mut self, rig: &Rig) -> Result<(), Error> {
        self.memory = self.memory.max(resident(rig.daemon()?.id()?).unwrap_or_default());
        let mut cursor = String::new();
        loop {
            let path = format!("/executions?automation={HANDLER}&status=succeeded&limit=200{cursor}");
            let page = rig.ask(&path).await?;
            for row in page["executions"].as_array().into_iter().flatten() {
                let id = row["id"].as_str().unwrap_or_default();
                if !self.known.insert(id.to_owned()) {
                    continue;
                }
                let shown = rig.ask(&format!("/executions/{id}")).await?;
                self.count += count_of(&shown);
                self.starts.extend(row["startedAt"].as_str().and_then(|at| at.parse::<Timestamp>().ok()));
            }
            let Some(next) = page["next"].as_str() else { return Ok(()) };
            cursor = format!("&cursor={next}");
        }
    }

    /// Returns the most executions that were accepted in any minute.
    fn most_in_a_minute(&mut self) -> usize {
        self.starts.sort_unstable();
        let within = |from: &Timestamp| {
            self.starts.iter().filter(|at| **at >= *from && at.duration_since(*from) < MINUTE).count()
        };
        self.starts.iter().map(within).max().unwrap_or_default()
    }
}

fn count_of(shown: &Value) -> u64 {
    shown["outcome"]["result"].as_u64().unwrap_or_default()
}
