//! `parallel`: named lists of steps that run concurrently.

use model::automation::{Automation, ParallelStep, Verb};
use text::diagnostic::Diagnostic;
use text::yaml::Kind;

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::keys::{IDENTIFIER, Key, Shape};
use crate::load::policy::small;

pub(super) static PARALLEL: VerbSpec = VerbSpec {
    word: "parallel",
    what: "a `parallel` step",
    about: "Runs named lists of steps in parallel. Its result has each list's last result under its name.",
    marks: &["parallel"],
    keys: &[
        Key::required(
            "parallel",
            Shape::NonEmptyMapOf(IDENTIFIER, &Shape::Steps),
            "The lists by name: `{pages: [steps], comments: [steps]}`.",
        ),
        Key::new(
            "enough",
            Shape::Integer(1, Automation::MAX_STEPS as i64),
            "The number of lists that must succeed, up to all of them. The step then ends, cuts off the others, and their results are null; it \
             fails once too few are left. Default: all lists, and the first failure ends the step.",
        ),
    ],
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
        return Some(Verb::Parallel(ParallelStep { branches: step.nameless_blocks(items), enough: None }));
    }
    let branches = step.blocks("parallel", "a branch")?;
    let lists = i64::try_from(branches.len()).unwrap_or(i64::MAX);
    let enough = step.take("enough").integer(1..=lists).map(small);
    Some(Verb::Parallel(ParallelStep { branches, enough }))
}
