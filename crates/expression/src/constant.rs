//! Constant operands of a condition: `'a' == 'b'`, or the `'b'` of `x == 'a' or 'b'`.

use std::ops::Range;

use minijinja::machinery::ast::{BinOpKind, Expr, UnaryOpKind};
use minijinja::machinery::parse_expr;
use value::budget::Budget;
use value::{Map, Value};

use super::comparison::operand_start;
use super::jinja::Program;

/// An operand of a condition that is constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The location, in bytes of the expression's text.
    pub at: Range<usize>,
    /// The constant truth of the operand.
    pub holds: bool,
    /// `Some(v)` if this operand forces the whole condition to `v`; `None` if it is merely redundant.
    pub forces: Option<bool>,
}

/// Finds the constant operands of a condition: the condition itself, or operands of its `and` and `or`.
pub(super) fn find_constants(text: &str) -> Vec<Constant> {
    let mut search = ConstantFinder { text, found: Vec::new() };
    let Ok(parsed) = parse_expr(text) else { return Vec::new() };
    let whole = search.constant_truth(&parsed);
    let mut found: Vec<Constant> =
        search.found.into_iter().map(|(at, holds)| Constant { at, holds, forces: whole }).collect();
    if let (Some(holds), []) = (whole, found.as_slice()) {
        found.push(Constant { at: 0..text.len(), holds, forces: whole });
    }
    found
}

struct ConstantFinder<'t> {
    text: &'t str,
    /// The constant operands of conditions that are not constant, each with its truth.
    found: Vec<(Range<usize>, bool)>,
}

impl ConstantFinder<'_> {
    /// Returns the truth of a condition if it is constant.
    fn constant_truth(&mut self, expr: &Expr<'_>) -> Option<bool> {
        match expr {
            Expr::BinOp(op) if matches!(op.op, BinOpKind::ScAnd | BinOpKind::ScOr) => {
                let decisive = matches!(op.op, BinOpKind::ScOr);
                let sides = [&op.left, &op.right].map(|side| (side, self.constant_truth(side)));
                let decided = match sides.map(|(_, holds)| holds) {
                    [Some(holds), _] | [_, Some(holds)] if holds == decisive => Some(decisive),
                    [Some(_), Some(_)] => Some(!decisive),
                    _ => None,
                };
                // If both operands are constant, the whole is, and is reported as one.
                if let [(side, Some(holds)), (_, None)] | [(_, None), (side, Some(holds))] = sides {
                    self.add(side, holds, decided.is_some());
                }
                decided
            }
            Expr::UnaryOp(op) if matches!(op.op, UnaryOpKind::Not) => {
                self.constant_truth(&op.expr).map(|holds| !holds)
            }
            _ => self.evaluate_constant(expr),
        }
    }

    /// Adds an operand. If it forces the condition, the operands inside it that were added replace it.
    fn add(&mut self, side: &Expr<'_>, holds: bool, forces: bool) {
        let at = self.range(side);
        let inside = |part: &Range<usize>| at.start <= part.start && part.end <= at.end;
        if forces && self.found.iter().any(|(part, _)| inside(part)) {
            return;
        }
        self.found.retain(|(part, _)| !inside(part));
        self.found.push((at, holds));
    }

    /// Returns the truth of an expression that reads nothing. An evaluation error is left to the run, which reports it.
    fn evaluate_constant(&self, expr: &Expr<'_>) -> Option<bool> {
        let text = self.text.get(self.range(expr))?;
        let (program, references) = Program::compile(text).ok()?;
        if !references.is_empty() || program.is_nondeterministic() {
            return None;
        }
        program
            .evaluate(text, &Value::from(Map::new()), None, &Budget::inline())
            .ok()
            .map(|value| value.is_truthy())
    }

    /// The range of an operand, without parentheses that it begins with, so that the range is either a complete expression or
    /// none.
    fn range(&self, expr: &Expr<'_>) -> Range<usize> {
        let end = (expr.span().end_offset as usize).min(self.text.len());
        let start = operand_start(expr).min(end);
        let text = self.text.get(start..end).unwrap_or_default();
        // MiniJinja includes the preceding `and` or `or` in the span of a `not`.
        let behind = ["and", "or"].iter().find_map(|word| {
            text.strip_prefix(word)
                .filter(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        });
        let rest = behind.unwrap_or(text).trim_start();
        end - rest.len()..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each operand, prefixed with the truth it forces (`+` true, `!` false, `?` none) and its own truth.
    fn check(text: &str, expected: &[&str]) {
        let sign = |holds: Option<bool>| holds.map_or('?', |holds| if holds { '+' } else { '!' });
        let found = find_constants(text);
        let found = found
            .into_iter()
            .map(|part| format!("{}{} {}", sign(part.forces), sign(Some(part.holds)), &text[part.at]));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn a_condition_that_reads_nothing_is_constant() {
        check("true", &["++ true"]);
        check("false", &["!! false"]);
        check("'a' == 'b'", &["!! 'a' == 'b'"]);
        check("1 + 1 == 2", &["++ 1 + 1 == 2"]);
        check("not ''", &["++ not ''"]);
        check("'open'", &["++ 'open'"]);
        check("[] | length > 0", &["!! [] | length > 0"]);
        check("'a' == 'b' or 'c' == 'c'", &["++ 'a' == 'b' or 'c' == 'c'"]);
    }

    #[test]
    fn an_operand_that_decides_the_condition_is_reported() {
        check("vars.a == 'x' or 'y'", &["++ 'y'"]);
        check("vars.a == 'x' or 'y' or 'z'", &["++ 'y'"]);
        check("vars.a and false", &["!! false"]);
        check("not (vars.a or true)", &["!+ true"]);
        check("not (vars.a or true) and vars.b", &["!+ true"]);
    }

    #[test]
    fn an_operand_without_effect_is_reported() {
        check("vars.a != 'x' and 'y'", &["?+ 'y'"]);
        check("false or vars.a", &["?! false"]);
        check("(vars.a or false) and vars.b", &["?! false"]);
        check("(vars.a or true) and vars.b", &["?+ vars.a or true"]);
    }

    #[test]
    fn a_condition_that_reads_something_is_not_constant() {
        for text in [
            "vars.a",
            "vars.a == 'x' or vars.a == 'y'",
            "vars.a in ['x', 'y']",
            "not vars.a",
            "vars.a | default(true)",
            "vars.a is defined",
            "'x' in vars.a",
            "vars.a ~ 'x'",
            "vars.a is none",
            "vars.a and vars.b is not none",
            "vars.a | length == 0 or not vars.b",
            "(vars.a) is none or (vars.b) == 'x'",
            "'x' if vars.a else 'y'",
            "vars.a.b['c'] | first is none",
            "now() > '2026'",
            "vars.f('x') or vars.a",
            "(vars.a or 'x') == 'y'",
            "1 / 0",
            "a b",
        ] {
            check(text, &[]);
        }
    }
}
