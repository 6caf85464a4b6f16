//! The secrets that applications give with their subscriptions: kept encrypted, and read to verify their requests.

use model::automation::TriggerKey;
use zeroize::Zeroizing;

use crate::context::Context;
use crate::error::Error;
use crate::vault::RowKind;

impl Context {
    /// Returns the secret of the subscription of a trigger; `None` if the application gave none. `is_test` is true for its test address.
    ///
    /// # Errors
    /// Returns an error if the secret cannot be decrypted.
    pub fn subscription_secret(
        &self,
        trigger: &TriggerKey,
        is_test: bool,
    ) -> Result<Option<Zeroizing<String>>, Error> {
        let secret = self.vault()?.read(RowKind::Subscription, &name(trigger, is_test))?;
        if let Some(secret) = &secret {
            self.settings.redactor.add_secret(secret.as_str());
        }
        Ok(secret)
    }

    /// Stores the secret of the subscription of a trigger durably, in place of an earlier one.
    ///
    /// # Errors
    /// Returns an error if the secret cannot be encrypted or stored.
    pub async fn keep_subscription_secret(
        &self,
        trigger: &TriggerKey,
        is_test: bool,
        secret: &str,
    ) -> Result<(), Error> {
        self.settings.redactor.add_secret(secret);
        let name = name(trigger, is_test);
        let written = self.vault()?.put(RowKind::Subscription, &name, secret, self.clock.now()).await;
        if let Err(Error::Store(error)) = &written {
            self.lost(error);
        }
        written
    }

    /// Deletes the secret of the subscription of a trigger, if there is one.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn forget_subscription_secret(&self, trigger: &TriggerKey, is_test: bool) -> Result<(), Error> {
        let (vault, name) = (self.vault()?, name(trigger, is_test));
        if vault.has(RowKind::Subscription, &name) {
            vault.remove(RowKind::Subscription, &name).await?;
        }
        Ok(())
    }
}

fn name(trigger: &TriggerKey, is_test: bool) -> String {
    format!("{trigger}{}", if is_test { "#test" } else { "" })
}
