//! Names that expressions may read, and their members.

use model::automation::{Automation, DeclaredTrigger};

/// Names in scope of steps.
pub(in crate::check) const ALWAYS: [&str; 8] =
    ["trigger", "steps", "inputs", "vars", "configVars", "state", "execution", "automation"];
/// Names in scope of the trigger's condition.
pub(super) const IN_TRIGGER_IF: [&str; 3] = ["trigger", "configVars", "automation"];
/// Names in scope of `concurrency.key`, which is evaluated before any step.
pub(super) const BEFORE_STEPS: [&str; 5] = ["trigger", "inputs", "configVars", "execution", "automation"];
/// Names in scope of an event trigger's inputs.
const EVENT_INPUTS: [&str; 2] = ["configVars", "automation"];
/// Names in scope of a poll's inputs.
const POLL_INPUTS: [&str; 3] = ["cursor", "configVars", "automation"];
/// Names in scope of expressions on a poll's result.
const POLL_RESULT: [&str; 4] = ["result", "cursor", "configVars", "automation"];
/// Names in scope of expressions on an item of a poll.
const POLL_ITEM: [&str; 5] = ["item", "result", "cursor", "configVars", "automation"];
/// Names in scope of configuration variables and connections.
pub(super) const OUTSIDE: [&str; 2] = ["env", "secrets"];
/// Members of `execution`.
pub(in crate::check) const EXECUTION: [&str; 5] = ["id", "startedAt", "attempt", "url", "resumeUrl"];
/// Members of `event`.
pub(in crate::check) const EVENT: [&str; 2] = ["name", "data"];
/// Members of `trigger`.
pub(in crate::check) const TRIGGER: [&str; 2] = ["results", "id"];
/// Members of `automation`.
pub(in crate::check) const AUTOMATION: [&str; 2] = ["id", "name"];
/// Members of `steps.<id>`.
pub(in crate::check) const STEP: [&str; 3] = ["results", "error", "ok"];
/// Members of `steps.<id>` for a `waitFor` step.
pub(in crate::check) const WAITING_STEP: [&str; 4] = ["results", "error", "ok", "timedOut"];
/// Members of `outcome`.
pub(in crate::check) const OUTCOME: [&str; 4] = ["status", "reason", "error", "result"];
/// Members of an error (`model::ActionError`).
pub(in crate::check) const ERROR: [&str; 12] = [
    "kind",
    "message",
    "status",
    "code",
    "requestId",
    "body",
    "data",
    "step",
    "retryAfterMs",
    "outcomeUnknown",
    "lostAttempt",
    "place",
];

/// Terms of other tools for the results of all steps.
pub(super) const STEP_ROOTS: [&str; 10] =
    ["outputs", "output", "results", "result", "needs", "jobs", "tasks", "nodes", "actions", "step"];
/// Terms of other tools for the result of a step.
pub(super) const RESULT_WORDS: [&str; 6] = ["outputs", "output", "result", "results", "response", "value"];

/// Terms of other tools for the outcome of a step.
pub(super) const OUTCOME_WORDS: [&str; 7] =
    ["conclusion", "failed", "outcome", "state", "succeeded", "success", "successful"];

/// Kind of position of an expression, which determines the names in scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Steps, and `outputs`.
    Steps,
    /// Condition of the trigger.
    TriggerIf,
    /// Concurrency key.
    ConcurrencyKey,
    /// Inputs of an event trigger.
    EventInputs,
    /// Inputs of a poll.
    PollInputs,
    /// Expression on the result of a poll.
    PollResult,
    /// Expression on one item of a poll.
    PollItem,
    /// Configuration variable.
    ConfigVar {
        /// True if marked as secret, so that it is never shown.
        secret: bool,
    },
}

/// Availability of the name `error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorName {
    No,
    /// Only if the execution failed, in `finally`.
    Maybe,
    Yes,
}

/// Names in scope at a position.
#[derive(Clone, Debug)]
pub(super) struct Names<'a> {
    pub(super) scope: Scope,
    /// Loop variables of the enclosing loops.
    pub(super) items: Vec<&'a str>,
    /// True inside a loop.
    pub(super) loops: bool,
    pub(super) error: ErrorName,
    /// True in the condition of a `waitFor` event, and in the condition and inputs of a trigger on an own event.
    pub(super) event: bool,
    /// True in `finally`.
    pub(super) outcome: bool,
}

impl<'a> Names<'a> {
    pub(super) fn at(scope: Scope) -> Self {
        Self { scope, items: Vec::new(), loops: false, error: ErrorName::No, event: false, outcome: false }
    }

    /// Returns the scope of the condition and the inputs of a trigger.
    pub(super) fn at_trigger(trigger: &DeclaredTrigger) -> Self {
        let names = Self::at(Scope::TriggerIf);
        if trigger.on.own_event().is_some() { names.with_event() } else { names }
    }

    pub(super) fn with_error(mut self, error: ErrorName) -> Self {
        self.error = error;
        self
    }

    /// Returns the scope inside a loop, with its loop variable if any.
    pub(super) fn in_loop(mut self, item: Option<&'a str>) -> Self {
        self.items.extend(item);
        self.loops = true;
        self
    }

    pub(super) fn with_outcome(mut self) -> Self {
        self.outcome = true;
        self
    }

    pub(super) fn with_event(mut self) -> Self {
        self.event = true;
        self
    }

