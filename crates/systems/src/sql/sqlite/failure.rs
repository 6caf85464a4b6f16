//! Errors of SQLite.

use model::ErrorKind;
use rusqlite::{Error, ErrorCode, ffi};

use crate::sql::session::{Class, Failure};

/// Converts an error. The code is the name of the constraint, or the extended number of SQLite.
pub(super) fn failure(error: &Error) -> Failure {
    let (code, said) = match error {
        Error::SqliteFailure(code, said) => (Some(code), said.clone()),
        Error::SqlInputError { error, msg, .. } => (Some(error), Some(msg.clone())),
        _ => (None, None),
    };
    let said = said.unwrap_or_else(|| error.to_string());
    let (class, kind, message) = match code.map(|code| code.code) {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Class::Conflict, ErrorKind::Network, format!("the database is busy: {said}"))
        }
        Some(ErrorCode::OperationInterrupted) => {
            (Class::Other, ErrorKind::Timeout, "the statement was interrupted".to_owned())
        }
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            let help = "other files, extensions, transactions and most pragmas are closed to statements";
            (Class::Other, ErrorKind::Input, format!("the statement is not allowed: {said}; {help}"))
        }
        Some(ErrorCode::ReadOnly) => {
            (Class::Other, ErrorKind::Connection, format!("the database can only be read: {said}"))
        }
        Some(ErrorCode::TooBig | ErrorCode::OutOfMemory | ErrorCode::DiskFull) => {
            (Class::Other, ErrorKind::Limit, format!("the database refused the statement: {said}"))
        }
        Some(ErrorCode::CannotOpen | ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            (Class::Other, ErrorKind::Connection, said)
        }
        _ if said.starts_with("no such table") => {
            (Class::NoTable, ErrorKind::Response, format!("the database refused the statement: {said}"))
        }
        _ => (Class::Other, ErrorKind::Response, format!("the database refused the statement: {said}")),
    };
    let failure = Failure::new(class, kind, message);
    match code.map(name) {
        Some(code) => Failure { error: failure.error.with_code(code), ..failure },
        None => failure,
    }
}

fn name(error: &ffi::Error) -> String {
    match error.extended_code {
        ffi::SQLITE_CONSTRAINT_CHECK => "SQLITE_CONSTRAINT_CHECK".to_owned(),
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => "SQLITE_CONSTRAINT_FOREIGNKEY".to_owned(),
        ffi::SQLITE_CONSTRAINT_NOTNULL => "SQLITE_CONSTRAINT_NOTNULL".to_owned(),
        ffi::SQLITE_CONSTRAINT_PRIMARYKEY => "SQLITE_CONSTRAINT_PRIMARYKEY".to_owned(),
        ffi::SQLITE_CONSTRAINT_UNIQUE => "SQLITE_CONSTRAINT_UNIQUE".to_owned(),
        other => format!("SQLITE_{other}"),
    }
}
