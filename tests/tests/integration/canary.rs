//! Canaries: a secret of its own in every place that takes a credential. After executions of all sorts, none of them is
//! found in anything that the daemon wrote or said.

use std::path::Path;

use reqwest::Method;
use serde_json::json;
use tests::daemon::Daemon;
use tests::project::Project;
use tests::recorder::Recorder;
use tests::wiki::{DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_EMAIL, DEMO_TOKEN, Simulator};

use crate::site::{Site, send};

const BEARER: &str = "canary-bearer-4471";
const BASIC: &str = "canary basic/pass+4472";
const HEADER: &str = "canary-header-4473";
const CONFIG: &str = "canary-config-4474";
const HOOK: &str = "canary-hook-4475";
const STORED: &str = "canary-stored-4476";
const COOKIE: &str = "canary-cookie-4477";

/// Calls everything, copies what can be copied, and fails.
const BUSY: &str = r#"
trigger: {webhook: {verify: {preset: sharedToken, secret: "${{ secrets.hook }}"}}}
configVars:
  key: {value: "${{ secrets.config }}", secret: true}
steps:
  - {id: bearer, action: http.request, connection: bearer, debug: true, with: {url: "RECORDER/bearer", method: POST, body: {a: 1}}}
  - {id: basic, action: http.request, connection: basic, debug: true, with: {url: "RECORDER/basic", method: GET}}
  - {id: header, action: http.request, connection: header, with: {url: "RECORDER/header", method: GET}}
  - {id: stored, action: http.request, connection: stored, with: {url: "RECORDER/stored", method: GET}}
  - {id: config, action: http.request, with: {url: "RECORDER/config?key=${{ configVars.key }}", method: GET, headers: {x-key: "${{ configVars.key }}"}}}
  - {id: wiki, action: wiki.listSpaces, connection: wiki, debug: true, with: {limit: 1}}
  - {id: oauth, action: wiki.listSpaces, connection: oauth, debug: true, with: {limit: 1}}
  - {id: copy, set: {copy: "${{ configVars.key }}", coded: "${{ ('user:' ~ configVars.key) | base64 }}"}}
  - {id: note, action: log.info, with: {message: "key ${{ configVars.key }}"}}
  - {id: keep, action: state.set, with: {key: kept, value: "${{ configVars.key }}"}}
  - {id: child, call: child, with: {text: "${{ configVars.key }}"}}
  - {id: broken, action: http.request, connection: bearer, onError: continue, with: {url: "http://127.0.0.1:1/${{ configVars.key }}", method: GET}}
  - {id: boom, fail: "no ${{ configVars.key }}"}
"#;

const CHILD: &str =
    "trigger: {manual: {}}\ninputs: {text: {type: text}}\nsteps: [{set: {got: \"${{ inputs.text }}\"}}]\n";

fn connect(project: &Project, recorder: &str, wiki: &Simulated<'_>) {
    let write = |name: &str, text: String| project.connection(name, &text).unwrap();
    write(
        "bearer",
        format!(
            "type: http.bearer\nwith: {{baseUrl: \"{recorder}\", token: \"${{{{ secrets.bearer }}}}\"}}\n"
        ),
    );
    write(
        "basic",
        format!(
            "type: http.basic\nwith: {{baseUrl: \"{recorder}\", username: u, password: \"${{{{ secrets.basic }}}}\"}}\n"
        ),
    );
    write(
        "header",
        format!(
            "type: http.header\nwith: {{baseUrl: \"{recorder}\", name: x-desk, value: \"${{{{ secrets.header }}}}\"}}\n"
        ),
    );
    write(
        "stored",
        format!(
            "type: http.bearer\nwith: {{baseUrl: \"{recorder}\", token: \"${{{{ secrets.stored }}}}\"}}\n"
        ),
    );
    write(
        "wiki",
        format!(
            "type: wiki.basic\nwith: {{email: {DEMO_EMAIL}, apiToken: \"${{{{ secrets.wikiToken }}}}\", host: \"{}\"}}\n",
            wiki.site
        ),
    );
    write(
        "oauth",
        format!(
            "type: wiki.oauth\nwith: {{authUrl: \"{}\", gateway: \"{}\", clientId: {DEMO_CLIENT_ID}, clientSecret: \"${{{{ secrets.wikiSecret }}}}\"}}\n",
            wiki.auth, wiki.gateway
        ),
    );
    for (name, value) in [
        ("bearer", BEARER),
        ("basic", BASIC),
        ("header", HEADER),
        ("config", CONFIG),
        ("hook", HOOK),
        ("wikiToken", DEMO_TOKEN),
        ("wikiSecret", DEMO_CLIENT_SECRET),
    ] {
        project.secret(name, value).unwrap();
    }
}

