//! OAuth 2.0 with three legs: consent, exchange, refresh with rotation, and the list of sites.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::clock::Moment;
use super::error::ApiError;
use super::log::fingerprint;
use super::query::Query;
use super::users::Who;

/// The most tokens and codes of one kind that are kept; the oldest are forgotten first.
const MOST_KEPT: usize = 10_000;

/// How long things last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// An access token: 3600 s on the real service.
    pub access_token: Duration,
    /// An authorization code: 10 min (ours; nothing public says).
    pub code: Duration,
    /// How long a refresh token that has been used still works: 10 min by the vendor's documentation.
    pub refresh_leeway: Duration,
    /// A refresh token that is not used: 90 days.
    pub refresh_idle: Duration,
    /// A consent: 365 days from its first grant, by a staff answer.
    pub grant: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self {
            access_token: Duration::from_secs(3_600),
            code: Duration::from_secs(600),
            refresh_leeway: Duration::from_secs(600),
            refresh_idle: 90 * day,
            grant: 365 * day,
        }
    }
}

/// An application that may ask for consent.
#[derive(Clone, Debug)]
pub(super) struct App {
    pub(super) client_id: String,
    pub(super) client_secret: String,
    /// Where a consent may be sent to; anywhere when empty.
    pub(super) redirect_uris: Vec<String>,
}

/// The result of a token endpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tokens {
    /// Good on the gateway for `expires_in` seconds.
    pub access_token: String,
    /// Always `Bearer`.
    pub token_type: &'static str,
    /// In seconds.
    pub expires_in: u64,
    /// Space-separated.
    pub scope: String,
    /// Only when `offline_access` was consented to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
}

/// The consent of a user to an application. A later consent of the same two replaces the scopes.
#[derive(Clone, Debug)]
struct Grant {
    scopes: Vec<String>,
    granted_at: Moment,
    revoked: bool,
}

/// Application and account.
type GrantKey = (String, String);

#[derive(Clone, Debug)]
struct Code {
    grant: GrantKey,
    redirect_uri: String,
    /// Of a verifier that whoever exchanges the code has to know (RFC 7636, S256).
    challenge: Option<String>,
    expires_at: Moment,
}

#[derive(Clone, Debug)]
struct AccessToken {
    account_id: String,
    scopes: Vec<String>,
    expires_at: Moment,
}

#[derive(Clone, Debug)]
struct RefreshToken {
    grant: GrantKey,
    last_used: Moment,
    rotated_at: Option<Moment>,
}

/// The identity provider.
#[derive(Debug, Default)]
pub(super) struct OAuth {
    pub(super) apps: Vec<App>,
    pub(super) lifetimes: Lifetimes,
    grants: HashMap<GrantKey, Grant>,
    codes: Ring<Code>,
    access_tokens: Ring<AccessToken>,
    refresh_tokens: Ring<RefreshToken>,
    issued: u64,
    refreshes: u64,
}

impl OAuth {
    /// `/authorize`: the address to redirect to, with a code and the state, or with `error=access_denied`.
    ///
    /// Nobody is asked anything: the user named by `login_hint` (an e-mail address), else the first one, consents.
    pub(super) fn authorize(
        &mut self,
        query: &Query,
        account_id: Option<&str>,
        denied: bool,
        now: Moment,
    ) -> Result<String, ApiError> {
        let bad = |title: &str| ApiError::bad_parameter(title, None);
        let client_id = query.get("client_id").ok_or_else(|| bad("'client_id' is required"))?;
        let app = self.apps.iter().find(|app| app.client_id == client_id);
        let app = app.ok_or_else(|| bad("'client_id' names no application"))?;
        let redirect_uri = query.get("redirect_uri").ok_or_else(|| bad("'redirect_uri' is required"))?;
        if !app.redirect_uris.is_empty() && !app.redirect_uris.iter().any(|known| known == redirect_uri) {
            return Err(bad("'redirect_uri' is not one of the application's"));
        }
        let mut target =
            url::Url::parse(redirect_uri).map_err(|_| bad("'redirect_uri' is not an address"))?;
        if query.get("response_type") != Some("code") {
            return Err(bad("'response_type' must be 'code'"));
        }
        let scopes: Vec<String> =
            query.get("scope").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        if scopes.is_empty() {
            return Err(bad("'scope' is required"));
        }
        let account_id = account_id.ok_or_else(|| bad("'login_hint' names no user"))?;
        let challenge = match (query.get("code_challenge"), query.get("code_challenge_method")) {
            (None, _) => None,
            (Some(challenge), Some("S256")) => Some(challenge.to_owned()),
            (Some(_), _) => return Err(bad("'code_challenge_method' must be 'S256'")),
        };
        let outcome = if denied {
            ("error", "access_denied".to_owned())
        } else {
            let code = self.consent(client_id, account_id, scopes, redirect_uri, now);
            if let Some(code) = self.codes.get_mut(&code) {
                code.challenge = challenge;
            }
            ("code", code)
        };
        target.query_pairs_mut().append_pair(outcome.0, &outcome.1);
        if let Some(state) = query.get("state") {
            target.query_pairs_mut().append_pair("state", state);
        }
        Ok(target.into())
    }

