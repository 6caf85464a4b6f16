//! The memory of one provider: the last answers, and when to ask again.
//!
//! An answer is used for `keep`, at most for its lease. From 80 % on a task asks again while the answer is still used. While the provider
//! fails, the answer is used until `keepOnError`, and the provider is asked again after some seconds. There is one request at a time for
//! a name, and each ends within the time limit. Answers are in memory only, and cleared when they are dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use connector::Http;
use connector::secret_provider::{Credentials, ProvidedSecret, ProviderClient};
use jiff::Timestamp;

use super::command;
use super::sources::SecretSources;
use crate::clock::{Clock, MonotonicTime};
use crate::error::Error;
use crate::locks::KeyedLocks;

/// The time for which the absence of a secret is believed: somebody may just be setting it.
const KEEP_ABSENT: Duration = Duration::from_secs(10);
/// The time between two requests to a provider that fails.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// The age from which a refused login makes a value be read again.
const RENEW_AFTER: Duration = Duration::from_secs(1);
/// The longest time between two reads of a value whose login stays refused.
const MAX_RENEW_PAUSE: Duration = Duration::from_secs(60);
/// The share of its time after which an answer is read again, in percent.
const REFRESH_AT_PERCENT: u32 = 80;
/// Maximum number of names; a further one evicts the name that was used least recently.
const MAX_NAMES: usize = 1000;

/// A secret as it was answered; `None` without a secret of this name.
pub(super) type Found = Option<Arc<ProvidedSecret>>;

/// A provider or a program.
pub(super) enum Backend {
    /// A service.
    Client(Box<ProviderClient>),
    /// The program with its arguments.
    Command(Vec<String>),
}

/// The means by which providers are asked.
pub(super) struct Means<'a> {
    pub(super) http: Result<&'a Http, &'a str>,
    pub(super) credentials: &'a dyn Credentials,
    pub(super) clock: &'a dyn Clock,
}

/// A provider with its answers.
pub(super) struct Provider {
    /// Its kind and name, such as `vault:corp`.
    pub(super) name: String,
    backend: Backend,
    keep: Duration,
    keep_on_error: Duration,
    timeout: Duration,
    entries: Mutex<HashMap<String, Entry>>,
    /// Serialises the requests for a name.
    asking: KeyedLocks,
    /// The last request to the service without an answer in time; `None` once there is one.
    hang: Mutex<Option<Failure>>,
}

/// The knowledge of one name.
#[derive(Default)]
struct Entry {
    answer: Option<Answer>,
    /// The version before, which stays registered with the redactor.
    previous: Option<Arc<ProvidedSecret>>,
    /// The failure of the last request; `None` if it was answered.
    failure: Option<Failure>,
    used: Option<MonotonicTime>,
    /// The number of requests that have ended.
    requests: u64,
    /// The last read after a refused login that gave the same value; `None` if it gave another.
    renewal: Option<Renewal>,
}

/// A read after a refused login that gave the value that was refused.
#[derive(Clone, Copy)]
struct Renewal {
    at: MonotonicTime,
    /// The time until a refused login makes the value be read once more. It doubles each time.
    pause: Duration,
}

#[derive(Clone)]
struct Answer {
    found: Found,
    at: MonotonicTime,
    read_at: Timestamp,
}

#[derive(Clone)]
struct Failure {
    message: String,
    at: MonotonicTime,
}

impl Renewal {
    /// The read at `now` that follows `last`, perhaps.
    fn after(last: Option<Self>, now: MonotonicTime) -> Self {
        // A login that was refused long ago is another story.
        let last = last.filter(|last| now.since(last.at) < 2 * MAX_RENEW_PAUSE);
        let pause = last.map_or(RENEW_AFTER, |last| last.pause.saturating_mul(2).min(MAX_RENEW_PAUSE));
        Self { at: now, pause }
    }
}

/// The state of a name, without a request.
pub(super) enum State {
    /// The answer may be used.
    Fresh(Found),
    /// The answer may be used, and it is time to ask again.
    Aging(Found),
    /// The provider fails, and it is time to ask again: the answer before may be used meanwhile.
    Kept(Found),
    /// The provider has just failed: the answer before, if it may still be used, or the failure.
    Failing(Result<Found, String>),
    /// The provider has to be asked.
    Unknown,
}

impl State {
    /// True if the provider has no secret of this name.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Fresh(None) | Self::Aging(None) | Self::Kept(None) | Self::Failing(Ok(None)))
    }
}

