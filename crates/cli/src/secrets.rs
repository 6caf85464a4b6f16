//! The secrets that this machine has, by name: for what is said of files that name others.

use std::collections::BTreeSet;

use engine::{Catalog, Vault};
use model::diagnostic::Report;

use crate::settings::Config;
use crate::{daemon, exit, history};

/// The secrets of a project, wherever they are kept.
pub(crate) struct Known<'c> {
    config: &'c Config,
    /// Those of the store; `None` where it cannot be read, so that nothing is said of secrets at all.
    kept: Option<BTreeSet<String>>,
    /// Why it cannot be read.
    error: Option<String>,
}

impl<'c> Known<'c> {
    /// Reads the names of the secrets in the store; those in the folder and in the environment are looked for as they are
    /// asked for.
    pub(crate) fn new(config: &'c Config) -> Self {
        let runtime = daemon::runtime().ok();
        let kept = runtime.and_then(|runtime| runtime.block_on(kept(config)).ok());
        Self { config, kept, error: None }
    }

    /// As [`Known::new`], in a runtime.
    pub(crate) async fn read(config: &'c Config) -> Self {
        match kept(config).await {
            Ok(kept) => Self { config, kept: Some(kept), error: None },
            Err(error) => Self { config, kept: None, error: Some(exit::message(&error)) },
        }
    }

    /// The reason why the secrets of the store cannot be read, if they cannot.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns true if a secret of this name exists, or its existence is unknown.
    pub(crate) fn has(&self, name: &str) -> bool {
        let is_kept = || self.kept.as_ref().is_none_or(|kept| kept.contains(name));
        engine::is_secret_set(&self.config.secrets_dir, name) || is_kept()
    }

    /// The diagnostics of the files that name other secrets.
    pub(crate) fn missing(&self, catalog: &Catalog) -> Vec<Report> {
        catalog.missing_secrets(&|name| self.has(name))
    }
}

async fn kept(config: &Config) -> anyhow::Result<BTreeSet<String>> {
    let Some(store) = history::open(config)? else { return Ok(BTreeSet::new()) };
    let vault = Vault::open(store, config.keys()).await?;
    Ok(vault.secrets().into_iter().map(|kept| kept.name).collect())
}
