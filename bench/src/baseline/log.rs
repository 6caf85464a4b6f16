//! A table that rows are appended to, each on disk before its writer is answered: one thread writes all waiting rows as
//! one transaction.

use std::path::Path;

use bytes::Bytes;
use rusqlite::{Connection, params};
use tokio::sync::{mpsc, oneshot};

use crate::Error;

/// Maximum number of rows of one transaction, and of the queue, as in the daemon's store.
const BATCH: usize = 512;

/// A handle to the thread. When the last one is gone, it ends.
#[derive(Clone)]
pub(super) struct Log(mpsc::Sender<Row>);

struct Row {
    body: Bytes,
    written: oneshot::Sender<()>,
}

impl Log {
    /// Makes the file and starts the thread.
    pub(super) fn open(file: &Path) -> Result<Self, Error> {
        let connection = Connection::open(file)?;
        connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS log (sequence INTEGER PRIMARY KEY, id BLOB NOT NULL, body BLOB NOT NULL)",
        )?;
        let (sender, receiver) = mpsc::channel(BATCH);
        std::thread::Builder::new()
            .name("log-writer".to_owned())
            // Without its thread no row is ever answered, and so no request.
            .spawn(move || write(&connection, receiver))
            .map_err(Error::io("the writer's thread"))?;
        Ok(Self(sender))
    }

    /// Appends a row and waits until it is on disk. False if it never will be.
    pub(super) async fn append(&self, body: Bytes) -> bool {
        let (written, answer) = oneshot::channel();
        self.0.send(Row { body, written }).await.is_ok() && answer.await.is_ok()
    }
}

fn write(connection: &Connection, mut receiver: mpsc::Receiver<Row>) -> rusqlite::Result<()> {
    let mut begin = connection.prepare("BEGIN IMMEDIATE")?;
    let mut insert = connection.prepare("INSERT INTO log (id, body) VALUES (?1, ?2)")?;
    let mut commit = connection.prepare("COMMIT")?;
    let mut rows = Vec::with_capacity(BATCH);
    let mut number = 0_u128;
    while receiver.blocking_recv_many(&mut rows, BATCH) > 0 {
        begin.execute([])?;
        for row in &rows {
            number += 1;
            insert.execute(params![number.to_be_bytes(), &row.body[..]])?;
        }
        commit.execute([])?;
        for row in rows.drain(..) {
            // A receiver that is gone needs no reply.
            let _ = row.written.send(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_append_is_durable_when_it_returns() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("log.db");
        let log = Log::open(&file).expect("a log");
        assert!(log.append(Bytes::from_static(b"one")).await);
        assert!(log.append(Bytes::from_static(b"two")).await);
        let reader = Connection::open(&file).expect("a reader");
        let bodies: Vec<u8> = reader
            .query_row("SELECT group_concat(body, '') FROM log", [], |row| row.get::<_, String>(0))
            .expect("rows")
            .into();
        assert_eq!(bodies, b"onetwo");
        let synchronous: i64 =
            reader.pragma_query_value(None, "synchronous", |row| row.get(0)).expect("a setting");
        assert_eq!(synchronous, 2, "SQLite's own default is FULL, and it is asked for besides");
    }
}
