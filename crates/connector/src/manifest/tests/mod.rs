mod download;
mod operation;
mod paging;
mod schema;
mod service;
mod session;
mod types;
mod upload;

use ::http::{HeaderMap, HeaderValue, StatusCode};
use bytes::Bytes;
use model::ActionError;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use text::diagnostic::Source;
use value::Map;
use value::redact::Redactor;

use super::*;
use crate::http::testing::{self, Lines, Server};
use crate::http::{Body, Request, Response};
use crate::input::check_inputs;
use crate::manifest::read::read;

/// Returns a manifest with these actions and some declared inputs.
fn manifest(actions: &str) -> String {
    format!(
        "connector: shop
title: Shop
version: 1.0.0
baseUrl: https://shop.example/v1
headers: {{x-client: cogwork}}
paging:
  input: cursor
  next: [{{body: meta.next}}, {{link: next, parameter: cursor}}, {{header: x-next}}]
inputs:
  id: {{type: text}}
  limit: {{type: integer, default: 10}}
  cursor: {{type: text}}
  tags: {{type: list, items: text}}
  ids: {{type: list, items: text, join: ','}}
  draft: {{type: boolean, default: false, omitDefault: true}}
  more: {{type: map, values: any}}
  item: {{type: object, fields: {{name: {{type: text}}}}}}
  data: {{type: any}}
  file: {{type: file}}
actions:
{actions}"
    )
}

fn read_text(text: &str) -> (Option<Manifest>, String) {
    let (manifest, report) = read(Arc::new(Source::new("shop.yaml", text)), &[]);
    let errors = report.entries().into_iter().filter(|entry| !entry.code.starts_with("unused-"));
    (manifest, errors.map(|entry| format!("{}:{}: {}\n", entry.line, entry.column, entry.message)).collect())
}

/// Returns the request of the first action for these inputs.
fn request(action: &str, inputs: &str) -> Result<Request, ActionError> {
    let (manifest, errors) = read_text(&manifest(action));
    let action = manifest.unwrap_or_else(|| panic!("{errors}")).actions.remove(0);
    let value = Value::from_json(inputs.as_bytes(), value::JsonLimits::default()).expect("JSON");
    let inputs = check_inputs(action.spec(), value.as_map().expect("a map"), &value::Reserved::nothing())?;
    action.prepare(&inputs, None).expect("it sends a request")
}

fn check(action: &str, inputs: &str, expected: &str) {
    let shown = match request(action, inputs) {
        Ok(request) => {
            let request = request.encoded().expect("it has no files outside of memory");
            let body = match &request.body {
                Body::Empty => String::new(),
                Body::Whole(data) => format!(" {}", String::from_utf8_lossy(&data.for_display())),
                Body::Multipart(parts) => parts
                    .iter()
                    .map(|part| {
                        format!(" {}={}", part.name, String::from_utf8_lossy(&part.content.for_display()))
                    })
                    .collect(),
            };
            format!("{} {}{body}", request.method, request.url)
        }
        Err(error) => error.into_message(),
    };
    assert_eq!(shown, expected);
}

const GET: &str = "  get:
    title: Get
    request: GET /items/{id}.json?view=full
    inputs: {id: path, tags: query tag, ids: query ids, draft: query draft, more: query}
    example: {with: {id: '1'}, request: GET /items/1.json?view=full}
";

