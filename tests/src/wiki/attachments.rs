//! Attachments: the lists, the get, both deletes, uploads through the older API, and downloads.

use bytes::Bytes;
use serde_json::{Value, json};
use uuid::Uuid;

use super::error::ApiError;
use super::model::{Attachment, Container, FileVersion, Kept, Parent, Status, Version};
use super::paging::{DEFAULT_ATTACHMENT_PAGE, Order, OrderValue, Slice, page_of};
use super::query::Query;
use super::shapes::{AttachmentLinks, AttachmentShape, Included, IncludedShapes, VersionShape};
use super::state::State;
use super::users::{Right, Who};

/// Statuses that a list of attachments can be filtered by.
const LIST_STATUSES: [&str; 3] = ["current", "archived", "trashed"];

/// One file of an upload.
#[derive(Clone, Debug)]
pub(super) struct UploadedFile {
    pub(super) name: String,
    pub(super) media_type: String,
    pub(super) bytes: Bytes,
}

/// An upload through the older API: the `file` parts and what goes with them.
#[derive(Clone, Debug, Default)]
pub(super) struct Upload {
    pub(super) files: Vec<UploadedFile>,
    pub(super) comment: String,
    pub(super) minor_edit: bool,
}

/// The treatment of an upload whose file name the page already has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OnExisting {
    /// POST: refuse.
    Refuse,
    /// PUT: make a new version.
    NewVersion,
}

impl State {
    /// One page of the attachments of the whole wiki, or of one page of it.
    pub(super) fn list_attachments(
        &self,
        who: &Who,
        page: Option<u64>,
        query: &Query,
    ) -> Result<Slice<AttachmentShape>, ApiError> {
        let order = Order::parse(query, &["created-date", "modified-date"])?;
        let statuses = query.some_of("status", &LIST_STATUSES)?;
        let statuses: Vec<Status> =
            statuses.unwrap_or(vec!["current", "archived"]).into_iter().filter_map(Status::parse).collect();
        let (media_type, name) = (query.get("mediaType"), query.get("filename"));
        if let Some(page) = page {
            self.page_for(who, page, Right::View)?;
        }
        let cutoff = self.list_cutoff();
        let attachments =
            self.attachments.values().filter_map(|kept| kept.seen_at(cutoff)).filter(|attachment| {
                page.is_none_or(|page| attachment.container == Container::Page(page))
                    && statuses.contains(&attachment.status)
                    && name.is_none_or(|name| attachment.title == name)
                    && media_type
                        .is_none_or(|wanted| attachment.version(None).is_some_and(|f| f.media_type == wanted))
                    && self.sees_attachment(who, attachment)
                    && (page.is_some() || !self.hangs_on_trash(attachment))
            });
        let key = |attachment: &&Attachment| (order_value(order.field, attachment), attachment.id);
        let slice = page_of(attachments, &order, key, query, DEFAULT_ATTACHMENT_PAGE)?;
        let mut shapes = Slice { items: Vec::with_capacity(slice.items.len()), next: slice.next };
        for attachment in slice.items {
            shapes.items.extend(attachment.version(None).map(|file| self.attachment_shape(attachment, file)));
        }
        Ok(shapes)
    }

    /// One attachment, at its last version or at the one asked for.
    pub(super) fn get_attachment(
        &self,
        who: &Who,
        id: u64,
        query: &Query,
    ) -> Result<AttachmentShape, ApiError> {
        let version = query.number("version")?;
        let include = |name: &str| query.flag(&format!("include-{name}"), false);
        let wish = (include("labels")?, include("properties")?, include("operations")?, include("versions")?);
        let (labels, properties, operations, versions) = wish;
        let with_version = query.flag("include-version", true)?;
        let attachment = self.attachment_for(who, id, Right::View)?;
        let file = attachment.version(version).ok_or_else(ApiError::not_found)?;
        let mut shape = self.attachment_shape(attachment, file);
        shape.links.base = Some(format!("{}/wiki", self.base_url));
        if !with_version {
            shape.version = None;
        }
        let path = |list: &str| format!("/wiki/api/v2/attachments/att{id}/{list}");
        let parent = Parent::Attachment(id);
        shape.included = IncludedShapes {
            labels: labels.then(|| Included::cut(attachment.labels.clone(), path("labels"))),
            properties: if properties {
                Some(self.included_properties(parent, path("properties"))?)
            } else {
                None
            },
            operations: match self.place_of(attachment.container) {
                Some((space, _)) if operations => {
                    Some(Included::cut(self.operations(who, space, "attachment"), path("operations")))
                }
                _ => None,
            },
            likes: None,
            versions: versions.then(|| Included::cut(attachment_versions(attachment), path("versions"))),
            permissions: None,
        };
        Ok(shape)
    }

