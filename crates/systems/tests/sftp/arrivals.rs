use std::fs;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;
use value::Value;

use crate::server::{Server, at};

fn paths(value: &Value) -> Vec<String> {
    let list = value.get("results").expect("a list");
    let path = |record: &Value| record.path("file.path").map(|path| path.to_text()).unwrap_or_default();
    list.as_list().expect("a list").iter().map(path).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_arrives_when_it_has_stopped_growing_whatever_its_time() {
    let Some(server) = Server::start().await else { return };
    let look = || server.call("listArrived", json!({"path": ".", "match": "*.csv", "settle": "30s"}));
    fs::write(server.home("a.csv"), "1").expect("written");
    let old = fs::File::options().append(true).open(server.home("a.csv")).expect("a file");
    old.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1)).expect("an old time");
    fs::write(server.home("b.txt"), "1").expect("written");
    assert_eq!(paths(&look().await), [""; 0]);
    server.clock.forward(Duration::from_secs(30));
    let arrived = look().await;
    assert_eq!(paths(&arrived), ["a.csv"]);
    let id = |value: &Value| at(value, "results.0.id").map(|id| id.to_text());
    assert_eq!(id(&arrived).as_deref(), Some("a.csv~1~1"));
    fs::write(server.home("a.csv"), "12").expect("written");
    assert_eq!(paths(&look().await), [""; 0]);
    server.clock.forward(Duration::from_secs(31));
    assert_ne!(id(&look().await), id(&arrived));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_begins_changes_nothing_for_another_one() {
    let Some(server) = Server::start().await else { return };
    let look = |trigger: &str, newest: bool| {
        server
            .call("listArrived", json!({"path": ".", "settle": "30s", "trigger": trigger, "newest": newest}))
    };
    look("one", true).await;
    fs::write(server.home("a.csv"), "half").expect("written");
    assert_eq!(paths(&look("two", true).await), ["a.csv"], "it was there before");
    assert_eq!(paths(&look("one", false).await), [""; 0], "it is half written");
    assert_eq!(paths(&look("two", false).await), ["a.csv"]);
}
