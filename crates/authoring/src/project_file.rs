//! Reads and changes project files: a file is replaced as a whole or not at all, and only in the version that was read.

use std::io;
use std::path::{Component, Path};

use catalog::{FileKind, MAX_FOLDERS, ProjectFileError, ProjectTarget, read_project_file};
use sha2::{Digest as _, Sha256};

/// The permissions of new files, as programs usually create them.
const MODE: u32 = 0o644;
/// Maximum size of a project file, in bytes.
pub const MAX_FILE_BYTES: usize = 512 << 10;

/// A project file as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectText {
    /// The text.
    pub text: String,
    /// The version: a hash of the text.
    pub version: String,
}

/// The version of a file that a change replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// This one.
    Is(String),
    /// There is no file yet.
    Missing,
}

/// Error of reading or changing a project file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path is not the path of a project file.
    #[error(
        "`{}` is not the path of a project file: name `project.yaml`, or a `.yaml` file or a code file in `automations/`, `connections/` or `connectors/`, in its \
         shortest form, in folders up to 8 deep, without control characters",
        .0.escape_debug()
    )]
    Path(String),
    /// There is no such file.
    #[error("the file `{0}` does not exist")]
    Missing(String),
    /// The file is not in the expected version; the present one is here, or `None` if there is no file.
    #[error("the file was changed on disk meanwhile")]
    Changed(Option<ProjectText>),
    /// The text is larger than a project file may be.
    #[error("a project file has at most 512 KiB, this text {0} bytes")]
    TooLarge(usize),
    /// The file cannot be read or written.
    #[error("`{path}`: {error}")]
    Io {
        /// The path.
        path: String,
        /// The error.
        error: io::Error,
    },
}

fn io_error(path: &str, error: io::Error) -> FileError {
    FileError::Io { path: path.to_owned(), error }
}

/// Returns the version of a text.
#[must_use]
pub fn version_of(text: &str) -> String {
    Sha256::digest(text.as_bytes())[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Maximum number of bytes of a name in a path, as most file systems have it.
const MAX_NAME: usize = 255;

/// Refuses every path except of project files and their tests, in the one form that the loader has for them: relative, without `.`, `..`,
/// empty and hidden names, and no deeper than the loader reads.
///
/// # Errors
/// The path is not the path of a project file.
pub fn check_path(path: &str) -> Result<(), FileError> {
    let parts = Path::new(path).components();
    let mut plain = parts.map(|part| match part {
        Component::Normal(name) => {
            name.to_str().is_some_and(|name| !name.starts_with('.') && name.len() <= MAX_NAME)
        }
        _ => false,
    });
    // Components leave out what does not change the meaning.
    let names = path.split('/');
    let is_shortest = names.clone().all(|name| !matches!(name, "" | "." | ".."));
    let is_listed = names.count() <= MAX_FOLDERS + 1 && !path.contains(|c: char| c.is_control() || c == '\\');
    let is_yaml = [".yaml", ".yml"].iter().any(|suffix| path.ends_with(suffix));
    let is_test = path.starts_with("automations/") && is_yaml && model::test_suite::is_test_file(path);
    let is_file = is_test || FileKind::from_path(Path::new(path)).is_some();
    if plain.all(|part| part) && is_file && is_shortest && is_listed {
        return Ok(());
    }
    Err(FileError::Path(path.to_owned()))
}

/// Reads a project file from disk; `None` if it does not exist.
///
/// # Errors
/// The file cannot be read, is larger than [`MAX_FILE_BYTES`], or is not UTF-8.
pub fn read_file(root: &Path, path: &str) -> Result<Option<ProjectText>, FileError> {
    match read_project_file(root, Path::new(path), MAX_FILE_BYTES as u64) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes)
                .map_err(|_| io_error(path, io::Error::other("the file is not UTF-8")))?;
            Ok(Some(ProjectText { version: version_of(&text), text }))
        }
        Err(ProjectFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(path, error.into())),
    }
}

/// Replaces the text `before` of a project file on disk with `after`, without a daemon.
///
/// # Errors
/// The file has another text or is a link, or it cannot be written. Nothing changed then.
pub fn replace_text(root: &Path, path: &str, before: &str, after: &str) -> Result<(), FileError> {
    write_file(root, path, Some(after), &ExpectedVersion::Is(version_of(before))).map(drop)
}

