//! The one value type that flows between triggers, expressions, actions and the store.
//!
//! A value is immutable and cheap to clone: lists, maps, texts and files are shared, never copied. Bytes are a
//! type of their own, [`File`], that JSON from outside can never pose as: the stored form escapes a key that
//! would look like one (see [`Value::to_stored`]).

mod data;
mod jinja;
mod json;
mod map;

mod shelf;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use data::{Content, Data, Files, InMemory, Kept, MOST_WHOLE, NewFile, NotWhole, PIECE, damaged};
pub(crate) use json::given;
pub use json::{JsonError, JsonLimits};
pub use map::{Key, Map};
pub use shelf::{Shelf, naming, reading_from};

/// A number: an integer of 64 bits, signed or not, or a finite float. Integers never pass through a float.
pub type Number = serde_json::Number;

/// Anything a payload, a result, an input or a variable can be.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Nothing.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text: a short one in place, since most are.
    String(Key),
    /// A list, in order.
    List(Arc<List>),
    /// Names with values, in the order they were written.
    Map(Arc<Map>),
    /// Bytes with a content type; made only by the webhook parser, a binary answer or a file function.
    File(Arc<File>),
}

/// The items of a [`Value::List`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List(pub Vec<Value>);

/// Bytes with what is known of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The media type, such as `image/png`.
    pub content_type: Arc<str>,
    /// The name the sender gave it: data, never a path.
    pub filename: Option<Arc<str>>,
    /// The bytes themselves, in memory or kept outside of it.
    pub data: Data,
}

impl File {
    /// The bytes as text if they are UTF-8, and in memory.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.data.here()?).ok()
    }

    /// This file in memory. Blocks where it is kept outside.
    ///
    /// # Errors
    /// It is kept outside and has more than `most` bytes, or cannot be read.
    pub fn loaded(&self, most: usize) -> Result<Self, NotWhole> {
        let data = Data::Here(self.data.whole(most)?);
        Ok(Self { content_type: self.content_type.clone(), filename: self.filename.clone(), data })
    }
}

impl Value {
    /// The member `key` of a map, or of a file (`contentType`, `filename`, `size`, `sha256`, `data`).
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

    /// The item at `index`; negative counts from the end.
    #[must_use]
    pub fn at(&self, index: i64) -> Option<&Value> {
        let Self::List(list) = self else { return None };
        let length = i64::try_from(list.0.len()).ok()?;
        let index = if index < 0 { index.checked_add(length)? } else { index };
        list.0.get(usize::try_from(index).ok()?)
    }

    /// The value at a dotted path below this one, such as `body.data.id`; `None` where a step is missing.
    #[must_use]
    pub fn path(&self, path: &str) -> Option<Value> {
        path.split('.').try_fold(self.clone(), |value, key| value.get(key))
    }

