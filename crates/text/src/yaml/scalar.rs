//! Resolution of plain scalars by the core schema of YAML 1.2 (section 10.3.2), with two differences: a number with leading
//! zeros is text, as in JSON (`007` is an id, not 7), and a number that JSON cannot represent is an error.

use super::Kind;

/// An error of a plain scalar that looks like a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberError {
    /// The number exceeds 64 bits.
    TooLarge,
    /// `.inf`, `.nan`
    NotFinite,
}

/// Resolves a plain scalar; `None` if it is text.
pub(super) fn resolve(text: &str) -> Result<Option<Kind>, NumberError> {
    Ok(Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        _ => return number(text),
    }))
}

fn number(text: &str) -> Result<Option<Kind>, NumberError> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err(NumberError::NotFinite);
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(None);
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let all_digits = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
            return if all_digits { integer(u64::from_str_radix(digits, radix).ok()) } else { Ok(None) };
        }
    }
    if unsigned.bytes().all(|b| b.is_ascii_digit()) {
        if unsigned.len() > 1 && unsigned.starts_with('0') {
            return Ok(None);
        }
        if text.starts_with('-') {
            return text.parse().map(|value| Some(Kind::Integer(value))).map_err(|_| NumberError::TooLarge);
        }
        return integer(unsigned.parse().ok());
    }
    if !is_float(unsigned) {
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Some(Kind::Float(value))),
        Ok(_) => Err(NumberError::TooLarge),
        Err(_) => Ok(None),
    }
}

fn integer(value: Option<u64>) -> Result<Option<Kind>, NumberError> {
    let value = value.ok_or(NumberError::TooLarge)?;
    Ok(Some(i64::try_from(value).map_or(Kind::Unsigned(value), Kind::Integer)))
}

/// `( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &[&str]) {
        for word in words {
            assert_eq!(resolve(word), Ok(None), "{word}");
        }
    }

    fn value(word: &str, expected: Kind) {
        assert_eq!(resolve(word), Ok(Some(expected)), "{word}");
    }

    #[test]
    fn yaml_1_1_keywords_are_text() {
        text(&[
            "yes",
            "no",
            "on",
            "off",
            "y",
            "n",
            "Yes",
            "tRue",
            "nULL",
            "1_000",
            "0b11",
            "190:20:30",
            "2001-12-14",
        ]);
    }

    #[test]
    fn a_number_with_leading_zeros_is_text() {
        text(&["007", "-014", "+00"]);
        value("0", Kind::Integer(0));
        value("-0", Kind::Integer(0));
    }

    #[test]
    fn texts_with_a_numeric_prefix_are_text() {
        text(&[
            ".", "-", "+", "1.2.3", "1e", "e1", "0x", "0xg", "0o8", "-0x1", "1.e", "..1", "5m", "1 2", "inf",
            "nan", "infinity", "+.nan",
        ]);
    }

    #[test]
    fn numbers_have_their_value() {
        value("12", Kind::Integer(12));
        value("+12", Kind::Integer(12));
        value("-12", Kind::Integer(-12));
        value("0x1F", Kind::Integer(31));
        value("0o14", Kind::Integer(12));
        value("-9223372036854775808", Kind::Integer(i64::MIN));
        value("9223372036854775808", Kind::Unsigned(9_223_372_036_854_775_808));
        value("1.", Kind::Float(1.0));
        value(".5", Kind::Float(0.5));
        value("-1.5e3", Kind::Float(-1_500.0));
        value("1E-2", Kind::Float(0.01));
    }

    #[test]
    fn numbers_outside_json_are_rejected() {
        for word in ["18446744073709551616", "-9223372036854775809", "1e999", "0xfffffffffffffffff"] {
            assert_eq!(resolve(word), Err(NumberError::TooLarge), "{word}");
        }
        for word in [".inf", "-.INF", ".nan"] {
            assert_eq!(resolve(word), Err(NumberError::NotFinite), "{word}");
        }
    }
}
