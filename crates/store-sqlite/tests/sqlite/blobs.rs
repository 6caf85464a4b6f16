//! Large values in files of their own.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use model::{Event, Payload};
use store::{Append, Durability, Error, Options, PruneFilter, PruneRule, Store};

use crate::common::{self, accept, at, blob_files, end, id, new, prepare, step, text};

pub(crate) const LARGE: usize = 100_000;

pub(crate) fn options() -> Options {
    Options { durability: Durability::Relaxed, ..Options::default() }
}

pub(crate) async fn open(directory: &Path, options: Options) -> Arc<dyn Store> {
    let store = common::open(directory, options).expect("it opens");
    prepare(&*store).await;
    store
}

/// The text that the numbered execution started with, read back.
pub(crate) async fn input(store: &dyn Store, number: u32) -> Result<String, Error> {
    let events = store.events(id(number)).await?.expect("it is there");
    let Some(Event::Started { payload, .. }) = events.first() else { panic!("it has started") };
    let Payload::Manual { inputs } = &**payload else { panic!("it was started by hand") };
    Ok(inputs.get("text").and_then(value::Value::as_str).expect("a text").to_owned())
}

#[tokio::test]
async fn a_large_value_is_a_private_file_and_round_trips() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), options()).await;
    store.accept(&accept(1, LARGE)).await.expect("it is accepted");
    store.accept(&accept(2, 1000)).await.expect("it is accepted");
    store.append(&step(1, 1, LARGE)).await.expect("it is appended");
    let files = blob_files(directory.path());
    assert_eq!(files.len(), 2, "one a large value, none for small ones");
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&files[0]), mode(&directory.path().join("blobs"))), (0o600, 0o700));
    assert_eq!(input(&*store, 1).await.expect("it is read"), text(1, LARGE));
    assert_eq!(input(&*store, 2).await.expect("it is read"), text(2, 1000));
    let reader = common::open_read_only(directory.path()).expect("it opens");
    assert_eq!(input(&*reader, 1).await.expect("it is read"), text(1, LARGE));
    let info = store.info().await.expect("it is told");
    assert!(info.blob_bytes > 100_000 && info.blob_bytes < 200_000, "{info:?}");
}

#[tokio::test]
async fn equal_values_share_one_file_until_the_last_reference_is_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), options()).await;
    for number in 1..=3 {
        let mut same = new(number, LARGE);
        same.started = new(9, LARGE).started;
        let executions = vec![same];
        store.accept(&store::Accept { executions, ..Default::default() }).await.expect("it is accepted");
    }
    assert_eq!(blob_files(directory.path()).len(), 1);
    let all = || PruneFilter::new(PruneRule::EndedBefore(at(5000)));
    for (number, left) in [(1, 1), (2, 1), (3, 0)] {
        assert_eq!(input(&*store, number).await.expect("it is read"), text(9, LARGE));
        store.append(&end(number, 1)).await.expect("it ends");
        assert_eq!(store.prune(all(), 10).await.expect("it prunes"), 1);
        assert_eq!(blob_files(directory.path()).len(), left);
    }
    assert_eq!(store.info().await.expect("it is told").blob_bytes, 0);
}

#[tokio::test]
async fn compressible_values_are_stored_compressed() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), options()).await;
    let mut easy = step(1, 1, 0);
    let result = "the same again ".repeat(100_000);
    let outcome = model::StepOutcome::Succeeded { result: result.as_str().into() };
    easy.events = vec![Event::StepFinished { at: at(1), step: "easy".to_owned(), took_us: 1, outcome }];
    store.accept(&accept(1, 10)).await.expect("it is accepted");
    store.append(&easy.clone()).await.expect("it is appended");
    assert!(store.info().await.expect("it is told").blob_bytes < 15_000);
    let events = store.events(id(1)).await.expect("it is read").expect("it is there");
    assert_eq!(events[1..], easy.events);
}

#[tokio::test]
async fn a_missing_or_damaged_blob_fails_only_its_reads_and_is_named() {
    for missing in [true, false] {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path(), options()).await;
        store.accept(&accept(1, LARGE)).await.expect("it is accepted");
        let file = blob_files(directory.path()).remove(0);
        if missing {
            std::fs::remove_file(&file).expect("it goes");
        } else {
            let mut bytes = std::fs::read(&file).expect("it is read");
            bytes[500] ^= 1;
            std::fs::write(&file, bytes).expect("it is written");
        }
        let error = input(&*store, 1).await.expect_err("it cannot be read").to_string();
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(error.contains(name) && error.contains("blob"), "{error}");
        assert!(store.execution(id(1)).await.expect("it is read").is_some(), "lists do not need it");
        // Writing the same value again repairs it.
        let executions = vec![store::NewExecution { id: id(2), ..new(1, LARGE) }];
        store.accept(&store::Accept { executions, ..Default::default() }).await.expect("it is accepted");
        assert_eq!(input(&*store, 1).await.expect("it is read"), text(1, LARGE));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrently_added_and_deleted_values_are_never_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), Options { blob_bytes: 1000, ..options() }).await;
    let writing = (0..4_u32).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for turn in 0..60 {
                let number = 1 + turn * 4 + writer;
                // Three values in all: each is dropped by one and taken up by another all the time.
                let executions = vec![store::NewExecution { id: id(number), ..new(number % 3, 2000) }];
                store
                    .accept(&store::Accept { executions, ..Default::default() })
                    .await
                    .expect("it is accepted");
                assert_eq!(input(&*store, number).await.expect("it is whole"), text(number % 3, 2000));
                store.append(&end(number, 1)).await.expect("it ends");
            }
        })
    });
    let writing = futures_util::future::join_all(writing);
    let pruning = async {
        let mut gone = 0;
        while gone < 240 {
            gone += store.prune(PruneFilter::new(PruneRule::AllButNewest(0)), 7).await.expect("it prunes");
            store.collect_garbage().await.expect("it is tidied");
        }
    };
    let (written, ()) = futures_util::future::join(writing, pruning).await;
    for writer in written {
        writer.expect("each read what it wrote");
    }
    assert_eq!(blob_files(directory.path()).len(), 0);
}

#[tokio::test]
async fn values_that_are_large_only_together_stay_inline() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), options()).await;
    store.accept(&accept(1, 10)).await.expect("it is accepted");
    let events: Vec<Event> = (1..=40).flat_map(|first| step(1, first, 5000).events).collect();
    let append = Append { events: events.clone(), ..step(1, 1, 0) };
    store.append(&append).await.expect("it is appended");
    assert_eq!(blob_files(directory.path()).len(), 0);
    let found = store.events(id(1)).await.expect("it is read").expect("it is there");
    assert_eq!(found[1..], events);
}

#[tokio::test]
async fn values_below_the_default_blob_size_stay_in_the_database() {
    for (bytes, files) in [(Options::BLOB_BYTES - 1024, 0), (Options::BLOB_BYTES + 1024, 1)] {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path(), options()).await;
        store.accept(&accept(1, bytes)).await.expect("it is accepted");
        assert_eq!(blob_files(directory.path()).len(), files, "{bytes} bytes");
    }
}
