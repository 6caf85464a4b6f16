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

/// Two webhooks, of which the second has this id.
fn two(second: &str) -> String {
    format!(
        "triggers: [{{id: first, webhook: {{verify: none}}}}, {{id: {second}, webhook: {{verify: none}}}}]\n\
         steps: [{{set: {{by: \"${{{{ trigger.id }}}}\"}}}}]\n"
    )
}

#[tokio::test]
async fn a_renamed_trigger_keeps_its_address_and_payloads_if_they_are_moved() {
    let site = Site::serving(&[("orders", &two("changed"))]).await;
    let url = address(&site, "changed").await.unwrap();
    let payloads = site.project.path().join("payloads/orders");
    std::fs::create_dir_all(payloads.join("changed")).unwrap();
    std::fs::write(payloads.join("changed/one.json"), "{}").unwrap();
    let planned = two("paid");
    let files = json!({"files": [{"path": "automations/orders.yaml", "text": planned}], "overlay": true});
    let plan = send(site.api(Method::POST, "/plan").json(&files)).await.json();
    assert_eq!(plan["changes"][0]["renamed"], json!([{"from": "changed", "to": "paid"}]));

    let taken = site.cogwork(&["triggers", "move", "orders", "changed", "first"]).await;
    assert!(!taken.status.success());
    let run = site.cogwork(&["triggers", "move", "orders", "changed", "paid"]).await;
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(
        run.status.success() && said.contains("moved what the daemon stores and 1 saved payload of"),
        "{said}"
    );
    assert!(payloads.join("paid/one.json").is_file() && !payloads.join("changed/one.json").exists());

    let before = send(site.request(Method::POST, &url).json(&json!({}))).await;
    assert_eq!(end(&site, &before.execution()).await, (json!("changed"), json!({"by": "changed"})));
    let plan = send(site.api(Method::POST, "/plan").json(&files)).await.json();
    assert_eq!(plan["changes"][0]["renamed"], Value::Null, "its records have moved");
    site.project.automation("orders", &planned).unwrap();
    send(site.api(Method::POST, "/reload")).await;
    assert_eq!(address(&site, "paid").await, Some(url.clone()));
    let after = send(site.request(Method::POST, &url).json(&json!({}))).await;
    assert_eq!(end(&site, &after.execution()).await, (json!("paid"), json!({"by": "paid"})));
    let audit = site.cogwork(&["audit", "--json"]).await;
    assert!(String::from_utf8_lossy(&audit.stdout).contains("moveTrigger"));
}

#[tokio::test]
async fn a_move_that_is_not_possible_is_refused_with_the_reason() {
    let site = Site::serving(&[("orders", &two("changed"))]).await;
    let relocate = async |automation: &str, from: &str, to: &str| {
        let path = format!("/automations/{automation}/move-trigger");
        let answer = send(site.api(Method::POST, &path).json(&json!({"from": from, "to": to}))).await;
        (answer.refusal(), answer.text)
    };
    let (refusal, text) = relocate("orders", "changed", "first").await;
    assert_eq!(refusal, (409, "trigger_has_rows".to_owned()), "{text}");
    let (refusal, text) = relocate("order", "changed", "paid").await;
    assert_eq!(refusal, (404, "unknown_automation".to_owned()), "{text}");
    let (refusal, text) = relocate("orders", "chnged", "paid").await;
    assert_eq!(refusal, (404, "unknown_trigger".to_owned()), "{text}");
    assert!(text.contains("did you mean `changed`"), "{text}");
    // The address of a trigger that the file no longer has waits for it.
    site.project.automation("orders", "trigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n").unwrap();
    send(site.api(Method::POST, "/reload")).await;
    let (refusal, text) = relocate("orders", "changed", "first").await;
    assert_eq!(refusal, (409, "trigger_has_rows".to_owned()), "{text}");
    assert!(text.contains("`orders/first` has an address already"), "{text}");
}

#[tokio::test]
async fn executions_and_refused_requests_are_listed_by_trigger() {
    let site = Site::serving(&[("orders", ORDERS)]).await;
    let (changed, paid) = (address(&site, "changed").await.unwrap(), address(&site, "paid").await.unwrap());
    let by_payment = send(site.request(Method::POST, &paid).json(&json!(5))).await.execution();
    let by_change = send(site.request(Method::POST, &changed).json(&json!({"id": "o-17"}))).await.execution();
    for id in [&by_payment, &by_change] {
        site.end_of(id).await;
    }
    let listed = async |query: &str| {
        let found = site.ask(&format!("/executions?automation=orders&{query}")).await;
        let ids =
            found["executions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed("trigger=paid").await, [by_payment.as_str()]);
    assert_eq!(listed("trigger=changed").await, [by_change.as_str()]);
    assert_eq!(listed("trigger=nightly").await, [] as [&str; 0]);
    for query in ["trigger=paid", "automation=orders&trigger=no%20id"] {
        let answer = send(site.api(Method::GET, &format!("/executions?{query}"))).await;
        assert_eq!(answer.refusal(), (400, "bad_query".to_owned()), "{}", answer.text);
    }
    let run =
        site.cogwork(&["executions", "list", "--automation", "orders", "--trigger", "paid", "--json"]).await;
    let told: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(told["executions"].as_array().unwrap().len(), 1);
    assert_eq!(told["executions"][0]["id"], json!(by_payment));

    send(site.request(Method::POST, &changed).json(&json!({"id": [1]}))).await;
    send(site.request(Method::POST, &paid).header("content-type", "application/json").body("{")).await;
    let refused = async |name: &str| {
        let found = site.ask(&format!("/automations/{name}/refusals")).await;
        let triggers = found["refusals"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["trigger"].as_str().unwrap().to_owned());
        triggers.collect::<Vec<_>>()
    };
    assert_eq!(refused("orders").await, ["paid", "changed"]);
    assert_eq!(refused("orders%2Fpaid").await, ["paid"]);
    assert_eq!(refused("orders%2Fchanged").await, ["changed"]);
    let unknown = send(site.api(Method::GET, "/automations/orders%2Fpayd/refusals")).await;
    assert_eq!(unknown.refusal(), (404, "unknown_trigger".to_owned()), "{}", unknown.text);
}
