//! Lowering a tree by hand: take each key once, with its type, and let the reader report the rest.
//! How that reads: `a_reader_takes_each_key_once_and_reports_the_rest` in the tests.

use super::explain::{quoted, shorten};
use super::{Entry, Kind, Map, Node, Text};
use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use crate::units;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A key that people bring along from another language.
#[derive(Debug)]
pub struct ForeignKey {
    /// As it is written there.
    pub key: &'static str,
    /// The key that stands in its place here, where what is below it has the same form.
    pub here: Option<&'static str>,
    /// What to write, in words.
    pub help: &'static str,
}

/// Reads a mapping key by key. The keys asked for are the keys allowed: a component declares them by reading them.
///
/// Every key has to be taken or allowed before [`finish`](MapReader::finish), which reports the others.
#[derive(Debug)]
#[must_use = "call `finish`, or unknown keys go unnoticed"]
pub struct MapReader<'n, 'd> {
    node: &'n Node,
    map: &'n Map,
    what: &'d str,
    known: Vec<&'d str>,
    /// Entries that are read as a key that they are not; see [`MapReader::mend`].
    mended: Vec<(&'d str, &'n Entry)>,
    /// Keys of other languages that may stand here.
    foreign: &'static [ForeignKey],
    /// What to write where several keys are wanted of which one can stand.
    instead_of_several: Option<&'static str>,
    diagnostics: &'d Diagnostics,
}

impl<'n, 'd> MapReader<'n, 'd> {
    /// A reader of a mapping; anything else is reported. `what` names it with its article: "a step".
    pub fn new(node: &'n Node, what: &'d str, diagnostics: &'d Diagnostics) -> Option<Self> {
        Self::new_or(node, what, None, diagnostics)
    }

    /// As [`MapReader::new`], with the mapping that a value of another kind most likely stands for.
    pub fn new_or(
        node: &'n Node,
        what: &'d str,
        meant: Option<String>,
        diagnostics: &'d Diagnostics,
    ) -> Option<Self> {
        if let Kind::Map(map) = &node.kind {
            let (known, mended) = (Vec::new(), Vec::new());
            let (foreign, instead_of_several) = (Default::default(), None);
            return Some(MapReader {
                node,
                map,
                what,
                known,
                mended,
                foreign,
                instead_of_several,
                diagnostics,
            });
        }
        let message = format!("expected a mapping for {what}, found {}", found(node, diagnostics));
        let diagnostic = Diagnostic::error("wrong-type", message, node.head());
        diagnostics.push(match meant {
            Some(meant) => diagnostic.help(format!("write `{meant}`")).replace(node.span, meant),
            None if what == "a schedule" => {
                diagnostic.help("write `{cron: \"0 8 * * *\"}`, `{every: 10m}` or `{daily: {at: \"08:30\"}}`")
            }
            None => diagnostic.help("write `key: value` lines"),
        });
        None
    }

    /// The value of a key, which may be missing. Declares the key.
    pub fn take(&mut self, key: &'d str) -> Field<'n, 'd> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let node = self.entry(key).map(|entry| &entry.value);
        Field { node, name: key, is_item: false, diagnostics: self.diagnostics }
    }

    /// The value of a key; that it is missing is reported. Declares the key.
    pub fn required(&mut self, key: &'d str) -> Field<'n, 'd> {
        let field = self.take(key);
        if field.node.is_none() {
            let message = format!("{} needs the key `{key}`", self.what);
            self.diagnostics.push(
                Diagnostic::error("missing-key", message, self.node.head()).help(format!("add `{key}: …`")),
            );
        }
        field
    }

