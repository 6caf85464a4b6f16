use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use percent_encoding::{percent_encode_byte, utf8_percent_encode};
use proptest::prelude::*;
use text::push_escaped;

use super::encodings::{UNRESERVED, encodings_of, min_prefix_len};
use super::*;
use crate::{File, Map};

const SECRET: &str = "p@ss/w\"rd +1";

fn redactor() -> Redactor {
    let redactor = Redactor::default();
    redactor.add_secret(SECRET);
    redactor
}

#[test]
fn a_secret_is_redacted_in_every_encoding() {
    let redactor = redactor();
    for text in [
        SECRET.to_owned(),
        format!("x{SECRET}y"),
        serde_json::json!({ "key": SECRET }).to_string(),
        format!("https://h.example/?key={}", utf8_percent_encode(SECRET, UNRESERVED)),
        "key=p%40ss%2Fw%22rd+%2B1&x".to_owned(),
        "key=p%40ss%2fw%22rd%20%2b1&x".to_owned(),
        format!("Basic {}", STANDARD.encode(format!("user:{SECRET}"))),
        format!("Basic {}", STANDARD.encode(format!("us:{SECRET}"))),
        STANDARD.encode(format!("u:{SECRET}more")),
        URL_SAFE.encode(SECRET),
        hex::encode(SECRET),
        hex::encode_upper(SECRET),
        SECRET.bytes().map(percent_encode_byte).collect(),
        SECRET.bytes().map(|byte| format!("%{byte:02x}")).collect(),
        SECRET.replace('/', "\\/").replace('"', "\\\""),
    ] {
        let hidden = redactor.redact_text(&text);
        assert!(hidden.contains(MASK), "{text}");
    }
    assert_eq!(redactor.redact_text("nothing here"), "nothing here");
}

#[test]
fn a_secret_with_lower_case_percent_escapes_is_redacted() {
    let redactor = Redactor::default();
    redactor.add_secret("Key/With/Capitals");
    assert_eq!(redactor.redact_text("k=Key%2fWith%2fCapitals&"), "k=***&");
}

#[test]
fn a_secret_with_control_characters_is_redacted_in_escaped_text() {
    let redactor = Redactor::default();
    let secret = "-----KEY-----\r\nabc\u{1b}";
    redactor.add_secret(secret);
    let mut line = String::new();
    secret.chars().for_each(|character| push_escaped(&mut line, character));
    assert_eq!(redactor.redact_text(&line), MASK);
}

