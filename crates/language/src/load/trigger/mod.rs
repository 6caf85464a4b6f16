//! `trigger` and `triggers`: each has exactly one kind, with a condition beside it. A kind is one file here and one row of [`KINDS`].

mod body_schema;
mod challenge;
mod challenges;
mod event;
mod limits;
mod poll;
mod presets;
pub(super) mod schedule;
mod stream;
pub(super) mod verify;
pub(super) mod webhook;

pub use event::event_webhook;

use expression::template::Template;
use model::automation::{DeclaredTrigger, SpannedName, Trigger, TriggerId};
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Entry, Field, MapReader, Node};

use super::common::{entry_name, inner, no_expression, shorten};
use super::inputs;
use super::keys::{Choice, IDENTIFIER, Key, Object, Shape};
use super::template::{condition, template};

/// A kind of trigger.
struct Kind {
    word: &'static str,
    /// Lowers the value of the kind's key and the keys beside it.
    lower: fn(&Node, &mut MapReader<'_, '_>, &Diagnostics) -> Option<Trigger>,
}

const KINDS: [Kind; 5] = [
    Kind { word: "webhook", lower: |node, _, diagnostics| webhook::lower(node, diagnostics) },
    Kind { word: "schedule", lower: |node, _, diagnostics| schedule::lower(node, diagnostics) },
    Kind { word: "event", lower: event::lower },
    Kind { word: "poll", lower: |node, _, diagnostics| poll::lower(node, diagnostics) },
    Kind { word: "manual", lower: |node, _, diagnostics| manual(node, diagnostics) },
];

/// The keys of a trigger.
const KEYS: [Key; 18] = [
    Key::new(
        "webhook",
        Shape::Optional(&WEBHOOK),
        "Started by a request on the automation's own address, live or test.",
    ),
    Key::new("schedule", Shape::Object(&schedule::SCHEDULE), "Started by the clock."),
    Key::new(
        "event",
        Shape::NonBlankText,
        "Started by an event of another application, `connector.event` such as `wiki.pageChanged`; or by an own event of any other name, such as \
         `order.paid`, that `events.emit` or the API sends.",
    ),
    Key::new("poll", Shape::Object(&poll::POLL), "Started by new data in the results of an action."),
    Key::new(
        "manual",
        Shape::Optional(&MANUAL),
        "Started by a person, the command line or the API. Takes no settings: `manual: {}`.",
    ),
    Key::new(
        "if",
        Shape::Expression,
        "A condition on the trigger: if it is false, no execution starts. Reads `trigger`, `configVars` and `automation`; with an own event also \
         `event`.",
    ),
    Key::new(
        "data",
        Shape::MapOf(IDENTIFIER, &inputs::DECLARED),
        "With an own `event`: the data that the automation reads, each field with its type, in the form of `inputs`. Default: any data.",
    ),
    Key::new(
        "connection",
        Shape::NonBlankText,
        "With `event`: the connection to the application, the name of a file in `connections/`.",
    ),
    Key::new(
        "with",
        poll::WITH,
        "With `event`: its inputs. Values may contain `${{ }}`, which read `configVars`.",
    ),
    Key::new(
        "every",
        Shape::Duration,
        "With a polled `event`: the interval, at least 1s. Default: as its connector says.",
    ),
    poll::START,
    poll::DELIVER,
    stream::BATCH,
    stream::POISON,
    stream::CONSUMERS,
    stream::DEDUP,
    Key::new(
        "inputs",
        Shape::MapOf(IDENTIFIER, &Shape::Template),
        "What it gives the `inputs` of the automation. Values may contain `${{ }}`, which read what `if` reads.",
    ),
    Key::new("enabled", Shape::Bool, "`false`: it starts nothing. Default: true."),
];

const CHOICE: Choice = Choice::ExactlyOne(&["webhook", "schedule", "event", "poll", "manual"]);

pub(crate) static TRIGGER: Object = Object { what: "a trigger", keys: &KEYS, choice: CHOICE };

