//! What happens to a request on a webhook's address: found, checked, made durable, answered.

mod answer;
mod challenge;
mod code;
mod credentials;
mod desk;
mod route;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::AutomationId;
use model::Expression;
use model::action::{ActionError, ErrorKind};
use model::automation::{Automation, DedupBy, Trigger, WebhookMode, WebhookTrigger};
use model::budget::Budget;
use model::execution::Origin;
use model::expression::EvaluationError;
use model::failpoint::Boundary;
use model::payload::{HttpResponse, Payload};
use model::value::{Files, Map, Value};
use store::Accepted;
use trigger::Rejection;
use trigger::response;
use trigger::sending::{Sending, names};
use trigger::webhook::{Received, Request};

pub(crate) use credentials::dropped as without_credentials;
pub(crate) use desk::Desk;
pub use route::RouteMatch;
pub(crate) use runtime::check_chain;

use crate::ingress::Ingress;
use crate::listen::Aside;
use catalog::{Catalog, Route};
use runtime::Error;
use runtime::Start;
use runtime::{AcceptOptions, Acceptance};

impl Ingress {
    /// Looks up the token of a request, once for all that is done with it.
    #[must_use]
    pub fn route(&self, token: &str) -> RouteMatch {
        RouteMatch::new(self.runtime.catalog.load_full(), token)
    }

    /// Where the bodies of large requests are put while they arrive.
    #[must_use]
    pub fn files(&self) -> Arc<dyn Files> {
        self.runtime.store.files()
    }

    /// Answers a request on the address with this token, as [`Ingress::receive_on`] does.
    pub async fn receive(self: &Arc<Self>, token: &str, request: Request) -> HttpResponse {
        self.receive_on(&self.route(token), request).await
    }

    /// Answers a request on a route, in the order: token, enabled, challenge, probe, chain, rate,
    /// signature, size, parsing, condition, what was sent before, durable acceptance, answer. An answer that names an
    /// execution is given only once that execution is committed.
    pub async fn receive_on(self: &Arc<Self>, route: &RouteMatch, request: Request) -> HttpResponse {
        let RouteMatch { catalog, mounted } = route;
        let result = match mounted {
            None => Err(Rejection::unknown_trigger()),
            Some(mounted) => self.receive_at(catalog, mounted, request).await,
        };
        let is_accepted = result.as_ref().is_ok_and(|answer| answer.status < 300);
        let result = match is_accepted && self.runtime.fails_at(Boundary::BeforeAck).await {
            true => Err(Rejection::unavailable("a failpoint made it fail", RETRY_AFTER)),
            false => result,
        };
        result.unwrap_or_else(|rejection| {
            self.count_refused(mounted.as_ref(), rejection.code);
            if let Some(mounted) = mounted {
                let automation = &mounted.deployed.automation.id;
                tracing::debug!(%automation, code = rejection.code, message = %rejection.message, "request refused");
            }
            rejection.response()
        })
    }

    pub async fn receive_at(
        self: &Arc<Self>,
        catalog: &Catalog,
        mounted: &Route,
        request: Request,
    ) -> Result<HttpResponse, Rejection> {
        let automation = &mounted.deployed.automation;
        if matches!(automation.trigger, Trigger::Event(_)) {
            return self.receive_event(catalog, mounted, request).await;
        }
        let Trigger::Webhook(webhook) = &automation.trigger else { return Err(Rejection::not_a_webhook()) };
        if !mounted.is_test && !automation.enabled {
            return Err(Rejection::automation_disabled());
        }
        if let Some(challenge) = &webhook.challenge
            && let Some(asked) = trigger::challenge::asked(challenge, &request)
        {
            let answer = Box::pin(self.answer_challenge(mounted, webhook, challenge, &asked, &request)).await;
            self.capture_aside(mounted, &request, Aside::Challenge, answer.as_ref().err());
            return answer;
        }
        if let Some(answer) = trigger::webhook::probe(webhook, &request.method) {
            self.capture_aside(mounted, &request, Aside::Probe, None);
            return Ok(answer);
        }
        if self.is_listening(mounted)
            && let Some(answer) =
                Box::pin(self.capture(mounted, webhook, &request, self.judge(mounted, webhook, &request)))
                    .await
        {
            return answer;
        }
        check_chain(&request)?;
        if let Some(rule) = &webhook.rate_limit {
            self.hooks.pace(mounted, rule, self.runtime.clock.now())?;
        }
        let (signed, received) = self.read(mounted, webhook, request).await?;
        if !self.condition_holds(mounted, &received.results).await? {
            self.count_refused(Some(mounted), "filtered");
            return Ok(filtered());
        }
        let names = names(webhook, &received, signed, mounted.is_test)?;
        self.begin(mounted, webhook, received, names).await
    }

