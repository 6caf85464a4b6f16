//! Own events that wait for a trigger which is not in force, beside triggers that take them.

use model::automation::{AutomationId, TriggerId, TriggerKey};
use model::execution::{ExecutionId, OutboxEvent};
use model::payload::EmittedEvent;
use runtime::Clock as _;
use store::{Accept, OutboxRow};
use value::{Map, Value};

use crate::common::{Project, rows, stop, until_async};

/// More events than the triggers which take some may be ahead of those which could not.
const WAITING: u64 = 2_100;

/// An event with a number, which was to start `test` and an automation that is not there.
fn event(project: &Project, number: u64) -> OutboxRow {
    let trigger = |name: &str| {
        TriggerKey::new(AutomationId::parse(name).expect("an id"), TriggerId::parse("main").expect("an id"))
    };
    let at = project.clock.now();
    let event = EmittedEvent {
        event: "order.paid".to_owned(),
        id: format!("e{number}"),
        sent_at: at,
        by: None,
        data: Value::from(Map::from_iter([("n", Value::from(number))])),
    };
    let consumers = vec![trigger("absent"), trigger("test")];
    let body = OutboxEvent { event, sender: None, step: None, trace: None, test: false, consumers };
    let mut id = [0; 16];
    id[8..].copy_from_slice(&number.to_be_bytes());
    OutboxRow {
        id: ExecutionId::from_bytes(id),
        name: "order.paid".to_owned(),
        body: serde_json::to_string(&body).expect("it is written"),
        at,
    }
}

#[tokio::test]
async fn events_that_wait_for_a_trigger_which_is_not_in_force_stop_no_later_one() {
    let last = WAITING - 1;
    let project = Project::with(&format!(
        "trigger: {{event: order.paid, if: event.data.n == {last}}}\nsteps: [{{set: {{x: 1}}}}]\n"
    ));
    let store = project.open_store();
    let emits = (0..WAITING).map(|number| event(&project, number)).collect();
    store.accept(&Accept { emits, ..Accept::default() }).await.expect("they are stored");
    let engine = project.start_on(store).await;
    until_async(async || rows(&engine).await.len() == 1).await;
    let left = engine.store().outbox_counts().await.expect("they are counted");
    assert_eq!(left.iter().map(|count| count.rows).sum::<u64>(), WAITING, "they wait for `absent`");
    stop(engine).await;
}
