//! The rules of the loader, by subject.

mod codes;
mod computed;
pub(crate) mod corpus;
mod flow;
mod intake;
mod lint;
mod lowering;
mod properties;
mod steps;
mod templates;
mod texts;
mod top;
mod triggers;

use std::sync::Arc;

use model::automation::Automation;
use text::diagnostic::{DiagnosticEntry, Source};

use super::Loaded;

/// Loads a text as the file `test.yaml`.
pub(crate) fn load(text: &str) -> Loaded<Automation> {
    super::automation(Arc::new(Source::new("test.yaml", text)), "test")
}

/// The Automation of a text without errors.
#[track_caller]
fn good(text: &str) -> Automation {
    let loaded = load(text);
    let shown = loaded.report.render(false);
    loaded.value.unwrap_or_else(|| panic!("{text}\n{shown}"))
}

/// The diagnostics of a text as `code line:column`, in the order of their spans.
fn said(text: &str) -> Vec<String> {
    entries(text).iter().map(|entry| format!("{} {}:{}", entry.code, entry.line, entry.column)).collect()
}

/// The diagnostics of a text without those that every webhook gets.
fn entries(text: &str) -> Vec<DiagnosticEntry> {
    let entries = load(text).report.entries().into_iter();
    entries.filter(|entry| entry.code != "unverified-webhook").collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(said(text), expected, "\n{text}\n{}", shown(text));
}

/// The whole of what a person is shown.
fn shown(text: &str) -> String {
    load(text).report.render(false)
}

/// The diagnostics of steps, with positions relative to the first step.
#[track_caller]
fn check_steps(steps: &str, expected: &[&str]) {
    check_with("manual: {}", steps, expected);
}

/// As [`check_steps`], for another trigger.
#[track_caller]
fn check_with(trigger: &str, steps: &str, expected: &[&str]) {
    let text = format!("trigger: {{{trigger}}}\nsteps:\n{steps}");
    let found: Vec<String> = entries(&text)
        .iter()
        .map(|entry| format!("{} {}:{}", entry.code, entry.line.saturating_sub(2), entry.column))
        .collect();
    assert_eq!(found, expected, "\n{text}\n{}", shown(&text));
}

/// The diagnostics of one step, given as its lines.
#[track_caller]
fn check_step(step: &str, expected: &[&str]) {
    let indented: String = step
        .lines()
        .enumerate()
        .map(|(at, line)| format!("{}{line}\n", if at == 0 { "- " } else { "  " }))
        .collect();
    check_steps(&indented, expected);
}
