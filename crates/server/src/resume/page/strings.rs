//! Texts as people read them.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};

/// The most characters of a text that are shown.
const MAX_SHOWN: usize = 10_000;
/// The most characters of a first line that stands as a heading.
const HEADLINE: usize = 200;

/// A text, cut where it is too long for a page.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… (shortened)", text.get(..end).unwrap_or_default()),
    }
}

/// A message as a heading, and the rest of it.
pub(super) fn headline(message: &str) -> (String, Option<String>) {
    let message = message.trim();
    let (first, rest) = message.split_once('\n').unwrap_or((message, ""));
    if first.chars().count() > HEADLINE {
        return ("A question".to_owned(), Some(cut(message)));
    }
    let rest = rest.trim();
    (first.trim().to_owned(), (!rest.is_empty()).then(|| cut(rest)))
}

/// A count with its word: `1 question`, `2 questions`.
pub(super) fn count(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// A text with its first letter as a capital.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The name of an input as a person writes it: `costCentre` is `Cost centre`.
pub(super) fn label(name: &str) -> String {
    let mut strings = String::with_capacity(name.len() + 4);
    let mut before = ' ';
    for letter in name.chars() {
        match letter {
            '_' | '-' => strings.push(' '),
            letter if letter.is_uppercase() && before.is_lowercase() => {
                strings.push(' ');
                strings.extend(letter.to_lowercase());
            }
            letter => strings.push(letter),
        }
        before = letter;
    }
    capital(strings.trim())
}

/// A message whose parts in backticks are shown as code.
pub(super) fn ticked(message: &str) -> Markup {
    html! {
        @for (index, part) in message.split('`').enumerate() {
            @if index % 2 == 1 { code dir="auto" { (cut(part)) } } @else { (cut(part)) }
        }
    }
}

/// An instant. Whose zone it is read in is not known, so it is the one that everybody can reckon from.
pub(super) fn instant(at: Timestamp) -> Markup {
    let text = at.to_zoned(TimeZone::UTC).strftime("%-d %B %Y at %H:%M UTC").to_string();
    html! { time datetime=(at) { (text) } }
}

/// How long ago an instant is.
pub(super) fn ago(now: Timestamp, at: Timestamp) -> String {
    match between(at, now).as_secs() {
        0..60 => "just now".to_owned(),
        _ => format!("{} ago", span(at, now)),
    }
}

/// About the time between two instants, in the unit that matters.
pub(super) fn span(from: Timestamp, to: Timestamp) -> String {
    let seconds = between(from, to).as_secs();
    let about = |unit: u64| (seconds + unit / 2) / unit;
    let (number, word) = match seconds {
        0..60 => (seconds, "second"),
        _ if about(60) < 60 => (about(60), "minute"),
        _ if about(3600) < 48 => (about(3600), "hour"),
        _ => (about(86_400), "day"),
    };
    count(usize::try_from(number).unwrap_or(usize::MAX), word)
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(from.duration_until(to)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_message_is_its_heading() {
        assert_eq!(headline("Go on?"), ("Go on?".into(), None));
        assert_eq!(
            headline("Go on?\n\n  It costs 7.\nReally.\n"),
            ("Go on?".into(), Some("It costs 7.\nReally.".into()))
        );
        let long = "x".repeat(20_000);
        let (heading, rest) = headline(&long);
        assert_eq!((heading.as_str(), rest.map(|rest| rest.chars().count())), ("A question", Some(10_013)));
    }

    #[test]
    fn an_input_name_becomes_a_readable_label() {
        let labels = ["reason", "costCentre", "cost_centre", "vatID", "x", "größeInCm", ""].map(label);
        assert_eq!(labels, ["Reason", "Cost centre", "Cost centre", "Vat iD", "X", "Größe in cm", ""]);
    }

    #[test]
    fn a_duration_is_shown_in_its_largest_unit() {
        let at = |second: i64| Timestamp::from_second(second).expect("an instant");
        let spans = [0, 1, 59, 60, 3500, 3599, 90_000, 172_799].map(|seconds| span(at(0), at(seconds)));
        let expected =
            ["0 seconds", "1 second", "59 seconds", "1 minute", "58 minutes", "1 hour", "25 hours", "2 days"];
        assert_eq!(spans, expected);
        assert_eq!([ago(at(70), at(60)), ago(at(60), at(70))], ["just now", "just now"]);
        assert_eq!(ago(at(7200), at(0)), "2 hours ago");
        assert_eq!(
            instant(at(0)).into_string(),
            "<time datetime=\"1970-01-01T00:00:00Z\">1 January 1970 at 00:00 UTC</time>"
        );
    }

    #[test]
    fn text_in_backticks_is_rendered_as_code() {
        assert_eq!(ticked("a `b<` c").into_string(), "a <code dir=\"auto\">b&lt;</code> c");
    }
}
