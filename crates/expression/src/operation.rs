//! The operations of an expression whose meaning depends on the types of their operands: orders, arithmetic, truths. Checks
//! with knowledge of types find the silently wrong operations: a text compared with a number, a date compared as a text.

use std::ops::Range;

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, Filter, UnaryOpKind};
use minijinja::machinery::parse_expr;
use value::Value;

use super::comparison::{literal_of, operand_start, visit_children};
use super::dependencies::{self, Item, Reference};
use super::filters::{self, BY};
use super::tokens::{Kind, Tokens};

/// An operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The kind.
    pub kind: OperationKind,
    /// The operands: two, or the one whose truth is tested.
    pub operands: Vec<TypedOperand>,
    /// The location, in bytes of the expression's text.
    pub at: Range<usize>,
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// `<`, `<=`, `>` or `>=`.
    Order,
    /// `==` or `!=`.
    Equality,
    /// `+`, which also joins two texts.
    Sum,
    /// Another arithmetic operator.
    Arithmetic,
    /// `x or 'y'`: a value with a literal in place of an empty one.
    Fallback,
    /// A test of the truth of a value: a condition, `not`, `and`, `or`, `a if c else b`.
    Truth,
}

/// An operand with what its own form says about its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypedOperand {
    /// The path, if the operand is a path, or one with `default`.
    pub path: Option<Reference>,
    /// The value of `default`, if the operand is a path with a literal default.
    pub default: Option<Value>,
    /// The value, if the operand is a literal.
    pub literal: Option<Value>,
    /// The type of a call's or a filter's result.
    pub form: Form,
    /// The location, in bytes of the expression's text.
    pub at: Range<usize>,
}

/// The type of an expression's value as far as its outermost operation says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Unknown.
    #[default]
    Unknown,
    /// A date in the one form that dates are compared in.
    Instant,
    /// A text.
    Text,
    /// A number.
    Number,
    /// An exact number, which leaves the expression as a text.
    Decimal,
    /// A boolean.
    Boolean,
    /// A list of texts.
    Texts,
    /// A list of maps of texts.
    Rows,
}

/// Functions and filters by the form of their result.
const FORMS: [(Form, &[&str]); 7] = [
    (Form::Instant, &["now", "parseDate", "addDuration", "startOf"]),
    (Form::Number, &["int", "float", "length", "count", "round", "abs", "sum", "dateDiff", "duration"]),
    (
        Form::Text,
        &[
            "string",
            "upper",
            "lower",
            "trim",
            "title",
            "capitalize",
            "replace",
            "join",
            "tojson",
            "formatDate",
            "hash",
            "hmac",
            "urlencode",
            "toCsv",
            "uuid",
            "escape",
            "e",
            "format",
            "indent",
            "pprint",
            "replaceMatches",
        ],
    ),
    (Form::Decimal, &["decimal"]),
    (Form::Boolean, &["bool", "matches"]),
    (Form::Texts, &["split", "lines"]),
    (Form::Rows, &["parseCsv"]),
];

/// Finds the operations of an expression. With `is_condition` its own truth is tested too.
pub(super) fn find_operations(text: &str, is_condition: bool) -> Vec<Operation> {
    let Ok(parsed) = parse_expr(text) else { return Vec::new() };
    let mut finder = Finder { text, found: Vec::new() };
    let item = Item::default();
    if is_condition {
        finder.truth(&parsed, &item);
    }
    finder.visit(&parsed, &item);
    finder.found
}

/// The form of an expression's value.
pub(super) fn find_form(text: &str) -> Form {
    parse_expr(text).map_or(Form::Unknown, |parsed| form(&parsed))
}

/// Filters that test the truth of an expression for each item.
const CHOOSING: [&str; 3] = ["select", "reject", "takeWhile"];

struct Finder<'t> {
    text: &'t str,
    found: Vec<Operation>,
}

