//! The keys of daemons that share a store.
#![cfg(unix)]

use engine::{Engine, stores::Location};
use store::Options;
use store::conformance::{PostgresServer, PostgresSpace};
use value::Secret;

use crate::common::{Project, soon, stop};

const KEYS: [&str; 2] =
    ["AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="];

/// Starts a daemon with a key from the environment.
async fn daemon(space: &PostgresSpace, key: &str) -> (Project, Engine) {
    let mut project = Project::with("trigger: {manual: {}}\nsteps: []\n");
    project.settings.keys.given = Some(Secret::new(key));
    let options = Options { local: Some(project.settings.data_dir.clone()), ..Options::default() };
    let location = Location::parse(&space.url(), std::path::Path::new("")).expect("an address");
    let engine = project.start_on(engine::stores::open(&location, options).expect("it opens")).await;
    engine.peers().report_address("127.0.0.1:7071".parse().expect("an address"));
    (project, engine)
}

/// Waits until the stored record of a node meets a condition, and returns it.
async fn problems(engine: &Engine, is_there: impl Fn(&store::Node) -> bool) -> store::Node {
    soon(async {
        loop {
            let nodes = engine.store().nodes().await.expect("they are read");
            if let Some(node) = nodes.into_iter().find(&is_there) {
                return node;
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_with_a_different_master_key_is_reported_and_stores_no_secret() {
    let server = PostgresServer::start();
    let space = server.space();
    let (_first, one) = daemon(&space, KEYS[0]).await;
    problems(&one, |node| !node.details.keys.is_empty()).await;
    // Before the store has any secret.
    let (_second, other) = daemon(&space, KEYS[1]).await;
    let refused = other.context().set_secret("token", "value").await.expect_err("it has another key");
    assert!(refused.to_string().contains("nothing was stored: the daemon "), "{refused}");
    stop(other).await;
    one.context().set_secret("token", "value").await.expect("its key is the only one");
    // After.
    let (_third, other) = daemon(&space, KEYS[1]).await;
    let problem = other.peers().key_conflict().expect("it cannot read the secret");
    assert!(problem.contains("and COGWORK_MASTER_KEY has the key"), "{problem}");
    assert!(!problem.contains("master.key"), "no file is to be restored: {problem}");
    let refused = other.context().set_secret("more", "value").await.expect_err("it has another key");
    assert!(refused.to_string().contains("nothing was stored: 1 values of the store"), "{refused}");
    let named = problems(&one, |node| !node.details.problems.is_empty()).await;
    assert_eq!(named.details.problems, [problem]);
    assert_eq!(named.details.address.as_deref(), Some("127.0.0.1:7071"));
    stop(other).await;
    stop(one).await;
}
