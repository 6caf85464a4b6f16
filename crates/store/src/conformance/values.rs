//! Rules of values: each is read as it was written.

use std::collections::BTreeMap;

use model::payload::WebhookPayload;
use model::{Event, ExecutionId, HttpResponse, Origin, Payload, Status};
use value::{File, Map, Value};

use super::Fixture;
use super::sample::{self, accept, append, at, one, step};
use crate::{CutEvents, SMALL_VALUE, Store};

const TEXT: &str = "Grüße, 世界 👋🏽 \u{0} \u{2028} \\ \" ' \u{fffd} e\u{301} \r\n\t";

pub(super) async fn round_trip(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let bytes: Vec<u8> = (0..=255).collect();
    let file = |data: Vec<u8>, filename: Option<&str>| File {
        content_type: "image/png".into(),
        filename: filename.map(Into::into),
        data: data.into(),
    };
    let payload = Payload::Webhook(WebhookPayload {
        method: "POST".to_owned(),
        path_fragment: TEXT.to_owned(),
        raw_query: TEXT.to_owned(),
        query_parameters: [("q", Value::from(TEXT))].into_iter().collect::<Map>(),
        headers: BTreeMap::from([("x-text".to_owned(), TEXT.to_owned())]),
        code_result: None,
        body: file(bytes.clone(), None),
    });
    let mut new =
        sample::with_origin(&definition, 1, 1, Origin::Schedule { instant: sample::later(at(1), 7) });
    if let Event::Started { payload: slot, .. } = &mut new.started {
        *slot = payload.into();
    }
    // A map of the shape of a file stays a map.
    let posed: Map = [("$file", Value::from("not one"))].into_iter().collect();
    let nested: Map =
        [("file", Value::from(file(bytes, Some(TEXT)))), ("posed", Value::from(posed)), (TEXT, Value::Null)]
            .into_iter()
            .collect();
    let events = vec![
        step(TEXT, Value::from(vec![Value::from(nested), Value::from(TEXT), Value::from(Map::new())])),
        Event::Responded {
            at: at(2),
            response: HttpResponse::new(200, "text/plain", vec![0xff, 0x00, 0xfe]),
        },
    ];
    accept(&*store, vec![new.clone()]).await;
    store.append(&append(new.id, 1, events.clone(), Status::Running)).await.expect("it is appended");
    drop(store);
    let store = fixture.open().await;
    let found = store.events(new.id).await.expect("it is read").expect("it is there");
    assert_eq!(found[0], new.started);
    assert_eq!(found[1..], events);
    let row = store.execution(new.id).await.expect("it is read").expect("it is there");
    assert_eq!(row.origin, Origin::Schedule { instant: sample::later(at(1), 7) });
}

pub(super) async fn large(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    let text: String = TEXT.chars().cycle().take(1 << 20).collect();
    let data: Vec<u8> = (0..1_u32 << 20).map(|index| u8::try_from(index % 251).unwrap_or_default()).collect();
    let file = File { content_type: "application/octet-stream".into(), filename: None, data: data.into() };
    let events = vec![step("text", text), step("file", Value::from(file))];
    store.append(&append(id, 1, events.clone(), Status::Running)).await.expect("it is appended");
    let found = store.events(id).await.expect("it is read").expect("it is there");
    assert_eq!(found[1..], events);
}

/// Appends in several rows, of which one has its values outside of it.
pub(super) async fn cut(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let body: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut new = sample::new(&definition, 7, 7);
    let payload = Payload::Webhook(WebhookPayload {
        method: "POST".to_owned(),
        path_fragment: String::new(),
        raw_query: String::new(),
        query_parameters: Map::new(),
        headers: BTreeMap::from([("x-text".to_owned(), "x".repeat(5_000))]),
        code_result: None,
        body: File { content_type: "a/b".into(), filename: None, data: body.into() },
    });
    if let Event::Started { payload: slot, .. } = &mut new.started {
        *slot = payload.into();
    }
    let (started, id) = (new.started.clone(), new.id);
    accept(&*store, vec![new]).await;
    let numbers: Value = (0..100_000_i64).map(Value::from).collect();
    let text: String = TEXT.chars().cycle().take(5_000).collect();
    let parts = Map::from_iter([("id", Value::from(7_i64)), ("text", Value::from(text))]);
    let (small, parts) = (step("small", "x"), step("parts", Value::from(parts)));
    store
        .append(&append(id, 1, vec![small.clone(), step("numbers", numbers)], Status::Running))
        .await
        .expect("it is appended");
    store.append(&append(id, 3, vec![parts], Status::Running)).await.expect("it is appended");
    let whole = store.events(id).await.expect("it is read").expect("it is there");
    assert_eq!(whole[0], started);
    let cut = store.events_cut(id, SMALL_VALUE).await.expect("it is read").expect("it is there");
    assert_eq!((cut.events.len(), &cut.events[1]), (4, &small));
    let kinds: Vec<_> = cut.values.iter().map(|value| value.kind).collect();
    assert_eq!(kinds, ["file", "list", "text"]);
    let (mut shown, expected) = (public(&cut.events), public(&whole));
    put_back(&*store, id, &cut, &mut shown).await;
    assert!(shown == expected, "each value comes back where it was");
}

/// The public form of events.
fn public(events: &[Event]) -> serde_json::Value {
    let stored = serde_json::to_value(events).expect("it is JSON");
    serde_json::from_value::<Value>(stored).expect("it is a value").to_serde()
}

/// Puts the values that were left out back in the place of their markers.
async fn put_back(store: &dyn Store, id: ExecutionId, cut: &CutEvents, shown: &mut serde_json::Value) {
    let mut open = vec![shown];
    while let Some(value) = open.pop() {
        if let Some(found) = cut.find(value) {
            let row = store.history_row(id, found.row).await.expect("it is read").expect("it is there");
            *value = row.read(found).expect("it is there").to_serde();
            continue;
        }
        match value {
            serde_json::Value::Array(items) => open.extend(items.iter_mut()),
            serde_json::Value::Object(entries) => open.extend(entries.values_mut()),
            _ => {}
        }
    }
}

pub(super) async fn numbers(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    let floats = [
        0.1 + 0.2,
        1.0 / 3.0,
        f64::MIN_POSITIVE,
        5e-324,
        f64::MAX,
        -0.0,
        122.416_294_033_786_58,
        1e23,
        2.5e15,
    ];
    let values: Value = [u64::MAX, 9_007_199_254_740_993, 0]
        .into_iter()
        .map(Value::from)
        .chain([i64::MIN, -1].into_iter().map(Value::from))
        .chain(floats.into_iter().map(Value::from))
        .collect();
    let event = step("numbers", values.clone());
    store.append(&append(id, 1, vec![event], Status::Running)).await.expect("it is appended");
    let found = store.events(id).await.expect("it is read").expect("it is there");
    let Some(Event::StepFinished { outcome: model::StepOutcome::Succeeded { result }, .. }) = found.get(1)
    else {
        panic!("the step is there");
    };
    // As text: two floats that are equal may still differ in their last bit of zero.
    assert_eq!(result.to_json(), values.to_json());
}
