use std::collections::HashMap;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::http::testing::{Server, ServerReply, Waits, http, local, reply};
use crate::http::{HttpOptions, Timer as _};

/// The credentials of a test by name.
struct Given(HashMap<&'static str, String>);

impl Credentials for Given {
    fn read(&self, credential: &Credential) -> Result<Secret, String> {
        let name = match credential {
            Credential::Secret(name) => name.as_str(),
            Credential::Variable(name) => name,
            Credential::File(path) => path.to_str().unwrap_or_default(),
        };
        self.0.get(name).map(Secret::new).ok_or_else(|| format!("`{name}` is not set"))
    }

    fn is_set(&self, variable: &str) -> bool {
        self.0.contains_key(variable)
    }
}

fn given() -> Given {
    variables(&[
        ("token", "canary-token"),
        ("secretId", "canary-secret-id"),
        ("/jwt", "canary-signed-token"),
        ("clientSecret", "canary-client-secret"),
    ])
}

fn variables(given: &[(&'static str, &str)]) -> Given {
    Given(given.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
}

fn secret(name: &str) -> Credential {
    Credential::Secret(name.to_owned())
}

fn vault(server: &Server, login: VaultLogin) -> ProviderClient {
    let settings = VaultSettings {
        address: server.url(""),
        path: "kv/data/app".to_owned(),
        namespace: Some("team".to_owned()),
        login,
    };
    ProviderClient::new("vault:corp", ProviderSettings::Vault(settings))
}

fn token_login() -> VaultLogin {
    VaultLogin::Token(secret("token"))
}

fn json_reply(head: &str, body: &serde_json::Value) -> ServerReply {
    reply(head, body.to_string().as_bytes())
}

/// The text and the fields of a secret, for comparisons.
fn shown(found: &ProvidedSecret) -> (Option<&str>, Vec<(&str, &str)>) {
    let fields = found.fields().iter().map(|(name, value)| (name.as_str(), value.expose()));
    (found.text().map(Secret::expose), fields.collect())
}

#[tokio::test]
async fn vault_answers_of_all_engines_become_a_text_and_fields() {
    let cases = [
        (json!({"data": {"data": {"value": "a"}, "metadata": {"version": 3}}}), Some("a"), Some("3"), None),
        (json!({"data": {"data": {"pin": 7}, "metadata": {"version": 1}}}), Some("7"), Some("1"), None),
        (json!({"data": {"token": "b"}, "lease_duration": 60}), Some("b"), None, Some(60)),
        (json!({"data": {"username": "u", "password": "p"}, "lease_duration": 9}), None, None, Some(9)),
        // A secret of version 1 that only looks like an answer of version 2.
        (json!({"data": {"data": {"a": 1}, "metadata": "m"}}), None, None, None),
    ];
    for (answer, text, version, lease) in cases {
        let server = Server::start({
            let answer = answer.clone();
            move |_, _| json_reply("200 OK", &answer)
        })
        .await;
        let found = vault(&server, token_login()).read(&http(local()), &given(), "db").await;
        let found = found.expect("an answer").expect("a secret");
        assert_eq!(shown(&found).0, text, "{answer}");
        assert_eq!(found.version.as_deref(), version, "{answer}");
        assert_eq!(found.lease, lease.map(Duration::from_secs), "{answer}");
        let request = server.requests().remove(0);
        for line in ["GET /v1/kv/data/app/db ", "x-vault-token: canary-token", "x-vault-namespace: team"] {
            assert!(request.contains(line), "{request}");
        }
    }
}

#[tokio::test]
async fn a_deleted_and_an_unknown_vault_secret_are_absent_and_a_path_without_data_is_an_error() {
    let deleted = json!({"data": {"data": null, "metadata": {"version": 2, "deletion_time": "2026-01-01"}}});
    let wrong = json!({"warnings": ["Invalid path for a versioned K/V secrets engine."]});
    for (head, answer, expected) in [
        ("404 Not Found", json!({"errors": []}), Ok(None)),
        ("404 Not Found", deleted.clone(), Ok(None)),
        ("200 OK", deleted, Ok(None)),
        ("404 Not Found", wrong, Err("MOUNT/data/FOLDER")),
        ("503 Service Unavailable", json!({"errors": ["canary-answer"]}), Err("it is sealed")),
        ("200 OK", json!({"data": "canary-answer"}), Err("something unexpected")),
    ] {
        let server = Server::start(move |_, _| json_reply(head, &answer)).await;
        let found = vault(&server, token_login()).read(&http(local()), &given(), "db").await;
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(words)) => {
                let error = error.to_string();
                assert!(error.contains(words) && !error.contains("canary"), "{error}");
            }
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn a_vault_login_is_used_until_80_percent_and_repeated_once_when_refused() {
    let server = Server::start(|count, request| match request.split(' ').nth(1) {
        Some("/v1/auth/approle/login") => {
            assert!(request.contains(r#""role_id":"role""#) && request.contains("canary-secret-id"));
            let token = format!("issued-token-{count}");
            json_reply("200 OK", &json!({"auth": {"client_token": token, "lease_duration": 100}}))
        }
        _ if request.contains("issued-token-4") => {
            json_reply("403 Forbidden", &json!({"errors": ["canary"]}))
        }
        _ => json_reply("200 OK", &json!({"data": {"value": "a"}})),
    })
    .await;
    let timer = std::sync::Arc::new(Waits::default());
    let http = http(HttpOptions { timer: timer.clone(), ..local() });
    let login = VaultLogin::AppRole {
        role_id: "role".to_owned(),
        secret_id: secret("secretId"),
        mount: "approle".to_owned(),
    };
    let client = vault(&server, login);
    let read = async || client.read(&http, &given(), "a").await.map(|found| found.is_some());
    // Login, read; read with the same login.
    assert!(read().await.expect("a secret") && read().await.expect("a secret"));
    assert_eq!(server.requests().len(), 3);
    timer.pause(Duration::from_secs(79)).await;
    read().await.expect("the login is still good");
    timer.pause(Duration::from_secs(2)).await;
    // The second login is refused at once, and the third one is not.
    read().await.expect("it logs in again");
    let paths: Vec<_> =
        server.requests().iter().map(|request| request.split(' ').nth(1).map(str::to_owned)).collect();
    let paths: Vec<_> = paths.iter().flatten().map(String::as_str).collect();
    let (login, secret) = ("/v1/auth/approle/login", "/v1/kv/data/app/a");
    assert_eq!(paths, [login, secret, secret, secret, login, secret, login, secret]);
}

#[tokio::test]
async fn a_refused_token_is_not_tried_twice_and_its_error_names_the_policy() {
    let server =
        Server::start(|_, _| json_reply("403 Forbidden", &json!({"errors": ["canary-answer"]}))).await;
    let error = vault(&server, token_login()).read(&http(local()), &given(), "a").await.expect_err("refused");
    assert!(error.to_string().contains("do not allow `read` of `kv/data/app/a`"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_refused_login_tells_why_without_its_credentials() {
    let answer = json!({"errors": ["invalid role canary-signed-token"]});
    let server = Server::start(move |_, _| json_reply("400 Bad Request", &answer)).await;
    let login = VaultLogin::Jwt {
        role: "cogwork".to_owned(),
        jwt: Credential::File("/jwt".into()),
        mount: "kubernetes".to_owned(),
    };
    let error = vault(&server, login).read(&http(local()), &given(), "a").await.expect_err("refused");
    let error = error.to_string();
    assert!(error.contains("`auth/kubernetes` with status 400 (invalid role ***)"), "{error}");
}

fn aws(server: &Server) -> ProviderClient {
    let settings = AwsSettings {
        region: "eu-central-1".to_owned(),
        prefix: "app/".to_owned(),
        endpoint: Some(server.url("")),
        token_service: None,
        keys: Some((secret("token"), secret("clientSecret"))),
        session_token: None,
    };
    ProviderClient::new("awsSecretsManager:main", ProviderSettings::Aws(settings))
}

#[tokio::test]
async fn an_aws_request_is_signed_and_a_json_text_has_fields() {
    let server = Server::start(|_, request| {
        assert!(request.contains("x-amz-target: secretsmanager.GetSecretValue"), "{request}");
        assert!(request.contains(r#"{"SecretId":"app/db"}"#) && request.contains("Credential=canary-token/"));
        let text = r#"{"user":"u","port":5432}"#;
        json_reply("200 OK", &json!({"SecretString": text, "VersionId": "v1"}))
    })
    .await;
    let found =
        aws(&server).read(&http(local()), &given(), "db").await.expect("an answer").expect("a secret");
    let expected = (Some(r#"{"user":"u","port":5432}"#), vec![("port", "5432"), ("user", "u")]);
    assert_eq!(shown(&found), expected);
    assert_eq!(found.version.as_deref(), Some("v1"));
}

#[tokio::test]
async fn aws_refusals_are_named_by_their_type_only() {
    for (answer, expected) in [
        (json!({"__type": "ResourceNotFoundException", "Message": "canary"}), None),
        (json!({"__type": "a#AccessDeniedException", "Message": "canary"}), Some("AccessDeniedException")),
        (json!({"message": "canary"}), Some("status 400")),
    ] {
        let server = Server::start(move |_, _| json_reply("400 Bad Request", &answer)).await;
        let found = aws(&server).read(&http(local()), &given(), "db").await;
        match expected {
            None => assert_eq!(found.expect("an answer"), None),
            Some(words) => {
                let error = found.expect_err("refused").to_string();
                assert!(error.contains(words) && !error.contains("canary"), "{error}");
            }
        }
    }
}

/// A client without keys, whose token service is the server too.
fn pod(server: &Server) -> ProviderClient {
    let settings = AwsSettings {
        region: "eu-central-1".to_owned(),
        prefix: String::new(),
        endpoint: Some(server.url("")),
        token_service: Some(server.url("/sts")),
        keys: None,
        session_token: None,
    };
    ProviderClient::new("awsSecretsManager:main", ProviderSettings::Aws(settings))
}

const WEB_IDENTITY: [(&str, &str); 3] = [
    ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/shop"),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "/jwt"),
    ("/jwt", "canary-signed-token"),
];

/// The answer of the token service with keys that end an hour after the start of the clock of tests, or later.
fn issued_keys(number: usize, hour: usize) -> ServerReply {
    let fields = format!(
        "<AccessKeyId>ASIA{number}</AccessKeyId><SecretAccessKey>canary-secret-{number}</SecretAccessKey>\
         <SessionToken>canary-session-{number}</SessionToken><Expiration>1970-01-01T0{hour}:00:00Z</Expiration>"
    );
    let name = "AssumeRoleWithWebIdentity";
    let body = format!(
        "<{name}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{name}Result><Credentials>{fields}</Credentials></{name}Result></{name}Response>"
    );
    reply("200 OK", body.as_bytes())
}

fn paths(server: &Server) -> Vec<String> {
    let requests = server.requests();
    requests.iter().filter_map(|request| request.split(' ').nth(1).map(str::to_owned)).collect()
}

#[tokio::test]
async fn the_token_of_a_pod_gives_keys_which_are_replaced_before_their_end_and_once_when_refused() {
    let server = Server::start(|count, request| match request.split(' ').nth(1) {
        Some("/sts") => {
            for part in
                ["Action=AssumeRoleWithWebIdentity", "WebIdentityToken=canary-signed-token", "role%2Fshop"]
            {
                assert!(request.contains(part), "{request}");
            }
            assert!(request.contains("accept: text/xml") && !request.contains("authorization:"), "{request}");
            issued_keys(count, if count == 0 { 1 } else { 2 })
        }
        _ if request.contains("Credential=ASIA3/") => {
            json_reply("400 Bad Request", &json!({"__type": "ExpiredTokenException", "message": "canary"}))
        }
        _ => {
            assert!(request.contains("x-amz-security-token: canary-session-"), "{request}");
            json_reply("200 OK", &json!({"SecretString": "a"}))
        }
    })
    .await;
    let timer = std::sync::Arc::new(Waits::default());
    let http = http(HttpOptions { timer: timer.clone(), ..local() });
    let (client, credentials) = (pod(&server), variables(&WEB_IDENTITY));
    let read = async || client.read(&http, &credentials, "a").await.expect("an answer").expect("a secret");
    read().await;
    timer.pause(Duration::from_secs(47 * 60)).await;
    read().await;
    assert_eq!(paths(&server), ["/sts", "/", "/"], "the keys are kept");
    timer.pause(Duration::from_secs(2 * 60)).await;
    read().await;
    assert_eq!(
        paths(&server)[3..],
        ["/sts", "/", "/sts", "/"],
        "80 % are over, and the new keys are refused once"
    );
    for secret in ["canary-session-0", "canary-secret-5", "canary-signed-token"] {
        assert_eq!(http.options().redactor.redact_text(secret), "***");
    }
}

#[tokio::test]
async fn keys_of_a_role_are_used_to_their_end_while_no_others_are_given() {
    let server = Server::start(|count, request| match request.split(' ').nth(1) {
        Some("/sts") if count == 0 => issued_keys(count, 1),
        Some("/sts") => reply("503 Service Unavailable", b"canary"),
        _ => json_reply("200 OK", &json!({"SecretString": "a"})),
    })
    .await;
    let timer = std::sync::Arc::new(Waits::default());
    let http = http(HttpOptions { timer: timer.clone(), ..local() });
    let (client, credentials) = (pod(&server), variables(&WEB_IDENTITY));
    let read = async || client.read(&http, &credentials, "a").await;
    read().await.expect("a secret");
    timer.pause(Duration::from_secs(50 * 60)).await;
    for _ in 0..3 {
        read().await.expect("the keys have not ended");
    }
    assert_eq!(paths(&server), ["/sts", "/", "/sts", "/", "/", "/"], "others are asked for each minute");
    timer.pause(Duration::from_secs(11 * 60)).await;
    let error = read().await.expect_err("they have ended").to_string();
    assert!(error.contains("the role `arn:aws:iam::123456789012:role/shop`: status 503"), "{error}");
}

#[tokio::test]
async fn the_service_beside_a_container_gives_keys_for_its_token() {
    let server = Server::start(|_, request| match request.split(' ').nth(1) {
        Some("/v1/credentials") => {
            assert!(request.contains("authorization: canary-pod-token\r\n"), "{request}");
            let keys = json!({"AccessKeyId": "ASIA", "SecretAccessKey": "canary-secret", "Token": "canary-session", "Expiration": "1970-01-01T06:00:00Z"});
            json_reply("200 OK", &keys)
        }
        _ => json_reply("200 OK", &json!({"SecretString": "a"})),
    })
    .await;
    let address = server.url("/v1/credentials");
    let credentials = variables(&[
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &address),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/token"),
        ("/token", "canary-pod-token"),
    ]);
    let timer = std::sync::Arc::new(Waits::default());
    let (client, http) = (pod(&server), http(HttpOptions { timer, ..local() }));
    for _ in 0..2 {
        client.read(&http, &credentials, "a").await.expect("an answer").expect("a secret");
    }
    assert_eq!(paths(&server), ["/v1/credentials", "/", "/"]);
    assert_eq!(http.options().redactor.redact_text("canary-pod-token canary-session"), "*** ***");
}

#[test]
fn keys_come_without_tls_only_from_this_machine_and_the_known_addresses_of_the_link() {
    let full = |address: &str| {
        aws_role::container_address(&variables(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", address)]))
    };
    for good in [
        "http://169.254.170.23/v1/credentials",
        "http://[fd00:ec2::23]/v1",
        "http://127.0.0.1:5/",
        "https://keys.internal/a",
    ] {
        full(good).expect(good).expect("an address");
    }
    for bad in [
        "http://169.254.169.254/latest",
        "http://10.0.0.1/",
        "http://keys.internal/",
        "http://localhost.internal/",
        "https://a:b@keys.internal/",
        "keys",
    ] {
        let error = full(bad).expect_err(bad);
        assert!(error.contains("AWS_CONTAINER_CREDENTIALS_FULL_URI"), "{error}");
    }
    let relative = variables(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/a")]);
    let found = aws_role::container_address(&relative).expect("an address").expect("one");
    assert_eq!(found.as_str(), "http://169.254.170.2/v2/credentials/a");
    // A path that makes another host of it.
    let other = variables(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@169.254.169.254/latest")]);
    aws_role::container_address(&other).expect_err("it is another host");
}

#[tokio::test]
async fn a_missing_or_refused_role_is_an_error_with_the_way_out() {
    let refused = |code: &str| {
        let body = format!(
            "<ErrorResponse><Error><Code>{code}</Code><Message>canary</Message></Error></ErrorResponse>"
        );
        move |_: usize, _: &str| reply("403 Forbidden", body.as_bytes())
    };
    for (given, code, words) in [
        (&[][..], "", "name them in its settings (`accessKey`, `secretKey`)"),
        (&WEB_IDENTITY[1..], "", "`AWS_ROLE_ARN` is not"),
        (&WEB_IDENTITY[..2], "", "`/jwt` is not set"),
        (&WEB_IDENTITY[..], "AccessDenied", "sts:AssumeRoleWithWebIdentity"),
        (&WEB_IDENTITY[..], "ExpiredTokenException", "must be a fresh one"),
    ] {
        let server = Server::start(refused(code)).await;
        let error = pod(&server).read(&http(local()), &variables(given), "a").await.expect_err("refused");
        let error = error.to_string();
        assert!(error.contains(words) && !error.contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn an_azure_secret_is_read_with_the_token_of_the_application() {
    let server = Server::start(|_, request| match request.split(' ').nth(1) {
        Some("/tenant/oauth2/v2.0/token") => {
            assert!(
                request.contains("client_secret=canary-client-secret") && request.contains("client_id=app")
            );
            json_reply("200 OK", &json!({"access_token": "azure-token", "expires_in": 3599}))
        }
        Some("/secrets/a-b?api-version=7.4") => {
            assert!(request.contains("authorization: Bearer azure-token"), "{request}");
            json_reply("200 OK", &json!({"value": "text", "id": "https://v/secrets/a-b/0f1"}))
        }
        _ => json_reply("404 Not Found", &json!({"error": {"code": "SecretNotFound"}})),
    })
    .await;
    let client = ProviderClient::new(
        "azureKeyVault:main",
        ProviderSettings::Azure(AzureSettings {
            address: server.url(""),
            prefix: String::new(),
            authority: server.url(""),
            scope: "https://vault.azure.net/.default".to_owned(),
            tenant: "tenant".to_owned(),
            client_id: "app".to_owned(),
            login: AzureLogin::Secret(secret("clientSecret")),
        }),
    );
    let http = http(local());
    let found = client.read(&http, &given(), "a-b").await.expect("an answer").expect("a secret");
    assert_eq!((found.text().map(Secret::expose), found.version.as_deref()), (Some("text"), Some("0f1")));
    assert_eq!(client.read(&http, &given(), "other").await.expect("an answer"), None);
    assert_eq!(client.read(&http, &given(), "a_b").await.expect("no request"), None);
}

#[tokio::test]
async fn a_google_secret_is_read_with_the_assertion_of_the_service_account() {
    let server = Server::start(|_, request| match request.split(' ').nth(1) {
        Some("/token") => {
            assert!(request.contains("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"));
            json_reply("200 OK", &json!({"access_token": "google-token", "expires_in": 3599}))
        }
        Some("/v1/projects/p/secrets/app-db/versions/latest:access") => {
            assert!(request.contains("authorization: Bearer google-token"), "{request}");
            let payload = json!({"data": "dGV4dA=="});
            json_reply("200 OK", &json!({"name": "projects/1/secrets/app-db/versions/4", "payload": payload}))
        }
        _ => json_reply("404 Not Found", &json!({"error": {"status": "NOT_FOUND"}})),
    })
    .await;
    let account = json!({
        "client_email": "robot@project.example",
        "private_key": include_str!("../oauth/service-account.pem"),
        "token_uri": server.url("/token"),
    });
    struct Account(String);
    impl Credentials for Account {
        fn read(&self, _: &Credential) -> Result<Secret, String> {
            Ok(Secret::new(&self.0))
        }
        fn is_set(&self, _: &str) -> bool {
            false
        }
    }
    let client = ProviderClient::new(
        "gcpSecretManager:main",
        ProviderSettings::Gcp(GcpSettings {
            address: server.url(""),
            project: "p".to_owned(),
            prefix: "app-".to_owned(),
            login: GcpLogin::Key(secret("key")),
        }),
    );
    let (http, account) = (http(local()), Account(account.to_string()));
    let found = client.read(&http, &account, "db").await.expect("an answer").expect("a secret");
    assert_eq!((found.text().map(Secret::expose), found.version.as_deref()), (Some("text"), Some("4")));
    assert_eq!(client.read(&http, &account, "other").await.expect("an answer"), None);
}

#[tokio::test]
async fn a_frozen_provider_and_an_endless_answer_are_errors_within_the_limits() {
    let stalled = Server::start(|_, _| ServerReply::Stall(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec())).await;
    let http = http(HttpOptions { timeout: Duration::from_millis(100), ..local() });
    let error = vault(&stalled, token_login()).read(&http, &given(), "a").await.expect_err("no answer");
    assert!(error.to_string().contains("secret provider `vault:corp`"), "{error}");
    let large = Server::start(|_, _| reply("200 OK", "canary-answer".repeat(800_000).as_bytes())).await;
    let error = vault(&large, token_login()).read(&http, &given(), "a").await.expect_err("too large");
    assert!(error.to_string().contains("512KiB") && !error.to_string().contains("canary"), "{error}");
}

#[test]
fn an_address_must_have_tls_or_be_on_this_machine() {
    for good in ["https://vault.internal", "http://127.0.0.1:8200", "http://localhost:8200"] {
        check_address(good).expect(good);
    }
    for bad in [
        "vault.internal",
        "http://vault.internal",
        "https://a:b@vault.internal",
        "https://v/#a",
        "ftp://localhost",
    ] {
        check_address(bad).expect_err(bad);
    }
}
