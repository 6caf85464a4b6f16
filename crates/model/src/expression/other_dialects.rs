//! Names and operators of other expression languages, with their equivalents in this one.

/// Functions, filters and tests of other languages.
const NAMES: &[(&str, &str)] = &[
    ("always", "put steps that always run under `finally`"),
    ("addDays", "write `addDuration(x, '1d')`"),
    ("as_datetime", "write `parseDate(x)`"),
    ("as_timestamp", "dates are texts such as `2026-01-31T08:30:00Z`: write `parseDate(x)`"),
    ("atob", "write `x | base64(decode=true)`"),
    ("btoa", "write `x | base64`"),
    ("cancelled", "put steps that always run under `finally`"),
    ("coalesce", "write `x | default(y)`"),
    ("contains", "write `'part' in x`"),
    ("capitalise", "write `x | capitalize`"),
    ("concat", "write `a ~ b` for texts, and `a + b` for lists"),
    ("date", "write `formatDate(x, '%Y-%m-%d')`"),
    ("dateformat", "write `formatDate(x, '%Y-%m-%d')`"),
    ("empty", "write `x | length == 0`"),
    ("endsWith", "write `x is endingwith('end')`"),
    ("failure", "put steps that run on a failure under `onError`"),
    ("fromJSON", "write `parseJson(x)`"),
    ("from_json", "write `parseJson(x)`"),
    ("iif", "write `a if condition else b`"),
    ("is_state", "compare the result of a step: `steps.<id>.results.state == 'on'`"),
    ("json", "write `x | tojson` for the text, or `parseJson(x)` for the value"),
    ("len", "write `x | length`"),
    ("lowercase", "write `x | lower`"),
    ("match", "write a step `action: text.match`, which returns the matches of a regular expression"),
    ("null", "write `is none`; to test whether a value exists, write `is defined`"),
    ("nil", "write `is none`; to test whether a value exists, write `is defined`"),
    ("regex_findall", "write a step `action: text.match`, which returns the matches of a regular expression"),
    ("regex_match", "write a step `action: text.match`, which returns the matches of a regular expression"),
    ("regex_replace", "write a step `action: text.replace`"),
    ("regex_search", "write a step `action: text.match`, which returns the matches of a regular expression"),
    ("regexMatch", "write a step `action: text.match`, which returns the matches of a regular expression"),
    ("size", "write `x | length`"),
    ("startsWith", "write `x is startingwith('start')`"),
    ("states", "read the result of a step: `steps.<id>.results`"),
    ("strftime", "write `formatDate(x, '%Y-%m-%d')`"),
    ("substring", "write `x[0:5]`"),
    ("success", "a list of steps stops at the first failure, so this is always true where it is read"),
    ("strip", "write `x | trim`"),
    ("toDate", "write `parseDate(x)`"),
    ("toLowerCase", "write `x | lower`"),
    ("toString", "write `x | string`"),
    ("toUpperCase", "write `x | upper`"),
    ("to_lower", "write `x | lower`"),
    ("to_upper", "write `x | upper`"),
    ("today", "write `now() | formatDate('%Y-%m-%d')`"),
    ("ucfirst", "write `x | capitalize`"),
    ("uppercase", "write `x | upper`"),
    ("toJSON", "write `x | tojson`"),
    ("to_json", "write `x | tojson`"),
];

/// Operators of other languages.
const SIGNS: &[(&str, &str)] = &[
    ("&&", "write `and` for `&&`"),
    ("||", "write `or` for `||`"),
    ("===", "write `==` for `===`"),
    ("!==", "write `!=` for `!==`"),
    ("??", "write `x | default(y)` for `x ?? y`"),
    ("?.", "write `x.y | default(z)` for `x?.y`: the default applies to every missing name of the path"),
    ("?", "write `a if condition else b` for `condition ? a : b`"),
    ("!", "write `not x` for `!x`"),
    (
        "=>",
        "expressions cannot define functions: use a filter such as `map(attribute='id')` or `selectattr('id')`",
    ),
    ("=", "write `==` to compare"),
];

