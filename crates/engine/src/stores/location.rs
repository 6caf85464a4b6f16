//! The location of a store.

use std::fmt;
use std::path::{Path, PathBuf};

use store::Error;

/// The location of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The path of a database file or of its folder. It is a file if there is one or the path ends in `.db`, `.sqlite` or
    /// `.sqlite3`; else it is a folder that holds a `cogwork.db`.
    File(PathBuf),
    /// A database on a server.
    #[cfg(feature = "postgres")]
    Postgres(Box<store_postgres::Address>),
}

impl Location {
    /// Returns true if several daemons can have the store at the same time.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        match self {
            Self::File(_) => false,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => true,
        }
    }

    /// Parses a path, `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. A relative path is relative to `base`.
    ///
    /// # Errors
    /// [`Error::UnsupportedLocation`] if the text is empty or the URL has another scheme, and [`Error::InvalidAddress`] if
    /// the address of a database is not valid.
    pub fn parse(text: &str, base: &Path) -> Result<Self, Error> {
        #[cfg(feature = "postgres")]
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(Box::new(store_postgres::Address::parse(text)?)));
        }
        let path = text.strip_prefix("sqlite://").or_else(|| text.strip_prefix("sqlite:")).unwrap_or(text);
        match path.split_once("://") {
            // The remainder of a URL can hold a password.
            Some((scheme, _)) => Err(Error::UnsupportedLocation { location: format!("{scheme}://…") }),
            None if path.is_empty() => Err(Error::UnsupportedLocation { location: text.to_owned() }),
            None => Ok(Self::File(base.join(path))),
        }
    }

    /// Returns the path of the database file or of its folder; `None` for a database on a server.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => None,
        }
    }

    /// Returns the password of a database on a server, so that it can be kept out of logs.
    #[must_use]
    pub fn password(&self) -> Option<String> {
        match self {
            Self::File(_) => None,
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => address.password(),
        }
    }

    /// Returns the host and the port of each server of a store that is not a file.
    #[must_use]
    pub fn servers(&self) -> Vec<(String, u16)> {
        match self {
            Self::File(_) => Vec::new(),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => address.servers(),
        }
    }

    /// Returns true if there is a store, false if nothing was ever stored there. Of a database on a server, only a connection can tell.
    ///
    /// # Errors
    /// The place cannot be read, or the database file is missing beside other files of a store.
    pub fn exists(&self) -> Result<bool, Error> {
        self.path().map_or(Ok(true), store_sqlite::exists)
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl fmt::Display for Location {
    /// Formats the location without a password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(formatter),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => address.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Location, String> {
        Location::parse(text, Path::new("/project")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_relative_path_is_resolved_against_the_base() {
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
    fn an_unsupported_scheme_is_rejected_without_showing_the_password() {
        let message = parse("mysql://cogwork:hunter2@db/cogwork").expect_err("it is not supported");
        assert_eq!(
            message,
            "the store location `mysql://…` is not supported; give the path of a file or a folder, `sqlite:PATH` or \
             `postgres://USER@HOST/DATABASE`"
        );
        assert!(parse("").is_err());
        assert!(parse("sqlite:").is_err());
    }
}
