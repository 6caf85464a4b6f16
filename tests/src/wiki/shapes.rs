//! The JSON shapes of the answers. Ids are strings, dates are UTC with milliseconds, and what was not asked for is absent.

use std::collections::BTreeMap;

use serde::Serialize;
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
    pub(super) operations: Option<Included<OperationShape>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) likes: Option<Included<LikeShape>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) versions: Option<Included<VersionShape>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) permissions: Option<Included<PermissionShape>>,
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

/// Something the caller may do with a piece of content.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OperationShape {
    pub(super) operation: &'static str,
    pub(super) target_type: &'static str,
}

/// Somebody who likes a page.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LikeShape {
    pub(super) account_id: String,
}

/// An operation that a permission allows.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PermissionShape {
    pub(super) id: String,
    pub(super) principal: PrincipalShape,
    pub(super) operation: PermittedShape,
}

/// The holder of a permission.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PrincipalShape {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) id: String,
}

/// The operation of a permission.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermittedShape {
    pub(super) key: &'static str,
    pub(super) target_type: &'static str,
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
    pub(super) icon: Option<IconShape>,
    #[serde(flatten)]
    pub(super) included: IncludedShapes,
    #[serde(rename = "_links")]
    pub(super) links: SpaceLinks,
}

/// The picture of a space.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IconShape {
    pub(super) path: String,
    pub(super) api_download_link: String,
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

/// The answer of an upload through the older API.
#[derive(Clone, Debug, Serialize)]
pub(super) struct UploadShape {
    pub(super) results: Vec<UploadedShape>,
    pub(super) start: usize,
    pub(super) limit: usize,
    pub(super) size: usize,
    #[serde(rename = "_links")]
    pub(super) links: BTreeMap<&'static str, String>,
}

/// One uploaded file in the shape of the older API.
#[derive(Clone, Debug, Serialize)]
pub(super) struct UploadedShape {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) status: Status,
    pub(super) title: String,
    pub(super) version: UploadedVersion,
    pub(super) metadata: UploadedMetadata,
    pub(super) extensions: UploadedExtensions,
    #[serde(rename = "_links")]
    pub(super) links: AttachmentLinks,
}

/// The version of an uploaded file.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UploadedVersion {
    pub(super) number: u32,
    pub(super) message: String,
    pub(super) minor_edit: bool,
    pub(super) when: Moment,
}

/// The media type and the comment of an uploaded file.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UploadedMetadata {
    pub(super) media_type: String,
    pub(super) comment: String,
}

/// The size and the media id of an uploaded file.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UploadedExtensions {
    pub(super) media_type: String,
    pub(super) file_size: usize,
    pub(super) comment: String,
    pub(super) file_id: String,
}
