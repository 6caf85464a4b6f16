//! Failures: none of them ends the daemon, and each is reported to the right recipient.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use wiki_simulator::{DEMO_PAGE_ID, Fault, Simulator, When};

use crate::site::{Site, send};

const GOOD: &str = "trigger: {webhook: {mode: sync}}\nsteps: [{set: {version: 1}}]\n";

#[tokio::test]
async fn a_file_that_no_longer_loads_keeps_its_last_good_version_active() {
    let site = Site::serving(&[("hook", GOOD), ("other", GOOD)]).await;
    let mut changes = site.events("/events").await;
    let bad = [
        ("a syntax error", "trigger: {webhook: {mode: sync}\nsteps: ["),
        ("an unknown key", "trigger: {webhook: {mode: sync}}\nstepps: []\nsteps: []\n"),
        ("an unknown action", "trigger: {webhook: {mode: sync}}\nsteps: [{action: wiki.createPag}]\n"),
        ("nothing", ""),
    ];
    for (what, text) in bad {
        site.project.replace("automations/hook.yaml", text).unwrap();
        changes.next("catalog").await;
        let shown = site.automation("hook").await;
        assert_eq!(shown["state"], json!("stale"), "{what}");
        assert!(shown["errors"].as_u64().unwrap() > 0, "{what}: {shown}");
        let place = &shown["diagnostics"][0];
        assert!(place["line"].as_u64().unwrap() >= 1, "{what}: {place}");
        assert_eq!(site.post("hook", &json!({})).await.json(), json!({"version": 1}), "{what}");
        assert_eq!(site.post("other", &json!({})).await.status, 200, "{what}");
    }
    site.project.replace("automations/hook.yaml", &GOOD.replace("version: 1", "version: 2")).unwrap();
    changes.next("catalog").await;
    assert_eq!(site.automation("hook").await["state"], json!("active"));
    assert_eq!(site.post("hook", &json!({})).await.json(), json!({"version": 2}));
}

#[tokio::test]
async fn files_that_never_loaded_are_reported_and_the_others_serve() {
    let step = |step: &str| format!("trigger: {{webhook: {{mode: sync}}}}\nsteps:\n  - {step}\n");
    let bad = [
        ("connection", step("{action: wiki.listSpaces, connection: nowhere}"), "unknown-connection"),
        ("no-connection", step("{action: wiki.listSpaces}"), "missing-connection"),
        ("action", step("{action: wiki.createPages, connection: wiki}"), "unknown-action"),
        ("connector", step("{action: wikki.createPage, connection: wiki}"), "unknown-action"),
        ("input", step("{action: wiki.getPage, connection: wiki, with: {pageid: 1}}"), "unknown-input"),
        ("missing", step("{action: wiki.getPage, connection: wiki}"), "missing-input"),
        ("reference", step("{set: {a: \"${{ steps.nothing.results }}\"}}"), "unknown-step"),
        ("syntax", step("{set: {a: \"${{ 1 + }}\"}}"), "expression-syntax"),
        ("cron", "trigger: {schedule: {cron: \"61 * * * *\"}}\nsteps: []\n".to_owned(), "bad-schedule"),
        ("yaml", "trigger: [".to_owned(), "yaml-unclosed"),
    ];
    let mut files: Vec<(&str, &str)> = bad.iter().map(|(name, text, _)| (*name, text.as_str())).collect();
    files.push(("good", GOOD));
    let mut site = Site::new(&files);
    site.connect_wiki("http://127.0.0.1:9");
    site.start().await;
    assert_eq!(site.post("good", &json!({})).await.json(), json!({"version": 1}));

    let listed = site.ask("/automations").await;
    let codes_of = |name: &str| -> Vec<String> {
        let path = json!(format!("automations/{name}.yaml"));
        let broken = listed["broken"].as_array().unwrap().iter().find(|file| file["path"] == path);
        let diagnostics =
            broken.unwrap_or_else(|| panic!("{name} loads: {listed}"))["diagnostics"].as_array().unwrap();
        diagnostics.iter().map(|diagnostic| diagnostic["code"].as_str().unwrap().to_owned()).collect()
    };
    for (name, _, code) in &bad {
        let codes = codes_of(name);
        assert!(codes.iter().any(|found| found == code), "{name}: {codes:?}");
    }
    let validated = site.cogwork(&["validate"]).await;
    assert_eq!(validated.status.code(), Some(1));
}

