//! The beat of a node, which says that it runs, its look at the beats of the others, and the news between them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::time::MissedTickBehavior;
use tokio_postgres::Client;

use super::connect::{Session, Trouble, in_time};
use super::exchange::{Request, Requests};
use super::lane::Shared;
use super::node::fence_off;
use super::reader::Reader;
use super::schema::SCHEMA;
use super::usage::Usage;
use store::outage::Source;
use store::{Load, News, NodeId, RunningGeneration, ServerTime};

/// The time between two beats.
const BEAT: Duration = Duration::from_secs(2);
/// The time without a beat after which another daemon counts as dead, by the steady clock of the observer.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
const BEAT_ON: &str = "WITH b AS (UPDATE nodes SET beat = beat + 1, in_flight = $2, queued = $3, resting = $4, \
      generation = $5, problem = $6, details = coalesce($7, details), pid = pg_backend_pid() WHERE id = $1 AND NOT dead RETURNING id) \
    SELECT n.id, n.beat, n.dead, n.host, EXISTS (SELECT 1 FROM b), \
      (SELECT max(generation) FROM deployments), \
      (SELECT convert_from(value, 'UTF8')::int4 FROM meta WHERE name = 'oldest'), \
      (extract(epoch FROM clock_timestamp()) * 1e9)::int8 FROM nodes n";
const SERVER_TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1e9)::int8";
const NOTIFY: &str = "SELECT pg_notify($1, $2)";
const LOCK: &str =
    "SELECT pg_try_advisory_lock(hashtextextended('cogwork:' || current_schema() || ':lock:' || $1, 0))";
const UNLOCK: &str =
    "SELECT pg_advisory_unlock(hashtextextended('cogwork:' || current_schema() || ':lock:' || $1, 0))";
/// The name of the channel of news to all nodes; that of one node has its number behind it.
const CHANNEL: &str = "SELECT 'cogwork_' || substr(md5(current_schema()), 1, 16)";

/// The settings of the session that beats and sends news. Its writes need no sync: what another node does after it has declared one
/// dead is synced behind that.
const SESSION: &str =
    "SET statement_timeout = '5s'; SET synchronous_commit = off; SET client_min_messages = warning";

/// The session of a node that beats, and receives and sends news.
struct Link {
    session: Session,
    channel: String,
}

/// The beats of the other nodes, as this one has seen them.
#[derive(Default)]
struct Observer {
    seen: HashMap<i64, (i64, Instant)>,
    last_look: Option<Instant>,
    /// The nodes at the last look, with those that are dead.
    members: BTreeSet<(i64, bool)>,
    /// The newest generation at the last look.
    newest: Option<i64>,
}

/// A node at a look.
struct Seen {
    id: i64,
    beat: i64,
    dead: bool,
    host: String,
}

impl Observer {
    /// Notes a look, and returns the nodes whose beat has stood still for [`SILENCE`] while this node looked.
    fn look<'seen>(&mut self, nodes: &'seen [Seen], now: Instant) -> Vec<&'seen Seen> {
        if self.last_look.is_none_or(|last| now.saturating_duration_since(last) > 2 * BEAT) {
            // It could not look meanwhile, so that it knows of no silence.
            self.seen.clear();
        }
        self.last_look = Some(now);
        self.seen.retain(|id, _| nodes.iter().any(|node| node.id == *id && !node.dead));
        let alive = nodes.iter().filter(|node| !node.dead);
        let silent = alive.filter(|node| {
            let (beat, since) = self.seen.entry(node.id).or_insert((node.beat, now));
            if *beat != node.beat {
                (*beat, *since) = (node.beat, now);
            }
            now.saturating_duration_since(*since) >= SILENCE
        });
        silent.collect()
    }

    /// Returns true if nodes have joined, left or died since the last look.
    fn has_changed(&mut self, nodes: &[Seen]) -> bool {
        let members = nodes.iter().map(|node| (node.id, node.dead)).collect();
        std::mem::replace(&mut self.members, members) != self.members
    }
}

