//! OAuth tokens of a connection, as encrypted in the store.

use connector::oauth::{OAuthClient, Site, TokenSet};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use value::Secret;
use value::redact::Redactor;
use zeroize::{Zeroize as _, Zeroizing};

/// Part of a token's lifetime after which it is refreshed: 80 %, minus a random 0 to 5 %, so that connections created
/// at the same time do not refresh at the same time.
const REFRESH_AFTER_PERMILLE: i64 = 800;
const JITTER_PERMILLE: i64 = 50;
/// Upper limit for the lifetime that a provider reports.
const MAX_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 366);

/// The tokens of a connection.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Grant {
    /// Hash of the client's identity: tokens of another client are not valid.
    client: String,
    access: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh: Option<String>,
    /// Expiry of the access token; `None` if the provider does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<Timestamp>,
    /// Time at which the token is refreshed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) site: Option<Site>,
    /// The connection's inputs for which the site was looked up.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    choice: String,
    /// Reason why a person must log in again; `None` while the grant is valid. No request uses a lost grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lost: Option<String>,
}

impl Grant {
    /// Creates the grant of a token response. `chance` is random, for the jitter.
    pub(super) fn new(client: &OAuthClient, issued: &TokenSet, now: Timestamp, chance: u8) -> Self {
        let lifetime = issued
            .expires_in
            .and_then(|lifetime| SignedDuration::try_from(lifetime).ok())
            .map(|lifetime| lifetime.min(MAX_LIFETIME));
        let after = |lifetime: SignedDuration| now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        let permille = REFRESH_AFTER_PERMILLE - JITTER_PERMILLE * i64::from(chance) / 255;
        let early = |lifetime: SignedDuration| {
            SignedDuration::from_millis(lifetime.as_secs().saturating_mul(permille))
        };
        Self {
            client: identity(client),
            access: issued.access.expose().to_owned(),
            refresh: issued.refresh.as_ref().map(|token| token.expose().to_owned()),
            expires_at: lifetime.map(after),
            refresh_at: lifetime.map(|lifetime| after(early(lifetime))),
            site: None,
            choice: String::new(),
            lost: None,
        }
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(super) fn write(&self) -> Zeroizing<String> {
        // Plain data always serialises.
        Zeroizing::new(serde_json::to_string(self).unwrap_or_default())
    }

    pub(super) fn is_for(&self, client: &OAuthClient) -> bool {
        self.client == identity(client)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Returns true if the token should be refreshed.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.refresh_at.is_some_and(|at| at <= now)
    }

    /// Returns true if the access token has not expired.
    pub(super) fn is_alive(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }

    pub(super) fn access(&self) -> Secret {
        Secret::new(&self.access)
    }

    pub(super) fn refresh(&self) -> Option<Secret> {
        self.refresh.as_ref().map(Secret::new)
    }

    /// Returns the site if it was looked up for the current inputs of the connection.
    pub(super) fn site_for(&self, client: &OAuthClient) -> Option<Site> {
        self.site.clone().filter(|_| self.choice == client.site_choice())
    }

    /// Sets the looked-up site.
    pub(super) fn with_site(mut self, client: &OAuthClient, site: Site) -> Self {
        self.choice = client.site_choice();
        self.site = Some(site);
        self
    }

    /// Copies the site of the previous grant.
    pub(super) fn with_site_of(mut self, before: &Self) -> Self {
        self.site.clone_from(&before.site);
        self.choice.clone_from(&before.choice);
        self
    }

    /// Returns the grant without tokens, after the provider has demanded a new consent.
    pub(super) fn without_tokens(&self, why: &str) -> Self {
        let mut left = self.clone();
        left.access.zeroize();
        left.refresh.zeroize();
        (left.refresh, left.expires_at, left.refresh_at) = (None, None, None);
        left.lost = Some(why.to_owned());
        left
    }

    pub(super) fn hide(&self, redactor: &Redactor) {
        redactor.add_secret(&self.access);
        if let Some(refresh) = &self.refresh {
            redactor.add_secret(refresh);
        }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.access.zeroize();
        self.refresh.zeroize();
    }
}

fn identity(client: &OAuthClient) -> String {
    hex::encode(Sha256::digest(client.identity()))
}
