//! The one checker behind `validate`, the daemon and the API: a file against everything around it.

mod actions;
mod references;

use std::sync::Arc;

use connector::Registry;
use model::Connection;
use model::automation::{Automation, Trigger};
use model::diagnostic::{Diagnostic, Report};
use trigger::schedule::{Schedule, ScheduleKey};

use crate::plan::Plan;

pub(crate) use actions::connection;

/// What the checker makes of one Automation.
pub(crate) struct Verdict {
    pub(crate) plan: Plan,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) report: Report,
}

/// Checks an Automation against the connectors and connections around it.
pub(crate) fn automation(
    automation: &Automation,
    registry: &Registry,
    connection: &dyn Fn(&str) -> Option<Arc<Connection>>,
) -> Verdict {
    let (plan, mut diagnostics) = Plan::build(automation);
    let schedule = match &automation.trigger {
        Trigger::Schedule(written) => match Schedule::compile(written) {
            Ok(schedule) => Some(schedule),
            Err(error) => {
                diagnostics.push(schedule_problem(written, &error));
                None
            }
        },
        Trigger::Webhook(_) | Trigger::Manual => None,
    };
    diagnostics.extend(actions::check(automation, registry, connection));
    if !diagnostics.iter().any(|diagnostic| diagnostic.code == "needs-cycle") {
        // Ancestors mean nothing on a circle.
        diagnostics.extend(references::check(automation, &plan));
    }
    Verdict { plan, schedule, report: Report::new(automation.source.clone(), diagnostics) }
}

fn schedule_problem(
    written: &model::automation::ScheduleTrigger,
    error: &trigger::schedule::ScheduleError,
) -> Diagnostic {
    let span = match error.key {
        ScheduleKey::Timezone => written.timezone.span,
        ScheduleKey::Cadence => written.cadence_span,
    };
    let mut diagnostic = Diagnostic::error("bad-schedule", error.message.as_str(), span);
    if let Some(help) = error.help.as_ref().or(error.allowed.as_ref()) {
        diagnostic = diagnostic.help(help.as_str());
    }
    diagnostic
}

/// The connectors that come with Cogwork.
pub(crate) fn builtin() -> Result<Registry, crate::Error> {
    Registry::builtin().map_err(|reports| {
        let text: Vec<String> = reports.iter().map(|report| report.render(false)).collect();
        crate::Error::Connectors(text.join("\n"))
    })
}
