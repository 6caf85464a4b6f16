//! Handles requests to webhook addresses: looks up the Automation, verifies and reads the request, accepts an execution
//! and builds the response.

mod answer;
mod caller_answer;
mod challenge;
mod code;
mod limits;
mod refusal;
mod route;
mod sender;
mod shared_limits;
mod start_inputs;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use expression::{EvaluationError, Expression};
use jiff::Timestamp;
use model::AutomationId;
use model::action::{ActionError, ErrorKind};
use model::automation::{TriggerKey, WebhookMode, WebhookTrigger};
use model::execution::Origin;
use model::failpoint::Failpoint;
use model::payload::{HttpResponse, Payload};
use store::{AcceptOutcome, FailureKind, Outage};
use tokio::sync::SemaphorePermit;
use trigger::Rejection;
use trigger::dedup::{DedupKey, DedupScope, dedup_keys};
use trigger::response;
use trigger::verify::Verifier;
use trigger::webhook::{ReceivedRequest, Request};
use value::budget::Budget;
use value::{FileStorage, Map, Value};

pub use caller_answer::{AnsweredBy, Caller, CallerAnswer, caller};
pub(crate) use limits::RateLimits;
pub use refusal::Reply;
use route::Receiver;
pub use route::RouteMatch;
pub(crate) use route::check_enabled;
use runtime::check_chain_depth;
pub(crate) use sender::without_key;
use start_inputs::bad_input;
pub(crate) use start_inputs::not_now;

use crate::ingress::Ingress;
use crate::listen::{NonTrigger, RequestPreview, Verdict};
use catalog::{Catalog, Mount, Route};
use runtime::Error;
use runtime::Start;
use runtime::{AcceptOptions, Acceptance};

impl Ingress {
    /// Looks up the token of a request, once for all that is done with it.
    #[must_use]
    pub fn route(&self, token: &str) -> RouteMatch {
        RouteMatch::new(self.context.catalog.load_full(), token)
    }

    /// Returns the temporary storage for large request bodies while they arrive.
    #[must_use]
    pub fn files(&self) -> Arc<dyn FileStorage> {
        self.context.store.files()
    }

    /// Answers a request on the address with this token, as [`Ingress::receive_on`] does.
    pub async fn receive(self: &Arc<Self>, token: &str, request: Request) -> HttpResponse {
        self.receive_on(&self.route(token), request).await
    }

    /// Answers a request at a route, in this order: token, enabled, challenge, probe, chain, rate,
    /// signature, size, parsing, condition, what was sent before, durable acceptance, response. A response that names an
    /// execution is sent only after that execution is committed.
    pub async fn receive_on(self: &Arc<Self>, route: &RouteMatch, request: Request) -> HttpResponse {
        let RouteMatch { catalog, route } = route;
        let described = route.as_ref().map(|route| refusal::describe(&request, route.is_test));
        let result = match route {
            None => Err(Rejection::unknown_trigger()),
            Some(route) => self.receive_at(catalog, route, request).await,
        };
        let is_accepted = result.as_ref().is_ok_and(|reply| reply.response.status < 300);
        let result = match is_accepted && self.context.fails_at(Failpoint::BeforeAck).await {
            true => Err(Rejection::unavailable("a failpoint made it fail", RETRY_AFTER)),
            false => result,
        };
        let Reply { response, started_nothing } = match result {
            Ok(reply) => reply,
            Err(rejection) => {
                self.count_rejection(route.as_ref(), rejection.code);
                if let Some(route) = route {
                    let automation = &route.mount.deployment.automation.id;
                    tracing::debug!(%automation, code = rejection.code, message = %rejection.message, "request refused");
                }
                Reply::without_start(rejection.response(), rejection.code)
            }
        };
        if let (Some(route), Some(request), Some(reason)) = (route, described, started_nothing) {
            self.keep_refusal(&route.mount, reason, response.status, request);
        }
        response
    }

