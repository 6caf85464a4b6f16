//! What people bring along from other languages, and how it is written here.

/// Names of functions, filters and tests elsewhere.
const NAMES: &[(&str, &str)] = &[
    ("always", "steps that run in any case stand under `finally`"),
    ("as_datetime", "write `parseDate(x)`"),
    ("as_timestamp", "dates are texts such as `2026-01-31T08:30:00Z`: write `parseDate(x)`"),
    ("atob", "write `x | base64(decode=true)`"),
    ("btoa", "write `x | base64`"),
    ("cancelled", "steps that run in any case stand under `finally`"),
    ("coalesce", "write `x | default(y)`"),
    ("contains", "write `'part' in x`"),
    ("date", "write `formatDate(x, '%Y-%m-%d')`"),
    ("dateformat", "write `formatDate(x, '%Y-%m-%d')`"),
    ("empty", "write `x | length == 0`"),
    ("endsWith", "write `x is endingwith('end')`"),
    ("failure", "steps that run on a failure stand under `onError`"),
    ("fromJSON", "write `parseJson(x)`"),
    ("from_json", "write `parseJson(x)`"),
    ("iif", "write `a if condition else b`"),
    ("is_state", "compare what a step gave: `steps.<id>.results.state == 'on'`"),
    ("json", "write `x | tojson` for the text, or `parseJson(x)` for the value"),
    ("len", "write `x | length`"),
    ("null", "write `is none`; whether it is there at all is `is defined`"),
    ("nil", "write `is none`; whether it is there at all is `is defined`"),
    ("size", "write `x | length`"),
    ("startsWith", "write `x is startingwith('start')`"),
    ("states", "read what a step gave: `steps.<id>.results`"),
    ("strftime", "write `formatDate(x, '%Y-%m-%d')`"),
    ("substring", "write `x[0:5]`"),
    ("success", "a list stops at the first failure, so this holds wherever it is read"),
    ("toDate", "write `parseDate(x)`"),
    ("toJSON", "write `x | tojson`"),
    ("to_json", "write `x | tojson`"),
];

/// Signs of operators elsewhere.
const SIGNS: &[(&str, &str)] = &[
    ("&&", "write `and` for `&&`"),
    ("||", "write `or` for `||`"),
    ("===", "write `==` for `===`"),
    ("!==", "write `!=` for `!==`"),
    ("??", "write `x | default(y)` for `x ?? y`"),
    ("?.", "write `x.y | default(z)` for `x?.y`: it holds for each name on the way"),
    ("?", "write `a if condition else b` for `condition ? a : b`"),
    ("!", "write `not x` for `!x`"),
    (
        "=>",
        "there are no functions of one's own: use a filter such as `map(attribute='id')` or `selectattr('id')`",
    ),
    ("=", "write `==` to compare"),
];

/// How that is written here which elsewhere is a function, filter or test of this name.
pub(super) fn name(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, help)| *help)
}

/// How the first sign of another language is written here, in a text that cannot be read.
pub(super) fn sign(text: &str) -> Option<&'static str> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None => {
                let rest = &text[at..];
                let is_own = |own: &&str| rest.starts_with(*own) && !rest[own.len()..].starts_with('=');
                if ["==", "!=", "<=", ">="].iter().any(is_own) || text[..at].ends_with(['=', '!', '<', '>']) {
                    continue;
                }
                if let Some((_, help)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
                    return Some(help);
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expression;
    use crate::diagnostic::Span;

    #[test]
    fn what_is_known_from_elsewhere_is_told_with_how_it_is_written_here() {
        for (text, expected) in [
            ("a && b", "`and` for `&&`"),
            ("a || b", "`or` for `||`"),
            ("a === 'x'", "`==` for `===`"),
            ("a !== 'x'", "`!=` for `!==`"),
            ("a ?? b", "default(y)"),
            ("a?.b", "default(z)"),
            ("a ? b : c", "if condition else"),
            ("!a", "`not x` for `!x`"),
            ("a = 1", "`==` to compare"),
            ("a.map(x => x)", "map(attribute"),
            ("contains(a, 'x')", "`'part' in x`"),
            ("toJSON(a)", "tojson"),
            ("a is null", "`is none`"),
        ] {
            let error = Expression::compile(text, Span::default()).expect_err(text);
            assert!(error.help.is_some_and(|help| help.contains(expected)), "{text}: {error:?}");
        }
    }

    #[test]
    fn signs_in_quotes_and_of_this_language_are_nobodys() {
        for text in ["a == '&&' b", "a != b c", "a <= b c", "a >= \"x ? y\" c"] {
            assert_eq!(sign(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_said_not_to_exist_does_not() {
        for (name, _) in NAMES {
            let call = Expression::compile(&format!("{name}(a)"), Span::default());
            let filter = Expression::compile(&format!("a | {name}"), Span::default());
            assert!(call.is_err() || filter.is_err(), "{name}");
        }
    }
}
