//! `wake` of `sql.newRows`: a notification of PostgreSQL polls at once, and is never needed.

use std::time::Duration;

use postgres_server::{Server, Setup};
use runtime::Clock as _;

use crate::common::{Project, end, rows, stop, until, until_async};

/// An address that no other test has.
const ADDRESS: &str = "127.211.17.3";

const NEWS: &str = "trigger:
  event: sql.newRows
  connection: books
  with: {table: orders, id: [id], watermark: changed_at, wake: New Orders}
  every: 1h
  deliver: each
steps:
  - set: {id: '${{ trigger.results.body.data.record.id }}'}
";

const LISTENING: &str = "select count(*) from pg_stat_activity where query ilike 'listen%'";

/// A server; `None`, with a line, if PostgreSQL is not installed.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn server() -> Option<Server> {
    let setup = Setup {
        initdb: vec!["--auth-host=trust".to_owned()],
        arguments: format!("-c listen_addresses={ADDRESS} -c fsync=off"),
        ..Setup::default()
    };
    match Server::start_as(setup) {
        Ok(server) => Some(server),
        Err(error) => {
            assert!(std::env::var_os("COGWORK_REQUIRE_SERVERS").is_none(), "{error}");
            eprintln!("skipped: PostgreSQL: {error}");
            None
        }
    }
}

fn insert(server: &Server, id: u32) {
    let insert = format!("insert into orders values ({id}, now()); notify \"New Orders\"");
    server.sql(&insert).expect("inserted");
}

/// Waits until this many connections listen.
async fn listening(server: &Server, count: u32) {
    until_async(async || server.sql(LISTENING).expect("an answer") == count.to_string()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_polls_at_once_and_nothing_listens_for_a_removed_file() {
    let Some(server) = server() else { return };
    server.sql("create table orders (id int primary key, changed_at timestamptz)").expect("created");
    insert(&server, 1);
    let mut project = Project::with("trigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n");
    project.settings.outbound_allow.push(ADDRESS.to_owned());
    let connection = format!(
        "type: sql.postgres\nwith: {{host: {ADDRESS}, database: postgres, user: cogwork, tls: none}}\n"
    );
    project.write("connections/books.yaml", &connection);
    project.write("automations/news.yaml", NEWS);
    let engine = project.start().await;
    listening(&server, 1).await;
    let polls = || engine.ingress().polls().first().map_or(0, |poll| poll.poll_state.polls);
    until(|| polls() >= 1).await;
    let begun = project.clock.now();
    let ids = async |expected: &[u32]| {
        until_async(async || rows(&engine).await.len() == expected.len()).await;
        let mut found = Vec::new();
        for row in rows(&engine).await.into_iter().rev() {
            found.push(end(&engine, row.id).await);
        }
        let expected: Vec<String> = expected.iter().map(|id| format!("{{\"id\":{id}}}")).collect();
        assert_eq!(found, expected);
    };
    // Two polls that something wakes are a second apart.
    project.clock.advance(Duration::from_secs(2));
    insert(&server, 2);
    ids(&[2]).await;
    // A broken connection is opened again, and what came meanwhile is found.
    server
        .sql("select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen%'")
        .expect("ended");
    listening(&server, 0).await;
    insert(&server, 3);
    until_async(async || {
        project.clock.advance(Duration::from_secs(1));
        server.sql(LISTENING).expect("an answer") == "1"
    })
    .await;
    project.clock.advance(Duration::from_secs(2));
    ids(&[2, 3]).await;
    let waited = project.clock.now().duration_since(begun);
    assert!(waited.as_secs() < 3_600, "the interval is an hour, and {waited} have passed");
    std::fs::remove_file(project.path("automations/news.yaml")).expect("removed");
    engine.reload().await;
    listening(&server, 0).await;
    stop(engine).await;
}
