//! Content properties: one set of routes for pages, attachments and custom content.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::ApiError;
use super::model::{Kept, Parent, Property, Status, Version};
use super::pages::{next_number, parse_version};
use super::paging::{DEFAULT_PAGE, Order, OrderValue, Slice, page_of};
use super::query::Query;
use super::shapes::{Included, LARGEST_INCLUDED, PropertyShape};
use super::state::State;
use super::users::{Right, Who};

/// The largest value of a property, in bytes of JSON, documented by the vendor.
pub(super) const LARGEST_VALUE_BYTES: usize = 32_768;
/// The properties that the platform adds to a page by itself, some time after its creation.
const PLATFORM_PROPERTIES: [(&str, &str); 2] =
    [("editor", "\"v2\""), ("content-appearance-published", "\"full-width\"")];

/// The body of a create or an update.
#[derive(Debug)]
pub(super) struct PropertyInput {
    key: Option<String>,
    value: Option<Box<RawValue>>,
    version: Option<(i64, String)>,
}

/// The fields whose text matters; the version is read apart.
#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    key: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    value: Option<Box<RawValue>>,
}

/// A `null` is a value like any other, so presence is told apart from it.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

impl PropertyInput {
    /// Reads the JSON of a create or an update.
    ///
    /// # Errors
    /// 400 for what is not a JSON object, a key that is missing or empty, a value that is missing or above 32 KB.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        let not_json = |error| ApiError::bad_request(format!("The body is not valid JSON: {error}"));
        let whole: Value = serde_json::from_slice(bytes).map_err(not_json)?;
        if !whole.is_object() {
            return Err(ApiError::bad_request("The body must be a JSON object"));
        }
        let fields: Fields = serde_json::from_slice(bytes).map_err(not_json)?;
        let key = match fields.key {
            None | Some(Value::Null) => None,
            Some(Value::String(key)) => Some(key),
            Some(_) => return Err(ApiError::bad_request("'key' must be a string")),
        };
        if fields.value.as_ref().is_some_and(|value| value.get().len() > LARGEST_VALUE_BYTES) {
            return Err(ApiError::bad_request(format!(
                "'value' is larger than {LARGEST_VALUE_BYTES} bytes of JSON"
            )));
        }
        Ok(Self { key, value: fields.value, version: parse_version(&whole)? })
    }

    fn key(&self) -> Result<&str, ApiError> {
        self.key
            .as_deref()
            .filter(|key| !key.is_empty())
            .ok_or_else(|| ApiError::bad_request("'key' is required"))
    }

    fn value(&self) -> Result<Box<RawValue>, ApiError> {
        self.value.clone().ok_or_else(|| ApiError::bad_request("'value' is required"))
    }
}

impl State {
    /// Creates a property; 409 when the parent has one with this key.
    pub(super) fn create_property(
        &mut self,
        who: &Who,
        parent: Parent,
        input: &PropertyInput,
    ) -> Result<PropertyShape, ApiError> {
        self.property_parent(who, parent, Right::Edit)?;
        self.settle_platform_properties(parent);
        let (key, value) = (input.key()?, input.value()?);
        if self.properties_of(parent).any(|kept| kept.get().key == key) {
            return Err(ApiError::conflict(format!(
                "A content property with the key '{key}' already exists"
            )));
        }
        let id = self.insert_property(&who.account_id, parent, key, value);
        self.property_of(parent, id).map(PropertyShape::from)
    }

    /// One property by its id.
    pub(super) fn get_property(
        &mut self,
        who: &Who,
        parent: Parent,
        id: u64,
    ) -> Result<PropertyShape, ApiError> {
        self.property_parent(who, parent, Right::View)?;
        self.settle_platform_properties(parent);
        self.property_of(parent, id).map(PropertyShape::from)
    }

    /// Replaces the value of a property; the version sent must be the next one.
    pub(super) fn update_property(
        &mut self,
        who: &Who,
        parent: Parent,
        id: u64,
        input: &PropertyInput,
    ) -> Result<PropertyShape, ApiError> {
        self.property_parent(who, parent, Right::Edit)?;
        let stored = self.property_of(parent, id)?;
        let (key, value) = (input.key()?, input.value()?);
        if key != stored.key {
            return Err(ApiError::bad_request(format!(
                "'key' must be '{}', which cannot be changed",
                stored.key
            )));
        }
        let (sent, message) =
            input.version.clone().ok_or_else(|| ApiError::bad_request("'version.number' is required"))?;
        let number = next_number("content property", stored.version.number, sent)?;
        let version = Version { number, message, ..self.first_version(&who.account_id, "") };
        let (at, lag) = (version.created_at, self.lag());
        if let Some(kept) = self.properties.get_mut(&id) {
            let property = kept.write(at, lag);
            property.value = value;
            property.version = version;
        }
        self.property_of(parent, id).map(PropertyShape::from)
    }

    /// Removes a property for good.
    pub(super) fn delete_property(&mut self, who: &Who, parent: Parent, id: u64) -> Result<(), ApiError> {
        self.property_parent(who, parent, Right::Edit)?;
        self.property_of(parent, id)?;
        self.properties.remove(&id);
        Ok(())
    }

