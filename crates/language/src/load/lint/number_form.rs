//! Numbers that lose their notation: `+4930123456` is 4930123456, and `1.10` is 1.1.

use text::diagnostic::{Diagnostic, Severity, Source};
use text::yaml::{Kind, Node};

pub(super) const CODE: &str = "number-form";

/// The minimum number of digits after a `+` that looks like a telephone number.
const PHONE_DIGITS: usize = 5;
/// Last words of keys, in lower case, whose values look like numbers but are text.
const NAMES: [&str; 12] =
    ["version", "release", "tag", "node", "python", "phone", "tel", "to", "zip", "number", "id", "image"];

/// Checks a number. `key` is its key.
pub(super) fn check(node: &Node, key: &str, source: &Source) -> Option<Diagnostic> {
    let written = source.slice(node.span);
    let severity = match &node.kind {
        Kind::Integer(_) | Kind::Unsigned(_) => {
            let digits = written.strip_prefix('+')?;
            if digits.len() < PHONE_DIGITS {
                return None;
            }
            Severity::Warning
        }
        Kind::Float(_) => {
            let (_, fraction) = written.split_once('.')?;
            if fraction.len() < 2 || !fraction.ends_with('0') || !fraction.bytes().all(|b| b.is_ascii_digit())
            {
                return None;
            }
            let key = key.to_ascii_lowercase();
            if NAMES.iter().any(|name| key.ends_with(name)) { Severity::Warning } else { Severity::Hint }
        }
        _ => return None,
    };
    let value = match node.to_json() {
        serde_json::Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let message = format!("`{written}` is the number {value}: what is sent or shown is `{value}`");
    Some(
        Diagnostic::new(severity, CODE, message, node.span)
            .help(format!("quote it to keep it as it is written: `\"{written}\"`"))
            .replace(node.span, format!("\"{written}\"")),
    )
}
