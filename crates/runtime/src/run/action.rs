//! Calls the action of a step: commits what must precede the call, applies time limits, and takes the result.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use catalog::{Catalog, NativeAction};
use connector::{Action, AnswerMemory as _, Call, LogSink, Progress, ResolvedConnection, Trace};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use model::LogLevel;
use model::action::{ActionError, Effect, ErrorKind};
use model::automation::{ActionStep, NameSetting, OnInterrupt, Step};
use model::execution::{CallRecord, DelayReason, Origin};
use value::{Map, Reserved, Value};

use super::scope::Scope;
use super::stages::callable;
use super::step::Frame;
use super::verbs::failed;
use super::{Exit, Run};
use crate::answer_memory::Answers;
use crate::doubles::{CallTarget, StubRequest};

/// Size in bytes from which a file of a result is stored on disk; request bodies have the same limit (semantics 3.2).
const LARGE_FILE: usize = 256 << 10;

/// The effect of a call; that of some actions depends on an input, such as the method of a request.
pub(crate) fn effect_of(catalog: &Catalog, call: &ActionStep) -> Effect {
    let Some(action) = catalog.registry().action(&call.action.name) else { return Effect::Pure };
    action.effect(&|name| match call.with.iter().find(|(input, _)| input.name == name) {
        Some((_, template)) => template.literal(),
        None => action.spec().input(name)?.default.as_ref(),
    })
}

impl Run {
    /// Returns the effect of the call as far as it is known before the inputs are evaluated.
    pub(super) fn action_effect(&self, call: &ActionStep) -> Effect {
        effect_of(&self.context.catalog.load(), call)
    }

    /// Returns the connection with this name, ready for a call.
    async fn connect(
        &self,
        catalog: &Catalog,
        name: Option<&str>,
        (step, key, frame): (&Step, &str, &Frame),
    ) -> Result<Option<ResolvedConnection>, Exit> {
        let Some(name) = name else { return Ok(None) };
        self.journal.mark_secrets_read();
        if self.context.secrets.connection_would_wait(catalog, name) {
            // The caller of an execution that is not accepted yet does not wait for a provider of secrets.
            self.await_commit(key, frame, self.journal.before_effect(Effect::Read)).await?;
        }
        self.bounded(step, frame, self.connections.connect(catalog, name)).await?.map(Some).map_err(failed)
    }

