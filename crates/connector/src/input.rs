//! Validation of inputs against the declaration of an action: fills in defaults, coerces types, rejects unknown
//! names.
//!
//! Coercions are limited to forms that authors use and that have one meaning: a whole number for a text (ids, never
//! through a float), digits for a whole number, a single value for a list, and `a,b` for a list of choices. Never
//! coerced: `"true"` to true, or anything that would lose a digit.

use model::{ActionError, ActionSpec, ErrorKind, InputSpec, InputType};
use text::diagnostic::nearest;
use value::{File, LoadMemory, MAX_LOADED_BYTES, Map, Number, Reserved, Value};

/// The largest magnitude up to which whole numbers are exact as floats.
const MAX_EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// Checks evaluated inputs against the declaration in `spec`. The result holds each input that is set or has a
/// default, in the order of the declaration. An optional input counts as absent if it is `null`, or an empty text
/// where its type is not text.
///
/// A file for a text is loaded into `memory`, which needs [`bytes_to_load`].
///
/// # Errors
/// Returns [`ErrorKind::Input`] with all problems at once: missing and unknown inputs, and wrong types.
pub fn check_inputs(spec: &ActionSpec, inputs: &Map, memory: &dyn LoadMemory) -> Result<Map, ActionError> {
    checked(&spec.inputs, inputs, memory, &format!("`{}` cannot be called", spec.name))
}

/// Checks the evaluated inputs of the event `name`, as [`check_inputs`] checks the inputs of an action. Files are refused.
///
/// # Errors
/// As [`check_inputs`].
pub fn check_event_inputs(name: &str, specs: &[InputSpec], inputs: &Map) -> Result<Map, ActionError> {
    checked(specs, inputs, &Reserved::nothing(), &format!("`{name}` cannot start anything"))
}

fn checked(
    specs: &[InputSpec],
    inputs: &Map,
    memory: &dyn LoadMemory,
    failing: &str,
) -> Result<Map, ActionError> {
    let mut problems = Problems::new(memory);
    let checked = fields(specs, inputs, "", &mut problems);
    if problems.found.is_empty() {
        return Ok(checked);
    }
    Err(ActionError::new(ErrorKind::Input, format!("{failing}: {}", problems.found.join("; "))))
}

/// The bytes of external files that [`check_inputs`] loads, since their inputs take texts.
#[must_use]
pub fn bytes_to_load(spec: &ActionSpec, inputs: &Map) -> usize {
    field_bytes(&spec.inputs, inputs)
}

fn field_bytes(specs: &[InputSpec], given: &Map) -> usize {
    let bytes = |spec: &InputSpec| given.get(&spec.name).map_or(0, |value| text_bytes(&spec.kind, value));
    specs.iter().map(bytes).fold(0, usize::saturating_add)
}

fn text_bytes(kind: &InputType, value: &Value) -> usize {
    match (kind, value) {
        (InputType::Text | InputType::Url, Value::File(_)) => value.external_bytes(),
        (InputType::List { items }, Value::List(list)) => {
            list.0.iter().map(|item| text_bytes(items, item)).fold(0, usize::saturating_add)
        }
        (InputType::List { items }, one) => text_bytes(items, one),
        (InputType::Object { fields }, Value::Map(map)) => field_bytes(fields, map),
        (InputType::Map { values }, Value::Map(map)) => {
            map.iter().map(|(_, value)| text_bytes(values, value)).fold(0, usize::saturating_add)
        }
        _ => 0,
    }
}

/// Converts the value given for one input, with the rules that [`check_inputs`] applies. `None` if the input counts as absent. No file
/// is loaded.
///
/// # Errors
/// See [`convert_value`].
pub fn convert_input(spec: &InputSpec, value: &Value) -> Result<Option<Value>, String> {
    if counts_as_absent(spec, value) { Ok(None) } else { convert_value(&spec.kind, value).map(Some) }
}

/// Converts one value to a type, with the rules that [`check_inputs`] applies. No file is loaded.
///
/// # Errors
/// Returns the problem as a phrase to follow the input's name: "must be a whole number from 1 to 250, found text".
pub fn convert_value(kind: &InputType, value: &Value) -> Result<Value, String> {
    let memory = Reserved::nothing();
    let mut problems = Problems::new(&memory);
    match bend(kind, value, "", &mut problems) {
        Some(value) if problems.found.is_empty() => Ok(value),
        _ => Err(problems.found.join("; ")),
    }
}

/// The problems found so far.
struct Problems<'m> {
    found: Vec<String>,
    /// Takes the files that are loaded.
    memory: &'m dyn LoadMemory,
}

