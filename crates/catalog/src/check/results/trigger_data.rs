//! The types of what a trigger brings: parts of a webhook's request, events, records of a poll, messages of a broker.

use connector::{EventSource, PolledEvent};
use expression::Link;
use model::ResultType;
use model::action::InputSpec;
use model::automation::{DeclaredTrigger, Delivery, EventTrigger, OwnEventTrigger, Trigger};
use value::{Key, Value};

use super::resolve::resolve;
use super::types::Types;

impl Types<'_> {
    /// Returns the type of a part of a webhook's request that has the same type in each request.
    pub(super) fn request_part(
        &self,
        trigger: &DeclaredTrigger,
        path: &[Key],
    ) -> Option<(ResultType, usize)> {
        let Trigger::Webhook(webhook) = &trigger.on else { return None };
        let [_, results, part, ..] = path else { return None };
        if results != "results" || webhook.code.is_some() || self.unreadable.has("trigger") {
            return None;
        }
        let kind = match part.as_str() {
            "headers" => ResultType::map(ResultType::Text),
            // A repeated parameter is a list.
            "queryParameters" => {
                ResultType::map(ResultType::one_of([ResultType::Text, ResultType::list(ResultType::Text)]))
            }
            "method" => ResultType::Choice { options: webhook.methods.clone().into() },
            "pathFragment" | "rawQuery" => ResultType::Text,
            _ => return None,
        };
        Some((kind, 3))
    }

    /// Returns the type of a part of an own event: its data as the trigger declares them, or its description.
    pub(super) fn own_event(&self, trigger: &DeclaredTrigger, path: &[Key]) -> Option<(ResultType, usize)> {
        let event = trigger.on.own_event().filter(|_| !self.unreadable.has("trigger"))?;
        match path.get(1..)? {
            [results, body, data, ..] if results == "results" && body == "body" && data == "data" => {
                Some((event_data(event)?, 4))
            }
            [results, member, ..] if results == "results" && member == "event" => {
                let text = ["name", "id", "sentAt"].map(|name| (name, ResultType::Text));
                let by = ("by", ResultType::Text.or_null());
                Some((ResultType::object(text.into_iter().chain([by])), 3))
            }
            _ => None,
        }
    }

    /// Returns the type of a member of an event of the engine, which is also below `body.data`.
    pub(super) fn engine_event(
        &self,
        trigger: &DeclaredTrigger,
        path: &[Key],
    ) -> Option<(ResultType, usize)> {
        let Trigger::Event(event) = &trigger.on else { return None };
        let results = self.registry.event(&event.call.action.name)?.results.as_ref()?;
        match path.get(1..)? {
            [results_key, ..] if results_key != "results" || self.unreadable.has("trigger") => None,
            [_, body, data, ..] if body == "body" && data == "data" => Some((results.clone(), 4)),
            [_, member, ..] => Some((resolve(results, &[Link::Name(member.clone())]).ok()?, 3)),
            _ => None,
        }
    }

    /// Returns the type of the records of a polled event, or of the messages of a broker.
    pub(super) fn found(&self, trigger: &DeclaredTrigger, path: &[Key]) -> Option<(ResultType, usize)> {
        let Trigger::Event(event) = &trigger.on else { return None };
        let is_data = path.get(1..4).is_some_and(|path| path == ["results", "body", "data"]);
        // A delivery that could not be read may be either one.
        let is_unread = event.deliver.is_none() && self.automation.source.text().contains("deliver");
        if !is_data || is_unread || self.unreadable.has("trigger") {
            return None;
        }
        let (item, usual) = match &self.registry.event(&event.call.action.name)?.source {
            EventSource::Poll(poll) => (self.record(poll)?, Delivery::Batch),
            _ => (self.message(event)?, Delivery::Each),
        };
        let data = match event.deliver.map_or(usual, |(deliver, _)| deliver) {
            Delivery::Each => item,
            Delivery::Batch => ResultType::list(item),
        };
        Some((data, 4))
    }

    /// Returns the type of a record of a polled event; `None` if the action declares none.
    fn record(&self, poll: &PolledEvent) -> Option<ResultType> {
        let name = |path: &str| path.split('.').map(|name| Link::Name(name.into())).collect::<Vec<_>>();
        let mut links = name(&poll.items);
        links.push(Link::Every);
        links.extend(poll.record.as_deref().into_iter().flat_map(name));
        let record = resolve(&self.registry.action(&poll.action)?.spec().results, &links).ok()?;
        let changes = ["created", "updated"].map(str::to_owned);
        let change = ResultType::Choice { options: changes.into() };
        Some(ResultType::object([("changeType", change), ("record", record)]))
    }

    /// Returns the type of a message of a broker; `None` for another event.
    pub(super) fn message(&self, event: &EventTrigger) -> Option<ResultType> {
        let EventSource::Stream(stream) = &self.registry.event(&event.call.action.name)?.source else {
            return None;
        };
        let parse = event.call.with.iter().find(|(name, _)| name.name == "parse");
        let body = match parse.map(|(_, parse)| parse.literal().and_then(Value::as_str)) {
            Some(Some("text")) => ResultType::Text,
            Some(Some("file")) => ResultType::File,
            _ => ResultType::Any,
        };
        let properties = stream.properties.iter().map(|name| (*name, ResultType::Any));
        Some(ResultType::object([
            ("id", ResultType::Text),
            ("source", ResultType::Text),
            ("key", ResultType::Text.or_null()),
            ("body", body),
            ("headers", ResultType::map(ResultType::Any)),
            ("properties", ResultType::object(properties)),
            ("at", ResultType::Text.or_null()),
            ("redelivered", ResultType::Boolean),
        ]))
    }
}

/// Returns the type of the data that a trigger declares for its event; `None` if it takes any.
pub(super) fn event_data(event: &OwnEventTrigger) -> Option<ResultType> {
    event.data_span?;
    let field = |spec: &InputSpec| {
        let kind = ResultType::from(&spec.kind);
        let is_certain = spec.required || spec.default.is_some();
        (spec.name.clone(), if is_certain { kind } else { kind.or_null() })
    };
    Some(ResultType::object(event.data.iter().map(field)))
}