    /// What a request would be answered that starts nothing; `None` where its answer would be that of an execution.
    async fn judge(
        self: &Arc<Self>,
        mounted: &Route,
        webhook: &WebhookTrigger,
        request: &Request,
    ) -> Result<Option<HttpResponse>, Rejection> {
        let (_, mut received) = self.read(mounted, webhook, request.clone()).await?;
        if !self.condition_holds(mounted, &received.results).await? {
            return Ok(Some(filtered()));
        }
        let id = self.runtime.intake.next_id(self.runtime.clock.now());
        self.decide_on_request(&mounted.deployed, id, &mut received.payload, &mut received.results).await?;
        let decided = received.payload.decided.as_deref();
        Ok(decided.and_then(|decided| code::answer_of_code(webhook, decided, &id)))
    }

    /// Verifies a request and reads it, in this order; gives a hash of what is signed, as [`Ingress::verify`] does.
    async fn read(
        self: &Arc<Self>,
        mounted: &Route,
        webhook: &WebhookTrigger,
        request: Request,
    ) -> Result<(Option<[u8; 32]>, Received), Rejection> {
        // Of those that inflate their body, few are at work at one time.
        let is_compressed = trigger::webhook::is_compressed(&request.headers);
        let _permit = match is_compressed {
            true => self.inflating.acquire().await.ok(),
            false => None,
        };
        // What is on disk is read where nobody waits for it.
        if request.body.is_kept() || is_compressed {
            let (engine, mounted, webhook) = (self.clone(), mounted.clone(), webhook.clone());
            return aside(move || {
                let signed = engine.verify(&mounted, &webhook, &request)?;
                Ok((signed, trigger::webhook::receive(&webhook, request)?))
            })
            .await;
        }
        let signed = self.verify(mounted, webhook, &request)?;
        let received = trigger::webhook::read(webhook, request)?;
        if !trigger::webhook::fits_at_once(webhook, &received.results) {
            let (webhook, results) = (webhook.clone(), received.results.clone());
            aside(move || trigger::webhook::check_body(&webhook, &results, &Budget::default())).await?;
        }
        Ok((signed, received))
    }

    /// Reads a verified request whole; one whose body was sent compressed on a thread that may block.
    pub(crate) async fn receive_inflated(
        &self,
        webhook: &WebhookTrigger,
        request: Request,
    ) -> Result<Received, Rejection> {
        if !trigger::webhook::is_compressed(&request.headers) {
            return trigger::webhook::receive(webhook, request);
        }
        let _permit = self.inflating.acquire().await.ok();
        let webhook = webhook.clone();
        aside(move || trigger::webhook::receive(&webhook, request)).await
    }

