//! MiniJinja expressions, made strict about missing data.
//!
//! MiniJinja evaluates a missing member to *undefined*, which only some later uses refuse, and refuses
//! `a.b.c | default(x)` when `a.b` is missing. An author wants the opposite of both. So each chain of members
//! (`steps.x.results.id`) is replaced, before compiling, by a call of a function of ours that walks it: where the
//! expression provides for absence it gives undefined, elsewhere an error that names the missing path.

use std::sync::{Arc, LazyLock, OnceLock};

use minijinja::machinery::ast::{CallArg, Expr};
use minijinja::machinery::parse_expr;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};

use super::depth;
use super::functions;
use super::known;
use super::moment::{self, Moment};
use super::path::{self, Segment};
use super::reading::{self, Link as Reading};
use super::strange;
use super::{Reference, SyntaxError};
use crate::value::{MOST_WHOLE, NotAValue, Value, from_expression};

/// Steps of the expression engine that one evaluation may take.
const FUEL: u64 = 100_000;
/// The most characters of an expression.
const MAX_LENGTH: usize = 4096;
const NEED: &str = "__need";
const FIND: &str = "__find";

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_syntax(SyntaxConfig::default());
    environment.add_function(NEED, need);
    environment.add_function(FIND, find);
    environment.add_filter("tojson", to_json);
    functions::register(&mut environment);
    environment
});

/// An expression that is known to compile. It is kept compiled once it has been evaluated, not before: what MiniJinja
/// makes of one takes some ten kilobytes, and most of a large project's wait for a trigger that seldom comes.
pub(super) struct Program {
    /// Whether it asks for the moment, and whether for its time.
    dated: bool,
    reads_clock: bool,
    /// Whether its value is what its first reference reads, and nothing else.
    whole: bool,
    compiled: OnceLock<Box<minijinja::Expression<'static, 'static>>>,
}

impl Program {
    pub(super) fn compile(text: &str) -> Result<(Self, Vec<Reference>), SyntaxError> {
        let whole = 0..text.len();
        if text.len() > MAX_LENGTH {
            let message = format!("an expression may have at most {MAX_LENGTH} bytes");
            return Err(SyntaxError::new(message, whole));
        }
        if let Some(at) = depth::too_deep(text) {
            let (depth, brackets) = (depth::MAX_DEPTH, depth::MAX_BRACKETS);
            let message = format!("more than {depth} operations or {brackets} brackets inside one another");
            return Err(SyntaxError::new(message, at));
        }
        let parsed = parse_expr(text).map_err(|error| syntax_error(&error, text))?;
        let whole = reading::whole(&parsed).map(|links| Reference::of(links, false));
        let mut rewriter = Rewriter::of(text, &parsed);
        if let Some(unknown) = rewriter.unknown {
            return Err(unknown);
        }
        ENVIRONMENT.compile_expression(&rewriter.rewritten()).map_err(|error| syntax_error(&error, text))?;
        let program = Self {
            whole: whole.is_some(),
            dated: rewriter.dated,
            reads_clock: rewriter.reads_clock,
            compiled: OnceLock::new(),
        };
        let mut references = rewriter.references;
        if let Some(whole) = whole {
            references.retain(|other| *other != whole);
            references.insert(0, whole);
        }
        Ok((program, references))
    }

    /// Whether its value is what its first reference reads.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether it reads the clock.
    pub(super) fn reads_clock(&self) -> bool {
        self.reads_clock
    }

    /// Whether it may give something else when it is evaluated again.
    pub(super) fn is_dated(&self) -> bool {
        self.dated
    }

    /// Its value. `text` is what it was compiled from.
    pub(super) fn evaluate(
        &self,
        text: &str,
        scope: &Value,
        moment: Option<&Arc<dyn Moment>>,
    ) -> Result<Value, String> {
        let expression = self.compiled(text).map_err(|error| describe(&error))?;
        let names = match moment.filter(|_| self.dated) {
            Some(moment) => moment::around(scope, moment),
            None => minijinja::Value::from(scope),
        };
        let result = expression.eval(names).map_err(|error| describe(&error))?;
        from_expression(&result).map_err(|reason| match reason {
            NotAValue::Undefined => "something it reads is not defined here".to_owned(),
            NotAValue::Kind(kind) => format!("its result is a {kind}, which is no value"),
            NotAValue::TooLarge => "its result has more than 1,000,000 items".to_owned(),
        })
    }

    fn compiled(&self, text: &str) -> Result<&minijinja::Expression<'static, 'static>, Error> {
        match self.compiled.get() {
            Some(compiled) => Ok(compiled),
            None => {
                let rewritten = Rewriter::of(text, &parse_expr(text)?).rewritten();
                let compiled = Box::new(ENVIRONMENT.compile_expression_owned(rewritten)?);
                Ok(self.compiled.get_or_init(|| compiled))
            }
        }
    }
}

