//! Rules of lists: order, pages and filters.

use std::collections::BTreeSet;

use model::{ExecutionId, Origin, Outcome, Status};

use super::Fixture;
use super::sample::{
    self, accept, at, automation, end, failure, later, list, new, one, success, with_origin,
};
use crate::{Append, ExecutionFilter, ExecutionRow, Page, Store};

pub(super) async fn stable_pages(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    accept(&*store, (1..40).map(|second| new(&definition, second, 0)).collect()).await;
    let before: Vec<ExecutionId> = list(&*store, &ExecutionFilter::default()).await;
    assert_eq!(before, (0..40).rev().map(|second| sample::id(second, 0)).collect::<Vec<_>>());
    for filter in [ExecutionFilter::default(), filter_by_automation("orders")] {
        let mut found = Vec::new();
        for turn in 0.. {
            let page = Page { before: found.last().copied(), limit: 7 };
            let rows = store.executions(&filter, page).await.expect("it is listed");
            if rows.is_empty() {
                break;
            }
            found.extend(rows.into_iter().map(|row| row.id));
            // Newer executions are accepted between two pages.
            accept(&*store, vec![new(&definition, 100 + turn, u8::from(filter.automation.is_some()))]).await;
        }
        let found: Vec<_> = found.into_iter().filter(|id| *id < sample::id(100, 0)).collect();
        assert_eq!(found, before);
    }
}

fn filter_by_automation(name: &str) -> ExecutionFilter {
    ExecutionFilter { automation: Some(automation(name)), ..ExecutionFilter::default() }
}

/// Accepts executions of two Automations in every status, real and as tests.
async fn many(store: &dyn Store) -> Vec<ExecutionRow> {
    let mut ids = Vec::new();
    let mut second = 0;
    for name in ["orders", "invoices"] {
        let definition = sample::definition(name, "steps: []");
        store.put_definition(definition.clone()).await.expect("it is put");
        for origin in [Origin::Webhook, Origin::Test, Origin::Schedule { instant: at(3) }] {
            for status in Status::ALL {
                second += 1;
                let id = sample::id(second, 0);
                ids.push(id);
                accept(store, vec![with_origin(&definition, second, 0, origin.clone())]).await;
                let running = sample::append(id, 1, vec![sample::step("a", 1_u32)], Status::Running);
                match status {
                    Status::Queued => {}
                    Status::Running => store.append(&running).await.expect("it is appended"),
                    Status::Waiting => {
                        store.append(&Append { status, ..running }).await.expect("it is appended");
                    }
                    Status::Succeeded => end(store, id, 50, success()).await,
                    Status::Failed => end(store, id, 50, failure("no")).await,
                    Status::Cancelled => end(store, id, 50, Outcome::Cancelled { reason: "x".into() }).await,
                    Status::Stuck => {
                        let Outcome::Failed { error } = failure("again") else { unreachable!("it failed") };
                        end(store, id, 50, Outcome::Stuck { error }).await;
                    }
                }
            }
        }
    }
    let mut rows = Vec::new();
    for id in ids {
        rows.push(store.execution(id).await.expect("it is read").expect("it is there"));
    }
    rows
}

pub(super) async fn filters(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let rows = many(&*store).await;
    let mut seen = BTreeSet::new();
    for automation in [None, Some("orders"), Some("invoices"), Some("unknown")] {
        for test in [None, Some(true), Some(false)] {
            // Every set of statuses.
            for states in 0..128_u8 {
                let chosen = |index: &usize| states & (1 << *index) != 0;
                let status: Vec<Status> = (0..7).filter(chosen).map(|index| Status::ALL[index]).collect();
                let automation = automation.map(sample::automation);
                let filter = ExecutionFilter { automation, status, test, ..ExecutionFilter::default() };
                let found = list(&*store, &filter).await;
                let mut wanted: Vec<ExecutionId> =
                    rows.iter().filter(|row| fits(&filter, row)).map(|row| row.id).collect();
                wanted.reverse();
                assert_eq!(found, wanted, "{filter:?}");
                let count = store.count_executions(&filter, 40).await.expect("they are counted");
                assert_eq!(count as usize, wanted.len().min(40), "{filter:?}");
                seen.insert(found.len());
            }
        }
    }
    assert!(seen.contains(&42) && seen.contains(&1), "the filters tell them apart");
}

fn fits(filter: &ExecutionFilter, row: &ExecutionRow) -> bool {
    filter.automation.as_ref().is_none_or(|automation| *automation == row.automation)
        && (filter.status.is_empty() || filter.status.contains(&row.status))
        && filter.test.is_none_or(|test| test == row.origin.is_test())
        && filter.since.is_none_or(|since| row.started_at >= since)
        && filter.until.is_none_or(|until| row.started_at < until)
}

