//! Clients of the services that keep secrets: Vault, OpenBao, AWS Secrets Manager, Google Secret Manager, Azure Key Vault.
//!
//! A client reads one secret at a time and keeps only its login. The caller keeps values, limits requests and registers values with the
//! redactor. No message contains text of an answer that may hold a secret.

mod aws;
mod aws_role;
mod azure;
mod gcp;
mod secret;
mod vault;

use std::path::PathBuf;
use std::time::Duration;

use ::http::header::{ACCEPT, AUTHORIZATION};
use ::http::{HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use url::Url;
use value::Secret;
use zeroize::Zeroize as _;

use crate::action::UncountedAnswers;
use crate::error::Error;
use crate::http::{HostPolicy, Http, LogDetail, Request, RequestContext, Response};
use crate::log::NoLog;

pub use aws::AwsSettings;
pub use azure::{AzureLogin, AzureSettings};
pub use gcp::{GcpLogin, GcpSettings};
pub use secret::ProvidedSecret;
pub use vault::{KUBERNETES_TOKEN, VaultLogin, VaultSettings};

/// The maximum size of an answer of a provider, in bytes: several times the largest secret that any of them takes.
const RESPONSE_BYTES: usize = 512 << 10;
/// The share of a login's lifetime after which a new one replaces it, in percent.
const RENEW_AT_PERCENT: u64 = 80;

/// The source of a part of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A secret of the store, of a file or of the environment.
    Secret(String),
    /// A file, which another program may renew.
    File(PathBuf),
    /// A variable of the environment.
    Variable(&'static str),
}

/// Reads the credentials with which the daemon logs in at a provider.
pub trait Credentials: Send + Sync {
    /// Reads a credential as it is now.
    ///
    /// # Errors
    /// Returns a phrase that names the missing part, and how to give it.
    fn read(&self, credential: &Credential) -> Result<Secret, String>;

    /// Returns true if a variable of the environment is set.
    fn is_set(&self, variable: &str) -> bool;
}

/// The settings of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderSettings {
    /// HashiCorp Vault or OpenBao.
    Vault(VaultSettings),
    /// AWS Secrets Manager.
    Aws(AwsSettings),
    /// Secret Manager of Google Cloud.
    Gcp(GcpSettings),
    /// Azure Key Vault.
    Azure(AzureSettings),
}

impl ProviderSettings {
    /// Returns the addresses that the client calls: the settings have them, and the environment the address of a service for keys.
    ///
    /// # Errors
    /// Returns a phrase if one is no address, or has no TLS and is not on this machine.
    pub fn addresses(&self, credentials: &dyn Credentials) -> Result<Vec<Url>, String> {
        // A wrong one is an error of the read that needs it.
        let of_container = match self {
            Self::Aws(settings) if settings.keys.is_none() => {
                aws_role::container_address(credentials).ok().flatten()
            }
            _ => None,
        };
        let texts = match self {
            Self::Vault(settings) => vec![settings.address.clone()],
            Self::Aws(settings) => vec![settings.address(), settings.token_service()],
            Self::Gcp(settings) => vec![settings.address.clone()],
            Self::Azure(settings) => vec![settings.address.clone(), settings.authority.clone()],
        };
        let named = texts.iter().map(|text| check_address(text));
        named.chain(of_container.map(Ok)).collect()
    }
}

/// The client of one provider. It keeps its login until 80 % of its lifetime are over.
pub struct ProviderClient {
    /// The provider in messages: `the secret provider `vault:corp``.
    subject: String,
    settings: ProviderSettings,
    /// Locked while a login is under way, so that there is one at a time.
    login: Mutex<Option<Login>>,
    /// The keys of a role at AWS.
    role_keys: aws_role::KeptKeys,
}

/// A login that a provider has issued.
struct Login {
    token: Secret,
    /// The time from which it is not used any more; `None` if it does not end.
    renew_at: Option<Timestamp>,
}

/// A token with its lifetime.
struct IssuedToken {
    token: Secret,
    lifetime: Option<Duration>,
}

/// The reason why a request gave nothing.
enum Failure {
    /// The provider refuses the login.
    Refused(String),
    /// Anything else.
    Other(String),
}

