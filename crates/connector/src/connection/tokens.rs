//! The tokens of a connection.

use std::fmt;
use std::sync::Arc;

use model::ActionError;
use value::Secret;

use super::ResolvedConnection;
use crate::oauth::TokenSource;

/// The source of the bearer token of each request; its `Debug` hides the token.
#[derive(Clone)]
pub(super) struct Tokens(pub(super) Arc<dyn TokenSource>);

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl ResolvedConnection {
    /// Returns a token for a protocol other than HTTP, or one to replace `rejected`; `None` if the connection has none.
    ///
    /// # Errors
    /// None can be obtained.
    pub async fn token(&self, rejected: Option<&Secret>) -> Result<Option<Secret>, ActionError> {
        match (self.tokens(), rejected) {
            (None, _) => Ok(None),
            (Some(tokens), None) => tokens.token().await.map(Some),
            (Some(tokens), Some(rejected)) => tokens.replacement(rejected).await,
        }
    }
}
