//! The secrets that the project's files require, and the stored secrets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use catalog::MissingSecret;
use model::automation::Automation;

use crate::context::Context;
use crate::error::Error;
use crate::vault::{ListedSecret, Rotation};

impl Context {
    /// The existing secrets, by name, never with their values: of the store, then of the folder, then the names
    /// that files of the project require and the environment or a provider has.
    #[must_use]
    pub fn secrets(&self) -> Vec<ListedSecret> {
        self.secrets.list(&self.catalog().required_secrets())
    }

    /// Reads the secrets of providers before they are used, until the engine stops.
    pub(crate) async fn read_secrets_ahead(self: Arc<Self>) {
        let required = || self.catalog().required_secrets();
        self.secrets.read_ahead(self.generation.subscribe(), required, self.closing.clone()).await;
    }

    /// The names of the secrets that files of the project require and that are not set.
    #[must_use]
    pub fn unset_secrets(&self) -> Vec<String> {
        self.catalog().required_secrets().into_iter().filter(|name| !self.secrets.is_set(name)).collect()
    }

    /// Keeps a secret in the store, sealed; durable when this comes back, and read from then on.
    ///
    /// # Errors
    /// The name or the value cannot be one, the key cannot be used, or the store failed.
    pub async fn set_secret(&self, name: &str, value: &str) -> Result<ListedSecret, Error> {
        self.vault()?.set_secret(name, value, self.clock.now()).await
    }

    /// Forgets a secret of the store; false if there was none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn remove_secret(&self, name: &str) -> Result<bool, Error> {
        self.vault()?.remove_secret(name).await
    }

    /// Seals the secrets of the store with a new key.
    ///
    /// # Errors
    /// One of them cannot be opened, the key file cannot be written, or the store failed.
    pub async fn rotate_key(&self) -> Result<Rotation, Error> {
        self.vault()?.rotate().await
    }

    /// Reports the files that reference secrets that are not set, one report per file.
    #[must_use]
    pub fn missing_secrets(&self) -> Vec<text::diagnostic::Report> {
        let secrets = &self.secrets;
        self.catalog().missing_secrets(&|secret| secrets.is_set(secret))
    }

    /// The unset secrets that these automations require, each with the secrets of its connections.
    #[must_use]
    pub fn missing_secrets_of<'a>(
        &self,
        automations: impl IntoIterator<Item = &'a Automation>,
    ) -> Vec<Vec<MissingSecret>> {
        let catalog = self.catalog();
        // Many automations share a secret, and a look for one may read a file.
        let known = RefCell::new(HashMap::new());
        let is_set = |name: &str| {
            *known.borrow_mut().entry(name.to_owned()).or_insert_with(|| self.secrets.is_set(name))
        };
        let missing = |automation| catalog.missing_secrets_of_automation(automation, &is_set);
        automations.into_iter().map(missing).collect()
    }

    /// Reads the secrets and tokens that other nodes have written.
    pub(crate) async fn reread_secrets(&self) -> Result<(), Error> {
        match &self.vault {
            Some(vault) => vault.read_again().await,
            None => Ok(()),
        }
    }
}
