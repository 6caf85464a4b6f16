//! Messages for errors of the YAML parser, in the terms of the people who write automations.

use super::{Kind, Node};
use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use granit_parser::{ErrorKind, ScanError};

/// The state of the tree builder when the parser failed.
#[derive(Debug, Default)]
pub(super) struct ScanContext {
    /// The innermost open `[` or `{`.
    pub open_flow: Option<Span>,
    /// The last scalar that the parser returned.
    pub last_scalar: Option<Span>,
    /// The end of the last event.
    pub last_end: usize,
    /// An unquoted value that begins with `*` and was reported already.
    pub unquoted_star: Option<Span>,
}

/// The longest quotation of a file in a message, in characters.
const MAX_QUOTE: usize = 40;

/// Shortens a part of a file to one line of at most [`MAX_QUOTE`] characters.
pub(super) fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.len() == text.len() && line.chars().count() <= MAX_QUOTE {
        return line.to_owned();
    }
    line.chars().take(MAX_QUOTE - 1).chain(['…']).collect()
}

/// Formats a text of one line as a quoted YAML scalar.
pub fn quote(text: &str) -> String {
    if text.contains(['"', '\\']) { format!("'{}'", text.replace('\'', "''")) } else { format!("\"{text}\"") }
}

pub(super) fn too_deep(limit: usize, span: Span) -> Diagnostic {
    let message = format!("lists and mappings are nested more than {limit} levels deep");
    Diagnostic::error("yaml-too-large", message, span).help("take some of the inner ones out")
}

pub(super) fn merge_key(span: Span) -> Diagnostic {
    Diagnostic::error("yaml-merge-key", "merging with `<<` is not part of YAML 1.2", span)
        .help("write the keys out; a whole value can be reused with `&name` and `*name`")
}

pub(super) fn invalid_tag(source: &str, core: Option<&str>, value: &str, span: Span) -> Diagnostic {
    let source = shorten(source);
    if core.is_some() {
        return Diagnostic::error(
            "yaml-tag",
            format!("`{}` is not what `{source}` says", shorten(value)),
            span,
        )
        .help("remove the tag");
    }
    let help = match source.as_str() {
        "!secret" => "write `${{ secrets.name }}` to use a secret",
        "!env_var" | "!env" => "write `${{ env.NAME }}` to use an environment variable",
        _ => "quote a value that begins with `!`; tags have no meaning here",
    };
    Diagnostic::error("yaml-tag", format!("the tag `{source}` is not known"), span).help(help)
}

pub(super) fn collection_key(text: &str, node: &Node, at: Span) -> Diagnostic {
    // `{{ x }}` reads as a mapping whose key is a mapping; the outer brace is just before the inner one.
    let before = (at.start as usize).saturating_sub(1);
    if matches!(node.kind, Kind::Map(_)) && text.get(before..).is_some_and(|rest| rest.starts_with("{{")) {
        let end = text[before..].find("}}").map_or(at.end as usize, |close| before + close + 2);
        let span = Span::new(before, end);
        let expression = format!("${}", text.get(span.range()).unwrap_or_default());
        let diagnostic = Diagnostic::error("yaml-unquoted-expression", "`{{` begins a mapping here", span)
            .help("an expression is written `${{ … }}`, and inside `{ }` or `[ ]` in quotes");
        return if expression.contains('\n') {
            diagnostic
        } else {
            diagnostic.replace(span, quote(&expression))
        };
    }
    Diagnostic::error("yaml-key", format!("a key must be text, found {}", node.kind_name()), at)
        .help("write a name before the `:`")
}

