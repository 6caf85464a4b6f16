//! The state of the wiki: its time, one kind of record for all content, and the lookup of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::auth::OAuth;
use super::call::ApiError;
use super::faults::Script;
use super::seed::ACCOUNT_ID;
use super::text::Format;
use super::traffic::{Limits, Log};

/// Deviations from the usual behaviour, all off by default.
#[derive(Clone, Debug, PartialEq)]
pub struct Switches {
    /// `next` links leave out the leading `/wiki`, as older examples of the vendor show.
    pub old_next_links: bool,
    /// The user at `/authorize` declines.
    pub deny_consent: bool,
    /// The name of the JSON format of texts: `wiki_doc_format` by default.
    pub document_format: &'static str,
}

impl Default for Switches {
    fn default() -> Self {
        Self { old_next_links: false, deny_consent: false, document_format: "wiki_doc_format" }
    }
}

/// The kinds of content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Kind {
    Space,
    #[default]
    Page,
    Attachment,
    CustomContent,
}

/// The kinds with their names in paths and in scopes.
const KINDS: [(Kind, &str, &str); 4] = [
    (Kind::Space, "spaces", "space"),
    (Kind::Page, "pages", "page"),
    (Kind::Attachment, "attachments", "attachment"),
    (Kind::CustomContent, "custom-content", "custom-content"),
];

impl Kind {
    pub(super) fn of_path(segment: &str) -> Option<Self> {
        KINDS.iter().find(|(_, path, _)| *path == segment).map(|(kind, ..)| *kind)
    }

    pub(super) fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or("", |(.., name)| name)
    }
}

/// The status of content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Status {
    /// Published.
    #[default]
    Current,
    /// Never published; in no list.
    Draft,
    /// Archived; listed by default.
    Archived,
    /// In the trash; a purge removes it for good.
    Trashed,
}

impl Status {
    /// The name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Draft => "draft",
            Self::Archived => "archived",
            Self::Trashed => "trashed",
        }
    }
}

/// Number, message, author and time of a write.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Version {
    pub(super) number: u32,
    pub(super) message: String,
    pub(super) minor_edit: bool,
    pub(super) author_id: &'static str,
    pub(super) created_at: Moment,
}

/// The body of content as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Body {
    Text(Format, String),
    File { media_type: String, comment: String, file_id: String, bytes: Bytes },
}

/// A published state of content, or the draft of one.
#[derive(Clone, Debug)]
pub(super) struct Revision {
    pub(super) version: Version,
    /// The title of a page, the name of a space, the file name of an attachment.
    pub(super) title: String,
    pub(super) body: Body,
}

/// A content property. The value is the received text, so that it is returned digit by digit.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Property {
    #[serde(serialize_with = "super::views::as_text")]
    pub(super) id: u64,
    pub(super) key: String,
    pub(super) value: Box<RawValue>,
    pub(super) version: Version,
}

/// A space, a page, an attachment or custom content.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) id: u64,
    pub(super) kind: Kind,
    /// The space that holds it; a space holds itself.
    pub(super) space: u64,
    /// The page above a page, the container of an attachment or of custom content.
    pub(super) parent: Option<u64>,
    pub(super) status: Status,
    /// Of a space, as is `homepage`.
    pub(super) key: String,
    /// The type of a space or of custom content.
    pub(super) subtype: String,
    pub(super) homepage: u64,
    pub(super) position: i32,
    pub(super) created_at: Moment,
    /// Published revisions, oldest first; none for a page that was never published.
    pub(super) published: Vec<Revision>,
    pub(super) draft: Option<Revision>,
    pub(super) labels: Vec<Value>,
    pub(super) likes: Vec<String>,
    pub(super) favourites: Vec<String>,
    /// In the order of their ids.
    pub(super) properties: Vec<Property>,
}

impl Content {
    /// The last published revision, or the draft of a page that was never published.
    pub(super) fn latest(&self) -> Option<&Revision> {
        self.published.last().or(self.draft.as_ref())
    }

    pub(super) fn title(&self) -> &str {
        self.latest().map_or("", |revision| revision.title.as_str())
    }

    /// The number of the last published version; 0 for none.
    pub(super) fn number(&self) -> u32 {
        self.published.last().map_or(0, |revision| revision.version.number)
    }
}

