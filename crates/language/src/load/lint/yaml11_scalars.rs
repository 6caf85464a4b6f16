//! Scalars that YAML 1.1 and YAML 1.2 interpret differently: `yes`, `012`, `12:30`, `1_000`, dates.
//!
//! Cogwork reads YAML 1.2, in which most of them are text: `yes` is not `true`. Many tools still follow YAML 1.1 and read
//! text meant here as another value. Quotes avoid both.

use text::diagnostic::{Diagnostic, Severity, Source, Span};
use text::yaml::{Entry, Kind, Node, Style};

const CODE: &str = "yaml-surprise";

/// A scalar that other YAML parsers interpret differently: its value here, its value elsewhere, and the probable
/// intention.
struct Surprise {
    severity: Severity,
    here: String,
    elsewhere: String,
    /// The other notation for the probable intention; `None` if only quotes help.
    otherwise: Option<String>,
}

/// Checks a plain scalar for a YAML 1.1 meaning.
pub(super) fn value(node: &Node, source: &Source) -> Option<Diagnostic> {
    let word = match &node.kind {
        Kind::String(text) if text.style == Style::Plain => text.value.as_str(),
        Kind::Integer(_) | Kind::Unsigned(_) | Kind::Float(_) => source.slice(node.span),
        _ => return None,
    };
    let surprise = truth(word).or_else(|| letter(word)).or_else(|| number(word)).or_else(|| date(word))?;
    Some(diagnostic(word, node.span, surprise))
}

/// Checks a plain key for a YAML 1.1 meaning. `context` is the parent key: some keys of the language are such words.
pub(super) fn key(entry: &Entry, context: &str, source: &Source) -> Option<Diagnostic> {
    let word = entry.key.as_str();
    let is_ours = word == "on" && matches!(context, "retry" | "weekly" | "schedule");
    if is_ours || source.slice(entry.key_span) != word {
        return None;
    }
    let surprise = truth(word).or_else(|| number(word)).or_else(|| date(word))?;
    // A key is always text.
    let surprise = Surprise { severity: Severity::Hint, otherwise: None, ..surprise };
    Some(diagnostic(word, entry.key_span, surprise))
}

fn diagnostic(word: &str, span: Span, surprise: Surprise) -> Diagnostic {
    let Surprise { severity, here, elsewhere, otherwise } = surprise;
    let message = format!("`{word}` is {here} here; other readers of YAML take it for {elsewhere}");
    let diagnostic = Diagnostic::new(severity, CODE, message, span);
    match otherwise {
        Some(otherwise) => diagnostic.help(format!("write `{otherwise}`, or `\"{word}\"` for the text")),
        None => diagnostic.help("quote it").replace(span, format!("\"{word}\"")),
    }
}

/// The booleans of YAML 1.1.
fn truth(word: &str) -> Option<Surprise> {
    let meant = match word {
        "yes" | "Yes" | "YES" | "on" | "On" | "ON" => "true",
        "no" | "No" | "NO" | "off" | "Off" | "OFF" => "false",
        _ => return None,
    };
    Some(Surprise {
        severity: Severity::Warning,
        here: "text".to_owned(),
        elsewhere: format!("`{meant}`"),
        otherwise: Some(meant.to_owned()),
    })
}

/// `y` and `n`, which only some parsers read as booleans.
fn letter(word: &str) -> Option<Surprise> {
    let meant = match word {
        "y" | "Y" => "true",
        "n" | "N" => "false",
        _ => return None,
    };
    Some(text(format!("`{meant}`")))
}

/// A scalar that is text here, as its author intended.
fn text(elsewhere: String) -> Surprise {
    Surprise { severity: Severity::Hint, here: "text".to_owned(), elsewhere, otherwise: None }
}

fn number(word: &str) -> Option<Surprise> {
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(word);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit()) || word.len() > 40 {
        return None;
    }
    let sign = if word.starts_with('-') { "-" } else { "" };
    sixties(unsigned, sign)
        .or_else(|| octal(word, unsigned, sign))
        .or_else(|| other_base(word, unsigned, sign))
        .or_else(|| underscores(unsigned, sign))
        .or_else(|| exponent(word))
}

/// `12:30` is 12 × 60 + 30 in YAML 1.1, unless it begins with a zero.
fn sixties(unsigned: &str, sign: &str) -> Option<Surprise> {
    let mut parts = unsigned.split(':');
    let first = parts.next().filter(|first| !first.starts_with('0') && is_number(first, 10))?;
    let mut sum: u64 = first.parse().ok()?;
    let mut more = false;
    for part in parts {
        let fits = is_number(part, 10) && part.len() <= 2 && part.parse::<u64>().is_ok_and(|part| part < 60);
        sum = sum.checked_mul(60)?.checked_add(part.parse().ok().filter(|_| fits)?)?;
        more = true;
    }
    more.then(|| text(format!("the number {sign}{sum}")))
}

