//! Classification and description of SQLite errors.

use std::borrow::Cow;

use rusqlite::{ErrorCode, ffi};

use store::{Error, OutageKind};

/// The meaning of a SQLite error for the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorClass {
    /// There is no space.
    Full,
    /// Another program holds the lock.
    Busy,
    /// The disk or the file is not reliable.
    Fatal,
    /// The file may only be read.
    ReadOnly,
    /// The system refuses every write for another reason.
    Refused,
    /// The write itself is at fault.
    Other,
}

pub(super) fn classify(error: &rusqlite::Error) -> ErrorClass {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => ErrorClass::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorClass::Busy,
        Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            ErrorClass::Fatal
        }
        Some(ErrorCode::ReadOnly) => ErrorClass::ReadOnly,
        Some(
            ErrorCode::PermissionDenied
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory
            | ErrorCode::AuthorizationForStatementDenied
            | ErrorCode::FileLockingProtocolFailed,
        ) => ErrorClass::Refused,
        _ => ErrorClass::Other,
    }
}

/// Returns the kind of the outage of which an error of a write tells, on a file that may only be read or not; `None` if other writes
/// can succeed.
pub(super) fn outage_kind(error: &Error, is_read_only: bool) -> Option<OutageKind> {
    match error {
        Error::Full => Some(OutageKind::Full),
        Error::Busy => Some(OutageKind::Stalled),
        Error::Write { .. } if is_read_only => Some(OutageKind::ReadOnly),
        Error::Write { .. } => Some(OutageKind::Refused),
        _ => None,
    }
}

/// Describes an error, with the name of the system call that failed: `disk I/O error` alone does not help an operator.
pub(super) fn describe(error: &rusqlite::Error) -> String {
    match error.sqlite_error().map(|error| error.extended_code) {
        // The message already says as much as a general code.
        Some(code) if code > 0xff => format!("{error} ({})", name(code)),
        _ => error.to_string(),
    }
}

/// Returns the name of an extended result code (<https://sqlite.org/rescode.html>).
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

/// Creates a SQLite error, for a test that injects a fault.
pub(super) fn failure(code: i32) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_error_names_the_failed_sqlite_call() {
        let describe_code = |code| describe(&failure(code));
        assert!(describe_code(ffi::SQLITE_IOERR_FSYNC).ends_with("(SQLITE_IOERR_FSYNC)"));
        assert!(describe_code(ffi::SQLITE_IOERR_SHMSIZE).ends_with("(SQLITE_IOERR_SHMSIZE)"));
        assert!(describe_code(ffi::SQLITE_IOERR_VNODE).ends_with("(SQLite code 6922)"));
        assert!(!describe_code(ffi::SQLITE_FULL).contains('('), "it has no extended code");
    }

    #[test]
    fn only_io_and_corruption_errors_are_fatal_for_the_writer() {
        assert_eq!(classify(&failure(ffi::SQLITE_FULL)), ErrorClass::Full);
        assert_eq!(classify(&failure(ffi::SQLITE_BUSY)), ErrorClass::Busy);
        for code in [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_CORRUPT] {
            assert_eq!(classify(&failure(code)), ErrorClass::Fatal, "{code}");
        }
        assert_eq!(classify(&failure(ffi::SQLITE_CONSTRAINT)), ErrorClass::Other);
    }

    #[test]
    fn sqlite_and_postgres_failures_map_to_the_same_outage_kind() {
        assert_eq!(classify(&failure(ffi::SQLITE_READONLY)), ErrorClass::ReadOnly);
        let write = Error::Write { reason: String::new() };
        assert_eq!(outage_kind(&write, true), Some(OutageKind::ReadOnly));
        assert_eq!(outage_kind(&write, false), Some(OutageKind::Refused));
        assert_eq!(outage_kind(&Error::Busy, false), Some(OutageKind::Stalled));
        assert_eq!(outage_kind(&Error::Invalid { reason: String::new() }, false), None);
    }
}
