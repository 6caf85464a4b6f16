//! `cogwork.missing`: starts an execution if nothing succeeded, or no event came, for some time.
//!
//! Next to nothing is written while all is well: the deadline is the last success plus `within`, and is looked up when it passes. When a
//! subject came under watch is a value of the state. With a long `within`, also the last success is written there from time to time: the
//! execution may be deleted before the deadline. The key of an execution has the last success, so that each silence starts
//! one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, EngineTrigger};
use jiff::{SignedDuration, Timestamp};
use model::Status;
use model::automation::{Automation, AutomationId, TriggerKey};
use model::engine_event::EngineEventName;
use model::payload::{EmittedEvent, Payload};
use runtime::{AcceptOptions, Due, Error, Occurrence, Start, Timed};
use store::{ExecutionFilter, Page, StateWrite};
use text::units::format_duration;
use value::{Map, Value};

use crate::ingress::Ingress;

/// The pause after an error of the store, or after a full queue.
const RETRY: SignedDuration = SignedDuration::from_secs(5);
/// The longest time between two looks: no execution is deleted earlier by its age.
const LOOK_INTERVAL: SignedDuration = SignedDuration::from_hours(12);
/// The number of executions among which the success that ended last is looked for.
const SUCCESSES: u32 = 20;
/// The page size when values of the state are read.
const PAGE: u32 = 1000;

/// Watches until the engine stops.
pub(crate) async fn run(ingress: Arc<Ingress>) {
    ingress.context.timer().run(Watch { ingress, entries: BTreeMap::new(), cleared: Vec::new() }).await;
}

/// The subject that a trigger watches: an automation, or an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Automation(AutomationId),
    Event(String),
}

impl Subject {
    /// Returns the key of the value in the state.
    fn key(&self) -> String {
        match self {
            Self::Automation(id) => id.to_string(),
            Self::Event(name) => format!("event:{name}"),
        }
    }
}

/// The subjects under watch.
struct Watch {
    ingress: Arc<Ingress>,
    /// The time of the next look, and since when the subject is under watch, once it is known.
    entries: BTreeMap<(TriggerKey, Subject), Entry>,
    /// The triggers whose former subjects were looked for since the start.
    cleared: Vec<TriggerKey>,
}

#[derive(Clone, Copy)]
struct Entry {
    next: Timestamp,
    since: Option<Timestamp>,
    within: Duration,
}

impl Timed for Watch {
    async fn adopt(&mut self) {
        let catalog = self.ingress.context.catalog();
        let wanted = wanted(&self.ingress, &catalog);
        let gone: Vec<_> = self.entries.keys().filter(|key| !wanted.contains_key(*key)).cloned().collect();
        for key in gone {
            self.entries.remove(&key);
            if self.ingress.peers.shards.has(&key.0.automation) {
                // It begins anew if it comes back.
                self.forget(&key.0, &key.1.key()).await;
            }
        }
        let now = self.ingress.context.clock.now();
        for (key, trigger) in wanted {
            self.clear_former(&key.0, &catalog).await;
            let within = trigger.filter.within;
            let entry = self.entries.entry(key).or_insert(Entry { next: now, since: None, within });
            if std::mem::replace(&mut entry.within, within) != within {
                entry.next = now;
            }
        }
    }

    fn next(&self) -> Option<Due> {
        self.entries.values().map(|entry| entry.next).min().map(Due::WallClock)
    }

    async fn run_due(&mut self) {
        let ingress = self.ingress.clone();
        let now = ingress.context.clock.now();
        let due: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.next <= now).collect();
        let due: Vec<_> = due.into_iter().map(|(key, entry)| (key.clone(), *entry)).collect();
        let catalog = ingress.context.catalog();
        let mut wanted = wanted(&ingress, &catalog);
        for (key, entry) in due {
            let Some(trigger) = wanted.remove(&key) else {
                self.entries.remove(&key);
                continue;
            };
            let looked = ingress.look(&catalog, &trigger, &key, entry.since).await;
            let entry = looked.unwrap_or_else(|error| {
                match &error {
                    Error::Store(error) => ingress.context.lost(error),
                    error if !ingress.context.accepting() => tracing::debug!(%error, "not looked for a silence"),
                    error => tracing::warn!(trigger = %key.0, %error, "a silence could not be told; it is tried again"),
                }
                Entry { next: after(now, RETRY), ..entry }
            });
            self.entries.insert(key, entry);
        }
    }
}

