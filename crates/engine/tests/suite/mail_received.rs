//! `mail.received`: polls with a position of the action's own, against Dovecot.

use std::time::Duration;

use engine::Engine;
use model::automation::AutomationId;
use servers::dovecot::{Server, USER};

use crate::common::{Project, end, rows, stop, until, until_async};
use crate::engine_events::event_handler;

const PASSWORD: &str = "canary-mailbox-5a1c";

/// A server with a message, and a project with a trigger on its mailbox; `None` if one of both programs lacks it.
fn project(with: &str) -> Option<(Server, Project)> {
    let server = Server::start(PASSWORD)?;
    deliver(&server, "before");
    let project = Project::with(&format!(
        "trigger:\n  event: mail.received\n  connection: mailbox\n  with: {{mailbox: INBOX{with}}}\n  every: 1h\n  deliver: each\n\
         steps:\n  - set: {{subject: '${{{{ trigger.results.body.data.record.subject }}}}'}}\n"
    ));
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    project.write("secrets/mailbox", PASSWORD);
    let connection = format!(
        "type: mail.imap\nwith: {{host: 127.0.0.1, port: {}, security: none, username: {USER}, password: '${{{{ secrets.mailbox }}}}'}}\n",
        server.port
    );
    project.write("connections/mailbox.yaml", &connection);
    Some((server, project))
}

fn deliver(server: &Server, id: &str) {
    let message = format!("From: a@example.com\r\nSubject: {id}\r\nMessage-ID: <{id}@x>\r\n\r\nhi\r\n");
    server.deliver("INBOX", message.as_bytes()).expect("delivered");
}

/// True if this program was built without mailboxes.
fn lacks_mailboxes(engine: &Engine) -> bool {
    engine.catalog().registry().missing_feature("mail.imap").is_some()
}

/// The number of polls.
fn polls(engine: &Engine) -> u64 {
    engine.ingress().polls().first().map_or(0, |poll| poll.poll_state.polls)
}

/// Waits for the next poll.
async fn polled(engine: &Engine, project: &Project) {
    let before = polls(engine);
    // A poll that failed is tried again an hour later, and up to a quarter of one.
    project.clock.advance(Duration::from_secs(2 * 60 * 60));
    until(|| polls(engine) > before).await;
}

/// The results of the executions of an automation, oldest first.
async fn results(engine: &Engine, automation: &str) -> Vec<String> {
    let automation = AutomationId::parse(automation).expect("an id");
    let mut found = Vec::new();
    for row in rows(engine).await.into_iter().rev().filter(|row| row.automation == automation) {
        found.push(end(engine, row.id).await);
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_starts_one_execution_at_once() {
    let Some((server, project)) = project(", idle: true") else { return };
    let engine = project.start().await;
    if lacks_mailboxes(&engine) {
        return stop(engine).await;
    }
    until(|| polls(&engine) >= 1).await;
    for (id, count) in [("one", 1), ("two", 2), ("one", 2)] {
        let before = polls(&engine);
        deliver(&server, id);
        // The server tells of it, and two polls that something wakes are a second apart.
        until_async(async || {
            project.clock.advance(Duration::from_secs(2));
            let polled = until(|| polls(&engine) > before);
            tokio::time::timeout(Duration::from_millis(300), polled).await.is_ok()
                && rows(&engine).await.len() == count
        })
        .await;
    }
    assert_eq!(results(&engine, "test").await, [r#"{"subject":"one"}"#, r#"{"subject":"two"}"#]);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mailbox_that_is_numbered_anew_is_a_failure_and_goes_on_from_the_newest() {
    let Some((server, project)) = project("") else { return };
    project.write("automations/handler.yaml", &event_handler("cogwork.failure", ", with: {kinds: [poll]}"));
    let engine = project.start().await;
    if lacks_mailboxes(&engine) {
        return stop(engine).await;
    }
    until(|| polls(&engine) >= 1).await;
    deliver(&server, "one");
    polled(&engine, &project).await;
    // Else the hours of the next poll pass while the execution runs.
    until_async(async || results(&engine, "test").await.len() == 1).await;
    server.renumber("INBOX").expect("numbered anew");
    deliver(&server, "between");
    polled(&engine, &project).await;
    let poll = engine.ingress().polls().into_iter().next().expect("a poll");
    assert!(
        poll.poll_state.error.as_deref().is_some_and(|error| error.contains("numbered")),
        "{:?}",
        poll.poll_state
    );
    until_async(async || !results(&engine, "handler").await.is_empty()).await;
    deliver(&server, "two");
    polled(&engine, &project).await;
    until_async(async || results(&engine, "test").await.len() == 2).await;
    assert_eq!(results(&engine, "test").await, [r#"{"subject":"one"}"#, r#"{"subject":"two"}"#]);
    stop(engine).await;
}
