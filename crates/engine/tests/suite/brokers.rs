//! Messages of a broker start each trigger once: over crashes, lost acknowledgements, a server that ends or stands still, and a full queue.
//! The broker is a real NATS server.
#![cfg(feature = "nats")]

use std::time::Duration;

use engine::Engine;
use ingress::SourceState;
use model::{AutomationId, Event, Payload};
use pretty_assertions::assert_eq;
use serde_json::json;
use servers::Proxy;
use servers::nats::{Client, Server};
use store::{ExecutionFilter, ExecutionRow, Page, StateWrite};

use crate::common::{Peer, Project, call, crash, rows, soon, stop, until, until_async};
use crate::crashes::at_each_commit;
use crate::engine_events::event_handler;

/// The time after which the server brings a message again in tests.
const ACK_WAIT: Duration = Duration::from_millis(500);
/// The time of the server between two looks at it.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// The time of a project that passes meanwhile. An execution may take 15 minutes: if they passed between a request and its answer, it would
/// end before it has asked.
const PASSES: Duration = Duration::from_millis(50);

fn yaml(more: &str, steps: &str) -> String {
    format!(
        "trigger:\n  event: nats.message\n  connection: bus\n  with: {{stream: ORDERS, consumer: cogwork}}\n{more}steps:\n{steps}"
    )
}

/// The messages that come while the engine crashes.
const CRASHED: u32 = 4;

pub(crate) const NOTHING: &str = "  - set: {got: '${{ trigger.results.body.data }}'}\n";

/// Creates a project with a connection to `port`.
fn project_at(port: u16, yaml: &str) -> Project {
    let project = Project::with(yaml);
    let connection = format!("type: nats.server\nwith: {{host: 127.0.0.1, port: {port}, tls: none}}\n");
    project.write("connections/bus.yaml", &connection);
    project
}

/// Starts a server with a stream and a consumer that brings messages again soon; `None` if it is not installed.
fn server() -> Option<(Server, Client)> {
    let server = Server::start()?;
    let mut client = server.client();
    client.create_stream("ORDERS");
    create_consumer(&mut client);
    Some((server, client))
}

fn create_consumer(client: &mut Client) {
    let config = json!({
        "stream_name": "ORDERS",
        "config": {"durable_name": "cogwork", "ack_policy": "explicit", "ack_wait": ACK_WAIT.as_nanos() as u64}
    });
    client.request("$JS.API.CONSUMER.DURABLE.CREATE.ORDERS.cogwork", config.to_string().as_bytes());
}

fn publish(client: &mut Client, numbers: std::ops::Range<u32>) {
    for number in numbers {
        client.publish("orders.new", json!({ "number": number }).to_string().as_bytes());
    }
}

/// Waits until a condition holds, for at most [`PATIENCE`](crate::common::PATIENCE). The time of the projects passes meanwhile, ten times as
/// fast as that of the server.
pub(crate) async fn until_passing(projects: &[&Project], mut holds: impl FnMut() -> bool) {
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    soon(async {
        while !holds() {
            looks.tick().await;
            projects.iter().for_each(|project| project.clock.advance(PASSES));
        }
    })
    .await;
}

/// Waits until the server has no message that is not settled.
async fn settled(project: &Project, client: &mut Client) {
    until_passing(&[project], || client.unsettled("ORDERS", "cogwork") == 0).await;
}

/// Returns all executions.
async fn all_rows(engine: &Engine) -> Vec<ExecutionRow> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let page = Page { before, limit: 1000 };
        let rows = engine.store().executions(&ExecutionFilter::default(), page).await.expect("they are read");
        let Some(last) = rows.last() else { return all };
        before = Some(last.id);
        all.extend(rows);
    }
}

