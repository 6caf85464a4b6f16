//! Answers actions with the test's doubles and logs the calls.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use connector::Cassette;
use connector::secret_provider::ProvidedSecret;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use model::action::{ActionError, Effect, ErrorKind};
use model::automation::AutomationId;
use model::test_suite::{Case, Start, Stub, StubError, StubOutcome, StubResponse, Target};
use text::Span;
use value::redact::MASK;
use value::{Map, Secret, Value};

use crate::quiescence::Quiescence;
use crate::test_run::{RealSecrets, TestSetup};
use crate::trial::RecordedAnswers;
use runtime::{CallTarget, Doubles, Error, StubRequest};
use runtime::{Clock as _, ManualClock};

/// Action that emits an event.
const EMIT: &str = "events.emit";

/// Doubles of one test, with the log of its calls.
pub(super) struct DoubleTable {
    automation: AutomationId,
    doubles: Vec<Stub>,
    secrets: std::collections::BTreeMap<String, String>,
    env: std::collections::BTreeMap<String, String>,
    /// Recording that answers HTTP requests of actions without a double.
    cassette: Option<Arc<Cassette>>,
    /// Secrets and variables of this machine, for calls to the real system.
    real: RealSecrets,
    /// The fields that files read of secrets with fields.
    secret_fields: std::collections::BTreeMap<String, BTreeSet<String>>,
    clock: ManualClock,
    quiescence: Quiescence,
    trusts_senders: bool,
    /// The automations that events start.
    receivers: Vec<String>,
    /// The answers of a recorded execution, for a trial.
    recorded: Option<Arc<RecordedAnswers>>,
    call_log: Mutex<CallLog>,
}

/// Log of a test's calls.
#[derive(Default)]
pub(super) struct CallLog {
    /// Calls in the order of their start.
    pub(super) calls: Vec<Call>,
    /// Emitted events: maps of `name` and `data`.
    pub(super) events: Vec<Value>,
    /// Calls without an answer.
    pub(super) unanswered: Vec<Unanswered>,
    /// Number of calls answered by each answer of each double.
    used: Vec<Vec<u32>>,
}

/// Call of an action or automation.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) name: String,
    /// Step id; `None` for a step of a called automation.
    pub(super) step: Option<String>,
    pub(super) key: String,
    pub(super) inputs: Map,
    /// Name of the connection; `None` if it has none.
    pub(super) connection: Option<String>,
}

/// Call without an answer.
#[derive(Clone, Debug)]
pub(super) struct Unanswered {
    pub(super) call: Call,
    /// Position of the double without a matching answer; `None` if there is no double.
    pub(super) double: Option<Span>,
}

impl DoubleTable {
    pub(super) fn new(
        setup: &TestSetup,
        case: &Case,
        automation: &AutomationId,
        clock: ManualClock,
        quiescence: Quiescence,
    ) -> Self {
        let used = case.doubles.iter().map(|double| vec![0; double.answers.len()]).collect();
        Self {
            automation: automation.clone(),
            doubles: case.doubles.clone(),
            secrets: case.secrets.clone(),
            env: case.env.clone(),
            cassette: setup.cassette.clone(),
            real: setup.real.clone(),
            secret_fields: setup.catalog.secret_fields(),
            clock,
            quiescence,
            trusts_senders: !matches!(&case.start, Start::Request(request) if request.verify),
            receivers: case.receivers.iter().map(|receiver| receiver.name.clone()).collect(),
            recorded: setup.trial.as_ref().map(|trial| trial.answers.clone()),
            call_log: Mutex::new(CallLog { used, ..CallLog::default() }),
        }
    }

    /// Takes the log, and the doubles defined by the test itself that no call used.
    pub(super) fn close(&self) -> (CallLog, Vec<Stub>) {
        let call_log = std::mem::take(&mut *self.call_log());
        let unused = self.doubles.iter().zip(&call_log.used);
        let unused = unused.filter(|(double, used)| double.own && used.iter().all(|count| *count == 0));
        let unused = unused.map(|(double, _)| double.clone()).collect();
        (call_log, unused)
    }

    /// Returns the call that ended a trial.
    pub(super) fn unknown_call(&self) -> Option<Call> {
        self.recorded.as_ref().and_then(|recorded| recorded.unknown())
    }

