//! Keys that people bring along from other languages, with how they are written here. Sources: the references of
//! GitHub Actions, Home Assistant, Kestra, n8n, Node-RED, Argo Workflows and Azure Pipelines.

use crate::yaml::ForeignKey;

const fn key(key: &'static str, equivalent: Option<&'static str>, help: &'static str) -> ForeignKey {
    ForeignKey { key, equivalent, help }
}

/// The keys that may be brought along to a mapping of this name.
pub(super) fn foreign_keys_of(what: &str) -> &'static [ForeignKey] {
    match what {
        "an automation" => AUTOMATION,
        "a trigger" => TRIGGER,
        "a retry" => RETRY,
        "a repeat" => REPEAT,
        "a `waitFor`" => WAIT_FOR,
        _ => &[],
    }
}

/// Advice for authors who give several keys where this mapping takes one.
pub(super) fn instead_of_several(what: &str) -> Option<&'static str> {
    (what == "a trigger").then_some(
        "put the steps into a file with `trigger: {manual: {}}`, and start it with `call` from one file for each trigger",
    )
}

/// At the top of an Automation.
static AUTOMATION: &[ForeignKey] = &[
    key("on", None, "what starts it stands under `trigger`, such as `trigger: {webhook: {}}`"),
    key("triggers", None, "an automation has one trigger: write `trigger:` with its kind below"),
    key("jobs", None, "there is one list of `steps`; `needs` or `parallel` makes some run side by side"),
    key("tasks", Some("steps"), "the work stands under `steps`"),
    key("actions", Some("steps"), "the work stands under `steps`"),
    key("action", None, "the work stands under `steps`, a list"),
    key("sequence", Some("steps"), "the work stands under `steps`"),
    key("nodes", None, "the work stands under `steps`, a list; each step names the next by its place in it"),
    key("alias", Some("name"), "what people call it is `name`"),
    key("title", Some("name"), "what people call it is `name`"),
    key("env", None, "values for the whole file stand under `configVars`; they may read `${{ env.NAME }}`"),
    key("variables", Some("configVars"), "values for the whole file stand under `configVars`"),
    key(
        "vars",
        Some("configVars"),
        "values for the whole file stand under `configVars`; a step `set` names those of an execution",
    ),
    key("condition", None, "a condition on the start is `if` under `trigger`"),
    key("conditions", None, "a condition on the start is `if` under `trigger`"),
    key("mode", None, "how many run side by side is said with `concurrency: {limit: 1, policy: queue}`"),
    key("errors", Some("onError"), "the steps for a failed execution stand under `onError`"),
    key("on_error", Some("onError"), "keys are written in camelCase: `onError`"),
    key("defaults", None, "`retry` and `timeout` stand on a step, or on a group of steps"),
    key("permissions", None, "what an automation may do is said by its connections"),
    key("namespace", None, "`labels` sort automations into groups"),
    key("schedule", None, "it stands under `trigger`: `trigger: {schedule: {daily: {at: \"08:30\"}}}`"),
    key("cron", None, "it stands under `trigger`: `trigger: {schedule: {cron: \"*/5 * * * *\"}}`"),
    key("webhook", None, "it stands under `trigger`: `trigger: {webhook: {}}`"),
];

