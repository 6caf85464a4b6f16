//! Warns of credential headers and query parameters, which steps read as `***`. Code: `masked-header`.

use expression::{Expression, Reference};
use model::automation::{Automation, Code, DeclaredTrigger, Step, Trigger};
use text::diagnostic::{Diagnostic, Severity, Span};
use value::Key;
use value::redact::is_credential_name;

const CODE: &str = "masked-header";

/// Parts of a request that may contain credentials.
const PARTS: [&str; 2] = ["headers", "queryParameters"];

/// Checks the expressions and code of a webhook's steps.
pub(super) fn check(automation: &Automation) -> Vec<Diagnostic> {
    // The result of a trigger's code replaces the request.
    let reads_request = |trigger: &DeclaredTrigger| matches!(&trigger.on, Trigger::Webhook(webhook) if webhook.code.is_none());
    if !automation.triggers.iter().any(reads_request) {
        return Vec::new();
    }
    let mut found = Vec::new();
    automation.walk(&mut |step| {
        let mut expressions = Vec::new();
        step.expressions(&mut |expression| expressions.push(expression));
        for expression in expressions {
            let warning = reads(expression, step).map(|diagnostic| diagnostic.step(step.id.as_ref()));
            found.extend(warning);
        }
    });
    for (step, code) in automation.code_modules() {
        let diagnostics = code_reads(automation, code);
        found.extend(
            diagnostics
                .into_iter()
                .map(|diagnostic| step.map(AsRef::as_ref).into_iter().fold(diagnostic, Diagnostic::step)),
        );
    }
    found
}

/// Returns the part and the credential name of a path such as `trigger.results.headers['x-signature']`.
fn credential(path: &[Key]) -> Option<(&str, &str)> {
    let [root, results, part, name, ..] = path else { return None };
    let is_part = root == "trigger" && results == "results" && PARTS.contains(&part.as_str());
    (is_part && is_credential_name(name)).then_some((part.as_str(), name.as_str()))
}

fn reads(expression: &Expression, step: &Step) -> Option<Diagnostic> {
    let read = expression.references().iter().find(|read| credential(&read.path).is_some())?;
    let (part, name) = credential(&read.path)?;
    let compares = |reads: &[Reference]| reads.iter().any(|read| credential(&read.path).is_some());
    let is_compared =
        expression.comparisons().iter().any(|found| found.operands.iter().any(|side| compares(&side.reads)));
    // Testing for presence works despite masking.
    let is_condition = step.guard.as_ref().is_some_and(|guard| std::ptr::eq(guard, expression));
    let asks = read.optional || (is_condition && expression.direct_path().is_some());
    match is_compared {
        true => Some(diagnostic(Severity::Error, part, name, expression.span(), true)),
        false if asks => None,
        false => Some(diagnostic(Severity::Warning, part, name, expression.span(), false)),
    }
}

fn diagnostic(severity: Severity, part: &str, name: &str, span: Span, is_compared: bool) -> Diagnostic {
    let what = if part == "headers" { "header" } else { "query parameter" };
    let then = if is_compared { ", so this comparison has no useful result" } else { "" };
    let message =
        format!("the {what} `{name}` is always `***` in steps{then}: it carries a credential or a signature");
    Diagnostic::new(severity, CODE, message, span).help(
        "check it before the steps: `verify` under `webhook` knows the usual signatures and tokens, and `webhook.code` and \
         the trigger's `if` read it as it came",
    )
}

/// Finds literal credential names after `headers` or `queryParameters` in code.
fn code_reads(automation: &Automation, code: &Code) -> Vec<Diagnostic> {
    let Some(text) = code.text(automation) else { return Vec::new() };
    // A map of headers built by the code itself is not the request's.
    let makes_own = ["headers = {", "headers={", "headers: {", "headers:{", "new Map", "new Headers"];
    if !text.contains("trigger") || makes_own.iter().any(|own| text.contains(own)) {
        return Vec::new();
    }
    let mut found: Vec<Diagnostic> = Vec::new();
    for part in PARTS {
        for (at, _) in text.match_indices(part) {
            let behind = &text[at + part.len()..];
            let Some((offset, name)) = member(behind).filter(|(_, name)| is_credential_name(name)) else {
                continue;
            };
            let start = at + part.len() + offset;
            let before = &text[..start];
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            let (source, first) = code.locate(automation, line, column);
            let last = code.locate(automation, line, column + name.chars().count() - 1).1;
            let is_own = source.path() == automation.source.path();
            let span =
                if is_own { Span { start: first.start, end: last.end.max(first.end) } } else { code.span() };
            let mut warning = diagnostic(Severity::Warning, part, name, span, false);
            if !is_own {
                warning.message = format!("`{}`, {line}:{column}: {}", source.path(), warning.message);
            }
            found.push(warning);
        }
    }
    found.truncate(1);
    found
}

/// Parses the member access at the start of a text, `.name` or `["name"]`; returns the name and its offset.
fn member(behind: &str) -> Option<(usize, &str)> {
    let rest = behind.strip_prefix("?.").unwrap_or(behind);
    let mut start = behind.len() - rest.len();
    let (name, rest) = match rest.strip_prefix("[\"").or_else(|| rest.strip_prefix("['")) {
        Some(rest) => {
            start += 2;
            rest.split_once(['"', '\''])?
        }
        None => {
            let rest = rest.strip_prefix('.').or_else(|| behind.strip_prefix("?.")).unwrap_or_default();
            start = behind.len() - rest.len();
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            rest.split_at(end)
        }
    };
    let rest = rest.trim_start_matches(']').trim_start();
    let is_set = rest.starts_with('=') && !rest.starts_with("==");
    let is_call = rest.starts_with('(');
    (!name.is_empty() && !is_set && !is_call).then_some((start, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_parses_property_reads() {
        for (behind, name) in [
            ("[\"x-sig\"] !== a", Some("x-sig")),
            ("['x-sig']", Some("x-sig")),
            ("?.[\"x-sig\"]", Some("x-sig")),
            (".authorization;", Some("authorization")),
            ("?.authorization", Some("authorization")),
            ("['x-sig'] = a", None),
            (".token = a", None),
            (".getToken()", None),
            (" }", None),
        ] {
            let found = member(behind);
            assert_eq!(found.map(|(_, name)| name), name, "{behind}");
            if let Some((at, name)) = found {
                assert_eq!(behind.get(at..at + name.len()), Some(name), "{behind}");
            }
        }
    }
}
