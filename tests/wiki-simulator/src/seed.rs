//! Content that is added without the API, by tests and for the demo site.

use bytes::Bytes;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::call::{ApiError, reject_if};
use super::files::File;
use super::model::{Body, Content, Kind, Revision, State, Status};
use super::text::{Format, escape};

/// The first id of every simulator, above 2^32 so that no reader gets away with a smaller integer.
pub const FIRST_ID: u64 = 4_300_000_001;
/// The id of the space `DEMO` of the demo site.
pub const DEMO_SPACE_ID: u64 = FIRST_ID;
/// The id of the space `ARCH` of the demo site.
pub const ARCH_SPACE_ID: u64 = FIRST_ID + 2;
/// The id of the page `Welcome` in the space `DEMO`, with labels, a like, a property, attachments and custom content.
pub const DEMO_PAGE_ID: u64 = FIRST_ID + 4;
/// The number of the id of `notes.txt` on that page (`att` and this number). It has a property.
pub const DEMO_ATTACHMENT_ID: u64 = FIRST_ID + 5;
/// The id of the custom content on that page. It has a property.
pub const DEMO_CUSTOM_CONTENT_ID: u64 = FIRST_ID + 6;
/// The e-mail address of the user with all permissions.
pub const DEMO_EMAIL: &str = "demo@example.com";
/// The API token of that user.
pub const DEMO_TOKEN: &str = "demo-token";
/// An API token of that user with scopes, for the gateway.
pub const DEMO_SCOPED_TOKEN: &str = "demo-scoped-token";
/// The OAuth client of every simulator.
pub const DEMO_CLIENT_ID: &str = "demo-client";
/// Its secret.
pub const DEMO_CLIENT_SECRET: &str = "demo-secret";
/// The scopes that a connection to the wiki asks for by default.
pub const ALL_SCOPES: &str = "offline_access delete:attachment:wiki read:attachment:wiki write:attachment:wiki \
    read:custom-content:wiki write:custom-content:wiki delete:custom-content:wiki read:page:wiki write:page:wiki \
    delete:page:wiki read:space:wiki";
/// The account id of the user.
pub(super) const ACCOUNT_ID: &str = "557058:demo";
/// The cloud id of the site.
pub const CLOUD_ID: &str = "3f0e7a52-6c1d-4b8e-9a57-0d2c41b6f9e1";

/// A PNG of one transparent pixel.
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
    \0\0\0\nIDATx\x9cc\0\x01\0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82";

/// A space to be added.
#[derive(Clone, Debug)]
pub struct SpaceSeed {
    key: String,
    name: String,
    kind: String,
}

impl SpaceSeed {
    /// A current space of the type `global`.
    pub fn new(key: &str, name: &str) -> Self {
        let (key, name, kind) = (key.to_owned(), name.to_owned(), "global".to_owned());
        Self { key, name, kind }
    }

    /// Sets the type: `global`, `personal`, `knowledge_base` and so on.
    pub fn kind(self, kind: &str) -> Self {
        Self { kind: kind.to_owned(), ..self }
    }
}

/// A page to be added.
#[derive(Clone, Debug)]
pub struct PageSeed {
    space: u64,
    title: String,
    parent: Option<u64>,
    status: Status,
    body: String,
}

impl PageSeed {
    /// A current page under the homepage of a space.
    pub fn new(space: u64, title: &str) -> Self {
        let body = format!("<p>{}</p>", escape(title));
        Self { space, title: title.to_owned(), parent: None, status: Status::Current, body }
    }

    /// Moves it under another page.
    pub fn under(self, parent: u64) -> Self {
        Self { parent: Some(parent), ..self }
    }

    /// Sets its body, in storage format.
    pub fn body(self, storage: &str) -> Self {
        Self { body: storage.to_owned(), ..self }
    }

    /// Sets its status.
    pub fn status(self, status: Status) -> Self {
        Self { status, ..self }
    }
}

impl State {
    /// Adds a space with its homepage, which has the next id.
    pub fn add_space(&mut self, seed: SpaceSeed) -> Result<u64, ApiError> {
        let taken = self.of_kind(Kind::Space).any(|space| space.key == seed.key);
        reject_if(taken, 400, format!("the key '{}' is taken", seed.key))?;
        let SpaceSeed { key, name, kind: subtype } = seed;
        let (title, text) = (format!("{name} Home"), format!("<p>The home of {}.</p>", escape(&name)));
        let body = Body::Text(Format::Storage, format!("The space {name}"));
        let revision = Revision { version: self.version(1, String::new()), title: name, body };
        let space = Content { kind: Kind::Space, key, subtype, ..Content::default() };
        let space = self.insert(space, revision);
        let home = Content { space, ..Content::default() };
        let homepage = self.insert_page(home, title, Body::Text(Format::Storage, text));
        self.content_mut(space)?.homepage = homepage;
        Ok(space)
    }

    /// The homepage of a space.
    pub fn homepage(&self, space: u64) -> Option<u64> {
        self.contents.get(&space).map(|space| space.homepage)
    }

