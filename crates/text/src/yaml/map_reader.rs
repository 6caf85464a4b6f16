//! A typed reader of mappings: takes each key once, with its type, and reports all others. The test
//! `a_reader_takes_each_key_once_and_reports_the_rest` shows its use.

use super::describe::{describe, is_expression, join_names};
use super::error_messages::{quote, shorten};
use super::{Entry, Kind, Map, Node, Text};
use crate::diagnostic::{Diagnostic, Diagnostics, Source, Span};
use crate::units;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A key that people know from other workflow languages.
#[derive(Debug)]
pub struct ForeignKey {
    /// The key in each of these languages.
    pub keys: &'static [&'static str],
    /// The equivalent key here, if its value has the same form.
    pub equivalent: Option<&'static str>,
    /// The help text: what to write in its place.
    pub help: &'static str,
    /// Writes the entry in this language, on one line or with the given separator between its keys; `None` if its value does not
    /// allow it.
    pub rewrite: Option<Rewrite>,
}

/// Writes an entry with a foreign key in this language. The arguments are its value, the file, and the text between two keys of the
/// mapping.
pub type Rewrite = fn(&Node, &Source, &str) -> Option<String>;

/// Reads a mapping key by key. Reading a key declares it as allowed.
///
/// Every key must be taken or allowed before [`finish`](MapReader::finish), which reports the others.
#[derive(Debug)]
#[must_use = "call `finish`, or unknown keys go unnoticed"]
pub struct MapReader<'n, 'd> {
    node: &'n Node,
    map: &'n Map,
    what: &'d str,
    known: Vec<&'d str>,
    /// Misspelt entries, each with the declared key that it is read as; see [`MapReader::correct_keys`].
    corrections: Vec<(&'d str, &'n Entry)>,
    /// Keys of other languages that authors may write here.
    foreign: &'static [ForeignKey],
    /// Help text for mutually exclusive keys.
    conflict_help: Option<&'static str>,
    diagnostics: &'d Diagnostics,
}

impl<'n, 'd> MapReader<'n, 'd> {
    /// Creates a reader of a mapping; reports any other node. `what` names the mapping with its article: "a step".
    pub fn new(node: &'n Node, what: &'d str, diagnostics: &'d Diagnostics) -> Option<Self> {
        Self::new_with_suggestion(node, what, None, diagnostics)
    }

    /// As [`MapReader::new`], with the mapping to suggest for a value of another type.
    pub fn new_with_suggestion(
        node: &'n Node,
        what: &'d str,
        suggestion: Option<String>,
        diagnostics: &'d Diagnostics,
    ) -> Option<Self> {
        if let Kind::Map(map) = &node.kind {
            let (known, corrections) = (Vec::new(), Vec::new());
            let (foreign, conflict_help) = (Default::default(), None);
            return Some(MapReader {
                node,
                map,
                what,
                known,
                corrections,
                foreign,
                conflict_help,
                diagnostics,
            });
        }
        let message = format!("expected a mapping for {what}, found {}", describe(node, diagnostics));
        let diagnostic = Diagnostic::error("wrong-type", message, node.head());
        diagnostics.push(match suggestion {
            Some(suggestion) => {
                diagnostic.help(format!("write `{suggestion}`")).replace(node.span, suggestion)
            }
            None if what == "a schedule" => {
                diagnostic.help("write `{cron: \"0 8 * * *\"}`, `{every: 10m}` or `{daily: {at: \"08:30\"}}`")
            }
            None => diagnostic.help("write `key: value` lines"),
        });
        None
    }

    /// Takes the value of a key, which may be missing. Declares the key.
    pub fn take(&mut self, key: &'d str) -> Field<'n, 'd> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let node = self.entry(key).map(|entry| &entry.value);
        Field { node, name: key, is_item: false, diagnostics: self.diagnostics }
    }

    /// Takes the value of a key; reports a missing one. Declares the key.
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

    /// Declares keys without taking them.
    pub fn allow(&mut self, keys: &[&'d str]) {
        for key in keys {
            self.take(key);
        }
    }

    /// Sets the keys of other languages, so that their help texts replace spelling suggestions.
    pub fn set_foreign_keys(&mut self, keys: &'static [ForeignKey]) {
        self.foreign = keys;
    }

    /// Sets the help text for several keys of which only one is allowed.
    pub fn set_conflict_help(&mut self, help: Option<&'static str>) {
        self.conflict_help = help;
    }

    /// The entry of a key of another language; `None` if the key is not one.
    #[must_use]
    pub fn foreign(&self, key: &str) -> Option<&'static ForeignKey> {
        self.foreign.iter().find(|foreign| foreign.keys.contains(&key))
    }

