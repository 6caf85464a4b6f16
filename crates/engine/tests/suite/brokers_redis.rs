//! Messages of Redis streams start each trigger once: over crashes, lost acknowledgements, a server that ends or loses the group, and
//! daemons that end. The broker is a real Redis server.
#![cfg(feature = "nats")]

use engine::Engine;
use ingress::SourceState;
use model::AutomationId;
use pretty_assertions::assert_eq;
use serde_json::json;
use servers::Proxy;
use servers::redis::{Client, Server};

use crate::brokers::{NOTHING, numbers, until_passing};
use crate::common::{Project, crash, rows, stop, until, until_async};
use crate::crashes::at_each_commit;
use crate::engine_events::event_handler;

const STREAM: &str = "orders";
const GROUP: &str = "shop";

fn yaml(more: &str) -> String {
    format!(
        "trigger:\n  event: redis.message\n  connection: bus\n  with: {{stream: {STREAM}, group: {GROUP}}}\n  start: all\n{more}steps:\n{NOTHING}"
    )
}

fn connection(port: u16) -> String {
    format!("type: redis.server\nwith: {{host: 127.0.0.1, port: {port}, tls: none}}\n")
}

fn project_at(port: u16, more: &str) -> Project {
    let project = Project::with(&yaml(more));
    project.write("connections/bus.yaml", &connection(port));
    project
}

fn add(client: &mut Client, numbers: std::ops::Range<u32>) {
    for number in numbers {
        client.add(STREAM, json!({ "number": number }).to_string().as_bytes());
    }
}

/// Waits until the source runs, and so has made its group.
async fn running(engine: &Engine) {
    until(|| engine.ingress().sources().iter().any(|source| source.state == SourceState::Running)).await;
}

