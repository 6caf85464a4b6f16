//! OAuth consent of a person: started through the API, completed by the provider's redirect to the hook listener.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use connector::oauth::{Flow, OAuthClient};
use jiff::Timestamp;
use model::action::ActionError;
use serde::Serialize;
use tokio::sync::watch;
use value::Secret;

use super::grant::Grant;
use super::{Connections, tokens, unknown_connection};
use crate::error::Error;

/// Time limit of a login (threat model 4.8).
const LOGIN_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum number of pending logins.
const MAX_PENDING: usize = 100;
/// Path of the redirect URL on the hook listener.
pub(crate) const CALLBACK: &str = "/oauth/callback";

/// A consent that is asked for.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LoginView)]
pub struct StartedLogin {
    /// The address to open in a browser.
    pub url: String,
    /// Where the provider sends people back to; its set-up has to name it exactly.
    pub redirect_url: String,
    /// When it is too late.
    pub expires_at: Timestamp,
}

/// State of a login.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(tag = "state", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum LoginState {
    /// The person has not completed the consent.
    #[default]
    Waiting,
    /// The connection has its tokens.
    Connected,
    /// The login failed.
    Failed {
        /// The reason, as a sentence.
        reason: String,
    },
}

/// Query parameters of the provider's redirect.
#[derive(Clone, Debug, Default)]
pub struct LoginCallback {
    /// Identifies the login.
    pub state: Option<String>,
    /// Authorization code; `None` after an error.
    pub code: Option<String>,
    /// Error code; `None` if consent was granted.
    pub error: Option<String>,
    /// Issuer identifier, if the provider sends it (RFC 9207).
    pub issuer: Option<String>,
}

#[derive(Default)]
pub(super) struct Logins(Mutex<LoginTable>);

#[derive(Default)]
struct LoginTable {
    /// PendingLogin logins by `state` parameter.
    pending: HashMap<String, PendingLogin>,
    /// State of the last login of each connection, for waiting clients.
    progress: HashMap<String, watch::Sender<LoginState>>,
}

struct PendingLogin {
    connection: String,
    client: Arc<OAuthClient>,
    verifier: Secret,
    redirect: String,
    expires_at: Timestamp,
}

impl Logins {
    fn open(&self) -> std::sync::MutexGuard<'_, LoginTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, state: &Secret, pending: PendingLogin, now: Timestamp) -> Result<(), Error> {
        let mut open = self.open();
        // A new login replaces the pending one of the same connection; expired logins are removed.
        open.pending.retain(|_, other| other.expires_at > now && other.connection != pending.connection);
        if open.pending.len() >= MAX_PENDING {
            return Err(Error::Busy { retry_after: Duration::from_secs(60) });
        }
        open.progress.entry(pending.connection.clone()).or_default().send_replace(LoginState::Waiting);
        open.pending.insert(state.expose().to_owned(), pending);
        Ok(())
    }

    /// Removes and returns a pending login, so that its `state` is valid only once.
    fn take(&self, state: &str, now: Timestamp) -> Option<PendingLogin> {
        self.open().pending.remove(state).filter(|pending| now < pending.expires_at)
    }

    fn set_state(&self, connection: &str, state: LoginState) {
        if let Some(progress) = self.open().progress.get(connection) {
            progress.send_replace(state);
        }
    }

    fn watch(&self, connection: &str) -> Option<watch::Receiver<LoginState>> {
        self.open().progress.get(connection).map(watch::Sender::subscribe)
    }
}

