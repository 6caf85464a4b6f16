//! AWS Secrets Manager: `GetSecretValue` of its JSON protocol (API version 2017-10-17), with signed requests.

use ::http::{HeaderName, HeaderValue, Method, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;
use value::Secret;

use super::secret::FieldText;
use super::{Caller, Credential, Failure, ProvidedSecret};
use crate::connection::Signer;

const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const READ: HeaderValue = HeaderValue::from_static("secretsmanager.GetSecretValue");
const SERVICE: &str = "secretsmanager";
/// The variable with the token of temporary keys, as the tools of AWS name it.
const SESSION_TOKEN: &str = "AWS_SESSION_TOKEN";

/// The settings of an account and region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsSettings {
    /// The region, such as `eu-central-1`.
    pub region: String,
    /// The beginning of the secrets' names there; may be empty.
    pub prefix: String,
    /// The base of the addresses; `None` for that of the region.
    pub endpoint: Option<String>,
    /// The id of the access key.
    pub access_key: Credential,
    /// The secret access key.
    pub secret_key: Credential,
    /// The token of temporary keys; `None` for the variable `AWS_SESSION_TOKEN`, if it is set.
    pub session_token: Option<Credential>,
}

impl AwsSettings {
    pub(super) fn address(&self) -> String {
        let region = &self.region;
        // Regions of China have a domain of their own.
        let end = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        self.endpoint.clone().unwrap_or_else(|| format!("https://{SERVICE}.{region}.{end}"))
    }
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

pub(super) async fn read(
    caller: &Caller<'_>,
    settings: &AwsSettings,
    name: &str,
) -> Result<Option<ProvidedSecret>, Failure> {
    let name = format!("{}{name}", settings.prefix);
    let mut request =
        caller.request(Method::POST, &format!("{}/", settings.address().trim_end_matches('/')))?;
    request.headers.insert(TARGET, READ);
    request.set_bytes("application/x-amz-json-1.1", json!({"SecretId": name}).to_string());
    let signer = signer(caller, settings)?;
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
            let kind: String = kind.chars().filter(char::is_ascii_alphanumeric).take(80).collect();
            Err(caller.failed(format!("it does not give `{name}`: {kind}")))
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

fn signer(caller: &Caller<'_>, settings: &AwsSettings) -> Result<Signer, Failure> {
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
        access_key: caller.credential(&settings.access_key)?.expose().to_owned(),
        secret_key: caller.credential(&settings.secret_key)?,
        session_token: token,
    })
}