    /// The text, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The map, if this is one.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map> {
        if let Self::Map(map) = self { Some(map) } else { None }
    }

    /// The items, if this is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Value]> {
        if let Self::List(list) = self { Some(&list.0) } else { None }
    }

    /// The file, if this is one.
    #[must_use]
    pub fn as_file(&self) -> Option<&Arc<File>> {
        if let Self::File(file) = self { Some(file) } else { None }
    }

    /// The truth value, if this is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// The integer, if this is one of 64 signed bits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Number(number) = self { number.as_i64() } else { None }
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// What kind of value this is, in the words of messages: `null`, `boolean`, `number`, `text`, `list`, `map`, `file`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "text",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::File(_) => "file",
        }
    }

    /// Whether a condition over this value holds: `false`, `null`, zero and anything empty do not.
    #[must_use]
    pub fn is_true(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(value) => *value,
            Self::Number(number) => number.as_f64().is_none_or(|float| float != 0.0),
            Self::String(text) => !text.is_empty(),
            Self::List(list) => !list.0.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::File(file) => !file.data.is_empty(),
        }
    }

    /// About how many bytes this value takes as JSON; counting stops once it is over `limit`.
    #[must_use]
    pub fn weight(&self, limit: usize) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 4,
            Self::Number(_) => 8,
            Self::String(text) => text.len() + 2,
            // What is kept outside is named, not held.
            Self::File(file) => file.data.here().map_or(128, bytes::Bytes::len) + 64,
            Self::List(list) => weigh(list.0.iter().map(|item| (0, item)), limit),
            Self::Map(map) => weigh(map.iter().map(|(key, item)| (key.len() + 3, item)), limit),
        }
    }

    /// What this value becomes inside text: a text is itself, `null` is empty, lists and maps are JSON, a file is its text or base64.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::String(text) => text.to_string(),
            Self::Null => String::new(),
            Self::File(file) => match file.data.here() {
                Some(bytes) => file.text().map_or_else(|| json::base64(bytes), str::to_owned),
                None => json::outside_of(file),
            },
            other => other.to_json(),
        }
    }

    /// Whether a file that is kept outside is in it.
    #[must_use]
    pub fn holds_kept(&self) -> bool {
        match self {
            Self::File(file) => file.data.is_kept(),
            Self::List(list) => list.0.iter().any(Self::holds_kept),
            Self::Map(map) => map.iter().any(|(_, value)| value.holds_kept()),
            _ => false,
        }
    }

    /// This value with every file in memory, for whoever needs their bytes: as text, inside JSON, in code. Blocks where one
    /// is kept outside.
    ///
    /// # Errors
    /// Those that are kept outside have more than `most` bytes together, or cannot be read.
    pub fn loaded(&self, most: usize) -> Result<Self, NotWhole> {
        if !self.holds_kept() {
            return Ok(self.clone());
        }
        let mut left = most;
        self.load(most, &mut left)
    }

    /// This value with every file in it that is in memory and has `least` bytes or more among `files`. Blocks.
    ///
    /// # Errors
    /// One cannot be written.
    pub fn set_aside(&self, least: usize, files: &dyn Files) -> io::Result<Self> {
        match self {
            Self::File(file) => match file.data.here() {
                Some(bytes) if bytes.len() >= least => {
                    let mut new = files.begin()?;
                    new.write(bytes)?;
                    Ok(Self::from(File { data: new.finish()?, ..File::clone(file) }))
                }
                _ => Ok(self.clone()),
            },
            Self::List(list) => list.0.iter().map(|item| item.set_aside(least, files)).collect(),
            Self::Map(map) => {
                let mut changed = Map::clone(map);
                for (key, value) in map.iter() {
                    if let Some(place) = changed.get_mut(key) {
                        *place = value.set_aside(least, files)?;
                    }
                }
                Ok(Self::from(changed))
            }
            plain => Ok(plain.clone()),
        }
    }

    fn load(&self, most: usize, left: &mut usize) -> Result<Self, NotWhole> {
        match self {
            Self::File(file) if file.data.is_kept() => {
                let bytes = file.data.len();
                *left = left
                    .checked_sub(bytes)
                    .ok_or(NotWhole::TooLarge { bytes: bytes as u64, most: most as u64 })?;
                Ok(Self::from(file.loaded(bytes)?))
            }
            Self::List(list) => list.0.iter().map(|item| item.load(most, left)).collect(),
            Self::Map(map) => {
                let mut loaded = Map::clone(map);
                for (key, value) in map.iter().filter(|(_, value)| value.holds_kept()) {
                    let value = value.load(most, left)?;
                    if let Some(place) = loaded.get_mut(key) {
                        *place = value;
                    }
                }
                Ok(Self::from(loaded))
            }
            plain => Ok(plain.clone()),
        }
    }
}

fn weigh<'a>(items: impl Iterator<Item = (usize, &'a Value)>, limit: usize) -> usize {
    let mut sum = 2_usize;
    for (key, item) in items {
        sum = sum.saturating_add(key + 1).saturating_add(item.weight(limit));
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
    /// A float; one that JSON cannot hold (NaN, infinities) becomes `null`.
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
