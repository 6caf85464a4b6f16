//! Waits survive the daemon: approvals are answered after a kill, and events reach the executions that wait for them.

use pretty_assertions::assert_eq;
use reqwest::Method;
use reqwest::header::ACCEPT;
use serde_json::{Value, json};
use tests::recorder::Recorder;

use crate::site::{self, Site, posts, send};

/// Waits until an execution has this many waits, and returns it.
async fn waiting(site: &Site, id: &str, pauses: usize) -> Value {
    let mut changes = site.events("/events").await;
    loop {
        let found = site.ask(&format!("/executions/{id}")).await;
        let count = found["waiting"]["pauses"].as_array().map_or(0, Vec::len);
        if found["status"] == "waiting" && count == pauses {
            return found;
        }
        changes.next("execution").await;
    }
}

/// Returns the resume URL of an execution at the running daemon, whose port changes with each start.
fn here(site: &Site, waiting: &Value) -> String {
    let url = waiting["waiting"]["resumeUrl"].as_str().unwrap();
    format!("{}{}", site.daemon().hooks_url(), &url[url.find("/resume/").unwrap()..])
}

#[tokio::test]
async fn an_approval_requested_before_a_kill_is_answered_after_it() {
    let recorder = Recorder::start().await.unwrap();
    let ask = "  - id: ask\n    waitFor: {approval: {message: Ship it?, form: {reason: {type: text, required: true}}}}\n";
    let steps = [posts(&recorder, &["before"]), ask.to_owned(), posts(&recorder, &["after"])].concat();
    let work = format!("trigger: {{webhook: {{}}}}\nsteps:\n{steps}outputs: ${{{{ steps.ask.results }}}}\n");
    let mut site = Site::serving(&[("work", &work)]).await;
    let id = site.post("work", &json!({})).await.execution();
    let asked = waiting(&site, &id, 1).await;
    let before = here(&site, &asked);
    site.kill().await;

    site.start().await;
    let url = here(&site, &waiting(&site, &id, 1).await);
    assert_eq!(before.rsplit_once('/').unwrap().1, url.rsplit_once('/').unwrap().1, "the address stays");
    let page = send(site.request(Method::GET, &url).header(ACCEPT, "text/html")).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("Ship it?") && page.text.contains("value=\"approve\""), "{}", page.text);
    assert_eq!(recorder.paths(), ["/before"]);

    let fields = [("option", "approve"), ("form.reason", "checked")];
    let answered = send(site.request(Method::POST, &url).form(&fields)).await;
    assert_eq!(answered.status, 200, "the redirect leads to a page");
    assert!(answered.text.contains("Answered") && answered.text.contains("checked"), "{}", answered.text);
    let end = site.end_of(&id).await;
    assert_eq!(end["outcome"]["result"], json!({"option": "approve", "form": {"reason": "checked"}}));
    assert_eq!(recorder.paths(), ["/before", "/after"]);
    let late = send(site.request(Method::POST, &url).json(&json!({"option": "reject"}))).await;
    assert_eq!(late.refusal(), (409, "not_waiting".to_owned()));
}

#[tokio::test]
async fn a_confirmed_answer_survives_a_kill_right_after_it() {
    let ask = "trigger: {webhook: {}}\nsteps: [{id: ask, waitFor: {approval: {message: Ship it?}}}]\n";
    let mut site = Site::serving(&[("work", ask)]).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(site.post("work", &json!({})).await.execution());
    }
    for (index, id) in ids.iter().enumerate() {
        let url = here(&site, &waiting(&site, id, 1).await);
        let answer = send(site.request(Method::POST, &url).json(&json!({"option": "approve"}))).await;
        assert_eq!(answer.json(), json!({"status": "answered"}));
        if index % 5 == 0 {
            site.kill().await;
            site.start().await;
        }
    }
    site.kill().await;
    site.start().await;
    for id in &ids {
        assert_eq!(site.end_of(id).await["outcome"]["result"]["option"], json!("approve"));
    }
}

#[tokio::test]
async fn an_event_sent_after_a_kill_reaches_executions_that_waited_before_it() {
    let work = "trigger: {webhook: {}}\nsteps: [{id: paid, waitFor: {event: orderPaid, if: event.data.amount > 10}}]\n";
    let mut site = Site::serving(&[("work", work)]).await;
    let (one, other) =
        (site.post("work", &json!({})).await.execution(), site.post("work", &json!({})).await.execution());
    waiting(&site, &one, 1).await;
    waiting(&site, &other, 1).await;
    site.kill().await;
    site.start().await;
    // One gets its events through its resume URL, first an event that its condition rejects.
    let url = here(&site, &waiting(&site, &one, 1).await);
    for amount in [3, 11] {
        let sent = send(site.request(Method::POST, &url).json(&json!({"amount": amount}))).await;
        assert_eq!((sent.status, sent.json()), (200, json!({"status": "delivered"})));
    }
    assert_eq!(site.end_of(&one).await["outcome"]["result"], json!({"amount": 11}));
    waiting(&site, &other, 1).await;
    let emit = site.api(Method::POST, "/events").json(&json!({"name": "orderPaid", "data": {"amount": 12}}));
    assert_eq!(
        site::emit(emit).await,
        json!({"delivered": 1, "kept": true, "starts": [], "repeated": false})
    );
    assert_eq!(site.end_of(&other).await["outcome"]["result"], json!({"amount": 12}));
}

#[tokio::test]
async fn a_waiting_execution_keeps_its_definition_when_the_file_changes() {
    let recorder = Recorder::start().await.unwrap();
    let version = |name: &str| {
        let wait = "  - {id: go, waitFor: {event: go}}\n";
        format!("trigger: {{webhook: {{}}}}\nsteps:\n{wait}{}", posts(&recorder, &[name]))
    };
    let mut site = Site::serving(&[("work", &version("one"))]).await;
    let one = site.post("work", &json!({})).await.execution();
    waiting(&site, &one, 1).await;
    // Once while the daemon runs, and once while none runs.
    let mut changes = site.events("/events").await;
    site.project.replace("automations/work.yaml", &version("two")).unwrap();
    changes.next("catalog").await;
    let two = site.post("work", &json!({})).await.execution();
    waiting(&site, &two, 1).await;
    site.kill().await;
    site.project.replace("automations/work.yaml", &version("three")).unwrap();
    site.start().await;
    let three = site.post("work", &json!({})).await.execution();
    waiting(&site, &three, 1).await;
    let emit = site.api(Method::POST, "/events").json(&json!({"name": "go", "data": null}));
    assert_eq!(
        site::emit(emit).await,
        json!({"delivered": 3, "kept": true, "starts": [], "repeated": false})
    );
    for (id, path) in [(&one, "/one"), (&two, "/two"), (&three, "/three")] {
        assert_eq!(site.end_of(id).await["status"], json!("succeeded"));
        let keys: Vec<_> = recorder.requests_to(path).into_iter().map(|sent| sent.idempotency_key).collect();
        assert_eq!(keys, [Some(format!("{id}.{}", &path[1..]))]);
    }
}
