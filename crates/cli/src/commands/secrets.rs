//! `cogwork secrets`

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Read as _};
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, Subcommand as Choice};
use runtime::{KeySource, ListedSecret, Vault};
use serde::Deserialize;
use serde_json::{Value, json};
use store::Store;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{self, Table, count};
use crate::settings::Config;
use crate::{daemon, history, project, secrets, time};

const EXAMPLES: &str = "\
Examples:
  cogwork secrets set wikiToken < token.txt
  pass show wiki | cogwork secrets set wikiToken
  cogwork secrets list
  cogwork secrets remove wikiToken
  cogwork secrets rotate

The store keeps the secrets encrypted. The key is `master.key` in the data folder, or the
value of COGWORK_MASTER_KEY or of the systemd credential `cogwork-master-key`. Keep a
copy of the key apart from the store: without it nobody can read the secrets. A running
daemon writes the secrets, and its steps read the new value from then on.";

/// The maximum size of a value, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Manage the secrets that connections read, encrypted in the store
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Secrets {
    #[command(subcommand)]
    what: Command,
}

#[derive(Choice, Debug)]
enum Command {
    /// List the secrets with their sources, without their values
    #[command(
        after_help = "Examples:\n  cogwork secrets list\n  cogwork secrets list --json | jq -r '.secrets[].name'"
    )]
    List(DaemonOptions),
    /// Store a secret; its value is read from stdin, without the last line break
    #[command(
        after_help = "Examples:\n  cogwork secrets set wikiToken < token.txt\n  openssl rand -hex 32 | cogwork secrets set orderHook"
    )]
    Set(Set),
    /// Remove a secret from the store
    #[command(after_help = "Examples:\n  cogwork secrets remove wikiToken")]
    Remove(Remove),
    /// Encrypt all stored secrets with a new key, and delete the old key
    #[command(after_help = "Examples:\n  cogwork secrets rotate")]
    Rotate(DaemonOptions),
}

#[derive(Args, Debug)]
struct Set {
    /// The name, read as `secrets.NAME`
    name: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

#[derive(Args, Debug)]
struct Remove {
    /// The name of the secret
    name: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

/// A secret as the API lists it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    source: String,
    version: Option<u64>,
    set_at: Option<jiff::Timestamp>,
    key: Option<String>,
    read_at: Option<jiff::Timestamp>,
    error: Option<String>,
    readable: bool,
}

impl Subcommand for Secrets {
    const NAME: &'static str = "secrets";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let shown = match &self.what {
            Command::List(shown)
            | Command::Set(Set { shown, .. })
            | Command::Remove(Remove { shown, .. })
            | Command::Rotate(shown) => shown,
        };
        let config = shown.config(context)?;
        daemon::runtime()?.block_on(async {
            match &self.what {
                Command::List(shown) => list(&config, shown).await,
                Command::Set(what) => set(&config, what).await,
                Command::Remove(what) => remove(&config, what).await,
                Command::Rotate(shown) => rotate(&config, shown).await,
            }
        })
    }
}

async fn list(config: &Config, shown: &DaemonOptions) -> anyhow::Result<Exit> {
    let told: Value = match daemon::get(config, "/api/v1/secrets").await? {
        Some(told) => told,
        None => json!({ "secrets": without_daemon(config).await? }),
    };
    shown.print(&told, || table(&told))?;
    Ok(Exit::Done)
}

fn table(told: &Value) -> anyhow::Result<()> {
    let rows: Vec<Row> = serde_json::from_value(told["secrets"].clone())?;
    if rows.is_empty() {
        output::say("no secret; keep one with `cogwork secrets set NAME`");
        return Ok(());
    }
    let has_providers = rows.iter().any(|row| row.read_at.is_some() || row.error.is_some());
    let headings: &[&str] = match has_providers {
        true => &["NAME", "IN", "VERSION", "SET", "KEY", "READ", "ERROR"],
        false => &["NAME", "IN", "VERSION", "SET", "KEY"],
    };
    let mut table = Table::new(headings);
    for row in &rows {
        let version = row.version.map(|version| version.to_string()).unwrap_or_default();
        let set_at = row.set_at.map(time::local).unwrap_or_default();
        let key = match (&row.key, row.readable) {
            (Some(key), true) => key.clone(),
            (Some(key), false) => format!("{key}, which is not here"),
            (None, _) => String::new(),
        };
        let read_at = row.read_at.map(time::local).unwrap_or_default();
        let error = row.error.as_deref().unwrap_or_default();
        let cells = [row.name.as_str(), &row.source, &version, &set_at, &key, &read_at, error];
        table.row(cells.into_iter().take(headings.len()));
    }
    Ok(table.print()?)
}

