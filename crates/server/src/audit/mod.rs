//! The audit log: who changed, started, answered and cancelled something through the API or a resume address.
//!
//! One JSON object a line, appended to files in the data folder, apart from the store, so that the log outlives a restored backup, and a program
//! that ships logs can follow it. What was done is in `audit.jsonl` and is kept by its age. Refused requests are in `audit.refused.jsonl`, so
//! that they push nothing out that was done, and each credential has a share of them.

mod series;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use model::ExecutionId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use series::{Bounds, Series};

/// Completed changes: kept for 400 days, and for longer while its file is not full; at most 1 GiB.
const DONE: Bounds =
    Bounds { file_bytes: 8 << 20, files: 128, keep_for: Some(SignedDuration::from_hours(400 * 24)) };
/// Refused requests.
const REFUSED: Bounds = Bounds { file_bytes: 8 << 20, files: 2, keep_for: None };
/// The refused requests of one credential in a minute that have entries of their own. Further ones are counted.
const REFUSALS_EACH: u64 = 10;
/// The time for which refused requests of a credential are counted together.
const COUNTED_FOR: SignedDuration = SignedDuration::from_mins(1);
/// The credentials whose refused requests are counted apart; those beyond it share a count.
const COUNTED_CREDENTIALS: usize = 1000;
/// The maximum of bytes read beyond a full file: its last entry.
const LAST_BYTES: u64 = 1 << 20;
/// The most bytes of a path in an entry.
const PATH_BYTES: usize = 500;

/// The name of the credential of an answer that was sent to a resume address.
const RESUME_ADDRESS: &str = "resume address";

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditEntry)]
pub(crate) struct Entry {
    /// When the request was answered. No two entries have the same time.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) at: Timestamp,
    /// The credential: `admin token`, `token NAME`, each also `… in a browser`; `person NAME (SUBJECT) in a browser`; or `resume address`.
    pub(crate) by: String,
    /// The address of the other side of the connection, which may be a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) address: Option<IpAddr>,
    /// The last address of `X-Forwarded-For`. A client that needs no proxy can invent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) forwarded_for: Option<IpAddr>,
    /// A word for the operation, such as `start`, `cancel`, `answer`, `changeFile`, `setSecret`, `logIn`.
    pub(crate) action: String,
    /// The method of the request.
    pub(crate) method: String,
    /// The path of the request: it names the automation, execution, file, secret or token.
    pub(crate) path: String,
    /// The status of the answer: 2xx if it was done. Absent if the client left before the answer; then it may have been done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// The execution that it started, if it started one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) execution: Option<String>,
    /// The number of further refused requests of the credential in the minute before, which have no entries of their own. The path and the
    /// status are the last entry's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
}

impl Entry {
    /// True if nothing was done: the request was refused or failed.
    fn is_refused(&self) -> bool {
        self.status.is_some_and(|status| status >= 400)
    }

    /// The holder of the share that a refused request takes: the credential, or the execution of a resume address.
    fn holder(&self) -> &str {
        if self.by == RESUME_ADDRESS { &self.path } else { &self.by }
    }

    /// An answer that was sent to the resume address of an execution. The address is a secret, so the entry has the path of the API.
    pub(crate) fn of_answer(execution: ExecutionId, status: StatusCode, at: Timestamp) -> Self {
        Self {
            at,
            by: RESUME_ADDRESS.to_owned(),
            address: None,
            forwarded_for: None,
            action: "answer".to_owned(),
            method: Method::POST.to_string(),
            path: format!("/api/v1/executions/{execution}/signal"),
            status: Some(status.as_u16()),
            execution: None,
            count: None,
        }
    }
}

/// A selection of entries. Absent parts select everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// From this time on.
    pub(crate) since: Option<Timestamp>,
    /// Before this time.
    pub(crate) until: Option<Timestamp>,
    /// A part of the credential's name.
    pub(crate) by: Option<String>,
    /// The word for the operation.
    pub(crate) action: Option<String>,
    /// A part of the path, or of the id of the execution that was started.
    pub(crate) about: Option<String>,
}

impl Filter {
    fn selects(&self, entry: &Entry) -> bool {
        let has = |text: &str, part: &Option<String>| part.as_ref().is_none_or(|part| text.contains(part));
        has(&entry.by, &self.by)
            && self.action.as_ref().is_none_or(|action| *action == entry.action)
            && (has(&entry.path, &self.about)
                || entry.execution.as_ref().is_some_and(|execution| has(execution, &self.about)))
    }
}

