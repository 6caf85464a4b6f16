//! Who answers in the place of actions, and keeps account of what was asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use connector::Tape;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use model::Span;
use model::action::{ActionError, Effect, ErrorKind};
use model::automation::AutomationId;
use model::redact::Redactor;
use model::trial::{Answer, Case, Double, Failure, Reply, Start, Target};
use model::value::{Map, Value};

use super::play::Props;
use super::still::Still;
use crate::clock::{Clock as _, ManualClock};
use crate::doubles::{CallTarget, Doubles, StubRequest};
use crate::secrets::Secrets;

/// The action that sends an event.
const EMIT: &str = "events.emit";

/// Answers for one test.
pub(super) struct Desk {
    automation: AutomationId,
    doubles: Vec<Double>,
    secrets: std::collections::BTreeMap<String, String>,
    env: std::collections::BTreeMap<String, String>,
    /// The recording over which calls without a double run themselves.
    tape: Option<Arc<Tape>>,
    /// The secrets and variables of this machine, where the real system is called.
    real: Secrets,
    clock: ManualClock,
    still: Still,
    trusts_senders: bool,
    account: Mutex<Account>,
}

/// What was asked.
#[derive(Default)]
pub(super) struct Account {
    /// The calls, in the order in which they began.
    pub(super) calls: Vec<Call>,
    /// The events that were sent: maps of `name` and `data`.
    pub(super) events: Vec<Value>,
    /// Calls that nothing could answer.
    pub(super) unanswered: Vec<Unanswered>,
    /// How many calls each answer of each double has answered.
    used: Vec<Vec<u32>>,
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) name: String,
    /// The id of the step, where it is one of the Automation that is tested.
    pub(super) step: Option<String>,
    pub(super) key: String,
    pub(super) inputs: Map,
}

/// A call that nothing could answer.
#[derive(Clone, Debug)]
pub(super) struct Unanswered {
    pub(super) call: Call,
    /// The double that has no answer for it; `None` where there is no double at all.
    pub(super) double: Option<Span>,
}

impl Desk {
    pub(super) fn new(
        props: &Props,
        case: &Case,
        automation: &AutomationId,
        clock: ManualClock,
        still: Still,
    ) -> Self {
        let used = case.doubles.iter().map(|double| vec![0; double.answers.len()]).collect();
        Self {
            automation: automation.clone(),
            doubles: case.doubles.clone(),
            secrets: case.secrets.clone(),
            env: case.env.clone(),
            tape: props.tape.clone(),
            real: Secrets::new(
                props.real.vault.clone(),
                props.real.folder.clone(),
                Redactor::default(),
                None,
            ),
            clock,
            still,
            trusts_senders: !matches!(&case.start, Start::Request(request) if request.verify),
            account: Mutex::new(Account { used, ..Account::default() }),
        }
    }

