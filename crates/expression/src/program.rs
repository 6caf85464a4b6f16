//! The tree of an expression that [`Evaluation`](super::evaluation::Evaluation) evaluates: MiniJinja's syntax tree with the
//! names of filters, tests and functions resolved.
//!
//! MiniJinja's own evaluation limits the number of operations but not the memory and time of each; the evaluation of this tree
//! charges both to a [`Budget`](value::Budget).

use std::sync::{Arc, OnceLock};

use minijinja::machinery::ast::{BinOpKind, Call, CallArg, CompareOpKind, Expr, UnaryOpKind};
use value::{Key, Value};

use super::arithmetic::Arithmetic;
use super::dependencies::ITEM;
use super::filters::{self, Filter};
use super::functions::{self, COALESCE, Function};
use super::pattern::Pattern;
use super::predicates::{self, Predicate};

/// A node of the tree.
pub(super) enum Node {
    /// A literal, or a list or map of literals.
    Constant(Value),
    /// A chain of members that begins with a name: `steps.page.results[0]`.
    Path(Box<Path>),
    /// A member of the value of another node.
    Member(Box<Node>, Link),
    /// `value[start:stop:step]`.
    Slice(Box<[Node; 4]>),
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    /// `left ~ right`: joins both as text.
    Concatenate(Box<[Node; 2]>),
    /// A comparison, or a chain of them: `0 < x <= 9`.
    Compare(Box<Node>, Box<[(Comparison, Node)]>),
    /// `then if condition else otherwise`.
    If {
        condition: Box<Node>,
        then: Box<Node>,
        otherwise: Option<Box<Node>>,
    },
    Filter {
        filter: Filter,
        subject: Box<Node>,
        arguments: Arguments,
    },
    Test {
        test: &'static Predicate,
        subject: Box<Node>,
        arguments: Arguments,
    },
    Call {
        function: &'static Function,
        arguments: Arguments,
    },
    /// The first value that is neither undefined nor null: `coalesce(a, b)` and `a | coalesce(b)`.
    Coalesce(Box<[Node]>),
    /// A method call, which always fails, since values have no methods.
    Method {
        subject: Box<Node>,
        name: Box<str>,
    },
    List(Box<[Node]>),
    Map(Box<[(Node, Node)]>),
}

/// A chain of members that begins with a name.
pub(super) struct Path {
    pub(super) root: Key,
    pub(super) links: Box<[Link]>,
    /// True if the name is `item`, which an expression argument of a filter sets.
    pub(super) is_item: bool,
    /// True if the expression handles absence: a missing member is undefined and not an error.
    pub(super) optional: bool,
}

/// A link of a chain of members.
pub(super) enum Link {
    Name(Key),
    Item(Box<Node>),
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// The name of the null value, a synonym of `none`, as in YAML and JSON.
pub(super) const NULL: &str = "null";

/// The arguments of a filter, test or function, not yet evaluated.
#[derive(Default)]
pub(super) struct Arguments(pub(super) Box<[Argument]>);

pub(super) enum Argument {
    Positional(Node),
    Named(Key, Node),
    /// An expression that the filter evaluates for each item.
    Each(Key, Node),
    /// A literal pattern, by position or by name; compiled once.
    Pattern(Option<Key>, Key, OnceLock<Arc<Pattern>>),
    /// `*list`.
    Unpack(Node),
    /// `**map`.
    UnpackNamed(Node),
}

impl Node {
    /// Builds the tree from MiniJinja's syntax tree; `None` if a filter, test or function does not exist, or an integer exceeds
    /// 64 bits.
    pub(super) fn build(expr: &Expr<'_>, optional: bool) -> Option<Self> {
        Some(match expr {
            Expr::Var(var) if var.id == NULL => Self::Constant(Value::Null),
            Expr::Var(var) => Self::path(var.id, Vec::new(), optional),
            Expr::Const(constant) => Self::Constant(literal(&constant.value)?),
            Expr::GetAttr(_) | Expr::GetItem(_) => Self::chain(expr, optional)?,
            Expr::Slice(slice) => {
                let [start, stop, step] = [&slice.start, &slice.stop, &slice.step].map(|part| match part {
                    Some(part) => Self::build(part, false),
                    None => Some(Self::Constant(Value::Null)),
                });
                Self::Slice(Box::new([Self::build(&slice.expr, optional)?, start?, stop?, step?]))
            }
            Expr::UnaryOp(op) => match op.op {
                UnaryOpKind::Not => Self::Not(Self::boxed(&op.expr, optional)?),
                UnaryOpKind::Neg => Self::Negate(Self::boxed(&op.expr, optional)?),
            },
            Expr::BinOp(op) => Self::binary(op.op, &op.left, &op.right)?,
            Expr::Compare(compare) => {
                let rest = compare
                    .ops
                    .iter()
                    .map(|operand| Some((comparison(operand.op), Self::build(&operand.expr, false)?)));
                Self::Compare(Self::boxed(&compare.expr, false)?, rest.collect::<Option<_>>()?)
            }
            Expr::IfExpr(choice) => Self::If {
                condition: Self::boxed(&choice.test_expr, false)?,
                then: Self::boxed(&choice.true_expr, optional)?,
                otherwise: match &choice.false_expr {
                    Some(other) => Some(Self::boxed(other, optional)?),
                    None => None,
                },
            },
            Expr::Filter(filter) if filter.name == COALESCE => {
                let subject = Self::build(filter.expr.as_ref()?, true)?;
                Self::coalesce(std::iter::once(Some(subject)), &filter.args)?
            }
            Expr::Filter(filter) => Self::Filter {
                filter: filters::find(filter.name)?,
                subject: Self::boxed(filter.expr.as_ref()?, filters::takes_undefined(filter.name))?,
                arguments: Arguments::of_filter(filter.name, &filter.args)?,
            },
            Expr::Test(test) => Self::Test {
                test: predicates::find(test.name)?,
                subject: Self::boxed(&test.expr, matches!(test.name, "defined" | "undefined"))?,
                arguments: Arguments::build(&test.args, |_, _| Passing::Value)?,
            },
            Expr::Call(call) => Self::call(call)?,
            Expr::List(list) => Self::list(&list.items)?,
            Expr::Tuple(tuple) => Self::list(&tuple.items)?,
            Expr::Map(map) => {
                let entry = |(key, value): (&Expr<'_>, &Expr<'_>)| {
                    Some((Self::build(key, false)?, Self::build(value, false)?))
                };
                Self::Map(map.keys.iter().zip(&map.values).map(entry).collect::<Option<_>>()?)
            }
        })
    }