#[test]
fn a_secret_is_redacted_whichever_characters_are_escaped() {
    let secret = "Grüße&<key>='x'/ä+😀";
    let redactor = Redactor::default();
    redactor.add_secret(secret);
    let unicode = |escaped: &dyn Fn(char) -> bool| -> String {
        let mut units = [0; 2];
        let escape = |unit: &mut u16| format!("\\u{unit:04x}");
        let one = |letter: char| match escaped(letter) {
            true => letter.encode_utf16(&mut units).iter_mut().map(escape).collect::<String>(),
            false => letter.to_string(),
        };
        secret.chars().map(one).collect()
    };
    let python = unicode(&|letter| !letter.is_ascii());
    let entities = |escaped: &dyn Fn(char) -> bool| -> String {
        secret
            .chars()
            .map(|letter| if escaped(letter) { format!("&#{};", letter as u32) } else { letter.into() })
            .collect()
    };
    for text in [
        python.clone(),
        python.replace('/', "\\/"),
        unicode(&|letter| matches!(letter, '&' | '<' | '>')),
        unicode(&|letter| !letter.is_ascii() || "&<>='+".contains(letter)),
        unicode(&|_| true),
        unicode(&|_| true).to_uppercase().replace("\\U", "\\u"),
        secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;"),
        secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('ü', "&uuml;"),
        entities(&|letter| !letter.is_ascii_alphanumeric()),
        entities(&|_| true),
        secret.replace('&', "%26").replace('ü', "%c3%BC"),
    ] {
        let text = format!("<before>{text}&after;");
        assert_eq!(redactor.redact_text(&text), "<before>***&after;", "{text}");
        assert_eq!(redactor.redact_message(&text), "<before>***&after;", "{text}");
        let bytes = redactor.redact_bytes(text.as_bytes()).expect("it has the secret");
        assert_eq!(bytes, b"<before>***&after;", "{text}");
    }
    let nested = serde_json::Value::from(format!(r#"{{"key": "{python}"}}"#)).to_string();
    assert_eq!(redactor.redact_text(&nested), r#""{\"key\": \"***\"}""#);
    let cut = r"key: Gr\u00fc\u00dfe\u0026\u003ckey\u00…";
    assert_eq!(redactor.redact_message(cut), "key: ***…");
    assert!(matches!(redactor.redact_text(r"Gr\u00fcn & \u003c%20"), Cow::Borrowed(_)));
}

#[test]
fn a_secret_with_two_kinds_of_escapes_is_redacted_completely() {
    let redactor = Redactor::default();
    redactor.add_secret("key/a&b-0123456");
    let text = r#"{\"a\": \"key\/a&amp;b-0123456\"}"#;
    assert_eq!(redactor.redact_text(text), r#"{\"a\": \"***\"}"#);
    assert_eq!(redactor.redact_message(r"\t\tkey\/a&amp;b-01…"), r"\t\t***…");
    assert_eq!(redactor.redact_message(r"%FF key%2Fa&b-01…"), r"%FF ***…");
}

#[test]
fn an_escaped_secret_is_redacted_anywhere_in_a_large_body() {
    let redactor = Redactor::default();
    redactor.add_secret("key/a&b-0123456");
    let hidden = |text: String| redactor.redact_text(&text).into_owned();
    for before in (60_000..66_000).step_by(500) {
        let (before, after) = (r"\/".repeat(before / 2), r"\/".repeat(40_000));
        let escaped = hidden(format!(r"{before}key\/a\u0026b-0123456{after}"));
        assert_eq!(escaped, format!("{before}***{after}"));
    }
}

#[test]
fn a_multiline_secret_is_redacted_with_other_line_ends_and_line_by_line() {
    let lines = ["MIIEvQIBADANBgkqhkiG9w0BAQEF", "AASCBKcwggSjAgEAAoIBAQC7VJTU", "t9Us8cKj"];
    let secret = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"));
    let redactor = Redactor::default();
    redactor.add_secret(&secret);
    let crlf = secret.replace('\n', "\r\n");
    for text in [
        secret.clone(),
        crlf.clone(),
        secret.replace('\n', "\r"),
        secret.replace('\n', ""),
        secret.replace('\n', "\\n"),
        serde_json::Value::from(crlf.as_str()).to_string(),
        STANDARD.encode(&crlf),
        hex::encode(&crlf),
        format!("  {}  ", lines[0]),
        format!("bad line {}: {}", 2, lines[1]),
        STANDARD.encode(lines[1]),
        hex::encode(lines[2]),
        utf8_percent_encode(&crlf, UNRESERVED).to_string(),
    ] {
        let hidden = redactor.redact_text(&text);
        for line in lines {
            for shown in [line.to_owned(), STANDARD.encode(line), hex::encode(line)] {
                assert!(!hidden.contains(&shown), "{text}: {hidden}");
            }
        }
        assert!(hidden.contains(MASK), "{text}");
    }
    // The frame of a key and lone brackets are in other texts too.
    redactor.add_secret("{\n  \"id\": \"77aab8\"\n}\n");
    assert_eq!(redactor.redact_text("-----BEGIN PRIVATE KEY----- {}"), "-----BEGIN PRIVATE KEY----- {}");
}

#[test]
fn a_short_secret_is_not_redacted() {
    let redactor = Redactor::default();
    redactor.add_secret("1234567");
    assert!(redactor.is_empty());
    assert_eq!(redactor.redact_text("1234567"), "1234567");
}

#[test]
fn values_are_redacted_in_nested_values_keys_and_files() {
    let value = Value::from(Map::from_iter([
        ("list", Value::from(vec![Value::from(1), Value::from(format!("a {SECRET} b"))])),
        (SECRET, Value::from("key")),
        (
            "file",
            Value::from(File {
                content_type: "text/plain".into(),
                filename: Some(SECRET.into()),
                data: format!("bytes {SECRET}").into_bytes().into(),
            }),
        ),
    ]));
    let hidden = redactor().redact_value(value).to_json();
    assert!(!hidden.contains("p@ss"), "{hidden}");
    assert!(hidden.contains("a *** b") && hidden.contains("\"***\":\"key\""), "{hidden}");
    let numbers = Redactor::default();
    numbers.add_secret("1234567890");
    assert_eq!(numbers.redact_value(Value::from(1_234_567_890)), Value::from(MASK));
}

#[test]
fn a_value_without_secrets_is_not_copied() {
    let text: Arc<str> = "as plain as can be, and too long to stand in place".into();
    let Value::String(same) = redactor().redact_value(Value::from(text.clone())) else { panic!("a text") };
    assert_eq!(text.as_ptr(), same.as_ptr());
}

#[test]
fn a_recently_used_secret_is_not_evicted_by_newer_ones() {
    let redactor = redactor();
    redactor.add_secret("never-read-again");
    // An evicted secret stays until the last tier is built again.
    let count = MAX_SECRETS + TIERS.iter().sum::<usize>() + TIERS.len();
    for number in 0..count {
        redactor.add_secret(&format!("rotated-token-{number}"));
        redactor.add_secret(SECRET);
    }
    assert_eq!(redactor.redact_text(SECRET), MASK);
    assert_eq!(redactor.redact_text("never-read-again"), "never-read-again");
    for number in [count - 1, count - 50, count - MAX_SECRETS + 1] {
        assert_eq!(redactor.redact_text(&format!("rotated-token-{number}")), MASK, "{number}");
    }
}

#[test]
fn adding_a_secret_does_not_rebuild_the_automata_of_older_ones() {
    let redactor = redactor();
    for number in 0..500 {
        redactor.add_secret(&format!("first-token-{number}"));
    }
    let largest = || {
        let _ = redactor.redact_text("");
        let set = redactor.0.read().unwrap();
        let tier = set.tiers.iter().max_by_key(|tier| tier.secrets.len()).unwrap();
        tier.automaton.get().cloned().flatten().unwrap()
    };
    let before = largest();
    for number in 0..5 {
        redactor.add_secret(&format!("later-token-{number}"));
        assert_eq!(redactor.redact_text(&format!("first-token-7 later-token-{number}")), "*** ***");
        assert!(Arc::ptr_eq(&before, &largest()), "{number}");
    }
}

#[test]
fn secrets_readded_after_eviction_take_no_additional_memory() {
    let redactor = redactor();
    for number in 0..5 * MAX_SECRETS {
        redactor.add_secret(&format!("rotated-token-{}", number % (MAX_SECRETS + 1)));
    }
    let set = redactor.0.read().unwrap();
    let count: usize = set.tiers.iter().map(|tier| tier.secrets.len()).sum();
    assert!(count <= MAX_SECRETS + TIERS.iter().sum::<usize>(), "{count}");
}

#[test]
fn secrets_of_different_tiers_that_overlap_share_one_mask() {
    let redactor = Redactor::default();
    redactor.add_secret("left-part-middle");
    for number in 0..50 {
        redactor.add_secret(&format!("between-them-{number}"));
    }
    redactor.add_secret("middle-right-part");
    let tiers = redactor.0.read().unwrap().tiers.iter().filter(|tier| !tier.secrets.is_empty()).count();
    assert_eq!(tiers, 2);
    assert_eq!(redactor.redact_text("a left-part-middle-right-part z"), "a *** z");
    assert_eq!(redactor.redact_text("left-part-middlebetween-them-1 z"), "****** z");
    let text = "middle-right-part left-part-middle";
    assert_eq!(redactor.redact_excerpt(text, LengthLimit::Chars(5)), "*** *…");
    assert_eq!(redactor.redact_bytes(text.as_bytes()).unwrap(), b"*** ***");
}

#[test]
fn a_text_is_redacted_before_truncation_at_any_position() {
    let redactor = redactor();
    for encoding in encodings_of(SECRET) {
        for before in 0..40 {
            let text = format!("{}{encoding}{}", "ö".repeat(before), "z".repeat(40));
            let hidden = redactor.redact_text(&text).into_owned();
            let by_chars = redactor.redact_excerpt(&text, LengthLimit::Chars(32));
            let by_bytes = redactor.redact_excerpt(&text, LengthLimit::Bytes(32));
            let expected: String = hidden.chars().take(32).collect();
            if hidden.chars().count() > 32 {
                assert_eq!(by_chars, format!("{expected}{TRUNCATION_MARK}"));
            } else {
                assert_eq!(by_chars, hidden);
            }
            let cut = by_bytes.strip_suffix(TRUNCATION_MARK).unwrap_or(&by_bytes);
            assert!(cut.len() <= 32 && hidden.starts_with(cut), "{by_bytes}");
        }
    }
}

#[test]
fn text_moved_into_an_excerpt_by_earlier_redactions_is_redacted_too() {
    let redactor = redactor();
    let text = SECRET.repeat(100);
    assert_eq!(
        redactor.redact_excerpt(&text, LengthLimit::Chars(31)),
        format!("{}*{TRUNCATION_MARK}", MASK.repeat(10))
    );
    assert_eq!(redactor.redact_excerpt(&text, LengthLimit::Chars(301)), MASK.repeat(100));
}

#[test]
fn a_text_within_the_limit_is_not_copied() {
    let redactor = redactor();
    assert!(matches!(redactor.redact_excerpt("größe", LengthLimit::Chars(5)), Cow::Borrowed("größe")));
    assert!(matches!(redactor.redact_excerpt("größe", LengthLimit::Bytes(7)), Cow::Borrowed("größe")));
    assert!(matches!(redactor.redact_message("nothing here…"), Cow::Borrowed("nothing here…")));
}

#[test]
fn a_secret_prefix_before_a_truncation_mark_is_redacted_in_messages() {
    let redactor = redactor();
    for encoding in encodings_of(SECRET) {
        for length in min_prefix_len(&encoding)..encoding.len() {
            let Some(beginning) = encoding.get(..length) else { continue };
            let text = format!("must be a number, found `{beginning}…`, and more");
            let hidden = redactor.redact_message(&text);
            assert!(!hidden.contains(beginning), "{text} gave {hidden}");
            assert!(hidden.ends_with("***…`, and more"), "{text} gave {hidden}");
        }
    }
    assert_eq!(redactor.redact_message("a p@ss b…"), "a p@ss b…");
    assert_eq!(redactor.redact_message("p@ss…"), "p@ss…", "less than half of it");
    assert_eq!(redactor.redact_message("a p@ss/w\"rd"), "a p@ss/w\"rd", "nothing is cut");
}

#[test]
fn a_secret_within_the_prefix_of_another_leaves_none_of_it_visible() {
    let redactor = Redactor::default();
    redactor.add_secret("inner-secret");
    redactor.add_secret("ab-inner-secret-cdefghijkl");
    assert_eq!(redactor.redact_message("x ab-inner-secret-cd… y"), "x ***… y");
    redactor.add_secret("secret-0123456789");
    assert_eq!(redactor.redact_message("x inner-secret-01234…"), "x ***…");
}

proptest! {
    #[test]
    fn no_alignment_of_base64_hides_a_secret(
        before in "[a-z:]{0,7}", secret in "[ -~]{12,40}", after in "[a-z]{0,7}",
    ) {
        let redactor = Redactor::default();
        redactor.add_secret(&secret);
        let text = STANDARD.encode(format!("{before}{secret}{after}"));
        prop_assert!(redactor.redact_text(&text).contains(MASK), "{text}");
    }
}
