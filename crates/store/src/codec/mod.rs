//! The stored forms of executions and values, which are the same in every database.

mod columns;
mod compress;
mod cut;
mod events;
mod external;
mod externalize;
mod origin;
mod rows;
mod start;
mod text_room;

pub use columns::{id_prefix, key_name, status_code, status_of, to_ns};
pub use compress::{compress, decompress};
pub use cut::{CutEvents, CutValue, HistoryBytes, HistoryRow, SMALL_VALUE};
pub use cut::{cut, read_cut};
pub use events::{EncodedEvents, decode_events};
pub use external::{ExternalValue, ExternalValues};
pub use externalize::{find_large, remove, restore};
pub use origin::{cause_key, decode as decode_origin, sender_key};
pub use rows::{AppendRow, NewExecutionRow, PollRow, StateChange, state_bytes, state_changes};
pub use start::{StartColumns, read as read_start};
pub use text_room::in_place;
pub use text_room::{LargeTexts, TextRoom};

/// The length of a text from which on equal parts of its values are looked for, in bytes.
pub const LARGE_TEXT: usize = 64 << 10;