    fn boxed(expr: &Expr<'_>, optional: bool) -> Option<Box<Self>> {
        Self::build(expr, optional).map(Box::new)
    }

    fn binary(kind: BinOpKind, left: &Expr<'_>, right: &Expr<'_>) -> Option<Self> {
        let sides = Box::new([Self::build(left, false)?, Self::build(right, false)?]);
        Some(match operator(kind) {
            Operator::And => Self::And(sides),
            Operator::Or => Self::Or(sides),
            Operator::Concatenate => Self::Concatenate(sides),
            Operator::Arithmetic(operator) => Self::Arithmetic(operator, sides),
            Operator::Compare(operator) => {
                let [left, right] = *sides;
                Self::Compare(Box::new(left), Box::new([(operator, right)]))
            }
        })
    }

    fn call(call: &Call<'_>) -> Option<Self> {
        Some(match &call.expr {
            Expr::Var(function) if function.id == COALESCE => Self::coalesce(std::iter::empty(), &call.args)?,
            Expr::Var(function) => Self::Call {
                function: functions::find(function.id)?,
                arguments: Arguments::of_function(functions::find(function.id)?, 0, &call.args)?,
            },
            Expr::GetAttr(method) => {
                Self::Method { subject: Self::boxed(&method.expr, false)?, name: method.name.into() }
            }
            other => Self::Method { subject: Self::boxed(other, false)?, name: "()".into() },
        })
    }