/// The log of one daemon.
pub(crate) struct AuditLog(Mutex<State>);

struct State {
    done: Series,
    refused: Series,
    /// The refused requests of the last minute, by the holder of the share.
    refusals: HashMap<String, Refusals>,
    /// The time of the last entry.
    last: Option<Timestamp>,
    /// True while the last write has failed, so that the reason is logged once.
    has_failed: bool,
}

/// The refused requests of one holder in a minute.
struct Refusals {
    since: Timestamp,
    count: u64,
    /// The last one without an entry of its own.
    last: Option<Entry>,
}

impl AuditLog {
    /// The log in a data folder. Nothing is opened before the first entry.
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self::with_bounds(data_dir, DONE, REFUSED)
    }

    fn with_bounds(data_dir: &Path, done: Bounds, refused: Bounds) -> Self {
        Self(Mutex::new(State {
            done: Series::new(data_dir, "audit", done),
            refused: Series::new(data_dir, "audit.refused", refused),
            refusals: HashMap::new(),
            last: None,
            has_failed: false,
        }))
    }

    /// Appends an entry, or counts it if the credential was refused often in the last minute. A failure is logged, and does not fail the request
    /// that is answered.
    pub(crate) fn record(&self, mut entry: Entry) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = entry.path.floor_char_boundary(PATH_BYTES.min(entry.path.len()));
        entry.path.truncate(end);
        let counted = state.write_counts(Some(entry.at));
        let written = if entry.is_refused() { state.refuse(entry) } else { state.append(entry) };
        state.note(counted.and(written));
    }

    /// The newest entries that a filter selects, newest first, at most `limit`.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn read(&self, filter: &Filter, limit: usize) -> io::Result<Vec<Entry>> {
        // All files are opened together, since a rotation in between would hide one.
        let (series, most) = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let counted = state.write_counts(None);
            // Entries that are stored stay readable, also on a full disk.
            if counted.is_err() {
                state.note(counted);
            }
            let bounds = [state.done.bounds, state.refused.bounds].map(|bounds| bounds.file_bytes);
            ([state.done.files()?, state.refused.files()?], bounds)
        };
        let mut found = Vec::new();
        for (files, most) in series.into_iter().zip(most) {
            found.extend(select(files, most, filter, limit)?);
        }
        found.sort_by_key(|entry| std::cmp::Reverse(entry.at));
        found.truncate(limit);
        Ok(found)
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = state.write_counts(None) {
            tracing::error!(%error, "the counts of refused requests cannot be written to the audit log");
        }
    }
}

/// The newest entries of some files that a filter selects.
fn select(files: Vec<File>, file_bytes: u64, filter: &Filter, limit: usize) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for file in files {
        let mut bytes = Vec::new();
        file.take(file_bytes + LAST_BYTES).read_to_end(&mut bytes)?;
        for entry in entries(&bytes) {
            if filter.until.is_some_and(|until| entry.at >= until) {
                continue;
            }
            if filter.since.is_some_and(|since| entry.at < since) || found.len() >= limit {
                return Ok(found);
            }
            if filter.selects(&entry) {
                found.push(entry);
            }
        }
    }
    Ok(found)
}

impl State {
    /// Logs the first failure after a success.
    fn note(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => self.has_failed = false,
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::error!(%error, "the audit log cannot be written");
                }
            }
        }
    }

    /// Appends a refused request, or counts it.
    fn refuse(&mut self, entry: Entry) -> io::Result<()> {
        let is_known = self.refusals.contains_key(entry.holder());
        let holder = if is_known || self.refusals.len() < COUNTED_CREDENTIALS { entry.holder() } else { "" };
        let new = || Refusals { since: entry.at, count: 0, last: None };
        let refusals = self.refusals.entry(holder.to_owned()).or_insert_with(new);
        refusals.count += 1;
        if refusals.count > REFUSALS_EACH {
            refusals.last = Some(entry);
            return Ok(());
        }
        self.append(entry)
    }

    /// Writes the counts of minutes that are over at `now`, or all counts without it. Returns the first failure, after which it goes on.
    fn write_counts(&mut self, now: Option<Timestamp>) -> io::Result<()> {
        let is_over = |refusals: &Refusals| {
            now.is_none_or(|now| now < refusals.since || now.duration_since(refusals.since) >= COUNTED_FOR)
        };
        let holders = self.refusals.iter().filter(|(_, refusals)| is_over(refusals));
        let over: Vec<String> = holders.map(|(holder, _)| holder.clone()).collect();
        let mut written = Ok(());
        for holder in over {
            let Some(refusals) = self.refusals.get_mut(&holder) else { continue };
            let count = refusals.count.saturating_sub(REFUSALS_EACH);
            // A page that is read within the minute does not begin a new share.
            refusals.count -= count;
            let last = refusals.last.take();
            if now.is_some() {
                self.refusals.remove(&holder);
            }
            if let Some(entry) = last {
                written = written.and(self.append(Entry { count: Some(count), ..entry }));
            }
        }
        written
    }

    fn append(&mut self, mut entry: Entry) -> io::Result<()> {
        if self.last.is_none() {
            // A series that cannot be opened keeps no entry out of the other one.
            let tails = [self.done.tail(), self.refused.tail()];
            let last = |tail: &Vec<u8>| entries(tail).next().map(|entry| entry.at);
            self.last = tails.iter().flatten().filter_map(last).max();
        }
        // A time of its own, so that a page can end at it, also after the clock was set back.
        if let Some(last) = self.last.filter(|last| *last >= entry.at) {
            entry.at = last.saturating_add(SignedDuration::from_nanos(1)).unwrap_or(last);
        }
        self.last = Some(entry.at);
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        let series = if entry.is_refused() { &mut self.refused } else { &mut self.done };
        series.append(&line, entry.at)
    }
}

