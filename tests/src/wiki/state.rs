//! Everything the wiki knows, and the rules about who sees what. No HTTP in here: the modules beside this one add the
//! transitions (`create_page`, `delete_attachment` and so on), each a function of the state and its input.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::{Clock, Ids, Moment};
use super::error::ApiError;
use super::model::{
    Attachment, Container, CustomContent, Kept, Page, Parent, Property, Space, Status, Version,
};
use super::users::{Right, User, Who};
use super::words::Words;

/// Ways in which the wiki behaves differently, all off unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Switches {
    /// `next` links leave out the leading `/wiki`, as older examples of the vendor show.
    pub old_next_links: bool,
    /// Lists show the wiki as it was this many milliseconds ago, while a get by id shows it as it is.
    pub list_lag_ms: u64,
    /// The platform adds two properties of its own (`editor`, `content-appearance-published`) to each page this many
    /// milliseconds after its creation, so that creating one of them by hand can meet a conflict.
    pub platform_properties_after_ms: Option<u64>,
    /// Bodies in storage format must be well-formed. On by default.
    pub check_storage_format: bool,
    /// The user at `/authorize` declines.
    pub deny_consent: bool,
    /// The token endpoint takes JSON only. Off by default: client libraries send forms, and the real endpoint takes both.
    pub json_tokens_only: bool,
    /// A self-hosted wiki: passwords are accepted, and only the older API exists.
    pub self_hosted: bool,
    /// The words of the product; neutral ones unless said otherwise.
    pub words: Words,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            old_next_links: false,
            list_lag_ms: 0,
            platform_properties_after_ms: None,
            check_storage_format: true,
            deny_consent: false,
            json_tokens_only: false,
            self_hosted: false,
            words: Words::default(),
        }
    }
}

/// The state of the wiki. A test reaches it through `seed` of the builder or of the running simulator.
#[derive(Debug)]
pub struct State {
    pub(super) clock: Clock,
    pub(super) ids: Ids,
    pub(super) switches: Switches,
    /// `http://host:port`, known once the simulator listens.
    pub(super) base_url: String,
    pub(super) users: Vec<User>,
    pub(super) spaces: BTreeMap<u64, Space>,
    pub(super) pages: BTreeMap<u64, Kept<Page>>,
    pub(super) attachments: BTreeMap<u64, Kept<Attachment>>,
    pub(super) custom_contents: BTreeMap<u64, CustomContent>,
    pub(super) properties: BTreeMap<u64, Kept<Property>>,
    /// The pages that have, or once had, a title: where to look for a title that is taken.
    pub(super) titled: HashMap<String, BTreeSet<u64>>,
    /// The last position given among the children of a page, or at the root of a space.
    pub(super) last_positions: HashMap<(u64, Option<u64>), i32>,
}

impl State {
    pub(super) fn new(clock: Clock, first_id: u64, users: Vec<User>) -> Self {
        Self {
            clock,
            ids: Ids::starting_at(first_id),
            switches: Switches::default(),
            base_url: String::new(),
            users,
            spaces: BTreeMap::new(),
            pages: BTreeMap::new(),
            attachments: BTreeMap::new(),
            custom_contents: BTreeMap::new(),
            properties: BTreeMap::new(),
            titled: HashMap::new(),
            last_positions: HashMap::new(),
        }
    }

    /// How far lists lag behind writes.
    pub(super) fn lag(&self) -> Duration {
        Duration::from_millis(self.switches.list_lag_ms)
    }

    /// The last moment whose writes a list shows.
    pub(super) fn list_cutoff(&self) -> Moment {
        if self.lag().is_zero() { Moment::MAX } else { self.clock.now().minus(self.lag()) }
    }

    /// Version 1 of something, made now.
    pub(super) fn first_version(&mut self, author: &str, message: &str) -> Version {
        Version {
            number: 1,
            message: message.to_owned(),
            minor_edit: false,
            author: author.into(),
            created_at: self.clock.stamp(),
        }
    }