    /// Returns all names in scope.
    pub(super) fn allowed(&self) -> Vec<&'a str> {
        let mut allowed: Vec<&'a str> = match self.scope {
            Scope::Steps => ALWAYS.to_vec(),
            Scope::TriggerIf => IN_TRIGGER_IF.to_vec(),
            Scope::ConcurrencyKey => BEFORE_STEPS.to_vec(),
            Scope::EventInputs => EVENT_INPUTS.to_vec(),
            Scope::PollInputs => POLL_INPUTS.to_vec(),
            Scope::PollResult => POLL_RESULT.to_vec(),
            Scope::PollItem => POLL_ITEM.to_vec(),
            Scope::ConfigVar { .. } => OUTSIDE.to_vec(),
        };
        if self.loops {
            allowed.push("index");
        }
        if !self.items.is_empty() {
            allowed.push("item");
            allowed.extend(self.items.iter().copied().filter(|item| *item != "item"));
        }
        if self.event {
            allowed.push("event");
        }
        if self.error != ErrorName::No {
            allowed.push("error");
        }
        if self.outcome && !allowed.contains(&"outcome") {
            allowed.push("outcome");
        }
        allowed
    }

    /// Explains why a name that exists elsewhere does not exist here; `None` for an unknown name.
    pub(super) fn elsewhere(&self, name: &str) -> Option<&'static str> {
        Some(match (name, self.scope) {
            ("result" | "item", Scope::PollInputs) => {
                "it does not exist before the poll's request; `cursor` has the value of the last poll"
            }
            (
                "trigger" | "steps" | "vars" | "inputs" | "execution" | "state",
                Scope::EventInputs | Scope::PollInputs | Scope::PollResult | Scope::PollItem,
            ) => "there is no execution yet when this is evaluated",
            ("item", Scope::Steps) => {
                "it exists only inside the `steps` of a `forEach`, and in an expression for each item: `map(by=item.name)`"
            }
            ("index", Scope::Steps) => "it exists only inside the `steps` of a `forEach` or a `repeat`",
            ("event", Scope::Steps) => {
                "it exists only in the `if` of a `waitFor`; after the step it is `steps.<id>.results`"
            }
            ("event", Scope::TriggerIf) => {
                "it exists only with an own event, and in the `if` of a `waitFor`; the data of this trigger are `trigger.results`"
            }
            ("error", Scope::Steps) => {
                "it exists only in `onError`, `undo` and the `finally` of the file; `steps.<id>.error` is that of a step with `onError: continue`"
            }
            ("outcome", Scope::Steps) => {
                "it exists only in `finally`, of the file or of a step; after a step ask `steps.<id>.ok`"
            }
            ("secrets" | "env", _) => {
                "it exists only in connections and `configVars`: name the value there and read `configVars.<name>`"
            }
            ("state", Scope::TriggerIf | Scope::ConcurrencyKey) => {
                "state read here would not be recorded; read it in a step"
            }
            ("steps" | "vars", Scope::TriggerIf | Scope::ConcurrencyKey) => {
                "no step has run yet when this is evaluated"
            }
            ("inputs" | "execution", Scope::TriggerIf) => "there is no execution yet when this is evaluated",
            (name, Scope::ConfigVar { .. }) if ALWAYS.contains(&name) => {
                "configuration variables are read before there is an execution; name the value with `set` instead"
            }
            _ => return None,
        })
    }
}

/// Strips a term of other tools from a path below the body, leaving the part below `trigger.results.body.data`.
pub(super) fn behind_body<'a, 'p>(path: &'a [&'p str]) -> &'a [&'p str] {
    match path {
        ["data" | "body" | "json", rest @ ..] => rest,
        path => path,
    }
}

/// Converts a path without `trigger.results`, or with a term of other tools, to the part below `trigger.results`.
pub(super) fn behind_trigger<'p>(path: &[&'p str], known: &[&str]) -> Vec<&'p str> {
    fn body<'p>(rest: &[&'p str]) -> Vec<&'p str> {
        ["body", "data"].into_iter().chain(behind_body(rest).iter().copied()).collect()
    }
    match path {
        ["body" | "payload" | "data" | "json", rest @ ..] if known.contains(&"body") && !rest.is_empty() => {
            body(rest)
        }
        ["payload" | "data" | "json"] => body(&[]),
        ["query" | "params", rest @ ..] if known.contains(&"queryParameters") => {
            std::iter::once("queryParameters").chain(rest.iter().copied()).collect()
        }
        ["output" | "outputs" | "result" | "event" | "request", rest @ ..] if !rest.is_empty() => {
            behind_trigger(rest, known)
        }
        [first, ..] if known.contains(first) => path.to_vec(),
        path if known.contains(&"rawBody") => body(path),
        path => path.to_vec(),
    }
}

/// Suggests a step, variable, input or trigger result with this name.
pub(super) fn meant(automation: &Automation, name: &str) -> Option<String> {
    let mut meant = None;
    automation.walk(&mut |step| {
        if step.id.as_ref() == name {
            meant = Some(format!("steps.{name}.results"));
        } else if let model::Verb::Set(values) = &step.verb
            && values.iter().any(|(variable, _)| variable.as_ref() == name)
        {
            meant.get_or_insert_with(|| format!("vars.{name}"));
        }
    });
    let input = || automation.inputs.iter().any(|input| input.name == name).then(|| format!("inputs.{name}"));
    let variable = || {
        automation.config_vars.iter().any(|var| var.name.name == name).then(|| format!("configVars.{name}"))
    };
    let result = || {
        let path = if name == "body" { "body.data" } else { name };
        let has_it = |trigger: &DeclaredTrigger| trigger::result_names(&trigger.on).contains(&name);
        automation.triggers.iter().any(has_it).then(|| format!("trigger.results.{path}"))
    };
    meant.or_else(input).or_else(variable).or_else(result)
}
