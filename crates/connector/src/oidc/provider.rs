//! The requests to a provider: its description, its documents, and the exchange of a code.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ::http::header::{ACCEPT, AUTHORIZATION};
use ::http::{HeaderValue, Method, StatusCode};
use model::ActionError;
use oauth2::basic::{
    BasicErrorResponse, BasicErrorResponseType, BasicRevocationErrorResponse,
    BasicTokenIntrospectionResponse, BasicTokenType,
};
use oauth2::{
    AsyncHttpClient, AuthType, AuthorizationCode, ClientId, ClientSecret, EndpointNotSet, EndpointSet,
    ExtraTokenFields, HttpRequest, HttpResponse, PkceCodeVerifier, RequestTokenError, StandardRevocableToken,
    StandardTokenResponse, TokenUrl,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::Url;
use value::Secret;

use super::{KEPT_FOR, LoginAnswer, LoginValues, OidcClient};
use crate::action::UncountedAnswers;
use crate::error::Error;
use crate::http::{HostPolicy, Http, LogDetail, Request, RequestContext};
use crate::log::NoLog;
use crate::oauth::excerpt;

/// The longest time that one request to a provider takes.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum size of a response of a provider in bytes.
const RESPONSE_BYTES: usize = 256 << 10;

/// The parts of a provider's description that are used (Discovery 1.0, section 3).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Metadata {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Url,
    token_endpoint: Url,
    pub(super) userinfo_endpoint: Option<Url>,
    pub(super) jwks_uri: Url,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// The member of a token response that OAuth 2.0 does not have.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct IdTokenField {
    pub(super) id_token: Option<String>,
}

impl ExtraTokenFields for IdTokenField {}

type Tokens = StandardTokenResponse<IdTokenField, BasicTokenType>;
type CodeClient<HasTokenUrl> = oauth2::Client<
    BasicErrorResponse,
    Tokens,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    HasTokenUrl,
>;

impl OidcClient {
    /// The description of the provider, from memory if it is recent.
    pub(super) async fn metadata(&self, http: &Http) -> Result<Arc<Metadata>, Error> {
        let now = http.timer().now();
        let known = self.metadata.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((read, metadata)) = known
            && now.duration_since(read).unsigned_abs() < KEPT_FOR
        {
            return Ok(metadata);
        }
        let issuer = &self.settings.issuer;
        let address = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let address =
            Url::parse(&address).map_err(|error| failed(format!("the issuer is no address: {error}")))?;
        let metadata: Metadata = get(http, &address, None).await?;
        // Discovery, section 4.3: otherwise one provider could speak for another.
        if metadata.issuer != *issuer {
            let found = excerpt(&metadata.issuer, &http.options().redactor);
            return Err(failed(format!(
                "the identity provider calls itself `{found}`, and the setting `oidc.issuer` is `{issuer}`"
            )));
        }
        let endpoints = [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri];
        for address in endpoints.into_iter().chain(&metadata.userinfo_endpoint) {
            check_encrypted(address).map_err(failed)?;
        }
        let metadata = Arc::new(metadata);
        *self.metadata.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&metadata)));
        Ok(metadata)
    }

    /// Exchanges a code for tokens.
    pub(super) async fn exchange(
        &self,
        http: &Http,
        metadata: &Metadata,
        answer: &LoginAnswer,
        values: &LoginValues,
        client_secret: Option<&Secret>,
    ) -> Result<Tokens, Error> {
        // Without a list the provider takes the client's secret as Basic authentication (Discovery, section 3).
        let methods = metadata.token_endpoint_auth_methods_supported.as_deref();
        let takes_basic = methods.is_none_or(|all| all.iter().any(|method| method == "client_secret_basic"));
        let auth =
            if client_secret.is_some() && takes_basic { AuthType::BasicAuth } else { AuthType::RequestBody };
        let client: CodeClient<EndpointNotSet> =
            oauth2::Client::new(ClientId::new(self.settings.client_id.clone()));
        let mut client: CodeClient<EndpointSet> = client
            .set_token_uri(TokenUrl::from_url(metadata.token_endpoint.clone()))
            .set_auth_type(auth)
            .set_redirect_uri(values.redirect()?);
        if let Some(secret) = client_secret {
            client = client.set_client_secret(ClientSecret::new(secret.expose().to_owned()));
        }
        let reply = client
            .exchange_code(AuthorizationCode::new(answer.code.expose().to_owned()))
            .set_pkce_verifier(PkceCodeVerifier::new(values.verifier.expose().to_owned()))
            .request_async(&TokenHttp { http, address: &metadata.token_endpoint })
            .await;
        reply.map_err(|error| match error {
            RequestTokenError::ServerResponse(refusal) => {
                let description = refusal.error_description().map_or("", String::as_str);
                let text = format!("{} {description}", refusal.error().as_ref());
                let message = format!(
                    "the identity provider refuses the login: {}",
                    excerpt(text.trim(), &http.options().redactor)
                );
                // The code was used before or is too old; everything else is the set-up of the client.
                match refusal.error() {
                    BasicErrorResponseType::InvalidGrant => Error::Login(message),
                    _ => failed(message),
                }
            }
            RequestTokenError::Request(error) => failed(error.message.clone()),
            RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
                failed("the identity provider answered with no tokens".to_owned())
            }
        })
    }
}