    /// Deletes an attachment: into the bin, or out of it for good.
    pub(super) fn delete_attachment(&mut self, who: &Who, id: u64, purge: bool) -> Result<(), ApiError> {
        let attachment = self.attachment_for(who, id, Right::Delete)?;
        let trashed = attachment.status == Status::Trashed;
        let space = self.place_of(attachment.container).map(|(space, _)| space);
        if purge {
            if !space.is_some_and(|space| self.may(who, space, Right::Admin)) {
                return Err(ApiError::forbidden("Purging needs the administration of the space"));
            }
            if !trashed {
                return Err(ApiError::not_found());
            }
            self.drop_attachment(id);
            return Ok(());
        }
        if trashed {
            return Err(ApiError::not_found());
        }
        let (at, lag) = (self.clock.stamp(), self.lag());
        if let Some(kept) = self.attachments.get_mut(&id) {
            kept.write(at, lag).status = Status::Trashed;
        }
        Ok(())
    }

    /// Stores the files of an upload on a page. Either all of them or, after a refusal, none.
    pub(super) fn upload(
        &mut self,
        who: &Who,
        page: u64,
        upload: Upload,
        on_existing: OnExisting,
    ) -> Result<Value, ApiError> {
        let found = self.page_for(who, page, Right::Create)?;
        if found.status == Status::Trashed {
            return Err(ApiError::not_found());
        }
        if upload.files.is_empty() {
            return Err(ApiError::bad_request("At least one part named `file` with a file name is required"));
        }
        let mut names: Vec<&str> = upload.files.iter().map(|file| file.name.as_str()).collect();
        names.sort_unstable();
        let twice = names.windows(2).any(|pair| pair[0] == pair[1]);
        let taken = names.iter().find(|name| self.named_on(page, name).is_some());
        if let (OnExisting::Refuse, Some(name)) = (on_existing, taken) {
            return Err(ApiError::bad_request(format!(
                "Cannot add a new attachment with same file name as an existing attachment: {name}"
            )));
        }
        if twice {
            return Err(ApiError::bad_request("The same file name was sent twice"));
        }
        let mut ids = Vec::with_capacity(upload.files.len());
        for file in upload.files {
            ids.push(self.store_file(&who.account_id, page, file, &upload.comment, upload.minor_edit));
        }
        let attachments = ids.iter().filter_map(|id| self.attachments.get(id)).map(Kept::get);
        let results: Vec<Value> =
            attachments.filter_map(|attachment| self.uploaded_shape(attachment)).collect();
        let (size, base) = (results.len(), format!("{}/wiki", self.base_url));
        Ok(json!({"results": results, "start": 0, "limit": size, "size": size, "_links": {"base": base}}))
    }

    /// Stores one file: a new attachment, or a new version of the one with this name.
    pub(super) fn store_file(
        &mut self,
        author: &str,
        page: u64,
        file: UploadedFile,
        comment: &str,
        minor_edit: bool,
    ) -> u64 {
        let existing = self.named_on(page, &file.name);
        let id = existing.unwrap_or_else(|| self.ids.take());
        let number = self.attachments.get(&id).map_or(0, |kept| kept.get().versions.len()) as u32 + 1;
        let version = Version { number, minor_edit, ..self.first_version(author, "") };
        let (at, lag) = (version.created_at, self.lag());
        // Derived from the id and the number in place of chance, so that a seeded wiki is the same every time.
        let file_id = Uuid::from_u64_pair(id, u64::from(number)).to_string();
        let UploadedFile { name, media_type, bytes } = file;
        let file = FileVersion { version, media_type, comment: comment.to_owned(), file_id, bytes };
        match self.attachments.get_mut(&id) {
            Some(kept) => kept.write(at, lag).versions.push(file),
            None => {
                let attachment = Attachment {
                    id,
                    container: Container::Page(page),
                    status: Status::Current,
                    title: name,
                    created_at: at,
                    versions: vec![file],
                    labels: Vec::new(),
                };
                self.attachments.insert(id, Kept::new(attachment, at));
            }
        }
        id
    }

