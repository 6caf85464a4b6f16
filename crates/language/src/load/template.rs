//! Converts YAML nodes to templates and expressions, each compiled and with its span.

use std::sync::Arc;

use expression::template::{Part, Template, TemplateToken, tokenize, unclosed_quote};
use expression::{Expression, SyntaxError};
use text::diagnostic::{Diagnostic, Diagnostics, Source, Span};
use text::units;
use text::yaml::{Kind, Node, Style, Text, replace_within};
use value::{List, Map, Value};

use super::lint::constant;

/// The template of the value under `with`, `set`, `body` and so on. Never fails: an invalid expression is reported and
/// replaced by an expression that reads nothing and has no value.
///
/// A value without any `${{ }}` becomes one literal. A text that is exactly one expression keeps the expression's
/// type.
#[must_use]
pub fn template(node: &Node, diagnostics: &Diagnostics) -> Template {
    match &node.kind {
        Kind::Null => Template::null(),
        Kind::Bool(value) => Template::Literal(Value::from(*value)),
        Kind::Integer(value) => Template::Literal(Value::from(*value)),
        Kind::Unsigned(value) => Template::Literal(Value::from(*value)),
        Kind::Float(value) => Template::Literal(Value::from(*value)),
        Kind::String(text) => text_template(text, diagnostics),
        Kind::List(items) => collapse_list(items.iter().map(|item| template(item, diagnostics)).collect()),
        Kind::Map(map) => {
            let entries = map.iter().map(|entry| {
                if entry.key.contains("${{") {
                    diagnostics.push(
                        Diagnostic::error(
                            "expression-in-key",
                            "a key cannot hold an expression",
                            entry.key_span,
                        )
                        .help("build the map in an expression: `${{ {name: value} }}`"),
                    );
                }
                (Arc::from(entry.key.as_str()), template(&entry.value, diagnostics))
            });
            collapse_map(entries.collect())
        }
    }
}

/// The value of a node that must not contain expressions; otherwise it is reported. `what` names it: "a default".
#[must_use]
pub(super) fn literal(node: &Node, what: &str, diagnostics: &Diagnostics) -> Value {
    let before = diagnostics.error_count();
    let template = template(node, diagnostics);
    if let Template::Literal(value) = template {
        return value;
    }
    if diagnostics.error_count() > before {
        return Value::Null;
    }
    let mut place = node.head();
    template.expressions(&mut |expression| place = expression.span());
    diagnostics.push(
        Diagnostic::error("no-expression-here", format!("{what} cannot hold an expression"), place)
            .help("write the value itself"),
    );
    Value::Null
}

/// An expression, bare or wrapped in `${{ }}`, as in `if` and `forEach`. `true` and `false` are
/// expressions too. `name` is the key, for messages.
pub(super) fn expression(node: &Node, name: &str, diagnostics: &Diagnostics) -> Option<Expression> {
    one_expression(node, name, false, diagnostics)
}

/// Like [`expression`], for a text whose whole value is one expression in `${{ }}`.
pub(super) fn computed(node: &Node, name: &str, diagnostics: &Diagnostics) -> Option<Expression> {
    one_expression(node, name, true, diagnostics)
}

/// Compiles the expression of a text. `is_wrapped` is true if it must be in `${{ }}`.
fn one_expression(
    node: &Node,
    name: &str,
    is_wrapped: bool,
    diagnostics: &Diagnostics,
) -> Option<Expression> {
    let text = match &node.kind {
        Kind::String(text) => text,
        Kind::Bool(value) => return Expression::compile(&value.to_string(), node.span).ok(),
        kind => {
            let message = format!("expected an expression for `{name}`, found {}", node.kind_name());
            let diagnostic = Diagnostic::error("wrong-type", message, node.head());
            let only = node.as_map().filter(|map| map.len() == 1).and_then(|map| map.iter().next());
            let list = only.filter(|entry| name == "forEach" && LIST_KEYS.contains(&entry.key.as_str()));
            if let Some(entry) = list {
                let meant = diagnostics.source().slice(entry.value.span).to_owned();
                let diagnostic =
                    diagnostic.help(format!("the list stands at the key itself: `{name}: {meant}`"));
                let is_one_line = !meant.is_empty() && !meant.contains(['\n', '\r']);
                diagnostics.push(diagnostic.replacement(is_one_line.then_some((node.span, meant))));
                return None;
            }
            diagnostics.push(match kind {
                Kind::List(_) | Kind::Map(_) if !holds_expression(node) => {
                    diagnostic.help(format!("write it as an expression: `\"${{{{ {} }}}}\"`", node.to_json()))
                }
                _ => diagnostic.help(format!("write one, like `{name}: trigger.results.body.data`")),
            });
            return None;
        }
    };
    let pieces = tokenize(&text.value);
    if let [TemplateToken::Plain(_)] | [] = pieces.as_slice() {
        return compile(&text.value, 0, text, diagnostics);
    }
    let around =
        pieces.iter().any(|piece| matches!(piece, TemplateToken::Plain(plain) if !plain.trim().is_empty()));
    let mut found = None;
    let mut count = 0;
    for piece in &pieces {
        match piece {
            TemplateToken::Plain(_) => {}
            TemplateToken::Unclosed { offset } => {
                unclosed(text, *offset, diagnostics);
                return None;
            }
            TemplateToken::Expression { source: inside, offset } => {
                count += 1;
                found = compile(inside, *offset, text, diagnostics);
            }
        }
    }
    if around || count > 1 {
        diagnostics.push(text_around(text, (node.span, name, is_wrapped), &pieces, diagnostics.source()));
        return None;
    }
    found
}