impl Finder<'_> {
    fn visit(&mut self, expr: &Expr<'_>, item: &Item) {
        match expr {
            Expr::BinOp(op) => match op.op {
                BinOpKind::ScOr if is_fallback(&op.right) => {
                    self.pair(Some(OperationKind::Fallback), &op.left, &op.right, item);
                }
                BinOpKind::ScAnd | BinOpKind::ScOr => {
                    self.truth(&op.left, item);
                }
                kind => self.pair(operation(kind), &op.left, &op.right, item),
            },
            Expr::Compare(chain) => {
                let mut left = &chain.expr;
                for operand in &chain.ops {
                    let kind = match operand.op {
                        CompareOpKind::Lt | CompareOpKind::Lte | CompareOpKind::Gt | CompareOpKind::Gte => {
                            Some(OperationKind::Order)
                        }
                        CompareOpKind::Eq | CompareOpKind::Ne => Some(OperationKind::Equality),
                        CompareOpKind::In | CompareOpKind::NotIn => None,
                    };
                    self.pair(kind, left, &operand.expr, item);
                    left = &operand.expr;
                }
            }
            Expr::UnaryOp(op) if matches!(op.op, UnaryOpKind::Not) => self.truth(&op.expr, item),
            Expr::IfExpr(choice) => self.truth(&choice.test_expr, item),
            Expr::Filter(filter) if CHOOSING.contains(&filter.name) => {
                if let (Some(by), Some(inside)) = (dependencies::argument(filter, BY), item.inside(filter)) {
                    self.truth(by, &inside);
                }
            }
            _ => {}
        }
        visit_children(expr, item, &mut |part, item| self.visit(part, item));
    }

    /// Adds a test of truth. Of `a or b` the operands are tested.
    fn truth(&mut self, expr: &Expr<'_>, item: &Item) {
        match expr {
            Expr::BinOp(op) if matches!(op.op, BinOpKind::ScAnd | BinOpKind::ScOr) => {
                // The visit adds the left operand.
                self.truth(&op.right, item);
            }
            Expr::UnaryOp(op) if matches!(op.op, UnaryOpKind::Not) => {}
            expr => {
                let operand = self.operand(expr, item);
                let at = operand.at.clone();
                self.found.push(Operation { kind: OperationKind::Truth, operands: vec![operand], at });
            }
        }
    }

    fn pair(&mut self, kind: Option<OperationKind>, left: &Expr<'_>, right: &Expr<'_>, item: &Item) {
        let Some(kind) = kind else { return };
        let operands = vec![self.operand(left, item), self.operand(right, item)];
        let at = operands[0].at.start..operands[1].at.end;
        self.found.push(Operation { kind, operands, at });
    }

    fn operand(&self, expr: &Expr<'_>, item: &Item) -> TypedOperand {
        let end = (expr.span().end_offset as usize).min(self.text.len());
        let at = operand_start(expr).min(end)..end;
        let (subject, default) = strip_default(expr);
        let links = dependencies::direct_path(subject, item).filter(|_| !matches!(subject, Expr::Filter(_)));
        TypedOperand {
            path: links.map(|links| Reference::new(links, default.is_some())),
            default,
            literal: literal_of(expr),
            form: form(expr),
            at,
        }
    }
}

/// True for a literal that takes the place of an empty value: a text or a number.
fn is_fallback(expr: &Expr<'_>) -> bool {
    matches!(literal_of(expr), Some(Value::String(_) | Value::Number(_)))
}

/// The subject of `subject | default(literal)`, and the literal.
fn strip_default<'e>(expr: &'e Expr<'e>) -> (&'e Expr<'e>, Option<Value>) {
    let Expr::Filter(filter) = expr else { return (expr, None) };
    let Some(subject) = filter.expr.as_ref().filter(|_| matches!(filter.name, "default" | "d")) else {
        return (expr, None);
    };
    match filter.args.first() {
        None => (subject, Some(Value::from(""))),
        Some(CallArg::Pos(value)) => match literal_of(value) {
            Some(value) => (subject, Some(value)),
            None => (expr, None),
        },
        Some(_) => (expr, None),
    }
}

pub(super) fn operation(kind: BinOpKind) -> Option<OperationKind> {
    match kind {
        BinOpKind::Lt | BinOpKind::Lte | BinOpKind::Gt | BinOpKind::Gte => Some(OperationKind::Order),
        BinOpKind::Eq | BinOpKind::Ne => Some(OperationKind::Equality),
        BinOpKind::Add => Some(OperationKind::Sum),
        BinOpKind::Sub
        | BinOpKind::Mul
        | BinOpKind::Div
        | BinOpKind::FloorDiv
        | BinOpKind::Rem
        | BinOpKind::Pow => Some(OperationKind::Arithmetic),
        _ => None,
    }
}

/// The form of the result of a function or filter.
pub(super) fn form_of(name: &str) -> Form {
    FORMS.iter().find(|(_, names)| names.contains(&name)).map_or(Form::Unknown, |(form, _)| *form)
}

