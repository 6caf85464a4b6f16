//! A YAML parser that records source spans.
//!
//! [`parse()`] parses a file once into a tree of [`Node`]s with spans. The loader lowers the tree into checked types with a
//! [`MapReader`], which reports every problem at its span. Only this module names the YAML parser.
//!
//! The dialect is YAML 1.2 with the core schema, restricted to avoid misreadings: keys are text and unique, a file has one
//! document, no `<<` merge keys, no tags but the core ones, no directives. Numbers with leading zeros are text (`007`).

mod describe;
pub mod edit;
mod error_messages;
mod escape;
mod map_reader;
mod node;
mod parse;
mod scalar;
mod source_map;

pub use error_messages::quote;
pub use escape::{replace_at, replace_within};
pub use map_reader::{Field, ForeignKey, MapReader, Rewrite};
pub use node::{Entry, Kind, Map, Node, Style, Text};
pub use parse::{ParseLimits, parse, parse_text, parse_with_limits};

#[cfg(test)]
mod tests;
