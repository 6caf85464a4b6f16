//! Checks of the identity provider at which people log in to the web UI.

use std::sync::Arc;

use connector::oidc::{OidcClient, OidcSettings};
use connector::{AllowList, Http, HttpOptions};
use server::LoginOptions;
use store::Store;

use super::finding::Findings;
use crate::secrets::Known;
use crate::settings::Config;

const SECTION: &str = "login";

/// Checks that the client secret is set, and that the provider can be reached and describes itself correctly.
pub(super) async fn check(config: &Config, store: Option<Arc<dyn Store>>, findings: &mut Findings) {
    let Some(options) = config.oidc.options() else { return };
    if let Some(name) = &options.client_secret
        && !Known::read(config, store).await.has(name)
    {
        let detail = format!("the secret `{name}` of `oidc.clientSecret` is not set");
        findings.error(SECTION, "secret", detail, format!("cogwork secrets set {name}"));
    }
    let issuer = options.issuer.clone();
    match discover(config, options).await {
        Ok(()) => findings.ok(SECTION, "provider", format!("{issuer} describes itself as it should")),
        Err(error) => {
            let help =
                "correct `oidc.issuer`, or allow a provider in the private network with `outbound.allow`";
            findings.error(SECTION, "provider", error.to_string(), help);
        }
    }
}

async fn discover(config: &Config, options: LoginOptions) -> Result<(), connector::Error> {
    let LoginOptions { issuer, client_id, request_scopes, .. } = options;
    let client = OidcClient::new(OidcSettings { issuer, client_id, scopes: request_scopes })?;
    let allow = AllowList::parse(config.outbound_allow.iter().map(String::as_str))?;
    let http = Http::new(HttpOptions { allow, ..HttpOptions::default() })?;
    client.discover(&http).await
}
