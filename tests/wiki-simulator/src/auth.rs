//! Authentication of the one user, and OAuth 2.0: consent, exchange, refresh with rotation, the list of sites.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use indexmap::IndexMap;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::call::{ApiError, Call, Reply, Shape};
use super::model::{Kind, Moment, State};
use super::seed::{
    ALL_SCOPES, CLOUD_ID, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_EMAIL, DEMO_SCOPED_TOKEN, DEMO_TOKEN,
};

/// The user's password, which the wiki refuses with an answer of its own.
const DEMO_PASSWORD: &str = "demo-password";

impl State {
    /// Authenticates a call by its Authorization header, and returns the scopes of the caller; `None` for all rights.
    pub(super) fn authenticate(&self, call: &Call, gateway: bool) -> Result<Option<String>, ApiError> {
        let refused = || match gateway {
            true => ApiError::gateway(401, "Unauthorized"),
            false => ApiError::v2(401, "Unauthorized").with("www-authenticate", "Basic realm=\"wiki\""),
        };
        if let (Some(token), true) = (call.header("authorization").strip_prefix("Bearer "), gateway) {
            return self.oauth.bearer(token, self.clock.now()).map(Some).ok_or_else(refused);
        }
        let (email, secret) = basic_pair(call).ok_or_else(refused)?;
        match (gateway, secret.as_str()) {
            _ if !email.eq_ignore_ascii_case(DEMO_EMAIL) => Err(refused()),
            (false, DEMO_TOKEN) => Ok(None),
            (true, DEMO_SCOPED_TOKEN) => Ok(Some(ALL_SCOPES.to_owned())),
            (false, DEMO_PASSWORD) => {
                let text = "Basic authentication with a password is deprecated. Use an API token instead.";
                Err(ApiError::new(Shape::Text, 401, "", text))
            }
            _ => Err(refused()),
        }
    }

    /// Checks that the caller has all of the scopes, where `a|b` is satisfied by either. A scope such as `read` is
    /// completed with the kind of content in the path.
    pub(super) fn check_scopes(&self, call: &Call, scopes: &str) -> Result<(), ApiError> {
        let Some(held) = &call.scopes else { return Ok(()) };
        let has = |scope: &str| {
            let kind = call.kind().map_or("", Kind::name);
            let whole = if scope.contains(':') { scope.to_owned() } else { format!("{scope}:{kind}:wiki") };
            held.split(' ').any(|held| held == whole)
        };
        if scopes.split_whitespace().all(|group| group.split('|').any(has)) {
            return Ok(());
        }
        let error = ApiError::gateway(401, "Unauthorized; scope does not match");
        Err(error.with("x-failure-category", "FAILURE_CLIENT_SCOPE_CHECK"))
    }
}

/// The two parts of a Basic Authorization header.
pub(super) fn basic_pair(call: &Call) -> Option<(String, String)> {
    let encoded = call.header("authorization").strip_prefix("Basic ")?;
    let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    text.split_once(':').map(|(name, secret)| (name.to_owned(), secret.to_owned()))
}

const MAX_TOKENS: usize = 10_000;
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// The time for which a code is valid, and a used refresh token still is.
const LEEWAY: Duration = Duration::from_secs(600);

/// A code, an access token or a refresh token; its prefix determines the kind.
#[derive(Debug)]
struct Token {
    scopes: String,
    /// The redirect address and the challenge (RFC 7636, S256) that the exchange of a code must match.
    redirect_uri: String,
    challenge: Option<String>,
    last_used: Moment,
    rotated_at: Option<Moment>,
}

/// The identity provider, with one application.
#[derive(Debug, Default)]
pub(super) struct OAuth {
    /// Scopes and time of the user's consent.
    grant: Option<(String, Moment)>,
    tokens: IndexMap<String, Token>,
    issued: u64,
    pub(super) refreshes: u64,
}

/// A digest that is the same in every run.
pub(super) fn digest(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..8])
}

fn error(status: u16, code: &str, text: &str) -> ApiError {
    ApiError::new(Shape::OAuth, status, code, text)
}

