//! Logins at an identity provider: by whom, with which rights, and what is refused.

use serde_json::{Map, Value, json};
use server::{LoginOptions, Scope, Scopes};
use tests::identity::{CLIENT, CLIENT_SECRET, Conduct, IdentityProvider};

use crate::support::{Answer, Daemon, daemon_with, write};

const BEGIN: &str = "/api/v1/session/provider";
const END: &str = "/api/v1/session/provider/return";
const SECRET: &str = "OIDC_CLIENT";

fn scopes(scopes: &[Scope]) -> Scopes {
    scopes.iter().copied().collect()
}

/// A daemon at which the members of `ops` log in.
async fn daemon_at(provider: &IdentityProvider) -> Daemon {
    let login = LoginOptions {
        issuer: provider.issuer().to_owned(),
        name: "Example ID".to_owned(),
        client_id: CLIENT.to_owned(),
        client_secret: Some(SECRET.to_owned()),
        request_scopes: vec!["email".to_owned()],
        groups: vec![("ops".to_owned(), scopes(&[Scope::Read, Scope::Run]))],
        groups_claim: "groups".to_owned(),
        ..LoginOptions::default()
    };
    let daemon = daemon_with(&[], |options| options.login = Some(login)).await;
    write(daemon.folder.path(), &format!("secrets/{SECRET}"), CLIENT_SECRET);
    daemon
}

/// A browser on a page of the daemon, with the cookie of a login.
struct Browser<'d> {
    daemon: &'d Daemon,
    cookie: String,
}

impl<'d> Browser<'d> {
    fn new(daemon: &'d Daemon) -> Self {
        Self { daemon, cookie: String::new() }
    }

    async fn post(&self, path: &str, body: &str) -> Answer {
        let Self { daemon, cookie } = self;
        let fields = format!(
            "origin: http://{}\r\nsec-fetch-site: same-origin\r\ncontent-type: application/json\r\n{cookie}",
            daemon.admin
        );
        daemon.api_without_token("POST", path, &fields, body).await
    }

    /// Begins a login. Returns the address at the provider.
    async fn begin(&mut self) -> String {
        let answer = self.post(BEGIN, "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap();
        assert!(
            cookie.contains("; HttpOnly; SameSite=Strict") && cookie.contains("; Max-Age=600"),
            "{cookie}"
        );
        self.cookie = format!("cookie: {}\r\n", cookie.split(';').next().unwrap());
        answer.json()["url"].as_str().unwrap().to_owned()
    }

    async fn end(&self, code: &str, state: &str) -> Answer {
        self.post(END, &json!({"code": code, "state": state}).to_string()).await
    }

    /// A whole login.
    async fn log_in(&mut self, provider: &IdentityProvider) -> Answer {
        let (code, state) = provider.consent(&self.begin().await).unwrap();
        self.end(&code, &state).await
    }
}

/// The fields of a request by the session that an answer has begun.
fn session(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{answer:?}");
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap();
    let secret = answer.json()["secret"].as_str().unwrap().to_owned();
    format!("cookie: {cookie}\r\nx-cogwork-session: {secret}\r\n")
}

fn members(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

#[tokio::test]
async fn a_logged_in_user_has_the_configured_scopes_and_an_audit_log_name() {
    let provider = IdentityProvider::start().await.unwrap();
    let daemon = daemon_at(&provider).await;
    let shown = daemon.api_without_token("GET", BEGIN, "", "").await;
    assert_eq!((shown.status, shown.json()), (200, json!({"name": "Example ID"})));
    let answer = Browser::new(&daemon).log_in(&provider).await;
    let fields = session(&answer);
    let name = "person ann@example.com (u-1) in a browser";
    assert_eq!((&answer.json()["name"], &answer.json()["scopes"]), (&json!(name), &json!(["read", "run"])));
    let old: Vec<_> = answer.head.lines().filter(|line| line.contains("cogwork_login_")).collect();
    assert!(old.len() == 1 && old[0].contains("Max-Age=0"), "the login's own cookie goes: {old:?}");
    assert_eq!(daemon.api_without_token("GET", "/api/v1/status", &fields, "").await.status, 200);
    let refused = daemon.api_without_token("GET", "/api/v1/tokens", &fields, "").await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "scope_missing"));
    let link = daemon.api_without_token("POST", "/api/v1/session/link", &fields, "").await;
    assert_eq!((link.status, link.code().as_str()), (403, "no_link"), "{link:?}");
    let renewed = daemon.api_without_token("GET", "/api/v1/session", &fields, "").await;
    assert_eq!(
        renewed.json()["expiresAt"],
        answer.json()["expiresAt"],
        "the provider is asked again after that"
    );
    assert_eq!(daemon.api_without_token("DELETE", "/api/v1/session", &fields, "").await.status, 204);
    let over = daemon.api_without_token("GET", "/api/v1/status", &fields, "").await;
    assert_eq!((over.status, over.code().as_str()), (401, "session_over"));
    let audit = daemon.api("GET", "/api/v1/audit", "", "").await;
    let entries = audit.json()["entries"].as_array().cloned().unwrap();
    for action in ["logIn", "logOut"] {
        let entry = entries.iter().find(|entry| entry["action"] == action).expect(action);
        assert_eq!(entry["by"], name, "{audit:?}");
    }
    assert!(!audit.body.contains(CLIENT_SECRET));
}

