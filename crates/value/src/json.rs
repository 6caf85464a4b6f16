//! JSON forms of a value: the public form, and the stored form, which distinguishes files from maps of the same shape.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Data, ExternalBytes, File, Key, List, Map, Number, Value, blob_refs, sharing};

/// The marker key of a file in the stored form. A map from outside with this key, or with more `$` before it, is stored
/// with one `$` more, so no JSON can forge a file.
const FILE_KEY: &str = "$file";
/// The marker key of a case-insensitive map in the stored form.
const HEADERS_KEY: &str = "$headers";

/// Limits for JSON from outside. The defaults are those of the threat model, section 4.2.
#[derive(Clone, Copy, Debug)]
pub struct JsonLimits {
    /// Maximum nesting of lists and maps.
    pub depth: usize,
    /// Maximum number of keys and items in all.
    pub nodes: usize,
}

impl Default for JsonLimits {
    fn default() -> Self {
        Self { depth: 64, nodes: 250_000 }
    }
}

/// An error in a JSON text, or a JSON text over its limits.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(#[from] serde_json::Error);

impl Value {
    /// Parses JSON from outside, within `limits`. The result contains no file.
    ///
    /// # Errors
    /// Returns an error if the text is not one JSON value or exceeds `limits`.
    pub fn from_json(text: &[u8], limits: JsonLimits) -> Result<Self, JsonError> {
        let mut nodes = limits.nodes;
        let seed = BoundedJson { depth: limits.depth, nodes: &mut nodes };
        let mut reader = serde_json::Deserializer::from_slice(text);
        let value = seed.deserialize(&mut reader)?;
        reader.end()?;
        Ok(value)
    }

    /// This value as JSON in the public form; a file is `{contentType, filename, size, encoding, data}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(&PublicForm(self)).unwrap_or_else(|_| "null".to_owned())
    }

    /// As [`Value::to_json`], indented.
    #[must_use]
    pub fn to_json_pretty(&self) -> String {
        serde_json::to_string_pretty(&PublicForm(self)).unwrap_or_else(|_| "null".to_owned())
    }

    /// Writes the form of [`Value::to_json`], indented if `pretty` is true.
    ///
    /// # Errors
    /// Returns an error if the writer fails.
    pub fn write_json(&self, writer: impl std::io::Write, pretty: bool) -> serde_json::Result<()> {
        if pretty {
            serde_json::to_writer_pretty(writer, &PublicForm(self))
        } else {
            serde_json::to_writer(writer, &PublicForm(self))
        }
    }

    /// This value as a `serde_json` value in the public form.
    #[must_use]
    pub fn to_serde(&self) -> serde_json::Value {
        serde_json::to_value(PublicForm(self)).unwrap_or_default()
    }

    /// Converts plain JSON data; no map becomes a file.
    #[must_use]
    pub fn from_serde(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::Number(number) => Self::Number(number),
            serde_json::Value::String(text) => Self::from(text),
            serde_json::Value::Array(items) => items.into_iter().map(Self::from_serde).collect(),
            serde_json::Value::Object(entries) => Self::from(
                entries.into_iter().map(|(key, value)| (key, Self::from_serde(value))).collect::<Map>(),
            ),
        }
    }

    /// The stored form, which [`Value::from_stored`] reads back exactly, files included.
    ///
    /// Does not fail in practice: every value has a JSON form.
    /// None in practice: a value always has a JSON form.
    pub fn to_stored(&self) -> Result<String, JsonError> {
        Ok(serde_json::to_string(self)?)
    }

    /// Reads the form that [`Value::to_stored`] writes.
    ///
    /// # Errors
    /// Returns an error if the text is not of the stored form.
    pub fn from_stored(text: &str) -> Result<Self, JsonError> {
        Ok(serde_json::from_str(text)?)
    }
}

pub(super) fn base64(data: &[u8]) -> String {
    STANDARD.encode(data)
}

/// The public form of a file.
pub(super) fn file_to_json(file: &File) -> String {
    serde_json::to_string(&StoredFile::new(file)).unwrap_or_else(|_| "null".to_owned())
}

