//! Deletes old data: periodically by the retention rules, and the oldest executions at once when the store is nearly
//! full.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::AutomationId;
use model::automation::Retention;
use model::execution::Status;
use store::{Capacity, ExecutionFilter, MaintenanceStore, OutcomeFilter, PruneFilter, PruneRule};

use runtime::{MonotonicTime, Records};

/// Interval of the periodic deletion, and maximum number of executions per batch.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);
const PRUNE_BATCH: u32 = 1000;
/// Batch size when space is needed; the free space is checked after each batch.
const ROOM_BATCH: u32 = 100;
/// One clean-up for space deletes at most a fourth of the ended executions, of which at most this many are counted.
const ROOM_SHARE: u32 = 4;
const MAX_COUNTED: u32 = 100_000;
/// The newest ended executions that no clean-up for space deletes: if they do not fit, something else fills the store.
const ROOM_FLOOR: u32 = 20;
/// The time between two clean-ups for space, if the first did not make enough room: the store measures its size again meanwhile.
const ROOM_PAUSE: Duration = Duration::from_secs(45);
/// The lock of the node that deletes.
const LOCK: &str = "retention";
/// Retention of the idempotency keys of deleted executions. Longer than any sender retries; the watermarks of schedules
/// have passed their instants long before.
const KEY_RETENTION: Duration = Duration::from_secs(30 * 86_400);
/// Retention of expired values: a writer that read the version of one shortly before must still find it.
const EXPIRED_RETENTION: Duration = Duration::from_secs(3600);

