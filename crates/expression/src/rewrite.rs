//! Rewrites constructs of other languages in this one: the fixes of syntax errors and unknown names.
//!
//! A template describes the equivalent of a call: `{x}` is the subject (the value before a filter or a method, or the first argument of
//! a function), `{0}` and `{1}` are the further arguments. A fix is made only if the rewritten expression has no error at the same
//! construct.

use std::ops::Range;

use super::arrow_functions;
use super::tokens::{Kind, Tokens};

/// A replacement in an expression, in bytes of its text.
pub(super) type Fix = (Range<usize>, String);

/// The use of a name that has an equivalent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Filter,
    Test,
    Function,
    Method,
    /// A method of an object of the language: `JSON.stringify(x)`.
    StaticMethod,
}

/// Rewrites the use of the name at `name` by a template.
pub(super) fn by_template(text: &str, name: &Range<usize>, usage: Use, template: &str) -> Option<Fix> {
    let template = Some(template).filter(|template| !template.is_empty())?;
    let tokens = Tokens::new(text);
    let at = tokens.index_at(name.start)?;
    let (close, mut arguments) = match tokens.get(at + 1) {
        "(" => {
            let close = tokens.closing(at + 1)?;
            (close, tokens.arguments(at + 1, close)?)
        }
        _ => (at, Vec::new()),
    };
    if matches!(usage, Use::Function | Use::StaticMethod) {
        // The name of an object and a dot precede a static method.
        let at = if usage == Use::StaticMethod { at.checked_sub(2)? } else { at };
        let subject = match arguments.is_empty() {
            true if !template.contains("{x}") => "",
            true => return None,
            false => arguments.remove(0),
        };
        return place(&tokens, at, close, template, &operand(subject, template, "{x}"), &arguments);
    }
    let before = at.checked_sub(1)?;
    if usage == Use::Test {
        let is_negated = tokens.get(before) == "not";
        if let Some(test) = template.strip_prefix("{x} is ").filter(|_| arguments.is_empty()) {
            return Some((tokens.range(at, close)?, test.to_owned()));
        }
        let subject_end = before.checked_sub(1)?.checked_sub(usize::from(is_negated))?;
        let start = tokens.operand_start(subject_end, true)?;
        return (!is_negated)
            .then(|| place(&tokens, start, close, template, tokens.slice(start, subject_end), &arguments))?;
    }
    let subject_end = before.checked_sub(1)?;
    if let (Use::Filter, Some(filters)) = (usage, template.strip_prefix("{x} | ")) {
        return Some((tokens.range(at, close)?, fill(filters, "", &arguments)?));
    }
    let start = tokens.operand_start(subject_end, usage == Use::Filter)?;
    place(&tokens, start, close, template, tokens.slice(start, subject_end), &arguments)
}

/// The replacement of the tokens `from..=to` by a filled template, in brackets where its neighbours bind tighter.
fn place(
    tokens: &Tokens<'_>,
    from: usize,
    to: usize,
    template: &str,
    subject: &str,
    arguments: &[&str],
) -> Option<Fix> {
    let filled = fill(template, subject, arguments)?;
    let next = tokens.get(to + 1);
    let previous = from.checked_sub(1).map_or("", |before| tokens.get(before));
    let is_filter = template.starts_with("{x} | ") || !template.contains(' ');
    let stands_alone = |neighbour: &str| matches!(neighbour, "" | "," | ":" | "and" | "or" | "if" | "else");
    let is_free = match is_filter {
        true => !matches!(next, "." | "[" | "(" | "**") && !matches!(previous, "-" | "**" | "."),
        false => {
            (stands_alone(next) || matches!(next, ")" | "]" | "}"))
                && (stands_alone(previous) || matches!(previous, "(" | "[" | "{"))
        }
    };
    let is_call = template.ends_with(')') && !template.contains(' ');
    let filled = if is_free || is_call { filled } else { format!("({filled})") };
    Some((tokens.range(from, to)?, filled))
}

/// Fills a template; `None` if the number of arguments is another one.
fn fill(template: &str, subject: &str, arguments: &[&str]) -> Option<String> {
    let expected = ["{0}", "{1}"].iter().filter(|slot| template.contains(**slot)).count();
    if expected != arguments.len() {
        return None;
    }
    let mut filled = template.replace("{x}", subject);
    for (slot, argument) in ["{0}", "{1}"].iter().zip(arguments) {
        filled = filled.replace(slot, &operand(argument, template, slot));
    }
    Some(filled)
}

