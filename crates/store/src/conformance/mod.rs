//! What every store must do, as rules that are run on each kind of store.
//!
//! A test makes a [`Place`] for each of the [`RULES`] and runs the rule on it; a rule that is not kept panics.

#![expect(clippy::expect_used, reason = "a rule that is not kept panics, as an assertion does")]

mod definitions;
mod durability;
mod files;
mod lists;
mod polls;
mod retention;
mod sample;
mod sendings;
mod state;
mod values;
mod waits;
mod writes;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use crate::Store;

/// Where a store keeps what it is given: empty at first, and its own.
#[async_trait]
pub trait Place: Send + Sync {
    /// Opens the store that is kept here. The one opened before is closed or dropped by then.
    async fn open(&self) -> Arc<dyn Store>;
}

/// A rule, run on a place.
pub type Rule = for<'place> fn(&'place dyn Place) -> Pin<Box<dyn Future<Output = ()> + Send + 'place>>;

/// Every rule with what it says.
pub const RULES: &[(&str, Rule)] = &[
    ("an accepted execution is there after a restart", |place| {
        Box::pin(durability::accept_is_durable(place))
    }),
    ("appended events are there after a restart", |place| Box::pin(durability::append_is_durable(place))),
    ("what has happened already is accepted with it", |place| {
        Box::pin(durability::accepted_with_what_happened(place))
    }),
    ("what was queued when it was closed is there", |place| {
        Box::pin(durability::close_finishes_the_queue(place))
    }),
    ("nothing is written or read after close", |place| Box::pin(durability::nothing_after_close(place))),
    ("unfinished executions are found again, oldest first", |place| Box::pin(durability::unfinished(place))),
    ("a batch is accepted as a whole or not at all", |place| Box::pin(writes::accept_is_atomic(place))),
    ("a key is taken once for its Automation", |place| Box::pin(writes::keys_are_unique(place))),
    ("of many who take a key at once one wins", |place| Box::pin(writes::keys_are_unique_under_load(place))),
    ("a watermark stands with its executions", |place| Box::pin(writes::watermark_with_executions(place))),
    ("an append at the wrong index is a conflict", |place| Box::pin(writes::conflict(place))),
    ("a refused write takes no other along", |place| Box::pin(writes::refusals_stay_alone(place))),
    ("events come back in the order of their appends", |place| Box::pin(writes::order(place))),
    ("the row follows the events", |place| Box::pin(writes::row_follows(place))),
    ("addresses replace what their Automations had", |place| Box::pin(writes::addresses(place))),
    ("log lines come in order from any index on", |place| Box::pin(writes::logs(place))),
    ("an execution waits for what was said last", |place| Box::pin(waits::replaced(place))),
    ("the end of an execution ends its waits", |place| Box::pin(waits::gone_with_the_end(place))),
    ("those that wait rest apart from those that run", |place| Box::pin(waits::rest_apart(place))),
    ("who waits for an event is found", |place| Box::pin(waits::found_by_event(place))),
    ("who waits for an execution is found", |place| Box::pin(waits::found_by_child(place))),
    ("waits are bounded", |place| Box::pin(waits::bounded(place))),
    ("a value of the state comes back as it was", |place| Box::pin(state::kept(place))),
    ("a value is not written over unseen", |place| Box::pin(state::not_written_over(place))),
    ("a version is never given twice", |place| Box::pin(state::versions_are_new(place))),
    ("state stands with the events it was written with", |place| Box::pin(state::with_events(place))),
    ("of many who change a value at once one wins", |place| Box::pin(state::one_wins(place))),
    ("a scope is listed by key, page by page", |place| Box::pin(state::lists(place))),
    ("pruning deletes the values that expired, no more", |place| Box::pin(state::pruned(place))),
    ("writes of the state are bounded", |place| Box::pin(state::bounded(place))),
    ("the first secret stays", |place| Box::pin(state::secret(place))),
    ("what was sent before starts nothing", |place| Box::pin(sendings::unique(place))),
    ("a name stands for one thing only", |place| Box::pin(sendings::content(place))),
    ("what is refused takes no name", |place| Box::pin(sendings::none_is_left_taken(place))),
    ("a name counts until its end, whatever becomes of its execution", |place| {
        Box::pin(sendings::until_its_end(place))
    }),
    ("names are bounded", |place| Box::pin(sendings::bounded(place))),
    ("a poll stands with its executions", |place| Box::pin(polls::with_executions(place))),
    ("what a poll has seen is bounded", |place| Box::pin(polls::keys_are_bounded(place))),
    ("of polls the latest are kept", |place| Box::pin(polls::log_is_bounded(place))),
    ("a subscription is kept until it is dropped", |place| Box::pin(polls::subscriptions(place))),
    ("pages do not shift under inserts", |place| Box::pin(lists::stable_pages(place))),
    ("every filter gives what it says", |place| Box::pin(lists::filters(place))),
    ("times filter to the nanosecond", |place| Box::pin(lists::times(place))),
    ("a page is bounded", |place| Box::pin(lists::bounded(place))),
    ("files and any text come back as they were", |place| Box::pin(values::round_trip(place))),
    ("a payload of a mebibyte comes back", |place| Box::pin(values::large(place))),
    ("a file that an event names comes back, and its parts", |place| Box::pin(files::kept(place))),
    ("a file is kept until nothing names it", |place| Box::pin(files::until_nothing_names_them(place))),
    ("numbers come back exactly", |place| Box::pin(values::numbers(place))),
    ("definitions are kept while executions refer to them", |place| {
        Box::pin(definitions::while_referenced(place))
    }),
    ("the definition put last stays", |place| Box::pin(definitions::last_put(place))),
    ("an unknown definition is refused", |place| Box::pin(definitions::unknown(place))),
    ("pruning keeps keys and watermarks", |place| Box::pin(retention::keeps_keys_and_watermarks(place))),
    ("pruning deletes what ended before, no more", |place| {
        Box::pin(retention::deletes_what_ended_before(place))
    }),
    ("pruning obeys its filter", |place| Box::pin(retention::obeys_its_filter(place))),
    ("pruning is bounded", |place| Box::pin(retention::bounded(place))),
    ("all but the newest of an Automation go", |place| Box::pin(retention::all_but_the_newest(place))),
    ("the oldest go first, of all Automations", |place| Box::pin(retention::oldest_first(place))),
    ("what has not ended never goes", |place| Box::pin(retention::never_the_unfinished(place))),
    ("tidying takes nothing that is needed", |place| Box::pin(retention::tidying(place))),
    ("old keys of deleted executions can be forgotten", |place| Box::pin(retention::keys_by_age(place))),
];
