//! Reading pages: one by its id, and both lists.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::error::ApiError;
use super::model::{Kept, Page, Parent, Snapshot, Status, Which};
use super::paging::{DEFAULT_PAGE, Order, OrderValue, Slice, page_of};
use super::query::Query;
use super::shapes::{BodyShape, BodyShapes, Included, IncludedShapes, PageLinks, PageShape, VersionShape};
use super::state::State;
use super::storage_format::{as_document, as_storage};
use super::users::{Right, Who};

/// Formats that a list can return.
const LIST_FORMATS: [&str; 2] = ["storage", "wiki_doc_format"];
/// Formats that a single get can return.
const SINGLE_FORMATS: [&str; 7] =
    ["storage", "wiki_doc_format", "view", "export_view", "anonymous_export_view", "styled_view", "editor"];
/// Statuses that a list can be filtered by.
const LIST_STATUSES: [&str; 4] = ["current", "archived", "deleted", "trashed"];
/// Statuses that a single get can insist on.
const SINGLE_STATUSES: [&str; 6] = ["current", "archived", "trashed", "deleted", "historical", "draft"];
/// Fields that a list of pages can be sorted by.
const SORT_FIELDS: [&str; 4] = ["id", "created-date", "modified-date", "title"];

/// The query of a get of one page.
#[derive(Clone, Debug)]
pub(super) struct PageWish {
    which: Which,
    statuses: Option<Vec<Status>>,
    format: Option<&'static str>,
    labels: bool,
    properties: bool,
    operations: bool,
    likes: bool,
    versions: bool,
    version: bool,
    favourite: bool,
}

impl PageWish {
    /// The view in the response to a create or an update: the body in storage format.
    pub(super) fn echo(which: Which) -> Self {
        Self {
            which,
            statuses: None,
            format: Some("storage"),
            labels: false,
            properties: false,
            operations: false,
            likes: false,
            versions: false,
            version: true,
            favourite: false,
        }
    }

    /// Reads the query of a get.
    pub(super) fn parse(query: &Query) -> Result<Self, ApiError> {
        let which = match (query.number("version")?, query.flag("get-draft", false)?) {
            (Some(number), _) => Which::Number(number),
            (None, true) => Which::Draft,
            (None, false) => Which::Latest,
        };
        Ok(Self {
            which,
            statuses: statuses(query, &SINGLE_STATUSES)?,
            format: query.one_of("body-format", &SINGLE_FORMATS)?,
            labels: query.flag("include-labels", false)?,
            properties: query.flag("include-properties", false)?,
            operations: query.flag("include-operations", false)?,
            likes: query.flag("include-likes", false)?,
            versions: query.flag("include-versions", false)?,
            version: query.flag("include-version", true)?,
            favourite: query.flag("include-favorited-by-current-user-status", false)?,
        })
    }
}

/// The query of a list of pages.
#[derive(Clone, Debug)]
pub(super) struct PageFilter {
    ids: Option<Vec<u64>>,
    spaces: Option<Vec<u64>>,
    statuses: Option<Vec<Status>>,
    title: Option<String>,
    root_only: bool,
    live_only: bool,
    format: Option<&'static str>,
    order: Order,
}

impl PageFilter {
    fn parse(query: &Query) -> Result<Self, ApiError> {
        Ok(Self {
            ids: None,
            spaces: None,
            statuses: statuses(query, &LIST_STATUSES)?,
            title: query.get("title").map(str::to_owned),
            root_only: false,
            live_only: query.one_of("subtype", &["live", "page"])? == Some("live"),
            format: query.one_of("body-format", &LIST_FORMATS)?,
            order: Order::parse(query, &SORT_FIELDS)?,
        })
    }

    /// Reads the query of the list of all pages.
    pub(super) fn everywhere(query: &Query) -> Result<Self, ApiError> {
        let ids = query.ids("id", 250)?;
        let spaces = query.ids("space-id", 100)?;
        Ok(Self { ids, spaces, ..Self::parse(query)? })
    }

    /// Reads the query of the list of the pages in a space.
    pub(super) fn in_space(query: &Query, space: u64) -> Result<Self, ApiError> {
        let root_only = query.one_of("depth", &["all", "root"])? == Some("root");
        Ok(Self { spaces: Some(vec![space]), root_only, ..Self::parse(query)? })
    }

    fn wants(&self, page: &Page) -> bool {
        let status = match &self.statuses {
            None => matches!(page.status, Status::Current | Status::Archived),
            Some(statuses) => statuses.contains(&page.status),
        };
        // Pages of the subtype `live` do not exist here.
        status
            && !self.live_only
            && !(self.root_only && page.parent.is_some())
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&page.id))
            && self.spaces.as_ref().is_none_or(|spaces| spaces.contains(&page.space))
            && self.title.as_deref().is_none_or(|title| title == page.title())
    }
}

fn statuses(query: &Query, allowed: &[&str]) -> Result<Option<Vec<Status>>, ApiError> {
    let words = query.some_of("status", allowed)?;
    Ok(words.map(|words| words.into_iter().filter_map(Status::parse).collect()))
}

