//! The location of a store.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::sqlite;

/// The location of a store: the path of a database file or of its folder.
///
/// A path is a file if it is one or ends in `.db`, `.sqlite` or `.sqlite3`; else it is a folder that holds a
/// `cogwork.db`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    path: PathBuf,
}

impl Location {
    /// Parses a path, `sqlite:PATH` or a URL. A relative path is relative to `base`.
    ///
    /// # Errors
    /// [`Error::UnsupportedLocation`] if the text is empty or the URL has another scheme than `sqlite`.
    pub fn parse(text: &str, base: &Path) -> Result<Self, Error> {
        let path = text.strip_prefix("sqlite://").or_else(|| text.strip_prefix("sqlite:")).unwrap_or(text);
        match path.split_once("://") {
            // The rest of a URL can hold a password.
            Some((scheme, _)) => Err(Error::UnsupportedLocation { location: format!("{scheme}://…") }),
            None if path.is_empty() => Err(Error::UnsupportedLocation { location: text.to_owned() }),
            None => Ok(Self { path: base.join(path) }),
        }
    }

    /// Returns the path of the database file or of its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if there is a store.
    #[must_use]
    pub fn exists(&self) -> bool {
        sqlite::exists(&self.path)
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Self { path }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Location, String> {
        Location::parse(text, Path::new("/project")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_path_is_relative_to_the_base() {
        for (text, path) in [
            ("data", "/project/data"),
            ("sqlite:data/flows.db", "/project/data/flows.db"),
            ("sqlite:///var/lib/cogwork", "/var/lib/cogwork"),
            ("/var/lib/cogwork", "/var/lib/cogwork"),
        ] {
            assert_eq!(parse(text), Ok(Location::from(Path::new(path))), "{text}");
        }
    }

    #[test]
    fn an_unsupported_scheme_is_refused_without_its_password() {
        let message = parse("postgres://cogwork:hunter2@db/cogwork").expect_err("it is not supported");
        assert_eq!(
            message,
            "the store location `postgres://…` is not supported yet; give the path of a file or a folder, or \
             `sqlite:PATH`"
        );
        assert!(parse("").is_err());
        assert!(parse("sqlite:").is_err());
    }
}
