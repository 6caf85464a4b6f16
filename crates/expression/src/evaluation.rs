//! Evaluates the tree of an expression under a [`Budget`].

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::sync::Arc;

use value::budget::{Budget, ENTRY_MEMORY, ITEM_MEMORY};
use value::{Key, Map, Value};

use super::arithmetic;
use super::compare;
use super::decimals;
use super::eval_clock::EvalClock;
use super::failure::{EvalResult, Failure};
use super::filters::{Call, Filter};
use super::functions;
use super::path::{self, Segment};
use super::pattern::Pattern;
use super::program::{Argument, Arguments, Comparison, Link, Node, Path};
use super::text_form;

/// The message for an undefined value where a value is required.
pub(super) const UNDEFINED: &str = "something it reads is not defined here";

/// The context of one evaluation: the scope, the source of time and randomness, and the budget.
#[derive(Clone, Copy)]
pub(super) struct Evaluation<'e> {
    pub(super) scope: &'e Value,
    /// The value of `item` in an expression that a filter evaluates for each item; elsewhere the scope has it.
    pub(super) item: Option<&'e Value>,
    pub(super) clock: Option<&'e Arc<dyn EvalClock>>,
    pub(super) budget: &'e Budget,
    pub(super) notes: &'e Notes,
}

/// What an evaluation has done.
#[derive(Default)]
pub(super) struct Notes {
    /// True once it has made an exact number, which leaves it as a text.
    pub(super) has_decimals: Cell<bool>,
    /// The last pattern that it has compiled, with its source: an expression for each item has the same one mostly.
    pub(super) pattern: RefCell<Option<(Key, Arc<Pattern>)>>,
}

/// Evaluated arguments of a call, positional and named.
#[derive(Default)]
pub(super) struct Values {
    pub(super) positional: Vec<Value>,
    pub(super) named: Vec<(Key, Value)>,
}