    /// Answers a call of a trial from the record. A call that it has no answer for never ends, and the trial ends with it.
    fn answer_from_record(
        &self,
        recorded: &RecordedAnswers,
        asked: &StubRequest<'_>,
        call: Call,
    ) -> Option<BoxFuture<'static, Result<Value, ActionError>>> {
        let runs_here = match asked.called {
            CallTarget::Action(spec) if spec.effect == Effect::Pure => return None,
            CallTarget::Action(spec) => asked.is_local || catalog::find_native(&spec.name).is_some(),
            CallTarget::Automation(_) => false,
        };
        let reply = recorded.take(&call);
        if reply.is_none() && runs_here {
            // The engine's own actions run on the trial's store, and local ones as they are.
            return None;
        }
        self.call_log().calls.push(call.clone());
        match reply {
            Some(reply) => Some(std::future::ready(reply).boxed()),
            None => {
                recorded.note_unknown(call);
                Some(std::future::pending().boxed())
            }
        }
    }

    fn call_log(&self) -> MutexGuard<'_, CallLog> {
        self.call_log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of the double for a call; doubles of steps precede doubles of actions.
    fn double(&self, asked: &StubRequest<'_>) -> Option<usize> {
        let own = *asked.automation == self.automation;
        let of_step = |double: &Stub| own && double.target == Target::Step(asked.step.to_owned());
        let of_action = |double: &Stub| double.target == Target::Action(asked.called.name().to_owned());
        self.doubles.iter().position(of_step).or_else(|| self.doubles.iter().position(of_action))
    }
}

impl Doubles for DoubleTable {
    fn answer(&self, asked: &StubRequest<'_>) -> Option<BoxFuture<'static, Result<Value, ActionError>>> {
        let own = *asked.automation == self.automation;
        let call = Call {
            name: asked.called.name().to_owned(),
            step: own.then(|| asked.step.to_owned()),
            key: asked.key.to_owned(),
            inputs: asked.inputs.clone(),
            connection: asked.connection.map(str::to_owned),
        };
        if let Some(recorded) = &self.recorded {
            return self.answer_from_record(recorded, asked, call);
        }
        let Some(at) = self.double(asked) else { return self.without_double(asked, call) };
        let double = &self.doubles[at];
        let mut call_log = self.call_log();
        let index = call_log.used[at].iter().sum();
        let used = &call_log.used[at];
        let inputs = Value::from(asked.inputs.clone());
        let fits = |(answer, used): &(&StubResponse, &u32)| {
            answer.times.is_none_or(|times| **used < times)
                && answer.when.as_ref().is_none_or(|when| when.fits(&inputs))
        };
        let chosen = double.answers.iter().zip(used).position(|pair| fits(&pair));
        call_log.calls.push(call.clone());
        let Some(chosen) = chosen else {
            call_log.unanswered.push(Unanswered { call, double: Some(double.span) });
            return Some(unanswered(asked.called.name()));
        };
        call_log.used[at][chosen] += 1;
        drop(call_log);
        let answer = &double.answers[chosen];
        let reply = reply(answer, asked.called.name(), inputs, index);
        Some(after(answer.takes, self.clock.clone(), reply))
    }

    fn secret(&self, name: &str) -> Result<Option<Arc<ProvidedSecret>>, Error> {
        let secret = |text: &str| Some(Arc::new(ProvidedSecret::from_text(Secret::new(text))));
        if self.recorded.is_some() {
            // As recorded.
            return Ok(secret(MASK));
        }
        let own = self.secrets.get(name).and_then(|text| secret(text));
        let Some(cassette) = self.cassette.clone() else { return Ok(own) };
        let is_recording = cassette.is_recording();
        let fields = self.secret_fields.get(name).cloned().unwrap_or_default();
        let hide = move |version: &ProvidedSecret| {
            let fields = version.fields().iter().filter(|(name, _)| fields.contains(*name));
            let values = version.text().into_iter().chain(fields.map(|(_, value)| value));
            values.for_each(|value| cassette.add_secret(value.expose()));
        };
        if is_recording && own.is_none() {
            return self.real.read(name, hide);
        }
        // A recording made with a real secret is replayed with a placeholder.
        let found = own.or_else(|| secret(&self.placeholder(name)));
        found.iter().for_each(|found| hide(found));
        Ok(found)
    }

    fn recorded_start(&self, key: &str) -> Option<(Timestamp, Value)> {
        self.recorded.as_ref()?.start(key)
    }

    fn variable(&self, name: &str) -> Option<String> {
        let own = self.env.get(name).cloned();
        // The record has no variables, so a trial reads this process's, as the recorded execution did.
        let reads_real = self.is_live() || self.recorded.is_some();
        own.or_else(|| reads_real.then(|| self.real.variable(name)).flatten())
    }

    fn receives_events(&self, automation: &AutomationId) -> bool {
        self.receivers.iter().any(|receiver| receiver == automation.as_str())
    }

    fn trusts_senders(&self) -> bool {
        self.trusts_senders
    }

    fn track_offloaded_work(&self) -> Box<dyn Send> {
        Box::new(self.quiescence.busy())
    }

    fn track_live_call(&self) -> Option<Box<dyn Send>> {
        self.is_live().then(|| Box::new(self.quiescence.busy()) as Box<dyn Send>)
    }
}

impl DoubleTable {
    /// A text in place of a real secret, with the fields that files read.
    fn placeholder(&self, name: &str) -> String {
        let Some(fields) = self.secret_fields.get(name) else { return format!("not-the-real-{name}") };
        let field = |field: &String| (field.clone(), format!("not-the-real-{name}-{field}").into());
        serde_json::Value::Object(fields.iter().map(field).collect()).to_string()
    }

