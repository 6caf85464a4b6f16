//! Requests to a daemon that does not own the shard of their Automation.
#![cfg(unix)]

use std::time::Duration;

use engine::{Engine, stores::Location};
use model::AutomationId;
use store::conformance::{PostgresServer, PostgresSpace};
use store::{Options, OutboxRow};

use crate::common::{Peer, Project, call, rows, soon, stop, until, until_async};
use crate::hooks::{post, text, tokens};
use crate::listening::connector_of_bots;

pub(crate) async fn daemon(space: &PostgresSpace, yaml: &str) -> (Project, Engine) {
    let project = Project::with(yaml);
    let engine = start_on_server(&project, space).await;
    (project, engine)
}

/// Starts a daemon on a store that it shares with others.
pub(crate) async fn start_on_server(project: &Project, space: &PostgresSpace) -> Engine {
    let options = Options { local: Some(project.settings.data_dir.clone()), ..Options::default() };
    let location = Location::parse(&space.url(), std::path::Path::new("")).expect("an address");
    project.start_on(engine::stores::open(&location, options).expect("it opens")).await
}

/// Waits until each of two daemons owns some of the shards.
pub(crate) async fn shared(daemons: &[(Project, Engine)]) {
    soon(async {
        let counts = || daemons.iter().map(|(_, engine)| engine.peers().shards.count());
        while counts().any(|count| count == 0) || counts().sum::<usize>() != usize::from(store::Shard::COUNT)
        {
            for (project, _) in daemons {
                project.clock.advance(Duration::from_millis(10));
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronous_caller_gets_429_at_any_daemon_if_the_shard_owner_has_no_memory() {
    let server = PostgresServer::start();
    let space = server.space();
    let mut peer = Peer::new().await;
    let yaml = format!(
        "trigger: {{webhook: {{mode: sync, verify: none, maxBody: 16MiB, timeout: 1m}}}}\nconcurrency: {{limit: 9}}\nsteps:\n{}",
        call("a", &peer.base, "/a")
    );
    let mut daemons = vec![daemon(&space, &yaml).await, daemon(&space, &yaml).await];
    shared(&daemons).await;
    let id = AutomationId::parse("test").expect("an id");
    daemons.sort_by_key(|(_, engine)| !engine.peers().shards.has(&id));
    let [(project, owner), (_other, other)] = daemons.as_slice() else { return };
    let (live, _) = tokens(owner);
    assert_eq!(tokens(other).0, live);
    let receive = |engine: &Engine| {
        let (engine, live) = (engine.clone(), live.clone());
        let large = format!(r#"{{"text": "{}"}}"#, "x".repeat(10 << 20));
        tokio::spawn(async move { engine.ingress().receive(&live, post(&large)).await })
    };
    let first = receive(owner);
    let held = peer.next_request().await;
    let due = owner.clock().now() + Duration::from_secs(10);
    let second = receive(other);
    soon(project.clock.somebody_sleeps_until(due)).await;
    assert!(!second.is_finished());
    project.clock.advance(Duration::from_secs(10));
    let refused = soon(second).await.expect("it answers");
    assert!(
        text(&refused).starts_with("429 ") && text(&refused).contains("rate_limited"),
        "{}",
        text(&refused)
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(rows(owner).await.len(), 1, "nothing is accepted");
    held.answer(200, "1").await;
    assert_eq!(soon(first).await.expect("it answers").status, 200);
    for (_, engine) in daemons {
        stop(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_delivered_at_once_by_the_daemon_that_has_the_shard_of_its_name() {
    let server = PostgresServer::start();
    let space = server.space();
    let trigger = |number: usize| format!("  - {{id: t{number}, event: told.e{number}}}\n");
    let triggers: String = (0..8).map(trigger).collect();
    let yaml = format!("triggers:\n{triggers}steps:\n  - set: {{a: 1}}\n");
    let daemons = [daemon(&space, &yaml).await, daemon(&space, &yaml).await];
    shared(&daemons).await;
    let [(_, sender), (_, other)] = &daemons;
    let name = |number: usize| format!("told.e{number}");
    let has = |engine: &Engine, number| engine.peers().shards.has_shard(OutboxRow::shard_of(&name(number)));
    let elsewhere = (0..8).filter(|number| has(other, *number)).count();
    assert!((1..8).contains(&elsewhere), "{elsewhere} of 8 names are of the other daemon");
    for number in 0..8 {
        let sent = soon(sender.admission().emit(&name(number), value::Value::Null, None)).await;
        assert_eq!(sent.expect("it is sent").starts, [format!("test/t{number}")]);
    }
    // The clocks stand still: nothing is found by a regular look.
    until_async(async || rows(sender).await.len() == 8).await;
    let mut started: Vec<String> = rows(other).await.iter().map(|row| row.trigger.to_string()).collect();
    started.sort();
    assert_eq!(started, (0..8).map(|number| format!("t{number}")).collect::<Vec<_>>());
    for (_, engine) in daemons {
        stop(engine).await;
    }
}

/// Two automations at different daemons have the one webhook of a bot in turn. When the later one is removed, its daemon gives the
/// webhook back to the earlier one, whose daemon hears of nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_webhook_of_a_bot_goes_back_to_the_automation_of_another_daemon() {
    const FILE: &str = "trigger: {event: bots.update, connection: bot}\nsteps: []\n";
    let server = PostgresServer::start();
    let space = server.space();
    let mut peer = Peer::new().await;
    let project = || {
        let mut project = Project::with(FILE);
        project.settings.public_url = Some("https://hooks.example.com".to_owned());
        std::fs::create_dir(project.path("connectors")).expect("a folder");
        project.write("connectors/bots.yaml", &connector_of_bots(&peer));
        project.write("connections/bot.yaml", "type: bots.bot\nwith: {token: t}\n");
        project
    };
    let (first, second) = (project(), project());
    let daemons = [start_on_server(&first, &space).await, start_on_server(&second, &space).await];
    let (live, _) = tokens(&daemons[0]);
    let mut expect = async |line: &str, token: Option<&str>| {
        let asked = peer.next_request().await;
        assert_eq!(asked.line, format!("POST /bott/{line}"));
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        assert!(token.is_none_or(|token| body.contains(&format!("/trigger/{token}"))), "{body}");
        asked.answer(200, r#"{"ok": true, "result": true}"#).await;
    };
    expect("setWebhook", Some(&live)).await;
    let daemons: Vec<(Project, Engine)> = [first, second].into_iter().zip(daemons).collect();
    shared(&daemons).await;
    let has =
        |engine: &Engine, name: &str| engine.peers().shards.has(&AutomationId::parse(name).expect("an id"));
    let names: Vec<String> = (0..64).map(|number| format!("later{number}")).collect();
    let owner = daemons.iter().position(|(_, engine)| has(engine, "test")).expect("an owner");
    let later = names.iter().find(|name| has(&daemons[1 - owner].1, name)).expect("another daemon has one");
    let other = &daemons[1 - owner].1;
    for (project, engine) in &daemons {
        project.write(&format!("automations/{later}.yaml"), FILE);
        engine.reload().await;
    }
    expect("setWebhook", None).await;
    until(|| {
        let all = other.ingress().subscriptions();
        all.iter().any(|one| one.trigger.automation.as_str() == later && !one.remote.is_null())
    })
    .await;
    for (project, engine) in &daemons {
        std::fs::remove_file(project.path(&format!("automations/{later}.yaml"))).expect("it is removed");
        engine.reload().await;
    }
    expect("setWebhook", Some(&live)).await;
    until(|| other.ingress().subscriptions().iter().all(|one| one.trigger.automation.as_str() != later))
        .await;
    for (_, engine) in daemons {
        stop(engine).await;
    }
}
