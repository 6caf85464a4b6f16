//! Writes of pages and of content properties, and the deletes of pages and attachments.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::call::{ApiError, Call, Reply, parse_id, reject_if};
use super::model::{Body, Content, Kind, Property, Revision, State, Status};
use super::text::{Format, parse_body};

const MAX_PAGE_BYTES: usize = 5 * 1024 * 1024;
const MAX_TITLE: usize = 255;
/// The distance between siblings, which leaves room to move pages between them.
const POSITION_STEP: i32 = 100;

/// The body of a create or an update.
struct Input {
    json: Value,
    status: Option<Status>,
    title: Option<String>,
    body: Option<Body>,
    version: Option<(i64, String)>,
}

/// A string field. Numbers are taken too, as the real service coerces them.
fn text(value: &Value, name: &str) -> Result<Option<String>, ApiError> {
    match &value[name] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Number(number) => Ok(Some(number.to_string())),
        _ => Err(ApiError::bad_request(format!("'{name}' must be a string"))),
    }
}

/// Number and message of `version`.
pub(super) fn parse_version(json: &Value) -> Result<Option<(i64, String)>, ApiError> {
    let version = &json["version"];
    if version.is_null() {
        return Ok(None);
    }
    let number = version["number"].as_i64();
    let number = number.ok_or_else(|| ApiError::bad_request("'version.number' must be a number"))?;
    Ok(Some((number, text(version, "message")?.unwrap_or_default())))
}

pub(super) fn require<T>(value: Option<T>, name: &str) -> Result<T, ApiError> {
    value.ok_or_else(|| ApiError::bad_request(format!("'{name}' is required")))
}

/// The number of the next version, if it is the one sent; 409 otherwise.
pub(super) fn next_number(what: &str, current: u32, sent: i64) -> Result<u32, ApiError> {
    let next = current + 1;
    if sent == i64::from(next) { Ok(next) } else { Err(ApiError::stale_version(what, current, sent)) }
}

impl State {
    fn page_input(&self, call: &Call) -> Result<Input, ApiError> {
        if call.body.len() > MAX_PAGE_BYTES {
            return Err(ApiError::too_large(MAX_PAGE_BYTES));
        }
        let json = call.json()?;
        let status = match text(&json, "status")?.as_deref() {
            None => None,
            Some("current") => Some(Status::Current),
            Some("draft") => Some(Status::Draft),
            Some(other) => {
                return Err(ApiError::bad_request(format!("'{other}' is not a status that can be written")));
            }
        };
        let title = text(&json, "title")?.filter(|title| !title.trim().is_empty());
        let long = title.as_ref().is_some_and(|title| title.chars().count() > MAX_TITLE);
        reject_if(long, 400, format!("A title has at most {MAX_TITLE} characters"))?;
        let body = Some(&json["body"]).filter(|body| !body.is_null());
        let body = body.map(|body| parse_body(body, self.switches.document_format)).transpose()?;
        let version = parse_version(&json)?;
        Ok(Input { json, status, title, body, version })
    }

    /// Creates a page or a draft.
    pub(super) fn create_page(&mut self, call: &Call) -> Result<Reply, ApiError> {
        // The real service keeps embedded pages in another store.
        call.query.flag("embedded", false)?;
        // With one user there is no other to hide a private page from.
        call.query.flag("private", false)?;
        let root_level = call.query.flag("root-level", false)?;
        let input = self.page_input(call)?;
        let space = parse_id(Kind::Space, "spaceId", &require(text(&input.json, "spaceId")?, "spaceId")?)?;
        let homepage = self.find(Kind::Space, space)?.homepage;
        let status = input.status.unwrap_or(Status::Current);
        let title = match status {
            Status::Current => require(input.title, "title")?,
            _ => input.title.unwrap_or_default(),
        };
        let parent = match text(&input.json, "parentId")? {
            Some(_) if root_level => {
                return Err(ApiError::bad_request("'parentId' cannot be given with root-level=true"));
            }
            Some(text) => Some(self.new_parent(space, None, &text)?),
            None if root_level => None,
            None => Some(homepage),
        };
        if status == Status::Current {
            self.check_title(space, &title, None)?;
        }
        let body = input.body.unwrap_or_else(|| Body::Text(Format::Storage, String::new()));
        let page = Content { space, parent, status, ..Content::default() };
        let id = self.insert_page(page, title, body);
        self.echo(id, false)
    }

    /// Adds a page after its siblings.
    pub(super) fn insert_page(&mut self, page: Content, title: String, body: Body) -> u64 {
        let revision = Revision { version: self.version(1, String::new()), title, body };
        let position = self.next_position(page.space, page.parent);
        self.insert(Content { position, ..page }, revision)
    }

