//! Own events that wait for a trigger which is not in force, beside triggers that take them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use model::automation::{AutomationId, TriggerId, TriggerKey};
use model::execution::{ExecutionId, Origin, OutboxEvent};
use model::payload::{EmittedEvent, Payload};
use runtime::{Clock as _, ManualStart};
use store::{Accept, OutboxRow};
use value::{Map, Value};

use crate::common::{Project, pass, rows, stop, until_async};
use crate::watched::Watched;

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

/// The pages of the outbox that a pass over all events reads, at least.
const ALL_PAGES: u64 = WAITING / 128;

#[tokio::test]
async fn a_new_event_reads_no_waiting_event_again_and_a_pass_over_all_follows() {
    let send =
        "trigger: {manual: {}}\nsteps: [{action: events.emit, with: {name: order.paid, data: {n: 5000}}}]\n";
    let project = Project::new();
    project.write("automations/send.yaml", send);
    let take = |id: &str, number: u64| {
        let file = format!("automations/{id}.yaml");
        let text = format!(
            "trigger: {{event: order.paid, if: event.data.n >= {number}}}\nsteps: [{{set: {{x: 1}}}}]\n"
        );
        project.write(&file, &text);
    };
    take("test", WAITING - 1);
    let store = Watched::new(project.open_store());
    // The first id is free for an event that becomes visible late.
    let emits = (1..WAITING).map(|number| event(&project, number)).collect();
    store.store().accept(&Accept { emits, ..Accept::default() }).await.expect("they are stored");
    let engine = project.start_on(store.store()).await;
    until_async(async || rows(&engine).await.len() == 1).await;
    // The last page was read.
    let pages = || store.outbox_pages.load(Ordering::SeqCst);
    until_async(async || pages() > ALL_PAGES).await;
    let before = pages();
    let start = ManualStart::new(Payload::manual(Map::new()), Origin::Manual);
    let send = AutomationId::parse("send").expect("an id");
    engine.ingress().start(&send.into(), start).await.expect("it starts");
    until_async(async || rows(&engine).await.len() == 3).await;
    assert!(pages() - before < 4, "{} pages for one event", pages() - before);
    let late = OutboxRow { id: ExecutionId::from_bytes([0; 16]), ..event(&project, 6000) };
    engine.store().accept(&Accept { emits: vec![late], ..Accept::default() }).await.expect("it is stored");
    pass(&project, Duration::from_secs(30)).await;
    until_async(async || rows(&engine).await.len() == 4).await;
    until_async(async || pages() - before > ALL_PAGES).await;
    // The event that was sent meanwhile was for `test` alone.
    take("absent", WAITING);
    engine.reload().await;
    until_async(async || {
        rows(&engine).await.iter().filter(|row| row.automation.as_str() == "absent").count() == 1
    })
    .await;
    stop(engine).await;
}
