//! Finds uses of the state that lose values: a value that is read and then written or deleted in another step, and a key that is
//! written in one scope and read in the other, or under another name. Codes: `lost-update`, `other-scope`, `unknown-state-key`.

use std::collections::BTreeMap;

use expression::{Expression, Template};
use language::load::step_key_span;
use model::automation::{ActionStep, Automation, DeclaredTrigger, Overlap, Step, Trigger, Verb};
use text::diagnostic::{Diagnostic, Span};

use super::spelling::fold;

/// Scope of a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StateScope {
    Own,
    Shared,
}

/// Access to a key, in document order.
struct Access<'a> {
    step: &'a Step,
    kind: AccessKind,
    /// Expression that reads `state.<key>`; `None` for an action.
    expression: Option<&'a Expression>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AccessKind {
    /// `state.<key>`, `state.get` or `state.take`.
    Read,
    /// `state.set`.
    Set,
    /// `state.delete`.
    Delete,
    /// `state.increment`, `state.append` or `state.compareAndSet`, which lose nothing.
    Add,
}

type Accesses<'a> = BTreeMap<(&'a str, StateScope), Vec<Access<'a>>>;

/// Checks the uses of each literal key.
pub(super) fn check(automation: &Automation) -> Vec<Diagnostic> {
    let mut accesses = Accesses::new();
    automation.walk(&mut |step| collect(step, &mut accesses));
    let mut found = Vec::new();
    for (&(key, scope), uses) in &accesses {
        found.extend(other_scope(automation, key, scope, uses, &accesses));
        if scope == StateScope::Own {
            found.extend(unknown_key(automation, key, uses, &accesses));
        }
        if !runs_alone(automation) {
            found.extend(lost_update(automation, key, uses));
        }
    }
    found
}

fn collect<'a>(step: &'a Step, accesses: &mut Accesses<'a>) {
    let mut expressions = Vec::new();
    step.expressions(&mut |expression| expressions.push(expression));
    for expression in expressions {
        for read in expression.references() {
            if let [root, key, ..] = &*read.path
                && root == "state"
            {
                let uses = accesses.entry((key.as_str(), StateScope::Own)).or_default();
                uses.push(Access { step, kind: AccessKind::Read, expression: Some(expression) });
            }
        }
    }
    let Verb::Action(call) = &step.verb else { return };
    let kind = match call.action.name.as_str() {
        "state.get" | "state.take" => AccessKind::Read,
        "state.set" => AccessKind::Set,
        "state.delete" => AccessKind::Delete,
        "state.increment" | "state.append" | "state.compareAndSet" => AccessKind::Add,
        _ => return,
    };
    let (Some(key), Some(scope)) = (literal(call, "key"), scope(call)) else { return };
    accesses.entry((key, scope)).or_default().push(Access { step, kind, expression: None });
}

fn literal<'a>(call: &'a ActionStep, input: &str) -> Option<&'a str> {
    let (_, template) = call.with.iter().find(|(name, _)| name.name == input)?;
    template.literal()?.as_str()
}

/// Returns the scope of an action; `None` if it is computed.
fn scope(call: &ActionStep) -> Option<StateScope> {
    let Some((_, template)) = call.with.iter().find(|(name, _)| name.name == "scope") else {
        return Some(StateScope::Own);
    };
    match template.literal()?.as_str()? {
        "shared" => Some(StateScope::Shared),
        _ => Some(StateScope::Own),
    }
}

/// Returns true if two executions never overlap.
fn runs_alone(automation: &Automation) -> bool {
    let is_limited = automation.concurrency.as_ref().is_some_and(|own| own.limit.literal() == Some(1));
    let is_scheduled = match automation.triggers.as_slice() {
        [DeclaredTrigger { on: Trigger::Schedule(schedule), .. }] => schedule.overlap != Overlap::Allow,
        _ => false,
    };
    is_limited || is_scheduled
}