    fn consent(
        &mut self,
        client_id: &str,
        account_id: &str,
        scopes: Vec<String>,
        redirect_uri: &str,
        now: Moment,
    ) -> String {
        let grant = (client_id.to_owned(), account_id.to_owned());
        self.grants.insert(grant.clone(), Grant { scopes, granted_at: now, revoked: false });
        let code = self.secret("code");
        let expires_at = now.plus(self.lifetimes.code);
        self.codes.insert(
            code.clone(),
            Code { grant, redirect_uri: redirect_uri.to_owned(), challenge: None, expires_at },
        );
        code
    }

    /// Hands out tokens as after a consent and an exchange, for tests that are not about those.
    pub(super) fn grant(&mut self, client_id: &str, account_id: &str, scopes: &str, now: Moment) -> Tokens {
        let scopes = scopes.split_whitespace().map(str::to_owned).collect();
        let key = (client_id.to_owned(), account_id.to_owned());
        self.grants.insert(key.clone(), Grant { scopes, granted_at: now, revoked: false });
        self.issue(key, now)
    }

    /// Revokes every consent, as a user does in the settings of the account.
    pub(super) fn revoke_all(&mut self) {
        for grant in self.grants.values_mut() {
            grant.revoked = true;
        }
        self.access_tokens = Ring::default();
    }

    /// How many refreshes have succeeded.
    pub(super) fn refreshes(&self) -> u64 {
        self.refreshes
    }

    /// `/oauth/token`. `basic` is the pair of an Authorization header, when there is one.
    pub(super) fn token(
        &mut self,
        fields: &BTreeMap<String, String>,
        basic: Option<(String, String)>,
        now: Moment,
    ) -> Result<Tokens, ApiError> {
        let field = |name: &str| fields.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let (client_id, client_secret) = match (field("client_id"), field("client_secret"), &basic) {
            (Some(id), Some(secret), _) => (id, secret),
            (_, _, Some((id, secret))) => (id.as_str(), secret.as_str()),
            _ => return Err(denied()),
        };
        let known =
            self.apps.iter().any(|app| app.client_id == client_id && app.client_secret == client_secret);
        if !known {
            return Err(denied());
        }
        match field("grant_type") {
            Some("authorization_code") => {
                let code = field("code").ok_or_else(|| invalid_request("'code' is required"))?;
                self.exchange(client_id, code, field("redirect_uri"), field("code_verifier"), now)
            }
            Some("refresh_token") => {
                let token =
                    field("refresh_token").ok_or_else(|| invalid_request("'refresh_token' is required"))?;
                self.refresh(client_id, token, now)
            }
            // The real service has none; connectors of others do.
            Some("client_credentials") => {
                let scopes = field("scope").unwrap_or_default().split_whitespace().map(str::to_owned);
                let scopes = scopes.filter(|scope| scope != "offline_access").collect();
                let key = (client_id.to_owned(), String::new());
                self.grants.insert(key.clone(), Grant { scopes, granted_at: now, revoked: false });
                Ok(self.issue(key, now))
            }
            Some(_) => Err(ApiError::oauth(
                StatusCode::BAD_REQUEST,
                "unsupported_grant_type",
                "The grant type is none of authorization_code, refresh_token and client_credentials",
            )),
            None => Err(invalid_request("'grant_type' is required")),
        }
    }

