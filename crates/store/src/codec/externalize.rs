//! Removal of large values from the text of a row, and their restoration.

use std::ops::Range;

/// The least depth of a removed value. The text is a list of events, so a value within an event, be that an object or a
/// list, has this depth.
const MIN_DEPTH: usize = 2;

/// An object or a list whose end is not reached yet.
struct OpenContainer {
    start: usize,
    is_object: bool,
    /// True if the next string is the name of a member.
    key_is_next: bool,
    /// The number of ranges before it, and the bytes of those inside it.
    found: usize,
    cut: usize,
}

/// Finds the values of `threshold` bytes or more in a compact JSON text, which is a list of events.
///
/// It prefers the innermost values, so that equal values share a blob wherever they occur. A value that is still that large
/// without the ranges inside it is removed as a whole. The ranges are in order and disjoint.
pub fn find_large(text: &str, threshold: usize) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut open: Vec<OpenContainer> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => {
                let is_object = *byte == b'{';
                open.push(OpenContainer {
                    start: at,
                    is_object,
                    key_is_next: is_object,
                    found: found.len(),
                    cut: 0,
                });
            }
            b'}' | b']' => {
                let Some(OpenContainer { start, found: before, cut, .. }) = open.pop() else {
                    return Vec::new();
                };
                let whole = start..at + 1;
                let is_removed = open.len() >= MIN_DEPTH && whole.len() - cut >= threshold;
                if is_removed {
                    found.truncate(before);
                    found.push(whole.clone());
                }
                if let Some(outer) = open.last_mut() {
                    outer.cut += if is_removed { whole.len() } else { cut };
                }
            }
            b',' => {
                if let Some(inner) = open.last_mut() {
                    inner.key_is_next = inner.is_object;
                }
            }
            b'"' => {
                let end = end_of_text(bytes, at);
                let deep = open.len() >= MIN_DEPTH;
                if let Some(inner) = open.last_mut() {
                    let is_key = std::mem::take(&mut inner.key_is_next);
                    if deep && !is_key && end - at >= threshold {
                        inner.cut += end - at;
                        found.push(at..end);
                    }
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Returns the offset after the closing quote of the string that begins at `start`.
pub(super) fn end_of_text(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the text without these ranges, and the offset of each within the result.
pub fn remove(text: &str, ranges: &[Range<usize>]) -> (String, Vec<usize>) {
    let taken: usize = ranges.iter().map(Range::len).sum();
    let mut left = String::with_capacity(text.len() - taken);
    let mut offsets = Vec::with_capacity(ranges.len());
    let mut from = 0;
    for range in ranges {
        left.push_str(&text[from..range.start]);
        offsets.push(left.len());
        from = range.end;
    }
    left.push_str(&text[from..]);
    (left, offsets)
}

/// Inserts the parts at their offsets, which are in order. `None` if an offset is not in the text.
pub fn restore(left: &str, parts: &[(usize, String)]) -> Option<String> {
    let added: usize = parts.iter().map(|(_, part)| part.len()).sum();
    let mut text = String::with_capacity(left.len() + added);
    let mut from = 0;
    for (paths, part) in parts {
        text.push_str(left.get(from..*paths)?);
        text.push_str(part);
        from = *paths;
    }
    text.push_str(left.get(from..)?);
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Checks which values of a list of one event go, where twenty bytes are many.
    fn check(event: &Value, expected: &[&str]) {
        let text = json!([event]).to_string();
        let ranges = find_large(&text, 20);
        let found: Vec<&str> = ranges.iter().map(|range| &text[range.clone()]).collect();
        assert_eq!(found, expected, "{text}");
        let (left, offsets) = remove(&text, &ranges);
        let parts: Vec<_> = offsets.into_iter().zip(found.into_iter().map(str::to_owned)).collect();
        assert_eq!(restore(&left, &parts).as_deref(), Some(text.as_str()));
    }

    #[test]
    fn the_innermost_large_value_is_externalized() {
        let long = "x".repeat(30);
        let quoted = format!("\"{long}\"");
        check(&json!({"at": "now", "result": {"id": 1, "text": long}}), &[&quoted]);
        check(&json!({"result": long, "again": [1, long]}), &[&quoted, &quoted]);
        check(&json!({"result": {"list": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}}), &["[1,2,3,4,5,6,7,8,9,10]"]);
        check(&json!({"result": "short"}), &[]);
    }

    #[test]
    fn a_value_large_by_its_small_parts_is_externalized_whole() {
        let long = "x".repeat(30);
        let value = json!([long, "aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"]);
        check(&json!({"result": value}), &[&value.to_string()]);
    }

    #[test]
    fn events_and_keys_are_never_externalized() {
        let long = "x".repeat(30);
        check(&json!({"a": "0123456789", "b": "0123456789", "c": "0123456789"}), &[]);
        check(&json!({"result": {long: 1}}), &[&json!({"x".repeat(30): 1}).to_string()]);
        check(&json!({"x".repeat(30): 1, "b": {"c": "short"}}), &[]);
    }

    #[test]
    fn quotes_and_brackets_in_a_string_do_not_end_it() {
        let text = "a\"]}{[\\\",\u{1F600}".repeat(3);
        check(&json!({"result": {"text": text, "b": 1}}), &[&json!(text).to_string()]);
    }

    #[test]
    fn an_invalid_restore_offset_is_an_error() {
        assert_eq!(restore("[]", &[(3, "x".to_owned())]), None);
        assert_eq!(restore("äb", &[(1, "x".to_owned())]), None);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<i32>().prop_map(Value::from), "\\PC{0,40}".prop_map(Value::from)];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec(("\\PC{0,30}", inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn externalized_ranges_are_whole_values_and_are_restored(value in any_value(), threshold in 1_usize..60) {
            let text = json!([{"at": "now", "value": value}, {"b": 1}]).to_string();
            let ranges = find_large(&text, threshold);
            for range in &ranges {
                prop_assert!(range.len() >= threshold);
                prop_assert!(serde_json::from_str::<Value>(&text[range.clone()]).is_ok());
            }
            let parts: Vec<_> = ranges.iter().map(|range| text[range.clone()].to_owned()).collect();
            let (left, offsets) = remove(&text, &ranges);
            prop_assert!(offsets.is_sorted_by(|one, next| one < next), "each has a offset of its own: {left}");
            let parts: Vec<_> = offsets.into_iter().zip(parts).collect();
            prop_assert_eq!(restore(&left, &parts), Some(text));
        }
    }
}
