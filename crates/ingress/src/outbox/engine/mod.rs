//! The delivery of events of the engine. Each trigger has rows of its own; those with the same automation, kind, error and step start
//! one execution: the first at once, the others one a minute.
//!
//! A row stays in the outbox until the acceptance of the execution that stands for it deletes it, so that the counts are exact over
//! crashes. When the last execution of a group has started is read back from the list of executions.

mod merge;
mod progress;
mod streak;

use std::sync::Arc;
use std::time::Duration;

use catalog::EngineTrigger;
use jiff::SignedDuration;
use model::ExecutionId;
use model::automation::TriggerKey;
use model::engine_event::EngineEventName;
use model::execution::Origin;
use model::payload::{EmittedEvent, Payload};
use runtime::{EngineRow, Error, MonotonicTime, NewStart, Start};
use store::{Accept, ExecutionFilter, OutboxRow, Page};

use super::FORSAKEN;
use super::lane::Delivered;
use crate::ingress::Ingress;
use merge::{Group, Groups, group_id};
pub(crate) use progress::EngineDeliveries;
use progress::{PERIOD, Progress};

/// The maximum number of executions that all triggers on events of the engine start in [`PERIOD`].
pub(crate) const MAX_STARTS: usize = 600;
/// The number of rows of a page.
const PAGE: u32 = 1000;
/// The time between two looks at rows that wait, for each row, and the longest of them.
const PACE: Duration = Duration::from_micros(100);
const LONGEST_PACE: Duration = Duration::from_secs(1);

/// An execution to start, and the rows that it stands for.
struct Candidate {
    group: Group,
    data: value::Value,
    /// The id of its event.
    id: String,
    /// The failures in a row that it stands for.
    streak: Option<String>,
}

impl Ingress {
    /// Forgets the progress with the rows of a trigger, which another node delivers.
    pub(super) fn leave_engine_rows(&self, name: &str) {
        self.engine_deliveries.take(name);
    }

    /// Delivers the rows of a trigger on an event of the engine.
    pub(super) async fn deliver_engine(
        self: &Arc<Self>,
        name: &str,
        event: EngineEventName,
        key: &TriggerKey,
    ) -> Result<Delivered, Error> {
        let catalog = self.context.catalog();
        let triggers = catalog.awaited_events().on_engine(event);
        let Some(trigger) = triggers.into_iter().find(|trigger| trigger.mount.key() == *key) else {
            self.engine_deliveries.take(name);
            return self.delete_forsaken_rows(name).await;
        };
        let mut progress = self.engine_deliveries.take(name);
        let delivered = self.deliver_to_handler(name, trigger, &mut progress).await;
        self.engine_deliveries.put(name, progress);
        delivered
    }

    async fn deliver_to_handler(
        self: &Arc<Self>,
        name: &str,
        trigger: &EngineTrigger,
        progress: &mut Progress,
    ) -> Result<Delivered, Error> {
        let now = self.context.clock.monotonic_now();
        if let Some(at) = progress.look_at.filter(|at| *at > now) {
            return Ok(Delivered::Later(at));
        }
        self.read_back(trigger, progress).await?;
        progress.expire(now);
        let groups = self.read_groups(name, trigger).await?;
        let left = groups.left;
        self.delete_rows(groups.unreadable.clone()).await?;
        let mut waiting = Vec::new();
        let mut due = Vec::new();
        for group in groups.into_groups() {
            match progress.next.get(&group.id) {
                Some(at) => waiting.push((*at, group.rows.len())),
                None => due.extend(self.candidate(trigger, progress, group).await?),
            }
        }
        let most = self.most_starts();
        let (chosen, rest) = choose(due, most.saturating_sub(progress.started.len()));
        if !rest.is_empty() {
            let at = progress.started.first().copied().unwrap_or(now).after(PERIOD);
            waiting.extend(rest.iter().map(|candidate| (at, candidate.group.rows.len())));
        }
        self.start_handlers(trigger, progress, chosen).await?;
        if left > 0 {
            waiting.push((now.after(PERIOD), left));
        }
        let rows: usize = waiting.iter().map(|(_, rows)| rows).sum();
        let pace = PACE.saturating_mul(u32::try_from(rows).unwrap_or(u32::MAX)).min(LONGEST_PACE);
        progress.look_at = (rows > PAGE as usize).then(|| now.after(pace));
        match waiting.into_iter().map(|(at, _)| at).min() {
            Some(at) => Ok(Delivered::Later(at.max(progress.look_at.unwrap_or(at)))),
            None => Ok(Delivered::All),
        }
    }

