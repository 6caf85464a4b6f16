//! The records the wiki keeps: spaces, pages, attachments, custom content and content properties.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::clock::Moment;

/// The status of a piece of content, as responses show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Published and in its place.
    Current,
    /// Being written; never in a list.
    Draft,
    /// Put away, still listed by default.
    Archived,
    /// In the bin; a purge removes it for good.
    Trashed,
    /// Gone. Accepted as a filter, never kept.
    Deleted,
    /// An earlier version, when one is asked for by number.
    Historical,
}

impl Status {
    /// The status of this name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "current" => Self::Current,
            "draft" => Self::Draft,
            "archived" => Self::Archived,
            "trashed" => Self::Trashed,
            "deleted" => Self::Deleted,
            "historical" => Self::Historical,
            _ => return None,
        })
    }
}

/// How a body is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Representation {
    /// XHTML-like storage format.
    Storage,
    /// A document in JSON, carried inside a string.
    WikiDocFormat,
    /// Wiki markup.
    Wiki,
}

impl Representation {
    /// The representation of this name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "storage" => Self::Storage,
            "wiki_doc_format" => Self::WikiDocFormat,
            "wiki" => Self::Wiki,
            _ => return None,
        })
    }
}

/// The text of a page as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Body {
    pub(super) representation: Representation,
    pub(super) value: Arc<str>,
}

impl Body {
    pub(super) fn storage(value: &str) -> Self {
        Self { representation: Representation::Storage, value: value.into() }
    }
}

/// Number, message, author and time of one version of anything.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Version {
    pub(super) number: u32,
    pub(super) message: String,
    pub(super) minor_edit: bool,
    pub(super) author: Arc<str>,
    pub(super) created_at: Moment,
}

/// A space: seeded, never written through the API.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) id: u64,
    pub(super) key: String,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) status: Status,
    pub(super) author: Arc<str>,
    pub(super) created_at: Moment,
    pub(super) homepage: u64,
    pub(super) description: String,
    pub(super) labels: Vec<Label>,
    pub(super) favourites: BTreeSet<String>,
}

/// A label of a page, an attachment or a space.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Label {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) prefix: String,
}

/// One published state of a page, or the draft of one.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) version: Version,
    pub(super) title: String,
    pub(super) body: Body,
}

/// A page with its history.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) id: u64,
    pub(super) space: u64,
    pub(super) parent: Option<u64>,
    /// Current, archived or trashed; draft for a page that was never published.
    pub(super) status: Status,
    pub(super) position: i32,
    pub(super) author: Arc<str>,
    pub(super) owner: Arc<str>,
    pub(super) last_owner: Option<Arc<str>>,
    pub(super) created_at: Moment,
    /// Only the author sees it.
    pub(super) private: bool,
    /// Published versions, oldest first; empty for a page that was never published.
    pub(super) published: Vec<Snapshot>,
    pub(super) draft: Option<Snapshot>,
    pub(super) labels: Vec<Label>,
    pub(super) likes: Vec<Arc<str>>,
    pub(super) favourites: BTreeSet<String>,
    /// The properties that the platform adds by itself have been added.
    pub(super) platform_properties: bool,
}

/// Which state of a page is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    /// The last published one, or the draft of a page that was never published.
    Latest,
    /// The draft.
    Draft,
    /// A published one by its number.
    Number(u32),
}

impl Page {
    /// The state asked for with the status that it is shown under; nothing when there is none such.
    pub(super) fn state(&self, which: Which) -> Option<(Status, &Snapshot)> {
        match which {
            Which::Latest => match self.published.last() {
                Some(latest) => Some((self.status, latest)),
                None => self.state(Which::Draft),
            },
            Which::Draft => self.draft.as_ref().map(|draft| (Status::Draft, draft)),
            Which::Number(number) => {
                let latest = self.published.last()?.version.number;
                let snapshot = self.published.iter().find(|snapshot| snapshot.version.number == number)?;
                Some((if number == latest { self.status } else { Status::Historical }, snapshot))
            }
        }
    }

    /// The title as lists and the uniqueness rule see it.
    pub(super) fn title(&self) -> &str {
        self.state(Which::Latest).map_or("", |(_, snapshot)| snapshot.title.as_str())
    }

    /// The number of the last published version; 0 when never published.
    pub(super) fn version_number(&self) -> u32 {
        self.published.last().map_or(0, |snapshot| snapshot.version.number)
    }
}

/// The owner of an attachment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Container {
    Page(u64),
    CustomContent(u64),
}

