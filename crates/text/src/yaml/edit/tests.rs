//! Tests of edits: single cases, every node of every example, and generated files.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{EditError, Edited, Position, Segment, TreeOperation, edit, find};
use crate::yaml::{Kind, Node, parse_text};

fn path(text: &str) -> Vec<Segment> {
    let segment = |part: &str| part.parse().map_or_else(|_| Segment::Key(part.to_owned()), Segment::Index);
    text.split('.').filter(|part| !part.is_empty()).map(segment).collect()
}

fn set(at: &str, value: Value) -> TreeOperation {
    TreeOperation::Set { at: path(at), value, position: Position::Last }
}

fn remove(at: &str) -> TreeOperation {
    TreeOperation::Remove { at: path(at) }
}

fn insert(at: &str, value: Value) -> TreeOperation {
    TreeOperation::Insert { at: path(at), value }
}

fn shift(from: &str, to: &str) -> TreeOperation {
    TreeOperation::Move { from: path(from), to: path(to) }
}

fn check(text: &str, operation: TreeOperation, expected: &str) {
    match edit(text, &[operation]) {
        Ok(edited) => {
            assert_eq!(edited.text, expected);
            assert_eq!(applied(text, &edited), expected);
        }
        Err(error) => panic!("{error}\n{text}"),
    }
}

fn refused(text: &str, operation: TreeOperation) {
    assert!(matches!(edit(text, &[operation]), Err(EditError::Unsafe(_))), "{text}");
}

/// The text with the changes of an edit.
fn applied(text: &str, edited: &Edited) -> String {
    let mut text = text.to_owned();
    for change in edited.changes.iter().rev() {
        text.replace_range(change.span.range(), &change.insert);
    }
    text
}

#[test]
fn a_scalar_keeps_its_quotes_and_its_comment() {
    check("a: 1 # one\nb: 2\n", set("a", json!(5)), "a: 5 # one\nb: 2\n");
    check("a: 'x' # one\n", set("a", json!("it's")), "a: 'it''s' # one\n");
    check("a: \"x\"\n", set("a", json!("z")), "a: \"z\"\n");
    check("a: x\n", set("a", json!("yes")), "a: \"yes\"\n");
    check("a: x\n", set("a", json!("5m")), "a: 5m\n");
    check("a: x\n", set("a", json!("08:30")), "a: \"08:30\"\n");
    check("a: x\n", set("a", json!("${{ steps.b.results }}")), "a: ${{ steps.b.results }}\n");
    check("a: x\n", set("a", json!("a: b")), "a: \"a: b\"\n");
    check("a: x\n", set("a", json!("{\"b\": 1}")), "a: '{\"b\": 1}'\n");
    check("a:\nb: 1\n", set("a", json!(true)), "a: true\nb: 1\n");
    check("a: # later\nb: 1\n", set("a", json!(true)), "a: true # later\nb: 1\n");
    check("- x\n-\n", set("1", json!("z")), "- x\n- z\n");
    check("a: one\n  two\nb: 1\n", set("a", json!("three")), "a: three\nb: 1\n");
    check("a: é😀 # x\r\nb: 1\r\n", set("b", json!([1])), "a: é😀 # x\r\nb: [1]\r\n");
}

#[test]
fn a_multiline_text_is_a_block_scalar() {
    check("a: x # c\nb: 1\n", set("a", json!("one\ntwo\n")), "a: | # c\n  one\n  two\nb: 1\n");
    check("a: |\n  x\n\n  y\nb: 1\n", set("a", json!("one\ntwo")), "a: |-\n  one\n  two\nb: 1\n");
    check("a: |\n  x\n  y\n# c\nb: 1\n", set("a", json!("one")), "a: one\n# c\nb: 1\n");
    check("- a: x\n", set("0.a", json!("one\n\ntwo\n")), "- a: |\n    one\n\n    two\n");
    check("a: {b: x}\n", set("a.b", json!("one\ntwo")), "a: {b: \"one\\ntwo\"}\n");
    check("a: x\n", set("a", json!(" one\ntwo")), "a: \" one\\ntwo\"\n");
}

