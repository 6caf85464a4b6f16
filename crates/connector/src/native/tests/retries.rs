//! Tests of the retries of Raw Request: the number of requests, the waits, and the final error message.

use pretty_assertions::assert_eq;

use super::*;

/// Calls a raw request against a server with these responses; returns the waits, the outcome and the number of
/// requests.
async fn retried(statuses: Vec<&'static str>, inputs: &str) -> (Vec<u128>, String, usize) {
    let server = Server::start(move |count, _| match statuses.get(count) {
        Some(&"reset") => ServerReply::Bytes(Vec::new()),
        Some(status) => reply(status, b""),
        None => reply(JSON, b"{}"),
    })
    .await;
    let inputs = map(&format!(r#"{{"url": "/x", {inputs}}}"#));
    let (result, waits, _) = call_with(local(), "wiki.rawRequest", inputs, Some(&wiki(&server)), false).await;
    let end = result.map_or_else(|error| error.into_message(), |_| "done".to_owned());
    (waits.iter().map(Duration::as_millis).collect(), end, server.requests().len())
}

#[tokio::test]
async fn the_configured_retry_delay_overrides_the_host_backoff() {
    let all = |rest: &str| format!(r#""method": "GET", "retryOnAllErrors": true, {rest}"#);
    let (waits, end, sent) = retried(vec!["429 x"; 6], &all(r#""maxRetryCount": 6"#)).await;
    assert_eq!((waits, end.as_str(), sent), (vec![0; 6], "done", 7));
    let (waits, end, sent) =
        retried(vec!["429 x"; 2], &all(r#""maxRetryCount": 3, "retryDelayMs": 100"#)).await;
    assert_eq!((waits, end.as_str(), sent), (vec![100, 100], "done", 3));
    let exponential = all(r#""maxRetryCount": 6, "useExponentialBackoff": true, "retryDelayMs": 9000"#);
    let (waits, end, sent) = retried(vec!["429 x"; 4], &exponential).await;
    assert_eq!((end.as_str(), sent, waits.len()), ("done", 5, 4));
    for (wait, least) in waits.iter().zip([200, 400, 800, 1600]) {
        assert!((least..=least + least / 5).contains(wait), "{waits:?}");
    }
}

#[tokio::test]
async fn endless_503_responses_are_retried_up_to_the_retry_count() {
    let inputs = r#""method": "GET", "maxRetryCount": 30"#;
    let (waits, end, sent) = retried(vec!["503 x"; 25], inputs).await;
    assert_eq!((waits, end.as_str(), sent), (vec![0; 25], "done", 26));
    let (_, end, sent) = retried(vec!["503 x"; 99], inputs).await;
    assert_eq!((end.as_str(), sent), ("the wiki answered 503 Service Unavailable (31 tries)", 31));
    let all = r#""method": "GET", "maxRetryCount": 4, "retryOnAllErrors": true"#;
    let (_, end, sent) = retried(vec!["429 x"; 99], all).await;
    assert_eq!((end.as_str(), sent), ("the wiki answered 429 Too Many Requests (5 tries)", 5));
}

#[tokio::test]
async fn waiting_for_a_hosts_retry_after_does_not_count_as_an_attempt() {
    let server = Server::start(|count, _| match count {
        0 => reply("429 x\r\nretry-after: 60", b""),
        1 => reply("500 x", b""),
        _ => reply(JSON, b"{}"),
    })
    .await;
    let (registry, waits, lines) = (builtin(), Arc::new(Waits::default()), Lines::default());
    let http = testing::http(HttpOptions { timer: waits.clone(), ..local() });
    let connection = wiki(&server);
    let action = registry.action("wiki.rawRequest").expect("an action");
    for (more, expected) in [("", "429"), (r#", "maxRetryCount": 1, "retryDelayMs": 5"#, "done")] {
        let inputs = map(&format!(r#"{{"url": "/x", "method": "GET"{more}}}"#));
        let inputs = check_inputs(action.spec(), &inputs, &value::Reserved::nothing()).expect("inputs");
        let result = action.call(testing::call(&http, &inputs, Some(&connection), &lines)).await;
        let end = result.map_or_else(|error| error.status.expect("a status").to_string(), |_| "done".into());
        assert_eq!(end, expected);
    }
    let waits: Vec<_> = waits.0.lock().expect("not poisoned").iter().map(Duration::as_millis).collect();
    assert_eq!((waits, server.requests().len()), (vec![60_000, 5], 3));
    let lines = lines.0.into_inner().expect("not poisoned");
    assert!(lines[0].ends_with("it asked not to be called before; the next try follows in 1m"), "{lines:?}");
}

#[tokio::test]
async fn a_retry_after_of_hours_is_capped_at_one_hour() {
    let server = Server::start(|_, _| reply("429 x\r\nretry-after: 18000", b"")).await;
    let inputs = r#"{"url": "/x", "method": "GET", "maxRetryCount": 3, "retryOnAllErrors": true}"#;
    let (result, waits, _) =
        call_with(local(), "wiki.rawRequest", map(inputs), Some(&wiki(&server)), false).await;
    let error = result.expect_err("refused");
    assert_eq!(waits, vec![Duration::from_secs(3600); 3]);
    assert_eq!(server.requests().len(), 4);
    let expected = "the wiki answered 429 Too Many Requests; it asks to wait 5h, of which 1h at most is waited (4 tries)";
    assert_eq!(error.message, expected);
}

#[tokio::test]
async fn a_lost_response_to_a_write_is_named_in_the_error_of_the_next_attempt() {
    let inputs = r#""method": "POST", "maxRetryCount": 2"#;
    let (_, end, sent) = retried(vec!["reset", "400 x"], inputs).await;
    assert_eq!(sent, 2);
    assert!(
        end.starts_with("the wiki answered 400 Bad Request (attempt 2; the answer to attempt 1 was lost: the connection to "),
        "{end}"
    );
    let (_, end, _) = retried(vec!["500 x", "409 x"], inputs).await;
    let expected = "the wiki answered 409 Conflict (attempt 2; attempt 1 may have been carried out: the wiki answered 500 \
                    Internal Server Error)";
    assert_eq!(end, expected);
    let (_, end, _) = retried(vec!["501 x", "409 x"], inputs).await;
    assert_eq!(end, "the wiki answered 409 Conflict (2 tries)", "501 says that nothing was done");
    let (_, end, _) = retried(vec!["reset", "404 x"], r#""method": "GET", "maxRetryCount": 2"#).await;
    assert_eq!(end, "the wiki answered 404 Not Found (2 tries)", "a read has no effect that could be lost");
}

#[tokio::test]
async fn error_data_includes_the_lost_attempt() {
    let server = Server::start(|count, _| match count {
        0 => reply("502 x", b""),
        _ => reply("409 x", b""),
    })
    .await;
    let inputs = map(r#"{"url": "/x", "method": "PUT", "maxRetryCount": 1}"#);
    let (result, _, _) = call_with(local(), "wiki.rawRequest", inputs, Some(&wiki(&server)), false).await;
    let error = result.expect_err("an error").to_value();
    let shown = |path: &str| error.path(path).map(|value| value.to_text());
    assert_eq!(shown("lostAttempt.attempt").as_deref(), Some("1"));
    assert_eq!(shown("lostAttempt.status").as_deref(), Some("502"));
    assert_eq!(shown("outcomeUnknown"), None, "409 is an outcome");
}
