//! Large values in answers: each is replaced by its size, its type and its beginning, and is read by itself.

use std::io;

use serde_json::{Map, Value, json};
use store::CutValue;

use super::recorded::Cuts;

/// Maximum number of bytes of a value that stays whole, as JSON.
pub(crate) const SMALL: usize = store::SMALL_VALUE;
/// Maximum number of characters of the beginning of a large value.
const START: usize = 200;
/// The depth to which the parts of a large value are cut separately.
const DEPTH: usize = 4;
/// The maximum number of entries of an object whose parts are cut separately.
const ENTRIES: usize = 64;

/// Replaces a value over [`SMALL`] by `{"$large": {at, bytes, type, start}}`. An object of few entries stays, and its large
/// parts are replaced. `at` is the place of the value as a JSON pointer (RFC 6901).
///
/// The markers of `cuts` are replaced, too; their values stay in the store.
pub(crate) fn cut(value: &mut Value, at: &str, cuts: Option<&Cuts>) {
    // Before the markers: what takes their place is true.
    replace_alike(value, at);
    if let Some(cuts) = cuts.filter(|cuts| !cuts.is_empty()) {
        replace_markers(value, at, cuts);
    }
    cut_within(value, at, DEPTH);
}

/// Replaces the markers that are left in an execution, such as those in the errors of tries.
pub(crate) fn sweep(execution: &mut Value, cuts: &Cuts) {
    let Some(members) = execution.as_object_mut().filter(|_| !cuts.is_empty()) else { return };
    for (name, value) in members {
        match value {
            Value::Array(steps) if name == "steps" => {
                steps.iter_mut().for_each(|step| sweep_step(step, cuts))
            }
            other => replace_markers(other, &format!("/{}", escape(name)), cuts),
        }
    }
}

/// Replaces the markers that are left in a step.
pub(crate) fn sweep_step(step: &mut Value, cuts: &Cuts) {
    let at = format!("/steps/{}", escape(step["step"].as_str().unwrap_or_default()));
    if !cuts.is_empty() {
        replace_markers(step, &at, cuts);
    }
}

/// Replaces the markers of values that are in the store.
fn replace_markers(value: &mut Value, at: &str, cuts: &Cuts) {
    if let Some(cut) = cuts.find(value) {
        *value = placeholder_for_cut(value, at, cut);
        return;
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                replace_markers(item, &format!("{at}/{index}"), cuts);
            }
        }
        Value::Object(entries) => {
            for (name, part) in entries.iter_mut() {
                replace_markers(part, &format!("{at}/{}", escape(name)), cuts);
            }
            if is_file(entries)
                && let Some(data) = entries.get("data").and_then(Value::as_str)
                && let Some((beginning, missing)) = cuts.beginning_of_text(data)
            {
                // The body of an answer is the JSON of a result.
                let bytes = beginning.len().saturating_add(missing);
                let start = beginning.chars().take(START).collect();
                let (kind, encoding, length) = ("file", Some("utf8".to_owned()), None);
                let cut = CutValue { kind, bytes, start, encoding, length, row: 0, range: 0..0 };
                entries.insert("size".to_owned(), bytes.into());
                *value = placeholder_for_cut(value, at, &cut);
            }
        }
        _ => {}
    }
}

/// The placeholder of a value that is in the store, in the form of [`placeholder`].
fn placeholder_for_cut(marker: &Value, at: &str, cut: &CutValue) -> Value {
    let CutValue { kind, bytes, length, start, encoding, .. } = cut;
    let mut large = Map::from_iter([("at".to_owned(), at.into()), ("bytes".to_owned(), (*bytes).into())]);
    large.insert("type".to_owned(), (*kind).into());
    if *kind == "file" {
        for key in ["contentType", "filename", "size"] {
            large.extend(marker.get(key).map(|known| (key.to_owned(), known.clone())));
        }
        large.extend(encoding.as_ref().map(|encoding| ("encoding".to_owned(), encoding.as_str().into())));
    }
    large.extend(length.map(|length| ("length".to_owned(), length.into())));
    large.insert("start".to_owned(), start.as_str().into());
    json!({ "$large": large })
}

