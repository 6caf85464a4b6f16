//! `stop` and `fail`: end an execution.

use expression::template::Template;
use model::automation::Verb;

use super::VerbSpec;
use super::reader::StepReader;
use super::respond::{RESPONSE, empty_response, response};
use crate::load::keys::{Choice, Key, Object, Shape};
use crate::load::template::template;

static STOP_KEYS: Object = Object {
    what: "a stop",
    keys: &[
        Key::new("result", Shape::Template, "The execution's result. Default: null."),
        Key::new(
            "respond",
            Shape::Object(&RESPONSE),
            "The answer to the caller of a synchronous webhook, as of `respond`.",
        ),
    ],
    choice: Choice::Any,
};

pub(super) static STOP: VerbSpec = VerbSpec {
    word: "stop",
    what: "a `stop` step",
    about: "Ends the execution successfully, from any depth.",
    marks: &["stop"],
    keys: &[Key::required(
        "stop",
        Shape::Object(&STOP_KEYS),
        "The end: `{result: …}`, which takes the place of `outputs`, `{respond: …}`, which answers the caller first, both, or `{}`.",
    )],
    lower: lower_stop,
};

pub(super) static FAIL: VerbSpec = VerbSpec {
    word: "fail",
    what: "a `fail` step",
    about: "Fails with a message of your own.",
    marks: &["fail"],
    keys: &[Key::required(
        "fail",
        Shape::NonBlankText,
        "The message of the error; may contain `${{ }}`. In `onError` it replaces the message of the handled error, whose kind, status and body stay; `${{ error }}` passes on an error unchanged.",
    )],
    lower: lower_fail,
};

fn lower_stop(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let diagnostics = step.diagnostics();
    let Some(mut reader) = step.object("stop", &STOP_KEYS) else {
        return Some(Verb::Stop { result: Template::null(), respond: None });
    };
    let result = reader.take("result").node().map_or_else(Template::null, |node| template(node, diagnostics));
    let respond = reader
        .take("respond")
        .node()
        .map(|node| Box::new(RESPONSE.open(node, diagnostics).map_or_else(empty_response, response)));
    reader.finish();
    Some(Verb::Stop { result, respond })
}

fn lower_fail(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let field = step.take("fail");
    let node = field.node().filter(|_| field.name().is_some());
    let message = node.map_or_else(Template::null, |node| template(node, step.diagnostics()));
    Some(Verb::Fail { message })
}
