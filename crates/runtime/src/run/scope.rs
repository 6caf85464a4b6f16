//! Variables in scope while steps run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use catalog::{Deployment, Plan};
use expression::EvalClock;
use jiff::Timestamp;
use model::action::{ActionError, ErrorKind};
use model::automation::{Automation, TriggerId};
use model::execution::ExecutionId;
use model::payload::Payload;
use value::redact::{MASK, Mask, masked_value};
use value::{Key, Map, Value};

use super::Run;
use super::code_pipeline::CodePipeline;
use super::journal::LoopPosition;
use crate::context::Context;
use crate::memory::LARGE_VALUE;

/// Variables in scope and, in a parallel branch, the changes that it made.
pub(crate) struct Scope {
    root: Value,
    changes: Option<Changes>,
    /// Memory of the variables that expressions created here.
    held: ValueMemory,
    /// Memory of the large results of steps.
    results: ValueMemory,
    /// Clock and randomness of the current step; `None` if it uses neither.
    moment: Option<Arc<dyn EvalClock>>,
    /// Code results computed ahead for the next steps.
    pub(super) pipeline: Option<CodePipeline>,
    /// Time that the last step's code ran before the walk reached it, in microseconds.
    pub(super) pipelined_us: u64,
    /// True if the current step has decided the response to the caller, which is sent once the end of the step is recorded: one
    /// commit has both, so that a repetition after a crash does not answer twice.
    pub(super) is_response_due: bool,
}

/// The data of a start that the variables contain.
pub(super) struct StartData<'a> {
    pub(super) payload: &'a Payload,
    /// `trigger.results`, if the payload has been parsed already.
    pub(super) results: Option<&'a Value>,
    /// The trigger.
    pub(super) trigger: &'a TriggerId,
    /// The inputs beside the payload.
    pub(super) inputs: Option<&'a Map>,
}

/// Changes made by a branch.
#[derive(Default)]
pub(crate) struct Changes {
    steps: Vec<(Key, Value)>,
    vars: Vec<(Key, Value)>,
}

impl Scope {
    /// Creates the variables at the start of an execution.
    pub(super) async fn for_run(run: &Run) -> Result<Self, ActionError> {
        let automation = &run.deployment.automation;
        if automation.config_vars.iter().any(|variable| variable.secret) {
            run.journal.mark_secrets_read();
        }
        let config_vars = run.context.secrets.config_vars(automation).await?;
        Self::with_config_vars(run, config_vars)
    }

    /// Creates the variables with which a concurrency group is chosen: without the configuration variables that read a secret which a
    /// provider may have. The choice waits for nobody, because permits go in the order of acceptance.
    pub(super) fn for_permit(run: &Run) -> Result<Self, ActionError> {
        let config_vars = run.context.secrets.local_config_vars(&run.deployment.automation)?;
        Self::with_config_vars(run, config_vars)
    }

    /// Creates the variables for closing steps while the configuration variables cannot be read: only variables in memory are set.
    pub(super) fn for_closing(run: &Run) -> Result<Self, ActionError> {
        let config_vars = run.context.secrets.known_config_vars(&run.deployment.automation);
        Self::with_config_vars(run, config_vars)
    }

    fn with_config_vars(run: &Run, config_vars: Map) -> Result<Self, ActionError> {
        let execution = ExecutionFacts {
            id: run.journal.id(),
            started_at: run.started_at,
            attempt: run.journal.attempt(),
            is_derived: false,
        };
        Self::at_start(
            &run.context,
            &run.deployment,
            StartData {
                payload: &run.payload,
                results: run.results.as_ref(),
                trigger: &run.by.trigger,
                inputs: run.by.inputs.as_deref(),
            },
            config_vars,
            &execution,
        )
    }

    /// Creates the variables at the start of an execution.
    pub(super) fn at_start(
        context: &Context,
        deployment: &Deployment,
        start: StartData<'_>,
        config_vars: Map,
        execution: &ExecutionFacts,
    ) -> Result<Self, ActionError> {
        let automation = &deployment.automation;
        let StartData { payload, results, trigger, inputs: given } = start;
        let results = match results {
            Some(results) => results.clone(),
            None => trigger::results(payload)
                .map_err(|rejection| ActionError::new(ErrorKind::Input, rejection.message.clone()))?,
        };
        let mut root = Map::with_capacity(12);
        root.insert("trigger", Map::from_iter([("results", results), ("id", Value::from(trigger.as_str()))]));
        let not_run = || Value::from(Map::from_iter([("ok", false)]));
        let asked = deployment.plan.steps_with_read_success();
        root.insert("steps", asked.map(|id| (Key::from(id.clone()), not_run())).collect::<Map>());
        root.insert("inputs", inputs(automation, payload, given));
        root.insert("vars", Map::new());
        root.insert("configVars", config_vars);
        if deployment.plan.reads_execution() {
            root.insert("execution", execution.to_map(context, &deployment.plan));
            let names = [("id", automation.id.as_str()), ("name", automation.name.as_str())];
            root.insert("automation", Map::from_iter(names));
        }
        Ok(Self::from_root(Value::from(root)))
    }

