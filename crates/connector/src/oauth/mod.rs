//! OAuth 2.0 (RFC 6749, with PKCE of RFC 7636) for connection types whose manifest declares it. The `oauth2` crate
//! implements the protocol; its requests go through the guarded HTTP client.
//!
//! This module stores nothing: tokens are arguments and results. The caller ensures that only one refresh runs at a
//! time and that new tokens are stored before they are used.

mod assertion;
mod config;
mod login;
pub(crate) mod session;
mod tenants;

use std::pin::Pin;
use std::time::Duration;

use ::http::{HeaderValue, Method, StatusCode};
use async_trait::async_trait;
use jiff::Timestamp;
use model::{ActionError, ErrorKind};
use oauth2::basic::{BasicClient, BasicErrorResponse, BasicErrorResponseType, BasicTokenResponse};
use oauth2::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken, HttpRequest,
    HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, Scope,
    TokenResponse as _, TokenUrl,
};
use url::Url;
use value::redact::{LengthLimit, Redactor};
use value::{Secret, Value};

use crate::action::UncountedAnswers;
use crate::connection::BaseUrl;
use crate::http::{ErrorShape, HostPolicy, Http, LogDetail, Request, RequestContext, Response};
use crate::log::NoLog;

pub(crate) use assertion::{Assertion, CLIENT_ASSERTION, GRANT as ASSERTION_GRANT};
pub(crate) use config::{AssertionConfig, ClientAuthConfig, OAuthConfig, SitesConfig};
pub use tenants::Site;

/// The largest answer of a token endpoint, or list of sites, in bytes.
const RESPONSE_BYTES: usize = 1 << 20;

/// The grant by which a connection obtains tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// A person consents in a browser.
    AuthorizationCode,
    /// The client authenticates with its own credentials.
    ClientCredentials,
}

/// The OAuth 2.0 client of a connection. Its `Debug` hides the client secret.
#[derive(Clone, Debug)]
pub struct OAuthClient {
    pub(crate) connection: String,
    pub(crate) flow: Flow,
    pub(crate) authorize_url: Option<Url>,
    pub(crate) token_url: Url,
    pub(crate) client_id: String,
    pub(crate) client_secret: Secret,
    pub(crate) scopes: Vec<String>,
    /// The issuer identifier that the provider sends in responses.
    pub(crate) issuer: Option<String>,
    /// True if token requests are JSON rather than a form; some providers document only that.
    pub(crate) json: bool,
    /// The proof of the client in token requests.
    pub(crate) client_auth: ClientAuth,
    /// Further fields of token requests.
    pub(crate) token_parameters: Vec<(String, String)>,
    /// The assertion that takes the place of the client's credentials.
    pub(crate) assertion: Option<Assertion>,
    /// The login that takes the place of the protocol; `None` for OAuth.
    pub(crate) session: Option<session::Login>,
    pub(crate) sites: Option<tenants::SiteSelection>,
}

/// The proof of a client in token requests.
#[derive(Clone, Debug)]
pub(crate) enum ClientAuth {
    /// The id and the secret in the body.
    Body,
    /// The id and the secret in the header `Authorization`.
    Basic,
    /// A signed assertion in the body (RFC 7523, section 2.2).
    Jwt(Box<Assertion>),
}

/// Tokens as the provider issued them.
#[derive(Clone, Debug)]
pub struct TokenSet {
    /// The access token that requests carry.
    pub access: Secret,
    /// The refresh token. A provider that rotates refresh tokens issues a new one each time.
    pub refresh: Option<Secret>,
    /// The lifetime of the access token.
    pub expires_in: Option<Duration>,
    /// The granted scopes; `None` if the provider does not report them.
    pub scope: Option<String>,
}

/// A pending authorization request: the address for the person, and the values that verify the response.
#[derive(Clone, Debug)]
pub struct AuthorizationRequest {
    /// The address to open in a browser.
    pub url: Url,
    /// 256 random bits that the response must repeat.
    pub state: Secret,
    /// The PKCE verifier, which proves that the exchange of the code comes from the party that requested it.
    pub verifier: Secret,
}

/// A failure to obtain tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenError {
    /// True if the grant is no longer valid: a retry would fail again, and only a new consent helps.
    pub consent_needed: bool,
    /// The error for people.
    pub error: ActionError,
}

/// Supplies the bearer token of a connection when a request is made.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// Returns a token that should be valid now.
    ///
    /// # Errors
    /// Returns an error if there is no token and none can be obtained.
    async fn token(&self) -> Result<Secret, ActionError>;

    /// Returns a token to replace one that the service rejected; `None` if there is no other.
    ///
    /// # Errors
    /// Returns an error if none can be obtained.
    async fn replacement(&self, rejected: &Secret) -> Result<Option<Secret>, ActionError>;
}

