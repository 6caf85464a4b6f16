//! Finds operations on texts that mean a number, a boolean or a date: `queryParameters.n > 5`, `if: queryParameters.dry`,
//! `body.data.due < now()`. Codes: `text-as-number`, `text-as-condition`, `text-as-date`,
//! `late-default`, `never-equal`, `may-be-missing`, `constant-condition`.

use std::ops::Range;

use expression::{Expression, Form, Link, Operation, OperationKind, Reference, Template, TypedOperand};
use model::ResultType;
use model::automation::Step;
use text::diagnostic::{Diagnostic, Span};
use value::Value;

use super::{Checker, path_text};

impl<'a> Checker<'a> {
    /// Checks the operations of an expression. `is_condition` is true if its own truth is tested.
    pub(super) fn operations(
        &mut self,
        expression: &'a Expression,
        is_condition: bool,
        at: Option<&'a Step>,
    ) {
        for late in expression.late_defaults() {
            let may_be_null = self.types.reference(&late.path, at).alternatives().contains(&ResultType::Null);
            if may_be_null {
                let span = self.part(expression, late.at.clone());
                let message = format!(
                    "{} may be null, on which `{}` fails before `default` applies",
                    path_text(&links_of(&late.path)),
                    late.filter
                );
                let diagnostic = Diagnostic::warning("late-default", message, span);
                let diagnostic = self.rewritten(diagnostic, expression, late.at, &late.meant);
                self.report(diagnostic, at);
            }
        }
        for operation in expression.operations(is_condition) {
            let found = match operation.kind {
                OperationKind::Truth => self.truth(expression, &operation, at),
                OperationKind::Fallback => self.fallback(expression, &operation),
                OperationKind::Equality => self
                    .date(expression, &operation, at)
                    .or_else(|| self.quoted_number(expression, &operation, at)),
                OperationKind::Order => self
                    .date(expression, &operation, at)
                    .or_else(|| self.number(expression, &operation, at))
                    .or_else(|| self.quoted_number(expression, &operation, at)),
                OperationKind::Sum => self
                    .joined(expression, &operation, at)
                    .or_else(|| self.number(expression, &operation, at)),
                OperationKind::Arithmetic => self.number(expression, &operation, at),
            };
            if let Some(diagnostic) = found {
                self.report(diagnostic, at);
            }
        }
    }

    /// A text of the expression itself that is added to a number.
    fn joined(
        &self,
        expression: &Expression,
        operation: &Operation,
        at: Option<&'a Step>,
    ) -> Option<Diagnostic> {
        let [left, right] = operation.operands.as_slice() else { return None };
        let is_own_text = |operand: &TypedOperand| operand.form == Form::Text && operand.path.is_none();
        let joins = (is_own_text(left) && self.is_number(right, at))
            || (is_own_text(right) && self.is_number(left, at));
        if !joins {
            return None;
        }
        let of = |operand: &TypedOperand| expression.text().get(operand.at.clone()).unwrap_or_default();
        let span = self.part(expression, operation.at.clone());
        let diagnostic = Diagnostic::warning("text-as-number", "`+` does not join a text and a number", span);
        Some(self.rewritten(
            diagnostic,
            expression,
            operation.at.clone(),
            &format!("{} ~ {}", of(left), of(right)),
        ))
    }

    /// A text that is compared or calculated with a number.
    fn number(
        &self,
        expression: &Expression,
        operation: &Operation,
        at: Option<&'a Step>,
    ) -> Option<Diagnostic> {
        let [left, right] = operation.operands.as_slice() else { return None };
        let (text, path, other) = [(left, right), (right, left)]
            .into_iter()
            .find_map(|(text, other)| Some((text, self.textual(text, at)?, other)))?;
        let is_order = operation.kind == OperationKind::Order;
        let spells_number =
            |literal: &Value| is_order && literal.as_str().is_some_and(|text| text.parse::<f64>().is_ok());
        let is_number = self.is_number(other, at) || other.literal.as_ref().is_some_and(spells_number);
        // Two texts may be joined and ordered; they are never subtracted.
        if !is_number && (operation.kind != OperationKind::Arithmetic || self.textual(other, at).is_none()) {
            return None;
        }
        let (name, span, written) = self.shown(expression, text, path);
        let what = match (operation.kind, other.form) {
            (OperationKind::Order, Form::Text) => {
                "two texts are compared letter by letter, so `'10'` is less than `'9'`"
            }
            (OperationKind::Order, _) => "a text is greater than every number",
            (OperationKind::Sum, _) => "a text and a number cannot be added",
            _ => "a text is no number to calculate with, and `*` repeats it",
        };
        let filter = match &other.literal {
            _ if other.form == Form::Decimal => "decimal",
            Some(Value::Number(number)) if number.is_f64() => "float",
            Some(Value::String(text)) if text.contains('.') => "float",
            _ => "int",
        };
        let number = format!("{written} | {filter}");
        let diagnostic = Diagnostic::warning("text-as-number", format!("{name} is text: {what}"), span);
        let (Some(Value::String(literal)), true) = (&other.literal, is_order) else {
            return Some(self.rewritten(diagnostic, expression, text.at.clone(), &number));
        };
        // Both sides become numbers.
        let (from, to) = (operation.at.start, operation.at.end);
        let whole = expression.text().get(from..to).unwrap_or_default();
        let quoted = expression.text().get(other.at.clone()).unwrap_or_default();
        let meant = whole.replacen(written, &number, 1).replacen(quoted, literal, 1);
        Some(self.rewritten(diagnostic, expression, from..to, &meant))
    }

