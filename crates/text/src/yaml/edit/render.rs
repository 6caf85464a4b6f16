//! Writes values as YAML, in the style of the file around them.

use serde_json::{Map, Value};

use crate::yaml::{Kind, Node, Style, scalar};

/// The longest list of scalars that is written in brackets, in characters.
const MAX_INLINE_LIST: usize = 60;

/// The style of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// Columns from a key to the keys below it.
    pub(super) step: usize,
    /// Columns from a key to the dashes below it.
    pub(super) list_step: usize,
    pub(super) newline: &'static str,
}

/// A value in block style.
pub(super) struct Rendered {
    /// The part on the line of the key or dash.
    pub(super) inline: String,
    /// The lines below it, each with its columns from the key or dash.
    pub(super) lines: Vec<(usize, String)>,
}

impl Rendered {
    fn inline(text: String) -> Self {
        Self { inline: text, lines: Vec::new() }
    }

    /// The lines with their indentation, each with a line break before it.
    pub(super) fn lines_at(&self, column: usize, newline: &str) -> String {
        let mut text = String::new();
        for (indent, line) in &self.lines {
            text.push_str(newline);
            if !line.is_empty() {
                text.push_str(&" ".repeat(column + indent));
                text.push_str(line);
            }
        }
        text
    }
}

impl Format {
    pub(super) fn detect(text: &str, tree: &Node) -> Self {
        let newline = match text.find('\n') {
            Some(at) if text[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        };
        let (mut step, mut list_step) = (None, None);
        indentation(text, tree, &mut step, &mut list_step);
        Self { step: step.unwrap_or(2), list_step: list_step.unwrap_or(2), newline }
    }

    /// A value in block style. `is_item` is true below a dash, `is_root` for the whole file.
    pub(super) fn block(self, value: &Value, is_item: bool) -> Rendered {
        match value {
            Value::String(text) if text.contains('\n') => self.literal(text, is_item),
            Value::Array(items) if !items.is_empty() => {
                let is_short = items.iter().all(|item| !item.is_array() && !item.is_object());
                let inline = flow(value, None);
                if is_short && inline.chars().count() <= MAX_INLINE_LIST {
                    return Rendered::inline(inline);
                }
                let column = if is_item { 2 } else { self.list_step };
                let lines = items.iter().flat_map(|item| self.item_lines(item, column)).collect();
                Rendered { inline: String::new(), lines }
            }
            Value::Object(map) if !map.is_empty() => {
                let column = if is_item { 2 } else { self.step };
                Rendered { inline: String::new(), lines: self.map_lines(map, column) }
            }
            other => Rendered::inline(flow_outside(other)),
        }
    }

    /// An item with its dash.
    pub(super) fn item_lines(self, item: &Value, column: usize) -> Vec<(usize, String)> {
        let mut rendered = self.block(item, true);
        // The first key is on the line of the dash.
        if item.is_object() && rendered.inline.is_empty() && !rendered.lines.is_empty() {
            rendered.inline = rendered.lines.remove(0).1;
        }
        lines("-".to_owned(), rendered, column)
    }

    fn map_lines(self, map: &Map<String, Value>, column: usize) -> Vec<(usize, String)> {
        map.iter().flat_map(|(key, value)| self.entry_lines(key, value, column)).collect()
    }

    /// An entry of a mapping.
    pub(super) fn entry_lines(self, key: &str, value: &Value, column: usize) -> Vec<(usize, String)> {
        lines(format!("{}:", scalar_text(key, false, None)), self.block(value, false), column)
    }

    /// A text of several lines as a block scalar, or in quotes if it has other white space at its ends.
    fn literal(self, text: &str, is_item: bool) -> Rendered {
        let content = text.trim_end_matches('\n');
        let header = match text.len() - content.len() {
            0 => "|-",
            1 => "|",
            _ => "|+",
        };
        let is_plain = text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control());
        if content.is_empty()
            || content.starts_with([' ', '\t', '\n'])
            || !is_plain
            || text.contains('\u{feff}')
        {
            return Rendered::inline(double_quoted(text));
        }
        let column = if is_item { 2 } else { self.step };
        let kept = text.strip_suffix('\n').unwrap_or(text);
        let lines = kept.split('\n').map(|line| (column, line.to_owned())).collect();
        Rendered { inline: header.to_owned(), lines }
    }
}