impl Failure {
    fn into_error(self) -> Error {
        let (Self::Refused(message) | Self::Other(message)) = self;
        Error::SecretProvider(message)
    }
}

impl ProviderClient {
    /// Creates the client of a provider. Nothing is requested yet. `name` is its kind and name, such as `vault:corp`.
    #[must_use]
    pub fn new(name: &str, settings: ProviderSettings) -> Self {
        let subject = format!("the secret provider `{name}`");
        Self { subject, settings, login: Mutex::default(), role_keys: Mutex::default() }
    }

    /// Reads the latest version of a secret; `None` if the provider has none of this name. Logs in first if necessary, and once more if
    /// the provider refuses a login that it has issued.
    ///
    /// # Errors
    /// Returns an error if the provider cannot be reached, refuses, or answers with something unexpected.
    pub async fn read(
        &self,
        http: &Http,
        credentials: &dyn Credentials,
        name: &str,
    ) -> Result<Option<ProvidedSecret>, Error> {
        let caller = Caller { http, subject: &self.subject, credentials };
        if let ProviderSettings::Aws(settings) = &self.settings {
            let read = aws::read(&caller, settings, &self.role_keys, name);
            return read.await.map_err(Failure::into_error);
        }
        let token = self.token(&caller, None).await.map_err(Failure::into_error)?;
        let refusal = match self.fetch(&caller, name, &token).await {
            Err(Failure::Refused(message)) => message,
            answer => return answer.map_err(Failure::into_error),
        };
        let fresh = self.token(&caller, Some(&token)).await.map_err(Failure::into_error)?;
        if fresh == token {
            return Err(Error::SecretProvider(refusal));
        }
        self.fetch(&caller, name, &fresh).await.map_err(Failure::into_error)
    }

    async fn fetch(
        &self,
        caller: &Caller<'_>,
        name: &str,
        token: &Secret,
    ) -> Result<Option<ProvidedSecret>, Failure> {
        match &self.settings {
            ProviderSettings::Vault(settings) => vault::read(caller, settings, name, token).await,
            ProviderSettings::Gcp(settings) => gcp::read(caller, settings, name, token).await,
            ProviderSettings::Azure(settings) => azure::read(caller, settings, name, token).await,
            ProviderSettings::Aws(settings) => aws::read(caller, settings, &self.role_keys, name).await,
        }
    }

    /// Returns the token of the login; a new one if none is kept, it ends soon, or the provider has refused it.
    async fn token(&self, caller: &Caller<'_>, refused: Option<&Secret>) -> Result<Secret, Failure> {
        let mut login = self.login.lock().await;
        let now = caller.http.timer().now();
        if let Some(Login { token, renew_at }) = &*login
            && refused != Some(token)
            && renew_at.is_none_or(|at| now < at)
        {
            return Ok(token.clone());
        }
        let issued = match &self.settings {
            ProviderSettings::Vault(settings) => vault::log_in(caller, settings).await?,
            ProviderSettings::Gcp(settings) => gcp::log_in(caller, settings).await?,
            ProviderSettings::Azure(settings) => azure::log_in(caller, settings).await?,
            ProviderSettings::Aws(_) => return Err(Failure::Other("it has no login".to_owned())),
        };
        caller.http.options().redactor.add_secret(issued.token.expose());
        let lifetime =
            issued.lifetime.map(|lifetime| lifetime.as_secs().saturating_mul(RENEW_AT_PERCENT) / 100);
        let renew_at =
            lifetime.map(|seconds| now.checked_add(Duration::from_secs(seconds)).unwrap_or(Timestamp::MAX));
        *login = Some(Login { token: issued.token.clone(), renew_at });
        Ok(issued.token)
    }
}

/// The parts of a request that do not depend on the secret.
struct Caller<'a> {
    http: &'a Http,
    subject: &'a str,
    credentials: &'a dyn Credentials,
}