impl OAuthClient {
    /// Returns the grant type.
    #[must_use]
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// Returns the requested scopes.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// True if requests go to one of several sites, which [`OAuthClient::find_site`] looks up.
    #[must_use]
    pub fn has_sites(&self) -> bool {
        self.sites.is_some()
    }

    /// Returns a text that identifies this client. Tokens issued to a client with another identity are not usable.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut scopes = self.scopes.clone();
        scopes.sort_unstable();
        format!("{} {} {:?} {}", self.token_url, self.client_id, self.flow, scopes.join(" "))
    }

    /// Builds the address at which a person consents. The provider redirects to exactly `redirect`.
    ///
    /// # Errors
    /// Returns an error if the type of the connection needs no consent, or if `redirect` is not an address.
    pub fn authorize(&self, redirect: &str) -> Result<AuthorizationRequest, ActionError> {
        let Some(authorize_url) = &self.authorize_url else {
            return Err(self.refuse("its type does not ask for consent".to_owned()));
        };
        let redirect = RedirectUrl::new(redirect.to_owned())
            .map_err(|error| self.refuse(format!("`{redirect}` is no address to come back to: {error}")))?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let client = BasicClient::new(ClientId::new(self.client_id.clone()))
            .set_auth_uri(AuthUrl::from_url(authorize_url.clone()))
            .set_redirect_uri(redirect);
        // Parameters that the address already has (`audience`, `prompt`) precede the added ones.
        let (url, state) = client
            .authorize_url(|| CsrfToken::new_random_len(32))
            .add_scopes(self.scopes.iter().cloned().map(Scope::new))
            .set_pkce_challenge(challenge)
            .url();
        Ok(AuthorizationRequest {
            url,
            state: Secret::new(state.secret().as_str()),
            verifier: Secret::new(verifier.secret().as_str()),
        })
    }

    /// True if the response to [`OAuthClient::authorize`] comes from the right provider (RFC 9207); `issuer` is its `iss`
    /// parameter. If the connection names an issuer, the two must be equal. Otherwise an issuer that is present must
    /// have the origin of one of the provider's addresses.
    #[must_use]
    pub fn accepts_issuer(&self, issuer: Option<&str>) -> bool {
        match (&self.issuer, issuer) {
            (Some(known), issuer) => issuer == Some(known.as_str()),
            (None, None) => true,
            (None, Some(issuer)) => Url::parse(issuer).is_ok_and(|issuer| {
                let home = self.authorize_url.iter().chain([&self.token_url]);
                home.into_iter().any(|known| known.origin() == issuer.origin())
            }),
        }
    }

    /// Exchanges the authorization code for tokens.
    ///
    /// # Errors
    /// Returns an error if the provider refuses or cannot be reached.
    pub async fn exchange(
        &self,
        http: &Http,
        code: &str,
        verifier: &Secret,
        redirect: &str,
    ) -> Result<TokenSet, TokenError> {
        let redirect = RedirectUrl::new(redirect.to_owned())
            .map_err(|error| TokenError::transient(self.refuse(error.to_string())))?;
        let client = self.client().set_redirect_uri(redirect);
        let http_client = OAuthHttpClient { client: self, http };
        let reply = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .set_pkce_verifier(PkceCodeVerifier::new(verifier.expose().to_owned()))
            .request_async(&http_client)
            .await;
        self.token_set(reply, &http.options().redactor)
    }

    /// Obtains new tokens with a refresh token.
    ///
    /// # Errors
    /// Returns an error if the provider refuses or cannot be reached.
    pub async fn refresh(&self, http: &Http, refresh: &Secret) -> Result<TokenSet, TokenError> {
        let http_client = OAuthHttpClient { client: self, http };
        let token = RefreshToken::new(refresh.expose().to_owned());
        let reply = self.client().exchange_refresh_token(&token).request_async(&http_client).await;
        let mut tokens = self.token_set(reply, &http.options().redactor)?;
        // A provider that does not rotate sends none, and the old one remains valid (RFC 6749, section 6).
        tokens.refresh.get_or_insert_with(|| refresh.clone());
        Ok(tokens)
    }

    /// Obtains tokens for the client itself.
    ///
    /// # Errors
    /// Returns an error if the provider refuses or cannot be reached.
    pub async fn client_credentials(&self, http: &Http) -> Result<TokenSet, TokenError> {
        if let Some(login) = &self.session {
            return self.log_in(http, login).await;
        }
        let http_client = OAuthHttpClient { client: self, http };
        let reply = self
            .client()
            .exchange_client_credentials()
            .add_scopes(self.scopes.iter().cloned().map(Scope::new))
            .request_async(&http_client)
            .await;
        self.token_set(reply, &http.options().redactor)
    }

    fn client(
        &self,
    ) -> BasicClient<
        oauth2::EndpointNotSet,
        oauth2::EndpointNotSet,
        oauth2::EndpointNotSet,
        oauth2::EndpointNotSet,
        oauth2::EndpointSet,
    > {
        BasicClient::new(ClientId::new(self.client_id.clone()))
            .set_client_secret(ClientSecret::new(self.client_secret.expose().to_owned()))
            .set_token_uri(TokenUrl::from_url(self.token_url.clone()))
            .set_auth_type(match (&self.client_auth, &self.assertion) {
                (ClientAuth::Basic, None) => AuthType::BasicAuth,
                _ => AuthType::RequestBody,
            })
    }

    /// Sends a request of the `oauth2` crate through the guarded client, within its limits.
    async fn send(&self, http: &Http, token_request: HttpRequest) -> Result<HttpResponse, ActionError> {
        let mut request = Request::new(Method::POST, self.token_url.clone());
        request.max_response = Some(RESPONSE_BYTES);
        request.headers.insert(::http::header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(credentials) = token_request.headers().get(::http::header::AUTHORIZATION) {
            let mut credentials = credentials.clone();
            credentials.set_sensitive(true);
            request.headers.insert(::http::header::AUTHORIZATION, credentials);
        }
        let fields = self.fields(token_request.body(), http.timer().now())?;
        if self.json {
            let fields = fields.into_iter().map(|(name, value)| (name, Value::from(value)));
            let body: value::Map = fields.collect();
            request.set_bytes("application/json", Value::from(body).to_json());
        } else {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            form.extend_pairs(&fields);
            request.set_bytes("application/x-www-form-urlencoded", form.finish());
        }
        let response = http.send(&request, &self.context()).await.map_err(not_sent)?;
        if let Some(error) = self.unusual_answer(&response, http.timer().now()) {
            return Err(not_sent(error));
        }
        let mut reply = ::http::Response::new(response.body.to_vec());
        *reply.status_mut() = match response.status {
            // Some providers respond with 201; the crate accepts only 200.
            status if status.is_success() => StatusCode::OK,
            status => status,
        };
        *reply.headers_mut() = response.headers;
        Ok(reply)
    }

    /// Returns the fields of a token request: the protocol's, with the assertion if the grant has one, and the manifest's.
    fn fields(&self, body: &[u8], now: Timestamp) -> Result<Vec<(String, String)>, ActionError> {
        let own = url::form_urlencoded::parse(body).into_owned();
        let mut fields: Vec<(String, String)> = match &self.assertion {
            None => own.collect(),
            Some(assertion) => {
                let signed = assertion.signed(&self.scopes, now).map_err(|words| self.refuse(words))?;
                let (grant, assertion) = (ASSERTION_GRANT.to_owned(), signed.expose().to_owned());
                vec![("grant_type".to_owned(), grant), ("assertion".to_owned(), assertion)]
            }
        };
        if let ClientAuth::Jwt(proof) = &self.client_auth {
            let signed = proof.signed(&[], now).map_err(|words| self.refuse(words))?;
            fields.retain(|(name, _)| name != "client_secret");
            fields.push(("client_assertion_type".to_owned(), CLIENT_ASSERTION.to_owned()));
            fields.push(("client_assertion".to_owned(), signed.expose().to_owned()));
        }
        fields.extend(self.token_parameters.iter().cloned());
        Ok(fields)
    }

    /// Returns the error for an answer that is no refusal of the protocol (RFC 6749, 5.2): the provider is unavailable or busy, or
    /// something else answered. It has the status and the `Retry-After`, by which a retry decides. `None` for all other answers.
    fn unusual_answer(&self, response: &Response, now: Timestamp) -> Option<ActionError> {
        if response.status.is_success() {
            return None;
        }
        let code = response.json().ok().and_then(|body| body.get("error")?.as_str().map(str::to_owned));
        let status = match (response.status.as_u16(), code.as_deref()) {
            (status @ (429 | 500..), _) => status,
            // The codes for these statuses (RFC 6749, 4.1.2.1); some providers send them with 400.
            (_, Some("temporarily_unavailable")) => StatusCode::SERVICE_UNAVAILABLE.as_u16(),
            (_, Some("server_error")) => StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
            (_, Some("slow_down")) => StatusCode::TOO_MANY_REQUESTS.as_u16(),
            (_, Some(_)) => return None,
            (status, None) => status,
        };
        let shape = ErrorShape { code: vec!["error".to_owned()], ..ErrorShape::default() };
        let mut error = shape.status_error("the identity provider", response, now).with_status(status);
        error.message = format!("the connection `{}` cannot be used: {}", self.connection, error.message);
        // The body of a token endpoint may hold parts of credentials.
        error.body = None;
        Some(error)
    }

    fn context(&self) -> RequestContext<'static> {
        RequestContext {
            subject: "the identity provider",
            connection: None,
            idempotency_key: "",
            log_detail: LogDetail::None,
            host_policy: HostPolicy::Full,
            log: &NoLog,
            trace: None,
            answers: &UncountedAnswers,
            body: None,
            is_recorded: true,
        }
    }

    fn token_set(
        &self,
        reply: Result<BasicTokenResponse, RequestTokenError<ActionError, BasicErrorResponse>>,
        redactor: &Redactor,
    ) -> Result<TokenSet, TokenError> {
        let reply = reply.map_err(|error| self.token_error(error, redactor))?;
        Ok(TokenSet {
            access: Secret::new(reply.access_token().secret().as_str()),
            refresh: reply.refresh_token().map(|token| Secret::new(token.secret().as_str())),
            expires_in: reply.expires_in(),
            scope: reply
                .scopes()
                .map(|scopes| scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" ")),
        })
    }

    fn token_error(
        &self,
        error: RequestTokenError<ActionError, BasicErrorResponse>,
        redactor: &Redactor,
    ) -> TokenError {
        match error {
            RequestTokenError::ServerResponse(reply) => {
                let code = reply.error().to_string();
                // Providers report a used, expired or revoked refresh token by either of these (wiki-api facts 3.2).
                let consent_needed = matches!(
                    reply.error(),
                    BasicErrorResponseType::InvalidGrant | BasicErrorResponseType::UnauthorizedClient
                );
                let description = reply
                    .error_description()
                    .map_or_else(String::new, |description| format!(" ({})", excerpt(description, redactor)));
                let way_out = if consent_needed {
                    self.way_out()
                } else {
                    "look at the client's id and secret, and at its set-up at the provider".to_owned()
                };
                let message = format!(
                    "the identity provider refuses: {}{description}; {way_out}",
                    excerpt(&code, redactor)
                );
                TokenError { consent_needed, error: self.refuse(message).with_code(excerpt(&code, redactor)) }
            }
            RequestTokenError::Request(error) => TokenError::transient(error),
            RequestTokenError::Parse(..) => {
                TokenError::transient(self.refuse("the identity provider answered with no tokens".to_owned()))
            }
            RequestTokenError::Other(_) => TokenError::transient(
                self.refuse("the identity provider answered with something that is no reply".to_owned()),
            ),
        }
    }

    fn way_out(&self) -> String {
        match self.flow {
            Flow::AuthorizationCode => {
                format!("connect again with `cogwork connections login {}`", self.connection)
            }
            Flow::ClientCredentials => "look at the client's grant at the provider".to_owned(),
        }
    }

    fn refuse(&self, words: String) -> ActionError {
        let message = format!("the connection `{}` cannot be used: {words}", self.connection);
        ActionError::new(ErrorKind::Connection, message)
    }
}

