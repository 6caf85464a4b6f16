//! `cogwork executions list`

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use engine::Search;
use jiff::Timestamp;
use model::automation::TriggerId;
use model::{AutomationId, ExecutionId, Status};
use runtime::{Pauses, StepAttempt, SystemClock};
use serde_json::{Value, json};
use server::TotalView;
use store::{ExecutionFilter, ExecutionRow, Page, Store};

use crate::commands::common::DaemonOptions;
use crate::exit::{CommandError, Exit};
use crate::output::{self, Table, cut};
use crate::settings::Config;
use crate::{candidates, daemon, history, time, waiting};

const EXAMPLES: &str = "\
Examples:
  cogwork executions list
  cogwork executions list --automation order-desk --status failed,stuck --since 7d
  cogwork executions list --automation sync-orders --trigger changed
  cogwork executions list --waiting-for approval
  cogwork executions list --text ord-4711 --since 7d
  cogwork executions list --failed-step createPage --min-took 5s
  cogwork executions list --status failed --since 1d --count --attempts
  cogwork executions list --since 2026-11-21 --limit 50000 --json
  cogwork executions list --before 019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b";

/// The maximum number of executions in a list, which is in memory, and of executions per read.
const MAX_ROWS: u32 = 100_000;
const PAGE: u32 = 1000;
/// The maximum number of executions in a response of the daemon.
const TOLD: u32 = 200;
/// The time limit of a search.
const SEARCH_TIME: Duration = Duration::from_secs(30);
/// The maximum length of an error or a wait reason, in characters.
const NOTE: usize = 80;

/// List executions, newest first
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct List {
    /// Only executions of this automation
    #[arg(long, value_name = "ID", add = ArgValueCandidates::new(candidates::automations))]
    automation: Option<String>,
    /// Only executions that this trigger of the automation started
    #[arg(long, value_name = "TRIGGER", requires = "automation", value_parser = trigger_id)]
    trigger: Option<TriggerId>,
    /// Only executions in one of these states: queued, running, waiting, succeeded, failed, cancelled, stuck
    #[arg(long, value_delimiter = ',')]
    status: Vec<Status>,
    /// Only executions since a time: a duration such as `2h` or `7d`, a day, or an instant
    #[arg(long, value_name = "MOMENT")]
    since: Option<String>,
    /// Only executions that such a start began: webhook, test, schedule, poll, event, emitted, manual, call, replay, imported
    #[arg(long, value_name = "KIND", value_parser = ["webhook", "test", "schedule", "poll", "event", "emitted", "manual", "call", "replay", "imported"])]
    origin: Option<String>,
    /// Only executions on the definition whose hash begins so
    #[arg(long, value_name = "HASH")]
    definition: Option<String>,
    /// Only executions that this step made fail
    #[arg(long, value_name = "STEP")]
    failed_step: Option<String>,
    /// Only executions with a step that waits so: time, event, approval, call, operation, retry
    #[arg(long, value_name = "KIND", value_parser = ["time", "event", "approval", "call", "operation", "retry"])]
    waiting_for: Option<String>,
    /// Only executions that took, or take, at least this long, such as `5s`
    #[arg(long, value_name = "DURATION", value_parser = text::units::parse_duration)]
    min_took: Option<Duration>,
    /// Only executions with this text in their id, automation, error, payload, results or log lines
    #[arg(long)]
    text: Option<String>,
    /// Only executions that events of this execution started
    #[arg(long, value_name = "ID", value_parser = str::parse::<ExecutionId>)]
    started_by: Option<ExecutionId>,
    /// Only executions that the own event with this id started
    #[arg(long, value_name = "ID")]
    event_id: Option<String>,
    /// The largest number of executions
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_ROWS)))]
    limit: u32,
    /// Only executions that were accepted before this one, such as the last of an earlier list
    #[arg(long, value_name = "ID", value_parser = str::parse::<ExecutionId>)]
    before: Option<ExecutionId>,
    /// Count all executions that match too, up to 10,000
    #[arg(long, conflicts_with_all = ["trigger", "origin", "definition", "failed_step", "waiting_for", "min_took", "text", "event_id"])]
    count: bool,
    /// Show the attempt of the step that an execution failed at or retries, of how many
    #[arg(long)]
    attempts: bool,
    #[command(flatten)]
    pub(super) shown: DaemonOptions,
}

