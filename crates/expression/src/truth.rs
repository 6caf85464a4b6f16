//! The truth of a condition as far as one value decides it. All other values may be anything.

use minijinja::machinery::ast::{BinOpKind, CompareOpKind, Expr, UnaryOpKind};
use minijinja::machinery::parse_expr;

use super::dependencies::{self, Item, Link};
use super::{Code, Expression};

impl Expression {
    /// Returns the truth of the expression if the value at `path` is the text `value`; `None` if other values decide too.
    #[must_use]
    pub fn truth_if(&self, path: &[&str], value: &str) -> Option<bool> {
        let Code::Jinja(_) = &self.inner.code else { return None };
        let parsed = parse_expr(self.text()).ok()?;
        Known { path, value }.truth(&parsed)
    }
}

struct Known<'k> {
    path: &'k [&'k str],
    value: &'k str,
}

impl Known<'_> {
    fn truth(&self, expr: &Expr<'_>) -> Option<bool> {
        match expr {
            Expr::UnaryOp(op) if matches!(op.op, UnaryOpKind::Not) => {
                self.truth(&op.expr).map(|is_true| !is_true)
            }
            Expr::BinOp(op) => match op.op {
                BinOpKind::ScAnd => decided(self.truth(&op.left), self.truth(&op.right), false),
                BinOpKind::ScOr => decided(self.truth(&op.left), self.truth(&op.right), true),
                BinOpKind::Eq => self.is_equal(&op.left, &op.right),
                BinOpKind::Ne => self.is_equal(&op.left, &op.right).map(|is_equal| !is_equal),
                BinOpKind::In => self.is_in(&op.left, &op.right),
                _ => None,
            },
            Expr::Compare(chain) => match chain.ops.as_slice() {
                [op] => match op.op {
                    CompareOpKind::Eq => self.is_equal(&chain.expr, &op.expr),
                    CompareOpKind::Ne => self.is_equal(&chain.expr, &op.expr).map(|is_equal| !is_equal),
                    CompareOpKind::In => self.is_in(&chain.expr, &op.expr),
                    CompareOpKind::NotIn => self.is_in(&chain.expr, &op.expr).map(|is_in| !is_in),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    fn is_equal(&self, left: &Expr<'_>, right: &Expr<'_>) -> Option<bool> {
        let of = |member: &Expr<'_>, other: &Expr<'_>| {
            let other = text(other).filter(|_| self.is_path(member))?;
            Some(other == self.value)
        };
        of(left, right).or_else(|| of(right, left))
    }

    fn is_in(&self, member: &Expr<'_>, list: &Expr<'_>) -> Option<bool> {
        let Expr::List(list) = list else { return None };
        let texts: Option<Vec<_>> = list.items.iter().map(text).collect();
        texts.filter(|_| self.is_path(member)).map(|texts| texts.iter().any(|text| text == self.value))
    }

    fn is_path(&self, expr: &Expr<'_>) -> bool {
        let links = dependencies::direct_path(expr, &Item::default()).unwrap_or_default();
        links.len() == self.path.len()
            && links
                .iter()
                .zip(self.path)
                .all(|(link, name)| matches!(link, Link::Name(link) if link == *name))
    }
}

/// Combines two operands of `and` (`decides` is false) or `or`: one of them can decide alone.
fn decided(left: Option<bool>, right: Option<bool>, decides: bool) -> Option<bool> {
    match (left, right) {
        (Some(one), _) | (_, Some(one)) if one == decides => Some(decides),
        (Some(_), Some(_)) => Some(!decides),
        _ => None,
    }
}

fn text(expr: &Expr<'_>) -> Option<String> {
    let Expr::Const(constant) = expr else { return None };
    constant.value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use text::diagnostic::Span;

    use super::*;

    #[test]
    fn a_condition_is_decided_as_far_as_it_tests_the_value() {
        for (condition, expected) in [
            ("trigger.id == 'paid'", Some(true)),
            ("'paid' != trigger.id", Some(false)),
            ("trigger.id in ['sent', 'paid']", Some(true)),
            ("trigger.id not in ['sent', 'paid']", Some(false)),
            ("not (trigger.id == 'sent')", Some(true)),
            ("trigger.id == 'sent' and vars.a", Some(false)),
            ("trigger.id == 'paid' and vars.a", None),
            ("trigger.id == 'paid' or vars.a", Some(true)),
            ("trigger.id == 'sent' or vars.a", None),
            ("trigger.id == vars.a", None),
            ("trigger.other == 'paid'", None),
            ("vars.a", None),
        ] {
            let expression = Expression::compile(condition, Span::default()).expect("it compiles");
            assert_eq!(expression.truth_if(&["trigger", "id"], "paid"), expected, "{condition}");
        }
    }
}
