//! Open sessions, kept for the next call with the same connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use connector::ResolvedConnection;
use model::{ActionError, ErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::connection::Inputs;

/// The time to wait for a session of a pool whose sessions are all in use.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// The largest number of unused sessions that a connector keeps, of all connections together.
const MAX_KEPT: usize = 256;

/// A session that one call uses at a time. Dropping it ends it.
pub(crate) trait Pooled: Send + Sized + 'static {
    /// The time after which an unused session is closed.
    const MAX_IDLE: Duration;
    /// The state that all sessions of a pool have.
    type Shared: Default + Send + Sync;

    /// False if the session cannot be used again.
    fn is_usable(&self) -> bool;
}

/// A session whose calls do not start with a harmless command: a lost connection has to be noticed by a probe.
#[cfg(feature = "sftp")]
pub(crate) trait Probed: Pooled {
    /// Asks the server for an answer, with a request that changes nothing. Returns false if none comes.
    fn answers(&mut self) -> impl Future<Output = bool> + Send;
}

/// The pools of all connections, by name.
pub(crate) struct Pools<S: Pooled> {
    pools: Mutex<HashMap<String, Arc<Pool<S>>>>,
    /// Limits the unused sessions of all pools.
    kept: Arc<Semaphore>,
}

impl<S: Pooled> Default for Pools<S> {
    fn default() -> Self {
        Self { pools: Mutex::default(), kept: Arc::new(Semaphore::new(MAX_KEPT)) }
    }
}

/// The numbers of sessions of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// The largest number in use; `None` if the server alone limits it.
    pub used: Option<usize>,
    /// The largest number of unused ones.
    pub kept: usize,
}

/// The sessions of a connection to a server of files or mail: no limit on those in use; at most four wait for the next step.
#[cfg(any(feature = "mail", feature = "sftp"))]
pub(crate) const OF_SERVERS: Size = Size { used: None, kept: 4 };
/// The time for which each of them waits.
#[cfg(any(feature = "mail", feature = "sftp"))]
pub(crate) const OF_SERVERS_IDLE: Duration = Duration::from_secs(30);

/// The sessions of one connection, as long as its values stay the same.
pub(crate) struct Pool<S: Pooled> {
    /// A hash of the values.
    values: [u8; 32],
    slots: Option<Arc<Semaphore>>,
    max_kept: usize,
    idle: Mutex<Idle<S>>,
    /// Limits the unused sessions of all pools.
    kept: Arc<Semaphore>,
    pub shared: S::Shared,
}

struct Idle<S> {
    sessions: Vec<Kept<S>>,
    /// True while a task waits to close unused sessions.
    is_watched: bool,
}

/// An unused session.
struct Kept<S> {
    session: S,
    since: Instant,
    _place: OwnedSemaphorePermit,
}

/// The place of a session in use.
pub(crate) struct Lease<S: Pooled> {
    /// The session of an earlier call, until it is taken.
    pub session: Option<S>,
    pub pool: Arc<Pool<S>>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl<S: Pooled> Pools<S> {
    /// Takes a session of a connection, or the place for a new one.
    ///
    /// # Errors
    /// All sessions stay in use.
    pub(crate) async fn lease(
        &self,
        connection: &ResolvedConnection,
        size: Size,
    ) -> Result<Lease<S>, ActionError> {
        let pool = self.pool(connection, size);
        let slot = match &pool.slots {
            Some(slots) => Some(slot(slots, connection, size.used.unwrap_or_default()).await?),
            None => None,
        };
        let session = pool.take();
        Ok(Lease { session, pool, _slot: slot })
    }

    fn pool(&self, connection: &ResolvedConnection, size: Size) -> Arc<Pool<S>> {
        let values = Inputs(connection).digest();
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        // A pool whose sessions are gone and that nobody uses is made again when it is needed.
        pools.retain(|name, pool| *name == connection.name || Arc::strong_count(pool) > 1 || pool.has_idle());
        match pools.get(&connection.name) {
            Some(pool) if pool.values == values => pool.clone(),
            _ => {
                let pool = Arc::new(Pool {
                    values,
                    slots: size.used.map(|used| Arc::new(Semaphore::new(used))),
                    max_kept: size.kept,
                    idle: Mutex::new(Idle { sessions: Vec::new(), is_watched: false }),
                    kept: self.kept.clone(),
                    shared: S::Shared::default(),
                });
                // Sessions in use of the replaced pool are closed after their calls.
                if let Some(replaced) = pools.insert(connection.name.clone(), pool.clone()) {
                    replaced.close_all();
                }
                pool
            }
        }
    }
}

/// Waits until a session of a connection may be used.
async fn slot(
    slots: &Arc<Semaphore>,
    connection: &ResolvedConnection,
    size: usize,
) -> Result<OwnedSemaphorePermit, ActionError> {
    let slot = tokio::time::timeout(MAX_WAIT, slots.clone().acquire_owned()).await;
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
    Ok(slot)
}

impl<S: Pooled> Pool<S> {
    fn take(&self) -> Option<S> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        std::iter::from_fn(|| idle.sessions.pop()).find(|kept| kept.is_good(now)).map(|kept| kept.session)
    }

