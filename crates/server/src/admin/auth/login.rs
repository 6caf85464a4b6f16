//! Logins of people at an identity provider (OpenID Connect), which begin a session of the web UI.
//!
//! The daemon keeps nothing of a login that has begun: its state, nonce and PKCE verifier are derived, with the secret of the store, from one
//! random value in a cookie of the browser that began it. The cookie has an HMAC by the same secret, so an invented cookie is refused, strangers cannot fill a table, and a login that another browser began does not end here. The time of the
//! beginning is part of that value. The ID token, which the provider signs, has the nonce, so nobody can change that time afterwards.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use connector::Error;
use connector::oidc::{Identity, LoginAnswer, LoginValues, OidcClient, OidcSettings};
use http::header::{ORIGIN, SET_COOKIE};
use http::{HeaderMap, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use store::StateWrite;
use subtle::ConstantTimeEq as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use utoipa::ToSchema;
use value::{Secret, Value};

use super::credential::{Owner, encode, hash, random};
use super::guard::{Visit, forwarded_for};
use super::scope::Scopes;
use super::session::{self, Grant, SessionView};
use crate::admin::extract::{Answer, Body};
use crate::admin::{Api, Problem, Shared};
use crate::options::LoginOptions;

/// The time within which a person returns from the provider.
const RETURN_WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// Maximum number of logins that wait for the provider at one time: everyone may begin one.
const AT_ONCE: usize = 8;
/// The maximum for one address: an address that sends bogus codes to a slow provider leaves room for others.
const AT_ONCE_OF_ONE: usize = 2;
/// The page of the web UI to which the provider sends people back.
const CALLBACK: &str = "/login/callback";
/// The scope of ended logins in the state of the store. No scope of an automation has a colon in it.
const SCOPE: &str = "logins:";

/// The identity provider of a daemon.
pub(crate) struct Provider {
    client: OidcClient,
    options: LoginOptions,
    /// The name of the cookie of a login.
    cookie: String,
    permits: Semaphore,
    /// The addresses of the logins that wait for the provider.
    waiting: Mutex<Vec<Option<IpAddr>>>,
}

/// The right to wait for the provider.
struct Permit<'a> {
    provider: &'a Provider,
    address: Option<IpAddr>,
    _permit: SemaphorePermit<'a>,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut waiting = self.provider.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = waiting.iter().position(|address| *address == self.address) {
            waiting.swap_remove(index);
        }
    }
}

impl Provider {
    /// The provider that the options name, for the listener at `port`.
    ///
    /// # Errors
    /// The issuer is no usable address.
    pub(crate) fn new(options: LoginOptions, port: u16) -> Result<Self, Error> {
        let client = OidcClient::new(OidcSettings {
            issuer: options.issuer.clone(),
            client_id: options.client_id.clone(),
            scopes: options.request_scopes.clone(),
        })?;
        let cookie = format!("cogwork_login_{port}");
        Ok(Self { client, options, cookie, permits: Semaphore::new(AT_ONCE), waiting: Mutex::default() })
    }

    /// A hash of the rules by which people are let in: a session that began by other rules is over.
    pub(crate) fn rules(&self) -> String {
        let LoginOptions { issuer, client_id, emails, groups, groups_claim, .. } = &self.options;
        let rules = format!("{:?}", (issuer, client_id, emails, groups, groups_claim));
        encode(&hash(&rules))
    }

    fn permit(&self, address: Option<IpAddr>) -> Result<Permit<'_>, Problem> {
        let too_many = || {
            let detail = "too many people log in at this moment; try again in some seconds";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_logins", detail);
            Problem { retry_after: Some(5), ..problem }
        };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.iter().filter(|other| **other == address).count() >= AT_ONCE_OF_ONE {
            return Err(too_many());
        }
        let permit = self.permits.try_acquire().map_err(|_| too_many())?;
        waiting.push(address);
        Ok(Permit { provider: self, address, _permit: permit })
    }

    /// The scopes of a person; empty if they may not log in.
    fn scopes_of(&self, identity: &Identity) -> Scopes {
        let options = &self.options;
        let email = identity.email().map(str::to_lowercase);
        let is_email = |rule: &str| {
            let rule = rule.to_lowercase();
            email.as_ref().is_some_and(|email| match rule.strip_prefix('@') {
                Some(domain) => email.rsplit_once('@').is_some_and(|(_, own)| own == domain),
                None => *email == rule,
            })
        };
        let groups = identity.texts(&options.groups_claim);
        let by_email = options.emails.iter().filter(|(rule, _)| is_email(rule));
        let by_group = options.groups.iter().filter(|(group, _)| groups.contains(group.as_str()));
        by_email.chain(by_group).flat_map(|(_, scopes)| scopes.iter()).collect()
    }

    /// The client secret; `None` for a public client.
    async fn client_secret(&self, api: &Api) -> Result<Option<Secret>, Problem> {
        let Some(name) = &self.options.client_secret else { return Ok(None) };
        let found = api.engine.context().secrets.secret(name).await.map_err(Problem::from)?;
        let found = found.ok_or_else(|| {
            let detail = format!("the secret `{name}` of the setting `oidc.clientSecret` is not set");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "secret_missing", detail)
        })?;
        Ok(Some(found))
    }
}