    /// What was asked, and the doubles of the test alone that nobody asked for.
    pub(super) fn close(&self) -> (Account, Vec<Double>) {
        let account = std::mem::take(&mut *self.account());
        let unused = self.doubles.iter().zip(&account.used);
        let unused = unused.filter(|(double, used)| double.own && used.iter().all(|count| *count == 0));
        let unused = unused.map(|(double, _)| double.clone()).collect();
        (account, unused)
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The double for a call: that of the step before that of the action.
    fn double(&self, asked: &StubRequest<'_>) -> Option<usize> {
        let own = *asked.automation == self.automation;
        let of_step = |double: &Double| own && double.target == Target::Step(asked.step.to_owned());
        let of_action = |double: &Double| double.target == Target::Action(asked.called.name().to_owned());
        self.doubles.iter().position(of_step).or_else(|| self.doubles.iter().position(of_action))
    }
}

impl Doubles for Desk {
    fn answer(&self, asked: &StubRequest<'_>) -> Option<BoxFuture<'static, Result<Value, ActionError>>> {
        let own = *asked.automation == self.automation;
        let call = Call {
            name: asked.called.name().to_owned(),
            step: own.then(|| asked.step.to_owned()),
            key: asked.key.to_owned(),
            inputs: asked.inputs.clone(),
        };
        let Some(at) = self.double(asked) else { return self.without_double(asked, call) };
        let double = &self.doubles[at];
        let mut account = self.account();
        let index = account.used[at].iter().sum();
        let used = &account.used[at];
        let inputs = Value::from(asked.inputs.clone());
        let fits = |(answer, used): &(&Answer, &u32)| {
            answer.times.is_none_or(|times| **used < times)
                && answer.when.as_ref().is_none_or(|when| when.fits(&inputs))
        };
        let chosen = double.answers.iter().zip(used).position(|pair| fits(&pair));
        account.calls.push(call.clone());
        let Some(chosen) = chosen else {
            account.unanswered.push(Unanswered { call, double: Some(double.span) });
            return Some(unanswered(asked.called.name()));
        };
        account.used[at][chosen] += 1;
        drop(account);
        let answer = &double.answers[chosen];
        let reply = reply(answer, asked.called.name(), inputs, index);
        Some(after(answer.takes, self.clock.clone(), reply))
    }

    fn secret(&self, name: &str) -> Option<String> {
        let own = self.secrets.get(name).cloned();
        let Some(tape) = &self.tape else { return own };
        let secret = match own {
            Some(own) => own,
            None if tape.records() => self.real.secret(name).ok().flatten()?.to_string(),
            // What was recorded with a real one is played with one that is none.
            None => format!("not-the-real-{name}"),
        };
        tape.hide(&secret);
        Some(secret)
    }

    fn variable(&self, name: &str) -> Option<String> {
        let own = self.env.get(name).cloned();
        own.or_else(|| self.is_live().then(|| self.real.variable(name)).flatten())
    }

    fn trusts_senders(&self) -> bool {
        self.trusts_senders
    }

    fn track_offloaded_work(&self) -> Box<dyn Send> {
        Box::new(self.still.busy())
    }

    fn track_live_call(&self) -> Option<Box<dyn Send>> {
        self.is_live().then(|| Box::new(self.still.busy()) as Box<dyn Send>)
    }
}

impl Desk {
    /// Whether the real system is called.
    fn is_live(&self) -> bool {
        self.tape.as_ref().is_some_and(|tape| tape.records())
    }

    fn without_double(
        &self,
        asked: &StubRequest<'_>,
        call: Call,
    ) -> Option<BoxFuture<'static, Result<Value, ActionError>>> {
        // Another Automation runs as it is: what it does outside needs doubles in its turn.
        let CallTarget::Action(spec) = asked.called else { return None };
        if spec.name == EMIT {
            let sent = ["name", "data"].map(|key| (key, asked.inputs.get(key).cloned().unwrap_or_default()));
            self.account().events.push(Value::from(Map::from_iter(sent)));
        }
        // The engine's own actions really run, on the test's own store.
        if spec.effect == Effect::Pure || crate::native::find(&spec.name).is_some() {
            return None;
        }
        let mut account = self.account();
        account.calls.push(call.clone());
        if self.tape.is_some() {
            return None;
        }
        account.unanswered.push(Unanswered { call, double: None });
        Some(unanswered(&spec.name))
    }
}

/// What a call gets that nothing can answer. Nothing is tried again for it.
fn unanswered(name: &str) -> BoxFuture<'static, Result<Value, ActionError>> {
    let message = format!("the test has no answer for this call of `{name}`");
    std::future::ready(Err(ActionError::new(ErrorKind::Internal, message))).boxed()
}

/// The reply, once the call has taken its time on the test's clock.
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

fn reply(answer: &Answer, name: &str, inputs: Value, index: u32) -> Result<Value, ActionError> {
    match &answer.reply {
        Reply::Result(template) => {
            let scope = Map::from_iter([("inputs", inputs), ("index", Value::from(index))]);
            template.evaluate(&Value::from(scope), &model::Budget::default()).map_err(|error| {
                let message = format!("the double of `{name}` cannot answer: {error}");
                ActionError::new(ErrorKind::Internal, message)
            })
        }
        Reply::Error(failure) => Err(error(failure, name)),
    }
}

fn error(failure: &Failure, name: &str) -> ActionError {
    let usual = || match failure.status {
        Some(status) => format!("the double of `{name}` answered {status}"),
        None => format!("the double of `{name}` failed ({})", failure.kind),
    };
    let mut error = ActionError::new(failure.kind, failure.message.clone().unwrap_or_else(usual));
    error.status = failure.status;
    error.code.clone_from(&failure.code);
    error.body.clone_from(&failure.body);
    if let Some(wait) = failure.retry_after {
        error = error.with_retry_after(wait);
    }
    error
}
