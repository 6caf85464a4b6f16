//! `cogwork state`

use clap::{Args, Subcommand as Choice};
use jiff::Timestamp;
use runtime::StateScope;
use serde_json::{Value, json};
use store::StateEntry;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{self, Table, cut};
use crate::settings::Config;
use crate::{daemon, data, history, time};

const EXAMPLES: &str = "\
Examples:
  cogwork state list order-desk
  cogwork state get shared lastImport
  cogwork state set order-desk nextNumber 4712
  cogwork state set shared maintenance true --ttl 2h
  cogwork state delete order-desk nextNumber

`list` and `get` read the store directly, with or without a daemon.";

/// The maximum length of a value in a table, in characters.
const VALUE: usize = 80;
/// The number of values per read.
const PAGE: u32 = 1000;

/// Inspect and change the values that `state.*` steps store
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct State {
    #[command(subcommand)]
    what: Command,
}

#[derive(Choice, Debug)]
enum Command {
    /// List the values of a scope
    #[command(
        after_help = "Examples:\n  cogwork state list order-desk\n  cogwork state list shared --json | jq '.values[].key'"
    )]
    List(List),
    /// Print one value as JSON
    #[command(after_help = "Examples:\n  cogwork state get order-desk nextNumber")]
    Get(Entry),
    /// Store a value
    #[command(
        after_help = "Examples:\n  cogwork state set order-desk nextNumber 4712\n  cogwork state set shared notice '\"closed until Monday\"' --ttl 3d\n  cogwork state set shared prices @prices.json"
    )]
    Set(Set),
    /// Delete a value
    #[command(after_help = "Examples:\n  cogwork state delete order-desk nextNumber")]
    Delete(Entry),
}

/// The scope of the values, and their format.
#[derive(Args, Debug)]
struct Common {
    /// Use the separate state of test executions
    #[arg(long)]
    test: bool,
    #[command(flatten)]
    shown: DaemonOptions,
}

#[derive(Args, Debug)]
struct List {
    /// `shared`, or the id of an automation
    scope: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
struct Entry {
    /// `shared`, or the id of an automation
    scope: String,
    /// The key
    key: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
struct Set {
    /// `shared`, or the id of an automation
    scope: String,
    /// The key
    key: String,
    /// The value, as JSON; `@file` reads a file, `-` reads stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    value: String,
    /// The time until it expires, such as `1d`; default: never
    #[arg(long)]
    ttl: Option<String>,
    #[command(flatten)]
    common: Common,
}

impl Subcommand for State {
    const NAME: &'static str = "state";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let common = match &self.what {
            Command::List(List { common, .. })
            | Command::Get(Entry { common, .. })
            | Command::Set(Set { common, .. })
            | Command::Delete(Entry { common, .. }) => common,
        };
        let config = common.shown.config(context)?;
        daemon::runtime()?.block_on(async {
            match &self.what {
                Command::List(what) => list(&config, what).await,
                Command::Get(what) => get(&config, what).await,
                Command::Set(what) => set(&config, what).await,
                Command::Delete(what) => delete(&config, what).await,
            }
        })
    }
}

async fn list(config: &Config, what: &List) -> anyhow::Result<Exit> {
    let scope = scope(&what.scope, what.common.test)?.name();
    let now = time::now();
    let mut found = Vec::new();
    let store = history::require(config)?;
    let mut after: Option<String> = None;
    loop {
        let page = store.list_state(&scope, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        found.extend(page.into_iter().filter(|row| is_alive(&row.entry, now)));
    }
    if what.common.shown.json {
        let values = found.into_iter().map(|row| to_json(&row.key, &row.entry)).collect::<Vec<_>>();
        output::json(&json!({ "values": values }))?;
    } else if found.is_empty() {
        output::say("no value");
    } else {
        let mut table = Table::new(&["KEY", "VALUE", "UNTIL"]);
        for row in &found {
            let until = row.entry.expires_at.map(time::local).unwrap_or_default();
            table.row([row.key.as_str(), &cut(&row.entry.value.to_json(), VALUE), &until]);
        }
        table.print()?;
    }
    Ok(Exit::Done)
}

async fn get(config: &Config, what: &Entry) -> anyhow::Result<Exit> {
    let scope = scope(&what.scope, what.common.test)?;
    let store = history::require(config)?;
    let entry = store.read_state(&scope.name(), &what.key).await?;
    let Some(entry) = entry.filter(|entry| is_alive(entry, time::now())) else {
        anyhow::bail!("the state of `{}` has no value `{}`", what.scope, what.key);
    };
    let shown = &what.common.shown;
    shown.print(&to_json(&what.key, &entry), || Ok(output::data(entry.value.to_json_pretty())?))?;
    Ok(Exit::Done)
}

async fn set(config: &Config, what: &Set) -> anyhow::Result<Exit> {
    scope(&what.scope, what.common.test)?;
    let mut body = json!({ "value": data::read(&what.value)? });
    if let Some(ttl) = &what.ttl {
        text::units::parse_duration(ttl).map_err(|error| CommandError::usage(format!("--ttl: {error}")))?;
        body["ttl"] = ttl.as_str().into();
    }
    let path = path(&what.scope, &what.key, what.common.test);
    let told: Value = daemon::put(config, &path, &body).await?;
    what.common.shown.say(&told, "kept")?;
    Ok(Exit::Done)
}

async fn delete(config: &Config, what: &Entry) -> anyhow::Result<Exit> {
    scope(&what.scope, what.common.test)?;
    let told: Value = daemon::delete(config, &path(&what.scope, &what.key, what.common.test)).await?;
    let deleted = told["deleted"].as_bool().unwrap_or_default();
    what.common.shown.say(&told, if deleted { "forgotten" } else { "there was none" })?;
    Ok(if deleted { Exit::Done } else { Exit::Failed })
}

fn scope(text: &str, test: bool) -> anyhow::Result<StateScope> {
    StateScope::parse(text, test).ok_or_else(|| {
        CommandError::usage(format!("`{text}` is no scope; it is `shared`, or the id of an automation"))
    })
}

fn path(scope: &str, key: &str, test: bool) -> String {
    let test = if test { "?test=true" } else { "" };
    format!("{}{test}", daemon::path(&["state", scope, key]))
}

/// True if a value has not expired. Expired values may still be in the store.
fn is_alive(entry: &StateEntry, now: Timestamp) -> bool {
    entry.expires_at.is_none_or(|at| at > now)
}

/// A value in the API's form.
fn to_json(key: &str, entry: &StateEntry) -> Value {
    let mut told = json!({ "key": key, "value": entry.value.to_serde() });
    if let Some(at) = entry.expires_at {
        told["expiresAt"] = json!(at);
    }
    told
}
