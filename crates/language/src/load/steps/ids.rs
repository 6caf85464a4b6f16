//! The ids of steps: explicit, or the name in camelCase, or `stepN`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::automation::Automation;
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use text::yaml::{Map, MapReader};

use crate::load::Unreadable;
use crate::load::common::{MAX_NAME, inner, shorten};
use crate::load::keys::is_identifier;

/// Reserved ids: in code, the trigger's results are among the steps' results.
const RESERVED: [&str; 1] = ["trigger"];

/// The ids assigned so far.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// The explicit ids anywhere in the file, which a numbered id must not take.
    claimed: HashSet<String>,
    /// The assigned ids, each with its span.
    given: HashMap<Arc<str>, Span>,
    /// The number of steps so far.
    count: usize,
}

impl Ids {
    /// Records the explicit id of a step, before any id is assigned.
    pub(super) fn claim(&mut self, step: &Map) {
        let text = |key| step.get(key).and_then(|node| node.as_str());
        let id = text("id").filter(|id| is_step_id(id)).map(str::to_owned);
        self.claimed.extend(id.or_else(|| text("name").and_then(camel_case)));
    }

    /// Counts the next step in reading order, including an item that is not a mapping and so has no id.
    pub(super) fn count(&mut self, head: Span, diagnostics: &Diagnostics) {
        self.count += 1;
        if self.count == Automation::MAX_STEPS + 1 {
            let message = format!("this automation has more than {} steps", Automation::MAX_STEPS);
            diagnostics.push(
                Diagnostic::error("too-many-steps", message, head)
                    .help("move some of them into an automation of their own, or use a loop"),
            );
        }
    }

    /// Assigns the id of the next step in reading order. An invalid or taken id is reported and replaced by a number.
    pub(super) fn give(&mut self, step: &mut MapReader<'_, '_>, unreadable: &mut Unreadable) -> Arc<str> {
        let (head, diagnostics) = (step.node().head(), step.diagnostics());
        self.count(head, diagnostics);
        let written = written(step, unreadable).and_then(|(id, span, is_name)| {
            if let Some(first) = self.given.get(id.as_str()) {
                diagnostics.push(duplicate(&id, span, *first, is_name));
                unreadable.note_name(&id);
                return None;
            }
            Some((Arc::from(id), span))
        });
        let (id, span) = written.unwrap_or_else(|| (self.numbered(), head));
        self.given.insert(id.clone(), span);
        id
    }

    fn numbered(&self) -> Arc<str> {
        let free = |id: &String| !self.claimed.contains(id) && !self.given.contains_key(id.as_str());
        let id = (self.count..).map(|number| format!("step{number}")).find(free);
        // The numbers never run out before the ids.
        id.unwrap_or_default().into()
    }
}

/// The requested id of a step, its span, and whether it comes from the step's name.
fn written(step: &mut MapReader<'_, '_>, unreadable: &mut Unreadable) -> Option<(String, Span, bool)> {
    let diagnostics = step.diagnostics();
    let (id, name) = (step.take("id").node(), step.take("name").node());
    let node = id.or(name)?;
    let Some(text) = node.as_text() else {
        // Reported when the step's keys are read.
        unreadable.note("steps");
        return None;
    };
    if id.is_none() {
        let id = camel_case(&text.value).filter(|id| !RESERVED.contains(&id.as_str()))?;
        return Some((id, inner(text), true));
    }
    if !is_step_id(&text.value) {
        diagnostics.push(invalid(&text.value, inner(text)));
        if text.value.contains("${{") || text.value.trim().is_empty() {
            unreadable.note("steps");
        }
        unreadable.note_name(&text.value);
        return None;
    }
    Some((text.value.clone(), inner(text), false))
}

/// True if `text` can be the id of a step.
pub(crate) fn is_step_id(text: &str) -> bool {
    is_identifier(text) && text.len() <= MAX_NAME && !RESERVED.contains(&text)
}

fn invalid(text: &str, span: Span) -> Diagnostic {
    if RESERVED.contains(&text) {
        let message = format!("`{text}` cannot be the id of a step");
        return Diagnostic::error("invalid-id", message, span)
            .help("that name stands for what started the execution");
    }
    let message = format!("`{}` cannot be the id of a step", shorten(text));
    let diagnostic = Diagnostic::error("invalid-id", message, span)
        .help("an id has letters, digits and `_`, begins with no digit, and has at most 100 characters");
    diagnostic.nearest(camel_case(text).filter(|near| is_step_id(near)))
}

fn duplicate(id: &str, span: Span, first: Span, is_name: bool) -> Diagnostic {
    let message = format!("two steps have the id `{id}`");
    let diagnostic =
        Diagnostic::error("duplicate-id", message, span).related(first, "first here").label("again here");
    diagnostic.help(if is_name {
        "a step without an `id` has its name in camelCase for one; give this step an `id` of its own"
    } else {
        "ids are unique in the whole file, also across branches and loops"
    })
}

/// Converts a name to an identifier: `Create HTTP page` becomes `createHttpPage`. `None` for a name in letters that
/// identifiers cannot contain.
pub(in crate::load) fn camel_case(name: &str) -> Option<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut id = String::new();
    let mut begins_word = true;
    for (at, &letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            if letter.is_alphanumeric() {
                return None;
            }
            begins_word = true;
            continue;
        }
        let before = at.checked_sub(1).and_then(|at| letters.get(at));
        let after = letters.get(at + 1);
        let hump = letter.is_ascii_uppercase()
            && (before.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
                || (before.is_some_and(char::is_ascii_uppercase)
                    && after.is_some_and(char::is_ascii_lowercase)));
        if id.is_empty() && letter.is_ascii_digit() {
            id.push('_');
        }
        if (begins_word || hump) && !id.is_empty() {
            id.push(letter.to_ascii_uppercase());
        } else {
            id.push(letter.to_ascii_lowercase());
        }
        begins_word = false;
    }
    (!id.is_empty() && id.len() <= MAX_NAME).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_an_identifier() {
        let check = |name, expected| assert_eq!(camel_case(name).as_deref(), expected, "{name}");
        check("Create page", Some("createPage"));
        check("create-the  page!", Some("createThePage"));
        check("createPage", Some("createPage"));
        check("Create HTTP page", Some("createHttpPage"));
        check("HTTPServer", Some("httpServer"));
        check("2nd try", Some("_2ndTry"));
        check("v2Beta", Some("v2Beta"));
        check("Größe", None);
        check("—", None);
        check("", None);
        check(&"a".repeat(101), None);
    }
}
