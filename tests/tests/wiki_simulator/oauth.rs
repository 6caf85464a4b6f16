//! OAuth 2.0: consent, exchange, refresh, scopes and sites.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tests::wiki::{ALL_SCOPES, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, Fault, Lifetimes, Simulator, When};

use crate::client::{Answer, Wiki, bare, send, user, wiki, wiki_with};

const REDIRECT: &str = "http://127.0.0.1:9/callback?from=wiki";

/// Asks for consent and returns the query that the redirect carries.
async fn consent(wiki: &Wiki, scope: &str) -> HashMap<String, String> {
    let request = wiki.open(Method::GET, "/authorize").query(&[
        ("audience", "127.0.0.1"),
        ("client_id", DEMO_CLIENT_ID),
        ("scope", scope),
        ("redirect_uri", REDIRECT),
        ("state", "a b&c"),
        ("response_type", "code"),
        ("prompt", "consent"),
    ]);
    let answer = send(request).await;
    let location = reqwest::Url::parse(answer.is(302).header("location")).unwrap();
    assert!(location.as_str().starts_with("http://127.0.0.1:9/callback"));
    location.query_pairs().into_owned().collect()
}

async fn token(wiki: &Wiki, more: Value) -> Answer {
    let mut body = json!({"client_id": DEMO_CLIENT_ID, "client_secret": DEMO_CLIENT_SECRET});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    send(wiki.open(Method::POST, "/oauth/token").json(&body)).await
}

