//! Masks credentials in the URLs of a text, such as the password in the URL of a database.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::{Serialize, Serializer};
use value::redact::MASK;

/// The suffix of each parameter of a database URL that contains a password.
const PASSWORD: &str = "password=";

/// The placeholders for credentials in our own messages.
const PLACEHOLDERS: [&str; 2] = ["USER", "USER:PASSWORD"];

/// A text given by a user. `Display`, `Debug` and JSON mask its credentials.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct GivenText(String);

impl GivenText {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for GivenText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&mask_given(&self.0))
    }
}

impl fmt::Debug for GivenText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for GivenText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Replaces the user and the password in each URL of a message, up to the last `@`, so that a password with an `@` is hidden whole.
pub(crate) fn mask(text: &str) -> Cow<'_, str> {
    replace(text, &find(text, Rule::Message), |_| MASK.into())
}

/// Like [`mask`], and masks an invalid database URL completely: any part of it may be the password.
fn mask_given(text: &str) -> Cow<'_, str> {
    match engine::stores::Location::parse(text, std::path::Path::new("")) {
        Ok(location) if location.is_shared() => Cow::Owned(location.to_string()),
        _ => replace(text, &find(text, Rule::Given), |_| MASK.into()),
    }
}

/// Like [`mask_given`], keeping the length of the text, so that positions in it stay correct.
pub(crate) fn blank(text: &str) -> Cow<'_, str> {
    replace(text, &find(text, Rule::Given), |hidden| "*".repeat(hidden.len()).into())
}

/// The origin of a text, which decides how much of a database URL is masked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// A message, whose URLs have no credentials unless a user gave them.
    Message,
    /// A text given by a user.
    Given,
}

fn replace<'t>(
    text: &'t str,
    ranges: &[Range<usize>],
    by: impl Fn(&str) -> Cow<'static, str>,
) -> Cow<'t, str> {
    if ranges.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut after) = (String::with_capacity(text.len()), 0);
    for range in ranges {
        out.push_str(&text[after..range.start]);
        out.push_str(&by(&text[range.clone()]));
        after = range.end;
    }
    out.push_str(&text[after..]);
    Cow::Owned(out)
}

/// The ranges of credentials, in order.
fn find(text: &str, rule: Rule) -> Vec<Range<usize>> {
    let (mut ranges, mut from) = (Vec::new(), 0);
    while let Some(found) = text[from..].find("://") {
        let start = from + found + 3;
        let length = text[start..].find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`'));
        let end = length.map_or(text.len(), |length| start + length);
        let is_database =
            text[..from + found].ends_with("postgres") || text[..from + found].ends_with("postgresql");
        hide(text, start..end, is_database, rule, &mut ranges);
        from = end;
    }
    ranges
}

/// Adds the ranges of the credentials in a URL without its scheme.
fn hide(text: &str, url: Range<usize>, is_database: bool, rule: Rule, ranges: &mut Vec<Range<usize>>) {
    let rest = &text[url.clone()];
    if is_database && rule == Rule::Given {
        return ranges.push(url);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A user with a password that contains a literal `/`: the text after the colon is not a port.
    let has_password =
        authority.split_once(':').is_some_and(|(_, port)| !port.bytes().all(|byte| byte.is_ascii_digit()));
    let mut start = url.start;
    let at = rest.rfind('@').filter(|at| !PLACEHOLDERS.contains(&&rest[..*at]));
    if let Some(at) = at.filter(|_| authority.contains('@') || has_password || is_database) {
        ranges.push(url.start..url.start + at);
        start += at;
    }
    if is_database {
        while let Some(found) = text[start..url.end].find(PASSWORD) {
            let value = start + found + PASSWORD.len();
            start = text[value..url.end].find('&').map_or(url.end, |length| value + length);
            ranges.push(value..start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_urls_in_messages_are_masked() {
        for (text, shown) in [
            ("at `postgres://u:p@ss@db/x`, again", "at `postgres://***@db/x`, again"),
            ("postgresql://u:a/b?c#d@db/x and http://u:p@h/", "postgresql://***@db/x and http://***@h/"),
            (
                "postgres://db/x?user=u&password=pw&sslmode=disable",
                "postgres://db/x?user=u&password=***&sslmode=disable",
            ),
            (
                "postgres://db/x?sslpassword=a&password=b&user=u&my_password=c",
                "postgres://db/x?sslpassword=***&password=***&user=u&my_password=***",
            ),
            ("https://u:p/w@h/y", "https://***@h/y"),
        ] {
            assert_eq!(mask(text), shown);
        }
        for plain in [
            "postgres://USER:PASSWORD@HOST/DATABASE",
            "postgres://db:5432/x",
            "https://h/people/@ann",
            "http://127.0.0.1:7071/x@y",
            "ann@example.com",
            "://",
        ] {
            assert_eq!(mask(plain), plain);
        }
    }

    #[test]
    fn an_invalid_store_url_is_masked_entirely() {
        let shown = |text: &str| GivenText::new(text).to_string();
        assert_eq!(shown("postgres://u:pw@db/x"), "postgres://db:5432/x");
        assert_eq!(shown("postgres://u:p@w@db/x"), "postgres://***");
        assert_eq!(shown("postgres://u:pw"), "postgres://***");
        assert_eq!(shown("mysql://u:p@w@db/x"), "mysql://***@db/x");
        assert_eq!(shown("127.0.0.1:7070"), "127.0.0.1:7070");
        let text = GivenText::new("postgres://u:pw@db/x");
        assert_eq!(format!("{text:?}"), "postgres://db:5432/x");
        assert_eq!(serde_json::to_value(&text).expect("JSON"), "postgres://db:5432/x");
    }

    #[test]
    fn masking_a_text_keeps_its_length() {
        let text = "stor: postgres://u:größe@db/x # https://a:b@c/d\nx: 1\n";
        let blanked = blank(text);
        assert_eq!(blanked.len(), text.len());
        assert!(blanked.starts_with("stor: postgres://*") && blanked.ends_with("*@c/d\nx: 1\n"), "{blanked}");
        assert!(!blanked.contains("größe"), "{blanked}");
    }
}