    /// Calls the action of a step: begins, or goes on from the checkpoint of the call.
    pub(super) async fn stage(
        &self,
        step: &Step,
        call: &ActionStep,
        key: &str,
        attempt: u32,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<Progress, Exit> {
        let checkpoint = self.checkpoint(key, frame).await?;
        let catalog = self.context.catalog.load_full();
        let action = callable(&catalog, call, checkpoint.as_ref())?;
        let (inputs, memory) = self.inputs(call, &action, key, scope, frame).await?;
        let call_effect = effect_of(&catalog, call);
        let effect = call_effect != Effect::Pure;
        let idempotency_key = if effect { self.idempotency_key(key) } else { String::new() };
        let named = call.connection.as_ref().map(|setting| chosen_name(setting, frame)).transpose()?;
        let called = CallTarget::Action(action.spec());
        // A call that goes on from a checkpoint is the call that has begun before.
        let double = match checkpoint {
            Some(_) => None,
            None => self.double(step, (key, &idempotency_key), (called, named, action.is_local()), &inputs),
        };
        let (takes_time, is_double) = (effect || double.is_some(), double.is_some());
        // A stub needs no credentials, and a test may have none.
        let wanted = named.filter(|_| double.is_none());
        let connection = self.connect(&catalog, wanted, (step, key, frame)).await?;
        let native = catalog::find_native(&call.action.name).filter(|_| double.is_none());
        let started_at = match effect {
            true => self.begin_call(step, (key, attempt), call_effect, native, scope, frame).await?,
            false => None,
        };
        if let Some(native) = native {
            let value = self.native(native, &inputs, key, frame).await?;
            return Ok(Progress::Ended(self.externalize_files(value).await));
        }
        let trace = started_at.map(|started_at| self.chain(key, attempt, started_at));
        let shows_credentials =
            call.debug && action.reveals_credentials() && self.context.http.may_reveal_credentials();
        let log = StepLog { run: self, key, shows_credentials, last: Mutex::new(None) };
        // A call that holds memory for files, or whose execution another one waits for, does not wait for memory.
        let waits = memory.is_nothing() && !matches!(self.origin, Origin::Call { .. });
        let fixed = self.trigger_memory.saturating_add(scope.variables());
        let answers = self.context.answers_of_run(&self.memory, scope.results(), fixed, waits);
        let made = Call {
            inputs: &inputs,
            connection: connection.as_ref(),
            idempotency_key: &idempotency_key,
            may_repeat: attempt > 1 || self.journal.may_have_begun(key),
            memory: &memory,
            answers: &answers,
            http: &self.context.http,
            debug: call.debug,
            log: &log,
            trace: trace.as_ref(),
            files: self.context.file_access(),
            time_left: self.time_to_timeout(frame),
        };
        let renewed = OnceLock::new();
        let made = (made, &renewed);
        let _live = self.tracked(action.is_local() && !is_double);
        let bounded = if action.has_stages() && !is_double {
            let reached = checkpoint.as_ref().map(|checkpoint| self.reached(checkpoint));
            let (action, connections) = (&*action, &self.connections);
            let future = connections.call_renewing(&catalog, made, move |call| action.advance(call, reached));
            self.bounded(step, frame, self.context.with_failpoints(future)).await?
        } else {
            let made = || self.connections.call_renewing(&catalog, made, |call| action.call(call));
            let future = double.unwrap_or_else(made);
            let bounded = if takes_time {
                self.bounded(step, frame, self.context.with_failpoints(future)).await?
            } else {
                future.await
            };
            bounded.map(Progress::Ended)
        };
        drop(log);
        self.note_wait(Some(key), DelayReason::Memory, answers.waited());
        self.answered(call, connection.as_ref(), is_double, bounded, &answers).await
    }

    /// Records the start of a call with an outside effect, and returns its time; `None` if the call has begun before.
    async fn begin_call(
        &self,
        step: &Step,
        (key, attempt): (&str, u32),
        effect: Effect,
        native: Option<NativeAction>,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<Option<Timestamp>, Exit> {
        if self.journal.checkpoint(key).is_some() {
            return if self.context.may_act_soon().await { Ok(None) } else { Err(Exit::ShuttingDown) };
        }
        // In a parallel branch, only a recorded start shows after a crash that the event may have been sent.
        let sends_beside_others = native == Some(NativeAction::Emit) && !scope.is_trunk();
        let mut durably = sends_beside_others || step.on_interrupt == OnInterrupt::Fail;
        // A write of the state is stored together with the end of its step.
        let changes = effect == Effect::Write && !matches!(native, Some(NativeAction::State(_)));
        let is_lasting = changes || durably;
        // An execution whose writes are refused makes no change, since its result could not be stored.
        durably |= changes && self.context.store.outage().is_some();
        let started_at = self.begin_effect(effect, key, attempt, frame, durably).await?;
        if is_lasting {
            self.journal.call_begins(key)?;
        }
        Ok(Some(started_at))
    }

    /// Guards to hold during a call in a test, so that its clock does not advance meanwhile. A local call may work on another thread.
    fn tracked(&self, is_local: bool) -> [Option<Box<dyn Send>>; 2] {
        let Some(doubles) = &self.context.doubles else { return [None, None] };
        [doubles.track_live_call(), is_local.then(|| doubles.track_offloaded_work())]
    }

    /// Takes the result of a call: notes the state of its connection, and counts the value.
    async fn answered(
        &self,
        call: &ActionStep,
        connection: Option<&ResolvedConnection>,
        is_double: bool,
        result: Result<Progress, ActionError>,
        answers: &Answers<'_>,
    ) -> Result<Progress, Exit> {
        if let Some(connection) = connection {
            let now = self.context.clock.now();
            let error = result.as_ref().err().map(|error| self.journal.redact_error(error.clone()));
            self.connections.note(&connection.name, now, error.as_ref());
        }
        let progress = result.map_err(|mut error| {
            // A stubbed failure is treated like one of the action.
            if is_double && is_outcome_unknown(&error) && self.action_effect(call) == Effect::Write {
                error.outcome_unknown = true;
            }
            failed(error)
        })?;
        let Progress::Ended(value) = progress else { return Ok(progress) };
        let value = self.externalize_files(self.within_limit(value)?).await;
        answers.settle(value.estimated_memory());
        Ok(Progress::Ended(value))
    }

    /// Records the start of an attempt with an external effect, after committing everything that it may depend on. Returns its
    /// time.
    async fn begin_effect(
        &self,
        effect: Effect,
        key: &str,
        attempt: u32,
        frame: &Frame,
        durably: bool,
    ) -> Result<Timestamp, Exit> {
        // A change may depend on all earlier results, so none of them may be lost once it has happened.
        self.await_commit(key, frame, self.journal.before_effect(effect)).await?;
        if !self.context.may_act_soon().await {
            return Err(Exit::ShuttingDown);
        }
        let started_at = self.journal.step_started(key, attempt);
        if durably {
            // The start must be durable before the call is made (guarantee G6).
            self.await_commit(key, frame, self.journal.commit()).await?;
            // The node may have stood still during the commit, and another one may have the execution now.
            if !self.context.may_act_soon().await {
                return Err(Exit::ShuttingDown);
            }
        }
        Ok(started_at)
    }

    /// Returns the stubbed result of a call; `None` outside of tests or if the call is not stubbed.
    pub(super) fn double(
        &self,
        step: &Step,
        (key, idempotency_key): (&str, &str),
        (called, connection, is_local): (CallTarget<'_>, Option<&str>, bool),
        inputs: &Map,
    ) -> Option<BoxFuture<'static, Result<Value, ActionError>>> {
        let doubles = self.context.doubles.as_ref()?;
        let automation = &self.deployment.automation.id;
        let step = &step.id;
        doubles.answer(&StubRequest {
            automation,
            step,
            key,
            idempotency_key,
            called,
            inputs,
            connection,
            is_local,
        })
    }

    /// Awaits a call until a deadline, a cancellation or the end of the daemon's grace period.
    pub(super) async fn bounded<T>(
        &self,
        step: &Step,
        frame: &Frame,
        call: impl Future<Output = Result<T, ActionError>>,
    ) -> Result<Result<T, ActionError>, Exit> {
        tokio::select! {
            biased;
            result = call => Ok(result),
            exit = self.interruption(frame) => {
                if matches!(exit, Exit::ShuttingDown) {
                    tracing::info!(execution = %self.journal.id(), step = %step.id, "a call was interrupted by the stop of the daemon; it is repeated at the next start");
                }
                Err(exit)
            }
        }
    }

    /// Returns the chain that this execution belongs to.
    pub(crate) fn chain_of_run(&self) -> Trace {
        crate::loop_guard::trace_for(self.journal.id(), &self.payload, &self.origin)
    }

    /// Returns the chain that an attempt continues, with its `traceparent` if traces are collected.
    fn chain(&self, key: &str, attempt: u32, started_at: Timestamp) -> Trace {
        let parent =
            self.journal.observed().and_then(|observed| observed.traceparent(key, attempt, started_at));
        Trace { parent, ..self.chain_of_run() }
    }

    /// Moves large files of a result to disk, like those of requests. They are not written to the log and their memory
    /// is released.
    async fn externalize_files(&self, value: Value) -> Value {
        // The only cost of a small result, and a large one without files is not copied.
        if value.estimated_size(LARGE_FILE) <= LARGE_FILE || !value.has_file_in_memory(LARGE_FILE) {
            return value;
        }
        let (value, files) = (self.journal.redact_value(value), self.context.store.files());
        let shared = value.clone();
        let writing = self.context.large_work.run(move || shared.externalize_files(LARGE_FILE, &*files));
        match writing.await.map_err(std::io::Error::other).flatten() {
            Ok(set_aside) => set_aside,
            Err(error) => {
                // On failure the files stay in the value and are stored with it.
                tracing::warn!(execution = %self.journal.id(), %error, "the files of a result could not be put on disk by themselves");
                value
            }
        }
    }

    async fn inputs(
        &self,
        call: &ActionStep,
        action: &Arc<dyn Action>,
        key: &str,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<(Map, Reserved), Exit> {
        let spec = action.spec();
        let inputs = self.evaluate_inputs(&call.with, Some(spec), scope, frame).await?;
        let texts = connector::bytes_to_load(spec, &inputs);
        // A file that becomes a text exists twice for a moment.
        let bytes = texts.saturating_mul(2).saturating_add(action.memory_for_files(&inputs));
        let memory = self.reserve_to_load(bytes, key, frame).await?;
        if texts == 0 {
            let checked = connector::check_inputs(spec, &inputs, &memory).map_err(failed)?;
            return Ok((checked, memory));
        }
        let (action, reserved) = (action.clone(), memory.clone());
        let loading =
            self.context.large_work.run(move || connector::check_inputs(action.spec(), &inputs, &reserved));
        let checked = loading
            .await
            .unwrap_or_else(|error| Err(ActionError::new(ErrorKind::Internal, error.to_string())));
        Ok((checked.map_err(failed)?, memory))
    }

    /// Reserves memory for files that a step is about to load. Waits for it, within the time of the step.
    pub(crate) async fn reserve_to_load(
        &self,
        bytes: usize,
        key: &str,
        frame: &Frame,
    ) -> Result<Reserved, Exit> {
        if bytes == 0 {
            return Ok(Reserved::nothing());
        }
        let began = self.context.clock.monotonic_now();
        let memory = tokio::select! {
            biased;
            memory = self.context.memory.reserve_to_load(bytes) => memory,
            exit = self.interruption(frame) => return Err(exit),
        };
        let waited = self.context.clock.monotonic_now().since(began);
        self.note_wait(Some(key), DelayReason::Memory, waited);
        Ok(memory)
    }

    pub(super) fn within_limit(&self, value: Value) -> Result<Value, Exit> {
        let limit = self.context.settings.limits.result_bytes;
        if value.estimated_size(limit) > limit {
            let message = format!(
                "the result is larger than {}; request less of it",
                text::units::format_size(u64::try_from(limit).unwrap_or(u64::MAX))
            );
            return Err(failed(ActionError::new(ErrorKind::Limit, message)));
        }
        Ok(value)
    }
}

/// Returns the name of a connection or of a called automation.
pub(super) fn chosen_name<'a>(setting: &'a NameSetting, frame: &'a Frame) -> Result<&'a str, Exit> {
    let name = frame.name(setting).map(|name| name.name.as_str());
    name.ok_or_else(|| {
        let message = format!("none of `{setting}` was selected");
        failed(ActionError::new(ErrorKind::Internal, message))
    })
}

/// Returns true if a failed request may have been processed by the remote system.
fn is_outcome_unknown(error: &ActionError) -> bool {
    matches!(error.kind, ErrorKind::Network | ErrorKind::Timeout)
        || error.status.is_some_and(connector::may_have_acted)
}

/// Writes an action's log lines to the log of the execution, and its last request when the call ends, or is dropped because a
/// parallel branch has failed: it was sent too.
struct StepLog<'a> {
    run: &'a Run,
    key: &'a str,
    /// True if the author and the settings allow logging credentials for debugging.
    shows_credentials: bool,
    /// The last request of the call.
    last: Mutex<Option<CallRecord>>,
}

impl Drop for StepLog<'_> {
    fn drop(&mut self) {
        let last = self.last.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(call) = last {
            self.run.journal.step_called(self.key, call);
        }
    }
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

    fn record_host_wait(&self, host: &str, time: Duration) {
        let reason = DelayReason::Host { host: host.to_owned() };
        self.run.note_wait(Some(self.key), reason, time);
    }

    fn record_request(&self, method: &str, url: &str) {
        // Secrets in the path are masked when the record is committed.
        let url = text::truncate(url, CallRecord::MAX_URL_CHARS).into_owned();
        let call = CallRecord::Request { method: method.to_owned(), url };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
    }
}
