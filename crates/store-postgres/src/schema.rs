//! The tables and their migrations.

use model::automation::Level;
use refinery::{Migration, Runner};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::connect::{is_transient, message};

/// The tables of a release.
#[derive(Clone, Copy)]
pub(super) struct Schema {
    /// The migrations, oldest first. Their number is the version of the tables.
    migrations: &'static [(&'static str, &'static str)],
    /// The oldest version that a release must know to use these tables. Daemons of two releases run beside each other during a rolling
    /// update, so a migration only adds what the previous release does not mind. What that release still needs goes later, together
    /// with a higher number here.
    oldest: i32,
}

/// The tables that this release reads and writes. A released migration never changes.
pub(super) const SCHEMA: Schema = Schema {
    migrations: &[
        ("V1__initial", include_str!("../migrations/V1__initial.sql")),
        ("V2__level", include_str!("../migrations/V2__level.sql")),
        ("V3__outbox", include_str!("../migrations/V3__outbox.sql")),
    ],
    oldest: 1,
};

/// Returns the version of the tables that each release which knows this level of the language knows too.
pub(super) fn version_for(level: Level) -> i32 {
    if level <= Level::FIRST { 1 } else { 3 }
}

/// The number of the oldest version as the database has it, and its row. A database without the row is used by releases that know its
/// version.
const FOUND_OLDEST: &str = "SELECT convert_from(value, 'UTF8')::int4 FROM meta WHERE name = 'oldest'";
const PUT_OLDEST: &str = "INSERT INTO meta (name, value) VALUES ('oldest', convert_to($1::int4::text, 'UTF8')) \
    ON CONFLICT (name) DO UPDATE SET value = convert_to(greatest(convert_from(meta.value, 'UTF8')::int4, $1)::text, 'UTF8')";
/// Fences off the daemons of releases that cannot use the tables of this one.
const EXPEL: &str = "BEGIN; UPDATE nodes SET dead = true; UPDATE lanes SET dead = true; COMMIT";

/// Time that the migration waits for a lock before it lets sessions behind it pass, and the number of its attempts.
const LOCK_TIMEOUT: &str = "SET lock_timeout = '2s'";
const NO_LOCK_TIMEOUT: &str = "SET lock_timeout TO DEFAULT";
const MAX_TRIES: u32 = 30;

/// Only one daemon migrates at a time. Held by the session.
const LOCK: &str =
    "SELECT pg_advisory_lock(hashtextextended('cogwork:' || current_schema() || ':schema', 0))";
const UNLOCK: &str =
    "SELECT pg_advisory_unlock(hashtextextended('cogwork:' || current_schema() || ':schema', 0))";

impl Schema {
    /// Returns the version of the tables.
    pub(super) fn version(self) -> i32 {
        i32::try_from(self.migrations.len()).unwrap_or(i32::MAX)
    }

    /// Makes the tables, or migrates them to this version in one transaction. Returns what to tell people if that fails.
    pub(super) async fn migrate(self, client: &mut Client) -> Result<(), String> {
        let failed = |error: tokio_postgres::Error| explain(&error);
        check_schema(client).await?;
        client.query_one(LOCK, &[]).await.map_err(failed)?;
        let migrated = self.migrate_locked(client).await;
        client.query_one(UNLOCK, &[]).await.map_err(failed)?;
        migrated
    }

