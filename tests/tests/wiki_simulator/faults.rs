//! The fault script over a real connection.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tests::wiki::{Fault, When};

use crate::client::{send, wiki};

#[tokio::test]
async fn a_scripted_status_answers_once_in_the_v2_shape_and_without_effect() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("POST", "/wiki/api/v2/pages").status(500)).unwrap();
    wiki.create("A", json!({})).await.is_error(500, "INTERNAL_SERVER_ERROR");
    assert!(wiki.get("/pages?title=A").await.ids().is_empty());
    wiki.create("A", json!({})).await.is(200);
    assert!(wiki.sim.pending_faults().is_empty());
}

#[tokio::test]
async fn a_500_can_hide_that_the_page_was_created() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("POST", "*/pages").status(500).after_effect()).unwrap();
    wiki.create("A", json!({})).await.is(500);
    assert_eq!(wiki.get("/pages?title=A").await.ids().len(), 1);
    assert_eq!(wiki.sim.count("POST", "*/pages"), 1, "whoever repeats a POST is found out here");
}

#[tokio::test]
async fn the_nth_calls_are_hit_and_the_others_are_not() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("GET", "*/pages").nth(2).times(2).status(503)).unwrap();
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(wiki.get("/pages").await.status);
        wiki.get("/spaces").await.is(200);
    }
    assert_eq!(statuses, [200, 503, 503, 200]);
}

#[tokio::test]
async fn one_pattern_fits_the_site_and_the_gateway() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("GET", "/wiki/api/v2/spaces").always().status(403)).unwrap();
    let token = wiki.token();
    wiki.get("/spaces").await.is_error(403, "FORBIDDEN");
    send(wiki.gateway(Method::GET, "/spaces", &token)).await.is_error(403, "FORBIDDEN");
    wiki.sim.clear_faults();
    wiki.get("/spaces").await.is(200);
}

#[tokio::test]
async fn a_proxy_can_answer_in_html_and_a_body_can_be_anything() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("GET", "*").html(503)).unwrap();
    wiki.sim.fault(Fault::on("GET", "*").answer(200, json!({"odd": true}))).unwrap();
    wiki.sim.fault(Fault::on("GET", "*").answer(200, "not json at all")).unwrap();
    let html = wiki.get("/pages").await;
    assert!(html.is(503).text.starts_with("<html>"));
    assert!(html.header("content-type").starts_with("text/html"));
    assert_eq!(wiki.get("/pages").await.is(200).body, json!({"odd": true}));
    assert_eq!(wiki.get("/pages").await.is(200).text, "not json at all");
}

#[tokio::test]
async fn retry_after_comes_in_seconds_as_a_date_or_not_at_all() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("*", "*").too_many_requests().retry_after(7)).unwrap();
    wiki.sim.fault(Fault::on("*", "*").too_many_requests().retry_after_date(7)).unwrap();
    wiki.sim.fault(Fault::on("*", "*").too_many_requests()).unwrap();
    wiki.sim.fault(Fault::on("*", "*").status(503).retry_after(3)).unwrap();
    assert_eq!(wiki.get("/pages").await.is(429).header("retry-after"), "7");
    let date = wiki.sim.now().plus(Duration::from_secs(7)).http_date();
    assert_eq!(wiki.get("/pages").await.is(429).header("retry-after"), date);
    assert!(wiki.get("/pages").await.is(429).headers.get("retry-after").is_none());
    assert_eq!(wiki.get("/pages").await.is(503).header("retry-after"), "3");
}

#[tokio::test]
async fn headers_of_a_real_answer_can_be_changed_and_removed() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("GET", "*").header("X-Extra", "1").header("Link", "")).unwrap();
    let answer = wiki.get("/pages").await;
    assert_eq!(answer.is(200).header("x-extra"), "1");
    assert!(answer.headers.get("link").is_none());
}

#[tokio::test]
async fn a_reset_before_the_effect_leaves_nothing_and_one_after_it_leaves_the_page() {
    let wiki = wiki().await;
    for (title, when, left) in [("Before", When::Before, 0), ("After", When::After, 1)] {
        wiki.sim.fault(Fault::on("POST", "*/pages").reset(when)).unwrap();
        let body = json!({"spaceId": wiki.space.to_string(), "title": title});
        let error = wiki.v2(Method::POST, "/pages").json(&body).send().await.unwrap_err();
        assert!(error.is_request() && error.status().is_none(), "{error:?}");
        assert_eq!(wiki.get(&format!("/pages?title={title}")).await.ids().len(), left, "{title}");
    }
    assert_eq!(wiki.sim.count("POST", "*/pages"), 2);
    assert!(
        wiki.sim
            .requests_to("POST", "*/pages")
            .iter()
            .all(|request| request.status.is_none() && request.fault)
    );
}

