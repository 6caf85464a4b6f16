//! Operations on triggers that one node has: they go to the owner of the shard of their Automation, which replies with the result.

use std::sync::Weak;
use std::time::Duration;

use async_trait::async_trait;
use catalog::Deployment;
use model::automation::TriggerKey;
use runtime::{AcceptOptions, ShardRequests, Start};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ingress::Ingress;
use crate::listen::ListenRequest;
use crate::poll::PollOperation;
use crate::source::state::SourceOperation;
use crate::subscribe::SubscriptionOperation;

/// The longest wait of a sender: for its poll, for a poll before it, and for the periodic check after a lost notification.
const PATIENCE: Duration = Duration::from_secs(130);

/// The time in which the owner of an automation's shard replies if it has memory: it waits for memory for 10 seconds.
const OWNER_PATIENCE: Duration = Duration::from_secs(15);

/// An operation on a trigger.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Command {
    #[serde(rename = "automation")]
    pub(crate) trigger: TriggerKey,
    pub(crate) operation: Operation,
}

/// The operations that one node has to carry out.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Operation {
    Poll(PollOperation),
    Sources(SourceOperation),
    Subscriptions(SubscriptionOperation),
    Listen(ListenRequest),
    /// Move the records of the trigger to this one.
    Move(TriggerKey),
    /// Wait for memory for the data of a trigger, in bytes; the reply is false if it is taken.
    TriggerMemory(usize),
}

/// Error of an operation that another node was to carry out.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The daemon is stopping.
    #[error("the daemon is stopping")]
    Closing,
    /// The other node does not answer.
    #[error("the daemon that has the trigger `{0}` does not answer; try again")]
    Unanswered(TriggerKey),
    /// The request or the reply cannot be read, such as one of another release.
    #[error("the daemon that has the trigger cannot be asked: {0}")]
    Unreadable(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Ingress {
    /// Lets the owner of the shard carry out an operation, and returns its reply.
    pub(crate) async fn forward<T: DeserializeOwned>(
        &self,
        trigger: &TriggerKey,
        operation: Operation,
    ) -> Result<T, ForwardError> {
        self.forward_within(PATIENCE, trigger, operation).await
    }

    /// Lets the owner of the shard carry out an operation, and waits so long for its reply.
    pub(crate) async fn forward_within<T: DeserializeOwned>(
        &self,
        patience: Duration,
        trigger: &TriggerKey,
        operation: Operation,
    ) -> Result<T, ForwardError> {
        let unreadable = |error: serde_json::Error| ForwardError::Unreadable(error.to_string());
        let command = Command { trigger: trigger.clone(), operation };
        let body = serde_json::to_vec(&command).map_err(unreadable)?;
        let reply =
            self.peers.ask_shard(&trigger.automation, body, patience).await.map_err(|error| match error {
                runtime::Error::Closing => ForwardError::Closing,
                runtime::Error::Store(error) => ForwardError::Store(error),
                runtime::Error::Unanswered => ForwardError::Unanswered(trigger.clone()),
                other => ForwardError::Unreadable(other.to_string()),
            })?;
        serde_json::from_slice(&reply).map_err(unreadable)
    }

    /// Returns false if the execution of a synchronous request runs at another node, which has no memory for its data. If that node
    /// does not answer, the execution is accepted and waits there.
    pub(crate) async fn owner_has_memory(
        &self,
        deployment: &Deployment,
        start: &Start,
        options: &AcceptOptions,
    ) -> bool {
        let automation = &deployment.automation;
        let Some(bytes) =
            self.admission.trigger_memory_elsewhere(automation, start, options.results.as_ref())
        else {
            return true;
        };
        let operation = Operation::TriggerMemory(bytes);
        self.forward_within(OWNER_PATIENCE, &automation.trigger_key(&start.by.trigger), operation)
            .await
            .unwrap_or(true)
    }
}

/// Carries out the operations that other nodes forward to this one.
pub(crate) struct ForwardedOperations(pub(crate) Weak<Ingress>);

#[async_trait]
impl ShardRequests for ForwardedOperations {
    async fn answer(&self, request: &[u8]) -> Option<Vec<u8>> {
        let ingress = self.0.upgrade()?;
        let command = serde_json::from_slice(request)
            .inspect_err(|error| tracing::error!(%error, "a request of another daemon cannot be read"));
        let Command { trigger, operation } = command.ok()?;
        match operation {
            Operation::Poll(operation) => {
                serde_json::to_vec(&ingress.answer_poll(&trigger, operation).await?).ok()
            }
            Operation::Sources(SourceOperation) => {
                serde_json::to_vec(&ingress.answer_sources(&trigger)?).ok()
            }
            Operation::Listen(request) => {
                serde_json::to_vec(&ingress.answer_listen(&trigger, request).await?).ok()
            }
            Operation::Move(to) => serde_json::to_vec(&ingress.answer_move(&trigger, &to).await?).ok(),
            Operation::TriggerMemory(bytes) => {
                serde_json::to_vec(&ingress.admission.has_trigger_memory(bytes).await).ok()
            }
            Operation::Subscriptions(operation) => {
                serde_json::to_vec(&ingress.answer_subscriptions(&trigger.automation, operation).await?).ok()
            }
        }
    }
}
