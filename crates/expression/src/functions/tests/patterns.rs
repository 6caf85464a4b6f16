use super::*;

#[test]
fn a_match_has_its_text_and_its_groups() {
    check(
        "match('order 17/b', '(?<id>[0-9]+)(/[a-z])?(x)?')",
        r#"{"text":"17/b","groups":["17","/b",null],"names":{"id":"17"}}"#,
    );
    check("match('order', '[0-9]+')", "null");
    check("'ab' | match('(?i)B') | tojson", r#""{\"text\":\"b\",\"groups\":[],\"names\":{}}""#);
    check("matchAll('a1b22', '[0-9]+') | map(by=item.text)", r#"["1","22"]"#);
    check("matchAll('aüb', '') | length", "4");
    check("matchAll('baaac', 'a*') | map(by=item.text)", r#"["","aaa",""]"#);
    check("matches('order 17', '\\d+$')", "true");
    check("['a1', 'b'] | select(by=matches(item, '[0-9]'))", r#"["a1"]"#);
    check("matches(pattern='a', text='b')", "false");
}

#[test]
fn each_match_is_replaced() {
    check("replaceMatches('a.b-c', '[.-]', '/')", r#""a/b/c""#);
    check("replaceMatches('17-2026', '([0-9]+)-(?<y>[0-9]+)', '${y}/$1')", r#""2026/17""#);
    check("'  a   b ' | replaceMatches(' +', ' ')", r#"" a b ""#);
    check("replaceMatches('ab', '', '-')", r#""-a-b-""#);
}

#[test]
fn a_pattern_that_cannot_be_used_is_an_error_before_evaluation() {
    for (text, reason, named) in [
        ("matches(a, '(')", "unclosed group", "'('"),
        ("a | match('(a)\\\\1')", "backreferences are not supported", "'(a)\\\\1'"),
        ("replaceMatches(a, '[z-a]', '')", "invalid character class range", "'[z-a]'"),
        ("matchAll(a, pattern='((a{100}){100}){100}')", "MiB", "'((a{100}){100}){100}'"),
    ] {
        let error = Expression::compile(text, Span::default()).expect_err(text);
        assert_eq!(error.code, Some("bad-pattern"), "{text}");
        assert!(error.message.contains(reason), "{text}: {}", error.message);
        assert_eq!(&text[error.at], named, "{text}");
    }
    check(
        "matches('a', '(' ~ '')",
        "error: `matches`: `pattern` is not a regular expression that can be used: unclosed group",
    );
    check(
        "matches('a', 'a' * 5000)",
        "error: `matches`: `pattern` is not a regular expression that can be used: it has more than 4096 bytes",
    );
}

#[test]
fn the_searches_of_a_pattern_are_charged() {
    let text = "a".repeat(60_000);
    check_text(&text, "matches(x, '(a+)+$x|(a|a)*b')", "false");
    check_text(&text, "matchAll(x, 'a') | length", "60000");
    // Each search reads up to the end.
    check_text(
        &"a".repeat(1 << 20),
        "matchAll(x, '.*b|a') | length",
        "error: it takes more than 50000000 units of work",
    );
    check_text(
        &"a".repeat(200_000),
        "matchAll(x, 'a') | length",
        "error: it takes more than 32 MiB of memory",
    );
}
