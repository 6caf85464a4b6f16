//! Sessions of browsers: a login link is exchanged once for a cookie and a second secret that each request repeats.
//!
//! Browsers send a cookie to every port of a host, so a cookie alone proves nothing: each request by cookie, reads too, also
//! needs the second secret in [`SECRET_HEADER`], which only pages of this origin know. Both are kept as hashes in the store, so that a session
//! outlives a restart.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{COOKIE, ORIGIN, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::{SignedDuration, Timestamp};
use runtime::Clock;
use serde::{Deserialize, Serialize};
use store::{StateWrite, Store};
use subtle::ConstantTimeEq as _;
use utoipa::ToSchema;
use value::Secret;

use super::credential::{Credential, Hash, Owner, encode, hash, random};
use super::scope::Scopes;
use super::tokens::Tokens;
use crate::admin::extract::{Answer, Body};
use crate::admin::{Api, Problem, Shared};

/// The header field with the second secret of a session.
pub(crate) const SECRET_HEADER: &str = "x-cogwork-session";
/// The time within which a login link is used.
const LINK_FOR: SignedDuration = SignedDuration::from_mins(10);
/// The time for which a session is valid after it was begun or renewed.
const SESSION_FOR: SignedDuration = SignedDuration::from_hours(12);
/// Maximum number of login links that are valid at one time. A new one takes the place of the oldest of the credential that has the most.
const LINKS: usize = 64;
/// Maximum number of login links that one credential may create in the validity of one. Each of them may begin a session, which the store keeps.
const LINKS_OF_ONE: usize = 100;
/// The scope of sessions in the state of the store. No scope of an automation has a colon in it.
const SCOPE: &str = "sessions:";

/// The key of a session in the store: the hash of its cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionId(String);

/// The rights of a session: those of the credential that created its login link, or fewer; or those of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) owner: Owner,
    pub(crate) scopes: Scopes,
}

/// A session as the store has it. Its end is the expiry of the stored value.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredSession {
    /// The hash of the second secret.
    secret: String,
    #[serde(flatten)]
    grant: Grant,
    /// The beginning of a hash of the admin token that began the session: another admin token ends it. Too short to find the token by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    admin_token: Option<String>,
}

/// A login link that was not used yet.
struct Link {
    token: Hash,
    until: Timestamp,
    grant: Grant,
}

/// The login links, and when each credential has created its last ones.
#[derive(Default)]
struct Links {
    open: VecDeque<Link>,
    created: Vec<(Owner, VecDeque<Timestamp>)>,
}

/// The login links and sessions of a daemon.
pub(crate) struct Sessions {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    tokens: Arc<Tokens>,
    /// `cogwork_<port>`: daemons on two ports of a host do not overwrite each other's cookies.
    cookie: String,
    /// The hash of the rules by which people are let in; `None` if there is no identity provider.
    rules: Option<String>,
    /// The mark of the admin token in stored sessions.
    admin_token: String,
    links: Mutex<Links>,
}

/// The mark of an admin token in stored sessions.
fn mark(token: &Secret) -> String {
    encode(&hash(&format!("session of {}", token.expose()))).chars().take(6).collect()
}

