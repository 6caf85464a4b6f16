//! HashiCorp Vault and OpenBao: the key-value engines of version 1 and 2, and credentials that an engine makes for each reader.
//!
//! Source: the HTTP API of OpenBao 2 (`/api-docs`), whose answers for `kv`, `database`, `approle`, `kubernetes` and `jwt` Vault shares.

use std::collections::BTreeMap;
use std::time::Duration;

use ::http::{HeaderName, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use value::Secret;

use super::secret::FieldText;
use super::{Caller, Credential, Failure, IssuedToken, ProvidedSecret};
use crate::oauth::excerpt;

/// The file in which Kubernetes gives a pod its token.
pub const KUBERNETES_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

const TOKEN: HeaderName = HeaderName::from_static("x-vault-token");
const NAMESPACE: HeaderName = HeaderName::from_static("x-vault-namespace");
/// Keeps a proxy that only forwards plain requests from being used; agents may demand it.
const REQUEST: HeaderName = HeaderName::from_static("x-vault-request");

/// The settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultSettings {
    /// The base of its addresses, without `/v1`.
    pub address: String,
    /// The path of the API below which each secret has its name, such as `secret/data/cogwork`.
    pub path: String,
    /// The namespace; `None` for the root.
    pub namespace: Option<String>,
    /// The login.
    pub login: VaultLogin,
}

/// A login at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VaultLogin {
    /// A token as it is. It is not renewed.
    Token(Credential),
    /// A role and its secret id.
    AppRole {
        /// The role id.
        role_id: String,
        /// The secret id.
        secret_id: Credential,
        /// The path of the auth method, such as `approle`.
        mount: String,
    },
    /// A signed token of somebody whom the server trusts: Kubernetes, or an issuer of OpenID Connect.
    Jwt {
        /// The role.
        role: String,
        /// The signed token.
        jwt: Credential,
        /// The path of the auth method, such as `kubernetes`.
        mount: String,
    },
}

#[derive(Deserialize)]
struct LoginAnswer {
    auth: Option<Auth>,
}

#[derive(Deserialize)]
struct Auth {
    client_token: FieldText,
    #[serde(default)]
    lease_duration: u64,
}

#[derive(Default, Deserialize)]
struct Problems {
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    warnings: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    lease_duration: u64,
    data: BTreeMap<String, Value>,
}

pub(super) async fn log_in(caller: &Caller<'_>, settings: &VaultSettings) -> Result<IssuedToken, Failure> {
    let (mount, body) = match &settings.login {
        VaultLogin::Token(token) => {
            return Ok(IssuedToken { token: caller.credential(token)?, lifetime: None });
        }
        VaultLogin::AppRole { role_id, secret_id, mount } => {
            let secret_id = caller.credential(secret_id)?;
            (mount, json!({"role_id": role_id, "secret_id": secret_id.expose()}))
        }
        VaultLogin::Jwt { role, jwt, mount } => {
            let jwt = caller.credential(jwt)?;
            (mount, json!({"role": role, "jwt": jwt.expose()}))
        }
    };
    let mut request = caller.request(Method::POST, &url(settings, &format!("auth/{mount}/login")))?;
    add_headers(caller, settings, &mut request)?;
    request.set_bytes("application/json", body.to_string());
    let response = caller.send(&request).await?;
    if response.status != StatusCode::OK {
        let redactor = &caller.http.options().redactor;
        let words = problems(&response.body).errors.join(", ");
        let words =
            if words.is_empty() { String::new() } else { format!(" ({})", excerpt(&words, redactor)) };
        let status = response.status.as_u16();
        return Err(
            caller.failed(format!("it refuses the login at `auth/{mount}` with status {status}{words}"))
        );
    }
    let answer: LoginAnswer = caller.json(response)?;
    let auth = answer.auth.ok_or_else(|| caller.failed("its answer to the login has no token"))?;
    Ok(IssuedToken { token: auth.client_token.0, lifetime: lease(auth.lease_duration) })
}

pub(super) async fn read(
    caller: &Caller<'_>,
    settings: &VaultSettings,
    name: &str,
    token: &Secret,
) -> Result<Option<ProvidedSecret>, Failure> {
    let path = format!("{}/{name}", settings.path.trim_matches('/'));
    let mut request = caller.request(Method::GET, &url(settings, &path))?;
    add_headers(caller, settings, &mut request)?;
    caller.authorize(&mut request, TOKEN, token.expose().to_owned())?;
    let response = caller.send(&request).await?;
    match response.status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => {
            let warnings = problems(&response.body).warnings.unwrap_or_default();
            if warnings.iter().any(|warning| warning.contains("versioned K/V")) {
                let hint = "the engine has versions, so write the path with `data`: `MOUNT/data/FOLDER`";
                return Err(caller.failed(format!("`{path}` is no address of a secret; {hint}")));
            }
            return Ok(None);
        }
        StatusCode::FORBIDDEN => {
            let reason = format!("the login is refused, or its policies do not allow `read` of `{path}`");
            return Err(caller.refused(reason));
        }
        status => return Err(caller.unexpected(status, &format!("`{path}`"))),
    }
    let answer: Answer = caller.json(response)?;
    Ok(secret(answer))
}

/// Returns the secret of an answer; `None` for a version that was deleted. An answer of version 2 has the fields in `data`, beside
/// `metadata` with the version.
fn secret(answer: Answer) -> Option<ProvidedSecret> {
    let Answer { lease_duration, mut data } = answer;
    let version = match data.get("metadata") {
        Some(Value::Object(metadata)) if data.len() == 2 && data.contains_key("data") => {
            metadata.get("version")
        }
        _ => None,
    };
    if let Some(version) = version.map(Value::to_string) {
        let Some(Value::Object(fields)) = data.remove("data") else { return None };
        return Some(ProvidedSecret::from_fields(fields).with_version(Some(version)));
    }
    let mut secret = ProvidedSecret::from_fields(data);
    secret.lease = lease(lease_duration);
    Some(secret)
}

/// Zero means that there is no end.
fn lease(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

fn url(settings: &VaultSettings, path: &str) -> String {
    format!("{}/v1/{path}", settings.address.trim_end_matches('/'))
}

fn add_headers(
    caller: &Caller<'_>,
    settings: &VaultSettings,
    request: &mut crate::http::Request,
) -> Result<(), Failure> {
    request.headers.insert(REQUEST, HeaderValue::from_static("true"));
    if let Some(namespace) = &settings.namespace {
        let value = HeaderValue::from_str(namespace)
            .map_err(|_| caller.failed("its namespace has characters that no header takes"))?;
        request.headers.insert(NAMESPACE, value);
    }
    Ok(())
}

fn problems(body: &[u8]) -> Problems {
    serde_json::from_slice(body).unwrap_or_default()
}