impl State {
    /// One page as it was asked for.
    pub(super) fn get_page(&mut self, who: &Who, id: u64, wish: &PageWish) -> Result<PageShape, ApiError> {
        if wish.properties {
            self.add_platform_properties(id);
        }
        let page = self.page_for(who, id, Right::View)?;
        let (status, snapshot) = page.state(wish.which).ok_or_else(ApiError::not_found)?;
        if wish.statuses.as_ref().is_some_and(|wanted| !wanted.contains(&status)) {
            return Err(ApiError::not_found());
        }
        let mut shape = self.page_shape(page, status, snapshot, wish.format);
        shape.links.base = Some(format!("{}/wiki", self.base_url));
        if !wish.version {
            shape.version = None;
        }
        if wish.favourite {
            shape.is_favorited_by_current_user = Some(page.favourites.contains(&who.account_id));
        }
        let path = |list: &str| format!("/wiki/api/v2/pages/{id}/{list}");
        shape.included = IncludedShapes {
            labels: wish.labels.then(|| Included::cut(page.labels.clone(), path("labels"))),
            properties: if wish.properties {
                Some(self.included_properties(Parent::Page(id), path("properties"))?)
            } else {
                None
            },
            operations: wish
                .operations
                .then(|| Included::cut(self.page_operations(who, page), path("operations"))),
            likes: wish.likes.then(|| Included::cut(page_likes(page), path("likes/users"))),
            versions: wish.versions.then(|| Included::cut(page_versions(page), path("versions"))),
            permissions: None,
        };
        Ok(shape)
    }

    /// One page of a list of pages.
    pub(super) fn list_pages(
        &self,
        who: &Who,
        filter: &PageFilter,
        query: &Query,
    ) -> Result<Slice<PageShape>, ApiError> {
        let cutoff = self.list_cutoff();
        let pages =
            self.pages.values().filter_map(|kept| kept.seen_at(cutoff)).filter(|page| {
                page.status != Status::Draft && filter.wants(page) && self.sees_page(who, page)
            });
        let key = |page: &&Page| (order_value(filter.order.field, page), page.id);
        let slice = page_of(pages, &filter.order, key, query, DEFAULT_PAGE)?;
        let mut shapes = Slice { items: Vec::with_capacity(slice.items.len()), next: slice.next };
        for page in slice.items {
            let Some((status, snapshot)) = page.state(Which::Latest) else { continue };
            shapes.items.push(self.page_shape(page, status, snapshot, filter.format));
        }
        Ok(shapes)
    }

    fn page_shape(
        &self,
        page: &Page,
        status: Status,
        snapshot: &Snapshot,
        format: Option<&'static str>,
    ) -> PageShape {
        let mut body = BodyShapes::new();
        if let Some(format) = format {
            let value = match format {
                "wiki_doc_format" => as_document(&snapshot.body),
                _ => as_storage(&snapshot.body),
            };
            body.insert(format, BodyShape { representation: format, value });
        }
        let key = self.spaces.get(&page.space).map_or("", |space| space.key.as_str());
        let slug: String = url::form_urlencoded::byte_serialize(snapshot.title.as_bytes()).collect();
        PageShape {
            id: page.id.to_string(),
            status,
            title: snapshot.title.clone(),
            space_id: page.space.to_string(),
            parent_id: page.parent.map(|parent| parent.to_string()),
            parent_type: page.parent.map(|_| "page"),
            position: page.position,
            author_id: page.author.to_string(),
            owner_id: page.owner.to_string(),
            last_owner_id: page.last_owner.as_ref().map(ToString::to_string),
            created_at: page.created_at,
            version: Some(VersionShape::from(&snapshot.version)),
            body,
            included: IncludedShapes::default(),
            is_favorited_by_current_user: None,
            links: PageLinks {
                webui: format!("/spaces/{key}/pages/{}/{slug}", page.id),
                editui: format!("/pages/resumedraft.action?draftId={}", page.id),
                tinyui: format!("/x/{}", URL_SAFE_NO_PAD.encode(page.id.to_le_bytes())),
                base: None,
            },
        }
    }

    /// The operations that the caller may perform on a page.
    pub(super) fn page_operations(&self, who: &Who, page: &Page) -> Vec<Value> {
        self.operations(who, page.space, "page")
    }

    /// The operations that the caller may perform on content of a kind in a space.
    pub(super) fn operations(&self, who: &Who, space: u64, kind: &'static str) -> Vec<Value> {
        let known = [
            ("read", Right::View),
            ("update", Right::Edit),
            ("create", Right::Create),
            ("delete", Right::Delete),
            ("purge", Right::Admin),
        ];
        let allowed = known.into_iter().filter(|(_, right)| self.may(who, space, *right));
        allowed.map(|(operation, _)| json!({"operation": operation, "targetType": kind})).collect()
    }

    /// Pages that exist in any status, for the seeding of tests and for computed answers.
    pub(super) fn all_pages(&self) -> impl Iterator<Item = &Page> {
        self.pages.values().map(Kept::get)
    }
}

/// Everybody who likes a page.
pub(super) fn page_likes(page: &Page) -> Vec<Value> {
    page.likes.iter().map(|account| json!({"accountId": account})).collect()
}

/// The versions of a page, the newest first.
pub(super) fn page_versions(page: &Page) -> Vec<VersionShape> {
    page.published.iter().rev().map(|snapshot| VersionShape::from(&snapshot.version)).collect()
}

fn order_value(field: &str, page: &Page) -> OrderValue {
    match field {
        "created-date" => OrderValue::Number(page.created_at.millis()),
        "modified-date" => OrderValue::Number(
            page.published.last().map_or(0, |snapshot| snapshot.version.created_at.millis()),
        ),
        "title" => OrderValue::Text(page.title().to_owned()),
        _ => OrderValue::Number(0),
    }
}
