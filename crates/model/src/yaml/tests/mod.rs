//! The rules of the YAML layer, by subject.

mod budgets;
mod differential;
mod places;
mod problems;
mod reading;

use super::{Node, parse};
use crate::diagnostic::{Diagnostics, Report, Source};

/// The tree of a text without problems.
fn tree(text: &str) -> Node {
    super::parse_text("test.yaml", text).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

/// What is wrong with a text.
fn report(text: &str) -> Report {
    let diagnostics = Diagnostics::new(Source::new("test.yaml", text));
    let _tree = parse(&diagnostics);
    diagnostics.into_report()
}
