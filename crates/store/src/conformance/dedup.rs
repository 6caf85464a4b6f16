//! Rules of deduplication.

use crate::{AcceptOutcome, DedupRecord, NewExecution};

use super::Fixture;
use super::sample::{self, accept, at, end, id, new, one, success, with_key};
use crate::{PruneFilter, PruneRule};

fn named(key: u8, content: Option<u8>, until: i64) -> DedupRecord {
    DedupRecord { key: [key; 32], content: content.map(|byte| [byte; 32]), until: at(until) }
}

fn with(new: NewExecution, sendings: &[DedupRecord]) -> NewExecution {
    NewExecution { dedup: sendings.to_vec(), ..new }
}

pub(super) async fn unique(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let other = sample::definition("invoices", "steps: []");
    store.put_definition(other.clone()).await.expect("it is put");
    let batch = [1, 2].map(|random| with(new(&definition, 1, random), &[named(1, None, 100)]));
    let accepted = accept(&*store, batch.to_vec()).await;
    assert_eq!(accepted, [AcceptOutcome::New, AcceptOutcome::Duplicate(id(1, 1))]);
    assert_eq!(store.execution(id(1, 2)).await.expect("it is read"), None);
    assert_eq!(
        accept(&*store, vec![with(new(&other, 2, 1), &[named(1, None, 100)])]).await,
        [AcceptOutcome::New]
    );
    drop(store);
    let store = fixture.open().await;
    let again = with(new(&definition, 3, 1), &[named(1, None, 100)]);
    assert_eq!(accept(&*store, vec![again]).await, [AcceptOutcome::Duplicate(id(1, 1))]);
    let sent = store.find_dedup(&definition.automation, [1; 32], at(3)).await.expect("it is read");
    assert_eq!(sent.map(|sent| sent.execution), Some(id(1, 1)));
}

pub(super) async fn content(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    accept(&*store, vec![with(new(&definition, 1, 1), &[named(1, Some(7), 100)])]).await;
    let batch =
        [Some(7), Some(8), None].map(|content| with(new(&definition, 2, 1), &[named(1, content, 100)]));
    let expected = [
        AcceptOutcome::Duplicate(id(1, 1)),
        AcceptOutcome::Mismatch(id(1, 1)),
        // Without a content hash.
        AcceptOutcome::Duplicate(id(1, 1)),
    ];
    assert_eq!(accept(&*store, batch.to_vec()).await, expected);
}

pub(super) async fn none_is_left_taken(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    accept(&*store, vec![with(with_key(&definition, 1, 1, "k"), &[named(1, None, 100)])]).await;
    // First the second of its records is taken, then its key.
    let two = [named(2, None, 100), named(1, None, 100)];
    let refused = accept(&*store, vec![with(new(&definition, 2, 1), &two)]).await;
    assert_eq!(refused, [AcceptOutcome::Duplicate(id(1, 1))]);
    let refused = accept(&*store, vec![with(with_key(&definition, 2, 2, "k"), &[named(2, None, 100)])]).await;
    assert_eq!(refused, [AcceptOutcome::Duplicate(id(1, 1))]);
    let accepted = accept(&*store, vec![with(new(&definition, 3, 1), &[named(2, None, 100)])]).await;
    assert_eq!(accepted, [AcceptOutcome::New], "the name was not left taken");
}

pub(super) async fn until_its_end(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    accept(&*store, vec![with(new(&definition, 1, 1), &[named(1, None, 10), named(2, None, 50)])]).await;
    end(&*store, id(1, 1), 2, success()).await;
    let all = PruneFilter::new(PruneRule::EndedBefore(at(5)));
    assert_eq!(store.prune(all, 100).await.expect("it prunes"), 1);
    let sent = |key, now| store.find_dedup(&definition.automation, [key; 32], at(now));
    assert!(sent(1, 9).await.expect("it is read").is_some(), "it outlives its execution");
    assert!(sent(1, 10).await.expect("it is read").is_none(), "its time is over");
    assert_eq!(store.prune_dedup(at(10), 100).await.expect("it prunes"), 0);
    let again = accept(&*store, vec![with(new(&definition, 10, 1), &[named(1, None, 90)])]).await;
    assert_eq!(again, [AcceptOutcome::New]);
    assert_eq!(sent(1, 11).await.expect("it is read").map(|sent| sent.execution), Some(id(10, 1)));
    assert_eq!(store.prune_dedup(at(60), 100).await.expect("it prunes"), 1);
    assert!(sent(2, 20).await.expect("it is read").is_none());
    assert!(sent(1, 20).await.expect("it is read").is_some());
}

pub(super) async fn bounded(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (definition, _) = one(&*store).await;
    let many = vec![named(1, None, 10); DedupRecord::MAX + 1];
    let accept =
        crate::Accept { executions: vec![with(new(&definition, 1, 1), &many)], ..crate::Accept::default() };
    assert!(matches!(store.accept(&accept).await, Err(crate::Error::Invalid { .. })));
    // The messages of a batch: all of them are known by the execution that they started, or none.
    let record = |n: usize| {
        let mut key = [7; 32];
        key[..8].copy_from_slice(&n.to_le_bytes());
        DedupRecord { key, content: None, until: at(10) }
    };
    let batch = |numbers: std::ops::Range<usize>| numbers.map(record).collect::<Vec<_>>();
    let first = with(new(&definition, 1, 201), &batch(0..DedupRecord::MAX));
    let second = with(new(&definition, 1, 202), &batch(DedupRecord::MAX - 1..2 * DedupRecord::MAX - 1));
    let third = with(new(&definition, 1, 203), &batch(DedupRecord::MAX..2 * DedupRecord::MAX - 1));
    let accepted = sample::accept(&*store, vec![first, second, third]).await;
    let expected = [AcceptOutcome::New, AcceptOutcome::Duplicate(id(1, 201)), AcceptOutcome::New];
    assert_eq!(accepted, expected);
    assert_eq!(store.prune_dedup(at(11), 1000).await.expect("it prunes"), 999);
    let executions = (1..=200_u8).map(|n| with(new(&definition, 1, n), &[named(n, None, 10)])).collect();
    sample::accept(&*store, executions).await;
    for gone in [90, 90, 20, 0] {
        assert_eq!(store.prune_dedup(at(11), 90).await.expect("it prunes"), gone);
    }
}
