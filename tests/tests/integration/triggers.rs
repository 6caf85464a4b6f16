//! Several triggers of an automation: addresses, inputs, manual starts, and changes of the file.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};

use crate::site::{Answer, Site, send};

const ORDERS: &str = "
inputs:
  order: {type: text, required: true}
triggers:
  - {id: changed, webhook: {verify: none}, if: trigger.results.body.data.id is defined, inputs: {order: \"${{ trigger.results.body.data.id }}\"}}
  - {id: paid, webhook: {verify: none}, inputs: {order: \"paid ${{ trigger.results.body.data }}\"}}
  - {id: nightly, schedule: {daily: {at: '02:00'}}, inputs: {order: all}}
  - {id: byHand, manual: {}}
steps: [{set: {by: \"${{ trigger.id }}\", order: \"${{ inputs.order }}\"}}]
";

/// Returns the live address of a trigger, `None` if it has no address.
async fn address(site: &Site, trigger: &str) -> Option<String> {
    let automation = site.automation("orders").await;
    let triggers = automation["triggers"].as_array().unwrap();
    let found = triggers.iter().find(|one| one["id"] == *trigger)?;
    found["liveUrl"].as_str().map(str::to_owned)
}

/// Returns the trigger and the result of an execution, as the API shows them: no trigger for `main`.
async fn end(site: &Site, id: &str) -> (Value, Value) {
    let end = site.end_of(id).await;
    (end["trigger"].clone(), end["outcome"]["result"].clone())
}

async fn start(site: &Site, automation: &str, body: Value) -> Answer {
    send(site.api(Method::POST, &format!("/automations/{automation}/run")).json(&body)).await
}

/// Starts a trigger by hand and returns the execution id.
async fn started(site: &Site, automation: &str, body: Value) -> String {
    let answer = start(site, automation, body).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer.json()["executionId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_trigger_starts_the_automation_with_its_own_inputs() {
    let site = Site::serving(&[("orders", ORDERS)]).await;
    let (changed, paid) = (address(&site, "changed").await.unwrap(), address(&site, "paid").await.unwrap());
    assert_ne!(changed, paid);

    let by_change = send(site.request(Method::POST, &changed).json(&json!({"id": "o-17"}))).await;
    let expected = (json!("changed"), json!({"by": "changed", "order": "o-17"}));
    assert_eq!(end(&site, &by_change.execution()).await, expected);
    let by_payment = send(site.request(Method::POST, &paid).json(&json!(5))).await;
    let expected = (json!("paid"), json!({"by": "paid", "order": "paid 5"}));
    assert_eq!(end(&site, &by_payment.execution()).await, expected);

    let by_hand = started(&site, "orders", json!({"inputs": {"order": "o-1"}})).await;
    assert_eq!(end(&site, &by_hand).await, (json!("byHand"), json!({"by": "byHand", "order": "o-1"})));
    let nightly = started(&site, "orders%2Fnightly", json!({})).await;
    assert_eq!(end(&site, &nightly).await, (json!("nightly"), json!({"by": "nightly", "order": "all"})));
    let named = started(&site, "orders", json!({"trigger": "nightly", "inputs": {"order": "o-2"}})).await;
    let expected = (json!("nightly"), json!({"by": "nightly", "order": "o-2"}));
    assert_eq!(end(&site, &named).await, expected, "a given input replaces that of the trigger");
}

#[tokio::test]
async fn a_sender_whose_value_does_not_fit_an_input_gets_400_and_nothing_starts() {
    let site = Site::serving(&[("orders", ORDERS)]).await;
    let url = address(&site, "changed").await.unwrap();
    let answer = send(site.request(Method::POST, &url).json(&json!({"id": [1]}))).await;
    assert_eq!(answer.refusal(), (400, "bad_input".to_owned()), "{}", answer.text);
    let filtered = send(site.request(Method::POST, &url).json(&json!({}))).await;
    assert_eq!((filtered.status, filtered.json()["filtered"].clone()), (200, json!(true)));
    assert_eq!(site.executions_of("orders").await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_start_that_names_no_trigger_or_an_unknown_one_is_told_which_exist() {
    let two = "triggers: [{id: a, webhook: {verify: none}}, {id: b, webhook: {verify: none}}]\nsteps: [{set: {a: 1}}]\n";
    let site = Site::serving(&[("orders", two)]).await;
    let unknown = || (404, "unknown_trigger".to_owned());
    for (automation, body, refusal) in [
        ("orders", json!({"payload": {}}), (422, "ambiguous_trigger".to_owned())),
        ("orders", json!({"trigger": "c"}), unknown()),
        ("orders%2Fc", json!({}), unknown()),
    ] {
        let answer = start(&site, automation, body).await;
        assert!(answer.text.contains("orders/a") && answer.text.contains("orders/b"), "{}", answer.text);
        assert_eq!(answer.refusal(), refusal);
    }
    let run = site.cogwork(&["start", "orders/c"]).await;
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(!run.status.success() && said.contains("orders/a"), "{said}");
    let listed = site.cogwork(&["list"]).await;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let triggers: Vec<&str> =
        listed.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(triggers, ["a", "b"], "{listed}");
}

#[tokio::test]
async fn addresses_follow_the_ids_of_triggers_through_changes_of_the_file() {
    let alone = "trigger: {webhook: {verify: none}}\nsteps: [{set: {by: \"${{ trigger.id }}\"}}]\n";
    let with_second = "triggers: [{id: second, webhook: {verify: none}}, {id: main, webhook: {verify: none}}]\n\
                       steps: [{set: {by: \"${{ trigger.id }}\"}}]\n";
    let site = Site::serving(&[("orders", alone)]).await;
    let main = address(&site, "main").await.unwrap();

    site.project.automation("orders", with_second).unwrap();
    send(site.api(Method::POST, "/reload")).await;
    assert_eq!(address(&site, "main").await.as_ref(), Some(&main), "the id main is that of the key trigger");
    let second = address(&site, "second").await.unwrap();
    let started = send(site.request(Method::POST, &main).json(&json!({}))).await;
    assert_eq!(end(&site, &started.execution()).await, (Value::Null, json!({"by": "main"})));

    site.project.automation("orders", &with_second.replace("id: second", "id: other")).unwrap();
    let plan = send(site.api(Method::GET, "/plan")).await;
    assert!(plan.text.contains("second") && plan.text.contains("other"), "{}", plan.text);
    send(site.api(Method::POST, "/reload")).await;
    let gone = send(site.request(Method::POST, &second).json(&json!({}))).await;
    assert_eq!(gone.refusal(), (404, "unknown_trigger".to_owned()), "{}", gone.text);
    assert_ne!(address(&site, "other").await.unwrap(), second, "another id is another trigger");

    let off = with_second.replace("id: second,", "id: second, enabled: false,");
    site.project.automation("orders", &off).unwrap();
    send(site.api(Method::POST, "/reload")).await;
    assert_eq!(address(&site, "second").await.as_ref(), Some(&second), "a disabled trigger has its address");
    let off = send(site.request(Method::POST, &second).json(&json!({}))).await;
    assert_eq!(off.refusal(), (404, "trigger_disabled".to_owned()), "{}", off.text);
    assert_eq!(address(&site, "main").await, Some(main));
    site.project.automation("orders", with_second).unwrap();
    send(site.api(Method::POST, "/reload")).await;
    assert_eq!(address(&site, "second").await, Some(second), "an enabled trigger keeps its address");
}
