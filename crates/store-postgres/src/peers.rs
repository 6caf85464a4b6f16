//! The nodes, their shards and leases, executions that change their owner, and letters between nodes.

use model::ExecutionId;
use tokio_postgres::Row;
use uuid::Uuid;

use super::agreement::details;
use super::forms::{execution_of, id_of};
use super::list::{MAX_PAGE, timestamp};
use super::op::{Done, Op, Params, params};
use super::queue::Queue;
use super::reader::{Reader, damaged, get, optional_text};
use store::Error;
use store::{Letter, LetterState, Load, Node, NodeId, Recipient, RunningGeneration, Shard, ShardSet};

/// The number of executions that change their owner in one transaction.
pub(super) const PAGE: i32 = 1000;

pub(super) const TAKE_OVER: &str = "SELECT take_over($1, $2, $3, $4)";
const NODES: &str = "SELECT n.id, n.host, n.release, n.joined_ns, n.dead, n.in_flight, n.queued, n.resting, n.generation, n.problem, \
      coalesce(array_agg(s.id) FILTER (WHERE s.id IS NOT NULL), '{}'), n.details \
    FROM nodes n LEFT JOIN shards s ON s.owner = n.id GROUP BY n.id ORDER BY n.id";
const OWNER: &str = "SELECT owner FROM live WHERE id = $1";
const CONFIRM: &str = "UPDATE live SET handed = false WHERE id = ANY ($1) AND owner = $2 AND handed";
/// The row of the other node is locked until the end, so that a node that dies meanwhile is not forgotten before it owns them.
const GIVE: &str = "WITH t AS (SELECT id FROM nodes WHERE id = $3 AND NOT dead FOR KEY SHARE) \
    UPDATE live l SET owner = t.id, handed = true FROM t \
    WHERE l.id = ANY ($1) AND l.owner = $2 AND l.status = 0 AND l.gate IS NULL";
const STILL_OWN: &str = "SELECT id FROM live WHERE id = ANY ($1) AND owner = $2";
/// A node takes its part of the shards, rounded up so that none is left. Those that do not run the newest definitions have no part,
/// unless there are no others.
const TAKE_SHARDS: &str = "SELECT take_shards($1, \
    (SELECT ceil($2::float8 / greatest(count(*), 1))::int4 FROM nodes WHERE NOT dead AND (problem IS NULL \
      OR NOT EXISTS (SELECT 1 FROM nodes o WHERE NOT o.dead AND o.problem IS NULL))))";
const OWN_SHARDS: &str = "SELECT id FROM shards WHERE owner = $1 ORDER BY id";
const GIVE_UP_SHARD: &str = "SELECT give_up_shard($1, $2)";
const OWNER_OF_SHARD: &str = "SELECT owner IS DISTINCT FROM $1 FROM shards WHERE id = $2";
const FORGET_DEAD: &str = "SELECT forget_dead()";
const SEND: &str = "INSERT INTO mail (id, execution, shard, sender, body) SELECT $1, $2::uuid, $3::int2, $4, $5 \
    WHERE $2::uuid IS NULL OR EXISTS (SELECT 1 FROM live WHERE id = $2) ON CONFLICT (id) DO NOTHING";
const STATE_OF_LETTER: &str = "SELECT m.reply, m.execution IS NULL OR EXISTS (SELECT 1 FROM live WHERE id = m.execution) \
    FROM mail m WHERE m.id = $1";
const DELETE_LETTER: &str = "DELETE FROM mail WHERE id = $1";
const LETTERS: &str = "SELECT m.id, m.execution, m.shard, m.sender, m.body FROM mail m LEFT JOIN live l ON l.id = m.execution \
    WHERE (l.owner = $1 OR m.shard IN (SELECT id FROM shards WHERE owner = $1)) AND m.reply IS NULL ORDER BY m.id LIMIT $2";
const ANSWER: &str = "UPDATE mail SET reply = $2 WHERE id = $1";
const ENDED_CHILDREN: &str = "SELECT w.execution FROM waits w JOIN live l ON l.id = w.execution \
    WHERE w.child IS NOT NULL AND l.owner = $1 AND NOT EXISTS (SELECT 1 FROM live c WHERE c.id = w.child) LIMIT $2";

