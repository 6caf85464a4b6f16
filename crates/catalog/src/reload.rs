//! Reload: scans the project folder, assembles the next snapshot, makes new addresses durable, and logs the changes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use connector::Registry;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::automation::{Level, TriggerKey};
use store::{Address, Store};
use text::diagnostic::Report;

use crate::error::Error;
use crate::preview;
use crate::snapshot::{
    AssembleInput, Catalog, Change, ChangeKind, Folder, InFlightExecutions, RefusedLevel, ReloadSummary,
    ScanScope, assemble,
};

/// Maximum number of automations that the log lists individually after one reload.
const MAX_LOGGED: usize = 100;

/// Loads a project folder: keeps the files as they were last read, and the addresses of automations.
pub struct Loader {
    builtin: Arc<Registry>,
    folder: tokio::sync::Mutex<Folder>,
    addresses: Mutex<HashMap<TriggerKey, Arc<Address>>>,
    level: Mutex<StoreLevel>,
    announcer: OnceLock<Box<dyn AnnounceReload>>,
}

/// Tells of a reload before it comes into force.
#[async_trait]
pub trait AnnounceReload: Send + Sync {
    /// Makes durable who is to hear of a reload.
    ///
    /// # Errors
    /// The store failed; the previous snapshot stays in force, and the reload is repeated.
    async fn announce(&self, next: &Successor) -> Result<(), store::Error>;
}

/// The level of the language that the store has, as far as this loader knows.
#[derive(Default)]
struct StoreLevel {
    raised: Level,
    /// The level that the store refused last.
    refused: Option<Arc<RefusedLevel>>,
}

/// Next snapshot, not yet in force.
pub struct Assembled {
    /// The snapshot.
    pub catalog: Catalog,
    /// The changes since the previous one.
    pub reload: ReloadSummary,
    /// New addresses that must be stored before the swap.
    fresh: Vec<Arc<Address>>,
}

impl Loader {
    /// Creates a loader for a project folder with these stored addresses.
    #[must_use]
    pub fn new(dir: &Path, builtin: Arc<Registry>, addresses: Vec<Address>) -> Self {
        let addresses =
            addresses.into_iter().map(|address| (address.trigger.clone(), Arc::new(address))).collect();
        Self {
            builtin,
            folder: tokio::sync::Mutex::new(Folder::new(dir)),
            addresses: Mutex::new(addresses),
            level: Mutex::default(),
            announcer: OnceLock::new(),
        }
    }

    /// Returns the files as last read.
    pub(crate) async fn files(&self) -> Folder {
        self.folder.lock().await.clone()
    }

    /// Scans the folder and builds the next snapshot; `None` if nothing changed.
    ///
    /// # Errors
    /// The system provides no random bytes for the address of a new automation.
    pub fn assemble(
        &self,
        previous: &Catalog,
        folder: &mut Folder,
        scope: &ScanScope,
    ) -> Result<Option<Assembled>, store::Error> {
        let changed = folder.scan(scope);
        self.assemble_changed(previous, folder, changed)
    }

    /// Builds the next snapshot from files that differ at these paths; `None` if there are none.
    ///
    /// # Errors
    /// The system provides no random bytes for the address of a new automation.
    pub fn assemble_changed(
        &self,
        previous: &Catalog,
        folder: &Folder,
        changed: BTreeSet<Arc<str>>,
    ) -> Result<Option<Assembled>, store::Error> {
        if changed.is_empty() && previous.generation() > 0 {
            return Ok(None);
        }
        let known = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut fresh, mut failure) = (Vec::new(), None);
        let (catalog, reload) = assemble(AssembleInput {
            previous,
            folder: folder.clone(),
            changed,
            refused_level: self.level().refused.clone(),
            builtin: &self.builtin,
            address: &mut |key, by_request| {
                let known = known.get(key).cloned();
                if known.is_some() || !by_request {
                    return known;
                }
                match new_address(key) {
                    Ok(address) => {
                        let address = Arc::new(address);
                        fresh.push(address.clone());
                        Some(address)
                    }
                    Err(error) => {
                        failure = Some(error);
                        None
                    }
                }
            },
        });
        failure.map_or(Ok(Some(Assembled { catalog, reload, fresh })), Err)
    }
}

