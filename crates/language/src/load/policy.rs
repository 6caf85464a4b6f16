//! Retry and limit policies: `retry`, `concurrency`, `retention`, `timeout`.

use std::time::Duration;

use expression::{Expression, Template};
use model::automation::setting;
use model::automation::{Concurrency, ConcurrencyPolicy, Retention, RetryRule, Setting, StepRetry};
use model::retry::{ComputedRetry, RetryOn, RetryPolicy};
use text::diagnostic::{Diagnostic, Diagnostics};
use text::units::format_duration;
use text::yaml::{Field, Kind, MapReader, Node};

use super::common::duration_within;
use super::computed::{count, duration};
use super::keys::{Choice, Key, Object, Shape};
use super::template::{condition, template};

/// The maximum number of retries of a step or an execution.
pub(crate) const MAX_RETRIES: i64 = setting::RETRY_MAX.most;
/// The maximum backoff multiplier.
const MAX_BACKOFF: f64 = 10.0;
/// The maximum number of concurrent executions of `concurrency`.
const MAX_LIMIT: i64 = setting::CONCURRENCY_LIMIT.most;
/// The maximum retention of finished executions: ten years.
const MAX_DAYS: i64 = 3650;
/// The maximum number of finished executions that `count` can keep: they are counted at each pruning.
const MAX_KEPT: i64 = 1_000_000;

const RETRY_ON: [(&str, RetryOn); 4] = [
    ("network", RetryOn::Network),
    ("5xx", RetryOn::ServerError),
    ("429", RetryOn::TooManyRequests),
    ("all", RetryOn::All),
];

const POLICIES: [(&str, ConcurrencyPolicy); 3] = [
    ("queue", ConcurrencyPolicy::Queue),
    ("skip", ConcurrencyPolicy::Skip),
    ("cancelRunning", ConcurrencyPolicy::CancelRunning),
];

const MAX: Key =
    Key::required("max", Shape::Integer(0, MAX_RETRIES), "The number of tries after the first one.");
const DELAY: Key = Key::new("delay", Shape::Duration, "The delay before the first retry. Default: 1s.");
const COMPUTED_MAX: Key =
    Key { shape: Shape::AnyOf(&[Shape::Integer(0, MAX_RETRIES), Shape::WrappedExpression]), ..MAX };
const COMPUTED_DELAY: Key =
    Key { shape: Shape::AnyOf(&[Shape::Duration, Shape::WrappedExpression]), ..DELAY };
const ON: Key = Key::new(
    "on",
    Shape::OneOrMore(&Shape::AnyOf(&[
        Shape::Enum(&["network", "5xx", "429", "all"]),
        Shape::Integer(429, 429),
    ])),
    "The errors that are tried again: no answer (network), answers of 500 to 599 (5xx), answers of 429, or all. \
     Default: [network, 5xx, 429] of an action, all of any other step.",
);
const BACKOFF: Key = Key::new(
    "backoff",
    Shape::Number(1.0, MAX_BACKOFF),
    "The factor of each further delay; 1 keeps it constant. Default: 2.",
);
const LONGEST: Key = Key::new("maxDelay", Shape::Duration, "The longest delay. Default: 60s.");

/// `retry` of a step.
pub(super) static STEP_RETRY: Object = Object {
    what: "a retry",
    keys: &[
        COMPUTED_MAX,
        COMPUTED_DELAY,
        BACKOFF,
        LONGEST,
        ON,
        Key::new(
            "if",
            Shape::Expression,
            "In place of `on`: a condition over `error`, without `${{ }}`. It is tried again if it is true.",
        ),
    ],
    choice: Choice::AtMostOne(&["on", "if"]),
};

/// `retry` of `defaults`.
pub(super) static DEFAULT_RETRY: Object =
    Object { what: "a retry", keys: &[MAX, DELAY, BACKOFF, LONGEST, ON], choice: Choice::Any };

