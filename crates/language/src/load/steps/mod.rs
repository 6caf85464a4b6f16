//! Lists of steps. A verb is one file here (or shares one with its family) and one row of [`VERBS`].

mod action;
mod branch;
mod call;
mod code;
mod dashes;
mod flow;
mod for_each;
mod group;
mod handlers;
mod ids;
mod loop_exit;
mod parallel;
mod reader;
mod repeat;
mod respond;
mod set;
mod stop_fail;
mod switch;
mod unknown;
mod wait;

use std::collections::HashSet;
use std::sync::Arc;

use model::automation::setting::TIMEOUT;
use model::automation::{Block, OnError, OnInterrupt, SpannedName, Step, TakenDefaults, Verb};
use model::retry::RetryOn;
use text::diagnostic::{Diagnostic, Diagnostics, Span, nearest};
use text::yaml::{Entry, Field, Kind, Map, MapReader, Node};

use self::handlers::UNDO;
use self::ids::Ids;
use self::reader::StepReader;
use self::unknown::report_unknown;
use super::Unreadable;
use super::common::{named, shorten};
use super::computed::duration;
use super::keys::{IDENTIFIER, Key, Shape, is_identifier};
use super::other_dialects;
use super::policy::{STEP_RETRY, step_retry};
use super::template::condition;

pub(super) use self::flow::{Lists, check as check_flow};
pub(super) use self::ids::camel_case;
pub(crate) use self::ids::is_step_id;

/// A verb: its recognition, its keys and its lowering.
pub(crate) struct VerbSpec {
    /// The key that names it.
    pub(crate) word: &'static str,
    /// The noun for such a step in messages, with its article.
    pub(crate) what: &'static str,
    /// The description for authors.
    pub(crate) about: &'static str,
    /// The keys that only this verb has; any of them selects the verb. They need not include the keyword: an
    /// `if` alone is a guard, only `then` or `else` makes it a branch.
    pub(crate) marks: &'static [&'static str],
    /// Its keys, in addition to the common keys of steps.
    pub(crate) keys: &'static [Key],
    /// Lowers the step, with placeholders for unreadable parts; `None` if too little can be read.
    lower: fn(&mut StepReader<'_, '_, '_>) -> Option<Verb>,
}

/// All verbs, in the order in which they are documented.
pub(crate) static VERBS: &[&VerbSpec] = &[
    &action::ACTION,
    &code::CODE,
    &set::SET,
    &branch::IF,
    &switch::SWITCH,
    &for_each::FOR_EACH,
    &repeat::REPEAT,
    &parallel::PARALLEL,
    &group::GROUP,
    &call::CALL,
    &wait::WAIT,
    &wait::WAIT_FOR,
    &respond::RESPOND,
    &loop_exit::BREAK,
    &loop_exit::CONTINUE,
    &stop_fail::STOP,
    &stop_fail::FAIL,
];

/// The keys that every step may have.
pub(crate) static STEP_KEYS: &[Key] = &[
    Key::new(
        "id",
        Shape::Pattern(IDENTIFIER),
        "Its name in `steps.<id>` and the history; unique in the file. Default: the name in camelCase, else stepN.",
    ),
    Key::new("name", Shape::NonBlankText, "The name, for people."),
    Key::new("if", Shape::Expression, "A guard: if it is false, the step is skipped."),
    Key::new(
        "needs",
        Shape::AnyOf(&[Shape::Pattern(IDENTIFIER), Shape::List(&Shape::Pattern(IDENTIFIER))]),
        "The steps of the same list that must finish first, instead of the previous one; `[]` starts at once.",
    ),
    Key::new(
        "retry",
        Shape::AnyOf(&[
            Shape::Integer(0, super::policy::MAX_RETRIES),
            Shape::Object(&STEP_RETRY),
            Shape::List(&Shape::Object(&STEP_RETRY)),
        ]),
        "How often a failed step is tried again: a number, `{max, delay, backoff, maxDelay, on}` with `if` in place of `on`, or a list of them, of \
         which the first one that covers the error counts. Default: never.",
    ),
    Key::new(
        "timeout",
        Shape::AnyOf(&[Shape::Duration, Shape::WrappedExpression]),
        "The time limit of one try.",
    ),
    Key::new(
        "onError",
        Shape::AnyOf(&[Shape::Enum(&["fail", "continue"]), Shape::Steps]),
        "What happens after the last try failed: `fail` (default), `continue` with the result null, or steps that read \
         `error` and whose last result replaces that of this step.",
    ),
    Key::new(
        "onInterrupt",
        Shape::Enum(&["retry", "fail"]),
        "What happens if the daemon died while the step ran: it starts again (`retry`, default), or it fails and never starts twice (`fail`).",
    ),
    Key::new(
        "finally",
        Shape::Steps,
        "Steps that run at the end of this one, after its last try and its `onError`, however it ended: also if `break` or `stop` left it, or a \
         timeout or a cancellation cut it off. They read `outcome`.",
    ),
    Key::new(
        "undo",
        Shape::AnyOf(&[Shape::Steps, Shape::Object(&UNDO)]),
        "Steps that compensate this one if the execution fails later, in reverse order of the steps, or `{when, onCancel, steps}`. They read \
         `error`.",
    ),
];

