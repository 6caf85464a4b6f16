//! What happens to a request on a webhook's address: found, checked, made durable, answered.

mod answer;
mod chain;
mod challenge;
mod code;
mod credentials;
mod desk;

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
use store::AcceptOutcome;
use trigger::Rejection;
use trigger::response;
use trigger::sending::{Sending, names};
use trigger::webhook::{Received, Request};

pub(crate) use chain::{check as check_chain, of as chain_of};
pub(crate) use credentials::dropped as without_credentials;
pub(crate) use desk::Desk;

use crate::Error;
use crate::catalog::Mounted;
use crate::engine::Engine;
use crate::intake::{Admission, Terms};
use crate::listen::Aside;
use crate::services::Services;
use crate::told::Start;

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
            Trigger::Event(_) if mounted.test || mounted.deployed.automation.enabled => {
                Some(Automation::DEFAULT_MAX_BODY)
            }
            _ => None,
        }
    }

    /// Where the bodies of large requests are put while they arrive.
    #[must_use]
    pub fn files(&self) -> Arc<dyn Files> {
        self.services().store.files()
    }

    /// Whether a large body that was sent to the address has to be in memory to be read, by its headers and how it begins.
    #[must_use]
    pub fn reads_whole(&self, token: &str, headers: &[(String, Vec<u8>)], start: &[u8]) -> bool {
        let catalog = self.services().catalog.load();
        let Some(mounted) = catalog.mounted(token) else { return false };
        match &mounted.deployed.automation.trigger {
            Trigger::Webhook(_) => trigger::webhook::is_read_whole(headers, start),
            // What a connector takes of an event is a document.
            _ => true,
        }
    }

    /// The Automation that answers at the address, for logs: the token itself is a secret.
    #[must_use]
    pub fn mounted_at(&self, token: &str) -> Option<AutomationId> {
        let catalog = self.services().catalog.load();
        catalog.mounted(token).map(|mounted| mounted.deployed.automation.id.clone())
    }

    /// Answers a request on the address with this token, in the order: token, enabled, challenge, probe, chain, rate,
    /// signature, size, parsing, condition, what was sent before, durable acceptance, answer. An answer that names an
    /// execution is given only once that execution is committed.
    pub async fn receive(&self, token: &str, request: Request) -> HttpResponse {
        let mounted = self.services().catalog.load().mounted(token).cloned();
        let result = match &mounted {
            None => Err(Rejection::unknown_trigger()),
            Some(mounted) => self.receive_at(mounted, request).await,
        };
        let is_accepted = result.as_ref().is_ok_and(|answer| answer.status < 300);
        let result = match is_accepted && self.services().fails_at(Boundary::BeforeAck).await {
            true => Err(Rejection::unavailable("a failpoint lets it fail", RETRY_AFTER)),
            false => result,
        };
        result.unwrap_or_else(|rejection| {
            self.count_refused(mounted.as_ref(), rejection.code);
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
        if matches!(automation.trigger, Trigger::Event(_)) {
            return self.receive_event(mounted, request).await;
        }
        let Trigger::Webhook(webhook) = &automation.trigger else { return Err(Rejection::not_a_webhook()) };
        if !mounted.test && !automation.enabled {
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
            self.services().hooks.pace(mounted, rule, self.services().clock.now())?;
        }
        let (signed, received) = self.read(mounted, webhook, request).await?;
        if !self.condition_holds(mounted, &received.results).await? {
            self.count_refused(Some(mounted), "filtered");
            return Ok(filtered());
        }
        let names = names(webhook, &received, signed, mounted.test)?;
        self.begin(mounted, webhook, received, names).await
    }

    /// What a request would be answered that starts nothing; `None` where its answer would be that of an execution.
    async fn judge(
        &self,
        mounted: &Mounted,
        webhook: &WebhookTrigger,
        request: &Request,
    ) -> Result<Option<HttpResponse>, Rejection> {
        let (_, mut received) = self.read(mounted, webhook, request.clone()).await?;
        if !self.condition_holds(mounted, &received.results).await? {
            return Ok(Some(filtered()));
        }
        let services = self.services();
        let id = services.intake.next_id(services.clock.now());
        self.decide(&mounted.deployed, id, &mut received.payload, &mut received.results).await?;
        let decided = received.payload.decided.as_deref();
        Ok(decided.and_then(|decided| code::answer_of_code(webhook, decided, &id)))
    }

    /// Verifies a request and reads it, in this order; gives a hash of what is signed, as [`Engine::verify`] does.
    async fn read(
        &self,
        mounted: &Mounted,
        webhook: &WebhookTrigger,
        request: Request,
    ) -> Result<(Option<[u8; 32]>, Received), Rejection> {
        // Of those that inflate their body, few are at work at one time.
        let is_compressed = trigger::webhook::is_compressed(&request.headers);
        let _permit = match is_compressed {
            true => self.services().inflating.acquire().await.ok(),
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
        let _permit = self.services().inflating.acquire().await.ok();
        let webhook = webhook.clone();
        aside(move || trigger::webhook::receive(&webhook, request)).await
    }

    /// Starts an execution, unless the same was sent before: then its sender gets the first one's answer.
    async fn begin(
        &self,
        mounted: &Mounted,
        webhook: &WebhookTrigger,
        mut received: Received,
        names: Vec<Sending>,
    ) -> Result<HttpResponse, Rejection> {
        let services = self.services();
        let at_once = webhook.mode == WebhookMode::Sync;
        // A caller that waits is accepted at once or not at all. Of two that send the same, the second must not be refused
        // for want of the slot that the first one takes.
        let turn = match names.first().filter(|_| at_once) {
            Some(name) => Some(services.hooks.turn(&mounted.deployed.automation.id, name).await),
            None => None,
        };
        // Before a slot is asked for: one that sends again needs none.
        if let Some(sent) =
            self.sent_before(mounted, &names).await.map_err(|error| refused(&error, at_once))?
        {
            drop(turn);
            return self.again(mounted, webhook, sent).await;
        }
        let now = services.clock.now();
        let id = services.intake.next_id(now);
        if webhook.code.is_some() {
            let Received { payload, results } = &mut received;
            Box::pin(self.decide(&mounted.deployed, id, payload, results)).await?;
        }
        let decided = received.payload.decided.as_deref();
        let answer = decided.and_then(|decided| code::answer_of_code(webhook, decided, &id));
        let sendings = names.iter().map(|name| store::DedupRecord {
            key: name.key,
            content: name.content,
            until: now.checked_add(name.window).unwrap_or(Timestamp::MAX),
        });
        let sendings = sendings.collect();
        let origin = if mounted.test { Origin::Test } else { Origin::Webhook };
        let received = credentials::hidden(webhook, received, &services.settings.redactor);
        let start = Start { payload: Payload::Webhook(received.payload), origin };
        let terms =
            Terms { id: Some(id), at_once, sendings, results: Some(received.results), ..Terms::default() };
        let accepted = services.accept(&mounted.deployed, start, terms).await;
        drop(turn);
        match accepted.map_err(|error| refused(&error, at_once))? {
            Admission { id, accepted: AcceptOutcome::New, progress } => match answer {
                Some(answer) => Ok(answer),
                None => Ok(self.answer_of(webhook, id, progress).await),
            },
            Admission { accepted: sent, .. } => self.again(mounted, webhook, sent).await,
        }
    }

    /// What was sent before under one of these names.
    async fn sent_before(
        &self,
        mounted: &Mounted,
        names: &[Sending],
    ) -> Result<Option<AcceptOutcome>, Error> {
        let services = self.services();
        let automation = &mounted.deployed.automation.id;
        for name in names {
            let sent = services.store.find_dedup(automation, name.key, services.clock.now()).await?;
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

    async fn again(
        &self,
        mounted: &Mounted,
        webhook: &WebhookTrigger,
        sent: AcceptOutcome,
    ) -> Result<HttpResponse, Rejection> {
        match sent {
            AcceptOutcome::Duplicate(first) => {
                self.count_refused(Some(mounted), "duplicate");
                tracing::debug!(automation = %mounted.deployed.automation.id, execution = %first, "the same was sent before");
                let answer = match self.decided_answer(webhook, first).await.ok().flatten() {
                    Some(decided) => decided,
                    None => self.answer_of(webhook, first, None).await,
                };
                Ok(response::duplicate(answer))
            }
            AcceptOutcome::Mismatch(_) | AcceptOutcome::New => Err(Rejection::idempotency_mismatch()),
        }
    }

    /// Counts a request that was refused before it came to [`Engine::receive`].
    pub fn note_refused(&self, token: Option<&str>, reason: &'static str) {
        let catalog = self.services().catalog.load();
        self.count_refused(token.and_then(|token| catalog.mounted(token)), reason);
    }

    /// The starts of an Automation that were refused or passed over since the daemon began, by reason.
    #[must_use]
    pub fn refused_of(&self, automation: &AutomationId) -> BTreeMap<String, u64> {
        self.services().refusals.of(automation)
    }

    /// When each of the keys of an Automation's `verify` last proved a request since the daemon began, by its place from 0.
    #[must_use]
    pub fn keys_used(&self, automation: &AutomationId) -> BTreeMap<usize, Timestamp> {
        self.services().hooks.keys_used(automation)
    }

    pub(crate) fn count_refused(&self, mounted: Option<&Mounted>, reason: &'static str) {
        let automation = mounted.map(|mounted| &mounted.deployed.automation.id);
        self.services().refusals.count(automation, reason);
    }

    /// Refuses a request that does not come from whom it should, before anything of it is read; and gives a hash of what is
    /// signed, where that tells it from others.
    fn verify(
        &self,
        mounted: &Mounted,
        webhook: &WebhookTrigger,
        request: &Request,
    ) -> Result<Option<[u8; 32]>, Rejection> {
        let Some(verify) = &webhook.verify else { return Ok(None) };
        let services = self.services();
        if services.doubles.as_ref().is_some_and(|doubles| doubles.trusts_senders()) {
            return Ok(None);
        }
        let automation = &mounted.deployed.automation.id;
        let proof = services.secrets.proof(verify).map_err(|error| {
            // Without its secret nobody can be verified, and nobody is let in.
            tracing::error!(%automation, error = error.message, "requests cannot be verified, and are refused");
            Rejection::unverified()
        })?;
        let url = services.address_of(mounted, request);
        let verified = trigger::verify::verify(&proof, request, &url, services.clock.now());
        let proven = verified.map_err(|(rejection, reason)| {
            tracing::info!(%automation, %reason, "a request was refused: its sender could not be verified");
            rejection
        })?;
        let by_signed = webhook.dedup.as_ref().is_some_and(|dedup| dedup.by == DedupBy::Signed);
        if let Some(key) = proven.key {
            services.hooks.note_key(automation, key, services.clock.now());
        }
        Ok(by_signed.then(|| proven.signed_hash()).flatten())
    }

    async fn condition_holds(&self, mounted: &Mounted, results: &Value) -> Result<bool, Rejection> {
        let automation = &mounted.deployed.automation;
        let Some(condition) = &automation.trigger_if else { return Ok(true) };
        let services = self.services();
        let error = match services.condition_scope(automation, results.clone()) {
            Ok(scope) => match services.trigger_condition(condition, &scope).await {
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
pub(crate) enum Condition {
    Holds,
    DoesNotHold,
    /// It cannot be evaluated: the execution starts, and fails with this error.
    Fails(ActionError),
}

impl Condition {
    /// The error with which the execution begins, if any; `None` where none starts.
    pub(crate) fn start(self) -> Option<Option<ActionError>> {
        match self {
            Self::Holds => Some(None),
            Self::DoesNotHold => None,
            Self::Fails(error) => Some(Some(error)),
        }
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

    /// Evaluates the trigger's condition over something that has no caller: an instant, an item of a poll, an event. Where
    /// it does not hold, that is counted.
    pub(crate) async fn condition_on(&self, automation: &Automation, payload: &Payload) -> Condition {
        let Some(condition) = &automation.trigger_if else { return Condition::Holds };
        let scope = trigger::results(payload)
            .map_err(|rejection| rejection.message)
            .and_then(|results| self.condition_scope(automation, results));
        let error = match scope {
            Ok(scope) => match self.trigger_condition(condition, &scope).await {
                Ok(true) => return Condition::Holds,
                Ok(false) => {
                    self.refusals.count(Some(&automation.id), "filtered");
                    return Condition::DoesNotHold;
                }
                Err(error) => crate::run::expression_error(&error, "trigger.if"),
            },
            Err(message) => ActionError::new(ErrorKind::Expression, format!("trigger.if: {message}")),
        };
        tracing::warn!(automation = %automation.id, error = error.message, "the trigger's condition cannot be evaluated; the execution fails");
        Condition::Fails(self.settings.redactor.error(error))
    }

    /// The truth of a trigger's condition, which has a second at the most.
    async fn trigger_condition(
        &self,
        condition: &Expression,
        scope: &Value,
    ) -> Result<bool, EvaluationError> {
        tokio::select! {
            biased;
            holds = self.evaluator.holds(condition, scope) => holds,
            () = self.clock.sleep_for(CONDITION_TIME) => Err(condition.out_of_time()),
        }
    }

    /// The names that a trigger's condition reads.
    fn condition_scope(&self, automation: &Automation, results: Value) -> Result<Value, String> {
        let config_vars = self.secrets.config_vars(automation).map_err(ActionError::into_message)?;
        let about = Map::from_iter([("id", automation.id.as_str()), ("name", automation.name.as_str())]);
        Ok(Value::from(Map::from_iter([
            ("trigger", Value::from(Map::from_iter([("results", results)]))),
            ("configVars", Value::from(config_vars)),
            ("automation", Value::from(about)),
        ])))
    }
}
