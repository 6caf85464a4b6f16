//! The marks that a migration leaves in stores: a target that is not complete, and a source that was moved.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::record::Kind;
use super::side::{Mark, Place};
use crate::Error;

/// The name of the mark of a store that was moved.
pub const MOVED: &str = "movedTo";
/// The name of the mark of a store that has a part of another one.
pub const UNFINISHED: &str = "migration";

/// The mark of a store that was moved.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Moved {
    /// The new place, without a password.
    pub(super) to: String,
    at: Timestamp,
}

/// The mark of a store that has a part of another one: how far the migration has come.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Unfinished {
    /// The identity of the source.
    pub(super) source: String,
    /// Its place, without a password.
    from: String,
    /// The kind that is being moved, and the place of the last record of it.
    pub(super) kind: Option<Kind>,
    pub(super) after: Place,
}

impl Moved {
    pub(super) fn new(to: &str, at: Timestamp) -> Self {
        Self { to: to.to_owned(), at }
    }

    pub(super) fn mark(&self) -> Result<Mark, Error> {
        Ok((MOVED, Some(json(self)?)))
    }

    pub(super) fn read(text: &str) -> Result<Self, Error> {
        parse(text)
    }

    pub(super) fn error(&self, location: &impl std::fmt::Display) -> Error {
        Error::Moved { location: location.to_string(), to: self.to.clone(), at: self.at }
    }
}

impl Unfinished {
    pub(super) fn new(source: String, from: &str) -> Self {
        Self { source, from: from.to_owned(), kind: None, after: Place::default() }
    }

    pub(super) fn mark(&self) -> Result<Mark, Error> {
        Ok((UNFINISHED, Some(json(self)?)))
    }

    pub(super) fn read(text: &str) -> Result<Self, Error> {
        parse(text)
    }

    pub(super) fn error(&self, location: &impl std::fmt::Display) -> Error {
        Error::HalfMoved { location: location.to_string(), from: self.from.clone() }
    }
}

/// Returns an error if the marks of a store say that no daemon may start on it.
pub fn check_startable(
    location: &impl std::fmt::Display,
    moved: Option<&str>,
    unfinished: Option<&str>,
) -> Result<(), Error> {
    if let Some(text) = unfinished {
        return Err(Unfinished::read(text)?.error(location));
    }
    match moved {
        Some(text) => Err(Moved::read(text)?.error(location)),
        None => Ok(()),
    }
}

fn json(mark: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(mark).map_err(|error| Error::Invalid { reason: error.to_string() })
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Error> {
    let unreadable = |error| Error::RecordDamaged { detail: format!("the mark of a migration: {error}") };
    serde_json::from_str(text).map_err(unreadable)
}

/// Creates the error for a migration that cannot begin.
pub fn refused(reason: String) -> Error {
    Error::Migrate { reason }
}
