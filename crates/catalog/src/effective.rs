//! The settings of a step as they are in force, each with the place that it comes from.

use std::fmt;

use model::automation::setting::in_braces;
use model::automation::{Automation, Origin, RetryRule, Step, StepRetry, Verb};
use model::project::PROJECT_FILE;
use model::retry::{RetryOn, RetryPolicy};
use serde::Serialize;
use text::units::format_duration;
use utoipa::ToSchema;

/// A setting of a step that a default can give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct EffectiveSetting {
    /// `connection`, `retry` or `timeout`.
    pub key: &'static str,
    /// The value as text: `3`, `30s`, `none`.
    pub value: String,
    /// Where it comes from.
    pub from: SettingSource,
    /// The path and the line of a default: `project.yaml:2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// The source of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum SettingSource {
    /// The step itself.
    Step,
    /// `defaults` of its file.
    File,
    /// `defaults` of `project.yaml`.
    Project,
    /// The language.
    BuiltIn,
}

impl fmt::Display for EffectiveSetting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}, ", self.key, self.value)?;
        match (&self.place, self.from) {
            (Some(place), _) => write!(formatter, "from {place}"),
            (None, SettingSource::BuiltIn) => formatter.write_str("built in"),
            (None, _) => formatter.write_str("from the step"),
        }
    }
}

/// Returns the settings of an `action` or `call` step that a default can give; empty for other steps. `automation` must contain the
/// step.
#[must_use]
pub fn effective_settings(automation: &Automation, step: &Step) -> Vec<EffectiveSetting> {
    let (defaults, taken) = (automation.defaults.as_deref(), step.taken);
    let retry = step.retry.as_deref().map(|retry| describe_retries(retry, &step.verb));
    let retry_origin = defaults.filter(|_| taken.retry).and_then(|all| Some(&all.retry.as_ref()?.origin));
    let retry = setting("retry", retry, "0", retry_origin);
    let call = match &step.verb {
        Verb::Action(call) => call,
        Verb::Call(_) => return vec![retry],
        _ => return Vec::new(),
    };
    let origin = defaults
        .filter(|_| taken.connection)
        .and_then(|all| Some(&all.connections.get(&call.action.name)?.origin));
    let named = call.connection.as_ref().map(|connection| match connection.selection() {
        Some(selection) => format!("{}: {connection}", in_braces(&selection.name)),
        None => connection.to_string(),
    });
    let connection = named.or_else(|| call.refuses_default.then(|| "none".to_owned()));
    let timeout_origin =
        defaults.filter(|_| taken.timeout).and_then(|all| Some(&all.timeout.as_ref()?.origin));
    let timeout = step.timeout.as_ref().map(|timeout| timeout.describe(format_duration));
    vec![
        setting("connection", connection, "none", origin),
        retry,
        setting("timeout", timeout, "none", timeout_origin),
    ]
}

fn setting(
    key: &'static str,
    value: Option<String>,
    built_in: &str,
    origin: Option<&Origin>,
) -> EffectiveSetting {
    let from = match (&value, origin) {
        (_, Some(origin)) if origin.path == PROJECT_FILE => SettingSource::Project,
        (_, Some(_)) => SettingSource::File,
        (Some(_), None) => SettingSource::Step,
        (None, None) => SettingSource::BuiltIn,
    };
    let place = origin.map(|Origin { path, line }| format!("{path}:{line}"));
    EffectiveSetting { key, value: value.unwrap_or_else(|| built_in.to_owned()), from, place }
}

/// Returns the policies as their author would write them.
fn describe_retries(retry: &StepRetry, verb: &Verb) -> String {
    let rules: Vec<String> = retry.rules.iter().map(|rule| describe_retry(rule, verb)).collect();
    match rules.as_slice() {
        [only] if !retry.is_list => only.clone(),
        rules => format!("[{}]", rules.join(", ")),
    }
}

/// Returns a policy as its author would write it: the number alone if the rest is built in.
fn describe_retry(rule: &RetryRule, verb: &Verb) -> String {
    let policy = &rule.policy;
    let computed = policy.computed.as_deref();
    let max = computed.and_then(|computed| computed.max.as_ref());
    let max = max.map_or_else(|| policy.max.to_string(), in_braces);
    let computed_delay = computed.and_then(|computed| computed.delay.as_ref());
    let mut usual = RetryPolicy::times(policy.max);
    if !matches!(verb, Verb::Action(_)) {
        usual.on = vec![RetryOn::All];
    }
    if rule.condition.is_none() && (*policy == usual || policy.max == 0) {
        return max;
    }
    let mut parts = vec![format!("max: {max}")];
    if let Some(delay) = computed_delay {
        parts.push(format!("delay: {}", in_braces(delay)));
    } else if policy.delay != usual.delay {
        parts.push(format!("delay: {}", format_duration(policy.delay)));
    }
    if (policy.backoff - usual.backoff).abs() > f64::EPSILON {
        parts.push(format!("backoff: {}", policy.backoff));
    }
    if policy.max_delay != usual.max_delay {
        parts.push(format!("maxDelay: {}", format_duration(policy.max_delay)));
    }
    if let Some(condition) = &rule.condition {
        parts.push(format!("if: {}", condition.text()));
    } else if policy.on != usual.on {
        let names = policy.on.iter().filter_map(|class| serde_json::to_value(class).ok());
        let names: Vec<String> = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        parts.push(format!("on: [{}]", names.join(", ")));
    }
    format!("{{{}}}", parts.join(", "))
}