/// The lists of steps of one file, in reading order.
pub(super) struct Steps<'d> {
    diagnostics: &'d Diagnostics,
    ids: Ids,
    unreadable: Unreadable,
}

impl<'d> Steps<'d> {
    /// Creates the reader of a file with these lists of steps. `unreadable` records unreadable parts.
    pub(super) fn new(lists: &[&Node], unreadable: Unreadable, diagnostics: &'d Diagnostics) -> Self {
        let mut ids = Ids::default();
        lists.iter().for_each(|list| survey(list, &mut ids));
        Self { diagnostics, ids, unreadable }
    }

    /// The unreadable parts.
    pub(super) fn into_unreadable(self) -> Unreadable {
        self.unreadable
    }

    /// A list of at least one step. `name` is its key.
    pub(super) fn block(&mut self, node: &Node, name: &str) -> Option<Block> {
        if node.as_list().is_some_and(<[Node]>::is_empty) {
            let message = format!("`{name}` has no steps");
            self.diagnostics.push(
                Diagnostic::error("empty-steps", message, node.span)
                    .help(format!("add a step, or remove `{}`", shorten(name))),
            );
            return None;
        }
        self.list(node, name)
    }

    /// A list of steps that may be empty. A single step in its place is reported, and read as a list of one.
    pub(super) fn list(&mut self, node: &Node, name: &str) -> Option<Block> {
        if let Kind::Map(map) = &node.kind {
            self.diagnostics.push(dashes::without_dashes(node, map, name, self.diagnostics.source()));
        } else if let Some(steps) = Field::new(node, name, self.diagnostics).list() {
            return Some(self.steps(steps));
        }
        if node.as_map().is_some_and(|map| !present_verbs(map).is_empty()) {
            return Some(self.steps(std::slice::from_ref(node)));
        }
        self.unreadable.note_names(node);
        None
    }

    /// The steps of a list.
    pub(super) fn steps(&mut self, steps: &[Node]) -> Block {
        let mut steps: Vec<Step> = steps.iter().filter_map(|step| self.step(step)).collect();
        // Most lists are short, and a step is large.
        steps.shrink_to_fit();
        Block { steps }
    }

    fn step(&mut self, node: &Node) -> Option<Step> {
        let Kind::Map(map) = &node.kind else {
            // Reports the actual type.
            let _ = MapReader::new(node, "a step", self.diagnostics);
            self.ids.count(node.head(), self.diagnostics);
            self.unreadable.note_names(node);
            return None;
        };
        let diagnostics = self.diagnostics;
        let mut present = present_verbs(map);
        let mut row = present.first().copied();
        if present.iter().all(|verb| std::ptr::eq(*verb, &group::GROUP)) {
            // Loops use `steps` too, and the loop's own keyword may be the misspelt key.
            let meant = meant_verb(map).filter(|meant| present.is_empty() || is_key_of(meant, "steps"));
            if meant.is_some() {
                present.clear();
            }
            row = meant.or(row);
        }
        let what = present.first().map_or("a step", |verb| verb.what);
        let mut reader = MapReader::new(node, what, diagnostics)?;
        declare(&mut reader, row);
        let id = self.ids.assign(&mut reader, &mut self.unreadable);
        let _scope = diagnostics.in_step(id.to_string());
        report_several(map, &present, diagnostics);
        // Keys of a second verb were reported with that verb.
        let others: HashSet<&str> =
            present.iter().skip(1).flat_map(|verb| verb.keys.iter().map(|key| key.name)).collect();
        self.unknown_entries(&reader, row, &others, &id);
        let verb = match row {
            Some(row) => {
                row.keys.iter().filter(|key| key.required).for_each(|key| {
                    reader.required(key.name);
                });
                (row.lower)(&mut StepReader::new(&mut reader, self, &id))
            }
            None => {
                report_none(&reader);
                None
            }
        };
        let step = self.common(&mut reader, id, verb);
        let beside = beside_empty(&reader, "with");
        report_beside(&reader, &beside);
        report_unknown(&reader, present.first().copied(), &others, &beside);
        reader.finish_open();
        Some(step)
    }

