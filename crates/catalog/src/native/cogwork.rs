//! The description of the events of the engine: `cogwork.failure`, `cogwork.missing` and `cogwork.changed`.

use std::sync::Arc;

use connector::{EventSource, EventSpec};
use model::action::{InputSpec, InputType, ObjectType, ResultField, ResultType};
use model::engine_event::{EngineEventName, FailureKind, MAX_AFTER};

use super::input;

pub(super) fn events() -> Vec<EventSpec> {
    EngineEventName::ALL.map(event).into()
}

fn event(name: EngineEventName) -> EventSpec {
    let (title, description, inputs) = match name {
        EngineEventName::Failure => (
            "An execution, poll, subscription, schedule, event, file, source or message has failed",
            "The first failure of a kind starts an execution at once; further ones with the same automation, kind and step start one a minute, with their `count`. Executions of this trigger, and those that they start, raise no failures.",
            vec![
                list(
                    "kinds",
                    InputType::Choice { options: owned(&FailureKind::NAMES) },
                    "The kinds of failures; default: all",
                ),
                automations(),
                labels(),
                input(
                    "after",
                    InputType::Integer { min: Some(1), max: Some(i64::from(MAX_AFTER)) },
                    false,
                    "The number of failures in a row of an execution, poll, subscription or source; default: 1",
                ),
            ],
        ),
        EngineEventName::Missing => (
            "Nothing has succeeded, or no event has come, for some time",
            "It starts one execution for each silence. An automation or trigger that is disabled is not watched.",
            vec![
                automations(),
                labels(),
                input("event", InputType::Text, false, "The name of an own event, in place of automations"),
                input(
                    "within",
                    InputType::Text,
                    true,
                    "The longest silence, such as `26h`; for an event at most 7d",
                ),
            ],
        ),
        EngineEventName::Changed => (
            "An automation was added, changed or removed, or its state has changed",
            "It becomes stale if its file no longer loads, and valid if it loads again.",
            vec![automations(), labels()],
        ),
    };
    EventSpec {
        name: name.as_str().to_owned(),
        title: title.to_owned(),
        description: Some(description.to_owned()),
        connections: Vec::new(),
        connection_required: false,
        inputs,
        results: Some(results(name)),
        source: EventSource::Engine,
    }
}

fn automations() -> InputSpec {
    list("automations", InputType::Text, "The ids of the automations; default: all")
}

fn labels() -> InputSpec {
    list(
        "labels",
        InputType::Text,
        "Labels, of which the automation has at least one; default: any automation",
    )
}

fn list(name: &str, items: InputType, about: &str) -> InputSpec {
    input(name, InputType::List { items: Box::new(items) }, false, about)
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The type of `trigger.results`, whose fields are [`model::engine_event::MEMBERS`].
fn results(name: EngineEventName) -> ResultType {
    let text = || ResultType::Text;
    let automation = object([
        ("id", text(), "The id"),
        ("name", text(), "The name"),
        ("labels", ResultType::list(text()), "The labels"),
    ]);
    let error = ResultType::Object(Arc::new(ObjectType {
        name: None,
        fields: vec![
            ResultField::new("kind", text()).with_description("The kind, such as `status`"),
            ResultField::new("message", text()).with_description("The message for people"),
        ],
        open: true,
    }));
    let execution = object([
        ("id", text(), "The id"),
        ("origin", text(), "The kind of its start, such as `webhook`"),
        ("startedAt", text(), "When it was accepted"),
        ("attempt", ResultType::Integer, "The number of its last attempt"),
    ]);
    let file = object([
        ("path", text(), "The path"),
        ("line", ResultType::Integer.or_null(), "The line of the error"),
    ]);
    let kinds = ResultType::Choice { options: owned(name.kinds()).into() };
    object([
        ("kind", kinds, "The kind of what happened"),
        ("title", text(), "A sentence for people"),
        ("automation", automation.or_null(), "The automation; null if it concerns none, or several"),
        ("trigger", text().or_null(), "The id of the trigger"),
        ("error", error.or_null(), "The error"),
        ("execution", execution.or_null(), "The execution; the first of several"),
        ("file", file.or_null(), "The file"),
        ("eventName", text().or_null(), "The name of the event that was dropped or is missing"),
        ("count", ResultType::Integer, "The number of failures that this execution stands for"),
        ("since", text(), "When the first of them happened, or since when nothing succeeded or changed"),
        ("url", text().or_null(), "The address of the page in the web UI"),
    ])
}

fn object<const N: usize>(fields: [(&str, ResultType, &str); N]) -> ResultType {
    let fields = fields.map(|(name, kind, about)| ResultField::new(name, kind).with_description(about));
    ResultType::Object(Arc::new(ObjectType { name: None, fields: fields.into(), open: false }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_have_the_members_of_the_model() {
        for event in events() {
            let Some(ResultType::Object(results)) = event.results else { panic!("an object") };
            assert_eq!(results.names().collect::<Vec<_>>(), model::engine_event::MEMBERS);
        }
    }
}
