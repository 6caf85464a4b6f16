//! The fault script, the budget of requests and the log.

use std::time::Duration;

use serde_json::json;
use wiki_simulator::{Fault, RateLimit, When};

use crate::client::{NONE, send, wiki};

#[tokio::test]
async fn a_scripted_status_has_the_v2_error_format_and_no_effect() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("POST", "/wiki/api/v2/pages").status(500)).unwrap();
    wiki.create("A", json!({})).await.is("500 INTERNAL_SERVER_ERROR");
    assert_eq!(wiki.get("/pages?title=A").await.len(), 0);
    wiki.create("A", json!({})).await.is("200");
    wiki.sim.fault(Fault::on("POST", "/oauth/token").status(503)).unwrap();
    wiki.call("POST /oauth/token", json!({})).await.is("503 SERVICE_UNAVAILABLE");
    wiki.call("POST /oauth/token", json!({})).await.is("401");
}

#[tokio::test]
async fn a_list_of_faults_hits_one_matching_call_after_the_other() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("GET", "*/pages").times(2).status(503)).unwrap();
    wiki.sim.fault(Fault::on("*", "*/p*s").status(502)).unwrap();
    for outcome in ["503 SERVICE_UNAVAILABLE", "503 SERVICE_UNAVAILABLE", "502 BAD_GATEWAY", "200"] {
        wiki.get("/pages").await.is(outcome);
        wiki.get("/spaces").await.is("200");
    }
    // One pattern fits the site and the gateway.
    wiki.sim.fault(Fault::on("GET", "/wiki/api/v2/spaces").always().status(403)).unwrap();
    let token = wiki.token();
    for _ in 0..2 {
        wiki.get("/spaces").await.is("403 FORBIDDEN");
        send(wiki.gateway("GET /spaces", &token)).await.is("403 FORBIDDEN");
    }
    wiki.get("/spaces/1").await.is("404 NOT_FOUND");
}

#[tokio::test]
async fn a_fault_response_can_be_html_or_any_body_with_headers() {
    let wiki = wiki().await;
    let fault = || Fault::on("GET", "*");
    wiki.sim.fault(fault().html(503)).unwrap();
    let html = wiki.get("/pages").await;
    assert!(
        html.is("503").text.starts_with("<html>") && html.header("content-type").starts_with("text/html")
    );
    wiki.sim.fault(fault().answer(200, json!({"odd": true}))).unwrap();
    assert_eq!(wiki.get("/pages").await.is("200").body, json!({"odd": true}));
    wiki.sim.fault(fault().answer(200, "not json at all")).unwrap();
    assert_eq!(wiki.get("/pages").await.is("200").text, "not json at all");
    wiki.sim.fault(fault().header("X-Extra", "1")).unwrap();
    let answer = wiki.get("/pages").await;
    assert_eq!(answer.is("200").header("x-extra"), "1");
}

#[tokio::test]
async fn retry_after_comes_in_seconds_as_a_date_or_not_at_all() {
    let wiki = wiki().await;
    let date = wiki.sim.now().plus(Duration::from_secs(7)).http_date();
    let limited = || Fault::on("*", "*").status(429);
    for (fault, retry_after) in [
        (limited().retry_after(7), "7"),
        (Fault { retry_after_as_date: true, ..limited().retry_after(7) }, date.as_str()),
        (limited(), ""),
    ] {
        wiki.sim.fault(fault).unwrap();
        assert_eq!(wiki.get("/pages").await.is("429 TOO_MANY_REQUESTS").header("retry-after"), retry_after);
    }
    assert!(date.ends_with(" GMT") && date.len() == "Thu, 15 Jan 2026 09:00:00 GMT".len(), "{date}");
}

#[tokio::test]
async fn a_reset_before_the_effect_leaves_nothing_and_one_after_it_leaves_the_page() {
    let wiki = wiki().await;
    for (title, when, left) in [("Before", When::Before, 0), ("After", When::After, 1)] {
        wiki.sim.fault(Fault::on("POST", "*/pages").reset(when)).unwrap();
        let body = json!({"spaceId": wiki.space.to_string(), "title": title});
        let error = wiki.request("POST /pages").json(&body).send().await.unwrap_err();
        assert!(error.is_request() && error.status().is_none(), "{error:?}");
        assert_eq!(wiki.get(&format!("/pages?title={title}")).await.len(), left, "{title}");
    }
    let posts = wiki.sim.requests_to("POST", "*/pages");
    assert_eq!(posts.len(), 2);
    assert!(posts.iter().all(|request| request.status.is_none()));
}

#[tokio::test]
async fn a_truncated_body_ends_before_its_content_length() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("GET", "*").truncated()).unwrap();
    let response = wiki.request("GET /pages").send().await.unwrap();
    assert!(response.status() == 200 && response.content_length().unwrap() > 0);
    assert!(response.text().await.is_err());
    wiki.get("/pages").await.is("200");
}