async fn exchange(wiki: &Wiki, code: &str) -> Answer {
    token(wiki, json!({"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT})).await
}

async fn refresh(wiki: &Wiki, refresh_token: &str) -> Answer {
    token(wiki, json!({"grant_type": "refresh_token", "refresh_token": refresh_token})).await
}

fn text(answer: &Answer, field: &str) -> String {
    answer.body[field].as_str().unwrap_or_else(|| panic!("no {field}: {}", answer.text)).to_owned()
}

#[tokio::test]
async fn a_consent_leads_to_tokens_that_open_the_gateway() {
    let wiki = wiki().await;
    let back = consent(&wiki, "offline_access read:page:wiki").await;
    assert_eq!((back["state"].as_str(), back["from"].as_str()), ("a b&c", "wiki"));
    let tokens = exchange(&wiki, &back["code"]).await;
    tokens.is(200);
    assert_eq!(tokens.body["expires_in"], 3_600);
    assert_eq!(tokens.body["token_type"], "Bearer");
    assert_eq!(tokens.body["scope"], "offline_access read:page:wiki");
    send(wiki.gateway(Method::GET, "/pages", &text(&tokens, "access_token"))).await.is(200);
}

#[tokio::test]
async fn a_refused_consent_comes_back_with_an_error_and_no_code() {
    let wiki = wiki().await;
    wiki.sim.switch(|switches| switches.deny_consent = true);
    let back = consent(&wiki, "read:page:wiki").await;
    assert_eq!(back["error"], "access_denied");
    assert_eq!(back["state"], "a b&c");
    assert!(!back.contains_key("code"));
}

#[tokio::test]
async fn a_code_is_good_once_and_only_for_its_redirect_address() {
    let wiki = wiki().await;
    let code = consent(&wiki, "read:page:wiki").await.remove("code").unwrap();
    exchange(&wiki, &code).await.is(200);
    assert_eq!(exchange(&wiki, &code).await.is(403).body["error"], "invalid_grant");
    let code = consent(&wiki, "read:page:wiki").await.remove("code").unwrap();
    let elsewhere =
        json!({"grant_type": "authorization_code", "code": code, "redirect_uri": "http://evil.example"});
    assert_eq!(token(&wiki, elsewhere).await.is(403).body["error"], "invalid_grant");
}

#[tokio::test]
async fn a_redirect_address_that_is_not_registered_is_refused() {
    let builder = Simulator::builder().oauth_client("strict", "s", &["http://127.0.0.1:9/good"]);
    let wiki = bare(builder).await;
    let ask = |redirect: &'static str| {
        wiki.open(Method::GET, "/authorize").query(&[
            ("client_id", "strict"),
            ("scope", "read:page:wiki"),
            ("redirect_uri", redirect),
            ("response_type", "code"),
        ])
    };
    send(ask("http://127.0.0.1:9/good")).await.is(302);
    send(ask("http://127.0.0.1:9/bad")).await.is(400);
}

#[tokio::test]
async fn the_login_hint_chooses_who_consents() {
    let wiki = wiki_with(Simulator::builder().user(user("ann"))).await;
    let request = wiki.open(Method::GET, "/authorize").query(&[
        ("client_id", DEMO_CLIENT_ID),
        ("scope", "write:page:wiki"),
        ("redirect_uri", REDIRECT),
        ("response_type", "code"),
        ("login_hint", "ann@example.com"),
    ]);
    let location = reqwest::Url::parse(send(request).await.is(302).header("location")).unwrap();
    let code = location.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let tokens = exchange(&wiki, &code).await;
    let body = json!({"spaceId": wiki.space.to_string(), "title": "By Ann"});
    let page = send(wiki.gateway(Method::POST, "/pages", &text(&tokens, "access_token")).json(&body)).await;
    assert_eq!(page.is(200).body["authorId"], "account-ann");
}

#[tokio::test]
async fn a_refresh_token_comes_only_with_offline_access() {
    let wiki = wiki().await;
    let code = consent(&wiki, "read:page:wiki").await.remove("code").unwrap();
    assert!(exchange(&wiki, &code).await.is(200).body.get("refresh_token").is_none());
}

#[tokio::test]
async fn refreshing_rotates_and_the_old_token_has_a_leeway() {
    let wiki = wiki().await;
    let first = wiki.sim.grant(ALL_SCOPES).refresh_token.unwrap();
    let second = text(refresh(&wiki, &first).await.is(200), "refresh_token");
    assert_ne!(first, second);
    wiki.sim.advance(Duration::from_secs(599));
    refresh(&wiki, &first).await.is(200);
    wiki.sim.advance(Duration::from_secs(1));
    assert_eq!(refresh(&wiki, &first).await.is(403).body["error"], "unauthorized_client");
    refresh(&wiki, &second).await.is(200);
    assert_eq!(wiki.sim.refreshes(), 3);
}

#[tokio::test]
async fn without_a_leeway_two_holders_of_one_refresh_token_lock_each_other_out() {
    let lifetimes = Lifetimes { refresh_leeway: Duration::ZERO, ..Lifetimes::default() };
    let wiki = wiki_with(Simulator::builder().lifetimes(lifetimes)).await;
    let token = wiki.sim.grant(ALL_SCOPES).refresh_token.unwrap();
    refresh(&wiki, &token).await.is(200);
    assert_eq!(refresh(&wiki, &token).await.is(403).body["error"], "unauthorized_client");
}

#[tokio::test]
async fn an_idle_or_revoked_refresh_token_is_an_invalid_grant() {
    let wiki = wiki().await;
    let idle = wiki.sim.grant(ALL_SCOPES).refresh_token.unwrap();
    wiki.sim.advance(Duration::from_secs(90 * 24 * 60 * 60 + 1));
    assert_eq!(refresh(&wiki, &idle).await.is(403).body["error"], "invalid_grant");
    let revoked = wiki.sim.grant(ALL_SCOPES);
    wiki.sim.revoke_grants();
    let answer = refresh(&wiki, &revoked.refresh_token.unwrap()).await;
    assert_eq!(answer.is(403).body["error"], "invalid_grant");
    send(wiki.gateway(Method::GET, "/pages", &revoked.access_token)).await.is(401);
}

#[tokio::test]
async fn a_wrong_secret_is_access_denied_and_an_unknown_token_unauthorized_client() {
    let wiki = wiki().await;
    let wrong = json!({"grant_type": "refresh_token", "client_secret": "wrong", "refresh_token": "x"});
    assert_eq!(token(&wiki, wrong).await.is(401).body["error"], "access_denied");
    assert_eq!(refresh(&wiki, "unknown").await.is(403).body["error"], "unauthorized_client");
    let odd = token(&wiki, json!({"grant_type": "password"})).await;
    assert_eq!(odd.is(400).body["error"], "unsupported_grant_type");
    send(wiki.open(Method::POST, "/oauth/token").body("not json")).await.is(400);
}

#[tokio::test]
async fn the_token_endpoint_takes_forms_unless_it_is_told_not_to() {
    let wiki = wiki().await;
    let token = wiki.sim.grant(ALL_SCOPES).refresh_token.unwrap();
    let form = [("grant_type", "refresh_token"), ("refresh_token", token.as_str())];
    let request = || {
        wiki.open(Method::POST, "/oauth/token")
            .basic_auth(DEMO_CLIENT_ID, Some(DEMO_CLIENT_SECRET))
            .form(&form)
    };
    send(request()).await.is(200);
    wiki.sim.switch(|switches| switches.json_tokens_only = true);
    assert_eq!(send(request()).await.is(400).body["error"], "invalid_request");
}

#[tokio::test]
async fn an_access_token_dies_after_an_hour_in_the_shape_of_the_gateway() {
    let wiki = wiki().await;
    let token = wiki.token();
    wiki.sim.advance(Duration::from_secs(3_599));
    send(wiki.gateway(Method::GET, "/pages", &token)).await.is(200);
    wiki.sim.advance(Duration::from_secs(1));
    let answer = send(wiki.gateway(Method::GET, "/pages", &token)).await;
    assert_eq!(answer.is(401).body, json!({"code": 401, "message": "Unauthorized"}));
}

#[tokio::test]
async fn a_missing_scope_is_a_401_that_a_refresh_does_not_cure() {
    let wiki = wiki().await;
    let tokens = wiki.sim.grant("offline_access read:page:wiki read:attachment:wiki");
    let page = wiki.page("A");
    let attempts = [
        (Method::POST, "/pages".to_owned()),
        (Method::DELETE, format!("/pages/{page}")),
        (Method::GET, "/spaces".to_owned()),
        (Method::POST, format!("/pages/{page}/properties")),
        (Method::DELETE, "/attachments/att1".to_owned()),
        (Method::GET, "/custom-content/1/properties".to_owned()),
    ];
    for (method, path) in attempts {
        let answer = send(wiki.gateway(method, &path, &tokens.access_token)).await;
        assert_eq!(
            answer.is(401).body,
            json!({"code": 401, "message": "Unauthorized; scope does not match"})
        );
        assert_eq!(answer.header("x-failure-category"), "FAILURE_CLIENT_SCOPE_CHECK");
    }
    let again = refresh(&wiki, &tokens.refresh_token.unwrap()).await;
    send(wiki.gateway(Method::GET, "/spaces", &text(&again, "access_token"))).await.is(401);
}

#[tokio::test]
async fn property_deletes_need_write_and_not_delete() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let property = wiki.post(&format!("/pages/{page}/properties"), json!({"key": "k", "value": 1})).await;
    let path = format!("/pages/{page}/properties/{}", text(&property, "id"));
    let deleting = wiki.sim.grant("read:page:wiki delete:page:wiki").access_token;
    send(wiki.gateway(Method::DELETE, &path, &deleting)).await.is(401);
    let writing = wiki.sim.grant("read:page:wiki write:page:wiki").access_token;
    send(wiki.gateway(Method::DELETE, &path, &writing)).await.is(204);
}

#[tokio::test]
async fn classic_scopes_open_uploads_and_not_the_v2_api() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let token = wiki.sim.grant("write:wiki-file write:wiki-content").access_token;
    send(wiki.gateway(Method::GET, "/pages", &token)).await.is(401);
    let form = reqwest::multipart::Form::new()
        .part("file", reqwest::multipart::Part::bytes(b"x".to_vec()).file_name("a.txt"));
    let url = format!(
        "{}/ex/wiki/{}/wiki/rest/api/content/{page}/child/attachment",
        wiki.sim.gateway_url(),
        wiki.sim.cloud_id()
    );
    let upload = wiki.http.post(url).bearer_auth(&token).header("X-Wiki-Token", "no-check").multipart(form);
    send(upload).await.is(200);
}