impl List {
    pub(super) async fn run(&self, config: &Config) -> anyhow::Result<Exit> {
        let mut filter = self.filter()?;
        let mut total = None;
        let store = history::require(config)?;
        if self.count {
            total = Some(TotalView::read(&*store, &filter).await?);
        }
        let mut search = self.search().with_shown_statuses(&mut filter);
        let automation = filter.automation.clone();
        let rows = if search.shown.is_empty() {
            let rows = self.read(&*store, filter, search).await?;
            with_queued(config, automation.as_ref(), rows).await
        } else {
            search.queued = queued(config, automation.as_ref(), filter.since).await?;
            self.read(&*store, filter, search).await?
        };
        let rows = listed(&*store, rows, self.attempts).await?;
        if self.shown.json {
            let rows: Vec<_> = rows
                .into_iter()
                .map(|one| server::describe_row(one.row, one.pauses, one.step_attempt))
                .collect();
            let mut found = json!({"executions": rows});
            if let Some(total) = total {
                found["total"] = json!(total);
            }
            output::json(&found)?;
        } else if rows.is_empty() {
            output::say("no execution");
        } else {
            print(&rows, self.attempts)?;
            if let Some(TotalView { count, is_at_least }) = total {
                let more = if is_at_least { "+" } else { "" };
                output::say(match rows.len() < count as usize {
                    true => format!("the newest {} of {count}{more}; --limit shows more", rows.len()),
                    false => format!("{count} in all"),
                });
            } else if rows.len() == self.limit as usize {
                let which = if self.before.is_some() { "the next" } else { "the newest" };
                output::say(format_args!(
                    "{which} {}; --limit shows more, and --before the ID continues after it",
                    self.limit
                ));
            }
        }
        Ok(Exit::Done)
    }

    /// Reads the rows, page by page.
    async fn read(
        &self,
        store: &dyn Store,
        filter: ExecutionFilter,
        search: Search,
    ) -> anyhow::Result<Vec<ExecutionRow>> {
        if !search.is_empty() {
            let page = Page { before: self.before, limit: self.limit };
            let found = search.run(store, &SystemClock, filter, page, SEARCH_TIME, None).await?;
            if let Some((_, at)) = found.next.filter(|_| found.is_timed_out) {
                output::say(format_args!("searched back to {}; --since narrows the search", time::local(at)));
            }
            return Ok(found.rows);
        }
        let (mut rows, mut before): (Vec<ExecutionRow>, _) = (Vec::new(), self.before);
        loop {
            let left = self.limit.saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX));
            let limit = left.min(PAGE);
            let page = store.executions(&filter, Page { before, limit }).await?;
            let is_last = page.len() < limit as usize || limit == left;
            before = page.last().map(|row| row.id).or(before);
            rows.extend(page);
            if is_last {
                return Ok(rows);
            }
        }
    }

    fn filter(&self) -> anyhow::Result<ExecutionFilter> {
        let automation = self.automation.as_deref().map(|name| {
            AutomationId::parse(name)
                .ok_or_else(|| CommandError::usage(format!("`{name}` cannot be the id of an automation")))
        });
        let since =
            self.since.as_deref().map(|text| time::moment(text, time::now()).map_err(CommandError::usage));
        Ok(ExecutionFilter {
            automation: automation.transpose()?,
            status: self.status.clone(),
            since: since.transpose()?,
            sender: self.started_by,
            ..ExecutionFilter::default()
        })
    }
}

impl List {
    /// The conditions that require reading each execution.
    fn search(&self) -> Search {
        Search {
            trigger: self.trigger.clone(),
            origin: self.origin.clone(),
            definition: self.definition.clone(),
            failed_step: self.failed_step.clone(),
            waiting_for: self.waiting_for.clone(),
            min_took: self.min_took,
            text: self.text.clone(),
            event_id: self.event_id.clone(),
            ..Search::default()
        }
    }
}

fn trigger_id(text: &str) -> Result<TriggerId, String> {
    TriggerId::parse(text).ok_or_else(|| format!("`{text}` cannot be the id of a trigger"))
}

/// An execution of the list, with its wait reasons and the attempt of the step that it failed at or retries.
struct Listed {
    row: ExecutionRow,
    pauses: Option<Pauses>,
    step_attempt: Option<StepAttempt>,
}

