//! Three daemons on one database send own events, and are killed one after the other: each trigger starts once for each event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::super::rig::{Parts, Rig};
use super::super::{Effort, Error, Verdict};
use postgres_server::Server;

const DAEMONS: usize = 3;
/// The number of requests of a round. Each starts an execution that sends [`TOLD`] events; an event of the API goes with it.
const REQUESTS: usize = 20;
const TOLD: usize = 99;
/// The number of requests at one time.
const SENDERS: usize = 6;
/// The pause before a request is repeated that was not answered.
const AGAIN: Duration = Duration::from_millis(50);
/// The longest time from the begin of a round to the crash in it.
const LATEST_CRASH_MS: u64 = 1500;
/// The time limit for the answers of a round: a daemon counts as dead after ten seconds, and what it had goes on then.
const ROUND: Duration = Duration::from_secs(120);
/// The time limit for the next event to be delivered and the next execution to end, and the time between two looks.
const PROGRESS_WITHIN: Duration = Duration::from_secs(120);
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The automation that sends, and its consumers.
const SENDER: &str = "tell";
const CONSUMERS: [&str; 2] = ["ship", "book"];

/// A daemon that runs.
#[derive(Clone, Debug)]
struct Target {
    webhook: String,
    events: String,
    token: String,
}

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let server = Server::start()?;
    let stores = vec![Server::url(&[&server]); DAEMONS];
    let sender = "trigger: {webhook: {verify: none}}\nsteps:\n  - forEach: \"${{ trigger.results.body.data }}\"\n    steps:\n      \
         - {id: sent, action: events.emit, with: {name: order.paid, data: {n: \"${{ item }}\"}}}\n";
    let consumer =
        "trigger: {event: order.paid, data: {n: {type: integer, required: true}}}\nsteps: [{set: {x: 1}}]\n";
    let mut automations = vec![(SENDER, sender.to_owned())];
    automations.extend(CONSUMERS.map(|name| (name, consumer.to_owned())));
    let mut rig =
        Rig::new("own-events", effort.seed, Parts { stores, automations, ..Parts::default() }).await?;
    rig.start().await?;
    let (targets, of_senders) = watch::channel(running(&rig).await?);
    let begun = Instant::now();
    let mut api_events = 0;
    for _ in 0..effort.rounds {
        let next = AtomicUsize::new(api_events);
        api_events += REQUESTS;
        let http = rig.http().clone();
        let senders = (0..SENDERS).map(|_| send(&http, of_senders.clone(), &next, api_events));
        let crash = crash(&mut rig, &targets);
        let both = async { tokio::join!(join_all(senders), crash).1 };
        match tokio::time::timeout(ROUND, both).await {
            Ok(crashed) => crashed?,
            Err(_) => rig.blame(Some("not everything that was sent in a round was acknowledged".to_owned())),
        }
        rig.verdict().rounds += 1;
        if !rig.is_well() {
            break;
        }
    }
    let sent_within = begun.elapsed();
    delivered(&rig).await?;
    let took = begun.elapsed();
    judge(&mut rig, api_events).await?;
    rig.verdict().notes.push(format!(
        "all were sent within {:.0} s, and delivered within {:.0} s",
        sent_within.as_secs_f64(),
        took.as_secs_f64()
    ));
    rig.settle().await
}

/// Returns the daemons that run.
async fn running(rig: &Rig) -> Result<Vec<Target>, Error> {
    let mut targets = Vec::new();
    for index in 0..DAEMONS {
        let Ok(daemon) = rig.daemon_at(index) else { continue };
        targets.push(Target {
            webhook: rig.live_url_at(index, SENDER).await?,
            events: format!("{}/api/v1/events", daemon.admin_url()),
            token: daemon.admin_token()?,
        });
    }
    Ok(targets)
}

/// Kills a daemon at a random moment, and starts it again.
async fn crash(rig: &mut Rig, targets: &watch::Sender<Vec<Target>>) -> Result<(), Error> {
    let within = Duration::from_millis(rig.random().u64(..LATEST_CRASH_MS));
    rig.rate(within).await;
    let index = rig.random().usize(..DAEMONS);
    rig.kill_node(index).await?;
    targets.send_replace(running(rig).await?);
    rig.start_node(index).await?;
    targets.send_replace(running(rig).await?);
    Ok(())
}

