//! Systems that are no HTTP services: databases, and what else speaks a protocol of its own.
//!
//! [`register`] adds their connectors to the registry. Each is a manifest with native actions, and reaches its system only through
//! [`connector::net::Dialer`]. This crate does not know what an automation is.
//!
//! Modules, in reading order:
//!
//! * `sql`: statements to PostgreSQL, MySQL and SQLite

mod sql;

use connector::Registry;
use text::diagnostic::Report;

pub use sql::{Dialect, Piece, Statement, StatementError};

/// Adds the connectors of this crate.
///
/// # Errors
/// Returns the report of a manifest with errors; a test of this crate rules this out.
pub fn register(registry: Registry) -> Result<Registry, Box<Report>> {
    sql::register(registry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifests_have_no_errors() {
        let registry = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
        let registry = register(registry).unwrap_or_else(|report| panic!("{}", report.render(false)));
        assert!(registry.action("sql.query").is_some());
    }
}
