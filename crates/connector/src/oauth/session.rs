//! Sessions: a login that gives a token for further requests, at services without OAuth.

use std::time::Duration;

use ::http::{HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use model::{ActionError, ErrorKind};
use value::{Map, Secret, Value};

use crate::http::value_at_path;
use crate::manifest::put::put;

/// The `session` section of a manifest.
#[derive(Clone, Debug)]
pub(crate) struct SessionConfig {
    pub(crate) method: Method,
    /// The path of the login below the address of the connection.
    pub(crate) path: String,
    /// The inputs of the connection with their places.
    pub(crate) inputs: Vec<(String, SessionPlace)>,
    /// True if the login is a form rather than JSON.
    pub(crate) is_form: bool,
    pub(crate) token: TokenPlace,
    /// The path in the answer to the end of the session: seconds from now, or an instant.
    pub(crate) expires: Option<String>,
    /// The header of further requests with the token, and the text before it.
    pub(crate) send: TokenHeader,
}

/// The place of an input in a login.
#[derive(Clone, Debug)]
pub(crate) enum SessionPlace {
    Body(Vec<String>),
    Header(HeaderName),
}

/// The place of the token in the answer to a login.
#[derive(Clone, Debug)]
pub(crate) enum TokenPlace {
    Body(String),
    Header(HeaderName),
}

/// The header that carries a token.
#[derive(Clone, Debug)]
pub(crate) struct TokenHeader {
    pub(crate) name: HeaderName,
    /// The text before the token.
    pub(crate) prefix: String,
}

impl TokenHeader {
    /// The header of bearer tokens (RFC 6750).
    pub(crate) fn bearer() -> Self {
        Self { name: ::http::header::AUTHORIZATION, prefix: "Bearer ".to_owned() }
    }

    /// Returns the value of the header for a token.
    ///
    /// # Errors
    /// Returns an error if a header cannot carry the token.
    pub(crate) fn value(&self, token: &Secret) -> Result<HeaderValue, ActionError> {
        let value = HeaderValue::from_str(&format!("{}{}", self.prefix, token.expose()));
        let mut value = value.map_err(|_| {
            ActionError::new(ErrorKind::Connection, "the token that was issued cannot be sent in a header")
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// A login with evaluated inputs. Its `Debug` hides them.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(super) method: Method,
    pub(super) is_form: bool,
    pub(super) body: Vec<(Vec<String>, Secret)>,
    pub(super) headers: Vec<(HeaderName, Secret)>,
    pub(super) token: TokenPlace,
    pub(super) expires: Option<String>,
}

impl Login {
    /// Returns the media type and the text of the body; `None` for a login without one.
    pub(super) fn body(&self) -> Option<(&'static str, String)> {
        if self.is_form {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            form.extend_pairs(self.body.iter().map(|(path, value)| (path.join("."), value.expose())));
            return Some(("application/x-www-form-urlencoded", form.finish()));
        }
        let mut body = Map::new();
        self.body.iter().for_each(|(path, value)| put(&mut body, path, Value::from(value.expose())));
        (!body.is_empty()).then(|| ("application/json", Value::from(body).to_json()))
    }

    /// Returns the token in an answer with the time until its end. `header` returns the text of a header.
    ///
    /// # Errors
    /// Returns a message if the answer has no token.
    pub(super) fn token(
        &self,
        body: Option<&Value>,
        header: &dyn Fn(&str) -> Option<String>,
        now: Timestamp,
    ) -> Result<(Secret, Option<Duration>), String> {
        let at = |path: &str| value_at_path(body?, path);
        let (token, place) = match &self.token {
            TokenPlace::Body(path) => (at(path).map(|token| token.to_text()), format!("under `{path}`")),
            TokenPlace::Header(name) => (header(name.as_str()), format!("in the header `{name}`")),
        };
        let token = token.filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| format!("the answer to its login has no token {place}"))?;
        let lasts = self.expires.as_deref().and_then(at).and_then(|end| lifetime(&end, now));
        Ok((Secret::new(token), lasts))
    }
}

/// The time until the end of a session: from a number of seconds, or from an instant.
fn lifetime(end: &Value, now: Timestamp) -> Option<Duration> {
    match end {
        Value::String(text) if text.parse::<Timestamp>().is_ok() => {
            Duration::try_from(text.parse::<Timestamp>().ok()?.duration_since(now)).ok()
        }
        number => Duration::try_from_secs_f64(number.to_text().parse().ok()?).ok(),
    }
}
