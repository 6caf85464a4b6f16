//! The names in force while steps run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::action::{ActionError, ErrorKind};
use model::expression::EvalClock;
use model::payload::Payload;
use model::value::{Key, Map, Value};

use super::Run;
use super::ahead::Ahead;

/// The names in force, and, in a branch that runs beside others, what it added to them.
pub(crate) struct Scope {
    root: Value,
    changes: Option<Changes>,
    /// The memory of the variables that expressions made here.
    held: Held,
    /// What `now()` and `uuid()` give in the step that is evaluated, where it asks.
    moment: Option<Arc<dyn EvalClock>>,
    /// Code that runs ahead of the steps that come next here.
    pub(super) ahead: Option<Ahead>,
    /// How long the step that has just ended had run before its turn came, in microseconds.
    pub(super) ran_ahead_us: u64,
}

/// What a branch added.
#[derive(Default)]
pub(crate) struct Changes {
    steps: Vec<(Key, Value)>,
    vars: Vec<(Key, Value)>,
}

impl Scope {
    /// The names at the start of an execution.
    pub(super) fn of(run: &Run) -> Result<Self, ActionError> {
        let automation = &run.deployed.automation;
        let results = match &run.results {
            Some(results) => results.clone(),
            None => trigger::results(&run.payload)
                .map_err(|rejection| ActionError::new(ErrorKind::Input, rejection.message.clone()))?,
        };
        let mut root = Map::with_capacity(12);
        root.insert("trigger", Map::from_iter([("results", results)]));
        root.insert("steps", Map::new());
        root.insert("inputs", inputs(run));
        root.insert("vars", Map::new());
        if automation.config_vars.iter().any(|variable| variable.secret) {
            run.journal.reads_secrets();
        }
        root.insert("configVars", run.services.secrets.config_vars(automation)?);
        if run.deployed.plan.is_about_itself() {
            root.insert("execution", execution(run));
            let names = [("id", automation.id.as_str()), ("name", automation.name.as_str())];
            root.insert("automation", Map::from_iter(names));
        }
        Ok(Self::again(Value::from(root)))
    }

    /// These names.
    pub(super) fn again(root: Value) -> Self {
        Self { root, changes: None, held: Held::default(), moment: None, ahead: None, ran_ahead_us: 0 }
    }

    /// The names as expressions read them, with the clock and the randomness of the step, where it asks for them.
    pub(super) fn names(&self) -> (&Value, Option<&Arc<dyn EvalClock>>) {
        (&self.root, self.moment.as_ref())
    }

    /// Puts another moment in place, and gives the one that was there.
    pub(super) fn set_moment(&mut self, moment: Option<Arc<dyn EvalClock>>) -> Option<Arc<dyn EvalClock>> {
        std::mem::replace(&mut self.moment, moment)
    }

    /// The names as expressions read them.
    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// The same names for a branch that runs beside others; what it adds is noted for [`Scope::merge`].
    pub(super) fn fork(&self) -> Self {
        Self {
            root: self.root.clone(),
            changes: Some(Changes::default()),
            held: self.held.branch(),
            moment: self.moment.clone(),
            ahead: None,
            ran_ahead_us: 0,
        }
    }

    /// Takes over what a branch added.
    pub(super) fn merge(&mut self, mut branch: Self) {
        for (name, bytes) in std::mem::take(&mut branch.held.by_name) {
            self.held.release(bytes);
            self.held.set(&name, bytes);
        }
        let Changes { steps, vars } = branch.changes.take().unwrap_or_default();
        for (id, entry) in steps {
            self.put("steps", id, entry);
        }
        for (name, value) in vars {
            self.put("vars", name, value);
        }
    }

    /// Binds a name such as `item` or `error`.
    pub(super) fn bind(&mut self, name: &str, value: Value) {
        if let Value::Map(root) = &mut self.root {
            Arc::make_mut(root).insert(name, value);
        }
    }

    /// Takes a name away again.
    pub(super) fn unbind(&mut self, name: &str) {
        if let Value::Map(root) = &mut self.root {
            Arc::make_mut(root).remove(name);
        }
    }

    /// Sets `steps.<id>`. `timed_out` is there for a step that waits for something.
    pub(super) fn set_step(
        &mut self,
        id: &Arc<str>,
        results: Value,
        error: Option<&ActionError>,
        timed_out: Option<bool>,
    ) {
        let mut entry = Map::with_capacity(2);
        if let Some(timed_out) = timed_out {
            entry.insert("timedOut", timed_out);
        }
        entry.insert("results", results);
        entry.insert("error", error.map(ActionError::to_value));
        self.put("steps", id.clone().into(), Value::from(entry));
    }

    /// The bytes of all variables of the execution that expressions made.
    pub(super) fn held(&self) -> usize {
        self.held.total.load(Ordering::Relaxed)
    }

    /// Notes the bytes that an expression made for a variable, and gives those of all variables of the execution.
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
        // The maps are shared with whoever evaluates over them at the moment, and copied only then.
        let Value::Map(root) = &mut self.root else { return };
        if let Some(Value::Map(entries)) = Arc::make_mut(root).get_mut(group) {
            Arc::make_mut(entries).insert(name, value);
        }
    }
}

/// The memory of variables, in bytes: of all branches of an execution together, and of this one by name.
#[derive(Default)]
struct Held {
    total: Arc<AtomicUsize>,
    by_name: Vec<(Key, usize)>,
}

impl Held {
    /// A branch beside this one.
    fn branch(&self) -> Self {
        Self { total: self.total.clone(), by_name: Vec::new() }
    }

    /// Notes the bytes of a variable in the place of those before, and gives the total.
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

impl Drop for Held {
    fn drop(&mut self) {
        self.release(self.by_name.iter().map(|(_, bytes)| bytes).sum());
    }
}

/// What steps read of the execution itself.
fn execution(run: &Run) -> Map {
    let mut execution = Map::from_iter([
        ("id", Value::from(run.journal.id().to_string())),
        ("startedAt", Value::from(run.started_at.to_string())),
        ("attempt", Value::from(run.journal.attempt())),
    ]);
    if run.deployed.plan.resumes() {
        execution.insert("resumeUrl", run.services.resume_url(run.journal.id()));
    }
    execution
}

/// The inputs given, over the defaults that the file declares.
fn inputs(run: &Run) -> Map {
    let mut inputs = Map::new();
    for (name, default) in run.deployed.automation.input_defaults() {
        inputs.insert(name, default.clone());
    }
    for input in &run.deployed.automation.inputs {
        if !inputs.contains_key(&input.name) {
            // A declared input that was not given is null, not missing.
            inputs.insert(input.name.as_str(), Value::Null);
        }
    }
    if let Payload::Manual { inputs: given } = &*run.payload {
        for (name, value) in given.iter() {
            inputs.insert(name.clone(), value.clone());
        }
    }
    inputs
}
