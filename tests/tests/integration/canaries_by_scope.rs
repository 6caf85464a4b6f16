//! Searches the responses of all routes in all scopes, the output of commands and all written files for canaries: secrets of the
//! project and of the daemon, credentials in payloads, and resume URLs, in every encoding.

use std::collections::BTreeMap;
use std::time::Duration;

use pretty_assertions::assert_eq;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tests::canary;
use tests::recorder::Recorder;

use crate::site::{Site, send};

const SCOPES: [&str; 6] = ["metrics", "read", "run", "write", "secrets", "admin"];

/// The key that encrypts stored secrets: 32 bytes with the marker of canaries.
const KEY: &[u8; 32] = b"canary-4471-master-key-of-a-test";

/// Puts the resume URL wherever an author can, and waits.
const WAITS: &str = r#"
trigger: {webhook: {verify: none}}
steps:
  - {id: note, action: log.info, with: {message: "answer at ${{ execution.resumeUrl }}"}}
  - {id: keep, set: {link: "${{ execution.resumeUrl }}", list: ["${{ execution.resumeUrl }}"]}}
  - {id: invite, action: http.request, with: {method: POST, url: "RECORDER/invite", body: {text: "${{ vars.link }}"}}}
  - {id: remember, action: state.set, with: {key: link, value: "${{ vars.link }}"}}
  - id: ask
    waitFor: {approval: {message: "Go? ${{ vars.link }}"}}
    timeout: 1h
"#;

/// The longest wait for a chunk of a response.
const PATIENCE: Duration = Duration::from_secs(30);

/// Copies a multi-line secret as forms, mails and errors do.
const LINES: &str = r#"
trigger: {manual: {}}
configVars:
  pem: {value: "${{ secrets.pem }}", secret: true}
steps:
  - {id: forms, set: {crlf: "${{ configVars.pem | replace('\n', '\r\n') }}", one: "${{ configVars.pem | replace('\n', ' ') }}", json: "${{ configVars.pem | tojson }}"}}
  - {id: echo, action: http.request, debug: true, with: {method: POST, url: "RECORDER/echo/x", body: {pem: "${{ configVars.pem }}"}}}
  - {id: line, fail: "bad line: ${{ (configVars.pem | replace('\n', '|')) }}"}
"#;

/// Reads variables of the daemon.
const THIEF: &str = r#"
trigger: {manual: {}}
configVars: {key: "${{ env.COGWORK_MASTER_KEY }}", headers: "${{ env.OTEL_EXPORTER_OTLP_HEADERS }}", secret: "${{ env.COGWORK_SECRET_OTHER }}"}
steps: [{set: {key: "${{ configVars.key }}"}}]
"#;

/// Reads variables of the daemon by a computed name.
const SLY_THIEF: &str = r#"
trigger: {manual: {}}
configVars: {all: "${{ env | default('none') }}", key: "${{ env['COGWORK_' ~ 'MASTER_KEY'] | default('none') }}"}
steps: [{set: {all: "${{ configVars.all }}", key: "${{ configVars.key }}"}}]
"#;

/// A site with all kinds of secrets, and the texts that must not leak.
struct Canaries {
    site: Site,
    /// A token for each scope.
    tokens: BTreeMap<&'static str, String>,
    /// The waiting execution, and the token of its resume URL in every encoding.
    waiting: String,
    resume: Vec<String>,
    /// The executions that have ended.
    ended: Vec<String>,
}

