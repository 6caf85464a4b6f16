use pretty_assertions::assert_eq;
use proptest::prelude::*;
use text::diagnostic::Span;
use value::Map;

use super::*;
use crate::template::{TemplateToken, tokenize};

fn template(text: &str) -> Template {
    let parts: Vec<Part> = tokenize(text)
        .into_iter()
        .map(|stretch| match stretch {
            TemplateToken::Plain(text) => Part::Text(text.into()),
            TemplateToken::Expression { source, .. } => {
                Part::Expression(Expression::compile(source, Span::default()).expect("it compiles"))
            }
            TemplateToken::Unclosed { .. } => panic!("an open expression"),
        })
        .collect();
    match parts.as_slice() {
        [Part::Expression(expression)] => Template::Expression(expression.clone()),
        _ => Template::Text(parts.into()),
    }
}

/// The address that a text becomes where `x` has this value and `base` is `https://api.example.com/v1`.
fn address_of(text: &str, value: &str) -> Result<String, String> {
    let scope = Value::from(Map::from_iter([("x", value), ("base", "https://api.example.com/v1")]));
    let budget = Budget::default();
    evaluate(&template(text), &budget, &mut |expression| expression.evaluate(&scope, &budget))
        .map(|address| address.to_text())
        .map_err(|error| error.message)
}

#[track_caller]
fn check(text: &str, value: &str, expected: &str) {
    assert_eq!(address_of(text, value).as_deref(), Ok(expected), "{text} {value}");
}

#[test]
fn a_value_after_the_host_is_one_path_segment() {
    for (value, segment) in [
        ("17", "17"),
        ("a/b", "a%2Fb"),
        ("a?x=1", "a%3Fx=1"),
        ("a#f", "a%23f"),
        ("100%", "100%25"),
        ("%2e%2e", "%252e%252e"),
        ("../admin", "..%2Fadmin"),
        ("..\\admin", "..%5Cadmin"),
        ("a\r\nb", "a%0D%0Ab"),
        ("ü b", "%C3%BC%20b"),
        ("a@b:c", "a@b:c"),
    ] {
        check(
            "https://api.example.com/items/${{ x }}",
            value,
            &format!("https://api.example.com/items/{segment}"),
        );
        check("/items/${{ x }}/edit", value, &format!("/items/{segment}/edit"));
        check("${{ base }}/items/${{ x }}", value, &format!("https://api.example.com/v1/items/{segment}"));
    }
}

#[test]
fn a_value_after_the_question_mark_is_one_query_component() {
    for (value, component) in [
        ("a&admin=1", "a%26admin%3D1"),
        ("a#f", "a%23f"),
        ("a b+c", "a%20b%2Bc"),
        ("https://x.example/", "https%3A%2F%2Fx.example%2F"),
        ("..", ".."),
    ] {
        check("/items?after=${{ x }}", value, &format!("/items?after={component}"));
        check("https://a.example?to=${{ x }}&n=1", value, &format!("https://a.example?to={component}&n=1"));
        check("/a?u=http://${{ x }}", value, &format!("/a?u=http://{component}"));
    }
}

#[test]
fn a_url_that_is_or_begins_with_an_expression_keeps_it_unencoded() {
    check("${{ x }}", "https://a.example/b/c?d=e", "https://a.example/b/c?d=e");
    check("${{ x }}/health", "https://a.example/b", "https://a.example/b/health");
    check("${{ x }}/health", "", "/health");
}

#[test]
fn a_value_in_the_host_must_not_end_the_host() {
    check("https://${{ x }}.example.com/a", "acme", "https://acme.example.com/a");
    check("http://127.0.0.1:${{ x }}/a", "8080", "http://127.0.0.1:8080/a");
    for value in ["evil.example/", "evil.example?", "evil.example#", "u@evil.example", "a\\b", "a b", "%2f"] {
        let message = address_of("https://${{ x }}.example.com/a", value).expect_err(value);
        assert!(message.contains("`| raw`"), "{value}: {message}");
    }
}

#[test]
fn a_value_that_makes_a_dot_segment_is_an_error() {
    for (text, value) in [
        ("/items/${{ x }}", ".."),
        ("/items/${{ x }}", "."),
        ("/items/${{ x }}/edit", ".."),
        ("/items/.${{ x }}", "."),
        ("/items/${{ x }}%2e?a=b", "."),
        ("${{ base }}/${{ x }}", ".."),
    ] {
        let message = address_of(text, value).expect_err(text);
        assert!(message.contains("`.` or `..`"), "{text}: {message}");
    }
    check("/items/${{ x }}", "...", "/items/...");
    check("/items/${{ x }}", "", "/items/");
}

#[test]
fn a_urlencoded_value_is_not_encoded_twice() {
    check("/files/${{ x | urlencode }}", "a b/c?", "/files/a%20b%2Fc%3F");
    check("/items/${{ x | urlencode }}", "../admin", "/items/..%2Fadmin");
    check("/files?name=${{ x | urlencode }}", "a&b", "/files?name=a%26b");
}

#[test]
fn the_last_filter_is_found_outside_of_quotes_and_brackets() {
    for (text, filter) in [
        ("x | raw", Some("raw")),
        ("x|upper|raw ", Some("raw")),
        ("x | default('| raw')", None),
        ("'a | raw'", None),
        ("(x | raw)", None),
        ("x | raw if y else z", None),
        ("x", None),
    ] {
        assert_eq!(last_filter(text), filter, "{text}");
    }
}

proptest! {
    #[test]
    fn no_value_changes_the_segments_or_the_query_of_a_url(value in "[/.?#%\\\\@:&=a-cü \r\n]{0,12}") {
        let Ok(address) = address_of("https://a.example/items/${{ x }}/edit?q=${{ x }}&n=1", &value) else {
            return Ok(());
        };
        prop_assert!(!address.contains(['#', '\\', '\r', '\n', ' ']), "{}", address);
        let (path, query) = address.split_once('?').expect("a query");
        let segments: Vec<&str> = path.strip_prefix("https://a.example/").expect("the host").split('/').collect();
        prop_assert_eq!((segments.len(), segments[0], segments[2]), (3, "items", "edit"), "{}", address);
        prop_assert!(!matches!(segments[1], "." | ".."), "{}", address);
        let pairs: Vec<&str> = query.split('&').collect();
        prop_assert_eq!((pairs.len(), pairs[1]), (2, "n=1"), "{}", address);
        let sent = pairs[0].strip_prefix("q=").expect("the name");
        let sent = percent_encoding::percent_decode_str(sent).decode_utf8().expect("text");
        prop_assert_eq!(&*sent, value.as_str());
    }
}