impl Watch {
    /// Forgets since when subjects are under watch that are not any more. Once for each trigger.
    async fn clear_former(&mut self, trigger: &TriggerKey, catalog: &Catalog) {
        if self.cleared.contains(trigger) {
            return;
        }
        self.cleared.push(trigger.clone());
        let wanted = wanted(&self.ingress, catalog);
        let subjects = wanted.keys().filter(|(of, _)| of == trigger);
        let subjects: Vec<String> = subjects.map(|(_, subject)| subject.key()).collect();
        let scope = scope(trigger);
        let mut last: Option<String> = None;
        loop {
            let page = self.ingress.context.store.list_state(&scope, last.as_deref(), PAGE).await;
            let page = match page {
                Ok(page) => page,
                Err(error) => return self.ingress.context.lost(&error),
            };
            let Some(end) = page.last() else { return };
            last = Some(end.key.clone());
            for row in page.iter().filter(|row| !subjects.contains(&row.key)) {
                self.forget(trigger, &row.key).await;
            }
        }
    }

    async fn forget(&self, trigger: &TriggerKey, key: &str) {
        let (store, scope) = (&self.ingress.context.store, scope(trigger));
        let forgotten = async {
            let Some(entry) = store.read_state(&scope, key).await? else { return Ok(()) };
            let write = StateWrite {
                scope: scope.clone(),
                key: key.to_owned(),
                expected: Some(entry.version),
                value: None,
                expires_at: None,
            };
            store.write_state(vec![write]).await
        };
        match forgotten.await {
            // Another node was faster.
            Ok(()) | Err(store::Error::StateChanged { .. }) => {}
            Err(error) => self.ingress.context.lost(&error),
        }
    }
}

/// Returns what the triggers in force whose automation this node has are to watch.
fn wanted(ingress: &Ingress, catalog: &Catalog) -> BTreeMap<(TriggerKey, Subject), EngineTrigger> {
    let mut wanted = BTreeMap::new();
    let triggers = catalog.awaited_events().on_engine(EngineEventName::Missing);
    for trigger in
        triggers.filter(|trigger| ingress.peers.shards.has(&trigger.mount.deployment.automation.id))
    {
        let key = trigger.mount.key();
        if let Some(event) = &trigger.filter.event {
            wanted.insert((key, Subject::Event(event.clone())), trigger.clone());
            continue;
        }
        let own = &trigger.mount.deployment.automation.id;
        let watched = catalog.automations().map(|deployment| &deployment.automation);
        let watched = watched.filter(|automation| automation.enabled && automation.id != *own);
        for automation in watched.filter(|automation| trigger.filter.wants_automation(Some(automation))) {
            wanted.insert((key.clone(), Subject::Automation(automation.id.clone())), trigger.clone());
        }
    }
    wanted
}

impl Ingress {
    /// Looks if a subject is silent for too long, and starts an execution then. Returns when to look next.
    async fn look(
        self: &Arc<Self>,
        catalog: &Catalog,
        trigger: &EngineTrigger,
        (key, subject): &(TriggerKey, Subject),
        since: Option<Timestamp>,
    ) -> Result<Entry, Error> {
        let now = self.context.clock.now();
        let within = SignedDuration::try_from(trigger.filter.within).unwrap_or(SignedDuration::MAX);
        let since = match since {
            Some(since) => since,
            None => self.under_watch_since(key, subject, now).await?,
        };
        let last = match subject {
            Subject::Automation(id) => self.last_success(id).await?,
            Subject::Event(name) => self.admission.kept_event_after(name, before(now, within)).await?,
        };
        let last = last.map_or(since, |last| last.max(since));
        let deadline = after(last, within);
        if deadline > now {
            let next = deadline.min(after(now, LOOK_INTERVAL));
            if next < deadline && last > since {
                self.note_success(key, subject, last).await?;
                return Ok(Entry { next, since: Some(last), within: trigger.filter.within });
            }
            return Ok(Entry { next, since: Some(since), within: trigger.filter.within });
        }
        self.tell_silence(catalog, trigger, subject, last).await?;
        // Whatever comes from now on has its deadline after that.
        let next = after(now, within.min(LOOK_INTERVAL));
        Ok(Entry { next, since: Some(since), within: trigger.filter.within })
    }