    fn exchange(
        &mut self,
        client_id: &str,
        code: &str,
        redirect_uri: Option<&str>,
        verifier: Option<&str>,
        now: Moment,
    ) -> Result<Tokens, ApiError> {
        // Taken before it is judged: a code is good for one try.
        let found = self.codes.remove(code);
        let good = found.filter(|code| {
            code.grant.0 == client_id
                && Some(code.redirect_uri.as_str()) == redirect_uri
                && now < code.expires_at
                && code.challenge.as_deref().is_none_or(|challenge| proves(verifier, challenge))
        });
        match good {
            Some(code) => Ok(self.issue(code.grant, now)),
            None => Err(invalid_grant("The authorization code is unknown, used or expired")),
        }
    }

    fn refresh(&mut self, client_id: &str, token: &str, now: Moment) -> Result<Tokens, ApiError> {
        let unknown = || {
            let text = "The refresh token is unknown or has been used";
            ApiError::oauth(StatusCode::FORBIDDEN, "unauthorized_client", text)
        };
        let lifetimes = self.lifetimes;
        let held = self
            .refresh_tokens
            .get_mut(token)
            .filter(|held| held.grant.0 == client_id)
            .ok_or_else(unknown)?;
        if held.rotated_at.is_some_and(|at| now >= at.plus(lifetimes.refresh_leeway)) {
            return Err(unknown());
        }
        let key = held.grant.clone();
        let idle = now > held.last_used.plus(lifetimes.refresh_idle);
        let grant = self.grants.get(&key).filter(|grant| !grant.revoked);
        let alive = grant.is_some_and(|grant| now <= grant.granted_at.plus(lifetimes.grant));
        if idle || !alive {
            return Err(invalid_grant("The refresh token has expired or was revoked"));
        }
        held.last_used = now;
        held.rotated_at.get_or_insert(now);
        self.refreshes += 1;
        Ok(self.issue(key, now))
    }

    fn issue(&mut self, key: GrantKey, now: Moment) -> Tokens {
        let scopes = self.grants.get(&key).map(|grant| grant.scopes.clone()).unwrap_or_default();
        let access_token = self.secret("access");
        let expires_at = now.plus(self.lifetimes.access_token);
        let scope = scopes.join(" ");
        let refresh_token =
            scopes.iter().any(|scope| scope == "offline_access").then(|| self.secret("refresh"));
        if let Some(token) = &refresh_token {
            let held = RefreshToken { grant: key.clone(), last_used: now, rotated_at: None };
            self.refresh_tokens.insert(token.clone(), held);
        }
        self.access_tokens
            .insert(access_token.clone(), AccessToken { account_id: key.1, scopes, expires_at });
        let expires_in = self.lifetimes.access_token.as_secs();
        Tokens { access_token, token_type: "Bearer", expires_in, scope, refresh_token }
    }

    /// The holder of this access token; `None` if it is unknown or has expired.
    pub(super) fn bearer(&self, token: &str, now: Moment) -> Option<Who> {
        let held = self.access_tokens.get(token).filter(|held| now < held.expires_at)?;
        Some(Who { account_id: held.account_id.clone(), scopes: Some(held.scopes.clone()) })
    }

    /// A value of a counter with a tail that cannot be mistaken for anything else, the same in every run.
    fn secret(&mut self, kind: &str) -> String {
        self.issued += 1;
        let tail = fingerprint(&format!("{kind} {}", self.issued)).replace("sha256:", "");
        format!("sim-{kind}-{:04}-{tail}", self.issued)
    }
}

/// A site as `/oauth/token/accessible-resources` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The cloud id that the gateway's paths name.
    pub cloud_id: String,
    /// The name that people know it by.
    pub name: String,
}

