//! `parallel`: named lists of steps that run concurrently.

use model::automation::Verb;
use text::diagnostic::Diagnostic;
use text::yaml::Kind;

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::keys::{IDENTIFIER, Key, Shape};

pub(super) static PARALLEL: VerbSpec = VerbSpec {
    word: "parallel",
    what: "a `parallel` step",
    about: "Runs named lists of steps in parallel. Its result has each list's last result under its name.",
    marks: &["parallel"],
    keys: &[Key::required(
        "parallel",
        Shape::NonEmptyMapOf(IDENTIFIER, &Shape::Steps),
        "The lists by name: `{pages: [steps], comments: [steps]}`.",
    )],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    if let Some(node) = step.take("parallel").node()
        && let Kind::List(items) = &node.kind
    {
        let message = "expected a mapping for `parallel`, found a list";
        step.diagnostics().push(
            Diagnostic::error("wrong-type", message, node.head())
                .help("name each list of steps: `parallel: {first: [steps], second: [steps]}`"),
        );
        return Some(Verb::Parallel(step.nameless_blocks(items)));
    }
    step.blocks("parallel", "a branch").map(Verb::Parallel)
}
