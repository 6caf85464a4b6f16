//! Events on their way to triggers.

use async_trait::async_trait;
use model::ExecutionId;
use tokio_postgres::Row;
use uuid::Uuid;

use super::forms::{execution_of, id_of};
use super::handle::PostgresStore;
use super::list::{MAX_PAGE, timestamp};
use super::op::params;
use super::reader::{Reader, get, text};
use store::{Error, OutboxCount, OutboxRow, OutboxStore};

/// The rows of a page, of which the last one may exceed its size.
const PAGE: &str = "SELECT id, body, at_ns FROM ( \
      SELECT *, sum(octet_length(body)) OVER (ORDER BY id) - octet_length(body) AS before FROM ( \
        SELECT * FROM outbox WHERE sha256(name) = sha256($1) AND id > $2 ORDER BY id LIMIT $3) p) q \
    WHERE before < $4 ORDER BY id";
const COUNTS: &str = "SELECT name, count(*), min(at_ns), (array_agg(id ORDER BY id DESC))[1] FROM outbox GROUP BY name ORDER BY name";

/// Returns a page of the events with a name.
pub(super) async fn page(
    reader: &Reader,
    name: &str,
    after: Option<ExecutionId>,
    limit: u32,
) -> Result<Vec<OutboxRow>, Error> {
    let after = after.map_or(Uuid::nil(), id_of);
    let bytes = i64::try_from(OutboxRow::PAGE_BYTES).unwrap_or(i64::MAX);
    let limit = i64::from(limit.min(MAX_PAGE));
    let rows = reader.rows(PAGE, params![name.as_bytes().to_vec(), after, limit, bytes]).await?;
    let event = |row: &Row| {
        let id = execution_of(get::<Uuid>(row, 0)?);
        Ok(OutboxRow { id, name: name.to_owned(), body: text(row, 1)?, at: timestamp(get(row, 2)?)? })
    };
    rows.iter().map(event).collect()
}

/// Returns the number of events by name.
pub(super) async fn counts(reader: &Reader) -> Result<Vec<OutboxCount>, Error> {
    let count = |row: &Row| {
        Ok(OutboxCount {
            name: text(row, 0)?,
            rows: u64::try_from(get::<i64>(row, 1)?).unwrap_or_default(),
            oldest: timestamp(get(row, 2)?)?,
            last: execution_of(get::<Uuid>(row, 3)?),
        })
    };
    reader.rows(COUNTS, Vec::new()).await?.iter().map(count).collect()
}

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn outbox_page(
        &self,
        name: &str,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        page(&self.opened.reader, name, after, limit).await
    }

    async fn outbox_counts(&self) -> Result<Vec<OutboxCount>, Error> {
        counts(&self.opened.reader).await
    }
}
