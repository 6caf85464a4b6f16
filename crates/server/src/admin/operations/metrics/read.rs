//! Reads the state of the engine as metric families. Nothing here is labelled by automation, connection or host: their
//! numbers have no bound, and the API has their figures.

use std::collections::BTreeMap;

use catalog::Workers;
use engine::Engine;
use model::metric::HistogramSnapshot;
use runtime::ConnectionState;
use store::{Capacity, Info, OutageKind, Subscription};

use super::family::{Family, Labels, Samples, float};
use crate::admin::Problem;

/// Observed microseconds in a second.
const US_PER_SECOND: f64 = 1e6;

/// All families, in the order in which they are shown.
pub(super) async fn families(engine: &Engine) -> Result<Vec<Family>, Problem> {
    let info = engine.store().info().await?;
    let mut families = daemon(engine, &info);
    families.extend(executions(engine));
    families.extend(starts(engine));
    families.extend(store(engine, &info));
    families.extend(parts(engine));
    families.extend(telemetry(engine));
    families.extend(nodes(engine).await?);
    Ok(families)
}

fn daemon(engine: &Engine, info: &Info) -> Vec<Family> {
    let (status, catalog) = (engine.status(), engine.catalog());
    let accepting = status.accepting && info.capacity != Capacity::Exhausted;
    let started = float(u64::try_from(status.started_at.as_millisecond()).unwrap_or_default()) / 1e3;
    let mut states = BTreeMap::from([("active", 0), ("disabled", 0), ("stale", 0)]);
    for deployment in catalog.automations() {
        *states.entry(deployment.state().as_str()).or_default() += 1;
    }
    let build = vec![("version", env!("CARGO_PKG_VERSION").to_owned()), ("store", info.engine.clone())];
    vec![
        Family {
            name: "build",
            help: "The version of Cogwork and of its store",
            samples: Samples::Info(build),
        },
        gauge("start_time_seconds", "When the daemon started, as a Unix time", started),
        gauge("accepting", "1 if starts are accepted, else 0", if accepting { 1.0 } else { 0.0 }),
        gauges("automations", "Automations in force by state", "state", states),
        gauge("broken_files", "Files that do not load", size(catalog.invalid_files().len())),
        gauge(
            "catalog_generation",
            "The snapshot of the project in force, counted from 1",
            float(status.generation),
        ),
        gauge(
            "weakened_guarantees",
            "Guarantees that are weakened, as `status` lists them",
            size(info.weakened.len()),
        ),
    ]
}

/// The daemons that share the store; one if this one has it to itself.
async fn nodes(engine: &Engine) -> Result<Vec<Family>, Problem> {
    let store = engine.store();
    let all = match store.nodes().await {
        // The outage itself is to be seen, and nobody knows the state of the others.
        Err(_) if store.outage().is_some() => None,
        all => Some(all.map_err(runtime::Error::from)?),
    };
    let by_state = all.map(|all| {
        let dead = all.iter().filter(|node| node.dead).count();
        let states = [("alive", (all.len() - dead).max(1)), ("dead", dead)];
        gauges("nodes", "Daemons that share the store by state", "state", states)
    });
    let running = engine.running_definitions();
    let others = [
        gauge(
            "deployment_generation",
            "The generation of deployed definitions in force; 0 if the files of the project folder are",
            float(running.generation.map_or(0, |generation| generation.number)),
        ),
        gauge(
            "deployment_behind",
            "1 if the newest deployed definitions are not in force here, else 0",
            if running.problem.is_some() { 1.0 } else { 0.0 },
        ),
        gauge("node_shards", "Shards of this daemon, of 128", size(engine.peers().shards.count())),
        counter(
            "executions_adopted",
            "Executions that came from other daemons",
            engine.context().metrics.adopted.get(),
        ),
    ];
    Ok(by_state.into_iter().chain(others).collect())
}