#[test]
fn a_mapping_replaces_a_scalar_and_vice_versa() {
    check("s:\n  - a: 3 # c\n", set("s.0.a", json!({"max": 3})), "s:\n  - a: # c\n      max: 3\n");
    check(
        "a: # head\n  # inner\n  b: 1 # one\n  c: 2\nd: 1\n",
        set("a", json!(7)),
        "a: 7 # head\n# inner\n# one\nd: 1\n",
    );
    check("a:\n  - x\nb: 1\n", set("a", json!({"x": "z"})), "a:\n  x: z\nb: 1\n");
    check("s:\n  - x: 1\n    y: 2\n  - z\n", set("s.0", json!("w")), "s:\n  - w\n  - z\n");
    check("s:\n  - w\n", set("s.0", json!({"x": 1, "z": 2})), "s:\n  - x: 1\n    z: 2\n");
}

#[test]
fn a_new_key_is_inserted_at_the_requested_position() {
    let after = |key: &str| TreeOperation::Set {
        at: path("new"),
        value: json!(false),
        position: Position::After(key.to_owned()),
    };
    check("a: 1 # x\n\nb: 2\n", after("a"), "a: 1 # x\nnew: false\n\nb: 2\n");
    let first = TreeOperation::Set { at: path("s.0.id"), value: json!("x"), position: Position::First };
    check("s:\n  - a: 1\n    b: 2\n", first, "s:\n  - id: x\n    a: 1\n    b: 2\n");
    check("a:\n  b: 1", set("a.c", json!({"d": [1]})), "a:\n  b: 1\n  c:\n    d: [1]");
    check("a: {b: 1}\n", set("a.c", json!({"d": 1})), "a: {b: 1, c: {d: 1}}\n");
    check("a: {\"b\": 1}\n", set("a.c", json!("x")), "a: {\"b\": 1, \"c\": \"x\"}\n");
    check("a: {}\n", set("a.c", json!("x")), "a:\n  c: x\n");
    check("# only\n", set("a", json!({"b": 1})), "# only\na:\n  b: 1\n");
    check("a: 1\n", set("b.c.d", json!(1)), "a: 1\nb:\n  c:\n    d: 1\n");
    check("a:\nb: 1\n", set("a.c", json!(1)), "a:\n  c: 1\nb: 1\n");
}

#[test]
fn removing_a_key_keeps_its_comments() {
    check("a: 1 # one\nb: 2\n", remove("a"), "# one\nb: 2\n");
    check("s:\n  - a: 1\n    b: 2\n", remove("s.0.a"), "s:\n  - b: 2\n");
    check("s:\n  - a: 1 # one\n    b: 2\n", remove("s.0.a"), "s:\n  - # one\n    b: 2\n");
    check("s:\n  - a: 1\n    b: |\n      x\n  - c\n", remove("s.0.b"), "s:\n  - a: 1\n  - c\n");
    check("a: {b: 1, c: 2}\n", remove("a.b"), "a: {c: 2}\n");
    check("a: {b: 1, c: 2}\n", remove("a.c"), "a: {b: 1}\n");
    check("a: [1]\n", remove("a.0"), "a: []\n");
    check("a:\n  b: 1 # x\nc: 1\n", remove("a.b"), "a: {} # x\nc: 1\n");
}

#[test]
fn inserted_and_removed_items_keep_the_blank_lines() {
    let text = "s:\n  # one\n  - a\n\n  # two\n  - b\n\n  - c\n";
    check(text, insert("s.1", json!("x")), "s:\n  # one\n  - a\n\n  - x\n\n  # two\n  - b\n\n  - c\n");
    check(text, insert("s.3", json!({"k": 1, "l": 2})), &format!("{text}\n  - k: 1\n    l: 2\n"));
    check(text, shift("s.0", "s.1"), "s:\n  # two\n  - b\n\n  # one\n  - a\n\n  - c\n");
    check(text, shift("s.2", "s.0"), "s:\n  - c\n\n  # one\n  - a\n\n  # two\n  - b\n");
    check("s: [a, b]\n", insert("s.0", json!("x, y")), "s: [\"x, y\", a, b]\n");
    check("s: [a, b]\n", shift("s.0", "s.1"), "s: [b, a]\n");
    check("s: []\n", insert("s.0", json!({"a": 1})), "s:\n  - a: 1\n");
    check("s:\n- a\n", insert("s.1", json!({"a": {"b": 1}})), "s:\n- a\n- a:\n    b: 1\n");
    check("s:\n  - - a\n    - b\n", insert("s.0.0", json!("x")), "s:\n  - - x\n    - a\n    - b\n");
}

