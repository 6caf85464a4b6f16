//! Deletes old data: periodically by the retention rules, and the oldest executions at once when the store is nearly
//! full.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::AutomationId;
use model::automation::Retention;
use store::{Capacity, OutcomeFilter, PruneFilter, PruneRule, Store};

use runtime::Runtime;

/// Interval of the periodic deletion, and maximum number of executions per batch.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);
const PRUNE_BATCH: u32 = 1000;
/// Batch size when space is needed; the free space is checked after each batch.
const ROOM_BATCH: u32 = 100;
/// The lock of the node that deletes.
const LOCK: &str = "retention";
/// Retention of the idempotency keys of deleted executions. Longer than any sender retries; the watermarks of schedules
/// have passed their instants long before.
const KEY_RETENTION: Duration = Duration::from_secs(30 * 86_400);
/// Retention of expired values: a writer that read the version of one shortly before must still find it.
const EXPIRED_RETENTION: Duration = Duration::from_secs(3600);

/// Deletes old data until the engine stops.
pub(crate) async fn run(runtime: Arc<Runtime>) {
    let mut due = runtime.clock.monotonic_now();
    let mut is_full = false;
    loop {
        if runtime.clock.monotonic_now() >= due {
            // One node at a time: what it deletes is gone for all.
            match runtime.store.try_lock(LOCK).await {
                Ok(true) => {
                    apply_rules(&runtime).await;
                    runtime.store.unlock(LOCK);
                }
                Ok(false) => {}
                Err(error) => runtime.lost(&error),
            }
            due = runtime.clock.monotonic_now().after(PRUNE_EVERY);
        }
        is_full = !make_room(&runtime, is_full).await;
        tokio::select! {
            biased;
            () = runtime.closing.cancelled() => return,
            () = runtime.room_wanted.notified() => {}
            () = runtime.clock.sleep_until_monotonic(due) => {}
        }
    }
}

/// Kinds of data that are deleted in batches.
#[derive(Clone, Debug)]
enum Old {
    Executions(PruneFilter),
    /// Idempotency keys used before this time.
    Keys(Timestamp),
    State(Timestamp),
    Sendings(Timestamp),
}

impl Old {
    /// Deletes one batch and returns its size.
    async fn batch(&self, store: &dyn Store) -> Result<u64, store::Error> {
        match self {
            Self::Executions(prune) => store.prune(prune.clone(), PRUNE_BATCH).await,
            Self::Keys(before) => store.prune_keys(*before, PRUNE_BATCH).await,
            Self::State(before) => store.prune_state(*before, PRUNE_BATCH).await,
            Self::Sendings(before) => store.prune_dedup(*before, PRUNE_BATCH).await,
        }
    }

    /// Deletes batches until nothing is left or the engine stops. Returns the total.
    async fn all(&self, runtime: &Runtime) -> Result<u64, store::Error> {
        let mut all = 0;
        loop {
            let count = self.batch(&*runtime.store).await?;
            all += count;
            if count < u64::from(PRUNE_BATCH) || runtime.closing.is_cancelled() {
                return Ok(all);
            }
        }
    }
}

/// Applies all retention rules and deletes leftovers of crashes.
async fn apply_rules(runtime: &Runtime) {
    let (mut deleted, now) = (0, runtime.clock.now());
    for prune in rules(runtime) {
        match Old::Executions(prune).all(runtime).await {
            Ok(count) => deleted += count,
            Err(error) => return runtime.lost(&error),
        }
    }
    if deleted > 0 {
        runtime.forget_stored_definitions();
        tracing::info!(executions = deleted, "cleared away executions that are kept no longer");
    }
    let ago = |age| now.checked_sub(age).unwrap_or(Timestamp::MIN);
    for old in [Old::Keys(ago(KEY_RETENTION)), Old::State(ago(EXPIRED_RETENTION)), Old::Sendings(now)] {
        if let Err(error) = old.all(runtime).await {
            return runtime.lost(&error);
        }
    }
    match runtime.store.collect_garbage().await {
        Ok(0) => {}
        Ok(files) => tracing::info!(files, "removed files that a crash had left beside the store"),
        Err(error) => runtime.lost(&error),
    }
}

/// Returns the deletions that are due: by the rules of the Automations in force, and by those of the daemon for all
/// others.
fn rules(runtime: &Runtime) -> Vec<PruneFilter> {
    let (catalog, now) = (runtime.catalog.load_full(), runtime.clock.now());
    let daemon = runtime.settings.retention;
    let own: Vec<(AutomationId, Retention)> = catalog
        .automations()
        .filter_map(|deployment| Some((deployment.automation.id.clone(), deployment.automation.retention?)))
        .collect();
    let except: Vec<AutomationId> = own.iter().map(|(id, _)| id.clone()).collect();
    let mut prunes = Vec::new();
    for (id, rule) in own {
        let rule = rule.with_defaults(daemon.unwrap_or_default());
        prunes.extend(
            prunes_of(rule, now)
                .into_iter()
                .map(|prune| PruneFilter { automation: Some(id.clone()), ..prune }),
        );
    }
    if let Some(rule) = daemon {
        prunes.extend(
            prunes_of(rule, now).into_iter().map(|prune| PruneFilter { except: except.clone(), ..prune }),
        );
    }
    prunes
}

