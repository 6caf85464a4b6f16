//! Filters over texts.

use std::borrow::Cow;

use minijinja::Environment;
use minijinja::value::{Rest, ValueOrKwargs};
use value::Value;

use super::Call;
use super::scalars::to_minijinja;
use crate::failure::{EvalResult, Failure};
use crate::text_form;

/// The widest field of `format`, in characters.
const MAX_WIDTH: usize = 10_000;
/// The largest growth of a byte by a case conversion: `ΐ` of two bytes becomes three characters.
const CASE_GROWTH: usize = 3;

fn ok(value: impl Into<Value>) -> EvalResult {
    Ok(Some(value.into()))
}

/// `upper`.
pub(super) fn upper(call: &Call<'_>) -> EvalResult {
    change_case(call, str::to_uppercase)
}

/// `lower`.
pub(super) fn lower(call: &Call<'_>) -> EvalResult {
    change_case(call, str::to_lowercase)
}

/// `capitalize`: converts the first character to upper case and the others to lower case.
pub(super) fn capitalize(call: &Call<'_>) -> EvalResult {
    change_case(call, |text| {
        let mut characters = text.chars();
        let first = characters.next().map(char::to_uppercase).into_iter().flatten();
        first.chain(characters.as_str().to_lowercase().chars()).collect()
    })
}

/// `title`: converts the first character of each word to upper case.
pub(super) fn title(call: &Call<'_>) -> EvalResult {
    change_case(call, |text| {
        let mut titled = String::with_capacity(text.len());
        let mut begins = true;
        for c in text.chars() {
            if matches!(c, '-' | '(' | '{' | '[' | '<') || c.is_whitespace() {
                titled.push(c);
                begins = true;
            } else if begins {
                titled.extend(c.to_uppercase());
                begins = false;
            } else {
                titled.extend(c.to_lowercase());
            }
        }
        titled
    })
}

fn change_case(call: &Call<'_>, change: impl Fn(&str) -> String) -> EvalResult {
    let text = call.text()?;
    call.budget().allocate(text.len().saturating_mul(CASE_GROWTH))?;
    ok(change(&text))
}

/// `trim`: removes white space, or the characters in `chars`, at both ends.
pub(super) fn trim(call: &Call<'_>) -> EvalResult {
    let text = call.text()?;
    call.budget().allocate(text.len())?;
    let Some(characters) = call.text_argument("chars")? else { return ok(text.trim()) };
    let characters: Vec<char> = characters.chars().collect();
    // Trimming compares each character at the ends with each of `chars`.
    let ends = text.trim_start_matches(|c| characters.contains(&c)).len();
    call.budget().charge((text.len() - ends).saturating_mul(characters.len()))?;
    ok(text.trim_matches(&characters[..]))
}

/// `replace`.
pub(super) fn replace(call: &Call<'_>) -> EvalResult {
    let text = call.text()?;
    let (Some(old), Some(new)) = (call.text_argument("old")?, call.text_argument("new")?) else {
        return Err("`old` and `new` are texts".into());
    };
    call.budget().charge_text(text.len() + old.len())?;
    let count = text.matches(&*old).count();
    call.budget().charge(count)?;
    let kept = text.len() - count * old.len();
    let length = kept.saturating_add(count.saturating_mul(new.len()));
    call.budget().allocate(length)?;
    let mut replaced = String::with_capacity(length);
    let mut rest = 0;
    for (at, part) in text.match_indices(&*old) {
        replaced.push_str(&text[rest..at]);
        replaced.push_str(&new);
        rest = at + part.len();
    }
    replaced.push_str(&text[rest..]);
    ok(replaced)
}