    /// Returns the executions that a trigger may start in [`PERIOD`]: its share of the starts of all.
    fn most_starts(&self) -> usize {
        let catalog = self.context.catalog.load();
        let awaited = catalog.awaited_events();
        let triggers: usize =
            EngineEventName::ALL.into_iter().map(|event| awaited.on_engine(event).count()).sum();
        (MAX_STARTS / triggers.max(1)).max(1)
    }

    /// Reads the rows of a trigger.
    async fn read_groups(&self, name: &str, trigger: &EngineTrigger) -> Result<Groups, Error> {
        let mut groups = Groups::default();
        let mut after = None;
        loop {
            let page = self.context.store.outbox_page(name, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(groups) };
            after = Some(last.id);
            for row in page {
                groups.add(row, |body| streak::subject(trigger, body).unwrap_or_else(|| group_id(body)));
            }
            tokio::task::consume_budget().await;
        }
    }

    /// Reads when executions of the trigger started last, after a start of the process or a move of the shard.
    async fn read_back(&self, trigger: &EngineTrigger, progress: &mut Progress) -> Result<(), Error> {
        if std::mem::replace(&mut progress.is_read_back, true) {
            return Ok(());
        }
        let period = SignedDuration::try_from(PERIOD).unwrap_or_default();
        let since = self.context.clock.now().checked_sub(period).ok();
        let automation = Some(trigger.mount.deployment.automation.id.clone());
        let filter = ExecutionFilter { automation, since, ..ExecutionFilter::default() };
        let page = Page { before: None, limit: 1000 };
        let mut rows = self.context.store.executions(&filter, page).await?;
        rows.retain(|row| row.trigger == trigger.mount.declared().id);
        let offset = self.context.clock.wall_offset();
        for row in rows.into_iter().rev() {
            let Origin::Emitted { id, .. } = &row.origin else { continue };
            let at = MonotonicTime::from_wall(row.started_at, offset);
            progress.started.push(at);
            if let Some((group, _)) = id.split_once(GROUP_MARK) {
                progress.next.insert(group.to_owned(), at.after(PERIOD));
            }
        }
        Ok(())
    }

    /// Makes the execution that stands for a group; `None` if it starts none, and its rows are deleted.
    async fn candidate(
        &self,
        trigger: &EngineTrigger,
        progress: &mut Progress,
        group: Group,
    ) -> Result<Option<Candidate>, Error> {
        let Some(subject) = streak::subject(trigger, &group.first) else {
            // Nodes can tell of one occurrence: it is the last of the rows that tell of it.
            let id = format!("{}{GROUP_MARK}{}", group.id, group.last.id);
            return Ok(Some(Candidate { data: group.data(), id, streak: None, group }));
        };
        let streak = self.streak(trigger, &group).await?;
        let started = progress.streaks.get(&subject);
        let Some(streak) = streak.filter(|streak| started != Some(&streak.id)) else {
            self.delete_rows(group.rows).await?;
            return Ok(None);
        };
        let data = group.streak_data(streak.failures);
        Ok(Some(Candidate { data, id: streak.id.clone(), streak: Some(streak.id), group }))
    }

    /// Starts as many executions as the queue has room for, and deletes the rows that they stand for.
    ///
    /// # Errors
    /// The store failed, or the queue has no room for all of them.
    async fn start_handlers(
        self: &Arc<Self>,
        trigger: &EngineTrigger,
        progress: &mut Progress,
        mut candidates: Vec<Candidate>,
    ) -> Result<(), Error> {
        let room = self.admission.queue_room();
        let has_room = candidates.len() <= room;
        candidates.truncate(room);
        self.start_candidates(trigger, progress, candidates).await?;
        if !has_room {
            self.context.rejections.count(Some(&trigger.mount.deployment.automation.id), "busy");
            return Err(Error::busy());
        }
        Ok(())
    }

    async fn start_candidates(
        self: &Arc<Self>,
        trigger: &EngineTrigger,
        progress: &mut Progress,
        candidates: Vec<Candidate>,
    ) -> Result<(), Error> {
        if candidates.is_empty() {
            return Ok(());
        }
        let (mut starts, mut delivered) = (Vec::new(), Vec::new());
        for candidate in &candidates {
            delivered.extend(candidate.group.rows.iter().copied());
            starts.extend(self.handler_start(trigger, candidate).await?);
        }
        let count = delivered.len();
        let with = Accept { delivered, ..Accept::default() };
        if starts.is_empty() {
            self.context.store.accept(&with).await?;
        } else {
            self.admission.accept_batch(&trigger.mount.deployment, starts, with).await?;
        }
        self.context.outbox.deleted(count);
        // They were accepted later than the rows were read.
        let now = self.context.clock.monotonic_now();
        for Candidate { group, streak, .. } in candidates {
            progress.started.push(now);
            match streak {
                Some(streak) => drop(progress.streaks.insert(group.id, streak)),
                None => drop(progress.next.insert(group.id, now.after(PERIOD))),
            }
        }
        Ok(())
    }

