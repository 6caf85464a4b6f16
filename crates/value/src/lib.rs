//! The one value type that flows between triggers, expressions, actions and the store.
//!
//! A value is immutable and cheap to clone: lists, maps, texts and files are shared, never copied. Bytes have a type of their
//! own, [`File`], which JSON from outside cannot forge: the stored form escapes a key that looks like the marker of a file
//! (see [`Value::to_stored`]).
//!
//! A [`Budget`] bounds the work and the memory of evaluations; [`redact`] keeps secrets out of values.
//!
//! Modules, in reading order:
//!
//! * `map`: the map of a value
//! * `json`: the forms of a value in JSON
//! * `data`: bytes in memory or in a file of the store
//! * `blob_refs`: resolves stored references to files
//! * `encoded`: JSON with files that is made while it is read
//! * `sharing`: makes equal parts of a stored value one
//! * `estimate`: the memory of a value before it is parsed
//! * `budget`: the work and the memory of an evaluation
//! * `redact`: removes secrets from stored or displayed data
//! * `mime`: header parameters, charsets and file names
//! * `decimal`: exact decimal numbers
//! * `instant`: instants as people and services write them

mod data;
mod decimal;
mod encoded;
mod estimate;
mod json;
mod map;

mod blob_refs;
mod sharing;

pub mod budget;
pub mod instant;
pub mod mime;
pub mod redact;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;

pub use blob_refs::{BlobSource, collect_refs, with_source};
pub use budget::Budget;
pub use data::{
    Blob, CHUNK_SIZE, Data, ExternalBytes, FileLoadError, FileStorage, FileWriter, LoadMemory,
    MAX_LOADED_BYTES, MemoryFiles, MemoryHold, Reserved, damaged,
};
pub use decimal::{Decimal, DecimalError, MAX_DIGITS, Rounding};
pub use encoded::{encode_form, encode_json};
pub use estimate::memory_of_parts;
pub use json::{JsonError, JsonLimits, PublicForm, deserialize_present};
pub use map::{Key, Map};
pub use redact::Secret;
pub use sharing::with_sharing;

use self::budget::{ENTRY_MEMORY, ITEM_MEMORY};

/// A number: an integer of 64 bits, signed or not, or a finite float. Integers never pass through a float.
pub type Number = serde_json::Number;

/// A payload, a result, an input or a variable.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// JSON `null`.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text; a short one is stored inline.
    String(Key),
    /// A list, in order.
    List(Arc<List>),
    /// A map, in insertion order.
    Map(Arc<Map>),
    /// An exact number of one evaluation, which makes a text of it before it returns: no other component meets one.
    Decimal(Arc<Decimal>),
    /// Bytes with a content type. Only the webhook parser, a binary response or a file function creates one.
    File(Arc<File>),
}

/// The name under which schemas refer to a [`Value`].
pub type Json = Value;

impl utoipa::PartialSchema for Value {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let schema =
            utoipa::openapi::ObjectBuilder::new().schema_type(utoipa::openapi::schema::SchemaType::AnyValue);
        let description =
            "Any JSON value: data of a person or of another system, whose form Cogwork does not decide.";
        schema.description(Some(description)).into()
    }
}

impl utoipa::ToSchema for Value {
    fn name() -> Cow<'static, str> {
        "Json".into()
    }
}

/// The items of a [`Value::List`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List(pub Vec<Value>);

/// Bytes with their metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The media type, such as `image/png`.
    pub content_type: Arc<str>,
    /// The file name that the sender gave. It is data, never a path.
    pub filename: Option<Arc<str>>,
    /// The bytes, in memory or in a file of the store.
    pub data: Data,
}

impl File {
    /// The bytes as text: for a text type in the encoding of its byte-order mark or its charset, else in UTF-8. `None` if they are
    /// invalid in it, or not in memory.
    #[must_use]
    pub fn text(&self) -> Option<Cow<'_, str>> {
        let bytes = self.data.in_memory()?;
        // Some servers name a charset for every type, so only that of a text type counts.
        if mime::is_text(&self.content_type) {
            let charset = mime::charset(&self.content_type);
            if charset.is_some() || std::str::from_utf8(bytes).is_err() {
                return mime::decode_exact(bytes, charset);
            }
        }
        std::str::from_utf8(bytes).ok().map(Cow::Borrowed)
    }

    /// Loads the bytes into `memory`. Blocks if they are external.
    ///
    /// # Errors
    /// As [`Data::load`].
    pub fn load(&self, max: usize, memory: &dyn LoadMemory) -> Result<Self, FileLoadError> {
        let data = Data::InMemory(self.data.load(max, memory)?);
        Ok(Self { content_type: self.content_type.clone(), filename: self.filename.clone(), data })
    }
}

