//! Executions and subscriptions whose writes the store refuses.

use std::time::Duration;

use model::AutomationId;
use store::Subscription;
use value::Value;

use crate::common::{Peer, Project, call, end, manual, settled, start_with, stop, until, until_async};
use crate::watched::Watched;

#[tokio::test]
async fn an_execution_has_no_effect_until_its_refused_writes_succeed() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&call("a", &peer.base, "/a")));
    let (engine, store) = project.start_watched().await;
    *store.refused_appends.lock().expect("no panic") = Some("permission denied".to_owned());
    let id = start_with(&engine, "{}").await;
    until_async(async || engine.admission().queue_status(id).await.expect("it is known").for_store).await;
    assert!(peer.pending_request().is_none(), "its result could not be stored");
    *store.refused_appends.lock().expect("no panic") = None;
    settled(&project, "2026-03-02T08:00:00.25Z").await;
    project.clock.advance(Duration::from_millis(250));
    peer.next_request().await.answer(200, "1").await;
    assert!(!end(&engine, id).await.starts_with("failed"));
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

fn id(text: &str) -> AutomationId {
    AutomationId::parse(text).expect("an id")
}

#[tokio::test]
async fn a_subscription_refused_by_the_store_is_retried_with_backoff_and_blocks_no_other() {
    // The store refuses the subscription itself, the record of the request, or its result.
    for taken in 0..=2 {
        let mut peer = Peer::new().await;
        let mut project = Project::new();
        for (name, repo) in [("test", "shop"), ("zebra", "zoo")] {
            let trigger = format!("event: github.push, connection: hub, with: {{owner: acme, repo: {repo}}}");
            project
                .write(&format!("automations/{name}.yaml"), &format!("trigger: {{{trigger}}}\nsteps: []\n"));
        }
        project.settings.public_url = Some("https://hooks.example.com".to_owned());
        let connection = format!("type: github.token\nwith: {{host: \"{}\", token: t}}\n", peer.base);
        project.write("connections/hub.yaml", &connection);
        let store = Watched::new(project.open_store());
        *store.refused_subscription.lock().expect("no panic") = Some((id("test"), taken));
        let engine = project.start_on(store.store()).await;
        let until_subscribed = async |automation: &str, is: fn(&Subscription) -> bool| {
            until(|| {
                engine
                    .ingress()
                    .subscriptions()
                    .iter()
                    .any(|one| one.trigger.automation == id(automation) && is(one))
            })
            .await;
        };
        let is_made = taken == 2;
        for _ in 0..=usize::from(is_made) {
            let asked = peer.next_request().await;
            let (repo, remote) = if asked.line.contains("/shop/") { ("shop", 7) } else { ("zoo", 8) };
            assert_eq!(asked.line, format!("POST /repos/acme/{repo}/hooks"));
            asked.answer(201, &format!("{{\"id\": {remote}}}")).await;
        }
        until_subscribed("zebra", |one| one.remote == Value::from(8)).await;
        until_subscribed("test", |one| {
            one.error.as_ref().is_some_and(|error| error.contains("the store refuses"))
        })
        .await;
        settled(&project, "2026-03-02T08:00:01Z").await;
        project.clock.advance(Duration::from_secs(1));
        settled(&project, "2026-03-02T08:00:03Z").await;
        assert!(peer.pending_request().is_none(), "{taken}: no unrecorded request is sent");
        *store.refused_subscription.lock().expect("no panic") = None;
        project.clock.advance(Duration::from_secs(2));
        if taken == 1 {
            // The request counts as sent.
            let listed = peer.next_request().await;
            assert_eq!(listed.line, "GET /repos/acme/shop/hooks?per_page=100");
            listed.answer(200, "[]").await;
        }
        if !is_made {
            let asked = peer.next_request().await;
            assert_eq!(asked.line, "POST /repos/acme/shop/hooks");
            asked.answer(201, "{\"id\": 7}").await;
        }
        until_subscribed("test", |one| {
            one.remote == Value::from(7) && one.error.is_none() && one.next_at.is_none()
        })
        .await;
        let stored = engine.store().subscriptions().await.expect("they are read");
        assert_eq!(stored.iter().filter(|one| !one.remote.is_null()).count(), 2, "{taken}: {stored:?}");
        assert!(peer.pending_request().is_none(), "{taken}: it is made once");
        stop(engine).await;
    }
}
