//! Connection types that connectors declare, and connections resolved for use.

mod base;
mod describe;
mod given;
mod sigv4;
mod url_credentials;
mod vocabulary;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderName, HeaderValue, Method};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use indexmap::IndexMap;
use jiff::Timestamp;
use model::{ActionError, ErrorKind, InputSpec};
use serde::Serialize;
use url::Url;
use value::{Key, Map, Secret, Value};

use crate::http::header;
use crate::input;
use crate::oauth::session::{SessionConfig, TokenHeader};
use crate::oauth::{Flow, Gateway, OAuthClient, OAuthConfig, TokenSource};

pub use base::{BaseUrl, BaseUrlError};
use given::{first, given};
pub use sigv4::SigningKeys;
pub(crate) use sigv4::{SigV4Rule, Signer};
use url_credentials::UrlCredentials;
pub(crate) use vocabulary::Vocabulary;

/// A connection type of a connector: its inputs, and the rules that derive an address and credentials from them.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionType {
    /// The full name that `type:` takes, such as `wiki.basic`.
    pub name: String,
    /// A one-line description.
    pub title: String,
    /// Further notes for authors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its inputs, in the order in which an author fills them in.
    pub inputs: Vec<ConnectionInput>,
    #[serde(skip)]
    pub(crate) base: Base,
    #[serde(skip)]
    pub(crate) auth: Auth,
    /// The call that tests a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) test: Option<ConnectionTest>,
    /// Manifest terms, each with the input that names the service's term for it.
    #[serde(skip)]
    pub(crate) vocabulary: Vec<(String, String)>,
    /// The input that names the header with the service's request id, for its support.
    #[serde(skip)]
    pub(crate) request_id: Option<String>,
    /// The input, a map of texts, with headers that each request gets.
    #[serde(skip)]
    pub(crate) headers: Option<String>,
}

/// A call that tests a connection: an action of its connector, with inputs.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct ConnectionTest {
    /// The full name of the action, such as `wiki.listSpaces`.
    pub action: String,
    /// Its inputs.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Option<std::collections::HashMap<String, value::Json>>)]
    pub with: Map,
}

/// One input of a connection type.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionInput {
    /// Its name, type and meaning.
    #[serde(flatten)]
    pub spec: InputSpec,
    /// True if the value is never displayed, logged or stored.
    pub secret: bool,
}

/// The source of a connection's address.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    /// No address: no request goes out with the connection.
    None,
    /// All connections of the connector share this address.
    Fixed(BaseUrl),
    /// The input `name` holds the address; a trailing path equal to `strip` is removed.
    Input { name: String, strip: Option<String> },
}

/// The way credentials are sent. Of each list of input names, the first input that is set counts.
#[derive(Clone, Debug)]
pub(crate) enum Auth {
    None,
    Basic {
        user: Vec<String>,
        password: Vec<String>,
    },
    Bearer {
        token: Vec<String>,
    },
    Header(Vec<CredentialField>),
    Query(Vec<CredentialField>),
    /// A segment of the path, right after the connection's address.
    Path(CredentialField),
    OAuth2(Box<OAuthConfig>),
    /// A login that gives a token.
    Session(Box<SessionConfig>),
    /// A signature of each request.
    SigV4(Box<SigV4Rule>),
}

/// A credential in a field of the request. Of the input names, the first input that is set counts.
#[derive(Clone, Debug)]
pub(crate) struct CredentialField {
    /// The name of the header or parameter; without meaning in a path.
    pub(crate) name: FieldName,
    pub(crate) value: Vec<String>,
    /// The text before the value.
    pub(crate) prefix: String,
    /// True if the field is left out when no input is set.
    pub(crate) optional: bool,
}

/// The name of a field that carries a credential.
#[derive(Clone, Debug)]
pub(crate) enum FieldName {
    Fixed(String),
    /// The input with the name.
    Input(String),
}

