//! What expressions read against what exists where they stand.

use model::automation::Automation;
use model::diagnostic::Diagnostic;

use crate::plan::Plan;

/// Checks every expression of the file.
pub(crate) fn check(automation: &Automation, plan: &Plan) -> Vec<Diagnostic> {
    let _ = (automation, plan);
    Vec::new()
}