#[tokio::test]
async fn a_new_consent_replaces_the_scopes_of_the_old_one() {
    let wiki = wiki().await;
    let old = wiki.sim.grant("offline_access read:page:wiki").refresh_token.unwrap();
    wiki.sim.grant("offline_access read:space:wiki");
    let tokens = refresh(&wiki, &old).await;
    assert_eq!(tokens.is(200).body["scope"], "offline_access read:space:wiki");
}

#[tokio::test]
async fn the_sites_are_listed_with_the_scopes_of_the_token() {
    let wiki = wiki_with(Simulator::builder().site("second-cloud", "second")).await;
    let token = wiki.sim.grant("offline_access read:page:wiki").access_token;
    let list = || wiki.open(Method::GET, "/oauth/token/accessible-resources").bearer_auth(&token);
    let answer = send(list()).await;
    assert_eq!(answer.is(200).body[0]["id"], wiki.sim.cloud_id());
    assert_eq!(answer.body[0]["url"], wiki.sim.base_url());
    assert_eq!(answer.body[0]["scopes"], json!(["read:page:wiki"]));
    assert_eq!(answer.body[1]["id"], "second-cloud");
    assert_ne!(answer.body[1]["url"], answer.body[0]["url"]);
    send(wiki.open(Method::GET, "/oauth/token/accessible-resources")).await.is(401);
}