/// A connection with evaluated inputs, ready for calls. It holds secrets, which its `Debug` hides.
#[derive(Clone, Debug)]
pub struct ResolvedConnection {
    /// The name that steps use.
    pub name: String,
    /// The type, such as `wiki.basic`.
    pub kind: String,
    /// The inputs by name, secrets wrapped in [`ConnectionValue::Secret`].
    pub values: IndexMap<Key, ConnectionValue>,
    base: BaseUrl,
    /// Headers of every request. Credentials are marked sensitive, so that `Debug` of a header value hides them too.
    own_headers: Vec<(HeaderName, HeaderValue)>,
    url_credentials: UrlCredentials,
    signer: Option<Arc<Signer>>,
    /// The OAuth 2.0 client that obtains its tokens; `None` for other types.
    oauth: Option<Arc<OAuthClient>>,
    gateway: Option<Gateway>,
    tokens: Option<Tokens>,
    token_header: TokenHeader,
    vocabulary: Vocabulary,
    request_id: Option<HeaderName>,
}

/// The source of the bearer token of each request; its `Debug` hides the token.
#[derive(Clone)]
struct Tokens(Arc<dyn TokenSource>);

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// The value of a connection's input.
#[derive(Clone, Debug, PartialEq)]
pub enum ConnectionValue {
    /// A value that may be displayed.
    Plain(Value),
    /// A value that must not be displayed.
    Secret(Secret),
}

impl ResolvedConnection {
    /// Returns the address to which the credentials are bound.
    #[must_use]
    pub fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// Returns the OAuth 2.0 client that obtains its tokens; `None` for other types.
    #[must_use]
    pub fn oauth(&self) -> Option<&Arc<OAuthClient>> {
        self.oauth.as_ref()
    }

    /// Sets the source of tokens, and replaces the address of the gateway by `base` if set.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Arc<dyn TokenSource>, base: Option<BaseUrl>) -> Self {
        self.tokens = Some(Tokens(tokens));
        if let Some(base) = base {
            self.base = base;
        }
        self
    }

    /// Binds the connection to an address, for which each of its requests is signed with these keys.
    #[must_use]
    pub fn signed(mut self, base: BaseUrl, keys: SigningKeys) -> Self {
        self.base = base;
        self.signer = Some(Arc::new(keys.into()));
        self
    }

    /// Returns an address below that of the connection with a signature in its query, with which anybody may send one request of
    /// this method until `expires` has passed. `None` if the connection signs nothing there.
    #[must_use]
    pub fn presigned(&self, method: &Method, url: &Url, expires: Duration, now: Timestamp) -> Option<Url> {
        Some(self.signer(url)?.presign(method, url, expires, now))
    }

    /// Returns the signer of requests to an address; `None` if it is not below the connection's address.
    pub(crate) fn signer(&self, url: &Url) -> Option<&Signer> {
        self.signer.as_deref().filter(|_| self.base.contains(url))
    }

    /// Returns the address to send a request to: with the credentials that belong into it, if it is below the connection's address.
    pub(crate) fn outgoing<'u>(&self, url: &'u Url) -> Cow<'u, Url> {
        if self.url_credentials.is_empty() || !self.base.contains(url) {
            return Cow::Borrowed(url);
        }
        Cow::Owned(self.url_credentials.add_to(&self.base, url))
    }

    /// Returns the terms in which the service differs from the manifest.
    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns the header with the service's request id; `None` if the connection names none.
    pub(crate) fn request_id(&self) -> Option<&HeaderName> {
        self.request_id.as_ref()
    }

    /// Returns the header that carries the token of each request.
    pub(crate) fn token_header(&self) -> &TokenHeader {
        &self.token_header
    }

    /// Returns the source of its tokens; `None` for other types.
    #[must_use]
    pub fn tokens(&self) -> Option<&dyn TokenSource> {
        self.tokens.as_ref().map(|tokens| &*tokens.0)
    }

    /// Returns the base address and the path of a request for `path`; the gateway has other paths for some of them.
    pub(crate) fn route<'p>(&'p self, path: &'p str) -> (&'p BaseUrl, &'p str) {
        let moved = self.gateway.as_ref().and_then(|gateway| {
            let (_, there) = gateway.paths.iter().find(|(here, _)| here == path)?;
            Some((&gateway.base, there.as_str()))
        });
        moved.unwrap_or((&self.base, path))
    }

    /// True if the connection sets this header, for credentials or otherwise.
    pub(crate) fn sends_header(&self, header: &HeaderName) -> bool {
        let is_token = self.tokens.is_some() && *header == self.token_header.name;
        is_token || self.own_headers.iter().any(|(name, _)| name == header)
    }

    /// Returns the headers of every request, with the credentials. Only the request builder and the recorder call this.
    pub(crate) fn own_headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.own_headers
    }

    /// Returns the secrets, to mask them in logs and stored data.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.values.values().filter_map(|value| match value {
            ConnectionValue::Secret(secret) => Some(secret),
            ConnectionValue::Plain(_) => None,
        })
    }
}

