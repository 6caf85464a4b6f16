//! Secrets of a real OpenBao in a daemon: rotation, a provider that is down, and no value of it in anything that people see. Every
//! answer, and everything that the daemon leaves on disk, is searched for the marks in the secrets.

use std::sync::{Arc, Mutex};

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use tests::canary;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::site::{Site, send};

#[allow(dead_code, reason = "the tests of the runtime use the rest; it says what it skips")]
#[path = "../../../crates/runtime/tests/secret_providers/servers.rs"]
mod servers;
use servers::{ROOT, Server};

const SIGNED: &str = r#"
trigger: {webhook: {verify: {preset: sharedToken, secret: "${{ secrets.hook }}"}}}
steps: [{set: {done: true}}]
"#;

/// A shop that takes one token and refuses all others.
struct Shop {
    url: String,
    token: Arc<Mutex<String>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Shop {
    async fn start(token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shop = Self { url, token: Arc::new(Mutex::new(token.to_owned())), requests: Arc::default() };
        let (token, requests) = (shop.token.clone(), shop.requests.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut buffer = vec![0; 16384];
                let size = stream.read(&mut buffer).await.unwrap_or_default();
                let request = String::from_utf8_lossy(&buffer[..size]).into_owned();
                let sent = request.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
                let sent = sent.unwrap_or_default().to_owned();
                let status = if sent == *token.lock().unwrap() { "200 OK" } else { "401 Unauthorized" };
                requests.lock().unwrap().push(sent);
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        shop
    }

    fn take(&self, token: &str) {
        token.clone_into(&mut self.token.lock().unwrap());
    }
}

/// A site whose secrets come from an OpenBao at this port, and which calls the shop with one of them.
fn site(shop: &Shop, port: u16) -> Site {
    let call = format!(
        "trigger: {{manual: {{}}}}\nsteps: [{{id: pay, action: http.request, connection: shop, with: {{url: \"{}/pay\", method: POST}}}}]\n",
        shop.url
    );
    let site = Site::new(&[("pay", &call), ("signed", SIGNED)]);
    site.project.secret("baoToken", ROOT).unwrap();
    let with = format!("baseUrl: \"{}\", token: \"${{{{ secrets.shop.token }}}}\"", shop.url);
    site.project.connection("shop", &format!("type: http.bearer\nwith: {{{with}}}\n")).unwrap();
    let vault = format!(
        "address: \"http://127.0.0.1:{port}\", path: secret/data/cogwork, login: {{token: baoToken}}"
    );
    let settings =
        format!("secrets:\n  sources: [store, files, {{vault: corp}}]\n  vault: {{corp: {{{vault}}}}}\n");
    site.project.write("cogwork.yaml", &settings).unwrap();
    site
}

/// Runs `pay` to its end. Returns its status and the error of it.
async fn pay(site: &Site) -> (String, Value) {
    let execution = site.run("pay").await;
    let end = site.end_of(&execution).await;
    (end["status"].as_str().unwrap_or_default().to_owned(), end["outcome"]["error"].clone())
}

async fn listed(site: &Site, name: &str) -> Value {
    let secrets = site.ask("/secrets").await;
    let found = secrets["secrets"].as_array().unwrap().iter().find(|secret| secret["name"] == name);
    found.cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_refused_login_is_repeated_with_the_rotated_secret_which_appears_nowhere() {
    let Some(server) = Server::openbao(None).await else { return };
    let (first, second) = (canary::secret("first"), canary::secret("second"));
    let shop = Shop::start(&first).await;
    server.put("shop", json!({"token": first, "user": "shop"})).await;
    server.put("hook", json!({"value": canary::secret("hook")})).await;
    let mut site = site(&shop, server.port);
    site.start().await;
    assert_eq!(pay(&site).await.0, "succeeded");
    server.put("shop", json!({"token": second, "user": "shop"})).await;
    shop.take(&second);
    // A value that was read a moment ago is not read again.
    let works = async { while pay(&site).await.0 != "succeeded" {} };
    tokio::time::timeout(crate::site::PATIENCE, works)
        .await
        .expect("the call is repeated with the new token");
    let requests = shop.requests.lock().unwrap().clone();
    assert_eq!(requests.first(), Some(&first));
    assert_eq!(requests.get(requests.len() - 2..), Some(&[first, second][..]), "one execution sends both");
    let shop = listed(&site, "shop").await;
    assert_eq!(
        (&shop["source"], &shop["version"], &shop["readable"]),
        (&json!("vault:corp"), &json!(2), &json!(true))
    );
    let output = site.cogwork(&["secrets", "list"]).await;
    assert!(String::from_utf8_lossy(&output.stdout).contains("vault:corp"));
    let report = site.cogwork(&["doctor", "--json", "--hooks", "0", "--admin", "0"]).await;
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let detail = "vault:corp gives 2 secrets";
    assert!(findings.iter().any(|finding| finding["detail"] == detail), "{findings:#?}");
    let checked = site.cogwork(&["validate"]).await;
    assert!(checked.status.success(), "names of a provider count as set");
}

#[tokio::test]
async fn a_daemon_starts_while_its_provider_is_down_and_tells_the_truth() {
    let Some(server) = Server::openbao(None).await else { return };
    let port = server.port;
    drop(server);
    let shop = Shop::start(&canary::secret("late")).await;
    let mut site = site(&shop, port);
    site.start().await;
    let (status, error) = pay(&site).await;
    assert_eq!((status.as_str(), &error["kind"]), ("failed", &json!("connection")), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("the secret `shop` cannot be read: the secret provider `vault:corp`"),
        "{message}"
    );
    let shop = listed(&site, "shop").await;
    assert_eq!((&shop["source"], &shop["readable"]), (&json!("vault:corp"), &json!(false)));
    assert!(shop["error"].as_str().is_some_and(|error| error.contains("vault:corp")), "{shop}");
    assert_eq!(site.ask("/secrets").await["missing"], json!([]), "nobody knows yet");
    // A sender repeats a request that is answered with 503, and gives up on 401.
    let url = site.url("signed").await;
    let hook = canary::secret("hook");
    let request = || site.request(Method::POST, &url).header("x-webhook-token", &hook).json(&json!({}));
    assert_eq!(send(request()).await.status, 503);
    let Some(server) = Server::openbao(Some(port)).await else { return };
    server.put("shop", json!({"token": canary::secret("late")})).await;
    let works = async {
        while listed(&site, "shop").await["readable"] != true {
            pay(&site).await;
        }
    };
    tokio::time::timeout(crate::site::PATIENCE, works).await.expect("it is asked again");
    assert_eq!(listed(&site, "shop").await["error"], Value::Null);
    send(request()).await;
    assert_eq!(site.ask("/secrets").await["missing"], json!(["hook"]));
}

#[tokio::test]
async fn the_role_of_a_pod_reads_secrets_of_aws_without_keys_in_the_settings() {
    let Some(server) = Server::moto().await else { return };
    let token = canary::secret("aws");
    server.aws("CreateSecret", json!({"Name": "cogwork/shop", "SecretString": token})).await;
    let shop = Shop::start(&token).await;
    let call = format!(
        "trigger: {{manual: {{}}}}\nsteps: [{{id: pay, action: http.request, connection: shop, with: {{url: \"{}/pay\", method: POST}}}}]\n",
        shop.url
    );
    let mut site = Site::new(&[("pay", &call)]);
    let with = format!("baseUrl: \"{}\", token: \"${{{{ secrets.shop }}}}\"", shop.url);
    site.project.connection("shop", &format!("type: http.bearer\nwith: {{{with}}}\n")).unwrap();
    let url = server.url();
    let main =
        format!("region: eu-central-1, prefix: cogwork/, endpoint: \"{url}\", tokenService: \"{url}\"");
    let settings = format!(
        "secrets:\n  sources: [{{awsSecretsManager: main}}]\n  awsSecretsManager: {{main: {{{main}}}}}\n"
    );
    site.project.write("cogwork.yaml", &settings).unwrap();
    site.project.write("pod-token", &canary::secret("pod")).unwrap();
    let file = site.project.path().join("pod-token").display().to_string();
    let role = "arn:aws:iam::123456789012:role/shop".to_owned();
    site.surround(vec![("AWS_ROLE_ARN".to_owned(), role), ("AWS_WEB_IDENTITY_TOKEN_FILE".to_owned(), file)]);
    site.start().await;
    assert_eq!(pay(&site).await.0, "succeeded");
    let listed = listed(&site, "shop").await;
    assert_eq!((&listed["source"], &listed["readable"]), (&json!("awsSecretsManager:main"), &json!(true)));
}
