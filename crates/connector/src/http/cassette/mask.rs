//! Removal of credentials from recordings.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::Value;
use url::Url;
use value::redact::MASK;

use super::super::RequestContext;
use super::super::debug::is_sensitive;
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
    pub(super) fn add_secret(&mut self, secret: &str) {
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
    pub(super) fn add_connection_secrets(&mut self, context: &RequestContext<'_>) {
        let Some(connection) = context.connection else { return };
        for secret in connection.secrets() {
            self.add_secret(secret.expose());
        }
        for (_, value) in connection.own_headers().iter().filter(|(_, value)| value.is_sensitive()) {
            if let Ok(value) = value.to_str() {
                self.add_secret(value.split_once(' ').map_or(value, |(_, credential)| credential));
            }
        }
    }

    /// Masks a text.
    pub(super) fn mask_text(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for form in &self.forms {
            if masked.contains(form.as_str()) {
                masked = masked.replace(form.as_str(), MASK);
            }
        }
        masked
    }

    /// Masks a value under a name.
    pub(super) fn mask_named(&self, name: &str, value: &str) -> String {
        if is_sensitive(name) { MASK.to_owned() } else { self.mask_text(value) }
    }

    /// Masks an address.
    pub(super) fn mask_url(&self, url: &Url) -> String {
        let mut bare = url.clone();
        bare.set_query(None);
        let mut shown = self.mask_text(bare.as_str());
        if let Some(query) = url.query() {
            shown.push('?');
            shown.push_str(&self.mask_pairs(query));
        }
        shown
    }

    /// Masks the pairs of a query or a form.
    pub(super) fn mask_pairs(&self, pairs: &str) -> String {
        let pairs = pairs.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) if is_sensitive(&decode(name)) => format!("{name}={MASK}"),
            _ => self.mask_text(pair),
        });
        pairs.collect::<Vec<_>>().join("&")
    }

    /// Masks JSON: texts under a sensitive name, and known secrets anywhere.
    pub(super) fn mask_json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.mask_text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.mask_json(item)).collect(),
            Value::Object(entries) => {
                let entries = entries.into_iter().map(|(key, value)| {
                    let value = match value {
                        Value::String(text) if is_sensitive(&key) && !text.is_empty() => Value::from(MASK),
                        other => self.mask_json(other),
                    };
                    (key, value)
                });
                Value::Object(entries.collect())
            }
            plain => plain,
        }
    }
}