impl Evaluation<'_> {
    /// Evaluates `node` to a value; an undefined value is an error.
    pub(super) fn value(&self, node: &Node) -> Result<Value, Failure> {
        self.node(node)?.ok_or_else(|| UNDEFINED.into())
    }

    /// Evaluates `node`.
    pub(super) fn node(&self, node: &Node) -> EvalResult {
        self.budget.charge(1)?;
        match node {
            Node::Constant(value) => Ok(Some(value.clone())),
            Node::Path(path) => self.path(path),
            Node::Member(of, link) => {
                let of = self.value(of)?;
                self.member(&of, link)
            }
            Node::Slice(parts) => self.slice(parts).map(Some),
            Node::Not(inner) => Ok(Some(Value::from(!self.value(inner)?.is_truthy()))),
            Node::Negate(inner) => arithmetic::negate(&self.value(inner)?).map(Some),
            Node::And(sides) => {
                let left = self.value(&sides[0])?;
                if left.is_truthy() { self.node(&sides[1]) } else { Ok(Some(left)) }
            }
            Node::Or(sides) => {
                let left = self.value(&sides[0])?;
                if left.is_truthy() { Ok(Some(left)) } else { self.node(&sides[1]) }
            }
            Node::Arithmetic(operator, sides) => {
                let (left, right) = (self.value(&sides[0])?, self.value(&sides[1])?);
                arithmetic::apply(*operator, &left, &right, self.budget).map(Some)
            }
            Node::Concatenate(sides) => {
                let (left, right) = (self.value(&sides[0])?, self.value(&sides[1])?);
                let (left, right) =
                    (text_form::stringify(&left, self.budget)?, text_form::stringify(&right, self.budget)?);
                self.budget.allocate(left.len() + right.len())?;
                Ok(Some(Value::from([&*left, &*right].concat())))
            }
            Node::Compare(first, rest) => self.compare(first, rest).map(|holds| Some(Value::from(holds))),
            Node::If { condition, then, otherwise } => {
                match (self.value(condition)?.is_truthy(), otherwise) {
                    (true, _) => self.node(then),
                    (false, Some(otherwise)) => self.node(otherwise),
                    (false, None) => Ok(None),
                }
            }
            Node::Filter { filter, subject, arguments } => {
                let subject = self.node(subject)?;
                let values = self.arguments(arguments)?;
                self.filter(*filter, subject, values, &arguments.0)
            }
            Node::Test { test, subject, arguments } => {
                let subject = self.node(subject)?;
                let values = self.arguments(arguments)?;
                test.apply(self, subject.as_ref(), &values.positional).map(|holds| Some(Value::from(holds)))
            }
            Node::Call { function, arguments } => {
                functions::call(function, self, self.arguments(arguments)?, &arguments.0).map(Some)
            }
            Node::Coalesce(operands) => self.coalesce(operands).map(Some),
            Node::Method { subject, name } => {
                let kind = self.value(subject)?.kind();
                Err(format!("a {kind} has no method `{name}`; there are filters, such as `| upper`").into())
            }
            Node::List(items) => {
                self.budget.allocate_list(items.len())?;
                items.iter().map(|item| self.value(item)).collect::<Result<Value, _>>().map(Some)
            }
            Node::Map(entries) => self.map(entries).map(Some),
        }
    }

    /// Evaluates the operands up to the first that is neither undefined nor null; null if there is none.
    fn coalesce(&self, operands: &[Node]) -> Result<Value, Failure> {
        for operand in operands {
            if let Some(value) = self.node(operand)?.filter(|value| !value.is_null()) {
                return Ok(value);
            }
        }
        Ok(Value::Null)
    }

    /// Applies a filter to `subject`. `written` has the arguments that are not evaluated before the call.
    pub(super) fn filter(
        &self,
        filter: Filter,
        subject: Option<Value>,
        values: Values,
        written: &[Argument],
    ) -> EvalResult {
        self.budget.charge(1)?;
        match filter {
            Filter::Builtin(row) => {
                let call = Call::bind(self, row, subject, values, written)?;
                (row.run)(&call).map_err(|failure| match failure {
                    Failure::Message(message) => Failure::Message(format!("`{}`: {message}", row.name)),
                    exceeded @ Failure::Exceeded(_) => exceeded,
                })
            }
            Filter::Function(function) => {
                let subject = subject.ok_or(UNDEFINED)?;
                let positional = std::iter::once(subject).chain(values.positional).collect();
                functions::call(function, self, Values { positional, named: values.named }, written).map(Some)
            }
        }
    }

    fn path(&self, path: &Path) -> EvalResult {
        let mut value = match self.item {
            Some(item) if path.is_item => Some(item.clone()),
            _ => self.scope.get(&path.root),
        };
        for (depth, link) in path.links.iter().enumerate() {
            let next = match &value {
                Some(of) => self.member(of, link)?,
                None => None,
            };
            if next.is_none() {
                return if path.optional { Ok(None) } else { Err(self.missing(path, value, depth)) };
            }
            value = next;
        }
        if value.is_none() && !path.optional {
            return Err(self.missing(path, None, 0));
        }
        Ok(value)
    }

    /// The message for a missing link of a path. `of` is the value before the link.
    #[cold]
    fn missing(&self, path: &Path, of: Option<Value>, depth: usize) -> Failure {
        let mut segments = vec![Segment::Name(path.root.to_string())];
        for link in path.links.iter().take(depth + 1) {
            segments.push(match link {
                Link::Name(name) => Segment::Name(name.to_string()),
                Link::Item(node) => match self.value(node) {
                    Ok(Value::Number(number)) if number.is_i64() => {
                        Segment::Index(number.as_i64().unwrap_or_default())
                    }
                    Ok(key) => Segment::Name(
                        text_form::stringify(&key, self.budget)
                            .map_or_else(|_| "…".to_owned(), Cow::into_owned),
                    ),
                    Err(failure) => return failure,
                },
            });
        }
        let segments: Vec<Segment<&str>> = segments.iter().map(Segment::as_ref).collect();
        Failure::Message(match of {
            Some(of) => path::missing_message(&of, &segments, depth + 1),
            None => path::missing_message(&Value::Null, &segments[..1], 0),
        })
    }

    /// A member of a value; `None` if it does not exist.
    fn member(&self, of: &Value, link: &Link) -> EvalResult {
        self.budget.charge(1)?;
        match link {
            Link::Name(name) => Ok(member_by_name(of, name)),
            Link::Item(node) => {
                let key = self.value(node)?;
                self.item(of, &key)
            }
        }
    }

    /// The item of a value at a key or an index; `None` if it does not exist.
    pub(super) fn item(&self, of: &Value, key: &Value) -> EvalResult {
        match (of, key) {
            (of, Value::String(name)) => Ok(member_by_name(of, name)),
            (Value::List(_), Value::Number(_)) => Ok(key.as_i64().and_then(|index| of.at(index).cloned())),
            (Value::String(text), Value::Number(_)) => {
                self.budget.charge_text(text.len())?;
                let Some(index) = key.as_i64() else { return Ok(None) };
                Ok(text_form::character(text, index))
            }
            _ => Ok(None),
        }
    }

    /// The value at a dotted path such as `user.tags.0`, the syntax of the `attribute` argument of filters.
    pub(super) fn attribute(&self, of: &Value, path: &str) -> EvalResult {
        self.budget.charge_text(path.len())?;
        let mut value = of.clone();
        for part in path.split('.') {
            let next = match part.parse::<i64>() {
                Ok(index) if matches!(value, Value::List(_)) => value.at(index).cloned(),
                _ => member_by_name(&value, part),
            };
            let Some(next) = next else { return Ok(None) };
            value = next;
        }
        Ok(Some(value))
    }

    fn slice(&self, parts: &[Node; 4]) -> Result<Value, Failure> {
        let value = self.value(&parts[0])?;
        let bound = |node: &Node| -> Result<Option<i64>, Failure> {
            match self.value(node)? {
                Value::Null => Ok(None),
                bound => bound.as_i64().map(Some).ok_or_else(|| "a slice takes whole numbers".into()),
            }
        };
        let (start, stop, step) = (bound(&parts[1])?, bound(&parts[2])?, bound(&parts[3])?.unwrap_or(1));
        if step == 0 {
            return Err("the step of a slice cannot be 0".into());
        }
        match &value {
            Value::Null => Ok(Value::from(Vec::new())),
            Value::String(text) => {
                self.budget.allocate(text.len().saturating_mul(5))?;
                let characters: Vec<char> = text.chars().collect();
                let indices = compare::slice_indices(characters.len(), start, stop, step);
                let sliced: String = indices.filter_map(|index| characters.get(index)).collect();
                Ok(Value::from(sliced))
            }
            Value::List(list) => {
                self.budget.allocate_list(list.0.len())?;
                let indices = compare::slice_indices(list.0.len(), start, stop, step);
                Ok(indices.filter_map(|index| list.0.get(index).cloned()).collect())
            }
            other => Err(format!("a {} cannot be sliced", other.kind()).into()),
        }
    }

    fn compare(&self, first: &Node, rest: &[(Comparison, Node)]) -> Result<bool, Failure> {
        let mut left = self.value(first)?;
        for (comparison, node) in rest {
            let right = self.value(node)?;
            if !self.holds(*comparison, &left, &right)? {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }

    /// Evaluates a comparison.
    pub(super) fn holds(&self, comparison: Comparison, left: &Value, right: &Value) -> Result<bool, Failure> {
        if matches!((left, right), (Value::Decimal(_), _) | (_, Value::Decimal(_))) {
            decimals::check_operands(left, right)?;
        }
        let ordered = || -> Result<Ordering, Failure> {
            compare::charge_order(left, right, self.budget)?;
            Ok(compare::order(left, right))
        };
        Ok(match comparison {
            Comparison::Equal => compare::equal(left, right, self.budget)?,
            Comparison::NotEqual => !compare::equal(left, right, self.budget)?,
            Comparison::Less => ordered()?.is_lt(),
            Comparison::LessOrEqual => ordered()?.is_le(),
            Comparison::Greater => ordered()?.is_gt(),
            Comparison::GreaterOrEqual => ordered()?.is_ge(),
            Comparison::In => self.contains(right, left)?,
            Comparison::NotIn => !self.contains(right, left)?,
        })
    }

    /// True if `container` has `value`: as a part of a text, an item of a list, or a key of a map.
    pub(super) fn contains(&self, container: &Value, value: &Value) -> Result<bool, Failure> {
        match container {
            // Null has an empty text, which every text contains.
            Value::String(_) if value.is_null() => Ok(false),
            Value::String(text) => {
                let part = text_form::stringify(value, self.budget)?;
                self.budget.charge_text(text.len() + part.len())?;
                Ok(text.contains(&*part))
            }
            Value::List(list) => {
                for item in &list.0 {
                    if compare::equal(item, value, self.budget)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Value::Map(map) => Ok(value.as_str().is_some_and(|key| map.get(key).is_some())),
            other => Err(format!("`in` takes a text, a list or a map, not a {}", other.kind()).into()),
        }
    }

    fn map(&self, entries: &[(Node, Node)]) -> Result<Value, Failure> {
        self.budget.allocate(entries.len() * ENTRY_MEMORY)?;
        let mut map = Map::with_capacity(entries.len());
        for (key, value) in entries {
            let key = self.value(key)?;
            let key = text_form::stringify(&key, self.budget)?;
            self.budget.allocate(key.len())?;
            map.insert(&*key, self.value(value)?);
        }
        Ok(Value::from(map))
    }

    fn arguments(&self, arguments: &Arguments) -> Result<Values, Failure> {
        let mut values = Values::default();
        for argument in &arguments.0 {
            match argument {
                Argument::Positional(node) => values.positional.push(self.value(node)?),
                Argument::Named(name, node) => values.named.push((name.clone(), self.value(node)?)),
                Argument::Pattern(None, text, _) => values.positional.push(Value::String(text.clone())),
                Argument::Pattern(Some(name), text, _) => {
                    values.named.push((name.clone(), Value::String(text.clone())));
                }
                Argument::Each(..) => {}
                Argument::Unpack(node) => {
                    let list = self.value(node)?;
                    let items = list.as_list().ok_or("`*` takes a list")?;
                    self.budget.allocate(items.len() * ITEM_MEMORY)?;
                    values.positional.extend_from_slice(items);
                }
                Argument::UnpackNamed(node) => {
                    let map = self.value(node)?;
                    let entries = map.as_map().ok_or("`**` takes a map")?;
                    self.budget.allocate(entries.len() * ENTRY_MEMORY)?;
                    values.named.extend(entries.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
            }
        }
        Ok(values)
    }

    /// The items of an iterable value: items of a list, keys of a map, characters of a text; `null` has none.
    pub(super) fn items<'v>(&self, value: &'v Value) -> Result<Cow<'v, [Value]>, Failure> {
        match value {
            Value::List(list) => {
                self.budget.charge(list.0.len())?;
                Ok(Cow::Borrowed(&list.0))
            }
            Value::Null => Ok(Cow::Borrowed(&[])),
            Value::Map(map) => {
                let keys = map.keys().map(str::len).sum::<usize>();
                self.budget.allocate(map.len() * ITEM_MEMORY + keys)?;
                Ok(map.keys().map(Value::from).collect())
            }
            Value::String(text) => {
                self.budget.allocate_list(text.len())?;
                Ok(text.chars().map(|c| Value::from(c.encode_utf8(&mut [0; 4]) as &str)).collect())
            }
            other => Err(format!("a {} has no items", other.kind()).into()),
        }
    }
}

/// The member of a value by name; `None` if it does not exist.
fn member_by_name(of: &Value, name: &str) -> Option<Value> {
    match of {
        // A group of `groupby` is a list of its key and its items, both also accessible by name.
        Value::List(list) => match (list.0.as_slice(), name) {
            ([grouper, Value::List(_)], "grouper") => Some(grouper.clone()),
            ([_, items @ Value::List(_)], "list") => Some(items.clone()),
            _ => None,
        },
        other => other.get(name),
    }
}