    /// Answers a request on a route that exists.
    ///
    /// # Errors
    /// Returns the rejection of a request that starts nothing.
    pub async fn receive_at(
        self: &Arc<Self>,
        catalog: &Catalog,
        route: &Route,
        request: Request,
    ) -> Result<Reply, Rejection> {
        let webhook = match Receiver::of(route.mount.on()) {
            Some(Receiver::Webhook(webhook)) => webhook,
            // Rare calls are on the heap, so that the future of every request has no room for them.
            Some(Receiver::Event) => return Box::pin(self.receive_event(catalog, route, request)).await,
            None => return Err(Rejection::not_a_webhook()),
        };
        check_enabled(route)?;
        if let Some(challenge) = &webhook.challenge
            && let Some(asked) = trigger::challenge::detect(challenge, &request)
        {
            let answer = Box::pin(self.answer_challenge(route, webhook, challenge, &asked, &request)).await;
            Box::pin(self.capture_non_trigger(route, &request, NonTrigger::Challenge, &answer)).await;
            return answer.map(Reply::from);
        }
        if let Some(answer) = trigger::webhook::probe(webhook, &request.method) {
            let answer = Ok(answer);
            Box::pin(self.capture_non_trigger(route, &request, NonTrigger::Probe, &answer)).await;
            return answer.map(Reply::from);
        }
        if self.is_listening(route).await?
            && let Some(answer) = Box::pin(self.capture(
                route,
                webhook,
                &request,
                self.preview_request(route, webhook, &request),
            ))
            .await
        {
            return answer.map(Reply::from);
        }
        check_chain_depth(&request, self.context.settings.limits.chain)?;
        if let Some(rule) = &webhook.rate_limit {
            self.hooks.check_rate(&self.context, route, *rule).await?;
        }
        let (signed, received) = self.verify_and_parse(route, webhook, request).await?;
        if !self.condition_holds(route, &received.results).await? {
            self.count_rejection(Some(route), "filtered");
            return Ok(Reply::without_start(filtered(), "filtered"));
        }
        let scope = DedupScope { trigger: &route.mount.declared().id, is_test: route.is_test };
        let names = dedup_keys(webhook, &received, signed, scope)?;
        self.accept_request(route, webhook, received, names).await
    }

    /// Decides about a request as [`Ingress::receive_at`] does, and starts nothing.
    async fn preview_request(
        self: &Arc<Self>,
        route: &Route,
        webhook: &WebhookTrigger,
        request: &Request,
    ) -> Result<RequestPreview, Rejection> {
        let (_, mut received) = self.verify_and_parse(route, webhook, request.clone()).await?;
        if !self.condition_holds(route, &received.results).await? {
            let response = Some(filtered());
            return Ok(RequestPreview { verdict: Verdict::Filtered, response, results: None });
        }
        let id = self.admission.ids.next(self.context.clock.now());
        self.decide_on_request(&route.mount, id, &mut received.payload, &mut received.results).await?;
        let Some(decided) = received.payload.code_result else { return Ok(RequestPreview::default()) };
        let verdict = if decided.declined { Verdict::Declined } else { Verdict::Accepted };
        let response = code::response_from_code(webhook, &decided, &id);
        Ok(RequestPreview { verdict, response, results: decided.results })
    }