impl Caller<'_> {
    /// Reads a part of the login, and hides it from now on.
    fn credential(&self, credential: &Credential) -> Result<Secret, Failure> {
        let secret = self
            .credentials
            .read(credential)
            .map_err(|reason| Failure::Other(format!("{}: {reason}", self.subject)))?;
        self.http.options().redactor.add_secret(secret.expose());
        Ok(secret)
    }

    fn request(&self, method: Method, address: &str) -> Result<Request, Failure> {
        let url = check_address(address).map_err(|reason| self.failed(reason))?;
        Ok(self.request_to(method, url))
    }

    /// Makes a request to an address that was checked.
    fn request_to(&self, method: Method, url: Url) -> Request {
        let mut request = Request::new(method, url);
        request.max_response = Some(RESPONSE_BYTES);
        request.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        request
    }

    /// Adds a header with a credential.
    fn authorize(&self, request: &mut Request, name: HeaderName, value: String) -> Result<(), Failure> {
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| self.failed("the login has characters that no header takes"))?;
        value.set_sensitive(true);
        request.headers.insert(name, value);
        Ok(())
    }

    fn bearer(&self, request: &mut Request, token: &Secret) -> Result<(), Failure> {
        self.authorize(request, AUTHORIZATION, format!("Bearer {}", token.expose()))
    }

    async fn send(&self, request: &Request) -> Result<Response, Failure> {
        let context = RequestContext {
            subject: self.subject,
            connection: None,
            idempotency_key: "",
            log_detail: LogDetail::None,
            // The caller limits its requests itself, so that a provider that answers again is used at once.
            host_policy: HostPolicy::RetryAfterOnly,
            log: &NoLog,
            trace: None,
            answers: &UncountedAnswers,
            body: None,
            // Secrets never come into a recording.
            is_recorded: false,
        };
        let sent = self.http.send(request, &context).await;
        sent.map_err(|error| Failure::Other(error.message.clone()))
    }

    /// Sends a form to a token endpoint.
    async fn send_form(&self, address: &str, fields: &[(&str, &str)]) -> Result<Response, Failure> {
        self.send(&self.form(address, fields)?).await
    }

    fn form(&self, address: &str, fields: &[(&str, &str)]) -> Result<Request, Failure> {
        let mut request = self.request(Method::POST, address)?;
        let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        request.set_bytes("application/x-www-form-urlencoded", form);
        Ok(request)
    }

    /// Reads the JSON of an answer, and clears its bytes if nobody else has them.
    fn json<T: DeserializeOwned>(&self, response: Response) -> Result<T, Failure> {
        let parsed = serde_json::from_slice(&response.body);
        let size = response.body.len();
        if let Ok(mut bytes) = response.body.try_into_mut() {
            bytes.as_mut().zeroize();
        }
        // The parser's message may quote a value.
        parsed.map_err(|_| self.failed(format!("it answers with something unexpected ({size} bytes)")))
    }

    fn failed(&self, reason: impl std::fmt::Display) -> Failure {
        Failure::Other(format!("{}: {reason}", self.subject))
    }

    fn refused(&self, reason: impl std::fmt::Display) -> Failure {
        Failure::Refused(format!("{}: {reason}", self.subject))
    }

    /// Returns the failure of an answer with an unexpected status, without its text.
    fn unexpected(&self, status: StatusCode, about: &str) -> Failure {
        let code = status.as_u16();
        let hint = match code {
            429 => "; it receives too many requests",
            503 => "; it is sealed, starting or overloaded",
            _ => "",
        };
        let reason = format!("it answers {about} with status {code}{hint}");
        if matches!(code, 401 | 403) { self.refused(reason) } else { self.failed(reason) }
    }
}

/// Parses an address of a provider.
///
/// # Errors
/// Returns a phrase if it is no address, has a user, a query or a fragment, or has no TLS and is not on this machine.
pub fn check_address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is no address: {error}"))?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    if has_user || url.fragment().is_some() || url.host().is_none() {
        return Err("the address must have a host, and neither a user nor `#`".to_owned());
    }
    if crate::oidc::is_encrypted(&url) {
        return Ok(url);
    }
    Err(format!(
        "`{text}` must begin with https://, since secrets travel on it; http:// is for this machine only"
    ))
}

#[cfg(test)]
mod tests;