    /// Records the effect of unknown keys: each absent key may be misspelt in one of them.
    fn unknown_entries(
        &mut self,
        reader: &MapReader<'_, '_>,
        row: Option<&VerbSpec>,
        others: &HashSet<&str>,
        id: &Arc<str>,
    ) {
        let mut any = false;
        for stranger in reader.unknown_entries() {
            self.unreadable.note_names(&stranger.value);
            any |= !others.contains(stranger.key.as_str());
        }
        let keys = STEP_KEYS.iter().chain(row.into_iter().flat_map(|row| row.keys));
        for key in keys.filter(|key| any && !reader.has(key.name)) {
            self.unreadable.note_in_step(id, key.name);
        }
        // With two verbs it is unknown whether the step ends the execution.
        if !others.is_empty() {
            self.unreadable.note_in_step(id, "verb");
        }
    }

    /// Reads the keys of every step. `verb` is `None` if it could not be read. Call after lowering the verb, so that
    /// `onError` lists are numbered after the lists inside it.
    fn common(&mut self, reader: &mut MapReader<'_, 'd>, id: Arc<str>, verb: Option<Verb>) -> Step {
        let diagnostics = self.diagnostics;
        let _ = reader.take("id").string();
        let name = reader.take("name").name().map(str::to_owned);
        let is_branch = matches!(verb, Some(Verb::If(_))) || reader.has("then") || reader.has("else");
        let mut unread = Vec::new();
        let written = reader.take("if").node().filter(|_| !is_branch);
        let guard = written.and_then(|node| condition(node, "if", diagnostics));
        if written.is_some() && guard.is_none() {
            unread.push("if");
        }
        let before = diagnostics.error_count();
        let needs = needs(reader.take("needs"), diagnostics);
        if diagnostics.error_count() > before {
            unread.push("needs");
        }
        let before = diagnostics.error_count();
        let written = reader.take("retry");
        // `retry: 0` is kept: it states that there is only one attempt.
        // Only an action has errors of a remote system; errors of code, calls and groups have no status.
        let usual = || (!matches!(verb, Some(Verb::Action(_)))).then(|| vec![RetryOn::All]);
        let retry = step_retry(written, usual, diagnostics).map(Box::new);
        if diagnostics.error_count() > before {
            unread.push("retry");
        }
        let rule = verb.as_ref().map_or(&TIMEOUT, Verb::timeout_rule);
        let timeout = duration(reader.take("timeout"), rule, diagnostics);
        let written = reader.take("onError");
        let on_error = self.on_error(written);
        if written.is_present() && on_error.is_none() {
            unread.push("onError");
        }
        let on_interrupt = reader
            .take("onInterrupt")
            .one_of(&[("retry", OnInterrupt::Retry), ("fail", OnInterrupt::Fail)])
            .unwrap_or_default();
        let closing = reader.take("finally").node();
        let finally = closing.map(|node| self.block(node, "finally").unwrap_or_default());
        let undo = reader.take("undo").node().map(|node| self.undo(node));
        let verb = verb.unwrap_or_else(|| {
            unread.push("verb");
            self.unreadable.note_variables();
            Verb::Set(Vec::new())
        });
        unread.into_iter().for_each(|key| self.unreadable.note_in_step(&id, key));
        let (span, extent) = (reader.node().head(), reader.node().span);
        let on_error = on_error.unwrap_or(OnError::Fail);
        let taken = TakenDefaults::default();
        Step {
            id,
            name,
            span,
            extent,
            guard,
            needs,
            retry,
            timeout,
            on_error,
            on_interrupt,
            finally,
            undo,
            taken,
            verb,
        }
    }
}