/// Keys under which other tools have the list of a loop.
const LIST_KEYS: [&str; 6] = ["items", "list", "in", "over", "array", "values"];

/// Like [`expression`], for a condition or a `switch` value: reports a constant one.
pub(super) fn condition(node: &Node, name: &str, diagnostics: &Diagnostics) -> Option<Expression> {
    let before = diagnostics.error_count();
    let expression = expression(node, name, diagnostics)?;
    if diagnostics.error_count() == before {
        constant::check(&expression, node, name, diagnostics);
    }
    Some(expression)
}

/// The error for `${{ a }} == 1` where one expression is expected, with the marks removed unless it must have them.
fn text_around(
    text: &Text,
    (span, name, is_wrapped): (Span, &str, bool),
    pieces: &[TemplateToken<'_>],
    source: &Source,
) -> Diagnostic {
    let message = format!("`{name}` is one expression, but text stands around `${{{{ }}}}`");
    let diagnostic = Diagnostic::error("text-around-expression", message, span);
    let rewritten = |diagnostic: Diagnostic, meant: &str| {
        let fix = replace_within(source, text, 0..text.value.len(), meant);
        let bare = if is_wrapped { "" } else { " it bare:" };
        diagnostic.help(format!("write{bare} `{name}: {meant}`")).replacement(fix)
    };
    if is_wrapped {
        return match computed_length(pieces) {
            Some(meant) => rewritten(diagnostic, &meant),
            None if DURATIONS.contains(&name) => diagnostic.help(format!(
                "write the number and its unit in one expression: `{name}: ${{{{ vars.count ~ 's' }}}}`"
            )),
            None => {
                diagnostic.help(format!("write the whole value in one expression: `{name}: ${{{{ … }}}}`"))
            }
        };
    }
    let bare: String = pieces
        .iter()
        .map(|piece| match piece {
            TemplateToken::Plain(plain) => plain.as_str(),
            TemplateToken::Expression { source: inside, .. } => inside.trim(),
            TemplateToken::Unclosed { .. } => "",
        })
        .collect();
    // A text directly after an expression would become part of its last name.
    let is_glued = pieces.windows(2).any(|pair| match pair {
        [TemplateToken::Plain(plain), _] => plain.ends_with(is_name_part),
        [_, TemplateToken::Plain(plain)] => plain.starts_with(is_name_part),
        _ => true,
    });
    let is_expression = || Expression::compile(&bare, Span::default()).is_ok();
    if bare.contains('\n') || is_glued || !is_expression() {
        return diagnostic.help("write the whole expression bare, without `${{` and `}}`");
    }
    rewritten(diagnostic, bare.trim())
}

/// Keys whose computed value is a duration.
const DURATIONS: [&str; 3] = ["delay", "timeout", "wait"];

fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | '(')
}

