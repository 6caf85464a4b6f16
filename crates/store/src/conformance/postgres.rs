//! A PostgreSQL server for tests, with a schema of its own for each store.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use postgres_server::Server;

/// A server on a socket in a temporary folder. Dropping it stops the server and deletes its data.
#[derive(Debug)]
pub struct PostgresServer(Server);

/// A schema of a server, which has no tables at first.
#[derive(Debug, Clone)]
pub struct PostgresSpace {
    folder: PathBuf,
    schema: String,
}

impl PostgresServer {
    /// Starts a server.
    ///
    /// # Panics
    /// PostgreSQL is not installed (the message names the package), or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a server with further arguments, such as `-c fsync=off`.
    ///
    /// # Panics
    /// PostgreSQL is not installed (the message names the package), or does not start.
    #[must_use]
    pub fn start_with(arguments: &str) -> Self {
        match Server::start_with(arguments) {
            Ok(server) => Self(server),
            Err(error) => panic!("no PostgreSQL server: {error}"),
        }
    }

    /// Stops the server as a crash does, and starts it again.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart(&self) {
        self.0.restart().expect("the server starts again");
    }

    /// Returns the folder of the server's socket.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.0.folder()
    }

    /// Makes a schema of its own for a store.
    ///
    /// # Panics
    /// The server refuses.
    #[must_use]
    pub fn space(&self) -> PostgresSpace {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let schema = format!("space{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.run(&format!("CREATE SCHEMA {schema}"));
        PostgresSpace { folder: self.folder().to_owned(), schema }
    }

    /// Runs SQL as the owner of the server, and returns what it prints.
    ///
    /// # Panics
    /// The server refuses.
    pub fn run(&self, sql: &str) -> String {
        self.0.sql(sql).expect("the server runs it")
    }
}

impl PostgresSpace {
    /// Returns the address of a store in this schema.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as("cogwork")
    }

    /// Returns the address for another user.
    #[must_use]
    pub fn url_as(&self, user: &str) -> String {
        let host = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://{user}@{host}/postgres?options=-c%20search_path%3D{}", self.schema)
    }

    /// Returns the name of the schema.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }
}
