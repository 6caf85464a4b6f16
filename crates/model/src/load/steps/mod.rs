//! Lists of steps. A verb is one file here (or shares one with its family) and one row of [`VERBS`].

mod action;
mod branch;
mod end;
mod flow;
mod for_each;
mod ids;
mod parallel;
mod reader;
mod respond;
mod set;

use std::collections::HashSet;
use std::sync::Arc;

use self::ids::Ids;
use self::reader::StepReader;
use super::keys::{IDENTIFIER, Key, Shape, is_identifier};
use super::policy::{STEP_RETRY, retry, timeout};
use super::template::expression;
use super::text::{named, shorten};
use crate::automation::{Block, Named, OnError, Step, Verb};
use crate::diagnostic::{Diagnostic, Diagnostics, Span, nearest};
use crate::yaml::{Entry, Field, Kind, Map, MapReader, Node};

pub(super) use self::flow::check as check_flow;

/// One verb: how it is recognised, what it takes, how it is lowered.
pub(crate) struct VerbRow {
    /// The key that names it.
    pub(crate) word: &'static str,
    /// What a step of it is called in messages, with its article.
    pub(crate) what: &'static str,
    /// What it does, for a person.
    pub(crate) about: &'static str,
    /// The keys that only this verb has; any of them makes the step one of it. They need not include the word: an
    /// `if` alone is a guard, only `then` or `else` makes a branch.
    pub(crate) marks: &'static [&'static str],
    /// Its keys, beside those of every step.
    pub(crate) keys: &'static [Key],
    /// What it becomes; nothing where a problem stands in the way.
    lower: fn(&mut StepReader<'_, '_, '_>) -> Option<Verb>,
}

/// All verbs, in the order in which they are documented.
pub(crate) static VERBS: &[&VerbRow] = &[
    &action::ACTION,
    &set::SET,
    &branch::IF,
    &for_each::FOR_EACH,
    &parallel::PARALLEL,
    &respond::RESPOND,
    &end::STOP,
    &end::FAIL,
];

/// The keys that every step may have.
pub(crate) static STEP_KEYS: &[Key] = &[
    Key::new(
        "id",
        Shape::Pattern(IDENTIFIER),
        "What `steps.<id>` and the history call it; unique in the file. Default: the name in camelCase, else stepN.",
    ),
    Key::new("name", Shape::Name, "What people call it."),
    Key::new("if", Shape::Expression, "A guard: when it does not hold, the step is skipped."),
    Key::new(
        "needs",
        Shape::Either(&[Shape::Pattern(IDENTIFIER), Shape::List(&Shape::Pattern(IDENTIFIER))]),
        "The steps of the same list that it waits for, in place of the one before it; `[]` starts at once.",
    ),
    Key::new(
        "retry",
        Shape::Either(&[Shape::Integer(0, super::policy::MAX_RETRIES), Shape::Object(&STEP_RETRY)]),
        "How often it is tried again when it fails: a number, or `{max, delay, backoff, maxDelay, on}`. Default: never.",
    ),
    Key::new("timeout", Shape::Duration, "The longest that one try may take."),
    Key::new(
        "onError",
        Shape::Either(&[Shape::Words(&["fail", "continue"]), Shape::Steps]),
        "What follows when it fails for good: `fail` (default), `continue` with the result null, or steps that read \
         `error` and whose last result takes this step's place.",
    ),
];

/// The lists of steps of one file, in reading order.
pub(super) struct Steps<'d> {
    diagnostics: &'d Diagnostics,
    ids: Ids,
}

impl<'d> Steps<'d> {
    /// For a file whose lists of steps are these.
    pub(super) fn new(lists: &[&Node], diagnostics: &'d Diagnostics) -> Self {
        let mut ids = Ids::default();
        lists.iter().for_each(|list| survey(list, &mut ids));
        Self { diagnostics, ids }
    }