/// The executions of an automation, or of all, that wait for a slot, memory or a permit, accepted at `since` or later. Only a
/// daemon knows them.
async fn queued(
    config: &Config,
    automation: Option<&AutomationId>,
    since: Option<Timestamp>,
) -> anyhow::Result<HashSet<ExecutionId>> {
    let mut path = format!("/api/v1/executions?status=queued&limit={TOLD}");
    let parts =
        [("automation", automation.map(ToString::to_string)), ("since", since.map(|at| at.to_string()))];
    for (name, part) in parts {
        if let Some(part) = part {
            path.push_str(&format!("&{name}={}", daemon::query(&part)));
        }
    }
    let (mut found, mut cursor) = (HashSet::new(), String::new());
    for _ in 0..MAX_ROWS / TOLD {
        let Some(told) = daemon::get_quickly::<Value>(config, &format!("{path}{cursor}")).await? else {
            break;
        };
        let rows = told["executions"].as_array().into_iter().flatten();
        found.extend(rows.filter_map(|one| one["id"].as_str()?.parse::<ExecutionId>().ok()));
        let Some(next) = told["next"].as_str() else { break };
        cursor = format!("&cursor={}", daemon::query(next));
    }
    Ok(found)
}

/// Sets the status of running executions that wait for a permit. If the daemon does not respond in time, they keep their
/// stored status.
async fn with_queued(
    config: &Config,
    automation: Option<&AutomationId>,
    mut rows: Vec<ExecutionRow>,
) -> Vec<ExecutionRow> {
    let running = rows.iter().filter(|row| row.status == Status::Running);
    let Some(oldest) = running.map(|row| row.started_at).min() else { return rows };
    let Ok(queued) = queued(config, automation, Some(oldest)).await else { return rows };
    let told = Search { queued, ..Search::default() };
    rows.iter_mut().for_each(|row| row.status = told.shown_status(row));
    rows
}

/// Reads the wait reasons of each execution, and with `attempts` the attempt of its step.
async fn listed(store: &dyn Store, rows: Vec<ExecutionRow>, attempts: bool) -> anyhow::Result<Vec<Listed>> {
    let mut definitions = HashMap::new();
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let waits = row.status == Status::Waiting;
        let mut one = Listed { row, pauses: None, step_attempt: None };
        if waits || (attempts && StepAttempt::is_possible(&one.row, None)) {
            if let Entry::Vacant(place) = definitions.entry(one.row.definition) {
                place.insert(history::definition(store, one.row.definition).await?);
            }
            let automation = definitions.get(&one.row.definition).and_then(Option::as_ref);
            if waits {
                one.pauses = Some(Pauses::new(automation, store.waits(one.row.id).await?));
            }
            if let Some(automation) = automation.filter(|_| attempts) {
                one.step_attempt =
                    StepAttempt::read(store, &one.row, automation, one.pauses.as_ref()).await?;
            }
        }
        found.push(one);
    }
    Ok(found)
}

fn print(rows: &[Listed], attempts: bool) -> anyhow::Result<()> {
    let mut heads = vec!["ID", "STARTED", "TOOK", "STATUS", "AUTOMATION", "BY"];
    heads.extend(attempts.then_some("ATTEMPT"));
    heads.push("NOTE");
    let mut table = Table::new(&heads);
    for Listed { row, pauses, step_attempt } in rows {
        let took =
            row.finished_at.map_or_else(String::new, |end| time::took(time::between(row.started_at, end)));
        let waits = pauses.as_ref().map(waiting::short).unwrap_or_default();
        let note = row.error.as_deref().unwrap_or(&waits);
        let mut cells = vec![
            row.id.to_string(),
            time::local(row.started_at),
            took,
            row.status.as_str().to_owned(),
            row.automation.to_string(),
            row.origin.as_str().to_owned(),
        ];
        if attempts {
            let words = step_attempt.as_ref().map(|one| {
                let of = one.of.map(|of| format!("/{of}")).unwrap_or_default();
                format!("{} {}{of}", one.step, one.attempt)
            });
            cells.push(words.unwrap_or_default());
        }
        cells.push(cut(note, NOTE).to_string());
        table.row(cells);
    }
    Ok(table.print()?)
}
