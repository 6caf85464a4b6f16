//! `steps` alone: a group that shares a guard, a timeout, retries or an error list.

use model::automation::Verb;

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::keys::{Key, Shape};

pub(super) static GROUP: VerbSpec = VerbSpec {
    word: "steps",
    what: "a group",
    about: "Runs steps that share an `if`, a `timeout`, a `retry` or an `onError`. Its result is that of the last step.",
    marks: &["steps"],
    keys: &[Key::required("steps", Shape::Steps, "The steps.")],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    Some(Verb::Group(step.block("steps").unwrap_or_default()))
}
