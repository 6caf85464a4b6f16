//! The long form of a mapping that was written as a scalar: `concurrency: 1` is `{limit: 1}`.

use text::yaml::{Kind, Node, quote};

/// The mapping that `node` probably abbreviates, where `what` (a noun with its article) is expected.
pub(super) fn long_form(what: &str, node: &Node) -> Option<String> {
    let text = node.as_str().filter(|text| !text.contains('\n'));
    let number = node.as_integer();
    let word = |key: &str| Some(format!("{{{key}: {}}}", text.map(written)?));
    let count = |key: &str| Some(format!("{{{key}: {}}}", number?));
    match what {
        "a concurrency" => count("limit"),
        "an answer" => count("status"),
        "a retention" => count("days"),
        "a repeat" => count("max"),
        "a schedule" => schedule(text?),
        "a configuration variable" => word("value"),
        "an approval" => word("message"),
        "a `waitFor`" if text == Some("approval") => Some("{approval: {message: …}}".to_owned()),
        "a `waitFor`" => word("event"),
        "a stop" if matches!(node.kind, Kind::Null | Kind::Map(_)) => None,
        "a stop" => Some(format!("{{result: {}}}", text.map_or_else(|| node.to_json().to_string(), written))),
        "a daily schedule" => word("at"),
        "an hourly schedule" => count("minute"),
        _ => None,
    }
}

/// A cron line, a time of day or a period.
fn schedule(text: &str) -> Option<String> {
    let is_time = |text: &str| {
        text.split_once(':').is_some_and(|(hour, minute)| {
            [hour, minute].iter().all(|part| part.len() <= 2 && part.parse::<u8>().is_ok())
        })
    };
    match text.split_whitespace().count() {
        5 | 6 => Some(format!("{{cron: {}}}", quote(text))),
        1 if is_time(text) => Some(format!("{{daily: {{at: {}}}}}", quote(text))),
        1 if text::units::parse_duration(text).is_ok() => Some(format!("{{every: {text}}}")),
        _ => None,
    }
}

/// A text as a value inside braces.
fn written(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_word =
        !text.is_empty() && text.chars().all(is_plain) && text.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_word { text.to_owned() } else { quote(text) }
}
