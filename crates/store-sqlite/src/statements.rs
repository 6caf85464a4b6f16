//! Prepared statements of the writer for accepting and appending.

use rusqlite::{Connection, Statement};

/// Returns the number of a definition.
pub(super) const FIND_DEFINITION: &str = "SELECT sequence FROM definition_texts WHERE hash = ?1";
/// Changes the number of executions of the definition with this number.
pub(super) const COUNT_DEFINITION: &str =
    "UPDATE definition_uses SET executions = executions + ?2 WHERE definition = ?1";

/// The prepared statements of the writing connection.
pub(super) struct Statements<'connection> {
    pub(super) begin: Statement<'connection>,
    pub(super) commit: Statement<'connection>,
    pub(super) find_definition: Statement<'connection>,
    pub(super) count_definition: Statement<'connection>,
    pub(super) take_key: Statement<'connection>,
    pub(super) find_key: Statement<'connection>,
    pub(super) new_start: Statement<'connection>,
    pub(super) new_execution: Statement<'connection>,
    pub(super) new_events: Statement<'connection>,
    pub(super) put_watermark: Statement<'connection>,
    pub(super) advance: Statement<'connection>,
    pub(super) move_shelf: Statement<'connection>,
    pub(super) find_state: Statement<'connection>,
    pub(super) new_logs: Statement<'connection>,
}

impl<'connection> Statements<'connection> {
    /// Prepares the statements.
    pub(super) fn prepare(connection: &'connection Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            // Immediate, so that the lock of another program fails here and not within a batch.
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            find_definition: connection.prepare(FIND_DEFINITION)?,
            count_definition: connection.prepare(COUNT_DEFINITION)?,
            take_key: connection.prepare(
                "INSERT INTO keys (automation, key, execution) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            )?,
            find_key: connection.prepare("SELECT execution FROM keys WHERE automation = ?1 AND key = ?2")?,
            new_start: connection
                .prepare("INSERT INTO starts (execution, body, raw) VALUES (?1, ?2, ?3)")?,
            new_execution: connection.prepare(
                "INSERT INTO executions \
                   (id, automation, definition, origin, status, shelf, started_ns, finished_ns, error, events, \
                    logs, start, replay_of) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT DO NOTHING",
            )?,
            new_events: connection
                .prepare("INSERT INTO events (execution, first, body) VALUES (?1, ?2, ?3)")?,
            put_watermark: connection.prepare(
                "INSERT INTO watermarks (automation, schedule, instant_ns) VALUES (?1, ?2, ?3) \
                 ON CONFLICT DO UPDATE SET schedule = excluded.schedule, instant_ns = excluded.instant_ns",
            )?,
            // Checks the event index and updates the row in one statement, without changing an indexed column.
            advance: connection.prepare(
                "UPDATE executions SET events = events + ?3, logs = logs + ?4, status = ?5 \
                 WHERE id = ?1 AND events = ?2 AND shelf IN (0, 8)",
            )?,
            // `?9` is true if it ends. An execution with open waits does not match then, so that all others end without a
            // query for waits.
            move_shelf: connection.prepare(
                "UPDATE executions SET events = events + ?3, logs = logs + ?4, status = ?5, \
                   shelf = (shelf & 8) + ?6, \
                   finished_ns = iif(?9, coalesce(?7, finished_ns), NULL), \
                   error = iif(?9, iif(?7 IS NULL, error, ?8), NULL) \
                 WHERE id = ?1 AND events = ?2 AND (waits = 0 OR NOT ?9)",
            )?,
            find_state: connection.prepare("SELECT events FROM executions WHERE id = ?1")?,
            new_logs: connection.prepare(
                "INSERT INTO logs (execution, first, lines) \
                 SELECT id, logs - ?2, ?3 FROM executions WHERE id = ?1",
            )?,
        })
    }
}
