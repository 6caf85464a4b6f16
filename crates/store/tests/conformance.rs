//! The behaviour suite, run on each kind of store.

#![expect(clippy::expect_used, reason = "what a test prepares has to work")]

use std::sync::Arc;

use async_trait::async_trait;
use store::conformance::{Fixture, RULES};
use store::{Location, Memory, Options, Store};
use tempfile::TempDir;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_every_rule() {
    keeps_every_rule(|| Directory(tempfile::tempdir().expect("a directory"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_in_memory_keeps_every_rule() {
    keeps_every_rule(InMemory::default).await;
}

async fn keeps_every_rule<P: Fixture + 'static>(create: fn() -> P) {
    let mut running = JoinSet::new();
    for (text, rule) in RULES {
        running.spawn(async move {
            let fixture = create();
            let kept = tokio::spawn(async move { rule(&fixture).await }).await;
            kept.err().map(|error| format!("not kept: {text}: {error}"))
        });
    }
    let broken: Vec<String> = running.join_all().await.into_iter().flatten().collect();
    assert!(broken.is_empty(), "{broken:#?}");
}