impl Value {
    /// The member `key` of a map, or of a file (`contentType`, `filename`, `size`, `sha256`, `data`). `None` if there is none.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value> {
        match self {
            Self::Map(map) => map.get(key).cloned(),
            Self::File(file) => match key {
                "contentType" => Some(Self::from(file.content_type.clone())),
                "filename" => Some(file.filename.clone().map_or(Self::Null, Self::from)),
                "size" => Some(Self::from(file.data.len())),
                "sha256" => Some(Self::from(hex::encode(file.data.digest()))),
                // `rawBody` and `rawBody.data` both read the bytes (semantics 3.2).
                "data" => Some(self.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The item at `index`; a negative index counts from the end.
    #[must_use]
    pub fn at(&self, index: i64) -> Option<&Value> {
        let Self::List(list) = self else { return None };
        let length = i64::try_from(list.0.len()).ok()?;
        let index = if index < 0 { index.checked_add(length)? } else { index };
        list.0.get(usize::try_from(index).ok()?)
    }

    /// The value at a dotted path below this one, such as `body.data.id`; `None` if a key is missing.
    #[must_use]
    pub fn path(&self, path: &str) -> Option<Value> {
        path.split('.').try_fold(self.clone(), |value, key| value.get(key))
    }

    /// The text; `None` if this is not a text.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The map; `None` if this is not a map.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map> {
        if let Self::Map(map) = self { Some(map) } else { None }
    }

    /// The items; `None` if this is not a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Value]> {
        if let Self::List(list) = self { Some(&list.0) } else { None }
    }

    /// The file; `None` if this is not a file.
    #[must_use]
    pub fn as_file(&self) -> Option<&Arc<File>> {
        if let Self::File(file) = self { Some(file) } else { None }
    }

    /// The boolean; `None` if this is not one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// The integer; `None` if this is not a number of 64 signed bits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Number(number) = self { number.as_i64() } else { None }
    }