impl ConnectionType {
    /// Returns true if its requests go to a base URL: a system with a protocol of its own has none.
    #[must_use]
    pub fn has_base_url(&self) -> bool {
        !matches!(self.base, Base::None)
    }

    /// Returns the input called `name`.
    #[must_use]
    pub fn input(&self, name: &str) -> Option<&ConnectionInput> {
        self.inputs.iter().find(|input| input.spec.name == name)
    }

    /// Returns the manifest's inexpensive call that tests a connection of this type.
    #[must_use]
    pub fn test(&self) -> Option<&ConnectionTest> {
        self.test.as_ref()
    }

    /// True if connections of this type use tokens, which change over their lifetime.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        matches!(&self.auth, Auth::OAuth2(_) | Auth::Session(_))
    }

    /// True if a person must consent before a connection of this type is usable.
    #[must_use]
    pub fn needs_login(&self) -> bool {
        matches!(&self.auth, Auth::OAuth2(rule) if rule.flow == Flow::AuthorizationCode)
    }

    /// Returns the alternative inputs of which at least one must be set, such as `apiToken` and `password`. The list
    /// is empty if there is no such alternative.
    #[must_use]
    pub fn needs_one_of(&self) -> &[String] {
        let lists = match &self.auth {
            Auth::None | Auth::OAuth2(_) | Auth::Session(_) | Auth::SigV4(_) => return &[],
            Auth::Basic { password, .. } => password,
            Auth::Bearer { token } => token,
            Auth::Path(field) => &field.value,
            Auth::Header(fields) | Auth::Query(fields) => {
                let mut needed = fields.iter().filter(|field| !field.optional && field.value.len() > 1);
                needed.next().map_or(&[] as &[String], |field| &field.value)
            }
        };
        if lists.len() > 1 { lists } else { &[] }
    }

    /// Returns the problem of a header that the input `input` gives every request; `None` if HTTP carries it, or if the input holds
    /// no headers. `value` is `None` if it is not known before the run.
    #[must_use]
    pub fn header_problem(&self, input: &str, name: &str, value: Option<&Value>) -> Option<String> {
        let is_header = self.headers.as_deref() == Some(input);
        let placeholder = Value::from("");
        let error = is_header.then(|| header(name, value.unwrap_or(&placeholder)))?.err()?;
        Some(error.into_message())
    }

    /// Returns the base address if calls to `address` would leave it; `None` if they stay below it, or if the base is
    /// not known before the run. `given` returns the literal value of an input. Unless `is_whole`, only the host of
    /// `address` is known.
    pub fn base_if_outside<'v>(
        &self,
        given: &dyn Fn(&str) -> Option<&'v str>,
        address: &str,
        is_whole: bool,
    ) -> Option<String> {
        let base = match &self.base {
            Base::None => return None,
            Base::Fixed(base) => base.clone(),
            Base::Input { name, strip } => BaseUrl::parse(given(name)?, strip.as_deref()).ok()?,
        };
        let url = Url::parse(address).ok()?;
        let stays = if is_whole { base.contains(&url) } else { base.same_origin(&url) };
        (!stays).then(|| base.to_string())
    }

    /// Resolves a connection called `name` from evaluated inputs.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Connection`] if an input is missing, unknown or of the wrong type, if no credential is
    /// set, or if the address is invalid. No message contains a secret.
    pub fn resolve(&self, name: &str, inputs: &Map) -> Result<ResolvedConnection, ActionError> {
        let refuse = |words: String| {
            ActionError::new(
                ErrorKind::Connection,
                format!("the connection `{name}` cannot be used: {words}"),
            )
        };
        let specs: Vec<InputSpec> = self.inputs.iter().map(|input| input.spec.clone()).collect();
        let checked = input::check_fields(&specs, inputs).map_err(refuse)?;
        let base = match &self.base {
            Base::None => BaseUrl::none(),
            Base::Fixed(base) => base.clone(),
            Base::Input { name, strip } => {
                let text = checked.get(name).and_then(Value::as_str).unwrap_or_default();
                BaseUrl::parse(text, strip.as_deref()).map_err(|error| refuse(format!("`{name}` {error}")))?
            }
        };
        let (mut own_headers, url_credentials) = self.credentials(&checked).map_err(refuse)?;
        own_headers.extend(self.other_headers(&checked).map_err(refuse)?);
        let (oauth, gateway) = match &self.auth {
            Auth::OAuth2(rule) => {
                let client = rule.client(name, &checked, &base).map_err(refuse)?;
                (Some(Arc::new(client)), rule.gateway(&base))
            }
            Auth::Session(rule) => {
                (Some(Arc::new(rule.client(name, &checked, &base).map_err(refuse)?)), None)
            }
            _ => (None, None),
        };
        let signer = match &self.auth {
            Auth::SigV4(rule) => Some(Arc::new(rule.signer(&checked).map_err(refuse)?)),
            _ => None,
        };
        let text = |name: &String| checked.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let vocabulary =
            Vocabulary::new(self.vocabulary.iter().map(|(word, input)| (word.clone(), text(input))));
        let request_id = self.request_id.as_ref().map(|input| (input, text(input)));
        let request_id = request_id.filter(|(_, header)| !header.is_empty()).map(|(input, header)| {
            let wrong = || refuse(format!("`{input}` is not the name of a header"));
            HeaderName::from_bytes(header.as_bytes()).map_err(|_| wrong())
        });
        let request_id = request_id.transpose()?;
        let values = checked.into_iter().map(|(key, value)| {
            let is_secret = self.input(&key).is_some_and(|input| input.secret);
            let value = match value {
                Value::String(text) if is_secret => ConnectionValue::Secret(Secret::new(text)),
                other => ConnectionValue::Plain(other),
            };
            (key, value)
        });
        let (name, kind) = (name.to_owned(), self.name.clone());
        Ok(ResolvedConnection {
            name,
            kind,
            values: values.collect(),
            base,
            own_headers,
            url_credentials,
            signer,
            oauth,
            gateway,
            tokens: None,
            token_header: match &self.auth {
                Auth::Session(rule) => rule.send.clone(),
                _ => TokenHeader::bearer(),
            },
            vocabulary,
            request_id,
        })
    }

    /// The headers of [`ConnectionType::headers`], checked as those of a request are.
    fn other_headers(&self, inputs: &Map) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let Some(input) = &self.headers else { return Ok(Vec::new()) };
        let headers = inputs.get(input).and_then(Value::as_map).into_iter().flat_map(Map::iter);
        let checked = headers.map(|(name, value)| header(name, value));
        let checked = checked.collect::<Result<Vec<_>, _>>();
        checked.map_err(|error| format!("in `{input}`, {}", error.into_message()))
    }

    fn credentials(&self, inputs: &Map) -> Result<Credentials, String> {
        let header = |name: HeaderName, value: String| -> Result<Credentials, String> {
            Ok((vec![(name, secret_header(&value)?)], UrlCredentials::default()))
        };
        match &self.auth {
            Auth::None | Auth::OAuth2(_) | Auth::Session(_) | Auth::SigV4(_) => Ok(Credentials::default()),
            Auth::Basic { user, password } => {
                let (user, password) = (first(inputs, user)?, first(inputs, password)?);
                // RFC 7617, section 2: the first colon ends the user name.
                if user.contains(':') {
                    return Err(
                        "the user's name holds a `:`, which Basic authentication cannot carry".to_owned()
                    );
                }
                let pair = STANDARD.encode(format!("{user}:{password}"));
                header(::http::header::AUTHORIZATION, format!("Basic {pair}"))
            }
            Auth::Bearer { token } => {
                header(::http::header::AUTHORIZATION, format!("Bearer {}", first(inputs, token)?))
            }
            Auth::Header(fields) => {
                let fields = fields_of(fields, inputs)?.into_iter().map(|(name, value)| {
                    let header = HeaderName::from_bytes(name.as_bytes())
                        .map_err(|_| format!("`{name}` is not the name of a header"))?;
                    Ok((header, secret_header(&value)?))
                });
                Ok((fields.collect::<Result<_, String>>()?, UrlCredentials::default()))
            }
            Auth::Query(fields) => {
                let fields = fields_of(fields, inputs)?.into_iter();
                let query = fields.map(|(name, value)| (name, Secret::new(value))).collect();
                Ok((Vec::new(), UrlCredentials::query(query)))
            }
            Auth::Path(field) => {
                let text = format!("{}{}", field.prefix, first(inputs, &field.value)?);
                Ok((Vec::new(), UrlCredentials::segment(&text)?))
            }
        }
    }
}

