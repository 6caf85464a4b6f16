//! Removal of credentials from recordings.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::Value;
use url::Url;

use super::super::Context;
use super::super::debug::{MASK, is_sensitive};
use super::super::request::{decode, encode};

/// Shorter secrets are not masked, because they would match too often.
const MIN_SECRET: usize = 4;

/// Replaces secrets by `***`: known secrets anywhere, and every value under a sensitive name.
#[derive(Debug, Default)]
pub(super) struct Mask {
    /// All encodings in which a secret may be sent, the longest first.
    forms: Vec<String>,
}

impl Mask {
    /// Adds a secret.
    pub(super) fn hide(&mut self, secret: &str) {
        if secret.len() < MIN_SECRET {
            return;
        }
        let escaped = Value::from(secret).to_string();
        let forms = [
            secret.to_owned(),
            encode(secret),
            secret.replace(' ', "+"),
            escaped[1..escaped.len() - 1].to_owned(),
            STANDARD.encode(secret),
            STANDARD_NO_PAD.encode(secret),
            URL_SAFE.encode(secret),
            URL_SAFE_NO_PAD.encode(secret),
        ];
        for form in forms {
            if !self.forms.contains(&form) {
                self.forms.push(form);
            }
        }
        // One form may contain another.
        self.forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    }

    /// Adds the secrets and the credential headers of the connection.
    pub(super) fn hide_all(&mut self, context: &Context<'_>) {
        let Some(connection) = context.connection else { return };
        for secret in connection.secrets() {
            self.hide(secret.expose());
        }
        for (_, value) in connection.credentials() {
            if let Ok(value) = value.to_str() {
                self.hide(value.split_once(' ').map_or(value, |(_, credential)| credential));
            }
        }
    }

    /// Masks a text.
    pub(super) fn text(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for form in &self.forms {
            if masked.contains(form.as_str()) {
                masked = masked.replace(form.as_str(), MASK);
            }
        }
        masked
    }

    /// Masks a value under a name.
    pub(super) fn named(&self, name: &str, value: &str) -> String {
        if is_sensitive(name) { MASK.to_owned() } else { self.text(value) }
    }

    /// Masks an address.
    pub(super) fn url(&self, url: &Url) -> String {
        let mut bare = url.clone();
        bare.set_query(None);
        let mut shown = self.text(bare.as_str());
        if let Some(query) = url.query() {
            shown.push('?');
            shown.push_str(&self.pairs(query));
        }
        shown
    }

    /// Masks the pairs of a query or a form.
    pub(super) fn pairs(&self, pairs: &str) -> String {
        let pairs = pairs.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) if is_sensitive(&decode(name)) => format!("{name}={MASK}"),
            _ => self.text(pair),
        });
        pairs.collect::<Vec<_>>().join("&")
    }

    /// Masks JSON: texts under a sensitive name, and known secrets anywhere.
    pub(super) fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.json(item)).collect(),
            Value::Object(entries) => {
                let entries = entries.into_iter().map(|(key, value)| {
                    let value = match value {
                        Value::String(text) if is_sensitive(&key) && !text.is_empty() => Value::from(MASK),
                        other => self.json(other),
                    };
                    (key, value)
                });
                Value::Object(entries.collect())
            }
            plain => plain,
        }
    }
}
