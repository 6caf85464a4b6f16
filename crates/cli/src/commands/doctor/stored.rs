//! Checks of the store, and of the secrets in it and beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::Catalog;
use jiff::Timestamp;
use runtime::{ListedSecret, SecretSource, Vault};
use store::{Capacity, Examination, Store};

use super::finding::{Findings, size};
use crate::exit;
use crate::history;
use crate::output::count;
use crate::secrets::{self, Known};
use crate::settings::Config;

const STORE: &str = "store";
const PROJECT: &str = "project";
const SECRETS: &str = "secrets";

/// The help for an error without a suggestion.
const READ: &str = "correct what the message names, or give another place with `store` or `dataDir`";
/// The help for a full store.
const ROOM: &str = "raise `limits.storeSize`, or keep executions for fewer days (`retention.days`)";

/// The parts of the store that the other checks need.
pub(super) struct Found {
    /// `None` if it does not exist yet or cannot be read.
    pub(super) store: Option<Arc<dyn Store>>,
    /// The wall clock of its server.
    pub(super) server_time: Option<Timestamp>,
    /// True if there is a store that cannot be read.
    pub(super) is_unreadable: bool,
}

impl Found {
    const NOTHING: Self = Self { store: None, server_time: None, is_unreadable: false };
    const UNREADABLE: Self = Self { store: None, server_time: None, is_unreadable: true };
}

/// Checks that a daemon could open the store, and opens it for reading.
pub(super) async fn store(config: &Config, findings: &mut Findings) -> Found {
    let location = config.store_location();
    let (older, server_time, weakened) = match engine::stores::examine(&location, config.durability) {
        Ok(Examination::Usable { older, server_time, weakened }) => (older, server_time, weakened),
        Ok(Examination::Missing) => {
            findings.ok(STORE, "database", format!("there is none at `{location}` yet; the daemon makes it"));
            return Found::NOTHING;
        }
        Err(error) => {
            unusable(&error.into(), findings);
            return Found::UNREADABLE;
        }
    };
    warn_of(&weakened, findings);
    if let Some(version) = older {
        let detail = format!(
            "`{location}` has tables of version {version}, which this release migrates when the daemon starts"
        );
        let help =
            "make a backup (`cogwork backup` of the release before), then start the daemon with this release";
        findings.warning(STORE, "database", detail, help);
        return Found { store: None, server_time, is_unreadable: true };
    }
    let opened = match history::open(config) {
        Ok(Some(store)) => store.info().await.map(|info| (store, info)).map_err(anyhow::Error::from),
        Ok(None) => Err(anyhow::anyhow!(history::no_store(config))),
        Err(error) => Err(error),
    };
    let (store, info) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            unusable(&error, findings);
            return Found::UNREADABLE;
        }
    };
    findings.ok(STORE, "database", format!("{}, {}, version {}", info.location, info.engine, info.schema));
    let bytes = info.bytes.saturating_add(info.blob_bytes);
    let found = size(bytes);
    match config.store_size {
        None => findings.ok(STORE, "size", format!("{found}; only the disk limits it")),
        Some(most) => {
            let used = info.used.saturating_add(info.blob_bytes);
            let detail = format!("{found} of {}", size(most));
            match used {
                used if used >= most - most / 20 => findings.error(STORE, "size", detail, ROOM),
                used if used >= most - most / 10 => findings.warning(STORE, "size", detail, ROOM),
                _ => findings.ok(STORE, "size", detail),
            }
        }
    }
    warn_of(&info.weakened, findings);
    Found { store: Some(store), server_time, is_unreadable: false }
}

/// Adds the finding of a store that no daemon can open, with the suggestion of its error.
fn unusable(error: &anyhow::Error, findings: &mut Findings) {
    findings.store_is_lost = exit::exit_of(error) == exit::Exit::StoreLost;
    let message = exit::message(error);
    let (problem, way_out) = exit::split_way_out(&message);
    let help = way_out.unwrap_or(if findings.store_is_lost {
        "keep the files, and restore a backup: the manual's page on storage has the steps"
    } else {
        READ
    });
    findings.error(STORE, "database", problem, help);
}

fn warn_of(weakened: &[String], findings: &mut Findings) {
    for weakness in
        weakened.iter().filter(|weakness| !findings.has_detail(weakness)).cloned().collect::<Vec<_>>()
    {
        let help = if weakness.contains("database") || weakness.contains("server") {
            "change the settings of the database server, or accept it"
        } else {
            "put the store on a local disk, or accept it"
        };
        findings.warning("weakened", "store", weakness, help);
    }
}

