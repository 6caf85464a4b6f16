//! Checker shared by `validate`, the daemon and the API: checks a file against the rest of the project.

mod actions;
mod calls;
mod cases;
mod code;
mod conditional;
mod connections;
mod context;
pub(crate) mod defaults;
mod engine_events;
mod environment;
mod error_kinds;
mod events;
mod input_value;
mod limits;
mod loose_filters;
mod masked;
mod members;
mod own_event;
mod references;
mod results;
mod retries;
mod secret_key;
mod secrets;
mod server;
mod spelling;
mod started_by;
mod state_use;
mod stream;
mod trigger_inputs;
mod until;

use std::time::Duration;

use connector::Registry;
use language::load::{Unreadable, apply_allow_comments};
use model::ResultType;
use model::automation::{ActionStep, Automation, Cadence, ScheduleTrigger, SpannedName, Trigger};
use text::diagnostic::{Diagnostic, Report, Source, Span};
use trigger::schedule::{Schedule, ScheduleKey};

use crate::plan::Plan;

pub(crate) use calls::{Callee, Signature};
pub use connections::connection;
pub use context::merge;
pub(crate) use context::{CheckContext, ConnectionLookup, Consumer, Spelling};
pub use environment::is_own_variable;
pub use members::{Member, describe_type, members, possible_texts};
pub(crate) use own_event::{connector_of, possible_event, sent_event};
pub(crate) use results::saved_body;
pub use secrets::{MissingSecret, how_to_set_secret, secret_variable};
pub(crate) use secrets::{missing_secrets, missing_secrets_of, required_secrets, secret_fields, secrets_of};
pub(crate) use spelling::{NameKind, fold, names};
pub(crate) use stream::{Taker, message_place, takers};

/// Check result of one automation.
pub(crate) struct CheckedAutomation {
    pub(crate) plan: Plan,
    /// The schedules of its triggers, in their order; `None` for other triggers.
    pub(crate) schedules: Vec<Option<Schedule>>,
    /// All problems of the file, including those the loader reported.
    pub(crate) report: Report,
}

/// Checks an automation against its project. Parts listed in `unreadable` could not be parsed and are skipped; problems
/// already in `load_report`, the loader's report, are not repeated.
pub(crate) fn automation(
    automation: &Automation,
    unreadable: &Unreadable,
    load_report: &Report,
    context: &CheckContext<'_>,
) -> CheckedAutomation {
    let (plan, mut diagnostics) = Plan::build_partial(automation, unreadable);
    let schedules = automation.triggers.iter().map(|trigger| match &trigger.on {
        Trigger::Schedule(trigger) => schedule(&automation.source, trigger, &mut diagnostics),
        _ => None,
    });
    let schedules = schedules.collect();
    diagnostics.extend(trigger_inputs::check(automation, unreadable));
    diagnostics.extend(actions::check(automation, unreadable, context));
    diagnostics.extend(events::check(automation, unreadable, context));
    if let Some(declared) = &automation.declared_defaults {
        diagnostics.extend(defaults::check(declared, context.connection));
        if unreadable.is_empty() {
            let (path, taken) = (automation.source.path(), automation.defaults.as_deref());
            diagnostics.extend(defaults::unused(declared, path, "this file", taken));
        }
    }
    diagnostics.extend(masked::check(automation));
    diagnostics.extend(secret_key::check(automation));
    diagnostics.extend(spelling::check(automation, context));
    diagnostics.extend(retries::check(automation, unreadable, context.registry));
    diagnostics.extend(state_use::check(automation));
    diagnostics.extend(loose_filters::check(automation));
    diagnostics.extend(code::check(automation, unreadable, context));
    diagnostics.extend(calls::check(automation, unreadable, context));
    diagnostics.extend(references::check(automation, unreadable, &plan, context.registry));
    diagnostics.extend(results::check(
        automation,
        unreadable,
        context.registry,
        results::Surroundings {
            saved: context.saved_body,
            described: &|call| described_results(call, context),
            consumers: context.consumers,
            spellings: context.spellings,
            called: &|id| match (context.automation)(id) {
                Callee::Defined { signature, .. } => signature.results,
                Callee::Missing { .. } => None,
            },
        },
    ));
    diagnostics.extend(limits::check(automation, unreadable, context.registry));
    diagnostics.extend(conditional::check(automation));
    diagnostics.extend(until::check(automation, unreadable));
    let report = merge(load_report, diagnostics);
    let report = if report.is_empty() { report } else { report.with_paths(&automation.step_paths()) };
    let report = apply_allow_comments(report);
    CheckedAutomation { plan, schedules, report }
}

/// Returns the type of the results of a call whose statements are described.
fn described_results(call: &ActionStep, context: &CheckContext<'_>) -> Option<ResultType> {
    let [connection] = call.connection.as_ref()?.candidates() else { return None };
    let described = (context.described)(&connection.name)?;
    let action = context.registry.action(&call.action.name)?;
    actions::static_inputs(call, context, |inputs| {
        action.described_results(inputs, &|sql| described.statements.get(sql))
    })
}

/// Compiles the schedule, or reports errors in its cadence and time zone.
fn schedule(
    source: &Source,
    trigger: &ScheduleTrigger,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Schedule> {
    let error = match Schedule::compile(trigger) {
        Ok(schedule) => return Some(schedule),
        Err(error) => error,
    };
    let mut corrected = trigger.clone();
    match error.key {
        ScheduleKey::Timezone => {
            corrected.timezone = SpannedName { name: "UTC".to_owned(), span: trigger.timezone.span };
        }
        ScheduleKey::Cadence => corrected.cadence = Cadence::Every(Duration::from_secs(60)),
    }
    let other = Schedule::compile(&corrected).err();
    diagnostics
        .extend([Some(error), other].iter().flatten().map(|error| schedule_problem(source, trigger, error)));
    None
}

fn schedule_problem(
    source: &Source,
    trigger: &ScheduleTrigger,
    error: &trigger::schedule::ScheduleError,
) -> Diagnostic {
    let span = match error.key {
        ScheduleKey::Timezone => trigger.timezone.span,
        ScheduleKey::Cadence => trigger.cadence_span,
    };
    let mut diagnostic = Diagnostic::error("bad-schedule", error.message.as_str(), span);
    if let Some(help) = error.help.as_ref().or(error.allowed.as_ref()) {
        diagnostic = diagnostic.help(help.as_str());
    }
    diagnostic.replacement(correction(source, error, span))
}

/// The place of the correction of a schedule, which is the whole value or the part that is wrong, and its text.
fn correction(
    source: &Source,
    error: &trigger::schedule::ScheduleError,
    span: Span,
) -> Option<(Span, String)> {
    let (wrong, meant) = error.replacement.as_ref()?;
    let quotes = usize::from(source.slice(span).starts_with(['"', '\'']));
    let inner = Span::new(span.start as usize + quotes, (span.end as usize).saturating_sub(quotes));
    let part = error
        .range
        .as_ref()
        .map(|range| Span::new(inner.start as usize + range.start, inner.start as usize + range.end));
    let part = [Some(inner), part].into_iter().flatten().find(|part| source.slice(*part) == wrong)?;
    text::yaml::replace_at(source, part, meant)
}

/// Loads the connectors that come with Cogwork.
pub fn builtin() -> Result<Registry, crate::error::Error> {
    let registry =
        Registry::builtin().and_then(|registry| systems::register(registry).map_err(|report| vec![*report]));
    registry.map(crate::native::add).map_err(|reports| {
        let text: Vec<String> = reports.iter().map(|report| report.render(false)).collect();
        crate::error::Error::Connectors(text.join("\n"))
    })
}
