//! The state that the routes share.

use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use http::StatusCode;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use value::Secret;

use super::Problem;
use super::auth::login::Provider;
use super::auth::session::Sessions;
use super::auth::tokens::Tokens;
use super::operations::stream::Hub;
use crate::Error;
use crate::audit::AuditLog;
use crate::options::Addresses;
use crate::options::ServerOptions;

/// The time that the check of a text waits for a permit.
const CHECK_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of event streams at one time.
const STREAMS: usize = 64;

/// The state that the routes share.
pub(crate) struct Api {
    pub(crate) engine: Engine,
    pub(crate) addresses: Addresses,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) audit: Arc<AuditLog>,
    /// The identity provider at which people log in, if there is one.
    pub(crate) provider: Option<Provider>,
    /// The time limit of a run that a request waits for.
    pub(crate) wait: Duration,
    /// True if changes of project files are refused.
    pub(crate) read_only: bool,
    pub(crate) streams: Arc<Semaphore>,
    /// Turns to check texts, which is work for a processor.
    checks: Arc<Semaphore>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) closing: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Api {
    pub(crate) fn new(
        engine: Engine,
        options: &ServerOptions,
        token: &Secret,
        addresses: Addresses,
        audit: Arc<AuditLog>,
        closing: CancellationToken,
        tasks: TaskTracker,
    ) -> Result<Self, Error> {
        let streams = Arc::new(Semaphore::new(STREAMS));
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let checks = Arc::new(Semaphore::new(processors));
        let (store, clock) = (engine.store(), engine.clock());
        let tokens = Tokens::new(store.clone(), clock.clone());
        let port = addresses.admin.port();
        let provider = options.login.clone().map(|login| Provider::new(login, port)).transpose()?;
        let rules = provider.as_ref().map(Provider::rules);
        let sessions = Sessions::new(store.clone(), clock.clone(), tokens.clone(), port, rules, token);
        Ok(Self {
            engine,
            addresses,
            sessions,
            tokens,
            audit,
            provider,
            wait: options.wait,
            read_only: options.read_only,
            streams,
            checks,
            hub: Arc::new(Hub::new()),
            closing,
            tasks,
        })
    }

    /// Checks a text on a thread that may block. As many are checked at a time as there are processors; the others wait for
    /// [`CHECK_PATIENCE`], then they get 503.
    pub(crate) async fn check<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = Arc::clone(&self.checks).acquire_owned();
        let turn = in_turn(turn, CHECK_PATIENCE, "other texts are checked; try again").await?;
        let turn = turn.map_err(|error| Problem::internal(&error))?;
        let work = move || {
            let _turn = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(&error))
    }

    /// Runs an operation to its end, even if the client disconnects.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        self.tasks.spawn(work).await.map_err(|error| Problem::internal(&error))
    }
}

/// Waits for a turn; 503 with this detail if it does not come within `patience`.
async fn in_turn<T>(
    turn: impl Future<Output = T>,
    patience: Duration,
    detail: &'static str,
) -> Result<T, Problem> {
    tokio::time::timeout(patience, turn).await.map_err(|_| {
        let busy = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail);
        Problem { retry_after: Some(patience.as_secs()), ..busy }
    })
}

/// The state that axum hands to every route.
pub(crate) type Shared = axum::extract::State<Arc<Api>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_without_a_permit_in_time_gets_503() {
        let turns = Arc::new(Semaphore::new(1));
        let turn = |patience| in_turn(Arc::clone(&turns).acquire_owned(), patience, "others are first");
        let held = turn(CHECK_PATIENCE).await.expect("it is free");
        let refused = turn(Duration::ZERO).await.expect_err("it is taken");
        assert_eq!((refused.status, refused.code.as_str()), (503, "busy"));
        drop(held);
        assert!(turn(Duration::ZERO).await.is_ok());
    }
}
