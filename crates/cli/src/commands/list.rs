//! `cogwork list`

use std::collections::BTreeMap;

use catalog::Mount;
use clap::Args;
use jiff::Timestamp;
use model::AutomationId;
use model::automation::TriggerKey;
use serde::{Deserialize, Serialize};
use store::{Address, ExecutionFilter, Page, Store};
use text::diagnostic::{Report, Severity};

use super::Subcommand;
use crate::context::{Context, LogProfile};
use crate::exit::Exit;
use crate::output::{self, Table, plain};
use crate::settings::{Config, Flags, PLACE};
use crate::{daemon, history, project, time};

const EXAMPLES: &str = "\
Examples:
  cogwork list
  cogwork list --addresses       where to send requests
  cogwork list --json | jq -r '.automations[] | select(.trigger == \"webhook\") | .liveUrl'

It queries the daemon of the project's data; without a daemon it reads the files.";

/// The number of next fires of a schedule in JSON.
const NEXT_FIRES: usize = 5;

/// List the automations with their state, trigger, next run and last result
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// Show the addresses of webhooks whole, with the secret in them
    #[arg(long)]
    addresses: bool,
    /// Print JSON, with whole addresses
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Flags<PLACE>,
}

/// The deployments, as `GET /api/v1/automations` returns them.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listing {
    /// True if a daemon runs.
    #[serde(default)]
    daemon: bool,
    automations: Vec<Row>,
    broken: Vec<BrokenRow>,
}

/// An automation.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    name: String,
    state: String,
    trigger: String,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    live_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    test_url: Option<String>,
    next_fires: Vec<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    /// All triggers, in the order of the file.
    triggers: Vec<TriggerRow>,
    /// Starts that were rejected or ignored since the daemon started, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    refused: BTreeMap<String, u64>,
    errors: usize,
    warnings: usize,
    /// The first error of its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_execution: Option<serde_json::Value>,
}

/// A trigger.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct TriggerRow {
    id: String,
    /// The name in commands: the id of the automation, or `ID/TRIGGER`.
    name: String,
    kind: String,
    enabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    live_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    test_url: Option<String>,
    next_fires: Vec<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
}

/// A file that does not load and has no active previous version.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct BrokenRow {
    path: String,
    /// The first error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Subcommand for List {
    const NAME: &'static str = "list";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = context.config(self.settings.given(), LogProfile::Tool)?;
        daemon::runtime()?.block_on(list(&config, &self))
    }
}

async fn list(config: &Config, what: &List) -> anyhow::Result<Exit> {
    let files = Files::load(config)?;
    let store = history::open(config)?;
    let mut listing = match daemon::get::<Listing>(config, "/api/v1/automations").await? {
        Some(listing) => Listing { daemon: true, ..listing },
        None => files.listing(config, store.as_deref()).await?,
    };
    files.explain(&mut listing);
    if let Some(store) = &store {
        for row in &mut listing.automations {
            row.last_execution = last_execution(&**store, &row.id).await?;
        }
    }
    match what.json {
        true => output::json(&listing)?,
        false => print(&listing, what.addresses)?,
    }
    if store.is_none() {
        output::say(history::no_store(config));
    }
    Ok(Exit::Done)
}

async fn last_execution(store: &dyn Store, id: &str) -> anyhow::Result<Option<serde_json::Value>> {
    let filter = ExecutionFilter { automation: AutomationId::parse(id), ..ExecutionFilter::default() };
    let newest = store.executions(&filter, Page { before: None, limit: 1 }).await?;
    Ok(newest.into_iter().next().map(|row| server::describe_row(row, None, None)))
}

fn print(listing: &Listing, addresses: bool) -> anyhow::Result<()> {
    let now = time::now();
    let mut table = Table::new(&["ID", "STATE", "STARTED BY", "LAST"]);
    for row in &listing.automations {
        // With several triggers each has a line of its own.
        if let [only] = row.triggers.as_slice() {
            table.row([&row.id, &row.state, &started_by(only, addresses), &last(row, now)]);
            continue;
        }
        table.row([&row.id, &row.state, "", &last(row, now)]);
        for trigger in &row.triggers {
            let state = if trigger.enabled { "" } else { "disabled" };
            table.row([&format!("  {}", trigger.id), state, &started_by(trigger, addresses), ""]);
        }
    }
    for broken in &listing.broken {
        table.row([broken.path.as_str(), "broken", "", ""]);
    }
    if listing.automations.is_empty() && listing.broken.is_empty() {
        output::say("no automation yet; `cogwork new` makes one");
    } else {
        table.print()?;
    }
    for row in listing.automations.iter().filter(|row| !row.refused.is_empty()) {
        output::say(format_args!("{} started nothing for {}", row.id, refused(row)));
    }
    let of_rows = listing.automations.iter().filter_map(|row| row.problem.as_ref());
    for problem in of_rows.chain(listing.broken.iter().filter_map(|broken| broken.problem.as_ref())) {
        output::error(plain(problem));
    }
    if !listing.daemon {
        output::say("no daemon runs here; `cogwork serve` starts one");
    }
    Ok(())
}

/// The number of shown characters of the secret in an address, to distinguish addresses.
const TOKEN: usize = 4;

fn started_by(row: &TriggerRow, addresses: bool) -> String {
    match (&row.live_url, row.next_fires.first()) {
        (Some(url), _) if addresses => url.clone(),
        (Some(url), _) => {
            let token: String = url.rsplit('/').next().unwrap_or_default().chars().take(TOKEN).collect();
            format!("{} …/{token}…", row.kind)
        }
        (None, Some(at)) => format!("next {}", time::in_zone(*at, row.timezone.as_deref().unwrap_or("UTC"))),
        (None, None) => row.kind.clone(),
    }
}

