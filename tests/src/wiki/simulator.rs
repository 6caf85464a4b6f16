//! Starting, steering and stopping a simulator.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::clock::{Clock, Moment};
use super::core::Core;
use super::demo::{self, CLOUD_ID, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_EMAIL, DEMO_TOKEN, FIRST_ID};
use super::error::{ApiError, Error};
use super::faults::{Fault, Script};
use super::graphql::{GraphqlAnswer, built_in};
use super::limits::{Limits, RateLimit};
use super::log::{Log, LoggedRequest};
use super::oauth::{App, Lifetimes, OAuth, Site, Tokens};
use super::pipeline::Shared;
use super::serve::serve;
use super::state::{State, Switches};
use super::users::User;

/// When the clock of a simulator begins, unless it is told otherwise: 2026-01-15T09:00:00Z.
const START_MS: i64 = 1_768_467_600_000;
/// How long to wait for something that a test expects.
const PATIENCE: Duration = Duration::from_secs(30);

/// The wiki, in this process or as a program of its own.
#[derive(Debug)]
pub struct Simulator;

impl Simulator {
    /// A simulator with one user ([`DEMO_EMAIL`]), one OAuth client ([`DEMO_CLIENT_ID`]), one site, a clock that stands
    /// still, and nothing in it.
    pub fn builder() -> Builder {
        Builder {
            clock: Clock::fixed(Moment::from_millis(START_MS)),
            first_id: FIRST_ID,
            users: vec![demo::demo_user()],
            sites: vec![Site { cloud_id: CLOUD_ID.to_owned(), name: "demo".to_owned() }],
            oauth: OAuth::default(),
            switches: Switches::default(),
            listen: "127.0.0.1:0".to_owned(),
            admin: false,
            demo: false,
            seeds: Vec::new(),
        }
    }
}

type Seed = Box<dyn FnOnce(&mut State) -> Result<(), Error> + Send>;

/// A simulator that has not been started.
pub struct Builder {
    clock: Clock,
    first_id: u64,
    users: Vec<User>,
    sites: Vec<Site>,
    oauth: OAuth,
    switches: Switches,
    listen: String,
    admin: bool,
    demo: bool,
    seeds: Vec<Seed>,
}

impl Builder {
    /// Sets the clock.
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Sets the first id. By default ids begin above 2^32; above 2^53 no reader that goes through a float survives.
    #[must_use]
    pub fn first_id(self, first_id: u64) -> Self {
        Self { first_id, ..self }
    }

    /// Adds a user.
    #[must_use]
    pub fn user(mut self, user: User) -> Self {
        self.users.push(user);
        self
    }

    /// Adds a site to the gateway. It serves the same content under another cloud id.
    #[must_use]
    pub fn site(mut self, cloud_id: &str, name: &str) -> Self {
        self.sites.push(Site { cloud_id: cloud_id.to_owned(), name: name.to_owned() });
        self
    }

    /// Adds an OAuth client that may send users back to these addresses; to any when there are none.
    #[must_use]
    pub fn oauth_client(mut self, client_id: &str, client_secret: &str, redirect_uris: &[&str]) -> Self {
        self.oauth.apps.push(App {
            client_id: client_id.to_owned(),
            client_secret: client_secret.to_owned(),
            redirect_uris: redirect_uris.iter().map(|uri| (*uri).to_owned()).collect(),
        });
        self
    }

    /// Sets how long tokens last.
    #[must_use]
    pub fn lifetimes(mut self, lifetimes: Lifetimes) -> Self {
        self.oauth.lifetimes = lifetimes;
        self
    }

    /// Sets the switches.
    #[must_use]
    pub fn switches(self, switches: Switches) -> Self {
        Self { switches, ..self }
    }

    /// Listens on this address. Port 0 takes a free one.
    #[must_use]
    pub fn listen(self, address: &str) -> Self {
        Self { listen: address.to_owned(), ..self }
    }

    /// Opens the control API under `/_sim/`, to callers on this machine only.
    #[must_use]
    pub fn admin(self, open: bool) -> Self {
        Self { admin: open, ..self }
    }

    /// Fills the wiki with the demo site.
    #[must_use]
    pub fn demo(self) -> Self {
        Self { demo: true, ..self }
    }