    /// A list of at least one step. `name` is its key.
    pub(super) fn block(&mut self, node: &Node, name: &str) -> Option<Block> {
        let steps = Field::new(node, name, self.diagnostics).list()?;
        if steps.is_empty() {
            let message = format!("`{name}` has no steps");
            self.diagnostics.push(
                Diagnostic::error("empty-steps", message, node.span)
                    .help(format!("add a step, or remove `{}`", shorten(name))),
            );
            return None;
        }
        Some(self.steps(steps))
    }

    /// A list of steps that may be empty.
    pub(super) fn steps(&mut self, steps: &[Node]) -> Block {
        Block { steps: steps.iter().filter_map(|step| self.step(step)).collect() }
    }

    fn step(&mut self, node: &Node) -> Option<Step> {
        let Kind::Map(map) = &node.kind else {
            // Says what was found in its place.
            let _ = MapReader::new(node, "a step", self.diagnostics);
            return None;
        };
        let diagnostics = self.diagnostics;
        let id = self.ids.give(map, node.head(), diagnostics);
        let _scope = diagnostics.in_step(id.to_string());
        let present = present_verbs(map);
        report_several(map, &present, diagnostics);
        let what = present.first().map_or("a step", |verb| verb.what);
        let mut reader = MapReader::new(node, what, diagnostics)?;
        for key in STEP_KEYS {
            reader.take(key.name);
        }
        let verb = match present.first() {
            Some(row) => self.verb(row, &mut reader),
            None => {
                VERBS.iter().for_each(|verb| reader.allow(&[verb.word]));
                report_none(&reader);
                None
            }
        };
        // What belongs to a second verb was reported with it.
        let others: HashSet<&str> =
            present.iter().skip(1).flat_map(|verb| verb.keys.iter().map(|key| key.name)).collect();
        let step = self.common(&mut reader, id, verb, node);
        report_unknown(&reader, present.first().copied(), &others);
        reader.finish_open();
        step
    }

    fn verb<'n>(&mut self, row: &VerbRow, reader: &mut MapReader<'n, 'd>) -> Option<Verb> {
        for key in row.keys {
            if key.required {
                reader.required(key.name);
            } else {
                reader.take(key.name);
            }
        }
        (row.lower)(&mut StepReader::new(reader, self))
    }

    /// What every step has. Read after the verb, so that `onError` lists are numbered after the lists inside it.
    fn common(
        &mut self,
        reader: &mut MapReader<'_, 'd>,
        id: Arc<str>,
        verb: Option<Verb>,
        node: &Node,
    ) -> Option<Step> {
        let diagnostics = self.diagnostics;
        let _ = reader.take("id").string();
        let name = reader.take("name").name().map(str::to_owned);
        let is_branch = matches!(verb, Some(Verb::If(_))) || reader.has("then") || reader.has("else");
        let guard = reader.take("if").node().filter(|_| !is_branch);
        let guard = guard.and_then(|node| expression(node, "if", diagnostics));
        let needs = needs(reader.take("needs"), diagnostics);
        let retry = retry(reader.take("retry"), &STEP_RETRY, diagnostics);
        let timeout = timeout(reader.take("timeout"), diagnostics);
        let on_error = self.on_error(reader.take("onError"));
        Some(Step { id, name, span: node.head(), guard, needs, retry, timeout, on_error, verb: verb? })
    }

    fn on_error(&mut self, field: Field<'_, 'd>) -> OnError {
        let Some(node) = field.node() else { return OnError::Fail };
        match &node.kind {
            Kind::List(_) => self.block(node, "onError").map_or(OnError::Fail, OnError::Steps),
            Kind::String(_) => field
                .one_of(&[("fail", OnErrorWord::Fail), ("continue", OnErrorWord::Continue)])
                .map_or(OnError::Fail, |word| match word {
                    OnErrorWord::Fail => OnError::Fail,
                    OnErrorWord::Continue => OnError::Continue,
                }),
            _ => {
                let message = format!(
                    "expected `fail`, `continue` or a list of steps for `onError`, found {}",
                    node.kind_name()
                );
                self.diagnostics.push(Diagnostic::error("wrong-type", message, node.head()));
                OnError::Fail
            }
        }
    }
}

