//! Checks code: its syntax, its exported function, and the step results and state keys it reads.

use language::load::Unreadable;
use model::automation::{Automation, Code};
use script::{ModuleInfo, Position, Reference};
use text::diagnostic::{Diagnostic, Severity, Span};

use super::context::CheckContext;
use crate::code::{Workers, module};

/// Fields of an entry of `stepResults`.
const MEMBERS: [&str; 6] = ["results", "error", "ok", "timedOut", "currentItem", "index"];

/// Checks the code of the trigger and of all steps.
pub(super) fn check(
    automation: &Automation,
    unreadable: &Unreadable,
    context: &CheckContext<'_>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (step, code) in automation.code_modules() {
        let place = CodeSite { automation, code };
        let diagnostics = place.check(unreadable, step.is_some(), context);
        found.extend(
            diagnostics
                .into_iter()
                .map(|diagnostic| step.map(AsRef::as_ref).into_iter().fold(diagnostic, Diagnostic::step)),
        );
    }
    found
}

struct CodeSite<'a> {
    automation: &'a Automation,
    code: &'a Code,
}

impl CodeSite<'_> {
    fn check(&self, unreadable: &Unreadable, in_step: bool, context: &CheckContext<'_>) -> Vec<Diagnostic> {
        let Some(module) = module(self.code, self.automation) else { return vec![self.missing(context)] };
        let verdict = match Workers::shared().analyze_blocking(&module) {
            Ok(verdict) => verdict,
            Err(error) => {
                let message = format!("the code could not be checked: {error}");
                return vec![Diagnostic::warning("code-syntax", message, self.code.span())];
            }
        };
        match &*verdict {
            Err(errors) => {
                let diagnostics = errors.iter().map(|error| {
                    let diagnostic =
                        self.diagnostic_at(Severity::Error, "code-syntax", &error.message, error.at, 1);
                    let is_bare = error.message.contains("return not in a function");
                    if is_bare { diagnostic.help(bare_return(in_step)) } else { diagnostic }
                });
                diagnostics.collect()
            }
            Ok(facts) => {
                let mut found = self.keys(facts);
                if facts.export.is_none() {
                    let message = "the code exports no function";
                    let diagnostic = Diagnostic::error("code-syntax", message, self.code.span());
                    found.push(diagnostic.help(format!("write `{}`", contract(in_step))));
                }
                if in_step {
                    found.extend(self.references(facts, unreadable));
                }
                found
            }
        }
    }

    fn missing(&self, context: &CheckContext<'_>) -> Diagnostic {
        let Code::File(file) = self.code else {
            return Diagnostic::error("missing-file", "the code is not there", self.code.span());
        };
        let message = format!("there is no file `{}`", file.name);
        let nearest = (context.nearest_code)(&file.name);
        let diagnostic = Diagnostic::error("missing-file", message, file.span);
        match nearest {
            Some(nearest) => diagnostic.nearest(Some(nearest)),
            None => diagnostic.help("create it, or write the code in place: `code: |`"),
        }
    }

    /// Reports computed state keys: state is read before the code runs, so keys must be literals.
    fn keys(&self, facts: &ModuleInfo) -> Vec<Diagnostic> {
        let diagnostics = facts.computed_keys.iter().map(|at| {
            let message = "a state key must be a literal, such as `context.state.get(\"count\")`";
            self.diagnostic_at(Severity::Error, "computed-state-key", message, *at, 1)
        });
        diagnostics.collect()
    }

    fn references(&self, facts: &ModuleInfo, unreadable: &Unreadable) -> Vec<Diagnostic> {
        let mut ids: Vec<&str> = vec!["trigger"];
        self.automation.walk(&mut |step| ids.push(&step.id));
        let named = |reference: &&Reference| reference.path.first().is_none_or(|id| !unreadable.may_name(id));
        let required = facts.references.iter().filter(|reference| !reference.optional).filter(named);
        required.filter_map(|reference| self.reference(reference, &ids)).collect()
    }

    fn reference(&self, reference: &Reference, ids: &[&str]) -> Option<Diagnostic> {
        let length = reference.length as usize;
        let id = reference.path.first()?;
        if !ids.contains(&id.as_str()) {
            let message = format!("there is no step `{id}`");
            let diagnostic =
                self.diagnostic_at(Severity::Warning, "unknown-step", &message, reference.at, length);
            return Some(diagnostic.expected_names(id, ids.iter().copied()));
        }
        let member = reference.path.get(1)?;
        (!MEMBERS.contains(&member.as_str())).then(|| {
            let message = format!("`{id}` has no `{member}`: its result is `{id}.results`");
            let diagnostic =
                self.diagnostic_at(Severity::Warning, "unknown-member", &message, reference.at, length);
            diagnostic.nearest(text::diagnostic::nearest(member, MEMBERS))
        })
    }

    /// Builds a diagnostic at a position in the code. For a code file, the message contains the position because the
    /// report belongs to the automation's file.
    fn diagnostic_at(
        &self,
        severity: Severity,
        code: &'static str,
        message: &str,
        at: Position,
        length: usize,
    ) -> Diagnostic {
        let (line, column) = (at.line as usize, at.column as usize);
        let (source, start) = self.code.locate(self.automation, line, column);
        if let Code::File(file) = self.code {
            let text = source.text().lines().nth(line.saturating_sub(1)).unwrap_or_default();
            let message = format!("`{}`, {line}:{column}: {message}", file.name);
            return Diagnostic::new(severity, code, message, file.span)
                .label(format!("line {line} of it is: {}", shown(text)));
        }
        let (_, end) = self.code.locate(self.automation, line, column + length.saturating_sub(1));
        Diagnostic::new(severity, code, message, Span { start: start.start, end: end.end.max(start.end) })
    }
}

/// Returns the signature of the function that code must export.
fn contract(in_step: bool) -> &'static str {
    if in_step {
        "export default async (context, stepResults) => { … }"
    } else {
        "export default async (context, payload) => { … }"
    }
}

/// Suggests how to rewrite a `return` outside a function.
fn bare_return(in_step: bool) -> String {
    let gives = if in_step { "return { data: … }; }" } else { "return { payload, response, run }; }" };
    let function = contract(in_step).replace("… }", gives);
    format!("code is a module, and what it exports is called: put the lines into `{function}`")
}

/// Shortens a line of code for a label.
fn shown(line: &str) -> String {
    const MAX_CHARS: usize = 80;
    let line = line.trim();
    text::truncate(line, MAX_CHARS).into_owned()
}
