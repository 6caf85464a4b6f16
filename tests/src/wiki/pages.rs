//! Writing pages: create, update in its many forms, and the two kinds of delete.

use std::sync::Arc;

use serde_json::Value;

use super::error::ApiError;
use super::model::{Body, Container, Kept, Page, Parent, Representation, Snapshot, Status, Version, Which};
use super::query::parse_id;
use super::state::State;
use super::storage_format::{check_well_formed, parse_body};
use super::users::{Right, Who};

/// The largest body of a page write: 5 MB, documented by the vendor for create.
pub(super) const LARGEST_PAGE_BYTES: usize = 5 * 1024 * 1024;
/// The longest title.
const LONGEST_TITLE: usize = 255;
/// The distance between siblings, as on the real service, which leaves room to move things between.
const POSITION_STEP: i32 = 100;

/// The body of a create or an update, read but not yet judged.
#[derive(Clone, Debug, Default)]
pub(super) struct PageInput {
    id: Option<String>,
    space_id: Option<String>,
    status: Option<String>,
    title: Option<String>,
    parent_id: Option<String>,
    owner_id: Option<String>,
    body: Option<Body>,
    version: Option<(i64, String)>,
}

/// The query of a create.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CreateOptions {
    pub(super) private: bool,
    pub(super) root_level: bool,
}

impl PageInput {
    /// Reads the JSON of a create or an update.
    ///
    /// # Errors
    /// 413 above 5 MB; 400 for what is not a JSON object or has a field of the wrong type.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        if bytes.len() > LARGEST_PAGE_BYTES {
            return Err(ApiError::too_large(LARGEST_PAGE_BYTES));
        }
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| ApiError::bad_request(format!("The body is not valid JSON: {error}")))?;
        if !value.is_object() {
            return Err(ApiError::bad_request("The body must be a JSON object"));
        }
        let body = value.get("body").filter(|body| !body.is_null()).map(parse_body).transpose()?;
        Ok(Self {
            id: text(&value, "id")?,
            space_id: text(&value, "spaceId")?,
            status: text(&value, "status")?,
            title: text(&value, "title")?,
            parent_id: text(&value, "parentId")?,
            owner_id: text(&value, "ownerId")?,
            body,
            version: parse_version(&value)?,
        })
    }

    fn status(&self) -> Result<Option<Status>, ApiError> {
        match self.status.as_deref() {
            None => Ok(None),
            Some("current") => Ok(Some(Status::Current)),
            Some("draft") => Ok(Some(Status::Draft)),
            Some(other) => {
                Err(ApiError::bad_request(format!("'{other}' is not a status that can be written")))
            }
        }
    }

    fn title(&self) -> Result<Option<&str>, ApiError> {
        let title = self.title.as_deref().filter(|title| !title.trim().is_empty());
        if title.is_some_and(|title| title.chars().count() > LONGEST_TITLE) {
            return Err(ApiError::bad_request(format!("A title has at most {LONGEST_TITLE} characters")));
        }
        Ok(title)
    }
}

/// A string field. Numbers are taken too, as the real service coerces them.
fn text(value: &Value, name: &str) -> Result<Option<String>, ApiError> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(ApiError::bad_request(format!("'{name}' must be a string"))),
    }
}

/// Reads `version` {number, message}.
pub(super) fn parse_version(value: &Value) -> Result<Option<(i64, String)>, ApiError> {
    let Some(version) = value.get("version").filter(|version| !version.is_null()) else { return Ok(None) };
    let number = version.get("number").and_then(Value::as_i64);
    let number = number.ok_or_else(|| ApiError::bad_request("'version.number' must be a number"))?;
    Ok(Some((number, text(version, "message")?.unwrap_or_default())))
}

fn required<T>(value: Option<T>, name: &str) -> Result<T, ApiError> {
    value.ok_or_else(|| ApiError::bad_request(format!("'{name}' is required")))
}

/// A checked update.
struct Update {
    status: Status,
    title: String,
    body: Body,
    number: i64,
    message: String,
}

