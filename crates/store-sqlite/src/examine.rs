//! Checks that a daemon could open a file for writing, without changing it.

use std::fs::OpenOptions;
use std::path::Path;

use super::paths::{StorePaths, exists};
use super::schema::SCHEMA;
use super::{migration, settings};
use store::{Error, Examination};

/// Checks that a daemon could open the store at `path`, and changes nothing. A daemon may have it open.
///
/// # Errors
/// The errors of [`crate::open`], except that another daemon has it open.
pub fn examine(path: &Path) -> Result<Examination, Error> {
    settings::check_version(rusqlite::version_number(), rusqlite::version())?;
    if !exists(path)? {
        return Ok(Examination::Missing);
    }
    let paths = StorePaths::new(path);
    paths.check_file_system()?;
    // Opened and closed: nothing is written.
    let writable = OpenOptions::new().write(true).open(&paths.file);
    writable.map_err(|error| Error::Open {
        path: paths.file.clone(),
        reason: format!("it cannot be written: {error}"),
    })?;
    let connection = settings::open_reader(&paths.file)?;
    let older = SCHEMA.older(&connection, &paths.file).map_err(|error| paths.refine_error(error))?;
    migration::check_marks(&connection, &paths.file)?;
    Ok(Examination::Usable { older, server_time: None, weakened: Vec::new() })
}