    /// Publishes, saves as a draft, moves or restores a page.
    pub(super) fn update_page(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let (id, input) = (call.id()?, self.page_input(call)?);
        let other = parse_id(Kind::Page, "id", &require(text(&input.json, "id")?, "id")?)? != id;
        reject_if(other, 400, "'id' in the body is not the id in the path")?;
        let status = require(input.status, "status")?;
        let (title, body) = (require(input.title, "title")?, require(input.body, "body")?);
        let (sent, message) = require(input.version, "version")?;
        let page = self.find(Kind::Page, id)?;
        let (space, was, above, number) = (page.space, page.status, page.parent, page.number());
        let trashed = was == Status::Trashed;
        reject_if(was == Status::Archived, 400, "An archived page cannot be updated")?;
        if let Some(text) = text(&input.json, "spaceId")? {
            let target = self.find(Kind::Space, parse_id(Kind::Space, "spaceId", &text)?)?;
            reject_if(target.id != space, 400, "A page cannot be moved to another space")?;
        }
        let mut parent = match text(&input.json, "parentId")? {
            Some(text) => Some(self.new_parent(space, Some(id), &text)?),
            None => above,
        };
        let number = match status {
            Status::Draft if trashed => {
                return Err(ApiError::bad_request("A page in the trash has no draft"));
            }
            Status::Draft if sent != 1 => {
                return Err(ApiError::stale_version("draft (it is always 1)", number, sent));
            }
            Status::Draft => 1,
            _ => next_number("page", number, sent)?,
        };
        // Restored as it was: the content that was sent is ignored.
        let kept = page_of_trash(self.contents.get(&id).filter(|_| trashed));
        let (title, body) = kept.unwrap_or((title, body));
        if trashed {
            let homepage = self.contents.get(&space).map(|space| space.homepage);
            parent = above.filter(|parent| !self.is_trashed(*parent)).or(homepage);
        }
        if status == Status::Current {
            self.check_title(space, &title, Some(id))?;
        }
        let position = if parent == above { None } else { Some(self.next_position(space, parent)) };
        let revision = Revision { version: self.version(number, message), title, body };
        let page = self.content_mut(id)?;
        if status == Status::Draft {
            page.draft = Some(revision);
        } else {
            page.status = Status::Current;
            page.draft = None;
            page.published.push(revision);
        }
        page.parent = parent;
        page.position = position.unwrap_or(page.position);
        self.echo(id, status == Status::Draft)
    }

    /// Deletes a page or an attachment: to the trash, a draft for good, or out of the trash for good.
    pub(super) fn delete(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let (kind, id) = (call.kind()?, call.id()?);
        let purge = call.query.flag("purge", false)?;
        let draft = kind == Kind::Page && call.query.flag("draft", false)?;
        let content = self.find(kind, id)?;
        let (space, status, parent) = (content.space, content.status, content.parent);
        if draft {
            let page = self.content_mut(id)?;
            page.draft.take().ok_or_else(ApiError::not_found)?;
            if page.published.is_empty() {
                self.remove(id);
            }
        } else if purge {
            reject_if(status != Status::Trashed, 404, "Not Found")?;
            self.remove(id);
        } else {
            reject_if(matches!(status, Status::Trashed | Status::Draft), 404, "Not Found")?;
            let home = self.contents.get(&space).is_some_and(|space| space.homepage == id);
            reject_if(home, 400, "The homepage of a space cannot be deleted")?;
            let children = |content: &&mut Content| {
                content.kind == Kind::Page && content.parent == Some(id) && content.status != Status::Trashed
            };
            for child in self.contents.values_mut().filter(children) {
                child.parent = parent;
            }
            self.content_mut(id)?.status = Status::Trashed;
        }
        Ok(Reply::empty(204))
    }

    /// Titles are unique among the current and archived pages of a space, by exact comparison.
    pub(super) fn check_title(&self, space: u64, title: &str, except: Option<u64>) -> Result<(), ApiError> {
        let taken = self.of_kind(Kind::Page).any(|page| {
            page.space == space
                && Some(page.id) != except
                && matches!(page.status, Status::Current | Status::Archived)
                && page.title() == title
        });
        reject_if(taken, 400, format!("A page with this title already exists in the space: {title}"))?;
        Ok(())
    }

