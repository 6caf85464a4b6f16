//! The store on PostgreSQL 15 or later.
//!
//! A thread of its own drives the connections: a few *lanes*, which write batches ([`lane`]), a pool that reads ([`reader`]), and a
//! connection for the heartbeat of this node, which also watches the others ([`beat`]). Callers encode their write, queue it
//! ([`queue`]) and wait. A lane sends the queued writes as one transaction in one round trip. Every transaction begins with a *fence*, which numbers the batches of the lane
//! and fails once another daemon has taken over. So a write of a daemon that was declared dead never happens, and a batch whose
//! commit got no answer is found again by its number.
//!
//! Modules, in reading order:
//!
//! * `address`: the address of a database
//! * `open`: opens and closes a store
//! * `handle`: the methods of the traits
//! * `shared`: state of triggers that all nodes share
//! * `checks`: the checks of a server
//! * `connect`: connections that write
//! * `access`: new connections, and whether the server still works on a request
//! * `schema`: the tables and their migrations
//! * `rights`: missing rights of the user
//! * `op`: writes, as they wait
//! * `queue`: the writes that wait for a lane
//! * `lane`: commits batches, one after the other
//! * `arrange`: arranges a batch into statements
//! * `statements`: the statements of a batch
//! * `attempt`: one attempt to commit a batch
//! * `recall`: the verdicts of a batch whose commit got no answer
//! * `probes`: finds the end of refused writes
//! * `node`: this run of the daemon
//! * `beat`: the beat of a node
//! * `exchange`: between callers and the beat
//! * `agreement`: settings that all nodes have
//! * `peers`: nodes, shards, leases and letters
//! * `reader`: reads on a pool of connections
//! * `forms`: stored forms of ids and names
//! * `partitions`: the tables of the days
//! * `events`: the events of an execution
//! * `list`: lists of executions
//! * `waits`: open waits
//! * `state`: values by scope and key
//! * `outbox`: events on their way to triggers
//! * `definitions`: definitions, and their numbers
//! * `level`: definitions in the store, and the level of the language that they may have
//! * `generations`: generations of the deployed project
//! * `triggers`: addresses, polls and deduplication records
//! * `moves`: moves the rows of a trigger to another key
//! * `buckets`: token buckets of rate limits
//! * `listening`: sessions at test addresses
//! * `pairings`: open pairings with senders
//! * `blobs`: large values in chunks
//! * `files`: files that arrive
//! * `prune`: deletes old records
//! * `usage`: the size of the tables
//! * `examine`: checks a database without changing it
//! * `migration`: one end of a move to another place

mod access;
mod address;
mod agreement;
mod arrange;
mod attempt;
mod beat;
mod blobs;
mod buckets;
mod checks;
mod connect;
mod definitions;
mod events;
mod examine;
mod exchange;
mod files;
mod forms;
mod generations;
mod handle;
mod lane;
mod level;
mod list;
mod listening;
mod migration;
mod moves;
mod node;
mod op;
mod open;
mod outbox;
mod pairings;
mod partitions;
mod peers;
mod probes;
mod prune;
mod queue;
mod reader;
mod recall;
mod rights;
mod schema;
mod shared;
mod state;
mod statements;
mod triggers;
mod usage;
mod waits;

pub use address::Address;
pub use examine::examine;
pub use migration::open_side;
pub use open::{open, open_read_only};