impl<'m> Problems<'m> {
    fn new(memory: &'m dyn LoadMemory) -> Self {
        Self { found: Vec::new(), memory }
    }

    /// Adds a problem of the value at `path`; at the root, where `path` is empty, no name precedes it.
    fn push<T>(&mut self, path: &str, words: impl std::fmt::Display) -> Option<T> {
        self.found.push(if path.is_empty() { words.to_string() } else { format!("`{path}` {words}") });
        None
    }
}

pub(crate) fn check_fields(specs: &[InputSpec], given: &Map) -> Result<Map, String> {
    let memory = Reserved::nothing();
    let mut problems = Problems::new(&memory);
    let checked = fields(specs, given, "", &mut problems);
    if problems.found.is_empty() { Ok(checked) } else { Err(problems.found.join("; ")) }
}

fn fields(specs: &[InputSpec], given: &Map, path: &str, problems: &mut Problems<'_>) -> Map {
    let mut checked = Map::with_capacity(specs.len());
    for spec in specs {
        let path = below(path, &spec.name);
        let value = given.get(&spec.name).filter(|value| !counts_as_absent(spec, value));
        match (value, &spec.default) {
            (Some(value), _) => {
                if let Some(value) = bend(&spec.kind, value, &path, problems) {
                    checked.insert(spec.name.as_str(), value);
                }
            }
            (None, Some(default)) => {
                checked.insert(spec.name.as_str(), default.clone());
            }
            (None, None) if spec.required => {
                let words = if given.contains_key(&spec.name) { "must not be null" } else { "is missing" };
                problems.push::<()>(&path, words);
            }
            (None, None) => {}
        }
    }
    for key in given.keys().filter(|key| !specs.iter().any(|spec| spec.name == **key)) {
        let free = specs.iter().map(|spec| spec.name.as_str()).filter(|name| !given.contains_key(name));
        let meant = nearest(key, free);
        let words = match meant {
            Some(meant) => format!("is not an input; did you mean `{meant}`?"),
            None => "is not an input".to_owned(),
        };
        problems.push::<()>(&below(path, key), words);
    }
    checked
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// True if the value means "leave this input out": `null`, or the empty text of an expression without a value. `null`
/// is a value where the type is any.
fn counts_as_absent(spec: &InputSpec, value: &Value) -> bool {
    match value {
        Value::Null => spec.kind != InputType::Any,
        Value::String(text) => {
            text.is_empty()
                && !spec.required
                && !matches!(
                    spec.kind,
                    InputType::Any
                        | InputType::Text
                        | InputType::Url
                        | InputType::File
                        | InputType::List { .. }
                )
        }
        _ => false,
    }
}

fn bend(kind: &InputType, value: &Value, path: &str, problems: &mut Problems<'_>) -> Option<Value> {
    match kind {
        InputType::Any => Some(value.clone()),
        InputType::Text | InputType::Url => text(value, path, problems),
        InputType::Integer { min, max } => integer(kind, (*min, *max), value, path, problems),
        InputType::Number => match value {
            Value::Number(_) => Some(value.clone()),
            Value::String(text) => match text.parse::<Number>() {
                Ok(number) => Some(Value::Number(number)),
                Err(_) => wrong(kind, value, path, problems),
            },
            _ => wrong(kind, value, path, problems),
        },
        InputType::Boolean => match value {
            Value::Bool(_) => Some(value.clone()),
            _ => wrong(kind, value, path, problems),
        },
        InputType::Choice { options } => choice(options, value, path, problems),
        InputType::List { items } => list(items, value, path, problems),
        InputType::Object { fields: specs } => match value {
            Value::Map(map) => Some(Value::from(fields(specs, map, path, problems))),
            _ => wrong(kind, value, path, problems),
        },
        InputType::Map { values } => match value {
            Value::Map(map) => {
                let entries = map.iter().filter_map(|(key, value)| {
                    Some((key.clone(), bend(values, value, &below(path, key), problems)?))
                });
                Some(Value::from(entries.collect::<Map>()))
            }
            _ => wrong(kind, value, path, problems),
        },
        InputType::File => match value {
            Value::File(_) => Some(value.clone()),
            Value::String(text) => Some(Value::from(File {
                content_type: "text/plain; charset=utf-8".into(),
                filename: None,
                data: text.as_bytes().to_vec().into(),
            })),
            _ => wrong(kind, value, path, problems),
        },
    }
}

/// Reports a type mismatch. Names only the type of the value, since the value may be a secret.
fn wrong(kind: &InputType, value: &Value, path: &str, problems: &mut Problems<'_>) -> Option<Value> {
    let article = match kind {
        InputType::Integer { .. } | InputType::Number | InputType::List { .. } => "a ",
        InputType::Object { .. } | InputType::Map { .. } | InputType::File => "a ",
        _ => "",
    };
    let hint = match (kind, value.as_str()) {
        (InputType::Boolean, Some("true" | "false")) => "; take the quotes away",
        _ => "",
    };
    problems.push(path, format_args!("must be {article}{}, found {}{hint}", kind.describe(), value.kind()))
}

fn text(value: &Value, path: &str, problems: &mut Problems<'_>) -> Option<Value> {
    match value {
        Value::String(_) => Some(value.clone()),
        Value::Number(number) if is_exact(number) => Some(Value::from(number.to_string())),
        Value::Number(_) => {
            problems.push(path, "is a number that has lost digits on its way; give it as text, in quotes")
        }
        Value::File(file) if file.data.is_external() => match file.load(MAX_LOADED_BYTES, problems.memory) {
            Ok(loaded) => text(&Value::from(loaded), path, problems),
            Err(error) => problems.push(path, format_args!("is text: {error}")),
        },
        Value::File(file) if file.text().is_some() => file.text().map(|text| Value::from(&*text)),
        _ => wrong(&InputType::Text, value, path, problems),
    }
}

/// True if each digit of the number is exact: an integer, or a float below [`MAX_EXACT_FLOAT`].
fn is_exact(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|float| float.abs() < MAX_EXACT_FLOAT)
}

