//! `sftp.list` and `sftp.stat`.

use jiff::Timestamp;
use model::{ActionError, ErrorKind};
use russh_sftp::client::error::Error;
use russh_sftp::protocol::{FileAttributes, FileType, StatusCode};
use value::{Map, Value};

use super::session::Session;
use super::{flag_of, path_of, text_of};

/// The largest number of files and folders that are read.
const MAX_ENTRIES: usize = 10_000;
/// The largest depth of folders.
const MAX_DEPTH: usize = 32;

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub path: String,
    pub kind: &'static str,
    pub size: u64,
    /// Seconds since 1970.
    pub modified: Option<u32>,
}

impl Entry {
    pub(super) fn new(path: &str, known: &FileAttributes) -> Self {
        let kind = match known.file_type() {
            FileType::Dir => "folder",
            FileType::Symlink => "link",
            FileType::File => "file",
            // A server that does not tell has files only.
            FileType::Other if known.permissions.is_none() => "file",
            FileType::Other => "other",
        };
        let (path, size) = (path.to_owned(), known.size.unwrap_or_default());
        Self { path, kind, size, modified: known.mtime }
    }

    pub(super) fn to_map(&self) -> Map {
        let at = self.modified.and_then(|seconds| Timestamp::from_second(seconds.into()).ok());
        let entries = [
            ("path", Value::from(self.path.as_str())),
            ("name", Value::from(name_of(&self.path))),
            ("kind", Value::from(self.kind)),
            ("size", Value::from(i64::try_from(self.size).unwrap_or(i64::MAX))),
            ("modified", at.map_or(Value::Null, |at| Value::from(at.to_string()))),
        ];
        Map::from_iter(entries)
    }
}

/// The last part of a path.
pub(super) fn name_of(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

/// `sftp.stat`.
pub(super) async fn stat(session: &Session, inputs: &Map) -> Result<Value, ActionError> {
    let path = path_of(inputs, "path")?;
    let known = session.sftp.stat(path).await.map_err(session.failed(path))?;
    Ok(Value::from(Entry::new(path, &known.attrs).to_map()))
}

/// `sftp.list`.
pub(super) async fn list(session: &Session, inputs: &Map) -> Result<Value, ActionError> {
    let entries = entries(session, inputs).await?;
    let results: Value = entries.iter().map(|entry| Value::from(entry.to_map())).collect();
    Ok(Value::from(Map::from_iter([("results", results)])))
}

/// The files and folders that the inputs select, by their paths.
pub(super) async fn entries(session: &Session, inputs: &Map) -> Result<Vec<Entry>, ActionError> {
    let (pattern, is_deep) = (text_of(inputs, "match"), flag_of(inputs, "recursive"));
    let mut folders = vec![(path_of(inputs, "path")?.to_owned(), 0)];
    let (mut found, mut read) = (Vec::new(), 0);
    while let Some((folder, depth)) = folders.pop() {
        let entries = match folder_of(session, &folder, &mut read).await {
            Ok(entries) => entries,
            Err(error) => return Err(error),
        };
        for entry in entries {
            if is_deep && entry.kind == "folder" {
                if depth == MAX_DEPTH {
                    let message = format!("`{}` is deeper than {MAX_DEPTH} folders", entry.path);
                    return Err(ActionError::new(ErrorKind::Limit, message));
                }
                folders.push((entry.path.clone(), depth + 1));
            }
            if pattern.is_empty() || matches(pattern, name_of(&entry.path)) {
                found.push(entry);
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// The content of a folder. `read` counts what was read of all.
async fn folder_of(session: &Session, folder: &str, read: &mut usize) -> Result<Vec<Entry>, ActionError> {
    let handle = session.sftp.opendir(folder).await.map_err(session.failed(folder))?.handle;
    let mut found = Vec::new();
    let result = loop {
        match session.sftp.readdir(handle.as_str()).await {
            Ok(names) => {
                let names = names.files.into_iter().filter(|file| !matches!(&*file.filename, "." | ".."));
                // A name of the server is one part of a path, and nothing else.
                let names = names.filter(|file| !file.filename.contains('/'));
                found.extend(names.map(|file| Entry::new(&joined(folder, &file.filename), &file.attrs)));
            }
            Err(Error::Status(status)) if status.status_code == StatusCode::Eof => break Ok(()),
            Err(error) => break Err(session.failed(folder)(error)),
        }
        if *read + found.len() > MAX_ENTRIES {
            let message = format!(
                "the folder has more than {MAX_ENTRIES} files, the most that are read; move old ones away"
            );
            break Err(ActionError::new(ErrorKind::Limit, message));
        }
    };
    *read += found.len();
    let _ = session.sftp.close(handle).await;
    result.map(|()| found)
}

fn joined(folder: &str, name: &str) -> String {
    match folder {
        "." => name.to_owned(),
        folder if folder.ends_with('/') => format!("{folder}{name}"),
        folder => format!("{folder}/{name}"),
    }
}

/// True if a name fits a pattern, in which `*` is any text and `?` a character. Takes at most their lengths, multiplied.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // True at the number of characters that the start of the pattern can take.
    let mut reached = vec![false; name.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for sign in pattern {
        let mut next = vec![false; name.len() + 1];
        let mut is_any = false;
        for (index, (slot, was)) in next.iter_mut().zip(&reached).enumerate() {
            is_any |= *was;
            let before =
                index.checked_sub(1).and_then(|before| Some((reached.get(before)?, name.get(before)?)));
            *slot = match sign {
                '*' => is_any,
                '?' => before.is_some_and(|(was, _)| *was),
                sign => before.is_some_and(|(was, c)| *was && *c == sign),
            };
        }
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_takes_any_text_for_a_star_and_a_character_for_a_question_mark() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*.csv", "orders.csv", true),
            ("*.csv", "orders.csv.part", false),
            ("order?.csv", "order1.csv", true),
            ("order?.csv", "order.csv", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ü?", "üß", true),
            ("[a]", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        let hostile = "*a".repeat(200);
        assert!(!matches(&hostile, &"a".repeat(199)));
    }
}
