//! Clears away what is kept no longer: by rule from time to time, and the oldest at once where the store's size runs
//! out.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::AutomationId;
use model::automation::Retention;
use store::{Capacity, OutcomeFilter, PruneFilter, PruneRule, Store};

use crate::services::Services;

/// How often old executions are cleared away, and how many at one time.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);
const PRUNE_BATCH: u32 = 1000;
/// How many go at one time where room is needed: it is looked whether there is enough after each time.
const ROOM_BATCH: u32 = 100;
/// How long the keys of deleted executions are remembered: longer than any sender repeats itself, and the watermark
/// of a schedule is past its instants long before.
const KEYS_KEPT: Duration = Duration::from_secs(30 * 86_400);
/// How long a value that has expired stays, though nobody sees it: whoever writes over one named its version a moment
/// ago.
const EXPIRED_KEPT: Duration = Duration::from_secs(3600);

/// Clears away until the engine stops.
pub(crate) async fn run(services: Arc<Services>) {
    let mut due = services.clock.steady_now();
    let mut stuck = false;
    loop {
        if services.clock.steady_now() >= due {
            clear(&services).await;
            due = services.clock.steady_now().after(PRUNE_EVERY);
        }
        stuck = !make_room(&services, stuck).await;
        tokio::select! {
            biased;
            () = services.closing.cancelled() => return,
            () = services.room_wanted.notified() => {}
            () = services.clock.sleep_until_steady(due) => {}
        }
    }
}

/// Something that is cleared away in batches.
#[derive(Clone, Debug)]
enum Old {
    Executions(PruneFilter),
    /// What went before this time.
    Keys(Timestamp),
    State(Timestamp),
    Sendings(Timestamp),
}

impl Old {
    /// Clears one batch of it away, and gives how much that was.
    async fn batch(&self, store: &dyn Store) -> Result<u64, store::Error> {
        match self {
            Self::Executions(prune) => store.prune(prune.clone(), PRUNE_BATCH).await,
            Self::Keys(before) => store.prune_keys(*before, PRUNE_BATCH).await,
            Self::State(before) => store.prune_state(*before, PRUNE_BATCH).await,
            Self::Sendings(before) => store.prune_dedup(*before, PRUNE_BATCH).await,
        }
    }

    /// Clears all of it away, unless the engine stops, and gives how much that was.
    async fn all(&self, services: &Services) -> Result<u64, store::Error> {
        let mut all = 0;
        loop {
            let count = self.batch(&*services.store).await?;
            all += count;
            if count < u64::from(PRUNE_BATCH) || services.closing.is_cancelled() {
                return Ok(all);
            }
        }
    }
}

/// Clears away what is older or more than the rules say, and what a crash left.
async fn clear(services: &Services) {
    let (mut gone, now) = (0, services.clock.now());
    for prune in rules(services) {
        match Old::Executions(prune).all(services).await {
            Ok(count) => gone += count,
            Err(error) => return services.lost(&error),
        }
    }
    if gone > 0 {
        services.forget_stored_definitions();
        tracing::info!(executions = gone, "cleared away executions that are kept no longer");
    }
    let ago = |age| now.checked_sub(age).unwrap_or(Timestamp::MIN);
    for old in [Old::Keys(ago(KEYS_KEPT)), Old::State(ago(EXPIRED_KEPT)), Old::Sendings(now)] {
        if let Err(error) = old.all(services).await {
            return services.lost(&error);
        }
    }
    match services.store.collect_garbage().await {
        Ok(0) => {}
        Ok(files) => tracing::info!(files, "removed files that a crash had left beside the store"),
        Err(error) => services.lost(&error),
    }
}

/// What to delete now, by the rules of the Automations in force and those of the daemon for all the others.
fn rules(services: &Services) -> Vec<PruneFilter> {
    let (catalog, now) = (services.catalog.load_full(), services.clock.now());
    let daemon = services.settings.retention;
    let own: Vec<(AutomationId, Retention)> = catalog
        .automations()
        .filter_map(|deployed| Some((deployed.automation.id.clone(), deployed.automation.retention?)))
        .collect();
    let except: Vec<AutomationId> = own.iter().map(|(id, _)| id.clone()).collect();
    let mut prunes = Vec::new();
    for (id, rule) in own {
        let rule = rule.over(daemon.unwrap_or_default());
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

/// What a rule deletes at this time.
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

/// Deletes the oldest ended executions, whatever the rules say, while the store has too little room for new ones. Gives
/// whether there is some; that there is none is told once, unless it was so before.
async fn make_room(services: &Services, before: bool) -> bool {
    let mut gone = 0;
    while services.store.capacity() != Capacity::Ample && !services.closing.is_cancelled() {
        match services.store.prune(PruneFilter::new(PruneRule::Oldest), ROOM_BATCH).await {
            Ok(0) => {
                if services.store.capacity() == Capacity::Exhausted && !before {
                    tracing::warn!(
                        "the store is full and nothing in it has ended; new executions are refused until some have, \
                         or `limits.storeSize` is raised"
                    );
                }
                break;
            }
            Ok(count) => gone += count,
            Err(error) => {
                services.lost(&error);
                break;
            }
        }
    }
    if gone > 0 {
        services.forget_stored_definitions();
        tracing::warn!(executions = gone, "deleted the oldest executions, since the store's size runs out");
    }
    services.store.capacity() != Capacity::Exhausted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks what a rule deletes, in words, 100 days after the epoch.
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
        check(days, &["succeeded before day 90", "other before day 90"]);
        let longer = Retention { failed_days: Some(30), ..days };
        check(longer, &["succeeded before day 90", "other before day 70"]);
        let counted = Retention { count: Some(5), ..longer };
        let all = ["succeeded before day 90", "other before day 70", "succeeded but 5", "other but 5"];
        check(counted, &all);
        let kept = Retention { keep_failed: Some(true), count: Some(5), ..days };
        check(kept, &["succeeded before day 90", "succeeded but 5"]);
        check(Retention::default(), &[]);
    }

    #[test]
    fn what_a_file_leaves_open_is_the_daemons_to_say() {
        let daemon = Retention { days: Some(14), failed_days: Some(90), ..Retention::default() };
        let file = Retention { count: Some(3), ..Retention::default() };
        assert_eq!(file.over(daemon), Retention { count: Some(3), ..daemon });
        let kept = Retention { keep_failed: Some(true), ..Retention::default() };
        assert_eq!(kept.over(daemon), Retention { days: Some(14), ..kept });
        let daemon = Retention { keep_failed: Some(true), ..daemon };
        let file = Retention { failed_days: Some(7), ..Retention::default() };
        assert_eq!(file.over(daemon), Retention { days: Some(14), ..file });
    }
}