    /// Returns true if the real system is called.
    fn is_live(&self) -> bool {
        self.cassette.as_ref().is_some_and(|cassette| cassette.is_recording())
    }

    fn without_double(
        &self,
        asked: &StubRequest<'_>,
        call: Call,
    ) -> Option<BoxFuture<'static, Result<Value, ActionError>>> {
        // A called automation runs for real: its external actions need doubles of their own.
        let CallTarget::Action(spec) = asked.called else { return None };
        if spec.name == EMIT {
            let sent = ["name", "data"].map(|key| (key, asked.inputs.get(key).cloned().unwrap_or_default()));
            self.call_log().events.push(Value::from(Map::from_iter(sent)));
        }
        // The engine's own actions run for real, on the test's store.
        if asked.is_local || catalog::find_native(&spec.name).is_some() {
            return None;
        }
        let mut call_log = self.call_log();
        call_log.calls.push(call.clone());
        if self.cassette.is_some() {
            return None;
        }
        call_log.unanswered.push(Unanswered { call, double: None });
        Some(unanswered(&spec.name))
    }
}

/// Fails a call without an answer, with an error that is not retried.
fn unanswered(name: &str) -> BoxFuture<'static, Result<Value, ActionError>> {
    let message = format!("the test has no answer for this call of `{name}`");
    std::future::ready(Err(ActionError::new(ErrorKind::Internal, message))).boxed()
}

/// Delays the reply by the double's duration on the test clock.
fn after(
    takes: Duration,
    clock: ManualClock,
    reply: Result<Value, ActionError>,
) -> BoxFuture<'static, Result<Value, ActionError>> {
    if takes.is_zero() {
        return std::future::ready(reply).boxed();
    }
    let until = clock.now().checked_add(takes).unwrap_or(Timestamp::MAX);
    async move {
        clock.sleep_until(until).await;
        reply
    }
    .boxed()
}

fn reply(answer: &StubResponse, name: &str, inputs: Value, index: u32) -> Result<Value, ActionError> {
    match &answer.reply {
        StubOutcome::Result(template) => {
            let scope = Map::from_iter([("inputs", inputs), ("index", Value::from(index))]);
            template.evaluate(&Value::from(scope), &value::Budget::default()).map_err(|error| {
                let message = format!("the double of `{name}` cannot answer: {error}");
                ActionError::new(ErrorKind::Internal, message)
            })
        }
        StubOutcome::Error(failure) => Err(error(failure, name)),
    }
}

fn error(failure: &StubError, name: &str) -> ActionError {
    let usual = || match failure.status {
        Some(status) => format!("the double of `{name}` answered {status}"),
        None => format!("the double of `{name}` failed ({})", failure.kind),
    };
    let mut error = ActionError::new(failure.kind.clone(), failure.message.clone().unwrap_or_else(usual));
    error.status = failure.status;
    error.code.clone_from(&failure.code);
    error.body.clone_from(&failure.body);
    error.data.clone_from(&failure.data);
    if let Some(wait) = failure.retry_after {
        error = error.with_retry_after(wait);
    }
    error
}