    /// One page of the properties of a parent.
    pub(super) fn list_properties(
        &mut self,
        who: &Who,
        parent: Parent,
        query: &Query,
    ) -> Result<Slice<PropertyShape>, ApiError> {
        let order = Order::parse(query, &["key"])?;
        self.property_parent(who, parent, Right::View)?;
        self.settle_platform_properties(parent);
        let cutoff = self.list_cutoff();
        let wanted = query.get("key");
        let properties = self
            .properties_of(parent)
            .filter_map(|kept| kept.seen_at(cutoff))
            .filter(|property| wanted.is_none_or(|key| property.key == key));
        let key = |property: &&Property| match order.field {
            "key" => (OrderValue::Text(property.key.clone()), property.id),
            _ => (OrderValue::Number(0), property.id),
        };
        Ok(page_of(properties, &order, key, query, DEFAULT_PAGE)?.map(PropertyShape::from))
    }

    /// The first properties of a parent, as a single get includes them; its cursor continues the list itself.
    pub(super) fn included_properties(
        &self,
        parent: Parent,
        path: String,
    ) -> Result<Included<PropertyShape>, ApiError> {
        let order = Order { field: "id", descending: false };
        let properties = self.properties_of(parent).map(Kept::get);
        let key = |property: &&Property| (OrderValue::Number(0), property.id);
        let slice = page_of(properties, &order, key, &Query::default(), LARGEST_INCLUDED)?;
        Ok(Included::new(slice.map(PropertyShape::from), path))
    }

    /// Stores a new property. The rules have been checked.
    pub(super) fn insert_property(
        &mut self,
        author: &str,
        parent: Parent,
        key: &str,
        value: Box<RawValue>,
    ) -> u64 {
        let id = self.ids.take();
        let version = self.first_version(author, "");
        let at = version.created_at;
        self.properties
            .insert(id, Kept::new(Property { id, parent, key: key.to_owned(), value, version }, at));
        id
    }

    /// Adds what the platform itself adds to a page, once its time has come.
    pub(super) fn add_platform_properties(&mut self, page: u64) {
        let Some(after) = self.switches.platform_properties_after_ms.map(Duration::from_millis) else {
            return;
        };
        let now = self.clock.now();
        let Some(kept) = self.pages.get_mut(&page) else { return };
        let due = kept.get().created_at.plus(after) <= now && kept.get().status != Status::Trashed;
        if !due || kept.get().platform_properties {
            return;
        }
        kept.amend().platform_properties = true;
        let author = kept.get().author.clone();
        let parent = Parent::Page(page);
        for (key, value) in PLATFORM_PROPERTIES {
            let missing = !self.properties_of(parent).any(|kept| kept.get().key == key);
            if let Ok(value) = RawValue::from_string(value.to_owned())
                && missing
            {
                self.insert_property(&author, parent, key, value);
            }
        }
    }

    fn settle_platform_properties(&mut self, parent: Parent) {
        if let Parent::Page(page) = parent {
            self.add_platform_properties(page);
        }
    }

    fn properties_of(&self, parent: Parent) -> impl Iterator<Item = &Kept<Property>> {
        self.properties.values().filter(move |kept| kept.get().parent == parent)
    }

    fn property_of(&self, parent: Parent, id: u64) -> Result<&Property, ApiError> {
        let property = self.properties.get(&id).map(Kept::get).filter(|property| property.parent == parent);
        property.ok_or_else(ApiError::not_found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_a_value_and_absence_is_not() {
        assert_eq!(
            PropertyInput::parse(br#"{"key":"k","value":null}"#).unwrap().value().unwrap().get(),
            "null"
        );
        assert_eq!(PropertyInput::parse(br#"{"key":"k"}"#).unwrap().value().unwrap_err().status(), 400);
        assert_eq!(
            PropertyInput::parse(br#"{"key":"","value":1}"#).unwrap().key().unwrap_err().status(),
            400
        );
        assert_eq!(PropertyInput::parse(b"[]").unwrap_err().status(), 400);
    }

    #[test]
    fn the_text_of_a_value_is_kept_digit_by_digit() {
        let text = r#"{"big":123456789012345678901234567890,"exact":1.10}"#;
        let input = PropertyInput::parse(format!(r#"{{"key":"k","value":{text}}}"#).as_bytes()).unwrap();
        assert_eq!(input.value().unwrap().get(), text);
    }

    #[test]
    fn a_value_of_exactly_32_kilobytes_passes_and_one_byte_more_does_not() {
        let value = |bytes: usize| format!(r#"{{"key":"k","value":"{}"}}"#, "x".repeat(bytes - 2));
        assert!(PropertyInput::parse(value(LARGEST_VALUE_BYTES).as_bytes()).is_ok());
        assert_eq!(
            PropertyInput::parse(value(LARGEST_VALUE_BYTES + 1).as_bytes()).unwrap_err().status(),
            400
        );
    }
}