#[tokio::test]
async fn an_id_token_of_another_login_starts_no_session() {
    let provider = IdentityProvider::start().await.unwrap();
    let daemon = daemon_at(&provider).await;
    let claims = |claims: Value| Conduct { claims: members(claims), ..Conduct::default() };
    let header = |header: Value| Conduct { header: members(header), ..Conduct::default() };
    let hostile = [
        ("the nonce of another login", claims(json!({"nonce": "another"}))),
        ("no nonce", claims(json!({"nonce": null}))),
        ("another audience", claims(json!({"aud": "another"}))),
        ("several audiences, without the one it was issued to", claims(json!({"aud": [CLIENT, "another"]}))),
        ("issued to another client", claims(json!({"azp": "another"}))),
        ("another issuer", claims(json!({"iss": "http://127.0.0.1:1"}))),
        ("expired", claims(json!({"exp": 1_000_000_000}))),
        ("no end", claims(json!({"exp": null}))),
        ("not valid yet", claims(json!({"nbf": 4_000_000_000_u64}))),
        ("no subject", claims(json!({"sub": null}))),
        ("a strange key", Conduct { has_strange_key: true, ..Conduct::default() }),
        ("no signature", Conduct { is_unsigned: true, ..Conduct::default() }),
        ("the algorithm none", Conduct { is_unsigned: true, ..header(json!({"alg": "none"})) }),
        ("an algorithm with a shared secret", header(json!({"alg": "HS256"}))),
        ("another algorithm than that of the key", header(json!({"alg": "RS256"}))),
        (
            "user info of another person",
            Conduct { user_info: members(json!({"sub": "u-2"})), ..Conduct::default() },
        ),
    ];
    for (what, conduct) in hostile {
        provider.behave(conduct);
        let answer = Browser::new(&daemon).log_in(&provider).await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "login_invalid"), "{what}: {answer:?}");
        assert!(answer.header("set-cookie").is_none(), "{what}");
    }
    provider.behave(claims(json!({"aud": [CLIENT, "another"], "azp": CLIENT})));
    session(&Browser::new(&daemon).log_in(&provider).await);
}

#[tokio::test]
async fn a_login_completes_once_and_only_in_the_browser_that_started_it() {
    let provider = IdentityProvider::start().await.unwrap();
    let daemon = daemon_at(&provider).await;
    let over = |answer: &Answer| {
        assert_eq!((answer.status, answer.code().as_str()), (401, "login_over"), "{answer:?}")
    };
    let mut own = Browser::new(&daemon);
    let (code, state) = provider.consent(&own.begin().await).unwrap();
    let mut other = Browser::new(&daemon);
    over(&other.end(&code, &state).await);
    other.begin().await;
    over(&other.end(&code, &state).await);
    over(&own.end(&code, "another").await);
    // The time of its beginning is part of it.
    let later = own.cookie.replace('.', ".1");
    over(&Browser { daemon: &daemon, cookie: later }.end(&code, &state).await);
    session(&own.end(&code, &state).await);
    over(&own.end(&code, &state).await);
    let (another_code, _) = provider.consent(&other.begin().await).unwrap();
    over(&own.end(&another_code, &state).await);
    // A code that the provider has given out is good for one login there too.
    let mut third = Browser::new(&daemon);
    let (_, state) = provider.consent(&third.begin().await).unwrap();
    let replayed = third.end(&code, &state).await;
    assert_eq!((replayed.status, replayed.code().as_str()), (401, "login_invalid"));
    // That of another login fails by its PKCE challenge.
    let stolen = third.end(&another_code, &state).await;
    assert_eq!((stolen.status, stolen.code().as_str()), (401, "login_invalid"));
}

#[tokio::test]
async fn a_user_without_a_configured_group_is_rejected() {
    let provider = IdentityProvider::start().await.unwrap();
    let daemon = daemon_at(&provider).await;
    for info in [json!({"groups": ["guests"]}), json!({"groups": null}), json!({"groups": "OPS"})] {
        provider.behave(Conduct { user_info: members(info), ..Conduct::default() });
        let answer = Browser::new(&daemon).log_in(&provider).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "login_refused"), "{answer:?}");
        assert!(answer.header("set-cookie").is_none());
    }
}

