//! The behaviour suite.

use std::sync::Arc;

use async_trait::async_trait;
use store::conformance::{Fixture, keeps_every_rule};
use store::{Options, Store};
use tempfile::TempDir;

struct Directory(TempDir);

#[async_trait]
impl Fixture for Directory {
    async fn open(&self) -> Arc<dyn Store> {
        store_sqlite::open(self.0.path(), Options::default()).expect("it opens")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_passes_the_conformance_suite() {
    keeps_every_rule(|| async { Directory(tempfile::tempdir().expect("a directory")) }).await;
}
