//! The filters of expressions: `value | name(arguments)`. A new filter needs a function in the file of its type and a row here.
//!
//! A filter charges the budget by the size of its subject and its arguments before it allocates. The hostile corpus in
//! `tests/hostile.rs` has a line for each row.

mod choose;
mod decimals;
mod keyed;
mod lists;
mod numbers;
mod scalars;
mod texts;

use super::evaluation::{Evaluation, UNDEFINED, Values};
use super::failure::{EvalResult, Failure};
use super::functions::{self, Function};
use super::program::{Argument, Node};
use super::text_form;
use std::borrow::Cow;
use value::budget::Budget;
use value::{Key, Value};

/// A filter: a row of the table below, or a function that is also a filter.
#[derive(Clone, Copy)]
pub(super) enum Filter {
    Builtin(&'static Row),
    Function(&'static Function),
}

/// A filter of the table.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// The parameters, in order; a call may also pass each by name.
    pub(super) parameters: &'static [&'static str],
    /// The number of leading parameters that are required.
    pub(super) required: usize,
    /// The parameters that are expressions, evaluated for each item; a call passes them by name.
    pub(super) expressions: &'static [&'static str],
    /// Parameters of which a call has to pass one; empty if there are none.
    pub(super) one_of: &'static [&'static str],
    /// The arguments beyond the parameters.
    pub(super) further: Further,
    pub(super) run: fn(&Call<'_>) -> EvalResult,
}

/// The arguments that a filter takes beyond its parameters, in any number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Further {
    None,
    /// Arguments by position.
    Positional,
    /// Arguments by position or by any name.
    Any,
}

const fn row(
    name: &'static str,
    parameters: &'static [&'static str],
    required: usize,
    run: fn(&Call<'_>) -> EvalResult,
) -> Row {
    Row { name, parameters, required, expressions: &[], one_of: &[], further: Further::None, run }
}

const fn variadic(name: &'static str, further: Further, run: fn(&Call<'_>) -> EvalResult) -> Row {
    Row { further, ..row(name, &[], 0, run) }
}

impl Row {
    /// Adds parameters that are expressions.
    const fn each(self, expressions: &'static [&'static str]) -> Self {
        Self { expressions, ..self }
    }

    /// Requires one of these parameters.
    const fn one_of(self, one_of: &'static [&'static str]) -> Self {
        Self { one_of, ..self }
    }

    /// The filter with its parameters, for people: `sort(reverse=, by=)`.
    pub(super) fn usage(&self) -> String {
        let is_variadic = self.further != Further::None;
        if self.parameters.is_empty() && self.expressions.is_empty() && !is_variadic {
            return self.name.to_owned();
        }
        // A filter with both takes either, so that the expressions come behind.
        let mut parts: Vec<String> = Vec::new();
        parts.extend(is_variadic.then(|| "…".to_owned()));
        let optional =
            |at: usize, name: &str| if at < self.required { name.to_owned() } else { format!("{name}=") };
        parts.extend(self.parameters.iter().enumerate().map(|(at, name)| optional(at, name)));
        parts.extend(self.expressions.iter().map(|name| format!("{name}=")));
        format!("{}({})", self.name, parts.join(", "))
    }

    /// The names that a call may use, for messages.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.parameters.iter().chain(self.expressions).copied().collect()
    }
}

/// The parameter with the expression that a filter evaluates for each item.
pub(super) const BY: &str = "by";

/// True if the filter takes this argument as an expression over `item`.
pub(super) fn takes_expression(filter: &str, argument: &str) -> bool {
    // Most filters have none, and most arguments are not such.
    matches!(argument, BY | "value")
        && TABLE.iter().any(|row| row.name == filter && row.expressions.contains(&argument))
}

/// True if the filter accepts an undefined subject; `coalesce` accepts undefined arguments, too.
pub(super) fn takes_undefined(name: &str) -> bool {
    matches!(name, "default" | "d" | functions::COALESCE)
}

