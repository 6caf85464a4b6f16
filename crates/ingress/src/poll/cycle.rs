//! Runs one poll cycle: requests the items within a deadline, removes those already seen, and commits the rest with the
//! executions that it starts.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::action::ActionError;
use model::automation::{Delivery, PollStart, Trigger, TriggerKey};
use model::execution::Origin;
use model::payload::Payload;
use store::{PollEntry, PollState, PollWrite};
use value::Value;

use super::PollRequest;
use super::dedup::{NewItems, dedup_items};
use super::request::request_items;
use crate::ingress::Ingress;
use catalog::{Catalog, Mount, PollSource};
use runtime::Error;
use runtime::Start;

/// Time limit of one poll.
const DEADLINE: Duration = Duration::from_secs(60);
/// Maximum delay after failures, unless the poll's own interval is longer.
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(60 * 60);
/// Delay before the next poll if new items are left.
const NEXT_BATCH_DELAY: Duration = Duration::from_secs(1);

impl Ingress {
    /// Polls for a trigger now. Returns `None` if its poll is no longer in force, or the daemon stops.
    pub(super) async fn poll(self: &Arc<Self>, id: &TriggerKey) -> Option<PollEntry> {
        let _alone = self.polls.locks.lock(&id.to_string()).await;
        let _hold = self.peers.shards.hold(&id.automation)?;
        let catalog = self.context.catalog.load_full();
        let mount = catalog.trigger(id)?;
        let poll_state = self.polls.poll_state(id)?;
        // A separate task turns a panic into a failed poll.
        let cycle = PollCycle {
            ingress: self.clone(),
            catalog,
            mount: mount.clone(),
            poll_state: poll_state.clone(),
        };
        let result = match self.context.tracker.spawn(cycle.run()).await {
            Ok(result) => result,
            Err(_) => Err(Failure::Poll("the poll was aborted".to_owned())),
        };
        let metrics = &self.context.metrics;
        match result {
            Ok(entry) => {
                if let Some(entry) = &entry {
                    metrics.polls_succeeded.increment();
                    metrics.poll_items.add(entry.found);
                }
                entry
            }
            Err(_) if !self.context.accepting() => None,
            Err(Failure::Store) => {
                // Nothing was recorded: the same items are found again.
                self.polls.postpone(id, self.context.clock.monotonic_now());
                None
            }
            Err(Failure::Poll(error)) => {
                metrics.polls_failed.increment();
                self.poll_failed(&mount, poll_state, error).await
            }
            Err(Failure::Moved { cursor, reason }) => {
                metrics.polls_failed.increment();
                self.poll_failed(&mount, PollState { cursor, ..poll_state }, reason).await
            }
        }
    }

    /// Records a failed poll, with the position in `poll_state`.
    async fn poll_failed(
        &self,
        mount: &Mount,
        mut poll_state: PollState,
        error: String,
    ) -> Option<PollEntry> {
        let error = self.context.settings.redactor.redact_message(&error).into_owned();
        let (trigger, now) = (mount.key(), self.context.clock.now());
        let every = self.polls.state().entries.get(&trigger).map(|entry| entry.every)?;
        poll_state.failures = poll_state.failures.saturating_add(1);
        poll_state.polls += 1;
        // Without random bytes only the jitter is lost.
        let jitter = store::random().unwrap_or_default();
        poll_state.next_at = after(now, back_off(every, poll_state.failures, jitter));
        tracing::warn!(%trigger, error, failures = poll_state.failures, next = %poll_state.next_at, "a poll failed");
        poll_state.error = Some(error.clone());
        let entry = PollEntry { at: now, items: 0, found: 0, error: Some(error) };
        let write = PollWrite {
            trigger: trigger.clone(),
            state: poll_state.clone(),
            forgets_keys: false,
            keys: Vec::new(),
            entry: Some(entry.clone()),
        };
        let counts = (poll_state.polls, poll_state.failures);
        let emits = match &poll_state.error {
            Some(error) => self.poll_failure(mount, error, counts, poll_state.polled_at),
            None => Vec::new(),
        };
        let accept = store::Accept { poll: Some(write), emits, ..store::Accept::default() };
        match self.context.store.accept(&accept).await {
            Ok(_) => self.rows_committed(&accept.emits),
            Err(error) => self.context.lost(&error),
        }
        self.polls.update(&trigger, poll_state, self.context.clock.wall_offset());
        Some(entry)
    }
}

/// The reason why a cycle has no result.
enum Failure {
    /// The application, the request or its answer.
    Poll(String),
    /// The store did not take the result.
    Store,
    /// The source could not go on from its position, and does so from this one.
    Moved { cursor: Value, reason: String },
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Poll(reason)
    }
}

/// One poll cycle. Owns its inputs so that it can run as a task.
struct PollCycle {
    ingress: Arc<Ingress>,
    catalog: Arc<Catalog>,
    mount: Mount,
    poll_state: PollState,
}

