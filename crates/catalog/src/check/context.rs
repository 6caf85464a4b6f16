//! The project context of the checks of an automation, and the merge of their reports.

use std::sync::Arc;

use connector::Registry;
use model::automation::{DeclaredTrigger, TriggerId};
use model::described::DescribedStatements;
use model::{Connection, InputSpec, ResultType};
use text::diagnostic::{Diagnostic, Report, Source};

use super::calls::Callee;
use super::spelling::NameKind;
use super::stream::Taker;

/// One spelling of a name.
pub(crate) struct Spelling {
    /// The name as spelled there.
    pub(crate) name: Arc<str>,
    /// File that uses this spelling.
    pub(crate) path: Arc<str>,
}

/// A trigger that an own event starts.
pub(crate) struct Consumer {
    /// Path of its file.
    pub(crate) path: Arc<str>,
    pub(crate) trigger: TriggerId,
    /// The data that it declares; `None` if it takes any.
    pub(crate) data: Option<Vec<InputSpec>>,
}

/// Project context of the automation that is checked.
pub(crate) struct CheckContext<'a> {
    /// Source of the automation.
    pub(crate) source: &'a Source,
    pub(crate) registry: &'a Registry,
    /// Looks up a connection by name.
    pub(crate) connection: &'a dyn Fn(&str) -> ConnectionLookup,
    /// Looks up an automation by id.
    pub(crate) automation: &'a dyn Fn(&str) -> Callee,
    /// Returns the most similar label of the project, if there is one, for a label that no automation has; `None` if one has it.
    pub(crate) label: &'a dyn Fn(&str) -> Option<Option<String>>,
    /// Returns the call path from the automation with this id to the checked one, both included, if there is one: a
    /// call of it closes a cycle. The path is empty if it is too long to find.
    pub(crate) call_path: &'a dyn Fn(&str) -> Option<Vec<Arc<str>>>,
    /// Returns the nearest existing path for a missing code file.
    pub(crate) nearest_code: &'a dyn Fn(&str) -> Option<String>,
    /// Returns the project's spellings of a name, by its folded form.
    pub(crate) spellings: &'a dyn Fn(NameKind, &str) -> Vec<Spelling>,
    /// Returns the triggers that an own event starts, by path.
    pub(crate) consumers: &'a dyn Fn(&str) -> Vec<Consumer>,
    /// Returns the enabled triggers that take messages from a place at a broker, by path.
    pub(crate) takers: &'a dyn Fn(&str) -> Vec<Taker>,
    /// Returns the path of a file that sends an event by its name.
    pub(crate) sender: &'a dyn Fn(&str) -> Option<Arc<str>>,
    /// Returns true if a file sends an event, or events with computed names that may be this one.
    pub(crate) may_be_sent: &'a dyn Fn(&str) -> bool,
    /// Returns the most similar name among the events that files send.
    pub(crate) nearest_sent: &'a dyn Fn(&str) -> Option<String>,
    /// Infers the type of the body from payloads saved for a webhook.
    pub(crate) saved_body: &'a dyn Fn(&DeclaredTrigger) -> Option<ResultType>,
    /// Returns the statements of a connection with the types that its database states.
    pub(crate) described: &'a dyn Fn(&str) -> Option<Arc<DescribedStatements>>,
}

/// Result of looking up a connection.
pub(crate) enum ConnectionLookup {
    /// The connection is in force.
    Loaded(Arc<Connection>),
    /// The file has errors and no version is in force.
    Broken,
    /// There is no such file.
    Missing {
        /// Name of the most similar connection.
        nearest: Option<String>,
    },
}

/// Adds diagnostics to a report, except at positions that already have an error, since they follow from it. Drops
/// `unused-value` if there are errors, because unparsed parts may use the value.
pub fn merge(load_report: &Report, found: Vec<Diagnostic>) -> Report {
    // The check knows the type of an input, so its diagnostic about a number replaces that of the loader.
    let is_repeated =
        |told: &Diagnostic| found.iter().any(|other| other.code == told.code && other.span == told.span);
    let load_report = match load_report.diagnostics().iter().any(is_repeated) {
        true => &load_report.clone().retain(|told| !is_repeated(told)),
        false => load_report,
    };
    let all =
        load_report.with(found.into_iter().filter(|diagnostic| !load_report.has_error_at(diagnostic.span)));
    if all.has_errors() { all.without("unused-value") } else { all }
}
