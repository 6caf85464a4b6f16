//! `cogwork connections`

pub(super) mod describe;

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand as Choice};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, STRONG, Table, cut, paint, plain};
use crate::settings::Config;
use crate::{daemon, secrets, time};

const EXAMPLES: &str = "\
Examples:
  cogwork connections list
  cogwork connections test mainWiki
  cogwork connections login mainWiki
  cogwork connections describe books
  cogwork connections prepare books

`test` and `login` need the daemon. `login` opens the address where a person consents, and
waits for the answer, which arrives at `/oauth/callback` of the daemon's public address.";

/// The interval of the spinner.
const TURN: Duration = Duration::from_millis(100);
/// The maximum length of an error in a table, in characters.
const ERROR: usize = 60;

/// List, test, authorise and describe connections
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Connections {
    #[command(subcommand)]
    what: ConnectionCommand,
}

#[derive(Choice, Debug)]
enum ConnectionCommand {
    /// List the connections with their type, users and state
    #[command(
        after_help = "Examples:\n  cogwork connections list\n  cogwork connections list --json | jq -r '.connections[] | select(.state == \"failing\") | .name'"
    )]
    List(DaemonOptions),
    /// Test a connection with a call that changes nothing
    #[command(after_help = "Examples:\n  cogwork connections test mainWiki")]
    Test(Test),
    /// Authorise a connection with OAuth 2.0: open the provider's page and wait for the consent
    #[command(
        after_help = "Examples:\n  cogwork connections login mainWiki\n  cogwork connections login mainWiki --no-open"
    )]
    Login(Login),
    /// Ask a database for the columns of each statement, and write them to `connections/NAME.types.yaml`, by which rows are checked
    #[command(
        after_help = "Examples:\n  cogwork connections describe books\n  cogwork connections describe books --check    in a build: fails if the database has changed"
    )]
    Describe(describe::Describe),
    /// Print the statement that creates the table of `once`, for a database in which steps may not create tables
    #[command(after_help = "Examples:\n  cogwork connections prepare books | psql books")]
    Prepare(describe::Prepare),
}

#[derive(Args, Debug)]
struct Test {
    /// The name of the connection
    name: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

#[derive(Args, Debug)]
struct Login {
    /// The name of the connection
    name: String,
    /// Print the address instead of opening a browser
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    shown: DaemonOptions,
}

/// A connection as the API lists it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    used_by: Vec<String>,
    state: Option<String>,
    file_error: Option<String>,
    #[serde(default)]
    missing_secrets: Vec<String>,
    last_error: Option<String>,
    last_success_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    #[serde(default)]
    hosts: Vec<Host>,
}

/// A host that was called with a connection.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Host {
    open_until: Option<Timestamp>,
    held_until: Option<Timestamp>,
    #[serde(default)]
    rate_limit: RateLimit,
}

/// Describes its rate limits.
#[derive(Debug, Default, Deserialize)]
struct RateLimit {
    limit: Option<String>,
    remaining: Option<String>,
}

impl Row {
    /// The problem that prevents its use, or the last problem.
    fn problem(&self) -> String {
        let missing = self.missing_secrets.first();
        let missing =
            missing.map(|name| format!("the secret `{name}` is not set: cogwork secrets set {name}"));
        self.file_error.clone().or(missing).or_else(|| self.last_error.clone()).unwrap_or_default()
    }

    /// The hosts that delay calls, or may soon: unreachable hosts, hosts that sent Retry-After, hosts with a rate
    /// limit.
    fn limits(&self) -> String {
        let now = time::now();
        let ahead = |until: &Timestamp| *until > now;
        let latest = |instants: &mut dyn Iterator<Item = Timestamp>| instants.filter(ahead).max();
        if let Some(until) = latest(&mut self.hosts.iter().filter_map(|host| host.open_until)) {
            return format!("does not answer, tried at {}", time::local(until));
        }
        if let Some(until) = latest(&mut self.hosts.iter().filter_map(|host| host.held_until)) {
            return format!("asked to wait until {}", time::local(until));
        }
        let left = self.hosts.iter().find_map(|host| {
            let remaining = host.rate_limit.remaining.as_deref()?;
            Some(match &host.rate_limit.limit {
                Some(limit) => format!("{remaining} of {limit} left"),
                None => format!("{remaining} left"),
            })
        });
        left.unwrap_or_default()
    }
}

impl Subcommand for Connections {
    const NAME: &'static str = "connections";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let shown = match &self.what {
            ConnectionCommand::List(shown)
            | ConnectionCommand::Test(Test { shown, .. })
            | ConnectionCommand::Login(Login { shown, .. }) => shown,
            ConnectionCommand::Describe(what) => return what.run(context),
            ConnectionCommand::Prepare(what) => return what.run(context),
        };
        let config = shown.config(context)?;
        daemon::runtime()?.block_on(async {
            match &self.what {
                ConnectionCommand::List(shown) => list(&config, shown).await,
                ConnectionCommand::Test(what) => test(&config, what).await,
                ConnectionCommand::Login(what) => login(&config, what).await,
                ConnectionCommand::Describe(_) | ConnectionCommand::Prepare(_) => Ok(Exit::Done),
            }
        })
    }
}