/// The secrets in the API's form, read from a store without a daemon.
async fn without_daemon(config: &Config) -> anyhow::Result<Vec<ListedSecret>> {
    secrets::check_folder(config)?;
    let vault = match history::open(config)? {
        Some(store) => Some(Vault::open(store, config.keys()).await?),
        None => None,
    };
    let is_missing = vault.is_none();
    // Only the files of the project tell which secrets of providers there may be.
    let required = match config.secret_sources.has_providers() {
        true => project::check(&config.dir, &[])?.catalog.required_secrets(),
        false => BTreeSet::new(),
    };
    let rows = secrets::read_required(config, vault, &required).await;
    if is_missing {
        // Without a store only the secrets of the folder are known.
        anyhow::ensure!(!rows.is_empty(), history::no_store(config));
        output::warn(history::no_store(config));
    }
    Ok(rows)
}

async fn set(config: &Config, what: &Set) -> anyhow::Result<Exit> {
    let value = read_value(&what.name)?;
    let told: Value = if daemon::runs(config).await? {
        daemon::put(config, &daemon::path(&["secrets", &what.name]), &json!({ "value": value })).await?
    } else {
        let vault = LocalSecrets::open(config).await?;
        let kept = vault.vault.set_secret(&what.name, &value, time::now()).await?;
        vault.close().await?;
        serde_json::to_value(kept)?
    };
    what.shown.say(&told, format_args!("kept `{}`, version {}", what.name, told["version"]))?;
    Ok(Exit::Done)
}

async fn remove(config: &Config, what: &Remove) -> anyhow::Result<Exit> {
    let removed = if daemon::runs(config).await? {
        let told: Value = daemon::delete(config, &daemon::path(&["secrets", &what.name])).await?;
        told["removed"].as_bool().unwrap_or_default()
    } else {
        let vault = LocalSecrets::open_existing(config).await?;
        let removed = vault.vault.remove_secret(&what.name).await?;
        vault.close().await?;
        removed
    };
    let words = match removed {
        true => format!("removed `{}`", what.name),
        false => format!("the store has no secret `{}`", what.name),
    };
    what.shown.say(&json!({ "removed": removed }), words)?;
    Ok(if removed { Exit::Done } else { Exit::Failed })
}

async fn rotate(config: &Config, shown: &DaemonOptions) -> anyhow::Result<Exit> {
    let told: Value = if daemon::runs(config).await? {
        daemon::post(config, "/api/v1/secret-keys", &json!({})).await?
    } else {
        let vault = LocalSecrets::open_existing(config).await?;
        let rotation = vault.vault.rotate().await?;
        vault.close().await?;
        serde_json::to_value(rotation)?
    };
    shown.print(&told, || {
        rotated(&told);
        Ok(())
    })?;
    Ok(Exit::Done)
}

fn rotated(told: &Value) {
    let sealed = usize::try_from(told["sealed"].as_u64().unwrap_or_default()).unwrap_or_default();
    let key = told["key"].as_str().unwrap_or_default();
    output::say(format_args!("sealed {} with the key {key}", count(sealed, "value")));
    if told["given"] == true {
        output::say("the keys behind the first one can be taken out of the environment now");
    } else {
        output::say(
            "keep a copy of the new key file apart from the store; the one before opens nothing any more",
        );
    }
}

/// The store's secrets when no daemon holds the store.
struct LocalSecrets {
    store: Arc<dyn Store>,
    vault: Vault,
}

impl LocalSecrets {
    /// Opens the store; does not create it.
    async fn open_existing(config: &Config) -> anyhow::Result<Self> {
        anyhow::ensure!(config.store_location().exists()?, history::no_store(config));
        Self::open(config).await
    }

    async fn open(config: &Config) -> anyhow::Result<Self> {
        let location = config.store_location();
        let store = engine::stores::open(&location, config.store())
            .with_context(|| format!("cannot open the store `{location}`"))?;
        let keys: KeySource = config.keys();
        let vault = Vault::open(store.clone(), keys).await?;
        Ok(Self { store, vault })
    }

    async fn close(self) -> anyhow::Result<()> {
        Ok(self.store.close().await?)
    }
}

fn read_value(name: &str) -> anyhow::Result<String> {
    let stdin = io::stdin().lock();
    let mut value = String::new();
    if stdin.is_terminal() {
        output::prompt(&format!("value of `{name}` (it is shown as you type): "));
        io::BufRead::read_line(&mut stdin.take(MAX_BYTES + 1), &mut value)
            .context("cannot read the value")?;
    } else {
        stdin.take(MAX_BYTES + 1).read_to_string(&mut value).context("cannot read stdin")?;
    }
    let value = value::Secret::in_file(&value).to_owned();
    if value.is_empty() {
        return Err(CommandError::usage(format!(
            "no value; give it on stdin: `cogwork secrets set {name} < file`"
        )));
    }
    anyhow::ensure!(
        value.len() as u64 <= MAX_BYTES,
        "the value is larger than {}",
        text::units::format_size(MAX_BYTES)
    );
    Ok(value)
}
