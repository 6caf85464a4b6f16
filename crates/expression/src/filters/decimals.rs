//! Filters of exact numbers.

use value::{Decimal, MAX_DIGITS, Rounding, Value};

use super::Call;
use crate::decimals;
use crate::failure::{EvalResult, Failure};

/// `decimal`: converts a number or a text to an exact number, or returns `default`.
pub(super) fn decimal(call: &Call<'_>) -> EvalResult {
    let value = call.value()?;
    call.budget().charge(decimals::OPERATION)?;
    if let Value::String(text) = value {
        call.budget().charge_text(text.len())?;
    }
    let error = match decimals::parse(value) {
        Ok(number) => {
            call.evaluation.notes.has_decimals.set(true);
            return Ok(Some(decimals::to_value(number)));
        }
        Err(error) => error,
    };
    let Some(default) = call.argument("default") else {
        return Err(format!("the {} cannot be a decimal: {error}", value.kind()).into());
    };
    Ok(Some(match decimals::parse(default) {
        Ok(number) => {
            call.evaluation.notes.has_decimals.set(true);
            decimals::to_value(number)
        }
        Err(_) => default.clone(),
    }))
}

/// `round` of an exact number: it has exactly `precision` digits after the point.
pub(super) fn round(number: &Decimal, call: &Call<'_>) -> EvalResult {
    call.budget().charge(decimals::OPERATION)?;
    let places = match call.count("precision")? {
        None => 0,
        Some(places) => u8::try_from(places)
            .ok()
            .filter(|places| *places <= MAX_DIGITS)
            .ok_or_else(|| Failure::Message(format!("`precision` of a decimal is from 0 to {MAX_DIGITS}")))?,
    };
    let rounding = match call.text_argument("method")?.as_deref() {
        None | Some("common") => Rounding::Nearest,
        Some("ceil") => Rounding::Up,
        Some("floor") => Rounding::Down,
        Some(_) => return Err("`method` is `common`, `ceil` or `floor`".into()),
    };
    match number.round(places, rounding) {
        Ok(rounded) => Ok(Some(decimals::to_value(rounded))),
        Err(error) => Err(format!("{number} cannot be rounded: {error}").into()),
    }
}
