//! Checks calls of other automations.

use std::collections::BTreeSet;
use std::sync::Arc;

use expression::Template;
use language::load::Unreadable;
use model::automation::{Automation, CallStep, DeclaredTrigger, SpannedName, Trigger, Verb};
use model::{InputSpec, ResultType};
use text::diagnostic::Diagnostic;

use super::actions::GivenInputs;
use super::context::CheckContext;

/// Maximum number of names of a cycle in a message.
const MAX_NAMES: usize = 12;

/// Automation looked up by id, as its callers see it.
pub(crate) enum Callee {
    /// A file defines it.
    Defined {
        /// Path of the file.
        path: String,
        /// Declared trigger kind and inputs.
        signature: Signature,
        /// True if a version is in force or would be.
        in_force: bool,
    },
    /// No file defines it.
    Missing {
        /// Id of the most similar automation.
        nearest: Option<String>,
    },
}

/// Parts of an automation that its callers depend on; `None` for unreadable parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Signature {
    /// Trigger kind.
    pub(crate) trigger: Option<&'static str>,
    /// Declared inputs.
    pub(crate) inputs: Option<Vec<InputSpec>>,
    /// Type of the result, if `outputs` names its fields.
    pub(crate) results: Option<ResultType>,
}

impl Signature {
    /// Extracts the signature of a possibly partially parsed automation.
    pub(crate) fn from_automation(automation: &Automation, unreadable: &Unreadable) -> Self {
        Self {
            trigger: (!unreadable.has("trigger")).then(|| called_trigger(automation).on.keyword()),
            inputs: (!unreadable.has("inputs")).then(|| automation.inputs.clone()),
            results: result_type(automation).filter(|_| unreadable.is_empty()),
        }
    }
}

/// Returns the trigger by which a call starts an automation: the manual one; without it the first, which a call cannot use.
fn called_trigger(automation: &Automation) -> &DeclaredTrigger {
    let manual = automation.triggers.iter().find(|trigger| matches!(trigger.on, Trigger::Manual));
    manual.unwrap_or(&automation.triggers[0])
}

/// Returns the type of an automation's result: the fields of `outputs`. A `stop` with a result of its own makes it unknown.
fn result_type(automation: &Automation) -> Option<ResultType> {
    let Some(Template::Map(_) | Template::Literal(_)) = &automation.outputs else { return None };
    let mut stops = false;
    automation.walk(&mut |step| {
        stops |= matches!(&step.verb, Verb::Stop { result, .. } if result.literal().is_none_or(|it| !it.is_null()));
    });
    if stops {
        return None;
    }
    match automation.outputs.as_ref()? {
        Template::Map(entries) => Some(ResultType::object(
            entries
                .iter()
                .map(|(name, value)| (&**name, value.literal().map(ResultType::infer).unwrap_or_default())),
        )),
        Template::Literal(value @ value::Value::Map(_)) => Some(ResultType::infer(value)),
        _ => None,
    }
}

/// Checks all calls in the file.
pub(super) fn check(
    automation: &Automation,
    unreadable: &Unreadable,
    context: &CheckContext<'_>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut cycles: BTreeSet<&str> = BTreeSet::new();
    automation.walk(&mut |step| {
        let Verb::Call(call) = &step.verb else { return };
        let before = found.len();
        // An unreadable name is empty.
        for callee in call.automation.candidates().iter().filter(|callee| !callee.name.is_empty()) {
            let path = (context.call_path)(&callee.name);
            let circular = path.is_some();
            // Report a cycle once, at the first call that closes it.
            if let Some(path) = path.filter(|_| cycles.insert(&callee.name)) {
                found.push(call_cycle(automation.id.as_str(), callee, &path));
            }
            let unread = unreadable.has_in_step(&step.id, "with");
            check_call(call, callee, (circular, unread), context, &mut found);
        }
        for diagnostic in &mut found[before..] {
            diagnostic.step.get_or_insert_with(|| step.id.to_string());
        }
    });
    found
}

/// Reports a call cycle. `path` is the path from the callee to the caller.
fn call_cycle(own: &str, callee: &SpannedName, path: &[Arc<str>]) -> Diagnostic {
    let names: Vec<&str> = std::iter::once(own).chain(path.iter().map(AsRef::as_ref)).collect();
    let names_text = match names.len() {
        0 | 1 => format!("{own} → {} → … → {own}", callee.name),
        length if length > MAX_NAMES => format!("{} → … → {own}", names[..MAX_NAMES - 1].join(" → ")),
        _ => names.join(" → "),
    };
    let message = format!("these automations call each other without end: {names_text}");
    Diagnostic::error("call-circle", message, callee.span)
        .help("take one of these calls out; to do the same for many things, use `forEach` or `repeat`")
}

/// Checks one call of an automation. `circular` is true if it closes a cycle, `unread` if `with` is partly unreadable.
fn check_call(
    call: &CallStep,
    callee: &SpannedName,
    (circular, unread): (bool, bool),
    context: &CheckContext<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let (path, signature, in_force) = match (context.automation)(&callee.name) {
        Callee::Defined { path, signature, in_force } => (path, signature, in_force),
        Callee::Missing { nearest } => return found.push(unknown(callee, nearest)),
    };
    // Members of a cycle are not in force because of the cycle, so do not report that too.
    if !in_force && !circular {
        let message = format!("the automation `{}` has errors of its own", callee.name);
        found.push(
            Diagnostic::error("broken-automation", message, callee.span)
                .help(format!("correct the errors reported in {path}")),
        );
    }
    if let Some(trigger) = signature.trigger.filter(|trigger| *trigger != "manual") {
        let message = format!("`{}` cannot be called: it is started by a `{trigger}` trigger", callee.name);
        found.push(Diagnostic::error("not-callable", message, callee.span).help(
            "only an automation with `trigger: {manual: {}}` can be called; put the steps that both need into one",
        ));
    } else if let Some(inputs) = &signature.inputs {
        let place = if call.with.is_empty() { callee.span } else { call.with_span };
        GivenInputs {
            source: context.source,
            callee: &callee.name,
            inputs,
            with: &call.with,
            key: "with",
            place,
            unread,
        }
        .check(found);
    }
}

fn unknown(callee: &SpannedName, nearest: Option<String>) -> Diagnostic {
    let name = &callee.name;
    let diagnostic =
        Diagnostic::error("unknown-automation", format!("there is no automation `{name}`"), callee.span);
    match nearest {
        Some(near) => diagnostic.nearest(Some(near)),
        None if name.contains(['/', '.']) => {
            let id = name.rsplit('/').next().unwrap_or(name);
            let id = id.strip_suffix(".yaml").or_else(|| id.strip_suffix(".yml")).unwrap_or(id);
            diagnostic
                .help(format!("write the id, which is the name of the file without `.yaml`: `call: {id}`"))
        }
        None => diagnostic
            .help(format!("create the file automations/{name}.yaml with `trigger: {{manual: {{}}}}`")),
    }
}
