//! Evaluates JSONPath queries (RFC 9535, section 2) under a [`Budget`].
//!
//! `jsonpath-rust` parses queries. Its own evaluation is unbounded: it builds the path of every node and compiles a pattern
//! for each comparison. This evaluation charges each visited node and each compiled pattern.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, FnArg, Literal, Segment, Selector, SingularQuery,
    SingularQuerySegment, Test, TestFunction,
};
use regex_automata::meta::Regex;
use value::Value;
use value::budget::{BYTES_PER_UNIT, Budget, Exceeded};

use crate::compare;

/// The memory of one node in a node list, in bytes.
const NODE_MEMORY: usize = size_of::<&Value>();
/// The memory limit of a compiled pattern, in bytes. A larger pattern matches nothing.
const PATTERN_MEMORY: usize = 1 << 20;
/// The cost of compiling a pattern, in units of work per byte.
const PATTERN_WORK: usize = 200;
/// The cost of compiling a pattern with a counted repetition, which may grow up to [`PATTERN_MEMORY`].
const REPETITION_WORK: usize = 200_000;
/// The maximum number of cached patterns.
const MAX_PATTERNS: usize = 16;

type Nodes<'v> = Vec<&'v Value>;
type BudgetResult<T> = Result<T, Exceeded>;

/// One evaluation of a query over a root value.
pub(super) struct Evaluation<'v> {
    root: &'v Value,
    budget: &'v Budget,
    /// The cached patterns; `None` for an invalid pattern.
    patterns: RefCell<HashMap<(String, bool), Option<Regex>>>,
}

impl<'v> Evaluation<'v> {
    pub(super) fn new(root: &'v Value, budget: &'v Budget) -> Self {
        Self { root, budget, patterns: RefCell::default() }
    }

