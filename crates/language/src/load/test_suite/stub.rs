//! Lowering of stubs, which answer in place of actions.

use std::time::Duration;

use model::action::ErrorKind;
use model::test_suite::{Stub, StubError, StubOutcome, StubResponse, Target};
use text::diagnostic::{Diagnostics, nearest};
use text::yaml::{Entry, Field, MapReader, Node};

use super::super::common::duration_within;
use super::super::keys::{Choice, IDENTIFIER, Key, Object, Shape, is_identifier};
use super::super::template::{literal, template};
use super::pattern;

/// The maximum duration of a call in a test: one day.
const LONGEST: Duration = Duration::from_secs(86_400);
/// The maximum number of calls that one answer is for.
const MOST_TIMES: i64 = 1_000_000;

pub(super) static ANSWER: Object = Object {
    what: "an answer of a double",
    keys: &[
        Key::new(
            "result",
            Shape::Template,
            "The result of the action. Expressions read `inputs`, those of the call, and `index`, the number of earlier calls.",
        ),
        Key::new("error", Shape::Object(&ERROR), "The error that the action fails with."),
        Key::new("when", Shape::Template, "The calls that it answers, by their inputs. Default: any."),
        Key::new(
            "times",
            Shape::Integer(1, MOST_TIMES),
            "The number of calls that it answers. Default: any number; in a list, one, unless there is a `when`.",
        ),
        Key::new("takes", Shape::Duration, "The duration of the call on the test's clock. Default: no time."),
    ],
    choice: Choice::ExactlyOne(&["result", "error"]),
};

/// The kinds of errors that the engine gives an action or a `call`.
const KINDS: [&str; 9] =
    ["status", "network", "timeout", "response", "input", "connection", "blocked", "limit", "failed"];

static ERROR: Object = Object {
    what: "an error of a double",
    keys: &[
        Key::new(
            "kind",
            Shape::AnyOf(&[Shape::Enum(&KINDS), Shape::Pattern(IDENTIFIER)]),
            "`error.kind`: one of the engine's, or one that the `fail` of a called automation gives. Default: status where one is given, else network.",
        ),
        Key::new("status", Shape::Integer(100, 599), "`error.status`: the status of the answer."),
        Key::new(
            "message",
            Shape::NonBlankText,
            "`error.message`. Default: one that says that it is a double's.",
        ),
        Key::new("code", Shape::NonBlankText, "`error.code`: the code of the other system."),
        Key::new("body", Shape::Template, "`error.body`: the body of the answer."),
        Key::new(
            "data",
            Shape::Template,
            "`error.data`: the data that the `fail` of a called automation gives.",
        ),
        Key::new("retryAfter", Shape::Duration, "The `Retry-After` of the other system."),
    ],
    choice: Choice::Any,
};

pub(super) fn read(field: Field<'_, '_>, own: bool, diagnostics: &Diagnostics) -> Vec<Stub> {
    field.entries().into_iter().flatten().map(|entry| double(entry, own, diagnostics)).collect()
}

fn double(entry: &Entry, own: bool, diagnostics: &Diagnostics) -> Stub {
    let field = Field::new(&entry.value, "doubles", diagnostics);
    let listed = entry.value.as_list().is_some();
    if entry.value.as_list().is_some_and(<[Node]>::is_empty) {
        field.error("empty-list", format!("`{}` has no answer", entry.key));
    }
    let items = field.one_or_more().unwrap_or_default();
    let nodes = items.into_iter().filter_map(Field::node);
    Stub {
        target: Target::parse(&entry.key),
        span: entry.key_span,
        own,
        answers: nodes.filter_map(|node| answer(node, listed, diagnostics)).collect(),
    }
}

fn answer(node: &Node, listed: bool, diagnostics: &Diagnostics) -> Option<StubResponse> {
    let mut reader = ANSWER.open(node, diagnostics)?;
    let when = reader.take("when").node().map(|node| pattern::read(node, diagnostics));
    let times = reader.take("times").integer(1..=MOST_TIMES).and_then(|times| u32::try_from(times).ok());
    let takes = duration_within(reader.take("takes"), "takes", &(Duration::ZERO..=LONGEST), diagnostics);
    let reply = reply(&mut reader, diagnostics);
    reader.finish();
    // Answers in a list are used in order; an answer with `when` is a rule for all calls that match it.
    let once = listed && when.is_none();
    Some(StubResponse {
        span: node.head(),
        times: times.or(once.then_some(1)),
        when,
        takes: takes.unwrap_or_default(),
        reply: reply?,
    })
}

fn reply(reader: &mut MapReader<'_, '_>, diagnostics: &Diagnostics) -> Option<StubOutcome> {
    let [result, error] = ["result", "error"].map(|key| reader.take(key));
    if let Some(node) = result.node() {
        return Some(StubOutcome::Result(template(node, diagnostics)));
    }
    let mut reader = ERROR.open(error.node()?, diagnostics)?;
    let status = reader.take("status").integer(100..=599).and_then(|status| u16::try_from(status).ok());
    let usual = if status.is_some() { ErrorKind::Status } else { ErrorKind::Network };
    let failure = StubError {
        kind: kind(reader.take("kind")).unwrap_or(usual),
        status,
        message: reader.take("message").name().map(str::to_owned),
        code: reader.take("code").name().map(str::to_owned),
        body: reader.take("body").node().map(|node| literal(node, "the body of an error", diagnostics)),
        data: reader.take("data").node().map(|node| literal(node, "the data of an error", diagnostics)),
        retry_after: reader.take("retryAfter").duration(),
    };
    reader.finish();
    Some(StubOutcome::Error(Box::new(failure)))
}

/// A kind of error: one of the engine's, or one of an author. A misspelt kind of the engine is reported.
fn kind(field: Field<'_, '_>) -> Option<ErrorKind> {
    let name = field.name()?;
    let is_own = is_identifier(name) && !ErrorKind::NAMES.contains(&name) && nearest(name, KINDS).is_none();
    if is_own {
        Some(name.into())
    } else {
        field.one_of(&KINDS.map(|name| (name, name))).map(ErrorKind::from)
    }
}
