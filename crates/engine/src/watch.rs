//! Notices when the project folder changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use catalog::{FileKind, Look};
use runtime::{Clock, MonotonicTime};

/// A file that is written whole (closed, or renamed into its place) is looked at so soon, together with its neighbours.
const SETTLED: Duration = Duration::from_millis(5);
/// One that may still be in the midst of being written, this long after the last sign of it: a save must be in force
/// within 200 ms.
const QUIET: Duration = Duration::from_millis(40);
/// However much happens, it is looked at after this long.
const PATIENCE: Duration = Duration::from_millis(500);
/// More paths than these at one time are not looked at one by one.
const MAX_PATHS: usize = 256;
/// The folder is looked at this often regardless: a watch can go deaf without a word (a folder made anew, a link
/// swapped, a remote file system). Files whose size and time are the same are not read.
const RESCAN: Duration = Duration::from_secs(3);
/// Reloads whenever something changed, until the engine stops.
pub(crate) async fn run(engine: Engine, closing: CancellationToken) {
    let (clock, dir) = (engine.clock().clone(), engine.settings().dir.clone());
    let seen = Arc::new(Seen::new(clock.clone(), dir.clone()));
    let mut watched = watch(&dir, &seen);
    // What changed between the first load and the first watch.
    engine.reload().await;
    loop {
        let look = tokio::select! {
            biased;
            () = closing.cancelled() => return,
            look = seen.next() => look,
            () = clock.sleep_for(RESCAN) => Look::Everywhere,
        };
        if look == Look::Everywhere && !watched.as_ref().is_some_and(Watched::is_alive) {
            watched = watch(&dir, &seen);
        }
        engine.reload_at(look).await;
    }
}

/// Where something was seen to happen and nobody has looked since.
struct Seen {
    clock: Arc<dyn Clock>,
    /// The project folder, as it was named and as the system calls it.
    roots: [PathBuf; 2],
    pending: Mutex<Pending>,
    told: Notify,
}

#[derive(Default)]
struct Pending {
    /// Relative to the project folder; whether the file is whole.
    paths: BTreeMap<PathBuf, bool>,
    /// Whether it is not known where.
    anywhere: bool,
    /// The first and the last sign.
    since: Option<(MonotonicTime, MonotonicTime)>,
}

impl Seen {
    fn new(clock: Arc<dyn Clock>, dir: PathBuf) -> Self {
        let canonical = dir.canonicalize().unwrap_or_else(|_| dir.clone());
        Self { clock, roots: [dir, canonical], pending: Mutex::default(), told: Notify::new() }
    }

    /// Takes an event of the watcher, on a thread of the watcher's.
    fn take(&self, event: notify::Result<Event>) {
        let now = self.clock.monotonic_now();
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let relevant = match event {
            Ok(event) => self.note(&mut pending, &event),
            Err(_) => {
                pending.anywhere = true;
                true
            }
        };
        if relevant {
            pending.since = Some((pending.since.map_or(now, |(first, _)| first), now));
            self.told.notify_one();
        }
    }

    fn note(&self, pending: &mut Pending, event: &Event) -> bool {
        let whole = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)) => true,
            EventKind::Access(_) => return false,
            _ => false,
        };
        let before = (pending.paths.len(), pending.anywhere);
        let mut relevant = event.need_rescan();
        pending.anywhere |= relevant;
        for path in &event.paths {
            let Some(below) = self.roots.iter().find_map(|root| path.strip_prefix(root).ok()) else {
                pending.anywhere = true;
                relevant = true;
                continue;
            };
            let mut names = below.components();
            // Beside the folders that count there is the data folder, which changes all the time.
            if !names
                .next()
                .is_some_and(|name| FileKind::FOLDERS.iter().any(|folder| name.as_os_str() == *folder))
            {
                continue;
            }
            relevant = true;
            // A folder of them itself came or went.
            pending.anywhere |= names.next().is_none();
            // What is no file of ours by its name is a folder, which comes whole, or of no concern.
            let whole = whole || FileKind::of(below).is_none();
            pending.paths.insert(below.to_owned(), whole);
        }
        pending.anywhere |= pending.paths.len() > MAX_PATHS;
        if pending.anywhere && before.0 > 0 {
            pending.paths.clear();
        }
        relevant
    }

    /// Where to look next, once something has happened and come to rest.
    async fn next(&self) -> Look {
        loop {
            let told = self.told.notified();
            let due = self.pending.lock().unwrap_or_else(PoisonError::into_inner).due();
            let Some(due) = due else {
                told.await;
                continue;
            };
            tokio::select! {
                biased;
                () = self.clock.sleep_until_monotonic(due) => {}
                () = told => continue,
            }
            let pending = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
            return if pending.anywhere {
                Look::Everywhere
            } else {
                Look::At(pending.paths.into_keys().collect())
            };
        }
    }
}

impl Pending {
    /// When it is looked at, unless something happens before.
    fn due(&self) -> Option<MonotonicTime> {
        let (first, last) = self.since?;
        let settled = !self.anywhere && self.paths.values().all(|whole| *whole);
        Some(last.after(if settled { SETTLED } else { QUIET }).min(first.after(PATIENCE)))
    }
}

struct Watched {
    _watcher: RecommendedWatcher,
    dir: PathBuf,
    identity: Option<u64>,
}

impl Watched {
    /// Whether the folder is still the one that is watched.
    fn is_alive(&self) -> bool {
        self.identity.is_some() && self.identity == identity(&self.dir)
    }
}

/// Watches the folders whose files count. `None` where the system refuses: the regular look has to do then.
fn watch(dir: &Path, seen: &Arc<Seen>) -> Option<Watched> {
    let identity = identity(dir);
    let tell = seen.clone();
    let watcher = notify::recommended_watcher(move |event| tell.take(event));
    let mut watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, "files cannot be watched; the folder is looked at every {} s", RESCAN.as_secs());
            return None;
        }
    };
    // The project folder itself only for its sub-folders coming and going: its data folder changes all the time.
    if let Err(error) = watcher.watch(dir, RecursiveMode::NonRecursive) {
        tracing::warn!(%error, "the project folder cannot be watched; it is looked at every {} s", RESCAN.as_secs());
        return None;
    }
    for folder in FileKind::FOLDERS.map(|folder| dir.join(folder)) {
        if folder.is_dir()
            && let Err(error) = watcher.watch(&folder, RecursiveMode::Recursive)
        {
            tracing::warn!(%error, folder = %folder.display(), "cannot be watched; it is looked at every {} s", RESCAN.as_secs());
        }
    }
    Some(Watched { _watcher: watcher, dir: dir.to_owned(), identity })
}

/// What tells a folder from another of the same name: the numbers of it and of its folders.
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
