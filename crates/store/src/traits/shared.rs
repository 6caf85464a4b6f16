//! State of triggers that the nodes of a store share.

use async_trait::async_trait;
use model::AutomationId;

use crate::Error;
use crate::types::{TokenGrant, TokenRequest};

/// State of triggers that any node may change at any moment, in place of state in the memory of one process.
///
/// The default methods are those of a store that one process has to itself, which keeps that state in its memory.
#[async_trait]
pub trait SharedTriggerStore: Send + Sync {
    /// Takes tokens of a rate limit. A crash before the return can take them from the bucket for nobody.
    ///
    /// # Errors
    /// [`Error::Alone`] if this process has the store to itself.
    async fn take_tokens(&self, _request: TokenRequest) -> Result<TokenGrant, Error> {
        Err(Error::Alone)
    }

    /// Notes that this node polls for an Automation, or has done so. It is lost when the server crashes, and with this node.
    async fn set_polling(&self, _automation: &AutomationId, _polls: bool) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the Automations for which a node polls at the moment.
    async fn polling(&self) -> Result<Vec<AutomationId>, Error> {
        Ok(Vec::new())
    }
}
