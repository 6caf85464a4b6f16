//! `cogwork state`

use clap::{Args, Subcommand as Choice};
use engine::StateScope;
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use store::{StateEntry, Store as _};

use super::Subcommand;
use crate::context::{Context, Talk};
use crate::exit::{Exit, Fault};
use crate::output::{self, Table, cut};
use crate::settings::{Config, Flags, PLACE};
use crate::{daemon, data, history, time};

const EXAMPLES: &str = "\
Examples:
  cogwork state list order-desk
  cogwork state get shared lastImport
  cogwork state set order-desk nextNumber 4712
  cogwork state set shared maintenance true --ttl 2h
  cogwork state delete order-desk nextNumber

`list` and `get` read the store itself, with a daemon beside them or without one.";

/// The most characters of a value in a table.
const VALUE: usize = 80;
/// Values that are read at one time.
const PAGE: u32 = 1000;

/// Look at the values that `state.*` steps keep, and set them right
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct State {
    #[command(subcommand)]
    what: What,
}

#[derive(Choice, Debug)]
enum What {
    List(List),
    Get(Get),
    Set(Set),
    Delete(Delete),
}

/// Whose values, and how they are shown.
#[derive(Args, Debug)]
struct Common {
    /// Those of test executions, which are kept apart
    #[arg(long)]
    test: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Flags<PLACE>,
}

/// List the values of a scope
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  cogwork state list order-desk\n  cogwork state list shared --json | jq '.values[].key'"
)]
struct List {
    /// `shared`, or the id of an automation
    scope: String,
    #[command(flatten)]
    common: Common,
}

/// Print one value as JSON
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  cogwork state get order-desk nextNumber")]
struct Get {
    /// `shared`, or the id of an automation
    scope: String,
    /// The key
    key: String,
    #[command(flatten)]
    common: Common,
}

/// Keep a value
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  cogwork state set order-desk nextNumber 4712\n  cogwork state set shared notice '\"closed until Monday\"' --ttl 3d\n  cogwork state set shared prices @prices.json"
)]
struct Set {
    /// `shared`, or the id of an automation
    scope: String,
    /// The key
    key: String,
    /// The value, as JSON; `@file` reads a file, `-` reads stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    value: String,
    /// How long it is kept, such as `1d`; for ever if not given
    #[arg(long)]
    ttl: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Forget a value
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  cogwork state delete order-desk nextNumber")]
struct Delete {
    /// `shared`, or the id of an automation
    scope: String,
    /// The key
    key: String,
    #[command(flatten)]
    common: Common,
}

impl Subcommand for State {
    const NAME: &'static str = "state";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let common = match &self.what {
            What::List(list) => &list.common,
            What::Get(get) => &get.common,
            What::Set(set) => &set.common,
            What::Delete(delete) => &delete.common,
        };
        let config = context.config(common.settings.given(), Talk::Tool)?;
        let runtime = daemon::runtime()?;
        match &self.what {
            What::List(what) => runtime.block_on(list(&config, what)),
            What::Get(what) => runtime.block_on(get(&config, what)),
            What::Set(what) => runtime.block_on(set(&config, what)),
            What::Delete(what) => runtime.block_on(delete(&config, what)),
        }
    }
}

async fn list(config: &Config, what: &List) -> anyhow::Result<Exit> {
    let scope = scope(&what.scope, what.common.test)?.name();
    let now = time::now();
    let mut found = Vec::new();
    if let Some(store) = history::open(config)? {
        let mut after: Option<String> = None;
        loop {
            let page = store.list_state(&scope, after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            found.extend(page.into_iter().filter(|row| is_alive(&row.entry, now)));
        }
    }
    if what.common.json {
        let values = found.into_iter().map(|row| told(&row.key, &row.entry)).collect::<Vec<_>>();
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

async fn get(config: &Config, what: &Get) -> anyhow::Result<Exit> {
    let scope = scope(&what.scope, what.common.test)?;
    let store = history::require(config)?;
    let entry = store.read_state(&scope.name(), &what.key).await?;
    let Some(entry) = entry.filter(|entry| is_alive(entry, time::now())) else {
        anyhow::bail!("the state of `{}` has no value `{}`", what.scope, what.key);
    };
    match what.common.json {
        true => output::json(&told(&what.key, &entry))?,
        false => output::data(entry.value.to_json_pretty())?,
    }
    Ok(Exit::Done)
}

async fn set(config: &Config, what: &Set) -> anyhow::Result<Exit> {
    scope(&what.scope, what.common.test)?;
    let mut body = json!({ "value": data::read(&what.value)? });
    if let Some(ttl) = &what.ttl {
        model::units::parse_duration(ttl).map_err(|error| Fault::usage(format!("--ttl: {error}")))?;
        body["ttl"] = ttl.as_str().into();
    }
    let path = path(&what.scope, &what.key, what.common.test);
    let told: Value = daemon::put(config, &path, &body).await?;
    match what.common.json {
        true => output::json(&told)?,
        false => output::say("kept"),
    }
    Ok(Exit::Done)
}

async fn delete(config: &Config, what: &Delete) -> anyhow::Result<Exit> {
    scope(&what.scope, what.common.test)?;
    let told: Value = daemon::delete(config, &path(&what.scope, &what.key, what.common.test)).await?;
    let deleted = told["deleted"].as_bool().unwrap_or_default();
    match what.common.json {
        true => output::json(&told)?,
        false => output::say(if deleted { "forgotten" } else { "there was none" }),
    }
    Ok(if deleted { Exit::Done } else { Exit::Failed })
}

fn scope(text: &str, test: bool) -> anyhow::Result<StateScope> {
    StateScope::parse(text, test).ok_or_else(|| {
        Fault::usage(format!("`{text}` is no scope; it is `shared`, or the id of an automation"))
    })
}

fn path(scope: &str, key: &str, test: bool) -> String {
    let escaped = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    let test = if test { "?test=true" } else { "" };
    format!("/api/v1/state/{}/{}{test}", escaped(scope), escaped(key))
}

/// Whether a value has not expired; that it is still in the store means nothing.
fn is_alive(entry: &StateEntry, now: Timestamp) -> bool {
    entry.expires_at.is_none_or(|at| at > now)
}

/// A value as the API tells it.
fn told(key: &str, entry: &StateEntry) -> Value {
    let mut told = json!({ "key": key, "value": entry.value.to_serde() });
    if let Some(at) = entry.expires_at {
        told["expiresAt"] = json!(at);
    }
    told
}