/// All filters except functions, by name.
pub(super) const TABLE: [Row; 53] = [
    row("abs", &[], 0, numbers::abs),
    row("attr", &["name"], 1, lists::attr),
    row("batch", &["count", "fill_with"], 1, lists::batch),
    row("bool", &[], 0, numbers::bool),
    row("capitalize", &[], 0, texts::capitalize),
    variadic("chain", Further::Positional, lists::chain),
    row("count", &[], 0, lists::length),
    row("d", &["default_value", "boolean"], 0, lists::default),
    row("default", &["default_value", "boolean"], 0, lists::default),
    row("decimal", &["default"], 0, decimals::decimal),
    row("dictsort", &["case_sensitive", "by", "reverse"], 0, keyed::dictsort),
    row("e", &[], 0, texts::escape),
    row("escape", &[], 0, texts::escape),
    row("first", &[], 0, lists::first),
    row("flatten", &[], 0, lists::flatten),
    row("float", &["default"], 0, numbers::float),
    variadic("format", Further::Any, texts::format),
    row("groupby", &["attribute", "default", "case_sensitive"], 0, keyed::groupby)
        .each(&[BY])
        .one_of(&[BY, "attribute"]),
    row("indent", &["width", "first", "blank"], 0, texts::indent),
    row("int", &["default", "base"], 0, numbers::int),
    row("items", &[], 0, lists::items),
    row("join", &["d", "attribute"], 0, texts::join),
    row("last", &[], 0, lists::last),
    row("length", &[], 0, lists::length),
    row("lines", &[], 0, texts::lines),
    row("list", &[], 0, lists::list),
    row("lower", &[], 0, texts::lower),
    variadic("map", Further::Any, lists::map).each(&[BY]),
    row("max", &["case_sensitive", "attribute"], 0, keyed::max).each(&[BY]),
    row("min", &["case_sensitive", "attribute"], 0, keyed::min).each(&[BY]),
    row("raw", &[], 0, lists::identity),
    variadic("reject", Further::Positional, choose::reject).each(&[BY]),
    variadic("rejectattr", Further::Positional, choose::reject_attribute),
    row("replace", &["old", "new"], 2, texts::replace),
    row("reverse", &[], 0, lists::reverse),
    row("round", &["precision", "method"], 0, numbers::round),
    row("safe", &[], 0, lists::identity),
    variadic("select", Further::Positional, choose::select).each(&[BY]),
    variadic("selectattr", Further::Positional, choose::select_attribute),
    row("slice", &["count", "fill_with"], 1, lists::slice),
    row("sort", &["reverse", "case_sensitive", "attribute"], 0, keyed::sort).each(&[BY]),
    row("split", &["separator", "maxsplit"], 0, texts::split),
    row("string", &[], 0, texts::string),
    row("sum", &["attribute", "start"], 0, keyed::sum).each(&[BY]),
    row("takeWhile", &[], 0, choose::take_while).each(&[BY]).one_of(&[BY]),
    row("title", &[], 0, texts::title),
    row("toMap", &[], 0, keyed::to_map).each(&[BY, "value"]).one_of(&[BY]),
    row("tojson", &["indent"], 0, texts::to_json),
    row("trim", &["chars"], 0, texts::trim),
    row("unique", &["case_sensitive", "attribute"], 0, keyed::unique).each(&[BY]),
    row("upper", &[], 0, texts::upper),
    variadic("zip", Further::Positional, lists::zip),
    row("pprint", &[], 0, texts::pprint),
];

/// The filter of this name; `None` if it does not exist.
pub(super) fn find(name: &str) -> Option<Filter> {
    let builtin = TABLE.iter().find(|row| row.name == name).map(Filter::Builtin);
    builtin.or_else(|| functions::find(name).filter(|function| function.is_filter()).map(Filter::Function))
}

/// A call of a filter: its subject, and its arguments in the order of the parameters.
pub(super) struct Call<'c> {
    pub(super) evaluation: &'c Evaluation<'c>,
    row: &'static Row,
    /// The value before the `|`; `None` if it is undefined, which only `default` accepts.
    pub(super) subject: Option<Value>,
    slots: Vec<Option<Value>>,
    /// The arguments beyond the parameters.
    pub(super) rest: Values,
    /// The arguments as they are written, among them those that are not evaluated before the call.
    written: &'c [Argument],
}

impl<'c> Call<'c> {
    /// Binds arguments to parameters. `null` for an optional parameter counts as omitted.
    pub(super) fn bind(
        evaluation: &'c Evaluation<'c>,
        row: &'static Row,
        subject: Option<Value>,
        values: Values,
        written: &'c [Argument],
    ) -> Result<Self, Failure> {
        let mut call = Self { evaluation, row, subject, slots: Vec::new(), rest: Values::default(), written };
        call.bind_values(values)
            .map_err(|message| Failure::Message(format!("`{}`: {message}", row.name)))
            .map(|()| call)
    }

