//! Events without their large values: each is cut out of the stored text before the text becomes values, so that a reader
//! of a history needs memory only for the values it shows.
//!
//! A cut value leaves a marker that no stored text can have, since it contains a random number of this process: a map with
//! one key, or, in place of a file, a file whose hash begins with the number.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use model::Event;
use value::{BlobSource, Value, with_sharing, with_source};

use super::events::decode_events;
use super::externalize::end_of_text;
use crate::Error;

/// The size in bytes up to which a value stays in its event for readers that show a history.
pub const SMALL_VALUE: usize = 4 << 10;
/// The depth to which the parts of a large object are cut separately.
const DEPTH: usize = 4;
/// The maximum number of entries of an object whose parts are cut separately.
const ENTRIES: usize = 64;
/// The maximum length in characters of the beginning of a cut value.
const START: usize = 200;
/// Members of events that hold any value. Other members have a type, and a limit of their own.
const VALUES: [&str; 6] = ["result", "handled", "state", "data", "body", "results"];
/// Members of events that are maps of any values.
const MAPS: [&str; 1] = ["inputs"];
/// Members of events whose texts have names of senders.
const FOREIGN: [&str; 2] = ["headers", "queryParameters"];

/// The events of an execution without their large values.
#[derive(Debug, Default)]
pub struct CutEvents {
    /// The events, with a marker in place of each large value.
    pub events: Vec<Event>,
    /// The large values, by the number in their marker.
    pub values: Vec<CutValue>,
}

/// The sizes of the large values of a history as text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryBytes {
    /// The largest sum of a row: the text that a reader has in memory at a time.
    pub largest_row: usize,
    /// The sum of all rows.
    pub all: usize,
}

impl HistoryBytes {
    /// Sums the sizes of the values of each row.
    pub fn from_rows(rows: impl Iterator<Item = usize>) -> Self {
        rows.fold(Self::default(), |sum, row| Self {
            largest_row: sum.largest_row.max(row),
            all: sum.all.saturating_add(row),
        })
    }
}

/// A large value that was left out of its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutValue {
    /// The first event of its row.
    pub row: u32,
    /// Its place in the text of the row.
    pub range: Range<usize>,
    /// Its type: `text`, `list`, `object` or `file`.
    pub kind: &'static str,
    /// Its size as JSON, in bytes.
    pub bytes: usize,
    /// The number of its items or entries; `None` for a text and a file.
    pub length: Option<usize>,
    /// Its beginning: of a text and a file of text as it is, else of its JSON.
    pub start: String,
    /// The encoding of a file: `utf8` or `base64`.
    pub encoding: Option<String>,
}

impl CutEvents {
    /// The cut value whose marker is `value`; `None` if this is no marker. `value` is in the public form.
    #[must_use]
    pub fn find(&self, value: &serde_json::Value) -> Option<&CutValue> {
        let entries = value.as_object()?;
        let number = match entries.get(marker_key()) {
            Some(number) => number.as_u64(),
            None => entries
                .get("sha256")?
                .as_str()?
                .strip_prefix(marker_number())
                .and_then(|hex| u64::from_str_radix(hex, 16).ok()),
        };
        self.values.get(usize::try_from(number?).ok()?)
    }

    /// The cut value whose marker is `value`, with the text of its marker; `None` if this is no marker.
    #[must_use]
    pub fn find_value(&self, value: &Value) -> Option<(String, &CutValue)> {
        let number = match value {
            Value::Map(map) => usize::try_from(map.get(marker_key())?.as_i64()?).ok()?,
            Value::File(file) if file.data.is_external() => {
                let digest: String = file.data.digest().iter().map(|byte| format!("{byte:02x}")).collect();
                usize::from_str_radix(digest.strip_prefix(marker_number())?, 16).ok()?
            }
            _ => return None,
        };
        Some((format!("{{\"{}\":{number}}}", marker_key()), self.values.get(number)?))
    }

    /// The cut value whose marker is in this text, with the range of the marker.
    #[must_use]
    pub fn find_in_text(&self, text: &str) -> Option<(&CutValue, Range<usize>)> {
        let at = text.find(marker_key())?.checked_sub(2)?;
        let end = at + text.get(at..)?.find('}')? + 1;
        let number = text.get(at + marker_key().len() + 4..end - 1)?.trim();
        Some((self.values.get(number.parse::<usize>().ok()?)?, at..end))
    }
}

