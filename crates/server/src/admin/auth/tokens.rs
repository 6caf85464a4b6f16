//! Tokens of the API: named, with scopes and an end. The store has their hashes only.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use runtime::Clock;
use serde::{Deserialize, Serialize};
use store::{StateWrite, Store};
use tokio::sync::{Mutex, Notify};
use utoipa::ToSchema;

use super::credential::{Credential, encode, hash, random};
use super::scope::{Scope, Scopes};
use crate::admin::extract::{Answer, Body, Segment};
use crate::admin::{Problem, Shared};

/// The scope of tokens in the state of the store. No scope of an automation has a colon in it.
const SCOPE: &str = "tokens:";
/// The prefix of every token, by which scanners for leaked secrets find it.
const PREFIX: &str = "cogwork_";
/// Maximum number of tokens at one time.
const MOST_TOKENS: u32 = 500;
/// Maximum number of characters of a name.
const MOST_NAME: usize = 60;
/// The validity of a token where none is given, and the longest one.
const DEFAULT_VALIDITY: SignedDuration = SignedDuration::from_hours(90 * 24);
const LONGEST_VALIDITY: SignedDuration = SignedDuration::from_hours(3660 * 24);
/// The time after which the last use of a token is stored anew.
const USED_STEP: SignedDuration = SignedDuration::from_mins(10);

/// The key of a token in the store: its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TokenId(String);

/// A token as the store has it. Its end is the expiry of the stored value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Token {
    pub(crate) name: String,
    pub(crate) scopes: Scopes,
    created_at: Timestamp,
    created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    used_at: Option<Timestamp>,
}

/// A stored token with its version and its end.
struct StoredToken {
    token: Token,
    version: u64,
    expires_at: Timestamp,
}

/// The tokens of a daemon.
pub(crate) struct Tokens {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Held from the check of a new name to its write, so that no two tokens have the same name.
    creation: Mutex<()>,
    revoked: Notify,
}

impl Tokens {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { store, clock, creation: Mutex::default(), revoked: Notify::new() })
    }

    /// The valid token that `secret` is; `None` if it is none, or is over.
    pub(crate) async fn check(&self, secret: &str) -> Result<Option<(TokenId, Token)>, Problem> {
        if !secret.starts_with(PREFIX) {
            return Ok(None);
        }
        let id = TokenId(encode(&hash(secret)));
        let Some(mut stored) = self.find(&id).await? else { return Ok(None) };
        let now = self.clock.now();
        let is_recent = |used: Timestamp| used.saturating_add(USED_STEP).is_ok_and(|until| until > now);
        if !stored.token.used_at.is_some_and(is_recent) {
            stored.token.used_at = Some(now);
            match self.write(&id, Some(&stored.token), Some(stored.version), stored.expires_at).await {
                // Another request noted its use, or it was revoked at the same time: the next request tells.
                Ok(()) | Err(store::Error::StateChanged { .. } | store::Error::Full) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some((id, stored.token)))
    }

    /// True if the token was not revoked and is not over.
    pub(crate) async fn is_valid(&self, id: &TokenId) -> Result<bool, Problem> {
        Ok(self.find(id).await?.is_some())
    }

    /// Returns when [`note_revocation`](Self::note_revocation) has been called since this call.
    pub(crate) fn revocation(&self) -> impl Future<Output = ()> {
        self.revoked.notified()
    }

    /// Makes open event streams check their credentials.
    pub(crate) fn note_revocation(&self) {
        self.revoked.notify_waiters();
    }

    async fn find(&self, TokenId(key): &TokenId) -> Result<Option<StoredToken>, Problem> {
        let entry = self.store.read_state(SCOPE, key).await?;
        Ok(entry.and_then(read).filter(|stored| stored.expires_at > self.clock.now()))
    }

    /// The valid tokens by name. Expired ones may still be in the store, so it is read to its end, page by page.
    async fn list(&self) -> Result<Vec<(TokenId, StoredToken)>, Problem> {
        let now = self.clock.now();
        let (mut tokens, mut after) = (Vec::new(), None::<String>);
        loop {
            let rows = self.store.list_state(SCOPE, after.as_deref(), MOST_TOKENS).await?;
            let Some(last) = rows.last() else { break };
            after = Some(last.key.clone());
            let read = rows.into_iter().filter_map(|row| Some((TokenId(row.key), read(row.entry)?)));
            tokens.extend(read.filter(|(_, stored)| stored.expires_at > now));
        }
        tokens.sort_by(|one, other| one.1.token.name.cmp(&other.1.token.name));
        Ok(tokens)
    }

    async fn write(
        &self,
        TokenId(key): &TokenId,
        token: Option<&Token>,
        expected: Option<u64>,
        expires_at: Timestamp,
    ) -> Result<(), store::Error> {
        let value = token.and_then(|token| serde_json::to_value(token).ok());
        let write = StateWrite {
            scope: SCOPE.to_owned(),
            key: key.clone(),
            expected,
            value: value.and_then(|value| serde_json::from_value(value).ok()),
            expires_at: token.map(|_| expires_at),
        };
        self.store.write_state(vec![write]).await
    }
}