impl Sessions {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        tokens: Arc<Tokens>,
        port: u16,
        rules: Option<String>,
        admin_token: &Secret,
    ) -> Arc<Self> {
        let cookie = format!("cogwork_{port}");
        Arc::new(Self {
            store,
            clock,
            tokens,
            cookie,
            rules,
            admin_token: mark(admin_token),
            links: Mutex::default(),
        })
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Creates a login link, and returns its token and its end.
    ///
    /// # Errors
    /// 429 if the credential has created too many.
    fn new_link(&self, grant: Grant) -> Result<(String, Timestamp), Problem> {
        let (token, now) = (random()?, self.now());
        let after = |time: Timestamp| time.saturating_add(LINK_FOR).unwrap_or(Timestamp::MAX);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.open.retain(|link| link.until > now);
        for (_, created) in &mut links.created {
            created.retain(|at| after(*at) > now);
        }
        links.created.retain(|(_, created)| !created.is_empty());
        match links.created.iter_mut().find(|(owner, _)| *owner == grant.owner) {
            Some((_, created)) if created.len() >= LINKS_OF_ONE => {
                let detail =
                    format!("this credential has created {LINKS_OF_ONE} login links within ten minutes");
                return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_links", detail));
            }
            Some((_, created)) => created.push_back(now),
            None => links.created.push((grant.owner.clone(), VecDeque::from([now]))),
        }
        if links.open.len() >= LINKS {
            let number =
                |link: &Link| links.open.iter().filter(|other| other.grant.owner == link.grant.owner).count();
            let most = links.open.iter().map(number).max().unwrap_or_default();
            let oldest = links.open.iter().position(|link| number(link) == most);
            oldest.and_then(|index| links.open.remove(index));
        }
        links.open.push_back(Link { token: hash(&token), until: after(now), grant });
        Ok((token, after(now)))
    }

    /// Uses up a login link. Returns the rights of its session; `None` if there is no such link.
    fn take_link(&self, token: &str) -> Option<Grant> {
        let (given, now) = (hash(token), self.now());
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let found = links.open.iter().position(|link| link.until > now && link.token.ct_eq(&given).into());
        found.and_then(|index| links.open.remove(index)).map(|link| link.grant)
    }

    /// A session with these rights, as it is stored.
    fn stored(&self, secret: &str, grant: Grant) -> StoredSession {
        let admin_token = matches!(grant.owner, Owner::Admin).then(|| self.admin_token.clone());
        StoredSession { secret: encode(&hash(secret)), grant, admin_token }
    }

    /// Writes a session that is valid from now on, and returns its end.
    async fn put(&self, SessionId(key): &SessionId, session: &StoredSession) -> Result<Timestamp, Problem> {
        let until = self.now().saturating_add(SESSION_FOR).unwrap_or(Timestamp::MAX);
        let expected = self.store.read_state(SCOPE, key).await?.map(|entry| entry.version);
        let write = StateWrite {
            scope: SCOPE.to_owned(),
            key: key.clone(),
            expected,
            value: serde_json::to_value(session).and_then(serde_json::from_value).ok(),
            expires_at: Some(until),
        };
        match self.store.write_state(vec![write]).await {
            // Another request renewed it at the same time.
            Ok(()) | Err(store::Error::StateChanged { .. }) => Ok(until),
            Err(error) => Err(error.into()),
        }
    }

    /// A session with its end; `None` if it is over, or the token or the rules with which it was begun are.
    async fn find(&self, SessionId(key): &SessionId) -> Result<Option<(StoredSession, Timestamp)>, Problem> {
        let Some(entry) = self.store.read_state(SCOPE, key).await? else { return Ok(None) };
        let Some(until) = entry.expires_at.filter(|until| *until > self.now()) else { return Ok(None) };
        let Ok(session) = serde_json::from_value::<StoredSession>(entry.value.to_serde()) else {
            return Ok(None);
        };
        let is_valid = match &session.grant.owner {
            Owner::Admin => session.admin_token.as_ref() == Some(&self.admin_token),
            Owner::Token { id, .. } => self.tokens.is_valid(id).await?,
            Owner::Person { rules, .. } => self.rules.as_ref() == Some(rules),
        };
        Ok(is_valid.then_some((session, until)))
    }

    /// True if the session has neither ended nor lost the token or the rules with which it was begun.
    pub(crate) async fn is_valid(&self, id: &SessionId) -> Result<bool, Problem> {
        Ok(self.find(id).await?.is_some())
    }

    async fn delete(&self, SessionId(key): &SessionId) -> Result<(), Problem> {
        let entry = self.store.read_state(SCOPE, key).await?;
        let Some(entry) = entry else { return Ok(()) };
        let write = StateWrite {
            scope: SCOPE.to_owned(),
            key: key.clone(),
            expected: Some(entry.version),
            value: None,
            expires_at: None,
        };
        self.store.write_state(vec![write]).await?;
        self.tokens.note_revocation();
        Ok(())
    }

    /// True if the request has a cookie of this daemon.
    pub(crate) fn has_cookie(&self, headers: &HeaderMap) -> bool {
        self.cookie(headers).is_some()
    }

    /// The session of a request by its cookie and its second secret.
    ///
    /// # Errors
    /// 403 without the second secret, and 401 if there is no such session.
    pub(crate) async fn check(&self, headers: &HeaderMap) -> Result<Credential, Problem> {
        let cookie = self.cookie(headers).unwrap_or_default();
        let Some(secret) = headers.get(SECRET_HEADER).and_then(|secret| secret.to_str().ok()) else {
            let detail =
                "a request by cookie also needs the header `X-Cogwork-Session`; scripts use the admin token";
            return Err(Problem::new(StatusCode::FORBIDDEN, "session_header_missing", detail));
        };
        let id = SessionId(encode(&hash(cookie)));
        let is_right = |session: &StoredSession| {
            bool::from(session.secret.as_bytes().ct_eq(encode(&hash(secret)).as_bytes()))
        };
        let found = self.find(&id).await?.map(|(session, _)| session);
        let session = found.filter(is_right).ok_or_else(over)?;
        let Grant { owner, scopes } = session.grant;
        Ok(Credential { owner, session: Some(id), scopes })
    }

    fn cookie<'headers>(&self, headers: &'headers HeaderMap) -> Option<&'headers str> {
        cookie(headers, &self.cookie)
    }

    /// The `Set-Cookie` field for a value; an empty value deletes the cookie.
    fn set_cookie(&self, headers: &HeaderMap, value: &str) -> Option<HeaderValue> {
        let age = if value.is_empty() { SignedDuration::ZERO } else { SESSION_FOR };
        cookie_field(headers, &self.cookie, value, age)
    }
}