    /// Reads each undeclared key as the most similar declared key that is unused, so that values below a misspelt key are
    /// checked in the same run. Call it once all keys are declared; [`finish`](Self::finish) still reports the key as unknown.
    /// Skips keys for which `skip` returns true, and keys of one or two letters, which are similar to too many.
    pub fn correct_keys(&mut self, skip: impl Fn(&str) -> bool) {
        let mut unused = self.unused_keys();
        for entry in self.map {
            let key = entry.key.as_str();
            if self.known.contains(&key) || skip(key) {
                continue;
            }
            let suggestion = match self.foreign(key) {
                Some(foreign) => foreign
                    .equivalent
                    .and_then(|equivalent| unused.iter().copied().find(|known| *known == equivalent)),
                None if key.len() < 3 => None,
                None => crate::diagnostic::nearest(key, unused.iter().copied()),
            };
            if let Some(suggestion) = suggestion {
                unused.retain(|known| *known != suggestion);
                self.corrections.push((suggestion, entry));
            }
        }
    }

    /// The declared key that a misspelt entry is read as (see [`correct_keys`](Self::correct_keys)); `None` if it is not.
    #[must_use]
    pub fn corrected_key(&self, entry: &Entry) -> Option<&'d str> {
        self.corrections.iter().find(|(_, corrected)| std::ptr::eq(*corrected, entry)).map(|(key, _)| *key)
    }

    /// The entries whose keys are neither declared nor read as a declared key.
    pub fn unknown_entries(&self) -> impl Iterator<Item = &'n Entry> {
        self.undeclared_entries().filter(|entry| self.corrected_key(entry).is_none())
    }

    /// The one of `keys` that is present. Reports if none or several are. Declares all of them without taking any. Of several,
    /// returns the first in the file.
    pub fn exactly_one_of(&mut self, keys: &[&'d str]) -> Option<&'d str> {
        let one = self.at_most_one_of(keys).or_else(|| keys.iter().copied().find(|key| self.has(key)));
        if one.is_none() {
            let message = format!("{} needs one of {}", self.what, join_names(keys));
            self.diagnostics.push(
                Diagnostic::error("missing-key", message, self.node.head()).allowed(keys.iter().copied()),
            );
        }
        one
    }

    /// The one of `keys` that is present; `None` if none is. Reports if several are. Declares all of them without taking any.
    /// Of several, returns the first in the file.
    pub fn at_most_one_of(&mut self, keys: &[&'d str]) -> Option<&'d str> {
        self.allow(keys);
        let name = |entry: &Entry| keys.iter().copied().find(|key| *key == entry.key);
        let mut present = self.map.iter().filter_map(|entry| name(entry).map(|key| (key, entry.key_span)));
        let (first, first_span) = present.next()?;
        for (other, span) in present {
            let message = format!("{} cannot have both `{first}` and `{other}`", self.what);
            self.diagnostics.push(
                Diagnostic::error("conflicting-keys", message, span)
                    .related(first_span, format!("`{first}` is here"))
                    .help(match self.conflict_help {
                        Some(instead) => format!("{} has one of {}: {instead}", self.what, join_names(keys)),
                        None => format!("{} has one of {}", self.what, join_names(keys)),
                    }),
            );
        }
        Some(first)
    }

    /// True if a key is present. Does not declare it.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// The span of a key; the start of the mapping if the key is missing.
    #[must_use]
    pub fn key_span(&self, key: &str) -> Span {
        self.entry(key).map_or_else(|| self.node.head(), |entry| entry.key_span)
    }

    /// The whole mapping.
    #[must_use]
    pub fn node(&self) -> &'n Node {
        self.node
    }

    /// The entries whose keys are not declared yet, for mappings whose keys the author chooses. Call
    /// [`finish_open`](Self::finish_open) afterwards.
    pub fn undeclared_entries(&self) -> impl Iterator<Item = &'n Entry> {
        self.map.iter().filter(|entry| !self.known.contains(&entry.key.as_str()))
    }

    /// The collector that this reader reports to.
    #[must_use]
    pub fn diagnostics(&self) -> &'d Diagnostics {
        self.diagnostics
    }

    /// The name of the mapping in messages, with its article.
    #[must_use]
    pub fn what(&self) -> &'d str {
        self.what
    }

    /// Reports every undeclared key, with the most similar declared key that is unused.
    pub fn finish(self) {
        let unused = self.unused_keys();
        for entry in self.undeclared_entries() {
            let nearest = self.corrected_key(entry).or_else(|| {
                if self.foreign(&entry.key).is_some() {
                    return None;
                }
                crate::diagnostic::nearest(&entry.key, unused.iter().copied())
            });
            let message = format!("unknown key `{}` in {}", shorten(&entry.key), self.what);
            let diagnostic = Diagnostic::error("unknown-key", message, entry.key_span)
                .label(format!("not a key of {}", self.what))
                .allowed(self.known.iter().copied())
                .nearest(nearest);
            let Some(foreign) = self.foreign(&entry.key) else {
                self.diagnostics.push(diagnostic);
                continue;
            };
            let diagnostic = diagnostic.help(foreign.help);
            self.diagnostics.push(match self.rewritten(entry) {
                Some((span, text)) => diagnostic.replace(span, text),
                None => diagnostic,
            });
        }
    }

    /// The entry of a foreign key in this language, and the span that it replaces.
    #[must_use]
    pub fn rewritten(&self, entry: &Entry) -> Option<(Span, String)> {
        let rewrite = self.foreign(&entry.key)?.rewrite?;
        let text = rewrite(&entry.value, self.diagnostics.source(), &self.separator(entry))?;
        Some((entry.key_span.cover(entry.value.span), text))
    }

    /// The text between two keys of the mapping: a comma in brackets, else a line break with the indentation of `entry`.
    #[must_use]
    pub fn separator(&self, entry: &Entry) -> String {
        let text = self.diagnostics.source().text();
        if text.get(self.node.span.start as usize..).is_some_and(|rest| rest.starts_with('{')) {
            return ", ".to_owned();
        }
        let before = text.get(..entry.key_span.start as usize).unwrap_or_default();
        let lead = before.rsplit('\n').next().unwrap_or_default();
        format!("\n{}", " ".repeat(lead.chars().count()))
    }

    /// Ends the reading of a mapping that allows any other key.
    pub fn finish_open(self) {}

    /// The declared keys that no entry has or is read as. Callers compute this once and not for each entry, because a mapping may
    /// have very many.
    fn unused_keys(&self) -> Vec<&'d str> {
        self.known.iter().copied().filter(|known| !self.has(known)).collect()
    }

    fn entry(&self, key: &str) -> Option<&'n Entry> {
        let corrections = || self.corrections.iter().find(|(name, _)| *name == key).map(|(_, entry)| *entry);
        self.map.entry(key).or_else(corrections)
    }
}

