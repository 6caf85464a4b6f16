//! The API's views of the project.

use serde_json::{Value, json};

use crate::support::{ASYNC, ECHO, MANUAL, daemon, write};

const HOURLY: &str = "trigger:\n  schedule:\n    hourly: {minute: 5}\nsteps:\n  - stop:\n      result: 1\n";

#[tokio::test]
async fn the_status_shows_load_addresses_and_rejections() {
    let daemon = daemon(&[("a", ASYNC)]).await;
    daemon.hook("POST", "/trigger/unknown", "", b"").await;
    let status: Value = daemon.client().get("/api/v1/status").await.unwrap();
    assert_eq!(
        (&status["accepting"], &status["automations"], &status["generation"]),
        (&json!(true), &json!(1), &json!(1))
    );
    assert_eq!(status["hooks"], format!("http://{}", daemon.hooks));
    assert_eq!(status["refused"]["unknown_trigger"], 1);
    assert!(status["store"]["engine"].as_str().unwrap().starts_with("SQLite 3."));
    assert_eq!(status["store"]["weakened"], json!([]));
}

#[tokio::test]
async fn automations_are_listed_with_their_addresses_and_next_fires() {
    let off = format!("enabled: false\n{ECHO}");
    let daemon = daemon(&[("hook", ASYNC), ("off", &off), ("hourly", HOURLY), ("m", MANUAL)]).await;
    let found: Value = daemon.client().get("/api/v1/automations").await.unwrap();
    let list = found["automations"].as_array().unwrap();
    let of = |id: &str| list.iter().find(|automation| automation["id"] == id).unwrap();
    assert_eq!(list.len(), 4);
    assert_eq!(of("hook")["liveUrl"], format!("http://{}{}", daemon.hooks, daemon.path("hook")));
    assert_ne!(of("hook")["liveUrl"], of("hook")["testUrl"]);
    assert_eq!((&of("off")["state"], &of("hook")["state"]), (&json!("disabled"), &json!("active")));
    assert_eq!(of("hourly")["nextFires"].as_array().unwrap().len(), 5);
    assert!(of("hourly")["liveUrl"].is_null());
    assert_eq!((&of("m")["trigger"], &of("m")["path"]), (&json!("manual"), &json!("automations/m.yaml")));
}

#[tokio::test]
async fn an_automation_is_shown_with_its_source_and_plan() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let found: Value = daemon.client().get("/api/v1/automations/m").await.unwrap();
    assert_eq!(found["source"], MANUAL);
    assert_eq!(found["inputs"][0]["name"], "name");
    let steps = found["plan"]["steps"].as_array().unwrap();
    assert_eq!((&steps[0]["id"], &steps[1]["needs"]), (&json!("greet"), &json!(["greet"])));
    let answer = daemon.api("GET", "/api/v1/automations/n", "", "").await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_automation"));
}

#[tokio::test]
async fn a_text_is_validated_without_being_written() {
    let daemon = daemon(&[]).await;
    let check = async |text: &str| -> Value {
        let body = json!({"path": "automations/new.yaml", "text": text});
        daemon.client().post("/api/v1/validate", &body).await.unwrap()
    };
    assert_eq!(check(MANUAL).await, json!({"ok": true, "diagnostics": []}));
    let found = check("trigger:\n  manual: {}\nstepz: []\n").await;
    assert_eq!(found["ok"], false);
    let wrong = found["diagnostics"].as_array().unwrap();
    let unknown = wrong.iter().find(|entry| entry["code"] == "unknown-key").unwrap();
    assert_eq!((&unknown["line"], &unknown["nearest"]), (&json!(3), &json!("steps")));
    assert_eq!(daemon.engine.catalog().automations().len(), 0);
}

#[tokio::test]
async fn any_project_file_text_is_parsed_as_data() {
    let daemon = daemon(&[]).await;
    let data = async |path: &str, text: &str| -> Value {
        let body = json!({"path": path, "text": text, "include": ["data", "outline"]});
        let found: Value = daemon.client().post("/api/v1/validate", &body).await.unwrap();
        json!([found["data"], found["outline"].is_array()])
    };
    let tests = data("automations/m.test.yaml", "automation: other\ntests: []\n").await;
    assert_eq!(tests, json!([{"automation": "other", "tests": []}, false]));
    assert_eq!(data("automations/m.yaml", "trigger: {manual: {}}\nsteps: []\n").await[1], true);
    assert_eq!(data("automations/m.yaml", "a: [").await, json!([null, false]));
    assert_eq!(data("automations/m.js", "export default 1;\n").await, json!([null, false]));
}