/// The prefix of a cookie over HTTPS: it belongs to its host alone.
const HOST: &str = "__Host-";

/// The value of a cookie of this name; of that with the prefix first.
pub(crate) fn cookie<'headers>(headers: &'headers HeaderMap, name: &str) -> Option<&'headers str> {
    let fields = headers.get_all(COOKIE).iter().filter_map(|field| field.to_str().ok());
    let pairs = fields.flat_map(|field| field.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut plain = None;
    for (found, value) in pairs {
        if found.strip_prefix(HOST).is_some_and(|rest| rest == name) {
            return Some(value);
        }
        if found == name {
            plain = Some(value);
        }
    }
    plain
}

/// The `Set-Cookie` field of a cookie that no script reads and no other site sends.
pub(crate) fn cookie_field(
    headers: &HeaderMap,
    name: &str,
    value: &str,
    age: SignedDuration,
) -> Option<HeaderValue> {
    // A proxy may speak HTTPS for the daemon: then the page's origin says so, or that the browser has the cookie with the prefix.
    let is_https = headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"))
        || cookie(headers, &format!("{HOST}{name}")).is_some();
    let (prefix, secure) = if is_https { (HOST, "; Secure") } else { ("", "") };
    let age = age.as_secs();
    let field = format!("{prefix}{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    let mut field = HeaderValue::try_from(field).ok()?;
    field.set_sensitive(true);
    Some(field)
}

fn over() -> Problem {
    let detail = "the session has ended; `cogwork ui` prints a new login link";
    Problem::new(StatusCode::UNAUTHORIZED, "session_over", detail)
}

/// A login link for a browser.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginLink {
    /// The path of the page with the token in its fragment, which no browser sends and no log contains.
    path: String,
    /// The link is valid until then, for one use.
    expires_at: Timestamp,
}

/// The rights of a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewLink {
    /// Fewer scopes than those of the credential that asks for the link; all of them if absent.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>)]
    scopes: Option<Scopes>,
}