/// The capacity of a daemon's store from its name in the API.
pub(super) fn room(capacity: &str) -> Option<Capacity> {
    match capacity {
        "enough" => Some(Capacity::Ample),
        "little" => Some(Capacity::Low),
        "none" => Some(Capacity::Exhausted),
        _ => None,
    }
}

/// Checks that the secrets named by connections exist and can be decrypted, and that only their owner can read their files.
pub(super) async fn secrets(config: &Config, catalog: &Catalog, found: &Found, findings: &mut Findings) {
    let known = match found.is_unreadable {
        true => Known::without_store(config),
        false => Known::read(config, found.store.clone()).await,
    };
    let help =
        "give the key that sealed them: `secrets.keyFile`, `COGWORK_MASTER_KEY` or the systemd credential";
    if let Err(error) = secrets::check_folder(config) {
        let message = exit::message(&error);
        let (problem, way_out) = exit::split_way_out(&message);
        findings.error(SECRETS, "folder", problem, way_out.unwrap_or(READ));
    } else if let Some(error) = known.error() {
        findings.error(SECRETS, "stored", error, help);
    }
    let locked = known.locked();
    if !locked.is_empty() {
        let names = locked.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let detail = format!("the key that decrypts {names} of the store is not here");
        findings.error(
            SECRETS,
            "stored",
            detail,
            format!("{help}; or set them again with `cogwork secrets set NAME`"),
        );
    }
    let missing: Vec<String> = known
        .missing(catalog)
        .iter()
        .flat_map(|report| report.entries())
        .map(|entry| format!("{}:{}: {}", entry.file, entry.line, entry.message))
        .collect();
    for message in &missing {
        findings.warning(SECRETS, "missing", message.clone(), "set it with `cogwork secrets set NAME`");
    }
    let failing = provided(config, catalog, found, findings).await;
    for path in runtime::exposed_secret_files(&config.secrets_dir) {
        let path = path.display();
        let detail = format!("other users can read `{path}`");
        findings.warning(SECRETS, "permissions", detail, format!("chmod 600 {path}"));
    }
    if found.is_unreadable {
        let detail = "the secrets of the store are not known, since the store cannot be read";
        findings.skipped(SECRETS, "set", detail);
    } else if missing.is_empty() && locked.is_empty() && known.error().is_none() && !failing {
        let connections = count(catalog.connections().len(), "connection");
        findings.ok(SECRETS, "set", format!("{connections}, all secrets are set"));
    }
}

/// Reads the secrets that the project requires from their providers. Returns true if one of them fails, or has none of the name.
async fn provided(config: &Config, catalog: &Catalog, found: &Found, findings: &mut Findings) -> bool {
    let sources = &config.secret_sources;
    let mut required = catalog.required_secrets();
    required.retain(|name| sources.may_be_provided(name));
    if required.is_empty() {
        return false;
    }
    let vault = match &found.store {
        Some(store) => Vault::open(store.clone(), config.keys()).await.ok(),
        None => None,
    };
    let listed = secrets::read_required(config, vault, &required).await;
    let listed: BTreeMap<&str, &ListedSecret> =
        listed.iter().map(|listed| (listed.name.as_str(), listed)).collect();
    let mut read: BTreeMap<String, usize> = BTreeMap::new();
    let mut is_failing = false;
    for name in &required {
        match listed.get(name.as_str()) {
            None => {
                is_failing = true;
                let detail = format!("no source has the secret `{name}`");
                let help = "set it at the provider, or with `cogwork secrets set NAME`";
                findings.warning(SECRETS, "missing", detail, help);
            }
            Some(ListedSecret { source: SecretSource::Provider(provider), error, .. }) => match error {
                Some(error) => {
                    is_failing = true;
                    let help = "correct the settings of the provider, its policy or the network; `secrets.sources` names them";
                    findings.error(SECRETS, "provider", format!("`{name}`: {error}"), help);
                }
                None => *read.entry(provider.clone()).or_default() += 1,
            },
            Some(_) => {}
        }
    }
    for (provider, number) in read {
        findings.ok(SECRETS, "provider", format!("{provider} gives {}", count(number, "secret")));
    }
    is_failing
}

/// Checks that a daemon that shares its store has definitions: deployed ones if the project folder is empty.
pub(super) async fn deployed(store: &dyn Store, findings: &mut Findings) {
    match store.generations(1).await {
        Ok(found) => match found.first() {
            Some(generation) => {
                findings.ok(PROJECT, "deployed", format!("generation {} is deployed", generation.number));
            }
            None => findings.warning(
                "project",
                "deployed",
                "the project folder is empty, and nothing is deployed: the daemon has no definitions",
                "deploy the project with `cogwork push`, or name its folder with --dir",
            ),
        },
        Err(error) => findings.error(PROJECT, "deployed", error.to_string(), READ),
    }
}