#[derive(Clone, Copy)]
enum OnErrorWord {
    Fail,
    Continue,
}

/// Notes the ids that the steps of a list ask for, at any depth.
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
    for key in keys.filter(|key| key.name == entry.key) {
        match key.shape {
            Shape::Steps | Shape::AnySteps | Shape::Either([.., Shape::Steps]) => survey(&entry.value, ids),
            Shape::SomeNamed(_, Shape::Steps) => {
                entry.value.as_map().into_iter().flatten().for_each(|named| survey(&named.value, ids));
            }
            _ => continue,
        }
        // Verbs may share the name of a list; it is surveyed once.
        return;
    }
}

/// The verbs that a step has, in the order of the file. A mark that another verb present has as one of its own keys
/// (`steps` of a loop) makes no verb of its own.
fn present_verbs(map: &Map) -> Vec<&'static VerbRow> {
    let is_key = |verb: &VerbRow, mark: &str| {
        verb.keys.iter().any(|key| key.name == mark) && !verb.marks.contains(&mark)
    };
    let marked: Vec<&VerbRow> =
        VERBS.iter().copied().filter(|verb| verb.marks.iter().any(|mark| map.get(mark).is_some())).collect();
    let own = |verb: &&VerbRow| {
        let mut marks = verb.marks.iter().filter(|mark| map.get(mark).is_some());
        marks.any(|mark| !marked.iter().any(|other| is_key(other, mark)))
    };
    let mut present: Vec<&VerbRow> = marked.iter().copied().filter(own).collect();
    present.sort_by_key(|verb| mark_span(map, verb).start);
    present
}

/// Where a verb is written.
fn mark_span(map: &Map, verb: &VerbRow) -> Span {
    let entry = map.iter().find(|entry| verb.marks.contains(&entry.key.as_str()));
    entry.map(|entry| entry.key_span).unwrap_or_default()
}

fn report_several(map: &Map, present: &[&VerbRow], diagnostics: &Diagnostics) {
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

/// Says that there is no verb, unless there is an unknown key: that was probably meant as one.
fn report_none(reader: &MapReader<'_, '_>) {
    if reader.rest().next().is_some() {
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

fn report_unknown(reader: &MapReader<'_, '_>, verb: Option<&VerbRow>, others: &HashSet<&str>) {
    let known: Vec<&str> = STEP_KEYS
        .iter()
        .map(|key| key.name)
        .chain(verb.into_iter().flat_map(|verb| verb.keys.iter().map(|key| key.name)))
        .chain(VERBS.iter().map(|row| row.word).filter(|_| verb.is_none()))
        .collect();
    let mut allowed: Vec<&str> = Vec::with_capacity(known.len());
    known.into_iter().for_each(|name| {
        if !allowed.contains(&name) {
            allowed.push(name);
        }
    });
    for entry in reader.rest().filter(|entry| !others.contains(entry.key.as_str())) {
        let message = format!("unknown key `{}` in {}", shorten(&entry.key), reader.what());
        let free = allowed.iter().copied().filter(|name| !reader.has(name));
        let diagnostic = Diagnostic::error("unknown-key", message, entry.key_span)
            .label(format!("not a key of {}", reader.what()))
            .nearest(nearest(&entry.key, free))
            .allowed(allowed.iter().copied());
        let owners: Vec<String> = VERBS
            .iter()
            .filter(|row| row.keys.iter().any(|key| key.name == entry.key))
            .map(|row| format!("`{}`", row.word))
            .collect();
        reader.diagnostics().push(if owners.is_empty() {
            diagnostic
        } else {
            diagnostic.nearest(None::<String>).help(format!("it belongs to {}", owners.join(" and ")))
        });
    }
}

/// `needs`: the ids of steps, or one of them alone. Whether there are such steps is asked of the step graph.
fn needs(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Vec<Named>> {
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
