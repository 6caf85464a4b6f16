//! Outages: failing writes are published as one state from beginning to end, and the end is noticed without requests.

use store::{Outage, OutageKind, SharedSettings};
use tokio::sync::watch;

use super::*;

/// The longest wait for the beginning or the end of an outage.
const PATIENCE: Duration = Duration::from_secs(40);

/// A store whose user is no superuser, so that rights count.
fn restricted(server: &PostgresServer, folder: &TempDir) -> (PostgresSpace, Arc<dyn Store>) {
    server.run("CREATE ROLE least LOGIN");
    let space = server.space();
    server.run(&format!("GRANT CREATE, USAGE ON SCHEMA {} TO least", space.schema()));
    let store = open_at(&space.url_as("least"), folder).expect("it opens");
    (space, store)
}

async fn until(
    mut outages: watch::Receiver<Option<Outage>>,
    is_wanted: impl Fn(&Option<Outage>) -> bool,
) -> Option<Outage> {
    let found = tokio::time::timeout(PATIENCE, outages.wait_for(|outage| is_wanted(outage))).await;
    found.expect("it comes in time").expect("the store is open").clone()
}

async fn until_kind(store: &dyn Store, kind: OutageKind) -> Outage {
    let is_of_kind = |outage: &Option<Outage>| outage.as_ref().is_some_and(|outage| outage.kind == kind);
    until(store.outages(), is_of_kind).await.expect("an outage")
}

/// Waits for the end of an outage without a request.
async fn until_over(store: &dyn Store) {
    until(store.outages(), Option::is_none).await;
    assert!(store.outage().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_write_kind_is_an_outage_until_a_probe_of_it_succeeds() {
    let (server, folder) = (server(), folder());
    let (space, store) = restricted(&server, &folder);
    let definition = definition(&*store).await;
    accept(&*store, new(&definition, 1)).await.expect("it is accepted");
    assert!(store.outage().is_none());
    server.run(&format!("REVOKE INSERT ON {}.live FROM least", space.schema()));
    let refused = accept(&*store, new(&definition, 2)).await.expect_err("the right is gone");
    assert!(matches!(refused, Error::Write { .. }), "{refused}");
    let outage = until_kind(&*store, OutageKind::Refused).await;
    let grant = format!("; `GRANT INSERT ON {}.live TO \"least\"`", space.schema());
    let reason = format!("permission denied for table live (for the start of an execution){grant}");
    assert!(outage.reason == reason && outage.refuses_starts(), "{outage:?}");
    store.put_definition(definition.clone()).await.expect("other writes succeed");
    assert!(store.outage().is_some(), "the refused kind still fails");
    server.run(&format!("GRANT INSERT ON {}.live TO least", space.schema()));
    until_over(&*store).await;
    accept(&*store, new(&definition, 3)).await.expect("it is accepted");
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 2, "a probe stores nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_write_is_not_an_outage() {
    let (server, folder) = (server(), folder());
    let store = open(&server.space(), &folder);
    let definition = definition(&*store).await;
    accept(&*store, new(&definition, 1)).await.expect("it is accepted");
    accept(&*store, new(&definition, 1)).await.expect_err("its id is taken");
    assert!(store.outage().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_daemon_detects_and_survives_a_read_only_database() {
    let (server, folder) = (server(), folder());
    let (_space, store) = restricted(&server, &folder);
    let definition = definition(&*store).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'least'";
    server.run(&format!("ALTER ROLE least SET default_transaction_read_only = on; {end}"));
    let outage = until_kind(&*store, OutageKind::ReadOnly).await;
    assert!(outage.keeps_writes(), "{outage:?}");
    server.run(&format!("ALTER ROLE least RESET default_transaction_read_only; {end}"));
    until_over(&*store).await;
    accept(&*store, new(&definition, 1)).await.expect("it is accepted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsent_starts_and_request_reads_fail_after_the_grace_period() {
    let (server, folder) = (server(), folder());
    let (_space, store) = restricted(&server, &folder);
    let definition = definition(&*store).await;
    // From here on a start needs no read before it is sent.
    accept(&*store, new(&definition, 9)).await.expect("it is accepted");
    server.run(
        "ALTER ROLE least NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'least'",
    );
    // It is sent on a connection that is lost, so that only the database knows about it.
    let (writer, sent) = (store.clone(), new(&definition, 1));
    let first = tokio::spawn(async move { accept(&*writer, sent).await });
    until_kind(&*store, OutageKind::Unreachable).await;
    let refused = tokio::time::timeout(PATIENCE, accept(&*store, new(&definition, 2))).await;
    let refused = refused.expect("it is withdrawn").expect_err("nobody can log in");
    assert!(matches!(refused, Error::Unreachable { .. }), "{refused}");
    let read = store.find_dedup(&definition.automation, [1; 32], at());
    let read =
        tokio::time::timeout(PATIENCE, read).await.expect("it gives up").expect_err("nobody can log in");
    assert!(matches!(read, Error::Unreachable { .. }), "{read}");
    store.info().await.expect("the outage itself can be reported");
    server.run("ALTER ROLE least LOGIN");
    until_over(&*store).await;
    first.await.expect("no panic").expect("the connection was lost, not the write");
    accept(&*store, new(&definition, 3)).await.expect("it is accepted");
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 3, "the withdrawn one was not sent");
}

fn open_with(space: &PostgresSpace, folder: &TempDir, max_bytes: u64) -> Arc<dyn Store> {
    let options =
        Options { local: Some(folder.path().to_owned()), max_bytes: Some(max_bytes), ..Options::default() };
    store_postgres::open(&Address::parse(&space.url()).expect("an address"), options).expect("it opens")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joining_daemon_uses_the_active_store_settings_until_all_agree() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let sizes = |store: &Arc<dyn Store>| store.shared_settings().and_then(|settings| settings.store_size);
    let one = open_with(&space, &first, 40 << 20);
    let other = open_with(&space, &second, 10 << 20);
    assert_eq!((sizes(&one), sizes(&other)), (Some(40 << 20), Some(40 << 20)));
    let weakened = other.info().await.expect("it is described").weakened;
    let told = weakened.iter().find(|line| line.contains("limits.storeSize")).expect("it is named");
    assert!(told.contains("10485760 bytes here") && told.contains("41943040 bytes is in force"), "{told}");
    assert!(
        !one.info().await.expect("it is described").weakened.iter().any(|line| line.contains("storeSize"))
    );
    let nodes = one.nodes().await.expect("they are read");
    let settings = |size| Some(SharedSettings { store_size: Some(size), retention: None });
    let of_nodes: Vec<_> = nodes.iter().map(|node| node.details.settings).collect();
    assert_eq!(of_nodes, [settings(40 << 20), settings(10 << 20)]);
    // One daemon after the other is started with the new value.
    one.close().await.expect("it closes");
    drop(one);
    let one = open_with(&space, &first, 10 << 20);
    assert_eq!(sizes(&one), Some(10 << 20), "all have it");
}