/// A number of this process that no stored text contains, as 32 hexadecimal digits.
fn marker_number() -> &'static str {
    static NUMBER: OnceLock<String> = OnceLock::new();
    NUMBER.get_or_init(|| {
        use std::hash::{BuildHasher as _, Hasher as _, RandomState};
        let random = || RandomState::new().build_hasher().finish();
        format!("{:016x}{:016x}", random(), random())
    })
}

fn marker_key() -> &'static str {
    static KEY: OnceLock<String> = OnceLock::new();
    KEY.get_or_init(|| format!("cut:{}", marker_number()))
}

/// Decodes a list of events without its values of more than `min` bytes. `first` is the index of the first event.
pub fn read_cut(
    text: &str,
    first: u32,
    min: usize,
    values: &mut Vec<CutValue>,
) -> serde_json::Result<Vec<Event>> {
    let text = cut(text, first, min, false, values);
    decode_events(&text)
}

/// Returns a list of events, or the first row of an execution if `is_start` is true, without its values of more than `min`
/// bytes.
pub fn cut<'t>(
    text: &'t str,
    first: u32,
    min: usize,
    is_start: bool,
    values: &mut Vec<CutValue>,
) -> Cow<'t, str> {
    if text.len() <= min {
        return Cow::Borrowed(text);
    }
    let mut output = String::with_capacity(min);
    output.push('[');
    for (index, item) in elements(text, 0..text.len()).enumerate() {
        if index > 0 {
            output.push(',');
        }
        let mut cutter = Cutter { text, row: first, min, values };
        if item.len() <= min {
            output.push_str(&text[item]);
        } else if text[item.clone()].starts_with('[') {
            cutter.short_form(item, is_start && index == 0, &mut output);
        } else {
            cutter.typed(item, &mut output);
        }
    }
    output.push(']');
    Cow::Owned(output)
}

/// A row of a history, from which its cut values are read.
pub struct HistoryRow {
    /// Its first event.
    first: u32,
    text: String,
    /// The source of the files that the text names.
    files: Option<Arc<dyn BlobSource>>,
}

impl HistoryRow {
    /// Creates the row from its text, as it is stored.
    #[must_use]
    pub fn new(first: u32, text: String, files: Option<Arc<dyn BlobSource>>) -> Self {
        Self { first, text, files }
    }

    /// True if `value` was cut out of this row.
    #[must_use]
    pub fn has(&self, value: &CutValue) -> bool {
        value.row == self.first
    }

    /// Reads a value that was cut out of this row. Equal parts of it share their memory.
    ///
    /// # Errors
    /// [`Error::RecordDamaged`] if the value is not there.
    pub fn read(&self, value: &CutValue) -> Result<Value, Error> {
        let damaged = |problem: &dyn std::fmt::Display| {
            let detail = format!("a value in the row of event {} cannot be read: {problem}", self.first);
            Error::RecordDamaged { detail }
        };
        let text = self.text.get(value.range.clone()).filter(|_| self.has(value));
        let text = text.ok_or_else(|| damaged(&"it is not in its row"))?;
        let read = || with_sharing(|| serde_json::from_str(text));
        match &self.files {
            Some(files) => with_source(files.clone(), read),
            None => read(),
        }
        .map_err(|error| damaged(&error))
    }
}

struct Cutter<'t, 'v> {
    text: &'t str,
    row: u32,
    min: usize,
    values: &'v mut Vec<CutValue>,
}

