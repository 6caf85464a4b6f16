//! Rules of durability.

use model::{ExecutionId, Status};

use super::Fixture;
use super::sample::{self, accept, append, end, failure, finished, id, line, one, step, success};
use crate::{Accept, Error, InitialEvents, Watermark};

pub(super) async fn accept_is_durable(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, id) = one(&*store).await;
    drop(store);
    let store = fixture.open().await;
    let events = store.events(id).await.expect("it is read").expect("it is there");
    assert_eq!(events, [sample::new(&definition, 0, 0).started]);
    let row = store.execution(id).await.expect("it is read").expect("it is there");
    assert_eq!((row.status, row.events, row.automation), (Status::Queued, 1, definition.automation.clone()));
    assert_eq!(row.started_at, sample::at(0));
    assert_eq!(store.definition(definition.hash).await.expect("it is read"), Some(definition.clone()));
    let begun = crate::NewExecution { starts_running: true, ..sample::new(&definition, 1, 2) };
    let id = begun.id;
    store.accept(&Accept { executions: vec![begun], ..Accept::default() }).await.expect("it is accepted");
    let row = store.execution(id).await.expect("it is read").expect("it is there");
    assert_eq!(row.status, Status::Running, "what begins at once is never listed as queued");
}

pub(super) async fn accepted_with_what_happened(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let definition = sample::definition("orders", "steps: []");
    store.put_definition(definition.clone()).await.expect("it is put");
    let new = |random, events, lines: u32| crate::NewExecution {
        starts_running: true,
        initial: InitialEvents {
            events,
            logs: (0..lines).map(|number| line(&number.to_string())).collect(),
            ..InitialEvents::default()
        },
        ..sample::new(&definition, 1, random)
    };
    let (running, ended) =
        (vec![step("first", 1_u32)], vec![step("first", 1_u32), finished(9, failure("no"))]);
    let executions = vec![new(1, running.clone(), 0), new(2, ended.clone(), 2)];
    accept(&*store, executions).await;
    store
        .append(&append(id(1, 1), 2, vec![step("second", 2_u32)], Status::Running))
        .await
        .expect("it goes on");
    drop(store);
    let store = fixture.open().await;
    let row = async |id| store.execution(id).await.expect("it is read").expect("it is there");
    let events = async |id| store.events(id).await.expect("they are read").expect("they are there");
    assert_eq!(events(id(1, 1)).await[1..], [running[0].clone(), step("second", 2_u32)]);
    assert_eq!(events(id(1, 2)).await[1..], ended);
    let (first, second) = (row(id(1, 1)).await, row(id(1, 2)).await);
    assert_eq!((first.status, first.events, first.finished_at), (Status::Running, 3, None));
    assert_eq!((second.status, second.events, second.error.as_deref()), (Status::Failed, 3, Some("no")));
    assert_eq!(second.finished_at, Some(sample::at(9)));
    let logs = store.logs(id(1, 2), 1, 10).await.expect("they are read");
    assert_eq!(logs.iter().map(|line| line.message.as_str()).collect::<Vec<_>>(), ["1"]);
    assert_eq!(store.unfinished_count().await.expect("they are counted"), 1);
    // Later writes apply to these executions too.
    let filter = crate::ExecutionFilter { status: vec![Status::Failed], ..crate::ExecutionFilter::default() };
    let page = crate::Page { before: None, limit: 10 };
    assert_eq!(store.executions(&filter, page).await.expect("they are listed"), [second]);
}

pub(super) async fn append_is_durable(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    let events = vec![step("first", 1_u32), step("second", "two")];
    store.append(&append(id, 1, events.clone(), Status::Running)).await.expect("it is appended");
    drop(store);
    let store = fixture.open().await;
    let found = store.events(id).await.expect("it is read").expect("it is there");
    assert_eq!(found[1..], events);
}

pub(super) async fn close_finishes_the_queue(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let appends: Vec<_> = (1..=50)
        .map(|random| {
            let (store, new) = (store.clone(), sample::new(&definition, 1, random));
            tokio::spawn(
                async move { store.accept(&Accept { executions: vec![new], ..Accept::default() }).await },
            )
        })
        .collect();
    store.close().await.expect("it closes");
    let mut kept = Vec::new();
    for (random, accepting) in (1..=50).zip(appends) {
        match accepting.await.expect("no panic") {
            Ok(_) => kept.push(id(1, random)),
            Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
        }
    }
    drop(store);
    let store = fixture.open().await;
    for id in kept {
        assert!(store.execution(id).await.expect("it is read").is_some(), "{id} was answered and is gone");
    }
}

pub(super) async fn nothing_after_close(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, id) = one(&*store).await;
    store.close().await.expect("it closes");
    store.close().await.expect("closing again changes nothing");
    let late =
        store.accept(&Accept { executions: vec![sample::new(&definition, 1, 1)], ..Accept::default() }).await;
    assert!(matches!(late, Err(Error::Closed)), "{late:?}");
    assert!(matches!(store.events(id).await, Err(Error::Closed)));
}

pub(super) async fn unfinished(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, first) = one(&*store).await;
    accept(&*store, (1..=6).map(|second| sample::new(&definition, second, 0)).collect()).await;
    let test = sample::with_origin(&definition, 9, 0, model::Origin::Test);
    accept(&*store, vec![test]).await;
    end(&*store, id(2, 0), 20, success()).await;
    end(&*store, id(4, 0), 20, failure("broken")).await;
    let watermark = Watermark {
        trigger: definition.automation.clone().into(),
        schedule: "s".into(),
        instant: sample::at(5),
    };
    store
        .accept(&Accept { watermark: Some(watermark.clone()), ..Accept::default() })
        .await
        .expect("it is put");
    store
        .append(&append(id(3, 0), 1, vec![step("first", 1_u32)], Status::Running))
        .await
        .expect("it is appended");
    drop(store);

    let store = fixture.open().await;
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 6);
    assert_eq!(store.watermarks().await.expect("they are read"), [watermark]);
    let mut found: Vec<ExecutionId> = Vec::new();
    loop {
        let page = store.unfinished(found.last().copied(), 2).await.expect("it is read");
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        found.extend(page.into_iter().map(|row| row.id));
    }
    assert_eq!(found, [first, id(1, 0), id(3, 0), id(5, 0), id(6, 0), id(9, 0)]);
}
