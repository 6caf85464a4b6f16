//! Executions of one daemon that are imported into another running one.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};

use crate::site::{Site, send};

const HELLO: (&str, &str) = ("hello", "trigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n");

#[tokio::test]
async fn executions_are_imported_through_a_running_daemon() {
    let (from, to) = (Site::serving(&[HELLO]).await, Site::serving(&[]).await);
    let mut ids = [from.run("hello").await, from.run("hello").await];
    for id in &ids {
        from.end_of(id).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("executions.jsonl");
    let file = file.to_str().unwrap();
    let exported = from.cogwork(&["executions", "export", "--all", "--output", file]).await;
    assert!(exported.status.success(), "{exported:?}");

    let import = async || {
        let output = to.cogwork(&["executions", "import", file, "--json"]).await;
        let printed: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output.status.code(), printed)
    };
    let (code, imported) = import().await;
    assert_eq!((code, &imported["executions"], &imported["refused"]), (Some(0), &json!(2), &json!(0)));
    let listed = to.ask("/executions?origin=imported").await;
    let mut found: Vec<&str> =
        listed["executions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    found.sort_unstable();
    ids.sort_unstable();
    assert_eq!(found, ids);
    let (code, again) = import().await;
    assert_eq!((code, &again["executions"], &again["refused"]), (Some(1), &json!(0), &json!(2)));
    assert!(again["refusals"][0]["reason"].as_str().unwrap().contains("this id already"), "{again}");
    let audit = to.ask("/audit?action=importExecutions").await;
    assert_eq!(audit["entries"].as_array().map(Vec::len), Some(2), "{audit}");

    // A truncated file is refused.
    let text = std::fs::read_to_string(file).unwrap();
    let cut = text.rsplit_once("{\"end\"").unwrap().0.to_owned();
    let answer = send(to.api(Method::POST, "/executions/import").body(cut)).await;
    assert_eq!(answer.refusal(), (422, "bad_export".to_owned()));
}