fn failed(reason: String) -> Error {
    Error::IdentityProvider(reason)
}

/// Refuses an address whose requests others could read or change.
pub(super) fn check_encrypted(address: &Url) -> Result<(), String> {
    if is_encrypted(address) {
        return Ok(());
    }
    Err(format!("`{address}` of the identity provider must begin with https://"))
}

/// Returns true if nobody can read or change requests to the address: they use TLS, or stay on this machine.
pub(crate) fn is_encrypted(address: &Url) -> bool {
    let is_local = match address.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    address.scheme() == "https" || (address.scheme() == "http" && is_local)
}

/// Reads a JSON document.
pub(super) async fn get<T: DeserializeOwned>(
    http: &Http,
    address: &Url,
    token: Option<&Secret>,
) -> Result<T, Error> {
    let mut request = request(http, Method::GET, address);
    if let Some(token) = token {
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose())).map_err(|_| {
            failed("the access token of the provider has characters that no header takes".to_owned())
        })?;
        value.set_sensitive(true);
        request.headers.insert(AUTHORIZATION, value);
    }
    let response = http.send(&request, &context()).await.map_err(|error| failed(error.message.clone()))?;
    // A redirect must not lead to where others could change the answer.
    check_encrypted(&response.url).map_err(failed)?;
    if response.status != StatusCode::OK {
        let status = response.status.as_u16();
        return Err(failed(format!("`{address}` of the identity provider answers with status {status}")));
    }
    serde_json::from_slice(&response.body).map_err(|error| {
        failed(format!("`{address}` of the identity provider answers with something unexpected: {error}"))
    })
}

fn request(http: &Http, method: Method, address: &Url) -> Request {
    let mut request = Request::new(method, address.clone());
    request.timeout = Some(TIMEOUT.min(http.options().timeout));
    request.max_response = Some(RESPONSE_BYTES);
    request.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    request
}

fn context() -> RequestContext<'static> {
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

/// Sends the token request of the `oauth2` crate through the guarded client.
struct TokenHttp<'h> {
    http: &'h Http,
    address: &'h Url,
}

impl<'c> AsyncHttpClient<'c> for TokenHttp<'_> {
    type Error = ActionError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, ActionError>> + Send + 'c>>;

    fn call(&'c self, token_request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let (head, body) = token_request.into_parts();
            let mut request = request(self.http, Method::POST, self.address);
            if let Some(credentials) = head.headers.get(AUTHORIZATION) {
                let mut credentials = credentials.clone();
                credentials.set_sensitive(true);
                request.headers.insert(AUTHORIZATION, credentials);
            }
            request.set_bytes("application/x-www-form-urlencoded", body);
            let response = self.http.send(&request, &context()).await?;
            let mut reply = ::http::Response::new(response.body.to_vec());
            *reply.status_mut() = response.status;
            *reply.headers_mut() = response.headers;
            Ok(reply)
        })
    }
}