    /// The live attachment of this name on a page.
    pub(super) fn named_on(&self, page: u64, name: &str) -> Option<u64> {
        let mut attachments = self.attachments.values().map(Kept::get);
        let found = attachments.find(|attachment| {
            attachment.container == Container::Page(page)
                && attachment.title == name
                && attachment.status != Status::Trashed
        });
        found.map(|attachment| attachment.id)
    }

    /// The version of a file that a download names; 404 when the caller may not see it.
    pub(super) fn download(&self, who: &Who, id: u64, query: &Query) -> Result<&FileVersion, ApiError> {
        let version = query.number("version")?;
        self.attachment_for(who, id, Right::View)?.version(version).ok_or_else(ApiError::not_found)
    }

    fn hangs_on_trash(&self, attachment: &Attachment) -> bool {
        let page = self.place_of(attachment.container).and_then(|(_, page)| page);
        page.is_some_and(|page| page.status == Status::Trashed)
    }

    fn attachment_shape(&self, attachment: &Attachment, file: &FileVersion) -> AttachmentShape {
        let (page_id, custom_content_id) = match attachment.container {
            Container::Page(page) => (Some(page.to_string()), None),
            Container::CustomContent(content) => (None, Some(content.to_string())),
        };
        let links = self.attachment_links(attachment, file);
        AttachmentShape {
            id: format!("att{}", attachment.id),
            status: attachment.status,
            title: attachment.title.clone(),
            created_at: attachment.created_at,
            page_id,
            custom_content_id,
            media_type: file.media_type.clone(),
            media_type_description: None,
            comment: file.comment.clone(),
            file_id: file.file_id.clone(),
            file_size: file.bytes.len(),
            webui_link: links.webui.clone(),
            download_link: links.download.clone(),
            version: Some(VersionShape::from(&file.version)),
            included: IncludedShapes::default(),
            links,
        }
    }

    /// Links relative to `{base_url}/wiki`: they leave that `/wiki` out.
    fn attachment_links(&self, attachment: &Attachment, file: &FileVersion) -> AttachmentLinks {
        let container = match attachment.container {
            Container::Page(id) | Container::CustomContent(id) => id,
        };
        let key = self
            .place_of(attachment.container)
            .and_then(|(space, _)| self.spaces.get(&space))
            .map_or("", |space| space.key.as_str());
        let id = attachment.id;
        let name =
            percent_encoding::utf8_percent_encode(&attachment.title, percent_encoding::NON_ALPHANUMERIC);
        AttachmentLinks {
            webui: format!(
                "/pages/viewpageattachments.action?pageId={container}&preview=%2F{container}%2F{id}%2F{name}&spaceKey={key}"
            ),
            download: format!(
                "/download/attachments/{container}/{name}?version={}&modificationDate={}&cacheVersion=1&api=v2",
                file.version.number,
                file.version.created_at.millis()
            ),
            base: None,
        }
    }

    /// An uploaded file in the shape of the older API.
    fn uploaded_shape(&self, attachment: &Attachment) -> Option<Value> {
        let file = attachment.version(None)?;
        let FileVersion { version, media_type, comment, file_id, bytes } = file;
        Some(json!({
            "id": format!("att{}", attachment.id),
            "type": "attachment",
            "status": attachment.status,
            "title": attachment.title,
            "version": {
                "number": version.number, "message": version.message, "minorEdit": version.minor_edit, "when": version.created_at,
            },
            "metadata": {"mediaType": media_type, "comment": comment},
            "extensions": {"mediaType": media_type, "fileSize": bytes.len(), "comment": comment, "fileId": file_id},
            "_links": self.attachment_links(attachment, file),
        }))
    }
}

/// The versions of an attachment, the newest first.
pub(super) fn attachment_versions(attachment: &Attachment) -> Vec<VersionShape> {
    attachment.versions.iter().rev().map(|file| VersionShape::from(&file.version)).collect()
}

fn order_value(field: &str, attachment: &Attachment) -> OrderValue {
    match field {
        "created-date" => OrderValue::Number(attachment.created_at.millis()),
        "modified-date" => {
            OrderValue::Number(attachment.version(None).map_or(0, |file| file.version.created_at.millis()))
        }
        _ => OrderValue::Number(0),
    }
}