    async fn handler_start(
        &self,
        trigger: &EngineTrigger,
        candidate: &Candidate,
    ) -> Result<Option<NewStart>, Error> {
        let EngineRow { sender, .. } = &candidate.group.first;
        let event = EmittedEvent {
            event: trigger.event.as_str().to_owned(),
            id: candidate.id.clone(),
            sent_at: candidate.group.at,
            by: None,
            data: candidate.data.clone(),
        };
        // It begins a chain of its own, by which its executions are known.
        let origin = Origin::Emitted {
            event: event.event.clone(),
            id: event.id.clone(),
            sender: *sender,
            step: None,
            test: false,
            trace: None,
        };
        let key = Some(super::start::key(&trigger.mount.key().trigger, &event.id));
        let payload = Payload::Emitted(event);
        let prepared = self.prepare_start(&trigger.mount, &payload).await?;
        Ok(prepared.map(|(by, fails)| {
            let start = Start { payload, origin, by };
            NewStart { start, fails, key, dedup: Vec::new() }
        }))
    }

    /// Deletes the rows of a trigger that is not in force, unless they were written a moment ago: its file may get another id, or its
    /// rows may have moved to a trigger that this node does not have yet.
    async fn delete_forsaken_rows(&self, name: &str) -> Result<Delivered, Error> {
        let (clock, mut after, mut has_recent) = (&self.context.clock, None, false);
        let now = clock.now();
        loop {
            let page = self.context.store.outbox_page(name, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            let (old, recent): (Vec<OutboxRow>, _) =
                page.into_iter().partition(|row| now.duration_since(row.at) >= FORSAKEN);
            has_recent |= !recent.is_empty();
            self.delete_rows(old.into_iter().map(|row| row.id).collect()).await?;
        }
        let again = Delivered::Later(clock.monotonic_now().after(PERIOD));
        Ok(if has_recent { again } else { Delivered::All })
    }

    async fn delete_rows(&self, delivered: Vec<ExecutionId>) -> Result<(), Error> {
        if delivered.is_empty() {
            return Ok(());
        }
        let count = delivered.len();
        self.context.store.accept(&Accept { delivered, ..Accept::default() }).await?;
        self.context.outbox.deleted(count);
        Ok(())
    }
}

/// Stands between the text of a group and the id of its last occurrence, in the id of an event.
const GROUP_MARK: char = '.';

/// Chooses the executions that may start now. If they are too many, the last one stands for all that do not fit; the second list
/// waits.
fn choose(mut due: Vec<Candidate>, room: usize) -> (Vec<Candidate>, Vec<Candidate>) {
    if due.len() <= room {
        return (due, Vec::new());
    }
    let Some(alone) = room.checked_sub(1) else { return (Vec::new(), due) };
    let rest = due.split_off(alone).into_iter().map(|candidate| candidate.group).collect();
    if let Some(group) = Group::join(rest) {
        // The failures that it stands for may start it again in the next period.
        let id = format!("rest:{}", group.last.id);
        due.push(Candidate { data: group.data(), id, streak: None, group });
    }
    (due, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::merge::tests::{groups, row};
    use super::*;

    fn candidates(number: u8) -> Vec<Candidate> {
        let rows = (0..number).map(|number| row(number, &format!("a{number}"), "x", 1)).collect();
        let candidate =
            |group: Group| Candidate { data: group.data(), id: group.id.clone(), streak: None, group };
        groups(rows).into_iter().map(candidate).collect()
    }

    #[test]
    fn no_more_start_than_there_is_room_and_the_last_stands_for_the_rest() {
        let chosen = |room| {
            let (chosen, rest) = choose(candidates(5), room);
            let counts: Vec<u64> = chosen.iter().map(|candidate| candidate.group.count).collect();
            (counts, rest.len())
        };
        assert_eq!(chosen(6), (vec![1; 5], 0));
        assert_eq!(chosen(5), (vec![1; 5], 0));
        assert_eq!(chosen(3), (vec![1, 1, 3], 0));
        assert_eq!(chosen(1), (vec![5], 0));
        assert_eq!(chosen(0), (vec![], 5));
    }
}
