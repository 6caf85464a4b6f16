//! One end of a migration on a server. No daemon joins meanwhile: the session has their lock.

mod alone;
mod insert;
mod select;

use async_trait::async_trait;
use model::automation::Level;
use model::failpoint::{Failpoint, Failpoints};
use sha2::{Digest as _, Sha256};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Transaction};

use super::Address;
use super::blobs::{BEGIN, COMPLETE, PUT, READ_CHUNK, TOUCH, pack, unpack};
use super::checks;
use super::connect::{self, Session};
use super::level::number;
use super::schema::{self, SCHEMA};
use store::migration::mark::{MOVED, UNFINISHED, check_startable};
use store::migration::record::{BlobRecord, Kind, Record, Table};
use store::migration::side::{Mark, Page, Place, Progress, Side, Use, at, hex};
use store::{Durability, Error};

/// Every table of a store, and what a migration does with it. Partitions belong to their table.
const TABLES: &[Table] = &[
    Table::moved("live", &[Kind::Unfinished]),
    Table::moved("executions", &[Kind::Ended]),
    Table::moved("events", &[Kind::Events]),
    Table::moved("logs", &[Kind::Logs]),
    Table::moved("waits", &[Kind::Waits]),
    Table::moved("snapshots", &[Kind::Snapshots]),
    Table::moved("blob_uses", &[Kind::Events]),
    Table::moved("blobs", &[Kind::Blobs]),
    Table::moved("blob_chunks", &[Kind::Blobs]),
    Table::moved("names", &[Kind::Keys, Kind::Dedup]),
    Table::moved("definitions", &[Kind::Definitions]),
    Table::moved("state", &[Kind::State]),
    Table::moved("addresses", &[Kind::Addresses]),
    Table::moved("watermarks", &[Kind::Watermarks]),
    Table::moved("polls", &[Kind::Polls]),
    Table::moved("poll_keys", &[Kind::PollKeys]),
    Table::moved("poll_log", &[Kind::PollLog]),
    Table::moved("subscriptions", &[Kind::Subscriptions]),
    Table::moved("outbox", &[Kind::Outbox]),
    Table::not_moved("meta", "its secret is a record; the rest is of this database"),
    Table::not_moved("automations", "numbers of Automations, which each database gives anew"),
    Table::not_moved("definition_days", "derived from the executions"),
    Table::not_moved(
        "deployments",
        "deployed files of the project: they are deployed again in the new place",
    ),
    Table::not_moved("deployed_files", "as `deployments`"),
    Table::not_moved("deployed_texts", "as `deployments`"),
    Table::not_moved("nodes", "runs of daemons, none of which runs"),
    Table::not_moved("lanes", "connections of daemons, none of which runs"),
    Table::not_moved("shards", "their owners are daemons, none of which runs"),
    Table::not_moved("mail", "requests between daemons, none of which waits for a reply"),
    Table::not_moved("buckets", "requests of the last moments, which count for nothing in the new place"),
    Table::not_moved("polling", "polls under way, of which there are none"),
    Table::not_moved("listenings", "sessions of minutes, for which people wait"),
    Table::not_moved("captures", "as `listenings`"),
    Table::not_moved("pairings", "open for minutes, in which people wait"),
    Table::not_moved("refinery_schema_history", "the version of the tables"),
];

const MARK: &str = "SELECT value FROM meta WHERE name = $1";
const PUT_MARK: &str = "INSERT INTO meta (name, value) VALUES ($1, $2) \
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
const REMOVE_MARK: &str = "DELETE FROM meta WHERE name = $1";
const MADE_AT: &str = "SELECT applied_on FROM refinery_schema_history ORDER BY version LIMIT 1";

/// A database that no daemon uses.
struct PostgresSide {
    /// It has the lock for as long as it is connected: everything is read and written by it.
    client: Client,
    failpoints: Failpoints,
    /// The bytes of the blob that is being written, as they are stored.
    stored: i64,
}