/// The expression for `${{ count }}s` and `${{ count }} minutes`.
fn computed_length(pieces: &[TemplateToken<'_>]) -> Option<String> {
    let [TemplateToken::Expression { source: inside, .. }, TemplateToken::Plain(unit)] = pieces else {
        return None;
    };
    let length = format!("1{}", unit.trim());
    let length = units::parse_duration(&length)
        .map(|_| length.clone())
        .ok()
        .or_else(|| units::suggest_duration(&format!("1 {}", unit.trim())))?;
    let (inside, unit) = (inside.trim(), length.strip_prefix('1')?);
    let is_path = inside.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    let number = if is_path { inside.to_owned() } else { format!("({inside})") };
    Some(format!("${{{{ {number} ~ '{unit}' }}}}"))
}

fn text_template(text: &Text, diagnostics: &Diagnostics) -> Template {
    let pieces = tokenize(&text.value);
    plain_braces(text, &pieces, diagnostics);
    foreign_marks(text, &pieces, diagnostics);
    if let [TemplateToken::Expression { source: inside, offset }] = pieces.as_slice() {
        return Template::Expression(compiled(inside, *offset, text, diagnostics));
    }
    let mut parts = Vec::with_capacity(pieces.len());
    for piece in &pieces {
        match piece {
            TemplateToken::Plain(plain) => parts.push(Part::Text(plain.as_str().into())),
            TemplateToken::Unclosed { offset } => {
                unclosed(text, *offset, diagnostics);
                parts.push(Part::Expression(Expression::placeholder(text.locate_span(*offset, *offset + 3))));
            }
            TemplateToken::Expression { source: inside, offset } => {
                parts.push(Part::Expression(compiled(inside, *offset, text, diagnostics)));
            }
        }
    }
    match parts.as_slice() {
        [] => Template::Literal(Value::from("")),
        [Part::Text(plain)] => Template::Literal(Value::from(plain.clone())),
        // Only an unclosed expression is alone here.
        [Part::Expression(open)] => Template::Expression(open.clone()),
        _ => {
            line_break_around(text, &parts, diagnostics);
            Template::Text(parts.into())
        }
    }
}

/// Like [`compile`], with a placeholder for an invalid expression.
fn compiled(inside: &str, offset: usize, text: &Text, diagnostics: &Diagnostics) -> Expression {
    compile(inside, offset, text, diagnostics)
        .unwrap_or_else(|| Expression::placeholder(text.locate_span(offset, offset + inside.len())))
}

/// Compiles the text at `offset`, and reports the exact position of an error.
fn compile(inside: &str, offset: usize, text: &Text, diagnostics: &Diagnostics) -> Option<Expression> {
    let lead = inside.len() - inside.trim_start().len();
    let start = offset + lead;
    let span = text.locate_span(start, start + inside.trim().len());
    match Expression::compile(inside, span) {
        Ok(expression) => Some(expression),
        Err(error) => {
            let from = error.at.start.min(inside.len());
            let to = error.at.end.clamp(from, inside.len());
            let place = text.locate_span(offset + from, offset + to);
            let is_braced = inside.trim().starts_with("{{");
            let bare = is_braced.then_some("remove the braces: this place takes a bare expression");
            let date =
                is_date(inside.trim()).then(|| format!("a date is a text, in quotes: `'{}'`", inside.trim()));
            let help = error.help.or(bare.map(Into::into)).or(date.map(Into::into));
            let diagnostic = match (error.unknown, error.code) {
                (Some(unknown), _) => {
                    Diagnostic::error("unknown-function", error.message, place).nearest(unknown.nearest)
                }
                (None, Some(code)) => Diagnostic::error(code, error.message, place),
                (None, None) => {
                    let message = format!("this expression cannot be read: {}", error.message);
                    Diagnostic::error("expression-syntax", message, place)
                }
            };
            let trimmed = inside.trim();
            let fix = error.fix.or_else(|| {
                is_date(trimmed).then(|| Box::new((lead..lead + trimmed.len(), format!("'{trimmed}'"))))
            });
            // A rewritten expression is the suggestion, unless there is a better one.
            let rewritten = fix.as_ref().filter(|fix| fix.0 == (lead..lead + trimmed.len()));
            let help = help.or_else(|| rewritten.map(|fix| format!("write `{}`", fix.1).into()));
            let fix = fix.and_then(|fix| {
                let range = offset + fix.0.start..offset + fix.0.end;
                replace_within(diagnostics.source(), text, range, &fix.1)
            });
            diagnostics.push(help.into_iter().fold(diagnostic.replacement(fix), Diagnostic::help));
            None
        }
    }
}

/// True for an unquoted date: `2026-03-01T09:00:00Z`.
fn is_date(text: &str) -> bool {
    let shape = text.bytes().take(10).map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit() || b"-:.+TZ".contains(&byte));
    is_whole && shape.eq(*b"0000-00-00")
}

