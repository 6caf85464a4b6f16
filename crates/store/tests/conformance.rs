//! The behaviour suite, run on the store in memory.

use std::sync::Arc;

use async_trait::async_trait;
use store::conformance::{Fixture, keeps_every_rule};
use store::{Memory, Store};

#[derive(Default)]
struct InMemory(Memory);

#[async_trait]
impl Fixture for InMemory {
    async fn open(&self) -> Arc<dyn Store> {
        self.0.open()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_in_memory_store_passes_the_conformance_suite() {
    keeps_every_rule(|| async { InMemory::default() }).await;
}