/// In a step.
pub(super) static STEP: &[ForeignKey] = &[
    key("uses", Some("action"), "the action is named by `action`: `action: http.request`"),
    key("service", Some("action"), "the action is named by `action`: `action: http.request`"),
    key("type", Some("action"), "the action is named by `action`: `action: http.request`"),
    key("task", Some("action"), "the action is named by `action`: `action: http.request`"),
    key(
        "run",
        None,
        "there is no shell; JavaScript stands under `code: |`, a call under `action: http.request`",
    ),
    key("script", Some("code"), "JavaScript stands under `code: |`"),
    key("javascript", Some("code"), "JavaScript stands under `code: |`"),
    key("function", Some("code"), "JavaScript stands under `code: |`"),
    key("commands", None, "there is no shell; call an action, such as `action: http.request`"),
    key("data", Some("with"), "the inputs of an action stand under `with`"),
    key("params", Some("with"), "the inputs of an action stand under `with`"),
    key("parameters", Some("with"), "the inputs of an action stand under `with`"),
    key("inputs", Some("with"), "the inputs of an action stand under `with`"),
    key("args", Some("with"), "the inputs of an action stand under `with`"),
    key("arguments", Some("with"), "the inputs of an action stand under `with`"),
    key("alias", Some("name"), "what people call it is `name`"),
    key("condition", Some("if"), "a condition is `if`"),
    key("when", Some("if"), "a condition is `if`"),
    key("unless", None, "write `if: not (…)`"),
    key("runIf", Some("if"), "a condition is `if`"),
    key("choose", None, "write `if` with `then` and `else`, or `switch` with `cases`"),
    key("delay", Some("wait"), "a pause is `wait`: `wait: 10s`"),
    key("sleep", Some("wait"), "a pause is `wait`: `wait: 10s`"),
    key("pause", Some("wait"), "a pause is `wait`: `wait: 10s`"),
    key("wait_template", None, "write `repeat: {until: …, max: 100, delay: 10s}` with the steps that look"),
    key("wait_for_trigger", None, "write `waitFor: {event: name}`"),
    key("sequence", Some("steps"), "a list of steps is `steps`"),
    key("tasks", Some("steps"), "a list of steps is `steps`"),
    key("foreach", Some("forEach"), "keys are written in camelCase: `forEach`"),
    key("for_each", Some("forEach"), "keys are written in camelCase: `forEach`"),
    key("matrix", None, "write `forEach` with the list, and `concurrency` for how many run side by side"),
    key("strategy", None, "write `forEach` with the list, and `concurrency` for how many run side by side"),
    key("while", None, "write `repeat: {until: …, max: 100}` with `steps`; `until` holds when it ends"),
    key("until", None, "write `repeat: {until: …, max: 100}` with `steps`"),
    key("depends_on", Some("needs"), "the steps it waits for stand under `needs`"),
    key("dependsOn", Some("needs"), "the steps it waits for stand under `needs`"),
    key("continue-on-error", None, "write `onError: continue`"),
    key("continue_on_error", None, "write `onError: continue`"),
    key("allowFailure", None, "write `onError: continue`"),
    key("timeout-minutes", None, "write `timeout: 10m`"),
    key("retries", Some("retry"), "further tries are `retry`: `retry: 3`"),
    key("variables", Some("set"), "values are named with `set`"),
    key(
        "env",
        None,
        "values from outside are named once under `configVars`, which may read `${{ env.NAME }}`",
    ),
    key(
        "outputs",
        None,
        "what a step gives is `steps.<id>.results`; `outputs` of the file is the execution's result",
    ),
    key(
        "event",
        None,
        "`action: events.emit` with `with: {name: …}` sends an event, `waitFor: {event: …}` waits for one",
    ),
    key("do", Some("steps"), "a list of steps is `steps`"),
    key(
        "elif",
        None,
        "write `else: [{if: …, then: […]}]`: a step inside `else` with a condition of its own; or `switch`, for one value",
    ),
    key(
        "elseif",
        None,
        "write `else: [{if: …, then: […]}]`: a step inside `else` with a condition of its own",
    ),
    key(
        "elsif",
        None,
        "write `else: [{if: …, then: […]}]`: a step inside `else` with a condition of its own",
    ),
    key("try", Some("steps"), "steps with `onError` in common stand under `steps`, with `onError` beside it"),
    key("log", None, "write `action: log.info` with `with: {message: …}`"),
    key("print", None, "write `action: log.info` with `with: {message: …}`"),
    key("echo", None, "write `action: log.info` with `with: {message: …}`"),
    key("emit", None, "write `action: events.emit` with `with: {name: …}`"),
    key("return", None, "write `stop: {result: …}`, which ends the execution with a result"),
    key("exit", None, "write `stop: {}`, which ends the execution well, or `fail: why`"),
    key("throw", Some("fail"), "write `fail: why`"),
    key("raise", Some("fail"), "write `fail: why`"),
    key("loop", None, "write `forEach` with a list, or `repeat: {until: …, max: 100}`, with `steps`"),
    key("for", None, "write `forEach` with a list, and `steps`; each item is `item`"),
    key("http", None, "write `action: http.request` with `with: {url: …}`"),
    key("request", None, "write `action: http.request` with `with: {url: …}`"),
    key("catch", Some("onError"), "the steps for a failure stand under `onError`"),
    key("compensate", Some("undo"), "the steps that take it back stand under `undo`"),
];

