//! Three daemons on one database take the messages of a broker, while a daemon is killed, the broker is killed, or acknowledgements are
//! lost: each message starts one execution.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use postgres_server::Server;
use serde_json::Value;
use servers::Proxy;

use super::super::rig::{Parts, Rig};
use super::super::{Effort, Error, Verdict};
use super::message_broker::{Broker, Kind};

const DAEMONS: usize = 3;
/// The number of messages of a round.
const MESSAGES: usize = 200;
/// The longest time from the begin of a round to what goes wrong in it.
const LATEST_FAULT_MS: u64 = 500;
/// The time for which acknowledgements are lost.
const SILENCE: Duration = Duration::from_secs(1);
/// The time limit for the next message to be acknowledged: the broker brings one again after a minute without an acknowledgement.
const PROGRESS_WITHIN: Duration = Duration::from_secs(150);
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// The number of executions that are read at one time.
const READERS: usize = 8;

const AUTOMATION: &str = "take";
const STEPS: &str = "steps:
  - set: {n: \"${{ trigger.results.body.data.body }}\"}
outputs: {n: \"${{ vars.n }}\"}
";

/// The things that go wrong, in turns.
#[derive(Clone, Copy)]
enum Fault {
    Daemon,
    Acknowledgements,
    Broker,
}

pub(super) async fn run(effort: Effort, kind: Kind) -> Result<Verdict, Error> {
    let mut broker = Broker::start(kind)?;
    let proxy = Proxy::start(broker.port())?;
    let server = Server::start()?;
    let parts = Parts {
        stores: vec![Server::url(&[&server]); DAEMONS],
        connections: vec![("bus", broker.connection(proxy.port))],
        automations: vec![(AUTOMATION, format!("{}{STEPS}", broker.trigger(DAEMONS)))],
        variables: vec![("COGWORK_SECRET_RABBIT".to_owned(), servers::rabbitmq::PASSWORD.to_owned())],
        ..Parts::default()
    };
    let mut rig = Rig::new("messages", effort.seed, parts).await?;
    rig.start().await?;
    let begun = Instant::now();
    let faults = [Fault::Daemon, Fault::Acknowledgements, Fault::Broker];
    let mut sent = 0;
    for fault in faults.into_iter().cycle().take(effort.rounds as usize) {
        sent = publish(&broker, sent).await?;
        let after = Duration::from_millis(rig.random().u64(..LATEST_FAULT_MS));
        rig.rate(after).await;
        match fault {
            Fault::Daemon => {
                let index = rig.random().usize(..DAEMONS);
                rig.kill_node(index).await?;
                rig.start_node(index).await?;
            }
            Fault::Acknowledgements => {
                proxy.swallow(Some(broker.acknowledgement()));
                sent = publish(&broker, sent).await?;
                rig.rate(SILENCE).await;
                proxy.swallow(None);
                proxy.cut();
            }
            Fault::Broker => {
                broker.kill();
                broker.start_again()?;
            }
        }
        rig.verdict().rounds += 1;
    }
    settled(&rig, &broker, sent).await?;
    judge(&mut rig, sent).await?;
    let took = begun.elapsed().as_secs();
    rig.verdict().notes.push(format!("{sent} messages were sent, started and acknowledged within {took} s"));
    let mut verdict = rig.settle().await?;
    // Messages that a daemon has taken and not acknowledged come back when it ends.
    let open = broker.unsettled().await?;
    verdict.violations.extend((open > 0).then(|| format!("{open} messages were not acknowledged")));
    Ok(verdict)
}

/// Publishes the messages with the next numbers, and returns the number of all.
async fn publish(broker: &Broker, from: usize) -> Result<usize, Error> {
    let to = from + MESSAGES;
    broker.publish(from..to).await?;
    Ok(to)
}

/// Waits until every message is acknowledged and no execution runs.
async fn settled(rig: &Rig, broker: &Broker, sent: usize) -> Result<(), Error> {
    let (mut since, mut before) = (Instant::now(), (u64::MAX, 0));
    loop {
        let unsettled = broker.unsettled().await?;
        let open = rig.ask("/executions?status=queued,running,waiting&limit=1").await?;
        let started = rig.executions(AUTOMATION).await?.len();
        let is_over = unsettled == 0 && started >= sent;
        if is_over && open["executions"].as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        if (unsettled, started) != before {
            (since, before) = (Instant::now(), (unsettled, started));
        }
        if since.elapsed() > PROGRESS_WITHIN {
            rig.blame(Some(format!("{unsettled} messages are not acknowledged, or executions do not end")));
            return Ok(());
        }
        rig.rate(CHECK_INTERVAL).await;
    }
}

/// Returns the number in the message that started an execution; `u64::MAX` without a number.
async fn number_of(rig: &Rig, row: &Value) -> Result<u64, Error> {
    let id = row["id"].as_str().unwrap_or_default();
    let shown = rig.ask(&format!("/executions/{id}")).await?;
    let number = shown["outcome"]["result"]["n"].as_u64();
    rig.blame(number.is_none().then(|| format!("the execution {id} has no number")));
    Ok(number.unwrap_or(u64::MAX))
}

/// Compares the executions with the messages that were sent: one for each, and no other. None is in the list of messages that started
/// nothing.
async fn judge(rig: &mut Rig, sent: usize) -> Result<(), Error> {
    let mut started: BTreeMap<u64, usize> = BTreeMap::new();
    let rows = rig.executions(AUTOMATION).await?;
    for part in rows.chunks(READERS) {
        for number in join_all(part.iter().map(|row| number_of(rig, row))).await {
            *started.entry(number?).or_default() += 1;
        }
    }
    for (number, count) in started.iter().filter(|(_, count)| **count != 1) {
        rig.blame(Some(format!("message {number} started {count} executions")));
    }
    let missing: Vec<u64> = (0..sent as u64).filter(|number| !started.contains_key(number)).collect();
    rig.blame((!missing.is_empty()).then(|| format!("these messages started nothing: {missing:?}")));
    let listed = rig.ask("/messages").await?;
    let is_empty = listed["messages"].as_array().is_some_and(Vec::is_empty);
    rig.blame((!is_empty).then(|| format!("messages are in the list: {listed}")));
    rig.verdict().acknowledged += sent as u64;
    Ok(())
}
