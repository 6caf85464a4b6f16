//! Parts of specifications.

use std::sync::Arc;

use model::action::{ObjectType, ResultField};
use model::{InputSpec, InputType, ResultType};
use value::Value;

pub(crate) fn optional(name: &str, kind: InputType, about: &str) -> InputSpec {
    let description = Some(about.to_owned());
    InputSpec { name: name.to_owned(), kind, required: false, default: None, description }
}

pub(crate) fn required(name: &str, kind: InputType, about: &str) -> InputSpec {
    InputSpec { required: true, ..optional(name, kind, about) }
}

pub(crate) fn defaulted(name: &str, kind: InputType, default: impl Into<Value>, about: &str) -> InputSpec {
    InputSpec { default: Some(default.into()), ..optional(name, kind, about) }
}

pub(crate) fn choice(options: &[&str]) -> InputType {
    InputType::Choice { options: options.iter().map(|option| (*option).to_owned()).collect() }
}

pub(crate) fn object(fields: impl IntoIterator<Item = ResultField>) -> ResultType {
    ResultType::Object(Arc::new(ObjectType { fields: fields.into_iter().collect(), ..ObjectType::default() }))
}