/// Converts a rule to deletions at this time.
fn prunes_of(rule: Retention, now: Timestamp) -> Vec<PruneFilter> {
    let ended_before = |days: Option<u32>| {
        let age = Duration::from_secs(u64::from(days?) * 86_400);
        Some(PruneRule::EndedBefore(now.checked_sub(age).ok()?))
    };
    let count = rule.count.map(PruneRule::AllButNewest);
    let of =
        |outcome, rule: Option<PruneRule>| rule.map(|rule| PruneFilter { outcome, ..PruneFilter::new(rule) });
    let keep_failed = rule.keep_failed == Some(true);
    let failed = ended_before(rule.failed_days.or(rule.days)).filter(|_| !keep_failed);
    let prunes = [
        of(OutcomeFilter::Succeeded, ended_before(rule.days)),
        of(OutcomeFilter::Unsuccessful, failed),
        of(OutcomeFilter::Succeeded, count),
        of(OutcomeFilter::Unsuccessful, count.filter(|_| !keep_failed)),
    ];
    prunes.into_iter().flatten().collect()
}

/// Deletes the oldest ended executions regardless of the rules until the store has enough room. Returns true if it has
/// room. A full store is logged unless `was_full`, so that the message appears once.
async fn make_room(runtime: &Runtime, was_full: bool) -> bool {
    let mut deleted = 0;
    while runtime.store.capacity() != Capacity::Ample && !runtime.closing.is_cancelled() {
        match runtime.store.prune(PruneFilter::new(PruneRule::Oldest), ROOM_BATCH).await {
            Ok(0) => {
                if runtime.store.capacity() == Capacity::Exhausted && !was_full {
                    tracing::warn!(
                        "the store is full and nothing in it has ended; new executions are refused until some have, \
                         or `limits.storeSize` is raised"
                    );
                }
                break;
            }
            Ok(count) => deleted += count,
            Err(error) => {
                runtime.lost(&error);
                break;
            }
        }
    }
    if deleted > 0 {
        runtime.forget_stored_definitions();
        tracing::warn!(
            executions = deleted,
            "deleted the oldest executions, since the store's size runs out"
        );
    }
    runtime.store.capacity() != Capacity::Exhausted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the deletions of a rule, as text, 100 days after the epoch.
    fn check(rule: Retention, expected: &[&str]) {
        let now = Timestamp::from_second(100 * 86_400).expect("a time");
        let words = prunes_of(rule, now).into_iter().map(|prune| {
            let outcome = format!("{:?}", prune.outcome).to_lowercase();
            match prune.rule {
                PruneRule::EndedBefore(at) => format!("{outcome} before day {}", at.as_second() / 86_400),
                PruneRule::AllButNewest(count) => format!("{outcome} but {count}"),
                PruneRule::Oldest => format!("{outcome} oldest"),
            }
        });
        assert_eq!(words.collect::<Vec<_>>(), expected, "{rule:?}");
    }

    #[test]
    fn age_count_and_outcome_each_have_their_say() {
        let days = Retention { days: Some(10), ..Retention::default() };
        check(days, &["succeeded before day 90", "unsuccessful before day 90"]);
        let longer = Retention { failed_days: Some(30), ..days };
        check(longer, &["succeeded before day 90", "unsuccessful before day 70"]);
        let counted = Retention { count: Some(5), ..longer };
        let all = [
            "succeeded before day 90",
            "unsuccessful before day 70",
            "succeeded but 5",
            "unsuccessful but 5",
        ];
        check(counted, &all);
        let kept = Retention { keep_failed: Some(true), count: Some(5), ..days };
        check(kept, &["succeeded before day 90", "succeeded but 5"]);
        check(Retention::default(), &[]);
    }

    #[test]
    fn what_a_file_leaves_open_is_the_daemons_to_say() {
        let daemon = Retention { days: Some(14), failed_days: Some(90), ..Retention::default() };
        let file = Retention { count: Some(3), ..Retention::default() };
        assert_eq!(file.with_defaults(daemon), Retention { count: Some(3), ..daemon });
        let kept = Retention { keep_failed: Some(true), ..Retention::default() };
        assert_eq!(kept.with_defaults(daemon), Retention { days: Some(14), ..kept });
        let daemon = Retention { keep_failed: Some(true), ..daemon };
        let file = Retention { failed_days: Some(7), ..Retention::default() };
        assert_eq!(file.with_defaults(daemon), Retention { days: Some(14), ..file });
    }
}