/// Create a login link for the web UI
///
/// The session has the scopes of the credential that asks for the link, and ends with it.
#[utoipa::path(
    post, path = "/api/v1/session/link", tag = "session", request_body = Option<NewLink>,
    responses((status = 201, description = "Valid for 10 minutes and one use", body = LoginLink)),
)]
pub(crate) async fn link(
    State(api): Shared,
    Extension(credential): Extension<Credential>,
    body: Option<Body<NewLink>>,
) -> Result<Answer<LoginLink>, Problem> {
    let scopes = body.and_then(|body| body.0.scopes).unwrap_or(credential.scopes);
    if !scopes.within(credential.scopes) {
        return Err(Problem::scope_missing(&scopes, &credential));
    }
    if matches!(credential.owner, Owner::Person { .. }) {
        // Its session could last longer than the provider lets the person in.
        let detail = "a person logs in at the identity provider in each browser";
        return Err(Problem::new(StatusCode::FORBIDDEN, "no_link", detail));
    }
    let (token, expires_at) = api.sessions.new_link(Grant { owner: credential.owner, scopes })?;
    Ok(Answer(StatusCode::CREATED, LoginLink { path: format!("/login#{token}"), expires_at }))
}

/// The token of a login link.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Login {
    /// The fragment of the link.
    token: String,
}

/// A session of a browser.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionView {
    /// The second secret, for the header `X-Cogwork-Session`. Only when the session begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// The end of the session, unless it is renewed; absent for the admin token, which has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    /// The scopes of the session, or of the token.
    #[schema(value_type = Vec<String>)]
    scopes: Scopes,
    /// The credential, as the audit log names it.
    name: String,
}

impl SessionView {
    fn new(credential: &Credential, secret: Option<String>, expires_at: Option<Timestamp>) -> Self {
        Self { secret, expires_at, scopes: credential.scopes, name: credential.to_string() }
    }
}

/// Begin a session with a login link
#[utoipa::path(
    post, path = "/api/v1/session", tag = "session", request_body = Login, security(()),
    responses((status = 201, description = "It has begun; the answer sets its cookie", body = SessionView)),
)]
pub(crate) async fn begin(
    State(api): Shared,
    headers: HeaderMap,
    Body(login): Body<Login>,
) -> Result<Response, Problem> {
    let token = Secret::new(login.token);
    let Some(grant) = api.sessions.take_link(token.expose()) else {
        let detail =
            "the login link was used already, or is older than 10 minutes; `cogwork ui` prints a new one";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "link_over", detail));
    };
    begin_with(&api, &headers, grant).await
}

/// Begins a session with these rights. The answer sets its cookie.
pub(crate) async fn begin_with(api: &Api, headers: &HeaderMap, grant: Grant) -> Result<Response, Problem> {
    let (cookie, secret) = (random()?, random()?);
    let (id, scopes) = (SessionId(encode(&hash(&cookie))), grant.scopes);
    let credential = Credential { owner: grant.owner.clone(), session: Some(id.clone()), scopes };
    let session = api.sessions.stored(&secret, grant);
    let until = api.sessions.put(&id, &session).await?;
    let view = SessionView::new(&credential, Some(secret), Some(until));
    let mut response = with_cookie(&api.sessions, headers, &cookie, Answer(StatusCode::CREATED, view));
    // For the audit log.
    response.extensions_mut().insert(credential);
    Ok(response)
}

/// Show and renew the session
#[utoipa::path(
    get, path = "/api/v1/session", tag = "session",
    responses((status = 200, description = "It is valid for 12 hours from now on; that of a person, from its beginning on", body = SessionView)),
)]
pub(crate) async fn show(
    State(api): Shared,
    headers: HeaderMap,
    Extension(credential): Extension<Credential>,
) -> Result<Response, Problem> {
    let Some(id) = &credential.session else {
        return Ok(Answer::ok(SessionView::new(&credential, None, None)).into_response());
    };
    let Some((session, until)) = api.sessions.find(id).await? else { return Err(over()) };
    if matches!(session.grant.owner, Owner::Person { .. }) {
        // The provider is asked again after that time, since it knows who has left.
        return Ok(Answer::ok(SessionView::new(&credential, None, Some(until))).into_response());
    }
    let until = api.sessions.put(id, &session).await?;
    let cookie = api.sessions.cookie(&headers).unwrap_or_default().to_owned();
    let view = SessionView::new(&credential, None, Some(until));
    Ok(with_cookie(&api.sessions, &headers, &cookie, Answer::ok(view)))
}