impl OAuth {
    /// Issues tokens as after a consent and an exchange. A consent replaces the scopes of the one before.
    pub(super) fn consent(&mut self, scopes: &str, now: Moment) -> Value {
        self.grant = Some((scopes.to_owned(), now));
        self.issue(scopes, now)
    }

    /// Revokes the consent, as a user does in the settings of the account.
    pub(super) fn revoke_all(&mut self) {
        self.grant = None;
        self.tokens.retain(|text, _| !text.starts_with("sim-access"));
    }

    /// The scopes of a valid access token.
    fn bearer(&self, text: &str, now: Moment) -> Option<String> {
        let token = self.tokens.get(text).filter(|_| text.starts_with("sim-access"))?;
        Some(token.scopes.clone()).filter(|_| now < token.last_used.plus(HOUR))
    }

    fn exchange(&mut self, fields: &Fields, now: Moment) -> Result<Value, ApiError> {
        let field = |name: &str| fields.get(name).map(String::as_str);
        let verifier = field("code_verifier").map(|text| URL_SAFE_NO_PAD.encode(Sha256::digest(text)));
        // Removed before it is checked: a code is valid for one attempt.
        let code = self.tokens.shift_remove(require(fields, "code")?).filter(|code| {
            field("redirect_uri") == Some(code.redirect_uri.as_str())
                && now < code.last_used.plus(LEEWAY)
                && (code.challenge.is_none() || code.challenge == verifier)
        });
        let code = code.ok_or_else(|| error(403, "invalid_grant", "The code is unknown, used or expired"))?;
        Ok(self.issue(&code.scopes, now))
    }

    fn refresh(&mut self, token: &str, now: Moment) -> Result<Value, ApiError> {
        let fresh = |token: &&mut Token| token.rotated_at.is_none_or(|at| now < at.plus(LEEWAY));
        let found = self.tokens.get_mut(token).filter(|_| token.starts_with("sim-refresh")).filter(fresh);
        let used = "The refresh token is unknown or has been used";
        let token = found.ok_or_else(|| error(403, "unauthorized_client", used))?;
        let granted = self.grant.clone().filter(|(_, granted_at)| now <= granted_at.plus(365 * DAY));
        let granted = granted.filter(|_| now <= token.last_used.plus(90 * DAY));
        let expired = || error(403, "invalid_grant", "The refresh token has expired or was revoked");
        let (scopes, _) = granted.ok_or_else(expired)?;
        token.last_used = now;
        token.rotated_at.get_or_insert(now);
        self.refreshes += 1;
        Ok(self.issue(&scopes, now))
    }

    /// The answer of the token endpoint. A refresh token comes only with a consent to `offline_access`.
    fn issue(&mut self, scopes: &str, now: Moment) -> Value {
        let access = self.add("access", scopes, now);
        let mut tokens =
            json!({"access_token": access, "token_type": "Bearer", "expires_in": HOUR.as_secs()});
        tokens["scope"] = scopes.into();
        if scopes.contains("offline_access") {
            tokens["refresh_token"] = self.add("refresh", scopes, now).into();
        }
        tokens
    }

    fn add(&mut self, kind: &str, scopes: &str, now: Moment) -> String {
        self.issued += 1;
        let text = format!("sim-{kind}-{:04}-{}", self.issued, digest(&format!("{kind} {}", self.issued)));
        if self.tokens.len() >= MAX_TOKENS {
            self.tokens.drain(..MAX_TOKENS / 10);
        }
        let (scopes, redirect_uri, challenge) = (scopes.to_owned(), String::new(), None);
        let token = Token { scopes, redirect_uri, challenge, last_used: now, rotated_at: None };
        self.tokens.insert(text.clone(), token);
        text
    }
}

/// The fields of a call to the token endpoint.
type Fields = BTreeMap<String, String>;

/// Reads the fields, in JSON or as a form.
fn fields_of(call: &Call) -> Result<Fields, ApiError> {
    if call.header("content-type").starts_with("application/x-www-form-urlencoded") {
        return Ok(url::form_urlencoded::parse(&call.body).into_owned().collect());
    }
    let bad = |_| error(400, "invalid_request", "The body must be a JSON object of strings");
    serde_json::from_slice(&call.body).map_err(bad)
}

