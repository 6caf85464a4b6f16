//! Canaries: each place that takes a credential gets its own secret, in executions, polls, subscriptions and captures
//! that copy it and fail in all possible ways. All responses and everything that the daemon leaves on disk are searched
//! for them.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::json;
use tests::canary;
use tests::daemon::Daemon;
use tests::github::GitHub;
use tests::project::Project;
use tests::recorder::Recorder;
use wiki_simulator::{DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_EMAIL, DEMO_TOKEN, Simulator};

use crate::site::{Site, send};

/// Makes all kinds of calls, copies the secret in all possible ways, and fails.
const BUSY: &str = r#"
trigger: {webhook: {verify: {preset: sharedToken, secret: "${{ secrets.hook }}"}}}
configVars:
  key: {value: "${{ secrets.config }}", secret: true}
steps:
  - {id: bearer, action: http.request, connection: bearer, debug: true, with: {url: "RECORDER/bearer", method: POST, body: {a: 1}}}
  - {id: basic, action: http.request, connection: basic, debug: true, with: {url: "RECORDER/echo/basic", method: GET}}
  - {id: header, action: http.request, connection: header, with: {url: "RECORDER/echo/header", method: GET}}
  - {id: stored, action: http.request, connection: stored, with: {url: "RECORDER/echo/stored", method: GET}}
  - {id: config, action: http.request, debug: true, with: {url: "RECORDER/config?key=${{ configVars.key }}", method: GET, headers: {x-key: "${{ configVars.key }}"}}}
  - {id: wiki, action: wiki.listSpaces, connection: wiki, debug: true, with: {limit: 1}}
  - {id: oauth, action: wiki.listSpaces, connection: oauth, debug: true, with: {limit: 1}}
  - {id: graph, action: wiki.rawGraphqlRequest, connection: oauth, debug: true, onError: continue, with: {query: "{ secrets }", variables: {key: "${{ configVars.key }}"}}}
  - {id: copy, set: {copy: "${{ configVars.key }}", coded: "${{ ('user:' ~ configVars.key) | base64 }}"}}
  - {id: note, action: log.info, with: {message: "key ${{ configVars.key }}"}}
  - {id: keep, action: state.set, with: {key: kept, value: "${{ configVars.key }}"}}
  - id: js
    code: |
      export default async ({ configVars, logger }, { basic }) => { logger.info(configVars.key); return { key: configVars.key, sent: basic.results }; };
  - {id: child, call: child, with: {text: "${{ configVars.key }}"}}
  - {id: path, action: http.request, onError: continue, with: {url: "http://127.0.0.1:1/${{ configVars.key }}", method: GET}}
  - {id: query, action: http.request, onError: continue, with: {url: "http://127.0.0.1:1/?key=${{ configVars.key }}", method: GET}}
  - {id: refused, action: http.request, onError: continue, with: {url: "http://${{ configVars.key }}.invalid/", method: GET}}
  - {id: boom, fail: "no ${{ configVars.key }}"}
"#;

const CHILD: &str =
    "trigger: {manual: {}}\ninputs: {text: {type: text}}\nsteps: [{set: {got: \"${{ inputs.text }}\"}}]\n";

/// Polls a server that echoes the credential.
const POLLS: &str = r#"
trigger: {poll: {action: http.request, connection: bearer, with: {url: "RECORDER/echo/poll", method: GET}, every: 1h, start: all, id: "${{ item.headers.authorization }}", items: "${{ result.body.results }}"}}
steps: [{set: {got: "${{ trigger.results }}"}}]
"#;

/// A poll that fails with a secret in its URL.
const POLL_FAILS: &str = r#"
trigger: {poll: {action: http.request, with: {url: "http://127.0.0.1:1/?key=${{ configVars.key }}", method: GET}, every: 1h}}
configVars: {key: {value: "${{ secrets.config }}", secret: true}}
steps: []
"#;

