use std::sync::Arc;

use connector::{Cassette, Transport};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::store::{SECRET, Store, bytes_of, http, map};

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_plays_without_a_server_and_has_no_secret() {
    let Some(store) = Store::weed().await else { return };
    let recorded = Arc::new(Cassette::for_recording());
    let over = http(Transport::Cassette(recorded.clone()));
    let calls = [
        ("put", json!({"key": "r/a.txt", "content": "recorded", "metadata": {"a": "b"}})),
        ("get", json!({"key": "r/a.txt"})),
        ("list", json!({"prefix": "r/"})),
        ("delete", json!({"keys": ["r/a.txt"]})),
    ];
    let mut answers = Vec::new();
    for (action, with) in &calls {
        let answer = store.try_over(&over, &store.connection, action, &map(with.clone()), "one.step").await;
        answers.push(answer.expect("an answer"));
    }
    let recording = recorded.recording();
    let text = serde_json::to_string(&recording).expect("JSON");
    assert!(!text.contains(SECRET) && !text.contains("Signature="), "{text}");
    store.signal("KILL");
    let played = Arc::new(Cassette::for_replay(recording));
    let over = http(Transport::Cassette(played.clone()));
    for ((action, with), answer) in calls.iter().zip(answers) {
        let again = store.try_over(&over, &store.connection, action, &map(with.clone()), "other.step").await;
        let again = again.expect("an answer");
        assert_eq!(again.to_json(), answer.to_json());
        if *action == "get" {
            assert_eq!(bytes_of(&again), b"recorded");
        }
    }
    assert_eq!(played.unused_exchanges(), Vec::<String>::new());
}
