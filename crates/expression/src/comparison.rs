//! Extracts the comparisons of an expression, for checks that find comparisons that are never true.

use std::ops::Range;

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, Filter};
use minijinja::machinery::parse_expr;
use value::Value;

use super::dependencies::{self, Item, Reference};
use super::filters;
use super::program::{NULL, literal};

/// `left == right`, `left != right` or `left in right`, or what means the same: a test such as `left is eq right`, a filter with
/// a test such as `lists | selectattr('left', 'eq', right)`, or the key of a literal map as in `{'right': 1}[left]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonSite {
    /// The operands, left first.
    pub operands: [Operand; 2],
    /// True for `!=`.
    pub negated: bool,
    /// True for `in` and `not in`: the right operand is a list, the keys of a map, or a text that is searched.
    pub is_containment: bool,
    /// The end, in bytes of the expression's text.
    pub end: usize,
}

/// An operand of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operand {
    /// The path, if the operand is nothing but a path.
    pub path: Option<Reference>,
    /// Every path that the operand reads.
    pub reads: Vec<Reference>,
    /// The path whose value the operand has unless that is missing or null, and the literal in its place:
    /// `path | default('none')`.
    pub defaulted: Option<(Reference, Value)>,
    /// The path of each item, if the operand is a list that is searched.
    pub items: Option<Reference>,
    /// The values, if the operand is a literal or a list of literals; the keys, if it is a literal map that is searched.
    pub literals: Option<Vec<Value>>,
    /// The location, in bytes of the expression's text.
    pub at: Range<usize>,
}

/// Finds all comparisons of an expression.
pub(super) fn find_comparisons(text: &str) -> Vec<ComparisonSite> {
    let Ok(parsed) = parse_expr(text) else { return Vec::new() };
    let mut found = Vec::new();
    visit(&parsed, &Item::default(), text, &mut found);
    found
}

/// Finds the values without an `else` whose absence the expression does not handle.
pub(super) fn values_without_else(text: &str) -> Vec<Range<usize>> {
    fn visit(expr: &Expr<'_>, item: &Item, text: &str, optional: bool, found: &mut Vec<Range<usize>>) {
        if let Expr::IfExpr(choice) = expr
            && choice.false_expr.is_none()
            && !optional
        {
            // A condition that is a path or a call ends with the span of its last part.
            found.push(range(expr, text).start..range(&choice.test_expr, text).end);
        }
        let handles = match expr {
            Expr::Filter(filter) => filters::takes_undefined(filter.name),
            Expr::Call(call) => matches!(&call.expr, Expr::Var(name) if filters::takes_undefined(name.id)),
            Expr::Test(test) => matches!(test.name, "defined" | "undefined"),
            Expr::IfExpr(_) => optional,
            _ => false,
        };
        visit_children(expr, item, &mut |part, item| visit(part, item, text, handles, found));
    }
    let mut found = Vec::new();
    if let Ok(parsed) = parse_expr(text) {
        visit(&parsed, &Item::default(), text, false, &mut found);
    }
    found
}

fn visit(expr: &Expr<'_>, item: &Item, text: &str, found: &mut Vec<ComparisonSite>) {
    let mut compare = |left: &Expr<'_>, right: &Expr<'_>, negated: bool, is_containment: bool| {
        found.push(site(operand(left, item, text), right, (negated, is_containment), (item, text)));
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
        Expr::Test(test) => {
            if let ([CallArg::Pos(right)], Some((negated, contains))) =
                (test.args.as_slice(), comparing_test(test.name))
            {
                compare(&test.expr, right, negated, contains);
            }
        }
        // A look-up in a literal map.
        Expr::GetItem(link) if matches!(link.expr, Expr::Map(_)) => {
            compare(&link.subscript_expr, &link.expr, false, true);
        }
        Expr::Filter(filter) => found.extend(filtered(filter, item, text)),
        _ => {}
    }
    visit_children(expr, item, &mut |part, item| visit(part, item, text, found));
}

/// The comparison that a test makes: if it is negated, and if it is a containment; `None` for other tests.
fn comparing_test(name: &str) -> Option<(bool, bool)> {
    match name {
        "eq" | "equalto" | "==" | "sameas" => Some((false, false)),
        "ne" | "!=" => Some((true, false)),
        "in" => Some((false, true)),
        _ => None,
    }
}

/// The comparison of each item of a list, or of an attribute of it, by the test of a filter.
fn filtered(filter: &Filter<'_>, item: &Item, text: &str) -> Option<ComparisonSite> {
    let (read, args) = match (filter.name, filter.args.as_slice()) {
        ("select" | "reject", args) => (dependencies::item_path(filter.expr.as_ref()?, item)?, args),
        ("selectattr" | "rejectattr", [_, args @ ..]) => (dependencies::attribute(filter, item)?, args),
        _ => return None,
    };
    let [CallArg::Pos(Expr::Const(test)), CallArg::Pos(right)] = args else { return None };
    let kind = comparing_test(test.value.as_str()?)?;
    let first = filter.args.first().map(argument_value)?;
    let path = Reference::new(read, false);
    let left =
        Operand { reads: vec![path.clone()], path: Some(path), at: range(first, text), ..Operand::default() };
    Some(site(left, right, kind, (item, text)))
}

