//! `text.replace` and `text.match`, with patterns that run in time linear in the text.

use std::sync::Arc;

use model::{InputSpec, InputType, ResultType};
use regex::{Captures, Regex, RegexBuilder};
use serde_json::json;
use value::{Map, Value};

use super::super::pure::{PureActionSpec, flag};
use super::super::{defaulted, required, text_of};
use super::{MAX_OUTPUT, bounded};
use crate::action::Action;

/// The largest memory of a compiled pattern in bytes.
const MAX_PATTERN: usize = 1 << 20;
/// The largest number of matches in a result.
const MAX_MATCHES: usize = 100_000;

/// `text.replace`.
pub(super) fn replace() -> Arc<dyn Action> {
    let declared = PureActionSpec {
        name: "text.replace",
        title: "Replace parts of a text",
        about: Some(
            "With `pattern: true`, `find` is a regular expression, and `${1}` or `${name}` in `with` are its groups.",
        ),
        inputs: vec![
            text(),
            required("find", InputType::Text, "The text to replace, at every occurrence."),
            defaulted("with", InputType::Text, "", "The replacement; an empty text removes it."),
            defaulted("pattern", InputType::Boolean, false, "`true` makes `find` a regular expression."),
            ignore_case(),
        ],
        gives: ("the text", ResultType::Text),
        example: json!({"text": "Order 17 of 2026", "find": "[0-9]+", "with": "<b>${0}</b>", "pattern": true}),
        run: replaced,
    };
    declared.action()
}

/// `text.match`.
pub(super) fn matches() -> Arc<dyn Action> {
    let found = ResultType::object([
        ("text", ResultType::Text),
        ("start", ResultType::Integer),
        ("groups", ResultType::list(ResultType::Text.or_null())),
        ("names", ResultType::map(ResultType::Text.or_null())),
    ]);
    let declared = PureActionSpec {
        name: "text.match",
        title: "Find the matches of a pattern",
        about: Some(
            "The pattern is a regular expression without back-references and look-around, so every search takes linear time.",
        ),
        inputs: vec![text(), required("pattern", InputType::Text, "The regular expression."), ignore_case()],
        gives: (
            "`{matches, count}`: for each match its `text`, `start` in characters, `groups` and `names`",
            ResultType::object([("matches", ResultType::list(found)), ("count", ResultType::Integer)]),
        ),
        example: json!({"text": "orders/2026/17", "pattern": "(?<year>[0-9]{4})/(?<id>[0-9]+)"}),
        run: matched,
    };
    declared.action()
}

fn text() -> InputSpec {
    required("text", InputType::Text, "The text.")
}

fn ignore_case() -> InputSpec {
    defaulted("ignoreCase", InputType::Boolean, false, "`true` ignores case.")
}

fn replaced(inputs: &Map) -> Result<Value, String> {
    let (text, find, with) = (text_of(inputs, "text"), text_of(inputs, "find"), text_of(inputs, "with"));
    if find.is_empty() {
        return Err("`find` must not be empty".to_owned());
    }
    let is_pattern = flag(inputs, "pattern");
    let find = if is_pattern { find.to_owned() } else { regex::escape(find) };
    let regex = compiled("find", &find, flag(inputs, "ignoreCase"))?;
    // Match by match, so that a growing result is rejected before it is complete.
    let mut made = String::with_capacity(text.len());
    let mut at = 0;
    for captures in regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        made.push_str(&text[at..whole.start()]);
        if is_pattern {
            captures.expand(with, &mut made);
        } else {
            made.push_str(with);
        }
        at = whole.end();
        if made.len() > MAX_OUTPUT {
            break;
        }
    }
    made.push_str(&text[at..]);
    bounded(made)
}

fn matched(inputs: &Map) -> Result<Value, String> {
    let text = text_of(inputs, "text");
    let regex = compiled("pattern", text_of(inputs, "pattern"), flag(inputs, "ignoreCase"))?;
    let mut found = Vec::new();
    let (mut bytes, mut characters) = (0, 0);
    for captures in regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        if found.len() == MAX_MATCHES {
            return Err(format!("there are more than {MAX_MATCHES} matches"));
        }
        // Counted from the previous match, which keeps the total time linear in the number of matches.
        characters += text[bytes..whole.start()].chars().count();
        bytes = whole.start();
        found.push(one(&regex, &captures, characters));
    }
    let count = found.len();
    Ok(Value::from(Map::from_iter([("matches", Value::from(found)), ("count", Value::from(count))])))
}

