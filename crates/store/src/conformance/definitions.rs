//! Rules of definitions.

use model::automation::Level;

use super::Fixture;
use super::sample::{accept, at, definition, end, id, new, success};
use crate::{Accept, Error, PruneFilter, PruneRule, Store};

async fn prune_all(store: &dyn Store) {
    let filter = PruneFilter::new(PruneRule::EndedBefore(at(1000)));
    store.prune(filter, 1000).await.expect("it prunes");
    store.collect_garbage().await.expect("it is tidied");
}

pub(super) async fn while_referenced(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (old, newer) = (definition("orders", "v1"), definition("orders", "v2"));
    store.put_definition(old.clone()).await.expect("it is put");
    accept(&*store, vec![new(&old, 1, 1), new(&old, 1, 2)]).await;
    store.put_definition(newer.clone()).await.expect("it is put");
    let kept = || async { store.definition(old.hash).await.expect("it is read") };
    end(&*store, id(1, 1), 5, success()).await;
    prune_all(&*store).await;
    assert_eq!(kept().await, Some(old.clone()), "an execution that has not ended refers to it");
    end(&*store, id(1, 2), 5, success()).await;
    assert_eq!(kept().await, Some(old.clone()), "nothing goes before it is pruned");
    prune_all(&*store).await;
    assert_eq!(kept().await, None);
    assert_eq!(store.definition(newer.hash).await.expect("it is read"), Some(newer));
}

pub(super) async fn last_put(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (one, other) = (definition("orders", "v1"), definition("orders", "v2"));
    for definition in [&one, &other, &one, &one] {
        store.put_definition(definition.clone()).await.expect("it is put");
    }
    drop(store);
    let store = fixture.open().await;
    prune_all(&*store).await;
    // The next execution may refer to it.
    assert_eq!(store.definition(one.hash).await.expect("it is read"), Some(one));
    assert_eq!(store.definition(other.hash).await.expect("it is read"), None);
}

pub(super) async fn listed(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (one, two) = (definition("orders", "v1"), definition("orders", "v2"));
    for definition in [&one, &two, &definition("invoices", "v1"), &one] {
        store.put_definition(definition.clone()).await.expect("it is put");
    }
    accept(&*store, vec![new(&two, 1, 1), new(&two, 1, 2)]).await;
    let listed = |limit| store.definitions(&one.automation, limit);
    let found: Vec<_> = listed(9).await.expect("it is read");
    let found: Vec<_> = found.iter().map(|found| (found.hash, found.executions)).collect();
    assert_eq!(found, [(one.hash, 0), (two.hash, 2)]);
    assert_eq!(listed(1).await.expect("it is read").len(), 1);
}

pub(super) async fn unknown(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (known, unknown) = (definition("orders", "v1"), definition("orders", "never put"));
    store.put_definition(known.clone()).await.expect("it is put");
    let executions = vec![new(&known, 1, 1), new(&unknown, 1, 2)];
    let refused = store.accept(&Accept { executions, ..Accept::default() }).await;
    assert!(matches!(refused, Err(Error::NoSuchDefinition(hash)) if hash == unknown.hash), "{refused:?}");
    assert_eq!(store.execution(id(1, 1)).await.expect("it is read"), None);
    assert_eq!(store.definition(unknown.hash).await.expect("it is read"), None);
}

pub(super) async fn level(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for level in [Level::FIRST, Level::SECOND, Level::SECOND, Level::FIRST] {
        store.raise_level(level).await.expect("every daemon knows it");
    }
    store.put_definition(definition("orders", "v1")).await.expect("it is put");
    drop(store);
    let store = fixture.open().await;
    assert!(store.definition(definition("orders", "v1").hash).await.expect("it is read").is_some());
    store.raise_level(Level::SECOND).await.expect("it has it");
}