#[tokio::test]
async fn an_expression_without_a_value_fails_the_execution_and_names_the_path() {
    let hook = "trigger: {webhook: {mode: sync}}\nsteps: [{set: {a: \"${{ trigger.results.body.data.orderId }}\"}}]\n";
    let site = Site::serving(&[("hook", hook)]).await;
    let answer = site.post("hook", &json!({"orderid": 1})).await;
    assert_eq!(answer.status, 500);
    let why = answer.json()["error"].as_str().unwrap().to_owned();
    assert!(
        why.contains("trigger.results.body.data.orderId") && why.contains("did you mean `orderid`"),
        "{why}"
    );
    let end = site.end_of(answer.header("x-execution-id")).await;
    assert_eq!((&end["status"], &end["outcome"]["error"]["step"]), (&json!("failed"), &json!("step1")));
}

/// A page, read synchronously from the connection `wiki`.
const PAGE: &str = "
trigger: {webhook: {mode: sync}}
steps:
  - id: page
    action: wiki.getPage
    connection: wiki
    with: {pageId: \"${{ trigger.results.body.data.id }}\"}
";

#[tokio::test]
async fn errors_of_the_wiki_reach_the_execution_and_the_caller() {
    let wiki = Simulator::builder().demo().start().await.unwrap();
    let mut site = Site::new(&[("page", PAGE)]);
    site.connect_wiki(wiki.base_url());
    site.start().await;
    let id = json!({"id": DEMO_PAGE_ID.to_string()});
    assert_eq!(site.post("page", &id).await.json()["title"], json!("Welcome"));

    let check = async |body: &Value, words: &str, kind: &str, status: Value| {
        let answer = site.post("page", body).await;
        assert_eq!(answer.status, 500, "{words}");
        let end = site.end_of(answer.header("x-execution-id")).await;
        let error = &end["outcome"]["error"];
        assert!(error["message"].as_str().unwrap().contains(words), "{words}: {error}");
        assert_eq!((&error["kind"], &error["status"]), (&json!(kind), &status), "{words}");
        assert_eq!(answer.json()["error"], error["message"]);
        assert_eq!(error["step"], json!("page"));
    };
    check(&json!({"id": "1"}), "the wiki answered 404", "status", json!(404)).await;
    wiki.fault(Fault::on("GET", "*").status(500)).unwrap();
    check(&id, "the wiki answered 500", "status", json!(500)).await;
    wiki.fault(Fault::on("GET", "*").status(429).retry_after(1)).unwrap();
    check(&id, "asks to wait 1s", "status", json!(429)).await;
    wiki.fault(Fault::on("GET", "*").html(503)).unwrap();
    check(&id, "with an HTML page", "status", json!(503)).await;
    wiki.fault(Fault::on("GET", "*").html(200)).unwrap();
    check(&id, "where JSON was expected", "response", json!(200)).await;
    wiki.fault(Fault::on("GET", "*").reset(When::Before)).unwrap();
    check(&id, "the wiki", "network", Value::Null).await;
    wiki.fault(Fault::on("GET", "*").truncated()).unwrap();
    check(&id, "the wiki", "network", Value::Null).await;
    wiki.stop().await;
    check(&id, "the wiki", "network", Value::Null).await;
}

#[tokio::test]
async fn a_missing_secret_of_a_connection_is_named_with_its_variable() {
    let wiki = Simulator::builder().demo().start().await.unwrap();
    let mut site = Site::new(&[("page", PAGE)]);
    site.connect_wiki(wiki.base_url());
    site.project.remove("secrets/wikiToken").unwrap();
    site.start().await;
    let body = json!({"id": DEMO_PAGE_ID.to_string()});
    let why = site.post("page", &body).await.json()["error"].as_str().unwrap().to_owned();
    assert!(why.contains("`wikiToken` is not set") && why.contains("COGWORK_SECRET_WIKI_TOKEN"), "{why}");
    assert_eq!(wiki.requests().len(), 0);

    site.connect_wiki(wiki.base_url());
    assert_eq!(site.post("page", &body).await.status, 200, "a secret that comes applies at once");
}

#[tokio::test]
async fn many_missing_secrets_are_named_in_one_line_and_a_few_with_their_places() {
    for (count, is_one_line) in [(5, false), (6, true)] {
        let mut site = Site::new(&[("ping", "trigger: {manual: {}}\nsteps: [{set: {x: 1}}]\n")]);
        for number in 1..=count {
            let text = format!(
                "type: http.bearer\nwith: {{baseUrl: \"https://a.example\", token: \"${{{{ secrets.key{number} }}}}\"}}\n"
            );
            site.project.write(&format!("connections/c{number}.yaml"), &text).unwrap();
        }
        site.start().await;
        let line = format!("{count} secrets are not set: key1, key2, key3");
        let words = if is_one_line { line.as_str() } else { "connections/c5.yaml:2" };
        site.daemon().wait_for_output(words).await.unwrap();
        let output = site.daemon().output();
        assert_eq!(output.contains("warning[missing-secret]"), !is_one_line, "{output}");
        assert_eq!(output.contains(&line), is_one_line, "{output}");
    }
}

#[tokio::test]
async fn a_refused_webhook_request_gets_its_error_code() {
    let small = "trigger: {webhook: {mode: sync, maxBody: 1KiB}}\nsteps: []\n";
    let off = "trigger: {webhook: {}}\nenabled: false\nsteps: []\n";
    let site = Site::serving(&[("small", small), ("off", off)]).await;
    let url = site.url("small").await;
    let post = |url: &str, kind: &str, body: String| {
        send(site.request(Method::POST, url).header("content-type", kind).body(body))
    };
    let refusal = |status: u16, code: &str| (status, code.to_owned());
    let json = "application/json";
    assert_eq!(post(&url, json, "{\"a\": ".into()).await.refusal(), refusal(400, "bad_json"));
    assert_eq!(
        post(&url, json, format!("\"{}\"", "x".repeat(1023))).await.refusal(),
        refusal(413, "payload_too_large")
    );
    assert_eq!(post(&url, json, format!("\"{}\"", "x".repeat(1022))).await.status, 200);
    let unknown = format!("{}/trigger/{}", site.daemon().hooks_url(), "A".repeat(43));
    assert_eq!(post(&unknown, json, "{}".into()).await.refusal(), refusal(404, "unknown_trigger"));
    let off = site.automation("off").await["liveUrl"].as_str().unwrap().to_owned();
    assert_eq!(post(&off, json, "{}".into()).await.refusal(), refusal(404, "automation_disabled"));
    let nowhere = format!("{}/nothing", site.daemon().hooks_url());
    assert_eq!(post(&nowhere, json, "{}".into()).await.status, 404);
    let encoded = |encoding| site.request(Method::POST, &url).header("content-encoding", encoding).body("x");
    assert_eq!(send(encoded("br")).await.refusal(), refusal(415, "unsupported_encoding"));
    assert_eq!(send(encoded("gzip")).await.refusal(), refusal(400, "bad_encoding"));
    assert_eq!(site.executions_of("small").await.len(), 1);
}

#[tokio::test]
async fn a_second_daemon_on_the_same_data_is_refused() {
    let site = Site::serving(&[("hook", GOOD)]).await;
    let second = site.cogwork(&["serve", "--hooks", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).await;
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("store"), "{said}");
    assert_eq!(site.post("hook", &json!({})).await.status, 200);
}
