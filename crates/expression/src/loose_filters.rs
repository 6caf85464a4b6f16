//! Filters that apply to less than they were probably meant for: a filter binds closer than an operator.

use std::ops::Range;

use minijinja::machinery::ast::{BinOpKind, Expr};
use minijinja::machinery::parse_expr;

use super::comparison::{literal_of, operand_start, visit_children};
use super::dependencies::Item;
use super::operation::{OperationKind, operation};

/// A filter that applies to the right operand of an operator only, which is a literal, or which is rounded alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LooseFilter {
    /// The name of the filter.
    pub name: String,
    /// The location of the operation that the filter was probably meant for, without the filter.
    pub operation: Range<usize>,
    /// The location of the operand that the filter applies to.
    pub operand: Range<usize>,
    /// The location of the filter, from behind its operand on.
    pub filter: Range<usize>,
}

/// Finds filters that bind closer than they were meant to: `price * 1.19 | round(2)`.
pub(super) fn find_loose_filters(text: &str) -> Vec<LooseFilter> {
    let Ok(parsed) = parse_expr(text) else { return Vec::new() };
    let mut found = Vec::new();
    loose_filters(&parsed, text, &mut found);
    found
}

fn loose_filters(expr: &Expr<'_>, text: &str, found: &mut Vec<LooseFilter>) {
    if let Expr::BinOp(op) = expr
        && let Expr::Filter(filter) = &op.right
        && let Some(subject) = &filter.expr
    {
        let is_arithmetic = matches!(operation(op.op), Some(OperationKind::Arithmetic | OperationKind::Sum));
        let is_joined = matches!(op.op, BinOpKind::Concat);
        let is_literal = literal_of(subject).is_some_and(|value| !value.is_null());
        let rounds = filter.name == "round" && !matches!(op.left, Expr::Filter(_));
        let end = |expr: &Expr<'_>| (expr.span().end_offset as usize).min(text.len());
        let operand = operand_start(subject)..end(subject);
        if ((is_arithmetic && (is_literal || rounds)) || (is_joined && is_literal))
            && !is_bracketed(&operand, text)
        {
            found.push(LooseFilter {
                name: filter.name.to_owned(),
                operation: operand_start(&op.left).min(operand.start)..operand.end,
                filter: operand.end..end(&op.right).max(operand.end),
                operand,
            });
        }
    }
    visit_children(expr, &Item::default(), &mut |part, _| loose_filters(part, text, found));
}

/// True if the brackets around an operand contain its filter too: `('1.19' | decimal)`.
fn is_bracketed(operand: &Range<usize>, text: &str) -> bool {
    let (before, after) = (text.get(..operand.start), text.get(operand.end..));
    before.is_some_and(|before| before.trim_end().ends_with('('))
        && after.is_some_and(|after| !after.trim_start().starts_with(')'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_applied_only_to_the_last_operand_is_reported() {
        let check = |text: &str, expected: Option<&str>| {
            let found = find_loose_filters(text);
            let shown = found.first().map(|loose| {
                format!(
                    "{}|{}|{}",
                    &text[loose.operation.clone()],
                    &text[loose.operand.clone()],
                    &text[loose.filter.clone()]
                )
            });
            assert_eq!(shown.as_deref(), expected, "{text}");
        };
        check("price * 1.19 | round(2)", Some("price * 1.19|1.19| | round(2)"));
        check("a.b / c.d | round(2)", Some("a.b / c.d|c.d| | round(2)"));
        check("a ~ '/' | urlencode", Some("a ~ '/'|'/'| | urlencode"));
        check("a + b | default(0)", None);
        check("a | int + b | int", None);
        check("(price * 1.19) | round(2)", None);
        check("a | round(1) + b | round(1)", None);
        check("a ~ b | upper", None);
        check("a * ('1.19' | decimal)", None);
        check("a * (b / 3 | round(2))", Some("b / 3|3| | round(2)"));
        check("a * ('1.19') | decimal", Some("a * ('1.19'|'1.19'|) | decimal"));
        check(
            "a * ('1.19' | decimal) | round(2)",
            Some("a * ('1.19' | decimal|'1.19' | decimal|) | round(2)"),
        );
    }
}
