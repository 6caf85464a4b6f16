//! The behaviour suite, run on each kind of store.

#![expect(clippy::expect_used, reason = "what a test prepares has to work")]

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use store::conformance::{Fixture, PostgresServer, PostgresSpace, RULES};
use store::{Location, Memory, Options, Store};
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

struct Directory(TempDir);

#[async_trait]
impl Fixture for Directory {
    async fn open(&self) -> Arc<dyn Store> {
        store::open(&Location::from(self.0.path()), Options::default()).expect("it opens")
    }
}

#[derive(Default)]
struct InMemory(Memory);

#[async_trait]
impl Fixture for InMemory {
    async fn open(&self) -> Arc<dyn Store> {
        self.0.open()
    }
}

/// A schema of its own on one server, with a data folder.
struct OnServer {
    space: PostgresSpace,
    folder: TempDir,
    /// Bounds the connections of all.
    _turn: SemaphorePermit<'static>,
}

static TURNS: Semaphore = Semaphore::const_new(8);

#[async_trait]
impl Fixture for OnServer {
    async fn open(&self) -> Arc<dyn Store> {
        let location = Location::parse(&self.space.url(), Path::new("")).expect("an address");
        let options = Options { local: Some(self.folder.path().to_owned()), ..Options::default() };
        let opened = tokio::task::spawn_blocking(move || store::open(&location, options)).await;
        opened.expect("it does not panic").expect("it opens")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_passes_the_conformance_suite() {
    let server = Arc::new(PostgresServer::start());
    let of = server.clone();
    keeps_every_rule(move || {
        let server = of.clone();
        async move {
            let _turn = TURNS.acquire().await.expect("it is open");
            OnServer { space: server.space(), folder: tempfile::tempdir().expect("a directory"), _turn }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_passes_the_conformance_suite() {
    keeps_every_rule(|| async { Directory(tempfile::tempdir().expect("a directory")) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_in_memory_store_passes_the_conformance_suite() {
    keeps_every_rule(|| async { InMemory::default() }).await;
}

async fn keeps_every_rule<P, F>(create: impl Fn() -> F)
where
    P: Fixture + 'static,
    F: Future<Output = P> + Send + 'static,
{
    let mut running = JoinSet::new();
    for (text, rule) in RULES {
        let fixture = create();
        running.spawn(async move {
            let fixture = fixture.await;
            let kept = tokio::spawn(async move { rule(&fixture).await }).await;
            kept.err().map(|error| format!("not kept: {text}: {error}"))
        });
    }
    let broken: Vec<String> = running.join_all().await.into_iter().flatten().collect();
    assert!(broken.is_empty(), "{broken:#?}");
}
