//! Secrets in the store, encrypted with a key that is not in the store.
//!
//! Each secret is a row of the store's state, in a scope that no Automation can address. Secrets in memory are
//! encrypted too and decrypted for each use. Only the process that owns the store writes, so memory and store stay in
//! sync. Nodes that share a store notify each other of changes, and reread the rows before they write.

mod keys;
mod sealed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use serde::Serialize;
use store::{News, Node, StateWrite, Store};
use utoipa::ToSchema;
use value::Value;
use zeroize::Zeroizing;

use crate::error::Error;
use keys::KeyRing;
pub use keys::KeySource;
use sealed::Sealed;

/// Scope of the rows. Cannot collide with an Automation's scope: those begin with `shared`, `automation:` or `test:`.
const SCOPE: &str = "vault";
/// Maximum number of rows: one transaction re-encrypts all of them.
const MAX_ROWS: usize = StateWrite::MAX_AT_ONCE;
/// Maximum size of a value, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// Number of rows per page when the vault is loaded.
const PAGE: u32 = 1000;

/// Kind of a row. Kinds have separate namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// A secret set by people, read as `secrets.<name>`.
    Secret,
    /// OAuth tokens of a connection.
    Connection,
    /// The secret that an application gave with the subscription of a trigger.
    Subscription,
}

impl RowKind {
    fn row(self, name: &str) -> String {
        match self {
            Self::Secret => format!("secret/{name}"),
            Self::Connection => format!("connection/{name}"),
            Self::Subscription => format!("subscription/{name}"),
        }
    }
}

/// A secret: all but its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Secret)]
pub struct ListedSecret {
    /// Its name.
    pub name: String,
    /// `store`, `folder`, `environment` for a variable of it that a file of the project needs, or a provider, such as `vault:corp`.
    #[schema(value_type = String)]
    pub source: SecretSource,
    /// Number of times that it was set, for a secret of the store; the number of its version, for one of a provider that counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// When it was set last, for one of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_at: Option<Timestamp>,
    /// The id of the key that seals it, for one of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When its provider answered last, for one of a provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_at: Option<Timestamp>,
    /// The reason why its provider does not give it now. A value of an earlier answer may still be in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// False if the key that encrypts it is missing, or its provider has not given it, so that it cannot be read.
    pub readable: bool,
}

impl ListedSecret {
    /// Creates the entry of a secret that is not in the store.
    #[must_use]
    pub fn outside(name: String, source: SecretSource) -> Self {
        Self {
            name,
            source,
            version: None,
            set_at: None,
            key: None,
            read_at: None,
            error: None,
            readable: true,
        }
    }
}

/// Source of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretSource {
    /// The store, encrypted.
    Store,
    /// A file in the folder of secrets.
    Folder,
    /// A variable of the environment.
    Environment,
    /// A provider, by its kind and name.
    #[serde(untagged)]
    Provider(String),
}

/// The result of a key rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Rotated)]
pub struct Rotation {
    /// Number of values that were sealed again, tokens of connections included.
    pub sealed: usize,
    /// The id of the key that seals them now.
    pub key: String,
    /// True if the environment supplies the keys; those after the first can then be removed.
    pub given: bool,
}

/// The encrypted secrets of a store.
pub struct Vault {
    store: Arc<dyn Store>,
    source: KeySource,
    rows: RwLock<BTreeMap<String, Row>>,
    ring: RwLock<Option<KeyRing>>,
    /// Serialises writes.
    writing: tokio::sync::Mutex<()>,
    /// True if another process owns the store, so that nothing can be written here.
    read_only: bool,
}

struct Row {
    sealed: Sealed,
    /// Version of the row in the store, for optimistic locking.
    stored: u64,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Vault")
    }
}

impl Vault {
    /// Loads the rows of a store and the keys.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read, or a key is malformed.
    pub async fn open(store: Arc<dyn Store>, source: KeySource) -> Result<Self, Error> {
        let ring = KeyRing::read(&source)?;
        let vault = Self {
            store,
            source,
            rows: RwLock::default(),
            ring: RwLock::new(ring),
            writing: tokio::sync::Mutex::default(),
            read_only: false,
        };
        vault.read_rows().await?;
        if let Some(problem) = vault.key_problem() {
            tracing::error!(problem, "the secrets of the store cannot be read here");
        }
        Ok(vault)
    }

