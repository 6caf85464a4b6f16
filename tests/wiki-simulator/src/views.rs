//! Single reads, the shapes of content in answers, and the lists inside of content.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::call::{ApiError, Call, Query, Reply, check_word, reject_if};
use super::lists::{DEFAULT_LIMIT, Order, page_of};
use super::model::{Body, Content, Kind, Revision, State};
use super::seed::ACCOUNT_ID;
use super::text::{as_document, as_storage};

const MAX_INCLUDED: usize = 50;
const STATUSES: [&str; 6] = ["current", "archived", "trashed", "deleted", "historical", "draft"];
const OPERATIONS: [&str; 5] = ["read", "update", "create", "delete", "purge"];

/// A single read: the fields of the content and the included lists.
#[derive(Serialize)]
struct Single {
    #[serde(flatten)]
    fields: Value,
    #[serde(flatten)]
    included: BTreeMap<&'static str, Included>,
}

/// The beginning of a list inside of content, and the link to the rest.
#[derive(Serialize)]
struct Included {
    results: Vec<Box<RawValue>>,
    meta: Value,
    _links: Value,
}

/// Writes an id as the text that it is in answers.
pub(super) fn as_text<S: Serializer>(id: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The lists that a read of this kind can include.
fn includable(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Space => &["labels", "properties", "operations", "permissions"],
        Kind::Page => &["labels", "properties", "operations", "likes", "versions"],
        Kind::Attachment => &["labels", "properties", "operations", "versions"],
        Kind::CustomContent => &[],
    }
}

impl State {
    /// Reads one content, in any status unless the query insists on one.
    pub(super) fn get(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let (kind, id, query) = (call.kind()?, call.id()?, &call.query);
        let format = self.format(query, kind, true)?;
        let (number, draft) = (query.number("version")?, query.flag("get-draft", false)?);
        let (icon, with_version) = (query.flag("include-icon", false)?, query.flag("include-version", true)?);
        let favourite = query.flag("include-favorited-by-current-user-status", false)?;
        let statuses = query.array("status");
        statuses.iter().try_for_each(|status| check_word("status", status, &STATUSES).map(drop))?;
        let mut lists = Vec::new();
        for name in includable(kind) {
            lists.extend(query.flag(&format!("include-{name}"), false)?.then_some(*name));
        }
        let content = self.find(kind, id)?;
        let (status, revision) = revision_of(content, number, draft).ok_or_else(ApiError::not_found)?;
        reject_if(!statuses.is_empty() && !statuses.contains(&status), 404, "Not Found")?;
        let mut fields = self.shape(content, status, revision, format, icon);
        fields["_links"]["base"] = format!("{}/wiki", self.base_url).into();
        if favourite {
            let own = content.favourites.iter().any(|account| account == ACCOUNT_ID);
            fields["isFavoritedByCurrentUser"] = own.into();
        }
        if let (false, Value::Object(fields)) = (with_version, &mut fields) {
            fields.remove("version");
        }
        let included = lists.into_iter().map(|name| Ok((name, self.include(call, content, name)?)));
        let included = included.collect::<Result<_, ApiError>>()?;
        Ok(Reply::ok(&Single { fields, included }))
    }

    /// The answer to a write of a page: the page or its draft, with the body in storage format.
    pub(super) fn echo(&self, id: u64, draft: bool) -> Result<Reply, ApiError> {
        let content = self.contents.get(&id).ok_or_else(ApiError::not_found)?;
        let (status, revision) = revision_of(content, None, draft).ok_or_else(ApiError::not_found)?;
        let mut fields = self.shape(content, status, revision, Some("storage"), false);
        fields["_links"]["base"] = format!("{}/wiki", self.base_url).into();
        Ok(Reply::ok(&fields))
    }

