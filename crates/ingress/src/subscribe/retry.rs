//! Attempts that a person asks for, whenever the next one is due, and the end of attempts that have no prospect.

use std::sync::Arc;

use model::automation::{AutomationId, TriggerKey};
use serde::{Deserialize, Serialize};
use store::Subscription;

use super::Subscriptions;
use crate::forward::{ForwardError, Operation};
use crate::ingress::Ingress;

/// Error of a request that a person made about subscriptions.
#[derive(Debug, thiserror::Error)]
pub enum SubscriptionError {
    /// The Automation has no subscription.
    #[error(
        "`{0}` has no subscription: it must be enabled or listen, with an `event` that another application sends"
    )]
    NoSubscription(AutomationId),
    /// No subscription of the Automation failed to be removed.
    #[error("`{0}` has no subscription that could not be taken back: there is nothing to forget")]
    NothingToForget(AutomationId),
    /// The daemon is stopping.
    #[error("the daemon is stopping")]
    Closing,
    /// Another node owns the subscriptions and cannot be reached.
    #[error(transparent)]
    Forward(#[from] ForwardError),
}

/// The operations of people on the subscriptions of an Automation.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SubscriptionOperation {
    /// Attempt the pending changes.
    Try,
    /// Forget the subscriptions that could not be removed.
    Forget,
}

/// The reply of the node that has the subscriptions.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SubscriptionReply {
    /// The subscriptions that there are now.
    Done(Vec<Subscription>),
    /// The Automation has no such subscription.
    NoSubscription,
    /// No removal failed.
    NothingToForget,
}

impl Ingress {
    /// Attempts the pending changes of an Automation's subscriptions now, and returns its subscriptions with the
    /// results. An attempt under way is waited for and not repeated. The result counts as that of any other attempt: a
    /// failure makes the pause before the next one longer.
    ///
    /// # Errors
    /// Returns an error if the Automation has no subscription, the daemon stops, or the node that subscribes does not answer.
    pub async fn try_subscriptions(
        self: &Arc<Self>,
        automation: &AutomationId,
    ) -> Result<Vec<Subscription>, SubscriptionError> {
        Box::pin(self.operate_on_subscriptions(automation, SubscriptionOperation::Try)).await
    }

    /// Forgets the subscriptions of an Automation whose removal failed, and returns the remaining ones. The other
    /// application is not called, and keeps a subscription that it still has.
    ///
    /// # Errors
    /// Returns an error if no removal of the Automation failed, or the node that subscribes does not answer.
    pub async fn forget_subscriptions(
        self: &Arc<Self>,
        automation: &AutomationId,
    ) -> Result<Vec<Subscription>, SubscriptionError> {
        Box::pin(self.operate_on_subscriptions(automation, SubscriptionOperation::Forget)).await
    }

    /// Carries out an operation here, or lets the owner of the shard do so.
    async fn operate_on_subscriptions(
        self: &Arc<Self>,
        automation: &AutomationId,
        operation: SubscriptionOperation,
    ) -> Result<Vec<Subscription>, SubscriptionError> {
        if let Some(_hold) = self.peers.shards.hold(automation) {
            return self.operate_on_own_subscriptions(automation, operation).await;
        }
        let any = TriggerKey::from(automation.clone());
        match self.forward(&any, Operation::Subscriptions(operation)).await? {
            SubscriptionReply::Done(left) => Ok(left),
            SubscriptionReply::NoSubscription => Err(SubscriptionError::NoSubscription(automation.clone())),
            SubscriptionReply::NothingToForget => Err(SubscriptionError::NothingToForget(automation.clone())),
        }
    }

    /// Carries out an operation for another node. `None` if it must be requested again, here or at the next owner of the shard.
    pub(crate) async fn answer_subscriptions(
        self: &Arc<Self>,
        automation: &AutomationId,
        operation: SubscriptionOperation,
    ) -> Option<SubscriptionReply> {
        let _hold = self.peers.shards.hold(automation)?;
        match self.operate_on_own_subscriptions(automation, operation).await {
            Ok(left) => Some(SubscriptionReply::Done(left)),
            Err(SubscriptionError::NoSubscription(_)) => Some(SubscriptionReply::NoSubscription),
            Err(SubscriptionError::NothingToForget(_)) => Some(SubscriptionReply::NothingToForget),
            Err(SubscriptionError::Closing | SubscriptionError::Forward(_)) => None,
        }
    }

    async fn operate_on_own_subscriptions(
        self: &Arc<Self>,
        automation: &AutomationId,
        operation: SubscriptionOperation,
    ) -> Result<Vec<Subscription>, SubscriptionError> {
        match operation {
            SubscriptionOperation::Try => self.try_own_subscriptions(automation).await?,
            SubscriptionOperation::Forget => self.forget_own_subscriptions(automation).await?,
        }
        Ok(self.subscriptions().into_iter().filter(|one| one.trigger.automation == *automation).collect())
    }

    async fn try_own_subscriptions(
        self: &Arc<Self>,
        automation: &AutomationId,
    ) -> Result<(), SubscriptionError> {
        if self.subscriptions.of_automation(automation).is_empty() {
            return Err(SubscriptionError::NoSubscription(automation.clone()));
        }
        for subscription in self.subscriptions.take_pending(automation) {
            self.clone().apply_change(subscription).await;
        }
        // An attempt under way holds the lock until its result is stored.
        drop(self.subscriptions.locks.lock(automation.as_str()).await);
        match self.context.closing.is_cancelled() {
            true => Err(SubscriptionError::Closing),
            false => Ok(()),
        }
    }

    async fn forget_own_subscriptions(&self, automation: &AutomationId) -> Result<(), SubscriptionError> {
        let _changing = self.subscriptions.changing.lock().await;
        let all = self.subscriptions.of_automation(automation);
        let failed: Vec<_> = all.iter().filter(|one| one.removing && one.error.is_some()).collect();
        if failed.is_empty() {
            return Err(SubscriptionError::NothingToForget(automation.clone()));
        }
        for one in failed {
            tracing::warn!(%automation, event = one.event, remote = %one.remote.to_json(), "a subscription that could not be taken back is forgotten on demand");
            self.forget_subscription(&one.id).await;
        }
        Ok(())
    }
}

impl Subscriptions {
    fn take_pending(&self, automation: &AutomationId) -> Vec<Subscription> {
        self.table().take_pending(automation)
    }
}
