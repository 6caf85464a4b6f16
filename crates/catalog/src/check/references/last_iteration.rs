//! Finds steps of a `forEach` that are read behind the loop, where only the last iteration's result is left. Code:
//! `last-iteration`.

use model::automation::{Step, Verb};
use text::diagnostic::{Diagnostic, Span};

use super::step_order::{Attachment, Availability, Hop, StepPath, Uncertainty};

/// Returns the outermost `forEach` that contains the target and not the reader, unless a `break` decides which iteration is
/// the last one, or the read is reported because the loop may have no iterations.
pub(super) fn find<'a>(
    target: &StepPath<'a>,
    reader: Option<&StepPath<'a>>,
    availability: &Availability<'a>,
    optional: bool,
) -> Option<&'a Step> {
    let is_reported = match availability {
        Availability::Always => false,
        Availability::Maybe(found) => {
            !optional && found.iter().any(|one| matches!(one, Uncertainty::Loop(_)))
        }
        Availability::Never(_) | Availability::Unsure => true,
    };
    if is_reported {
        return None;
    }
    let shared = reader.map_or(0, |reader| super::step_order::common_prefix(reader, target));
    let enters = |depth: usize| {
        let attachment = target.get(depth)?.attachment;
        if !matches!(attachment, Attachment::Turn { item: Some(_), .. }) {
            return None;
        }
        target.get(depth - 1).and_then(Hop::step)
    };
    let each = (shared + 1..target.len()).find_map(enters)?;
    let mut breaks = false;
    if let Verb::ForEach(each) = &each.verb {
        each.steps.walk(&mut |step| breaks |= matches!(step.verb, Verb::Break));
    }
    (!breaks).then_some(each)
}

/// Warns of the read.
pub(super) fn diagnostic(id: &str, each: &Step, span: Span) -> Diagnostic {
    let message = format!(
        "step `{id}` is in the loop `{}`: behind it this is the result of the last iteration alone",
        each.id
    );
    Diagnostic::warning("last-iteration", message, span).related(each.span, "the loop").help(format!(
        "read `steps.{0}.results`, the list of the results of all iterations, such as `steps.{0}.results | last` for the last one",
        each.id
    ))
}