impl Api {
    fn provider(&self) -> Result<&Provider, Problem> {
        self.provider.as_ref().ok_or_else(|| {
            let detail = "no identity provider is set (`oidc.issuer`); `cogwork ui` prints a login link";
            Problem::not_found("no_provider", detail)
        })
    }
}

/// The address of the browser of a request: that which a proxy on this machine names, else the other side of the connection, which could
/// name a new one for each attempt.
fn address(peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
    let named = peer.filter(|peer| peer.to_canonical().is_loopback()).and_then(|_| forwarded_for(headers));
    named.or(peer)
}

/// Derives a text from another with the secret of the store.
type Derive<'a> = &'a dyn Fn(&str, &str) -> String;

/// The cookie of a login that begins now.
fn new_cookie(random: &str, now: Timestamp, derive: Derive<'_>) -> String {
    let value = format!("{random}.{}", now.as_second());
    let mac = derive("login cookie", &value);
    format!("{value}.{mac}")
}

/// The values of the login that a cookie belongs to; `None` if it is too old, or none of ours.
fn values_of(cookie: &str, redirect: String, now: Timestamp, derive: Derive<'_>) -> Option<LoginValues> {
    let (value, mac) = cookie.rsplit_once('.')?;
    if !bool::from(derive("login cookie", value).as_bytes().ct_eq(mac.as_bytes())) {
        return None;
    }
    let (_, begun) = value.split_once('.')?;
    let begun = Timestamp::from_second(begun.parse().ok()?).ok()?;
    // A clock that was set back in between makes it look as if it began later.
    let age = now.duration_since(begun);
    let derive = |label: &str| encode(&hash(&format!("{label}:{cookie}:{}", derive(label, cookie))));
    (age.abs() < RETURN_WITHIN).then(|| LoginValues {
        state: derive("state"),
        nonce: derive("nonce"),
        verifier: Secret::new(derive("verifier")),
        redirect,
    })
}

/// The address to which the provider sends the person back: on the page that began the login. Its host is one of this listener, since access
/// control compares `Origin` with `Host`, and the provider knows the addresses that it may send people to.
fn redirect(headers: &HeaderMap) -> Result<String, Problem> {
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    let origin = origin
        .ok_or_else(|| Problem::bad_request("no_origin", "logins are for browsers, which send `Origin`"))?;
    Ok(format!("{origin}{CALLBACK}"))
}

fn problem(error: &Error) -> Problem {
    match error {
        Error::Login(reason) => {
            tracing::warn!(reason, "refused a login at the identity provider");
            Problem::new(StatusCode::UNAUTHORIZED, "login_invalid", reason.clone())
        }
        error => {
            tracing::warn!(%error, "a login at the identity provider failed");
            Problem::new(StatusCode::BAD_GATEWAY, "provider_failed", error.to_string())
        }
    }
}

/// The identity provider at which people log in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LoginProvider)]
pub(crate) struct ProviderView {
    /// Its name for people; absent if the settings name no provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// Show at which identity provider people log in
#[utoipa::path(
    get, path = "/api/v1/session/provider", tag = "session", security(()),
    responses((status = 200, description = "The provider, if the settings name one", body = ProviderView)),
)]
pub(crate) async fn provider(State(api): Shared) -> Answer<ProviderView> {
    Answer::ok(ProviderView { name: api.provider.as_ref().map(|provider| provider.options.name.clone()) })
}

/// A login that has begun.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BegunLogin {
    /// The address at the provider to go to, within ten minutes and in the same browser.
    url: String,
}