/// A poll whose cursor contains a secret.
const POLL_KEEPS: &str = r#"
trigger: {poll: {action: http.request, connection: bearer, with: {url: "RECORDER/echo/cursor", method: GET}, every: 1h, items: "${{ result.body.results }}", cursor: "${{ result.body.results[0].headers.authorization }}"}}
steps: []
"#;

/// An event input with a secret, which would have to be stored to delete the subscription.
const EVENT: &str = r#"
trigger: {event: github.push, connection: hub, with: {owner: acme, repo: "${{ configVars.key }}"}}
configVars: {key: {value: "${{ secrets.config }}", secret: true}}
steps: []
"#;

const LISTENED: &str = "enabled: false\ntrigger: {webhook: {verify: none}}\nsteps: []\n";

/// Writes the connections and the secrets that they name.
fn connect(project: &Project, recorder: &Recorder, wiki: &wiki_simulator::Running, github: &GitHub) {
    let at = format!("baseUrl: \"{}\"", recorder.url());
    let wiki = wiki.base_url();
    for (name, kind, with) in [
        ("bearer", "http.bearer", format!("{at}, token: \"${{{{ secrets.bearer }}}}\"")),
        ("basic", "http.basic", format!("{at}, username: u, password: \"${{{{ secrets.basic }}}}\"")),
        ("header", "http.header", format!("{at}, name: x-desk, value: \"${{{{ secrets.header }}}}\"")),
        ("stored", "http.bearer", format!("{at}, token: \"${{{{ secrets.stored }}}}\"")),
        (
            "wiki",
            "wiki.basic",
            format!("email: {DEMO_EMAIL}, apiToken: \"${{{{ secrets.wikiToken }}}}\", host: \"{wiki}\""),
        ),
        (
            "oauth",
            "wiki.oauth",
            format!(
                "authUrl: \"{wiki}\", gateway: \"{wiki}\", clientId: {DEMO_CLIENT_ID}, \
                 clientSecret: \"${{{{ secrets.wikiSecret }}}}\""
            ),
        ),
        (
            "hub",
            "github.token",
            format!("host: \"{}\", token: \"${{{{ secrets.hubToken }}}}\"", github.url()),
        ),
    ] {
        project.connection(name, &format!("type: {kind}\nwith: {{{with}}}\n")).unwrap();
    }
    for name in ["bearer", "header", "config", "hook"] {
        project.secret(name, &canary::secret(name)).unwrap();
    }
    for (name, value) in [
        ("basic", canary::secret("basic/pass+4472 word").as_str()),
        ("wikiToken", DEMO_TOKEN),
        ("wikiSecret", DEMO_CLIENT_SECRET),
        ("hubToken", tests::github::TOKEN),
    ] {
        project.secret(name, value).unwrap();
    }
}

/// Starts a site with everything through which a secret could leak.
async fn site(recorder: &Recorder, wiki: &wiki_simulator::Running, github: &GitHub) -> Site {
    let project = Project::new().unwrap();
    connect(&project, recorder, wiki, github);
    // One action may show its credentials in debug mode unless this setting forbids it.
    project.write("cogwork.yaml", "allowCredentialDebug: false\n").unwrap();
    for (name, yaml) in [
        ("busy", BUSY),
        ("child", CHILD),
        ("polls", POLLS),
        ("poll-fails", POLL_FAILS),
        ("poll-keeps", POLL_KEEPS),
        ("event", EVENT),
        ("listened", LISTENED),
    ] {
        project.automation(name, &yaml.replace("RECORDER", recorder.url())).unwrap();
    }
    let daemon = Daemon::builder(&project).env("COGWORK_LOG_LEVEL", "debug").start().await.unwrap();
    let site = Site::over(project, daemon);
    let listed = site.ask("/automations").await;
    assert_eq!(listed["broken"], json!([]));
    site
}