    fn include(&self, call: &Call, content: &Content, name: &str) -> Result<Included, ApiError> {
        let entries = self.entries(content, name);
        let entries = entries.into_iter().map(|(id, entry)| ((String::new(), id), entry)).collect();
        let order = Order::parse(&Query::default(), &[])?;
        let (results, cursor) = page_of(entries, &order, &Query::default(), MAX_INCLUDED)?;
        let list = if name == "likes" { "likes/users" } else { name };
        let mut meta = json!({"hasMore": cursor.is_some(), "count": results.len()});
        if let Some(cursor) = cursor {
            meta["cursor"] = cursor.into();
        }
        let path = format!("/wiki/api/v2/{}/{}/{list}", call.segment(0), call.segment(1));
        Ok(Included { results, meta, _links: json!({"self": path}) })
    }

    /// Lists the entries inside of content that the third segment of the path names, from where an included list ended.
    pub(super) fn list_entries(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let (query, name) = (&call.query, call.segment(2));
        let sorts: &[&str] = if name == "properties" { &["key"] } else { &[] };
        let order = Order::parse(query, sorts)?;
        let content = self.find(call.kind()?, call.id()?)?;
        reject_if(name == "properties" && self.is_trashed(content.id), 404, "Not Found")?;
        let entries = self.entries(content, name);
        if name == "operations" {
            let operations: Vec<_> = entries.into_iter().map(|(_, entry)| entry).collect();
            return Ok(Reply::ok(&BTreeMap::from([("operations", operations)])));
        }
        let key_of =
            |id: u64| content.properties.iter().find(|one| one.id == id).map_or("", |one| one.key.as_str());
        let wanted = query.get("key").filter(|_| name == "properties");
        let sort_value = |id| if order.column() == "key" { key_of(id).to_owned() } else { String::new() };
        let entries = entries.into_iter().filter(|(id, _)| wanted.is_none_or(|wanted| key_of(*id) == wanted));
        let entries = entries.map(|(id, entry)| ((sort_value(id), id), entry)).collect();
        let (results, next) = page_of(entries, &order, query, DEFAULT_LIMIT)?;
        Ok(self.list_reply(call, &results, next.as_deref()))
    }

    /// The entries of a list inside of content, numbered in their order; properties by their ids.
    fn entries(&self, content: &Content, name: &str) -> Vec<(u64, Box<RawValue>)> {
        if name == "properties" {
            return content.properties.iter().map(|property| (property.id, raw(property))).collect();
        }
        let entries: Vec<Box<RawValue>> = match name {
            "labels" => content.labels.iter().map(raw).collect(),
            // The newest first.
            "versions" => content.published.iter().rev().map(|revision| raw(&revision.version)).collect(),
            "likes" => content.likes.iter().map(|account| raw(&json!({"accountId": account}))).collect(),
            "operations" => {
                let shape = |name| raw(&json!({"operation": name, "targetType": content.kind.name()}));
                OPERATIONS.into_iter().map(shape).collect()
            }
            // The permissions of a space.
            _ => {
                let user = json!({"type": "user", "id": ACCOUNT_ID});
                let operation = json!({"key": "administer", "targetType": "space"});
                vec![raw(&json!({"id": content.key, "principal": user, "operation": operation}))]
            }
        };
        (1..).zip(entries).collect()
    }

