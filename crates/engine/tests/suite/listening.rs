//! Test addresses: while somebody listens, requests are captured and start nothing; otherwise they start test executions.
//! Captures are saved by name and started again.

use std::time::Duration;

use catalog::AddressKind;
use engine::Engine;
use ingress::{NonTrigger, PayloadError, Verdict};
use model::AutomationId;
use model::execution::Origin;
use model::payload::{Payload, WebhookPayload};
use trigger::webhook::Request;
use value::{Map, Value};

use crate::common::{Peer, Project, end, rows, soon, stop, subscribed, until};
use crate::hooks::{post, signature, text, tokens};

const MINUTE: Duration = Duration::from_secs(60);
const CAPTURED: &str = r#"200 {"captured":true}"#;
/// A disabled automation, as while it is being written.
const DRAFT: &str = "enabled: false\ntrigger: {webhook: {verify: none}}\nsteps:\n  - set: {got: \"${{ trigger.results.body.data.n }}\"}\n";

fn id() -> AutomationId {
    AutomationId::parse("test").expect("an id")
}

/// Returns the captured request with this number, and the reason why it would be refused.
async fn captured(engine: &Engine, number: u32) -> (WebhookPayload, Option<&'static str>) {
    let view = soon(engine.ingress().captures(&id().into(), number - 1, MINUTE))
        .await
        .expect("somebody has listened");
    let capture = view.captures.first().expect("it was captured");
    assert_eq!(capture.number, number);
    let Payload::Webhook(payload) = &*capture.payload else { panic!("a request is captured") };
    (payload.clone(), capture.refused.clone().map(|code| &*code.into_owned().leak()))
}

fn body(payload: &WebhookPayload) -> String {
    String::from_utf8_lossy(&payload.body.data.for_display()).into_owned()
}

/// Sends a request, asserts that it starts a test execution, and returns the outcome.
async fn started_as_a_test(engine: &Engine, token: &str, request: Request) -> String {
    let answer = soon(engine.ingress().receive(token, request)).await;
    let execution = answer.header("x-execution-id").unwrap_or_else(|| panic!("{}", text(&answer)));
    let execution = execution.parse().expect("an id");
    let stored = engine.store().execution(execution).await.expect("read").expect("it exists");
    assert_eq!(stored.origin, Origin::Test);
    end(engine, execution).await
}