/// A snapshot that takes the place of another.
pub struct Successor {
    /// The snapshot in force until now.
    pub before: Arc<Catalog>,
    /// The snapshot to put in force.
    pub after: Arc<Catalog>,
    /// The changes.
    pub reload: ReloadSummary,
}

impl Successor {
    /// A reload that found the files in force.
    #[must_use]
    pub fn unchanged(in_force: Arc<Catalog>) -> Self {
        let reload = ReloadSummary { generation: in_force.generation(), ..ReloadSummary::default() };
        Self { before: in_force.clone(), after: in_force, reload }
    }
}

/// The result of [`Loader::move_to`].
pub enum Move {
    /// The files of the folder are in force; `None` if none of them is different.
    Done(Option<Successor>),
    /// Files have errors, which are here, or could not be checked: nothing changed.
    Refused(Vec<Arc<Report>>),
}

impl Loader {
    /// Scans the folder, assembles the next snapshot, makes the addresses of new automations durable, and calls
    /// `put_in_force` with the snapshot. `None` if nothing changed or the snapshot could not be assembled.
    ///
    /// Reloads run one at a time. Run this in a task: if the future is dropped, what was read and not put in force waits
    /// for the next full scan.
    ///
    /// # Errors
    /// The addresses could not be made or saved; the previous snapshot stays in force.
    pub async fn reload(
        self: Arc<Self>,
        scope: ScanScope,
        store: &dyn Store,
        in_force: impl Fn() -> Arc<Catalog>,
        put_in_force: impl FnOnce(&Successor),
    ) -> Result<Option<Successor>, store::Error> {
        let mut folder = self.folder.lock().await;
        let before = in_force();
        let scan = self.scan_raised(folder.clone(), scope, before.clone(), store);
        let Some((scanned, assembled)) = scan.await? else { return Ok(None) };
        let successor = match assembled {
            Some(assembled) => Some(self.complete(before, assembled, store).await?),
            None => {
                // Another node may have told of other files meanwhile.
                self.announce(&Successor::unchanged(before)).await?;
                None
            }
        };
        *folder = scanned;
        if let Some(next) = &successor {
            put_in_force(next);
        }
        Ok(successor)
    }

    /// Reads the project from another folder from now on, whose files come into force all together or not at all: an error in any of
    /// them leaves the previous folder and its snapshot. Calls `put_in_force` with the next snapshot.
    ///
    /// # Errors
    /// The addresses could not be made or saved; the previous snapshot stays in force.
    pub async fn move_to(
        self: Arc<Self>,
        dir: &Path,
        store: &dyn Store,
        in_force: impl Fn() -> Arc<Catalog>,
        put_in_force: impl FnOnce(&Successor),
    ) -> Result<Move, store::Error> {
        let mut folder = self.folder.lock().await;
        let before = in_force();
        let scan = self.scan_raised(folder.moved_to(dir), ScanScope::Full, before.clone(), store);
        let Some((scanned, assembled)) = scan.await? else { return Ok(Move::Refused(Vec::new())) };
        let after = assembled.as_ref().map_or(&*before, |assembled| &assembled.catalog);
        let wrong: Vec<_> = after.reports().filter(|report| report.has_errors()).cloned().collect();
        if !wrong.is_empty() {
            return Ok(Move::Refused(wrong));
        }
        let successor = match assembled {
            Some(assembled) => Some(self.complete(before, assembled, store).await?),
            None => {
                // Another node may have told of other files meanwhile.
                self.announce(&Successor::unchanged(before)).await?;
                None
            }
        };
        *folder = scanned;
        if let Some(next) = &successor {
            put_in_force(next);
        }
        Ok(Move::Done(successor))
    }

