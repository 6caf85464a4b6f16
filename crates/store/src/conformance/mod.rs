//! Conformance suite: rules that every kind of store must pass.
//!
//! A test runs [`keeps_every_rule`] with the [`Fixture`]s of its store. A violated rule panics.

#![expect(clippy::expect_used, reason = "a violated rule panics, as an assertion does")]

mod dedup;
mod definitions;
mod durability;
mod files;
mod lists;
mod outbox;
mod polls;
#[cfg(unix)]
mod postgres;
mod retention;
mod sample;
mod snapshots;
mod state;
mod values;
mod waits;
mod writes;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::task::JoinSet;

use crate::Store;

#[cfg(unix)]
pub use postgres::{PostgresServer, PostgresSpace};

/// The storage of one test: empty at first, and not shared.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// Opens the store. The caller has closed or dropped the one opened before.
    async fn open(&self) -> Arc<dyn Store>;
}

/// A rule, which runs on a fixture.
type Rule = for<'fixture> fn(&'fixture dyn Fixture) -> Pin<Box<dyn Future<Output = ()> + Send + 'fixture>>;

/// Runs every rule on a fixture of its own, all at once.
///
/// # Panics
/// A rule is violated.
pub async fn keeps_every_rule<P, F>(create: impl Fn() -> F)
where
    P: Fixture + 'static,
    F: Future<Output = P> + Send + 'static,
{
    let mut running = JoinSet::new();
    for (text, rule) in RULES {
        let fixture = create();
        running.spawn(async move {
            let fixture = fixture.await;
            let kept = tokio::spawn(async move { rule(&fixture).await }).await;
            kept.err().map(|error| format!("not kept: {text}: {error}"))
        });
    }
    let broken: Vec<String> = running.join_all().await.into_iter().flatten().collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Every rule with its description.
const RULES: &[(&str, Rule)] = &[
    ("an accepted execution survives a restart", |fixture| Box::pin(durability::accept_is_durable(fixture))),
    ("appended events survive a restart", |fixture| Box::pin(durability::append_is_durable(fixture))),
    ("an execution is accepted together with its first events", |fixture| {
        Box::pin(durability::accepted_with_what_happened(fixture))
    }),
    ("writes acknowledged during a close survive a restart", |fixture| {
        Box::pin(durability::close_finishes_the_queue(fixture))
    }),
    ("reads and writes after a close fail", |fixture| Box::pin(durability::nothing_after_close(fixture))),
    ("unfinished executions are listed after a restart, oldest first", |fixture| {
        Box::pin(durability::unfinished(fixture))
    }),
    ("a batch is accepted atomically", |fixture| Box::pin(writes::accept_is_atomic(fixture))),
    ("an idempotency key is unique within its Automation", |fixture| {
        Box::pin(writes::keys_are_unique(fixture))
    }),
    ("one of many concurrent executions with a key is accepted", |fixture| {
        Box::pin(writes::keys_are_unique_under_load(fixture))
    }),
    ("a watermark is committed with its executions", |fixture| {
        Box::pin(writes::watermark_with_executions(fixture))
    }),
    ("an append at the wrong index is a conflict", |fixture| Box::pin(writes::conflict(fixture))),
    ("a refused write does not fail the others of its group commit", |fixture| {
        Box::pin(writes::refusals_stay_alone(fixture))
    }),
    ("events are read in the order of their appends", |fixture| Box::pin(writes::order(fixture))),
    ("a replay begins at the last snapshot", |fixture| Box::pin(snapshots::replay_begins_there(fixture))),
    ("a snapshot beyond the log or its size limit is refused", |fixture| {
        Box::pin(snapshots::refused(fixture))
    }),
    ("the row follows the events", |fixture| Box::pin(writes::row_follows(fixture))),
    ("new addresses replace all addresses of their Automations", |fixture| {
        Box::pin(writes::addresses(fixture))
    }),
    ("log lines are read in order from any index", |fixture| Box::pin(writes::logs(fixture))),
    ("new waits replace the previous waits of an execution", |fixture| Box::pin(waits::replaced(fixture))),
    ("the end of an execution deletes its waits", |fixture| Box::pin(waits::gone_with_the_end(fixture))),
    ("suspended executions are listed apart from running ones", |fixture| {
        Box::pin(waits::rest_apart(fixture))
    }),
    ("waits for an event are found by its name", |fixture| Box::pin(waits::found_by_event(fixture))),
    ("waits for an event are found by key", |fixture| Box::pin(waits::found_by_key(fixture))),
    ("the wait for a child execution is found", |fixture| Box::pin(waits::found_by_child(fixture))),
    ("the number of waits of an execution is limited", |fixture| Box::pin(waits::bounded(fixture))),
    ("a state value is read as it was written", |fixture| Box::pin(state::kept(fixture))),
    ("a state write with an outdated version is refused", |fixture| {
        Box::pin(state::not_written_over(fixture))
    }),
    ("a state version is never reused", |fixture| Box::pin(state::versions_are_new(fixture))),
    ("state is committed with the events of its step", |fixture| Box::pin(state::with_events(fixture))),
    ("concurrent updates of a state value lose no update", |fixture| Box::pin(state::one_wins(fixture))),
    ("a state scope is listed by key, in pages", |fixture| Box::pin(state::lists(fixture))),
    ("pruning deletes only expired state values", |fixture| Box::pin(state::pruned(fixture))),
    ("state writes are limited in number and size", |fixture| Box::pin(state::bounded(fixture))),
    ("the first secret is never replaced", |fixture| Box::pin(state::secret(fixture))),
    ("a request with a known dedup key starts nothing", |fixture| Box::pin(dedup::unique(fixture))),
    ("a dedup key with other content is a mismatch", |fixture| Box::pin(dedup::content(fixture))),
    ("a refused execution claims no dedup key", |fixture| Box::pin(dedup::none_is_left_taken(fixture))),
    ("a dedup key is valid until it expires, also after its execution is pruned", |fixture| {
        Box::pin(dedup::until_its_end(fixture))
    }),
    ("dedup keys and their pruning are limited", |fixture| Box::pin(dedup::bounded(fixture))),
    ("a poll is committed with its executions", |fixture| Box::pin(polls::with_executions(fixture))),
    ("the seen keys of a poll are limited", |fixture| Box::pin(polls::keys_are_bounded(fixture))),
    ("the log of polls keeps the latest", |fixture| Box::pin(polls::log_is_bounded(fixture))),
    ("the rows of a trigger move to another key", |fixture| Box::pin(polls::moved_trigger(fixture))),
    ("a subscription is kept until it is deleted", |fixture| Box::pin(polls::subscriptions(fixture))),
    ("an event is sent exactly if the step that sends it has ended", |fixture| {
        Box::pin(outbox::with_the_end_of_the_step(fixture))
    }),
    ("an event is sent exactly if its execution is accepted", |fixture| {
        Box::pin(outbox::with_an_acceptance(fixture))
    }),
    ("an event that is sent twice is one event", |fixture| Box::pin(outbox::once(fixture))),
    ("an event stays until its last acceptance", |fixture| Box::pin(outbox::until_delivered(fixture))),
    ("events are read by name in the order of their ids, in pages", |fixture| {
        Box::pin(outbox::pages(fixture))
    }),
    ("values of the state and events are written together or not at all", |fixture| {
        Box::pin(outbox::with_values(fixture))
    }),
    ("events of the engine move with their trigger", |fixture| Box::pin(outbox::moved(fixture))),
    ("events are limited in number and size", |fixture| Box::pin(outbox::bounded(fixture))),
    ("pages do not shift under inserts", |fixture| Box::pin(lists::stable_pages(fixture))),
    ("every filter lists exactly its matches", |fixture| Box::pin(lists::filters(fixture))),
    ("replays are found by the execution they replay", |fixture| Box::pin(lists::replays(fixture))),
    ("executions that events started are found by the sender", |fixture| {
        Box::pin(lists::started_by_events(fixture))
    }),
    ("time filters are exact to the nanosecond", |fixture| Box::pin(lists::times(fixture))),
    ("the size of a page is limited", |fixture| Box::pin(lists::bounded(fixture))),
    ("files and any text are read as they were written", |fixture| Box::pin(values::round_trip(fixture))),
    ("a payload of 1 MiB is read as it was written", |fixture| Box::pin(values::large(fixture))),
    ("a file of an event can be read whole and in part", |fixture| Box::pin(files::kept(fixture))),
    ("a file is kept while an event refers to it", |fixture| {
        Box::pin(files::until_nothing_names_them(fixture))
    }),
    ("large values stay in the store and are loaded on demand", |fixture| Box::pin(values::cut(fixture))),
    ("numbers are read exactly as they were written", |fixture| Box::pin(values::numbers(fixture))),
    ("definitions are kept while executions refer to them", |fixture| {
        Box::pin(definitions::while_referenced(fixture))
    }),
    ("the latest definition is kept", |fixture| Box::pin(definitions::last_put(fixture))),
    ("the definitions of an Automation are listed, newest first", |fixture| {
        Box::pin(definitions::listed(fixture))
    }),
    ("the level of the language is raised once and never lowered", |fixture| {
        Box::pin(definitions::level(fixture))
    }),
    ("an unknown definition is refused", |fixture| Box::pin(definitions::unknown(fixture))),
    ("pruning keeps keys and watermarks", |fixture| Box::pin(retention::keeps_keys_and_watermarks(fixture))),
    ("pruning by end time deletes only executions that ended before", |fixture| {
        Box::pin(retention::deletes_what_ended_before(fixture))
    }),
    ("pruning respects its filter", |fixture| Box::pin(retention::obeys_its_filter(fixture))),
    ("pruning deletes at most its limit", |fixture| Box::pin(retention::bounded(fixture))),
    ("pruning by count keeps the newest of each Automation", |fixture| {
        Box::pin(retention::all_but_the_newest(fixture))
    }),
    ("pruning of the oldest considers all Automations", |fixture| Box::pin(retention::oldest_first(fixture))),
    ("an unfinished execution is never pruned", |fixture| Box::pin(retention::never_the_unfinished(fixture))),
    ("garbage collection deletes nothing in use", |fixture| Box::pin(retention::tidying(fixture))),
    ("old keys of deleted executions can be pruned", |fixture| Box::pin(retention::keys_by_age(fixture))),
];
