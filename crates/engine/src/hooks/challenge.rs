//! What senders ask before they send anything, answered without an execution; and the pairing with those that bring
//! the secret along.

use std::time::Duration;

use jiff::Timestamp;
use model::automation::{
    AutomationId, Challenge, ChallengeGuard, ChallengeKey, Trigger, Verify, WebhookTrigger,
};
use model::payload::HttpResponse;
use trigger::Rejection;
use trigger::challenge::ChallengeRequest;
use trigger::verify::Key;
use trigger::webhook::Request;

use crate::Error;
use crate::catalog::{Deployed, Mounted};
use crate::engine::Engine;

/// How long a pairing stays open (webhook security 2.5).
const PAIRING: Duration = Duration::from_secs(600);

impl Engine {
    /// Answers a sender's question, if it comes from whom it should.
    pub(super) async fn answer_challenge(
        &self,
        mounted: &Mounted,
        webhook: &WebhookTrigger,
        challenge: &Challenge,
        asked: &ChallengeRequest,
        request: &Request,
    ) -> Result<HttpResponse, Rejection> {
        let services = self.services();
        let (automation, now) = (&mounted.deployed.automation, services.clock.now());
        services.hooks.pace_challenge(mounted, now)?;
        if challenge.rule.guard == ChallengeGuard::Verified {
            self.verify(mounted, webhook, request)?;
        }
        let keys = self.challenge_keys(mounted, webhook, challenge)?;
        let answer = trigger::challenge::respond(challenge, asked, request, &keys, now);
        let answer = answer.map_err(|(rejection, reason)| {
            tracing::info!(automation = %automation.id, sender = challenge.name, %reason, "a challenge was not answered");
            rejection
        })?;
        if challenge.rule.guard == ChallengeGuard::Pairing {
            self.take_secret(&automation.id, webhook, &asked.text, now).await?;
        }
        tracing::info!(automation = %automation.id, sender = challenge.name, "answered a challenge");
        Ok(answer)
    }

    fn challenge_keys(
        &self,
        mounted: &Mounted,
        webhook: &WebhookTrigger,
        challenge: &Challenge,
    ) -> Result<Vec<Key>, Rejection> {
        let keys = match (&challenge.key, &webhook.verify) {
            (ChallengeKey::Own(secret), _) => {
                self.services().secrets.challenge_key(secret).map(|key| vec![key])
            }
            (ChallengeKey::OfVerify, Some(verify)) => self.services().secrets.keys(verify),
            (ChallengeKey::OfVerify, None) | (ChallengeKey::None, _) => Ok(Vec::new()),
        };
        keys.map_err(|error| {
            let automation = &mounted.deployed.automation.id;
            tracing::error!(%automation, error = error.message, "a challenge cannot be answered, and is refused");
            Rejection::unverified()
        })
    }

    /// Keeps the secret that a sender brought, if a person waits for it and there is none yet. Only once it is durable
    /// may the sender be told that it is known.
    async fn take_secret(
        &self,
        automation: &AutomationId,
        webhook: &WebhookTrigger,
        secret: &str,
        now: Timestamp,
    ) -> Result<(), Rejection> {
        let services = self.services();
        let name = webhook.verify.as_ref().and_then(Verify::secret_name);
        let name = name.filter(|_| services.hooks.close_pairing(automation, now)).ok_or_else(|| {
            tracing::warn!(%automation, "a sender wants to pair and nobody waits for it; `cogwork pair {automation}` does");
            Rejection::unverified()
        })?;
        self.set_secret(&name, secret).await.map_err(|error| {
            tracing::error!(%automation, secret = name, %error, "the secret of a pairing could not be kept");
            Rejection::unverified()
        })?;
        tracing::info!(%automation, secret = name, "paired: the sender's secret is kept");
        Ok(())
    }

    /// Waits from now on, for ten minutes, for a sender that brings its secret along, and gives the instant at which that
    /// ends. The first one to come is trusted.
    ///
    /// # Errors
    /// There is no such Automation, no sender of it brings a secret, or there is one already.
    pub fn pair(&self, id: &str) -> Result<Timestamp, Error> {
        let services = self.services();
        let catalog = services.catalog.load();
        let deployed = catalog.find(id)?;
        let name = paired_secret(deployed).ok_or_else(|| {
            Error::Input(format!(
                "no sender of automation `{id}` brings its secret along; that is `challenge: asana`"
            ))
        })?;
        if services.secrets.secret(&name)?.is_some() {
            let way_out = "remove it first if the sender shall bring another";
            return Err(Error::Input(format!("the secret `{name}` is set already; {way_out}")));
        }
        let until = services.clock.now().checked_add(PAIRING).unwrap_or(Timestamp::MAX);
        services.hooks.open_pairing(&deployed.automation.id, until);
        Ok(until)
    }

    /// Whether a pairing is still open: until when, or `None` where it is over, or its secret has come.
    #[must_use]
    pub fn pairing(&self, id: &AutomationId) -> Option<Timestamp> {
        self.services().hooks.pairing(id, self.services().clock.now())
    }
}

/// The name of the secret that a sender of an Automation brings.
fn paired_secret(deployed: &Deployed) -> Option<String> {
    let Trigger::Webhook(webhook) = &deployed.automation.trigger else { return None };
    let pairs = webhook.challenge.as_ref().is_some_and(|it| it.rule.guard == ChallengeGuard::Pairing);
    webhook.verify.as_ref().filter(|_| pairs).and_then(Verify::secret_name)
}
