//! OpenID Connect: the login of people at an identity provider (Core 1.0, authorization code flow with PKCE).
//!
//! The `oauth2` crate builds the authorization request and exchanges the code, the `jsonwebtoken` crate checks the ID token with the
//! cryptography of `ring`. All requests go through the guarded HTTP client. The client keeps nothing of a login; it keeps the provider's own
//! description and keys for some minutes.

mod identity;
mod keys;
mod provider;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use oauth2::{
    AuthUrl, ClientId, CsrfToken, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, TokenResponse as _,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;
use value::Secret;

use crate::error::Error;
use crate::http::Http;
use provider::Metadata;
pub(crate) use provider::is_encrypted;

pub use identity::Identity;

/// The time for which the description and the keys of a provider are used before they are read again.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// The least time between two reads of the keys, if a token names an unknown one.
const KEYS_EVERY: Duration = Duration::from_secs(30);
/// The largest accepted difference between the clock of the provider and ours, in seconds.
const LEEWAY_SECONDS: u64 = 60;
/// Signature algorithms that are accepted. All are asymmetric: with a shared secret every holder could sign.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// The registration of this daemon at an identity provider.
#[derive(Clone, Debug)]
pub struct OidcSettings {
    /// The issuer identifier, exactly as the provider writes it.
    pub issuer: String,
    /// The client id.
    pub client_id: String,
    /// Scopes in addition to `openid`.
    pub scopes: Vec<String>,
}

/// The random values of one login. They belong to one browser.
#[derive(Clone, Debug)]
pub struct LoginValues {
    /// The value that the answer must repeat.
    pub state: String,
    /// The value that the ID token must contain.
    pub nonce: String,
    /// The PKCE verifier: 43 to 128 characters of `A-Z a-z 0-9 - . _ ~`.
    pub verifier: Secret,
    /// The address to which the provider sends the person back, exactly as it is registered there.
    pub redirect: String,
}

/// The parameters with which a provider sends a person back.
#[derive(Clone, Debug)]
pub struct LoginAnswer {
    /// The authorization code.
    pub code: Secret,
    /// The issuer that the answer names (RFC 9207).
    pub issuer: Option<String>,
}

/// The client of one provider.
pub struct OidcClient {
    settings: OidcSettings,
    metadata: Mutex<Option<(Timestamp, Arc<Metadata>)>>,
    keys: Mutex<Option<(Timestamp, Arc<JwkSet>)>>,
}

/// The claims that are checked here. `jsonwebtoken` checks `iss`, `exp` and `nbf`, and that the client is in `aud`.
#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    aud: Value,
    nonce: Option<String>,
    azp: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl LoginValues {
    fn redirect(&self) -> Result<RedirectUrl, Error> {
        let redirect = &self.redirect;
        RedirectUrl::new(redirect.clone())
            .map_err(|error| Error::Login(format!("`{redirect}` is no address to come back to: {error}")))
    }
}

/// Checks the address of an issuer.
///
/// # Errors
/// Returns a phrase if it is no address, has a query or a fragment, or has no TLS and is not on this machine.
pub fn check_issuer(issuer: &str) -> Result<(), String> {
    let url =
        Url::parse(issuer).map_err(|error| format!("`{issuer}` is no address of an issuer: {error}"))?;
    if url.query().is_some()
        || url.fragment().is_some()
        || !url.username().is_empty()
        || url.password().is_some()
    {
        return Err(format!("`{issuer}` is no issuer: it has neither a user, nor `?`, nor `#`"));
    }
    provider::check_encrypted(&url)
}

impl OidcClient {
    /// Creates the client of a provider. Nothing is requested yet.
    ///
    /// # Errors
    /// Returns an error if the issuer is no address, or one without TLS that is not on this machine.
    pub fn new(settings: OidcSettings) -> Result<Self, Error> {
        check_issuer(&settings.issuer).map_err(Error::IdentityProvider)?;
        keys::install();
        Ok(Self { settings, metadata: Mutex::default(), keys: Mutex::default() })
    }

    /// Reads the description of the provider, and checks it.
    ///
    /// # Errors
    /// Returns an error if the provider cannot be reached or does not describe itself correctly.
    pub async fn discover(&self, http: &Http) -> Result<(), Error> {
        self.metadata(http).await.map(drop)
    }

