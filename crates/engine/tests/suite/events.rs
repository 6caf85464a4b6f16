//! Events that other applications tell of: subscribed to as long as they are wanted, and no longer.

use std::time::Duration;

use engine::Engine;
use model::Value;
use store::Subscription;

use crate::common::{Asked, Peer, Project, settled, soon, stop};

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
async fn standing(engine: &Engine, is: impl Fn(&Subscription) -> bool) -> Subscription {
    soon(async {
        loop {
            if let [one] = engine.subscriptions().as_slice()
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
        while !engine.subscriptions().is_empty() {
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

#[tokio::test]
async fn a_subscription_that_fails_says_why_and_is_tried_again() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    let first = asked(&mut peer, "POST /repos/acme/shop/hooks").await;
    assert_eq!(first.header("x-github-api-version"), Some("2022-11-28"));
    first.answer(422, r#"{"message": "Validation Failed"}"#).await;
    let failed = standing(&engine, |one| one.failures == 1).await;
    assert!(failed.error.as_ref().is_some_and(|error| error.contains("Validation Failed")), "{failed:?}");
    settled(&project, "2026-03-02T08:00:10Z").await;
    project.clock.advance(Duration::from_secs(10));
    asked(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
    let made = standing(&engine, |one| !one.remote.is_null()).await;
    assert_eq!((made.remote, made.failures, made.error, made.next_at), (Value::from(7), 0, None, None));
    stop(engine).await;
}

#[tokio::test]
async fn a_subscription_outlives_restarts_and_follows_changes_of_what_is_asked() {
    let mut peer = Peer::new().await;
    let project = project(&peer);
    let engine = project.start().await;
    asked(&mut peer, "POST /repos/acme/shop/hooks").await.answer(201, r#"{"id": 7}"#).await;
    standing(&engine, |one| !one.remote.is_null()).await;
    stop(engine).await;
    let engine = project.start().await;
    standing(&engine, |one| !one.remote.is_null()).await;
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
    standing(&engine, |one| one.remote == Value::from(8)).await;
    stop(engine).await;
    // Gone while nothing ran, and gone there too.
    std::fs::remove_file(project.path("automations/test.yaml")).expect("it goes");
    let engine = project.start().await;
    asked(&mut peer, "DELETE /repos/acme/store/hooks/8")
        .await
        .answer(404, r#"{"message": "Not Found"}"#)
        .await;
    nothing_left(&engine).await;
    stop(engine).await;
}
