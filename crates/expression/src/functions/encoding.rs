//! Base64 and URL encoding.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use value::Value;

use super::arguments::{Arguments, article};

/// All characters except the unreserved ones of RFC 3986, section 2.3; safe in every part of a URL.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// A decoder that accepts input with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// `base64(data, decode=, urlSafe=)`.
pub(super) fn base64(arguments: &Arguments<'_>) -> Result<Value, String> {
    if arguments.flag("decode", false)? {
        let text = String::from_utf8(decode_base64(&arguments.document("data")?)?);
        return text.map(Value::from).map_err(|_| {
            "the decoded bytes are not UTF-8 text; `file(…, encoding='base64')` makes a file of them"
                .to_owned()
        });
    }
    let data = arguments.bytes("data")?;
    Ok(Value::from(if arguments.flag("urlSafe", false)? {
        URL_SAFE_NO_PAD.encode(data)
    } else {
        STANDARD.encode(data)
    }))
}

/// Decodes base64 in either alphabet, padded or not, with white space ignored.
pub(super) fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let plain: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => other,
        })
        .collect();
    LENIENT.decode(plain).map_err(|error| format!("`data` is not base64: {error}"))
}

/// `urlencode(data)`.
pub(super) fn urlencode(arguments: &Arguments<'_>) -> Result<Value, String> {
    let data = arguments.value("data");
    let Value::Map(map) = data else {
        let text = scalar(data).ok_or_else(|| format!("`data` is {}, not text or a map", article(data)))?;
        return Ok(Value::from(utf8_percent_encode(&text, RESERVED).to_string()));
    };
    let mut query = String::new();
    for (name, value) in map.iter() {
        let values = value.as_list().unwrap_or(std::slice::from_ref(value));
        for value in values.iter().filter(|value| !value.is_null()) {
            let text = scalar(value)
                .ok_or_else(|| format!("`{name}` is {}, which has no form in a query", article(value)))?;
            if !query.is_empty() {
                query.push('&');
            }
            query.extend(utf8_percent_encode(name, RESERVED));
            query.push('=');
            query.extend(utf8_percent_encode(&text, RESERVED));
        }
    }
    Ok(Value::from(query))
}

fn scalar(value: &Value) -> Option<String> {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_)).then(|| value.to_text())
}
