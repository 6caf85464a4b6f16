//! Keys of other workflow languages, with their equivalents here. Sources: the references of
//! GitHub Actions, Home Assistant, Kestra, n8n, Node-RED, Argo Workflows and Azure Pipelines.

use text::diagnostic::Source;
use text::yaml::{ForeignKey, Node, Rewrite, quote};

type Keys = &'static [&'static str];

const fn key(keys: Keys, equivalent: Option<&'static str>, help: &'static str) -> ForeignKey {
    ForeignKey { keys, equivalent, help, rewrite: None }
}

const fn rewritten(keys: Keys, help: &'static str, rewrite: Rewrite) -> ForeignKey {
    ForeignKey { keys, equivalent: None, help, rewrite: Some(rewrite) }
}

/// The text of a value written on one line; `None` otherwise.
fn one_line<'s>(value: &Node, source: &'s Source) -> Option<&'s str> {
    Some(source.slice(value.span)).filter(|text| !text.is_empty() && !text.contains(['\n', '\r']))
}

/// Like [`one_line`], for a text, a number or a boolean.
fn scalar<'s>(value: &Node, source: &'s Source) -> Option<&'s str> {
    one_line(value, source).filter(|_| value.as_list().is_none() && value.as_map().is_none())
}

/// A scalar as written in a flow collection: quoted if necessary.
fn scalar_in_brackets(value: &Node, source: &Source) -> Option<String> {
    let text = scalar(value, source)?;
    let needs_quotes = text.contains([',', '[', ']', '{', '}']) && !text.starts_with(['"', '\'']);
    Some(if needs_quotes { quote(text) } else { text.to_owned() })
}

fn continue_on_error(value: &Node, _: &Source, _: &str) -> Option<String> {
    value.as_bool().filter(|is_on| *is_on).map(|_| "onError: continue".to_owned())
}

fn minutes(value: &Node, _: &Source, _: &str) -> Option<String> {
    value.as_integer().filter(|minutes| *minutes > 0).map(|minutes| format!("timeout: {minutes}m"))
}

fn log(value: &Node, source: &Source, separator: &str) -> Option<String> {
    let text = scalar_in_brackets(value, source)?;
    Some(format!("action: log.info{separator}with: {{message: {text}}}"))
}

fn emit(value: &Node, source: &Source, separator: &str) -> Option<String> {
    let text = scalar_in_brackets(value, source)?;
    Some(format!("action: events.emit{separator}with: {{name: {text}}}"))
}

fn stop(value: &Node, source: &Source, _: &str) -> Option<String> {
    let is_scalar = scalar(value, source).is_some();
    let text =
        if is_scalar { scalar_in_brackets(value, source)? } else { one_line(value, source)?.to_owned() };
    Some(format!("stop: {{result: {text}}}"))
}

fn unless(value: &Node, _: &Source, _: &str) -> Option<String> {
    let condition = value.as_str().filter(|text| !text.contains(['\n', '$']))?;
    Some(format!("if: {}", quote(&format!("not ({condition})"))))
}

fn until_not(value: &Node, _: &Source, _: &str) -> Option<String> {
    let condition = value.as_str().filter(|text| !text.contains(['\n', '$']))?;
    Some(format!("until: {}", quote(&format!("not ({condition})"))))
}

fn register(value: &Node, _: &Source, _: &str) -> Option<String> {
    let name = value.as_str().filter(|name| super::keys::is_identifier(name))?;
    Some(format!("id: {name}"))
}

fn cron(value: &Node, _: &Source, _: &str) -> Option<String> {
    Some(format!("trigger: {{schedule: {{cron: {}}}}}", quote(value.as_str()?)))
}

fn cron_of_trigger(value: &Node, _: &Source, _: &str) -> Option<String> {
    Some(format!("schedule: {{cron: {}}}", quote(value.as_str()?)))
}

fn trigger_of_schedule(value: &Node, source: &Source, _: &str) -> Option<String> {
    value.as_map()?;
    Some(format!("trigger: {{schedule: {}}}", one_line(value, source)?))
}

fn trigger_of_webhook(value: &Node, source: &Source, _: &str) -> Option<String> {
    value.as_map()?;
    Some(format!("trigger: {{webhook: {}}}", one_line(value, source)?))
}

fn methods(value: &Node, source: &Source, _: &str) -> Option<String> {
    Some(format!("methods: [{}]", scalar(value, source)?))
}

/// The foreign keys of a mapping of this name.
pub(super) fn foreign_keys_of(what: &str) -> &'static [ForeignKey] {
    match what {
        "an automation" => AUTOMATION,
        "a trigger" => TRIGGER,
        "a retry" => RETRY,
        "a repeat" => REPEAT,
        "a case" => CASE,
        "a `waitFor`" => WAIT_FOR,
        "an answer" => ANSWER,
        "a webhook" => WEBHOOK,
        "a schedule" => SCHEDULE,
        _ => &[],
    }
}