    /// Returns since when a subject is under watch: from now on, if it was not yet.
    async fn under_watch_since(
        &self,
        trigger: &TriggerKey,
        subject: &Subject,
        now: Timestamp,
    ) -> Result<Timestamp, store::Error> {
        let (store, scope, key) = (&self.context.store, scope(trigger), subject.key());
        let read = async || -> Result<Option<Timestamp>, store::Error> {
            let entry = store.read_state(&scope, &key).await?;
            let since = entry.and_then(|entry| entry.value.get("since"));
            Ok(since.and_then(|since| since.to_text().parse().ok()))
        };
        if let Some(since) = read().await? {
            return Ok(since);
        }
        let value = Value::from(Map::from_iter([("since", now.to_string())]));
        let write = StateWrite {
            scope: scope.clone(),
            key: key.clone(),
            expected: None,
            value: Some(value),
            expires_at: None,
        };
        match store.write_state(vec![write]).await {
            // Another node was faster.
            Err(store::Error::StateChanged { .. }) => Ok(read().await?.unwrap_or(now)),
            written => written.map(|()| now),
        }
    }

    /// Writes when a subject last had a success, from where its silence counts when the execution is deleted.
    async fn note_success(
        &self,
        trigger: &TriggerKey,
        subject: &Subject,
        at: Timestamp,
    ) -> Result<(), store::Error> {
        let (store, scope, key) = (&self.context.store, scope(trigger), subject.key());
        let Some(entry) = store.read_state(&scope, &key).await? else { return Ok(()) };
        let value = Some(Value::from(Map::from_iter([("since", at.to_string())])));
        let write = StateWrite { scope, key, expected: Some(entry.version), value, expires_at: None };
        match store.write_state(vec![write]).await {
            // Another node was faster.
            Err(store::Error::StateChanged { .. }) => Ok(()),
            written => written,
        }
    }

    /// Returns the end of the last successful execution of an automation.
    async fn last_success(&self, automation: &AutomationId) -> Result<Option<Timestamp>, store::Error> {
        let filter = ExecutionFilter {
            automation: Some(automation.clone()),
            status: vec![Status::Succeeded],
            test: Some(false),
            ..ExecutionFilter::default()
        };
        let page = Page { before: None, limit: SUCCESSES };
        let rows = self.context.store.executions(&filter, page).await?;
        Ok(rows.into_iter().filter_map(|row| row.finished_at).max())
    }

    /// Starts the execution for a silence.
    async fn tell_silence(
        self: &Arc<Self>,
        catalog: &Catalog,
        trigger: &EngineTrigger,
        subject: &Subject,
        last: Timestamp,
    ) -> Result<(), Error> {
        let within = format_duration(trigger.filter.within);
        let id = format!("missing:{}:{last}", subject.key());
        let (automation, occurrence) = match subject {
            Subject::Automation(automation) => {
                let Some(deployment) = catalog.get(automation) else { return Ok(()) };
                let of: &Automation = &deployment.automation;
                let occurrence = Occurrence {
                    kind: "automation",
                    title: format!("{} has not succeeded for {within}", of.name),
                    page: format!("/automations/{automation}"),
                    ..Occurrence::default()
                };
                (Some(of), occurrence)
            }
            Subject::Event(name) => {
                let occurrence = Occurrence {
                    kind: "event",
                    title: format!("no event `{name}` has come for {within}"),
                    event_name: Some(name.clone()),
                    page: format!("/automations/{}", trigger.mount.deployment.automation.id),
                    ..Occurrence::default()
                };
                (None, occurrence)
            }
        };
        let now = self.context.clock.now();
        let occurrence = Occurrence { id, since: Some(last), ..occurrence };
        let event = EmittedEvent {
            event: trigger.event.as_str().to_owned(),
            id: occurrence.id.clone(),
            sent_at: now,
            by: None,
            data: self.context.occurrence_data(automation, occurrence, now),
        };
        let key = Some(crate::outbox::event_key(&trigger.mount.key().trigger, &event.id));
        let origin = event.origin();
        let payload = Payload::Emitted(event);
        let Some((by, fails)) = self.prepare_start(&trigger.mount, &payload).await? else { return Ok(()) };
        let options = AcceptOptions { key, fails, ..AcceptOptions::default() };
        let start = Start { payload, origin, by };
        self.admission.accept(&trigger.mount.deployment, start, options).await.map(drop)
    }
}

/// The scope of the values of a trigger in the state. No scope of an automation has a colon in it.
fn scope(trigger: &TriggerKey) -> String {
    format!("watch:{trigger}")
}

fn after(at: Timestamp, time: SignedDuration) -> Timestamp {
    at.checked_add(time).unwrap_or(Timestamp::MAX)
}

fn before(at: Timestamp, time: SignedDuration) -> Timestamp {
    at.checked_sub(time).unwrap_or(Timestamp::UNIX_EPOCH)
}
