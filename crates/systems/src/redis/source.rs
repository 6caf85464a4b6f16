//! Messages for triggers: a consumer of a group. The server keeps the entries that it has brought as pending ones of the consumer until
//! they are acknowledged. They are read again by their ids, one by one, so that their sizes do not add up.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connector::{Fate, Message, MessageSource, SourceOptions, TakeLimits};
use futures_util::future::BoxFuture;
use model::{ActionError, ErrorKind};
use redis::Value as Reply;
use tokio::time::Instant;
use value::Value;

use super::SUBJECT;
use super::actions::command;
use super::entry::{Entry, entries, read_entries};
use super::group::{EntryId, GroupId, Groups, group_id};
use super::link::{Link, integer_of, list_of, text_of, unexpected};
use crate::stream::body::{REASON, one_line};
use crate::stream::links::{Shared as _, refused};

/// The time after which a pending entry of another consumer is taken over: its daemon is gone. It is longer than a commit takes, and than the
/// pause before a message is tried again.
const MIN_IDLE: Duration = Duration::from_secs(120);
/// The time between two looks for such entries.
const CLAIM_INTERVAL: Duration = Duration::from_secs(30);
/// The largest number of ids of one reply.
const PAGE: usize = 500;
/// The largest number of entries that are to be read again. Beyond it no new ones are read.
const MAX_LATER: usize = 1000;
/// The number of deleted entries that an error names.
const MAX_NAMED: usize = 5;

/// A pending entry that is to be read again.
struct Later {
    at: Instant,
    id: String,
    /// True if it was brought before.
    redelivered: bool,
}

/// An open consumer.
pub(super) struct Source {
    link: Link,
    id: GroupId,
    groups: Arc<Groups>,
    stream: String,
    group: String,
    consumer: String,
    /// The request for new entries, which goes on if nobody waits for it any more.
    asked: Option<BoxFuture<'static, Result<Reply, ActionError>>>,
    /// The entries that have come, and true for the ones that were brought before.
    ready: VecDeque<(Entry, bool)>,
    /// The pending entries that are to be read again.
    later: VecDeque<Later>,
    /// The start of the next page of the entries that an earlier process has left pending; `None` behind the last page. New entries come
    /// after them.
    left: Option<String>,
    /// The time of the next look for entries of other consumers, and where it begins.
    claim: (Instant, String),
    /// The pending entries that somebody has deleted from the stream.
    deleted: Vec<String>,
    /// The messages that are not settled, by token.
    open: HashMap<u64, Entry>,
    next_token: u64,
    /// The average size of the last messages, in bytes.
    size: usize,
}

impl Source {
    pub(super) async fn open(options: SourceOptions<'_>, groups: Arc<Groups>) -> Result<Self, ActionError> {
        let text = |name: &str| options.inputs.get(name).map(Value::to_text).unwrap_or_default();
        let (stream, group) = (text("stream"), text("group"));
        let link = Link::open(options.into()).await?;
        let mut source = Self {
            link,
            id: group_id(options.connection, &stream, &group),
            groups,
            stream,
            group,
            consumer: options.consumer.to_owned(),
            asked: None,
            ready: VecDeque::new(),
            later: VecDeque::new(),
            left: Some("-".to_owned()),
            claim: (Instant::now(), "0-0".to_owned()),
            deleted: Vec::new(),
            open: HashMap::new(),
            next_token: 0,
            size: 0,
        };
        source.create_group(options.from_oldest).await?;
        Ok(source)
    }

    /// Creates the group if it is missing. One whose position is known was deleted, and goes on there.
    async fn create_group(&mut self, from_oldest: bool) -> Result<(), ActionError> {
        let known = self.groups.position(&self.id);
        let from = match known {
            Some(known) => self.successor(known).await?,
            None if from_oldest => "0".to_owned(),
            None => "$".to_owned(),
        };
        let create = command("XGROUP", &["CREATE", &self.stream, &self.group, &from, "MKSTREAM"]);
        match self.link.ask(&create).await {
            Ok(_) if known.is_some() => {
                let (stream, group) = (&self.stream, &self.group);
                tracing::warn!(stream, group, from, "a consumer group was deleted; it was created again");
            }
            Ok(_) => {}
            // An account may use a group that others have created; `look` fails if it is missing.
            Err(error) if matches!(error.code.as_deref(), Some("BUSYGROUP" | "NOPERM")) => {}
            Err(error) => return Err(self.failed(error)),
        }
        self.look().await.map(drop)
    }