    /// Scans a folder and assembles the next snapshot, for which the store has the level of the language. Files that need a level which the
    /// store refuses have an error in it. `None` if the scan failed.
    async fn scan_raised(
        self: &Arc<Self>,
        folder: Folder,
        scope: ScanScope,
        previous: Arc<Catalog>,
        store: &dyn Store,
    ) -> Result<Option<(Folder, Option<Assembled>)>, store::Error> {
        let refused = self.level().refused.clone();
        let mut again = BTreeSet::new();
        if let Some(refused) = refused
            && self.raise(refused.level, store).await?
        {
            again = previous.paths_with_errors();
        }
        let Some((folder, assembled)) = self.scan(folder, scope, previous.clone(), again).await? else {
            return Ok(None);
        };
        let Some(assembled) = assembled else { return Ok(Some((folder, None))) };
        if self.raise(assembled.catalog.level(), store).await? {
            return Ok(Some((folder, Some(assembled))));
        }
        // Nothing else is read: the same files with the refusal.
        let changed = assembled.reload.files.iter().cloned().collect();
        self.scan(folder, ScanScope::Paths(BTreeSet::new()), previous, changed).await
    }

    /// Raises the level of the store. Returns false if older daemons prevent it.
    async fn raise(&self, level: Level, store: &dyn Store) -> Result<bool, store::Error> {
        if level <= self.level().raised {
            return Ok(true);
        }
        match store.raise_level(level).await {
            Ok(()) => {
                *self.level() = StoreLevel { raised: level, refused: None };
                Ok(true)
            }
            Err(error @ store::Error::OlderDaemons { .. }) => {
                self.level().refused = Some(Arc::new(RefusedLevel { level, reason: error.to_string() }));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn level(&self) -> MutexGuard<'_, StoreLevel> {
        self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Scans a folder and assembles the next snapshot, with these paths as changed too. It is work for a blocking thread. `None` if that
    /// failed.
    async fn scan(
        self: &Arc<Self>,
        mut folder: Folder,
        scope: ScanScope,
        previous: Arc<Catalog>,
        also: BTreeSet<Arc<str>>,
    ) -> Result<Option<(Folder, Option<Assembled>)>, store::Error> {
        let loader = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            let mut changed = folder.scan(&scope);
            changed.extend(also);
            let assembled = loader.assemble_changed(&previous, &folder, changed)?;
            Ok((folder, assembled))
        });
        let failed = |error: &tokio::task::JoinError| {
            tracing::error!(%error, "loading the project failed; the previous version stays in force");
        };
        work.await.inspect_err(failed).ok().transpose()
    }

    /// Makes the addresses of new automations durable: an address that is shown to users must survive a crash. Then tells of the reload.
    async fn complete(
        &self,
        before: Arc<Catalog>,
        assembled: Assembled,
        store: &dyn Store,
    ) -> Result<Successor, store::Error> {
        let Assembled { mut catalog, reload, fresh } = assembled;
        if !fresh.is_empty() {
            let addresses = fresh.iter().map(|address| Address::clone(address)).collect();
            let stored = store.add_addresses(addresses).await?;
            let mut known = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(fresh.iter().map(|address| (address.trigger.clone(), address.clone())));
            for address in stored.into_iter().map(Arc::new).filter(|address| !fresh.contains(address)) {
                // Another node has seen the trigger first.
                catalog = catalog.with_address(address.clone());
                known.insert(address.trigger.clone(), address);
            }
        }
        let next = Successor { before, after: Arc::new(catalog), reload };
        self.announce(&next).await?;
        Ok(next)
    }

    async fn announce(&self, next: &Successor) -> Result<(), store::Error> {
        match self.announcer.get() {
            Some(announcer) => announcer.announce(next).await,
            None => Ok(()),
        }
    }

    /// Sets who tells of reloads. Only the first call has an effect.
    pub fn set_announcer(&self, announcer: Box<dyn AnnounceReload>) {
        drop(self.announcer.set(announcer));
    }
}

/// One of the two addresses of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// The address that starts executions.
    Live,
    /// The address that starts test executions.
    Test,
}