/// The keys of a step that were written beside an empty key instead of below it: inputs beside `with`.
fn beside_empty<'n>(reader: &MapReader<'n, '_>, key: &str) -> Vec<&'n Entry> {
    let empty = reader.node().as_map().and_then(|map| map.entry(key)).filter(|entry| entry.value.is_null());
    let Some(empty) = empty else { return Vec::new() };
    reader.unknown_entries().filter(|entry| entry.key_span.start > empty.key_span.start).collect()
}

/// Reports inputs beside `with`, all of a step together.
fn report_beside(reader: &MapReader<'_, '_>, beside: &[&Entry]) {
    let Some(first) = beside.first() else { return };
    let names: Vec<String> = beside.iter().map(|entry| format!("`{}`", shorten(&entry.key))).collect();
    let (names, stand, them) = match names.as_slice() {
        [name] => (name.clone(), "stands", "it"),
        _ => (names.join(", "), "stand", "them"),
    };
    reader.diagnostics().push(
        Diagnostic::error(
            "unknown-key",
            format!("{names} {stand} beside `with`, not below it"),
            first.key_span,
        )
        .help(format!("indent {names} two columns further than `with`, which makes {them} its value"))
        .replacement(indented(reader, beside)),
    );
}

/// The lines of consecutive entries, indented by two columns.
fn indented(reader: &MapReader<'_, '_>, entries: &[&Entry]) -> Option<(Span, String)> {
    let (first, last) = (entries.first()?, entries.last()?);
    let within = |entry: &&Entry| {
        entry.key_span.start >= first.key_span.start && entry.key_span.start <= last.key_span.start
    };
    if reader.node().as_map()?.iter().filter(within).count() != entries.len() {
        return None;
    }
    let span = first.key_span.cover(last.value.span);
    let text = reader.diagnostics().source().slice(span);
    let is_literal = text.contains(['|', '>', '"', '\'']) && text.contains('\n');
    (!is_literal).then(|| (span, format!("  {}", text.replace('\n', "\n  "))))
}

/// Records the explicit ids of the steps of a list, at any depth.
fn survey(list: &Node, ids: &mut Ids) {
    for step in list.as_list().unwrap_or_default() {
        let Some(map) = step.as_map() else { continue };
        ids.claim(map);
        for entry in map {
            survey_entry(entry, ids);
        }
    }
}

fn survey_entry(entry: &Entry, ids: &mut Ids) {
    let keys = STEP_KEYS.iter().chain(VERBS.iter().flat_map(|verb| verb.keys));
    // Verbs may share the name of a list; it is surveyed once.
    for key in keys.filter(|key| key.name == entry.key) {
        if survey_shape(&entry.value, &key.shape, ids) {
            return;
        }
    }
}

/// Surveys the lists of steps in a value of this shape. Returns false if the shape has none.
fn survey_shape(node: &Node, shape: &Shape, ids: &mut Ids) -> bool {
    match shape {
        Shape::Steps | Shape::MaybeEmptySteps => survey(node, ids),
        // Of the alternatives at most one has steps in lists, and one in mappings.
        Shape::AnyOf(shapes) => {
            return any_of(shapes.iter().map(|shape| survey_shape(node, shape, ids)));
        }
        Shape::NonEmptyMapOf(_, Shape::Steps) => {
            node.as_map().into_iter().flatten().for_each(|named| survey(&named.value, ids));
        }
        Shape::List(Shape::Object(item)) => {
            let items = node.as_list().unwrap_or_default().iter();
            return any_of(items.map(|node| survey_shape(node, &Shape::Object(item), ids)));
        }
        Shape::Object(object) => {
            let Some(map) = node.as_map() else { return false };
            let values = object.keys.iter().filter_map(|key| Some((map.get(key.name)?, key.shape)));
            return any_of(values.map(|(node, shape)| survey_shape(node, &shape, ids)));
        }
        _ => return false,
    }
    true
}

/// True if any is true. Unlike `any`, it goes through all of them.
fn any_of(found: impl Iterator<Item = bool>) -> bool {
    found.filter(|found| *found).count() > 0
}

