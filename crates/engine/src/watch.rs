//! Watches the project folder and triggers reloads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::project::PROJECT_FILE;
use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::generations::FolderDeployment;
use catalog::{FileKind, ScanScope};
use runtime::{Clock, MonotonicTime};

/// Delay after a completed write (file closed or renamed into place), to batch it with related files.
const SETTLE_DELAY: Duration = Duration::from_millis(5);
/// Delay after the last event of a possibly incomplete write; a save must be in force within 200 ms.
const QUIET_PERIOD: Duration = Duration::from_millis(40);
/// Maximum delay under continuous events.
const MAX_DELAY: Duration = Duration::from_millis(500);
/// Number of paths above which a full scan replaces scanning individual paths.
const MAX_PATHS: usize = 256;
/// Interval of unconditional full scans, since a watch can silently stop (recreated folder, swapped link, network
/// file system). Files with the same size and time are not reread.
const RESCAN: Duration = Duration::from_secs(3);
/// Reloads after each change until the engine stops.
pub(crate) async fn run(engine: Engine, closing: CancellationToken) {
    let (clock, dir) = (engine.clock().clone(), engine.settings().dir.clone());
    let queue = Arc::new(ChangeQueue::new(clock.clone(), dir.clone()));
    let mut watched = watch(&dir, &queue);
    let mut deployment = None;
    if engine.settings().auto_deploy && engine.store().node().is_some() {
        deployment = Some(FolderDeployment::new(&dir).await);
    }
    // Covers changes between the first load and the start of the watch.
    engine.reload().await;
    loop {
        let scope = tokio::select! {
            biased;
            () = closing.cancelled() => return,
            scope = queue.next() => scope,
            () = clock.sleep_for(RESCAN) => ScanScope::Full,
        };
        if scope == ScanScope::Full && !watched.as_ref().is_some_and(FolderWatch::is_alive) {
            watched = watch(&dir, &queue);
        }
        match &mut deployment {
            Some(deployment) => deployment.follow(&engine, scope).await,
            // Deployed definitions are in force in place of the folder.
            None if engine.running_definitions().generation.is_some() => {}
            None => drop(engine.reload_at(scope).await),
        }
    }
}

/// Collects watcher events until the next scan.
struct ChangeQueue {
    clock: Arc<dyn Clock>,
    /// Project folder as configured, and in canonical form.
    roots: [PathBuf; 2],
    pending: Mutex<Pending>,
    notify: Notify,
}

#[derive(Default)]
struct Pending {
    /// Changed paths relative to the project folder; true if the write is complete.
    paths: BTreeMap<PathBuf, bool>,
    /// True if the location of a change is unknown, so that a full scan is needed.
    needs_full_scan: bool,
    /// Times of the first and the last event.
    event_times: Option<(MonotonicTime, MonotonicTime)>,
}

impl ChangeQueue {
    fn new(clock: Arc<dyn Clock>, dir: PathBuf) -> Self {
        let canonical = dir.canonicalize().unwrap_or_else(|_| dir.clone());
        Self { clock, roots: [dir, canonical], pending: Mutex::default(), notify: Notify::new() }
    }

    /// Records an event; called on the watcher's thread.
    fn record(&self, event: notify::Result<Event>) {
        let now = self.clock.monotonic_now();
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let relevant = match event {
            Ok(event) => self.add_event(&mut pending, &event),
            Err(_) => {
                pending.needs_full_scan = true;
                true
            }
        };
        if relevant {
            pending.event_times = Some((pending.event_times.map_or(now, |(first, _)| first), now));
            self.notify.notify_one();
        }
    }