impl Loader {
    /// Reads the addresses again that other nodes may have replaced, and calls `put_in_force` with the snapshot that has them, if one
    /// differs.
    ///
    /// # Errors
    /// The store could not be read.
    pub async fn reread_addresses(
        &self,
        store: &dyn Store,
        in_force: impl Fn() -> Arc<Catalog>,
        put_in_force: impl FnOnce(&Successor),
    ) -> Result<(), store::Error> {
        // Reloads wait: they would put the previous tokens in force again.
        let _folder = self.folder.lock().await;
        let stored = store.addresses().await?;
        let before = in_force();
        let mut after = Catalog::clone(&before);
        let mut changed = Vec::new();
        // An address that is gone has moved to another trigger.
        let keys: HashSet<&TriggerKey> = stored.iter().map(|address| &address.trigger).collect();
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| keys.contains(key));
        for address in stored.into_iter().map(Arc::new) {
            let key = address.trigger.clone();
            let in_use = before.trigger(&key).and_then(|mount| mount.address().cloned());
            if in_use.is_some_and(|in_use| in_use != address) {
                after = after.with_address(address.clone());
                changed.push(key.automation.clone());
            }
            self.addresses.lock().unwrap_or_else(PoisonError::into_inner).insert(key, address);
        }
        if !changed.is_empty() {
            let reload = ReloadSummary {
                generation: after.generation(),
                rechecked: changed,
                ..ReloadSummary::default()
            };
            put_in_force(&Successor { before, after: Arc::new(after), reload });
        }
        Ok(())
    }

    /// Replaces the token of one address of a trigger, makes the new one durable, and calls `put_in_force` with the
    /// snapshot that has it. From then on the previous token leads nowhere. `None` if the trigger has no address.
    ///
    /// A crash before the return leaves the previous token or the new one.
    ///
    /// # Errors
    /// The address could not be made or saved; the previous one stays in force.
    pub async fn rotate_address(
        self: Arc<Self>,
        key: &TriggerKey,
        kind: AddressKind,
        store: &dyn Store,
        in_force: impl Fn() -> Arc<Catalog>,
        put_in_force: impl FnOnce(&Successor),
    ) -> Result<Option<Successor>, store::Error> {
        // Reloads wait: they would put the previous token in force again.
        let _folder = self.folder.lock().await;
        let before = in_force();
        let Some(previous) = before.trigger(key).and_then(|mount| mount.address().cloned()) else {
            return Ok(None);
        };
        let (mut next, fresh) = (Address::clone(&previous), new_address(key)?);
        match kind {
            AddressKind::Live => next.live = fresh.live,
            AddressKind::Test => next.test = fresh.test,
        }
        store.put_addresses(vec![next.clone()]).await?;
        let next = Arc::new(next);
        let mut known = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key.clone(), next.clone());
        drop(known);
        let after = before.with_address(next);
        // Subscriptions at other applications name the address, so they are made again.
        let reload = ReloadSummary {
            generation: after.generation(),
            rechecked: vec![key.automation.clone()],
            ..ReloadSummary::default()
        };
        let successor = Successor { before, after: Arc::new(after), reload };
        put_in_force(&successor);
        Ok(Some(successor))
    }
}

impl Loader {
    /// Moves what is stored under the key of one trigger to that of another, and calls `put_in_force` with the snapshot in which it has
    /// moved. Returns the number of moved rows. A trigger in force goes on with its records under the other key, until the file has the
    /// other trigger.
    ///
    /// A crash before the return leaves all rows under one of the keys.
    ///
    /// # Errors
    /// Both triggers are in force, rows are under both keys, or the store failed. Nothing changed.
    pub async fn move_trigger(
        &self,
        from: &TriggerKey,
        to: &TriggerKey,
        store: &dyn Store,
        in_force: impl Fn() -> Arc<Catalog>,
        put_in_force: impl FnOnce(&Successor),
    ) -> Result<u64, Error> {
        // Reloads wait: they would put the previous keys in force again.
        let _folder = self.folder.lock().await;
        let before = in_force();
        if let (Some(_), Some(_)) = (before.trigger(from), before.trigger(to)) {
            let (from, to) = (from.name(), to.name());
            return Err(Error::Input(format!(
                "`{from}` and `{to}` are both in force; give the file another id for one of them"
            )));
        }
        let moved = store.move_trigger(from, to).await?;
        let mut known = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let address = known.remove(from).map(|address| {
            let address = Arc::new(Address { trigger: to.clone(), ..Address::clone(&address) });
            known.insert(to.clone(), address.clone());
            address
        });
        drop(known);
        let after = Arc::new(before.with_moved(from, to, address));
        let reload = ReloadSummary {
            generation: after.generation(),
            rechecked: vec![to.automation.clone()],
            ..ReloadSummary::default()
        };
        put_in_force(&Successor { before, after, reload });
        Ok(moved)
    }
}

