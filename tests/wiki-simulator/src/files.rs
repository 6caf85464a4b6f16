//! Uploads through the API under `/wiki/rest/api`, and downloads.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use multer::Multipart;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::auth::digest;
use super::call::{ApiError, Call, Reply, parse_id, reject_if};
use super::model::{Body, Content, Kind, Moment, Revision, State, Status, Version};

const MAX_FILES: usize = 100;
const MEDIA_LIFETIME: Duration = Duration::from_secs(300);

/// A file of an upload.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) media_type: String,
    pub(super) bytes: Bytes,
    pub(super) comment: String,
    pub(super) minor_edit: bool,
}

/// Reads a multipart body: the parts `file`, `comment` and `minorEdit`.
pub(super) async fn read_upload(content_type: &str, body: Bytes) -> Result<Vec<File>, ApiError> {
    let bad = |error: multer::Error| ApiError::bad_request(format!("The body cannot be read: {error}"));
    let boundary = multer::parse_boundary(content_type).map_err(bad)?;
    let mut multipart = Multipart::new(stream::iter([Ok::<Bytes, Infallible>(body)]), boundary);
    let (mut files, mut comment, mut minor_edit) = (Vec::new(), String::new(), false);
    while let Some(field) = multipart.next_field().await.map_err(bad)? {
        match field.name().unwrap_or_default() {
            "file" if files.len() == MAX_FILES => return Err(ApiError::bad_request("Too many files")),
            "file" => {
                let name = field.file_name().filter(|name| !name.is_empty()).map(str::to_owned);
                let name = name.ok_or_else(|| ApiError::bad_request("A `file` needs a file name"))?;
                let media_type =
                    field.content_type().map_or("application/octet-stream", |kind| kind.as_ref());
                let media_type = media_type.to_owned();
                files.push(File {
                    name,
                    media_type,
                    bytes: field.bytes().await.map_err(bad)?,
                    ..File::default()
                });
            }
            "comment" => comment = field.text().await.map_err(bad)?,
            "minorEdit" => minor_edit = field.text().await.map_err(bad)? == "true",
            _ => {}
        }
    }
    Ok(files.into_iter().map(|file| File { comment: comment.clone(), minor_edit, ..file }).collect())
}

impl State {
    /// Stores all files of an upload on a page, or none. POST refuses the name of an existing file, PUT makes a new
    /// version of it.
    pub(super) fn upload(&mut self, call: &Call) -> Result<Reply, ApiError> {
        reject_if(!matches!(call.header("x-wiki-token"), "no-check" | "nocheck"), 403, "XSRF check failed")?;
        let bad = |title: &str| ApiError::bad_request(title);
        let page = parse_id(Kind::Page, "id", call.segment(4))?;
        let files = call.upload.clone().ok_or_else(|| bad("The body must be multipart/form-data"))??;
        let trashed = self.find(Kind::Page, page)?.status == Status::Trashed;
        reject_if(trashed, 404, "Not Found")?;
        let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let unnamed = names.is_empty() || names.len() < files.len();
        reject_if(unnamed, 400, "Files with different names are required, in parts named `file`")?;
        let taken = names.iter().find(|name| call.method == "POST" && self.file_on(page, name).is_some());
        let rule = "Cannot add a new attachment with same file name as an existing attachment";
        reject_if(taken.is_some(), 400, format!("{rule}: {}", taken.unwrap_or(&"")))?;
        let ids: Vec<u64> = files.into_iter().map(|file| self.store_file(page, file)).collect();
        let results: Vec<Value> = ids.iter().filter_map(|id| self.uploaded_shape(*id)).collect();
        let (size, links) = (results.len(), json!({"base": format!("{}/wiki", self.base_url)}));
        Ok(Reply::ok(&json!({"results": results, "start": 0, "limit": size, "size": size, "_links": links})))
    }

    /// The attachment of this name in a container, unless it is in the trash.
    fn file_on(&self, container: u64, name: &str) -> Option<u64> {
        let mut attachments = self.of_kind(Kind::Attachment).filter(|file| file.parent == Some(container));
        attachments.find(|file| file.title() == name && file.status != Status::Trashed).map(|file| file.id)
    }