    fn list(items: &[Expr<'_>]) -> Option<Self> {
        let items = items.iter().map(|item| Self::build(item, false)).collect::<Option<Vec<_>>>()?;
        let constant =
            |item: &Self| if let Self::Constant(value) = item { Some(value.clone()) } else { None };
        // A list of literals is built once and shared.
        Some(match items.iter().map(constant).collect::<Option<Vec<_>>>() {
            Some(values) => Self::Constant(Value::from(values)),
            None => Self::List(items.into()),
        })
    }

    fn path(root: &str, links: Vec<Link>, optional: bool) -> Self {
        let is_item = root == ITEM;
        Self::Path(Box::new(Path { root: root.into(), links: links.into(), is_item, optional }))
    }

    /// The operands of `coalesce`, in order; `None` for an argument by name, which the check of arguments refuses.
    fn coalesce(subject: impl Iterator<Item = Option<Self>>, arguments: &[CallArg<'_>]) -> Option<Self> {
        let operand = |argument: &CallArg<'_>| match argument {
            CallArg::Pos(expr) => Self::build(expr, true),
            CallArg::Kwarg(..) | CallArg::PosSplat(_) | CallArg::KwargSplat(_) => None,
        };
        subject.chain(arguments.iter().map(operand)).collect::<Option<_>>().map(Self::Coalesce)
    }

    fn chain(expr: &Expr<'_>, optional: bool) -> Option<Self> {
        let mut links = Vec::new();
        let mut base = expr;
        loop {
            match base {
                Expr::GetAttr(link) => {
                    links.push(Link::Name(link.name.into()));
                    base = &link.expr;
                }
                Expr::GetItem(link) => {
                    links.push(Link::Item(Box::new(Self::build(&link.subscript_expr, false)?)));
                    base = &link.expr;
                }
                _ => break,
            }
        }
        links.reverse();
        if let Expr::Var(root) = base {
            return Some(Self::path(root.id, links, optional));
        }
        let base = Self::build(base, optional)?;
        Some(links.into_iter().fold(base, |of, link| Self::Member(Box::new(of), link)))
    }
}

/// How a filter or function takes an argument.
enum Passing {
    Value,
    /// As an expression, evaluated for each item.
    Each,
    /// As a pattern.
    Pattern,
}

impl Arguments {
    fn of_filter(filter: &str, arguments: &[CallArg<'_>]) -> Option<Self> {
        if let Some(Filter::Function(function)) = filters::find(filter) {
            return Self::of_function(function, 1, arguments);
        }
        Self::build(arguments, |name, _| match name {
            Some(name) if filters::takes_expression(filter, name) => Passing::Each,
            _ => Passing::Value,
        })
    }

    /// `skipped` is 1 for a filter, whose subject is the first argument.
    fn of_function(function: &Function, skipped: usize, arguments: &[CallArg<'_>]) -> Option<Self> {
        let pattern = functions::pattern_parameter(function);
        Self::build(arguments, |name, at| match pattern {
            Some(slot) if name.map_or(at + skipped == slot, |name| name == function.parameters[slot]) => {
                Passing::Pattern
            }
            _ => Passing::Value,
        })
    }

    fn build(arguments: &[CallArg<'_>], passing: impl Fn(Option<&str>, usize) -> Passing) -> Option<Self> {
        let build = |(at, argument): (usize, &CallArg<'_>)| {
            let (name, expr) = match argument {
                CallArg::Pos(expr) => (None, expr),
                CallArg::Kwarg(name, expr) => (Some(*name), expr),
                CallArg::PosSplat(expr) => return Some(Argument::Unpack(Node::build(expr, false)?)),
                CallArg::KwargSplat(expr) => return Some(Argument::UnpackNamed(Node::build(expr, false)?)),
            };
            Some(match (passing(name, at), Node::build(expr, false)?, name) {
                (Passing::Each, node, Some(name)) => Argument::Each(name.into(), node),
                (Passing::Pattern, Node::Constant(Value::String(text)), name) => {
                    Argument::Pattern(name.map(Key::from), text, OnceLock::new())
                }
                (_, node, Some(name)) => Argument::Named(name.into(), node),
                (_, node, None) => Argument::Positional(node),
            })
        };
        arguments.iter().enumerate().map(build).collect::<Option<_>>().map(Self)
    }
}

enum Operator {
    And,
    Or,
    Concatenate,
    Arithmetic(Arithmetic),
    Compare(Comparison),
}

fn operator(operator: BinOpKind) -> Operator {
    match operator {
        BinOpKind::ScAnd => Operator::And,
        BinOpKind::ScOr => Operator::Or,
        BinOpKind::Concat => Operator::Concatenate,
        BinOpKind::Add => Operator::Arithmetic(Arithmetic::Add),
        BinOpKind::Sub => Operator::Arithmetic(Arithmetic::Subtract),
        BinOpKind::Mul => Operator::Arithmetic(Arithmetic::Multiply),
        BinOpKind::Div => Operator::Arithmetic(Arithmetic::Divide),
        BinOpKind::FloorDiv => Operator::Arithmetic(Arithmetic::FloorDivide),
        BinOpKind::Rem => Operator::Arithmetic(Arithmetic::Remainder),
        BinOpKind::Pow => Operator::Arithmetic(Arithmetic::Power),
        BinOpKind::Eq => Operator::Compare(Comparison::Equal),
        BinOpKind::Ne => Operator::Compare(Comparison::NotEqual),
        BinOpKind::Lt => Operator::Compare(Comparison::Less),
        BinOpKind::Lte => Operator::Compare(Comparison::LessOrEqual),
        BinOpKind::Gt => Operator::Compare(Comparison::Greater),
        BinOpKind::Gte => Operator::Compare(Comparison::GreaterOrEqual),
        BinOpKind::In => Operator::Compare(Comparison::In),
    }
}

fn comparison(operator: CompareOpKind) -> Comparison {
    match operator {
        CompareOpKind::Eq => Comparison::Equal,
        CompareOpKind::Ne => Comparison::NotEqual,
        CompareOpKind::Lt => Comparison::Less,
        CompareOpKind::Lte => Comparison::LessOrEqual,
        CompareOpKind::Gt => Comparison::Greater,
        CompareOpKind::Gte => Comparison::GreaterOrEqual,
        CompareOpKind::In => Comparison::In,
        CompareOpKind::NotIn => Comparison::NotIn,
    }
}

/// Converts a MiniJinja literal; `None` if it is not a scalar or exceeds 64 bits.
pub(super) fn literal(value: &minijinja::Value) -> Option<Value> {
    use minijinja::value::ValueKind;
    Some(match value.kind() {
        ValueKind::None => Value::Null,
        ValueKind::Bool => Value::from(value.is_true()),
        ValueKind::String => Value::from(value.as_str()?),
        ValueKind::Number if value.is_integer() => match value.as_i64() {
            Some(integer) => Value::from(integer),
            None => Value::from(u64::try_from(value.clone()).ok()?),
        },
        ValueKind::Number => Value::from(f64::try_from(value.clone()).ok()?),
        _ => return None,
    })
}
