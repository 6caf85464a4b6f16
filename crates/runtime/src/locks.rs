//! Mutual exclusion by key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use model::Backoff;
use store::Store;
use tokio::sync::OwnedMutexGuard;

use crate::clock::Clock;

/// Mutexes by key. The table of keys forgets mutexes that are not in use.
#[derive(Default)]
pub struct KeyedLocks {
    locks: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

impl KeyedLocks {
    /// Acquires the lock of a key. Waiters are served in order.
    pub async fn lock(&self, key: &str) -> OwnedMutexGuard<()> {
        self.mutex(key).lock_owned().await
    }

    fn mutex(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        // Sweeping at each growth of the table costs a constant time per insertion on average.
        if locks.len() == locks.capacity() {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(key.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

/// The time after which a writer continues without the lock of the other nodes: its write is checked against the version that it
/// has read.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pauses between two attempts.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(50));

/// A lock of a key, in this process and among the nodes that share the store. It is free again when it is dropped.
pub(crate) struct StoreLock {
    _local: OwnedMutexGuard<()>,
    /// The store and the name of the lock; `None` if this process has the store to itself.
    shared: Option<(Arc<dyn Store>, String)>,
}

impl StoreLock {
    /// Takes the lock of `key` in `locks`, and the lock of the same name among the nodes, where `kind` distinguishes it.
    pub(crate) async fn take(
        locks: &KeyedLocks,
        store: &Arc<dyn Store>,
        clock: &dyn Clock,
        kind: &str,
        key: &str,
    ) -> Self {
        let local = locks.lock(key).await;
        if store.node().is_none() {
            return Self { _local: local, shared: None };
        }
        let name = format!("{kind}:{key}");
        let give_up = clock.monotonic_now().after(PATIENCE);
        let mut pauses = PAUSES;
        loop {
            match store.try_lock(&name).await {
                Ok(true) => return Self { _local: local, shared: Some((store.clone(), name)) },
                Ok(false) | Err(store::Error::Unreachable { .. }) if clock.monotonic_now() < give_up => {}
                Ok(false) | Err(_) => {
                    tracing::warn!(name, "gave up waiting for a lock that another daemon holds");
                    return Self { _local: local, shared: None };
                }
            }
            clock.sleep_for(pauses.pause()).await;
        }
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        if let Some((store, name)) = self.shared.take() {
            store.unlock(&name);
        }
    }
}
