//! Messages of AMQP, whose identity is the sender's or none, start each trigger once over lost acknowledgements and a server that ends.
//! The broker is a real RabbitMQ server; it takes seconds to start, so each rule that changes nothing of it has a queue of its own.
#![cfg(feature = "nats")]

use std::pin::Pin;

use engine::Engine;
use ingress::SourceState;
use model::AutomationId;
use pretty_assertions::assert_eq;
use serde_json::json;
use servers::Proxy;
use servers::rabbitmq::{Client, PASSWORD, Server, USER};

use crate::brokers::{NOTHING, numbers, until_passing};
use crate::common::{Project, rows, stop, until, until_async};

type Rule = for<'a> fn(&'a mut Server, &'a str) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

fn project_at(port: u16, queue: &str, more: &str) -> Project {
    let yaml = format!(
        "trigger:\n  event: amqp.message\n  connection: bus\n  with: {{queue: {queue}}}\n{more}steps:\n{NOTHING}"
    );
    let project = Project::with(&yaml);
    let connection = format!(
        "type: amqp.server\nwith: {{host: 127.0.0.1, port: {port}, tls: none, user: {USER}, password: '${{{{ secrets.bus }}}}'}}\n"
    );
    project.write("connections/bus.yaml", &connection);
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    project.write("secrets/bus", PASSWORD);
    project
}

fn publish(client: &mut Client, queue: &str, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let body = json!({ "number": number }).to_string();
        client.publish(queue, body.as_bytes(), Some(&format!("m-{number}")));
    }
}

/// Waits until this number of executions is there.
async fn started(project: &Project, engine: &Engine, count: usize) {
    let all_started = until_async(async || {
        // A server that has just started refuses logins for some time, after each of which the consumer pauses longer.
        project.clock.advance(std::time::Duration::from_millis(250));
        rows(engine).await.len() >= count
    });
    all_started.await;
}

/// Ends an engine, and checks that it has left no message open.
async fn all_settled(engine: Engine, client: &mut Client, queue: &str) {
    stop(engine).await;
    assert_eq!(client.count(queue), 0, "each was acknowledged");
}

async fn running(engine: &Engine) {
    until(|| engine.ingress().sources().iter().any(|source| source.state == SourceState::Running)).await;
}

async fn each_message_starts_one_execution(server: &mut Server, queue: &str) {
    let mut client = server.client();
    let project = project_at(server.port, queue, "  consumers: 3\n  batch: {max: 7}\n");
    let engine = project.start().await;
    publish(&mut client, queue, 0..100);
    started(&project, &engine, 100).await;
    // The sender repeats itself.
    publish(&mut client, queue, 90..101);
    started(&project, &engine, 101).await;
    assert_eq!(numbers(&engine).await, (0..101).collect::<Vec<i64>>());
    all_settled(engine, &mut client, queue).await;
}

async fn a_lost_acknowledgement_starts_nothing_more(server: &mut Server, queue: &str) {
    let mut client = server.client();
    let proxy = Proxy::start(server.port).expect("a proxy");
    let project = project_at(proxy.port, queue, "");
    let engine = project.start().await;
    running(&engine).await;
    // `basic.ack`, with the question behind it.
    proxy.swallow(Some(b"\x00\x3c\x00\x50"));
    publish(&mut client, queue, 0..20);
    until_passing(&[&project], || proxy.has_swallowed()).await;
    proxy.cut();
    proxy.swallow(None);
    started(&project, &engine, 20).await;
    let repeated = || engine.ingress().sources().iter().map(|source| source.repeated).sum::<u64>();
    until_passing(&[&project], || repeated() > 0).await;
    assert_eq!(numbers(&engine).await, (0..20).collect::<Vec<i64>>());
    all_settled(engine, &mut client, queue).await;
}

