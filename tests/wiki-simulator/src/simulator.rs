//! Starting, controlling and stopping a simulator.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::call::Error;
use super::faults::Fault;
use super::model::{Clock, Moment, State, Switches};
use super::seed::{self, FIRST_ID};
use super::server::{Shared, serve};
use super::traffic::{LoggedRequest, RateLimit};

/// The start of a simulator's clock by default: 2026-01-15T09:00:00Z.
const START_MS: i64 = 1_768_467_600_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// The wiki, in this process or as a program of its own.
#[derive(Debug)]
pub struct Simulator;

impl Simulator {
    /// An empty simulator with one user ([`super::DEMO_EMAIL`]), one OAuth client ([`super::DEMO_CLIENT_ID`]) and a fixed
    /// clock.
    pub fn builder() -> Builder {
        let clock = Clock::fixed(Moment::from_millis(START_MS));
        let state = State { clock, next_id: FIRST_ID, ..State::default() };
        Builder { state, listen: "127.0.0.1:0".to_owned(), demo: false }
    }
}

/// A simulator that has not been started.
pub struct Builder {
    state: State,
    listen: String,
    demo: bool,
}

impl Builder {
    /// Sets the clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.state.clock = clock;
        self
    }

    /// Sets the first id. By default ids begin above 2^32; above 2^53 no reader that goes through a float survives.
    pub fn first_id(mut self, first_id: u64) -> Self {
        self.state.next_id = first_id;
        self
    }

    /// Sets the switches.
    pub fn switches(mut self, switches: Switches) -> Self {
        self.state.switches = switches;
        self
    }

    /// Listens on this address. Port 0 takes a free one.
    pub fn listen(self, address: &str) -> Self {
        Self { listen: address.to_owned(), ..self }
    }

    /// Adds the content of the demo site.
    pub fn demo(self) -> Self {
        Self { demo: true, ..self }
    }

    /// Listens, and fails when the address is taken.
    pub async fn start(self) -> Result<Running, Error> {
        let failed = |error| Error(format!("cannot listen on `{}`: {error}", self.listen));
        let listener = TcpListener::bind(&self.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let base_url = format!("http://{address}");
        // Another name for the same machine: a client that keeps secrets to one host must notice the change.
        let media_url = format!("http://localhost:{}", address.port());
        let mut state = State { base_url: base_url.clone(), media_url, ..self.state };
        if self.demo {
            seed::demo(&mut state)?;
        }
        let shared = Arc::new(Shared::new(state));
        let server = tokio::spawn(serve(listener, shared.clone()));
        Ok(Running { shared, base_url, server })
    }
}

/// A running simulator. Dropping it stops it; [`Running::stop`] also waits for its end.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    base_url: String,
    server: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Running {
    /// Stops listening and ends every connection.
    pub async fn stop(mut self) {
        self.server.abort();
        let _ = (&mut self.server).await;
    }

    /// The address of the site, the gateway and the identity provider: `http://127.0.0.1:port`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Reads or changes the state of the wiki.
    pub fn seed<T>(&self, seed: impl FnOnce(&mut State) -> T) -> T {
        seed(&mut self.shared.state())
    }

    /// The current time in the wiki.
    pub fn now(&self) -> Moment {
        self.shared.state().clock.now()
    }

    /// Moves the clock of the wiki forwards.
    pub fn advance(&self, by: Duration) {
        self.shared.state().clock.advance(by);
    }

    /// Changes switches.
    pub fn switch(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.shared.state().switches);
    }

    /// Sets or lifts the budget of requests per credential.
    pub fn rate_limit(&self, limit: Option<RateLimit>) {
        self.shared.state().limits.set(limit);
    }

    /// Adds a fault to the script.
    pub fn fault(&self, fault: Fault) -> Result<(), Error> {
        self.shared.state().script.add(fault)
    }

    /// Releases every call that a fault holds.
    pub fn release(&self) {
        self.shared.releases.send_modify(|count| *count += 1);
    }

    /// Waits until this many calls are held.
    pub async fn wait_for_held(&self, count: usize) -> Result<(), Error> {
        let mut held = self.shared.held.subscribe();
        let reached = tokio::time::timeout(PATIENCE, held.wait_for(|held| *held == count)).await;
        reached.map(drop).map_err(|_| Error(format!("waited for {count} held calls in vain")))
    }

    /// The last 1,000 requests, oldest first.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.requests_to("*", "*")
    }

    /// The requests of a method (or `*`) to a path pattern (`*` stands for any run of characters).
    pub fn requests_to(&self, method: &str, path: &str) -> Vec<LoggedRequest> {
        let state = self.shared.state();
        state.log.requests.iter().filter(|request| request.is(method, path)).cloned().collect()
    }

    /// The number of requests of a method (or `*`) to a path pattern.
    pub fn count(&self, method: &str, path: &str) -> usize {
        self.requests_to(method, path).len()
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.shared.state().log.requests.clear();
    }

    /// An access token and a refresh token of the user, as after a consent to these scopes (space-separated).
    pub fn grant(&self, scopes: &str) -> (String, String) {
        let state = &mut *self.shared.state();
        let tokens = state.oauth.consent(scopes, state.clock.now());
        let text = |name: &str| tokens[name].as_str().unwrap_or_default().to_owned();
        (text("access_token"), text("refresh_token"))
    }

    /// Revokes every consent: access tokens stop working, and refreshing answers `invalid_grant`.
    pub fn revoke_grants(&self) {
        self.shared.state().oauth.revoke_all();
    }

    /// The number of refreshes that have succeeded.
    pub fn refreshes(&self) -> u64 {
        self.shared.state().oauth.refreshes
    }

    /// Sets the answer of `/oauth/token/accessible-resources`; `None` returns to the list of the sites.
    pub fn accessible_resources(&self, answer: Option<Value>) {
        self.shared.state().resources = answer;
    }
}
