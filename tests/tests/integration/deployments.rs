//! Definitions that are deployed into a shared store: every daemon activates them, all files together or none.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use store::conformance::PostgresServer;
use tests::canary;

use crate::cluster::Cluster;
use crate::site::{Answer, Site, send};

const ONE: &str = "trigger: {webhook: {mode: sync}}\nsteps:\n  - respond: {body: one}\n";
const TWO: &str = "trigger: {webhook: {mode: sync}}\nsteps:\n  - respond: {body: two}\n";
const THREE: &str = "trigger: {webhook: {mode: sync}}\nsteps:\n  - respond: {body: three}\n";
const BROKEN: &str = "trigger: {webhook: {}}\nsteps:\n  - {id: a, action: nothing.like.it}\n";

async fn push(site: &Site, arguments: &[&str]) -> (bool, String) {
    let arguments = [&["push"], arguments].concat();
    let output = site.cogwork(&arguments).await;
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// Waits until a daemon runs this generation.
async fn runs(site: &Site, generation: u64) {
    loop {
        let status = site.ask("/status").await;
        if status["deployment"]["generation"] == json!(generation) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn answer(site: &Site, id: &str) -> String {
    let answer = site.post(id, &json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text
}

async fn deploy(site: &Site, files: &[(&str, &str)], follows: u64) -> Answer {
    let file = |(path, text): &(&str, &str)| json!({"path": path, "text": text});
    let files: Vec<Value> = files.iter().map(file).collect();
    let body = json!({"files": files, "follows": follows, "note": "by the API"});
    send(site.api(Method::POST, "/deployments").json(&body)).await
}

#[tokio::test]
async fn a_pushed_folder_is_active_on_all_daemons_and_on_later_ones() {
    let mut cluster = Cluster::start(2, &[("orders", ONE)]).await;
    let weakened = cluster.sites[0].ask("/status").await["store"]["weakened"].to_string();
    assert!(weakened.contains("each reads its own project folder"), "{weakened}");
    let [here, there] = [&cluster.sites[0], &cluster.sites[1]];
    here.project.automation("orders", TWO).unwrap();
    here.project.automation("more", ONE).unwrap();
    here.project
        .write(
            "automations/more.test.yaml",
            "tests:\n  - {name: it answers, payload: {body: {}}, expect: {response: {status: 200}}}\n",
        )
        .unwrap();
    let (is_done, said) = push(here, &["--note", "two of them"]).await;
    assert!(is_done && said.contains("deployed as generation 1"), "{said}");
    for site in [here, there] {
        runs(site, 1).await;
        assert_eq!((answer(site, "orders").await, answer(site, "more").await), ("two".into(), "one".into()));
        let files = site.ask("/files").await["files"].to_string();
        assert!(files.contains("automations/more.yaml"), "{files}");
    }
    let weakened = here.ask("/status").await["store"]["weakened"].to_string();
    assert!(!weakened.contains("project folder"), "{weakened}");
    // From now on the folders are ignored.
    there.project.automation("own", ONE).unwrap();
    let (is_done, said) = push(here, &[]).await;
    assert!(is_done && said.contains("nothing is different from generation 1"), "{said}");
    assert_eq!(send(there.api(Method::GET, "/automations/own")).await.status, 404);
    let mut empty = Site::new(&[]);
    empty.start_with(&["--store", &cluster.url]).await;
    assert_eq!(answer(&empty, "orders").await, "two", "a daemon without files runs the deployed definitions");
    let listed = empty.ask("/deployments").await;
    let [deployment] = listed["deployments"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!((&deployment["note"], &deployment["files"]), (&json!("two of them"), &json!(3)));
    cluster.sites.push(empty);
    cluster.until(0, |nodes| nodes.iter().all(|node| node["deployment"] == json!(1))).await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_deployment_with_errors_or_a_stale_base_changes_nothing() {
    let cluster = Cluster::start(2, &[("orders", ONE)]).await;
    let [here, there] = [&cluster.sites[0], &cluster.sites[1]];
    let orders = "automations/orders.yaml";
    assert_eq!(deploy(here, &[(orders, TWO)], 0).await.status, 200);
    let broken = deploy(there, &[(orders, ONE), ("automations/bad.yaml", BROKEN)], 1).await;
    assert_eq!(broken.refusal(), (422, "project_has_errors".to_owned()), "{}", broken.text);
    assert!(broken.text.contains("nothing.like.it"), "{}", broken.text);
    let late = deploy(there, &[(orders, ONE)], 0).await;
    assert_eq!(late.refusal(), (409, "overtaken".to_owned()), "{}", late.text);
    for path in ["secrets/token", "automations/../cogwork.yaml", ".cogwork/admin-token"] {
        let refused = deploy(there, &[(path, "x")], 1).await;
        assert_eq!(refused.refusal(), (400, "bad_file_path".to_owned()), "{path}");
    }
    runs(there, 1).await;
    assert_eq!(answer(there, "orders").await, "two");
    there.project.automation("bad", BROKEN).unwrap();
    let (is_done, said) = push(there, &[]).await;
    assert!(!is_done && said.contains("nothing was deployed"), "{said}");
    assert_eq!(here.ask("/deployments").await["deployments"].as_array().unwrap().len(), 1);
    cluster.stop().await;
}

#[tokio::test]
async fn a_rollback_deploys_an_earlier_generation_as_the_newest() {
    let cluster = Cluster::start(2, &[("orders", ONE)]).await;
    let [here, there] = [&cluster.sites[0], &cluster.sites[1]];
    for text in [ONE, TWO] {
        here.project.automation("orders", text).unwrap();
        assert!(push(here, &[]).await.0);
    }
    runs(there, 2).await;
    let restored = there.cogwork(&["deployments", "rollback", "1"]).await;
    assert!(restored.status.success(), "{restored:?}");
    for site in [here, there] {
        runs(site, 3).await;
        assert_eq!(answer(site, "orders").await, "one");
    }
    let listed = here.cogwork(&["deployments"]).await;
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("generation 1 again"), "{listed}");
    let gone = send(here.api(Method::POST, "/deployments/9/restore")).await;
    assert_eq!(gone.refusal(), (404, "unknown_deployment".to_owned()));
    cluster.stop().await;
}

#[tokio::test]
async fn an_edit_of_deployed_definitions_applies_to_all_daemons() {
    let cluster = Cluster::start(2, &[("orders", ONE)]).await;
    let [here, there] = [&cluster.sites[0], &cluster.sites[1]];
    assert!(push(here, &[]).await.0);
    runs(there, 1).await;
    let path = "/files/automations%2Forders.yaml";
    let etag = there.ask(path).await["etag"].as_str().unwrap().to_owned();
    let put = |query: &str, text: &str| {
        let request = there.api(Method::PUT, &format!("{path}{query}"));
        request.header("If-Match", &etag).json(&json!({ "text": text }))
    };
    let broken = send(put("?withErrors=true", BROKEN)).await;
    assert_eq!(
        broken.refusal(),
        (422, "project_has_errors".to_owned()),
        "all files load, or none is deployed"
    );
    let edited = send(put("", TWO)).await;
    assert_eq!(edited.status, 200, "{}", edited.text);
    assert_eq!(send(put("", ONE)).await.refusal(), (412, "file_changed".to_owned()));
    runs(here, 2).await;
    assert_eq!((answer(here, "orders").await, answer(there, "orders").await), ("two".into(), "two".into()));
    let disabled = send(here.api(Method::POST, "/automations/orders/disable")).await;
    assert_eq!(disabled.status, 200, "{}", disabled.text);
    runs(there, 3).await;
    assert_eq!(there.automation("orders").await["enabled"], json!(false));
    // A push would silently undo them.
    let (is_done, said) = push(here, &[]).await;
    assert!(!is_done && said.contains("--over 3"), "{said}");
    let (is_done, said) = push(here, &["--over", "3"]).await;
    assert!(is_done, "{said}");
    assert_eq!(answer(here, "orders").await, "one");
    cluster.stop().await;
}

#[tokio::test]
async fn auto_deploy_publishes_each_change_of_the_folder_to_all_daemons() {
    let server = PostgresServer::start();
    let url = server.space().url();
    let (mut source, mut other) = (Site::new(&[("orders", ONE)]), Site::new(&[]));
    source.start_with(&["--store", &url, "--auto-deploy", "true"]).await;
    other.start_with(&["--store", &url]).await;
    assert_eq!(answer(&other, "orders").await, "one");
    source.project.automation("orders", BROKEN).unwrap();
    source.daemon().wait_for_output("was not deployed").await.unwrap();
    source.project.automation("orders", TWO).unwrap();
    runs(&other, 2).await;
    assert_eq!(answer(&other, "orders").await, "two");
    let path = "/files/automations%2Forders.yaml";
    let edit = |site: &Site, etag: &str| {
        site.api(Method::PUT, path).header("If-Match", etag).json(&json!({ "text": ONE }))
    };
    let etag = other.ask(path).await["etag"].as_str().unwrap().to_owned();
    let refused = send(edit(&other, &etag)).await;
    assert_eq!(refused.refusal(), (409, "deployed_from_folder".to_owned()), "{}", refused.text);
    assert_eq!(
        send(edit(&source, &etag)).await.status,
        200,
        "at the daemon with the folder, an edit changes the folder"
    );
    runs(&other, 3).await;
    assert_eq!(answer(&other, "orders").await, "one");
    assert!(source.stop().await.success());
    assert!(other.stop().await.success());
}

#[tokio::test]
async fn a_generation_that_does_not_load_leaves_the_last_good_one_active_until_the_next() {
    let cluster = Cluster::start(2, &[("orders", ONE)]).await;
    let [here, behind] = [&cluster.sites[0], &cluster.sites[1]];
    let orders = "automations/orders.yaml";
    assert_eq!(deploy(here, &[(orders, ONE)], 0).await.status, 200);
    runs(behind, 1).await;
    // A file that blocks the folder of the second generation.
    behind.project.write(".cogwork/deployments/2", "in the way").unwrap();
    assert_eq!(deploy(here, &[(orders, TWO)], 1).await.status, 200);
    runs(here, 2).await;
    let shards = |nodes: &[Value]| nodes.iter().map(|node| node["shards"].as_u64()).collect::<Vec<_>>();
    cluster.until(0, |nodes| shards(nodes) == [Some(128), Some(0)]).await;
    let expected = "generation 2 does not load: its files cannot be written";
    let status = behind.ask("/status").await;
    assert_eq!(status["deployment"]["generation"], json!(1));
    let problem = status["deploymentProblem"].as_str().unwrap_or_default();
    assert!(problem.starts_with(expected), "{status}");
    for site in [here, behind] {
        cluster.until(0, |nodes| nodes[1]["problem"].as_str().is_some_and(|said| said == problem)).await;
        let listed = site.cogwork(&["nodes"]).await;
        let said = String::from_utf8([listed.stdout, listed.stderr].concat()).unwrap();
        assert!(said.contains("is behind: generation 2 does not load"), "{said}");
    }
    assert!(behind.daemon().output().contains("the newest definitions are not in force here"));
    let metric = async |site: &Site| {
        let url = format!("{}/metrics", site.daemon().admin_url());
        let request = site.request(Method::GET, &url).bearer_auth(site.daemon().admin_token().unwrap());
        let text = send(request).await.text;
        let line = text.lines().find(|line| line.starts_with("cogwork_deployment_behind "));
        line.and_then(|line| line.split(' ').nth(1)?.parse::<f64>().ok())
    };
    assert_eq!((metric(here).await, metric(behind).await), (Some(0.0), Some(1.0)));
    assert_eq!((answer(here, "orders").await, answer(behind, "orders").await), ("two".into(), "one".into()));
    assert_eq!(deploy(here, &[(orders, THREE)], 2).await.status, 200);
    runs(behind, 3).await;
    assert_eq!(answer(behind, "orders").await, "three");
    cluster.until(0, |nodes| shards(nodes) == [Some(64), Some(64)] && nodes[1]["problem"].is_null()).await;
    assert_eq!(metric(behind).await, Some(0.0));
    assert_eq!(behind.ask("/status").await["deploymentProblem"], Value::Null);
    cluster.stop().await;
}

#[tokio::test]
async fn a_read_only_daemon_refuses_edits_and_accepts_deployments() {
    let mut cluster = Cluster::start(1, &[("orders", ONE)]).await;
    let mut fixed = Site::new(&[]);
    fixed.start_with(&["--store", &cluster.url, "--ui-read-only", "true"]).await;
    let orders = "automations/orders.yaml";
    assert_eq!(deploy(&fixed, &[(orders, TWO)], 0).await.status, 200);
    assert_eq!(answer(&fixed, "orders").await, "two");
    let read = send(fixed.api(Method::GET, "/files/automations%2Forders.yaml")).await;
    let write = fixed
        .api(Method::PUT, "/files/automations%2Forders.yaml")
        .header("if-match", read.header("etag"))
        .json(&json!({"text": THREE}));
    for request in [write, fixed.api(Method::POST, "/automations/orders/disable")] {
        assert_eq!(send(request).await.refusal(), (403, "read_only".to_owned()));
    }
    assert_eq!(deploy(&fixed, &[(orders, THREE)], 1).await.status, 200);
    let restored = fixed.cogwork(&["deployments", "rollback", "1"]).await;
    assert!(restored.status.success(), "{restored:?}");
    runs(&fixed, 3).await;
    assert_eq!(answer(&fixed, "orders").await, "two");
    cluster.sites.push(fixed);
    cluster.stop().await;
}

#[tokio::test]
async fn a_deployment_contains_definitions_and_no_secrets_of_the_folder_or_store() {
    let cluster = Cluster::start(1, &[("orders", ONE)]).await;
    let site = &cluster.sites[0];
    let token = canary::secret("token");
    let with = "baseUrl: https://shop.example.com, token: \"${{ secrets.token }}\"";
    site.project.connection("shop", &format!("type: http.bearer\nwith: {{{with}}}\n")).unwrap();
    site.project.secret("token", &token).unwrap();
    site.project.write(".env", &format!("COGWORK_SECRET_TOKEN={token}\n")).unwrap();
    site.project.write("connections/.env", &format!("COGWORK_SECRET_TOKEN={token}\n")).unwrap();
    std::fs::create_dir_all(site.project.path().join("payloads/orders")).unwrap();
    let payload = json!({"kind": "webhook", "headers": {"x-token": token}}).to_string();
    site.project.write("payloads/orders/first.json", &payload).unwrap();
    let stored = site.api(Method::PUT, "/secrets/token").json(&json!({"value": token}));
    assert_eq!(send(stored).await.status, 200);
    let (is_done, said) = push(site, &[]).await;
    assert!(is_done && said.contains("deployed as generation 1"), "{said}");
    let paths = cluster.sql("SELECT convert_from(path, 'UTF8') FROM @.deployed_files ORDER BY path");
    for path in ["automations/orders.yaml", "connections/shop.yaml"] {
        assert!(paths.contains(path), "{paths}");
    }
    for path in [".env", "secrets/", "payloads/"] {
        assert!(!paths.contains(path), "{paths}");
    }
    let texts = cluster.sql("SELECT convert_from(body, 'UTF8') FROM @.deployed_texts");
    assert!(texts.contains("secrets.token"), "{texts}");
    canary::look(texts, "the deployed files");
    cluster.stop().await;
}