/// An argument as written into a template: in brackets unless it is simple, or the template has brackets around it.
fn operand(argument: &str, template: &str, slot: &str) -> String {
    let tokens = Tokens::new(argument);
    let is_simple = tokens.operand_end(0) == tokens.all.len().checked_sub(1);
    let is_enclosed = template.split_once(slot).is_some_and(|(before, after)| {
        before.ends_with(['(', '[', ':']) || (before.ends_with(", ") && after.starts_with([')', ',']))
    });
    if is_simple || is_enclosed || argument.is_empty() {
        argument.to_owned()
    } else {
        format!("({argument})")
    }
}

/// Rewrites the operators and forms of other languages in an expression that does not parse.
pub(super) fn foreign_syntax(text: &str) -> Option<String> {
    let tokens = Tokens::new(text);
    let rewritten = template_text(&tokens)
        .or_else(|| arrow_functions::rewrite_all(&tokens))
        .or_else(|| comprehension(&tokens))
        .or_else(|| projection(&tokens))
        .or_else(|| liquid(&tokens))
        .or_else(|| conditional(&tokens))
        .or_else(|| fallback(&tokens))
        .or_else(|| operators(&tokens))?;
    (rewritten != text).then_some(rewritten)
}

/// `` `Hello ${name}` `` of JavaScript and `f'Hello {name}'` of Python.
fn template_text(tokens: &Tokens<'_>) -> Option<String> {
    let (quoted, open) = match (tokens.all.len(), tokens.get(0)) {
        (1, text) if text.starts_with('`') => (text, "${"),
        (2, "f") if tokens.kind(1) == Some(Kind::Quoted) => (tokens.get(1), "{"),
        _ => return None,
    };
    let mut rest = quoted.get(1..quoted.len().checked_sub(1)?)?;
    if rest.contains(['\\', '\'']) {
        return None;
    }
    let mut parts = Vec::new();
    while let Some((plain, after)) = rest.split_once(open) {
        let (inside, after) = after.split_once('}')?;
        let is_simple =
            Tokens::new(inside).operand_end(0).is_some_and(|end| end + 1 == Tokens::new(inside).all.len());
        parts.extend((!plain.is_empty()).then(|| format!("'{plain}'")));
        parts.push(if is_simple { inside.trim().to_owned() } else { format!("({})", inside.trim()) });
        rest = after;
    }
    parts.extend((!rest.is_empty() || parts.is_empty()).then(|| format!("'{rest}'")));
    Some(parts.join(" ~ "))
}

/// `[x.id for x in list]` of Python.
fn comprehension(tokens: &Tokens<'_>) -> Option<String> {
    let last = tokens.all.len().checked_sub(1)?;
    if tokens.get(0) != "[" || tokens.closing(0)? != last {
        return None;
    }
    let for_at = (0..last).find(|at| tokens.get(*at) == "for")?;
    let variable = tokens.get(for_at + 1);
    let is_whole = tokens.get(for_at + 2) == "in" && tokens.operand_end(for_at + 3)? + 1 == last;
    let list = tokens.slice(for_at + 3, last - 1);
    let item = tokens.slice(1, for_at - 1);
    let attribute = item.strip_prefix(variable)?;
    if !is_whole {
        return None;
    }
    match attribute.strip_prefix('.') {
        Some(path) if is_path(path) => Some(format!("{list} | map(by=item.{path})")),
        None if attribute.is_empty() => Some(format!("{list} | list")),
        _ => None,
    }
}

fn is_path(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
}

/// `list[?price > 5].name` of JMESPath, and `list[*].name` and `list[].name` of JMESPath and jq, as a whole expression.
fn projection(tokens: &Tokens<'_>) -> Option<String> {
    let open = (1..tokens.all.len())
        .find(|at| tokens.get(*at) == "[" && matches!(tokens.get(at + 1), "?" | "*" | "]"))?;
    let close = tokens.closing(open)?;
    let list = tokens.slice(0, open - 1);
    if tokens.operand_start(open - 1, false) != Some(0) {
        return None;
    }
    let selected = match (tokens.get(open + 1), close - open) {
        ("]", 1) | ("*", 2) => list.to_owned(),
        ("?", 5) => {
            let (name, sign) = (tokens.get(open + 2), tokens.get(open + 3));
            if !["==", "!=", ">", "<", ">=", "<="].contains(&sign) {
                return None;
            }
            let value = tokens.get(open + 4).replace('`', "");
            let value = if tokens.get(open + 4).starts_with('`') && value.parse::<f64>().is_err() {
                format!("'{value}'")
            } else {
                value
            };
            is_path(name).then(|| format!("{list} | select(by=item.{name} {sign} {value})"))?
        }
        _ => return None,
    };
    let rest = tokens.text.get(tokens.all.get(close)?.at.end..)?.trim();
    match rest.strip_prefix('.') {
        Some(path) if is_path(path) => Some(format!("{selected} | map(by=item.{path})")),
        None if rest.is_empty() => Some(selected),
        _ => None,
    }
}

