use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};

use crate::account::{Account, json_of, map};

impl Account {
    async fn one(&self) -> Json {
        self.deliver_plain("one");
        let found = self.client.found(json!({"subject": "one"})).await;
        json!({"uid": found[0]["uid"], "uidValidity": found[0]["uidValidity"]})
    }
}

fn with(mut place: Json, more: Json) -> Json {
    let place = place.as_object_mut().expect("a map");
    place.extend(more.as_object().expect("a map").clone());
    Json::Object(place.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_marked_and_marking_it_again_changes_nothing() {
    let Some(account) = Account::start() else { return };
    let place = account.one().await;
    for (more, expected) in [
        (json!({"seen": true, "keywords": ["booked", "$x"]}), vec!["$x", "\\Seen", "booked"]),
        (json!({"seen": true, "keywords": ["booked"]}), vec!["$x", "\\Seen", "booked"]),
        (json!({"seen": false, "flagged": true, "removeKeywords": ["booked"]}), vec!["$x", "\\Flagged"]),
    ] {
        let result = json_of(&account.client.call("mark", with(place.clone(), more)).await);
        let mut flags: Vec<&str> =
            result["flags"].as_array().expect("a list").iter().filter_map(Json::as_str).collect();
        flags.retain(|flag| *flag != "\\Recent");
        flags.sort_unstable();
        assert_eq!(flags, expected);
    }
    assert_eq!(account.client.found(json!({"keywords": ["$x"], "flagged": true})).await.len(), 1);
    let error = account.client.fails("mark", place.clone()).await;
    assert!(error.message.contains("nothing is to be marked"), "{error:?}");
    let error = account.client.fails("mark", with(place, json!({"uid": 99, "seen": true}))).await;
    assert_eq!(error.code.as_deref(), Some("NOT_FOUND"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_moved_once_and_deleted_once() {
    let Some(account) = Account::start() else { return };
    let place = account.one().await;
    account.deliver_plain("two");
    let to = with(place.clone(), json!({"to": "Büro & more"}));
    let moved = json_of(&account.client.call("move", to.clone()).await);
    assert_eq!((&moved["moved"], &moved["uid"]), (&json!(true), &json!(1)), "{moved}");
    let again = json_of(&account.client.call("move", to).await);
    assert_eq!((&again["moved"], &again["uid"]), (&json!(false), &json!(null)), "{again}");
    let there = json!({"mailbox": "Büro & more", "uid": moved["uid"], "uidValidity": moved["uidValidity"]});
    let result = json_of(&account.client.call("get", there.clone()).await);
    assert_eq!(result["subject"], "one");
    for expected in [true, false] {
        let deleted = json_of(&account.client.call("delete", there.clone()).await);
        assert_eq!(deleted["deleted"], expected);
    }
    assert_eq!(account.client.found(json!({})).await.len(), 1, "the others stay");
    let error = account.client.fails("move", with(place, json!({"uid": 2, "to": "none"}))).await;
    assert_eq!(error.code.as_deref(), Some("TRYCREATE"), "{error:?}");
    assert!(!error.outcome_unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_appended_once_whatever_its_id_comes_from() {
    let Some(account) = Account::start() else { return };
    let append = async |content: &str, key: &str| {
        let inputs = map(json!({"mailbox": "Archive", "content": content, "seen": true, "keywords": ["k"]}));
        json_of(&account.client.try_with("append", &inputs, (key, None)).await.expect("appended"))
    };
    let own = "Message-ID: <1@x>\nSubject: own\n\nline\nüber\n";
    for (content, key, repeated, uid) in [
        (own, "a", false, 1),
        (own, "b", true, 1),
        ("Subject: made\n\nx\n", "a", false, 2),
        ("Subject: made\n\nx\n", "a", true, 2),
        ("Subject: made\n\nx\n", "b", false, 3),
    ] {
        let result = append(content, key).await;
        assert_eq!(
            (&result["repeated"], &result["uid"]),
            (&json!(repeated), &json!(uid)),
            "{content} {result}"
        );
        let there = json!({"mailbox": "Archive", "uid": uid, "uidValidity": result["uidValidity"]});
        let read = json_of(&account.client.call("get", there).await);
        assert_eq!(read["messageId"], result["messageId"]);
        if content == own {
            assert_eq!(read["text"], "line\r\nüber\r\n");
        }
    }
    let found = account.client.found(json!({"mailbox": "Archive", "unseen": false, "keywords": ["k"]})).await;
    assert_eq!(found.len(), 3);
    for content in [json!("no header"), json!(7), json!("Subject: a\n\n\u{0}")] {
        let error = account.client.fails("append", json!({"mailbox": "Archive", "content": content})).await;
        assert_eq!(error.kind.to_string(), "input", "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_message_is_appended_as_it_is() {
    let Some(account) = Account::start() else { return };
    let body = "0123456789abcdef\n".repeat(100_000);
    let content = format!("Subject: big\nMessage-ID: <big@x>\n\n{body}");
    let result =
        json_of(&account.client.call("append", json!({"mailbox": "Archive", "content": content})).await);
    let there = json!({"mailbox": "Archive", "uid": 1, "uidValidity": result["uidValidity"]});
    let read = json_of(&account.client.call("get", there).await);
    assert_eq!(read["size"], json!(content.len() + content.matches('\n').count()));
    assert_eq!(read["truncated"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_above_the_limit_is_not_appended() {
    let Some(account) = Account::start() else { return };
    let content = format!("Subject: big\n\n{}", "x".repeat(50 << 20));
    let error = account.client.fails("append", json!({"mailbox": "Archive", "content": content})).await;
    assert_eq!(error.kind.to_string(), "limit", "{error:?}");
}
