//! Rules of pruning.

use model::{Origin, Status};

use super::Fixture;
use super::sample::{
    accept, append, at, automation, definition, end, failure, id, line, list, new, one, step, success,
    with_key, with_origin,
};
use crate::{
    Accept, AcceptOutcome, Append, ExecutionFilter, OutcomeFilter, PruneFilter, PruneRule, Watermark,
};

fn before(seconds: i64) -> PruneFilter {
    PruneFilter::new(PruneRule::EndedBefore(at(seconds)))
}

pub(super) async fn keeps_keys_and_watermarks(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let watermark =
        Watermark { trigger: automation("orders").into(), schedule: "hourly".into(), instant: at(1) };
    let executions = vec![with_key(&definition, 1, 1, "tick")];
    store
        .accept(&Accept { executions, watermark: Some(watermark.clone()), ..Accept::default() })
        .await
        .expect("it is accepted");
    let logs = vec![line("hello")];
    store
        .append(&Append { logs, ..append(id(1, 1), 1, Vec::new(), Status::Queued) })
        .await
        .expect("it is appended");
    end(&*store, id(1, 1), 2, success()).await;
    assert_eq!(store.prune(before(10), 100).await.expect("it prunes"), 1);
    assert_eq!(store.execution(id(1, 1)).await.expect("it is read"), None);
    assert_eq!(store.events(id(1, 1)).await.expect("it is read"), None);
    assert_eq!(store.logs(id(1, 1), 0, 10).await.expect("they are read"), []);
    drop(store);
    let store = fixture.open().await;
    assert_eq!(store.watermarks().await.expect("they are read"), [watermark]);
    let again = accept(&*store, vec![with_key(&definition, 20, 1, "tick")]).await;
    assert_eq!(again, [AcceptOutcome::Duplicate(id(1, 1))], "a tick never runs twice, however old it is");
}

pub(super) async fn deletes_what_ended_before(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, open) = one(&*store).await;
    accept(&*store, (1..=4).map(|second| new(&definition, second, 0)).collect()).await;
    for (second, ended) in [(1, 10), (2, 20), (3, 5), (4, 9)] {
        end(&*store, id(second, 0), ended, success()).await;
    }
    assert_eq!(store.prune(before(10), 100).await.expect("it prunes"), 2);
    // Executions that ended at or after that time are kept, and the unfinished one.
    assert_eq!(list(&*store, &ExecutionFilter::default()).await, [id(2, 0), id(1, 0), open]);
    assert_eq!(store.unfinished_count().await.expect("it is counted"), 1);
    let events = store.events(id(1, 0)).await.expect("it is read").expect("it is there");
    assert_eq!(events.len(), 2);
    assert_eq!(store.prune(before(10), 100).await.expect("it prunes"), 0);
}

pub(super) async fn obeys_its_filter(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (orders, _) = one(&*store).await;
    let invoices = definition("invoices", "steps: []");
    store.put_definition(invoices.clone()).await.expect("it is put");
    for (definition, random) in [(&orders, 1), (&invoices, 2)] {
        accept(&*store, vec![new(definition, 1, random), new(definition, 2, random)]).await;
        accept(&*store, vec![with_origin(definition, 3, random, Origin::Test)]).await;
        end(&*store, id(1, random), 5, success()).await;
        end(&*store, id(2, random), 5, failure("no")).await;
        end(&*store, id(3, random), 5, success()).await;
    }
    let left = || async { list(&*store, &ExecutionFilter::default()).await.len() };
    assert_eq!(left().await, 7);
    let of = |name: &str| PruneFilter {
        automation: Some(automation(name)),
        outcome: OutcomeFilter::Succeeded,
        ..before(100)
    };
    assert_eq!(store.prune(of("orders"), 100).await.expect("it prunes"), 2);
    let except = PruneFilter { except: vec![automation("invoices")], ..before(100) };
    assert_eq!(store.prune(except, 100).await.expect("it prunes"), 1);
    assert_eq!(left().await, 4);
    assert_eq!(store.prune(before(100), 100).await.expect("it prunes"), 3);
    assert_eq!(left().await, 1);
}