fn one(regex: &Regex, captures: &Captures<'_>, start: usize) -> Value {
    let shown =
        |group: Option<regex::Match<'_>>| group.map_or(Value::Null, |group| Value::from(group.as_str()));
    let groups: Vec<Value> = captures.iter().skip(1).map(shown).collect();
    let names = regex.capture_names().flatten().map(|name| (name, shown(captures.name(name))));
    let entries = [
        ("text", shown(captures.get(0))),
        ("start", Value::from(start)),
        ("groups", Value::from(groups)),
        ("names", Value::from(names.collect::<Map>())),
    ];
    Value::from(Map::from_iter(entries))
}

fn compiled(input: &str, pattern: &str, ignore_case: bool) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(pattern);
    builder.case_insensitive(ignore_case).size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN);
    builder.build().map_err(|error| {
        let words = error.to_string();
        let last = words.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("`{input}` is not a regular expression that can be used: {last}")
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn check(run: fn(&Map) -> Result<Value, String>, inputs: serde_json::Value, expected: &str) {
        let inputs = Value::from_serde(inputs);
        let made = run(inputs.as_map().expect("a map"));
        assert_eq!(made.map_or_else(|words| words, |value| value.to_json()), expected);
    }

    #[test]
    fn plain_text_is_replaced_literally() {
        check(replaced, json!({"text": "a.b.c", "find": ".", "with": "$0"}), r#""a$0b$0c""#);
        check(replaced, json!({"text": "aXbx", "find": "x", "ignoreCase": true}), r#""ab""#);
        check(replaced, json!({"text": "a", "find": ""}), "`find` must not be empty");
    }

    #[test]
    fn a_replacement_expands_capture_groups() {
        let inputs =
            json!({"text": "17-2026", "find": "([0-9]+)-(?<y>[0-9]+)", "with": "${y}/${1}", "pattern": true});
        check(replaced, inputs, r#""2026/17""#);
        let wrong = json!({"text": "a", "find": "(", "pattern": true});
        check(replaced, wrong, "`find` is not a regular expression that can be used: unclosed group");
        let back = json!({"text": "a", "find": "(a)\\1", "pattern": true});
        check(
            replaced,
            back,
            "`find` is not a regular expression that can be used: backreferences are not supported",
        );
    }

    #[test]
    fn a_replacement_result_over_the_limit_is_rejected() {
        let inputs = json!({"text": "a".repeat(1000), "find": "a", "with": "b".repeat(100_000)});
        check(replaced, inputs, "the text is larger than 16 MiB");
    }

    #[test]
    fn every_match_has_its_text_position_and_groups() {
        check(
            matched,
            json!({"text": "ü 17/b x", "pattern": "(?<id>[0-9]+)(/b)?|x"}),
            r#"{"matches":[{"text":"17/b","start":2,"groups":["17","/b"],"names":{"id":"17"}},{"text":"x","start":7,"groups":[null,null],"names":{"id":null}}],"count":2}"#,
        );
        check(matched, json!({"text": "a", "pattern": "b"}), r#"{"matches":[],"count":0}"#);
    }

    #[test]
    fn no_pattern_backtracks_exponentially() {
        let inputs = json!({"text": "a".repeat(50_000), "pattern": "(a+)+$x|(a|a)*b"});
        check(matched, inputs, r#"{"matches":[],"count":0}"#);
    }

    #[test]
    fn matches_and_the_compiled_pattern_size_are_bounded() {
        let matches = |count: usize, pattern: &str| {
            let inputs = Value::from_serde(json!({"text": "a".repeat(count), "pattern": pattern}));
            matched(inputs.as_map().expect("a map"))
                .map(|found| found.get("count").map(|count| count.to_json()))
        };
        assert_eq!(matches(MAX_MATCHES, "a"), Ok(Some("100000".to_owned())));
        assert_eq!(matches(MAX_MATCHES + 1, "a"), Err("there are more than 100000 matches".to_owned()));
        assert!(matches(1, "(a{100}){10}").is_ok());
        let words = matches(1, "((a{100}){100}){10}").expect_err("100,000 states take more than 1 MiB");
        assert!(words.starts_with("`pattern` is not a regular expression that can be used: "), "{words}");
    }

    #[test]
    fn a_replacement_result_of_exactly_the_limit_is_accepted() {
        let text_of = |bytes: usize| {
            let inputs = Value::from_serde(json!({"text": "a", "find": "a", "with": "b".repeat(bytes)}));
            replaced(inputs.as_map().expect("a map"))
        };
        assert!(text_of(MAX_OUTPUT).is_ok());
        assert_eq!(text_of(MAX_OUTPUT + 1), Err("the text is larger than 16 MiB".to_owned()));
    }
}