/// The verbs of a step, in file order. A key that another present verb declares as its own (`steps` of a loop)
/// does not select a verb.
fn present_verbs(map: &Map) -> Vec<&'static VerbSpec> {
    let is_key = |verb: &VerbSpec, mark: &str| {
        verb.keys.iter().any(|key| key.name == mark) && !verb.marks.contains(&mark)
    };
    let marked: Vec<&VerbSpec> =
        VERBS.iter().copied().filter(|verb| verb.marks.iter().any(|mark| map.get(mark).is_some())).collect();
    let own = |verb: &&VerbSpec| {
        let mut marks = verb.marks.iter().filter(|mark| map.get(mark).is_some());
        marks.any(|mark| !marked.iter().any(|other| is_key(other, mark)))
    };
    let mut present: Vec<&VerbSpec> = marked.iter().copied().filter(own).collect();
    present.sort_by_key(|verb| mark_span(map, verb).start);
    present
}

/// The probable verb of a step without one: one of its keys nearly matches that verb's.
fn meant_verb(map: &Map) -> Option<&'static VerbSpec> {
    let own = STEP_KEYS.iter().map(|key| key.name);
    let marks = VERBS.iter().flat_map(|verb| verb.marks.iter().copied());
    let free: Vec<&str> = own.chain(marks).filter(|name| map.get(name).is_none()).collect();
    map.iter().filter(|entry| !is_key(&entry.key)).find_map(|entry| {
        let near =
            match other_dialects::STEP.iter().find(|foreign| foreign.keys.contains(&entry.key.as_str())) {
                Some(foreign) => foreign.equivalent.filter(|key| free.contains(key))?,
                None => nearest(&entry.key, free.iter().copied())?,
            };
        VERBS.iter().copied().find(|verb| verb.marks.contains(&near))
    })
}

fn is_key_of(verb: &VerbSpec, name: &str) -> bool {
    verb.keys.iter().any(|key| key.name == name)
}

/// True if a verb has this key.
fn is_key(name: &str) -> bool {
    STEP_KEYS.iter().chain(VERBS.iter().flat_map(|verb| verb.keys)).any(|key| key.name == name)
}

/// Declares the keys of a step; misspelt keys are read as the nearest ones, except keys of verbs.
fn declare(reader: &mut MapReader<'_, '_>, row: Option<&VerbSpec>) {
    let keys = STEP_KEYS.iter().chain(row.into_iter().flat_map(|row| row.keys));
    keys.for_each(|key| reader.allow(&[key.name]));
    if row.is_none() {
        VERBS.iter().for_each(|verb| reader.allow(&[verb.word]));
    }
    reader.set_foreign_keys(other_dialects::STEP);
    reader.correct_keys(is_key);
}

/// The span of a verb's key.
fn mark_span(map: &Map, verb: &VerbSpec) -> Span {
    let entry = map.iter().find(|entry| verb.marks.contains(&entry.key.as_str()));
    entry.map(|entry| entry.key_span).unwrap_or_default()
}

fn report_several(map: &Map, present: &[&VerbSpec], diagnostics: &Diagnostics) {
    let Some((first, others)) = present.split_first() else { return };
    for other in others {
        let message =
            format!("a step does one thing, but this one has `{}` and `{}`", first.word, other.word);
        diagnostics.push(
            Diagnostic::error("two-verbs", message, mark_span(map, other))
                .label("the second verb")
                .related(mark_span(map, first), "the first verb")
                .help(format!("make a step of its own for `{}`", other.word)),
        );
    }
}

/// Reports a missing verb, unless an unknown key was probably meant as one.
fn report_none(reader: &MapReader<'_, '_>) {
    if reader.undeclared_entries().next().is_some() {
        return;
    }
    let words = VERBS.iter().map(|verb| verb.word);
    let diagnostic =
        Diagnostic::error("no-verb", "this step does nothing", reader.node().head()).allowed(words);
    reader.diagnostics().push(if reader.has("if") {
        diagnostic.help("`if` alone is a guard: add what to do, or `then` with steps")
    } else {
        diagnostic.help("add what it does, like `action: log.info`")
    });
}

/// `needs`: a list of step ids, or a single one. The step graph checks if the steps exist.
fn needs(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Vec<SpannedName>> {
    let items = field.one_or_more()?;
    let id = |item: Field<'_, '_>| {
        let name = named(item, diagnostics)?;
        if is_identifier(&name.name) {
            return Some(name);
        }
        let message = format!("`{}` cannot be the id of a step", shorten(&name.name));
        diagnostics.push(Diagnostic::error("invalid-id", message, name.span));
        None
    };
    Some(items.into_iter().filter_map(id).collect())
}
