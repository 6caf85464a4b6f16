//! Edits of a text at its nodes: each is applied in place with its data verified, or refused.

#![no_main]

use text::yaml::edit::{Position, Segment, TreeOperation, edit};

libfuzzer_sys::fuzz_target!(|input: (&str, &str, u8, u8)| {
    let (text, value, key, index) = input;
    let (key, index) = (Segment::Key(char::from(key).to_string()), Segment::Index(index.into()));
    let value = serde_json::from_str(value).unwrap_or_else(|_| serde_json::Value::from(value));
    for at in [vec![key.clone()], vec![index.clone()], vec![key, index]] {
        let set = TreeOperation::Set { at: at.clone(), value: value.clone(), position: Position::First };
        for operation in [set, TreeOperation::Remove { at: at.clone() }, TreeOperation::Insert { at, value: value.clone() }] {
            let _ = edit(text, &[operation]);
        }
    }
});