/// Serializes a value in the public form, as [`Value::to_json`] does.
#[derive(Debug)]
pub struct PublicForm<'a>(pub &'a Value);

impl Serialize for PublicForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Number(number) => number.serialize(serializer),
            Value::String(text) => serializer.serialize_str(text),
            Value::List(list) => serializer.collect_seq(list.0.iter().map(PublicForm)),
            Value::Map(map) => {
                serializer.collect_map(map.iter().map(|(key, value)| (key, PublicForm(value))))
            }
            Value::Decimal(number) => serializer.collect_str(number),
            Value::File(file) => StoredFile::new(file).serialize(serializer),
        }
    }
}

/// Serializes the stored form.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::List(list) => {
                let mut items = serializer.serialize_seq(Some(list.0.len()))?;
                for item in &list.0 {
                    items.serialize_element(item)?;
                }
                items.end()
            }
            Self::Map(map) => map.serialize(serializer),
            Self::File(file) => {
                let mut entries = serializer.serialize_map(Some(1))?;
                entries.serialize_entry(FILE_KEY, &StoredFile::new(file))?;
                entries.end()
            }
            plain => PublicForm(plain).serialize(serializer),
        }
    }
}

/// Serializes the stored form.
impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.ignores_case {
            let mut wrapper = serializer.serialize_map(Some(1))?;
            wrapper.serialize_entry(HEADERS_KEY, &Entries(self))?;
            return wrapper.end();
        }
        Entries(self).serialize(serializer)
    }
}

/// Serializes the entries of a map, without the marker of a case-insensitive one.
struct Entries<'a>(&'a Map);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entries = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in self.0.iter() {
            if is_marker_key(key) {
                entries.serialize_entry(&format!("${key}"), value)?;
            } else {
                entries.serialize_entry(key, value)?;
            }
        }
        entries.end()
    }
}

fn is_marker_key(key: &str) -> bool {
    key.starts_with('$') && matches!(key.trim_start_matches('$'), "file" | "headers")
}

/// A file as JSON: text if the bytes are UTF-8, base64 if not; external bytes as a reference by hash.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FileValue)]
struct StoredFile<'a> {
    /// The media type; empty if it is unknown.
    content_type: Arc<str>,
    /// The name that the sender gave.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    filename: Option<Arc<str>>,
    /// The number of bytes.
    size: u64,
    encoding: Encoding,
    /// The bytes in that encoding; absent if they are `kept`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    data: Option<std::borrow::Cow<'a, str>>,
    /// The digest of bytes that are `kept`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    sha256: Option<String>,
    /// The stored file that these bytes are a part of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    part_of: Option<PartOf>,
}

impl utoipa::PartialSchema for File {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        StoredFile::schema()
    }
}

impl utoipa::ToSchema for File {
    fn name() -> std::borrow::Cow<'static, str> {
        StoredFile::name()
    }

    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        StoredFile::schemas(schemas);
    }
}

/// The blob that an external file is a range of, and the offset of the range.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
struct PartOf {
    /// The digest of the stored file.
    sha256: String,
    /// Its number of bytes.
    size: u64,
    /// The offset of the range.
    at: u64,
}

/// The encoding of the bytes: text, base64, or absent, since the store keeps them in a separate file.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = FileEncoding)]
enum Encoding {
    Utf8,
    Base64,
    #[serde(rename = "kept")]
    External,
}

impl<'a> StoredFile<'a> {
    fn new(file: &'a File) -> Self {
        let (content_type, filename) = (file.content_type.clone(), file.filename.clone());
        let size = file.data.len() as u64;
        match &file.data {
            Data::InMemory(bytes) => {
                let (encoding, data) = match std::str::from_utf8(bytes) {
                    Ok(text) => (Encoding::Utf8, text.into()),
                    Err(_) => (Encoding::Base64, base64(bytes).into()),
                };
                Self { content_type, filename, size, encoding, data: Some(data), sha256: None, part_of: None }
            }
            Data::External(external) => {
                blob_refs::record(external);
                let whole = external.blob();
                let is_part = external.offset() > 0 || size != whole.length();
                let part_of = is_part.then(|| PartOf {
                    sha256: hex::encode(whole.digest()),
                    size: whole.length(),
                    at: external.offset(),
                });
                let sha256 = Some(hex::encode(file.data.digest()));
                Self {
                    content_type,
                    filename,
                    size,
                    encoding: Encoding::External,
                    data: None,
                    sha256,
                    part_of,
                }
            }
        }
    }

