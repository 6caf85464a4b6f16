//! `if` with `then` and `else`: branches.

use model::automation::{IfStep, Verb};

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::keys::{Key, Shape};

pub(super) static IF: VerbSpec = VerbSpec {
    word: "if",
    what: "an `if` step",
    about: "Branches by a condition. Its result is that of the last step of the branch that ran, or null.",
    marks: &["then", "else"],
    keys: &[
        Key::required("if", Shape::Expression, "The condition: an expression, without `${{ }}`."),
        Key::required("then", Shape::Steps, "The steps that run if it is true."),
        Key::new("else", Shape::Steps, "The steps that run if it is false."),
    ],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let condition = step.condition("if").unwrap_or_else(|| step.placeholder_expression("if"));
    let then = step.block("then");
    let otherwise = step.block("else");
    Some(Verb::If(IfStep { condition, then: then.unwrap_or_default(), otherwise }))
}
