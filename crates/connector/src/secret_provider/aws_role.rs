//! Keys for the role of a pod or a container: from the token service of AWS for the token of a workload, or from the service beside the container.
//!
//! The tools of AWS read the same variables. Keys are replaced before they end.

use std::net::IpAddr;
use std::time::Duration;

use ::http::header::{ACCEPT, AUTHORIZATION};
use ::http::{HeaderValue, Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::{Host, Url};
use value::Secret;

use super::aws::AwsSettings;
use super::secret::FieldText;
use super::{Caller, Credential, Credentials, Failure, RENEW_AT_PERCENT};

const ROLE: &str = "AWS_ROLE_ARN";
const ROLE_SESSION: &str = "AWS_ROLE_SESSION_NAME";
const TOKEN_FILE: &str = "AWS_WEB_IDENTITY_TOKEN_FILE";
const FULL_ADDRESS: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const RELATIVE_ADDRESS: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
const CONTAINER_TOKEN_FILE: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
const CONTAINER_TOKEN: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN";

/// The base of the relative address: the service of ECS.
const ECS: &str = "http://169.254.170.2";
/// The addresses beside this machine that are called without TLS, on the link: of ECS and of EKS.
const ON_THE_LINK: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
/// The lifetime of keys that have no end.
const USUAL_LIFETIME: SignedDuration = SignedDuration::from_mins(15);
/// The time after which keys are asked for again that could not be replaced and have not ended.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Keys of a role. The lock is held while they are asked for, so that there is one request at a time.
pub(super) type KeptKeys = Mutex<Option<RoleKeys>>;

/// Keys that end.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RoleKeys {
    pub(super) access_key: Secret,
    pub(super) secret_key: Secret,
    pub(super) session_token: Secret,
    renew_at: Timestamp,
    ends_at: Timestamp,
}

/// The service that gives keys for the role of this process.
enum Issuer {
    /// The token service, for the token in a file.
    Token { role: String, file: Credential },
    /// The service at an address, with the token that it asks for.
    Container { address: Url, token: Option<Credential> },
}

impl Issuer {
    /// Returns the issuer by the variables of the environment.
    ///
    /// # Errors
    /// Returns a phrase if none is named, or the variables do not fit each other.
    fn find(credentials: &dyn Credentials) -> Result<Self, String> {
        let variable = |name| text_of(credentials, name);
        match (variable(ROLE), variable(TOKEN_FILE)) {
            (Some(role), Some(file)) => {
                return Ok(Self::Token { role, file: Credential::File(file.into()) });
            }
            (None, Some(_)) => return Err(format!("`{TOKEN_FILE}` is set and `{ROLE}` is not; set both")),
            (_, None) => {}
        }
        let Some(address) = container_address(credentials)? else {
            return Err(format!(
                "it has no keys: name them in its settings (`accessKey`, `secretKey`), set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or give the pod a role (`{TOKEN_FILE}`, `{FULL_ADDRESS}`)"
            ));
        };
        let file = variable(CONTAINER_TOKEN_FILE).map(|file| Credential::File(file.into()));
        let inline = credentials.is_set(CONTAINER_TOKEN).then_some(Credential::Variable(CONTAINER_TOKEN));
        Ok(Self::Container { address, token: file.or(inline) })
    }
}

/// Reads a variable that is no secret.
fn text_of(credentials: &dyn Credentials, name: &'static str) -> Option<String> {
    if !credentials.is_set(name) {
        return None;
    }
    credentials.read(&Credential::Variable(name)).ok().map(|text| text.expose().to_owned())
}

/// Returns the address of the service beside the container; `None` if no variable names one.
///
/// # Errors
/// Returns a phrase if keys would travel to it in clear text, except on this machine and on the link.
pub(super) fn container_address(credentials: &dyn Credentials) -> Result<Option<Url>, String> {
    let relative = text_of(credentials, RELATIVE_ADDRESS).map(|path| format!("{ECS}{path}"));
    let Some(text) = relative.or_else(|| text_of(credentials, FULL_ADDRESS)) else { return Ok(None) };
    let wrong = |reason: &str| format!("`{FULL_ADDRESS}` or `{RELATIVE_ADDRESS}` {reason}");
    let url = Url::parse(&text).map_err(|error| wrong(&format!("is no address: {error}")))?;
    let address = match url.host() {
        Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        _ => None,
    };
    let is_near = |address: &IpAddr| {
        address.is_loopback() || ON_THE_LINK.iter().any(|near| near.parse() == Ok(*address))
    };
    let is_plain = url.username().is_empty() && url.password().is_none() && url.host().is_some();
    match url.scheme() {
        "https" if is_plain => Ok(Some(url)),
        "http" if is_plain && address.as_ref().is_some_and(is_near) => Ok(Some(url)),
        _ => Err(wrong(
            "is not called: it must begin with https://, or be http:// with an address of this machine, of ECS or of EKS",
        )),
    }
}

