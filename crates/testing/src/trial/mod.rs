//! Trials: a recorded execution, run on another version of its automation without a call to another system.
//!
//! The calls are answered from the record, and the clock starts at the recorded instant. A call that the record has no answer
//! for ends the trial. The recorded version runs first in the same way, which yields the inputs of the recorded calls.

mod compare;
mod recorded;

use std::sync::Arc;
use std::time::Duration;

use catalog::Deployment;
use model::automation::{Automation, SpannedName};
use model::execution::{Event, ExecutionId, Origin, Outcome};
use model::payload::{HttpResponse, Payload};
use model::test_suite::{Case, Expect, Start, Stimulus, StimulusKind};
use runtime::{AcceptOptions, ReplayPlan, Secret, StartedBy};
use text::Span;
use value::{Map, Value};

use crate::TestRunner;
use crate::observed;
use crate::runner;
use crate::start::StartResult;
use crate::stubs::Call;
use crate::test_run::{TestSetup, TestTrace};

pub use compare::{CallDifference, Side, StepDifference};
pub(crate) use recorded::{RecordedAnswers, called_names};

/// The maximum real time of one trial.
const MAX_TRIAL_TIME: Duration = Duration::from_secs(10);

/// A recorded execution.
#[derive(Clone)]
pub struct RecordedExecution {
    /// The id, which the trial has too.
    pub id: ExecutionId,
    /// The automation in the version that it ran on.
    pub automation: Arc<Deployment>,
    /// The events.
    pub events: Vec<Event>,
    /// The secret of its store, from which its random values derive.
    pub secret: Secret,
}

impl RecordedExecution {
    /// Returns the recorded outcome; `None` if the execution has not ended.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        observed::outcome(&self.events)
    }
}

/// A start that a trial repeats.
pub(crate) struct TrialStart {
    pub(crate) plan: ReplayPlan,
    pub(crate) answers: Arc<RecordedAnswers>,
    pub(crate) secret: Secret,
}

/// The verdict on a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The outcome, the steps, the calls and the response are the same.
    Same,
    /// Some of them differ.
    Differs,
    /// It ends at a call that the record has no answer for.
    NewCall,
    /// The trigger does not start an execution.
    NotStarted,
    /// It waits for something that the record does not have.
    Waits,
}

/// The result of a trial.
pub struct Trial {
    /// The verdict.
    pub verdict: Verdict,
    /// The outcome; `None` if it has not ended.
    pub outcome: Option<Outcome>,
    /// The response that a `respond` step set.
    pub response: Option<HttpResponse>,
    /// The recorded response.
    pub recorded_response: Option<HttpResponse>,
    /// The steps that differ, in the order of the trial.
    pub steps: Vec<StepDifference>,
    /// The number of steps that are the same.
    pub same_steps: usize,
    /// The number of calls that were answered from the record.
    pub calls: usize,
    /// The call that the record has no answer for.
    pub new_call: Option<CallDifference>,
    /// The reason for which it waits, or does not start.
    pub reason: Option<String>,
}

impl TestRunner {
    /// Runs a recorded execution on this version. Blocks the calling thread, for at most twice ten seconds.
    ///
    /// # Errors
    /// The trial could not run, for this reason.
    pub fn try_recorded(
        &self,
        draft: &Arc<Deployment>,
        recorded: &RecordedExecution,
    ) -> Result<Trial, String> {
        let Some(Event::Started { origin, payload, .. }) = recorded.events.first() else {
            return Err("the execution has no beginning".to_owned());
        };
        let (origin, payload) = (trial_origin(recorded.id, origin), Payload::clone(payload));
        let old = &recorded.automation.automation;
        let is_same = old.definition == draft.automation.definition;
        let baseline = self.one(&recorded.automation, recorded, &payload, &origin, &[], false)?;
        let calls = baseline.call_log.calls.clone();
        let played =
            if is_same { baseline } else { self.one(draft, recorded, &payload, &origin, &calls, true)? };
        Ok(conclude(old, recorded, &calls, &played))
    }

    fn one(
        &self,
        deployment: &Arc<Deployment>,
        recorded: &RecordedExecution,
        payload: &Payload,
        origin: &Origin,
        calls: &[Call],
        decides_anew: bool,
    ) -> Result<TestTrace, String> {
        let answers = RecordedAnswers::new(&recorded.automation.automation, &recorded.events, calls);
        let case = case(recorded, &answers);
        let plan = ReplayPlan {
            id: Some(recorded.id),
            deployment: deployment.clone(),
            payload: payload.clone(),
            by: started_by(recorded),
            decides_anew,
            origin: origin.clone(),
            kept: Vec::new(),
            kept_steps: 0,
            calls: Vec::new(),
            memory: None,
        };
        let setup = TestSetup {
            catalog: self.catalog.clone(),
            dir: self.dir.clone(),
            folder: std::path::PathBuf::new(),
            cassette: None,
            outbound_allow: Vec::new(),
            files_dir: None,
            real: self.real.clone(),
            trial: Some(TrialStart { plan, answers, secret: recorded.secret.clone() }),
        };
        runner::play(&setup, &case, deployment, MAX_TRIAL_TIME).map_err(|error| error.message)
    }
}

/// The trigger that started the recorded execution, with the inputs that it gave.
fn started_by(recorded: &RecordedExecution) -> StartedBy {
    match recorded.events.first() {
        Some(Event::Started { trigger, inputs, .. }) => {
            StartedBy { trigger: trigger.clone(), inputs: inputs.clone() }
        }
        _ => StartedBy::default(),
    }
}

