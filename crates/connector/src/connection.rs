//! Connection types as connectors declare them, and connections ready for use.

mod base;
mod words;

use std::fmt;
use std::sync::Arc;

use ::http::{HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use indexmap::IndexMap;
use model::value::Key;
use model::{ActionError, ErrorKind, InputSpec, Map, Secret, Value};
use serde::Serialize;

use crate::input;
use crate::oauth::{Flow, Gateway, OAuthClient, OAuthRule, TokenSource};

pub use base::{BaseUrl, BaseUrlError};
pub(crate) use words::Words;

/// A kind of connection that a connector declares: its inputs, and how they become an address and credentials.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionType {
    /// The full name that `type:` takes, such as `wiki.basic`.
    pub name: String,
    /// What it is, in one line.
    pub title: String,
    /// What else an author should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its inputs, in the order an author would fill them.
    pub inputs: Vec<ConnectionInput>,
    #[serde(skip)]
    pub(crate) base: Base,
    #[serde(skip)]
    pub(crate) auth: Auth,
    /// The call that shows whether a connection works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) test: Option<ConnectionTest>,
    /// Words of the manifest, each with the input that says what the service calls it.
    #[serde(skip)]
    pub(crate) words: Vec<(String, String)>,
    /// The input with the name of the header by which the service's support finds a request.
    #[serde(skip)]
    pub(crate) request_id: Option<String>,
}

/// A call that shows whether a connection works: an action of its connector, with inputs.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionTest {
    /// The full name of the action, such as `wiki.listSpaces`.
    pub action: String,
    /// Its inputs.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub with: Map,
}

/// One input of a connection type.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionInput {
    /// Its name, type and meaning.
    #[serde(flatten)]
    pub spec: InputSpec,
    /// Whether its value is never shown, logged or stored.
    pub secret: bool,
}

/// Where the address of a connection comes from.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    /// The connector has one address for everybody.
    Fixed(BaseUrl),
    /// This input names it; a path that it may end in is taken away.
    Input { name: String, strip: Option<String> },
}

/// How credentials are sent. Each list names inputs of which the first that is given counts.
#[derive(Clone, Debug)]
pub(crate) enum Auth {
    None,
    Basic { user: Vec<String>, password: Vec<String> },
    Bearer { token: Vec<String> },
    Header { name: AuthHeader, value: Vec<String>, prefix: String },
    Granted(Box<OAuthRule>),
}

/// The name of the header that carries a credential.
#[derive(Clone, Debug)]
pub(crate) enum AuthHeader {
    Fixed(HeaderName),
    Input(String),
}

/// A connection whose inputs have been evaluated: what calls are made with. Holds secrets; its `Debug` hides them.
#[derive(Clone, Debug)]
pub struct ResolvedConnection {
    /// The name that steps use.
    pub name: String,
    /// The type, such as `wiki.basic`.
    pub kind: String,
    /// The inputs by name, secrets sealed.
    pub values: IndexMap<Key, ConnectionValue>,
    base: BaseUrl,
    /// Marked sensitive, so that their `Debug` hides them too.
    credentials: Vec<(HeaderName, HeaderValue)>,
    /// What gives its tokens, for one of a type with OAuth 2.0.
    oauth: Option<Arc<OAuthClient>>,
    gateway: Option<Gateway>,
    tokens: Option<Tokens>,
    words: Words,
    request_id: Option<HeaderName>,
}

/// What gives the token of each request.
#[derive(Clone)]
struct Tokens(Arc<dyn TokenSource>);

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// A value of a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum ConnectionValue {
    /// One that may be shown.
    Plain(Value),
    /// One that may not.
    Secret(Secret),
}

impl ResolvedConnection {
    /// The address that the credentials are bound to.
    #[must_use]
    pub fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// What gives its tokens, for one of a type with OAuth 2.0.
    #[must_use]
    pub fn oauth(&self) -> Option<&Arc<OAuthClient>> {
        self.oauth.as_ref()
    }

