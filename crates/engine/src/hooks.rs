//! What happens to a request on a webhook's address: found, checked, made durable, answered.

use std::time::Duration;

use jiff::Timestamp;
use model::automation::{Automation, Trigger, WebhookMode, WebhookTrigger};
use model::execution::{ExecutionId, Origin, Outcome};
use model::payload::{HttpResponse, Payload};
use model::value::{Map, Value};
use trigger::Rejection;
use trigger::response;
use trigger::webhook::Request;

use crate::Error;
use crate::catalog::Mounted;
use crate::engine::{Engine, Services, Start};
use crate::intake::Terms;

impl Engine {
    /// The most bytes of a body that the address takes; `None` where no Automation answers there.
    #[must_use]
    pub fn body_limit(&self, token: &str) -> Option<usize> {
        let catalog = self.services().catalog.load();
        let mounted = catalog.mounted(token)?;
        match &mounted.deployed.automation.trigger {
            Trigger::Webhook(webhook) if mounted.test || mounted.deployed.automation.enabled => {
                Some(webhook.max_body)
            }
            _ => None,
        }
    }

    /// The Automation that answers at the address, for logs: the token itself is a secret.
    #[must_use]
    pub fn mounted_at(&self, token: &str) -> Option<model::AutomationId> {
        let catalog = self.services().catalog.load();
        catalog.mounted(token).map(|mounted| mounted.deployed.automation.id.clone())
    }

    /// Answers a request on the address with this token, in the order: token, enabled, method, signature, size,
    /// parsing, condition, durable acceptance, answer. An answer that names an execution is given only once that execution
    /// is committed.
    pub async fn receive(&self, token: &str, request: Request) -> HttpResponse {
        let mounted = self.services().catalog.load().mounted(token).cloned();
        let result = match &mounted {
            None => Err(Rejection::unknown_trigger()),
            Some(mounted) => self.receive_at(mounted, request).await,
        };
        result.unwrap_or_else(|rejection| {
            self.services().intake.count_refused(rejection.code);
            if let Some(mounted) = &mounted {
                let automation = &mounted.deployed.automation.id;
                tracing::debug!(%automation, code = rejection.code, message = %rejection.message, "request refused");
            }
            rejection.response()
        })
    }

    pub(crate) async fn receive_at(
        &self,
        mounted: &Mounted,
        request: Request,
    ) -> Result<HttpResponse, Rejection> {
        let automation = &mounted.deployed.automation;
        let Trigger::Webhook(webhook) = &automation.trigger else { return Err(Rejection::not_a_webhook()) };
        if !mounted.test && !automation.enabled {
            return Err(Rejection::automation_disabled());
        }
        if let Some(answer) = trigger::webhook::probe(webhook, &request.method) {
            return Ok(answer);
        }
        self.verify(mounted, webhook, &request)?;
        let trigger::webhook::Received { payload, results } = trigger::webhook::receive(webhook, request)?;
        if !self.condition_holds(mounted, &results)? {
            self.services().intake.count_refused("filtered");
            return Ok(HttpResponse::json(200, &Value::from(Map::from_iter([("filtered", true)]))));
        }
        let origin = if mounted.test { Origin::Test } else { Origin::Webhook };
        let start = Start { payload: Payload::Webhook(payload), origin };
        let at_once = webhook.mode == WebhookMode::Sync;
        let terms = Terms { at_once, results: Some(results), ..Terms::default() };
        let accepted = self.services().accept(&mounted.deployed, start, terms).await;
        let (id, _) = accepted.map_err(|error| refused(&error, at_once))?;
        match webhook.mode {
            WebhookMode::Async => Ok(response::asynchronous(webhook, &id)),
            WebhookMode::Sync => Ok(self.webhook_answer(webhook, id).await),
        }
    }

    /// Refuses a request that does not come from whom it should: before anything of it is read.
    fn verify(
        &self,
        mounted: &Mounted,
        webhook: &WebhookTrigger,
        request: &Request,
    ) -> Result<(), Rejection> {
        let Some(verify) = &webhook.verify else { return Ok(()) };
        let services = self.services();
        if services.doubles.as_ref().is_some_and(|doubles| doubles.trusts_senders()) {
            return Ok(());
        }
        let automation = &mounted.deployed.automation.id;
        let proof = services.secrets.proof(verify).map_err(|error| {
            // Without its secret nobody can be verified, and nobody is let in.
            tracing::error!(%automation, error = error.message, "requests cannot be verified, and are refused");
            Rejection::new(401, "invalid_signature", "invalid signature")
        })?;
        let url = services.address_of(mounted, request);
        let verified = trigger::verify::verify(&proof, request, &url, services.clock.now());
        verified.map_err(|(rejection, reason)| {
            tracing::info!(%automation, %reason, "a request was refused: its sender could not be verified");
            rejection
        })
    }

    fn condition_holds(&self, mounted: &Mounted, results: &Value) -> Result<bool, Rejection> {
        let automation = &mounted.deployed.automation;
        let Some(condition) = &automation.trigger_if else { return Ok(true) };
        let scope = self.services().condition_scope(automation, results.clone());
        let holds = scope.and_then(|scope| condition.holds(&scope).map_err(|error| error.to_string()));
        holds.map_err(|error| {
            // What is wrong with the file is for its author, not for whoever sent the request.
            tracing::warn!(automation = %automation.id, error, "the trigger's condition cannot be evaluated; the request is refused");
            condition_failed()
        })
    }