/// `retry` of a whole execution.
pub(super) static EXECUTION_RETRY: Object =
    Object { what: "a retry", keys: &[MAX, DELAY, BACKOFF, LONGEST], choice: Choice::Any };

pub(super) static CONCURRENCY: Object = Object {
    what: "a concurrency",
    keys: &[
        Key::required(
            "limit",
            Shape::AnyOf(&[Shape::Integer(1, MAX_LIMIT), Shape::WrappedExpression]),
            "How many executions may run at the same time. An expression is evaluated for each execution, before its first step.",
        ),
        Key::new(
            "key",
            Shape::Template,
            "Executions with different keys do not count against each other's limit: `${{ trigger.results.body.data.customer }}`.",
        ),
        Key::new(
            "policy",
            Shape::Enum(&["queue", "skip", "cancelRunning"]),
            "An execution over the limit waits (queue), ends as cancelled (skip), or replaces the oldest one (cancelRunning). Default: queue, and skip for a synchronous webhook.",
        ),
    ],
    choice: Choice::Any,
};

pub(super) static RETENTION: Object = Object {
    what: "a retention",
    keys: &[
        Key::new(
            "days",
            Shape::Integer(1, MAX_DAYS),
            "How many days a finished execution is kept. Default: the daemon's, 14.",
        ),
        Key::new(
            "failedDays",
            Shape::Integer(1, MAX_DAYS),
            "How many days executions that failed, were cancelled or are stuck are kept. Default: days.",
        ),
        Key::new(
            "keepFailed",
            Shape::Bool,
            "`true`: executions that failed, were cancelled or are stuck are kept forever. Default: false.",
        ),
        Key::new(
            "count",
            Shape::Integer(1, MAX_KEPT),
            "The largest number of finished executions that are kept, the newest ones: this many successful ones, and this many others. \
             Default: any number.",
        ),
    ],
    choice: Choice::Any,
};

/// The retry of a step: a number of attempts, a policy, or a list of policies. `usual` are the errors of a policy that names none.
pub(super) fn step_retry(
    field: Field<'_, '_>,
    usual: impl Fn() -> Option<Vec<RetryOn>>,
    diagnostics: &Diagnostics,
) -> Option<StepRetry> {
    let node = field.node()?;
    let rule = |field: Field<'_, '_>| {
        let node = field.node();
        let mut policy = retry(field, &STEP_RETRY, diagnostics);
        let condition = node.and_then(|node| condition(node.get("if")?, "if", diagnostics));
        if condition.is_some() {
            policy.on = vec![RetryOn::All];
        } else if node.is_none_or(|node| node.get("on").is_none()) {
            policy.on = usual().unwrap_or(policy.on);
        }
        RetryRule { policy, condition }
    };
    let Some(items) = node.as_list() else {
        return Some(StepRetry { rules: vec![rule(field)], is_list: false });
    };
    if items.is_empty() || items.len() > StepRetry::MAX_RULES {
        let (code, message) = match items {
            [] => ("empty-list", "`retry` has no policies".to_owned()),
            items => (
                "out-of-range",
                format!("`retry` has {} policies, at most {} are allowed", items.len(), StepRetry::MAX_RULES),
            ),
        };
        field.error(code, message);
        return Some(RetryPolicy::none().into());
    }
    let rules: Vec<RetryRule> = items
        .iter()
        .map(|item| {
            let field = Field::new(item, "retry", diagnostics);
            if item.as_map().is_none() {
                let message =
                    format!("expected a mapping in the list of `retry`, found {}", item.kind_name());
                field.error("wrong-type", message);
                return RetryRule { policy: RetryPolicy::none(), condition: None };
            }
            rule(field)
        })
        .collect();
    let retry = StepRetry { rules, is_list: true };
    if let Some(tries) = retry.excess() {
        field.error("out-of-range", StepRetry::excess_message(tries));
    }
    Some(retry)
}