/// Methods of other languages.
const METHODS: &[(&str, &str)] = &[
    ("append", "write `x + [item]`"),
    ("concat", "write `a ~ b` for texts, and `a + b` for lists"),
    ("endsWith", "write `x is endingwith('end')`"),
    ("endswith", "write `x is endingwith('end')`"),
    ("every", "write `x | selectattr('name') | list | length == x | length`"),
    ("filter", "write `x | selectattr('name', 'eq', value) | list`"),
    ("find", "write `x | selectattr('name', 'eq', value) | first`"),
    ("flat", "write `x | sum(start=[])`"),
    ("format", "write `formatDate(x, '%Y-%m-%d')` for a date"),
    ("get", "write `x.name | default(y)`"),
    ("getTime", "write `formatDate(x, '%s') | int`"),
    ("includes", "write `'part' in x`"),
    ("indexOf", "write `'part' in x`"),
    ("contains", "write `'part' in x`"),
    ("has", "write `x.name is defined`"),
    ("hasOwnProperty", "write `x.name is defined`"),
    ("isEmpty", "write `x | length == 0`"),
    ("keys", "write `x | list`, which returns the keys of a map"),
    ("lower", "write `x | lower`"),
    ("map", "write `x | map(attribute='name') | list`"),
    ("match", "write a step `action: text.match`, which returns the matches of a regular expression"),
    ("matches", "write a step `action: text.match`, which returns the matches of a regular expression"),
    ("padStart", "write `'%05d' | format(x)`, or a `code` step"),
    ("push", "write `x + [item]`"),
    ("replaceAll", "write `x | replace('old', 'new')`"),
    ("reduce", "write `x | sum(attribute='name')`, or a `code` step"),
    ("size", "write `x | length`"),
    ("slice", "write `x[0:5]`"),
    ("some", "write `x | selectattr('name') | list | length > 0`"),
    ("startsWith", "write `x is startingwith('start')`"),
    ("startswith", "write `x is startingwith('start')`"),
    ("strftime", "write `formatDate(x, '%Y-%m-%d')`"),
    ("strip", "write `x | trim`"),
    ("substr", "write `x[0:5]`"),
    ("substring", "write `x[0:5]`"),
    ("test", "write a step `action: text.match`, which returns the matches of a regular expression"),
    ("toFixed", "write `x | round(2)`"),
    ("toISOString", "write `parseDate(x)`"),
    ("toJSON", "write `x | tojson`"),
    ("toJsonString", "write `x | tojson`"),
    ("toLowerCase", "write `x | lower`"),
    ("toString", "write `x | string`"),
    ("toUpperCase", "write `x | upper`"),
    ("trimEnd", "write `x | trim`"),
    ("trimStart", "write `x | trim`"),
    ("upper", "write `x | upper`"),
    ("values", "write `x | items | map('last') | list`"),
];

/// Variables with a `$`, and path roots, of other languages.
const VARIABLES: &[(&str, &str)] = &[
    (
        "json",
        "the result of a step is `steps.<id>.results`, the trigger's data `trigger.results.body.data`, an item of a loop `item`",
    ),
    ("node", "the result of a step is `steps.<id>.results`"),
    ("items", "the result of a step is `steps.<id>.results`; an item of a `forEach` is `item`"),
    ("item", "an item of a `forEach` is `item`"),
    ("input", "the result of a step is `steps.<id>.results`, the trigger's data `trigger.results.body.data`"),
    ("binary", "a file from a step is `steps.<id>.results`, or a field of it"),
    ("env", "declare it under `configVars` with `${{ env.NAME }}`, and read `configVars.<name>`"),
    ("vars", "values of the file are `configVars.<name>`, those of an execution `vars.<name>`"),
    (
        "secrets",
        "declare it under `configVars` with `{value: \"${{ secrets.NAME }}\", secret: true}`, or use a connection",
    ),
    ("now", "write `now()`"),
    ("today", "write `now() | formatDate('%Y-%m-%d')`"),
    ("execution", "the execution is `execution`: `execution.id`, `execution.startedAt`"),
    ("workflow", "the automation is `automation`: `automation.id`, `automation.name`"),
    ("itemIndex", "the number of an iteration, from 0, is `index`"),
    ("runIndex", "the number of an iteration, from 0, is `index`"),
    ("prevNode", "the result of a step is `steps.<id>.results`"),
    ("parameter", "the inputs of a step are under its `with`"),
];

/// The equivalent of a variable with a `$`: its name, and the help text. `None` for a JSONPath, which continues with `.` or `[`.
pub(super) fn variable(text: &str) -> Option<(&str, &'static str)> {
    let name = text.strip_prefix('$')?;
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    let word = &name[..end];
    if word.is_empty() {
        let is_call = name.starts_with('(');
        return is_call.then_some((&text[..1], "the result of a step is `steps.<id>.results`"));
    }
    let known = VARIABLES.iter().find(|(known, _)| *known == word).map(|(_, help)| *help);
    Some((
        &text[..=end],
        known.unwrap_or("remove the `$`; `steps`, `trigger`, `vars`, `inputs` and others are plain names"),
    ))
}

/// The equivalent of a method of another language.
pub(super) fn method(name: &str) -> Option<&'static str> {
    METHODS.iter().find(|(known, _)| *known == name).map(|(_, help)| *help)
}

/// The equivalent of a function, filter or test of another language.
pub(super) fn name(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, help)| *help)
}

/// The equivalent of the first operator of another language in a text that does not parse.
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
    fn constructs_of_other_languages_are_reported_with_their_equivalent() {
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
            ("a | uppercase", "x | upper"),
            ("a | match('b')", "text.match"),
            ("a.toUpperCase()", "x | upper"),
            ("a.b['c'].trim()", "x | trim"),
            ("a.b().c", "such as"),
            ("$json.x", "steps.<id>.results"),
            ("$('Fetch').item", "steps.<id>.results"),
            ("$foo", "remove the `$`"),
            ("formatDate(a, 'yyyy-MM-dd')", "'%Y-%m-%d'"),
        ] {
            let error = Expression::compile(text, Span::default()).expect_err(text);
            assert!(error.help.as_ref().is_some_and(|help| help.contains(expected)), "{text}: {error:?}");
        }
    }

    #[test]
    fn quoted_operators_and_own_operators_are_not_reported() {
        for text in ["a == '&&' b", "a != b c", "a <= b c", "a >= \"x ? y\" c"] {
            assert_eq!(sign(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_other_languages_do_not_exist_here() {
        for (name, _) in NAMES {
            let call = Expression::compile(&format!("{name}(a)"), Span::default());
            let filter = Expression::compile(&format!("a | {name}"), Span::default());
            assert!(call.is_err() || filter.is_err(), "{name}");
        }
    }
}
