//! The behaviour suite.

use std::sync::Arc;

use async_trait::async_trait;
use store::Store;
use store::conformance::{Fixture, PostgresServer, PostgresSpace, keeps_every_rule};
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A schema of its own on one server, with a data folder.
struct OnServer {
    space: PostgresSpace,
    folder: Arc<TempDir>,
    /// Bounds the connections of all.
    _turn: SemaphorePermit<'static>,
}

static TURNS: Semaphore = Semaphore::const_new(8);

#[async_trait]
impl Fixture for OnServer {
    async fn open(&self) -> Arc<dyn Store> {
        let (space, folder) = (self.space.clone(), self.folder.clone());
        let opened = tokio::task::spawn_blocking(move || crate::open(&space, &folder)).await;
        opened.expect("it does not panic")
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
            let folder = Arc::new(tempfile::tempdir().expect("a directory"));
            OnServer { space: server.space(), folder, _turn }
        }
    })
    .await;
}