/// `join`: concatenates the items, separated by `d`.
pub(super) fn join(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    let between = call.text_argument("d")?.unwrap_or_default();
    let attribute = call.text_argument("attribute")?;
    let mut parts: Vec<Cow<'_, str>> = Vec::new();
    call.budget().allocate_list(items.len())?;
    let mut found = attribute.is_none();
    for item in items.iter() {
        parts.push(match &attribute {
            None => text_form::stringify(item, call.budget())?,
            Some(attribute) => {
                let value = call.evaluation.attribute(item, attribute)?;
                found |= value.is_some();
                value.map_or(Ok(Cow::Borrowed("")), |value| {
                    text_form::stringify(&value, call.budget()).map(|text| Cow::Owned(text.into_owned()))
                })?
            }
        });
    }
    super::keyed::check_attribute(attribute.as_deref().unwrap_or_default(), items.len(), found)?;
    let length = parts.iter().map(|part| part.len()).fold(0, usize::saturating_add);
    let gaps = parts.len().saturating_sub(1).saturating_mul(between.len());
    call.budget().allocate(length.saturating_add(gaps))?;
    ok(parts.join(&*between))
}

/// `split`: splits at `separator`, or at white space.
pub(super) fn split(call: &Call<'_>) -> EvalResult {
    let text = call.text()?;
    let separator = call.text_argument("separator")?;
    let most = call.argument("maxsplit").and_then(Value::as_i64).and_then(|most| usize::try_from(most).ok());
    call.budget().allocate(text.len())?;
    let limit = most.map_or(usize::MAX, |most| most.saturating_add(1));
    let count = match &separator {
        Some(separator) => text.matches(&**separator).count() + 1,
        None => text.split_whitespace().count(),
    };
    call.budget().allocate_list(count.min(limit))?;
    let parts: Vec<Value> = match separator {
        Some(separator) => text.splitn(limit, &*separator).map(Value::from).collect(),
        None => words(&text, limit).into_iter().map(Value::from).collect(),
    };
    ok(parts)
}

/// Splits a text into at most `limit` words; the last one includes the remaining text.
fn words(text: &str, limit: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if words.len() + 1 >= limit {
            words.push(rest);
            break;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

/// `lines`.
pub(super) fn lines(call: &Call<'_>) -> EvalResult {
    let text = call.text()?;
    call.budget().allocate(text.len())?;
    call.budget().allocate_list(text.lines().count())?;
    ok(text.lines().map(Value::from).collect::<Vec<_>>())
}

/// `indent`: indents every line except the first (unless `first` is true) and blank ones (unless `blank` is true).
pub(super) fn indent(call: &Call<'_>) -> EvalResult {
    let text = call.text()?;
    let width = call.count("width")?.unwrap_or(4);
    let text = trim_line_break(&text);
    call.budget().charge_text(text.len())?;
    let lines = text.split('\n').count();
    call.budget().allocate(text.len().saturating_add(lines.saturating_mul(width)))?;
    let spaces = " ".repeat(width);
    let mut indented = String::with_capacity(text.len());
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            indented.push('\n');
        }
        let blank = line.is_empty() || line == "\r";
        if (at > 0 || call.flag("first")) && (!blank || call.flag("blank")) {
            indented.push_str(&spaces);
        }
        indented.push_str(line);
    }
    ok(trim_line_break(&indented))
}

fn trim_line_break(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// `string`.
pub(super) fn string(call: &Call<'_>) -> EvalResult {
    let value = call.value()?;
    if value.as_str().is_some() {
        return Ok(Some(value.clone()));
    }
    let text = text_form::stringify(value, call.budget())?.into_owned();
    ok(text)
}

/// `tojson`: JSON in the form that Cogwork uses elsewhere; indented with `indent`.
pub(super) fn to_json(call: &Call<'_>) -> EvalResult {
    let pretty = match call.argument("indent") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true) | Value::Number(_)) => true,
        Some(other) => return Err(format!("`indent` is a number, not a {}", other.kind()).into()),
    };
    ok(text_form::json(call.value()?, pretty, call.budget())?)
}