/// Begin a login at the identity provider
#[utoipa::path(
    post, path = "/api/v1/session/provider", tag = "session", security(()),
    responses((status = 200, description = "It has begun; the answer sets a cookie that its end needs", body = BegunLogin)),
)]
pub(crate) async fn begin(
    State(api): Shared,
    Extension(visit): Extension<Visit>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let provider = api.provider()?;
    let _permit = provider.permit(address(visit.peer, &headers))?;
    let now = api.engine.clock().now();
    let derive = |label: &str, text: &str| api.engine.context().derived_text(label, text);
    let cookie = new_cookie(&random()?, now, &derive);
    let values = values_of(&cookie, redirect(&headers)?, now, &derive).ok_or_else(begin_again)?;
    let url = provider.client.authorize(&api.engine.context().http, &values).await;
    let url = url.map_err(|error| problem(&error))?.to_string();
    let mut response = Answer::ok(BegunLogin { url }).into_response();
    let field = session::cookie_field(&headers, &provider.cookie, &cookie, RETURN_WITHIN);
    response.headers_mut().extend(field.map(|field| (SET_COOKIE, field)));
    Ok(response)
}

fn begin_again() -> Problem {
    let detail = "this login was not started in this browser, has ended already, or is older than 10 minutes; start again";
    Problem::new(StatusCode::UNAUTHORIZED, "login_over", detail)
}

/// The parameters of the address to which the provider sent a person back.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Return {
    /// The authorization code.
    code: String,
    /// The value of the login.
    state: String,
    /// The issuer, if the provider names itself.
    #[serde(default)]
    iss: Option<String>,
}

/// End a login at the identity provider, and begin a session
///
/// The session has the scopes that the settings give to the person. It ends after 12 hours at the latest, and with a change of these settings.
#[utoipa::path(
    post, path = "/api/v1/session/provider/return", tag = "session", request_body = Return, security(()),
    responses((status = 201, description = "The session has begun; the answer sets its cookie", body = SessionView)),
)]
pub(crate) async fn end(
    State(api): Shared,
    Extension(visit): Extension<Visit>,
    headers: HeaderMap,
    Body(Return { code, state, iss }): Body<Return>,
) -> Result<Response, Problem> {
    let provider = api.provider()?;
    let (now, redirect) = (api.engine.clock().now(), redirect(&headers)?);
    let derive = |label: &str, text: &str| api.engine.context().derived_text(label, text);
    let cookie = session::cookie(&headers, &provider.cookie);
    let values = cookie.and_then(|cookie| values_of(cookie, redirect, now, &derive));
    let values = values.filter(|values| values.state.as_bytes().ct_eq(state.as_bytes()).into());
    let values = values.ok_or_else(begin_again)?;
    if api.engine.store().read_state(SCOPE, &values.state).await?.is_some() {
        return Err(begin_again());
    }
    let _permit = provider.permit(address(visit.peer, &headers))?;
    let client_secret = provider.client_secret(&api).await?;
    let answer = LoginAnswer { code: Secret::new(code), issuer: iss };
    let http = &api.engine.context().http;
    let identity = provider.client.login(http, &answer, &values, client_secret.as_ref()).await;
    let identity = identity.map_err(|error| problem(&error))?;
    let scopes = provider.scopes_of(&identity);
    let name = identity.name();
    if scopes.is_empty() {
        tracing::warn!(person = name, subject = identity.subject, "refused a person who may not log in");
        let detail =
            format!("`{name}` may not log in here: no address, group or scope of theirs is in the settings");
        return Err(Problem::new(StatusCode::FORBIDDEN, "login_refused", detail));
    }
    use_up(&api, &values.state, now).await?;
    let owner = Owner::Person { subject: identity.subject, name, rules: provider.rules() };
    let mut response = session::begin_with(&api, &headers, Grant { owner, scopes }).await?;
    let over = session::cookie_field(&headers, &provider.cookie, "", SignedDuration::ZERO);
    if let Some(over) = over {
        response.headers_mut().append(SET_COOKIE, over);
    }
    Ok(response)
}

