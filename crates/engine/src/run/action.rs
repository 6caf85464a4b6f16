//! One call of an action: what must be committed before it, what bounds it, what it leaves.

use std::sync::{Mutex, PoisonError};

use connector::{Call, LogSink, Trace};
use futures_util::future::BoxFuture;
use model::action::{ActionError, ActionSpec, Effect, ErrorKind};
use model::automation::{ActionStep, OnInterrupt, Step};
use model::execution::{CallRecord, LogLevel};
use model::value::{Map, Value};

use super::scope::Scope;
use super::step::Context;
use super::verbs::failed;
use super::{Exit, Run};
use crate::doubles::{Asked, Called};

/// A file of a result from this size on is put on disk by itself; so is the body of a request (semantics 3.2).
const LARGE_FILE: usize = 256 << 10;

impl Run {
    /// What the call may do to the world, as far as that can be told before its inputs are evaluated.
    pub(super) fn action_effect(&self, call: &ActionStep) -> Effect {
        let catalog = self.services.catalog.load();
        let Some(action) = catalog.registry().action(&call.action.name) else { return Effect::Pure };
        action.effect(&|name| match call.with.iter().find(|(input, _)| input.name == name) {
            Some((_, template)) => template.literal(),
            None => action.spec().input(name)?.default.as_ref(),
        })
    }

    pub(super) async fn action(
        &self,
        step: &Step,
        call: &ActionStep,
        key: &str,
        attempt: u32,
        scope: &Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        let catalog = self.services.catalog.load_full();
        let Some(action) = catalog.registry().action(&call.action.name).cloned() else {
            let message = format!("there is no action `{}` any more", call.action.name);
            return Err(failed(ActionError::new(ErrorKind::Input, message)));
        };
        let inputs = self.inputs(call, action.spec(), scope, context).await?;
        let effect = action.spec().effect != Effect::Pure;
        let idempotency_key = if effect { format!("{}.{key}", self.journal.id()) } else { String::new() };
        let double = self.double(step, key, &idempotency_key, Called::Action(action.spec()), &inputs);
        let takes_time = effect || double.is_some();
        let is_double = double.is_some();
        let connection = match &call.connection {
            // A double has no use for credentials, and a test need not have them.
            Some(name) if double.is_none() => {
                self.journal.reads_secrets();
                Some(self.services.connect(&catalog, &name.name).await.map_err(failed)?)
            }
            _ => None,
        };
        if effect {
            self.begin_effect(step, key, attempt).await?;
        }
        if double.is_none()
            && let Some(native) = crate::native::find(&call.action.name)
        {
            let value = self.native(native, &inputs, key).await?;
            return Ok(self.set_aside(value).await);
        }
        let trace = effect.then(|| self.chain());
        let shows_credentials =
            call.debug && action.reveals_credentials() && self.services.http.may_reveal_credentials();
        let log = StepLog { run: self, key, shows_credentials, last: Mutex::new(None) };
        let future = match double {
            Some(answer) => answer,
            None => action.call(Call {
                inputs: &inputs,
                connection: connection.as_ref(),
                idempotency_key: &idempotency_key,
                http: &self.services.http,
                debug: call.debug,
                log: &log,
                trace: trace.as_ref(),
            }),
        };
        let _live = self.services.doubles.as_ref().and_then(|doubles| doubles.live());
        let bounded = if takes_time {
            self.bounded(step, context, self.services.between_boundaries(future)).await
        } else {
            Ok(future.await)
        };
        // A call that was cut off was made as well.
        if let Some(call) = log.last.into_inner().unwrap_or_else(PoisonError::into_inner) {
            self.journal.step_called(key, call);
        }
        let result = bounded?;
        if let Some(connection) = &connection {
            let now = self.services.clock.now();
            let error = result.as_ref().err().map(|error| self.journal.hidden_error(error.clone()));
            self.services.connections.note(&connection.name, now, error.as_ref());
        }
        let value = result.map_err(|mut error| {
            // What stands in for an action fails as the action would.
            if is_double && is_lost(&error) && self.action_effect(call) == Effect::Write {
                error.outcome_unknown = true;
            }
            failed(error)
        })?;
        Ok(self.set_aside(self.within_limit(value)?).await)
    }

