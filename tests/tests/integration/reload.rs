//! A saved file is active at once.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::json;

use crate::site::{Events, Site, send};

/// The manual's limit for the reload after a save.
const PROMISED: Duration = Duration::from_millis(200);
/// Number of measurements of each way of saving.
const SAVES: u32 = 7;

fn version(number: u32) -> String {
    format!("trigger: {{webhook: {{mode: sync}}}}\nsteps: [{{set: {{version: {number}}}}}]\n")
}

/// Returns the median time from a save until it is active, since other load of the machine may delay single saves.
async fn median(site: &Site, changes: &mut Events, save: impl Fn(&str)) -> Duration {
    let mut took = Vec::new();
    for number in 1..=SAVES {
        let began = Instant::now();
        save(&version(number));
        loop {
            changes.next("catalog").await;
            // A scan between the two halves of a save in place may find an empty file, which is a change too.
            if site.automation("hook").await["state"] == json!("active") {
                break;
            }
        }
        took.push(began.elapsed());
        assert_eq!(site.post("hook", &json!({})).await.json(), json!({"version": number}));
    }
    took.sort();
    took[took.len() / 2]
}

#[tokio::test]
async fn a_save_in_place_is_active_within_200_ms() {
    let site = Site::serving(&[("hook", &version(0))]).await;
    let mut changes = site.events("/events").await;
    let took = median(&site, &mut changes, |text| site.project.automation("hook", text).unwrap()).await;
    assert!(took <= PROMISED, "{took:?}");
}

#[tokio::test]
async fn a_save_by_rename_is_active_within_200_ms() {
    let site = Site::serving(&[("hook", &version(0))]).await;
    let mut changes = site.events("/events").await;
    let took =
        median(&site, &mut changes, |text| site.project.replace("automations/hook.yaml", text).unwrap())
            .await;
    assert!(took <= PROMISED, "{took:?}");
}

#[tokio::test]
async fn files_are_added_disabled_and_removed_without_a_restart() {
    let site = Site::serving(&[]).await;
    let mut changes = site.events("/events").await;
    site.project.automation("hook", &version(1)).unwrap();
    changes.next("catalog").await;
    let url = site.url("hook").await;
    assert_eq!(send(site.request(Method::POST, &url)).await.json(), json!({"version": 1}));

    site.project.replace("automations/hook.yaml", &format!("enabled: false\n{}", version(1))).unwrap();
    changes.next("catalog").await;
    assert_eq!(
        send(site.request(Method::POST, &url)).await.refusal(),
        (404, "automation_disabled".to_owned())
    );

    site.project.remove("automations/hook.yaml").unwrap();
    changes.next("catalog").await;
    assert_eq!(send(site.request(Method::POST, &url)).await.refusal(), (404, "unknown_trigger".to_owned()));
}

#[tokio::test]
async fn many_files_saved_at_once_are_all_loaded() {
    let site = Site::serving(&[]).await;
    let mut changes = site.events("/events").await;
    for number in 0..100 {
        site.project.automation(&format!("hook-{number}"), &version(number)).unwrap();
    }
    while site.ask("/automations").await["automations"].as_array().unwrap().len() < 100 {
        changes.next("catalog").await;
    }
    assert_eq!(site.post("hook-99", &json!({})).await.json(), json!({"version": 99}));
}

#[tokio::test]
async fn a_changed_connection_applies_from_the_next_step() {
    use wiki_simulator::{Simulator, SpaceSeed};
    let list = "
trigger: {webhook: {mode: sync}}
steps:
  - {action: wiki.listSpaces, connection: wiki}
outputs: ${{ $.steps.step1.results.results[*].key }}
";
    let one = Simulator::builder().demo().start().await.unwrap();
    let two = Simulator::builder().start().await.unwrap();
    two.seed(|wiki| wiki.add_space(SpaceSeed::new("NEW", "New"))).unwrap();
    let mut site = Site::new(&[("list", list)]);
    site.connect_wiki(one.base_url());
    site.start().await;
    assert_eq!(site.post("list", &json!({})).await.json(), json!(["DEMO", "ARCH"]));
    let mut changes = site.events("/events").await;
    site.connect_wiki(two.base_url());
    changes.next("catalog").await;
    assert_eq!(site.post("list", &json!({})).await.json(), json!(["NEW"]));
}

