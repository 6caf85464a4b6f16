//! The names that expressions may read, and what is below each.

use model::automation::{Automation, Trigger};

/// The names that exist wherever steps run.
pub(super) const ALWAYS: [&str; 8] =
    ["trigger", "steps", "inputs", "vars", "configVars", "state", "execution", "automation"];
/// The names of a trigger's condition.
pub(super) const IN_TRIGGER_IF: [&str; 3] = ["trigger", "configVars", "automation"];
/// The names of `concurrency.key`, which is read before any step.
pub(super) const BEFORE_STEPS: [&str; 5] = ["trigger", "inputs", "configVars", "execution", "automation"];
/// The names of what an event is asked for with.
const EVENT_INPUTS: [&str; 2] = ["configVars", "automation"];
/// The names of the inputs of a poll.
const POLL_INPUTS: [&str; 3] = ["cursor", "configVars", "automation"];
/// The names of what is read of the result of a poll.
const POLL_RESULT: [&str; 4] = ["result", "cursor", "configVars", "automation"];
/// The names of what is read of one item of it.
const POLL_ITEM: [&str; 5] = ["item", "result", "cursor", "configVars", "automation"];
/// The names of configuration variables and connections.
pub(super) const OUTSIDE: [&str; 2] = ["env", "secrets"];
/// What `execution` has.
pub(super) const EXECUTION: [&str; 4] = ["id", "startedAt", "attempt", "resumeUrl"];
/// What `event` has.
pub(super) const EVENT: [&str; 2] = ["name", "data"];
/// What `automation` has.
pub(super) const AUTOMATION: [&str; 2] = ["id", "name"];
/// What `steps.<id>` has.
pub(super) const STEP: [&str; 2] = ["results", "error"];
/// The members of `steps.<id>` of a `waitFor` step.
pub(super) const WAITING_STEP: [&str; 3] = ["results", "error", "timedOut"];
/// What an error has (`model::ActionError`).
pub(super) const ERROR: [&str; 11] = [
    "kind",
    "message",
    "status",
    "code",
    "requestId",
    "body",
    "step",
    "retryAfterMs",
    "outcomeUnknown",
    "lostAttempt",
    "place",
];

/// What the results of all steps are called elsewhere.
pub(super) const STEP_ROOTS: [&str; 10] =
    ["outputs", "output", "results", "result", "needs", "jobs", "tasks", "nodes", "actions", "step"];
/// What the result of a step is called elsewhere, below its id.
pub(super) const RESULT_WORDS: [&str; 6] = ["outputs", "output", "result", "results", "response", "value"];

const WEBHOOK: [&str; 7] =
    ["body", "rawBody", "headers", "pathFragment", "queryParameters", "rawQuery", "method"];
const SCHEDULE: [&str; 4] = ["scheduledAt", "startedAt", "timezone", "body"];
const POLL: [&str; 2] = ["body", "polledAt"];
/// Whether an event is polled for or told of, its connector says.
const EVENT_RESULTS: [&str; 7] =
    ["body", "polledAt", "rawBody", "headers", "pathFragment", "queryParameters", "method"];
const MANUAL: [&str; 2] = ["body", "inputs"];

/// Where an expression stands, as far as names go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Where steps run, and at their end.
    Steps,
    /// The trigger's condition.
    TriggerIf,
    /// The key that executions are counted by.
    ConcurrencyKey,
    /// The inputs of a trigger's event.
    EventInputs,
    /// The inputs of a poll.
    PollInputs,
    /// What is read of the result of a poll.
    PollResult,
    /// What is read of one item of it.
    PollItem,
    /// A value named once; `secret` says whether it is never shown.
    ConfigVar {
        /// Whether it is marked.
        secret: bool,
    },
}

/// Whether there is an `error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorName {
    No,
    /// In `finally`: only where the execution failed.
    Maybe,
    Yes,
}

/// The names in force at a place.
#[derive(Clone, Debug)]
pub(super) struct Names<'a> {
    pub(super) place: Place,
    /// What the items of the loops around are called.
    pub(super) items: Vec<&'a str>,
    /// Whether there is a loop around.
    pub(super) loops: bool,
    pub(super) error: ErrorName,
    /// Whether an event is looked at.
    pub(super) event: bool,
}

impl<'a> Names<'a> {
    pub(super) fn at(place: Place) -> Self {
        Self { place, items: Vec::new(), loops: false, error: ErrorName::No, event: false }
    }