/// Returns keys of the role: the kept ones until 80 % of their lifetime, unless they are the ones that were `refused`.
pub(super) async fn keys(
    caller: &Caller<'_>,
    settings: &AwsSettings,
    kept: &KeptKeys,
    refused: Option<&RoleKeys>,
) -> Result<RoleKeys, Failure> {
    let mut kept = kept.lock().await;
    let now = caller.http.timer().now();
    let usable = kept.as_mut().filter(|keys| Some(&**keys) != refused && now < keys.ends_at);
    if let Some(keys) = &usable
        && now < keys.renew_at
    {
        return Ok((**keys).clone());
    }
    match issue(caller, settings, now).await {
        Ok(keys) => {
            for secret in [&keys.secret_key, &keys.session_token] {
                caller.http.options().redactor.add_secret(secret.expose());
            }
            *kept = Some(keys.clone());
            Ok(keys)
        }
        Err(failure) => {
            // They have not ended yet.
            let keys = usable.ok_or(failure)?;
            keys.renew_at = now.checked_add(RETRY_AFTER).unwrap_or(Timestamp::MAX);
            Ok(keys.clone())
        }
    }
}

async fn issue(caller: &Caller<'_>, settings: &AwsSettings, now: Timestamp) -> Result<RoleKeys, Failure> {
    match Issuer::find(caller.credentials).map_err(|reason| caller.failed(reason))? {
        Issuer::Token { role, file } => from_token(caller, settings, (&role, &file), now).await,
        Issuer::Container { address, token } => from_container(caller, address, token, now).await,
    }
}

/// Calls `AssumeRoleWithWebIdentity` (API version 2011-06-15), which needs no signature.
async fn from_token(
    caller: &Caller<'_>,
    settings: &AwsSettings,
    (role, file): (&str, &Credential),
    now: Timestamp,
) -> Result<RoleKeys, Failure> {
    let token = caller.credential(file)?;
    let session = text_of(caller.credentials, ROLE_SESSION);
    let fields = [
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", session.as_deref().unwrap_or("cogwork")),
        ("WebIdentityToken", token.expose()),
    ];
    let mut request = caller.form(&settings.token_service(), &fields)?;
    // The service would answer with JSON of a form that it does not describe.
    request.headers.insert(ACCEPT, HeaderValue::from_static("text/xml"));
    let response = caller.send(&request).await?;
    let answer = expression::apply("parseXml", &[("data", &response.text().into())]);
    let answer = answer.unwrap_or_default();
    let text = |path: &str| answer.path(path).and_then(|found| found.as_str().map(str::to_owned));
    if response.status != StatusCode::OK {
        let code = text("ErrorResponse.Error.Code").unwrap_or_default();
        return Err(refusal(caller, response.status, &code, role));
    }
    let field = |name: &str| {
        text(&format!("AssumeRoleWithWebIdentityResponse.AssumeRoleWithWebIdentityResult.Credentials.{name}"))
    };
    let ends_at = field("Expiration").and_then(|end| end.parse().ok());
    match (field("AccessKeyId"), field("SecretAccessKey"), field("SessionToken")) {
        (Some(access), Some(secret), Some(token)) => {
            Ok(RoleKeys::new([access, secret, token].map(Secret::new), now, ends_at))
        }
        _ => Err(caller.failed("the token service answers without keys")),
    }
}

/// Explains why the token service gives no keys.
fn refusal(caller: &Caller<'_>, status: StatusCode, code: &str, role: &str) -> Failure {
    let code: String = code.chars().filter(char::is_ascii_alphanumeric).take(80).collect();
    let hint = match code.as_str() {
        "AccessDenied" => {
            "; its trust policy must allow `sts:AssumeRoleWithWebIdentity` to this service account"
        }
        "InvalidIdentityToken" | "ExpiredTokenException" => {
            "; the token in the file must be a fresh one, of an issuer that the account knows (`iam:CreateOpenIDConnectProvider`)"
        }
        _ => "",
    };
    caller.failed(format!(
        "the token service gives no keys for the role `{role}`: status {} {code}{hint}",
        status.as_u16()
    ))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ContainerAnswer {
    access_key_id: FieldText,
    secret_access_key: FieldText,
    token: FieldText,
    expiration: Option<Timestamp>,
}

async fn from_container(
    caller: &Caller<'_>,
    address: Url,
    token: Option<Credential>,
    now: Timestamp,
) -> Result<RoleKeys, Failure> {
    let mut request = caller.request_to(Method::GET, address);
    if let Some(token) = &token {
        let token = caller.credential(token)?;
        caller.authorize(&mut request, AUTHORIZATION, token.expose().to_owned())?;
    }
    let response = caller.send(&request).await?;
    if response.status != StatusCode::OK {
        let help = format!(
            "the service at `{}` gives no keys: status {}; the pod or the task needs a role, and `{CONTAINER_TOKEN_FILE}` a fresh token",
            request.url.host_str().unwrap_or_default(),
            response.status.as_u16()
        );
        return Err(caller.failed(help));
    }
    let answer: ContainerAnswer = caller.json(response)?;
    let secrets = [answer.access_key_id.0, answer.secret_access_key.0, answer.token.0];
    Ok(RoleKeys::new(secrets, now, answer.expiration))
}

impl RoleKeys {
    fn new(secrets: [Secret; 3], now: Timestamp, ends_at: Option<Timestamp>) -> Self {
        let [access_key, secret_key, session_token] = secrets;
        let lifetime = ends_at.map_or(USUAL_LIFETIME, |end| end.duration_since(now));
        let after = |time: SignedDuration| now.checked_add(time).unwrap_or(Timestamp::MAX);
        let percent = i32::try_from(RENEW_AT_PERCENT).unwrap_or(100);
        let renew_at = after(lifetime.checked_mul(percent).unwrap_or(lifetime) / 100);
        Self { access_key, secret_key, session_token, renew_at, ends_at: after(lifetime) }
    }
}
