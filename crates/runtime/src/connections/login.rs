//! Asking a person for consent: begun through the API, ended by the provider's redirect to the hook listener.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use connector::oauth::{Flow, OAuthClient};
use jiff::Timestamp;
use model::Secret;
use model::action::ActionError;
use serde::Serialize;
use tokio::sync::watch;

use super::grant::Grant;
use super::{tokens, unknown};
use crate::Error;
use crate::context::Runtime;

/// How long a person may take (threat model 4.8).
const PATIENCE: Duration = Duration::from_secs(600);
/// The most consents that are asked for at one time.
const MOST: usize = 100;
/// The path of the hook listener that providers send people back to.
pub(crate) const CALLBACK: &str = "/oauth/callback";

/// A consent that is asked for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginBegun {
    /// The address to open in a browser.
    pub url: String,
    /// Where the provider sends people back to; its set-up has to name it exactly.
    pub redirect_url: String,
    /// When it is too late.
    pub expires_at: Timestamp,
}

/// How far a consent has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum LoginState {
    /// The person has not come back.
    #[default]
    Waiting,
    /// The connection has its tokens.
    Connected,
    /// It came to nothing.
    Failed {
        /// Why, in words.
        reason: String,
    },
}

/// What the provider sends a person back with.
#[derive(Clone, Debug, Default)]
pub struct LoginAnswer {
    /// What tells which consent it answers.
    pub state: Option<String>,
    /// What tokens are given for.
    pub code: Option<String>,
    /// Why there is no code.
    pub error: Option<String>,
    /// Who answers, where the provider says (RFC 9207).
    pub issuer: Option<String>,
}

#[derive(Default)]
pub(super) struct Logins(Mutex<Open>);

#[derive(Default)]
struct Open {
    /// By their state.
    pending: HashMap<String, Pending>,
    /// The last one of each connection, for whoever waits for it.
    progress: HashMap<String, watch::Sender<LoginState>>,
}

struct Pending {
    connection: String,
    client: Arc<OAuthClient>,
    verifier: Secret,
    redirect: String,
    expires_at: Timestamp,
}

impl Logins {
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, state: &Secret, pending: Pending, now: Timestamp) -> Result<(), Error> {
        let mut open = self.open();
        // The newest one of a connection counts; what is too late goes.
        open.pending.retain(|_, other| other.expires_at > now && other.connection != pending.connection);
        if open.pending.len() >= MOST {
            return Err(Error::Busy { retry_after: Duration::from_secs(60) });
        }
        open.progress.entry(pending.connection.clone()).or_default().send_replace(LoginState::Waiting);
        open.pending.insert(state.expose().to_owned(), pending);
        Ok(())
    }

    /// Takes out the consent with this state: it is good for one answer.
    fn take(&self, state: &str, now: Timestamp) -> Option<Pending> {
        self.open().pending.remove(state).filter(|pending| now < pending.expires_at)
    }

    fn tell(&self, connection: &str, state: LoginState) {
        if let Some(progress) = self.open().progress.get(connection) {
            progress.send_replace(state);
        }
    }

    fn watch(&self, connection: &str) -> Option<watch::Receiver<LoginState>> {
        self.open().progress.get(connection).map(watch::Sender::subscribe)
    }
}

impl Runtime {
    /// Begins to ask a person for consent to a connection.
    ///
    /// # Errors
    /// There is no such connection, its type asks nobody, an input of it is missing, or too many are asked for.
    pub fn begin_login(&self, name: &str) -> Result<LoginBegun, Error> {
        let (catalog, services) = (self.catalog(), self);
        catalog.connection(name).ok_or_else(|| unknown(&catalog, name))?;
        let connection =
            services.secrets.resolve(&catalog, name).map_err(|error| Error::Input(error.into_message()))?;
        let client = connection.oauth().filter(|client| client.flow() == Flow::AuthorizationCode).cloned();
        let client = client.ok_or_else(|| {
            Error::Input(format!("a connection of type `{}` needs no consent of a person", connection.kind))
        })?;
        let base = services.settings.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
        let redirect = format!("{base}{CALLBACK}");
        let consent = client.ask(&redirect).map_err(|error| Error::Input(error.into_message()))?;
        let now = services.clock.now();
        let expires_at = now.checked_add(PATIENCE).unwrap_or(Timestamp::MAX);
        let pending = Pending {
            connection: name.to_owned(),
            client,
            verifier: consent.verifier,
            redirect: redirect.clone(),
            expires_at,
        };
        services.connections.logins.add(&consent.state, pending, now)?;
        Ok(LoginBegun { url: consent.url.to_string(), redirect_url: redirect, expires_at })
    }

