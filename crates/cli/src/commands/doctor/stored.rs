//! Checks of the store, and of the secrets in it and beside it.

use std::sync::Arc;

use engine::Catalog;
use store::{Capacity, Store};

use super::finding::{Findings, size};
use crate::exit;
use crate::history;
use crate::output::count;
use crate::secrets::Known;
use crate::settings::Config;

const STORE: &str = "store";
const SECRETS: &str = "secrets";

/// Opens the store for reading. `None` if there is none yet, or it cannot be read.
pub(super) async fn store(config: &Config, findings: &mut Findings) -> Option<Arc<dyn Store>> {
    let location = config.store_location();
    let opened = match history::open(config) {
        Ok(Some(store)) => store.info().await.map(|info| (store, info)).map_err(anyhow::Error::from),
        Ok(None) => {
            findings.ok(STORE, "database", format!("there is none at `{location}` yet; the daemon makes it"));
            return None;
        }
        Err(error) => Err(error),
    };
    let (store, info) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            findings.store_is_lost = exit::exit_of(&error) == exit::Exit::StoreLost;
            let help = if findings.store_is_lost {
                "keep the files, and restore a backup: the manual's page on storage has the steps"
            } else {
                "a store of another release, or one that this user may not read: start the daemon once with this release, or correct the permissions"
            };
            findings.error(STORE, "database", exit::message(&error), help);
            return None;
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
            let help = "raise `limits.storeSize`, or keep executions for fewer days (`retention.days`)";
            match used {
                used if used >= most - most / 20 => findings.error(STORE, "size", detail, help),
                used if used >= most - most / 10 => findings.warning(STORE, "size", detail, help),
                _ => findings.ok(STORE, "size", detail),
            }
        }
    }
    for weakness in &info.weakened {
        findings.warning(
            "weakened",
            "store",
            weakness.clone(),
            "put the store on a local disk, or accept it",
        );
    }
    Some(store)
}

/// The words for the room that a daemon's store has.
pub(super) fn room(capacity: &str) -> Option<Capacity> {
    match capacity {
        "enough" => Some(Capacity::Ample),
        "little" => Some(Capacity::Low),
        "none" => Some(Capacity::Exhausted),
        _ => None,
    }
}

/// Checks that the secrets which the connections name exist, and that only their owner can read their files.
pub(super) async fn secrets(config: &Config, catalog: &Catalog, findings: &mut Findings) {
    let known = Known::read(config).await;
    let store_fails = findings.has_error(STORE);
    if let Some(error) = known.error().filter(|_| !store_fails) {
        let help = "give the key that sealed them: `secrets.keyFile`, `COGWORK_MASTER_KEY` or the systemd credential";
        findings.error(SECRETS, "stored", error, help);
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
    for path in engine::exposed_secret_files(&config.secrets_dir) {
        let path = path.display();
        let detail = format!("other users can read `{path}`");
        findings.warning(SECRETS, "permissions", detail, format!("chmod 600 {path}"));
    }
    if missing.is_empty() && known.error().is_none() {
        let connections = count(catalog.connections().len(), "connection");
        findings.ok(SECRETS, "set", format!("{connections}, all secrets are set"));
    }
}
