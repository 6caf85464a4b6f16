//! The state of triggers that all nodes share.

use async_trait::async_trait;
use jiff::Timestamp;
use model::automation::TriggerKey;

use super::handle::PostgresStore;
use super::{buckets, listening, pairings, triggers};
use store::SharedTriggerStore;
use store::{Error, Outage};
use store::{Listening, NewCapture, NewListening, TokenGrant, TokenRequest};

#[async_trait]
impl SharedTriggerStore for PostgresStore {
    async fn take_tokens(&self, request: TokenRequest) -> Result<TokenGrant, Error> {
        let lanes = self.lanes()?;
        if let Some(outage) = lanes.outages.current().filter(Outage::refuses_starts) {
            return Err(outage.error());
        }
        let waits = Outage::keeps_writes_for(lanes.outages.subscribe(), Outage::GRACE);
        tokio::select! {
            biased;
            taken = buckets::take(&self.opened.reader, lanes.node, request) => taken,
            outage = waits => Err(outage.error()),
        }
    }

    async fn open_pairing(&self, trigger: &TriggerKey, until: Timestamp) -> Result<(), Error> {
        self.lanes()?;
        pairings::open(&self.opened.reader, trigger, until).await
    }

    async fn pairing(&self, trigger: &TriggerKey) -> Result<Option<Timestamp>, Error> {
        pairings::state(&self.opened.reader, trigger).await
    }

    async fn close_pairing(&self, trigger: &TriggerKey, now: Timestamp) -> Result<bool, Error> {
        self.lanes()?;
        pairings::close(&self.opened.reader, trigger, now).await
    }

    async fn set_polling(&self, trigger: &TriggerKey, polls: bool) -> Result<(), Error> {
        triggers::set_polling(&self.opened.reader, self.lanes()?.node, trigger, polls).await
    }

    async fn polling(&self) -> Result<Vec<TriggerKey>, Error> {
        triggers::polling(&self.opened.reader).await
    }

    async fn begin_listening(&self, new: NewListening) -> Result<u64, Error> {
        self.lanes()?;
        listening::begin(&self.opened.reader, new).await
    }

    async fn listening(&self, trigger: &TriggerKey) -> Result<Option<Listening>, Error> {
        self.unless_unreachable(listening::state(&self.opened.reader, trigger)).await
    }

    async fn end_listening(&self, trigger: &TriggerKey, now: Timestamp) -> Result<(), Error> {
        self.lanes()?;
        listening::end(&self.opened.reader, trigger, now).await
    }

    async fn add_capture(&self, capture: NewCapture) -> Result<bool, Error> {
        self.lanes()?;
        listening::add_capture(&self.opened.reader, capture).await
    }

    async fn captures(&self, trigger: &TriggerKey, after: u32) -> Result<Vec<(u32, Vec<u8>)>, Error> {
        listening::captures(&self.opened.reader, trigger, after).await
    }
}
