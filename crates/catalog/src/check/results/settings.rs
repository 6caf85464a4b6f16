//! Reports computed settings that never have a usable value. Codes: `invalid-duration`, `out-of-range`, `not-in-of`.

use expression::Expression;
use model::ResultType;
use model::automation::setting::{self, CountRule};
use model::automation::{NameSelection, NameSetting, Setting, Step, Verb};
use text::diagnostic::Diagnostic;

use super::pauses::constant;
use super::{Checker, describe};

impl<'a> Checker<'a> {
    /// Checks the computed settings of a step.
    pub(super) fn settings(&mut self, step: &'a Step) {
        if let Some(timeout) = step.timeout.as_ref().and_then(Setting::expression) {
            self.duration(timeout, "timeout", step);
        }
        let rules = step.retry.iter().flat_map(|retry| &retry.rules);
        for computed in rules.filter_map(|rule| rule.policy.computed.as_deref()) {
            let (max, delay) = (computed.max.as_ref(), computed.delay.as_ref());
            max.into_iter().for_each(|max| self.count(max, &setting::RETRY_MAX, Some(step)));
            delay.into_iter().for_each(|delay| self.duration(delay, "delay", step));
        }
        match &step.verb {
            Verb::Action(call) => {
                let selection = call.connection.as_ref().and_then(NameSetting::selection);
                selection.into_iter().for_each(|selection| self.selection(selection, "connection", step));
            }
            Verb::Call(call) => {
                let selection = call.automation.selection();
                selection.into_iter().for_each(|selection| self.selection(selection, "call", step));
            }
            Verb::ForEach(each) => {
                let concurrency = each.concurrency.expression().into_iter();
                concurrency.for_each(|found| self.count(found, &setting::FOR_EACH_CONCURRENCY, Some(step)));
            }
            Verb::Repeat(repeat) => {
                let (max, delay) = (repeat.max.expression(), repeat.delay.expression());
                max.into_iter().for_each(|max| self.count(max, &setting::REPEAT_MAX, Some(step)));
                delay.into_iter().for_each(|delay| self.duration(delay, "delay", step));
            }
            _ => {}
        }
    }

    /// Reports a computed number that is constant and out of range, or that is never a whole number.
    pub(super) fn count(&mut self, expression: &'a Expression, rule: &CountRule, at: Option<&'a Step>) {
        let error = |message: String| Diagnostic::error("out-of-range", message, expression.span());
        if let Some(value) = constant(expression) {
            if let Err(message) = rule.read(&value) {
                self.report(error(message), at);
            }
            return;
        }
        let kind = self.types.expression(expression, at);
        let may_be = |kind: &ResultType| {
            matches!(kind, ResultType::Any | ResultType::Null | ResultType::Integer | ResultType::Number)
        };
        if kind.alternatives().iter().any(may_be) {
            return;
        }
        let (name, text) = (rule.name, expression.text());
        let diagnostic = error(format!("`{name}` needs a whole number, but `{text}` is {}", describe(&kind)));
        let is_text = |kind: &ResultType| matches!(kind, ResultType::Text | ResultType::Choice { .. });
        self.report(
            match kind.alternatives().iter().any(is_text) {
                true => diagnostic.help(format!("convert the text: `${{{{ {text} | int }}}}`")),
                false => diagnostic,
            },
            at,
        );
    }

    /// Reports a selected name whose expression can have values that are not in `of`.
    fn selection(&mut self, selection: &'a NameSelection, key: &str, step: &'a Step) {
        let expression = &selection.name;
        if let Some(value) = constant(expression) {
            if let Err(message) = selection.select(key, &value) {
                let diagnostic = Diagnostic::error("not-in-of", message, expression.span());
                self.report(
                    diagnostic.allowed(selection.of.iter().map(|name| name.name.as_str())),
                    Some(step),
                );
            }
            return;
        }
        let kind = self.types.expression(expression, Some(step));
        let (text, of) = (expression.text(), &selection.of);
        let is_listed = |option: &str| of.iter().any(|name| name.name == option);
        let mut others = Vec::new();
        let mut may_match = false;
        for alternative in kind.alternatives() {
            match alternative {
                ResultType::Choice { options } => {
                    may_match |= options.iter().any(|option| is_listed(option));
                    others.extend(
                        options
                            .iter()
                            .filter(|option| !is_listed(option))
                            .map(|option| format!("`{option}`")),
                    );
                }
                ResultType::Any | ResultType::Null | ResultType::Text => may_match = true,
                _ => {}
            }
        }
        let help = "add it to `of`, or compute a name that `of` has";
        if !may_match {
            let message = format!("`{text}` is {}, which is never a name in `of`", describe(&kind));
            self.report(Diagnostic::error("not-in-of", message, expression.span()).help(help), Some(step));
        } else if !others.is_empty() {
            let message = format!(
                "`{text}` can be {}, which `of` does not have: the step then fails",
                others.join(" or ")
            );
            self.report(Diagnostic::warning("not-in-of", message, expression.span()).help(help), Some(step));
        }
    }
}
