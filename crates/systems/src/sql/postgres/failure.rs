//! Errors of PostgreSQL.

use std::error::Error as _;

use model::ErrorKind;
use tokio_postgres::error::DbError;

use crate::sql::params::Parameter;
use crate::sql::session::{Class, Failure};

/// The length at which a message of the server is cut, in characters.
const MAX_MESSAGE: usize = 600;

/// Converts an error. `values` are the parameters of the statement: the message names the parameter that does not fit.
pub(super) fn failure(error: &tokio_postgres::Error, subject: &str, values: &[Parameter]) -> Failure {
    if let Some(server) = error.as_db_error() {
        return refused(server, subject, values);
    }
    let mut cause = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        cause = inner.to_string();
        source = inner.source();
    }
    // A certificate that does not fit or a server without TLS needs another connection, and no other attempt.
    let shown = error.to_string();
    if shown.contains("TLS") || cause.contains("certificate") {
        return Failure::new(
            Class::Lost,
            ErrorKind::Connection,
            format!("{subject} cannot be used: {cause}"),
        );
    }
    if shown.contains("password missing") || cause.contains("password missing") {
        let message = format!("{subject} asks for a password, and the connection has none");
        return Failure::new(Class::Lost, ErrorKind::Connection, message);
    }
    Failure::new(Class::Lost, ErrorKind::Network, format!("the connection to {subject} broke: {cause}"))
}

fn refused(error: &DbError, subject: &str, values: &[Parameter]) -> Failure {
    let code = error.code().code();
    let (class, kind) = classify(code, error.message());
    let said = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.message()),
        None => error.message().to_owned(),
    };
    let said = text::truncate(&said, MAX_MESSAGE);
    let parameter = error.where_().and_then(|place| parameter(place, values));
    let message = match (&kind, parameter) {
        (ErrorKind::Connection, _) => format!("{subject} refuses the login: {said}"),
        (ErrorKind::Timeout, _) => format!("{subject} did not finish in time: {said}"),
        (_, Some(parameter)) => format!("`{}` does not fit: {said}", parameter.name),
        (_, None) if code == "25006" => {
            format!("{subject} was only to be read: {said}; change data with `sql.execute`")
        }
        (_, None) => format!("{subject} refused the statement: {said}"),
    };
    let kind = if code.starts_with("22") && parameter.is_some() { ErrorKind::Input } else { kind };
    let failure = Failure::new(class, kind, message);
    Failure { error: failure.error.with_code(code), ..failure }
}

/// The meaning of an SQLSTATE.
fn classify(code: &str, message: &str) -> (Class, ErrorKind) {
    match code {
        "40001" | "40P01" => (Class::Conflict, ErrorKind::Network),
        // The table has changed since the statement was prepared, or the statement is gone, as after `deallocate all` or with a pooler that
        // shares connections. The next attempt prepares it anew.
        "0A000" if message.contains("cached plan") => (Class::Conflict, ErrorKind::Network),
        "26000" => (Class::Conflict, ErrorKind::Network),
        "42P01" => (Class::NoTable, ErrorKind::Response),
        "57014" => (Class::Other, ErrorKind::Timeout),
        "25006" => (Class::Other, ErrorKind::Input),
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => (Class::Lost, ErrorKind::Network),
        "53300" => (Class::Lost, ErrorKind::Network),
        code => match code.get(..2) {
            Some("08") => (Class::Lost, ErrorKind::Network),
            Some("28" | "3D") => (Class::Lost, ErrorKind::Connection),
            Some("53") => (Class::Other, ErrorKind::Network),
            _ => (Class::Other, ErrorKind::Response),
        },
    }
}

/// The parameter that the server complains of: its context ends in `parameter $1` or `parameter $1 = …`.
fn parameter<'v>(place: &str, values: &'v [Parameter]) -> Option<&'v Parameter> {
    let (_, rest) = place.split_once("portal parameter $")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number: usize = rest[..digits].parse().ok()?;
    values.get(number.checked_sub(1)?)
}