/// One version of a file.
#[derive(Clone, Debug)]
pub(super) struct FileVersion {
    pub(super) version: Version,
    pub(super) media_type: String,
    pub(super) comment: String,
    pub(super) file_id: String,
    pub(super) bytes: Bytes,
}

/// An attachment with its history.
#[derive(Clone, Debug)]
pub(super) struct Attachment {
    pub(super) id: u64,
    pub(super) container: Container,
    /// Current, archived or trashed.
    pub(super) status: Status,
    pub(super) title: String,
    pub(super) created_at: Moment,
    /// Oldest first.
    pub(super) versions: Vec<FileVersion>,
    pub(super) labels: Vec<Label>,
}

impl Attachment {
    /// The version of this number, or the last one.
    pub(super) fn version(&self, number: Option<u32>) -> Option<&FileVersion> {
        match number {
            None => self.versions.last(),
            Some(number) => self.versions.iter().find(|file| file.version.number == number),
        }
    }
}

/// A piece of custom content: here only as the parent of properties.
#[derive(Clone, Debug)]
pub(super) struct CustomContent {
    pub(super) id: u64,
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) space: u64,
    pub(super) page: Option<u64>,
    pub(super) body: Body,
    pub(super) version: Version,
}

/// The owner of a content property.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Parent {
    /// A page, by its id.
    Page(u64),
    /// An attachment, by the number of its id.
    Attachment(u64),
    /// A piece of custom content, by its id.
    CustomContent(u64),
}

/// A content property. The value is kept as the text that was sent, so that it comes back exactly.
#[derive(Clone, Debug)]
pub(super) struct Property {
    pub(super) id: u64,
    pub(super) parent: Parent,
    pub(super) key: String,
    pub(super) value: Box<RawValue>,
    pub(super) version: Version,
}

/// A record and, while lists lag behind writes, what it was before.
#[derive(Clone, Debug)]
pub(super) struct Kept<T> {
    now: T,
    written_at: Moment,
    past: Vec<(Moment, T)>,
}

impl<T: Clone> Kept<T> {
    pub(super) fn new(record: T, at: Moment) -> Self {
        Self { now: record, written_at: at, past: Vec::new() }
    }

    /// The record as a get by id shows it.
    pub(super) fn get(&self) -> &T {
        &self.now
    }

    /// Opens the record for a write at `at`. The past is kept only as far as a list that lags by `lag` can see it.
    pub(super) fn write(&mut self, at: Moment, lag: Duration) -> &mut T {
        if lag.is_zero() {
            self.past.clear();
        } else {
            self.past.push((self.written_at, self.now.clone()));
            let cutoff = at.minus(lag);
            let oldest_needed = self.past.iter().rposition(|(written, _)| *written <= cutoff).unwrap_or(0);
            self.past.drain(..oldest_needed);
        }
        self.written_at = at;
        &mut self.now
    }

    /// Opens the record to add to the write that was made last.
    pub(super) fn amend(&mut self) -> &mut T {
        &mut self.now
    }

    /// The record as a list shows it that knows only the writes up to `cutoff`; nothing when it is younger.
    pub(super) fn seen_at(&self, cutoff: Moment) -> Option<&T> {
        if self.written_at <= cutoff {
            return Some(&self.now);
        }
        self.past.iter().rev().find(|(written, _)| *written <= cutoff).map(|(_, record)| record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Moment {
        Moment::from_millis(millis)
    }

    #[test]
    fn a_lagging_list_sees_each_record_as_it_was() {
        let lag = Duration::from_millis(100);
        let mut kept = Kept::new("first", at(1_000));
        *kept.write(at(1_050), lag) = "second";
        *kept.write(at(1_090), lag) = "third";
        assert_eq!(*kept.get(), "third");
        assert_eq!(kept.seen_at(at(999)), None);
        assert_eq!(kept.seen_at(at(1_000)), Some(&"first"));
        assert_eq!(kept.seen_at(at(1_060)), Some(&"second"));
        assert_eq!(kept.seen_at(at(1_090)), Some(&"third"));
    }

    #[test]
    fn the_past_is_forgotten_once_no_list_can_see_it() {
        let lag = Duration::from_millis(100);
        let mut kept = Kept::new(0, at(0));
        for step in 1..1_000_i32 {
            *kept.write(at(i64::from(step) * 10), lag) = step;
        }
        assert!(kept.past.len() <= 12, "{} states kept", kept.past.len());
        *kept.write(at(20_000), Duration::ZERO) = -1;
        assert!(kept.past.is_empty());
    }
}
