//! The `oauth2` section of a manifest, which builds the OAuth 2.0 client from a connection's inputs.

use url::Url;
use value::{Map, Secret, Value};

use super::assertion::{Assertion, KeyMarks};
use super::tenants::SiteSelection;
use super::{ClientAuth, Flow, Gateway, OAuthClient};
use crate::connection::{BaseUrl, BaseUrlError};

/// The `oauth2` section of a manifest. A field for an input holds the name of the input.
#[derive(Clone, Debug)]
pub(crate) struct OAuthConfig {
    pub(crate) flow: Flow,
    /// The input with the base address of the identity provider, to which the paths are appended.
    pub(crate) server: Option<String>,
    pub(crate) authorize_path: Option<String>,
    pub(crate) token_path: Option<String>,
    /// Inputs with complete addresses, which take precedence over server and path.
    pub(crate) authorize_url: Option<String>,
    pub(crate) token_url: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_secret: String,
    pub(crate) scopes: Option<String>,
    /// A Boolean input, and the scopes to add if it is true.
    pub(crate) optional_scopes: Option<(String, String)>,
    /// The input with the address whose host and port become the `audience`.
    pub(crate) audience: Option<String>,
    /// The input with the issuer identifier of the provider.
    pub(crate) issuer: Option<String>,
    /// Further query parameters of the authorization address.
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) json: bool,
    /// The proof of the client in token requests.
    pub(crate) client_auth: ClientAuthConfig,
    /// Further fields of token requests.
    pub(crate) token_parameters: Vec<(String, String)>,
    /// The parts of a signed assertion; `None` for other grants.
    pub(crate) assertion: Option<AssertionConfig>,
    pub(crate) sites: Option<SitesConfig>,
}

/// The proof of the client in token requests.
#[derive(Clone, Debug)]
pub(crate) enum ClientAuthConfig {
    Body,
    Basic,
    /// An assertion that the key in the input of the client's secret signs.
    Jwt {
        /// The input with the id of the key.
        key_id: Option<String>,
        /// The input with the certificate in PEM.
        certificate: Option<String>,
    },
}

/// The inputs with the parts of a signed assertion.
#[derive(Clone, Debug)]
pub(crate) struct AssertionConfig {
    pub(crate) key: String,
    /// The audience; the address that issues tokens if `None` or not set.
    pub(crate) audience: Option<String>,
    pub(crate) subject: Option<String>,
}

/// The `sites` section of a manifest.
#[derive(Clone, Debug)]
pub(crate) struct SitesConfig {
    /// The path of the list of sites at the gateway, which is the connection's address.
    pub(crate) list: String,
    /// The input with the name or the address of the chosen site.
    pub(crate) choice: String,
    /// The input with the product's name in paths: `/ex/<slug>/<id>`.
    pub(crate) slug: String,
    /// The input with the product's name in scopes, and the placeholder for it in the default scopes.
    pub(crate) product: String,
    pub(crate) placeholder: String,
    pub(crate) paths: Vec<(String, String)>,
}

impl OAuthConfig {
    /// Builds the client from checked inputs.
    ///
    /// # Errors
    /// Returns an error if an address is invalid or a required input is empty. The message is a phrase to follow the
    /// connection's name.
    pub(crate) fn client(
        &self,
        connection: &str,
        inputs: &Map,
        base: &BaseUrl,
    ) -> Result<OAuthClient, String> {
        let required = |name: &String| {
            let value = text(inputs, name);
            if value.is_empty() { Err(format!("`{name}` is empty")) } else { Ok(value.to_owned()) }
        };
        let authorize_url = match self.flow {
            Flow::AuthorizationCode => {
                let given = self.complete_url(inputs, self.authorize_url.as_ref())?;
                Some(match given {
                    Some(url) => url,
                    None => self.default_authorize_url(inputs)?,
                })
            }
            Flow::ClientCredentials => None,
        };
        let token_url = match self.complete_url(inputs, self.token_url.as_ref())? {
            Some(url) => url,
            None => self.server_url(inputs, self.token_path.as_ref())?,
        };
        let sites = self.sites.as_ref().map(|config| SiteSelection {
            gateway: base.clone(),
            list: config.list.clone(),
            path: format!("/ex/{}/", crate::http::encode(text(inputs, &config.slug))),
            product: text(inputs, &config.product).to_owned(),
            choice: text(inputs, &config.choice).to_owned(),
        });
        let audience = token_url.to_string();
        // A signed assertion proves what a secret proves otherwise.
        let client_secret = match &self.assertion {
            Some(_) => String::new(),
            None => required(&self.client_secret)?,
        };
        Ok(OAuthClient {
            connection: connection.to_owned(),
            flow: self.flow,
            authorize_url,
            token_url,
            client_id: required(&self.client_id)?,
            client_secret: Secret::new(client_secret),
            scopes: self.scopes(inputs),
            issuer: self
                .issuer
                .as_ref()
                .map(|name| text(inputs, name).to_owned())
                .filter(|issuer| !issuer.is_empty()),
            json: self.json,
            client_auth: self.client_auth(inputs, &audience)?,
            session: None,
            token_parameters: self.token_parameters.clone(),
            assertion: self.assertion(inputs, &audience)?,
            sites,
        })
    }