/// Reports an alias without anchor: a misspelt name, or an unquoted value that begins with `*`, such as a cron expression. In
/// the second case returns the span of the value, because the parser reports another error inside it.
pub(super) fn unresolved_alias(
    diagnostics: &Diagnostics,
    text: &str,
    span: Span,
    in_flow: bool,
) -> Option<Span> {
    let name = text.get(span.range()).unwrap_or_default();
    let value = rest_of_value(text, span.start as usize, in_flow);
    if value.len() > span.len() || name.contains('/') {
        diagnostics.push(unquoted_star(text, value));
        return Some(value);
    }
    diagnostics.push(
        Diagnostic::error(
            "yaml-unknown-anchor",
            format!("there is no anchor for the alias `{}`", shorten(name)),
            span,
        )
        .help("put the anchor `&name` before its use, or quote a value that begins with `*`")
        .replace(span, quote(name)),
    );
    None
}

fn unquoted_star(text: &str, span: Span) -> Diagnostic {
    let value = text.get(span.range()).unwrap_or_default();
    Diagnostic::error("yaml-unquoted-value", "a value that begins with `*` must be quoted", span)
        .label("YAML reads this as an alias")
        .replace(span, quote(value))
}

/// The span of the value that begins at `start`: up to the end of its line, a comment, or a delimiter inside brackets.
fn rest_of_value(text: &str, start: usize, in_flow: bool) -> Span {
    let rest = text.get(start..).unwrap_or_default();
    let line = rest.split(['\n', '\r']).next().unwrap_or_default();
    let line = line.split(" #").next().unwrap_or_default();
    let value = if in_flow { line.split([',', ']', '}']).next().unwrap_or_default() } else { line };
    Span::new(start, start + value.trim_end().len())
}

/// Reports the error that stopped the parser.
pub(super) fn scan_error(
    diagnostics: &Diagnostics,
    text: &str,
    error: &ScanError,
    context: &ScanContext,
    depth_limit: usize,
) {
    let at = error.marker().byte_offset().unwrap_or(context.last_end).min(text.len());
    let at = text.floor_char_boundary(at);
    let is_reported = context.unquoted_star.is_some_and(|span| span.range().contains(&at));
    if is_reported {
        return;
    }
    let diagnostic = unquoted_expression(text, at, context)
        .or_else(|| text_after_value(text, at))
        .or_else(|| quote_over_lines(text, at, context))
        .or_else(|| unquoted_value(text, at, error.kind(), context))
        .or_else(|| unclosed(text, at, error.kind(), context))
        .unwrap_or_else(|| fallback(text, at, error.kind(), depth_limit));
    diagnostics.push(diagnostic);
}

/// Explains `[${{ x }}]`, where the parser ends the scalar `$` at the brace.
fn unquoted_expression(text: &str, at: usize, context: &ScanContext) -> Option<Diagnostic> {
    let inside = text.get(at..)?;
    if !inside.starts_with("{{") || !text[..at].ends_with('$') {
        return None;
    }
    let start =
        context.last_scalar.filter(|span| span.end as usize == at).map_or(at - 1, |span| span.start as usize);
    let close = at + inside.find("}}")? + 2;
    let end = rest_of_value(text, close, true).end as usize;
    let value = text.get(start..end)?;
    let span = Span::new(start, end);
    let diagnostic = Diagnostic::error(
        "yaml-unquoted-expression",
        "inside `{ }` or `[ ]` an expression must be quoted",
        span,
    )
    .label("YAML reads these braces as a mapping");
    Some(if value.contains(['\n', '\r']) {
        diagnostic.help("put the whole value in quotes")
    } else {
        diagnostic.replace(span, quote(value))
    })
}