    /// Records that a try with an outside effect begins, once everything that it may depend on is committed.
    async fn begin_effect(&self, step: &Step, key: &str, attempt: u32) -> Result<(), Exit> {
        // An effect may depend on all before it: none of that may be lost once it has happened.
        self.journal.before_effect().await?;
        self.journal.step_started(key, attempt);
        if step.on_interrupt == OnInterrupt::Fail {
            // That it began must be known before it does (guarantee G6).
            self.journal.commit().await?;
        }
        Ok(())
    }

    /// The answer of a double, in a test.
    pub(super) fn double(
        &self,
        step: &Step,
        key: &str,
        idempotency_key: &str,
        called: Called<'_>,
        inputs: &Map,
    ) -> Option<BoxFuture<'static, Result<Value, ActionError>>> {
        let doubles = self.services.doubles.as_ref()?;
        let automation = &self.deployed.automation.id;
        doubles.answer(&Asked { automation, step: &step.id, key, idempotency_key, called, inputs })
    }

    /// Waits for a call, but not past a deadline, a cancellation or the end of the daemon's grace.
    pub(super) async fn bounded<T>(
        &self,
        step: &Step,
        context: &Context,
        call: impl Future<Output = Result<T, ActionError>>,
    ) -> Result<Result<T, ActionError>, Exit> {
        tokio::select! {
            biased;
            result = call => Ok(result),
            exit = self.interruption(context) => {
                if matches!(exit, Exit::Parked) {
                    tracing::info!(execution = %self.journal.id(), step = %step.id, "a call was cut off by the stop of the daemon; it begins again at the next start");
                }
                Err(exit)
            }
        }
    }

    /// The chain of executions that this one belongs to.
    pub(super) fn chain(&self) -> Trace {
        crate::hooks::chain_of(self.journal.id(), &self.payload, &self.origin)
    }

    /// A result whose large files are on disk from here on, as those of requests are: they go through no log, and are in memory no
    /// longer than this.
    async fn set_aside(&self, value: Value) -> Value {
        // All that a small result pays.
        if value.estimated_size(LARGE_FILE) <= LARGE_FILE {
            return value;
        }
        let (value, files) = (self.journal.hidden(value), self.services.store.files());
        let shared = value.clone();
        let writing = tokio::task::spawn_blocking(move || shared.externalize_files(LARGE_FILE, &*files));
        match writing.await.map_err(std::io::Error::other).flatten() {
            Ok(set_aside) => set_aside,
            Err(error) => {
                // It goes the way of any other value.
                tracing::warn!(execution = %self.journal.id(), %error, "the files of a result could not be put on disk by themselves");
                value
            }
        }
    }

    async fn inputs(
        &self,
        call: &ActionStep,
        spec: &ActionSpec,
        scope: &Scope,
        context: &Context,
    ) -> Result<Map, Exit> {
        let inputs = self.evaluate_inputs(&call.with, Some(spec), scope, context).await?;
        connector::check_inputs(spec, &inputs).map_err(failed)
    }

    pub(super) fn within_limit(&self, value: Value) -> Result<Value, Exit> {
        let limit = self.services.settings.limits.result_bytes;
        if value.estimated_size(limit) > limit {
            let message = format!(
                "the result is larger than {}; ask for less of it",
                model::units::format_size(u64::try_from(limit).unwrap_or(u64::MAX))
            );
            return Err(failed(ActionError::new(ErrorKind::Limit, message)));
        }
        Ok(value)
    }
}

/// True if a request that failed like this may have been carried out.
fn is_lost(error: &ActionError) -> bool {
    matches!(error.kind, ErrorKind::Network | ErrorKind::Timeout)
        || error.status.is_some_and(connector::may_have_acted)
}

/// Takes an action's log lines into the execution's log.
struct StepLog<'a> {
    run: &'a Run,
    key: &'a str,
    /// Whether it logs to show its credentials, as its author and the settings allow.
    shows_credentials: bool,
    /// The last request that the call sent.
    last: Mutex<Option<CallRecord>>,
}

impl LogSink for StepLog<'_> {
    fn line(&self, level: LogLevel, message: &str) {
        let (journal, step) = (&self.run.journal, Some(self.key));
        if self.shows_credentials {
            journal.log_credentials(level, step, message);
        } else {
            journal.log(level, step, message);
        }
    }

    fn request(&self, method: &str, url: &str) {
        // Secrets in the path are hidden when this is committed.
        let url = model::redact::cut(url, CallRecord::MAX_URL_CHARS).into_owned();
        let call = CallRecord::Request { method: method.to_owned(), url };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
    }
}