/// `| tojson` and `| tojson(indent=2)`: JSON as the rest of Cogwork writes it, without HTML escapes.
fn to_json(value: &minijinja::Value, indent: Option<bool>, options: Kwargs) -> Result<String, Error> {
    let indented = indent.unwrap_or(false) || options.get::<Option<u32>>("indent")?.is_some();
    options.assert_all_used()?;
    let value = from_expression(value)
        .map_err(|_| Error::new(ErrorKind::InvalidOperation, "`tojson` takes a value that is defined"))?;
    let value = value
        .loaded(MOST_WHOLE)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("`tojson`: {error}")))?;
    Ok(if indented { value.to_json_pretty() } else { value.to_json() })
}

/// Follows the names in `keys` from `root`; an error where one is missing.
fn need(root: Option<minijinja::Value>, keys: Rest<minijinja::Value>) -> Result<minijinja::Value, Error> {
    let mut value = root;
    for (depth, key) in keys.iter().enumerate().skip(1) {
        let next = value.as_ref().and_then(|value| member(value, key));
        if next.is_none() {
            let steps: Vec<Segment<String>> = keys.iter().take(depth + 1).map(segment).collect();
            let steps: Vec<Segment<&str>> = steps.iter().map(Segment::as_ref).collect();
            let parent = value.as_ref().and_then(|value| from_expression(value).ok());
            let message = match parent {
                None => path::missing(&Value::Null, &steps[..1], 0),
                Some(parent) => path::missing(&parent, &steps, depth),
            };
            return Err(Error::new(ErrorKind::UndefinedError, message));
        }
        value = next;
    }
    Ok(value.unwrap_or(minijinja::Value::UNDEFINED))
}

/// Follows the names in `keys` from `root`; undefined where one is missing.
fn find(root: Option<minijinja::Value>, keys: Rest<minijinja::Value>) -> minijinja::Value {
    let found = keys.iter().skip(1).try_fold(root.unwrap_or_default(), |value, key| member(&value, key));
    found.unwrap_or(minijinja::Value::UNDEFINED)
}

fn member(value: &minijinja::Value, key: &minijinja::Value) -> Option<minijinja::Value> {
    // Asking a name for its number makes an error of it, which costs as much as the rest.
    let index = if key.as_str().is_some() { None } else { key.as_i64() };
    let found = match index {
        Some(index) if index < 0 => {
            let length = i64::try_from(value.len()?).ok()?;
            value.get_item(&minijinja::Value::from(length.checked_add(index)?)).ok()?
        }
        _ => value.get_item(key).ok()?,
    };
    (!found.is_undefined()).then_some(found)
}

fn segment(key: &minijinja::Value) -> Segment<String> {
    key.as_i64().map_or_else(|| Segment::Name(key.to_string()), Segment::Index)
}

fn syntax_error(error: &Error, text: &str) -> SyntaxError {
    let at = error.range().filter(|range| range.end <= text.len()).unwrap_or(0..text.len());
    SyntaxError { help: strange::sign(text), ..SyntaxError::new(describe(error), at) }
}

fn describe(error: &Error) -> String {
    let detail = error.detail().map(str::to_owned);
    match error.kind() {
        ErrorKind::OutOfFuel => format!("it takes more than {FUEL} steps"),
        ErrorKind::UndefinedError | ErrorKind::SyntaxError | ErrorKind::InvalidOperation => {
            detail.unwrap_or_else(|| error.kind().to_string())
        }
        kind => detail.map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}")),
    }
}

/// Finds the member chains of an expression and how to replace each.
struct Rewriter<'a> {
    text: &'a str,
    edits: Vec<(std::ops::Range<usize>, String)>,
    references: Vec<Reference>,
    /// The first name of a filter, test or function that means nothing.
    unknown: Option<SyntaxError>,
    /// Whether it calls a function that asks for the moment, and whether for its time.
    dated: bool,
    reads_clock: bool,
}

impl<'a> Rewriter<'a> {
    /// What it finds in an expression, which `text` is.
    fn of(text: &'a str, parsed: &Expr<'_>) -> Self {
        let (edits, references) = (Vec::new(), Vec::new());
        let mut rewriter = Self { text, edits, references, unknown: None, dated: false, reads_clock: false };
        rewriter.visit(parsed, false);
        rewriter
    }

    fn rewritten(&mut self) -> String {
        self.edits.sort_by_key(|(range, _)| (range.start, range.end));
        let mut output = String::with_capacity(self.text.len() * 2);
        let mut at = 0;
        for (range, replacement) in &self.edits {
            output.push_str(self.text.get(at..range.start).unwrap_or_default());
            output.push_str(replacement);
            at = range.end;
        }
        output.push_str(self.text.get(at..).unwrap_or_default());
        output
    }