fn unclosed(text: &Text, offset: usize, diagnostics: &Diagnostics) {
    if let Some(quote) = unclosed_quote(&text.value, offset + 3) {
        let place = text.locate_span(quote, quote + 1);
        let message = "this quote of the expression is not closed, so its `}}` counts as text";
        let help = if text.style == Style::DoubleQuoted && text.value[offset..].contains('\\') {
            "in double quotes YAML reads `\\\\` as one backslash, which then escapes the quote behind it: write four \
             backslashes, or put the value in single quotes and double those inside: `'${{ replace(x, ''\\\\'', ''/'') }}'`"
        } else {
            "close it before `}}`; inside `'…'` a quote is written `\\'`, or put the text in `\"…\"`"
        };
        let fix = doubled_backslash(text, offset, diagnostics.source());
        let diagnostic = Diagnostic::error("unclosed-expression", message, place).help(help);
        diagnostics.push(diagnostic.replacement(fix));
        return;
    }
    let place = text.locate_span(offset, offset + 3);
    diagnostics.push(
        Diagnostic::error("unclosed-expression", "`${{` has no `}}`", place)
            .help("close the expression with `}}`, or write `$${{` for the three characters themselves"),
    );
}

/// The fix for `'\\'` in double quotes, where YAML reads one backslash and the expression an escaped quote.
fn doubled_backslash(text: &Text, offset: usize, source: &Source) -> Option<(Span, String)> {
    let expression = text.value.get(offset..).filter(|_| text.style == Style::DoubleQuoted)?;
    let at = expression.find("'\\'").map(|at| offset + at + 1)?;
    let mut value = text.value.clone();
    value.insert(at, '\\');
    let span = Span::new(text.locate(at), text.locate(at + 1));
    let inside = tokenize(&value).into_iter().find_map(|piece| match piece {
        TemplateToken::Expression { source, offset: start } if start >= offset => Some(source.to_owned()),
        _ => None,
    })?;
    let is_expression = Expression::compile(&inside, Span::default()).is_ok();
    (is_expression && source.slice(span) == "\\\\").then(|| (span, "\\\\\\\\".to_owned()))
}

/// The ranges of the expressions of a text, without their marks, in order.
fn insides(pieces: &[TemplateToken<'_>]) -> Vec<(usize, usize)> {
    let inside = |piece: &TemplateToken<'_>| match piece {
        TemplateToken::Expression { source: inside, offset } => Some((*offset, *offset + inside.len())),
        _ => None,
    };
    pieces.iter().filter_map(inside).collect()
}

/// True if an offset is inside one of these ranges.
fn is_within(insides: &[(usize, usize)], at: usize) -> bool {
    let before = insides.partition_point(|(start, _)| *start <= at);
    before.checked_sub(1).is_some_and(|last| at < insides[last].1)
}

/// Advice for `inside`, the text between the delimiters of another template language: the whole text as an expression,
/// if it is valid here, and an explanation.
fn meant(inside: &str) -> (Option<String>, String) {
    let inside = inside.trim();
    match Expression::compile(inside, Span::default()) {
        Ok(_) => {
            let text = format!("${{{{ {inside} }}}}");
            (Some(text.clone()), format!("write `{text}` for an expression"))
        }
        Err(SyntaxError { help: Some(help), .. }) => {
            (None, format!("an expression is written `${{{{ … }}}}`, and in it: {help}"))
        }
        Err(_) => (None, "write `${{ … }}` for an expression".to_owned()),
    }
}

/// A warning about marks of another tool, with the probable intention.
fn other_marks(code: &'static str, message: &str, place: Span, inside: &str) -> Diagnostic {
    let (text, words) = meant(inside);
    let help =
        format!("{words}; if the text is meant as it is, write `# cogwork: allow({code})` on the line above");
    let fix = text.filter(|text| !text.contains('\n')).map(|text| (place, text));
    Diagnostic::warning(code, message, place).help(help).replacement(fix)
}

