//! The providers of a process, and the task that reads their secrets ahead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use connector::secret_provider::{Credentials, ProvidedSecret, ProviderClient};
use connector::{AllowList, Http, HttpOptions};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use value::redact::Redactor;

use super::provider::{Backend, Found, Means, Provider, Report, State};
use super::sources::{SecretSources, SourceRule};
use super::{ProviderNetwork, Secrets};
use crate::clock::{Clock, SystemClock};
use crate::error::Error;

/// The number of secrets that are read ahead at a time.
const AHEAD: usize = 8;
/// The number of names that may wait for being read again; further ones ask at their next use.
const WAITING: usize = 64;

/// The providers of a process, and the order of all sources.
pub(super) struct Providers {
    sources: SecretSources,
    providers: BTreeMap<String, Provider>,
    network: ProviderNetwork,
    redactor: Redactor,
    clock: Arc<dyn Clock>,
    /// The client, made at the first request; the reason if it cannot be made.
    http: OnceLock<Result<Http, String>>,
    /// The names whose answers are to be read again.
    aging: mpsc::Sender<String>,
    /// Taken by the task that reads ahead.
    waiting: Mutex<Option<mpsc::Receiver<String>>>,
}

impl Providers {
    /// No provider, and the usual order of sources.
    pub(super) fn none() -> Self {
        let (network, redactor) = (ProviderNetwork::default(), Redactor::default());
        Self::new(&SecretSources::default(), network, redactor, Arc::new(SystemClock))
    }

    pub(super) fn new(
        sources: &SecretSources,
        network: ProviderNetwork,
        redactor: Redactor,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let client = |(name, settings): (&String, _)| {
            let backend = Backend::Client(Box::new(ProviderClient::new(name, settings)));
            (name.clone(), Provider::new(name, backend, sources))
        };
        let mut providers: BTreeMap<String, Provider> =
            sources.providers.iter().map(|(name, settings)| client((name, settings.clone()))).collect();
        if let Some(command) = &sources.command {
            let name = SecretSources::COMMAND;
            let provider = Provider::new(name, Backend::Command(command.clone()), sources);
            providers.insert(name.to_owned(), provider);
        }
        let (aging, waiting) = mpsc::channel(WAITING);
        let (http, waiting) = (OnceLock::new(), Mutex::new(Some(waiting)));
        Self { sources: sources.clone(), providers, network, redactor, clock, http, aging, waiting }
    }

    /// Returns the sources in the order in which they are read.
    pub(super) fn order(&self) -> &[SourceRule] {
        &self.sources.order
    }

    /// Returns true if one of the sources is a provider.
    pub(super) fn exist(&self) -> bool {
        self.sources.has_providers()
    }

    /// Returns the state of a secret, without a request.
    pub(super) fn state(&self, provider: &str, name: &str) -> State {
        match self.providers.get(provider) {
            Some(provider) => provider.state(name, self.clock.monotonic_now()),
            None => State::Failing(Err(unknown(provider))),
        }
    }

    /// Reads a secret from memory, or asks its provider.
    pub(super) async fn read(
        &self,
        provider: &str,
        name: &str,
        credentials: &dyn Credentials,
    ) -> Result<Found, Error> {
        let known = self.provider(provider)?;
        let requests = known.requests(name);
        match known.state(name, self.clock.monotonic_now()) {
            State::Fresh(found) => Ok(found),
            State::Aging(found) => {
                // If too many wait already, the next use tries again.
                let _ = self.aging.try_send(name.to_owned());
                Ok(found)
            }
            State::Failing(answer) => answer.map_err(Error::SecretProvider),
            // Nobody waits for a provider that fails while a task asks it.
            State::Kept(found) if self.has_task() => {
                let _ = self.aging.try_send(name.to_owned());
                Ok(found)
            }
            // Boxed, since it is large and rare.
            State::Kept(_) | State::Unknown => {
                Box::pin(known.ask(name, requests, &self.means(credentials))).await
            }
        }
    }

    /// Returns true if a read of the secret would ask its provider and wait.
    pub(super) fn would_ask(&self, provider: &str, name: &str) -> bool {
        match self.state(provider, name) {
            State::Unknown => true,
            State::Kept(_) => !self.has_task(),
            State::Fresh(_) | State::Aging(_) | State::Failing(_) => false,
        }
    }