fn lines(first: String, rendered: Rendered, column: usize) -> Vec<(usize, String)> {
    let first = if rendered.inline.is_empty() { first } else { format!("{first} {}", rendered.inline) };
    let rest = rendered.lines.into_iter().map(|(indent, line)| (column + indent, line));
    [(column, first)].into_iter().chain(rest).collect()
}

/// The first indentation of keys and of dashes below keys.
fn indentation(text: &str, node: &Node, step: &mut Option<usize>, list_step: &mut Option<usize>) {
    let column = |at: u32| {
        let at = at as usize;
        at - text[..at].rfind('\n').map_or(0, |newline| newline + 1)
    };
    let is_block = |node: &Node| !text[node.span.start as usize..].starts_with(['{', '[']);
    match &node.kind {
        Kind::Map(map) => {
            for entry in map {
                if step.is_some() && list_step.is_some() {
                    return;
                }
                let (own, below) = (column(entry.key_span.start), column(entry.value.span.start));
                let is_below = entry.value.span.start > entry.key_span.end && is_block(&entry.value);
                match &entry.value.kind {
                    Kind::Map(_) if is_below && below > own => {
                        step.get_or_insert(below - own);
                    }
                    Kind::List(_) if is_below && below >= own => {
                        list_step.get_or_insert(below - own);
                    }
                    _ => {}
                }
                indentation(text, &entry.value, step, list_step);
            }
        }
        Kind::List(items) => items.iter().for_each(|item| indentation(text, item, step, list_step)),
        _ => {}
    }
}

/// A value on one line, outside of brackets.
pub(super) fn flow_outside(value: &Value) -> String {
    match value {
        Value::String(text) => scalar_text(text, false, None),
        other => flow(other, None),
    }
}

/// A value on one line, inside of brackets. `quotes` is the style of the scalar that it replaces.
pub(super) fn flow(value: &Value, quotes: Option<Style>) -> String {
    match value {
        Value::String(text) => scalar_text(text, true, quotes),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| flow(item, quotes)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| {
                format!("{}: {}", scalar_text(key, true, quotes), flow(value, quotes))
            };
            let entries: Vec<String> = map.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// A text on one line: plain where that is read back as the same text, else in quotes.
pub(super) fn scalar_text(text: &str, in_flow: bool, quotes: Option<Style>) -> String {
    let wants_quotes = quotes.is_some_and(Style::is_quoted);
    if !wants_quotes && is_plain(text, in_flow) {
        return text.to_owned();
    }
    let single_fits = !text.chars().any(|c| c.is_control() || c == '\u{feff}');
    let prefers_single = match quotes {
        Some(Style::SingleQuoted) => true,
        Some(Style::DoubleQuoted) => text.contains(['"', '\\']) && !text.contains('\''),
        _ => text.contains(['"', '\\']) && !text.contains('\''),
    };
    if single_fits && prefers_single {
        format!("'{}'", text.replace('\'', "''"))
    } else {
        double_quoted(text)
    }
}

/// JSON's escapes are also those of YAML.
fn double_quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{feff}', "\\ufeff").replace('\u{7f}', "\\x7f")
}

/// True if a text needs no quotes, and other YAML parsers read it as text too.
fn is_plain(text: &str, in_flow: bool) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let second = text[first.len_utf8()..].chars().next();
    let is_indicator = match first {
        '-' | '?' | ':' => {
            second.is_none_or(|c| c.is_whitespace() || matches!(c, ',' | '[' | ']' | '{' | '}'))
        }
        _ => ",[]{}#&*!|>'\"%@`=".contains(first),
    };
    let is_word = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    let looks_numeric = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))
        && text.chars().all(|c| c.is_ascii_digit() || ".:_-+eExXoObB".contains(c));
    !is_indicator
        && !is_word
        && !looks_numeric
        && text.trim() == text
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.contains("\t#")
        && !text.ends_with(':')
        && !text.starts_with("---")
        && !text.starts_with("...")
        && !text
            .chars()
            .any(|c| c.is_control() || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{85}'))
        && !(in_flow && text.contains([',', '[', ']', '{', '}']))
        && !(in_flow && text.contains(':'))
        && matches!(scalar::resolve(text), Ok(None))
}