/// Returns the numbers of the messages that started an execution, sorted.
pub(crate) async fn numbers(engine: &Engine) -> Vec<i64> {
    let mut numbers = Vec::new();
    for row in all_rows(engine).await {
        let events = engine.store().events(row.id).await.expect("read").expect("it exists");
        let Some(Event::Started { payload, origin, .. }) = events.first() else { panic!("it has started") };
        let Payload::Poll { data, .. } = &**payload else { panic!("a message starts it") };
        assert_eq!(origin.as_str(), "event");
        let items = data.as_list().map_or_else(|| vec![data.clone()], |list| list.to_vec());
        let number = |item: &value::Value| item.path("body.number").and_then(|number| number.as_i64());
        numbers.extend(items.iter().map(|item| number(item).expect("a number")));
    }
    numbers.sort_unstable();
    numbers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_starts_one_execution() {
    let Some((server, mut client)) = server() else { return };
    let project = project_at(server.port, &yaml("", NOTHING));
    let engine = project.start().await;
    publish(&mut client, 0..50);
    settled(&project, &mut client).await;
    assert_eq!(numbers(&engine).await, (0..50).collect::<Vec<i64>>());
    let source = || engine.ingress().sources().pop().expect("a source");
    assert_eq!((source().accepted, source().repeated), (50, 0));
    until(|| source().state == SourceState::Running).await;
    stop(engine).await;
}

/// Starts an engine on a new stream, crashes at each commit in turn while messages come, and checks that each has started one execution.
async fn each_message_starts_once_after_a_crash(deliver: &str) {
    let Some(server) = Server::start() else { return };
    let more = format!("  deliver: {deliver}\n  batch: {{max: 2}}\n");
    at_each_commit(async |at| {
        let mut client = server.client();
        client.create_stream("ORDERS");
        create_consumer(&mut client);
        let project = project_at(server.port, &yaml(&more, NOTHING));
        let crashing = at.start(&project).await;
        crashing.arm();
        publish(&mut client, 0..CRASHED);
        until_passing(&[], || crashing.has_crashed() || client.unsettled("ORDERS", "cogwork") == 0).await;
        let has_crashed = crashing.has_crashed();
        crashing.end().await;
        let engine = project.start().await;
        settled(&project, &mut client).await;
        assert_eq!(numbers(&engine).await, (0..i64::from(CRASHED)).collect::<Vec<_>>(), "{at:?}");
        crash(engine).await;
        client.delete_stream("ORDERS");
        has_crashed
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_commit_starts_each_message_once() {
    each_message_starts_once_after_a_crash("each").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_commit_starts_each_message_of_a_batch_once() {
    each_message_starts_once_after_a_crash("batch").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_acknowledgement_starts_nothing_more() {
    let Some((server, mut client)) = server() else { return };
    let proxy = Proxy::start(server.port).expect("a proxy");
    let project = project_at(proxy.port, &yaml("", NOTHING));
    let engine = project.start().await;
    until(|| engine.ingress().sources().iter().any(|source| source.state == SourceState::Running)).await;
    proxy.swallow(Some(b"+ACK"));
    publish(&mut client, 0..20);
    until_passing(&[&project], || proxy.has_swallowed()).await;
    proxy.cut();
    proxy.swallow(None);
    settled(&project, &mut client).await;
    assert_eq!(numbers(&engine).await, (0..20).collect::<Vec<i64>>());
    let repeated: u64 = engine.ingress().sources().iter().map(|source| source.repeated).sum();
    assert!(repeated > 0, "some came again");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_or_stands_still_loses_and_repeats_nothing() {
    let Some((mut server, mut client)) = server() else { return };
    let project = project_at(server.port, &yaml("", NOTHING));
    let engine = project.start().await;
    publish(&mut client, 0..20);
    server.kill();
    let is_failing = || engine.ingress().sources().iter().any(|source| source.state == SourceState::Failing);
    until_passing(&[&project], is_failing).await;
    server.start_again().expect("it starts");
    let mut client = server.client();
    publish(&mut client, 20..40);
    server.freeze(true).expect("it stands still");
    project.clock.advance(Duration::from_secs(60));
    // Its answers come later than a message comes again.
    drop(tokio::time::timeout(ACK_WAIT * 2, std::future::pending::<()>()).await);
    server.freeze(false).expect("it goes on");
    settled(&project, &mut client).await;
    assert_eq!(numbers(&engine).await, (0..40).collect::<Vec<i64>>());
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_fails_until_a_try_succeeds() {
    let Some((mut server, _)) = server() else { return };
    let project = project_at(server.port, &yaml("", NOTHING));
    let engine = project.start().await;
    let source = || engine.ingress().sources().pop().expect("a source");
    until(|| source().state == SourceState::Running).await;
    server.kill();
    until_passing(&[&project], || source().state == SourceState::Failing).await;
    let is_tried_again = || {
        let source = source();
        assert!(source.state == SourceState::Failing && source.error.is_some(), "{source:?}");
        source.failures >= 4
    };
    until_passing(&[&project], is_tried_again).await;
    server.start_again().expect("it starts");
    until_passing(&[&project], || source().state == SourceState::Running).await;
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_asks_for_no_message_and_refuses_none() {
    let Some((server, mut client)) = server() else { return };
    let mut peer = Peer::new().await;
    let mut project = project_at(server.port, &yaml("", &call("a", &peer.base, "/a")));
    project.settings.limits.queue = 3;
    project.settings.limits.in_flight = 1;
    let engine = project.start().await;
    publish(&mut client, 0..10);
    until(|| engine.ingress().sources().iter().any(|source| source.state == SourceState::Waiting)).await;
    let accepted = rows(&engine).await.len();
    assert!(accepted <= 4, "{accepted} are accepted, and 4 have room");
    assert!(client.unsettled("ORDERS", "cogwork") >= 6);
    for _ in 0..10 {
        let mut asked = None;
        until_passing(&[&project], || {
            asked = peer.pending_request();
            asked.is_some()
        })
        .await;
        asked.expect("a request").answer(200, "1").await;
    }
    settled(&project, &mut client).await;
    assert_eq!(numbers(&engine).await, (0..10).collect::<Vec<i64>>());
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_starts_nothing_goes_to_the_list_and_others_go_on() {
    let Some((server, mut client)) = server() else { return };
    client.create_stream("DEAD");
    let more = "  poison: {after: 3, to: dead.orders}\n";
    let project = project_at(server.port, &yaml(more, NOTHING));
    project
        .write("automations/handler.yaml", &event_handler("cogwork.failure", ", with: {kinds: [message]}"));
    let engine = project.start().await;
    client.publish("orders.new", b"no JSON");
    publish(&mut client, 1..4);
    settled(&project, &mut client).await;
    let id = AutomationId::parse("test").expect("an id");
    let kept = engine.ingress().messages_of(&id).await.expect("the list");
    assert_eq!(kept.len(), 1);
    assert!(kept[0].error.contains("`parse: json`") && !kept[0].cut, "{:?}", kept[0]);
    assert_eq!(client.count("DEAD"), 1);
    let handler = AutomationId::parse("handler").expect("an id");
    until_async(async || rows(&engine).await.iter().any(|row| row.automation == handler)).await;

    // It starts nothing until the file takes it.
    let error = engine.ingress().retry_message(&id, &kept[0].id).await.expect_err("it is still no JSON");
    assert!(error.to_string().starts_with("the message still starts nothing: "), "{error}");
    let text = yaml(more, NOTHING).replace("consumer: cogwork", "consumer: cogwork, parse: text");
    project.write("automations/test.yaml", &text);
    engine.reload().await;
    engine.ingress().retry_message(&id, &kept[0].id).await.expect("it starts");
    assert_eq!(engine.ingress().messages_of(&id).await.expect("the list"), []);
    until_async(async || rows(&engine).await.iter().filter(|row| row.automation == id).count() == 4).await;
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disabled_or_removed_trigger_takes_no_message_and_goes_on_where_it_was() {
    let Some((server, mut client)) = server() else { return };
    let project = project_at(server.port, &yaml("", NOTHING));
    let engine = project.start().await;
    publish(&mut client, 0..5);
    settled(&project, &mut client).await;
    std::fs::remove_file(project.path("automations/test.yaml")).expect("it is removed");
    engine.reload().await;
    until(|| engine.ingress().sources().is_empty()).await;
    publish(&mut client, 5..10);
    assert_eq!(client.unsettled("ORDERS", "cogwork"), 5);
    project.write("automations/test.yaml", &yaml("", NOTHING));
    engine.reload().await;
    settled(&project, &mut client).await;
    assert_eq!(numbers(&engine).await, (0..10).collect::<Vec<i64>>());
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_that_is_false_settles_a_message_without_an_execution() {
    let Some((server, mut client)) = server() else { return };
    let more = "  if: trigger.results.body.data.body.number > 2\n";
    let project = project_at(server.port, &yaml(more, NOTHING));
    let engine = project.start().await;
    publish(&mut client, 0..5);
    settled(&project, &mut client).await;
    assert_eq!(numbers(&engine).await, [3, 4]);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_after_a_reload_is_taken_by_the_new_definition() {
    let Some((server, mut client)) = server() else { return };
    let never = "  if: trigger.results.body.data.body.number > 100\n";
    let project = project_at(server.port, &yaml(never, NOTHING));
    let engine = project.start().await;
    publish(&mut client, 0..1);
    settled(&project, &mut client).await;
    project.write("automations/test.yaml", &yaml("", NOTHING));
    engine.reload().await;
    publish(&mut client, 7..8);
    until_async(async || !rows(&engine).await.is_empty()).await;
    assert_eq!(numbers(&engine).await, [7]);
    stop(engine).await;
}

/// Changes the trigger by each of these texts in turn and publishes a message at once, which starts an execution long before the server
/// would bring it again.
async fn a_message_waits_for_no_change(texts: [&str; 2]) {
    let Some(server) = Server::start() else { return };
    let mut client = server.client();
    client.create_stream("ORDERS");
    let project = project_at(server.port, &yaml("", NOTHING));
    let engine = project.start().await;
    until(|| engine.ingress().sources().iter().any(|source| source.state == SourceState::Running)).await;
    for (number, text) in (0..6).zip(texts.into_iter().cycle()) {
        project.write("automations/test.yaml", text);
        engine.reload().await;
        publish(&mut client, number..number + 1);
        until_async(async || rows(&engine).await.len() > number as usize).await;
    }
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_comes_with_a_change_of_its_reading_starts_at_once() {
    let with = |parse: &str| yaml("", NOTHING).replace("cogwork}", &format!("cogwork, parse: {parse}}}"));
    a_message_waits_for_no_change([&with("text"), &with("json")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_comes_with_a_change_of_its_source_starts_at_once() {
    a_message_waits_for_no_change([&yaml("  batch: {max: 7}\n", NOTHING), &yaml("", NOTHING)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_consumers_start_each_message_once() {
    let Some((server, mut client)) = server() else { return };
    let project = project_at(server.port, &yaml("  consumers: 4\n  batch: {max: 7}\n", NOTHING));
    let engine = project.start().await;
    publish(&mut client, 0..200);
    settled(&project, &mut client).await;
    assert_eq!(engine.ingress().sources().len(), 4);
    assert_eq!(numbers(&engine).await, (0..200).collect::<Vec<i64>>());
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_message_list_leaves_further_messages_at_the_broker() {
    let Some((server, mut client)) = server() else { return };
    let project = project_at(server.port, &yaml("  poison: {after: 1}\n", NOTHING));
    let engine = project.start().await;
    let entry = |number: usize| StateWrite {
        scope: "messages:test".to_owned(),
        key: number.to_string(),
        expected: None,
        value: Some(crate::common::json(&format!(
            r#"{{"id":"{number}","automation":"test","trigger":"main","message":"m","source":"ORDERS","size":1,"error":"e","at":"2026-03-02T08:00:00Z"}}"#
        ))),
        expires_at: None,
    };
    engine.store().write_state((0..1000).map(entry).collect()).await.expect("it is written");
    client.publish("orders.new", b"no JSON");
    publish(&mut client, 0..3);
    until_async(async || rows(&engine).await.len() == 3).await;
    until(|| client.unsettled("ORDERS", "cogwork") == 1).await;
    let id = AutomationId::parse("test").expect("an id");
    assert_eq!(engine.ingress().messages_of(&id).await.expect("the list").len(), 1000);
    engine.ingress().drop_message(&id, "7").await.expect("it is dropped");
    // The server brings it again after a minute; a new consumer of the same name gets it at once.
    create_again(&mut client);
    settled(&project, &mut client).await;
    let kept = engine.ingress().messages_of(&id).await.expect("the list");
    assert_eq!((kept.len(), kept[0].error.contains("`parse: json`")), (1000, true));
    assert_eq!(numbers(&engine).await, [0, 1, 2], "the others are known");
    stop(engine).await;
}

fn create_again(client: &mut Client) {
    client.request("$JS.API.CONSUMER.DELETE.ORDERS.cogwork", b"");
    create_consumer(client);
}

/// The messages that three daemons share.
const MANY: u32 = 2_000;

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_daemons_start_each_message_once_although_one_of_them_ends() {
    use crate::shared_shards::{daemon, shared};
    use store::conformance::PostgresServer;

    let Some((server, mut client)) = server() else { return };
    let database = PostgresServer::start();
    let space = database.space();
    let text = yaml("  consumers: 6\n  batch: {max: 20}\n", NOTHING);
    let mut daemons = Vec::new();
    for _ in 0..3 {
        daemons.push(daemon(&space, &text).await);
    }
    shared(&daemons).await;
    for (project, engine) in &daemons {
        let connection =
            format!("type: nats.server\nwith: {{host: 127.0.0.1, port: {}, tls: none}}\n", server.port);
        project.write("connections/bus.yaml", &connection);
        engine.reload().await;
    }
    publish(&mut client, 0..MANY);
    let (_, gone) = daemons.remove(0);
    until_async(async || !rows(&gone).await.is_empty()).await;
    crash(gone).await;
    let projects: Vec<&Project> = daemons.iter().map(|(project, _)| project).collect();
    until_passing(&projects, || client.unsettled("ORDERS", "cogwork") == 0).await;
    assert_eq!(numbers(&daemons[0].1).await, (0..i64::from(MANY)).collect::<Vec<i64>>());
    for (_, engine) in daemons {
        stop(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_cannot_be_published_keeps_no_other_message_open() {
    let Some((server, mut client)) = server() else { return };
    client.publish("orders.new", b"no JSON");
    publish(&mut client, 0..3);
    // No stream has the subject.
    let project = project_at(server.port, &yaml("  poison: {after: 1, to: nowhere.orders}\n", NOTHING));
    let engine = project.start().await;
    until(|| engine.ingress().sources().iter().any(|source| source.state == SourceState::Failing)).await;
    let source = engine.ingress().sources().pop().expect("a source");
    let error = source.error.expect("an error");
    assert!(error.starts_with("a message could not be copied to `nowhere.orders`: "), "{error}");
    assert_eq!((source.accepted, source.repeated, source.poisoned), (3, 0, 0));
    assert_eq!(client.unsettled("ORDERS", "cogwork"), 1, "the others are settled");
    assert_eq!(numbers(&engine).await, [0, 1, 2]);
    // The time of the project stands still: the consumer takes messages without a pause.
    publish(&mut client, 3..5);
    until_async(async || numbers(&engine).await.len() == 5).await;
    let source = engine.ingress().sources().pop().expect("a source");
    assert_eq!((source.state, source.failures), (SourceState::Failing, 1));
    client.create_stream("NOWHERE");
    // The server brings it again after a minute; a new consumer of the same name gets it at once.
    create_again(&mut client);
    settled(&project, &mut client).await;
    assert_eq!(client.count("NOWHERE"), 1);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_message_at_fault_of_a_batch_starts_nothing() {
    let Some((server, mut client)) = server() else { return };
    publish(&mut client, 0..3);
    client.publish("orders.new", br#"{"number": "seven"}"#);
    publish(&mut client, 3..5);
    let more = "  deliver: batch\n  batch: {max: 10}\n  poison: {after: 1}\n  if: (trigger.results.body.data | map(attribute='body.number') | sum) >= 0\n";
    let project = project_at(server.port, &yaml(more, NOTHING));
    let engine = project.start().await;
    settled(&project, &mut client).await;
    assert_eq!(numbers(&engine).await, [0, 1, 2, 3, 4]);
    let id = AutomationId::parse("test").expect("an id");
    assert_eq!(engine.ingress().messages_of(&id).await.expect("the list").len(), 1);
    stop(engine).await;
}