#[test]
fn an_item_moves_into_another_list_with_its_formatting() {
    check(
        "s:\n  - a: |\n      x\n    # inner\n    b: 'q'\n  - t:\n      - c\n",
        shift("s.0", "s.0.t.1"),
        "s:\n  - t:\n      - c\n      - a: |\n          x\n        # inner\n        b: 'q'\n",
    );
}

#[test]
fn a_part_of_a_text_is_replaced_in_place() {
    let operation =
        |parts: Vec<(std::ops::Range<usize>, String)>| TreeOperation::Splice { at: path("a"), parts };
    check("a: |\n  one\n  two\n", operation(vec![(4..7, "x".into())]), "a: |\n  one\n  x\n");
    refused("a: \"\\x41b\"\n", operation(vec![(0..1, "x".into())]));
}

#[test]
fn replacing_a_mapping_changes_only_the_differences() {
    check(
        "t:\n  # kept\n  webhook:\n    mode: sync # why\n    methods: [POST]\n  if: x\n",
        set("t", json!({"webhook": {"mode": "async", "methods": ["POST"]}, "if": "x"})),
        "t:\n  # kept\n  webhook:\n    mode: async # why\n    methods: [POST]\n  if: x\n",
    );
    check(
        "t:\n  webhook:\n    mode: sync # why\n  if: x\n",
        set("t", json!({"manual": {}, "if": "x"})),
        "t:\n  # why\n  if: x\n  manual: {}\n",
    );
}

#[test]
fn edits_of_aliases_and_anchors_are_rejected() {
    refused("a: &x {k: 1}\nb: *x\n", set("b", json!(1)));
    refused("a: &x {k: 1}\nb: *x\n", set("a.k", json!(2)));
    refused("a: &x\n  k: 1\nb: *x\n", remove("a"));
    refused("a: !!str 5\n", set("a", json!(7)));
    refused("a: [x, # note\n  y]\n", remove("a.0"));
    refused("a: : b\n", set("a", json!(1)));
    check("a: &x 1\nb: 2\n", set("b", json!(3)), "a: &x 1\nb: 3\n");
}

#[test]
fn an_unknown_path_is_named() {
    let error = edit("a:\n  b: 1\n", &[remove("a.c")]).expect_err("there is no such key");
    assert_eq!(error.to_string(), "there is nothing at `a.c`");
    assert!(matches!(edit("a: 1\n", &[set("a.0", json!(1))]), Err(EditError::Invalid(_))));
}

#[test]
fn operations_of_one_call_become_changes_of_the_original_text() {
    let text = "a: 1\nb:\n  - x\nc: 3\n";
    let operations = [set("a", json!(2)), insert("b.0", json!("z")), remove("c"), set("a", json!(1))];
    let edited = edit(text, &operations).expect("it is edited");
    assert_eq!(edited.text, "a: 1\nb:\n  - z\n  - x\n");
    assert_eq!(applied(text, &edited), edited.text);
    assert!(edited.changes.iter().all(|change| change.span.start > 5), "{:?}", edited.changes);
}

/// The paths of all nodes but the root.
fn paths(node: &Node, at: &[Segment], out: &mut Vec<Vec<Segment>>) {
    let children: Vec<(Segment, &Node)> = match &node.kind {
        Kind::Map(map) => map.iter().map(|entry| (Segment::Key(entry.key.clone()), &entry.value)).collect(),
        Kind::List(items) => {
            items.iter().enumerate().map(|(index, item)| (Segment::Index(index), item)).collect()
        }
        _ => Vec::new(),
    };
    for (segment, child) in children {
        let own = super::below(at, segment);
        out.push(own.clone());
        paths(child, &own, out);
    }
}

