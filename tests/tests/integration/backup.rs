//! A backup of a daemon under load, and a second daemon that runs on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::stores::Location;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use store::{ExecutionFilter, Page};
use tokio::sync::{Mutex, Notify};

use crate::site::Site;

const ORDER: (&str, &str) = (
    "order",
    "trigger: {webhook: {verify: none}}\nsteps:\n  - set: {got: \"${{ trigger.results.body.data.text }}\"}\n",
);

/// Returns the text of the numbered order; every third is stored as a blob.
fn text(number: usize) -> String {
    format!("{number} ").repeat(if number.is_multiple_of(3) { 60_000 } else { 20 })
}

/// Asserts that an order has its complete payload, and returns its number.
fn whole(execution: &Value) -> usize {
    let body = &execution["payload"]["body"];
    let found: Value = match body["data"].as_str() {
        Some(text) => serde_json::from_str(text).unwrap_or(Value::Null),
        None => body["data"].clone(),
    };
    let number = found["n"].as_u64().unwrap_or_else(|| panic!("no number: {execution}"));
    let number = usize::try_from(number).unwrap();
    assert_eq!(found["text"], json!(text(number)));
    number
}

#[tokio::test]
async fn a_backup_taken_under_load_is_complete_and_can_be_served() {
    let mut site = Site::serving(&[ORDER]).await;
    let url = site.url("order").await;
    let (accepted, done) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let enough = Arc::new(Notify::new());
    let senders = (0..4_usize).map(|sender| {
        let (accepted, done, enough) = (accepted.clone(), done.clone(), enough.clone());
        let client = reqwest::Client::new();
        let url = url.clone();
        tokio::spawn(async move {
            for turn in 0.. {
                let number = turn * 4 + sender;
                let body = json!({"n": number, "text": text(number)});
                let answer = client.post(&url).json(&body).send().await.unwrap();
                assert_eq!(answer.status(), 200);
                let answer: Value = answer.json().await.unwrap();
                let mut accepted = accepted.lock().await;
                accepted.push((number, answer["executionId"].as_str().unwrap().to_owned()));
                if accepted.len() == 60 {
                    enough.notify_one();
                }
                if done.load(Ordering::SeqCst) {
                    break;
                }
            }
        })
    });
    let senders: Vec<_> = senders.collect();
    enough.notified().await;
    let before = accepted.lock().await.clone();
    let made = site.cogwork(&["backup", "copy", "--json"]).await;
    let under_load = accepted.lock().await.len() > before.len();
    done.store(true, Ordering::SeqCst);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(under_load, "orders came while it was made");
    for sender in senders {
        sender.await.unwrap();
    }
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert!(made["executions"].as_u64().unwrap() >= before.len() as u64, "{made}");
    assert!(made["blobs"].as_u64().unwrap() >= 20, "{made}");
    let again = site.cogwork(&["backup", "copy"]).await;
    assert!(!again.status.success());
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("exists already"),
        "a backup never overwrites another"
    );

    let mut other = Site::new(&[ORDER]);
    std::fs::rename(site.project.path().join("copy"), other.project.data_dir()).unwrap();
    other.start().await;
    for (number, id) in &before {
        assert_eq!(whole(&other.end_of(id).await), *number);
    }
    let accepted = accepted.lock().await.clone();
    let store = engine::stores::open_read_only(&Location::from(other.project.data_dir())).unwrap();
    let listed =
        store.executions(&ExecutionFilter::default(), Page { before: None, limit: 1000 }).await.unwrap();
    assert_eq!(listed.len() as u64, made["executions"].as_u64().unwrap());
    for row in listed {
        let id = row.id.to_string();
        let execution = other.end_of(&id).await;
        assert_eq!(execution["status"], json!("succeeded"));
        let number = whole(&execution);
        // Requests accepted during the backup may be in it, as may those whose caller got no response.
        assert!(accepted.iter().all(|(sent, as_id)| (sent == &number) == (*as_id == id)), "{id}");
    }
    other.stop().await;

    site.stop().await;
    let made = site.cogwork(&["backup", "later"]).await;
    assert!(made.status.success(), "without a daemon too: {}", String::from_utf8_lossy(&made.stderr));
    assert!(site.project.path().join("later/cogwork.db").is_file());
}