/// Guarantee G18: a running execution keeps the definition it started with.
#[tokio::test]
async fn a_running_execution_keeps_its_definition() {
    use crate::site::posts;
    let recorder = tests::recorder::Recorder::start().await.unwrap();
    recorder.hold("/one");
    let old = format!("trigger: {{manual: {{}}}}\nsteps:\n{}", posts(&recorder, &["one", "two"]));
    let site = Site::serving(&[("work", &old)]).await;
    let id = site.run("work").await;
    recorder.wait_for("/one", 1).await.unwrap();
    let mut changes = site.events("/events").await;
    let new = format!("trigger: {{manual: {{}}}}\nsteps:\n{}", posts(&recorder, &["three"]));
    site.project.replace("automations/work.yaml", &new).unwrap();
    changes.next("catalog").await;
    recorder.release();
    assert_eq!(site.end_of(&id).await["status"], json!("succeeded"));
    assert_eq!(recorder.paths(), ["/one", "/two"]);
    site.end_of(&site.run("work").await).await;
    assert_eq!(recorder.paths(), ["/one", "/two", "/three"]);
}

#[tokio::test]
async fn a_broken_connection_keeps_its_last_good_version_and_reports_the_error() {
    let recorder = tests::recorder::Recorder::start().await.unwrap();
    let ask = "trigger: {webhook: {mode: sync}}\nsteps:\n  - {id: ask, action: http.request, connection: desk, with: {url: /a, method: GET}}\n\
               outputs: ${{ steps.ask.results.body.path }}\n";
    let desk = |path: &str, kind: &str| {
        format!(
            "type: {kind}\nwith: {{baseUrl: \"{}{path}\", token: \"${{{{ secrets.desk }}}}\"}}\n",
            recorder.url()
        )
    };
    let mut site = Site::new(&[("ask", ask)]);
    site.project.secret("desk", &tests::canary::secret("desk")).unwrap();
    site.project.connection("desk", &desk("/one", "http.bearer")).unwrap();
    site.start().await;
    let mut changes = site.events("/events").await;
    let answer = async || site.post("ask", &json!({})).await.text;
    assert_eq!(answer().await, "/one/a");
    site.project.replace("connections/desk.yaml", &desk("/two", "http.beerer")).unwrap();
    changes.next("catalog").await;
    assert_eq!(answer().await, "/one/a");
    let said = site.ask("/connections").await["connections"][0]["fileError"].to_string();
    assert!(said.contains("connections/desk.yaml:1: ") && said.contains("http.beerer"), "{said}");
    site.daemon().wait_for_output("http.beerer").await.unwrap();
    site.project.replace("connections/desk.yaml", &desk("/two", "http.bearer")).unwrap();
    changes.next("catalog").await;
    assert_eq!(answer().await, "/two/a");
    assert_eq!(site.ask("/connections").await["connections"][0]["fileError"], json!(null));
}

#[tokio::test]
async fn a_project_connector_is_added_changed_broken_and_repaired_at_run_time() {
    let recorder = tests::recorder::Recorder::start().await.unwrap();
    let shop = |path: &str| {
        format!(
            "connector: shop\ntitle: Shop\nversion: 1.0.0\nbaseUrl: {}\nactions:\n  look:\n    title: Look\n    \
             request: GET /{path}\n    results: {{type: any, description: what there is}}\n    example: {{with: {{}}, request: GET /{path}}}\n",
            recorder.url()
        )
    };
    let look = "trigger: {webhook: {mode: sync}}\nsteps:\n  - {id: look, action: shop.look}\noutputs: ${{ steps.look.results.path }}\n";
    let site = Site::serving(&[]).await;
    let mut changes = site.events("/events").await;
    // The folder is created with its first file.
    std::fs::create_dir(site.project.path().join("connectors")).unwrap();
    site.project.write("connectors/shop.yaml", &shop("one")).unwrap();
    site.project.automation("look", look).unwrap();
    while site.ask("/automations").await["automations"] == json!([]) {
        changes.next("catalog").await;
    }
    let answer = async || site.post("look", &json!({})).await.text;
    assert_eq!(answer().await, "/one");
    for (manifest, path) in
        [(shop("two"), "/two"), (shop("three").replace("title: Shop", "titel: Shop"), "/two")]
    {
        site.project.replace("connectors/shop.yaml", &manifest).unwrap();
        changes.next("catalog").await;
        assert_eq!(answer().await, path, "{manifest}");
    }
    site.daemon().wait_for_output("titel").await.unwrap();
    site.project.replace("connectors/shop.yaml", &shop("three")).unwrap();
    changes.next("catalog").await;
    assert_eq!(answer().await, "/three");
}