/// In a trigger.
static TRIGGER: &[ForeignKey] = &[
    key("cron", None, "it stands under `schedule`: `schedule: {cron: \"*/5 * * * *\"}`"),
    key("type", None, "the kind itself is the key: `trigger: {webhook: {}}`"),
    key("platform", None, "the kind itself is the key: `trigger: {webhook: {}}`"),
    key("http", Some("webhook"), "a request starts it with `webhook`"),
    key("workflow_dispatch", Some("manual"), "a person starts it with `manual: {}`"),
    key(
        "workflow_call",
        Some("manual"),
        "another automation starts it with `manual: {}`; what it is given stands under `inputs`",
    ),
    key("time", None, "it stands under `schedule`: `schedule: {daily: {at: \"08:30\"}}`"),
    key("condition", Some("if"), "a condition is `if`"),
    key("conditions", Some("if"), "a condition is `if`, with `and` and `or`"),
];

/// In a retry.
static RETRY: &[ForeignKey] = &[
    key("attempts", Some("max"), "how many tries follow the first is `max`"),
    key("maxAttempts", Some("max"), "how many tries follow the first is `max`"),
    key("max_attempts", Some("max"), "how many tries follow the first is `max`"),
    key("maxAttempt", Some("max"), "how many tries follow the first is `max`"),
    key("maxTries", Some("max"), "how many tries follow the first is `max`"),
    key("maxRetries", Some("max"), "how many tries follow the first is `max`"),
    key("retries", Some("max"), "how many tries follow the first is `max`"),
    key("count", Some("max"), "how many tries follow the first is `max`"),
    key("limit", Some("max"), "how many tries follow the first is `max`"),
    key("times", Some("max"), "how many tries follow the first is `max`"),
    key("interval", Some("delay"), "the wait before the first retry is `delay`"),
    key("wait", Some("delay"), "the wait before the first retry is `delay`"),
    key("initialInterval", Some("delay"), "the wait before the first retry is `delay`"),
    key("minTimeout", Some("delay"), "the wait before the first retry is `delay`"),
    key("factor", Some("backoff"), "what each further wait is multiplied by is `backoff`"),
    key("multiplier", Some("backoff"), "what each further wait is multiplied by is `backoff`"),
    key("backoffCoefficient", Some("backoff"), "what each further wait is multiplied by is `backoff`"),
    key("maxInterval", Some("maxDelay"), "the longest wait is `maxDelay`"),
    key("maximumInterval", Some("maxDelay"), "the longest wait is `maxDelay`"),
    key("maxTimeout", Some("maxDelay"), "the longest wait is `maxDelay`"),
    key("type", None, "waits grow by the number `backoff`: 1 keeps them the same, 2 doubles each"),
];

/// In the settings of a loop.
static REPEAT: &[ForeignKey] = &[
    key(
        "while",
        None,
        "write `until` with the opposite, which is looked at after each turn: `until: not (…)`",
    ),
    key("times", Some("max"), "how many turns there are is `max`"),
    key("count", Some("max"), "how many turns there are is `max`"),
    key("limit", Some("max"), "the most turns are `max`"),
    key("interval", Some("delay"), "the pause between turns is `delay`"),
    key("wait", Some("delay"), "the pause between turns is `delay`"),
    key("every", Some("delay"), "the pause between turns is `delay`"),
    key("steps", None, "`steps` stands beside `repeat`, not below it"),
    key("do", None, "the steps of a turn stand under `steps`, beside `repeat`"),
];

/// In what a step waits for.
static WAIT_FOR: &[ForeignKey] = &[
    key("timeout", None, "`timeout` stands beside `waitFor`, not below it: it is a key of the step"),
    key("onTimeout", None, "`onTimeout` stands beside `waitFor`, not below it: it is a key of the step"),
    key("name", Some("event"), "the name of the event is `event`"),
    key("signal", Some("event"), "the name of the event is `event`"),
    key("condition", Some("if"), "a condition is `if`"),
    key("when", Some("if"), "a condition is `if`"),
    key("until", None, "to wait for an instant, write `wait: {until: …}`"),
];