#[tokio::test]
async fn a_held_call_waits_for_its_release_before_or_after_its_effect() {
    let wiki = wiki().await;
    for (title, when, already) in [("Before", When::Before, 0), ("After", When::After, 1)] {
        wiki.sim.fault(Fault::on("POST", "*/pages").hold(when)).unwrap();
        let body = json!({"spaceId": wiki.space.to_string(), "title": title});
        let call = tokio::spawn(send(wiki.request("POST /pages").json(&body)));
        wiki.sim.wait_for_held(1).await.unwrap();
        assert_eq!(wiki.get(&format!("/pages?title={title}")).await.len(), already);
        wiki.sim.release();
        call.await.unwrap().is("200");
        wiki.sim.wait_for_held(0).await.unwrap();
    }
}

#[tokio::test]
async fn a_held_call_ends_with_its_client_or_with_the_simulator() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("GET", "*/pages").always().hold(When::Before)).unwrap();
    let call = || tokio::spawn(wiki.request("GET /pages").send());
    let gone = call();
    wiki.sim.wait_for_held(1).await.unwrap();
    gone.abort();
    wiki.sim.wait_for_held(0).await.unwrap();
    let held = call();
    wiki.sim.wait_for_held(1).await.unwrap();
    let address = wiki.sim.base_url().to_owned();
    wiki.sim.stop().await;
    assert!(held.await.unwrap().is_err());
    assert!(wiki.http.get(address).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn an_oversized_body_gets_413_and_the_simulator_stays_up() {
    let wiki = wiki().await;
    let huge = vec![b'x'; 64 * 1024 * 1024 + 1];
    // The connection may be gone before the client has sent it all: both ends of that are fine.
    if let Ok(response) = wiki.request("POST /pages").body(huge).send().await {
        assert_eq!(response.status(), 413);
    }
    wiki.get("/pages").await.is("200");
}

#[tokio::test]
async fn the_log_shows_the_requests_in_their_order_and_can_be_cleared() {
    let wiki = wiki().await;
    wiki.get("/pages?limit=3&status=current,archived").await.is("200");
    wiki.create("A", json!({})).await.is("200");
    wiki.get("/pages/99").await.is("404 NOT_FOUND");
    let requests = wiki.sim.requests();
    assert_eq!(requests.iter().map(|request| request.status.unwrap()).collect::<Vec<_>>(), [200, 200, 404]);
    assert_eq!(requests[0].query("status"), Some("current,archived"));
    assert_eq!(requests[1].json()["title"], "A");
    assert_eq!(requests[1].header("Content-Type"), Some("application/json"));
    wiki.sim.clear_requests();
    assert_eq!(wiki.sim.count("*", "*"), 0);
}

#[tokio::test]
async fn responses_have_rate_limit_headers_and_429_has_retry_after() {
    let wiki = wiki().await;
    wiki.sim.rate_limit(Some(RateLimit::new(5, Duration::from_secs(10))));
    let reset = wiki.sim.now().plus(Duration::from_secs(10)).to_string();
    for (path, remaining, near) in [
        ("/pages", "4", "false"),
        ("/pages/99", "3", "false"),
        ("/pages", "2", "false"),
        ("/pages", "1", "false"),
        ("/pages", "0", "true"),
    ] {
        let answer = wiki.get(path).await;
        let headers = ["limit", "remaining", "nearlimit", "reset"]
            .map(|name| answer.header(&format!("x-ratelimit-{name}")));
        assert_eq!(headers, ["5", remaining, near, &reset]);
    }
    let over = wiki.get("/pages").await;
    assert_eq!((over.is("429").header("retry-after"), over.header("x-ratelimit-remaining")), ("10", "0"));
    assert_eq!(over.header("ratelimit-reason"), "wiki-burst-based");
    wiki.sim.advance(Duration::from_secs(10));
    wiki.get("/pages").await.is("200");
}

#[tokio::test]
async fn a_call_during_the_rate_limit_window_gets_429_again() {
    let wiki = wiki().await;
    wiki.sim.rate_limit(Some(RateLimit::new(1, Duration::from_secs(10))));
    wiki.get("/pages").await.is("200");
    for pause in [4, 5] {
        wiki.sim.advance(Duration::from_secs(pause));
        assert_eq!(wiki.get("/pages").await.is("429").header("retry-after"), "6");
    }
    wiki.sim.advance(Duration::from_secs(6));
    wiki.get("/pages").await.is("200");
}

#[tokio::test]
async fn each_credential_has_a_budget_of_its_own_and_a_refused_write_has_no_effect() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.sim.rate_limit(Some(RateLimit::new(1, Duration::from_secs(10))));
    wiki.get("/pages").await.is("200");
    wiki.call(&format!("DELETE /pages/{page}"), NONE).await.is("429");
    send(wiki.gateway("GET /pages", &wiki.token())).await.is("200");
    for _ in 0..3 {
        send(wiki.open("GET /pages")).await.is("401 UNAUTHORIZED");
    }
    wiki.sim.rate_limit(None);
    wiki.get(&format!("/pages/{page}")).await.has(json!({"status": "current"}));
}
