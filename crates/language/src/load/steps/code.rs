//! `code`: runs JavaScript.

use model::automation::Verb;

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::code;
use crate::load::keys::Key;

pub(super) static CODE: VerbSpec = VerbSpec {
    word: "code",
    what: "a `code` step",
    about: "Runs JavaScript: a module whose default export is a function of `(context, stepResults)`. Its result is what \
            the function returns; of `{data}` it is the data.",
    marks: &["code"],
    keys: &[Key::required(
        "code",
        code::SHAPE,
        "The module: `export default async (context, stepResults) => …`, or `{file: ./name.js}`. Its text is not interpolated.",
    )],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    code::lower(step.take("code"), step.diagnostics()).map(Verb::Code)
}
