//! One version of a secret.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use value::Secret;
use zeroize::Zeroizing;

/// The field that stands for the whole, of a secret that has fields.
const WHOLE: &str = "value";

/// One version of a secret: a text, fields, or both. Its `Debug` shows no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedSecret {
    text: Option<Secret>,
    fields: BTreeMap<String, Secret>,
    /// The version in the provider's terms; `None` if it has none.
    pub version: Option<String>,
    /// The time for which the provider lends it; `None` if that has no end.
    pub lease: Option<Duration>,
}

impl ProvidedSecret {
    /// Creates a secret from a text. The members of a JSON object are its fields too.
    #[must_use]
    pub fn from_text(text: Secret) -> Self {
        let fields: BTreeMap<String, Value> = match text.expose().trim_start().starts_with('{') {
            true => serde_json::from_str(text.expose()).unwrap_or_default(),
            false => BTreeMap::new(),
        };
        Self { text: Some(text), ..Self::from_fields(fields) }
    }

    /// Creates a secret from fields. Its text is the field `value`, or else the only field.
    pub(super) fn from_fields(fields: impl IntoIterator<Item = (String, Value)>) -> Self {
        let fields: BTreeMap<String, Secret> =
            fields.into_iter().map(|(name, value)| (name, field(value))).collect();
        let only = fields.values().next().filter(|_| fields.len() == 1);
        let text = fields.get(WHOLE).or(only).cloned();
        Self { text, fields, version: None, lease: None }
    }

    /// Returns the same secret with the provider's version.
    #[must_use]
    pub fn with_version(self, version: Option<String>) -> Self {
        Self { version, ..self }
    }

    /// Returns the text; `None` if it has several fields, and none of them is `value`.
    #[must_use]
    pub fn text(&self) -> Option<&Secret> {
        self.text.as_ref()
    }

    /// Returns the fields by name; empty if it is a plain text.
    #[must_use]
    pub fn fields(&self) -> &BTreeMap<String, Secret> {
        &self.fields
    }

    /// Returns the text and each field.
    pub fn values(&self) -> impl Iterator<Item = &Secret> {
        self.text.iter().chain(self.fields.values())
    }

    /// Returns true if both have the same values.
    #[must_use]
    pub fn has_values_of(&self, other: &Self) -> bool {
        self.text == other.text && self.fields == other.fields
    }
}

/// Returns the text of a field: a string as it is, anything else as JSON. The parsed string is cleared.
fn field(value: Value) -> Secret {
    let text = match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Secret::new(&*Zeroizing::new(text))
}

/// A secret in an answer.
pub(super) struct FieldText(pub(super) Secret);

impl<'de> Deserialize<'de> for FieldText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(field(Value::String(text))))
    }
}