    /// Visits `expr`; `optional` says that its absence is provided for.
    fn visit(&mut self, expr: &Expr<'_>, optional: bool) {
        if self.unknown.is_none() {
            self.unknown = known::check(&ENVIRONMENT, expr, self.text);
        }
        match expr {
            Expr::Var(var) => {
                self.references.push(Reference::of(vec![Reading::Name(var.id.into())], optional))
            }
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
                if let Some(links) = reading::attribute(filter) {
                    self.references.push(Reference::of(links, optional));
                }
                if let Some(inner) = &filter.expr {
                    self.visit(inner, matches!(filter.name, "default" | "d"));
                }
                self.arguments(&filter.args);
            }
            Expr::Test(test) => {
                self.visit(&test.expr, matches!(test.name, "defined" | "undefined"));
                self.arguments(&test.args);
            }
            Expr::Call(call) => {
                match &call.expr {
                    Expr::Var(function) => {
                        self.dated |= functions::is_dated(function.id);
                        self.reads_clock |= function.id == "now";
                    }
                    // A method: its own name is no member of the value.
                    Expr::GetAttr(method) => self.visit(&method.expr, false),
                    other => self.visit(other, false),
                }
                self.arguments(&call.args);
            }
            Expr::List(list) => list.items.iter().for_each(|item| self.visit(item, false)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.visit(item, false)),
            Expr::Map(map) => {
                map.keys.iter().chain(&map.values).for_each(|item| self.visit(item, false));
            }
        }
    }

    fn arguments(&mut self, arguments: &[CallArg<'_>]) {
        for argument in arguments {
            match argument {
                CallArg::Pos(expr)
                | CallArg::Kwarg(_, expr)
                | CallArg::PosSplat(expr)
                | CallArg::KwargSplat(expr) => {
                    self.visit(expr, false);
                }
            }
        }
    }

    /// Replaces a chain `root.a[b].c` by `__need(root, 'root', 'a', (b), 'c')`.
    fn chain(&mut self, expr: &Expr<'_>, optional: bool) {
        let mut links = Vec::new();
        let mut base = expr;
        loop {
            match base {
                Expr::GetAttr(link) => {
                    links.push((link.span().end_offset as usize, Link::Name(link.name)));
                    base = &link.expr;
                }
                Expr::GetItem(link) => {
                    links.push((link.span().end_offset as usize, Link::Item(&link.subscript_expr)));
                    base = &link.expr;
                }
                _ => break,
            }
        }
        links.reverse();
        let Expr::Var(root) = base else {
            // A member of a call or of a literal: MiniJinja's own strictness has to do.
            self.visit(base, optional);
            for (_, link) in &links {
                if let Link::Item(item) = link {
                    self.visit(item, false);
                }
            }
            return;
        };
        let mut path = vec![Reading::Name(root.id.into())];
        let mut fixed = true;
        let start = root.span().start_offset as usize;
        let mut end = root.span().end_offset as usize;
        let mut edits = Vec::new();
        for (link_end, link) in &links {
            let Some(edit) = self.link_edits(end, *link_end, link) else {
                self.visit(base, optional);
                return;
            };
            edits.extend(edit);
            end = *link_end;
            let read = match link {
                Link::Name(name) => Some(Reading::Name((*name).into())),
                Link::Item(item) => reading::subscript(item),
            };
            fixed &= read.is_some();
            path.extend(read.filter(|_| fixed));
        }
        let function = if optional { FIND } else { NEED };
        let root_end = root.span().end_offset as usize;
        self.edits.push((start..root_end, format!("{function}({}, '{}'", root.id, root.id)));
        self.edits.extend(edits);
        self.edits.push((end..end, ")".to_owned()));
        self.references.push(Reference::of(path, optional));
        for (_, link) in &links {
            if let Link::Item(item) = link {
                self.visit(item, false);
            }
        }
    }

    /// How to replace one link that stands between these offsets; `None` where the text is not as expected.
    fn link_edits(
        &self,
        from: usize,
        to: usize,
        link: &Link<'_, '_>,
    ) -> Option<Vec<(std::ops::Range<usize>, String)>> {
        let text = self.text.get(from..to)?;
        let lead = text.len() - text.trim_start().len();
        match link {
            Link::Name(name) => {
                text.trim_start().starts_with('.').then(|| vec![(from..to, format!(", '{name}'"))])
            }
            Link::Item(_) => {
                let trimmed = text.trim();
                if trimmed.starts_with('.') {
                    // `list.0`: the number stands for itself.
                    return Some(vec![(from..to, format!(", {}", trimmed.get(1..)?.trim()))]);
                }
                let inside = trimmed.starts_with('[') && text.ends_with(']');
                inside.then(|| vec![(from..from + lead + 1, ", (".to_owned()), (to - 1..to, ")".to_owned())])
            }
        }
    }
}

enum Link<'a, 'e> {
    Name(&'a str),
    Item(&'a Expr<'e>),
}
