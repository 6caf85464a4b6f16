//! Tests of page numbers, offsets, and `fetchAll`.

use std::sync::Arc;

use pretty_assertions::assert_eq;

use super::*;
use crate::http::HttpOptions;
use crate::http::testing::{ServerReply, Waits};

/// Returns a manifest of a list of items a, b, c, … of a service.
fn listing(paging: &str, answer: &str) -> String {
    format!(
        "connector: shop
title: Shop
version: 1.0.0
baseUrl: https://shop.example/v1
paging: {paging}
inputs:
  state: {{type: text}}
  limit: {{type: integer, min: 1, max: 100, default: 10}}
  at: {{type: text}}
actions:
  list:
    title: List
    request: GET /items
    inputs: {{at: query at, state: query state, limit: query limit}}
    paging: {answer}
    example: {{with: {{}}, request: GET /items?limit=10}}
"
    )
}

/// Returns the list for these inputs, the request lines and the waits between them.
async fn list(
    text: &str,
    inputs: &str,
    respond: impl Fn(usize, &str) -> ServerReply + Send + Sync + 'static,
) -> (Result<Value, ActionError>, Vec<String>, Vec<u64>) {
    list_into(text, inputs, respond, &Lines::default()).await
}

/// Returns the list for these inputs, and the log lines.
async fn list_logged(
    text: &str,
    inputs: &str,
    respond: impl Fn(usize, &str) -> ServerReply + Send + Sync + 'static,
) -> (Result<Value, ActionError>, Vec<String>) {
    let logged = Lines::default();
    let (result, _, _) = list_into(text, inputs, respond, &logged).await;
    (result, logged.0.into_inner().expect("not poisoned"))
}

async fn list_into(
    text: &str,
    inputs: &str,
    respond: impl Fn(usize, &str) -> ServerReply + Send + Sync + 'static,
    logged: &Lines,
) -> (Result<Value, ActionError>, Vec<String>, Vec<u64>) {
    let server = Server::start(respond).await;
    let text = text.replace("https://shop.example/v1", &server.url("/v1"));
    let (manifest, errors) = read_text(&text);
    let action = manifest.unwrap_or_else(|| panic!("{errors}")).actions.remove(0);
    let waits = Arc::new(Waits::default());
    let http = testing::http(HttpOptions { timer: waits.clone(), ..testing::local() });
    let inputs = Value::from_json(inputs.as_bytes(), value::JsonLimits::default()).expect("JSON");
    let inputs = check_inputs(action.spec(), inputs.as_map().expect("a map"), &value::Reserved::nothing())
        .expect("inputs");
    let result = action.call(testing::call(&http, &inputs, None, logged)).await;
    let lines = server.requests().into_iter().map(|request| {
        let line = request.lines().next().unwrap_or_default();
        line.trim_start_matches("GET /v1/items?").trim_end_matches(" HTTP/1.1").to_owned()
    });
    let waited = waits.0.lock().expect("not poisoned").iter().map(std::time::Duration::as_secs).collect();
    (result, lines.collect(), waited)
}

fn ok(body: &str) -> ServerReply {
    testing::reply("200 OK\r\ncontent-type: application/json", body.as_bytes())
}

fn shown(result: Result<Value, ActionError>) -> String {
    result.map_or_else(|error| error.into_message(), |value| value.to_json())
}