    /// Verifies a request, then reads it. Returns the hash of the signed bytes as [`Ingress::verify`] does.
    async fn verify_and_parse(
        self: &Arc<Self>,
        route: &Route,
        webhook: &WebhookTrigger,
        request: Request,
    ) -> Result<(Option<[u8; 32]>, ReceivedRequest), Rejection> {
        // A semaphore limits how many requests inflate their bodies at the same time.
        let is_compressed = trigger::webhook::is_compressed(&request.headers);
        let _permit = match is_compressed {
            true => self.inflating_permit(&request).await,
            false => None,
        };
        // Compressed bodies, bodies on disk and large ones take longer than a task may hold a thread of the runtime.
        if request.body.is_external() || is_compressed || request.body.len() > LARGE_BODY {
            let proof = self.proof(route, webhook).await?.map(Verifier::into_owned);
            let (engine, route, webhook) = (self.clone(), route.clone(), webhook.clone());
            return self
                .large_work(move || {
                    let signed = engine.verify_with(proof.as_ref(), &route, &webhook, &request)?;
                    Ok((signed, trigger::webhook::receive(&webhook, request)?))
                })
                .await;
        }
        let signed = self.verify(route, webhook, &request).await?;
        let received = trigger::webhook::parse(webhook, request)?;
        if !trigger::webhook::fits_inline(webhook, &received.results) {
            let (webhook, results) = (webhook.clone(), received.results.clone());
            self.large_work(move || trigger::webhook::check_body(&webhook, &results, &Budget::default()))
                .await?;
        }
        Ok((signed, received))
    }

