//! `wait` and `waitFor`: durable waits.

use std::time::Duration;

use expression::Expression;
use expression::template::Template;
use model::automation::{Approval, OnTimeout, Verb, WaitForStep, WaitOn, WaitStep};
use text::diagnostic::{Diagnostic, Diagnostics};
use text::units;
use text::yaml::{Field, Kind, Map, MapReader};

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::common::{MAX_NAME, duration_within, shorten};
use crate::load::inputs::{DECLARED, form, short_form};
use crate::load::keys::{Choice, IDENTIFIER, Key, Object, Shape};
use crate::load::template::{computed, condition as condition_of, expression, template};

/// The maximum number of options of an approval.
const MAX_OPTIONS: usize = 20;
/// The default options.
const OPTIONS: [&str; 2] = ["approve", "reject"];

static UNTIL: Object = Object {
    what: "a wait",
    keys: &[Key::required(
        "until",
        Shape::Expression,
        "The instant: RFC 3339 text such as the result of `parseDate`, or seconds since 1970. An instant in the past does not wait.",
    )],
    choice: Choice::Any,
};

static APPROVAL: Object = Object {
    what: "an approval",
    keys: &[
        Key::required("message", Shape::NonBlankText, "The message; may contain `${{ }}`."),
        Key::new(
            "options",
            Shape::List(&Shape::NonBlankText),
            "The options to choose from. Default: [approve, reject].",
        ),
        Key::new(
            "form",
            Shape::MapOf(IDENTIFIER, &DECLARED),
            "The fields of the form, each with its type: `{reason: {type: text, required: true}}`, or the type alone.",
        ),
    ],
    choice: Choice::Any,
};

static WAIT_FOR_KEYS: Object = Object {
    what: "a `waitFor`",
    keys: &[
        Key::new(
            "event",
            Shape::NonBlankText,
            "The name of an event that `events.emit`, the resume address or the API sends; may contain `${{ }}`.",
        ),
        Key::new(
            "if",
            Shape::Expression,
            "A condition on events of that name: an expression that reads `event.data` and `event.name`. Default: any.",
        ),
        Key::new(
            "since",
            Shape::Duration,
            "With `event`: events also count that were sent up to this long before the execution was accepted, at most 7d. Default: 0s.",
        ),
        Key::new("approval", Shape::Object(&APPROVAL), "A person's answer, given at `execution.resumeUrl`."),
        Key::new(
            "until",
            Shape::Expression,
            "The instant at which the wait ends, in place of `timeout`: RFC 3339 text such as the result of `parseDate`, or seconds since 1970.",
        ),
    ],
    choice: Choice::ExactlyOne(&["event", "approval"]),
};

pub(super) static WAIT: VerbSpec = VerbSpec {
    word: "wait",
    what: "a `wait` step",
    about: "Pauses; a restart does not end the pause. It does not count against the execution's `timeout`.",
    marks: &["wait"],
    keys: &[Key::required(
        "wait",
        Shape::AnyOf(&[Shape::Duration, Shape::WrappedExpression, Shape::Object(&UNTIL)]),
        "The duration: `10s`, an expression in `${{ }}` that returns such a text, or `{until: expression}`.",
    )],
    lower: lower_wait,
};

pub(super) static WAIT_FOR: VerbSpec = VerbSpec {
    word: "waitFor",
    what: "a `waitFor` step",
    about: "Pauses until an event or a person's answer arrives; `timeout` limits it. Its result is the event's data, or \
            the answer `{option, form}`.",
    marks: &["waitFor"],
    keys: &[
        Key::required(
            "waitFor",
            Shape::Object(&WAIT_FOR_KEYS),
            "The event or approval: `{event: name, if: expression, since: 5m}` or `{approval: {message, options, form}}`; with either `until`.",
        ),
        Key::new(
            "onTimeout",
            Shape::Enum(&["fail", "continue"]),
            "What happens after `timeout` or at `until`: the step fails (default), or its result is null.",
        ),
    ],
    lower: lower_wait_for,
};

fn lower_wait(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let field = step.take("wait");
    let diagnostics = step.diagnostics();
    let node = field.node()?;
    let wait = match &node.kind {
        Kind::Map(map) if let Some(length) = length_in_units(map) => {
            let message = "a pause is one text, a number with its unit";
            diagnostics.push(
                Diagnostic::error("wrong-type", message, node.head())
                    .help(format!("write `wait: {length}`"))
                    .replace(node.span, length),
            );
            WaitStep::For(Duration::ZERO)
        }
        Kind::Map(_) => {
            let mut reader = UNTIL.open(node, diagnostics)?;
            let until = reader.take("until").node().and_then(|node| expression(node, "until", diagnostics));
            reader.finish();
            WaitStep::Until(until.unwrap_or_else(|| step.placeholder_expression("wait")))
        }
        Kind::String(text) if text.value.contains("${{") => WaitStep::Computed(Template::Expression(
            computed(node, "wait", diagnostics).unwrap_or_else(|| step.placeholder_expression("wait")),
        )),
        _ => {
            let length = duration_within(field, "wait", &(Duration::ZERO..=WaitStep::MAX), diagnostics);
            WaitStep::For(length.unwrap_or_default())
        }
    };
    Some(Verb::Wait(wait))
}