    /// Returns the ids of the keys of this process, the encrypting key first.
    pub(crate) fn key_ids(&self) -> Vec<String> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).as_ref().map_or_else(Vec::new, KeyRing::ids)
    }

    /// Returns the reason why this node and the others that share the store cannot read each other's values; `None` if they can, or
    /// this process has the store to itself.
    pub(crate) fn conflict(&self, nodes: &[Node]) -> Option<String> {
        self.key_problem().or_else(|| self.foreign_key(nodes))
    }

    /// Returns the reason why no other node could read what this one stores: it can read nothing of what is stored, or another node
    /// has not its key. `None` if this process has the store to itself.
    async fn obstacle(&self) -> Option<String> {
        self.store.node()?;
        if self.reads_nothing() {
            return self.key_problem();
        }
        // A failure of the store is reported elsewhere.
        self.foreign_key(&self.store.nodes().await.unwrap_or_default())
    }

    /// Returns the reason why another node cannot read what this one encrypts.
    fn foreign_key(&self, nodes: &[Node]) -> Option<String> {
        let own = self.store.node()?;
        let key = self.key_ids().into_iter().next()?;
        let other = nodes.iter().find(|node| {
            let keys = &node.details.keys;
            node.id != own && !node.dead && !keys.is_empty() && !keys.contains(&key)
        })?;
        let place = other.details.address.as_ref().unwrap_or(&other.host);
        Some(format!(
            "the daemon {} ({place}) has the key {}, and {} has the key {key}; {}",
            other.id,
            other.details.keys.first().map_or("", String::as_str),
            self.source.describe(),
            self.source.way_out()
        ))
    }

    fn reads_nothing(&self) -> bool {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let is_readable = |row: &Row| ring.as_ref().is_some_and(|ring| ring.find(&row.sealed.key).is_some());
        !rows.is_empty() && !rows.values().any(is_readable)
    }

    /// Returns the reason why this process cannot read values of the store; `None` if it can read all.
    #[must_use]
    pub fn key_problem(&self) -> Option<String> {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let is_unreadable =
            |row: &&Row| ring.as_ref().is_none_or(|ring| ring.find(&row.sealed.key).is_none());
        let unreadable: Vec<&Row> = rows.values().filter(is_unreadable).collect();
        let needed = &unreadable.first()?.sealed.key;
        let has = ring.as_ref().and_then(KeyRing::current).map(|key| key.id.as_str());
        let source = self.source.describe();
        let way_out = self.source.way_out();
        Some(match has {
            Some(has) => format!(
                "{} values of the store are encrypted with the key {needed}, and {source} has the key {has}; {way_out}",
                unreadable.len()
            ),
            None => format!(
                "{} values of the store are encrypted with the key {needed}, and {source} is missing; {way_out}",
                unreadable.len()
            ),
        })
    }

    /// Makes the vault read-only, for a process that does not own the store.
    #[must_use]
    pub fn for_reading(self) -> Self {
        Self { read_only: true, ..self }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Lists the secrets set by people, sorted by name.
    #[must_use]
    pub fn secrets(&self) -> Vec<ListedSecret> {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let secrets = rows.iter().filter_map(|(name, row)| {
            Some(ListedSecret {
                name: name.strip_prefix("secret/")?.to_owned(),
                source: SecretSource::Store,
                version: Some(row.sealed.version),
                set_at: Some(row.sealed.set_at),
                key: Some(row.sealed.key.clone()),
                read_at: None,
                error: None,
                readable: ring.as_ref().is_some_and(|ring| ring.find(&row.sealed.key).is_some()),
            })
        });
        secrets.collect()
    }

    /// Stores a secret durably.
    ///
    /// # Errors
    /// Returns an error if the name or the value is not allowed, there are too many secrets, the key cannot be used, or
    /// the store fails.
    pub async fn set_secret(&self, name: &str, value: &str, now: Timestamp) -> Result<ListedSecret, Error> {
        check_name(name)?;
        if value.is_empty() {
            return Err(Error::Input(format!(
                "the secret `{name}` is empty; to delete it, use `cogwork secrets remove`"
            )));
        }
        self.put(RowKind::Secret, name, value, now).await?;
        let kept = self.secrets().into_iter().find(|secret| secret.name == name);
        kept.ok_or_else(|| Error::Vault(format!("the secret `{name}` was removed at the same time")))
    }

    /// Deletes a secret. Returns false if there was none.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn remove_secret(&self, name: &str) -> Result<bool, Error> {
        self.remove(RowKind::Secret, name).await
    }

    /// Re-encrypts all values with a new key in one transaction and drops the old keys. Keys from the environment are
    /// not generated: the first of them becomes the current one.
    ///
    /// # Errors
    /// Returns an error if a value cannot be decrypted, the key file cannot be written, or the store fails.
    pub async fn rotate(&self) -> Result<Rotation, Error> {
        let _writing = self.write_alone().await?;
        let given = self.source.given.is_some();
        // Read again, since another process may have rotated the key meanwhile.
        let ring = KeyRing::read(&self.source)?;
        let mut ring = match ring {
            Some(ring) => ring,
            None => self.create_key()?,
        };
        if !given {
            // The file has the new key before the first value is encrypted with it, and the old ones until no value
            // needs them. So after a crash at any point the file decrypts everything in the store.
            ring.add(&self.source)?;
        }
        let (names, rows) = self.reseal_all(&ring)?;
        let sealed = rows.len();
        let writes =
            names.iter().zip(&rows).map(|((name, stored), sealed)| write(name, *stored, Some(sealed)));
        let writes: Vec<StateWrite> = writes.collect();
        if !writes.is_empty() {
            self.store.write_state(writes).await?;
        }
        if !given {
            ring.retire(&self.source)?;
        }
        let key = ring.current().map(|key| key.id.clone()).unwrap_or_default();
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = Some(ring);
        self.read_written().await?;
        Ok(Rotation { sealed, key, given })
    }

    /// Returns true if the row exists.
    pub(crate) fn has(&self, kind: RowKind, name: &str) -> bool {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).contains_key(&kind.row(name))
    }

    /// Decrypts the value of a row; `None` if the row does not exist.
    pub(crate) fn read(&self, kind: RowKind, name: &str) -> Result<Option<Zeroizing<String>>, Error> {
        let row = kind.row(name);
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let Some(Row { sealed, .. }) = rows.get(&row) else { return Ok(None) };
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        sealed.open(&row, ring.as_ref()).map(Some)
    }

    /// Encrypts a value that is stored elsewhere under this name, with the key that encrypts secrets.
    pub(crate) async fn seal(&self, name: &str, value: &str, now: Timestamp) -> Result<Value, Error> {
        if self.key_ids().is_empty() {
            let _writing = self.write_alone().await?;
            self.ensure_key()?;
        }
        if let Some(problem) = self.obstacle().await {
            return Err(Error::Vault(problem));
        }
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        let key = ring.as_ref().and_then(KeyRing::current);
        let key = key.ok_or_else(|| Error::Vault("there is no key to encrypt with".to_owned()))?;
        Ok(Sealed::seal(name, 1, now, value, key)?.to_value())
    }

    /// Decrypts a value of [`Self::seal`].
    pub(crate) fn unseal(&self, name: &str, sealed: &Value) -> Result<Zeroizing<String>, Error> {
        let sealed = Sealed::from_value(sealed).ok_or_else(|| Error::Vault("it is damaged".to_owned()))?;
        sealed.open(name, self.ring.read().unwrap_or_else(PoisonError::into_inner).as_ref())
    }

    /// Stores a value durably.
    pub(crate) async fn put(
        &self,
        kind: RowKind,
        name: &str,
        value: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        if value.len() > MAX_BYTES {
            let most = text::units::format_size(MAX_BYTES as u64);
            return Err(Error::Input(format!("the value of `{name}` is larger than {most}")));
        }
        let _writing = self.write_alone().await?;
        let row = kind.row(name);
        let before = {
            let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
            if rows.len() >= MAX_ROWS && !rows.contains_key(&row) {
                return Err(Error::Input(format!(
                    "the store already has the maximum of {MAX_ROWS} secrets; remove some first"
                )));
            }
            rows.get(&row).map(|row| (row.sealed.version, row.stored))
        };
        self.ensure_key()?;
        if let Some(problem) = self.obstacle().await {
            return Err(Error::Vault(format!("nothing was stored: {problem}")));
        }
        let sealed = {
            let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
            let key = ring.as_ref().and_then(KeyRing::current);
            let key = key.ok_or_else(|| Error::Vault("there is no key to encrypt with".to_owned()))?;
            Sealed::seal(&row, before.map_or(1, |(version, _)| version + 1), now, value, key)?
        };
        self.store.write_state(vec![write(&row, before.map(|(_, stored)| stored), Some(&sealed))]).await?;
        self.read_written().await
    }

    /// Deletes a value. Returns false if there was none.
    pub(crate) async fn remove(&self, kind: RowKind, name: &str) -> Result<bool, Error> {
        let _writing = self.write_alone().await?;
        let row = kind.row(name);
        let stored = {
            let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
            rows.get(&row).map(|row| row.stored)
        };
        let Some(stored) = stored else { return Ok(false) };
        self.store.write_state(vec![write(&row, Some(stored), None)]).await?;
        self.read_written().await?;
        Ok(true)
    }

    /// Encrypts all values with the current key. Returns the names and versions of the rows, and the new values.
    #[expect(clippy::type_complexity, reason = "two lists that belong together, used once")]
    fn reseal_all(&self, ring: &KeyRing) -> Result<(Vec<(String, Option<u64>)>, Vec<Sealed>), Error> {
        let key = ring.current().ok_or_else(|| Error::Vault("there is no key to encrypt with".to_owned()))?;
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let (mut names, mut sealed) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for (name, row) in rows.iter() {
            let plain = row.sealed.open(name, Some(ring)).map_err(|error| {
                Error::Vault(format!("`{name}` cannot be decrypted, so nothing was changed: {error}"))
            })?;
            sealed.push(Sealed::seal(name, row.sealed.version, row.sealed.set_at, &plain, key)?);
            names.push((name.clone(), Some(row.stored)));
        }
        Ok((names, sealed))
    }

    fn ensure_key(&self) -> Result<(), Error> {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        if ring.is_none() {
            *ring = Some(match KeyRing::read(&self.source)? {
                Some(found) => found,
                None => self.create_key()?,
            });
        }
        Ok(())
    }

    /// Creates the first key of the store. Fails if the store already has values encrypted with another key: a person
    /// must restore that key or declare it lost.
    fn create_key(&self) -> Result<KeyRing, Error> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let Some(row) = rows.values().next() else { return KeyRing::create(&self.source) };
        let file = self.source.file.display();
        Err(Error::Vault(format!(
            "`{file}` is missing, and the store holds {} values encrypted with the key {}; put the file back, or, if it is lost, make a new key with `(umask 077; openssl rand -base64 32 > '{file}')` and set the secrets again",
            rows.len(),
            row.sealed.key
        )))
    }

    /// Begins a write, on the rows that the other nodes have written.
    async fn write_alone(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, Error> {
        let writing = self.writing.lock().await;
        self.read_again().await?;
        Ok(writing)
    }

    /// Reads the rows that this node has written, and notifies the other nodes.
    async fn read_written(&self) -> Result<(), Error> {
        self.read_rows().await?;
        self.store.tell(None, News::Secrets);
        Ok(())
    }

    /// Reads what the other nodes have written, if there are any. They also may have made the first key, or a new one.
    pub(crate) async fn read_again(&self) -> Result<(), Error> {
        if self.store.node().is_none() {
            return Ok(());
        }
        if let Some(ring) = KeyRing::read(&self.source)? {
            *self.ring.write().unwrap_or_else(PoisonError::into_inner) = Some(ring);
        }
        self.read_rows().await
    }

    async fn read_rows(&self) -> Result<(), Error> {
        let mut rows = BTreeMap::new();
        let mut after: Option<String> = None;
        while rows.len() <= MAX_ROWS {
            let page = self.store.list_state(SCOPE, after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            for found in page {
                match Sealed::from_value(&found.entry.value) {
                    Some(sealed) => {
                        rows.insert(found.key, Row { sealed, stored: found.entry.version });
                    }
                    None => tracing::error!(row = found.key, "a sealed secret in the store is damaged"),
                }
            }
        }
        *self.rows.write().unwrap_or_else(PoisonError::into_inner) = rows;
        Ok(())
    }
}

fn write(row: &str, expected: Option<u64>, sealed: Option<&Sealed>) -> StateWrite {
    StateWrite {
        scope: SCOPE.to_owned(),
        key: row.to_owned(),
        expected,
        value: sealed.map(Sealed::to_value),
        expires_at: None,
    }
}

/// Returns true if the name is valid in expressions and as a file name.
pub fn is_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn check_name(name: &str) -> Result<(), Error> {
    if is_name(name) {
        return Ok(());
    }
    let shown = name.escape_debug();
    Err(Error::Input(format!(
        "`{shown}` is not a valid secret name; use up to 100 letters, digits, `_` and `-`"
    )))
}