    /// Fills the wiki with whatever the function puts into it.
    #[must_use]
    pub fn seed(mut self, seed: impl FnOnce(&mut State) -> Result<(), Error> + Send + 'static) -> Self {
        self.seeds.push(Box::new(seed));
        self
    }

    /// Seeds and listens.
    ///
    /// # Errors
    /// When the address cannot be listened on, or a seed breaks a rule of the wiki.
    pub async fn start(mut self) -> Result<Running, Error> {
        self = self.oauth_client(DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, &[]);
        let mut state = State::new(self.clock, self.first_id, self.users);
        state.switches = self.switches;
        if self.demo {
            demo::fill(&mut state)?;
        }
        for seed in self.seeds {
            seed(&mut state)?;
        }
        let failed = |source| Error::Listen { address: self.listen.clone(), source };
        let listener = TcpListener::bind(&self.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        state.base_url = format!("http://{address}");
        let core = Core {
            state,
            oauth: self.oauth,
            graphql: built_in(),
            limits: Limits::default(),
            script: Script::default(),
            log: Log::default(),
            sites: self.sites,
            resources: None,
            // Another name for the same machine: a client that keeps secrets to one host must notice the change.
            media_url: format!("http://localhost:{}", address.port()),
            held: 0,
        };
        let shared = Arc::new(Shared::new(core, self.admin));
        let handle = Handle { shared: shared.clone(), base_url: format!("http://{address}") };
        let server = tokio::spawn(serve(listener, shared));
        Ok(Running { handle, server })
    }
}

/// A simulator that is running. Dropping it stops it; [`Running::stop`] also waits for its end.
#[derive(Debug)]
pub struct Running {
    handle: Handle,
    server: JoinHandle<()>,
}

impl Running {
    /// Stops listening, ends every connection, and returns when all is quiet.
    pub async fn stop(mut self) {
        self.handle.shared.stop.cancel();
        // An error here is a panic of the listener, of which nobody is left to hear.
        let _ = (&mut self.server).await;
    }

    /// A handle that can be given away.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.shared.stop.cancel();
    }
}

impl Deref for Running {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

/// The strings of a running simulator: cheap to clone, good in any task.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
    base_url: String,
}

impl Handle {
    /// The address of the site, `http://127.0.0.1:port`: Basic authentication, `/wiki/api/v2/...`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The address of the gateway: bearer tokens, `/ex/wiki/{cloudId}/wiki/api/v2/...`. The same origin as the site.
    pub fn gateway_url(&self) -> &str {
        &self.base_url
    }

    /// The address of the identity provider: `/authorize` and `/oauth/token`. The same origin as the site.
    pub fn auth_url(&self) -> &str {
        &self.base_url
    }

    /// The base of the API on the site.
    pub fn site_api(&self) -> String {
        format!("{}/wiki/api/v2", self.base_url)
    }

    /// The base of the API on the gateway.
    pub fn gateway_api(&self) -> String {
        format!("{}/ex/wiki/{}/wiki/api/v2", self.base_url, self.cloud_id())
    }

    /// The cloud id of the site.
    pub fn cloud_id(&self) -> String {
        self.shared.core().sites.first().map(|site| site.cloud_id.clone()).unwrap_or_default()
    }

    /// E-mail address and API token of the user who may do everything.
    pub fn credentials(&self) -> (&'static str, &'static str) {
        (DEMO_EMAIL, DEMO_TOKEN)
    }

    /// Reads or changes the wiki itself.
    pub fn seed<T>(&self, seed: impl FnOnce(&mut State) -> T) -> T {
        seed(&mut self.shared.core().state)
    }

    /// The current time in the wiki.
    pub fn now(&self) -> Moment {
        self.shared.core().state.clock.now()
    }

    /// Moves the clock of the wiki forwards.
    pub fn advance(&self, by: Duration) {
        self.shared.core().state.clock.advance(by);
    }

    /// The switches as they stand.
    pub fn switches(&self) -> Switches {
        self.shared.core().state.switches.clone()
    }

