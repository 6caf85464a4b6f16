//! OAuth 2.0: consent, exchange, refresh, scopes and sites.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use wiki_simulator::{ALL_SCOPES, CLOUD_ID, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET};

use crate::client::{Answer, Wiki, merge, send, transcripts, wiki};

const REDIRECT: &str = "http://127.0.0.1:9/callback?from=wiki";

/// The query of the redirect after a consent.
async fn consent(wiki: &Wiki, scope: &str, more: &str) -> HashMap<String, String> {
    let client = format!("client_id={DEMO_CLIENT_ID}&response_type=code&redirect_uri={REDIRECT}");
    let answer = wiki.get(&format!("/authorize?{client}&state=a+b%26c&scope={scope}{more}")).await;
    let location = reqwest::Url::parse(answer.is("302").header("location")).unwrap();
    assert!(location.as_str().starts_with("http://127.0.0.1:9/callback"));
    location.query_pairs().into_owned().collect()
}

async fn token(wiki: &Wiki, fields: Value) -> Answer {
    let client = json!({"client_id": DEMO_CLIENT_ID, "client_secret": DEMO_CLIENT_SECRET});
    send(wiki.open("POST /oauth/token").json(&merge(client, fields))).await
}

async fn exchange(wiki: &Wiki, code: &str, more: Value) -> Answer {
    let fields = json!({"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT});
    token(wiki, merge(fields, more)).await
}

async fn refresh(wiki: &Wiki, refresh_token: &str) -> Answer {
    token(wiki, json!({"grant_type": "refresh_token", "refresh_token": refresh_token})).await
}

#[tokio::test]
async fn a_consent_yields_tokens_that_the_gateway_accepts() {
    let wiki = wiki().await;
    let back = consent(&wiki, "offline_access read:page:wiki", "").await;
    assert_eq!((back["state"].as_str(), back["from"].as_str()), ("a b&c", "wiki"));
    let tokens = exchange(&wiki, &back["code"], json!({})).await;
    let scope = "offline_access read:page:wiki";
    tokens.is("200").has(json!({"expires_in": 3_600, "token_type": "Bearer", "scope": scope}));
    send(wiki.gateway("GET /pages", tokens.field("access_token"))).await.is("200");
    // A refresh token comes only with `offline_access`.
    assert!(tokens.field("refresh_token").starts_with("sim-refresh-"));
    let code = consent(&wiki, "read:page:wiki", "").await.remove("code").unwrap();
    exchange(&wiki, &code, json!({})).await.is("200").has(json!({"refresh_token": null}));
}

#[tokio::test]
async fn a_refused_consent_redirects_with_an_error_and_no_code() {
    let wiki = wiki().await;
    wiki.sim.switch(|switches| switches.deny_consent = true);
    let back = consent(&wiki, "read:page:wiki", "").await;
    assert_eq!((back["error"].as_str(), back["state"].as_str()), ("access_denied", "a b&c"));
    assert!(!back.contains_key("code"));
    wiki.get("/authorize?client_id=unknown").await.is("400 INVALID_REQUEST_PARAMETER");
}

#[tokio::test]
async fn a_code_is_valid_once_until_expiry_for_its_redirect_uri_and_verifier() {
    let wiki = wiki().await;
    let code = async |more: &str| consent(&wiki, "read:page:wiki", more).await.remove("code").unwrap();
    let refused = async |code: &str, more: Value| {
        exchange(&wiki, code, more).await.is("403").has(json!({"error": "invalid_grant"}));
    };
    let first = code("").await;
    exchange(&wiki, &first, json!({})).await.is("200");
    refused(&first, json!({})).await;
    refused(&code("").await, json!({"redirect_uri": "http://evil.example"})).await;
    // The pair of RFC 7636, appendix B.
    let proved = json!({"code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"});
    let challenge = "&code_challenge_method=S256&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
    exchange(&wiki, &code(challenge).await, proved).await.is("200");
    refused(&code(challenge).await, json!({"code_verifier": "other"})).await;
    let late = code("").await;
    wiki.sim.advance(Duration::from_secs(600));
    refused(&late, json!({})).await;
}

#[tokio::test]
async fn refreshing_rotates_and_the_old_token_has_a_leeway() {
    let wiki = wiki().await;
    let first = wiki.sim.grant(ALL_SCOPES).1;
    let second = refresh(&wiki, &first).await;
    let second = second.is("200").field("refresh_token");
    assert_ne!(first, second);
    wiki.sim.advance(Duration::from_secs(599));
    refresh(&wiki, &first).await.is("200");
    wiki.sim.advance(Duration::from_secs(1));
    refresh(&wiki, &first).await.is("403").has(json!({"error": "unauthorized_client"}));
    refresh(&wiki, second).await.is("200");
    assert_eq!(wiki.sim.refreshes(), 3);
    // A new consent replaces the scopes of the old one.
    wiki.sim.grant("offline_access read:space:wiki");
    refresh(&wiki, second).await.is("200").has(json!({"scope": "offline_access read:space:wiki"}));
}

#[tokio::test]
async fn an_idle_or_revoked_refresh_token_and_a_year_old_consent_are_invalid_grants() {
    let wiki = wiki().await;
    let day = Duration::from_secs(24 * 60 * 60);
    let mut token = wiki.sim.grant(ALL_SCOPES).1;
    let invalid = async |token: &str| {
        refresh(&wiki, token).await.is("403").has(json!({"error": "invalid_grant"}));
    };
    for _ in 0..4 {
        wiki.sim.advance(90 * day);
        token = refresh(&wiki, &token).await.is("200").field("refresh_token").to_owned();
    }
    wiki.sim.advance(6 * day);
    invalid(&token).await;
    let idle = wiki.sim.grant(ALL_SCOPES).1;
    wiki.sim.advance(91 * day);
    invalid(&idle).await;
    let revoked = wiki.sim.grant(ALL_SCOPES);
    wiki.sim.revoke_grants();
    invalid(&revoked.1).await;
    send(wiki.gateway("GET /pages", &revoked.0)).await.is("401");
}

transcripts! {
    a_wrong_call_of_the_token_endpoint_is_told_by_its_error: r#"
        POST /oauth/token {"client_id": "demo-client", "client_secret": "wrong"} -> 401 {"error": "access_denied"}
        POST /oauth/token {} -> 401 {"error": "access_denied"}
        POST /oauth/token {"client_id": 5} -> 400 {"error": "invalid_request"}
        POST /oauth/token {"client_id": "demo-client", "client_secret": "demo-secret"} -> 400 {"error": "invalid_request"}
        POST /oauth/token {"client_id": "demo-client", "client_secret": "demo-secret", "grant_type": "password"} -> 400 {"error": "unsupported_grant_type"}
        POST /oauth/token {"client_id": "demo-client", "client_secret": "demo-secret", "grant_type": "refresh_token"} -> 400 {"error": "invalid_request"}
        POST /oauth/token {"client_id": "demo-client", "client_secret": "demo-secret", "grant_type": "refresh_token", "refresh_token": "x"} -> 403 {"error": "unauthorized_client"}"#
}

#[tokio::test]
async fn the_token_endpoint_accepts_forms_basic_authentication_and_client_credentials() {
    let wiki = wiki().await;
    let token = wiki.sim.grant(ALL_SCOPES).1;
    for form in [
        [("grant_type", "refresh_token"), ("refresh_token", token.as_str())],
        [("grant_type", "client_credentials"), ("scope", "read:page:wiki")],
    ] {
        let request = wiki.open("POST /oauth/token").basic_auth(DEMO_CLIENT_ID, Some(DEMO_CLIENT_SECRET));
        let tokens = send(request.form(&form)).await;
        send(wiki.gateway("GET /pages", tokens.is("200").field("access_token"))).await.is("200");
    }
}

#[tokio::test]
async fn an_access_token_expires_after_an_hour_with_the_gateways_error() {
    let wiki = wiki().await;
    let token = wiki.token();
    wiki.sim.advance(Duration::from_secs(3_599));
    send(wiki.gateway("GET /pages", &token)).await.is("200");
    wiki.sim.advance(Duration::from_secs(1));
    let answer = send(wiki.gateway("GET /pages", &token)).await;
    assert_eq!(answer.is("401").body, json!({"code": 401, "message": "Unauthorized"}));
}

#[tokio::test]
async fn every_operation_needs_exactly_its_scopes_and_a_refresh_adds_none() {
    let wiki = wiki().await;
    let mut table = "GET /pages read:page, GET /pages/1 read:page, GET /spaces/1/pages read:page, POST /pages write:page, \
        PUT /pages/1 write:page, DELETE /pages/1 delete:page, GET /attachments read:attachment, \
        GET /attachments/1 read:attachment, GET /pages/1/attachments read:attachment, \
        DELETE /attachments/1 delete:attachment, GET /spaces read:space, GET /spaces/1 read:space"
        .to_owned();
    for kind in ["page", "attachment", "custom-content"] {
        let path = format!("/{kind}s/1/properties").replace("contents", "content");
        table += &format!(
            ", GET {path} read:{kind}, GET {path}/1 read:{kind}, POST {path} read:{kind} write:{kind}"
        );
        table +=
            &format!(", PUT {path}/1 read:{kind} write:{kind}, DELETE {path}/1 read:{kind} write:{kind}");
    }
    for row in table.split(", ") {
        let (line, scopes) = row.split_at(row.match_indices(' ').nth(1).unwrap().0);
        let scopes =
            scopes.split_whitespace().map(|scope| format!("{scope}:wiki")).collect::<Vec<_>>().join(" ");
        for scope in scopes.split(' ') {
            let (access, token) =
                wiki.sim.grant(&format!("offline_access {}", ALL_SCOPES.replace(scope, "")));
            let fresh = refresh(&wiki, &token).await;
            for token in [&access, fresh.field("access_token")] {
                let answer = send(wiki.gateway(line, token)).await;
                answer.is("401").has(json!({"code": 401, "message": "Unauthorized; scope does not match"}));
                assert_eq!(answer.header("x-failure-category"), "FAILURE_CLIENT_SCOPE_CHECK");
            }
        }
        assert_ne!(send(wiki.gateway(line, &wiki.sim.grant(&scopes).0)).await.status, 401, "{line}");
    }
}

#[tokio::test]
async fn classic_scopes_allow_uploads_but_not_the_v2_api() {
    let wiki = wiki().await;
    let page = wiki.page("A");
    let token = wiki.sim.grant("write:wiki-file write:wiki-content").0;
    send(wiki.gateway("GET /pages", &token)).await.is("401");
    let form = Form::new().part("file", Part::bytes(b"x".to_vec()).file_name("a.txt"));
    let line = format!("POST /ex/wiki/{}/wiki/rest/api/content/{page}/child/attachment", CLOUD_ID);
    send(wiki.open(&line).bearer_auth(&token).header("X-Wiki-Token", "no-check").multipart(form))
        .await
        .is("200");
}

#[tokio::test]
async fn the_site_is_listed_with_the_scopes_of_the_token_or_as_the_test_says() {
    let wiki = wiki().await;
    let token = wiki.sim.grant("offline_access read:page:wiki").0;
    let line = "GET /oauth/token/accessible-resources";
    let list = async || send(wiki.open(line).bearer_auth(&token)).await.is("200").body.clone();
    let sites = list().await;
    assert_eq!((&sites[0]["id"], &sites[0]["url"]), (&json!(CLOUD_ID), &json!(wiki.sim.base_url())));
    assert_eq!(sites[0]["scopes"], json!(["read:page:wiki"]));
    send(wiki.open(line)).await.is("401");
    for answer in [json!([]), json!([{"id": CLOUD_ID, "scopes": ["read:board:tracker"]}, {"id": CLOUD_ID}])] {
        wiki.sim.accessible_resources(Some(answer.clone()));
        assert_eq!(list().await, answer);
    }
    wiki.sim.accessible_resources(None);
    assert_eq!(list().await, sites);
}
