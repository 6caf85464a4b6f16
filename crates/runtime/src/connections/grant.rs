//! What a connection was given when it was connected, as it is sealed in the store.

use connector::oauth::{Issued, OAuthClient, Site};
use jiff::{SignedDuration, Timestamp};
use model::Secret;
use model::redact::Redactor;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, Zeroizing};

/// How much of a lifetime has passed when a new token is asked for: 80 %, or up to 5 % less, so that connections that
/// were made at one time do not all ask at one time.
const REFRESH_AFTER_PERMILLE: i64 = 800;
const JITTER_PERMILLE: i64 = 50;
/// The longest lifetime that is believed.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 366);

/// The tokens of a connection.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Grant {
    /// Which client it was given to: tokens of another are worth nothing.
    client: String,
    access: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh: Option<String>,
    /// When the access token ends; absent where the provider does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<Timestamp>,
    /// From when on another one is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) site: Option<Site>,
    /// Of which choice the site came.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    choice: String,
    /// Why a person has to connect again, once the provider has said so: nothing is asked of it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lost: Option<String>,
}

impl Grant {
    /// What was issued to `client` at `now`; `chance` is random.
    pub(super) fn of(client: &OAuthClient, issued: &Issued, now: Timestamp, chance: u8) -> Self {
        let lifetime = issued
            .expires_in
            .and_then(|lifetime| SignedDuration::try_from(lifetime).ok())
            .map(|lifetime| lifetime.min(LONGEST));
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
        // It is plain data, which always has a JSON form.
        Zeroizing::new(serde_json::to_string(self).unwrap_or_default())
    }

    pub(super) fn is_of(&self, client: &OAuthClient) -> bool {
        self.client == identity(client)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Whether another token should be asked for.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.refresh_at.is_some_and(|at| at <= now)
    }

    /// Whether the access token may still be good.
    pub(super) fn is_alive(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }

    pub(super) fn access(&self) -> Secret {
        Secret::new(&self.access)
    }

    pub(super) fn refresh(&self) -> Option<Secret> {
        self.refresh.as_ref().map(Secret::new)
    }

    /// The site, if it was looked up for the choice that the connection makes now.
    pub(super) fn site_for(&self, client: &OAuthClient) -> Option<Site> {
        self.site.clone().filter(|_| self.choice == client.site_choice())
    }

    /// With the site that was looked up.
    pub(super) fn with_site(mut self, client: &OAuthClient, site: Site) -> Self {
        self.choice = client.site_choice();
        self.site = Some(site);
        self
    }

    /// With the site of the grant before it.
    pub(super) fn keeping(mut self, before: &Self) -> Self {
        self.site.clone_from(&before.site);
        self.choice.clone_from(&before.choice);
        self
    }

    /// What is left when the provider wants another consent: no tokens.
    pub(super) fn lost(&self, why: &str) -> Self {
        let mut left = self.clone();
        left.access.zeroize();
        left.refresh.zeroize();
        (left.refresh, left.expires_at, left.refresh_at) = (None, None, None);
        left.lost = Some(why.to_owned());
        left
    }

    pub(super) fn hide(&self, redactor: &Redactor) {
        redactor.hide(&self.access);
        if let Some(refresh) = &self.refresh {
            redactor.hide(refresh);
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