impl Canaries {
    async fn new(recorder: &Recorder) -> Self {
        let mut site = Site::new(&[]);
        for (name, yaml) in [("waits", WAITS), ("lines", LINES), ("thief", THIEF), ("sly", SLY_THIEF)] {
            site.project.automation(name, &yaml.replace("RECORDER", recorder.url())).unwrap();
        }
        let lines: Vec<String> =
            (0..3).map(|line| canary::secret(&format!("line-{line}-of-a-key"))).collect();
        let pem = format!("-----BEGIN KEY-----\n{}\n-----END KEY-----", lines.join("\n"));
        site.project.secret("pem", &pem).unwrap();
        let variables = [
            ("COGWORK_MASTER_KEY".to_owned(), base64(KEY)),
            ("COGWORK_SECRET_OTHER".to_owned(), canary::secret("other")),
            ("OTEL_EXPORTER_OTLP_HEADERS".to_owned(), format!("x-key={}", canary::secret("collector"))),
            ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), recorder.url().to_owned()),
            ("COGWORK_LOG_LEVEL".to_owned(), "debug".to_owned()),
        ];
        site.surround(variables.into());
        site.start().await;
        let stored =
            site.api(Method::PUT, "/secrets/stored").json(&json!({"value": canary::secret("stored")}));
        assert_eq!(send(stored).await.status, 200);
        let mut tokens = BTreeMap::new();
        for scope in SCOPES {
            let body = json!({"name": scope, "scopes": [scope]});
            let created = send(site.api(Method::POST, "/tokens").json(&body)).await.json();
            tokens.insert(scope, created["token"].as_str().unwrap().to_owned());
        }
        let waiting = site.post("waits", &json!({"n": 1})).await.execution();
        let mut events = site.events(&format!("/executions/{waiting}/events")).await;
        while events.next("event").await["event"] != "waiting" {}
        let shown = site.ask(&format!("/executions/{waiting}")).await;
        let url = shown["waiting"]["resumeUrl"].as_str().unwrap_or_else(|| panic!("{shown}"));
        let token = url.rsplit('/').next().unwrap();
        let resume = canary::forms(token).to_vec();
        Self { site, tokens, waiting, resume, ended: Vec::new() }
    }

    /// Builds a request with the token of a scope.
    fn request(&self, scope: &str, method: &Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.site.daemon().admin_url());
        self.site.request(method.clone(), &url).bearer_auth(&self.tokens[scope])
    }

    /// Sends a request with a scope, and searches the response for texts that the scope must not see.
    async fn ask(&self, scope: &str, method: &Method, path: &str, body: Option<&Value>) -> (u16, String) {
        let mut request = self.request(scope, method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut answer = request.send().await.unwrap();
        let (status, head) = (answer.status().as_u16(), format!("{:?}", answer.headers()));
        let is_stream = head.contains("text/event-stream");
        if is_stream && path.starts_with("/api/v1/events") {
            // This stream sends no stored events.
            self.site.run("sly").await;
        }
        let mut bytes = Vec::new();
        loop {
            let part = tokio::time::timeout(PATIENCE, answer.chunk()).await;
            let part = part.unwrap_or_else(|_| panic!("{method} {path} with `{scope}` does not end"));
            let Some(part) = part.unwrap() else { break };
            bytes.extend_from_slice(&part);
            let text = String::from_utf8_lossy(&bytes);
            let has_come = |marker: &&str| text.find(*marker).is_some_and(|at| text[at..].contains("\n\n"));
            if is_stream && last_of_stream(path).iter().any(has_come) {
                break;
            }
        }
        assert!(!is_stream || !bytes.is_empty(), "{method} {path} with `{scope}` sends nothing");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let place = format!("{method} {path} with `{scope}`");
        canary::look(&head, &place);
        canary::look(&text, &place);
        if !matches!(scope, "run" | "admin") {
            for form in &self.resume {
                assert!(!text.contains(form), "{place}: the resume address is in {text}");
            }
        }
        (status, text)
    }

    /// Returns the paths and bodies with which an operation is tried.
    fn tries(&self, method: &Method, path: &str) -> Vec<(String, Option<Value>)> {
        let execution = path.starts_with("/api/v1/executions/{id}");
        let ids: Vec<&str> = match execution {
            true => std::iter::once(&self.waiting).chain(&self.ended).map(String::as_str).collect(),
            false if path.contains("/automations/{id}") => vec!["waits", "lines", "thief", "sly"],
            false => vec!["waits"],
        };
        let mut tries = Vec::new();
        for id in ids {
            let filled = path
                .replace("{id}", id)
                .replace("{automation}", "waits")
                .replace("{scope}", "waits")
                .replace("{key}", "link")
                .replace("{path}", "automations%2Flink.yaml")
                .replace("{generation}", "1");
            let filled = match path {
                path if path.contains("/schemas/") => filled.replace("{name}", "automation"),
                path if path.contains("/secrets/") => filled.replace("{name}", "stored"),
                path if path.contains("/tokens/") => filled.replace("{name}", "none"),
                _ => filled.replace("{name}", "link"),
            };
            let filled = filled.replace("{hash}", "00");
            for query in queries(method, path) {
                tries.push((format!("{filled}{query}"), None));
            }
            tries.extend(self.bodies(method, path, id).into_iter().map(|body| (filled.clone(), Some(body))));
        }
        tries
    }

    fn bodies(&self, method: &Method, path: &str, id: &str) -> Vec<Value> {
        let hover = |expression: &str| {
            let text =
                format!("trigger: {{manual: {{}}}}\nsteps:\n  - set: {{a: \"${{{{ {expression} }}}}\"}}\n");
            let offset = text.find("{{ ").map_or(0, |at| at + 4);
            json!({"path": "automations/waits.yaml", "text": text, "offset": offset, "execution": self.waiting})
        };
        match (method.as_str(), path) {
            ("POST", "/api/v1/hover") => [
                "execution.resumeUrl",
                "vars.link",
                "vars.link[:60]",
                "vars.link | base64",
                "steps.keep.results.list",
                "state.link",
            ]
            .map(hover)
            .into(),
            ("POST", "/api/v1/executions/{id}/replay") => {
                vec![
                    json!({"dryRun": true}),
                    json!({"payload": {"headers": {"authorization": canary::secret("replay")}}}),
                ]
            }
            ("POST", "/api/v1/automations/{id}/run") if id == "waits" => vec![credentials("run")],
            ("POST", "/api/v1/tests/from-execution") => vec![json!({"execution": self.waiting})],
            ("POST", "/api/v1/trials") => vec![json!({"automation": "waits", "executions": [self.waiting]})],
            ("POST", "/api/v1/automations/{id}/preview-payload") => vec![credentials("preview")],
            ("POST", "/api/v1/automations/{id}/payloads") => {
                vec![json!({"name": "kept", "payload": credentials("saved")["payload"]})]
            }
            ("POST" | "PUT", _) => vec![json!({})],
            _ => Vec::new(),
        }
    }
}

