//! The filters of expressions: `value | name(arguments)`. A new filter needs a function in the file of its type and a row here.
//!
//! A filter charges the budget by the size of its subject and its arguments before it allocates. The hostile corpus in
//! `tests/hostile.rs` has a line for each row.

mod lists;
mod numbers;
mod scalars;
mod texts;

use super::evaluation::{EvalResult, Evaluation, Failure, UNDEFINED, Values};
use super::functions::{self, Function};
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
    /// True if it takes any number of further arguments.
    pub(super) variadic: bool,
    pub(super) run: fn(&Call<'_>) -> EvalResult,
}

const fn row(
    name: &'static str,
    parameters: &'static [&'static str],
    required: usize,
    run: fn(&Call<'_>) -> EvalResult,
) -> Row {
    Row { name, parameters, required, variadic: false, run }
}

const fn variadic(name: &'static str, run: fn(&Call<'_>) -> EvalResult) -> Row {
    Row { name, parameters: &[], required: 0, variadic: true, run }
}

impl Row {
    /// The parameters, and the number of required ones; `None` if it takes any number of arguments.
    pub(super) fn signature(&self) -> Option<(&'static [&'static str], usize)> {
        (!self.variadic).then_some((self.parameters, self.required))
    }
}

/// All filters except functions, by name.
pub(super) const TABLE: [Row; 49] = [
    row("abs", &[], 0, numbers::abs),
    row("attr", &["name"], 1, lists::attr),
    row("batch", &["count", "fill_with"], 1, lists::batch),
    row("bool", &[], 0, numbers::bool),
    row("capitalize", &[], 0, texts::capitalize),
    variadic("chain", lists::chain),
    row("count", &[], 0, lists::length),
    row("d", &["default_value", "boolean"], 0, lists::default),
    row("default", &["default_value", "boolean"], 0, lists::default),
    row("dictsort", &["case_sensitive", "by", "reverse"], 0, lists::dictsort),
    row("e", &[], 0, texts::escape),
    row("escape", &[], 0, texts::escape),
    row("first", &[], 0, lists::first),
    row("float", &["default"], 0, numbers::float),
    variadic("format", texts::format),
    row("groupby", &["attribute", "default", "case_sensitive"], 1, lists::groupby),
    row("indent", &["width", "first", "blank"], 0, texts::indent),
    row("int", &["default", "base"], 0, numbers::int),
    row("items", &[], 0, lists::items),
    row("join", &["d", "attribute"], 0, texts::join),
    row("last", &[], 0, lists::last),
    row("length", &[], 0, lists::length),
    row("lines", &[], 0, texts::lines),
    row("list", &[], 0, lists::list),
    row("lower", &[], 0, texts::lower),
    variadic("map", lists::map),
    row("max", &["case_sensitive", "attribute"], 0, lists::max),
    row("min", &["case_sensitive", "attribute"], 0, lists::min),
    row("raw", &[], 0, lists::identity),
    variadic("reject", lists::reject),
    variadic("rejectattr", lists::reject_attribute),
    row("replace", &["old", "new"], 2, texts::replace),
    row("reverse", &[], 0, lists::reverse),
    row("round", &["precision", "method"], 0, numbers::round),
    row("safe", &[], 0, lists::identity),
    variadic("select", lists::select),
    variadic("selectattr", lists::select_attribute),
    row("slice", &["count", "fill_with"], 1, lists::slice),
    row("sort", &["reverse", "case_sensitive", "attribute"], 0, lists::sort),
    row("split", &["separator", "maxsplit"], 0, texts::split),
    row("string", &[], 0, texts::string),
    row("sum", &["attribute", "start"], 0, lists::sum),
    row("title", &[], 0, texts::title),
    row("tojson", &["indent"], 0, texts::to_json),
    row("trim", &["chars"], 0, texts::trim),
    row("unique", &["case_sensitive", "attribute"], 0, lists::unique),
    row("upper", &[], 0, texts::upper),
    variadic("zip", lists::zip),
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
    /// The arguments of a variadic filter.
    pub(super) rest: Values,
}

impl<'c> Call<'c> {
    /// Binds arguments to parameters. `null` for an optional parameter counts as omitted.
    pub(super) fn bind(
        evaluation: &'c Evaluation<'c>,
        row: &'static Row,
        subject: Option<Value>,
        values: Values,
    ) -> Result<Self, Failure> {
        let mut call = Self { evaluation, row, subject, slots: Vec::new(), rest: Values::default() };
        if row.variadic {
            call.rest = values;
            return Ok(call);
        }
        let error = |message: String| Failure::Message(format!("`{}`: {message}", row.name));
        if values.positional.len() > row.parameters.len() {
            return Err(error(match row.parameters.len() {
                0 => "takes no arguments".to_owned(),
                max => format!("takes at most {max} arguments: {}", row.parameters.join(", ")),
            }));
        }
        call.slots = values.positional.into_iter().map(Some).collect();
        call.slots.resize(row.parameters.len(), None);
        for (name, value) in values.named {
            let Some(slot) = row.parameters.iter().position(|parameter| *parameter == name) else {
                let names = row.parameters.join(", ");
                return Err(error(format!("there is no argument `{name}`; it takes {names}")));
            };
            if call.slots[slot].is_some() {
                return Err(error(format!("`{name}` is given twice")));
            }
            call.slots[slot] = Some(value);
        }
        for (at, slot) in call.slots.iter_mut().enumerate() {
            if at < row.required && slot.is_none() {
                return Err(error(format!("`{}` is missing", row.parameters[at])));
            }
            let optional = at >= row.required && !matches!(row.name, "d" | "default");
            if optional && slot.as_ref().is_some_and(Value::is_null) {
                *slot = None;
            }
        }
        Ok(call)
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
            other @ (Value::Number(_) | Value::Bool(_) | Value::File(_)) => {
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
            Some(value @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) => {
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
