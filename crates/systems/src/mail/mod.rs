//! Mailboxes of a server, over IMAP.
//!
//! * `spec`: the inputs and results of the actions
//! * `client`: what they do, in a program that was built with the feature `mail`

#[cfg(feature = "mail")]
mod client;
mod spec;

use std::sync::Arc;

use async_trait::async_trait;
#[cfg(feature = "mail")]
pub use client::read_responses;
use connector::{Action, Call, InputProblem, Registry, StaticInputs};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::{ActionError, ActionSpec, ErrorKind};
use text::diagnostic::Report;
use value::{Map, Value};

#[cfg(feature = "mail")]
use crate::pool::Pools;
use crate::spec::literal_problems;

/// The mailbox if no other is named.
const INBOX: &str = "INBOX";
/// The largest number of messages that `mail.search` gives.
const MAX_FOUND: i64 = 1_000;
/// The longest text of an input, in bytes.
const MAX_INPUT: usize = 1_000;

/// Adds the parts to the connector that sends mail.
pub(crate) fn register(registry: Registry) -> Result<Registry, Box<Report>> {
    #[cfg(feature = "mail")]
    let pools = Arc::new(Pools::default());
    let build = |kind: Kind, specify: fn(ActionSpec) -> ActionSpec| {
        #[cfg(feature = "mail")]
        let pools = pools.clone();
        move |spec: ActionSpec, subject: &str| {
            let action = Mail {
                kind,
                spec: specify(spec),
                subject: subject.to_owned(),
                #[cfg(feature = "mail")]
                pools: pools.clone(),
            };
            Arc::new(action) as Arc<dyn Action>
        }
    };
    let registry = registry.with_system(
        "connectors/mail.yaml",
        include_str!("../../manifests/mail.yaml"),
        &[
            ("search", &build(Kind::Search, spec::search)),
            ("listReceived", &build(Kind::ListReceived, spec::list_received)),
            ("get", &build(Kind::Get, spec::get)),
            ("mark", &build(Kind::Mark, spec::mark)),
            ("move", &build(Kind::Move, spec::transfer)),
            ("append", &build(Kind::Append, spec::append)),
            ("delete", &build(Kind::Delete, spec::delete)),
        ],
    )?;
    let is_built = cfg!(feature = "mail");
    let without =
        |registry: Registry, name| if is_built { registry } else { registry.without_feature(name, "mail") };
    Ok(["mail.imap", "mail.imapOauth"].into_iter().fold(registry, without))
}

/// The actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Search,
    ListReceived,
    Get,
    Mark,
    Move,
    Append,
    Delete,
}

/// An action.
struct Mail {
    kind: Kind,
    spec: ActionSpec,
    subject: String,
    #[cfg(feature = "mail")]
    pools: Arc<Pools<client::Session>>,
}

#[async_trait]
impl Action for Mail {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        let mut found = literal_problems(&self.spec.inputs, inputs, check);
        found.extend(self.without_effect(inputs));
        found
    }

    fn transport_inputs(&self) -> &'static [&'static str] {
        if self.kind == Kind::ListReceived { &["idle"] } else { &[] }
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        Box::pin(call.recorded(&self.spec, &self.subject, self.run(&call))).await
    }

    #[cfg(feature = "mail")]
    async fn listen(&self, call: Call<'_>, wake: &(dyn Fn() + Send + Sync)) -> ActionError {
        Box::pin(self.idle(&call, wake)).await
    }
}

/// The inputs of `mail.mark` that change something.
const MARKS: [&str; 4] = ["seen", "flagged", "keywords", "removeKeywords"];

impl Mail {
    /// The problem of inputs that have no effect together.
    fn without_effect(&self, inputs: &StaticInputs<'_>) -> Option<InputProblem> {
        let given =
            |name: &str| (inputs.template)(name).is_some_and(|given| given.literal() != Some(&Value::Null));
        let text = |name: &str| inputs.literal(name).and_then(Value::as_str);
        match self.kind {
            Kind::Mark if !MARKS.into_iter().any(given) => {
                let message = "nothing is changed";
                Some(InputProblem::new(
                    "uid",
                    message,
                    "add one of `seen`, `flagged`, `keywords` and `removeKeywords`",
                ))
            }
            Kind::Mark => {
                let words = |name: &str| inputs.literal(name).and_then(Value::as_list).unwrap_or_default();
                let both = words("keywords").iter().find(|word| words("removeKeywords").contains(word))?;
                let message = format!("`{}` is added by `keywords` and taken away", both.to_text());
                Some(InputProblem::new("removeKeywords", message, "remove it from one of the lists"))
            }
            Kind::Move => {
                let to = text("to")?;
                if to.is_empty() {
                    return Some(InputProblem::new("to", "it is empty", "name a mailbox"));
                }
                let from = if given("mailbox") { text("mailbox")? } else { INBOX };
                let message = format!("the message is in `{to}` already");
                (to == from).then(|| InputProblem::new("to", message, "name another mailbox"))
            }
            Kind::Append => {
                let content = inputs.literal("content")?;
                let is_message = content.as_str().is_some_and(|text| {
                    let first = text.lines().next().unwrap_or_default();
                    first.split_once(':').is_some_and(|(name, _)| !name.is_empty() && !name.contains(' '))
                });
                let message = "it is no message, which begins with headers";
                let help =
                    "write headers, an empty line and the body: `\"Subject: Order 17\\n\\n2 pieces\\n\"`";
                (!is_message).then(|| InputProblem::new("content", message, help))
            }
            Kind::Search => {
                let day = |name: &str| {
                    let inputs = Map::from_iter([(name, inputs.literal(name)?.clone())]);
                    day(&inputs, name).ok().flatten()
                };
                let (since, before) = (day("since")?, day("before")?);
                let message = format!("there is no day from {since} on that is before {before}");
                let help = "`before` is the day after the last one: write a later day, or swap both";
                (since >= before).then(|| InputProblem::new("before", message, help))
            }
            _ => None,
        }
    }

