//! Putting things into the wiki without the API, as tests and the demo site do.

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use super::attachments::UploadedFile;
use super::error::{ApiError, Error};
use super::model::{Body, Container, CustomContent, Kept, Label, Parent, Space, Status};
use super::state::State;
use super::users::User;

/// A space to be seeded.
#[derive(Clone, Debug)]
pub struct SpaceSeed {
    key: String,
    name: String,
    kind: String,
    status: Status,
    description: String,
}

impl SpaceSeed {
    /// A current space of the type `global`.
    pub fn new(key: &str, name: &str) -> Self {
        Self {
            key: key.to_owned(),
            name: name.to_owned(),
            kind: "global".to_owned(),
            status: Status::Current,
            description: String::new(),
        }
    }

    /// Sets the type: `global`, `personal`, `knowledge_base` and so on.
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        Self { kind: kind.to_owned(), ..self }
    }

    /// Archives the space.
    #[must_use]
    pub fn archived(self) -> Self {
        Self { status: Status::Archived, ..self }
    }

    /// Sets the description.
    #[must_use]
    pub fn description(self, text: &str) -> Self {
        Self { description: text.to_owned(), ..self }
    }
}

/// A page to be seeded.
#[derive(Clone, Debug)]
pub struct PageSeed {
    space: u64,
    title: String,
    parent: Option<u64>,
    at_root: bool,
    status: Status,
    body: String,
    private: bool,
}

impl PageSeed {
    /// A current page under the homepage of a space.
    pub fn new(space: u64, title: &str) -> Self {
        Self {
            space,
            title: title.to_owned(),
            parent: None,
            at_root: false,
            status: Status::Current,
            body: format!("<p>{title}</p>").replace('&', "&amp;"),
            private: false,
        }
    }

    /// Puts it under another page.
    #[must_use]
    pub fn under(self, parent: u64) -> Self {
        Self { parent: Some(parent), ..self }
    }

    /// Puts it at the root of the space.
    #[must_use]
    pub fn at_root(self) -> Self {
        Self { at_root: true, ..self }
    }

    /// Sets its body, in storage format.
    #[must_use]
    pub fn body(self, storage: &str) -> Self {
        Self { body: storage.to_owned(), ..self }
    }

    /// Sets its status: current, draft, archived or trashed.
    #[must_use]
    pub fn status(self, status: Status) -> Self {
        Self { status, ..self }
    }

    /// Shows it to its author only.
    #[must_use]
    pub fn private(self) -> Self {
        Self { private: true, ..self }
    }
}

impl State {
    /// Adds a user.
    pub fn add_user(&mut self, user: User) {
        self.users.push(user);
    }

    /// The account id of the user with this e-mail address.
    pub fn account_id(&self, email: &str) -> Option<&str> {
        self.users
            .iter()
            .find(|user| user.email.eq_ignore_ascii_case(email))
            .map(|user| user.account_id.as_str())
    }

    /// Adds a space with its homepage and returns its id; the homepage has the next one.
    ///
    /// # Errors
    /// When the key is taken.
    pub fn add_space(&mut self, seed: SpaceSeed) -> Result<u64, Error> {
        if self.spaces.values().any(|space| space.key == seed.key) {
            return Err(ApiError::bad_request(format!("the key '{}' is taken", seed.key)).into());
        }
        let author = self.seeding_account();
        let id = self.ids.take();
        let body = Body::storage(&format!("<p>The home of {}.</p>", seed.name.replace('&', "&amp;")));
        let title = format!("{} Home", seed.name);
        let homepage = self.insert_page(&author, id, None, Status::Current, &title, body, false);
        let created_at = self.clock.stamp();
        let space = Space {
            id,
            key: seed.key,
            name: seed.name,
            kind: seed.kind,
            status: seed.status,
            author,
            created_at,
            homepage,
            description: seed.description,
            labels: Vec::new(),
            favourites: Default::default(),
        };
        self.spaces.insert(id, space);
        Ok(id)
    }

    /// The homepage of a space.
    pub fn homepage(&self, space: u64) -> Option<u64> {
        self.spaces.get(&space).map(|space| space.homepage)
    }

    /// Adds a page by the first user and returns its id.
    ///
    /// # Errors
    /// When the space does not exist or the title is taken.
    pub fn add_page(&mut self, seed: PageSeed) -> Result<u64, Error> {
        let author = self.seeding_account();
        self.add_page_by(&author, seed)
    }

    /// Adds a page by an account and returns its id.
    ///
    /// # Errors
    /// When the space does not exist or the title is taken.
    pub fn add_page_by(&mut self, account_id: &str, seed: PageSeed) -> Result<u64, Error> {
        let homepage = self.homepage(seed.space).ok_or_else(ApiError::not_found)?;
        self.check_title(seed.space, &seed.title, None)?;
        let parent = if seed.at_root { None } else { Some(seed.parent.unwrap_or(homepage)) };
        let (body, status) = (Body::storage(&seed.body), seed.status);
        Ok(self.insert_page(account_id, seed.space, parent, status, &seed.title, body, seed.private))
    }

