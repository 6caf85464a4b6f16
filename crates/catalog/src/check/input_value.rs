//! Checks the literal parts of a value against its type and reports each problem at its own position.

use connector::convert_value;
use expression::Template;
use language::load::{PathSegment, extent_at_path, span_at_path};
use model::InputType;
use text::diagnostic::{Diagnostic, Source, Span};
use value::Value;

/// Checks the value of the entry whose key is at `key`. Computed parts are checked at run time. `what` names the
/// value in messages, such as "input `url`".
pub(super) fn check(
    source: &Source,
    kind: &InputType,
    template: &Template,
    key: Span,
    what: &str,
    found: &mut Vec<Diagnostic>,
) {
    Checker { source, key, path: Vec::new(), found }.template(kind, template, what);
}

struct Checker<'a> {
    source: &'a Source,
    key: Span,
    /// Path from the key's value down to the current part.
    path: Vec<PathSegment>,
    found: &'a mut Vec<Diagnostic>,
}

impl Checker<'_> {
    fn template(&mut self, kind: &InputType, template: &Template, what: &str) {
        let problem = match (kind, template) {
            (_, Template::Literal(value)) => return self.value(kind, value, what),
            (InputType::Object { .. }, Template::Map(entries)) => {
                let given: Vec<&str> = entries.iter().map(|(key, _)| &**key).collect();
                self.object(kind, &given, what);
                for (key, value) in entries {
                    if let Some(kind) = entry_kind(kind, key) {
                        self.within(PathSegment::Entry(key.to_string()), |inner| {
                            inner.template(kind, value, &format!("{what}: `{key}`"));
                        });
                    }
                }
                return;
            }
            (InputType::Map { values }, Template::Map(entries)) => {
                for (key, value) in entries {
                    self.within(PathSegment::Entry(key.to_string()), |inner| {
                        inner.template(values, value, &format!("{what}: `{key}`"));
                    });
                }
                return;
            }
            (InputType::List { items }, Template::List(values)) => {
                for (index, value) in values.iter().enumerate() {
                    self.within(PathSegment::Item(index), |inner| {
                        inner.template(items, value, &format!("{what}: item {index}"));
                    });
                }
                return;
            }
            (InputType::Any, _) | (_, Template::Expression(_)) => return,
            (
                InputType::Text | InputType::Url | InputType::Choice { .. } | InputType::File,
                Template::Text(_),
            ) => return,
            (kind, Template::Text(_)) => format!("expected {}, found text", kind.describe()),
            (kind, Template::List(_)) => format!("expected {}, found a list", kind.describe()),
            (kind, Template::Map(_)) => format!("expected {}, found a map", kind.describe()),
        };
        self.wrong(kind, None, &problem, what);
    }

    /// Checks a value without expressions and reports each innermost mismatch.
    fn value(&mut self, kind: &InputType, value: &Value, what: &str) {
        if matches!((kind, value), (InputType::Text, Value::Number(_))) {
            self.number_as_text(value, what);
        }
        let Err(problem) = convert_value(kind, value) else { return };
        if value.is_null() {
            return;
        }
        let before = self.found.len();
        match (kind, value) {
            (InputType::Object { .. }, Value::Map(map)) => {
                let given: Vec<&str> = map.iter().map(|(key, _)| key.as_str()).collect();
                self.object(kind, &given, what);
                for (key, value) in map.iter() {
                    if let Some(kind) = entry_kind(kind, key) {
                        self.within(PathSegment::Entry(key.to_string()), |inner| {
                            inner.value(kind, value, &format!("{what}: `{key}`"));
                        });
                    }
                }
            }
            (InputType::Map { values }, Value::Map(map)) => {
                for (key, value) in map.iter() {
                    self.within(PathSegment::Entry(key.to_string()), |inner| {
                        inner.value(values, value, &format!("{what}: `{key}`"));
                    });
                }
            }
            (InputType::List { items }, Value::List(list)) => {
                for (index, value) in list.0.iter().enumerate() {
                    self.within(PathSegment::Item(index), |inner| {
                        inner.value(items, value, &format!("{what}: item {index}"));
                    });
                }
            }
            _ => {}
        }
        if self.found.len() == before {
            self.wrong(kind, Some(value), &problem, what);
        }
    }

    /// Warns of a number that becomes another text than the written one: `1.10`, `1e3`.
    fn number_as_text(&mut self, value: &Value, what: &str) {
        let span = self.position(None);
        let (written, text) = (self.source.slice(span), value.to_text());
        if written == text || written.is_empty() || written.starts_with(['*', '&', '"', '\'']) {
            return;
        }
        let message = format!("{what} is text, and the number `{written}` becomes `{text}`");
        let quoted = format!("\"{written}\"");
        let diagnostic = Diagnostic::warning("number-form", message, span);
        self.found.push(
            diagnostic
                .help(format!("quote it to keep it as it is written: `{quoted}`"))
                .replace(span, quoted),
        );
    }

    /// Checks the keys of a map with declared fields.
    fn object(&mut self, kind: &InputType, given: &[&str], what: &str) {
        let InputType::Object { fields } = kind else { return };
        let names = || fields.iter().map(|field| field.name.as_str());
        let mut known: Vec<&str> = given.to_vec();
        for key in given.iter().filter(|key| !names().any(|name| name == **key)) {
            let free = names().filter(|name| !given.contains(name));
            let near = text::diagnostic::nearest(key, free);
            known.extend(near);
            let span = self.position(Some(PathSegment::Key((*key).to_owned())));
            let message = format!("{what} has no entry `{key}`");
            let is_exact = self.source.slice(span) == *key;
            let diagnostic = Diagnostic::error("unknown-input", message, span).allowed(names());
            self.found.push(match near {
                Some(near) if is_exact => diagnostic.nearest(Some(near)),
                Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                None => diagnostic,
            });
        }
        let needed = fields.iter().filter(|field| field.required && field.default.is_none());
        for field in needed.filter(|field| !known.contains(&field.name.as_str())) {
            let span = self.own_key();
            let message = format!("{what} needs the entry `{}`", field.name);
            let help = format!("add `{}: …` ({})", field.name, field.kind.describe());
            self.found.push(Diagnostic::error("missing-input", message, span).help(help));
        }
    }

    fn wrong(&mut self, kind: &InputType, value: Option<&Value>, problem: &str, what: &str) {
        let span = self.position(None);
        let diagnostic = Diagnostic::error("wrong-input", format!("{what}: {problem}"), span);
        self.found.push(match kind {
            InputType::Choice { options } => {
                let written = value.and_then(Value::as_str).unwrap_or_default();
                let same = options.iter().find(|option| option.eq_ignore_ascii_case(written));
                let diagnostic = diagnostic.allowed(options.iter().cloned());
                diagnostic.replacement(same.map(|option| (span, option.clone())))
            }
            InputType::Url => match self.with_scheme(span) {
                Some((span, text)) => {
                    diagnostic.help("an address begins with its scheme: `https://…`").replace(span, text)
                }
                None => diagnostic,
            },
            InputType::Map { .. } | InputType::Object { .. } => match value.and_then(map_of) {
                Some(meant) => {
                    let extent = extent_at_path(self.source, self.key, &self.path);
                    let diagnostic = diagnostic.help(format!("write a map: `{meant}`"));
                    diagnostic.replacement(extent.map(|extent| (extent, meant)))
                }
                None => diagnostic.help("write a map: `{name: value}`"),
            },
            _ => diagnostic,
        });
    }

    /// Returns the correction of an address that begins with its host: `example.com/orders`.
    fn with_scheme(&self, span: Span) -> Option<(Span, String)> {
        let text = self.source.slice(span);
        let quotes = usize::from(text.starts_with(['"', '\'']));
        let host = text.get(quotes..)?.split(['/', '"', '\'']).next()?;
        let is_host = host.contains('.') && !host.starts_with('.') && !text.contains("://");
        let is_host = is_host && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
        let start = Span::at(span.start as usize + quotes);
        if !is_host { None } else { text::yaml::replace_at(self.source, start, "https://") }
    }

    fn within(&mut self, part: PathSegment, look: impl FnOnce(&mut Self)) {
        self.path.push(part);
        look(self);
        self.path.pop();
    }

    /// Returns the position of the current part's key; for a list item, of the item.
    fn own_key(&mut self) -> Span {
        match self.path.split_last() {
            None => self.key,
            Some((PathSegment::Entry(name), path)) => {
                let path: Vec<PathSegment> =
                    path.iter().cloned().chain([PathSegment::Key(name.clone())]).collect();
                span_at_path(self.source, self.key, &path).unwrap_or(self.key)
            }
            Some(_) => self.position(None),
        }
    }

    /// Returns the position of the current part or of a child; falls back to the key.
    fn position(&mut self, part: Option<PathSegment>) -> Span {
        let mut path = self.path.clone();
        path.extend(part);
        span_at_path(self.source, self.key, &path).unwrap_or(self.key)
    }
}

