//! The clock's part: one timer over all schedules in force. A tick's execution and its watermark commit together
//! under the key (automation, instant), so no instant fires twice, and none is forgotten over a restart.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use jiff::Timestamp;
use model::automation::{AutomationId, Overlap, ScheduleTrigger, Trigger};
use model::execution::Origin;
use model::payload::Payload;
use store::{Accept, Watermark};

use crate::catalog::{Catalog, Deployed};
use crate::engine::{Services, Start};
use crate::intake::Terms;
use crate::reload::Listener;

/// An instant that is dealt with no later than this after it was due is on time, whatever `misfire` says.
const ON_TIME: Duration = Duration::from_secs(30);
/// Ticks that are made durable at one time: they share commits.
const AT_ONCE: usize = 256;

/// Fires schedules until the engine stops.
pub(crate) async fn run(services: Arc<Services>) {
    let mut timetable = match Timetable::read(&services).await {
        Ok(timetable) => timetable,
        Err(error) => {
            tracing::error!(%error, "schedules cannot be armed: their watermarks cannot be read");
            return;
        }
    };
    let mut generation = services.generation.subscribe();
    loop {
        generation.mark_unchanged();
        // What is decided upon from here on is told by another generation.
        let decided = services.loader.take_decided(Listener::Schedules);
        timetable.adopt(&services, &services.catalog.load_full(), decided).await;
        loop {
            let next = timetable.next();
            tokio::select! {
                biased;
                () = services.closing.cancelled() => return,
                changed = generation.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    break;
                }
                () = until(&services, next) => timetable.fire(&services).await,
            }
        }
    }
}

