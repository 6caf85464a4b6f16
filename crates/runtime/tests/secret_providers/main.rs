//! Secrets of real providers: OpenBao, and moto as AWS Secrets Manager. Without the programs the tests are skipped with a line, and fail
//! if `COGWORK_REQUIRE_SERVERS` is set.

#![expect(clippy::expect_used, reason = "a test fails with the reason")]

mod faults;
mod servers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use connector::secret_provider::{AwsSettings, Credential, ProviderSettings, VaultLogin, VaultSettings};
use pretty_assertions::assert_eq;
use runtime::{ListedSecret, ManualClock, ProviderNetwork, SecretSources, Secrets, SourceKind, SourceRule};
use serde_json::json;
use servers::{ROOT, Server};
use value::redact::Redactor;

/// Secrets of one provider with a clock that a test moves.
struct Fixture {
    secrets: Secrets,
    clock: Arc<ManualClock>,
    redactor: Redactor,
    _folder: tempfile::TempDir,
}

impl Fixture {
    /// Reads from the provider `vault:corp`, or the one of `name`, whose credentials are files in the folder of secrets.
    fn new(name: &str, settings: ProviderSettings, files: &[(&str, &str)]) -> Self {
        let sources = SecretSources {
            order: vec![
                SourceRule { source: SourceKind::Provider(name.to_owned()), only: None },
                SourceRule { source: SourceKind::Files, only: None },
            ],
            timeout: Duration::from_secs(2),
            providers: BTreeMap::from([(name.to_owned(), settings)]),
            ..SecretSources::default()
        };
        let folder = tempfile::tempdir().expect("a folder");
        for (file, text) in files {
            std::fs::write(folder.path().join(file), text).expect("written");
        }
        let clock = Arc::new(ManualClock::new("2026-11-30T08:00:00Z".parse().expect("an instant")));
        let redactor = Redactor::default();
        let secrets = Secrets::new(None, folder.path().to_owned(), redactor.clone(), None).with_sources(
            &sources,
            ProviderNetwork::default(),
            clock.clone(),
        );
        Self { secrets, clock, redactor, _folder: folder }
    }

    fn vault(server: &Server, path: &str, login: VaultLogin, files: &[(&str, &str)]) -> Self {
        Self::new("vault:corp", vault(&server.url(), path, login), files)
    }

    /// With the root token.
    fn root(server: &Server) -> Self {
        let login = VaultLogin::Token(Credential::Secret("bootstrapToken".to_owned()));
        Self::vault(server, "secret/data/cogwork", login, &[("bootstrapToken", ROOT)])
    }

    async fn read(&self, name: &str) -> Result<Option<String>, String> {
        let found = self.secrets.secret(name).await.map_err(|error| error.to_string())?;
        Ok(found.map(|found| found.expose().to_owned()))
    }

    fn listed(&self, name: &str) -> Option<ListedSecret> {
        let listed = self.secrets.list(&[name.to_owned()].into());
        listed.into_iter().find(|listed| listed.name == name)
    }
}

fn vault(address: &str, path: &str, login: VaultLogin) -> ProviderSettings {
    let (address, path) = (address.to_owned(), path.to_owned());
    ProviderSettings::Vault(VaultSettings { address, path, namespace: None, login })
}

fn found(text: &str) -> Result<Option<String>, String> {
    Ok(Some(text.to_owned()))
}