fn require<'a>(fields: &'a Fields, name: &str) -> Result<&'a str, ApiError> {
    let field = fields.get(name).map(String::as_str);
    field.ok_or_else(|| error(400, "invalid_request", &format!("'{name}' is required")))
}

impl State {
    /// `/authorize`: redirects with a code and the state, or with `error=access_denied`. The user consents at once.
    pub(super) fn authorize(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let query = &call.query;
        let bad = |name: &str| ApiError::bad_parameter(format!("'{name}' is missing or not valid"));
        let require = |name: &str| query.get(name).ok_or_else(|| bad(name));
        let expect = |name, value: &str| if query.get(name) == Some(value) { Ok(()) } else { Err(bad(name)) };
        expect("client_id", DEMO_CLIENT_ID)?;
        expect("response_type", "code")?;
        let (redirect_uri, scopes) = (require("redirect_uri")?.to_owned(), require("scope")?.to_owned());
        let mut target = url::Url::parse(&redirect_uri).map_err(|_| bad("redirect_uri"))?;
        let challenge = query.get("code_challenge").map(str::to_owned);
        if challenge.is_some() {
            expect("code_challenge_method", "S256")?;
        }
        if self.switches.deny_consent {
            target.query_pairs_mut().append_pair("error", "access_denied");
        } else {
            let now = self.clock.now();
            let code = self.oauth.add("code", &scopes, now);
            self.oauth.grant = Some((scopes, now));
            target.query_pairs_mut().append_pair("code", &code);
            if let Some(token) = self.oauth.tokens.get_mut(&code) {
                (token.redirect_uri, token.challenge) = (redirect_uri, challenge);
            }
        }
        if let Some(state) = query.get("state") {
            target.query_pairs_mut().append_pair("state", state);
        }
        Ok(Reply::redirect(target.as_str()))
    }

    /// `/oauth/token`, with the client's secret in the body or in a Basic header.
    pub(super) fn token(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let (fields, now) = (fields_of(call)?, self.clock.now());
        let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let client = match fields.contains_key("client_secret") {
            true => (field("client_id"), field("client_secret")),
            false => basic_pair(call).unwrap_or_default(),
        };
        if client.0 != DEMO_CLIENT_ID || client.1 != DEMO_CLIENT_SECRET {
            return Err(error(401, "access_denied", "Unauthorized"));
        }
        let tokens = match require(&fields, "grant_type")? {
            "authorization_code" => self.oauth.exchange(&fields, now)?,
            "refresh_token" => self.oauth.refresh(require(&fields, "refresh_token")?, now)?,
            // The real service has no such grant; other services do.
            "client_credentials" => self.oauth.issue(&field("scope"), now),
            _ => return Err(error(400, "unsupported_grant_type", "The grant type is not supported")),
        };
        let mut reply = Reply::ok(&tokens);
        reply.set("cache-control", "no-store");
        Ok(reply)
    }

    /// `/oauth/token/accessible-resources`: the site, with the scopes of the token.
    pub(super) fn accessible_resources(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let scopes = self.authenticate(call, true)?.unwrap_or_default();
        if let Some(resources) = &self.resources {
            return Ok(Reply::ok(resources));
        }
        let scopes: Vec<&str> = scopes.split(' ').filter(|scope| *scope != "offline_access").collect();
        let (url, avatar) = (&self.base_url, format!("{}/_media/avatars/demo.png", self.base_url));
        let site = json!({"id": CLOUD_ID, "name": "demo", "url": url, "scopes": scopes, "avatarUrl": avatar});
        Ok(Reply::ok(&[site]))
    }

    /// `/_edge/tenant_info`: the cloud id, without authentication.
    pub(super) fn tenant_info(&mut self, _: &Call) -> Result<Reply, ApiError> {
        Ok(Reply::ok(&json!({"cloudId": CLOUD_ID})))
    }
}