    /// Returns the start position of a new group in place of a deleted one; `0` if the stream was replaced too.
    async fn successor(&mut self, known: EntryId) -> Result<String, ActionError> {
        let stream = match self.link.ask(&command("XINFO", &["STREAM", &self.stream])).await {
            Ok(stream) => fields_of(stream)?,
            Err(error) if error.code.as_deref() == Some("ERR") => return Ok("0".to_owned()),
            Err(error) => return Err(self.failed(error)),
        };
        let last = stream.get("last-generated-id").and_then(id_of);
        Ok(last.filter(|last| *last >= known).map_or_else(|| "0".to_owned(), |_| known.to_string()))
    }

    /// Asks for the number of waiting entries, and notes up to which one all are acknowledged.
    async fn look(&mut self) -> Result<Option<u64>, ActionError> {
        let groups = self.link.ask(&command("XINFO", &["GROUPS", &self.stream])).await;
        let mut found = None;
        for group in list_of(groups.map_err(|error| self.failed(error))?)? {
            let group = fields_of(group)?;
            if group
                .get("name")
                .is_some_and(|name| matches!(name, Reply::BulkString(name) if name == self.group.as_bytes()))
            {
                found = Some(group);
            }
        }
        let Some(found) = found else {
            let (group, stream) = (&self.group, &self.stream);
            let message = format!("{SUBJECT} has no group `{group}` of the stream `{stream}` any more");
            return Err(self.failed(refused(message).with_code("NOGROUP")));
        };
        let pending = self.link.ask(&self.command("XPENDING", &[])).await;
        let pending = list_of(pending.map_err(|error| self.failed(error))?)?;
        let oldest = pending.get(1).and_then(id_of).map(EntryId::before);
        if let Some(last) = found.get("last-delivered-id").and_then(id_of) {
            self.groups.note(self.id, oldest.map_or(last, |oldest| oldest.min(last)));
        }
        let number = |value: Option<&Reply>| u64::try_from(integer_of(value?).ok()?).ok();
        let own = u64::try_from(self.open.len() + self.ready.len()).unwrap_or(u64::MAX);
        // Includes entries to be tried again, and pending entries of ended consumers.
        let others = number(pending.first()).unwrap_or_default().saturating_sub(own);
        Ok(number(found.get("lag")).map(|lag| lag.saturating_add(others)))
    }

    /// A command for the stream and the group.
    fn command(&self, name: &str, arguments: &[&str]) -> redis::Cmd {
        let mut command = command(name, &[&self.stream, &self.group]);
        for argument in arguments {
            command.arg(*argument);
        }
        command
    }

    fn failed(&self, mut error: ActionError) -> ActionError {
        let Self { stream, group, .. } = self;
        if error.code.is_some() {
            let about = format!("the group `{group}` of the stream `{stream}` cannot be read: ");
            error.message.insert_str(0, &about);
        }
        error
    }

    /// Looks for entries that are to be read again, and tells of deleted ones.
    async fn tend(&mut self) -> Result<(), ActionError> {
        if !self.deleted.is_empty() {
            let (count, stream) = (self.deleted.len(), &self.stream);
            let named: Vec<&str> = self.deleted.iter().take(MAX_NAMED).map(String::as_str).collect();
            let more = if count > MAX_NAMED { ", …" } else { "" };
            let entries = if count == 1 { "entry was" } else { "entries were" };
            return Err(refused(format!(
                "{count} {entries} deleted from the stream `{stream}` before their acknowledgement, and may have started nothing: \
                 {}{more}; let it keep more entries (`MAXLEN`), or run the automation more often",
                named.join(", ")
            )));
        }
        if self.is_due() {
            return Ok(());
        }
        if self.left.is_some() {
            return self.read_left().await;
        }
        if self.later.len() < MAX_LATER && self.claim.0 <= Instant::now() {
            return self.take_over().await;
        }
        Ok(())
    }

    /// Reads a page of the ids of entries that an earlier process of this consumer has left.
    async fn read_left(&mut self) -> Result<(), ActionError> {
        let Some(from) = self.left.take() else { return Ok(()) };
        let count = PAGE.to_string();
        let pending = self.command("XPENDING", &[&from, "+", &count, &self.consumer]);
        let page = list_of(self.link.ask(&pending).await.map_err(|error| self.failed(error))?)?;
        let is_last = page.len() < PAGE;
        let mut ids = Vec::with_capacity(page.len());
        for row in page {
            ids.push(text_of(list_of(row)?.into_iter().next().ok_or_else(unexpected)?)?);
        }
        self.left = ids.last().filter(|_| !is_last).map(|last| format!("({last}"));
        self.read_again(ids);
        Ok(())
    }

