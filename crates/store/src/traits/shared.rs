//! State of triggers that the nodes of a store share.

use async_trait::async_trait;
use jiff::Timestamp;
use model::automation::TriggerKey;

use crate::Error;
use crate::types::{Listening, NewCapture, NewListening, TokenGrant, TokenRequest};

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

    /// Opens a pairing with a sender that supplies the secret of a webhook, until then.
    ///
    /// # Errors
    /// [`Error::Alone`] if this process has the store to itself.
    async fn open_pairing(&self, _trigger: &TriggerKey, _until: Timestamp) -> Result<(), Error> {
        Err(Error::Alone)
    }

    /// Returns the end of the pairing that was opened last and has not been closed.
    async fn pairing(&self, _trigger: &TriggerKey) -> Result<Option<Timestamp>, Error> {
        Ok(None)
    }

    /// Closes a pairing. Returns false if none was open: only one of several simultaneous calls gets it. A crash before the return can
    /// close it for nobody.
    async fn close_pairing(&self, _trigger: &TriggerKey, _now: Timestamp) -> Result<bool, Error> {
        Ok(false)
    }

    /// Notes that this node polls for a trigger, or has done so. It is lost when the server crashes, and with this node.
    async fn set_polling(&self, _trigger: &TriggerKey, _polls: bool) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the triggers for which a node polls at the moment.
    async fn polling(&self) -> Result<Vec<TriggerKey>, Error> {
        Ok(Vec::new())
    }

    /// Begins a session at a test address in place of the one before, and returns its number. A crash of the server can lose it.
    ///
    /// # Errors
    /// [`Error::Alone`] if this process has the store to itself.
    async fn begin_listening(&self, _new: NewListening) -> Result<u64, Error> {
        Err(Error::Alone)
    }

    /// Returns the latest session at the test address of a trigger.
    async fn listening(&self, _trigger: &TriggerKey) -> Result<Option<Listening>, Error> {
        Ok(None)
    }

    /// Ends the session at a test address now, if it has not ended.
    async fn end_listening(&self, _trigger: &TriggerKey, _now: Timestamp) -> Result<(), Error> {
        Ok(())
    }

    /// Stores a captured request. Returns false if no session is active. A crash of the server can lose it.
    async fn add_capture(&self, _capture: NewCapture) -> Result<bool, Error> {
        Ok(false)
    }

    /// Returns the captures of the latest session with their numbers, in order, after `after`.
    async fn captures(&self, _trigger: &TriggerKey, _after: u32) -> Result<Vec<(u32, Vec<u8>)>, Error> {
        Ok(Vec::new())
    }
}