/// Hints at a value that another execution may change between its read and its write.
fn lost_update(automation: &Automation, key: &str, uses: &[Access<'_>]) -> Option<Diagnostic> {
    let reads = uses.iter().filter(|access| access.kind == AccessKind::Read);
    let mut pairs = reads.flat_map(|read| {
        let later = uses.iter().filter(move |write| write.step.span.start >= read.step.span.start);
        later.map(move |write| (read, write))
    });
    let (read, write) = pairs.find(|(read, write)| match write.kind {
        // A value added between the read and the deletion is deleted, too.
        AccessKind::Delete => !std::ptr::eq(read.step, write.step),
        AccessKind::Set => writes_read_value(automation, key, read, write.step),
        AccessKind::Read | AccessKind::Add => false,
    })?;
    let verb = if write.kind == AccessKind::Delete { "deleted" } else { "written" };
    let message =
        format!("`{key}` is read and then {verb}: what another execution stores in between is lost");
    let span = step_key_span(&automation.source, write.step.span, "action").unwrap_or(write.step.span);
    let place = read.expression.map_or(read.step.span, Expression::span);
    Some(
        Diagnostic::hint("lost-update", message, span)
            .related(place, "it is read here")
            .help(
                "let one execution run at a time with `concurrency: {limit: 1}`; or do both in one step, which no other execution \
                 interrupts: `state.increment`, `state.append`, `state.take`, `state.compareAndSet`, or `code` with `context.state`",
            )
            .step(write.step.id.as_ref()),
    )
}

/// Returns true if the value that a step stores is computed from the value that was read.
fn writes_read_value(automation: &Automation, key: &str, read: &Access<'_>, writer: &Step) -> bool {
    let Verb::Action(call) = &writer.verb else { return false };
    let Some((_, value)) = call.with.iter().find(|(name, _)| name.name == "value") else { return false };
    reads_value(automation, value, key, &read.step.id, 0)
}

fn reads_value(automation: &Automation, value: &Template, key: &str, reader: &str, depth: usize) -> bool {
    value.references().iter().any(|found| {
        let path: Vec<&str> = found.path.iter().map(|name| name.as_str()).collect();
        match path.as_slice() {
            ["state", name, ..] => *name == key,
            ["steps", id, "results", ..] => *id == reader,
            ["vars", name, ..] if depth < 3 => {
                let mut is_read = false;
                automation.walk(&mut |step| {
                    if let Verb::Set(values) = &step.verb {
                        let set = values.iter().filter(|(set, _)| **set == **name);
                        is_read |= set
                            .into_iter()
                            .any(|(_, value)| reads_value(automation, value, key, reader, depth + 1));
                    }
                });
                is_read
            }
            _ => false,
        }
    })
}

/// Warns of a read of a key that the file writes under a similar name only.
fn unknown_key(
    automation: &Automation,
    key: &str,
    uses: &[Access<'_>],
    all: &Accesses<'_>,
) -> Option<Diagnostic> {
    let is_write = |access: &Access<'_>| matches!(access.kind, AccessKind::Set | AccessKind::Add);
    if uses.iter().any(is_write) || !automation.code_modules().is_empty() {
        return None;
    }
    let read = uses.iter().find(|access| access.kind == AccessKind::Read)?;
    let expression = read.expression?;
    let written =
        all.iter().filter(|((_, scope), uses)| *scope == StateScope::Own && uses.iter().any(is_write));
    // Other spellings of one name have a code of their own.
    let written = written.map(|((name, _), _)| *name).filter(|name| fold(name) != fold(key));
    let meant = text::diagnostic::nearest(key, written)?;
    let span = key_span(automation, expression, key);
    let diagnostic =
        Diagnostic::warning("unknown-state-key", format!("nothing in this file writes `{key}`"), span)
            .help(format!("did you mean `state.{meant}`?"))
            .step(read.step.id.as_ref());
    let is_exact = automation.source.slice(span) == format!("state.{key}");
    Some(if is_exact { diagnostic.replace(span, format!("state.{meant}")) } else { diagnostic })
}

/// Warns of a read of a key that the file writes in the other scope only.
fn other_scope(
    automation: &Automation,
    key: &str,
    scope: StateScope,
    uses: &[Access<'_>],
    all: &Accesses<'_>,
) -> Option<Diagnostic> {
    let writes = |uses: &[Access<'_>]| {
        uses.iter().any(|access| matches!(access.kind, AccessKind::Set | AccessKind::Add))
    };
    let read = uses.iter().find(|access| access.kind == AccessKind::Read)?;
    // Other files may write the shared key.
    if scope == StateScope::Shared {
        return None;
    }
    let writer = all
        .get(&(key, StateScope::Shared))
        .filter(|others| writes(others) && !writes(uses))?
        .iter()
        .find(|access| access.kind != AccessKind::Read)?;
    if !automation.code_modules().is_empty() {
        return None;
    }
    let span = match read.expression {
        Some(expression) => key_span(automation, expression, key),
        None => step_key_span(&automation.source, read.step.span, "with").unwrap_or(read.step.span),
    };
    let message =
        format!("`{key}` of this automation is never written: the file writes the key with `scope: shared`");
    Some(
        Diagnostic::warning("other-scope", message, span)
            .related(writer.step.span, "it is written here")
            .help(format!(
                "read it in a step, `action: state.get` with `{{key: {key}, scope: shared}}`; `state.{key}` is the automation's own; or write it \
                 without `scope`"
            ))
            .step(read.step.id.as_ref()),
    )
}

/// Returns the position of `state.<key>` in an expression.
fn key_span(automation: &Automation, expression: &Expression, key: &str) -> Span {
    let whole = expression.span();
    let path = format!("state.{key}");
    let at = automation.source.slice(whole).find(&path);
    at.map_or(whole, |at| Span::new(whole.range().start + at, whole.range().start + at + path.len()))
}
