//! Access tokens of one connection: returns the current one and refreshes it.

use std::sync::Arc;

use async_trait::async_trait;
use connector::oauth::{Flow, OAuthClient, Site, TokenError, TokenSet, TokenSource};
use model::action::{ActionError, ErrorKind};
use value::Secret;

use super::Connections;
use super::grant::Grant;

/// Token source of a connection.
pub(super) struct Tokens {
    connections: Arc<Connections>,
    client: Arc<OAuthClient>,
    name: String,
}

impl Tokens {
    pub(super) fn new(connections: Arc<Connections>, client: Arc<OAuthClient>, name: &str) -> Self {
        Self { connections, client, name: name.to_owned() }
    }

    /// Returns the site for requests. Looks it up once for each grant and choice of inputs.
    pub(super) async fn site(&self) -> Result<Site, ActionError> {
        let known =
            self.grant()?.filter(|grant| !grant.is_lost()).and_then(|grant| grant.site_for(&self.client));
        if let Some(site) = known {
            return Ok(site);
        }
        let mut token = self.token().await?;
        let http = &self.connections.context.http;
        let mut found = self.client.find_site(http, &token).await;
        if let Err(error) = &found
            && error.status == Some(401)
            && let Some(fresh) = self.replacement(&token).await?
        {
            token = fresh;
            found = self.client.find_site(http, &token).await;
        }
        let site = found?.ok_or_else(|| self.refuse("its type has no sites"))?;
        let _alone = self.connections.lock_connection(&self.name).await;
        let read_only = self.connections.context.vault.as_ref().is_some_and(|vault| vault.is_read_only());
        if let Some(grant) = self.grant()?.filter(|_| !read_only) {
            self.connections.keep_grant(&self.name, &grant.with_site(&self.client, site.clone())).await?;
        }
        Ok(site)
    }

    fn grant(&self) -> Result<Option<Grant>, ActionError> {
        self.connections.grant(&self.name, &self.client)
    }

    /// Returns the grant. Fails if a person must log in first.
    fn usable(&self) -> Result<Option<Grant>, ActionError> {
        let grant = self.grant()?;
        match (&grant, self.client.flow()) {
            (Some(grant), _) if grant.is_lost() => {
                let why = grant.lost.clone().unwrap_or_default();
                Err(ActionError::new(ErrorKind::Connection, why))
            }
            (None, Flow::AuthorizationCode) => {
                Err(self
                    .refuse(&format!("it is not connected; run `cogwork connections login {}`", self.name)))
            }
            _ => Ok(grant),
        }
    }

    /// Refreshes the token, one caller at a time. `refused` is the token that the remote system rejected, if any. A
    /// caller that waited for another refresh gets its result.
    async fn renew(&self, refused: Option<&Secret>) -> Result<Option<Secret>, ActionError> {
        let _alone = self.connections.lock_connection(&self.name).await;
        // Another node may have renewed it.
        self.connections.context.reread_secrets().await.map_err(|error| self.refuse(&error.to_string()))?;
        let grant = self.usable()?;
        let now = self.connections.context.clock.now();
        if let Some(grant) = &grant {
            let access = grant.access();
            let is_fresh = match refused {
                Some(refused) => access.expose() != refused.expose(),
                None => !grant.is_due(now),
            };
            if is_fresh && grant.is_alive(now) {
                return Ok(Some(access));
            }
        }
        if self.connections.context.vault.as_ref().is_some_and(|vault| vault.is_read_only()) {
            // The provider would invalidate the old refresh token, and the new one could not be stored.
            return match (refused, &grant) {
                (Some(_), _) => Ok(None),
                (None, Some(grant)) if grant.is_alive(now) => Ok(Some(grant.access())),
                _ => Err(self.refuse(
                    "its token has to be renewed, which only the daemon can do; let it use the connection",
                )),
            };
        }
        let issued = match (self.client.flow(), grant.as_ref().and_then(Grant::refresh)) {
            (Flow::ClientCredentials, _) => {
                self.client.client_credentials(&self.connections.context.http).await
            }
            (Flow::AuthorizationCode, Some(refresh)) => {
                self.client.refresh(&self.connections.context.http, &refresh).await
            }
            (Flow::AuthorizationCode, None) => return self.without_refresh(grant.as_ref(), refused).await,
        };
        match issued {
            Ok(issued) => self.keep(&issued, grant.as_ref()).await.map(Some),
            Err(error) => self.not_renewed(error, grant, refused).await,
        }
    }

    /// Stores the new tokens before they are used. After a crash in between the old refresh token remains, which most
    /// providers accept again within a grace period.
    async fn keep(&self, issued: &TokenSet, before: Option<&Grant>) -> Result<Secret, ActionError> {
        let fresh = Grant::new(&self.client, issued, self.connections.context.clock.now(), random_byte());
        let fresh = match before {
            Some(before) => fresh.with_site_of(before),
            None => fresh,
        };
        self.connections.keep_grant(&self.name, &fresh).await?;
        tracing::debug!(connection = self.name, "has a new token");
        Ok(fresh.access())
    }

    async fn not_renewed(
        &self,
        error: TokenError,
        grant: Option<Grant>,
        refused: Option<&Secret>,
    ) -> Result<Option<Secret>, ActionError> {
        let TokenError { consent_needed, error } = error;
        let Some(grant) = grant else { return Err(error) };
        if consent_needed && self.client.flow() == Flow::AuthorizationCode {
            tracing::warn!(connection = self.name, "a person has to connect it again");
            self.connections.keep_grant(&self.name, &grant.without_tokens(&error.message)).await?;
            return Err(error);
        }
        // The provider is unavailable: use the current token until it expires.
        match refused {
            None if grant.is_alive(self.connections.context.clock.now()) => Ok(Some(grant.access())),
            _ => Err(error),
        }
    }

    /// A grant without a refresh token ends with its access token.
    async fn without_refresh(
        &self,
        grant: Option<&Grant>,
        refused: Option<&Secret>,
    ) -> Result<Option<Secret>, ActionError> {
        let Some(grant) = grant else { return Ok(None) };
        if refused.is_none() && grant.is_alive(self.connections.context.clock.now()) {
            return Ok(Some(grant.access()));
        }
        let message = format!(
            "the connection `{}` cannot be used: its token has expired and it has no refresh token (`offline_access` requests one); connect again with `cogwork connections login {}`",
            self.name, self.name
        );
        self.connections.keep_grant(&self.name, &grant.without_tokens(&message)).await?;
        Err(ActionError::new(ErrorKind::Connection, message))
    }

    fn refuse(&self, words: &str) -> ActionError {
        ActionError::new(
            ErrorKind::Connection,
            format!("the connection `{}` cannot be used: {words}", self.name),
        )
    }
}

#[async_trait]
impl TokenSource for Tokens {
    async fn token(&self) -> Result<Secret, ActionError> {
        let now = self.connections.context.clock.now();
        if let Some(grant) = self.usable()?
            && !grant.is_due(now)
            && grant.is_alive(now)
        {
            return Ok(grant.access());
        }
        let renewed = self.renew(None).await?;
        renewed.ok_or_else(|| self.refuse("no token was issued"))
    }

    async fn replacement(&self, refused: &Secret) -> Result<Option<Secret>, ActionError> {
        let another = self.renew(Some(refused)).await?;
        Ok(another.filter(|another| another.expose() != refused.expose()))
    }
}

/// Returns a random byte, or 0 if the system has none, which only loses the jitter.
fn random_byte() -> u8 {
    let mut byte = [0];
    match getrandom::fill(&mut byte) {
        Ok(()) => byte[0],
        Err(_) => 0,
    }
}
