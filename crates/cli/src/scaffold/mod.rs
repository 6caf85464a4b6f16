//! Creates initial files: a project folder and the schemas.

mod project;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;

use crate::paths;

pub(crate) use project::files;

/// Writes a new file and its folder; never overwrites a file.
///
/// # Errors
/// The file exists, or it cannot be written.
pub(crate) fn create(path: &Path, text: &str) -> anyhow::Result<()> {
    make_parent(path)?;
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    let written = made.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            anyhow::anyhow!("`{}` is there already and is not overwritten", paths::shown(path))
        }
        _ => anyhow::Error::new(error).context(format!("cannot write `{}`", path.display())),
    })
}

/// Creates the parent folder of a file.
pub(crate) fn make_parent(path: &Path) -> anyhow::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    fs::create_dir_all(parent).with_context(|| format!("cannot make the folder `{}`", parent.display()))
}
