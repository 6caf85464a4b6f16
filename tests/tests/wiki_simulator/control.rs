//! The control API, and the program.

use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tests::wiki::{
    DEMO_EMAIL, DEMO_PAGE_ID, DEMO_SPACE_ID, DEMO_TOKEN, READER_EMAIL, READER_TOKEN, Simulator,
};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::client::{Answer, Wiki, bare, send, wiki, wiki_with};

async fn controlled() -> Wiki {
    wiki_with(Simulator::builder().admin(true)).await
}

async fn control(wiki: &Wiki, method: Method, path: &str, body: Value) -> Answer {
    send(wiki.open(method, &format!("/_sim/{path}")).json(&body)).await
}

#[tokio::test]
async fn the_control_api_is_there_only_when_it_was_opened() {
    send(wiki().await.open(Method::GET, "/_sim/help")).await.is(404);
    let wiki = controlled().await;
    let help = send(wiki.open(Method::GET, "/_sim/help")).await;
    assert!(help.is(200).body.as_array().unwrap().len() > 10);
    send(wiki.open(Method::GET, "/_sim/nothing")).await.is(404);
    send(wiki.open(Method::GET, "/_sim/help").header("origin", "http://evil.example")).await.is(403);
    assert_eq!(wiki.sim.count("*", "*"), 0, "the control API is not in the log");
}

#[tokio::test]
async fn faults_can_be_scripted_from_another_process() {
    let wiki = controlled().await;
    let faults =
        json!([{"method": "GET", "path": "*/pages", "status": 502}, {"path": "*/spaces", "truncate": true}]);
    assert_eq!(control(&wiki, Method::POST, "faults", faults).await.is(200).body["pending"], 2);
    wiki.get("/pages").await.is(502);
    let pending = send(wiki.open(Method::GET, "/_sim/faults")).await;
    assert_eq!(pending.body["pending"][0]["path"], "*/spaces");
    send(wiki.open(Method::DELETE, "/_sim/faults")).await.is(204);
    wiki.get("/spaces").await.is(200);
    let wrong = control(&wiki, Method::POST, "faults", json!({"staus": 500})).await;
    assert!(wrong.is(400).body["error"].as_str().unwrap().contains("staus"));
}

#[tokio::test]
async fn the_log_can_be_read_and_filtered() {
    let wiki = controlled().await;
    wiki.get("/pages").await.is(200);
    wiki.create("A", json!({})).await.is(200);
    let all = send(wiki.open(Method::GET, "/_sim/requests")).await;
    assert_eq!((&all.body["total"], all.body["requests"].as_array().unwrap().len()), (&json!(2), 2));
    let posts = send(wiki.open(Method::GET, "/_sim/requests?method=POST&path=*/pages")).await;
    assert_eq!(posts.body["requests"][0]["status"], 200);
    assert!(!all.text.contains(DEMO_TOKEN));
    let after = send(wiki.open(Method::GET, "/_sim/requests?after=1")).await;
    assert_eq!(after.body["requests"].as_array().unwrap().len(), 1);
    send(wiki.open(Method::DELETE, "/_sim/requests")).await.is(204);
    assert_eq!(wiki.sim.count("*", "*"), 0);
}

#[tokio::test]
async fn the_clock_and_the_switches_can_be_moved() {
    let wiki = controlled().await;
    let before = wiki.sim.now();
    let moved = control(&wiki, Method::POST, "clock", json!({"advanceMs": 1_000})).await;
    assert_eq!(moved.is(200).body["now"], before.plus(Duration::from_secs(1)).to_string());
    control(&wiki, Method::POST, "clock", json!({"to": "2026-02-01T00:00:00Z"})).await.is(200);
    assert_eq!(wiki.sim.now().to_string(), "2026-02-01T00:00:00.000Z");
    control(&wiki, Method::POST, "clock", json!({"to": "2020-01-01T00:00:00Z"})).await.is(400);
    let switches = control(&wiki, Method::POST, "switches", json!({"oldNextLinks": true})).await;
    assert_eq!(
        (&switches.is(200).body["oldNextLinks"], &switches.body["checkStorageFormat"]),
        (&json!(true), &json!(true))
    );
    control(&wiki, Method::POST, "switches", json!({"unknown": 1})).await.is(400);
    assert!(wiki.sim.switches().old_next_links);
}

