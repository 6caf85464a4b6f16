//! Subscriptions to events of other applications, which exist as long as an Automation needs them.

use std::time::Duration;

use engine::Engine;
use jiff::SignedDuration;
use model::AutomationId;
use runtime::Clock as _;
use store::Subscription;
use value::Value;

use crate::common::{Peer, PeerRequest, Project, settled, soon, stop, until};
use crate::hooks::{post, text, tokens};

/// The request that lists existing subscriptions, to find subscriptions unknown to this store.
const LIST: &str = "GET /repos/acme/shop/hooks?per_page=100";

fn yaml(repo: &str) -> String {
    format!(
        "trigger: {{event: github.push, connection: hub, with: {{owner: acme, repo: {repo}}}}}\nsteps: []\n"
    )
}

fn project(peer: &Peer) -> Project {
    let mut project = Project::with(&yaml("shop"));
    project.settings.public_url = Some("https://hooks.example.com".to_owned());
    let connection = format!("type: github.token\nwith: {{host: \"{}\", token: t}}\n", peer.base);
    project.write("connections/hub.yaml", &connection);
    project
}

/// Waits until the only subscription meets a condition, and returns it.
async fn queue_status(engine: &Engine, is: impl Fn(&Subscription) -> bool) -> Subscription {
    soon(async {
        loop {
            if let [one] = engine.ingress().subscriptions().as_slice()
                && is(one)
            {
                return one.clone();
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

async fn nothing_left(engine: &Engine) {
    until(|| engine.ingress().subscriptions().is_empty()).await;
}

/// Returns the next request and asserts its request line.
async fn expect_request(peer: &mut Peer, line: &str) -> PeerRequest {
    let asked = peer.next_request().await;
    assert_eq!(asked.line, line);
    asked
}

/// A project with a subscription that the other application has refused once. The next attempt is due in 10 seconds.
async fn failed_subscription() -> (Peer, Project, Engine) {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    expect_request(&mut peer, "POST /repos/acme/shop/hooks").await.answer(422, "{}").await;
    queue_status(&engine, |one| one.failures == 1).await;
    settled(&project, "2026-03-02T08:00:10Z").await;
    (peer, project, engine)
}

#[tokio::test]
async fn a_failed_subscription_records_the_reason_and_is_retried() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    let first = expect_request(&mut peer, "POST /repos/acme/shop/hooks").await;
    assert_eq!(first.header("x-github-api-version"), Some("2022-11-28"));
    first.answer(422, r#"{"message": "Validation Failed"}"#).await;
    let failed = queue_status(&engine, |one| one.failures == 1).await;
    assert!(failed.error.as_ref().is_some_and(|error| error.contains("Validation Failed")), "{failed:?}");
    settled(&project, "2026-03-02T08:00:10Z").await;
    project.clock.advance(Duration::from_secs(10));
    expect_request(&mut peer, LIST).await.answer(200, "[]").await;
    expect_request(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
    let made = queue_status(&engine, |one| !one.remote.is_null()).await;
    assert_eq!((made.remote, made.failures, made.error, made.next_at), (Value::from(7), 0, None, None));
    stop(engine).await;
}

#[tokio::test]
async fn a_requested_subscription_attempt_is_made_at_once() {
    let (mut peer, _project, engine) = failed_subscription().await;
    let id = AutomationId::parse("test").expect("an id");
    // The clock stands still.
    for (status, failures) in [(422, 2), (201, 0)] {
        let (trying, id) = (engine.clone(), id.clone());
        let attempt = tokio::spawn(async move { trying.ingress().try_subscriptions(&id).await });
        expect_request(&mut peer, LIST).await.answer(200, "[]").await;
        expect_request(&mut peer, "POST /repos/acme/shop/hooks").await.answer(status, r#"{"id": 7}"#).await;
        let found = soon(attempt).await.expect("it ends").expect("there is one");
        assert_eq!(found.iter().map(|one| one.failures).collect::<Vec<_>>(), [failures]);
        assert_eq!(found[0].error.is_some(), failures > 0);
    }
    // Nothing is pending any more.
    let found = soon(engine.ingress().try_subscriptions(&id)).await.expect("there is one");
    assert_eq!(found[0].remote, Value::from(7));
    assert!(peer.pending_request().is_none());
    let other = AutomationId::parse("other").expect("an id");
    assert!(engine.ingress().try_subscriptions(&other).await.is_err());
    stop(engine).await;
}

#[tokio::test]
async fn a_subscription_that_cannot_be_removed_can_be_forgotten_without_a_call() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    let id = AutomationId::parse("test").expect("an id");
    expect_request(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
    queue_status(&engine, |one| !one.remote.is_null()).await;
    assert!(engine.ingress().forget_subscriptions(&id).await.is_err(), "it is active");
    std::fs::remove_file(project.path("automations/test.yaml")).expect("it goes");
    engine.reload().await;
    expect_request(&mut peer, "DELETE /repos/acme/shop/hooks/7").await.answer(403, "{}").await;
    let leaving = queue_status(&engine, |one| one.failures == 1).await;
    assert!(leaving.removing && leaving.next_at.is_some(), "{leaving:?}");
    let left = engine.ingress().forget_subscriptions(&id).await.expect("it could not be taken back");
    assert_eq!(left.len(), 0);
    assert!(engine.ingress().subscriptions().is_empty() && peer.pending_request().is_none());
    assert!(engine.ingress().forget_subscriptions(&id).await.is_err());
    stop(engine).await;
    // The store has forgotten it too.
    let engine = project.start().await;
    assert!(engine.ingress().subscriptions().is_empty());
    stop(engine).await;
}

#[tokio::test]
async fn a_clock_step_does_not_change_a_subscription_retry_delay() {
    for hours in [1, -1, 8760, -8760] {
        let (mut peer, project, engine) = failed_subscription().await;
        project.clock.step(SignedDuration::from_hours(hours));
        project.clock.advance(Duration::from_secs(9));
        let waits = queue_status(&engine, |one| one.failures == 1).await;
        let next = waits.next_at.expect("it is tried again");
        assert_eq!(next.duration_since(project.clock.now()).as_secs(), 1, "set by {hours} h");
        settled(&project, &next.to_string()).await;
        project.clock.advance(Duration::from_secs(1));
        expect_request(&mut peer, LIST).await.answer(200, "[]").await;
        expect_request(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
        queue_status(&engine, |one| !one.remote.is_null()).await;
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_subscription_survives_restarts_and_follows_changed_inputs() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    expect_request(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
    queue_status(&engine, |one| !one.remote.is_null()).await;
    stop(engine).await;
    let engine = project.start().await;
    queue_status(&engine, |one| !one.remote.is_null()).await;
    project.write("automations/test.yaml", &format!("description: changed\n{}", yaml("shop")));
    engine.reload().await;
    assert!(peer.pending_request().is_none());
    // Another repository: the new subscription is created, the old one deleted.
    project.write("automations/test.yaml", &yaml("store"));
    engine.reload().await;
    for _ in 0..2 {
        let asked = peer.next_request().await;
        match asked.line.as_str() {
            "POST /repos/acme/store/hooks" => asked.answer(201, r#"{"id": 8}"#).await,
            "DELETE /repos/acme/shop/hooks/7" => asked.answer(204, "").await,
            other => panic!("{other}"),
        }
    }
    queue_status(&engine, |one| one.remote == Value::from(8)).await;
    stop(engine).await;
    // Removed while no daemon ran; the subscription must be removed too.
    std::fs::remove_file(project.path("automations/test.yaml")).expect("it goes");
    let engine = project.start().await;
    expect_request(&mut peer, "DELETE /repos/acme/store/hooks/8")
        .await
        .answer(404, r#"{"message": "Not Found"}"#)
        .await;
    nothing_left(&engine).await;
    stop(engine).await;
}

/// Returns the webhooks that the peer lists: a foreign one, and one at the requested URL for this event.
fn listed(engine: &Engine, event: &str) -> String {
    let url = &engine.ingress().subscriptions()[0].url;
    format!(
        r#"[{{"id": 1, "events": ["push"], "config": {{"url": "https://elsewhere.example.com/trigger/x"}}}},
            {{"id": 9, "events": ["{event}"], "config": {{"url": "{url}"}}}}]"#
    )
}

#[tokio::test]
async fn a_subscription_created_before_a_crash_is_found_and_adopted() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    let unanswered = expect_request(&mut peer, "POST /repos/acme/shop/hooks").await;
    let before = queue_status(&engine, |one| one.requested).await;
    assert_eq!((before.remote, before.failures), (Value::Null, 0), "it is stored before it is requested");
    stop(engine).await;
    drop(unanswered);
    let engine = project.start().await;
    let list = expect_request(&mut peer, LIST).await;
    list.answer(200, &listed(&engine, "push")).await;
    let found = queue_status(&engine, |one| !one.remote.is_null()).await;
    assert_eq!((found.remote, found.failures), (Value::from(9), 0));
    assert!(peer.pending_request().is_none(), "it is not requested again");
    stop(engine).await;
}

#[tokio::test]
async fn an_unwanted_subscription_created_before_a_crash_is_deleted() {
    for is_wanted in [false, true] {
        let mut peer = Peer::new().await;
        let project = project(&peer);
        let engine = project.start().await;
        let unanswered = expect_request(&mut peer, "POST /repos/acme/shop/hooks").await;
        stop(engine).await;
        drop(unanswered);
        if !is_wanted {
            project.write("automations/test.yaml", &format!("enabled: false\n{}", yaml("shop")));
        }
        let engine = project.start().await;
        let list = expect_request(&mut peer, LIST).await;
        let event = if is_wanted { "issues" } else { "push" };
        list.answer(200, &listed(&engine, event)).await;
        expect_request(&mut peer, "DELETE /repos/acme/shop/hooks/9").await.answer(204, "").await;
        if is_wanted {
            expect_request(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 10}"#).await;
            queue_status(&engine, |one| one.remote == Value::from(10)).await;
        } else {
            nothing_left(&engine).await;
        }
        stop(engine).await;
    }
}

#[tokio::test]
async fn changing_the_trigger_deletes_the_subscription() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    expect_request(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
    queue_status(&engine, |one| !one.remote.is_null()).await;
    project.write("automations/test.yaml", "trigger: {webhook: {verify: none}}\nsteps: []\n");
    engine.reload().await;
    expect_request(&mut peer, "DELETE /repos/acme/shop/hooks/7").await.answer(204, "").await;
    nothing_left(&engine).await;
    stop(engine).await;
}

#[tokio::test]
async fn an_event_request_over_the_hop_limit_gets_508_and_is_counted() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    expect_request(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
    let (live, _) = tokens(&engine);
    let mut request = post("{}");
    request.headers.push(("x-github-event".to_owned(), b"push".to_vec()));
    request.headers.push(("x-cogwork-trace".to_owned(), b"a;10".to_vec()));
    assert_eq!(soon(engine.ingress().receive(&live, request)).await.status, 508);
    let id = AutomationId::parse("test").expect("an id");
    assert_eq!(
        engine.ingress().rejections_of(&id).into_iter().collect::<Vec<_>>(),
        [("loop_detected".to_owned(), 1)]
    );
    stop(engine).await;
}

/// A service whose subscriptions end after two days, and which asks for the address first.
const DESK: &str = "
connector: desk
title: Desk
version: 1.0.0
connections:
  key:
    title: Key
    inputs: {host: {type: text, required: true}, key: {type: text, required: true, secret: true}}
    baseUrl: {input: host}
    auth: {bearer: key}
inputs:
  url: {type: text}
  secret: {type: text}
  id: {type: text}
  end: {type: text}
actions:
  subscribe:
    title: Subscribe
    request: POST /subscriptions
    inputs: {url: body url, secret: body secret, end: body end}
    example: {with: {url: u, secret: s, end: e}, request: POST /subscriptions, body: {url: u, secret: s, end: e}}
  renew:
    title: Renew
    request: PATCH /subscriptions/{id}
    inputs: {id: path, end: body end}
    example: {with: {id: a, end: e}, request: PATCH /subscriptions/a, body: {end: e}}
  unsubscribe:
    title: Unsubscribe
    request: DELETE /subscriptions/{id}
    inputs: {id: path}
    example: {with: {id: a}, request: DELETE /subscriptions/a}
events:
  changed:
    title: Changed
    hook:
      subscribe: subscribe
      url: url
      secret: secret
      id: id
      unsubscribe: unsubscribe
      idInput: id
      renew: {action: renew, idInput: id, until: end, lasts: 2d, expires: end, before: 12h}
      verify: gitlab
      challenge: microsoftGraph
";

fn desk(peer: &Peer) -> Project {
    let mut project = Project::with("trigger: {event: desk.changed, connection: desk}\nsteps: []\n");
    project.settings.public_url = Some("https://hooks.example.com".to_owned());
    std::fs::create_dir_all(project.path("connectors")).expect("a folder");
    project.write("connectors/desk.yaml", DESK);
    project.write(
        "connections/desk.yaml",
        &format!("type: desk.key\nwith: {{host: \"{}\", key: k}}\n", peer.base),
    );
    project
}

/// Advances the clock to the next renewal, which is due at this instant.
async fn renewal_due(project: &Project, engine: &Engine, at: &str) {
    let waits = queue_status(engine, |one| one.next_at.is_some_and(|next| next.to_string() == at)).await;
    settled(project, at).await;
    let next = waits.next_at.expect("it is renewed");
    project.clock.advance(Duration::try_from(next.duration_since(project.clock.now())).expect("it is ahead"));
}

#[tokio::test]
async fn a_subscription_that_ends_is_renewed_before_its_end() {
    let mut peer = Peer::new().await;
    let project = desk(&peer);
    let engine = project.start().await;
    let asked = expect_request(&mut peer, "POST /subscriptions").await;
    assert!(
        String::from_utf8_lossy(&asked.body).contains(r#""end":"2026-03-04T08:00:00Z""#),
        "{:?}",
        asked.body
    );
    // The service gives less than it was asked for.
    asked.answer(201, r#"{"id": "a", "end": "2026-03-03T08:00:00Z"}"#).await;
    renewal_due(&project, &engine, "2026-03-02T20:00:00Z").await;
    let asked = expect_request(&mut peer, "PATCH /subscriptions/a").await;
    assert!(
        String::from_utf8_lossy(&asked.body).contains(r#""end":"2026-03-04T20:00:00Z""#),
        "{:?}",
        asked.body
    );
    asked.answer(200, r#"{"end": "2026-03-04T20:00:00Z"}"#).await;
    // It is renewed after a restart, too.
    queue_status(&engine, |one| one.next_at.is_some_and(|next| next.to_string() == "2026-03-04T08:00:00Z"))
        .await;
    stop(engine).await;
    let engine = project.start().await;
    queue_status(&engine, |one| !one.remote.is_null()).await;
    stop(engine).await;
}

#[tokio::test]
async fn a_renewal_that_fails_is_tried_again_and_a_lost_subscription_is_made_again() {
    let mut peer = Peer::new().await;
    let project = desk(&peer);
    let engine = project.start().await;
    expect_request(&mut peer, "POST /subscriptions").await.answer(201, r#"{"id": "a"}"#).await;
    renewal_due(&project, &engine, "2026-03-03T20:00:00Z").await;
    expect_request(&mut peer, "PATCH /subscriptions/a").await.answer(500, "{}").await;
    let failed = queue_status(&engine, |one| one.failures == 1).await;
    assert!(!failed.remote.is_null() && failed.error.is_some(), "{failed:?}");
    renewal_due(&project, &engine, "2026-03-03T20:00:10Z").await;
    expect_request(&mut peer, "PATCH /subscriptions/a").await.answer(404, "{}").await;
    expect_request(&mut peer, "POST /subscriptions").await.answer(201, r#"{"id": "b"}"#).await;
    let made = queue_status(&engine, |one| one.remote == Value::from("b")).await;
    assert_eq!((made.failures, made.error), (0, None));
    std::fs::remove_file(project.path("automations/test.yaml")).expect("it goes");
    engine.reload().await;
    expect_request(&mut peer, "DELETE /subscriptions/b").await.answer(204, "").await;
    nothing_left(&engine).await;
    stop(engine).await;
}

#[tokio::test]
async fn the_address_of_an_event_answers_the_challenge_of_its_service() {
    let mut peer = Peer::new().await;
    let project = desk(&peer);
    let engine = project.start().await;
    let asked = expect_request(&mut peer, "POST /subscriptions").await;
    let (live, _) = tokens(&engine);
    let mut question = post("");
    question.raw_query = "validationToken=Validation%3A+Testing".to_owned();
    let answer = soon(engine.ingress().receive(&live, question)).await;
    assert_eq!(text(&answer), "200 Validation: Testing");
    asked.answer(201, r#"{"id": "a"}"#).await;
    // A request that is no question needs the secret.
    assert_eq!(soon(engine.ingress().receive(&live, post("{}"))).await.status, 401);
    stop(engine).await;
}

/// [`DESK`], whose subscriptions get no secret from here: this line tells where it comes from.
fn desk_verified_by(line: &str) -> String {
    DESK.replace("      secret: secret\n", &format!("      {line}\n"))
        .replace("  secret: {type: text}\n", "")
        .replace(", secret: body secret", "")
        .replace(", secret: s", "")
}

#[tokio::test]
async fn a_secret_of_the_connection_verifies_the_sender() {
    let mut peer = Peer::new().await;
    let project = desk(&peer);
    project.write("connectors/desk.yaml", &desk_verified_by("verifySecret: key"));
    let engine = project.start().await;
    let asked = expect_request(&mut peer, "POST /subscriptions").await;
    assert!(!String::from_utf8_lossy(&asked.body).contains("secret"), "{:?}", asked.body);
    asked.answer(201, r#"{"id": "a"}"#).await;
    let (live, _) = tokens(&engine);
    for (secret, status) in [("other", 401), ("k", 200)] {
        let mut request = post("{}");
        request.headers.push(("x-gitlab-token".to_owned(), secret.as_bytes().to_vec()));
        assert_eq!(soon(engine.ingress().receive(&live, request)).await.status, status, "{secret}");
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_secret_that_the_application_gives_is_kept_encrypted_and_verifies_the_sender() {
    let mut peer = Peer::new().await;
    let project = desk(&peer);
    let own = desk_verified_by("secretFrom: hook.secret").replace("      challenge: microsoftGraph\n", "");
    project.write("connectors/desk.yaml", &own);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let status = async |engine: &Engine, secret: &str| {
        let mut request = post("{}");
        request.headers.push(("x-gitlab-token".to_owned(), secret.as_bytes().to_vec()));
        soon(engine.ingress().receive(&live, request)).await.status
    };
    let asked = expect_request(&mut peer, "POST /subscriptions").await;
    let secret = tests::canary::secret("hook");
    assert_eq!(status(&engine, &secret).await, 503, "the secret is not known yet");
    asked.answer(201, &format!(r#"{{"id": "a", "hook": {{"secret": "{secret}"}}}}"#)).await;
    let made = queue_status(&engine, |one| !one.remote.is_null()).await;
    assert_eq!((made.remote, made.error), (Value::from("a"), None));
    assert_eq!((status(&engine, "other").await, status(&engine, &secret).await), (401, 200));
    stop(engine).await;
    let engine = project.start().await;
    assert_eq!((status(&engine, "other").await, status(&engine, &secret).await), (401, 200));
    std::fs::remove_file(project.path("automations/test.yaml")).expect("it is removed");
    engine.reload().await;
    expect_request(&mut peer, "DELETE /subscriptions/a").await.answer(204, "").await;
    nothing_left(&engine).await;
    let sealed = engine.store().list_state("vault", None, 10).await.expect("it is read");
    assert!(sealed.is_empty(), "the secret is deleted with its subscription");
    stop(engine).await;
}

#[tokio::test]
async fn a_subscription_whose_answer_has_no_secret_is_taken_back() {
    let mut peer = Peer::new().await;
    let project = desk(&peer);
    project.write("connectors/desk.yaml", &desk_verified_by("secretFrom: hook.secret"));
    let engine = project.start().await;
    expect_request(&mut peer, "POST /subscriptions").await.answer(201, r#"{"id": "a"}"#).await;
    expect_request(&mut peer, "DELETE /subscriptions/a").await.answer(204, "").await;
    let failed = queue_status(&engine, |one| one.error.is_some()).await;
    assert_eq!(failed.error.as_deref(), Some("`desk.subscribe`: it returned no secret at `hook.secret`"));
    stop(engine).await;
}