/// Explains `key: [urgent] disk full`, `key: "urgent" disk` and `key: "He said "no""`: text behind the end of a value.
fn text_after_value(text: &str, at: usize) -> Option<Diagnostic> {
    let before = text.get(..at)?;
    let start = before.rfind('\n').map_or(0, |line_break| line_break + 1);
    // An error at the end of a line, or at the first token of the next one, may be about the line before.
    let is_next = before.get(start..)?.trim().is_empty();
    let previous = before.get(..start)?.trim_end().rfind('\n').map_or(0, |line_break| line_break + 1);
    let line = |start: usize| Some((start, text.get(start..)?.split(['\n', '\r']).next()?));
    let lines = [line(start), line(previous).filter(|_| is_next)];
    lines.into_iter().flatten().find_map(|(start, line)| {
        let line = line.split(" #").next()?.trim_end();
        let key = line.find(": ")? + 2;
        let from = key + line[key..].find(|c| c != ' ')?;
        let value = &line[from..];
        let first = value.chars().next()?;
        let end = match first {
            '[' | '{' => closing_bracket(value)?,
            '"' | '\'' => value[1..].find(first)? + 2,
            _ => return None,
        };
        let rest = value[end..].trim_start();
        // The remaining line belongs to YAML: a second value of a flow mapping, a key in quotes.
        if rest.is_empty() || rest.starts_with([',', ']', '}', ':']) || line[..key].contains(['{', '[']) {
            return None;
        }
        let span = Span::new(start + from, start + line.len());
        let inner = value.get(1..value.len() - 1).filter(|_| value.len() > 1 && value.ends_with(first));
        let inner = inner.filter(|inner| matches!(first, '"' | '\'') && !inner.contains('\\'));
        let (message, meant) = match inner {
            Some(inner) => ("this text has quotes inside its quotes".to_owned(), inner),
            None => (format!("there is text behind the value that begins with `{first}`"), value),
        };
        // Both kinds of quotes inside need the other kind doubled, which `quote` does.
        let diagnostic = Diagnostic::error("yaml-unquoted-value", message, span);
        let quoted = quote(meant);
        Some(diagnostic.help(format!("put the whole text in quotes: `{quoted}`")).replace(span, quoted))
    })
}

/// The offset behind the bracket that closes the one at the start of a text.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Explains a quote that is not closed in a flow mapping, so that it ends at the next quote, lines below.
fn quote_over_lines(text: &str, at: usize, context: &ScanContext) -> Option<Diagnostic> {
    context.open_flow?;
    // The parser may have failed before it returned the scalar.
    let start = opening_quote(text, context.last_end)
        .filter(|start| *start < at)
        .or_else(|| context.last_scalar.map(|span| span.start as usize))?;
    let quote = text.get(start..)?.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let length = text.get(start + 1..)?.find(quote)? + 1;
    let (first_line, below) = text.get(start..start + length)?.split_once('\n')?;
    // A text of several lines that is meant has no keys in its lines.
    if !below.contains(": ") && !below.contains("- ") {
        return None;
    }
    let line = text[..start].rfind('\n').map_or(0, |line_break| line_break + 1);
    let lead = &text[line..start];
    let open = lead.matches(['[', '{']).count().saturating_sub(lead.matches([']', '}']).count());
    let content = first_line.trim_end();
    let closers = content.len() - content.trim_end_matches([']', '}']).len();
    let end = start + content.len() - closers.min(open);
    let diagnostic = Diagnostic::error(
        "yaml-unclosed",
        "this quote is not closed on its line",
        Span::new(start, start + 1),
    )
    .label("the text goes on to the next quote, lines below")
    .help(format!("close it with `{quote}` at the end of the text"));
    Some(if closers > 0 && open > 0 {
        diagnostic.replace(Span::at(end), quote.to_string())
    } else {
        diagnostic
    })
}