impl Tokens {
    /// Deletes a token.
    async fn revoke(&self, id: &TokenId, mut stored: StoredToken) -> Result<(), Problem> {
        loop {
            match self.write(id, None, Some(stored.version), stored.expires_at).await {
                Ok(()) => return Ok(()),
                // Its last use was noted at the same time, or somebody else revoked it.
                Err(store::Error::StateChanged { .. }) => match self.find(id).await? {
                    Some(changed) => stored = changed,
                    None => return Ok(()),
                },
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn read(entry: store::StateEntry) -> Option<StoredToken> {
    let token = serde_json::from_value(entry.value.to_serde()).ok()?;
    Some(StoredToken { token, version: entry.version, expires_at: entry.expires_at? })
}

/// A token, without the token itself.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Token)]
pub(crate) struct TokenView {
    name: String,
    /// Its scopes.
    #[schema(value_type = Vec<String>)]
    scopes: Scopes,
    created_at: Timestamp,
    /// The credential that created it.
    created_by: String,
    /// It is valid until then.
    expires_at: Timestamp,
    /// When it was used last, to ten minutes; absent if it never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_at: Option<Timestamp>,
}

impl From<StoredToken> for TokenView {
    fn from(StoredToken { token, expires_at, .. }: StoredToken) -> Self {
        let Token { name, scopes, created_at, created_by, used_at } = token;
        Self { name, scopes, created_at, created_by, expires_at, used_at }
    }
}

/// The tokens.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Tokens)]
pub(crate) struct TokensView {
    /// By name.
    tokens: Vec<TokenView>,
}

/// The tokens that are valid
#[utoipa::path(
    get, path = "/api/v1/tokens", tag = "tokens",
    responses((status = 200, description = "Without the tokens themselves", body = TokensView)),
)]
pub(crate) async fn list(State(api): Shared) -> Result<Answer<TokensView>, Problem> {
    let tokens = api.tokens.list().await?;
    Ok(Answer::ok(TokensView { tokens: tokens.into_iter().map(|(_, token)| token.into()).collect() }))
}

/// A token to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewToken {
    /// The name, such as the program that uses it.
    #[schema(example = "prometheus")]
    name: String,
    /// Its scopes: `metrics`, `read`, `run`, `write`, `secrets`, `admin`.
    #[schema(value_type = Vec<String>)]
    scopes: Scopes,
    /// For how many seconds it is valid: up to ten years, 90 days if absent.
    #[serde(default)]
    #[schema(minimum = 1)]
    valid_for: Option<i64>,
}

/// A new token.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreatedToken {
    /// The token itself. It is shown only here.
    token: String,
    #[serde(flatten)]
    view: TokenView,
}

/// Create a token
#[utoipa::path(
    post, path = "/api/v1/tokens", tag = "tokens", request_body = NewToken,
    responses((status = 201, description = "The token, which is shown only once", body = CreatedToken)),
)]
pub(crate) async fn create(
    State(api): Shared,
    Extension(credential): Extension<Credential>,
    Body(new): Body<NewToken>,
) -> Result<Answer<CreatedToken>, Problem> {
    let unusable = |detail: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_token", detail);
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | ' ');
    let name = new.name.trim().to_owned();
    if name.is_empty() || name.chars().count() > MOST_NAME || !name.chars().all(is_plain) {
        return Err(unusable(format!(
            "the name has 1 to {MOST_NAME} letters, digits, spaces or characters of `-_.@`"
        )));
    }
    if new.scopes.is_empty() {
        let all = Scope::ALL.map(Scope::as_str).join(", ");
        return Err(unusable(format!("a token needs at least one scope of {all}")));
    }
    let validity = new.valid_for.map_or(DEFAULT_VALIDITY, SignedDuration::from_secs);
    if !(SignedDuration::ZERO..=LONGEST_VALIDITY).contains(&validity) || validity.is_zero() {
        return Err(unusable("a token is valid for a second to ten years".to_owned()));
    }
    if !new.scopes.within(credential.scopes) {
        return Err(Problem::scope_missing(&new.scopes, &credential));
    }
    let _one_at_a_time = api.tokens.creation.lock().await;
    let existing = api.tokens.list().await?;
    if existing.iter().any(|(_, other)| other.token.name == name) {
        let detail = format!("there is a token `{name}`; revoke it, or take another name");
        return Err(Problem::new(StatusCode::CONFLICT, "token_exists", detail));
    }
    if existing.len() >= MOST_TOKENS as usize {
        let detail = format!("there are {MOST_TOKENS} tokens; revoke some");
        return Err(Problem::new(StatusCode::CONFLICT, "too_many_tokens", detail));
    }
    let (secret, now) = (format!("{PREFIX}{}", random()?), api.engine.clock().now());
    let expires_at = now.saturating_add(validity).unwrap_or(Timestamp::MAX);
    let token = Token {
        name,
        scopes: new.scopes,
        created_at: now,
        created_by: credential.to_string(),
        used_at: None,
    };
    api.tokens.write(&TokenId(encode(&hash(&secret))), Some(&token), None, expires_at).await?;
    let view = StoredToken { token, version: 0, expires_at }.into();
    Ok(Answer(StatusCode::CREATED, CreatedToken { token: secret, view }))
}

/// A token that was revoked.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Revoked {
    /// Its name.
    revoked: String,
}

/// Revoke a token
///
/// Requests with it, and sessions that were begun with it, are refused from now on, and their event streams end.
#[utoipa::path(
    delete, path = "/api/v1/tokens/{name}", tag = "tokens",
    params(("name" = String, Path, description = "The name of the token")),
    responses((status = 200, description = "It is revoked", body = Revoked)),
)]
pub(crate) async fn revoke(State(api): Shared, Segment(name): Segment) -> Result<Answer<Revoked>, Problem> {
    let tokens = api.tokens.list().await?;
    // Two daemons of a cluster may have created tokens of the same name at the same time: both end.
    let found: Vec<_> = tokens.into_iter().filter(|(_, stored)| stored.token.name == name).collect();
    if found.is_empty() {
        return Err(Problem::not_found("unknown_token", format!("there is no token `{name}`")));
    }
    for (id, stored) in found {
        api.tokens.revoke(&id, stored).await?;
    }
    api.tokens.note_revocation();
    Ok(Answer::ok(Revoked { revoked: name }))
}
