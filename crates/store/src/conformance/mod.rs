//! Conformance suite: rules that every kind of store must pass.
//!
//! A test runs [`keeps_every_rule`] with the [`Fixture`]s of its store. A violated rule panics.

#![expect(clippy::expect_used, reason = "a violated rule panics, as an assertion does")]

mod dedup;
mod definitions;
mod durability;
mod files;
mod lists;
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
    ("an accepted execution is there after a restart", |fixture| {
        Box::pin(durability::accept_is_durable(fixture))
    }),
    ("appended events are there after a restart", |fixture| Box::pin(durability::append_is_durable(fixture))),
    ("what has happened already is accepted with it", |fixture| {
        Box::pin(durability::accepted_with_what_happened(fixture))
    }),
    ("what was queued when it was closed is there", |fixture| {
        Box::pin(durability::close_finishes_the_queue(fixture))
    }),
    ("nothing is written or read after close", |fixture| Box::pin(durability::nothing_after_close(fixture))),
    ("unfinished executions are found again, oldest first", |fixture| {
        Box::pin(durability::unfinished(fixture))
    }),
    ("a batch is accepted as a whole or not at all", |fixture| Box::pin(writes::accept_is_atomic(fixture))),
    ("a key is taken once for its Automation", |fixture| Box::pin(writes::keys_are_unique(fixture))),
    ("of many who take a key at once one wins", |fixture| {
        Box::pin(writes::keys_are_unique_under_load(fixture))
    }),
    ("a watermark stands with its executions", |fixture| {
        Box::pin(writes::watermark_with_executions(fixture))
    }),
    ("an append at the wrong index is a conflict", |fixture| Box::pin(writes::conflict(fixture))),
    ("a refused write takes no other along", |fixture| Box::pin(writes::refusals_stay_alone(fixture))),
    ("events come back in the order of their appends", |fixture| Box::pin(writes::order(fixture))),
    ("a replay begins at the last snapshot", |fixture| Box::pin(snapshots::replay_begins_there(fixture))),
    ("a snapshot that does not fit is refused", |fixture| Box::pin(snapshots::refused(fixture))),
    ("the row follows the events", |fixture| Box::pin(writes::row_follows(fixture))),
    ("addresses replace what their Automations had", |fixture| Box::pin(writes::addresses(fixture))),
    ("log lines come in order from any index on", |fixture| Box::pin(writes::logs(fixture))),
    ("an execution waits for what was said last", |fixture| Box::pin(waits::replaced(fixture))),
    ("the end of an execution ends its waits", |fixture| Box::pin(waits::gone_with_the_end(fixture))),
    ("those that wait rest apart from those that run", |fixture| Box::pin(waits::rest_apart(fixture))),
    ("who waits for an event is found", |fixture| Box::pin(waits::found_by_event(fixture))),
    ("who waits for an event is found by a key", |fixture| Box::pin(waits::found_by_key(fixture))),
    ("who waits for an execution is found", |fixture| Box::pin(waits::found_by_child(fixture))),
    ("waits are bounded", |fixture| Box::pin(waits::bounded(fixture))),
    ("a value of the state comes back as it was", |fixture| Box::pin(state::kept(fixture))),
    ("a value is not written over unseen", |fixture| Box::pin(state::not_written_over(fixture))),
    ("a version is never given twice", |fixture| Box::pin(state::versions_are_new(fixture))),
    ("state stands with the events it was written with", |fixture| Box::pin(state::with_events(fixture))),
    ("of many who change a value at once one wins", |fixture| Box::pin(state::one_wins(fixture))),
    ("a scope is listed by key, page by page", |fixture| Box::pin(state::lists(fixture))),
    ("pruning deletes the values that expired, no more", |fixture| Box::pin(state::pruned(fixture))),
    ("writes of the state are bounded", |fixture| Box::pin(state::bounded(fixture))),
    ("the first secret stays", |fixture| Box::pin(state::secret(fixture))),
    ("what was sent before starts nothing", |fixture| Box::pin(dedup::unique(fixture))),
    ("a name stands for one thing only", |fixture| Box::pin(dedup::content(fixture))),
    ("what is refused takes no name", |fixture| Box::pin(dedup::none_is_left_taken(fixture))),
    ("a name counts until its end, whatever becomes of its execution", |fixture| {
        Box::pin(dedup::until_its_end(fixture))
    }),
    ("names are bounded", |fixture| Box::pin(dedup::bounded(fixture))),
    ("a poll stands with its executions", |fixture| Box::pin(polls::with_executions(fixture))),
    ("what a poll has seen is bounded", |fixture| Box::pin(polls::keys_are_bounded(fixture))),
    ("of polls the latest are kept", |fixture| Box::pin(polls::log_is_bounded(fixture))),
    ("a subscription is kept until it is dropped", |fixture| Box::pin(polls::subscriptions(fixture))),
    ("pages do not shift under inserts", |fixture| Box::pin(lists::stable_pages(fixture))),
    ("every filter gives what it says", |fixture| Box::pin(lists::filters(fixture))),
    ("replays are found by the execution that they replay", |fixture| Box::pin(lists::replays(fixture))),
    ("times filter to the nanosecond", |fixture| Box::pin(lists::times(fixture))),
    ("a page is bounded", |fixture| Box::pin(lists::bounded(fixture))),
    ("files and any text come back as they were", |fixture| Box::pin(values::round_trip(fixture))),
    ("a payload of a mebibyte comes back", |fixture| Box::pin(values::large(fixture))),
    ("a file that an event names comes back, and its parts", |fixture| Box::pin(files::kept(fixture))),
    ("a file is kept until nothing names it", |fixture| Box::pin(files::until_nothing_names_them(fixture))),
    ("large values stay in the store and come back by themselves", |fixture| Box::pin(values::cut(fixture))),
    ("numbers come back exactly", |fixture| Box::pin(values::numbers(fixture))),
    ("definitions are kept while executions refer to them", |fixture| {
        Box::pin(definitions::while_referenced(fixture))
    }),
    ("the definition put last stays", |fixture| Box::pin(definitions::last_put(fixture))),
    ("the definitions of an automation are listed, the one put last first", |fixture| {
        Box::pin(definitions::listed(fixture))
    }),
    ("an unknown definition is refused", |fixture| Box::pin(definitions::unknown(fixture))),
    ("pruning keeps keys and watermarks", |fixture| Box::pin(retention::keeps_keys_and_watermarks(fixture))),
    ("pruning deletes what ended before, no more", |fixture| {
        Box::pin(retention::deletes_what_ended_before(fixture))
    }),
    ("pruning obeys its filter", |fixture| Box::pin(retention::obeys_its_filter(fixture))),
    ("pruning is bounded", |fixture| Box::pin(retention::bounded(fixture))),
    ("all but the newest of an Automation go", |fixture| Box::pin(retention::all_but_the_newest(fixture))),
    ("the oldest go first, of all Automations", |fixture| Box::pin(retention::oldest_first(fixture))),
    ("what has not ended never goes", |fixture| Box::pin(retention::never_the_unfinished(fixture))),
    ("tidying takes nothing that is needed", |fixture| Box::pin(retention::tidying(fixture))),
    ("old keys of deleted executions can be forgotten", |fixture| Box::pin(retention::keys_by_age(fixture))),
];