/// Explains a value that needs quotes.
fn unquoted_value(text: &str, at: usize, kind: &ErrorKind, context: &ScanContext) -> Option<Diagnostic> {
    let in_flow = context.open_flow.is_some() || opened_on_line(text, at);
    let next = text[at..].chars().next();
    match kind {
        ErrorKind::MissingAnchorOrAliasName if next == Some('*') => {
            Some(unquoted_star(text, rest_of_value(text, at, in_flow)))
        }
        ErrorKind::UnexpectedCharacter { character: character @ ('@' | '`' | '%') } => {
            let span = rest_of_value(text, at, in_flow);
            let message = format!("a value that begins with `{character}` must be quoted");
            let value = text.get(span.range())?;
            Some(Diagnostic::error("yaml-unquoted-value", message, span).replace(span, quote(value)))
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement if !in_flow => {
            let scalar = context.last_scalar.filter(|span| span.end as usize == at)?;
            let source = text.get(scalar.range())?;
            if source.contains('\n') || source.starts_with(['"', '\'']) {
                return None;
            }
            let span = rest_of_value(text, scalar.start as usize, false);
            Some(
                Diagnostic::error(
                    "yaml-unquoted-value",
                    "a value that contains `: ` must be quoted",
                    Span::new(at, at + 1),
                )
                .replace(span, quote(text.get(span.range())?)),
            )
        }
        _ => None,
    }
}

/// True if a bracket is open at `at`, judged by its line alone: the scanner may be ahead of the events it returned.
fn opened_on_line(text: &str, at: usize) -> bool {
    let before = text[..at].rsplit('\n').next().unwrap_or_default();
    before.matches(['[', '{']).count() > before.matches([']', '}']).count()
}

/// Explains an unclosed quote or bracket.
fn unclosed(text: &str, at: usize, kind: &ErrorKind, context: &ScanContext) -> Option<Diagnostic> {
    match kind {
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::DocumentIndicatorInQuotedScalar => {
            let open = opening_quote(text, context.last_end).unwrap_or(at);
            Some(
                Diagnostic::error("yaml-unclosed", "this quote is not closed", Span::new(open, open + 1))
                    .help("close it, or indent the lines of a long text more than its key"),
            )
        }
        ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation => None,
        ErrorKind::UnclosedFlowCollection { open } => Some(unclosed_bracket(*open, Span::new(at, at + 1))),
        _ => {
            let open = context.open_flow?;
            let bracket = text.get(open.range())?.chars().next()?;
            let line_of = |offset: usize| text[..offset].matches('\n').count();
            if line_of(open.start as usize) == line_of(at) && at < text.trim_end().len() {
                return None;
            }
            Some(unclosed_bracket(bracket, open).related(Span::at(at), "it was still open here"))
        }
    }
}

fn unclosed_bracket(bracket: char, span: Span) -> Diagnostic {
    let closing = if bracket == '[' { ']' } else { '}' };
    Diagnostic::error("yaml-unclosed", format!("this `{bracket}` is not closed"), span)
        .help(format!("close it with `{closing}`"))
}

/// The offset of the quote that begins the next scalar, if only punctuation, white space and comments precede it.
fn opening_quote(text: &str, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let rest = text.get(at..)?;
        let next = rest.chars().next()?;
        match next {
            '"' | '\'' => return Some(at),
            '#' => at += rest.find('\n')? + 1,
            ':' | '-' | ',' | '[' | '{' | '?' => at += 1,
            c if c.is_whitespace() => at += c.len_utf8(),
            _ => return None,
        }
    }
}

/// The span of the tabs before `at`, or of the next ones after it: some errors point to the previous line.
fn tab_span(text: &str, at: usize) -> Span {
    let before = text[..at].len() - text[..at].trim_end_matches('\t').len();
    if before > 0 {
        return Span::new(at - before, at);
    }
    let start = text[at..].find('\t').map_or(at, |tab| at + tab);
    let length = text[start..].len() - text[start..].trim_start_matches('\t').len();
    Span::new(start, start + length)
}

fn indentation_error(line: Span) -> Diagnostic {
    Diagnostic::error("yaml-indentation", "this line does not fit the lines above it", line).help(
        "keys of one mapping, and the dashes of one list, begin in the same column; a key ends with `:`",
    )
}

