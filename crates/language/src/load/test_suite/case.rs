//! One test.

use model::automation::SpannedName;
use model::test_suite::{Case, Expect, Start};
use text::diagnostic::Diagnostics;
use text::yaml::Node;

use super::super::common::{inner, named, plain};
use super::super::keys::{AUTOMATION_ID, Choice, IDENTIFIER, Key, Object, Shape};
use super::{DOUBLES, ENV, Environment, NOW, SECRETS, STATE, expect, start, stimulus};

/// The default start of the test clock: 2026-01-01T00:00:00Z.
const USUAL_NOW: i64 = 1_767_225_600;

pub(super) static CASE: Object = Object {
    what: "a test",
    keys: &[
        Key::required(
            "name",
            Shape::NonBlankText,
            "The rule that it shows: `an order without a quantity is refused`.",
        ),
        Key::new(
            "skip",
            Shape::NonBlankText,
            "The reason to skip it. It is still checked, and reported as skipped.",
        ),
        NOW,
        SECRETS,
        ENV,
        STATE,
        DOUBLES,
        Key::new(
            "trigger",
            Shape::Pattern(IDENTIFIER),
            "The id of the trigger that starts it. Required if several triggers can start in the way of the test.",
        ),
        Key::new("payload", Shape::Object(&start::PAYLOAD), "The request that starts a webhook."),
        Key::new("inputs", start::INPUTS, "The inputs of a manual start."),
        Key::new(
            "scheduledAt",
            Shape::NonBlankText,
            "The instant of the schedule. The test fails if the schedule does not fire then.",
        ),
        Key::new(
            "found",
            Shape::Template,
            "The records of the poll, or the data of the event: `trigger.results.body.data`. Of a poll a list, unless the trigger says `deliver: each`.",
        ),
        Key::new(
            "events",
            Shape::List(&Shape::Object(&stimulus::EVENT)),
            "Events that arrive while it runs, for `waitFor`.",
        ),
        Key::new(
            "approvals",
            Shape::List(&Shape::Object(&stimulus::APPROVAL)),
            "Answers of people while it runs, for `waitFor` with `approval`.",
        ),
        Key::new(
            "receivers",
            Shape::List(&Shape::Pattern(AUTOMATION_ID)),
            "The automations that the events start which it sends with `events.emit`; they run in the same test. Default: none, events are only recorded.",
        ),
        Key::new("cancel", Shape::Object(&stimulus::CANCEL), "Cancels it while it runs."),
        Key::new(
            "cassette",
            Shape::Pattern(r"^[A-Za-z0-9][A-Za-z0-9._-]*\.yaml$"),
            "The recording in the folder `cassettes` that answers HTTP requests; `cogwork test --record` writes it. The file's doubles are then not used.",
        ),
        Key::new(
            "expect",
            Shape::Object(&expect::EXPECT),
            "The expectations. Without them, that the execution succeeds.",
        ),
    ],
    choice: Choice::AtMostOne(&["payload", "inputs", "scheduledAt", "found"]),
};

pub(super) fn read(node: &Node, file: &Environment, diagnostics: &Diagnostics) -> Option<Case> {
    let mut reader = CASE.open(node, diagnostics)?;
    let field = reader.take("name");
    let name = plain(field, diagnostics).and_then(|_| field.text());
    let name = name.map_or_else(
        || SpannedName { name: String::new(), span: node.head() },
        |text| SpannedName { name: text.value.clone(), span: inner(text) },
    );
    let skip = reader.take("skip").name().map(str::to_owned);
    let own = Environment::read(&mut reader, true, diagnostics);
    let own_doubles = own.doubles.clone();
    let environment = own.over(file);
    let (start, start_span) = start::read(&mut reader, diagnostics).unwrap_or((Start::Default, name.span));
    let trigger = named(reader.take("trigger"), diagnostics);
    let stimuli = stimulus::read(&mut reader, diagnostics);
    let receivers = reader.take("receivers").items().unwrap_or_default();
    let receivers = receivers.into_iter().filter_map(|item| named(item, diagnostics)).collect();
    let cassette = named(reader.take("cassette"), diagnostics);
    let cassette = cassette.filter(|name| is_file_name(name, diagnostics));
    let expect = reader.take("expect").node();
    let expect = expect.and_then(|node| expect::read(node, diagnostics));
    let expect = expect.unwrap_or_else(|| Expect { span: name.span, ..Expect::default() });
    reader.finish();
    // A recording excludes the stubs of the whole file: the test shows how the real system responds.
    let doubles = if cassette.is_some() { own_doubles } else { environment.doubles };
    let usual = match &start {
        Start::ScheduledAt(at) => *at,
        _ => jiff::Timestamp::from_second(USUAL_NOW).unwrap_or_default(),
    };
    Some(Case {
        name,
        skip,
        trigger,
        start,
        start_span,
        now: environment.now.unwrap_or(usual),
        secrets: environment.secrets,
        env: environment.env,
        state: environment.state,
        doubles,
        stimuli,
        receivers,
        cassette,
        expect,
    })
}

/// True if the name of a recording is a plain file name; otherwise reports it.
fn is_file_name(name: &SpannedName, diagnostics: &Diagnostics) -> bool {
    let text = &name.name;
    let fine = text.ends_with(".yaml")
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= super::super::common::MAX_NAME
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !fine {
        let message = "a cassette is named by a file in the folder `cassettes`";
        diagnostics.push(
            text::diagnostic::Diagnostic::error("invalid-name", message, name.span)
                .help("write a file's name, like `order-to-page.yaml`: letters, digits, `.`, `_` and `-`"),
        );
    }
    fine
}