/// The number of new values among the operations, which stand first.
const VALUES: usize = 6;

/// Every operation at a node, with new values of several kinds.
fn operations(tree: &Node, at: &[Segment]) -> Vec<TreeOperation> {
    let values = [
        json!("text"),
        json!(7),
        json!("a: b # c"),
        json!({"k": {"l": [1]}}),
        json!(["x", {"y": 1}]),
        json!("1\n2\n"),
    ];
    let set = |value| TreeOperation::Set { at: at.to_vec(), value, position: Position::Last };
    let mut all: Vec<TreeOperation> = values.into_iter().map(set).collect();
    all.push(TreeOperation::Remove { at: at.to_vec() });
    let node = find(tree, at).expect("it is there");
    if node.as_map().is_some() {
        let at = super::below(at, Segment::Key("brandNew".to_owned()));
        all.push(TreeOperation::Set { at, value: json!({"a": "b"}), position: Position::First });
    }
    if let Some(items) = node.as_list() {
        let index = |index| super::below(at, Segment::Index(index));
        all.push(TreeOperation::Insert { at: index(0), value: json!({"id": "a", "b": 1}) });
        all.push(TreeOperation::Insert { at: index(items.len()), value: json!("x") });
        for from in 0..items.len().min(2) {
            all.push(TreeOperation::Move { from: index(from), to: index(items.len() - 1 - from) });
        }
    }
    all
}

fn examples() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../automations");
    let files = std::fs::read_dir(folder).expect("the examples").filter_map(Result::ok);
    let yaml = files.filter(|file| file.path().extension().is_some_and(|ending| ending == "yaml"));
    let read = |file: std::fs::DirEntry| {
        (
            file.file_name().to_string_lossy().into_owned(),
            std::fs::read_to_string(file.path()).expect("it reads"),
        )
    };
    let mut all: Vec<(String, String)> = yaml.map(read).collect();
    all.sort();
    all
}

#[test]
fn every_operation_on_every_node_of_every_example_changes_only_that_node() {
    let (mut edits, mut shared, mut unsafe_edits) = (0, 0, Vec::new());
    for (name, text) in examples() {
        let tree = parse_text(&name, &text).expect("an example parses");
        let mut all = Vec::new();
        paths(&tree, &[], &mut all);
        for (number, at) in all.into_iter().enumerate() {
            // Each node gets one of the new values, so that the test takes seconds.
            let mut every = operations(&tree, &at);
            let chosen = number % VALUES;
            every = every
                .into_iter()
                .enumerate()
                .filter(|(index, _)| *index >= VALUES || *index == chosen)
                .map(|(_, one)| one)
                .collect();
            for operation in every {
                edits += 1;
                match edit(&text, std::slice::from_ref(&operation)) {
                    Ok(edited) => {
                        assert_eq!(applied(&text, &edited), edited.text, "{name}: {operation:?}");
                        assert_is_local(&name, &text, &operation, &edited);
                    }
                    // A value that an anchor shares cannot be changed in one of its places.
                    Err(_) if text.contains(": &") => shared += 1,
                    Err(error) => unsafe_edits.push(format!("{name}: {operation:?}: {error}")),
                }
            }
        }
    }
    assert!(edits > 3_000 && shared < edits / 50, "{edits}, of these {shared} in files with anchors");
    let listed: Vec<&String> = unsafe_edits.iter().take(20).collect();
    // Edits that cannot be verified are refused: removing the only key of a file, and a few texts of several lines.
    assert!(unsafe_edits.len() < edits / 200, "{} of {edits}: {listed:#?}", unsafe_edits.len());
}