/// Advice for authors who give several keys where the mapping accepts one.
pub(super) fn instead_of_several(what: &str) -> Option<&'static str> {
    (what == "a trigger").then_some("write each as an item of `triggers`, with an `id`")
}

/// In a case of a `switch` with conditions.
static CASE: &[ForeignKey] = &[
    key(&["steps", "do"], Some("then"), "the steps of a case are `then`"),
    key(&["when", "condition"], Some("if"), "the condition of a case is `if`"),
];

/// At the top level of an automation.
static AUTOMATION: &[ForeignKey] = &[
    key(&["on"], Some("trigger"), "what starts it stands under `trigger`, such as `trigger: {webhook: {}}`"),
    key(&["jobs"], None, "there is one list of `steps`; `needs` or `parallel` makes some run side by side"),
    key(&["tasks", "actions", "sequence"], Some("steps"), "the work stands under `steps`"),
    key(&["action"], None, "the work stands under `steps`, a list"),
    key(
        &["nodes"],
        None,
        "the work stands under `steps`, a list; each step names the next by its place in it",
    ),
    key(
        &["onCancel"],
        None,
        "steps after a cancellation stand under `finally`, with `if: outcome.status == 'cancelled'`",
    ),
    key(&["alias", "title"], Some("name"), "what people call it is `name`"),
    key(
        &["env"],
        None,
        "values for the whole file stand under `configVars`; they may read `${{ env.NAME }}`",
    ),
    key(&["variables"], Some("configVars"), "values for the whole file stand under `configVars`"),
    key(
        &["vars"],
        Some("configVars"),
        "values for the whole file stand under `configVars`; a step `set` names those of an execution",
    ),
    key(&["condition", "conditions"], None, "a condition on the start is `if` under `trigger`"),
    key(&["mode"], None, "how many run side by side is said with `concurrency: {limit: 1, policy: queue}`"),
    key(&["errors"], Some("onError"), "the steps for a failed execution stand under `onError`"),
    key(&["on_error"], Some("onError"), "keys are written in camelCase: `onError`"),
    key(&["permissions"], None, "what an automation may do is said by its connections"),
    key(&["namespace"], None, "`labels` sort automations into groups"),
    rewritten(
        &["schedule"],
        "it stands under `trigger`: `trigger: {schedule: {daily: {at: \"08:30\"}}}`",
        trigger_of_schedule,
    ),
    rewritten(&["cron"], "it stands under `trigger`: `trigger: {schedule: {cron: \"*/5 * * * *\"}}`", cron),
    rewritten(&["webhook"], "it stands under `trigger`: `trigger: {webhook: {}}`", trigger_of_webhook),
];

