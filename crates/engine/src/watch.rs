//! Notices when the project folder changes, and clears old executions away.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use model::automation::Retention;
use notify::{EventKind, RecursiveMode};
use notify_debouncer_full::{DebounceEventResult, Debouncer, RecommendedCache, new_debouncer};
use store::Prune;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, Services};

/// Events of one save are taken together: a save must be in force within 200 ms.
const DEBOUNCE: Duration = Duration::from_millis(40);
/// The folder is looked at this often regardless: a watch can go deaf without a word (a folder made anew, a link
/// swapped, a remote file system). Files whose size and time are the same are not read.
const RESCAN: Duration = Duration::from_secs(3);
/// How often old executions are cleared away, and how many at one time.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);
const PRUNE_BATCH: u32 = 1000;
/// How long the keys of deleted executions are remembered: longer than any sender repeats itself, and the watermark
/// of a schedule is past its instants long before.
const KEYS_KEPT: Duration = Duration::from_secs(30 * 86_400);
/// How long a value that has expired stays, though nobody sees it: whoever writes over one named its version a moment
/// ago.
const EXPIRED_KEPT: Duration = Duration::from_secs(3600);

/// Reloads whenever something changed, until the engine stops.
pub(crate) async fn run(engine: Engine, closing: CancellationToken) {
    let (changed, mut changes) = mpsc::channel(1);
    let mut watched = watch(&engine.settings().dir, changed.clone());
    // What changed between the first load and the first watch.
    engine.reload().await;
    loop {
        let rescan_at = engine.clock().now().checked_add(RESCAN).unwrap_or(Timestamp::MAX);
        let rescan = tokio::select! {
            biased;
            () = closing.cancelled() => return,
            changed = changes.recv() => changed.is_none(),
            () = engine.clock().sleep_until(rescan_at) => true,
        };
        if rescan && !watched.as_ref().is_some_and(Watched::is_alive) {
            watched = watch(&engine.settings().dir, changed.clone());
        }
        engine.reload().await;
    }
}

struct Watched {
    _debouncer: Debouncer<notify::RecommendedWatcher, RecommendedCache>,
    dir: std::path::PathBuf,
    identity: Option<u64>,
}

impl Watched {
    /// Whether the folder is still the one that is watched.
    fn is_alive(&self) -> bool {
        self.identity.is_some() && self.identity == identity(&self.dir)
    }
}

/// Watches the folders whose files count. `None` where the system refuses: the regular look has to do then.
fn watch(dir: &Path, changed: mpsc::Sender<()>) -> Option<Watched> {
    let tell = move |result: DebounceEventResult| {
        let relevant = match result {
            Ok(events) => events.iter().any(|event| !matches!(event.kind, EventKind::Access(_))),
            Err(_) => true,
        };
        if relevant {
            // One word is enough: whoever hears it looks at everything.
            let _ = changed.try_send(());
        }
    };
    let mut debouncer = match new_debouncer(DEBOUNCE, None, tell) {
        Ok(debouncer) => debouncer,
        Err(error) => {
            tracing::warn!(%error, "files cannot be watched; the folder is looked at every {} s", RESCAN.as_secs());
            return None;
        }
    };
    // The project folder itself only for its sub-folders coming and going: its data folder changes all the time.
    if let Err(error) = debouncer.watch(dir, RecursiveMode::NonRecursive) {
        tracing::warn!(%error, "the project folder cannot be watched; it is looked at every {} s", RESCAN.as_secs());
        return None;
    }
    for folder in ["automations", "connections", "connectors"] {
        let folder = dir.join(folder);
        if folder.is_dir()
            && let Err(error) = debouncer.watch(&folder, RecursiveMode::Recursive)
        {
            tracing::warn!(%error, folder = %folder.display(), "cannot be watched; it is looked at every {} s", RESCAN.as_secs());
        }
    }
    Some(Watched { _debouncer: debouncer, dir: dir.to_owned(), identity: identity(dir) })
}

/// What tells a folder from another of the same name: the numbers of it and of its folders.
fn identity(dir: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let inode = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.ino()).ok();
        let folders = ["automations", "connections", "connectors"];
        let inner = folders.iter().map(|folder| inode(&dir.join(folder)).unwrap_or(0));
        inode(dir).map(|own| inner.fold(own, |sum, inode| sum.rotate_left(16) ^ inode))
    }
    #[cfg(not(unix))]
    {
        dir.is_dir().then_some(1)
    }
}

/// Clears away executions that ended longer ago than they are kept, until the engine stops.
pub(crate) async fn prune(services: std::sync::Arc<Services>) {
    loop {
        prune_once(&services).await;
        let next = services.clock.now().checked_add(PRUNE_EVERY).unwrap_or(Timestamp::MAX);
        tokio::select! {
            biased;
            () = services.closing.cancelled() => return,
            () = services.clock.sleep_until(next) => {}
        }
    }
}

async fn prune_once(services: &Services) {
    let catalog = services.catalog.load_full();
    let own: Vec<_> = catalog
        .automations()
        .filter_map(|deployed| Some((deployed.automation.id.clone(), deployed.automation.retention?)))
        .collect();
    let except: Vec<_> = own.iter().map(|(id, _)| id.clone()).collect();
    let mut rules: Vec<_> = own.into_iter().map(|(id, rule)| (Some(id), Vec::new(), rule)).collect();
    rules.extend(services.settings.retention.map(|rule| (None, except, rule)));
    let mut gone = 0;
    for (automation, except, Retention { days, keep_failed }) in rules {
        let age = Duration::from_secs(u64::from(days) * 86_400);
        let Ok(before) = services.clock.now().checked_sub(age) else { continue };
        let filter = Prune { before, automation, except, keep_failed };
        loop {
            match services.store.prune(filter.clone(), PRUNE_BATCH).await {
                Ok(count) => {
                    gone += count;
                    if count < u64::from(PRUNE_BATCH) || services.closing.is_cancelled() {
                        break;
                    }
                }
                Err(error) => {
                    services.lost(&error);
                    return;
                }
            }
        }
    }
    prune_keys(services).await;
    prune_state(services).await;
    if gone > 0 {
        services.forget_stored_definitions();
        tracing::info!(executions = gone, "cleared away what is older than it is kept");
    }
}

async fn prune_keys(services: &Services) {
    let Ok(before) = services.clock.now().checked_sub(KEYS_KEPT) else { return };
    loop {
        match services.store.prune_keys(before, PRUNE_BATCH).await {
            Ok(count) if count >= u64::from(PRUNE_BATCH) && !services.closing.is_cancelled() => {}
            Ok(_) => return,
            Err(error) => return services.lost(&error),
        }
    }
}

async fn prune_state(services: &Services) {
    let Ok(before) = services.clock.now().checked_sub(EXPIRED_KEPT) else { return };
    loop {
        match services.store.prune_state(before, PRUNE_BATCH).await {
            Ok(count) if count >= u64::from(PRUNE_BATCH) && !services.closing.is_cancelled() => {}
            Ok(_) => return,
            Err(error) => return services.lost(&error),
        }
    }
}
