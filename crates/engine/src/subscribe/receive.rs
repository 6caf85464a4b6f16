//! A request of an application that tells of an event: known by its secret, about this event, and counted once.

use model::automation::WebhookTrigger;
use model::execution::Origin;
use model::payload::{HttpResponse, Payload};
use model::value::{Map, Value};
use store::AcceptOutcome;
use trigger::verify::{Key, Proof};
use trigger::webhook::{Received, Request};
use trigger::{Rejection, response};

use crate::catalog::{Mounted, hooked};
use crate::engine::Engine;
use crate::hooks::check_chain;
use crate::intake::{Admission, Terms};
use crate::listen::Aside;
use crate::told::Start;

impl Engine {
    /// Answers a request on the address of an Automation that an event starts.
    pub(crate) async fn receive_event(
        &self,
        mounted: &Mounted,
        request: Request,
    ) -> Result<HttpResponse, Rejection> {
        let services = self.services();
        let automation = &mounted.deployed.automation;
        let catalog = services.catalog.load_full();
        let Some((_, hook)) = hooked(&mounted.deployed, &catalog) else {
            return Err(Rejection::not_a_webhook());
        };
        if !mounted.test && !automation.enabled {
            return Err(Rejection::automation_disabled());
        }
        let secret = services.event_secret(&automation.id);
        let webhook =
            model::load::event_webhook(&hook.verify, &secret).ok_or_else(Rejection::not_a_webhook)?;
        if let Some(answer) = trigger::webhook::probe(&webhook, &request.method) {
            self.capture_aside(mounted, &request, Aside::Probe, None);
            return Ok(answer);
        }
        let header = |name: &str| {
            let mut values = request.headers.iter().filter(|(header, _)| header == name);
            values.next().map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        // Others are such as the greeting after a subscription was made, for which nobody listens.
        let meant = hook.only.as_ref().is_none_or(|(name, value)| header(name).as_ref() == Some(value));
        if meant && self.is_listening(mounted) {
            let judged = async {
                self.verify_event(mounted, &webhook, &secret, &request)?;
                trigger::webhook::receive(&webhook, request.clone()).map(|_| None)
            };
            if let Some(answer) = self.capture(mounted, &webhook, &request, judged).await {
                return answer;
            }
        }
        check_chain(&request)?;
        let verified = self.verify_event(mounted, &webhook, &secret, &request);
        if !meant {
            self.capture_aside(mounted, &request, Aside::Ignored, verified.as_ref().err());
            verified?;
            self.count_refused(Some(mounted), "ignored");
            return Ok(said("ignored"));
        }
        verified?;
        let key = hook.delivery.as_deref().and_then(header).map(|id| format!("delivery:{id}"));
        let Received { payload, results, .. } = self.receive_inflated(&webhook, request).await?;
        let payload = Payload::Webhook(payload);
        let Some(fails) = services.condition_on(automation, &payload).await.start() else {
            return Ok(said("filtered"));
        };
        let origin = if mounted.test { Origin::Test } else { Origin::Event };
        let terms =
            Terms { key: key.filter(|_| !mounted.test), results: Some(results), fails, ..Terms::default() };
        let accepted = services.accept(&mounted.deployed, Start { payload, origin }, terms).await;
        let Admission { id, accepted, .. } =
            accepted.map_err(|error| crate::hooks::refused(&error, false))?;
        let answer = response::asynchronous(&webhook, &id);
        if accepted == AcceptOutcome::New {
            return Ok(answer);
        }
        self.count_refused(Some(mounted), "duplicate");
        Ok(response::duplicate(answer))
    }

    /// Refuses a request that does not come from the application that was asked.
    fn verify_event(
        &self,
        mounted: &Mounted,
        webhook: &WebhookTrigger,
        secret: &str,
        request: &Request,
    ) -> Result<(), Rejection> {
        let services = self.services();
        let refused = || Rejection::new(401, "invalid_signature", "invalid signature");
        let verify = webhook.verify.as_ref().ok_or_else(refused)?;
        let encoding = verify.keys().first().map_or(model::automation::Encoding::Text, |key| key.encoding);
        let key = Key::read(secret, encoding, None, None).map_err(|_| refused())?;
        let url = services.event_url(&mounted.deployed, mounted.test);
        let proof = Proof::Keys(verify, vec![key]);
        trigger::verify::verify(&proof, request, &url, services.clock.now()).map(drop).map_err(|(rejection, reason)| {
            let automation = &mounted.deployed.automation.id;
            tracing::info!(%automation, %reason, "a request was refused: its sender could not be verified");
            rejection
        })
    }
}

fn said(word: &str) -> HttpResponse {
    HttpResponse::json(200, &Value::from(Map::from_iter([(word, true)])))
}