    /// Waits for the end of a synchronous execution, or for its `respond`, up to the limit.
    async fn webhook_answer(&self, webhook: &WebhookTrigger, id: ExecutionId) -> HttpResponse {
        let services = self.services();
        let deadline = services.clock.now().checked_add(webhook.timeout).unwrap_or(Timestamp::MAX);
        let outcome = match services.intake.watch(id) {
            Some(mut progress) => {
                if !services.intake.is_live(id)
                    && let Ok((Some(response), _)) = self.left(id).await
                {
                    // It has answered and gone to rest before anybody waited.
                    return response;
                }
                let decided = progress.wait_for(|progress| {
                    progress.response.is_some() || progress.outcome.is_some() || progress.parked
                });
                tokio::select! {
                    biased;
                    decided = decided => {
                        let decided = decided.map(|progress| progress.clone()).unwrap_or_default();
                        if let Some(response) = decided.response {
                            return response;
                        }
                        decided.outcome
                    }
                    () = services.clock.sleep_until(deadline) => return response::timed_out(&id),
                }
            }
            None => None,
        };
        let outcome = match outcome {
            Some(outcome) => Ok(outcome),
            // It was quicker than whoever waits for it: what it left is in the store.
            None => match self.left(id).await {
                Ok((Some(response), _)) => return response,
                Ok((None, outcome)) => outcome.ok_or(Error::Closing),
                Err(error) => Err(error),
            },
        };
        match outcome {
            Ok(Outcome::Succeeded { result }) => response::result(&result, &id),
            Ok(Outcome::Failed { error } | Outcome::Stuck { error }) => response::failed(&error.message, &id),
            Ok(Outcome::Cancelled { reason }) => response::failed(&reason, &id),
            Err(_) => response::timed_out(&id),
        }
    }

    /// The answer and the outcome of an execution that this process no longer has, as far as it came.
    async fn left(&self, id: ExecutionId) -> Result<(Option<HttpResponse>, Option<Outcome>), Error> {
        let events = self.services().store.events(id).await?.ok_or(Error::NoSuchExecution(id))?;
        let (mut response, mut outcome) = (None, None);
        for event in events {
            match event {
                model::Event::Responded { response: decided, .. } => response = Some(decided),
                model::Event::Finished { outcome: ended, .. } => outcome = Some(ended),
                _ => {}
            }
        }
        Ok((response, outcome))
    }
}

/// A start that was not accepted: nothing was stored, so the caller may try again.
fn refused(error: &Error, at_once: bool) -> Rejection {
    match error {
        // A synchronous caller is told to slow down, since waiting would time out anyway (semantics 3.5).
        Error::Busy { retry_after } if at_once => Rejection::rate_limited(*retry_after),
        Error::Busy { retry_after } => {
            Rejection::unavailable("too many executions are waiting", *retry_after)
        }
        Error::Closing => Rejection::unavailable("the daemon is stopping", RETRY_AFTER),
        other => {
            tracing::error!(error = %other, "a request could not be made durable");
            Rejection::unavailable("the request could not be stored; try again", RETRY_AFTER)
        }
    }
}

/// When a caller may try again whose request could not be stored.
const RETRY_AFTER: Duration = Duration::from_secs(5);

fn condition_failed() -> Rejection {
    Rejection {
        status: 500,
        code: "condition_failed",
        message: "the trigger's condition cannot be evaluated; see the daemon's log".to_owned(),
        allow: None,
        retry_after: None,
    }
}

impl Services {
    /// The address that a request was sent to, as its sender was given it: never what the request itself says of it.
    fn address_of(&self, mounted: &Mounted, request: &Request) -> String {
        let base = self.settings.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
        let address = mounted.deployed.address.as_ref();
        let token = address.map_or("", |address| if mounted.test { &address.test } else { &address.live });
        let query =
            if request.raw_query.is_empty() { String::new() } else { format!("?{}", request.raw_query) };
        format!("{base}/trigger/{token}{}{query}", request.fragment)
    }

    /// Whether the trigger's condition lets an instant of a schedule pass. One that cannot be evaluated does not.
    pub(crate) fn scheduled_condition_holds(&self, automation: &Automation, payload: &Payload) -> bool {
        let Some(condition) = &automation.trigger_if else { return true };
        let holds = trigger::results(payload)
            .map_err(|rejection| rejection.message)
            .and_then(|results| self.condition_scope(automation, results))
            .and_then(|scope| condition.holds(&scope).map_err(|error| error.to_string()));
        holds.unwrap_or_else(|error| {
            tracing::warn!(automation = %automation.id, error, "the trigger's condition cannot be evaluated; nothing starts");
            false
        })
    }

    /// The names that a trigger's condition reads.
    fn condition_scope(&self, automation: &Automation, results: Value) -> Result<Value, String> {
        let config_vars = self.secrets.config_vars(automation).map_err(|error| error.message)?;
        let about = Map::from_iter([("id", automation.id.as_str()), ("name", automation.name.as_str())]);
        Ok(Value::from(Map::from_iter([
            ("trigger", Value::from(Map::from_iter([("results", results)]))),
            ("configVars", Value::from(config_vars)),
            ("automation", Value::from(about)),
        ])))
    }
}