/// `012` is 10 in YAML 1.1; `0o12` is 10 here.
fn octal(word: &str, unsigned: &str, sign: &str) -> Option<Surprise> {
    if let Some(digits) = word.strip_prefix("0o").filter(|digits| is_number(digits, 8)) {
        let value = u64::from_str_radix(digits, 8).ok()?;
        let here = format!("the number {value}");
        return Some(Surprise { here, otherwise: Some(value.to_string()), ..text("text".to_owned()) });
    }
    let digits = unsigned.strip_prefix('0').filter(|digits| is_number(digits, 8))?;
    let value = u64::from_str_radix(digits, 8).ok()?;
    let decimal: u64 = unsigned.parse().ok()?;
    Some(Surprise {
        severity: Severity::Warning,
        otherwise: Some(format!("{sign}{decimal}")),
        ..text(format!("the number {sign}{value}"))
    })
}

/// `0b11`, and `0x` after a sign.
fn other_base(word: &str, unsigned: &str, sign: &str) -> Option<Surprise> {
    let (digits, radix) = match (unsigned.strip_prefix("0b"), unsigned.strip_prefix("0x")) {
        (Some(digits), _) => (digits, 2),
        (None, Some(digits)) if word != unsigned => (digits, 16),
        _ => return None,
    };
    let digits = digits.replace('_', "");
    let value = u64::from_str_radix(&digits, radix).ok().filter(|_| is_number(&digits, radix))?;
    Some(number_elsewhere(format!("{sign}{value}")))
}

/// `1_000`
fn underscores(unsigned: &str, sign: &str) -> Option<Surprise> {
    let (whole, fraction) = unsigned.split_once('.').map_or((unsigned, None), |(w, f)| (w, Some(f)));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let fits = unsigned.contains('_') && digits(whole) && fraction.is_none_or(digits);
    fits.then(|| number_elsewhere(format!("{sign}{}", unsigned.replace('_', ""))))
}

/// `12e5` is a number here, and text in parsers that require a decimal point: the start of a hash, perhaps.
fn exponent(word: &str) -> Option<Surprise> {
    let (mantissa, exponent) = word.split_once(['e', 'E'])?;
    let mantissa = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
    let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let value: f64 = word.parse().ok()?;
    (is_number(mantissa, 10) && is_number(digits, 10) && value.is_finite())
        .then(|| Surprise { here: format!("the number {value}"), ..text("text".to_owned()) })
}

/// Checks for texts that YAML 1.1 reads as numbers, such as `1_000` and `12:30`.
fn number_elsewhere(value: String) -> Surprise {
    let elsewhere = format!("the number {value}");
    Surprise { severity: Severity::Warning, otherwise: Some(value), ..text(elsewhere) }
}

/// `2026-01-31`, alone or with a time.
fn date(word: &str) -> Option<Surprise> {
    let (year, rest) = word.split_once('-')?;
    let (month, rest) = rest.split_once('-')?;
    let day = rest.split(['T', 't', ' ']).next().unwrap_or_default();
    let is = |part: &str, length: std::ops::RangeInclusive<usize>| {
        is_number(part, 10) && length.contains(&part.len())
    };
    let time = &rest[day.len()..];
    let is_time =
        time.is_empty() || time.get(1..).is_some_and(|time| time.starts_with(|c: char| c.is_ascii_digit()));
    (is(year, 4..=4) && is(month, 1..=2) && is(day, 1..=2) && is_time).then(|| text("a date".to_owned()))
}

fn is_number(text: &str, radix: u32) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_digit(radix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, expected: Option<(&str, &str, Option<&str>)>) {
        let found = truth(word).or_else(|| letter(word)).or_else(|| number(word)).or_else(|| date(word));
        let found =
            found.as_ref().map(|it| (it.here.as_str(), it.elsewhere.as_str(), it.otherwise.as_deref()));
        assert_eq!(found, expected, "{word}");
    }

    #[test]
    fn yaml_1_1_booleans_dates_and_numbers_are_reported() {
        check("yes", Some(("text", "`true`", Some("true"))));
        check("Off", Some(("text", "`false`", Some("false"))));
        check("n", Some(("text", "`false`", None)));
        check("012", Some(("text", "the number 10", Some("12"))));
        check("-014", Some(("text", "the number -12", Some("-14"))));
        check("0o14", Some(("the number 12", "text", Some("12"))));
        check("1_000", Some(("text", "the number 1000", Some("1000"))));
        check("1_000.5", Some(("text", "the number 1000.5", Some("1000.5"))));
        check("0b101", Some(("text", "the number 5", Some("5"))));
        check("-0x1f", Some(("text", "the number -31", Some("-31"))));
        check("12:30", Some(("text", "the number 750", None)));
        check("1:30:00", Some(("text", "the number 5400", None)));
        check("12e5", Some(("the number 1200000", "text", None)));
        check("2026-01-31", Some(("text", "a date", None)));
        check("2026-01-31T08:30:00Z", Some(("text", "a date", None)));
    }

    #[test]
    fn scalars_equal_in_yaml_1_1_and_1_2_are_not_reported() {
        for word in [
            "true",
            "~",
            "null",
            "12",
            "-12",
            "+12",
            "0",
            ".5",
            "1.5",
            "1.5e3",
            "0x1F",
            "08",
            "089",
            "08:30",
            "0:30",
            "12:60",
            "12:30x",
            "1.2.3",
            "5m",
            "yEs",
            "oN",
            "yes please",
            "2026-01",
            "20260131",
            "a_b",
            "_1",
            "",
            "2026-01-31-a",
            "1e",
            "e5",
            "v1_000",
            "99999999999999999999:30",
        ] {
            check(word, None);
        }
    }
}