/// The comparison of an operand with the value of an expression.
fn site(
    left: Operand,
    right: &Expr<'_>,
    (negated, is_containment): (bool, bool),
    (item, text): (&Item, &str),
) -> ComparisonSite {
    let mut right_operand = operand(right, item, text);
    if is_containment {
        right_operand.items = dependencies::item_path(right, item).map(|links| Reference::new(links, false));
        if let Expr::Map(map) = right {
            right_operand.literals = map.keys.iter().map(literal_of).collect();
        }
    }
    let end = right_operand.at.end;
    ComparisonSite { operands: [left, right_operand], negated, is_containment, end }
}

/// Calls `visit` with each direct subexpression and the meaning of `item` in it.
pub(super) fn visit_children(expr: &Expr<'_>, item: &Item, visit: &mut dyn FnMut(&Expr<'_>, &Item)) {
    let mut here = |expr: &Expr<'_>| visit(expr, item);
    match expr {
        Expr::Var(_) | Expr::Const(_) => {}
        Expr::GetAttr(link) => here(&link.expr),
        Expr::GetItem(link) => {
            here(&link.expr);
            here(&link.subscript_expr);
        }
        Expr::Slice(slice) => {
            here(&slice.expr);
            [&slice.start, &slice.stop, &slice.step].into_iter().flatten().for_each(here);
        }
        Expr::UnaryOp(op) => here(&op.expr),
        Expr::BinOp(op) => {
            here(&op.left);
            here(&op.right);
        }
        Expr::Compare(chain) => {
            here(&chain.expr);
            chain.ops.iter().for_each(|operand| here(&operand.expr));
        }
        Expr::IfExpr(choice) => {
            here(&choice.test_expr);
            here(&choice.true_expr);
            choice.false_expr.iter().for_each(here);
        }
        Expr::Filter(filter) => {
            filter.expr.iter().for_each(here);
            let inside = item.inside(filter);
            for argument in &filter.args {
                match (argument, &inside) {
                    (CallArg::Kwarg(name, expr), Some(inside))
                        if filters::takes_expression(filter.name, name) =>
                    {
                        visit(expr, inside);
                    }
                    (argument, _) => visit(argument_value(argument), item),
                }
            }
        }
        Expr::Test(test) => {
            here(&test.expr);
            test.args.iter().map(argument_value).for_each(here);
        }
        Expr::Call(call) => {
            here(&call.expr);
            call.args.iter().map(argument_value).for_each(here);
        }
        Expr::List(list) => list.items.iter().for_each(here),
        Expr::Tuple(tuple) => tuple.items.iter().for_each(here),
        Expr::Map(map) => map.keys.iter().chain(&map.values).for_each(here),
    }
}

fn argument_value<'a>(argument: &'a CallArg<'a>) -> &'a Expr<'a> {
    match argument {
        CallArg::Pos(expr)
        | CallArg::Kwarg(_, expr)
        | CallArg::PosSplat(expr)
        | CallArg::KwargSplat(expr) => expr,
    }
}

pub(super) fn operand(expr: &Expr<'_>, item: &Item, text: &str) -> Operand {
    let mut reads = Vec::new();
    paths(expr, item, &mut reads);
    let path = dependencies::direct_path(expr, item).filter(|_| !matches!(expr, Expr::Filter(_)));
    Operand {
        path: path.map(|links| Reference::new(links, false)),
        reads,
        defaulted: defaulted(expr, item),
        items: None,
        literals: literals(expr),
        at: range(expr, text),
    }
}

/// The path and the literal of `path | default(literal)`, or of `coalesce(path, literal)`.
fn defaulted(expr: &Expr<'_>, item: &Item) -> Option<(Reference, Value)> {
    let (name, subject, args) = match expr {
        Expr::Filter(filter) => (filter.name, filter.expr.as_ref()?, filter.args.as_slice()),
        Expr::Call(call) => match (&call.expr, call.args.as_slice()) {
            (Expr::Var(name), [CallArg::Pos(subject), args @ ..]) => (name.id, subject, args),
            _ => return None,
        },
        _ => return None,
    };
    let [CallArg::Pos(literal), ..] = args else { return None };
    let path = filters::takes_undefined(name).then(|| dependencies::direct_path(subject, item))??;
    Some((Reference::new(path, false), literal_of(literal)?))
}

