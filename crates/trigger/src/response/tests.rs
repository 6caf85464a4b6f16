use pretty_assertions::assert_eq;
use proptest::prelude::*;
use value::File;

use super::*;

const ID: &str = "0194d1a0-0000-7000-8000-000000000001";

fn id() -> ExecutionId {
    ID.parse().expect("an id")
}

/// The response as text: the status, the headers that are not on every response, and the body.
fn shown(response: &HttpResponse) -> String {
    let everywhere = ["x-content-type-options", "referrer-policy", "cache-control", EXECUTION_ID];
    let headers: Vec<String> = response
        .headers
        .iter()
        .filter(|(name, _)| !everywhere.contains(&&**name))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    format!(
        "{} [{}] {}",
        response.status,
        headers.join(", "),
        String::from_utf8_lossy(&response.body.for_display())
    )
}

fn check(response: &HttpResponse, expected: &str) {
    assert_eq!(shown(response), expected.replace("ID", ID));
    for (name, value) in
        [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"), (EXECUTION_ID, ID)]
    {
        assert_eq!(response.header(name), Some(value), "{name}");
    }
    assert!(response.header("cache-control").is_some());
    assert_eq!(&seal(response.clone()), response, "an answer that was sealed stays as it is");
}

fn fixed(
    status: u16,
    content_type: Option<&str>,
    headers: &[(&str, &str)],
    body: Option<&str>,
) -> StaticResponse {
    StaticResponse {
        status,
        content_type: content_type.map(Into::into),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: body.map(Into::into),
    }
}

#[test]
fn an_asynchronous_start_returns_only_the_execution_id() {
    let trigger = crate::webhook::test_support::trigger();
    check(&asynchronous(&trigger, &id()), r#"200 [content-type: application/json] {"executionId":"ID"}"#);
    let trigger = WebhookTrigger { respond: Some(fixed(202, None, &[], Some("thanks"))), ..trigger };
    check(&asynchronous(&trigger, &id()), "202 [content-type: text/plain; charset=utf-8] thanks");
    assert_eq!(started(&id()).header("cache-control"), Some("no-store"));
}

#[test]
fn a_static_response_is_sent_unchanged() {
    let check = |fixed: StaticResponse, expected: &str| check(&static_response(&fixed, &id()), expected);
    check(fixed(201, None, &[], None), r#"201 [content-type: application/json] {"executionId":"ID"}"#);
    check(
        fixed(200, Some("application/json"), &[("X-One", "1"), ("x-one", "2")], Some("{}")),
        "200 [content-type: application/json, x-one: 1, x-one: 2] {}",
    );
    check(
        fixed(302, None, &[("Location", "/x")], Some("")),
        "302 [content-type: text/plain; charset=utf-8, location: /x] ",
    );
}

#[test]
fn statuses_204_205_and_304_have_no_body() {
    for status in [204, 205, 304] {
        check(
            &static_response(&fixed(status, None, &[("x-a", "1")], None), &id()),
            &format!("{status} [x-a: 1] "),
        );
        let parts = RespondParts {
            status: status.into(),
            content_type: "text/html".into(),
            headers: Value::Null,
            body: Body::Any("x".into()),
            allows_forms: false,
            allows_scripts: false,
        };
        check(&respond(&parts, &id()).expect("an answer"), &format!("{status} [] "));
    }
}

#[test]
fn the_content_type_of_a_result_follows_its_value() {
    let check = |value: Value, expected: &str| check(&result(&value, &id()), expected);
    let json = |text: &str| Value::from_json(text.as_bytes(), value::JsonLimits::default()).expect("JSON");
    for text in [r#"{"a":1}"#, "[1]", "1.5", "true", "null"] {
        check(json(text), &format!("200 [content-type: application/json] {text}"));
    }
    check("<a/>".into(), "200 [content-type: text/plain; charset=utf-8] <a/>");
    let file = |content_type: &str| {
        Value::from(File { content_type: content_type.into(), filename: None, data: "x".into() })
    };
    check(file("image/png"), "200 [content-type: image/png] x");
    check(file("text/html"), "200 [content-type: text/html, content-security-policy: sandbox] x");
    check(file(""), "200 [content-type: application/octet-stream] x");
    check(file("text/html\r\nset-cookie: a=1"), "200 [content-type: application/octet-stream] x");
}

#[test]
fn failure_and_timeout_name_the_execution() {
    let failed = failed("step `createPage` failed", &id());
    check(
        &failed,
        r#"500 [content-type: application/json] {"error":"step `createPage` failed","executionId":"ID"}"#,
    );
    let expected = concat!(
        r#"504 [content-type: application/json] {"error":"the execution has not finished in time; it continues","#,
        r#""code":"timeout","executionId":"ID"}"#
    );
    check(&timed_out(&id()), expected);
}

fn parts(status: impl Into<Value>, headers: &str, body: Body) -> RespondParts {
    let headers = Value::from_json(headers.as_bytes(), value::JsonLimits::default()).expect("JSON");
    RespondParts {
        status: status.into(),
        content_type: Value::Null,
        headers,
        body,
        allows_forms: false,
        allows_scripts: false,
    }
}

#[test]
fn a_respond_step_sets_status_headers_and_body() {
    let check =
        |parts: RespondParts, expected: &str| check(&respond(&parts, &id()).expect("an answer"), expected);
    check(
        parts(201, r#"{"X-Page": 7, "x-list": ["a", true], "x-none": null}"#, Body::Empty),
        "201 [x-page: 7, x-list: a, x-list: true] ",
    );
    check(parts("404", "null", Body::Any("no".into())), "404 [content-type: text/plain; charset=utf-8] no");
    check(parts(200, "{}", Body::Any(Value::Null)), "200 [content-type: application/json] null");
    check(parts(200, "{}", Body::Json("text".into())), r#"200 [content-type: application/json] "text""#);
    let file = Value::from(File { content_type: "image/png".into(), filename: None, data: "x".into() });
    check(parts(200, "{}", Body::File(file.clone())), "200 [content-type: image/png] x");
    let typed = RespondParts { content_type: "text/html".into(), ..parts(200, "{}", Body::Any(file)) };
    check(typed, "200 [content-type: text/html, content-security-policy: sandbox] x");
    let cached = parts(200, r#"{"Cache-Control": "max-age=60"}"#, Body::Empty);
    check(cached, "200 [] ");
}

#[test]
fn an_invalid_respond_step_is_reported() {
    let check = |parts: RespondParts, expected: &str| {
        let error = respond(&parts, &id()).map(|answer| shown(&answer)).map_err(|error| error.to_string());
        assert_eq!(error, Err(expected.to_owned()));
    };
    check(parts(199, "{}", Body::Empty), "`status` is `199`; it must be a whole number from 200 to 599");
    check(parts(200.5, "{}", Body::Empty), "`status` is `200.5`; it must be a whole number from 200 to 599");
    check(parts("ok", "{}", Body::Empty), "`status` is `\"ok\"`; it must be a whole number from 200 to 599");
    check(parts(200, "[]", Body::Empty), "`headers` must be a map, found a list");
    check(parts(200, r#"{"x": {}}"#, Body::Empty), "header `x` must be a text, found a map");
    check(
        parts(200, r#"{"a b": 1}"#, Body::Empty),
        "`a b` is not a header name; use letters, digits and `-`",
    );
    check(
        parts(200, r#"{"x": "a\r\nset-cookie: b"}"#, Body::Empty),
        "header `x` has a line break or another control character",
    );
    check(
        parts(200, r#"{"Set-Cookie": "a=1"}"#, Body::Empty),
        "header `set-cookie` may not be set here: it would affect more than this response",
    );
    check(
        parts(200, r#"{"Access-Control-Allow-Origin": "*"}"#, Body::Empty),
        "header `access-control-allow-origin` may not be set here: a webhook is not a browser API",
    );
    check(
        parts(200, r#"{"content-type": "text/html"}"#, Body::Empty),
        "header `content-type` may not be set here: write it as `contentType`",
    );
    check(
        parts(200, "{}", Body::File("x".into())),
        "`file` needs a file, found a text; use `body` or `json` for it",
    );
    let typed = RespondParts { content_type: "html".into(), ..parts(200, "{}", Body::Empty) };
    check(typed, "`contentType` is `\"html\"`; it must be a media type such as `text/html`");
    let many: Map = (0..65).map(|count| (format!("x-{count}"), Value::from(1))).collect();
    let many = RespondParts { headers: many.into(), ..parts(200, "{}", Body::Empty) };
    check(many, "there are too many headers; the limit is 64, of 16384 bytes together");
}

#[test]
fn executable_types_are_sandboxed() {
    let sandboxed = |content_type: &'static str| {
        let answer = seal(HttpResponse::new(200, content_type, "x"));
        answer.header("content-security-policy") == Some("sandbox")
    };
    for content_type in [
        "text/html",
        "Text/HTML; charset=utf-8",
        "image/svg+xml",
        "text/xml",
        "application/xhtml+xml",
        "text/x-new",
    ] {
        assert!(sandboxed(content_type), "{content_type}");
    }
    for content_type in
        ["application/json", "text/plain; charset=utf-8", "image/png", "video/mp4", "text/csv"]
    {
        assert!(!sandboxed(content_type), "{content_type}");
    }
}

#[test]
fn a_page_has_one_csp_that_may_allow_forms_and_scripts_but_not_the_origin() {
    let policy = |sent: &[&'static str]| {
        let page = HttpResponse::new(200, "text/html", "x");
        let page = sent.iter().fold(page, |page, value| page.with_header("content-security-policy", *value));
        let headers = seal(page).headers.into_iter();
        let policies: Vec<_> = headers.filter(|(name, _)| name.starts_with("content-sec")).collect();
        assert_eq!(policies.len(), 1, "{policies:?}");
        policies.into_iter().map(|(_, value)| value.to_string()).collect::<String>()
    };
    assert_eq!(policy(&["default-src 'self'"]), "sandbox; default-src 'self'");
    assert_eq!(policy(&["default-src 'self'", "img-src *"]), "sandbox; default-src 'self', img-src *");
    assert_eq!(
        policy(&["sandbox allow-forms", "sandbox allow-scripts"]),
        "sandbox allow-forms allow-scripts"
    );
    assert_eq!(
        policy(&["Sandbox allow-same-origin Allow-Forms allow-top-navigation; img-src *"]),
        "sandbox allow-forms; img-src *"
    );
    let page = |allows_forms, allows_scripts| {
        let content_type = Value::from("text/html");
        let parts = RespondParts {
            content_type,
            allows_forms,
            allows_scripts,
            ..parts(200, "{}", Body::Any("x".into()))
        };
        let answer = respond(&parts, &id()).expect("it is one");
        answer.header("content-security-policy").map(str::to_owned).expect("it has one")
    };
    assert_eq!(page(false, false), "sandbox");
    assert_eq!(page(true, false), "sandbox allow-forms");
    assert_eq!(page(true, true), "sandbox allow-forms allow-scripts");
}

#[test]
fn sealing_drops_forbidden_headers() {
    let mut response = HttpResponse::new(99, "text/plain", "x");
    for (name, value) in [
        ("Set-Cookie", "a=1"),
        ("Content-Length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Access-Control-Allow-Origin", "*"),
        ("Content-Type", "text/html"),
        ("x-split", "a\r\nset-cookie: b"),
        ("x y", "1"),
        ("x-good", "größe"),
    ] {
        response = response.with_header(name, value);
    }
    assert_eq!(shown(&seal(response)), "500 [content-type: text/plain, x-good: größe] x");
    let unknown =
        HttpResponse { status: 200, headers: vec![("content-type".into(), "html".into())], body: "x".into() };
    assert_eq!(shown(&seal(unknown)), "200 [content-type: application/octet-stream] x");
}

#[test]
fn a_static_response_is_validated_on_load() {
    let check = |fixed: StaticResponse, expected: &[&str]| {
        let problems: Vec<String> = check_static_response(&fixed)
            .iter()
            .map(|problem| format!("{}: {problem}", problem.key))
            .collect();
        assert_eq!(problems, expected);
    };
    check(fixed(200, Some("application/json"), &[("x-a", "1")], Some("{}")), &[]);
    check(fixed(204, None, &[], None), &[]);
    check(fixed(100, None, &[], None), &["status: `100` is not a valid response status; use 200 to 599"]);
    check(
        fixed(304, None, &[], Some("x")),
        &["body: a response with status 304 has no body; remove `body` or use another status"],
    );
    check(
        fixed(200, Some("json"), &[], Some("x")),
        &["contentType: `json` is not a media type; write one such as `text/html`"],
    );
    check(
        fixed(200, Some("text/html"), &[], None),
        &["contentType: `contentType` has no effect without `body`"],
    );
    check(
        fixed(200, Some("application/problem+json"), &[], Some("{")),
        &[
            "body: `contentType` is JSON, but `body` is not valid JSON: EOF while parsing an object at line 1 column 1",
        ],
    );
    check(
        fixed(200, None, &[("Connection", "close"), ("x", "a\nb")], None),
        &[
            "headers: header `connection` may not be set here: it belongs to the connection",
            "headers: header `x` has a line break or another control character",
        ],
    );
}

proptest! {
    #[test]
    fn no_response_can_gain_a_header_line_or_a_cookie(
        status: u16,
        headers in proptest::collection::vec(("(?s).{0,12}|set-cookie|Content-Type", "(?s).{0,20}"), 0..6),
        body in proptest::collection::vec(any::<u8>(), 0..9),
    ) {
        let headers = headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let answer = seal(HttpResponse { status, headers, body: body.into() });
        prop_assert!(is_status(answer.status));
        prop_assert_eq!(answer.headers.iter().filter(|(name, _)| name == "x-content-type-options").count(), 1);
        prop_assert!(answer.headers.iter().filter(|(name, _)| name == "content-type").count() <= 1);
        for (name, value) in &answer.headers {
            prop_assert!(http::HeaderName::from_bytes(name.as_bytes()).is_ok(), "{}", name);
            prop_assert!(http::HeaderValue::from_bytes(value.as_bytes()).is_ok(), "{}", value);
            prop_assert!(name != "set-cookie");
        }
        prop_assert_eq!(&seal(answer.clone()), &answer);
    }
}

#[test]
fn the_response_to_a_start_is_sealed() {
    let id = ExecutionId::from_bytes([7; 16]);
    let made = finish(HttpResponse::json(200, &execution_id(&id)), &id);
    assert_eq!(started(&id), made);
}

#[test]
fn response_headers_are_bounded_in_number_and_bytes() {
    let is_sent = |headers: &str| respond(&parts(200, headers, Body::Empty), &id()).is_ok();
    let many = |count: usize| {
        let headers: Vec<String> = (0..count).map(|number| format!(r#""x-{number}":1"#)).collect();
        format!("{{{}}}", headers.join(","))
    };
    assert!(is_sent(&many(64)) && !is_sent(&many(65)));
    let long = |bytes: usize| format!(r#"{{"x-a":"{}"}}"#, "v".repeat(bytes - 3));
    assert!(is_sent(&long(16 << 10)) && !is_sent(&long((16 << 10) + 1)));
}