/// The rejected and ignored requests as text: `3 duplicate, 1 invalid_signature`.
fn refused(row: &Row) -> String {
    let reasons = row.refused.iter().map(|(reason, count)| format!("{count} {}", plain(reason)));
    reasons.collect::<Vec<_>>().join(", ")
}

fn last(row: &Row, now: Timestamp) -> String {
    let Some(last) = &row.last_execution else { return "never".to_owned() };
    let status = last["status"].as_str().unwrap_or_default();
    let at = last["startedAt"].as_str().and_then(|at| at.parse().ok());
    at.map_or_else(|| status.to_owned(), |at| format!("{status} {}", time::ago(at, now)))
}

/// The project's files as they are now.
struct Files {
    checked: Option<authoring::ProjectCheck>,
}

impl Files {
    fn load(config: &Config) -> anyhow::Result<Self> {
        // With only a data folder, as for a remote daemon, the daemon can still be queried.
        match project::check(&config.dir, &[]) {
            Ok(checked) => Ok(Self { checked: Some(checked) }),
            Err(_) if config.data_dir.join("daemon.json").is_file() => Ok(Self { checked: None }),
            Err(error) => Err(error),
        }
    }

    /// The deployments that a daemon would make if it ran.
    async fn listing(&self, config: &Config, store: Option<&dyn Store>) -> anyhow::Result<Listing> {
        let Some(checked) = &self.checked else { return Ok(Listing::default()) };
        let (base, now) = (config.base(config.hooks), time::now());
        let addresses = match store {
            Some(store) => store.addresses().await?,
            None => Vec::new(),
        };
        let addresses: BTreeMap<_, _> =
            addresses.into_iter().map(|address| (address.trigger.clone(), address)).collect();
        let automations = checked.catalog.automations().map(|deployed| {
            let automation = &deployed.automation;
            let triggers: Vec<TriggerRow> =
                deployed.mounts().map(|mount| trigger_row(&mount, &addresses, &base, now)).collect();
            let mut next_fires: Vec<_> =
                triggers.iter().flat_map(|trigger| &trigger.next_fires).copied().collect();
            next_fires.sort_unstable();
            next_fires.truncate(NEXT_FIRES);
            let webhook = triggers.iter().find(|trigger| trigger.live_url.is_some());
            Row {
                id: automation.id.to_string(),
                name: automation.name.clone(),
                state: deployed.state().as_str().to_owned(),
                trigger: triggers.first().map(|trigger| trigger.kind.clone()).unwrap_or_default(),
                path: automation.source.path().to_owned(),
                live_url: webhook.and_then(|webhook| webhook.live_url.clone()),
                test_url: webhook.and_then(|webhook| webhook.test_url.clone()),
                next_fires,
                timezone: None,
                triggers,
                refused: BTreeMap::new(),
                errors: 0,
                warnings: deployed.warnings.warning_count(),
                problem: None,
                last_execution: None,
            }
        });
        let broken = checked.catalog.invalid_files().into_iter();
        Ok(Listing {
            daemon: false,
            automations: automations.collect(),
            broken: broken.map(|broken| BrokenRow { path: broken.path.clone(), problem: None }).collect(),
        })
    }

    /// Adds data that only the files have: time zones, and the first error.
    fn explain(&self, listing: &mut Listing) {
        let Some(checked) = &self.checked else { return };
        let problem = |path: &str| {
            let report = checked.reports.iter().find(|report| report.source().path() == path);
            report.and_then(first_error)
        };
        for row in &mut listing.automations {
            let deployed = AutomationId::parse(&row.id).and_then(|id| checked.catalog.get(&id).cloned());
            for (trigger, mount) in
                row.triggers.iter_mut().zip(deployed.iter().flat_map(|deployed| deployed.mounts()))
            {
                trigger.timezone = mount.schedule().map(|schedule| schedule.timezone().to_owned());
            }
            let mut timezones = row.triggers.iter().filter_map(|trigger| trigger.timezone.clone());
            row.timezone = row.timezone.take().or_else(|| timezones.next());
            row.problem = problem(&row.path);
        }
        for broken in &mut listing.broken {
            broken.problem = problem(&broken.path);
        }
    }
}

fn trigger_row(
    mount: &Mount,
    addresses: &BTreeMap<TriggerKey, Address>,
    base: &str,
    now: Timestamp,
) -> TriggerRow {
    let key = mount.key();
    let is_webhook = matches!(mount.on(), model::Trigger::Webhook(_));
    let address = addresses.get(&key).filter(|_| is_webhook);
    let url = |token: &str| format!("{base}/trigger/{token}");
    TriggerRow {
        id: key.trigger.to_string(),
        name: key.name(),
        kind: mount.on().keyword().to_owned(),
        enabled: mount.is_enabled(),
        live_url: address.map(|address| url(&address.live)),
        test_url: address.map(|address| url(&address.test)),
        next_fires: mount.next_fires(now, NEXT_FIRES),
        timezone: None,
    }
}

/// The first error of a file, with its position.
fn first_error(report: &Report) -> Option<String> {
    let entry = report.entries().into_iter().find(|entry| entry.severity == Severity::Error)?;
    Some(format!("{}:{}:{}: {}", entry.file, entry.line, entry.column, entry.message))
}