/// Explains `key: ${{ 'Hello: ' ~ x }}`, a second `: ` in a plain value.
fn colon_in_value(text: &str, line: Span) -> Option<Diagnostic> {
    let source = text.get(line.range())?;
    let source = source.split(" #").next().unwrap_or_default().trim_end();
    let key = source.find(": ")?;
    let start = key + source[key + 1..].find(|c| c != ' ')? + 1;
    let value = &source[start..];
    let colon = value.find(": ").or_else(|| value.ends_with(':').then(|| value.len() - 1))?;
    if value.starts_with(['"', '\'', '[', '{', '|', '>', '&', '*', '!']) {
        return None;
    }
    let from = line.start as usize + start;
    let diagnostic = Diagnostic::error(
        "yaml-unquoted-value",
        "a value that contains `: ` must be quoted",
        Span::new(from + colon, from + colon + 1),
    );
    let diagnostic = match value[..colon].contains("${{") {
        true => diagnostic.label("YAML reads this as the end of a key, in an expression too"),
        false => diagnostic.label("YAML reads this as the end of a key"),
    };
    Some(diagnostic.replace(Span::new(from, from + value.len()), quote(value)))
}

/// Explains `action:log.info` on the line above a line that the parser did not expect.
fn missing_space(text: &str, line: Span) -> Option<Diagnostic> {
    let above = text.get(..line.start as usize)?.trim_end();
    let start = above.rfind('\n').map_or(0, |line_break| line_break + 1);
    let source = above.get(start..)?;
    let lead = source.len() - source.trim_start_matches([' ', '-']).len();
    let (key, value) = source.get(lead..)?.split_once(':')?;
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_key || value.is_empty() || value.starts_with([' ', '/']) {
        return None;
    }
    let colon = start + lead + key.len();
    Some(
        Diagnostic::error("yaml-syntax", "a space is missing after this `:`", Span::new(colon, colon + 1))
            .help(format!("write `{key}: {}`", shorten(value)))
            .replace(Span::at(colon + 1), " "),
    )
}

/// The text in double quotes around an offset in which a backslash begins no escape, and the same text in single quotes.
fn backslash_in_quotes(text: &str, at: usize) -> Option<(Span, String)> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |line_break| line_break + 1);
    let line = text.get(start..)?.split(['\n', '\r']).next()?;
    let open = line.find('"')?;
    let close = line.rfind('"').filter(|close| *close > open)?;
    let inner = &line[open + 1..close];
    let is_path =
        inner.contains('\\') && !inner.contains(['"']) && !inner.contains("\\\\") && !inner.contains("${{");
    let has_drive = inner.as_bytes().get(1) == Some(&b':') || inner.starts_with('\\');
    let span = Span::new(start + open, start + close + 1);
    (is_path && has_drive).then(|| (span, format!("'{}'", inner.replace('\'', "''"))))
}

/// Explains a key in the column of the dash above it, which makes it part of no list item.
fn key_under_dash(text: &str, line: Span) -> Option<Diagnostic> {
    let start = line.start as usize;
    let (key, _) = text.get(line.range())?.split_once(':')?;
    let above = text.get(..start)?;
    let indent = above.len() - above.rfind('\n').map_or(0, |line_break| line_break + 1);
    let is_blank = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
    let lines = above[..above.len() - indent].lines().rev().filter(|line| !is_blank(line));
    let column = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let owner = lines.take_while(|line| column(line) >= indent).find(|line| column(line) == indent)?;
    let begins_item = owner.trim_start_matches(' ').starts_with("- ");
    (begins_item && !key.starts_with('-')).then(|| {
        let key = shorten(key);
        let message =
            format!("`{key}` begins in the column of the dash above, so it belongs to no item of the list");
        Diagnostic::error("yaml-indentation", message, Span::new(start, start + key.len().min(line.len())))
            .help(format!(
                "indent `{key}`, and all below it, by two columns: then it belongs to the item above"
            ))
            .replacement(indented_block(text, start, indent))
    })
}