    /// Starts an execution, unless the same was sent before: then its sender gets the first one's answer.
    async fn begin(
        self: &Arc<Self>,
        mounted: &Route,
        webhook: &WebhookTrigger,
        mut received: Received,
        names: Vec<Sending>,
    ) -> Result<HttpResponse, Rejection> {
        let at_once = webhook.mode == WebhookMode::Sync;
        // A caller that waits is accepted at once or not at all. Of two that send the same, the second must not be refused
        // for want of the slot that the first one takes.
        let turn = match names.first().filter(|_| at_once) {
            Some(name) => Some(self.hooks.turn(&mounted.deployed.automation.id, name).await),
            None => None,
        };
        // Before a slot is asked for: one that sends again needs none.
        if let Some(sent) =
            self.sent_before(mounted, &names).await.map_err(|error| refused(&error, at_once))?
        {
            drop(turn);
            return self.again(mounted, webhook, sent).await;
        }
        let now = self.runtime.clock.now();
        let id = self.runtime.intake.next_id(now);
        if webhook.code.is_some() {
            let Received { payload, results } = &mut received;
            Box::pin(self.decide_on_request(&mounted.deployed, id, payload, results)).await?;
        }
        let decided = received.payload.decided.as_deref();
        let answer = decided.and_then(|decided| code::answer_of_code(webhook, decided, &id));
        let sendings = names.iter().map(|name| store::Sending {
            key: name.key,
            content: name.content,
            until: now.checked_add(name.window).unwrap_or(Timestamp::MAX),
        });
        let sendings = sendings.collect();
        let origin = if mounted.is_test { Origin::Test } else { Origin::Webhook };
        let received = credentials::hidden(webhook, received, &self.runtime.settings.redactor);
        let start = Start { payload: Payload::Webhook(received.payload), origin };
        let options = AcceptOptions {
            id: Some(id),
            at_once,
            sendings,
            results: Some(received.results),
            ..AcceptOptions::default()
        };
        let accepted = self.runtime.accept(&mounted.deployed, start, options).await;
        drop(turn);
        match accepted.map_err(|error| refused(&error, at_once))? {
            Acceptance { id, accepted: Accepted::New, progress } => match answer {
                Some(answer) => Ok(answer),
                None => Ok(self.first_answer(webhook, id, progress).await),
            },
            Acceptance { accepted: sent, .. } => self.again(mounted, webhook, sent).await,
        }
    }

    /// What was sent before under one of these names.
    async fn sent_before(&self, mounted: &Route, names: &[Sending]) -> Result<Option<Accepted>, Error> {
        let automation = &mounted.deployed.automation.id;
        for name in names {
            let sent = self.runtime.store.sent(automation, name.key, self.runtime.clock.now()).await?;
            if let Some(sent) = sent {
                let taken = if sent.differs(name.content) { Accepted::Mismatch } else { Accepted::Duplicate };
                return Ok(Some(taken(sent.execution)));
            }
        }
        Ok(None)
    }

    async fn again(
        self: &Arc<Self>,
        mounted: &Route,
        webhook: &WebhookTrigger,
        sent: Accepted,
    ) -> Result<HttpResponse, Rejection> {
        match sent {
            Accepted::Duplicate(first) => {
                self.count_refused(Some(mounted), "duplicate");
                tracing::debug!(automation = %mounted.deployed.automation.id, execution = %first, "the same was sent before");
                let answer = match self.decided_answer(webhook, first).await.ok().flatten() {
                    Some(decided) => decided,
                    None => self.answer_of(webhook, first, None).await,
                };
                Ok(response::duplicate(answer))
            }
            Accepted::Mismatch(_) | Accepted::New => Err(Rejection::idempotency_mismatch()),
        }
    }

    /// Counts a request that was refused before it came to [`Ingress::receive`].
    pub fn note_refused(&self, route: Option<&RouteMatch>, reason: &'static str) {
        self.count_refused(route.and_then(|route| route.mounted.as_ref()), reason);
    }

    /// The starts of an Automation that were refused or passed over since the daemon began, by reason.
    #[must_use]
    pub fn refused_of(&self, automation: &AutomationId) -> BTreeMap<String, u64> {
        self.runtime.refusals.of(automation)
    }

    /// When each of the keys of an Automation's `verify` last proved a request since the daemon began, by its place from 0.
    #[must_use]
    pub fn keys_used(&self, automation: &AutomationId) -> BTreeMap<usize, Timestamp> {
        self.hooks.keys_used(automation)
    }