    /// Changes switches.
    pub fn switch(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.shared.core().state.switches);
    }

    /// Sets or lifts the budget of requests per credential.
    pub fn rate_limit(&self, limit: Option<RateLimit>) {
        self.shared.core().limits.set(limit);
    }

    /// Adds a fault to the script.
    ///
    /// # Errors
    /// When a thousand are waiting already.
    pub fn fault(&self, fault: Fault) -> Result<(), Error> {
        self.shared.core().script.add(fault)
    }

    /// The faults that are still to come.
    pub fn pending_faults(&self) -> Vec<Fault> {
        self.shared.core().script.pending()
    }

    /// Forgets every fault.
    pub fn clear_faults(&self) {
        self.shared.core().script.clear();
    }

    /// Releases every call that a fault is holding.
    pub fn release(&self) {
        self.shared.release.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// How many calls are being held.
    pub fn held(&self) -> usize {
        self.shared.core().held
    }

    /// Waits until this many calls are being held.
    ///
    /// # Errors
    /// After 30 s in vain.
    pub async fn wait_for_held(&self, count: usize) -> Result<(), Error> {
        self.wait_until(&format!("{count} held calls"), || self.held() >= count).await
    }

    /// Waits until no call is being held.
    ///
    /// # Errors
    /// After 30 s in vain.
    pub async fn wait_until_none_is_held(&self) -> Result<(), Error> {
        self.wait_until("no held calls", || self.held() == 0).await
    }

    /// The requests so far, oldest first. The last 10,000 are remembered; those of the control API are left out.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.shared.core().log.requests().cloned().collect()
    }

    /// The requests of a method (or `*`) to a path pattern (`*` stands for any run of characters).
    pub fn requests_to(&self, method: &str, path: &str) -> Vec<LoggedRequest> {
        self.shared.core().log.requests().filter(|request| request.is(method, path)).cloned().collect()
    }

    /// How many requests of a method (or `*`) to a path pattern there were among those remembered.
    pub fn count(&self, method: &str, path: &str) -> usize {
        self.shared.core().log.requests().filter(|request| request.is(method, path)).count()
    }

    /// Waits until there were this many requests of a method to a path pattern.
    ///
    /// # Errors
    /// After 30 s in vain.
    pub async fn wait_for_requests(&self, method: &str, path: &str, count: usize) -> Result<(), Error> {
        let what = format!("{count} requests {method} {path}");
        self.wait_until(&what, || self.count(method, path) >= count).await
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.shared.core().log.clear();
    }

    /// Hands out tokens for the first user, as a consent to these scopes (space-separated) would.
    pub fn grant(&self, scopes: &str) -> Tokens {
        let mut core = self.shared.core();
        let account = core.state.seeding_account();
        let now = core.state.clock.now();
        core.oauth.grant(DEMO_CLIENT_ID, &account, scopes, now)
    }

    /// Hands out tokens for a user and a client.
    ///
    /// # Errors
    /// When no user has this e-mail address.
    pub fn grant_to(&self, client_id: &str, email: &str, scopes: &str) -> Result<Tokens, Error> {
        let mut core = self.shared.core();
        let account = core.state.account_id(email).ok_or_else(ApiError::not_found)?.to_owned();
        let now = core.state.clock.now();
        Ok(core.oauth.grant(client_id, &account, scopes, now))
    }

    /// Takes back every consent: access tokens stop working, and refreshing answers `invalid_grant`.
    pub fn revoke_grants(&self) {
        self.shared.core().oauth.revoke_all();
    }

    /// How many refreshes have succeeded.
    pub fn refreshes(&self) -> u64 {
        self.shared.core().oauth.refreshes()
    }

    /// Sets what `/oauth/token/accessible-resources` answers; `None` goes back to the list of the sites.
    pub fn accessible_resources(&self, answer: Option<Value>) {
        self.shared.core().resources = answer;
    }

    /// Registers the answer to a GraphQL operation, by its name or by the whole text of the query.
    ///
    /// # Errors
    /// When a thousand are registered already.
    pub fn graphql(&self, operation: &str, answer: GraphqlAnswer) -> Result<(), Error> {
        self.shared.core().graphql.register(operation, answer)
    }

    async fn wait_until(&self, what: &str, reached: impl Fn() -> bool) -> Result<(), Error> {
        let mut activity = self.shared.activity.subscribe();
        let wait = activity.wait_for(|_| reached());
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::WaitedInVain { seconds: PATIENCE.as_secs(), what: what.to_owned() }),
        }
    }
}
