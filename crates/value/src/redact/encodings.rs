//! The encodings in which a secret may occur in a text.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode_byte, utf8_percent_encode};
use text::push_escaped;

use super::MIN_SECRET_BYTES;

/// The encode set of a query: all but the unreserved characters.
pub(super) const UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the minimum length, in bytes, at which a prefix of an encoding counts as a secret: 8, or half of an encoding that
/// is shorter than 16.
pub(super) fn min_prefix_len(encoding: &str) -> usize {
    encoding.len().div_ceil(2).min(MIN_SECRET_BYTES)
}

/// The maximum number of lines of a secret that are searched for separately.
const MAX_LINES: usize = 200;

/// Returns the usual encodings of a secret, and of its lines if it has several, except encodings that are too short to match.
pub(super) fn encodings_of(secret: &str) -> Vec<String> {
    if !secret.contains('\n') {
        return encodings_of_text(secret);
    }
    // Forms, mails and many servers change the ends of lines, and errors quote single lines.
    let unix = secret.replace("\r\n", "\n");
    let lines = unix.lines().map(str::trim).filter(|line| is_secret_line(line)).take(MAX_LINES);
    let whole = [secret, &unix, &unix.replace('\n', "\r\n")].map(encodings_of_text);
    let mut encodings: Vec<String> =
        whole.into_iter().chain(lines.map(encodings_of_text)).flatten().collect();
    encodings.sort_unstable();
    encodings.dedup();
    encodings
}

/// Returns true if a line of a secret may be secret itself: the frame of a key and lone brackets are not.
fn is_secret_line(line: &str) -> bool {
    line.len() >= MIN_SECRET_BYTES
        && !line.starts_with("-----")
        && line.bytes().filter(u8::is_ascii_alphanumeric).count() >= MIN_SECRET_BYTES / 2
}

fn encodings_of_text(secret: &str) -> Vec<String> {
    let escaped = serde_json::Value::from(secret).to_string();
    let escaped = &escaped[1..escaped.len() - 1];
    let encoded = utf8_percent_encode(secret, UNRESERVED).to_string();
    let every_byte: String = secret.bytes().map(percent_encode_byte).collect();
    let mut encodings = vec![
        secret.to_owned(),
        escaped.to_owned(),
        // Some JSON encoders escape the slash.
        escaped.replace('/', "\\/"),
        escape_controls(secret),
        every_byte.to_ascii_lowercase(),
        every_byte,
        lower_escapes(&encoded),
        lower_escapes(&encoded).replace("%20", "+"),
        encoded.replace("%20", "+"),
        encoded,
        hex::encode(secret),
        hex::encode_upper(secret),
        // Padded: if nothing follows the secret, the last characters depend on it alone.
        STANDARD.encode(secret),
        URL_SAFE.encode(secret),
        STANDARD_NO_PAD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
    ];
    for before in 0..3 {
        encodings.extend(inside_base64(secret, before));
    }
    encodings.retain(|encoding| encoding.len() >= MIN_SECRET_BYTES);
    encodings.sort_unstable();
    encodings.dedup();
    encodings
}

/// Converts the hex digits of percent escapes to lower case.
fn lower_escapes(encoded: &str) -> String {
    let mut left = 0_u8;
    let lower = |character: char| {
        let is_digit = left > 0;
        left = if character == '%' { 2 } else { left.saturating_sub(1) };
        if is_digit { character.to_ascii_lowercase() } else { character }
    };
    encoded.chars().map(lower).collect()
}

/// Escapes control characters as log lines do.
fn escape_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|character| push_escaped(&mut out, character));
    out
}

/// Returns the part of the base64 of a longer text that depends on the secret alone, with `before` bytes (modulo 3) before
/// the secret. `Basic` credentials are such a text: the user name precedes the password.
fn inside_base64(secret: &str, before: usize) -> [String; 2] {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(secret.as_bytes());
    // A character encodes 6 bits. Characters that share bits with a neighbouring byte do not depend on the secret alone.
    let first = (before * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)]
        .map(|text| text.get(first..last).unwrap_or_default().to_owned())
}