    fn add_event(&self, pending: &mut Pending, event: &Event) -> bool {
        let is_complete = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)) => true,
            EventKind::Access(_) => return false,
            _ => false,
        };
        let before = (pending.paths.len(), pending.needs_full_scan);
        let mut relevant = event.need_rescan();
        pending.needs_full_scan |= relevant;
        for path in &event.paths {
            let Some(below) = self.roots.iter().find_map(|root| path.strip_prefix(root).ok()) else {
                pending.needs_full_scan = true;
                relevant = true;
                continue;
            };
            if below == Path::new(PROJECT_FILE) {
                pending.paths.insert(below.to_owned(), is_complete);
                relevant = true;
                continue;
            }
            let mut names = below.components();
            // Ignore the data folder, which changes all the time.
            if !names
                .next()
                .is_some_and(|name| FileKind::FOLDERS.iter().any(|folder| name.as_os_str() == *folder))
            {
                continue;
            }
            relevant = true;
            // A project folder such as `automations` itself appeared or disappeared.
            pending.needs_full_scan |= names.next().is_none();
            // A path without a file kind is a folder, which appears complete, or is irrelevant.
            let is_complete = is_complete || FileKind::from_path(below).is_none();
            pending.paths.insert(below.to_owned(), is_complete);
        }
        pending.needs_full_scan |= pending.paths.len() > MAX_PATHS;
        if pending.needs_full_scan && before.0 > 0 {
            pending.paths.clear();
        }
        relevant
    }

    /// Waits until events have settled and returns the extent of the next scan.
    async fn next(&self) -> ScanScope {
        loop {
            let notify = self.notify.notified();
            let due = self.pending.lock().unwrap_or_else(PoisonError::into_inner).due();
            let Some(due) = due else {
                notify.await;
                continue;
            };
            tokio::select! {
                biased;
                () = self.clock.sleep_until_monotonic(due) => {}
                () = notify => continue,
            }
            let pending = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
            return if pending.needs_full_scan {
                ScanScope::Full
            } else {
                ScanScope::Paths(pending.paths.into_keys().collect())
            };
        }
    }
}

impl Pending {
    /// Returns the time of the next scan if no further event arrives; `None` without events.
    fn due(&self) -> Option<MonotonicTime> {
        let (first, last) = self.event_times?;
        let settled = !self.needs_full_scan && self.paths.values().all(|is_complete| *is_complete);
        Some(last.after(if settled { SETTLE_DELAY } else { QUIET_PERIOD }).min(first.after(MAX_DELAY)))
    }
}

struct FolderWatch {
    _watcher: RecommendedWatcher,
    dir: PathBuf,
    identity: Option<u64>,
}

impl FolderWatch {
    /// Returns true if the path still refers to the watched folder.
    fn is_alive(&self) -> bool {
        self.identity.is_some() && self.identity == identity(&self.dir)
    }
}

/// Starts watching the project's folders. `None` if the system refuses; regular scans take over then.
fn watch(dir: &Path, queue: &Arc<ChangeQueue>) -> Option<FolderWatch> {
    let identity = identity(dir);
    let handler = queue.clone();
    let watcher = notify::recommended_watcher(move |event| handler.record(event));
    let mut watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, "files cannot be watched; the folder is scanned every {} s", RESCAN.as_secs());
            return None;
        }
    };
    // Non-recursive, because the data folder below changes all the time.
    if let Err(error) = watcher.watch(dir, RecursiveMode::NonRecursive) {
        tracing::warn!(%error, "the project folder cannot be watched; it is scanned every {} s", RESCAN.as_secs());
        return None;
    }
    for folder in FileKind::FOLDERS.map(|folder| dir.join(folder)) {
        if folder.is_dir()
            && let Err(error) = watcher.watch(&folder, RecursiveMode::Recursive)
        {
            tracing::warn!(%error, folder = %folder.display(), "the folder cannot be watched; it is scanned every {} s", RESCAN.as_secs());
        }
    }
    Some(FolderWatch { _watcher: watcher, dir: dir.to_owned(), identity })
}

/// Hashes the inode numbers of the folder and its subfolders, to detect that a folder was replaced.
fn identity(dir: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let inode = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.ino()).ok();
        let inner = FileKind::FOLDERS.iter().map(|folder| inode(&dir.join(folder)).unwrap_or(0));
        inode(dir).map(|own| inner.fold(own, |sum, inode| sum.rotate_left(16) ^ inode))
    }
    #[cfg(not(unix))]
    {
        dir.is_dir().then_some(1)
    }
}
