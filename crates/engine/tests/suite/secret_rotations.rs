//! Secrets of a provider that change while a poll, a subscription or a source uses them: the refused login reads them again, once.

use std::time::Duration;

use servers::dovecot;

use crate::common::{Peer, PeerRequest, Project, settled, stop, subscribed, until};
use crate::polls::polled;
use crate::secret_outages::{connect, provide};

/// A program that counts its runs, and gives the secret in a file of the folder `vault`.
const COUNTS: &str = "echo x >> \"$0.requests\"; exec cat \"$0/$1\"";

/// A project whose secret `token` is `first`.
fn project(yaml: &str) -> Project {
    let mut project = Project::with(yaml);
    provide(&mut project, COUNTS);
    rotate(&project, "first");
    project
}

fn rotate(project: &Project, value: &str) {
    project.write("vault/token", value);
}

/// The number of requests to the provider.
fn requests(project: &Project) -> usize {
    std::fs::read_to_string(project.path("vault.requests")).expect("it was asked").lines().count()
}

/// Returns the next request, which has this token.
async fn expect_token(peer: &mut Peer, token: &str) -> PeerRequest {
    let request = peer.next_request().await;
    let sent = request.header("authorization").unwrap_or_default();
    assert_eq!(sent, format!("bearer {token}"), "{}", request.line);
    request
}