/// The duration written as `{minutes: 5, seconds: 30}`.
fn length_in_units(map: &Map) -> Option<String> {
    let parts = map.iter().map(|entry| Some(format!("{} {}", entry.value.as_integer()?, entry.key)));
    let parts = parts.collect::<Option<Vec<_>>>().filter(|parts| !parts.is_empty())?;
    units::suggest_duration(&parts.join(" "))
}

fn lower_wait_for(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let diagnostics = step.diagnostics();
    let on_timeout = step
        .take("onTimeout")
        .one_of(&[("fail", OnTimeout::Fail), ("continue", OnTimeout::Continue)])
        .unwrap_or_default();
    let (on, until) = match step.object("waitFor", &WAIT_FOR_KEYS) {
        Some(mut reader) => {
            let on = wait_on(&mut reader, step, diagnostics);
            let until = reader.take("until").node();
            let until = until.map(|node| {
                expression(node, "until", diagnostics)
                    .unwrap_or_else(|| step.placeholder_expression("waitFor"))
            });
            let until = until.map(|until| (until, reader.key_span("until")));
            reader.finish();
            (on, until)
        }
        None => (None, None),
    };
    let has_timeout = step.take("timeout").is_present();
    if let Some((_, span)) = until.as_ref().filter(|_| has_timeout) {
        let message = "`until` and `timeout` both end this wait";
        let help =
            "remove one of the two: `until` is an instant, `timeout` counts from the start of the step";
        diagnostics.push(
            Diagnostic::error("conflicting-keys", message, *span)
                .related(step.key_span("timeout"), "the other one")
                .help(help),
        );
    }
    if step.take("onTimeout").is_present() && !has_timeout && until.is_none() {
        let message = "`onTimeout` has no effect without a timeout";
        let span = step.key_span("onTimeout");
        diagnostics.push(Diagnostic::error("unused-setting", message, span).help("add `timeout: 2d`"));
    }
    let on = on.unwrap_or_else(|| {
        step.note("verb");
        WaitOn::Event { name: Template::null(), condition: None, since: None }
    });
    Some(Verb::WaitFor(Box::new(WaitForStep { on, until: until.map(|(until, _)| until), on_timeout })))
}

fn wait_on(
    reader: &mut MapReader<'_, '_>,
    step: &mut StepReader<'_, '_, '_>,
    diagnostics: &Diagnostics,
) -> Option<WaitOn> {
    let condition = reader.take("if");
    let approval = reader.take("approval").node();
    let since = duration_within(
        reader.take("since"),
        "since",
        &(Duration::ZERO..=WaitForStep::MAX_SINCE),
        diagnostics,
    );
    if approval.is_some() && reader.take("since").is_present() {
        let message = "`since` counts among events; an approval is asked anew";
        let span = reader.key_span("since");
        diagnostics.push(Diagnostic::error("conflicting-keys", message, span).help("remove `since`"));
    }
    if approval.is_some() && condition.is_present() {
        let message = "`if` chooses among events; an approval has none";
        let span = reader.key_span("if");
        diagnostics.push(
            Diagnostic::error("conflicting-keys", message, span)
                .help("put a condition on the step itself, beside `waitFor`"),
        );
    }
    if let Some(node) = approval {
        let mut reader = APPROVAL.open(node, diagnostics)?;
        let field = reader.take("message");
        let message = field.node().filter(|_| field.name().is_some());
        let message = message.map_or_else(Template::null, |node| template(node, diagnostics));
        let options = options(reader.take("options"), diagnostics);
        let short_form = short_form(reader.take("form")).is_some();
        let form = form(reader.take("form"), step.unreadable(), diagnostics);
        reader.finish();
        return Some(WaitOn::Approval(Approval { message, options, form, short_form }));
    }
    let field = reader.take("event");
    let name = field.node().filter(|_| field.name().is_some()).map(|node| template(node, diagnostics))?;
    let condition: Option<Expression> = condition.node().map(|node| {
        condition_of(node, "if", diagnostics).unwrap_or_else(|| step.placeholder_expression("waitFor"))
    });
    Some(WaitOn::Event { name, condition, since })
}

fn options(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<String> {
    let usual = || OPTIONS.map(str::to_owned).to_vec();
    let Some(items) = field.items() else { return usual() };
    let mut options: Vec<String> = Vec::with_capacity(items.len());
    for item in &items {
        let Some(text) = item.name() else { continue };
        let span = item.span().unwrap_or_default();
        if text.len() > MAX_NAME {
            let message = format!("the answer `{}` is longer than {MAX_NAME} bytes", shorten(text));
            diagnostics.push(Diagnostic::error("out-of-range", message, span));
        } else if options.iter().any(|other| other == text) {
            let message = format!("the answer `{}` is named twice", shorten(text));
            diagnostics.push(Diagnostic::warning("duplicate-value", message, span));
        } else {
            options.push(text.to_owned());
        }
    }
    if items.is_empty() {
        field.error("empty-list", "`options` has nothing to choose from");
    }
    if options.len() > MAX_OPTIONS {
        field.error("out-of-range", format!("there may be at most {MAX_OPTIONS} answers to choose from"));
    }
    if options.is_empty() { usual() } else { options }
}