/// The list of sites that a token opens: every site of the simulator with the scopes of the token.
pub(super) fn accessible_resources(sites: &[Site], base_url: &str, who: &Who) -> Value {
    let scopes: Vec<&String> =
        who.scopes.iter().flatten().filter(|scope| scope.as_str() != "offline_access").collect();
    let entry = |(place, site): (usize, &Site)| {
        let url = if place == 0 { base_url.to_owned() } else { format!("https://{}.example.com", site.name) };
        json!({
            "id": site.cloud_id,
            "name": site.name,
            "url": url,
            "scopes": scopes,
            "avatarUrl": format!("{base_url}/_media/avatars/{}.png", site.name),
        })
    };
    sites.iter().enumerate().map(entry).collect()
}

/// True if a challenge was derived from this verifier.
fn proves(verifier: Option<&str>, challenge: &str) -> bool {
    let digest = |verifier: &str| URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    verifier.is_some_and(|verifier| digest(verifier) == challenge)
}

fn denied() -> ApiError {
    ApiError::oauth(StatusCode::UNAUTHORIZED, "access_denied", "Unauthorized")
}

fn invalid_grant(text: &str) -> ApiError {
    ApiError::oauth(StatusCode::FORBIDDEN, "invalid_grant", text)
}

/// 400 for a request that cannot be read.
pub(super) fn invalid_request(text: &str) -> ApiError {
    ApiError::oauth(StatusCode::BAD_REQUEST, "invalid_request", text)
}

/// A map that forgets its oldest entry when it is full.
#[derive(Debug)]
struct Ring<T> {
    entries: indexmap::IndexMap<String, T>,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { entries: indexmap::IndexMap::new() }
    }
}

impl<T> Ring<T> {
    fn insert(&mut self, key: String, value: T) {
        if self.entries.len() >= MOST_KEPT {
            // A tenth at once: removing the first entry of the map moves all the others.
            self.entries.drain(..MOST_KEPT / 10);
        }
        self.entries.insert(key, value);
    }

    fn get(&self, key: &str) -> Option<&T> {
        self.entries.get(key)
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut T> {
        self.entries.get_mut(key)
    }

    fn remove(&mut self, key: &str) -> Option<T> {
        self.entries.shift_remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider() -> (OAuth, Moment) {
        let app = App { client_id: "c".into(), client_secret: "s".into(), redirect_uris: Vec::new() };
        (OAuth { apps: vec![app], ..OAuth::default() }, Moment::from_millis(1_000_000))
    }

    fn refresh(provider: &mut OAuth, token: &str, now: Moment) -> Result<Tokens, ApiError> {
        provider.refresh("c", token, now)
    }

    #[test]
    fn a_used_refresh_token_works_until_its_leeway_ends() {
        let (mut provider, now) = provider();
        let first = provider.grant("c", "a", "offline_access x", now).refresh_token.unwrap();
        let second = refresh(&mut provider, &first, now).unwrap().refresh_token.unwrap();
        assert_ne!(first, second);
        let leeway = provider.lifetimes.refresh_leeway;
        assert!(refresh(&mut provider, &first, now.plus(leeway - Duration::from_millis(1))).is_ok());
        assert_eq!(refresh(&mut provider, &first, now.plus(leeway)).unwrap_err().status(), 403);
        assert!(refresh(&mut provider, &second, now.plus(leeway)).is_ok());
    }

    #[test]
    fn a_refresh_token_dies_of_90_days_of_rest_and_a_grant_of_365_days_of_age() {
        let day = Duration::from_secs(24 * 60 * 60);
        let (mut provider, now) = provider();
        let mut token = provider.grant("c", "a", "offline_access", now).refresh_token.unwrap();
        assert!(
            refresh(&mut provider, &token, now.plus(91 * day)).unwrap_err().to_string().contains("expired")
        );
        for quarter in 1..=4 {
            token =
                refresh(&mut provider, &token, now.plus(quarter * 90 * day)).unwrap().refresh_token.unwrap();
        }
        assert!(refresh(&mut provider, &token, now.plus(366 * day)).is_err());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (mut provider, now) = provider();
        for _ in 0..(MOST_KEPT + 5) {
            provider.grant("c", "a", "x", now);
        }
        assert!(provider.access_tokens.entries.len() <= MOST_KEPT);
    }
}