/// The state of a name for people.
pub(super) struct Report {
    pub(super) found: Found,
    /// The time of the last answer.
    pub(super) read_at: Option<Timestamp>,
    /// The failure of the last request.
    pub(super) error: Option<String>,
}

impl Provider {
    pub(super) fn new(name: &str, backend: Backend, sources: &SecretSources) -> Self {
        let timeout = match backend {
            Backend::Client(_) => sources.timeout,
            Backend::Command(_) => sources.timeout.min(SecretSources::COMMAND_TIMEOUT),
        };
        Self {
            name: name.to_owned(),
            backend,
            keep: sources.keep,
            keep_on_error: sources.keep_on_error,
            timeout,
            entries: Mutex::default(),
            asking: KeyedLocks::default(),
            hang: Mutex::default(),
        }
    }

    /// Returns the state of a name.
    pub(super) fn state(&self, name: &str, now: MonotonicTime) -> State {
        let hang = self.hang().as_ref().and_then(|hang| hang.is_recent(now));
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(name) else {
            return hang.map_or(State::Unknown, |message| State::Failing(Err(message)));
        };
        entry.used = Some(now);
        if let Some(message) = entry.failure.as_ref().and_then(|failure| failure.is_recent(now)) {
            return State::Failing(self.usable(entry, now).ok_or(message));
        }
        if let Some(answer) = &entry.answer {
            let (age, keep) = (now.since(answer.at), self.keep_of(answer));
            if age < keep * REFRESH_AT_PERCENT / 100 {
                return State::Fresh(answer.found.clone());
            }
            if age < keep {
                return State::Aging(answer.found.clone());
            }
        }
        let usable = self.usable(entry, now);
        match (hang, usable) {
            (Some(message), usable) => State::Failing(usable.ok_or(message)),
            (None, Some(found)) if entry.failure.is_some() => State::Kept(found),
            (None, _) => State::Unknown,
        }
    }

    /// Returns what people may know of a name; `None` before the first request.
    pub(super) fn report(&self, name: &str) -> Option<Report> {
        let entries = self.lock();
        let entry = entries.get(name)?;
        Some(Report {
            found: entry.answer.as_ref().and_then(|answer| answer.found.clone()),
            read_at: entry.answer.as_ref().map(|answer| answer.read_at),
            error: entry.failure.as_ref().map(|failure| failure.message.clone()),
        })
    }

    /// Returns the version before the present one.
    pub(super) fn previous(&self, name: &str) -> Option<Arc<ProvidedSecret>> {
        self.lock().get(name)?.previous.clone()
    }

    /// Returns the number of requests for a name that have ended.
    pub(super) fn requests(&self, name: &str) -> u64 {
        self.lock().get(name).map_or(0, |entry| entry.requests)
    }

    /// Asks the provider, unless another task has asked since the number of requests was `since`.
    ///
    /// # Errors
    /// Returns an error if the provider fails, and no earlier answer may be used.
    pub(super) async fn ask(&self, name: &str, since: u64, means: &Means<'_>) -> Result<Found, Error> {
        let _turn = self.asking.lock(name).await;
        if let Some(known) = self.known_since(name, since, means.clock.monotonic_now()) {
            return known;
        }
        let asked = tokio::time::timeout(self.timeout, self.request(name, means)).await;
        let answer = asked.unwrap_or_else(|_| {
            let (provider, limit) = (&self.name, self.timeout.as_secs());
            let message = format!("the secret provider `{provider}` gives no answer within {limit} s");
            // A service that hangs does so for all names, and a program perhaps for this one only.
            if matches!(self.backend, Backend::Client(_)) {
                *self.hang() = Some(Failure { message: message.clone(), at: means.clock.monotonic_now() });
            }
            Err(message)
        });
        if answer.is_ok() {
            *self.hang() = None;
        }
        self.record(name, answer, means.clock)
    }

    /// Reads a value again whose login was refused, unless it is new. A failure is recorded. While a login stays refused with the same
    /// value, further reads are further and further apart.
    pub(super) async fn renew(&self, name: &str, means: &Means<'_>) {
        let (now, since) = (means.clock.monotonic_now(), self.requests(name));
        let is_new = |entry: &Entry| {
            entry.answer.as_ref().is_some_and(|answer| now.since(answer.at) < RENEW_AFTER)
                || entry.renewal.is_some_and(|last| now.since(last.at) < last.pause)
        };
        let refused = {
            let entries = self.lock();
            let Some(entry) = entries.get(name).filter(|entry| !is_new(entry)) else { return };
            entry.answer.as_ref().and_then(|answer| answer.found.clone())
        };
        let Ok(found) = self.ask(name, since, means).await else { return };
        if let Some(entry) = self.lock().get_mut(name) {
            let is_same =
                matches!((&refused, &found), (Some(refused), Some(found)) if refused.has_values_of(found));
            entry.renewal = is_same.then(|| Renewal::after(entry.renewal, now));
        }
    }