#[tokio::test]
async fn numbered_pages_are_fetched_until_a_page_is_empty() {
    let text = listing("{input: at, style: page, limit: limit, items: data.items}", "true");
    let pages = |count: usize, _: &str| {
        ok([
            "{\"data\":{\"items\":[\"a\",\"b\"]}}",
            "{\"data\":{\"items\":[\"c\"]}}",
            "{\"data\":{\"items\":[]}}",
        ][count])
    };
    let (one, _, _) = list(&text, r#"{"state": "open"}"#, pages).await;
    assert_eq!(shown(one), r#"{"data":{"items":["a","b"]},"nextCursor":"2"}"#);
    let (all, lines, _) = list(&text, r#"{"state": "open", "fetchAll": true}"#, pages).await;
    assert_eq!(shown(all), r#"{"data":{"items":["a","b","c"]},"nextCursor":null}"#);
    assert_eq!(lines, ["state=open&limit=100", "at=2&state=open&limit=100", "at=3&state=open&limit=100"]);
}

#[tokio::test]
async fn pagination_ends_by_the_declared_more_or_total_field() {
    let more = listing("{input: at, style: page, first: 0, more: hasMore, items: list}", "true");
    let pages = |count: usize, _: &str| {
        ok(["{\"list\":[1],\"hasMore\":true}", "{\"list\":[2],\"hasMore\":false}"][count])
    };
    let (all, lines, _) = list(&more, r#"{"fetchAll": true, "limit": 5}"#, pages).await;
    assert_eq!(shown(all), r#"{"list":[1,2],"hasMore":false,"nextCursor":null}"#);
    assert_eq!(lines, ["limit=5", "at=1&limit=5"], "the author's own limit is kept");

    let total = listing("{input: at, style: offset, total: total}", "{items: rows}");
    let pages =
        |count: usize, _: &str| ok(["{\"rows\":[1,2],\"total\":3}", "{\"rows\":[3],\"total\":3}"][count]);
    let (all, lines, _) = list(&total, r#"{"fetchAll": true}"#, pages).await;
    assert_eq!(shown(all), r#"{"rows":[1,2,3],"total":3,"nextCursor":null}"#);
    assert_eq!(lines, ["limit=10", "at=2&limit=10"]);
}

const CURSOR: &str = "{input: at, next: [{body: next}]}";

#[tokio::test]
async fn no_further_page_is_fetched_once_max_items_is_reached() {
    let text = listing(CURSOR, "true");
    let pages = |count: usize, _: &str| ok(&format!("{{\"results\":[1,2],\"next\":\"n{count}\"}}"));
    let (some, lines, _) = list(&text, r#"{"fetchAll": true, "maxItems": 3}"#, pages).await;
    assert_eq!(shown(some), r#"{"results":[1,2,1,2],"next":"n1","nextCursor":"n1"}"#);
    assert_eq!(lines.len(), 2);
}

#[tokio::test]
async fn a_repeated_cursor_or_a_page_without_items_is_an_error() {
    let text = listing(CURSOR, "true");
    let (circle, lines, _) =
        list(&text, r#"{"fetchAll": true}"#, |_, _| ok(r#"{"results":[1],"next":"same"}"#)).await;
    assert_eq!(shown(circle), "Shop returns pages of the list again");
    assert_eq!(lines.len(), 2);
    let (none, _, _) = list(&text, r#"{"fetchAll": true}"#, |_, _| ok(r#"{"rows":[1]}"#)).await;
    assert_eq!(shown(none), "Shop answered without a list at `results`");
}

#[tokio::test]
async fn a_cycle_of_cursors_is_an_error() {
    let text = listing(CURSOR, "true");
    let turns = |count: usize, _: &str| ok(&format!("{{\"results\":[1],\"next\":\"c{}\"}}", count % 3));
    let (circle, lines, _) = list(&text, r#"{"fetchAll": true}"#, turns).await;
    assert_eq!(shown(circle), "Shop returns pages of the list again");
    assert_eq!(lines.len(), 4);
    let (circle, lines, _) = list(&text, r#"{"fetchAll": true, "at": "c1"}"#, turns).await;
    assert_eq!(shown(circle), "Shop returns pages of the list again");
    assert_eq!(lines.len(), 2, "the cursor that the author began with counts too");
}

#[tokio::test]
async fn numbered_pages_that_repeat_are_an_error() {
    let text = listing("{input: at, style: page, first: 0, items: list}", "true");
    let same = |_: usize, _: &str| ok(r#"{"list":[{"id":1}]}"#);
    let (circle, lines, _) = list(&text, r#"{"fetchAll": true}"#, same).await;
    assert!(shown(circle).starts_with("Shop returns pages of the list again: two pages have the same items"));
    assert_eq!(lines.len(), 2);
}

#[tokio::test]
async fn endless_empty_pages_with_new_cursors_are_stopped() {
    let text = listing(CURSOR, "true");
    let none = |count: usize, _: &str| ok(&format!("{{\"results\":[],\"next\":\"c{count}\"}}"));
    let (result, lines, _) = list(&text, r#"{"fetchAll": true}"#, none).await;
    assert_eq!(shown(result), "the list of Shop does not end: 100 consecutive pages had no items; filter it");
    assert_eq!(lines.len(), 100);
    let sparse = |count: usize, _: &str| match count {
        150 => ok(r#"{"results":[2]}"#),
        _ => ok(&format!("{{\"results\":{},\"next\":\"c{count}\"}}", if count == 90 { "[1]" } else { "[]" })),
    };
    let (result, _, _) = list(&text, r#"{"fetchAll": true}"#, sparse).await;
    assert_eq!(shown(result), r#"{"results":[1,2],"nextCursor":null}"#);
}

#[tokio::test]
async fn a_list_truncated_at_its_limit_is_logged() {
    let text = listing(CURSOR, "true");
    let pages = |count: usize, _: &str| ok(&format!("{{\"results\":[1,2],\"next\":\"n{count}\"}}"));
    let (_, logged) = list_logged(&text, r#"{"fetchAll": true, "maxItems": 3}"#, pages).await;
    let expected = "Warn the list of Shop is truncated after 4 items; for more set `maxItems`";
    assert_eq!(logged, [expected]);
    let thousand = format!("1{}", ",1".repeat(999));
    let pages =
        move |count: usize, _: &str| ok(&format!("{{\"results\":[{thousand}],\"next\":\"n{count}\"}}"));
    let (_, logged) = list_logged(&text, r#"{"fetchAll": true}"#, pages).await;
    assert!(logged[0].contains("is truncated after 10000 items"), "{logged:?}");
    let whole = |_: usize, _: &str| ok(r#"{"results":[1,2,3]}"#);
    let (_, logged) = list_logged(&text, r#"{"fetchAll": true, "maxItems": 3}"#, whole).await;
    assert_eq!(logged, Vec::<String>::new());
}

#[tokio::test]
async fn only_the_failed_page_of_a_list_is_retried() {
    let text = listing(CURSOR, "true");
    let pages = |count: usize, _: &str| match count {
        0 => ok(r#"{"results":[1],"next":"b"}"#),
        1 => testing::reply("429 Too Many Requests\r\nretry-after: 7", b""),
        2 => testing::reply("503 Service Unavailable", b""),
        _ => ok(r#"{"results":[2]}"#),
    };
    let (all, lines, waits) = list(&text, r#"{"fetchAll": true}"#, pages).await;
    assert_eq!(shown(all), r#"{"results":[1,2],"nextCursor":null}"#);
    assert_eq!(lines, ["limit=10", "at=b&limit=10", "at=b&limit=10", "at=b&limit=10"]);
    assert_eq!(waits, [7, 2]);

    let refuses = |_: usize, _: &str| testing::reply("429 Too Many Requests\r\nretry-after: 600", b"");
    let (error, lines, waits) = list(&text, r#"{"fetchAll": true}"#, refuses).await;
    assert_eq!(error.expect_err("too long a wait").retry_after_ms, Some(600_000));
    assert_eq!((lines.len(), waits.len()), (1, 0));
    let (error, lines, _) =
        list(&text, r#"{"fetchAll": true}"#, |_, _| testing::reply("500 Oops", b"")).await;
    assert_eq!((error.expect_err("an error").status, lines.len()), (Some(500), 1));
}

#[tokio::test]
async fn a_list_is_bounded_in_bytes_and_each_page_in_attempts() {
    let text = listing(CURSOR, "true");
    let large = |count: usize, _: &str| {
        ok(&format!("{{\"results\":[\"{}\"],\"next\":\"n{count}\"}}", "x".repeat(6 << 20)))
    };
    let (result, lines, _) = list(&text, r#"{"fetchAll": true}"#, large).await;
    assert_eq!(shown(result), "the list of Shop is larger than 16MiB; filter it, or set `maxItems`");
    assert_eq!(lines.len(), 3);
    let busy = |_: usize, _: &str| testing::reply("503 Service Unavailable", b"");
    let (error, lines, _) = list(&text, r#"{"fetchAll": true}"#, busy).await;
    assert_eq!((error.expect_err("an error").status, lines.len()), (Some(503), 4));
}

#[tokio::test]
async fn the_next_page_begins_after_the_last_item_while_there_are_more() {
    let paging = "{input: at, next: [{lastItem: id}], more: has_more, items: data}";
    let (result, lines, _) = list(&listing(paging, "true"), r#"{"fetchAll": true}"#, |count, _| {
        ok(match count {
            0 => r#"{"data": [{"id": "a"}, {"id": "b"}], "has_more": true}"#,
            _ => r#"{"data": [{"id": "c"}], "has_more": false}"#,
        })
    })
    .await;
    let result = result.expect("both pages");
    assert_eq!(result.get("data").expect("items").to_json(), r#"[{"id":"a"},{"id":"b"},{"id":"c"}]"#);
    assert_eq!(result.get("nextCursor"), Some(Value::Null));
    assert_eq!(lines, ["limit=10", "at=b&limit=10"]);
}

#[tokio::test]
async fn a_link_in_the_body_is_requested_as_it_is() {
    let paging = "{input: at, next: [{bodyLink: '@odata.nextLink'}], items: value}";
    let (result, lines, _) =
        list(&listing(paging, "true"), r#"{"fetchAll": true, "state": "open"}"#, |count, request| {
            let host = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
            ok(&match count {
                0 => format!(r#"{{"value": [1], "@odata.nextLink": "http://{host}/v1/items?skip=1&x=%20"}}"#),
                _ => r#"{"value": [2]}"#.to_owned(),
            })
        })
        .await;
    assert_eq!(result.expect("both pages").get("value").expect("items").to_json(), "[1,2]");
    assert_eq!(lines, ["state=open&limit=10", "skip=1&x=%20"]);
}

#[tokio::test]
async fn a_link_in_the_body_never_leads_away_from_the_address() {
    let paging = "{input: at, next: [{bodyLink: next}], items: value}";
    for link in ["https://elsewhere.example/v1/items", "/v2/items", "//elsewhere.example/v1/items"] {
        let body = format!(r#"{{"value": [1], "next": "{link}"}}"#);
        let (result, _, _) = list(&listing(paging, "true"), "{}", move |_, _| ok(&body)).await;
        let message = result.expect_err("it leads away").into_message();
        assert_eq!(message, "Shop links the next page of the list at another address than its own");
    }
    let (result, lines, _) =
        list(&listing(paging, "true"), r#"{"at": "https://elsewhere.example/"}"#, |_, _| ok("{}")).await;
    let message = result.expect_err("it leads away").into_message();
    assert!(message.contains("`at` is not a link below"), "{message}");
    assert_eq!(lines, Vec::<String>::new());
}

#[tokio::test]
async fn a_cursor_may_go_into_the_body_of_a_read() {
    let text = listing("{input: at, next: [{body: next_cursor}], more: has_more}", "true")
        .replace("request: GET /items\n", "request: POST /items\n    effect: read\n")
        .replace(
            "at: query at, state: query state, limit: query limit",
            "at: body start_cursor, limit: body page_size",
        )
        .replace("request: GET /items?limit=10}", "request: POST /items, body: {page_size: 10}}")
        .replace("  state: {type: text}\n", "");
    let bodies = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = bodies.clone();
    let (result, _, waits) = list(&text, r#"{"fetchAll": true}"#, move |count, request| {
        seen.lock().expect("not poisoned").push(request.split_once("\r\n\r\n").expect("a body").1.to_owned());
        match count {
            0 => ok(r#"{"results": [1], "next_cursor": "c", "has_more": true}"#),
            1 => testing::reply("503 Service Unavailable", b""),
            _ => ok(r#"{"results": [2], "next_cursor": null, "has_more": false}"#),
        }
    })
    .await;
    assert_eq!(result.expect("both pages").get("results").expect("items").to_json(), "[1,2]");
    let again = r#"{"start_cursor":"c","page_size":10}"#;
    assert_eq!(*bodies.lock().expect("not poisoned"), [r#"{"page_size":10}"#, again, again]);
    assert_eq!(waits.len(), 1, "a page of a read is asked for again");
}