    /// A number that is compared with a text that spells one. The types of paths are compared elsewhere for equality.
    fn quoted_number(
        &self,
        expression: &Expression,
        operation: &Operation,
        at: Option<&'a Step>,
    ) -> Option<Diagnostic> {
        let [left, right] = operation.operands.as_slice() else { return None };
        let is_equality = operation.kind == OperationKind::Equality;
        let spelled = |operand: &TypedOperand| {
            let text = operand.literal.as_ref()?.as_str()?.trim().to_owned();
            text.parse::<f64>().is_ok().then_some(text)
        };
        let (text, other, literal) =
            [(left, right), (right, left)].into_iter().find_map(|(text, other)| {
                let is_number = if is_equality { is_numeric(other.form) } else { self.is_number(other, at) };
                Some((text, other, spelled(text)?)).filter(|_| is_number && other.literal.is_none())
            })?;
        let name = expression.text().get(other.at.clone()).unwrap_or_default();
        let span = self.part(expression, text.at.clone());
        let diagnostic = match is_equality {
            true => {
                let message = format!("`{name}` is a number, which never equals the text `{literal}`");
                Diagnostic::warning("never-equal", message, span)
            }
            false => {
                let message = format!("`{name}` is a number, and every text is greater than a number");
                Diagnostic::warning("text-as-number", message, span)
            }
        };
        Some(self.rewritten(diagnostic, expression, text.at.clone(), &literal))
    }

    /// `x or 'y'`, which fails where a parameter or header is missing.
    fn fallback(&self, expression: &Expression, operation: &Operation) -> Option<Diagnostic> {
        let [left, right] = operation.operands.as_slice() else { return None };
        let path = left.path.as_ref().filter(|_| left.default.is_none())?;
        let names: Vec<&str> = path.path.iter().map(|name| name.as_str()).collect();
        if !matches!(names.as_slice(), ["trigger", "results", "queryParameters" | "headers", _]) {
            return None;
        }
        let (name, span, written) = self.shown(expression, left, path);
        let literal = expression.text().get(right.at.clone())?;
        let message = format!("{name} may be missing, and `or` does not replace what is missing");
        let diagnostic = Diagnostic::warning("may-be-missing", message, span);
        let meant = format!("{written} | default({literal}, true)");
        Some(self.rewritten(diagnostic, expression, operation.at.clone(), &meant))
    }

    /// A date from outside that is compared with one in the form of `now()`.
    fn date(
        &self,
        expression: &Expression,
        operation: &Operation,
        at: Option<&'a Step>,
    ) -> Option<Diagnostic> {
        let [left, right] = operation.operands.as_slice() else { return None };
        let other = match (left.form, right.form) {
            (Form::Instant, Form::Instant) => return None,
            (Form::Instant, _) => right,
            (_, Form::Instant) => left,
            _ => return None,
        };
        let path = other.path.as_ref().filter(|path| self.comes_from_outside(path, 0))?;
        let kind = self.types.reference(path, at);
        let may_be_text = |kind: &ResultType| matches!(kind, ResultType::Any | ResultType::Text);
        if !kind.alternatives().iter().any(may_be_text) {
            return None;
        }
        let (name, span, written) = self.shown(expression, other, path);
        let message =
            format!("{name} is compared as a text: dates in another form or time zone are ordered wrongly");
        let diagnostic = Diagnostic::warning("text-as-date", message, span);
        Some(self.rewritten(diagnostic, expression, other.at.clone(), &format!("parseDate({written})")))
    }

