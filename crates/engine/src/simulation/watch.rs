//! The oracle of changes and silences: each is told once, and nothing is written while all is well.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use model::Status;
use model::execution::Event;
use model::payload::{EmittedEvent, Payload};
use store::ExecutionRow;
use value::Value;

use super::generator::{CHANGED, CHANGES, QUIET_AUTOMATION, SILENCE, SILENCES};
use super::loader::Deployed;
use super::world::World;

/// The longest time after the deadline of a silence until it is told: the engine may crash meanwhile, or try again.
const LATE: SignedDuration = SignedDuration::from_mins(1);

/// Checks after each life that a subject under watch has one value in the state, which is written once.
pub(super) fn check_writes(world: &World) -> Result<(), String> {
    for name in SILENCES {
        for (key, version, _) in watched(world, name) {
            let known = world.state().watched.insert((name.to_owned(), key.clone()), version);
            if known.is_some_and(|known| known != version) {
                return Err(format!("since when `{name}` watches `{key}` was written again"));
            }
        }
    }
    Ok(())
}

/// Checks that each change and each silence has started a handler once.
pub(super) fn check(world: &World, rows: &[ExecutionRow], now: Timestamp) -> Result<(), String> {
    let changes = of(world, rows, CHANGES);
    let told: u64 =
        changes.iter().filter_map(|event| event.data.get("count")?.to_text().parse::<u64>().ok()).sum();
    let happened = world.state().changes * CHANGED.len() as u64;
    if told != happened {
        return Err(format!("{happened} changes happened, and a handler heard of {told}"));
    }
    for name in SILENCES {
        let subjects = watched(world, name).len();
        if subjects != 1 {
            return Err(format!("`{name}` watches {subjects} subjects, and was to watch 1"));
        }
    }
    check_gaps(world, &check_silences(world, rows)?, now)
}

/// Checks that a handler heard once of each change between the generations that nodes of a cluster have loaded. One execution may stand
/// for several changes, so they are counted.
pub(super) fn check_changes(world: &World, rows: &[ExecutionRow], deployed: &Deployed) -> Result<(), String> {
    let mut told = BTreeMap::from(CHANGED.map(|name| (name.to_owned(), 0)));
    for event in of(world, rows, CHANGES) {
        let text = |path: &str| event.data.path(path).map(|value| value.to_text().to_string());
        let (kind, count) = (text("kind"), text("count").and_then(|count| count.parse::<usize>().ok()));
        match (text("automation.id").and_then(|name| told.get_mut(&name)), kind.as_deref(), count) {
            (Some(told), Some("changed"), Some(count)) => *told += count,
            _ => return Err(format!("`{}` was told, which did not happen", event.id)),
        }
    }
    // Another node may have told of a later generation before one of these: then it is not told.
    let (begun, certain) =
        (deployed.begun.iter(), deployed.loaded.iter().filter(|(_, is_certain)| **is_certain));
    let (begun, certain) =
        (deployed.versions_of(begun), deployed.versions_of(certain.map(|(number, _)| number)));
    let (least, most) = (changes_between(&certain), changes_between(&begun));
    // The first change that is told is unknown if no node told of the first generation before another began to load the next one.
    let is_known = begun.first().is_some_and(|first| certain.first() == Some(first));
    let is_odd = |told: usize| told % 2 == 1;
    for (name, told) in told {
        let ends_right = !is_known || is_odd(told) == (certain.first() != certain.last());
        if told < least || told > most || !ends_right {
            return Err(format!(
                "`{name}` was told {told} times to have changed: the generations that were loaded change it at least {least} \
                 times, and all of them {most} times"
            ));
        }
    }
    Ok(())
}

/// The number of generations whose files differ from the generation before.
fn changes_between(versions: &[usize]) -> usize {
    versions.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// The number of executions that heard of changes.
pub(super) fn changes(world: &World) -> usize {
    of(world, &super::oracle::rows(world), CHANGES).len()
}

/// The starts of the silences of the Automation that were told, and the times at which one can have begun.
pub(super) struct Silences {
    told: BTreeSet<Timestamp>,
    possible: BTreeSet<Timestamp>,
}

/// Checks that each silence is told once and begins with a success or with the watch. Nodes that are gone may have missed some.
pub(super) fn check_silences(world: &World, rows: &[ExecutionRow]) -> Result<Silences, String> {
    for name in SILENCES {
        let silences = of(world, rows, name);
        let distinct: BTreeSet<Timestamp> = silences.iter().filter_map(since).collect();
        if distinct.len() != silences.len() {
            return Err(format!("`{name}` heard of {} silences {} times", distinct.len(), silences.len()));
        }
    }
    let told: BTreeSet<Timestamp> = of(world, rows, SILENCES[0]).iter().filter_map(since).collect();
    let successes = rows.iter().filter(|row| row.automation.as_str() == QUIET_AUTOMATION);
    let successes = successes.filter(|row| row.status == Status::Succeeded);
    let mut possible: BTreeSet<Timestamp> = successes.filter_map(|row| row.finished_at).collect();
    possible.extend(watched(world, SILENCES[0]).iter().filter_map(|(_, _, since)| *since));
    match told.iter().find(|told| !possible.contains(told)) {
        Some(other) => Err(format!("a silence since {other} was told, when nothing had succeeded")),
        None => Ok(Silences { told, possible }),
    }
}

/// The number of silences that were told.
pub(super) fn told(world: &World) -> usize {
    let rows = super::oracle::rows(world);
    SILENCES.iter().map(|name| of(world, &rows, name).len()).sum()
}

/// Checks that each gap between two successes is told if it is a silence, and only then.
fn check_gaps(world: &World, silences: &Silences, now: Timestamp) -> Result<(), String> {
    let Silences { told, possible } = silences;
    // Times in which the wall clock was set cannot be compared.
    if world.state().is_clock_set {
        return Ok(());
    }
    let next = possible.iter().skip(1).copied().chain([now]);
    for (end, next) in possible.iter().copied().zip(next) {
        let silence = next.duration_since(end);
        if silence < SILENCE && told.contains(&end) {
            return Err(format!("a silence since {end} was told, and the next success was at {next}"));
        }
        if silence > SILENCE + LATE && !told.contains(&end) {
            return Err(format!("the silence from {end} to {next} was not told"));
        }
    }
    Ok(())
}

/// Returns the events that started executions of an Automation.
fn of(world: &World, rows: &[ExecutionRow], automation: &str) -> Vec<EmittedEvent> {
    let own = rows.iter().filter(|row| row.automation.as_str() == automation);
    let event = |row: &ExecutionRow| match world.events(row.id).first()? {
        Event::Started { payload, .. } => match &**payload {
            Payload::Emitted(event) => Some(event.clone()),
            _ => None,
        },
        _ => None,
    };
    own.filter_map(event).collect()
}

fn since(event: &EmittedEvent) -> Option<Timestamp> {
    event.data.get("since")?.to_text().parse().ok()
}

/// Returns the subjects that a trigger watches, with the versions of their values and the time since when it does.
fn watched(world: &World, automation: &str) -> Vec<(String, u64, Option<Timestamp>)> {
    let scope = format!("watch:{automation}");
    let rows = world.memory.open().list_state(&scope, None, 10).now_or_never();
    let rows = rows.expect("nothing waits in memory").expect("it is read");
    let since = |value: &Value| value.get("since")?.to_text().parse().ok();
    rows.into_iter().map(|row| (row.key, row.entry.version, since(&row.entry.value))).collect()
}
