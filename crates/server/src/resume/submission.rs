//! Submissions to a resume address.

use http::StatusCode;
use value::{JsonLimits, Map, Value};

use super::ResumeError;

/// The most bytes of a body.
pub(crate) const BODY_BYTES: usize = 64 << 10;
/// The name of the buttons in a form.
pub(super) const OPTION: &str = "option";
/// The prefix of the names of a form's inputs, so that an input may have the name of the buttons.
pub(super) const FIELD: &str = "form.";

/// A body, read.
#[derive(Debug, PartialEq)]
pub(super) enum Submission {
    /// No body.
    Nothing,
    /// A form of our own page.
    Form(Form),
    /// JSON.
    Json(Value),
}

/// A submitted form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// The button that was pressed.
    pub(super) option: Option<String>,
    /// The inputs by name, in order.
    pub(super) fields: Vec<(String, String)>,
}

impl Submission {
    /// Reads a body of this media type.
    pub(super) fn read(media_type: &str, body: &[u8]) -> Result<Self, ResumeError> {
        if body.is_empty() {
            return Ok(Self::Nothing);
        }
        match media_type {
            FORM => Ok(Self::Form(Form::read(body))),
            JSON => match Value::from_json(body, JsonLimits::default()) {
                Ok(value) => Ok(Self::Json(value)),
                Err(error) => {
                    let message = format!("the body is not JSON that can be taken: {error}");
                    Err(ResumeError::new(StatusCode::BAD_REQUEST, "bad_json", message))
                }
            },
            _ => {
                let message = format!("send the body as `content-type: {JSON}`");
                Err(ResumeError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message))
            }
        }
    }
}

/// The media type of an HTML form.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";
/// The media type of JSON.
pub(super) const JSON: &str = "application/json";

impl Form {
    fn read(body: &[u8]) -> Self {
        let mut form = Self::default();
        for (name, text) in form_urlencoded::parse(body) {
            if name == OPTION {
                form.option = Some(text.into_owned());
            } else if let Some(field) = name.strip_prefix(FIELD) {
                // Browsers send line breaks as HTTP writes them.
                form.fields.push((field.to_owned(), text.replace("\r\n", "\n")));
            }
        }
        form
    }

    /// The submitted text of an input.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, text)| text.as_str())
    }
}

/// An answer in JSON: `{option, form}`.
pub(super) fn answer(value: &Value) -> Result<(String, Map), ResumeError> {
    let wrong = |message: &str| ResumeError::new(StatusCode::BAD_REQUEST, "bad_answer", message);
    let Some(map) = value.as_map() else {
        return Err(wrong("send an object such as `{\"option\": \"approve\", \"form\": {}}`"));
    };
    if let Some(unknown) = map.keys().find(|key| !["option", "form"].contains(key)) {
        return Err(wrong(&format!("an answer has `option` and `form`, and no `{unknown}`")));
    }
    let option = map.get("option").and_then(Value::as_str);
    let option = option.ok_or_else(|| wrong("`option` says which of the answers is given; it is a text"))?;
    let form = match map.get("form") {
        None | Some(Value::Null) => Map::new(),
        Some(form) => form.as_map().cloned().ok_or_else(|| wrong("`form` is an object"))?,
    };
    Ok((option.to_owned(), form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_button_is_separate_from_an_input_of_the_same_name() {
        let body = b"form.option=x&form.note=a%0D%0Ab&stray=1&option=yes+please";
        let Ok(Submission::Form(form)) = Submission::read(FORM, body) else { panic!("a form") };
        assert_eq!(form.option.as_deref(), Some("yes please"));
        assert_eq!(
            (form.field("option"), form.field("note"), form.fields.len()),
            (Some("x"), Some("a\nb"), 2)
        );
    }

    #[test]
    fn an_unsupported_body_type_is_rejected_and_an_empty_body_accepted() {
        assert_eq!(Submission::read("text/plain", b""), Ok(Submission::Nothing));
        let code = |found: Result<Submission, ResumeError>| found.expect_err("a fault").code;
        assert_eq!(code(Submission::read("text/plain", b"{}")), "unsupported_media_type");
        assert_eq!(code(Submission::read(JSON, b"{")), "bad_json");
        assert_eq!(code(Submission::read(JSON, "[".repeat(60_000).as_bytes())), "bad_json");
    }

    #[test]
    fn a_json_answer_must_match_its_schema() {
        let read = |json: &str| {
            let value = Value::from_json(json.as_bytes(), JsonLimits::default()).expect("JSON");
            answer(&value).map_err(|fault| fault.message)
        };
        let (option, form) = read(r#"{"option": "approve", "form": {"a": 1}}"#).expect("an answer");
        assert_eq!((option.as_str(), form.len()), ("approve", 1));
        assert!(read(r#"{"option": "approve", "form": null}"#).is_ok());
        for (wrong, message) in [
            ("1", "send an object"),
            ("{}", "`option` says"),
            (r#"{"option": 1}"#, "`option` says"),
            (r#"{"option": "a", "form": []}"#, "`form` is an object"),
            (r#"{"option": "a", "reason": "b"}"#, "no `reason`"),
        ] {
            let found = read(wrong).expect_err("a fault");
            assert!(found.contains(message), "{wrong}: {found}");
        }
    }
}