/// Sends the requests with the next numbers, each until it is acknowledged. The event of the API keeps its id.
async fn send(http: &Client, mut targets: watch::Receiver<Vec<Target>>, next: &AtomicUsize, end: usize) {
    let mut turn = fastrand::usize(..DAEMONS);
    let items: Vec<usize> = (0..TOLD).collect();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            return;
        }
        for is_event in [false, true] {
            loop {
                turn += 1;
                let target = {
                    let targets = targets.borrow();
                    targets.get(turn % targets.len().max(1)).cloned()
                };
                let Some(target) = target else { continue };
                let request = if is_event {
                    let body = json!({"name": "order.paid", "id": id_of(number), "data": {"n": number}});
                    http.post(&target.events).bearer_auth(&target.token).json(&body)
                } else {
                    http.post(&target.webhook).json(&items)
                };
                if request.send().await.is_ok_and(|answer| answer.status().is_success()) {
                    break;
                }
                // Until there is another daemon, or this one has room.
                let _ = tokio::time::timeout(AGAIN, targets.changed()).await;
            }
        }
    }
}

/// Returns the id of an event of the API.
fn id_of(number: usize) -> String {
    format!("api:{number}")
}

/// Waits until no event is on its way and no execution runs.
async fn delivered(rig: &Rig) -> Result<(), Error> {
    let (mut since, mut before) = (Instant::now(), (0, String::new()));
    let mut quiet = 0;
    while quiet < 2 {
        let shown = rig.ask("/own-events").await?;
        let events = shown["events"].as_array().cloned().unwrap_or_default();
        let undelivered: u64 = events.iter().filter_map(|event| event["undelivered"].as_u64()).sum();
        let open = rig.ask("/executions?status=queued,running,waiting&limit=1").await?;
        let is_open = open["executions"].as_array().is_some_and(|open| !open.is_empty());
        quiet = if undelivered == 0 && !is_open { quiet + 1 } else { 0 };
        // Executions end in the order of their acceptance.
        let ended = rig.ask("/executions?status=succeeded&limit=1").await?;
        let progress = (undelivered, text(&ended["executions"][0]["id"]));
        if progress != before {
            (since, before) = (Instant::now(), progress);
        }
        if since.elapsed() > PROGRESS_WITHIN {
            rig.blame(Some(format!("{undelivered} events are not delivered, or executions do not end")));
            return Ok(());
        }
        rig.rate(CHECK_INTERVAL).await;
    }
    Ok(())
}

/// Compares the executions of each consumer with the events that were sent: one for each, and no other.
async fn judge(rig: &mut Rig, api_events: usize) -> Result<(), Error> {
    let senders: BTreeSet<String> =
        rig.executions(SENDER).await?.iter().map(|row| text(&row["id"])).collect();
    let sent = senders.len() * TOLD + api_events;
    for consumer in CONSUMERS {
        let mut by_sender: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let rows = rig.executions(consumer).await?;
        for row in &rows {
            let (sender, event) = (text(&row["origin"]["sender"]), text(&row["origin"]["id"]));
            if !by_sender.entry(sender).or_default().insert(event.clone()) {
                rig.blame(Some(format!("`{consumer}` started twice for the event {event}")));
            }
        }
        let of_api = by_sender.remove("").unwrap_or_default();
        let missing: Vec<String> = (0..api_events).map(id_of).filter(|id| !of_api.contains(id)).collect();
        rig.blame((!missing.is_empty()).then(|| format!("`{consumer}` did not start for {missing:?}")));
        for sender in &senders {
            let heard = by_sender.get(sender).map_or(0, BTreeSet::len);
            let wrong = format!("`{consumer}` started for {heard} of the {TOLD} events of {sender}");
            rig.blame((heard != TOLD).then_some(wrong));
        }
        let wrong = format!("`{consumer}` has {} executions for {sent} events", rows.len());
        rig.blame((rows.len() != sent).then_some(wrong));
    }
    rig.verdict().acknowledged += sent as u64;
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
