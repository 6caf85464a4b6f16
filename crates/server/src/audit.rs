//! The audit log: who changed, started, answered and cancelled something through the API or a resume address.
//!
//! One JSON object a line, appended to `audit.jsonl` in the data folder. A full file is renamed to `audit.1.jsonl`, and the oldest is
//! deleted, so the log has a bound. It is apart from the store, so that it outlives a restored backup, and a program that ships logs can follow it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use model::ExecutionId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The bytes from which a file is full.
const FILE_BYTES: u64 = 8 << 20;
/// The files that are kept, the current one included.
const FILES: usize = 8;
/// The most bytes beyond a full file that are read: those of its last entry.
const LAST_BYTES: u64 = 1 << 20;
/// The most bytes of a path in an entry.
const PATH_BYTES: usize = 500;
/// The bytes at the end of a file in which its last entry is found.
const TAIL_BYTES: u64 = 4096;

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
}

impl Entry {
    /// An answer that was sent to the resume address of an execution. The address is a secret, so the entry has the path of the API.
    pub(crate) fn of_answer(execution: ExecutionId, status: StatusCode, at: Timestamp) -> Self {
        Self {
            at,
            by: "resume address".to_owned(),
            address: None,
            forwarded_for: None,
            action: "answer".to_owned(),
            method: Method::POST.to_string(),
            path: format!("/api/v1/executions/{execution}/signal"),
            status: Some(status.as_u16()),
            execution: None,
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
pub(crate) struct AuditLog {
    folder: PathBuf,
    /// The bytes from which a file is full.
    file_bytes: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    file: Option<(File, u64)>,
    last: Option<Timestamp>,
    /// True while the last write has failed, so that the reason is logged once.
    has_failed: bool,
}

impl AuditLog {
    /// The log in a data folder. Nothing is opened before the first entry.
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self { folder: data_dir.to_owned(), file_bytes: FILE_BYTES, state: Mutex::default() }
    }

    /// Appends an entry. A failure is logged, and does not fail the request that is answered.
    pub(crate) fn record(&self, mut entry: Entry) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let end = entry.path.floor_char_boundary(PATH_BYTES.min(entry.path.len()));
        entry.path.truncate(end);
        match self.append(&mut state, entry) {
            Ok(()) => state.has_failed = false,
            Err(error) => {
                state.file = None;
                if !std::mem::replace(&mut state.has_failed, true) {
                    tracing::error!(%error, "the audit log cannot be written");
                }
            }
        }
    }

    fn append(&self, state: &mut State, mut entry: Entry) -> io::Result<()> {
        let (mut file, size) = match state.file.take() {
            Some(open) => open,
            None => self.open(state)?,
        };
        // A time of its own, so that a page can end at it, also after the clock was set back.
        if let Some(last) = state.last.filter(|last| *last >= entry.at) {
            entry.at = last.saturating_add(SignedDuration::from_nanos(1)).unwrap_or(last);
        }
        state.last = Some(entry.at);
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        // One write, so that a process that dies leaves whole lines.
        file.write_all(&line)?;
        let size = size + u64::try_from(line.len()).unwrap_or_default();
        if size >= self.file_bytes {
            file.sync_all()?;
            self.rotate()?;
        } else {
            state.file = Some((file, size));
        }
        Ok(())
    }

    /// Opens the current file, and ends a line that was cut short when the power failed.
    fn open(&self, state: &mut State) -> io::Result<(File, u64)> {
        let mut options = OpenOptions::new();
        options.create(true).read(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(self.path(0))?;
        let mut size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES)))?;
        let mut tail = Vec::new();
        (&file).take(TAIL_BYTES).read_to_end(&mut tail)?;
        if tail.last().is_some_and(|byte| *byte != b'\n') {
            file.write_all(b"\n")?;
            size += 1;
        }
        state.last = state.last.or_else(|| entries(&tail).next().map(|entry| entry.at));
        Ok((file, size))
    }

    /// Renames each file to the next number; the last one is replaced.
    fn rotate(&self) -> io::Result<()> {
        for number in (0..FILES - 1).rev() {
            match fs::rename(self.path(number), self.path(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The newest entries that a filter selects, newest first, at most `limit`.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn read(&self, filter: &Filter, limit: usize) -> io::Result<Vec<Entry>> {
        let mut found = Vec::new();
        for file in self.files()? {
            let mut bytes = Vec::new();
            file.take(self.file_bytes + LAST_BYTES).read_to_end(&mut bytes)?;
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

    /// All files, newest first. They are opened together, since a rotation in between would hide one.
    fn files(&self) -> io::Result<Vec<File>> {
        let _state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut files = Vec::with_capacity(FILES);
        for number in 0..FILES {
            match File::open(self.path(number)) {
                Ok(file) => files.push(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(match number {
            0 => "audit.jsonl".to_owned(),
            number => format!("audit.{number}.jsonl"),
        })
    }
}

/// The entries of a part of a file, newest first. A line that was cut short is no entry.
fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry> {
    bytes.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}

#[cfg(test)]
mod tests {
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
    fn entries_come_newest_first_and_page_by_page() {
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
    fn the_next_process_appends_behind_a_line_that_was_cut_short() {
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
    fn the_log_has_a_bound_and_belongs_to_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        const SMALL: u64 = 8 << 10;
        let log = AuditLog { file_bytes: SMALL, ..AuditLog::new(folder.path()) };
        let path = "x".repeat(PATH_BYTES * 2);
        let lines = (SMALL as usize / PATH_BYTES) * (FILES + 2);
        for number in 0..lines {
            log.record(entry(second(number as i64), &path));
        }
        let files: Vec<_> = fs::read_dir(folder.path()).expect("a folder").flatten().collect();
        assert_eq!(files.len(), FILES);
        let bytes: u64 = files.iter().map(|file| file.metadata().expect("a file").len()).sum();
        assert!(bytes <= (SMALL + 1000) * FILES as u64, "{bytes}");
        for file in files {
            assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
        }
        let newest = log.read(&Filter::default(), 1).expect("entries");
        assert_eq!(newest[0].at, second(lines as i64 - 1));
    }
}