impl Cutter<'_, '_> {
    /// Writes an event in its short form, whose last item is a result, or the opening of an execution.
    fn short_form(&mut self, item: Range<usize>, is_opening: bool, output: &mut String) {
        let parts: Vec<_> = elements(self.text, item).collect();
        let last = parts.len().saturating_sub(1);
        output.push('[');
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                output.push(',');
            }
            match index == last {
                true if is_opening => self.typed(part, output),
                true => self.value(part, DEPTH, output),
                false => output.push_str(&self.text[part]),
            }
        }
        output.push(']');
    }

    /// Writes a part of an event that has a type of its own, in which some members are any value.
    fn typed(&mut self, part: Range<usize>, output: &mut String) {
        if part.len() <= self.min || !self.text[part.clone()].starts_with('{') {
            return output.push_str(&self.text[part]);
        }
        output.push('{');
        for (index, (key, value)) in entries(self.text, part).enumerate() {
            if index > 0 {
                output.push(',');
            }
            output.push_str(&self.text[key.clone()]);
            output.push(':');
            let name = &self.text[key.start + 1..key.end - 1];
            if VALUES.contains(&name) {
                self.value(value, DEPTH, output);
            } else if MAPS.contains(&name) {
                self.members(value, DEPTH, output);
            } else if FOREIGN.contains(&name) {
                output.push_str(&self.text[value]);
            } else {
                self.typed(value, output);
            }
        }
        output.push('}');
    }

    /// Writes a map whose members are any value.
    fn members(&mut self, map: Range<usize>, depth: usize, output: &mut String) {
        if !self.text[map.clone()].starts_with('{') {
            return output.push_str(&self.text[map]);
        }
        output.push('{');
        for (index, (key, value)) in entries(self.text, map).enumerate() {
            if index > 0 {
                output.push(',');
            }
            output.push_str(&self.text[key]);
            output.push(':');
            self.value(value, depth, output);
        }
        output.push('}');
    }

    /// Writes any value, or its marker if it is large. An object of few entries stays, and its large parts are replaced.
    fn value(&mut self, value: Range<usize>, depth: usize, output: &mut String) {
        let text = &self.text[value.clone()];
        if value.len() <= self.min {
            return output.push_str(text);
        }
        if text.starts_with("{\"$file\":") {
            return self.file(value, output);
        }
        if text.starts_with('{')
            && depth > 0
            && entries(self.text, value.clone()).take(ENTRIES + 1).count() <= ENTRIES
        {
            let (begin, before) = (output.len(), self.values.len());
            self.members(value.clone(), depth - 1, output);
            if output.len() - begin <= self.min * 2 {
                return;
            }
            output.truncate(begin);
            self.values.truncate(before);
        }
        let (kind, length, start) = match text.as_bytes().first() {
            Some(b'"') => ("text", None, text_start(text)),
            Some(b'[') => ("list", Some(elements(self.text, value.clone()).count()), json_start(text)),
            _ => ("object", Some(entries(self.text, value.clone()).count()), json_start(text)),
        };
        // Writing to a text cannot fail.
        let _ = write!(output, "{{\"{}\":{}}}", marker_key(), self.values.len());
        let bytes = value.len();
        self.push(value, CutValue { kind, bytes, length, start, ..self.empty() });
    }

    /// Writes a file with a marker in place of its bytes.
    fn file(&mut self, value: Range<usize>, output: &mut String) {
        let Some((_, inner)) = entries(self.text, value.clone()).next() else { return };
        let mut cut = CutValue { kind: "file", bytes: inner.len(), ..self.empty() };
        output.push_str("{\"$file\":{");
        for (key, member) in entries(self.text, inner) {
            let (name, member) = (&self.text[key.start + 1..key.end - 1], &self.text[member]);
            match name {
                "contentType" | "filename" | "size" => {
                    let _ = write!(output, "\"{name}\":{member},");
                }
                "encoding" => cut.encoding = Some(member.trim_matches('"').to_owned()),
                "data" if cut.encoding.as_deref() == Some("utf8") => cut.start = text_start(member),
                _ => {}
            }
        }
        let (number, count) = (marker_number(), self.values.len());
        let _ = write!(output, "\"encoding\":\"kept\",\"sha256\":\"{number}{count:032x}\"}}}}");
        self.push(value, cut);
    }

    fn empty(&self) -> CutValue {
        let (kind, start) = ("", String::new());
        CutValue { row: self.row, range: 0..0, kind, bytes: 0, length: None, start, encoding: None }
    }

    fn push(&mut self, range: Range<usize>, cut: CutValue) {
        self.values.push(CutValue { range, ..cut });
    }
}

/// The beginning of a JSON text, unescaped.
fn text_start(text: &str) -> String {
    let inner = text.get(1..text.len() - 1).unwrap_or_default();
    let mut end = inner.len().min(START * 6);
    // The cut may be within a character or an escape.
    for _ in 0..12 {
        let part =
            inner.get(..end).and_then(|part| serde_json::from_str::<String>(&format!("\"{part}\"")).ok());
        if let Some(part) = part {
            return part.chars().take(START).collect();
        }
        end = end.saturating_sub(1);
    }
    String::new()
}

/// The beginning of the JSON of a list or map.
fn json_start(text: &str) -> String {
    text.chars().take(START).collect()
}

/// The ranges of the items of the list at `list`.
fn elements(text: &str, list: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let (bytes, mut at) = (text.as_bytes(), list.start + 1);
    std::iter::from_fn(move || {
        if at >= list.end || matches!(bytes.get(at), None | Some(b']')) {
            return None;
        }
        let item = at..end_of_value(bytes, at);
        at = item.end + 1;
        Some(item)
    })
}