    pub(super) fn with_error(mut self, error: ErrorName) -> Self {
        self.error = error;
        self
    }

    /// In a turn of a loop, with its item where it has one.
    pub(super) fn in_loop(mut self, item: Option<&'a str>) -> Self {
        self.items.extend(item);
        self.loops = true;
        self
    }

    pub(super) fn with_event(mut self) -> Self {
        self.event = true;
        self
    }

    /// Everything that can be read here.
    pub(super) fn allowed(&self) -> Vec<&'a str> {
        let mut allowed: Vec<&'a str> = match self.place {
            Place::Steps => ALWAYS.to_vec(),
            Place::TriggerIf => IN_TRIGGER_IF.to_vec(),
            Place::ConcurrencyKey => BEFORE_STEPS.to_vec(),
            Place::EventInputs => EVENT_INPUTS.to_vec(),
            Place::PollInputs => POLL_INPUTS.to_vec(),
            Place::PollResult => POLL_RESULT.to_vec(),
            Place::PollItem => POLL_ITEM.to_vec(),
            Place::ConfigVar { .. } => OUTSIDE.to_vec(),
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
        allowed
    }

    /// Why a name that means something elsewhere means nothing here; nothing for a stranger.
    pub(super) fn elsewhere(&self, name: &str) -> Option<&'static str> {
        Some(match (name, self.place) {
            ("result" | "item", Place::PollInputs) => {
                "nothing has been asked yet where this is read; `cursor` is what the last poll left"
            }
            (
                "trigger" | "steps" | "vars" | "inputs" | "execution" | "state",
                Place::EventInputs | Place::PollInputs | Place::PollResult | Place::PollItem,
            ) => "there is no execution yet where this is read",
            ("item", Place::Steps) => "it exists only inside the `steps` of a `forEach`",
            ("index", Place::Steps) => "it exists only inside the `steps` of a `forEach` or a `repeat`",
            ("event", Place::Steps) => {
                "it exists only in the `if` of a `waitFor`; after the step it is `steps.<id>.results`"
            }
            ("error", Place::Steps) => {
                "it exists only in `onError`, `undo` and `finally`; `steps.<id>.error` is that of a step with `onError: continue`"
            }
            ("secrets" | "env", _) => {
                "it exists only in connections and `configVars`: name the value there and read `configVars.<name>`"
            }
            ("state", Place::TriggerIf | Place::ConcurrencyKey) => {
                "nothing is kept of what is read here; read the state in a step"
            }
            ("steps" | "vars", Place::TriggerIf | Place::ConcurrencyKey) => {
                "no step has run yet where this is read"
            }
            ("inputs" | "execution", Place::TriggerIf) => "there is no execution yet where this is read",
            (name, Place::ConfigVar { .. }) if ALWAYS.contains(&name) => {
                "configuration variables are read before there is an execution; name the value with `set` instead"
            }
            _ => return None,
        })
    }
}

/// What `trigger.results` has for this trigger.
pub(super) fn trigger_results(trigger: &Trigger) -> &'static [&'static str] {
    match trigger {
        Trigger::Webhook(_) => &WEBHOOK,
        Trigger::Schedule(_) => &SCHEDULE,
        Trigger::Event(_) => &EVENT_RESULTS,
        Trigger::Poll(_) => &POLL,
        Trigger::Manual => &MANUAL,
    }
}

/// What follows `trigger.results.body.data` for a path below the body that was written without one of these names.
pub(super) fn behind_body<'a, 'p>(path: &'a [&'p str]) -> &'a [&'p str] {
    match path {
        ["data" | "body" | "json", rest @ ..] => rest,
        path => path,
    }
}

/// What follows `trigger.results` for a path that was written without it, or with another word in its place.
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

/// The kind of trigger whose results have this name.
pub(super) fn trigger_with(name: &str) -> Option<&'static str> {
    let kinds: [(&str, &[&str]); 4] =
        [("webhook", &WEBHOOK), ("schedule", &SCHEDULE), ("poll", &POLL), ("manual", &MANUAL)];
    kinds.into_iter().find(|(_, names)| names.contains(&name)).map(|(kind, _)| kind)
}

/// What was probably meant by a name that is none: a step, a variable, an input or a part of the trigger's results.
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
        trigger_results(&automation.trigger).contains(&name).then(|| format!("trigger.results.{path}"))
    };
    meant.or_else(input).or_else(variable).or_else(result)
}