    /// Takes entries over whose consumers are gone, and looks for the ones that a former owner of this consumer has read since.
    async fn take_over(&mut self) -> Result<(), ActionError> {
        let (idle, count) = (MIN_IDLE.as_millis().to_string(), PAGE.to_string());
        let arguments = [&*self.consumer, &idle, &self.claim.1, "COUNT", &count, "JUSTID"];
        let reply = self.link.ask(&self.command("XAUTOCLAIM", &arguments)).await;
        let mut parts = list_of(reply.map_err(|error| self.failed(error))?)?.into_iter();
        let (Some(next), Some(ids)) = (parts.next(), parts.next()) else { return Err(unexpected()) };
        let texts = |list: Reply| list_of(list)?.into_iter().map(text_of).collect::<Result<Vec<_>, _>>();
        let (next, ids) = (text_of(next)?, texts(ids)?);
        // Servers before version 7 do not tell these.
        if let Some(deleted) = parts.next() {
            self.deleted.extend(texts(deleted)?);
        }
        let is_last = next == "0-0";
        self.claim = (if is_last { Instant::now() + CLAIM_INTERVAL } else { Instant::now() }, next);
        self.read_again(ids);
        self.left = Some("-".to_owned());
        self.read_left().await
    }

    /// Notes that entries are to be read again, unless they are under way.
    fn read_again(&mut self, ids: Vec<String>) {
        let now = Instant::now();
        let later = self.later.iter().map(|later| &later.id);
        let ready = self.ready.iter().map(|(entry, _)| &entry.id);
        let known: HashSet<&String> =
            later.chain(ready).chain(self.open.values().map(|entry| &entry.id)).collect();
        let new = ids.into_iter().filter(|id| !known.contains(id));
        let new: Vec<_> = new.map(|id| Later { at: now, id, redelivered: true }).collect();
        self.later.extend(new);
    }

    fn is_due(&self) -> bool {
        let now = Instant::now();
        self.later.iter().any(|later| later.at <= now)
    }

    /// Reads the next entry that is due again. `None` if nothing is due.
    async fn again(&mut self) -> Result<Option<()>, ActionError> {
        let now = Instant::now();
        let Some(index) = self.later.iter().position(|later| later.at <= now) else { return Ok(None) };
        let Some(later) = self.later.remove(index) else { return Ok(None) };
        match self.pending(&later.id).await {
            Ok(entry) => {
                self.ready.extend(entry.map(|entry| (entry, later.redelivered)));
                Ok(Some(()))
            }
            Err(error) => {
                self.later.push_front(later);
                Err(self.failed(error))
            }
        }
    }

    /// Reads a pending entry. `None` if somebody else has acknowledged or deleted it.
    async fn pending(&mut self, id: &str) -> Result<Option<Entry>, ActionError> {
        let range = command("XRANGE", &[&self.stream, id, id]);
        let Some(entry) = entries(self.link.ask(&range).await?)?.pop() else {
            if integer_of(&self.link.ask(&self.command("XACK", &[id])).await?)? > 0 {
                self.deleted.push(id.to_owned());
            }
            return Ok(None);
        };
        let claim = self.command("XCLAIM", &[&self.consumer, "0", id, "JUSTID"]);
        let is_pending = !list_of(self.link.ask(&claim).await?)?.is_empty();
        Ok(is_pending.then_some(entry))
    }

    /// Reads new entries. With `within` it waits for the first. Returns false if none came.
    async fn read_new(&mut self, count: usize, within: Option<Duration>) -> Result<bool, ActionError> {
        let mut read = command("XREADGROUP", &["GROUP", &self.group, &self.consumer, "COUNT"]);
        read.arg(count);
        if let Some(within) = within {
            // 0 is no limit.
            read.arg("BLOCK").arg(u64::try_from(within.as_millis()).unwrap_or(u64::MAX).saturating_add(1));
        }
        read.arg("STREAMS").arg(&self.stream).arg(">");
        let link = self.link.clone();
        let ask = || -> BoxFuture<'static, _> {
            Box::pin(async move { link.ask_within(&read, within.unwrap_or_default()).await })
        };
        let reply = self.asked.get_or_insert_with(ask).await;
        self.asked = None;
        let found = read_entries(reply.map_err(|error| self.failed(error))?)?;
        let has_some = !found.is_empty();
        for (index, entry) in found.into_iter().enumerate() {
            // The entries before it left no room for it in the reply.
            if entry.is_cut && index > 0 {
                self.later.push_back(Later { at: Instant::now(), id: entry.id, redelivered: false });
            } else {
                self.ready.push_back((entry, false));
            }
        }
        Ok(has_some)
    }

    /// Makes one more entry ready. Returns false if none comes within `left`.
    async fn next(&mut self, room: usize, left: Duration) -> Result<bool, ActionError> {
        if self.again().await?.is_some() {
            return Ok(true);
        }
        if self.left.is_some() || self.later.len() >= MAX_LATER {
            return Ok(false);
        }
        self.read_new(room, Some(left).filter(|left| !left.is_zero())).await
    }

    fn message(&mut self, (entry, redelivered): (Entry, bool)) -> Message {
        let token = self.next_token;
        self.next_token += 1;
        let message = entry.message(&self.stream, token, redelivered);
        self.open.insert(token, entry);
        message
    }
}