/// Returns the nodes in the order in which they joined.
pub(super) async fn nodes(reader: &Reader) -> Result<Vec<Node>, Error> {
    reader.rows(NODES, Vec::new()).await?.iter().map(node).collect()
}

fn node(row: &Row) -> Result<Node, Error> {
    let count = |index| get::<i64>(row, index).map(|count| u64::try_from(count).unwrap_or_default());
    Ok(Node {
        id: NodeId(get(row, 0)?),
        host: get(row, 1)?,
        release: get(row, 2)?,
        joined_at: timestamp(get(row, 3)?)?,
        dead: get(row, 4)?,
        load: Load { in_flight: count(5)?, queued: count(6)?, resting: count(7)? },
        running: RunningGeneration {
            number: get::<Option<i64>>(row, 8)?.and_then(|number| u64::try_from(number).ok()),
            problem: optional_text(row, 9)?,
        },
        shards: shards(&get::<Vec<i16>>(row, 10)?)?,
        details: details(row, 11)?,
    })
}

fn shards(numbers: &[i16]) -> Result<ShardSet, Error> {
    numbers.iter().copied().map(shard).collect()
}

fn shard(number: i16) -> Result<Shard, Error> {
    let shard = u8::try_from(number).ok().and_then(Shard::new);
    shard.ok_or_else(|| damaged(format!("{number} is no number of a shard")))
}

/// Returns the owner of an execution that has not ended.
pub(super) async fn owner(reader: &Reader, execution: ExecutionId) -> Result<Option<NodeId>, Error> {
    let row = reader.row(OWNER, params![id_of(execution)]).await?;
    let owner = row.map(|row| get::<Option<i64>>(&row, 0)).transpose()?;
    Ok(owner.flatten().map(NodeId))
}

/// Gives a page of executions of dead nodes to this one, and returns the last of them. If there are none left, forgets the dead
/// nodes that own nothing.
pub(super) async fn take_over(
    queue: &Queue,
    node: i64,
    after: Option<ExecutionId>,
) -> Result<Option<ExecutionId>, Error> {
    let after = after.map_or(Uuid::nil(), id_of);
    let rows = run(queue, TAKE_OVER, params![node, after, PAGE, None::<String>]).await?;
    let last: Option<Uuid> = rows.first().map(|row| get(row, 0)).transpose()?.flatten();
    if last.is_none() {
        run(queue, FORGET_DEAD, Vec::new()).await?;
    }
    Ok(last.map(execution_of))
}

/// Confirms that executions are in memory.
pub(super) async fn confirm(queue: &Queue, node: i64, executions: &[ExecutionId]) -> Result<(), Error> {
    let ids: Vec<Uuid> = executions.iter().copied().map(id_of).collect();
    run(queue, CONFIRM, params![ids, node]).await.map(drop)
}

/// Gives executions that have not begun to another node, and returns those that this one still has.
pub(super) async fn give(
    queue: &Queue,
    node: i64,
    to: NodeId,
    executions: &[ExecutionId],
) -> Result<Vec<ExecutionId>, Error> {
    let ids: Vec<Uuid> = executions.iter().copied().map(id_of).collect();
    // The second answer stays the same when the first is lost and both are asked again.
    let give = (GIVE, params![ids.clone(), node, to.0]);
    let lists = run_all(queue, vec![give, (STILL_OWN, params![ids, node])]).await?;
    let own = lists.last().map(Vec::as_slice).unwrap_or_default();
    own.iter().map(|row| get(row, 0).map(execution_of)).collect()
}

/// Takes free shards until the node has its part, and returns all that it has.
pub(super) async fn take_shards(queue: &Queue, node: i64) -> Result<ShardSet, Error> {
    let take = (TAKE_SHARDS, params![node, f64::from(Shard::COUNT)]);
    let lists = run_all(queue, vec![take, (OWN_SHARDS, params![node])]).await?;
    let own = lists.last().map(Vec::as_slice).unwrap_or_default();
    let numbers = own.iter().map(|row| get(row, 0)).collect::<Result<Vec<i16>, Error>>()?;
    shards(&numbers)
}

