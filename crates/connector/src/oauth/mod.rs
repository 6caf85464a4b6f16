//! OAuth 2.0 (RFC 6749, with PKCE of RFC 7636) for connections of any type whose manifest says so. The protocol is the
//! `oauth2` crate's; requests go out where all others do, past the guard.
//!
//! Nothing is kept here: tokens come in and go out as values, and whoever holds them sees to it that one refreshes at a
//! time and that what is new is stored before it is used.

mod rule;
mod sites;

use std::pin::Pin;
use std::time::Duration;

use ::http::{HeaderValue, Method, StatusCode};
use async_trait::async_trait;
use model::redact::{LengthLimit, Redactor};
use model::{ActionError, ErrorKind, LogLevel, Secret, Value};
use oauth2::basic::{BasicClient, BasicErrorResponse, BasicErrorResponseType, BasicTokenResponse};
use oauth2::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken, HttpRequest,
    HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, Scope,
    TokenResponse as _, TokenUrl,
};
use url::Url;

use crate::connection::BaseUrl;
use crate::http::{Admission, Context, Detail, Http, Request, Response};
use crate::log::LogSink;

pub(crate) use rule::{OAuthRule, SitesRule};
pub use sites::Site;

/// How a connection comes to its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// A person consents in a browser.
    AuthorizationCode,
    /// The client's own credentials are enough.
    ClientCredentials,
}

/// What gives the tokens of a connection. Its `Debug` hides the client's secret.
#[derive(Clone, Debug)]
pub struct OAuthClient {
    pub(crate) connection: String,
    pub(crate) flow: Flow,
    pub(crate) authorize_url: Option<Url>,
    pub(crate) token_url: Url,
    pub(crate) client_id: String,
    pub(crate) client_secret: Secret,
    pub(crate) scopes: Vec<String>,
    /// What the provider calls itself in its answers.
    pub(crate) issuer: Option<String>,
    /// Whether requests for tokens are JSON, which some providers document in place of a form.
    pub(crate) json: bool,
    pub(crate) sites: Option<sites::Sites>,
}

/// Tokens as they were issued.
#[derive(Clone, Debug)]
pub struct Issued {
    /// What requests carry.
    pub access: Secret,
    /// What the next tokens are asked for with. A provider that rotates gives a new one each time.
    pub refresh: Option<Secret>,
    /// How long the access token is good.
    pub expires_in: Option<Duration>,
    /// What was granted, where the provider says.
    pub scope: Option<String>,
}

/// A consent that is asked for: where the person goes, and what has to be known when the answer comes.
#[derive(Clone, Debug)]
pub struct Consent {
    /// The address to open in a browser.
    pub url: Url,
    /// 256 random bits that come back with the answer.
    pub state: Secret,
    /// What proves that whoever brings the code asked for it.
    pub verifier: Secret,
}

/// Why no tokens were given.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenError {
    /// Whether what they were asked with is worth nothing any more: only a new consent helps, and asking again would
    /// only be refused again.
    pub consent_needed: bool,
    /// What happened, in words.
    pub error: ActionError,
}

/// Gives the bearer token of a connection when a request is made.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// A token that should be good now.
    ///
    /// # Errors
    /// There is none, and none can be had.
    async fn token(&self) -> Result<Secret, ActionError>;

    /// Another one than this, which was refused; `None` where there is no other.
    ///
    /// # Errors
    /// None can be had.
    async fn another(&self, refused: &Secret) -> Result<Option<Secret>, ActionError>;
}

impl OAuthClient {
    /// How it comes to its tokens.
    #[must_use]
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// What is asked for.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// Whether requests go to one of several sites, which has to be looked up.
    #[must_use]
    pub fn has_sites(&self) -> bool {
        self.sites.is_some()
    }

