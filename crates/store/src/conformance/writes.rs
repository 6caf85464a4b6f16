//! Rules of writes and their refusal.

use std::collections::HashSet;

use model::{Event, ExecutionId, Status};

use super::Fixture;
use super::sample::{
    self, accept, append, at, end, failure, finished, id, line, new, one, step, success, with_key,
};
use crate::{Accept, AcceptOutcome, Address, Append, Error, Watermark};

pub(super) async fn accept_is_atomic(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, taken) = one(&*store).await;
    let watermark =
        Watermark { trigger: definition.automation.clone().into(), schedule: "s".into(), instant: at(7) };
    // The second has an id that is taken.
    let executions = vec![with_key(&definition, 5, 5, "fresh"), new(&definition, 0, 0)];
    let refused = store.accept(&Accept { executions, watermark: Some(watermark), ..Accept::default() }).await;
    assert!(matches!(refused, Err(Error::AlreadyExists(id)) if id == taken), "{refused:?}");
    assert_eq!(store.execution(id(5, 5)).await.expect("it is read"), None);
    assert_eq!(store.watermarks().await.expect("they are read"), []);
    let accepted = accept(&*store, vec![with_key(&definition, 6, 6, "fresh")]).await;
    assert_eq!(accepted, [AcceptOutcome::New], "the key was not left taken");

    let unstarted = crate::NewExecution { started: finished(1, success()), ..new(&definition, 8, 8) };
    let refused = store.accept(&Accept { executions: vec![unstarted], ..Accept::default() }).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
}

pub(super) async fn keys_are_unique(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let other = sample::definition("invoices", "steps: []");
    store.put_definition(other.clone()).await.expect("it is put");
    let accepted =
        accept(&*store, vec![with_key(&definition, 1, 1, "k"), with_key(&definition, 1, 2, "k")]).await;
    assert_eq!(accepted, [AcceptOutcome::New, AcceptOutcome::Duplicate(id(1, 1))]);
    let accepted = accept(&*store, vec![with_key(&definition, 2, 1, "k"), new(&definition, 2, 2)]).await;
    assert_eq!(accepted, [AcceptOutcome::Duplicate(id(1, 1)), AcceptOutcome::New]);
    assert_eq!(store.execution(id(2, 1)).await.expect("it is read"), None);
    assert_eq!(store.events(id(1, 2)).await.expect("it is read"), None);
    // Keys belong to one Automation.
    assert_eq!(accept(&*store, vec![with_key(&other, 3, 1, "k")]).await, [AcceptOutcome::New]);
    drop(store);
    let store = fixture.open().await;
    assert_eq!(
        accept(&*store, vec![with_key(&definition, 4, 1, "k")]).await,
        [AcceptOutcome::Duplicate(id(1, 1))]
    );
}

