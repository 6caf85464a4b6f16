//! Reports pauses whose length or end can never be one. Codes: `invalid-duration`, `invalid-instant`.

use expression::{Expression, Template};
use model::ResultType;
use model::automation::Step;
use text::diagnostic::Diagnostic;
use text::units::{parse_fixed_period, suggest_duration};
use value::budget::Budget;
use value::instant::Instant;
use value::{Map, Value};

use super::{Checker, describe};

impl<'a> Checker<'a> {
    /// Reports a computed pause that is never a duration.
    pub(super) fn pause(&mut self, length: &'a Template, step: &'a Step) {
        if let Template::Expression(expression) = length {
            self.duration(expression, "wait", step);
        }
    }

    /// Reports the expression of a key that is never a duration.
    pub(super) fn duration(&mut self, expression: &'a Expression, key: &str, step: &'a Step) {
        let text = expression.text();
        if let Some(Value::String(written)) = constant(expression) {
            if let Err(error) = parse_fixed_period(&written) {
                let diagnostic = Diagnostic::error("invalid-duration", error.to_string(), expression.span());
                self.corrected(diagnostic, expression, suggest_duration(&written).map(quoted), step);
            }
            return;
        }
        let kind = self.types.expression(expression, Some(step));
        let may_be = |kind: &ResultType| {
            matches!(kind, ResultType::Any | ResultType::Null | ResultType::Text | ResultType::Choice { .. })
        };
        if kind.alternatives().iter().any(may_be) {
            return;
        }
        let message = format!("`{key}` needs a duration such as `10s`, but `{text}` is {}", describe(&kind));
        let diagnostic = Diagnostic::error("invalid-duration", message, expression.span());
        let help = format!("write the unit after it, such as `{key}: ${{{{ {text} ~ 's' }}}}` for seconds");
        self.report(if is_number(&kind) { diagnostic.help(help) } else { diagnostic }, Some(step));
    }

    /// Reports the end of a pause that is never an instant.
    pub(super) fn instant(&mut self, until: &'a Expression, step: &'a Step) {
        const HELP: &str = "write date, time and zone, such as `'2026-03-01T09:00:00Z'`, or compute it: `addDuration(now(), '2h')`";
        let error = |message: String| Diagnostic::error("invalid-instant", message, until.span());
        if let Some(value) = constant(until) {
            if Instant::from_value(&value).is_some() {
                return;
            }
            let written = value.to_text();
            let diagnostic = error(format!("`{written}` is not an instant"));
            let written = written.trim();
            let length = parse_fixed_period(written)
                .map(|_| written.to_owned())
                .ok()
                .or_else(|| suggest_duration(written));
            if let Some(length) = length {
                self.corrected(diagnostic, until, Some(format!("addDuration(now(), '{length}')")), step);
            } else if value.as_str().is_some() && written.parse::<i64>().is_ok() {
                self.corrected(diagnostic, until, Some(written.to_owned()), step);
            } else if Instant::parse_in(written, &jiff::tz::TimeZone::UTC).is_some() {
                let help =
                    format!("it has no zone: write `parseDate('{written}', timezone='Europe/Berlin')`");
                self.report(diagnostic.help(help), Some(step));
            } else {
                self.report(diagnostic.help(HELP), Some(step));
            }
            return;
        }
        let kind = self.types.expression(until, Some(step));
        let may_be = |kind: &ResultType| {
            let is_text = matches!(kind, ResultType::Text | ResultType::Choice { .. });
            is_text || matches!(kind, ResultType::Any | ResultType::Null) || is_number(kind)
        };
        if !kind.alternatives().iter().any(may_be) {
            let message = format!("`until` needs an instant, but `{}` is {}", until.text(), describe(&kind));
            self.report(error(message).help(HELP), Some(step));
        }
    }

    /// Reports a literal, with the one to write in its place if that is known.
    fn corrected(
        &mut self,
        diagnostic: Diagnostic,
        expression: &Expression,
        meant: Option<String>,
        step: &'a Step,
    ) {
        let diagnostic = match meant {
            Some(meant) => self.rewritten(diagnostic, expression, 0..expression.text().len(), &meant),
            None => diagnostic.help("write a number and a unit (ms, s, m, h, d), such as `'90s'`"),
        };
        self.report(diagnostic, Some(step));
    }
}

fn quoted(text: String) -> String {
    format!("'{text}'")
}

fn is_number(kind: &ResultType) -> bool {
    kind.alternatives().iter().all(|kind| matches!(kind, ResultType::Integer | ResultType::Number))
}

/// The value of an expression that reads nothing; `None` for any other, and for one that fails.
pub(super) fn constant(expression: &Expression) -> Option<Value> {
    if !expression.references().is_empty() || expression.is_nondeterministic() {
        return None;
    }
    expression.evaluate(&Value::from(Map::new()), &Budget::inline()).ok()
}
