//! Spaces and custom content: seeded, and only read through the API.

use serde_json::{Value, json};

use super::error::ApiError;
use super::model::{Space, Status};
use super::paging::{DEFAULT_PAGE, Order, OrderValue, Slice, page_of};
use super::query::Query;
use super::shapes::{
    BodyShape, BodyShapes, CustomContentShape, Included, IncludedShapes, SpaceLinks, SpaceShape, VersionShape,
};
use super::state::State;
use super::storage_format::as_storage;
use super::users::{Right, User, Who};

/// Types that a list of spaces can be filtered by.
const TYPES: [&str; 7] =
    ["global", "collaboration", "knowledge_base", "personal", "system", "onboarding", "xflow_sample_space"];
/// Statuses of a space.
const STATUSES: [&str; 2] = ["current", "archived"];
/// The most ids or keys that a list of spaces takes.
const LARGEST_FILTER: usize = 250;

impl State {
    /// One space by its numeric id.
    pub(super) fn get_space(&self, who: &Who, id: u64, query: &Query) -> Result<SpaceShape, ApiError> {
        let include = |name: &str| query.flag(&format!("include-{name}"), false);
        let description = query.one_of("description-format", &["plain", "view"])?;
        let (icon, operations, properties) =
            (include("icon")?, include("operations")?, include("properties")?);
        let (permissions, labels) = (include("permissions")?, include("labels")?);
        include("role-assignments")?;
        let space = self.space_for(who, id, Right::View)?;
        let mut shape = space_shape(space, description, icon);
        shape.links.base = Some(format!("{}/wiki", self.base_url));
        let path = |list: &str| format!("/wiki/api/v2/spaces/{id}/{list}");
        shape.included = IncludedShapes {
            labels: labels.then(|| Included::cut(space.labels.clone(), path("labels"))),
            // Properties of spaces are not part of the simulator: the list is there and empty.
            properties: properties.then(|| Included::cut(Vec::new(), path("properties"))),
            operations: operations
                .then(|| Included::cut(self.operations(who, space.id, "space"), path("operations"))),
            likes: None,
            versions: None,
            permissions: permissions
                .then(|| Included::cut(self.space_permissions(space), path("permissions"))),
        };
        Ok(shape)
    }

    /// One page of the spaces that the caller sees.
    pub(super) fn list_spaces(&self, who: &Who, query: &Query) -> Result<Slice<SpaceShape>, ApiError> {
        let order = Order::parse(query, &["id", "key", "name"])?;
        let ids = query.ids("ids", LARGEST_FILTER)?;
        let keys = query.array("keys");
        if keys.as_ref().is_some_and(|keys| keys.len() > LARGEST_FILTER) {
            return Err(ApiError::bad_parameter(
                format!("'keys' takes at most {LARGEST_FILTER} values"),
                None,
            ));
        }
        let kind = query.one_of("type", &TYPES)?;
        let status = query.one_of("status", &STATUSES)?.and_then(Status::parse);
        let labels = query.array("labels");
        let (liked_by, not_liked_by) = (query.get("favorited-by"), query.get("not-favorited-by"));
        let description = query.one_of("description-format", &["plain", "view"])?;
        let icon = query.flag("include-icon", false)?;
        let cutoff = self.list_cutoff();
        let spaces = self.spaces.values().filter(|space| {
            space.created_at <= cutoff
                && self.may(who, space.id, Right::View)
                && ids.as_ref().is_none_or(|ids| ids.contains(&space.id))
                && keys.as_ref().is_none_or(|keys| keys.contains(&space.key.as_str()))
                && kind.is_none_or(|kind| space.kind == kind)
                && status.is_none_or(|status| space.status == status)
                && labels
                    .as_ref()
                    .is_none_or(|names| space.labels.iter().any(|l| names.contains(&l.name.as_str())))
                && liked_by.is_none_or(|account| space.favourites.contains(account))
                && not_liked_by.is_none_or(|account| !space.favourites.contains(account))
        });
        let key = |space: &&Space| {
            let value = match order.field {
                "key" => OrderValue::Text(space.key.clone()),
                "name" => OrderValue::Text(space.name.clone()),
                _ => OrderValue::Number(0),
            };
            (value, space.id)
        };
        let slice = page_of(spaces, &order, key, query, DEFAULT_PAGE)?;
        Ok(slice.map(|space| space_shape(space, description, icon)))
    }

    /// The permissions in a space.
    pub(super) fn space_permissions(&self, space: &Space) -> Vec<Value> {
        self.users.iter().flat_map(|user| permissions_of(user, &space.key)).collect()
    }

    /// One piece of custom content.
    pub(super) fn get_custom_content(
        &self,
        who: &Who,
        id: u64,
        query: &Query,
    ) -> Result<CustomContentShape, ApiError> {
        let format = query.one_of("body-format", &["raw", "storage", "wiki_doc_format", "view"])?;
        let content = self.custom_content_for(who, id, Right::View)?;
        let mut body = BodyShapes::new();
        if let Some(format) = format {
            body.insert(format, BodyShape { representation: format, value: as_storage(&content.body) });
        }
        Ok(CustomContentShape {
            id: content.id.to_string(),
            kind: content.kind.clone(),
            status: Status::Current,
            title: content.title.clone(),
            space_id: content.space.to_string(),
            page_id: content.page.map(|page| page.to_string()),
            author_id: content.version.author.to_string(),
            created_at: content.version.created_at,
            version: VersionShape::from(&content.version),
            body,
        })
    }
}

fn permissions_of(user: &User, key: &str) -> Vec<Value> {
    let known = [
        ("read", "space", Right::View),
        ("create", "page", Right::Create),
        ("update", "page", Right::Edit),
        ("delete", "page", Right::Delete),
        ("administer", "space", Right::Admin),
    ];
    let allowed = known.into_iter().filter(|(_, _, right)| user.permissions_in(key).allow(*right));
    let shape = |(operation, target_type, _)| {
        json!({
            "id": format!("{key}:{}:{operation}", user.account_id),
            "principal": {"type": "user", "id": user.account_id},
            "operation": {"key": operation, "targetType": target_type},
        })
    };
    allowed.map(shape).collect()
}

/// The picture of a space.
const DEFAULT_ICON: &str = "/images/logo/default-space-logo.svg";

fn space_shape(space: &Space, description: Option<&'static str>, icon: bool) -> SpaceShape {
    SpaceShape {
        id: space.id.to_string(),
        key: space.key.clone(),
        name: space.name.clone(),
        kind: space.kind.clone(),
        status: space.status,
        author_id: space.author.to_string(),
        space_owner_id: space.author.to_string(),
        created_at: space.created_at,
        homepage_id: space.homepage.to_string(),
        current_active_alias: space.key.clone(),
        description: description.map(|format| {
            BodyShapes::from([(
                format,
                BodyShape { representation: format, value: space.description.clone() },
            )])
        }),
        icon: icon.then(|| json!({"path": DEFAULT_ICON, "apiDownloadLink": DEFAULT_ICON})),
        included: IncludedShapes::default(),
        links: SpaceLinks { webui: format!("/spaces/{}", space.key), base: None },
    }
}