#[tokio::test]
async fn a_truncated_body_breaks_off_although_its_length_was_announced() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("GET", "*").truncated()).unwrap();
    let response = wiki.v2(Method::GET, "/pages").send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.content_length().unwrap() > 0);
    assert!(response.text().await.is_err());
    wiki.get("/pages").await.is(200);
}

#[tokio::test]
async fn a_delay_makes_a_client_with_less_patience_give_up() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("GET", "*").delay(Duration::from_secs(60))).unwrap();
    let request = wiki.v2(Method::GET, "/pages").timeout(Duration::from_millis(50));
    assert!(request.send().await.unwrap_err().is_timeout());
    wiki.sim.fault(Fault::on("GET", "*").delay(Duration::from_millis(30))).unwrap();
    let start = Instant::now();
    wiki.get("/pages").await.is(200);
    assert!(start.elapsed() >= Duration::from_millis(30));
}

#[tokio::test]
async fn a_held_call_waits_for_its_release_before_or_after_its_effect() {
    let wiki = wiki().await;
    for (title, when, already) in [("Before", When::Before, 0), ("After", When::After, 1)] {
        wiki.sim.fault(Fault::on("POST", "*/pages").hold(when)).unwrap();
        let body = json!({"spaceId": wiki.space.to_string(), "title": title});
        let call = tokio::spawn(send(wiki.v2(Method::POST, "/pages").json(&body)));
        wiki.sim.wait_for_held(1).await.unwrap();
        assert_eq!(wiki.get(&format!("/pages?title={title}")).await.ids().len(), already);
        wiki.sim.release();
        call.await.unwrap().is(200);
        assert_eq!(wiki.sim.held(), 0);
    }
}

#[tokio::test]
async fn a_held_call_of_a_client_that_went_away_is_let_go() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("GET", "*/pages").hold(When::Before)).unwrap();
    let call = tokio::spawn(send(wiki.v2(Method::GET, "/pages")));
    wiki.sim.wait_for_held(1).await.unwrap();
    call.abort();
    let _ = call.await;
    wiki.sim.wait_until_none_is_held().await.unwrap();
}

#[tokio::test]
async fn stopping_ends_held_and_delayed_calls() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("GET", "*/pages").hold(When::Before)).unwrap();
    wiki.sim.fault(Fault::on("GET", "*/spaces").delay(Duration::from_secs(600))).unwrap();
    let held = tokio::spawn(wiki.v2(Method::GET, "/pages").send());
    let delayed = tokio::spawn(wiki.v2(Method::GET, "/spaces").send());
    wiki.sim.wait_for_held(1).await.unwrap();
    wiki.sim.wait_for_requests("GET", "*/spaces", 1).await.unwrap();
    let address = wiki.sim.base_url().to_owned();
    wiki.sim.stop().await;
    // Answered or cut off, but over.
    let _ = held.await.unwrap();
    let _ = delayed.await.unwrap();
    assert!(wiki.http.get(address).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn faults_reach_the_token_endpoint_too() {
    let wiki = wiki().await;
    wiki.sim.fault(Fault::on("POST", "/oauth/token").status(503)).unwrap();
    send(wiki.open(Method::POST, "/oauth/token").json(&json!({}))).await.is(503);
    send(wiki.open(Method::POST, "/oauth/token").json(&json!({}))).await.is(401);
}

#[tokio::test]
async fn the_log_shows_what_was_sent_without_the_secrets() {
    let wiki = wiki().await;
    wiki.get("/pages?limit=3&status=current,archived").await.is(200);
    wiki.create("A", json!({"body": {"representation": "storage", "value": "<p/>"}})).await.is(200);
    wiki.get("/pages/99").await.is(404);
    let requests = wiki.sim.requests();
    assert_eq!(requests.iter().map(|request| request.status.unwrap()).collect::<Vec<_>>(), [200, 200, 404]);
    assert_eq!(requests[0].query("status"), Some("current,archived"));
    assert_eq!(requests[1].json()["title"], "A");
    assert!(requests[0].header("authorization").unwrap().starts_with("Basic sha256:"));
    assert_eq!(requests[0].header("authorization"), requests[2].header("authorization"));
    wiki.sim.clear_requests();
    assert_eq!(wiki.sim.count("*", "*"), 0);
}

#[tokio::test]
async fn a_body_above_every_limit_is_413_and_the_simulator_lives_on() {
    let wiki = wiki().await;
    let huge = vec![b'x'; 64 * 1024 * 1024 + 1];
    // The connection may be gone before the client has sent it all: both ends of that are fine.
    if let Ok(response) = wiki.v2(Method::POST, "/pages").body(huge).send().await {
        assert_eq!(response.status(), 413);
    }
    wiki.get("/pages").await.is(200);
}