/// Beats, watches the other nodes, exchanges news with them and takes locks until the task is aborted. Poisons the store once another node has
/// declared this one dead, or a later release has changed the tables.
pub(super) async fn keep_alive(shared: Arc<Shared>, mut requests: Requests, reader: Reader, usage: Usage) {
    let (mut observer, mut is_late) = (Observer::default(), false);
    let mut link: Option<Link> = None;
    let mut ticks = tokio::time::interval(BEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let result = tokio::select! {
            biased;
            // An answer that something swallows on the way must not keep the node from beating on another connection.
            _ = ticks.tick() => match in_time(beat(&shared, &mut link, &mut observer, &usage)).await {
                Ok(Beat::Alive) => {
                    shared.outages.end(Source::Beat);
                    // Nobody may read for long: without a read that still fails, the answer to a beat is the end of their outage too.
                    if !reader.is_failing() {
                        shared.outages.end(Source::Reader);
                    }
                    is_late = false;
                    Ok(())
                }
                Ok(Beat::Dead) => return shared.poison.set("another daemon has taken over"),
                Ok(Beat::TooOld(oldest)) => return shared.poison.set(&SCHEMA.too_old(oldest)),
                Err(trouble) => Err(trouble),
            },
            Some(request) = requests.recv(), if link.is_some() => match &link {
                Some(link) => in_time(link.handle(request)).await,
                None => Ok(()),
            },
        };
        if let Err(Trouble { kind, reason }) = result {
            // A session that was lost is opened with the next beat: only if that beat fails too, the database has an outage.
            if link.take().is_none() || is_late {
                shared.outages.begin(Source::Beat, kind, &reason, Instant::now());
            }
            if !std::mem::replace(&mut is_late, true) {
                tracing::warn!(reason, "the beat of this daemon is late");
            }
        }
    }
}

/// The answer to a beat.
enum Beat {
    Alive,
    /// Another node has declared this one dead.
    Dead,
    /// The tables need a release that knows this version.
    TooOld(i32),
}

/// Beats once.
async fn beat(
    shared: &Arc<Shared>,
    link: &mut Option<Link>,
    observer: &mut Observer,
    usage: &Usage,
) -> Result<Beat, tokio_postgres::Error> {
    let session = match link {
        Some(open) => &mut open.session,
        None => &mut link.insert(listen(shared).await?).session,
    };
    let exchange = &shared.exchange;
    let Load { in_flight, queued, resting } = exchange.load();
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let RunningGeneration { number, problem } = exchange.running();
    let (number, problem) =
        (number.and_then(|number| i64::try_from(number).ok()), problem.map(String::into_bytes));
    let (in_flight, queued, resting) = (count(in_flight), count(queued), count(resting));
    let details = exchange.details();
    let told = details.as_ref().and_then(|details| serde_json::to_vec(details).ok());
    let sent = Instant::now();
    let rows = session
        .client
        .query(BEAT_ON, &[&shared.node, &in_flight, &queued, &resting, &number, &problem, &told])
        .await?;
    if let Some(row) = rows.first() {
        exchange.set_server_time(server_time(row.try_get(7)?, sent));
    }
    let is_alive = rows.first().map(|row| row.try_get::<_, bool>(4)).transpose()?.unwrap_or_default();
    let oldest: Option<i32> = rows.first().map(|row| row.try_get(6)).transpose()?.flatten();
    if let Some(oldest) = oldest.filter(|oldest| !SCHEMA.is_usable(*oldest)) {
        return Ok(Beat::TooOld(oldest));
    }
    if !is_alive {
        return Ok(Beat::Dead);
    }
    exchange.confirm(sent);
    exchange.confirm_details(&details);
    let newest: Option<i64> = rows.first().map(|row| row.try_get(5)).transpose()?.flatten();
    if std::mem::replace(&mut observer.newest, newest) != newest {
        exchange.receive(News::Deployed);
    }
    let mut nodes = Vec::with_capacity(rows.len());
    for row in rows {
        let seen =
            Seen { id: row.try_get(0)?, beat: row.try_get(1)?, dead: row.try_get(2)?, host: row.try_get(3)? };
        nodes.extend((seen.id != shared.node).then_some(seen));
    }
    let mut has_changed = observer.has_changed(&nodes);
    for silent in observer.look(&nodes, Instant::now()) {
        let mut transaction = session.client.transaction().await?;
        let is_dead = fence_off(&mut transaction, silent.id, silent.beat).await?;
        transaction.commit().await?;
        if is_dead {
            tracing::warn!(
                node = silent.id,
                host = silent.host,
                "a daemon has stopped beating; the others take over its executions"
            );
            exchange.tell(None, News::Nodes);
            has_changed = true;
        }
    }
    if has_changed {
        usage.note_nodes();
        exchange.receive(News::Nodes);
    }
    Ok(Beat::Alive)
}