/// Asserts that an edit touches only the lines of its node.
fn assert_is_local(name: &str, text: &str, operation: &TreeOperation, edited: &Edited) {
    let (TreeOperation::Set { at, .. } | TreeOperation::Remove { at }) = operation else { return };
    let document = super::document::Document::parse(text).expect("it parses");
    let Ok(located) = document.locate(at) else { return };
    let (Some(Segment::Key(key)), Ok(parent)) = (at.last(), document.locate(&at[..at.len() - 1])) else {
        return;
    };
    let entry = parent.node.as_map().and_then(|map| map.entry(key)).expect("it is there");
    // Beside a dash the next key takes the place of a removed one.
    let next = parent
        .node
        .as_map()
        .and_then(|map| map.iter().find(|next| next.key_span.start > entry.key_span.start));
    let end = document.next_line(located.site.end).max(next.map_or(0, |next| next.key_span.start as usize));
    let lines = document.line_start(entry.key_span.start as usize)..=end;
    let lone = parent.node.as_map().is_some_and(|map| map.len() == 1);
    for change in &edited.changes {
        let is_within =
            lines.contains(&(change.span.start as usize)) && lines.contains(&(change.span.end as usize));
        assert!(is_within || lone, "{name}: {operation:?}: {change:?}");
    }
}

#[test]
fn replacing_an_example_by_itself_changes_nothing() {
    for (name, text) in examples() {
        let tree = parse_text(&name, &text).expect("an example parses");
        let whole = TreeOperation::Set { at: Vec::new(), value: tree.to_json(), position: Position::Last };
        let edited = edit(&text, &[whole]).expect("it is the same");
        assert_eq!(edited.changes, []);
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[-a-c:#&*!|>'\"%@`{}\\[\\],? \n\t$<~0-9.é\\\\]{0,12}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-c]{1,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A file in a mixture of styles, with comments.
fn file() -> impl Strategy<Value = String> {
    (prop::collection::hash_map("[a-d]{1,3}", value(), 1..5), 0..3usize, any::<bool>()).prop_map(
        |(map, style, flow)| {
            let format = super::render::Format { step: 2 + style, list_step: style * 2, newline: "\n" };
            let mut text = String::from("# top\n");
            for (key, value) in map {
                let lines = format.entry_lines(&key, &value, 0);
                let rendered = super::render::Rendered { inline: String::new(), lines }.lines_at(0, "\n");
                let is_block = rendered.contains(['|', '\\', '"', '\'']);
                if flow {
                    text.push_str(&format!("{key}: {} # flow\n", super::render::flow(&value, None)));
                } else {
                    text.push_str(rendered.trim_start_matches('\n'));
                    text.push_str(if is_block { "\n" } else { " # end\n\n" });
                }
            }
            text
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn a_random_edit_yields_the_requested_data_or_is_rejected(text in file(), new in value(), pick in any::<prop::sample::Index>()) {
        let Ok(tree) = parse_text("a.yaml", &text) else { return Ok(()) };
        let mut all = vec![];
        paths(&tree, &[], &mut all);
        let at = all[pick.index(all.len())].clone();
        let mut every = operations(&tree, &at);
        every.push(TreeOperation::Set { at, value: new, position: Position::First });
        for operation in every {
            match edit(&text, std::slice::from_ref(&operation)) {
                Ok(edited) => {
                    prop_assert_eq!(applied(&text, &edited), edited.text.as_str());
                    let expected = super::data::apply(tree.to_json(), &operation).expect("it applies");
                    prop_assert_eq!(parse_text("a.yaml", &edited.text).expect("it parses").to_json(), expected);
                    prop_assert!(edited.text.contains("# top"));
                }
                Err(EditError::Unsafe(_)) => {}
                Err(error) => prop_assert!(false, "{error}: {operation:?}"),
            }
        }
    }

    #[test]
    fn no_text_or_operation_makes_the_editor_panic(
        text in "[-a-c:#&*!|>'\"{}\\[\\],? \n\r$~0-9.\u{feff}é]{0,60}",
        new in value(),
        at in prop::collection::vec(prop_oneof![(0..3usize).prop_map(Segment::Index), "[a-c]".prop_map(Segment::Key)], 0..3),
    ) {
        let operations = [
            TreeOperation::Set { at: at.clone(), value: new.clone(), position: Position::First },
            TreeOperation::Remove { at: at.clone() },
            TreeOperation::Insert { at: at.clone(), value: new },
            TreeOperation::Move { from: at.clone(), to: at },
        ];
        for operation in &operations {
            if let Ok(edited) = edit(&text, std::slice::from_ref(operation)) {
                prop_assert_eq!(applied(&text, &edited), edited.text.as_str());
            }
        }
    }
}
