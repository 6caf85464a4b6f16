//! `stop` and `fail`: end an execution.

use expression::template::Template;
use model::action::ErrorKind;
use model::automation::{FailStep, Verb};
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Field, MapReader};
use value::Value;

use super::VerbSpec;
use super::reader::StepReader;
use super::respond::{RESPONSE, empty_response, response};
use crate::load::common::{MAX_NAME, named, shorten};
use crate::load::keys::{Choice, IDENTIFIER, Key, Object, Shape, is_identifier};
use crate::load::template::{holds_expression, template};

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

static FAIL_KEYS: Object = Object {
    what: "a fail",
    keys: &[
        Key::required(
            "message",
            Shape::NonBlankText,
            "The message of the error; may contain `${{ }}`. `${{ error }}` passes on an error, with the other keys in place of its own.",
        ),
        Key::new(
            "kind",
            Shape::Pattern(IDENTIFIER),
            "`error.kind`: a name of your own, such as outOfStock. Default: failed; in `onError` that of the handled error.",
        ),
        Key::new(
            "status",
            Shape::AnyOf(&[Shape::Integer(100, 599), Shape::WrappedExpression]),
            "`error.status`, 100 to 599.",
        ),
        Key::new("code", Shape::NonBlankText, "`error.code`."),
        Key::new("data", Shape::Template, "`error.data`: any value, at most 64 KiB."),
        Key::new(
            "respond",
            Shape::Object(&RESPONSE),
            "The answer to the caller of a synchronous webhook in place of 500, as of `respond`; sent at once.",
        ),
    ],
    choice: Choice::Any,
};

pub(super) static FAIL: VerbSpec = VerbSpec {
    word: "fail",
    what: "a `fail` step",
    about: "Fails with an error of your own.",
    marks: &["fail"],
    keys: &[Key::required(
        "fail",
        Shape::AnyOf(&[Shape::NonBlankText, Shape::Object(&FAIL_KEYS)]),
        "The message of the error, which may contain `${{ }}`, or `{message, kind, status, code, data, respond}`. In `onError` it replaces the message of the handled error, whose other fields stay; `${{ error }}` passes on an error unchanged.",
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
    let diagnostics = step.diagnostics();
    if step.take("fail").node().is_some_and(|node| node.as_map().is_some()) {
        let fail = step.object("fail", &FAIL_KEYS).map(|reader| fail_map(reader, diagnostics));
        return Some(Verb::Fail(Box::new(fail.unwrap_or_else(|| FailStep::new(Template::null())))));
    }
    Some(Verb::Fail(Box::new(FailStep::new(message(step.take("fail"), diagnostics)))))
}

/// A message; a placeholder if it could not be read.
fn message(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Template {
    let node = field.node().filter(|_| field.name().is_some());
    node.map_or_else(Template::null, |node| template(node, diagnostics))
}

fn fail_map(mut reader: MapReader<'_, '_>, diagnostics: &Diagnostics) -> FailStep {
    let message = message(reader.take("message"), diagnostics);
    let kind = own_kind(reader.take("kind"), diagnostics);
    let status = reader.take("status");
    let status = match status.node() {
        Some(node) if node.as_str().is_some() && holds_expression(node) => Some(template(node, diagnostics)),
        _ => status.integer(100..=599).map(|status| Template::Literal(Value::from(status))),
    };
    let code = reader.take("code");
    let code = code.node().filter(|_| code.name().is_some()).map(|node| template(node, diagnostics));
    let data = reader.take("data").node().map(|node| template(node, diagnostics));
    let respond = reader.take("respond").node();
    let respond = respond.map(|node| RESPONSE.open(node, diagnostics).map_or_else(empty_response, response));
    reader.finish();
    FailStep { is_map: true, message, kind, status, code, data, respond }
}

/// A kind of the author. Those of the engine say what the engine found, so that a handler may rely on it.
fn own_kind(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<ErrorKind> {
    let named = named(field, diagnostics)?;
    let kind = ErrorKind::from(named.name.as_str());
    if !matches!(kind, ErrorKind::Custom(_) | ErrorKind::Failed) {
        let message = format!("`{}` is a kind of the engine's own errors", named.name);
        diagnostics.push(Diagnostic::error("reserved-kind", message, named.span).help(
            "choose a name of your own, such as `outOfStock`, or leave it out: the kind is then `failed`",
        ));
        return None;
    }
    if named.name.len() > MAX_NAME || !is_identifier(&named.name) {
        let message = format!("`{}` cannot be the kind of an error", shorten(&named.name));
        diagnostics.push(Diagnostic::error("invalid-name", message, named.span).help(
            "a kind has letters, digits and `_`, begins with no digit, and has at most 100 characters",
        ));
        return None;
    }
    Some(kind)
}