    /// Stores a new attachment, or a new version of the one of this name.
    pub(super) fn store_file(&mut self, container: u64, file: File) -> u64 {
        let File { name: title, media_type, bytes, comment, minor_edit } = file;
        let existing = self.file_on(container, &title);
        let number = existing.and_then(|id| self.contents.get(&id)).map_or(0, Content::number) + 1;
        // Derived from the id, so that it is the same in every run.
        let file_id = Uuid::from_u64_pair(existing.unwrap_or(self.next_id), u64::from(number)).to_string();
        let version = Version { minor_edit, ..self.version(number, String::new()) };
        let revision = Revision { version, title, body: Body::File { media_type, comment, file_id, bytes } };
        if let Some(content) = existing.and_then(|id| self.contents.get_mut(&id)) {
            content.published.push(revision);
            return content.id;
        }
        let (kind, parent) = (Kind::Attachment, Some(container));
        let space = self.contents.get(&container).map_or(0, |container| container.space);
        self.insert(Content { kind, space, parent, ..Content::default() }, revision)
    }

    /// An uploaded file in the shape of the API under `/wiki/rest/api`.
    fn uploaded_shape(&self, id: u64) -> Option<Value> {
        let content = self.contents.get(&id)?;
        let shape = self.shape(content, content.status.name(), content.latest()?, None, false);
        let (version, media_type, comment) = (&shape["version"], &shape["mediaType"], &shape["comment"]);
        Some(json!({
            "id": shape["id"], "type": "attachment", "status": shape["status"], "title": shape["title"],
            "version": {
                "number": version["number"], "message": "", "minorEdit": version["minorEdit"], "when": version["createdAt"],
            },
            "metadata": {"mediaType": media_type, "comment": comment},
            "extensions": {
                "mediaType": media_type, "fileSize": shape["fileSize"], "comment": comment, "fileId": shape["fileId"],
            },
            "_links": shape["_links"],
        }))
    }

    /// Redirects from the id of an attachment, or from its container and name, to its signed address.
    pub(super) fn download(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let id = match call.segment(1) {
            "download" => {
                let container = parse_id(Kind::Page, "id", call.segment(3))?;
                self.file_on(container, call.segment(4)).ok_or_else(ApiError::not_found)?
            }
            _ => parse_id(Kind::Attachment, "attachment-id", call.segment(7))?,
        };
        let attachment = self.find(Kind::Attachment, id)?;
        let number = call.query.number("version")?.unwrap_or(attachment.number());
        let expires = self.clock.now().plus(MEDIA_LIFETIME).millis();
        let query = format!("version={number}&expires={expires}&token={}", signature(id, number, expires));
        Ok(Reply::redirect(&format!("{}/_media/att{id}?{query}", self.media_url)))
    }

    /// Serves a file at its signed address. A request with credentials of its own is refused, as stores of files refuse
    /// two ways in at once: a client that follows the redirect must leave its Authorization header behind.
    pub(super) fn media(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let forwarded = !call.header("authorization").is_empty();
        reject_if(forwarded, 400, "An Authorization header is not accepted at a signed address")?;
        let id = parse_id(Kind::Attachment, "id", call.segment(1))?;
        let number = call.query.number("version")?.unwrap_or(0);
        let expires = call.query.get("expires").and_then(|text| text.parse().ok()).unwrap_or(0);
        let signed = call.query.get("token") == Some(signature(id, number, expires).as_str());
        let unsigned = !signed || self.clock.now() >= Moment::from_millis(expires);
        reject_if(unsigned, 403, "The address is not signed, or no longer valid")?;
        let mut revisions = self.contents.get(&id).into_iter().flat_map(|content| &content.published);
        let found = revisions.find(|revision| revision.version.number == number);
        let Some(Revision { title, body: Body::File { media_type, bytes, .. }, .. }) = found else {
            return Err(ApiError::not_found());
        };
        let mut reply = Reply::bytes(200, media_type, bytes.clone());
        let name = utf8_percent_encode(title, NON_ALPHANUMERIC);
        reply.set("content-disposition", &format!("attachment; filename*=UTF-8''{name}"));
        Ok(reply)
    }
}

/// The signature of the address of a file.
fn signature(id: u64, version: u32, expires: i64) -> String {
    digest(&format!("media {id} {version} {expires}"))
}