/// A retry: a number of attempts, or a mapping of `object`.
pub(super) fn retry(field: Field<'_, '_>, object: &'static Object, diagnostics: &Diagnostics) -> RetryPolicy {
    let Some(node) = field.node() else { return RetryPolicy::none() };
    match &node.kind {
        Kind::Integer(_) | Kind::Unsigned(_) => {
            RetryPolicy::times(field.integer(0..=MAX_RETRIES).map_or(0, small))
        }
        Kind::Map(_) => {
            let Some(mut reader) = object.open(node, diagnostics) else { return RetryPolicy::none() };
            let policy = retry_map(&mut reader, object, diagnostics);
            reader.finish();
            policy
        }
        _ => {
            let message = format!("expected a number or a mapping for `retry`, found {}", node.kind_name());
            let help = match node.as_str() {
                Some(text) if text.contains("${{") => {
                    format!("only `max` and `delay` of a step's retry can be computed: `retry: {{max: \"{text}\"}}`")
                }
                _ => "write the number of tries after the first, like `retry: 3`, or `retry: {max: 3, delay: 2s}`".to_owned(),
            };
            diagnostics.push(Diagnostic::error("wrong-type", message, node.head()).help(help));
            RetryPolicy::none()
        }
    }
}

fn retry_map(
    reader: &mut MapReader<'_, '_>,
    object: &'static Object,
    diagnostics: &Diagnostics,
) -> RetryPolicy {
    let mut policy = tries_and_delay(reader, object, diagnostics);
    let waits = setting::RETRY_DELAY.range();
    let backoff = reader.take("backoff");
    if let Some(factor) = backoff.number() {
        if (1.0..=MAX_BACKOFF).contains(&factor) {
            policy.backoff = factor;
        } else {
            let message = format!("`backoff` must be from 1 to {MAX_BACKOFF}, found {factor}");
            backoff.error("out-of-range", message);
        }
    }
    let longest = reader.take("maxDelay");
    match duration_within(longest, "maxDelay", &waits, diagnostics) {
        Some(given) if given < policy.delay => {
            let [given, delay] = [given, policy.delay].map(format_duration);
            longest.error("out-of-range", format!("`maxDelay` ({given}) is shorter than `delay` ({delay})"));
        }
        Some(given) => policy.max_delay = given,
        None => policy.max_delay = policy.max_delay.max(policy.delay),
    }
    if object.keys.iter().any(|key| key.name == "if") {
        // The caller reads it.
        reader.take("if");
    }
    let takes_on = object.keys.iter().any(|key| key.name == "on");
    if takes_on && let Some(on) = reader.take("on").one_or_more() {
        policy.on = classes(&on, diagnostics);
        if on.is_empty() {
            reader.take("on").error("empty-list", "`on` names no errors, so nothing would be tried again");
        }
    }
    policy
}

/// The policy with its number of retries and its first delay, which `retry` of a step may compute.
fn tries_and_delay(
    reader: &mut MapReader<'_, '_>,
    object: &'static Object,
    diagnostics: &Diagnostics,
) -> RetryPolicy {
    let (max, delay) = (reader.take("max"), reader.take("delay"));
    let (max, delay) = if std::ptr::eq(object, &STEP_RETRY) {
        (count(max, &setting::RETRY_MAX, diagnostics), duration(delay, &setting::RETRY_DELAY, diagnostics))
    } else {
        let max = max.integer(setting::RETRY_MAX.range()).map(small);
        let delay = duration_within(delay, "delay", &setting::RETRY_DELAY.range(), diagnostics);
        (max.map(Setting::Literal), delay.map(Setting::Literal))
    };
    let mut policy = RetryPolicy::times(max.as_ref().and_then(Setting::literal).unwrap_or(0));
    policy.delay = delay.as_ref().and_then(Setting::literal).unwrap_or(policy.delay);
    let [max, delay] =
        [max.as_ref().and_then(Setting::expression), delay.as_ref().and_then(Setting::expression)]
            .map(Option::<&Expression>::cloned);
    if max.is_some() {
        policy.max = u32::try_from(MAX_RETRIES).unwrap_or(u32::MAX);
    }
    if delay.is_some() {
        policy.delay = Duration::ZERO;
    }
    if max.is_some() || delay.is_some() {
        let caps_delay = reader.has("maxDelay");
        policy.computed = Some(Box::new(ComputedRetry { max, delay, caps_delay }));
    }
    policy
}