    #[cfg(not(feature = "mail"))]
    async fn run(&self, _: &Call<'_>) -> Result<Value, ActionError> {
        Err(ActionError::new(ErrorKind::Connection, "this program was built without `mail`"))
    }
}

/// Checks the inputs of any of the actions.
fn check(inputs: &Map) -> Result<(), ActionError> {
    for name in ["mailbox", "to", "from", "subject", "text"] {
        let text = inputs.get(name).and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() && name == "mailbox" && inputs.contains_key(name) {
            return Err(input_error(format!("`{name}` is empty")));
        }
        if text.len() > MAX_INPUT {
            return Err(input_error(format!("`{name}` has more than {MAX_INPUT} bytes")));
        }
        // They end a line of the protocol, or are not allowed in it.
        if text.chars().any(char::is_control) {
            return Err(input_error(format!("`{name}` has a line break or another control character")));
        }
    }
    for name in ["since", "before"] {
        day(inputs, name)?;
    }
    for name in ["keywords", "removeKeywords"] {
        keywords(inputs, name)?;
    }
    let limit = inputs.get("limit").and_then(Value::as_i64);
    if limit.is_some_and(|limit| !(1..=MAX_FOUND).contains(&limit)) {
        return Err(input_error(format!("`limit` is 1 to {MAX_FOUND}")));
    }
    Ok(())
}

/// The day in an input: a date, or that of an instant in UTC.
fn day(inputs: &Map, name: &str) -> Result<Option<Date>, ActionError> {
    let Some(text) = inputs.get(name).filter(|value| !value.is_null()).map(Value::to_text) else {
        return Ok(None);
    };
    let instant = || text.parse::<Timestamp>().ok().map(|at| at.to_zoned(TimeZone::UTC).date());
    // A date with a time and no zone is read as a date too, whose time is lost.
    let date =
        (text.len() == "2026-01-31".len()).then(|| text.parse::<Date>().ok()).flatten().or_else(instant);
    let date = date.ok_or_else(|| {
        input_error(format!("`{name}` is neither a date, such as `2026-01-31`, nor an instant: `{text}`"))
    })?;
    Ok(Some(date))
}

/// The keywords in an input: names of flags, which have no space and none of the characters of the protocol.
fn keywords<'a>(inputs: &'a Map, name: &str) -> Result<Vec<&'a str>, ActionError> {
    let given = inputs.get(name).and_then(Value::as_list).unwrap_or_default();
    let given: Vec<&str> = given.iter().filter_map(Value::as_str).collect();
    let is_plain = |c: char| c.is_ascii_graphic() && !"(){}%*\"\\]".contains(c);
    let is_good = |word: &&&str| !word.is_empty() && word.len() <= 100 && word.chars().all(is_plain);
    if given.len() > 20 {
        return Err(input_error(format!("`{name}` has more than 20 keywords")));
    }
    match given.iter().find(|word| !is_good(word)) {
        Some(word) => Err(input_error(format!(
            "`{name}`: `{}` is no keyword, which has up to 100 letters, digits and signs such as `$` and `-`",
            text::truncate(word, 100)
        ))),
        None => Ok(given),
    }
}

fn input_error(message: impl Into<String>) -> ActionError {
    ActionError::new(ErrorKind::Input, message)
}

#[cfg(test)]
mod tests {
    use value::JsonLimits;

    use super::*;

    fn problem(json: &str) -> Option<String> {
        let value = Value::from_json(json.as_bytes(), JsonLimits::default()).expect("JSON");
        check(value.as_map().expect("a map")).err().map(ActionError::into_message)
    }

    #[test]
    fn inputs_that_could_end_a_line_or_a_list_of_the_protocol_are_refused() {
        for json in [
            r#"{"mailbox": "INBOX\r\nA1 DELETE x"}"#,
            r#"{"to": "a\nb"}"#,
            r#"{"subject": "a\u0000"}"#,
            r#"{"keywords": ["a) b"]}"#,
            r#"{"keywords": ["\\Deleted"]}"#,
            r#"{"removeKeywords": [""]}"#,
            r#"{"since": "2026-01-31 FROM x"}"#,
            r#"{"since": "2026-01-31T08:00"}"#,
            r#"{"limit": 0}"#,
            r#"{"limit": 1001}"#,
        ] {
            assert!(problem(json).is_some(), "{json}");
        }
        for json in [
            r#"{"mailbox": "Архив & \"more\"", "from": "\"x\" <a@example.com>", "since": "2026-01-31"}"#,
            r#"{"keywords": ["$Junk", "booked-1"], "before": "2026-01-31T08:00:00Z", "limit": 1000}"#,
        ] {
            assert_eq!(problem(json), None, "{json}");
        }
    }
}