    /// What tells this client from others: tokens that another one was given are worth nothing to it.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut scopes = self.scopes.clone();
        scopes.sort_unstable();
        format!("{} {} {:?} {}", self.token_url, self.client_id, self.flow, scopes.join(" "))
    }

    /// Begins to ask a person for consent. The answer comes to `redirect`, exactly.
    ///
    /// # Errors
    /// The type of the connection asks nobody, or `redirect` is no address.
    pub fn ask(&self, redirect: &str) -> Result<Consent, ActionError> {
        let Some(authorize_url) = &self.authorize_url else {
            return Err(self.refuse("its type asks nobody for consent".to_owned()));
        };
        let redirect = RedirectUrl::new(redirect.to_owned())
            .map_err(|error| self.refuse(format!("`{redirect}` is no address to come back to: {error}")))?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let client = BasicClient::new(ClientId::new(self.client_id.clone()))
            .set_auth_uri(AuthUrl::from_url(authorize_url.clone()))
            .set_redirect_uri(redirect);
        // What the address has of its own (`audience`, `prompt`) stays before what is added to it.
        let (url, state) = client
            .authorize_url(|| CsrfToken::new_random_len(32))
            .add_scopes(self.scopes.iter().cloned().map(Scope::new))
            .set_pkce_challenge(challenge)
            .url();
        Ok(Consent {
            url,
            state: Secret::new(state.secret().as_str()),
            verifier: Secret::new(verifier.secret().as_str()),
        })
    }

    /// Whether an answer to [`OAuthClient::ask`] comes from the provider that was asked (RFC 9207): `issuer` is the `iss`
    /// that it carries. Where the connection names the issuer, it has to be that one, letter by letter; elsewhere one that
    /// is given has to be at home where the provider is.
    #[must_use]
    pub fn is_answered_by(&self, issuer: Option<&str>) -> bool {
        match (&self.issuer, issuer) {
            (Some(known), issuer) => issuer == Some(known.as_str()),
            (None, None) => true,
            (None, Some(issuer)) => Url::parse(issuer).is_ok_and(|issuer| {
                let home = self.authorize_url.iter().chain([&self.token_url]);
                home.into_iter().any(|known| known.origin() == issuer.origin())
            }),
        }
    }

    /// The tokens for a code that a consent gave.
    ///
    /// # Errors
    /// The provider refuses, or cannot be reached.
    pub async fn exchange(
        &self,
        http: &Http,
        code: &str,
        verifier: &Secret,
        redirect: &str,
    ) -> Result<Issued, TokenError> {
        let redirect = RedirectUrl::new(redirect.to_owned())
            .map_err(|error| TokenError::passing(self.refuse(error.to_string())))?;
        let client = self.client().set_redirect_uri(redirect);
        let wire = Wire { client: self, http };
        let answer = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .set_pkce_verifier(PkceCodeVerifier::new(verifier.expose().to_owned()))
            .request_async(&wire)
            .await;
        self.issued(answer, &http.options().redactor)
    }

    /// New tokens for a refresh token.
    ///
    /// # Errors
    /// The provider refuses, or cannot be reached.
    pub async fn refresh(&self, http: &Http, refresh: &Secret) -> Result<Issued, TokenError> {
        let wire = Wire { client: self, http };
        let token = RefreshToken::new(refresh.expose().to_owned());
        let answer = self.client().exchange_refresh_token(&token).request_async(&wire).await;
        let mut issued = self.issued(answer, &http.options().redactor)?;
        // A provider that does not rotate gives none: the old one stays good (RFC 6749, section 6).
        issued.refresh.get_or_insert_with(|| refresh.clone());
        Ok(issued)
    }

    /// Tokens for the client itself.
    ///
    /// # Errors
    /// The provider refuses, or cannot be reached.
    pub async fn client_credentials(&self, http: &Http) -> Result<Issued, TokenError> {
        let wire = Wire { client: self, http };
        let answer = self
            .client()
            .exchange_client_credentials()
            .add_scopes(self.scopes.iter().cloned().map(Scope::new))
            .request_async(&wire)
            .await;
        self.issued(answer, &http.options().redactor)
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
            .set_auth_type(AuthType::RequestBody)
    }

    /// Sends a request of the `oauth2` crate as any other request: past the guard, within the limits.
    async fn send(&self, http: &Http, asked: HttpRequest) -> Result<HttpResponse, ActionError> {
        let mut request = Request::new(Method::POST, self.token_url.clone());
        request.headers.insert(::http::header::ACCEPT, HeaderValue::from_static("application/json"));
        if self.json {
            let fields = url::form_urlencoded::parse(asked.body());
            let fields = fields.map(|(name, value)| (name.into_owned(), Value::from(value.into_owned())));
            let body: model::Map = fields.collect();
            request.set_bytes("application/json", Value::from(body).to_json());
        } else {
            request.set_bytes("application/x-www-form-urlencoded", asked.into_body());
        }
        let response = http.send(&request, &self.context()).await?;
        let mut answer = ::http::Response::new(response.body.to_vec());
        *answer.status_mut() = match response.status {
            // Some answer 201; the crate knows 200 alone.
            status if status.is_success() => StatusCode::OK,
            status => status,
        };
        *answer.headers_mut() = response.headers;
        Ok(answer)
    }

    fn context(&self) -> Context<'static> {
        Context {
            subject: "the identity provider",
            connection: None,
            idempotency_key: "",
            detail: Detail::Nothing,
            admission: Admission::Ordinary,
            log: &Silent,
            trace: None,
        }
    }

    fn issued(
        &self,
        answer: Result<BasicTokenResponse, RequestTokenError<ActionError, BasicErrorResponse>>,
        redactor: &Redactor,
    ) -> Result<Issued, TokenError> {
        let answer = answer.map_err(|error| self.token_error(error, redactor))?;
        Ok(Issued {
            access: Secret::new(answer.access_token().secret().as_str()),
            refresh: answer.refresh_token().map(|token| Secret::new(token.secret().as_str())),
            expires_in: answer.expires_in(),
            scope: answer
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
            RequestTokenError::ServerResponse(answer) => {
                let code = answer.error().to_string();
                // Providers name a refresh token that is used up, expired or revoked by either (wiki-api facts 3.2).
                let consent_needed = matches!(
                    answer.error(),
                    BasicErrorResponseType::InvalidGrant | BasicErrorResponseType::UnauthorizedClient
                );
                let said = answer
                    .error_description()
                    .map_or_else(String::new, |said| format!(" ({})", plain(said, redactor)));
                let way_out = if consent_needed {
                    self.way_out()
                } else {
                    "look at the client's id and secret, and at its set-up at the provider".to_owned()
                };
                let message =
                    format!("the identity provider refuses: {}{said}; {way_out}", plain(&code, redactor));
                TokenError { consent_needed, error: self.refuse(message).with_code(plain(&code, redactor)) }
            }
            RequestTokenError::Request(error) => TokenError::passing(error),
            RequestTokenError::Parse(..) => {
                TokenError::passing(self.refuse("the identity provider answered with no tokens".to_owned()))
            }
            RequestTokenError::Other(_) => TokenError::passing(
                self.refuse("the identity provider answered with something that is no answer".to_owned()),
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

impl TokenError {
    /// One that may be gone at the next try.
    fn passing(error: ActionError) -> Self {
        Self { consent_needed: false, error }
    }
}

/// Whether an answer refuses the token itself, so that another may be taken: not where it is about what the token may do.
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

/// A short text of the other side, for a message: secrets hidden, control characters out, cut.
fn plain(text: &str, redactor: &Redactor) -> String {
    let text: String =
        redactor.redact_text(text).chars().filter(|character| !character.is_control()).collect();
    redactor.redact_excerpt(&text, LengthLimit::Chars(200)).into_owned()
}

/// The way out, as the `oauth2` crate asks for one.
struct Wire<'w> {
    client: &'w OAuthClient,
    http: &'w Http,
}

impl<'c> AsyncHttpClient<'c> for Wire<'_> {
    type Error = ActionError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, ActionError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.client.send(self.http, request))
    }
}

struct Silent;

impl LogSink for Silent {
    fn line(&self, _: LogLevel, _: &str) {}
}

/// The gateway's address of a site, and what is not below it but at the gateway itself.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    pub(crate) base: BaseUrl,
    /// Paths of a site that have another name at the gateway.
    pub(crate) paths: Vec<(String, String)>,
}