    /// The connection with tokens, and where its requests go to another address than the gateway's, with that.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Arc<dyn TokenSource>, base: Option<BaseUrl>) -> Self {
        self.tokens = Some(Tokens(tokens));
        if let Some(base) = base {
            self.base = base;
        }
        self
    }

    /// The words that its service calls otherwise than the manifest does.
    pub(crate) fn words(&self) -> &Words {
        &self.words
    }

    /// The header by which its service's support finds a request, if it is one of its own.
    pub(crate) fn request_id(&self) -> Option<&HeaderName> {
        self.request_id.as_ref()
    }

    pub(crate) fn tokens(&self) -> Option<&dyn TokenSource> {
        self.tokens.as_ref().map(|tokens| &*tokens.0)
    }

    /// The address and the path for what a site has at `path`: behind a gateway some paths have another name.
    pub(crate) fn place<'p>(&'p self, path: &'p str) -> (&'p BaseUrl, &'p str) {
        let moved = self.gateway.as_ref().and_then(|gateway| {
            let (_, there) = gateway.paths.iter().find(|(here, _)| here == path)?;
            Some((&gateway.base, there.as_str()))
        });
        moved.unwrap_or((&self.base, path))
    }

    /// Whether its credentials come in this header.
    pub(crate) fn sets(&self, header: &HeaderName) -> bool {
        let bearer = self.tokens.is_some() && header == ::http::header::AUTHORIZATION;
        bearer || self.credentials.iter().any(|(name, _)| name == header)
    }

    /// The headers that carry the credentials; only the request builder asks for them.
    pub(crate) fn credentials(&self) -> &[(HeaderName, HeaderValue)] {
        &self.credentials
    }

    /// The secrets, for whoever masks them in what is logged or stored.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.values.values().filter_map(|value| match value {
            ConnectionValue::Secret(secret) => Some(secret),
            ConnectionValue::Plain(_) => None,
        })
    }
}

impl ConnectionType {
    /// The input called `name`.
    #[must_use]
    pub fn input(&self, name: &str) -> Option<&ConnectionInput> {
        self.inputs.iter().find(|input| input.spec.name == name)
    }

    /// The manifest's cheap call that shows whether a connection of this type works.
    #[must_use]
    pub fn test(&self) -> Option<&ConnectionTest> {
        self.test.as_ref()
    }

