//! Verifies the senders of requests.

use model::action::ActionError;
use model::automation::{DedupBy, WebhookTrigger};
use trigger::Rejection;
use trigger::verify::Verifier;
use trigger::webhook::Request;

use super::RETRY_AFTER;
use crate::ingress::Ingress;
use catalog::Route;

impl Ingress {
    /// Verifies the sender before anything of the request is parsed. Returns the hash of the signed bytes if the
    /// Automation deduplicates by it.
    pub(super) async fn verify(
        &self,
        route: &Route,
        webhook: &WebhookTrigger,
        request: &Request,
    ) -> Result<Option<[u8; 32]>, Rejection> {
        let proof = self.proof(route, webhook).await?;
        self.verify_with(proof.as_ref(), route, webhook, request)
    }

    /// Reads the keys that verify the requests of a webhook; `None` if none are needed.
    pub(super) async fn proof<'w>(
        &self,
        route: &Route,
        webhook: &'w WebhookTrigger,
    ) -> Result<Option<Verifier<'w>>, Rejection> {
        let Some(verify) = &webhook.verify else { return Ok(None) };
        if self.context.doubles.as_ref().is_some_and(|doubles| doubles.trusts_senders()) {
            return Ok(None);
        }
        let automation = &route.mount.deployment.automation.id;
        let proof = self.context.secrets.proof(verify).await.map_err(|error| {
            // Without the secret no request can be verified, so all of them are rejected.
            tracing::error!(%automation, error = error.message, "requests cannot be verified, and are refused");
            without_key(&error).with_detail(error.message.clone())
        })?;
        Ok(Some(proof))
    }

    /// Like [`Ingress::verify`], with keys that were read before. Blocks if the body is external.
    pub(super) fn verify_with(
        &self,
        proof: Option<&Verifier<'_>>,
        route: &Route,
        webhook: &WebhookTrigger,
        request: &Request,
    ) -> Result<Option<[u8; 32]>, Rejection> {
        let Some(proof) = proof else { return Ok(None) };
        let automation = &route.mount.deployment.automation.id;
        let url = self.public_url_of(route, request);
        let verified = trigger::verify::verify(proof, request, &url, self.context.clock.now());
        let proven = verified.map_err(|(rejection, reason)| {
            tracing::info!(%automation, %reason, "a request was refused: its sender could not be verified");
            rejection.with_detail(reason.to_string())
        })?;
        let by_signed = webhook.dedup.as_ref().is_some_and(|dedup| dedup.by == DedupBy::Signed);
        if let Some(key) = proven.key {
            self.hooks.record_key_use(&route.mount.key(), key, self.context.clock.now());
        }
        Ok(by_signed.then(|| proven.signed_hash()).flatten())
    }
}

/// The rejection of a request whose sender cannot be verified, because a key cannot be read. A sender repeats it later if only a
/// provider of secrets fails.
pub(crate) fn without_key(error: &ActionError) -> Rejection {
    match error.code.as_deref() {
        Some(runtime::PROVIDER_FAILURE) => {
            Rejection::unavailable("the sender cannot be verified now", RETRY_AFTER)
        }
        _ => Rejection::unverified(),
    }
}
