//! Test files: `order-to-page.test.yaml`.

mod case;
mod expect;
mod pattern;
mod start;
mod stimulus;
mod stub;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::automation::{AutomationId, SpannedName};
use model::test_suite::{Stub, Suite};
use text::diagnostic::{Diagnostic, Diagnostics, Source, Span};
use text::yaml::{Field, MapReader, Node};
use value::Value;
use value::instant::Instant;

use super::Partial;
use super::common::{inner, named, no_expression, shorten};
use super::keys::{ANY_NAME, AUTOMATION_ID, Choice, Key, Object, Shape};
use super::partial::Unreadable;
use super::template::literal;

/// The maximum number of tests of a file.
const MAX_CASES: usize = 1000;

pub(crate) static SUITE: Object = Object {
    what: "a file of tests",
    keys: &[
        Key::new(
            "automation",
            Shape::Pattern(AUTOMATION_ID),
            "The id of the tested automation. Default: the file's name without `.test.yaml`.",
        ),
        Key::new("description", Shape::Text, "The description, for people."),
        NOW,
        SECRETS,
        ENV,
        STATE,
        DOUBLES,
        Key::required("tests", Shape::List(&Shape::Object(&case::CASE)), "The tests."),
    ],
    choice: Choice::Any,
};

/// The keys that replace the outside world: for the whole file, and for one test.
const NOW: Key = Key::new(
    "now",
    Shape::NonBlankText,
    "The time of the test's clock at the start, such as `2026-03-01T09:00:00Z`; it advances only while everything waits. Default: \
     2026-01-01T00:00:00Z, and for an instant of a schedule that instant.",
);
const SECRETS: Key = Key::new(
    "secrets",
    Shape::MapOf(ANY_NAME, &Shape::Text),
    "The secrets, by name. Those of this machine are not used.",
);
const ENV: Key = Key::new(
    "env",
    Shape::MapOf(ANY_NAME, &Shape::Text),
    "The environment variables. Those of this machine are not used.",
);
const STATE: Key = Key::new(
    "state",
    Shape::MapOf(ANY_NAME, &Shape::Template),
    "The state from earlier executions: `state.<key>`.",
);
const DOUBLES: Key = Key::new(
    "doubles",
    Shape::MapOf(ANY_NAME, &ANSWERS),
    "Answers in place of actions: by the name of an action (`wiki.createPage`) or the id of a step \
     (`createPage`), one answer for every call or a list of answers.",
);

static ANSWERS: Shape = Shape::OneOrMore(&ANSWER);
static ANSWER: Shape = Shape::Object(&stub::ANSWER);

/// The replacements for the outside world, as read.
struct Environment {
    now: Option<Timestamp>,
    secrets: BTreeMap<String, String>,
    env: BTreeMap<String, String>,
    state: Vec<(SpannedName, Value)>,
    doubles: Vec<Stub>,
}

pub(super) fn read(
    node: &Node,
    stem: &str,
    source: Arc<Source>,
    diagnostics: &Diagnostics,
) -> Option<Partial<Suite>> {
    let mut reader = SUITE.open(node, diagnostics)?;
    let automation = automation(reader.take("automation"), stem, node, diagnostics);
    // Only checks that it is text.
    let _ = reader.take("description").string();
    let environment = Environment::read(&mut reader, false, diagnostics);
    let tests = reader.take("tests");
    let mut cases = Vec::new();
    let items = tests.items().unwrap_or_default();
    if tests.is_present() && items.is_empty() && tests.list().is_some() {
        tests.error("empty-list", "a file of tests needs at least one test");
    }
    if items.len() > MAX_CASES {
        tests.error("out-of-range", format!("a file may have at most {MAX_CASES} tests"));
    }
    for item in items.iter().take(MAX_CASES).filter_map(|item| item.node()) {
        if let Some(case) = case::read(item, &environment, diagnostics) {
            check_name(&case.name, &cases, diagnostics);
            cases.push(case);
        }
    }
    reader.finish();
    Some(Partial { value: Suite { automation, cases, source }, unreadable: Unreadable::new() })
}

