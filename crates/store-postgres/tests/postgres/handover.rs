//! Executions that a node hands over to another one, on a server and in memory.

use std::sync::Arc;

use model::{ExecutionId, Status};
use store::memory::{FaultPlan, Faults, Operation};
use store::{Append, Memory, NewExecution, NodeId, Store};

use crate::{accept, definition, folder, new, open, server, step};

struct NoFaults;

impl Faults for NoFaults {
    fn plan(&self, _: Operation<'_>) -> FaultPlan {
        FaultPlan::NONE
    }
}

fn node(store: &Arc<dyn Store>) -> NodeId {
    store.node().expect("it has joined")
}

async fn handed(store: &Arc<dyn Store>) -> Vec<ExecutionId> {
    store.handed().await.expect("they are read").iter().map(|handed| handed.row.id).collect()
}

/// Checks the rules of a handover on two nodes of one store.
async fn keeps_the_rules(one: Arc<dyn Store>, other: Arc<dyn Store>) {
    let definition = definition(&*one).await;
    let queued = |number| NewExecution { starts_running: false, ..new(&definition, number) };
    for number in 1..4 {
        accept(&*one, queued(number)).await.expect("it is accepted");
    }
    accept(&*one, new(&definition, 4)).await.expect("it is accepted");
    one.take_shards().await.expect("they are taken");
    other.take_shards().await.expect("they are taken");
    accept(&*one, NewExecution { gated: true, ..queued(5) }).await.expect("it is accepted");
    let (first, second, third) = (queued(1).id, queued(2).id, queued(3).id);
    // A running execution, and a gated execution whose shard the other node may own.
    let (running, gated) = (queued(4).id, queued(5).id);
    let gate_owner = one.owner(gated).await.expect("it is read");
    let kept = one.give(node(&other), vec![second, running, gated]).await.expect("it is asked");
    let own_gated = gate_owner == one.node();
    assert_eq!(kept.contains(&gated), own_gated, "a gated one stays with its shard");
    assert_eq!((kept.contains(&running), kept.contains(&second)), (true, false));
    assert_eq!(one.owner(second).await.expect("it is read"), other.node());
    let is_here = handed(&other).await;
    assert!(is_here.contains(&second) && !is_here.contains(&running), "{is_here:?}");
    // Again, as after a lost answer.
    assert!(one.give(node(&other), vec![second]).await.expect("it is asked").is_empty());
    let append = Append { events: vec![step(1)], ..Append::new(second, 1, Status::Running) };
    other.confirm_handed(vec![second]).await.expect("it is confirmed");
    other.append(&append).await.expect("it is its own");
    // A started execution is not handed back.
    assert_eq!(other.give(node(&one), vec![second]).await.expect("it is asked"), [second]);
    // Nothing goes to a node that is not there.
    let nobody = NodeId(node(&other).0 + 1000);
    assert_eq!(one.give(nobody, vec![first]).await.expect("it is asked"), [first]);
    // One whose node dies before it has it in memory is taken over.
    assert!(one.give(node(&other), vec![third]).await.expect("it is asked").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unstarted_execution_is_handed_to_a_live_node_and_never_orphaned() {
    let server = server();
    let (space, first, second) = (server.space(), folder(), folder());
    let (one, other) = (open(&space, &first), open(&space, &second));
    keeps_the_rules(one.clone(), other.clone()).await;
    let gone = node(&other);
    other.close().await.expect("it closes");
    let definition = definition(&*one).await;
    assert_eq!(one.give(gone, vec![new(&definition, 1).id]).await.expect("it is asked").len(), 1);
    while one.take_over(None).await.expect("it takes over").is_some() {}
    assert!(handed(&one).await.contains(&new(&definition, 3).id));
}

#[tokio::test]
async fn the_in_memory_store_hands_over_by_the_same_rules() {
    let memory = Memory::default();
    let join = || memory.join(Arc::new(NoFaults));
    let ((_, one), (gone, other)) = (join(), join());
    keeps_the_rules(one.clone(), other).await;
    memory.declare_dead(gone);
    let definition = definition(&*one).await;
    assert_eq!(one.give(gone, vec![new(&definition, 1).id]).await.expect("it is asked").len(), 1);
    while one.take_over(None).await.expect("it takes over").is_some() {}
    assert!(handed(&one).await.contains(&new(&definition, 3).id));
}
