//! Compares the tree with `serde_yaml`.

use super::super::parse_text;
use super::tree;
use proptest::prelude::*;
use serde_json::{Value, json};

fn check(text: &str) {
    let theirs: Value = serde_yaml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    pretty_assertions::assert_eq!(tree(text).to_json(), theirs, "{}", text);
}

#[test]
fn a_corpus_parses_as_in_serde_yaml() {
    for text in [
        "",
        "# only a comment\n",
        "~\n",
        "--- \n",
        "just text\n",
        "a: 1\nb: two\nc: 3.5\nd: true\ne: null\nf:\ng: ''\nh: \"\"\n",
        "on: push\nyes: no\ny: n\noff: On\n",
        "a: 014\nb: 0o14\nc: 1_000\nd: 0x1F\ne: 1e3\nf: -0.5\ng: .5\nh: +7\ni: 1.\nj: 12:30:45\nk: 2001-12-14\n",
        "a: 18446744073709551615\nb: -9223372036854775808\nc: 9223372036854775807\n",
        "- a\n- b: 1\n  c: 2\n-\n- - x\n  - y\n- []\n- {}\n",
        "a: &x {k: [1, 2]}\nb: *x\nc: &y text\nd: [*y, *y]\n",
        "a: |\n  one\n   two\n\n  three\n\n\nb: |-\n  x\nc: |+\n  x\n\nd: >\n  a\n  b\n\n  c\n   d\n  e\n",
        "a: |2\n   x\n  y\nb: >-\n  x\n\n\n  y\n",
        "a: plain over\n  two lines\n\n  and more\nb: 'single\n  over'\nc: \"double \\\n  over\"\n",
        "a: \"\\u00e9\\n\\t\\x41\\\"\"\nb: 'it''s'\n",
        "a: x#y\nb: x #y\nc: http://x.y/z?a=b#c\nd: -x\ne: x:y\nf: a, b\n",
        "{a: 1, 'b': [x, y, ], \"c\": {d: e}}\n",
        "a: !!str 1\nb: !!int 2\nc: !!float 1.5\nd: !!bool true\n",
        "a: 1\r\nb: |\r\n  x\r\n  y\r\n",
        "? a\n: 1\n? b\n",
        "a:\n- 1\n- 2\nb: 3\n",
        "name: Order to page\ntrigger:\n  webhook:\n    mode: sync\n    verify: {preset: hmac, secret: \"${{ secrets.x }}\"}\nsteps:\n  - id: a\n    code: |\n      export default async (context, stepResults) => ({\n        statusCode: 201,\n      });\n  - if: ${{ steps.a.results.n > 3 }}\n    then: [{stop: {result: 1}}]\n",
    ] {
        check(text);
    }
}

#[test]
fn numbers_keep_their_kind() {
    assert_eq!(
        tree("[1, 1.0, -1, 18446744073709551615]").to_json(),
        json!([1, 1.0, -1, 18_446_744_073_709_551_615_u64])
    );
    assert!(tree("[1.0]").to_json()[0].is_f64());
}

#[test]
fn the_order_of_keys_is_kept() {
    let json = tree("z: 1\na: 2\nm: 3\n").to_json();
    let keys: Vec<_> = json.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
    assert_eq!(keys, ["z", "a", "m"]);
}

fn any_value() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        "\\PC{0,12}",
        "[ -~\n\té]{0,30}",
        Just("yes".to_owned()),
        Just("null".to_owned()),
        Just("1e3".to_owned()),
        Just("0x10".to_owned()),
        Just("<<".to_owned()),
        "[-:#&*!|>'\"%@`{}\\[\\],? \n$]{1,8}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9f64).prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(word.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn the_output_of_serde_yaml_parses_to_the_same_value(value in any_value()) {
        let text = serde_yaml::to_string(&value).unwrap_or_default();
        // It folds at these characters as YAML 1.1 did; YAML 1.2 treats them as ordinary characters.
        prop_assume!(!text.contains(['\u{85}', '\u{2028}', '\u{2029}']));
        match parse_text("test.yaml", &text) {
            Ok(node) => prop_assert_eq!(node.to_json(), value, "{}", text),
            // It writes `<<` keys, which this parser rejects on purpose.
            Err(report) => prop_assert!(
                report.diagnostics().iter().all(|d| d.code == "yaml-merge-key"), "{}\n{}", text, report.render(false)
            ),
        }
    }

    #[test]
    fn json_is_yaml(value in any_value()) {
        let text = serde_json::to_string(&value).unwrap_or_default();
        // The parser limits a key before its colon to 1,024 characters; these values are shorter.
        prop_assert_eq!(tree(&text).to_json(), value);
    }

    #[test]
    fn texts_that_both_parsers_accept_parse_to_the_same_value(text in "[-a-c:#'\"{}\\[\\], \n|>~0-9.x]{0,40}") {
        // After the header of a block scalar at the root, `#` in the first column is text; the other library reads a comment.
        prop_assume!(!(text.contains(['|', '>']) && text.contains("\n#")));
        let theirs = serde_yaml::from_str::<Value>(&text);
        if let (Ok(ours), Ok(theirs)) = (parse_text("test.yaml", &text), theirs) {
            prop_assert_eq!(ours.to_json(), theirs, "{:?}", text);
        }
    }
}

/// Covers the inputs that the comparisons above exclude: this parser reads them as YAML 1.2 specifies.
#[test]
fn inputs_excluded_from_the_comparison_are_parsed_by_yaml_1_2() {
    assert_eq!(tree(">\n#").to_json(), Value::from("#"));
    assert_eq!(tree(">\n#\n").to_json(), Value::from("#\n"));
    assert_eq!(tree("a: |\n  b").to_json()["a"], Value::from("b"));
    for letter in ['\u{85}', '\u{2028}', '\u{2029}'] {
        let text = format!("\"a{letter}b\"");
        assert_eq!(tree(&text).to_json(), Value::from(format!("a{letter}b")), "{text:?}");
    }
}