/// `x | append: '!'` of Liquid.
fn liquid(tokens: &Tokens<'_>) -> Option<String> {
    let colon = (2..tokens.all.len()).find(|at| {
        tokens.get(*at) == ":" && tokens.kind(at - 1) == Some(Kind::Word) && tokens.get(at - 2) == "|"
    })?;
    let end = (colon + 1..tokens.all.len()).find(|at| tokens.get(*at) == "|").unwrap_or(tokens.all.len());
    if colon + 1 >= end {
        return None;
    }
    let arguments = tokens.slice(colon + 1, end - 1);
    let after = tokens.text.get(tokens.all.get(end - 1)?.at.end..)?;
    Some(format!("{}({arguments}){after}", tokens.slice(0, colon - 1)))
}

/// `condition ? a : b`, as a whole expression; `b` may be another one.
fn conditional(tokens: &Tokens<'_>) -> Option<String> {
    let last = tokens.all.len().checked_sub(1)?;
    let (mut chain, mut start) = (String::new(), 0);
    while let Some(question) = top_level(tokens, start, "?")
        && let Some(colon) = top_level(tokens, question + 1, ":")
        && question > start
        && colon > question + 1
        && colon < last
    {
        let (condition, then) = (tokens.slice(start, question - 1), tokens.slice(question + 1, colon - 1));
        // The condition has no `?` outside brackets, and neither has the remainder after the chain: neither is a chain itself.
        let condition = foreign_syntax(condition).unwrap_or_else(|| condition.to_owned());
        chain.push_str(&format!("{then} if {condition} else "));
        start = colon + 1;
    }
    if start == 0 {
        return None;
    }
    let rest = tokens.slice(start, last);
    Some(chain + &foreign_syntax(rest).unwrap_or_else(|| rest.to_owned()))
}

/// `x ?? y` and `x?.y`.
fn fallback(tokens: &Tokens<'_>) -> Option<String> {
    let Some(sign) = top_level(tokens, 0, "??") else {
        // An optional chain alone is undefined where a part is missing.
        let is_chain = tokens.operand_end(0) == tokens.all.len().checked_sub(1);
        return (is_chain && tokens.text.contains("?."))
            .then(|| format!("{} | coalesce(none)", tokens.text.trim().replace("?.", ".")));
    };
    let (start, end) = (tokens.operand_start(sign.checked_sub(1)?, true)?, tokens.operand_end(sign + 1)?);
    let (before, after) = (
        tokens.text.get(..tokens.all.get(start)?.at.start)?,
        tokens.text.get(tokens.all.get(end)?.at.end..)?,
    );
    let subject = tokens.slice(start, sign - 1).replace("?.", ".");
    Some(format!("{before}{subject} | coalesce({}){after}", tokens.slice(sign + 1, end)))
}