impl State {
    /// Creates a page or a draft and returns its id.
    pub(super) fn create_page(
        &mut self,
        who: &Who,
        input: PageInput,
        options: CreateOptions,
    ) -> Result<u64, ApiError> {
        let space = parse_id("spaceId", &required(input.space_id.clone(), "spaceId")?)?;
        let homepage = self.space_for(who, space, Right::Create)?.homepage;
        let status = input.status()?.unwrap_or(Status::Current);
        let title = input.title()?.unwrap_or_default().to_owned();
        if status == Status::Current {
            required(Some(title.as_str()).filter(|title| !title.is_empty()), "title")?;
        }
        let body = input.body.unwrap_or_else(|| Body::storage(""));
        self.check_body(&body)?;
        let parent = match (input.parent_id, options.root_level) {
            (Some(_), true) => {
                return Err(ApiError::bad_request("'parentId' cannot be given with root-level=true"));
            }
            (Some(text), false) => Some(self.parent_for(who, space, &text)?),
            (None, true) => None,
            (None, false) => Some(homepage),
        };
        if status == Status::Current {
            self.check_title(space, &title, None)?;
        }
        Ok(self.insert_page(&who.account_id, space, parent, status, &title, body, options.private))
    }

    /// Puts a new page in its place. The rules have been checked.
    #[expect(
        clippy::too_many_arguments,
        reason = "one caller per way of making a page, and each names all of them"
    )]
    pub(super) fn insert_page(
        &mut self,
        author: &str,
        space: u64,
        parent: Option<u64>,
        status: Status,
        title: &str,
        body: Body,
        private: bool,
    ) -> u64 {
        let id = self.ids.take();
        let version = self.first_version(author, "");
        let created_at = version.created_at;
        let snapshot = Snapshot { version, title: title.to_owned(), body };
        let (published, draft) =
            if status == Status::Draft { (Vec::new(), Some(snapshot)) } else { (vec![snapshot], None) };
        let author: Arc<str> = author.into();
        let page = Page {
            id,
            space,
            parent,
            status,
            position: self.next_position(space, parent),
            author: author.clone(),
            owner: author,
            last_owner: None,
            created_at,
            private,
            published,
            draft,
            labels: Vec::new(),
            likes: Vec::new(),
            favourites: Default::default(),
            platform_properties: false,
        };
        self.titled.entry(title.to_owned()).or_default().insert(id);
        self.pages.insert(id, Kept::new(page, created_at));
        id
    }

    /// Updates, publishes, moves or restores a page; the answer shows the state named by the result.
    pub(super) fn update_page(&mut self, who: &Who, id: u64, input: PageInput) -> Result<Which, ApiError> {
        let given = parse_id("id", &required(input.id.clone(), "id")?)?;
        if given != id {
            return Err(ApiError::bad_request("'id' in the body is not the id in the path"));
        }
        let status = required(input.status()?, "status")?;
        let title = required(input.title()?, "title")?.to_owned();
        let body = required(input.body, "body")?;
        let (number, message) = required(input.version, "version")?;
        self.check_body(&body)?;
        let page = self.page_for(who, id, Right::Edit)?;
        let (space, was, homepage) =
            (page.space, page.status, self.spaces.get(&page.space).map(|s| s.homepage));
        if was == Status::Archived {
            return Err(ApiError::bad_request("An archived page cannot be updated"));
        }
        if let Some(text) = &input.space_id {
            let target = self.space_for(who, parse_id("spaceId", text)?, Right::View)?.id;
            if target != space {
                return Err(ApiError::bad_request("A page cannot be moved to another space"));
            }
        }
        let parent = match &input.parent_id {
            Some(text) => Some(self.new_parent(who, space, id, text)?),
            None => None,
        };
        let owner = input.owner_id.map(|account| self.known_account(&account)).transpose()?;
        let update = Update { status, title, body, number, message };
        let shown = match (was, update.status) {
            (Status::Trashed, Status::Current) => self.restore_page(who, id, update, homepage)?,
            (Status::Trashed, _) => return Err(ApiError::bad_request("A page in the trash has no draft")),
            (_, Status::Draft) => self.save_draft(who, id, update)?,
            _ => self.publish_page(who, id, update)?,
        };
        if was != Status::Trashed {
            self.move_page(id, space, parent, owner);
        }
        Ok(shown)
    }

    /// A new published version, or the first one of a page that was only a draft.
    fn publish_page(&mut self, who: &Who, id: u64, update: Update) -> Result<Which, ApiError> {
        let page = self.page_for(who, id, Right::Edit)?;
        let (current, space) = (page.version_number(), page.space);
        let next = next_number("page", current, update.number)?;
        self.check_title(space, &update.title, Some(id))?;
        self.titled.entry(update.title.clone()).or_default().insert(id);
        let version = self.version(who, next, update.message);
        let at = version.created_at;
        let lag = self.lag();
        if let Some(kept) = self.pages.get_mut(&id) {
            let page = kept.write(at, lag);
            page.status = Status::Current;
            page.draft = None;
            page.published.push(Snapshot { version, title: update.title, body: update.body });
        }
        Ok(Which::Latest)
    }

    /// Replaces the draft; what is published stays untouched.
    fn save_draft(&mut self, who: &Who, id: u64, update: Update) -> Result<Which, ApiError> {
        if update.number != 1 {
            let current = self.page_for(who, id, Right::Edit)?.version_number();
            return Err(ApiError::stale_version("draft (it is always 1)", current, update.number));
        }
        let version = self.version(who, 1, update.message);
        let at = version.created_at;
        let lag = self.lag();
        if let Some(kept) = self.pages.get_mut(&id) {
            kept.write(at, lag).draft = Some(Snapshot { version, title: update.title, body: update.body });
        }
        Ok(Which::Draft)
    }

    /// Takes a page out of the bin. Its content is what it was; the content sent is ignored.
    fn restore_page(
        &mut self,
        who: &Who,
        id: u64,
        update: Update,
        homepage: Option<u64>,
    ) -> Result<Which, ApiError> {
        let page = self.page_for(who, id, Right::Edit)?;
        let next = next_number("page", page.version_number(), update.number)?;
        let (space, title) = (page.space, page.title().to_owned());
        let parent =
            page.parent.filter(|parent| self.is_live_page(*parent)).or(homepage.filter(|home| *home != id));
        self.check_title(space, &title, Some(id))?;
        let version = self.version(who, next, update.message);
        let at = version.created_at;
        let lag = self.lag();
        if let Some(kept) = self.pages.get_mut(&id) {
            let page = kept.write(at, lag);
            page.status = Status::Current;
            page.parent = parent;
            if let Some(last) = page.published.last().cloned() {
                page.published.push(Snapshot { version, ..last });
            }
        }
        Ok(Which::Latest)
    }

    /// Carries out the move and the change of owner that came with an update, as part of the same write.
    fn move_page(&mut self, id: u64, space: u64, parent: Option<u64>, owner: Option<Arc<str>>) {
        let was = self.pages.get(&id).and_then(|kept| kept.get().parent);
        let place = parent.filter(|parent| Some(*parent) != was);
        let place = place.map(|parent| (parent, self.next_position(space, Some(parent))));
        let Some(kept) = self.pages.get_mut(&id) else { return };
        let page = kept.amend();
        if let Some((parent, position)) = place {
            page.parent = Some(parent);
            page.position = position;
        }
        if let Some(owner) = owner.filter(|owner| *owner != page.owner) {
            page.last_owner = Some(std::mem::replace(&mut page.owner, owner));
        }
    }

    /// Deletes a page: into the bin, or a draft for good, or out of the bin for good.
    pub(super) fn delete_page(
        &mut self,
        who: &Who,
        id: u64,
        purge: bool,
        draft: bool,
    ) -> Result<(), ApiError> {
        let page = self.page_for(who, id, Right::Delete)?;
        let (space, status, parent) = (page.space, page.status, page.parent);
        if draft {
            return self.discard_draft(id);
        }
        if purge {
            if !self.may(who, space, Right::Admin) {
                return Err(ApiError::forbidden("Purging needs the administration of the space"));
            }
            if status != Status::Trashed {
                return Err(ApiError::not_found());
            }
            self.drop_page(id);
            return Ok(());
        }
        if matches!(status, Status::Trashed | Status::Draft) {
            return Err(ApiError::not_found());
        }
        if self.spaces.get(&space).is_some_and(|space| space.homepage == id) {
            return Err(ApiError::bad_request("The homepage of a space cannot be deleted"));
        }
        let at = self.clock.stamp();
        let lag = self.lag();
        for kept in self.pages.values_mut() {
            if kept.get().id == id {
                kept.write(at, lag).status = Status::Trashed;
            } else if kept.get().parent == Some(id) && kept.get().status != Status::Trashed {
                kept.write(at, lag).parent = parent;
            }
        }
        Ok(())
    }

    fn discard_draft(&mut self, id: u64) -> Result<(), ApiError> {
        let at = self.clock.stamp();
        let lag = self.lag();
        let Some(kept) = self.pages.get_mut(&id).filter(|kept| kept.get().draft.is_some()) else {
            return Err(ApiError::not_found());
        };
        if kept.get().published.is_empty() {
            self.drop_page(id);
        } else {
            kept.write(at, lag).draft = None;
        }
        Ok(())
    }

    /// Removes a page for good, with its properties, its attachments and the custom content in it.
    fn drop_page(&mut self, id: u64) {
        self.pages.remove(&id);
        self.last_positions.retain(|(_, parent), _| *parent != Some(id));
        self.titled.retain(|_, pages| {
            pages.remove(&id);
            !pages.is_empty()
        });
        self.drop_properties(Parent::Page(id));
        let contents: Vec<u64> = self
            .custom_contents
            .values()
            .filter(|content| content.page == Some(id))
            .map(|content| content.id)
            .collect();
        for content in &contents {
            self.custom_contents.remove(content);
            self.drop_properties(Parent::CustomContent(*content));
        }
        let gone = |container| match container {
            Container::Page(page) => page == id,
            Container::CustomContent(content) => contents.contains(&content),
        };
        let attachments: Vec<u64> = self
            .attachments
            .values()
            .map(Kept::get)
            .filter(|attachment| gone(attachment.container))
            .map(|attachment| attachment.id)
            .collect();
        for attachment in attachments {
            self.drop_attachment(attachment);
        }
    }

    /// Titles are unique among the current and archived pages of a space, by exact comparison.
    pub(super) fn check_title(&self, space: u64, title: &str, but: Option<u64>) -> Result<(), ApiError> {
        let candidates = self.titled.get(title).into_iter().flatten();
        let taken = candidates.filter_map(|id| self.pages.get(id)).map(Kept::get).any(|page| {
            page.space == space
                && Some(page.id) != but
                && matches!(page.status, Status::Current | Status::Archived)
                && page.title() == title
        });
        if taken {
            return Err(ApiError::bad_request(format!(
                "A page with this title already exists in the space: {title}"
            )));
        }
        Ok(())
    }

    fn check_body(&self, body: &Body) -> Result<(), ApiError> {
        if !self.switches.check_storage_format || body.representation != Representation::Storage {
            return Ok(());
        }
        check_well_formed(&body.value).map_err(|why| {
            ApiError::bad_request(format!("The body in storage format is not well-formed: {why}"))
        })
    }

    fn is_live_page(&self, id: u64) -> bool {
        self.pages.get(&id).is_some_and(|kept| kept.get().status != Status::Trashed)
    }

    /// A parent by the text of its id: a live page of the same space that the caller sees; 404 otherwise.
    fn parent_for(&self, who: &Who, space: u64, text: &str) -> Result<u64, ApiError> {
        let parent = self.page_for(who, parse_id("parentId", text)?, Right::View)?;
        if parent.space != space || parent.status == Status::Trashed {
            return Err(ApiError::not_found());
        }
        Ok(parent.id)
    }

    /// A parent to move a page under: as above, and not the page itself nor below it.
    fn new_parent(&self, who: &Who, space: u64, page: u64, text: &str) -> Result<u64, ApiError> {
        let parent = self.parent_for(who, space, text)?;
        let mut above = Some(parent);
        // As many steps as there are pages: a loop in the tree, which this very check prevents, could not hang it.
        for _ in 0..=self.pages.len() {
            match above {
                Some(id) if id == page => {
                    return Err(ApiError::bad_request(
                        "A page cannot be moved under itself or a page below it",
                    ));
                }
                Some(id) => above = self.pages.get(&id).and_then(|kept| kept.get().parent),
                None => break,
            }
        }
        Ok(parent)
    }

    /// The position after the last sibling.
    fn next_position(&mut self, space: u64, parent: Option<u64>) -> i32 {
        let last = self.last_positions.entry((space, parent)).or_insert(0);
        *last = last.saturating_add(POSITION_STEP);
        *last
    }

    fn known_account(&self, account: &str) -> Result<Arc<str>, ApiError> {
        let known = self.users.iter().any(|user| user.account_id == account);
        if known { Ok(account.into()) } else { Err(ApiError::bad_request("'ownerId' names no user")) }
    }

    fn version(&mut self, who: &Who, number: u32, message: String) -> Version {
        Version { message, number, ..self.first_version(&who.account_id, "") }
    }
}

/// The number of the next version, if that is what was sent; 409 with both numbers otherwise.
pub(super) fn next_number(what: &str, current: u32, sent: i64) -> Result<u32, ApiError> {
    let next = current.saturating_add(1);
    if sent == i64::from(next) { Ok(next) } else { Err(ApiError::stale_version(what, current, sent)) }
}