fn integer(
    kind: &InputType,
    (min, max): (Option<i64>, Option<i64>),
    value: &Value,
    path: &str,
    problems: &mut Problems<'_>,
) -> Option<Value> {
    let number = match value {
        Value::Number(number) if number.is_f64() => whole(number),
        Value::Number(number) => number.as_i64(),
        // Only plain digits: `1e3`, ` 5` and `+5` remain text.
        Value::String(text) if is_canonical(text) => text.parse().ok(),
        _ => None,
    };
    let Some(number) = number else { return wrong(kind, value, path, problems) };
    if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
        return problems.push(path, format_args!("must be a {}, found {number}", kind.describe()));
    }
    Some(Value::from(number))
}

fn is_canonical(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" && digits == text || !digits.starts_with('0') && !digits.is_empty())
}

/// Returns the integer value of a float without fraction, such as a division yields.
fn whole(number: &Number) -> Option<i64> {
    let float = number.as_f64()?;
    if float.fract() != 0.0 || float.abs() >= MAX_EXACT_FLOAT {
        return None;
    }
    // `{:.0}` formats a whole float of this size exactly, which avoids a cast.
    format!("{float:.0}").parse().ok()
}

fn choice(options: &[String], value: &Value, path: &str, problems: &mut Problems<'_>) -> Option<Value> {
    let kind = || InputType::Choice { options: options.to_vec() };
    let found = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string().into(),
        _ => return wrong(&kind(), value, path, problems),
    };
    if options.iter().any(|option| **option == *found) {
        return Some(Value::String(found));
    }
    let shown = text::truncate(&found, 40);
    let meant = nearest(&found, options.iter().map(String::as_str));
    let hint = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    problems.push(path, format_args!("must be {}, found `{shown}`{hint}", kind().describe()))
}

fn list(items: &InputType, value: &Value, path: &str, problems: &mut Problems<'_>) -> Option<Value> {
    let given = match (value, items) {
        (Value::List(list), _) => list.0.clone(),
        // No option of a choice contains a comma, so `a,b` always means two options.
        (Value::String(text), InputType::Choice { .. }) => {
            text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(Value::from).collect()
        }
        // An empty text is an empty list, for example a computed filter without entries. It does not mean that the
        // input is absent.
        (Value::String(text), _) if text.is_empty() => Vec::new(),
        (one, _) => vec![one.clone()],
    };
    let count = given.len();
    let bent: Vec<Value> = given
        .iter()
        .enumerate()
        .filter_map(|(index, item)| bend(items, item, &below(path, &index.to_string()), problems))
        .collect();
    (bent.len() == count).then(|| Value::from(bent))
}

#[cfg(test)]
mod tests {
    use model::Effect;
    use pretty_assertions::assert_eq;

    use super::*;

    fn input(name: &str, kind: InputType) -> InputSpec {
        InputSpec { name: name.to_owned(), kind, required: false, default: None, description: None }
    }

