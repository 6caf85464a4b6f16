//! The inputs of a form, rendered by type.

use maud::{Markup, html};
use model::action::{InputSpec, InputType};
use value::Value;

use super::strings;
use crate::resume::submission::{FIELD, Form};

/// One input with its label. `draft` is the previous submission.
pub(super) fn field(input: &InputSpec, id: &str, draft: Option<&Form>) -> Markup {
    let name = format!("{FIELD}{}", input.name);
    let filled = match draft {
        Some(draft) => draft.field(&input.name).unwrap_or_default().to_owned(),
        None => input.default.as_ref().map(|default| text(&input.kind, default)).unwrap_or_default(),
    };
    let about = input.description.as_deref().filter(|about| !about.is_empty());
    let hint = format!("{id}h");
    let described = about.map(|_| hint.as_str());
    if input.kind == InputType::Boolean {
        // An unchecked box means false, so it is never required.
        return html! {
            div.field.tick {
                input type="checkbox" id=(id) name=(name) value="true" checked[matches!(filled.as_str(), "true" | "on")]
                    aria-describedby=[described];
                label for=(id) { (strings::label(&input.name)) }
                (hinted(about, &hint))
            }
        };
    }
    html! {
        div.field {
            label for=(id) {
                (strings::label(&input.name))
                @if input.required { " " span.must { "required" } }
            }
            (hinted(about, &hint))
            (control(input, id, &name, &filled, described))
        }
    }
}

fn hinted(about: Option<&str>, id: &str) -> Markup {
    html! { @if let Some(about) = about { p.hint id=(id) dir="auto" { (strings::cut(about)) } } }
}

fn control(input: &InputSpec, id: &str, name: &str, filled: &str, described: Option<&str>) -> Markup {
    match &input.kind {
        InputType::Integer { min, max } => html! {
            input type="number" id=(id) name=(name) value=(filled) step="1" min=[*min] max=[*max] inputmode="numeric"
                required[input.required] aria-describedby=[described] autocomplete="off";
        },
        InputType::Number => html! {
            input type="number" id=(id) name=(name) value=(filled) step="any" inputmode="decimal"
                required[input.required] aria-describedby=[described] autocomplete="off";
        },
        InputType::Choice { options } => html! {
            select id=(id) name=(name) required[input.required] aria-describedby=[described] {
                @if !options.iter().any(|option| option == filled) || !input.required {
                    option value="" { @if input.required { "Choose one" } @else { "None" } }
                }
                @for option in options {
                    option value=(option) selected[option == filled] dir="auto" { (strings::capital(option)) }
                }
            }
        },
        kind => html! {
            // In a single-line field the enter key would submit the form.
            textarea id=(id) name=(name) rows="2" required[input.required] aria-describedby=[described]
                autocomplete="off" dir="auto" placeholder=[placeholder(kind)] spellcheck=[is_json(kind).then_some("false")] {
                "\n" (filled)
            }
        },
    }
}

/// The placeholder for the format of a non-text value.
fn placeholder(kind: &InputType) -> Option<&'static str> {
    match kind {
        InputType::List { .. } => Some("[\"a\", \"b\"]"),
        InputType::Map { .. } | InputType::Object { .. } => Some("{\"name\": \"value\"}"),
        _ => None,
    }
}

fn is_json(kind: &InputType) -> bool {
    placeholder(kind).is_some()
}

/// The text of a value in an input of this type.
fn text(kind: &InputType, value: &Value) -> String {
    if is_json(kind) { value.to_json() } else { value.to_text() }
}

/// A submitted value for display.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "Yes".to_owned(),
        Value::Bool(false) => "No".to_owned(),
        value => strings::cut(&value.to_text()),
    }
}