    pub(super) fn may(&self, who: &Who, space: u64, right: Right) -> bool {
        let user = self.users.iter().find(|user| user.account_id == who.account_id);
        let space = self.spaces.get(&space);
        user.zip(space).is_some_and(|(user, space)| user.permissions_in(&space.key).allow(right))
    }

    /// The space, if the caller has this right in it; 404 otherwise.
    pub(super) fn space_for(&self, who: &Who, id: u64, right: Right) -> Result<&Space, ApiError> {
        match self.spaces.get(&id) {
            Some(space) if self.may(who, id, right) => Ok(space),
            _ => Err(ApiError::not_found()),
        }
    }

    pub(super) fn sees_page(&self, who: &Who, page: &Page) -> bool {
        self.may(who, page.space, Right::View) && (!page.private || *page.author == *who.account_id)
    }

    /// The page, whatever its status, if the caller has this right on it; 404 otherwise.
    pub(super) fn page_for(&self, who: &Who, id: u64, right: Right) -> Result<&Page, ApiError> {
        match self.pages.get(&id).map(Kept::get) {
            Some(page) if self.sees_page(who, page) && self.may(who, page.space, right) => Ok(page),
            _ => Err(ApiError::not_found()),
        }
    }

    /// The space and the page that a container stands in.
    pub(super) fn place_of(&self, container: Container) -> Option<(u64, Option<&Page>)> {
        let page = match container {
            Container::Page(page) => Some(page),
            Container::CustomContent(id) => {
                let content = self.custom_contents.get(&id)?;
                if content.page.is_none() {
                    return Some((content.space, None));
                }
                content.page
            }
        };
        let page = self.pages.get(&page?)?.get();
        Some((page.space, Some(page)))
    }

    fn may_in_container(&self, who: &Who, container: Container, right: Right) -> bool {
        self.place_of(container).is_some_and(|(space, page)| {
            self.may(who, space, right) && page.is_none_or(|page| self.sees_page(who, page))
        })
    }

    pub(super) fn sees_attachment(&self, who: &Who, attachment: &Attachment) -> bool {
        self.may_in_container(who, attachment.container, Right::View)
    }

    /// The attachment, whatever its status, if the caller has this right on it; 404 otherwise.
    pub(super) fn attachment_for(&self, who: &Who, id: u64, right: Right) -> Result<&Attachment, ApiError> {
        match self.attachments.get(&id).map(Kept::get) {
            Some(attachment) if self.may_in_container(who, attachment.container, right) => Ok(attachment),
            _ => Err(ApiError::not_found()),
        }
    }

    /// The custom content, if the caller has this right on it; 404 otherwise.
    pub(super) fn custom_content_for(
        &self,
        who: &Who,
        id: u64,
        right: Right,
    ) -> Result<&CustomContent, ApiError> {
        match self.custom_contents.get(&id) {
            Some(content) if self.may_in_container(who, Container::CustomContent(id), right) => Ok(content),
            _ => Err(ApiError::not_found()),
        }
    }

    /// Checks that properties of `parent` can be reached: it exists, is not in the bin, and the caller has the right.
    pub(super) fn property_parent(&self, who: &Who, parent: Parent, right: Right) -> Result<(), ApiError> {
        let in_the_bin = match parent {
            Parent::Page(id) => self.page_for(who, id, right)?.status == Status::Trashed,
            Parent::Attachment(id) => self.attachment_for(who, id, right)?.status == Status::Trashed,
            Parent::CustomContent(id) => {
                self.custom_content_for(who, id, right)?;
                false
            }
        };
        if in_the_bin { Err(ApiError::not_found()) } else { Ok(()) }
    }

    /// The account that seeded records belong to.
    pub(super) fn seeding_account(&self) -> Arc<str> {
        self.users.first().map_or("system", |user| user.account_id.as_str()).into()
    }

    /// Removes every property of a parent.
    pub(super) fn drop_properties(&mut self, parent: Parent) {
        self.properties.retain(|_, property| property.get().parent != parent);
    }

    /// Removes an attachment for good, with its properties.
    pub(super) fn drop_attachment(&mut self, id: u64) {
        self.attachments.remove(&id);
        self.drop_properties(Parent::Attachment(id));
    }
}