#[tokio::test]
async fn a_poll_whose_login_is_refused_is_repeated_once_with_the_rotated_secret() {
    let mut peer = Peer::new().await;
    let project = project(&format!(
        "trigger:\n  poll: {{action: http.request, connection: api, with: {{url: \"{}/list\"}}, every: 1m, items: result.body}}\n\
         steps: [{{set: {{x: 1}}}}]\n",
        peer.base
    ));
    connect(&project, &peer);
    let engine = project.start().await;
    let state = || engine.ingress().polls().pop().expect("it polls").poll_state;
    expect_token(&mut peer, "first").await.answer(200, r#"[{"id":1}]"#).await;
    polled(&project, &engine, 1).await;
    rotate(&project, "second");
    project.clock.advance_to(state().next_at);
    expect_token(&mut peer, "first").await.answer(401, "{}").await;
    expect_token(&mut peer, "second").await.answer(200, r#"[{"id":1}]"#).await;
    polled(&project, &engine, 2).await;
    assert_eq!((state().failures, requests(&project)), (0, 2));
    // A login that stays refused is not repeated with the same secret, and reads it once.
    for failures in 1..3 {
        project.clock.advance_to(state().next_at);
        expect_token(&mut peer, "second").await.answer(401, "{}").await;
        polled(&project, &engine, 2 + u64::from(failures)).await;
        assert_eq!((state().failures, peer.pending_request().is_none()), (failures, true));
    }
    assert_eq!(requests(&project), 4);
    stop(engine).await;
}

#[tokio::test]
async fn a_subscription_whose_login_is_refused_is_made_with_the_rotated_secret() {
    let mut peer = Peer::new().await;
    let mut project = project(
        "trigger: {event: github.push, connection: hub, with: {owner: acme, repo: shop}}\nsteps: []\n",
    );
    project.settings.public_url = Some("https://hooks.example.com".to_owned());
    let with = format!("host: \"{}\", token: '${{{{ secrets.token }}}}'", peer.base);
    project.write("connections/hub.yaml", &format!("type: github.token\nwith: {{{with}}}\n"));
    let engine = project.start().await;
    // The secret was read a moment ago, so it is not read again.
    expect_token(&mut peer, "first").await.answer(401, "{}").await;
    settled(&project, "2026-03-02T08:00:10Z").await;
    assert_eq!(requests(&project), 1);
    rotate(&project, "second");
    project.clock.advance(Duration::from_secs(10));
    expect_token(&mut peer, "first").await.answer(401, "{}").await;
    expect_token(&mut peer, "second").await.answer(200, "[]").await;
    expect_token(&mut peer, "second").await.answer(201, r#"{"id": 7}"#).await;
    subscribed(&engine, |one| !one.remote.is_null()).await;
    assert_eq!(requests(&project), 2);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_of_a_mailbox_logs_in_with_the_rotated_secret() {
    let Some(mut server) = dovecot::Server::start("first") else { return };
    let project = project("trigger: {event: mail.received, connection: mailbox, every: 1m}\nsteps: []\n");
    let connection = format!(
        "type: mail.imap\nwith: {{host: 127.0.0.1, port: {}, security: none, username: {}, password: '${{{{ secrets.token }}}}'}}\n",
        server.port,
        dovecot::USER
    );
    project.write("connections/mailbox.yaml", &connection);
    let engine = project.start().await;
    if engine.catalog().registry().missing_feature("mail.imap").is_some() {
        return stop(engine).await;
    }
    let state = || engine.ingress().polls().pop().expect("it polls").poll_state;
    until(|| !engine.ingress().polls().is_empty()).await;
    polled(&project, &engine, 1).await;
    assert_eq!((state().failures, requests(&project)), (0, 1), "{:?}", state().error);
    server.kill().expect("it is killed");
    server.set_password("second").expect("it is set");
    server.start_again().expect("it starts");
    rotate(&project, "second");
    project.clock.advance_to(state().next_at);
    polled(&project, &engine, 2).await;
    assert_eq!((state().failures, requests(&project)), (0, 2), "{:?}", state().error);
    stop(engine).await;
}

/// A broker whose password changes while a source is open.
#[cfg(feature = "nats")]
trait Broker {
    /// Sets the password of the next start.
    fn set_password(&self, password: &str);

    /// Ends the server, and starts it again.
    fn restart(&mut self);

    /// Publishes a message with this body to the source.
    fn publish(&self, body: &[u8]);
}

/// Checks that a source of a project whose secret is `first` opens again with the rotated secret, and asks for it seldom while its login
/// stays refused.
#[cfg(feature = "nats")]
async fn is_opened_with_the_rotated_secret(project: Project, broker: &mut impl Broker) {
    use crate::brokers::{numbers, until_passing};
    use ingress::SourceState;

    let engine = project.start().await;
    let source = || engine.ingress().sources().pop().expect("a source");
    until(|| !engine.ingress().sources().is_empty()).await;
    until_passing(&[], || source().state == SourceState::Running).await;
    rotate(&project, "second");
    broker.set_password("second");
    broker.restart();
    broker.publish(br#"{"number": 1}"#);
    until_passing(&[&project], || source().accepted == 1).await;
    assert_eq!((numbers(&engine).await, requests(&project)), (vec![1], 2));
    // While the login stays refused, each attempt reads the secret once at most.
    broker.set_password("third");
    broker.restart();
    until_passing(&[&project], || source().failures >= 5).await;
    let (asked, failures) = (requests(&project), usize::try_from(source().failures).expect("few"));
    assert!((3..=2 + failures).contains(&asked), "{asked} requests after {failures} failures");
    stop(engine).await;
}

/// A project with a source of a broker on a port of loopback, whose login is `cogwork` with the secret.
#[cfg(feature = "nats")]
fn source_project((event, with): (&str, &str), (kind, port): (&str, u16)) -> Project {
    let project = project(&format!(
        "trigger: {{event: {event}, connection: bus, with: {{{with}}}}}\nsteps:\n{}",
        crate::brokers::NOTHING
    ));
    let with = format!(
        "host: 127.0.0.1, port: {port}, tls: none, user: cogwork, password: '${{{{ secrets.token }}}}'"
    );
    project.write("connections/bus.yaml", &format!("type: {kind}\nwith: {{{with}}}\n"));
    project
}

#[cfg(feature = "nats")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_of_nats_whose_login_is_refused_is_opened_with_the_rotated_secret() {
    use servers::nats::Server;

    struct Nats(Server, tempfile::TempDir);

    fn set_password(folder: &tempfile::TempDir, password: &str) {
        let users = format!("[{{user: tests, password: t}}, {{user: cogwork, password: {password}}}]");
        let text = format!("authorization {{ users: {users} }}\nno_auth_user: tests\n");
        std::fs::write(folder.path().join("users.conf"), text).expect("it is written");
    }

    impl Broker for Nats {
        fn set_password(&self, password: &str) {
            set_password(&self.1, password);
        }

        fn restart(&mut self) {
            self.0.kill();
            self.0.start_again().expect("it starts");
        }

        fn publish(&self, body: &[u8]) {
            self.0.client().publish("orders.new", body);
        }
    }

    let folder = tempfile::tempdir().expect("a folder");
    set_password(&folder, "first");
    // An included file is found from the folder of the file that includes it.
    let name = folder.path().file_name().expect("a name").to_string_lossy().into_owned();
    let Some(server) = Server::start_with(&format!("include '../{name}/users.conf'")) else { return };
    server.client().create_stream("ORDERS");
    let event = ("nats.message", "stream: ORDERS, consumer: cogwork");
    let project = source_project(event, ("nats.server", server.port));
    is_opened_with_the_rotated_secret(project, &mut Nats(server, folder)).await;
}

#[cfg(feature = "nats")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_of_amqp_whose_login_is_refused_is_opened_with_the_rotated_secret() {
    use servers::rabbitmq::Server;

    struct Rabbit(Server, tempfile::TempDir);

    impl Broker for Rabbit {
        fn set_password(&self, password: &str) {
            servers::rabbitmq::write_users(&definitions(&self.1), &[("cogwork", password)])
                .expect("it is written");
        }

        fn restart(&mut self) {
            self.0.kill();
            self.0.start_again().expect("it starts");
        }

        fn publish(&self, body: &[u8]) {
            self.0.client().publish("orders", body, Some("one"));
        }
    }

    fn definitions(folder: &tempfile::TempDir) -> std::path::PathBuf {
        folder.path().join("definitions.json")
    }

    let folder = tempfile::tempdir().expect("a folder");
    let path = definitions(&folder);
    servers::rabbitmq::write_users(&path, &[("cogwork", "first")]).expect("it is written");
    // The server reads the file at each start.
    let Some(server) = Server::start_with(&format!("load_definitions = {}", path.display())) else { return };
    server.client().create_queue("orders");
    let project = source_project(("amqp.message", "queue: orders"), ("amqp.server", server.port));
    is_opened_with_the_rotated_secret(project, &mut Rabbit(server, folder)).await;
}