    fn has_idle(&self) -> bool {
        !self.idle.lock().unwrap_or_else(PoisonError::into_inner).sessions.is_empty()
    }

    /// Closes sessions that are unused for long at an instant. Returns true if others are left.
    fn close_unused(&self, now: Instant) -> bool {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.sessions.retain(|kept| kept.is_good(now));
        idle.is_watched = !idle.sessions.is_empty();
        idle.is_watched
    }

    /// Closes all unused sessions.
    pub(crate) fn close_all(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).sessions.clear();
    }
}

impl<S: Pooled> Kept<S> {
    fn is_good(&self, now: Instant) -> bool {
        self.session.is_usable() && now.saturating_duration_since(self.since) < S::MAX_IDLE
    }
}

impl<S: Pooled> Lease<S> {
    /// Keeps the session for the next call.
    pub(crate) fn keep(self, session: S) {
        if !session.is_usable() {
            return;
        }
        let Ok(place) = self.pool.kept.clone().try_acquire_owned() else { return };
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.sessions.len() >= self.pool.max_kept {
            return;
        }
        idle.sessions.push(Kept { session, since: Instant::now(), _place: place });
        if !std::mem::replace(&mut idle.is_watched, true) {
            tokio::spawn(watch(Arc::downgrade(&self.pool)));
        }
    }
}

#[cfg(feature = "sftp")]
impl<S: Probed> Lease<S> {
    /// Returns the session of an earlier call; if the server does not answer in it any more, the result of `open`.
    pub(crate) async fn session(
        &mut self,
        open: impl Future<Output = Result<S, ActionError>>,
    ) -> Result<S, ActionError> {
        if let Some(mut session) = self.session.take() {
            if tokio::time::timeout(PROBE_TIME, session.answers()).await == Ok(true) {
                return Ok(session);
            }
            // The others have most probably ended with it.
            self.pool.close_all();
        }
        open.await
    }
}

/// The time for the answer of a server to the request that finds out whether it still answers.
#[cfg(any(feature = "mail", feature = "sftp"))]
pub(crate) const PROBE_TIME: Duration = Duration::from_secs(5);