    /// A text as a condition, which is true for `false` and `0` too.
    fn truth(
        &self,
        expression: &Expression,
        operation: &Operation,
        at: Option<&'a Step>,
    ) -> Option<Diagnostic> {
        let operand = operation.operands.first()?;
        let whole = operand.path.as_ref().filter(|_| operand.default.is_none());
        if let Some(path) = whole.filter(|path| self.step_read(path).is_some()) {
            let (name, span, written) = self.shown(expression, operand, path);
            let message = format!("{name} is the whole step, a map, which is always true");
            let help =
                format!("write `{written}.error is none` for its success, or a field of `{written}.results`");
            return Some(Diagnostic::warning("constant-condition", message, span).help(help));
        }
        let path = self.textual(operand, at)?;
        let names: Vec<&str> = path.path.iter().map(|name| name.as_str()).collect();
        let is_flag = matches!(operand.default, Some(Value::Bool(_)));
        let is_parameter = match names.as_slice() {
            ["trigger", "results", "headers", ..] => is_flag,
            ["trigger", "results", "queryParameters", _] => operand.default.is_none() || is_flag,
            _ => operand.default.is_none() && self.is_cell(path, at) || is_flag,
        };
        if !is_parameter {
            return None;
        }
        let (name, span, written) = self.shown(expression, operand, path);
        let message =
            format!("{name} is text, and every text but the empty one is true, `'false'` and `'0'` too");
        let diagnostic = Diagnostic::warning("text-as-condition", message, span);
        let meant = format!("{written} | bool");
        if is_flag {
            return Some(self.rewritten(diagnostic, expression, operand.at.clone(), &meant));
        }
        let presence = match path.suffix.is_empty() {
            true => format!("`{} | default('') != ''`", path.path.join(".")),
            false => "a comparison with `''`".to_owned(),
        };
        Some(diagnostic.help(format!(
            "write `{meant}` for the boolean that it spells, or {presence} to ask for any text"
        )))
    }

    /// The path of an operand in words, and its place and text.
    fn shown<'e>(
        &self,
        expression: &'e Expression,
        operand: &TypedOperand,
        path: &Reference,
    ) -> (String, Span, &'e str) {
        let span = self.part(expression, operand.at.clone());
        let written = expression.text().get(operand.at.clone()).unwrap_or_default();
        (path_text(&links_of(path)), span, written)
    }

    /// Adds the fix: another text for a part of the expression.
    pub(super) fn rewritten(
        &self,
        diagnostic: Diagnostic,
        expression: &Expression,
        at: Range<usize>,
        meant: &str,
    ) -> Diagnostic {
        let diagnostic = diagnostic.help(format!("write `{meant}`"));
        let place = expression.place_in(&self.automation.source, at);
        diagnostic.replacement(place.map(|place| (place, meant.to_owned())))
    }

    /// The path of an operand whose value is a text for certain.
    fn textual<'o>(&self, operand: &'o TypedOperand, at: Option<&'a Step>) -> Option<&'o Reference> {
        let path = operand.path.as_ref()?;
        super::compared::is_textual(&self.types.reference(path, at)).then_some(path)
    }

    fn is_number(&self, operand: &TypedOperand, at: Option<&'a Step>) -> bool {
        let is_typed = operand.path.as_ref().is_some_and(|path| {
            let kind = self.types.reference(path, at);
            kind.alternatives().iter().all(|kind| matches!(kind, ResultType::Integer | ResultType::Number))
        });
        is_numeric(operand.form) || matches!(operand.literal, Some(Value::Number(_))) || is_typed
    }

    /// True if the path is a cell of a table of texts, such as the rows of `parseCsv`.
    fn is_cell(&self, path: &Reference, at: Option<&'a Step>) -> bool {
        let Some((_, parent)) = path.path.split_last().filter(|_| path.suffix.is_empty()) else {
            return false;
        };
        let Some((kind, depth)) = self.types.base(parent, at).filter(|(_, depth)| *depth == parent.len())
        else {
            return false;
        };
        depth > 0 && matches!(&kind, ResultType::Map { values } if **values == ResultType::Text)
    }

    /// True if a value comes from outside of the file, so that a date in it may have any form.
    fn comes_from_outside(&self, path: &Reference, depth: usize) -> bool {
        let names: Vec<&str> = path.path.iter().map(|name| name.as_str()).collect();
        match names.as_slice() {
            ["trigger", "results", "scheduledAt" | "startedAt" | "polledAt"] => false,
            ["trigger", "results", ..] => true,
            ["inputs", _, ..] => true,
            ["steps", id, "results", _, ..] => {
                let is_action = |step: &Step| matches!(&step.verb, model::Verb::Action(call) if !call.action.name.starts_with("state."));
                self.types.step_of(id).is_some_and(is_action)
            }
            ["vars", name] if depth < 4 => self.types.setters_of(name).iter().any(|(value, _)| match value {
                Template::Expression(expression) => match expression.direct_path() {
                    Some(expression::DirectPath::One(read)) => self.comes_from_outside(read, depth + 1),
                    _ => false,
                },
                _ => false,
            }),
            ["state" | "execution" | "vars" | "configVars" | "automation" | "steps", ..] | [] => false,
            // The item of a loop, or an event.
            [_, _, ..] => true,
            _ => false,
        }
    }
}

fn is_numeric(form: Form) -> bool {
    matches!(form, Form::Number | Form::Decimal)
}

fn links_of(path: &Reference) -> Vec<Link> {
    path.links().collect()
}