    /// Runs `work` on a thread for large values.
    async fn large_work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, Rejection> {
        self.context.large_work.run(work).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request could not be read");
            Err(Rejection::unavailable("the request could not be read; try again", RETRY_AFTER))
        })
    }

    /// Parses a verified request. Inflates a compressed body on a blocking thread.
    pub(crate) async fn receive_inflated(
        &self,
        webhook: &WebhookTrigger,
        request: Request,
    ) -> Result<ReceivedRequest, Rejection> {
        if !trigger::webhook::is_compressed(&request.headers) {
            return trigger::webhook::receive(webhook, request);
        }
        let _permit = self.inflating_permit(&request).await;
        let webhook = webhook.clone();
        self.large_work(move || trigger::webhook::receive(&webhook, request)).await
    }

    /// Waits for the right to inflate the body of a request. A small body does not wait for large ones; its size is known only once it is
    /// inflated.
    async fn inflating_permit(&self, request: &Request) -> Option<SemaphorePermit<'_>> {
        if !request.body.is_external() {
            let small = self.inflating_small.acquire().await.ok()?;
            let body = request.body.clone();
            let is_small = move || trigger::webhook::inflates_within(&body, SMALL_INFLATED);
            if self.context.large_work.run(is_small).await.unwrap_or_default() {
                return Some(small);
            }
        }
        self.inflating.acquire().await.ok()
    }

    /// Accepts an execution; a duplicate request gets the response of the first one.
    async fn accept_request(
        self: &Arc<Self>,
        route: &Route,
        webhook: &WebhookTrigger,
        mut received: ReceivedRequest,
        names: Vec<DedupKey>,
    ) -> Result<Reply, Rejection> {
        let is_sync = webhook.mode == WebhookMode::Sync;
        let outage = self.context.store.outage();
        if let Some(outage) = outage.filter(|outage| outage.keeps_writes() && outage.refuses_starts()) {
            return Err(rejection_for(&outage.error().into(), is_sync));
        }
        // A synchronous caller is accepted at once or rejected. The lock serialises identical requests, so that a
        // duplicate is not rejected because the first request took the last slot.
        let dedup_lock = match names.first().filter(|_| is_sync) {
            Some(name) => Some(self.hooks.lock_dedup_key(&route.mount.key(), name).await),
            None => None,
        };
        // Duplicates are looked up before a slot is requested, because they need none.
        if let Some(sent) =
            self.find_duplicate(route, &names).await.map_err(|error| rejection_for(&error, is_sync))?
        {
            drop(dedup_lock);
            return Box::pin(self.respond_to_duplicate(route, webhook, sent)).await;
        }
        let now = self.context.clock.now();
        let id = self.admission.ids.next(now);
        if webhook.code.is_some() {
            let ReceivedRequest { payload, results } = &mut received;
            Box::pin(self.decide_on_request(&route.mount, id, payload, results)).await?;
        }
        let decided = received.payload.code_result.as_deref();
        let answer = decided.and_then(|decided| code::response_from_code(webhook, decided, &id));
        let dedup_records = names.iter().map(|name| store::DedupRecord {
            key: name.key,
            content: name.content,
            until: now.checked_add(name.window).unwrap_or(Timestamp::MAX),
        });
        let dedup_records = dedup_records.collect();
        let origin = if route.is_test { Origin::Test } else { Origin::Webhook };
        let by = self.started_by(&route.mount, &received.results).await.map_err(bad_input)?;
        let start = Start { payload: Payload::Webhook(received.payload), origin, by };
        let options = AcceptOptions {
            id: Some(id),
            at_once: is_sync,
            dedup_records,
            results: Some(received.results),
            ..AcceptOptions::default()
        };
        if is_sync && !self.owner_has_memory(&route.mount.deployment, &start, &options).await {
            return Err(rejection_for(&Error::busy(), is_sync));
        }
        let accepted = tokio::select! {
            biased;
            accepted = self.admission.accept(&route.mount.deployment, start, options) => accepted,
            // The write continues in the background: it was sent before the outage, and only the database knows if it is stored.
            _ = Outage::keeps_writes_for(self.context.store.outages(), UNCONFIRMED) => {
                return Err(unconfirmed());
            }
        };
        drop(dedup_lock);
        match accepted.map_err(|error| rejection_for(&error, is_sync))? {
            Acceptance { id, accepted: AcceptOutcome::New, progress } => match answer {
                Some(answer) => Ok(answer.into()),
                None => Ok(self.first_answer(webhook, id, progress).await.into()),
            },
            Acceptance { accepted: sent, .. } => {
                Box::pin(self.respond_to_duplicate(route, webhook, sent)).await
            }
        }
    }

    /// Returns the execution that one of these deduplication keys already started, if any.
    async fn find_duplicate(
        &self,
        route: &Route,
        names: &[DedupKey],
    ) -> Result<Option<AcceptOutcome>, Error> {
        let automation = &route.mount.deployment.automation.id;
        for name in names {
            let sent = self.context.store.find_dedup(automation, name.key, self.context.clock.now()).await?;
            if let Some(sent) = sent {
                let taken = if sent.conflicts_with(name.content) {
                    AcceptOutcome::Mismatch
                } else {
                    AcceptOutcome::Duplicate
                };
                return Ok(Some(taken(sent.execution)));
            }
        }
        Ok(None)
    }

    async fn respond_to_duplicate(
        self: &Arc<Self>,
        route: &Route,
        webhook: &WebhookTrigger,
        sent: AcceptOutcome,
    ) -> Result<Reply, Rejection> {
        match sent {
            AcceptOutcome::Duplicate(first) => {
                self.count_rejection(Some(route), "duplicate");
                tracing::debug!(automation = %route.mount.deployment.automation.id, execution = %first, "the request was accepted before");
                let answer = match self.stored_code_response(webhook, first).await.ok().flatten() {
                    Some(decided) => decided,
                    None => self.response_for(webhook, first, None).await,
                };
                Ok(Reply::without_start(response::duplicate(answer), "duplicate"))
            }
            AcceptOutcome::Mismatch(_) | AcceptOutcome::New | AcceptOutcome::Elsewhere => {
                Err(Rejection::idempotency_mismatch())
            }
        }
    }

    /// Counts a request that the HTTP layer rejected before it reached [`Ingress::receive`].
    pub fn count_early_rejection(&self, route: Option<&RouteMatch>, reason: &'static str) {
        self.count_rejection(route.and_then(|route| route.route.as_ref()), reason);
    }

    /// Numbers of rejected and skipped starts of an Automation since the daemon started, by reason.
    #[must_use]
    pub fn rejections_of(&self, automation: &AutomationId) -> BTreeMap<String, u64> {
        self.context.rejections.by_reason(automation)
    }

    /// Time at which each key of a webhook's `verify` last verified a request since the daemon started. Keys are
    /// identified by their index, from 0.
    #[must_use]
    pub fn keys_used(&self, trigger: &TriggerKey) -> BTreeMap<usize, Timestamp> {
        self.hooks.keys_used(trigger)
    }

    pub(crate) fn count_rejection(&self, route: Option<&Route>, reason: &'static str) {
        let automation = route.map(|route| &route.mount.deployment.automation.id);
        self.context.rejections.count(automation, reason);
    }

    async fn condition_holds(&self, route: &Route, results: &Value) -> Result<bool, Rejection> {
        let automation = &route.mount.deployment.automation;
        let trigger = route.mount.declared();
        let Some(condition) = &trigger.condition else { return Ok(true) };
        let error = match self.context.trigger_scope(automation, trigger, results.clone()).await {
            Ok(scope) => match self.trigger_condition(condition, &scope).await {
                Ok(holds) => return Ok(holds),
                Err(error) if error.exceeded.is_some() => {
                    tracing::info!(automation = %automation.id, %error, "a request was refused: the trigger's condition costs too much");
                    return Err(condition_too_costly().with_detail(error.to_string()));
                }
                Err(error) => error.to_string(),
            },
            Err(error) => {
                let error = not_now(error);
                error.map_err(|error| rejection_for(&error, false))?.into_message()
            }
        };
        // The cause is an error in the file: it is logged for the author and hidden from the sender.
        tracing::warn!(automation = %automation.id, error, "the trigger's condition cannot be evaluated; the request is refused");
        Err(condition_failed().with_detail(error))
    }
}

