//! The tasks that start executions without a request.

use std::sync::Arc;

use store::Shard;

use crate::forward::ForwardedOperations;
use crate::ingress::Ingress;
use crate::{missing, outbox, poll, scheduler, source, subscribe};

impl Ingress {
    /// Starts the tasks that fire schedules, polls, take messages, and keep subscriptions. They end when the runtime closes.
    pub fn start_tasks(self: &Arc<Self>) {
        let tracker = &self.context.tracker;
        self.peers.set_shard_requests(Box::new(ForwardedOperations(Arc::downgrade(self))));
        tracker.spawn(self.clone().follow_shards());
        self.start_schedules();
        tracker.spawn(poll::run(self.clone()));
        tracker.spawn(source::run(self.clone()));
        tracker.spawn(subscribe::run(self.clone()));
        self.start_watch();
        self.start_outbox();
    }

    /// Starts the task that looks for silences.
    pub fn start_watch(self: &Arc<Self>) {
        self.context.tracker.spawn(missing::run(self.clone()));
    }

    /// Starts the task that fires schedules.
    pub fn start_schedules(self: &Arc<Self>) {
        self.context.tracker.spawn(scheduler::run(self.clone()));
    }

    /// Starts the task that delivers events to triggers.
    pub fn start_outbox(self: &Arc<Self>) {
        self.context.tracker.spawn(outbox::run(self.clone()));
    }

    /// Hands the automations of shards that this node gets or gives up to the schedules, polls and subscriptions, until the engine
    /// stops.
    async fn follow_shards(self: Arc<Self>) {
        let mut shards = self.peers.shards.subscribe();
        let mut before = *shards.borrow_and_update();
        loop {
            tokio::select! {
                biased;
                () = self.context.closing.cancelled() => return,
                changed = shards.changed() => if changed.is_err() {
                    return;
                },
            }
            let now = *shards.borrow_and_update();
            let moved = std::mem::replace(&mut before, now).difference(now);
            let catalog = self.context.catalog.load();
            let ids = catalog.automations().map(|deployment| &deployment.automation.id);
            let ids: Vec<_> = ids.filter(|id| moved.contains(Shard::of(id))).cloned().collect();
            if !ids.is_empty() {
                self.changes.add_moved(&ids);
                // The timers look at their changes.
                self.context.generation.send_modify(|_| {});
            }
        }
    }
}