    /// Builds the address at which a person logs in.
    ///
    /// # Errors
    /// Returns an error if the provider cannot be reached or does not describe itself correctly.
    pub async fn authorize(&self, http: &Http, values: &LoginValues) -> Result<Url, Error> {
        let metadata = self.metadata(http).await?;
        let verifier = PkceCodeVerifier::new(values.verifier.expose().to_owned());
        let scopes = self.settings.scopes.iter().filter(|scope| *scope != "openid").cloned();
        let (url, _) = oauth2::basic::BasicClient::new(ClientId::new(self.settings.client_id.clone()))
            .set_auth_uri(AuthUrl::from_url(metadata.authorization_endpoint.clone()))
            .set_redirect_uri(values.redirect()?)
            .authorize_url(|| CsrfToken::new(values.state.clone()))
            .add_scope(Scope::new("openid".to_owned()))
            .add_scopes(scopes.map(Scope::new))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier))
            .add_extra_param("nonce", values.nonce.clone())
            .url();
        Ok(url)
    }

    /// Exchanges the code of an answer, checks the ID token and returns the person. The caller has compared the state.
    ///
    /// # Errors
    /// Returns an error if the provider refuses the code, cannot be reached, or its token is not valid for this login.
    pub async fn login(
        &self,
        http: &Http,
        answer: &LoginAnswer,
        values: &LoginValues,
        client_secret: Option<&Secret>,
    ) -> Result<Identity, Error> {
        let metadata = self.metadata(http).await?;
        match &answer.issuer {
            Some(issuer) if *issuer != metadata.issuer => {
                return Err(Error::Login(
                    "the response comes from another issuer than the configured one".to_owned(),
                ));
            }
            None if metadata.authorization_response_iss_parameter_supported => {
                let reason =
                    "the answer does not name its issuer, although the provider announces that it does";
                return Err(Error::Login(reason.to_owned()));
            }
            _ => {}
        }
        let tokens = self.exchange(http, &metadata, answer, values, client_secret).await?;
        let id_token = tokens.extra_fields().id_token.as_deref();
        let id_token =
            id_token.ok_or_else(|| Error::Login("the provider returned no ID token".to_owned()))?;
        let claims = self.check(http, &metadata, id_token, &values.nonce).await?;
        let mut identity = Identity { subject: claims.sub, claims: claims.others };
        if let Some(address) = &metadata.userinfo_endpoint {
            let token = Secret::new(tokens.access_token().secret().as_str());
            identity.add(provider::get(http, address, Some(&token)).await?)?;
        }
        Ok(identity)
    }

    /// Checks an ID token (Core, section 3.1.3.7).
    async fn check(
        &self,
        http: &Http,
        metadata: &Metadata,
        token: &str,
        nonce: &str,
    ) -> Result<Claims, Error> {
        let header = jsonwebtoken::decode_header(token).map_err(|error| invalid(&error))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(invalid(&"it is not signed with a key pair"));
        }
        let key = self.key(http, metadata, header.kid.as_deref()).await?;
        let mut rules = Validation::new(header.alg);
        rules.set_issuer(&[&metadata.issuer]);
        rules.set_audience(&[&self.settings.client_id]);
        rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        rules.leeway = LEEWAY_SECONDS;
        rules.validate_nbf = true;
        let claims =
            jsonwebtoken::decode::<Claims>(token, &key, &rules).map_err(|error| invalid(&error))?.claims;
        let client = Some(&self.settings.client_id);
        let is_for_several = claims.aud.as_array().is_some_and(|all| all.len() > 1);
        if (claims.azp.is_some() || is_for_several) && claims.azp.as_ref() != client {
            return Err(invalid(&"it was issued to another client"));
        }
        // Not secret from the person whose browser sends it, so it need not be compared in constant time.
        if claims.nonce.as_deref() != Some(nonce) {
            return Err(invalid(&"it belongs to another login"));
        }
        Ok(claims)
    }

    /// The key with which a token is signed. If its id is unknown, the provider may have a new one.
    async fn key(&self, http: &Http, metadata: &Metadata, id: Option<&str>) -> Result<DecodingKey, Error> {
        let unknown = || invalid(&"its key is not among the provider's");
        let now = http.timer().now();
        let known = self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((read, keys)) = known {
            let age = now.duration_since(read).unsigned_abs();
            match find_key(&keys, id) {
                Some(key) if age < KEPT_FOR => {
                    return DecodingKey::from_jwk(key).map_err(|error| invalid(&error));
                }
                None if age < KEYS_EVERY => return Err(unknown()),
                _ => {}
            }
        }
        let keys: Arc<JwkSet> = Arc::new(provider::get(http, &metadata.jwks_uri, None).await?);
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&keys)));
        DecodingKey::from_jwk(find_key(&keys, id).ok_or_else(unknown)?).map_err(|error| invalid(&error))
    }
}