    fn into_file<E: de::Error>(self) -> Result<File, E> {
        let text = self.data.map(std::borrow::Cow::into_owned);
        let text = || text.ok_or_else(|| E::missing_field("data"));
        let data = match self.encoding {
            Encoding::Utf8 => Data::from(text()?),
            Encoding::Base64 => Data::from(STANDARD.decode(text()?.as_bytes()).map_err(E::custom)?),
            Encoding::External => {
                let digest = parse_digest::<E>(&self.sha256.ok_or_else(|| E::missing_field("sha256"))?)?;
                let external = match self.part_of {
                    None => Some(ExternalBytes::new(blob_refs::resolve(digest, self.size))),
                    Some(PartOf { sha256, size, at }) => {
                        let whole = blob_refs::resolve(parse_digest::<E>(&sha256)?, size);
                        ExternalBytes::slice_of(whole, at, self.size, digest)
                    }
                };
                Data::from(external.ok_or_else(|| E::custom("a part of a file that lies beyond its end"))?)
            }
        };
        Ok(File { content_type: self.content_type, filename: self.filename, data })
    }
}

fn parse_digest<E: de::Error>(text: &str) -> Result<[u8; 32], E> {
    let mut digest = [0; 32];
    hex::decode_to_slice(text, &mut digest).map_err(E::custom)?;
    Ok(digest)
}

/// Deserializes the stored form.
impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StoredVisitor)
    }
}

/// Deserializes a field that may be missing, so that a present `null` is `Some(Value::Null)`.
pub fn deserialize_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Deserializes the stored form.
impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Map(map) => Ok(Arc::unwrap_or_clone(map)),
            other => Err(de::Error::custom(format_args!("expected a map, found a {}", other.kind()))),
        }
    }
}

/// The visitor methods for scalars, which both forms share.
macro_rules! visit_scalars {
    () => {
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a JSON value")
        }
        fn visit_unit<E>(self) -> Result<Value, E> {
            Ok(Value::Null)
        }
        fn visit_none<E>(self) -> Result<Value, E> {
            Ok(Value::Null)
        }
        fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
            Ok(Value::Bool(value))
        }
        fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
            Ok(Value::from(value))
        }
        fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
            Ok(Value::from(value))
        }
        fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
            Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
        }
        fn visit_str<E>(self, text: &str) -> Result<Value, E> {
            Ok(Value::from(text))
        }
        fn visit_string<E>(self, text: String) -> Result<Value, E> {
            Ok(Value::from(text))
        }
    };
}

struct StoredVisitor;

impl<'de> Visitor<'de> for StoredVisitor {
    type Value = Value;
    visit_scalars!();

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::with_capacity(access.size_hint().unwrap_or(0).min(1024));
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(sharing::share(Value::from(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<Key>()? {
            if *key == *FILE_KEY {
                let file: StoredFile<'_> = access.next_value()?;
                return Ok(Value::from(file.into_file()?));
            }
            let value = access.next_value::<Value>()?;
            if *key == *HEADERS_KEY {
                match value {
                    Value::Map(headers) => {
                        let mut headers = Arc::unwrap_or_clone(headers);
                        headers.ignores_case = true;
                        return Ok(Value::from(headers));
                    }
                    // Written by a version that did not know this marker.
                    other => map.insert(key, other),
                };
                continue;
            }
            map.insert(if is_marker_key(&key) { key[1..].into() } else { key }, value);
        }
        Ok(sharing::share(Value::from(map)))
    }
}

/// Deserializes JSON from outside, within limits; every JSON object becomes a map.
struct BoundedJson<'a> {
    depth: usize,
    nodes: &'a mut usize,
}

impl BoundedJson<'_> {
    fn nested<E: de::Error>(&mut self) -> Result<BoundedJson<'_>, E> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| E::custom("lists and maps nest too deep"))?;
        Ok(BoundedJson { depth, nodes: self.nodes })
    }

    fn count<E: de::Error>(&mut self) -> Result<(), E> {
        *self.nodes = self.nodes.checked_sub(1).ok_or_else(|| E::custom("too many keys and items"))?;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for BoundedJson<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BoundedJson<'_> {
    type Value = Value;
    visit_scalars!();

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self.nested()?)? {
            self.count()?;
            items.push(item);
        }
        Ok(Value::from(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<Key>()? {
            self.count()?;
            map.insert(key, access.next_value_seed(self.nested()?)?);
        }
        Ok(Value::from(map))
    }
}

