//! Attempts that a person asks for, whenever the next one is due, and the end of attempts that have no prospect.

use std::sync::Arc;

use model::automation::AutomationId;
use store::Subscription;

use super::Subscriptions;
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
}

impl Ingress {
    /// Attempts the pending changes of an Automation's subscriptions now, and returns its subscriptions with the
    /// results. An attempt under way is waited for and not repeated. The result counts as that of any other attempt: a
    /// failure makes the pause before the next one longer.
    ///
    /// # Errors
    /// Returns an error if the Automation has no subscription, or the daemon stops.
    pub async fn try_subscriptions(
        self: &Arc<Self>,
        automation: &AutomationId,
    ) -> Result<Vec<Subscription>, SubscriptionError> {
        if self.subscriptions.of_automation(automation).is_empty() {
            return Err(SubscriptionError::NoSubscription(automation.clone()));
        }
        for subscription in self.subscriptions.take_pending(automation) {
            self.clone().apply_change(subscription).await;
        }
        // An attempt under way holds the lock until its result is stored.
        drop(self.subscriptions.locks.lock(automation.as_str()).await);
        if self.runtime.closing.is_cancelled() {
            return Err(SubscriptionError::Closing);
        }
        Ok(self.subscriptions().into_iter().filter(|one| one.automation == *automation).collect())
    }

    /// Forgets the subscriptions of an Automation whose removal failed, and returns those that are left. The other
    /// application is not called, and keeps a subscription that it still has.
    ///
    /// # Errors
    /// Returns an error if no removal of the Automation failed.
    pub async fn forget_subscriptions(
        &self,
        automation: &AutomationId,
    ) -> Result<Vec<Subscription>, SubscriptionError> {
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
        Ok(self.subscriptions().into_iter().filter(|one| one.automation == *automation).collect())
    }
}

impl Subscriptions {
    fn take_pending(&self, automation: &AutomationId) -> Vec<Subscription> {
        self.table().take_pending(automation)
    }
}
