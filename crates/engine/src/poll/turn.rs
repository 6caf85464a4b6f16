//! One poll: asked within its deadline, sifted, and made durable with the executions that it starts.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::action::ActionError;
use model::automation::{AutomationId, Deliver, PollStart, Trigger};
use model::execution::Origin;
use model::payload::Payload;
use model::value::Value;
use store::{PollEntry, PollState, PollWrite};

use super::Question;
use super::ask::ask;
use super::sift::{Sifted, sift};
use crate::catalog::{Catalog, Deployed};
use crate::chance::random;
use crate::services::Services;
use crate::told::Start;

/// The longest that a poll may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// The longest distance between two polls that fail, unless they are further apart anyway.
pub(super) const LONGEST_BACKOFF: Duration = Duration::from_secs(60 * 60);
/// When the next poll is made where one has left something.
const AT_ONCE: Duration = Duration::from_secs(1);

impl Services {
    /// Polls for an Automation now. Gives what came of it; nothing if it does not poll any more, or the daemon stops.
    pub(super) async fn poll(self: &Arc<Self>, id: &AutomationId) -> Option<PollEntry> {
        let _alone = self.polls.locks.lock(id.as_str()).await;
        let catalog = self.catalog.load_full();
        let deployed = catalog.get(id)?.clone();
        let standing = self.polls.standing(id)?;
        // In a task of its own, so that one that breaks off is only one that failed.
        let turn =
            Turn { services: self.clone(), catalog, deployed: deployed.clone(), standing: standing.clone() };
        let result = match self.tracker.spawn(turn.take()).await {
            Ok(result) => result,
            Err(_) => Err("the poll broke off".to_owned()),
        };
        match result {
            Ok(entry) => entry,
            Err(_) if !self.accepting() => None,
            Err(error) => self.poll_failed(&deployed, standing, error).await,
        }
    }

    /// Takes note of a poll that failed. Where it stood it stands.
    async fn poll_failed(
        &self,
        deployed: &Deployed,
        mut standing: PollState,
        error: String,
    ) -> Option<PollEntry> {
        let error = self.settings.redactor.message(&error).into_owned();
        let (automation, now) = (&deployed.automation.id, self.clock.now());
        let every = self.polls.state().entries.get(automation).map(|entry| entry.every)?;
        standing.failures = standing.failures.saturating_add(1);
        standing.polls += 1;
        standing.next_at = after(now, back_off(every, standing.failures, random()));
        tracing::warn!(%automation, error, failures = standing.failures, next = %standing.next_at, "a poll failed");
        standing.error = Some(error.clone());
        let entry = PollEntry { at: now, items: 0, found: 0, error: Some(error) };
        let write = PollWrite {
            automation: automation.clone(),
            state: standing.clone(),
            forgets_keys: false,
            keys: Vec::new(),
            entry: Some(entry.clone()),
        };
        let accept = store::Accept { poll: Some(write), ..store::Accept::default() };
        if let Err(error) = self.store.accept(&accept).await {
            self.lost(&error);
        }
        self.polls.put(automation, standing, self.clock.ahead());
        Some(entry)
    }
}

/// A poll under way, which owns what it needs.
struct Turn {
    services: Arc<Services>,
    catalog: Arc<Catalog>,
    deployed: Arc<Deployed>,
    standing: PollState,
}

impl Turn {
    async fn take(self) -> Result<Option<PollEntry>, String> {
        let Self { services, catalog, deployed, standing } = self;
        let automation = &deployed.automation;
        let Some(question) = Question::of(&deployed, catalog.registry()) else { return Ok(None) };
        if question.source() != standing.source {
            // It asks something else by now, and what it stands by follows at once.
            return Ok(None);
        }
        let answer = tokio::select! {
            biased;
            answer = ask(&services, &catalog, automation, &question, &standing) => answer?,
            () = services.clock.sleep_for(DEADLINE) => {
                return Err(format!("there was no answer within {}", model::units::format_duration(DEADLINE)));
            }
            () = services.closing.cancelled() => return Err("the daemon stops".to_owned()),
        };
        let answer = answer.hidden(&services.settings.redactor)?;
        let keys: Vec<String> = answer.items.iter().map(|item| item.key.clone()).collect();
        let seen =
            services.store.known_poll_keys(&automation.id, &keys).await.map_err(|error| error.to_string())?;
        let silent = standing.polled_at.is_none() && question.start() == PollStart::New;
        let sifted = sift(answer, &seen, silent, &standing.cursor);
        let now = services.clock.now();
        let entry = PollEntry {
            at: now,
            items: u64::try_from(keys.len()).unwrap_or(u64::MAX),
            found: u64::try_from(sifted.fresh.len()).unwrap_or(u64::MAX),
            error: None,
        };
        let next = after(now, if sifted.more { AT_ONCE } else { question.every() });
        let standing = PollState {
            cursor: sifted.cursor.clone(),
            polled_at: Some(now),
            found_at: if entry.found > 0 { Some(now) } else { standing.found_at },
            next_at: next,
            failures: 0,
            error: None,
            polls: standing.polls + 1,
            found: standing.found + entry.found,
            source: standing.source,
        };
        let starts = services.starts(&deployed, &question, &sifted, now).await;
        let write = PollWrite {
            automation: automation.id.clone(),
            state: standing.clone(),
            forgets_keys: false,
            keys: sifted.keys,
            entry: Some(entry.clone()),
        };
        services.accept_found(&deployed, starts, write).await.map_err(|error| error.to_string())?;
        services.polls.put(&automation.id, standing, services.clock.ahead());
        Ok(Some(entry))
    }
}

impl Services {
    /// The executions that a poll starts, each with the error that it begins with where the trigger's condition cannot be
    /// evaluated.
    async fn starts(
        &self,
        deployed: &Deployed,
        question: &Question<'_>,
        sifted: &Sifted,
        now: Timestamp,
    ) -> Vec<(Start, Option<ActionError>)> {
        let data: Vec<Value> = match question.deliver() {
            _ if sifted.fresh.is_empty() => Vec::new(),
            Deliver::Batch => vec![Value::from(sifted.fresh.clone())],
            Deliver::Each => sifted.fresh.clone(),
        };
        let automation = &deployed.automation;
        let is_event = matches!(automation.trigger, Trigger::Event(_));
        let origin = if is_event { Origin::Event } else { Origin::Poll };
        let mut starts = Vec::with_capacity(data.len());
        for data in data {
            let payload = Payload::Poll { data, polled_at: now };
            if let Some(fails) = self.condition_on(automation, &payload).await.start() {
                starts.push((Start { payload, origin: origin.clone() }, fails));
            }
        }
        starts
    }
}

/// How long after a poll that failed the next one is made: twice as long each time, with up to a quarter by chance, so that
/// those that failed together do not come back together.
fn back_off(every: Duration, failures: u32, chance: [u8; 1]) -> Duration {
    let doubled = every.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let pause = doubled.min(LONGEST_BACKOFF.max(every));
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
    fn polls_that_fail_come_further_and_further_apart_up_to_an_hour() {
        let minutes = |every: u64, failures, chance| {
            back_off(Duration::from_secs(every * 60), failures, [chance]).as_secs() / 60
        };
        assert_eq!([1, 2, 3, 4, 7, 100].map(|failures| minutes(1, failures, 0)), [1, 2, 4, 8, 60, 60]);
        assert_eq!(minutes(60 * 24, 5, 0), 60 * 24);
        assert_eq!(minutes(1, 4, 255), 10);
    }
}
