//! Messages of brokers. Each consumer of a trigger is a task of the node that has its shard. It asks for messages while there is room,
//! commits the executions that they start together with their ids, asks the gate, and only then settles them at the broker. What comes
//! again before that is known by its id.
//!
//! * `consumer`: one consumer, from the connection to its end
//! * `intake`: one commit
//! * `message`: what executions get of a message
//! * `attempts`: messages that start nothing, until they are poisoned
//! * `list`: the list of poisoned messages
//! * `state`: the consumers of this node
//! * `view`: the state of all consumers, for people

mod attempts;
mod consumer;
mod intake;
mod list;
mod message;
pub(crate) mod state;
mod view;

use std::sync::Arc;

use catalog::{Catalog, Mount};
use connector::{EventSource, EventSpec, StreamedEvent};
use model::automation::{EventTrigger, Trigger};

use crate::ingress::Ingress;
use consumer::Consumer;
use state::ConsumerId;

pub use list::{MessageError, PoisonedMessage};
pub use state::{SourceState, SourceView};

/// A trigger on messages of a broker.
struct Streamed<'a> {
    event: &'a EventTrigger,
    spec: &'a Arc<EventSpec>,
    broker: &'a StreamedEvent,
}

impl<'a> Streamed<'a> {
    /// `None` for other triggers.
    fn of(mount: &'a Mount, catalog: &'a Catalog) -> Option<Self> {
        let Trigger::Event(event) = mount.on() else { return None };
        let spec = catalog.registry().event(&event.call.action.name)?;
        match &spec.source {
            EventSource::Stream(broker) => Some(Self { event, spec, broker }),
            _ => None,
        }
    }

    fn consumers(&self) -> u32 {
        self.event.stream.consumers.map_or(1, |(count, _)| count)
    }
}

/// Keeps the consumers of this node running until the engine stops.
pub(crate) async fn run(ingress: Arc<Ingress>) {
    let context = ingress.context.clone();
    let mut generation = context.generation.subscribe();
    let mut shards = ingress.peers.shards.subscribe();
    loop {
        generation.borrow_and_update();
        shards.borrow_and_update();
        for id in ingress.wanted_consumers() {
            ingress.start_consumer(id);
        }
        tokio::select! {
            biased;
            () = context.closing.cancelled() => return,
            () = ingress.sources.ended.notified() => {}
            changed = generation.changed() => if changed.is_err() {
                return;
            },
            changed = shards.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

impl Ingress {
    /// The consumers in force that this node has.
    fn wanted_consumers(&self) -> Vec<ConsumerId> {
        let catalog = self.context.catalog.load();
        let mounts = catalog.automations().flat_map(|deployment| deployment.mounts());
        let mut wanted = Vec::new();
        for mount in mounts.filter(Mount::is_enabled) {
            let Some(streamed) = Streamed::of(&mount, &catalog) else { continue };
            let ids = (0..streamed.consumers()).map(|number| ConsumerId { trigger: mount.key(), number });
            wanted.extend(ids.filter(|id| self.peers.shards.has_shard(id.shard())));
        }
        wanted
    }

    /// Returns the trigger of a consumer if it is in force and this node has its shard.
    fn wanted_mount(&self, id: &ConsumerId, catalog: &Catalog) -> Option<Mount> {
        let mount = catalog.trigger(&id.trigger).filter(Mount::is_enabled)?;
        let is_in_force =
            Streamed::of(&mount, catalog).is_some_and(|streamed| id.number < streamed.consumers());
        let is_here = self.peers.shards.has_shard(id.shard()) && self.context.accepting();
        (is_in_force && is_here).then_some(mount)
    }

    /// Starts a consumer unless it runs.
    fn start_consumer(self: &Arc<Self>, id: ConsumerId) {
        let mut views = self.sources.views();
        if views.contains_key(&id) {
            return;
        }
        let view = SourceView::new(&id.trigger, id.number, self.context.clock.now());
        views.insert(id.clone(), view);
        drop(views);
        let ending = Ending { ingress: self.clone(), id: id.clone() };
        let (consumer, abort) = (Consumer::new(self.clone(), id), self.context.abort.clone());
        self.context.tracker.spawn(async move {
            // A batch that is being filled, or a broker that does not answer, may take longer than the grace period. All that is not
            // settled comes again.
            abort.run_until_cancelled(consumer.run()).await;
            drop(ending);
        });
    }
}

/// Notes the end of a consumer, also after a panic: it is started again if it is wanted.
struct Ending {
    ingress: Arc<Ingress>,
    id: ConsumerId,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.ingress.sources.views().remove(&self.id);
        self.ingress.sources.ended.notify_one();
    }
}