pub(super) async fn keys_are_unique_under_load(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let racers: Vec<_> = (1..=100)
        .map(|random| {
            let (store, new) = (store.clone(), with_key(&definition, 1, random, "the tick"));
            tokio::spawn(
                async move { store.accept(&Accept { executions: vec![new], ..Accept::default() }).await },
            )
        })
        .collect();
    let (mut winners, mut named) = (Vec::new(), HashSet::new());
    for (random, racer) in (1..=100).zip(racers) {
        match racer.await.expect("no panic").expect("it is answered")[..] {
            [AcceptOutcome::New] => winners.push(id(1, random)),
            [AcceptOutcome::Duplicate(id)] => {
                named.insert(id);
            }
            ref other => panic!("one answer for one execution, not {other:?}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(named, HashSet::from([winners[0]]));
}

pub(super) async fn watermark_with_executions(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let mark = |schedule: &str, seconds| Watermark {
        trigger: definition.automation.clone().into(),
        schedule: schedule.to_owned(),
        instant: sample::later(at(seconds), 17),
    };
    for (schedule, seconds) in [("hourly", 10), ("hourly", 20), ("daily", 15)] {
        let executions = vec![new(&definition, seconds, 0)];
        let accept = Accept { executions, watermark: Some(mark(schedule, seconds)), ..Accept::default() };
        store.accept(&accept).await.expect("it is accepted");
        assert_eq!(store.watermarks().await.expect("they are read"), [mark(schedule, seconds)]);
        assert!(store.execution(id(seconds, 0)).await.expect("it is read").is_some());
    }
}

pub(super) async fn conflict(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    store
        .append(&append(id, 1, vec![step("a", 1_u32), step("b", 2_u32)], Status::Running))
        .await
        .expect("it is appended");
    let before = store.events(id).await.expect("it is read");
    for (first, status) in
        [(0, Status::Running), (1, Status::Running), (2, Status::Succeeded), (4, Status::Failed)]
    {
        let late =
            Append { logs: vec![line("late")], ..append(id, first, vec![step("late", 0_u32)], status) };
        let refused = store.append(&late).await;
        assert!(
            matches!(refused, Err(Error::Conflict { execution, expected, found: 3 }) if execution == id && expected == first),
            "{refused:?}"
        );
    }
    let lines_only = Append { logs: vec![line("late")], ..append(id, 2, Vec::new(), Status::Running) };
    assert!(matches!(store.append(&lines_only).await, Err(Error::Conflict { .. })));
    assert_eq!(store.events(id).await.expect("it is read"), before);
    assert_eq!(store.logs(id, 0, 10).await.expect("they are read"), []);
    let row = store.execution(id).await.expect("it is read").expect("it is there");
    assert_eq!((row.status, row.events), (Status::Running, 3));

    let unknown = store.append(&append(sample::id(99, 9), 1, vec![step("a", 1_u32)], Status::Running)).await;
    assert!(matches!(unknown, Err(Error::NoSuchExecution(_))), "{unknown:?}");
}

pub(super) async fn refusals_stay_alone(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, taken) = one(&*store).await;
    let other = sample::definition("never-put", "steps: []");
    let writes: Vec<_> = (1..=120_u8)
        .map(|random| {
            let new = match random % 4 {
                0 => new(&other, 1, random),
                1 => crate::NewExecution {
                    id: taken,
                    ..with_key(&definition, 1, random, &format!("key {random}"))
                },
                _ => with_key(&definition, 1, random, &format!("key {random}")),
            };
            let store = store.clone();
            tokio::spawn(
                async move { store.accept(&Accept { executions: vec![new], ..Accept::default() }).await },
            )
        })
        .collect();
    for (random, write) in (1..=120_u8).zip(writes) {
        let answer = write.await.expect("no panic");
        let there = store.execution(id(1, random)).await.expect("it is read").is_some();
        match random % 4 {
            0 => assert!(matches!(answer, Err(Error::NoSuchDefinition(_))) && !there, "{random}: {answer:?}"),
            1 => assert!(matches!(answer, Err(Error::AlreadyExists(_))) && !there, "{random}: {answer:?}"),
            _ => assert!(
                matches!(answer.as_deref(), Ok([AcceptOutcome::New])) && there,
                "{random}: {answer:?}"
            ),
        }
    }
}

pub(super) async fn order(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, first) = one(&*store).await;
    let second = id(1, 0);
    accept(&*store, vec![new(&definition, 1, 0)]).await;
    let mut next = 1;
    for turn in 0..40_u32 {
        for id in [first, second] {
            let events: Vec<Event> =
                (0..=turn % 3).map(|part| step(&format!("s{turn}[{part}]"), part)).collect();
            store.append(&append(id, next, events, Status::Running)).await.expect("it is appended");
        }
        next += turn % 3 + 1;
    }
    for id in [first, second] {
        let events = store.events(id).await.expect("it is read").expect("it is there");
        let found: Vec<&str> = events
            .iter()
            .filter_map(
                |event| if let Event::StepFinished { step, .. } = event { Some(step.as_str()) } else { None },
            )
            .collect();
        let wanted: Vec<String> =
            (0..40_u32).flat_map(|turn| (0..=turn % 3).map(move |part| format!("s{turn}[{part}]"))).collect();
        assert_eq!(found, wanted);
    }
    assert_eq!(store.events(id(50, 0)).await.expect("it is read"), None);
}

pub(super) async fn row_follows(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    let row = |id: ExecutionId| {
        let store = store.clone();
        async move { store.execution(id).await.expect("it is read").expect("it is there") }
    };
    store.append(&append(id, 1, vec![step("a", 1_u32)], Status::Running)).await.expect("it is appended");
    let running = row(id).await;
    assert_eq!(
        (running.status, running.finished_at, running.error, running.events),
        (Status::Running, None, None, 2)
    );

    let message = "ü".repeat(600);
    let events = vec![step("b", 2_u32), finished(30, failure(&message))];
    store.append(&append(id, 2, events, Status::Failed)).await.expect("it is appended");
    let failed = row(id).await;
    assert_eq!((failed.status, failed.finished_at, failed.events), (Status::Failed, Some(at(30)), 4));
    assert_eq!(failed.error, Some("ü".repeat(500)));

    // Log lines after the end change nothing else.
    let lines = Append { logs: vec![line("late")], ..append(id, 4, Vec::new(), Status::Failed) };
    store.append(&lines).await.expect("it is appended");
    assert_eq!(row(id).await, failed);
    assert_eq!(store.logs(id, 0, 10).await.expect("they are read"), [line("late")]);

    // The store does not restrict appends after an end.
    store.append(&append(id, 4, vec![step("c", 3_u32)], Status::Running)).await.expect("it is appended");
    let again = row(id).await;
    assert_eq!(
        (again.status, again.finished_at, again.error, again.events),
        (Status::Running, None, None, 5)
    );
    store
        .append(&append(id, 5, vec![finished(40, success())], Status::Succeeded))
        .await
        .expect("it is appended");
    let ended = row(id).await;
    assert_eq!((ended.status, ended.finished_at, ended.error), (Status::Succeeded, Some(at(40)), None));

    let other = sample::id(1, 1);
    accept(&*store, vec![new(&sample::definition("orders", "steps: []"), 1, 1)]).await;
    end(&*store, other, 31, model::Outcome::Cancelled { reason: "by hand".to_owned() }).await;
    assert_eq!(row(other).await.error.as_deref(), Some("by hand"));
}

pub(super) async fn addresses(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let address = |name: &str, live: &str| Address {
        trigger: sample::trigger(name),
        live: live.to_owned(),
        test: format!("{live}-test"),
    };
    store.put_addresses(vec![address("b", "1"), address("a", "2")]).await.expect("they are put");
    store.put_addresses(vec![address("b", "3")]).await.expect("it is put");
    drop(store);
    let store = fixture.open().await;
    let mut found = store.addresses().await.expect("they are read");
    found.sort_by(|one, other| one.trigger.cmp(&other.trigger));
    assert_eq!(found, [address("a", "2"), address("b", "3")]);
}

pub(super) async fn logs(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    let mut next = 0;
    for count in [3, 1, 5, 2] {
        let logs = (next..next + count).map(|index| line(&format!("line {index}"))).collect();
        store
            .append(&Append { logs, ..append(id, 1, Vec::new(), Status::Queued) })
            .await
            .expect("it is appended");
        next += count;
    }
    for after in 0..=12 {
        for limit in [0, 1, 4, 100] {
            let found = store.logs(id, after, limit).await.expect("they are read");
            let wanted: Vec<_> =
                (after..11).take(limit as usize).map(|index| line(&format!("line {index}"))).collect();
            assert_eq!(found, wanted, "from {after}, at most {limit}");
        }
    }
    assert_eq!(store.logs(sample::id(9, 9), 0, 10).await.expect("they are read"), []);
}
