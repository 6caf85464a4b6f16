//! Checks that a daemon could open a database for writing, without changing it.

use tokio_postgres::Client;

use super::Address;
use super::connect::Session;
use super::schema::{self, SCHEMA, explain};
use super::{beat, checks, migration, rights};
use store::{Durability, Error, Examination};

/// The name of the connections in the views of the server.
const APPLICATION: &str = "cogwork doctor";

/// The first table of the schema that its user may not read and write, or the first sequence that it may not use. That of an identity
/// column needs no right.
const FORBIDDEN: &str = "SELECT relname::text, relkind = 'S' FROM pg_class c \
    WHERE relnamespace = current_schema()::regnamespace AND CASE \
      WHEN relkind IN ('r', 'p') THEN NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT') \
        AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')) \
      WHEN relkind = 'S' THEN NOT has_sequence_privilege(oid, 'USAGE') \
        AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i') \
      ELSE false END ORDER BY 2, 1 LIMIT 1";
const MAY_CREATE: &str = "SELECT has_schema_privilege(current_schema(), 'CREATE')";

/// Checks that a daemon could open the store at `address` with this durability, and changes nothing. Blocks.
///
/// # Errors
/// The errors of [`crate::open`].
pub fn examine(address: &Address, durability: Durability) -> Result<Examination, Error> {
    let failed = |reason: String| Error::Connect { location: address.to_string(), reason };
    let check = || -> Result<Examination, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(error.to_string()))?;
        let found = runtime.block_on(connect_and_check(address, durability));
        // A name resolution that still blocks a thread is given up.
        runtime.shutdown_background();
        found
    };
    // A thread of its own: the caller may run in a runtime.
    std::thread::scope(|scope| scope.spawn(check).join())
        .unwrap_or_else(|_| Err(failed("the check of the database ended early".to_owned())))
}

async fn connect_and_check(address: &Address, durability: Durability) -> Result<Examination, Error> {
    let failed = |reason: String| Error::Connect { location: address.to_string(), reason };
    let (config, encryption) = (address.writing(APPLICATION), address.encryption()?);
    let settings = "SET statement_timeout = '5s'";
    let open =
        async || Session::open(&config, &encryption, settings).await.map_err(|error| failed(explain(&error)));
    let (mut session, second) = (open().await?, open().await?);
    let mut server = checks::check(&session.client, &second.client, durability).await.map_err(&failed)?;
    server.weakened.extend(address.weakness());
    let version = SCHEMA.readable_version(&session.client).await.map_err(&failed)?;
    check_rights(&session.client, version.is_none()).await.map_err(&failed)?;
    let Some(version) = version else { return Ok(Examination::Missing) };
    let query_failed = |error: tokio_postgres::Error| failed(explain(&error));
    let transaction = session.client.transaction().await.map_err(query_failed)?;
    migration::check_marks(&transaction, &address.to_string()).await.map_err(query_failed)??;
    drop(transaction);
    let now = beat::read_server_time(&session.client).await.map_err(query_failed)?;
    Ok(Examination::Usable {
        older: u32::try_from(version).ok().filter(|_| version < SCHEMA.version()),
        server_time: Some(now.now()),
        weakened: server.weakened,
    })
}

/// Checks that the user may create tables, or read and write the existing ones and use their sequences.
async fn check_rights(client: &Client, is_empty: bool) -> Result<(), String> {
    let failed = |error: tokio_postgres::Error| explain(&error);
    if is_empty {
        schema::check_schema(client).await?;
        let row = client.query_one(MAY_CREATE, &[]).await.map_err(failed)?;
        return match row.try_get(0).map_err(failed)? {
            true => Ok(()),
            false => Err(schema::may_not("may not create tables")),
        };
    }
    match client.query_opt(FORBIDDEN, &[]).await.map_err(failed)? {
        Some(row) => {
            let (name, is_sequence): (String, bool) =
                (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
            let what = if is_sequence { "use the sequence" } else { "read and write the table" };
            let what = format!("may not {what} `{name}`");
            Err(match rights::grants(client).await {
                Some(grants) => format!("the user {what}; {grants}"),
                None => schema::may_not(&what),
            })
        }
        None => Ok(()),
    }
}