/// Reads the clock of the server.
pub(super) async fn read_server_time(client: &Client) -> Result<ServerTime, tokio_postgres::Error> {
    let sent = Instant::now();
    let row = client.query_one(SERVER_TIME, &[]).await?;
    Ok(server_time(row.try_get(0)?, sent))
}

/// The reading of a query that was sent at this time, whose answer has just come.
fn server_time(nanoseconds: i64, sent: Instant) -> ServerTime {
    let received = Instant::now();
    let told = Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(Timestamp::MAX);
    ServerTime { told, received, round_trip: received.saturating_duration_since(sent) }
}

impl Link {
    async fn handle(&self, request: Request) -> Result<(), tokio_postgres::Error> {
        match request {
            Request::Tell(to, news) => send(&self.session, &self.channel, to, &news).await,
            Request::Lock(name, reply) => {
                let locked = self.session.client.query_one(LOCK, &[&name]).await?.try_get(0)?;
                if reply.send(locked).is_err() && locked {
                    // The caller has gone away.
                    self.session.client.query(UNLOCK, &[&name]).await?;
                }
                Ok(())
            }
            Request::Unlock(name) => self.session.client.query(UNLOCK, &[&name]).await.map(drop),
        }
    }
}

/// Opens the session of a node, which receives its news.
async fn listen(shared: &Arc<Shared>) -> Result<Link, tokio_postgres::Error> {
    let of = shared.clone();
    let receive = move |payload: &str| {
        if let Ok(news) = serde_json::from_str(payload) {
            of.exchange.receive(news);
        }
    };
    let session =
        Session::listening(&shared.access.config, &shared.access.encryption, SESSION, receive).await?;
    let channel = channel(&session).await?;
    let own = with_node(&channel, Some(NodeId(shared.node)));
    session.client.batch_execute(&format!("LISTEN {channel}; LISTEN {own}")).await?;
    Ok(Link { session, channel })
}

/// Returns the name of the channel of news to all nodes.
pub(super) async fn channel(session: &Session) -> Result<String, tokio_postgres::Error> {
    session.client.query_one(CHANNEL, &[]).await?.try_get(0)
}

/// Sends news to a node, or to all.
pub(super) async fn send(
    session: &Session,
    channel: &str,
    to: Option<NodeId>,
    news: &News,
) -> Result<(), tokio_postgres::Error> {
    let Ok(payload) = serde_json::to_string(news) else { return Ok(()) };
    session.client.query(NOTIFY, &[&with_node(channel, to), &payload]).await.map(drop)
}

fn with_node(channel: &str, node: Option<NodeId>) -> String {
    node.map_or_else(|| channel.to_owned(), |node| format!("{channel}_{node}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(beat: i64) -> Vec<Seen> {
        vec![Seen { id: 7, beat, dead: false, host: "one".to_owned() }]
    }

    /// Looks every two seconds at these beats, and returns how often the node counted as silent.
    fn silent(observer: &mut Observer, begun: Instant, beats: &[i64]) -> usize {
        let looks = (0u32..).zip(beats);
        looks.map(|(number, beat)| observer.look(&seen(*beat), begun + number * BEAT).len()).sum()
    }

    #[test]
    fn a_node_is_silent_after_ten_seconds_without_a_new_heartbeat() {
        let (mut observer, begun) = (Observer::default(), Instant::now());
        assert_eq!(silent(&mut observer, begun, &[1, 2, 3, 3, 3, 3, 3]), 0, "eight seconds");
        assert_eq!(observer.look(&seen(3), begun + 7 * BEAT).len(), 1, "ten seconds");
        assert_eq!(observer.look(&seen(4), begun + 8 * BEAT).len(), 0, "it beats again");
    }

    #[test]
    fn an_observer_that_missed_polls_restarts_the_silence_count() {
        let (mut observer, begun) = (Observer::default(), Instant::now());
        assert_eq!(silent(&mut observer, begun, &[1, 1]), 0);
        let later = begun + 60 * BEAT;
        assert_eq!(silent(&mut observer, later, &[1, 1, 1, 1, 1]), 0, "it begins anew");
        assert_eq!(observer.look(&seen(1), later + 5 * BEAT).len(), 1);
    }
}