/// Opens the store at `address` for a migration.
///
/// # Errors
/// A daemon uses the store, its tables have another version, or the server refuses.
pub async fn open_side(
    address: &Address,
    purpose: Use,
    failpoints: Failpoints,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Box<dyn Side>, Error> {
    let failed = |reason: String| Error::Connect { location: address.to_string(), reason };
    let encryption = address.encryption()?;
    let config = address.writing("cogwork migrate");
    let connect = async || {
        let session = Session::open(&config, &encryption, "SET jit = off").await;
        session.map(|session| session.client).map_err(|error| failed(schema::explain(&error)))
    };
    let (mut client, second) = (connect().await?, connect().await?);
    let server = checks::check(&client, &second, Durability::Full).await.map_err(&failed)?;
    drop(second);
    client.batch_execute(&server.session).await.map_err(|error| failed(schema::explain(&error)))?;
    if purpose == Use::Target {
        SCHEMA.migrate(&mut client).await.map_err(&failed)?;
    } else {
        SCHEMA.check(&client).await.map_err(&failed)?;
    }
    alone::wait(&mut client, &address.to_string(), progress).await?;
    Ok(Box::new(PostgresSide { client, failpoints, stored: 0 }))
}

/// Returns an error if no daemon may start on the database, since it was moved or is not complete.
pub(super) async fn check_marks(
    transaction: &Transaction<'_>,
    location: &str,
) -> Result<Result<(), Error>, tokio_postgres::Error> {
    let mut marks = [None, None];
    for (mark, name) in marks.iter_mut().zip([MOVED, UNFINISHED]) {
        let row = transaction.query_opt(MARK, &[&name]).await?;
        *mark = row.map(|row| row.try_get(0)).transpose()?.map(text);
    }
    let [moved, unfinished] = marks;
    Ok(check_startable(&location, moved.as_deref(), unfinished.as_deref()))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[async_trait]
impl Side for PostgresSide {
    async fn identity(&mut self) -> Result<String, Error> {
        let mut identity = Sha256::new();
        let made = self.client.query_opt(MADE_AT, &[]).await.map_err(read_error)?;
        let made: Option<String> = made.map(|row| row.try_get(0)).transpose().map_err(read_error)?;
        identity.update(made.unwrap_or_default());
        if let Some(secret) = select::secret(&self.client).await.map_err(read_error)? {
            identity.update(secret);
        }
        Ok(hex(&identity.finalize()))
    }

    async fn mark(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        let row = self.client.query_opt(MARK, &[&name]).await.map_err(read_error)?;
        Ok(row.map(|row| row.try_get(0)).transpose().map_err(read_error)?.map(text))
    }

    async fn level(&mut self) -> Result<Level, Error> {
        let row = self.client.query_one("SELECT store_level()", &[]).await.map_err(read_error)?;
        let level: i32 = row.try_get(0).map_err(read_error)?;
        Ok(u32::try_from(level).map_or(Level::FIRST, Level::new))
    }

    async fn raise_level(&mut self, level: Level) -> Result<(), Error> {
        let raise = "SELECT raise_level($1, $2)";
        let parameters: [&(dyn ToSql + Sync); 2] = [&number(level), &schema::version_for(level)];
        self.client.execute(raise, &parameters).await.map_err(write_error).map(drop)
    }

    async fn is_empty(&mut self) -> Result<bool, Error> {
        for table in TABLES.iter().filter(|table| table.is_moved()) {
            let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", table.name);
            let row = self.client.query_one(&sql, &[]).await.map_err(read_error)?;
            if row.try_get(0).map_err(read_error)? {
                return Ok(false);
            }
        }
        Ok(select::secret(&self.client).await.map_err(read_error)?.is_none())
    }

    async fn page(&mut self, kind: Kind, after: &Place) -> Result<Page, Error> {
        select::page(&self.client, kind, after).await
    }

    async fn chunk(&mut self, blob: &BlobRecord, number: u32) -> Result<Vec<u8>, Error> {
        let no = i32::try_from(number).unwrap_or(i32::MAX);
        let row = self.client.query_opt(READ_CHUNK, &[&&blob.hash[..], &no]).await.map_err(read_error)?;
        let Some(row) = row else { return Ok(Vec::new()) };
        let bytes: &[u8] = row.try_get(0).map_err(read_error)?;
        let left = blob.length.saturating_sub(u64::from(number) * super::blobs::CHUNK as u64);
        unpack(bytes, usize::try_from(left).unwrap_or(usize::MAX))
    }

    async fn begin_blob(&mut self, blob: &BlobRecord) -> Result<bool, Error> {
        let hash = &blob.hash[..];
        if self.client.query_opt(TOUCH, &[&hash]).await.map_err(write_error)?.is_some() {
            return Ok(false);
        }
        let length = i64::try_from(blob.length).unwrap_or(i64::MAX);
        self.client.execute(BEGIN, &[&hash, &length]).await.map_err(write_error)?;
        self.stored = 0;
        Ok(true)
    }

    async fn put_chunk(&mut self, blob: &BlobRecord, number: u32, bytes: &[u8]) -> Result<(), Error> {
        let (no, packed) = (i32::try_from(number).unwrap_or(i32::MAX), pack(bytes));
        self.stored += i64::try_from(packed.len()).unwrap_or(i64::MAX);
        self.client.execute(PUT, &[&&blob.hash[..], &no, &packed]).await.map_err(write_error).map(drop)
    }

    async fn end_blob(&mut self, blob: &BlobRecord) -> Result<(), Error> {
        self.client.execute(COMPLETE, &[&&blob.hash[..], &self.stored]).await.map_err(write_error).map(drop)
    }

    async fn write(&mut self, records: &[Record], mark: &Mark) -> Result<(), Error> {
        let transaction = self.client.transaction().await.map_err(write_error)?;
        insert::records(&transaction, records).await.map_err(write_error)?;
        let (name, text) = mark;
        let marked = match text {
            Some(text) => transaction.execute(PUT_MARK, &[name, &text.as_bytes()]).await,
            None => transaction.execute(REMOVE_MARK, &[name]).await,
        };
        marked.map_err(write_error)?;
        at(&self.failpoints, Failpoint::BeforeCommit)?;
        transaction.commit().await.map_err(write_error)?;
        at(&self.failpoints, Failpoint::AfterCommit)
    }

    async fn finish(&mut self) -> Result<(), Error> {
        // The first daemon must not plan by the statistics of empty tables.
        let tables: Vec<&str> =
            TABLES.iter().filter(|table| table.is_moved()).map(|table| table.name).collect();
        let analyze = format!("ANALYZE {}", tables.join(", "));
        self.client.batch_execute(&analyze).await.map_err(write_error)
    }
}

fn read_error(error: tokio_postgres::Error) -> Error {
    connect::read_error(&error)
}

fn write_error(error: tokio_postgres::Error) -> Error {
    connect::write_error(&error)
}

#[cfg(test)]
mod tests {
    use store::Options;
    use store::conformance::PostgresServer;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_table_is_migrated_or_listed_with_a_reason() {
        let (server, folder) = (PostgresServer::start(), tempfile::tempdir().expect("a folder"));
        let space = server.space();
        let address = Address::parse(&space.url()).expect("an address");
        let options = Options { local: Some(folder.path().to_owned()), ..Options::default() };
        let store = crate::open(&address, options).expect("it opens");
        let sql = format!(
            "SELECT c.relname FROM pg_class c WHERE c.relnamespace = '{}'::regnamespace \
             AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1",
            space.schema()
        );
        let found = server.run(&sql);
        let mut listed: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        listed.sort_unstable();
        assert_eq!(
            found.lines().collect::<Vec<_>>(),
            listed,
            "add a new table to `TABLES`, and its records to the migration"
        );
        store::migration::record::check_reasons(TABLES);
        store.close().await.expect("it closes");
    }
}