impl Serialize for List {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let file = (any::<Vec<u8>>(), "[a-z]{1,5}/[a-z]{1,5}", proptest::option::of("[a-z.]{1,9}")).prop_map(
            |(data, content_type, filename)| {
                Value::from(File {
                    content_type: content_type.into(),
                    filename: filename.map(Into::into),
                    data: data.into(),
                })
            },
        );
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            file,
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let key = prop_oneof!["[a-z]{1,4}", "\\${1,3}file", "\\${1,3}headers"];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::vec((key, inner), 0..5)
                    .prop_map(|entries| Value::from(entries.into_iter().collect::<Map>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_stored_form_round_trips(value in any_value()) {
            let stored = value.to_stored().expect("a value has a stored form");
            prop_assert_eq!(Value::from_stored(&stored).expect("it reads back"), value);
        }

        #[test]
        fn external_json_never_contains_a_file(value in any_value()) {
            fn holds_file(value: &Value) -> bool {
                match value {
                    Value::File(_) => true,
                    Value::List(list) => list.0.iter().any(holds_file),
                    Value::Map(map) => map.iter().any(|(_, value)| holds_file(value)),
                    _ => false,
                }
            }
            let stored = value.to_stored().expect("a value has a stored form");
            let read = Value::from_json(stored.as_bytes(), JsonLimits::default()).expect("it is JSON");
            prop_assert!(!holds_file(&read));
        }
    }

    #[test]
    fn deserialized_headers_are_looked_up_case_insensitively() {
        let mut headers = Map::headers();
        headers.insert("x-shop", "7");
        headers.insert("$headers", Value::Null);
        let value = Value::from([("all", Value::from(headers))].into_iter().collect::<Map>());
        let stored = value.to_stored().expect("a value has a stored form");
        let read = Value::from_stored(&stored).expect("it reads back");
        assert_eq!(read, value);
        assert_eq!(read.path("all.X-Shop"), Some(Value::from("7")));
        assert_eq!(read.to_json(), r#"{"all":{"x-shop":"7","$headers":null}}"#);
        let posed = Value::from_json(stored.as_bytes(), JsonLimits::default()).expect("it is JSON");
        let posed = Value::from_stored(&posed.to_stored().expect("it is stored")).expect("it reads back");
        assert_eq!(posed.path("all.X-Shop"), None, "JSON cannot pose as headers either");
    }

    #[test]
    fn integers_beyond_float_precision_stay_exact() {
        let text = b"[9007199254740993,18446744073709551615,-9223372036854775808]";
        let value = Value::from_json(text, JsonLimits::default()).expect("it is JSON");
        assert_eq!(value.to_json().as_bytes(), text);
    }

    #[test]
    fn json_deeper_or_larger_than_its_limits_is_rejected() {
        let limits = JsonLimits { depth: 3, nodes: 4 };
        assert!(Value::from_json(b"[[[1]]]", limits).is_ok());
        assert!(Value::from_json(b"[[[[1]]]]", limits).is_err());
        assert!(Value::from_json(b"[1,2,3,4]", limits).is_ok());
        assert!(Value::from_json(b"[1,2,3,4,5]", limits).is_err());
        assert!(Value::from_json(b"[1] x", limits).is_err());
    }
}