impl PollCycle {
    async fn run(self) -> Result<Option<PollEntry>, Failure> {
        let Self { ingress, catalog, mount, poll_state } = self;
        let (automation, trigger) = (&mount.deployment.automation, mount.key());
        let Some(request) = PollRequest::of(mount.on(), catalog.registry()) else {
            return Ok(None);
        };
        let source = PollSource::of(mount.on(), catalog.registry());
        if source.is_none_or(|source| source.text() != poll_state.source) {
            // The request has changed; [`Polls::adopt`] updates the progress.
            return Ok(None);
        }
        let answer = tokio::select! {
            biased;
            answer = request_items(&ingress, &catalog, (automation, &trigger), &request, &poll_state) => answer?,
            () = ingress.context.clock.sleep_for(DEADLINE) => {
                let most = text::units::format_duration(DEADLINE);
                return Err(Failure::Poll(format!("there was no answer within {most}")));
            }
            () = ingress.context.closing.cancelled() => return Err(Failure::Poll("the daemon is stopping".to_owned())),
        };
        let mut answer = answer.mask_secrets(&ingress.context.settings.redactor)?;
        if let Some(reason) = answer.problem.take() {
            return Err(Failure::Moved { cursor: answer.cursor, reason });
        }
        let keys: Vec<String> = answer.items.iter().map(|item| item.key.clone()).collect();
        let seen = ingress.context.store.known_poll_keys(&trigger, &keys).await.map_err(|error| {
            ingress.context.lost(&error);
            Failure::Store
        })?;
        let is_silent = poll_state.polled_at.is_none() && request.start() == PollStart::New;
        let new_items = dedup_items(answer, &seen, is_silent, &poll_state.cursor);
        let now = ingress.context.clock.now();
        let entry = PollEntry {
            at: now,
            items: u64::try_from(keys.len()).unwrap_or(u64::MAX),
            found: u64::try_from(new_items.fresh.len()).unwrap_or(u64::MAX),
            error: None,
        };
        let next = after(now, if new_items.more { NEXT_BATCH_DELAY } else { request.every() });
        let poll_state = PollState {
            cursor: new_items.cursor.clone(),
            polled_at: Some(now),
            found_at: if entry.found > 0 { Some(now) } else { poll_state.found_at },
            next_at: next,
            failures: 0,
            error: None,
            polls: poll_state.polls + 1,
            found: poll_state.found + entry.found,
            source: poll_state.source,
        };
        let starts = ingress.build_starts(&mount, &request, &new_items, now).await;
        let starts = starts.map_err(|error| Failure::Poll(error.to_string()))?;
        let write = PollWrite {
            trigger: trigger.clone(),
            state: poll_state.clone(),
            forgets_keys: false,
            keys: new_items.keys,
            entry: Some(entry.clone()),
        };
        let accepted = ingress.admission.accept_polled(&mount.deployment, starts, write).await;
        accepted.map_err(|error| match error {
            // Another attempt with the same records would be refused as well.
            Error::Store(error @ (store::Error::Invalid { .. } | store::Error::TooLarge { .. })) => {
                Failure::Poll(error.to_string())
            }
            Error::Store(_) => Failure::Store,
            error => Failure::Poll(error.to_string()),
        })?;
        ingress.polls.update(&trigger, poll_state, ingress.context.clock.wall_offset());
        Ok(Some(entry))
    }
}

impl Ingress {
    /// Builds the executions that a poll starts. An execution fails with the given error if the trigger's condition
    /// cannot be evaluated.
    ///
    /// # Errors
    /// A provider of secrets fails, so that the same items are to be polled again.
    async fn build_starts(
        &self,
        mount: &Mount,
        request: &PollRequest<'_>,
        new_items: &NewItems,
        now: Timestamp,
    ) -> Result<Vec<(Start, Option<ActionError>)>, Error> {
        let data: Vec<Value> = match request.deliver() {
            _ if new_items.fresh.is_empty() => Vec::new(),
            Delivery::Batch => vec![Value::from(new_items.fresh.clone())],
            Delivery::Each => new_items.fresh.clone(),
        };
        let is_event = matches!(mount.on(), Trigger::Event(_));
        let origin = if is_event { Origin::Event } else { Origin::Poll };
        let mut starts = Vec::with_capacity(data.len());
        for data in data {
            let payload = Payload::Poll { data, polled_at: now };
            if let Some((by, fails)) = self.prepare_start(mount, &payload).await? {
                starts.push((Start { payload, origin: origin.clone(), by }, fails));
            }
        }
        Ok(starts)
    }
}

/// Delay after a failed poll: doubles with each failure. A random extra of up to a quarter spreads polls that failed
/// together.
fn back_off(every: Duration, failures: u32, chance: [u8; 1]) -> Duration {
    let doubled = every.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let pause = doubled.min(MAX_BACKOFF.max(every));
    pause.saturating_add(pause / 4 * u32::from(chance[0]) / 255)
}

fn after(now: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_polls_back_off_up_to_an_hour() {
        let minutes = |every: u64, failures, chance| {
            back_off(Duration::from_secs(every * 60), failures, [chance]).as_secs() / 60
        };
        assert_eq!([1, 2, 3, 4, 7, 100].map(|failures| minutes(1, failures, 0)), [1, 2, 4, 8, 60, 60]);
        assert_eq!(minutes(60 * 24, 5, 0), 60 * 24);
        assert_eq!(minutes(1, 4, 255), 10);
    }
}