    /// Creates a scope with these variables.
    pub(super) fn from_root(root: Value) -> Self {
        Self {
            root,
            changes: None,
            held: ValueMemory::default(),
            results: ValueMemory::default(),
            moment: None,
            pipeline: None,
            pipelined_us: 0,
            is_response_due: false,
        }
    }

    /// Returns the variables for expressions, with the clock and randomness of the step if it uses them.
    pub(super) fn names(&self) -> (&Value, Option<&Arc<dyn EvalClock>>) {
        (&self.root, self.moment.as_ref())
    }

    /// Replaces the step's clock and returns the previous one.
    pub(super) fn set_moment(&mut self, moment: Option<Arc<dyn EvalClock>>) -> Option<Arc<dyn EvalClock>> {
        std::mem::replace(&mut self.moment, moment)
    }

    /// Masks the variables.
    pub(super) fn mask(&mut self, mask: &impl Mask) {
        if let Some(masked) = masked_value(&self.root, mask) {
            self.root = masked;
        }
    }

    /// Returns the variables for expressions.
    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// True outside of parallel branches.
    pub(super) fn is_trunk(&self) -> bool {
        self.changes.is_none()
    }

    /// The position of a loop whose iteration starts now.
    pub(super) fn loop_position(&self, step: &str, turn: usize, last: &Value) -> LoopPosition {
        let variable = |name| self.root.get(name).unwrap_or_default();
        LoopPosition {
            step: step.to_owned(),
            turn,
            last: last.clone(),
            steps: variable("steps"),
            vars: variable("vars"),
        }
    }

    /// Restores the variables of a position.
    pub(super) fn restore(&mut self, position: &LoopPosition) {
        self.bind("steps", position.steps.clone());
        self.bind("vars", position.vars.clone());
    }

    /// Copies the scope for a parallel branch; its changes are recorded for [`Scope::merge`].
    pub(super) fn fork(&self) -> Self {
        Self {
            root: self.root.clone(),
            changes: Some(Changes::default()),
            held: self.held.branch(),
            results: self.results.branch(),
            moment: self.moment.clone(),
            pipeline: None,
            pipelined_us: 0,
            is_response_due: false,
        }
    }

    /// Applies the changes of a branch.
    pub(super) fn merge(&mut self, mut branch: Self) {
        self.held.merge(&mut branch.held);
        self.results.merge(&mut branch.results);
        let Changes { steps, vars } = branch.changes.take().unwrap_or_default();
        for (id, entry) in steps {
            self.put("steps", id, entry);
        }
        for (name, value) in vars {
            self.put("vars", name, value);
        }
    }

    /// Binds a variable such as `item` or `error`.
    pub(super) fn bind(&mut self, name: &str, value: Value) {
        if let Value::Map(root) = &mut self.root {
            Arc::make_mut(root).insert(name, value);
        }
    }

    /// Removes a variable.
    pub(super) fn unbind(&mut self, name: &str) {
        if let Value::Map(root) = &mut self.root {
            Arc::make_mut(root).remove(name);
        }
    }

    /// Sets `steps.<id>`. `timed_out` is set for a step that waits. Returns true if the results are large.
    pub(super) fn set_step(
        &mut self,
        id: &Arc<str>,
        results: Value,
        error: Option<&ActionError>,
        ok: bool,
        timed_out: Option<bool>,
    ) -> bool {
        let bytes = results.estimated_memory();
        let is_large = bytes >= LARGE_VALUE;
        self.results.set(id, if is_large { bytes } else { 0 });
        let mut entry = Map::with_capacity(3);
        if let Some(timed_out) = timed_out {
            entry.insert("timedOut", timed_out);
        }
        entry.insert("results", results);
        entry.insert("error", error.map(ActionError::to_value));
        entry.insert("ok", ok);
        self.put("steps", id.clone().into(), Value::from(entry));
        is_large
    }

    /// Sets `steps.<id>` to a step without results, of which only `ok` may be read.
    pub(super) fn clear_step(&mut self, id: &Arc<str>) {
        self.put("steps", id.clone().into(), Value::from(Map::from_iter([("ok", false)])));
    }

    /// Sets `steps.<id>.ok` to the end of a step in a branch whose variables are lost.
    pub(super) fn set_success(&mut self, id: &Arc<str>, ok: bool) {
        let entry = self.root.get("steps").and_then(|steps| steps.get(id));
        let mut entry = entry.and_then(|entry| entry.as_map().cloned()).unwrap_or_default();
        if entry.get("ok").and_then(Value::as_bool) != Some(ok) {
            entry.insert("ok", ok);
            self.put("steps", id.clone().into(), Value::from(entry));
        }
    }