/// Maps an acceptance error to a response. Nothing was stored, so the caller may retry.
pub(crate) fn rejection_for(error: &Error, is_sync: bool) -> Rejection {
    match error {
        // A synchronous caller gets 429, since waiting would time out anyway (semantics 3.5).
        Error::Busy { retry_after } if is_sync => Rejection::no_slot(*retry_after),
        Error::Busy { retry_after } => {
            Rejection::unavailable("too many executions are waiting", *retry_after)
        }
        Error::Recovering { retry_after } => {
            Rejection::unavailable("executions that were accepted before are being started", *retry_after)
        }
        Error::Closing => Rejection::unavailable("the daemon is stopping", RETRY_AFTER),
        // The sender is not told which secret it is.
        Error::SecretProvider(message) => {
            Rejection::unavailable("a secret cannot be read now; try again", RETRY_AFTER)
                .with_detail(message.clone())
        }
        Error::Store(error) => {
            // The log has one line for the outage, not one for each request.
            tracing::debug!(%error, "a request could not be made durable");
            let message = match error.kind() {
                FailureKind::Closing => "the daemon is stopping",
                FailureKind::Unreachable => "the database does not answer",
                FailureKind::Full => "the store is full",
                FailureKind::Refused | FailureKind::Other => "the request could not be stored; try again",
            };
            Rejection::unavailable(message, RETRY_AFTER)
        }
        other => {
            tracing::error!(error = %other, "a request could not be made durable");
            Rejection::unavailable("the request could not be stored; try again", RETRY_AFTER)
        }
    }
}

/// Time limit for the evaluation of a trigger's condition.
const CONDITION_TIME_LIMIT: Duration = Duration::from_secs(1);

/// Maximum number of bytes of a small compressed body once it is inflated.
const SMALL_INFLATED: usize = 1 << 20;

/// The length, in bytes, above which a body is parsed on a thread for large values: parsing takes about a millisecond.
const LARGE_BODY: usize = 64 << 10;

/// `Retry-After` of a request that could not be stored.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The time in an outage after which the caller of a request that was sent to the database, and has no answer, gets a response.
const UNCONFIRMED: Duration = Outage::GRACE.saturating_add(Duration::from_millis(500));

