//! The state of all consumers, for people.

use std::sync::Arc;

use model::automation::TriggerKey;

use super::Streamed;
use super::state::{SourceOperation, SourceView};
use crate::forward::Operation;
use crate::ingress::Ingress;

impl Ingress {
    /// Lists the consumers of this node, sorted by trigger.
    #[must_use]
    pub fn sources(&self) -> Vec<SourceView> {
        self.sources.views().values().cloned().collect()
    }

    /// Lists the consumers of this node, and of the nodes that have the triggers, sorted by trigger. A node that does not answer is
    /// left out.
    pub async fn sources_of_all_nodes(self: &Arc<Self>) -> Vec<SourceView> {
        let mut views = self.sources();
        let catalog = self.context.catalog.load_full();
        let mounts = catalog.automations().flat_map(|deployment| deployment.mounts());
        let elsewhere = mounts.filter(|mount| {
            mount.is_enabled()
                && Streamed::of(mount, &catalog).is_some()
                && !self.peers.shards.has(&mount.deployment.automation.id)
        });
        for trigger in elsewhere.map(|mount| mount.key()).collect::<Vec<_>>() {
            match self.forward::<Vec<SourceView>>(&trigger, Operation::Sources(SourceOperation)).await {
                Ok(others) => views.extend(others),
                Err(error) => tracing::debug!(%trigger, %error, "the state of a consumer is unknown"),
            }
        }
        views.sort_by(|one, other| (&one.trigger, one.consumer).cmp(&(&other.trigger, other.consumer)));
        views.dedup_by(|one, other| (&one.trigger, one.consumer) == (&other.trigger, other.consumer));
        views
    }

    /// Answers another node. `None` if this node does not have the trigger.
    pub(crate) fn answer_sources(&self, trigger: &TriggerKey) -> Option<Vec<SourceView>> {
        self.peers
            .shards
            .has(&trigger.automation)
            .then(|| self.sources.views().values().filter(|view| view.trigger == *trigger).cloned().collect())
    }
}