/// The lines from one on that have at least its indentation and begin no item of a list, indented by two more columns.
fn indented_block(text: &str, start: usize, indent: usize) -> Option<(Span, String)> {
    let line_start = start - indent;
    let mut end = line_start;
    let mut indented = String::new();
    for line in text.get(line_start..)?.split_inclusive('\n') {
        let content = line.trim_start_matches(' ');
        let column = line.len() - content.len();
        if !content.trim().is_empty() {
            if column < indent || (column == indent && content.starts_with("- ")) {
                break;
            }
            indented.push_str("  ");
        }
        indented.push_str(line);
        end += line.len();
    }
    Some((Span::new(line_start, end), indented))
}

fn fallback(text: &str, at: usize, kind: &ErrorKind, depth_limit: usize) -> Diagnostic {
    let next = text[at..].chars().next();
    let here = Span::new(at, at + next.filter(|c| !matches!(c, '\n' | '\r')).map_or(0, char::len_utf8));
    let line = || {
        let start = text[..at].rfind('\n').map_or(0, |line_break| line_break + 1);
        let line = text[start..].split(['\n', '\r']).next().unwrap_or_default();
        let indent = line.len() - line.trim_start().len();
        Span::new(start + indent, start + line.trim_end().len())
    };
    match kind {
        ErrorKind::RecursionLimitExceeded => too_deep(depth_limit, here),
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInPlainScalar => {
            Diagnostic::error("yaml-tab", "YAML does not allow a tab here", tab_span(text, at))
                .help("indent with spaces")
        }
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            Diagnostic::error("yaml-syntax", "there is text after the closing quote", here)
                .help("put the whole value in quotes, and double or escape the quotes inside it")
        }
        _ if backslash_in_quotes(text, at).is_some() => {
            let (span, quoted) = backslash_in_quotes(text, at).unwrap_or((here, String::new()));
            Diagnostic::error("yaml-syntax", "this text in double quotes has a backslash that begins no escape", span)
                .help("write `\\\\` for a backslash, or use single quotes, in which a backslash is a backslash: `'…'`")
                .replace(span, quoted)
        }
        ErrorKind::UnknownQuotedScalarEscape => {
            Diagnostic::error("yaml-syntax", "there is no such escape", here).help(
                "write `\\\\` for a backslash, or use single quotes, in which a backslash is a backslash",
            )
        }
        ErrorKind::MappingValueNotAllowed
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::InvalidIndentation
        | ErrorKind::InvalidBlockScalarIndent
        | ErrorKind::SimpleKeyExpected
        | ErrorKind::InvalidSimpleKey
        | ErrorKind::UnexpectedEofBlockMapping
        | ErrorKind::UnexpectedEofBlockSequence => missing_space(text, line())
            .or_else(|| colon_in_value(text, line()))
            .or_else(|| key_under_dash(text, line()))
            .unwrap_or_else(|| indentation_error(line())),
        ErrorKind::BlockSequenceEntryNotAllowed => {
            Diagnostic::error("yaml-syntax", "a list cannot begin on the line of its key", here)
                .help("begin it on the next line, or write it as `[a, b]`")
        }
        ErrorKind::DirectiveDisallowed => {
            Diagnostic::error("yaml-directive", "directives are not allowed", here).help("remove this line")
        }
        ErrorKind::MisplacedFlowCollectionEnd | ErrorKind::MismatchedFlowCollectionEnd { .. } => {
            Diagnostic::error("yaml-syntax", "this bracket closes nothing", here)
                .help("open it first, or quote the value that contains it")
        }
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::ExpectedFlowSequenceSeparator => {
            Diagnostic::error("yaml-syntax", "a comma or a closing bracket is missing before this", here)
                .help("put commas between the items, and quotes around a value that contains brackets")
        }
        ErrorKind::UnexpectedCharacter { character } if character.is_control() => {
            let message = format!("the character `{}` is not allowed", character.escape_default());
            Diagnostic::error("yaml-syntax", message, here)
                .help("remove it, or write it as an escape in double quotes")
        }
        kind => Diagnostic::error("yaml-syntax", kind.to_string(), here),
    }
}