fn executions(engine: &Engine) -> Vec<Family> {
    let context = engine.context();
    let (metrics, admission) = (&context.metrics, engine.admission());
    let waiting = [
        ("slot", admission.waiting_for_slot()),
        ("memory", admission.waiting_for_memory()),
        ("permit", admission.waiting_for_permit()),
        ("pause", admission.suspended_count()),
    ];
    let waits = &metrics.queue_waits;
    let actions = metrics.actions();
    let by_action = |name: &String| vec![("action", name.clone())];
    let durations = actions.iter().map(|(name, action)| (by_action(name), action.duration.snapshot()));
    let failures = actions.iter().map(|(name, action)| (by_action(name), action.failures.get()));
    let evaluations = &context.evaluator.counters;
    vec![
        counters("executions_accepted", "Executions accepted by origin", "origin", metrics.accepted()),
        counters("executions_ended", "Executions ended by outcome", "outcome", metrics.ended()),
        gauge("executions_running", "Executions in memory", size(admission.in_flight())),
        gauge(
            "executions_running_limit",
            "Executions that may run at one time",
            size(context.settings.limits.in_flight),
        ),
        gauges("executions_waiting", "Executions that wait by reason", "reason", waiting),
        histogram(
            "queue_wait_seconds",
            "Waits of executions that had to wait before they ran, by reason",
            [("slot", &waits.slot), ("memory", &waits.memory), ("permit", &waits.permit)]
                .map(|(reason, wait)| (vec![("reason", reason.to_owned())], wait.snapshot())),
        ),
        histogram(
            "step_duration_seconds",
            "Working time of attempts by action; `code` are code blocks",
            durations,
        ),
        Family {
            name: "step_failures",
            help: "Attempts that failed, by action",
            samples: Samples::Counter(failures.collect()),
        },
        counter(
            "evaluations_long",
            "Expressions that took more than about a millisecond",
            evaluations.long.get(),
        ),
        counter(
            "evaluations_over_budget",
            "Expressions that exceeded their budget",
            evaluations.exceeded.get(),
        ),
    ]
}

fn starts(engine: &Engine) -> Vec<Family> {
    let (metrics, ingress) = (&engine.context().metrics, engine.ingress());
    let mut subscriptions = BTreeMap::from([("active", 0), ("pending", 0), ("leaving", 0)]);
    let shards = &engine.peers().shards;
    let is_here = |one: &Subscription| shards.has(&one.trigger.automation);
    for subscription in ingress.subscriptions().into_iter().filter(is_here) {
        let state = match (subscription.removing, subscription.remote.is_null()) {
            (true, _) => "leaving",
            (false, true) => "pending",
            (false, false) => "active",
        };
        *subscriptions.entry(state).or_default() += 1;
    }
    let failing = ingress.polls().iter().filter(|poll| poll.is_here && poll.poll_state.failures > 0).count();
    let polls = [("succeeded", &metrics.polls_succeeded), ("failed", &metrics.polls_failed)];
    vec![
        counters(
            "webhook_answers",
            "Answers to requests on webhooks by status code",
            "code",
            metrics.answers(),
        ),
        counters("starts_refused", "Starts refused or skipped by reason", "reason", engine.status().refused),
        histogram(
            "schedule_lateness_seconds",
            "Time from the instant of a schedule to the acceptance of its execution",
            [(Labels::new(), metrics.schedule_lateness.snapshot())],
        ),
        counters(
            "polls",
            "Polls by result",
            "result",
            polls.map(|(result, counter)| (result, counter.get())),
        ),
        counter("poll_items", "New items that polls found", metrics.poll_items.get()),
        counter(
            "messages_poisoned",
            "Messages of brokers that started nothing and went to the message list",
            metrics.messages_poisoned.get(),
        ),
        gauge("polls_failing", "Polls whose last attempt failed", size(failing)),
        gauges("subscriptions", "Subscriptions at other applications by state", "state", subscriptions),
    ]
}

fn store(engine: &Engine, info: &Info) -> Vec<Family> {
    let metrics = engine.store().metrics();
    let sizes = [("file", info.bytes), ("used", info.used), ("values", info.blob_bytes)];
    let rooms = [("enough", Capacity::Ample), ("little", Capacity::Low), ("none", Capacity::Exhausted)];
    let outage = engine.store().outage().map(|outage| outage.kind);
    let outages = OutageKind::ALL.map(|kind| (kind.as_str(), usize::from(outage == Some(kind))));
    let mut families = vec![
        gauges(
            "store_outage",
            "1 for the kind of the outage in which the store takes no writes",
            "kind",
            outages,
        ),
        counter("store_commits", "Commits, each of one batch of writes", metrics.commits),
        counter("store_writes", "Writes that were made durable", metrics.writes),
        counter("store_written_bytes", "Approximate size of the durable writes", metrics.bytes),
        Family {
            name: "store_commit_time_seconds",
            help: "Time spent in commits",
            samples: Samples::FractionalCounter(metrics.commit_time.as_secs_f64()),
        },
        gauge("store_queued_writes", "Writes in the queue", float(metrics.queued)),
        Family {
            name: "store_bytes",
            help: "Size of the store by part: the database with its log, the part of it in use, values in files",
            samples: Samples::Gauge(
                sizes.map(|(part, bytes)| (vec![("part", part.to_owned())], float(bytes))).into(),
            ),
        },
        gauges(
            "store_room",
            "1 for the room that the store has left",
            "room",
            rooms.map(|(room, capacity)| (room, usize::from(info.capacity == capacity))),
        ),
    ];
    families
        .extend(info.max_bytes.map(|most| gauge("store_max_bytes", "The limit of the store", float(most))));
    families.extend(metrics.commit_durations.map(|durations| {
        histogram("store_commit_duration_seconds", "Duration of commits", [(Labels::new(), durations)])
    }));
    families.extend(metrics.batch_sizes.map(|sizes| Family {
        name: "store_commit_writes",
        help: "Writes in a commit",
        samples: Samples::Histogram(vec![(Labels::new(), sizes, 1.0)]),
    }));
    families
}

