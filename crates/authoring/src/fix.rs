//! Applies the fixes of diagnostics to a text until none is left.

use text::diagnostic::Report;

/// The maximum number of rounds of checking and fixing. A fix may reveal further problems, each of which may have a fix.
const MAX_ROUNDS: usize = 20;

/// Result of applying fixes.
#[derive(Debug)]
pub struct FixedText {
    /// The text with all fixes applied.
    pub text: String,
    /// The number of applied fixes.
    pub fixes: usize,
    /// The report of the fixed text.
    pub report: Report,
}

/// Applies the fixes of errors and warnings to a text, and checks the result with `check` until there is no further fix.
///
/// Fixes that overlap are applied one after another, in different rounds. The rounds end when a text comes up again.
pub fn fix_text(text: &str, check: impl Fn(&str) -> Report) -> FixedText {
    let mut report = check(text);
    let mut seen = vec![text.to_owned()];
    let mut fixes = 0;
    for _ in 0..MAX_ROUNDS {
        let Some((fixed, applied)) = report.apply_fixes() else { break };
        if seen.contains(&fixed) {
            break;
        }
        report = check(&fixed);
        fixes += applied;
        seen.push(fixed);
    }
    FixedText { text: seen.pop().unwrap_or_default(), fixes, report }
}