#[test]
fn a_path_input_cannot_leave_its_path_segment() {
    check(
        GET,
        r#"{"id": "a b/../c?d#e%2f"}"#,
        "GET https://shop.example/v1/items/a%20b%2F..%2Fc%3Fd%23e%252f.json?view=full",
    );
    check(GET, r#"{"id": "ü\r\n"}"#, "GET https://shop.example/v1/items/%C3%BC%0D%0A.json?view=full");
    check(GET, r#"{"id": ""}"#, "`shop.get` cannot be called: `id` is empty");
    let plain = GET.replace(".json", "");
    for dots in [".", ".."] {
        let message =
            request(&plain, &format!(r#"{{"id": "{dots}"}}"#)).expect_err("it would leave").into_message();
        assert!(message.contains("lead away"), "{message}");
    }
    check(&plain, r#"{"id": "%2e%2e"}"#, "GET https://shop.example/v1/items/%252e%252e?view=full");
}

#[test]
fn query_lists_repeat_or_join_and_empty_or_default_values_are_omitted() {
    let base = "GET https://shop.example/v1/items/1.json?view=full";
    check(GET, r#"{"id": 1, "draft": false}"#, base);
    check(
        GET,
        r#"{"id": 1, "tags": ["a&b", "c"], "ids": ["1", 2]}"#,
        &format!("{base}&tag=a%26b&tag=c&ids=1%2C2"),
    );
    check(GET, r#"{"id": 1, "draft": true}"#, &format!("{base}&draft=true"));
}

#[test]
fn an_empty_list_as_a_query_filter_is_rejected_and_null_omits_it() {
    let way_out = "leave the input out, or give null, where nothing is to be filtered, and skip the step with `if` where \
                   nothing is to be found";
    let refused = |inputs: &str, words: &str| {
        check(GET, inputs, &format!("`shop.get` cannot be called: {words}; {way_out}"));
    };
    refused(r#"{"id": 1, "tags": []}"#, "`tags` is an empty list, which would be no filter");
    refused(r#"{"id": 1, "ids": []}"#, "`ids` is an empty list, which would be no filter");
    refused(r#"{"id": 1, "more": {"x": 1, "y": []}}"#, "`more.y` is an empty list, which would be no filter");
    check(GET, r#"{"id": 1, "tags": null}"#, "GET https://shop.example/v1/items/1.json?view=full");
}

const FILTERS: &str = "connector: shop
title: Shop
version: 1.0.0
baseUrl: https://shop.example/v1
inputs:
  ids: {type: list, items: text, split: ','}
  title: {type: text, notEmpty: true}
  status: {type: choice, options: [current, draft]}
actions:
  list:
    title: List
    request: GET /items
    inputs: {ids: query id, title: query title}
    example: {with: {}, request: GET /items}
  create:
    title: Create
    request: POST /items
    inputs: {status: body status, title: {requiredUnless: {status: draft}, to: body title}}
    example: {with: {title: a}, request: POST /items, body: {title: a}}
";

/// Returns the query that an action of [`FILTERS`] sends, or its error.
fn filtered(action: usize, inputs: &str) -> String {
    let (manifest, errors) = read_text(FILTERS);
    let action = manifest.unwrap_or_else(|| panic!("{errors}")).actions.remove(action);
    let value = Value::from_json(inputs.as_bytes(), value::JsonLimits::default()).expect("JSON");
    let inputs = check_inputs(action.spec(), value.as_map().expect("a map"), &value::Reserved::nothing())
        .expect("inputs");
    match action.prepare(&inputs, None).expect("it sends a request") {
        Ok(request) => request.url.query().unwrap_or_default().to_owned(),
        Err(error) => error.into_message(),
    }
}

#[test]
fn a_comma_separated_text_is_split_into_repeated_parameters() {
    assert_eq!(filtered(0, r#"{"ids": "1, 2,"}"#), "id=1&id=2");
    assert_eq!(filtered(0, r#"{"ids": ["1", "2,3"]}"#), "id=1&id=2&id=3");
    assert!(filtered(0, r#"{"ids": ","}"#).contains("`ids` is an empty list"));
    assert!(filtered(0, r#"{"title": ""}"#).contains("`title` is empty, which would be no filter"));
    assert_eq!(filtered(0, r#"{"title": "a"}"#), "title=a");
}

#[test]
fn an_input_may_be_required_unless_another_has_a_value() {
    let missing =
        "`shop.create` cannot be called: `title` is missing; it may be left out only with `status: draft`";
    for inputs in ["{}", r#"{"status": "current"}"#] {
        assert_eq!(filtered(1, inputs), missing);
    }
    assert_eq!(filtered(1, r#"{"status": "draft"}"#), "");
    assert_eq!(filtered(1, r#"{"title": "a"}"#), "");
    let unknown = FILTERS.replace("requiredUnless: {status: draft}", "requiredUnless: {state: draft}");
    assert!(read_text(&unknown).1.contains("`state` is not an input of this action"));
}

const TYPED: &str = "connector: shop
title: Shop
version: 1.0.0
baseUrl: https://shop.example/v1
inputs:
  id: {type: text}
types:
  Item: {type: object, fields: {id: text}}
actions:
  get:
    title: Get
    request: GET /items/{id}
    inputs: {id: path}
    results: Item
    example: {with: {id: '1'}, request: GET /items/1}
  list:
    title: List
    request: PUT /items
    results: {type: list, items: Item}
    example: {with: {}, request: PUT /items}
  delete:
    title: Delete
    request: DELETE /items
    results: 'null'
    example: {with: {}, request: DELETE /items}
  find:
    title: Find
    request: GET /found
    results: {type: Item, nullable: true}
    example: {with: {}, request: GET /found}
";

/// Returns the result of an action of [`TYPED`] for a response.
async fn answered(action: usize, head: &'static str, body: &'static str) -> Result<String, ActionError> {
    let server = Server::start(move |_, _| testing::reply(head, body.as_bytes())).await;
    let text = TYPED.replace("https://shop.example/v1", &server.url("/v1"));
    let (manifest, errors) = read_text(&text);
    let action = manifest.unwrap_or_else(|| panic!("{errors}")).actions.remove(action);
    let http = testing::http(testing::local());
    let inputs =
        if action.spec().name.ends_with("get") { [("id", "1")].into_iter().collect() } else { Map::new() };
    let result = action.call(testing::call(&http, &inputs, None, &Lines::default())).await;
    result.map(|value| value.to_json())
}

#[tokio::test]
async fn a_response_of_another_type_than_declared_is_an_error() {
    for (head, body, expected) in [
        ("200 OK", "", "Shop answered 200 with nothing where Item was expected"),
        ("200 OK", "null", "Shop answered 200 with nothing where Item was expected"),
        ("204 No Content", "", "Shop answered 204 with nothing where Item was expected"),
        ("200 OK", "[1,2]", "Shop answered 200 with a list where Item was expected"),
        ("200 OK", "7", "Shop answered 200 with a number where Item was expected"),
    ] {
        let error = answered(0, head, body).await.expect_err("no item");
        assert_eq!((error.message.as_str(), error.outcome_unknown), (expected, false));
    }
    let error = answered(1, "200 OK", "{}").await.expect_err("no list");
    assert_eq!(error.message, "Shop answered 200 with a map where list of Item was expected");
    assert!(error.outcome_unknown, "a change was made all the same");
    for (action, head, body) in [
        (0, "200 OK", "{}"),
        (1, "200 OK", "[]"),
        (2, "204 No Content", ""),
        (3, "200 OK", ""),
        (3, "200 OK", "{}"),
    ] {
        answered(action, head, body).await.expect("it fits");
    }
}

#[test]
fn a_spread_map_comes_last_and_overrides() {
    let expected = "GET https://shop.example/v1/items/1.json?view=short&draft=maybe";
    check(
        GET,
        r#"{"id": 1, "draft": true, "more": {"view": "short", "draft": "maybe", "x": null}}"#,
        expected,
    );
}

#[test]
fn body_paths_nest_and_fixed_values_are_always_sent() {
    let action = "  put:
    title: Put
    request: PUT /items/{id}
    inputs: {id: [path, body item.id], data: body item.data, limit: body max}
    fixed: {body item.kind: order, header x-kind: order, query v: 2}
    example:
      with: {id: '1'}
      request: PUT /items/1?v=2
      headers: {x-kind: order, x-client: cogwork, accept: application/json, content-type: application/json}
      body: {item: {kind: order, id: '1'}, max: 10}
";
    check(
        action,
        r#"{"id": 7, "data": [1], "limit": 3}"#,
        r#"PUT https://shop.example/v1/items/7?v=2 {"item":{"kind":"order","id":"7","data":[1]},"max":3}"#,
    );
}

#[test]
fn a_body_is_encoded_as_json_form_multipart_or_bytes() {
    let action = |encoding: &str, body: &str| {
        format!(
            "  post:
    title: Post
    request: POST /items
    encoding: {encoding}
    inputs: {{id: body id, tags: body tag, file: body file}}
    example: {{with: {{id: '1'}}, request: POST /items, body: {body}}}
"
        )
    };
    check(
        &action("form", "id=1"),
        r#"{"id": "a b", "tags": ["x", "y&z"]}"#,
        "POST https://shop.example/v1/items id=a%20b&tag=x&tag=y%26z",
    );
    check(
        &action("multipart", "{id: '1'}"),
        r#"{"id": "a", "file": "text"}"#,
        "POST https://shop.example/v1/items id=a file=text",
    );
    let whole = "  post:
    title: Post
    request: POST /items
    inputs: {file: body}
    example: {with: {file: abc}, request: POST /items, headers: {content-type: text/plain; charset=utf-8}, body: abc}
";
    check(whole, r#"{"file": "bytes"}"#, "POST https://shop.example/v1/items bytes");
    check(whole, "{}", "POST https://shop.example/v1/items {}");
}

#[test]
fn a_header_input_cannot_inject_another_header() {
    let action = "  get:
    title: Get
    request: GET /items
    inputs: {id: header X-Id, more: header}
    example: {with: {id: '1'}, request: GET /items, headers: {x-id: '1'}}
";
    check(
        action,
        r#"{"id": "1\r\nx-evil: 1"}"#,
        "the header `x-id` holds a line break or another control character",
    );
    check(
        action,
        r#"{"more": {"host": "evil"}}"#,
        "the header `host` is set by the client itself; leave it out",
    );
}

/// Checks the messages for an action, which begins on line 21.
fn wrong(action: &str, expected: &str) {
    let (manifest, errors) = read_text(&manifest(action));
    assert!(manifest.is_none(), "it was accepted");
    assert_eq!(errors, expected);
}

#[test]
fn every_error_in_an_action_is_reported_at_its_position() {
    wrong(
        "  get:
    title: Get
    requst: GET /items
    inputs: {idd: path}
",
        "22:5: an action needs the key `request`
22:5: an action needs the key `example`
23:5: unknown key `requst` in an action
24:14: `idd` is not an input of this connector
",
    );
    wrong(
        "  get:
    title: Get
    request: GET /items/{id}/{other}
    inputs: {id: query id, cursor: path, item: query item, limit: query, data: body, tags: nowhere x}
    example: {with: {}, request: GET /items}
",
        "23:25: the path names `id`, which no input fills
23:30: the path names `other`, which no input fills
24:28: the path has no `{cursor}` for this input
24:42: a map cannot go there; send it in the body
24:60: only a map can be spread there; name the parameter
24:74: a GET carries no body
24:92: `nowhere x` is no place in a request
",
    );
    wrong(
        "  Get-It:
    title: Get
    request: FETCH /items
    paging: true
    example: {with: {}, request: x}
",
        "21:3: `Get-It` is not a name; use camelCase, letters and digits only
23:14: `FETCH` is not a method
24:5: a paginated list needs the input `cursor`
",
    );
    wrong(
        "  put:
    title: Put
    request: PUT items/{id
    inputs: {data: body, id: body id}
    example: {with: {}, request: x}
",
        "23:14: `items/{id` is not a path that begins with one `/`\n",
    );
    wrong(
        "  put:
    title: Put
    request: PUT /items
    inputs: {data: body, id: body id}
    example: {with: {}, request: x}
",
        "24:14: this is the whole body, so nothing else can go into it\n",
    );
}

#[test]
fn an_example_that_shows_another_request_is_an_error() {
    let action = |example: &str| {
        format!(
            "  put:
    title: Put
    request: PUT /items/{{id}}
    inputs: {{id: path, data: body data, draft: query draft}}
    example: {example}
"
        )
    };
    let says = |example: &str, expected: &str| {
        let (manifest, errors) = read_text(&manifest(&action(example)));
        assert!(manifest.is_none(), "it was accepted");
        assert!(errors.contains(expected), "{errors}");
    };
    says("{with: {id: 1, data: x}, request: PUT /items/2, body: {data: x}}", "the request is `PUT /items/1`");
    says(
        "{with: {id: 1, data: x}, request: POST /items/1, body: {data: x}}",
        "the request is `PUT /items/1`",
    );
    says(
        "{with: {id: 1, draft: true}, request: PUT /items/1, body: {}}",
        "the request is `PUT /items/1?draft=true`",
    );
    says("{with: {id: 1, data: x}, request: PUT /items/1, body: {data: y}}", r#"the body is `{"data":"x"}`"#);
    says("{with: {id: 1, data: x}, request: PUT /items/1}", r#"the body is `{"data":"x"}`"#);
    says("{with: {idd: 1}, request: PUT /items/1}", "`idd` is not an input");
    says(
        "{with: {id: 1}, request: PUT /items/1, body: {}, headers: {x-client: me}}",
        "the header `x-client` is `cogwork`",
    );
}

#[test]
fn errors_in_the_manifest_header_are_reported() {
    let text = "connector: Shop
title: ''
version: 1
baseUrl: ftp://x
paging: {input: nope, next: [{link: next}, {body: a, link: b}]}
inputs:
  a: {type: txt}
  b: {type: integer, min: 1, default: 0}
  c: {type: text, options: [x]}
  d: {type: boolean, omitDefault: true}
  e: {type: text, required: true, default: x}
connections:
  basic:
    title: Basic
    inputs: {user: {type: text}, key: {type: integer, secret: true}}
    auth: {basic: {user: usr, password: user}}
natives: {rawRequest: {}}
";
    let (manifest, errors) = read_text(text);
    assert!(manifest.is_none());
    for expected in [
        "1:12: `Shop` is not a name",
        "2:8: `title` must not be empty",
        "3:10: expected text for `version`",
        "`baseUrl` must begin with `https://` or `http://`",
        "`nope` is not an input of this connector",
        "a place of the next cursor needs the key `parameter`",
        "a place of the next cursor cannot have both `body` and `link`",
        "unknown value `txt` for `type`",
        "the default of `b` must be a whole number from 1, found 0",
        "unknown key `options` in an input",
        "`d` has no default to omit",
        "`e` has a default, so it cannot be required",
        "`key` is a secret, which only a text can be",
        "a connection type needs the key `baseUrl`",
        "`usr` is not an input of this connection type",
        "`user` is sent as a credential but is not marked as secret",
        "`rawRequest` is not a native action",
    ] {
        assert!(errors.contains(expected), "missing: {expected}\n{errors}");
    }
}

#[test]
fn an_unused_input_is_a_warning() {
    let (manifest, report) = read(Arc::new(Source::new("shop.yaml", manifest(GET))), &[]);
    assert!(manifest.is_some() && report.warning_count() == 5, "{}", report.render(false));
}

const LIST: &str = "  list:
    title: List
    request: GET /items
    inputs: {cursor: query cursor}
    paging: true
    example: {with: {}, request: GET /items}
";

/// Returns the next cursor of a response.
fn next(headers: &[(&'static str, &'static str)], body: &'static str) -> String {
    let (manifest, errors) = read_text(&manifest(LIST));
    let head = manifest.unwrap_or_else(|| panic!("{errors}")).head;
    let base = head.base.clone().expect("an address");
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_static(value));
    }
    let url = url::Url::parse("https://shop.example/v1/items").expect("a URL");
    let response = Response {
        parsed: None,
        status: StatusCode::OK,
        headers: map,
        body: Bytes::from_static(body.as_bytes()),
        url,
        redactor: Redactor::default(),
    };
    let body = response.json().unwrap_or_default();
    let paging = head.paging.as_ref().expect("it has pages");
    match page::next_cursor(paging, &head, &base, &Map::new(), &response, &body) {
        Ok(cursor) => cursor.to_json(),
        Err(error) => error.into_message(),
    }
}

#[test]
fn the_cursor_is_read_from_the_declared_body_path_link_or_header() {
    assert_eq!(next(&[], r#"{"meta": {"next": "abc=="}}"#), r#""abc==""#);
    assert_eq!(next(&[], r#"{"meta": {"next": 17}}"#), r#""17""#);
    assert_eq!(next(&[("link", "</v1/items?cursor=a==&x=1>; rel=\"next\"")], "{}"), r#""a==""#);
    assert_eq!(
        next(&[("link", "<https://shop.example/wiki>; rel=\"base\""), ("x-next", "h")], "{}"),
        r#""h""#
    );
    assert_eq!(next(&[], r#"{"meta": {"next": null}}"#), "null");
    assert_eq!(next(&[("link", "</v1/items?page=2>; rel=next")], "{}"), "null");
}

#[test]
fn pagination_never_follows_a_link_to_another_host() {
    for link in ["<https://evil.example/?cursor=a>; rel=next", "<//evil.example/?cursor=a>; rel=next"] {
        assert_eq!(
            next(&[("link", link)], "{}"),
            "Shop links the next page of the list at another address than its own"
        );
    }
}

/// Returns the result of the list action for a response.
async fn list(answer: &'static [u8]) -> Result<Value, ActionError> {
    let server =
        Server::start(move |_, _| testing::reply("200 OK\r\ncontent-type: application/json", answer)).await;
    let text = manifest(LIST).replace("https://shop.example/v1", &server.url("/v1"));
    let (manifest, errors) = read_text(&text);
    let action = manifest.unwrap_or_else(|| panic!("{errors}")).actions.remove(0);
    let (http, lines) = (testing::http(testing::local()), Lines::default());
    action.call(testing::call(&http, &Map::new(), None, &lines)).await
}

#[tokio::test]
async fn a_page_is_returned_unchanged_with_its_next_cursor() {
    let page = list(br#"{"results": [{"id": "1"}], "meta": {"next": "c", "odd": 9007199254740993}}"#).await;
    let expected = r#"{"results":[{"id":"1"}],"meta":{"next":"c","odd":9007199254740993},"nextCursor":"c"}"#;
    assert_eq!(page.expect("a page").to_json(), expected);
    assert_eq!(list(b"[1, 2]").await.expect("a page").to_json(), r#"{"results":[1,2],"nextCursor":null}"#);
    assert_eq!(list(b"").await.expect("nothing"), Value::Null);
    let error = list(b"<!doctype html>").await.expect_err("no JSON");
    assert_eq!(error.message, "Shop answered 200 with an HTML page where JSON was expected");
}

proptest! {
    #[test]
    fn no_damaged_manifest_makes_the_parser_panic(at in 0_usize..900, length in 0_usize..40, put in "[ {}\\[\\]:,a-z/?'\n-]{0,12}") {
        let mut text = manifest(GET);
        let start = text.floor_char_boundary(at);
        let end = text.ceil_char_boundary((start + length).min(text.len()));
        text.replace_range(start..end, &put);
        let (manifest, errors) = read_text(&text);
        prop_assert_eq!(manifest.is_none(), !errors.is_empty(), "{}", errors);
    }
}