    pub(crate) fn count_refused(&self, mounted: Option<&Route>, reason: &'static str) {
        let automation = mounted.map(|mounted| &mounted.deployed.automation.id);
        self.runtime.refusals.count(automation, reason);
    }

    /// Refuses a request that does not come from whom it should, before anything of it is read; and gives a hash of what is
    /// signed, where that tells it from others.
    fn verify(
        &self,
        mounted: &Route,
        webhook: &WebhookTrigger,
        request: &Request,
    ) -> Result<Option<[u8; 32]>, Rejection> {
        let Some(verify) = &webhook.verify else { return Ok(None) };
        if self.runtime.doubles.as_ref().is_some_and(|doubles| doubles.trusts_senders()) {
            return Ok(None);
        }
        let automation = &mounted.deployed.automation.id;
        let proof = self.runtime.secrets.proof(verify).map_err(|error| {
            // Without its secret nobody can be verified, and nobody is let in.
            tracing::error!(%automation, error = error.message, "requests cannot be verified, and are refused");
            Rejection::unverified()
        })?;
        let url = self.address_of(mounted, request);
        let verified = trigger::verify::verify(&proof, request, &url, self.runtime.clock.now());
        let proven = verified.map_err(|(rejection, reason)| {
            tracing::info!(%automation, %reason, "a request was refused: its sender could not be verified");
            rejection
        })?;
        let by_signed = webhook.dedup.as_ref().is_some_and(|dedup| dedup.by == DedupBy::Signed);
        if let Some(key) = proven.key {
            self.hooks.note_key(automation, key, self.runtime.clock.now());
        }
        Ok(by_signed.then(|| proven.signed_hash()).flatten())
    }

    async fn condition_holds(&self, mounted: &Route, results: &Value) -> Result<bool, Rejection> {
        let automation = &mounted.deployed.automation;
        let Some(condition) = &automation.trigger_if else { return Ok(true) };
        let error = match self.condition_scope(automation, results.clone()) {
            Ok(scope) => match self.trigger_condition(condition, &scope).await {
                Ok(holds) => return Ok(holds),
                Err(error) if error.exceeded.is_some() => {
                    tracing::info!(automation = %automation.id, %error, "a request was refused: the trigger's condition costs too much");
                    return Err(condition_too_costly());
                }
                Err(error) => error.to_string(),
            },
            Err(error) => error,
        };
        // What is wrong with the file is for its author, not for the sender of the request.
        tracing::warn!(automation = %automation.id, error, "the trigger's condition cannot be evaluated; the request is refused");
        Err(condition_failed())
    }
}

/// A start that was not accepted: nothing was stored, so the caller may try again.
pub(crate) fn refused(error: &Error, at_once: bool) -> Rejection {
    match error {
        // A synchronous caller is told to slow down, since waiting would time out anyway (semantics 3.5).
        Error::Busy { retry_after } if at_once => Rejection::rate_limited(*retry_after),
        Error::Busy { retry_after } => {
            Rejection::unavailable("too many executions are waiting", *retry_after)
        }
        Error::Closing => Rejection::unavailable("the daemon is stopping", RETRY_AFTER),
        Error::Store(store::Error::Full) => Rejection::unavailable("the store is full", RETRY_AFTER),
        other => {
            tracing::error!(error = %other, "a request could not be made durable");
            Rejection::unavailable("the request could not be stored; try again", RETRY_AFTER)
        }
    }
}

/// The most time that the condition of a trigger takes.
const CONDITION_TIME: Duration = Duration::from_secs(1);

/// When a caller may try again whose request could not be stored.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Runs `work` on a thread that may block.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Rejection> + Send + 'static,
) -> Result<T, Rejection> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a request could not be read");
        Err(Rejection::unavailable("the request could not be read; try again", RETRY_AFTER))
    })
}