fn entry_kind<'k>(kind: &'k InputType, name: &str) -> Option<&'k InputType> {
    let InputType::Object { fields } = kind else { return None };
    fields.iter().find(|field| field.name == name).map(|field| &field.kind)
}

/// The map that a query string such as `page=1&size=5` means, or a list of `{name, value}`.
fn map_of(value: &Value) -> Option<String> {
    let entries: Vec<(String, String)> = match value {
        Value::String(text) => {
            let text = text.strip_prefix('?').unwrap_or(text);
            let pairs = text.split('&').map(|pair| pair.split_once('='));
            pairs
                .map(|pair| pair.map(|(name, value)| (name.to_owned(), value.to_owned())))
                .collect::<Option<_>>()?
        }
        Value::List(items) => items.0.iter().map(named_value).collect::<Option<_>>()?,
        _ => return None,
    };
    let mut known = std::collections::HashSet::new();
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    // A quote, a backslash or an encoded character needs more than quotes.
    let is_text = |text: &str| !text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\' | '%' | '+'));
    let is_simple =
        entries.iter().all(|(name, value)| is_name(name) && is_text(value) && known.insert(name.clone()));
    let entry = |(name, value): &(String, String)| format!("{name}: \"{value}\"");
    is_simple.then(|| format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", ")))
}

/// The entry that `{name: accept, value: text/plain}` means.
fn named_value(item: &Value) -> Option<(String, String)> {
    let map = item.as_map().filter(|map| map.len() == 2)?;
    let name = map.get("name").or_else(|| map.get("key"))?.as_str()?;
    let value = map.get("value").filter(|value| matches!(value, Value::String(_) | Value::Number(_)))?;
    Some((name.to_owned(), value.to_text()))
}