async fn until(services: &Services, next: Option<Timestamp>) {
    match next {
        Some(at) => services.clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// When each schedule in force fires next.
struct Timetable {
    entries: HashMap<AutomationId, Entry>,
    order: BTreeSet<(Timestamp, AutomationId)>,
    /// What the store knows of schedules that are not in force yet.
    stored: HashMap<AutomationId, Watermark>,
}

struct Entry {
    deployed: Arc<Deployed>,
    fingerprint: String,
    /// The instant up to which the schedule has been dealt with.
    done: Timestamp,
    next: Option<Timestamp>,
}

impl Timetable {
    async fn read(services: &Services) -> Result<Self, store::Error> {
        let stored = services.store.watermarks().await?.into_iter();
        let stored = stored.map(|watermark| (watermark.automation.clone(), watermark)).collect();
        Ok(Self { entries: HashMap::new(), order: BTreeSet::new(), stored })
    }

    fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes over the schedules of these Automations from a snapshot. One that says the same as before keeps its timeline.
    async fn adopt(&mut self, services: &Arc<Services>, catalog: &Catalog, ids: BTreeSet<AutomationId>) {
        let now = services.clock.now();
        let mut fresh = Vec::new();
        for id in ids {
            let before = self.entries.remove(&id);
            if let Some(at) = before.as_ref().and_then(|entry| entry.next) {
                self.order.remove(&(at, id.clone()));
            }
            let Some(deployed) = catalog.get(&id).filter(|deployed| deployed.automation.enabled) else {
                continue;
            };
            let Some(schedule) = &deployed.schedule else { continue };
            let fingerprint = schedule.fingerprint();
            let before = before.filter(|entry| entry.fingerprint == fingerprint);
            let stored = self.stored.remove(&id).filter(|watermark| watermark.schedule == fingerprint);
            let done = match (before, stored) {
                (Some(entry), _) => entry.done,
                (None, Some(watermark)) => watermark.instant,
                (None, None) => {
                    fresh.push(Watermark {
                        automation: id.clone(),
                        schedule: fingerprint.clone(),
                        instant: now,
                    });
                    now
                }
            };
            let next = schedule.next_after(done);
            self.order.extend(next.map(|at| (at, id.clone())));
            self.entries.insert(id, Entry { deployed: deployed.clone(), fingerprint, done, next });
        }
        // Where a timeline begins must survive a restart, or what is missed before its first instant is lost.
        stream::iter(fresh)
            .for_each_concurrent(AT_ONCE, |watermark| async {
                let accept = Accept { watermark: Some(watermark), ..Accept::default() };
                if let Err(error) = services.store.accept(accept).await {
                    services.lost(&error);
                }
            })
            .await;
    }

    /// Fires everything that is due.
    async fn fire(&mut self, services: &Arc<Services>) {
        let now = services.clock.now();
        let mut ticks = Vec::new();
        while let Some((at, id)) = self.order.first().cloned() {
            if at > now {
                break;
            }
            self.order.pop_first();
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            ticks.extend(entry.due(at, now));
            if let Some(next) = entry.next {
                self.order.insert((next, id));
            }
        }
        stream::iter(ticks).for_each_concurrent(AT_ONCE, |tick| tick.fire(services)).await;
    }
}

/// One schedule whose time has come.
struct Tick {
    deployed: Arc<Deployed>,
    fingerprint: String,
    timezone: String,
    overlap: Overlap,
    /// The instants to run, oldest first.
    instants: Vec<Timestamp>,
    /// The instant up to which it is dealt with then.
    done: Timestamp,
}

impl Entry {
    /// What has to run now, and when it is due again.
    fn due(&mut self, at: Timestamp, now: Timestamp) -> Option<Tick> {
        let schedule = self.deployed.schedule.clone()?;
        let Trigger::Schedule(ScheduleTrigger { timezone, misfire, overlap, .. }) =
            &self.deployed.automation.trigger
        else {
            return None;
        };
        let after = schedule.next_after(at);
        let late = Duration::try_from(at.duration_until(now)).unwrap_or_default();
        let alone = after.is_none_or(|after| after > now);
        let (instants, done) = if alone && late <= ON_TIME {
            (vec![at], at)
        } else {
            let missed = schedule.missed(self.done, now, *misfire);
            let automation = &self.deployed.automation.id;
            tracing::warn!(%automation, runs = missed.due.len(), passed_over = missed.dropped, "instants of its schedule were missed");
            (missed.due, now)
        };
        self.done = done;
        self.next = schedule.next_after(done);
        Some(Tick {
            deployed: self.deployed.clone(),
            fingerprint: self.fingerprint.clone(),
            timezone: timezone.name.clone(),
            overlap: *overlap,
            instants,
            done,
        })
    }
}

impl Tick {
    async fn fire(self, services: &Arc<Services>) {
        let automation = &self.deployed.automation;
        let watermark = |instant| Watermark {
            automation: automation.id.clone(),
            schedule: self.fingerprint.clone(),
            instant,
        };
        for instant in &self.instants {
            let busy = self.overlap == Overlap::Skip && services.intake.schedule_is_busy(&automation.id);
            if busy {
                services.intake.count_refused("overlap");
                tracing::info!(automation = %automation.id, %instant, "passed over: the last execution still runs");
                continue;
            }
            let payload = Payload::Schedule {
                scheduled_at: *instant,
                started_at: services.clock.now(),
                timezone: self.timezone.clone(),
            };
            if !services.scheduled_condition_holds(automation, &payload) {
                services.intake.count_refused("filtered");
                continue;
            }
            let start = Start { payload, origin: Origin::Schedule { instant: *instant } };
            let key = Some(format!("tick:{instant}"));
            let terms = Terms { key, watermark: Some(watermark(*instant)), ..Terms::default() };
            if let Err(error) = services.accept(&self.deployed, start, terms).await {
                tracing::error!(automation = %automation.id, %instant, %error, "an instant of its schedule could not start");
            }
        }
        if self.instants.last() != Some(&self.done) || self.overlap == Overlap::Skip {
            let accept = Accept { watermark: Some(watermark(self.done)), ..Accept::default() };
            if services.accepting()
                && let Err(error) = services.store.accept(accept).await
            {
                services.lost(&error);
            }
        }
    }
}