/// Marks a failure to obtain a token: the request that needs it was not sent.
fn not_sent(mut error: ActionError) -> ActionError {
    error.not_sent = true;
    error.outcome_unknown = false;
    error
}

impl TokenError {
    /// An error that a retry may resolve.
    fn transient(error: ActionError) -> Self {
        Self { consent_needed: false, error }
    }
}

/// True if a response rejects the token itself, so that another token may help. False if the token lacks a scope.
pub(crate) fn refuses_token(response: &Response) -> bool {
    if response.status != StatusCode::UNAUTHORIZED {
        return false;
    }
    let about_scope = |text: &str| text.to_ascii_lowercase().contains("scope");
    let in_headers = response.headers.iter().any(|(name, value)| {
        (name == "www-authenticate" || name.as_str().contains("failure"))
            && value.to_str().is_ok_and(about_scope)
    });
    let start = &response.body[..response.body.len().min(4096)];
    !in_headers && !about_scope(&String::from_utf8_lossy(start))
}

/// Cuts a text of the provider for a message: hides secrets and removes control characters.
pub(crate) fn excerpt(text: &str, redactor: &Redactor) -> String {
    let text: String =
        redactor.redact_text(text).chars().filter(|character| !character.is_control()).collect();
    redactor.redact_excerpt(&text, LengthLimit::Chars(200)).into_owned()
}

/// Adapts [`Http`] to the client trait of the `oauth2` crate.
struct OAuthHttpClient<'w> {
    client: &'w OAuthClient,
    http: &'w Http,
}

impl<'c> AsyncHttpClient<'c> for OAuthHttpClient<'_> {
    type Error = ActionError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, ActionError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.client.send(self.http, request))
    }
}

/// The base address of a gateway in front of a site, and the paths that differ there.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    pub(crate) base: BaseUrl,
    /// Pairs of a site's path and the gateway's path for it.
    pub(crate) paths: Vec<(String, String)>,
}