/// In a step.
pub(super) static STEP: &[ForeignKey] = &[
    key(&["uses"], Some("action"), "the action is named by `action`: `action: http.request`"),
    key(&["service"], Some("action"), "the action is named by `action`: `action: http.request`"),
    key(&["type"], Some("action"), "the action is named by `action`: `action: http.request`"),
    key(&["task"], Some("action"), "the action is named by `action`: `action: http.request`"),
    key(
        &["run"],
        None,
        "there is no shell; JavaScript stands under `code: |`, a call under `action: http.request`",
    ),
    key(&["script", "javascript", "function"], Some("code"), "JavaScript stands under `code: |`"),
    key(&["commands"], None, "there is no shell; call an action, such as `action: http.request`"),
    key(
        &["data", "params", "parameters", "inputs", "args", "arguments"],
        Some("with"),
        "the inputs of an action stand under `with`",
    ),
    key(&["alias"], Some("name"), "what people call it is `name`"),
    key(&["condition", "when", "runIf"], Some("if"), "a condition is `if`"),
    rewritten(&["unless"], "write `if: not (…)`", unless),
    key(&["choose"], None, "write `if` with `then` and `else`, or `switch` with `cases`"),
    key(&["delay", "sleep", "pause"], Some("wait"), "a pause is `wait`: `wait: 10s`"),
    key(
        &["wait_template"],
        None,
        "write `repeat: {until: …, max: 100, delay: 10s}` with the steps that look",
    ),
    key(&["wait_for_trigger"], None, "write `waitFor: {event: name}`"),
    key(&["sequence", "tasks", "do", "block"], Some("steps"), "a list of steps is `steps`"),
    key(&["foreach", "for_each"], Some("forEach"), "keys are written in camelCase: `forEach`"),
    key(
        &["matrix", "strategy"],
        None,
        "write `forEach` with the list, and `concurrency` for how many run side by side",
    ),
    key(&["while"], None, "write `repeat: {until: …, max: 100}` with `steps`; `until` holds when it ends"),
    key(&["until"], None, "write `repeat: {until: …, max: 100}` with `steps`"),
    key(&["depends_on", "dependsOn"], Some("needs"), "the steps it waits for stand under `needs`"),
    rewritten(&["continue-on-error"], "write `onError: continue`", continue_on_error),
    rewritten(&["continue_on_error"], "write `onError: continue`", continue_on_error),
    rewritten(&["allowFailure"], "write `onError: continue`", continue_on_error),
    rewritten(&["timeout-minutes"], "write `timeout: 10m`", minutes),
    key(&["retries"], Some("retry"), "further tries are `retry`: `retry: 3`"),
    key(&["variables"], Some("set"), "values are named with `set`"),
    key(
        &["env"],
        None,
        "values from outside are named once under `configVars`, which may read `${{ env.NAME }}`",
    ),
    key(
        &["outputs"],
        None,
        "what a step gives is `steps.<id>.results`; `outputs` of the file is the execution's result",
    ),
    key(
        &["event"],
        None,
        "`action: events.emit` with `with: {name: …}` sends an event, `waitFor: {event: …}` waits for one",
    ),
    key(
        &["elif"],
        None,
        "write `else: [{if: …, then: […]}]`: a step inside `else` with a condition of its own; or `switch`, for one value",
    ),
    key(
        &["elseif", "elsif"],
        None,
        "write `else: [{if: …, then: […]}]`: a step inside `else` with a condition of its own",
    ),
    key(
        &["try"],
        Some("steps"),
        "steps with `onError` in common stand under `steps`, with `onError` beside it",
    ),
    rewritten(&["log", "print", "echo"], "write `action: log.info` with `with: {message: …}`", log),
    rewritten(&["emit"], "write `action: events.emit` with `with: {name: …}`", emit),
    rewritten(&["return"], "write `stop: {result: …}`, which ends the execution with a result", stop),
    key(&["exit"], None, "write `stop: {}`, which ends the execution well, or `fail: why`"),
    key(&["throw", "raise"], Some("fail"), "write `fail: why`"),
    key(&["loop"], None, "write `forEach` with a list, or `repeat: {until: …, max: 100}`, with `steps`"),
    key(&["for"], None, "write `forEach` with a list, and `steps`; each item is `item`"),
    key(&["http", "request"], None, "write `action: http.request` with `with: {url: …}`"),
    rewritten(&["register"], "the result of a step is `steps.<id>.results`: give the step an `id`", register),
    rewritten(&["ignore_errors"], "write `onError: continue`", continue_on_error),
    key(&["failed_when"], None, "write a step after it: `if: …` with `fail: why`"),
    key(&["rescue", "catch"], Some("onError"), "the steps for a failure stand under `onError`"),
    key(&["always", "ensure"], Some("finally"), "the steps that run however it ends stand under `finally`"),
    key(
        &["onCancel"],
        None,
        "steps after a cancellation stand under `finally`, with `if: outcome.status == 'cancelled'`; `onCancel: true` is a key of `undo`",
    ),
    key(
        &["with_items"],
        Some("forEach"),
        "a list to go through is `forEach`, and the steps for each item stand under `steps`",
    ),
    key(&["loop_control"], None, "the name of the item is `as`"),
    key(&["notify"], None, "call another automation with `call: name`"),
    key(&["tags"], None, "`labels` of the file sort automations into groups"),
    key(&["become"], None, "a step runs no program; it calls an action"),
    key(&["compensate"], Some("undo"), "the steps that take it back stand under `undo`"),
];

/// In a trigger.
static TRIGGER: &[ForeignKey] = &[
    rewritten(&["cron"], "it stands under `schedule`: `schedule: {cron: \"*/5 * * * *\"}`", cron_of_trigger),
    key(&["type", "platform"], None, "the kind itself is the key: `trigger: {webhook: {}}`"),
    key(&["http"], Some("webhook"), "a request starts it with `webhook`"),
    key(&["workflow_dispatch"], Some("manual"), "a person starts it with `manual: {}`"),
    key(
        &["workflow_call"],
        Some("manual"),
        "another automation starts it with `manual: {}`; what it is given stands under `inputs`",
    ),
    key(&["time"], None, "it stands under `schedule`: `schedule: {daily: {at: \"08:30\"}}`"),
    key(&["condition"], Some("if"), "a condition is `if`"),
    key(&["conditions"], Some("if"), "a condition is `if`, with `and` and `or`"),
    key(
        &["id"],
        None,
        "the id of `trigger` is `main`; write `triggers: [{id: …}]` to give it another one, which changes its addresses",
    ),
];

