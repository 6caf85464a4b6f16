//! The names of the secrets on this machine, for checks of files that use them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;

use catalog::Catalog;
use runtime::{ListedSecret, ProviderNetwork, Secrets, SourceKind, SystemClock, Vault};
use store::Store;
use text::diagnostic::Report;

use crate::settings::Config;
use crate::{daemon, exit, history};

/// The secrets of a project from all sources.
pub(crate) struct Known<'c> {
    config: &'c Config,
    /// The secrets of the store, with true if their key is available; `None` if the store cannot be read: then no secret is
    /// reported as missing.
    kept: Option<BTreeMap<String, bool>>,
    /// The reason why the store cannot be read.
    error: Option<String>,
}

impl<'c> Known<'c> {
    /// Reads the names of the secrets in the store; the folder and the environment are looked up on
    /// demand.
    pub(crate) fn new(config: &'c Config) -> Self {
        let read = async || kept(config, history::open(config)?).await;
        let runtime = daemon::runtime().ok();
        let kept = runtime.and_then(|runtime| runtime.block_on(read()).ok());
        Self { config, kept, error: None }
    }

    /// Like [`Known::new`], within a runtime.
    pub(crate) async fn read_own(config: &'c Config) -> Self {
        match history::open(config) {
            Ok(store) => Self::read(config, store).await,
            Err(error) => Self { config, kept: None, error: Some(exit::message(&error)) },
        }
    }

    /// Like [`Known::new`], within a runtime, from this store, if there is one.
    pub(crate) async fn read(config: &'c Config, store: Option<Arc<dyn Store>>) -> Self {
        match kept(config, store).await {
            Ok(kept) => Self { config, kept: Some(kept), error: None },
            Err(error) => Self { config, kept: None, error: Some(exit::message(&error)) },
        }
    }

    /// Like [`Known::read`] with an unreadable store: its secrets are unknown.
    pub(crate) fn without_store(config: &'c Config) -> Self {
        Self { config, kept: None, error: None }
    }

    /// The reason why the secrets of the store cannot be read, if they cannot.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The names of the stored secrets that no available key decrypts.
    pub(crate) fn locked(&self) -> Vec<&str> {
        let kept = self.kept.iter().flatten();
        kept.filter(|(_, is_readable)| !**is_readable).map(|(name, _)| name.as_str()).collect()
    }

    /// Returns true if a secret of this name exists, or its existence is unknown: providers are not asked.
    pub(crate) fn has(&self, name: &str) -> bool {
        let is_kept = || self.kept.as_ref().is_none_or(|kept| kept.contains_key(name));
        let sources = &self.config.secret_sources;
        sources.order.iter().filter(|rule| rule.applies_to(name)).any(|rule| match &rule.source {
            SourceKind::Store => is_kept(),
            SourceKind::Provider(_) => true,
            local => runtime::is_secret_set(local, &self.config.secrets_dir, name),
        })
    }

    /// The diagnostics of the files that name missing secrets.
    pub(crate) fn missing(&self, catalog: &Catalog) -> Vec<Report> {
        catalog.missing_secrets(&|name| self.has(name))
    }
}

/// Reads the secrets that the files of a project require from their sources, in a process without a daemon. Lists them with their
/// sources and errors.
pub(crate) async fn read_required(
    config: &Config,
    vault: Option<Vault>,
    required: &BTreeSet<String>,
) -> Vec<ListedSecret> {
    let secrets = reader(config, vault);
    secrets.read_all(required).await;
    secrets.list(required)
}

/// Returns the reader of secrets from all sources, in a process without a daemon.
pub(crate) fn reader(config: &Config, vault: Option<Vault>) -> Secrets {
    let network = ProviderNetwork { allow: config.outbound_allow.clone(), ..ProviderNetwork::default() };
    Secrets::new(vault.map(Arc::new), config.secrets_dir.clone(), config.redactor.clone(), None)
        .with_allowed_variables(config.env_allow.clone())
        .with_sources(&config.secret_sources, network, Arc::new(SystemClock))
}

/// Checks that the secrets folder can be read, if it exists.
///
/// # Errors
/// It exists and cannot be read.
pub(crate) fn check_folder(config: &Config) -> anyhow::Result<()> {
    match std::fs::read_dir(&config.secrets_dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            let folder = config.secrets_dir.display();
            anyhow::bail!(
                "cannot read the folder of secrets `{folder}`: {error}; correct its permissions, or name another with `secrets.dir`"
            )
        }
        _ => Ok(()),
    }
}

async fn kept(config: &Config, store: Option<Arc<dyn Store>>) -> anyhow::Result<BTreeMap<String, bool>> {
    check_folder(config)?;
    let Some(store) = store else { return Ok(BTreeMap::new()) };
    let vault = Vault::open(store, config.keys()).await?;
    Ok(vault.secrets().into_iter().map(|kept| (kept.name, kept.readable)).collect())
}