#[tokio::test]
async fn a_value_is_kept_read_again_after_its_time_and_its_last_two_versions_stay_hidden() {
    let Some(server) = Server::openbao(None).await else { return };
    server.put("token", json!({"value": "first-canary"})).await;
    let fixture = Fixture::root(&server);
    assert_eq!(fixture.read("token").await, found("first-canary"));
    server.put("token", json!({"value": "second-canary"})).await;
    assert_eq!(fixture.read("token").await, found("first-canary"), "it is kept");
    fixture.clock.advance(Duration::from_secs(301));
    assert_eq!(fixture.read("token").await, found("second-canary"));
    assert_eq!(fixture.redactor.redact_text("first-canary second-canary"), "*** ***");
    let listed = fixture.listed("token").expect("it is listed");
    assert_eq!((listed.version, listed.readable, listed.error), (Some(2), true, None));
    assert_eq!(listed.read_at.map(|at| at.to_string()).as_deref(), Some("2026-11-30T08:05:01Z"));
    let shown = serde_json::to_string(&fixture.listed("token")).expect("JSON");
    assert!(shown.contains(r#""source":"vault:corp""#) && !shown.contains("canary"), "{shown}");
}

#[tokio::test]
async fn an_absent_secret_is_read_from_the_next_source_until_the_provider_has_it() {
    let Some(server) = Server::openbao(None).await else { return };
    let fixture = Fixture::root(&server);
    assert_eq!(fixture.read("bootstrapToken").await, found(ROOT), "of the file");
    assert_eq!(fixture.read("other").await, Ok(None));
    server.put("other", json!({"value": "new-canary"})).await;
    assert_eq!(fixture.read("other").await, Ok(None), "absence is believed for some seconds");
    fixture.clock.advance(Duration::from_secs(11));
    assert_eq!(fixture.read("other").await, found("new-canary"));
}

#[tokio::test]
async fn a_secret_with_several_fields_has_no_text_and_says_so() {
    let Some(server) = Server::openbao(None).await else { return };
    server.put("db", json!({"username": "u", "password": "field-canary"})).await;
    let error = Fixture::root(&server).read("db").await.expect_err("it has no text");
    assert!(error.contains("`secrets.db.password`") && !error.contains("canary"), "{error}");
}

#[tokio::test]
async fn the_engine_of_version_1_and_a_wrong_path_of_version_2_are_told_apart() {
    let Some(server) = Server::openbao(None).await else { return };
    server.api("POST", "sys/mounts/plain", json!({"type": "kv", "options": {"version": "1"}})).await;
    server.api("POST", "plain/cogwork/token", json!({"value": "plain-canary"})).await;
    let fixture = |path| {
        let login = VaultLogin::Token(Credential::Secret("bootstrapToken".to_owned()));
        Fixture::vault(&server, path, login, &[("bootstrapToken", ROOT)])
    };
    assert_eq!(fixture("plain/cogwork").read("token").await, found("plain-canary"));
    let error = fixture("secret/cogwork").read("token").await.expect_err("it is no address of a secret");
    assert!(error.contains("MOUNT/data/FOLDER"), "{error}");
}

/// Makes an `approle` with a policy for reading, whose tokens live for `lifetime`. Returns its role id and its secret id.
async fn app_role(server: &Server, lifetime: &str) -> (String, String) {
    let policy = r#"path "secret/data/cogwork/*" { capabilities = ["read"] }"#;
    server.api("POST", "sys/policies/acl/cogwork", json!({"policy": policy})).await;
    server.api("POST", "sys/auth/approle", json!({"type": "approle"})).await;
    let role = json!({"token_policies": "cogwork", "token_ttl": lifetime});
    server.api("POST", "auth/approle/role/cogwork", role).await;
    let id = server.api("GET", "auth/approle/role/cogwork/role-id", json!({})).await;
    let secret = server.api("POST", "auth/approle/role/cogwork/secret-id", json!({})).await;
    let text = |answer: &serde_json::Value, key: &str| answer["data"][key].as_str().expect(key).to_owned();
    (text(&id, "role_id"), text(&secret, "secret_id"))
}

fn app_role_login(role_id: String) -> VaultLogin {
    let secret_id = Credential::Secret("secretId".to_owned());
    VaultLogin::AppRole { role_id, secret_id, mount: "approle".to_owned() }
}

#[tokio::test]
async fn a_role_logs_in_reads_what_its_policy_allows_and_logs_in_again_when_its_token_is_revoked() {
    let Some(server) = Server::openbao(None).await else { return };
    server.put("token", json!({"value": "role-canary"})).await;
    let (role_id, secret_id) = app_role(&server, "1h").await;
    let fixture = Fixture::vault(
        &server,
        "secret/data/cogwork",
        app_role_login(role_id.clone()),
        &[("secretId", &secret_id)],
    );
    assert_eq!(fixture.read("token").await, found("role-canary"));
    let accessors = server.api("LIST", "auth/token/accessors", json!({})).await;
    for accessor in accessors["data"]["keys"].as_array().expect("tokens") {
        let found = server.api("POST", "auth/token/lookup-accessor", json!({"accessor": accessor})).await;
        if found["data"]["path"] == "auth/approle/login" {
            server.api("POST", "auth/token/revoke-accessor", json!({"accessor": accessor})).await;
        }
    }
    server.put("token", json!({"value": "newer-canary"})).await;
    fixture.clock.advance(Duration::from_secs(301));
    assert_eq!(fixture.read("token").await, found("newer-canary"), "it has logged in again");
    let beside =
        Fixture::vault(&server, "secret/data/other", app_role_login(role_id), &[("secretId", &secret_id)]);
    let error = beside.read("token").await.expect_err("its policy does not allow it");
    assert!(error.contains("do not allow `read` of `secret/data/other/token`"), "{error}");
}

#[tokio::test]
async fn a_wrong_credential_is_an_error_that_names_the_login_and_hides_it() {
    let Some(server) = Server::openbao(None).await else { return };
    let (role_id, _) = app_role(&server, "1h").await;
    let fixture = |files: &[(&str, &str)]| {
        Fixture::vault(&server, "secret/data/cogwork", app_role_login(role_id.clone()), files)
    };
    let error = fixture(&[("secretId", "wrong-canary")]).read("token").await.expect_err("it is refused");
    assert!(error.contains("refuses the login at `auth/approle`") && !error.contains("canary"), "{error}");
    let error = fixture(&[]).read("token").await.expect_err("it is not set");
    assert!(error.contains("cogwork secrets set secretId"), "{error}");
}

#[tokio::test]
async fn a_signed_token_of_an_issuer_logs_in_and_its_file_is_read_at_each_login() {
    let Some(server) = Server::openbao(None).await else { return };
    server.put("token", json!({"value": "jwt-canary"})).await;
    app_role(&server, "1h").await;
    server.api("POST", "sys/auth/jwt", json!({"type": "jwt"})).await;
    let keys = json!({"jwt_validation_pubkeys": [include_str!("issuer.pem")]});
    server.api("POST", "auth/jwt/config", keys).await;
    let role = json!({"role_type": "jwt", "user_claim": "sub", "bound_audiences": ["bao"], "token_policies": "cogwork"});
    server.api("POST", "auth/jwt/role/cogwork", role).await;
    let login = |file: &Path| VaultLogin::Jwt {
        role: "cogwork".to_owned(),
        jwt: Credential::File(file.to_owned()),
        mount: "jwt".to_owned(),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jwt");
    let fixture = Fixture::vault(&server, "secret/data/cogwork", login(&file), &[]);
    let error = fixture.read("token").await.expect_err("there is no file yet");
    assert!(error.contains("cannot be read"), "{error}");
    std::fs::write(&file, format!("{}\n", include_str!("signed.jwt").trim())).expect("written");
    fixture.clock.advance(Duration::from_secs(6));
    assert_eq!(fixture.read("token").await, found("jwt-canary"));
}

#[tokio::test]
async fn aws_secrets_have_a_prefix_versions_and_fields() {
    let Some(server) = Server::moto().await else { return };
    server.aws("CreateSecret", json!({"Name": "app/plain", "SecretString": "aws-canary"})).await;
    let db = r#"{"username":"u","password":"aws-password"}"#;
    server.aws("CreateSecret", json!({"Name": "app/db", "SecretString": db})).await;
    let settings = AwsSettings {
        region: "eu-central-1".to_owned(),
        prefix: "app/".to_owned(),
        endpoint: Some(server.url()),
        token_service: None,
        keys: Some(["accessKey", "secretKey"].map(|name| Credential::Secret(name.to_owned())).into()),
        session_token: None,
    };
    let keys = [("accessKey", "key-of-the-test"), ("secretKey", "secret-key-canary")];
    let fixture = Fixture::new("awsSecretsManager:main", ProviderSettings::Aws(settings), &keys);
    assert_eq!(fixture.read("plain").await, found("aws-canary"));
    assert_eq!(fixture.read("db").await, found(db));
    assert_eq!(fixture.read("none").await, Ok(None));
    server.aws("PutSecretValue", json!({"SecretId": "app/plain", "SecretString": "newer-canary"})).await;
    fixture.clock.advance(Duration::from_secs(301));
    assert_eq!(fixture.read("plain").await, found("newer-canary"));
    assert_eq!(fixture.redactor.redact_text("aws-canary newer-canary secret-key-canary"), "*** *** ***");
}
