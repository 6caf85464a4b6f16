//! Responds to the challenges that senders issue before their first event, and pairs with senders that supply the
//! secret themselves. Neither starts an execution.

use std::time::Duration;

use jiff::Timestamp;
use model::automation::{
    Challenge, ChallengeGuard, ChallengeKey, Trigger, TriggerKey, Verify, WebhookTrigger,
};
use model::payload::HttpResponse;
use trigger::Rejection;
use trigger::challenge::ChallengeRequest;
use trigger::verify::Key;
use trigger::webhook::Request;

use crate::ingress::Ingress;
use catalog::Route;
use runtime::Error;

/// Time that a pairing stays open (webhook security 2.5).
const PAIRING_TIME: Duration = Duration::from_secs(600);

impl Ingress {
    /// Responds to a challenge after checking that its sender is authorised.
    pub(crate) async fn answer_challenge(
        &self,
        route: &Route,
        webhook: &WebhookTrigger,
        challenge: &Challenge,
        asked: &ChallengeRequest,
        request: &Request,
    ) -> Result<HttpResponse, Rejection> {
        let (automation, now) = (&route.mount.deployment.automation, self.context.clock.now());
        self.hooks.check_challenge_rate(&self.context, route).await?;
        if challenge.rule.guard == ChallengeGuard::Verified {
            self.verify(route, webhook, request).await?;
        }
        let keys = self.challenge_keys(route, webhook, challenge).await?;
        let answer = trigger::challenge::respond(challenge, asked, request, &keys, now);
        let answer = answer.map_err(|(rejection, reason)| {
            tracing::info!(automation = %automation.id, sender = challenge.name, %reason, "a challenge was not answered");
            rejection
        })?;
        if challenge.rule.guard == ChallengeGuard::Pairing {
            self.store_paired_secret(&route.mount.key(), webhook, &asked.text, now).await?;
        }
        tracing::info!(automation = %automation.id, sender = challenge.name, "answered a challenge");
        Ok(answer)
    }

    async fn challenge_keys(
        &self,
        route: &Route,
        webhook: &WebhookTrigger,
        challenge: &Challenge,
    ) -> Result<Vec<Key>, Rejection> {
        let keys = match (&challenge.key, &webhook.verify) {
            (ChallengeKey::Dedicated(secret), _) => {
                self.context.secrets.challenge_key(secret).await.map(|key| vec![key])
            }
            (ChallengeKey::FromVerify, Some(verify)) => self.context.secrets.keys(verify).await,
            (ChallengeKey::FromVerify, None) | (ChallengeKey::None, _) => Ok(Vec::new()),
        };
        keys.map_err(|error| {
            let automation = &route.mount.deployment.automation.id;
            tracing::error!(%automation, error = error.message, "a challenge cannot be answered, and is refused");
            super::sender::without_key(&error)
        })
    }

    /// Stores the secret that a sender supplied, if a pairing is open and no secret is set yet. The challenge is
    /// confirmed only after the secret is durable.
    async fn store_paired_secret(
        &self,
        trigger: &TriggerKey,
        webhook: &WebhookTrigger,
        secret: &str,
        now: Timestamp,
    ) -> Result<(), Rejection> {
        let name = webhook.verify.as_ref().and_then(Verify::secret_name);
        let is_open =
            self.hooks.close_pairing(&*self.context.store, trigger, now).await.map_err(|error| {
                tracing::debug!(%trigger, %error, "the store cannot tell if a pairing is open");
                super::rejection_for(&error.into(), false)
            })?;
        let name = name.filter(|_| is_open).ok_or_else(|| {
            let name = trigger.name();
            tracing::warn!(%trigger, "a sender wants to pair, but no pairing is open; run `cogwork pair {name}`");
            Rejection::unverified()
        })?;
        self.context.set_secret(&name, secret).await.map_err(|error| {
            tracing::error!(%trigger, secret = name, %error, "the secret of a pairing could not be kept");
            Rejection::unverified()
        })?;
        tracing::info!(%trigger, secret = name, "paired: the sender's secret is kept");
        Ok(())
    }

    /// Opens a pairing for ten minutes and returns the time at which it expires. The first sender that supplies a
    /// secret is trusted.
    ///
    /// # Errors
    /// Returns an error if there is no such trigger, none of its senders supplies a secret, the secret is already
    /// set, or the store failed.
    pub async fn pair(&self, trigger: &str) -> Result<Timestamp, Error> {
        let catalog = self.context.catalog.load_full();
        let mount = catalog.find_trigger(trigger, |mount| paired_secret(mount.on()).is_some())?;
        let name = paired_secret(mount.on()).ok_or_else(|| {
            Error::Input(format!(
                "`{trigger}` has no sender that supplies its own secret; senders with `challenge: asana` do"
            ))
        })?;
        if self.context.secrets.secret(&name).await?.is_some() {
            let way_out = "remove it first if the sender should supply another";
            return Err(Error::Input(format!("the secret `{name}` is already set; {way_out}")));
        }
        let until = self.context.clock.now().checked_add(PAIRING_TIME).unwrap_or(Timestamp::MAX);
        self.hooks.open_pairing(&*self.context.store, &mount.key(), until).await?;
        Ok(until)
    }

    /// Expiry time of an open pairing; `None` if none is open, it expired, or the secret has arrived.
    ///
    /// # Errors
    /// The store failed.
    pub async fn pairing(&self, trigger: &TriggerKey) -> Result<Option<Timestamp>, Error> {
        Ok(self.hooks.pairing(&*self.context.store, trigger, self.context.clock.now()).await?)
    }
}

/// Name of the secret that is set by pairing.
fn paired_secret(trigger: &Trigger) -> Option<String> {
    let Trigger::Webhook(webhook) = trigger else { return None };
    let pairs = webhook.challenge.as_ref().is_some_and(|it| it.rule.guard == ChallengeGuard::Pairing);
    webhook.verify.as_ref().filter(|_| pairs).and_then(Verify::secret_name)
}
