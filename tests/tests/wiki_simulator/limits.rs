//! The budget of requests.

use std::time::Duration;

use reqwest::Method;
use tests::wiki::{RateLimit, RetryAfter, Simulator};

use crate::client::{Answer, send, user, wiki, wiki_with};

fn number(answer: &Answer, header: &str) -> u64 {
    answer.header(header).parse().unwrap_or_else(|_| panic!("no number in {header}: {:?}", answer.headers))
}

#[tokio::test]
async fn answers_tell_what_is_left_and_429_how_long_to_wait() {
    let wiki = wiki().await;
    wiki.sim.rate_limit(Some(RateLimit::new(5, Duration::from_secs(10))));
    let first = wiki.get("/pages").await;
    assert_eq!(number(&first, "x-ratelimit-limit"), 5);
    assert_eq!(number(&first, "x-ratelimit-remaining"), 4);
    assert_eq!(first.header("x-ratelimit-nearlimit"), "false");
    assert_eq!(first.header("x-ratelimit-reset"), wiki.sim.now().plus(Duration::from_secs(10)).to_string());
    for _ in 0..3 {
        wiki.get("/pages/99").await.is(404);
    }
    assert_eq!(wiki.get("/pages").await.header("x-ratelimit-nearlimit"), "true");
    let over = wiki.get("/pages").await;
    over.is(429);
    assert_eq!(number(&over, "retry-after"), 10);
    assert_eq!(number(&over, "x-ratelimit-remaining"), 0);
    assert_eq!(over.header("ratelimit-reason"), "wiki-burst-based");
    wiki.sim.advance(Duration::from_secs(10));
    wiki.get("/pages").await.is(200);
}

#[tokio::test]
async fn asking_before_the_wait_is_over_is_429_again() {
    let wiki = wiki().await;
    wiki.sim.rate_limit(Some(RateLimit::new(1, Duration::from_secs(10))));
    wiki.get("/pages").await.is(200);
    wiki.sim.advance(Duration::from_secs(4));
    assert_eq!(number(wiki.get("/pages").await.is(429), "retry-after"), 6);
    wiki.sim.advance(Duration::from_secs(5));
    assert_eq!(number(wiki.get("/pages").await.is(429), "retry-after"), 6);
    wiki.sim.advance(Duration::from_secs(6));
    wiki.get("/pages").await.is(200);
}

#[tokio::test]
async fn a_refused_write_has_no_effect() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    wiki.sim.rate_limit(Some(RateLimit::new(0, Duration::from_secs(10))));
    wiki.delete(&format!("/pages/{page}")).await.is(429);
    wiki.sim.rate_limit(None);
    assert_eq!(wiki.get(&format!("/pages/{page}")).await.body["status"], "current");
}

#[tokio::test]
async fn retry_after_can_be_a_date_or_missing() {
    let wiki = wiki().await;
    let limit = RateLimit::new(0, Duration::from_secs(10));
    wiki.sim.rate_limit(Some(limit.clone().retry_after(RetryAfter::Date)));
    let answer = wiki.get("/pages").await;
    assert_eq!(
        answer.is(429).header("retry-after"),
        wiki.sim.now().plus(Duration::from_secs(10)).http_date()
    );
    wiki.sim.rate_limit(Some(limit.retry_after(RetryAfter::Absent)));
    assert!(wiki.get("/pages").await.is(429).headers.get("retry-after").is_none());
}

#[tokio::test]
async fn each_credential_has_a_budget_of_its_own_and_strangers_have_none() {
    let wiki = wiki_with(Simulator::builder().user(user("ann"))).await;
    wiki.sim.rate_limit(Some(RateLimit::new(1, Duration::from_secs(10))));
    wiki.get("/pages").await.is(200);
    wiki.get("/pages").await.is(429);
    send(wiki.as_user("ann", Method::GET, "/pages")).await.is(200);
    let token = wiki.token();
    send(wiki.gateway(Method::GET, "/pages", &token)).await.is(200);
    for _ in 0..3 {
        send(wiki.open(Method::GET, "/wiki/api/v2/pages")).await.is(401);
    }
}