fn invalid(reason: &dyn std::fmt::Display) -> Error {
    Error::Login(format!("the ID token of the provider is not valid: {reason}"))
}

/// The key with an id; without an id the only key for signatures.
fn find_key<'k>(keys: &'k JwkSet, id: Option<&str>) -> Option<&'k Jwk> {
    let signs = |key: &&Jwk| !matches!(key.common.public_key_use, Some(PublicKeyUse::Encryption));
    let mut keys = keys.keys.iter().filter(signs);
    match id {
        Some(id) => keys.find(|key| key.common.key_id.as_deref() == Some(id)),
        None => keys.next().filter(|_| keys.next().is_none()),
    }
}

#[cfg(test)]
mod tests {
    use crate::http::testing::{Server, ServerReply, Waits, http, local, reply};
    use crate::http::{HttpOptions, Timer as _};

    use super::*;

    fn client(issuer: String) -> OidcClient {
        let settings = OidcSettings { issuer, client_id: "cogwork".to_owned(), scopes: Vec::new() };
        OidcClient::new(settings).expect("a client")
    }

    #[tokio::test]
    async fn a_provider_that_never_responds_fails_the_login_at_the_timeout() {
        let server =
            Server::start(|_, _| ServerReply::Stall(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec())).await;
        let http = http(HttpOptions { timeout: Duration::from_millis(50), ..local() });
        let found = client(format!("http://{}", server.address)).discover(&http).await;
        assert!(matches!(found, Err(Error::IdentityProvider(_))), "{found:?}");
    }

    #[tokio::test]
    async fn an_unknown_key_id_refetches_the_keys_at_most_every_30_seconds() {
        let vectors: Vec<Value> = serde_json::from_str(include_str!("vectors.json")).expect("vectors");
        let server = Server::start(move |read, request| {
            let mut key = vectors[0]["jwk"].clone();
            key["kid"] = if read < 2 { "old" } else { "new" }.into();
            let host = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
            let base = format!("http://{host}");
            let described = serde_json::json!({
                "issuer": base, "authorization_endpoint": base, "token_endpoint": base, "jwks_uri": base, "keys": [key],
            });
            reply("200 OK", described.to_string().as_bytes())
        })
        .await;
        let timer = Arc::new(Waits::default());
        let http = http(HttpOptions { timer: timer.clone(), ..local() });
        let client = client(format!("http://{}", server.address));
        let metadata = client.metadata(&http).await.expect("a description");
        let is_known = async |id: &str| client.key(&http, &metadata, Some(id)).await.is_ok();
        assert!(is_known("old").await && is_known("old").await && !is_known("new").await);
        assert_eq!(server.requests().len(), 2, "the description, and the keys once");
        timer.pause(KEYS_EVERY).await;
        assert!(is_known("new").await && !is_known("old").await);
        assert_eq!(server.requests().len(), 3);
        timer.pause(KEPT_FOR).await;
        assert!(is_known("new").await);
        assert_eq!(server.requests().len(), 4, "a key that was withdrawn is not used for ever");
    }

    #[test]
    fn an_issuer_must_use_https_or_be_on_localhost() {
        for issuer in [
            "https://id.example.com",
            "https://id.example.com/realms/a/",
            "http://127.0.0.1:9",
            "http://localhost",
        ] {
            assert_eq!(check_issuer(issuer), Ok(()), "{issuer}");
        }
        for issuer in [
            "id.example.com",
            "http://id.example.com",
            "ftp://localhost",
            "https://a@id.example.com",
            "https://id.example.com/?a",
        ] {
            assert!(check_issuer(issuer).is_err(), "{issuer}");
        }
    }
}
