//! The store on PostgreSQL 15 or later.
//!
//! A thread of its own drives the connections: a few *lanes*, which write batches ([`lane`]), a pool that reads ([`reader`]), and
//! one that beats for the node of this daemon and watches the others ([`beat`]). Callers encode their write, queue it ([`queue`]) and wait. A lane sends
//! what waits as one transaction in one round trip. Every transaction begins with a *fence*, which numbers the batches of the lane
//! and fails once another daemon has taken over. So a write of a daemon that was declared dead never happens, and a batch whose
//! commit got no answer is found again by its number.

mod access;
mod address;
mod connect;

mod forms;
mod op;
mod queue;
mod statements;

mod arrange;
mod attempt;
mod lane;
mod probes;
mod recall;
mod rights;

mod agreement;
mod beat;
mod checks;
mod exchange;
mod node;
mod peers;
mod schema;

mod reader;

mod blobs;
mod buckets;
mod definitions;
mod events;
mod examine;
mod files;
mod generations;
mod list;
mod listening;
pub(crate) mod migration;
mod pairings;
mod partitions;
mod prune;
mod state;
mod triggers;
mod usage;
mod waits;

mod open;
mod shared;
mod store;

pub(crate) use address::Address;
pub(crate) use examine::examine;
pub(crate) use migration::open_side;
pub(crate) use open::{open, open_read_only};
