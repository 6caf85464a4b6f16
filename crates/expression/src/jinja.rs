//! Jinja expressions: parsed by MiniJinja, but strict about missing data.
//!
//! MiniJinja evaluates a missing member to *undefined*, which only some later operations reject, and rejects
//! `a.b.c | default(x)` if `a.b` is missing. Authors expect the opposite of both. Therefore a chain of members
//! (`steps.x.results.id`) is one node of our tree: undefined if the expression handles absence, else an error that names the
//! missing path.

use std::sync::{Arc, OnceLock};

use minijinja::machinery::ast::{CallArg, Expr, Filter};
use minijinja::machinery::parse_expr;
use minijinja::{Error, ErrorKind};
use value::Value;
use value::budget::Budget;

use super::decimals;
use super::dependencies::{self, ITEM, Item, Link};
use super::depth;
use super::eval_clock::EvalClock;
use super::evaluation::{Evaluation, Notes};
use super::failure::Failure;
use super::filters;
use super::functions;
use super::other_dialects;
use super::program::{NULL, Node};
use super::rewrite;
use super::symbols;
use super::text_operations;
use super::{Reference, SyntaxError};

/// The longest expression, in bytes.
const MAX_LENGTH: usize = 4096;

/// A Jinja expression that compiles. Its tree is built and kept at the first evaluation, because most expressions of a large
/// project belong to triggers that rarely fire.
pub(super) struct Program {
    /// True if it calls `now()` or `uuid()`.
    nondeterministic: bool,
    /// True if it calls `now()`.
    reads_clock: bool,
    /// True if its value is the value of its first reference.
    is_direct_path: bool,
    tree: OnceLock<Box<Node>>,
}

impl Program {
    pub(super) fn compile(text: &str) -> Result<(Self, Vec<Reference>), SyntaxError> {
        let all = 0..text.len();
        if text.len() > MAX_LENGTH {
            let message = format!("an expression may have at most {MAX_LENGTH} bytes");
            return Err(SyntaxError::new(message, all));
        }
        if let Some(at) = depth::find_excess_depth(text) {
            let (depth, brackets) = (depth::MAX_DEPTH, depth::MAX_BRACKETS);
            let message = format!("more than {depth} operations or {brackets} brackets inside one another");
            return Err(SyntaxError::new(message, at));
        }
        let parsed = parse_expr(text).map_err(|error| syntax_error(&error, text))?;
        let whole =
            dependencies::direct_path(&parsed, &Item::default()).map(|links| Reference::new(links, false));
        let mut analysis = Analysis::new(text);
        analysis.visit(&parsed, false);
        if let Some(unknown) = analysis.unknown {
            return Err(unknown);
        }
        // The analysis has checked all names, so only a number out of range can fail.
        if Node::build(&parsed, false).is_none() {
            return Err(SyntaxError::new("a whole number may have at most 64 bits", all));
        }
        let program = Self {
            is_direct_path: whole.is_some(),
            nondeterministic: analysis.nondeterministic,
            reads_clock: analysis.reads_clock,
            tree: OnceLock::new(),
        };
        let mut references = analysis.references;
        if let Some(whole) = whole {
            references.retain(|other| *other != whole);
            references.insert(0, whole);
        }
        Ok((program, references))
    }

    /// Creates the program of a part of an expression that has been checked.
    pub(super) fn from_tree(tree: Node) -> Self {
        Self {
            is_direct_path: false,
            nondeterministic: false,
            reads_clock: false,
            tree: OnceLock::from(Box::new(tree)),
        }
    }

    /// True if its value is the value of its first reference.
    pub(super) fn is_direct_path(&self) -> bool {
        self.is_direct_path
    }

    /// True if it calls `now()`.
    pub(super) fn reads_clock(&self) -> bool {
        self.reads_clock
    }

    /// True if its value may differ between evaluations.
    pub(super) fn is_nondeterministic(&self) -> bool {
        self.nondeterministic
    }

    /// Evaluates the expression. `text` is its source.
    pub(super) fn evaluate(
        &self,
        text: &str,
        scope: &Value,
        clock: Option<&Arc<dyn EvalClock>>,
        budget: &Budget,
    ) -> Result<Value, Failure> {
        let tree = self.tree(text)?;
        let notes = Notes::default();
        let value = Evaluation { scope, item: None, clock, budget, notes: &notes }.value(tree)?;
        if notes.has_decimals.get() { decimals::to_texts(value, budget) } else { Ok(value) }
    }

    fn tree(&self, text: &str) -> Result<&Node, Failure> {
        if let Some(tree) = self.tree.get() {
            return Ok(tree);
        }
        let parsed = parse_expr(text).map_err(|error| Failure::Message(describe(&error)))?;
        let tree = Node::build(&parsed, false).ok_or("the expression cannot be read")?;
        Ok(self.tree.get_or_init(|| Box::new(tree)))
    }
}

fn syntax_error(error: &Error, text: &str) -> SyntaxError {
    let at = error.range().filter(|range| range.end <= text.len()).unwrap_or(0..text.len());
    let is_allowed = |text: &String| text.len() <= MAX_LENGTH && depth::find_excess_depth(text).is_none();
    let fix = rewrite::foreign_syntax(text).filter(is_allowed).map(|fixed| Box::new((0..text.len(), fixed)));
    SyntaxError {
        help: other_dialects::sign(text).map(Into::into),
        fix,
        ..SyntaxError::new(describe(error), at)
    }
}

fn describe(error: &Error) -> String {
    let detail = error.detail().map(str::to_owned);
    match error.kind() {
        ErrorKind::SyntaxError => detail.unwrap_or_else(|| error.kind().to_string()),
        kind => detail.map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}")),
    }
}