    /// True if this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The name of the value's type for messages: `null`, `boolean`, `number`, `text`, `list`, `map`, `decimal`, `file`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "text",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Decimal(_) => "decimal",
            Self::File(_) => "file",
        }
    }

    /// True if a condition with this value holds. `false`, `null`, zero and empty values are false.
    #[must_use]
    pub fn is_truthy(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(value) => *value,
            Self::Number(number) => number.as_f64().is_none_or(|float| float != 0.0),
            Self::String(text) => !text.is_empty(),
            Self::List(list) => !list.0.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Decimal(number) => !number.is_zero(),
            Self::File(file) => !file.data.is_empty(),
        }
    }

    /// The approximate size of this value as JSON, in bytes. Counting stops above `limit`.
    #[must_use]
    pub fn estimated_size(&self, limit: usize) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 4,
            Self::Number(_) => 8,
            Self::Decimal(_) => usize::from(MAX_DIGITS) + 4,
            Self::String(text) => text.len() + 2,
            // An external file is a reference of about this size.
            Self::File(file) => file.data.in_memory().map_or(128, bytes::Bytes::len) + 64,
            Self::List(list) => sum_sizes(list.0.iter().map(|item| (0, item)), limit),
            Self::Map(map) => sum_sizes(map.iter().map(|(key, item)| (key.len() + 3, item)), limit),
        }
    }

    /// The approximate memory that this value takes, in bytes: what a [`Budget`](crate::Budget) charges for it.
    #[must_use]
    pub fn estimated_memory(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Decimal(_) => 0,
            Self::String(text) => text.len(),
            Self::File(file) => file.data.in_memory().map_or(0, bytes::Bytes::len),
            Self::List(list) => list.0.iter().map(|item| ITEM_MEMORY + item.estimated_memory()).sum(),
            Self::Map(map) => {
                map.iter().map(|(key, item)| ENTRY_MEMORY + key.len() + item.estimated_memory()).sum()
            }
        }
    }

    /// The value as text: a text unchanged, `null` empty, lists and maps as JSON, a file as its text or base64.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::String(text) => text.to_string(),
            Self::Null => String::new(),
            Self::Decimal(number) => number.to_string(),
            Self::File(file) => match file.data.in_memory() {
                Some(bytes) => file.text().map_or_else(|| json::base64(bytes), Cow::into_owned),
                None => json::file_to_json(file),
            },
            other => other.to_json(),
        }
    }

    /// True if this value is or contains a file in memory of at least `min` bytes.
    #[must_use]
    pub fn has_file_in_memory(&self, min: usize) -> bool {
        match self {
            Self::File(file) => file.data.in_memory().is_some_and(|bytes| bytes.len() >= min),
            Self::List(list) => list.0.iter().any(|item| item.has_file_in_memory(min)),
            Self::Map(map) => map.iter().any(|(_, item)| item.has_file_in_memory(min)),
            _ => false,
        }
    }

    /// True if this value is or contains a file whose bytes are external.
    #[must_use]
    pub fn has_external_file(&self) -> bool {
        match self {
            Self::File(file) => file.data.is_external(),
            Self::List(list) => list.0.iter().any(Self::has_external_file),
            Self::Map(map) => map.iter().any(|(_, value)| value.has_external_file()),
            _ => false,
        }
    }

    /// The bytes of the external files in this value, each as often as it occurs.
    #[must_use]
    pub fn external_bytes(&self) -> usize {
        match self {
            Self::File(file) if file.data.is_external() => file.data.len(),
            Self::List(list) => list.0.iter().map(Self::external_bytes).fold(0, usize::saturating_add),
            Self::Map(map) => {
                map.iter().map(|(_, value)| value.external_bytes()).fold(0, usize::saturating_add)
            }
            _ => 0,
        }
    }

    /// Loads the bytes of every file in this value into `memory`, for consumers that need all of them. Blocks if a file is
    /// external. [`encode_json`] makes JSON without loading them.
    ///
    /// # Errors
    /// Returns an error if the external files together have more than `max` bytes or than `memory`, or one cannot be read.
    pub fn load_files(&self, max: usize, memory: &dyn LoadMemory) -> Result<Self, FileLoadError> {
        if !self.has_external_file() {
            return Ok(self.clone());
        }
        let mut remaining = max;
        self.load_within(max, &mut remaining, memory)
    }

    /// Writes every in-memory file of `min` bytes or more to `storage`, and returns the value with external files in their
    /// stead. Blocks.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn externalize_files(&self, min: usize, storage: &dyn FileStorage) -> io::Result<Self> {
        match self {
            Self::File(file) => match file.data.in_memory() {
                Some(bytes) if bytes.len() >= min => {
                    let mut file_writer = storage.create()?;
                    file_writer.write(bytes)?;
                    Ok(Self::from(File { data: file_writer.finish()?, ..File::clone(file) }))
                }
                _ => Ok(self.clone()),
            },
            Self::List(list) => list.0.iter().map(|item| item.externalize_files(min, storage)).collect(),
            Self::Map(map) => {
                let mut changed = Map::clone(map);
                for (key, value) in map.iter() {
                    if let Some(slot) = changed.get_mut(key) {
                        *slot = value.externalize_files(min, storage)?;
                    }
                }
                Ok(Self::from(changed))
            }
            plain => Ok(plain.clone()),
        }
    }

    fn load_within(
        &self,
        max: usize,
        remaining: &mut usize,
        memory: &dyn LoadMemory,
    ) -> Result<Self, FileLoadError> {
        match self {
            Self::File(file) if file.data.is_external() => {
                let bytes = file.data.len();
                *remaining = remaining
                    .checked_sub(bytes)
                    .ok_or(FileLoadError::TooLarge { bytes: bytes as u64, max: max as u64 })?;
                Ok(Self::from(file.load(bytes, memory)?))
            }
            Self::List(list) => list.0.iter().map(|item| item.load_within(max, remaining, memory)).collect(),
            Self::Map(map) => {
                let mut loaded = Map::clone(map);
                for (key, value) in map.iter().filter(|(_, value)| value.has_external_file()) {
                    let value = value.load_within(max, remaining, memory)?;
                    if let Some(slot) = loaded.get_mut(key) {
                        *slot = value;
                    }
                }
                Ok(Self::from(loaded))
            }
            plain => Ok(plain.clone()),
        }
    }
}

fn sum_sizes<'a>(items: impl Iterator<Item = (usize, &'a Value)>, limit: usize) -> usize {
    let mut sum = 2_usize;
    for (key, item) in items {
        sum = sum.saturating_add(key + 1).saturating_add(item.estimated_size(limit));
        if sum > limit {
            break;
        }
    }
    sum
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_text())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Number(value.into())
    }
}
impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Number(value.into())
    }
}
impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Number(value.into())
    }
}
impl From<u16> for Value {
    fn from(value: u16) -> Self {
        Self::Number(value.into())
    }
}
impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Number(value.into())
    }
}
impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Number(value.into())
    }
}
impl From<f64> for Value {
    /// Converts a float; NaN and the infinities, which JSON does not have, become `null`.
    fn from(value: f64) -> Self {
        Number::from_f64(value).map_or(Self::Null, Self::Number)
    }
}
impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}
impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}
impl From<Arc<str>> for Value {
    fn from(text: Arc<str>) -> Self {
        Self::String(text.into())
    }
}
impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::List(Arc::new(List(items)))
    }
}
impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(Arc::new(map))
    }
}
impl From<File> for Value {
    fn from(file: File) -> Self {
        Self::File(Arc::new(file))
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
impl FromIterator<Value> for Value {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        Self::from(items.into_iter().collect::<Vec<_>>())
    }
}
