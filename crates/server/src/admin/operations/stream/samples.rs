//! States of which the engine publishes no changes: they are compared with the previous ones while a stream follows them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use engine::Engine;
use model::{AutomationId, ExecutionId};

use super::topic::Topic;
use super::{
    BulkMessage, ConnectionsMessage, ListenMessage, PollsMessage, StreamMessage, SubscriptionsMessage,
};

/// The publications between two samples of polls, subscriptions and connections: a second.
const SLOW: u32 = 4;

/// The last samples.
#[derive(Default)]
pub(super) struct Samples {
    ticks: u32,
    /// The digests of a topic by name; those of a topic that nobody follows are dropped.
    known: HashMap<Topic, HashMap<String, u64>>,
}

impl Samples {
    /// Takes the samples that are due, and returns a message for each topic that differs or is new.
    pub(super) async fn differences(
        &mut self,
        engine: &Engine,
        wanted: &[Topic],
    ) -> Vec<(Topic, StreamMessage)> {
        self.ticks = self.ticks.wrapping_add(1);
        self.known.retain(|topic, _| wanted.contains(topic));
        let is_slow = self.ticks.is_multiple_of(SLOW);
        let mut messages = Vec::new();
        for topic in wanted {
            let sample = match topic {
                Topic::Listen(automation) => listening(engine, automation).await,
                Topic::Bulk(id) => operation(engine, *id),
                Topic::Polls if is_slow => polls(engine),
                Topic::Subscriptions if is_slow => subscriptions(engine),
                Topic::Connections if is_slow => connections(engine),
                _ => continue,
            };
            // The first sample differs from nothing: its reader may have read before it.
            let previous = self.known.insert(topic.clone(), sample).unwrap_or_default();
            let Some(now) = self.known.get(topic) else { continue };
            let names = now.keys().chain(previous.keys().filter(|name| !now.contains_key(*name)));
            let mut changed: Vec<_> =
                names.filter(|name| now.get(*name) != previous.get(*name)).cloned().collect();
            if changed.is_empty() {
                continue;
            }
            changed.sort();
            let message = match topic {
                Topic::Listen(automation) => {
                    StreamMessage::Listen(ListenMessage { automation: automation.to_string() })
                }
                Topic::Bulk(id) => StreamMessage::Bulk(BulkMessage { id: id.to_string() }),
                Topic::Polls => StreamMessage::Polls(PollsMessage { automations: changed }),
                Topic::Subscriptions => {
                    StreamMessage::Subscriptions(SubscriptionsMessage { automations: changed })
                }
                _ => StreamMessage::Connections(ConnectionsMessage { connections: changed }),
            };
            messages.push((topic.clone(), message));
        }
        messages
    }
}

async fn listening(engine: &Engine, automation: &AutomationId) -> HashMap<String, u64> {
    let catalog = engine.catalog();
    let mut states = Vec::new();
    for mount in catalog.get(automation).into_iter().flat_map(|deployment| deployment.mounts()) {
        let view = engine.ingress().captures(&mount.key(), u32::MAX, Duration::ZERO).await.ok();
        states.push(view.map(|view| (view.listening, view.since, view.until, view.left, view.last)));
    }
    let digest = digest(|hasher| {
        states.hash(hasher);
        for one in engine.ingress().subscriptions() {
            if one.test && one.trigger.automation == *automation {
                (one.removing, one.remote.is_null(), &one.error, one.next_at).hash(hasher);
            }
        }
    });
    HashMap::from([(String::new(), digest)])
}

/// The digest of an operation; none if it is not known, after a restart for example.
fn operation(engine: &Engine, id: ExecutionId) -> HashMap<String, u64> {
    let progress = engine.bulk().get(&id.to_string()).map(|progress| {
        let digest =
            digest(|hasher| (progress.done, progress.failed, progress.finished_at.is_some()).hash(hasher));
        (String::new(), digest)
    });
    progress.into_iter().collect()
}

fn polls(engine: &Engine) -> HashMap<String, u64> {
    let polls = engine.ingress().polls().into_iter().map(|poll| {
        let state = &poll.poll_state;
        let digest = digest(|hasher| {
            (poll.busy, state.next_at, state.polls, state.failures, &state.error).hash(hasher);
        });
        (poll.trigger.name(), digest)
    });
    polls.collect()
}

fn subscriptions(engine: &Engine) -> HashMap<String, u64> {
    let mut all: HashMap<String, DefaultHasher> = HashMap::new();
    for one in engine.ingress().subscriptions() {
        let hasher = all.entry(one.trigger.name()).or_default();
        (&one.id, one.removing, one.remote.is_null(), &one.error, one.failures, one.next_at).hash(hasher);
    }
    all.into_iter().map(|(automation, hasher)| (automation, hasher.finish())).collect()
}

fn connections(engine: &Engine) -> HashMap<String, u64> {
    let connections = engine.connections().reports().into_iter().map(|report| {
        let health = &report.health;
        let digest = digest(|hasher| {
            // The counts are read again anyway when something else has changed.
            (format!("{:?}", report.state), &health.last_error, report.expires_at).hash(hasher);
            (&report.missing_secrets, &report.file_error, health.succeeded > 0).hash(hasher);
        });
        (report.name, digest)
    });
    connections.collect()
}

fn digest(write: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hasher = DefaultHasher::new();
    write(&mut hasher);
    hasher.finish()
}
