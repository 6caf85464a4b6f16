//! Texts that people write: a YAML reader that keeps places, diagnostics at these places, durations and sizes.
//!
//! A [`Source`] is a file, a [`Span`] a part of it, a [`Diagnostic`] a problem there.
//!
//! Modules, in reading order:
//!
//! * `diagnostic`: a problem with its place, and how it is shown
//! * `yaml`: a tree with spans; `edit` changes a text at one node and verifies the result
//! * `units`: durations and sizes
//! * `excerpt`: shortened and escaped texts

pub mod diagnostic;
mod excerpt;
pub mod units;
pub mod yaml;

pub use diagnostic::{Diagnostic, Severity, Source, Span};
pub use excerpt::{TRUNCATION_MARK, push_escaped, truncate};
