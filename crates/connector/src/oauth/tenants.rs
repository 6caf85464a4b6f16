//! The sites that a token gives access to, if a provider serves several behind one gateway.

use ::http::{HeaderValue, Method};
use model::{ActionError, ErrorKind};
use serde::{Deserialize, Serialize};
use value::redact::Redactor;
use value::{Secret, Value};

use super::{OAuthClient, excerpt};
use crate::connection::BaseUrl;
use crate::http::{Http, Request, encode};

/// The largest number of sites that an error lists.
const MAX_LISTED_SITES: usize = 20;

/// The address of the list of sites, and the choice among them.
#[derive(Clone, Debug)]
pub(crate) struct SiteSelection {
    pub(crate) gateway: BaseUrl,
    /// The path of the list.
    pub(crate) list: String,
    /// The path of a site below the gateway, up to its id: `/ex/wiki/`.
    pub(crate) path: String,
    /// The product's name in scopes, which selects its entries of the list.
    pub(crate) product: String,
    /// The name or the address of the chosen site; if empty, the first site counts.
    pub(crate) choice: String,
}

/// A site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The id in the gateway's paths.
    pub id: String,
    /// The display name.
    pub name: String,
    /// The site's own address.
    pub url: String,
}

impl OAuthClient {
    /// Looks up the site that requests go to; `None` if the client has no sites.
    ///
    /// # Errors
    /// Returns an error if the list cannot be read, is empty, or does not contain the chosen site.
    pub async fn find_site(&self, http: &Http, token: &Secret) -> Result<Option<Site>, ActionError> {
        let Some(sites) = &self.sites else { return Ok(None) };
        let url = sites.gateway.join(&sites.list).map_err(|error| self.refuse(error.to_string()))?;
        let mut request = Request::new(Method::GET, url);
        request.max_response = Some(super::RESPONSE_BYTES);
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .map_err(|_| self.refuse("the token cannot be sent".to_owned()))?;
        bearer.set_sensitive(true);
        request.headers.insert(::http::header::AUTHORIZATION, bearer);
        let response = http.send(&request, &self.context()).await?;
        if !response.status.is_success() {
            if let Some(error) = self.unusual_answer(&response, http.timer().now()) {
                return Err(error);
            }
            let status = response.status.as_u16();
            let message =
                format!("the connection `{}`: the list of sites was refused with {status}", self.connection);
            return Err(ActionError::new(ErrorKind::Connection, message).with_status(status));
        }
        let listed = response.json().map_err(|_| self.refuse("the list of sites is not JSON".to_owned()))?;
        self.choose(sites, listed.as_list().unwrap_or_default(), &http.options().redactor).map(Some)
    }

    /// Returns the address of a site behind the gateway.
    ///
    /// # Errors
    /// Returns an error if the id does not form a valid address.
    pub fn site_base(&self, site: &Site) -> Result<Option<BaseUrl>, ActionError> {
        let Some(sites) = &self.sites else { return Ok(None) };
        let text = format!("{}{}{}", sites.gateway, sites.path, encode(&site.id));
        BaseUrl::parse(&text, None)
            .map(Some)
            .map_err(|error| self.refuse(format!("the site's address {error}")))
    }

    /// Returns a text that identifies the choice of a site. A changed choice requires a new lookup.
    #[must_use]
    pub fn site_choice(&self) -> String {
        self.sites.as_ref().map_or_else(String::new, |sites| format!("{} {}", sites.gateway, sites.choice))
    }

    fn choose(
        &self,
        sites: &SiteSelection,
        listed: &[Value],
        redactor: &Redactor,
    ) -> Result<Site, ActionError> {
        // The list may contain a site once per product, with the same id.
        let entries = listed.iter().filter(|entry| is_of_product(entry, &sites.product));
        let candidates: Vec<Site> = entries.filter_map(parse_site).collect();
        if candidates.is_empty() {
            let words = "its account has no site; let somebody invite it, or connect with another account";
            return Err(self.refuse(words.to_owned()));
        }
        let same = |text: &str| {
            text.trim().trim_end_matches('/').eq_ignore_ascii_case(sites.choice.trim().trim_end_matches('/'))
        };
        let chosen = match sites.choice.trim() {
            "" => candidates.first(),
            _ => candidates.iter().find(|site| same(&site.name) || same(&site.url)),
        };
        chosen.cloned().ok_or_else(|| {
            let mut names: Vec<String> = candidates
                .iter()
                .take(MAX_LISTED_SITES)
                .map(|site| format!("`{}` ({})", excerpt(&site.name, redactor), excerpt(&site.url, redactor)))
                .collect();
            names.dedup();
            self.refuse(format!(
                "there is no site `{}`; its account can reach {}",
                sites.choice,
                names.join(", ")
            ))
        })
    }
}

fn is_of_product(entry: &Value, product: &str) -> bool {
    let scopes = entry.get("scopes");
    match scopes.as_ref().and_then(Value::as_list) {
        Some(scopes) => scopes.iter().filter_map(Value::as_str).any(|scope| scope.contains(product)),
        None => true,
    }
}

fn parse_site(entry: &Value) -> Option<Site> {
    let text = |name: &str| entry.get(name).and_then(|value| value.as_str().map(str::to_owned));
    let id = text("id").filter(|id| !id.is_empty())?;
    Some(Site { id, name: text("name").unwrap_or_default(), url: text("url").unwrap_or_default() })
}