    async fn migrate_locked(self, client: &mut Client) -> Result<(), String> {
        let failed = |error: tokio_postgres::Error| explain(&error);
        let found = version(client).await?;
        match found {
            Some(found) if found >= self.version() => return self.check_later(client, found).await,
            Some(found) => {
                // Before the tables change, so that no daemon starts that cannot use them.
                client.execute(PUT_OLDEST, &[&self.oldest]).await.map_err(failed)?;
                if found < self.oldest {
                    client.batch_execute(EXPEL).await.map_err(failed)?;
                }
            }
            None => {}
        }
        let migrations = self.migrations.iter().map(|(name, sql)| Migration::unapplied(name, sql));
        let migrations = migrations.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        client.batch_execute(LOCK_TIMEOUT).await.map_err(failed)?;
        let mut tries = 1;
        loop {
            // Ungrouped, a crash could leave a migration applied but not recorded.
            match Runner::new(&migrations).set_grouped(true).run_async(client).await {
                Ok(_) => break,
                Err(error) if database_error(&error).is_some_and(is_transient) && tries < MAX_TRIES => {
                    tries += 1
                }
                Err(error) => return Err(cause(&error)),
            }
        }
        client.batch_execute(NO_LOCK_TIMEOUT).await.map_err(failed)?;
        if found.is_none() {
            client.execute(PUT_OLDEST, &[&self.oldest]).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Returns what to tell people if this release cannot use the tables of a later one.
    async fn check_later(self, client: &Client, found: i32) -> Result<(), String> {
        if found == self.version() {
            return Ok(());
        }
        let oldest = client.query_opt(FOUND_OLDEST, &[]).await.map_err(|error| explain(&error))?;
        let oldest = oldest.map(|row| row.try_get(0)).transpose().map_err(|error| explain(&error))?;
        if self.is_usable(oldest.unwrap_or(found)) { Ok(()) } else { Err(self.newer(found)) }
    }

    /// Returns true if this release can use tables that need the knowledge of this version.
    pub(super) fn is_usable(self, oldest: i32) -> bool {
        oldest <= self.version()
    }

    /// Returns what to tell people if this release cannot use the tables any more.
    pub(super) fn too_old(self, oldest: i32) -> String {
        format!(
            "the tables of the database now need a release that knows version {oldest}, this one knows up to {}; \
             use the release that wrote it, or a later one",
            self.version()
        )
    }

    /// Returns the version of the tables, or what to tell people if this release can neither use nor migrate them; `None` if there are
    /// none.
    pub(super) async fn readable_version(self, client: &Client) -> Result<Option<i32>, String> {
        let found = version(client).await?;
        if let Some(found) = found.filter(|found| *found > self.version()) {
            self.check_later(client, found).await?;
        }
        Ok(found)
    }

    /// Returns what to tell people if this release cannot read the tables. A read-only store cannot migrate.
    pub(super) async fn check(self, client: &Client) -> Result<(), String> {
        match version(client).await? {
            Some(found) if found >= self.version() => self.check_later(client, found).await,
            Some(found) => Err(format!(
                "it has tables of version {found}, this release reads version {}; start the daemon once to migrate \
                 them",
                self.version()
            )),
            None => Err(
                "it has no tables of Cogwork; start the daemon once to make them, or give the address of \
                another database"
                    .to_owned(),
            ),
        }
    }

    fn newer(self, found: i32) -> String {
        format!(
            "it has tables of version {found}, this release knows up to {}; use the release that wrote it, or a later one",
            self.version()
        )
    }
}

/// Returns what to tell people if there is no schema in which tables could be.
pub(super) async fn check_schema(client: &Client) -> Result<(), String> {
    let failed = |error: tokio_postgres::Error| explain(&error);
    let schema = client.query_one("SELECT current_schema()", &[]).await.map_err(failed)?;
    match schema.try_get::<_, Option<String>>(0).map_err(failed)? {
        Some(_) => Ok(()),
        None => {
            Err("the database has no schema that its user may use; create one, or set `search_path`"
                .to_owned())
        }
    }
}

/// Returns the version of the tables; `None` if there are none.
async fn version(client: &Client) -> Result<Option<i32>, String> {
    let failed = |error: tokio_postgres::Error| explain(&error);
    let found = "SELECT to_regclass('refinery_schema_history') IS NOT NULL, to_regclass('live') IS NOT NULL, \
        to_regclass('executions') IS NOT NULL OR to_regclass('events') IS NOT NULL";
    let row = client.query_one(found, &[]).await.map_err(failed)?;
    let (history, live, others): (bool, bool, bool) =
        (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?, row.try_get(2).map_err(failed)?);
    match (history, live) {
        (true, true) => {
            let row = client.query_one("SELECT max(version)::int4 FROM refinery_schema_history", &[]).await;
            row.map_err(failed)?.try_get(0).map_err(failed)
        }
        (false, false) if !others => Ok(None),
        _ => Err("it has tables of another program with the same names; give Cogwork a database, or a schema, of its \
            own"
            .to_owned()),
    }
}

fn cause(error: &refinery::Error) -> String {
    database_error(error).map_or_else(|| error.to_string(), explain)
}

fn database_error(error: &refinery::Error) -> Option<&tokio_postgres::Error> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<tokio_postgres::Error>() {
            return Some(error);
        }
        source = error.source();
    }
    None
}

