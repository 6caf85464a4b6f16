//! Moves what is stored under the key of a trigger.

use std::sync::LazyLock;

use model::automation::TriggerKey;

use super::op::{Done, Op, params};
use super::queue::Queue;
use super::reader::{Reader, get};
use super::triggers;
use store::{Error, OutboxRow};

/// The tables with rows by the key of a trigger, each with what precedes the key, and the words for its rows. The keys of `subscriptions`
/// are in their bodies.
const TABLES: [(&str, &str, &str); 10] = [
    ("addresses", "", "an address"),
    ("watermarks", "", "the position of a schedule"),
    ("polls", "", "the position of a poll"),
    ("poll_keys", "", "items of polls"),
    ("poll_log", "", "a log of polls"),
    ("listenings", "", "a session at its test address"),
    ("captures", "", "captured requests"),
    ("pairings", "", "a pairing"),
    ("buckets", "", "a rate limit"),
    ("buckets", "challenge:", "a rate limit of challenges"),
];

/// Moves the rows of `$1` to `$2`, stores the bodies `$4` of the subscriptions `$3`, and gives the events of the names `$5` the names `$6`,
/// unless rows are under both; events may be under both. Returns true for each
/// table with rows under `$2`, and the number of moved rows; NULL if rows are under both. It is one statement, since the outcome of a
/// batch that is repeated must not depend on an earlier statement of it: a repetition finds nothing to move.
static MOVE: LazyLock<String> = LazyLock::new(|| {
    let exists = |key: &str| {
        let one = |(table, before, _): &(&str, &str, &str)| {
            format!("EXISTS (SELECT 1 FROM {table} WHERE automation = '{before}' || {key}::text)")
        };
        TABLES.iter().map(one).collect::<Vec<_>>()
    };
    let update = |(index, (table, before, _)): (usize, &(&str, &str, &str))| {
        format!(
            "m{index} AS (UPDATE {table} SET automation = '{before}' || $2::text \
               WHERE automation = '{before}' || $1::text AND (SELECT is_free FROM free) RETURNING 1)"
        )
    };
    let counts = (0..TABLES.len() + 2).map(|index| format!("(SELECT count(*) FROM m{index})"));
    format!(
        "WITH taken AS (SELECT ARRAY[{}] AS of), \
           free AS (SELECT NOT (true = ANY (of)) AS is_free FROM taken), \
           {}, \
           m{} AS (UPDATE subscriptions s SET body = n.body FROM unnest($3::bytea[], $4::bytea[]) AS n (id, body) \
             WHERE s.id = n.id AND (SELECT is_free FROM free) RETURNING 1), \
           m{} AS (UPDATE outbox o SET name = n.name FROM unnest($5::bytea[], $6::bytea[]) AS n (former, name) \
             WHERE sha256(o.name) = sha256(n.former) AND (SELECT is_free FROM free) RETURNING 1) \
         SELECT (SELECT of FROM taken), \
           CASE WHEN (SELECT is_free FROM free) OR NOT ({} OR cardinality($3::bytea[]) > 0 OR EXISTS (SELECT 1 FROM outbox o \
               JOIN unnest($5::bytea[]) AS n (former) ON sha256(o.name) = sha256(n.former))) THEN {} END",
        exists("$2").join(", "),
        TABLES.iter().enumerate().map(update).collect::<Vec<_>>().join(", "),
        TABLES.len(),
        TABLES.len() + 1,
        exists("$1").join(" OR "),
        counts.collect::<Vec<_>>().join(" + "),
    )
});

/// Moves the rows of a trigger, unless the other trigger has rows.
pub(super) async fn move_rows(
    queue: &Queue,
    reader: &Reader,
    from: &TriggerKey,
    to: &TriggerKey,
) -> Result<u64, Error> {
    let (mut ids, mut bodies): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    let mut subscribes = false;
    for subscription in triggers::subscriptions(reader).await? {
        subscribes |= subscription.trigger == *to;
        if subscription.trigger == *from {
            ids.push(subscription.id.as_bytes().to_vec());
            let body = serde_json::to_vec(&subscription.moved_to(to));
            bodies.push(body.map_err(|error| Error::Invalid { reason: error.to_string() })?);
        }
    }
    if !ids.is_empty() {
        Error::check_free(to, [("a subscription", subscribes)])?;
    }
    let names = OutboxRow::moved_names(from, to).into_iter();
    let (former, names): (Vec<_>, Vec<_>) =
        names.map(|(one, other)| (one.into_bytes(), other.into_bytes())).unzip();
    let params = params![from.to_string(), to.to_string(), ids, bodies, former, names];
    let done = queue.write(Op::Statements(vec![(MOVE.as_str(), params)])).await?;
    let Done::Rows(lists) = done else { return Ok(0) };
    let Some(row) = lists.first().and_then(|rows| rows.first()) else { return Ok(0) };
    if let Some(moved) = get::<Option<i64>>(row, 1)? {
        return Ok(u64::try_from(moved).unwrap_or_default());
    }
    let taken: Vec<bool> = get(row, 0)?;
    Error::check_free(to, TABLES.iter().map(|(_, _, words)| *words).zip(taken)).map(|()| 0)
}
