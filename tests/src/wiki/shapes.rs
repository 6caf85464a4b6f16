//! The JSON shapes of the answers. Ids are strings, dates are UTC with milliseconds, and what was not asked for is absent.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::clock::Moment;
use super::model::{Label, Property, Status, Version};
use super::paging::{Slice, first_entries};

/// The most entries of a list that is included in a single get, documented by the vendor.
pub(super) const LARGEST_INCLUDED: usize = 50;

/// A version of anything.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VersionShape {
    number: u32,
    message: String,
    minor_edit: bool,
    author_id: String,
    created_at: Moment,
}

impl From<&Version> for VersionShape {
    fn from(version: &Version) -> Self {
        Self {
            number: version.number,
            message: version.message.clone(),
            minor_edit: version.minor_edit,
            author_id: version.author.to_string(),
            created_at: version.created_at,
        }
    }
}

/// One format of a body.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BodyShape {
    pub(super) representation: &'static str,
    pub(super) value: String,
}

/// Bodies by format; empty when none was asked for.
pub(super) type BodyShapes = BTreeMap<&'static str, BodyShape>;

/// A page, single or in a list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageShape {
    pub(super) id: String,
    pub(super) status: Status,
    pub(super) title: String,
    pub(super) space_id: String,
    pub(super) parent_id: Option<String>,
    pub(super) parent_type: Option<&'static str>,
    pub(super) position: i32,
    pub(super) author_id: String,
    pub(super) owner_id: String,
    pub(super) last_owner_id: Option<String>,
    pub(super) created_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<VersionShape>,
    pub(super) body: BodyShapes,
    #[serde(flatten)]
    pub(super) included: IncludedShapes,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) is_favorited_by_current_user: Option<bool>,
    #[serde(rename = "_links")]
    pub(super) links: PageLinks,
}

/// Where a page is in the wiki's own interface, relative to `{base_url}/wiki`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PageLinks {
    pub(super) webui: String,
    pub(super) editui: String,
    pub(super) tinyui: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<String>,
}

/// The lists that a single get includes on request.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct IncludedShapes {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) labels: Option<Included<Label>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) properties: Option<Included<PropertyShape>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) operations: Option<Included<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) likes: Option<Included<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) versions: Option<Included<VersionShape>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) permissions: Option<Included<Value>>,
}

/// An included list: at most 50 entries, and where the rest is.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Included<T> {
    results: Vec<T>,
    meta: IncludedMeta,
    #[serde(rename = "_links")]
    links: IncludedLinks,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct IncludedMeta {
    has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    count: usize,
}

#[derive(Clone, Debug, Serialize)]
struct IncludedLinks {
    #[serde(rename = "self")]
    this: String,
}

impl<T> Included<T> {
    /// Cuts a list to what a single get includes. `path` is where the whole list is served.
    pub(super) fn cut(items: Vec<T>, path: String) -> Self {
        Self::new(first_entries(items, LARGEST_INCLUDED), path)
    }

    /// Wraps a page of a list that has cursors of its own.
    pub(super) fn new(slice: Slice<T>, path: String) -> Self {
        let meta =
            IncludedMeta { has_more: slice.next.is_some(), cursor: slice.next, count: slice.items.len() };
        Self { results: slice.items, meta, links: IncludedLinks { this: path } }
    }
}

/// A content property. The value is written exactly as it was sent.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PropertyShape {
    id: String,
    key: String,
    value: Box<RawValue>,
    version: VersionShape,
}

impl From<&Property> for PropertyShape {
    fn from(property: &Property) -> Self {
        Self {
            id: property.id.to_string(),
            key: property.key.clone(),
            value: property.value.clone(),
            version: VersionShape::from(&property.version),
        }
    }
}

/// A space, single or in a list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpaceShape {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: Status,
    pub(super) author_id: String,
    pub(super) space_owner_id: String,
    pub(super) created_at: Moment,
    pub(super) homepage_id: String,
    pub(super) current_active_alias: String,
    pub(super) description: Option<BodyShapes>,
    pub(super) icon: Option<Value>,
    #[serde(flatten)]
    pub(super) included: IncludedShapes,
    #[serde(rename = "_links")]
    pub(super) links: SpaceLinks,
}

/// Where a space is in the wiki's own interface.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SpaceLinks {
    pub(super) webui: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<String>,
}

/// An attachment, single or in a list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttachmentShape {
    pub(super) id: String,
    pub(super) status: Status,
    pub(super) title: String,
    pub(super) created_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) page_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) custom_content_id: Option<String>,
    pub(super) media_type: String,
    pub(super) media_type_description: Option<String>,
    pub(super) comment: String,
    pub(super) file_id: String,
    pub(super) file_size: usize,
    pub(super) webui_link: String,
    pub(super) download_link: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<VersionShape>,
    #[serde(flatten)]
    pub(super) included: IncludedShapes,
    #[serde(rename = "_links")]
    pub(super) links: AttachmentLinks,
}

/// Where an attachment is shown and fetched, relative to `{base_url}/wiki`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AttachmentLinks {
    pub(super) webui: String,
    pub(super) download: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<String>,
}

/// A piece of custom content.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CustomContentShape {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: Status,
    pub(super) title: String,
    pub(super) space_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) page_id: Option<String>,
    pub(super) author_id: String,
    pub(super) created_at: Moment,
    pub(super) version: VersionShape,
    pub(super) body: BodyShapes,
}
