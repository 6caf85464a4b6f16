//! Tests of spans: those of values, keys and parts of texts.

use super::super::{Kind, Node};
use super::tree;
use proptest::prelude::*;

/// Collects the source of each key and scalar.
fn slices<'a>(text: &'a str, node: &Node, out: &mut Vec<&'a str>) {
    match &node.kind {
        Kind::List(items) => items.iter().for_each(|item| slices(text, item, out)),
        Kind::Map(map) => {
            for entry in map {
                out.push(&text[entry.key_span.range()]);
                slices(text, &entry.value, out);
            }
        }
        _ => out.push(&text[node.span.range()]),
    }
}

fn check(text: &str, expected: &[&str]) {
    let mut out = Vec::new();
    slices(text, &tree(text), &mut out);
    assert_eq!(out, expected);
}

/// Asserts that every byte of the text of `a` that is not white space maps to the same byte in the file.
fn check_positions(text: &str, value: &str) {
    let node = tree(text);
    let node = node.get("a").unwrap_or(&node);
    assert_eq!(node.as_str(), Some(value), "{text:?}");
    for (offset, c) in value.char_indices().filter(|(_, c)| !c.is_whitespace()) {
        assert!(
            text[node.locate(offset)..].starts_with(c),
            "{text:?}: {c:?} at {offset} is at {}",
            node.locate(offset)
        );
    }
    assert!(
        node.span.range().contains(&node.locate(value.len()))
            || node.locate(value.len()) == node.span.end as usize
    );
}

#[test]
fn spans_are_correct_with_crlf_bom_and_non_ascii_text() {
    check("a: 1\r\nb: [x, \"é\"]\r\nc:\r\n", &["a", "1", "b", "x", "\"é\"", "c", ""]);
    check("\u{feff}a: é\nüb: 'x'\n", &["a", "é", "üb", "'x'"]);
    check("日本: |\n  漢字\nx: y\n", &["日本", "漢字\n", "x", "y"]);
}

#[test]
fn a_collection_ends_with_its_last_value() {
    let text = "a:\n  b: 1\n  c: [2, 3]\n\n# comment\nd:\n  - x\n  - y: z\n\n";
    let node = tree(text);
    let slice = |key: &str| node.get(key).map(|node| &text[node.span.range()]);
    assert_eq!(slice("a"), Some("b: 1\n  c: [2, 3]"));
    assert_eq!(slice("d"), Some("- x\n  - y: z"));
    assert_eq!(&text[node.head().range()], "a");
}

#[test]
fn an_aliased_value_has_the_span_of_its_anchor() {
    let text = "a: &x {k: v}\nb: *x\n";
    let node = tree(text);
    assert_eq!(node.get("a"), node.get("b"));
    assert_eq!(node.get("b").map(|b| &text[b.span.range()]), Some("{k: v}"));
}

#[test]
fn parts_of_a_text_map_to_the_file() {
    check_positions("a: some ${{ words }} here\n", "some ${{ words }} here");
    check_positions("a: 'it''s a ${{ x }}'\n", "it's a ${{ x }}");
    check_positions("a: first\n  second\n\n  third\n", "first second\nthird");
    check_positions("a: 'first\n  second''s\n\n\n  third'\n", "first second's\n\nthird");
    check_positions("a: |\n  one\n    two\n\n  three\nb: 1\n", "one\n  two\n\nthree\n");
    check_positions("a: |2-\n\n    one\n  two\n", "\n  one\ntwo");
    check_positions("a: |\r\n  one\r\n\r\n  zwei é\r\n", "one\n\nzwei é\n");
    check_positions(
        "a: >\n  one\n  two\n\n  three\n    four\n",
        "one two\n\nthree\n  four\n".replace("\n\nthree", "\nthree").as_str(),
    );
    check_positions("- |\n  x\n".strip_prefix("- ").unwrap_or_default(), "x\n");
}

#[test]
fn escapes_keep_positions_exact() {
    let text = "a: \"\\u00e9\\t\\x41 \\\\ \\\"q\\\" \\U0001F600 \\uD83D\\uDE00 ${{ y }}\\\n   end\"\n";
    let node = tree(text);
    let node = node.get("a").unwrap_or(&node);
    let value = node.as_str().unwrap_or_default();
    for word in ["${{ y }}", "end"] {
        let offset = value.find(word).unwrap_or_else(|| panic!("{value:?}"));
        assert!(text[node.locate(offset)..].starts_with(word) || word == "end", "{value:?}");
    }
    let end = value.find("end").unwrap_or_default();
    assert!(text[node.locate(end)..].starts_with("end"));
}

#[test]
fn leading_space_of_a_literal_line_is_exact() {
    let text = "a: |\n  x\n    y\n";
    let node = tree(text);
    let node = node.get("a").unwrap_or(&node);
    let column_of_y = text.find('y').unwrap_or_default();
    assert_eq!(node.locate(4), column_of_y);
    assert_eq!(node.locate(3), column_of_y - 1);
    assert_eq!(node.locate(2), column_of_y - 2);
    assert_eq!(&text[node.locate_span(0, 1).range()], "x");
}

proptest! {
    #[test]
    fn any_literal_can_be_located(lines in proptest::collection::vec("[a-zé{}$: #'\"-]{0,8}", 1..6), crlf: bool) {
        // A first line with a leading space would need an indentation indicator.
        let lines: Vec<String> = lines.iter().map(|line| format!("x{}", line.trim_end())).collect();
        let line_break = if crlf { "\r\n" } else { "\n" };
        let body: String = lines.iter().map(|line| format!("   {line}{line_break}")).collect();
        check_positions(&format!("k: 1{line_break}a: |{line_break}{body}"), &format!("{}\n", lines.join("\n")));
    }

    #[test]
    fn any_quoted_text_can_be_located(value in "[a-zé\\\\\"'{}$: #\u{1F600}-]{0,20}") {
        let text = format!("a: {}\n", serde_json::to_string(&value).unwrap_or_default());
        let node = tree(&text);
        let node = node.get("a").unwrap_or(&node);
        prop_assert_eq!(node.as_str(), Some(value.as_str()));
        for (offset, c) in value.char_indices().filter(|(_, c)| !matches!(c, '\\' | '"')) {
            prop_assert!(text[node.locate(offset)..].starts_with(c));
        }
        check_positions(&format!("a: '{}'\n", value.replace('\'', "''")), &value);
    }

    #[test]
    fn no_text_makes_the_parser_or_its_spans_panic(text in prop_oneof!["(?s).{0,60}", "[-a-c:#&*!|>'\"%@`{}\\[\\],? \n\r\t$<~0-9.\u{feff}é\\\\]{0,60}"]) {
        let report = super::report(&text);
        let _ = (report.render(false), report.to_json());
        if let Ok(node) = super::super::parse_text("test.yaml", &text) {
            walk(&text, &node);
        }
    }
}

/// Asserts that every span, and every position in every text, is in the file and on a character boundary.
fn walk(text: &str, node: &Node) {
    assert!(text.get(node.span.range()).is_some());
    match &node.kind {
        Kind::List(items) => items.iter().for_each(|item| walk(text, item)),
        Kind::Map(map) => map.iter().for_each(|entry| {
            assert!(text.get(entry.key_span.range()).is_some());
            walk(text, &entry.value);
        }),
        Kind::String(value) => {
            let mut last = 0;
            for offset in 0..=value.value.len() {
                let place = value.locate(offset);
                assert!(place >= last && place <= text.len());
                last = place;
            }
        }
        _ => {}
    }
}