/// Returns texts that mark the last immediate message of a stream, since some streams do not end.
fn last_of_stream(path: &str) -> &'static [&'static str] {
    if path.starts_with("/api/v1/executions/") {
        &["\"event\":\"waiting\"", "event: end"]
    } else {
        &["data:"]
    }
}

/// Builds the body of a start with credentials in its payload.
fn credentials(name: &str) -> Value {
    let secret = canary::secret(name);
    json!({"payload": {
        "method": "POST",
        "headers": {"authorization": format!("Bearer {secret}"), "x-api-key": secret, "cookie": secret},
        "query": {"token": secret, "a": "1"},
        "body": {"n": 1},
    }})
}

fn queries(method: &Method, path: &str) -> Vec<&'static str> {
    if method != Method::GET {
        return if method == Method::DELETE { vec![""] } else { Vec::new() };
    }
    match path {
        "/api/v1/executions" => vec!["", "?attempts=true&count=true", "?text=resume"],
        "/api/v1/executions/{id}" => vec!["", "?large=cut"],
        "/api/v1/executions/{id}/values" => vec![
            "?at=",
            "?at=/waiting",
            "?at=/payload",
            "?at=/steps/keep/result",
            "?at=/steps/keep/result/link",
            "?at=/steps/keep/result/link&from=0&to=50",
            "?at=/steps/keep/result/link&from=30&to=200",
            "?at=/events/0",
            "?at=/events/3",
        ],
        "/api/v1/executions/{id}/input" => {
            vec!["?step=invite", "?step=note", "?step=keep", "?step=ask", "?step=echo"]
        }
        "/api/v1/executions/{id}/export" => vec!["?format=json", "?format=html"],
        "/api/v1/executions/{id}/turns" => vec!["?step=keep"],
        "/api/v1/executions/{id}/events" => vec!["", "?limit=1000"],
        "/api/v1/events" => vec!["?topics=executions"],
        "/api/v1/stream" => vec!["?topics=executions"],
        _ => vec![""],
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Returns all operations of the API: reads first, operations that end or delete something last.
fn operations() -> Vec<(Method, String)> {
    let api: Value = serde_json::from_str(server::openapi()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            operations.push((method.to_uppercase().parse::<Method>().unwrap(), path.clone()));
        }
    }
    operations.sort_by_key(|(method, path)| {
        let ends = ["/cancel", "/signal", "/disable", "/rotate-token", "/session"];
        let ends = ends.iter().any(|part| path.ends_with(part)) || method == Method::DELETE;
        (ends, method != Method::GET, path.clone())
    });
    operations
}

