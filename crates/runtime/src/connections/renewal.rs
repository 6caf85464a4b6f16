//! Calls once more with renewed secrets after a refused login.

use std::sync::{Arc, OnceLock};

use catalog::Catalog;
use connector::{Call, ResolvedConnection};
use futures_util::future::BoxFuture;
use model::action::{ActionError, ErrorKind};

use super::Connections;

impl Connections {
    /// Reads the secrets of a connection again after `refusal`. Returns the connection if they differ from the ones that were `used`; `None` if
    /// no login was refused, no provider has secrets, or they are the same.
    pub async fn renewed(
        self: &Arc<Self>,
        catalog: &Catalog,
        used: &ResolvedConnection,
        refusal: &ActionError,
    ) -> Option<ResolvedConnection> {
        if !self.context.secrets.has_providers() || !refuses_login(refusal) {
            return None;
        }
        self.context.secrets.renew(catalog, &used.name).await;
        let found = self.connect(catalog, &used.name).await.ok()?;
        (found.values != used.values).then_some(found)
    }

    /// Calls an action with `make`. If the other system refuses the login, and the connection has other secrets by now than the call had, the
    /// call is repeated once with these, which `renewed` holds: a refused call has changed nothing.
    pub fn call_renewing<'c, T: 'c>(
        self: &'c Arc<Self>,
        catalog: &'c Catalog,
        (call, renewed): (Call<'c>, &'c OnceLock<ResolvedConnection>),
        make: impl Fn(Call<'c>) -> BoxFuture<'c, Result<T, ActionError>> + Send + 'c,
    ) -> BoxFuture<'c, Result<T, ActionError>> {
        let Some(connection) = call.connection.filter(|_| self.context.secrets.has_providers()) else {
            return make(call);
        };
        Box::pin(async move {
            let refusal = match make(call.clone()).await {
                Err(refusal) => refusal,
                result => return result,
            };
            let Some(found) = self.renewed(catalog, connection, &refusal).await else {
                return Err(refusal);
            };
            make(Call { connection: Some(renewed.get_or_init(|| found)), ..call }).await
        })
    }
}

/// Returns true if the other system has refused the credentials.
fn refuses_login(error: &ActionError) -> bool {
    error.status == Some(401) || (error.kind == ErrorKind::Connection && !error.outcome_unknown)
}