/// Replaces a project file on disk with `text`, or deletes it if that is `None`. Returns the new version, `None` after a deletion.
///
/// # Errors
/// The file is not in the expected version or is a link, or it cannot be written. Nothing changed then.
pub fn write_file(
    root: &Path,
    path: &str,
    text: Option<&str>,
    expected: &ExpectedVersion,
) -> Result<Option<String>, FileError> {
    let found = read_file(root, path)?;
    let as_expected = match (&found, expected) {
        (Some(found), ExpectedVersion::Is(version)) => found.version == *version,
        (None, ExpectedVersion::Missing) => true,
        _ => false,
    };
    if !as_expected {
        return Err(FileError::Changed(found));
    }
    let failed = |error| io_error(path, error);
    let target =
        ProjectTarget::open(root, Path::new(path), text.is_some()).map_err(|error| failed(error.into()))?;
    match text {
        Some(text) => target.replace(text.as_bytes(), MODE).map_err(failed)?,
        None => drop(target.remove().map_err(failed)?),
    }
    Ok(text.map(version_of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_project_files_have_a_path_that_may_be_changed() {
        for path in [
            "automations/a.yaml",
            "automations/sub/a.yml",
            "automations/a.test.yaml",
            "automations/a.test.yml",
            "automations/x.js",
            "connections/c.yaml",
            "project.yaml",
            &format!("automations/{}.yaml", "a".repeat(250)),
            &format!("automations/{}a.yaml", "x/".repeat(8)),
        ] {
            assert!(check_path(path).is_ok(), "{path}");
        }
        for path in [
            "",
            "a.yaml",
            "project.yml",
            "connections/../project.yaml",
            "/etc/passwd",
            "automations/../cogwork.yaml",
            "automations/.hidden.yaml",
            "automations/.x/a.yaml",
            "automations/a.txt",
            "secrets/wikiToken",
            "automations",
            "automations//a.yaml",
            "./automations/a.yaml",
            "connections/x.js",
            ".cogwork/admin-token",
            "automations\\a.yaml",
            "automations/./a.yaml",
            "automations/a.yaml/",
            "automations/a\nb.yaml",
            "automations/a\r.yaml",
            "automations/a\0.yaml",
            &format!("automations/{}.yaml", "a".repeat(251)),
            &format!("automations/{}a.yaml", "x/".repeat(9)),
        ] {
            assert!(matches!(check_path(path), Err(FileError::Path(_))), "{path}");
        }
    }

    #[test]
    fn a_text_is_replaced_in_the_file_itself_and_never_in_the_place_of_a_link() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("automations/a.yaml");
        std::fs::create_dir(root.path().join("automations")).expect("a folder");
        std::fs::write(&file, "one").expect("written");
        std::os::unix::fs::symlink("a.yaml", root.path().join("automations/b.yaml")).expect("a link");
        let replace = |path: &str, before| replace_text(root.path(), path, before, "two");
        assert!(matches!(replace("automations/a.yaml", "other"), Err(FileError::Changed(Some(_)))));
        assert!(matches!(replace("automations/b.yaml", "one"), Err(FileError::Io { .. })));
        assert!(replace("automations/a.yaml", "one").is_ok());
        assert_eq!(std::fs::read_to_string(root.path().join("automations/b.yaml")).expect("a link"), "two");
    }

    #[test]
    fn a_file_is_written_over_the_version_that_was_read_and_over_no_other() {
        let root = tempfile::tempdir().expect("a folder");
        let path = "automations/sub/a.yaml";
        let put =
            |text: &str, expected: ExpectedVersion| write_file(root.path(), path, Some(text), &expected);
        let first = put("one", ExpectedVersion::Missing).expect("it is new").expect("a version");
        assert!(
            matches!(put("two", ExpectedVersion::Missing), Err(FileError::Changed(Some(found))) if found.text == "one")
        );
        assert!(matches!(
            put("two", ExpectedVersion::Is("other".to_owned())),
            Err(FileError::Changed(Some(_)))
        ));
        let second = put("two", ExpectedVersion::Is(first)).expect("it is read").expect("a version");
        assert_eq!(std::fs::read_to_string(root.path().join(path)).expect("it reads"), "two");
        let deleted = write_file(root.path(), path, None, &ExpectedVersion::Is(second.clone()));
        assert_eq!(deleted.expect("it is deleted"), None);
        assert!(matches!(put("three", ExpectedVersion::Is(second)), Err(FileError::Changed(None))));
        let drafts = std::fs::read_dir(root.path().join("automations/sub")).expect("it lists").count();
        assert_eq!(drafts, 0, "no draft is left");
    }

    #[test]
    fn a_folder_that_is_swapped_with_a_link_after_its_check_leads_nowhere() {
        let (root, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("another"));
        let folder = root.path().join("automations/sub");
        std::fs::create_dir_all(&folder).expect("folders");
        let target =
            ProjectTarget::open(root.path(), Path::new("automations/sub/a.yaml"), true).expect("opened");
        std::fs::rename(&folder, root.path().join("moved")).expect("moved");
        std::os::unix::fs::symlink(outside.path(), &folder).expect("a link");
        target.replace(b"mine", MODE).expect("written");
        assert_eq!(std::fs::read_dir(outside.path()).expect("a folder").count(), 0);
        assert_eq!(std::fs::read_to_string(root.path().join("moved/a.yaml")).expect("read"), "mine");
        std::fs::write(outside.path().join("a.yaml"), "theirs").expect("written");
        assert!(target.remove().expect("removed"));
        assert!(outside.path().join("a.yaml").exists());
    }

    #[cfg(unix)]
    #[test]
    fn no_link_leads_out_and_none_is_replaced() {
        let (root, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("another"));
        std::fs::create_dir(root.path().join("automations")).expect("a folder");
        std::fs::write(outside.path().join("a.yaml"), "theirs").expect("it is written");
        let link =
            |from: &str, to: &Path| std::os::unix::fs::symlink(to, root.path().join(from)).expect("a link");
        link("automations/out", outside.path());
        link("automations/file.yaml", &outside.path().join("a.yaml"));
        std::fs::write(root.path().join("automations/real.yaml"), "real").expect("it is written");
        link("automations/inner.yaml", Path::new("real.yaml"));
        for path in [
            "automations/out/new.yaml",
            "automations/out/a.yaml",
            "automations/file.yaml",
            "automations/inner.yaml",
        ] {
            let expected = ExpectedVersion::Is(version_of("real"));
            for expected in [ExpectedVersion::Missing, expected] {
                assert!(write_file(root.path(), path, Some("mine"), &expected).is_err(), "{path}");
            }
        }
        assert_eq!(std::fs::read_to_string(outside.path().join("a.yaml")).expect("it reads"), "theirs");
        assert!(!outside.path().join("new.yaml").exists());
    }
}