    /// Checks the parent for a page: a page of the same space that is not in the trash, neither `page` nor below it.
    fn new_parent(&self, space: u64, page: Option<u64>, text: &str) -> Result<u64, ApiError> {
        let parent = self.find(Kind::Page, parse_id(Kind::Page, "parentId", text)?)?;
        reject_if(parent.space != space || parent.status == Status::Trashed, 404, "Not Found")?;
        let mut above = Some(parent);
        while let Some(one) = above {
            reject_if(Some(one.id) == page, 400, "A page cannot be moved under itself or a page below it")?;
            above = one.parent.and_then(|parent| self.contents.get(&parent));
        }
        Ok(parent.id)
    }

    fn next_position(&self, space: u64, parent: Option<u64>) -> i32 {
        let siblings = self.of_kind(Kind::Page).filter(|page| page.space == space && page.parent == parent);
        siblings.map(|page| page.position).max().unwrap_or(0).saturating_add(POSITION_STEP)
    }
}

/// Title and body of a page that is restored.
fn page_of_trash(page: Option<&Content>) -> Option<(String, Body)> {
    let revision = page?.latest()?;
    Some((revision.title.clone(), revision.body.clone()))
}

const MAX_VALUE_BYTES: usize = 32_768;

/// The body of a create or an update.
struct PropertyInput {
    key: String,
    value: Box<RawValue>,
    version: Option<(i64, String)>,
}

#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    key: Value,
    /// A `null` is a value like any other.
    #[serde(default, deserialize_with = "present")]
    value: Option<Box<RawValue>>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

impl PropertyInput {
    fn parse(call: &Call) -> Result<Self, ApiError> {
        let whole = call.json()?;
        let fields: Fields = serde_json::from_slice(&call.body)
            .map_err(|error| ApiError::bad_request(format!("The body is not valid JSON: {error}")))?;
        let key = fields.key.as_str().filter(|key| !key.is_empty()).map(str::to_owned);
        let (key, value) = (require(key, "key")?, require(fields.value, "value")?);
        let large = value.get().len() > MAX_VALUE_BYTES;
        reject_if(large, 400, format!("'value' is larger than {MAX_VALUE_BYTES} bytes"))?;
        Ok(Self { key, value, version: parse_version(&whole)? })
    }
}

impl State {
    /// The content whose properties a call reads or writes. In the trash they cannot be reached.
    fn property_owner(&self, call: &Call) -> Result<u64, ApiError> {
        let content = self.find(call.kind()?, call.id()?)?;
        if self.is_trashed(content.id) { Err(ApiError::not_found()) } else { Ok(content.id) }
    }

    /// The owner of the property in the path, and its place among the properties.
    fn property(&self, call: &Call) -> Result<(u64, usize), ApiError> {
        let id = parse_id(Kind::Page, "property-id", call.segment(3))?;
        let owner = self.property_owner(call)?;
        let place = self.contents[&owner].properties.iter().position(|property| property.id == id);
        Ok((owner, place.ok_or_else(ApiError::not_found)?))
    }

    /// Adds a property. The key must be free.
    pub(super) fn add_property_to(
        &mut self,
        owner: u64,
        key: &str,
        value: Box<RawValue>,
    ) -> Result<Property, ApiError> {
        let taken = self.content_mut(owner)?.properties.iter().any(|property| property.key == key);
        reject_if(taken, 409, format!("A content property with the key '{key}' already exists"))?;
        let version = self.version(1, String::new());
        let property = Property { id: self.take_id(), key: key.to_owned(), value, version };
        self.content_mut(owner)?.properties.push(property.clone());
        Ok(property)
    }

    pub(super) fn create_property(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let input = PropertyInput::parse(call)?;
        let owner = self.property_owner(call)?;
        let property = self.add_property_to(owner, &input.key, input.value)?;
        Ok(Reply::ok(&property))
    }

    pub(super) fn get_property(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let (owner, place) = self.property(call)?;
        Ok(Reply::ok(&self.contents[&owner].properties[place]))
    }

    /// Replaces the value.
    pub(super) fn update_property(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let input = PropertyInput::parse(call)?;
        let (owner, place) = self.property(call)?;
        let stored = &self.contents[&owner].properties[place];
        let renamed = input.key != stored.key;
        reject_if(renamed, 400, format!("'key' must be '{}', which cannot be changed", stored.key))?;
        let (sent, message) = require(input.version, "version.number")?;
        let number = next_number("content property", stored.version.number, sent)?;
        let version = self.version(number, message);
        let property = &mut self.content_mut(owner)?.properties[place];
        *property = Property { value: input.value, version, ..property.clone() };
        Ok(Reply::ok(property))
    }

    pub(super) fn delete_property(&mut self, call: &Call) -> Result<Reply, ApiError> {
        let (owner, place) = self.property(call)?;
        self.content_mut(owner)?.properties.remove(place);
        Ok(Reply::empty(204))
    }
}
