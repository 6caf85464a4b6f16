//! Reloads the project: scans, checks, stores new addresses, swaps the snapshot and logs the changes.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use connector::Registry;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::automation::AutomationId;
use store::Address;

use crate::catalog::{
    AssembleInput, Catalog, Change, ChangeKind, Folder, InFlightExecutions, ReloadSummary, ScanScope,
    assemble,
};
use crate::chance::random;
use crate::forecast;
use crate::services::Services;
use crate::told::Notice;

/// Maximum number of automations that the log lists individually after one reload.
const MAX_LOGGED: usize = 100;

/// State kept between scans of the project folder.
pub(crate) struct Loader {
    builtin: Arc<Registry>,
    folder: tokio::sync::Mutex<Folder>,
    addresses: Mutex<HashMap<AutomationId, Arc<Address>>>,
    /// Automations rechecked since each listener last asked.
    rechecked: Mutex<[BTreeSet<AutomationId>; CatalogListener::COUNT]>,
}

/// Component that follows rechecked automations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CatalogListener {
    Schedules,
    Polls,
    Subscriptions,
}

impl CatalogListener {
    const COUNT: usize = 3;
}

/// Next snapshot, not yet in force.
pub(crate) struct Assembled {
    pub(crate) catalog: Catalog,
    pub(crate) reload: ReloadSummary,
    /// New addresses that must be stored before the swap.
    fresh: Vec<Arc<Address>>,
}

impl Loader {
    /// Creates a loader for a project folder with these stored addresses.
    pub(crate) fn new(dir: &Path, builtin: Arc<Registry>, addresses: Vec<Address>) -> Self {
        let addresses =
            addresses.into_iter().map(|address| (address.automation.clone(), Arc::new(address))).collect();
        Self {
            builtin,
            folder: tokio::sync::Mutex::new(Folder::new(dir)),
            addresses: Mutex::new(addresses),
            rechecked: Mutex::default(),
        }
    }

    /// Takes the automations rechecked since the listener's last call.
    pub(crate) fn take_rechecked(&self, listener: CatalogListener) -> BTreeSet<AutomationId> {
        let mut rechecked = self.rechecked.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut rechecked[listener as usize])
    }

    /// Returns the files as last read.
    pub(crate) async fn folder(&self) -> Folder {
        self.folder.lock().await.clone()
    }

    /// Scans the folder and builds the next snapshot; `None` if nothing changed.
    pub(crate) fn assemble(
        &self,
        previous: &Catalog,
        folder: &mut Folder,
        scope: &ScanScope,
    ) -> Option<Assembled> {
        let changed = folder.scan(scope);
        self.assemble_changed(previous, folder, changed)
    }

    /// Builds the next snapshot from files that differ at these paths; `None` if there are none.
    pub(crate) fn assemble_changed(
        &self,
        previous: &Catalog,
        folder: &Folder,
        changed: BTreeSet<Arc<str>>,
    ) -> Option<Assembled> {
        if changed.is_empty() && previous.generation() > 0 {
            return None;
        }
        let known = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = Vec::new();
        let (catalog, reload) = assemble(AssembleInput {
            previous,
            folder: folder.clone(),
            changed,
            builtin: &self.builtin,
            address: &mut |id, by_request| {
                let known = known.get(id).cloned();
                known.or_else(|| {
                    by_request
                        .then(|| Arc::new(new_address(id)))
                        .inspect(|address| fresh.push(address.clone()))
                })
            },
        });
        Some(Assembled { catalog, reload, fresh })
    }
}

impl Services {
    /// Scans the folder and applies changes. Run it in its own task: if the future is dropped midway, files that were
    /// read but not applied wait for the next full scan.
    pub(crate) async fn reload(self: Arc<Self>, scope: ScanScope) -> ReloadSummary {
        let mut folder = self.loader.folder.lock().await;
        // Reading and checking block, so they run on a blocking thread.
        let (services, mut scanned) = (self.clone(), folder.clone());
        let work = tokio::task::spawn_blocking(move || {
            let assembled = services.loader.assemble(&services.catalog.load(), &mut scanned, &scope);
            (scanned, assembled)
        });
        let nothing =
            || ReloadSummary { generation: self.catalog.load().generation(), ..ReloadSummary::default() };
        let (scanned, assembled) = match work.await {
            Ok(done) => done,
            Err(error) => {
                tracing::error!(%error, "loading the project failed; the previous version stays in force");
                return nothing();
            }
        };
        let Some(Assembled { catalog, reload, fresh }) = assembled else {
            *folder = scanned;
            return nothing();
        };
        if !fresh.is_empty() {
            // An address shown to users must survive a crash.
            let addresses = fresh.iter().map(|address| Address::clone(address)).collect();
            if let Err(error) = self.store.put_addresses(addresses).await {
                self.lost(&error);
                return nothing();
            }
            let mut known = self.loader.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(fresh.into_iter().map(|address| (address.automation.clone(), address)));
        }
        *folder = scanned;
        let before = self.catalog.load_full();
        let after = Arc::new(catalog);
        self.apply_catalog(after.clone(), &reload);
        drop(folder);
        self.log_reload(before, after, &reload).await;
        reload
    }

    /// Puts a snapshot in force.
    pub(crate) fn apply_catalog(&self, catalog: Arc<Catalog>, reload: &ReloadSummary) {
        self.catalog.store(catalog);
        self.hooks.forget(&reload.removed);
        self.refusals.forget(&reload.removed);
        self.hooks.forget_keys(&reload.changed);
        if self.settings.background {
            // Listeners drain these sets; without listeners they would only grow.
            let mut rechecked = self.loader.rechecked.lock().unwrap_or_else(PoisonError::into_inner);
            rechecked.iter_mut().for_each(|rechecked| rechecked.extend(reload.rechecked.iter().cloned()));
        }
        self.generation.send_replace(reload.generation);
        let _ = self.notices.send(Notice::CatalogChanged { generation: reload.generation });
    }

    /// Logs the changes of a reload.
    async fn log_reload(&self, before: Arc<Catalog>, after: Arc<Catalog>, reload: &ReloadSummary) {
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
        let (now, latest) = (self.clock.now(), after.clone());
        let work = tokio::task::spawn_blocking(move || {
            (latest.changes(&before, &logged, now), latest.file_changes(&before, &logged))
        });
        let Ok((changes, files)) = work.await else { return };
        for file in files {
            tracing::info!(path = file.path, "{}", file.how);
        }
        for change in changes {
            let executions = forecast::executions_on_other_versions(&change, &after, &*self.store)
                .await
                .unwrap_or_default();
            log_change(&change, &executions);
        }
        if more > 0 {
            tracing::info!(automations = more, "further automations changed that are not listed");
        }
    }
}

/// Creates two tokens of 256 random bits, base64url without padding (webhook security 2.6).
fn new_address(automation: &AutomationId) -> Address {
    let token = || URL_SAFE_NO_PAD.encode(random::<32>());
    Address { automation: automation.clone(), live: token(), test: token() }
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
