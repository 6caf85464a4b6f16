//! Compares result types with input types.

use model::{InputType, ResultType};

/// Returns true if no value of the result type is accepted as input. Allows the conversions made at run time
/// (`connector::input`): digits to numbers, numbers to text, a value to a one-item list.
pub(super) fn never_fits(wanted: &InputType, given: &ResultType) -> bool {
    // Null counts as absent.
    let mut values = given.alternatives().iter().filter(|kind| **kind != ResultType::Null).peekable();
    values.peek().is_some() && values.all(|kind| never_fits_one(wanted, kind))
}

fn never_fits_one(wanted: &InputType, given: &ResultType) -> bool {
    let is_text = matches!(given, ResultType::Text | ResultType::Choice { .. });
    let is_number = matches!(given, ResultType::Integer | ResultType::Number);
    let is_map = matches!(given, ResultType::Map { .. } | ResultType::Object(_));
    let is_list = matches!(given, ResultType::List { .. });
    let is_file = *given == ResultType::File;
    if *given == ResultType::Any {
        return false;
    }
    match wanted {
        InputType::Any => false,
        InputType::Text | InputType::Url => !is_text && !is_number && !is_file,
        InputType::Integer { .. } | InputType::Number => match given {
            ResultType::Choice { options } => options.iter().all(|option| option.parse::<f64>().is_err()),
            _ => !is_text && !is_number,
        },
        InputType::Boolean => *given != ResultType::Boolean,
        InputType::Choice { options } => match given {
            ResultType::Choice { options: given } => !given.iter().any(|one| options.contains(one)),
            _ => !is_text && !is_number,
        },
        // A text may be a comma-separated list.
        InputType::List { items } => !is_list && !is_text && never_fits(items, given),
        InputType::Object { .. } | InputType::Map { .. } => !is_map,
        InputType::File => !is_text && !is_file,
    }
}
