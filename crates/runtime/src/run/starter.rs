//! The handle with which a run starts, awaits and ends other executions, without knowing how they are admitted.

use std::sync::Arc;

use async_trait::async_trait;
use catalog::Deployment;
use model::execution::{ExecutionId, Outcome, Signal};

use crate::api::{AcceptOptions, Acceptance, SentEvent, Start};
use crate::error::Error;

/// Starts, awaits and ends the executions that an execution calls, and sends events to others.
#[async_trait]
pub(crate) trait Starter: Send + Sync {
    /// Accepts a start durably and runs it.
    async fn start(
        self: Arc<Self>,
        deployment: Arc<Deployment>,
        start: Start,
        options: AcceptOptions,
    ) -> Result<Acceptance, Error>;

    /// Waits for the end of an execution; `None` as soon as it is suspended or queued, or if another node has it.
    async fn outcome(&self, id: ExecutionId) -> Result<Option<Outcome>, Error>;

    /// Asks an execution of this process to end.
    fn cancel(self: Arc<Self>, id: ExecutionId, reason: &str);

    /// Asks an execution to end, on whichever node it is. False if it had ended already.
    async fn end(self: Arc<Self>, id: ExecutionId, reason: &str) -> Result<bool, Error>;

    /// Delivers an event of the execution `sender` to every step that waits for it. `may_repeat` is true if it may have sent
    /// the event before.
    async fn emit(
        self: Arc<Self>,
        signal: Signal,
        sender: ExecutionId,
        may_repeat: bool,
    ) -> Result<SentEvent, Error>;
}
