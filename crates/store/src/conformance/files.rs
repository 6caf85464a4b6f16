//! Rules of files that events name.

use model::Status;
use value::{CHUNK_SIZE, Data, File, Map, Value};

use super::Fixture;
use super::sample::{accept, append, at, finished, new, one, step, success};
use crate::{PruneFilter, PruneRule, Store};

/// Returns bytes without a short period, so that a wrong offset shows.
fn bytes(seed: u32) -> Vec<u8> {
    let count = u32::try_from(3 * CHUNK_SIZE + 17).unwrap_or(u32::MAX);
    (0..count).map(|at| u8::try_from((at / 251 + at * seed) % 251).unwrap_or_default()).collect()
}

/// Writes a file with these bytes to the store, in chunks.
fn put(store: &dyn Store, bytes: &[u8]) -> Data {
    let mut file = store.files().create().expect("it begins");
    bytes.chunks(1000).for_each(|piece| file.write(piece).expect("it is written"));
    file.finish().expect("it is there")
}

fn named(data: Data) -> Value {
    Value::from(File { content_type: "image/png".into(), filename: Some("a.png".into()), data })
}

/// Reads a file in chunks.
fn read(value: &Value) -> Vec<u8> {
    let file = value.as_file().expect("a file");
    let mut read = Vec::new();
    file.data.for_each_chunk(|piece| read.extend_from_slice(piece)).expect("it is read");
    read
}

pub(super) async fn kept(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    let bytes = bytes(7);
    let whole = put(&*store, &bytes);
    let digest = Data::from(bytes[100..300].to_vec()).digest();
    let part = whole.slice(100, 200, digest);
    let result: Map = [("whole", named(whole.clone())), ("part", named(part))].into_iter().collect();
    let events = vec![step("upload", Value::from(result))];
    store.append(&append(id, 1, events.clone(), Status::Running)).await.expect("it is appended");
    drop((store, whole));
    let store = fixture.open().await;
    let found = store.events(id).await.expect("it is read").expect("it is there");
    assert_eq!(found[1..], events, "what was named is named");
    let model::Event::StepFinished { outcome, .. } = &found[1] else { panic!("a step finished") };
    let model::StepOutcome::Succeeded { result } = outcome else { panic!("it succeeded") };
    assert_eq!(read(&result.get("whole").expect("it is there")), bytes);
    assert_eq!(read(&result.get("part").expect("it is there")), bytes[100..300]);
}

pub(super) async fn until_nothing_names_them(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, first) = one(&*store).await;
    let other = new(&definition, 1, 1);
    accept(&*store, vec![other.clone()]).await;
    let bytes = bytes(11);
    for id in [first, other.id] {
        let events = vec![step("upload", named(put(&*store, &bytes)))];
        store.append(&append(id, 1, events, Status::Running)).await.expect("it is appended");
    }
    let ending = vec![finished(2, success())];
    store.append(&append(first, 2, ending, Status::Succeeded)).await.expect("it ends");
    let all = || PruneFilter::new(PruneRule::EndedBefore(at(100)));
    assert_eq!(store.prune(all(), 10).await.expect("it prunes"), 1);
    store.collect_garbage().await.expect("it tidies");
    let found = store.events(other.id).await.expect("it is read").expect("it is there");
    let model::Event::StepFinished { outcome, .. } = &found[1] else { panic!("a step finished") };
    let model::StepOutcome::Succeeded { result } = outcome else { panic!("it succeeded") };
    assert_eq!(read(result), bytes, "the other one still names it");
}
