//! `sftp.listArrived`: files that have stopped growing.
//!
//! A file has arrived when two calls, some time apart, saw it with the same size and the same time of its last change. The first of them
//! is remembered in memory: after a start of the daemon, files that are new wait for that time once more, and none is lost, since the
//! poll knows the files that it has passed on.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use connector::{Call, ResolvedConnection};
use jiff::Timestamp;
use model::ActionError;
use sha2::{Digest as _, Sha256};
use value::{Map, Value};

use super::flag_of;
use super::folder::{Entry, entries};
use super::session::Session;
use crate::connection::Inputs;

/// The largest number of folders that are remembered.
const MAX_FOLDERS: usize = 1_000;
/// The time of each record: records are told apart by their ids, since a file keeps any time that its sender gives it.
const AT: &str = "2000-01-01T00:00:00Z";

/// The files that were seen in each folder.
#[derive(Default)]
pub(in crate::sftp) struct Arrivals(Mutex<HashMap<[u8; 32], Seen>>);

/// The files of a folder, with the time at which each was first seen as it is.
#[derive(Default)]
struct Seen {
    files: HashMap<String, (Entry, Timestamp)>,
    /// True if the next call takes all files as they are: they were there before the trigger, which asked for the newest of them.
    takes_all: bool,
}

impl Arrivals {
    pub(super) async fn list(
        &self,
        session: &Session,
        call: &Call<'_>,
        connection: &ResolvedConnection,
    ) -> Result<Value, ActionError> {
        let settle = super::settle(call.inputs)?;
        let mut files = entries(session, call.inputs).await?;
        files.retain(|entry| entry.kind == "file");
        let now = call.http.timer().now();
        let is_newest = flag_of(call.inputs, "newest");
        let mut folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = folder_key(connection, call.inputs);
        if folders.len() >= MAX_FOLDERS && !folders.contains_key(&key) {
            folders.clear();
        }
        let arrived = folders.entry(key).or_default().arrived(files, (now, settle), is_newest);
        let results: Value = arrived.iter().map(record).collect();
        Ok(Value::from(Map::from_iter([("results", results)])))
    }
}

impl Seen {
    /// Takes the files that are there now, and returns the ones that have stayed the same for the time.
    fn arrived(
        &mut self,
        files: Vec<Entry>,
        (now, settle): (Timestamp, Duration),
        is_newest: bool,
    ) -> Vec<Entry> {
        let takes_all = std::mem::take(&mut self.takes_all) || is_newest;
        let mut arrived = Vec::new();
        let seen = files.into_iter().map(|file| {
            let before = self.files.get(&file.path).filter(|(before, _)| *before == file);
            let since = before.map_or(now, |(_, since)| *since);
            let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
            if takes_all || (before.is_some() && age >= settle) {
                arrived.push(file.clone());
            }
            (file.path.clone(), (file, since))
        });
        self.files = seen.collect();
        // Of an empty folder nothing more is asked for now: files of the next call are new.
        self.takes_all = is_newest && !arrived.is_empty();
        arrived
    }
}

fn record(file: &Entry) -> Value {
    let modified = file.modified.unwrap_or_default();
    let id = format!("{}~{}~{modified}", file.path, file.size);
    let entries = [("id", Value::from(id)), ("at", Value::from(AT)), ("file", Value::from(file.to_map()))];
    Value::from(Map::from_iter(entries))
}

/// The folder that the inputs select for a trigger, at the server of a connection.
fn folder_key(connection: &ResolvedConnection, inputs: &Map) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(Inputs(connection).digest());
    for name in ["path", "match", "recursive", "settle", "trigger"] {
        let value = inputs.get(name).map(Value::to_json).unwrap_or_default();
        hash.update(value.len().to_le_bytes());
        hash.update(value);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn file(path: &str, size: u64) -> Entry {
        Entry { path: path.to_owned(), kind: "file", size, modified: Some(1_700_000_000) }
    }

    fn names(arrived: Vec<Entry>) -> Vec<String> {
        arrived.into_iter().map(|entry| entry.path).collect()
    }

    #[test]
    fn a_file_has_arrived_when_it_has_stayed_the_same() {
        let (mut seen, settle) = (Seen::default(), Duration::from_secs(30));
        let at = |seconds: i64| Timestamp::from_second(1_700_000_000 + seconds).expect("an instant");
        let mut look =
            |seconds: i64, files: &[Entry]| names(seen.arrived(files.to_vec(), (at(seconds), settle), false));
        assert_eq!(look(0, &[file("a", 1)]), [""; 0]);
        assert_eq!(look(20, &[file("a", 1), file("b", 1)]), [""; 0]);
        assert_eq!(look(30, &[file("a", 1), file("b", 2)]), ["a"]);
        assert_eq!(look(60, &[file("a", 9), file("b", 2)]), ["b"]);
        // A file that went away begins anew.
        assert_eq!(look(70, &[file("b", 2)]), ["b"]);
        assert_eq!(look(90, &[file("a", 9), file("b", 2)]), ["b"]);
    }

    #[test]
    fn files_that_were_there_before_the_trigger_are_known_at_once() {
        let (mut seen, settle) = (Seen::default(), Duration::from_secs(30));
        let now = Timestamp::from_second(1_700_000_000).expect("an instant");
        let files = vec![file("a", 1), file("b", 1)];
        assert_eq!(names(seen.arrived(files.clone(), (now, settle), true)), ["a", "b"]);
        assert_eq!(names(seen.arrived(files.clone(), (now, settle), false)), ["a", "b"]);
        assert_eq!(names(seen.arrived(files, (now, settle), false)), [""; 0]);
    }

    #[test]
    fn the_first_file_of_an_empty_folder_has_not_arrived_before_it_stays_the_same() {
        let (mut seen, settle) = (Seen::default(), Duration::from_secs(30));
        let at = |seconds: i64| Timestamp::from_second(1_700_000_000 + seconds).expect("an instant");
        let mut look = |seconds: i64, files: &[Entry], is_newest: bool| {
            names(seen.arrived(files.to_vec(), (at(seconds), settle), is_newest))
        };
        assert_eq!(look(0, &[], true), [""; 0]);
        assert_eq!(look(30, &[file("a", 1)], false), [""; 0], "it is half written");
        assert_eq!(look(60, &[file("a", 2)], false), [""; 0]);
        assert_eq!(look(90, &[file("a", 2)], false), ["a"]);
    }
}