/// A trigger in the list `triggers`.
static LISTED: Object = Object { what: "a trigger", keys: &LISTED_KEYS, choice: CHOICE };

const LISTED_KEYS: [Key; KEYS.len() + 1] = {
    let id = Key::required(
        "id",
        Shape::Pattern(IDENTIFIER),
        "Identifies the trigger in its file: its address and its position belong to it. `main` is the id of the key `trigger`.",
    );
    let mut keys = [id; KEYS.len() + 1];
    let mut at = 0;
    while at < KEYS.len() {
        keys[at + 1] = KEYS[at];
        at += 1;
    }
    keys
};

/// The list of triggers.
pub(crate) const TRIGGERS: Shape = Shape::List(&Shape::Object(&LISTED));

/// The maximum number of triggers of a file.
const MAX_TRIGGERS: usize = 20;

static WEBHOOK: Shape = Shape::Object(&webhook::WEBHOOK);
static MANUAL: Shape = Shape::Object(&NO_KEYS);
static NO_KEYS: Object = Object { what: "a manual trigger", keys: &[], choice: Choice::Any };

/// The triggers of a file, as far as they were read.
#[derive(Default)]
pub(super) struct Triggers {
    pub(super) read: Vec<DeclaredTrigger>,
    /// True if all of them were read, with their modes.
    settled: bool,
}

impl Triggers {
    /// True if a caller can wait for the end of an execution.
    pub(super) fn is_sync(&self) -> bool {
        self.read.iter().any(|trigger| trigger.on.is_synchronous())
    }

    /// The triggers, if all of them and their modes are known.
    pub(super) fn settled(&self) -> Option<&[DeclaredTrigger]> {
        self.settled.then_some(self.read.as_slice())
    }

    fn push(&mut self, trigger: Option<(DeclaredTrigger, bool)>) {
        let is_settled = trigger.as_ref().is_some_and(|(_, is_settled)| *is_settled);
        self.settled &= is_settled;
        self.read.extend(trigger.map(|(trigger, _)| trigger));
    }
}

/// Reads `trigger` or `triggers`.
pub(super) fn read(one: Field<'_, '_>, list: Field<'_, '_>, diagnostics: &Diagnostics) -> Triggers {
    let mut triggers = Triggers { read: Vec::new(), settled: one.is_present() || list.is_present() };
    if let Some(node) = one.node() {
        triggers.push(read_node(node, false, diagnostics));
    }
    let Some(items) = list.node().and_then(Node::as_list) else {
        triggers.settled &= list.list().is_some() || !list.is_present();
        return triggers;
    };
    match items.get(MAX_TRIGGERS) {
        Some(surplus) => {
            let message = format!("an automation has at most {MAX_TRIGGERS} triggers");
            let help = "move some of them into an automation of their own, which calls this one";
            diagnostics.push(Diagnostic::error("too-many-triggers", message, surplus.head()).help(help));
        }
        None if items.is_empty() => {
            let span = list.span().unwrap_or_default();
            let help = "add a trigger, such as `{id: main, manual: {}}`";
            diagnostics.push(Diagnostic::error("empty-list", "`triggers` has no trigger", span).help(help));
        }
        None => {}
    }
    for item in items.iter().take(MAX_TRIGGERS) {
        let trigger = read_node(item, true, diagnostics);
        if let Some((new, _)) = &trigger {
            check_beside(new, &triggers.read, diagnostics);
        }
        triggers.push(trigger);
    }
    triggers
}

/// Reports a trigger that cannot stand beside the ones before it.
fn check_beside(new: &DeclaredTrigger, before: &[DeclaredTrigger], diagnostics: &Diagnostics) {
    if let Some(first) = before.iter().find(|trigger| trigger.id == new.id) {
        let message = format!("the id `{}` is taken by another trigger", new.id);
        diagnostics.push(
            Diagnostic::error("duplicate-id", message, new.id_span)
                .related(first.id_span, "the first trigger with this id")
                .help("give one of the two another `id`"),
        );
    }
    let manual = before.iter().find(|trigger| matches!(trigger.on, Trigger::Manual));
    if let Some(first) = manual.filter(|_| matches!(new.on, Trigger::Manual)) {
        let message = "an automation has at most one `manual` trigger";
        diagnostics.push(
            Diagnostic::error("conflicting-keys", message, new.span)
                .related(first.span, "the first one")
                .help("remove one of them: a start by hand can give any inputs"),
        );
    }
}

