//! Systems that are no HTTP services: databases, and what else speaks a protocol of its own.
//!
//! [`register`] adds their connectors to the registry. Each is a manifest with native actions, and reaches its system only through
//! [`connector::net::Dialer`]. This crate does not know what an automation is.
//!
//! Modules, in reading order:
//!
//! * `connection`: the values of a connection, and the time of calls over it
//! * `explain`: the likely cause of a connection that failed before the login
//! * `pool`: open sessions, kept for the next call
//! * `watched`: streams whose arriving bytes are checked
//! * `spec`: parts of specifications
//! * `file`: bytes of files, piece by piece
//! * `convert`: types of columns
//! * `table`: rows on their way to a result
//! * `csv`: files of rows
//! * `documents`: sheets, HTML and archives, in a process of their own
//! * `sql`: statements to PostgreSQL, MySQL and SQLite
//! * `s3`: objects in a bucket
//! * `sftp`: files on a server that takes logins by SSH
//! * `mail`: mailboxes of a server
//! * `stream`: the parts that the connectors of all brokers have
//! * `nats`: messages of NATS JetStream
//! * `amqp`: messages of queues of RabbitMQ
//! * `redis`: messages of streams of Redis, and values by keys
//! * `fuzzing`: entry points of the fuzzer

mod amqp;
mod connection;
mod convert;
mod csv;
mod documents;
mod explain;
#[cfg(any(feature = "mail", feature = "sftp"))]
mod file;
pub mod fuzzing;
mod mail;
mod nats;
mod pool;
mod redis;
mod s3;
mod sftp;
mod spec;
mod sql;
mod stream;
mod table;
mod watched;

use connector::Registry;
use text::diagnostic::Report;

pub use sql::{Dialect, Piece, Statement, StatementError, index_of_once, table_of_once};

/// Adds the connectors of this crate.
///
/// # Errors
/// Returns the report of a manifest with errors; a test of this crate rules this out.
pub fn register(registry: Registry) -> Result<Registry, Box<Report>> {
    let registry = documents::register(csv::register(registry));
    let registry = sftp::register(s3::register(sql::register(registry)?)?)?;
    redis::register(amqp::register(nats::register(mail::register(registry)?)?)?)
}

/// The tasks that a worker process runs for the actions of this crate.
pub const TASKS: &[script::Task] = documents::TASKS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifests_have_no_errors() {
        let registry = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
        let registry = register(registry).unwrap_or_else(|report| panic!("{}", report.render(false)));
        assert!(["sql.query", "s3.get"].iter().all(|name| registry.action(name).is_some()));
    }
}