/// End the session
#[utoipa::path(
    delete, path = "/api/v1/session", tag = "session",
    responses((status = 204, description = "It is over")),
)]
pub(crate) async fn end(
    State(api): Shared,
    headers: HeaderMap,
    Extension(credential): Extension<Credential>,
) -> Result<Response, Problem> {
    if let Some(id) = credential.session {
        api.sessions.delete(&id).await?;
    }
    Ok(with_cookie(&api.sessions, &headers, "", StatusCode::NO_CONTENT))
}

fn with_cookie(sessions: &Sessions, headers: &HeaderMap, value: &str, answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    if let Some(field) = sessions.set_cookie(headers, value) {
        response.headers_mut().insert(SET_COOKIE, field);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::super::scope::Scope;
    use super::super::tokens::TokenId;
    use super::*;

    fn sessions(store: &Arc<dyn Store>, clock: &Arc<runtime::ManualClock>, token: &str) -> Arc<Sessions> {
        let clock: Arc<dyn Clock> = clock.clone();
        let tokens = Tokens::new(store.clone(), clock.clone());
        Sessions::new(store.clone(), clock, tokens, 7071, None, &Secret::new(token))
    }

    fn clock() -> Arc<runtime::ManualClock> {
        Arc::new(runtime::ManualClock::new(Timestamp::UNIX_EPOCH))
    }

    fn grant(owner: Owner) -> Grant {
        Grant { owner, scopes: std::iter::once(Scope::Metrics).collect() }
    }

    fn token(name: &str) -> Owner {
        let id: TokenId = serde_json::from_value(serde_json::json!(name)).expect("an id");
        Owner::Token { id, name: name.to_owned() }
    }

    #[tokio::test]
    async fn a_new_admin_token_ends_the_sessions_of_the_previous_one() {
        let (store, clock) = (store::Memory::default().open(), clock());
        let before = sessions(&store, &clock, "the-first-admin-token");
        let id = SessionId("cookie".to_owned());
        let session = before.stored("secret", grant(Owner::Admin));
        before.put(&id, &session).await.expect("stored");
        assert!(before.is_valid(&id).await.expect("read"));
        let restarted = sessions(&store, &clock, "the-first-admin-token");
        assert!(restarted.is_valid(&id).await.expect("read"));
        let after = sessions(&store, &clock, "the-second-admin-token");
        assert!(!after.is_valid(&id).await.expect("read"));
        let stored = format!("{session:?}");
        assert!(!stored.contains("the-first") && !stored.contains(&encode(&hash("the-first-admin-token"))));
    }

    #[test]
    fn the_login_link_limit_applies_per_credential() {
        let (store, clock) = (store::Memory::default().open(), clock());
        let sessions = sessions(&store, &clock, "an-admin-token-x");
        let (link, _) = sessions.new_link(grant(Owner::Admin)).expect("a link");
        for _ in 0..LINKS_OF_ONE {
            sessions.new_link(grant(token("metrics"))).expect("a link");
        }
        let refused = sessions.new_link(grant(token("metrics"))).expect_err("too many");
        assert_eq!((refused.status, refused.code.as_str()), (429, "too_many_links"));
        assert!(sessions.take_link(&link).is_some(), "the link of the admin is still valid");
        sessions.new_link(grant(token("other"))).expect("a link");
        clock.advance(std::time::Duration::from_secs(600));
        sessions.new_link(grant(token("metrics"))).expect("a link");
    }
}