    /// True if a task of this process reads secrets ahead.
    fn has_task(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Reads a secret again whose login was refused.
    pub(super) async fn renew(&self, provider: &str, name: &str, credentials: &dyn Credentials) {
        let Ok(known) = self.provider(provider) else { return };
        let (State::Fresh(used) | State::Aging(used) | State::Kept(used) | State::Failing(Ok(used))) =
            self.state(provider, name)
        else {
            return;
        };
        if used.is_some() {
            known.renew(name, &self.means(credentials)).await;
        }
    }

    /// Returns the version of a secret before the present one.
    pub(super) fn previous(&self, provider: &str, name: &str) -> Option<Arc<ProvidedSecret>> {
        self.providers.get(provider)?.previous(name)
    }

    /// Returns what people may know of a secret; `None` if its provider has not been asked.
    pub(super) fn report(&self, provider: &str, name: &str) -> Option<Report> {
        self.providers.get(provider)?.report(name)
    }

    fn provider(&self, name: &str) -> Result<&Provider, Error> {
        self.providers.get(name).ok_or_else(|| Error::SecretProvider(unknown(name)))
    }

    fn means<'a>(&'a self, credentials: &'a dyn Credentials) -> Means<'a> {
        let http = self.http.get_or_init(|| self.client(credentials)).as_ref().map_err(String::as_str);
        Means { http, credentials, clock: &*self.clock }
    }

    /// Makes the client of all providers. The hosts of their settings are allowed, and the host that gives the keys of a pod's role.
    fn client(&self, credentials: &dyn Credentials) -> Result<Http, String> {
        let mut hosts = BTreeSet::new();
        for settings in self.sources.providers.values() {
            let addresses = settings.addresses(credentials)?;
            hosts.extend(addresses.iter().filter_map(|address| address.host_str().map(str::to_owned)));
        }
        let allowed = hosts.iter().chain(&self.network.allow).map(String::as_str);
        let options = HttpOptions {
            allow: AllowList::parse(allowed).map_err(|error| error.to_string())?,
            blocked_own: self.network.own.clone(),
            blocked_servers: self.network.servers.clone(),
            timeout: self.sources.timeout,
            redactor: self.redactor.clone(),
            ..HttpOptions::default()
        };
        Http::new(options).map_err(|error| error.to_string())
    }
}

fn unknown(provider: &str) -> String {
    format!("the settings have no secret provider `{provider}`")
}

impl Secrets {
    /// Reads the secrets that `required` names at the start and whenever the generation changes, and those whose answers age, until the
    /// engine stops. So reads of a running daemon seldom wait, and lists show the state of each provider.
    pub(crate) async fn read_ahead(
        &self,
        mut generation: watch::Receiver<u64>,
        required: impl Fn() -> BTreeSet<String>,
        closing: CancellationToken,
    ) {
        let waiting = self.providers.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut waiting) = waiting else { return };
        let mut names: VecDeque<String> = required().into_iter().collect();
        // One request at a time for a name: while a provider hangs, those for one name must not hold up the others.
        let mut asked = BTreeSet::new();
        let read = |name: String| async move {
            self.refresh(&name).await;
            name
        };
        let mut reads = FuturesUnordered::new();
        loop {
            while reads.len() < AHEAD
                && let Some(name) = names.pop_front()
            {
                if asked.insert(name.clone()) {
                    reads.push(read(name));
                }
            }
            tokio::select! {
                biased;
                () = closing.cancelled() => return,
                Some(name) = reads.next() => drop(asked.remove(&name)),
                changed = generation.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    names = required().into_iter().collect();
                }
                Some(name) = waiting.recv(), if reads.len() < AHEAD => names.push_back(name),
            }
        }
    }

    /// Reads the answers of the providers that a secret may come from, and asks those whose answers age. Failures are recorded and
    /// logged where they occur.
    async fn refresh(&self, name: &str) {
        for rule in self.sources_of(name) {
            let super::SourceKind::Provider(provider) = &rule.source else {
                if self.local.read(&rule.source, name).is_ok_and(|found| found.is_none()) {
                    continue;
                }
                return;
            };
            let Ok(known) = self.providers.provider(provider) else { return };
            let requests = known.requests(name);
            let answer = match self.providers.state(provider, name) {
                State::Fresh(found) => Ok(found),
                State::Failing(answer) => answer.map_err(Error::SecretProvider),
                State::Aging(_) | State::Kept(_) | State::Unknown => {
                    known.ask(name, requests, &self.providers.means(&*self.local)).await
                }
            };
            if !matches!(answer, Ok(None)) {
                return;
            }
        }
    }

    /// Asks the providers for these secrets, [`AHEAD`] at a time, for a list in a process without the task.
    pub async fn read_all(&self, names: &BTreeSet<String>) {
        let reads = futures_util::stream::iter(names).map(|name| self.refresh(name));
        reads.buffer_unordered(AHEAD).collect::<()>().await;
    }
}
