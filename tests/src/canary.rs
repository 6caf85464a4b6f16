//! Canaries: every secret of the suite carries a mark, and all files and output of a daemon are searched for the marks, in
//! every form in which secrets are sent. So the whole suite tests that no secret leaks.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use crate::github;
use wiki_simulator::{DEMO_CLIENT_SECRET, DEMO_SCOPED_TOKEN, DEMO_TOKEN};

/// The mark in every secret that a test makes.
pub const MARK: &str = "canary-4471";

/// The searched texts: the mark, the credentials of the doubles, and the prefixes of the tokens that they issue.
const MARKS: [&str; 8] = [
    MARK,
    DEMO_TOKEN,
    DEMO_SCOPED_TOKEN,
    DEMO_CLIENT_SECRET,
    github::TOKEN,
    "sim-access-",
    "sim-refresh-",
    "sim-code-",
];

/// The number of forms of a mark.
const FORMS: usize = 8;

/// Finds every mark in every form.
static SEARCH: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(MARKS.into_iter().flat_map(forms)).ok());

/// A secret of this name, longer than the least length that is hidden by value.
pub fn secret(name: &str) -> String {
    format!("{MARK}-{name}")
}

/// True if a search would find this secret.
pub fn is_marked(secret: &str) -> bool {
    MARKS.iter().any(|mark| secret.contains(mark))
}

/// The first mark in `bytes`, with what stands around it.
pub fn find(bytes: &[u8]) -> Option<String> {
    let found = SEARCH.as_ref()?.find(bytes)?;
    let mark = MARKS[found.pattern().as_usize() / FORMS];
    let around = &bytes[found.start().saturating_sub(80)..(found.end() + 80).min(bytes.len())];
    Some(format!("`{mark}` in: {}", String::from_utf8_lossy(around)))
}

/// Checks that `bytes` hold no secret.
///
/// # Panics
/// They hold one.
#[track_caller]
pub fn look(bytes: impl AsRef<[u8]>, place: &str) {
    let found = find(bytes.as_ref());
    assert_eq!(found, None, "a secret is in {place}");
}

/// Searches every file below a folder for secrets, and returns the number of files.
///
/// # Errors
/// One of them cannot be read.
///
/// # Panics
/// One of them holds a secret.
pub fn search(folder: &Path) -> io::Result<usize> {
    let mut files = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files += search(&path)?;
        } else if path.is_file() {
            look(fs::read(&path)?, &path.display().to_string());
            files += 1;
        }
    }
    Ok(files)
}

/// A text as it is, in base64 at each of three alignments, in hexadecimal digits, in percent escapes and in JSON escapes.
pub fn forms(mark: &str) -> [String; FORMS] {
    let inside = |before: usize| {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(mark.as_bytes());
        // A character is 6 bits: those that reach beyond the mark are not its own.
        let (first, last) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        STANDARD_NO_PAD.encode(&bytes)[first..last].to_owned()
    };
    let each = |form: &dyn Fn(u8) -> String| mark.bytes().map(form).collect::<String>();
    [
        mark.to_owned(),
        inside(0),
        inside(1),
        inside(2),
        hex::encode(mark),
        hex::encode_upper(mark),
        each(&|byte| format!("%{byte:02X}")),
        each(&|byte| format!("\\u{byte:04x}")),
    ]
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn a_secret_is_found_in_every_encoding() {
        let secret = secret("desk");
        assert!(is_marked(&secret) && !is_marked("plain"));
        for text in [
            format!("x{secret}y"),
            STANDARD.encode(format!("u:{secret}")),
            STANDARD.encode(format!("us:{secret}")),
            STANDARD.encode(format!("use:{secret}")),
            hex::encode(&secret),
            secret.bytes().map(|byte| format!("\\u{byte:04x}")).collect(),
            "Bearer sim-access-0001-aa".to_owned(),
        ] {
            assert!(find(text.as_bytes()).is_some(), "{text}");
        }
        assert_eq!(find(b"a canary, and nothing else"), None);
    }

    #[test]
    fn a_folder_is_searched_recursively() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("blobs")).unwrap();
        fs::write(folder.path().join("blobs/plain"), "nothing").unwrap();
        assert_eq!(search(folder.path()).unwrap(), 1);
        fs::write(folder.path().join("blobs/open"), MARK).unwrap();
        assert!(std::panic::catch_unwind(|| search(folder.path())).is_err());
    }
}