#[tokio::test]
async fn limits_grants_sites_and_answers_can_be_set() {
    let wiki = controlled().await;
    control(&wiki, Method::POST, "rate-limit", json!({"requests": 0, "windowMs": 1_000})).await.is(200);
    wiki.get("/pages").await.is(429);
    control(&wiki, Method::POST, "rate-limit", Value::Null).await.is(200);
    wiki.get("/pages").await.is(200);
    let tokens = control(&wiki, Method::POST, "grants", json!({"scope": "read:page:wiki"})).await;
    let token = tokens.is(200).body["access_token"].as_str().unwrap().to_owned();
    send(wiki.gateway(Method::GET, "/pages", &token)).await.is(200);
    control(&wiki, Method::POST, "accessible-resources", json!([])).await.is(204);
    let sites = wiki.open(Method::GET, "/oauth/token/accessible-resources").bearer_auth(&token);
    assert_eq!(send(sites).await.is(200).body, json!([]));
    send(wiki.open(Method::DELETE, "/_sim/grants")).await.is(204);
    send(wiki.gateway(Method::GET, "/pages", &token)).await.is(401);
    control(&wiki, Method::POST, "graphql", json!({"operation": "X", "data": {"x": 1}})).await.is(204);
    let asked = wiki.site(Method::POST, "/gateway/api/graphql").json(&json!({"query": "query X { x }"}));
    assert_eq!(send(asked).await.body["data"], json!({"x": 1}));
}

#[tokio::test]
async fn spaces_and_custom_content_can_be_added() {
    let wiki = controlled().await;
    let space = control(&wiki, Method::POST, "spaces", json!({"key": "NEW", "name": "New"})).await;
    let id = space.is(200).body["id"].as_str().unwrap();
    let homepage = wiki.get(&format!("/spaces/{id}")).await.is(200).body["homepageId"].clone();
    control(&wiki, Method::POST, "spaces", json!({"key": "NEW", "name": "Again"})).await.is(400);
    let content = json!({"pageId": homepage, "type": "ac:a:b", "title": "C"});
    let content = control(&wiki, Method::POST, "custom-content", content).await;
    let id = content.is(200).body["id"].as_str().unwrap();
    wiki.get(&format!("/custom-content/{id}/properties")).await.is(200);
}

#[tokio::test]
async fn a_held_call_can_be_released_from_another_process() {
    let wiki = controlled().await;
    control(&wiki, Method::POST, "faults", json!({"path": "*/pages", "hold": "before"})).await.is(200);
    let call = tokio::spawn(send(wiki.v2(Method::GET, "/pages")));
    wiki.sim.wait_for_held(1).await.unwrap();
    send(wiki.open(Method::POST, "/_sim/release")).await.is(204);
    call.await.unwrap().is(200);
}

#[tokio::test]
async fn the_demo_site_has_something_of_everything() {
    let wiki = bare(Simulator::builder().demo()).await;
    assert_eq!(wiki.get("/spaces").await.column("key"), ["DEMO", "ARCH"]);
    assert!(wiki.get("/pages").await.ids().len() >= 12);
    assert_eq!(wiki.get("/attachments").await.ids().len(), 3);
    let page = wiki.get(&format!("/pages/{DEMO_PAGE_ID}?include-labels=true&include-properties=true")).await;
    assert_eq!(page.is(200).body["title"], "Welcome");
    assert_eq!(page.body["spaceId"], DEMO_SPACE_ID.to_string());
    let reader = |path: &str| {
        wiki.open(Method::GET, &format!("/wiki/api/v2{path}")).basic_auth(READER_EMAIL, Some(READER_TOKEN))
    };
    assert_eq!(send(reader("/spaces")).await.column("key"), ["DEMO"]);
}

#[tokio::test]
async fn two_demo_sites_have_the_same_ids_and_titles() {
    let (first, second) = (bare(Simulator::builder().demo()).await, bare(Simulator::builder().demo()).await);
    let (first, second) = (first.get("/pages").await, second.get("/pages").await);
    assert_eq!(first.ids(), second.ids());
    assert_eq!(first.column("title"), second.column("title"));
}

#[tokio::test]
async fn the_program_says_where_it_listens_and_serves_the_demo_site() {
    let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_wiki-simulator"))
        .args(["--listen", "127.0.0.1:0", "--quiet", "--admin", "--extra-pages", "3"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let address = lines.next_line().await.unwrap().unwrap();
    let client = wiki().await.http;
    let pages = client.get(format!("{address}/wiki/api/v2/pages?title=Extra page 00003"));
    assert_eq!(send(pages.basic_auth(DEMO_EMAIL, Some(DEMO_TOKEN))).await.is(200).ids().len(), 1);
    assert_eq!(send(client.get(format!("{address}/_sim/requests"))).await.is(200).body["total"], 1);
    program.kill().await.unwrap();
}

#[tokio::test]
async fn an_address_in_use_is_told_by_the_program() {
    let wiki = wiki().await;
    let taken = wiki.sim.base_url().strip_prefix("http://").unwrap();
    let output =
        tokio::process::Command::new(env!("CARGO_BIN_EXE_wiki-simulator")).args(["--listen", taken]).output();
    let output = output.await.unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains(&format!("cannot listen on `{taken}`")), "{text}");
}