impl Successor {
    /// Logs the changes.
    pub async fn log(&self, store: &dyn Store, now: Timestamp) {
        let Self { before, after, reload } = self;
        for report in reload.reports.iter().filter(|report| report.has_errors()) {
            tracing::error!(file = report.source().path(), "\n{}", report.render(false));
        }
        // The first load of a large project is summarized elsewhere in one line.
        if before.generation() == 0 {
            return;
        }
        let mut logged = reload.clone();
        let lists = [
            &mut logged.added,
            &mut logged.changed,
            &mut logged.removed,
            &mut logged.stale,
            &mut logged.restored,
        ];
        let mut left = MAX_LOGGED;
        let mut more = 0;
        for ids in lists {
            more += ids.len().saturating_sub(left);
            ids.truncate(left);
            left -= ids.len();
        }
        let (before, latest) = (before.clone(), after.clone());
        let work = tokio::task::spawn_blocking(move || {
            (latest.changes(&before, &logged, now), latest.file_changes(&before, &logged))
        });
        let Ok((changes, files)) = work.await else { return };
        for file in files {
            tracing::info!(path = file.path, "{}", file.how);
        }
        for change in changes {
            let executions =
                preview::executions_on_other_versions(&change, after, store).await.unwrap_or_default();
            log_change(&change, &executions);
        }
        if more > 0 {
            tracing::info!(automations = more, "further automations changed that are not listed");
        }
    }
}

/// Creates two tokens of 256 random bits, base64url without padding (webhook security 2.6).
fn new_address(trigger: &TriggerKey) -> Result<Address, store::Error> {
    let token = || store::random::<32>().map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
    Ok(Address { trigger: trigger.clone(), live: token()?, test: token()? })
}

fn log_change(change: &Change, executions: &[InFlightExecutions]) {
    let automation = &change.id;
    let with_summary = |effect: &str| match change.summary() {
        words if words.is_empty() => effect.to_owned(),
        words => format!("{effect}; {words}"),
    };
    let definition = change.definition.as_deref().unwrap_or_default();
    match change.effect {
        ChangeKind::Added => tracing::info!(automation, definition, "{}", with_summary("added")),
        ChangeKind::Changed => {
            tracing::info!(automation, definition, before = change.before, "{}", with_summary("changed"));
        }
        ChangeKind::Removed => tracing::info!(automation, "{}", with_summary("removed")),
        ChangeKind::Stale => tracing::warn!(
            automation,
            definition,
            "the file has errors; the last good version stays in force"
        ),
        ChangeKind::Restored => tracing::info!(automation, definition, "the file is valid again"),
        // Its errors are already logged.
        ChangeKind::Broken => {}
    }
    if !change.next_fires.is_empty() {
        let zone = change.timezone.as_deref().unwrap_or("UTC");
        tracing::info!(automation, zone, "next fires {}", fires(&change.next_fires, zone));
    }
    for InFlightExecutions { definition, count } in executions {
        tracing::info!(
            automation,
            definition,
            executions = count,
            "unfinished executions continue with this version"
        );
    }
}

/// Formats times in a zone; the date appears only where it changes.
fn fires(instants: &[Timestamp], zone: &str) -> String {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let mut day = None;
    let mut words = Vec::with_capacity(instants.len());
    for at in instants {
        let at = at.to_zoned(zone.clone());
        let is_same = day.replace(at.date()) == Some(at.date());
        words.push(at.strftime(if is_same { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" }).to_string());
    }
    words.join(", ")
}