/// Creates links to private files in each folder of the project.
fn link(site: &Site) {
    let link = |target: &str, path: &str| {
        let path = site.project.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    };
    link("../secrets/pem", "automations/link.yaml");
    link("../.cogwork/admin-token", "automations/token.yaml");
    link("../secrets/pem", "automations/code.js");
    link("../secrets/pem", "automations/waits.test.yaml");
    link("../secrets/pem", "connections/link.yaml");
    link("../secrets/pem", "connectors/link.yaml");
    link("../../secrets/pem", "payloads/waits/link.json");
}

#[tokio::test]
async fn no_route_command_or_file_shows_a_secret_in_any_scope() {
    let recorder = Recorder::start().await.unwrap();
    let mut canaries = Canaries::new(&recorder).await;
    link(&canaries.site);
    send(canaries.site.api(Method::POST, "/reload")).await;
    let broken = canaries.site.ask("/automations").await["broken"].to_string();
    assert!(broken.contains("own-variable"), "{broken}");
    for id in ["lines", "sly"] {
        let execution = canaries.site.run(id).await;
        canaries.site.end_of(&execution).await;
        canaries.ended.push(execution);
    }
    let started = canaries.site.api(Method::POST, "/automations/waits/run").json(&credentials("run"));
    let started = send(started).await.json()["executionId"].as_str().unwrap().to_owned();
    let replayed = canaries.site.api(Method::POST, &format!("/executions/{started}/replay"));
    let replayed = send(replayed.json(&json!({"payload": credentials("replay")["payload"]}))).await.json();
    canaries.ended.extend([started, replayed["executionId"].as_str().unwrap().to_owned()]);

    let mut shown = 0;
    for (method, path) in operations() {
        // The test needs its session.
        if path.ends_with("/session") && method == Method::DELETE {
            continue;
        }
        for scope in SCOPES {
            for (path, body) in canaries.tries(&method, &path) {
                let (status, text) = canaries.ask(scope, &method, &path, body.as_ref()).await;
                assert!(status < 500 || status == 503, "{method} {path} with `{scope}`: {status} {text}");
                shown += usize::from(status == 200);
            }
        }
    }
    assert!(shown > 300, "{shown} answers were searched");

    let read = Method::GET;
    let begin: String = canaries.resume[0].chars().take(20).collect();
    let (_, found) = canaries.ask("read", &read, &format!("/api/v1/executions?text={begin}"), None).await;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["executions"], json!([]), "a search must not reveal a resume URL by its prefix");

    commands_and_files(&mut canaries).await;
}

/// Searches the output of commands and the written files.
async fn commands_and_files(canaries: &mut Canaries) {
    let site = &canaries.site;
    let execution = canaries.ended[0].clone();
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).display().to_string();
    let (backup, lines) = (out("backup"), out("lines.jsonl"));
    for arguments in [
        &["validate"][..],
        &["validate", "--format", "json"],
        &["plan"],
        &["doctor"],
        &["doctor", "--json"],
        &["executions", "list"],
        &["executions", "show", &execution],
        &["executions", "show", &execution, "--json"],
        &["executions", "export", "--output", &lines],
        &["automations", "list"],
        &["connections", "list"],
        &["secrets", "list"],
        &["state", "list", "waits"],
        &["nodes"],
        &["audit"],
        &["test"],
        &["backup", &backup],
        &["run", "sly"],
    ] {
        site.cogwork(arguments).await;
    }
    // Every command, also with unexpected arguments, in each output format.
    let program = tests::daemon::binary("cogwork").unwrap();
    let help = |words: &[String]| {
        let output = std::process::Command::new(&program).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let commands = tests::commands::all(help);
    assert!(commands.len() > 60, "{commands:?}");
    for command in commands {
        let command: Vec<&str> =
            command.iter().map(|word| if word == "hello" { "waits" } else { word.as_str() }).collect();
        for more in [&[][..], &["--json"]] {
            // Some commands follow events and never end.
            let asked = [&command[..], more].concat();
            let _ = tokio::time::timeout(PATIENCE / 6, site.cogwork(&asked)).await;
        }
    }
    canary::search(folder.path()).unwrap();
    canary::search(&site.project.path().join(".cogwork")).unwrap();
    let audit = std::fs::read_to_string(site.project.path().join(".cogwork/audit.jsonl")).unwrap();
    let output = site.daemon().output();
    for form in &canaries.resume {
        assert!(!audit.contains(form), "the audit log has a resume address");
        assert!(!output.contains(form), "the log of the daemon has a resume address");
    }
    canaries.site.kill().await;
}