/// Returns the trigger, and whether its mode and its inputs are known.
fn read_node(node: &Node, is_listed: bool, diagnostics: &Diagnostics) -> Option<(DeclaredTrigger, bool)> {
    if let Some(word) = node.as_str().filter(|word| KINDS.iter().any(|kind| kind.word == *word)) {
        let message = format!("expected a mapping for a trigger, found the text `{word}`");
        let help = format!("write the kind as a key: `trigger: {{{word}: {{}}}}`");
        diagnostics.push(Diagnostic::error("wrong-type", message, node.span).help(help));
        return None;
    }
    let object = if is_listed { &LISTED } else { &TRIGGER };
    let mut reader = object.open(node, diagnostics)?;
    let mut kinds = Vec::with_capacity(1);
    let mut settled = true;
    for kind in &KINDS {
        if let Some(value) = reader.take(kind.word).node() {
            kinds.push(((kind.lower)(value, &mut reader, diagnostics), reader.key_span(kind.word)));
            if kind.word != "event" {
                event::without(&mut reader, kind.word, diagnostics);
            }
            settled = kind.word != "webhook" || webhook::has_known_mode(value);
        }
    }
    let id = is_listed.then(|| {
        let id = reader.take("id");
        (trigger_id(id, diagnostics), id.span().unwrap_or_default())
    });
    let condition = reader.take("if").node().and_then(|node| condition(node, "if", diagnostics));
    let enabled = reader.take("enabled").bool();
    let inputs_span = reader.key_span("inputs");
    let inputs =
        given_inputs(reader.take("inputs"), &mut settled, diagnostics).map(|inputs| (inputs, inputs_span));
    reader.finish();
    // With two kinds the intended one is unknown.
    let (on, span) = kinds.pop().filter(|_| kinds.is_empty())?;
    let (id, id_span) = match id {
        Some((id, span)) => (id?, span),
        None => (TriggerId::MAIN, span),
    };
    Some((DeclaredTrigger { id, id_span, on: on?, span, enabled, condition, inputs }, settled))
}

fn trigger_id(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<TriggerId> {
    let text = field.text()?;
    let id = TriggerId::parse(&text.value);
    if id.is_none() && no_expression(text, diagnostics) {
        let message = format!("`{}` cannot be the id of a trigger", shorten(&text.value));
        let help = format!(
            "an id has letters, digits and `_`, does not begin with a digit, and has at most {} characters",
            TriggerId::MAX_LENGTH
        );
        diagnostics.push(Diagnostic::error("invalid-id", message, inner(text)).help(help));
    }
    id
}

/// Reads `inputs`. `settled` becomes false if not everything can be read.
fn given_inputs(
    field: Field<'_, '_>,
    settled: &mut bool,
    diagnostics: &Diagnostics,
) -> Option<Vec<(SpannedName, Template)>> {
    if !field.is_present() {
        return None;
    }
    let Some(entries) = field.entries() else {
        *settled = false;
        return None;
    };
    let input = |entry: &Entry| {
        let name = entry_name(entry, "an input", diagnostics);
        let value = template(&entry.value, diagnostics);
        Some((name?, value))
    };
    let inputs: Vec<_> = entries.iter().filter_map(input).collect();
    *settled &= inputs.len() == entries.len();
    Some(inputs)
}

fn manual(node: &Node, diagnostics: &Diagnostics) -> Option<Trigger> {
    if !node.is_null() {
        NO_KEYS.open(node, diagnostics)?.finish();
    }
    Some(Trigger::Manual)
}