/// Frees a shard unless a gated execution of it is unfinished.
pub(super) async fn give_up_shard(queue: &Queue, node: i64, shard: Shard) -> Result<bool, Error> {
    let number = i16::from(shard.number());
    let give = (GIVE_UP_SHARD, params![node, number]);
    // A repetition after a lost answer finds that it has another owner.
    let lists = run_all(queue, vec![give, (OWNER_OF_SHARD, params![node, number])]).await?;
    lists
        .last()
        .and_then(|rows| rows.first())
        .map(|row| get(row, 0))
        .transpose()
        .map(Option::unwrap_or_default)
}

/// Stores a letter. Does nothing if it is for an execution that has ended.
pub(super) async fn send(queue: &Queue, letter: Letter) -> Result<(), Error> {
    let id = Uuid::from_bytes(letter.id);
    let (execution, shard) = match letter.to {
        Recipient::Execution(execution) => (Some(id_of(execution)), None),
        Recipient::Shard(shard) => (None, Some(i16::from(shard.number()))),
    };
    run(queue, SEND, params![id, execution, shard, letter.sender.0, letter.body]).await.map(drop)
}

/// Returns the state of a letter.
pub(super) async fn letter_state(reader: &Reader, letter: &Letter) -> Result<LetterState, Error> {
    let row = reader.row(STATE_OF_LETTER, params![Uuid::from_bytes(letter.id)]).await?;
    let Some(row) = row else { return Ok(LetterState::Ended) };
    let (reply, is_open): (Option<Vec<u8>>, bool) = (get(&row, 0)?, get(&row, 1)?);
    Ok(match reply {
        Some(reply) => LetterState::Answered(reply),
        None if is_open => LetterState::Open,
        None => LetterState::Ended,
    })
}

/// Deletes a letter.
pub(super) async fn delete_letter(queue: &Queue, letter: &Letter) -> Result<(), Error> {
    run(queue, DELETE_LETTER, params![Uuid::from_bytes(letter.id)]).await.map(drop)
}

/// Returns open letters to executions and shards of a node.
pub(super) async fn letters(reader: &Reader, node: i64) -> Result<Vec<Letter>, Error> {
    let letter = |row: &Row| {
        Ok(Letter {
            id: get::<Uuid>(row, 0)?.into_bytes(),
            to: match get::<Option<i16>>(row, 2)? {
                Some(number) => Recipient::Shard(shard(number)?),
                None => Recipient::Execution(execution_of(get(row, 1)?)),
            },
            sender: NodeId(get(row, 3)?),
            body: get(row, 4)?,
        })
    };
    reader.rows(LETTERS, params![node, i64::from(MAX_PAGE)]).await?.iter().map(letter).collect()
}

/// Stores the replies to letters.
pub(super) async fn answer(queue: &Queue, replies: Vec<(Letter, Vec<u8>)>) -> Result<(), Error> {
    let answer = |(letter, reply): (Letter, Vec<u8>)| -> (&'static str, Params) {
        (ANSWER, params![Uuid::from_bytes(letter.id), reply])
    };
    run_all(queue, replies.into_iter().map(answer).collect()).await.map(drop)
}

/// Returns executions of a node that wait for the end of an execution that has ended.
pub(super) async fn waiting_for_ended_children(
    reader: &Reader,
    node: i64,
) -> Result<Vec<ExecutionId>, Error> {
    let rows = reader.rows(ENDED_CHILDREN, params![node, i64::from(MAX_PAGE)]).await?;
    rows.iter().map(|row| get(row, 0).map(execution_of)).collect()
}

async fn run(queue: &Queue, sql: &'static str, params: Params) -> Result<Vec<Row>, Error> {
    Ok(run_all(queue, vec![(sql, params)]).await?.pop().unwrap_or_default())
}

/// Runs statements as one transaction of this node, which fails if it has been declared dead.
async fn run_all(queue: &Queue, statements: Vec<(&'static str, Params)>) -> Result<Vec<Vec<Row>>, Error> {
    match queue.write(Op::Statements(statements)).await? {
        Done::Rows(lists) => Ok(lists),
        _ => Ok(Vec::new()),
    }
}