/// The headers of each request, and the credentials in its address.
type Credentials = (Vec<(HeaderName, HeaderValue)>, UrlCredentials);

/// Returns the names and values of fields, without optional ones that are not set.
fn fields_of(fields: &[CredentialField], inputs: &Map) -> Result<Vec<(String, String)>, String> {
    let mut sent = Vec::new();
    for field in fields {
        if field.optional && given(inputs, &field.value).is_none() {
            continue;
        }
        let name = match &field.name {
            FieldName::Fixed(name) => name.clone(),
            FieldName::Input(input) => first(inputs, std::slice::from_ref(input))?.to_owned(),
        };
        sent.push((name, format!("{}{}", field.prefix, first(inputs, &field.value)?)));
    }
    Ok(sent)
}

fn secret_header(value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_bytes(value.as_bytes())
        .map_err(|_| "a credential holds a line break or another control character".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use model::InputType;
    use pretty_assertions::assert_eq;

    use super::*;

    fn input(name: &str, required: bool, secret: bool) -> ConnectionInput {
        let spec = InputSpec {
            name: name.to_owned(),
            kind: InputType::Text,
            required,
            default: None,
            description: None,
        };
        ConnectionInput { spec, secret }
    }

    fn basic() -> ConnectionType {
        ConnectionType {
            name: "wiki.basic".to_owned(),
            title: "Basic".to_owned(),
            description: None,
            inputs: vec![
                input("email", true, false),
                input("apiToken", false, true),
                input("password", false, true),
                input("host", true, false),
            ],
            base: Base::Input { name: "host".to_owned(), strip: Some("/wiki".to_owned()) },
            auth: Auth::Basic {
                user: vec!["email".to_owned()],
                password: vec!["apiToken".to_owned(), "password".to_owned()],
            },
            test: None,
            vocabulary: Vec::new(),
            request_id: None,
            headers: None,
        }
    }

    fn resolve(inputs: &[(&str, &str)]) -> Result<ResolvedConnection, String> {
        let inputs: Map = inputs.iter().map(|(key, value)| (*key, *value)).collect();
        basic().resolve("mainWiki", &inputs).map_err(ActionError::into_message)
    }

    #[test]
    fn the_first_credential_given_is_sent() {
        let header = |pairs: &[(&str, &str)]| {
            let connection = resolve(pairs).expect("it resolves");
            let (name, value) = &connection.own_headers()[0];
            assert_eq!(name, "authorization");
            assert!(value.is_sensitive());
            value.to_str().expect("text").to_owned()
        };
        let base = [("email", "a@b.c"), ("host", "x.example")];
        let token = header(&[base[0], base[1], ("apiToken", "t"), ("password", "p")]);
        assert_eq!(token, format!("Basic {}", STANDARD.encode("a@b.c:t")));
        let password = header(&[base[0], base[1], ("password", "p")]);
        assert_eq!(password, format!("Basic {}", STANDARD.encode("a@b.c:p")));
    }

    #[test]
    fn a_connection_without_credentials_names_the_accepted_ones() {
        let message = resolve(&[("email", "a@b.c"), ("host", "x.example")]).expect_err("no credential");
        assert_eq!(
            message,
            "the connection `mainWiki` cannot be used: one of `apiToken`, `password` must be given"
        );
        assert_eq!(basic().needs_one_of(), ["apiToken", "password"]);
    }

    #[test]
    fn no_secret_appears_in_debug_output_or_messages() {
        let token = "tok\r\nen-very-secret";
        let message = resolve(&[("email", "a@b.c"), ("host", "x.example"), ("apiToken", token)]);
        // Base64 hides the line break, so the connection is good; it must not show.
        let shown = format!("{:?}", message.expect("it resolves"));
        assert!(!shown.contains("very-secret"), "{shown}");
        assert!(!shown.contains(&STANDARD.encode(format!("a@b.c:{token}"))), "{shown}");
        let bearer = ConnectionType { auth: Auth::Bearer { token: vec!["apiToken".to_owned()] }, ..basic() };
        let inputs: Map = [("email", "a"), ("host", "x.example"), ("apiToken", token)].into_iter().collect();
        let error = bearer.resolve("c", &inputs).expect_err("a line break cannot be sent");
        assert!(!error.message.contains("very-secret"), "{}", error.message);
    }
}