fn cut_within(value: &mut Value, at: &str, depth: usize) {
    let bytes = size(value);
    if bytes <= SMALL {
        return;
    }
    if let Value::Object(entries) = value
        && !is_file(entries)
        && depth > 0
        && entries.len() <= ENTRIES
    {
        for (name, part) in entries.iter_mut() {
            cut_within(part, &format!("{at}/{}", escape(name)), depth - 1);
        }
        if size(value) <= SMALL * 2 {
            return;
        }
    }
    *value = placeholder(value, at, bytes);
}

/// Replaces objects of senders and authors that look as a large value does, so that `$large` in an answer always means one.
fn replace_alike(value: &mut Value, at: &str) {
    match value {
        Value::Object(entries) if entries.contains_key("$large") => {
            let bytes = size(value);
            *value = placeholder(value, at, bytes);
        }
        Value::Object(entries) => {
            entries
                .iter_mut()
                .for_each(|(name, part)| replace_alike(part, &format!("{at}/{}", escape(name))));
        }
        Value::Array(items) => {
            items
                .iter_mut()
                .enumerate()
                .for_each(|(index, item)| replace_alike(item, &format!("{at}/{index}")));
        }
        _ => {}
    }
}

/// A name as a part of a JSON pointer.
pub(crate) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn placeholder(value: &Value, at: &str, bytes: usize) -> Value {
    let mut large = Map::from_iter([("at".to_owned(), at.into()), ("bytes".to_owned(), bytes.into())]);
    large.insert("type".to_owned(), kind(value).into());
    if let Value::Object(file) = value
        && is_file(file)
    {
        for key in ["contentType", "filename", "size", "encoding"] {
            large.extend(file.get(key).map(|known| (key.to_owned(), known.clone())));
        }
    }
    match value {
        Value::Array(items) => large.insert("length".to_owned(), items.len().into()),
        Value::Object(entries) if !is_file(entries) => {
            large.insert("length".to_owned(), entries.len().into())
        }
        _ => None,
    };
    large.insert("start".to_owned(), start(value).into());
    json!({ "$large": large })
}

/// The type of a value: `text`, `list`, `object`, `file` and so on.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(entries) if is_file(entries) => "file",
        Value::Object(_) => "object",
    }
}

/// The beginning of a value: of a text and the text of a file as it is, of binary data nothing, of anything else its JSON.
fn start(value: &Value) -> String {
    let head = |text: &str| text.chars().take(START).collect::<String>();
    match value {
        Value::String(text) => head(text),
        Value::Object(file) if is_file(file) => match (&file["encoding"], &file["data"]) {
            (Value::String(encoding), Value::String(data)) if encoding == "utf8" => head(data),
            _ => String::new(),
        },
        other => {
            let mut bytes = Vec::new();
            // The writer fails as soon as there is enough.
            let _ = serde_json::to_writer(Head { bytes: &mut bytes, most: START * 4 }, other);
            head(&String::from_utf8_lossy(&bytes))
        }
    }
}

/// True if the object is a file.
pub(crate) fn is_file(entries: &Map<String, Value>) -> bool {
    ["contentType", "size", "encoding", "data"].iter().all(|key| entries.contains_key(*key))
}

/// The number of bytes of a value as JSON.
pub(crate) fn size(value: &impl serde::Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Takes the first bytes of a text.
struct Head<'a> {
    bytes: &'a mut Vec<u8>,
    most: usize,
}

impl io::Write for Head<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.most.saturating_sub(self.bytes.len());
        if room == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let taken = &bytes[..bytes.len().min(room)];
        self.bytes.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A slice of a value: entries of a list or an object, characters of a text or of the data of a file. Returns the slice with
