//! Files that events name, on disk.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use model::{Event, Status, StepOutcome};
use store::{Append, Durability, Error, Options, PruneFilter, PruneRule, Store};
use value::{CHUNK_SIZE, Data, File, Reserved, Value};

use crate::common::{self, accept, at, blob_files, end, id, prepare};

fn open(directory: &Path) -> Arc<dyn Store> {
    common::open(directory, Options { durability: Durability::Relaxed, ..Options::default() })
        .expect("it opens")
}

async fn with(directory: &Path, executions: std::ops::RangeInclusive<u32>) -> Arc<dyn Store> {
    let store = open(directory);
    prepare(&*store).await;
    for number in executions {
        store.accept(&accept(number, 10)).await.expect("it is accepted");
    }
    store
}

/// Returns incompressible bytes that begin with the magic number of Zstandard.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let noise = (0..2 * CHUNK_SIZE + 5).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    });
    [0x28, 0xb5, 0x2f, 0xfd].into_iter().chain(noise).collect()
}

fn put(store: &dyn Store, bytes: &[u8]) -> Data {
    let mut file = store.files().create().expect("it begins");
    file.write(bytes).expect("it is written");
    file.finish().expect("it is there")
}

/// The end of a step whose result is a file.
fn step(number: u32, data: Data) -> Append {
    let result = Value::from(File { content_type: "a/b".into(), filename: None, data });
    let outcome = StepOutcome::Succeeded { result };
    let event = Event::StepFinished { at: at(1), step: "upload".to_owned(), took_us: 1, outcome };
    Append { events: vec![event], ..Append::new(id(number), 1, Status::Running) }
}

async fn read(store: &dyn Store, number: u32) -> Result<Vec<u8>, std::io::Error> {
    let events = store.events(id(number)).await.expect("they are read").expect("it is there");
    let Some(Event::StepFinished { outcome: StepOutcome::Succeeded { result }, .. }) = events.get(1) else {
        panic!("a step succeeded")
    };
    let mut read = Vec::new();
    let data = &result.as_file().expect("a file").data;
    data.for_each_chunk(|piece| read.extend_from_slice(piece))?;
    Ok(read)
}

fn arriving(directory: &Path) -> usize {
    std::fs::read_dir(directory.join("blobs/unnamed")).map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_file_is_stored_once_unmodified_and_outside_the_database() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = with(directory.path(), 1..=2).await;
    let bytes = noise(3);
    for number in 1..=2 {
        store.append(&step(number, put(&*store, &bytes))).await.expect("it is appended");
    }
    let files = blob_files(directory.path());
    assert_eq!((files.len(), arriving(directory.path())), (1, 0));
    assert_eq!(std::fs::read(&files[0]).expect("it is read"), bytes, "neither compressed nor encoded");
    assert_eq!(files[0].metadata().expect("it is there").permissions().mode() & 0o777, 0o600);
    let info = store.info().await.expect("it is told");
    assert_eq!(info.blob_bytes, bytes.len() as u64);
    drop(store);
    let store = open(directory.path());
    assert_eq!(read(&*store, 2).await.expect("it is read"), bytes);
    let reader = common::open_read_only(directory.path()).expect("it opens");
    assert_eq!(read(&*reader, 1).await.expect("it is read"), bytes);
}

#[tokio::test]
async fn an_unreferenced_file_is_deleted_with_its_last_holder_or_the_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = with(directory.path(), 1..=1).await;
    let held = put(&*store, &noise(5));
    let again = put(&*store, &noise(5));
    assert_eq!(arriving(directory.path()), 1, "the same bytes are one file");
    let mut broken_off = store.files().create().expect("it begins");
    broken_off.write(b"half").expect("it is written");
    assert_eq!(arriving(directory.path()), 2);
    drop(broken_off);
    drop(again);
    assert_eq!(held.load(usize::MAX, &Reserved::uncounted(usize::MAX)).expect("it is still held"), noise(5));
    drop(held);
    assert_eq!((arriving(directory.path()), blob_files(directory.path()).len()), (0, 0));
    // The start deletes what a killed process left there.
    std::fs::write(directory.path().join("blobs/unnamed/arriving-0"), "left").expect("it is written");
    drop(store);
    drop(open(directory.path()));
    assert_eq!(arriving(directory.path()), 0);
}

