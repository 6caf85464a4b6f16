//! Tests of the limits: a file over one is rejected at a span, in bounded time and memory.

use super::{report, tree};

/// Asserts that the text is rejected with a message that contains `words`, at this line and column.
fn refused(text: &str, words: &str, line: usize, column: usize) {
    let report = report(text);
    let entries = report.entries();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0].code, "yaml-too-large");
    assert!(entries[0].message.contains(words), "{}", entries[0].message);
    assert_eq!((entries[0].line, entries[0].column), (line, column), "{}", entries[0].message);
}

#[test]
fn a_file_of_256_kib_is_accepted_and_one_byte_more_is_rejected() {
    let limit = 256 * 1024;
    let fits = format!("a: {}\n", "x".repeat(limit - 4));
    assert_eq!(fits.len(), limit);
    assert!(!report(&fits).has_errors());
    refused(&format!("{fits}#"), "the limit is 256KiB (262144 bytes)", 2, 1);
}

#[test]
fn thirty_two_levels_are_accepted_and_one_more_is_rejected() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(!report(&nested(32)).has_errors());
    refused(&nested(33), "more than 32 levels", 1, 33);
    let block =
        |levels: usize| (0..levels).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>();
    assert!(!report(&block(32)).has_errors());
    refused(&block(33), "more than 32 levels", 33, 33);
}

#[test]
fn twenty_thousand_nodes_are_accepted_and_one_more_is_rejected() {
    let list = |items: usize| "- 1\n".repeat(items);
    assert!(!report(&list(19_999)).has_errors());
    refused(&list(20_000), "more than 20000 keys and values", 20_000, 3);
}

#[test]
fn a_hundred_aliases_are_accepted_and_one_more_is_rejected() {
    let uses = |count: usize| format!("- &a 1\n{}", "- *a\n".repeat(count));
    assert!(!report(&uses(100)).has_errors());
    refused(&uses(101), "more than 100 times", 102, 3);
}

#[test]
fn nodes_below_anchors_count_once_for_each_anchor() {
    let nested = |levels: usize, items: usize| {
        let anchors: String = (0..levels).map(|level| format!("&a{level} [")).collect();
        format!("{anchors}{}{}", "1,".repeat(items), "]".repeat(levels))
    };
    assert!(!report(&nested(3, 6_660)).has_errors());
    refused(&nested(3, 6_670), "keys and values, or 256KiB of text, stand below anchors", 1, 5);
    let text = format!("- &a [&b [\"{}\"]]\n", "x".repeat(150 * 1024));
    refused(&text, "stand below anchors", 1, 6);
}

#[test]
fn an_alias_bomb_is_rejected() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    refused(&bomb, "more than 20000 keys and values", 5, 15);
}

#[test]
fn aliases_that_copy_too_much_text_are_rejected() {
    let text = format!("- &a \"{}\"\n- [*a, *a, *a]\n", "x".repeat(100 * 1024));
    refused(&text, "aliases copy more than 256KiB of text", 2, 12);
}

#[test]
fn aliases_cannot_nest_deeper_than_brackets() {
    let mut text = String::from("- &a0 []\n");
    for level in 1..40 {
        text.push_str(&format!("- &a{level} [*a{}]\n", level - 1));
    }
    refused(&text, "more than 32 levels", 32, 9);
}

#[test]
fn a_flood_of_brackets_is_rejected_quickly() {
    for flood in ["[", "{", "- ", "? ", "[{", "{[", "&a [", "!!seq [", "\"", "'", "*a ", "a: ", "[a, "] {
        // An odd number, so that quotes stay open.
        let text = flood.repeat((250_000 / flood.len()) | 1);
        assert!(report(&text).has_errors(), "{flood}");
    }
    let text = "- \n".repeat(80_000);
    assert!(report(&text).has_errors());
}

#[test]
fn a_long_text_within_the_budget_is_accepted() {
    let line = "  some code that goes on\n";
    let node = tree(&format!("code: |\n{}", line.repeat(10_000)));
    assert_eq!(
        node.get("code").and_then(|code| code.as_str()).map(str::len),
        Some(10_000 * (line.len() - 2))
    );
}