/// Deletes old data until the engine stops.
pub(crate) async fn run(records: Arc<Records>) {
    let mut due = records.context.clock.monotonic_now();
    let mut room = RoomMaker::default();
    loop {
        if records.context.clock.monotonic_now() >= due {
            // One node at a time: what it deletes is gone for all.
            match records.context.store.try_lock(LOCK).await {
                Ok(true) => {
                    apply_rules(&records).await;
                    records.context.store.unlock(LOCK);
                }
                Ok(false) => {}
                Err(error) => records.context.lost(&error),
            }
            due = records.context.clock.monotonic_now().after(PRUNE_EVERY);
        }
        room.make(&records).await;
        let next = room.not_before.map_or(due, |not_before| due.min(not_before));
        tokio::select! {
            biased;
            () = records.context.closing.cancelled() => return,
            () = records.context.room_wanted.notified() => {}
            () = records.context.clock.sleep_until_monotonic(next) => {}
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
    async fn batch(&self, store: &dyn MaintenanceStore) -> Result<u64, store::Error> {
        match self {
            Self::Executions(prune) => store.prune(prune.clone(), PRUNE_BATCH).await,
            Self::Keys(before) => store.prune_keys(*before, PRUNE_BATCH).await,
            Self::State(before) => store.prune_state(*before, PRUNE_BATCH).await,
            Self::Sendings(before) => store.prune_dedup(*before, PRUNE_BATCH).await,
        }
    }

    /// Deletes batches until nothing is left or the engine stops. Returns the total.
    async fn all(&self, records: &Records) -> Result<u64, store::Error> {
        let mut all = 0;
        loop {
            let count = self.batch(&*records.context.store).await?;
            all += count;
            if count < u64::from(PRUNE_BATCH) || records.context.closing.is_cancelled() {
                return Ok(all);
            }
        }
    }
}

/// Applies all retention rules and deletes leftovers of crashes.
async fn apply_rules(records: &Records) {
    let (mut deleted, now) = (0, records.context.clock.now());
    for prune in rules(records) {
        match Old::Executions(prune).all(records).await {
            Ok(count) => deleted += count,
            Err(error) => return records.context.lost(&error),
        }
    }
    if deleted > 0 {
        records.forget_stored_definitions();
        tracing::info!(executions = deleted, "deleted executions whose retention has ended");
    }
    let ago = |age| now.checked_sub(age).unwrap_or(Timestamp::MIN);
    for old in [Old::Keys(ago(KEY_RETENTION)), Old::State(ago(EXPIRED_RETENTION)), Old::Sendings(now)] {
        if let Err(error) = old.all(records).await {
            return records.context.lost(&error);
        }
    }
    match records.context.store.collect_garbage().await {
        Ok(0) => {}
        Ok(files) => tracing::info!(files, "removed files that a crash had left beside the store"),
        Err(error) => records.context.lost(&error),
    }
}

/// Returns the deletions that are due: by the rules of the active Automations, and by the daemon's rules for all
/// others.
fn rules(records: &Records) -> Vec<PruneFilter> {
    let (catalog, now) = (records.context.catalog.load_full(), records.context.clock.now());
    // Of nodes that share a store, one set of rules is in force for all.
    let shared = records.context.store.shared_settings();
    let daemon = shared.map_or(records.context.settings.retention, |shared| shared.retention);
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

/// Deletes the oldest ended executions regardless of the rules while the store has little room.
///
/// A clean-up is bounded, and measures after each batch: nothing is deleted in vain if something else fills the store.
#[derive(Default)]
struct RoomMaker {
    /// The earliest time of the next clean-up: the last one did not make enough room.
    not_before: Option<MonotonicTime>,
    /// True if the last clean-up could not delete anything, so that this is logged once.
    is_stuck: bool,
}

impl RoomMaker {
    async fn make(&mut self, records: &Records) {
        let now = records.context.clock.monotonic_now();
        if records.context.store.capacity() == Capacity::Ample {
            *self = Self::default();
            return;
        }
        if self.not_before.is_some_and(|not_before| now < not_before) {
            return;
        }
        if let Err(error) = self.make_once(records).await {
            records.context.lost(&error);
        }
        if records.context.store.capacity() == Capacity::Ample {
            *self = Self::default();
        } else {
            // Each start asks for room meanwhile.
            self.not_before = Some(now.after(ROOM_PAUSE));
        }
    }

    /// Deletes batches until there is enough room, or the bound of a clean-up is reached.
    async fn make_once(&mut self, records: &Records) -> Result<(), store::Error> {
        let store = &records.context.store;
        if !store.try_lock(LOCK).await? {
            // Another node makes room.
            return Ok(());
        }
        let cleaned = match store.measure().await {
            // Another node has made room since this one measured.
            Ok(Capacity::Ample) => Ok((0, true)),
            Ok(_) => delete_oldest(records).await,
            Err(error) => Err(error),
        };
        store.unlock(LOCK);
        let (deleted, has_more) = cleaned?;
        let capacity = store.capacity();
        let is_stuck = deleted == 0 && !has_more && capacity != Capacity::Ample;
        if deleted > 0 {
            records.forget_stored_definitions();
            tracing::warn!(
                executions = deleted,
                is_enough = capacity == Capacity::Ample,
                "deleted the oldest executions, since the store is almost full"
            );
        } else if is_stuck && !self.is_stuck {
            tracing::warn!(
                "the store is almost full, but not with ended executions; raise `limits.storeSize`. New executions are \
                 refused while less than a twentieth of it is left"
            );
        }
        self.is_stuck = is_stuck;
        Ok(())
    }
}

/// Deletes the oldest ended executions until the store has enough room, at most a share of them. Returns the number of deleted ones,
/// and true if another clean-up could delete more.
async fn delete_oldest(records: &Records) -> Result<(u64, bool), store::Error> {
    let store = &records.context.store;
    let status = Status::ALL.into_iter().filter(|status| status.is_terminal()).collect();
    let ended = ExecutionFilter { status, ..ExecutionFilter::default() };
    let ended = store.count_executions(&ended, MAX_COUNTED).await?;
    let (deletable, most) = bounds(ended);
    let mut deleted = 0;
    while deleted < most && store.capacity() != Capacity::Ample && !records.context.closing.is_cancelled() {
        let batch = u32::try_from(most - deleted).unwrap_or(u32::MAX).min(ROOM_BATCH);
        let count = store.prune(PruneFilter::new(PruneRule::Oldest), batch).await?;
        deleted += count;
        if count < u64::from(batch) {
            break;
        }
    }
    Ok((deleted, deletable > deleted))
}

/// Returns the number of ended executions that may be deleted for space, and the maximum of one clean-up.
fn bounds(ended: u32) -> (u64, u64) {
    let deletable = ended.saturating_sub(ROOM_FLOOR);
    (deletable.into(), deletable.min((ended / ROOM_SHARE).max(1)).into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use runtime::{Isolation, ManualClock, RuntimeParts, Secret, Settings};
    use store::memory::{FaultPlan, Faults, Operation};

    use super::*;

    /// A store that has little room, and counts its reads.
    #[derive(Default)]
    struct LittleRoom(AtomicU32);

    impl Faults for LittleRoom {
        fn plan(&self, operation: Operation<'_>) -> FaultPlan {
            if matches!(operation, Operation::Read) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            FaultPlan::NONE
        }

        fn capacity(&self) -> Capacity {
            Capacity::Low
        }
    }

    #[test]
    fn a_clean_up_keeps_20_and_three_quarters_and_deletes_at_most_25_000() {
        let most = |ended| bounds(ended).1;
        assert_eq!([19, 20, 21, 22, 24, 80, 400].map(most), [0, 0, 1, 2, 4, 20, 100]);
        assert_eq!(most(MAX_COUNTED), 25_000);
    }

    #[tokio::test]
    async fn an_insufficient_clean_up_is_repeated_only_after_a_pause() {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let little = Arc::new(LittleRoom::default());
        let options = connector::HttpOptions::default();
        let records = runtime::Runtime::from_parts(RuntimeParts {
            settings: Settings::new(folder.path()),
            store: store::Memory::default().join(little.clone()).1,
            secret: Secret::new([7; 32]),
            clock: Arc::new(clock.clone()),
            http: connector::Http::new(options).expect("HTTP is set up"),
            catalog: Arc::new(catalog::Catalog::empty(Arc::new(
                catalog::builtin().expect("the connectors load"),
            ))),
            isolation: Isolation::none(),
            vault: None,
            doubles: None,
        })
        .records
        .clone();
        let (mut room, reads) = (RoomMaker::default(), || little.0.load(Ordering::Relaxed));
        room.make(&records).await;
        let of_one = reads();
        assert!(of_one > 0, "it looked what may go");
        // As after each start.
        room.make(&records).await;
        assert_eq!(reads(), of_one);
        clock.advance(ROOM_PAUSE);
        room.make(&records).await;
        assert_eq!(reads(), 2 * of_one);
    }

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
    fn retention_rules_combine_age_count_and_outcome() {
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
    fn retention_of_a_file_falls_back_to_the_daemons_defaults() {
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