    /// Declares keys without reading them.
    pub fn allow(&mut self, keys: &[&'d str]) {
        for key in keys {
            self.take(key);
        }
    }

    /// Knows keys of other languages: they are told apart from misspelt ones, with what to write for them.
    pub fn know_foreign(&mut self, keys: &'static [ForeignKey]) {
        self.foreign = keys;
    }

    /// Says what to write in place of several keys of which only one can stand.
    pub fn explain_several(&mut self, help: Option<&'static str>) {
        self.instead_of_several = help;
    }

    /// What there is to say of a key that is another language's.
    #[must_use]
    pub fn foreign(&self, key: &str) -> Option<&'static ForeignKey> {
        self.foreign.iter().find(|foreign| foreign.key == key)
    }

    /// Reads each key that was not declared as the declared and free one that it was most likely meant as, so that
    /// what is below a misspelt key is checked in the same run. Call it once all keys are declared; that the key is
    /// unknown is still reported by [`finish`](Self::finish). Keys of which `stays` holds are left alone, and so are
    /// those of one or two letters, which are near too many.
    pub fn mend(&mut self, stays: impl Fn(&str) -> bool) {
        let mut free = self.free();
        for entry in self.map {
            let key = entry.key.as_str();
            if self.known.contains(&key) || stays(key) {
                continue;
            }
            let meant = match self.foreign(key) {
                Some(foreign) => {
                    foreign.here.and_then(|here| free.iter().copied().find(|known| *known == here))
                }
                None if key.len() < 3 => None,
                None => crate::diagnostic::nearest(key, free.iter().copied()),
            };
            if let Some(meant) = meant {
                free.retain(|known| *known != meant);
                self.mended.push((meant, entry));
            }
        }
    }

    /// The declared key that an entry is read as although its own is another (see [`mend`](Self::mend)).
    #[must_use]
    pub fn read_as(&self, entry: &Entry) -> Option<&'d str> {
        self.mended.iter().find(|(_, mended)| std::ptr::eq(*mended, entry)).map(|(key, _)| *key)
    }

    /// The entries whose keys are neither declared nor read as a declared one.
    pub fn strangers(&self) -> impl Iterator<Item = &'n Entry> {
        self.rest().filter(|entry| self.read_as(entry).is_none())
    }

    /// Which one of some keys is present; that none is, or several are, is reported. Declares all of them, and
    /// reads none. Of several the first in the file is returned.
    pub fn exactly_one_of(&mut self, keys: &[&'d str]) -> Option<&'d str> {
        let one = self.at_most_one_of(keys).or_else(|| keys.iter().copied().find(|key| self.has(key)));
        if one.is_none() {
            let message = format!("{} needs one of {}", self.what, listed(keys));
            self.diagnostics.push(
                Diagnostic::error("missing-key", message, self.node.head()).allowed(keys.iter().copied()),
            );
        }
        one
    }

    /// Which one of some keys is present, if any; that several are is reported. Declares all of them, and reads
    /// none. Of several the first in the file is returned.
    pub fn at_most_one_of(&mut self, keys: &[&'d str]) -> Option<&'d str> {
        self.allow(keys);
        let name = |entry: &Entry| keys.iter().copied().find(|key| *key == entry.key);
        let mut present = self.map.iter().filter_map(|entry| name(entry).map(|key| (key, entry.key_span)));
        let (first, first_span) = present.next()?;
        for (other, span) in present {
            let message = format!("`{other}` cannot stand beside `{first}` in {}", self.what);
            self.diagnostics.push(
                Diagnostic::error("conflicting-keys", message, span)
                    .related(first_span, format!("`{first}` is here"))
                    .help(match self.instead_of_several {
                        Some(instead) => format!("{} has one of {}: {instead}", self.what, listed(keys)),
                        None => format!("{} has one of {}", self.what, listed(keys)),
                    }),
            );
        }
        Some(first)
    }

    /// Whether a key is present. Does not declare it.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Where a key stands; for a missing one, where the mapping begins.
    #[must_use]
    pub fn key_span(&self, key: &str) -> Span {
        self.entry(key).map_or_else(|| self.node.head(), |entry| entry.key_span)
    }

    /// The whole mapping.
    #[must_use]
    pub fn node(&self) -> &'n Node {
        self.node
    }

    /// The entries whose keys are not declared yet, for mappings with names of the author's own. Call
    /// [`finish_open`](Self::finish_open) afterwards.
    pub fn rest(&self) -> impl Iterator<Item = &'n Entry> {
        self.map.iter().filter(|entry| !self.known.contains(&entry.key.as_str()))
    }

    /// Where this reader reports to.
    #[must_use]
    pub fn diagnostics(&self) -> &'d Diagnostics {
        self.diagnostics
    }

    /// What is read, with its article.
    #[must_use]
    pub fn what(&self) -> &'d str {
        self.what
    }

    /// Reports every key that was not declared, with the nearest declared one that is still free.
    pub fn finish(self) {
        let free = self.free();
        for entry in self.rest() {
            let nearest = self.read_as(entry).or_else(|| {
                if self.foreign(&entry.key).is_some() {
                    return None;
                }
                crate::diagnostic::nearest(&entry.key, free.iter().copied())
            });
            let message = format!("unknown key `{}` in {}", shorten(&entry.key), self.what);
            let diagnostic = Diagnostic::error("unknown-key", message, entry.key_span)
                .label(format!("not a key of {}", self.what))
                .allowed(self.known.iter().copied())
                .nearest(nearest);
            self.diagnostics.push(match self.foreign(&entry.key) {
                Some(foreign) => diagnostic.help(foreign.help),
                None => diagnostic,
            });
        }
    }

    /// Ends the reading of a mapping in which any other key is allowed too.
    pub fn finish_open(self) {}

    /// The declared keys that no entry has or is read as. Found once and not for every entry, of which there may be very
    /// many.
    fn free(&self) -> Vec<&'d str> {
        self.known.iter().copied().filter(|known| !self.has(known)).collect()
    }

    fn entry(&self, key: &str) -> Option<&'n Entry> {
        let mended = || self.mended.iter().find(|(name, _)| *name == key).map(|(_, entry)| *entry);
        self.map.entry(key).or_else(mended)
    }
}