    async fn request(&self, name: &str, means: &Means<'_>) -> Result<Option<ProvidedSecret>, String> {
        match &self.backend {
            Backend::Client(client) => {
                let http = means.http.map_err(str::to_owned)?;
                client.read(http, means.credentials, name).await.map_err(|error| error.to_string())
            }
            Backend::Command(command) => {
                let found = command::read(command, name, self.timeout).await;
                found.map_err(|reason| format!("the secret provider `{}`: {reason}", self.name))
            }
        }
    }

    /// Returns the result of the last request if there were more than `since`; `None` if not.
    fn known_since(&self, name: &str, since: u64, now: MonotonicTime) -> Option<Result<Found, Error>> {
        let entries = self.lock();
        let entry = entries.get(name).filter(|entry| entry.requests > since)?;
        match &entry.failure {
            Some(failure) => {
                let usable = self.usable(entry, now);
                Some(usable.ok_or_else(|| Error::SecretProvider(failure.message.clone())))
            }
            None => entry.answer.as_ref().map(|answer| Ok(answer.found.clone())),
        }
    }

    fn record(
        &self,
        name: &str,
        answer: Result<Option<ProvidedSecret>, String>,
        clock: &dyn Clock,
    ) -> Result<Found, Error> {
        let now = clock.monotonic_now();
        let mut entries = self.lock();
        if entries.len() >= MAX_NAMES && !entries.contains_key(name) {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.used).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| entries.remove(&oldest));
        }
        let entry = entries.entry(name.to_owned()).or_default();
        entry.used = Some(now);
        entry.requests += 1;
        let provider = &self.name;
        match answer {
            Ok(found) => {
                if entry.failure.take().is_some() {
                    tracing::info!(provider, secret = name, "the secret provider answers again");
                }
                let before = entry.answer.as_ref().and_then(|answer| answer.found.clone());
                let found = found.map(Arc::new);
                let is_same =
                    matches!((&before, &found), (Some(before), Some(found)) if before.has_values_of(found));
                if !is_same && before.is_some() {
                    tracing::info!(provider, secret = name, "a secret has changed");
                    entry.previous = before;
                }
                entry.answer = Some(Answer { found: found.clone(), at: now, read_at: clock.now() });
                Ok(found)
            }
            Err(message) => {
                if entry.failure.is_none() {
                    tracing::warn!(provider, secret = name, error = message, "a secret cannot be read");
                }
                entry.failure = Some(Failure { message: message.clone(), at: now });
                self.usable(entry, now).ok_or(Error::SecretProvider(message))
            }
        }
    }

    /// Returns the last answer if it may be used while the provider fails.
    fn usable(&self, entry: &Entry, now: MonotonicTime) -> Option<Found> {
        let answer = entry.answer.as_ref()?;
        let lease = answer.found.as_ref().and_then(|found| found.lease);
        let keep = lease.map_or(self.keep_on_error, |lease| lease.min(self.keep_on_error));
        (now.since(answer.at) < keep.max(self.keep_of(answer))).then(|| answer.found.clone())
    }

    /// Returns the time for which an answer is used.
    fn keep_of(&self, answer: &Answer) -> Duration {
        match &answer.found {
            Some(found) => found.lease.map_or(self.keep, |lease| lease.min(self.keep)),
            None => self.keep.min(KEEP_ABSENT),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hang(&self) -> MutexGuard<'_, Option<Failure>> {
        self.hang.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failure {
    /// Returns the message if the provider is not asked again yet.
    fn is_recent(&self, now: MonotonicTime) -> Option<String> {
        (now.since(self.at) < RETRY_AFTER).then(|| self.message.clone())
    }
}

#[cfg(test)]
mod tests {
    use value::Secret;

    use super::*;
    use crate::clock::ManualClock;
    use crate::secrets::local::LocalSources;

    const MINUTE: Duration = Duration::from_secs(60);

    fn clock() -> ManualClock {
        ManualClock::new("2026-11-30T08:00:00Z".parse().expect("an instant"))
    }

    /// A provider that runs a script of the shell.
    fn provider(script: &str) -> Provider {
        let command = ["/bin/sh", "-c", script, "sh"].map(str::to_owned).to_vec();
        Provider::new("command", Backend::Command(command), &SecretSources::default())
    }

    fn secret(text: &str, lease: Option<Duration>) -> ProvidedSecret {
        let mut secret = ProvidedSecret::from_text(Secret::new(text));
        secret.lease = lease;
        secret
    }

    fn words(state: &State) -> &'static str {
        match state {
            State::Fresh(Some(_)) => "fresh",
            State::Fresh(None) => "absent",
            State::Aging(_) => "aging",
            State::Failing(Ok(_)) => "used",
            State::Kept(_) => "kept",
            State::Failing(Err(_)) => "failing",
            State::Unknown => "unknown",
        }
    }

    #[test]
    fn an_answer_ages_at_80_percent_and_ends_with_its_time_or_its_lease() {
        for (lease, aging, unknown) in
            [(None, 4 * MINUTE, 5 * MINUTE), (Some(MINUTE), MINUTE * 4 / 5, MINUTE)]
        {
            let (clock, provider) = (clock(), provider(""));
            let state = |clock: &ManualClock| words(&provider.state("a", clock.monotonic_now()));
            provider.record("a", Ok(Some(secret("text", lease))), &clock).expect("recorded");
            assert_eq!(state(&clock), "fresh");
            clock.advance(aging);
            assert_eq!(state(&clock), "aging");
            clock.advance(unknown - aging);
            assert_eq!(state(&clock), "unknown");
        }
        let (clock, provider) = (clock(), provider(""));
        provider.record("a", Ok(None), &clock).expect("recorded");
        assert_eq!(words(&provider.state("a", clock.monotonic_now())), "absent");
        clock.advance(KEEP_ABSENT);
        assert_eq!(words(&provider.state("a", clock.monotonic_now())), "unknown");
    }

    #[test]
    fn a_value_is_used_while_its_provider_fails_until_the_limit_and_never_beyond_its_lease() {
        for (lease, most) in [(None, 60 * MINUTE), (Some(10 * MINUTE), 10 * MINUTE)] {
            let (clock, provider) = (clock(), provider(""));
            provider.record("a", Ok(Some(secret("text", lease))), &clock).expect("recorded");
            clock.advance(most - Duration::from_secs(1));
            provider.record("a", Err("down".to_owned()), &clock).expect("it is still used");
            assert_eq!(words(&provider.state("a", clock.monotonic_now())), "used");
            clock.advance(Duration::from_secs(1));
            assert_eq!(words(&provider.state("a", clock.monotonic_now())), "failing");
            clock.advance(RETRY_AFTER);
            assert_eq!(words(&provider.state("a", clock.monotonic_now())), "unknown", "it is asked again");
        }
    }

    #[test]
    fn a_value_of_a_provider_that_fails_is_used_at_once_when_it_is_time_to_ask_again() {
        let (clock, provider) = (clock(), provider(""));
        provider.record("a", Ok(Some(secret("text", None))), &clock).expect("recorded");
        clock.advance(10 * MINUTE);
        assert_eq!(words(&provider.state("a", clock.monotonic_now())), "unknown", "nothing has failed");
        provider.record("a", Err("down".to_owned()), &clock).expect("it is still used");
        for _ in 0..3 {
            assert_eq!(words(&provider.state("a", clock.monotonic_now())), "used");
            clock.advance(RETRY_AFTER);
            assert_eq!(words(&provider.state("a", clock.monotonic_now())), "kept");
            provider.record("a", Err("down".to_owned()), &clock).expect("it is still used");
        }
        provider.record("a", Ok(Some(secret("text", None))), &clock).expect("recorded");
        assert_eq!(words(&provider.state("a", clock.monotonic_now())), "fresh");
    }

    #[tokio::test]
    async fn a_service_that_hangs_is_not_asked_for_other_names_for_some_seconds() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        connector::install_crypto();
        let settings = connector::secret_provider::VaultSettings {
            address,
            path: "kv".to_owned(),
            namespace: None,
            login: connector::secret_provider::VaultLogin::Token(
                connector::secret_provider::Credential::Variable("PATH"),
            ),
        };
        let client =
            ProviderClient::new("vault:a", connector::secret_provider::ProviderSettings::Vault(settings));
        let sources = SecretSources { timeout: Duration::from_millis(100), ..SecretSources::default() };
        let provider = Provider::new("vault:a", Backend::Client(Box::new(client)), &sources);
        let allow = connector::AllowList::parse(["127.0.0.1"]).expect("an entry");
        let options = connector::HttpOptions { allow, ..connector::HttpOptions::default() };
        let (http, clock) = (Http::new(options).expect("a client"), clock());
        let local = LocalSources { vault: None, folder: "/none".into() };
        let means = Means { http: Ok(&http), credentials: &local, clock: &clock };
        provider.record("old", Ok(Some(secret("text", None))), &clock).expect("recorded");
        provider.record("new", Ok(Some(secret("text", None))), &clock).expect("recorded");
        clock.advance(10 * MINUTE);
        provider.record("new", Ok(Some(secret("text", None))), &clock).expect("recorded");
        let failed = provider.ask("a", 0, &means).await.expect_err("it hangs");
        assert!(failed.to_string().contains("gives no answer"), "{failed}");
        let state = |name: &str| words(&provider.state(name, clock.monotonic_now()));
        assert_eq!((state("b"), state("old"), state("new")), ("failing", "used", "fresh"));
        clock.advance(RETRY_AFTER);
        assert_eq!((state("b"), state("old"), state("new")), ("unknown", "unknown", "fresh"));
    }

    #[test]
    fn the_name_that_was_used_least_recently_is_evicted() {
        let (clock, provider) = (clock(), provider(""));
        for number in 0..MAX_NAMES {
            clock.advance(Duration::from_millis(1));
            provider.record(&format!("a{number}"), Ok(Some(secret("text", None))), &clock).expect("recorded");
        }
        let state = |name: &str| words(&provider.state(name, clock.monotonic_now()));
        clock.advance(Duration::from_millis(1));
        assert_eq!(state("a0"), "fresh");
        provider.record("new", Ok(Some(secret("text", None))), &clock).expect("recorded");
        assert_eq!(
            (state("a0"), state("a1"), state("a2"), state("new")),
            ("fresh", "unknown", "fresh", "fresh")
        );
    }

    #[tokio::test]
    async fn many_readers_of_a_name_cause_one_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("requests");
        let script = format!("echo x >> {}; sleep 0.2; echo value", file.display());
        let (clock, provider) = (clock(), provider(&script));
        let local = LocalSources { vault: None, folder: folder.path().to_owned() };
        let means = Means { http: Err("no client"), credentials: &local, clock: &clock };
        let reads = (0..20).map(|_| provider.ask("a", 0, &means));
        for found in futures_util::future::join_all(reads).await {
            let found = found.expect("it ends").expect("a secret");
            assert_eq!(found.text().map(Secret::expose), Some("value"));
        }
        assert_eq!(std::fs::read_to_string(&file).expect("requests"), "x\n");
        // A refused login causes one more, and none while the value is new.
        provider.renew("a", &means).await;
        assert_eq!(std::fs::read_to_string(&file).expect("requests"), "x\n");
        clock.advance(RENEW_AFTER);
        provider.renew("a", &means).await;
        assert_eq!(std::fs::read_to_string(&file).expect("requests"), "x\nx\n");
    }

    #[tokio::test]
    async fn reads_after_a_login_that_stays_refused_are_further_and_further_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, value) = (folder.path().join("requests"), folder.path().join("value"));
        let script = format!("echo x >> {}; cat {}", file.display(), value.display());
        let (clock, provider) = (clock(), provider(&script));
        let local = LocalSources { vault: None, folder: folder.path().to_owned() };
        let means = Means { http: Err("no client"), credentials: &local, clock: &clock };
        let requests = || std::fs::read_to_string(&file).expect("requests").lines().count();
        std::fs::write(&value, "first").expect("written");
        provider.ask("a", 0, &means).await.expect("it is read");
        // A login is refused each second, for ten minutes.
        for _ in 0..600 {
            clock.advance(RENEW_AFTER);
            provider.renew("a", &means).await;
        }
        assert_eq!(requests(), 1 + 6 + 9, "after 1, 2, 4, … s, then each minute");
        std::fs::write(&value, "second").expect("written");
        clock.advance(MAX_RENEW_PAUSE);
        for _ in 0..2 {
            provider.renew("a", &means).await;
            clock.advance(RENEW_AFTER);
        }
        assert_eq!(requests(), 1 + 6 + 9 + 2, "another value may be read again soon");
    }
}
