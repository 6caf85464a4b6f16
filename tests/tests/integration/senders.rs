//! Challenges of senders, over real HTTP.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::json;

use crate::site::{Site, send};

#[tokio::test]
async fn a_challenge_is_answered_and_starts_nothing() {
    let hook = "trigger: {webhook: {methods: [POST], verify: none, challenge: microsoftGraph}}\nsteps: []\n";
    let site = Site::serving(&[("notices", hook)]).await;
    let url = format!("{}?validationToken=a%3Cb%3E%20c", site.url("notices").await);
    let answer = send(site.request(Method::POST, &url)).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "a<b> c"));
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("content-security-policy"), "sandbox; default-src 'none'");
    assert_eq!(site.executions_of("notices").await, Vec::<serde_json::Value>::new());
    let answer = send(site.request(Method::GET, &url)).await;
    assert_eq!(answer.refusal(), (405, "method_not_allowed".to_owned()));
}

#[tokio::test]
async fn a_sender_offers_its_secret_during_pairing_and_signs_with_it_afterwards() {
    let hook = "trigger: {webhook: {verify: {preset: asana, secret: '${{ secrets.asana }}'}, challenge: asana}}\nsteps: []\n";
    let site = Site::serving(&[("tasks", hook)]).await;
    let url = site.url("tasks").await;
    let offer = || send(site.request(Method::POST, &url).header("X-Hook-Secret", "brought"));
    assert_eq!(offer().await.status, 401);
    let pairing = site.cogwork(&["pair", "tasks"]);
    let sender = async {
        while site.ask("/automations/tasks/pair").await["openUntil"].is_null() {}
        offer().await
    };
    let (paired, answer) = tokio::join!(pairing, sender);
    assert_eq!((answer.status, answer.header("x-hook-secret")), (200, "brought"));
    assert!(paired.status.success(), "{paired:?}");
    assert_eq!(offer().await.status, 401, "the next one is not trusted");
    // HMAC-SHA-256 of `{}` with the key `brought`, in hex.
    let signature = "c8c4e22c96e96d2f87c53900ad6ecb24d3428e2c25b8975a247ef05e0cfd4be3";
    let signed = site.request(Method::POST, &url).header("X-Hook-Signature", signature).body("{}");
    let answer = send(signed).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(site.automation("tasks").await["keysUsed"][0]["key"], json!(1));
    let again = site.cogwork(&["pair", "tasks"]).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is already set"), "{again:?}");
}