/// Notes that a login has ended. Only people whom the provider knows get this far, so strangers cannot fill the store.
async fn use_up(api: &Api, state: &str, now: Timestamp) -> Result<(), Problem> {
    let write = StateWrite {
        scope: SCOPE.to_owned(),
        key: state.to_owned(),
        // No two requests can end the same login.
        expected: None,
        value: Some(Value::Bool(true)),
        // Its values are valid for as long before and after the time in the cookie.
        expires_at: now.saturating_add(RETURN_WITHIN * 2).ok(),
    };
    match api.engine.store().write_state(vec![write]).await {
        Ok(()) => Ok(()),
        Err(store::Error::StateChanged { .. }) => Err(begin_again()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::scope::Scope;
    use super::*;

    fn scopes(scopes: &[Scope]) -> Scopes {
        scopes.iter().copied().collect()
    }

    #[test]
    fn forwarded_for_is_trusted_only_from_loopback() {
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", http::HeaderValue::from_static("203.0.113.2"));
        for (peer, expected) in [
            ("127.0.0.1", "203.0.113.2"),
            ("::1", "203.0.113.2"),
            ("::ffff:127.0.0.1", "203.0.113.2"),
            ("10.0.0.7", "10.0.0.7"),
            ("fd00::7", "fd00::7"),
            ("198.51.100.7", "198.51.100.7"),
        ] {
            assert_eq!(address(peer.parse().ok(), &headers), expected.parse().ok(), "{peer}");
        }
        assert_eq!(address("127.0.0.1".parse().ok(), &HeaderMap::new()), "127.0.0.1".parse().ok());
    }

    #[test]
    fn a_user_gets_the_scopes_of_all_matching_entries() {
        let options = LoginOptions {
            issuer: "https://id.example.com".to_owned(),
            emails: vec![
                ("@Example.com".to_owned(), scopes(&[Scope::Read])),
                ("boss@example.com".to_owned(), Scopes::ADMIN),
            ],
            groups: vec![
                ("ops".to_owned(), scopes(&[Scope::Run, Scope::Read])),
                ("editors".to_owned(), scopes(&[Scope::Write])),
            ],
            groups_claim: "groups".to_owned(),
            ..LoginOptions::default()
        };
        let provider = Provider::new(options, 7071).expect("a provider");
        let of = |claims: serde_json::Value| {
            let claims = claims.as_object().cloned().unwrap_or_default();
            provider.scopes_of(&Identity { subject: "u".to_owned(), claims }).to_string()
        };
        let email =
            |email: &str, verified: bool| serde_json::json!({"email": email, "email_verified": verified});
        assert_eq!(of(email("ann@EXAMPLE.com", true)), "read");
        assert_eq!(of(email("Boss@example.com", true)), "read, admin");
        assert_eq!(of(email("boss@example.com", false)), "");
        assert_eq!(of(email("ann@evil-example.com", true)), "");
        assert_eq!(of(email("ann@example.com.evil", true)), "");
        assert_eq!(of(email("\"x@example.com\"@evil.example", true)), "");
        assert_eq!(of(serde_json::json!({"groups": ["ops", "admin"]})), "read, run");
        assert_eq!(of(serde_json::json!({"groups": "OPS"})), "");
        assert_eq!(of(serde_json::json!({"groups": ["editors", "write", "ops"]})), "read, run, write");
        assert_eq!(of(serde_json::json!({})), "");
    }

    #[test]
    fn a_login_belongs_to_its_cookie_and_lasts_ten_minutes() {
        let derive = |label: &str, text: &str| encode(&hash(&format!("secret:{label}:{text}")));
        let at = |second| Timestamp::from_second(second).expect("a time");
        let values = |cookie: &str, second| values_of(cookie, String::new(), at(second), &derive);
        let cookie = new_cookie("abc", at(1000), &derive);
        let known = values(&cookie, 1000).expect("values");
        let all = [known.state.as_str(), &known.nonce, known.verifier.expose()];
        assert!(
            all.iter().all(|text| text.len() == 43)
                && all[0] != all[1]
                && all[1] != all[2]
                && all[0] != all[2]
        );
        assert_eq!(values(&cookie, 1599).expect("values").state, known.state);
        assert!(values(&cookie, 1600).is_none() && values(&cookie, 400).is_none());
        assert_ne!(values(&new_cookie("abc", at(1001), &derive), 1000).expect("values").state, known.state);
        let of_another = new_cookie("abc", at(1000), &|label, text| derive(label, &format!("{text}x")));
        let later = cookie.replace(".1000.", ".1500.");
        for wrong in
            ["", "abc", "abc.", "abc.1000", "abc.1000.", "abc.x.y", "abc.1000.1", &of_another, &later]
        {
            assert!(values(wrong, 1000).is_none(), "{wrong}");
        }
    }

    #[test]
    fn one_client_address_cannot_take_all_login_permits() {
        let provider = Provider::new(
            LoginOptions { issuer: "https://id.example.com".to_owned(), ..LoginOptions::default() },
            7071,
        );
        let provider = provider.expect("a provider");
        let address = |last: u8| Some(IpAddr::from([203, 0, 113, last]));
        let held: Vec<_> = (0..2).map(|_| provider.permit(address(1)).expect("a permit")).collect();
        assert!(provider.permit(address(1)).is_err());
        let others: Vec<_> = (2..8).map(|last| provider.permit(address(last)).expect("a permit")).collect();
        assert!(provider.permit(address(9)).is_err(), "all permits are taken");
        drop((held, others));
        assert!(provider.permit(address(1)).is_ok());
    }
}