async fn list(config: &Config, shown: &DaemonOptions) -> anyhow::Result<Exit> {
    let told: Value = match daemon::get(config, "/api/v1/connections").await? {
        Some(told) => told,
        None => without_daemon(config).await?,
    };
    shown.print(&told, || table(&told))?;
    Ok(Exit::Done)
}

fn table(told: &Value) -> anyhow::Result<()> {
    let rows: Vec<Row> = serde_json::from_value(told["connections"].clone())?;
    if rows.is_empty() {
        output::say("no connection; `cogwork connectors list` shows what there is to connect to");
        return Ok(());
    }
    let mut table =
        Table::new(&["NAME", "TYPE", "STATE", "USED BY", "LAST WELL", "TOKEN ENDS", "LIMITS", "LAST ERROR"]);
    for row in &rows {
        table.row([
            row.name.as_str(),
            &row.kind,
            row.state.as_deref().unwrap_or("no daemon runs"),
            &row.used_by.join(", "),
            &row.last_success_at.map(time::local).unwrap_or_default(),
            &row.expires_at.map(time::local).unwrap_or_default(),
            &row.limits(),
            &cut(&row.problem(), ERROR),
        ]);
    }
    Ok(table.print()?)
}

/// The connections of the files, without the state that only a daemon knows.
async fn without_daemon(config: &Config) -> anyhow::Result<Value> {
    let catalog = crate::project::check(&config.dir, &[])?.catalog;
    let known = secrets::Known::read_own(config).await;
    if let Some(error) = known.error() {
        anyhow::bail!("the secrets of the store cannot be read: {error}");
    }
    let rows: Vec<Value> = catalog
        .connections()
        .map(|connection| {
            let mut row = json!({
                "name": connection.name,
                "type": connection.kind,
                "path": connection.source.path(),
                "usedBy": catalog.users_of(&connection.name),
            });
            let missing = catalog.missing_secrets_of(connection, &|name| known.has(name));
            if !missing.is_empty() {
                row["missingSecrets"] = missing.into();
            }
            if let Some(description) = &connection.description {
                row["description"] = description.as_str().into();
            }
            row
        })
        .collect();
    Ok(json!({ "connections": rows }))
}

async fn test(config: &Config, what: &Test) -> anyhow::Result<Exit> {
    let told: Value =
        daemon::post(config, &daemon::path(&["connections", &what.name, "test"]), &json!({})).await?;
    let works = told["works"] == true;
    if what.shown.json {
        output::json(&told)?;
    } else if works {
        let (action, took) = (told["action"].as_str().unwrap_or_default(), &told["tookMs"]);
        output::say(format_args!("`{}` works: {action} answered within {took} ms", what.name));
    } else {
        let message = told["error"]["message"].as_str().unwrap_or("it does not work");
        output::error(plain(message));
    }
    Ok(if works { Exit::Done } else { Exit::Failed })
}

async fn login(config: &Config, what: &Login) -> anyhow::Result<Exit> {
    let begun: Value = daemon::post(config, &login_path(&what.name), &json!({})).await?;
    let url = begun["url"].as_str().context("the daemon gave no address")?;
    if what.shown.json {
        output::json(&begun)?;
    } else {
        output::say(format_args!("open this address and consent:\n\n  {}\n", paint(STRONG, plain(url))));
        let redirect = begun["redirectUrl"].as_str().unwrap_or_default();
        output::say(format_args!("the provider sends you back to {redirect}, which its set-up has to name"));
    }
    if !what.no_open && output::stderr_is_terminal() {
        open(url);
    }
    let spinner = spinner();
    let state = wait(config, &what.name).await;
    spinner.finish_and_clear();
    let state = state?;
    match state["state"].as_str() {
        Some("connected") => {
            output::say(format_args!("`{}` is connected", what.name));
            Ok(Exit::Done)
        }
        Some("failed") => {
            output::error(plain(state["reason"].as_str().unwrap_or("it came to nothing")));
            Ok(Exit::Failed)
        }
        _ => {
            output::error("no consent was given in time; start again");
            Ok(Exit::Failed)
        }
    }
}

/// Waits for the end of a consent, as long as the daemon does.
async fn wait(config: &Config, name: &str) -> anyhow::Result<Value> {
    // Twenty-one times half a minute is a little longer than a consent may take.
    for _ in 0..21 {
        let state: Option<Value> = daemon::get(config, &format!("{}?wait=30", login_path(name))).await?;
        let state = state.context("the daemon has stopped; begin again when it runs")?;
        if state["state"] != "waiting" {
            return Ok(state);
        }
    }
    Ok(json!({ "state": "waiting" }))
}

fn spinner() -> ProgressBar {
    let target = if output::stderr_is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let spinner = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("{spinner} waiting for consent ({elapsed})") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(TURN);
    spinner
}

/// Opens a URL in the desktop browser, if there is one. On failure, the URL is on the screen anyway.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let opened = Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    drop(opened);
}

fn login_path(name: &str) -> String {
    daemon::path(&["connections", name, "login"])
}