#[async_trait]
impl MessageSource for Source {
    async fn wait(&mut self, longest: Duration) -> Result<bool, ActionError> {
        self.tend().await?;
        if !self.ready.is_empty() || self.is_due() {
            return Ok(true);
        }
        let due = self.later.iter().map(|later| later.at.saturating_duration_since(Instant::now())).min();
        let longest = due.map_or(longest, |due| due.min(longest));
        if self.left.is_some() {
            return Ok(false);
        }
        if self.later.len() >= MAX_LATER {
            tokio::time::sleep(longest).await;
            return Ok(self.is_due());
        }
        Ok(self.read_new(1, Some(longest)).await? || self.is_due())
    }

    async fn take(&mut self, limits: TakeLimits) -> Result<Vec<Message>, ActionError> {
        let until = Instant::now() + limits.fill;
        let (mut taken, mut size, mut has_more) = (Vec::new(), 0_usize, true);
        while taken.len() < limits.messages {
            if let Some(next) = self.ready.pop_front() {
                let cost = next.0.cost();
                if !taken.is_empty() && size.saturating_add(cost) > limits.bytes {
                    self.ready.push_front(next);
                    break;
                }
                size = size.saturating_add(cost);
                taken.push(self.message(next));
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if !has_more {
                break;
            }
            let average = size.checked_div(taken.len()).unwrap_or(self.size).max(1);
            let room = (limits.bytes.saturating_sub(size) / average).clamp(1, limits.messages - taken.len());
            let next = self.next(room, left).await;
            // A message that was taken starts an execution all the same.
            let came = if taken.is_empty() { next? } else { next.unwrap_or_default() };
            has_more = came && (!left.is_zero() || self.is_due());
            if !came {
                break;
            }
        }
        self.size = size / taken.len().max(1);
        Ok(taken)
    }

    async fn settle(&mut self, fates: Vec<(u64, Fate)>) -> Result<(), ActionError> {
        let (mut done, now) = (Vec::new(), Instant::now());
        for (token, fate) in fates {
            let Some(entry) = self.open.remove(&token) else { continue };
            match fate {
                Fate::Done => done.push(entry.id),
                Fate::Later(pause) => {
                    self.later.push_back(Later { at: now + pause, id: entry.id, redelivered: true });
                }
            }
        }
        if done.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = done.iter().map(String::as_str).collect();
        self.link.ask(&self.command("XACK", &ids)).await.map(drop)
    }

    async fn forward(
        &mut self,
        to: &str,
        message: &Message,
        _: &str,
        reason: &str,
    ) -> Result<(), ActionError> {
        let gone = || ActionError::new(ErrorKind::Internal, "the message is settled");
        let entry = self.open.get(&message.token).ok_or_else(gone)?;
        if entry.is_cut {
            let message = "it is larger than 8 MiB, or has more than 45,000 fields";
            return Err(ActionError::new(ErrorKind::Limit, message));
        }
        let mut add = command("XADD", &[to, "*"]);
        for (name, value) in &entry.fields {
            add.arg(&**name).arg(&**value);
        }
        add.arg(REASON).arg(one_line(reason));
        self.link.change(&add).await.map(drop)
    }

    async fn lag(&mut self) -> Result<Option<u64>, ActionError> {
        self.look().await
    }
}

/// The fields of a reply that lists their names and values.
fn fields_of(reply: Reply) -> Result<HashMap<String, Reply>, ActionError> {
    let (mut fields, mut parts) = (HashMap::new(), list_of(reply)?.into_iter());
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        fields.insert(text_of(name)?, value);
    }
    Ok(fields)
}

/// The id of an entry in a reply.
fn id_of(value: &Reply) -> Option<EntryId> {
    let Reply::BulkString(text) = value else { return None };
    EntryId::parse(std::str::from_utf8(text).ok()?)
}