/// Collects the references of an expression and its first error.
struct Analysis<'a> {
    text: &'a str,
    references: Vec<Reference>,
    /// The meaning of `item` at the visited place.
    item: Item,
    /// The first error of a name, an argument or an operation that always fails.
    unknown: Option<SyntaxError>,
    /// True if it calls `now()` or `uuid()`.
    nondeterministic: bool,
    /// True if it calls `now()`.
    reads_clock: bool,
}

impl<'a> Analysis<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            references: Vec::new(),
            item: Item::default(),
            unknown: None,
            nondeterministic: false,
            reads_clock: false,
        }
    }

    /// Visits `expr`; `optional` is true if the enclosing expression handles an undefined value.
    fn visit(&mut self, expr: &Expr<'_>, optional: bool) {
        if self.unknown.is_none() {
            self.unknown =
                symbols::check(expr, self.text).or_else(|| text_operations::check(expr, optional, self.text));
        }
        match expr {
            Expr::Var(var) if var.id == NULL => {}
            Expr::Var(var) => self.read(var.id, std::iter::empty(), optional),
            Expr::Const(_) => {}
            Expr::GetAttr(_) | Expr::GetItem(_) => self.chain(expr, optional),
            Expr::Slice(slice) => {
                self.visit(&slice.expr, optional);
                for part in [&slice.start, &slice.stop, &slice.step].into_iter().flatten() {
                    self.visit(part, false);
                }
            }
            Expr::UnaryOp(op) => self.visit(&op.expr, optional),
            Expr::BinOp(op) => {
                self.visit(&op.left, false);
                self.visit(&op.right, false);
            }
            Expr::Compare(compare) => {
                self.visit(&compare.expr, false);
                for operand in &compare.ops {
                    self.visit(&operand.expr, false);
                }
            }
            Expr::IfExpr(choice) => {
                self.visit(&choice.test_expr, false);
                self.visit(&choice.true_expr, optional);
                if let Some(other) = &choice.false_expr {
                    self.visit(other, optional);
                }
            }
            Expr::Filter(filter) => {
                if let Some(links) = dependencies::attribute(filter, &self.item) {
                    self.references.push(Reference::new(links, optional));
                }
                if let Some(inner) = &filter.expr {
                    self.visit(inner, filters::takes_undefined(filter.name));
                }
                self.filter_arguments(filter);
            }
            Expr::Test(test) => {
                self.visit(&test.expr, matches!(test.name, "defined" | "undefined"));
                self.arguments(&test.args, false);
            }
            Expr::Call(call) => {
                match &call.expr {
                    Expr::Var(function) => {
                        self.nondeterministic |= functions::is_nondeterministic(function.id);
                        self.reads_clock |= function.id == "now";
                    }
                    // The name of a method is not a member of the value.
                    Expr::GetAttr(method) => self.visit(&method.expr, false),
                    other => self.visit(other, false),
                }
                let handles_absence =
                    matches!(&call.expr, Expr::Var(function) if filters::takes_undefined(function.id));
                self.arguments(&call.args, handles_absence);
            }
            Expr::List(list) => list.items.iter().for_each(|item| self.visit(item, false)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.visit(item, false)),
            Expr::Map(map) => {
                map.keys.iter().chain(&map.values).for_each(|item| self.visit(item, false));
            }
        }
    }

    fn arguments(&mut self, arguments: &[CallArg<'_>], optional: bool) {
        for argument in arguments {
            match argument {
                CallArg::Pos(expr)
                | CallArg::Kwarg(_, expr)
                | CallArg::PosSplat(expr)
                | CallArg::KwargSplat(expr) => {
                    self.visit(expr, optional);
                }
            }
        }
    }

    /// Visits the arguments of a filter; its expressions read the items of its subject as `item`.
    fn filter_arguments(&mut self, filter: &Filter<'_>) {
        let inside = self.item.inside(filter);
        for argument in &filter.args {
            match (argument, &inside) {
                (CallArg::Kwarg(name, expr), Some(inside))
                    if filters::takes_expression(filter.name, name) =>
                {
                    let outside = std::mem::replace(&mut self.item, inside.clone());
                    self.visit(expr, false);
                    self.item = outside;
                }
                _ => self.arguments(std::slice::from_ref(argument), filter.name == functions::COALESCE),
            }
        }
    }

    /// Adds a path that begins with a name. The items of a list that is computed have no path.
    fn read(&mut self, root: &str, links: impl Iterator<Item = Link>, optional: bool) {
        let mut path = match &self.item {
            Item::OfList(Some(path)) if root == ITEM => path.clone(),
            Item::OfList(None) if root == ITEM => return,
            _ => vec![Link::Name(root.into())],
        };
        path.extend(links);
        self.references.push(Reference::new(path, optional));
    }

    /// Adds the statically known prefix of a chain of members.
    fn chain(&mut self, expr: &Expr<'_>, optional: bool) {
        let mut links = Vec::new();
        let mut base = expr;
        loop {
            match base {
                Expr::GetAttr(link) => {
                    links.push((Some(Link::Name(link.name.into())), None));
                    base = &link.expr;
                }
                Expr::GetItem(link) => {
                    links.push((dependencies::subscript(&link.subscript_expr), Some(&link.subscript_expr)));
                    base = &link.expr;
                }
                _ => break,
            }
        }
        links.reverse();
        match base {
            Expr::Var(root) => {
                let known = links.iter().map_while(|(link, _)| link.clone());
                self.read(root.id, known, optional);
            }
            other => self.visit(other, optional),
        }
        for item in links.iter().filter_map(|(_, item)| *item) {
            self.visit(item, false);
        }
    }
}