struct Simulated<'s> {
    site: &'s str,
    auth: &'s str,
    gateway: &'s str,
}

#[tokio::test]
async fn no_credential_is_in_the_store_its_log_the_daemons_log_or_an_answer() {
    let recorder = Recorder::start().await.unwrap();
    let wiki = Simulator::builder().demo().start().await.unwrap();
    let project = Project::new().unwrap();
    connect(
        &project,
        recorder.url(),
        &Simulated { site: wiki.base_url(), auth: wiki.auth_url(), gateway: wiki.gateway_url() },
    );
    project.automation("busy", &BUSY.replace("RECORDER", recorder.url())).unwrap();
    project.automation("child", CHILD).unwrap();
    let daemon = Daemon::of(&project).env("COGWORK_LOG_LEVEL", "debug").start().await.unwrap();
    let site = Site::over(project, daemon);
    let mut said = Vec::new();

    let kept = send(site.api(Method::PUT, "/secrets/stored").json(&json!({"value": STORED}))).await;
    assert_eq!(kept.status, 200, "{}", kept.text);
    said.push(kept.text);
    let begun = send(site.api(Method::POST, "/connections/oauth/login")).await.json();
    let page = send(site.request(Method::GET, begun["url"].as_str().unwrap())).await;
    assert!(page.status == 200 && page.text.contains("Connected"), "{} {}", page.status, page.text);
    assert!(page.header("content-security-policy").contains("default-src 'none'"));
    said.push(page.text);

    let url = site.url("busy").await;
    let hook = site.request(Method::POST, &url).header("x-webhook-token", HOOK).header("cookie", COOKIE);
    let answer = send(hook.header("authorization", format!("Bearer {HOOK}")).json(&json!({"n": 1}))).await;
    let id = answer.execution();
    let end = site.end_of(&id).await;
    assert_eq!(end["status"], "failed", "{end}");
    assert_eq!(end["outcome"]["error"]["message"], "no ***", "{end}");
    assert_eq!(recorder.requests_to("/bearer").len(), 1, "what is called gets the credential itself");

    for path in [
        format!("/executions/{id}"),
        format!("/executions/{id}/logs"),
        "/connections".into(),
        "/secrets".into(),
        "/executions".into(),
        "/state/busy".into(),
        "/automations/busy".into(),
    ] {
        said.push(site.ask(&path).await.to_string());
    }
    for name in ["wiki", "oauth", "bearer"] {
        said.push(send(site.api(Method::POST, &format!("/connections/{name}/test"))).await.text);
    }
    let tokens: Vec<String> = ["access", "refresh", "code"].map(|kind| format!("sim-{kind}-")).to_vec();
    let (log, site_folder) = (site.daemon().output(), site.project.data_dir());
    // Killed, so that the write-ahead log is still there to be looked at.
    let (mut site, folder) = (site, site_folder);
    site.kill().await;
    search(&folder, &tokens);
    for text in said.iter().chain([&log]) {
        look(text.as_bytes(), "an answer or the log", &tokens);
    }
}

/// Looks through every file of a folder.
fn search(folder: &Path, tokens: &[String]) {
    let mut files = 0;
    for file in std::fs::read_dir(folder).unwrap().flatten().filter(|file| file.path().is_file()) {
        files += 1;
        look(&std::fs::read(file.path()).unwrap(), &file.path().display().to_string(), tokens);
    }
    assert!(files >= 2, "there is a store to look through");
}

fn look(bytes: &[u8], place: &str, tokens: &[String]) {
    use base64::Engine as _;
    let coded = [BEARER, CONFIG]
        .map(|secret| base64::engine::general_purpose::STANDARD.encode(format!("user:{secret}")));
    let plain = [BEARER, BASIC, HEADER, CONFIG, HOOK, STORED, COOKIE, DEMO_TOKEN, DEMO_CLIENT_SECRET]
        .map(str::to_owned);
    for canary in plain.iter().chain(&coded).chain(tokens) {
        let found = bytes.windows(canary.len()).position(|window| window == canary.as_bytes());
        let around = found.map(|at| {
            String::from_utf8_lossy(&bytes[at.saturating_sub(80)..(at + 80).min(bytes.len())]).into_owned()
        });
        assert_eq!(around, None, "`{canary}` is in {place}");
    }
}
