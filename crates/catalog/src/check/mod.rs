//! The one checker behind `validate`, the daemon and the API: a file against everything around it.

mod actions;
mod calls;
mod cases;
mod code;
mod masked;
mod references;
mod results;
mod retries;
mod secrets;
mod spelling;
mod value;

use std::sync::Arc;
use std::time::Duration;

use connector::Registry;
use model::automation::{Automation, Cadence, Named, ScheduleTrigger, Trigger};
use model::diagnostic::{Diagnostic, Report, Source};
use model::load::{Gaps, allow};
use model::{Connection, ResultType};
use trigger::schedule::{Schedule, ScheduleKey};

use crate::plan::Plan;

pub use actions::connection;
pub(crate) use calls::{Callee, Signature};
pub(crate) use results::saved_body;
pub(crate) use secrets::{missing_secrets, secrets_of};
pub use secrets::{secret_variable, where_to_set};
pub(crate) use spelling::{NameKind, fold, names};

/// What the checker makes of one Automation.
pub struct Verdict {
    pub(crate) plan: Plan,
    pub(crate) schedule: Option<Schedule>,
    /// Everything that there is to say of the file, what the loader said included.
    pub(crate) report: Report,
}

/// A spelling of a name.
pub(crate) struct Spelling {
    /// The name as it is written.
    pub(crate) name: Arc<str>,
    /// The file that writes it so.
    pub(crate) path: Arc<str>,
}

/// What the files around an Automation are.
pub(crate) struct Surroundings<'a> {
    /// The file itself.
    pub(crate) source: &'a Source,
    pub(crate) registry: &'a Registry,
    /// The connection of a name.
    pub(crate) connection: &'a dyn Fn(&str) -> Found,
    /// The Automation with an id.
    pub(crate) automation: &'a dyn Fn(&str) -> Callee,
    /// The way by calls from the Automation with an id to the one that is checked, both included, where there is one:
    /// then a call of it closes a circle. Without names where the way is too long to be told.
    pub(crate) way_here: &'a dyn Fn(&str) -> Option<Vec<Arc<str>>>,
    /// The path of a file of code that was probably meant by one that is not there.
    pub(crate) nearest_code: &'a dyn Fn(&str) -> Option<String>,
    /// How files of the project write a name, by its folded form.
    pub(crate) spellings: &'a dyn Fn(NameKind, &str) -> Vec<Spelling>,
    /// What the payloads that were saved for an Automation say of a webhook's body.
    pub(crate) saved_body: &'a dyn Fn(&Automation) -> Option<ResultType>,
}

/// A connection by its name.
pub(crate) enum Found {
    /// In force.
    Loaded(Arc<Connection>),
    /// Its file has errors, and no version of it is in force.
    Broken,
    /// There is no such file.
    Missing {
        /// The name of a connection that was probably meant.
        nearest: Option<String>,
    },
}

/// Checks an Automation against everything around it, also one of which not everything could be read: of what `gaps`
/// names nothing is said, and nothing twice that `said`, the report of its loading, says already.
pub(crate) fn automation(
    automation: &Automation,
    gaps: &Gaps,
    said: &Report,
    around: &Surroundings<'_>,
) -> Verdict {
    let (plan, mut diagnostics) = Plan::of_draft(automation, gaps);
    let schedule = match &automation.trigger {
        Trigger::Schedule(written) => schedule(written, &mut diagnostics),
        _ => None,
    };
    diagnostics.extend(actions::check(automation, gaps, around));
    diagnostics.extend(cases::check(automation));
    diagnostics.extend(masked::check(automation));
    diagnostics.extend(spelling::check(automation, around));
    diagnostics.extend(retries::check(automation, gaps, around.registry));
    diagnostics.extend(code::check(automation, gaps, around));
    diagnostics.extend(calls::check(automation, gaps, around));
    diagnostics.extend(references::check(automation, gaps, &plan, around.registry));
    diagnostics.extend(results::check(automation, gaps, around.registry, (around.saved_body)(automation)));
    let report = together(said, diagnostics);
    let report = if report.is_empty() { report } else { report.with_paths(&automation.step_paths()) };
    let report = allow(report);
    Verdict { plan, schedule, report }
}

/// A report with what was found after it. What stands where an error was told already follows from that error; and in a
/// file with errors nobody knows what is never read.
pub fn together(said: &Report, found: Vec<Diagnostic>) -> Report {
    let all = said.with(found.into_iter().filter(|diagnostic| !said.has_error_at(diagnostic.span)));
    if all.has_errors() { all.without("unused-value") } else { all }
}

/// The compiled schedule; else what is wrong with its cadence and with its zone.
fn schedule(written: &ScheduleTrigger, diagnostics: &mut Vec<Diagnostic>) -> Option<Schedule> {
    let error = match Schedule::compile(written) {
        Ok(schedule) => return Some(schedule),
        Err(error) => error,
    };
    let mut rest = written.clone();
    match error.key {
        ScheduleKey::Timezone => {
            rest.timezone = Named { name: "UTC".to_owned(), span: written.timezone.span };
        }
        ScheduleKey::Cadence => rest.cadence = Cadence::Every(Duration::from_secs(60)),
    }
    let other = Schedule::compile(&rest).err();
    diagnostics.extend([Some(error), other].iter().flatten().map(|error| schedule_problem(written, error)));
    None
}

fn schedule_problem(written: &ScheduleTrigger, error: &trigger::schedule::ScheduleError) -> Diagnostic {
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
pub fn builtin() -> Result<Registry, crate::Error> {
    Registry::builtin().map(crate::native::add).map_err(|reports| {
        let text: Vec<String> = reports.iter().map(|report| report.render(false)).collect();
        crate::Error::Connectors(text.join("\n"))
    })
}