/// Returns what to tell people if the user lacks a right.
pub(super) fn may_not(what: &str) -> String {
    format!(
        "the user {what}; make it the owner of the database and of the tables, or `GRANT CREATE, USAGE ON SCHEMA public TO <user>`, \
         `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO <user>` and \
         `GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO <user>`"
    )
}

/// Returns the message of an error, with the way out after a semicolon if it is known.
pub(super) fn explain(error: &tokio_postgres::Error) -> String {
    let said = message(error);
    let way_out = match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE)
            if said.contains("for table") || said.contains("for sequence") =>
        {
            return may_not("has no right to its tables or their sequences");
        }
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            "the user needs the right to create tables: make it the owner of the database, or `GRANT CREATE, USAGE ON \
             SCHEMA public TO <user>`"
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => "create it, or correct the name at the end of the address",
        Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) if said.contains("no encryption") => {
            "let the user in from this machine in `pg_hba.conf` of the server, or, if it takes encrypted connections only, add \
             `?sslmode=verify-full` to the address"
        }
        Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) if said.contains("pg_hba.conf") => {
            "let the user in from this machine in `pg_hba.conf` of the server, or correct the address"
        }
        Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            "correct the user and the password in the address"
        }
        Some(&SqlState::TOO_MANY_CONNECTIONS) => {
            "raise `max_connections` of the server, or the limit of the user or the database"
        }
        Some(&SqlState::CANNOT_CONNECT_NOW) => "wait until the server has started, and look at its log",
        Some(_) => return said,
        // The client has looked for a server that takes writes.
        None if said.contains("does not allow writes") => {
            return "the server takes no writes: it is a standby, or `default_transaction_read_only` is on; give the address of the \
                primary, or switch that setting off"
                .to_owned();
        }
        None => match connection_way_out(&said) {
            Some(way_out) => way_out,
            None => return said,
        },
    };
    format!("{said}; {way_out}")
}