#[tokio::test]
async fn requests_to_a_test_address_are_captured_up_to_the_count_and_start_nothing() {
    let project = Project::with(DRAFT);
    let engine = project.start().await;
    let (live, test) = tokens(&engine);
    assert!(engine.ingress().captures(&id().into(), 0, MINUTE).await.is_err(), "nobody has listened");
    assert_eq!(started_as_a_test(&engine, &test, post(r#"{"n": 1}"#)).await, r#"{"got":1}"#);
    let begun = engine.ingress().listen(&id().into(), MINUTE, 2).await.expect("it listens");
    assert_eq!((begun.listening, begun.left, begun.captures.len()), (true, 2, 0));
    for n in [2, 3] {
        let answer = soon(engine.ingress().receive(&test, post(&format!("{{\"n\": {n}}}")))).await;
        assert_eq!(text(&answer), CAPTURED);
    }
    let view = engine.ingress().captures(&id().into(), 0, MINUTE).await.expect("somebody has listened");
    assert_eq!((view.listening, view.left, view.captures.len()), (false, 0, 2));
    let (second, refused) = captured(&engine, 2).await;
    assert_eq!((second.method.as_str(), body(&second).as_str(), refused), ("POST", r#"{"n": 3}"#, None));
    assert_eq!(rows(&engine).await.len(), 1);
    assert_eq!(
        soon(engine.ingress().receive(&live, post("{}"))).await.status,
        404,
        "the live address does not capture"
    );
    assert_eq!(started_as_a_test(&engine, &test, post(r#"{"n": 4}"#)).await, r#"{"got":4}"#);
    stop(engine).await;
}

#[tokio::test]
async fn listening_ends_at_its_timeout_or_on_request() {
    let project = Project::with(DRAFT);
    let engine = project.start().await;
    let (_, test) = tokens(&engine);
    let long = engine.ingress().listen(&id().into(), 100 * MINUTE, 5000).await.expect("it listens");
    assert_eq!((long.until, long.left), (engine.clock().now() + 10 * MINUTE, 100), "capped at the limits");
    let short = engine.ingress().listen(&id().into(), MINUTE, 1).await.expect("it listens");
    let watching = tokio::spawn({
        let engine = engine.clone();
        async move { engine.ingress().captures(&id().into(), 0, 10 * MINUTE).await }
    });
    soon(project.clock.somebody_sleeps_until(short.until)).await;
    project.clock.advance(MINUTE);
    let over = soon(watching).await.expect("it comes back").expect("somebody has listened");
    assert_eq!((over.listening, over.captures.len()), (false, 0));
    assert_eq!(started_as_a_test(&engine, &test, post(r#"{"n": 1}"#)).await, r#"{"got":1}"#);
    engine.ingress().listen(&id().into(), MINUTE, 1).await.expect("it listens");
    engine.ingress().stop_listening(&id().into()).await.expect("it stops");
    assert_eq!(started_as_a_test(&engine, &test, post(r#"{"n": 2}"#)).await, r#"{"got":2}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_long_poll_returns_as_soon_as_a_request_is_captured() {
    let project = Project::with(DRAFT);
    let engine = project.start().await;
    let (_, test) = tokens(&engine);
    let begun = engine.ingress().listen(&id().into(), MINUTE, 5).await.expect("it listens");
    let watching = tokio::spawn({
        let engine = engine.clone();
        async move { captured(&engine, 1).await }
    });
    soon(project.clock.somebody_sleeps_until(begun.until)).await;
    assert_eq!(text(&soon(engine.ingress().receive(&test, post(r#"{"n": 1}"#))).await), CAPTURED);
    assert_eq!(body(&soon(watching).await.expect("told").0), r#"{"n": 1}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_refused_request_is_captured_with_the_reason_and_without_credentials() {
    let project = Project::with(
        "trigger: {webhook: {verify: {secret: '${{ secrets.hook }}'}, respond: {status: 204, headers: {x-a: b}}}}\nsteps: []\n",
    );
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    project.write("secrets/hook", "hook secret");
    let engine = project.start().await;
    let (_, test) = tokens(&engine);
    engine.ingress().listen(&id().into(), MINUTE, 5).await.expect("it listens");
    let send = |body: &'static str, signature: String| {
        let mut request = post(body);
        request.raw_query = "key=hook%20secret&page=1".to_owned();
        for (name, value) in [
            ("X-Hmac-Hash", signature.as_str()),
            ("Authorization", "Bearer x"),
            ("X-Note", "a hook secret b"),
        ] {
            request.headers.push((name.to_owned(), value.as_bytes().to_vec()));
        }
        soon(engine.ingress().receive(&test, request))
    };
    assert_eq!(send("{}", "00".to_owned()).await.status, 401);
    assert_eq!(send("{", signature("hook secret", "{")).await.status, 400);
    let told = r#"{"said": "hook secret"}"#;
    let answer = send(told, signature("hook secret", told)).await;
    assert_eq!((answer.status, answer.header("x-a"), answer.body.len()), (204, Some("b"), 0));
    for (number, reason) in [(1, Some("invalid_signature")), (2, Some("bad_json")), (3, None)] {
        assert_eq!(captured(&engine, number).await.1, reason);
    }
    let view = engine.ingress().captures(&id().into(), 0, MINUTE).await.expect("somebody listens");
    let shown: Vec<_> = view.captures.iter().map(|one| (one.verdict, one.answer.status, one.bytes)).collect();
    assert_eq!(shown, [(Verdict::Refused, 401, 2), (Verdict::Refused, 400, 1), (Verdict::Accepted, 204, 23)]);
    let reason = view.captures[0].reason.as_deref().expect("a reason");
    assert!(reason.contains("malformed") || reason.contains("wrong"), "{reason}");
    assert!(!text(&view.captures[0].answer).contains(reason), "the sender does not get the reason");
    let (payload, _) = captured(&engine, 3).await;
    let names: Vec<_> = payload.headers.keys().map(String::as_str).collect();
    assert_eq!(names, ["content-type", "x-note"]);
    assert_eq!(payload.headers["x-note"], "a *** b");
    assert_eq!(
        (payload.raw_query.as_str(), body(&payload).as_str()),
        ("key=***&page=1", r#"{"said": "***"}"#)
    );
    assert_eq!(payload.query_parameters.get("key"), Some(&Value::from("***")));
    assert_eq!(rows(&engine).await.len(), 0);
    stop(engine).await;
}

#[tokio::test]
async fn challenges_and_probes_are_captured_but_not_counted() {
    let project =
        Project::with("trigger: {webhook: {verify: none, challenge: dropbox, methods: [POST]}}\nsteps: []\n");
    let engine = project.start().await;
    let (_, test) = tokens(&engine);
    engine.ingress().listen(&id().into(), MINUTE, 1).await.expect("it listens");
    let ask = |method: &str, query: &str| {
        let request =
            Request { method: method.to_owned(), raw_query: query.to_owned(), ..Request::default() };
        soon(engine.ingress().receive(&test, request))
    };
    assert_eq!(text(&ask("GET", "challenge=abc").await), "200 abc");
    assert_eq!(ask("HEAD", "").await.status, 200);
    let view = engine.ingress().captures(&id().into(), 0, MINUTE).await.expect("somebody listens");
    assert_eq!((view.listening, view.left), (true, 1), "neither is counted");
    let shown: Vec<_> =
        view.captures.iter().map(|one| (one.number, one.aside.map(NonTrigger::word))).collect();
    assert_eq!(shown, [(1, Some("challenge")), (2, Some("probe"))]);
    assert_eq!(captured(&engine, 1).await.0.raw_query, "challenge=abc");
    assert_eq!(ask("DELETE", "").await.status, 405);
    let (deleted, refused) = captured(&engine, 3).await;
    assert_eq!((deleted.method.as_str(), refused), ("DELETE", Some("method_not_allowed")));
    assert!(
        !engine.ingress().captures(&id().into(), 0, MINUTE).await.expect("somebody has listened").listening
    );
    assert_eq!(rows(&engine).await.len(), 0);
    stop(engine).await;
}

#[tokio::test]
async fn captured_requests_get_responses_that_need_no_execution() {
    let project = Project::with(
        "trigger:\n  if: trigger.results.body.data.n > 1\n  webhook:\n    verify: none\n    code: |\n      export default (context, payload) => ({ response: { statusCode: 201, body: { twice: payload.body.data.n * 2 } } });\nsteps: []\n",
    );
    let engine = project.start().await;
    let (_, test) = tokens(&engine);
    engine.ingress().listen(&id().into(), MINUTE, 5).await.expect("it listens");
    assert_eq!(
        text(&soon(engine.ingress().receive(&test, post(r#"{"n": 7}"#))).await),
        r#"201 {"twice":14}"#
    );
    assert_eq!(
        text(&soon(engine.ingress().receive(&test, post(r#"{"n": 1}"#))).await),
        r#"200 {"filtered":true}"#
    );
    let view = engine.ingress().captures(&id().into(), 0, MINUTE).await.expect("listened");
    let shown: Vec<_> = view.captures.iter().map(|one| (one.verdict, text(&one.answer))).collect();
    let expected =
        [(Verdict::Accepted, r#"201 {"twice":14}"#), (Verdict::Filtered, r#"200 {"filtered":true}"#)];
    assert_eq!(shown, expected.map(|(verdict, answer)| (verdict, answer.to_owned())));
    assert_eq!(rows(&engine).await.len(), 0);
    stop(engine).await;
}

#[tokio::test]
async fn listening_is_refused_for_a_manual_trigger() {
    let project = Project::with("trigger: {manual: {}}\nsteps: []\n");
    let engine = project.start().await;
    let refused =
        engine.ingress().listen(&id().into(), MINUTE, 1).await.expect_err("nothing is sent").to_string();
    assert_eq!(refused, "`test` receives no requests: its trigger is `manual`");
    stop(engine).await;
}

#[tokio::test]
async fn a_capture_can_be_saved_edited_and_started_again() {
    let project = Project::with(DRAFT);
    let engine = project.start().await;
    let (_, test) = tokens(&engine);
    engine.ingress().listen(&id().into(), MINUTE, 1).await.expect("it listens");
    soon(engine.ingress().receive(&test, post(r#"{"n": 7}"#))).await;
    let payload = Payload::Webhook(captured(&engine, 1).await.0);
    let saved = engine
        .ingress()
        .save_payload(&id().into(), "first", payload.clone(), None)
        .await
        .expect("it is saved");
    assert_eq!(saved.path, "payloads/test/first.json");
    let listed = engine.ingress().saved_payloads(&id().into()).await.expect("they are listed");
    assert_eq!(
        listed.iter().map(|one| (one.name.as_str(), one.bytes)).collect::<Vec<_>>(),
        [("first", saved.bytes)]
    );
    assert_eq!(
        engine.ingress().saved_payload(&id().into(), "first").await.expect("it is read").payload,
        payload
    );
    let file = project.path(&saved.path);
    let written = std::fs::read_to_string(&file).expect("it is there");
    std::fs::write(&file, written.replace("\\\"n\\\": 7", "\\\"n\\\": 12345")).expect("it is edited");
    let payload = engine.ingress().saved_payload(&id().into(), "first").await.expect("it is read").payload;
    let run = engine
        .ingress()
        .start(&id().into(), runtime::ManualStart::new(payload, Origin::Test))
        .await
        .expect("it starts");
    assert_eq!(end(&engine, run).await, r#"{"got":12345}"#);
    std::fs::write(&file, "{").expect("it is broken");
    let broken = engine.ingress().saved_payload(&id().into(), "first").await.expect_err("it is broken");
    assert!(matches!(broken, PayloadError::Malformed { .. }), "{broken}");
    let missing = engine.ingress().saved_payload(&id().into(), "second").await.expect_err("there is none");
    assert!(matches!(missing, PayloadError::Missing { .. }), "{missing}");
    let outside =
        engine.ingress().save_payload(&id().into(), "../first", Payload::manual(Map::new()), None).await;
    assert!(matches!(outside, Err(PayloadError::Name(_))), "{outside:?}");
    stop(engine).await;
}

#[tokio::test]
async fn a_saved_payload_is_replaced_only_in_the_version_that_was_read() {
    let project = Project::with(DRAFT);
    let engine = project.start().await;
    let (ingress, id) = (engine.ingress(), id());
    let payload = |n: i64| Payload::manual(Map::from_iter([("n", Value::from(n))]));
    ingress.save_payload(&id.clone().into(), "first", payload(1), None).await.expect("it is saved");
    let read = ingress.saved_payload(&id.clone().into(), "first").await.expect("it is read");
    ingress
        .save_payload(&id.clone().into(), "first", payload(2), Some(read.version.clone()))
        .await
        .expect("as it was read");
    let late =
        ingress.save_payload(&id.clone().into(), "first", payload(3), Some(read.version.clone())).await;
    assert!(matches!(late, Err(PayloadError::Changed { .. })), "{late:?}");
    let late = ingress.delete_payload(&id.clone().into(), "first", Some(read.version)).await;
    assert!(matches!(late, Err(PayloadError::Changed { .. })), "{late:?}");
    ingress.save_payload(&id.clone().into(), "other", payload(4), None).await.expect("it is saved");
    let taken = ingress.rename_payload(&id.clone().into(), "first", "other").await;
    assert!(matches!(taken, Err(PayloadError::Taken(_))), "{taken:?}");
    let renamed = ingress.rename_payload(&id.clone().into(), "first", "second").await.expect("it is renamed");
    assert_eq!(
        (renamed.path.as_str(), renamed.kind.as_deref()),
        ("payloads/test/second.json", Some("manual"))
    );
    let names: Vec<_> = ingress
        .saved_payloads(&id.clone().into())
        .await
        .expect("a list")
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(names, ["other", "second"]);
    assert_eq!(
        ingress.saved_payload(&id.clone().into(), "other").await.expect("it is read").payload,
        payload(4)
    );
    let gone = ingress.rename_payload(&id.clone().into(), "first", "third").await;
    assert!(matches!(gone, Err(PayloadError::Missing { .. })), "{gone:?}");
    stop(engine).await;
}

#[tokio::test]
async fn a_rotated_address_stops_working_and_its_successor_survives_restarts() {
    let project = Project::with(DRAFT);
    let engine = project.start().await;
    let (live, test) = tokens(&engine);
    engine.rotate_address(&id().into(), AddressKind::Test).await.expect("it is replaced");
    let (same, replaced) = tokens(&engine);
    assert_eq!(same, live, "the other address stays");
    assert_ne!(replaced, test);
    let gone = soon(engine.ingress().receive(&test, post(r#"{"n": 1}"#))).await;
    assert!(text(&gone).contains("unknown_trigger"), "{}", text(&gone));
    assert_eq!(started_as_a_test(&engine, &replaced, post(r#"{"n": 1}"#)).await, r#"{"got":1}"#);
    project.write("automations/test.yaml", &DRAFT.replace("got", "has"));
    engine.reload().await;
    assert_eq!(tokens(&engine), (live.clone(), replaced.clone()));
    assert_eq!(started_as_a_test(&engine, &replaced, post(r#"{"n": 2}"#)).await, r#"{"has":2}"#);
    stop(engine).await;
    let engine = project.start().await;
    assert_eq!(tokens(&engine), (live, replaced));
    stop(engine).await;
}

/// Creates a project with a disabled automation that an event of the peer starts.
fn project_with_event(peer: &Peer) -> Project {
    let mut project = Project::with(
        "enabled: false\ntrigger: {event: github.push, connection: hub, with: {owner: acme, repo: shop}}\nsteps: []\n",
    );
    project.settings.public_url = Some("https://hooks.example.com".to_owned());
    let connection = format!("type: github.token\nwith: {{host: \"{}\", token: t}}\n", peer.base);
    project.write("connections/hub.yaml", &connection);
    project
}

#[tokio::test]
async fn an_event_subscription_exists_only_while_somebody_listens() {
    let mut peer = Peer::new().await;
    let project = project_with_event(&peer);
    let engine = project.start().await;
    let begun = engine.ingress().listen(&id().into(), MINUTE, 5).await.expect("it listens");
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /repos/acme/shop/hooks");
    asked.answer(201, r#"{"id": 7}"#).await;
    subscribed(&engine, |one| !one.remote.is_null()).await;
    assert!(engine.ingress().subscriptions().iter().all(|one| one.test));
    // A new listener continues with the subscription.
    project.clock.advance(MINUTE / 2);
    let again = engine.ingress().listen(&id().into(), MINUTE, 5).await.expect("it listens");
    soon(project.clock.somebody_sleeps_until(again.until)).await;
    project.clock.advance_to(begun.until);
    assert!(peer.pending_request().is_none());
    project.clock.advance_to(again.until);
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "DELETE /repos/acme/shop/hooks/7");
    asked.answer(204, "").await;
    // A new subscription is created, and deleted as soon as listening stops.
    engine.ingress().listen(&id().into(), MINUTE, 5).await.expect("it listens");
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /repos/acme/shop/hooks");
    asked.answer(201, r#"{"id": 8}"#).await;
    engine.ingress().stop_listening(&id().into()).await.expect("it stops");
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "DELETE /repos/acme/shop/hooks/8");
    asked.answer(204, "").await;
    stop(engine).await;
}

/// A connector whose bots have one webhook each, which another subscription replaces.
pub(crate) fn connector_of_bots(peer: &Peer) -> String {
    let text = include_str!("../../../connector/manifests/telegram.yaml");
    text.replace("connector: telegram", "connector: bots").replace("https://api.telegram.org", &peer.base)
}

#[tokio::test]
async fn listening_replaces_the_only_webhook_of_a_bot_and_gives_it_back() {
    let mut peer = Peer::new().await;
    let mut project = Project::with("trigger: {event: bots.update, connection: bot}\nsteps: []\n");
    project.settings.public_url = Some("https://hooks.example.com".to_owned());
    std::fs::create_dir(project.path("connectors")).expect("a folder");
    project.write("connectors/bots.yaml", &connector_of_bots(&peer));
    project.write("connections/bot.yaml", "type: bots.bot\nwith: {token: t}\n");
    let engine = project.start().await;
    let (live, test) = tokens(&engine);
    let mut expect = async |line: &str, token: &str| {
        let asked = peer.next_request().await;
        assert_eq!(asked.line, format!("POST /bott/{line}"));
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        assert!(body.contains(&format!("/trigger/{token}")), "{body}");
        asked.answer(200, r#"{"ok": true, "result": true}"#).await;
    };
    expect("setWebhook", &live).await;
    engine.ingress().listen(&id().into(), MINUTE, 5).await.expect("it listens");
    expect("setWebhook", &test).await;
    subscribed(&engine, |one| !one.remote.is_null()).await;
    engine.ingress().stop_listening(&id().into()).await.expect("it stops");
    expect("setWebhook", &live).await;
    subscribed(&engine, |one| !one.test && !one.remote.is_null()).await;
    std::fs::remove_file(project.path("automations/test.yaml")).expect("it is removed");
    engine.reload().await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /bott/deleteWebhook");
    asked.answer(200, r#"{"ok": true, "result": true}"#).await;
    until(|| engine.ingress().subscriptions().is_empty()).await;
    stop(engine).await;
}
