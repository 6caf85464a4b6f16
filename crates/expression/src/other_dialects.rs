//! Names and operators of other expression languages, with their equivalents in this one.

/// A word of another language: its name, the help text, and the equivalent as a template (see [`super::rewrite`]); the template
/// is empty if the equivalent depends on more than the call.
type Entry = (&'static str, &'static str, &'static str);

/// Functions, filters and tests of other languages.
const NAMES: &[Entry] = &[
    ("append", "write `x ~ y` for texts, and `x + [y]` for lists", "{x} ~ {0}"),
    ("b64decode", "write `x | base64(decode=true)`", "{x} | base64(decode=true)"),
    ("b64encode", "write `x | base64`", "{x} | base64"),
    ("basename", "write `x | split('/') | last`", "{x} | split('/') | last"),
    ("ceil", "write `x | round(0, 'ceil')`", "{x} | round(0, 'ceil')"),
    ("combine", "write `x | chain(y)`, in which later keys win", "{x} | chain({0})"),
    ("groupBy", "write `x | groupby(by=item.name)`", "{x} | groupby(attribute={0})"),
    ("keyBy", "write `x | toMap(by=item.name)`", ""),
    ("compact", "write `x | select | list`", "{x} | select | list"),
    ("dict2items", "write `x | items`, which gives pairs of a key and a value", ""),
    ("difference", "write `x | reject('in', y) | list`", "{x} | reject('in', {0}) | list"),
    ("downcase", "write `x | lower`", "{x} | lower"),
    ("filesizeformat", "write `(x / 1048576) | round(1) ~ ' MB'`", ""),
    ("floor", "write `x | round(0, 'floor')`", "{x} | round(0, 'floor')"),
    ("from_yaml", "there is no YAML in expressions; `parseJson(x)` reads JSON", ""),
    ("if", "write `a if condition else b`", ""),
    ("intersect", "write `x | select('in', y) | list`", "{x} | select('in', {0}) | list"),
    ("isEmpty", "write `x | length == 0`", "{x} | length == 0"),
    (
        "items2dict",
        "write `x | toMap(by=item.key, value=item.value)`",
        "{x} | toMap(by=item.key, value=item.value)",
    ),
    ("keys", "write `x | list`, which returns the keys of a map", "{x} | list"),
    (
        "lookup",
        "files and variables of the machine are not read here: name the value under `configVars`, which may read `${{ env.NAME }}` and `${{ secrets.name }}`",
        "",
    ),
    ("md5", "write `hash(x, 'md5')`", "hash({x}, 'md5')"),
    ("ltrim", "write `x | trim`", ""),
    ("parseInt", "write `x | int`", "{x} | int"),
    ("parseFloat", "write `x | float`", "{x} | float"),
    ("parse_url", "write `parseUrl(x)`", "parseUrl({x})"),
    ("pluck", "write `x | map(attribute='name') | list`", "{x} | map(attribute={0}) | list"),
    ("quote", "write `x | tojson` for a text in quotes", ""),
    ("random", "there is no randomness but `uuid()`; write a `code` step", ""),
    ("regex", "write `matches(x, '[0-9]+')`", "matches({x}, {0})"),
    ("rtrim", "write `x | trim`", ""),
    ("search", "write `match(x, '[0-9]+')`, which returns the first match or null", "match({x}, {0})"),
    ("sha256", "write `hash(x, 'sha256')`", "hash({x}, 'sha256')"),
    ("sha1", "write `hash(x, 'sha1')`", "hash({x}, 'sha1')"),
    (
        "slugify",
        "write `x | lower | replace(' ', '-')`, or a `code` step for other characters",
        "{x} | lower | replace(' ', '-')",
    ),
    ("sort_by", "write `x | sort(by=item.name)`", "{x} | sort(attribute={0})"),
    ("sortBy", "write `x | sort(by=item.name)`", "{x} | sort(attribute={0})"),
    ("split_by", "write `x | split(',')`", "{x} | split({0})"),
    ("str", "write `x | string`", "{x} | string"),
    ("ternary", "write `a if condition else b`", "{0} if {x} else {1}"),
    ("timestamp", "write `formatDate(x, '%s') | int`", ""),
    ("to_datetime", "write `parseDate(x)`", "parseDate({x})"),
    ("to_nice_json", "write `x | tojson(indent=2)`", "{x} | tojson(indent=2)"),
    ("to_yaml", "write `x | tojson`: JSON is YAML too", "{x} | tojson"),
    ("toNumber", "write `x | float`, or `x | int` for a whole number", "{x} | float"),
    ("truncate", "write `x[:20]`", "{x}[:{0}]"),
    ("type_of", "write a test: `x is string`, `is number`, `is mapping`, `is sequence`", ""),
    ("typeof", "write a test: `x is string`, `is number`, `is mapping`, `is sequence`", ""),
    ("uniq", "write `x | unique`", "{x} | unique"),
    ("unique_by", "write `x | unique(by=item.name)`", "{x} | unique(attribute={0})"),
    ("upcase", "write `x | upper`", "{x} | upper"),
    ("uri_encode", "write `urlencode(x)`", "urlencode({x})"),
    ("url_encode", "write `urlencode(x)`", "urlencode({x})"),
    ("encodeURIComponent", "write `urlencode(x)`", "urlencode({x})"),
    ("values", "write `x | items | map('last') | list`", "{x} | items | map('last') | list"),
    ("where", "write `x | select(by=item.name == value)`", "{x} | selectattr({0}, 'eq', {1}) | list"),
    ("wordcount", "write `x | split | length`", "{x} | split | length"),
    ("dir", "files are not read in expressions; a file of the execution is a value that a step returns", ""),
    ("exists", "write `x is defined`", "{x} is defined"),
    ("always", "put steps that always run under `finally`", ""),
    ("addDays", "write `addDuration(x, '1d', timezone='Europe/Berlin')`", ""),
    ("as_datetime", "write `parseDate(x)`", "parseDate({x})"),
    ("as_timestamp", "dates are texts such as `2026-01-31T08:30:00Z`: write `parseDate(x)`", ""),
    ("atob", "write `x | base64(decode=true)`", "{x} | base64(decode=true)"),
    ("btoa", "write `x | base64`", "{x} | base64"),
    ("cancelled", "put steps that always run under `finally`", ""),
    ("contains", "write `'part' in x`", "{0} in {x}"),
    ("capitalise", "write `x | capitalize`", "{x} | capitalize"),
    ("concat", "write `a ~ b` for texts, and `a + b` for lists", "{x} ~ {0}"),
    ("date", "write `formatDate(x, '%Y-%m-%d')`", ""),
    ("dateformat", "write `formatDate(x, '%Y-%m-%d')`", ""),
    ("empty", "write `x | length == 0`", "{x} | length == 0"),
    ("endsWith", "write `x is endingwith('end')`", "{x} is endingwith({0})"),
    ("failure", "put steps that run on a failure under `onError`", ""),
    ("fromJSON", "write `parseJson(x)`", "parseJson({x})"),
    ("from_json", "write `parseJson(x)`", "parseJson({x})"),
    ("iif", "write `a if condition else b`", "{0} if {x} else {1}"),
    ("is_state", "compare the result of a step: `steps.<id>.results.state == 'on'`", ""),
    ("ifnull", "write `coalesce(x, y)`", "coalesce({x}, {0})"),
    ("nvl", "write `coalesce(x, y)`", "coalesce({x}, {0})"),
    ("date_diff", "write `dateDiff(start, end, unit='day')`", "dateDiff({x}, {0})"),
    ("dateAdd", "write `addDuration(x, '1d')`", ""),
    ("to_decimal", "write `x | decimal`", "{x} | decimal"),
    ("json", "write `x | tojson` for the text, or `parseJson(x)` for the value", ""),
    ("len", "write `x | length`", "{x} | length"),
    ("lowercase", "write `x | lower`", "{x} | lower"),
    ("null", "write `is none`; to test whether a value exists, write `is defined`", "{x} is none"),
    ("nil", "write `is none`; to test whether a value exists, write `is defined`", "{x} is none"),
    ("regex_findall", "write `matchAll(x, '[0-9]+')`", "matchAll({x}, {0})"),
    ("regex_match", "write `matches(x, '^[0-9]+$')`", "matches({x}, {0})"),
    ("regex_replace", "write `replaceMatches(x, '[0-9]+', '')`", "replaceMatches({x}, {0}, {1})"),
    ("regex_search", "write `match(x, '[0-9]+')`, which returns the first match or null", "match({x}, {0})"),
    ("regexMatch", "write `matches(x, '[0-9]+')`", "matches({x}, {0})"),
    ("size", "write `x | length`", "{x} | length"),
    ("startsWith", "write `x is startingwith('start')`", "{x} is startingwith({0})"),
    ("states", "read the result of a step: `steps.<id>.results`", ""),
    ("strftime", "write `formatDate(x, '%Y-%m-%d')`", "formatDate({x}, {0})"),
    ("substring", "write `x[0:5]`", "{x}[{0}:{1}]"),
    ("success", "a list of steps stops at the first failure, so this is always true where it is read", ""),
    ("strip", "write `x | trim`", "{x} | trim"),
    ("toDate", "write `parseDate(x)`", "parseDate({x})"),
    ("toLowerCase", "write `x | lower`", "{x} | lower"),
    ("toString", "write `x | string`", "{x} | string"),
    ("toUpperCase", "write `x | upper`", "{x} | upper"),
    ("to_lower", "write `x | lower`", "{x} | lower"),
    ("to_upper", "write `x | upper`", "{x} | upper"),
    ("today", "write `now() | formatDate('%Y-%m-%d')`", "now() | formatDate('%Y-%m-%d')"),
    ("ucfirst", "write `x | capitalize`", "{x} | capitalize"),
    ("uppercase", "write `x | upper`", "{x} | upper"),
    ("toJSON", "write `x | tojson`", "{x} | tojson"),
    ("to_json", "write `x | tojson`", "{x} | tojson"),
];

/// Operators of other languages.
const SIGNS: &[(&str, &str)] = &[
    ("[?", "write `x | select(by=item.price > 5)` for `x[?price > 5]`"),
    ("[*]", "write `x | map(by=item.name)` for `x[*].name`"),
    ("[].", "write `x | map(by=item.name)` for `x[].name`"),
    ("=~", "write `matches(x, '[0-9]+')`"),
    ("&&", "write `and` for `&&`"),
    ("||", "write `or` for `||`"),
    ("===", "write `==` for `===`"),
    ("!==", "write `!=` for `!==`"),
    ("<>", "write `!=` for `<>`"),
    (" AND ", "write `and` for `AND`"),
    (" OR ", "write `or` for `OR`"),
    ("+=", "write `a + b`: the value of the expression is what `set` sets"),
    ("-=", "write `a - b`: the value of the expression is what `set` sets"),
    ("..", "write `range(1, 6)` for `1..5`"),
    ("??", "write `coalesce(x, y)` for `x ?? y`"),
    ("?.", "write `x.y | coalesce(z)` for `x?.y`: any name of the path may be missing"),
    ("?", "write `a if condition else b` for `condition ? a : b`"),
    ("!", "write `not x` for `!x`"),
    ("=>", "an expression for each item is `by=`: `map(by=item.id)` or `select(by=item.price > 5)`"),
    ("=", "write `==` to compare"),
];

/// Methods of other languages.
const METHODS: &[Entry] = &[
    ("length", "write `x | length`", "{x} | length"),
    ("trim", "write `x | trim`", "{x} | trim"),
    ("split", "write `x | split(',')`", "{x} | split({0})"),
    ("join", "write `x | join(',')`", "{x} | join({0})"),
    ("replace", "write `x | replace('old', 'new')`", "{x} | replace({0}, {1})"),
    ("capitalize", "write `x | capitalize`", "{x} | capitalize"),
    ("title", "write `x | title`", "{x} | title"),
    ("items", "write `x | items`", "{x} | items"),
    ("reverse", "write `x | reverse`", "{x} | reverse"),
    ("encode", "texts are UTF-8 where they become bytes: leave it out", ""),
    ("entries", "write `x | items`", "{x} | items"),
    ("count", "write `x | length`", "{x} | length"),
    ("first", "write `x | first`", "{x} | first"),
    ("last", "write `x | last`", "{x} | last"),
    ("isoformat", "write `parseDate(x)`", "parseDate({x})"),
    ("append", "write `x + [item]`", "{x} + [{0}]"),
    ("concat", "write `a ~ b` for texts, and `a + b` for lists", ""),
    ("endsWith", "write `x is endingwith('end')`", "{x} is endingwith({0})"),
    ("endswith", "write `x is endingwith('end')`", "{x} is endingwith({0})"),
    ("every", "write `not (x | reject(by=item.name))`", ""),
    ("filter", "write `x | select(by=item.price > 5)`", ""),
    ("find", "write `x | select(by=item.id == 7) | first`", ""),
    ("flat", "write `x | flatten`", "{x} | flatten"),
    ("flatMap", "write `x | map(by=item.names) | flatten`", ""),
    ("format", "write `formatDate(x, '%Y-%m-%d')` for a date", ""),
    ("get", "write `x.name | default(y)`", ""),
    ("getTime", "write `formatDate(x, '%s') | int`", "formatDate({x}, '%s') | int"),
    ("includes", "write `'part' in x`", "{0} in {x}"),
    ("indexOf", "write `'part' in x`", ""),
    ("contains", "write `'part' in x`", "{0} in {x}"),
    ("has", "write `x.name is defined`", ""),
    ("hasOwnProperty", "write `x.name is defined`", ""),
    ("isEmpty", "write `x | length == 0`", "{x} | length == 0"),
    ("keys", "write `x | list`, which returns the keys of a map", "{x} | list"),
    ("lower", "write `x | lower`", "{x} | lower"),
    ("map", "write `x | map(by=item.name)`", ""),
    ("match", "write `match(x, '[0-9]+')`, which returns `{text, groups, names}` or null", "match({x}, {0})"),
    ("matchAll", "write `matchAll(x, '[0-9]+')`", "matchAll({x}, {0})"),
    ("matches", "write `matches(x, '[0-9]+')`", "matches({x}, {0})"),
    ("padStart", "write `'%05d' | format(x)`, or a `code` step", ""),
    ("push", "write `x + [item]`", "{x} + [{0}]"),
    ("replaceAll", "write `x | replace('old', 'new')`", "{x} | replace({0}, {1})"),
    ("reduce", "write `x | sum(by=item.price * item.count)`, or a `code` step", ""),
    ("size", "write `x | length`", "{x} | length"),
    ("slice", "write `x[0:5]`", "{x}[{0}:{1}]"),
    ("some", "write `(x | select(by=item.price > 5) | length) > 0`", ""),
    ("sort", "write `x | sort(by=item.name)`", ""),
    ("startsWith", "write `x is startingwith('start')`", "{x} is startingwith({0})"),
    ("startswith", "write `x is startingwith('start')`", "{x} is startingwith({0})"),
    ("strftime", "write `formatDate(x, '%Y-%m-%d')`", "formatDate({x}, {0})"),
    ("strip", "write `x | trim`", "{x} | trim"),
    ("substr", "write `x[0:5]`", ""),
    ("substring", "write `x[0:5]`", "{x}[{0}:{1}]"),
    ("test", "write `matches(x, '[0-9]+')`", ""),
    ("toFixed", "write `x | round(2)`", "{x} | round({0})"),
    ("toISOString", "write `parseDate(x)`", "parseDate({x})"),
    ("toJSON", "write `x | tojson`", "{x} | tojson"),
    ("toJsonString", "write `x | tojson`", "{x} | tojson"),
    ("toLowerCase", "write `x | lower`", "{x} | lower"),
    ("toString", "write `x | string`", "{x} | string"),
    ("toUpperCase", "write `x | upper`", "{x} | upper"),
    ("trimEnd", "write `x | trim`", ""),
    ("trimStart", "write `x | trim`", ""),
    ("upper", "write `x | upper`", "{x} | upper"),
    ("values", "write `x | items | map('last') | list`", "{x} | items | map('last') | list"),
];

/// Methods of objects of other languages.
const STATIC_METHODS: &[Entry] = &[
    ("JSON.stringify", "write `x | tojson`", "{x} | tojson"),
    ("JSON.parse", "write `parseJson(x)`", "parseJson({x})"),
    ("Object.keys", "write `x | list`, which returns the keys of a map", "{x} | list"),
    ("Object.values", "write `x | items | map('last') | list`", "{x} | items | map('last') | list"),
    ("Object.entries", "write `x | items`", "{x} | items"),
    ("Math.round", "write `x | round | int`", "{x} | round | int"),
    ("Math.floor", "write `x | round(0, 'floor')`", "{x} | round(0, 'floor')"),
    ("Math.ceil", "write `x | round(0, 'ceil')`", "{x} | round(0, 'ceil')"),
    ("Math.abs", "write `x | abs`", "{x} | abs"),
    ("Math.max", "write `[a, b] | max`", "[{x}, {0}] | max"),
    ("Math.min", "write `[a, b] | min`", "[{x}, {0}] | min"),
    ("Date.now", "write `now()`, an instant, or `formatDate(now(), '%s') | int` for its seconds", ""),
    ("Date.parse", "write `parseDate(x)`", "parseDate({x})"),
    ("datetime.now", "write `now()`", "now()"),
    ("datetime.utcnow", "write `now()`", "now()"),
    ("json.dumps", "write `x | tojson`", "{x} | tojson"),
    ("json.loads", "write `parseJson(x)`", "parseJson({x})"),
    ("Array.isArray", "write `x is sequence`", "{x} is sequence"),
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
    ("index", "the number of an iteration, from 0, is `index`"),
    ("itemIndex", "the number of an iteration, from 0, is `index`"),
    ("runIndex", "the number of an iteration, from 0, is `index`"),
    ("prevNode", "the result of a step is `steps.<id>.results`"),
    ("parameter", "the inputs of a step are under its `with`"),
];

/// The equivalent of a word of another language.
#[derive(Clone, Copy)]
pub(super) struct Equivalent {
    /// The help text.
    pub(super) help: &'static str,
    /// The template, or empty.
    pub(super) template: &'static str,
}

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
pub(super) fn method(name: &str) -> Option<Equivalent> {
    find(METHODS, name)
}

/// The equivalent of a method of an object of another language: `JSON.stringify`.
pub(super) fn static_method(object: &str, method: &str) -> Option<Equivalent> {
    let is_it = |name: &str| name.split_once('.') == Some((object, method));
    let (_, help, template) = STATIC_METHODS.iter().find(|(name, ..)| is_it(name))?;
    Some(Equivalent { help, template })
}

/// The equivalent of a function, filter or test of another language.
pub(super) fn name(name: &str) -> Option<Equivalent> {
    find(NAMES, name)
}

fn find(table: &[Entry], name: &str) -> Option<Equivalent> {
    let (_, help, template) = table.iter().find(|(known, ..)| *known == name)?;
    Some(Equivalent { help, template })
}

/// The equivalent of the first operator of another language in a text that does not parse.
pub(super) fn sign(text: &str) -> Option<&'static str> {
    if text.starts_with("[ ") && text.ends_with(" ]") {
        return Some("write a comparison without brackets, and names without `$`: `inputs.name == 'b'`");
    }
    if text.starts_with(['`']) || text.starts_with("f'") || text.starts_with("f\"") {
        return Some("write `'text ' ~ inputs.name`, or the text around `${{ inputs.name }}`");
    }
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
    use text::diagnostic::Span;

    use super::*;
    use crate::Expression;

    #[test]
    fn constructs_of_other_languages_are_reported_with_their_equivalent() {
        for (text, expected) in [
            ("a && b", "`and` for `&&`"),
            ("a || b", "`or` for `||`"),
            ("a === 'x'", "`==` for `===`"),
            ("a !== 'x'", "`!=` for `!==`"),
            ("a ?? b", "coalesce(x, y)"),
            ("a?.b", "coalesce(z)"),
            ("a ? b : c", "if condition else"),
            ("!a", "`not x` for `!x`"),
            ("a = 1", "`==` to compare"),
            ("a.map(x => x)", "map(by="),
            ("contains(a, 'x')", "`'part' in x`"),
            ("toJSON(a)", "tojson"),
            ("a is null", "`is none`"),
            ("a | uppercase", "x | upper"),
            ("a | regex_match('b')", "matches(x"),
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
    fn names_of_other_languages_do_not_compile() {
        for (name, ..) in NAMES {
            let call = Expression::compile(&format!("{name}(a)"), Span::default());
            let filter = Expression::compile(&format!("a | {name}"), Span::default());
            assert!(call.is_err() || filter.is_err(), "{name}");
        }
    }
}