pub(super) async fn all_but_the_newest(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (orders, _) = one(&*store).await;
    let invoices = definition("invoices", "steps: []");
    store.put_definition(invoices.clone()).await.expect("it is put");
    for (definition, random) in [(&orders, 1), (&invoices, 2)] {
        let executions = (1..=9).map(|second| new(definition, second, random));
        accept(&*store, executions.collect()).await;
        for second in 1..=9 {
            let outcome = if second % 3 == 0 { failure("no") } else { success() };
            end(&*store, id(second, random), 20 - second, outcome).await;
        }
    }
    let rule = |count, outcome| PruneFilter { outcome, ..PruneFilter::new(PruneRule::AllButNewest(count)) };
    let of =
        |name: &str| ExecutionFilter { automation: Some(automation(name)), ..ExecutionFilter::default() };
    let left = |name, random| {
        let (store, filter) = (&store, of(name));
        async move {
            let ids = list(&**store, &filter).await;
            (1..=9).filter(|second| ids.contains(&id(*second, random))).collect::<Vec<_>>()
        }
    };
    let orders_only =
        PruneFilter { automation: Some(automation("orders")), ..rule(4, OutcomeFilter::Succeeded) };
    assert_eq!(store.prune(orders_only, 100).await.expect("it prunes"), 2);
    assert_eq!(left("orders", 1).await, [3, 4, 5, 6, 7, 8, 9], "by when they were accepted");
    assert_eq!(left("invoices", 2).await, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(store.prune(rule(1, OutcomeFilter::Unsuccessful), 100).await.expect("it prunes"), 4);
    assert_eq!(left("orders", 1).await, [4, 5, 7, 8, 9]);
    assert_eq!(left("invoices", 2).await, [1, 2, 4, 5, 7, 8, 9]);
    let except = PruneFilter { except: vec![automation("orders")], ..rule(3, OutcomeFilter::Any) };
    assert_eq!(store.prune(except, 100).await.expect("it prunes"), 4);
    assert_eq!(left("invoices", 2).await, [7, 8, 9]);
    assert_eq!(
        store.prune(rule(5, OutcomeFilter::Any), 100).await.expect("it prunes"),
        0,
        "there are no more"
    );
    assert_eq!(store.prune(rule(0, OutcomeFilter::Any), 100).await.expect("it prunes"), 8);
    assert_eq!(list(&*store, &ExecutionFilter::default()).await, [id(0, 0)], "it has not ended");
}

pub(super) async fn oldest_first(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (orders, _) = one(&*store).await;
    let invoices = definition("invoices", "steps: []");
    store.put_definition(invoices.clone()).await.expect("it is put");
    for second in 1..=6 {
        let definition = if second % 2 == 0 { &orders } else { &invoices };
        accept(&*store, vec![new(definition, second, 0)]).await;
        let outcome = if second % 3 == 0 { failure("no") } else { success() };
        end(&*store, id(second, 0), 20 - second, outcome).await;
    }
    let oldest = PruneFilter::new(PruneRule::Oldest);
    assert_eq!(store.prune(oldest.clone(), 4).await.expect("it prunes"), 4);
    let left = [id(6, 0), id(5, 0), id(0, 0)];
    assert_eq!(list(&*store, &ExecutionFilter::default()).await, left, "accepted last, or not ended");
    let invoices = PruneFilter { automation: Some(automation("invoices")), ..oldest };
    assert_eq!(store.prune(invoices, 4).await.expect("it prunes"), 1);
    assert_eq!(list(&*store, &ExecutionFilter::default()).await, [id(6, 0), id(0, 0)]);
}

pub(super) async fn never_the_unfinished(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let open = Status::ALL.into_iter().filter(|status| !status.is_terminal());
    for (second, status) in (1..).zip(open) {
        accept(&*store, vec![with_key(&definition, second, 0, &format!("key {second}"))]).await;
        if status != Status::Queued {
            store.append(&append(id(second, 0), 1, Vec::new(), status)).await.expect("it is appended");
        }
    }
    let all = list(&*store, &ExecutionFilter::default()).await;
    assert_eq!(all.len(), 4);
    for rule in [PruneRule::Oldest, PruneRule::AllButNewest(0), PruneRule::EndedBefore(at(1_000_000))] {
        for outcome in [OutcomeFilter::Any, OutcomeFilter::Succeeded, OutcomeFilter::Unsuccessful] {
            let prune = PruneFilter { outcome, ..PruneFilter::new(rule) };
            assert_eq!(store.prune(prune, 100).await.expect("it prunes"), 0, "{rule:?}");
        }
    }
    assert_eq!(store.prune_keys(at(1_000_000), 100).await.expect("it prunes"), 0);
    assert_eq!(list(&*store, &ExecutionFilter::default()).await, all);
}

pub(super) async fn tidying(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (_, id) = one(&*store).await;
    let events = vec![step("large", "x".repeat(1 << 20)), step("small", "y")];
    store.append(&append(id, 1, events.clone(), Status::Running)).await.expect("it is appended");
    drop(store);
    let store = fixture.open().await;
    assert_eq!(store.collect_garbage().await.expect("it is tidied"), 0);
    let found = store.events(id).await.expect("it is read").expect("it is there");
    assert_eq!(found[1..], events);
    assert_eq!(store.capacity(), crate::Capacity::Ample, "nothing limits it here");
}

pub(super) async fn bounded(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let executions = (1..=300).map(|second| new(&definition, second, 0)).collect();
    accept(&*store, executions).await;
    for second in 1..=300 {
        end(&*store, id(second, 0), 400, success()).await;
    }
    for gone in [130, 130, 40, 0] {
        assert_eq!(store.prune(before(500), 130).await.expect("it prunes"), gone);
    }
}

pub(super) async fn keys_by_age(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let executions = [1, 2, 3, 50].map(|second| with_key(&definition, second, 0, &format!("key {second}")));
    accept(&*store, executions.to_vec()).await;
    for second in [1, 2, 50] {
        end(&*store, id(second, 0), 60, success()).await;
    }
    assert_eq!(store.prune_keys(at(10), 100).await.expect("it prunes"), 0, "their executions are there");
    assert_eq!(store.prune(before(100), 100).await.expect("it prunes"), 3);
    assert_eq!(store.prune_keys(at(10), 1).await.expect("it prunes"), 1);
    assert_eq!(store.prune_keys(at(10), 100).await.expect("it prunes"), 1);
    let again = [1, 2, 3, 50].map(|second| with_key(&definition, 100 + second, 0, &format!("key {second}")));
    let (third, fiftieth) = (AcceptOutcome::Duplicate(id(3, 0)), AcceptOutcome::Duplicate(id(50, 0)));
    assert_eq!(
        accept(&*store, again.to_vec()).await,
        [AcceptOutcome::New, AcceptOutcome::New, third, fiftieth]
    );
}