/// The form of the value of an expression.
pub(super) fn form(expr: &Expr<'_>) -> Form {
    match expr {
        Expr::Filter(filter) if filter.name == "parseCsv" && !has_header(&filter.args) => Form::Unknown,
        Expr::Filter(filter) if is_item(filter) => match filter.expr.as_ref().map(form) {
            Some(Form::Texts) => Form::Text,
            _ => Form::Unknown,
        },
        Expr::Filter(filter) if filter.name == "map" => match dependencies::argument(filter, BY).map(form) {
            Some(Form::Text) => Form::Texts,
            _ => Form::Unknown,
        },
        Expr::Filter(filter) => match form_of(filter.name) {
            Form::Number if keeps_decimal(filter) => Form::Decimal,
            form => form,
        },
        Expr::Call(call) => match &call.expr {
            Expr::Var(function) if function.id == "parseCsv" && !has_header(&call.args) => Form::Unknown,
            Expr::Var(function) => form_of(function.id),
            _ => Form::Unknown,
        },
        Expr::BinOp(op) => match op.op {
            BinOpKind::Concat => Form::Text,
            kind => match operation(kind) {
                Some(OperationKind::Arithmetic | OperationKind::Sum)
                    if [&op.left, &op.right].into_iter().any(|side| form(side) == Form::Decimal) =>
                {
                    Form::Decimal
                }
                Some(OperationKind::Arithmetic) => Form::Number,
                Some(OperationKind::Order | OperationKind::Equality) => Form::Boolean,
                _ => Form::Unknown,
            },
        },
        Expr::Compare(_) | Expr::Test(_) => Form::Boolean,
        Expr::Const(_) => match literal_of(expr) {
            Some(Value::Number(_)) => Form::Number,
            Some(Value::String(_)) => Form::Text,
            Some(Value::Bool(_)) => Form::Boolean,
            _ => Form::Unknown,
        },
        // `[-1]` of a list of texts.
        Expr::GetItem(link) => match (form(&link.expr), dependencies::subscript(&link.subscript_expr)) {
            (Form::Texts, Some(dependencies::Link::Item)) => Form::Text,
            _ => Form::Unknown,
        },
        _ => Form::Unknown,
    }
}

/// True if the result of a filter on numbers is an exact number, because its subject is or its `by`.
fn keeps_decimal(filter: &Filter<'_>) -> bool {
    let subject = filter.expr.as_ref().filter(|_| matches!(filter.name, "round" | "abs"));
    let by = dependencies::argument(filter, BY).filter(|_| filter.name == "sum");
    subject.or(by).is_some_and(|part| form(part) == Form::Decimal)
}

fn is_item(filter: &Filter<'_>) -> bool {
    matches!(filter.name, "first" | "last")
}