pub(super) async fn replays(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, of) = one(&*store).await;
    let origin = |of, kept, test| Origin::Replay { of, from: (kept > 0).then(|| "b".to_owned()), kept, test };
    let whole = with_origin(&definition, 1, 0, origin(of, 0, true));
    let mut from_step = with_origin(&definition, 2, 0, origin(of, 1, false));
    from_step.initial.events = vec![sample::step("a", 1_u32)];
    let other = with_origin(&definition, 3, 0, origin(whole.id, 0, false));
    let ids = [whole.id, from_step.id];
    accept(&*store, vec![whole, from_step, other]).await;
    let filter = ExecutionFilter { replay_of: Some(of), ..ExecutionFilter::default() };
    assert_eq!(list(&*store, &filter).await, [ids[1], ids[0]]);
    assert_eq!(store.count_executions(&filter, 1000).await.expect("they are counted"), 2);
    let tests =
        ExecutionFilter { test: Some(true), automation: Some(automation("orders")), ..filter.clone() };
    assert_eq!(list(&*store, &tests).await, [ids[0]]);
    let failed = ExecutionFilter { status: vec![Status::Failed], ..filter };
    assert_eq!(list(&*store, &failed).await, []);
    // Events copied from the replayed execution are no progress: the execution is still queued.
    let row = store.execution(ids[1]).await.expect("it is read").expect("it is there");
    assert_eq!((row.status, row.events), (Status::Queued, 2));
}

pub(super) async fn started_by_events(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, sender) = one(&*store).await;
    let emitted = |sender: Option<ExecutionId>, step: &str, test| Origin::Emitted {
        event: "paid".to_owned(),
        id: format!("a.{step}"),
        sender,
        step: Some(step.to_owned()),
        test,
        trace: None,
    };
    let mut first = with_origin(&definition, 1, 0, emitted(Some(sender), "send", false));
    first.initial.events = vec![sample::step("a", 1_u32), sample::finished(5, success())];
    let second = with_origin(&definition, 2, 0, emitted(Some(sender), "send[1]", true));
    let replay =
        with_origin(&definition, 3, 0, Origin::Replay { of: sender, from: None, kept: 0, test: false });
    let outside = with_origin(&definition, 4, 0, emitted(None, "send", false));
    let next = with_origin(&definition, 5, 0, emitted(Some(first.id), "send", false));
    let (ids, replay_id) = ([first.id, second.id], replay.id);
    accept(&*store, vec![first, second, replay, outside, next]).await;
    let filter = ExecutionFilter { sender: Some(sender), ..ExecutionFilter::default() };
    assert_eq!(list(&*store, &filter).await, [ids[1], ids[0]]);
    assert_eq!(store.count_executions(&filter, 1000).await.expect("they are counted"), 2);
    let page = Page { before: Some(ids[1]), limit: 1 };
    let rows = store.executions(&filter, page).await.expect("it is listed");
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [ids[0]]);
    let ended = ExecutionFilter { status: vec![Status::Succeeded], test: Some(false), ..filter };
    assert_eq!(list(&*store, &ended).await, [ids[0]]);
    let replays = ExecutionFilter { replay_of: Some(sender), ..ExecutionFilter::default() };
    assert_eq!(list(&*store, &replays).await, [replay_id]);
}

pub(super) async fn times(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    for nanoseconds in [1_000_001, 1_000_002, 1_999_999, 2_000_000] {
        let time = later(at(5), nanoseconds);
        let mut new = new(&definition, 5, 0);
        new.id = ExecutionId::new(time, [u8::try_from(nanoseconds % 251).expect("it fits"); 10]);
        if let model::Event::Started { at, .. } = &mut new.started {
            *at = time;
        }
        accept(&*store, vec![new]).await;
    }
    let count = |since: Option<i64>, until: Option<i64>| {
        let time = |nanoseconds| later(at(5), nanoseconds);
        let filter =
            ExecutionFilter { since: since.map(time), until: until.map(time), ..ExecutionFilter::default() };
        let store = store.clone();
        async move {
            let all = list(&*store, &filter).await.len();
            let filter = ExecutionFilter { automation: Some(automation("orders")), ..filter };
            assert_eq!(list(&*store, &filter).await.len(), all);
            all
        }
    };
    assert_eq!(count(None, None).await, 5);
    assert_eq!(count(Some(0), None).await, 4);
    assert_eq!(count(Some(1_000_002), None).await, 3);
    assert_eq!(count(Some(1_000_002), Some(2_000_000)).await, 2);
    assert_eq!(count(Some(1_000_003), Some(1_999_999)).await, 0);
    assert_eq!(count(None, Some(1_000_002)).await, 2);
    assert_eq!(count(Some(2_000_001), None).await, 0);
}

pub(super) async fn bounded(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    for second in 1..=11 {
        accept(&*store, (0..100).map(|random| new(&definition, second, random)).collect()).await;
    }
    for filter in [ExecutionFilter::default(), filter_by_automation("orders")] {
        let rows =
            store.executions(&filter, Page { before: None, limit: u32::MAX }).await.expect("it is listed");
        assert_eq!(rows.len(), 1000);
        let rows = store.executions(&filter, Page { before: None, limit: 0 }).await.expect("it is listed");
        assert_eq!(rows, []);
    }
    assert_eq!(store.unfinished(None, u32::MAX).await.expect("it is listed").len(), 1000);
}