/// The value of a key or a list item: possibly missing, and not yet of a type.
///
/// Each typed getter returns `None` for a missing value, and reports a value of a wrong type at its span.
#[derive(Debug, Clone, Copy)]
pub struct Field<'n, 'd> {
    node: Option<&'n Node>,
    name: &'d str,
    is_item: bool,
    diagnostics: &'d Diagnostics,
}

impl<'n, 'd> Field<'n, 'd> {
    /// Creates a field for a node from elsewhere; `name` is its name in messages.
    #[must_use]
    pub fn new(node: &'n Node, name: &'d str, diagnostics: &'d Diagnostics) -> Self {
        Field { node: Some(node), name, is_item: false, diagnostics }
    }

    /// The untyped value.
    #[must_use]
    pub fn node(self) -> Option<&'n Node> {
        self.node
    }

    /// True if there is a value, even a null.
    #[must_use]
    pub fn is_present(self) -> bool {
        self.node.is_some()
    }

    /// The span of the value; `None` if it is missing.
    #[must_use]
    pub fn span(self) -> Option<Span> {
        self.node.map(|node| node.span)
    }

    /// Reports a problem at the span of the value. Does nothing if the value is missing.
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

    /// Text with its style and positions.
    #[must_use]
    pub fn text(self) -> Option<&'n Text> {
        let node = self.node?;
        if let Kind::String(text) = &node.kind {
            return Some(text);
        }
        let diagnostic = self.wrong_type(node, "text");
        let source = self.diagnostics.source().slice(node.span);
        let is_word = !source.is_empty() && !matches!(node.kind, Kind::List(_) | Kind::Map(_));
        self.diagnostics.push(if is_word {
            diagnostic.help("quote it to make it text").replace(node.span, quote(source))
        } else {
            diagnostic
        });
        None
    }

    /// Text that is not blank.
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
        let suggestion = match node.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("yes" | "on" | "y" | "true") => Some("true"),
            Some("no" | "off" | "n" | "false") => Some("false"),
            _ => None,
        };
        self.diagnostics.push(match suggestion {
            Some(suggestion) => {
                diagnostic.help(format!("write `{suggestion}`")).replace(node.span, suggestion)
            }
            None => diagnostic,
        });
        None
    }

    /// An integer within a range.
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
                let source = self.diagnostics.source().slice(node.span);
                let message = format!("{} must be {bounds}, found {}", self.subject(), shorten(source));
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
            _ => self.reject_type(node, "a number"),
        }
    }

    /// A duration: `10s`, `1h30m` (see [`units::parse_duration`]).
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        self.parse_unit("a duration", "invalid-duration", units::parse_duration, units::suggest_duration)
    }

    /// A size in bytes: `6MiB` (see [`units::parse_size`]).
    #[must_use]
    pub fn size(self) -> Option<u64> {
        self.parse_unit("a size", "invalid-size", units::parse_size, units::suggest_size)
    }

    /// One of `words`. Reports another word, and reads it as the most similar one, so that everything that depends on it is
    /// checked in the same run.
    #[must_use]
    pub fn choice(self, words: &[&'d str]) -> Option<&'d str> {
        let node = self.node?;
        // A plain `true` or `1` resolves to another type, and none of the words is one.
        let Some(found) = node.as_str() else {
            let diagnostic = self.wrong_type(node, &format!("one of {}", join_names(words)));
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

    /// As [`Field::choice`], with words of other languages for some of the words.
    #[must_use]
    pub fn choice_or_alias(self, words: &[&'d str], aliases: &[(&str, &'d str)]) -> Option<&'d str> {
        let alias = self
            .node
            .and_then(Node::as_str)
            .and_then(|found| aliases.iter().find(|(alias, _)| *alias == found));
        let (Some((found, word)), Some(node)) = (alias, self.node) else { return self.choice(words) };
        let message = format!("unknown value `{found}` for {}", self.subject());
        let diagnostic =
            Diagnostic::error("unknown-value", message, node.span).allowed(words.iter().copied());
        self.diagnostics.push(diagnostic.nearest(Some(*word)));
        Some(*word)
    }

    /// One of several words, converted to its value.
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
        node.as_list().or_else(|| self.reject_type(node, "a list"))
    }

    /// The items of a list, each as a field.
    #[must_use]
    pub fn items(self) -> Option<Vec<Field<'n, 'd>>> {
        let item = |node| Field { node: Some(node), is_item: true, ..self };
        self.list().map(|items| items.iter().map(item).collect())
    }

    /// A list, or a single value as a list of one.
    #[must_use]
    pub fn one_or_more(self) -> Option<Vec<Field<'n, 'd>>> {
        if matches!(self.node?.kind, Kind::List(_)) { self.items() } else { Some(vec![self]) }
    }

    /// A list of texts. Reports and skips other items.
    #[must_use]
    pub fn strings(self) -> Option<Vec<&'n str>> {
        Some(self.items()?.into_iter().filter_map(Field::string).collect())
    }

    /// A mapping whose keys the author chooses.
    #[must_use]
    pub fn entries(self) -> Option<&'n Map> {
        let node = self.node?;
        node.as_map().or_else(|| self.reject_type(node, "a mapping"))
    }

    /// A mapping with fixed keys; `what` names it with its article.
    #[must_use]
    pub fn map(self, what: &'d str) -> Option<MapReader<'n, 'd>> {
        MapReader::new(self.node?, what, self.diagnostics)
    }

    fn parse_unit<T>(
        self,
        what: &str,
        code: &'static str,
        parse: fn(&str) -> Result<T, units::Error>,
        suggestion: fn(&str) -> Option<String>,
    ) -> Option<T> {
        let node = self.node?;
        let source = match &node.kind {
            Kind::String(text) => text.value.as_str(),
            Kind::Integer(_) | Kind::Unsigned(_) | Kind::Float(_) => {
                self.diagnostics.source().slice(node.span)
            }
            _ => return self.reject_type(node, what),
        };
        if is_expression(source) {
            return self.reject_type(node, what);
        }
        match parse(source) {
            Ok(value) => Some(value),
            Err(error) => {
                let message = format!("{} must be {what}", self.subject());
                let diagnostic = Diagnostic::error(code, message, node.span).help(error.to_string());
                self.diagnostics.push(match suggestion(source) {
                    Some(suggestion) => diagnostic.replace(node.span, suggestion),
                    None => diagnostic,
                });
                None
            }
        }
    }

    fn reject_type<T>(self, node: &Node, expected: &str) -> Option<T> {
        self.diagnostics.push(self.wrong_type(node, expected));
        None
    }

    fn wrong_type(self, node: &Node, expected: &str) -> Diagnostic {
        let found = describe(node, self.diagnostics);
        let message = format!("expected {expected} for {}, found {found}", self.subject());
        Diagnostic::error("wrong-type", message, node.head())
    }

    fn subject(self) -> String {
        let name = shorten(self.name);
        if self.is_item { format!("an item of `{name}`") } else { format!("`{name}`") }
    }
}