/// True if `parseCsv` returns maps: its argument `header` is missing.
fn has_header(args: &[CallArg<'_>]) -> bool {
    !args.iter().any(|argument| matches!(argument, CallArg::Kwarg("header", _)))
        && args.iter().filter(|argument| matches!(argument, CallArg::Pos(_))).count() <= 1
}

/// A `default` after a filter that fails on null, so that it never applies to null: `x | upper | default('y')`.
#[derive(Clone, Debug, PartialEq)]
pub struct LateDefault {
    /// The path before the filters.
    pub path: Reference,
    /// The name of the filter that fails.
    pub filter: String,
    /// The location of the path and of all filters.
    pub at: Range<usize>,
    /// The expression with `default` right behind the path.
    pub meant: String,
}

/// Filters that fail on null.
const FAILING_ON_NULL: [&str; 12] = [
    "upper",
    "lower",
    "capitalize",
    "title",
    "trim",
    "split",
    "lines",
    "replace",
    "round",
    "abs",
    "formatDate",
    "parseDate",
];

/// Finds each `default` that comes too late for null.
pub(super) fn find_late_defaults(text: &str) -> Vec<LateDefault> {
    let Ok(parsed) = parse_expr(text) else { return Vec::new() };
    let mut found = Vec::new();
    late_defaults(&parsed, &Item::default(), text, &mut found);
    found
}

fn late_defaults(expr: &Expr<'_>, item: &Item, text: &str, found: &mut Vec<LateDefault>) {
    if let Expr::Filter(outer) = expr
        && filters::takes_undefined(outer.name)
        && let Some(chain) = &outer.expr
    {
        let (mut subject, mut first) = (chain, None);
        while let Expr::Filter(filter) = subject
            && let Some(inner) = &filter.expr
        {
            (subject, first) = (inner, Some(filter.name));
        }
        let end = |expr: &Expr<'_>| (expr.span().end_offset as usize).min(text.len());
        let [start, path, filters, whole] = [operand_start(subject), end(subject), end(chain), end(expr)];
        if let (Some(links), Some(filter)) = (dependencies::direct_path(subject, item), first)
            && FAILING_ON_NULL.contains(&filter)
            && let (Some(subject), Some(chain), Some(default)) =
                (text.get(start..path), text.get(path..filters), text.get(filters..whole))
        {
            found.push(LateDefault {
                path: Reference::new(links, false),
                filter: filter.to_owned(),
                at: start..whole,
                meant: format!("{subject}{default}{chain}"),
            });
        }
    }
    visit_children(expr, item, &mut |part, item| late_defaults(part, item, text, found));
}

/// Finds adjacent string literals, which are read as one: `['a' 'b']`. Returns the locations between them.
pub(super) fn find_joined_texts(text: &str) -> Vec<Range<usize>> {
    let tokens = Tokens::new(text);
    let pairs = tokens.all.windows(2).filter(|pair| pair.iter().all(|token| token.kind == Kind::Quoted));
    pairs.map(|pair| pair[0].at.end..pair[1].at.start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, is_condition: bool, expected: &[&str]) {
        let found = find_operations(text, is_condition);
        let found: Vec<String> = found
            .iter()
            .map(|operation| format!("{:?} {}", operation.kind, &text[operation.at.clone()]))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    /// Functions and filters whose result has a type that depends on their arguments, or no form of its own.
    const WITHOUT_FORM: [&str; 38] = [
        "attr",
        "base64",
        "batch",
        "chain",
        "coalesce",
        "d",
        "default",
        "dict",
        "dictsort",
        "file",
        "first",
        "flatten",
        "groupby",
        "items",
        "last",
        "list",
        "map",
        "match",
        "matchAll",
        "max",
        "min",
        "parseJson",
        "parseUrl",
        "parseXml",
        "range",
        "raw",
        "reject",
        "rejectattr",
        "reverse",
        "safe",
        "select",
        "selectattr",
        "slice",
        "sort",
        "takeWhile",
        "toMap",
        "unique",
        "zip",
    ];

    #[test]
    fn each_function_and_filter_has_a_result_form_or_is_listed_without_one() {
        let names = crate::vocabulary().filter(|(kind, _)| matches!(*kind, "filter" | "function"));
        for (kind, name) in names {
            let has_form = form_of(name) != Form::Unknown;
            assert_ne!(has_form, WITHOUT_FORM.contains(&name), "{kind} {name}");
        }
    }

    #[test]
    fn operations_are_found_with_their_operands() {
        check("a.b > 5", false, &["Order a.b > 5"]);
        check(
            "a.b * 2 + c == 3",
            false,
            &["Equality a.b * 2 + c == 3", "Sum a.b * 2 + c", "Arithmetic a.b * 2"],
        );
        check("a and not b", true, &["Truth a", "Truth b"]);
        check("a or 'x'", false, &["Fallback a or 'x'"]);
        check("a or b or c", true, &["Truth c", "Truth b", "Truth a"]);
        check("x if a else b", false, &["Truth a"]);
        check("a", true, &["Truth a"]);
        check("a", false, &[]);
        let found = find_operations("a.b | default(0) > 5", false);
        let left = &found[0].operands[0];
        assert_eq!(left.path.as_ref().map(|path| path.path.len()), Some(2));
        assert_eq!(left.default, Some(Value::from(0)));
    }

    #[test]
    fn the_result_form_follows_from_the_last_operation() {
        for (text, expected) in [
            ("now()", Form::Instant),
            ("x | parseDate", Form::Instant),
            ("x | int", Form::Number),
            ("a * 2", Form::Number),
            ("x | parseCsv", Form::Rows),
            ("parseCsv(x, delimiter=';')", Form::Rows),
            ("parseCsv(x, header=false)", Form::Unknown),
            ("(x | split(','))[0]", Form::Text),
            ("x | split(',') | first", Form::Text),
            ("a.b", Form::Unknown),
        ] {
            assert_eq!(find_form(text), expected, "{text}");
        }
    }

    #[test]
    fn a_default_after_a_filter_that_fails_on_null_is_reported() {
        let meant = |text: &str| find_late_defaults(text).first().map(|late| late.meant.clone());
        assert_eq!(
            meant("inputs.a | upper | default('x')").as_deref(),
            Some("inputs.a | default('x') | upper")
        );
        assert_eq!(
            meant("(inputs.a | trim | lower | default('x', true)) ~ 'y'").as_deref(),
            Some("inputs.a | default('x', true) | trim | lower")
        );
        assert_eq!(meant("inputs.a | default('x') | upper"), None);
        assert_eq!(meant("inputs.a | string | default('x')"), None);
        for filter in FAILING_ON_NULL {
            let arguments = if filter == "replace" { "('a', 'b')" } else { "" };
            let text = format!("none | {filter}{arguments}");
            let expression = crate::Expression::compile(&text, text::diagnostic::Span::default());
            let expression = expression.unwrap_or_else(|error| panic!("{text}: {error:?}"));
            assert!(expression.evaluate(&Value::Null, &value::budget::Budget::default()).is_err(), "{text}");
        }
    }

    #[test]
    fn adjacent_string_literals_are_reported() {
        let found = |text: &str| find_joined_texts(text).len();
        assert_eq!(found("a in ['x' 'y', 'z' \"w\"]"), 2);
        assert_eq!(found("a in ['x', 'y'] and b == 'it''s'"), 1);
        assert_eq!(found("'x' ~ 'y'"), 0);
    }
}
