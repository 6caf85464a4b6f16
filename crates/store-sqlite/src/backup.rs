//! Backup of a store in use: a snapshot of the database and the blobs that it names.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use value::BlobSource as _;

use super::blobs::{self, BlobFiles, Folder, Hash};
use super::paths::{StorePaths, sync_directory};
use super::pool::read_error;
use super::schema::{SCHEMA, Schema};
use super::settings;
use super::usage::Usage;
use store::{Backup, Error, Options};

/// Copies a snapshot of the store at `from` to the new folder `to`; a daemon may have the store open and go on writing. The
/// copy is a store of its own. Blocks until the copy is on disk; after a crash there is no folder `to`.
///
/// # Errors
/// There is no store, `to` exists, a blob is missing or damaged, or the system refuses.
pub fn back_up(from: &Path, to: &Path) -> Result<Backup, Error> {
    let paths = StorePaths::new(from);
    let source = settings::open_reader(&paths.file)?;
    SCHEMA.check(&source, &paths.file)?;
    // `query_only` would also forbid writing the copy.
    source.pragma_update(None, "query_only", false).map_err(read_error)?;
    let failed = |reason: String| Error::Backup { path: to.to_owned(), reason };
    let io = |error: std::io::Error| failed(error.to_string());
    if to.exists() {
        return Err(failed("it exists already; name a folder that does not".to_owned()));
    }
    // Only a complete copy gets the final name.
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    if partial.exists() {
        let reason = format!("`{}` is left from an interrupted backup; remove it", partial.display());
        return Err(failed(reason));
    }
    let copy = StorePaths::of_directory(&partial);
    copy.make_directory()?;
    let done = copy_store(&paths, &source, &copy, SCHEMA).and_then(|backup| {
        std::fs::rename(&partial, to).map_err(io)?;
        sync_directory(above(to)).map_err(io)?;
        Ok(Backup { path: to.to_owned(), ..backup })
    });
    if done.is_err() {
        // An incomplete copy is useless. If it cannot be deleted, the next attempt reports it.
        let _ = std::fs::remove_dir_all(&partial);
    }
    done.map_err(|error| match error {
        Error::Full => failed("there is no space left".to_owned()),
        other => other,
    })
}

/// Copies a snapshot of the store at `paths`, which `source` reads, to `copy`, whose folder exists and is empty. Migrates the
/// tables of the copy to `schema`, and verifies every large value and the structure of the copy. All of it is on disk when
/// this returns.
pub(super) fn copy_store(
    paths: &StorePaths,
    source: &Connection,
    copy: &StorePaths,
    schema: Schema,
) -> Result<Backup, Error> {
    let failed = |reason: String| Error::Backup { path: copy.directory.clone(), reason };
    let io = |error: std::io::Error| failed(error.to_string());
    // Locked before the snapshot, so that no blob that it names is deleted before it is copied.
    let _kept = blobs::lock_for_copy(paths).map_err(io)?;
    copy.make_file()?;
    let name = copy.file.to_str().ok_or_else(|| failed("its path is no text".to_owned()))?;
    source.execute("VACUUM INTO ?1", [name]).map_err(|error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => Error::Full,
        _ => read_error(error),
    })?;
    if schema.older(source, &paths.file)?.is_some() {
        let mut writer = settings::open_writer(&copy.file, &Options::default())?;
        schema.migrate(&mut writer, &copy.file)?;
        writer.close().map_err(|(_, error)| read_error(error))?;
    }
    File::open(&copy.file).and_then(|file| file.sync_all()).map_err(io)?;
    let connection = settings::open_reader(&copy.file)?;
    let folder = |paths| Arc::new(Folder::new(paths, Usage::default()));
    let (from, to) = (folder(paths), folder(copy));
    let mut backup = Backup { path: PathBuf::new(), executions: 0, blobs: 0, bytes: 0 };
    let mut blobs =
        connection.prepare("SELECT hash, length, is_file FROM blobs WHERE uses > 0").map_err(read_error)?;
    let mut rows = blobs.query([]).map_err(read_error)?;
    while let Some(row) = rows.next().map_err(read_error)? {
        let (hash, length, is_file): (Hash, u32, bool) =
            row.get(0).and_then(|hash| Ok((hash, row.get(1)?, row.get(2)?))).map_err(read_error)?;
        // Read and verified, not only copied: damage shows now, not when the backup is needed.
        let copied = if is_file {
            let content = BlobFiles(from.clone()).blob(hash, u64::from(length));
            BlobFiles(to.clone()).settle(&content)?
        } else {
            to.put(from.read(&hash, length as usize)?.as_bytes())?
        };
        backup.bytes += copied.stored();
        backup.blobs += 1;
    }
    to.clear_unnamed().map_err(io)?;
    check(&connection)?;
    let count = connection.query_row("SELECT count(*) FROM executions", [], |row| row.get::<_, i64>(0));
    backup.executions = u64::try_from(count.map_err(read_error)?).unwrap_or_default();
    backup.bytes += copy.file.metadata().map_err(io)?.len();
    sync_directory(&copy.directory).map_err(io)?;
    Ok(backup)
}

fn check(copy: &Connection) -> Result<(), Error> {
    let found: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(read_error)?;
    if found == "ok" { Ok(()) } else { Err(Error::DatabaseDamaged { detail: found }) }
}

/// Returns the folder that holds `path`.
fn above(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::super::schema::tests::LATER;
    use super::*;

    #[test]
    fn a_backup_of_an_earlier_release_is_migrated_but_not_its_source() {
        let folder = tempfile::tempdir().expect("a folder");
        let [paths, copy] = ["data", "copy"].map(|name| StorePaths::of_directory(&folder.path().join(name)));
        for paths in [&paths, &copy] {
            paths.make_directory().expect("it is made");
        }
        paths.make_file().expect("it is made");
        let mut writer = settings::open_writer(&paths.file, &Options::default()).expect("it opens");
        SCHEMA.migrate(&mut writer, &paths.file).expect("it has tables");
        writer.execute("INSERT INTO watermarks VALUES ('orders', 'hourly', 7)", []).expect("it is stored");
        drop(writer);
        let source = settings::open_reader(&paths.file).expect("it opens");
        source.pragma_update(None, "query_only", false).expect("it is set");
        copy_store(&paths, &source, &copy, LATER).expect("it is copied");
        SCHEMA.check(&source, &paths.file).expect("it has its tables");
        let copied = settings::open_reader(&copy.file).expect("it opens");
        LATER.check(&copied, &copy.file).expect("it has the later tables");
        let later: String = copied
            .query_row("SELECT later FROM watermarks WHERE instant_ns = 7", [], |row| row.get(0))
            .expect("its row is there");
        assert_eq!(later, "new");
    }
}