    /// How far the last consent of a connection has come; comes back when it has ended, or after `wait`.
    pub async fn login_state(&self, name: &str, wait: Duration) -> Option<LoginState> {
        let services = self;
        let mut progress = services.connections.logins.watch(name)?;
        tokio::select! {
            biased;
            ended = progress.wait_for(|state| *state != LoginState::Waiting) => {
                ended.ok().map(|state| state.clone())
            }
            () = services.clock.sleep_for(wait) => Some(LoginState::Waiting),
            () = services.closing.cancelled() => Some(LoginState::Waiting),
        }
    }

    /// Takes what the provider sent a person back with, and gives the name of the connection that is connected now.
    ///
    /// # Errors
    /// Nobody was asked, it was too late, consent was denied, or no tokens were given; in words for the person.
    pub async fn end_login(self: &Arc<Self>, answer: LoginAnswer) -> Result<String, String> {
        let services = self.clone();
        let state = answer.state.clone().unwrap_or_default();
        let Some(pending) = services.connections.logins.take(&state, services.clock.now()) else {
            return Err(
                "this link has been used or is too old; begin again with `cogwork connections login`".into(),
            );
        };
        let name = pending.connection.clone();
        // In a task of its own: a browser that goes away must not cut off the exchange of a code that is good once.
        let ending = services.tracker.spawn({
            let services = services.clone();
            async move { services.exchange(&pending, answer).await }
        });
        let result = ending.await.unwrap_or_else(|_| Err("the daemon is stopping".to_owned()));
        services.connections.logins.tell(
            &name,
            match &result {
                Ok(()) => LoginState::Connected,
                Err(reason) => LoginState::Failed { reason: reason.clone() },
            },
        );
        result.map(|()| name)
    }
}

impl Runtime {
    async fn exchange(self: &Arc<Self>, pending: &Pending, answer: LoginAnswer) -> Result<(), String> {
        let Pending { connection, client, .. } = pending;
        if !client.is_answered_by(answer.issuer.as_deref()) {
            // A code of one provider, handed to another, would be that one's to use.
            return Err("the answer does not come from the provider that was asked, so nothing was connected; `issuer` of \
                 the connection says what the provider calls itself"
                .to_owned());
        }
        let Some(code) = answer.code else {
            return Err(match answer.error.as_deref() {
                Some("access_denied") => "consent was not given, so nothing was connected".to_owned(),
                Some(other) => {
                    let other: String = other.chars().filter(|c| !c.is_control()).take(100).collect();
                    format!("the provider could not ask for consent: {other}")
                }
                None => "the provider sent no code".to_owned(),
            });
        };
        self.settings.redactor.hide(&code);
        let issued = client.exchange(&self.http, &code, &pending.verifier, &pending.redirect).await;
        let issued = issued.map_err(|error| self.settings.redactor.error(error.error).into_message())?;
        {
            let _alone = self.connections.refreshing.lock(connection).await;
            let grant = Grant::of(client, &issued, self.clock.now(), 0);
            self.keep_grant(connection, &grant).await.map_err(ActionError::into_message)?;
        }
        if client.has_sites() {
            // A wrong choice of the site is best told now.
            let tokens = tokens::Tokens::new(self.clone(), client.clone(), connection);
            if let Err(error) = tokens.site().await {
                let error = self.settings.redactor.error(error);
                // There are tokens now, and no call can use them: the list of connections says so too.
                self.connections.note(connection, self.clock.now(), Some(&error));
                return Err(error.into_message());
            }
        }
        tracing::info!(connection, "connected");
        Ok(())
    }
}