    /// Memory of all variables created by expressions in this execution, and of the large results of steps and of calls, in bytes.
    pub(super) fn held(&self) -> usize {
        self.variables() + self.results.total.load(Ordering::Relaxed)
    }

    /// Memory of all variables created by expressions in this execution, in bytes.
    pub(super) fn variables(&self) -> usize {
        self.held.total.load(Ordering::Relaxed)
    }

    /// The memory of results, to which a call adds the answers that it has.
    pub(super) fn results(&self) -> Arc<AtomicUsize> {
        self.results.total.clone()
    }

    /// Records the size of a variable created by an expression. Returns the total of the execution in bytes.
    pub(super) fn hold(&mut self, name: &str, bytes: usize) -> usize {
        self.held.set(name, bytes)
    }

    /// Sets `vars.<name>` for each entry.
    pub(super) fn set_vars(&mut self, values: &Map) {
        for (name, value) in values.iter() {
            self.put("vars", name.clone(), value.clone());
        }
    }

    fn put(&mut self, group: &str, name: Key, value: Value) {
        if let Some(changes) = &mut self.changes {
            let noted = if group == "steps" { &mut changes.steps } else { &mut changes.vars };
            noted.push((name.clone(), value.clone()));
        }
        // Copy on write: the maps are copied only if an evaluation still uses them.
        let Value::Map(root) = &mut self.root else { return };
        if let Some(Value::Map(entries)) = Arc::make_mut(root).get_mut(group) {
            Arc::make_mut(entries).insert(name, value);
        }
    }
}

/// Memory of values, in bytes: the total of all branches, and the sizes of this branch by name.
#[derive(Default)]
struct ValueMemory {
    total: Arc<AtomicUsize>,
    by_name: Vec<(Key, usize)>,
}

impl ValueMemory {
    /// Copies the counters for a parallel branch.
    fn branch(&self) -> Self {
        Self { total: self.total.clone(), by_name: Vec::new() }
    }

    /// Takes over the values of a branch that has ended.
    fn merge(&mut self, branch: &mut Self) {
        for (name, bytes) in std::mem::take(&mut branch.by_name) {
            self.release(bytes);
            self.set(&name, bytes);
        }
    }

    /// Replaces the size of a value and returns the total.
    fn set(&mut self, name: &str, bytes: usize) -> usize {
        match self.by_name.iter_mut().find(|(known, _)| *known == *name) {
            Some((_, known)) => {
                self.total.fetch_sub(*known, Ordering::Relaxed);
                *known = bytes;
            }
            None if bytes == 0 => return self.total.load(Ordering::Relaxed),
            None => self.by_name.push((name.into(), bytes)),
        }
        self.total.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    fn release(&self, bytes: usize) {
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for ValueMemory {
    fn drop(&mut self) {
        self.release(self.by_name.iter().map(|(_, bytes)| bytes).sum());
    }
}

/// The members of the variable `execution`.
pub(super) struct ExecutionFacts {
    pub(super) id: ExecutionId,
    pub(super) started_at: Timestamp,
    pub(super) attempt: u32,
    /// True if the variables are derived for people, who do not get the resume address.
    pub(super) is_derived: bool,
}

impl ExecutionFacts {
    /// Builds the variable.
    fn to_map(&self, context: &Context, plan: &Plan) -> Map {
        let mut execution = Map::from_iter([
            ("id", Value::from(self.id.to_string())),
            ("startedAt", Value::from(self.started_at.to_string())),
            ("attempt", Value::from(self.attempt)),
            ("url", Value::from(context.page_url(&format!("/executions/{}", self.id)))),
        ]);
        if plan.reads_resume_url() {
            let url = if self.is_derived { MASK.to_owned() } else { context.resume_url(self.id) };
            execution.insert("resumeUrl", url);
        }
        execution
    }
}

/// Merges the given inputs with the defaults from the file.
fn inputs(automation: &Automation, payload: &Payload, given: Option<&Map>) -> Map {
    let mut inputs = Map::new();
    for (name, default) in automation.input_defaults() {
        inputs.insert(name, default.clone());
    }
    for input in &automation.inputs {
        if !inputs.contains_key(&input.name) {
            // A declared input without a value is null, not missing.
            inputs.insert(input.name.as_str(), Value::Null);
        }
    }
    let given = match payload {
        Payload::Manual { inputs } => Some(inputs),
        _ => given,
    };
    for (name, value) in given.into_iter().flat_map(Map::iter) {
        inputs.insert(name.clone(), value.clone());
    }
    inputs
}
