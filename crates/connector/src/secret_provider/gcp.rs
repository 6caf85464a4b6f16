//! Secret Manager of Google Cloud: `projects.secrets.versions.access` of its REST API, version 1.

use std::time::Duration;

use ::http::{Method, StatusCode};
use serde::Deserialize;
use value::Secret;

use super::secret::FieldText;
use super::{Caller, Credential, Failure, IssuedToken, ProvidedSecret, aws};
use crate::oauth::{ASSERTION_GRANT, Assertion};

/// The permission that is asked for; roles of the account limit it.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The time after which a file with a token is read again.
const FILE_LIFETIME: Duration = Duration::from_secs(60);

/// The settings of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GcpSettings {
    /// The base of the addresses: `https://secretmanager.googleapis.com`.
    pub address: String,
    /// The id or number of the project.
    pub project: String,
    /// The beginning of the secrets' names there; may be empty.
    pub prefix: String,
    /// The login.
    pub login: GcpLogin,
}

/// A login at Google Cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GcpLogin {
    /// The JSON file of a service account.
    Key(Credential),
    /// A file with an access token, which another program renews.
    TokenFile(Credential),
}

/// The parts of a service account's file that a login needs.
#[derive(Deserialize)]
struct ServiceAccount {
    client_email: String,
    private_key: FieldText,
    token_uri: String,
}

#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    access_token: FieldText,
    expires_in: Option<u64>,
}

impl TokenAnswer {
    pub(super) fn issued(self) -> IssuedToken {
        IssuedToken { token: self.access_token.0, lifetime: self.expires_in.map(Duration::from_secs) }
    }
}

#[derive(Deserialize)]
struct Answer {
    name: String,
    payload: Payload,
}

#[derive(Deserialize)]
struct Payload {
    /// Base64.
    data: FieldText,
}

pub(super) async fn log_in(caller: &Caller<'_>, settings: &GcpSettings) -> Result<IssuedToken, Failure> {
    let key = match &settings.login {
        GcpLogin::TokenFile(file) => {
            return Ok(IssuedToken { token: caller.credential(file)?, lifetime: Some(FILE_LIFETIME) });
        }
        GcpLogin::Key(key) => caller.credential(key)?,
    };
    let account: ServiceAccount = serde_json::from_str(key.expose())
        .map_err(|_| caller.failed("its key is not the JSON file of a service account"))?;
    let assertion = Assertion {
        issuer: account.client_email,
        audience: account.token_uri.clone(),
        subject: None,
        key: account.private_key.0,
        proof: None,
    };
    let signed = assertion
        .signed(&[SCOPE.to_owned()], caller.http.timer().now())
        .map_err(|reason| caller.failed(reason))?;
    let fields = [("grant_type", ASSERTION_GRANT), ("assertion", signed.expose())];
    let response = caller.send_form(&account.token_uri, &fields).await?;
    if response.status != StatusCode::OK {
        return Err(caller.unexpected(response.status, "the login"));
    }
    caller.json::<TokenAnswer>(response).map(TokenAnswer::issued)
}

pub(super) async fn read(
    caller: &Caller<'_>,
    settings: &GcpSettings,
    name: &str,
    token: &Secret,
) -> Result<Option<ProvidedSecret>, Failure> {
    let GcpSettings { address, project, prefix, .. } = settings;
    let path = format!("projects/{project}/secrets/{prefix}{name}");
    let url = format!("{}/v1/{path}/versions/latest:access", address.trim_end_matches('/'));
    let mut request = caller.request(Method::GET, &url)?;
    caller.bearer(&mut request, token)?;
    let response = caller.send(&request).await?;
    match response.status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(None),
        status => return Err(caller.unexpected(status, &format!("`{path}`"))),
    }
    let answer: Answer = caller.json(response)?;
    let text = aws::text_of(&answer.payload.data.0)
        .ok_or_else(|| caller.failed(format!("`{path}` is binary, and a secret must be a text")))?;
    let version = answer.name.rsplit('/').next().map(str::to_owned);
    Ok(Some(ProvidedSecret::from_text(text).with_version(version)))
}