    /// Builds the proof of the client from checked inputs.
    fn client_auth(&self, inputs: &Map, token_url: &str) -> Result<ClientAuth, String> {
        let (key_id, certificate) = match &self.client_auth {
            ClientAuthConfig::Body => return Ok(ClientAuth::Body),
            ClientAuthConfig::Basic => return Ok(ClientAuth::Basic),
            ClientAuthConfig::Jwt { key_id, certificate } => (key_id, certificate),
        };
        let given = |name: &Option<String>| {
            let value = name.as_ref().map(|name| text(inputs, name).to_owned());
            value.filter(|value| !value.is_empty())
        };
        let client = text(inputs, &self.client_id);
        Ok(ClientAuth::Jwt(Box::new(Assertion {
            issuer: client.to_owned(),
            audience: token_url.to_owned(),
            subject: Some(client.to_owned()),
            key: Secret::new(text(inputs, &self.client_secret)),
            proof: Some(KeyMarks::new(given(key_id), given(certificate).as_deref())?),
        })))
    }

    /// Builds the assertion from checked inputs; its issuer is the id of the client.
    fn assertion(&self, inputs: &Map, token_url: &str) -> Result<Option<Assertion>, String> {
        let Some(config) = &self.assertion else { return Ok(None) };
        let given = |name: &Option<String>| {
            let value = name.as_ref().map(|name| text(inputs, name).to_owned());
            value.filter(|value| !value.is_empty())
        };
        let key = text(inputs, &config.key);
        if key.is_empty() {
            return Err(format!("`{}` is empty", config.key));
        }
        Ok(Some(Assertion {
            issuer: text(inputs, &self.client_id).to_owned(),
            audience: given(&config.audience).unwrap_or_else(|| token_url.to_owned()),
            subject: given(&config.subject),
            key: Secret::new(key),
            proof: None,
        }))
    }

    /// Returns the gateway; `None` if the manifest declares no sites.
    pub(crate) fn gateway(&self, base: &BaseUrl) -> Option<Gateway> {
        let config = self.sites.as_ref()?;
        Some(Gateway { base: base.clone(), paths: config.paths.clone() })
    }

    /// Returns the scopes, with the placeholder replaced by the product's name.
    fn scopes(&self, inputs: &Map) -> Vec<String> {
        let given = self.scopes.as_ref().map_or("", |name| text(inputs, name));
        let more =
            self.optional_scopes.as_ref().filter(|(name, _)| inputs.get(name) == Some(&Value::Bool(true)));
        let scopes =
            given.split_whitespace().chain(more.iter().flat_map(|(_, more)| more.split_whitespace()));
        match &self.sites {
            Some(config) => {
                let product = text(inputs, &config.product);
                scopes.map(|scope| scope.replace(&config.placeholder, product)).collect()
            }
            None => scopes.map(str::to_owned).collect(),
        }
    }

    fn default_authorize_url(&self, inputs: &Map) -> Result<Url, String> {
        let mut url = self.server_url(inputs, self.authorize_path.as_ref())?;
        let audience = self.audience.as_ref().and_then(|name| bare_host(text(inputs, name)));
        {
            let mut query = url.query_pairs_mut();
            if let Some(audience) = audience {
                query.append_pair("audience", &audience);
            }
            for (name, value) in &self.parameters {
                query.append_pair(name, value);
            }
        }
        if url.query() == Some("") {
            url.set_query(None);
        }
        Ok(url)
    }

    /// Returns the complete address that an input holds; `None` if the input is not set.
    fn complete_url(&self, inputs: &Map, name: Option<&String>) -> Result<Option<Url>, String> {
        let Some(name) = name else { return Ok(None) };
        let given = text(inputs, name);
        if given.is_empty() {
            return Ok(None);
        }
        let url = Url::parse(given).map_err(|error| format!("`{name}` is not an address ({error})"))?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        if !matches!(url.scheme(), "http" | "https") || has_user || url.fragment().is_some() {
            return Err(format!("`{name}` must be an address of http or https, without a user name and `#`"));
        }
        Ok(Some(url))
    }

    fn server_url(&self, inputs: &Map, path: Option<&String>) -> Result<Url, String> {
        let (Some(server), Some(path)) = (&self.server, path) else {
            let names =
                [&self.authorize_url, &self.token_url].into_iter().flatten().cloned().collect::<Vec<_>>();
            return Err(format!("`{}` must be given", names.join("` and `")));
        };
        let wrong = |error: BaseUrlError| format!("`{server}` {error}");
        BaseUrl::parse(text(inputs, server), None).and_then(|base| base.join(path)).map_err(wrong)
    }
}

fn text<'i>(inputs: &'i Map, name: &str) -> &'i str {
    inputs.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the host of an address, with its port unless that is the default.
fn bare_host(address: &str) -> Option<String> {
    let base = BaseUrl::parse(address, None).ok()?;
    let host = base.url().host_str()?;
    Some(base.url().port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}