#[tokio::test]
async fn a_file_is_deleted_with_its_last_execution_once_unheld() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = with(directory.path(), 1..=2).await;
    let held = put(&*store, &noise(9));
    for number in 1..=2 {
        store.append(&step(number, held.clone())).await.expect("it is appended");
        store.append(&end(number, 2)).await.expect("it ends");
    }
    let all = || PruneFilter::new(PruneRule::EndedBefore(at(5000)));
    assert_eq!(store.prune(all(), 1).await.expect("it prunes"), 1);
    assert_eq!(blob_files(directory.path()).len(), 1);
    assert_eq!(store.prune(all(), 1).await.expect("it prunes"), 1);
    assert_eq!(
        held.load(usize::MAX, &Reserved::uncounted(usize::MAX)).expect("an answer may still be sending it"),
        noise(9)
    );
    drop(held);
    store.collect_garbage().await.expect("it tidies");
    assert_eq!(blob_files(directory.path()).len(), 0);
    assert_eq!(store.info().await.expect("it is told").blob_bytes, 0);
}

#[tokio::test]
async fn a_file_orphaned_by_a_crash_before_its_event_is_garbage_collected() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = with(directory.path(), 1..=1).await;
    store.append(&step(1, put(&*store, &noise(13)))).await.expect("it is appended");
    // As after a crash before the commit: the file has its final name, and no row names it.
    let stray = directory.path().join("blobs/ab");
    std::fs::create_dir_all(&stray).expect("it is made");
    std::fs::write(stray.join("cd".repeat(31)), "stray").expect("it is written");
    assert_eq!(store.collect_garbage().await.expect("it tidies"), 1);
    assert_eq!(read(&*store, 1).await.expect("it is read"), noise(13));
}

#[tokio::test]
async fn a_backup_includes_files_and_rejects_damaged_ones() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("store");
    let store = with(&place, 1..=1).await;
    store.append(&step(1, put(&*store, &noise(17)))).await.expect("it is appended");
    let copy = directory.path().join("copy");
    let backup = common::back_up(&place, &copy).expect("it is copied");
    assert_eq!(backup.blobs, 1);
    assert_eq!(read(&*open(&copy), 1).await.expect("it is read"), noise(17));
    let file = blob_files(&place).remove(0);
    let mut damaged = noise(17);
    damaged[100] ^= 1;
    std::fs::write(&file, damaged).expect("it is written");
    common::back_up(&place, directory.path().join("other")).expect_err("it is damaged");
    std::fs::write(&file, "short").expect("it is written");
    assert!(read(&*store, 1).await.is_err(), "what is not there is not given");
}

#[tokio::test]
async fn a_file_referenced_from_another_store_is_copied() {
    let (one, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (from, to) = (with(one.path(), 1..=1).await, with(other.path(), 1..=1).await);
    to.append(&step(1, put(&*from, &noise(19)))).await.expect("it is appended");
    drop(from);
    assert_eq!(read(&*to, 1).await.expect("it is read"), noise(19));
}

#[tokio::test]
async fn a_state_value_embeds_its_file_or_is_rejected_as_too_large() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = with(directory.path(), 1..=1).await;
    let write = |bytes: usize| {
        let file =
            File { content_type: "a/b".into(), filename: None, data: put(&*store, &vec![b'x'; bytes]) };
        let (scope, key) = ("orders".to_owned(), "last".to_owned());
        vec![store::StateWrite {
            scope,
            key,
            expected: None,
            value: Some(Value::from(file)),
            expires_at: None,
        }]
    };
    store.write_state(write(1000)).await.expect("it is kept");
    let kept = store.read_state("orders", "last").await.expect("it is read").expect("it is there");
    assert!(!kept.value.has_external_file());
    let refused = store.write_state(write(2 << 20)).await.expect_err("it is too large");
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
}

#[tokio::test]
async fn concurrent_writes_may_reference_the_same_new_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = with(directory.path(), 1..=16).await;
    let held = put(&*store, &noise(23));
    let appends = (1..=16).map(|number| {
        let (store, append) = (store.clone(), step(number, held.clone()));
        tokio::spawn(async move { store.append(&append).await })
    });
    for append in appends.collect::<Vec<_>>() {
        append.await.expect("no panic").expect("it is appended");
    }
    assert_eq!(blob_files(directory.path()).len(), 1);
    assert_eq!(read(&*store, 16).await.expect("it is read"), noise(23));
}