    /// Adds a label to a page.
    ///
    /// # Errors
    /// When the page does not exist.
    pub fn add_label(&mut self, page: u64, name: &str) -> Result<(), Error> {
        let id = self.ids.take();
        let page = self.pages.get_mut(&page).ok_or_else(ApiError::not_found)?.amend();
        page.labels.push(Label { id: id.to_string(), name: name.to_owned(), prefix: "global".to_owned() });
        Ok(())
    }

    /// Adds a label to a space.
    ///
    /// # Errors
    /// When the space does not exist.
    pub fn add_space_label(&mut self, space: u64, name: &str) -> Result<(), Error> {
        let id = self.ids.take();
        let space = self.spaces.get_mut(&space).ok_or_else(ApiError::not_found)?;
        space.labels.push(Label { id: id.to_string(), name: name.to_owned(), prefix: "team".to_owned() });
        Ok(())
    }

    /// Lets an account like a page.
    ///
    /// # Errors
    /// When the page does not exist.
    pub fn like(&mut self, page: u64, account_id: &str) -> Result<(), Error> {
        let page = self.pages.get_mut(&page).ok_or_else(ApiError::not_found)?.amend();
        page.likes.push(account_id.into());
        Ok(())
    }

    /// Makes a page a favourite of an account.
    ///
    /// # Errors
    /// When the page does not exist.
    pub fn favourite(&mut self, page: u64, account_id: &str) -> Result<(), Error> {
        let page = self.pages.get_mut(&page).ok_or_else(ApiError::not_found)?.amend();
        page.favourites.insert(account_id.to_owned());
        Ok(())
    }

    /// Makes a space a favourite of an account.
    ///
    /// # Errors
    /// When the space does not exist.
    pub fn favourite_space(&mut self, space: u64, account_id: &str) -> Result<(), Error> {
        let space = self.spaces.get_mut(&space).ok_or_else(ApiError::not_found)?;
        space.favourites.insert(account_id.to_owned());
        Ok(())
    }

    /// Adds an attachment to a page, or a version to the one of this name, and returns the number of its id (`att…`).
    ///
    /// # Errors
    /// When the page does not exist.
    pub fn add_attachment(
        &mut self,
        page: u64,
        name: &str,
        media_type: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<u64, Error> {
        if !self.pages.contains_key(&page) {
            return Err(ApiError::not_found().into());
        }
        let author = self.seeding_account();
        let file =
            UploadedFile { name: name.to_owned(), media_type: media_type.to_owned(), bytes: bytes.into() };
        Ok(self.store_file(&author, page, file, "", false))
    }

    /// Archives an attachment, which the API itself cannot do.
    ///
    /// # Errors
    /// When the attachment does not exist.
    pub fn archive_attachment(&mut self, attachment: u64) -> Result<(), Error> {
        self.attachments.get_mut(&attachment).ok_or_else(ApiError::not_found)?.amend().status =
            Status::Archived;
        Ok(())
    }

    /// Adds a content property and returns its id.
    ///
    /// # Errors
    /// When the value cannot be written as JSON text.
    pub fn add_property(&mut self, parent: Parent, key: &str, value: &Value) -> Result<u64, Error> {
        let value = RawValue::from_string(value.to_string())
            .map_err(|error| ApiError::bad_request(format!("the value is not JSON: {error}")))?;
        let author = self.seeding_account();
        Ok(self.insert_property(&author, parent, key, value))
    }

    /// Adds a piece of custom content to a page and returns its id.
    ///
    /// # Errors
    /// When the page does not exist.
    pub fn add_custom_content(&mut self, page: u64, kind: &str, title: &str) -> Result<u64, Error> {
        let space = self.pages.get(&page).map(Kept::get).ok_or_else(ApiError::not_found)?.space;
        Ok(self.insert_custom_content(space, Some(page), kind, title))
    }

    /// Adds a piece of custom content to a space itself and returns its id.
    ///
    /// # Errors
    /// When the space does not exist.
    pub fn add_custom_content_to_space(&mut self, space: u64, kind: &str, title: &str) -> Result<u64, Error> {
        self.homepage(space).ok_or_else(ApiError::not_found)?;
        Ok(self.insert_custom_content(space, None, kind, title))
    }

    /// Adds an attachment to a piece of custom content and returns the number of its id.
    ///
    /// # Errors
    /// When the custom content does not exist.
    pub fn add_custom_content_attachment(
        &mut self,
        content: u64,
        name: &str,
        media_type: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<u64, Error> {
        if !self.custom_contents.contains_key(&content) {
            return Err(ApiError::not_found().into());
        }
        let author = self.seeding_account();
        let file =
            UploadedFile { name: name.to_owned(), media_type: media_type.to_owned(), bytes: bytes.into() };
        // Stored as on a page of that id, which no page has, and then hung where it belongs.
        let id = self.store_file(&author, content, file, "", false);
        if let Some(kept) = self.attachments.get_mut(&id) {
            kept.amend().container = Container::CustomContent(content);
        }
        Ok(id)
    }

    fn insert_custom_content(&mut self, space: u64, page: Option<u64>, kind: &str, title: &str) -> u64 {
        let id = self.ids.take();
        let author = self.seeding_account();
        let version = self.first_version(&author, "");
        let (kind, title, body) = (kind.to_owned(), title.to_owned(), Body::storage("<p/>"));
        self.custom_contents.insert(id, CustomContent { id, kind, title, space, page, body, version });
        id
    }
}