impl Connections {
    /// Starts the login of a connection.
    ///
    /// # Errors
    /// Returns an error if there is no such connection, its type needs no consent, an input is missing, or too many
    /// logins are pending.
    pub async fn begin_login(&self, name: &str) -> Result<StartedLogin, Error> {
        let catalog = self.context.catalog();
        catalog.connection(name).ok_or_else(|| unknown_connection(&catalog, name))?;
        let connection = self
            .context
            .secrets
            .resolve(&catalog, name)
            .await
            .map_err(|error| Error::Input(error.into_message()))?;
        let client = connection.oauth().filter(|client| client.flow() == Flow::AuthorizationCode).cloned();
        let client = client.ok_or_else(|| {
            Error::Input(format!(
                "a connection of type `{}` does not need the consent of a person",
                connection.kind
            ))
        })?;
        let base = self.context.settings.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
        let redirect = format!("{base}{CALLBACK}");
        let consent = client.authorize(&redirect).map_err(|error| Error::Input(error.into_message()))?;
        let now = self.context.clock.now();
        let expires_at = now.checked_add(LOGIN_TIMEOUT).unwrap_or(Timestamp::MAX);
        let pending = PendingLogin {
            connection: name.to_owned(),
            client,
            verifier: consent.verifier,
            redirect: redirect.clone(),
            expires_at,
        };
        self.logins.add(&consent.state, pending, now)?;
        Ok(StartedLogin { url: consent.url.to_string(), redirect_url: redirect, expires_at })
    }

    /// Returns the state of the last login of a connection. Waits up to `wait` for its end; `None` if there was no
    /// login.
    pub async fn login_state(&self, name: &str, wait: Duration) -> Option<LoginState> {
        let mut progress = self.logins.watch(name)?;
        tokio::select! {
            biased;
            ended = progress.wait_for(|state| *state != LoginState::Waiting) => {
                ended.ok().map(|state| state.clone())
            }
            () = self.context.clock.sleep_for(wait) => Some(LoginState::Waiting),
            () = self.context.closing.cancelled() => Some(LoginState::Waiting),
        }
    }

    /// Completes a login with the parameters of the provider's redirect. Returns the name of the connection.
    ///
    /// # Errors
    /// Returns a message for the person if the login is unknown or has expired, consent was denied, or no tokens were
    /// issued.
    pub async fn end_login(self: &Arc<Self>, answer: LoginCallback) -> Result<String, String> {
        let connections = self.clone();
        let state = answer.state.clone().unwrap_or_default();
        let Some(pending) = connections.logins.take(&state, connections.context.clock.now()) else {
            return Err(
                "this link has been used or is too old; begin again with `cogwork connections login`".into(),
            );
        };
        let name = pending.connection.clone();
        // A separate task, so that a closed browser does not interrupt the exchange of the single-use code.
        let ending = connections.context.tracker.spawn({
            let connections = connections.clone();
            async move { connections.exchange(&pending, answer).await }
        });
        let result = ending.await.unwrap_or_else(|_| Err("the daemon is stopping".to_owned()));
        connections.logins.set_state(
            &name,
            match &result {
                Ok(()) => LoginState::Connected,
                Err(reason) => LoginState::Failed { reason: reason.clone() },
            },
        );
        result.map(|()| name)
    }
}

impl Connections {
    async fn exchange(self: &Arc<Self>, pending: &PendingLogin, answer: LoginCallback) -> Result<(), String> {
        let PendingLogin { connection, client, .. } = pending;
        if !client.accepts_issuer(answer.issuer.as_deref()) {
            // Protects against mix-up attacks: a code of one provider must not be sent to another.
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
        self.context.settings.redactor.add_secret(&code);
        let issued = client.exchange(&self.context.http, &code, &pending.verifier, &pending.redirect).await;
        let issued =
            issued.map_err(|error| error.error.redacted(&self.context.settings.redactor).into_message())?;
        {
            let _alone = self.lock_connection(connection).await;
            let grant = Grant::new(client, &issued, self.context.clock.now(), 0);
            self.keep_grant(connection, &grant).await.map_err(ActionError::into_message)?;
        }
        if client.has_sites() {
            // The site is looked up now, so that a wrong choice is reported at once.
            let tokens = tokens::Tokens::new(self.clone(), client.clone(), connection);
            if let Err(error) = tokens.site().await {
                let error = error.redacted(&self.context.settings.redactor);
                // The connection has tokens and no site, so its calls will fail: show that in the list of connections.
                self.note(connection, self.context.clock.now(), Some(&error));
                return Err(error.into_message());
            }
        }
        tracing::info!(connection, "connected");
        Ok(())
    }
}