    /// The nodes that `segments` select from the root, in the order of RFC 9535.
    pub(super) fn nodes(&self, segments: &[Segment]) -> BudgetResult<Nodes<'v>> {
        self.select_all(self.root, segments)
    }

    fn select_all(&self, from: &'v Value, segments: &[Segment]) -> BudgetResult<Nodes<'v>> {
        let mut nodes = vec![from];
        for segment in segments {
            let mut found = Vec::new();
            for node in nodes {
                self.segment(node, segment, &mut found)?;
            }
            nodes = found;
        }
        Ok(nodes)
    }

    fn segment(&self, node: &'v Value, segment: &Segment, found: &mut Nodes<'v>) -> BudgetResult<()> {
        match segment {
            Segment::Descendant(inner) => self.descend(node, inner, found),
            Segment::Selector(selector) => self.select(node, selector, found),
            Segment::Selectors(selectors) => {
                selectors.iter().try_for_each(|selector| self.select(node, selector, found))
            }
        }
    }

    /// Applies `segment` to `node` and all its descendants.
    fn descend(&self, node: &'v Value, segment: &Segment, found: &mut Nodes<'v>) -> BudgetResult<()> {
        self.budget.charge(1)?;
        self.segment(node, segment, found)?;
        children(node).try_for_each(|child| self.descend(child, segment, found))
    }

    fn select(&self, node: &'v Value, selector: &Selector, found: &mut Nodes<'v>) -> BudgetResult<()> {
        match selector {
            Selector::Name(name) => {
                let member = node.as_map().and_then(|map| map.get(name));
                member.map_or(self.budget.charge(1), |member| self.push(member, found))
            }
            Selector::Index(index) => {
                node.at(*index).map_or(self.budget.charge(1), |item| self.push(item, found))
            }
            Selector::Wildcard => children(node).try_for_each(|child| self.push(child, found)),
            Selector::Slice(start, end, step) => {
                let items = node.as_list().unwrap_or_default();
                let bounds = compare::slice_indices(items.len(), *start, *end, step.unwrap_or(1));
                for index in bounds {
                    if let Some(item) = items.get(index) {
                        self.push(item, found)?;
                    }
                }
                Ok(())
            }
            Selector::Filter(filter) => {
                for child in children(node) {
                    self.budget.charge(1)?;
                    if self.holds(filter, child)? {
                        self.push(child, found)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn push(&self, node: &'v Value, found: &mut Nodes<'v>) -> BudgetResult<()> {
        self.budget.allocate(NODE_MEMORY)?;
        found.push(node);
        Ok(())
    }

    /// Evaluates a filter with `current` as `@`.
    fn holds(&self, filter: &Filter, current: &'v Value) -> BudgetResult<bool> {
        match filter {
            Filter::Or(parts) => {
                for part in parts {
                    if self.holds(part, current)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Filter::And(parts) => {
                for part in parts {
                    if !self.holds(part, current)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Filter::Atom(FilterAtom::Filter { expr, not }) => Ok(self.holds(expr, current)? != *not),
            Filter::Atom(FilterAtom::Test { expr, not }) => Ok(self.test(expr, current)? != *not),
            Filter::Atom(FilterAtom::Comparison(comparison)) => self.compare(comparison, current),
        }
    }

    fn test(&self, test: &Test, current: &'v Value) -> BudgetResult<bool> {
        match test {
            Test::Function(function) => match &**function {
                TestFunction::Match(text, pattern) => self.matches(text, pattern, true, current),
                TestFunction::Search(text, pattern) => self.matches(text, pattern, false, current),
                // `types::check` rejects the others here.
                _ => Ok(false),
            },
            query => Ok(!self.query(query, current)?.is_empty()),
        }
    }

    fn query(&self, query: &Test, current: &'v Value) -> BudgetResult<Nodes<'v>> {
        match query {
            Test::RelQuery(segments) => self.select_all(current, segments),
            Test::AbsQuery(query) => self.select_all(self.root, &query.segments),
            Test::Function(_) => Ok(Vec::new()),
        }
    }

    fn compare(&self, comparison: &Comparison, current: &'v Value) -> BudgetResult<bool> {
        let (left, right) = comparison.vals();
        let (left, right) = (self.comparable(left, current)?, self.comparable(right, current)?);
        let (left, right) = (left.as_deref(), right.as_deref());
        match comparison {
            Comparison::Eq(..) => self.equal(left, right),
            Comparison::Ne(..) => self.equal(left, right).map(|equal| !equal),
            Comparison::Lt(..) => self.less(left, right),
            Comparison::Gt(..) => self.less(right, left),
            Comparison::Lte(..) => Ok(self.less(left, right)? || self.equal(left, right)?),
            Comparison::Gte(..) => Ok(self.less(right, left)? || self.equal(left, right)?),
        }
    }

    /// Equality as in RFC 9535, section 2.3.5.2.2: two absent values are equal.
    fn equal(&self, left: Option<&Value>, right: Option<&Value>) -> BudgetResult<bool> {
        match (left, right) {
            (Some(left), Some(right)) => compare::equal_json(left, right, self.budget),
            (None, None) => Ok(true),
            _ => Ok(false),
        }
    }

    /// Compares two numbers or two texts; any other two values are unordered.
    fn less(&self, left: Option<&Value>, right: Option<&Value>) -> BudgetResult<bool> {
        match (left, right) {
            (Some(Value::Number(left)), Some(Value::Number(right))) => {
                self.budget.charge(1)?;
                Ok(compare::order_numbers(left, right).is_lt())
            }
            (Some(Value::String(left)), Some(Value::String(right))) => {
                self.budget.charge_text(left.len().min(right.len()))?;
                Ok(left < right)
            }
            _ => Ok(false),
        }
    }

    fn comparable(&self, side: &Comparable, current: &'v Value) -> BudgetResult<Option<Cow<'v, Value>>> {
        match side {
            Comparable::Literal(literal) => Ok(Some(Cow::Owned(value_of(literal)))),
            Comparable::Function(function) => self.function(function, current),
            Comparable::SingularQuery(query) => {
                let (from, segments) = match query {
                    SingularQuery::Current(segments) => (current, segments),
                    SingularQuery::Root(segments) => (self.root, segments),
                };
                self.budget.charge(segments.len() + 1)?;
                let end = segments.iter().try_fold(from, |node, segment| match segment {
                    SingularQuerySegment::Name(name) => node.as_map()?.get(name),
                    SingularQuerySegment::Index(index) => node.at(*index),
                });
                Ok(end.map(Cow::Borrowed))
            }
        }
    }

    fn function(&self, function: &TestFunction, current: &'v Value) -> BudgetResult<Option<Cow<'v, Value>>> {
        let number = |count: usize| Some(Cow::Owned(Value::from(count)));
        match function {
            TestFunction::Length(argument) => {
                let Some(argument) = self.argument(argument, current)? else { return Ok(None) };
                Ok(match &*argument {
                    Value::String(text) => {
                        self.budget.charge_text(text.len())?;
                        number(text.chars().count())
                    }
                    Value::List(list) => number(list.0.len()),
                    Value::Map(map) => number(map.len()),
                    _ => None,
                })
            }
            TestFunction::Count(FnArg::Test(query)) => Ok(number(self.query(query, current)?.len())),
            TestFunction::Value(FnArg::Test(query)) => {
                let nodes = self.query(query, current)?;
                Ok(if let [node] = nodes.as_slice() { Some(Cow::Borrowed(*node)) } else { None })
            }
            // `types::check` rejects the others here.
            _ => Ok(None),
        }
    }

    fn argument(&self, argument: &FnArg, current: &'v Value) -> BudgetResult<Option<Cow<'v, Value>>> {
        match argument {
            FnArg::Literal(literal) => Ok(Some(Cow::Owned(value_of(literal)))),
            FnArg::Test(test) => match &**test {
                Test::Function(function) => self.function(function, current),
                query => Ok(self.query(query, current)?.first().map(|node| Cow::Borrowed(*node))),
            },
            FnArg::Filter(_) => Ok(None),
        }
    }

    /// Evaluates the functions `match` (`whole` is true) and `search`.
    fn matches(&self, text: &FnArg, pattern: &FnArg, whole: bool, current: &'v Value) -> BudgetResult<bool> {
        let (text, pattern) = (self.argument(text, current)?, self.argument(pattern, current)?);
        let (Some(text), Some(pattern)) = (text.as_deref(), pattern.as_deref()) else { return Ok(false) };
        let (Value::String(text), Value::String(pattern)) = (text, pattern) else { return Ok(false) };
        self.compile(pattern, whole)?;
        // Matching is linear in the text, and in the worst case also in the pattern.
        self.budget.charge(text.len() / BYTES_PER_UNIT * (1 + pattern.len() / 16) + 1)?;
        let patterns = self.patterns.borrow();
        let compiled = patterns.get(&(pattern.to_string(), whole)).and_then(Option::as_ref);
        Ok(compiled.is_some_and(|compiled| compiled.is_match(text.as_str())))
    }

    fn compile(&self, pattern: &str, whole: bool) -> BudgetResult<()> {
        self.budget.charge_text(pattern.len())?;
        let key = (pattern.to_owned(), whole);
        let mut patterns = self.patterns.borrow_mut();
        if !patterns.contains_key(&key) {
            let repetition = if pattern.contains('{') { REPETITION_WORK } else { PATTERN_WORK };
            self.budget.charge(pattern.len().saturating_mul(PATTERN_WORK).saturating_add(repetition))?;
            if patterns.len() >= MAX_PATTERNS {
                patterns.clear();
            }
            let limits =
                Regex::config().nfa_size_limit(Some(PATTERN_MEMORY)).hybrid_cache_capacity(PATTERN_MEMORY);
            let compiled = Regex::builder().configure(limits).build(&translate(pattern, whole));
            patterns.insert(key, compiled.ok());
        }
        Ok(())
    }
}

/// The items of a list or the values of a map, in order.
fn children(node: &Value) -> impl Iterator<Item = &Value> {
    let items = node.as_list().unwrap_or_default().iter();
    items.chain(node.as_map().into_iter().flat_map(|map| map.iter().map(|(_, value)| value)))
}

fn value_of(literal: &Literal) -> Value {
    match literal {
        Literal::Int(number) => Value::from(*number),
        Literal::Float(number) => Value::from(*number),
        Literal::String(text) => Value::from(text.as_str()),
        Literal::Bool(value) => Value::from(*value),
        Literal::Null => Value::Null,
    }
}

/// Translates an I-Regexp (RFC 9485) to the syntax of the `regex` crate: `.` outside a class matches any character except `\n`
/// and `\r`, and `match` is anchored at both ends.
fn translate(pattern: &str, whole: bool) -> String {
    let mut translated = String::with_capacity(pattern.len() + 8);
    let (mut class, mut escaped) = (false, false);
    for c in pattern.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => class = true,
            ']' => class = false,
            '.' if !class => {
                translated.push_str(r"[^\n\r]");
                continue;
            }
            _ => {}
        }
        translated.push(c);
    }
    if whole { format!("^(?:{translated})$") } else { translated }
}