/// The location of an operand.
pub(super) fn range(expr: &Expr<'_>, text: &str) -> Range<usize> {
    let end = (expr.span().end_offset as usize).min(text.len());
    operand_start(expr).min(end)..end
}

/// Collects the paths that an expression reads, each at its full length.
fn paths(expr: &Expr<'_>, item: &Item, found: &mut Vec<Reference>) {
    match (dependencies::direct_path(expr, item).filter(|_| !matches!(expr, Expr::Filter(_))), expr) {
        (Some(links), _) => found.push(Reference::new(links, false)),
        // The name of a function is not a path.
        (None, Expr::Call(call)) => {
            call.args.iter().for_each(|part| paths(argument_value(part), item, found))
        }
        (None, _) => visit_children(expr, item, &mut |part, item| paths(part, item, found)),
    }
}

fn literals(expr: &Expr<'_>) -> Option<Vec<Value>> {
    match expr {
        Expr::List(list) => list.items.iter().map(literal_of).collect(),
        expr => literal_of(expr).map(|value| vec![value]),
    }
}

/// The value of a literal; `None` for any other expression.
pub(super) fn literal_of(expr: &Expr<'_>) -> Option<Value> {
    match expr {
        Expr::Const(constant) => literal(&constant.value),
        Expr::Var(var) if var.id == NULL => Some(Value::Null),
        _ => None,
    }
}

/// The start of an operand's first token. MiniJinja's own span starts later for some nodes.
pub(super) fn operand_start(expr: &Expr<'_>) -> usize {
    let first = match expr {
        Expr::BinOp(op) => &op.left,
        Expr::Compare(compare) => &compare.expr,
        Expr::Test(test) => &test.expr,
        Expr::Filter(filter) => match &filter.expr {
            Some(inner) => inner,
            None => return expr.span().start_offset as usize,
        },
        Expr::IfExpr(choice) => &choice.true_expr,
        Expr::Call(call) => &call.expr,
        Expr::GetAttr(link) => &link.expr,
        Expr::GetItem(link) => &link.expr,
        Expr::Slice(slice) => &slice.expr,
        _ => return expr.span().start_offset as usize,
    };
    operand_start(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let link = |link: dependencies::Link| match link {
            dependencies::Link::Name(name) => name.to_string(),
            _ => "*".to_owned(),
        };
        let show = |operand: &Operand| match (&operand.path, &operand.literals) {
            (Some(path), _) => path.links().map(link).collect::<Vec<_>>().join("."),
            (None, Some(values)) => values.iter().map(Value::to_json).collect::<Vec<_>>().join(","),
            (None, None) => format!("{} paths", operand.reads.len()),
        };
        let sign = |found: &ComparisonSite| match (found.is_containment, found.negated) {
            (false, false) => "==",
            (false, true) => "!=",
            (true, false) => "in",
            (true, true) => "not in",
        };
        let found = find_comparisons(text);
        let found = found
            .iter()
            .map(|it| format!("{} {} {}", show(&it.operands[0]), sign(it), show(&it.operands[1])));
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
        check("a is eq 'x' and b is not in ['y']", &[r#"a == "x""#, r#"b in "y""#]);
        check("a is sameas 'x'", &[r#"a == "x""#]);
    }

    #[test]
    fn filters_and_lookups_compare_too() {
        check("a | selectattr('b.c', 'equalto', 'x')", &[r#"a.*.b.c == "x""#]);
        check("a.b | rejectattr('c', '!=', 'x') | list", &[r#"a.b.*.c != "x""#]);
        check("a | select('in', ['x', 'y'])", &[r#"a.* in "x","y""#]);
        check("a | map(attribute='b') | reject('eq', 'x')", &[r#"a.*.b == "x""#]);
        check("{'x': 1, 'y': 2}[a.b]", &[r#"a.b in "x","y""#]);
        check("a in {'x': 1}", &[r#"a in "x""#]);
        check("a | select(by=item.b == 'x')", &[r#"a.*.b == "x""#]);
        check("a | selectattr('b')", &[]);
        check("a | selectattr('b', 'startingwith', 'x')", &[]);
        check("f(a) | select('eq', 'x')", &[]);
    }

    #[test]
    fn a_default_and_the_items_of_a_list_are_found() {
        let found = |text: &str| find_comparisons(text).remove(0).operands;
        let [left, _] = found("a.b | default('none') == 'x'");
        let (path, literal) = left.defaulted.expect("it has a default");
        assert_eq!((path.path.len(), literal), (2, "none".into()));
        assert!(found("coalesce(a.b, 'none') == 'x'")[0].defaulted.is_some());
        assert!(found("a.b | lower == 'x'")[0].defaulted.is_none());
        let items = found("'x' in a | map(attribute='b')")[1].items.clone().expect("it is a list");
        assert_eq!(items.links().collect::<Vec<_>>().len(), 3);
        assert!(found("'x' == a")[1].items.is_none());
    }
}