/// Returns the way out of a failure to connect, by its message: neither the library nor the system gives it a code.
fn connection_way_out(said: &str) -> Option<&'static str> {
    let said = said.to_lowercase();
    let ways = [
        (
            &["does not support tls", "tls not supported"][..],
            "switch encryption on at the server, or allow an open connection with `?sslmode=disable`",
        ),
        (
            &["certificate"],
            "name the authorities that signed the certificate with `?sslrootcert=FILE`, and the host as in the certificate",
        ),
        (&["tls", "ssl"], "check the encryption of the server, and `sslmode` in the address"),
        (
            &["lookup", "resolve", "not known"],
            "correct the host in the address, or the name service of this machine",
        ),
        (
            &["refused", "no such file", "closed", "reset", "unreachable", "timed out", "timeout", "expired"],
            "start the database server, or correct the host and the port in the address",
        ),
        (&["password missing"], "give the password in the address: `postgres://USER:PASSWORD@HOST/DATABASE`"),
    ];
    ways.into_iter()
        .find(|(words, _)| words.iter().any(|word| said.contains(word)))
        .map(|(_, way_out)| way_out)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tempfile::TempDir;
    use tokio_postgres::NoTls;

    use super::*;
    use store::conformance::{PostgresServer, PostgresSpace};
    use store::{Options, Store};

    /// The tables of release 0.1.0.
    const EARLIER: Schema = Schema { migrations: &[SCHEMA.migrations[0]], oldest: 1 };
    /// The tables of a later release that daemons of this one can use.
    const LATER: Schema = Schema {
        migrations: &[
            SCHEMA.migrations[0],
            SCHEMA.migrations[1],
            SCHEMA.migrations[2],
            ("V4__later", "ALTER TABLE live ADD COLUMN later text"),
        ],
        oldest: 1,
    };
    /// The tables of a later release that daemons of this one cannot use.
    const BREAKING: Schema = Schema { oldest: 4, ..LATER };
    /// The last of its migrations fails at its second statement.
    const BROKEN: Schema = Schema {
        migrations: &[
            LATER.migrations[0],
            LATER.migrations[1],
            LATER.migrations[2],
            LATER.migrations[3],
            ("V5__broken", "CREATE TABLE half (a int); SELECT * FROM missing"),
        ],
        oldest: 1,
    };
    /// Maximum time in which a daemon notices that it is fenced off: it beats every two seconds.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn open(space: &PostgresSpace, folder: &TempDir) -> Arc<dyn Store> {
        let options = Options { local: Some(folder.path().to_owned()), ..Options::default() };
        let address = crate::Address::parse(&space.url()).expect("an address");
        crate::open(&address, options).expect("it opens")
    }

    async fn connect(space: &PostgresSpace) -> Client {
        let (client, connection) = tokio_postgres::connect(&space.url(), NoTls).await.expect("it connects");
        tokio::spawn(connection);
        client
    }

    async fn deaths(store: &dyn Store) -> Vec<bool> {
        store.nodes().await.expect("they are read").iter().map(|node| node.dead).collect()
    }

    fn oldest(server: &PostgresServer, space: &PostgresSpace) -> String {
        server.run(&format!(
            "SELECT convert_from(value, 'UTF8') FROM {}.meta WHERE name = 'oldest'",
            space.schema()
        ))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn compatible_daemons_continue_after_a_migration() {
        let (server, folder) = (PostgresServer::start(), tempfile::tempdir().expect("a folder"));
        let space = server.space();
        let running = open(&space, &folder);
        let (mut one, mut other) = (connect(&space).await, connect(&space).await);
        assert_eq!(LATER.readable_version(&one).await, Ok(Some(3)));
        LATER.check(&one).await.expect_err("a reader may not change the tables");
        // Two daemons start while a backup reads: one migrates after it, and the other one waits for that.
        let backup = connect(&space).await;
        backup.batch_execute("BEGIN; LOCK TABLE live IN ACCESS SHARE MODE").await.expect("it is locked");
        let release = async {
            let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            let are_waiting =
                async || backup.query_one(waiting, &[]).await.expect("it is counted").get::<_, i64>(0) > 1;
            while !are_waiting().await {}
            backup.batch_execute("COMMIT").await.expect("it is released");
        };
        let all = async { tokio::join!(LATER.migrate(&mut one), LATER.migrate(&mut other), release) };
        let (first, second, ()) = tokio::time::timeout(PATIENCE, all).await.expect("they migrate");
        assert_eq!((first, second), (Ok(()), Ok(())));
        LATER.check(&one).await.expect("they have the version");
        SCHEMA.check(&one).await.expect("this release may use them");
        assert_eq!(oldest(&server, &space), "1");
        assert_eq!(deaths(&*running).await, [false]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_release_before_uses_the_tables_until_a_level_is_raised() {
        let (server, folder) = (PostgresServer::start(), tempfile::tempdir().expect("a folder"));
        let space = server.space();
        let mut client = connect(&space).await;
        EARLIER.migrate(&mut client).await.expect("it makes its tables");
        let running = open(&space, &folder);
        assert_eq!(SCHEMA.readable_version(&client).await, Ok(Some(3)));
        EARLIER.check(&client).await.expect("it may use them");
        EARLIER.migrate(&mut client).await.expect("it starts again");
        running.raise_level(Level::SECOND).await.expect("no older daemon runs");
        let refused = EARLIER.migrate(&mut client).await.expect_err("it does not know the level");
        assert!(refused.contains("use the release that wrote it"), "{refused}");
        assert!(
            !EARLIER.is_usable(oldest(&server, &space).parse().expect("a number")),
            "its next beat stops it"
        );
        LATER.migrate(&mut client).await.expect("a later release migrates");
        assert_eq!(oldest(&server, &space), "3", "no migration lowers it");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_migration_fences_incompatible_daemons() {
        let (server, folder) = (PostgresServer::start(), tempfile::tempdir().expect("a folder"));
        let space = server.space();
        let running = open(&space, &folder);
        let mut client = connect(&space).await;
        BREAKING.migrate(&mut client).await.expect("it is migrated");
        assert_eq!(oldest(&server, &space), "4");
        assert_eq!(deaths(&*running).await, [true]);
        let failure = tokio::time::timeout(PATIENCE, running.failure()).await.expect("it stops");
        assert!(failure.to_string().contains("use the release that wrote it"), "{failure}");
        SCHEMA.migrate(&mut client).await.expect_err("this release cannot use them");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_failed_migration_changes_no_table() {
        let (server, folder) = (PostgresServer::start(), tempfile::tempdir().expect("a folder"));
        let space = server.space();
        open(&space, &folder).close().await.expect("it closes");
        let mut client = connect(&space).await;
        BROKEN.migrate(&mut client).await.expect_err("the last migration fails");
        assert_eq!(SCHEMA.readable_version(&client).await, Ok(Some(3)));
        let half = server.run(&format!("SELECT to_regclass('{}.half') IS NULL", space.schema()));
        assert_eq!(half, "t");
    }
}
