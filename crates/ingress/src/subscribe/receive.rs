//! Handles requests that deliver a subscribed event: verifies the sender, checks the event type and removes duplicates.

use std::borrow::Cow;

use model::automation::WebhookTrigger;
use model::execution::Origin;
use model::payload::{HttpResponse, Payload};
use store::AcceptOutcome;
use trigger::verify::{Key, Verifier};
use trigger::webhook::{ReceivedRequest, Request};
use trigger::{Rejection, response};
use value::{Map, Value};

use crate::hooks::{Reply, check_enabled};
use crate::ingress::Ingress;
use crate::listen::{NonTrigger, RequestPreview};
use catalog::{Catalog, Route, trigger_hook};
use runtime::Start;
use runtime::check_chain_depth;
use runtime::{AcceptOptions, Acceptance};

impl Ingress {
    /// Responds to a request at the address of an event trigger.
    pub(crate) async fn receive_event(
        &self,
        catalog: &Catalog,
        route: &Route,
        request: Request,
    ) -> Result<Reply, Rejection> {
        let Some((_, hook)) = trigger_hook(route.mount.on(), catalog) else {
            return Err(Rejection::not_a_webhook());
        };
        check_enabled(route)?;
        let secret = self.sender_secret(catalog, (&route.mount, route.is_test), &hook).await.map_err(|error| {
            tracing::error!(trigger = %route.mount.key(), error = error.message, "a sender cannot be verified, and is refused");
            crate::hooks::without_key(&error)
        })?;
        let webhook = language::load::event_webhook(&hook.verify, hook.challenge.as_deref(), &secret)
            .ok_or_else(Rejection::not_a_webhook)?;
        if let Some(challenge) = &webhook.challenge
            && let Some(asked) = trigger::challenge::detect(challenge, &request)
        {
            let answer = self.answer_challenge(route, &webhook, challenge, &asked, &request).await;
            self.capture_non_trigger(route, &request, NonTrigger::Challenge, &answer).await;
            return answer.map(Reply::from);
        }
        if let Some(answer) = trigger::webhook::probe(&webhook, &request.method) {
            let answer = Ok(answer);
            self.capture_non_trigger(route, &request, NonTrigger::Probe, &answer).await;
            return answer.map(Reply::from);
        }
        let header = |name: &str| {
            let mut values = request.headers.iter().filter(|(header, _)| header == name);
            values.next().map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        // Other requests include the greeting that follows a new subscription.
        let is_matching = hook.only.as_ref().is_none_or(|(name, value)| header(name).as_ref() == Some(value));
        if is_matching && self.is_listening(route).await? {
            let judged = async {
                self.verify_event(route, &webhook, &secret, &request)?;
                trigger::webhook::receive(&webhook, request.clone()).map(|_| RequestPreview::default())
            };
            if let Some(answer) = self.capture(route, &webhook, &request, judged).await {
                return answer.map(Reply::from);
            }
        }
        check_chain_depth(&request, self.context.settings.limits.chain)?;
        let verified = self.verify_event(route, &webhook, &secret, &request);
        if !is_matching {
            let answer = verified.map(|()| acknowledgement("ignored"));
            self.capture_non_trigger(route, &request, NonTrigger::Ignored, &answer).await;
            return answer.map(|response| {
                self.count_rejection(Some(route), "ignored");
                Reply::without_start(response, "ignored")
            });
        }
        verified?;
        let in_header = hook.delivery.as_deref().and_then(header);
        let received = self.receive_inflated(&webhook, request).await?;
        let in_body =
            || received.results.path("body.data")?.path(hook.delivery_path.as_ref()?).map(|id| id.to_text());
        let key = in_header.or_else(in_body).map(|id| match &route.mount.declared().id {
            trigger if trigger.is_main() => format!("delivery:{id}"),
            trigger => format!("delivery:{trigger}:{id}"),
        });
        self.start_event(route, &webhook, received, key).await
    }

    /// Accepts an execution for a verified request, unless the delivery with this key has started one.
    async fn start_event(
        &self,
        route: &Route,
        webhook: &WebhookTrigger,
        received: ReceivedRequest,
        key: Option<String>,
    ) -> Result<Reply, Rejection> {
        let ReceivedRequest { payload, results, .. } = received;
        let payload = Payload::Webhook(payload);
        let prepared = self.prepare_start(&route.mount, &payload).await;
        let prepared = prepared.map_err(|error| crate::hooks::rejection_for(&error, false))?;
        let Some((by, fails)) = prepared else {
            return Ok(Reply::without_start(acknowledgement("filtered"), "filtered"));
        };
        let origin = if route.is_test { Origin::Test } else { Origin::Event };
        let options = AcceptOptions {
            key: key.filter(|_| !route.is_test),
            results: Some(results),
            fails,
            ..AcceptOptions::default()
        };
        let accepted =
            self.admission.accept(&route.mount.deployment, Start { payload, origin, by }, options).await;
        let Acceptance { id, accepted, .. } =
            accepted.map_err(|error| crate::hooks::rejection_for(&error, false))?;
        let answer = response::asynchronous(webhook, &id);
        if accepted == AcceptOutcome::New {
            return Ok(answer.into());
        }
        self.count_rejection(Some(route), "duplicate");
        Ok(Reply::without_start(response::duplicate(answer), "duplicate"))
    }

    /// Rejects a request unless it comes from the subscribed application.
    fn verify_event(
        &self,
        route: &Route,
        webhook: &WebhookTrigger,
        secret: &str,
        request: &Request,
    ) -> Result<(), Rejection> {
        let refused = || Rejection::new(401, "invalid_signature", "invalid signature");
        let verify = webhook.verify.as_ref().ok_or_else(refused)?;
        let encoding = verify.keys().first().map_or(model::automation::Encoding::Text, |key| key.encoding);
        let key = Key::parse(secret, encoding, None, None).map_err(|_| refused())?;
        let url = self.event_url(&route.mount, route.is_test);
        let proof = Verifier::Keys(Cow::Borrowed(verify), vec![key]);
        trigger::verify::verify(&proof, request, &url, self.context.clock.now()).map(drop).map_err(
            |(rejection, reason)| {
                let trigger = route.mount.key();
                tracing::info!(%trigger, %reason, "a request was refused: its sender could not be verified");
                rejection.with_detail(reason.to_string())
            },
        )
    }
}

fn acknowledgement(word: &str) -> HttpResponse {
    HttpResponse::json(200, &Value::from(Map::from_iter([(word, true)])))
}