/// The ranges of the keys, with their quotes, and of the values of the object at `object`.
fn entries(text: &str, object: Range<usize>) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let (bytes, mut at) = (text.as_bytes(), object.start + 1);
    std::iter::from_fn(move || {
        if at >= object.end || bytes.get(at) != Some(&b'"') {
            return None;
        }
        let key = at..end_of_text(bytes, at);
        let value = key.end + 1..end_of_value(bytes, key.end + 1);
        at = value.end + 1;
        Some((key, value))
    })
}

/// The offset after the value that begins at `start`. The text is JSON without spaces between its tokens.
fn end_of_value(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = end_of_text(bytes, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use model::StepOutcome;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::super::events::EncodedEvents;
    use super::super::events::tests::{event, value};
    use super::*;

    const MIN: usize = 60;

    /// Puts the cut values of a value in the public form back, from the text of the events.
    fn restore(value: &mut serde_json::Value, cut: &CutEvents, row: &HistoryRow) {
        if let Some(found) = cut.find(value) {
            *value = row.read(found).expect("it is a value").to_serde();
            return;
        }
        match value {
            serde_json::Value::Array(items) => items.iter_mut().for_each(|item| restore(item, cut, row)),
            serde_json::Value::Object(entries) => {
                entries.values_mut().for_each(|item| restore(item, cut, row))
            }
            _ => {}
        }
    }

    fn public(events: &[Event]) -> serde_json::Value {
        let stored: Value =
            serde_json::from_value(serde_json::to_value(events).expect("JSON")).expect("a value");
        stored.to_serde()
    }

    fn check_cut_and_restored(events: &[Event]) -> CutEvents {
        let text = serde_json::to_string(&EncodedEvents(events.iter())).expect("it is JSON");
        let mut cut = CutEvents::default();
        cut.events = read_cut(&text, 0, MIN, &mut cut.values).expect("it is read");
        assert_eq!(cut.events.len(), events.len());
        let mut whole = public(&cut.events);
        restore(&mut whole, &cut, &HistoryRow::new(0, text, None));
        assert_eq!(whole, public(events));
        cut
    }

    fn finished(result: Value) -> Event {
        let (at, outcome) = (jiff::Timestamp::UNIX_EPOCH, StepOutcome::Succeeded { result });
        Event::StepFinished { at, step: "a".to_owned(), took_us: 1, outcome }
    }

    #[test]
    fn a_large_value_is_externalized_and_restored() {
        let file = |bytes: &[u8]| {
            Value::from(value::File {
                content_type: "a/b".into(),
                filename: None,
                data: bytes.to_vec().into(),
            })
        };
        let text = Value::from("a\"ä\\\n".repeat(500));
        let cut = check_cut_and_restored(&[
            finished(Value::from(1_i64)),
            finished(text.clone()),
            finished((0..100_i64).map(Value::from).collect()),
            finished(Value::from(value::Map::from_iter([
                ("id", Value::from(7_i64)),
                ("text", text.clone()),
            ]))),
            finished(file(&[0xff; 200])),
            finished(file("text ".repeat(100).as_bytes())),
        ]);
        let kinds: Vec<_> = cut.values.iter().map(|value| (value.kind, value.length)).collect();
        let expected = [("text", None), ("list", Some(100)), ("text", None), ("file", None), ("file", None)];
        assert_eq!(kinds, expected);
        assert_eq!(cut.values[0].start, "a\"ä\\\n".repeat(40));
        assert!(cut.values[4].start.starts_with("text text ") && cut.values[3].start.is_empty());
        assert_eq!(cut.values[3].encoding.as_deref(), Some("base64"));
        let json = cut.events[2..3]
            .iter()
            .map(|event| serde_json::to_string(event).expect("JSON"))
            .collect::<String>();
        let (found, range) = cut.find_in_text(&json).expect("its marker is in the text");
        assert_eq!((found, json[range].starts_with("{\"cut:")), (&cut.values[1], true));
    }

    #[test]
    fn equal_parts_of_a_restored_value_share_memory() {
        let bomb = (0..18)
            .fold(Value::from(vec![Value::from(1_i64)]), |value, _| Value::from(vec![value.clone(), value]));
        check_cut_and_restored(&[finished(bomb)]);
    }

    proptest! {
        #[test]
        fn externalized_events_are_restored_completely(
            events in proptest::collection::vec(event(), 0..5),
            values in proptest::collection::vec(value(), 0..6),
        ) {
            let mut events = events;
            events.push(finished(Value::from(values)));
            check_cut_and_restored(&events);
        }
    }
}