async fn a_message_without_an_identity_starts_each_time_and_is_counted(server: &mut Server, queue: &str) {
    let mut client = server.client();
    let project = project_at(server.port, queue, "");
    let engine = project.start().await;
    for _ in 0..3 {
        client.publish(queue, br#"{"number": 7}"#, None);
    }
    started(&project, &engine, 3).await;
    assert_eq!(numbers(&engine).await, [7, 7, 7]);
    let counts = || engine.ingress().sources().pop().map(|source| (source.accepted, source.unidentified));
    // They are counted after their commit.
    until_passing(&[&project], || counts() == Some((3, 3))).await;
    all_settled(engine, &mut client, queue).await;
}

async fn dedup_by_identifies_messages_by_their_content(server: &mut Server, queue: &str) {
    for deliver in ["each", "batch"] {
        let mut client = server.client();
        let more =
            format!("  dedup: {{by: item.body.number}}\n  deliver: {deliver}\n  poison: {{after: 1}}\n");
        let project = project_at(server.port, queue, &more);
        // All of them wait when the first commit is made.
        for number in [1, 1, 2, 1, 2, 3] {
            client.publish(queue, json!({ "number": number }).to_string().as_bytes(), None);
        }
        client.publish(queue, b"{}", None);
        let engine = project.start().await;
        let settled = |engine: &Engine| {
            engine
                .ingress()
                .sources()
                .iter()
                .map(|source| source.accepted + source.repeated + source.poisoned)
                .sum::<u64>()
        };
        until_passing(&[&project], || settled(&engine) >= 7).await;
        assert_eq!(numbers(&engine).await, [1, 2, 3], "{deliver}");
        let kept = engine
            .ingress()
            .messages_of(&AutomationId::parse("test").expect("an id"))
            .await
            .expect("the list");
        assert!(kept.len() == 1 && kept[0].error.starts_with("`dedup.by`"), "{kept:?}");
        all_settled(engine, &mut client, queue).await;
    }
}

async fn a_message_that_starts_nothing_goes_to_the_list_and_to_another_queue(
    server: &mut Server,
    queue: &str,
) {
    let mut client = server.client();
    let dead = format!("{queue}.dead");
    client.create_queue(&dead);
    let project = project_at(server.port, queue, &format!("  poison: {{after: 3, to: {dead}}}\n"));
    let engine = project.start().await;
    client.publish(queue, b"no JSON", None);
    publish(&mut client, queue, 1..4);
    started(&project, &engine, 3).await;
    until_passing(&[&project], || engine.ingress().sources().iter().any(|source| source.poisoned == 1)).await;
    let id = AutomationId::parse("test").expect("an id");
    let kept = engine.ingress().messages_of(&id).await.expect("the list");
    assert!(kept.len() == 1 && kept[0].error.contains("`parse: json`"), "{kept:?}");
    all_settled(engine, &mut client, queue).await;
    let copy = client.get(&dead).expect("a copy");
    assert_eq!(copy.body, b"no JSON");
}

async fn a_server_that_ends_loses_and_repeats_nothing(server: &mut Server, queue: &str) {
    let mut client = server.client();
    let project = project_at(server.port, queue, "");
    let engine = project.start().await;
    running(&engine).await;
    publish(&mut client, queue, 0..20);
    server.kill();
    let is_failing = || engine.ingress().sources().iter().any(|source| source.state == SourceState::Failing);
    until_passing(&[&project], is_failing).await;
    server.start_again().expect("it starts");
    let mut client = server.client();
    publish(&mut client, queue, 20..40);
    started(&project, &engine, 40).await;
    assert_eq!(numbers(&engine).await, (0..40).collect::<Vec<i64>>());
    all_settled(engine, &mut client, queue).await;
}

/// Rules by the names of their functions, which are the names of their queues.
macro_rules! rules {
    ($($rule:ident),* $(,)?) => {
        [$((stringify!($rule), (|server, queue| Box::pin($rule(server, queue))) as Rule)),*]
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn amqp_starts_each_message_as_its_identity_allows() {
    let Some(mut server) = Server::start() else { return };
    let rules = rules![
        each_message_starts_one_execution,
        a_lost_acknowledgement_starts_nothing_more,
        a_message_without_an_identity_starts_each_time_and_is_counted,
        dedup_by_identifies_messages_by_their_content,
        a_message_that_starts_nothing_goes_to_the_list_and_to_another_queue,
        a_server_that_ends_loses_and_repeats_nothing,
    ];
    for (queue, check) in rules {
        server.client().create_queue(queue);
        check(&mut server, queue).await;
    }
}

/// The problems of a trigger with these keys.
#[track_caller]
fn check(keys: &str, expected: &[&str]) {
    let project = project_at(5672, "orders", keys);
    let catalog = authoring::check_project(&project.path(""), &[]).expect("the connectors load").catalog;
    let text = std::fs::read_to_string(project.path("automations/test.yaml")).expect("the file");
    let report = authoring::check_text(&catalog, "automations/test.yaml", &text);
    assert_eq!(crate::checking::problems(&report), expected, "{}", report.render(false));
}

#[test]
fn misspelt_and_unused_options_of_a_trigger_are_found() {
    check("  dedup: {by: item.body.id}\n  poison: {to: dead}\n  consumers: 2\n", &[]);
    check("  dedupe: {by: item.body.id}\n", &["unknown-key dedupe (dedup)"]);
    check("  dedup: {bye: item.body.id}\n", &["unknown-key bye (by)"]);
    check("  dedup: {by: itm.body.id}\n", &["unknown-name itm (item)"]);
    check("  start: all\n", &["unused-setting start"]);
    check("  every: 1m\n", &["unused-setting every"]);
}