/// The id of the automation: the value of `automation`, else the file stem.
fn automation(field: Field<'_, '_>, stem: &str, node: &Node, diagnostics: &Diagnostics) -> SpannedName {
    let given = named(field, diagnostics);
    if let Some(named) = &given
        && AutomationId::parse(&named.name).is_none()
    {
        let message = format!("`{}` is no id of an automation", shorten(&named.name));
        let near = AutomationId::suggest(&named.name).map(|near| near.to_string());
        diagnostics.push(
            Diagnostic::error("invalid-id", message, named.span)
                .help("an id has small letters, digits and `-`, and begins with a letter or digit")
                .nearest(near),
        );
    }
    given.unwrap_or_else(|| SpannedName { name: stem.to_owned(), span: Span::at(node.span.start as usize) })
}

/// Rejects a duplicate test name, which reports could not distinguish.
fn check_name(name: &SpannedName, before: &[model::test_suite::Case], diagnostics: &Diagnostics) {
    if let Some(first) = before.iter().find(|case| case.name.name == name.name) {
        let message = format!("there is another test called `{}`", shorten(&name.name));
        diagnostics.push(
            Diagnostic::error("duplicate-id", message, name.span)
                .related(first.name.span, "the first one")
                .help("say in each name what that test shows"),
        );
    }
}

impl Environment {
    fn read(reader: &mut MapReader<'_, '_>, own: bool, diagnostics: &Diagnostics) -> Self {
        Self {
            now: instant(reader.take("now"), diagnostics),
            secrets: texts(reader.take("secrets"), "secrets", diagnostics),
            env: texts(reader.take("env"), "env", diagnostics),
            state: values(reader.take("state"), diagnostics),
            doubles: stub::read(reader.take("doubles"), own, diagnostics),
        }
    }

    /// The test's own keys, which take precedence over those of the file.
    fn over(self, file: &Self) -> Self {
        let mut state = self.state;
        let more = file.state.iter().filter(|(key, _)| !state.iter().any(|(own, _)| own.name == key.name));
        let more: Vec<_> = more.cloned().collect();
        state.extend(more);
        let mut doubles = self.doubles;
        let more =
            file.doubles.iter().filter(|double| !doubles.iter().any(|own| own.target == double.target));
        let more: Vec<_> = more.cloned().collect();
        doubles.extend(more);
        Self {
            now: self.now.or(file.now),
            secrets: file.secrets.clone().into_iter().chain(self.secrets).collect(),
            env: file.env.clone().into_iter().chain(self.env).collect(),
            state,
            doubles,
        }
    }
}

/// An instant, with its offset from UTC.
fn instant(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Timestamp> {
    let text = field.text()?;
    if !no_expression(text, diagnostics) {
        return None;
    }
    match Instant::parse(&text.value) {
        Some(instant) => Some(instant.to_timestamp()),
        None => {
            let message = format!("`{}` is no instant", shorten(&text.value));
            diagnostics.push(Diagnostic::error("invalid-instant", message, inner(text)).help(
                "write date, time and zone, like `2026-03-01T09:00:00Z` or `2026-03-01T10:00:00+01:00`",
            ));
            None
        }
    }
}

/// The findings of a test suite without those about dates: YAML 1.1 has a type for them, but suites read them as
/// text.
pub(super) fn doubtful(found: Vec<Diagnostic>, source: &Source) -> Vec<Diagnostic> {
    let is_instant = |place: Span| Instant::parse(source.slice(place)).is_some();
    found.into_iter().filter(|found| found.code != "yaml-surprise" || !is_instant(found.span)).collect()
}

/// A mapping of names to texts.
fn texts(field: Field<'_, '_>, what: &'static str, diagnostics: &Diagnostics) -> BTreeMap<String, String> {
    let entries = field.entries().into_iter().flatten();
    let read = entries.filter_map(|entry| {
        let text = Field::new(&entry.value, what, diagnostics).text()?;
        Some((entry.key.clone(), text.value.clone()))
    });
    read.collect()
}

/// A mapping of names to values without expressions.
fn values(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<(SpannedName, Value)> {
    let entries = field.entries().into_iter().flatten();
    let read = entries.map(|entry| {
        let name = SpannedName { name: entry.key.clone(), span: entry.key_span };
        (name, literal(&entry.value, "a value of a test", diagnostics))
    });
    read.collect()
}

#[cfg(test)]
mod tests;
