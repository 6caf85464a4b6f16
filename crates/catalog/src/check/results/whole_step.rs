//! Warns of a whole step where its result is meant: `steps.get` instead of `steps.get.results`. Code: `whole-step`.

use expression::template::{Part, Template};
use expression::{DirectPath, Expression, Reference};
use model::ResultType;
use model::automation::{OnError, OnTimeout, RespondBody, Step, Verb};
use text::diagnostic::Diagnostic;

use super::{Checker, resolve};

/// Connectors that may store, send or show any value, so that a whole step may be meant.
const ANY_VALUE: [&str; 4] = ["events.", "files.", "log.", "state."];

impl<'a> Checker<'a> {
    /// Checks the values of a step that leave the execution, and its texts.
    pub(super) fn whole_steps(&mut self, step: &'a Step) {
        match &step.verb {
            Verb::Action(call) => {
                let is_sent = !ANY_VALUE.iter().any(|name| call.action.name.starts_with(name));
                call.with.iter().for_each(|(_, value)| self.whole_step_in(value, is_sent, Some(step)));
            }
            Verb::Call(call) => {
                call.with.iter().for_each(|(_, value)| self.whole_step_in(value, false, Some(step)))
            }
            Verb::Set(values) => {
                values.iter().for_each(|(_, value)| self.whole_step_in(value, false, Some(step)))
            }
            Verb::Fail(fail) => {
                let own = [Some(&fail.message), fail.code.as_ref(), fail.data.as_ref()];
                own.into_iter().flatten().for_each(|value| self.whole_step_in(value, false, Some(step)));
            }
            _ => {}
        }
        if let Some(RespondBody::Body(body) | RespondBody::Json(body)) =
            step.verb.response().map(|respond| &respond.body)
        {
            self.whole_step_in(body, true, Some(step));
        }
    }

    /// Checks a template: its texts, and with `is_sent` its values too.
    pub(super) fn whole_step_in(&mut self, template: &'a Template, is_sent: bool, at: Option<&'a Step>) {
        match template {
            Template::Text(parts) => {
                for part in parts.iter() {
                    if let Part::Expression(expression) = part {
                        self.whole_step(expression, at);
                    }
                }
            }
            Template::Expression(expression) if is_sent => self.whole_step(expression, at),
            Template::List(items) => items.iter().for_each(|item| self.whole_step_in(item, is_sent, at)),
            Template::Map(entries) => {
                entries.iter().for_each(|(_, value)| self.whole_step_in(value, is_sent, at));
            }
            Template::Expression(_) | Template::Literal(_) => {}
        }
    }

    fn whole_step(&mut self, expression: &'a Expression, at: Option<&'a Step>) {
        let Some(DirectPath::One(reference)) = expression.direct_path() else { return };
        let Some(read) = self.step_read(reference).filter(|step| !has_more_than_result(step)) else { return };
        let text = expression.text();
        let message =
            format!("`{text}` is the whole step, a map of `results` and `error`, and not its result");
        let diagnostic = Diagnostic::warning("whole-step", message, expression.span());
        let kind = self.types.results_of(&read.id);
        let names = resolve::names(&kind);
        let is_map = !names.is_empty() || matches!(kind, ResultType::Map { .. });
        let help = match names.as_slice() {
            [] => format!("write `{text}.results`"),
            names => format!("its result is `{text}.results`, with {}", names.join(", ")),
        };
        let fix = expression.place_in(&self.automation.source, text.len()..text.len());
        let fix = fix.filter(|_| !is_map).map(|end| (end, ".results".to_owned()));
        self.report(diagnostic.help(help).replacement(fix), at);
    }

    /// The step that a path reads as a whole.
    pub(super) fn step_read(&self, reference: &Reference) -> Option<&'a Step> {
        let [root, id] = &*reference.path else { return None };
        let is_whole = root == "steps" && reference.suffix.is_empty();
        self.types.step_of(id).filter(|_| is_whole)
    }
}

/// True if the map contains more than the result: the failure or the timeout of the step.
fn has_more_than_result(step: &Step) -> bool {
    let may_time_out =
        matches!(&step.verb, Verb::WaitFor(wait) if matches!(wait.on_timeout, OnTimeout::Continue));
    may_time_out || !matches!(step.on_error, OnError::Fail)
}
