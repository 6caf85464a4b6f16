//! Names that are defined and never read: `set`, `inputs`, `configVars`. A name that begins with `_` is exempt.
//!
//! Reported only if certain: no expression reads a whole namespace, and every name that is read exists; otherwise a
//! misspelt read may be meant for the unused name.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use expression::Expression;
use model::automation::{Automation, Block, Step, Trigger, Verb};
use text::diagnostic::{Diagnostic, Severity, Span};
use text::yaml::{Kind, Node};

const CODE: &str = "unused-value";

/// Reports values that no expression reads, in a file without errors. `node` is the tree of the file.
pub(super) fn check(node: &Node, automation: &Automation) -> Vec<Diagnostic> {
    let reads = Reads::of(automation);
    let mut found = Vec::new();
    if reads.all {
        return found;
    }
    declared(node, "configVars", &reads.config_vars, &mut |name, span| {
        let message = format!("the configuration variable `{name}` is never read");
        found.push(unused(Severity::Warning, message, name, span));
    });
    if automation.triggers.iter().any(|trigger| matches!(trigger.on, Trigger::Manual)) {
        declared(node, "inputs", &reads.inputs, &mut |name, span| {
            let message = format!("the input `{name}` is never read");
            found.push(unused(Severity::Hint, message, name, span));
        });
    }
    variables(node, automation, &reads, &mut found);
    found
}

fn unused(severity: Severity, message: String, name: &str, span: Span) -> Diagnostic {
    Diagnostic::new(severity, CODE, message, span).help(format!("remove it, or call it `_{name}` to keep it"))
}

/// Calls `tell` with the unread names below a key of the file, if the reads are known.
fn declared<'n>(node: &'n Node, key: &str, reads: &Names, tell: &mut dyn FnMut(&'n str, Span)) {
    let Names::These(read) = reads else { return };
    let entries = node.get(key).and_then(Node::as_map).into_iter().flatten();
    let entries: Vec<_> = entries.collect();
    if read.iter().any(|name| !entries.iter().any(|entry| entry.key == *name)) {
        return;
    }
    for entry in
        entries.iter().filter(|entry| !read.contains(entry.key.as_str()) && !entry.key.starts_with('_'))
    {
        tell(&entry.key, entry.key_span);
    }
}

fn variables(node: &Node, automation: &Automation, reads: &Reads, found: &mut Vec<Diagnostic>) {
    let Names::These(read) = &reads.variables else { return };
    let mut setters: BTreeMap<&str, Vec<&Step>> = BTreeMap::new();
    automation.walk(&mut |step| {
        if let Verb::Set(values) = &step.verb {
            values.iter().for_each(|(name, _)| setters.entry(name).or_default().push(step));
        }
    });
    if read.iter().any(|name| !setters.contains_key(name.as_str())) {
        return;
    }
    let results = Results::of(automation);
    let spans = places(node);
    for (name, steps) in setters.iter().filter(|(name, _)| !read.contains(**name) && !name.starts_with('_')) {
        // A `set` also has a result: the values.
        if steps.iter().any(|step| results.may_be_read(step, reads)) {
            continue;
        }
        for step in steps {
            let span = spans.get(&(step.span, *name)).copied().unwrap_or(step.span);
            let message = format!("the variable `{name}` is never read");
            found.push(unused(Severity::Warning, message, name, span).step(step.id.as_ref()));
        }
    }
}

/// The spans of the names of all `set` steps, by the start of the step.
fn places(node: &Node) -> BTreeMap<(Span, &str), Span> {
    let mut found = BTreeMap::new();
    let mut rest = vec![node];
    while let Some(node) = rest.pop() {
        match &node.kind {
            Kind::List(items) => rest.extend(items),
            Kind::Map(map) => {
                for entry in map.get("set").and_then(Node::as_map).into_iter().flatten() {
                    found.insert((node.head(), entry.key.as_str()), entry.key_span);
                }
                rest.extend(map.iter().map(|entry| &entry.value));
            }
            _ => {}
        }
    }
    found
}

/// The steps whose result is the result of their list, and so of the enclosing step.
struct Results(HashSet<Arc<str>>);

impl Results {
    fn of(automation: &Automation) -> Self {
        let mut last = HashSet::new();
        let mut note = |block: &Block| last.extend(block.steps.last().map(|step| step.id.clone()));
        note(&automation.steps);
        automation.walk(&mut |step| {
            step.verb.nested_blocks().iter().for_each(|inner| note(inner.block));
            if let model::automation::OnError::Steps(block) = &step.on_error {
                note(block);
            }
        });
        Self(last)
    }

    fn may_be_read(&self, step: &Step, reads: &Reads) -> bool {
        self.0.contains(&step.id) || reads.steps.has(&step.id)
    }
}

/// The names that the expressions of a file read.
#[derive(Default)]
struct Reads {
    /// True if an expression reads a whole namespace; then nothing is unused.
    all: bool,
    variables: Names,
    inputs: Names,
    config_vars: Names,
    steps: Names,
}

/// Some names of a namespace, or all.
enum Names {
    These(HashSet<String>),
    All,
}

impl Default for Names {
    fn default() -> Self {
        Self::These(HashSet::new())
    }
}

impl Names {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::These(names) => names.contains(name),
            Self::All => true,
        }
    }

    /// Records the name that follows the namespace in a path; all names if no name follows.
    fn note(&mut self, name: Option<&str>) {
        match (&mut *self, name) {
            (Self::These(names), Some(name)) => drop(names.insert(name.to_owned())),
            (_, None) => *self = Self::All,
            (Self::All, _) => {}
        }
    }
}

impl Reads {
    fn of(automation: &Automation) -> Self {
        let mut reads = Self::default();
        if !automation.code_modules().is_empty() {
            // Code may read anything it is given.
            (reads.inputs, reads.config_vars, reads.steps) = (Names::All, Names::All, Names::All);
        }
        automation.expressions(&mut |expression| reads.expression(expression));
        reads
    }

    fn expression(&mut self, expression: &Expression) {
        for reference in expression.references() {
            let path: Vec<&str> = reference.path.iter().map(|name| name.as_str()).collect();
            let name = |depth: usize| path.get(depth).copied();
            match path.as_slice() {
                [] => self.all = true,
                ["vars", ..] => self.variables.note(name(1)),
                ["inputs", ..] => self.inputs.note(name(1)),
                ["configVars", ..] => self.config_vars.note(name(1)),
                ["steps", ..] => self.steps.note(name(1)),
                // The inputs of a manual start are also part of the trigger's results.
                ["trigger", "results", "inputs", ..] => self.inputs.note(name(3)),
                ["trigger", "results", "body", "data", ..] => self.inputs.note(name(4)),
                ["trigger"] | ["trigger", "results"] | ["trigger", "results", "body"] => {
                    self.inputs = Names::All
                }
                _ => {}
            }
        }
    }
}
