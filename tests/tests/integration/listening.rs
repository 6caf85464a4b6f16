//! `cogwork listen` and its saved payloads, over real HTTP.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use tests::github::GitHub;

use crate::github;
use crate::site::{Site, send};

/// A disabled automation, as while it is being written. It counts its executions.
const DRAFT: &str = "enabled: false
trigger: {webhook: {verify: none}}
steps:
  - {id: count, action: state.increment, with: {key: count}}
outputs: {n: \"${{ trigger.results.body.data.n }}\", count: \"${{ steps.count.results }}\"}
";

impl Site {
    /// Waits until a client listens at the test address, and returns the address.
    async fn listened_at(&self, id: &str) -> String {
        loop {
            let answer = send(self.api(Method::GET, &format!("/automations/{id}/listen"))).await;
            if answer.status == 200 {
                return answer.json()["testUrl"].as_str().unwrap_or_default().to_owned();
            }
            assert_eq!(answer.refusal(), (409, "not_listening".to_owned()));
        }
    }

    /// Starts an automation with this body and returns its result.
    async fn result_of(&self, id: &str, start: &Value) -> Value {
        let path = format!("/automations/{id}/run?wait=true");
        let answer = send(self.api(Method::POST, &path).json(start)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()["outcome"]["result"].clone()
    }
}

#[tokio::test]
async fn captures_are_shown_live_saved_edited_and_run_again() {
    let site = Site::serving(&[("draft", DRAFT)]).await;
    let listen = site.cogwork(&["listen", "draft", "--count", "2", "--save", "order"]);
    let sender = async {
        let url = site.listened_at("draft").await;
        for n in [7, 8] {
            let request = site.request(Method::POST, &format!("{url}/orders")).json(&json!({"n": n}));
            let answer = send(request.bearer_auth("do not keep this")).await;
            assert_eq!((answer.status, answer.json()), (200, json!({"captured": true})));
        }
    };
    let (listened, ()) = tokio::join!(listen, sender);
    assert!(listened.status.success(), "{listened:?}");
    let shown = String::from_utf8(listened.stdout).unwrap();
    for line in ["POST /orders  application/json\n{\"n\":7}\n", "POST /orders  application/json\n{\"n\":8}\n"]
    {
        assert!(shown.contains(line), "{shown}");
    }
    assert_eq!(site.executions_of("draft").await, Vec::<Value>::new());

    let listed = site.ask("/automations/draft/payloads").await;
    let names: Vec<_> = listed["payloads"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["order", "order-2"]);
    let file = site.project.path().join("payloads/draft/order.json");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(!written.contains("do not keep this") && !written.contains("authorization"), "{written}");

    // As saved and as edited, through the API and through a separate command.
    let saved = json!({"saved": "order", "test": true});
    assert_eq!(site.result_of("draft", &saved).await, json!({"n": 7, "count": 1}));
    std::fs::write(&file, written.replace("7}", "70}")).unwrap();
    assert_eq!(site.result_of("draft", &saved).await, json!({"n": 70, "count": 2}));
    let mut edited = site.ask("/automations/draft/payloads/order-2").await;
    edited["body"]["$file"]["data"] = json!("{\"n\": 80}");
    assert_eq!(
        site.result_of("draft", &json!({"payload": edited, "test": true})).await,
        json!({"n": 80, "count": 3})
    );
    let ran = site.cogwork(&["run", "draft", "--saved", "order", "--test"]).await;
    let result: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(result["n"], json!(70), "{ran:?}");

    // Test executions have their own state.
    for execution in site.executions_of("draft").await {
        assert_eq!(execution["origin"], json!({"kind": "test"}));
    }
    assert_eq!(site.ask("/state/draft/count?test=true").await["value"], json!(3));
    assert_eq!(site.result_of("draft", &json!({"saved": "order"})).await, json!({"n": 70, "count": 1}));
}

#[tokio::test]
async fn an_event_is_captured_and_its_subscription_deleted() {
    let github = GitHub::start().await.unwrap();
    let draft = format!("enabled: false\n{}", github::PUSH);
    let site = github::site(&github, &[("push", &draft)]).await;
    let listen = site.cogwork(&["listen", "push", "--count", "1", "--save", "main"]);
    let payload = json!({"ref": "refs/heads/main"});
    let sender = async {
        github.answered(1).await;
        assert_eq!(site.listened_at("push").await, "");
        let greeting = json!({"zen": "Keep it simple."});
        assert_eq!(github.send_event("ping", "p", &greeting, false).await.unwrap(), [200]);
        assert_eq!(github.send_event("push", "one", &payload, false).await.unwrap(), [200]);
    };
    let (listened, ()) = tokio::join!(listen, sender);
    assert!(listened.status.success(), "{listened:?}");
    assert!(
        String::from_utf8_lossy(&listened.stdout).contains("{\"ref\":\"refs/heads/main\"}"),
        "{listened:?}"
    );
    github.answered(2).await;
    assert_eq!(github.hooks(), Vec::<Value>::new());
    assert_eq!(site.executions_of("push").await, Vec::<Value>::new());
    let result = site.result_of("push", &json!({"saved": "main", "test": true})).await;
    assert_eq!(result, json!({"ref": "refs/heads/main"}));
}

#[tokio::test]
async fn invalid_listen_and_save_requests_are_refused_with_the_reason() {
    let site = Site::serving(&[("draft", DRAFT), ("manual", "trigger: {manual: {}}\nsteps: []\n")]).await;
    let ask = async |method: Method, path: &str, body: Value| {
        send(site.api(method, &format!("/automations/{path}")).json(&body)).await.refusal()
    };
    let payload = json!({"kind": "manual", "inputs": {}});
    for (path, body, status, code) in [
        ("manual/listen", json!({}), 422, "bad_input"),
        ("nobody/listen", json!({}), 404, "unknown_automation"),
        ("draft/listen", json!({"timeout": "soon"}), 422, "bad_body"),
        ("draft/payloads", json!({"name": "../x", "payload": payload}), 422, "bad_name"),
        ("draft/payloads", json!({"name": "x", "payload": {"kind": "wrong"}}), 422, "bad_body"),
        ("draft/payloads", json!({"name": "x", "capture": 1}), 409, "not_listening"),
        ("draft/run", json!({"saved": "x"}), 404, "unknown_payload"),
        ("draft/run", json!({"saved": "x", "inputs": {}}), 422, "bad_body"),
    ] {
        assert_eq!(ask(Method::POST, path, body).await, (status, code.to_owned()), "{path}");
    }
    let none = site.cogwork(&["listen", "draft", "--timeout", "50ms"]).await;
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    assert!(String::from_utf8_lossy(&none.stderr).ends_with("0 captured\n"), "{none:?}");
}
