//! Open sessions, kept for the next call with the same connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use connector::ResolvedConnection;
use model::{ActionError, ErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::session::Session;
use crate::connection::Inputs;

/// The time to wait for a session of a pool whose sessions are all in use.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// The time after which an unused session is closed.
const MAX_IDLE: Duration = Duration::from_secs(60);

/// The pools of all connections, by name.
#[derive(Default)]
pub(super) struct Pools(Mutex<HashMap<String, Arc<Pool>>>);

/// The sessions of one connection, as long as its values stay the same.
pub(super) struct Pool {
    /// A hash of the values.
    values: [u8; 32],
    slots: Arc<Semaphore>,
    idle: Mutex<Idle>,
    /// The time at which old keys were last deleted.
    pub swept: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Idle {
    sessions: Vec<(Box<dyn Session>, Instant)>,
    /// True while a task waits to close unused sessions.
    is_watched: bool,
}

/// A session in use. Dropping it closes the session.
pub(super) struct Lease {
    /// `None` until a session is opened.
    pub session: Option<Box<dyn Session>>,
    pub pool: Arc<Pool>,
    _slot: OwnedSemaphorePermit,
}

impl Pools {
    /// Takes a session of a connection, or the place for a new one.
    pub(super) async fn lease(
        &self,
        connection: &ResolvedConnection,
        size: usize,
    ) -> Result<Lease, ActionError> {
        let pool = self.pool(connection, size);
        let slot = tokio::time::timeout(MAX_WAIT, pool.slots.clone().acquire_owned()).await;
        let Ok(Ok(slot)) = slot else {
            let wait = text::units::format_duration(MAX_WAIT);
            let message = format!(
                "all {size} connections of `{}` were in use for {wait}; raise its `pool`, or run fewer steps at a time",
                connection.name
            );
            let mut error = ActionError::new(ErrorKind::Limit, message);
            error.not_sent = true;
            return Err(error);
        };
        let session = pool.take();
        Ok(Lease { session, pool, _slot: slot })
    }

    fn pool(&self, connection: &ResolvedConnection, size: usize) -> Arc<Pool> {
        let values = Inputs(connection).digest();
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A pool whose sessions are gone and that nobody uses is made again when it is needed.
        pools.retain(|name, pool| *name == connection.name || Arc::strong_count(pool) > 1 || pool.has_idle());
        match pools.get(&connection.name) {
            Some(pool) if pool.values == values => pool.clone(),
            _ => {
                let pool = Arc::new(Pool {
                    values,
                    slots: Arc::new(Semaphore::new(size)),
                    idle: Mutex::default(),
                    swept: Mutex::default(),
                });
                // Sessions of the replaced pool are closed when they are given back.
                pools.insert(connection.name.clone(), pool.clone());
                pool
            }
        }
    }
}

impl Pool {
    fn take(&self) -> Option<Box<dyn Session>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.sessions.pop())
            .map(|(session, _)| session)
            .find(|session| session.is_usable())
    }

    fn has_idle(&self) -> bool {
        !self.idle.lock().unwrap_or_else(PoisonError::into_inner).sessions.is_empty()
    }

    /// Closes sessions that were unused for long. Returns true if others are left.
    fn close_unused(&self) -> bool {
        let now = Instant::now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.sessions.retain(|(session, since)| {
            session.is_usable() && now.saturating_duration_since(*since) < MAX_IDLE
        });
        idle.is_watched = !idle.sessions.is_empty();
        idle.is_watched
    }
}

impl Lease {
    /// Gives the session back for the next call.
    pub(super) fn give_back(mut self) {
        let Some(session) = self.session.take().filter(|session| session.is_usable()) else { return };
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.sessions.push((session, Instant::now()));
        if !std::mem::replace(&mut idle.is_watched, true) {
            tokio::spawn(watch(Arc::downgrade(&self.pool)));
        }
    }
}

/// Closes the unused sessions of a pool until none is left.
async fn watch(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(MAX_IDLE).await;
        if !pool.upgrade().is_some_and(|pool| pool.close_unused()) {
            return;
        }
    }
}