/// The error classes; `429` may be written as a number.
fn classes(items: &[Field<'_, '_>], diagnostics: &Diagnostics) -> Vec<RetryOn> {
    let mut found = Vec::new();
    for item in items {
        let number = item.node().and_then(Node::as_integer);
        let class = if number == Some(429) { Some(RetryOn::TooManyRequests) } else { item.one_of(&RETRY_ON) };
        match class {
            Some(class) if found.contains(&class) => {
                let span = item.span().unwrap_or_default();
                diagnostics.push(Diagnostic::warning("duplicate-value", "this class is named twice", span));
            }
            class => found.extend(class),
        }
    }
    found
}

/// Reads the key of a concurrency. A text without an expression has a warning of its own.
fn concurrency_key(node: &Node, diagnostics: &Diagnostics) -> Template {
    let key = template(node, diagnostics);
    if key.literal().is_some_and(|key| key.as_str().is_none()) {
        let message = "`key` is the same for all executions, so it has no effect";
        let help = "write an expression, like `${{ inputs.customer }}`, or remove it";
        diagnostics.push(Diagnostic::warning("unused-setting", message, node.head()).help(help));
    }
    key
}

pub(super) fn concurrency(
    field: Field<'_, '_>,
    waits_for_answer: bool,
    diagnostics: &Diagnostics,
) -> Option<Concurrency> {
    let mut reader = CONCURRENCY.open(field.node()?, diagnostics)?;
    let limit = count(reader.take("limit"), &setting::CONCURRENCY_LIMIT, diagnostics);
    let key = reader.take("key").node().map(|node| concurrency_key(node, diagnostics));
    let policy = reader.take("policy");
    let given = policy.one_of(&POLICIES);
    if waits_for_answer && given == Some(ConcurrencyPolicy::Queue) {
        let diagnostic = Diagnostic::error(
            "sync-queue",
            "executions of a synchronous webhook cannot queue, because their callers wait",
            policy.span().unwrap_or_default(),
        );
        diagnostics.push(diagnostic.help("take `skip`: one over the limit is answered with 429"));
    }
    reader.finish();
    let usual = if waits_for_answer { ConcurrencyPolicy::Skip } else { ConcurrencyPolicy::Queue };
    Some(Concurrency { limit: limit?, key, policy: given.unwrap_or(usual) })
}

pub(super) fn retention(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Retention> {
    let mut reader = RETENTION.open(field.node()?, diagnostics)?;
    let days = reader.take("days").integer(1..=MAX_DAYS);
    let failed_days = reader.take("failedDays").integer(1..=MAX_DAYS);
    let keep_failed = reader.take("keepFailed").bool();
    let count = reader.take("count").integer(1..=MAX_KEPT);
    if keep_failed == Some(true) && failed_days.is_some() {
        let message = "`failedDays` says how long, `keepFailed` that it is for ever";
        let span = reader.key_span("keepFailed");
        diagnostics.push(Diagnostic::error("conflicting-keys", message, span).help("remove one of the two"));
    }
    reader.finish();
    Some(Retention {
        days: days.map(small),
        failed_days: failed_days.map(small),
        keep_failed,
        count: count.map(small),
    })
}

/// A timeout; must be greater than zero.
pub(super) fn timeout(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Duration> {
    duration_within(field, "timeout", &setting::TIMEOUT.range(), diagnostics)
}

/// A number whose range was checked.
pub(super) fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
