//! The state of triggers that all nodes share.

use async_trait::async_trait;
use model::AutomationId;

use super::store::PostgresStore;
use super::{buckets, triggers};
use crate::Error;
use crate::traits::SharedTriggerStore;
use crate::types::{TokenGrant, TokenRequest};

#[async_trait]
impl SharedTriggerStore for PostgresStore {
    async fn take_tokens(&self, request: TokenRequest) -> Result<TokenGrant, Error> {
        let lanes = self.lanes()?;
        if let Some(refusal) = lanes.outage.refusal() {
            return Err(refusal);
        }
        buckets::take(&self.opened.reader, lanes.node, request).await
    }

    async fn set_polling(&self, automation: &AutomationId, polls: bool) -> Result<(), Error> {
        triggers::set_polling(&self.opened.reader, self.lanes()?.node, automation, polls).await
    }

    async fn polling(&self) -> Result<Vec<AutomationId>, Error> {
        triggers::polling(&self.opened.reader).await
    }
}
