//! Errors of MySQL and MariaDB.

use model::ErrorKind;
use mysql_async::{DriverError, Error, IoError, ServerError};

use crate::sql::session::{Class, Failure};

/// The length at which a message of the server is cut, in characters.
const MAX_MESSAGE: usize = 600;

/// Converts an error. The code is the SQLSTATE.
pub(super) fn failure(error: &Error, subject: &str) -> Failure {
    match error {
        Error::Server(error) => refused(error, subject),
        Error::Io(IoError::Tls(error)) => {
            Failure::new(Class::Lost, ErrorKind::Connection, format!("{subject} cannot be used: {error}"))
        }
        // The client reports a certificate that is not trusted as an error of the connection. It needs another connection, and no other
        // attempt.
        Error::Io(error) if error.to_string().contains("certificate") => {
            Failure::new(Class::Lost, ErrorKind::Connection, format!("{subject} cannot be used: {error}"))
        }
        Error::Driver(DriverError::NoClientSslFlagFromServer) => {
            let message = format!("{subject} cannot be used: it has no TLS");
            Failure::new(Class::Lost, ErrorKind::Connection, message)
        }
        Error::Driver(error @ DriverError::StmtParamsMismatch { .. }) => {
            Failure::new(Class::Other, ErrorKind::Input, error.to_string())
        }
        Error::Driver(DriverError::PacketTooLarge) => {
            let message = "a row, or the values of a statement, have more than 16MiB";
            Failure::new(Class::Lost, ErrorKind::Limit, message)
        }
        other => Failure::new(
            Class::Lost,
            ErrorKind::Network,
            format!("the connection to {subject} broke: {other}"),
        ),
    }
}

fn refused(error: &ServerError, subject: &str) -> Failure {
    let said = text::truncate(&error.message, MAX_MESSAGE);
    let (class, kind) = classify(error);
    let message = match kind {
        ErrorKind::Connection => format!("{subject} refuses the login: {said}"),
        ErrorKind::Timeout => format!("{subject} did not finish in time: {said}"),
        ErrorKind::Input if error.code == 1792 => {
            format!("{subject} was only to be read: {said}; change data with `sql.execute`")
        }
        ErrorKind::Input => format!("a value does not fit: {said}"),
        _ => format!("{subject} refused the statement: {said}"),
    };
    let failure = Failure::new(class, kind, message);
    Failure { error: failure.error.with_code(&*error.state), ..failure }
}

/// The meaning of the server's number of an error.
fn classify(error: &ServerError) -> (Class, ErrorKind) {
    match error.code {
        // A deadlock, a wait for a lock that took too long, a row that has changed since the transaction began.
        1213 | 1205 | 1020 => (Class::Conflict, ErrorKind::Network),
        1146 => (Class::NoTable, ErrorKind::Response),
        1044 | 1045 | 1049 | 1130 | 1698 | 1251 | 3118 => (Class::Lost, ErrorKind::Connection),
        1040 | 1053 | 1077 | 1079 | 1080 | 1203 => (Class::Lost, ErrorKind::Network),
        1317 | 1969 | 3024 => (Class::Other, ErrorKind::Timeout),
        // The second is a value of which a column would take a part, which has no SQLSTATE of its own.
        1792 | 1265 => (Class::Other, ErrorKind::Input),
        1927 | 1928 => (Class::Lost, ErrorKind::Network),
        _ if error.state.starts_with("22") => (Class::Other, ErrorKind::Input),
        _ if error.state.starts_with("08") => (Class::Lost, ErrorKind::Network),
        _ => (Class::Other, ErrorKind::Response),
    }
}