/// Closes the unused sessions of a pool until none is left.
async fn watch<S: Pooled>(pool: Weak<Pool<S>>) {
    loop {
        tokio::time::sleep(S::MAX_IDLE).await;
        if !pool.upgrade().is_some_and(|pool| pool.close_unused(Instant::now())) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use connector::Registry;
    use pretty_assertions::assert_eq;
    use value::{Map, Value};

    use super::*;

    /// A session that knows whether it is open and whether its server still answers.
    struct Fake {
        number: u32,
        answers: Arc<AtomicBool>,
        /// Has one reference for each open session.
        _open: Arc<()>,
    }

    impl Pooled for Fake {
        const MAX_IDLE: Duration = Duration::from_secs(30);
        type Shared = ();

        fn is_usable(&self) -> bool {
            true
        }
    }

    #[cfg(feature = "sftp")]
    impl Probed for Fake {
        async fn answers(&mut self) -> bool {
            self.answers.load(Ordering::Relaxed)
        }
    }

    /// A server with sessions that are numbered from 1.
    #[derive(Default)]
    struct Server {
        pools: Pools<Fake>,
        answers: Arc<AtomicBool>,
        open: Arc<()>,
        opened: std::sync::atomic::AtomicU32,
    }

    const SIZE: Size = Size { used: None, kept: 2 };

    impl Server {
        fn open(&self) -> Fake {
            let number = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
            Fake { number, answers: self.answers.clone(), _open: self.open.clone() }
        }

        fn open_count(&self) -> usize {
            Arc::strong_count(&self.open) - 1
        }

        async fn lease(&self, connection: &ResolvedConnection) -> (Lease<Fake>, Fake) {
            let mut lease =
                self.pools.lease(connection, SIZE).await.unwrap_or_else(|error| panic!("{error:?}"));
            let session = lease.session.take().unwrap_or_else(|| self.open());
            (lease, session)
        }

        /// Leaves unused sessions behind, as many as were in use at one time.
        async fn use_at_once(&self, connection: &ResolvedConnection, count: usize) {
            let mut all = Vec::new();
            for _ in 0..count {
                all.push(self.lease(connection).await);
            }
            for (lease, session) in all {
                lease.keep(session);
            }
        }
    }

    fn connection(name: &str, password: &str) -> ResolvedConnection {
        let registry = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
        let registry = crate::register(registry).unwrap_or_else(|report| panic!("{}", report.render(false)));
        let with = Map::from_iter([
            ("host", Value::from("db.example.com")),
            ("database", Value::from("books")),
            ("user", Value::from("cogwork")),
            ("password", Value::from(password)),
        ]);
        let kind = registry.connection_type("sql.postgres").expect("a type");
        kind.resolve(name, &with).unwrap_or_else(|_| panic!("the inputs are good"))
    }

    #[tokio::test]
    async fn a_session_is_kept_for_the_next_call_until_it_is_unused_for_long() {
        let (server, box_one) = (Server::default(), connection("box", "a"));
        server.use_at_once(&box_one, 1).await;
        let (lease, session) = server.lease(&box_one).await;
        assert_eq!((session.number, server.open_count()), (1, 1));
        lease.keep(session);
        let (pool, now) = (server.pools.pool(&box_one, SIZE), Instant::now());
        assert!(pool.close_unused(now + Fake::MAX_IDLE - Duration::from_secs(1)));
        assert!(!pool.close_unused(now + Fake::MAX_IDLE + Duration::from_secs(1)));
        assert_eq!(server.open_count(), 0);
    }

    #[tokio::test]
    async fn unused_sessions_have_a_limit_for_each_connection_and_for_all() {
        let server = Server::default();
        server.use_at_once(&connection("box", "a"), SIZE.kept + 3).await;
        assert_eq!(server.open_count(), SIZE.kept);
        for number in 0..MAX_KEPT {
            server.use_at_once(&connection(&number.to_string(), "a"), 1).await;
        }
        assert_eq!(server.open_count(), MAX_KEPT);
        // Sessions in use have left their places to others.
        let (lease, session) = server.lease(&connection("box", "a")).await;
        server.use_at_once(&connection("other", "a"), 1).await;
        lease.keep(session);
        assert_eq!(server.open_count(), MAX_KEPT);
    }

    #[tokio::test]
    async fn a_connection_with_other_values_has_other_sessions_and_the_old_ones_end() {
        let server = Server::default();
        let (lease, used) = server.lease(&connection("box", "a")).await;
        server.use_at_once(&connection("box", "a"), 1).await;
        assert_eq!(server.open_count(), 2);
        let (other, session) = server.lease(&connection("box", "b")).await;
        assert_eq!((session.number, server.open_count()), (3, 2), "the unused one has ended");
        lease.keep(used);
        assert_eq!(server.open_count(), 1, "the one in use ends with its call");
        other.keep(session);
        assert_eq!(server.lease(&connection("box", "b")).await.1.number, 3);
        drop(server.pools);
        assert_eq!(Arc::strong_count(&server.open), 1, "all end with the connector");
    }

    #[cfg(feature = "sftp")]
    #[tokio::test]
    async fn a_session_that_does_not_answer_ends_with_all_unused_ones_and_another_is_opened() {
        let (server, values) = (Server::default(), connection("box", "a"));
        server.answers.store(true, Ordering::Relaxed);
        server.use_at_once(&values, 2).await;
        for (answers, numbers) in [(true, [1, 2]), (false, [3, 4])] {
            server.answers.store(answers, Ordering::Relaxed);
            let mut lease =
                server.pools.lease(&values, SIZE).await.unwrap_or_else(|error| panic!("{error:?}"));
            let session =
                lease.session(async { Ok(server.open()) }).await.unwrap_or_else(|error| panic!("{error:?}"));
            assert!(numbers.contains(&session.number), "{}", session.number);
            lease.keep(session);
            assert_eq!(server.open_count(), if answers { 2 } else { 1 });
        }
    }
}
