//! Attempts that a person asks for, whenever the next one is due.

use std::sync::Arc;

use model::automation::AutomationId;
use store::Subscription;

use super::Subscriptions;
use crate::ingress::Ingress;

/// Error of an attempt that a person asked for.
#[derive(Debug, thiserror::Error)]
pub enum SubscriptionError {
    /// The Automation has no subscription.
    #[error(
        "`{0}` has no subscription: it must be enabled or listen, with an `event` that another application sends"
    )]
    NoSubscription(AutomationId),
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
}

impl Subscriptions {
    fn take_pending(&self, automation: &AutomationId) -> Vec<Subscription> {
        self.table().take_pending(automation)
    }
}