/// Warns of `{{ x }}`, which other tools replace and which is plain text here.
fn plain_braces(text: &Text, pieces: &[TemplateToken<'_>], diagnostics: &Diagnostics) {
    let value = &text.value;
    // Each is searched once, not again from every `{{`: a text may have very many.
    let Some(last_close) = value.rfind("}}") else { return };
    let inside = insides(pieces);
    let found = value
        .match_indices("{{")
        .map(|(at, _)| at)
        .find(|&at| !value[..at].ends_with('$') && !is_within(&inside, at) && at <= last_close);
    let Some(at) = found else { return };
    let end = value[at..].find("}}").map_or(value.len(), |close| at + close + 2);
    // `={{ x }}` is a value of n8n.
    let start = if at == 1 && value.starts_with('=') { 0 } else { at };
    let place = text.locate_span(start, end);
    let inside = value.get(at + 2..end.saturating_sub(2)).unwrap_or_default();
    let message = "`{{ }}` without `$` is plain text";
    diagnostics.push(other_marks("braces-without-dollar", message, place, inside));
}

/// Expression marks of other tools, besides `{{ }}`: start, end, and whether only a path is allowed between.
const MARKS: [(&str, &str, bool); 5] =
    [("@{", "}", true), ("${", "}", true), ("$(", ")", true), ("<%", "%>", false), ("{%", "%}", false)];

/// Warns of `${x}`, `$(x)`, `<% x %>` and `{% for … %}`, which other tools replace and which are plain text here: of the
/// first occurrence of each.
fn foreign_marks(text: &Text, pieces: &[TemplateToken<'_>], diagnostics: &Diagnostics) {
    const CODE: &str = "foreign-template";
    let value = &text.value;
    let own = insides(pieces);
    for (open, close, is_path) in MARKS {
        let Some(last) = value.rfind(close) else { continue };
        let found = value.match_indices(open).map(|(at, _)| at).take_while(|at| *at < last).find_map(|at| {
            let start = at + open.len();
            let end = start + value[start..].find(close)?;
            let inside = &value[start..end];
            let fits = !is_path || is_dotted(inside);
            (fits && !is_within(&own, at)).then_some((at, end + close.len(), inside))
        });
        let Some((at, end, inside)) = found else { continue };
        let place = text.locate_span(at, end);
        let message = format!("`{open}{}{close}` is plain text here", if is_path { "x" } else { " … " });
        let inside = inside.trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '=' | '+'));
        if open != "{%" {
            diagnostics.push(other_marks(CODE, &message, place, inside));
            continue;
        }
        let help = match inside.split_whitespace().next() {
            Some("for" | "endfor") => {
                "a list becomes text in one expression, `${{ list | map(by=item.name) | join(', ') }}`, or in a `code` step"
            }
            Some("if" | "elif" | "else" | "endif") => "write `${{ 'this' if condition else 'that' }}`",
            Some("set") => "name the value in a step before: `set: {name: …}`",
            _ => "there are expressions only: `${{ … }}`",
        };
        let help = format!(
            "{help}; if the text is meant as it is, write `# cogwork: allow({CODE})` on the line above"
        );
        diagnostics.push(Diagnostic::warning(CODE, message, place).help(help));
    }
}

/// True if a text is a path of names: `inputs.name`, `HOME`.
fn is_dotted(text: &str) -> bool {
    let text = text.trim();
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '[' | ']' | '-');
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(part)
}

/// Hints at a block text that would be one whole expression without the line break at its end.
fn line_break_around(text: &Text, parts: &[Part], diagnostics: &Diagnostics) {
    let whole = |parts: &[Part]| {
        let blank = |part: &Part| matches!(part, Part::Text(plain) if plain.trim().is_empty());
        parts.iter().filter(|part| !blank(part)).count() == 1
            && parts.iter().any(|part| matches!(part, Part::Expression(_)))
    };
    if !text.style.is_block() || !whole(parts) {
        return;
    }
    if let Some(Part::Expression(expression)) = parts.iter().find(|part| matches!(part, Part::Expression(_)))
    {
        diagnostics.push(
            Diagnostic::hint(
                "expression-with-line-break",
                "this expression becomes text, because a line break stands after it",
                expression.span(),
            )
            .help("write `|-` in place of `|` to keep the value's type"),
        );
    }
}

/// True if the value contains `${{` anywhere.
pub(super) fn holds_expression(node: &Node) -> bool {
    match &node.kind {
        Kind::String(text) => text.value.contains("${{"),
        Kind::List(items) => items.iter().any(holds_expression),
        Kind::Map(map) => map.iter().any(|entry| holds_expression(&entry.value)),
        _ => false,
    }
}

fn collapse_list(items: Vec<Template>) -> Template {
    if items.iter().any(|item| item.literal().is_none()) {
        return Template::List(items);
    }
    let values = items.into_iter().filter_map(|item| match item {
        Template::Literal(value) => Some(value),
        _ => None,
    });
    Template::Literal(Value::List(Arc::new(List(values.collect()))))
}

fn collapse_map(entries: Vec<(Arc<str>, Template)>) -> Template {
    if entries.iter().any(|(_, value)| value.literal().is_none()) {
        return Template::Map(entries);
    }
    let values = entries.into_iter().filter_map(|(key, value)| match value {
        Template::Literal(value) => Some((key, value)),
        _ => None,
    });
    Template::Literal(Value::from(values.collect::<Map>()))
}