/// Waits until each entry is acknowledged.
async fn settled(projects: &[&Project], client: &mut Client) {
    until_passing(projects, || client.unsettled(STREAM, GROUP) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_entry_starts_one_execution_with_several_consumers() {
    let Some(server) = Server::start() else { return };
    let mut client = server.client();
    let project = project_at(server.port, "  consumers: 4\n  batch: {max: 7}\n");
    let engine = project.start().await;
    running(&engine).await;
    add(&mut client, 0..200);
    settled(&[&project], &mut client).await;
    assert_eq!(numbers(&engine).await, (0..200).collect::<Vec<i64>>());
    let sources = engine.ingress().sources();
    let counts = |count: fn(&ingress::SourceView) -> u64| sources.iter().map(count).sum::<u64>();
    assert_eq!((sources.len(), counts(|view| view.accepted), counts(|view| view.repeated)), (4, 200, 0));
    stop(engine).await;
}

/// The entries that come while the engine crashes.
const CRASHED: u32 = 4;

async fn each_entry_starts_once_after_a_crash(deliver: &str) {
    let Some(server) = Server::start() else { return };
    at_each_commit(async |at| {
        let mut client = server.client();
        client.get(&["DEL", STREAM]);
        client.get(&["XGROUP", "CREATE", STREAM, GROUP, "0", "MKSTREAM"]);
        let project = project_at(server.port, &format!("  deliver: {deliver}\n  batch: {{max: 2}}\n"));
        let crashing = at.start(&project).await;
        crashing.arm();
        add(&mut client, 0..CRASHED);
        until_passing(&[], || crashing.has_crashed() || client.unsettled(STREAM, GROUP) == 0).await;
        let has_crashed = crashing.has_crashed();
        crashing.end().await;
        let engine = project.start().await;
        settled(&[&project], &mut client).await;
        assert_eq!(numbers(&engine).await, (0..i64::from(CRASHED)).collect::<Vec<_>>(), "{at:?}");
        crash(engine).await;
        has_crashed
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_commit_starts_each_entry_once() {
    each_entry_starts_once_after_a_crash("each").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_commit_starts_each_entry_of_a_batch_once() {
    each_entry_starts_once_after_a_crash("batch").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_acknowledgement_starts_nothing_more() {
    let Some(server) = Server::start() else { return };
    let mut client = server.client();
    let proxy = Proxy::start(server.port).expect("a proxy");
    let project = project_at(proxy.port, "");
    let engine = project.start().await;
    running(&engine).await;
    proxy.swallow(Some(b"XACK"));
    add(&mut client, 0..20);
    until_passing(&[&project], || proxy.has_swallowed()).await;
    proxy.cut();
    proxy.swallow(None);
    settled(&[&project], &mut client).await;
    assert_eq!(numbers(&engine).await, (0..20).collect::<Vec<i64>>());
    let repeated: u64 = engine.ingress().sources().iter().map(|source| source.repeated).sum();
    assert!(repeated > 0, "some came again");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_and_a_group_that_is_deleted_lose_and_repeat_nothing() {
    let Some(mut server) = Server::start() else { return };
    let project = project_at(server.port, "");
    let text = event_handler("cogwork.failure", ", with: {kinds: [source]}");
    project.write("automations/handler.yaml", &text);
    let engine = project.start().await;
    let id = |name: &str| AutomationId::parse(name).expect("an id");
    let count =
        async |name: &str| rows(&engine).await.iter().filter(|row| row.automation == id(name)).count();
    running(&engine).await;
    add(&mut server.client(), 0..20);
    server.kill();
    let is_failing = || engine.ingress().sources().iter().any(|source| source.state == SourceState::Failing);
    until_passing(&[&project], is_failing).await;
    server.start_again().expect("it starts");
    let mut client = server.client();
    settled(&[&project], &mut client).await;
    client.get(&["XGROUP", "DESTROY", STREAM, GROUP]);
    add(&mut client, 20..40);
    let error = || engine.ingress().sources().pop().and_then(|source| source.error).unwrap_or_default();
    let expected = "the group `shop` of the stream `orders` cannot be read";
    until_passing(&[&project], || error().contains(expected)).await;
    until_async(async || {
        project.clock.advance(std::time::Duration::from_millis(50));
        count("test").await >= 40
    })
    .await;
    settled(&[&project], &mut client).await;
    until_async(async || count("handler").await > 0).await;
    std::fs::remove_file(project.path("automations/handler.yaml")).expect("it is removed");
    assert_eq!(count("test").await, 40, "the ones that were accepted are known");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_starts_nothing_goes_to_the_list_and_to_another_stream() {
    let Some(server) = Server::start() else { return };
    let mut client = server.client();
    let project = project_at(server.port, "  poison: {after: 3, to: dead}\n");
    let engine = project.start().await;
    client.get(&["XADD", STREAM, "*", "tenant", "acme", "body", "no JSON"]);
    add(&mut client, 1..4);
    // The server counts in its own time, which is not that of the project.
    until_passing(&[&project], || client.ask(&["XLEN", "dead"]) == Ok(json!(1))).await;
    settled(&[&project], &mut client).await;
    let kept =
        engine.ingress().messages_of(&AutomationId::parse("test").expect("an id")).await.expect("the list");
    assert!(kept.len() == 1 && kept[0].error.contains("`parse: json`"), "{kept:?}");
    assert_eq!(numbers(&engine).await, [1, 2, 3]);
    let copy = client.get(&["XRANGE", "dead", "-", "+"]);
    assert_eq!(copy[0][1][3], json!("no JSON"));
    assert!(copy[0][1][5].as_str().is_some_and(|reason| reason.contains("`parse: json`")), "{copy}");
    stop(engine).await;
}

/// The entries that three daemons share.
const MANY: u32 = 2_000;

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_daemons_start_each_entry_once_although_one_of_them_ends() {
    use crate::shared_shards::{daemon, shared};
    use store::conformance::PostgresServer;

    let Some(server) = Server::start() else { return };
    let mut client = server.client();
    client.get(&["XGROUP", "CREATE", STREAM, GROUP, "0", "MKSTREAM"]);
    let database = PostgresServer::start();
    let space = database.space();
    let text = yaml("  consumers: 6\n  batch: {max: 20}\n");
    let mut daemons = Vec::new();
    for _ in 0..3 {
        daemons.push(daemon(&space, &text).await);
    }
    shared(&daemons).await;
    for (project, engine) in &daemons {
        project.write("connections/bus.yaml", &connection(server.port));
        engine.reload().await;
    }
    add(&mut client, 0..MANY);
    let (_, gone) = daemons.remove(0);
    until_async(async || !rows(&gone).await.is_empty()).await;
    crash(gone).await;
    let projects: Vec<&Project> = daemons.iter().map(|(project, _)| project).collect();
    settled(&projects, &mut client).await;
    assert_eq!(numbers(&daemons[0].1).await, (0..i64::from(MANY)).collect::<Vec<i64>>());
    for (_, engine) in daemons {
        stop(engine).await;
    }
}