/// Rejects a request for which only the database knows if it was stored.
fn unconfirmed() -> Rejection {
    let message = "the database does not answer, and the request may have been accepted; send it again with the same \
        `Idempotency-Key`";
    Rejection::unavailable(message, RETRY_AFTER)
}

/// Response if the trigger's condition is false.
fn filtered() -> HttpResponse {
    HttpResponse::json(200, &Value::from(Map::from_iter([("filtered", true)])))
}

/// Rejection of a request for which the trigger's condition exceeds its evaluation budget.
fn condition_too_costly() -> Rejection {
    let message = "the trigger's condition takes too much work over this request";
    Rejection::new(400, "condition_too_costly", message)
}

fn condition_failed() -> Rejection {
    let message = "the trigger's condition cannot be evaluated; see the daemon's log";
    Rejection::new(500, "condition_failed", message)
}

/// Result of evaluating a trigger's condition.
#[derive(Debug)]
pub enum Condition {
    /// The execution starts.
    Holds,
    /// Nothing starts.
    DoesNotHold,
    /// The condition cannot be evaluated: the execution starts and fails with this error.
    Fails(ActionError),
}

impl Condition {
    /// Returns `None` if no execution starts, else the error that the execution starts with, if any.
    pub fn start(self) -> Option<Option<ActionError>> {
        match self {
            Self::Holds => Some(None),
            Self::DoesNotHold => None,
            Self::Fails(error) => Some(Some(error)),
        }
    }
}

impl Ingress {
    /// Public URL of the address that received a request. Built from the configuration, never from the request itself,
    /// which the sender could forge.
    fn public_url_of(&self, route: &Route, request: &Request) -> String {
        let base = self.context.settings.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
        let address = route.mount.address();
        let token = address.map_or("", |address| if route.is_test { &address.test } else { &address.live });
        let query =
            if request.raw_query.is_empty() { String::new() } else { format!("?{}", request.raw_query) };
        format!("{base}/trigger/{token}{}{query}", request.fragment)
    }

    /// Evaluates the trigger's condition for a start without a caller (schedule, poll or event). Counts a false
    /// condition as `filtered`.
    ///
    /// # Errors
    /// It cannot be evaluated now, because a provider of secrets fails: it is to be tried again.
    pub async fn evaluate_trigger_condition(
        &self,
        mount: &Mount,
        payload: &Payload,
    ) -> Result<Condition, Error> {
        let (automation, trigger) = (&mount.deployment.automation, mount.declared());
        let Some(condition) = &trigger.condition else { return Ok(Condition::Holds) };
        let scope = match trigger::results(payload) {
            Ok(results) => match self.context.trigger_scope(automation, trigger, results).await {
                Ok(scope) => Ok(scope),
                Err(error) => Err(not_now(error)?.into_message()),
            },
            Err(rejection) => Err(rejection.message),
        };
        let error = match scope {
            Ok(scope) => match self.trigger_condition(condition, &scope).await {
                Ok(true) => return Ok(Condition::Holds),
                Ok(false) => {
                    self.context.rejections.count(Some(&automation.id), "filtered");
                    return Ok(Condition::DoesNotHold);
                }
                Err(error) => runtime::expression_error(&error, "trigger.if"),
            },
            Err(message) => ActionError::new(ErrorKind::Expression, format!("trigger.if: {message}")),
        };
        tracing::warn!(automation = %automation.id, error = error.message, "the trigger's condition cannot be evaluated");
        Ok(Condition::Fails(error.redacted(&self.context.settings.redactor)))
    }

    /// Evaluates a trigger's condition within [`CONDITION_TIME_LIMIT`].
    pub(crate) async fn trigger_condition(
        &self,
        condition: &Expression,
        scope: &Value,
    ) -> Result<bool, EvaluationError> {
        tokio::select! {
            biased;
            holds = self.context.evaluator.holds(condition, scope) => holds,
            () = self.context.clock.sleep_for(CONDITION_TIME_LIMIT) => Err(condition.timeout_error()),
        }
    }
}