    fn bind_values(&mut self, values: Values) -> Result<(), String> {
        let row = self.row;
        let is_expression = |(name, _): &&(Key, Value)| row.expressions.contains(&name.as_str());
        if let Some((name, _)) = values.named.iter().find(is_expression) {
            return Err(format!(
                "`{name}` is an expression over `item`, which the call itself has to contain"
            ));
        }
        if row.further == Further::Any {
            self.rest = values;
            return Ok(());
        }
        if values.positional.len() > row.parameters.len() && row.further == Further::None {
            return Err(match row.parameters.len() {
                0 => "takes no arguments".to_owned(),
                max => format!("takes at most {max} arguments: {}", row.parameters.join(", ")),
            });
        }
        let mut positional = values.positional.into_iter();
        self.slots = positional.by_ref().take(row.parameters.len()).map(Some).collect();
        self.slots.resize(row.parameters.len(), None);
        self.rest.positional = positional.collect();
        for (name, value) in values.named {
            let Some(slot) = row.parameters.iter().position(|parameter| *parameter == name) else {
                let names = row.names().join(", ");
                let names = if names.is_empty() { "none by name".to_owned() } else { names };
                return Err(format!("there is no argument `{name}`; it takes {names}"));
            };
            if self.slots[slot].is_some() {
                return Err(format!("`{name}` is given twice"));
            }
            self.slots[slot] = Some(value);
        }
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if at < row.required && slot.is_none() {
                return Err(format!("`{}` is missing", row.parameters[at]));
            }
            let optional = at >= row.required && !takes_undefined(row.name);
            if optional && slot.as_ref().is_some_and(Value::is_null) {
                *slot = None;
            }
        }
        if row.expressions.is_empty() { Ok(()) } else { self.check_expressions() }
    }

    /// Checks the expression arguments against the others.
    fn check_expressions(&self) -> Result<(), String> {
        let row = self.row;
        let has_other = self.argument("attribute").is_some() || !self.rest.positional.is_empty();
        if has_other && self.each(BY).is_some() {
            return Err("`by` takes the place of all other ways to choose or compare items".to_owned());
        }
        let is_given = |name: &&str| self.each(name).is_some() || self.argument(name).is_some();
        match row.one_of.first() {
            Some(first) if !row.one_of.iter().any(is_given) => Err(format!("`{first}` is missing")),
            _ => Ok(()),
        }
    }

    /// The expression argument of a parameter; `None` if it is omitted.
    pub(super) fn each(&self, name: &str) -> Option<&'c Node> {
        self.written.iter().find_map(|argument| match argument {
            Argument::Each(known, node) if *known == *name => Some(node),
            _ => None,
        })
    }

    /// Evaluates an expression argument for an item.
    pub(super) fn evaluate_for(&self, node: &Node, item: &Value) -> Result<Value, Failure> {
        Evaluation { item: Some(item), ..*self.evaluation }.value(node)
    }

    pub(super) fn budget(&self) -> &'c Budget {
        self.evaluation.budget
    }

    /// The subject; an undefined one is an error.
    pub(super) fn value(&self) -> Result<&Value, Failure> {
        self.subject.as_ref().ok_or_else(|| UNDEFINED.into())
    }

    /// The subject as text.
    pub(super) fn text(&self) -> Result<Cow<'_, str>, Failure> {
        match self.value()? {
            Value::String(text) => Ok(Cow::Borrowed(text)),
            other @ (Value::Number(_) | Value::Bool(_) | Value::Decimal(_) | Value::File(_)) => {
                text_form::stringify(other, self.budget())
            }
            other => Err(format!("takes a text, not a {}", other.kind()).into()),
        }
    }

    /// The items of the subject.
    pub(super) fn items(&self) -> Result<Cow<'_, [Value]>, Failure> {
        self.evaluation.items(self.value()?)
    }

    /// The argument of a parameter; `None` if it is omitted.
    pub(super) fn argument(&self, name: &str) -> Option<&Value> {
        let at = self.row.parameters.iter().position(|parameter| *parameter == name)?;
        self.slots.get(at)?.as_ref()
    }

    /// The text argument of a parameter; `None` if it is omitted.
    pub(super) fn text_argument(&self, name: &str) -> Result<Option<Cow<'_, str>>, Failure> {
        match self.argument(name) {
            None => Ok(None),
            Some(value @ (Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Decimal(_))) => {
                text_form::stringify(value, self.budget()).map(Some)
            }
            Some(other) => Err(format!("`{name}` is a text, not a {}", other.kind()).into()),
        }
    }

    /// The boolean argument of a parameter; false if it is omitted.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.argument(name).is_some_and(Value::is_truthy)
    }

    /// The non-negative integer argument of a parameter; `None` if it is omitted.
    pub(super) fn count(&self, name: &str) -> Result<Option<usize>, Failure> {
        let Some(value) = self.argument(name) else { return Ok(None) };
        let count = value.as_i64().and_then(|count| usize::try_from(count).ok());
        count.map(Some).ok_or_else(|| format!("`{name}` is a whole number, zero or above").into())
    }
}

impl Values {
    /// Removes and returns the argument of this name.
    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.named.iter().position(|(known, _): &(Key, Value)| *known == *name)?;
        Some(self.named.remove(at).1)
    }
}