/// The origin of a trial: a test if the execution was one, so that it reads the same state.
fn trial_origin(of: ExecutionId, origin: &Origin) -> Origin {
    Origin::Replay { of, from: None, kept: 0, test: origin.is_test() }
}

/// The recorded execution as a test: its instant, the state that it read, and the signals that came.
fn case(recorded: &RecordedExecution, answers: &RecordedAnswers) -> Case {
    let name = |name: &str| SpannedName { name: name.to_owned(), span: Span::default() };
    let mut stimuli = Vec::new();
    for event in &recorded.events {
        let what = match event {
            Event::Signalled { step, signal, .. } if signal.name.is_empty() => StimulusKind::Approval {
                step: name(step),
                option: name(&text(&signal.data, "option")),
                form: signal
                    .data
                    .as_map()
                    .and_then(|data| data.get("form")?.as_map().cloned())
                    .unwrap_or_default(),
            },
            Event::Signalled { signal, .. } => {
                StimulusKind::Event { name: name(&signal.name), data: signal.data.clone() }
            }
            Event::Cancelling { reason, .. } => StimulusKind::Cancel { reason: reason.clone() },
            _ => continue,
        };
        stimuli.push(Stimulus { span: Span::default(), after: None, what });
    }
    let state = answers.initial_state();
    Case {
        name: name(&recorded.id.to_string()),
        skip: None,
        trigger: Some(name(started_by(recorded).trigger.as_str())),
        start: Start::Polled(Value::Null),
        start_span: Span::default(),
        now: recorded.events.first().map(Event::at).unwrap_or_default(),
        secrets: std::collections::BTreeMap::new(),
        env: std::collections::BTreeMap::new(),
        state: state.iter().map(|(key, value)| (name(key), value.clone())).collect(),
        doubles: Vec::new(),
        stimuli,
        receivers: Vec::new(),
        cassette: None,
        expect: Expect::default(),
    }
}

fn text(value: &Value, key: &str) -> String {
    value.as_map().and_then(|map| map.get(key)).map(Value::to_text).unwrap_or_default()
}

fn conclude(old: &Automation, recorded: &RecordedExecution, calls: &[Call], played: &TestTrace) -> Trial {
    let none = Vec::new();
    let events = played.executions.first().map_or(&none, |execution| &execution.events);
    let new_call = played.new_call.as_ref().map(CallDifference::new);
    let outcome = observed::outcome(events).cloned();
    let (steps, same_steps) =
        compare::steps(old, (&recorded.events, calls), (events, &played.call_log.calls));
    let (response, recorded_response) = (responded(events), responded(&recorded.events));
    let is_same = steps.is_empty()
        && compare::is_same_outcome(outcome.as_ref(), observed::outcome(&recorded.events))
        && compare::is_same_response(response.as_ref(), recorded_response.as_ref());
    let verdict = match () {
        () if new_call.is_some() => Verdict::NewCall,
        () if played.executions.is_empty() => Verdict::NotStarted,
        () if outcome.is_none() => Verdict::Waits,
        () if is_same => Verdict::Same,
        () => Verdict::Differs,
    };
    let reason = match verdict {
        Verdict::NotStarted => {
            Some(played.refused.clone().unwrap_or_else(|| "the trigger's `if` does not hold".to_owned()))
        }
        Verdict::Waits => played.stuck.clone(),
        _ => None,
    };
    let answered = played.call_log.calls.len() - usize::from(new_call.is_some());
    Trial {
        verdict,
        outcome,
        response,
        recorded_response,
        steps,
        same_steps,
        calls: answered,
        new_call,
        reason,
    }
}

fn responded(events: &[Event]) -> Option<HttpResponse> {
    events.iter().find_map(|event| match event {
        Event::Responded { response, .. } => Some(response.clone()),
        _ => None,
    })
}

impl crate::test_run::TestRun<'_> {
    /// Starts a trial as its trigger would.
    pub(crate) async fn start_trial(&self, start: &TrialStart) -> StartResult {
        let Some(mount) = self.deployment.mount(&start.plan.by.trigger) else {
            let trigger = &start.plan.by.trigger;
            return StartResult::Refused(format!("this version has no trigger `{trigger}`"));
        };
        let mut plan = start.plan.clone();
        // The recorded version takes its inputs as they were recorded.
        if plan.decides_anew
            && let Err(error) = plan.convert_inputs()
        {
            return StartResult::Refused(error.to_string());
        }
        let condition = match self.ingress.evaluate_trigger_condition(&mount, &plan.payload).await {
            Ok(condition) => condition,
            Err(error) => return StartResult::Refused(error.to_string()),
        };
        let accepted = match condition.start() {
            None => return StartResult::Accepted,
            Some(None) => self.ingress.replay(plan).await.map(|_| ()),
            Some(fails) => {
                let ReplayPlan { id, payload, by, origin, .. } = plan;
                let options = AcceptOptions { id, fails, ..AcceptOptions::default() };
                let begin = runtime::Start { payload, origin, by };
                self.runtime.admission.accept(self.deployment, begin, options).await.map(|_| ())
            }
        };
        accepted.map_or_else(|error| StartResult::Refused(error.to_string()), |()| StartResult::Accepted)
    }
}

/// The inputs of a call, by the key of its step; of several attempts the last.
pub(crate) fn inputs_by_step(calls: &[Call]) -> std::collections::HashMap<&str, &Map> {
    calls.iter().map(|call| (call.key.as_str(), &call.inputs)).collect()
}