/// The first token with this text outside brackets.
fn top_level(tokens: &Tokens<'_>, from: usize, sign: &str) -> Option<usize> {
    let mut at = from;
    while at < tokens.all.len() {
        match tokens.kind(at) {
            Some(Kind::Open) => at = tokens.closing(at)?,
            Some(Kind::Sign) if tokens.get(at) == sign => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// `&&`, `||`, `===`, `!==`, `<>`, `!x`, `AND`, a lone `=`, and `a += b`, whose value is `a + b`.
pub(super) fn operators(tokens: &Tokens<'_>) -> Option<String> {
    let (mut out, mut end) = (String::new(), 0);
    for (at, token) in tokens.all.iter().enumerate() {
        let next = tokens.all.get(at + 1).map_or(tokens.text.len(), |next| next.at.start);
        let is_argument = || {
            // `name=value` inside the brackets of a call is an argument.
            tokens.all[..at].iter().filter(|token| token.kind == Kind::Open).count()
                > tokens.all[..at].iter().filter(|token| token.kind == Kind::Close).count()
        };
        let before_space =
            if tokens.text[..token.at.start].ends_with(char::is_whitespace) { "" } else { " " };
        let after_space = if next > token.at.end { "" } else { " " };
        let new = match tokens.get(at) {
            "&&" => format!("{before_space}and{after_space}"),
            "||" => format!("{before_space}or{after_space}"),
            "===" => "==".to_owned(),
            "!==" | "<>" => "!=".to_owned(),
            "AND" | "OR" | "NOT" => tokens.get(at).to_ascii_lowercase(),
            "=" if is_assignment(tokens, at) => String::new(),
            "=" if !is_argument() => "==".to_owned(),
            "!" => {
                // `not a.b == c` is `not (a.b == c)`, as in `!(a.b == c)` but unlike `!a.b == c`.
                let operand = tokens.operand_end(at + 1)?;
                let follows = tokens.get(operand + 1);
                if !matches!(follows, "" | ")" | "]" | "," | "&&" | "||" | "and" | "or" | "?" | "if" | "else")
                {
                    return None;
                }
                "not ".to_owned()
            }
            _ => continue,
        };
        out.push_str(&tokens.text[end..token.at.start]);
        out.push_str(&new);
        end = if new == "not " { next } else { token.at.end };
    }
    (end > 0).then(|| out + &tokens.text[end..])
}

/// True if a `=` is the end of `+=`, `-=` and the like.
fn is_assignment(tokens: &Tokens<'_>, at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return false };
    let is_adjacent = tokens.range(before, at).is_some_and(|range| range.len() == 2);
    is_adjacent && matches!(tokens.get(before), "+" | "-" | "*" | "/" | "%" | "~")
}

/// `$vars.x`, `$inputs.x` and other names of this language with a `$` before them.
pub(super) fn variable(text: &str) -> Option<Fix> {
    const OWN: [&str; 7] = ["steps", "trigger", "inputs", "configVars", "state", "error", "index"];
    let name = text.strip_prefix('$')?;
    let word = name.split(|c: char| !c.is_alphanumeric()).next()?;
    match word {
        "now" => Some((0..text.len(), "now()".to_owned())).filter(|_| name == "now"),
        _ => OWN.contains(&word).then(|| (0..1, String::new())),
    }
}

#[cfg(test)]
mod tests {
    use text::diagnostic::Span;

    use crate::Expression;

    /// The expression after the fix of its error; `None` without one.
    fn fixed(text: &str) -> Option<String> {
        let error = Expression::compile(text, Span::default()).expect_err(text);
        let (at, replacement) = *error.fix?;
        Some(format!("{}{replacement}{}", &text[..at.start], &text[at.end..]))
    }

    #[test]
    fn calls_of_other_languages_are_rewritten() {
        for (text, expected) in [
            ("a.b.toUpperCase()", "a.b | upper"),
            ("a.trim() ~ 'x'", "a | trim ~ 'x'"),
            ("a['b'].trim().x", "(a['b'] | trim).x"),
            ("a.includes('x') and b", "'x' in a and b"),
            ("a.includes('x') == true", "('x' in a) == true"),
            ("a.slice(1, 3)", "a[1:3]"),
            ("(a ~ b).toLowerCase()", "(a ~ b) | lower"),
            ("len(a.b)", "a.b | length"),
            ("len(a + b) > 1", "(a + b) | length > 1"),
            ("contains(a, 'x')", "'x' in a"),
            ("fromJSON(a).b", "parseJson(a).b"),
            ("a | uppercase", "a | upper"),
            ("a | b64encode", "a | base64"),
            ("a | upper | len", "a | upper | length"),
            ("a | ternary('x', 'y')", "'x' if a else 'y'"),
            ("a | truncate(20)", "a[:20]"),
            ("a | combine(b)", "a | chain(b)"),
            ("lower(a.b)", "a.b | lower"),
            ("a | toFixed(2)", "a | round(2)"),
            ("JSON.stringify(a.b)", "a.b | tojson"),
            ("JSON.parse(a).b", "parseJson(a).b"),
            ("Math.round(a / 2)", "(a / 2) | round | int"),
            ("Object.keys(a) | length", "a | list | length"),
            ("a | selectattr('b', '=', 1)", "a | selectattr('b', '==', 1)"),
            ("'Hello %s' % a.b", "'Hello %s' | format(a.b)"),
            ("1..5", "range(1, 6)"),
            ("a is null", "a is none"),
            ("a is not null", "a is not none"),
            ("a is empty", "a | length == 0"),
            ("a | map('name')", "a | map(attribute='name')"),
            ("formatDate(a, 'yyyy-MM-dd')", "formatDate(a, '%Y-%m-%d')"),
        ] {
            assert_eq!(fixed(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn operators_and_forms_of_other_languages_are_rewritten() {
        for (text, expected) in [
            ("a && !b || c", "a and not b or c"),
            ("a&&b", "a and b"),
            ("a === 'x && y'", "a == 'x && y'"),
            ("a = 1", "a == 1"),
            ("a ? b : c", "b if a else c"),
            ("a === 1 ? b : c ? d : e", "b if a == 1 else d if c else e"),
            ("a.b ?? 'x'", "a.b | coalesce('x')"),
            ("a?.b ?? c.d", "a.b | coalesce(c.d)"),
            ("a?.b", "a.b | coalesce(none)"),
            ("a[*].b", "a | map(by=item.b)"),
            ("a[].b.c", "a | map(by=item.b.c)"),
            ("a[?price > 5]", "a | select(by=item.price > 5)"),
            ("a[?b == 'x'].c", "a | select(by=item.b == 'x') | map(by=item.c)"),
            ("a.map(x => x.y)", "a | map(by=item.y)"),
            ("a.b.filter((row) => row.x.row === 'row')", "a.b | select(by=item.x.row == 'row')"),
            (
                "a.filter(x => x.b && !x.c).map(y => y.d)",
                "(a | select(by=item.b and not item.c)) | map(by=item.d)",
            ),
            ("a.find(x => x.id == 7).name", "(a | select(by=item.id == 7) | first).name"),
            ("'n: ' ~ a.map(x => x.y)", "'n: ' ~ a | map(by=item.y)"),
            ("`Hello ${a.b}!`", "'Hello ' ~ a.b ~ '!'"),
            ("f'Hello {a + 1}'", "'Hello ' ~ (a + 1)"),
            ("[x.id for x in a.b]", "a.b | map(by=item.id)"),
            ("a | split: ','", "a | split(',')"),
            ("$inputs.a", "inputs.a"),
            ("$index + 1", "index + 1"),
            ("a <> 'x'", "a != 'x'"),
            ("a AND NOT b OR c", "a and not b or c"),
            ("a += b", "a + b"),
            ("a.b -= 1", "a.b - 1"),
        ] {
            assert_eq!(fixed(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_chain_of_conditionals_has_a_fix_up_to_the_limits_of_an_expression() {
        let text = format!("{}c", "a?b:".repeat(1_023));
        assert_eq!(text.len(), 4_093);
        assert_eq!(fixed(&text), None);
        let chain =
            |levels: usize| (format!("{}c", "a?b:".repeat(levels)), "b if a else ".repeat(levels) + "c");
        let (text, expected) = chain(20);
        assert_eq!(fixed(&text), Some(expected));
    }

    #[test]
    fn a_long_chain_of_conditionals_is_rewritten_on_a_small_stack() {
        let text = format!("{}c", "a?b:".repeat(1_023));
        let work = move || super::foreign_syntax(&text).map(|fixed| fixed.len());
        let thread = std::thread::Builder::new().stack_size(128 * 1024).spawn(work).expect("a thread");
        assert_eq!(thread.join().expect("no overflow"), Some(12 * 1_023 + 1));
    }

    #[test]
    fn an_ambiguous_construct_has_no_fix() {
        for text in [
            "!a == b",
            "a.map(x => x.y.map(z => z.w))",
            "a.reduce((sum, x) => sum + x)",
            "a.b(",
            "a.get('b')",
            "a +",
            "a is not empty",
            "a | quote",
        ] {
            assert_eq!(fixed(text), None, "{text}");
        }
    }

    #[test]
    fn arguments_are_checked_before_evaluation() {
        are_told(&[
            ("a | round(digits=2)", "no argument `digits`", Some("a | round(precision=2)")),
            ("a | sort(key='x')", "no argument `key`", Some("a | sort(attribute='x')")),
            ("a | join(sep=', ')", "no argument `sep`", Some("a | join(d=', ')")),
            (
                "formatDate(a, '%Y', tz='UTC')",
                "no argument `tz`",
                Some("formatDate(a, '%Y', timezone='UTC')"),
            ),
            ("a | upper('de')", "takes no arguments", Some("a | upper")),
            ("a | replace('x')", "`new` of `replace` is missing", None),
            ("a | round(2, precision=3)", "is given twice", None),
            ("a is startingwith", "takes an argument", None),
            ("addDuration(a, '1 day')", "is no duration", Some("addDuration(a, '1d')")),
            ("a | addDuration('-1 day')", "is no duration", Some("a | addDuration('-1d')")),
            ("hash(a, 'sha3')", "`algorithm` is `sha3`", None),
            (
                "formatDate(a, '%Y', 'Europe/Berln')",
                "not a time zone",
                Some("formatDate(a, '%Y', 'Europe/Berlin')"),
            ),
            (
                "a | formatDate('%Y', timezone='Berlin')",
                "not a time zone",
                Some("a | formatDate('%Y', timezone='Europe/Berlin')"),
            ),
            ("formatDate(a, '%Y', 'Nowhere/Atall')", "not a time zone", None),
        ]);
    }

    #[test]
    fn arguments_of_the_wrong_meaning_are_reported_before_evaluation() {
        are_told(&[
            ("a | sort('price')", "`reverse`, the first", Some("a | sort(attribute='price')")),
            ("a | unique('id')", "is true or false", Some("a | unique(attribute='id')")),
            ("a | sort('price', true)", "`reverse` of `sort`", None),
            ("parseCsv(a, ';')", "`header` of `parseCsv`", None),
            (
                "a | selectattr('n >= 5') | list",
                "the name of an attribute",
                Some("a | selectattr('n', '>=', 5) | list"),
            ),
            (
                "a | rejectattr('kind == open')",
                "the name of an attribute",
                Some("a | rejectattr('kind', '==', 'open')"),
            ),
            ("'Hello {}' | format(a)", "in place of `%s`", Some("'Hello %s' | format(a)")),
            ("'Hello' | format(a)", "in place of `%s`", None),
            ("formatDate(a, '%H:%m')", "the minute", Some("formatDate(a, '%H:%M')")),
            ("a | formatDate('%d.%M.%Y')", "the minute", Some("a | formatDate('%d.%m.%Y')")),
            ("a | round(2, 'up')", "`round`", None),
            ("now() - '1d'", "no duration can be added", Some("addDuration(now(), '-1d')")),
            ("now() + '2 hours'", "no duration can be added", Some("addDuration(now(), '2h')")),
            ("parseDate(a).year + 1", "no member `year`", Some("(formatDate(parseDate(a), '%Y') | int) + 1")),
            ("now() - a", "one side is always a text", None),
        ]);
    }

    /// Asserts the message and the fixed expression of each row.
    fn are_told(rows: &[(&str, &str, Option<&str>)]) {
        for &(text, message, expected) in rows {
            let error = Expression::compile(text, Span::default()).expect_err(text);
            assert!(error.message.contains(message), "{text}: {}", error.message);
            assert_eq!(fixed(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn arguments_that_may_be_right_are_accepted() {
        for text in [
            "a | round(2, 'ceil')",
            "a | join(', ', attribute='x')",
            "a | default",
            "a | d('x', true)",
            "a is divisibleby(3)",
            "a | map('replace', 'x', 'y')",
            "a | selectattr('x') | list",
            "addDuration(now(), '-1d')",
            "addDuration(a, b)",
            "hash(a, b)",
            "dict(a, b=1)",
            "range(3)",
            "parseDate(a, '%d.%m.%Y')",
            "a | parseDate(format='%Y')",
            "now() ~ a",
            "now().year | default(1)",
            "a - b",
            "a + '1d'",
            "'a' + 'b'",
            "f | format(1)",
            "a | tojson(indent=2)",
            "hmac(a, b)",
            "a | dictsort(by='value')",
            "formatDate(now(), timezone='Europe/Berlin')",
            "base64(a, decode=true)",
            "replace(*a)",
            "a | sort(true)",
            "a | sort(reverse='true')",
            "a | max(attribute='price')",
            "a | selectattr('First name')",
            "'%s' | format(a)",
            "a | format(b)",
            "'%%' | format",
            "formatDate(a, '%Y-%m-%d %H:%M')",
            "formatDate(a, '%M:%S %m/%Y')",
            "formatDate(a, '%Y', 'UTC')",
        ] {
            let compiled = Expression::compile(text, Span::default());
            let is_unknown = |error: &crate::SyntaxError| error.unknown.is_some();
            assert!(compiled.as_ref().err().is_none_or(is_unknown), "{text}: {compiled:?}");
        }
    }
}