/// `pprint`: indented JSON.
pub(super) fn pprint(call: &Call<'_>) -> EvalResult {
    ok(text_form::json(call.value()?, true, call.budget())?)
}

/// `escape`: escapes for HTML.
pub(super) fn escape(call: &Call<'_>) -> EvalResult {
    let text = text_form::stringify(call.value()?, call.budget())?;
    let entity = |c| match c {
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '&' => Some("&amp;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#x27;"),
        '/' => Some("&#x2f;"),
        _ => None,
    };
    call.budget().charge_text(text.len())?;
    let growth: usize = text.chars().filter_map(entity).map(|entity| entity.len() - 1).sum();
    call.budget().allocate(text.len() + growth)?;
    let mut escaped = String::with_capacity(text.len() + growth);
    for c in text.chars() {
        match entity(c) {
            Some(entity) => escaped.push_str(entity),
            None => escaped.push(c),
        }
    }
    ok(escaped)
}

/// `format`: printf-style, as in `'%s-%03d' | format(name, number)`. Charges the maximum length, then calls MiniJinja's filter.
pub(super) fn format(call: &Call<'_>) -> EvalResult {
    let pattern = call.text()?;
    call.budget().charge_text(pattern.len())?;
    let mut longest = 0;
    let mut arguments = Vec::new();
    for value in &call.rest.positional {
        longest = longest.max(text_length(value, call)?);
        arguments.push(ValueOrKwargs::from(printable(value)));
    }
    let mut named = Vec::new();
    for (name, value) in &call.rest.named {
        longest = longest.max(text_length(value, call)?);
        named.push((name.to_string(), printable(value)));
    }
    let fields = pattern.matches('%').count();
    let width = max_width(&pattern)?;
    let each = longest.max(width).saturating_add(512);
    call.budget().allocate(pattern.len().saturating_add(fields.saturating_mul(each)))?;
    if !named.is_empty() {
        let named: minijinja::value::Kwargs = named.into_iter().collect();
        arguments.push(ValueOrKwargs::from(minijinja::Value::from(named)));
    }
    let environment = Environment::empty();
    let mut state = environment.empty_state();
    let pattern = minijinja::Value::from(&*pattern);
    let formatted = minijinja::filters::format(&mut state, &pattern, Rest(arguments))
        .map_err(|error| Failure::Message(error.detail().unwrap_or("cannot be formatted").to_owned()))?;
    ok(formatted.as_str().unwrap_or_default())
}

/// An argument of `format`; null and booleans have the texts that they have everywhere.
fn printable(value: &Value) -> minijinja::Value {
    match value {
        Value::Null | Value::Bool(_) => value.to_text().into(),
        other => to_minijinja(other),
    }
}

/// The length of a value as text; charges the conversion.
fn text_length(value: &Value, call: &Call<'_>) -> Result<usize, Failure> {
    match value {
        Value::List(_) | Value::Map(_) | Value::File(_) => Err("takes texts, numbers and booleans".into()),
        scalar => text_form::stringify(scalar, call.budget()).map(|text| text.len()),
    }
}

/// The largest number in a pattern, which is an upper bound of every width and precision.
fn max_width(pattern: &str) -> Result<usize, Failure> {
    if pattern.contains('*') && pattern.contains('%') {
        return Err("a width of `*` is not supported".into());
    }
    let mut widest = 0;
    for piece in pattern.split('%').skip(1) {
        // A name in parentheses precedes the width.
        let piece =
            piece.strip_prefix('(').and_then(|named| named.split_once(')')).map_or(piece, |(_, rest)| rest);
        let field = piece.find(|c: char| c.is_ascii_alphabetic()).map_or(piece, |end| &piece[..end]);
        for digits in field.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
            let number = digits.parse().unwrap_or(usize::MAX);
            if number > MAX_WIDTH {
                return Err(format!("a field may be at most {MAX_WIDTH} characters wide").into());
            }
            widest = widest.max(number);
        }
    }
    Ok(widest)
}