fn parts(engine: &Engine) -> Vec<Family> {
    let workers = Workers::status();
    let mut connections = BTreeMap::from([("unused", 0), ("healthy", 0), ("failing", 0), ("needsLogin", 0)]);
    for connection in engine.connections().reports() {
        let state = match connection.state {
            ConnectionState::Unused => "unused",
            ConnectionState::Healthy => "healthy",
            ConnectionState::Failing => "failing",
            ConnectionState::NeedsLogin => "needsLogin",
        };
        *connections.entry(state).or_default() += 1;
    }
    vec![
        gauges(
            "code_workers",
            "Code workers by state",
            "state",
            [("busy", workers.busy), ("idle", workers.idle)],
        ),
        gauge("code_workers_limit", "Code runs that may run at one time", size(workers.limit)),
        gauge("code_waiting", "Code runs that wait for a worker", size(workers.waiting)),
        counter("code_workers_started", "Code workers started", workers.started),
        counter(
            "code_workers_lost",
            "Code workers that died or were killed while they ran code",
            workers.lost,
        ),
        gauges("connections", "Connections by state", "state", connections),
    ]
}

/// The spans and log records sent to a collector of OpenTelemetry, and those dropped; zeros without a collector.
fn telemetry(engine: &Engine) -> Vec<Family> {
    let counts = engine.context().observer_counts();
    let sent = [("span", counts.spans_sent), ("log", counts.logs_sent)];
    let dropped = [
        ("span", counts.spans_dropped),
        ("execution", counts.executions_dropped),
        ("log", counts.logs_dropped),
    ];
    vec![
        counters("telemetry_sent", "Spans and log records that a collector accepted", "item", sent),
        counters(
            "telemetry_dropped",
            "Spans, executions without spans, and log records that were lost",
            "item",
            dropped,
        ),
    ]
}

fn gauge(name: &'static str, help: &'static str, value: f64) -> Family {
    Family { name, help, samples: Samples::Gauge(vec![(Labels::new(), value)]) }
}

fn gauges<'s>(
    name: &'static str,
    help: &'static str,
    label: &'static str,
    samples: impl IntoIterator<Item = (&'s str, usize)>,
) -> Family {
    let samples = samples.into_iter().map(|(value, count)| (vec![(label, value.to_owned())], size(count)));
    Family { name, help, samples: Samples::Gauge(samples.collect()) }
}

fn counter(name: &'static str, help: &'static str, value: u64) -> Family {
    Family { name, help, samples: Samples::Counter(vec![(Labels::new(), value)]) }
}

fn counters<L: ToString>(
    name: &'static str,
    help: &'static str,
    label: &'static str,
    samples: impl IntoIterator<Item = (L, u64)>,
) -> Family {
    let samples = samples.into_iter().map(|(value, count)| (vec![(label, value.to_string())], count));
    Family { name, help, samples: Samples::Counter(samples.collect()) }
}

/// A histogram of times, observed in microseconds and shown in seconds.
fn histogram(
    name: &'static str,
    help: &'static str,
    samples: impl IntoIterator<Item = (Labels, HistogramSnapshot)>,
) -> Family {
    let samples = samples.into_iter().map(|(labels, snapshot)| (labels, snapshot, US_PER_SECOND));
    Family { name, help, samples: Samples::Histogram(samples.collect()) }
}

fn size(count: usize) -> f64 {
    float(u64::try_from(count).unwrap_or(u64::MAX))
}