#[tokio::test]
async fn a_reload_lists_the_changes() {
    let daemon = daemon(&[("a", ASYNC), ("b", ASYNC)]).await;
    let folder = daemon.folder.path();
    write(folder, "automations/c.yaml", MANUAL);
    write(folder, "automations/a.yaml", "trigger:\n  nonsense: {}\nsteps: []\n");
    std::fs::remove_file(folder.join("automations/b.yaml")).unwrap();
    write(folder, "automations/broken.yaml", "{");
    let reload: Value = daemon.client().post("/api/v1/reload", &json!({})).await.unwrap();
    assert_eq!(
        (&reload["added"], &reload["removed"], &reload["stale"]),
        (&json!(["c"]), &json!(["b"]), &json!(["a"]))
    );
    assert_eq!(reload["generation"], 2);
    let files: Vec<_> =
        reload["diagnostics"].as_array().unwrap().iter().map(|entry| &entry["file"]).collect();
    assert!(
        files.contains(&&json!("automations/a.yaml")) && files.contains(&&json!("automations/broken.yaml"))
    );
    let found: Value = daemon.client().get("/api/v1/automations").await.unwrap();
    assert_eq!(found["broken"][0]["path"], "automations/broken.yaml");
    let stale: Value = daemon.client().get("/api/v1/automations/a").await.unwrap();
    assert_eq!((&stale["state"], &stale["source"]), (&json!("stale"), &json!(ASYNC)));
    assert!(stale["errors"].as_u64().unwrap() > 0 && !stale["diagnostics"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn connectors_are_listed_with_their_actions_and_connection_types() {
    let daemon = daemon(&[]).await;
    let found: Value = daemon.client().get("/api/v1/connectors").await.unwrap();
    let names: Vec<_> =
        found["connectors"].as_array().unwrap().iter().map(|connector| &connector["name"]).collect();
    assert!(names.contains(&&json!("wiki")) && names.contains(&&json!("http")), "{names:?}");
    let wiki: Value = daemon.client().get("/api/v1/connectors/wiki").await.unwrap();
    let create = wiki["actions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|action| action["name"] == "wiki.createPage")
        .unwrap();
    assert!(create["inputs"].as_array().unwrap().iter().any(|input| input["name"] == "title"));
    assert_eq!(wiki["connectionTypes"][0]["name"], "wiki.basic");
    let answer = daemon.api("GET", "/api/v1/connectors/wikki", "", "").await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_connector"));
    assert!(answer.json()["detail"].as_str().unwrap().contains("did you mean `wiki`?"));
}

#[tokio::test]
async fn connections_are_listed_without_their_values() {
    let daemon = daemon(&[]).await;
    let text = "type: http.basic\ndescription: The shop\nwith:\n  baseUrl: http://canary.example\n  username: canary\n  \
        password: ${{ secrets.shopPassword }}\n";
    write(daemon.folder.path(), "connections/shop.yaml", text);
    daemon.engine.reload().await;
    let answer = daemon.api("GET", "/api/v1/connections", "", "").await;
    let expected = json!({"connections": [
        {
            "name": "shop", "type": "http.basic", "description": "The shop", "path": "connections/shop.yaml",
            "missingSecrets": ["shopPassword"], "usedBy": [], "state": "unused", "succeeded": 0, "failed": 0,
        },
    ]});
    assert_eq!(answer.json(), expected);
    assert!(!answer.body.contains("canary"));
}

#[tokio::test]
async fn the_description_of_the_api_is_served() {
    let daemon = daemon(&[]).await;
    let api: Value = daemon.client().get("/api/openapi.json").await.unwrap();
    assert_eq!(api, serde_json::from_str::<Value>(server::openapi()).unwrap());
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"));
}

/// Takes signed requests, and calls with a connection.
const SIGNED: &str = "trigger:
  webhook:
    verify: {preset: slack, secret: \"${{ secrets.pageTestToken }}\"}
steps:
  - {id: load, action: http.request, connection: shop, with: {method: GET, url: /a}}
";

#[tokio::test]
async fn an_automation_lists_its_missing_secrets_and_whether_it_can_start() {
    let daemon = daemon(&[]).await;
    let connection = "type: http.basic\nwith: {baseUrl: http://shop.example, username: a, password: \"${{ secrets.pageTestShop }}\"}\n";
    write(daemon.folder.path(), "connections/shop.yaml", connection);
    write(daemon.folder.path(), "automations/signed.yaml", SIGNED);
    daemon.engine.reload().await;
    let missing = async || {
        let list = daemon.api("GET", "/api/v1/automations", "", "").await.json();
        let one = daemon.api("GET", "/api/v1/automations/signed", "", "").await.json();
        assert_eq!(list["automations"][0]["missingSecrets"], one["missingSecrets"]);
        let secrets = daemon.api("GET", "/api/v1/secrets", "", "").await.json();
        (one["missingSecrets"].clone(), secrets["missing"].clone())
    };
    let of_trigger = json!({"name": "pageTestToken", "blocksStart": true});
    let of_connection = json!({"name": "pageTestShop", "connection": "shop", "blocksStart": false});
    let both = (json!([of_trigger, of_connection]), json!(["pageTestShop", "pageTestToken"]));
    assert_eq!(missing().await, both);
    daemon.engine.context().set_secret("pageTestToken", "x").await.unwrap();
    assert_eq!(missing().await, (json!([of_connection]), json!(["pageTestShop"])));
    daemon.engine.context().set_secret("pageTestShop", "y").await.unwrap();
    assert_eq!(missing().await, (Value::Null, json!([])));
}
