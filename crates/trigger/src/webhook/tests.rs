use expression::JsonSchema;
use model::Payload;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use value::Map;

use super::test_support::trigger;
use super::*;

/// A request written as `name: value` lines; the body follows.
fn request(headers: &str, body: &[u8]) -> Request {
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").expect("a header line is `name: value`");
        (name.to_owned(), value.as_bytes().to_vec())
    };
    Request {
        method: "POST".into(),
        headers: headers.lines().map(header).collect(),
        body: body.to_vec().into(),
        ..Request::default()
    }
}

fn read(headers: &str, body: &[u8]) -> Result<Value, String> {
    receive(&trigger(), request(headers, body))
        .map(|received| received.results)
        .map_err(|rejection| format!("{} {}: {}", rejection.status, rejection.code, rejection.message))
}

/// The `body.data` of a request, or its rejection.
fn check(content_type: &str, body: impl AsRef<[u8]>, expected: &str) {
    let headers =
        if content_type.is_empty() { String::new() } else { format!("content-type: {content_type}") };
    let data =
        read(&headers, body.as_ref()).map(|results| results.path("body.data").expect("body.data").to_json());
    assert_eq!(data.unwrap_or_else(|refusal| refusal), expected, "{content_type}");
}

#[test]
fn every_json_value_is_parsed() {
    check(
        "application/json",
        r#"{"orderId": 7, "lines": [1.5, null]}"#,
        r#"{"orderId":7,"lines":[1.5,null]}"#,
    );
    check("application/json; charset=utf-8", "[1,2]", "[1,2]");
    check("application/problem+json", r#"{"a":1}"#, r#"{"a":1}"#);
    check("application/json", "\u{feff}{}", "{}");
    for scalar in ["1", "true", "null", r#""text""#, "9007199254740993"] {
        check("application/json", scalar, scalar);
    }
}

#[test]
fn malformed_json_is_rejected() {
    for (body, reason) in [
        ("{", "EOF while parsing an object at line 1 column 1"),
        ("{'a':1}", "key must be a string at line 1 column 2"),
        ("{\n\"a\": 1,}", "trailing comma at line 2 column 8"),
        ("1 2", "trailing characters at line 1 column 3"),
        ("{}x", "trailing characters at line 1 column 3"),
        (" ", "EOF while parsing a value at line 1 column 1"),
        ("\u{0}", "expected value at line 1 column 1"),
        ("nul", "EOF while parsing a value at line 1 column 3"),
    ] {
        let expected = format!("400 bad_json: request body is not valid JSON: {reason}");
        check("application/json", body, &expected);
    }
    let undeclared = "400 bad_json: request body is not valid JSON: byte 2 is not UTF-8; another charset has to be named in the \
                      content-type, such as `application/json; charset=windows-1252`";
    check("application/json", b"\"\xff\"", undeclared);
    let declared = "400 bad_json: request body is not valid JSON: its bytes are not Shift_JIS";
    check("application/json; charset=shift_jis", b"\"\xff\"", declared);
}

#[test]
fn each_kind_of_body_is_decoded_in_its_charset() {
    let expected = r#"{"a":"é"}"#;
    check("application/json; charset=iso-8859-1", b"{\"a\":\"\xe9\"}", expected);
    check("application/vnd.x+json; charset=\"windows-1252\"", b"{\"a\":\"\xe9\"}", expected);
    check("text/json; charset=latin1", b"{\"a\":\"\xe9\"}", expected);
    check("application/json", b"\xff\xfe{\0\"\0a\0\"\0:\0\"\0\xe9\0\"\0}\0", expected);
    check("application/json; charset=utf-16le", b"{\0\"\0a\0\"\0:\0\"\0\xe9\0\"\0}\0", expected);
    check("application/x-www-form-urlencoded; charset=iso-8859-1", "a=%E9", expected);
    check("application/x-www-form-urlencoded; charset=shift_jis", b"a=%93%FA+\x96%7B", r#"{"a":"日 本"}"#);
    check("application/x-www-form-urlencoded", "_charset_=gbk&a=%D6%D0", r#"{"_charset_":"gbk","a":"中"}"#);
    check("application/x-www-form-urlencoded", "a=%C3%A9", expected);
    check("text/csv; charset=windows-1252", b"\x80;\xe9", r#""€;é""#);
    check("application/xml; charset=iso-8859-1", b"<a>\xe9</a>", r#""<a>é</a>""#);
}

#[test]
fn form_parts_are_decoded_in_their_own_or_the_forms_charset() {
    let parts = |parts: &[&[u8]]| {
        let mut body = Vec::new();
        for part in parts {
            body.extend_from_slice(b"--b\r\n");
            body.extend_from_slice(part);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--b--\r\n");
        body
    };
    let field = b"Content-Disposition: form-data; name=\"a\"\r\n\r\n\xe9";
    let own = b"Content-Disposition: form-data; name=\"a\"\r\nContent-Type: text/plain; charset=gbk\r\n\r\n\xd6\xd0";
    let json =
        b"Content-Disposition: form-data; name=\"a\"\r\nContent-Type: application/json\r\n\r\n\"\xe9\"";
    let charset = b"Content-Disposition: form-data; name=\"_charset_\"\r\n\r\nwindows-1252";
    let (whole, plain) =
        ("multipart/form-data; boundary=b; charset=iso-8859-1", "multipart/form-data; boundary=b");
    check(whole, parts(&[field]), r#"{"a":{"data":"é","contentType":"text/plain"}}"#);
    check(whole, parts(&[json]), r#"{"a":{"data":"é","contentType":"application/json"}}"#);
    check(plain, parts(&[own]), r#"{"a":{"data":"中","contentType":"text/plain; charset=gbk"}}"#);
    let named = concat!(
        r#"{"_charset_":{"data":"windows-1252","contentType":"text/plain"},"#,
        r#""a":{"data":"é","contentType":"text/plain"}}"#
    );
    check(plain, parts(&[charset, field]), named);
}

#[test]
fn a_file_with_a_non_utf_8_name_keeps_its_bytes_and_name() {
    for (disposition, charset, name) in [
        (&b"filename=\"caf\xe9.png\""[..], "", "café.png"),
        (b"filename=\"\xd6\xd0.png\"", "; charset=gbk", "中.png"),
        (b"filename=\"\x93\xfa.png\"", "; charset=shift_jis", "日.png"),
        (b"filename*=UTF-8''caf%C3%A9.png", "", "café.png"),
        (b"filename*=iso-8859-1''caf%E9.png; filename=\"x.png\"", "", "café.png"),
    ] {
        for kind in ["", "Content-Type: text/plain\r\n", "Content-Type: image/png\r\n"] {
            let mut body = b"--b\r\nContent-Disposition: form-data; name=\"f\"; ".to_vec();
            body.extend_from_slice(disposition);
            body.extend_from_slice(format!("\r\n{kind}\r\n").as_bytes());
            body.extend_from_slice(b"\x89PNG\xff\r\n--b--\r\n");
            let results = read(&format!("content-type: multipart/form-data; boundary=b{charset}"), &body);
            let results = results.expect("it is taken");
            let file = results.path("body.data.f").expect("the part");
            let file = file.as_file().unwrap_or_else(|| panic!("{name} {kind:?}: {}", results.to_json()));
            assert_eq!(
                (file.filename.as_deref(), &*file.data.for_display()),
                (Some(name), &b"\x89PNG\xff"[..])
            );
        }
    }
}

#[test]
fn json_over_its_limits_is_rejected_as_too_large() {
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    let expected = "400 json_too_large: request body exceeds the limits of JSON: at most 64 levels and 250000 keys and items";
    check("application/json", deep, expected);
}

#[test]
fn a_body_that_violates_the_schema_is_rejected_with_the_path() {
    let schema = serde_json::json!({
        "type": "object", "required": ["orderId"], "properties": {"orderId": {"type": "string"}},
    });
    let schema = Some(JsonSchema::compile(schema).expect("a schema"));
    let trigger = WebhookTrigger { schema, ..trigger() };
    let check = |headers: &str, body: &str, expected: &str| {
        let found = receive(&trigger, request(headers, body.as_bytes())).map_err(|rejection| {
            assert_eq!(rejection.status, 400);
            format!("{}: {}", rejection.code, rejection.message)
        });
        assert_eq!(found.map_or_else(|refusal| refusal, |_| "taken".to_owned()), expected);
    };
    let json = "content-type: application/json";
    check(json, r#"{"orderId": "7", "more": 1}"#, "taken");
    check("content-type: application/x-www-form-urlencoded", "orderId=7", "taken");
    check(
        json,
        r#"{"orderId": 7}"#,
        "schema_mismatch: request body does not match its schema at `/orderId`: must be string, found number",
    );
    check(json, "{}", "schema_mismatch: request body does not match its schema: needs `orderId`");
    check(json, "", "schema_mismatch: request body does not match its schema: must be object, found null");
    check(
        json,
        "{",
        "bad_json: request body is not valid JSON: EOF while parsing an object at line 1 column 1",
    );
}

#[test]
fn a_body_too_costly_to_check_is_rejected_as_such() {
    // The check compares every item with a thousand texts of the same length.
    let text = |last: usize| format!("{}{last:04}", "x".repeat(2_000));
    let options: Vec<String> = (0..1_000).map(text).collect();
    let schema = serde_json::json!({"type": "array", "items": {"enum": options}});
    let schema = Some(JsonSchema::compile(schema).expect("a schema"));
    let trigger = WebhookTrigger { schema, max_body: 4 << 20, ..trigger() };
    let results = |items: usize| {
        let body = serde_json::to_vec(&vec![text(999); items]).expect("JSON");
        receive(&trigger, request("content-type: application/json", &body))
    };
    assert!(results(10).is_ok());
    let rejection = results(1_000).expect_err("it is too much");
    let expected =
        "request body takes too much to check against its schema: it takes more than 50000000 units of work";
    assert_eq!(
        (rejection.status, rejection.code, rejection.message.as_str()),
        (400, "schema_too_costly", expected)
    );
}

#[test]
fn a_small_body_is_checked_inline_and_a_large_one_is_not() {
    let schema = serde_json::json!({"items": {"type": "integer"}});
    let schema = Some(JsonSchema::compile(schema).expect("a schema"));
    let trigger = WebhookTrigger { schema, max_body: 4 << 20, ..trigger() };
    let fits = |body: String| {
        let received = parse(&trigger, request("content-type: application/json", body.as_bytes()));
        fits_inline(&trigger, &received.expect("it is JSON").results)
    };
    assert!(fits("[1, 2]".to_owned()));
    assert!(!fits("[1, true]".to_owned()), "the reason is for the full check");
    assert!(!fits(format!("[{}1]", "1,".repeat(150_000))));
}

#[test]
fn an_empty_body_is_null_for_every_type() {
    for content_type in ["", "application/json", "text/plain", "image/png", "multipart/form-data; boundary=x"]
    {
        check(content_type, "", "null");
    }
}

#[test]
fn without_a_content_type_only_lists_and_maps_are_json() {
    check("", r#" {"a":1}"#, r#"{"a":1}"#);
    check("", "[1]", "[1]");
    let file = |text: &str| {
        let size = text.len();
        format!(
            r#"{{"contentType":"application/octet-stream","size":{size},"encoding":"utf8","data":"{text}"}}"#
        )
    };
    check("", "{broken", &file("{broken"));
    check("", "1", &file("1"));
    check("", "plain", &file("plain"));
}

#[test]
fn a_form_is_a_map_of_its_fields() {
    check("application/x-www-form-urlencoded", "a=1&b=x+y&a=2", r#"{"a":["1","2"],"b":"x y"}"#);
}

#[test]
fn text_xml_and_csv_are_text() {
    check("text/plain", "hello", r#""hello""#);
    check("application/xml", "<a/>", r#""<a/>""#);
    check("text/csv; charset=windows-1252", b"a;\x80", r#""a;€""#);
}

#[test]
fn any_other_body_is_a_file() {
    let png = b"\x89PNG\r\n";
    check("image/png", png, r#"{"contentType":"image/png","size":6,"encoding":"base64","data":"iVBORw0K"}"#);
    let results = read("content-type: image/png", png).expect("the request is taken");
    assert_eq!(results.path("body.data"), results.get("rawBody"));
}

#[test]
fn the_raw_body_is_the_exact_bytes_of_every_body() {
    for (content_type, body) in [
        ("application/json", &b" {\"a\" : 1}\n"[..]),
        ("application/x-www-form-urlencoded", b"a=%41"),
        ("text/plain; charset=latin1", b"\xf6"),
        ("image/png", b"\x00\xff"),
        ("application/json", b""),
    ] {
        let results = read(&format!("Content-Type: {content_type}"), body).expect("the request is taken");
        let raw = results.get("rawBody").expect("rawBody");
        let file = raw.as_file().expect("rawBody is a file");
        assert_eq!((&file.data.for_display()[..], &*file.content_type), (body, content_type));
        assert_eq!(results.path("rawBody.data"), Some(raw));
    }
}

#[test]
fn results_have_the_documented_members() {
    let mut request =
        request("Content-Type: application/json\nX-Order: 7\nx-order: 8\nHost: hooks.example", b"{}");
    request.fragment = "/orders/a%20b".into();
    request.raw_query = "q=1&q=2".into();
    let received = receive(&trigger(), request).expect("the request is taken");
    let expected = concat!(
        r#"{"body":{"data":{},"contentType":"application/json"},"#,
        r#""rawBody":{"contentType":"application/json","size":2,"encoding":"utf8","data":"{}"},"#,
        r#""headers":{"content-type":"application/json","host":"hooks.example","x-order":"7, 8"},"#,
        r#""pathFragment":"orders/a b","queryParameters":{"q":["1","2"]},"rawQuery":"q=1&q=2","method":"POST"}"#
    );
    assert_eq!(received.results.to_json(), expected);
    let header = |name: &str| received.results.path("headers")?.get(name);
    assert_eq!(header("X-Order"), header("x-order"));
    assert_eq!(crate::results(&Payload::Webhook(received.payload)), Ok(received.results));
}

#[test]
fn missing_parts_are_empty_and_not_absent() {
    let results = read("", b"").expect("the request is taken");
    let expected = concat!(
        r#"{"body":{"data":null,"contentType":null},"#,
        r#""rawBody":{"contentType":"application/octet-stream","size":0,"encoding":"utf8","data":""},"#,
        r#""headers":{},"pathFragment":"","queryParameters":{},"rawQuery":"","method":"POST"}"#
    );
    assert_eq!(results.to_json(), expected);
}

#[test]
fn hop_by_hop_headers_are_removed_and_repeated_ones_folded() {
    let headers = "Connection: close, X-Hop\nX-Hop: 1\nTransfer-Encoding: chunked\nTE: trailers\nForwarded: for=1\n\
                   Cookie: a=1\nCookie: b=2\nHost: h";
    let mut request = request(headers, b"");
    request.headers.push(("X-Latin".into(), b"gr\xf6\xdfe".to_vec()));
    request.headers.push(("X-Utf".into(), "größe".into()));
    let payload = admit(&trigger(), request).expect("the request is taken");
    let folded: Vec<String> = payload.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(folded, ["cookie=a=1; b=2", "forwarded=for=1", "host=h", "x-latin=größe", "x-utf=größe"]);
}

#[test]
fn an_unsupported_method_is_rejected_with_the_allowed_ones() {
    let only = WebhookTrigger { methods: vec!["PUT".into(), "DELETE".into()], ..trigger() };
    let refusal = |trigger: &WebhookTrigger, method: &str| {
        let request = Request { method: method.into(), ..request("", b"") };
        receive(trigger, request).map_err(|rejection| (rejection.status, rejection.allow)).err()
    };
    assert_eq!(refusal(&only, "PUT"), None);
    assert_eq!(refusal(&only, "POST"), Some((405, Some("PUT, DELETE".into()))));
    for method in METHODS {
        assert_eq!(refusal(&trigger(), method), None, "{method}");
    }
    for method in ["HEAD", "OPTIONS", "TRACE", "post", ""] {
        let all = Some("POST, PUT, PATCH, DELETE, GET".into());
        assert_eq!(refusal(&trigger(), method), Some((405, all)), "{method}");
    }
}

#[test]
fn head_and_options_get_a_response_and_start_nothing() {
    let status = |method: &str| probe(&trigger(), method).map(|answer| answer.status);
    assert_eq!(
        (status("HEAD"), status("OPTIONS"), status("GET"), status("POST")),
        (Some(200), Some(204), None, None)
    );
    let answer = probe(&trigger(), "OPTIONS").expect("OPTIONS is a probe");
    assert_eq!(answer.header("allow"), Some("POST, PUT, PATCH, DELETE, GET"));
    assert!(answer.body.is_empty());
}

#[test]
fn a_body_over_the_limit_is_rejected_and_one_at_the_limit_accepted() {
    check("text/plain", vec![b'x'; 4097], "413 payload_too_large: request body is larger than 4KiB");
    assert!(read("content-type: text/plain", &[b'x'; 4096]).is_ok());
}

#[test]
fn a_gzip_body_is_decompressed_within_the_limit() {
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, bytes).expect("it is written");
        encoder.finish().expect("it ends")
    };
    let headers = "content-type: application/json\nContent-Encoding: gzip";
    let results = read(headers, &gzip(br#"{"n": 7}"#)).expect("it is taken");
    assert_eq!(results.path("body.data.n").map(|n| n.to_json()).as_deref(), Some("7"));
    assert_eq!(results.path("rawBody").expect("it is there").to_text(), r#"{"n": 7}"#);
    assert!(results.path("headers.content-encoding").is_none());
    let refused = |body: &[u8]| read("content-encoding: gzip", body).expect_err("it is refused");
    assert!(refused(b"x").starts_with("400 bad_encoding: "));
    assert!(refused(&gzip(b"cut off")[..20]).starts_with("400 bad_encoding: "));
    let bomb = gzip(&vec![b'x'; 4097]);
    assert!(bomb.len() < 100);
    assert_eq!(refused(&bomb), "413 payload_too_large: request body is larger than 4KiB");
    assert!(read("content-type: text/plain\ncontent-encoding: gzip", &gzip(&[b'x'; 4096])).is_ok());
}

#[test]
fn a_body_in_another_encoding_is_rejected() {
    let status = |headers: &str| read(headers, b"x").map_err(|refusal| refusal[..3].to_owned()).err();
    assert_eq!(status("Content-Encoding: br").as_deref(), Some("415"));
    assert_eq!(status("content-encoding: identity, br").as_deref(), Some("415"));
    assert_eq!(status("content-encoding: gzip\ncontent-encoding: gzip").as_deref(), Some("415"));
    assert_eq!(status("content-encoding: Identity"), None);
    assert_eq!(status("content-encoding: "), None);
}

#[test]
fn conflicting_content_types_are_rejected() {
    let two = read("content-type: application/json\ncontent-type: text/plain", b"{}");
    assert_eq!(two, Err("400 bad_content_type: request has more than one content-type".into()));
    assert!(read("content-type: application/json\ncontent-type: application/json", b"{}").is_ok());
}

fn multipart(parts: &[&str]) -> String {
    let parts: String = parts.iter().map(|part| format!("--b\r\n{part}\r\n")).collect();
    format!("{parts}--b--\r\n")
}

fn check_parts(parts: &[&str], expected: &str) {
    check("multipart/form-data; boundary=b", multipart(parts), expected);
}

fn named(disposition: &str, content_type: &str, data: &str) -> String {
    let content_type =
        if content_type.is_empty() { String::new() } else { format!("Content-Type: {content_type}\r\n") };
    format!("Content-Disposition: form-data; {disposition}\r\n{content_type}\r\n{data}")
}

#[test]
fn each_part_of_a_multipart_body_is_a_key() {
    check_parts(
        &[
            &named(r#"name="note""#, "", "größe"),
            &named(r#"name="order""#, "application/json", r#"{"id":7}"#),
            &named(r#"name="picture"; filename="a/b.png""#, "image/png", "\u{0}PNG"),
        ],
        concat!(
            r#"{"note":{"data":"größe","contentType":"text/plain"},"#,
            r#""order":{"data":{"id":7},"contentType":"application/json"},"#,
            r#""picture":{"contentType":"image/png","filename":"a/b.png","size":4,"encoding":"utf8","data":"\u0000PNG"}}"#
        ),
    );
}

#[test]
fn a_json_part_stays_json_when_it_is_a_file_and_must_be_valid() {
    check_parts(
        &[&named(r#"name="j"; filename="j.json""#, "application/json", "[1]")],
        r#"{"j":{"data":[1],"contentType":"application/json","filename":"j.json"}}"#,
    );
    check_parts(
        &[&named(r#"name="j""#, "application/json", "{")],
        "400 bad_json: part `j` is not valid JSON: EOF while parsing an object at line 1 column 1",
    );
}

#[test]
fn a_repeated_part_is_a_list_in_order() {
    check_parts(
        &[&named(r#"name="a""#, "", "1"), &named(r#"name="b""#, "", ""), &named(r#"name="a""#, "", "2")],
        concat!(
            r#"{"a":[{"data":"1","contentType":"text/plain"},{"data":"2","contentType":"text/plain"}],"#,
            r#""b":{"data":"","contentType":"text/plain"}}"#
        ),
    );
}

#[test]
fn a_part_without_a_valid_name_is_rejected() {
    let expected = "400 bad_multipart: multipart body has a part whose name is not 1 to 256 bytes long";
    check_parts(&[&named(r#"name="""#, "", "1")], expected);
    check_parts(&["Content-Disposition: form-data\r\n\r\n1"], expected);
    check_parts(&[&named(&format!("name=\"{}\"", "n".repeat(257)), "", "1")], expected);
}

#[test]
fn a_truncated_multipart_body_is_rejected() {
    let whole = multipart(&[&named(r#"name="a""#, "", "1"), &named(r#"name="b""#, "image/png", "2")]);
    for cut in 1..whole.len() - 4 {
        let read = read("content-type: multipart/form-data; boundary=b", &whole.as_bytes()[..cut]);
        assert!(read.as_ref().is_err_and(|refusal| refusal.contains("bad_multipart")), "{cut}: {read:?}");
    }
    for content_type in
        ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"\""]
    {
        check(content_type, &whole, "400 bad_multipart: multipart content-type has no usable boundary");
    }
}

#[test]
fn parts_and_their_headers_are_limited() {
    let large = WebhookTrigger { max_body: 1 << 20, ..trigger() };
    let read = |parts: &[&str]| {
        let request = request("content-type: multipart/form-data; boundary=b", multipart(parts).as_bytes());
        receive(&large, request).map_err(|rejection| rejection.message).err()
    };
    let part = named(r#"name="a""#, "", "1");
    assert_eq!(read(&vec![part.as_str(); 200]), None);
    assert_eq!(read(&vec![part.as_str(); 201]).as_deref(), Some("multipart body has more than 200 parts"));
    let long = format!("X-Long: {}\r\n{part}", "x".repeat(17 * 1024));
    assert_eq!(
        read(&[&long]).as_deref(),
        Some("multipart body has a part with more than 16384 bytes of headers")
    );
}

proptest! {
    #[test]
    fn no_request_makes_the_parser_panic_and_stored_payloads_round_trip(
        content_type in "(application/json|text/plain; charset=utf-16|application/x-www-form-urlencoded|multipart/form-data; boundary=b|image/png|.{0,12})",
        body in proptest::collection::vec(any::<u8>(), 0..200),
        tail in "(--b\r\n|Content-Disposition: form-data; name=a\r\n|\r\n|x|--b--){0,8}",
    ) {
        let body = [body, tail.into_bytes()].concat();
        let headers = vec![("content-type".to_owned(), content_type.into_bytes())];
        let request = Request { method: "POST".into(), headers, body: body.clone().into(), ..Request::default() };
        if let Ok(received) = receive(&trigger(), request) {
            prop_assert_eq!(received.payload.body.data.in_memory().map(|data| &data[..]), Some(&body[..]));
            let stored = serde_json::to_string(&Payload::Webhook(received.payload)).expect("a payload is stored");
            let payload: Payload = serde_json::from_str(&stored).expect("a payload reads back");
            prop_assert_eq!(crate::results(&payload), Ok(received.results));
        }
    }

    #[test]
    fn parsing_a_multipart_body_of_any_bytes_terminates(body in "(--b|--|\r\n|b|Content-Disposition: form-data; name=\"a\"|x| ){0,40}") {
        let _ = read("content-type: multipart/form-data; boundary=b", body.as_bytes());
    }

    #[test]
    fn json_bodies_round_trip(entries in proptest::collection::vec(("[a-z]{1,4}", any::<i64>()), 0..8)) {
        let map = Value::from(entries.into_iter().collect::<Map>());
        let results = read("content-type: application/json", map.to_json().as_bytes()).expect("JSON is taken");
        prop_assert_eq!(results.path("body.data"), Some(map));
    }
}