    fn spec() -> ActionSpec {
        let words = || InputType::Choice { options: vec!["current".into(), "archived".into()] };
        let version = vec![
            InputSpec { required: true, ..input("number", InputType::integer()) },
            input("message", InputType::Text),
        ];
        ActionSpec {
            name: "wiki.test".to_owned(),
            title: "Test".to_owned(),
            description: None,
            effect: Effect::Read,
            connections: Vec::new(),
            connection_required: false,
            inputs: vec![
                InputSpec { required: true, ..input("id", InputType::Text) },
                InputSpec {
                    default: Some(Value::from(25_i64)),
                    ..input("limit", InputType::Integer { min: Some(1), max: Some(250) })
                },
                input("status", InputType::List { items: Box::new(words()) }),
                input("purge", InputType::Boolean),
                input("version", InputType::Object { fields: version }),
                input("value", InputType::Any),
            ],
            result: None,
            results: model::ResultType::Any,
            example: Value::Null,
        }
    }

    fn check(inputs: &str) -> String {
        let value = Value::from_json(inputs.as_bytes(), value::JsonLimits::default()).expect("JSON");
        match check_inputs(&spec(), value.as_map().expect("a map"), &Reserved::nothing()) {
            Ok(map) => Value::from(map).to_json(),
            Err(error) => error.into_message(),
        }
    }

    #[test]
    fn defaults_are_filled_in_and_inputs_keep_the_declared_order() {
        assert_eq!(check(r#"{"purge": true, "id": "7"}"#), r#"{"id":"7","limit":25,"purge":true}"#);
    }

    #[test]
    fn ids_become_text_without_passing_through_a_float() {
        assert_eq!(check(r#"{"id": 9007199254740993}"#), r#"{"id":"9007199254740993","limit":25}"#);
        assert_eq!(check(r#"{"id": 18446744073709551615}"#), r#"{"id":"18446744073709551615","limit":25}"#);
        assert!(check(r#"{"id": 184467440737095516150}"#).contains("lost digits"));
    }

    #[test]
    fn only_plain_digits_are_accepted_as_an_integer() {
        assert_eq!(check(r#"{"id": "7", "limit": "50"}"#), r#"{"id":"7","limit":50}"#);
        assert_eq!(check(r#"{"id": "7", "limit": 50.0}"#), r#"{"id":"7","limit":50}"#);
        for limit in ["\"050\"", "\"1e2\"", "\" 5\"", "5.5", "true", "\"-0\"", "\"-\""] {
            let message = check(&format!(r#"{{"id": "7", "limit": {limit}}}"#));
            assert!(message.contains("`limit` must be a whole number from 1 to 250"), "{limit}: {message}");
        }
        assert!(check(r#"{"id": "7", "limit": 251}"#).ends_with("found 251"));
    }

    #[test]
    fn text_is_not_accepted_as_a_boolean() {
        assert!(check(r#"{"id": "7", "purge": "true"}"#).contains("take the quotes away"));
    }

    #[test]
    fn a_single_or_comma_separated_text_is_accepted_as_a_list() {
        assert_eq!(
            check(r#"{"id": "7", "status": "current"}"#),
            r#"{"id":"7","limit":25,"status":["current"]}"#
        );
        let two = r#"{"id":"7","limit":25,"status":["current","archived"]}"#;
        assert_eq!(check(r#"{"id": "7", "status": "current, archived"}"#), two);
        assert_eq!(check(r#"{"id": "7", "status": ["current", "archived"]}"#), two);
    }

    #[test]
    fn null_and_empty_text_omit_an_optional_input() {
        assert_eq!(check(r#"{"id": "7", "limit": null, "purge": ""}"#), r#"{"id":"7","limit":25}"#);
        assert_eq!(check(r#"{"id": "7", "value": null}"#), r#"{"id":"7","limit":25,"value":null}"#);
    }

    #[test]
    fn all_errors_are_reported_together() {
        assert_eq!(
            check(r#"{"limt": 5, "status": "curent", "version": {"message": 1, "nr": 2}}"#),
            "`wiki.test` cannot be called: `id` is missing; \
             `status.0` must be one of current, archived, found `curent`; did you mean `current`?; \
             `version.number` is missing; `version.nr` is not an input; \
             `limt` is not an input; did you mean `limit`?"
        );
    }

    #[test]
    fn a_literal_is_checked_by_the_rules_of_the_run() {
        assert_eq!(convert_value(&InputType::Text, &Value::from(5_i64)), Ok(Value::from("5")));
        assert_eq!(
            convert_value(&InputType::Boolean, &Value::from(5_i64)),
            Err("must be true or false, found number".into())
        );
        let version = spec().inputs[4].kind.clone();
        assert_eq!(convert_value(&version, &Value::from(Map::new())), Err("`number` is missing".into()));
    }

    #[test]
    fn an_invalid_value_is_not_repeated_in_the_message() {
        let secret = Value::from("hunter2-secret");
        let message = convert_value(&InputType::integer(), &secret).expect_err("no number");
        assert!(!message.contains("hunter2"), "{message}");
    }
}
