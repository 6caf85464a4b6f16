//! AWS Secrets Manager: `GetSecretValue` of its JSON protocol (API version 2017-10-17), with signed requests.

use ::http::{HeaderName, HeaderValue, Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;
use value::Secret;

use super::aws_role::{self, KeptKeys, RoleKeys};
use super::secret::FieldText;
use super::{Caller, Credential, Failure, ProvidedSecret};
use crate::connection::Signer;

const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const READ: HeaderValue = HeaderValue::from_static("secretsmanager.GetSecretValue");
const SERVICE: &str = "secretsmanager";
/// The variable with the token of temporary keys, as the tools of AWS name it.
const SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";
/// The variables with keys, as the tools of AWS name them.
const ACCESS_KEY: &str = "AWS_ACCESS_KEY_ID";
const SECRET_KEY: &str = "AWS_SECRET_ACCESS_KEY";
/// The refusals of keys that have ended or are unknown.
const REFUSED_KEYS: [&str; 4] = [
    "ExpiredTokenException",
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
];

/// The settings of an account and region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsSettings {
    /// The region, such as `eu-central-1`.
    pub region: String,
    /// The beginning of the secrets' names there; may be empty.
    pub prefix: String,
    /// The base of the addresses; `None` for that of the region.
    pub endpoint: Option<String>,
    /// The address of the token service, which gives keys for the role of a pod; `None` for that of the region.
    pub token_service: Option<String>,
    /// The id of the access key, and the secret access key; `None` for the variables of AWS: keys, or the role of a pod.
    pub keys: Option<(Credential, Credential)>,
    /// The token of temporary keys; `None` for the variable `AWS_SESSION_TOKEN`, if it is set.
    pub session_token: Option<Credential>,
}

impl AwsSettings {
    pub(super) fn address(&self) -> String {
        self.endpoint.clone().unwrap_or_else(|| self.usual_address(SERVICE))
    }

    pub(super) fn token_service(&self) -> String {
        self.token_service.clone().unwrap_or_else(|| self.usual_address("sts"))
    }

    fn usual_address(&self, service: &str) -> String {
        let region = &self.region;
        // Regions of China have a domain of their own.
        let end = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        format!("https://{service}.{region}.{end}")
    }
}

/// The keys of a request.
enum Keys {
    Named(Signer),
    OfRole(RoleKeys),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    secret_string: Option<FieldText>,
    /// Base64.
    secret_binary: Option<FieldText>,
    version_id: Option<String>,
}

#[derive(Default, Deserialize)]
struct Problem {
    #[serde(rename = "__type", default)]
    kind: String,
}

/// Reads a secret. Keys of a role that are refused are replaced once.
pub(super) async fn read(
    caller: &Caller<'_>,
    settings: &AwsSettings,
    kept: &KeptKeys,
    name: &str,
) -> Result<Option<ProvidedSecret>, Failure> {
    let refused = match keys(caller, settings, kept).await? {
        Keys::Named(signer) => return fetch(caller, settings, &signer, name).await,
        Keys::OfRole(keys) => keys,
    };
    let refusal = match fetch(caller, settings, &role_signer(settings, &refused), name).await {
        Err(Failure::Refused(message)) => message,
        answer => return answer,
    };
    let fresh = aws_role::keys(caller, settings, kept, Some(&refused)).await?;
    if fresh == refused {
        return Err(Failure::Refused(refusal));
    }
    fetch(caller, settings, &role_signer(settings, &fresh), name).await
}

async fn fetch(
    caller: &Caller<'_>,
    settings: &AwsSettings,
    signer: &Signer,
    name: &str,
) -> Result<Option<ProvidedSecret>, Failure> {
    let name = format!("{}{name}", settings.prefix);
    let mut request =
        caller.request(Method::POST, &format!("{}/", settings.address().trim_end_matches('/')))?;
    request.headers.insert(TARGET, READ);
    request.set_bytes("application/x-amz-json-1.1", json!({"SecretId": name}).to_string());
    let body = request.encoded().map_err(|error| caller.failed(error.message.clone()))?.body;
    signer
        .sign(&request.method, &request.url, &mut request.headers, &body, caller.http.timer().now())
        .map_err(|reason| caller.failed(reason))?;
    let response = caller.send(&request).await?;
    if response.status == StatusCode::OK {
        return secret(caller, caller.json(response)?).map(Some);
    }
    let problem: Problem = serde_json::from_slice(&response.body).unwrap_or_default();
    // `com.amazonaws.secretsmanager#ResourceNotFoundException` in some versions of the protocol.
    let kind = problem.kind.rsplit('#').next().unwrap_or_default();
    match kind {
        "ResourceNotFoundException" => Ok(None),
        "" => Err(caller.unexpected(response.status, &format!("`{name}`"))),
        kind => {
            let shown: String = kind.chars().filter(char::is_ascii_alphanumeric).take(80).collect();
            let reason = format!("it does not give `{name}`: {shown}");
            Err(if REFUSED_KEYS.contains(&kind) { caller.refused(reason) } else { caller.failed(reason) })
        }
    }
}

fn secret(caller: &Caller<'_>, answer: Answer) -> Result<ProvidedSecret, Failure> {
    let text = match (answer.secret_string, answer.secret_binary) {
        (Some(text), _) => text.0,
        (None, Some(binary)) => text_of(&binary.0)
            .ok_or_else(|| caller.failed("the secret is binary, and a secret must be a text"))?,
        (None, None) => return Err(caller.failed("its answer has no secret")),
    };
    Ok(ProvidedSecret::from_text(text).with_version(answer.version_id))
}

/// Decodes a text in Base64; `None` for other texts.
pub(super) fn text_of(base64: &Secret) -> Option<Secret> {
    let bytes = zeroize::Zeroizing::new(STANDARD.decode(base64.expose()).ok()?);
    std::str::from_utf8(&bytes).ok().map(Secret::new)
}

/// Returns the keys that the settings name; without settings, the variables of AWS have them.
async fn keys(caller: &Caller<'_>, settings: &AwsSettings, kept: &KeptKeys) -> Result<Keys, Failure> {
    let variables = (Credential::Variable(ACCESS_KEY), Credential::Variable(SECRET_KEY));
    match &settings.keys {
        Some(named) => signer(caller, settings, named).map(Keys::Named),
        None if caller.credentials.is_set(ACCESS_KEY) => {
            signer(caller, settings, &variables).map(Keys::Named)
        }
        None => aws_role::keys(caller, settings, kept, None).await.map(Keys::OfRole),
    }
}

fn role_signer(settings: &AwsSettings, keys: &RoleKeys) -> Signer {
    Signer {
        service: SERVICE.to_owned(),
        region: settings.region.clone(),
        access_key: keys.access_key.expose().to_owned(),
        secret_key: keys.secret_key.clone(),
        session_token: Some(keys.session_token.clone()),
    }
}

fn signer(
    caller: &Caller<'_>,
    settings: &AwsSettings,
    (access_key, secret_key): &(Credential, Credential),
) -> Result<Signer, Failure> {
    let token = match &settings.session_token {
        Some(token) => Some(caller.credential(token)?),
        None if caller.credentials.is_set(SESSION_TOKEN) => {
            Some(caller.credential(&Credential::Variable(SESSION_TOKEN))?)
        }
        None => None,
    };
    Ok(Signer {
        service: SERVICE.to_owned(),
        region: settings.region.clone(),
        access_key: caller.credential(access_key)?.expose().to_owned(),
        secret_key: caller.credential(secret_key)?,
        session_token: token,
    })
}