/// In a retry.
static RETRY: &[ForeignKey] = &[
    key(
        &[
            "attempts",
            "maxAttempts",
            "max_attempts",
            "maxAttempt",
            "maxTries",
            "maxRetries",
            "retries",
            "count",
            "limit",
            "times",
        ],
        Some("max"),
        "how many tries follow the first is `max`",
    ),
    key(&["interval"], Some("delay"), "the wait before the first retry is `delay`"),
    key(&["wait"], Some("delay"), "the wait before the first retry is `delay`"),
    key(&["initialInterval"], Some("delay"), "the wait before the first retry is `delay`"),
    key(&["minTimeout"], Some("delay"), "the wait before the first retry is `delay`"),
    key(&["factor"], Some("backoff"), "what each further wait is multiplied by is `backoff`"),
    key(&["multiplier"], Some("backoff"), "what each further wait is multiplied by is `backoff`"),
    key(&["backoffCoefficient"], Some("backoff"), "what each further wait is multiplied by is `backoff`"),
    key(&["maxInterval"], Some("maxDelay"), "the longest wait is `maxDelay`"),
    key(&["maximumInterval"], Some("maxDelay"), "the longest wait is `maxDelay`"),
    key(&["maxTimeout"], Some("maxDelay"), "the longest wait is `maxDelay`"),
    key(&["type"], None, "waits grow by the number `backoff`: 1 keeps them the same, 2 doubles each"),
];

/// In the settings of a `repeat`.
static REPEAT: &[ForeignKey] = &[
    rewritten(
        &["while"],
        "write `until` with the opposite, which is looked at after each turn: `until: not (…)`",
        until_not,
    ),
    key(&["times", "count"], Some("max"), "how many turns there are is `max`"),
    key(&["limit"], Some("max"), "the most turns are `max`"),
    key(&["interval", "wait", "every"], Some("delay"), "the pause between turns is `delay`"),
    key(&["steps"], None, "`steps` stands beside `repeat`, not below it"),
    key(&["do"], None, "the steps of a turn stand under `steps`, beside `repeat`"),
];

/// In a `waitFor`.
static WAIT_FOR: &[ForeignKey] = &[
    key(&["timeout"], None, "`timeout` stands beside `waitFor`, not below it: it is a key of the step"),
    key(&["onTimeout"], None, "`onTimeout` stands beside `waitFor`, not below it: it is a key of the step"),
    key(&["name", "signal"], Some("event"), "the name of the event is `event`"),
    key(&["condition", "when"], Some("if"), "a condition is `if`"),
    key(&["until"], None, "to wait for an instant, write `wait: {until: …}`"),
];

/// In a webhook.
static WEBHOOK: &[ForeignKey] = &[
    rewritten(&["method"], "the methods are a list: `methods: [POST]`", methods),
    key(
        &["path"],
        None,
        "a webhook has an address of its own, which `cogwork list --addresses` shows; what follows it in a request is `trigger.results.pathFragment`",
    ),
    key(&["url"], None, "a webhook has an address of its own, which `cogwork list --addresses` shows"),
    key(&["endpoint"], None, "a webhook has an address of its own, which `cogwork list --addresses` shows"),
    key(
        &["secret"],
        None,
        "it stands under `verify`, with the kind of the check: `verify: {preset: hmac, secret: \"${{ secrets.name }}\"}`",
    ),
    key(
        &["token"],
        None,
        "it stands under `verify`, with the kind of the check: `verify: {preset: sharedToken, secret: \"${{ secrets.name }}\"}`",
    ),
    key(&["auth", "authentication"], None, "how requests are checked stands under `verify`"),
    key(&["response"], Some("respond"), "the response to the caller is `respond`"),
    key(&["async"], None, "write `mode: async`"),
];

/// In a schedule.
static SCHEDULE: &[ForeignKey] = &[
    key(&["interval", "period"], Some("every"), "a period is `every`: `every: 10m`"),
    key(&["expression"], Some("cron"), "a cron expression is `cron`"),
    key(&["time_zone", "tz"], Some("timezone"), "the zone of the times is `timezone`"),
    key(&["time", "at"], None, "a time of day is `daily: {at: \"08:30\"}`"),
    key(&["minutes"], None, "a period is `every: 10m`"),
    key(&["hours"], None, "a period is `every: 2h`"),
];

/// In a response.
static ANSWER: &[ForeignKey] = &[
    key(&["code", "statusCode", "status_code"], Some("status"), "the status of the answer is `status`"),
    key(&["content"], Some("body"), "the body of the answer is `body`, or `json` for a value as JSON"),
    key(&["data"], Some("json"), "a value as JSON is `json`, any other body is `body`"),
    key(&["text"], Some("body"), "the body of the answer is `body`"),
    key(&["type"], Some("contentType"), "the media type is `contentType`"),
];