#[tokio::test]
async fn the_list_of_sites_can_be_anything_that_was_seen_in_the_wild() {
    let wiki = wiki().await;
    let token = wiki.token();
    let cloud = wiki.sim.cloud_id();
    let foreign =
        json!({"id": cloud, "name": "x", "url": "https://x.example", "scopes": ["read:board:tracker"]});
    let own = json!({"id": cloud, "name": "x", "url": "https://x.example", "scopes": ["read:page:wiki"]});
    for list in [json!([]), json!([foreign, own]), json!([own, own])] {
        wiki.sim.accessible_resources(Some(list.clone()));
        let request = wiki.open(Method::GET, "/oauth/token/accessible-resources").bearer_auth(&token);
        assert_eq!(send(request).await.is(200).body, list);
    }
    wiki.sim.accessible_resources(None);
    let request = wiki.open(Method::GET, "/oauth/token/accessible-resources").bearer_auth(&token);
    assert_eq!(send(request).await.body.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn twenty_parallel_calls_with_an_expired_token_can_be_watched_to_share_one_refresh() {
    let wiki = wiki().await;
    let tokens = wiki.sim.grant(ALL_SCOPES);
    wiki.sim.advance(Duration::from_secs(3_600));
    // All twenty are in the simulator at once before the first is answered.
    wiki.sim.fault(Fault::on("GET", "*/pages").times(20).hold(When::Before)).unwrap();
    let calls: Vec<_> = (0..20)
        .map(|_| tokio::spawn(send(wiki.gateway(Method::GET, "/pages", &tokens.access_token))))
        .collect();
    wiki.sim.wait_for_held(20).await.unwrap();
    wiki.sim.release();
    for call in calls {
        call.await.unwrap().is(401);
    }
    let fresh = text(refresh(&wiki, &tokens.refresh_token.unwrap()).await.is(200), "access_token");
    for _ in 0..20 {
        send(wiki.gateway(Method::GET, "/pages", &fresh)).await.is(200);
    }
    assert_eq!(wiki.sim.count("POST", "/oauth/token"), 1);
    let used = wiki.sim.requests_to("GET", "*/pages");
    assert_eq!(
        used.iter().filter(|request| request.was_authorized_by(&format!("Bearer {fresh}"))).count(),
        20
    );
}
