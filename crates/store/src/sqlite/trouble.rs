//! What an error of SQLite means for whoever writes, and in which words it is told.

use std::borrow::Cow;

use rusqlite::{ErrorCode, ffi};

/// What an error of SQLite means for the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// There is no space.
    Full,
    /// Another program holds the lock.
    Busy,
    /// The disk or the file cannot be trusted.
    Fatal,
    /// Something about the write itself.
    Other,
}

pub(super) fn kind(error: &rusqlite::Error) -> Kind {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Kind::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Kind::Busy,
        Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Kind::Fatal
        }
        _ => Kind::Other,
    }
}

/// What SQLite says, and at which call the disk failed it: `disk I/O error` alone tells an operator nothing.
pub(super) fn told(error: &rusqlite::Error) -> String {
    match error.sqlite_error().map(|error| error.extended_code) {
        // The general codes are what the words say already.
        Some(code) if code > 0xff => format!("{error} ({})", name(code)),
        _ => error.to_string(),
    }
}

/// The name of an extended result code (<https://sqlite.org/rescode.html>).
fn name(code: i32) -> Cow<'static, str> {
    let name = match code {
        ffi::SQLITE_IOERR_READ => "SQLITE_IOERR_READ",
        ffi::SQLITE_IOERR_SHORT_READ => "SQLITE_IOERR_SHORT_READ",
        ffi::SQLITE_IOERR_WRITE => "SQLITE_IOERR_WRITE",
        ffi::SQLITE_IOERR_FSYNC => "SQLITE_IOERR_FSYNC",
        ffi::SQLITE_IOERR_DIR_FSYNC => "SQLITE_IOERR_DIR_FSYNC",
        ffi::SQLITE_IOERR_TRUNCATE => "SQLITE_IOERR_TRUNCATE",
        ffi::SQLITE_IOERR_FSTAT => "SQLITE_IOERR_FSTAT",
        ffi::SQLITE_IOERR_LOCK => "SQLITE_IOERR_LOCK",
        ffi::SQLITE_IOERR_UNLOCK => "SQLITE_IOERR_UNLOCK",
        ffi::SQLITE_IOERR_NOMEM => "SQLITE_IOERR_NOMEM",
        ffi::SQLITE_IOERR_SHMOPEN => "SQLITE_IOERR_SHMOPEN",
        ffi::SQLITE_IOERR_SHMSIZE => "SQLITE_IOERR_SHMSIZE",
        ffi::SQLITE_IOERR_SHMLOCK => "SQLITE_IOERR_SHMLOCK",
        ffi::SQLITE_IOERR_SHMMAP => "SQLITE_IOERR_SHMMAP",
        ffi::SQLITE_IOERR_CORRUPTFS => "SQLITE_IOERR_CORRUPTFS",
        _ => return format!("SQLite code {code}").into(),
    };
    name.into()
}

/// An error as SQLite gives it, where a test lets something go wrong.
pub(super) fn failure(code: i32) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_disk_is_told_with_the_call_that_failed() {
        let told_of = |code| told(&failure(code));
        assert!(told_of(ffi::SQLITE_IOERR_FSYNC).ends_with("(SQLITE_IOERR_FSYNC)"));
        assert!(told_of(ffi::SQLITE_IOERR_SHMSIZE).ends_with("(SQLITE_IOERR_SHMSIZE)"));
        assert!(told_of(ffi::SQLITE_IOERR_VNODE).ends_with("(SQLite code 6922)"));
        assert!(!told_of(ffi::SQLITE_FULL).contains('('), "it has no extended code");
    }

    #[test]
    fn only_what_leaves_no_doubt_lets_the_writer_go_on() {
        assert_eq!(kind(&failure(ffi::SQLITE_FULL)), Kind::Full);
        assert_eq!(kind(&failure(ffi::SQLITE_BUSY)), Kind::Busy);
        for code in [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_CORRUPT] {
            assert_eq!(kind(&failure(code)), Kind::Fatal, "{code}");
        }
        assert_eq!(kind(&failure(ffi::SQLITE_CONSTRAINT)), Kind::Other);
    }
}
