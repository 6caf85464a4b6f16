//! YAML with places.
//!
//! A file is parsed once into a tree of [`Node`]s that know where they stand ([`parse`]), and lowered by hand into
//! checked types with a [`MapReader`], so that every problem is reported at its place. Only this module names the
//! YAML parser.
//!
//! The dialect is YAML 1.2 with the core schema, narrowed to what cannot be misread: keys are text and unique, one
//! document a file, no `<<` merge, no tags but the core ones, no directives. Numbers with leading zeros stay text (`007`).

mod explain;
mod locate;
mod node;
mod parse;
mod read;
mod scalar;

pub(crate) use explain::quoted;
pub use node::{Entry, Kind, Map, Node, Style, Text};
pub use parse::{Budget, parse, parse_text, parse_within};
pub use read::{Field, ForeignKey, MapReader};

#[cfg(test)]
mod tests;
