//! The statements of a batch. Each takes arrays, with one element for each write, and is prepared once on each connection.

/// Begins a batch.
pub(super) const FENCE: &str = "SELECT fence($1, $2, $3)";

/// Inserts executions that have not ended.
pub(super) const NEW_LIVE: &str = "INSERT INTO live (id, automation, definition, origin, test, status, started_ns, owner, events, logs, replay_of) \
    SELECT t.id, t.automation, t.definition, t.origin, t.test, t.status, t.started, $1::int8, t.count, t.line_count, t.replay_of \
    FROM unnest($2::uuid[], $3::int4[], $4::int4[], $5::bytea[], $6::bool[], $7::int2[], $8::int8[], $9::int4[], $10::int4[], $11::uuid[]) \
      AS t (id, automation, definition, origin, test, status, started, count, line_count, replay_of)";

/// Inserts the first events of executions.
pub(super) const NEW_STARTS: &str = "INSERT INTO events (execution, first, body, raw) \
    SELECT t.id, 0, t.body, t.raw FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS t (id, body, raw)";

/// Inserts executions that ended before they were accepted.
pub(super) const NEW_ENDED: &str = "INSERT INTO executions (id, automation, definition, origin, shelf, started_ns, finished_ns, error, events, logs, start, raw, replay_of) \
    SELECT t.* FROM unnest($1::uuid[], $2::int4[], $3::int4[], $4::bytea[], $5::int2[], $6::int8[], $7::int8[], $8::bytea[], \
      $9::int4[], $10::int4[], $11::bytea[], $12::bytea[], $13::uuid[]) AS t";

/// Inserts the first log lines of executions.
pub(super) const NEW_LOGS: &str = "INSERT INTO logs (execution, first, lines) \
    SELECT t.id, 0, t.lines FROM unnest($1::uuid[], $2::bytea[]) AS t (id, lines)";

/// Inserts the blobs that the first events of executions use.
pub(super) const NEW_USES: &str = "INSERT INTO blob_uses (execution, first, blob, at) \
    SELECT t.id, 0, t.blob, t.at FROM unnest($1::uuid[], $2::bytea[], $3::int4[]) AS t (id, blob, at)";

/// Appends to executions that go on. Returns for each whether it had the expected number of events.
pub(super) const APPEND: &str = "SELECT append_many($1, $2, $3, $4, $5, $6, $7, $8, $9)";

/// Ends executions that have no open waits. Returns for each whether it had the expected number of events.
pub(super) const END: &str = "SELECT end_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

/// Accepts executions with their names.
pub(super) const ACCEPT: &str = "SELECT verdicts, others FROM accept($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, \
    $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26)";

/// As [`ACCEPT`], with the events that are sent and the delivered events. An execution that is not accepted sends none of its events.
pub(super) const ACCEPT_EVENTS: &str = "WITH a AS MATERIALIZED (SELECT verdicts, others FROM accept($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, \
      $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26)), \
    sent AS (INSERT INTO outbox (id, name, body, at_ns) SELECT t.id, t.name, t.body, t.at_ns \
      FROM a, unnest($27::int4[], $28::uuid[], $29::bytea[], $30::bytea[], $31::int8[]) AS t (of, id, name, body, at_ns) \
      WHERE t.of = 0 OR a.verdicts[t.of] IN (0, 4) ON CONFLICT (id) DO NOTHING), \
    delivered AS (DELETE FROM outbox WHERE id = ANY ($32)) \
    SELECT verdicts, others FROM a";

/// As [`APPEND_ONE`], with the events that are sent if the append is done.
pub(super) const APPEND_EVENTS: &str = "WITH a AS MATERIALIZED (SELECT verdict, detail FROM append_one($1, $2, $3, $4, $5, $6, $7, $8, $9, \
      $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32)), \
    sent AS (INSERT INTO outbox (id, name, body, at_ns) SELECT t.id, t.name, t.body, t.at_ns \
      FROM a, unnest($33::uuid[], $34::bytea[], $35::bytea[], $36::int8[]) AS t (id, name, body, at_ns) \
      WHERE a.verdict = 0 ON CONFLICT (id) DO NOTHING) \
    SELECT verdict, detail FROM a";

/// Appends to one execution, whatever the append has.
pub(super) const APPEND_ONE: &str = "SELECT verdict, detail FROM append_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, \
    $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32)";

/// Changes values of the state.
pub(super) const CHANGE_STATE: &str = "SELECT change_state($1, $2, $3, $4, $5)";

/// As [`CHANGE_STATE`], with the events that are sent if the values are changed.
pub(super) const CHANGE_STATE_EVENTS: &str = "WITH c AS MATERIALIZED (SELECT change_state($1, $2, $3, $4, $5) AS differs), \
    sent AS (INSERT INTO outbox (id, name, body, at_ns) SELECT t.id, t.name, t.body, t.at_ns \
      FROM c, unnest($6::uuid[], $7::bytea[], $8::bytea[], $9::int8[]) AS t (id, name, body, at_ns) \
      WHERE c.differs = 0 ON CONFLICT (id) DO NOTHING) \
    SELECT differs FROM c";

/// Writes the result of a poll.
pub(super) const WRITE_POLL: &str = "SELECT write_poll($1, $2, $3, $4, $5, $6, $7, $8)";

/// Stores a watermark.
pub(super) const PUT_WATERMARK: &str = "INSERT INTO watermarks (automation, schedule, instant_ns) VALUES ($1, $2, $3) \
    ON CONFLICT (automation) DO UPDATE SET schedule = excluded.schedule, instant_ns = excluded.instant_ns";