#[tokio::test]
async fn responses_of_the_provider_are_bounded_and_validated() {
    let described = |description: Value| Conduct { description: members(description), ..Conduct::default() };
    let at = |path: &str| Some(path.to_owned());
    let hostile = [
        ("it calls itself otherwise", described(json!({"issuer": "http://127.0.0.1:1"}))),
        (
            "its page is without TLS elsewhere",
            described(json!({"authorization_endpoint": "http://evil.example/"})),
        ),
        (
            "its tokens are without TLS elsewhere",
            described(json!({"token_endpoint": "http://evil.example/"})),
        ),
        ("its keys are no address", described(json!({"jwks_uri": "javascript:alert(1)"}))),
        (
            "a huge description",
            Conduct { huge: at("/.well-known/openid-configuration"), ..Conduct::default() },
        ),
        (
            "no description",
            Conduct { failing: at("/.well-known/openid-configuration"), ..Conduct::default() },
        ),
    ];
    for (what, conduct) in hostile {
        let provider = IdentityProvider::start().await.unwrap();
        let daemon = daemon_at(&provider).await;
        provider.behave(conduct);
        let answer = Browser::new(&daemon).post(BEGIN, "").await;
        assert_eq!((answer.status, answer.code().as_str()), (502, "provider_failed"), "{what}: {answer:?}");
    }
    for path in ["/keys", "/token", "/userinfo"] {
        for conduct in [
            Conduct { huge: at(path), ..Conduct::default() },
            Conduct { failing: at(path), ..Conduct::default() },
        ] {
            let provider = IdentityProvider::start().await.unwrap();
            let daemon = daemon_at(&provider).await;
            provider.behave(conduct);
            let answer = Browser::new(&daemon).log_in(&provider).await;
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (502, "provider_failed"),
                "{path}: {answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn provider_keys_are_cached_and_refetched_for_new_keys_at_a_limited_rate() {
    let provider = IdentityProvider::start().await.unwrap();
    let daemon = daemon_at(&provider).await;
    let reads = || provider.requests().iter().filter(|path| *path == "/keys").count();
    for _ in 0..3 {
        session(&Browser::new(&daemon).log_in(&provider).await);
    }
    assert_eq!(reads(), 1);
    let described = provider.requests().iter().filter(|path| path.starts_with("/.well-known/")).count();
    assert_eq!(described, 1);
    // The keys were read a moment ago, so tokens with invented ids cause no further requests.
    for id in ["k2", "k3"] {
        provider.behave(Conduct { key_id: Some(id.to_owned()), ..Conduct::default() });
        let answer = Browser::new(&daemon).log_in(&provider).await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "login_invalid"), "{answer:?}");
    }
    assert_eq!(reads(), 1);
}

#[tokio::test]
async fn a_login_without_its_client_secret_gets_503_and_without_provider_404() {
    let provider = IdentityProvider::start().await.unwrap();
    let daemon = daemon_at(&provider).await;
    std::fs::remove_file(daemon.folder.path().join("secrets").join(SECRET)).unwrap();
    let answer = Browser::new(&daemon).log_in(&provider).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "secret_missing"), "{answer:?}");
    let plain = crate::support::daemon(&[]).await;
    assert_eq!(plain.api_without_token("GET", BEGIN, "", "").await.json(), json!({}));
    let none = Browser::new(&plain).post(BEGIN, "").await;
    assert_eq!((none.status, none.code().as_str()), (404, "no_provider"));
}

#[tokio::test]
async fn a_cross_site_request_neither_starts_nor_completes_a_login() {
    let provider = IdentityProvider::start().await.unwrap();
    let daemon = daemon_at(&provider).await;
    for fields in ["origin: https://evil.example\r\n", "sec-fetch-site: cross-site\r\n"] {
        let begun = daemon.api_without_token("POST", BEGIN, fields, "").await;
        assert_eq!((begun.status, begun.code().as_str()), (403, "cross_site"));
        let fields = format!("{fields}content-type: application/json\r\n");
        let ended =
            daemon.api_without_token("POST", END, &fields, "{\"code\": \"c\", \"state\": \"s\"}").await;
        assert_eq!((ended.status, ended.code().as_str()), (403, "cross_site"));
    }
    let no_browser = daemon.api_without_token("POST", BEGIN, "", "").await;
    assert_eq!((no_browser.status, no_browser.code().as_str()), (400, "no_origin"));
}
