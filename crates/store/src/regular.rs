//! Opening of files of a store, and of others in the data folder: regular files alone, never through a link, so that neither a pipe blocks nor a file of somebody else is
//! touched.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
/// It is a link or no regular file, or the system call fails.
pub fn open_to_read(path: &Path) -> Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// Opens a regular file.
///
/// # Errors
/// It is a link or no regular file, or the system call fails.
pub fn open(path: &Path, options: &mut OpenOptions) -> Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        // Without `NONBLOCK` the open of a pipe waits for its other end.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    }
    let file = options.open(path).map_err(|error| match is_link(path) {
        true => Error::new(ErrorKind::InvalidInput, "it is a link; put the file itself in its place"),
        false => error,
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Returns an error if there is something else than a regular file at `path`. For files that SQLite opens by their path.
pub fn check(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => {
            Err(Error::new(ErrorKind::InvalidInput, "it is a link; put the file itself in its place"))
        }
        Ok(found) if !found.is_file() => Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_symlink())
}

/// Removes the permissions of group and others from a file.
pub fn make_private(file: &File) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}