    /// The format of texts that a read or a list asks for.
    pub(super) fn format<'a>(
        &self,
        query: &'a Query,
        kind: Kind,
        single: bool,
    ) -> Result<Option<&'a str>, ApiError> {
        let mut known = vec!["storage", self.switches.document_format];
        match kind {
            Kind::Attachment => return Ok(None),
            Kind::Space => return query.one_of("description-format", &["plain", "view"]),
            Kind::CustomContent => known.extend(["raw", "view"]),
            Kind::Page if !single => {}
            Kind::Page => {
                known.extend(["view", "export_view", "anonymous_export_view", "styled_view", "editor"])
            }
        }
        query.one_of("body-format", &known)
    }

    /// The fields of content in an answer. Links are relative to `{base_url}/wiki`.
    pub(super) fn shape(
        &self,
        content: &Content,
        status: &str,
        revision: &Revision,
        format: Option<&str>,
        icon: bool,
    ) -> Value {
        let (id, space, parent) = (content.id.to_string(), content.space.to_string(), content.parent);
        let key = self.contents.get(&content.space).map_or("", |space| space.key.as_str());
        let (title, version) = (&revision.title, &revision.version);
        let mut texts = json!({});
        if let (Some(format), Body::Text(written, text)) = (format, &revision.body) {
            let document = format == self.switches.document_format;
            let text = if document { as_document(*written, text) } else { as_storage(*written, text) };
            texts[format] = json!({"representation": format, "value": text});
        }
        match content.kind {
            Kind::Page => {
                let slug: String = url::form_urlencoded::byte_serialize(title.as_bytes()).collect();
                json!({
                    "id": id, "status": status, "title": title, "spaceId": space,
                    "parentId": parent.map(|parent| parent.to_string()), "parentType": parent.map(|_| "page"),
                    "position": content.position, "authorId": ACCOUNT_ID, "ownerId": ACCOUNT_ID,
                    "lastOwnerId": null, "createdAt": content.created_at, "version": version, "body": texts,
                    "_links": {
                        "webui": format!("/spaces/{key}/pages/{id}/{slug}"),
                        "editui": format!("/pages/resumedraft.action?draftId={id}"),
                        "tinyui": format!("/x/{}", URL_SAFE_NO_PAD.encode(content.id.to_le_bytes())),
                    },
                })
            }
            Kind::Space => {
                let path = "/images/logo/default-space-logo.svg";
                json!({
                    "id": id, "key": key, "name": title, "type": content.subtype, "status": status,
                    "authorId": ACCOUNT_ID, "spaceOwnerId": ACCOUNT_ID, "createdAt": content.created_at,
                    "homepageId": content.homepage.to_string(), "currentActiveAlias": key,
                    "description": format.map(|_| texts),
                    "icon": icon.then(|| json!({"path": path, "apiDownloadLink": path})),
                    "_links": {"webui": format!("/spaces/{key}")},
                })
            }
            Kind::CustomContent => {
                let mut shape = json!({
                    "id": id, "type": content.subtype, "status": status, "title": title, "spaceId": space,
                    "authorId": ACCOUNT_ID, "createdAt": content.created_at, "version": version, "body": texts,
                    "_links": {},
                });
                if let Some(page) = parent {
                    shape["pageId"] = page.to_string().into();
                }
                shape
            }
            Kind::Attachment => self.attachment_shape(content, status, revision, key),
        }
    }

    fn attachment_shape(&self, content: &Content, status: &str, revision: &Revision, key: &str) -> Value {
        let Body::File { media_type, comment, file_id, bytes } = &revision.body else { return Value::Null };
        let (id, parent) = (content.id, content.parent.unwrap_or_default());
        let (title, number) = (&revision.title, revision.version.number);
        let name = utf8_percent_encode(title, NON_ALPHANUMERIC);
        let preview = format!("%2F{parent}%2F{id}%2F{name}");
        let webui =
            format!("/pages/viewpageattachments.action?pageId={parent}&preview={preview}&spaceKey={key}");
        let modified = revision.version.created_at.millis();
        let download = format!(
            "/download/attachments/{parent}/{name}?version={number}&modificationDate={modified}&cacheVersion=1&api=v2"
        );
        let in_page = self.contents.get(&parent).is_none_or(|container| container.kind == Kind::Page);
        json!({
            "id": format!("att{id}"), "status": status, "title": title, "createdAt": content.created_at,
            (if in_page { "pageId" } else { "customContentId" }): parent.to_string(),
            "mediaType": media_type, "mediaTypeDescription": null, "comment": comment, "fileId": file_id,
            "fileSize": bytes.len(), "webuiLink": webui, "downloadLink": download, "version": revision.version,
            "_links": {"webui": webui, "download": download},
        })
    }
}

/// The revision that a read asks for, with the status that it has.
fn revision_of(content: &Content, number: Option<u32>, draft: bool) -> Option<(&'static str, &Revision)> {
    if let Some(number) = number {
        let revision = content.published.iter().find(|revision| revision.version.number == number)?;
        let earlier = content.kind == Kind::Page && number != content.number();
        return Some((if earlier { "historical" } else { content.status.name() }, revision));
    }
    if draft {
        return Some(("draft", content.draft.as_ref()?));
    }
    Some((content.status.name(), content.latest()?))
}
