//! The comparisons of an expression, for checks of whether they can ever hold.

use std::ops::Range;

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr};
use minijinja::machinery::parse_expr;

use super::program::literal;
use super::reading::{self, Reference};
use crate::value::Value;

/// `left == right`, `left != right` or `left in right`.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Its sides, in order.
    pub sides: [Side; 2],
    /// True for `!=`.
    pub negated: bool,
    /// True for `in`, that of `not in` included: the right side is a list, or a text that is searched.
    pub within: bool,
    /// Where it ends, in bytes of the expression's text.
    pub end: usize,
}

/// One side of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// The path whose value it is, where it is nothing else.
    pub path: Option<Reference>,
    /// Every path that is read on this side.
    pub reads: Vec<Reference>,
    /// Its values where it is a literal, or a list of literals.
    pub literals: Option<Vec<Value>>,
    /// Where it stands, in bytes of the expression's text.
    pub at: Range<usize>,
}

/// All comparisons of an expression.
pub(super) fn find(text: &str) -> Vec<Compared> {
    let Ok(parsed) = parse_expr(text) else { return Vec::new() };
    let mut found = Vec::new();
    visit(&parsed, text, &mut found);
    found
}

fn visit(expr: &Expr<'_>, text: &str, found: &mut Vec<Compared>) {
    let mut compare = |left: &Expr<'_>, right: &Expr<'_>, negated: bool, within: bool| {
        let sides = [side(left, text), side(right, text)];
        let end = sides[1].at.end;
        found.push(Compared { sides, negated, within, end });
    };
    match expr {
        Expr::BinOp(op) => match op.op {
            BinOpKind::Eq => compare(&op.left, &op.right, false, false),
            BinOpKind::Ne => compare(&op.left, &op.right, true, false),
            BinOpKind::In => compare(&op.left, &op.right, false, true),
            _ => {}
        },
        Expr::Compare(chain) => {
            let mut left = &chain.expr;
            for operand in &chain.ops {
                match operand.op {
                    CompareOpKind::Eq => compare(left, &operand.expr, false, false),
                    CompareOpKind::Ne => compare(left, &operand.expr, true, false),
                    CompareOpKind::In => compare(left, &operand.expr, false, true),
                    CompareOpKind::NotIn => compare(left, &operand.expr, true, true),
                    _ => {}
                }
                left = &operand.expr;
            }
        }
        _ => {}
    }
    inner(expr, &mut |part| visit(part, text, found));
}

/// Calls `look` with each expression directly inside another.
fn inner(expr: &Expr<'_>, look: &mut dyn FnMut(&Expr<'_>)) {
    match expr {
        Expr::Var(_) | Expr::Const(_) => {}
        Expr::GetAttr(link) => look(&link.expr),
        Expr::GetItem(link) => {
            look(&link.expr);
            look(&link.subscript_expr);
        }
        Expr::Slice(slice) => {
            look(&slice.expr);
            [&slice.start, &slice.stop, &slice.step].into_iter().flatten().for_each(look);
        }
        Expr::UnaryOp(op) => look(&op.expr),
        Expr::BinOp(op) => {
            look(&op.left);
            look(&op.right);
        }
        Expr::Compare(chain) => {
            look(&chain.expr);
            chain.ops.iter().for_each(|operand| look(&operand.expr));
        }
        Expr::IfExpr(choice) => {
            look(&choice.test_expr);
            look(&choice.true_expr);
            choice.false_expr.iter().for_each(look);
        }
        Expr::Filter(filter) => {
            filter.expr.iter().for_each(&mut *look);
            arguments(&filter.args, look);
        }
        Expr::Test(test) => {
            look(&test.expr);
            arguments(&test.args, look);
        }
        Expr::Call(call) => {
            look(&call.expr);
            arguments(&call.args, look);
        }
        Expr::List(list) => list.items.iter().for_each(look),
        Expr::Tuple(tuple) => tuple.items.iter().for_each(look),
        Expr::Map(map) => map.keys.iter().chain(&map.values).for_each(look),
    }
}

fn arguments(arguments: &[CallArg<'_>], look: &mut dyn FnMut(&Expr<'_>)) {
    for argument in arguments {
        match argument {
            CallArg::Pos(expr)
            | CallArg::Kwarg(_, expr)
            | CallArg::PosSplat(expr)
            | CallArg::KwargSplat(expr) => look(expr),
        }
    }
}

fn side(expr: &Expr<'_>, text: &str) -> Side {
    let mut reads = Vec::new();
    paths(expr, &mut reads);
    let path = reading::whole(expr).filter(|_| !matches!(expr, Expr::Filter(_)));
    let end = (expr.span().end_offset as usize).min(text.len());
    let start = super::constant::start(expr).min(end);
    Side {
        path: path.map(|links| Reference::of(links, false)),
        reads,
        literals: literals(expr),
        at: start..end,
    }
}

/// The paths that an expression reads, the longest of each.
fn paths(expr: &Expr<'_>, found: &mut Vec<Reference>) {
    match (reading::whole(expr).filter(|_| !matches!(expr, Expr::Filter(_))), expr) {
        (Some(links), _) => found.push(Reference::of(links, false)),
        // The name of a function is no path.
        (None, Expr::Call(call)) => arguments(&call.args, &mut |part| paths(part, found)),
        (None, _) => inner(expr, &mut |part| paths(part, found)),
    }
}

fn literals(expr: &Expr<'_>) -> Option<Vec<Value>> {
    match expr {
        Expr::Const(constant) => Some(vec![literal(&constant.value)?]),
        Expr::List(list) => list
            .items
            .iter()
            .map(|item| match item {
                Expr::Const(constant) => literal(&constant.value),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let side = |side: &Side| match (&side.path, &side.literals) {
            (Some(path), _) => path.path.iter().map(|name| name.as_str()).collect::<Vec<_>>().join("."),
            (None, Some(values)) => values.iter().map(Value::to_json).collect::<Vec<_>>().join(","),
            (None, None) => format!("{} paths", side.reads.len()),
        };
        let sign = |found: &Compared| match (found.within, found.negated) {
            (false, false) => "==",
            (false, true) => "!=",
            (true, false) => "in",
            (true, true) => "not in",
        };
        let found = find(text);
        let found =
            found.iter().map(|it| format!("{} {} {}", side(&it.sides[0]), sign(it), side(&it.sides[1])));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn comparisons_are_found_with_what_they_compare() {
        check("a.b == 'x'", &[r#"a.b == "x""#]);
        check("'x' != a['c-d']", &[r#""x" != a.c-d"#]);
        check("a in ['x', 1] and not b", &[r#"a in "x",1"#]);
        check("a not in b", &["a in b"]);
        check("a != b == c", &["a != b", "b == c"]);
        check("(a | lower) == hmac(b, c)", &["1 paths == 2 paths"]);
        check("1 if a == true else 2", &["a == true"]);
        check("a < 2 or b is defined", &[]);
    }
}
