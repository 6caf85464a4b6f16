//! Tests of bodies and pagination of `http.request`, and of `data.*`, `hash.*` and `text.*` as steps call them.

use pretty_assertions::assert_eq;

use super::*;

fn shown(result: Result<Value, ActionError>) -> String {
    result.map_or_else(|error| error.into_message(), |value| value.to_json())
}

#[tokio::test]
async fn a_body_is_sent_in_the_requested_encoding() {
    let server = Server::start(|_, _| reply(JSON, b"{}")).await;
    let sent = async |body: &str| {
        let inputs = format!(r#"{{"url": "{}", "method": "POST", {body}}}"#, server.url("/x"));
        call("http.request", &inputs, None).await.expect("an answer");
        server.requests().last().expect("a request").clone()
    };
    let json = sent(r#""body": {"a": [1]}"#).await;
    assert!(json.contains("content-type: application/json") && json.ends_with("{\"a\":[1]}"), "{json}");
    let text = sent(r#""body": "hello", "headers": {"content-type": "text/x-own"}"#).await;
    assert!(text.contains("content-type: text/x-own") && text.ends_with("\r\n\r\nhello"), "{text}");
    let form = sent(r#""form": {"a": "1 2", "b": ["x", "y"]}"#).await;
    assert!(
        form.contains("application/x-www-form-urlencoded") && form.ends_with("a=1%202&b=x&b=y"),
        "{form}"
    );
    let parts = sent(r#""multipart": {"a": "1", "b": {"c": 2}}"#).await;
    assert!(
        parts.contains("multipart/form-data; boundary=")
            && parts.contains("name=\"b\"\r\nContent-Type: application/json\r\n\r\n{\"c\":2}"),
        "{parts}"
    );
    let both =
        format!(r#"{{"url": "{}", "method": "POST", "body": 1, "multipart": {{"a": 1}}}}"#, server.url("/x"));
    assert_eq!(
        shown(call("http.request", &both, None).await),
        "only one of `body`, `form` and `multipart` can be given"
    );
}

/// Returns the combined body of all pages, and the request lines.
async fn pages(
    paging: &str,
    respond: impl Fn(usize, &str) -> ServerReply + Send + Sync + 'static,
) -> (String, Vec<String>) {
    let server = Server::start(respond).await;
    let inputs =
        format!(r#"{{"url": "{}", "query": {{"state": "open"}}, "paging": {paging}}}"#, server.url("/items"));
    let result = call("http.request", &inputs, None).await;
    let body = result.map(|result| result.get("body").unwrap_or_default());
    let lines = server.requests().into_iter().map(|request| {
        request
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("GET ")
            .trim_end_matches(" HTTP/1.1")
            .to_owned()
    });
    (shown(body), lines.collect())
}

fn json(body: &str) -> ServerReply {
    reply(JSON, body.as_bytes())
}

#[tokio::test]
async fn every_pagination_style_is_followed() {
    let linked = |count: usize, _: &str| match count {
        0 => reply(&format!("{JSON}\r\nlink: </items?state=open&after=9>; rel=\"next\""), b"[1,2]"),
        _ => json("[3]"),
    };
    assert_eq!(
        pages("{}", linked).await,
        ("[1,2,3]".to_owned(), vec!["/items?state=open".to_owned(), "/items?state=open&after=9".to_owned()])
    );
    let cursor = |count: usize, _: &str| {
        json([r#"{"data":{"rows":[1]},"next":"a=="}"#, r#"{"data":{"rows":[2]},"next":null}"#][count])
    };
    assert_eq!(
        pages(r#"{"style": "cursor", "next": "next", "parameter": "after", "items": "data.rows"}"#, cursor)
            .await,
        (
            "[1,2]".to_owned(),
            vec!["/items?state=open".to_owned(), "/items?state=open&after=a%3D%3D".to_owned()]
        )
    );
    let counted = |count: usize, _: &str| json(["[1,2]", "[3]", "[]"][count]);
    assert_eq!(
        pages(r#"{"style": "offset"}"#, counted).await,
        (
            "[1,2,3]".to_owned(),
            vec![
                "/items?state=open".to_owned(),
                "/items?state=open&offset=2".to_owned(),
                "/items?state=open&offset=3".to_owned()
            ]
        )
    );
    let (few, lines) = pages(r#"{"style": "page", "maxItems": 2}"#, counted).await;
    assert_eq!((few.as_str(), lines.len()), ("[1,2]", 1));
}

#[tokio::test]
async fn pagination_never_leaves_the_host_nor_loops() {
    let away = |_: usize, _: &str| reply(&format!("{JSON}\r\nlink: <http://10.0.0.1/x>; rel=next"), b"[1]");
    let (words, lines) = pages("{}", away).await;
    assert!(words.ends_with("links the next page of the list at another address than its own"), "{words}");
    assert_eq!(lines.len(), 1);
    let circle = |_: usize, _: &str| reply(&format!("{JSON}\r\nlink: </items?state=open>; rel=next"), b"[1]");
    let (words, _) = pages("{}", circle).await;
    assert!(words.ends_with("returns pages of the list again"), "{words}");
    let (words, _) = pages(r#"{"items": "rows"}"#, |_, _| json("[1]")).await;
    assert_eq!(words, "[1]", "a bare list is its own items");
    let (words, _) = pages(r#"{"items": "rows"}"#, |_, _| json("{}")).await;
    assert!(words.ends_with("answered without a list at `rows`"), "{words}");
}

#[tokio::test]
async fn a_service_that_ignores_page_or_offset_fails_at_its_second_response() {
    let same = |_: usize, _: &str| json(r#"{"items":[{"id":1},{"id":2}]}"#);
    for style in ["page", "offset"] {
        let (words, lines) = pages(&format!(r#"{{"style": "{style}", "items": "items"}}"#), same).await;
        let expected = format!(
            "returns pages of the list again: two pages have the same items; check that it supports the \
             parameter `{style}`"
        );
        assert!(words.ends_with(&expected), "{words}");
        assert_eq!(lines.len(), 2);
    }
    let turns = |count: usize, _: &str| json(["[{\"id\":1}]", "[{\"id\":2}]", "[{\"id\":3}]"][count % 3]);
    let (words, lines) = pages(r#"{"style": "page"}"#, turns).await;
    assert!(words.contains("returns pages of the list again"), "{words}");
    assert_eq!(lines.len(), 4);
    let plain = |count: usize, _: &str| json(["[0,0]", "[1,1]", "[0,0]", "[]"][count]);
    let (all, _) = pages(r#"{"style": "page"}"#, plain).await;
    assert_eq!(all, "[0,0,1,1,0,0]", "plain values are often equal by chance");
}

#[tokio::test]
async fn a_304_is_a_result_only_for_a_conditional_request() {
    let server = Server::start(|_, _| reply("304 Not Modified\r\netag: v1", b"")).await;
    let url = server.url("/x");
    for condition in [r#""if-none-match": "v1""#, r#""If-Modified-Since": "Sat, 21 Nov 2026 08:00:30 GMT""#] {
        let inputs =
            format!(r#"{{"url": "{url}", "headers": {{{condition}}}, "paging": {{"style": "page"}}}}"#);
        let result = call("http.request", &inputs, None).await.expect("a result");
        assert_eq!(result.get("statusCode"), Some(Value::from(304)));
        assert_eq!(result.get("body"), Some(Value::Null));
    }
    let error = call("http.request", &format!(r#"{{"url": "{url}"}}"#), None).await.expect_err("unasked");
    assert_eq!(error.status, Some(304));
}

#[tokio::test]
async fn an_unfollowed_redirect_names_its_target() {
    let server = Server::start(|_, _| reply("303 See Other\r\nlocation: /orders/17?x=1", b"")).await;
    let inputs = format!(r#"{{"url": "{}", "method": "POST", "body": {{}}}}"#, server.url("/orders"));
    let error = call("http.request", &inputs, None).await.expect_err("no answer");
    let target = server.url("/orders/17?x=1");
    assert!(
        error.message.ends_with(&format!("; it redirects to `{target}`, which only GET and HEAD follow")),
        "{error}"
    );
}

#[tokio::test]
async fn data_actions_convert_values() {
    for (action, inputs, expected) in [
        ("data.parseJson", r#"{"data": "{\"id\": 9007199254740993}"}"#, r#"{"id":9007199254740993}"#),
        ("data.toJson", r#"{"value": [1, null]}"#, r#""[1,null]""#),
        ("data.toJson", r#"{"value": [1], "pretty": true}"#, r#""[\n  1\n]""#),
        ("data.parseXml", r#"{"data": "<a><b>1</b></a>", "lists": ["b"]}"#, r#"{"a":{"b":["1"]}}"#),
        (
            "data.toXml",
            r#"{"value": {"a": {"b": ["1", "2"]}}, "declaration": false}"#,
            r#""<a><b>1</b><b>2</b></a>""#,
        ),
        ("hash.digest", r#"{"data": "abc", "algorithm": "md5"}"#, r#""900150983cd24fb0d6963f7d28e17f72""#),
        (
            "hash.hmac",
            r#"{"data": "what do ya want for nothing?", "key": "Jefe"}"#,
            r#""5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843""#,
        ),
        ("text.join", r#"{"items": ["a", "", 7], "separator": "/", "skipEmpty": true}"#, r#""a/7""#),
        ("text.replace", r#"{"text": "a.b", "find": ".", "with": "-"}"#, r#""a-b""#),
        ("data.parseJson", r#"{"data": "{"}"#, ""),
        (
            "data.toXml",
            r#"{"value": {}}"#,
            "`data.toXml`: `value` must have exactly one entry: the root element",
        ),
        ("hash.hmac", r#"{"data": "x", "key": ""}"#, "`hash.hmac`: `key` is empty"),
    ] {
        let made = shown(call(action, inputs, None).await);
        if expected.is_empty() {
            assert!(made.starts_with(&format!("`{action}`: ")), "{made}");
        } else {
            assert_eq!(made, expected, "{action}");
        }
    }
}

#[tokio::test]
async fn the_examples_of_pure_actions_return_the_declared_type() {
    let registry = builtin();
    let mut tried = 0;
    for action in registry.actions().filter(|action| action.spec().effect == Effect::Pure) {
        let spec = action.spec();
        let with = spec.example.as_map().cloned().unwrap_or_default();
        let (result, _, _) = call_with(local(), &spec.name, with, None, false).await;
        let result = result.unwrap_or_else(|error| panic!("{}: {error}", spec.name));
        assert_eq!(spec.results.type_mismatches(&result), Vec::<String>::new(), "{}", spec.name);
        tried += 1;
    }
    assert!(tried >= 14, "{tried}");
}

#[tokio::test]
async fn a_paginated_list_is_bounded_in_bytes() {
    let large = |count: usize, _: &str| {
        let body = format!("[\"{}\"]", "x".repeat(6 << 20));
        reply(&format!("{JSON}\r\nlink: </items?after={count}>; rel=\"next\""), body.as_bytes())
    };
    let (words, lines) = pages("{}", large).await;
    assert!(words.contains("is larger than 16MiB or 10000 pages"), "{}", words.len());
    assert_eq!(lines.len(), 3);
}