/// What a sender is told where the trigger's condition does not hold.
fn filtered() -> HttpResponse {
    HttpResponse::json(200, &Value::from(Map::from_iter([("filtered", true)])))
}

/// The answer to a request over which the trigger's condition costs more than its budget.
fn condition_too_costly() -> Rejection {
    Rejection {
        status: 400,
        code: "condition_too_costly",
        message: "the trigger's condition takes too much work over this request".to_owned(),
        allow: None,
        retry_after: None,
    }
}

fn condition_failed() -> Rejection {
    Rejection {
        status: 500,
        code: "condition_failed",
        message: "the trigger's condition cannot be evaluated; see the daemon's log".to_owned(),
        allow: None,
        retry_after: None,
    }
}

/// The value of a trigger's condition.
#[derive(Debug)]
pub enum Condition {
    Holds,
    DoesNotHold,
    /// It cannot be evaluated: the execution starts, and fails with this error.
    Fails(ActionError),
}

impl Condition {
    /// The error with which the execution begins, if any; `None` where none starts.
    pub fn start(self) -> Option<Option<ActionError>> {
        match self {
            Self::Holds => Some(None),
            Self::DoesNotHold => None,
            Self::Fails(error) => Some(Some(error)),
        }
    }
}

impl Ingress {
    /// The address that a request was sent to, as its sender was given it: never what the request itself says of it.
    fn address_of(&self, mounted: &Route, request: &Request) -> String {
        let base = self.runtime.settings.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
        let address = mounted.deployed.address.as_ref();
        let token = address.map_or("", |address| if mounted.is_test { &address.test } else { &address.live });
        let query =
            if request.raw_query.is_empty() { String::new() } else { format!("?{}", request.raw_query) };
        format!("{base}/trigger/{token}{}{query}", request.fragment)
    }

    /// Evaluates the trigger's condition over something that has no caller: an instant, an item of a poll, an event. Where
    /// it does not hold, that is counted.
    pub async fn condition_on(&self, automation: &Automation, payload: &Payload) -> Condition {
        let Some(condition) = &automation.trigger_if else { return Condition::Holds };
        let scope = trigger::results(payload)
            .map_err(|rejection| rejection.message)
            .and_then(|results| self.condition_scope(automation, results));
        let error = match scope {
            Ok(scope) => match self.trigger_condition(condition, &scope).await {
                Ok(true) => return Condition::Holds,
                Ok(false) => {
                    self.runtime.refusals.count(Some(&automation.id), "filtered");
                    return Condition::DoesNotHold;
                }
                Err(error) => runtime::expression_error(&error, "trigger.if"),
            },
            Err(message) => ActionError::new(ErrorKind::Expression, format!("trigger.if: {message}")),
        };
        tracing::warn!(automation = %automation.id, error = error.message, "the trigger's condition cannot be evaluated; the execution fails");
        Condition::Fails(self.runtime.settings.redactor.error(error))
    }

    /// The truth of a trigger's condition, which has a second at the most.
    async fn trigger_condition(
        &self,
        condition: &Expression,
        scope: &Value,
    ) -> Result<bool, EvaluationError> {
        tokio::select! {
            biased;
            holds = self.runtime.evaluator.holds(condition, scope) => holds,
            () = self.runtime.clock.sleep_for(CONDITION_TIME) => Err(condition.out_of_time()),
        }
    }

    /// The names that a trigger's condition reads.
    fn condition_scope(&self, automation: &Automation, results: Value) -> Result<Value, String> {
        let config_vars = self.runtime.secrets.config_vars(automation).map_err(ActionError::into_message)?;
        let about = Map::from_iter([("id", automation.id.as_str()), ("name", automation.name.as_str())]);
        Ok(Value::from(Map::from_iter([
            ("trigger", Value::from(Map::from_iter([("results", results)]))),
            ("configVars", Value::from(config_vars)),
            ("automation", Value::from(about)),
        ])))
    }
}