/// The entries of a part of a file, newest first. A line that was cut short is no entry.
fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry> {
    bytes.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    use super::*;

    fn entry(at: Timestamp, path: &str) -> Entry {
        Entry {
            at,
            by: "admin token".to_owned(),
            address: None,
            forwarded_for: None,
            action: "reload".to_owned(),
            method: "POST".to_owned(),
            path: path.to_owned(),
            status: Some(200),
            execution: None,
            count: None,
        }
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn read(log: &AuditLog, filter: &Filter, limit: usize) -> Vec<String> {
        let entries = log.read(filter, limit).expect("entries");
        entries.into_iter().map(|entry| entry.path).collect()
    }

    #[test]
    fn entries_are_listed_newest_first_in_pages() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = AuditLog::new(folder.path());
        assert_eq!(log.read(&Filter::default(), 10).expect("no file"), []);
        for number in [1, 2, 2, 3] {
            log.record(entry(second(number), &format!("/{number}")));
        }
        let all = log.read(&Filter::default(), 10).expect("entries");
        assert_eq!(all.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["/3", "/2", "/2", "/1"]);
        let first = log.read(&Filter::default(), 2).expect("entries");
        let until = Filter { until: first.last().map(|entry| entry.at), ..Filter::default() };
        let rest = log.read(&until, 10).expect("entries");
        assert_eq!([first, rest].concat(), all, "no two entries have the same time");
        let since = Filter { since: Some(second(3)), ..Filter::default() };
        assert_eq!(read(&log, &since, 10), ["/3"]);
    }

    #[test]
    fn a_filter_selects_by_credential_operation_and_subject() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = AuditLog::new(folder.path());
        log.record(entry(second(1), "/api/v1/reload"));
        let started = Entry {
            by: "token ci".to_owned(),
            execution: Some("01a2".to_owned()),
            ..entry(second(2), "/m/run")
        };
        log.record(Entry { action: "start".to_owned(), ..started });
        let filter = |by: &str, action: &str, about: &str| {
            let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            Filter { by: some(by), action: some(action), about: some(about), ..Filter::default() }
        };
        assert_eq!(read(&log, &filter("ci", "", ""), 10), ["/m/run"]);
        assert_eq!(read(&log, &filter("", "reload", ""), 10), ["/api/v1/reload"]);
        assert_eq!(read(&log, &filter("", "", "01a2"), 10), ["/m/run"]);
        assert_eq!(read(&log, &filter("", "", "run"), 10), ["/m/run"]);
        assert_eq!(read(&log, &filter("ci", "reload", ""), 10), [""; 0]);
    }

    #[test]
    fn the_next_process_appends_after_a_truncated_line() {
        let folder = tempfile::tempdir().expect("a folder");
        AuditLog::new(folder.path()).record(entry(second(5), "/1"));
        let path = folder.path().join("audit.jsonl");
        OpenOptions::new()
            .append(true)
            .open(&path)
            .expect("it opens")
            .write_all(b"{\"at\":\xff")
            .expect("written");
        let next = AuditLog::new(folder.path());
        // The clock was set back: the order stays.
        next.record(entry(second(4), "/2"));
        assert_eq!(read(&next, &Filter::default(), 10), ["/2", "/1"]);
        assert!(next.read(&Filter::default(), 1).expect("entries")[0].at > second(5));
    }

    #[test]
    fn the_audit_log_is_bounded_and_private_to_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        const SMALL: Bounds = Bounds { file_bytes: 8 << 10, files: 4, keep_for: None };
        let log = AuditLog::with_bounds(folder.path(), SMALL, SMALL);
        let path = "x".repeat(PATH_BYTES * 2);
        let lines = (SMALL.file_bytes as usize / PATH_BYTES) * (SMALL.files + 2);
        for number in 0..lines {
            log.record(entry(second(number as i64), &path));
        }
        let files: Vec<_> = fs::read_dir(folder.path()).expect("a folder").flatten().collect();
        assert_eq!(files.len(), SMALL.files + 1, "the other series has one file");
        let bytes: u64 = files.iter().map(|file| file.metadata().expect("a file").len()).sum();
        assert!(bytes <= (SMALL.file_bytes + 1000) * SMALL.files as u64, "{bytes}");
        for file in files {
            assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
        }
        let newest = log.read(&Filter::default(), 1).expect("entries");
        assert_eq!(newest[0].at, second(lines as i64 - 1));
    }

    #[test]
    fn rejected_requests_evict_no_performed_action_and_are_counted_by_credential() {
        let folder = tempfile::tempdir().expect("a folder");
        let small = Bounds { file_bytes: 4 << 10, files: 2, keep_for: None };
        let log = AuditLog::with_bounds(folder.path(), small, small);
        log.record(entry(second(0), "/done"));
        let refused = |by: &str, millis: i64| Entry {
            by: by.to_owned(),
            status: Some(403),
            ..entry(Timestamp::from_millisecond(millis).expect("a time"), "/refused")
        };
        for number in 0..5000 {
            log.record(refused("token metrics", 1000 + number * 10));
        }
        log.record(refused("token other", 51_500));
        let all = log.read(&Filter::default(), 1000).expect("entries");
        let of =
            |by: &str| all.iter().filter(|entry| entry.by == by).map(|entry| entry.count).collect::<Vec<_>>();
        assert_eq!(of("admin token"), [None], "what was done is still there");
        assert_eq!(of("token other"), [None]);
        assert_eq!(of("token metrics"), [&[Some(4990)][..], &[None; 10]].concat());
        // The next minute has a share of its own.
        log.record(refused("token metrics", 62_000));
        let all = log.read(&Filter::default(), 1000).expect("entries");
        assert_eq!(all.first().map(|entry| (entry.by.as_str(), entry.count)), Some(("token metrics", None)));
        assert_eq!(all.len(), 14);
    }

    #[test]
    fn an_unwritable_log_series_does_not_affect_the_other() {
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink("/dev/full", folder.path().join("audit.refused.jsonl")).expect("a link");
        let small = Bounds { file_bytes: 4 << 10, files: 2, keep_for: None };
        let log = AuditLog::with_bounds(folder.path(), small, small);
        log.record(entry(second(0), "/first"));
        for _ in 0..=REFUSALS_EACH {
            log.record(Entry { status: Some(403), ..entry(second(1), "/refused") });
        }
        assert_eq!(read(&log, &Filter::default(), 10), ["/first"], "with a count that cannot be written");
        log.record(Entry { status: Some(403), ..entry(second(1), "/refused") });
        // The minute of the count is over.
        log.record(entry(second(100), "/second"));
        assert_eq!(read(&log, &Filter::default(), 10), ["/second", "/first"]);
    }

    #[test]
    fn a_full_log_file_is_deleted_when_it_expires() {
        let folder = tempfile::tempdir().expect("a folder");
        let day = SignedDuration::from_hours(24);
        let bounds = Bounds { file_bytes: 1, files: 10, keep_for: Some(day) };
        let log = AuditLog::with_bounds(folder.path(), bounds, REFUSED);
        // The clock of the file system, by which the files are judged.
        let modified = folder.path().metadata().and_then(|folder| folder.modified()).expect("a time");
        let now = Timestamp::try_from(modified).expect("a time");
        log.record(entry(now, "/1"));
        log.record(entry(now, "/2"));
        assert_eq!(read(&log, &Filter::default(), 10), ["/2", "/1"]);
        // By the clock of the next entry the first two files are two days old.
        log.record(entry(now.saturating_add(day * 2).expect("a time"), "/3"));
        assert_eq!(read(&log, &Filter::default(), 10), [""; 0]);
    }
}