/// The value of a key, or an item of a list: perhaps missing, not yet of a type.
///
/// Each typed getter gives nothing for a missing value, and reports one of a wrong type at its place.
#[derive(Debug, Clone, Copy)]
pub struct Field<'n, 'd> {
    node: Option<&'n Node>,
    name: &'d str,
    is_item: bool,
    diagnostics: &'d Diagnostics,
}

impl<'n, 'd> Field<'n, 'd> {
    /// A value that came from elsewhere; `name` is what messages call it.
    #[must_use]
    pub fn new(node: &'n Node, name: &'d str, diagnostics: &'d Diagnostics) -> Self {
        Field { node: Some(node), name, is_item: false, diagnostics }
    }

    /// The value as it is.
    #[must_use]
    pub fn node(self) -> Option<&'n Node> {
        self.node
    }

    /// Whether there is a value, even a null.
    #[must_use]
    pub fn is_given(self) -> bool {
        self.node.is_some()
    }

    /// Where the value stands.
    #[must_use]
    pub fn span(self) -> Option<Span> {
        self.node.map(|node| node.span)
    }

    /// Reports a problem of the value at its place. Nothing happens when it is missing.
    pub fn error(self, code: &'static str, message: impl Into<String>) {
        if let Some(node) = self.node {
            self.diagnostics.push(Diagnostic::error(code, message, node.head()));
        }
    }

    /// Text.
    #[must_use]
    pub fn string(self) -> Option<&'n str> {
        self.text().map(|text| text.value.as_str())
    }

    /// Text with its style and places.
    #[must_use]
    pub fn text(self) -> Option<&'n Text> {
        let node = self.node?;
        if let Kind::String(text) = &node.kind {
            return Some(text);
        }
        let diagnostic = self.wrong_type(node, "text");
        let written = self.diagnostics.source().slice(node.span);
        let is_word = !written.is_empty() && !matches!(node.kind, Kind::List(_) | Kind::Map(_));
        self.diagnostics.push(if is_word {
            diagnostic.help("quote it to make it text").replace(node.span, quoted(written))
        } else {
            diagnostic
        });
        None
    }

    /// Text that is not empty and not only white space.
    #[must_use]
    pub fn name(self) -> Option<&'n str> {
        let text = self.string()?;
        if text.trim().is_empty() {
            self.error("empty-text", format!("{} must not be empty", self.subject()));
            return None;
        }
        Some(text)
    }

    /// `true` or `false`.
    #[must_use]
    pub fn bool(self) -> Option<bool> {
        let node = self.node?;
        if let Kind::Bool(value) = node.kind {
            return Some(value);
        }
        let diagnostic = self.wrong_type(node, "`true` or `false`");
        let meant = match node.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("yes" | "on" | "y" | "true") => Some("true"),
            Some("no" | "off" | "n" | "false") => Some("false"),
            _ => None,
        };
        self.diagnostics.push(match meant {
            Some(meant) => diagnostic.help(format!("write `{meant}`")).replace(node.span, meant),
            None => diagnostic,
        });
        None
    }

    /// A whole number within a range.
    #[must_use]
    pub fn integer(self, range: RangeInclusive<i64>) -> Option<i64> {
        let node = self.node?;
        match &node.kind {
            Kind::Integer(value) if range.contains(value) => Some(*value),
            Kind::Integer(_) | Kind::Unsigned(_) => {
                let bounds = match (*range.start(), *range.end()) {
                    (start, i64::MAX) => format!("at least {start}"),
                    (i64::MIN, end) => format!("at most {end}"),
                    (start, end) => format!("from {start} to {end}"),
                };
                let written = self.diagnostics.source().slice(node.span);
                let message = format!("{} must be {bounds}, found {}", self.subject(), shorten(written));
                self.diagnostics.push(Diagnostic::error("out-of-range", message, node.span));
                None
            }
            _ => {
                let diagnostic = self.wrong_type(node, "a whole number");
                let digits = node.as_str().filter(|text| text.parse::<i64>().is_ok());
                self.diagnostics.push(match digits {
                    Some(digits) => diagnostic.help("remove the quotes").replace(node.span, digits),
                    None => diagnostic,
                });
                None
            }
        }
    }

    /// Any number.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "the reader asks for an approximate number")]
    pub fn number(self) -> Option<f64> {
        let node = self.node?;
        match node.kind {
            Kind::Integer(value) => Some(value as f64),
            Kind::Unsigned(value) => Some(value as f64),
            Kind::Float(value) => Some(value),
            _ => self.refuse(node, "a number"),
        }
    }

    /// A duration: `10s`, `1h30m` (see [`units::parse_duration`]).
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        self.unit("a duration", "invalid-duration", units::parse_duration, units::meant_duration)
    }

    /// A size in bytes: `6MiB` (see [`units::parse_size`]).
    #[must_use]
    pub fn size(self) -> Option<u64> {
        self.unit("a size", "invalid-size", units::parse_size, units::meant_size)
    }

    /// One of some words. Another is reported, and read as the one that it was most likely meant as, so that what
    /// follows from the word is checked in the same run.
    #[must_use]
    pub fn choice(self, words: &[&'d str]) -> Option<&'d str> {
        let node = self.node?;
        // A bare `true` or `1` may be meant as a word too, but is then not one of these.
        let Some(found) = node.as_str() else {
            let diagnostic = self.wrong_type(node, &format!("one of {}", listed(words)));
            self.diagnostics.push(diagnostic.allowed(words.iter().copied()));
            return None;
        };
        if let Some(word) = words.iter().copied().find(|word| *word == found) {
            return Some(word);
        }
        let message = format!("unknown value `{}` for {}", shorten(found), self.subject());
        self.diagnostics.push(
            Diagnostic::error("unknown-value", message, node.span)
                .expected_names(found, words.iter().copied()),
        );
        crate::diagnostic::nearest(found, words.iter().copied())
    }

    /// One of some words, as the value that it stands for.
    #[must_use]
    pub fn one_of<T: Copy>(self, choices: &[(&'d str, T)]) -> Option<T> {
        let words: Vec<&'d str> = choices.iter().map(|(word, _)| *word).collect();
        let word = self.choice(&words)?;
        choices.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
    }

    /// A list.
    #[must_use]
    pub fn list(self) -> Option<&'n [Node]> {
        let node = self.node?;
        node.as_list().or_else(|| self.refuse(node, "a list"))
    }

    /// The items of a list, each to be read further.
    #[must_use]
    pub fn items(self) -> Option<Vec<Field<'n, 'd>>> {
        let item = |node| Field { node: Some(node), is_item: true, ..self };
        self.list().map(|items| items.iter().map(item).collect())
    }

    /// A list, or one value that stands for a list of one.
    #[must_use]
    pub fn one_or_more(self) -> Option<Vec<Field<'n, 'd>>> {
        if matches!(self.node?.kind, Kind::List(_)) { self.items() } else { Some(vec![self]) }
    }

    /// A list of texts. Items that are none are reported and left out.
    #[must_use]
    pub fn strings(self) -> Option<Vec<&'n str>> {
        Some(self.items()?.into_iter().filter_map(Field::string).collect())
    }

    /// A mapping with the author's own names as keys.
    #[must_use]
    pub fn entries(self) -> Option<&'n Map> {
        let node = self.node?;
        node.as_map().or_else(|| self.refuse(node, "a mapping"))
    }

    /// A mapping with fixed keys; `what` names it with its article.
    #[must_use]
    pub fn map(self, what: &'d str) -> Option<MapReader<'n, 'd>> {
        MapReader::new(self.node?, what, self.diagnostics)
    }

    fn unit<T>(
        self,
        what: &str,
        code: &'static str,
        parse: fn(&str) -> Result<T, units::Error>,
        meant: fn(&str) -> Option<String>,
    ) -> Option<T> {
        let node = self.node?;
        let written = match &node.kind {
            Kind::String(text) => text.value.as_str(),
            Kind::Integer(_) | Kind::Unsigned(_) | Kind::Float(_) => {
                self.diagnostics.source().slice(node.span)
            }
            _ => return self.refuse(node, what),
        };
        if is_expression(written) {
            return self.refuse(node, what);
        }
        match parse(written) {
            Ok(value) => Some(value),
            Err(error) => {
                let message = format!("{} must be {what}", self.subject());
                let diagnostic = Diagnostic::error(code, message, node.span).help(error.to_string());
                self.diagnostics.push(match meant(written) {
                    Some(meant) => diagnostic.replace(node.span, meant),
                    None => diagnostic,
                });
                None
            }
        }
    }

    fn refuse<T>(self, node: &Node, expected: &str) -> Option<T> {
        self.diagnostics.push(self.wrong_type(node, expected));
        None
    }

    fn wrong_type(self, node: &Node, expected: &str) -> Diagnostic {
        let found = found(node, self.diagnostics);
        let message = format!("expected {expected} for {}, found {found}", self.subject());
        Diagnostic::error("wrong-type", message, node.head())
    }

    fn subject(self) -> String {
        let name = shorten(self.name);
        if self.is_item { format!("an item of `{name}`") } else { format!("`{name}`") }
    }
}

/// What a value is, in words for a message.
fn found(node: &Node, diagnostics: &Diagnostics) -> String {
    match &node.kind {
        Kind::String(text) if is_expression(&text.value) => "an expression".to_owned(),
        Kind::String(text) => format!("the text `{}`", shorten(&text.value)),
        Kind::Integer(_) | Kind::Unsigned(_) | Kind::Float(_) => {
            format!("the number `{}`", shorten(diagnostics.source().slice(node.span)))
        }
        _ => node.kind_name().to_owned(),
    }
}

fn is_expression(text: &str) -> bool {
    text.contains("${{")
}

/// Names for a message: `a`, `b` or `c`.
fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
