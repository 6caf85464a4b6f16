//! Events that other applications tell of: subscribed to as long as they are wanted, and no longer.

use std::time::Duration;

use engine::Engine;
use jiff::SignedDuration;
use model::AutomationId;
use runtime::Clock as _;
use store::Subscription;
use value::Value;

use crate::common::{Asked, Peer, Project, settled, soon, stop};
use crate::hooks::{post, tokens};

/// How it is looked whether there is one of which nobody here knows.
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

/// Waits until the only subscription is as it should be.
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
    soon(async {
        while !engine.ingress().subscriptions().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The next request, which must be this one.
async fn asked(peer: &mut Peer, line: &str) -> Asked {
    let asked = peer.asked().await;
    assert_eq!(asked.line, line);
    asked
}

/// A project with a subscription that the other application has refused once. The next attempt is due in 10 seconds.
async fn failed_subscription() -> (Peer, Project, Engine) {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    asked(&mut peer, "POST /repos/acme/shop/hooks").await.answer(422, "{}").await;
    queue_status(&engine, |one| one.failures == 1).await;
    settled(&project, "2026-03-02T08:00:10Z").await;
    (peer, project, engine)
}

#[tokio::test]
async fn a_subscription_that_fails_says_why_and_is_tried_again() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    let first = asked(&mut peer, "POST /repos/acme/shop/hooks").await;
    assert_eq!(first.header("x-github-api-version"), Some("2022-11-28"));
    first.answer(422, r#"{"message": "Validation Failed"}"#).await;
    let failed = queue_status(&engine, |one| one.failures == 1).await;
    assert!(failed.error.as_ref().is_some_and(|error| error.contains("Validation Failed")), "{failed:?}");
    settled(&project, "2026-03-02T08:00:10Z").await;
    project.clock.advance(Duration::from_secs(10));
    asked(&mut peer, LIST).await.answer(200, "[]").await;
    asked(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
    let made = queue_status(&engine, |one| !one.remote.is_null()).await;
    assert_eq!((made.remote, made.failures, made.error, made.next_at), (Value::from(7), 0, None, None));
    stop(engine).await;
}

#[tokio::test]
async fn an_attempt_that_a_person_asks_for_does_not_wait_for_its_time() {
    let (mut peer, _project, engine) = failed_subscription().await;
    let id = AutomationId::parse("test").expect("an id");
    // The clock stands still.
    for (status, failures) in [(422, 2), (201, 0)] {
        let (trying, id) = (engine.clone(), id.clone());
        let attempt = tokio::spawn(async move { trying.ingress().try_subscriptions(&id).await });
        asked(&mut peer, LIST).await.answer(200, "[]").await;
        asked(&mut peer, "POST /repos/acme/shop/hooks").await.answer(status, r#"{"id": 7}"#).await;
        let found = soon(attempt).await.expect("it ends").expect("there is one");
        assert_eq!(found.iter().map(|one| one.failures).collect::<Vec<_>>(), [failures]);
        assert_eq!(found[0].error.is_some(), failures > 0);
    }
    // Nothing is pending any more.
    let found = soon(engine.ingress().try_subscriptions(&id)).await.expect("there is one");
    assert_eq!(found[0].remote, Value::from(7));
    assert!(peer.asked_already().is_none());
    let other = AutomationId::parse("other").expect("an id");
    assert!(engine.ingress().try_subscriptions(&other).await.is_err());
    stop(engine).await;
}

#[tokio::test]
async fn a_subscription_that_cannot_be_taken_back_is_forgotten_on_demand_without_a_call() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    let id = AutomationId::parse("test").expect("an id");
    asked(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
    queue_status(&engine, |one| !one.remote.is_null()).await;
    assert!(engine.ingress().forget_subscriptions(&id).await.is_err(), "it is active");
    std::fs::remove_file(project.path("automations/test.yaml")).expect("it goes");
    engine.reload().await;
    asked(&mut peer, "DELETE /repos/acme/shop/hooks/7").await.answer(403, "{}").await;
    let leaving = queue_status(&engine, |one| one.failures == 1).await;
    assert!(leaving.removing && leaving.next_at.is_some(), "{leaving:?}");
    let left = engine.ingress().forget_subscriptions(&id).await.expect("it could not be taken back");
    assert_eq!(left.len(), 0);
    assert!(engine.ingress().subscriptions().is_empty() && peer.asked_already().is_none());
    assert!(engine.ingress().forget_subscriptions(&id).await.is_err());
    stop(engine).await;
    // Neither does the store know it.
    let engine = project.start().await;
    assert!(engine.ingress().subscriptions().is_empty());
    stop(engine).await;
}

#[tokio::test]
async fn a_subscription_is_tried_again_after_its_pause_whatever_the_clock_does() {
    for hours in [1, -1, 8760, -8760] {
        let (mut peer, project, engine) = failed_subscription().await;
        project.clock.step(SignedDuration::from_hours(hours));
        project.clock.advance(Duration::from_secs(9));
        let waits = queue_status(&engine, |one| one.failures == 1).await;
        let next = waits.next_at.expect("it is tried again");
        assert_eq!(next.duration_since(project.clock.now()).as_secs(), 1, "set by {hours} h");
        settled(&project, &next.to_string()).await;
        project.clock.advance(Duration::from_secs(1));
        asked(&mut peer, LIST).await.answer(200, "[]").await;
        asked(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
        queue_status(&engine, |one| !one.remote.is_null()).await;
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_subscription_outlives_restarts_and_follows_changes_of_what_is_asked() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    asked(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
    queue_status(&engine, |one| !one.remote.is_null()).await;
    stop(engine).await;
    let engine = project.start().await;
    queue_status(&engine, |one| !one.remote.is_null()).await;
    project.write("automations/test.yaml", &format!("description: changed\n{}", yaml("shop")));
    engine.reload().await;
    assert!(peer.asked_already().is_none());
    // Another repository: there it is made, here it is taken back.
    project.write("automations/test.yaml", &yaml("store"));
    engine.reload().await;
    for _ in 0..2 {
        let asked = peer.asked().await;
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
    asked(&mut peer, "DELETE /repos/acme/store/hooks/8")
        .await
        .answer(404, r#"{"message": "Not Found"}"#)
        .await;
    nothing_left(&engine).await;
    stop(engine).await;
}

/// The webhooks that the peer lists: one of another's, and one at the address that was asked for, which tells of this.
fn listed(engine: &Engine, event: &str) -> String {
    let url = &engine.ingress().subscriptions()[0].url;
    format!(
        r#"[{{"id": 1, "events": ["push"], "config": {{"url": "https://elsewhere.example.com/trigger/x"}}}},
            {{"id": 9, "events": ["{event}"], "config": {{"url": "{url}"}}}}]"#
    )
}

#[tokio::test]
async fn one_that_was_made_before_a_crash_is_found_again_and_taken_over() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    let unanswered = asked(&mut peer, "POST /repos/acme/shop/hooks").await;
    let before = queue_status(&engine, |one| one.requested).await;
    assert_eq!((before.remote, before.failures), (Value::Null, 0), "written down before it is asked for");
    stop(engine).await;
    drop(unanswered);
    let engine = project.start().await;
    let list = asked(&mut peer, LIST).await;
    list.answer(200, &listed(&engine, "push")).await;
    let found = queue_status(&engine, |one| !one.remote.is_null()).await;
    assert_eq!((found.remote, found.failures), (Value::from(9), 0));
    assert!(peer.asked_already().is_none(), "it is not asked for again");
    stop(engine).await;
}

#[tokio::test]
async fn one_that_was_made_before_a_crash_is_taken_back_where_it_is_wanted_no_more_or_is_another() {
    for is_wanted in [false, true] {
        let mut peer = Peer::new().await;
        let project = project(&peer);
        let engine = project.start().await;
        let unanswered = asked(&mut peer, "POST /repos/acme/shop/hooks").await;
        stop(engine).await;
        drop(unanswered);
        if !is_wanted {
            project.write("automations/test.yaml", &format!("enabled: false\n{}", yaml("shop")));
        }
        let engine = project.start().await;
        let list = asked(&mut peer, LIST).await;
        let event = if is_wanted { "issues" } else { "push" };
        list.answer(200, &listed(&engine, event)).await;
        asked(&mut peer, "DELETE /repos/acme/shop/hooks/9").await.answer(204, "").await;
        if is_wanted {
            asked(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 10}"#).await;
            queue_status(&engine, |one| one.remote == Value::from(10)).await;
        } else {
            nothing_left(&engine).await;
        }
        stop(engine).await;
    }
}

#[tokio::test]
async fn another_trigger_takes_the_subscription_back() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    asked(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
    queue_status(&engine, |one| !one.remote.is_null()).await;
    project.write("automations/test.yaml", "trigger: {webhook: {verify: none}}\nsteps: []\n");
    engine.reload().await;
    asked(&mut peer, "DELETE /repos/acme/shop/hooks/7").await.answer(204, "").await;
    nothing_left(&engine).await;
    stop(engine).await;
}

#[tokio::test]
async fn a_circle_ends_at_the_address_of_an_event_too_and_is_counted() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    asked(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
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