/// The state of the wiki.
#[derive(Debug, Default)]
pub struct State {
    pub(super) clock: Clock,
    /// Ids are never reused.
    pub(super) next_id: u64,
    pub(super) switches: Switches,
    /// `http://host:port`.
    pub(super) base_url: String,
    /// The origin that downloads redirect to.
    pub(super) media_url: String,
    pub(super) contents: BTreeMap<u64, Content>,
    pub(super) oauth: OAuth,
    pub(super) limits: Limits,
    pub(super) script: Script,
    pub(super) log: Log,
    /// The answer of `/oauth/token/accessible-resources`, in place of the site.
    pub(super) resources: Option<Value>,
}

impl State {
    pub(super) fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// A version written now.
    pub(super) fn version(&mut self, number: u32, message: String) -> Version {
        let created_at = self.clock.stamp();
        Version { number, message, minor_edit: false, author_id: ACCOUNT_ID, created_at }
    }

    /// Adds content with a published revision, or one saved as a draft.
    pub(super) fn insert(&mut self, content: Content, revision: Revision) -> u64 {
        let (id, created_at) = (self.take_id(), revision.version.created_at);
        let space = if content.kind == Kind::Space { id } else { content.space };
        let mut content = Content { id, space, created_at, ..content };
        match content.status {
            Status::Draft => content.draft = Some(revision),
            _ => content.published.push(revision),
        }
        self.contents.insert(id, content);
        id
    }

    pub(super) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Content> {
        self.contents.values().filter(move |content| content.kind == kind)
    }

    /// The content of a kind, in any status.
    pub(super) fn find(&self, kind: Kind, id: u64) -> Result<&Content, ApiError> {
        self.contents.get(&id).filter(|content| content.kind == kind).ok_or_else(ApiError::not_found)
    }

    pub(super) fn content_mut(&mut self, id: u64) -> Result<&mut Content, ApiError> {
        self.contents.get_mut(&id).ok_or_else(ApiError::not_found)
    }

    pub(super) fn is_trashed(&self, id: u64) -> bool {
        self.contents.get(&id).is_none_or(|content| content.status == Status::Trashed)
    }

    /// Removes content for good, with its properties and the attachments and custom content in it.
    pub(super) fn remove(&mut self, id: u64) {
        self.contents.remove(&id);
        let inside = |content: &&Content| content.parent == Some(id) && content.kind != Kind::Page;
        let inside: Vec<u64> = self.contents.values().filter(inside).map(|content| content.id).collect();
        for id in inside {
            self.remove(id);
        }
    }
}

/// A point in time, written as the wiki writes dates: `2026-01-15T09:00:00.000Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Moment(Timestamp);

impl Moment {
    /// The moment this many milliseconds after 1970; the epoch itself for a number outside of the calendar.
    pub fn from_millis(milliseconds: i64) -> Self {
        Self(Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// Reads an ISO 8601 instant such as `2026-01-15T09:00:00Z`.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }

    /// Milliseconds since 1970.
    pub fn millis(self) -> i64 {
        self.0.as_millisecond()
    }

    /// The moment this much later; the last of the calendar at most.
    pub fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time).unwrap_or(Timestamp::MAX))
    }

    /// The form of HTTP headers: `Thu, 15 Jan 2026 09:00:00 GMT`.
    pub fn http_date(self) -> String {
        self.0.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The clock of a simulator.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// The start of a fixed clock; `None` follows the machine.
    start: Option<Moment>,
    ahead: Duration,
    last_write: i64,
}

impl Clock {
    /// A clock that moves only when it is advanced, and by a millisecond for a write at the time of the last one.
    pub fn fixed(start: Moment) -> Self {
        Self { start: Some(start), ..Self::default() }
    }

    /// The machine's clock.
    pub fn system() -> Self {
        Self::default()
    }

    /// The current time.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the simulator reads the machine's clock"
    )]
    pub fn now(&self) -> Moment {
        let base = || Moment(Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH));
        self.start.unwrap_or_else(base).plus(self.ahead)
    }

    /// Moves the clock forwards.
    pub fn advance(&mut self, by: Duration) {
        self.ahead = self.ahead.saturating_add(by);
    }

    /// The time of a write, at least a millisecond later than the write before.
    pub(super) fn stamp(&mut self) -> Moment {
        let late = self.last_write + 1 - self.now().millis();
        self.advance(Duration::from_millis(u64::try_from(late).unwrap_or(0)));
        self.last_write = self.now().millis();
        self.now()
    }
}
