//! Azure Key Vault: `Get Secret` of its REST API, version 7.4, with a token of Microsoft Entra.

use ::http::{Method, StatusCode};
use serde::Deserialize;
use value::Secret;

use super::gcp::TokenAnswer;
use super::secret::FieldText;
use super::{Caller, Credential, Failure, IssuedToken, ProvidedSecret};

const API_VERSION: &str = "7.4";
/// The type of an assertion that takes the place of a client's secret (RFC 7523, section 2.2).
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The settings of a key vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzureSettings {
    /// The address of the vault: `https://NAME.vault.azure.net`.
    pub address: String,
    /// The beginning of the secrets' names there; may be empty.
    pub prefix: String,
    /// The base of the logins: `https://login.microsoftonline.com`.
    pub authority: String,
    /// The permission that is asked for: `https://vault.azure.net/.default`.
    pub scope: String,
    /// The id of the tenant.
    pub tenant: String,
    /// The id of the application.
    pub client_id: String,
    /// The proof that the daemon is this application.
    pub login: AzureLogin,
}

/// The proof of an application's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AzureLogin {
    /// The client secret.
    Secret(Credential),
    /// A file with a signed token of an issuer that the application trusts (workload identity).
    TokenFile(Credential),
}

#[derive(Deserialize)]
struct Answer {
    value: FieldText,
    id: String,
}

pub(super) async fn log_in(caller: &Caller<'_>, settings: &AzureSettings) -> Result<IssuedToken, Failure> {
    let AzureSettings { authority, tenant, client_id, scope, .. } = settings;
    let address = format!("{}/{tenant}/oauth2/v2.0/token", authority.trim_end_matches('/'));
    let mut fields =
        vec![("grant_type", "client_credentials"), ("client_id", client_id), ("scope", scope.as_str())];
    let proof;
    match &settings.login {
        AzureLogin::Secret(secret) => {
            proof = caller.credential(secret)?;
            fields.push(("client_secret", proof.expose()));
        }
        AzureLogin::TokenFile(file) => {
            proof = caller.credential(file)?;
            fields.extend([("client_assertion_type", ASSERTION), ("client_assertion", proof.expose())]);
        }
    }
    let response = caller.send_form(&address, &fields).await?;
    if response.status != StatusCode::OK {
        return Err(caller.unexpected(response.status, "the login"));
    }
    caller.json::<TokenAnswer>(response).map(TokenAnswer::issued)
}

pub(super) async fn read(
    caller: &Caller<'_>,
    settings: &AzureSettings,
    name: &str,
    token: &Secret,
) -> Result<Option<ProvidedSecret>, Failure> {
    let name = format!("{}{name}", settings.prefix);
    if name.contains('_') {
        // Names there have letters, digits and hyphens only.
        return Ok(None);
    }
    let address = settings.address.trim_end_matches('/');
    let mut request =
        caller.request(Method::GET, &format!("{address}/secrets/{name}?api-version={API_VERSION}"))?;
    caller.bearer(&mut request, token)?;
    let response = caller.send(&request).await?;
    match response.status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(None),
        status => return Err(caller.unexpected(status, &format!("`{name}`"))),
    }
    let answer: Answer = caller.json(response)?;
    let version = answer.id.rsplit('/').next().map(str::to_owned);
    Ok(Some(ProvidedSecret::from_text(answer.value.0).with_version(version)))
}