    /// Whether its connections are given tokens, which change while they are used.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        matches!(&self.auth, Auth::Granted(_))
    }

    /// Whether somebody has to consent before a connection of this type can be used.
    #[must_use]
    pub fn needs_login(&self) -> bool {
        matches!(&self.auth, Auth::Granted(rule) if rule.flow == Flow::AuthorizationCode)
    }

    /// The inputs of which at least one must be given although none is required by itself, such as `apiToken` and
    /// `password`; empty if there are no such.
    #[must_use]
    pub fn needs_one_of(&self) -> &[String] {
        let lists = match &self.auth {
            Auth::None | Auth::Granted(_) => return &[],
            Auth::Basic { password, .. } => password,
            Auth::Bearer { token } => token,
            Auth::Header { value, .. } => value,
        };
        if lists.len() > 1 { lists } else { &[] }
    }

    /// The base address of a connection of this type, where calls to `address` would leave it. `given` has the inputs that
    /// are written out; nothing is said where the base is not among them. Unless `is_whole`, only the host is known.
    pub fn leaves<'v>(
        &self,
        given: &dyn Fn(&str) -> Option<&'v str>,
        address: &str,
        is_whole: bool,
    ) -> Option<String> {
        let base = match &self.base {
            Base::Fixed(base) => base.clone(),
            Base::Input { name, strip } => BaseUrl::parse(given(name)?, strip.as_deref()).ok()?,
        };
        let url = url::Url::parse(address).ok()?;
        let stays = if is_whole { base.holds(&url) } else { base.same_origin(&url) };
        (!stays).then(|| base.to_string())
    }

    /// Makes a connection called `name` of evaluated inputs.
    ///
    /// # Errors
    /// [`ErrorKind::Connection`]: an input is missing, unknown or of the wrong type, no credential is given, or the
    /// address cannot be one. No message holds a secret.
    pub fn resolve(&self, name: &str, inputs: &Map) -> Result<ResolvedConnection, ActionError> {
        let refuse = |words: String| {
            ActionError::new(
                ErrorKind::Connection,
                format!("the connection `{name}` cannot be used: {words}"),
            )
        };
        let specs: Vec<InputSpec> = self.inputs.iter().map(|input| input.spec.clone()).collect();
        let checked = input::fields_of(&specs, inputs).map_err(refuse)?;
        let base = match &self.base {
            Base::Fixed(base) => base.clone(),
            Base::Input { name, strip } => {
                let text = checked.get(name).and_then(Value::as_str).unwrap_or_default();
                BaseUrl::parse(text, strip.as_deref()).map_err(|error| refuse(format!("`{name}` {error}")))?
            }
        };
        let credentials = self.credentials(&checked).map_err(refuse)?;
        let (oauth, gateway) = match &self.auth {
            Auth::Granted(rule) => {
                let client = rule.client(name, &checked, &base).map_err(refuse)?;
                (Some(Arc::new(client)), rule.gateway(&base))
            }
            _ => (None, None),
        };
        let text = |name: &String| checked.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let words = Words::new(self.words.iter().map(|(word, input)| (word.clone(), text(input))));
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
            credentials,
            oauth,
            gateway,
            tokens: None,
            words,
            request_id,
        })
    }

    fn credentials(&self, inputs: &Map) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let first = |names: &[String]| {
            let given =
                names.iter().filter_map(|name| inputs.get(name)?.as_str()).find(|text| !text.is_empty());
            given.ok_or_else(|| match names {
                [one] => format!("`{one}` is empty"),
                several => format!("one of `{}` must be given", several.join("`, `")),
            })
        };
        let (name, value) = match &self.auth {
            Auth::None | Auth::Granted(_) => return Ok(Vec::new()),
            Auth::Basic { user, password } => {
                let (user, password) = (first(user)?, first(password)?);
                // RFC 7617, section 2: the first colon ends the user's name.
                if user.contains(':') {
                    return Err(
                        "the user's name holds a `:`, which Basic authentication cannot carry".to_owned()
                    );
                }
                let pair = STANDARD.encode(format!("{user}:{password}"));
                (::http::header::AUTHORIZATION, format!("Basic {pair}"))
            }
            Auth::Bearer { token } => (::http::header::AUTHORIZATION, format!("Bearer {}", first(token)?)),
            Auth::Header { name, value, prefix } => {
                let name = match name {
                    AuthHeader::Fixed(name) => name.clone(),
                    AuthHeader::Input(input) => {
                        let text = inputs.get(input).and_then(Value::as_str).unwrap_or_default();
                        HeaderName::from_bytes(text.as_bytes())
                            .map_err(|_| format!("`{input}` is not the name of a header"))?
                    }
                };
                (name, format!("{prefix}{}", first(value)?))
            }
        };
        let mut value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| "a credential holds a line break or another control character".to_owned())?;
        value.set_sensitive(true);
        Ok(vec![(name, value)])
    }
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
            words: Vec::new(),
            request_id: None,
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
            let (name, value) = &connection.credentials()[0];
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
    fn a_connection_without_any_credential_says_which_would_do() {
        let message = resolve(&[("email", "a@b.c"), ("host", "x.example")]).expect_err("no credential");
        assert_eq!(
            message,
            "the connection `mainWiki` cannot be used: one of `apiToken`, `password` must be given"
        );
        assert_eq!(basic().needs_one_of(), ["apiToken", "password"]);
    }

    #[test]
    fn no_secret_shows_in_debug_or_in_a_message() {
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
