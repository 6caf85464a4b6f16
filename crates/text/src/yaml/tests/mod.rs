//! Tests of the YAML layer.

mod differential;
mod limits;
mod problems;
mod reading;
mod spans;

use super::{Node, parse};
use crate::diagnostic::{Diagnostics, Report, Source};

/// Parses a text that has no problems.
fn tree(text: &str) -> Node {
    super::parse_text("test.yaml", text).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

/// Parses a text and returns its report.
fn report(text: &str) -> Report {
    let diagnostics = Diagnostics::new(Source::new("test.yaml", text));
    let _tree = parse(&diagnostics);
    diagnostics.into_report()
}