    /// Adds a page by the first user.
    pub fn add_page(&mut self, seed: PageSeed) -> Result<u64, ApiError> {
        let homepage = self.homepage(seed.space).ok_or_else(ApiError::not_found)?;
        self.check_title(seed.space, &seed.title, None)?;
        let PageSeed { space, title, parent, status, body } = seed;
        let page = Content { space, parent: parent.or(Some(homepage)), status, ..Content::default() };
        Ok(self.insert_page(page, title, Body::Text(Format::Storage, body)))
    }

    /// Adds a label to content.
    pub fn add_label(&mut self, content: u64, name: &str) -> Result<(), ApiError> {
        let id = self.take_id().to_string();
        let content = self.content_mut(content)?;
        let prefix = if content.kind == Kind::Space { "team" } else { "global" };
        content.labels.push(json!({"id": id, "name": name, "prefix": prefix}));
        Ok(())
    }

    /// Adds the like of an account to a page.
    pub fn like(&mut self, page: u64, account_id: &str) -> Result<(), ApiError> {
        self.content_mut(page)?.likes.push(account_id.to_owned());
        Ok(())
    }

    /// Makes content a favourite of an account.
    pub fn favourite(&mut self, content: u64, account_id: &str) -> Result<(), ApiError> {
        self.content_mut(content)?.favourites.push(account_id.to_owned());
        Ok(())
    }

    /// Adds an attachment to a page or to custom content, or a version of the one of this name. Returns the number of its
    /// id (`att…`).
    pub fn add_attachment(
        &mut self,
        container: u64,
        name: &str,
        media_type: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<u64, ApiError> {
        self.content_mut(container)?;
        let (name, media_type, bytes) = (name.to_owned(), media_type.to_owned(), bytes.into());
        let file = File { name, media_type, bytes, ..File::default() };
        Ok(self.store_file(container, file))
    }

    /// Sets the status of content, also to one that the API cannot set.
    pub fn set_status(&mut self, content: u64, status: Status) -> Result<(), ApiError> {
        self.content_mut(content)?.status = status;
        Ok(())
    }

    /// Adds a content property.
    pub fn add_property(&mut self, owner: u64, key: &str, value: &Value) -> Result<u64, ApiError> {
        let value = to_raw_value(value).map_err(|error| ApiError::bad_request(error.to_string()))?;
        Ok(self.add_property_to(owner, key, value)?.id)
    }

    /// Adds custom content to a page or to a space.
    pub fn add_custom_content(&mut self, container: u64, kind: &str, title: &str) -> Result<u64, ApiError> {
        let container = self.content_mut(container)?;
        let (space, parent) = (container.space, Some(container.id).filter(|_| container.kind == Kind::Page));
        let (title, body) = (title.to_owned(), Body::Text(Format::Storage, "<p/>".to_owned()));
        let revision = Revision { version: self.version(1, String::new()), title, body };
        let (kind, subtype) = (Kind::CustomContent, kind.to_owned());
        Ok(self.insert(Content { kind, space, parent, subtype, ..Content::default() }, revision))
    }
}

/// Adds two spaces, a dozen pages and some of everything else. Its ids are the same in every run.
pub(super) fn demo(state: &mut State) -> Result<(), ApiError> {
    let demo = state.add_space(SpaceSeed::new("DEMO", "Demo"))?;
    let arch = state.add_space(SpaceSeed::new("ARCH", "Architecture").kind("knowledge_base"))?;
    let body = "<h1>Welcome</h1><p>This page exists to be read, changed and deleted.</p>";
    let welcome = state.add_page(PageSeed::new(demo, "Welcome").body(body))?;
    // First the content whose ids are constants above, in their order.
    let notes = state.add_attachment(welcome, "notes.txt", "text/plain", "Remember the milk.\n")?;
    let task = state.add_custom_content(welcome, "ac:demo:task", "Water the plants")?;
    state.add_attachment(welcome, "pixel.png", "image/png", PIXEL)?;
    state.add_label(welcome, "welcome")?;
    state.add_label(welcome, "start-here")?;
    state.like(welcome, "557058:reader")?;
    state.favourite(welcome, ACCOUNT_ID)?;
    state.add_property(welcome, "reviewed", &json!({"by": "demo", "ok": true}))?;
    state.add_property(notes, "checked", &json!(true))?;
    state.add_property(task, "due", &json!("2026-06-01"))?;
    let meetings = state.add_page(PageSeed::new(demo, "Meeting notes"))?;
    for month in ["January", "February", "March"] {
        state.add_page(PageSeed::new(demo, &format!("Meeting of {month}")).under(meetings))?;
    }
    state.add_page(PageSeed::new(demo, "Old handbook").status(Status::Archived))?;
    state.add_page(PageSeed::new(demo, "Not finished yet").status(Status::Draft))?;
    state.add_label(arch, "engineering")?;
    let decisions = state.add_page(PageSeed::new(arch, "Decisions"))?;
    for title in ["ADR 1: One binary", "ADR 2: Connectors are data", "ADR 3: An execution is a log"] {
        let page = state.add_page(PageSeed::new(arch, title).under(decisions))?;
        state.add_label(page, "adr")?;
    }
    state.add_attachment(decisions, "components.csv", "text/csv", "component,owner\nengine,demo\n")?;
    state.add_page(PageSeed::new(arch, "Glossary"))?;
    Ok(())
}