#[tokio::test]
async fn no_credential_is_in_the_store_the_logs_or_a_response() {
    let (recorder, github) = (Recorder::start().await.unwrap(), GitHub::start().await.unwrap());
    let wiki = Simulator::builder().demo().start().await.unwrap();
    let mut site = site(&recorder, &wiki, &github).await;

    let value = json!({"value": canary::secret("stored")});
    let kept = send(site.api(Method::PUT, "/secrets/stored").json(&value)).await;
    assert_eq!(kept.status, 200, "{}", kept.text);
    let begun = send(site.api(Method::POST, "/connections/oauth/login")).await.json();
    let page = send(site.request(Method::GET, begun["url"].as_str().unwrap())).await;
    assert!(page.status == 200 && page.text.contains("Connected"), "{} {}", page.status, page.text);
    assert!(page.header("content-security-policy").contains("default-src 'none'"));

    let id = busy(&site).await;
    assert_eq!(recorder.requests_to("/bearer").len(), 1, "the called server gets the credential itself");
    polled(&site).await;
    captured(&site).await;
    for path in [
        format!("/executions/{id}"),
        format!("/executions/{id}/logs"),
        "/connections".into(),
        "/secrets".into(),
        "/executions".into(),
        "/state/busy".into(),
        "/automations/busy".into(),
        "/subscriptions".into(),
        "/polls".into(),
        "/hosts".into(),
    ] {
        site.ask(&path).await;
    }
    for name in ["wiki", "oauth", "bearer"] {
        send(site.api(Method::POST, &format!("/connections/{name}/test"))).await;
    }
    for command in [["connections", "list"], ["secrets", "list"], ["polls", "list"], ["executions", "show"]] {
        let last = if command[0] == "executions" { id.as_str() } else { "--json" };
        let shown = site.cogwork(&[command[0], command[1], last]).await;
        assert!(shown.status.success(), "{shown:?}");
    }
    // Killed, so that the write-ahead log remains to be searched.
    site.kill().await;
}

/// Runs the execution that makes all kinds of calls and fails, and returns its id.
async fn busy(site: &Site) -> String {
    let (url, hook) = (site.url("busy").await, canary::secret("hook"));
    let sent = site.request(Method::POST, &url).header("x-webhook-token", &hook).bearer_auth(&hook);
    let sent = sent.header("cookie", canary::secret("cookie")).json(&json!({"n": 1}));
    let id = send(sent).await.execution();
    let end = site.end_of(&id).await;
    assert_eq!(end["outcome"]["error"]["message"], "no ***", "{end}");
    id
}

/// Polls that receive a secret, fail with one, and would store one, and a subscription that would store one.
async fn polled(site: &Site) {
    let ask = async |id: &str| {
        let answer = send(site.api(Method::POST, &format!("/polls/{id}/now"))).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    };
    let asked = ask("polls").await;
    let execution = site.executions_of("polls").await;
    assert_eq!(execution.len(), 1, "{asked} {}", site.ask("/polls/polls").await);
    let end = site.end_of(execution[0]["id"].as_str().unwrap()).await;
    assert_eq!(end["status"], "succeeded", "{end}");
    assert!(end.to_string().contains("\"authorization\":\"Bearer ***\""), "{end}");
    ask("poll-fails").await;
    ask("poll-keeps").await;
    let kept = site.ask("/polls/poll-keeps").await.to_string();
    assert!(kept.contains("`cursor` contains a secret"), "{kept}");
    site.daemon().wait_for_output("an input of the event contains a secret").await.unwrap();
}

/// Captures a request with a credential in every part.
async fn captured(site: &Site) {
    let listening = send(site.api(Method::POST, "/automations/listened/listen").json(&json!({}))).await;
    let url = listening.json()["testUrl"].as_str().unwrap().to_owned();
    let config = canary::secret("config");
    let sent = site.request(Method::POST, &format!("{url}/{config}?key={config}")).bearer_auth(&config);
    let sent = sent.header("x-key", &config).json(&json!({"key": config}));
    assert_eq!(send(sent).await.json(), json!({"captured": true}));
    let save = json!({"name": "kept", "capture": 1});
    let saved = send(site.api(Method::POST, "/automations/listened/payloads").json(&save)).await;
    assert_eq!(saved.status, 200, "{}", saved.text);
    canary::search(&site.project.path().join("payloads")).unwrap();
    site.ask("/automations/listened/listen").await;
}
