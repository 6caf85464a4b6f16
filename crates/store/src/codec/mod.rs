//! The stored forms of executions and values, which are the same in every database.

mod columns;
mod compress;
mod cut;
mod events;
mod external;
mod externalize;
mod rows;
mod start;
mod text_room;

pub(crate) use columns::{id_prefix, key_name, status_code, status_of, to_ns};
pub(crate) use compress::{compress, decompress};
pub use cut::{CutEvents, CutValue, HistoryBytes, HistoryRow, SMALL_VALUE};
pub(crate) use cut::{cut, read_cut};
pub(crate) use events::{EncodedEvents, decode_events};
pub(crate) use external::{ExternalValue, ExternalValues};
pub(crate) use externalize::{find_large, remove, restore};
pub(crate) use rows::{AppendRow, NewExecutionRow, PollRow, StateChange, state_bytes, state_changes};
pub(crate) use start::{StartColumns, read as read_start};
#[cfg(feature = "postgres")]
pub(crate) use text_room::in_place;
pub(crate) use text_room::{LargeTexts, TextRoom};

/// The length of a text from which on equal parts of its values are looked for, in bytes.
pub(crate) const LARGE_TEXT: usize = 64 << 10;