/// the number of all.
pub(crate) fn slice(value: &Value, from: usize, to: Option<usize>) -> (Value, usize) {
    let count = |all: usize| to.unwrap_or(all).min(all).saturating_sub(from);
    match value {
        Value::Array(items) => {
            (items.iter().skip(from).take(count(items.len())).cloned().collect(), items.len())
        }
        Value::Object(file) if is_file(file) => {
            let mut shown = file.clone();
            let (data, all) = slice(&file["data"], from, to);
            shown.insert("data".to_owned(), data);
            (Value::Object(shown), all)
        }
        Value::Object(entries) => {
            let some = entries.iter().skip(from).take(count(entries.len()));
            (Value::Object(some.map(|(name, part)| (name.clone(), part.clone())).collect()), entries.len())
        }
        Value::String(text) => {
            let all = text.chars().count();
            (text.chars().skip(from).take(count(all)).collect::<String>().into(), all)
        }
        scalar => (scalar.clone(), 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut_whole(mut value: Value) -> Value {
        cut(&mut value, "/at", None);
        value
    }

    #[test]
    fn small_values_are_kept_and_large_ones_replaced_by_an_excerpt() {
        let small = json!({"a": "x".repeat(4000)});
        assert_eq!(cut_whole(small.clone()), small);
        let large = cut_whole(json!("x".repeat(5000)));
        let expected = json!({"at": "/at", "bytes": 5002, "type": "text", "start": "x".repeat(200)});
        assert_eq!(large, json!({ "$large": expected }));
    }

    #[test]
    fn the_small_members_of_a_large_object_are_kept() {
        let value = json!({"status": 200, "a/b": (0..5000).collect::<Vec<i32>>()});
        let shown = cut_whole(value);
        assert_eq!(shown["status"], 200);
        let large = &shown["a/b"]["$large"];
        assert_eq!(
            (&large["at"], &large["type"], &large["length"]),
            (&json!("/at/a~1b"), &json!("list"), &json!(5000))
        );
        assert!(large["start"].as_str().is_some_and(|start| start.starts_with("[0,1,2,")), "{large}");
    }

    #[test]
    fn a_large_file_keeps_its_type_and_size() {
        let file = json!({"contentType": "image/png", "size": 9000, "encoding": "base64", "data": "A".repeat(12000)});
        let large = cut_whole(json!({ "$file": file }))["$file"]["$large"].clone();
        assert_eq!(
            (&large["type"], &large["contentType"], &large["size"]),
            (&json!("file"), &json!("image/png"), &json!(9000))
        );
        assert_eq!(large["start"], "");
    }

    #[test]
    fn a_slice_includes_the_total_length() {
        assert_eq!(slice(&json!([1, 2, 3]), 1, Some(9)), (json!([2, 3]), 3));
        assert_eq!(slice(&json!("äöü"), 1, Some(2)), (json!("ö"), 3));
        assert_eq!(slice(&json!({"a": 1, "b": 2}), 1, None), (json!({"b": 2}), 2));
        assert_eq!(slice(&json!(7), 5, None), (json!(7), 1));
    }

    proptest! {
        #[test]
        fn a_truncated_value_is_always_small(widths in prop::collection::vec(0usize..9000, 0..80), depth in 0usize..6) {
            let mut value: Value = widths.iter().enumerate().map(|(index, width)| (index.to_string(), "y".repeat(*width).into())).collect::<Map<_, _>>().into();
            for _ in 0..depth {
                value = json!({ "inner": value });
            }
            let shown = cut_whole(value.clone());
            prop_assert!(size(&shown) <= SMALL * 2);
            prop_assert!(size(&value) > SMALL || shown == value);
        }
    }

    #[test]
    fn a_forged_large_value_placeholder_is_replaced_by_a_real_one() {
        for alike in [Value::Null, json!({"at": "/steps", "bytes": 1, "type": "text", "start": "forged"})] {
            let mut value = json!({"body": [{"$large": alike}], "other": 1});
            cut(&mut value, "/payload", None);
            let large = &value["body"][0]["$large"];
            assert_eq!(large["at"], "/payload/body/0", "{value}");
            assert_eq!((&large["type"], &value["other"]), (&json!("object"), &json!(1)));
        }
    }
}
